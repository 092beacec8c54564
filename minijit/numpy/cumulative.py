"""Running sums and products."""

from __future__ import annotations

import numpy as np

from ..ops import cumulative as running
from ..trace import dtypes
from ..trace.types import Array, ArrayLike, DTypeLike
from .arguments import canonical_axis, no_out
from .core import arrays, convert, to_numeric_dtype
from .making import concatenate, full_like
from .reducing import accumulate_dtype
from .reductions import ignoring_nan
from .shapes import ravel


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
    first = 1 if include_initial else None
    options = (axis, dtype, first, False)
    return cumulative_of("cumulative_prod", running.cumprod, x, *options)
