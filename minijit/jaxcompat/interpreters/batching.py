"""Lanes for primitives of one's own, under the names of `jax.interpreters.batching`.

    primitive_batchers[p] = rule        # rule(args, axes, **params) -> (result, axis)

An axis is where an argument has its lanes, or `not_mapped`.
"""

from ...trace.base import names as _names
from ...transform.batching.axes import own_lanes
from ...transform.batching.vmap import (
    BatchTrace as BatchTrace, BatchTracer as BatchTracer, Lanes, batch_rules,
    elementwise, lanes_at, reduction_rule, spread_array,
)
from . import Rules

not_mapped = None


def set_batcher(primitive, rule):
    batch_rules[primitive] = lambda lanes, axes, *args, **params: rule(
        args, tuple(axes), **params
    )


def batcher_of(primitive):
    """The rule, in JAX's form, that a row of minijit's is."""
    row = batch_rules.get(primitive)
    return row and (lambda args, axes, **params: row(
        Lanes(size_of(args, axes)), axes, *args, **params
    ))  # fmt: skip


def size_of(args, axes):
    """How many lanes there are."""
    sizes = (x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
    return next(sizes)


def set_axis_batcher(primitive, rule):
    """A rule that is told the size and the name of the axis as well."""
    batch_rules[primitive] = lambda lanes, axes, *args, **params: rule(
        lanes.size, lanes.name, None, args, tuple(axes), **params
    )


def set_fancy_batcher(primitive, rule):
    """A rule that is given what is known of the axis: its `size` and `name`."""
    batch_rules[primitive] = lambda lanes, axes, *args, **params: rule(
        lanes, args, tuple(axes), **params
    )


def none_known(primitive):
    return None


primitive_batchers = Rules(set_batcher, batcher_of)
axis_primitive_batchers = Rules(set_axis_batcher, none_known)
fancy_primitive_batchers = Rules(set_fancy_batcher, none_known)


def defvectorized(primitive):
    """Lanes of a primitive that works element by element on arguments of one shape."""
    batch_rules.update(elementwise(primitive))


defbroadcasting = defvectorized


def defreducer(primitive, ident=None):
    """Lanes of a primitive that reduces the axes that its param `axes` names."""
    del ident
    batch_rules[primitive] = lambda lanes, axes, x, **params: reduction_rule(
        primitive, lanes, axes, x, **params
    )


def bdim_at_front(x, bdim, size, mesh_axis=None):
    """x with its lanes on the first axis; made if it has none."""
    return lanes_at(x, bdim, 0, size)


def broadcast(x, sz, axis, mesh_axis=None):
    """x repeated along a new axis."""
    return spread_array(x, sz, axis)


def register_vmappable(data_type, spec_type, axis_size_type, to_elt, from_elt, iota):
    """Note a class whose instances say by themselves where they have lanes.

    Libraries register one when they are imported.  `vmap` refuses its instances.
    """
    del spec_type, axis_size_type, to_elt, from_elt, iota
    own_lanes.add(data_type)


def unregister_vmappable(data_type):
    """Undo `register_vmappable`."""
    own_lanes.discard(data_type)


_names.publish(globals(), """
    BatchTrace BatchTracer axis_primitive_batchers bdim_at_front broadcast
    defbroadcasting defreducer defvectorized fancy_primitive_batchers not_mapped
    primitive_batchers register_vmappable unregister_vmappable
""")
