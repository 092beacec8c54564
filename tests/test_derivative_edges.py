"""Derivatives at kinks, ties, poles and repeated indices: whatever jax says of them."""

from functools import partial

import numpy as np
import pytest
from derivative_cases import ours
from harness import alike

import minijit
import minijit.numpy
from minijit.test_util import random_like

pytestmark = [pytest.mark.chapter(10), pytest.mark.oracle]

jax = pytest.importorskip("jax")

rows = np.array([0, 2, 2, 1, 2])
three = np.array([1.0, 1.0, 0.5], np.float32)
zeros = np.zeros(3, np.float32)
steps = np.arange(4, dtype=np.float32)


def weights(x):
    """Different weights for the elements, so that no two cotangents are equal."""
    return np.arange(1, 1 + np.size(x), dtype=np.float32).reshape(np.shape(x))


def scattered(kind, unique=False):
    """x.at[rows].kind(y) with weights on the result."""
    def f(jnp, x, y):
        index = np.array([3, 0, 1]) if unique else rows
        z = getattr(x.at[index], kind)(y, unique_indices=unique)
        return jnp.sum(z * weights(z) ** 2)
    return f


# name: (function of a module like jax.numpy and arrays, lists of arguments)
edges = {
    "guarded log": (lambda jnp, x: jnp.where(x > 0, jnp.log(x), 0.0), [[0.0], [2.0]]),
    "guarded twice": (
        lambda jnp, x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0),
        [[0.0], [-1.0], [2.0]],
    ),
    "guarded sqrt": (lambda jnp, x: jnp.where(x > 0, jnp.sqrt(x), 0.0), [[0.0], [1.0]]),
    "sqrt of a square": (lambda jnp, x: jnp.sqrt(x * x), [[0.0], [-2.0]]),
    "norm": (lambda jnp, x: jnp.sqrt(jnp.sum(x * x)), [[zeros], [three]]),
    "x ** 0": (lambda jnp, x: x**0, [[0.0], [2.0]]),
    "x ** 1": (lambda jnp, x: x**1, [[0.0]]),
    "x ** -1": (lambda jnp, x: x**-1, [[0.0], [2.0]]),
    "x ** 0.0": (lambda jnp, x: x**0.0, [[0.0], [2.0]]),
    "x ** 0.5": (lambda jnp, x: x**0.5, [[0.0], [4.0]]),
    "x ** y": (
        lambda jnp, x, y: x**y,
        [[0.0, 0.0], [0.0, 2.0], [2.0, 0.0], [1.0, 1.0], [0.0, 1.0], [-1.0, 2.0]],
    ),
    "0 ** y": (lambda jnp, y: 0.0**y, [[0.0], [1.0], [2.0]]),
    "integer exponents": (
        lambda jnp, x: jnp.sum(jnp.power(x, np.array([0, 1, 2]))), [[zeros], [three]]
    ),
    "abs": (lambda jnp, x: jnp.abs(x), [[0.0], [-0.0], [-1.0], [np.nan]]),
    "relu": (lambda jnp, x: jnp.maximum(x, 0), [[0.0], [-1.0], [1.0]]),
    "max of two": (lambda jnp, x, y: jnp.maximum(x, y), [[1.0, 1.0], [1.0, np.nan]]),
    "min of two": (lambda jnp, x, y: jnp.minimum(x, y), [[1.0, 1.0], [0.0, -0.0]]),
    "max": (lambda jnp, x: jnp.max(x), [[three], [zeros]]),
    "min": (lambda jnp, x: jnp.min(x), [[three], [zeros]]),
    "max over an axis": (lambda jnp, x: jnp.sum(jnp.max(x, 0) * steps),
                         [[np.float32([[1, 2, 2, 0], [1, 2, 1, 0], [0, 2, 2, 0]])]]),
    "clip": (lambda jnp, x: jnp.clip(x, 0.0, 1.0), [[0.0], [1.0], [0.5], [2.0]]),
    "clip by bounds": (
        lambda jnp, x, a, b: jnp.clip(x, a, b),
        [[1.0, 1.0, 1.0], [1.0, 2.0, 0.0], [3.0, 1.0, 2.0], [1.0, 1.0, 2.0]],
    ),
    "division": (lambda jnp, x, y: x / y, [[0.0, 0.0], [1.0, 0.0], [np.inf, 2.0]]),
    "remainder": (
        lambda jnp, x, y: jnp.remainder(x, y), [[5.0, 3.0], [-5.0, 3.0], [6.0, 3.0]]
    ),
    "sign, floor": (lambda jnp, x: jnp.sign(x) + jnp.floor(x) + x, [[0.0], [1.0]]),
    "atan2": (lambda jnp, x, y: jnp.arctan2(x, y), [[0.0, 0.0], [0.0, -1.0]]),
    "hypot": (lambda jnp, x, y: jnp.hypot(x, y), [[0.0, 0.0], [3.0, 4.0]]),
    "log1p": (lambda jnp, x: jnp.log1p(x), [[-1.0], [1e-8]]),
    "arcsin": (lambda jnp, x: jnp.arcsin(x), [[1.0], [-1.0], [0.5]]),
    "cbrt": (lambda jnp, x: jnp.cbrt(x), [[0.0], [-8.0]]),
    "sinc": (lambda jnp, x: jnp.sinc(x), [[0.0], [0.5]]),
    "tanh far out": (lambda jnp, x: jnp.tanh(x), [[50.0], [-50.0], [9.0]]),
    "logaddexp": (lambda jnp, x, y: jnp.logaddexp(x, y),
                  [[0.0, 0.0], [-np.inf, 0.0], [100.0, -100.0]]),
    "prod": (lambda jnp, x: jnp.prod(x),
             [[np.float32([2, 0, 3])], [np.float32([0, 0, 3])], [three]]),
    "var": (lambda jnp, x: jnp.var(x), [[three], [zeros]]),
    "std": (lambda jnp, x: jnp.std(x), [[three], [zeros]]),
    "sort": (lambda jnp, x: jnp.sum(jnp.sort(x) * steps),
             [[np.float32([2, 1, 2, 0])], [np.float32([1, 1, 1, 1])]]),
    "cumsum": (lambda jnp, x: jnp.sum(jnp.cumsum(x) * steps), [[steps]]),
    "cumprod": (lambda jnp, x: jnp.sum(jnp.cumprod(x) * weights(x)),
                [[steps], [np.float32([2, 0, 3, 0])], [np.float32([2, 3, 0, 5])]]),
    "cummax": (lambda jnp, x: jnp.sum(jax_lax(jnp).cummax(x) * weights(x) ** 2),
               [[np.float32([1, 1, 1, 1])], [np.float32([1, 2, 2, 1])], [steps]]),
    "cumlogsumexp": (lambda jnp, x: jnp.sum(jax_lax(jnp).cumlogsumexp(x) * weights(x)),
                     [[steps], [np.float32([100, -100, 0, 100])]]),
    "top_k": (lambda jnp, x: jnp.sum(jax_lax(jnp).top_k(x, 2)[0] * weights(x)[:2]),
              [[np.float32([1, 1, 1, 1])], [steps]]),
    "repeated indices": (
        lambda jnp, x: jnp.sum(x[rows] * weights(rows)), [[np.float32([3, 4, 5])]]
    ),
    "an index out of bounds": (
        lambda jnp, x: jnp.sum(x[np.array([0, 7, -1])] * weights(three)), [[three]]
    ),
    "taken with fill": (
        lambda jnp, x: jnp.nansum(x.at[np.array([0, 7])].get(mode="fill")), [[three]]
    ),
    **{
        f"scatter {kind}": (
            scattered(kind), [[np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8, 9])]]
        )
        for kind in ("set", "add", "subtract")
    },
    **{
        f"scatter {kind}": (
            scattered(kind),
            [[np.float32([1, 2, 3, 4]), np.float32([5, 6, 1, 2, 3])],
             [np.float32([3, 3, 3, 3]), np.float32([3, 3, 3, 3, 3])],
             [np.float32([3, 3, 3, 3]), np.float32([4, 4, 1, 3, 4])]],
        )
        for kind in ("max", "min")
    },
    **{
        f"scatter {kind} unique": (scattered(kind, unique=True),
                                   [[np.float32([1, 2, 3, 4]), np.float32([5, 6, 0])]])
        for kind in ("set", "add", "multiply", "max", "min")
    },
    "pooling ties": (
        lambda jnp, x: jnp.sum(
            jax_lax(jnp).reduce_window(
                x, -np.inf, jax_lax(jnp).max, (3,), (1,), "SAME"
            ) * weights(x)
        ),
        [[np.float32([1, 1, 1, 1, 0, 0, 0])], [np.float32([3, 1, 2, 2, 0, 5, 5])]],
    ),
    "complex abs": (
        lambda jnp, x, y: jnp.abs(jax_lax(jnp).complex(x, y)), [[0.0, 0.0], [3.0, 4.0]]
    ),
    "complex parts": (
        lambda jnp, x, y: jnp.real(jnp.exp(jax_lax(jnp).complex(x, y)) ** 2),
        [[0.5, 1.5]],
    ),
    "erf_inv": (lambda jnp, x: jax_lax(jnp).erf_inv(x), [[1.0], [0.0]]),
    "lgamma": (lambda jnp, x: jax_lax(jnp).lgamma(x), [[1.0], [0.5], [-0.5]]),
    "i1e": (lambda jnp, x: jax_lax(jnp).bessel_i1e(x), [[0.0], [1.0], [-1.0]]),
    "convert": (
        lambda jnp, x: jnp.sum((x > 1).astype("float32") * x + x.astype("int32") * x),
        [[np.float32([0.5, 1.0, 2.5])]],
    ),
}


def jax_lax(jnp):
    return jax.lax if jnp is jax.numpy else ours


def derivatives(jnp, library, f, args, tangents):
    """(value, gradient) and (value, tangent) by one of the two libraries."""
    of_arrays = partial(f, jnp)
    gradient = library.value_and_grad(of_arrays, tuple(range(len(args))))
    return gradient(*args), library.jvp(of_arrays, args, tangents)


@pytest.mark.parametrize("name", edges)
def test_edges(name):
    f, lists = edges[name]
    by_jax = jax.jit(partial(derivatives, jax.numpy, jax), static_argnums=0)
    by_us = partial(derivatives, minijit.numpy, minijit)
    for args in lists:
        args = tuple(minijit.numpy.asarray(x, "float32") for x in args)
        tangents = tuple(random_like(np.random.default_rng(0), args))
        wanted = by_jax(f, tuple(map(np.asarray, args)), tangents)
        found = by_us(f, args, tangents)
        alike(found, jax.tree.leaves(wanted), rtol=4e-6, atol=4e-6)
