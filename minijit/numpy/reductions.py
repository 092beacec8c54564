"""More reductions: those that skip NaN, ranges, weighted averages; running sums."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops import cumulative as running
from ..trace import dtypes, primitives
from ..trace.types import Args, Array, ArrayLike, Axis, DTypeLike
from .arguments import canonical_axes, canonical_axis, named, no_out
from .core import (
    arrays, bool_of, convert, in_one_dtype, inf, isnan, like, nan, promote_args_inexact,
    sqrt, strong, to_numeric_dtype,
)
from .elementwise import choose_where
from .making import asarray, concatenate, full_like, inexact_dtype
from .mathematics import conj, real
from .reducing import (
    accumulate_dtype, all, argmax, argmin, checked_mask, max, mean, min, prod, sum,
    variance_dtypes,
)
from .shapes import broadcast_to, expand_dims, ravel, transpose

amax, amin = max, min


def ptp(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False
) -> Array:
    """The greatest value minus the least.  JAX: `jnp.ptp`."""
    no_out("ptp", out)
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many values are not zero.  JAX: `jnp.count_nonzero`."""
    x, = arrays("count_nonzero", a)
    return sum(x != 0, axis, int, keepdims=keepdims)


def ignoring_nan(
    reduction: Callable[Args, Any], value: float, nothing: float | None = None
) -> Callable[Args, Array]:
    """The function that reduces what is not NaN.

    Args:
      reduction: of arrays; its name and its signature are the result's, with "nan" in
        front and without `promote_integers`.
      value: what stands for NaN: what the reduction does not notice.
      nothing: the result where all is NaN and no `initial` is given; None for whatever
        the reduction of `value` is.
    """
    name, signature = f"nan{reduction.__name__}", inspect.signature(reduction)
    kept = [p for p in signature.parameters.values() if p.name != "promote_integers"]
    signature = signature.replace(parameters=kept)

    def function(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        no_out(name, given.get("out"))
        x, = arrays(name, given.pop("a"))
        if x.dtype.kind in "biu":
            return reduction(x, **given)
        missing = isnan(x)
        x = choose_where(missing, like(x, value), x)
        result = reduction(x, **given)
        if nothing is None or given.get("initial") is not None:
            return result
        keepdims = bool_of(given.get("keepdims"))
        all_missing = all(missing, given.get("axis"), keepdims=keepdims)
        return choose_where(all_missing, convert(nothing, result.dtype), result)

    function.__signature__ = signature  # type: ignore[attr-defined]
    text = f"`{reduction.__name__}` of what is not NaN.  JAX: `jnp.{name}`."
    return named(function, name, text)


nanmax, nanmin = ignoring_nan(max, -inf, nan), ignoring_nan(min, inf, nan)
nanargmax, nanargmin = ignoring_nan(argmax, -inf, -1), ignoring_nan(argmin, inf, -1)
nansum, nanprod = ignoring_nan(sum, 0), ignoring_nan(prod, 1)


def nanmean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    keepdims: bool = False, where: ArrayLike | None = None,
) -> Array:
    """`mean` of what is not NaN.  JAX: `jnp.nanmean`."""
    no_out("nanmean", out)
    where = checked_mask("nanmean", where)
    x, = arrays("nanmean", a)
    if x.dtype.kind in "biu":
        return mean(x, axis, dtype, keepdims=keepdims, where=where)
    dtype = inexact_dtype("nanmean", dtype, strong(x))
    options = {"keepdims": keepdims, "where": where}
    n = sum(~isnan(x), axis, dtype, **options)
    return primitives.div(nansum(x, axis, dtype, **options), n)


def nanvar(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    ddof: int = 0, keepdims: bool = False, where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """`var` of what is not NaN.  JAX: `jnp.nanvar`."""
    no_out("nanvar", out)
    where = checked_mask("nanvar", where)
    x, = arrays("nanvar", a)
    work, result = variance_dtypes(x.dtype, dtype)
    x = convert(x, work)
    options = {"keepdims": True, "where": where}
    centre = nanmean(x, axis, work, **options) if mean is None else asarray(mean, work)
    # What is NaN is left out before it is squared: a derivative would be NaN, too.
    distance = choose_where(isnan(x), 0, x - centre)
    if work.kind == "c":
        square = real(distance * conj(distance))
    else:
        square = distance * distance
    n = sum(~isnan(x), axis, keepdims=keepdims, where=where) - ddof
    total = sum(square, axis, keepdims=keepdims, where=where)
    total = choose_where(n <= 0, nan, total)
    n = choose_where(n <= 0, 1, n)
    return convert(total / convert(n, total.dtype), result)


def nanstd(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    ddof: int = 0, keepdims: bool = False, where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """`std` of what is not NaN.  JAX: `jnp.nanstd`."""
    no_out("nanstd", out)
    where = checked_mask("nanstd", where)
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))


def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None,
    returned: bool = False, keepdims: bool = False,
) -> Any:
    """The mean with weights.  JAX: `jnp.average`.

    With `returned`: -> (mean, sum of weights).
    """
    x, = promote_args_inexact("average", a)
    axes = canonical_axes(axis, x.ndim)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        total = convert(math.prod(x.shape[i] for i in axes), result.dtype)
    else:
        x, w = in_one_dtype("average", a, weights, family=dtypes.to_inexact_dtype)
        w = average_weights(x, w, axis, axes)
        total = sum(w, axis, keepdims=keepdims)
        result = sum(x * w, axis, keepdims=keepdims) / total
    return (result, broadcast_to(total, result.shape)) if returned else result


def average_weights(x, w, axis, axes):
    """Weights with an axis for each of x's: of x's shape, or of its axes'."""
    if w.shape == x.shape:
        return w
    if axis is None:
        raise ValueError("Axis must be specified when shapes of a and weights differ.")
    if w.shape != tuple(x.shape[i] for i in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    kept = [i for i in range(x.ndim) if i not in axes]
    return primitives.expand_dims(transpose(w, order), kept)


def apply_over_axes(
    func: Callable[..., Any], a: ArrayLike, axes: Sequence[int]
) -> Array:
    """`func(a, axis)` for one axis after another.  JAX: `jnp.apply_over_axes`."""
    x, = arrays("apply_over_axes", a)
    for axis in axes:
        y = func(x, axis)
        if y.ndim not in (x.ndim, x.ndim - 1):
            raise ValueError("function is not returning an array of the correct shape")
        x = y if y.ndim == x.ndim else expand_dims(y, axis)
    return x


# ---- running sums and products


def cumulative(name, operation, a, axis, dtype, out=None, promote_integers=False):
    """What `cumsum` and its sisters share."""
    no_out(name, out)
    x, = arrays(name, a)
    # Numbers of Python's, and what was made of them.
    if axis is None or (x.ndim == 0 and x.weak_type):
        x, axis = ravel(x), axis or 0
    axis = canonical_axis(axis, x.ndim)
    if dtype is not None:
        result = work = dtypes.user_dtype(dtype, name)
        x = x != 0 if result == np.bool_ else x
        work = to_numeric_dtype(work)
    elif promote_integers or x.dtype == np.bool_:
        _, result = accumulate_dtype(x.dtype, name, None)
        work = result
    else:
        work = result = x.dtype
    return convert(operation(convert(x, work), axis), result)


def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Each sum of the values so far.  JAX: `jnp.cumsum`."""
    return cumulative("cumsum", running.cumsum, a, axis, dtype, out)


def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Each product of the values so far.  JAX: `jnp.cumprod`."""
    return cumulative("cumprod", running.cumprod, a, axis, dtype, out)


nancumsum, nancumprod = ignoring_nan(cumsum, 0), ignoring_nan(cumprod, 1)


def cumulative_of(name, operation, x, axis, dtype, first, promote_integers):
    """The array API's cumulative functions, which may begin with that of nothing."""
    x, = arrays(name, x)
    if x.ndim == 0:
        raise ValueError(f"The input of {name} must be non-scalar, got a scalar.")
    if axis is None and x.ndim > 1:
        raise ValueError(
            f"The input array has rank {x.ndim}, however axis was not set to an "
            "explicit value. It is only optional for one-dimensional arrays."
        )
    axis = canonical_axis(0 if axis is None else axis, x.ndim)
    rest = cumulative(name, operation, x, axis, dtype, None, promote_integers)
    if first is None:
        return rest
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return concatenate([full_like(rest, first, shape=shape), rest], axis)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """As `cumsum`, in wide integers; may begin with 0.  JAX: same name."""
    first = 0 if include_initial else None
    return cumulative_of("cumulative_sum", running.cumsum, x, axis, dtype, first, True)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """As `cumprod`; may begin with 1.  JAX: `jnp.cumulative_prod`."""
    options = (axis, dtype, 1 if include_initial else None, False)
    return cumulative_of("cumulative_prod", running.cumprod, x, *options)
