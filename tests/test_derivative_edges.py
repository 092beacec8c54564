"""Derivatives at kinks, ties, poles and repeated indices: whatever jax says of them."""

import re
from functools import cache, partial

import numpy as np
import pytest
from derivative_cases import ours
from harness import alike
from referee import together

import minijit
import minijit.numpy
from minijit.test_util import random_like

pytestmark = [pytest.mark.chapter(10), pytest.mark.oracle]

jax = pytest.importorskip("jax")

rows = np.array([0, 2, 2, 1, 2])
three = np.array([1.0, 1.0, 0.5], np.float32)
zeros = np.zeros(3, np.float32)
steps, ones = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
four, tied = steps + 1, np.float32([4, 4, 1, 3, 4])
apart = np.array([3, 0, 1])


def weights(x):
    """Different weights for the elements, so that no two cotangents are equal."""
    return np.arange(1, 1 + np.size(x), dtype=np.float32).reshape(np.shape(x))


def put(kind, y, **options):
    """An update of an array, with weights on the result."""
    z = kind(y, **options)
    return (z * weights(z) ** 2).sum()


def pooled(lax, x):
    return lax.reduce_window(x, -np.inf, lax.max, (3,), (1,), "SAME")


# A line: an expression, where it is asked; its arguments are those of x, y, a, b that
# stand in it, in turn.  Places are divided by `|`.
A, R = lambda *xs: np.float32(xs), np.repeat
edges = """
jnp.where(x > 0, jnp.log(x), 0.0); 0.0 | 2.0
jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0); 0.0 | -1.0 | 2.0
jnp.where(x > 0, jnp.sqrt(x), 0.0); 0.0 | 1.0
jnp.sqrt(x * x); 0.0 | -2.0
jnp.sqrt(jnp.sum(x * x)); zeros | three
x**0; 0.0 | 2.0
x**1; 0.0
x**-1; 0.0 | 2.0
x**0.0; 0.0 | 2.0
x**0.5; 0.0 | 4.0
x**y; 0.0, 0.0 | 0.0, 2.0 | 2.0, 0.0 | 1.0, 1.0 | 0.0, 1.0 | -1.0, 2.0
0.0**y; 0.0 | 1.0 | 2.0
jnp.sum(jnp.power(x, np.array([0, 1, 2]))); zeros | three
jnp.abs(x); 0.0 | -0.0 | -1.0 | np.nan
jnp.maximum(x, 0); 0.0 | -1.0 | 1.0
jnp.maximum(x, y); 1.0, 1.0 | 1.0, np.nan
jnp.minimum(x, y); 1.0, 1.0 | 0.0, -0.0
jnp.max(x); three | zeros
jnp.min(x); three | zeros
jnp.sum(jnp.max(x, 0) * steps); A([1, 2, 2, 0], [1, 2, 1, 0], [0, 2, 2, 0])
jnp.clip(x, 0.0, 1.0); 0.0 | 1.0 | 0.5 | 2.0
jnp.clip(x, a, b); 1.0, 1.0, 1.0 | 1.0, 2.0, 0.0 | 3.0, 1.0, 2.0 | 1.0, 1.0, 2.0
x / y; 0.0, 0.0 | 1.0, 0.0 | np.inf, 2.0
jnp.remainder(x, y); 5.0, 3.0 | -5.0, 3.0 | 6.0, 3.0
jnp.sign(x) + jnp.floor(x) + x; 0.0 | 1.0
jnp.arctan2(x, y); 0.0, 0.0 | 0.0, -1.0
jnp.hypot(x, y); 0.0, 0.0 | 3.0, 4.0
jnp.log1p(x); -1.0 | 1e-8
jnp.log(x.astype("float16")).astype("float32") * x; 4e-6 | 2.0
jnp.arcsin(x); 1.0 | -1.0 | 0.5
jnp.cbrt(x); 0.0 | -8.0
jnp.sinc(x); 0.0 | 0.5
jnp.tanh(x); 50.0 | -50.0 | 9.0
jnp.logaddexp(x, y); 0.0, 0.0 | -np.inf, 0.0 | 100.0, -100.0
jnp.prod(x); A(2, 0, 3) | A(0, 0, 3) | three
jnp.var(x); three | zeros
jnp.std(x); three | zeros
jnp.sum(jnp.sort(x) * steps); A(2, 1, 2, 0) | ones
jnp.sum(jnp.cumsum(x) * steps); steps
jnp.sum(jnp.cumprod(x) * weights(x)); steps | A(2, 0, 3, 0) | A(2, 3, 0, 5)
jnp.sum(lax.cummax(x) * weights(x) ** 2); ones | A(1, 2, 2, 1) | steps
jnp.sum(lax.cumlogsumexp(x) * weights(x)); steps | A(100, -100, 0, 100)
jnp.sum(lax.top_k(x, 2)[0] * weights(x)[:2]); ones | steps
jnp.sum(x[rows] * weights(rows)); A(3, 4, 5)
jnp.sum(x[np.array([0, 7, -1])] * weights(three)); three
jnp.nansum(x.at[np.array([0, 7])].get(mode="fill")); three
put(x.at[rows].set, y); four, A(5, 6, 7, 8, 9)
put(x.at[rows].add, y); four, A(5, 6, 7, 8, 9)
put(x.at[rows].subtract, y); four, A(5, 6, 7, 8, 9)
put(x.at[rows].max, y); four, A(5, 6, 1, 2, 3) | 3 * ones, R(3, 5) | 3 * ones, tied
put(x.at[rows].min, y); four, A(5, 6, 1, 2, 3) | 3 * ones, R(3, 5) | 3 * ones, tied
put(x.at[apart].set, y, unique_indices=True); four, A(5, 6, 0)
put(x.at[apart].add, y, unique_indices=True); four, A(5, 6, 0)
put(x.at[apart].multiply, y, unique_indices=True); four, A(5, 6, 0)
put(x.at[apart].max, y, unique_indices=True); four, A(5, 6, 0)
put(x.at[apart].min, y, unique_indices=True); four, A(5, 6, 0)
jnp.sum(pooled(lax, x) * weights(x)); A(1, 1, 1, 1, 0, 0, 0) | A(3, 1, 2, 2, 0, 5, 5)
jnp.abs(lax.complex(x, y)); 0.0, 0.0 | 3.0, 4.0
jnp.real(jnp.exp(lax.complex(x, y)) ** 2); 0.5, 1.5
lax.erf_inv(x); 1.0 | 0.0
lax.lgamma(x); 1.0 | 0.5 | -0.5
lax.bessel_i1e(x); 0.0 | 1.0 | -1.0
jnp.sum((x > 1).astype("float32") * x + x.astype("int32") * x); A(0.5, 1.0, 2.5)
""".strip().splitlines()


def of_text(jnp, text, *args):
    """The expression's value, by one of the two libraries."""
    lax = jax.lax if jnp is jax.numpy else ours
    used = [name for name in "xyab" if re.search(rf"(?<![\w.]){name}\b", text)]
    given = dict(zip(used, args, strict=True))
    return eval(text, globals() | given | {"jnp": jnp, "lax": lax})


def derivatives(jnp, library, f, args, tangents):
    """(value, gradient) and (value, tangent) by one of the two libraries."""
    of_arrays = partial(of_text, jnp, f)
    gradient = library.value_and_grad(of_arrays, tuple(range(len(args))))
    return gradient(*args), library.jvp(of_arrays, args, tangents)


def places(edge):
    """(the arguments, tangents of them) at each place of an edge."""
    for at in edge.split("; ")[1].split(" | "):
        args = eval(f"[{at}]", globals())
        args = tuple(minijit.numpy.asarray(x, "float32") for x in args)
        yield args, tuple(random_like(np.random.default_rng(0), args))


@cache
def asked():
    """{edge: what jax says at each of its places}: in one compiled program."""
    by_jax = partial(partial, derivatives, jax.numpy, jax)
    programs = {
        (edge, k): (by_jax(edge.split("; ")[0]), *jax.tree.map(np.asarray, place))
        for edge in edges
        for k, place in enumerate(places(edge))
    }
    return together(programs)


@pytest.mark.parametrize("edge", edges)
def test_edges(edge):
    by_us = partial(derivatives, minijit.numpy, minijit, edge.split("; ")[0])
    for k, place in enumerate(places(edge)):
        wanted = jax.tree.leaves(asked()[edge, k])
        alike(by_us(*place), wanted, rtol=4e-6, atol=4e-6)
