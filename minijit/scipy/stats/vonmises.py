"""The normal distribution of angles; kappa > 0 says how narrow it is."""

import numpy as np

from ... import numpy as jnp
from ..special import i0e
from .common import exp_of, explain, invalid, promoted


def logpdf(x, kappa):
    """kappa cos(x) - log(2 pi i0(kappa))."""
    x, kappa = promoted("vonmises.logpdf", x, kappa)
    log = kappa * (jnp.cos(x) - 1) - jnp.log(2 * np.pi * i0e(kappa))
    return invalid(~(kappa > 0), log)


pdf = exp_of(logpdf, "pdf")
explain(globals())
