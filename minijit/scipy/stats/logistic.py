"""The logistic distribution, of all real x."""

from ... import numpy as jnp
from ..special import expit, logit
from .common import exp_of, explain, promoted, standard


def logpdf(x, loc=0, scale=1):
    """-2 log(e**(z / 2) + e**(-z / 2)) - log(scale), with z = (x - loc) / scale."""
    z, scale = standard("logistic.logpdf", x, loc, scale)
    return -2 * jnp.logaddexp(z / 2, -z / 2) - jnp.log(scale)


def cdf(x, loc=0, scale=1):
    """The probability of a value up to x."""
    return expit(standard("logistic.cdf", x, loc, scale)[0])


def sf(x, loc=0, scale=1):
    """The probability of a value above x."""
    return expit(-standard("logistic.sf", x, loc, scale)[0])


def ppf(x, loc=0, scale=1):
    """The value below which a share x lies."""
    x, loc, scale = promoted("logistic.ppf", x, loc, scale)
    return logit(x) * scale + loc


def isf(x, loc=0, scale=1):
    """The value above which a share x lies."""
    x, loc, scale = promoted("logistic.isf", x, loc, scale)
    return -logit(x) * scale + loc


pdf = exp_of(logpdf, "pdf")
explain(globals())
