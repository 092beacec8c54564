"""More reductions: those that skip NaN, ranges, weighted averages."""

import math

from ..trace import dtypes, primitives
from .arguments import canonical_axes, check_arraylike, no_out
from .core import (
    all,
    argmax,
    argmin,
    arrays,
    asarray,
    bool_of,
    broadcast_to,
    choose_where,
    convert,
    expand_dims,
    inexact_dtype,
    inf,
    isnan,
    max,
    mean,
    min,
    nan,
    prod,
    promote_args_inexact,
    promote_dtypes,
    sqrt,
    strong,
    sum,
    transpose,
    variance_dtypes,
)
from .mathematics import conj, real

amax, amin = max, min


def ptp(a, axis=None, out=None, keepdims=False):
    """The greatest value minus the least.  JAX: `jnp.ptp`."""
    no_out("ptp", out)
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


def count_nonzero(a, axis=None, keepdims=False):
    """How many values are not zero.  JAX: `jnp.count_nonzero`."""
    x, = arrays("count_nonzero", a)
    return sum(x != 0, axis, int, keepdims=keepdims)


def without_nans(name, a, value, reduction, *args, **options):
    """A reduction with `value` in place of NaN, and where all were NaN."""
    x, = arrays(name, a)
    if x.dtype.kind in "biu":
        return reduction(x, *args, **options), None
    missing = isnan(x)
    x = choose_where(missing, convert(value, x.dtype), x)
    return reduction(x, *args, **options), missing


def nanmax(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """`max` of what is not NaN; NaN if nothing is.  JAX: `jnp.nanmax`."""
    options = (axis, out, keepdims, initial, where)
    result, missing = without_nans("nanmax", a, -inf, max, *options)
    return nan_where_all(result, missing, axis, keepdims, initial)


def nanmin(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """`min` of what is not NaN; NaN if nothing is.  JAX: `jnp.nanmin`."""
    options = (axis, out, keepdims, initial, where)
    result, missing = without_nans("nanmin", a, inf, min, *options)
    return nan_where_all(result, missing, axis, keepdims, initial)


def nan_where_all(result, missing, axis, keepdims, initial):
    """NaN where everything was missing."""
    if missing is None or initial is not None:
        return result
    nothing = all(missing, axis, keepdims=keepdims)
    return choose_where(nothing, convert(nan, result.dtype), result)


def nansum(
    a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None
):
    """`sum` of what is not NaN.  JAX: `jnp.nansum`."""
    options = (axis, dtype, out, keepdims, initial, where)
    return without_nans("nansum", a, 0, sum, *options)[0]


def nanprod(
    a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None
):
    """`prod` of what is not NaN.  JAX: `jnp.nanprod`."""
    options = (axis, dtype, out, keepdims, initial, where)
    return without_nans("nanprod", a, 1, prod, *options)[0]


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, where=None):
    """`mean` of what is not NaN.  JAX: `jnp.nanmean`."""
    no_out("nanmean", out)
    x, = arrays("nanmean", a)
    if x.dtype.kind in "biu":
        return mean(x, axis, dtype, keepdims=keepdims, where=where)
    dtype = inexact_dtype("nanmean", dtype, strong(x))
    options = {"keepdims": keepdims, "where": where}
    n = sum(~isnan(x), axis, dtype, **options)
    return primitives.div(nansum(x, axis, dtype, **options), n)


def nanvar(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None
):
    """`var` of what is not NaN.  JAX: `jnp.nanvar`."""
    no_out("nanvar", out)
    x, = arrays("nanvar", a)
    work, result = variance_dtypes(x.dtype, dtype)
    x = convert(x, work)
    options = {"keepdims": True, "where": where}
    centre = nanmean(x, axis, work, **options) if mean is None else asarray(mean, work)
    distance = x - centre
    if work.kind == "c":
        square = real(distance * conj(distance))
    else:
        square = distance * distance
    square = choose_where(isnan(x), 0, square)
    n = sum(~isnan(x), axis, keepdims=keepdims, where=where) - ddof
    total = sum(square, axis, keepdims=keepdims, where=where)
    total = choose_where(n <= 0, nan, total)
    n = choose_where(n <= 0, 1, n)
    return convert(total / convert(n, total.dtype), result)


def nanstd(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None
):
    """`std` of what is not NaN.  JAX: `jnp.nanstd`."""
    no_out("nanstd", out)
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))


def nan_argument(name, find, a, axis, out, keepdims, value):
    """What `nanargmax` and `nanargmin` share: -1 where all is NaN."""
    no_out(name, out)
    x, = arrays(name, a)
    if x.dtype.kind in "biu":
        return find(x, axis, keepdims=keepdims)
    missing = isnan(x)
    found = find(choose_where(missing, value, x), axis, keepdims=keepdims)
    return choose_where(all(missing, axis, keepdims=bool_of(keepdims)), -1, found)


def nanargmax(a, axis=None, out=None, keepdims=None):
    """`argmax` of what is not NaN; -1 if nothing is.  JAX: `jnp.nanargmax`."""
    return nan_argument("nanargmax", argmax, a, axis, out, keepdims, -inf)


def nanargmin(a, axis=None, out=None, keepdims=None):
    """`argmin` of what is not NaN; -1 if nothing is.  JAX: `jnp.nanargmin`."""
    return nan_argument("nanargmin", argmin, a, axis, out, keepdims, inf)


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    """The mean with weights.  JAX: `jnp.average`.

    With `returned`: -> (mean, sum of weights).
    """
    x, = promote_args_inexact("average", a)
    axes = canonical_axes(axis, x.ndim)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        total = convert(math.prod(x.shape[i] for i in axes), result.dtype)
    else:
        check_arraylike("average", a, weights)
        x, w = promote_dtypes([a, weights], dtypes.to_inexact_dtype)
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


def apply_over_axes(func, a, axes):
    """`func(a, axis)` for one axis after another.  JAX: `jnp.apply_over_axes`."""
    x, = arrays("apply_over_axes", a)
    for axis in axes:
        y = func(x, axis)
        if y.ndim not in (x.ndim, x.ndim - 1):
            raise ValueError("function is not returning an array of the correct shape")
        x = y if y.ndim == x.ndim else expand_dims(y, axis)
    return x
