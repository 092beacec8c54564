"""Windows at index vectors: `gather` reads them, and `scatter` writes them.

    gather(x, indices, numbers, slice_sizes)           # x[rows] and its like
    scatter_add(x, indices, updates, numbers)          # x.at[rows].add(updates)

`gather` reads a window of the operand for each vector of start indices; `scatter`
writes one.  Which axis is which stands in their dimension numbers, as in XLA
(https://www.openxla.org/xla/operation_semantics#gather).  A window that does not fit
into the operand is moved inside (clip), or left out: filled when read, dropped when
written (fill_or_drop).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.jaxprs.parser import param_types
from ..trace.shape_checks import canonicalize_shape, check_same_dtypes
from ..trace.slicing import to_int64
from ..trace.types import Array, ArrayLike, Shape
from ..transform.batching.vmap import batch_rules, lanes_at, move_axis
from ..transform.batching.windows import windows_in_lanes
from ..transform.derivatives.linearize import add_tangents, linearize_rules
from ..transform.derivatives.transpose import (
    adding, aval_of_argument, is_linear, sum_so_far, transpose_rules,
)
from ..transform.tangents import dense_like, linear_in_all

gather_p = Primitive("gather")


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
    ONE_HOT: a gather reads zeros, as a product with one-hot rows does, and a scatter
      drops.
    """

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

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
    "one_hot": GatherScatterMode.ONE_HOT,
}


def gather(
    operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: Any,
    slice_sizes: Shape, *, unique_indices: bool = False,
    indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None,
) -> Array:  # fmt: skip
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
    if mode is GatherScatterMode.ONE_HOT:
        mode, fill_value = GatherScatterMode.FILL_OR_DROP, 0
    elif mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = default_fill(aval_of(operand).dtype)
    return gather_p.bind(
        operand, start_indices,
        dimension_numbers=GatherDimensionNumbers(*map(tuple, dimension_numbers)),
        slice_sizes=canonicalize_shape(slice_sizes),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted), mode=mode, fill_value=fill_value,
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


def check_dims(name, field, axes, rank, ascending=True):
    """Raise unless `axes` are distinct axes of an array of this rank, in order."""
    if ascending and list(axes) != sorted(axes):
        raise TypeError(f"{field} in {name} op must be sorted, got {axes}")
    if len(set(axes)) != len(axes):
        raise TypeError(f"{field} in {name} op must not repeat an axis, got {axes}")
    if not all(0 <= axis < rank for axis in axes):
        raise TypeError(
            f"Invalid {field} set in {name} op; valid range is [0, {rank}), got {axes}"
        )


def rank_around_windows(name, indices, window_dims):
    """How many axes a gather's result has, or a scatter's updates."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{name} indices must be integers, got {indices.dtype}")
    if indices.ndim == 0:
        raise TypeError(f"{name} indices must have an axis that holds index vectors")
    return len(window_dims) + indices.ndim - 1


def check_index_axes(name, operand, indices, numbers):
    """The checks that gather and scatter share; see their dimension numbers."""
    _, *fields = numbers._fields
    _, *found = numbers
    last = indices.ndim - 1
    for i, (field, axes) in enumerate(zip(fields, found, strict=True)):
        # Those of the indices may come in any order, and so may those that they index.
        rank = indices.ndim if i == 3 else operand.ndim
        check_dims(name, field, axes, rank, ascending=i in (0, 2))
    collapsed, index_map, batching, batched = found
    op = f"{name.capitalize()} op"
    for field, axes in zip(fields[:2], (collapsed, index_map), strict=True):
        if not set(batching).isdisjoint(axes):
            raise TypeError(
                f"{field} and {fields[2]} in {name} op must be disjoint, got {axes} "
                f"and {batching}"
            )
    if len(index_map) != indices.shape[-1]:
        raise TypeError(
            f"{op} has {len(index_map)} elements in {fields[1]} and the bound of "
            f"dimension index_vector_dim={last} of indices is {indices.shape[-1]}. "
            "These two numbers must be equal."
        )
    if last in batched:
        raise TypeError(
            f"{op} cannot have the index vector dimension as a batching dimension, got "
            f"{fields[3]} {batched} for indices of shape {indices.shape}"
        )
    if len(batching) != len(batched):
        raise TypeError(
            f"{op} requires equal numbers of {fields[2]} and {fields[3]}, got "
            f"{batching} and {batched}"
        )
    left = tuple(operand.shape[d] for d in batching)
    right = tuple(indices.shape[d] for d in batched)
    if left != right:
        raise TypeError(
            f"{op} requires operand batching dimensions and indices batching "
            f"dimensions to have the same shape, got {left} and {right}"
        )


def gather_shape(operand, indices, *, dimension_numbers, slice_sizes, **params):
    offset, collapsed, _, batching, _ = dimension_numbers
    rank = rank_around_windows("gather", indices, offset)
    for i, axis in enumerate(offset):
        if not 0 <= axis < rank:
            raise TypeError(
                f"Offset dimension {i} in gather op is out of bounds; got {axis}, but "
                f"the result has {rank} axes"
            )
    check_dims("gather", "offset_dims", offset, rank)
    check_index_axes("gather", operand, indices, dimension_numbers)
    if len(slice_sizes) != operand.ndim:
        raise TypeError(
            "Gather op must have one slice size for every input dimension, got "
            f"slice_sizes {slice_sizes} for operand shape {operand.shape}"
        )
    window = window_axes(operand.ndim, collapsed, batching)
    if len(window) != len(offset):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset "
            f"dimension or explicitly collapsed/batching, got {len(window)} axes that "
            f"are not collapsed and offset_dims {offset}"
        )
    for i, (size, n) in enumerate(zip(slice_sizes, operand.shape, strict=True)):
        if not 0 <= size <= n and 0 not in indices.shape:
            raise TypeError(
                f"Slice size at index {i} in gather op is out of range, must be within "
                f"[0, {n} + 1), got {size}."
            )
    for i, d in enumerate(collapsed):
        if slice_sizes[d] != 1:
            raise TypeError(
                "Gather op can only collapse slice dims with bound 1, but bound is "
                f"{slice_sizes[d]} for index {d} at position {i}."
            )
    for i, d in enumerate(batching):
        if slice_sizes[d] > 1:
            raise TypeError(
                "Gather op can only have operand batching dims with bound 0/1, but "
                f"bound is {slice_sizes[d]} for index {d} at position {i}."
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
    # One axis of the operand after the other: NumPy is slow along an axis of two.
    starts, inside = {}, np.ones(batch, bool)
    for i, d in enumerate(index_map):
        limit, start = shape[d] - sizes[d], to_int64(indices[..., i])
        starts[d] = np.clip(start, 0, limit)
        inside &= starts[d] == start
    window = window_axes(len(shape), collapsed, batching)
    full = [d for d in window if sizes[d] == shape[d]]
    partial = [d for d in range(len(shape)) if d not in full]
    inner = [d for d in partial if d in window]
    rank, index = len(batch) + len(inner), []
    for d in partial:
        i = np.zeros((1,) * rank, np.int64)
        if d in index_map:
            i = i + starts[d].reshape((*batch, *[1] * len(inner)))
        if d in batching:
            i = i + along(shape[d], batched[batching.index(d)], rank)
        if d in inner:
            i = i + along(sizes[d], len(batch) + inner.index(d), rank)
        index.append(i)
    index_shape = (*batch, *[sizes[d] for d in inner])
    return Windows(partial, full, index, inside, index_shape, inner + full)


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

scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p = [
    Primitive(f"scatter{how}") for how in ("", "-add", "-sub", "-mul", "-min", "-max")
]


def bind_scatter(
    primitive: Any, operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike,
    dimension_numbers: Any, *, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None,
) -> Array:  # fmt: skip
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
        operand, scatter_indices, updates,
        dimension_numbers=ScatterDimensionNumbers(*map(tuple, dimension_numbers)),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices), mode=GatherScatterMode.from_any(mode),
    )


scatter: Callable[..., Array] = partial(bind_scatter, scatter_p)
scatter_add: Callable[..., Array] = partial(bind_scatter, scatter_add_p)
scatter_sub: Callable[..., Array] = partial(bind_scatter, scatter_sub_p)
scatter_mul: Callable[..., Array] = partial(bind_scatter, scatter_mul_p)
scatter_min: Callable[..., Array] = partial(bind_scatter, scatter_min_p)
scatter_max: Callable[..., Array] = partial(bind_scatter, scatter_max_p)


def scatter_shape(name, operand, indices, updates, *, dimension_numbers, **params):
    """The shape rule of the scatters: the operand's type, if the updates fit."""
    window_dims, inserted, _, batching, _ = dimension_numbers
    check_same_dtypes(name, (operand, updates))
    if operand.dtype.kind == "b" and name in arithmetic_scatters:
        raise TypeError(f"{name} does not accept dtype bool: use x.at[i].max or min.")
    rank = rank_around_windows(name, indices, window_dims)
    if updates.ndim != rank:
        raise TypeError(
            f"Updates tensor must be of rank {rank}; got {updates.ndim}, a shape "
            f"{updates.shape} in {name}"
        )
    check_dims("scatter", "update_window_dims", window_dims, rank)
    check_index_axes("scatter", operand, indices, dimension_numbers)
    window = window_axes(operand.ndim, inserted, batching)
    if len(window) != len(window_dims):
        size = len(window_dims) + len(inserted) + len(batching)
        raise TypeError(
            f"Scatter op has window of size {size}; doesn't match operand of rank "
            f"{operand.ndim}."
        )
    for d, u in zip(window, window_dims, strict=True):
        if updates.shape[u] > operand.shape[d]:
            raise TypeError(
                "Bounds of the window dimensions of updates must not exceed those of "
                f"the operand: updates of shape {updates.shape} are larger along axis "
                f"{u} than the operand of shape {operand.shape} along axis {d}"
            )
    batch = tuple(n for i, n in enumerate(updates.shape) if i not in window_dims)
    if batch != indices.shape[:-1]:
        raise TypeError(
            f"Bounds of the scatter dimensions of updates {updates.shape}, {batch}, "
            f"must be those of the indices {indices.shape}, {indices.shape[:-1]}"
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


# How an update is taken in: by NumPy's function, and by its name in loops.
combining = {
    scatter_p: (None, None),
    scatter_add_p: (np.add, "add"),
    scatter_sub_p: (np.subtract, "sub"),
    scatter_mul_p: (np.multiply, "mul"),
    scatter_min_p: (np.minimum, "min"),
    scatter_max_p: (np.maximum, "max"),
}
shape_rules |= {p: partial(scatter_shape, p.name) for p in combining}
eval_rules |= on_numpy({
    p: partial(scatter_numpy, ufunc) for p, (ufunc, _) in combining.items()
})
param_types |= {
    c.__name__: c
    for c in (GatherDimensionNumbers, ScatterDimensionNumbers, GatherScatterMode)
}


# ---- derivatives


def gather_linearize(nonzero, x, indices, *, fill_value, **params):
    """What is filled in has no tangent: it is filled with zero."""
    take = partial(gather_p.bind, **params)
    zero = 0 if params["mode"] is GatherScatterMode.FILL_OR_DROP else None
    y = take(x, indices, fill_value=fill_value)
    return y, lambda t, _: take(t, indices, fill_value=zero)


def scatter_linear(primitive, nonzero, x, indices, updates, **params):
    """Adding and subtracting are linear in both."""
    write = lambda x, updates: primitive.bind(x, indices, updates, **params)
    y, linear = linear_in_all(write, x, updates)
    return y, lambda t, _, s: linear(t, s)


def scatter_linearize(nonzero, x, indices, updates, **params):
    """Of several updates of one place the last one wins, and so does its tangent.

    Who won is found out by scattering the numbers of the updates, and reading them
    back; from then on the winners are written, by an addition, to places made zero.
    """
    if params["unique_indices"]:
        return scatter_linear(scatter_p, nonzero, x, indices, updates, **params)
    numbers = update_numbers(updates, params["dimension_numbers"])
    nobody = lax.full(aval_of(x).shape, 0, numbers.dtype)
    winners = scatter_p.bind(nobody, indices, numbers, **params)
    untouched = lax.eq(winners, lax.full_like(winners, 0))
    won = lax.eq(read_back(winners, indices, updates, **params), numbers)
    y = scatter_p.bind(x, indices, updates, **params)

    def linear(t, _, s):
        t, s = dense_like((t, s), (x, updates))
        t = lax.select(untouched, t, lax.full_like(t, 0))
        s = lax.select(won, s, lax.full_like(s, 0))
        return scatter_add_p.bind(t, indices, s, **params)

    return y, linear


def update_numbers(updates, dimension_numbers):
    """1, 2, 3, ... for the windows that are written, of the shape of the updates."""
    aval, window = aval_of(updates), dimension_numbers.update_window_dims
    batch = [d for d in range(aval.ndim) if d not in window]
    sizes = [aval.shape[d] for d in batch]
    numbers = lax.add(lax.iota(np.dtype(np.int32), math.prod(sizes)), 1)
    return lax.broadcast_in_dim(lax.reshape(numbers, sizes), aval.shape, batch)


def read_back(x, indices, updates, *, dimension_numbers, mode, **promises):
    """The windows of x that a scatter writes, of the shape of its updates; 0 where an
    update was dropped."""
    window = dimension_numbers.update_window_dims
    sizes = iter([aval_of_argument(updates).shape[d] for d in window])
    _, inserted, _, batching, _ = dimension_numbers
    single, clips = {*inserted, *batching}, mode is GatherScatterMode.CLIP
    return gather(
        x, indices, GatherDimensionNumbers(*dimension_numbers),
        [1 if d in single else next(sizes) for d in range(aval_of(x).ndim)],
        mode="clip" if clips else "fill", fill_value=None if clips else 0, **promises,
    )


def scatter_mul_linearize(nonzero, x, indices, updates, **params):
    """The product's tangent; by an update only where no other one is in its place."""
    if nonzero[2] and not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul is differentiable by its updates only if unique_indices=True "
            "promises that no element is multiplied twice"
        )
    write = partial(scatter_mul_p.bind, **params)

    def linear(t, _, s):
        t = None if t is None else write(t, indices, updates)
        if s is None:
            return t
        s = scatter_add_p.bind(lax.full_like(x, 0), indices, s, **params)
        return add_tangents(t, lax.mul(s, x))

    return write(x, indices, updates), linear


def scatter_extremum(primitive, nonzero, x, indices, updates, **params):
    """All who attain an extremum share its tangent evenly: updates, and what was there.

    An update's share is 1 / n if it is one of n; the operand's is what is left to it,
    which is written as a change divided among all updates of the place.
    """
    y = primitive.bind(x, indices, updates, **params)
    read = partial(read_back, indices=indices, updates=updates, **params)
    zero, one = lax.full_like(updates, 0), lax.full_like(updates, 1)

    def count(mask):
        ones = lax.select(mask, one, zero)
        return scatter_add_p.bind(lax.full_like(x, 0), indices, ones, **params)

    best = read(y)
    wins, stays = lax.eq(updates, best), lax.eq(read(x), best)
    winners = lax.add(read(count(wins)), lax.select(stays, one, zero))
    share = lax.div(one, lax.max(winners, one))
    update_share = lax.select(wins, share, zero)
    everybody = lax.max(read(count(lax.eq(zero, zero))), one)
    lost = lax.sub(lax.select(stays, share, zero), one)
    operand_change = lax.div(lost, everybody)

    def linear(t, _, s):
        t, s = dense_like((t, s), (x, updates))
        change = lax.mul(read(t), operand_change)
        change = add_tangents(change, lax.mul(s, update_share))
        return scatter_add_p.bind(t, indices, change, **params)

    return y, linear


linearize_rules |= {
    gather_p: gather_linearize,
    scatter_p: scatter_linearize,
    scatter_add_p: partial(scatter_linear, scatter_add_p),
    scatter_sub_p: partial(scatter_linear, scatter_sub_p),
    scatter_mul_p: scatter_mul_linearize,
    scatter_min_p: partial(scatter_extremum, scatter_min_p),
    scatter_max_p: partial(scatter_extremum, scatter_max_p),
}


def gather_transpose(ct, accs, x, indices, *, dimension_numbers, mode, **params):
    """Add to the sum so far wherever a number was read, as often as it was."""
    acc = scatter_add_p.bind(
        sum_so_far(accs[0], x, ct), indices, ct,
        dimension_numbers=ScatterDimensionNumbers(*dimension_numbers),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"], mode=mode,
    )
    return [acc, None]


transpose_rules |= {gather_p: gather_transpose}


def scatter_add_transpose(sign, ct, x, indices, updates, **params):
    back = ct if is_linear(x) else None
    if not is_linear(updates):
        return back, None, None
    part = read_back(ct, indices, updates, **params)
    return back, None, part if sign > 0 else lax.neg(part)


def scatter_transpose(ct, x, indices, updates, **params):
    """What was written over has no part in the result; each place was written once."""
    over = part = None
    if is_linear(x):
        zero = lax.full(aval_of_argument(updates).shape, 0, aval_of(ct).dtype)
        over = scatter_p.bind(ct, indices, zero, **params)
    if is_linear(updates):
        part = read_back(ct, indices, updates, **params)
    return over, None, part


def scatter_mul_transpose(ct, x, indices, updates, **params):
    """Linear in the operand, or in updates that meet no other update."""
    if is_linear(x):
        return scatter_mul_p.bind(ct, indices, updates, **params), None, None
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul can be transposed by its updates only if unique_indices=True"
        )
    return None, None, read_back(lax.mul(ct, x), indices, updates, **params)


transpose_rules |= adding({
    scatter_add_p: partial(scatter_add_transpose, 1),
    scatter_sub_p: partial(scatter_add_transpose, -1),
    scatter_p: scatter_transpose,
    scatter_mul_p: scatter_mul_transpose,
})


# ---- lanes


def gather_batch(lanes, axes, x, indices, *, dimension_numbers, slice_sizes, **params):
    """Lanes of the operand alone are one more window axis; of the indices alone, one
    more batch axis; of both, a batching axis."""
    x_axis, index_axis = axes
    numbers = dimension_numbers
    gather = partial(gather_p.bind, **params)
    if index_axis is None:
        x = move_axis(x, x_axis, 0)
        numbers = numbers_behind_lanes(numbers, offset=(0,))
        sizes = (lanes.size, *slice_sizes)
        return gather(x, indices, dimension_numbers=numbers, slice_sizes=sizes), 0
    indices = move_axis(indices, index_axis, 0)
    if x_axis is None:
        numbers = numbers._replace(
            offset_dims=behind(numbers.offset_dims),
            start_indices_batching_dims=behind(numbers.start_indices_batching_dims),
        )
        # What was unique or in order in a lane need not be so in all of them.
        gather = partial(gather, **dict.fromkeys(promises, False))
        sizes = slice_sizes
        return gather(x, indices, dimension_numbers=numbers, slice_sizes=sizes), 0
    x = move_axis(x, x_axis, 0)
    numbers = numbers_behind_lanes(numbers, operand_batch=(0,), index_batch=(0,))
    sizes = (min(1, lanes.size), *slice_sizes)
    return gather(x, indices, dimension_numbers=numbers, slice_sizes=sizes), 0


promises = "unique_indices", "indices_are_sorted"


def behind(axes):
    """Axes of one lane where the lanes are the first axis."""
    return tuple(d + 1 for d in axes)


def numbers_behind_lanes(numbers, offset=(), operand_batch=(), index_batch=()):
    """Dimension numbers of a gather or scatter whose lanes are on axis 0.

    Lanes of the operand only are an offset axis, and the indices have none.
    """
    window, collapsed, index_map, operand_dims, index_dims = numbers
    index_dims = behind(index_dims) if index_batch else index_dims
    return type(numbers)(
        (*offset, *behind(window)), behind(collapsed), behind(index_map),
        (*operand_batch, *behind(operand_dims)), (*index_batch, *index_dims),
    )


def scatter_batch(
    primitive, lanes, axes, x, indices, updates, *, dimension_numbers, **params
):
    """Each lane has an operand of its own; see `gather_rule`."""
    x_axis, index_axis, update_axis = axes
    x = lanes_at(x, x_axis, 0, lanes.size)
    updates = lanes_at(updates, update_axis, 0, lanes.size)
    if index_axis is None:
        numbers = numbers_behind_lanes(dimension_numbers, offset=(0,))
    else:
        indices = move_axis(indices, index_axis, 0)
        batch = dict(operand_batch=(0,), index_batch=(0,))
        numbers = numbers_behind_lanes(dimension_numbers, **batch)
    return primitive.bind(x, indices, updates, dimension_numbers=numbers, **params), 0


batch_rules |= {gather_p: gather_batch}
batch_rules |= {p: partial(scatter_batch, p) for p in combining}


# Params of a gather or scatter of one window, moved inside as a dynamic slice is.
one_window = dict.fromkeys(promises, True) | {"mode": GatherScatterMode.CLIP}


def windows_read(lanes, axes, x, indices, sizes):
    """A dynamic slice that starts elsewhere in each lane: a gather."""
    every = tuple(range(len(sizes)))
    numbers = GatherDimensionNumbers(every, (), every)
    params = dict(dimension_numbers=numbers, slice_sizes=sizes, fill_value=None)
    return gather_batch(lanes, axes, x, indices, **params, **one_window)


def windows_written(lanes, axes, x, indices, update):
    """A dynamic update that starts elsewhere in each lane: a scatter."""
    every = tuple(range(aval_of(indices).shape[-1]))
    params = dict(dimension_numbers=ScatterDimensionNumbers(every, (), every))
    operands = x, indices, update
    return scatter_batch(scatter_p, lanes, axes, *operands, **params, **one_window)


windows_in_lanes |= {"read": windows_read, "write": windows_written}
