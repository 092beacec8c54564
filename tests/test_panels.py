"""Kernels whose arrays run along different axes: the order of loops, and panels."""

import itertools
import math
import re

import numpy as np
import pytest
from harness import alike, fusing, program_of

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.decisions import decisions_about
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.check import check_program
from minijit.compile.loops.expressions import Axis, Load, as_index, op
from minijit.compile.loops.kernel_buffers import local_buffers
from minijit.compile.loops.statements import (
    For, Store, statements,
)
from minijit.compile.lower.walk import lower
from minijit.compile.schedule import panels
from minijit.compile.schedule.nests import steps_of, strides_of
from minijit.compile.schedule.place import place
from minijit.compile.schedule.placing_rules import arrange
from minijit.run.loading import load, loaders

pytestmark = pytest.mark.chapter(18)

F32 = np.dtype("float32")
rng = np.random.default_rng(0)


@pytest.fixture
def small_tiles():
    """Whatever can be turned is, in tiles of a few blocks: so there are several."""
    with fusing(panel_from=0, panel_row=128, panel_read=128):
        yield


def numbers(shape, dtype="float32"):
    return (50 * rng.normal(size=shape)).astype(dtype)


def lowered(f, *args):
    return check_program(lower(mj.make_jaxpr(f)(*args)))


def panels_in(program):
    return [b for k in program.kernels for b in local_buffers(arrange(k.body))]


def routes():
    return [r for r in (False, "llvm") if r in loaders]


def agree(program, args, want):
    """Run a program as plain Python, by LLVM, and in the interpreter."""
    for route in routes():
        alike(load(program, route).run(*args), want, rtol=1e-5, atol=1e-5)


# ---- strides


def test_strides():
    i, j, k = Axis(4), Axis(5), Axis(6)
    x = Buffer("x", (40, 50), F32)
    row = op("add", op("mul", i, as_index(3)), k)
    assert strides_of(Load(x, (row, j))) == {i: 150, k: 50, j: 1}
    back = op("sub", as_index(39), i)
    assert strides_of(Load(x, (back, j))) == {i: -50, j: 1}
    where = Load(Buffer("w", (4,), np.dtype("int64")), (i,))
    found = strides_of(Load(x, (where, j)))
    assert found.pop(j) == 1 and np.isnan(found.pop(i)) and not found
    assert strides_of(Load(x, (as_index(0), as_index(7)))) == {}
    turned = Buffer("x", (40, 50), F32, order=(1, 0))
    assert strides_of(Load(turned, (i, j))) == {i: 1, j: 40}
    doubled = j
    for _ in range(60):
        doubled = op("add", doubled, doubled)
    assert steps_of(doubled) == {j: 2**60}


def steps_in(body):
    """How many steps all loops take together."""
    loops = [s for s in body if isinstance(s, For)]
    return sum(loop.axis.extent * (1 + steps_in(loop.body)) for loop in loops)


@pytest.mark.parametrize("shape", [(512, 256), (40, 60)])
def test_totals_of_columns_are_not_computed_for_each_row(shape):
    x = np.ones(shape, F32)
    for f in (lambda x: x / x.sum(0), lambda x: jnp.exp(x - x.max(0)) * x.sum(0)):
        program = lower(mj.make_jaxpr(f)(x))
        steps = sum(steps_in(place(kernel.body)) for kernel in program.kernels)
        assert steps < 5 * x.size, program


def test_a_total_of_columns_stored_in_columns():
    x = numbers((3, 20, 30))
    program = lowered(lambda x: x.sum(0).T, x)
    outer, = arrange(program.kernels[0].body)
    assert outer.axis.extent == 20
    agree(program, [x], [x.sum(0).T])


# ---- panels

CASES = {
    "matrix": lambda x: jnp.transpose(x.reshape(-1, x.shape[-1])) * 2,
    "planes": lambda x: jnp.swapaxes(x, -1, -2) + 1,
    "last axis first": lambda x: jnp.moveaxis(x, -1, 0) * 2,
    "first axis last": lambda x: jnp.moveaxis(x, 0, -1) * 2,
    "back to front": lambda x: jnp.transpose(x) + 1,
    "two of them": lambda x: jnp.transpose(x) * jnp.exp(jnp.transpose(x * 2) / 100),
    "two results": lambda x: (jnp.transpose(x) * 2, jnp.transpose(x) + 1),
    "and one straight": lambda x: jnp.transpose(x) + x.reshape(x.shape[::-1]),
    "and one row": lambda x: jnp.transpose(x) + x[:, 0, 0],
    "a piece of it": lambda x: jnp.transpose(x[1:, 2:, 3:]) * 2,
    "every other plane": lambda x: jnp.transpose(x[::2]) * 2,
    "front to back": lambda x: jnp.transpose(x[::-1]) * 2,
    "gathered planes": lambda x: jnp.swapaxes(x[jnp.array([2, 0, 1])], 1, 2) * 2,
}
SHAPES = [(16, 3, 32), (35, 5, 49), (3, 64, 17), (50, 2, 16)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(case, shape, small_tiles):
    f, x = CASES[case], numbers(shape)
    want = mj.tree.leaves(mj.jit(f, backend="eval")(x))
    agree(lowered(f, x), [x], [np.asarray(y) for y in want])


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4))))
def test_permutations(perm, small_tiles):
    x = numbers((17, 2, 16, 33))
    f = lambda x: jnp.transpose(x, perm) * 2
    program = lowered(f, x)
    # What lies together on both sides is one row.
    ends = {n: tuple(range(perm[-n], perm[-n] + n)) for n in (4, 3, 2, 1)}
    run = next(n for n, axes in ends.items() if perm[-n:] == axes)
    row = math.prod(x.shape[axis] for axis in perm[-run:])
    long = min(x.shape[3], row) >= panels.BLOCK
    assert len(panels_in(program)) == (perm[-1] != 3 and long)
    result, = load(program, False).run(x)
    np.testing.assert_array_equal(result, x.transpose(perm) * 2)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "bool"])
@pytest.mark.parametrize("shape", [(16, 64), (33, 70), (50, 17)])
def test_dtypes(dtype, shape, small_tiles):
    x = numbers(shape, dtype)
    with mj.enable_x64(True):
        program = lowered(lambda x: x.T, x)
        assert len(panels_in(program)) == 1
        agree(program, [x], [x.T])


@pytest.mark.parametrize("f, shape, rule, changes", [
    (lambda x: x.T * 2, (16, 16), "small array", {}),
    (lambda x: x.T * 2, (15, 100), "short axis", {"panel_from": 0}),
    (lambda x: x.T * 2, (100, 15), "short axis", {"panel_from": 0}),
    (lambda x: jnp.swapaxes(x, 0, 1), (40, 30, 20), None, {"panel_from": 0}),
    (lambda x: x[0][:, None] * x[1], (100, 100), None, {"panel_from": 0}),
    (lambda x: sum(jnp.roll(x, k).T for k in range(9)), (40, 40), "one tile",
     {"panel_from": 0}),
])  # fmt: skip
def test_what_stays_as_it_was_says_why(f, shape, rule, changes):
    with fusing(**changes):
        program = lowered(f, numbers(shape))
        assert not panels_in(program)
        found = [d for k in program.kernels for d in decisions_about(k, arrange)]
    assert {d.rule for d in found} == ({rule} if rule else set())
    assert not any(d.fused for d in found) and all(d.reason for d in found)


def test_the_ledger_says_what_goes_through_panels():
    with fusing(panel_from=0):
        kernel, = lowered(lambda x: x.T * 2, numbers((64, 64))).kernels
        decision, = decisions_about(kernel, arrange)
    assert decision.fused and decision.rule == "panels"
    assert decision.setting == "panel_from"
    lengths = {"row": 64, "read": 32, "steps": 2}
    assert decision.numbers == {"panels": 1, "bytes": 64 * 64 * 4, **lengths}
    assert str(decision) == (
        "transpose, mul: arrays along other axes are turned in panels (panels)"
    )


@pytest.mark.chapter(20)
@pytest.mark.fusion
@pytest.mark.parametrize("straight", [(), (2,), (1, 2)])
def test_the_program_of_the_report_is_one_kernel_that_reads_once(straight):
    from minijit.compile.fuse.traffic import traffic_of

    def f(x):
        uses = mj.nn.silu(x), x * 2, x + 1
        pairs = [(y, jnp.swapaxes(y, 1, 2)) for y in uses]
        return [pair[n not in straight] for n, pair in enumerate(pairs)]

    x = mj.ShapeDtypeStruct((64, 1024, 512), "float32")
    kernel, = lowered(f, x).kernels
    traffic = traffic_of(kernel)
    uses = (*traffic.reads, *traffic.writes)
    assert [use.nbytes for use in uses] == [64 * 1024 * 512 * 4] * 4
    assert all(use.exact and use.sweeps == 1 for use in uses)
    assert len(local_buffers(arrange(kernel.body))) == 1


def test_tiles():
    for extent in [*range(16, 200), 1000, 1500, 4097, 65537]:
        for longest in (16, 64, 1000):
            tiles = panels.in_tiles(Axis(extent), longest)
            last = extent % tiles.length or tiles.length
            assert tiles.length % panels.BLOCK == 0 and last >= panels.BLOCK
            count = tiles.counter.extent if tiles.counter else 1
            assert (count - 1) * tiles.length + last == extent
            assert tiles.counter is None or count > 1


def test_a_panel_is_a_quarter_of_a_cache():
    x = mj.ShapeDtypeStruct((64, 1024, 512), "float32")
    f = lambda x: [jnp.swapaxes(g(x), 1, 2) for g in (mj.nn.silu, jnp.exp, jnp.sin)]
    for size, row in ((1 << 25, 64), (1 << 30, 1024)):
        with fusing(stream_bytes=size):
            panel, = panels_in(lowered(f, x))
        assert panel.nbytes <= 1.1 * mj.config.fusion.row_bytes
        assert row <= panel.shape[1] < 1.5 * row


@pytest.mark.parametrize("straight, axis", [(0, 0), (1, 1), (2, 1)])
def test_what_goes_past_the_caches_is_read_in_long_runs(straight, axis):
    def f(x):
        pairs = [(y, y.T) for y in (x * 2, x + 1, jnp.exp(x))]
        return [pair[n >= straight] for n, pair in enumerate(pairs)]

    x = mj.ShapeDtypeStruct((1024, 512), "float32")
    with fusing(stream_bytes=0):
        program = lowered(f, x)
        kernel, = program.kernels
        found = {d.rule: d for d in decisions_about(kernel, arrange)}
        body = arrange(kernel.body)
    lengths = {"rows of x": 64, "columns of x": 512}
    numbers = found["panels"].numbers
    # The innermost loop is over the columns if the first result is straight.
    names = ("rows of x", "columns of x")[:: -1 if axis else 1]
    assert [numbers["row"], numbers["read"]] == [lengths[name] for name in names]
    assert "streamed" in found
    stores = [s for s in statements(body) if isinstance(s, Store)]
    assert [s.buffer.space == "cache" for s in stores].index(True) == straight


def test_arranging_twice_changes_nothing(small_tiles):
    kernel, = lowered(lambda x: x.T * 2, numbers((50, 60))).kernels
    once = arrange(kernel.body)
    twice = arrange(once)
    assert [type(s) for s in statements(once)] == [type(s) for s in statements(twice)]
    assert once[0].axis is twice[0].axis
    assert local_buffers(once) == local_buffers(twice)


def test_in_a_loop(small_tiles):
    x = numbers((33, 40))

    def f(x):
        step = lambda i, c: (c.T * 2 + i).reshape(33, 40)
        return mj.lax.fori_loop(0, 3, step, x)

    want = x
    for i in range(3):
        want = (want.T * 2 + i).reshape(33, 40)
    for backend in ("plain", None):
        np.testing.assert_allclose(mj.jit(f, backend=backend)(x), want, 1e-5)


# ---- machine code


@pytest.mark.chapter(23)
def test_blocks_are_turned_in_registers():
    from minijit.run.llvm.target import vector_bytes

    x = numbers((64, 64))
    with fusing(panel_from=0):
        text = mj.jit(lambda x: x.T).lower(x).compile().as_text("llvm")
    n = {16: 8, 32: 8, 64: 16}[vector_bytes()]
    assert text.count("shufflevector") == n * math.log2(n)
    loads, stores = (text.count(f"{word} <{n} x float>") for word in ("load", "store"))
    # One more where the panel's rows are stored as strips.
    assert loads == stores and stores in (n, n + 1)


@pytest.mark.chapter(24)
@pytest.mark.parametrize("shape, dtype, whole, streams", [
    ((128, 64), "float32", True, 2), ((128, 64), "float64", True, 2),
    ((99, 50), "float32", False, 0), ((64, 128, 2), "float32", False, 0),
    ((128, 64), "int8", False, 0),
])  # fmt: skip
def test_large_results_go_past_the_caches(shape, dtype, whole, streams):
    from minijit.run.llvm.kernels import KernelText

    x = numbers(shape, dtype)
    for size, count in ((0, streams), (1 << 25, 0)):
        with mj.enable_x64(True), fusing(panel_from=0, stream_bytes=size):
            program = lowered(lambda x: (jnp.swapaxes(x, 0, 1) * 2, x + 1), x)
            agree(program, [x], [np.swapaxes(x, 0, 1) * 2, x + 1])
            kernel, = program.kernels
            rules = {d.rule: d.setting for d in decisions_about(kernel, arrange)}
            assert KernelText(kernel).text.count("!nontemporal") == count
        assert rules.get("streamed") == ("stream_bytes" if whole and not size else None)


@pytest.mark.chapter(24)
def test_threads_have_panels_of_their_own(small_tiles, monkeypatch):
    from minijit.run.threads import kernels as threads

    monkeypatch.setitem(mj.config.values, "thread_time", 0)
    for f, shape in [
        (lambda x: x.T * 2, (100, 90)),
        (lambda x: jnp.swapaxes(x, 1, 2) * 2, (9, 33, 40)),
        (lambda x: jnp.swapaxes(x, 1, 2) * 2, (2, 33, 400)),
    ]:
        x = numbers(shape)
        kernel, = lowered(f, x).kernels
        assert type(threads.text_of_kernel(kernel)) is threads.ThreadedText
        with mj.config.override("cpu_threads", 5):
            np.testing.assert_array_equal(mj.jit(f)(x), np.asarray(f(x)))


reshaped = {
    "turned": (lambda jnp, x: x.T.reshape(x.shape) + x, (48, 100)),
    "axes": (lambda jnp, x: x.transpose(1, 0, 2).reshape(750, 20) * 2, (30, 10, 50)),
    "a part": (lambda jnp, x: x[:, :-1].reshape(99, 48) * 2, (48, 100)),
    "parts": (
        lambda jnp, x: jnp.concatenate([x, x[:, :7]], 1).reshape(107, 48), (48, 100)
    ),
}  # fmt: skip


@pytest.mark.chapter(24)
@pytest.mark.parametrize("name", reshaped)
def test_digits_of_a_number_that_several_axes_make_are_loops(name):
    # Each element took divisions, one by one: up to nine times as long as jax's copy.
    from minijit.run.threads.kernels import is_parallel

    f, shape = reshaped[name]
    x = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    compiled = mj.jit(lambda x: f(jnp, x)).lower(x).compile()
    assert not re.search("[us](div|rem) i64", compiled.as_text("llvm"))
    np.testing.assert_array_equal(compiled(x), f(np, x))
    program = program_of(lambda x: f(jnp, x), x)
    kernel, = program.kernels
    assert is_parallel(arrange(kernel.body))
