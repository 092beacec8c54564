"""Normal distributions of vectors."""

import numpy as np

from ... import numpy as jnp
from ...numpy.core import check_inexact, promote_dtypes
from ...trace.dtypes import to_inexact_dtype
from ..linalg import solve_triangular
from .common import explain


def logpdf(x, mean, cov, allow_singular=None):
    """-(y^T cov^-1 y + n log(2 pi) + log(det(cov))) / 2, with y = x - mean.

    Args:
      x, mean: [..., n]; cov: [..., n, n], or a number: that times the identity.
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "allow_singular argument of multivariate_normal.logpdf"
        )
    check_inexact("multivariate_normal.logpdf", (x, mean, cov))
    x, mean, cov = promote_dtypes((x, mean, cov), to_inexact_dtype)
    circle = np.array(np.log(2 * np.pi), x.dtype)
    y = x - mean
    if not mean.shape:
        return -0.5 * (y * y / cov + circle + jnp.log(cov))
    n = mean.shape[-1]
    if not cov.shape:
        return -0.5 * ((y * y).sum(-1) / cov + n * (circle + jnp.log(cov)))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError("multivariate_normal.logpdf got incompatible shapes")
    factor = jnp.linalg.cholesky(cov)
    solve = jnp.vectorize(
        lambda l, y: solve_triangular(l, y, lower=True), signature="(n,n),(n)->(n)"
    )
    z = solve(factor, y)
    log = jnp.log(jnp.diagonal(factor, axis1=-1, axis2=-2)).sum(-1)
    return -0.5 * (z * z).sum(-1) - n / 2 * circle - log


def pdf(x, mean, cov):
    """The density."""
    return jnp.exp(logpdf(x, mean, cov))


explain(globals())
