"""More reductions: those that skip NaN, ranges, weighted averages."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..trace import dtypes, primitives
from ..trace.types import Args, Array, ArrayLike, Axis, DTypeLike
from .arguments import canonical_axes, no_out
from .core import (
    arrays,
    bool_of,
    convert,
    in_one_dtype,
    inf,
    isnan,
    like,
    nan,
    promote_args_inexact,
    sqrt,
    strong,
)
from .elementwise import choose_where
from .making import asarray, inexact_dtype
from .mathematics import conj, real
from .reducing import (
    all,
    argmax,
    argmin,
    checked_mask,
    max,
    mean,
    min,
    prod,
    sum,
    variance_dtypes,
)
from .shapes import broadcast_to, expand_dims, transpose

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

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{reduction.__name__}` of what is not NaN.  JAX: `jnp.{name}`."
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


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
