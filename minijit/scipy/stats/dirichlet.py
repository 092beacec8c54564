"""The distribution of Dirichlet, of points x with x > 0 and sum(x) = 1."""

from ... import numpy as jnp
from ...numpy.core import check_inexact, promote_dtypes
from ...trace.dtypes import to_inexact_dtype
from ..special import gammaln, xlogy
from .common import exp_of, explain, outside


def logpdf(x, alpha):
    """The sum of (alpha - 1) log(x), minus log(beta(alpha)).

    Args:
      x: [n, ...], or [n - 1, ...] without the last share; alpha: [n].
    """
    check_inexact("dirichlet.logpdf", (x, alpha))
    x, alpha = promote_dtypes((x, alpha), to_inexact_dtype)
    if alpha.ndim != 1:
        raise ValueError(
            f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}"
        )
    n = alpha.shape[0]
    if x.shape[0] not in (n, n - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry "
            f"fewer; got x.shape={x.shape}, alpha.shape={alpha.shape}"
        )
    if x.shape[0] != n:
        x = jnp.concatenate([x, 1 - x.sum(0, keepdims=True)])
    constant = gammaln(alpha).sum() - gammaln(alpha.sum())
    powers = alpha.reshape(n, *[1] * (x.ndim - 1)) - 1
    is_share = (x > 0).all(0) & (jnp.abs(x.sum(0) - 1) < 1e-6)
    return outside(~is_share, xlogy(powers, x).sum(0) - constant)


pdf = exp_of(logpdf, "pdf")
explain(globals())
