"""Rows of `batch_rules` for windows, as dynamic slices; and for `floor` and `rem`.

    vmap(lambda x: dynamic_slice(x, (i,), (3,)))(xs)                # one slice

The same window in each lane is a window of all lanes.  Where each lane has a window of
its own, a gather reads them, and a scatter writes them: `ops/scatter.py` says how.
"""


import numpy as np

from ...trace import primitives as lax, slicing
from ...trace.array import aval_of
from ...trace.primitives import floor_p, rem_p
from .vmap import along, batch_rules, elementwise, lanes_at, move_axis


def inserted(values, axis, value):
    """A tuple with one more entry, at the place of the lanes."""
    return (*values[:axis], value, *values[axis:])


def merge_into(x, source, target):
    """An axis made the outer part of another one, which is counted without it."""
    x = move_axis(x, source, target)
    shape = aval_of(x).shape
    merged = shape[target] * shape[target + 1]
    return lax.reshape(x, (*shape[:target], merged, *shape[target + 2 :]))


def split_axis(x, axis, n):
    """x with one axis made two, the first of size n."""
    shape = x.shape
    return lax.reshape(x, (*shape[:axis], n, shape[axis] // n, *shape[axis + 1 :]))


def pad_rule(lanes, axes, x, value, *, padding_config):
    """A padding value a lane is put in by a selection: a pad has only one."""
    x_axis, value_axis = axes
    axis = 0 if x_axis is None else x_axis
    config = inserted(padding_config, axis, (0, 0, 0))
    if value_axis is None:
        return slicing.pad(x, value, config), axis
    x = lanes_at(x, x_axis, axis, lanes.size)
    padded = slicing.pad(x, lax.full((), 0, aval_of(x).dtype), config)
    inside = lax.full(aval_of(x).shape, True, np.dtype(bool))
    inside = slicing.pad(inside, lax.full((), False, np.dtype(bool)), config)
    value = lax.broadcast_in_dim(value, aval_of(padded).shape, (axis,))
    return lax.select(inside, padded, value), axis


def index_vectors(lanes, starts, axes):
    """Scalar starts, some with lanes, as one array of index vectors [lanes, axes]."""
    rows = [lanes_at(i, a, 0, lanes.size) for i, a in zip(starts, axes, strict=True)]
    return lax.concatenate([lax.expand_dims(row, (1,)) for row in rows], 1)


# How windows that lie elsewhere in each lane are read and written: "read", "write".
# Gathering and scattering say it: `ops/scatter.py` fills this.
windows_in_lanes = {}


def elsewhere_in_each_lane(way):
    """The row of `windows_in_lanes`, or an error that says what is missing."""
    if way not in windows_in_lanes:
        raise NotImplementedError(
            "a window whose place differs from lane to lane is a gather or a scatter: "
            "these come with chapter 16"
        )
    return windows_in_lanes[way]


def dynamic_slice_rule(lanes, axes, x, *starts, slice_sizes):
    """The same window in each lane is a slice still."""
    axis, *start_axes = axes
    if all(a is None for a in start_axes):
        zero = np.zeros((), aval_of(starts[0]).dtype if starts else np.int32)
        starts = inserted(starts, axis, zero)
        sizes = inserted(slice_sizes, axis, lanes.size)
        return slicing.dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), axis
    vectors = index_vectors(lanes, starts, start_axes)
    return elsewhere_in_each_lane("read")(lanes, (axis, 0), x, vectors, slice_sizes)


def dynamic_update_slice_rule(lanes, axes, x, update, *starts):
    """The same window in each lane is one update still."""
    x_axis, update_axis, *start_axes = axes
    if all(a is None for a in start_axes):
        axis = update_axis if x_axis is None else x_axis
        x = lanes_at(x, x_axis, axis, lanes.size)
        update = lanes_at(update, update_axis, axis, lanes.size)
        zero = np.zeros((), aval_of(starts[0]).dtype if starts else np.int32)
        starts = inserted(starts, axis, zero)
        return slicing.dynamic_update_slice_p.bind(x, update, *starts), axis
    vectors, axes = index_vectors(lanes, starts, start_axes), (x_axis, 0, update_axis)
    return elsewhere_in_each_lane("write")(lanes, axes, x, vectors, update)


batch_rules |= {
    slicing.pad_p: pad_rule,
    slicing.dynamic_slice_p: dynamic_slice_rule,
    slicing.dynamic_update_slice_p: dynamic_update_slice_rule,
}
batch_rules |= along("dimensions", slicing.rev_p) | elementwise(floor_p, rem_p)
