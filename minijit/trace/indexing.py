"""Taking parts of arrays and writing to them: by primitives, and as NumPy spells it.

    take_index(x, (0, slice(None)))            # x[0]: a static slice and a squeeze
    take_index(x, i)                           # x[i], i traced: a dynamic slice
    take_index(x, (rows, columns))             # arrays of indices: a gather
    update_index(x, 0, 1.0, scatter_add)       # x.at[0].add(1.0): a scatter

`gather` reads a window of the operand for each vector of start indices; `scatter`
writes one.  Which axis is which stands in their dimension numbers, as in XLA
(https://www.openxla.org/xla/operation_semantics#gather).  A window that does not fit
into the operand is moved inside (clip), or left out: filled when read, dropped when
written (fill_or_drop).
"""

import enum
import math
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from . import dtypes
from .array import (
    aval_of,
    eval_rules,
    is_array_like,
    on_numpy,
    shape_rules,
    to_numpy,
)
from .core import Primitive, Tracer
from .errors import (
    ConcretizationTypeError,
    NonConcreteBooleanIndexError,
    at_line,
    user_level,
    user_source,
)
from .numpy_values import broadcast_in_dim_values
from .primitives import (
    adapt,
    add,
    all_weak,
    broadcast_in_dim,
    concatenate,
    convert,
    expand_dims,
    lt,
    select_n,
    slice as static_slice,
    squeeze,
)
from .shape_checks import canonicalize_shape, check_same_dtypes

rev_p = Primitive("rev")
pad_p = Primitive("pad")
dynamic_slice_p = Primitive("dynamic_slice")
dynamic_update_slice_p = Primitive("dynamic_update_slice")
gather_p = Primitive("gather")


def rev(operand, dimensions):
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


def pad(operand, padding_value, padding_config):
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
    """The shape rule of `pad`."""
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


def dynamic_slice(operand, start_indices, slice_sizes, *, allow_negative_indices=True):
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
    operand, update, start_indices, *, allow_negative_indices=True
):
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
            squeeze(static_slice(start_indices, (i,), (i + 1,)), (0,))
            for i in range(n)
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
    if is_concrete(i):
        i = to_numpy(i)
        if not (i < 0).any():
            return i
        return np.where(i < 0, i + dtype.type(min(n, dtypes.iinfo(dtype).max)), i)
    zero, size = (np.array(k, dtype) for k in (0, min(n, dtypes.iinfo(dtype).max)))
    return select_n(lt(i, zero), i, add(i, size))


def is_concrete(x):
    """Whether the value of x is known now, whatever is being traced."""
    return not isinstance(x, Tracer)


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
    """The shape rule of `dynamic_slice`."""
    check_starts("dynamic_slice", operand, starts)
    if len(slice_sizes) != operand.ndim:
        raise TypeError(
            "slice_sizes must have one size for each axis of the operand, got "
            f"slice_sizes {slice_sizes} for operand shape {operand.shape}."
        )
    if any(size > n for size, n in zip(slice_sizes, operand.shape, strict=True)):
        raise TypeError(
            "slice_sizes must be less than or equal to the operand's shape, got "
            f"slice_sizes {slice_sizes} for operand shape {operand.shape}."
        )
    if any(size < 0 for size in slice_sizes):
        raise TypeError(f"slice_sizes must be nonnegative, got {slice_sizes}.")
    return operand.update(shape=slice_sizes)


def dynamic_update_slice_shape(operand, update, *starts):
    """The shape rule of `dynamic_update_slice`."""
    if update.ndim != operand.ndim:
        raise TypeError(
            "dynamic_update_slice update must have the same rank as operand, got "
            f"update shape {update.shape} for operand shape {operand.shape}."
        )
    if any(m > n for m, n in zip(update.shape, operand.shape, strict=True)):
        raise TypeError(
            "dynamic_update_slice update shape must not exceed the operand's, got "
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
    """Evaluate `dynamic_update_slice`."""
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


class GatherDimensionNumbers(NamedTuple):
    """Which axis is which in a gather.  JAX: `lax.GatherDimensionNumbers`.

    The last axis of the start indices holds the index vectors; the others are batch
    axes, and appear in the result in their order, around the offset axes.

    Attributes:
      offset_dims: the axes of the result that run along the window, ascending.
      collapsed_slice_dims: the axes of the operand, ascending, whose window size is 1
        and that do not appear in the result.
      start_index_map: for each entry of an index vector, the operand's axis it is for.
      operand_batching_dims: axes of the operand that are walked together with
      start_indices_batching_dims: these axes of the start indices.
    """

    offset_dims: tuple
    collapsed_slice_dims: tuple
    start_index_map: tuple
    operand_batching_dims: tuple = ()
    start_indices_batching_dims: tuple = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axis is which in a scatter.  JAX: `lax.ScatterDimensionNumbers`.

    The mirror image of `GatherDimensionNumbers`, field by field: the updates stand in
    the place of the result.
    """

    update_window_dims: tuple
    inserted_window_dims: tuple
    scatter_dims_to_operand_dims: tuple
    operand_batching_dims: tuple = ()
    scatter_indices_batching_dims: tuple = ()


class GatherScatterMode(enum.Enum):
    """What to do where a window is not inside the operand.

    CLIP: move it inside.
    FILL_OR_DROP: a gather fills all of the window, a scatter drops the update.
    PROMISE_IN_BOUNDS: the caller says that it does not happen. If it does, a gather
      clips and a scatter drops, as JAX's do.
    """

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 3

    @staticmethod
    def from_any(mode):
        """The mode of that name; None is FILL_OR_DROP."""
        if isinstance(mode, GatherScatterMode):
            return mode
        if not isinstance(mode, (str, type(None))) or mode not in mode_names:
            raise ValueError(
                f"Unknown gather mode {mode!r}: expected one of "
                f"{[name for name in mode_names if name]}"
            )
        return mode_names[mode]


mode_names = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


def gather(
    operand,
    start_indices,
    dimension_numbers,
    slice_sizes,
    *,
    unique_indices=False,
    indices_are_sorted=False,
    mode=None,
    fill_value=None,
):
    """Read a window of the operand for each index vector.

    Args:
      operand: an array.
      start_indices: integers [*batch, k], a start for k of the operand's axes.
      dimension_numbers: a `GatherDimensionNumbers`.
      slice_sizes: the window's size along each axis of the operand.
      unique_indices: a promise that no two windows overlap.
      indices_are_sorted: a promise that the index vectors are in order.
      mode: a `GatherScatterMode` or its name; None is "promise_in_bounds".
      fill_value: for mode "fill": by default NaN, the smallest signed or the largest
        unsigned integer, True.

    JAX: `lax.gather`.
    """
    if mode is None:
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
    mode = GatherScatterMode.from_any(mode)
    if mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = default_fill(aval_of(operand).dtype)
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=GatherDimensionNumbers(*map(tuple, dimension_numbers)),
        slice_sizes=canonicalize_shape(slice_sizes),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=mode,
        fill_value=fill_value,
    )


def default_fill(dtype):
    """What a gather puts where a window is out of bounds, unless it is told."""
    dtype = dtypes.storage_of(dtype)
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        limits = dtypes.iinfo(dtype)
        return int(limits.min if dtype.kind == "i" else limits.max)
    return math.nan


def check_axes(axes, rank, name, ascending=True):
    """Raise unless `axes` are distinct axes of an array of this rank, in order."""
    if len(set(axes)) != len(axes):
        raise TypeError(f"{name} must not repeat an axis, got {axes}")
    if ascending and list(axes) != sorted(axes):
        raise TypeError(f"{name} must be sorted, got {axes}")
    if not all(0 <= axis < rank for axis in axes):
        raise TypeError(f"{name} must be in the range [0, {rank}), got {axes}")


def check_index_axes(name, operand, indices, collapsed, index_map, batching, batched):
    """The checks that gather and scatter share; see their dimension numbers."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{name} indices must be integers, got {indices.dtype}")
    if indices.ndim == 0:
        raise TypeError(f"{name} indices must have an axis that holds index vectors")
    check_axes(collapsed, operand.ndim, f"{name} collapsed or inserted dims")
    check_axes(index_map, operand.ndim, f"{name} index map", ascending=False)
    check_axes(batching, operand.ndim, f"{name} operand_batching_dims")
    check_axes(batched, indices.ndim - 1, f"{name} indices_batching_dims", False)
    if not set(batching).isdisjoint((*collapsed, *index_map)):
        raise TypeError(
            f"{name} operand_batching_dims {batching} must be disjoint from the "
            f"collapsed or inserted dims {collapsed} and the index map {index_map}"
        )
    if len(index_map) != indices.shape[-1]:
        raise TypeError(
            f"{name} has {len(index_map)} axes in its index map and index vectors of "
            f"size {indices.shape[-1]}: indices of shape {indices.shape}"
        )
    left = tuple(operand.shape[d] for d in batching)
    right = tuple(indices.shape[d] for d in batched)
    if left != right:
        raise TypeError(
            f"{name} requires batching dims of equal sizes, got {left} in the operand "
            f"and {right} in the indices"
        )


def gather_shape(operand, indices, *, dimension_numbers, slice_sizes, **params):
    """The shape rule of `gather`."""
    offset, collapsed, _, batching, _ = dimension_numbers
    check_index_axes("gather", operand, indices, *dimension_numbers[1:])
    rank = len(offset) + indices.ndim - 1
    check_axes(offset, rank, "gather offset_dims")
    if len(slice_sizes) != operand.ndim:
        raise TypeError(
            "gather must have one slice size for every operand dimension, got "
            f"slice_sizes {slice_sizes} for operand shape {operand.shape}"
        )
    for i, (size, n) in enumerate(zip(slice_sizes, operand.shape, strict=True)):
        if not 0 <= size <= n and 0 not in indices.shape:
            raise TypeError(
                f"Slice size at index {i} in gather op is out of range, must be within "
                f"[0, {n} + 1), got {size}."
            )
    if any(slice_sizes[d] != 1 for d in collapsed):
        raise TypeError(
            "gather can only collapse slice dims of size 1, got slice_sizes "
            f"{slice_sizes} and collapsed_slice_dims {collapsed}"
        )
    if any(slice_sizes[d] > 1 for d in batching):
        raise TypeError(
            "gather operand batching dims must have slice size 1, got slice_sizes "
            f"{slice_sizes} and operand_batching_dims {batching}"
        )
    window = window_axes(operand.ndim, collapsed, batching)
    if len(window) != len(offset):
        raise TypeError(
            f"gather has {len(window)} window axes that are not collapsed, but "
            f"offset_dims {offset}"
        )
    batch = iter(indices.shape[:-1])
    sizes = iter([slice_sizes[d] for d in window])
    shape = tuple(next(sizes if i in offset else batch) for i in range(rank))
    return operand.update(shape=shape)


def window_axes(rank, collapsed, batching):
    """The operand's axes along which a window extends in the result."""
    return [d for d in range(rank) if d not in collapsed and d not in batching]


@dataclass(frozen=True)
class Windows:
    """Where the windows of a gather or scatter lie in the operand.

    Axes that a window covers whole stay as they are; the others are indexed by arrays
    whose axes are the batch axes and then the partly covered window axes.

    Attributes:
      partial: the operand's axes that are indexed.
      full: its other axes.
      index: an integer array for each of `partial`.
      inside: bool[*batch], which windows fitted before they were moved inside.
      shape: of the index arrays, broadcast.
      window: the window axes in the order `partial` and then `full` has them.
    """

    partial: list
    full: list
    index: list
    inside: np.ndarray
    shape: tuple
    window: list


def find_windows(shape, indices, sizes, collapsed, index_map, batching, batched):
    """The `Windows` of these sizes in an operand of this shape, moved inside."""
    *batch, _ = indices.shape
    limits = np.array([shape[d] - sizes[d] for d in index_map], np.int64)
    starts = to_int64(indices)
    inside = ((starts >= 0) & (starts <= limits)).all(-1)
    starts = np.clip(starts, 0, limits)
    window = window_axes(len(shape), collapsed, batching)
    full = [d for d in window if sizes[d] == shape[d]]
    partial = [d for d in range(len(shape)) if d not in full]
    inner = [d for d in partial if d in window]
    rank, index = len(batch) + len(inner), []
    for d in partial:
        i = np.zeros((1,) * rank, np.int64)
        if d in index_map:
            i = i + starts[..., index_map.index(d)].reshape((*batch, *[1] * len(inner)))
        if d in batching:
            i = i + along(shape[d], batched[batching.index(d)], rank)
        if d in inner:
            i = i + along(sizes[d], len(batch) + inner.index(d), rank)
        index.append(i)
    index_shape = (*batch, *[sizes[d] for d in inner])
    return Windows(partial, full, index, inside, index_shape, inner + full)


def to_int64(indices):
    """Indices as int64: those beyond its range are out of bounds whatever they are."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    return indices.astype(np.int64)


def along(size, axis, rank):
    """0, 1, ..., size - 1 along one axis of an array of this rank."""
    return np.arange(size).reshape([size if a == axis else 1 for a in range(rank)])


def takes_along_axis(operand, dimension_numbers, slice_sizes):
    """Whether an index picks a place along one axis, and takes all of the others."""
    _, collapsed, index_map, batching, _ = dimension_numbers
    whole = [n for d, n in enumerate(operand.shape) if d not in collapsed]
    kept = [n for d, n in enumerate(slice_sizes) if d not in collapsed]
    one = len(collapsed) == 1 and index_map == collapsed and not batching
    return one and kept == whole


def take_numpy(operand, indices, offset, axis):
    """A gather along one axis: `np.take`, several times as fast as what is general."""
    result = np.take(operand, to_int64(indices[..., 0]), axis, mode="clip")
    batch = range(axis, axis + indices.ndim - 1)
    places = [d for d in range(result.ndim) if d not in offset]
    return np.moveaxis(result, batch, places)


def gather_numpy(operand, indices, *, dimension_numbers, slice_sizes, mode, **params):
    """Evaluate `gather`: NumPy's indexing with arrays."""
    offset, *rest = dimension_numbers
    fill = mode is GatherScatterMode.FILL_OR_DROP
    if not fill and takes_along_axis(operand, dimension_numbers, slice_sizes):
        return take_numpy(operand, indices, offset, *rest[0])
    w = find_windows(operand.shape, indices, slice_sizes, *rest)
    view = operand.transpose(w.partial + w.full)
    sizes = [operand.shape[d] for d in w.full]
    batch_rank = indices.ndim - 1
    if fill and not w.inside.all():
        value = np.array(params["fill_value"]).astype(operand.dtype)
        result = np.full((*w.shape, *sizes), value)
        # Only windows that fit are read: an empty operand has no others.
        index = tuple(np.broadcast_to(i, w.shape)[w.inside] for i in w.index)
        result[w.inside] = view[index] if index else view
    else:
        result = np.broadcast_to(view[tuple(w.index)], (*w.shape, *sizes))
    order = sorted(w.window)
    axes = [offset[order.index(d)] for d in w.window]
    return np.moveaxis(result, range(batch_rank, result.ndim), axes)


shape_rules |= {gather_p: gather_shape}
eval_rules |= on_numpy({gather_p: gather_numpy})


scatter_p = Primitive("scatter")
scatter_add_p = Primitive("scatter-add")
scatter_sub_p = Primitive("scatter-sub")
scatter_mul_p = Primitive("scatter-mul")
scatter_min_p = Primitive("scatter-min")
scatter_max_p = Primitive("scatter-max")


def bind_scatter(
    primitive,
    operand,
    scatter_indices,
    updates,
    dimension_numbers,
    *,
    indices_are_sorted=False,
    unique_indices=False,
    mode=None,
):
    """Write a window of the operand for each index vector.

    Args:
      operand: an array.
      scatter_indices: integers [*batch, k], a start for k of the operand's axes.
      updates: the windows; their dtype is the operand's.
      dimension_numbers: a `ScatterDimensionNumbers`.
      indices_are_sorted: a promise that the index vectors are in order.
      unique_indices: a promise that no element is written twice. Without it, updates
        are applied one after the other, in the order of the indices.
      mode: a `GatherScatterMode` or its name; None is "drop".
    """
    return primitive.bind(
        operand,
        scatter_indices,
        updates,
        dimension_numbers=ScatterDimensionNumbers(*map(tuple, dimension_numbers)),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
    )


scatter = partial(bind_scatter, scatter_p)
scatter_add = partial(bind_scatter, scatter_add_p)
scatter_sub = partial(bind_scatter, scatter_sub_p)
scatter_mul = partial(bind_scatter, scatter_mul_p)
scatter_min = partial(bind_scatter, scatter_min_p)
scatter_max = partial(bind_scatter, scatter_max_p)


def scatter_shape(name, operand, indices, updates, *, dimension_numbers, **params):
    """The shape rule of the scatters: the operand's type, if the updates fit."""
    window_dims, inserted, _, batching, _ = dimension_numbers
    check_index_axes(name, operand, indices, *dimension_numbers[1:])
    check_same_dtypes(name, (operand, updates))
    if operand.dtype.kind == "b" and name in arithmetic_scatters:
        raise TypeError(f"{name} does not accept dtype bool: use x.at[i].max or min.")
    rank = len(window_dims) + indices.ndim - 1
    if updates.ndim != rank:
        raise TypeError(
            f"{name} updates must be of rank {rank}, got shape {updates.shape}"
        )
    check_axes(window_dims, rank, f"{name} update_window_dims")
    window = window_axes(operand.ndim, inserted, batching)
    if len(window) != len(window_dims):
        raise TypeError(
            f"{name} has {len(window)} window axes that are not inserted, but "
            f"update_window_dims {window_dims}"
        )
    for d, u in zip(window, window_dims, strict=True):
        if updates.shape[u] > operand.shape[d]:
            raise TypeError(
                f"{name} updates of shape {updates.shape} are larger along axis {u} "
                f"than the operand of shape {operand.shape} along axis {d}"
            )
    batch = tuple(n for i, n in enumerate(updates.shape) if i not in window_dims)
    if batch != indices.shape[:-1]:
        raise TypeError(
            f"{name} updates have batch sizes {batch}, and the indices have "
            f"{indices.shape[:-1]}: updates {updates.shape}, indices {indices.shape}"
        )
    return operand


arithmetic_scatters = ("scatter-add", "scatter-sub", "scatter-mul")


def scatter_numpy(combine, operand, indices, updates, *, dimension_numbers, **params):
    """Evaluate a scatter: write to a copy of the operand.

    Args:
      combine: the NumPy ufunc that takes an update in, or None to overwrite.
    """
    dims, inserted, *rest = dimension_numbers
    window = window_axes(operand.ndim, inserted, rest[1])
    at = dict(zip(window, dims, strict=True))
    sizes = [updates.shape[at[d]] if d in at else 1 for d in range(operand.ndim)]
    w = find_windows(operand.shape, indices, sizes, inserted, *rest)
    # An axis of zeros in front: there may be nothing else to index by.
    index = tuple(np.broadcast_to(i, w.shape) for i in (0, *w.index))
    batch_rank = indices.ndim - 1
    updates = np.moveaxis(
        updates, [at[d] for d in w.window], range(batch_rank, updates.ndim)
    )
    if params["mode"] is not GatherScatterMode.CLIP and not w.inside.all():
        index = tuple(i[w.inside] for i in index)
        updates = updates[w.inside]
    result = operand.copy()
    view = result.transpose(w.partial + w.full)[None]
    if combine is None:
        view[index] = updates
    elif params["unique_indices"]:
        view[index] = combine(view[index], updates)
    else:
        # ufunc.at is fast only for one index, into one axis.
        places = flat_places(result, index, w)
        combine.at(result.reshape(-1), places.reshape(-1), updates.reshape(-1))
    return result


def flat_places(x, index, w):
    """Where in the memory of x, counted in elements, the windows' elements are."""
    steps = [step // x.itemsize for step in x.strides]
    places = index[0]
    for d, i in zip(w.partial, index[1:], strict=True):
        places = places + i * steps[d]
    for d in w.full:
        places = places[..., None] + np.arange(x.shape[d]) * steps[d]
    return places


combining = {
    scatter_p: None,
    scatter_add_p: np.add,
    scatter_sub_p: np.subtract,
    scatter_mul_p: np.multiply,
    scatter_min_p: np.minimum,
    scatter_max_p: np.maximum,
}
shape_rules |= {p: partial(scatter_shape, p.name) for p in combining}
eval_rules |= on_numpy({p: partial(scatter_numpy, f) for p, f in combining.items()})


# The entries of a NumPy-style index, once parsed, are: `None`; a slice whose parts are
# ints; an int; a bool, which makes an axis of its own, of size 1 or 0; an integer array
# with axes (NumPy's); a traced integer array.  Each of the last four but a bool, and
# each slice, is for one axis of the operand, in order.


def parse_index(shape, index):
    """Take a NumPy-style index into an array of this shape apart.

    Args:
      shape: a tuple of ints.
      index: what stands between the brackets of `x[...]`.

    Returns:
      (entries, contiguous): a list of entries that covers all axes, and whether the
      integers and arrays stood side by side, which decides where their axes go.

    Raises:
      TypeError, IndexError: for what is no index, with JAX's distinctions.
    """
    index = index if isinstance(index, tuple) else (reject_list(index),)
    parts = [parse_entry(i, position) for position, i in enumerate(index)]
    taken = sum(map(axes_taken, parts))
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if taken > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {taken} were "
            f"indexed{at_line(user_source())}"
        )
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    entries, axis = [], 0
    for position, part in enumerate(parts):
        n = len(shape) - taken if part is Ellipsis else axes_taken(part)
        if part is Ellipsis:
            entries += [slice(None)] * n
        elif is_mask(part):
            entries += mask_indices(part, shape[axis : axis + n], position)
        else:
            entries.append(part)
        axis += n
    places = [i for i, part in enumerate(parts) if is_mask(part) or is_integer(part)]
    return entries, not places or places[-1] - places[0] == len(places) - 1


def is_mask(entry):
    """Whether a part of an index is a boolean array with axes."""
    return isinstance(entry, np.ndarray) and entry.dtype.kind == "b"


def is_integer(entry):
    """Whether an entry is an int, or an array of integers, known or traced."""
    return isinstance(entry, (int, np.ndarray, Tracer)) and not isinstance(entry, bool)


def axes_taken(part):
    """For how many axes of the operand a part of an index is."""
    if is_mask(part):
        return part.ndim
    return int(isinstance(part, slice) or is_integer(part))


def reject_list(index):
    """A list is no index by itself, as in JAX: NumPy's rules for it were a trap."""
    if isinstance(index, Sequence) and not isinstance(index, str):
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; "
            "use `x[jnp.array(seq)]` for an array of indices, or `x[tuple(seq)]` for "
            f"one index an axis, instead of `x[seq]`.{at_line(user_source())}"
        )
    return index


def parse_entry(i, position):
    """One part of an index: values that are known become Python's or NumPy's."""
    if i is None or i is Ellipsis:
        return i
    if isinstance(i, slice):
        return parse_slice(i, position)
    if isinstance(i, str):
        raise TypeError(f"arrays cannot be indexed by strings; got index {i!r}")
    if isinstance(i, Sequence):
        i = np.asarray(i) if len(i) else np.zeros(0, np.int32)
    if not is_array_like(i):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and "
            f"integer or boolean arrays are valid indices. Got {i!r}"
        )
    aval = aval_of(i)
    if aval.dtype.kind not in "biu":
        raise TypeError(
            "Indexer must have integer or boolean type, got indexer with type "
            f"{aval.dtype}{at_line(user_source())}"
        )
    if aval.dtype.kind == "b":
        i = concrete_mask(i)
    if isinstance(i, Tracer):
        return i
    i = i if isinstance(i, (int, np.ndarray)) else to_numpy(i)
    return i if np.ndim(i) else np.asarray(i).item()


def parse_slice(s, position):
    """A slice with Python's ints in it."""
    try:
        parts = [
            None if k is None else operator.index(k) for k in (s.start, s.stop, s.step)
        ]
    except TypeError as error:
        raise IndexError(
            f"Slice entries must be static integers. Got {s} at position {position}."
            f"{at_line(user_source())}\n  Instead: take a window of a known size with "
            "`lax.dynamic_slice_in_dim(x, start, size)`, or mask what is not wanted "
            "with `jnp.where`."
        ) from error
    return slice(*parts)


def concrete_mask(mask):
    """The value of a boolean index, which must be known."""
    if not isinstance(mask, Tracer):
        return mask
    try:
        return mask.concrete("numpy")
    except (ConcretizationTypeError, TypeError) as error:
        raise NonConcreteBooleanIndexError(
            f"an array was indexed by a traced mask of type {mask.aval}: how many "
            "elements it selects, and so the result's shape, would depend on its "
            f"value.{mask.origin()}{at_line(user_source())}\n"
            "  Instead: keep the shape with `jnp.where(mask, x, 0)`; or say how many "
            "there are at most with `jnp.where(mask, size=n)` or "
            "`jnp.nonzero(mask, size=n)` and index by that; to write, use "
            "`jnp.where(mask, new, x)`."
        ) from error


def mask_indices(mask, shape, position):
    """An array of indices for each axis of a mask that covers axes of these sizes."""
    if any(m not in (0, n) for m, n in zip(mask.shape, shape, strict=True)):
        raise IndexError(
            "boolean index did not match shape of indexed array in index "
            f"{position}: got {mask.shape}, expected {shape}{at_line(user_source())}"
        )
    return list(np.nonzero(mask))


@dataclass(frozen=True)
class Span:
    """What a slice takes from an axis: `size` elements from `first` on, upwards."""

    first: int
    size: int
    step: int
    reverse: bool

    @property
    def length(self):
        """How many elements of the axis lie from the first to the last one taken."""
        return (self.size - 1) * self.step + 1 if self.size else 0


def span_of(s, n):
    """The `Span` of a slice of an axis of size n."""
    taken = range(n)[s]
    if len(taken) == 0:
        return Span(0, 0, 1, False)
    step = taken.step if len(taken) > 1 else 1
    return Span(min(taken[0], taken[-1]), len(taken), abs(step), step < 0)


def take_index(
    x,
    index,
    mode=None,
    fill_value=None,
    indices_are_sorted=False,
    unique_indices=False,
    wrap_negative_indices=True,
):
    """`x[index]` with NumPy's meaning, in the cheapest form there is.

    Without arrays in the index that is a slice, static or dynamic; else a gather.

    Args:
      x: an array.
      index: NumPy's: ints, slices, None, Ellipsis, integer arrays (also traced),
        boolean arrays of known value.
      mode: what an index out of bounds does: "clip" (the default: the nearest element
        is read), "fill", "promise_in_bounds".
      fill_value: what mode "fill" reads out of bounds; see `gather`.
      indices_are_sorted, unique_indices: promises about the arrays in the index.
      wrap_negative_indices: whether negative indices count from the end.

    JAX: `x[index]` and `x.at[index].get()`.
    """
    shape = aval_of(x).shape
    mode = GatherScatterMode.from_any(mode or GatherScatterMode.PROMISE_IN_BOUNDS)
    entries, contiguous = parse_index(shape, index)
    entries = wrap_entries(entries, shape, wrap_negative_indices)
    if is_basic(entries, shape, mode):
        return take_basic(x, entries, shape)
    form = gather_form(shape, entries, contiguous)
    if 0 in form.shape:
        return broadcast_in_dim(np.zeros((), aval_of(x).dtype), form.shape, ())
    result = gather(
        insert_axes(x, form.bool_axes),
        form.indices,
        form.dimension_numbers,
        form.slice_sizes,
        unique_indices=unique_indices or form.unique,
        indices_are_sorted=indices_are_sorted or form.unique,
        mode=mode,
        fill_value=concrete_scalar(fill_value),
    )
    if form.reversed_axes:
        result = rev(result, form.reversed_axes)
    return insert_axes(result, form.new_axes)


def insert_axes(x, axes):
    """x with axes of size 1, so that they are these axes of the result."""
    return expand_dims(x, axes) if axes else x


def concrete_scalar(fill_value):
    """A fill value as a Python number, for the parameters of an equation."""
    if fill_value is None or isinstance(fill_value, (bool, int, float, complex)):
        return fill_value
    if aval_of(fill_value).shape != ():
        raise ValueError("fill_value argument to indexed get() must be a scalar")
    return to_numpy(fill_value).item()


def wrap_entries(entries, shape, wrap):
    """The entries with negative integers counted from the end of their axis."""
    sizes = iter(shape)
    result = []
    for entry in entries:
        n = next(sizes) if axes_taken(entry) else None
        if is_integer(entry):
            entry = wrap_integer(entry, n, wrap)
        result.append(entry)
    return result


def wrap_integer(entry, n, wrap):
    """An int, or a 32-bit array of indices, with negative ones counted from the end."""
    if isinstance(entry, int):
        return entry + n if wrap and entry < 0 else entry
    unsigned = entry.dtype.kind == "u"
    if isinstance(entry, np.ndarray):
        limits = np.iinfo(np.int32)
        if entry.dtype != np.int32:
            entry = np.clip(to_int64(entry), limits.min, limits.max).astype(np.int32)
    elif entry.dtype not in (np.int32, np.int64):
        entry = convert(entry, np.dtype(np.int32))
    return wrap_negative(entry, n) if wrap and not unsigned else entry


def is_basic(entries, shape, mode):
    """Whether slices do: no arrays with axes, and nothing to be filled."""
    sizes = iter(shape)
    for entry in entries:
        n = next(sizes) if axes_taken(entry) else None
        if isinstance(entry, bool) or (is_integer(entry) and np.ndim(entry) > 0):
            return False
        filled = mode is GatherScatterMode.FILL_OR_DROP
        if filled and is_integer(entry) and not known_inside(entry, n):
            return False
    return True


def known_inside(entry, n):
    """Whether an integer is certainly an index of an axis of size n."""
    return isinstance(entry, int) and 0 <= entry < n


def take_basic(x, entries, shape):
    """`x[entries]` by a slice; by a dynamic one where an integer is traced."""
    starts, spans, squeezed, new_axes, sizes = [], [], [], [], iter(shape)
    for entry in entries:
        if entry is None:
            new_axes.append(len(spans) - len(squeezed) + len(new_axes))
            continue
        n = next(sizes)
        span = span_of(entry, n) if isinstance(entry, slice) else Span(0, 1, 1, False)
        if is_integer(entry):
            check_not_empty(n, len(spans))
            squeezed.append(len(spans))
            entry = min(max(entry, 0), n - 1) if isinstance(entry, int) else entry
        starts.append(span.first if isinstance(entry, slice) else entry)
        spans.append(span)
    x = take_spans(x, shape, starts, spans)
    reversed_axes = [axis for axis, span in enumerate(spans) if span.reverse]
    if reversed_axes:
        x = rev(x, reversed_axes)
    if squeezed:
        x = squeeze(x, tuple(squeezed))
    return insert_axes(x, new_axes)


def check_not_empty(n, axis):
    """Raise if an integer is to index an axis of size zero."""
    if n == 0:
        raise IndexError(
            f"index is out of bounds for axis {axis} with size 0"
            f"{at_line(user_source())}"
        )


def take_spans(x, shape, starts, spans):
    """The window that begins at `starts`; static where all of them are ints."""
    lengths = tuple(span.length for span in spans)
    if not all(isinstance(start, int) for start in starts):
        x = dynamic_slice(x, same_dtype(starts), lengths, allow_negative_indices=False)
        shape, starts = lengths, [0] * len(spans)
    steps = tuple(span.step for span in spans)
    if lengths == shape and all(step == 1 for step in steps):
        return x
    limits = tuple(a + n for a, n in zip(starts, lengths, strict=True))
    strided = any(step != 1 for step in steps)
    return static_slice(x, starts, limits, steps if strided else None)


def same_dtype(indices):
    """Indices, known and traced, as arrays of one dtype: int32 unless one is int64."""
    wide = any(getattr(i, "dtype", None) == np.int64 for i in indices)
    dtype = np.dtype(np.int64 if wide else np.int32)
    return [
        convert(i, dtype) if isinstance(i, Tracer) else np.asarray(i, dtype)
        for i in indices
    ]


@dataclass(frozen=True)
class GatherForm:
    """A NumPy-style index as a gather, or as a scatter, which mirrors it.

    Attributes:
      bool_axes: axes of size 1 to insert into the operand first, for scalar bools.
      indices: int[*batch, k], NumPy's where all is known.
      dimension_numbers: a `GatherDimensionNumbers`.
      slice_sizes: of the window, an int for each axis of the operand.
      reversed_axes: axes of what is gathered to reverse, for negative steps.
      new_axes: axes of size 1 to insert into the result at last, for each `None`.
      shape: of the result.
      unique: whether no element is taken twice, and they come in order.
    """

    bool_axes: tuple
    indices: object
    dimension_numbers: GatherDimensionNumbers
    slice_sizes: tuple
    reversed_axes: tuple
    new_axes: tuple
    shape: tuple
    unique: bool


def index_to_gather(shape, index, wrap_negative_indices=True, scatters=False):
    """The `GatherForm` of a NumPy-style index into an array of this shape."""
    entries, contiguous = parse_index(shape, index)
    entries = wrap_entries(entries, shape, wrap_negative_indices)
    return gather_form(shape, entries, contiguous, scatters)


def gather_form(shape, entries, contiguous, scatters=False):
    """The `GatherForm` of parsed and wrapped entries."""
    shape, entries, bool_axes = expand_bools(shape, entries)
    arrays = [i for i, e in enumerate(entries) if is_integer(e)]
    advanced = any(np.ndim(entries[i]) for i in arrays)
    place = None if not advanced else arrays[0] if contiguous else 0
    builder = FormBuilder(shape, scatters)
    for position, entry in enumerate(entries):
        if position == place:
            builder.arrays(entries)
        if entry is None:
            builder.new_axis()
        elif isinstance(entry, slice):
            builder.span(span_of(entry, shape[builder.axis]))
        else:
            builder.integer(entry, advanced)
    return builder.form(tuple(bool_axes), not advanced)


def expand_bools(shape, entries):
    """Scalar bools as arrays that index an axis of size 1: [0], or [] for False."""
    shape, result, bool_axes, axis = list(shape), [], [], 0
    for entry in entries:
        if isinstance(entry, bool):
            shape.insert(axis, 1)
            bool_axes.append(axis)
            entry = np.arange(int(entry), dtype=np.int32)
        axis += axes_taken(entry)
        result.append(entry)
    return tuple(shape), result, bool_axes


class FormBuilder:
    """Collects the parts of a `GatherForm`, entry after entry.

    `axis` is the next axis of the operand.  `parts` are (indices, the first batch axis
    they run along, the operand's axis they are for); broadcast to the batch axes and
    put side by side, they become the start indices.
    """

    def __init__(self, shape, scatters):
        self.operand_shape, self.scatters = shape, scatters
        self.axis = 0
        self.parts, self.batch = [], []
        self.offset, self.collapsed, self.sizes = [], [], []
        self.shape, self.reversed_axes, self.new_axes = [], [], []

    def gathered_axis(self):
        """The next axis of what is gathered, which has no new axes yet."""
        return len(self.shape) - len(self.new_axes)

    def new_axis(self):
        """An entry `None`."""
        self.new_axes.append(len(self.shape))
        self.shape.append(1)

    def arrays(self, entries):
        """The axes of all arrays, broadcast against each other."""
        axis, found = 0, []
        for entry in entries:
            if is_integer(entry):
                found.append((entry, axis))
            axis += axes_taken(entry)
        shape = broadcast_shapes([np.shape(entry) for entry, _ in found])
        for entry, axis in found:
            first = len(self.batch) + len(shape) - np.ndim(entry)
            self.parts.append((entry, first, axis))
        self.batch += shape
        self.shape += shape

    def integer(self, entry, advanced):
        """An integer or array; what it adds to the result, `arrays` has added."""
        # What is written out of bounds is dropped: also where nothing is in bounds.
        if np.size(entry) and not (self.scatters and advanced):
            check_not_empty(self.operand_shape[self.axis], self.axis)
        if not advanced:
            self.parts.append((entry, len(self.batch), self.axis))
        self.collapsed.append(self.axis)
        self.sizes.append(1)
        self.axis += 1

    def span(self, span):
        """A slice: a window where it has no step, else an array of indices."""
        axis = self.gathered_axis()
        if span.reverse:
            self.reversed_axes.append(axis)
        if span.step == 1:
            if span.size != self.operand_shape[self.axis]:
                self.parts.append((span.first, len(self.batch), self.axis))
            self.offset.append(axis)
            self.sizes.append(span.size)
        else:
            indices = span.first + span.step * np.arange(span.size, dtype=np.int32)
            self.parts.append((indices, len(self.batch), self.axis))
            self.batch.append(span.size)
            self.collapsed.append(self.axis)
            self.sizes.append(1)
        self.shape.append(span.size)
        self.axis += 1

    def form(self, bool_axes, unique):
        """The finished `GatherForm`."""
        dimension_numbers = GatherDimensionNumbers(
            offset_dims=tuple(self.offset),
            collapsed_slice_dims=tuple(self.collapsed),
            start_index_map=tuple(axis for _, _, axis in self.parts),
        )
        return GatherForm(
            bool_axes,
            join_indices(self.parts, tuple(self.batch)),
            dimension_numbers,
            tuple(self.sizes),
            tuple(self.reversed_axes),
            tuple(self.new_axes),
            tuple(self.shape),
            unique,
        )


def broadcast_shapes(shapes):
    """The common shape of arrays of indices."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise ValueError(
            "the arrays of an index must have shapes that broadcast against each "
            f"other, got {', '.join(map(str, shapes))}{at_line(user_source())}"
        ) from error


def join_indices(parts, batch):
    """Start indices int[*batch, k] out of a `FormBuilder`'s parts."""
    indices = same_dtype([part for part, _, _ in parts])
    if not parts:
        return np.zeros((*batch, 0), np.int32)
    columns = []
    for i, (_, first, _) in zip(indices, parts, strict=True):
        axes = tuple(range(first, first + np.ndim(i)))
        columns.append(spread(i, (*batch, 1), axes))
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate(columns, -1)
    return concatenate(columns, len(batch))


def spread(x, shape, axes):
    """`broadcast_in_dim`, done at once where x is NumPy's."""
    if isinstance(x, Tracer):
        return broadcast_in_dim(x, shape, axes)
    return broadcast_in_dim_values(x, shape=shape, broadcast_dimensions=axes)


def update_index(
    x,
    index,
    update,
    scatter,
    mode=None,
    indices_are_sorted=False,
    unique_indices=False,
    wrap_negative_indices=True,
):
    """`x` with `update` scattered to where `x[index]` reads.

    Args:
      x: an array.
      index: as in `take_index`.
      update: what broadcasts to the shape of `x[index]`.
      scatter: `scatter`, `scatter_add`, ...
      mode: what an update out of bounds does: "drop" (the default), "clip",
        "promise_in_bounds".
      indices_are_sorted, unique_indices: promises about the arrays in the index.
      wrap_negative_indices: whether negative indices count from the end.

    JAX: `x.at[index].set(update)`, `.add` and so on.
    """
    aval = aval_of(x)
    form = index_to_gather(aval.shape, index, wrap_negative_indices, scatters=True)
    operand, update = promote_update(x, update)
    update = shape_update(update, form)
    if 0 in (*form.shape, *aval.shape):
        return x
    dims = ScatterDimensionNumbers(*form.dimension_numbers)
    result = scatter(
        insert_axes(operand, form.bool_axes),
        form.indices,
        update,
        dims,
        indices_are_sorted=form.unique or indices_are_sorted,
        unique_indices=form.unique or unique_indices,
        mode=mode,
    )
    if form.bool_axes:
        result = squeeze(result, form.bool_axes)
    return convert(result, aval.dtype, aval.weak_type)


def promote_update(x, update):
    """An operand and its update in a common dtype; a Python int takes the operand's."""
    dtype = aval_of(x).dtype
    if isinstance(update, int) and not isinstance(update, bool) and dtype.kind in "iu":
        limits = dtypes.iinfo(dtype)
        if limits.min <= update <= limits.max:
            return x, np.array(update, dtype)
    common, _ = dtypes.lattice_result_type(x, update)
    if common != dtype and dtypes.promote_types(dtype, common) != dtype:
        warn_unsafe_update(dtype, aval_of(update).dtype)
    return convert(x, common), convert(update, common)


def warn_unsafe_update(dtype, update_dtype):
    """An update that its operand cannot hold is cut; JAX warns, and so does this."""
    warnings.warn(
        "scatter inputs have incompatible types: cannot safely cast value from "
        f"dtype={update_dtype} to dtype={dtype}. In future JAX releases this will "
        f"result in an error.{at_line(user_source())}",
        FutureWarning,
        stacklevel=user_level(),
    )


def shape_update(update, form):
    """An update broadcast to what is scattered: no new axes, and steps upwards."""
    shape = aval_of(update).shape
    rank = len(form.shape)
    try:
        fits = np.broadcast_shapes(shape, form.shape) == form.shape
    except ValueError:
        fits = False
    if not fits or len(shape) > rank:
        raise ValueError(
            f"an update of shape {shape} does not broadcast to the shape {form.shape} "
            f"of the indexed part{at_line(user_source())}"
        )
    if shape != form.shape:
        update = broadcast_in_dim(
            update, form.shape, tuple(range(rank - len(shape), rank))
        )
    if form.new_axes:
        update = squeeze(update, form.new_axes)
    return rev(update, form.reversed_axes) if form.reversed_axes else update


def apply_index(x, index, function, **params):
    """`x` with `function` applied, once, to the elements that `x[index]` reads.

    JAX: `x.at[index].apply(function)`, but for an element that the index names more
    than once: JAX applies the function to it as often.
    """
    if aval_of(x).size == 0:
        return update_index(x, index, 0, scatter, **params)
    wrap = params.get("wrap_negative_indices", True)
    taken = take_index(x, index, mode="clip", wrap_negative_indices=wrap)
    return update_index(x, index, function(taken), scatter, **params)
