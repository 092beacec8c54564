"""Lowering: what programs become, and that they compute what they say."""

import numpy as np
import pytest
from ir_interpreter import run

from minijit.compile.loops import Kernel, expressions, place, postorder
from minijit.compile.lower import lower
from minijit.trace import primitives as prim
from minijit.trace.array import aval_of
from minijit.trace.config import config
from minijit.trace.jaxpr import ClosedJaxpr, TraceInfo, eval_jaxpr, trace_to_jaxpr

pytestmark = pytest.mark.chapter(13)


def trace(function, *args):
    """The closed jaxpr of a function of arrays with one result, or a list of them."""

    def flat(*args):
        results = function(*args)
        return results if isinstance(results, (list, tuple)) else [results]

    info = TraceInfo(function.__name__, "a test")
    return ClosedJaxpr(*trace_to_jaxpr(flat, list(map(aval_of, args)), info))


def check(function, *args, tolerance=2e-6):
    """Lower a function, run its loops in plain Python, compare: -> the program."""
    closed = trace(function, *args)
    with config.override("debug_checks", True):
        program = lower(closed)
    got = run(program, *args)
    want = eval_jaxpr(closed.jaxpr, closed.consts, *args)
    for x, y in zip(got, want, strict=True):
        y = np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape
        if y.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            wide = np.complex128 if y.dtype.kind == "c" else np.float64
            rtol = max(tolerance, 2e-2 * (y.dtype.itemsize == 2))
            x, y = x.astype(wide), y.astype(wide)
            np.testing.assert_allclose(x, y, rtol=rtol, atol=tolerance)
    return program


def floats(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def ints(*shape, dtype="int32", seed=0):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


halves = ["float16", "bfloat16"]
real_dtypes = [*halves, "float32"]
int_dtypes = ["int8", "uint8", "int16", "uint32", "int32"]


def half(dtype):
    return np.dtype(dtype) if dtype != "bfloat16" else np.dtype(prim.dtypes.bfloat16)


@pytest.mark.parametrize("dtype", real_dtypes)
@pytest.mark.parametrize("name", "neg sign abs exp log sqrt sin cos tanh".split())
def test_unary(name, dtype):
    x = np.abs(floats(3, 4)).astype(half(dtype))
    check(getattr(prim, name), x)


@pytest.mark.parametrize("dtype", [*real_dtypes, *int_dtypes])
@pytest.mark.parametrize("name", "add sub mul div max min eq ne lt le gt ge".split())
def test_binary(name, dtype):
    make = floats if dtype in real_dtypes else lambda *s, seed: ints(
        *s, dtype=dtype, seed=seed
    )
    x, y = (make(3, 4, seed=seed).astype(half(dtype)) for seed in (0, 1))
    check(getattr(prim, name), x, y)


@pytest.mark.parametrize("dtype", ["bool", *int_dtypes])
def test_logic(dtype):
    x, y = (ints(7, dtype="int8", seed=seed).astype(dtype) for seed in (0, 1))
    for function in (prim.bitwise_and, prim.bitwise_or, prim.bitwise_xor):
        check(function, x, y)
    check(prim.bitwise_not, x)
    check(prim.max, x, y)
    check(prim.min, x, y)


def test_operands_of_size_one_and_scalars_spread():
    check(lambda x, y: prim.add(prim.mul(x, y), 2.0), floats(3, 4), floats(3, 1))
    check(lambda x: prim.add(x, 2.0), floats())


@pytest.mark.parametrize("y", [0, 1, 2, 3, 7, -1, -3])
def test_powers(y):
    check(lambda x: prim.integer_pow(x, y), floats(5))
    check(lambda x: prim.integer_pow(x, abs(y)), ints(5))
    check(lambda x: prim.pow(x, np.float32(y)), floats(5))
    check(lambda x: prim.pow(x, y), np.abs(floats(5)))


def test_select_and_convert():
    which = np.array([True, False, True])
    check(prim.select_n, which, floats(3), floats(3, seed=1))
    check(prim.select_n, np.bool_(True), floats(3), floats(3, seed=1))
    cases = [floats(4, seed=k) for k in range(3)]
    check(prim.select_n, np.array([0, 1, 2, 9], "int32"), *cases)
    for new in ("int8", "uint32", "bool", "float16", "float32"):
        wild = np.array([np.nan, np.inf, -np.inf, 0.4, -1.6, 300.0, -1e20], "float32")
        check(lambda x, new=new: prim.convert_element_type(x, new), wild)
        check(lambda x, new=new: prim.convert_element_type(x, new), ints(6))


layouts = {
    "transpose": lambda x: prim.transpose(x, (2, 0, 1)),
    "reshape": lambda x: prim.reshape(x, (6, 4)),
    "split": lambda x: prim.reshape(x, (2, 3, 2, 2)),
    "merge": lambda x: prim.reshape(x, (2, 12)),
    "mixed": lambda x: prim.reshape(x, (4, 6)),
    "ravel": lambda x: prim.reshape(x, (24,)),
    "ones": lambda x: prim.reshape(x, (1, 2, 3, 1, 4, 1)),
    "reshape dimensions": lambda x: prim.reshape(x, (8, 3), (0, 2, 1)),
    "slice": lambda x: prim.slice(x, (0, 1, 1), (2, 3, 4), (1, 1, 2)),
    "broadcast": lambda x: prim.broadcast_in_dim(x, (5, 2, 3, 4), (1, 2, 3)),
    "expand": lambda x: prim.expand_dims(x, (1, 3)),
    "squeeze": lambda x: prim.squeeze(prim.expand_dims(x, (0, 2)), (0,)),
    "concatenate": lambda x: prim.concatenate([x, prim.neg(x), x], 1),
    "iota": lambda x: prim.mul(x, prim.broadcasted_iota(np.float32, (2, 3, 4), 1)),
    "copy": lambda x: prim.copy(x),
    "itself": lambda x: x,
}


@pytest.mark.parametrize("name", layouts)
def test_layout(name):
    layout = layouts[name]
    program = check(layout, floats(2, 3, 4))
    assert len(program.kernels) == 1
    around = check(lambda x: prim.sin(layout(prim.neg(x))), floats(2, 3, 4))
    assert len(around.kernels) == 1 and not around.temps


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing(shape):
    check(lambda x: prim.sin(x), floats(*shape))
    check(lambda x: prim.reduce_sum(x, (0,)), floats(*shape))
    check(lambda x: prim.reduce_max(x, (0,)), floats(*shape))
    check(lambda x: prim.concatenate([x, x], 0), floats(*shape))
    check(lambda x: prim.reshape(x, (0,)), floats(*shape))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions(name, axes):
    function = getattr(prim, f"reduce_{name}")
    for x in (floats(2, 3, 4), ints(2, 3, 4), floats(2, 3, 4, dtype="float16")):
        check(lambda x: function(x, axes), x)


@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_bit_reductions(dtype):
    x = ints(3, 4).astype(dtype)
    for name in ("and", "or", "xor"):
        check(lambda x, name=name: getattr(prim, f"reduce_{name}")(x, (1,)), x)
    check(lambda x: prim.reduce_max(x, (0, 1)), x)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_extreme_and_the_first_nan_win(name):
    function = getattr(prim, name)
    rows = [[1, 3, 3, 0], [-np.inf] * 4, [1, np.nan, 5, np.nan], [np.inf, 0, 1, np.inf]]
    x = np.array(rows, "float32")
    for axis in (0, 1):
        check(lambda x, axis=axis: function(x, axis, np.int32), x)
        check(lambda x, axis=axis: function(x, axis, np.uint8), x.astype(np.float16))
    check(lambda x: function(x, 1, np.int32), ints(3, 4) > 0)


def softmax(x, axis=1):
    shape, kept = x.shape, (1 - axis,)
    top = prim.broadcast_in_dim(prim.reduce_max(x, (axis,)), shape, kept)
    power = prim.exp(prim.sub(x, top))
    total = prim.broadcast_in_dim(prim.reduce_sum(power, (axis,)), shape, kept)
    return prim.div(power, total)


def test_softmax_is_four_kernels():
    program = check(softmax, floats(4, 8))
    assert str(program) == """\
program main(in0: f32[4,8]):
  temp t0: f32[4]
  temp t1: f32[4,8]
  temp t2: f32[4]
  output out0: f32[4,8]
  k0:
    for i0 in 4:
      r0 = -inf
      for k0 in 8:
        r0 max= in0[i0, k0]
      t0[i0] = r0
  k1:
    for i0 in 4:
      v0 = t0[i0]
      for i1 in 8:
        t1[i0, i1] = exp((in0[i0, i1] - v0))
  k2:
    for i0 in 4:
      r0 = 0.0
      for k0 in 8:
        r0 += t1[i0, k0]
      t2[i0] = r0
  k3:
    for i0 in 4:
      v0 = t2[i0]
      for i1 in 8:
        out0[i0, i1] = t1[i0, i1] / v0"""
    assert [(str(c.producer.primitive), c.rule) for c in program.cuts] == [
        ("reduce_max", "total"), ("exp", "recompute"), ("reduce_sum", "total")
    ]
    check(lambda x: softmax(x, 0), floats(4, 8))


def test_a_total_is_computed_where_it_is_asked_for_once():
    def mean(x):
        return prim.div(prim.reduce_sum(x, (1,)), 8.0)

    program = check(mean, floats(4, 8))
    assert len(program.kernels) == 1 and not program.cuts


def test_stores_over_one_space_share_a_kernel_and_its_reads():
    def function(x):
        y = prim.neg(x)
        return [
            y, prim.sin(y), x, prim.reduce_sum(x, (1,)), prim.reduce_max(x, (1,))
        ]

    program = check(function, floats(3, 4))
    assert len(program.kernels) == 2
    assert str(program).count("in0[") == 2


def test_a_store_does_not_join_a_kernel_that_waits_for_it():
    def function(x):
        y = prim.exp(x)
        total = prim.broadcast_in_dim(prim.reduce_sum(y, (0, 1)), (3, 4), ())
        # y, then its total, then z: y may not join z, whose shape is the same.
        return [y, prim.mul(y, total)]

    program = check(function, floats(3, 4))
    assert len(program.kernels) == 3


def test_diamond_of_kernels_is_run_in_order():
    def function(x):
        a = prim.exp(x)
        down = prim.reduce_sum(a, (0,))
        across = prim.reduce_sum(a, (1,))
        spread = prim.add(
            prim.broadcast_in_dim(down, (3, 4), (1,)),
            prim.broadcast_in_dim(across, (3, 4), (0,)),
        )
        return [prim.reduce_max(prim.mul(spread, a), (0, 1)), down]

    check(function, floats(3, 4))


def matrix_options():
    """Four ways of S1's author to permute a 4x4 matrix, as index maps."""
    order = np.array([0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11], "int32")

    def rows(x):
        parts = []
        for i in range(4):
            row = prim.slice(x, (i, 0), (i + 1, 4))
            left = prim.slice(row, (0, i), (1, 4))
            parts.append(prim.concatenate([left, prim.slice(row, (0, 0), (1, i))], 1))
        return prim.concatenate(parts, 0)

    def columns(x):
        return prim.transpose(rows(prim.transpose(x, (1, 0))), (1, 0))

    def ravel(x):
        flat = prim.reshape(x, (16,))
        parts = [prim.slice(flat, (int(k),), (int(k) + 1,)) for k in order]
        return prim.reshape(prim.concatenate(parts, 0), (4, 4))

    return {"rows": rows, "columns": columns, "ravel": ravel}


@pytest.mark.parametrize("name", matrix_options())
def test_permuting_a_matrix_is_one_kernel(name):
    permute = matrix_options()[name]

    def mix(x):
        y = prim.bitwise_xor(permute(prim.add(x, x)), x)
        return prim.add(y, y)

    program = check(mix, ints(4, 4, dtype="uint32"))
    assert len(program.kernels) == 1 and not program.temps


def test_stencils_stay_bounded():
    def smooth(u):
        n, = u.shape
        parts = [prim.slice(u, (d,), (n - 2 + d,)) for d in range(3)]
        return prim.add(prim.add(parts[0], prim.mul(parts[1], 2.0)), parts[2])

    def many(u):
        for _ in range(7):
            u = smooth(u)
        return u

    program = check(many, floats(40), tolerance=1e-4)
    assert 2 <= len(program.kernels) <= 7
    assert len(str(program).splitlines()) < 60


def test_doubling_is_linear():
    def function(x):
        for _ in range(60):
            x = prim.add(x, x)
        return x

    program = lower(trace(function, floats(3)))
    assert len(program.kernels) == 1
    assert len(str(program).splitlines()) < 80


def chain(n):
    def function(x):
        for k in range(n):
            x = prim.add(x, 1.0) if k % 2 else prim.sin(x)
        return x

    return trace(function, floats(3))


@pytest.mark.parametrize("n", [200, 2000, 6000])
def test_long_chains_are_lowered_in_linear_size_without_recursion(n):
    program = lower(chain(n))
    size = 0
    for kernel in program.kernels:
        size += len(postorder(expressions(place(kernel.body, nest=0))))
    assert n <= size <= 2 * n + 10 * len(program.kernels)
    assert [c.rule for c in program.cuts] == ["large kernel"] * len(program.cuts)
    assert len(program.kernels) == 1 + n // 2049
    assert len(str(program).splitlines()) < n


def test_twenty_thousand_equations():
    program = lower(chain(20_000))
    assert sum(len(k.eqns) for k in program.kernels) >= 20_000


def test_kernels_know_their_equations_and_lines():
    def function(x):
        y = prim.sin(x)
        return prim.mul(y, 2.0)

    program = lower(trace(function, floats(3)))
    kernel, = program.kernels
    assert [str(e.primitive) for e in kernel.eqns] == ["sin", "mul"]
    first = function.__code__.co_firstlineno
    assert [s.line for s in kernel.sources] == [first + 1, first + 2]


def test_results_never_alias():
    x = floats(3)
    program = check(lambda x: [x, x, prim.neg(x)], x)
    assert not set(program.outputs) & set(program.inputs)
    assert len(program.kernels) == 1
    constant = np.arange(3, dtype="float32")
    program = check(lambda x: [prim.add(x, constant), constant, 2.0], x)
    assert len(program.constants) == 1


def test_dead_equations_make_nothing():
    program = lower(trace(lambda x: [prim.exp(x), prim.neg(x)][1], floats(3)))
    kernel, = program.kernels
    assert [str(e.primitive) for e in kernel.eqns] == ["neg"]


def test_every_statement_at_the_top_is_a_kernel_or_a_call():
    program = lower(trace(softmax, floats(4, 8)))
    assert [type(s) for s in program.body] == [Kernel] * 4
    assert [k.name for k in program.kernels] == ["k0", "k1", "k2", "k3"]
