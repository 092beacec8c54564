"""vmap: a function of one example becomes a function of many, without a loop.

    vmap(f)(xs)                     # f of each xs[i], stacked
    vmap(f, in_axes=(None, 0))      # the first argument is shared by all
    vmap(vmap(f))                   # of each xs[i, j]

Under `vmap` a value has one axis more than the function sees: a *lane* for each
example.  A row of `batch_rules` says how a primitive works on all lanes at once:

    rule(lanes, axes, *args, **params) -> (results, axes of the results)

`axes[i]` is where argument i has its lanes, or None if all lanes share it.  A rule may
leave the lanes on any axis of its result: moving them is a transpose, and most moves
cancel or never become necessary.
"""

import operator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps

from ..trace import primitives as lax
from ..trace.array import ShapedArray, aval_of
from ..trace.config import config
from ..trace.core import Trace, Tracer, current_trace, find_rule, set_trace
from ..trace.errors import UnexpectedTracerError, at_line, user_source
from ..trace.jaxpr import (
    ClosedJaxpr,
    argument_names,
    flattening,
    function_name,
    unzip2,
)
from ..trace.jit import jit_p
from ..trace.pytree import flatten_axes, tree_flatten, tree_unflatten
from . import custom
from .linearize import (
    FlatFunction,
    add_any_p,
    apply_closed,
    fill,
    info_of,
    memoised,
    present,
    trace_closed,
)

# primitive -> rule(lanes, axes, *args, **params) -> (results, axes).  Lists for a
# primitive with several results.
batch_rules = {}

# Primitives that look across lanes; their rules run even if no argument has any.
collective_rules = {}


@dataclass(frozen=True)
class Lanes:
    """The axis that a `vmap` adds: how long it is, and what collectives call it."""

    size: int
    name: object = None


# Functions traced under axes with names may ask for their sizes, so traces differ.
config.define("named_axes", (), "set by vmap: its axes' names", changes_traces=True)


def axis_sizes():
    """{name: size} of the axes that the vmaps around us have given a name."""
    return dict(config.named_axes)


@contextmanager
def naming(lanes):
    """Make the name of an axis known while a `with` block runs."""
    if lanes.name is None:
        yield
        return
    named = {**axis_sizes(), lanes.name: lanes.size}
    with config.override("named_axes", tuple(named.items())):
        yield


# Types of values by class: the type of one lane of a value, the type with lanes on
# an axis, and how to move or make them.
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


lane_types |= {
    ShapedArray: LaneType(without_axis, with_axis, spread_array, move_axis)
}


def lane_type(x):
    """The row of `lane_types` for a value."""
    return lane_types[type(aval_of(x))]


def lanes_at(x, axis, target, size):
    """x with its lanes on the axis `target`; made if it has none."""
    if axis is None:
        return lane_type(x).spread(x, size, target)
    return lane_type(x).move(x, axis, target)


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


# Primitives whose params may be Python functions, which may have captured lanes.
holding_functions = set()


class BatchTrace(Trace):
    """Applies each primitive to all lanes at once, in its parent."""

    def __init__(self, parent, lanes):
        self.parent = parent
        self.lanes = lanes

    def pair(self, x):
        """-> (value, the axis of its lanes or None)

        A custom rule runs in a trace of its own, of the same lanes: what it captured
        from the `vmap` around it has those lanes too.
        """
        if isinstance(x, BatchTracer) and x.owner.lanes is self.lanes:
            return x.value, x.axis
        return x, None

    def process(self, primitive, args, params):
        values, axes = unzip2(map(self.pair, args))
        many = primitive.multiple_results
        with set_trace(self.parent):
            named = self.lanes.name is not None and mentions(params, self.lanes.name)
            if named and primitive in collective_rules:
                rule = collective_rules[primitive]
            elif not named and shared_by_all(primitive, axes, params):
                outs = primitive.bind(*values, **params)
                return outs if many else [outs]
            else:
                rule = find_rule(batch_rules, primitive, "batch")
            outs, out_axes = rule(self.lanes, axes, *values, **params)
        if not many:
            outs, out_axes = [outs], [out_axes]
        return [
            y if axis is None else BatchTracer(self, y, axis)
            for y, axis in zip(outs, out_axes, strict=True)
        ]


def shared_by_all(primitive, axes, params):
    """Whether all lanes can share one application of a primitive."""
    hidden = primitive in holding_functions and callable(params["call"])
    return not hidden and all(axis is None for axis in axes)


def mentions(params, name):
    """Whether a collective, or one within the jaxprs of a call, is over that axis."""
    if name in params.get("axis_name", ()):
        return True
    values = [
        value
        for param in params.values()
        for value in (param if isinstance(param, (tuple, list)) else (param,))
    ]
    jaxprs = [value for value in values if isinstance(value, ClosedJaxpr)]
    return any(mentions(eqn.params, name) for closed in jaxprs for eqn in closed.eqns)


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


# ---- the users' function


def vmap(
    fun, in_axes=0, out_axes=0, axis_name=None, axis_size=None, spmd_axis_name=None
):
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
    check_in_axes(in_axes)

    @wraps(fun)
    def mapped(*args, **kwargs):
        check_arguments(in_axes, args)
        leaves, tree = tree_flatten((args, kwargs))
        axes = flatten_axes("vmap in_axes", tree, (in_axes, 0))
        names = leaf_names(fun, args, kwargs)
        axes = list(map(mapped_axis, leaves, axes, names))
        lanes = Lanes(common_size(fun, leaves, axes, names, axis_size), axis_name)
        flat = FlatFunction(lambda args, kwargs: fun(*args, **kwargs), tree)
        outs, found = vmap_flat(flat, lanes, leaves, axes)
        targets = flatten_axes("vmap out_axes", flat.out_tree, out_axes)
        place = partial(place_lanes, fun, lanes.size)
        return tree_unflatten(flat.out_tree, list(map(place, outs, found, targets)))

    return mapped


def check_arguments(in_axes, args):
    """Complain unless a tuple of axes has one for each positional argument."""
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to "
            "the positional arguments passed to the function, but got in_axes with "
            f"{len(in_axes)} entries and {len(args)} positional arguments"
        )


def check_in_axes(in_axes):
    """Complain about what can be no specification of axes."""
    if in_axes is None or isinstance(in_axes, (int, tuple, dict)):
        leaves, _ = tree_flatten(in_axes)
        if all(isinstance(axis, int) for axis in leaves):
            return
    raise TypeError(
        "vmap in_axes must be an int, None, or a (nested) container with those types "
        f"as leaves, but got {in_axes!r}"
    )


def leaf_names(fun, args, kwargs):
    """What the leaves of the arguments are called in messages."""
    names = argument_names(fun, args, kwargs)
    values = [*args, *kwargs.values()]
    name = flattening["leaf_names"]
    pairs = list(zip(names, values, strict=True))
    positional, by_keyword = pairs[: len(args)], sorted(pairs[len(args) :])
    return [leaf for pair in positional + by_keyword for leaf in name(*pair)]


def mapped_axis(x, axis, name):
    """The axis counted from the front; it must exist."""
    if axis is None:
        return None
    ndim = aval_of(x).ndim
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"vmap was requested to map its argument {name} along axis {axis}, which "
            f"implies that its rank should be at least "
            f"{axis + 1 if axis >= 0 else -axis}, but is only {ndim} (its shape is "
            f"{aval_of(x).shape}){at_line(user_source())}"
        )
    return operator.index(axis) % ndim


def common_size(fun, leaves, axes, names, axis_size):
    """The size that all mapped axes have, and the user may have given."""
    sizes = {
        f"axis {axis} of argument {name} of type {aval_of(x)}": aval_of(x).shape[axis]
        for x, axis, name in zip(leaves, axes, names, strict=True)
        if axis is not None
    }
    found = {*sizes.values(), *([] if axis_size is None else [axis_size])}
    if len(found) == 1:
        return found.pop()
    if not found:
        raise ValueError(
            f"vmap of {function_name(fun)} must have at least one non-None value in "
            "in_axes, or an axis_size"
        )
    lines = "".join(f"\n  * {where} has size {n}" for where, n in sizes.items())
    given = "" if axis_size is None else f"\n  * axis_size={axis_size} was given"
    raise ValueError(
        f"vmap of {function_name(fun)} got inconsistent sizes for array axes to be "
        f"mapped:{lines}{given}{at_line(user_source())}\n"
        "  Instead: pass None in in_axes for an argument that all lanes share."
    )


def place_lanes(fun, size, y, axis, target):
    """A result with its lanes where `out_axes` wants them."""
    if target is None:
        if axis is not None:
            raise ValueError(
                f"vmap of {function_name(fun)} has a result with out_axes=None that "
                "is different in each lane: give it an axis, or reduce it over the "
                f"lanes{at_line(user_source())}"
            )
        return y
    ndim = aval_of(y).ndim + (axis is None)
    if not -ndim <= target < ndim:
        raise ValueError(
            f"vmap out_axes is {target}, but the result of {function_name(fun)} has "
            f"only {ndim} axes, the mapped one included"
        )
    return lanes_at(y, axis, target % ndim, size)


# ---- rows


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
        align(x, a, n, axis, ndim)
        for x, a, n in zip(args, axes, one_lane, strict=True)
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


def add_any_rule(lanes, axes, x, y):
    """Cotangents may be of any type, and have the same one."""
    axis = next(a for a in axes if a is not None)
    x, y = (lanes_at(v, a, axis, lanes.size) for v, a in zip((x, y), axes, strict=True))
    return add_any_p.bind(x, y), axis


def select_rule(lanes, axes, which, *cases):
    """The cases must have equal shapes, and `which` the same one or none at all."""
    which_axis, *case_axes = axes
    if which_axis is None and aval_of(which).ndim == 0:
        axis = next(a for a in case_axes if a is not None)
    else:
        axis = 0
    cases = [
        lanes_at(x, a, axis, lanes.size) for x, a in zip(cases, case_axes, strict=True)
    ]
    if which_axis is not None or aval_of(which).ndim > 0:
        which = lanes_at(which, which_axis, axis, lanes.size)
        shape = aval_of(cases[0]).shape
        if aval_of(which).ndim < len(shape):
            which = lax.broadcast_in_dim(which, shape, (axis,))
    return lax.select_n_p.bind(which, *cases), axis


batch_rules |= {add_any_p: add_any_rule, lax.select_n_p: select_rule}


def shifted(axes, axis):
    """Axes of one lane, as axes of the array that has its lanes on `axis`."""
    return tuple(d + (d >= axis) for d in axes)


def broadcast_rule(lanes, axes, x, *, shape, broadcast_dimensions):
    x = move_axis(x, axes[0], 0)
    shape = (lanes.size, *shape)
    dims = (0, *(d + 1 for d in broadcast_dimensions))
    return lax.broadcast_in_dim(x, shape, dims), 0


def reshape_rule(lanes, axes, x, *, new_sizes, dimensions):
    x = move_axis(x, axes[0], 0)
    if dimensions is not None:
        dimensions = (0, *(d + 1 for d in dimensions))
    return lax.reshape(x, (lanes.size, *new_sizes), dimensions), 0


def transpose_rule(lanes, axes, x, *, permutation):
    """The lanes stay where they are in memory: they become the first axis."""
    axis, = axes
    return lax.transpose(x, (axis, *shifted(permutation, axis))), 0


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


def concatenate_rule(lanes, axes, *args, dimension):
    axis = next(a for a in axes if a is not None)
    parts = [lanes_at(x, a, axis, lanes.size) for x, a in zip(args, axes, strict=True)]
    return lax.concatenate(parts, dimension + (dimension >= axis)), axis


batch_rules |= {
    lax.broadcast_in_dim_p: broadcast_rule,
    lax.reshape_p: reshape_rule,
    lax.transpose_p: transpose_rule,
    lax.squeeze_p: squeeze_rule,
    lax.slice_p: slice_rule,
    lax.concatenate_p: concatenate_rule,
}


def reduction_rule(primitive, lanes, lane_axes, x, *, axes, **params):
    """Reduce each lane; the lanes stay where they are, among what is left."""
    axis, = lane_axes
    axes = shifted(axes, axis)
    y = primitive.bind(x, axes=axes, **params)
    return y, axis - sum(d < axis for d in axes)


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
batch_rules |= {
    p: partial(reduction_rule, p)
    for p in (
        *(lax.reduce_sum_p, lax.reduce_prod_p, lax.reduce_max_p, lax.reduce_min_p),
        *(lax.reduce_and_p, lax.reduce_or_p, lax.reduce_xor_p),
        *(lax.argmax_p, lax.argmin_p),
    )
}


def call_rule(lanes, axes, *args, name, jaxpr, **params):
    """A call of a jitted function stays one call, of a function of all lanes."""
    wanted = ("any",) * len(jaxpr.out_avals)
    closed, out_axes = batch_jaxpr(jaxpr, lanes, tuple(axes), wanted)
    return jit_p.bind(*args, name=name, jaxpr=closed), out_axes


batch_rules |= {jit_p: call_rule}


# ---- custom derivative rules


class ResultAxes:
    """Where a custom function's results have their lanes: on the first axis, or None.

    They have lanes if an argument does, or if the function captured some.  Its rule,
    run later, must keep to what the function did.
    """

    def __init__(self, lanes, axes):
        self.lanes = lanes
        self.always = any(axis is not None for axis in axes)
        self.found = None

    def place(self, outs, axes, more=None):
        """Results with their lanes on the axes of the first results.

        `more` are axes of their tangents, with which they must agree.
        """
        if self.found is None:
            pairs = zip(axes, more or axes, strict=True)
            lanes = [self.always or pair != (None, None) for pair in pairs]
            self.found = [0 if has_lanes else None for has_lanes in lanes]
        return [
            y if y is None else self.place_one(y, axis, target)
            for y, axis, target in zip(outs, axes, self.found, strict=True)
        ]

    def place_one(self, y, axis, target):
        if target is None and axis is not None:
            raise captured_lanes()
        return y if target is None else lanes_at(y, axis, target, self.lanes.size)

    def differ(self):
        """The lanes do not share what is done, so they cannot share its results."""
        if self.found is None:
            self.always = True
        elif None in self.found:
            raise captured_lanes()


def captured_lanes():
    """The error for a rule that captured lanes of which its function has none."""
    return UnexpectedTracerError(
        "a custom derivative rule captured a value that differs in the lanes of a "
        "vmap, but its function and its arguments have no lanes"
        f"{at_line(user_source())}\n  Instead: make the value an argument."
    )


def custom_jvp_rule(lanes, axes, *args, call, rule):
    """The function and its rule both get all lanes."""
    where = ResultAxes(lanes, axes)

    def all_lanes(*values):
        return where.place(*vmap_flat(partial(custom.run, call), lanes, values, axes))

    def rule_in_all_lanes(primals, tangents):
        nonzero = [t is not None for t in tangents]
        count = len(primals)

        def both(*values):
            primals, tangents = values[:count], fill(nonzero, values[count:])
            n = rule.captured
            outs, out_tangents = rule.call(primals[n:], tangents[n:])
            mask[:] = [t is not None for t in out_tangents]
            return [*outs, *present(out_tangents)]

        mask = []
        pairs = zip(tangents, axes, strict=True)
        tangent_axes = [a for t, a in pairs if t is not None]
        values = [*primals, *present(tangents)]
        outs, found = vmap_flat(both, lanes, values, [*axes, *tangent_axes])
        n = len(mask)
        more = fill(mask, found[n:])
        new = where.place(outs[:n], found[:n], more)
        return new, where.place(fill(mask, outs[n:]), more)

    new_rule = replace(rule, call=rule_in_all_lanes, captured=0)
    outs = custom.custom_jvp_p.bind(*args, call=all_lanes, rule=new_rule)
    return outs, where.found


def at_front(lanes, outs, axes):
    """Results with their lanes on the first axis; made where there are none."""
    return [lanes_at(y, a, 0, lanes.size) for y, a in zip(outs, axes, strict=True)]


def custom_vjp_rule(lanes, axes, *args, call, rule):
    """The function, fwd and bwd all get all lanes; what was shared gets the sum."""
    where = ResultAxes(lanes, axes)

    def all_lanes(*values):
        return where.place(*vmap_flat(partial(custom.run, call), lanes, values, axes))

    def fwd_in_all_lanes(primals, nonzero):
        n = rule.captured
        bwd, count = None, None

        def fwd(*values):
            nonlocal bwd, count
            outs, residuals, bwd = rule.call(values[n:], nonzero[n:])
            count = len(outs)
            return [*outs, *residuals]

        outs, found = vmap_flat(fwd, lanes, primals, axes)
        if any(axis is not None for axis in found[count:]):
            where.differ()
        results = where.place(outs[:count], found[:count])
        in_axes = found[count:], where.found
        backward = partial(bwd_in_all_lanes, lanes, bwd, in_axes, axes, n)
        return results, outs[count:], backward

    new_rule = replace(rule, call=fwd_in_all_lanes, captured=0)
    outs = custom.custom_vjp_p.bind(*args, call=all_lanes, rule=new_rule)
    return outs, where.found


def bwd_in_all_lanes(lanes, bwd, in_axes, axes, captured, residuals, cts):
    """A user's bwd in all lanes: what all lanes share gets the sum of cotangents."""
    mask, count = [], len(residuals)
    residual_axes, ct_axes = in_axes
    nonzero = [ct is not None for ct in cts]

    def one_lane(*values):
        out = bwd(list(values[:count]), fill(nonzero, values[count:]))
        mask[:] = [ct is not None for ct in out]
        return present(out)

    ct_axes = [axis for axis, n in zip(ct_axes, nonzero, strict=True) if n]
    outs, found = vmap_flat(
        one_lane, lanes, [*residuals, *present(cts)], [*residual_axes, *ct_axes]
    )
    shared = all(axis is None for axis in (*residual_axes, *ct_axes))
    if shared and any(axis is not None for axis in found):
        raise captured_lanes()
    pairs = zip(fill(mask, outs), fill(mask, found), axes[captured:], strict=True)
    placed = [
        None if ct is None else place_cotangent(lanes, shared, ct, axis, target)
        for ct, axis, target in pairs
    ]
    return [None] * captured + placed


def place_cotangent(lanes, shared, ct, axis, target):
    """A cotangent where its argument has its lanes; the sum if it has none."""
    if shared:
        return ct
    if target is None:
        return lax.reduce_sum(lanes_at(ct, axis, 0, lanes.size), (0,))
    return lanes_at(ct, axis, target, lanes.size)


def custom_linear_rule(lanes, axes, *args, rule, mask, avals, has_tangent):
    """Still what only knows its transpose: bwd in all lanes."""
    count = len(args) - sum(mask)
    in_axes = axes[:count], [0] * len(has_tangent)
    bwd = partial(
        bwd_in_all_lanes, lanes, rule.call, in_axes, fill(mask, axes[count:]), 0
    )
    outs = custom.custom_linear_p.bind(
        *args,
        rule=replace(rule, call=bwd),
        mask=mask,
        avals=tuple(with_axis(a, lanes.size, 0) for a in avals),
        has_tangent=has_tangent,
    )
    return outs, [0] * len(outs)


holding_functions |= {custom.custom_jvp_p, custom.custom_vjp_p}
batch_rules |= {
    custom.custom_jvp_p: custom_jvp_rule,
    custom.custom_vjp_p: custom_vjp_rule,
    custom.custom_linear_p: custom_linear_rule,
}
