"""Elements added and removed along an axis: `repeat`, `append`, `delete`, `insert`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import primitives
from ..trace.types import Array, ArrayLike, Axis
from .arguments import canonical_axes, canonical_axis, check_arraylike, concrete, static
from .core import arrays, as_array, convert, known_int, np_shape
from .elementwise import choose_where, where
from .making import arange, array, asarray, concatenate, full, zeros, zeros_like
from .mathematics import clip, dtype_kind
from .rearranging import part_of, roll
from .reducing import sum
from .reductions import cumsum
from .shapes import broadcast_shapes, broadcast_to, moveaxis, ravel, reshape
from .sorting import argsort, sort
from .take_and_put import take


def repeat(
    a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *,
    total_repeat_length: int | None = None,
) -> Array:
    """Each slice along an axis repeated.  JAX: `jnp.repeat`.

    Args:
      repeats: how often: a number, or one for each slice.
      total_repeat_length: the length of the result; needed where repeats is traced.
        The last slice fills what is left.
    """
    check_arraylike("repeat", a, repeats)
    x = as_array(a)
    x = ravel(x) if axis is None or x.ndim == 0 else x
    axis = canonical_axis(axis or 0, x.ndim)
    length = total_repeat_length
    if length is None:
        advice = f"pass total_repeat_length=, or {static}"
        repeats = concrete(repeats, "the argument 'repeats' of jnp.repeat", advice)
        if repeats.dtype.kind not in "biu":
            raise TypeError(f"jnp.repeat: repeats must be integers, got {repeats}")
        if repeats.ndim == 0 or repeats.size == 1:
            return repeat_each(x, int(repeats.reshape(())), axis)
        if repeats.shape != (x.shape[axis],):
            raise ValueError(
                f"jnp.repeat: repeats must be one number or as many as axis {axis} is "
                f"long, got shape {repeats.shape} for an array of shape {x.shape}"
            )
        length = int(np.sum(repeats))
    repeats = broadcast_to(ravel(as_array(repeats)), (x.shape[axis],))
    if length == 0 or x.shape[axis] == 0:
        return part_of(x, axis, 0, 0) if length == 0 else x
    starts = roll(repeats, 1).at[0].set(0)
    marks = zeros(length, np.int32).at[cumsum(starts)].add(1)
    return take(x, cumsum(marks) - 1, axis)


def repeat_each(x, times, axis):
    """Each slice along an axis repeated equally often."""
    sizes = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    kept = [i for i in range(len(sizes)) if i != axis + 1]
    wide = primitives.broadcast_in_dim(x, sizes, kept)
    shape = [n * times if i == axis else n for i, n in enumerate(x.shape)]
    return reshape(wide, shape)


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
