"""Transposes and loops against NumPy, numba by hand and jax: see `harness`.

    python -m tests.bench.bench_kernels [transposes] [loops]

What is elementwise or a total, of complex numbers too, `tests.bench.fuzz` draws.
Beside a transposition stand copies of as many bytes: `copy` is ours, `numpy` a call of
`np.copyto` on each of two threads, into memory that is in use.  What it should be: at
most 1.6 copies, 2 where one result is not transposed, and at most 0.2 of jax's time.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numba
import numpy as np

import minijit as mj
from minijit import config

from .harness import Row, floats, row, show, systems

MILLION = 1_000_000
THREADS = 2


# ---- transposes


def turned(name, function, *shapes):
    """A row of `function(numpy module, arrays)`, beside copies of as many bytes."""
    xs = [floats(*shape) for shape in shapes]
    make = lambda lib: partial(function, lib.numpy)
    results = mj.tree.leaves(mj.eval_shape(make(mj), *xs))
    nbytes = sum(x.nbytes for x in xs) + sum(4 * y.size for y in results)
    x, f = mj.numpy.zeros(nbytes // 8, "float32"), mj.jit(lambda x: x * 1.5)
    pool = ThreadPoolExecutor(THREADS)
    parts = [np.array_split(np.ones(nbytes // 8, "f4"), THREADS) for _ in range(2)]
    return row(name, make, *xs, nbytes=nbytes, copy=lambda: f(x),
               numpy=lambda: list(pool.map(np.copyto, *parts)))  # fmt: skip


def s4(np, x, straight=()):
    """The author's program: one array used three times, transposed or straight."""
    uses = x * (1 / (1 + np.exp(-x))), x * 2, x + 1
    return tuple(
        y if k in straight else np.swapaxes(y, 1, 2) for k, y in enumerate(uses)
    )


def transposes():
    yield turned("three of three transposed", s4, (64, 1024, 512))
    two = partial(s4, straight=(2,))
    yield turned("two of three transposed", two, (64, 1024, 512))
    for shape in ((4096, 4096), (4001, 4003)):
        yield turned(f"x.T * 2, {shape}", lambda np, x: x.T * 2, shape)
    yield turned("x.T + y", lambda np, x, y: x.T + y, (4096, 2048), (2048, 4096))
    last_first = lambda np, x: np.transpose(x, (2, 0, 1)) * 2
    yield turned("last axis first", last_first, (256, 256, 256))
    channels_first = lambda np, x: np.moveaxis(x, 3, 1) * 2
    yield turned("channels first", channels_first, (64, 56, 56, 64))


# ---- loops


@numba.njit
def counted_by_hand(x):
    i, half, one = np.int32(0), np.float32(0.5), np.float32(1.0)
    while i < np.int32(1_000_000):
        i, x = np.int32(i + 1), x * half + one
    return x


@numba.njit
def recurrence_by_hand(h, a, b):
    h, ys = h.copy(), np.empty_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            h[j] = a[i, j] * h[j] + b[i, j]
            ys[i, j] = h[j]
    return h, ys


@numba.njit
def settle_by_hand(x):
    x = x.copy()
    for _ in range(100):
        for j in range(x.shape[0]):
            x[j] = x[j] * np.float32(0.5) + np.float32(1.0)
    return x


def counted(lib):
    goes_on = lambda c: c[0] < MILLION
    step = lambda c: (c[0] + 1, c[1] * 0.5 + 1.0)
    return lambda x: lib.lax.while_loop(goes_on, step, (0, x))[1]


def recurrence(lib):
    step = lambda h, ab: (ab[0] * h + ab[1],) * 2
    return lambda h, a, b: lib.lax.scan(step, h, (a, b))


def settle(lib):
    return lambda x: lib.lax.fori_loop(0, 100, lambda i, c: c * 0.5 + 1.0, x)


def loops():
    x, h = np.float32(3.0), np.zeros(512, "f4")
    a, b = (abs(floats(10_000, 512)) / 5 for _ in range(2))
    large = floats(10 * MILLION)
    yield row("while, 1M steps of a scalar", counted, x,
              numba=lambda: counted_by_hand(x))  # fmt: skip
    yield row("scan, 10,000 of f32[512]", recurrence, h, a, b, nbytes=3 * a.nbytes,
              numba=lambda: recurrence_by_hand(h, a, b))  # fmt: skip
    # A carry larger than the caches; memory allows to read and write it once.
    yield row("fori, 100 steps of f32[10M]", settle, large, nbytes=2 * large.nbytes,
              numba=lambda: settle_by_hand(large))  # fmt: skip
    # Without jit, of a body that is made anew at each call.
    x, peers = np.linspace(0.1, 0.9, 8, dtype="f4"), {}
    for system, lib in systems().items():
        loop = partial(lib.lax.fori_loop, 0, 3000), lib.numpy.asarray(x)
        peers[system] = lambda loop=loop: np.asarray(
            loop[0](lambda i, c: c * 0.99 + i * 1e-6, loop[1])
        )
    yield Row("fori, 3,000 steps of f32[8], no jit", peers)


if __name__ == "__main__":
    groups = {"transposes": transposes, "loops": loops}
    for name in sys.argv[1:] or groups:
        with config.override("cpu_threads", THREADS):
            show(groups[name]())
