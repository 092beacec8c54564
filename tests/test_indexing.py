"""Indexing: the primitives, and NumPy-style indices against NumPy and JAX."""

from functools import partial

import ml_dtypes
import numpy as np
import pytest
from harness import alike, refused
from referee import together

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.numpy.index_to_gather import take_index, update_index
from minijit.trace.array import wrap
from minijit.trace.base.config import enable_x64
from minijit.trace.base.errors import NonConcreteBooleanIndexError

pytestmark = pytest.mark.chapter(16)

cube = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
s_ = np.s_
scatters = {
    "set": lax.scatter, "add": lax.scatter_add, "subtract": lax.scatter_sub,
    "multiply": lax.scatter_mul, "min": lax.scatter_min, "max": lax.scatter_max,
}  # fmt: skip

# Indices that are inside the cube, so that NumPy agrees.
basic = [
    0, -1, np.int8(-1), (1, 2), (1, 2, 3), s_[1:3], s_[::-1], s_[5:0:-2], s_[:, 1::2],
    s_[None, 1, None], s_[..., 2], s_[..., None, 0:2], s_[1:1, 0], s_[1:2, ::3, -1], (),
    np.array(1),
]  # fmt: skip
advanced = [
    np.array([2, 0, 2]),
    np.array([2, 0], np.uint8),
    (slice(None), np.array([[0, 3], [-4, 1]])),
    (np.array([0, 1]), slice(None), np.array([1, 4])),
    (np.array([0, 1]), 2, slice(1, 4)),
    (0, slice(None), np.array([1, 2])),
    (np.array([0, 1]), None, np.array([1, 3])),
    (slice(None, None, 2), np.array([1, 2])),
    (slice(None, None, -2), slice(1, 3), np.array([[1], [2]])),
    (np.array([[0], [1]]), np.array([1, 2, 3])),
    (np.array([0, 1]), [1, 2]),
    (0, []),
    np.zeros((0,), int),
]
masks = [
    np.array([True, False, True]), np.arange(12).reshape(3, 4) % 5 < 2,
    (slice(None), np.array([True, False, True, True])),
    (np.array([False, True, False]), slice(1, 3)), np.zeros((3, 4, 5), bool), True,
    False, (True, 1), (slice(None), 1, True), (0, slice(None), np.arange(5) % 3 > 0),
]  # fmt: skip
inside = basic + advanced + masks


def traced(function, *args):
    """`function` on arguments of unknown value: -> (result, names of primitives)."""
    names = [eqn.primitive.name for eqn in mj.make_jaxpr(function)(*args).eqns]
    return mj.jit(function, backend="eval")(*args), names


def hide_integers(index):
    """(function from an index's integers back to the index, those integers)."""
    parts = index if isinstance(index, tuple) else (index,)
    hidden, places = [], []
    for place, part in enumerate(parts):
        known = isinstance(part, (slice, list, bool)) or part is None or part is ...
        if not known and np.asarray(part).dtype != bool:
            part = np.asarray(part)
            hidden.append(wrap(part.astype(np.int32) if part.itemsize == 8 else part))
            places.append(place)

    def rebuild(*values):
        result = list(parts)
        for place, value in zip(places, values, strict=True):
            result[place] = value
        return tuple(result)

    return rebuild, hidden


@pytest.mark.parametrize("index", inside, ids=str)
def test_reading_as_numpy_does(index):
    alike(take_index(wrap(cube), index), cube[index])


@pytest.mark.parametrize("index", inside, ids=str)
def test_reading_by_traced_integers(index):
    rebuild, hidden = hide_integers(index)
    found, _ = traced(lambda x, *i: take_index(x, rebuild(*i)), wrap(cube), *hidden)
    alike(found, cube[index])


@pytest.mark.parametrize("index", inside, ids=str)
def test_writing_as_numpy_does(index):
    ufuncs = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
    ufuncs |= {"min": np.minimum, "max": np.maximum}
    shape = cube[index].shape
    new = 50 - np.arange(np.prod(shape)).reshape(shape).astype(np.float32) * 2
    for name, scatter in scatters.items():
        expected = cube.copy()
        if name == "set":
            expected[index] = new
        else:
            ufuncs[name].at(expected, index, new)
        alike(update_index(wrap(cube), index, wrap(new), scatter), expected, name)
    rebuild, hidden = hide_integers(index)
    found, _ = traced(
        lambda x, v, *i: update_index(x, rebuild(*i), v, lax.scatter_add),
        *(wrap(cube), wrap(np.float32(1)), *hidden),
    )
    expected = cube.copy()
    np.add.at(expected, index, 1)
    alike(found, expected)


def test_the_cheapest_form_is_chosen():
    x, i = wrap(cube), wrap(np.int32(1))
    cases = {
        "squeeze": lambda x, i: x[0, :, None],
        "slice": lambda x, i: x[1:, ::2],
        "rev": lambda x, i: x[:, ::-1],
        "dynamic_slice": lambda x, i: x[i, ::2, None, 1],
        "gather": lambda x, i: x[:, np.array([0, 1])],
    }
    reading = {"slice", "rev", "dynamic_slice", "gather"}
    for name, function in cases.items():
        get = lambda x, i: take_index(x, function(Recorder(), i))  # noqa: B023
        found, names = traced(get, x, i)
        alike(found, function(cube, 1), name)
        main = [n for n in names if n in reading]
        assert main == {"dynamic_slice": ["dynamic_slice", "slice"]}.get(
            name, [name] if name in reading else ["slice"]
        )
    assert traced(lambda x: take_index(x, s_[:, :]), x)[1] == []


class Recorder:
    """Gives back what it is indexed by."""

    def __getitem__(self, index):
        return index


def test_out_of_bounds_reads():
    x = wrap(np.array([10, 20, 30], np.float32))
    assert float(take_index(x, 7)) == 30 and float(take_index(x, -7)) == 10
    i = np.array([-4, -1, 0, 3])
    assert np.asarray(take_index(x, i)).tolist() == [10, 30, 10, 30]
    alike(take_index(x, i, mode="fill"), np.array([np.nan, 30, 10, np.nan], np.float32))
    filled = take_index(x, i, mode="fill", fill_value=-1)
    assert np.asarray(filled).tolist() == [-1, 30, 10, -1]
    plain = take_index(x, i, mode="clip", wrap_negative_indices=False)
    assert np.asarray(plain).tolist() == [10, 10, 10, 30]
    for dtype, fill in [("int8", -128), ("uint8", 255), ("bool", True)]:
        y = wrap(np.zeros(3, dtype))
        assert take_index(y, 5, mode="fill").item() == fill


def test_promotion_of_updates():
    x = wrap(np.arange(3, dtype=np.int8))
    assert np.asarray(update_index(x, 0, 100, lax.scatter_add)).tolist() == [100, 1, 2]
    with pytest.warns(FutureWarning, match="cannot safely cast value from dtype=float"):
        assert update_index(x, 0, 1.5, lax.scatter).dtype == np.int8
    weak = lax.full((3,), 1.0)
    assert weak.weak_type and update_index(weak, 0, 2.0, lax.scatter).weak_type
    half = wrap(np.ones(3, ml_dtypes.bfloat16))
    assert update_index(half, 0, 2.0, lax.scatter).dtype == half.dtype


def test_a_traced_mask_is_an_error_that_says_what_to_do():
    with pytest.raises(NonConcreteBooleanIndexError) as error:
        traced(lambda x, mask: take_index(x, mask), wrap(cube), wrap(cube > 3))
    message = str(error.value)
    assert "bool[3,4,5]" in message and "jnp.where(mask, x, 0)" in message
    assert "test_indexing.py" in message and "jnp.nonzero(mask, size=n)" in message


def test_indices_of_64_bits():
    with enable_x64(True):
        x = wrap(np.arange(3, dtype=np.float64))
        far = np.array([0, 2**40, -(2**40)])
        assert np.asarray(take_index(x, far)).tolist() == [0, 2, 0]
        huge = np.array([1, 2**64 - 1], np.uint64)
        filled = take_index(x, huge, mode="fill", fill_value=7)
        assert np.asarray(filled).tolist() == [1, 7]
        found, _ = traced(take_index, x, wrap(far))
        assert np.asarray(found).tolist() == [0, 2, 0]


def test_what_is_written_to_an_empty_axis_is_dropped():
    """An array may index it, as in JAX; an integer still is out of bounds."""
    empty, index = jnp.zeros((0, 3)), np.array([5])
    for mode in (None, "drop", "clip", "promise_in_bounds"):
        for name in ("set", "add", "mul", "min", "max"):
            assert getattr(empty.at[index], name)(1.0, mode=mode).shape == (0, 3)
            with pytest.raises(IndexError, match="axis 0 with size 0"):
                getattr(empty.at[5], name)(1.0, mode=mode)
    assert empty.at[index].apply(jnp.sin).shape == (0, 3)
    assert empty.at[np.array([1]), 2].set(1.0).shape == (0, 3)
    assert jnp.zeros((3, 0)).at[np.array([1]), 2].set(1.0).shape == (3, 0)
    refused(ValueError, "does not broadcast", empty.at[index].set, jnp.ones(7))
    refused(IndexError, "axis 0 with size 0", lambda: empty[index])
    # A read of nothing reads nothing, as in JAX.
    assert jnp.zeros((0, 0))[np.array([5, 6])].shape == (2, 0)


windows = {
    "known": lambda ds, x, i: x[ds(1, 2)],
    "with steps": lambda ds, x, i: x[..., ds(i, 2, 2)],
    "reaching out": lambda ds, x, i: x[ds(i + 7, 2)] + x[ds(-i, 2)],
    "beside an integer": lambda ds, x, i: x[1, :, ds(i, 3)],
    "beside an array": lambda ds, x, i: x[np.array([0, 2]), ds(i, 2)],
    "written": lambda ds, x, i: x.at[ds(i, 2), 1].set(7.0),
    "written outside": lambda ds, x, i: x.at[ds(i + 1, 2)].add(7.0),
    "filled": lambda ds, x, i: x.at[ds(i + 1, 2)].get(mode="fill", fill_value=-1),
}


@pytest.mark.oracle
def test_windows_from_a_traced_start_are_jax_s():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(cube)
    wants = {k: (partial(f, jax.ds), x, 1) for k, f in windows.items()}
    for name, want in together(wants).items():
        for f in (lambda f: f, mj.jit):
            found = f(partial(windows[name], mj.ds))(jnp.asarray(cube), 1)
            np.testing.assert_array_equal(found, want, err_msg=name)


def test_what_is_no_window():
    x = jnp.arange(4)
    assert mj.ds(None) == slice(None) and x[mj.ds(3)].tolist() == [0, 1, 2]
    assert repr(mj.ds(1, 2)) == "Slice(start=1, size=2, stride=1)"
    with pytest.raises(TypeError, match="5 elements, 1 apart, does not fit .* size 4"):
        x[mj.ds(0, 5)]
    assert mj.ds(1, 2, 0).stride == 0
    refused(ValueError, "stride` must be >= 0", mj.ds, 0, 2, -1)
    with pytest.raises(TypeError):
        mj.jit(lambda n: x[mj.ds(0, n)])(2)


@pytest.mark.parametrize("shape", [(7, 1), (3, 1), (7,), (5, 7, 1), (0, 1), (1, 7, 1)])
def test_an_update_of_no_element_may_have_any_shape(shape):
    """As in JAX; one of an element still has to fit."""
    x, update = jnp.ones((7, 1)), jnp.full(shape, 2.0)
    for index in (jnp.zeros((0,), int), slice(0, 0), jnp.zeros((0, 3), int)):
        np.testing.assert_array_equal(x.at[index].set(update), np.ones((7, 1)))
        np.testing.assert_array_equal(x.at[index].add(update), np.ones((7, 1)))
    refused(ValueError, "roadcast", x.at[jnp.zeros((2,), int)].set, update)


def test_a_shape_that_is_traced_unravels():
    f = mj.jit(jnp.unravel_index)
    for shape in (np.array([3, 4]), (np.int32(3), np.int32(4))):
        for got, want in zip(f(np.arange(12), shape), np.indices((3, 4)), strict=True):
            np.testing.assert_array_equal(got, want.ravel())


def test_an_iterator_takes_no_row_before_it_is_asked():
    # `np.iterable`, which SciPy asks of everything.
    jaxpr = mj.make_jaxpr(lambda x: x * np.iterable(x))(np.ones(10_000))
    assert len(jaxpr.eqns) == 1
