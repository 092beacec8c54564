"""Densities of samples: `gaussian_kde`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import numpy as jnp
from ...numpy.arguments import check_arraylike
from ...numpy.core import promote_dtypes
from ...trace import dtypes
from ...trace.trees.pytree import register_pytree_node_class
from ...transform.batching.vmap import vmap
from .. import linalg, special


@register_pytree_node_class
@dataclass(frozen=True, init=False, slots=True)
class gaussian_kde:
    """A normal bump around each sample.  JAX: `jax.scipy.stats.gaussian_kde`.

    Args:
      dataset: samples [n], or [d, n] of d dimensions.
      bw_method: how wide the bumps are: "scott" (the default), "silverman", a number,
        or a function that makes a number of this object.
      weights: [n], of the samples.
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset, bw_method=None, weights=None):
        check_arraylike("gaussian_kde", dataset)
        dataset = jnp.atleast_2d(dataset)
        if dtypes.issubdtype(dataset.dtype, np.complexfloating):
            raise NotImplementedError("gaussian_kde does not support complex data")
        if not dataset.size > 1:
            raise ValueError("`dataset` input should have multiple elements.")
        d, n = dataset.shape
        if weights is None:
            dataset, = promote_dtypes((dataset,), dtypes.to_inexact_dtype)
            weights = jnp.full(n, 1.0 / n, dataset.dtype)
        else:
            check_arraylike("gaussian_kde", weights)
            both = dataset, jnp.atleast_1d(weights)
            dataset, weights = promote_dtypes(both, dtypes.to_inexact_dtype)
            if weights.ndim != 1:
                raise ValueError("`weights` input should be one-dimensional.")
            if len(weights) != n:
                raise ValueError("`weights` input should be of length n")
            weights = weights / weights.sum()
        self._set(dataset=dataset, weights=weights, neff=1 / (weights**2).sum())
        factor = self._factor("scott" if bw_method is None else bw_method)
        of_data = jnp.cov(dataset, rowvar=1, bias=False, aweights=weights)
        of_data = jnp.atleast_2d(of_data)
        self._set(
            covariance=of_data * factor**2, inv_cov=jnp.linalg.inv(of_data) / factor**2
        )

    def _set(self, **fields):
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _factor(self, bw_method):
        power = -1.0 / (self.d + 4)
        if isinstance(bw_method, str) and bw_method == "scott":
            return self.neff**power
        if isinstance(bw_method, str) and bw_method == "silverman":
            return (self.neff * (self.d + 2) / 4.0) ** power
        if not isinstance(bw_method, str) and jnp.isscalar(bw_method):
            return bw_method
        if callable(bw_method):
            return bw_method(self)
        raise ValueError(
            "`bw_method` should be 'scott', 'silverman', a scalar, or a callable."
        )

    def tree_flatten(self):
        fields = self.neff, self.dataset, self.weights, self.covariance, self.inv_cov
        return fields, None

    @classmethod
    def tree_unflatten(cls, aux_data, children):
        kde = cls.__new__(cls)
        names = "neff dataset weights covariance inv_cov".split()
        kde._set(**dict(zip(names, children, strict=True)))
        return kde

    @property
    def d(self):
        """How many dimensions there are."""
        return self.dataset.shape[0]

    @property
    def n(self):
        """How many samples there are."""
        return self.dataset.shape[1]

    def _points(self, points):
        check_arraylike("evaluate", points)
        points = jnp.atleast_2d(points)
        if dtypes.issubdtype(points.dtype, np.complexfloating):
            raise NotImplementedError(
                "gaussian_kde does not support complex coordinates"
            )
        d, m = points.shape
        if d == self.d:
            return points
        if d == 1 and m == self.d:
            return points.reshape(self.d, 1)
        raise ValueError(f"points have dimension {d}, dataset has dimension {self.d}")

    def logpdf(self, x):
        """The logarithms of the density at points [m] or [d, m]."""
        x = self._points(x)
        whitening = jnp.linalg.cholesky(self.inv_cov)
        log = jnp.log(jnp.diag(whitening)).sum() - self.d / 2 * np.log(2 * np.pi)
        samples, points = self.dataset.T @ whitening, x.T @ whitening
        gaps = jnp.square(points[:, None] - samples).sum(-1)
        return special.logsumexp(log - gaps / 2, -1, b=self.weights[None])

    def evaluate(self, points):
        """The density at points [m] or [d, m]."""
        return jnp.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    def _convolved(self, factor, mean):
        """The sum of the bumps with this covariance, around the samples, at `mean`."""
        gaps = self.dataset - mean[:, None]
        squares = (gaps * linalg.cho_solve(factor, gaps)).sum(0)
        norm = np.sqrt(2 * np.pi) ** self.d * jnp.prod(jnp.diag(factor[0]))
        return (jnp.exp(-squares / 2) * self.weights).sum() / norm

    def integrate_gaussian(self, mean, cov):
        """The integral of the density times a normal one."""
        mean, cov = jnp.atleast_1d(jnp.squeeze(mean)), jnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if cov.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return self._convolved(linalg.cho_factor(self.covariance + cov), mean)

    def integrate_box_1d(self, low, high):
        """The probability of a value between two numbers, of one dimension."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if np.ndim(low) != 0 or np.ndim(high) != 0:
            raise ValueError(
                "the limits of integration in integrate_box_1d must be scalars"
            )
        sigma = jnp.sqrt(self.covariance)[0, 0]
        share = lambda x: special.ndtr((x - self.dataset[0]) / sigma)
        return (self.weights * (share(high) - share(low))).sum()

    def integrate_kde(self, other):
        """The integral of the product with another density of samples."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        factor = linalg.cho_factor(self.covariance + other.covariance)
        small, large = (self, other) if self.n < other.n else (other, self)
        found = vmap(lambda mean: large._convolved(factor, mean), 1)(small.dataset)
        return (found * small.weights).sum()

    def resample(self, key, shape=()):
        """Random numbers of this density, [d, *shape]."""
        # The distributions beside this one have no use for it.
        from ... import random

        which, how = random.split(key)
        index = random.choice(which, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.covariance.dtype)
        moved = random.multivariate_normal(
            how, zero, self.covariance, shape=shape, dtype=self.dataset.dtype
        )
        return self.dataset[:, index] + moved.T

    def integrate_box(self, low_bounds, high_bounds, maxpts=None):
        """Refused, as JAX does."""
        raise NotImplementedError(
            "only 1D box integrations are supported; use `integrate_box_1d`"
        )

    def set_bandwidth(self, bw_method=None):
        """Refused, as JAX does."""
        raise NotImplementedError(
            "dynamically changing the bandwidth method is not supported"
        )
