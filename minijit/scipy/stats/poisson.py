"""Counts of rare events, k >= 0, of the mean mu."""

import numpy as np

from ... import numpy as jnp
from ..special import entr, gammaincc, gammaln, xlogy
from .common import choose, exp_of, explain, outside, promoted


def logpmf(k, mu, loc=0):
    """k log(mu) - log(k!) - mu, of k - loc; a k that is no integer never comes."""
    k, mu, loc = promoted("poisson.logpmf", k, mu, loc)
    x = k - loc
    log = xlogy(x, mu) - gammaln(x + 1) - mu
    return outside((x < 0) | (jnp.round(k) != k), log)


def cdf(k, mu, loc=0):
    """The probability of a value up to k."""
    k, mu, loc = promoted("poisson.cdf", k, mu, loc)
    x = k - loc
    return choose(x < 0, 0, gammaincc(jnp.floor(1 + x), mu))


def entropy(mu, loc=0):
    """The mean of -log(pmf): a sum for mu < 100, beyond that its expansion."""
    mu, loc = promoted("poisson.entropy", mu, loc)

    def summed(top, count):
        k = np.arange(count)
        share = pmf(k, mu[..., None])
        return entr(choose(k < top[..., None], share, 0)).sum(-1)

    small = summed(jnp.ceil(mu + 20), 35)
    medium = summed(jnp.ceil(mu + 10 * jnp.sqrt(mu) + 20), 250)
    large = 0.5 * jnp.log(2 * np.pi * np.e * mu) - 1 / (12 * mu)
    found = jnp.where(mu < 10, small, jnp.where(mu < 100, medium, large))
    return jnp.broadcast_to(
        choose(mu == 0, 0, found), jnp.broadcast_shapes(mu.shape, loc.shape)
    )


pmf = exp_of(logpmf, "pmf")
explain(globals())
