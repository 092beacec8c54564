"""Gumbel's distribution of smallest values, of all real x."""

from ... import numpy as jnp
from .common import exp_of, explain, invalid, promoted, standard


def logpdf(x, loc=0, scale=1):
    """z - e**z - log(scale), with z = (x - loc) / scale."""
    z, scale = standard("gumbel_l.logpdf", x, loc, scale)
    return invalid(scale <= 0, z - jnp.exp(z) - jnp.log(scale))


def logcdf(x, loc=0, scale=1):
    """The logarithm of `cdf`."""
    z, scale = standard("gumbel_l.logcdf", x, loc, scale)
    return invalid(scale <= 0, jnp.log(-jnp.expm1(-jnp.exp(z))))


def logsf(x, loc=0, scale=1):
    """The logarithm of `sf`."""
    z, scale = standard("gumbel_l.logsf", x, loc, scale)
    return invalid(scale <= 0, -jnp.exp(z))


def ppf(p, loc=0, scale=1):
    """The value below which a share p lies; NaN unless 0 < p < 1."""
    p, loc, scale = promoted("gumbel_l.ppf", p, loc, scale)
    return invalid(~((p > 0) & (p < 1)), loc + scale * jnp.log(-jnp.log1p(-p)))


pdf, cdf, sf = exp_of(logpdf, "pdf"), exp_of(logcdf, "cdf"), exp_of(logsf, "sf")
explain(globals())
