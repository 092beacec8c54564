"""How often each of several outcomes comes in n throws."""

import numpy as np

from ... import numpy as jnp
from ...trace import dtypes
from ..special import gammaln, xlogy
from .common import exp_of, explain, outside, promoted


def logpmf(x, n, p):
    """log(n!) + the sum of x log(p) - log(x!).

    Args:
      x: integers [..., k], whose sum is n; p: [..., k] or [k], probabilities.
    """
    p, = promoted("multinomial.logpmf", p)
    x, n = jnp.asarray(x), jnp.asarray(n)
    if not dtypes.issubdtype(x.dtype, np.integer):
        raise ValueError(
            f"x and n must be of integer type; got x.dtype={x.dtype}, n.dtype={n.dtype}"
        )
    x, n = x.astype(p.dtype), n.astype(p.dtype)
    log = gammaln(n + 1) + (xlogy(x, p) - gammaln(x + 1)).sum(-1)
    return outside(x.sum() != n, log)


pmf = exp_of(logpmf, "pmf")
explain(globals())
