"""Lowering: what programs become, and that they compute what they say."""

import numpy as np
import pytest
from harness import alike
from ir_interpreter import run

from minijit.compile.loops.expressions import Load
from minijit.compile.loops.graphs import postorder
from minijit.compile.loops.statements import Kernel, Store, expressions, statements
from minijit.compile.lower.walk import lower
from minijit.trace import primitives as prim
from minijit.trace.array import aval_of
from minijit.trace.base.config import config
from minijit.trace.jaxprs.jaxpr import (
    ClosedJaxpr, TraceInfo, eval_jaxpr, trace_to_jaxpr,
)

pytestmark = [pytest.mark.chapter(15), pytest.mark.usefixtures("unfused")]


def separate(program):
    """The decisions to store a value that is read."""
    return [d for d in program.decisions if d.b and not d.fused]


def trace(function, *args):
    """The closed jaxpr of a function of arrays with one result, or a list of them."""

    def flat(*args):
        results = function(*args)
        return results if isinstance(results, (list, tuple)) else [results]

    info = TraceInfo(function.__name__, "a test")
    return ClosedJaxpr(*trace_to_jaxpr(flat, list(map(aval_of, args)), info))


def check(function, *args, tolerance=2e-6, place=lambda body: body):
    """Lower a function, run its loops in plain Python, compare: -> the program."""
    closed = trace(function, *args)
    with config.override("debug_checks", True):
        program = lower(closed)
    got = run(program, *args, place=place)
    want = eval_jaxpr(closed.jaxpr, closed.consts, *args)
    for x, y in zip(got, want, strict=True):
        y = np.asarray(y)
        rtol = max(tolerance, 2e-2 * (y.dtype.itemsize == 2))
        alike(x, y, rtol=rtol, atol=tolerance)
    return program


def floats(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def ints(*shape, dtype="int32", seed=0):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def half(dtype):
    return np.dtype(dtype) if dtype != "bfloat16" else np.dtype(prim.dtypes.bfloat16)


def test_operands_of_size_one_and_scalars_spread():
    check(lambda x, y: prim.add(prim.mul(x, y), 2.0), floats(3, 4), floats(3, 1))
    check(lambda x: prim.add(x, 2.0), floats())


def test_convert():
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
    "reshape turned": lambda x: prim.reshape(x, (8, 3), (2, 0, 1)),
    "slice": lambda x: prim.slice(x, (0, 1, 1), (2, 3, 4), (1, 1, 2)),
    "broadcast": lambda x: prim.broadcast_in_dim(x, (5, 2, 3, 4), (1, 2, 3)),
    "expand": lambda x: prim.expand_dims(x, (1, 3)),
    "squeeze": lambda x: prim.squeeze(prim.expand_dims(x, (0, 2)), (0,)),
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
    check(lambda x: prim.reduce_prod(x, (0, 1)), floats(*shape))
    check(lambda x: prim.reshape(x, (0,)), floats(*shape))
    check(lambda x: prim.reshape(prim.sin(x), (*shape[::-1], 5)), floats(*shape))
    check(lambda x: prim.reshape(x, (2, 0, 4)), floats(*shape))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions(name, axes):
    function = getattr(prim, f"reduce_{name}")
    for x in (floats(2, 3, 4), ints(2, 3, 4), floats(2, 3, 4, dtype="float16")):
        check(lambda x: function(x, axes), x)


def test_16_bit_floats_are_summed_in_32_bits():
    """In 16 bits 2048 and 1 are 2048."""
    check(lambda x: prim.reduce_sum(x, (0,)), np.ones(3000, "float16"))


@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_bit_reductions(dtype):
    x = ints(3, 4).astype(dtype)
    for name in ("and", "or", "xor"):
        check(lambda x, name=name: getattr(prim, f"reduce_{name}")(x, (1,)), x)
    check(lambda x: prim.reduce_max(x, (0, 1)), x)


def softmax(x, axis=1):
    shape, kept = x.shape, (1 - axis,)
    top = prim.broadcast_in_dim(prim.reduce_max(x, (axis,)), shape, kept)
    power = prim.exp(prim.sub(x, top))
    total = prim.broadcast_in_dim(prim.reduce_sum(power, (axis,)), shape, kept)
    return prim.div(power, total)


def test_softmax_is_four_kernels():
    program = check(softmax, floats(4, 8))
    assert len(program.kernels) == 4
    assert [(str(d.a[0].primitive), d.rule) for d in separate(program)] == [
        ("reduce_max", "total"), ("exp", "recompute"), ("reduce_sum", "total")
    ]
    check(lambda x: softmax(x, 0), floats(4, 8))


def test_a_total_is_computed_where_it_is_asked_for_once():
    def mean(x):
        return prim.div(prim.reduce_sum(x, (1,)), 8.0)

    program = check(mean, floats(4, 8))
    assert len(program.kernels) == 1 and not separate(program)


def buffers_of(kernel):
    loads = [e for e in postorder(expressions(kernel.body)) if isinstance(e, Load)]
    stores = [s for s in statements(kernel.body) if isinstance(s, Store)]
    return {e.buffer for e in (*loads, *stores)}


def test_stores_that_share_no_read_share_no_kernel():
    def update(*arrays):
        pairs = zip(arrays[:40], arrays[40:], strict=True)
        return [prim.sub(p, prim.mul(g, 0.1)) for p, g in pairs]

    program = lower(trace(update, *[floats(3) for _ in range(80)]))
    assert [len(buffers_of(kernel)) for kernel in program.kernels] == [3] * 40


def test_a_read_of_a_few_numbers_is_not_worth_a_kernel_for_two():
    def function(rate, *arrays):
        return [prim.mul(x, rate) for x in arrays]

    program = lower(trace(function, floats(), *[floats(3) for _ in range(5)]))
    assert len(program.kernels) == 5
    # Numbers that share a number do share one.
    program = lower(trace(function, floats(), *[floats() for _ in range(5)]))
    assert len(program.kernels) == 1


def test_a_store_does_not_join_a_kernel_that_waits_for_it():
    def function(x):
        y = prim.exp(x)
        total = prim.broadcast_in_dim(prim.reduce_sum(y, (0, 1)), (30, 40), ())
        # y, then its total, then z: y may not join z, whose shape is the same.
        return [y, prim.mul(y, total)]

    program = check(function, floats(30, 40))
    assert len(program.kernels) == 3


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
    for kernel in program.kernels:
        assert len(postorder(expressions(kernel.body))) < 100


def test_doubling_is_linear():
    def function(x):
        for _ in range(60):
            x = prim.add(x, x)
        return x

    kernel, = lower(trace(function, floats(3))).kernels
    assert len(postorder(expressions(kernel.body))) < 70


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


@pytest.mark.parametrize("step, loaded", [(1, 0), (0, 0), (np.arange(4) ** 2, 1)])
def test_integers_in_equal_steps_are_counted(step, loaded):
    """Of frames that overlap each index was loaded, and kept in bounds."""
    places = (np.arange(5)[:, None] * 3 - 2 + np.arange(4) * step).astype("int32")
    count = lambda x: [prim.add(x, places), prim.mul(places, x)]
    program = check(count, np.arange(20, dtype="int32").reshape(5, 4))
    assert len(program.constants) == loaded


def test_every_statement_at_the_top_is_a_kernel_or_a_call():
    program = lower(trace(softmax, floats(4, 8)))
    assert [type(s) for s in program.body] == [Kernel] * 4
    assert [k.name for k in program.kernels] == ["k0", "k1", "k2", "k3"]
