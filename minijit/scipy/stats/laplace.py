"""The distribution of Laplace, of all real x."""

from ... import numpy as jnp
from .common import exp_of, explain, standard


def logpdf(x, loc=0, scale=1):
    """-|z| - log(2 scale), with z = (x - loc) / scale."""
    z, scale = standard("laplace.logpdf", x, loc, scale)
    return -(jnp.abs(z) + jnp.log(2 * scale))


def cdf(x, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _ = standard("laplace.cdf", x, loc, scale)
    return jnp.where(z <= 0, 0.5 * jnp.exp(z), 1 - 0.5 * jnp.exp(-z))


pdf = exp_of(logpdf, "pdf")
explain(globals())
