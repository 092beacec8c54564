"""Differences, gradients, integrals and interpolation along an axis."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..trace import dtypes, primitives
from ..trace.types import Array, ArrayLike, Axis
from .arguments import canonical_axes, canonical_axis, check_arraylike, static_int
from .core import (
    absolute, arrays, convert, expand_to, in_one_dtype, not_equal, np_shape, pi,
    promote_args_inexact, promote_dtypes, subtract,
)
from .elementwise import choose_where, mod
from .making import asarray, concatenate
from .mathematics import clip
from .rearranging import part_of
from .reducing import sum
from .reductions import cumsum
from .shapes import along_axis, broadcast_to, moveaxis, ravel
from .sorting import searchsorted, sort_together


def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Differences of neighbours, n times over.  JAX: `jnp.diff`."""
    x, = arrays("diff", a)
    n = static_int(n, "the argument 'n' of jnp.diff")
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if n == 0:
        return x
    if x.ndim == 0:
        raise ValueError(
            f"diff requires input that is at least one dimensional; got {a}"
        )
    axis = canonical_axis(axis, x.ndim)
    ends = [edge_values("diff", e, x, axis) for e in (prepend, append)]
    parts = [ends[0], x, ends[1]]
    if prepend is not None or append is not None:
        x = concatenate([p for p in parts if p is not None], axis)
    for _ in range(n):
        after, before = part_of(x, axis, 1, None), part_of(x, axis, None, -1)
        x = (not_equal if x.dtype == np.bool_ else subtract)(after, before)
    return x


def edge_values(name, value, x, axis):
    """What is joined to x along an axis: an array, a number for all, or None."""
    if value is None:
        return None
    value, = arrays(name, value)
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return value if value.ndim else broadcast_to(value, shape)


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Differences of neighbours, flat, between given ends.  JAX: same name."""
    x = ravel(ary)
    result = primitives.sub(x[1:], x[:-1])
    if to_begin is not None:
        begin = convert(arrays("ediff1d", to_begin)[0], x.dtype)
        result = concatenate([ravel(begin), result])
    if to_end is not None:
        end = convert(arrays("ediff1d", to_end)[0], x.dtype)
        result = concatenate([result, ravel(end)])
    return result


def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int | None = None
) -> Any:
    """Central differences, one-sided at the ends.  JAX: `jnp.gradient`.

    Args:
      varargs: the spacing: one number for all axes, or for each axis a number or the
        places of its points.

    Returns an array, or a list of one an axis.
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient.")
    family = dtypes.to_inexact_dtype
    x, *spacing = in_one_dtype("gradient", f, *varargs, family=family)
    axes = canonical_axes(axis, x.ndim)
    if builtins.any(x.shape[i] < 2 for i in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 "
            "elements are required."
        )
    if len(spacing) == 0:
        spacing = [convert(1.0, x.dtype)]
    if len(spacing) not in (1, len(axes)):
        raise TypeError(
            f"Invalid number of spacing arguments {len(spacing)} for {axis=}"
        )
    spacing = spacing * len(axes) if len(spacing) == 1 else spacing
    results = [gradient_along(x, h, i) for i, h in zip(axes, spacing, strict=True)]
    return results[0] if len(axes) == 1 else results


def gradient_along(x, h, axis):
    """`gradient` along one axis."""
    n = x.shape[axis]
    if h.ndim > 1:
        raise ValueError("Spacing arrays must be 1D arrays or scalars.")
    if h.ndim == 1 and h.shape[0] != n:
        raise ValueError(
            "Spacing arrays must have the same length as the dimension along which "
            "the gradient is calculated."
        )
    step = diff(x, axis=axis)
    if h.ndim == 0:
        slope = step / h
        inner = (part_of(x, axis, 2, None) - part_of(x, axis, None, -2)) * 0.5 / h
    else:
        width = along_axis(diff(h), axis, x.ndim)
        slope = step / width
        d1, d2 = part_of(width, axis, None, -1), part_of(width, axis, 1, None)
        before, middle, after = [part_of(x, axis, i, n - 2 + i) for i in range(3)]
        inner = -d2 / (d1 * (d1 + d2)) * before
        inner = inner + (d2 - d1) / (d1 * d2) * middle
        inner = inner + d1 / (d2 * (d1 + d2)) * after
    ends = part_of(slope, axis, 0, 1), part_of(slope, axis, n - 2, n - 1)
    return concatenate([ends[0], inner, ends[1]], axis)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral by the trapezoid rule.  JAX: `jnp.trapezoid`."""
    if x is None:
        y, = promote_args_inexact("trapezoid", y)
        widths = asarray(dx)
        if widths.ndim:
            widths = moveaxis(expand_to(widths, y.ndim), axis, -1)
    else:
        y, x = in_one_dtype("trapezoid", y, x, family=dtypes.to_inexact_dtype)
        widths = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    y = moveaxis(y, axis, -1)
    if widths.ndim == 0 or widths.shape[-1] == 1:
        width = widths if widths.ndim == 0 else widths[..., 0]
        return width * (sum(y, -1) - 0.5 * (y[..., 0] + y[..., -1]))
    return 0.5 * sum(widths * (y[..., 1:] + y[..., :-1]), -1)


def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None, period: ArrayLike | None = None,
) -> Array:
    """Linear interpolation between the points (xp, fp), xp rising.  JAX: same name.

    Args:
      left, right: the value outside, by default that of the end; "extrapolate" goes on.
      period: of x; the points are sorted first then.
    """
    check_arraylike("interp", x, xp, fp)
    if np_shape(xp) != np_shape(fp) or len(np_shape(xp)) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(
                f"the only valid string value of `{name}` is 'extrapolate', but got: "
                f"{value!r}"
            )
    x, xp = promote_dtypes([x, xp], dtypes.to_inexact_dtype)
    fp, = promote_dtypes([fp], dtypes.to_inexact_dtype)
    if x.dtype.kind == "c":
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        x, xp, fp = periodic_points(x, xp, fp, period)
    i = clip(searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    df, dx = fp[i] - fp[i - 1], xp[i] - xp[i - 1]
    flat = primitives.abs(dx) <= np.spacing(dtypes.finfo(xp.dtype).eps)
    slope = (x - xp[i - 1]) / choose_where(flat, 1, dx)
    y = choose_where(flat, fp[i - 1], fp[i - 1] + slope * df)
    if period is None and left != "extrapolate":
        y = choose_where(x < xp[0], fp[0] if left is None else left, y)
    if period is None and right != "extrapolate":
        y = choose_where(x > xp[-1], fp[-1] if right is None else right, y)
    return y


def periodic_points(x, xp, fp, period):
    """Points brought into one period, sorted, and continued by one on each side."""
    if np_shape(period) != ():
        raise ValueError(f"period must be a scalar; got {period}")
    period = absolute(period)
    x, xp = x % period, xp % period
    xp, fp = sort_together(xp, fp)
    xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, concatenate([fp[-1:], fp, fp[:1]])


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1,
    period: ArrayLike = 2 * pi,
) -> Array:
    """Without jumps of more than half a period between neighbours.  JAX: same name."""
    check_arraylike("unwrap", p, period, *([] if discont is None else [discont]))
    p, period = promote_dtypes([p, period])
    if p.dtype.kind == "c":
        raise ValueError("jnp.unwrap does not support complex inputs.")
    axis = canonical_axis(axis, p.ndim)
    if p.shape[axis] == 0:
        return p
    discont = period / 2 if discont is None else discont
    half = period // 2 if p.dtype.kind in "iu" else period / 2
    step = diff(p, axis=axis)
    wrapped = mod(step + half, period) - half
    wrapped = choose_where((wrapped == -half) & (step > 0), half, wrapped)
    change = choose_where(absolute(step) < discont, 0, wrapped - step)
    first, rest = part_of(p, axis, 0, 1), part_of(p, axis, 1, None)
    return concatenate([first, rest + cumsum(change, axis=axis)], axis)
