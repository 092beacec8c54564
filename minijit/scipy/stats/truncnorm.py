"""A normal distribution cut off at a and b, in units of `scale` from `loc`."""

from ... import numpy as jnp
from ...nn import log1mexp
from ..special import log_ndtr, ndtr
from . import norm
from .common import exp_of, explain, invalid, outside, promoted


def log_mass(a, b):
    """The logarithm of the normal probability between a and b.

    In a tail it is a difference of logarithms, and the right tail is turned over.
    """
    right = a > 0
    low, high = log_ndtr(jnp.where(right, -b, a)), log_ndtr(jnp.where(right, -a, b))
    safe = jnp.where(high > low, high - low, 1)
    tail = jnp.where(high > low, high + log1mexp(safe), -jnp.inf)
    middle = (a <= 0) & (b > 0)
    inside = jnp.where(middle, -ndtr(a) - ndtr(-b), 0)
    return jnp.where(middle, jnp.log1p(inside), tail)


def logpdf(x, a, b, loc=0, scale=1):
    """norm.logpdf less the logarithm of the mass between a and b."""
    x, a, b, loc, scale = promoted("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    log = norm.logpdf(x, loc, scale) - log_mass(a, b)
    return invalid(a >= b, outside((z < a) | (z > b), log))


def logcdf(x, a, b, loc=0, scale=1):
    """The logarithm of `cdf`."""
    x, a, b, loc, scale = promoted("truncnorm.logcdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    inner = jnp.clip(z, a, b)
    mass = log_mass(a, b)
    log, above = log_mass(a, inner) - mass, log_mass(inner, b) - mass
    # Next to 1 the mass above is the more precise one.
    near_one = log > -0.1
    log = jnp.where(near_one, jnp.log1p(-jnp.exp(jnp.where(near_one, above, -1))), log)
    log = jnp.where(z >= b, 0, outside(z <= a, log))
    return invalid(a >= b, log)


def logsf(x, a, b, loc=0, scale=1):
    """The logarithm of `sf`."""
    x, a, b, loc, scale = promoted("truncnorm.logsf", x, a, b, loc, scale)
    return logcdf(-x, -b, -a, -loc, scale)


pdf, cdf, sf = exp_of(logpdf, "pdf"), exp_of(logcdf, "cdf"), exp_of(logsf, "sf")
explain(globals())
