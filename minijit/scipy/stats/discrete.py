"""Distributions of whole numbers, each of them a module: `stats.poisson`."""

import numpy as np

from ... import numpy as jnp
from ..special import betaln, entr, gammaincc, gammaln, xlog1py, xlogy
from .common import distribution, invalid, outside


@distribution
def bernoulli():
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

    return locals()


@distribution
def betabinom():
    """Heads of n throws of a coin whose p is drawn from beta(a, b), 0 <= k <= n."""

    def logpmf(k, n, a, b, loc=0):
        """log(n over k) + log(beta(k + a, n - k + b) / beta(a, b)), of k - loc."""
        y = jnp.floor(k) - loc
        ways = -jnp.log1p(n) - betaln(n - y + 1, y + 1)
        log = ways + betaln(y + a, n - y + b) - betaln(a, b)
        log = jnp.where((y == 0) & (n == 0), 0, log)
        log = outside((y < -loc) | (y > n) | (y + a <= 0), log)
        return invalid((n < 0) | (a <= 0) | (b <= 0), log)

    return locals()


@distribution
def binom():
    """Heads of n throws of a coin, 0 <= k <= n, each with the probability p."""

    def logpmf(k, n, p, loc=0):
        """log(n over k) + k log(p) + (n - k) log(1 - p), of k - loc."""
        y = k - loc
        ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
        throws = xlogy(y, p) + xlog1py(n - y, -p)
        log = jnp.where(((y == 0) & (n == 0)) | (throws == 0), 0, ways + throws)
        return outside((k < loc) | (k >= loc + n + 1), log)

    return locals()


@distribution
def geom():
    """Throws until the first success, k >= 1, each with the probability p."""

    def logpmf(k, p, loc=0):
        """(k - 1) log(1 - p) + log(p), of k - loc."""
        x = k - loc
        return outside(x <= 0, xlog1py(x - 1, -p) + jnp.log(p))

    return locals()


@distribution
def nbinom():
    """Failures before the n-th success, k >= 0, each throw with the probability p."""

    def logpmf(k, n, p, loc=0):
        """log(n + k - 1 over k) + n log(p) + k log(1 - p), of k - loc."""
        y = k - loc
        ways = gammaln(y + n) - gammaln(n) - gammaln(y + 1)
        return outside(y < 0, ways + xlogy(n, p) + xlogy(y, 1 - p))

    return locals()


@distribution
def poisson():
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

    return locals()
