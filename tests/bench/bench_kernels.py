"""Kernels against NumPy, numba by hand and jax: see `harness`.

    python -m tests.bench.bench_kernels [elementwise] [transposes] [loops] [complex]

Beside a transposition stand copies of as many bytes: `copy` is ours, `numpy` a call of
`np.copyto` on each of two threads, into memory that is in use.  What it should be: at
most 1.6 copies, 2 where one result is not transposed, and at most 0.2 of jax's time.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numba
import numpy as np

import minijit as mj
from minijit import config

from .harness import Row, floats, rng, row, show, systems

MILLION = 1_000_000
THREADS = 2
numpy_alone = SimpleNamespace(numpy=np)


def kernel(name, make, *xs, by_hand=None, moved=2):
    """A row with NumPy beside it, and numba: by hand, or as the route of minijit.

    Args:
      moved: how often memory has to carry the first argument.
    """
    others = {"NumPy": lambda: make(numpy_alone)(*xs)}
    if by_hand:
        others["numba"] = lambda: by_hand(*xs)
    else:
        f, given = mj.jit(make(mj), backend="python"), list(map(mj.numpy.asarray, xs))
        others["by numba"] = lambda: f(*given)
    return row(name, make, *xs, nbytes=moved * xs[0].nbytes, **others)


# ---- elementwise, and totals


@numba.njit
def arithmetic_by_hand(x, y):
    out, two = np.empty_like(x), np.float32(2)
    for i in range(x.size):
        out[i] = x[i] * y[i] + x[i] - y[i] * two
    return out


def softmax(lib, c=1):
    def f(x):
        e = lib.numpy.exp(c * x - lib.numpy.max(c * x, axis=1, keepdims=True))
        return e / lib.numpy.sum(e, axis=1, keepdims=True)

    return f


@numba.njit
def softmax_by_hand(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            e = np.exp(x[i, j] - top)
            out[i, j] = e
            total += e
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


@numba.njit
def sum_by_hand(x):
    total = np.float32(0)
    for v in x:
        total += v
    return total


def layer_norm(lib):
    def f(x):
        x = x - x.mean(1, keepdims=True)
        return x / lib.numpy.sqrt(x.var(1, keepdims=True) + 1e-5)

    return f


def logsumexp_of_columns(lib):
    def f(x):
        top = x.max(0)
        return lib.numpy.log(lib.numpy.exp(x - top).sum(0)) + top

    return f


def gelu(lib):
    tanh = lib.numpy.tanh
    return lambda x: 0.5 * x * (1 + tanh(0.797885 * (x + 0.044715 * x * x * x)))


def elementwise():
    for name in ("exp", "tanh", "log", "sin"):
        make = lambda lib, name=name: getattr(lib.numpy, name)
        yield kernel(f"{name}, 1e6 float32", make, abs(floats(MILLION)))
    yield kernel("gelu, 1e6 float32", gelu, floats(MILLION))
    make = lambda lib: lambda x, y: x * y + x - y * 2
    for n in (10, MILLION // 10, 10 * MILLION):
        yield kernel(f"x*y + x - y*2, {n} float32", make, floats(n), floats(n),
                     by_hand=arithmetic_by_hand, moved=3)  # fmt: skip
    yield kernel("sum of 1e7", lambda lib: lambda x: x.sum(), 1 + floats(10 * MILLION),
                 by_hand=sum_by_hand, moved=1)  # fmt: skip
    yield kernel("softmax, 1000 x 1000", softmax, floats(1000, 1000),
                 by_hand=softmax_by_hand)  # fmt: skip
    layer = lambda lib: lambda x, w: (x @ w).clip(0) * 2
    yield kernel("relu(x @ w) * 2, 512", layer, floats(512, 512), floats(512, 512))
    for name, make in {
        "sums of columns": lambda lib: lambda x: x.sum(0),
        "logsumexp of columns": logsumexp_of_columns,
        "layer norm": layer_norm,
        "sum of squares": lambda lib: lambda x: (x * x).sum(),
    }.items():
        yield kernel(f"{name}, 2000 x 2000", make, floats(2000, 2000))
    integers = rng.integers(0, 9, (256, 256)).astype("i4")
    yield kernel("integer matrices, 256", lambda lib: lambda x: x @ x, integers)


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


# ---- complex numbers


def numbers(*shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype("complex64")


def fractal(lib):
    def f(c):
        def step(i, state):
            z, n = state
            inside = abs(z) < 2
            return lib.numpy.where(inside, z * z + c, z), n + inside

        start = 0 * c, lib.numpy.zeros(c.shape, "int32")
        return lib.lax.fori_loop(0, 50, step, start)[1]

    return f


def newton(lib):
    step = lambda i, z: z - (z * z * z - 1) / (3 * z * z)
    return lambda z: lib.lax.fori_loop(0, 20, step, z)


def low_pass(lib):
    np = lib.numpy
    return lambda x, keep: np.fft.ifft(np.fft.fft(x) * np.exp(1j * keep) * abs(keep))


def powers(lib):
    def f(a):
        def step(b, _):
            c = a @ b
            return c / lib.numpy.sqrt((abs(c) ** 2).sum()), abs(c[0, 0])

        return lib.lax.scan(step, a, None, length=20)[1]

    return f


def phases(lib):
    """The gradient of a real loss, through complex numbers."""
    loss = lambda w, x: (abs(lib.numpy.exp(1j * w) * x + x * x) ** 2).sum()
    return lib.grad(loss)


def complex_numbers():
    x, y, t = numbers(MILLION), numbers(MILLION), floats(MILLION)
    for name, (make, *args) in {
        "x*y + x": (lambda lib: lambda x, y: x * y + x, x, y),
        "x / y": (lambda lib: lambda x, y: x / y, x, y),
        "sum |x|^2": (lambda lib: lambda x: (abs(x) ** 2).sum(), x),
        "exp(1j*t) * 2": (lambda lib: lambda t: lib.numpy.exp(1j * t) * 2, t),
        "log(x) * sqrt(y)": (
            lambda lib: lambda x, y: lib.numpy.log(x) * lib.numpy.sqrt(y), x, y),
    }.items():
        yield row(f"{name}, 1e6 complex64", make, *args)
    yield row("Mandelbrot, 50 steps of 512 x 512", fractal, 2 * numbers(512, 512))
    yield row("Newton, 20 steps of 1e5", newton, numbers(10**5))
    yield row("filter by FFT, 2^18", low_pass, x[: 1 << 18], t[: 1 << 18])
    for n in (6, 200):
        yield row(f"scan of 20 products, {n} x {n}", powers, numbers(n, n))
    yield row("gradient through phases, 1e5", phases, t[: 10**5], x[: 10**5])


if __name__ == "__main__":
    groups = {"elementwise": elementwise, "transposes": transposes, "loops": loops,
              "complex": complex_numbers}  # fmt: skip
    for name in sys.argv[1:] or groups:
        with config.override("cpu_threads", THREADS):
            show(groups[name]())
