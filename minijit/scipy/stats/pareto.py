"""The distribution of Pareto, x >= loc + scale; b > 0."""

from ... import numpy as jnp
from .common import choose, exp_of, explain, invalid, outside, promoted, standard


def logpdf(x, b, loc=0, scale=1):
    """log(b / scale) - (b + 1) log(z), with z = (x - loc) / scale."""
    z, scale, b = standard("pareto.logpdf", x, b, loc, scale)
    return outside(z < 1, jnp.log(b / scale) - (b + 1) * jnp.log(z))


def cdf(x, b, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _, b = standard("pareto.cdf", x, b, loc, scale)
    return choose(z < 1, 0, 1 - z**-b)


def logcdf(x, b, loc=0, scale=1):
    """The logarithm of `cdf`."""
    z, _, b = standard("pareto.logcdf", x, b, loc, scale)
    return outside(z < 1, jnp.log1p(-(z**-b)))


def logsf(x, b, loc=0, scale=1):
    """The logarithm of `sf`."""
    z, _, b = standard("pareto.logsf", x, b, loc, scale)
    return choose(z < 1, 0, -b * jnp.log(z))


def ppf(q, b, loc=0, scale=1):
    """The value below which a share q lies."""
    q, b, loc, scale = promoted("pareto.ppf", q, b, loc, scale)
    return invalid(jnp.isnan(q) | (q < 0) | (q > 1), loc + scale * (1 - q) ** (-1 / b))


pdf, sf = exp_of(logpdf, "pdf"), exp_of(logsf, "sf")
explain(globals())
