"""The loops of a kernel are those that cost least, and compute the same."""

import itertools
import math
import re
from collections import namedtuple
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from harness import alike, as_interpreted
from test_long_rows import extents, kernels_of, numbers

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.compile.decisions import noting
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.check import check_program
from minijit.compile.loops.contents import loads_of, outline, totals_in
from minijit.compile.loops.expressions import Axis, Const, Load, Reduce, as_index, op
from minijit.compile.loops.graphs import allowed, postorder
from minijit.compile.loops.kernel_buffers import local_buffers
from minijit.compile.loops.scalars import storage_dtype
from minijit.compile.loops.statements import (
    For, Kernel, Program, Store, expressions, nested, replaced, statements,
)
from minijit.compile.lower.walk import lower
from minijit.compile.schedule import choose, cost, lines, recipes
from minijit.compile.schedule.access import access_of
from minijit.compile.schedule.cost import price
from minijit.compile.schedule.interchange import longest_piece
from minijit.compile.schedule.lines import trips
from minijit.compile.schedule.machine import Machine, host_caches
from minijit.compile.schedule.nests import split
from minijit.compile.schedule.placing_rules import arrange
from minijit.compile.schedule.primitives import (
    Nest, NotAllowed, distribute, flat, independent, joined, reordered,
)
from minijit.compile.schedule.recipes import candidates
from minijit.compile.schedule.weights import weight
from minijit.compile.schedule.vector_loops import in_first_places
from minijit.compile.simplify.folding import simplify
from minijit.run.llvm.kernels import KernelText, functions_of
from minijit.run.llvm.target import vector_bytes
from minijit.run.llvm.types import memory_type
from minijit.run.llvm.vectors import in_register
from minijit.run.loading import rewritten
from minijit.run.threads.kernels import is_divided

pytestmark = [pytest.mark.chapter(24), pytest.mark.fusion]
agree = partial(as_interpreted, backend="llvm")
f32 = np.dtype("float32")


def of(*shape, dtype="float32"):
    return mj.ShapeDtypeStruct(shape, dtype)


def shifted(x, w):
    padded = jnp.pad(x, ((0, 0), (15, 0), (0, 0)))
    return (sum(padded[:, k : k + x.shape[1]] * w[k] for k in range(16)) ** 2).sum()


def sliced(x, w):
    long = jnp.concatenate([jnp.zeros((x.shape[0], 15, x.shape[2])), x], 1)
    parts = [lax.slice_in_dim(long, k, k + x.shape[1], axis=1) for k in range(16)]
    total = jnp.zeros_like(x)
    for part, row in zip(parts, w, strict=True):
        total = total + part * row
    return jnp.square(total).sum()


def picked(x, i):
    return jnp.take(x, i, axis=0), x - x.mean(1, keepdims=True)


def indexed(x, i):
    return x[i], (x - x.sum(axis=1, keepdims=True) / x.shape[1]) * 2


def variation(x):
    return jnp.square(jnp.diff(x, axis=0)).sum() + abs(jnp.diff(x, axis=1)).sum()


def roughness(x):
    down, right = x[1:] - x[:-1], x[:, 1:] - x[:, :-1]
    return (down * down).sum() + jnp.where(right > 0, right, -right).sum()


def row_norm(x):
    return jnp.where(x > 0, x, -x).max(-1), (x * x).sum(-1)


image, take = of(2695, 8, 22), of(32, dtype="int32")
# {name: (function, its arguments, how many times as dear today's loops are at least)}
cliffs = {
    "shifted": (mj.grad(shifted, (0, 1)), (of(8, 256, 512), of(16, 512)), 10),
    "sliced": (mj.grad(sliced, (0, 1)), (of(8, 256, 512), of(16, 512)), 10),
    "picked": (picked, (of(128, 128, 40), take), 10),
    "indexed": (indexed, (of(128, 128, 40), take), 10),
    "variation": (mj.grad(variation), (image,), 5),
    "roughness": (mj.grad(roughness), (image,), 5),
    "max of 10": (lambda x: x.max(1), (of(100_000, 10),), 3),
    "norms of 5": (row_norm, (of(60_000, 5),), 1.5),
    "argmax of 8": (lambda x: x.argmax(-1), (of(40_000, 8),), 1.2),
    "argmin of 6": (lambda x: jnp.argmin(x * 2, axis=1), (of(50_000, 6),), 1.5),
    "logsumexp": (mj.grad(lambda x: nn.logsumexp(x, 1).sum()), (of(50_000, 7),), 3),
    "log_softmax": (lambda x: nn.log_softmax(x, axis=-1), (of(50_000, 9),), 1.5),
    "transpose": (lambda x: x.transpose(3, 2, 1, 0) * 1, (of(8, 8, 128, 128),), 2),
    "moveaxis": (lambda x: jnp.moveaxis(x.swapaxes(2, 3), (1, 0), (2, 3)) + 1,
                 (of(8, 8, 128, 128),), 2),
    "softmax": (lambda x: nn.softmax(x, 0), (of(4096, 1000),), 1.3),
}


def program_of(f, args):
    return lower(simplify(mj.make_jaxpr(f)(*args)), programs={})


@pytest.mark.parametrize("name", cliffs)
@pytest.mark.parametrize("level", ["book", "x86-64-v4"])
def test_the_chosen_loops_cost_less(name, level):
    f, args, times = cliffs[name]
    machine = Machine.book() if level == "book" else Machine(level)
    program = program_of(f, args)
    with mj.config.override("machine", level), mj.config.override("debug_checks", True):
        chosen = choose.scheduled(program)
    one = replace(machine, cores=1)
    cost = choose.price_of(chosen, one)
    assert choose.price_of(program, one) > times * cost


def value(aval, rng):
    if aval.dtype == np.int32:
        return jnp.asarray(rng.integers(0, 100, aval.shape).astype("int32"))
    return jnp.asarray(rng.standard_normal(aval.shape).astype(aval.dtype))


# A total among the elements that its row is copied to, and not beside them.
a_column = lambda x: jnp.clip(x.at[:, 3].set(x.min(1), mode="clip"), -8, 8)
same = {n: cliffs[n][:2] for n in ("picked", "roughness", "norms of 5", "argmin of 6")}
same["a column of totals"] = a_column, (of(300, 100),)


@pytest.mark.parametrize("name", same)
def test_the_chosen_loops_compute_the_same(name, monkeypatch):
    """And so do the last of the ways, which are joined if any are."""
    f, args = same[name]
    args = [value(a, np.random.default_rng(0)) for a in args]
    found = mj.jit(lambda *a: f(*a))(*args)
    last = mj.schedule(f, lambda loops: loops.take([*loops.ways][-1]))(*args)
    monkeypatch.setattr(choose, "choice", lambda *args: None)
    mj.clear_caches()
    wanted = mj.jit(lambda *a: f(*a))(*args)
    alike(found, wanted, rtol=1e-5, atol=1e-5)
    alike(last, wanted, rtol=1e-5, atol=1e-5)


def test_rows_that_follow_each_other_are_one_run():
    i, j = Axis(256), Axis(256)
    access = SimpleNamespace(
        size=4, steps=[(i, 1024), (j, 4)], buffer=SimpleNamespace(nbytes=1 << 18)
    )
    _, points, apart = lines.Group(access, False).count({i, j}, 64)
    assert (points, apart) == (1.0, [])


def test_what_costs_nothing_to_look_at_stays():
    program = program_of(lambda x: jnp.tanh(x) * 2, (of(1000, 1000),))
    assert choose.scheduled(program) is program
    small = program_of(lambda x: x.max(1), (of(100, 10),))
    assert choose.scheduled(small) is small


def backwards(steps):
    """Products of small matrices in each step: none is worth a choice by itself."""

    def loss(w, v, x):
        step = lambda y, _: (y + 0.1 * jnp.tanh(y @ w) @ v, None)
        return (lax.scan(step, x, None, length=steps)[0] ** 2).sum()

    return mj.grad(loss, (0, 1)), (of(8, 32), of(32, 8), of(32, 8))


def test_what_a_step_gains_counts_for_each_step():
    few, many = (program_of(*backwards(n)) for n in (1, 80))
    assert choose.scheduled(few) is few
    machine = Machine.in_force()
    before, after = ([p for c in made.calls for p in c.attrs.get("programs", ())]
                     for made in (many, choose.scheduled(many)))  # fmt: skip
    cost = [sum(choose.price_of(p, replace(machine, cores=1, kernel=0)) for p in loops)
            for loops in (before, after)]  # fmt: skip
    assert cost[0] > 1.5 * cost[1]
    f, args = backwards(80)
    args = [0.1 * value(a, np.random.default_rng(0)) for a in args]
    agree(f, *args, rtol=1e-4)
    # A chooser is asked about the kernels of steps, a user's recipe about all others.
    asked, known = [], []
    chooser = lambda program, kernel, machine: asked.append(machine.kernel > 0)
    settings = choose.Choosing.by(chooser, mj.config.fusion)
    with mj.config.override("fusion", settings):
        choose.scheduled(few)
    recipe = lambda loops: known.append(loops.name)
    alike(mj.schedule(f, recipe)(*args), mj.jit(f)(*args), rtol=1e-4)
    assert (sum(asked), len(asked)) == (len(known), 6)


def test_rows_that_are_vectors_are_not_turned_into_lanes():
    """Lanes of them are no quicker, and were 7,000 lines for LLVM: here are 1,000."""
    numbers = ("NHWC", "HWIO", "NHWC")
    depthwise = lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=8
    )
    pooled = lambda x: lax.reduce_window(
        x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )
    image = of(4, 96, 96, 8)
    for f, args in ((depthwise, (image, of(3, 3, 1, 8))), (pooled, (image,))):
        kernel, = program_of(f, args).kernels
        assert not list(recipes.short_rows(kernel.body))
        assert mj.jit(f).lower(*args).compile().as_text("llvm").count("\n") < 1200
    # Totals of all columns are a vector's for each column in lanes only.
    softmax, = program_of(lambda x: nn.softmax(x, 1), (of(100_000, 8),)).kernels
    assert list(recipes.short_rows(softmax.body))


def test_the_ledger_has_the_rejected_with_their_prices():
    program = rewritten(program_of(lambda x: x.max(1), (of(100_000, 10),)))
    decision, = (d for d in program.decisions if d.rule == "schedule")
    assert decision.numbers["as fused"] > decision.numbers["short rows in lanes"]
    report = mj.explain(lambda x: x.max(1), jnp.ones((100_000, 10)))
    assert "short rows in lanes" in str([d.numbers for d in report.decisions])
    # What rows have in registers is not priced in arrays between loops.
    program = rewritten(program_of(nn.log_softmax, (of(100_000, 10),)))
    decision, = (d for d in program.decisions if d.rule == "schedule")
    assert "short rows written out" in decision.numbers
    assert "distribute" not in decision.numbers


def test_integers_of_64_bits_are_computed_and_fill_registers_sooner():
    """An element and its place are one such integer, and no index: 16 of them, written
    out five times, took twice as long as loops, and twenty times as long to compile."""
    program = program_of(lambda x: lax.top_k(x, 5)[1], (of(640, 16),))
    kernel, = program.kernels
    assert not list(recipes.short_rows(kernel.body))
    words = [e for total in totals_in(kernel.body) for e in total.bodies]
    assert {e.dtype.name for e in words} == {"int64"}
    assert max(weight(e)[0] for e in words) == 1
    assert weight(op("add", Axis(5), op("mul", Axis(3), as_index(7))))[0] == 0
    assert choose.choice(program, kernel, Machine.book()) is None  # as it is fused


def two_maxima():
    """Two kernels of short rows, which cannot be one."""
    f = lambda x, y: (x.max(1), y.argmax(1))
    program = program_of(f, (of(100_000, 10), of(40_000, 8)))
    assert len(program.kernels) == 2
    return program


def test_of_kernels_that_are_alike_one_is_asked(monkeypatch):
    """The others are named in the ledger as it is, and run in the same way."""
    rows, wide = of(100_000, 10), of(100_000, 9)
    f = lambda x, y, z: (x.max(1), y.max(1), z.max(1))
    program, machine = program_of(f, (rows, wide, rows)), Machine.book()
    asked, choice = [], choose.choice
    note = lambda p, k, m: asked.append(k) or choice(p, k, m)
    monkeypatch.setattr(choose, "choice", note)
    with noting() as found:
        chosen = choose.choices([*choose.by_themselves(program, machine)], machine)
    assert len(chosen) == 3
    assert len(asked) == 2
    x, y, z = (way.recipe for way in chosen.values())
    assert x == z
    assert [about for rule, about, _ in found if rule == "schedule"] == [*zip(chosen)]
    bodies = [way.bodies[0] for way in chosen.values()]
    reads = [{load.buffer for load in loads_of(body)} for body in bodies]
    assert {*program.inputs} <= set().union(*reads)  # Each reads its own.


def test_the_outline_of_statements_has_no_names():
    (x, y, z), i, j = buffers("x", "y", "z", shape=(50,)), Axis(50), Axis(50)

    def of_loop(axis, a, b, name="sin"):
        return outline((For(axis, (Store(b, (axis,), op(name, Load(a, (axis,)))),)),))

    found, arrays = of_loop(i, x, y)
    assert arrays == [y, x] or arrays == [x, y]
    assert of_loop(j, y, z)[0] == found
    assert of_loop(j, y, y)[0] != found  # It stores where it reads.
    assert of_loop(j, y, z, "cos")[0] != found
    assert of_loop(Axis(49), y, z)[0] != found
    short, = buffers("short", shape=(49,))
    assert of_loop(i, short, z)[0] != found


def test_what_goes_wrong_in_pricing_is_a_remark(monkeypatch):
    program = program_of(lambda x: x.max(1), (of(100_000, 10),))

    def wrong(body):
        raise KeyError("no such price")

    monkeypatch.setattr(recipes, "short_rows", wrong)
    found = rewritten(program)
    decision, = (d for d in found.decisions if d.rule == "not priced")
    assert "no such price" in str(decision.numbers)
    assert [k.body for k in found.kernels] == [k.body for k in program.kernels]
    with (
        mj.config.override("debug_checks", True),
        pytest.raises(KeyError, match="no such price"),
    ):
        choose.scheduled(program)


def test_only_what_the_checker_refuses_is_given_up(monkeypatch):
    program, short_rows = two_maxima(), recipes.short_rows
    refused, other = program.kernels

    def ill_formed(body):
        for candidate in short_rows(body):
            twice = candidate.bodies * 2 if body is refused.body else candidate.bodies
            bodies = tuple(b + b for b in twice) if body is refused.body else twice
            yield replace(candidate, bodies=bodies)

    monkeypatch.setattr(recipes, "short_rows", ill_formed)
    shorter = lambda bodies, machine, most: 1e9 / len(str([*bodies]))
    monkeypatch.setattr(cost, "price", shorter)
    found = choose.scheduled(program)
    assert refused in found.kernels
    assert other not in found.kernels


def test_a_kernel_is_well_formed_without_the_steps_that_wrote_what_it_changes():
    rows, u, i = of(100, 8), of(5, 8), of(5, dtype="int32")
    program = program_of(lambda x, i, u: x.at[i].add(u).sum(0), [rows, i, u])
    found = [*choose.by_themselves(program, Machine.book(), every=True)]
    assert any(alone.donated for alone in map(check_program, found))


def test_what_is_sure_to_take_longer_is_priced_no_further():
    (x, y), i = buffers("x", "y", shape=(100_000,)), Axis(100_000)
    body = (For(i, (Store(y, (i,), op("sin", op("exp", Load(x, (i,))))),)),)
    machine, looked = Machine.book(), []
    whole, one = price([body] * 5, machine), price([body], machine)
    assert price([body] * 5, machine, whole) == whole
    bodies = (looked.append(body) or body for _ in range(5))
    assert one / 2 < price(bodies, machine, one / 2) <= one
    assert len(looked) == 1


def test_the_largest_kernel_is_priced_first(monkeypatch):
    """It alone may say that all of them take longer than what is there already; or what
    they compute says so, before any loops are arranged."""
    given = [numbers(9_000), numbers(90_000), numbers(30_000)]
    program, looked = program_of(lambda *xs: [jnp.sin(x) for x in xs], given), []
    monkeypatch.setattr(choose, "arrange", lambda b: looked.append(b) or arrange(b))
    least = cost.least([k.body for k in program.kernels], Machine.book())
    assert choose.price_of(program, Machine.book(), least / 2) == round(least)
    assert not looked
    assert choose.price_of(program, Machine.book(), least + 1) > least + 1
    assert [*map(choose.steps_of, looked)] == [90_000]


def test_what_is_left_out_when_kernels_are_loaded_takes_no_time():
    """A copy of what nothing else reads is written where it came from."""
    n = 1_000_000
    (x, t, y), i, j = buffers("x", "t", "y", shape=(n,)), Axis(n), Axis(n)
    twice = (For(i, (Store(t, (i,), op("add", Load(x, (i,)), Load(x, (i,)))),)),)
    copied, machine = (For(j, (Store(y, (j,), Load(t, (j,))),)),), Machine.book()
    kernels = Kernel("twice", twice), Kernel("copied", copied)
    program = Program("both", (x,), (y,), (), (t,), kernels)
    least = cost.least([twice], machine)
    assert cost.least([twice, copied], machine) > 1.5 * least
    assert least <= choose.price_of(program, machine, 1) < 1.1 * least


def test_of_a_choice_only_what_is_sure_to_be_computed_counts():
    """A range of a loop may know the outcome."""
    (x, y), i = buffers("x", "y", shape=(8_000,)), Axis(8_000)
    here = op("sin", op("exp", op("sin", Load(x, (i,)))))
    half = op("select", op("lt", i, as_index(4_000)), here, Load(x, (i,)))
    whole, ranges = ((For(i, (Store(y, (i,), value),)),) for value in (here, half))
    machine = Machine.book()
    assert 4 * cost.least([ranges], machine) < cost.least([whole], machine)


@pytest.mark.parametrize("apart, tried", [(1.2, 1), (1.01, 2)])
def test_what_costs_more_apart_is_not_joined(monkeypatch, apart, tried):
    program, made = two_maxima(), []
    between = Buffer("between", (8,), np.dtype("float32"))

    def ways(kernel, _):
        for name in ("distribute", "join"):
            made.append(name)
            yield recipes.Candidate(name, (kernel.body,), (between,))

    prices = iter([1e6, apart * 1e6, apart * 1e6][: 1 + tried] * len(program.kernels))
    monkeypatch.setattr(recipes, "candidates", ways)
    monkeypatch.setattr(choose, "price_of", lambda *_: next(prices))
    choose.scheduled(program)
    assert made == ["distribute", "join"][:tried] * len(program.kernels)


def test_what_computes_much_more_is_not_priced(monkeypatch):
    program, priced = two_maxima(), []
    between = Buffer("between", (8,), np.dtype("float32"))
    twice = lambda k, _: [recipes.Candidate("twice", (k.body,) * 2, (between,))]
    monkeypatch.setattr(recipes, "candidates", twice)
    monkeypatch.setattr(choose, "price_of", lambda p, *_: priced.append(p) or 1e9)
    choose.scheduled(program)
    assert [len(p.kernels) for p in priced] == [1] * len(program.kernels)


def test_cores_share_memory_but_not_instructions():
    (x, y), i, j = buffers("x", "y", shape=(2000, 4000)), Axis(2000), Axis(4000)
    store = Store(y, (i, j), op("mul", Load(x, (i, j)), Load(x, (i, j))))
    copied = (For(i, (For(j, (store,)),)),)
    far = Store(y, (i, j), op("sin", op("exp", op("sin", op("sin", Load(x, (i, j)))))))
    computed = (For(i, (For(j, (far,)),)),)
    # The last block begins within the one before it, and stores the same there.
    block, lane = Axis(143), Axis(14)
    start = op("min", op("mul", block, as_index(14)), as_index(1986))
    again = nested([block, lane, j], replaced([far], {i: op("add", start, lane)}.get))
    one, many = replace(Machine.book(), cores=1), replace(Machine.book(), cores=8)
    assert price([copied], one) < 1.5 * price([copied], many)
    for body in (computed, again):
        assert price([body], one) > 4 * price([body], many)
    serial = (For(Axis(1), (For(i, (For(j, (far,)),)),)),)
    assert price([serial], one) == price([serial], many)


@pytest.mark.parametrize("name, shared", [
    ("columns", False), ("from the last row", False), ("rows", True), ("dear", True)
])  # fmt: skip
def test_cores_share_no_line_for_longer_than_they_help(name, shared):
    """All columns of a row lie in a line: each core would take it from the others."""
    rows, i, k = 90_000, Axis(7), Axis(90_000)
    at = op("sub", as_index(rows - 1), k) if name == "from the last row" else k
    at = (i, at) if name == "rows" else (at, i)
    x, y = buffers("x", "y", shape=(7, rows) if name == "rows" else (rows, 7))
    value = op("add", Load(x, at), Const(1.0, f32))
    for _ in range(8 if name == "dear" else 0):
        value = op("sin", op("exp", value))
    with noting() as notes:
        assert is_divided(nested([i, k], [Store(y, at, value)])) == shared
    assert [rule for rule, *_ in notes] == ["one core"] * (not shared)


def test_rows_are_cut_for_the_first_cache_into_pieces_that_are_alike():
    for count, most in ((349, 352), (4096, 4096), (5000, 2512), (100_000, 4000)):
        assert longest_piece(count, 4) == most


def test_pieces_have_as_many_steps_as_they_have_on_average():
    """Pieces of 300, 300, 300 and 100; seven steps of them at once, and the rest."""
    *_, count = split(Axis(1000), 300)
    some = (op(name, count, as_index(7)) for name in ("floordiv", "mod"))
    assert [trips(Axis(n)) for n in (count, *some)] == [250, (3 * 42 + 14) / 4, 5]


# ---- the primitives


def buffers(*names, shape=(64, 32)):
    return [Buffer(name, shape, f32) for name in names]


def test_an_access_says_how_far_it_goes():
    x, i, j = *buffers("x"), Axis(64), Axis(31)
    found = access_of(Load(x, (i, op("add", j, as_index(1)))))
    assert found.along == {i: 128, j: 4}
    assert found.at == 4
    # The order of terms makes no other access of it.
    one, other = (Load(x, (op("add", *pair), i)) for pair in ((i, j), (j, i)))
    assert access_of(one) == access_of(other)


def test_a_digit_goes_on_by_what_it_does_on_average():
    x, i = Buffer("x", (100, 4), f32), Axis(200)
    pair = op("floordiv", i, as_index(2)), op("mod", i, as_index(2))
    assert access_of(Load(x, pair)).along == {i: 8 + 4}


def test_steps_that_meet_are_not_independent():
    (x, y), i, j = buffers("x", "y"), Axis(63), Axis(32)
    after = op("add", i, as_index(1))
    own = Store(y, (i, j), Load(x, (i, j)))
    assert independent(i, [own])
    reads = Store(x, (i, j), Load(y, (i, j)))
    assert independent(i, [own, reads])
    # It reads what the next step stores, or stores where others do.
    ahead = Store(x, (i, j), Load(y, (after, j)))
    assert not independent(i, [own, ahead])
    assert independent(j, [own, ahead])
    same = Store(y, (as_index(0), j), Load(x, (i, j)))
    assert not independent(i, [same])
    # Pieces of eight do not meet, pieces of nine in steps of eight do.
    for size, apart in ((8, True), (9, False)):
        at = op("add", op("mul", Axis(8), as_index(8)), Axis(size))
        outer, = (a for a in at.free if a.extent == 8 and a is not at.args[1])
        store = Store(x, (at, as_index(0)), Load(y, (j, j)))
        assert independent(outer, [store]) is apart
    # A row of the kernel's own is one for each step.
    row = Buffer("r", (32,), f32, space="cache")
    assert independent(i, [Store(row, (j,), Load(x, (i, j)))])


def test_what_steps_hand_on_is_not_distributed():
    (x, y), i, j = buffers("x", "y"), Axis(63), Axis(32)
    after = op("add", i, as_index(1))
    body = Store(y, (i, j), Load(x, (i, j))), Store(x, (i, j), Load(y, (after, j)))
    with pytest.raises(NotAllowed, match="may touch what another one stores of y"):
        distribute((For(i, (For(j, body),)),), "k")
    serial = Axis(64, "serial")
    with pytest.raises(NotAllowed, match="its steps have an order") as caught:
        distribute((For(serial, body[:1]),), "k")
    assert caught.value.about is serial


def softmax_like():
    """A kernel with a row of its own and a total in the middle of a step."""
    (x, y), i, j, k = buffers("x", "y"), Axis(64), Axis(32), Axis(32, "reduce")
    row = Buffer("r", (32,), f32, space="cache")
    n = Axis(32)
    total = Reduce("add", (k,), (Load(row, (k,)),))
    fill = For(j, (Store(row, (j,), op("mul", Load(x, (i, j)), Load(x, (i, j)))),))
    use = For(n, (Store(y, (i, n), op("div", Load(row, (n,)), total)),))
    return (For(i, (fill, use)),), row, y


def test_a_row_of_a_step_becomes_an_array():
    body, _, y = softmax_like()
    nests, temps = distribute(body, "k")
    assert [t.shape for t in temps] == [(64, 32), (64,)]
    assert [n.store.buffer for n in nests] == [*temps, y]


def test_a_buffer_with_a_place_for_each_step_is_no_wider_as_an_array():
    """A step of i has r[i]: an array has no second axis for i."""
    (x, y), i, j, k = buffers("x", "y"), Axis(64), Axis(32), Axis(32)
    row = Buffer("r", (64, 32), f32, space="cache")
    fill = For(j, (Store(row, (i, j), op("mul", Load(x, (i, j)), Load(x, (i, j)))),))
    use = For(k, (Store(y, (i, k), Load(row, (i, op("sub", as_index(31), k)))),))
    _, temps = distribute((For(i, (fill, use)),), "k")
    assert [t.shape for t in temps] == [(64, 32)]


def test_nests_that_share_an_axis_are_joined():
    body, _, _ = softmax_like()
    nests, _ = distribute(body, "k")
    group, = joined([reordered(n) for n in nests])
    assert group.axis.extent == 64 and len(group.nests) == 3


def shifted_nests(second):
    """t = x * x; y[1:] = what `second` says of the places of t and x."""
    (x, y, t), i, j = buffers("x", "y", "t"), Axis(64), Axis(32)
    k, n = Axis(63), Axis(32)
    after = op("add", k, as_index(1))
    first = Store(t, (i, j), op("mul", Load(x, (i, j)), Load(x, (i, j))))
    here, there = Load(t, (k, n)), Load(t, (after, n))
    store = Store(y, (after, n), second(here, there, Load(x, (k, n))))
    return [Nest((i, j), first), Nest((k, n), store)]


def test_what_reads_neighbours_runs_some_steps_behind():
    nests = shifted_nests(lambda here, there, x: op("add", there, x))
    first, rest = joined(nests)
    assert (first.axis.extent, first.start, len(first.nests)) == (1, 0, 1)
    assert (rest.axis.extent, rest.start, len(rest.nests)) == (63, 1, 2)
    # In a step, t is read where it has been stored in the same step.
    a, b = (nest.store for nest in rest.nests)
    assert a.index[0] is b.value.args[0].index[0]
    assert b.value.args[1].index[0] is rest.axis


def test_what_needs_two_steps_of_another_nest_is_not_joined():
    nests = shifted_nests(lambda here, there, x: op("sub", there, here))
    groups = joined(nests)
    assert [g.axis for g in groups] == [None, None]
    # They are the very loops of those that are not joined, and arranged once.
    assert [g.body for g in groups] == [n.body for n in nests]


def test_joined_rows_are_rows_again():
    body, _, _ = softmax_like()
    found = {c.recipe: c for c in candidates(Kernel("k", body))}
    # They are the loops that there are, under other names: no way of their own.
    assert "distribute" in found and "join" not in found


def test_short_loops_written_out_read_what_was_stored_last():
    x, y = buffers("x", "y", shape=(100, 3))
    i, j, row = Axis(100), Axis(3), Buffer("r", (3,), f32, space="cache")
    again = Axis(3)
    body = (
        For(j, (Store(row, (j,), Load(x, (i, j))),)),
        For(again, (Store(row, (again,), op("neg", Load(row, (again,)))),)),
        Store(y, (i, as_index(0)), Load(row, (as_index(2),))),
    )
    store, = flat(body, 4, 400)
    assert store.value is op("neg", Load(x, (i, as_index(2))))
    assert flat(body, 2, 400) is None
    # Where another one is stored, only a run knows.
    at = Load(Buffer("at", (1,), np.dtype("i8")), (as_index(0),))
    assert flat((body[0], Store(row, (at,), Load(x, (i, at))), body[2]), 4, 400) is None


# ---- the machine


@pytest.mark.parametrize(
    "size, told", [("48K", 48 << 10), ("1M", 1 << 20), ("512", 512)]
)
def test_a_machine_without_a_word_of_its_caches_is_the_book_s(tmp_path, size, told):
    assert host_caches(tmp_path) == Machine.book().caches
    folder = tmp_path / "index0"
    folder.mkdir()
    words = {"type": "Data", "level": "1", "size": size, "ways_of_associativity": "12"}
    for name, text in words.items():
        (folder / name).write_text(text)
    first, *_ = host_caches(tmp_path)
    assert (first.size, first.ways) == (told, 12)


def test_levels_differ_in_their_vectors():
    assert [Machine(f"x86-64-v{n}").vector for n in (2, 3, 4)] == [16, 32, 64]
    assert Machine.host().vector in (16, 32, 64)


def test_an_access_whose_index_has_a_total():
    """The axes of a total in an index are its own: they stay where others are 0."""
    i, k = Axis(8), Axis(5, "reduce")
    table, x = Buffer("t", (8, 5), np.dtype("int32")), Buffer("x", (99,), f32)
    largest = Reduce("max", (k,), (Load(table, (i, k)),))
    place = Load(x, (op("add", i, as_index(largest)),))
    access = access_of(place)
    assert access.buffer is x
    assert k not in access.along


def test_a_gradient_whose_indices_are_totals():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((400, 24)), "bfloat16")

    def loss(x):
        v = lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "VALID")
        return jnp.sum((jnp.sqrt(jnp.abs(v) + 1) @ v.sum(0)).astype("float32"))

    found, wanted = (np.asarray(g(x)).astype("f4")
                     for g in (mj.jit(mj.grad(loss)), mj.grad(loss)))  # fmt: skip
    np.testing.assert_allclose(found, wanted, 0.05, 0.05 * abs(wanted).max())


def test_functions_of_complex_numbers_have_a_price():
    """They have no forms of their own: pairs of real numbers come later."""
    x = np.random.default_rng(0).standard_normal((307, 185)).astype("c8")
    f = lambda x: (jnp.any(x != 0, -1), nn.sigmoid(jnp.swapaxes(x, 0, -1)))
    some, found = mj.jit(f)(x)
    assert np.asarray(some).all()
    np.testing.assert_allclose(np.asarray(found), 1 / (1 + np.exp(-x.T)), 1e-5, 1e-5)


# ---- what the printer writes for lanes


def rows_of_unit(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("length", [5, 6, 9])
def test_short_rows_in_lanes_are_whole_vectors(length, dtype):
    """Rows that lie one after the other are read as they lie, and taken apart."""
    f = rows_of_unit if dtype != "int32" else lambda x: x - x.max(-1, keepdims=True)
    rows, rng = 16 * 1500, np.random.default_rng(length)
    x = jnp.asarray(rng.uniform(1, 60, (rows, length))).astype(dtype)
    program = program_of(f, [x])
    kernel, = program.kernels
    found = {c.recipe: c for c in candidates(kernel)}
    chosen = choose.with_candidates(program, {kernel: found["short rows in lanes"]})
    kernel, = rewritten(chosen).kernels
    text = KernelText(kernel)
    out, = chosen.outputs
    y = np.zeros(out.shape, storage_dtype(out.dtype))
    given = {"in0": np.asarray(x).view(storage_dtype(x.dtype)), "out0": y}
    functions_of([text])[text.key](*(given[b.name] for b in text.buffers))
    with mj.disable_jit():
        want = np.asarray(f(x)).astype("f4")
    tolerance = dict(float16=2e-3, bfloat16=2e-2).get(dtype, 1e-6)
    assert np.allclose(y.view(out.dtype).astype("f4"), want, tolerance, tolerance)
    if length < 8:
        # Cells are on the stack, `%m1`, until LLVM makes registers of them.
        kind = memory_type(x.dtype)
        n = in_register(kind, 16)
        vector, whole = f"<{n} x {kind}>", length * 16 // n
        assert len(re.findall(rf"load {vector}, ptr %[vx]", text.text)) == whole
        assert len(re.findall(rf"store {vector} %v\d+, ptr %[vy]", text.text)) == whole
        # Each vector is put into order, and chosen from for each bit of how far places
        # are rotated; lanes that are no register are joined, and parted.
        far, farther = min(length, n) - 1, math.gcd(length, n) - 1
        choices = 2 * whole * (1 + far.bit_length() + farther.bit_length())
        parts = (2 * whole - length) * (n < 16)
        assert text.text.count("shufflevector") == choices + parts
    assert not re.search(r"(load|store) (float|i32|i16)\b", text.text)


def test_sums_of_complex_columns_go_row_by_row():
    x = np.random.default_rng(0).normal(size=(2, 1000, 130)).astype("f4")
    x = (x[0] + 1j * x[1]).astype("c8")
    program = program_of(lambda x: (x * x).sum(0), [x])
    loops = arrange(program.kernels[0].body)
    stores = [s for s in statements(loops) if isinstance(s, Store)]
    assert any(s.combine == "add" for s in stores)
    f = lambda x: ((x * x).sum(0), x[:9].prod(0), x[:3].mean(0))
    for got, want in zip(mj.jit(f)(x), f(x), strict=True):
        assert np.allclose(got, want, 1e-4, 1e-3)


def test_blocks_of_columns_are_short_where_each_has_long_rows():
    """Nine megabytes were on the stack, and the process ended."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(64, 48, 320)), "float32")
    f = lambda x: (nn.softmax(x.transpose(2, 0, 1).reshape(320, -1), -1) ** 2).sum()
    program = program_of(mj.grad(f), [x])
    kernel, = program.kernels
    bodies = [c.bodies for c in candidates(kernel, frozenset(program.temps))]
    for body in (kernel.body, *itertools.chain(*bodies)):
        rows = sum(b.nbytes for b in local_buffers(arrange(body)))
        assert rows <= mj.config.fusion.row_bytes
    agree(mj.grad(f), x, rtol=1e-4, atol=1e-6)


def test_what_columns_share_is_made_once():
    """Stores of a column were loops of their own, each with all that it is made of."""
    f = lambda x: lax.associative_scan(jnp.maximum, x)
    args = of(136, 640, dtype="int32"),
    text = mj.jit(f).lower(*args).compile().as_text("llvm")
    # 408 maxima in all; they were 4,699.
    assert text.count("call i32 @llvm.smax") + text.count("@llvm.smax.v") < 1000


def test_functions_beside_a_scatter_have_a_loop_of_their_own():
    """One that vectors can go through; what is loaded is in bounds in every step."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=20_000), "float32")
    i = jnp.asarray(rng.integers(-700, 700, 20_000))
    f = lambda x, i: jnp.zeros(512).at[i].add(jnp.arcsinh(x) * jnp.exp(x))
    g = lambda x, i: jnp.zeros(512).at[i].add(jnp.exp(x[i]), mode="drop")
    # To round to 16 bits takes as long as a function.
    h = lambda x, i: jnp.zeros(512, "bfloat16").at[i].add(x.astype("bfloat16"))
    for function in (f, h):
        rules = [d.rule for d in mj.explain(function, x, i).decisions]
        assert "functions aside" in rules
    for function in (f, g, h):
        agree(function, x, i, rtol=1e-4)


def test_places_that_take_long_are_found_before_the_scatter():
    """A search for the place of each number went on one number at a time."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(5_000, 2)), "float32")
    bins = jnp.linspace(-3, 3, 21)
    f = lambda x: jnp.zeros(22).at[jnp.searchsorted(bins, x[:, 0])].add(x[:, 1])
    g = lambda x: jnp.zeros((5, 9)).at[
        jnp.clip(jnp.floor(x[:, 0] * 2 + 3).astype(int), 0, 4),
        jnp.floor(x[:, 1] * 3 + 4).astype(int),
    ].add(1.0, mode="drop")  # fmt: skip
    for function in (f, g):
        found = mj.explain(function, x).decisions
        aside, = (d for d in found if d.rule == "functions aside")
        assert aside.numbers["functions"] == {f: 1, g: 2}[function]
        agree(function, x, rtol=1e-5)
    # What the terms of a total are made of is not beside the total.
    scores = lambda x: (abs(x[:, :1] - bins) * 3 + 1 - x[:, 1:] * 0.5).sum(1)
    h = lambda x: jnp.zeros(9).at[jnp.clip(scores(x).astype(int), 0, 8)].add(1.0)
    agree(h, x, rtol=0)
    # What is short is not: it would be written and read.
    i = jnp.asarray(rng.integers(-22, 22, 5_000))
    short = lambda i, x: jnp.zeros(22).at[i].add(x[:, 1])
    rules = [d.rule for d in mj.explain(short, i, x).decisions]
    assert "functions aside" not in rules


@pytest.mark.parametrize("dim", [0, 1])
def test_parts_that_are_turned_are_nests_of_their_own(dim):
    """A loop along memory went through one part after the other, and none in panels."""
    f = lambda x, y: jnp.concatenate([x.T, y.T], dim)
    program = program_of(f, (of(480, 224), of(480, 224)))
    found = {c.recipe: c for c in candidates(*program.kernels)}
    assert len(found[f"parts {dim}"].bodies) == 2
    halves = program_of(f, (of(1792, 41, dtype="float16"),) * 2)
    for each in (program, halves) if dim else (halves,):
        kernels = choose.chosen_for(each, Machine("x86-64-v4")).kernels
        assert len(kernels) == 2
    x, y = numbers(480, 224), numbers(480, 224)
    np.testing.assert_array_equal(mj.jit(f)(x, y), np.concatenate([x.T, y.T], dim))
    # Parts that run as they are stored gain nothing.
    g = lambda x, y: jnp.concatenate([x, y], dim)
    program = program_of(g, (of(480, 224), of(480, 224)))
    found = candidates(*program.kernels)
    assert not [c for c in found if c.recipe.startswith("parts")]


@pytest.mark.parametrize("f", [
    lambda x: nn.softmax(x, 0),
    lambda x: mj.grad(lambda x: (nn.logsumexp(x, 1) ** 2).sum())(x),
], ids=["first", "second"])  # fmt: skip
def test_what_a_step_has_for_itself_becomes_an_array_that_lies_as_the_others(f):
    """Of f32[4000,30,10,5], and no array has an axis of 4000 or of 30 innermost."""
    x = jnp.asarray(numbers(4000, 30, 10, 5))
    kernel, = kernels_of(f, x)
    _, arrays = distribute(kernel.body, "k")
    shapes = [a.shape for a in arrays if a.nbytes == x.nbytes]
    assert shapes == [x.shape]
    wanted = f(np.asarray(x[:40]))
    alike(mj.jit(f)(x[:40]), wanted, rtol=1e-4, atol=1e-4)


def test_a_total_of_squares_beside_a_gradient_is_distributed():
    """What runs once stands in no loop, and keeps no kernel from being taken apart."""
    x = jnp.asarray(numbers(300_000, 6))
    f = mj.jit(mj.value_and_grad(lambda x: jnp.square((x * x).sum(0)).sum()))
    value, slope = f(x)
    wide = np.asarray(x).astype("f8")
    total = (wide * wide).sum(0)
    np.testing.assert_allclose(value, (total**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(slope, 4 * total * wide, rtol=1e-4)
    assert len(f.lower(x).compile().explain().kernels) > 1


def test_short_rows_run_in_lanes_beside_a_total_of_what_they_leave():
    x = jnp.asarray(numbers(3351, 10))
    f = mj.value_and_grad(lambda x: jnp.square(nn.log_softmax(x)).sum())
    kernel, = kernels_of(f, x)
    found = {c.recipe: c for c in candidates(kernel)}
    for way in ("in lanes", "written out"):
        body, = found[f"short rows {way}"].bodies
        assert body[1:] == kernel.body[1:] != ()
    agree(f, x, rtol=1e-4)


@pytest.mark.parametrize("batch, loops", [
    ((500, 12), [6000]), ((90, 12, 14), [15_120]), ((20, 30), [600]),
    ((500, 32), [500, 32]), ((30, 16), [30, 16]), ((16,), [16]),
])  # fmt: skip
def test_short_rows_are_lanes_across_loops_that_are_one_in_memory(batch, loops):
    """12 rows are no whole vector, and 6,000 are: loops one by one took 4 times as
    long, and 12 rows of 5 that were written out, half a second to compile."""
    x = jnp.asarray(numbers(*batch, 7))
    kernel, = kernels_of(nn.softmax, x)
    found = {c.recipe: c for c in candidates(kernel)}
    body, = found["short rows written out"].bodies
    assert [s.axis.extent for s in statements(body) if isinstance(s, For)] == loops
    for way in ("in lanes", "written out"):
        got = mj.schedule(nn.softmax, f"short rows {way}")(x)
        np.testing.assert_allclose(got, nn.softmax(x), rtol=1e-5)


def test_loops_that_read_what_they_store_stay_apart():
    """The checker could not tell that one loop for both writes all of the array."""

    def f(x):
        pairs = jnp.stack([x, x], -1)
        long = jnp.convolve(pairs.ravel()[:500], pairs.ravel()[:9])
        return jnp.cos(pairs) * pairs, long

    program = program_of(f, (of(19, 1065),))
    found = [(k, c) for k in program.kernels for c in candidates(k)]
    assert any("short rows" in c.recipe for _, c in found)
    for kernel, candidate in found:
        check_program(choose.with_candidates(program, {kernel: candidate}))


@pytest.mark.parametrize("length", [3, 7, 15, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64"])
def test_short_rows_become_columns_line_by_line(dtype, length):
    x = jnp.asarray(numbers(7, 143, length)).astype(dtype)
    f = lambda x: jnp.moveaxis(x, -1, 0) * 2
    kernel, = kernels_of(f, x)
    ways = [c.recipe for c in candidates(kernel) if "short columns" in c.recipe]
    assert bool(ways) is (length < recipes.SHORT // (2 if dtype == "complex64" else 1))
    short, = kernels_of(f, x[:1, :14])
    assert not any("short columns" in c.recipe for c in candidates(short))
    for way in ways:
        got = mj.schedule(f, way)(x)
        np.testing.assert_array_equal(got, np.moveaxis(np.asarray(x), -1, 0) * 2)


def test_lines_of_memory_are_read_once_for_all_columns():
    program, machine = program_of(jnp.transpose, (of(200_000, 8),)), Machine.book()
    way = choose.cheapest(program, *program.kernels, replace(machine, cores=1))
    assert way.recipe == "short columns in lanes"


@pytest.mark.parametrize("reduce", [jnp.max, jnp.sum, jnp.argmax])
def test_short_rows_are_written_out_in_the_longest_loop_around_them(reduce):
    """Not the 10 rows of a step as well, which would lie far apart for its lanes."""
    x = jnp.asarray(numbers(400, 30, 10, 5))
    kernel, = kernels_of(lambda x: reduce(x, -1), x)
    short = [c for c in candidates(kernel) if c.recipe.startswith("short")]
    assert [extents(c.bodies[0]) for c in short] == [{120_000}] * 2
    got = mj.jit(lambda x: reduce(x, -1))(x)
    flat = mj.jit(lambda x: reduce(x, -1))(x.reshape(-1, 5))
    np.testing.assert_array_equal(np.ravel(got), flat)


@pytest.mark.parametrize("length", [3, 5, 7])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("reduce", [jnp.max, jnp.sum, jnp.argmax])
def test_totals_over_an_axis_before_a_short_one_are_vectors(reduce, dtype, length):
    """A step of 10 loads is 10 vectors, as long as the row of totals is."""
    x = np.random.default_rng(length).normal(0, 30, (400, 30, 10, length))
    x = jnp.asarray(x).astype(dtype)
    f = mj.jit(lambda x: reduce(x, 2))
    report = f.lower(x).compile().explain()
    assert "short rows as vectors" in str([d.numbers for d in report.decisions])
    text = f.lower(x).compile().as_text("llvm")
    vector = f"<{length} x {memory_type(x.dtype)}>"
    assert len(re.findall(rf"load {vector}, ptr %v", text)) == 10
    assert len(re.findall(rf"store <{length} x \w+> %v\d+, ptr", text)) == 1
    assert not re.search(r"(load|store) (float|i32|i16)\b", text)
    with mj.disable_jit():
        want = np.asarray(reduce(x, 2)).astype("f4")
    tolerance = dict(float16=1e-2, bfloat16=1e-1).get(dtype, 1e-5)
    np.testing.assert_allclose(np.asarray(f(x)).astype("f4"), want, tolerance, 1)


def quotients(x, axis):
    """A lane that is none divides, too."""
    return lax.div(jnp.int32(1000), x).sum(axis)


@pytest.mark.parametrize("reduce, dtype, length", [
    (jnp.max, "float32", 6), (nn.logsumexp, "float32", 6), (jnp.sum, "float32", 10),
    (jnp.argmax, "int32", 10), (quotients, "int32", 13), (jnp.max, "int8", 5),
])  # fmt: skip
def test_long_totals_of_short_rows_are_loops_of_vectors(reduce, dtype, length):
    """Registers of totals are as long as LLVM keeps them from step to step."""
    x = jnp.asarray(abs(numbers(400, 30, 20, length)) * 30 + 1).astype(dtype)
    f = mj.schedule(lambda x: reduce(x, axis=2), "short rows as vectors")
    text = f.lower(x).compile().as_text("llvm")
    kind, size = memory_type(x.dtype), x.dtype.itemsize
    assert f"load <{length} x {kind}>, ptr %v" in text
    assert not re.search(rf"(load|store) {kind}\b", text)
    totals = {int(n) for n in re.findall(r"alloca <(\d+) x ", text)}
    fits = lambda n: 16 <= size << n.bit_length() <= vector_bytes()
    assert totals and all(n & (n - 1) == 0 or fits(n) for n in totals)
    alike(f(x), reduce(x, axis=2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("f, dtype, length, count", [
    (jnp.sum, "complex64", 4, 0), (jnp.any, "float32", 5, 0), (jnp.any, "float32", 8, 1)
])  # fmt: skip
def test_rows_of_complex_numbers_and_odd_masks_are_no_vectors(f, dtype, length, count):
    x = jnp.asarray(numbers(400, 30, 10, length)).astype(dtype)
    kernel, = kernels_of(lambda x: f(x, axis=2), x)
    assert len(list(recipes.rows_as_vectors(kernel.body))) == count


# Each loop of these has few steps, and all together have 4,096 stores, or 48 totals.
@pytest.mark.parametrize("axis, shape", [((0, 1, 2), (16, 16, 16, 2)), (0, (8, 16, 3))])
def test_many_short_loops_are_not_written_out_to_be_thrown_away(axis, shape):
    f = lambda x: jnp.tanh(x - x.sum(axis))
    kernel, = kernels_of(mj.vmap(f), numbers(40, *shape))
    loop, = (s for s in kernel.body if isinstance(s, For))
    with allowed(100):
        assert flat(loop.body, 16, 400) is None


def test_what_a_loop_has_in_registers_is_no_access():
    Place = namedtuple("Place", "buffer")
    spaces = "global", "cache", "register"
    places = [Place(Buffer("x", (4,), np.dtype("f4"), space=s)) for s in spaces]
    within = lines.Loop(places={places[0], places[2]})
    outer = lines.Loop(places=set(places[1:]), inner=[within])
    assert outer.accesses == set(places[:2])


def test_short_rows_are_vectors_of_the_powers_of_two_in_their_length():
    took = [cost.work(lines.Loop(axis=Axis(n), words=8.0), Machine.book())
            for n in range(1, 8)]  # fmt: skip
    np.testing.assert_allclose(took, np.multiply([1, 1, 2, 1, 2, 2, 3], took[0]))


def test_lanes_are_moved_by_powers_of_two_and_what_is_no_run_of_memory_one_by_one():
    """Numbers of 16 bits, complex ones that are stored, and an index kept in bounds."""

    def took(n, dtype="f4", kind=Load, most=0):
        axis, shape = Axis(n, "vector"), (2, n) if most else (n, 2)
        x, value = Buffer("x", shape, np.dtype(dtype)), [Const(0, np.dtype(dtype))]
        at = axis, as_index(0)
        if most:
            at = as_index(0), op("min", axis, op("add", Axis(9), as_index(most)))
        place = access_of(kind(x, at, *value * (kind is Store)))
        loop = lines.Loop(axis=axis, words=1.0, places={place}, lanes=True)
        return cost.work(loop, Machine.book()), cost.moves(loop, n)

    assert took(4) < took(3)
    assert took(4) < took(4, "f2")
    assert took(8, "c8") == took(8, "f8") < took(8, "c8", Store)
    assert took(8, "f8") == took(8, "f8", Store)
    (lanes, moved), (one, each) = took(8), took(8, most=1)
    assert lanes < one and 4 * moved == each == 16


def test_only_the_last_of_the_loops_of_a_step_is_not_waited_for():
    axis, one = Axis(64, "reduce"), Const(1.0, np.dtype("f4"))
    totals = {Reduce("add", (axis,), (one,)): 1.0}
    total = lambda: lines.Loop(axis=axis, words=1.0, totals=totals)
    step = lambda count: lines.Loop(axis=Axis(9), inner=[total() for _ in range(count)])
    took = [cost.work(step(count), Machine.book()) for count in range(4)]
    last, *waited = np.diff(took)
    np.testing.assert_allclose(waited, max(waited))
    assert last < max(waited)


ACROSS = {
    "stored across": (lambda x: x.sum(0).T, (256, 64, 32)),
    "scaled, stored across": (lambda x: x.mean(1).T + 1, (20, 1000, 48)),
    "short runs": (lambda x: x.max((0, 2)), (3000, 12, 9)),
    "a small one": (lambda x: x.sum(0).T, (20, 128, 32)),
}


@pytest.mark.parametrize("f, shape", ACROSS.values(), ids=ACROSS)
def test_what_is_read_in_rows_and_stored_across_them_is_apart(f, shape):
    x = jnp.asarray(numbers(*shape))
    compiled = mj.jit(f).lower(x).compile()
    found, = (d for d in compiled.explain().decisions if d.rule == "schedule")
    assert next(iter(found.numbers)) in ("distribute", "join")
    assert found.numbers["as fused"] > 1.9 * min(found.numbers.values())
    agree(f, x, rtol=1e-4)


def test_loops_change_places_only_for_memory_that_runs_along_the_outer_one_rather():
    x, c = jnp.asarray(numbers(1000, 30)), jnp.asarray(numbers(30, 30))
    f = lambda x, c: jnp.square(x[:, :, None] * x[:, None] - c).sum(0)
    compiled = mj.jit(f).lower(x, c).compile()
    rules = [d.rule for d in compiled.explain().decisions]
    assert "rows" in rules and "along memory" not in rules
    agree(f, x, c, rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int16", "int8"])
@pytest.mark.parametrize("length", [7, 12, 15])
def test_short_rows_of_short_numbers_are_lanes(dtype, length):
    """Where LLVM gathered them, calls took twice as long, and first ones too."""
    program = program_of(lambda x: x.max(1), (of(42_000, length, dtype=dtype),))
    way = choose.cheapest(program, *program.kernels, Machine.book())
    assert way.recipe == "short rows in lanes"
    x = (jnp.asarray(numbers(3000, length)) * 9).astype(dtype)
    np.testing.assert_array_equal(mj.jit(lambda x: x.max(1))(x), np.asarray(x).max(1))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_lanes_that_load_one_by_one_are_no_bargain(dtype):
    # An index that is kept in bounds is no run of memory: they took 3.6 times as long
    # as rows written out, at half of the price.
    x = np.ones((5, 20_000), dtype)
    f = lambda x, y: jnp.concatenate([x.T, y.T], 0)
    program = lower(simplify(mj.make_jaxpr(f)(x, x)))
    kernel, = program.kernels
    ways = choose.ways_of(program, kernel)
    prices = choose.prices_of(program, kernel, ways, Machine.book())
    assert prices["short rows in lanes"] > 1.5 * prices["short rows written out"]


def oscillator(y, steps):
    """Steps of a length of their own, as those of an ODE: lanes with rows of two."""

    def step(state):
        y, h, n = state
        slope = lambda y: jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])
        first = slope(y)
        then = y + h * (first + slope(y + h * first)) / 2
        error = abs(then - y - h * first).max()
        return then, h * jnp.clip((0.01 / (error + 1e-6)) ** 0.3, 0.9, 1.1), n + 1

    return lax.while_loop(lambda state: state[2] < steps, step, (y, 0.02, 0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_a_step_of_a_while_gains_each_one_does(dtype):
    """Steps were thought to be one, and a loop that calls the C library a vector's: 500
    lanes of an ODE took four times jax's time, and in float64 twice, now .4 and .7."""
    with mj.enable_x64(dtype == "float64"):
        args = jnp.asarray(numbers(500, 2), dtype), jnp.arange(500) % 30
        f = mj.jit(mj.vmap(oscillator))
        compiled = f.lower(*args).compile()
        decisions = compiled.explain().decisions
        best, = (d.numbers for d in decisions if d.rule == "schedule")
        name = min(best, key=best.get)
        assert name.startswith("short rows") and "(2,)" not in compiled.as_text()
        # A power of 64 bits is a function for one number: LLVM makes no vectors there.
        assert dtype == "float32" or name == "short rows in lanes"
        want = mj.jit(mj.vmap(oscillator), backend="eval")(*args)
        for found, wanted in zip(compiled(*args), want, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_a_branch_is_one_step():
    machine, x = Machine.book(), jnp.ones(3)
    f = lambda x: lax.cond(x.sum() > 0, lambda x: x.max(), lambda x: x.min(), x)
    call, = program_of(f, (x,)).calls
    assert choose.within(call, machine).wake == machine.wake


# ---- where extremes stand: two totals in any order, of which one has the other in it


rng = np.random.default_rng(4)
WIDE = 700, 162
SHAPES = [(WIDE, 1), (WIDE, 0), ((30, 40, 17), 1), ((9, 5), 0), ((31_000,), 0)]


def drawn(shape, dtype):
    """Numbers of which many are equal, zeros of both signs, and NaNs in some rows."""
    x = rng.integers(-3, 4, shape)
    if np.dtype(dtype).kind != "f":
        return abs(x).astype(dtype)
    x = (x * rng.choice([-1.0, 1.0], shape)).astype(dtype)
    x.flat[:: 4 * shape[0] + 1] = np.nan
    return x


@pytest.mark.parametrize("name, dtype, shape, axis", [
    (("argmax", "argmin")[(i + k) % 2], dtype, *at)
    for i, at in enumerate(SHAPES)
    for k, dtype in enumerate(["float32", "float16", "int32", "uint8", "bool"])
])  # fmt: skip
def test_the_first_of_several(name, dtype, shape, axis):
    x = drawn(shape, dtype)
    found = mj.jit(lambda x: getattr(jnp, name)(x, axis))(x)
    np.testing.assert_array_equal(found, getattr(np, name)(x, axis))


def totals_of(f, *args):
    bodies = [arrange(in_first_places(k.body)) for k in kernels_of(f, *args)]
    exprs = postorder([e for body in bodies for e in expressions(body)])
    return [e.op for e in exprs if type(e) is Reduce]


@pytest.mark.parametrize("shape, axis", SHAPES)
def test_no_step_looks_at_what_the_last_one_has_found(shape, axis):
    x = drawn(shape, "float32")
    assert not {"argmax", "argmin"} & set(totals_of(lambda x: jnp.argmax(x, axis), x))


def test_several_in_one_kernel_and_what_else_is_asked():
    x = drawn((300, 70), "float32")

    def both(x):
        i, j = x.argmax(0), (x * 2).argmin(0)
        return i, j, x.max(0), i - j

    alike(mj.jit(both)(x), both(jnp.asarray(x)))


@pytest.mark.parametrize("wide", [100, 20_000])
def test_a_total_of_which_another_one_is_made_has_a_row_of_its_own(wide):
    x = rng.standard_normal((50, wide), dtype="float32")

    def spread(x):
        largest = x.max(0)
        return jnp.exp(x - largest).sum(0) + largest

    found = mj.jit(spread)(x)
    wanted = np.exp(x - x.max(0)).sum(0) + x.max(0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_nest_that_shares_its_loops_no_more_goes_along_memory():
    def numbers(words, n):
        draw = lambda key: mj.random.randint(key, (500, 400), 0, n)
        return mj.vmap(draw)(mj.random.wrap_key_data(words))

    words = np.arange(6, dtype=np.uint32).reshape(3, 2)
    compiled = mj.jit(numbers).lower(words, 1000).compile()
    assert "y0[i0, i1, i2] = " in compiled.as_text()


def test_of_two_short_axes_one_is_written_out():
    x = np.ones((9, 4000, 4), np.complex64)
    program = lower(mj.make_jaxpr(lambda x: x.transpose((2, 1, 0)) * 2)(x))
    for way in recipes.candidates(*program.kernels):
        assert all(len([*statements(body)]) < 36 for body in way.bodies)
