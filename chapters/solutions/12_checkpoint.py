"""Solutions to chapter 12."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp

w = np.eye(4, dtype="float32") * 0.5
x = np.arange(12.0, dtype="float32").reshape(3, 4)


def layer(w, x):
    return jnp.tanh(x @ w)


def held(f):
    return sum(leaf.nbytes for leaf in mj.tree.leaves(mj.vjp(f, w, x)[1]))


def in_blocks(layer, n, block):
    def layers(w, x):
        for _ in range(block):
            x = layer(w, x)
        return x

    def f(w, x):
        for _ in range(n // block):
            x = mj.checkpoint(layers)(w, x)
        return x

    return f


def check_in_blocks(in_blocks):
    """Checkpoint a function of `block` layers, and apply that n // block times."""
    f = in_blocks(layer, 8, 2)
    plain = x
    for _ in range(8):
        plain = layer(w, plain)
    assert jnp.allclose(f(w, x), plain)
    # A block keeps its input, and nothing from within: w, and x four times.
    array, weights = x.nbytes, w.nbytes
    for block in 1, 2, 4, 8:
        assert held(in_blocks(layer, 8, block)) == weights + 8 // block * array
