"""Distributions of numbers, each of them a module for users: `stats.norm`.

JAX: `jax.scipy.stats.norm` and so on; with z = (x - loc) / scale.
"""

import math

import numpy as np

from ... import numpy as jnp
from ...nn import log1mexp
from .. import special
from ..special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaincc,
    gammaln,
    i0e,
    log_ndtr,
    logit,
    ndtr,
    xlog1py,
    xlogy,
)  # fmt: skip
from .common import clipped, distribution, invalid, log_of, outside, standard


@distribution
def beta():
    """The beta distribution, 0 <= (x - loc) / scale <= 1; a, b > 0."""

    def logpdf(x, a, b, loc=0, scale=1):
        """(a - 1) log(z) + (b - 1) log(1 - z) - log(beta(a, b)) - log(scale)."""
        z = standard(x, loc, scale)
        log = xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b) - jnp.log(scale)
        wrong = (a <= 0) | (b <= 0) | (scale <= 0)
        return invalid(wrong, outside((z < 0) | (z > 1), log))

    def cdf(x, a, b, loc=0, scale=1):
        return betainc(a, b, clipped(standard(x, loc, scale), 0, 1))

    def sf(x, a, b, loc=0, scale=1):
        return betainc(b, a, 1 - clipped(standard(x, loc, scale), 0, 1))

    logcdf, logsf = log_of(cdf), log_of(sf)

    return locals()


@distribution
def cauchy():
    """The distribution of Cauchy, of all real x."""

    def logpdf(x, loc=0, scale=1):
        """-log(pi scale (1 + z^2))."""
        z = standard(x, loc, scale)
        return -(jnp.log(np.pi * scale) + jnp.log1p(z * z))

    def cdf(x, loc=0, scale=1):
        return 0.5 + jnp.arctan(standard(x, loc, scale)) / np.pi

    def sf(x, loc=0, scale=1):
        return 0.5 + jnp.arctan(-standard(x, loc, scale)) / np.pi

    def ppf(q, loc=0, scale=1):
        return jnp.tan(np.pi * q - np.pi / 2) * scale + loc

    def isf(q, loc=0, scale=1):
        return jnp.tan(np.pi / 2 - np.pi * q) * scale + loc

    logcdf, logsf = log_of(cdf), log_of(sf)

    return locals()


@distribution
def chi2():
    """The sum of the squares of df normal numbers, x >= loc."""

    def logpdf(x, df, loc=0, scale=1):
        """(df / 2 - 1) log(z) - z / 2 - log(gamma(df / 2) 2^(df / 2) scale)."""
        z = standard(x, loc, scale)
        kernel = (df / 2 - 1) * jnp.log(z) - z / 2
        constant = gammaln(df / 2) + df * (math.log(2) / 2)
        return outside(z < 0, kernel - constant - jnp.log(scale))

    def cdf(x, df, loc=0, scale=1):
        return gammainc(df / 2, clipped(standard(x, loc, scale) / 2, 0, np.inf))

    def sf(x, df, loc=0, scale=1):
        return gammaincc(df / 2, clipped(standard(x, loc, scale) / 2, 0, np.inf))

    logcdf, logsf = log_of(cdf), log_of(sf)

    return locals()


@distribution
def expon():
    """Waiting times, x >= loc, of the mean `scale`."""

    def logpdf(x, loc=0, scale=1):
        """-z - log(scale)."""
        z = standard(x, loc, scale)
        return outside(z < 0, -(z + jnp.log(scale)))

    def cdf(x, loc=0, scale=1):
        z = standard(x, loc, scale)
        return jnp.where(z < 0, 0, -jnp.expm1(-z))

    def logsf(x, loc=0, scale=1):
        z = standard(x, loc, scale)
        return jnp.where(z < 0, 0, -z)

    def logcdf(x, loc=0, scale=1):
        return jnp.log1p(-expon.sf(x, loc, scale))

    def ppf(q, loc=0, scale=1):
        return invalid(jnp.isnan(q) | (q < 0) | (q > 1), loc - scale * jnp.log1p(-q))

    return locals()


@distribution
def gamma():
    """The gamma distribution, x >= loc; a > 0."""

    def logpdf(x, a, loc=0, scale=1):
        """(a - 1) log(z) - z - log(gamma(a)) - log(scale)."""
        z = standard(x, loc, scale)
        y = jnp.where(z >= 0, z, 1)
        log = xlogy(a - 1, y) - y - gammaln(a) - jnp.log(scale)
        return outside(~(z >= 0), log)

    def cdf(x, a, loc=0, scale=1):
        return gammainc(a, clipped(standard(x, loc, scale), 0, np.inf))

    def sf(x, a, loc=0, scale=1):
        z = standard(x, loc, scale)
        return jnp.where(z < 0, 1, gammaincc(a, z))

    logcdf, logsf = log_of(cdf), log_of(sf)

    return locals()


@distribution
def gennorm():
    """Densities like e**-|x|**beta, of all real x; beta > 0."""

    def logpdf(x, beta):
        """log(beta / 2) - log(gamma(1 / beta)) - |x|**beta."""
        return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta

    def cdf(x, beta):
        return 0.5 * (1 + jnp.sign(x) * gammainc(1 / beta, jnp.abs(x) ** beta))

    return locals()


@distribution
def gumbel_l():
    """Gumbel's distribution of smallest values, of all real x."""

    def logpdf(x, loc=0, scale=1):
        """z - e**z - log(scale)."""
        z = standard(x, loc, scale)
        return invalid(scale <= 0, z - jnp.exp(z) - jnp.log(scale))

    def logcdf(x, loc=0, scale=1):
        z = standard(x, loc, scale)
        return invalid(scale <= 0, jnp.log(-jnp.expm1(-jnp.exp(z))))

    def logsf(x, loc=0, scale=1):
        return invalid(scale <= 0, -jnp.exp(standard(x, loc, scale)))

    def ppf(p, loc=0, scale=1):
        """The value below which a share p lies; NaN unless 0 < p < 1."""
        return invalid(~((p > 0) & (p < 1)), loc + scale * jnp.log(-jnp.log1p(-p)))

    return locals()


@distribution
def gumbel_r():
    """Gumbel's distribution of largest values, of all real x."""

    def logpdf(x, loc=0, scale=1):
        """-z - e**-z - log(scale)."""
        z = standard(x, loc, scale)
        return invalid(scale <= 0, -(z + jnp.exp(-z)) - jnp.log(scale))

    def logcdf(x, loc=0, scale=1):
        return invalid(scale <= 0, -jnp.exp(-standard(x, loc, scale)))

    def sf(x, loc=0, scale=1):
        return invalid(scale <= 0, -jnp.expm1(-jnp.exp(-standard(x, loc, scale))))

    def logsf(x, loc=0, scale=1):
        return invalid(scale <= 0, log1mexp(jnp.exp(-standard(x, loc, scale))))

    def ppf(p, loc=0, scale=1):
        """The value below which a share p lies; NaN unless 0 < p < 1."""
        return invalid(~((p > 0) & (p < 1)), loc - scale * jnp.log(-jnp.log(p)))

    return locals()


@distribution
def laplace():
    """The distribution of Laplace, of all real x."""

    def logpdf(x, loc=0, scale=1):
        """-|z| - log(2 scale)."""
        return -(jnp.abs(standard(x, loc, scale)) + jnp.log(2 * scale))

    def cdf(x, loc=0, scale=1):
        z = standard(x, loc, scale)
        return jnp.where(z <= 0, 0.5 * jnp.exp(z), 1 - 0.5 * jnp.exp(-z))

    return locals()


@distribution
def logistic():
    """The logistic distribution, of all real x."""

    def logpdf(x, loc=0, scale=1):
        """-2 log(e**(z / 2) + e**(-z / 2)) - log(scale)."""
        z = standard(x, loc, scale)
        return -2 * jnp.logaddexp(z / 2, -z / 2) - jnp.log(scale)

    def cdf(x, loc=0, scale=1):
        return expit(standard(x, loc, scale))

    def sf(x, loc=0, scale=1):
        return expit(-standard(x, loc, scale))

    def ppf(x, loc=0, scale=1):
        """The value below which a share x lies."""
        return logit(x) * scale + loc

    def isf(x, loc=0, scale=1):
        """The value above which a share x lies."""
        return -logit(x) * scale + loc

    return locals()


@distribution
def norm():
    """The normal distribution, of all real x.  JAX: `jax.scipy.stats.norm`."""

    def logpdf(x, loc=0, scale=1):
        """-(z^2 + log(2 pi)) / 2 - log(scale)."""
        square = scale * scale
        constant = jnp.log(2 * np.pi * square)
        return (constant + (x - loc) ** 2 / square) / -2

    def cdf(x, loc=0, scale=1):
        return special.ndtr(standard(x, loc, scale))

    def logcdf(x, loc=0, scale=1):
        """The logarithm of `cdf`, precise far to the left, too."""
        return special.log_ndtr(standard(x, loc, scale))

    def sf(x, loc=0, scale=1):
        return special.ndtr(-standard(x, loc, scale))

    def logsf(x, loc=0, scale=1):
        """The logarithm of `sf`, precise far to the right, too."""
        return special.log_ndtr(-standard(x, loc, scale))

    def ppf(q, loc=0, scale=1):
        return special.ndtri(q) * scale + loc

    def isf(q, loc=0, scale=1):
        return ppf(1 - q, loc, scale)

    return locals()


@distribution
def pareto():
    """The distribution of Pareto, x >= loc + scale; b > 0."""

    def logpdf(x, b, loc=0, scale=1):
        """log(b / scale) - (b + 1) log(z)."""
        z = standard(x, loc, scale)
        return outside(z < 1, jnp.log(b / scale) - (b + 1) * jnp.log(z))

    def cdf(x, b, loc=0, scale=1):
        z = standard(x, loc, scale)
        return jnp.where(z < 1, 0, 1 - z**-b)

    def logcdf(x, b, loc=0, scale=1):
        z = standard(x, loc, scale)
        return outside(z < 1, jnp.log1p(-(z**-b)))

    def logsf(x, b, loc=0, scale=1):
        z = standard(x, loc, scale)
        return jnp.where(z < 1, 0, -b * jnp.log(z))

    def ppf(q, b, loc=0, scale=1):
        wrong = jnp.isnan(q) | (q < 0) | (q > 1)
        return invalid(wrong, loc + scale * (1 - q) ** (-1 / b))

    return locals()


@distribution
def t():
    """Student's distribution with df degrees of freedom, of all real x."""

    def logpdf(x, df, loc=0, scale=1):
        """log(gamma((df + 1) / 2) / gamma(df / 2)) - log(pi df scale^2) / 2
        - (df + 1) / 2 log(1 + z^2 / df)."""
        z = standard(x, loc, scale)
        half = df / 2
        constant = gammaln(half) + jnp.log(scale * scale * np.pi * df) / 2
        return -(constant - gammaln(half + 0.5) + (half + 0.5) * jnp.log1p(z * z / df))

    return locals()


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


@distribution
def truncnorm():
    """A normal distribution cut off at a and b, in units of `scale` from `loc`."""

    def logpdf(x, a, b, loc=0, scale=1):
        """norm.logpdf less the logarithm of the mass between a and b."""
        z = (x - loc) / scale
        log = norm.logpdf(x, loc, scale) - log_mass(a, b)
        return invalid(a >= b, outside((z < a) | (z > b), log))

    def logcdf(x, a, b, loc=0, scale=1):
        z = (x - loc) / scale
        inner = jnp.clip(z, a, b)
        mass = log_mass(a, b)
        log, above = log_mass(a, inner) - mass, log_mass(inner, b) - mass
        # Next to 1 the mass above is the more precise one.
        near_one = log > -0.1
        below = jnp.log1p(-jnp.exp(jnp.where(near_one, above, -1)))
        log = jnp.where(near_one, below, log)
        log = jnp.where(z >= b, 0, outside(z <= a, log))
        return invalid(a >= b, log)

    def logsf(x, a, b, loc=0, scale=1):
        return logcdf(-x, -b, -a, -loc, scale)

    return locals()


@distribution
def uniform():
    """All x from loc to loc + scale alike."""

    def logpdf(x, loc=0, scale=1):
        """-log(scale)."""
        whole = jnp.broadcast_shapes(x.shape, scale.shape)
        log = jnp.broadcast_to(-jnp.log(scale), whole)
        return outside((x < loc) | (x > loc + scale), log)

    def cdf(x, loc=0, scale=1):
        return jnp.clip(standard(x, loc, scale), 0, 1)

    def ppf(q, loc=0, scale=1):
        return invalid(jnp.isnan(q) | (q < 0) | (q > 1), loc + scale * q)

    return locals()


@distribution
def vonmises():
    """The normal distribution of angles; kappa > 0 says how narrow it is."""

    def logpdf(x, kappa):
        """kappa cos(x) - log(2 pi i0(kappa))."""
        log = kappa * (jnp.cos(x) - 1) - jnp.log(2 * np.pi * i0e(kappa))
        return invalid(~(kappa > 0), log)

    return locals()


@distribution
def wrapcauchy():
    """The distribution of Cauchy, of angles 0 <= x <= 2 pi; 0 < c < 1."""

    def logpdf(x, c):
        """log((1 - c^2) / (2 pi (1 + c^2 - 2 c cos(x))))."""
        log = jnp.log(1 - c * c) - jnp.log(1 + c * c - 2 * c * jnp.cos(x))
        log = log - math.log(2 * math.pi)
        return invalid(~((c > 0) & (c < 1)), outside((x < 0) | (x > 2 * np.pi), log))

    return locals()
