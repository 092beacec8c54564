"""Densities like e**-|x|**beta, of all real x; beta > 0."""

from ... import numpy as jnp
from ..special import gammainc, gammaln
from .common import exp_of, explain, promoted


def logpdf(x, beta):
    """log(beta / 2) - log(gamma(1 / beta)) - |x|**beta."""
    x, beta = promoted("gennorm.logpdf", x, beta)
    return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta


def cdf(x, beta):
    """The probability of a value up to x."""
    x, beta = promoted("gennorm.cdf", x, beta)
    return 0.5 * (1 + jnp.sign(x) * gammainc(1 / beta, jnp.abs(x) ** beta))


pdf = exp_of(logpdf, "pdf")
explain(globals())
