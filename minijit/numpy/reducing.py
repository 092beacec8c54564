"""Reductions: sums, extrema, means and variances over axes."""

from __future__ import annotations

import math

import numpy as np

from ..trace import dtypes, primitives
from ..trace.types import Array, ArrayLike, Axis, DTypeLike
from .arguments import canonical_axes, canonical_axis, no_out
from .core import (
    add, arrays, as_array, bitwise_and, bitwise_or, convert, greater, maximum, minimum,
    multiply, nan, promote_shapes, sqrt, strong, subtract, to_numeric_dtype,
)
from .elementwise import choose_where, isclose
from .making import asarray
from .shapes import broadcast_to, expand_dims, ravel

# Each reduction: what it is by primitives, and the operation on two values.
reductions = {
    "sum": (primitives.monoids[primitives.add], add),
    "prod": (primitives.monoids[primitives.mul], multiply),
    "max": (primitives.monoids[primitives.max], maximum),
    "min": (primitives.monoids[primitives.min], minimum),
    "all": (primitives.monoids[primitives.bitwise_and], bitwise_and),
    "any": (primitives.monoids[primitives.bitwise_or], bitwise_or),
}


def reduce(name, x, axis, out, keepdims, initial=None, where=None, dtype=None):
    """Reduce `x` along axes by the row `name` of `reductions`."""
    if out is not None:
        no_out(name, out)
    monoid, combine = reductions[name]
    rank = len(x.aval.shape)
    axes = tuple(range(rank)) if axis is None else canonical_axes(axis, rank)
    if initial is None and name in ("max", "min"):
        needs_identity(name, x.aval.shape, axes, where)
    if where is not None:
        x = masked(name, x, where, monoid.identity(x.dtype))
    result = monoid.reduce.primitive.bind(x, axes=axes)
    if initial is not None:
        result = combine(convert(initial, result.dtype), result)
    return expand_dims(result, axes) if keepdims and axes else result


def needs_identity(name, shape, axes, where):
    """`max` and `min` of nothing have no value: raise for them."""
    if where is not None:
        raise ValueError(
            f"reduction operation {name} does not have an identity, so to use a where "
            "mask one has to specify 'initial'"
        )
    if 0 in shape and 0 in [shape[i] for i in axes]:
        raise ValueError(
            f"zero-size array to reduction operation {name} which has no identity"
        )


def masked(name, x, mask, value):
    """`x` with `value` where a mask of bools does not hold."""
    return choose_where(checked_mask(name, mask), x, convert(value, x.dtype))


def checked_mask(name, mask):
    """The argument `where` of a reduction, or an error that names the reduction."""
    if mask is None:
        return None
    mask, = arrays(name, mask)
    if mask.dtype != np.bool_:
        raise ValueError(
            f"jnp.{name}: where must be None or a boolean array; got "
            f"where.dtype={mask.dtype}."
        )
    return mask


def accumulate_dtype(dtype, name, asked, promote_integers=True):
    """-> (dtype to compute in, dtype of the result) of a sum or product."""
    if asked is not None:
        asked = dtypes.user_dtype(asked, name)
        return asked, asked
    dtype = to_numeric_dtype(dtype)
    if promote_integers and dtype.kind in "iu":
        default = dtypes.default_dtype("signed" if dtype.kind == "i" else "unsigned")
        dtype = default if dtype.itemsize < default.itemsize else dtype
    # Sums of 16-bit floats are kept in 32 bits and rounded once.
    half = dtype.itemsize == 2 and dtype.kind in ("f", "V")
    return np.dtype(np.float32) if half else dtype, dtype


# What a sum or a product of bools is.
logic = {"sum": "any", "prod": "all"}


def accumulate(name, a, axis, dtype, out, keepdims, initial, where, promote_integers):
    """What `sum` and `prod` share."""
    x = a if isinstance(a, Array) else arrays(name, a)[0]
    aval = x.aval
    wide = aval.dtype.kind in "fc" and aval.dtype.itemsize > 2
    if wide and dtype is None and not aval.weak_type:
        return reduce(name, x, axis, out, keepdims, initial, where)  # As it is.
    work, dtype = accumulate_dtype(aval.dtype, name, dtype, promote_integers)
    row = logic[name] if work.kind == "b" else name
    x = reduce(row, convert(x, work), axis, out, keepdims, initial, where)
    return convert(x, dtype)


def sum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """The sum over axes, where a mask holds.  JAX: `jnp.sum`.

    Small integers are summed as int32 (uint32) and bools counted, unless `dtype`.
    """
    return accumulate(
        "sum", a, axis, dtype, out, keepdims, initial, where, promote_integers
    )


def prod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """The product over axes; dtypes as in `sum`.  JAX: `jnp.prod`."""
    return accumulate(
        "prod", a, axis, dtype, out, keepdims, initial, where, promote_integers
    )


def max(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:
    """The greatest value over axes; NaN if there is one.  JAX: `jnp.max`.

    Raises ValueError over nothing without `initial`.
    """
    x, = arrays("max", a)
    return strong(reduce("max", x, axis, out, keepdims, initial, where))


def min(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:
    """The least value over axes; NaN if there is one.  JAX: `jnp.min`."""
    x, = arrays("min", a)
    return strong(reduce("min", x, axis, out, keepdims, initial, where))


def all(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all values over axes are nonzero.  JAX: `jnp.all`."""
    x, = arrays("all", a)
    return reduce("all", convert(x, np.bool_), axis, out, keepdims, where=where)


def any(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any value over axes is nonzero.  JAX: `jnp.any`."""
    x, = arrays("any", a)
    return reduce("any", convert(x, np.bool_), axis, out, keepdims, where=where)


def mean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    keepdims: bool = False, *, where: ArrayLike | None = None,
) -> Array:
    """The mean over axes, where a mask holds.  JAX: `jnp.mean`."""
    x, = arrays("mean", a)
    no_out("mean", out)
    where = checked_mask("mean", where)
    axis = canonical_axes(axis, x.ndim, IndexError)
    given = dtypes.to_inexact_dtype(x.dtype) if dtype is None else dtype
    work, result = accumulate_dtype(given, "mean", dtype)
    total = reduce("sum", convert(x, work), axis, None, keepdims, where=where)
    return convert(primitives.div(total, count(x, axis, keepdims, where, work)), result)


def count(x, axis, keepdims, where, dtype):
    """How many values a mean over `axis`, counted from the front, is made of."""
    if where is not None:
        mask = broadcast_to(as_array(where), x.shape)
        return sum(mask, axis, dtype, keepdims=keepdims)
    return convert(math.prod([x.shape[i] for i in axis]), dtype)


def var(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    ddof: int = 0, keepdims: bool = False, *, where: ArrayLike | None = None,
    mean: ArrayLike | None = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """The variance over axes: mean square distance from the mean.  JAX: `jnp.var`."""
    no_out("var", out)
    x, = arrays("var", a)
    where = checked_mask("var", where)
    if correction is not None and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    axis = canonical_axes(axis, x.ndim, IndexError)
    work, result = variance_dtypes(x.dtype, dtype)
    x = convert(x, work)
    centre = mean_of(x, axis, work, where) if mean is None else asarray(mean, work)
    distance = subtract(x, centre)
    square = multiply(*[primitives.abs(distance) if work.kind == "c" else distance] * 2)
    total = sum(square, axis, square.dtype, keepdims=keepdims, where=where)
    n = subtract(
        count(x, axis, keepdims, where, total.dtype),
        convert(ddof if correction is None else correction, total.dtype),
    )
    value = convert(primitives.div(*promote_shapes("var", [total, n])), result)
    return choose_where(greater(n, 0), value, nan)


def mean_of(x, axis, dtype, where):
    """The mean, with its axes kept."""
    return mean(x, axis, dtype, keepdims=True, where=where)


def variance_dtypes(dtype, asked):
    """-> (dtype to compute a variance in, dtype of the result)."""
    if asked is not None:
        asked = dtypes.user_dtype(asked, "var")
        if asked == np.bool_:
            raise TypeError("jnp.var: dtype must be a type of numbers, got bool")
        if dtype.kind == "c" and asked.kind != "c":
            raise ValueError("jnp.var of complex values needs a complex dtype")
        return accumulate_dtype(asked, "var", None)[0], asked
    work = accumulate_dtype(dtypes.to_inexact_dtype(dtype), "var", None)[0]
    return work, dtypes.to_floating_dtype(dtype)


def std(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None,
    ddof: int = 0, keepdims: bool = False, *, where: ArrayLike | None = None,
    mean: ArrayLike | None = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """The standard deviation over axes: the root of `var`.  JAX: `jnp.std`."""
    no_out("std", out)
    where = checked_mask("std", where)
    options = {"where": where, "mean": mean, "correction": correction}
    return sqrt(var(a, axis, dtype, None, ddof, keepdims, **options))


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """The index of the first greatest value; of all values if no axis is given.

    JAX: `jnp.argmax`.  Raises ValueError over nothing.
    """
    return argument("argmax", primitives.argmax, a, axis, out, keepdims)


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """The index of the first least value, as `argmax`.  JAX: `jnp.argmin`."""
    return argument("argmin", primitives.argmin, a, axis, out, keepdims)


def argument(name, operation, a, axis, out, keepdims):
    """What `argmax` and `argmin` share."""
    no_out(name, out)
    x, = arrays(name, a)
    if axis is None:
        kept, axis, x = tuple(range(x.ndim)), 0, ravel(x)
    else:
        axis = canonical_axis(axis, x.ndim, IndexError)
        kept = (axis,)
    if x.shape[axis] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    result = operation(x, axis, dtypes.default_dtype("signed"))
    return expand_dims(result, kept) if keepdims else result


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements are close, as `isclose` says.  JAX: `jnp.allclose`."""
    return all(isclose(a, b, rtol, atol, equal_nan))
