"""Windows of arrays: reversed, padded, and read or written where an index says.

    rev(x, (0,)), pad(x, 0.0, [(1, 2, 0)])
    dynamic_slice(x, (i, 0), (1, 4))                   # x[i:i + 1, 0:4], i traced
    dynamic_update_slice(x, update, (i, 0))

A window that does not fit into the operand is moved inside.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .array import aval_of, on_numpy, shape_rules, to_numpy
from .core import Primitive, Tracer, eval_rules
from .primitives import (
    adapt, add, all_weak, expand_dims, lt, select_n, slice as static_slice, squeeze,
)
from .shape_checks import canonicalize_axis, canonicalize_shape, check_same_dtypes
from .types import Array, ArrayLike, Shape

rev_p = Primitive("rev")
pad_p = Primitive("pad")
dynamic_slice_p = Primitive("dynamic_slice")
dynamic_update_slice_p = Primitive("dynamic_update_slice")


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`operand` with the order along each of `dimensions` reversed.  JAX: `lax.rev`."""
    return rev_p.bind(operand, dimensions=canonicalize_shape(dimensions))


def rev_shape(operand, *, dimensions):
    """The shape rule of `rev`: the axes exist, and are named once."""
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {dimensions}.")
    if not all(0 <= d < operand.ndim for d in dimensions):
        raise TypeError(
            f"rev dimensions must be nonnegative and less than the operand's ndim "
            f"{operand.ndim}, got dimensions {dimensions}."
        )
    return operand


shape_rules |= {rev_p: rev_shape}
eval_rules |= on_numpy({rev_p: lambda x, *, dimensions: np.flip(x, dimensions)})


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Any) -> Array:
    """`operand` with `padding_value` put around and between its elements.

    Args:
      operand: an array.
      padding_value: a scalar of the same dtype.
      padding_config: a triple (low, high, interior) of ints for each axis. A negative
        `low` or `high` takes elements away; `interior` goes between neighbours.

    JAX: `lax.pad`.
    """
    config = tuple(tuple(map(operator.index, triple)) for triple in padding_config)
    if any(len(triple) != 3 for triple in config):
        raise ValueError(
            f"padding_config must hold triples (low, high, interior), got {config}"
        )
    return pad_p.bind(*adapt(operand, padding_value), padding_config=config)


def pad_shape(operand, padding_value, *, padding_config):
    check_same_dtypes("pad", (operand, padding_value))
    if padding_value.shape != ():
        raise ValueError(
            f"padding_value must be a scalar; got shape {padding_value.shape}"
        )
    if len(padding_config) != operand.ndim:
        raise ValueError(
            "length of padding_config must equal the number of axes of operand, got "
            f"padding_config {padding_config} for operand shape {operand.shape}"
        )
    if any(interior < 0 for _, _, interior in padding_config):
        raise ValueError(
            "interior padding in padding_config must be nonnegative, got "
            f"padding_config {padding_config}"
        )
    shape = tuple(
        low + dilated_size(n, interior + 1) + high
        for n, (low, high, interior) in zip(operand.shape, padding_config, strict=True)
    )
    if any(n < 0 for n in shape):
        raise ValueError(
            "Dimension size after padding is not at least 0, got result shape "
            f"{shape}, for padding_config {padding_config} and operand shape "
            f"{operand.shape}"
        )
    return operand.update(shape=shape, weak_type=all_weak((operand, padding_value)))


def dilated_size(n, dilation):
    """How long an axis of size n is with its elements `dilation` apart."""
    return (n - 1) * dilation + 1 if n else 0


def pad_numpy(operand, padding_value, *, padding_config):
    """Evaluate `pad`: put what is left of the operand into an array of padding."""
    shape, target, source = [], [], []
    for n, (low, high, interior) in zip(operand.shape, padding_config, strict=True):
        step = interior + 1
        size = max(0, low + dilated_size(n, step) + high)
        # Element i lands on low + i * step; those that land inside are first..last-1.
        first = max(0, -(low // step))
        last = max(first, min(n, (size - low + step - 1) // step))
        start = low + first * step
        shape.append(size)
        source.append(slice(first, last))
        target.append(slice(start, start + (last - first) * step, step))
    result = np.full(shape, padding_value, operand.dtype)
    result[tuple(target)] = operand[tuple(source)]
    return result


shape_rules |= {pad_p: pad_shape}
eval_rules |= on_numpy({pad_p: pad_numpy})


def dynamic_slice(
    operand: ArrayLike, start_indices: Array | Sequence[ArrayLike], slice_sizes: Shape,
    *, allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The window of sizes `slice_sizes` at `start_indices`, which may be traced.

    A window that would stick out is moved inside: each start is clamped.

    Args:
      operand: an array.
      start_indices: a scalar for each axis, or one array of them.
      slice_sizes: an int for each axis.
      allow_negative_indices: whether a negative start counts from the end; one bool,
        or one for each axis.

    JAX: `lax.dynamic_slice`.
    """
    starts = dynamic_starts(operand, start_indices, allow_negative_indices)
    sizes = canonicalize_shape(slice_sizes)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=sizes)


def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Array | Sequence[ArrayLike],
    *, allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """`operand` with `update` written over the window at `start_indices`.

    The starts are clamped so that the window fits, as in `dynamic_slice`.
    JAX: `lax.dynamic_update_slice`.
    """
    starts = dynamic_starts(operand, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_starts(operand, start_indices, allow_negative_indices):
    """One scalar start for each axis, negative ones counted from the end."""
    shape = aval_of(operand).shape
    if not isinstance(start_indices, Sequence):
        if len(aval_of(start_indices).shape) != 1:
            raise ValueError(
                "Slice indices must be a 1D sequence, got shape "
                f"{aval_of(start_indices).shape}"
            )
        n, = aval_of(start_indices).shape
        start_indices = [
            squeeze(static_slice(start_indices, (i,), (i + 1,)), (0,)) for i in range(n)
        ]
    if len(start_indices) != len(shape):
        raise ValueError(
            "Length of slice indices must match number of operand dimensions "
            f"({len(start_indices)} vs {shape})"
        )
    if isinstance(allow_negative_indices, (bool, int)):
        allow_negative_indices = [bool(allow_negative_indices)] * len(shape)
    if len(allow_negative_indices) != len(shape):
        raise ValueError(
            "allow_negative_indices must be a bool, or one for each axis of the shape "
            f"{shape}, got {allow_negative_indices}"
        )
    rows = zip(start_indices, shape, allow_negative_indices, strict=True)
    return [wrap_start(i, n, negative) for i, n, negative in rows]


def wrap_start(i, n, allow_negative):
    """A start on an axis of size n; those below zero count from its end."""
    if isinstance(i, (int, np.integer)) and not isinstance(i, bool):
        if i < 0 and not allow_negative:
            raise ValueError(
                f"Index {i} is out of bounds for dimension {n} if "
                "allow_negative_indices=False"
            )
        dtype = aval_of(i).dtype
        # Starts are clamped, so one that is too large for its type may as well be.
        limits = dtypes.iinfo(dtype)
        return np.array(min(max(i + n * (i < 0), limits.min), limits.max), dtype)
    return wrap_negative(i, n) if allow_negative else i


def wrap_negative(i, n):
    """Indices into an axis of size n with those below zero counted from its end."""
    dtype = aval_of(i).dtype
    if dtype.kind == "u" or dtype.kind != "i":
        return i
    if not isinstance(i, Tracer):  # Known, whatever is being traced.
        i = to_numpy(i)
        if not (i < 0).any():
            return i
        return np.where(i < 0, i + dtype.type(min(n, dtypes.iinfo(dtype).max)), i)
    zero, size = (np.array(k, dtype) for k in (0, min(n, dtypes.iinfo(dtype).max)))
    return select_n(lt(i, zero), i, add(i, size))


def to_int64(indices):
    """Indices as int64: those beyond its range are out of bounds whatever they are."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    return indices.astype(np.int64)


def check_starts(name, operand, starts):
    """Raise unless there is one integer scalar an axis, all of one dtype."""
    if len(starts) != operand.ndim:
        raise TypeError(
            f"{name} requires a start index for each axis of the operand of shape "
            f"{operand.shape}, got {len(starts)}"
        )
    if any(start.shape != () for start in starts):
        raise TypeError(
            f"start_indices arguments to {name} must be scalars, got indices "
            f"{[str(start) for start in starts]}"
        )
    kinds = {start.dtype for start in starts}
    if len(kinds) > 1 or any(kind.kind not in "iu" for kind in kinds):
        raise TypeError(
            f"index arguments to {name} must be integers of the same type, got: "
            + ", ".join(start.dtype.name for start in starts)
        )


def dynamic_slice_shape(operand, *starts, slice_sizes):
    check_starts("dynamic_slice", operand, starts)
    if len(slice_sizes) != operand.ndim:
        raise TypeError(
            "slice_sizes must have one size for each axis of the operand, got "
            f"slice_sizes {slice_sizes} for operand shape {operand.shape}."
        )
    if any(size > n for size, n in zip(slice_sizes, operand.shape, strict=True)):
        raise TypeError(
            "slice slice_sizes must be less than or equal to operand shape, got "
            f"slice_sizes {slice_sizes} for operand shape {operand.shape}."
        )
    if any(size < 0 for size in slice_sizes):
        raise TypeError(f"slice_sizes must be nonnegative, got {slice_sizes}.")
    return operand.update(shape=slice_sizes)


def dynamic_update_slice_shape(operand, update, *starts):
    if update.ndim != operand.ndim:
        raise TypeError(
            "dynamic_update_slice update must have the same rank as operand, got "
            f"update shape {update.shape} for operand shape {operand.shape}."
        )
    if any(m > n for m, n in zip(update.shape, operand.shape, strict=True)):
        raise TypeError(
            "dynamic_update_slice update shape must be smaller than operand shape, got "
            f"update shape {update.shape} for operand shape {operand.shape}."
        )
    check_same_dtypes("dynamic_update_slice", (operand, update))
    check_starts("dynamic_update_slice", operand, starts)
    return operand.update(weak_type=all_weak((operand, update)))


def clamped_window(shape, sizes, starts):
    """The NumPy index of a window after each start is moved inside."""
    rows = zip(shape, sizes, map(int, starts), strict=True)
    clamped = [(min(max(start, 0), n - size), size) for n, size, start in rows]
    return tuple(slice(start, start + size) for start, size in clamped)


def dynamic_slice_numpy(operand, *starts, slice_sizes):
    """Evaluate `dynamic_slice`: a copy, so that the operand can be let go."""
    return operand[clamped_window(operand.shape, slice_sizes, starts)].copy()


def dynamic_update_slice_numpy(operand, update, *starts):
    result = operand.copy()
    result[clamped_window(operand.shape, update.shape, starts)] = update
    return result


shape_rules |= {
    dynamic_slice_p: dynamic_slice_shape,
    dynamic_update_slice_p: dynamic_update_slice_shape,
}
eval_rules |= on_numpy(
    {
        dynamic_slice_p: dynamic_slice_numpy,
        dynamic_update_slice_p: dynamic_update_slice_numpy,
    }
)


# -- along one axis: the functions of `jax.lax` that end in `_in_dim`


def slice_in_dim(
    operand: ArrayLike, start_index: int | None, limit_index: int | None,
    stride: int = 1, axis: int = 0,
) -> Array:
    """operand[start:limit:stride] along one axis.

    An index below 0 counts from the end, None stands for the end that it is at.
    """
    shape = aval_of(operand).shape
    axis = canonicalize_axis(axis, len(shape))
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    strides[axis] = operator.index(stride)
    if start_index is not None:
        starts[axis] = from_front(start_index, shape[axis])
    if limit_index is not None:
        limits[axis] = from_front(limit_index, shape[axis])
    return static_slice(operand, starts, limits, strides)


def from_front(index, size):
    """An index into an axis of some size, counted from its front."""
    index = operator.index(index)
    return index + size if index < 0 else index


def index_in_dim(
    operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True
) -> Array:
    """operand[index] along one axis, which stays with size 1 if `keepdims`."""
    shape = aval_of(operand).shape
    axis, index = canonicalize_axis(axis, len(shape)), operator.index(index)
    if not -shape[axis] <= index < shape[axis]:
        raise IndexError(
            f"index {index} is out of bounds for axis {axis} with size {shape[axis]}"
        )
    index = from_front(index, shape[axis])
    result = slice_in_dim(operand, index, index + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


def dynamic_slice_in_dim(
    operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0, *,
    allow_negative_indices: bool = True,
) -> Array:
    """`slice_size` elements along one axis, from `start_index` on, which may be traced.

    A window that would stick out is moved inside.
    """
    shape = aval_of(operand).shape
    axis = canonicalize_axis(axis, len(shape))
    sizes = list(shape)
    sizes[axis] = operator.index(slice_size)
    starts, wrap = starts_along(shape, axis, start_index), allow_negative_indices
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=wrap)


def starts_along(shape, axis, index):
    """Start indices that are zero but along one axis, all of one dtype."""
    starts = [np.zeros((), dtypes.numeric_dtype(aval_of(index).dtype))] * len(shape)
    starts[axis] = index
    return starts


def dynamic_index_in_dim(
    operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True, *,
    allow_negative_indices: bool = True,
) -> Array:
    """operand[index] along one axis, which stays with size 1 if `keepdims`."""
    result = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return result if keepdims else squeeze(result, (axis,))


def dynamic_update_slice_in_dim(
    operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *,
    allow_negative_indices: bool = True,
) -> Array:
    """`operand` with `update` written along one axis from `start_index` on."""
    shape = aval_of(operand).shape
    axis = canonicalize_axis(axis, len(shape))
    starts, wrap = starts_along(shape, axis, start_index), allow_negative_indices
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=wrap)


def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int, *,
    allow_negative_indices: bool = True,
) -> Array:
    """`operand` with `update` written at `index` of one axis.

    The update may lack that axis.
    """
    rank = aval_of(operand).ndim
    axis = canonicalize_axis(axis, rank)
    if aval_of(update).ndim != rank:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )
