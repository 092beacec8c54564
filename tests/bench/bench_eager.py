"""Single calls outside of jit, against jax in the same run: see `harness`.

    python -m tests.bench.bench_eager [part of a name ...]

What a call costs apart from its arithmetic: arrays are small.  Each peer makes `CALLS`
calls of one kind and waits for the last; the time shown is that of one call.
"""

import sys

import numpy as np

import minijit
import minijit.numpy as jnp
from minijit import lax

from .harness import best_times

CALLS = 20


def programs(jax, jnp, lax):
    """{name: function without arguments} in the words of one system."""
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.normal(size=8).astype("f4")) for _ in range(2))
    v, w = (jnp.asarray(rng.normal(size=(8, 8)).astype("f4")) for _ in range(2))
    i, mask, one = jnp.asarray([3, 1, 1]), x > 0, jnp.float32(1)
    listed = [1.0, 2.0, 3.0]

    def scalar(x):
        return jnp.sin(x) * x

    def each(x):
        return x * 2.0 + y

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
        "x @ w": lambda: v @ w,
        "grad(f)(x), f scalar": lambda: jax.grad(scalar)(one),
        "vmap(f)(x)": lambda: jax.vmap(each, in_axes=0)(v),
        "jvp(f, (x,), (t,))": lambda: jax.jvp(scalar, (one,), (one,))[1],
    }


def repeated(call, finish):
    """`CALLS` calls, finished."""

    def run():
        for _ in range(CALLS):
            result = call()
        finish(result)

    return run


def systems():
    """{system: its programs}; jax where it is installed."""
    found = {"minijit": programs(minijit, jnp, lax)}
    try:
        import jax
    except ImportError:
        return found
    return found | {"jax": programs(jax, jax.numpy, jax.lax)}


if __name__ == "__main__":
    table, wanted = systems(), sys.argv[1:]
    print("microseconds a call")
    for name in table["minijit"]:
        if wanted and not any(part in name for part in wanted):
            continue
        peers = {
            system: repeated(rows[name], lambda x: x.block_until_ready())
            for system, rows in table.items()
        }
        times = {k: 1e6 * t / CALLS for k, t in best_times(peers).items()}
        others = "  ".join(
            f"{k} {t:7.1f}  ({times['minijit'] / t:.2f} of it)"
            for k, t in times.items()
            if k != "minijit"
        )
        print(f"{name:28s} minijit {times['minijit']:7.1f}   {others}")
