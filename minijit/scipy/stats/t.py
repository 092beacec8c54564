"""Student's distribution with df degrees of freedom, of all real x."""

import numpy as np

from ... import numpy as jnp
from ..special import gammaln
from .common import exp_of, explain, standard


def logpdf(x, df, loc=0, scale=1):
    """log(gamma((df + 1) / 2) / gamma(df / 2)) - log(pi df scale^2) / 2
    - (df + 1) / 2 log(1 + z^2 / df), with z = (x - loc) / scale."""
    z, scale, df = standard("t.logpdf", x, df, loc, scale)
    half = df / 2
    constant = gammaln(half) + jnp.log(scale * scale * np.pi * df) / 2
    return -(constant - gammaln(half + 0.5) + (half + 0.5) * jnp.log1p(z * z / df))


pdf = exp_of(logpdf, "pdf")
explain(globals())
