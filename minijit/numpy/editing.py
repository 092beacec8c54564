"""Elements added and removed along an axis: `repeat`, `append`, `delete`, `insert`.

And `pad`, with a rule for each of its modes.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace import dtypes, slicing
from ..trace.types import Array, ArrayLike, Axis
from .arguments import canonical_axes, canonical_axis, check_arraylike, concrete, static
from .core import arrays, convert, known_int, np_shape
from .elementwise import choose_where, where
from .making import (
    arange, array, asarray, concatenate, full, linspace, zeros_like,
)
from .mathematics import clip, dtype_kind, round
from .rearranging import flip, part_of, tile
from .reducing import max, mean, min, sum
from .shapes import broadcast_shapes, broadcast_to, moveaxis, ravel, reshape, squeeze
from .sorting import argsort, sort
from .statistics import median
from .take_and_put import repeat
from .vectorized import apply_along_axis


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`concatenate` of two arrays.  JAX: `jnp.append`."""
    if axis is None:
        arr, values, axis = ravel(arr), ravel(values), 0
    return concatenate([arr, values], axis)


def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *,
    assume_unique_indices: bool = False,
) -> Array:
    """Without the slices that an int, a slice, indices or a mask name.

    JAX: `jnp.delete`.  Traced indices need `assume_unique_indices`.
    """
    x, = arrays("delete", arr)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    n = x.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(n)[obj]
    known = known_int(obj) if np_shape(obj) == () else None
    if known is not None:
        i = canonical_axis(known, n)
        return concatenate([part_of(x, axis, 0, i), part_of(x, axis, i + 1, n)], axis)
    check_arraylike("delete", obj)
    if assume_unique_indices and dtype_kind(obj) in "iu":
        return x[(slice(None),) * axis + (kept_indices(asarray(obj), n),)]
    advice = "pass assume_unique_indices=True, if they are."
    obj = concrete(obj, "the argument 'obj' of jnp.delete", advice)
    keep = ~obj if obj.dtype == np.bool_ else np.ones(n, np.bool_)
    if keep.shape != (n,) or obj.dtype.kind not in "biu":
        raise ValueError(
            "np.delete(arr, obj): obj must hold integers, or be a mask with length "
            f"matching specified axis; got {obj.dtype}{list(obj.shape)} for {n}"
        )
    if obj.dtype != np.bool_:
        keep[obj] = False
    return x[(slice(None),) * axis + (keep,)]


def kept_indices(gone, n):
    """The indices below n that are not among `gone`, which are all different."""
    gone = sort(clip(choose_where(gone < 0, gone + n, gone), 0, n).ravel())
    gone = gone - arange(gone.size, dtype=gone.dtype)
    i = arange(n - gone.size, dtype=gone.dtype)
    return i + sum(i[None] >= gone[:, None], axis=0, dtype=i.dtype)


def insert(
    arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None
) -> Array:
    """With `values` before the places `obj` along an axis.  JAX: `jnp.insert`."""
    x, values = arrays("insert", arr, values)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    n = x.shape[axis]
    places = arange(*obj.indices(n)) if isinstance(obj, slice) else asarray(obj)
    if places.size == 0 and not isinstance(obj, Array):
        places = convert(places, np.int32)
    if places.ndim > 1 or places.dtype.kind not in "iu":
        raise ValueError(
            "jnp.insert(): obj must be a slice, an integer, or a vector of integers; "
            f"got {obj}"
        )
    values = array(values, dtype=x.dtype, copy=False, ndmin=x.ndim)
    if places.size == 1:
        values = moveaxis(values, 0, axis) if places.ndim == 0 else values
        places = broadcast_to(ravel(places), (values.shape[axis],))
    more, = broadcast_shapes(places.shape, (values.shape[axis],))
    places = clip(choose_where(places < 0, places + n, places), 0, n)
    # Each value moves on by the values that are inserted before it.
    i = places.at[argsort(places)].add(arange(more, dtype=places.dtype))
    old = where(full(n + more, True).at[i].set(False), size=n)[0]
    shape = [size + more * (k == axis) for k, size in enumerate(x.shape)]
    before = (slice(None),) * axis
    result = zeros_like(x, shape=tuple(shape)).at[(*before, i)].set(values)
    return result.at[(*before, old)].set(x)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> Array:
    """Without the zeros in front and at the back.  JAX: `jnp.trim_zeros`."""
    x, = arrays("trim_zeros", filt)
    known = concrete(x, "the argument 'filt' of jnp.trim_zeros", static) != 0
    index = [slice(None)] * x.ndim
    for i in canonical_axes(axis, x.ndim):
        others = tuple(k for k in range(x.ndim) if k != i)
        used = np.flatnonzero(np.any(known, axis=others))
        if used.size == 0:
            index[i] = slice(0, 0)
            continue
        start = int(used[0]) if "f" in trim.lower() else None
        index[i] = slice(start, int(used[-1]) + 1 if "b" in trim.lower() else None)
    return x[tuple(index)]


# ---- pad


def pairs_of(values, rank, name):
    """A number, a pair, or a pair for each axis, as a pair for each axis."""
    if isinstance(values, dict):
        values = [values.get(i, values.get(i - rank, (0, 0))) for i in range(rank)]
    known = concrete(values, f"the argument {name!r} of jnp.pad", static)
    if known.shape not in ((), (1,), (2,), (1, 2), (rank, 2)):
        raise ValueError(
            f"jnp.pad: {name} with nd={rank} has unsupported shape {known.shape}. "
            f"Valid shapes are ({rank}, 2), (1, 2), (2,), (1,), or ()."
        )
    return np.broadcast_to(known, (rank, 2)).tolist()


def pad(
    array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant",
    **kwargs: Any,
) -> Array:
    """With more elements before and after along each axis.  JAX: `jnp.pad`.

    Args:
      pad_width: how many: a number, (before, after), or such a pair for each axis.
      mode: "constant" (`constant_values=0`), "edge", "wrap", "empty", "reflect" and
        "symmetric" (`reflect_type="even"` or "odd"), "linear_ramp" (`end_values=0`),
        "maximum", "minimum", "mean", "median" (`stat_length=`); or a function, called
        as mode(row, (before, after), axis, kwargs) for each row of the array padded
        with zeros, axis by axis, which gives the row as it is to be.
    """
    x, = arrays("pad", array)
    widths = pairs_of(pad_width, x.ndim, "pad_width")
    if builtins.any(not isinstance(n, int) for pair in widths for n in pair):
        raise TypeError("`pad_width` must be of integral type.")
    if builtins.any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    if builtins.any(n > dtypes.iinfo(np.int32).max for pair in widths for n in pair):
        raise ValueError(f"cannot pad by more than 2**31 - 1, got {pad_width}")
    if callable(mode):
        x = pad_constant(x, widths, 0)
        for axis, width in enumerate(widths):
            x = apply_along_axis(mode, axis, x, tuple(width), axis, kwargs)
        return x
    if mode not in pad_modes:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    option, rule = pad_modes[mode]
    extra = set(kwargs) - {option}
    if extra:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {extra}")
    if mode == "constant":
        return pad_constant(x, widths, kwargs.get("constant_values", 0))
    if mode in pad_statistics and kwargs.get("stat_length") is not None:
        kwargs["stat_length"] = pairs_of(kwargs["stat_length"], x.ndim, "stat_length")
    if mode == "linear_ramp":
        ends = kwargs.get("end_values", 0)
        kwargs["end_values"] = pairs_of(ends, x.ndim, "end_values")
    for axis, (before, after) in enumerate(widths):
        if before or after:
            x = rule(x, axis, before, after, mode, kwargs.get(option))
    return x


def pad_constant(x, widths, values):
    """Values of its own on each side of each axis, later axes last."""
    values = convert(asarray(values), x.dtype, x.weak_type)
    if values.size == 1:
        rows = [(before, after, 0) for before, after in widths]
        return slicing.pad(x, reshape(values, ()), rows)
    values = broadcast_to(values, (x.ndim, 2))
    for axis, pair in enumerate(widths):
        for side, n in enumerate(pair):
            row = [(0, 0, 0)] * x.ndim
            row[axis] = (0, n, 0) if side else (n, 0, 0)
            x = slicing.pad(x, values[axis, side], row) if n else x
    return x


def check_not_empty_axis(x, axis, mode):
    """There is nothing to repeat along an axis of length 0."""
    if x.shape[axis] == 0:
        raise ValueError(f"Cannot apply '{mode}' padding to empty axis")


def pad_edge(x, axis, before, after, mode, option):
    """The first and the last slice, repeated."""
    check_not_empty_axis(x, axis, mode)
    n = x.shape[axis]
    first = repeat(part_of(x, axis, 0, 1), before, axis)
    last = repeat(part_of(x, axis, n - 1, n), after, axis)
    return concatenate([first, x, last], axis)


def pad_wrap(x, axis, before, after, mode, option):
    """The whole array over and over."""
    check_not_empty_axis(x, axis, mode)
    n = x.shape[axis]
    copies = before // n + 1 + after // n
    whole = tile(x, [copies if d == axis else 1 for d in range(x.ndim)])
    first, last = part_of(x, axis, n - before % n, n), part_of(x, axis, 0, after % n)
    return concatenate([first, whole, last], axis)


def pad_empty(x, axis, before, after, mode, option):
    """Anything: zeros."""
    row = [(0, 0, 0)] * x.ndim
    row[axis] = (before, after, 0)
    return slicing.pad(x, convert(0, x.dtype, x.weak_type), row)


def pad_mirror(x, axis, before, after, mode, option):
    """The array reflected, with its edge twice for "symmetric"."""
    check_not_empty_axis(x, axis, mode)
    if option not in (None, "even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd', got {option!r}")
    offset = int(mode == "reflect" and x.shape[axis] > 1)
    # Each round adds as much as the array holds by now; then it is longer.
    size = x.shape[axis] - offset
    while before > 0:
        n = builtins.min(before, size)
        before -= n
        part = flip(part_of(x, axis, offset, offset + n), axis)
        x = concatenate([mirrored(part, part_of(x, axis, 0, 1), option), x], axis)
    end = x.shape[axis]
    while after > 0:
        n = builtins.min(after, size)
        after -= n
        part = flip(part_of(x, axis, end - offset - n, end - offset), axis)
        edge = part_of(x, axis, end - 1, end)
        x = concatenate([x, mirrored(part, edge, option)], axis)
        end = x.shape[axis]
    return x


def mirrored(part, edge, option):
    """A reflected part; for "odd", through the edge's value as well."""
    return 2 * edge - part if option == "odd" else part


def pad_ramp(x, axis, before, after, mode, option):
    """From the edge evenly to an end value."""
    n = x.shape[axis]
    start, stop = option[axis]
    ends = [(start, 0, before), (stop, n - 1, after)]
    ramps = [
        linspace(
            end, squeeze(part_of(x, axis, i, i + 1), axis), count, endpoint=False,
            dtype=x.dtype, axis=axis,
        )
        for end, i, count in ends
    ]  # fmt: skip
    first, last = [convert(ramp, x.dtype, x.weak_type) for ramp in ramps]
    return concatenate([first, x, flip(last, axis)], axis)


def pad_statistic(x, axis, before, after, mode, option):
    """A statistic of the slices next to each side."""
    n = x.shape[axis]
    lengths = (n, n) if option is None else option[axis]
    if option is not None and 0 in lengths:
        raise ValueError("stat_length of 0 yields no value for padding")
    spans = [(0, builtins.min(lengths[0], n)), (n - builtins.min(lengths[1], n), n)]
    sides = []
    for (start, stop), count in zip(spans, (before, after), strict=True):
        value = pad_statistics[mode](part_of(x, axis, start, stop), axis, keepdims=True)
        value = round(value) if x.dtype.kind in "iu" else value
        sides.append(repeat(convert(value, x.dtype, x.weak_type), count, axis))
    return concatenate([sides[0], x, sides[1]], axis)


pad_modes = {
    "constant": ("constant_values", None),
    "edge": (None, pad_edge),
    "wrap": (None, pad_wrap),
    "empty": (None, pad_empty),
    "reflect": ("reflect_type", pad_mirror),
    "symmetric": ("reflect_type", pad_mirror),
    "linear_ramp": ("end_values", pad_ramp),
    "maximum": ("stat_length", pad_statistic),
    "minimum": ("stat_length", pad_statistic),
    "mean": ("stat_length", pad_statistic),
    "median": ("stat_length", pad_statistic),
}


pad_statistics: dict = {"maximum": max, "minimum": min, "mean": mean, "median": median}
