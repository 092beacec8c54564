"""S3: a product written by two `vmap`s against one `einsum`: see `harness`.

Both must be the same call; the ratio of their times says so, beside NumPy's and jax's.
"""

import functools as ft

import numpy as np

import minijit as mj
import minijit.numpy as jnp

from .harness import Row, show

w = np.ones((600, 821), np.float32)
a = np.ones((32, 100, 821), np.float32)


def by_vmap(vmap):
    """A matrix times each of two axes of vectors, one axis at a time."""
    inner = ft.partial(vmap, in_axes=(None, 0))(lambda w, a: w @ a)
    return vmap(inner, in_axes=(None, 0))


def by_einsum(einsum):
    return lambda w, a: einsum("ab,...b->...a", w, a)


def row():
    f1, f2 = mj.jit(by_vmap(mj.vmap)), mj.jit(by_einsum(jnp.einsum))
    x, y = jnp.asarray(w), jnp.asarray(a)
    peers = {
        "minijit": lambda: f1(x, y),
        "minijit, einsum": lambda: f2(x, y),
        "NumPy": lambda: a @ w.T,
    }
    try:
        import jax
    except ImportError:
        return Row("w @ a for 32 x 100 vectors", peers)
    g1, g2 = jax.jit(by_vmap(jax.vmap)), jax.jit(by_einsum(jax.numpy.einsum))
    p, q = jax.numpy.asarray(w), jax.numpy.asarray(a)
    peers["jax"] = lambda: g1(p, q).block_until_ready()
    peers["jax, einsum"] = lambda: g2(p, q).block_until_ready()
    return Row("w @ a for 32 x 100 vectors", peers)


if __name__ == "__main__":
    show([row()])
