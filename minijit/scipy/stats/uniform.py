"""All x from loc to loc + scale alike."""

from ... import numpy as jnp
from .common import exp_of, explain, invalid, outside, promoted, standard


def logpdf(x, loc=0, scale=1):
    """-log(scale)."""
    x, loc, scale = promoted("uniform.logpdf", x, loc, scale)
    log = jnp.broadcast_to(-jnp.log(scale), jnp.broadcast_shapes(x.shape, scale.shape))
    return outside((x < loc) | (x > loc + scale), log)


def cdf(x, loc=0, scale=1):
    """The probability of a value up to x."""
    return jnp.clip(standard("uniform.cdf", x, loc, scale)[0], 0, 1)


def ppf(q, loc=0, scale=1):
    """The value below which a share q lies."""
    q, loc, scale = promoted("uniform.ppf", q, loc, scale)
    return invalid(jnp.isnan(q) | (q < 0) | (q > 1), loc + scale * q)


pdf = exp_of(logpdf, "pdf")
explain(globals())
