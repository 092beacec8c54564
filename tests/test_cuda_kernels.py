"""Kernels for a device: which there are, what PTX moves, what an assembler says."""

import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from derivative_cases import cases
from harness import alike, as_interpreted

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.compile.decisions import decisions_about
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Const
from minijit.compile.loops.kernel_buffers import local_buffers
from minijit.compile.loops.statements import For, Store
from minijit.compile.lower.walk import lower
from minijit.compile.numbers.scalar_forms import scalar_forms
from minijit.run.cuda.reports import assembled, bytes_in_ptx
from minijit.run.device.grid import launch_of, widest
from minijit.run.device.grid_memory import COMMON_BYTES
from minijit.run.device.grid_totals import on_grid
from minijit.run.device.lockstep import run_in_lockstep
from minijit.run.report.environment import version_of
from minijit.trace.base.config import config
from tests.ir_on_threads import run_on_threads

pytestmark = pytest.mark.chapter(26)
x = np.linspace(-2, 2, 64 * 96, dtype="f4").reshape(64, 96)


def kernels_of(f, *args):
    """The kernels of a function, equal ones once."""
    lowered = mj.jit(f, backend="cuda-lockstep").lower(*args)
    return lowered.compile().executable.loaded.kernels


agree = partial(as_interpreted, backend="cuda-lockstep")


# ---- every primitive

@pytest.mark.parametrize("part", range(8))
def test_every_primitive_has_a_form(part):
    with mj.config.override("enable_x64", True):
        for case in cases[part::8]:
            for kernel in kernels_of(case.function(lax), *case.varying()):
                assert "define ptx_kernel" in kernel.llvm


rng = np.random.default_rng(0)
ends = "0 -0. 1 -1 2 -2 3 .5 -.5 1.5 inf -inf nan 1e30 1e-310 -1e300 33 -33 171".split()
ends = np.array(ends, "f8")
some = np.concatenate([ends, rng.normal(size=2000) * 4, rng.uniform(0.5, 30, 2000)])
functions = {
    # name: (arguments, from which size on an error counts as one of the result's)
    "lgamma": ((some[some != 1e-310],), 1),  # Of which the logarithm is -inf.
    "pow": (tuple(x.ravel() for x in np.meshgrid(ends, np.r_[ends, some[:300]])), 0),
}


@pytest.mark.parametrize("name", functions)
def test_functions_that_a_device_has_not(name, monkeypatch):
    args, size = functions[name]
    with mj.enable_x64(True):
        f = mj.jit(getattr(lax, name), backend="llvm")
        wanted = np.array(f(*args))
        kernel, = kernels_of(getattr(lax, name), *args)
        assert f"define internal double @{name}(" in kernel.llvm
        monkeypatch.setitem(scalar_forms, name, scalar_forms[f"device_{name}"])
        mj.clear_caches()
        found = np.array(f(*args))
    mj.clear_caches()
    with np.errstate(invalid="ignore"):
        error = abs(found - wanted) / np.spacing(np.maximum(abs(wanted), size))
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    assert (same | (error <= 4)).all(), args[0][np.nanargmax(np.where(same, 0, error))]


dtypes = "bool int8 uint8 int16 int32 uint32 float16 bfloat16 float32".split()


@pytest.mark.parametrize("dtype", dtypes)
def test_dtypes(dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = (np.arange(40 * 48).reshape(40, 48) % 7).astype(kind)
    f = lambda v: (v.T * v[0, 1], v.max(1), v.sum(0), jnp.argmax(v, 1), v[::-1] > v)
    agree(f, values, rtol=1e-2 if kind.itemsize == 2 else 1e-5)
    for kernel in kernels_of(lambda v: (v.T, v.max(1)), values):
        assert kernel.ptx((9, 0))
        assert "fpext" not in kernel.llvm  # What this machine has, a GPU need not.


many = np.linspace(0, 1, 300 * 1001, dtype="f4").reshape(300, 1001)


def test_large_totals_are_many_blocks():
    f = lambda v: jnp.sqrt(v.sum()) + v.max()
    fill, finish = kernels_of(f, many)
    assert fill.grid[0] > 64 and finish.grid[0] == 1
    agree(f, many)


@pytest.mark.parametrize("enough, kernels", [(0, 1), (4, 1), (16, 2), (601, 1)])
def test_columns_are_cut_where_they_are_too_few_threads(enough, kernels):
    f, few = lambda v: (v * v).sum(0), many[:, :4]
    settings = config.fusion.but(enough_threads=enough, few_threads=0)
    with config.override("fusion", settings):
        assert len(kernels_of(f, few)) == kernels
        agree(f, few)


# ---- what PTX moves

bench = {
    # name: (function, bytes that a thread's text loads, that it stores)
    "elementwise": (lambda v: jnp.exp(v) * 2 - v, 4, 4),
    "transpose": (lambda v: v.T, 4, 4),
    "three layouts": (lambda v: (v.T, v * 2, jnp.tanh(v).T), 4, 12),
    "sum of columns": (lambda v: v.sum(0), 4, 4),
    "softmax": (nn.softmax, 4, 4),
}


@pytest.mark.parametrize("name", bench)
def test_ptx_moves_what_the_plan_says(name):
    f, loads, stores = bench[name]
    kernel, = kernels_of(f, x)
    four_and_one = bytes_in_ptx("ld.global.nc.v4.f32 x, ld.global.f32 x")
    assert four_and_one == {("ld", "global"): 20}
    found = bytes_in_ptx(kernel.ptx((9, 0)))
    # LLVM writes loops out; what it writes out are whole steps.
    times = found["st", "global"] // stores
    assert found["st", "global"] == times * stores
    assert found["ld", "global"] in (loads, times * loads)
    assert ("ld", "local") not in found and ".f64" not in kernel.ptx((9, 0))


@pytest.mark.parametrize("order", [(2, 0, 1), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_four_steps_of_a_tile_share_their_addresses(order):
    kernel, = kernels_of(lambda v: v.transpose(order), np.zeros((64, 128, 96), "f4"))
    ptx = kernel.ptx((9, 0))
    instructions = [x for x in ptx.splitlines() if x[:1] == "\t" and x[1].isalpha()]
    assert ptx.count("ld.global") == ptx.count("st.global") == 4
    # The assembler makes 45 instructions of these; of the last order's 46.
    assert len(instructions) <= 53 and kernel.grid[2] > 1
    assert not re.search(r"\b(div|rem|mad\.lo\.s64|mul\.lo\.s64)", ptx)


def test_indices_have_64_bits_where_they_need_them():
    f = lambda v: v[:, ::2] + v[:, :1]
    for rows, wide in ((1 << 14, False), (1 << 17, True)):
        kernel, = kernels_of(f, mj.ShapeDtypeStruct((rows, 1 << 16), "float32"))
        assert ("and.b64" in kernel.ptx((9, 0))) == wide
    for size, wide in ((1 << 30, False), (1 << 34, True)):
        kernel, = kernels_of(lambda v: v * 2, mj.ShapeDtypeStruct((size,), "float32"))
        assert ("mul nuw nsw i64" in kernel.llvm) == wide


@pytest.mark.parametrize("rows, grid", [
    ((1 << 16) - 1, (2, 3, (1 << 16) - 1)), (1 << 16, (6 << 16, 1, 1)),
])  # fmt: skip
def test_axes_too_long_for_a_grid_are_one(rows, grid):
    x = mj.ShapeDtypeStruct((rows, 64, 96), "float32")
    kernel, = kernels_of(lambda v: v.transpose(2, 0, 1), x)
    assert kernel.grid == grid


def test_nests_side_by_side_have_one_axis_each():
    nests = [
        lower(mj.make_jaxpr(lambda v, o=order: v.transpose(o))(np.zeros((64, 128, 96))))
        for order in ((2, 0, 1), (2, 1, 0))
    ]
    launch = launch_of([stmt for p in nests for stmt in p.kernels[0].body])
    assert launch.grid == (768, 1, 1)


def test_what_threads_share_is_as_wide_as_its_longest_loop():
    y, i, j = Buffer("y", (32, 8), np.dtype("f4")), Axis(32), Axis(8)
    body = (For(i, (For(j, (Store(y, (i, j), Const(0, np.dtype("f4"))),)),)),)
    assert widest(body) == 32


def test_a_block_shares_what_comes_after_a_short_total():
    f = lambda v, w: jnp.exp(w - v.sum(1, keepdims=True)).sum(1)
    kernel, = kernels_of(f, x[:9, :20], np.zeros((9, 4000), "f4"))
    assert "addrspace(3)" in kernel.llvm


def test_a_total_over_what_another_within_it_is_over():
    large = mj.ShapeDtypeStruct((300, 4000, 7), "float32")
    kernel, = kernels_of(lambda v: nn.softmax(v, (1, 2)), large)
    assert kernel.grid == (300, 1, 1)


def test_the_text_for_llvm_computes_the_same():
    def f(v):
        return v.T, nn.softmax(v[:2]), v[2:, ::-1] * 2, jnp.cumsum(v[:, :3], 0)

    for kernel in kernels_of(f, x[:33, :40]):
        arrays = [rng.normal(size=b.shape).astype(b.dtype) for b in kernel.args]
        found = [np.array(a) for a in arrays]
        run_in_lockstep(kernel, *arrays)
        run_on_threads(kernel, *found)
        alike(found, arrays, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", bench)
def test_the_assembler_takes_it_without_spills(name):
    pytest.importorskip("cuda.bindings.nvjitlink", reason="needs minijit[test-cuda]")
    if version_of("nvidia-nvjitlink") == "not installed":
        pytest.skip("nvJitLink is not installed")
    kernel, = kernels_of(bench[name][0], x)
    for capability in ((8, 0), (9, 0), (10, 0)):
        made = assembled(kernel.ptx(capability), capability)
        assert made.spills == 0 and made.registers <= 64


@pytest.fixture
def few_are_many():
    """As if a few threads were enough for a GPU."""
    with config.override("fusion", config.fusion.but(enough_threads=0)):
        yield


@pytest.mark.usefixtures("few_are_many")
def test_four_neighbours_are_one_access():
    f = lambda v, w: (jnp.tanh(v) * w + v[:, :1], v.astype("float16"))
    kernel, = kernels_of(f, x, x[0])
    ptx = kernel.ptx((9, 0))
    assert kernel.grid[0] * kernel.block[0] == x.size // 4
    accesses = re.findall(r"(ld|st)\.global\S*\.v(\d)\.[bf](\d+)", ptx)
    found = sorted((way, int(n) * int(bits) // 8) for way, n, bits in accesses)
    assert found == [("ld", 16), ("ld", 16), ("st", 8), ("st", 16)]
    assert not re.search(r"st\.global\.[bf]", ptx)
    agree(f, x, x[0])
    counts = run_in_lockstep(kernel, *(np.zeros(b.shape, b.dtype) for b in kernel.args))
    assert counts["y0"].sectors == 2 * counts["y1"].sectors == 768
    assert counts["x1"].sectors == 576


@pytest.mark.parametrize("f", [
    lambda v: v[:, 1:-3] * 2, lambda v: v[:, ::-1] + 1, lambda v: v[:, ::2] - 1,
    lambda v: v[:, :90] * 2, lambda v: jnp.stack([v.ravel()[1:-3], v.ravel()[2:-2]]),
])  # fmt: skip
@pytest.mark.usefixtures("few_are_many")
def test_what_is_not_aligned_goes_one_by_one(f):
    kernel, = kernels_of(f, x)
    assert ".v4" not in kernel.ptx((9, 0)) and "cuda.vector" not in kernel.source
    agree(f, x)


def test_waves_of_huge_numbers():
    f = lambda v: jnp.sin(v) + jnp.fmod(v, 3.0)
    kernel, = kernels_of(f, x)
    assert "huge_wave" in kernel.ptx((9, 0))
    assert "define internal double @fmod" in kernel.llvm
    agree(f, x * 1e12, rtol=1e-4)


# ---- running totals, and updates that meet

steep = 1 + np.linspace(-1, 1, 5000, dtype="f4") / 1000
running = {
    "one row": (lambda v: jnp.cumsum(v), steep, 1),
    "backwards": (lambda v: lax.cummax(v, reverse=True), steep[::-1], 1),
    "products": (lambda v: jnp.cumprod(v) * 2 + v, steep[:900], 1),
    "rows": (lambda v: jnp.cumsum(v, 1), steep.reshape(5, 1000), 5),
    "columns": (lambda v: jnp.cumsum(v, 0), steep.reshape(1000, 5), 5),
    "16 bits": (lambda v: jnp.cumsum(v), steep[:70].astype("f2"), 1),
    "integers": (lambda v: jnp.cumsum(v), np.arange(300, dtype="i1"), 1),
    "logarithms": (lambda v: lax.cumlogsumexp(v), steep[:500], 1),
}


@pytest.mark.parametrize("name", running)
def test_running_totals_are_many_threads(name):
    f, v, blocks = running[name]
    kernel = kernels_of(f, v)[0]
    steps = v.size // blocks
    assert kernel.grid[0] == blocks and kernel.block[0] >= min(steps // 8, 64)
    assert f"range({steps})" not in kernel.source
    counts = run_in_lockstep(kernel, *(np.ones(b.shape, b.dtype) for b in kernel.args))
    assert counts["y0"].stores == v.size <= counts["x0"].loads < v.size + 2048
    agree(f, v, rtol=1e-2 if v.dtype.itemsize == 2 else 1e-4)


def test_running_totals_of_many_columns_are_a_thread_s_each():
    kernel, = kernels_of(lambda v: jnp.cumsum(v, 0), np.ones((64, 4096), "f4"))
    assert "range(64)" in kernel.source and "syncthreads" not in kernel.source


def test_a_long_row_is_in_pieces_for_many_blocks():
    kernels = kernels_of(jnp.cumsum, mj.ShapeDtypeStruct((1 << 20,), "float32"))
    assert [k.grid[0] for k in kernels] == [512, 1, 512]
    backwards = lambda v: lax.cumsum(v, reverse=True)
    agree(backwards, rng.normal(size=8192).astype("f4"), rtol=1e-4)
    prime, = kernels_of(jnp.cumsum, mj.ShapeDtypeStruct((10007,), "float32"))
    assert prime.grid[0] == 1


@pytest.mark.parametrize("shape", [(50,), (9, 3)])
def test_the_last_of_many_updates_wins(shape):
    where = rng.integers(-2, shape[0] + 3, 300)
    new = rng.normal(size=(300, *shape[1:])).astype("f4")
    f = lambda v, i, new: v.at[i].set(new)
    agree(f, np.zeros(shape, "f4"), where, new)
    *_, decide, settle = kernels_of(f, np.zeros(shape, "f4"), where, new)
    assert "cuda.atomic.max(" in decide.source and "for " not in settle.source
    assert settle.grid[0] * settle.block[0] >= new.size


@pytest.mark.parametrize("how, dtype", [
    (how, dtype)
    for hows, dtypes in (("min max", "bool u2 i8 bfloat16 f8"),
                         ("add multiply", "i1 i4 f2 f4"))
    for how in hows.split()
    for dtype in dtypes.split()
])  # fmt: skip
def test_updates_that_meet_are_many_threads(how, dtype):
    """Whatever they do, in whatever numbers; a NaN stays."""
    new = rng.integers(0, 2, 900) if how == "multiply" else rng.integers(-9, 9, 900)
    new, where = new.astype(jnp.dtype(dtype)), rng.integers(-1, 90, 900)
    floats = dtype in "f2 bfloat16 f4 f8"
    new[[7, 70]] = np.nan if floats else 1
    f = lambda v, i, new: getattr(v.at[i], how)(new)
    with mj.enable_x64(True):
        start = np.ones(77, new.dtype)
        agree(f, start, where, new)
        *_, kernel = kernels_of(f, start, where, new)
    assert kernel.grid[0] * kernel.block[0] >= 900 and "range(" not in kernel.source
    ptx = kernel.ptx((8, 0))
    swaps = "compare_and_swap(" in kernel.source
    assert swaps == (".cas.b" in ptx) and swaps != ("cuda.atomic." in kernel.source)
    assert swaps == (new.itemsize < 4 or how == "multiply" or floats and how != "add")
    assert f".cas.b{64 if new.itemsize == 8 else 32}" in ptx or not swaps
    assert "ld.local" not in ptx


@pytest.mark.parametrize("dtype", "i1 f2 bfloat16 f4 f8".split())
def test_threads_that_swap_lose_no_update(dtype):
    """What LLVM is told, by threads of the CPU."""
    f = lambda v, i, new: v.at[i].max(new)
    new, where = rng.integers(-99, 99, 300), np.arange(300) % 5
    with mj.enable_x64(True):
        start, new = np.full(5, -99, jnp.dtype(dtype)), new.astype(jnp.dtype(dtype))
        *_, kernel = kernels_of(f, start, where, new)
    run_on_threads(kernel, where.astype(kernel.args[0].dtype), new, start)
    wanted = [new.astype("f8")[where == k].max() for k in range(5)]
    np.testing.assert_array_equal(start.astype("f8"), wanted)


def test_few_updates_are_one_after_another():
    f = lambda v, i: v.at[i].set(v[:3])
    assert len(kernels_of(f, np.zeros(50, "f4"), np.arange(3))) == 2


# ---- rows

@pytest.mark.parametrize("columns, reads", [(1000, 1), (8000, 1), (20000, 3)])
def test_a_row_is_read_once_if_it_fits(columns, reads):
    kernel, = kernels_of(nn.softmax, mj.ShapeDtypeStruct((64, columns), "float32"))
    assert kernel.source.count("= x0[") + kernel.source.count(", x0[") >= 1
    assert kernel.source.count("x0[") == reads
    held = sum(b.nbytes for p in kernel.launch.parts for b in local_buffers(p.body))
    assert held <= COMMON_BYTES
    agree(nn.softmax, rng.normal(size=(2, columns)).astype("f4"))


def test_layer_norm_reads_once():
    kernel, = kernels_of(nn.standardize, mj.ShapeDtypeStruct((1024, 1024), "float32"))
    found = bytes_in_ptx(kernel.ptx((9, 0)))
    assert found["ld", "global"] == found["st", "global"] == 4


def test_explain_says_what_the_grid_is():
    def rules(f, *args):
        kernels = lower(mj.make_jaxpr(f)(*args)).kernels
        return {d.rule for k in kernels for d in decisions_about(k, on_grid)}

    long = mj.ShapeDtypeStruct((64, 20000), "float32")
    report = mj.explain(mj.jit(nn.softmax, backend="cuda-lockstep"), many)
    assert "rows kept" in {d.rule for d in report.decisions}
    assert "parts on a grid" in rules(lambda v: v.sum(), many)
    assert "long rows" in rules(nn.softmax, long)
    assert "in order" in rules(lambda v, i: v.at[i].set(v[:3]), x[0], np.arange(3))
    found = rules(lambda v, i: v.at[i].set(1.0), x[0], np.arange(300))
    assert "last update" in found and "in order" not in found


def test_a_report_counts_the_blocks_of_all_axes():
    """A tile of 32 x 32 is a block's: there are 2 x 3."""
    compiled = mj.jit(lambda x: x.T * 2, backend="cuda-lockstep").lower(x).compile()
    report = compiled.as_text("report")
    assert "kernel_0: 6 blocks of 256 threads" in report and "arguments: " in report


@pytest.mark.parametrize("backend", ["cuda-lockstep", "numba-cuda"])
def test_a_report_knows_what_was_decided_on_the_way_to_the_grid(backend):
    report = mj.explain(mj.jit(lambda v: v.sum(), backend=backend), many)
    said = [d for d in report.decisions if d.rule == "parts on a grid"]
    assert len(said) == 1 and said[0].numbers["parts"] > 1
    assert said[0].settings and len(report.steps) == 2
