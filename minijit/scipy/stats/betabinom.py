"""Heads of n throws of a coin whose p is drawn from beta(a, b), 0 <= k <= n."""

from ... import numpy as jnp
from ..special import betaln
from .common import choose, exp_of, explain, invalid, outside, promoted


def logpmf(k, n, a, b, loc=0):
    """log(n over k) + log(beta(k + a, n - k + b) / beta(a, b)), of k - loc."""
    k, n, a, b, loc = promoted("betabinom.logpmf", k, n, a, b, loc)
    y = jnp.floor(k) - loc
    ways = -jnp.log1p(n) - betaln(n - y + 1, y + 1)
    log = ways + betaln(y + a, n - y + b) - betaln(a, b)
    log = choose((y == 0) & (n == 0), 0, log)
    log = outside((y < -loc) | (y > n) | (y + a <= 0), log)
    return invalid((n < 0) | (a <= 0) | (b <= 0), log)


pmf = exp_of(logpmf, "pmf")
explain(globals())
