"""One throw of a coin: k = 1 with the probability p.  JAX: `...stats.bernoulli`."""

from ... import numpy as jnp
from ..special import xlog1py, xlogy
from .common import choose, exp_of, explain, invalid, outside, promoted


def logpmf(k, p, loc=0):
    """k log(p) + (1 - k) log(1 - p), of k - loc."""
    k, p, loc = promoted("bernoulli.logpmf", k, p, loc)
    x = k - loc
    return outside((x < 0) | (x > 1), xlogy(x, p) + xlog1py(1 - x, -p))


def cdf(k, p):
    """The probability of a value up to k."""
    k, p = promoted("bernoulli.cdf", k, p)
    below = choose(k < 0, 0, choose(k < 1, 1 - p, jnp.ones_like(p)))
    return invalid(jnp.isnan(k) | jnp.isnan(p) | (p < 0) | (p > 1), below)


def ppf(q, p):
    """0 up to the share 1 - p, then 1; NaN where q or p is no probability."""
    q, p = promoted("bernoulli.ppf", q, p)
    wrong = jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1)
    return invalid(wrong, choose(q <= 1 - p, 0, jnp.ones_like(q)))


pmf = exp_of(logpmf, "pmf")
explain(globals())
