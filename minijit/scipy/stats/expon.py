"""Waiting times, x >= loc, of the mean `scale`."""

from ... import numpy as jnp
from .common import choose, exp_of, explain, invalid, outside, promoted, standard


def logpdf(x, loc=0, scale=1):
    """-z - log(scale), with z = (x - loc) / scale."""
    z, scale = standard("expon.logpdf", x, loc, scale)
    return outside(z < 0, -(z + jnp.log(scale)))


def cdf(x, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _ = standard("expon.cdf", x, loc, scale)
    return choose(z < 0, 0, -jnp.expm1(-z))


def logsf(x, loc=0, scale=1):
    """The logarithm of `sf`."""
    z, _ = standard("expon.logsf", x, loc, scale)
    return choose(z < 0, 0, -z)


def logcdf(x, loc=0, scale=1):
    """The logarithm of `cdf`."""
    return jnp.log1p(-sf(x, loc, scale))


def ppf(q, loc=0, scale=1):
    """The value below which a share q lies."""
    q, loc, scale = promoted("expon.ppf", q, loc, scale)
    return invalid(jnp.isnan(q) | (q < 0) | (q > 1), loc - scale * jnp.log1p(-q))


pdf, sf = exp_of(logpdf, "pdf"), exp_of(logsf, "sf")
explain(globals())
