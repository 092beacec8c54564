"""Failures before the n-th success, k >= 0, each throw with the probability p."""

from ..special import gammaln, xlogy
from .common import exp_of, explain, outside, promoted


def logpmf(k, n, p, loc=0):
    """log(n + k - 1 over k) + n log(p) + k log(1 - p), of k - loc."""
    k, n, p, loc = promoted("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    ways = gammaln(y + n) - gammaln(n) - gammaln(y + 1)
    return outside(y < 0, ways + xlogy(n, p) + xlogy(y, 1 - p))


pmf = exp_of(logpmf, "pmf")
explain(globals())
