"""Distributions of vectors, each of them a module: `stats.dirichlet`."""

import numpy as np

from ... import numpy as jnp
from ...numpy.core import check_inexact, promote_dtypes
from ...trace import dtypes
from ...trace.dtypes import to_inexact_dtype
from ..linalg import solve_triangular
from ..special import gammaln, xlogy
from .common import of_vectors, outside, promoted


@of_vectors
def dirichlet():
    """The distribution of Dirichlet, of points x with x > 0 and sum(x) = 1."""

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
                "`x` must have either the same number of entries as `alpha` or one "
                f"entry fewer; got x.shape={x.shape}, alpha.shape={alpha.shape}"
            )
        if x.shape[0] != n:
            x = jnp.concatenate([x, 1 - x.sum(0, keepdims=True)])
        constant = gammaln(alpha).sum() - gammaln(alpha.sum())
        powers = alpha.reshape(n, *[1] * (x.ndim - 1)) - 1
        is_share = (x > 0).all(0) & (jnp.abs(x.sum(0) - 1) < 1e-6)
        return outside(~is_share, xlogy(powers, x).sum(0) - constant)

    return locals()


@of_vectors
def multinomial():
    """How often each of several outcomes comes in n throws."""

    def logpmf(x, n, p):
        """log(n!) + the sum of x log(p) - log(x!).

        Args:
          x: integers [..., k], whose sum is n; p: [..., k] or [k], probabilities.
        """
        p, = promoted("multinomial.logpmf", p)
        x, n = jnp.asarray(x), jnp.asarray(n)
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise ValueError(
                f"x and n must be of integer type; got x.dtype={x.dtype}, "
                f"n.dtype={n.dtype}"
            )
        x, n = x.astype(p.dtype), n.astype(p.dtype)
        log = gammaln(n + 1) + (xlogy(x, p) - gammaln(x + 1)).sum(-1)
        return outside(x.sum() != n, log)

    return locals()


@of_vectors
def multivariate_normal():
    """Normal distributions of vectors."""

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
        return jnp.exp(logpdf(x, mean, cov))

    return locals()
