"""What a table of calls does not show: errors, 64 bits, protocols, einsum's plan."""

import io
from collections import deque
from functools import partial

import numpy as np
import pytest
from harness import alike, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.numpy import namespace, products
from minijit.trace.base.errors import ConcretizationTypeError

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

f32, i32 = np.dtype("float32"), np.dtype("int32")


def test_shapes_of_what_is_no_array_come_with_a_warning():
    for call, wanted in [
        (lambda: jnp.shape(None), ()), (lambda: jnp.ndim([1, 2]), 1),
        (lambda: jnp.size([[1, 2], [3, 4]]), 4),
    ]:  # fmt: skip
        with pytest.warns(DeprecationWarning, match="requires ndarray or scalar"):
            assert call() == wanted


@pytest.mark.parametrize("call, names", [
    (lambda x: jnp.arange(x), "jnp.arange"),
    (lambda x: jnp.linspace(0, 1, x), "'num' argument|'num' of jnp.linspace"),
    (lambda x: jnp.sum(jnp.ones(3), axis=x), "an axis"),
    (lambda x: jnp.repeat(jnp.ones(3), x), "total_repeat_length="),
    (lambda x: jnp.split(jnp.ones(3), x), "jnp.split"),
    (lambda x: jnp.diff(jnp.ones(3), x), "jnp.diff"),
    (lambda x: jnp.round(jnp.ones(3), x), "jnp.round"),
    (lambda x: jnp.pad(jnp.ones(3), x), "pad_width"),
    (lambda x: jnp.bincount(x[None]), "length="),
    (lambda x: jnp.unique(x[None]), "size="),
    (lambda x: jnp.nonzero(x[None]), "size="),
    (lambda x: jnp.where(x[None]), "size="),
    (lambda x: jnp.union1d(x[None], x[None]), "size="),
    (lambda x: jnp.choose(x, [1, 2]), "mode="),
    (lambda x: jnp.trim_zeros(x[None]), "static_argnums"),
    (lambda x: jnp.hanning(x), "jnp.hanning"),
])  # fmt: skip
def test_a_traced_value_that_must_be_known_is_an_error(call, names):
    with pytest.raises(ConcretizationTypeError, match=names) as error:
        mj.jit(call)(np.int32(1))
    assert "Instead:" in str(error.value)


def test_what_is_not_there_has_the_length_for_its_place():
    found = jnp.intersect1d(jnp.zeros(0), jnp.arange(3.0), False, True, size=2)
    assert [places.tolist() for places in found[1:]] == [[0, 0], [3, 3]]


@pytest.mark.parametrize("call", [
    lambda: jnp.sum(jnp.ones(2), out=np.ones(2)),
    lambda: jnp.modf(jnp.ones(2), out=np.ones(2)),
    lambda: jnp.fill_diagonal(jnp.ones((2, 2)), 1.0),
    lambda: jnp.ones(2).flat,
    lambda: jnp.take(jnp.ones(2), 0, mode="raise"),
])  # fmt: skip
def test_what_is_not_implemented_says_so(call):
    with pytest.raises(NotImplementedError):
        call()


def test_python_ints_must_fit_the_default_type():
    refused(OverflowError, "too large to convert to int32", jnp.array, 3_000_000_000)
    with pytest.raises(OverflowError):
        jnp.array(300, dtype="uint8")
    assert int(jnp.array(3_000_000_000, dtype="uint32")) == 3_000_000_000
    assert int(jnp.arange(3, dtype="uint8")[0] + 300) == 44


def test_numpy_arrays_are_copied_in():
    source = np.zeros(3, np.float32)
    kept = jnp.asarray(source), jnp.array(source), jnp.add(source, 1), jnp.ravel(source)
    source[:] = 7
    assert [float(x.sum()) for x in kept] == [0, 0, 3, 0]


class HasJaxArray:
    def __jax_array__(self):
        return jnp.arange(3.0)


class HasArray:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


class LikeAnImage:
    """What Pillow's images have."""

    data = np.arange(3)
    __array_interface__ = data.__array_interface__


things = [HasJaxArray(), HasArray(), LikeAnImage(), deque([0, 1, 2])]


@pytest.mark.parametrize("thing", [*things, memoryview(b"\0\1\2")])
def test_array_takes_what_speaks_a_protocol(thing):
    assert jnp.array(thing).tolist() == [0, 1, 2]
    assert jnp.array([thing, thing]).tolist() == [[0, 1, 2]] * 2
    assert jnp.asarray(thing, dtype="int8").dtype == np.int8
    refused(TypeError, "Unexpected input type for array", jnp.array, {0, 1})


def test_functions_and_operators_take_what_has_jax_array():
    assert (jnp.ones(3) + HasJaxArray()).tolist() == [1, 2, 3]
    assert jnp.sin(HasJaxArray()).shape == (3,)
    assert jnp.array([HasJaxArray(), HasJaxArray()]).shape == (2, 3)


def test_dir_shows_public_names_only():
    names = dir(jnp)
    assert names == sorted({*jnp.__all__, "fft", "linalg"})
    assert "promote_args" not in names
    assert all(hasattr(jnp, name) for name in names)
    assert len(set(jnp.__all__)) == len(jnp.__all__)


def test_grids_and_index_expressions():
    assert jnp.mgrid[0:2, 0:3].shape == (2, 2, 3)
    assert [x.shape for x in jnp.ogrid[0:2, 0:3]] == [(2, 1), (1, 3)]
    assert np.allclose(jnp.mgrid[0:1:5j], np.mgrid[0:1:5j])
    assert jnp.r_[1:4, 0, jnp.array([5, 6])].tolist() == [1, 2, 3, 0, 5, 6]
    assert jnp.c_[jnp.arange(2), jnp.arange(2)].tolist() == [[0, 0], [1, 1]]
    assert jnp.r_["0,2", jnp.arange(2), jnp.arange(2)].shape == (2, 2)
    assert jnp.s_[1:2, ...] == (slice(1, 2), ...)
    assert jnp.index_exp[1] == (1,)


def test_save_and_load():
    file = io.BytesIO()
    jnp.save(file, jnp.arange(3))
    file.seek(0)
    assert jnp.load(file).tolist() == [0, 1, 2]
    short = io.BytesIO()
    jnp.save(short, jnp.array([1, 2], "bfloat16"))
    short.seek(0)
    assert jnp.load(short).dtype == "bfloat16"
    file = io.BytesIO()
    jnp.savez(file, jnp.arange(2), b=jnp.ones(1))
    file.seek(0)
    assert sorted(np.load(file).files) == ["arr_0", "b"]


def test_einsum_plans_the_cheaper_order():
    sizes = {"i": 1000, "j": 2, "k": 1000, "l": 2}
    terms, result = products.parse("ij,jk,kl->il", 3)
    path = products.contraction_path(terms, result, sizes)
    assert path == [(1, 2), (0, 1)]
    assert products.contraction_path(terms, result, sizes, "greedy") == path
    assert products.contraction_path(terms, result, sizes, False) == [(0, 1), (0, 1)]
    given = [(0, 2), (0, 1)]
    assert products.contraction_path(terms, result, sizes, given)[0] == (0, 2)


def test_einsum_multiplies_by_a_given_dot_general():
    calls = []

    def scaled(x, y, dimensions, precision=None, preferred_element_type=None):
        calls.append((x.shape, y.shape, dimensions))
        return 2 * lax.dot_general(
            x, y, dimensions, precision, preferred_element_type
        )

    x, y = (np.arange(6.0, dtype=f32).reshape(s) for s in [(2, 3), (3, 2)])
    for subscripts, order in [("mk,kn->mn", (x, y)), ("mk,kn->nm", (y, x))]:
        result = jnp.einsum(subscripts, x, y, _dot_general=scaled)
        assert np.array_equal(result, 2 * np.einsum(subscripts, x, y))
        assert calls.pop()[:2] == tuple(z.shape for z in order)
    same = jnp.einsum("mk,kn->mn", x, y, _dot_general=lax.dot_general)
    assert np.array_equal(same, x @ y)
    digits = jnp.einsum("m1,_1->m_", x, x)
    assert np.array_equal(digits, x @ x.T)


def test_what_jax_refuses_of_scalars_and_bools():
    """A 0-d array has no axis to sum along; there is no variance in bools."""
    for function in (jnp.cumsum, jnp.cumprod, jnp.nancumsum, jnp.nancumprod):
        assert function(2.0).tolist() == function(2.0, axis=0).tolist() == [2.0]
        for axis in (0, -1, 1):
            refused(ValueError, "out of bounds", function, jnp.float32(2), axis=axis)
        refused(ValueError, "out of bounds", function, 2.0, axis=1)
    for function in (jnp.var, jnp.std):
        refused(TypeError, "bool", function, jnp.ones(3), dtype=bool)


def test_words_that_say_how_to_join():
    row, other = [1, 2, 3], [4, 5, 6]
    column = [[1], [2], [3], [4], [5], [6]]
    assert jnp.r_["r", row].tolist() == [row]
    for word in ("c", "0,2,0", "0,2,-2"):
        assert jnp.r_[word, row, other].tolist() == column
    assert jnp.r_["0,2", row, other].tolist() == [row, other]
    assert jnp.c_["0,2", row, other].tolist() == column
    assert jnp.c_[row, other].tolist() == [[1, 4], [2, 5], [3, 6]]
    refused(ValueError, "could not understand directive 'x'", lambda: jnp.r_["x", row])
    refused(ValueError, "must be placed at the beginning", lambda: jnp.r_[row, "c"])


def test_functions_that_make_and_pad():
    shapes = []

    def product(i, j):
        shapes.append(i.shape)
        return i * j

    assert jnp.fromfunction(product, (2, 3)).tolist() == [[0, 0, 0], [0, 1, 2]]
    assert shapes == [()]
    assert jnp.array(range(3)).tolist() == [0, 1, 2]

    def border(row, width, axis, kwargs):
        row = row.at[: width[0]].set(kwargs["edge"])
        return row.at[-width[1] :].set(axis)

    padded = jnp.pad(jnp.ones((1, 2)), 1, border, edge=7)
    assert padded.tolist() == [[7, 7, 7, 1], [7, 1, 1, 1], [7, 0, 0, 1]]


def test_take_reads_bools_as_numbers():
    """A mask of x[mask] is an array of zeros and ones here, as in JAX."""
    x = jnp.arange(6.0).reshape(2, 3)
    assert jnp.take(x, True, axis=0).tolist() == [3, 4, 5]
    assert jnp.take(x, np.array([True, False]), axis=1).tolist() == [[1, 0], [4, 3]]


def test_a_cotangent_without_elements_adds_nothing():
    """Each rule would make something of its shape, and some a negative length."""
    x = np.ones((5, 0), "f4")

    def f(x):
        windows = mj.lax.reduce_window(x, 0.0, mj.lax.add, (1, 1), (2, 2), "SAME")
        return windows.sum() + mj.lax.rev(-x, (0,)).sum()

    for g in (mj.grad(f), mj.jit(mj.grad(f))):
        assert g(x).shape == (5, 0)


def test_gcd_takes_the_steps_that_its_numbers_need():
    x, y = np.uint32([2971215073, 6]), np.uint32([1836311903, 4])
    assert mj.jit(jnp.gcd)(x, y).tolist() == jnp.gcd(x, y).tolist() == [1, 2]
    assert str(mj.make_jaxpr(jnp.gcd)(x, y)).count(" rem ") == 1


def test_arrays_without_elements_have_statistics_and_largest_elements():
    values, places = mj.lax.top_k(np.zeros((2, 0, 1), "f4"), 1)
    assert values.shape == places.shape == (2, 0, 1)
    padded = jnp.pad(np.zeros((0, 1), "f4"), 3, mode="mean")
    assert padded.shape == (6, 7) and np.isnan(np.asarray(padded)).all()


def test_diagonals_and_indices_beyond_the_array():
    assert jnp.eye(2, k=-(2**100)).tolist() == jnp.eye(2, k=2**100).tolist()
    assert jnp.eye(2, 3, k=2).tolist() == np.eye(2, 3, k=2).tolist()
    x, beyond = np.arange(12), np.array([14, -2, 3])
    np.put(wanted := x.copy(), beyond, 99, mode="clip")
    got = jnp.put(jnp.asarray(x), beyond, 99, mode="clip", inplace=False)
    assert got.tolist() == wanted.tolist()
    assert jnp.mgrid[()].shape == np.mgrid[()].shape and jnp.ogrid[()] == []


def test_top_k_of_more_than_an_index_counts():
    long = mj.ShapeDtypeStruct((2**31 + 1,), np.float32)
    with pytest.raises(ValueError, match="int32 indices, which will overflow"):
        mj.eval_shape(lambda x: lax.top_k(x, 3), long)


def test_an_error_names_what_got_the_slice_or_the_dtype():
    for name in ("mgrid", "ogrid", "r_", "c_"):
        grid = getattr(jnp, name)
        with pytest.raises(ConcretizationTypeError, match=f"slice stop of jnp.{name}"):
            mj.jit(lambda n, grid=grid: grid[0:n])(2)


def test_remainders_by_zero_and_powers_of_two_are_numpy_s():
    x, y = np.float32([5, -5, 0, np.inf, np.nan]), np.float32([0, -0.0, 2, -3, np.inf])
    for name in ("remainder", "mod", "fmod", "floor_divide", "divmod"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x[:, None], y)
        np.testing.assert_array_equal(getattr(jnp, name)(x[:, None], y), want)
    whole = np.arange(-120, 120, dtype=np.float32)
    np.testing.assert_array_equal(jnp.exp2(whole), np.exp2(whole))
    found = lax.exp2(jnp.asarray([3, 1j, 2 - 1j], "complex64"))
    np.testing.assert_allclose(found, 2 ** np.array([3, 1j, 2 - 1j]), rtol=1e-6)


@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "percentile"])
@pytest.mark.parametrize("option", [{"overwrite_input": True}, {"out": np.zeros(())}])
def test_quantiles_overwrite_nothing(name, option):
    args = [jnp.ones(3), 0.5][: 1 + (name[-6:] != "median")]
    with pytest.raises(ValueError, match="does not support overwrite_input"):
        getattr(jnp, name)(*args, **option)


def test_what_lies_outside_is_a_start_or_the_end():
    assert jnp.nanmax(np.float32([np.nan, np.nan]), initial=3.0) == 3
    rows, columns = jnp.unravel_index(np.int32([-30, -5, -1, 30]), (3, 4))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 2, 2], [0, 3, 3, 3])


# ---- methods of ufuncs are NumPy's: reduce, accumulate, at, outer, reduceat


floats = np.array([[0.5, -1.5, 2, 0], [3, 1, -0.25, 1], [0.5, 2, 4, -1]], np.float32)
whole = np.array([[5, 1, 7, 2], [3, 3, 6, 4], [9, 0, 2, 8]], np.int32)
index = np.array([0, 2, 2])


same = partial(alike, rtol=2e-6)


@pytest.mark.parametrize("name", namespace.ufuncs[2])
def test_methods_are_numpy_s(name):
    x = whole if name.startswith("bitwise") else floats
    ours, theirs = getattr(jnp, name), getattr(np, name)
    assert ours.nin == 2 and ours.nargs == 2
    same(ours(x, x, out=None, where=None), theirs(x, x))
    for axis in 0, 1:
        same(ours.reduce(x, axis=axis), theirs.reduce(x, axis=axis))
        same(ours.accumulate(x, axis=axis), theirs.accumulate(x, axis=axis))
    same(ours.reduce(x, keepdims=True), theirs.reduce(x, keepdims=True))
    options = {"initial": 1, "where": x > 0.5}
    if not name.startswith("logical"):
        same(ours.reduce(x, **options), theirs.reduce(x, **options))
        same(ours.reduceat(x, index[:2], 1), theirs.reduceat(x, index[:2], 1))
    same(ours.outer(x, x[0]), theirs.outer(x, x[0]))
    if not name.startswith("logical"):
        changed = x.copy()
        theirs.at(changed, index, x[1])
        same(ours.at(x, index, x[1], inplace=False), changed)


def test_methods_under_every_transformation():
    f = jnp.logaddexp.reduce
    same(mj.jit(f)(floats), f(floats))
    same(mj.vmap(f)(floats), f(floats, axis=1))
    slope = mj.grad(lambda x: f(x))(floats[0])
    same(slope, np.exp(floats[0]) / np.exp(floats[0]).sum())
    changed = floats.copy()
    np.negative.at(changed, index)
    same(jnp.negative.at(floats, index, inplace=False), changed)


def test_functions_of_one_s_own():
    own = jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1)
    theirs = np.frompyfunc(lambda x, y: np.float32(x * y + 1), 2, 1)
    same(own(floats, floats[0]), theirs(floats, floats[0]).astype("f4"))
    same(own.reduce(floats, axis=None), np.float32(theirs.reduce(floats.ravel())))
    same(own.accumulate(floats), theirs.accumulate(floats).astype("f4"))
    assert isinstance(jnp.add, jnp.ufunc) and not isinstance(jnp.sort, jnp.ufunc)
    assert isinstance(own, jnp.ufunc) and own.identity is None and own.nout == 1
