"""The hypergeometric functions 1F1 and 2F1, by series.

    hyp1f1(a, b, x)         # 1 + a/b x + a(a+1)/b(b+1) x^2/2! + ...
    hyp2f1(a, b, c, x)      # 1 + ab/c x + a(a+1)b(b+1)/c(c+1) x^2/2! + ...

The methods are those of Pearson, Olver and Porter, 2014, which JAX takes, too.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from .. import lax, numpy as jnp
from ..numpy import core
from ..trace import dtypes
from ..trace.jit.jit import jit
from ..trace.types import Array, ArrayLike
from ..transform.custom.custom_derivatives import custom_jvp
from ..transform.custom.rule_checks import SymbolicZero
from .gammas import gamma, gammasgn, promoted

# So many terms at most.
TERMS = 250


def series(first, second, ratio, weight=None):
    """first + second + second ratio(1) + second ratio(1) ratio(2) + ...

    Args:
      ratio: from the number of a term to its quotient with the one before.
      weight: function of a term's number by which it is multiplied.
    """
    eps = dtypes.finfo(second.dtype).eps
    weight = weight or (lambda k: 1)

    def more(state):
        total, k, term = state
        return (k < TERMS) & (jnp.abs(term) > eps * jnp.abs(total))

    def step(state):
        total, k, term = state
        return total + term * weight(k), k + 1, term * ratio(k)

    start = jnp.full_like(second, first), jnp.ones_like(second), second
    return lax.while_loop(more, step, start)[0]


def quotient(top, bottom, x):
    """The ratio of the terms of a hypergeometric series."""

    def ratio(k):
        result = x / (k + 1)
        for p in top:
            result = result * (p + k)
        for q in bottom:
            result = result / (q + k)
        return result

    return ratio


def slope(which, top, bottom, x):
    """The derivative of a hypergeometric series by its parameter `which`."""
    p, is_top = ((*top, *bottom)[which], which < len(top))
    second = x
    for y in top:
        second = second * y
    for y in bottom:
        second = second / y
    grown = lambda k: lax.digamma(p + k) - lax.digamma(p)
    weight = grown if is_top else lambda k: -grown(k)
    return series(0, second, quotient(top, bottom, x), weight)


def vectorized(function):
    return jit(jnp.vectorize(function))


# ---- 1F1


@custom_jvp
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The confluent hypergeometric function 1F1 of real numbers; 1 for a = b = 0."""
    return hyp1f1_value(*promoted("hyp1f1", a, b, x))


@vectorized
def hyp1f1_value(a, b, x):
    by_series = lambda: series(1, a / b * x, quotient([a], [b], x))

    def far_out():
        ratio = lambda k: (b - a + k) * (1 - a + k) / (k + 1) / x
        total = series(1, (b - a) * (1 - a) / x, ratio)
        gammas = jnp.exp(lax.lgamma(b) - lax.lgamma(a)) * sign_of_gamma(a, b)
        return gammas * jnp.exp(x) * x ** (a - b) * total

    y = lax.cond(jnp.abs(x) < 100, by_series, far_out)
    y = jnp.where(b == 0, np.inf, jnp.where(a == b, jnp.exp(x), y))
    return jnp.where(a == 0, 1, y)


def sign_of_gamma(*args):
    result = 1
    for x in args:
        result = result * gammasgn(x)
    return result


def by_slopes(function, slopes):
    """Give a function its derivative by each argument that has a tangent.

    The others are not computed: they take long, and may be NaN.
    """

    def rule(primals, tangents):
        y = function(*primals)
        total = jnp.zeros_like(y)
        for slope, t in zip(slopes, tangents, strict=True):
            if not isinstance(t, SymbolicZero):
                total += slope(*primals) * t
        return y, total.astype(y.dtype)

    function.defjvp(rule, symbolic_zeros=True)


@partial(jit, static_argnums=(0, 1))
def slopes(which, count, *args):
    """The derivative by a parameter; the first `count` of them are of the top."""

    def one(*args):
        *parameters, x = args
        return slope(which, parameters[:count], parameters[count:], x)

    return jnp.vectorize(one)(*core.promote_args_inexact("slopes", *args))


by_slopes(hyp1f1, [
    *(partial(slopes, i, 1) for i in range(2)),
    lambda a, b, x: a / b * hyp1f1(a + 1, b + 1, x),
])  # fmt: skip


# ---- 2F1


@custom_jvp
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function 2F1 of real numbers; inf where it has a pole."""
    return hyp2f1_value(*promoted("hyp2f1", a, b, c, x))


@vectorized
def hyp2f1_value(a, b, c, x):
    d, rest = c - a - b, 1 - x
    near = 50 * dtypes.finfo(x.dtype).eps
    is_whole = jnp.abs(d - jnp.round(d)) < near
    pole = (c == 0) | ((c < 0) & (c % 1 == 0))
    cases = [
        ((x == 0) | (((a == 0) | (b == 0)) & (c != 0)), 1),
        (pole, np.inf),
        (
            (d <= -1) & ~(~is_whole & (rest < 0)),
            rest**d * polynomial_or_series(c - a, c - b, c, x),
        ),
        ((d <= 0) & (x == 1), np.inf),
        ((x < 1) & (b == c), rest**-a),
        ((x < 1) & (a == c), rest**-b),
        (x > 1, np.inf),
        (x == 1, gamma(c) * gamma(d) / (gamma(c - a) * gamma(c - b))),
    ]
    y = polynomial_or_series(a, b, c, x)
    for condition, value in reversed(cases):
        y = jnp.where(condition, value, y)
    return y


def polynomial_or_series(a, b, c, x):
    """By a sum that ends, by the series, or near 1 by one in powers of 1 - x."""
    near = 50 * dtypes.finfo(x.dtype).eps
    is_whole = lambda y: jnp.abs(y - jnp.round(y)) < near
    ends = ((a <= 0) & is_whole(a)) | ((b <= 0) & is_whole(b))
    first = lambda: a * b / c * x
    which = jnp.where(ends, 2, (x > 0.9) & is_whole(c - a - b))
    return lax.switch(which, [
        lambda: series(1, first(), quotient([a, b], [c], x)),
        lambda: near_one(a, b, c, x),
        lambda: polynomial(a, b, c, x),
    ])  # fmt: skip


def polynomial(a, b, c, x):
    """The series, where a or b is a whole number that is not positive."""
    near = 50 * dtypes.finfo(x.dtype).eps
    blocked = (c % 1 == 0) & (c <= 0) & (c > b)
    swap = (b < a) & (jnp.abs(b - jnp.round(b)) < near) & ~blocked
    a, b = jnp.where(swap, b, a), jnp.where(swap, a, b)

    def step(i, state):
        total, term = state
        term = term * (a + i - 1) / (c + i - 1) * (b + i - 1) / i * x
        return total + term, term

    ones = jnp.ones_like(x), jnp.ones_like(x)
    return lax.fori_loop(1, jnp.abs(a).astype(np.int32) + 1, step, ones)[0]


def near_one(a, b, c, x):
    """Where c - a - b is a whole number: Abramowitz and Stegun, 15.3.10 to 15.3.12."""
    d, rest = c - a - b, 1 - x
    whole = jnp.round(d)
    size, steps = jnp.abs(d), jnp.abs(whole).astype(np.int32)
    d1, d2 = jnp.where(whole >= 0, d, 0), jnp.where(whole >= 0, 0, d)

    def digammas(t):
        ends = lax.digamma(1 + t) + lax.digamma(1 + t + size)
        return ends - lax.digamma(a + t + d1) - lax.digamma(b + t + d1) - jnp.log(rest)

    def power(p, t):
        return p * rest * (a + t + d1) / (t + 1) * (b + t + d1) / (t + 1 + size)

    def more(state):
        t, p, term, total = state
        eps = dtypes.finfo(x.dtype).eps
        return (t < TERMS) & (jnp.abs(term) >= eps * jnp.abs(total))

    def step(state):
        t, p, _, total = state
        term = p * digammas(t)
        return t + 1, power(p, t), term, total + term

    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    first = digammas(zero) / gamma(size + 1)
    p = (a + d1) * (b + d1) * rest / gamma(size + 2)
    *_, y = lax.while_loop(more, step, (one, p, first, first))

    def finite_step(i, state):
        p, t, total = state
        p = p * rest * (a + t + d2) * (b + t + d2) / (1 - size + t) / (t + 1)
        return p, t + 1, total + p

    *_, finite = lax.fori_loop(1, steps, finite_step, (one, zero, one))
    finite = finite * gamma(size) * gamma(c) / (gamma(a + d1) * gamma(b + d1))
    tail = y * gamma(c) / (gamma(a + d2) * gamma(b + d2))
    tail = jnp.where(steps % 2 != 0, -tail, tail)
    scale = rest**whole
    both = jnp.where(whole > 0, tail * scale + finite, tail + finite * scale)
    return jnp.where(whole == 0, y * gamma(c) / (gamma(a) * gamma(b)), both)


by_slopes(hyp2f1, [
    *(partial(slopes, i, 2) for i in range(3)),
    lambda a, b, c, x: a * b / c * hyp2f1(a + 1, b + 1, c + 1, x),
])  # fmt: skip
