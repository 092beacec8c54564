"""The beta distribution, 0 <= (x - loc) / scale <= 1; a, b > 0."""

from ... import numpy as jnp
from ..special import betainc, betaln, xlog1py, xlogy
from .common import clipped, exp_of, explain, invalid, log_of, outside, standard


def logpdf(x, a, b, loc=0, scale=1):
    """(a - 1) log(z) + (b - 1) log(1 - z) - log(beta(a, b)) - log(scale)."""
    z, scale, a, b = standard("beta.logpdf", x, a, b, loc, scale)
    log = xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b) - jnp.log(scale)
    return invalid((a <= 0) | (b <= 0) | (scale <= 0), outside((z < 0) | (z > 1), log))


def cdf(x, a, b, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _, a, b = standard("beta.cdf", x, a, b, loc, scale)
    return betainc(a, b, clipped(z, 0, 1))


def sf(x, a, b, loc=0, scale=1):
    """The probability of a value above x."""
    z, _, a, b = standard("beta.sf", x, a, b, loc, scale)
    return betainc(b, a, 1 - clipped(z, 0, 1))


pdf = exp_of(logpdf, "pdf")
logcdf, logsf = log_of(cdf, "logcdf"), log_of(sf, "logsf")
explain(globals())
