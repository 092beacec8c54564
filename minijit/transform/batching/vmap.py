"""vmap: a function of one example becomes a function of many, without a loop.

    vmap(f)(xs)                     # f of each xs[i], stacked
    vmap(f, in_axes=(None, 0))      # the first argument is shared by all
    vmap(vmap(f))                   # of each xs[i, j]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ...trace import primitives as lax
from ...trace.arguments import wraps
from ...trace.array import ShapedArray, aval_of
from ...trace.base.errors import made_as
from ...trace.core import Trace, Tracer, current_trace, find_rule, set_trace
from ...trace.jaxprs.jaxpr import unzip2
from ...trace.jaxprs.memory import memoised
from ...trace.jit.jit import jit_p
from ...trace.trees.pytree import tree_flatten
from ...trace.trees.tools import flatten_axes
from ...trace.types import Function, PyTree
from ..closed_jaxprs import apply_closed, info_of, rebind, trace_closed
from ..derivatives.linearize import add_any_p
from ..flat_functions import FlatFunction, check_callable
from .axes import (
    check_arguments, check_axes, collective_rules, common_size, is_collective,
    leaf_names, mapped_axis, naming, result_axes, shared_by_all, through_refs,
)

# What `vmap` must know of a kind of values (arrays, the tapes of loops), by aval.
lane_types = {}


@dataclass(frozen=True)
class LaneType:
    """What `vmap` must know of a type of values.

    Attributes:
      one: (aval, axis) -> the aval of one lane.
      many: (aval, size, axis) -> the aval with lanes.
      spread: (value, size, axis) -> the same value in every lane.
      move: (value, source axis, target axis) -> the value with its lanes moved.
    """

    one: object
    many: object
    spread: object
    move: object


def lane_type(x):
    """The row of `lane_types` for a value."""
    return lane_types[type(aval_of(x))]


def without_axis(aval, axis):
    """The aval of one lane of an array."""
    shape = list(aval.shape)
    del shape[axis]
    return aval.update(shape=tuple(shape))


def with_axis(aval, size, axis):
    """The aval of an array with lanes on a new axis."""
    shape = list(aval.shape)
    shape.insert(axis, size)
    return aval.update(shape=tuple(shape))


def spread_array(x, size, axis):
    """An array repeated along a new axis."""
    ndim = aval_of(x).ndim
    kept = [d + (d >= axis) for d in range(ndim)]
    return lax.broadcast_in_dim(x, with_axis(aval_of(x), size, axis).shape, kept)


def move_axis(x, source, target):
    """x with one axis moved; nothing is done if it is there already."""
    if source == target:
        return x
    order = [d for d in range(x.ndim) if d != source]
    order.insert(target, source)
    return lax.transpose(x, order)


lane_types |= {ShapedArray: LaneType(without_axis, with_axis, spread_array, move_axis)}


def lanes_at(x, axis, target, size):
    """x with its lanes on the axis `target`; made if it has none."""
    if axis is None:
        return lane_type(x).spread(x, size, target)
    return lane_type(x).move(x, axis, target)


def all_at(lanes, xs, axes, target):
    """Values with their lanes on the same axis; made where there are none."""
    pairs = zip(xs, axes, strict=True)
    return [lanes_at(x, axis, target, lanes.size) for x, axis in pairs]


at_front = partial(all_at, target=0)


class OfLanes(Trace):
    """What a trace of lanes is: two of the same lanes are equal.

    For a custom rule runs in a trace of its own, and what it captured from the `vmap`
    around it has those lanes too.
    """

    def __init__(self, parent, lanes):
        self.parent = parent
        self.lanes = lanes

    def rules_for(self, primitive, params):
        """The table that is asked: a collective has one of its own."""
        collective = is_collective(primitive, params, self.lanes.name)
        return collective_rules if collective else batch_rules

    def __eq__(self, other):
        return isinstance(other, OfLanes) and other.lanes is self.lanes

    def __hash__(self):
        return hash(self.lanes)


# chapter 9

# primitive -> rule(lanes, axes, *args, **params) -> (results, axes of the results)
#
# `axes[i]` is where argument i has its lanes, or None if all lanes share it.  A rule
# may leave the lanes on any axis of its result.  Lists for several results.
batch_rules = {}


@dataclass(frozen=True)
class Lanes:
    """The axis that a `vmap` adds: how long it is, and what collectives call it."""

    size: int
    name: object = None


class BatchTracer(Tracer):
    """A value that has lanes on one axis; its aval is that of one lane."""

    __slots__ = ("value", "axis")

    def __init__(self, trace, value, axis):
        super().__init__(trace, lane_type(value).one(aval_of(value), axis))
        self.value = value
        self.axis = axis

    def origin(self):
        inner = self.value.origin() if isinstance(self.value, Tracer) else ""
        return "\n  It has a different value in each lane of a vmap." + inner


class BatchTrace(OfLanes):
    """Applies each primitive to all lanes at once, in its parent."""

    def pair(self, x):
        """-> (value, the axis of its lanes or None)"""
        if isinstance(x, BatchTracer) and x.owner == self:
            return x.value, x.axis
        return x, None

    def process(self, primitive, args, params):
        values, axes = unzip2(map(self.pair, args))
        many = primitive.multiple_results
        with set_trace(self.parent):
            if shared_by_all(primitive, axes, params, self.lanes.name):
                outs = primitive.bind(*values, **params)
                return outs if many else [outs]
            rule = find_rule(self.rules_for(primitive, params), primitive, "batch")
            with made_as("batched"):
                outs, out_axes = rule(self.lanes, axes, *values, **params)
        if not many:
            outs, out_axes = [outs], [out_axes]
        return [
            y if axis is None else BatchTracer(self, y, axis)
            for y, axis in zip(outs, out_axes, strict=True)
        ]


def vmap_flat(f, lanes, values, axes):
    """vmap on flat lists: -> (results, the axes of their lanes or None)."""
    trace = BatchTrace(current_trace(), lanes)
    with set_trace(trace), naming(lanes):
        outs = f(*[
            x if axis is None else BatchTracer(trace, x, axis)
            for x, axis in zip(values, axes, strict=True)
        ])
    outs, out_axes = unzip2(map(trace.pair, outs))
    return list(outs), list(out_axes)


def elementwise_rule(primitive, lanes, axes, *args, **params):
    """Line the lanes up; what has none is stretched along an axis of size 1."""
    pairs = zip(args, axes, strict=True)
    one_lane = [aval_of(x).ndim - (a is not None) for x, a in pairs]
    ndim = max(one_lane)
    used = {
        axis
        for axis, n in zip(axes, one_lane, strict=True)
        if axis is not None and n == ndim
    }
    axis = used.pop() if len(used) == 1 else 0
    aligned = [
        align(x, a, n, axis, ndim) for x, a, n in zip(args, axes, one_lane, strict=True)
    ]
    return primitive.bind(*aligned, **params), axis


def align(x, axis, one_lane, target, ndim):
    """An argument of an elementwise primitive with its lanes on `target`."""
    if axis is None and one_lane == 0:
        return x
    if axis is None:
        return lax.expand_dims(x, (target,))
    if one_lane == ndim:
        return move_axis(x, axis, target)
    # A scalar in each lane, where others have arrays.
    return lax.expand_dims(x, tuple(d for d in range(ndim + 1) if d != target))


def elementwise(*primitives):
    """Batch rules of primitives that work element by element."""
    return {p: partial(elementwise_rule, p) for p in primitives}


batch_rules |= elementwise(
    *(lax.neg_p, lax.sign_p, lax.abs_p, lax.exp_p, lax.log_p, lax.sqrt_p, lax.copy_p),
    *(lax.sin_p, lax.cos_p, lax.tanh_p, lax.not_p, lax.integer_pow_p),
    *(lax.add_p, lax.sub_p, lax.mul_p, lax.div_p, lax.max_p, lax.min_p, lax.pow_p),
    *(lax.eq_p, lax.ne_p, lax.lt_p, lax.le_p, lax.gt_p, lax.ge_p),
    *(lax.and_p, lax.or_p, lax.xor_p, lax.convert_element_type_p),
)


def shifted(axes, axis):
    """Axes of one lane, as axes of the array that has its lanes on `axis`."""
    return tuple(d + (d >= axis) for d in axes)


def reduction_rule(primitive, lanes, lane_axes, x, *, axes, **params):
    """Reduce each lane; the lanes stay where they are, among what is left."""
    axis, = lane_axes
    axes = shifted(axes, axis)
    y = primitive.bind(x, axes=axes, **params)
    return y, axis - sum(d < axis for d in axes)


batch_rules |= {
    p: partial(reduction_rule, p)
    for p in (
        *(lax.reduce_sum_p, lax.reduce_prod_p, lax.reduce_max_p, lax.reduce_min_p),
        *(lax.reduce_and_p, lax.reduce_or_p, lax.reduce_xor_p),
        *(lax.argmax_p, lax.argmin_p),
    )
}


def dot_general_rule(lanes, axes, x, y, *, dimension_numbers, **params):
    """Lanes of both operands are one more batch axis; lanes of one, a free axis of it.

    The result has the free axes of the first operand before those of the second.  A
    vector in each lane, times a shared matrix on its left, would so get its lanes
    last, and need a transpose: with the operands exchanged it does not.
    """
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    x_axis, y_axis = axes
    product = partial(lax.dot_general_p.bind, **params)
    if x_axis is not None and y_axis is not None:
        contract = shifted(x_contract, x_axis), shifted(y_contract, y_axis)
        batch = (x_axis, *shifted(x_batch, x_axis)), (y_axis, *shifted(y_batch, y_axis))
        return product(x, y, dimension_numbers=(contract, batch)), 0
    if x_axis is not None:
        contract = shifted(x_contract, x_axis), y_contract
        numbers = contract, (shifted(x_batch, x_axis), y_batch)
        z = product(x, y, dimension_numbers=numbers)
        return z, len(x_batch) + free_before(x_axis, contract[0], numbers[1][0])
    y_free = aval_of(y).ndim - 1 - len(y_contract) - len(y_batch)
    y_contract, y_batch = shifted(y_contract, y_axis), shifted(y_batch, y_axis)
    if y_free == 0 and not y_batch:
        numbers = (y_contract, x_contract), (y_batch, x_batch)
        return product(y, x, dimension_numbers=numbers), 0
    z = product(x, y, dimension_numbers=((x_contract, y_contract), (x_batch, y_batch)))
    position = free_before(y_axis, y_contract, y_batch)
    return z, aval_of(x).ndim - len(x_contract) + position


def free_before(axis, contract, batch):
    """How many free axes of an operand come before the axis `axis`."""
    return axis - sum(d < axis for d in (*contract, *batch))


batch_rules |= {lax.dot_general_p: dot_general_rule}


# chapter 9, brought along

def vmap(
    fun: Function, in_axes: PyTree = 0, out_axes: PyTree = 0, axis_name: Any = None,
    axis_size: int | None = None, spmd_axis_name: Any = None,
) -> Function:
    """A function that applies `fun` along an axis of its arguments (`jax.vmap`).

    Args:
      fun: function of arrays or trees of them.
      in_axes: an int, None (not mapped: shared), or a tree of them, one for each
        positional argument or each leaf; keyword arguments are mapped along axis 0.
      out_axes: likewise for the results: where the new axis goes.
      axis_name: what `lax.psum` and its like call the axis.
      axis_size: how many lanes; needed only if nothing is mapped.

    Raises:
      ValueError: the mapped axes have different sizes, or do not exist.
      TypeError: `in_axes` is of the wrong kind.
    """
    del spmd_axis_name
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    check_axes(in_axes=in_axes, out_axes=out_axes)

    @wraps(check_callable(fun))
    def mapped(*args, **kwargs):
        check_arguments(in_axes, args)
        leaves, tree = tree_flatten((args, kwargs))
        axes = flatten_axes("vmap in_axes", tree, (in_axes, 0))
        names = leaf_names(fun, args, kwargs)
        axes = list(map(mapped_axis, leaves, axes, names))
        lanes = Lanes(common_size(fun, leaves, axes, names, axis_size), axis_name)
        flat = FlatFunction(lambda args, kwargs: fun(*args, **kwargs), tree, refs=True)
        outs, found = through_refs(vmap_flat, lanes_at, flat, lanes, leaves, axes)
        targets = result_axes(fun, flat.out_tree, outs, found, out_axes)
        placed = [
            y if target is None else lanes_at(y, axis, target, lanes.size)
            for y, axis, target in zip(outs, found, targets, strict=True)
        ]
        return flat.tree_of(placed)

    return mapped


def front_rule(primitive, lanes, axes, *args, **params):
    outs = primitive.bind(*at_front(lanes, args, axes), **params)
    return outs, [0] * len(outs) if primitive.multiple_results else 0


def in_front(*primitives):
    """Batch rules of primitives that take any axes before their own: lanes there."""
    return {p: partial(front_rule, p) for p in primitives}


def along_rule(primitive, name, lanes, axes, *args, **params):
    axis = next(a for a in axes if a is not None)
    own = params[name]
    moved = own + (own >= axis) if isinstance(own, int) else shifted(own, axis)
    outs = primitive.bind(*all_at(lanes, args, axes, axis), **params | {name: moved})
    return outs, [axis] * len(outs) if primitive.multiple_results else axis


def along(name, *primitives):
    """Batch rules of primitives that keep all axes, and whose param is some of them."""
    return {p: partial(along_rule, p, name) for p in primitives}


def broadcast_rule(lanes, axes, x, *, shape, broadcast_dimensions):
    x = move_axis(x, axes[0], 0)
    shape = (lanes.size, *shape)
    dims = (0, *(d + 1 for d in broadcast_dimensions))
    return lax.broadcast_in_dim(x, shape, dims), 0


def transpose_rule(lanes, axes, x, *, permutation):
    """The lanes stay where they are in memory: they become the first axis."""
    axis, = axes
    return lax.transpose(x, (axis, *shifted(permutation, axis))), 0


def reshape_rule(lanes, axes, x, *, new_sizes, dimensions):
    x = move_axis(x, axes[0], 0)
    if dimensions is not None:
        dimensions = (0, *(d + 1 for d in dimensions))
    return lax.reshape(x, (lanes.size, *new_sizes), dimensions), 0


def select_rule(lanes, axes, which, *cases):
    """The cases must have equal shapes, and `which` the same one or none at all."""
    which_axis, *case_axes = axes
    if which_axis is None and aval_of(which).ndim == 0:
        axis = next(a for a in case_axes if a is not None)
    else:
        axis = 0
    cases = all_at(lanes, cases, case_axes, axis)
    if which_axis is not None or aval_of(which).ndim > 0:
        which = lanes_at(which, which_axis, axis, lanes.size)
        shape = aval_of(cases[0]).shape
        if len(shape) == 1:  # JAX minds numbers by an array of choices in no lane.
            shape = aval_of(which).shape
            cases = [lax.broadcast_in_dim(x, shape, (0,)) for x in cases]
        if aval_of(which).ndim < len(shape):
            which = lax.broadcast_in_dim(which, shape, (axis,))
    return lax.select_n_p.bind(which, *cases), axis


def squeeze_rule(lanes, axes, x, *, dimensions):
    axis, = axes
    dims = shifted(dimensions, axis)
    return lax.squeeze(x, dims), axis - sum(d < axis for d in dims)


def slice_rule(lanes, axes, x, *, start_indices, limit_indices, strides):
    axis, = axes
    starts, limits = list(start_indices), list(limit_indices)
    starts.insert(axis, 0)
    limits.insert(axis, lanes.size)
    if strides is not None:
        strides = list(strides)
        strides.insert(axis, 1)
    return lax.slice(x, starts, limits, strides), axis


batch_rules |= {
    lax.broadcast_in_dim_p: broadcast_rule,
    lax.transpose_p: transpose_rule,
    lax.reshape_p: reshape_rule,
    lax.select_n_p: select_rule,
    lax.squeeze_p: squeeze_rule,
    lax.slice_p: slice_rule,
}
batch_rules |= along("dimension", lax.concatenate_p)


def add_any_rule(lanes, axes, x, y):
    """Cotangents may be of any type, and have the same one."""
    axis = next(a for a in axes if a is not None)
    return add_any_p.bind(*all_at(lanes, (x, y), axes, axis)), axis


batch_rules |= {add_any_p: add_any_rule}


# ---- calls


@memoised
def batch_jaxpr(closed, lanes, axes, wanted):
    """The jaxpr that does the work of a closed jaxpr in all lanes.

    Args:
      axes: for each input the axis of its lanes, or None.
      wanted: for each result the axis where its lanes must be, "any" for wherever
        they are (or None if it has none), or None if it may have none.

    Returns:
      (closed jaxpr, the axis of each result's lanes or None).
    """
    avals = [
        a if axis is None else lane_types[type(a)].many(a, lanes.size, axis)
        for a, axis in zip(closed.in_avals, axes, strict=True)
    ]
    out_axes = None

    def run(*values):
        nonlocal out_axes
        outs, found = vmap_flat(partial(apply_closed, closed), lanes, values, axes)
        out_axes = tuple(
            found_axis if axis == "any" else axis
            for axis, found_axis in zip(wanted, found, strict=True)
        )
        return [
            y if axis in ("any", None) else lanes_at(y, found_axis, axis, lanes.size)
            for y, axis, found_axis in zip(outs, wanted, found, strict=True)
        ]

    return trace_closed(run, avals, info_of(closed, "vmap")), out_axes


def call_rule(primitive, lanes, axes, *args, **params):
    """A call of a function stays one call, of a function of all lanes."""
    wanted = ("any",) * len(params["jaxpr"].out_avals)
    closed, out_axes = batch_jaxpr(params["jaxpr"], lanes, tuple(axes), wanted)
    return rebind(primitive, params, closed, args), out_axes


batch_rules |= {jit_p: partial(call_rule, jit_p)}
