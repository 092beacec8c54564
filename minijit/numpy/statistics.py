"""Quantiles, histograms and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops import complex_numbers
from ..trace import dtypes, primitives
from ..trace.types import Array, ArrayLike, Axis, DTypeLike
from .arguments import (
    canonical_axes, check_arraylike, concrete, static, static_int, tell_of_batches,
)
from .calculus import diff
from .contracting import dot
from .core import (
    absolute, arrays, bool_of, convert, divide, in_one_dtype, isnan, maximum, minimum,
    nan, np_shape, promote_args_inexact, promote_dtypes, sqrt,
)
from .creation import diag, indices, ix_
from .elementwise import choose_where
from .making import (
    asarray, concatenate, full, linspace, ones_like, stack, zeros, zeros_like,
)
from .mathematics import ceil, clip, conj, floor, imag, real
from .rearranging import atleast_2d
from .reducing import any, max, min, sum
from .reductions import average, cumsum
from .shapes import broadcast_to, reshape, squeeze, transpose
from .sorting import bincount, searchsorted, sort, sort_together
from .take_and_put import ravel_multi_index


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """In which bin each value falls; bins may go down.  JAX: `jnp.digitize`."""
    x, bins = arrays("digitize", x, bins)
    right = bool_of(concrete(right, "the argument 'right' of jnp.digitize", static))
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got {bins=}")
    if bins.shape[0] == 0:
        return zeros_like(x, dtype=np.int32)
    options = {"side": "left" if right else "right", "method": method or "scan"}
    up = searchsorted(bins, x, **options)
    down = bins.shape[0] - searchsorted(bins[::-1], x, **options)
    return choose_where(bins[-1] >= bins[0], up, down)


def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: Any = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges of equal bins over the data's range.  JAX: same name."""
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    x, edges = arrays("histogram_bin_edges", a, bins)
    dtype = dtypes.to_inexact_dtype(x.dtype)
    if edges.ndim == 1:
        return asarray(edges, dtype)
    count = static_int(bins, "the argument 'bins' of jnp.histogram_bin_edges")
    if range is not None and (not hasattr(range, "__len__") or len(range) != 2):
        raise ValueError(
            f"histogram_bin_edges: range must be a pair (low, high), got {range}"
        )
    low, high = [min(x), max(x)] if range is None else range
    low, high = asarray(low, dtype), asarray(high, dtype)
    empty_range = low == high
    low = choose_where(empty_range, low - 0.5, low)
    high = choose_where(empty_range, high + 0.5, high)
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: ArrayLike, bins: ArrayLike = 10, range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None, density: bool | None = None,
) -> tuple[Array, Array]:
    """-> (how many values fall in each bin, the bins' edges).  JAX: same name."""
    x, = promote_args_inexact("histogram", a)
    weights = ones_like(x) if weights is None else weights
    if x.shape != np_shape(weights):
        raise ValueError("weights should have the same shape as a.")
    x, weights = promote_args_inexact("histogram", x, weights)
    edges = histogram_bin_edges(x, bins, range, weights)
    i = searchsorted(edges, x, side="right")
    i = choose_where(x == edges[-1], edges.shape[0] - 1, i)
    counts = zeros(edges.shape[0], weights.dtype).at[i].add(weights)[1:]
    if density:
        counts = counts / diff(edges) / sum(counts)
    return counts, edges


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None,
    weights: ArrayLike | None = None, density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """-> (counts, x edges, y edges).  JAX: `jnp.histogram2d`."""
    x, y = arrays("histogram2d", x, y)
    several = len(bins) if hasattr(bins, "__len__") else 1
    bins = bins if several in (1, 2) else [asarray(bins)] * 2
    sample = stack([x, y], axis=1)
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: ArrayLike, bins: Any = 10, range: Any = None,
    weights: ArrayLike | None = None, density: bool | None = None,
) -> Any:
    """-> (counts, a list of edges), of points in several dimensions.  JAX: same name.

    Args:
      sample: [points, dimensions].
    """
    sample, = promote_args_inexact("histogramdd", sample)
    if weights is not None:
        sample, weights = promote_dtypes([sample, weights], dtypes.to_inexact_dtype)
        if weights.shape != sample.shape[:1]:
            raise ValueError("should have one weight for each sample.")
    if sample.ndim != 2:
        raise ValueError(f"histogramdd: sample must be 2-d, got {sample.shape}")
    rank = sample.shape[1]
    bins = list(bins) if hasattr(bins, "__len__") else [bins] * rank
    ranges = [None] * rank if range is None else list(range)
    if len(bins) != rank or len(ranges) != rank:
        raise ValueError("should be a bin and a range for each dimension.")
    edges, places = [], []
    for x, count, limits in zip(sample.T, bins, ranges, strict=True):
        edges.append(histogram_bin_edges(x, count, limits, weights))
        i = searchsorted(edges[-1], x, side="right")
        places.append(choose_where(x == edges[-1][-1], i - 1, i))
    sizes = tuple(e.shape[0] + 1 for e in edges)
    flat = ravel_multi_index(tuple(places), sizes, mode="clip")
    counts = bincount(flat, weights, length=math.prod(sizes))
    counts = reshape(counts, sizes)[(slice(1, -1),) * rank]
    if density:
        counts = convert(counts, sample.dtype)
        counts = counts / sum(counts)
        for widths in ix_(*map(diff, edges)):
            counts = counts / widths
    return counts, edges


def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The values below which parts `q` of the data lie.  JAX: `jnp.quantile`.

    Args:
      q: numbers from 0 to 1; with one axis, that is the result's first.
      method: "linear", "lower", "higher", "midpoint", "nearest" or "inverted_cdf".
      weights: of each value, for "inverted_cdf" only.
    """
    options = (axis, method, keepdims, weights)
    return quantiles("quantile", a, q, out, overwrite_input, False, *options)


def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """`quantile` of what is not NaN.  JAX: `jnp.nanquantile`."""
    options = (axis, method, keepdims, weights)
    return quantiles("nanquantile", a, q, out, overwrite_input, True, *options)


def quantiles(name, a, q, out, overwrite, skip_nans, axis, method, keepdims, weights):
    """What `quantile` and `nanquantile` share."""
    a, q = arrays(name, a, q)
    if overwrite or out is not None:
        raise ValueError(
            f"jax.numpy.{name} does not support overwrite_input=True or out != None"
        )
    methods = ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"]
    if method not in methods:
        raise ValueError(f"method can only be one of {methods}, got {method!r}")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' does."
        )
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    x, = promote_args_inexact(name, a)
    if x.dtype.kind == "c":
        raise ValueError("quantile does not support complex input: it has no order.")
    axes = canonical_axes(axis, x.ndim)
    if method == "inverted_cdf":
        result = weighted_quantiles(x, q, axes, weights, skip_nans)
    else:
        result = sorted_quantiles(axes_last(x, axes), q, method, skip_nans)
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    result = reshape(result, (*q.shape, *kept)) if keepdims else result
    return convert(result, x.dtype)


def axes_last(x, axes):
    """The axes moved to the end and joined to one."""
    others = [i for i in range(x.ndim) if i not in axes]
    sizes = [x.shape[i] for i in others]
    size = math.prod(x.shape[i] for i in axes)
    return reshape(transpose(x, (*others, *axes)), (*sizes, size))


def sorted_quantiles(x, q, method, skip_nans):
    """Quantiles along the last axis, read between neighbours of the sorted values."""
    missing = isnan(x)
    if not skip_nans:
        x = choose_where(any(missing, axis=-1, keepdims=True), nan, x)
    x = sort(x)
    q = convert(q, dtypes.to_inexact_dtype(q.dtype))
    n = x.shape[-1] if not skip_nans else sum(~missing, axis=-1, dtype=q.dtype)
    last = convert(n, q.dtype) - 1
    shape = q.shape + x.shape[:-1]
    q = reshape(q, q.shape + (1,) * (x.ndim - 1))
    place, last = q * last, broadcast_to(last, shape)
    low, high = floor(place), ceil(place)
    above = place - low
    low, high = [
        convert(maximum(0, minimum(i, last)), dtypes.default_dtype("signed"))
        for i in (low, high)
    ]
    grid = indices(x.shape[:-1], sparse=True)
    low, high = [x[(*grid, broadcast_to(i, shape))] for i in (low, high)]
    return between(method, low, high, above)


def between(method, low, high, above):
    """A value between two neighbours, by a part `above` from the lower one."""
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "nearest":
        return choose_where(above <= 0.5, low, high)
    if method == "midpoint":
        return (low + high) * 0.5
    work = above.dtype
    return convert(low, work) * (1 - above) + convert(high, work) * above


def weighted_quantiles(x, q, axes, weights, skip_nans):
    """The least values whose weights, with all below, reach the parts q."""
    w = ones_like(x) if weights is None else weights_like(x, axes, weights)
    x, w = promote_dtypes([x, w])
    x, w = axes_last(x, axes), axes_last(w, axes)
    missing = isnan(x)
    bad = any((w < 0) | isnan(w), axis=-1)
    w = choose_where(missing | (w < 0) | isnan(w), 0, w)
    x, w = sort_together(x, w)
    total = cumsum(w, axis=-1)
    target = reshape(q, q.shape + (1,) * x.ndim) * total[..., -1:]
    place = sum(convert(total < target, np.int32), axis=-1)
    valid = sum(~missing, axis=-1) if skip_nans else convert(x.shape[-1], np.int32)
    place = maximum(0, minimum(place, valid - 1))
    grid = indices(x.shape[:-1], sparse=True)
    result = x[(*grid, broadcast_to(place, q.shape + x.shape[:-1]))]
    unknown = valid == 0 if skip_nans else any(missing, axis=-1)
    return choose_where(bad | unknown, nan, result)


def weights_like(x, axes, weights):
    """Weights broadcast to the shape of x: of that shape, or of its axes' shape."""
    weights, = promote_args_inexact("quantile", weights)
    if weights.dtype.kind == "c":
        raise ValueError("Weights cannot be complex types.")
    if weights.shape == x.shape:
        return weights
    if weights.shape != tuple(x.shape[i] for i in axes) or len(axes) == x.ndim:
        raise ValueError(
            f"Weights shape {weights.shape} must match the shape {x.shape} of a, or "
            "the axes that are reduced"
        )
    return primitives.broadcast_in_dim(weights, x.shape, axes)


def percentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """As `quantile`, with q from 0 to 100.  JAX: `jnp.percentile`."""
    check_arraylike("percentile", a, q)
    q, = promote_args_inexact("percentile", q)
    options = (axis, out, overwrite_input, method, keepdims)
    return quantile(a, q / 100, *options, weights=weights)


def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
    weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """`percentile` of what is not NaN.  JAX: `jnp.nanpercentile`."""
    check_arraylike("nanpercentile", a, q)
    q, = promote_args_inexact("nanpercentile", q)
    options = (axis, out, overwrite_input, method, keepdims)
    return nanquantile(a, q / 100, *options, weights=weights)


def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The value in the middle.  JAX: `jnp.median`."""
    check_arraylike("median", a)
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """`median` of what is not NaN.  JAX: `jnp.nanmedian`."""
    check_arraylike("nanmedian", a)
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False,
    ddof: int | None = None, fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None, dtype: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """The covariance matrix of variables, a row each.  JAX: `jnp.cov`."""
    x = variables("cov", m, y, rowvar)
    if dtype is not None:
        x = convert(x, real_dtype("cov", dtype))
    if x.shape[0] == 0:
        return zeros((0, 0))
    if x.shape[1] == 0:
        return squeeze(full((x.shape[0],) * 2, nan, x.dtype))
    ddof = int(not bias) if ddof is None else ddof
    w = sample_weights(x, fweights, aweights)
    w = w if w is None or dtype is None else convert(w, x.dtype)
    centre, total = average(x, 1, w, returned=True)
    total = total[0]
    if w is None:
        n = x.shape[1] - ddof
    elif aweights is None or ddof == 0:
        n = total - ddof
    else:
        n = total - ddof * sum(w * absolute(aweights)) / total
    x = x - centre[:, None]
    weighted = x if w is None else x * w
    return squeeze(dot(x, conj(weighted.T)) / n)


def variables(name, m, y, rowvar):
    """The variables of `cov` as the rows of a matrix."""
    args = [m] if y is None else [m, y]
    args = in_one_dtype(name, *args, family=dtypes.to_inexact_dtype)
    tell_of_batches(name, *((x, 0) for x in args))
    rows = []
    for x in args:
        if x.ndim > 2:
            raise ValueError(f"an argument of {name} has more than 2 dimensions")
        flat = x.ndim == 1
        x = atleast_2d(x)
        rows.append(x if rowvar or flat or (rows and x.shape[0] == 1) else x.T)
    return concatenate(rows, 0) if len(rows) > 1 else rows[0]


def real_dtype(name, dtype):
    """A dtype asked for that must be floating or complex."""
    dtype = dtypes.user_dtype(dtype, name)
    if dtype.kind in "biu":
        raise ValueError(
            f"{name}: dtype must be a subclass of float or complex; got {dtype}"
        )
    return dtype


def sample_weights(x, fweights, aweights):
    """The weight of each sample, or None."""
    w = None
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        weights, = arrays("cov", weights)
        if weights.ndim > 1 or weights.shape[0] != x.shape[1]:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and weights.dtype.kind not in "iu":
            raise TypeError("fweights must be integer.")
        w = absolute(weights) if w is None else w * absolute(weights)
    return w


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True,
    dtype: DTypeLike | None = None,
) -> Array:
    """The correlation matrix of variables, a row each.  JAX: `jnp.corrcoef`."""
    if dtype is not None:
        real_dtype("corrcoef", dtype)
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return divide(c, c)
    deviation = convert(sqrt(real(diag(c))), c.dtype)
    c = c / deviation[:, None] / deviation
    if c.dtype.kind != "c":
        return clip(c, -1, 1)
    return complex_numbers.complex(clip(real(c), -1, 1), clip(imag(c), -1, 1))
