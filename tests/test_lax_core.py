"""lax beyond the elementwise: products, slices, indices of extremes, shapes by name."""

import functools
import itertools
import string

import ml_dtypes
import numpy as np
import pytest
from harness import refused
from test_primitives import arr

from minijit import lax
from minijit.trace.base.config import enable_x64

pytestmark = [pytest.mark.chapter(3), pytest.mark.usefixtures("no_words_of_the_test")]

bfloat16 = np.dtype(ml_dtypes.bfloat16)
names = "bool int8 int32 uint8 float16 bfloat16 float32 complex64".split()
all_dtypes = [bfloat16 if name == "bfloat16" else np.dtype(name) for name in names]


def counting(*shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def einsum_for(lhs, rhs, dimension_numbers):
    """dot_general by np.einsum: (value, the result's shape)."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    letters = iter(string.ascii_letters)
    a, b = ([next(letters) for _ in x.shape] for x in (lhs, rhs))
    pairs = [*zip(lhs_contract, rhs_contract, strict=True)]
    for i, j in [*pairs, *zip(lhs_batch, rhs_batch, strict=True)]:
        b[j] = a[i]
    out = [a[i] for i in lhs_batch]
    out += [a[i] for i in range(lhs.ndim) if i not in lhs_contract + lhs_batch]
    out += [b[j] for j in range(rhs.ndim) if j not in rhs_contract + rhs_batch]
    return np.einsum(f"{''.join(a)},{''.join(b)}->{''.join(out)}", lhs, rhs)


products = [
    ((2, 3), (3, 4), (((1,), (0,)), ((), ()))),
    ((2, 3), (2, 4), (((0,), (0,)), ((), ()))),
    ((3,), (3,), (((0,), (0,)), ((), ()))),
    ((), (), (((), ()), ((), ()))),
    ((2,), (3,), (((), ()), ((), ()))),
    ((5, 2, 3), (5, 3, 4), (((2,), (1,)), ((0,), (0,)))),
    ((2, 5, 3), (3, 4, 5), (((2,), (0,)), ((1,), (2,)))),
    ((2, 3, 4, 5), (5, 3, 2, 6), (((1, 3), (1, 0)), ((0,), (2,)))),
    ((2, 3), (2, 3), (((), ()), ((0, 1), (0, 1)))),
    ((2, 0), (0, 3), (((1,), (0,)), ((), ()))),
    ((0, 2), (2, 3), (((1,), (0,)), ((), ()))),
]


@pytest.mark.parametrize("lhs, rhs, dimension_numbers", products)
def test_dot_general_against_einsum(lhs, rhs, dimension_numbers):
    a, b = counting(*lhs), counting(*rhs) - 3
    for dtype in ("float32", "int32", "complex64"):
        x, y = a.astype(dtype), b.astype(dtype)
        got = lax.dot_general(arr(x), arr(y), dimension_numbers)
        assert got.dtype == np.dtype(dtype)
        np.testing.assert_allclose(got, einsum_for(x, y, dimension_numbers), rtol=1e-6)


def test_dtypes_of_products():
    def dot(a, b, preferred=None):
        x, y = np.full((1, 3), 100).astype(a), np.full((3, 1), 100).astype(b)
        return lax.dot(arr(x), arr(y), preferred_element_type=preferred)

    assert np.asarray(dot("int8", "int8")).item() == 30000 % 256
    assert np.asarray(dot("int8", "int8", np.int32)).item() == 30000
    assert np.asarray(dot("int8", "int8", np.float32)).item() == 30000
    assert np.asarray(dot("bool", "bool")).item() is True
    assert np.asarray(dot("bool", "bool", np.int32)).item() == 3
    assert dot(bfloat16, bfloat16, np.float32).dtype == np.float32
    assert dot("float16", bfloat16).dtype == bfloat16
    assert dot("int32", "float16").dtype == np.float16
    assert dot("uint8", "int8").dtype == np.int8
    refused(TypeError, "must not be narrower", dot, "int32", "int32", np.int8)
    half = arr(np.full((1, 3), 0.5), "float32"), arr(np.ones((3, 1)), "float32")
    truncated = lax.dot(*half, preferred_element_type=np.int32)
    assert truncated.dtype == np.int32 and np.asarray(truncated).item() == 1


def test_precision():
    x = arr(np.ones((2, 2)), "float32")
    for precision in (None, "highest", lax.Precision.HIGH, ("default", "float32")):
        assert lax.dot(x, x, precision=precision).shape == (2, 2)
    refused(ValueError, "precision must be", lax.dot, x, x, precision="exact")
    assert repr(lax.Precision.HIGHEST) == "Precision.HIGHEST"


def test_select():
    which = arr([True, False, True])
    chosen = lax.select(which, arr([1, 2, 3]), arr([4, 5, 6]))
    assert np.asarray(chosen).tolist() == [1, 5, 3]
    cases = [arr([10 * i] * 5) for i in range(3)]
    index = arr([0, 1, 2, 9, -4], "int32")
    assert np.asarray(lax.select_n(index, *cases)).tolist() == [0, 10, 20, 20, 0]
    assert np.asarray(lax.select(True, cases[1], cases[2])).tolist() == [10] * 5
    with pytest.raises(TypeError, match="cannot have > 2 cases"):
        lax.select_n(which, *[arr([1, 2, 3])] * 3)
    with pytest.raises(TypeError, match="must be boolean or integer type, got float32"):
        lax.select_n(arr(1.0, "float32"), cases[0], cases[1])
    with pytest.raises(TypeError, match=r"same shapes, got \[\(5,\), \(\)\]"):
        lax.select_n(True, cases[0], arr(1))
    with pytest.raises(TypeError, match=r"`which` shape \(3,\) but case shape \(5,\)"):
        lax.select_n(which, cases[0], cases[1])


def test_weak_types_of_the_tail():
    weak = arr([1.0, 2.0], "float32", weak_type=True)
    strong = arr([1.0, 2.0], "float32")
    assert lax.concatenate([weak, weak], 0).weak_type
    assert not lax.concatenate([weak, strong], 0).weak_type
    assert lax.slice(weak, (0,), (1,)).weak_type and lax.dot(weak, weak).weak_type
    assert not lax.argmax(weak, 0, np.int32).weak_type
    assert lax.full_like(weak, 2).weak_type and not lax.full_like(strong, 2).weak_type
    assert not lax.full_like(weak, 2, np.float32).weak_type
    assert lax.full((2,), 1).weak_type and not lax.full((2,), 1, np.int8).weak_type
    assert lax.select(True, weak, weak).weak_type
    assert not lax.select(True, weak, strong).weak_type
    assert lax.pow(weak, 2).weak_type and lax.pow(2.0, 3).weak_type


@pytest.mark.chapter(16)
def test_reduce_folds_any_computation():
    x = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
    hypot = lambda a, b: lax.sqrt(lax.add(lax.mul(a, a), lax.mul(b, b)))
    for axes in [(0,), (2, 1), (0, 1, 2), ()]:
        got = lax.reduce(x, 0.0, hypot, axes)
        np.testing.assert_allclose(got, np.sqrt((x * x).sum(axes)), rtol=1e-5)
    assert np.asarray(lax.reduce(x[:0], 3.0, hypot, (0, 1))).tolist() == [3.0] * 7

    def larger(a, b):
        first = lax.ge(a[0], b[0])
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    index = lax.broadcasted_iota(np.int32, x.shape, 1)
    value, where = lax.reduce((x, index), (-np.inf, 0), larger, (1,))
    np.testing.assert_array_equal(value, x.max(1))
    np.testing.assert_array_equal(where, x.argmax(1))


@pytest.mark.chapter(16)
def test_reduce_of_trees():
    x = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
    both = lambda a, b: {"low": lax.min(a["low"], b["low"]), "sum": a["sum"] + b["sum"]}
    starts = {"low": np.inf, "sum": 0.0}
    found = lax.reduce({"low": x, "sum": x}, starts, both, (1,))
    np.testing.assert_array_equal(found["low"], x.min(1))
    np.testing.assert_allclose(found["sum"], x.sum(1), 1e-5, 1e-6)
    with pytest.raises(ValueError, match="same tree structure as init_values"):
        lax.reduce({"low": x}, starts, both, (1,))
    with pytest.raises(TypeError, match="float32 and initial values of int32"):
        lax.reduce((x,), (1,), lambda x, y: x, (0,))


M = counting(2, 3)


@pytest.mark.parametrize("call, error, match", [
    (lambda: lax.dot(M, M), ValueError, r"lhs_shape=\(2, 3\) rhs_shape=\(2, 3\)"),
    (lambda: lax.dot(2.0, M), ValueError, "dimension_numbers must be specified"),
    (lambda: lax.dot_general(M, M, (((1,), (0,)), ((), ()))), TypeError,
     r"contracting dimensions to have the same shape, got \(3,\) and \(2,\)"),
    (lambda: lax.dot_general(M, M, (((1,), (1,)), ((1,), (0,)))), TypeError,
     "distinct axes"),
    (lambda: lax.dot_general(M, M, (((2,), (0,)), ((), ()))), TypeError,
     "distinct axes"),
    (lambda: lax.dot_general(M, M.T, (((), ()), ((0,), (0,)))), TypeError,
     "batch dimensions to have the same shape"),
    (lambda: lax.batch_matmul(M, M[None]), ValueError, "same ndim.* got 2, 3"),
    (lambda: lax.slice(M, (0,), (1,)), TypeError, "must have length equal"),
    (lambda: lax.dynamic_slice(M, (1.0, 0.0), (1, 1)), TypeError,
     "must be integers of the same type, got: float"),
    (lambda: lax.slice(M, (0, 0), (3, 3)), TypeError, r"limit_indices \(3, 3\)"),
    (lambda: lax.slice(M, (2, 0), (1, 3)), TypeError, "greater than or equal"),
    (lambda: lax.slice(M, (0, 0), (1, 3), (0, 1)), TypeError, "strides must be"),
    (lambda: lax.index_in_dim(M, 5, 1), IndexError, "axis 1 with size 3"),
    (lambda: lax.concatenate([], 0), ValueError, "non-empty"),
    (lambda: lax.concatenate([M, M[0]], 0), TypeError, "numbers of dimensions"),
    (lambda: lax.concatenate([M, M.T], 0), TypeError, "differ in dimensions other"),
    (lambda: lax.concatenate([M, M], 2), TypeError, "dimension 2 for shapes"),
    (lambda: lax.concatenate([M, M > 0], 0), TypeError, "got float32, bool"),
    (lambda: lax.squeeze(M, (0,)), ValueError, r"shape=\(2, 3\)"),
    (lambda: lax.argmax(M, 2, np.int32), ValueError, "Invalid axis 2"),
    (lambda: lax.argmax(M[:0], 0, np.int32), ValueError, "non-empty reduced"),
    (lambda: lax.argmax(M, 0, np.float32), TypeError, "must be an integer type"),
    (lambda: lax.argmax(M * 1j, 0, np.int32), TypeError, "does not accept"),
    (lambda: lax.collapse(M, 2, 1), ValueError, "Invalid dimension range"),
    (lambda: lax.broadcast_shapes((2,), (3,)), ValueError, r"\[\(2,\), \(3,\)\]"),
    (lambda: lax.iota(np.int32, 2.5), TypeError, "Shapes must be 1D"),
    (lambda: lax.reshape(M, (7,)), TypeError, r"\(7,\).* shape \(2, 3\)"),
    (lambda: lax.reshape(M, (-1,)), TypeError, r"got new_sizes \(-1,\)"),
    (lambda: lax.reshape(M, (6,), (0, 0)), TypeError, "must be a permutation"),
    (lambda: lax.transpose(M, (0,)), TypeError, "isn't a permutation"),
    (lambda: lax.full((2,), M), TypeError, "scalar fill_value"),
    (lambda: lax.full((-1,), 0.0), TypeError, "nonnegative"),
    (lambda: lax.broadcasted_iota(int, (2,), 1), ValueError, "dimension=1"),
    (lambda: lax.broadcasted_iota(bool, (2,), 0), TypeError, "does not accept"),
])  # fmt: skip
def test_complaints(call, error, match):
    refused(error, match, call)


@pytest.mark.oracle
def test_dtypes_of_products_as_jax():
    jax = pytest.importorskip("jax")
    x = np.ones((2, 2))
    preferred = [None, np.int32, np.float32, np.dtype("bool")]
    for a, b, p in itertools.product(all_dtypes, all_dtypes, preferred):
        try:
            want = jax.eval_shape(
                lambda x, y: jax.lax.dot(x, y, preferred_element_type=p),  # noqa: B023
                *(jax.ShapeDtypeStruct((2, 2), t) for t in (a, b)),
            ).dtype
        except TypeError:
            with pytest.raises(TypeError):
                lax.dot(arr(x, a), arr(x, b), preferred_element_type=p)
            continue
        got = lax.dot(arr(x, a), arr(x, b), preferred_element_type=p)
        assert got.dtype == want


two = """add sub mul div rem max min pow atan2 nextafter eq ne lt le gt ge bitwise_and
    bitwise_or bitwise_xor shift_left shift_right_logical shift_right_arithmetic complex
    igamma igammac zeta polygamma igamma_grad_a""".split()


numbers = {"True": True, "2": 2, "300": 300, "0.5": 0.5, "1j": 1j}


def arrays(library):
    """Weak arrays, NumPy's scalars, and an array of each dtype."""
    given = {f"weak {x}": library.numpy.asarray(x) for x in (2, 1.5)}
    for name in names:
        ones = np.ones(2, bfloat16 if name == "bfloat16" else name)
        given[name] = library.numpy.asarray(ones)
    return given | {"NumPy's": np.float64(1), "NumPy's int": np.int8(1)}


def outcomes(library, name, given, pairs):
    """{pair: what a call gives, as (dtype, weak type, shape), or TypeError}.

    Closed over, the arguments keep what they are: `eval_shape` would make arrays.
    """
    found = {}

    def every():
        results = {}
        for x, y in pairs:
            try:
                results[f"{x}, {y}"] = getattr(library.lax, name)(given[x], given[y])
            except (TypeError, ValueError):
                found[f"{x}, {y}"] = TypeError
        return results

    for pair, out in library.eval_shape(every).items():
        found[pair] = out.dtype, out.weak_type, out.shape
    return found


@pytest.mark.oracle
@pytest.mark.parametrize("name", two)
def test_numbers_beside_arrays_have_dtypes_of_their_own(name):
    """A number and an array, in both orders, or two numbers: all as in JAX."""
    jax = pytest.importorskip("jax")
    import minijit as mj

    theirs, ours = arrays(jax) | numbers, arrays(mj) | numbers
    pairs = [*itertools.product(numbers, theirs), *itertools.product(theirs, numbers)]
    want = outcomes(jax, name, theirs, pairs)
    assert outcomes(mj, name, ours, pairs) == want
    assert len(want) == len({*pairs})


@pytest.mark.chapter(16)
def test_a_function_that_wraps_an_operation_is_not_that_operation():
    """A user's function may bear the name of `lax.add`, and do more."""

    @functools.wraps(lax.add)
    def product(x, y):
        return lax.mul(x, y)

    x = arr([2.0, 3.0, 5.0], "float32")
    assert np.asarray(lax.reduce(x, 1.0, product, (0,))).item() == 30.0
    got = lax.reduce_window(x, 1.0, product, (2,), (1,), "VALID")
    assert np.asarray(got).tolist() == [6.0, 15.0]
    assert np.asarray(lax.reduce(x, 0.0, lax.add, (0,))).item() == 10.0


def test_a_constant_need_only_fit_the_dtype_it_is_made_in():
    """2**64 - 1 is no int64, but a uint64; what fits neither is an error."""
    for dtype in (np.dtype("uint32"), "uint32", np.uint32):
        full = lax.full((2,), 2**32 - 1, dtype)
        assert np.asarray(full).tolist() == [2**32 - 1] * 2 and full.dtype == np.uint32
    assert np.asarray(lax.full((1,), 2**31, "float32")).tolist() == [2.0**31]
    refused(OverflowError, "4294967296", lax.full, (2,), 2**32, "int32")
    with enable_x64(True):
        most = lax.full_like(arr([0], "uint64"), 2**64 - 1)
        assert np.asarray(most).tolist() == [2**64 - 1] and most.dtype == np.uint64
