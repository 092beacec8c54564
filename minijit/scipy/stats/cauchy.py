"""The distribution of Cauchy, of all real x."""

import numpy as np

from ... import numpy as jnp
from .common import exp_of, explain, log_of, promoted, standard


def logpdf(x, loc=0, scale=1):
    """-log(pi scale (1 + z^2)), with z = (x - loc) / scale."""
    z, scale = standard("cauchy.logpdf", x, loc, scale)
    return -(jnp.log(np.pi * scale) + jnp.log1p(z * z))


def cdf(x, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _ = standard("cauchy.cdf", x, loc, scale)
    return 0.5 + jnp.arctan(z) / np.pi


def sf(x, loc=0, scale=1):
    """The probability of a value above x."""
    z, _ = standard("cauchy.sf", x, loc, scale)
    return 0.5 + jnp.arctan(-z) / np.pi


def ppf(q, loc=0, scale=1):
    """The value below which a share q lies."""
    q, loc, scale = promoted("cauchy.ppf", q, loc, scale)
    return jnp.tan(np.pi * q - np.pi / 2) * scale + loc


def isf(q, loc=0, scale=1):
    """The value above which a share q lies."""
    q, loc, scale = promoted("cauchy.isf", q, loc, scale)
    return jnp.tan(np.pi / 2 - np.pi * q) * scale + loc


pdf = exp_of(logpdf, "pdf")
logcdf, logsf = log_of(cdf, "logcdf"), log_of(sf, "logsf")
explain(globals())
