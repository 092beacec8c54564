"""Collectives: operations that look across the lanes of a `vmap`.

    vmap(lambda x: x - pmean(x, "i"), axis_name="i")(xs)

`psum(x, "i")` is the sum over the lanes of the `vmap` that calls its axis "i".  Under
that vmap it is an ordinary reduction.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...trace import dtypes, primitives as lax
from ...trace.array import ShapedArray, aval_of, shape_rules
from ...trace.base.errors import HERE
from ...trace.core import Primitive, eval_rules
from ...trace.slicing import dynamic_index_in_dim
from ...trace.trees.pytree import tree_map
from ...trace.types import ArrayLike
from ..derivatives.linearize import linear_in_first, linearize_rules
from ..derivatives.transpose import adding, transpose_rules
from .axes import axis_sizes, collective_rules
from .vmap import batch_rules, lanes_at, move_axis
from .windows import inserted, merge_into, split_axis as shares

psum_p, pmax_p, pmin_p = map(Primitive, ["psum", "pmax", "pmin"])
axis_index_p, all_gather_p = Primitive("axis_index"), Primitive("all_gather")


def axis_size(axis_name: Any) -> int:
    """How many lanes the named axes have: a Python int (`jax.lax.axis_size`)."""
    sizes, names = axis_sizes(), as_names(axis_name)
    for name in names:
        if name not in sizes:
            raise NameError(
                f"unbound axis name: {name}. A collective is over the lanes of a vmap "
                f"with axis_name={name!r} around it; the names here are "
                f"{list(sizes)}{HERE}"
            )
    return math.prod(sizes[name] for name in names)


def as_names(axis_name):
    """One name or several as a tuple."""
    several = isinstance(axis_name, (tuple, list))
    return tuple(axis_name) if several else (axis_name,)


def names_of(axis_name, axis_index_groups=None):
    """One name or several as a tuple; each must be bound, and no groups be given."""
    if axis_index_groups is not None:
        raise NotImplementedError("axis_index_groups are not supported under vmap")
    axis_size(axis_name)
    return as_names(axis_name)


def psum(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over the lanes of an axis that a `vmap` named, the same in each.

    Args:
      x: array or tree of arrays.
      axis_name: what `vmap(..., axis_name=)` called the axis, or a tuple of names.

    A number is the same in all lanes: its sum is known, and a number.
    """
    names = names_of(axis_name, axis_index_groups)

    def one(v):
        if isinstance(v, (int, float, complex)):
            return v * axis_size(names)
        if aval_of(v).dtype.kind == "b":
            v = lax.convert(v, np.dtype(np.int32))
        return psum_p.bind(v, axis_name=names)

    return tree_map(one, x)


def pmean(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over the lanes of a named axis."""
    n = axis_size(axis_name)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)

    def one(v):
        dtype = aval_of(v).dtype
        if not dtypes.issubdtype(dtype, np.inexact):
            v = lax.convert(v, dtypes.canonicalize_dtype(np.float64))
        return lax.div(v, lax.full((), n, aval_of(v).dtype))

    return tree_map(one, total)


def pmax(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The largest over the lanes of a named axis."""
    names = names_of(axis_name, axis_index_groups)
    return tree_map(partial(pmax_p.bind, axis_name=names), x)


def pmin(x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The smallest over the lanes of a named axis."""
    names = names_of(axis_name, axis_index_groups)
    return tree_map(partial(pmin_p.bind, axis_name=names), x)


def axis_index(axis_name: Any) -> Any:
    """Which lane of a named axis this is: int32."""
    names = names_of(axis_name)
    index = None
    for name in names:
        here = axis_index_p.bind(axis_name=(name,))
        behind = axis_size(name)
        index = here if index is None else lax.add(lax.mul(index, behind), here)
    return index


def all_gather(
    x: ArrayLike, axis_name: Any, *, axis_index_groups: Any = None,
    axis: int | Sequence[int] = 0, tiled: Any = False,
) -> Any:
    """The values of all lanes of a named axis, stacked along a new axis `axis`.

    With `tiled` they are put one after another along an axis that is there already.
    """
    names = names_of(axis_name, axis_index_groups)

    def one(v):
        for name in reversed(names):
            params = dict(axis_name=(name,), axis_size=axis_size(name))
            v = all_gather_p.bind(v, all_gather_dimension=0, **params)
        aval = aval_of(v)
        n, size = len(names), axis_size(names)
        v = lax.reshape(v, (size, *aval.shape[n:]))
        place = axis % (aval_of(v).ndim - tiled)
        return merge_into(v, 0, place) if tiled else move_axis(v, 0, place)

    return tree_map(one, x)


def own_part(x, axis_name, axis):
    """The part of x, which is the same in all lanes, with this lane's number on an
    axis; the axis goes."""
    return place_of(x, axis_index(axis_name), axis)


def place_of(x, index, axis=0):
    """x[index] along an axis, which goes; the index is in bounds."""
    return dynamic_index_in_dim(x, index, axis, False, allow_negative_indices=False)


def counted_axis(name, aval, axis):
    """An axis counted from the front; ValueError if there is none."""
    axis = operator.index(axis)
    if not -aval.ndim <= axis < aval.ndim:
        raise ValueError(
            f"{name}: axis {axis} is out of bounds for an array of {aval.ndim} axes"
            f"{HERE}"
        )
    return axis % aval.ndim


def in_parts(name, aval, axis, size, tiled):
    """The parts that an axis has for the lanes: how many elements each; or an error."""
    axis = counted_axis(name, aval, axis)
    n = aval.shape[axis]
    if n % size if tiled else n != size:
        wanted = f"a multiple of {size}" if tiled else str(size)
        raise ValueError(
            f"{name} over {size} lanes: axis {axis} of {aval} must have the size "
            f"{wanted}, one part for each lane{HERE}"
        )
    return axis


def all_to_all(
    x: ArrayLike, axis_name: Any, split_axis: int, concat_axis: int, *,
    axis_index_groups: Any = None, tiled: Any = False,
) -> Any:
    """Lane i gets the i-th part of what each lane has, in the order of the lanes.

    Args:
      x: array or tree of arrays.
      axis_name: of the lanes, or several names.
      split_axis: the axis of which each lane gets one place, and which goes; with
        `tiled` an equal share of it, and it stays.
      concat_axis: where the axis of the parts is in the result; with `tiled` the axis
        along which they are put one after another.

    Raises ValueError if there is not one part for each lane.
    """
    names = names_of(axis_name, axis_index_groups)
    size = axis_size(names)

    def one(v):
        axis = in_parts("all_to_all", aval_of(v), split_axis, size, tiled)
        target = counted_axis("all_to_all", aval_of(v), concat_axis)
        parts = shares(v, axis, size) if tiled else v
        parts = own_part(all_gather(parts, names), names, axis + 1)
        return merge_into(parts, 0, target) if tiled else move_axis(parts, 0, target)

    return tree_map(one, x)


def pswapaxes(
    x: ArrayLike, axis_name: Any, axis: int, *, axis_index_groups: Any = None
) -> Any:
    """The axis of the lanes and one of x exchanged (`jax.lax.pswapaxes`)."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def psum_scatter(
    x: ArrayLike, axis_name: Any, *, scatter_dimension: int = 0,
    axis_index_groups: Any = None, tiled: Any = False,
) -> Any:
    """Lane i gets the i-th part of the sum over the lanes (`jax.lax.psum_scatter`).

    Args:
      scatter_dimension: the axis of the parts, one for each lane; it goes, but with
        `tiled`, where each lane gets an equal share of it.
    """
    names = names_of(axis_name, axis_index_groups)
    size = axis_size(names)

    def one(v):
        axis = in_parts("psum_scatter", aval_of(v), scatter_dimension, size, tiled)
        total = psum(shares(v, axis, size) if tiled else v, names)
        return own_part(total, names, axis)

    return tree_map(one, x)


def ppermute(x: ArrayLike, axis_name: Any, perm: Any) -> Any:
    """Send values from lane to lane.

    Args:
      perm: pairs (from which lane, to which lane); no lane may stand twice on the same
        side.  A lane that gets nothing has zeros.
    """
    names = names_of(axis_name)
    senders = sender_table(perm, axis_size(names))
    here = axis_index(names)
    sender = lax.as_array(np.array([max(s, 0) for s in senders], np.int32))
    known = lax.as_array(np.array([s >= 0 for s in senders]))

    def one(v):
        part = place_of(all_gather(v, names), place_of(sender, here))
        if min(senders) >= 0:
            return part
        nothing = lax.full(aval_of(v).shape, 0, aval_of(v).dtype)
        return lax.select_n(place_of(known, here), nothing, part)

    return tree_map(one, x)


def sender_table(perm, size):
    """For each lane the one that sends to it, or -1."""
    senders, pairs = [-1] * size, [tuple(map(int, pair)) for pair in perm]
    if any(not 0 <= lane < size for pair in pairs for lane in pair):
        raise ValueError(
            f"ppermute over {size} lanes: perm={pairs} names lanes that are not there"
            f"{HERE}"
        )
    for side in zip(*pairs, strict=True):
        if len(set(side)) < len(side):
            raise ValueError(
                "ppermute: a lane may send once and receive once, but perm="
                f"{pairs}{HERE}"
            )
    for source, target in pairs:
        senders[target] = source
    return senders


def pshuffle(x: ArrayLike, axis_name: Any, perm: int | Sequence[int]) -> Any:
    """Lane i gets what lane perm[i] has (`jax.lax.pshuffle`)."""
    size = axis_size(axis_name)
    if sorted(perm) != list(range(size)):
        raise ValueError(
            f"pshuffle: perm={list(perm)} is no permutation of {size} lanes{HERE}"
        )
    return ppermute(x, axis_name, list(zip(perm, range(size), strict=True)))


def gathered_shape(x, *, axis_size, all_gather_dimension, **params):
    return x.update(shape=inserted(x.shape, all_gather_dimension, axis_size))


def unbound(*args, axis_name, **params):
    """Where values are known, no vmap is around: it would have taken the call."""
    raise NameError(f"unbound axis name: {', '.join(map(str, axis_name))}")


collectives = (psum_p, pmax_p, pmin_p, axis_index_p, all_gather_p)
shape_rules |= {p: lambda x, *, axis_name: x for p in (psum_p, pmax_p, pmin_p)}
shape_rules |= {
    axis_index_p: lambda *, axis_name: ShapedArray((), np.dtype(np.int32)),
    all_gather_p: gathered_shape,
}
eval_rules |= dict.fromkeys(collectives, unbound)


def reduce_lanes(primitive, reduction, lanes, axes, x, *, axis_name):
    """A collective over these lanes: a reduction, after which all lanes are one."""
    axis, = axes
    if axis is None:
        n = lax.full((), lanes.size, aval_of(x).dtype)
        x = lax.mul(x, n) if primitive is psum_p else x
    else:
        x = reduction(x, (axis,))
    rest = tuple(name for name in axis_name if name != lanes.name)
    return (primitive.bind(x, axis_name=rest) if rest else x), None


collective_rules |= {
    psum_p: partial(reduce_lanes, psum_p, lax.reduce_sum),
    pmax_p: partial(reduce_lanes, pmax_p, lax.reduce_max),
    pmin_p: partial(reduce_lanes, pmin_p, lax.reduce_min),
    axis_index_p: lambda lanes, axes, *, axis_name: (
        lax.iota(np.dtype(np.int32), lanes.size), 0
    ),
    all_gather_p: lambda lanes, axes, x, *, all_gather_dimension, **params: (
        lanes_at(x, axes[0], all_gather_dimension, lanes.size), None
    ),
}


def within_lanes(primitive, lanes, axes, x, **params):
    """A collective over other lanes: each of these has one of its own."""
    axis, = axes
    return primitive.bind(x, **params), axis


def all_gather_within_lanes(lanes, axes, x, *, all_gather_dimension, **params):
    axis, = axes
    shift = all_gather_dimension > axis
    dimension = all_gather_dimension + shift
    y = all_gather_p.bind(x, all_gather_dimension=dimension, **params)
    return y, axis + (not shift)


batch_rules |= {p: partial(within_lanes, p) for p in (psum_p, pmax_p, pmin_p)}
batch_rules |= {all_gather_p: all_gather_within_lanes}


def all_gather_transpose(ct, x, *, axis_name, all_gather_dimension, **params):
    """Every lane sent its value to all: it gets the sum of what they say of it."""
    total = psum_p.bind(ct, axis_name=axis_name)
    here = axis_index_p.bind(axis_name=axis_name)
    return (place_of(total, here, all_gather_dimension),)


linearize_rules |= linear_in_first(psum_p, all_gather_p)
transpose_rules |= adding({
    psum_p: lambda ct, x, *, axis_name: (psum_p.bind(ct, axis_name=axis_name),),
    all_gather_p: all_gather_transpose,
})
