"""Lowering the long tail: rows, calls, what runs uncompiled, the checker."""

import functools

import numpy as np
import pytest
from harness import refused
from ir_interpreter import run
from test_lower import (
    buffers_of, check as check_raw, floats, half, ints, separate, trace,
)

from minijit import lax, make_jaxpr
from minijit.compile.loops.buffers import Buffer, View, whole
from minijit.compile.loops.check import LoopTypeError, check_program
from minijit.compile.loops.expressions import Axis, Const, Load, Op, op
from minijit.compile.loops.scalars import INDEX
from minijit.compile.loops.statements import Call, For, If, Kernel, Program, Store
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.place import place
from minijit.compile.simplify.folding import simplify
from minijit.ops import (
    bits, complex_numbers, cumulative, elementary, rounding, scatter, sorting,
)
from minijit.trace import primitives as prim, slicing
from minijit.trace.base.config import enable_x64
from minijit.trace.jit.jit import jit

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("unfused")]
F32 = np.dtype("float32")
check = functools.partial(check_raw, place=place)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_extreme_and_the_first_nan_win(name):
    function = getattr(prim, name)
    rows = [[1, 3, 3, 0], [-np.inf] * 4, [1, np.nan, 5, np.nan], [np.inf, 0, 1, np.inf]]
    x = np.array(rows, "float32")
    for axis in (0, 1):
        check(lambda x, axis=axis: function(x, axis, np.int32), x)
        check(lambda x, axis=axis: function(x, axis, np.uint8), x.astype(np.float16))
    check(lambda x: function(x, 1, np.int32), ints(3, 4) > 0)


def arrays_of(program):
    """For each kernel, how many arrays it takes."""
    return [len(buffers_of(kernel)) for kernel in program.kernels]


def test_many_parts_of_different_sizes():
    def join(*parts):
        return prim.mul(prim.concatenate([prim.neg(x) for x in parts], 0), 2.0)

    sizes = [3, 3, 0, 1, 70, 70, 3, 1, 1, 0, 5] + 9 * [2]
    parts = [floats(n, seed=k) for k, n in enumerate(sizes)]
    program = check(join, *parts)
    # Short neighbours of one shape share a kernel, long ones share none.
    assert sorted(arrays_of(program)) == [2, 2, 2, 2, 2, 2, 3, 3, 10]
    check(join, *[floats(0) for _ in range(20)])


def test_parts_that_many_arrays_go_into_share_no_kernel():
    def join(*xs):
        fours = zip(*(xs[k::4] for k in range(4)), strict=True)
        sums = [functools.reduce(prim.add, four) for four in fours]
        return prim.concatenate(sums, 0)

    program = check(join, *[floats(2, seed=k) for k in range(80)])
    assert arrays_of(program) == [9, *[13] * 6]


def test_a_select_of_many_cases_is_a_kernel_for_a_few():
    cases = [floats(40, seed=k) for k in range(33)]
    which = np.arange(-3, 37, dtype="int32")
    program = check(prim.select_n, which, *cases)
    assert arrays_of(program) == [16, 16, 7]
    check(prim.select_n, np.int32(20), *cases)
    check(prim.select_n, np.zeros(0, "int32"), *[floats(0)] * 33)


def test_a_long_chain_takes_a_few_arrays_at_a_time():
    def chain(which, *cases):
        result = cases[0]
        for k, case in enumerate(cases):
            result = prim.select_n(prim.eq(which, k), result, case)
        return result

    cases = [floats(5, seed=k) for k in range(60)]
    program = check(chain, np.int32([1, 0, 59, 7, 60]), *cases)
    assert arrays_of(program) == [17, 16, 16, 16, 9]
    assert {d.rule for d in separate(program)} == {"many arrays"}

    total = lambda *terms: functools.reduce(prim.add, terms)
    assert max(arrays_of(check(total, *cases))) <= 17


def test_sums_of_pads_take_a_few_arrays_at_a_time():
    def padded(*xs):
        rows = [prim_pad(x, k, 39 - k) for k, x in enumerate(xs)]
        return functools.reduce(prim.add, rows)

    prim_pad = lambda x, low, high: slicing.pad(x, np.float32(0), [(low, high, 0)])
    program = check(padded, *[floats(1, seed=k) for k in range(40)])
    assert max(arrays_of(program)) <= 17 and len(program.kernels) <= 4


def test_concatenate():
    function = lambda x: prim.sin(prim.concatenate([x, prim.neg(x), x], 1))
    program = check(function, floats(2, 3, 4))
    assert len(program.kernels) == 1 and not program.temps
    check(lambda x: prim.concatenate([x, x], 0), floats(0, 3))
    check(lambda x: prim.concatenate([x, x], 0), floats(3, 0))


def test_binary():
    x, y = floats(6), floats(6, seed=1)
    for function in (elementary.atan2, lax.rem, rounding.nextafter):
        check(function, x, y)
    program = check(rounding.nextafter, x.astype("float16"), y.astype("float16"))
    assert program.fallbacks == (("nextafter", "the neighbour of a 16-bit float"),)
    for dtype in ("int8", "uint32"):
        x = ints(8, dtype=dtype)
        shift = np.array([0, 1, 2, 7, 8, 31, 32, 100], dtype)
        for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
            check(getattr(lax, name), x, shift)
        check(lax.rem, x, shift)
        check(bits.population_count, x)
        check(bits.clz, x)


@pytest.mark.parametrize("bits", [(8, 23), (5, 10), (3, 2), (8, 0), (1, 3), (11, 52)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_reduce_precision(bits, dtype):
    x = np.array([0, -0.0, 1, 1.1, -3.75, 1e-30, 6e4, np.inf, np.nan], half(dtype))
    check(lambda x: rounding.reduce_precision(x, *bits), x)


def test_bitcast():
    x = floats(3, 4)
    for new in ("int32", "uint16", "uint8", "float16", "float32"):
        check(lambda x, new=new: bits.bitcast_convert_type(x, new), x)
        f = lambda x, new=new: bits.bitcast_convert_type(x, new)
        np.testing.assert_array_equal(jit(f)(x), f(x))
    parts = ints(3, 4, dtype="uint8")
    check(lambda x: bits.bitcast_convert_type(x, np.int32), parts)
    check(lambda x: bits.bitcast_convert_type(x, np.float32), ints(3, 2, dtype="int16"))


indices = np.array([[0, 1], [2, 3], [5, -1], [1, 1], [-1, 2], [1, 2]], "int32")


@pytest.mark.parametrize("mode", ["clip", "drop", "promise_in_bounds"])
@pytest.mark.parametrize("name", ["", "_add", "_sub", "_mul", "_min", "_max"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
def test_scatter(mode, name, dtype):
    write, numbers = getattr(lax, f"scatter{name}"), lax.ScatterDimensionNumbers
    cases = [
        (indices, (6,), numbers((), (0, 1), (0, 1))),
        (indices, (6, 2, 2), numbers((1, 2), (), (0, 1))),
        (indices[:, :1], (4, 6), numbers((0,), (0,), (0,))),
        (indices[:3, :1], (3,), numbers((), (1,), (1,), (0,), (0,))),
        (indices[:0], (0,), numbers((), (0, 1), (0, 1))),
    ]
    make = ints if dtype == "int32" else floats
    for where, shape, dims in cases:
        def function(x, i, u, dims=dims):
            return prim.neg(write(prim.neg(x), i, u, dims, mode=mode))

        check(function, make(3, 4, dtype=dtype), where, make(*shape, dtype=dtype))


def test_a_scatter_without_duplicates_needs_no_order():
    numbers = scatter.ScatterDimensionNumbers((), (0,), (0,))
    for unique in (False, True):
        closed = trace(
            lambda x, i, u, unique=unique: scatter.scatter_add(
                x, i, u, numbers, unique_indices=unique
            ),
            floats(5), np.array([[3], [1]]), floats(2),
        )
        kinds = [k.body[0].axis.kind for k in lower(closed).kernels]
        assert kinds == ["loop", "loop" if unique else "serial"]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cumlogsumexp"])
def test_a_running_total_of_one_element_is_no_loop(name):
    x = np.linspace(-1, 1, 1025, dtype="f4")[:, None]
    f = lambda x: getattr(lax, name)(x * 2, axis=1)
    (left,) = simplify(make_jaxpr(f)(x)).eqns
    assert left.primitive is prim.mul_p
    np.testing.assert_array_equal(jit(f)(x), x * 2)


def dot(lhs, rhs, contract=((1,), (0,)), batch=((), ()), **params):
    return prim.dot_general(lhs, rhs, (contract, batch), **params)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int32", "bool"])
def test_products_that_are_sums(dtype):
    a, b = (ints(20, 20, dtype="int8", seed=s) for s in (0, 1))
    a, b = ((x > 0 if dtype == "bool" else x % 8).astype(half(dtype)) for x in (a, b))
    assert not lower(trace(dot, a, b)).calls
    a, b = a[:7], b[:, :9]
    check(dot, a, b)
    check(lambda a, b: dot(a, b, ((), ())), a[0], b[0])
    if dtype != "bool":
        wide = np.dtype("float32" if half(dtype).kind not in "iu" else "int32")
        check(lambda a, b: dot(a, b, preferred_element_type=wide), a, b)


def test_inner_functions_are_lowered_once():
    inner = jit(lambda x: prim.sin(prim.mul(x, 2.0)))

    def outer(x):
        y = x
        for _ in range(4):
            y = inner(y)
        return prim.add(prim.transpose(inner(prim.transpose(y, (1, 0))), (1, 0)), x)

    x = floats(3, 3)
    program = check(outer, x)
    assert len(program.calls) == 5
    assert len({call.attrs["program"] for call in program.calls}) == 1
    assert str(program).count("program ") == 2


def test_what_runs_uncompiled_says_why():
    def function(x, y):
        z = complex_numbers.complex(prim.sin(x), y)
        z = cumulative.cumprod(z, axis=0)
        return complex_numbers.real(z), sorting.sort(prim.neg(x))

    program = check(function, floats(4), floats(4, seed=1))
    names = [name for name, _ in program.fallbacks]
    assert names == ["cumprod", "sort"]
    assert all(reason for _, reason in program.fallbacks)
    # A literal operand of a call is a constant.
    check(lambda x: prim.mul(x, 2j), floats(4).astype("complex64"))


def test_int64_indices_wrap_like_numbers():
    with enable_x64(True):
        big = np.array([2**63 - 1, -(2**63), 5], "int64")
        check(lambda x: prim.add(prim.add(x, np.int64(2**62)), np.int64(2**62)), big)
        check(lambda x: prim.sub(prim.mul(x, np.int64(4)), x), big)
        check(lambda x: prim.max(prim.min(x, np.int64(7)), np.int64(0)), big)
        start = np.array(2**64 - 1, "uint64")
        x = floats(5)
        slice_p = slicing.dynamic_slice_p
        check(lambda x, i: slice_p.bind(x, i, slice_sizes=(2,)), x, start)


def broken_programs():
    x, y = Buffer("x", (4, 3), F32), Buffer("y", (4, 3), F32)
    i, j, k = Axis(4), Axis(3), Axis(3, "reduce")
    value = Load(x, (i, j))

    def program(*body, temps=()):
        return Program("main", (x,), (y,), (), temps, body)

    def nest(*stores):
        return Kernel("k0", (For(i, (For(j, stores),)),))

    beyond = Load(x, (op("add", i, Const(1, INDEX)), j))
    half_value = Op("convert", (value,), np.dtype("float16"))
    lost = Buffer("t", (4, 3), F32)
    return {
        "never written": program(),
        "no loop around it": program(nest(Store(y, (i, k), value))),
        "may be out of bounds": program(nest(Store(y, (i, j), beyond))),
        "out of bounds": program(nest(Store(y, (j, i), value))),
        "is indexed by 1": program(nest(Store(y, (i,), value))),
        "is no condition": program(nest(If(value, (Store(y, (i, j), value),)))),
        "is stored into": program(nest(Store(y, (i, j), half_value))),
        "16 bits": program(nest(Store(y, (i, j), Op("convert", (
            Op("sin", (half_value,), np.dtype("float16")),), F32)))),
        "mixes dtypes": program(nest(Store(y, (i, j), Op("add", (value, i), F32)))),
        "before it is written": program(
            nest(Store(y, (i, j), Load(lost, (i, j)))), temps=(lost,)
        ),
        "to an input": program(nest(Store(x, (i, j), value))),
        "combined with nothing": program(nest(Store(y, (i, j), value, "add"))),
        "several outermost": program(Kernel("k0", (
            For(i, (For(j, (Store(y, (i, j), value),)),)), For(Axis(2), ()),
        ))),
        "one name": Program("main", (x,), (Buffer("x", (4, 3), F32),), (), (), ()),
        "leaves": program(Call("eval", (View(x, (4, 3), (3, 1), 1),), (whole(y),), {})),
        "call reads": program(Call("eval", (whole(lost),), (whole(y),), {})),
    }


@pytest.mark.parametrize("message", broken_programs())
def test_the_checker_finds(message):
    refused(LoopTypeError, message, check_program, broken_programs()[message])


def test_the_interpreter_itself_finds_unwritten_memory():
    x, y = Buffer("x", (2,), F32), Buffer("y", (2,), F32)
    result, = run(Program("main", (x,), (y,), (), (), ()), floats(2))
    assert (result == 77).all()
