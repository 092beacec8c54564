"""Arrays transposed, against a copy of the same bytes and jax: see `harness`.

    python -m tests.bench.bench_transposes [threads]

The copies have as many bytes (an array is read, one is written) and as many threads,
two if no number is given: `copy` is ours, `numpy` is one call of `np.copyto` a thread,
into memory that is in use.  What it should be: at most 1.6 copies, 2 where one result
is not transposed, and at most 0.2 of jax's time, which has as many threads as cores.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import minijit.numpy as jnp
from minijit import config, jit

from .harness import Row, show

rng = np.random.default_rng(0)
threads = int(sys.argv[1]) if sys.argv[1:] else 2


def copy_of(nbytes):
    """A copy that reads and writes so many bytes, in all."""
    x, f = jnp.zeros(nbytes // 8, "float32"), jit(lambda x: x * 1.5)
    return lambda: f(x)


def numpy_copy_of(nbytes):
    """The same by NumPy: each thread copies a part of the array."""
    source, target = (np.ones(nbytes // 8, "f4") for _ in range(2))
    pool = ThreadPoolExecutor(threads)
    parts = [np.array_split(x, threads) for x in (target, source)]
    return lambda: list(pool.map(np.copyto, *parts))


def row(name, function, *shapes):
    """A function of arrays, and of the module of NumPy's functions."""
    xs = [rng.normal(size=shape).astype("f4") for shape in shapes]
    arrays, f = list(map(jnp.asarray, xs)), jit(lambda *xs: function(jnp, *xs))
    results = f(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    nbytes = sum(x.nbytes for x in xs) + sum(y.nbytes for y in results)
    del results
    copies = {"copy": copy_of(nbytes), "numpy": numpy_copy_of(nbytes)}
    peers = {"minijit": lambda: f(*arrays), **copies}
    try:
        import jax
    except ImportError:
        return Row(name, peers, nbytes)
    compiled = jax.jit(lambda *xs: function(jax.numpy, *xs))
    theirs = list(map(jax.numpy.asarray, xs))
    peers["jax"] = lambda: jax.block_until_ready(compiled(*theirs))
    return Row(name, peers, nbytes)


def s4(straight):
    """The author's program: one array used three times, transposed or straight."""

    def f(np, x):
        uses = x * (1 / (1 + np.exp(-x))), x * 2, x + 1
        pairs = [(y, np.swapaxes(y, 1, 2)) for y in uses]
        return tuple(pair[k not in straight] for k, pair in enumerate(pairs))

    return f


def rows():
    yield row("three of three transposed", s4(()), (64, 1024, 512))
    yield row("two of three transposed", s4((2,)), (64, 1024, 512))
    yield row("x.T * 2, 4096 x 4096", lambda np, x: x.T * 2, (4096, 4096))
    yield row("x.T * 2, 4001 x 4003", lambda np, x: x.T * 2, (4001, 4003))
    yield row("x.T + y", lambda np, x, y: x.T + y, (4096, 2048), (2048, 4096))
    turned = lambda np, x: np.transpose(x, (2, 0, 1)) * 2
    yield row("last axis first", turned, (256, 256, 256))
    first = lambda np, x: np.moveaxis(x, 3, 1) * 2
    yield row("channels first", first, (64, 56, 56, 64))


if __name__ == "__main__":
    with config.override("cpu_threads", threads):
        show(rows())
