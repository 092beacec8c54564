"""Distributions of numbers, of whole numbers and of vectors: `stats.norm`.

JAX: `jax.scipy.stats.norm` and so on; with z = (x - loc) / scale.
"""

import math

import numpy as np

from ... import numpy as jnp
from ...nn import log1mexp
from ...numpy.core import check_inexact, promote_dtypes
from ...trace import dtypes
from ...trace.dtypes import to_inexact_dtype
from .. import special
from ..linalg import solve_triangular
from ..special import (
    betainc, betaln, entr, expit, gammainc, gammaincc, gammaln, i0e, log_ndtr, logit,
    ndtr, xlog1py, xlogy,
)
from .common import (
    clipped, distribution, invalid, log_of, of_vectors, outside, promoted, standard,
)

# ---- Of numbers


@distribution
class beta:
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


@distribution
class cauchy:
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


@distribution
class chi2:
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


@distribution
class expon:
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


@distribution
class gamma:
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


@distribution
class gennorm:
    """Densities like e**-|x|**beta, of all real x; beta > 0."""

    def logpdf(x, beta):
        """log(beta / 2) - log(gamma(1 / beta)) - |x|**beta."""
        return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta

    def cdf(x, beta):
        return 0.5 * (1 + jnp.sign(x) * gammainc(1 / beta, jnp.abs(x) ** beta))


@distribution
class gumbel_l:
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


@distribution
class gumbel_r:
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


@distribution
class laplace:
    """The distribution of Laplace, of all real x."""

    def logpdf(x, loc=0, scale=1):
        """-|z| - log(2 scale)."""
        return -(jnp.abs(standard(x, loc, scale)) + jnp.log(2 * scale))

    def cdf(x, loc=0, scale=1):
        z = standard(x, loc, scale)
        return jnp.where(z <= 0, 0.5 * jnp.exp(z), 1 - 0.5 * jnp.exp(-z))


@distribution
class logistic:
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


@distribution
class norm:
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
        return norm.ppf(1 - q, loc, scale)


@distribution
class pareto:
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


@distribution
class t:
    """Student's distribution with df degrees of freedom, of all real x."""

    def logpdf(x, df, loc=0, scale=1):
        """log(gamma((df + 1) / 2) / gamma(df / 2)) - log(pi df scale^2) / 2
        - (df + 1) / 2 log(1 + z^2 / df)."""
        z = standard(x, loc, scale)
        half = df / 2
        constant = gammaln(half) + jnp.log(scale * scale * np.pi * df) / 2
        return -(constant - gammaln(half + 0.5) + (half + 0.5) * jnp.log1p(z * z / df))


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
class truncnorm:
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
        return truncnorm.logcdf(-x, -b, -a, -loc, scale)


@distribution
class uniform:
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


@distribution
class vonmises:
    """The normal distribution of angles; kappa > 0 says how narrow it is."""

    def logpdf(x, kappa):
        """kappa cos(x) - log(2 pi i0(kappa))."""
        log = kappa * (jnp.cos(x) - 1) - jnp.log(2 * np.pi * i0e(kappa))
        return invalid(~(kappa > 0), log)


@distribution
class wrapcauchy:
    """The distribution of Cauchy, of angles 0 <= x <= 2 pi; 0 < c < 1."""

    def logpdf(x, c):
        """log((1 - c^2) / (2 pi (1 + c^2 - 2 c cos(x))))."""
        log = jnp.log(1 - c * c) - jnp.log(1 + c * c - 2 * c * jnp.cos(x))
        log = log - math.log(2 * math.pi)
        return invalid(~((c > 0) & (c < 1)), outside((x < 0) | (x > 2 * np.pi), log))


# ---- Of whole numbers


@distribution
class bernoulli:
    """One throw of a coin: k = 1 with the probability p.  JAX: `...stats.bernoulli`."""

    def logpmf(k, p, loc=0):
        """k log(p) + (1 - k) log(1 - p), of k - loc."""
        x = k - loc
        return outside((x < 0) | (x > 1), xlogy(x, p) + xlog1py(1 - x, -p))

    def cdf(k, p):
        """The probability of a value up to k."""
        below = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, jnp.ones_like(p)))
        return invalid(jnp.isnan(k) | jnp.isnan(p) | (p < 0) | (p > 1), below)

    def ppf(q, p):
        """0 up to the share 1 - p, then 1; NaN where q or p is no probability."""
        wrong = jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1)
        return invalid(wrong, jnp.where(q <= 1 - p, 0, jnp.ones_like(q)))


@distribution
class betabinom:
    """Heads of n throws of a coin whose p is drawn from beta(a, b), 0 <= k <= n."""

    def logpmf(k, n, a, b, loc=0):
        """log(n over k) + log(beta(k + a, n - k + b) / beta(a, b)), of k - loc."""
        y = jnp.floor(k) - loc
        ways = -jnp.log1p(n) - betaln(n - y + 1, y + 1)
        log = ways + betaln(y + a, n - y + b) - betaln(a, b)
        log = jnp.where((y == 0) & (n == 0), 0, log)
        log = outside((y < -loc) | (y > n) | (y + a <= 0), log)
        return invalid((n < 0) | (a <= 0) | (b <= 0), log)


@distribution
class binom:
    """Heads of n throws of a coin, 0 <= k <= n, each with the probability p."""

    def logpmf(k, n, p, loc=0):
        """log(n over k) + k log(p) + (n - k) log(1 - p), of k - loc."""
        y = k - loc
        ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
        throws = xlogy(y, p) + xlog1py(n - y, -p)
        log = jnp.where(((y == 0) & (n == 0)) | (throws == 0), 0, ways + throws)
        return outside((k < loc) | (k >= loc + n + 1), log)


@distribution
class geom:
    """Throws until the first success, k >= 1, each with the probability p."""

    def logpmf(k, p, loc=0):
        """(k - 1) log(1 - p) + log(p), of k - loc."""
        x = k - loc
        return outside(x <= 0, xlog1py(x - 1, -p) + jnp.log(p))


@distribution
class nbinom:
    """Failures before the n-th success, k >= 0, each throw with the probability p."""

    def logpmf(k, n, p, loc=0):
        """log(n + k - 1 over k) + n log(p) + k log(1 - p), of k - loc."""
        y = k - loc
        ways = gammaln(y + n) - gammaln(n) - gammaln(y + 1)
        return outside(y < 0, ways + xlogy(n, p) + xlogy(y, 1 - p))


@distribution
class poisson:
    """Counts of rare events, k >= 0, of the mean mu."""

    def logpmf(k, mu, loc=0):
        """k log(mu) - log(k!) - mu, of k - loc; a k that is no integer never comes."""
        x = k - loc
        log = xlogy(x, mu) - gammaln(x + 1) - mu
        return outside((x < 0) | (jnp.round(k) != k), log)

    def cdf(k, mu, loc=0):
        """The probability of a value up to k."""
        x = k - loc
        return jnp.where(x < 0, 0, gammaincc(jnp.floor(1 + x), mu))

    def entropy(mu, loc=0):
        """The mean of -log(pmf): a sum for mu < 100, beyond that its expansion."""

        def summed(top, count):
            k = jnp.arange(count, dtype=mu.dtype)
            share = poisson.pmf(k, mu[..., None])
            return entr(jnp.where(k < top[..., None], share, 0)).sum(-1)

        small = summed(jnp.ceil(mu + 20), 35)
        medium = summed(jnp.ceil(mu + 10 * jnp.sqrt(mu) + 20), 250)
        large = 0.5 * jnp.log(2 * np.pi * np.e * mu) - 1 / (12 * mu)
        found = jnp.where(mu < 10, small, jnp.where(mu < 100, medium, large))
        return jnp.broadcast_to(
            jnp.where(mu == 0, 0, found), jnp.broadcast_shapes(mu.shape, loc.shape)
        )


# ---- Of vectors


@of_vectors
class dirichlet:
    """The distribution of Dirichlet, of points x with x > 0 and sum(x) = 1."""

    def logpdf(x, alpha):
        """The sum of (alpha - 1) log(x), minus log(beta(alpha)).

        Args:
          x: [n, ...], or [n - 1, ...] without the last share; alpha: [n].
        """
        check_inexact("dirichlet.logpdf", (x, alpha))
        x, alpha = promote_dtypes((x, alpha), to_inexact_dtype)
        if alpha.ndim != 1:
            raise ValueError(
                f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}"
            )
        n = alpha.shape[0]
        if x.shape[0] not in (n, n - 1):
            raise ValueError(
                "`x` must have either the same number of entries as `alpha` or one "
                f"entry fewer; got x.shape={x.shape}, alpha.shape={alpha.shape}"
            )
        if x.shape[0] != n:
            x = jnp.concatenate([x, 1 - x.sum(0, keepdims=True)])
        constant = gammaln(alpha).sum() - gammaln(alpha.sum())
        powers = alpha.reshape(n, *[1] * (x.ndim - 1)) - 1
        is_share = (x > 0).all(0) & (jnp.abs(x.sum(0) - 1) < 1e-6)
        return outside(~is_share, xlogy(powers, x).sum(0) - constant)


@of_vectors
class multinomial:
    """How often each of several outcomes comes in n throws."""

    def logpmf(x, n, p):
        """log(n!) + the sum of x log(p) - log(x!).

        Args:
          x: integers [..., k], whose sum is n; p: [..., k] or [k], probabilities.
        """
        p, = promoted("multinomial.logpmf", p)
        x, n = jnp.asarray(x), jnp.asarray(n)
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise ValueError(
                f"x and n must be of integer type; got x.dtype={x.dtype}, "
                f"n.dtype={n.dtype}"
            )
        x, n = x.astype(p.dtype), n.astype(p.dtype)
        log = gammaln(n + 1) + (xlogy(x, p) - gammaln(x + 1)).sum(-1)
        return outside(x.sum() != n, log)


@of_vectors
class multivariate_normal:
    """Normal distributions of vectors."""

    def logpdf(x, mean, cov, allow_singular=None):
        """-(y^T cov^-1 y + n log(2 pi) + log(det(cov))) / 2, with y = x - mean.

        Args:
          x, mean: [..., n]; cov: [..., n, n], or a number: that times the identity.
        """
        if allow_singular is not None:
            raise NotImplementedError(
                "allow_singular argument of multivariate_normal.logpdf"
            )
        check_inexact("multivariate_normal.logpdf", (x, mean, cov))
        x, mean, cov = promote_dtypes((x, mean, cov), to_inexact_dtype)
        circle = np.array(np.log(2 * np.pi), x.dtype)
        y = x - mean
        if not mean.shape:
            return -0.5 * (y * y / cov + circle + jnp.log(cov))
        n = mean.shape[-1]
        if not cov.shape:
            return -0.5 * ((y * y).sum(-1) / cov + n * (circle + jnp.log(cov)))
        if cov.ndim < 2 or cov.shape[-2:] != (n, n):
            raise ValueError("multivariate_normal.logpdf got incompatible shapes")
        factor = jnp.linalg.cholesky(cov)
        solve = jnp.vectorize(
            lambda l, y: solve_triangular(l, y, lower=True), signature="(n,n),(n)->(n)"
        )
        z = solve(factor, y)
        log = jnp.log(jnp.diagonal(factor, axis1=-1, axis2=-2)).sum(-1)
        return -0.5 * (z * z).sum(-1) - n / 2 * circle - log

    def pdf(x, mean, cov):
        return jnp.exp(multivariate_normal.logpdf(x, mean, cov))
