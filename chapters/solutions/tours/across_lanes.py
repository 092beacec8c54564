"""Solutions to the tour across_lanes.ipynb."""

import numpy as np

import minijit.numpy as jnp
from minijit import lax, vmap
from minijit.trace.slicing import rev
from minijit.transform.batching.vmap import Lanes, move_axis


def softmax_across(x):
    weight = jnp.exp(x - lax.pmax(x, "i"))
    return weight / lax.psum(weight, "i")


def check_softmax_across(softmax_across):
    """`lax.pmax` and `lax.psum` over "i" are the largest and the sum of all lanes."""
    x = np.float32([1, 2, 1000])
    found = vmap(softmax_across, axis_name="i")(x)
    assert np.allclose(found, [0, 0, 1])
    found = vmap(softmax_across, axis_name="i")(x[:2])
    assert np.allclose(found, [1 / (1 + np.e), np.e / (1 + np.e)])


def flip_rule(lanes, axes, x, *, dimensions):
    x = move_axis(x, axes[0], 0)
    return rev(x, [d + 1 for d in dimensions]), 0


def check_flip_rule(flip_rule):
    """Move the lanes to the front first; then all other axes count one more."""
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    y, axis = flip_rule(Lanes(3), (1,), jnp.asarray(x), dimensions=(1,))
    assert axis == 0 and y.shape == (3, 2, 4)
    assert np.array_equal(y, x.transpose(1, 0, 2)[:, :, ::-1])
    y, axis = flip_rule(Lanes(2), (0,), jnp.asarray(x), dimensions=(0,))
    assert axis == 0 and np.array_equal(y, x[:, ::-1])
