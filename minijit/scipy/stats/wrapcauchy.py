"""The distribution of Cauchy, of angles 0 <= x <= 2 pi; 0 < c < 1."""

import numpy as np

from ... import numpy as jnp
from .common import exp_of, explain, invalid, outside, promoted


def logpdf(x, c):
    """log((1 - c^2) / (2 pi (1 + c^2 - 2 c cos(x))))."""
    x, c = promoted("wrapcauchy.logpdf", x, c)
    log = jnp.log(1 - c * c) - jnp.log(1 + c * c - 2 * c * jnp.cos(x))
    log = log - np.array(np.log(2 * np.pi), log.dtype)
    return invalid(~((c > 0) & (c < 1)), outside((x < 0) | (x > 2 * np.pi), log))


pdf = exp_of(logpdf, "pdf")
explain(globals())
