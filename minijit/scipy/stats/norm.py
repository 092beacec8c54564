"""The normal distribution, of all real x.  JAX: `jax.scipy.stats.norm`."""

import numpy as np

from ... import numpy as jnp
from .. import special
from .common import exp_of, explain, promoted, standard


def logpdf(x, loc=0, scale=1):
    """-(z^2 + log(2 pi)) / 2 - log(scale), with z = (x - loc) / scale."""
    x, loc, scale = promoted("norm.logpdf", x, loc, scale)
    square = scale * scale
    constant = jnp.log(np.array(2 * np.pi, x.dtype) * square)
    return (constant + (x - loc) ** 2 / square) / -2


def cdf(x, loc=0, scale=1):
    """The probability of a value up to x."""
    z, _ = standard("norm.cdf", x, loc, scale)
    return special.ndtr(z)


def logcdf(x, loc=0, scale=1):
    """The logarithm of `cdf`, precise far to the left, too."""
    z, _ = standard("norm.logcdf", x, loc, scale)
    return special.log_ndtr(z)


def sf(x, loc=0, scale=1):
    """The probability of a value above x."""
    z, _ = standard("norm.sf", x, loc, scale)
    return special.ndtr(-z)


def logsf(x, loc=0, scale=1):
    """The logarithm of `sf`, precise far to the right, too."""
    z, _ = standard("norm.logsf", x, loc, scale)
    return special.log_ndtr(-z)


def ppf(q, loc=0, scale=1):
    """The value below which a share q lies."""
    q, loc, scale = promoted("norm.ppf", q, loc, scale)
    return special.ndtri(q) * scale + loc


def isf(q, loc=0, scale=1):
    """The value above which a share q lies."""
    q, loc, scale = promoted("norm.isf", q, loc, scale)
    return ppf(1 - q, loc, scale)


pdf = exp_of(logpdf, "pdf")
explain(globals())
