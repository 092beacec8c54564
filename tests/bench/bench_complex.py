"""Complex numbers against NumPy and jax: see `harness`."""

import numpy as np

import minijit.numpy as jnp
from minijit import grad, jit, lax

from .harness import Row, show, with_jax

rng = np.random.default_rng(0)


def numbers(*shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype("complex64")


def fractal(np, lax):
    def f(c):
        def step(i, state):
            z, n = state
            inside = abs(z) < 2
            return np.where(inside, z * z + c, z), n + inside

        return lax.fori_loop(0, 50, step, (0 * c, np.zeros(c.shape, "int32")))[1]

    return f


def newton(np, lax):
    def f(z):
        def step(i, z):
            return z - (z * z * z - 1) / (3 * z * z)

        return lax.fori_loop(0, 20, step, z)

    return f


def low_pass(np, lax):
    def f(x, keep):
        return np.real(np.fft.ifft(np.fft.fft(x) * np.exp(1j * keep) * abs(keep)))

    return f


def powers(np, lax):
    def f(a):
        def step(b, _):
            c = a @ b
            return c / np.sqrt((abs(c) ** 2).sum()), abs(c[0, 0])

        return lax.scan(step, a, None, length=20)[1]

    return f


def phases(np, grad):
    """The gradient of a real loss, through complex numbers."""
    return grad(lambda w, x: (abs(np.exp(1j * w) * x + x * x) ** 2).sum())


def row(name, make, *args, extra=None):
    """A row: `make` of the module `np`, and of `lax` or what stands for it."""
    f = jit(make(jnp, extra[0] if extra else lax))
    given = [jnp.asarray(a) for a in args]
    peers = {"minijit": lambda: f(*given)}
    try:
        import jax
    except ImportError:
        return Row(name, peers)
    other = make(jax.numpy, getattr(jax, extra[1]) if extra else jax.lax)
    return Row(name, with_jax(peers, other, *args))


x, y, t = numbers(10**6), numbers(10**6), rng.normal(size=10**6).astype("f4")
elementwise = {
    "x*y + x": (lambda np, lax: lambda x, y: x * y + x, x, y),
    "x / y": (lambda np, lax: lambda x, y: x / y, x, y),
    "sum |x|^2": (lambda np, lax: lambda x: (abs(x) ** 2).sum(), x),
    "exp(1j*t) * 2": (lambda np, lax: lambda t: np.exp(1j * t) * 2, t),
    "log(x) * sqrt(y)": (lambda np, lax: lambda x, y: np.log(x) * np.sqrt(y), x, y),
}


def rows():
    for name, (make, *args) in elementwise.items():
        yield row(f"{name}, 1e6 complex64", make, *args)
    yield row("Mandelbrot, 50 steps of 512 x 512", fractal, 2 * numbers(512, 512))
    yield row("Newton, 20 steps of 1e5", newton, numbers(10**5))
    yield row("filter by FFT, 2^18", low_pass, x[: 1 << 18], t[: 1 << 18])
    yield row("scan of 20 products, 6 x 6", powers, numbers(6, 6))
    yield row("scan of 20 products, 200 x 200", powers, numbers(200, 200))
    yield row("gradient through phases, 1e5", phases, t[: 10**5], x[: 10**5],
              extra=(grad, "grad"))


if __name__ == "__main__":
    show(rows())
