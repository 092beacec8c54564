"""Compile time of unrolled chains: it should grow with the length, and no faster."""

import time

import jax
import numpy as np

import minijit.numpy as jnp
from minijit import jit


def chain(n):
    """n elementwise operations in a row."""

    def f(x, y):
        for _ in range(n // 4):
            x = x * 0.5 + y
            y = y - x * x
        return x + y

    return f


def first_call(jit, n, x):
    """Seconds until a new chain has run once."""
    start = time.perf_counter()
    jit(chain(n))(x, x).block_until_ready()
    return time.perf_counter() - start


def main():
    x = np.ones(1000, "f4")
    ours = jnp.asarray(x)
    first_call(jit, 8, ours)
    jax.jit(chain(8))(x, x)
    print("operations   minijit        jax      minijit, ms an operation")
    for n in (12, 100, 200, 400, 800, 1200, 2000):
        own = first_call(jit, n, ours)
        # jax 0.10 runs out of memory at 1,200.
        peer = f"{1e3 * first_call(jax.jit, n, x):7.0f} ms" if n < 1000 else "     -   "
        print(f"{n:8d} {1e3 * own:9.0f} ms {peer} {1e3 * own / n:12.2f}")


if __name__ == "__main__":
    main()
