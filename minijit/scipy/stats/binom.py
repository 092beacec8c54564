"""Heads of n throws of a coin, 0 <= k <= n, each with the probability p."""

from ..special import gammaln, xlog1py, xlogy
from .common import choose, exp_of, explain, outside, promoted


def logpmf(k, n, p, loc=0):
    """log(n over k) + k log(p) + (n - k) log(1 - p), of k - loc."""
    k, n, p, loc = promoted("binom.logpmf", k, n, p, loc)
    y = k - loc
    ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    throws = xlogy(y, p) + xlog1py(n - y, -p)
    log = choose(((y == 0) & (n == 0)) | (throws == 0), 0, ways + throws)
    return outside((k < loc) | (k >= loc + n + 1), log)


pmf = exp_of(logpmf, "pmf")
explain(globals())
