"""The gamma distribution, x >= loc; a > 0."""

import numpy as np

from ... import numpy as jnp
from ..special import gammainc, gammaincc, gammaln, xlogy
from .common import choose, clipped, exp_of, explain, log_of, outside, standard


def logpdf(x, a, loc=0, scale=1):
    """(a - 1) log(z) - z - log(gamma(a)) - log(scale), with z = (x - loc) / scale."""
    z, scale, a = standard("gamma.logpdf", x, a, loc, scale)
    y = choose(z >= 0, z, 1)
    log = xlogy(a - 1, y) - y - gammaln(a) - jnp.log(scale)
    return outside(~(z >= 0), log)


def cdf(x, a, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _, a = standard("gamma.cdf", x, a, loc, scale)
    return gammainc(a, clipped(z, 0, np.inf))


def sf(x, a, loc=0, scale=1):
    """The probability of a value above x."""
    z, _, a = standard("gamma.sf", x, a, loc, scale)
    return choose(z < 0, 1, gammaincc(a, z))


pdf = exp_of(logpdf, "pdf")
logcdf, logsf = log_of(cdf, "logcdf"), log_of(sf, "logsf")
explain(globals())
