"""Loops against the same loops written by hand in numba, and in jax."""

import numba
import numpy as np

import minijit.numpy as jnp
from minijit import jit, lax

from .harness import Row, show, with_jax

rng = np.random.default_rng(0)


def counted(lax, x):
    """A million steps of scalar work."""
    goes_on = lambda c: c[0] < 1_000_000
    return lax.while_loop(goes_on, lambda c: (c[0] + 1, c[1] * 0.5 + 1.0), (0, x))[1]


@numba.njit
def counted_by_hand(x):
    i, half, one = np.int32(0), np.float32(0.5), np.float32(1.0)
    while i < np.int32(1_000_000):
        i, x = np.int32(i + 1), x * half + one
    return x


def scalar_row():
    import jax

    f, x = jit(lambda x: counted(lax, x)), jnp.float32(3.0)
    peers = {"minijit": lambda: f(x), "numba": lambda: counted_by_hand(np.float32(3.0))}
    return Row("while, 1M steps of a scalar", with_jax(
        peers, lambda x: counted(jax.lax, x), np.float32(3.0)
    ))


def recurrence(lax, h, a, b):
    return lax.scan(lambda h, ab: (ab[0] * h + ab[1],) * 2, h, (a, b))


@numba.njit
def recurrence_by_hand(h, a, b):
    h, ys = h.copy(), np.empty_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            h[j] = a[i, j] * h[j] + b[i, j]
            ys[i, j] = h[j]
    return h, ys


def recurrence_row():
    import jax

    a = rng.uniform(0.5, 1.0, size=(10_000, 512)).astype("f4")
    b, h = rng.normal(size=a.shape).astype("f4"), np.zeros(512, "f4")
    f, args = jit(lambda *xs: recurrence(lax, *xs)), [jnp.asarray(x) for x in (h, a, b)]
    peers = {"minijit": lambda: f(*args), "numba": lambda: recurrence_by_hand(h, a, b)}
    peers = with_jax(peers, lambda *xs: recurrence(jax.lax, *xs)[1], h, a, b)
    return Row("scan, 10,000 of f32[512]", peers, 3 * a.nbytes)


def settle(lax, x):
    return lax.fori_loop(0, 100, lambda i, c: c * 0.5 + 1.0, x)


@numba.njit
def settle_by_hand(x):
    x = x.copy()
    for _ in range(100):
        for j in range(x.shape[0]):
            x[j] = x[j] * np.float32(0.5) + np.float32(1.0)
    return x


def settle_row():
    """A carry larger than the caches; memory allows to read and write it once."""
    import jax

    a = rng.normal(size=10_000_000).astype("f4")
    f, x = jit(lambda x: settle(lax, x)), jnp.asarray(a)
    peers = {"minijit": lambda: f(x), "numba": lambda: settle_by_hand(a)}
    peers = with_jax(peers, lambda x: settle(jax.lax, x), a)
    return Row("fori, 100 steps of f32[10M]", peers, 2 * a.nbytes)


def eager(lax, x):
    """A loop without jit, whose body is made anew at each call."""
    return lax.fori_loop(0, 3000, lambda i, c: c * 0.99 + i * 1e-6, x)


def eager_row():
    import jax

    a = np.linspace(0.1, 0.9, 8, dtype="f4")
    x, y = jnp.asarray(a), jax.numpy.asarray(a)
    run = lambda: eager(jax.lax, y).block_until_ready()
    peers = {"minijit": lambda: eager(lax, x), "jax": run}
    return Row("fori, 3,000 steps of f32[8], no jit", peers)


def main():
    show([scalar_row(), recurrence_row(), settle_row(), eager_row()])


if __name__ == "__main__":
    main()
