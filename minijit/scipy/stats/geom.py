"""Throws until the first success, k >= 1, each with the probability p."""

from ... import numpy as jnp
from ..special import xlog1py
from .common import exp_of, explain, outside, promoted


def logpmf(k, p, loc=0):
    """(k - 1) log(1 - p) + log(p), of k - loc."""
    k, p, loc = promoted("geom.logpmf", k, p, loc)
    x = k - loc
    return outside(x <= 0, xlog1py(x - 1, -p) + jnp.log(p))


pmf = exp_of(logpmf, "pmf")
explain(globals())
