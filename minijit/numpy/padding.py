"""`pad`, with a rule for each of its modes."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace import dtypes, slicing
from ..trace.types import Array, ArrayLike
from .arguments import concrete, static
from .core import arrays, convert
from .editing import repeat
from .making import asarray, concatenate, linspace
from .mathematics import round
from .rearranging import flip, part_of, tile
from .reducing import max, mean, min
from .shapes import broadcast_to, reshape, squeeze
from .statistics import median
from .vectorized import apply_along_axis


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
