"""The primitives: types and complaints, values on the edges, and agreement with jax."""

import itertools
from functools import cache, partial

import ml_dtypes
import numpy as np
import pytest
from harness import refused
from referee import together

from minijit.trace import primitives as lax
from minijit.trace.array import (
    ArrayImpl, ShapedArray, aval_of, eval_rules, result_avals, shape_rules,
)
from minijit.trace.base.config import enable_x64
from minijit.trace.base.errors import user_source
from minijit.trace.core import Primitive

pytestmark = [pytest.mark.chapter(3), pytest.mark.usefixtures("no_words_of_the_test")]

bfloat16 = np.dtype(ml_dtypes.bfloat16)
integers = [np.dtype(name) for name in ("int8", "int32", "uint8", "uint32")]
floats = [np.dtype("float16"), bfloat16, np.dtype("float32")]
complexes = [np.dtype("complex64")]
bools = [np.dtype("bool")]
numbers = integers + floats + complexes
all_dtypes = bools + numbers

unary_names = "neg sign abs exp log sqrt sin cos tanh bitwise_not".split()
binary_names = """add sub mul div max min bitwise_and bitwise_or bitwise_xor
    eq ne lt le gt ge""".split()


def arr(x, dtype=None, weak_type=False):
    """An array of ours, without any of the functions under test."""
    x = np.array(x, dtype=dtype)
    return ArrayImpl(x, ShapedArray(x.shape, x.dtype, weak_type))


def edges(dtype):
    """Values of a dtype on which definitions differ."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 5, 7, 100, info.min, info.min + 1, info.max, info.max - 1]
        return np.array(small + [-1, -2, -7] * (dtype.kind == "i"), dtype)
    if dtype.kind == "c":
        parts = itertools.product([0, 0.5, -2], [0, 1.5, -1])
        return np.array([complex(a, b) for a, b in parts], dtype)
    values = [0.0, -0.0, 0.5, 1, -1, 2.5, -2.5, 3, 1e-3, 60, -60]
    return np.array([*values, np.inf, -np.inf, np.nan], dtype)


def pairs(dtype):
    """All pairs of edge values, as two arrays."""
    x = edges(dtype)
    a, b = np.meshgrid(x, x, indexing="ij")
    return a.ravel(), b.ravel()


def assert_same(got, want, rtol=0.0):
    """Equal shapes and values, NaN being equal to NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if got.dtype.kind == "V" or got.dtype == np.float16:
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 3e-6, "complex64": 3e-6}


def test_every_primitive_has_a_shape_rule_and_an_eval_rule():
    found = {v for v in vars(lax).values() if isinstance(v, lax.Primitive)}
    assert len(found) >= 25
    assert not [p for p in found if p not in shape_rules]
    assert not [p for p in found if p not in eval_rules]


@pytest.mark.parametrize("dtype", floats)
def test_zeros_in_max_and_min_have_jaxs_sign(dtype):
    x, y = ([0.0, -0.0, -0.0, -1.0, -1.0], [-0.0, 0.0, -0.0, -0.0, 0.0])
    larger, smaller = (f(arr(x, dtype), arr(y, dtype)) for f in (lax.max, lax.min))
    assert np.signbit(np.asarray(larger)).tolist() == [False, False, True, True, False]
    assert np.signbit(np.asarray(smaller)).tolist() == [True] * 5
    rows = arr(np.transpose([x, y]), dtype)
    for reduced, pairs in [
        (lax.reduce_max(rows, (1,)), larger),
        (lax.reduce_min(rows, (1,)), smaller),
    ]:
        assert np.asarray(reduced).tobytes() == np.asarray(pairs).tobytes()


def test_one_number_is_its_own_sum():
    for shape, axes in [((1,), (0,)), ((3, 1), (1,)), ((1, 1), (0, 1)), ((3,), ())]:
        total = lax.reduce_sum(arr(np.full(shape, -0.0), "float32"), axes)
        assert np.signbit(np.asarray(total)).all()
    # 0.0 + -0.0 + -0.0, as in JAX
    assert not np.signbit(np.asarray(lax.reduce_sum(arr([-0.0, -0.0]), (0,))))


@pytest.mark.parametrize("dtype", [np.dtype("float16"), bfloat16], ids=str)
def test_16_bit_floats_compute_in_32_bits_and_round_once(dtype):
    x = np.linspace(0.1, 3, 50).astype(dtype)
    for name in ("exp", "sin", "tanh", "sqrt", "log"):
        want = getattr(np, name)(x.astype(np.float32)).astype(dtype)
        got = getattr(lax, name)(arr(x))
        assert got.dtype == dtype
        assert_same(got, want)
    ones = arr(np.ones(5000), dtype)
    assert float(np.asarray(lax.reduce_sum(ones, (0,)))) == float(np.array(5000, dtype))


shape_pairs = [((), ()), ((), (2, 3)), ((2, 3), (2, 3)), ((2, 1), (2, 3)), ((0,), (1,)),
               ((1, 1), (0, 4)), ((0, 3), ())]


@pytest.mark.parametrize("shapes", shape_pairs, ids=str)
def test_elementwise_shapes(shapes):
    a, b = (np.full(shape, i + 2, np.float32) for i, shape in enumerate(shapes))
    for name, f in {"add": np.add, "max": np.maximum, "lt": np.less}.items():
        assert_same(getattr(lax, name)(arr(a), arr(b)), f(a, b))
        assert_same(getattr(lax, name)(a, b), f(a, b))


def test_elementwise_complaints():
    f, i = arr(np.ones((2, 3)), "float32"), arr(np.ones((2, 3)), "int32")
    refused(TypeError, "lax.add requires .* got float32, int32", lax.add, f, i)
    with pytest.raises(TypeError, match=r"number of dimensions.*\(2, 3\), \(3,\)"):
        lax.add(f, arr(np.ones(3), "float32"))
    with pytest.raises(TypeError, match=r"incompatible shapes.* \(2, 3\), \(2, 4\)"):
        lax.mul(f, arr(np.ones((2, 4)), "float32"))
    refused(TypeError, "sin does not accept dtype int32. Accepted", lax.sin, i)
    with pytest.raises(TypeError, match="add does not accept dtype bool at position 0"):
        lax.add(arr(True), arr(True))
    with pytest.raises(TypeError, match="lt does not accept dtype complex64"):
        lax.lt(arr(1j, "complex64"), arr(1j, "complex64"))
    refused(TypeError, "abs does not accept dtype uint8", lax.abs, arr(1, "uint8"))
    refused(TypeError, "str", lax.add, "a", f)


def test_python_numbers_adapt_but_never_change_the_array():
    for dtype in numbers:
        x = arr([1, 2], dtype)
        y = lax.add(x, 1)
        assert y.dtype == dtype and not y.weak_type
        assert lax.lt(2, arr([1, 3], "int8")).shape == (2,)
    assert lax.add(arr([1.0], bfloat16), 0.5).dtype == bfloat16
    with pytest.raises(TypeError, match="same dtypes, got int32, float32"):
        lax.add(arr([1], "int32"), 1.5)
    refused(TypeError, "bool", lax.add, arr([1], "int32"), True)
    with pytest.raises(OverflowError):
        lax.add(arr([1], "int8"), 300)


@pytest.mark.parametrize("call, error, match", [
    (lambda x: lax.broadcast_in_dim(x, (2, 4), (0, 1)), TypeError, r"\(2, 4\)"),
    (lambda x: lax.broadcast_in_dim(x, (2, 3), (0,)), TypeError, "different"),
    (lambda x: lax.broadcast_in_dim(x, (2, 3), (0, 2)), TypeError, "different dim"),
    (lambda x: lax.broadcast_in_dim(x, (2.5,), ()), TypeError, "Shapes must be 1D"),
    (lambda x: lax.broadcast_in_dim(1.0, (-1,), ()), TypeError, "nonnegative"),
    (lambda x: lax.reduce_sum(x, (2,)), ValueError, r"\(2,\) contains"),
    (lambda x: lax.reduce_sum(x, (0, 0)), ValueError, "duplicate"),
    (lambda x: lax.reduce_sum(True, ()), TypeError, "not accept dtype bool"),
    (lambda x: lax.expand_dims(x, (0, 0)), ValueError, "repeated axis"),
    (lambda x: lax.expand_dims(x, (5,)), ValueError, "out of bounds"),
])  # fmt: skip
def test_complaints_about_shapes(call, error, match):
    refused(error, match, call, arr(np.ones((2, 3)), "float32"))


@pytest.mark.parametrize("primitive, shapes, params, error", [
    (lax.add_p, [(2, 3), (3,)], {}, TypeError),
    (lax.reduce_sum_p, [(2, 3)], {"axes": (2,)}, ValueError),
])  # fmt: skip
def test_a_misfit_names_the_types_and_the_line(primitive, shapes, params, error):
    avals = [ShapedArray(shape, np.dtype("float32"), False) for shape in shapes]
    source = user_source()
    with pytest.raises(error) as caught:
        result_avals(primitive, avals, params, source)
    assert str(source) in str(caught.value)
    assert ", ".join(map(str, avals)) in str(caught.value)


def test_a_primitive_without_a_shape_rule():
    with pytest.raises(NotImplementedError, match="'nothing' has no shape rule"):
        result_avals(Primitive("nothing"), [], {})


def test_results_share_no_memory_that_others_write_to():
    x = np.zeros(3, np.float32)
    y = lax.expand_dims(x, (1,))
    x[:] = 7
    assert np.asarray(y).tolist() == [[0], [0], [0]]
    assert np.asarray(y).flags.c_contiguous
    with pytest.raises(ValueError):
        np.asarray(y)[0] = 1


def test_64_bits():
    x = np.array([2**40, -3])
    assert aval_of(x).dtype == np.int32
    with enable_x64():
        assert lax.add(x, 1).dtype == np.int64
        assert np.asarray(lax.add(x, 1)).tolist() == [2**40 + 1, -2]
        assert lax.sin(1.0).dtype == np.float64
        top = lax.convert_element_type(np.array([1e30, -1e30, np.nan]), np.int64)
        assert np.asarray(top).tolist() == [2**63 - 1, -(2**63), 0]


# jax as the referee.

@pytest.fixture(scope="module")
def jax_lax():
    jax = pytest.importorskip("jax")
    return jax.lax


def outcome(function, *args):
    """(value, dtype, weak_type), or the class of the error."""
    try:
        y = function(*args)
    except (TypeError, ValueError, OverflowError) as error:
        return type(error)
    return np.asarray(y), y.dtype, bool(y.weak_type)


def compare(ours, theirs, rtol=0.0):
    """Two outcomes are the same."""
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
        return
    assert ours[1:] == theirs[1:]
    assert_same(ours[0], theirs[0], rtol)


@cache
def calls(library):
    """{name of a call: (function of a `lax`, arrays, how far jax may be off)}"""
    found = {}
    for dtype in all_dtypes:
        near = tolerance.get(dtype.name, 0)
        for names, args, rtol in [(unary_names, [edges(dtype)], near),
                                  (binary_names, pairs(dtype), 4 * near)]:
            for name in names:
                found[f"{name} {dtype}"] = getattr(library, name), args, rtol
        x = np.tile(edges(dtype), 3)[:6].reshape(2, 3)
        for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
            for axes, rows in [((0,), 2), ((1, 0), 2), ((), 2), ((0,), 0)]:
                function = partial(getattr(library, name), axes=axes)
                found[f"{name} {dtype} {axes} {rows}"] = function, [x[:rows]], 1e-6
    return found


@cache
def asked():
    """{name of a call: what jax says, or the class of its error}"""
    import jax

    told, programs = {}, {}
    for key, (function, args, _) in calls(jax.lax).items():
        try:
            jax.eval_shape(function, *args)
            programs[key] = function, *args
        except (TypeError, ValueError, OverflowError) as error:
            told[key] = type(error)
    return told | together(programs)


@pytest.mark.oracle
@pytest.mark.parametrize("call", calls(lax))
def test_as_jax(jax_lax, call):
    """The same values and dtypes; and weak types, for which jax only traces."""
    import jax

    ours, args, rtol = calls(lax)[call]
    want, got = asked()[call], outcome(ours, *map(arr, args))
    compare(got, want if isinstance(want, type) else outcome(lambda: want), rtol)
    if isinstance(got, type):
        return
    for weak_types in itertools.product([False, True], repeat=len(args)):
        pairs = list(zip(args, weak_types, strict=True))
        avals = [jax.core.ShapedArray(x.shape, x.dtype, weak_type=w) for x, w in pairs]
        want = jax.make_jaxpr(calls(jax_lax)[call][0])(*avals).out_avals[0]
        aval = aval_of(ours(*[arr(x, weak_type=w) for x, w in pairs]))
        assert (aval.dtype, aval.weak_type) == (want.dtype, want.weak_type)


@pytest.mark.oracle
@pytest.mark.parametrize("source", all_dtypes, ids=str)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_conversions_as_jax(jax_lax, source):
    import jax

    x = edges(source)
    for target in all_dtypes:
        got = outcome(lax.convert_element_type, arr(x), target)
        want = outcome(jax_lax.convert_element_type, jax.numpy.asarray(x), target)
        compare(got, want)
