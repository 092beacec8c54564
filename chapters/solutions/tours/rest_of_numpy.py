"""Solutions to the tour rest_of_numpy.ipynb."""

import numpy as np

import minijit.numpy as jnp
from minijit import jit, lax


def sliding_mean(x, n):
    return lax.reduce_window(x, 0.0, lax.add, (n,)) / n


def check_sliding_mean(sliding_mean):
    """lax.reduce_window adds what is in a window; "VALID" is its default padding."""
    x = np.array([1, 2, 4, 8, 16], np.float32)
    for n in (1, 2, 5):
        expected = np.convolve(x, np.ones(n) / n, "valid")
        found = np.asarray(sliding_mean(jnp.array(x), n))
        assert np.allclose(found, expected)


def diagonal_rows(x):
    n, _, k = x.shape
    i = jnp.arange(n)
    starts = jnp.stack([i, i], axis=-1)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0, 1), start_index_map=(0, 1)
    )
    return lax.gather(x, starts, numbers, (1, 1, k))


def check_diagonal_rows(diagonal_rows):
    """The window is (1, 1, k); both axes of size 1 are collapsed, starts are [i, i]."""
    x = np.arange(18, dtype=np.float32).reshape(3, 3, 2)
    found = np.asarray(diagonal_rows(jnp.array(x)))
    assert np.array_equal(found, x[[0, 1, 2], [0, 1, 2]])


def group_means(values, groups, n):
    sums = jnp.zeros(n).at[groups].add(values)
    members = jnp.zeros(n).at[groups].add(1.0)
    return sums / jnp.maximum(members, 1.0)


def check_group_means(group_means):
    """Add the values, and ones, at the places `groups` of two arrays of zeros."""
    values = np.array([1, 2, 6, 10, 20], np.float32)
    groups = np.array([2, 0, 2, 2, 0])
    for f in (group_means, jit(group_means, static_argnums=2)):
        found = np.asarray(f(jnp.array(values), jnp.array(groups), 4))
        assert np.allclose(found, [11, 0, 17 / 3, 0])
