"""The primitives: types and complaints, and values on the edges."""

import ml_dtypes
import numpy as np
import pytest
from harness import refused

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
numbers = [*integers, *floats, np.dtype("complex64")]


def arr(x, dtype=None, weak_type=False):
    """An array of ours, without any of the functions under test."""
    x = np.array(x, dtype=dtype)
    return ArrayImpl(x, ShapedArray(x.shape, x.dtype, weak_type))


def assert_same(got, want, rtol=0.0):
    """Equal shapes and values, NaN being equal to NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if got.dtype.kind == "V" or got.dtype == np.float16:
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


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
