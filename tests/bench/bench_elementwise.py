"""Kernels against NumPy, hand-written numba and jax: see `harness`."""

import numba
import numpy as np

import minijit.numpy as jnp
from minijit import jit

from .harness import Row, show, with_jax

rng = np.random.default_rng(0)


def arithmetic(x, y):
    return x * y + x - y * 2


@numba.njit
def arithmetic_by_hand(x, y):
    out = np.empty_like(x)
    two = np.float32(2)
    for i in range(x.size):
        out[i] = x[i] * y[i] + x[i] - y[i] * two
    return out


def elementwise_row(n):
    x, y = rng.normal(size=(2, n)).astype("f4")
    f, a, b = jit(arithmetic), jnp.asarray(x), jnp.asarray(y)
    peers = {
        "minijit": lambda: f(a, b),
        "NumPy": lambda: arithmetic(x, y),
        "numba": lambda: arithmetic_by_hand(x, y),
    }
    peers = with_jax(peers, arithmetic, x, y)
    return Row(f"x*y + x - y*2, {n} float32", peers, 3 * x.nbytes)


def softmax(np):
    """Softmax over rows, in the words of the module `np`."""

    def f(x):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

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


def softmax_row(n):
    x = rng.normal(size=(n, n)).astype("f4")
    f, a = jit(softmax(jnp)), jnp.asarray(x)
    peers = {
        "minijit": lambda: f(a),
        "NumPy": lambda: softmax(np)(x),
        "numba": lambda: softmax_by_hand(x),
    }
    try:
        import jax.numpy
    except ImportError:
        return Row(f"softmax, {n} x {n}", peers, 2 * x.nbytes)
    peers = with_jax(peers, softmax(jax.numpy), x)
    return Row(f"softmax, {n} x {n}", peers, 2 * x.nbytes)


@numba.njit
def sum_by_hand(x):
    total = np.float32(0)
    for v in x:
        total += v
    return total


def sum_row(n):
    x = rng.normal(size=n).astype("f4")
    f, a = jit(lambda x: x.sum()), jnp.asarray(x)
    peers = {
        "minijit": lambda: f(a),
        "NumPy": lambda: x.sum(),
        "numba": lambda: sum_by_hand(x),
    }
    return Row(f"sum of {n}", with_jax(peers, lambda x: x.sum(), x), x.nbytes)


def layer_row(n):
    x, w = rng.normal(size=(2, n, n)).astype("f4")
    f, a, b = jit(lambda x, w: jnp.maximum(x @ w, 0) * 2), *map(jnp.asarray, (x, w))
    peers = {
        "minijit": lambda: f(a, b),
        "NumPy": lambda: np.maximum(x @ w, 0) * 2,
    }
    jax_layer = lambda x, w: (x @ w).clip(0) * 2
    return Row(f"relu(x @ w) * 2, {n} x {n}", with_jax(peers, jax_layer, x, w))


def gelu(np):
    return lambda x: 0.5 * x * (1 + np.tanh(0.797885 * (x + 0.044715 * x * x * x)))


def function_row(name, n, make=None):
    """A function of `n` float32, by name, or `make(numpy module)`."""
    make = make or (lambda np: getattr(np, name))
    return array_row(f"{name}, {n} float32", make, rng.normal(size=n).astype("f4"))


def array_row(name, make, x):
    """`make(numpy module)` of an array."""
    a, f, by_numba = jnp.asarray(x), jit(make(jnp)), jit(make(jnp), backend="python")
    peers = {
        "minijit": lambda: f(a),
        "NumPy": lambda: make(np)(x),
        "by numba": lambda: by_numba(a),
    }
    try:
        import jax.numpy
    except ImportError:
        return Row(name, peers, 2 * x.nbytes)
    return Row(name, with_jax(peers, make(jax.numpy), x), 2 * x.nbytes)


def layer_norm(np):
    def f(x):
        x = x - x.mean(1, keepdims=True)
        return x / np.sqrt(x.var(1, keepdims=True) + 1e-5)

    return f


def logsumexp_of_columns(np):
    def f(x):
        top = x.max(0)
        return np.log(np.exp(x - top).sum(0)) + top

    return f


def matrix_row(name, make, n=2000):
    return array_row(f"{name}, {n} x {n}", make, rng.normal(size=(n, n)).astype("f4"))


if __name__ == "__main__":
    show(
        [
            *(function_row(name, 1_000_000) for name in ("exp", "tanh", "log", "sin")),
            function_row("gelu", 1_000_000, gelu),
            elementwise_row(10),
            elementwise_row(100_000),
            elementwise_row(10_000_000),
            sum_row(10_000_000),
            softmax_row(1000),
            layer_row(512),
            matrix_row("sums of columns", lambda np: lambda x: x.sum(0)),
            matrix_row("logsumexp of columns", logsumexp_of_columns),
            matrix_row("layer norm", layer_norm),
            matrix_row("sum of squares", lambda np: lambda x: (x * x).sum()),
            array_row(
                "product of integer matrices, 256 x 256",
                lambda np: lambda x: x @ x,
                rng.integers(0, 9, (256, 256)).astype("i4"),
            ),
        ]
    )
