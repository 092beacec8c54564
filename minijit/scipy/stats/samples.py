"""What samples say: their mode, their ranks, the error of their mean."""

import math
from typing import Any, NamedTuple

import numpy as np

from ... import numpy as jnp
from ...numpy.arguments import canonical_axis, check_arraylike
from ...transform.batching.vmap import vmap
from .common import promoted


class ModeResult(NamedTuple):
    """The most frequent values, and how often they come."""

    mode: Any
    count: Any


def check_policy(nan_policy, name):
    """Only "propagate" can be kept: whether there is a NaN is not known under jit."""
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(
            f"Illegal nan_policy value {nan_policy!r}; expected one of "
            "{'propagate', 'omit', 'raise'}"
        )
    if nan_policy == "omit":
        raise NotImplementedError(
            f"Logic for `nan_policy` of {nan_policy} is not implemented"
        )
    if nan_policy == "raise":
        raise NotImplementedError(
            f"In order to best JIT compile `{name}`, we cannot know whether `x` "
            "contains nans. Please check if nans exist in `x` outside of the "
            f"`{name}` function."
        )


def mode(a, axis=0, nan_policy="propagate", keepdims=False):
    """The most frequent values along an axis (None: of all); of several the least."""
    check_arraylike("mode", a)
    check_policy(nan_policy, "mode")
    x = jnp.atleast_1d(a)
    kept = [1] * x.ndim if keepdims else []
    if axis is None:
        x, axis = x.ravel(), 0
    else:
        axis = canonical_axis(axis, x.ndim)
        kept = [*x.shape[:axis], *[1] * bool(keepdims), *x.shape[axis + 1 :]]
    rows = jnp.moveaxis(x, axis, -1).reshape(math.prod(kept), x.shape[axis])
    if not rows.shape[1]:
        return ModeResult(jnp.full(kept, np.nan), jnp.zeros(kept))

    def of_row(row):
        values, counts = jnp.unique(row, return_counts=True, size=row.size)
        return values[jnp.argmax(counts)], counts.max()

    values, counts = vmap(of_row)(rows)
    return ModeResult(values.reshape(kept), counts.reshape(kept))


def rankdata(a, method="average", *, axis=None, nan_policy="propagate"):
    """The place of each element in the sorted order, from 1; all NaN if one is NaN.

    Args:
      method: which place equal elements have: "average", "min", "max", "dense" (places
        without gaps), "ordinal" (in the order in which they stand).
      axis: along which; None: a flat array comes out.
    """
    check_arraylike("rankdata", a)
    check_policy(nan_policy, "rankdata")
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"unknown method '{method}'")
    if axis is not None:
        return jnp.apply_along_axis(rankdata, axis, a, method)
    a = jnp.ravel(jnp.asarray(a))
    if not a.size:
        return jnp.zeros(0)
    dtype = jnp.zeros(0).dtype
    order = jnp.argsort(a)
    place = jnp.argsort(order)
    if method == "ordinal":
        ranks = place + 1
    else:
        ordered = a[order]
        is_new = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])
        dense = jnp.cumsum(is_new)[place]
        ends = jnp.nonzero(is_new, size=a.size + 1, fill_value=a.size)[0].astype(dtype)
        low, high = ends[dense - 1] + 1, ends[dense]
        ranks = {"dense": dense, "min": low, "max": high, "average": (low + high) / 2}[
            method
        ]
    return jnp.where(jnp.isnan(a).any(), np.nan, ranks).astype(dtype)


def sem(a, axis=0, ddof=1, nan_policy="propagate", *, keepdims=False):
    """The standard error of the mean; "omit": NaN are left out."""
    x, = promoted("sem", a)
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"{nan_policy} is not supported")
    if nan_policy == "omit":
        count = (~jnp.isnan(x)).sum(axis, keepdims=keepdims).astype(x.dtype)
        return jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count)
    size = x.size if axis is None else x.shape[axis]
    root = np.sqrt(size).astype(x.dtype)
    return x.std(axis, ddof=ddof, keepdims=keepdims) / root
