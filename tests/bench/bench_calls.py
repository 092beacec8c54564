"""What a call costs apart from its arithmetic, against jax: see `harness`.

    python -m tests.bench.bench_calls [part of a name ...]

Arrays are small.  Calls of jitted functions come first, then those outside of jit.
"""

import sys

import numpy as np

from .harness import rng, show_calls


def jitted(lib):
    """{name: function without arguments} on one system: calls of jitted functions."""
    jnp = lib.numpy
    x, y = np.arange(8, dtype="f4"), np.ones(8, "f4")
    combine = lib.jit(lambda x, y: x * y + x)
    step = lib.jit(lambda tree: {k: v * 0.5 for k, v in tree.items()})
    total = lib.jit(lambda tree: sum(v.sum() for v in tree.values()))
    a, b = jnp.asarray(x), jnp.asarray(y)
    calls = {
        "x * y + x": lambda: combine(a, b),
        "of NumPy's arrays": lambda: combine(x, y),
        "an array and a number": lambda: combine(a, 2.0),
    }
    for n in (1, 10, 100):
        tree = {f"w{i}": jnp.full(8, i, "f4") for i in range(n)}
        calls[f"dict of {n} to a dict"] = lambda tree=tree: step(tree)
        calls[f"dict of {n} to a number"] = lambda tree=tree: total(tree)
    return calls


def eager(lib):
    """The same without jit."""
    jnp, lax = lib.numpy, lib.lax
    x, y = (jnp.asarray(rng.normal(size=8).astype("f4")) for _ in range(2))
    v, w = (jnp.asarray(rng.normal(size=(8, 8)).astype("f4")) for _ in range(2))
    i, mask, one = jnp.asarray([3, 1, 1]), x > 0, jnp.float32(1)
    listed = [1.0, 2.0, 3.0]
    scalar, each = lambda x: jnp.sin(x) * x, lambda x: x * 2.0 + y
    return {
        "jnp.add(x, y)": lambda: jnp.add(x, y),
        "x + 1.0": lambda: x + 1.0,
        "x * y": lambda: x * y,
        "x[0]": lambda: x[0],
        "x[1:3]": lambda: x[1:3],
        "x[i], i an array": lambda: x[i],
        "jnp.where(mask, x, y)": lambda: jnp.where(mask, x, y),
        "jnp.where(mask, x, 0.)": lambda: jnp.where(mask, x, 0.0),
        "jnp.sum(x)": lambda: jnp.sum(x),
        "jnp.sum(w, axis=0)": lambda: jnp.sum(w, axis=0),
        "jnp.reshape(x, (2, 4))": lambda: jnp.reshape(x, (2, 4)),
        "jnp.concatenate([x, y])": lambda: jnp.concatenate([x, y]),
        "x.at[0].set(1.)": lambda: x.at[0].set(1.0),
        "jnp.zeros((8,))": lambda: jnp.zeros((8,)),
        "jnp.asarray([1., 2., 3.])": lambda: jnp.asarray(listed),
        "lax.add(x, y)": lambda: lax.add(x, y),
        "v @ w": lambda: v @ w,
        "grad(f)(x), f scalar": lambda: lib.grad(scalar)(one),
        "vmap(f)(x)": lambda: lib.vmap(each, in_axes=0)(v),
        "jvp(f, (x,), (t,))": lambda: lib.jvp(scalar, (one,), (one,))[1],
    }


if __name__ == "__main__":
    show_calls(jitted, 200, sys.argv[1:])
    show_calls(eager, 20, sys.argv[1:])
