"""The memory of a program: lifetimes, one arena, reuse."""

import gc
import os
import tracemalloc
from functools import partial

import numpy as np
import pytest
from harness import alike, in_a_child, in_threads

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load, as_index, op
from minijit.compile.loops.statements import For, Kernel, Store, statements
from minijit.compile.memory import arena as buffers, in_place
from minijit.compile.memory.arena import arranged, check_plan, most_at_once
from minijit.compile.memory.overwriting import copied_by
from minijit.run.calls.planned_driver import plan_of
from tests import random_memory

pytestmark = pytest.mark.chapter(19)


# Chapter 23 has the backend, chapter 25 the pools that it takes memory from.
F32 = np.dtype("float32")
pooled = pytest.mark.chapter(25)
LLVM = pytest.param("llvm", marks=pooled)


def executable(f, *args, backend="plain"):
    """(the jitted function, its executable after a call)."""
    mj.clear_caches()
    f = mj.jit(f, backend=backend)
    f(*args)
    entry, = f.entries.values()
    return f, entry.executable


def plan(f, *args, backend="plain"):
    made = executable(f, *args, backend=backend)[1]
    return plan_of(mj.run.loading.rewritten(made.program))


def layers(x, w, n=6):
    for _ in range(n):
        x = jnp.tanh(x @ w + 1.0)
    return x


# Large enough for the BLAS: a product of smaller ones is a kernel.
x = np.random.RandomState(0).randn(64, 64).astype("f4") / 8


# ---- the arrangement


def lives_and_sizes(seed):
    rs = np.random.RandomState(seed)
    n = rs.randint(1, 40)
    first = rs.randint(0, 30, n)
    long = rs.geometric(0.3, n) - 1
    lives = [(int(a), int(a + b)) for a, b in zip(first, long, strict=True)]
    return lives, [64 * int(k) for k in rs.choice([0, 1, 2, 3, 16, 50], n)]


@pytest.mark.parametrize("seed", range(50))
def test_those_that_live_at_once_lie_apart(seed):
    lives, sizes = lives_and_sizes(seed)
    offsets, total = arranged(lives, sizes)
    assert most_at_once(lives, sizes) <= total <= sum(sizes)
    for i in range(len(lives)):
        assert 0 <= offsets[i] <= total - sizes[i]
        for j in range(i):
            together = lives[i][0] <= lives[j][1] and lives[j][0] <= lives[i][1]
            apart = (
                offsets[i] + sizes[i] <= offsets[j]
                or offsets[j] + sizes[j] <= offsets[i]
            )
            assert apart or not together


def test_most_arrangements_are_as_small_as_can_be():
    pairs = [lives_and_sizes(seed) for seed in range(200)]
    ratios = [arranged(*p)[1] / max(most_at_once(*p), 1) for p in pairs]
    assert np.mean(ratios) < 1.02 and max(ratios) < 1.3


def test_the_smallest_gap_is_taken():
    """The last one may lie where the second or the fourth does."""
    sizes = [64, 192, 64, 64, 64, 64]
    meet = [[{i, j} not in ({1, 5}, {3, 5}) for j in range(6)] for i in range(6)]
    offsets = buffers.placed_in_order(range(6), sizes, meet)
    assert [offsets[k] for k in range(6)] == [0, 64, 256, 320, 384, 320]


def test_nothing_to_arrange():
    assert arranged([], []) == ([], 0)
    # The one that begins later is given first.
    assert most_at_once([(3, 3), (0, 3)], [64, 64]) == 128


def test_the_checker_finds_what_overlaps():
    made = plan(layers, x, x)
    slots = tuple(
        buffers.Slot(s.owner, 0, s.nbytes, s.first, s.last) for s in made.slots
    )
    with pytest.raises(AssertionError, match="share memory"):
        check_plan(buffers.Plan(slots, made.nbytes, made.least, 0))
    slot = lambda at, first, last, size=64: buffers.Slot("", at, size, first, last)
    between_lines, past_the_end = [slot(8, 0, 1)], [slot(256, 0, 1)]
    amid_others = [slot(0, 0, 10, 256), slot(64, 20, 30), slot(128, 5, 6)]
    for wrong in between_lines, past_the_end, amid_others:
        with pytest.raises(AssertionError):
            check_plan(buffers.Plan(tuple(wrong), 256, 64, 0))


# ---- plans of programs


@pytest.mark.parametrize("n", [2, 5, 100])
def test_many_layers_hold_two_buffers(n):
    made = plan(lambda x, w: layers(x, w, n), x, x)
    assert made.nbytes == made.least <= 2 * x.nbytes
    assert made.results == x.nbytes


def test_what_is_alive_at_once_lies_side_by_side():
    def f(x):
        a, b, c = x @ x, x @ x.T, x.T @ x
        return (a @ b) @ c

    made = plan(f, x)
    assert made.least >= 3 * x.nbytes
    assert made.nbytes == made.least


def test_slots_begin_on_lines_of_the_cache():
    made = plan(lambda x: ((x[:39] @ x[:, :41]) @ x[:41]) @ (x @ x[:, :35]), x)
    assert len(made.slots) > 1
    assert all(slot.offset % 64 == 0 for slot in made.slots)


def test_an_inner_program_lies_in_its_callers_arena():
    inner = mj.jit(lambda x, w: layers(x, w, 12))

    def f(x, w):
        for _ in range(3):
            x = inner(x, w) + inner(w, x)
        return x

    made = plan(f, x, x)
    program = executable(f, x, x)[1].program
    assert program.calls and all(c.routine == "program" for c in program.calls)
    within = plan_of(mj.run.loading.rewritten(program.calls[0].attrs["program"]))
    assert within.nbytes and any(not hasattr(s.owner, "shape") for s in made.slots)
    assert made.nbytes == made.least
    want = mj.jit(f, backend="eval")(x, x)
    np.testing.assert_allclose(mj.jit(f)(x, x), want, rtol=1e-5, atol=1e-6)


# ---- what a call takes

@pooled
def test_memory_in_use_is_what_the_plan_says():
    x = np.ones((400, 400), "f4")
    f = mj.jit(lambda x: layers(x, x / 1000, 8))
    f(x)
    mj.clear_caches()
    f(x)
    entry, = f.entries.values()
    wanted = plan_of(mj.run.loading.rewritten(entry.executable.program)).peak
    gc.collect()
    mj.run.pool.empty_pools()
    tracemalloc.start()
    y = f(jnp.asarray(x))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The argument is copied once, as an array of NumPy's that may change.
    assert wanted <= peak < wanted + 1.2 * x.nbytes
    del y


@pooled
def test_arenas_are_freed_with_the_caches_and_with_the_function():
    arenas = lambda: {p for p in mj.run.pool.pools if hasattr(p, "plan")}
    before = arenas()
    f = executable(layers, x, x, backend="llvm")[0]
    own, = [a for a in arenas() - before if a.lent]
    mj.clear_caches()
    assert not own.lent
    del f, own
    gc.collect()
    assert arenas() <= before


@pooled
@pytest.mark.parametrize("room, kept", [(8000, 1), (7999, 0)])
def test_a_pool_keeps_what_fits_twice(monkeypatch, room, kept):
    mj.run.pool.empty_pools()
    monkeypatch.setitem(mj.config.values, "pool_bytes", room)
    own = mj.run.pool.Pool((1000,), np.dtype("f4"))
    own.take()
    assert len(own.lent) == kept


def test_threads_have_arenas_of_their_own():
    x = np.random.RandomState(1).randn(64, 64).astype("f4") / 16
    f = mj.jit(layers)
    given = [x * k for k in range(1, 5)]
    want = [np.asarray(f(g, x)) for g in given]
    wrong = []

    def work(k):
        for _ in range(20):
            if not np.array_equal(f(given[k], x), want[k]):
                wrong.append(k)

    in_threads(*[partial(work, k) for k in range(4)])
    assert not wrong


def with_callback(f):
    """A function with a callback between its products."""

    def g(x):
        y = x @ x + 1.0
        z = y @ x
        mj.debug.callback(f, x, z)
        return (z @ y) @ y

    return g


@pytest.mark.parametrize("backend", ["plain", LLVM])
def test_a_call_within_a_call_has_its_own_arena(backend):
    found = []

    def again(x, z):
        if len(found) < 3:
            found.append(0)
            k = len(found) - 1
            found[k] = np.array(g(x * 0.5))

    g = mj.jit(with_callback(again), backend=backend)
    got = np.array(g(x))
    want = [np.array(g(x * 0.5**k)) for k in range(4)]
    assert len(found) == 3
    alike([got, *found], want)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_the_middle(error):
    fails = []

    def maybe(x, z):
        if fails:
            raise error("in the middle")

    g = mj.jit(with_callback(maybe))
    want = np.array(g(x))
    for _ in range(3):
        fails.append(1)
        with pytest.raises(error):
            g(x * 3)
        fails.clear()
        assert np.array_equal(g(x), want)


def test_what_a_callback_keeps_stays_what_it_was():
    kept = []
    f = mj.jit(with_callback(lambda x, z: kept.append(z)))
    for k in range(1, 5):
        f(x * k)
    for k, seen in enumerate(kept, 1):
        a = x * k
        np.testing.assert_allclose(seen, (a @ a + 1) @ a, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_an_arena_of_its_own():
    f = mj.jit(layers)
    want = np.array(f(x, x))
    in_a_child(lambda: all(np.array_equal(f(x, x), want) for _ in range(5)))
    assert np.array_equal(f(x, x), want)


# ---- in place


@pytest.fixture
def small_arrays_too():
    """The smallest array is worth to be written over."""
    with random_memory.small_arrays_too():
        yield


def loaded(f, *args, backend="plain"):
    """The program as it is loaded, after its results were compared."""
    made = executable(f, *args, backend=backend)[1]
    want = mj.jit(f, backend="eval")(*args)
    alike(mj.jit(f, backend=backend)(*args), want, rtol=1e-4, atol=1e-5)
    return mj.run.loading.rewritten(made.program)


def test_a_kernel_writes_over_what_it_reads_last(small_arrays_too):
    program = loaded(layers, x, x)
    # A product needs its operand and its result, a kernel between them no other.
    assert len(program.temps) == 5
    assert plan_of(program).nbytes == 2 * x.nbytes


def test_an_array_that_two_stores_read_is_written_by_the_second(small_arrays_too):
    def f(x):
        y = x @ x
        a, b = jnp.sin(y), jnp.cos(y) * 2.0
        return (a @ b), a + b

    program = loaded(f, x)
    assert plan_of(program).nbytes <= 2 * x.nbytes


def test_stores_into_one_array_keep_their_order(small_arrays_too):
    """As an array that is made, and then changed at each index by what it replaces."""
    i, (old, new, other) = Axis(8, "loop"), (Buffer(k, (8,), F32) for k in "abc")
    was = Load(old, (i,))
    twice = Store(new, (i,), Load(other, (i,))), Store(new, (i,), op("add", was, was))
    always = lambda read, stored: (read, stored) == (old, new)
    kernel = Kernel("k0", (For(i, twice),), ())
    pairs, kernel = in_place.reusable(kernel, always)
    # The first store would destroy what the second one reads, and must not be the last.
    assert pairs == [] and kernel.body[0].body == twice
    late = Store(other, (i,), was)
    kernel = Kernel("k0", (For(i, (Store(new, (i,), was), late)),), ())
    pairs, kernel = in_place.reusable(kernel, always)
    assert pairs == [(old, new)] and kernel.body[0].body[0] is late
    # Behind the one whose result it reads, which is behind the last to read the array.
    stores = Store(new, (i,), was), Store(Buffer("d", (8,), F32), (i,), Load(new, (i,)))
    reads = dict(zip((*stores, late), ([was], [Load(new, (i,))], [was]), strict=True))
    assert [*in_place.after_reads({0: (old, new)}, [*stores, late], reads)] == [2, 0, 1]


@pytest.mark.parametrize("index, shape, whole", [
    ("ij", (8, 4), True), ("ji", (4, 8), True), ("ij", (9, 4), False),
    ("i", (8,), False), ("ii", (8, 8), False), ("ij0", (8, 4, 1), True),
])  # fmt: skip
def test_a_store_covers_an_array_where_each_element_is_stored_once(index, shape, whole):
    axes = Axis(8), Axis(4)
    places = dict(zip("ij0", (*axes, as_index(0)), strict=True))
    index = tuple(places[k] for k in index)
    store = Store(Buffer("x", shape, F32), index, as_index(0))
    assert in_place.covers(store, axes) == whole


@pytest.mark.chapter(25)
@pytest.mark.parametrize("n", [29, 93, 381])
def test_the_gradient_of_a_running_maximum(small_arrays_too, n):
    x = np.random.RandomState(0).standard_normal(n).astype("f4")
    weights = np.cos(np.arange(n)).astype("f4")
    grad = mj.grad(lambda x: (lax.cummax(x * 1.5) * weights).sum())
    np.testing.assert_allclose(mj.jit(grad)(x), grad(x), 1e-5, 1e-5)


def test_an_argument_or_a_result_is_never_written_over(small_arrays_too):
    given = jnp.asarray(x)

    def f(x):
        y = x @ x
        return x + 1.0, y, y * 2.0, x.at[0].set(0.0)

    loaded(f, given)
    np.testing.assert_array_equal(given, x)


copied = {
    "argument": (lambda x: x.at[0].set(1.0), "its argument again"),
    "result": (lambda x: ((y := x @ x), y.at[0].set(1.0)), "result"),
    "taken": (lambda x: ((y := x @ x).at[0].set(1.0), y.at[1].set(1.0)),
              "another update"),
    "read later": (lambda x: ((y := x @ x).at[0].set(1.0) @ x @ y, y[1]),
                   "matmul reads t"),
}


@pytest.mark.parametrize("rule", copied)
def test_a_copy_that_is_left_says_why(unfused, rule):
    f, text = copied[rule]
    program = loaded(f, x)
    copy, = program.copies
    assert copy.rule == rule and text in str(copy)
    assert copy.nbytes == x.nbytes
    line, = copy.sources
    assert line.file == __file__
    assert plan_of(program).copies == program.copies


@pytest.mark.chapter(21)
def test_a_loop_begins_in_the_memory_of_what_it_is_given():
    def f(x):
        return lax.fori_loop(0, 5, lambda i, t: t.at[i].set(t[i] * 2.0), x @ x)

    program = loaded(f, x)
    region, = (k for k in program.kernels if k.name != "k0")
    stores = [s for s in statements(region.body) if isinstance(s, Store)]
    assert not any(copied_by(s) and s.index and s.buffer.shape for s in stores)
    assert not program.copies and plan_of(program).nbytes < x.nbytes


@pytest.mark.parametrize("seed", [*range(25), 411])
def test_random_programs_give_the_same_bits(seed):
    random_memory.compare(seed)


@pooled
@pytest.mark.parametrize("seed", range(25, 31))
def test_random_programs_compiled(seed):
    random_memory.compare(seed, "llvm")


@pytest.mark.parametrize("backend", ["plain", LLVM])
def test_what_python_makes_for_an_inner_program_reaches_its_caller(backend):
    """The inner program sorts: it returns that result, and is given the other one."""

    @mj.jit
    def inner(x):
        y = x
        for _ in range(30):
            y = jnp.sin(y) * 1.5 + x
        return jnp.sort(x), y

    def f(x):
        y = jnp.sin(x)
        return inner(y)[0] + inner(y)[1] * 3, inner(y + 1), inner(jnp.cos(y))

    x = np.arange(20.0)[::-1].copy()
    g = mj.jit(f, backend=backend)
    alike(g(x), f(x), rtol=1e-4, atol=1e-4)
