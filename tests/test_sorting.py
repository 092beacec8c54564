"""Sorting and top_k: orders, ties, special values, and JAX's bits."""

import numpy as np
import pytest

from minijit import disable_jit, jit, lax
from minijit.ops.lowering.sorting import LONG_ROW
from minijit.ops.sorting import sort, top_k, top_k_numpy
from minijit.trace.array import wrap

pytestmark = pytest.mark.chapter(16)

special = [1, np.nan, -0.0, 0, -np.inf, 2, np.inf, 0, -0.0, np.nan]
special = np.array(special, np.float32)


def bits(x):
    """The bits of a float array as integers, so that NaN and -0.0 can be compared."""
    x = np.asarray(x)
    return x if x.dtype.kind in "biuc" else x.view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize("dtype", ["bool", "uint32", "int32", "float32", "float64"])
@pytest.mark.parametrize("shape, k", [((100_003,), 9), ((300, 70), 5), ((3, 999), 0)])
@pytest.mark.parametrize("most", [3, 2**31 - 1])
def test_top_k_of_many(dtype, shape, k, most):
    """With many ties and with few: the order is that of a stable sort downwards."""
    x = np.random.default_rng(0).integers(0, most, shape).astype(dtype)
    order = np.argsort(~x.astype(np.int64), axis=-1, kind="stable")[..., :k]
    values, indices = top_k(wrap(x), k)
    assert np.array_equal(indices, order)
    assert np.array_equal(values, np.take_along_axis(x, order, -1))


def hard_rows(dtype, mode, shape):
    """Rows of random elements, of few, the ends among them, or of the least alone."""
    rng = np.random.default_rng(1)
    if np.dtype(dtype).kind in "iu":
        ends = np.iinfo(dtype)
        few = np.array([ends.min, ends.max, 0, 1], dtype)
    else:
        few = np.array([True, False] if dtype == "bool" else special).astype(dtype)
    if mode == "few":
        return rng.choice(few, shape)
    if mode == "least":
        least = few[0] if few.dtype.kind in "iu" else np.zeros((), few.dtype)
        return np.full(shape, least)
    is_integer = few.dtype.kind in "iu"
    x = rng.integers(-100, 100, shape) if is_integer else rng.normal(size=shape)
    return x.astype(dtype)


dtypes = "bool int8 uint16 int32 uint32 float16 bfloat16 float32".split()
modes = "random", "few", "least"


def agree(found, wanted):
    """The same bits; a NaN may be any."""
    kept = wanted == wanted
    assert np.array_equal(bits(found)[kept], bits(wanted)[kept])
    assert np.isnan(np.asarray(found, "f4")[~kept]).all()


@pytest.mark.chapter(25)
@pytest.mark.parametrize("dtype", dtypes)
def test_the_largest_are_found_without_a_call(dtype):
    shapes = ((3, 40), 1), ((40, 3), 0), ((2, 9, 300), 2), ((LONG_ROW,), 0)
    for shape, axis in shapes:
        # In passes, or by a heap of one element in eight.
        every = sorted({1, 2, min(8, shape[axis]), max(1, shape[axis] // 8)})
        for k in every[dtypes.index(dtype) % 2 :: 2]:
            run = jit(lambda x, k=k, axis=axis: top_k(x, k, axis=axis))
            for x in (hard_rows(dtype, mode, shape) for mode in modes):
                values, places = run(x)
                wanted = top_k_numpy(x, k=k, axis=axis)
                assert np.array_equal(places, wanted[1])
                agree(values, wanted[0])
            assert run.lower(x).compile().executable.fallbacks == ()


@pytest.mark.chapter(25)
@pytest.mark.parametrize("dtype", dtypes)
def test_short_rows_in_loops_are_sorted_without_a_call(dtype):
    """Each such call had a loop driven from Python: 18 times what it takes now."""
    for shape, axis in (((2, 3, 40), 1), ((2, 20, 3), 0), ((2, 1), 0)):
        k = min(9, shape[1 + axis])
        places = lax.broadcasted_iota("int32", shape[1:], axis)
        functions = [
            lambda x, axis=axis: [sort(x, axis)],
            lambda x, axis=axis, p=places: sort((x, p), axis),
            lambda x, axis=axis, p=places: sort((x, x[::-1], p), axis, num_keys=2),
            lambda x, axis=axis, k=k: top_k(x, k, axis=axis),
        ]
        for f in functions:
            run = jit(lambda x, f=f: lax.map(f, x))
            for x in (hard_rows(dtype, mode, shape) for mode in modes):
                with disable_jit():
                    rows = [f(wrap(row)) for row in x]
                for found, *wanted in zip(run(x), *rows, strict=True):
                    agree(found, np.stack([*map(np.asarray, wanted)]))
            assert run.lower(x).compile().executable.fallbacks == ()
    # Long ones are left to NumPy.
    run = jit(lambda x: lax.map(sort, x)).lower(np.zeros((2, 999), "f4"))
    assert run.compile().executable.fallbacks


@pytest.mark.chapter(25)
def test_passes_in_a_loop_are_no_obstacle():
    f = lambda x: lax.fori_loop(0, 9, lambda i, x: x.at[:3].set(top_k(x, 3)[0] / 2), x)
    x = np.random.default_rng(0).normal(size=300).astype("f4")
    assert jit(f).lower(x).compile().executable.fallbacks == ()
    with disable_jit():
        wanted = f(wrap(x))
    assert np.array_equal(jit(f)(x), wanted)


@pytest.mark.chapter(25)
def test_many_elements_outside_jit_go_to_the_program_of_passes():
    count, x = lax.scan.traces.count, wrap(np.arange(9_001, dtype=np.float32) % 4_000)
    for _ in range(3):
        values, places = top_k(x, 3)
        assert values.tolist() == [3_999] * 2 + [3_998]
        assert places.tolist() == [3_999, 7_999, 3_998]
    assert lax.scan.traces.count == count + 1


@pytest.mark.chapter(25)
def test_what_is_sorted_is_left_to_numpy():
    for x, k in ((np.zeros((3, 40), "f4"), 9), (np.zeros(4000, "f4"), 600)):
        run = jit(lambda x, k=k: top_k(x, k)).lower(x).compile().executable
        assert [name for name, _ in run.fallbacks] == ["largest"]
