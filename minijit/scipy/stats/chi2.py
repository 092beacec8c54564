"""The sum of the squares of df normal numbers, x >= loc."""

import numpy as np

from ... import numpy as jnp
from ..special import gammainc, gammaincc, gammaln
from .common import clipped, exp_of, explain, log_of, outside, standard


def logpdf(x, df, loc=0, scale=1):
    """(df / 2 - 1) log(z) - z / 2 - log(gamma(df / 2)) - df log(2) / 2 - log(scale)."""
    z, scale, df = standard("chi2.logpdf", x, df, loc, scale)
    kernel = (df / 2 - 1) * jnp.log(z) - z / 2
    constant = gammaln(df / 2) + df * np.array(np.log(2) / 2, df.dtype)
    return outside(z < 0, kernel - constant - jnp.log(scale))


def cdf(x, df, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _, df = standard("chi2.cdf", x, df, loc, scale)
    return gammainc(df / 2, clipped(z / 2, 0, np.inf))


def sf(x, df, loc=0, scale=1):
    """The probability of a value above x."""
    z, _, df = standard("chi2.sf", x, df, loc, scale)
    return gammaincc(df / 2, clipped(z / 2, 0, np.inf))


pdf = exp_of(logpdf, "pdf")
logcdf, logsf = log_of(cdf, "logcdf"), log_of(sf, "logsf")
explain(globals())
