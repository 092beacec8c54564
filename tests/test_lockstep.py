"""Kernels on a grid, run in step: what they compute, and what is caught."""

from types import SimpleNamespace

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.compile import pipeline
from minijit.compile.decisions import noting
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load
from minijit.compile.loops.statements import For, Store
from minijit.compile.loops.text import Writer
from minijit.compile.lower.walk import lower
from minijit.run.device import grid
from minijit.run.device.grid_memory import NoCudaForm
from minijit.run.device.lockstep import run_in_lockstep
from minijit.run.device.lockstep_memory import Divergence, OutOfBounds, Race
from tests import random_cuda

pytestmark = pytest.mark.chapter(26)
rng = np.random.default_rng(0)
square = rng.uniform(0.5, 2, (40, 70)).astype("f4")

programs = {
    "elementwise": lambda x: jnp.exp(x) * 2 - x,
    "softmax": nn.softmax,
    "columns": lambda x: x / x.sum(0),
    "transpose": lambda x: x.T * 2,
    "sum": lambda x: x.sum(),
    "argmax": lambda x: jnp.argmax(x, 1),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "two layouts": lambda x: (x.T, x + 1),
}


@pytest.mark.parametrize("name", programs)
def test_agrees_with_plain(name):
    found = mj.jit(programs[name], backend="cuda-lockstep")(square)
    wanted = mj.jit(programs[name], backend="eval")(square)
    for a, b in zip(*map(mj.tree_util.tree_leaves, (found, wanted)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 1e-5)


def kernel_of(f, *args):
    entry = mj.jit(f, backend="cuda-lockstep").lower(*args).entry
    kernel, = entry.compile().loaded.kernels
    return kernel


def test_ptx_for_each_generation():
    kernel = kernel_of(nn.softmax, square)
    for major, minor in ((8, 0), (9, 0), (10, 0)):
        ptx = kernel.ptx((major, minor))
        assert f".target sm_{major}{minor}" in ptx
        assert f".entry {kernel.name}(" in ptx
        assert "shfl.sync.bfly" in ptx and "bar.sync" in ptx
    assert kernel.grid == (40, 1, 1) and kernel.block == (96, 1, 1)
    assert kernel.printed.comment.endswith("# 40 blocks of 96 threads")
    assert [b.shape for b in kernel.args] == [(40, 70), (40, 70)]


@pytest.mark.chapter(27)
def test_without_a_device_a_call_says_so():
    refused(Exception, "on the CPU, slowly", mj.jit(jnp.sin, backend="cuda"), square)


# ---- what is undefined on a device

AVERAGE = """
def k(x0: float32[64], y0: float32[64]):
    t0 = cuda.threadIdx.x
    s0 = cuda.shared.array(64, np.float32)
    s0[t0] = x0[t0]
    {between}
    y0[t0] = s0[(t0 + 1) % 64] + {more}
"""


def run_text(text, *arrays, blocks=1, threads=64):
    printed = SimpleNamespace(text=text)
    kernel = SimpleNamespace(
        printed=printed, constants={}, grid=(blocks, 1, 1), block=(threads, 1, 1)
    )
    return run_in_lockstep(kernel, *arrays)


def average(between, more="0"):
    x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    run_text(AVERAGE.format(between=between, more=more), x, y)
    return y


def test_a_barrier_makes_it_right():
    assert (average("cuda.syncthreads()") == np.roll(np.arange(64), -1)).all()


@pytest.mark.parametrize("between, more, error", [
    ("pass", "0", Race),
    ("cuda.syncthreads()", "x0[t0 + 1]", OutOfBounds),
    ("if t0 < 40:\n        cuda.syncthreads()", "0", Divergence),
    ("if t0 < 40:\n        t1 = cuda.shfl_xor_sync(-1, t0, 1)", "0", Divergence),
])  # fmt: skip
def test_what_is_undefined_raises(between, more, error):
    refused(error, "thread|block|warp", average, between, more)


def test_blocks_have_no_order():
    text = "def k(y0):\n    y0[cuda.threadIdx.x] = 1\n"
    refused(Race, "block 1", run_text, text, np.zeros(32), blocks=2, threads=32)
    with pytest.raises(Race, match="at once"):
        run_text(text.replace("cuda.threadIdx.x", "0"), np.zeros(1), threads=32)
    atomic = "def k(y0):\n    cuda.atomic.add(y0, cuda.threadIdx.x, 1)\n"
    y = np.zeros(32)
    run_text(atomic, y, blocks=2, threads=32)
    assert (y == 2).all()
    # A barrier stands between what one block counts and reads, but not between two.
    text = """def k(y0, y1):
    s0 = cuda.shared.array(1, np.float32)
    if cuda.threadIdx.x == 0:
        s0[0] = 0
    cuda.syncthreads()
    cuda.atomic.add({0}, 0, 1)
    cuda.syncthreads()
    if cuda.blockIdx.x == 1:
        y1[cuda.threadIdx.x] = {0}[0]
"""
    run_text(text.format("s0"), np.zeros(1, "f4"), y, blocks=2, threads=32)
    assert (y == 32).all()
    with pytest.raises(Race, match="block 1"):
        run_text(text.format("y0"), np.zeros(1, "f4"), y, blocks=2, threads=32)


def test_of_those_that_swap_at_once_one_stores():
    text = """def k(y0, y1):
    n = np.uint32(cuda.blockIdx.x * 32 + cuda.threadIdx.x)
    y1[n] = compare_and_swap(y0, n % 3, np.uint32(5), n)
"""
    y, found = np.array([5, 5, 6], "u4"), np.zeros(64, "u4")
    run_text(text, y, found, blocks=2, threads=32)
    # Number 5 stores a 5 where there is one, and so does not keep another from it.
    assert y.tolist() == [0, 1, 6]
    assert np.flatnonzero(found[:32] == 5).tolist() == [0, 1]
    assert (found[2::3] == 6).all() and (found[3::3] == 0).all()


# ---- which loops are bound, and how

many = lambda x, y, z: x.T * y.T + z.T


@pytest.mark.parametrize("f, shapes, extents, rule", [
    (jnp.tanh, [(64, 96)], [64, 96], "short steps"),
    (lambda x: x.T * 2, [(64, 96)], [96, 64], "short steps"),  # a store counts twice
    (many, [(64, 96)] * 3, [64, 96], "short steps"),  # and is less than three loads
    (nn.softmax, [(64, 96)], [64], "large steps"),
    (lambda x: x / x.sum(1, keepdims=True), [(4096, 64)], [4096], "along a step"),
    (lambda x: x.sum(0), [(64, 4096)], [4096], "across steps"),
    (lambda x: x.sum(1), [(64, 4096)], [64], "few blocks"),
    (lambda x: x.sum(1), [(64, 96)], [64], "few blocks"),
    (lambda x: x.sum(1), [(512, 64)], [512], "along a step"),
    (lambda x: x.sum(1), [(512, 4096)], [512], "few blocks"),
    (lambda x: x.sum(1), [(4096, 8)], [4096], "short steps"),
])  # fmt: skip
def test_which_axes_are_the_grid(f, shapes, extents, rule):
    given = [np.ones(shape, "f4") for shape in shapes]
    kernel, = lower(mj.make_jaxpr(f)(*given)).kernels
    axes, body = grid.peeled(kernel.body[0])
    outer = grid.best_last(grid.known_outside(axes, body), body)
    assert [axis.extent for axis in outer] == extents
    with noting() as said:
        grid.goes_by_block(outer, body)
    assert said[-1][0] == rule


def test_the_threads_of_a_block_divide_loops():
    steps, i, j = Axis(8, "serial"), Axis(24), Axis(6)
    x, y = (Buffer(name, (6, 24), np.dtype("f4")) for name in "xy")
    copy = Store(y, (j, i), Load(x, (j, i)))
    divided = grid.collapsed(For(steps, (For(i, (For(j, (copy,)),)),)))
    assert divided.body[0].axis.kind == "thread"
    assert grid.collapsed(For(i, (copy,))).axis.kind == "thread"
    writer = Writer()
    writer.block([divided], 0)
    assert writer.lines == [
        "for i0 in serial 8:",
        "  for i1 in 144:",
        "    y[i1 // 24, i1 % 24] = x[(i1 // 24), (i1 % 24)]",
    ]


# ---- what is counted


def counts_of(f, *args):
    kernel = kernel_of(f, *args)
    arrays = [np.ones(b.shape, b.dtype) for b in kernel.args]
    return run_in_lockstep(kernel, *arrays)


x64 = np.ones((64, 96), "f4")
sectors = x64.nbytes // 32


def test_a_transpose_by_tiles_moves_whole_sectors(monkeypatch):
    counts = counts_of(lambda x: x.T * 2, x64)
    assert (counts["x0"].sectors, counts["y0"].sectors) == (sectors, sectors)
    assert counts["s0"].conflicts == 0
    monkeypatch.setattr(pipeline.nest_forms, "passes", ())
    mj.clear_caches()
    counts = counts_of(lambda x: x.T * 2, x64)
    assert counts["x0"].sectors == 8 * sectors


def test_three_outputs_are_one_read():
    counts = counts_of(lambda x: (x.T, x * 2, jnp.sin(x).T), x64)
    assert counts["x0"].loads == x64.size
    assert {c.sectors for name, c in counts.items() if name[0] in "xy"} == {sectors}


@pytest.mark.parametrize("f", [lambda x: jnp.exp(x) * 2, nn.softmax])
def test_rows_go_along_memory(f):
    counts = counts_of(f, x64)
    assert counts["y0"].sectors == sectors
    assert counts["x0"].sectors in (sectors, 2 * sectors)


def test_scatter_adds_in_memory():
    f = lambda x, i: x.at[i].add(1.0)
    x, i = np.zeros(50, "f4"), np.array([3, 3, 7, 3])
    found = mj.jit(f, backend="cuda-lockstep")(x, i)
    assert found[3] == 3 and found[7] == 1 and found.sum() == 4
    compiled = mj.jit(f, backend="cuda-lockstep").lower(x, i).compile()
    assert "cuda.atomic.add(" in compiled.as_text()
    assert "atom" in compiled.as_text("ptx")


@pytest.mark.parametrize("how, threads", [("set", 64), ("min", 160), ("multiply", 160)])
def test_rows_are_updated_by_many_threads(how, threads):
    x, rows = np.ones((50, 40), "f4"), rng.uniform(0, 2, (4, 40)).astype("f4")
    f = lambda x, i, rows: getattr(x.at[i], how)(rows)
    i = np.array([3, 7, 3, -1])
    found = mj.jit(f, backend="cuda-lockstep")(x, i, rows)
    np.testing.assert_array_equal(found, mj.jit(f, backend="eval")(x, i, rows))
    entry = mj.jit(f, backend="cuda-lockstep").lower(x, i, rows).entry
    _, update = entry.compile().loaded.kernels
    # Those that set go by columns, in order.
    assert ("range(4)" in update.source) == (how == "set")
    assert update.block == (threads, 1, 1) and "cuda.syncthreads" not in update.source


def test_loops_are_one_block():
    def f(x):
        return lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + c.T, x)

    x = np.ones((6, 6), "f4")
    found = mj.jit(f, backend="cuda-lockstep")(x)
    np.testing.assert_array_equal(found, mj.jit(f, backend="eval")(x))
    kernel = kernel_of(f, x)
    assert kernel.grid == (1, 1, 1) and "while True:" in kernel.source
    # All threads copy what a loop carries.
    assert "if t0 == 0" not in kernel.source
    assert "bar.sync" in kernel.ptx((8, 0))


def test_a_tape_has_no_form_and_says_so():
    step = lambda c: lax.while_loop(lambda c: c < 100, lambda c: c * c + 1, c)
    with pytest.raises(NoCudaForm, match="tape"):
        mj.jit(mj.grad(step), backend="cuda-lockstep").lower(2.0).compile()


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed):
    (program, _), args = random_cuda.both(seed)
    random_cuda.compare(program, args, ptx=seed == 0)


@pytest.mark.oracle
def test_a_random_program_is_jax_s():
    pytest.importorskip("jax")
    (program, _), args = random_cuda.both(7)
    kernels, verdict = random_cuda.compare(program, args, peers=("jax",))
    assert kernels and verdict == "float32"


def test_a_program_that_is_wrong_is_not_called_ill_conditioned(monkeypatch):
    x = np.array([1.0, 1.0 + 1e-7])
    steep = lambda lib: lambda x: (x[1] - x[0]) * 1e7 / (1e-9 + abs(x[0] - 1))
    flat = lambda lib: lambda x: x * 2
    monkeypatch.setattr(random_cuda, "by_minijit", answers)
    assert random_cuda.in_float64(steep, [x]) == "ill-conditioned"
    assert random_cuda.in_float64(flat, [x]) == ""


def answers(backend):
    """What a program gives, a little off in lock-step."""
    off = 1 + 1e-5 * (backend == "cuda-lockstep")
    return lambda make, args: [np.array(make(mj)(*args)) * off]
