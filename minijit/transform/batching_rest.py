"""vmap of the rest: rows of `batch_rules` for the long tail, and collectives.

    vmap(lambda x, i: x[i])(xs, indices)            # one gather
    vmap(lambda x, k: conv(x, k))(xs, kernels)      # one convolution, a group a lane
    vmap(lambda x: x - pmean(x, "i"), axis_name="i")(xs)

Most primitives that work along some axes work along the same ones with an axis of lanes
beside them.  Gathers and scatters have batching axes for that; a convolution has
groups.  A dynamic slice that starts elsewhere in each lane is a gather.

A *collective* looks across lanes: `psum(x, "i")` is the sum over the lanes of the
`vmap` that calls its axis "i".  Under that vmap it is an ordinary reduction.
"""

import math
from functools import partial

import numpy as np

from ..trace import dtypes, elementwise as ew, indexing, primitives as lax
from ..trace.array import ShapedArray, aval_of, eval_rules, shape_rules
from ..trace.core import Primitive
from ..trace.errors import at_line, user_source
from ..trace.pytree import tree_map
from ..trace.sorting import sort_p, top_k_p
from ..trace.windows import (
    conv_general_dilated_p,
    cumlogsumexp_p,
    cummax_p,
    cummin_p,
    cumprod_p,
    cumsum_p,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
)
from .batching import (
    batch_rules,
    elementwise,
    lanes_at,
    move_axis,
    shifted,
    without_axis,
)
from .lane_names import axis_sizes, collective_rules
from .linearize import linear_in_first, linearize_rules
from .transpose import adding, transpose_rules
from .transpose_rest import split_axis

batch_rules |= elementwise(
    *(ew.exp2_p, ew.expm1_p, ew.log1p_p, ew.tan_p, ew.asin_p, ew.acos_p, ew.atan_p),
    *(ew.atan2_p, ew.sinh_p, ew.cosh_p, ew.asinh_p, ew.acosh_p, ew.atanh_p),
    *(ew.logistic_p, ew.rsqrt_p, ew.cbrt_p, ew.square_p),
    *(ew.erf_p, ew.erfc_p, ew.erf_inv_p, ew.lgamma_p, ew.digamma_p, ew.igamma_p),
    *(ew.igammac_p, ew.bessel_i0e_p, ew.bessel_i1e_p, ew.zeta_p, ew.polygamma_p),
    *(ew.igamma_grad_a_p, ew.random_gamma_grad_p),
    *(ew.regularized_incomplete_beta_p, ew.floor_p, ew.ceil_p, ew.round_p),
    *(ew.is_finite_p, ew.nextafter_p, ew.rem_p, ew.reduce_precision_p),
    *(ew.shift_left_p, ew.shift_right_logical_p, ew.shift_right_arithmetic_p),
    *(ew.population_count_p, ew.clz_p),
    *(ew.real_p, ew.imag_p, ew.complex_p, ew.conj_p),
)


def clamp_rule(lanes, axes, low, x, high):
    """Bounds that are scalars in each lane are stretched over it."""
    _, x_axis, _ = axes
    bounds = (low, axes[0]), (high, axes[2])
    if all(axis is None and aval_of(bound).ndim == 0 for bound, axis in bounds):
        return ew.clamp_p.bind(low, x, high), x_axis
    x = lanes_at(x, x_axis, 0, lanes.size)
    shape = aval_of(x).shape
    bounds = [lanes_at(bound, axis, 0, lanes.size) for bound, axis in bounds]
    low, high = (
        lax.broadcast_in_dim(bound, shape, range(aval_of(bound).ndim))
        for bound in bounds
    )
    return ew.clamp_p.bind(low, x, high), 0


def bitcast_rule(lanes, axes, x, *, new_dtype):
    """The last axis may be split or joined, so the lanes must be in front."""
    x = move_axis(x, axes[0], 0)
    return ew.bitcast_convert_type_p.bind(x, new_dtype=new_dtype), 0


batch_rules |= {ew.clamp_p: clamp_rule, ew.bitcast_convert_type_p: bitcast_rule}


# ---- along axes


def along_axis_rule(primitive, lanes, axes, x, *, axis, **params):
    """A primitive that works along one axis: `axis` counts on behind the lanes."""
    lane_axis, = axes
    axis = axis + (axis >= lane_axis)
    return primitive.bind(x, axis=axis, **params), lane_axis


def sort_rule(lanes, axes, *args, dimension, **params):
    """Keys and payload get their lanes on the same axis."""
    axis = next(a for a in axes if a is not None)
    args = [lanes_at(x, a, axis, lanes.size) for x, a in zip(args, axes, strict=True)]
    dimension = dimension + (dimension >= axis)
    return sort_p.bind(*args, dimension=dimension, **params), [axis] * len(args)


def top_k_rule(lanes, axes, x, *, k, axis):
    lane_axis, = axes
    axis = axis + (axis >= lane_axis)
    return top_k_p.bind(x, k=k, axis=axis), [lane_axis, lane_axis]


def rev_rule(lanes, axes, x, *, dimensions):
    axis, = axes
    return indexing.rev(x, shifted(dimensions, axis)), axis


def inserted(values, axis, value):
    """A tuple with one more entry, at the place of the lanes."""
    return (*values[:axis], value, *values[axis:])


def window_rule(primitive, lanes, axes, x, **params):
    """Along the lanes a window has size 1, and moves by 1."""
    axis, = axes
    params = {
        name: inserted(values, axis, (0, 0) if name == "padding" else 1)
        for name, values in params.items()
    }
    return primitive.bind(x, **params), axis


def pad_rule(lanes, axes, x, value, *, padding_config):
    """A padding value a lane is put in by a selection: a pad has only one."""
    x_axis, value_axis = axes
    axis = 0 if x_axis is None else x_axis
    config = inserted(padding_config, axis, (0, 0, 0))
    if value_axis is None:
        return indexing.pad(x, value, config), axis
    x = lanes_at(x, x_axis, axis, lanes.size)
    padded = indexing.pad(x, lax.full((), 0, aval_of(x).dtype), config)
    inside = lax.full(aval_of(x).shape, True, np.dtype(bool))
    inside = indexing.pad(inside, lax.full((), False, np.dtype(bool)), config)
    value = lax.broadcast_in_dim(value, aval_of(padded).shape, (axis,))
    return lax.select(inside, padded, value), axis


batch_rules |= {
    p: partial(along_axis_rule, p)
    for p in (cumsum_p, cumprod_p, cummax_p, cummin_p, cumlogsumexp_p)
}
batch_rules |= {
    p: partial(window_rule, p)
    for p in (reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p)
}
batch_rules |= {
    sort_p: sort_rule,
    top_k_p: top_k_rule,
    indexing.rev_p: rev_rule,
    indexing.pad_p: pad_rule,
}


# ---- taking parts, and writing to them


def index_vectors(lanes, starts, axes):
    """Scalar starts, some with lanes, as one array of index vectors [lanes, axes]."""
    rows = [lanes_at(i, a, 0, lanes.size) for i, a in zip(starts, axes, strict=True)]
    return lax.concatenate([lax.expand_dims(row, (1,)) for row in rows], 1)


def dynamic_slice_rule(lanes, axes, x, *starts, slice_sizes):
    """The same window in each lane is a slice still; another one in each, a gather."""
    axis, *start_axes = axes
    if all(a is None for a in start_axes):
        zero = np.zeros((), aval_of(starts[0]).dtype if starts else np.int32)
        starts = inserted(starts, axis, zero)
        sizes = inserted(slice_sizes, axis, lanes.size)
        return indexing.dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), axis
    every = tuple(range(len(starts)))
    return gather_rule(
        lanes,
        (axis, 0),
        x,
        index_vectors(lanes, starts, start_axes),
        dimension_numbers=indexing.GatherDimensionNumbers(every, (), every),
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=indexing.GatherScatterMode.CLIP,
        fill_value=None,
    )


def dynamic_update_slice_rule(lanes, axes, x, update, *starts):
    """The same window in each lane is one update still; another in each, a scatter."""
    x_axis, update_axis, *start_axes = axes
    if all(a is None for a in start_axes):
        axis = update_axis if x_axis is None else x_axis
        x = lanes_at(x, x_axis, axis, lanes.size)
        update = lanes_at(update, update_axis, axis, lanes.size)
        zero = np.zeros((), aval_of(starts[0]).dtype if starts else np.int32)
        starts = inserted(starts, axis, zero)
        return indexing.dynamic_update_slice_p.bind(x, update, *starts), axis
    every = tuple(range(len(starts)))
    return scatter_rule(
        indexing.scatter_p,
        lanes,
        (x_axis, 0, update_axis),
        x,
        index_vectors(lanes, starts, start_axes),
        update,
        dimension_numbers=indexing.ScatterDimensionNumbers(every, (), every),
        unique_indices=True,
        indices_are_sorted=True,
        mode=indexing.GatherScatterMode.CLIP,
    )


def gather_rule(lanes, axes, x, indices, *, dimension_numbers, slice_sizes, **params):
    """Lanes of the operand alone are one more window axis; of the indices alone, one
    more batch axis; of both, a batching axis."""
    x_axis, index_axis = axes
    numbers = dimension_numbers
    gather = partial(indexing.gather_p.bind, **params)
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
        (*offset, *behind(window)),
        behind(collapsed),
        behind(index_map),
        (*operand_batch, *behind(operand_dims)),
        (*index_batch, *index_dims),
    )


def scatter_rule(
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


batch_rules |= {
    indexing.dynamic_slice_p: dynamic_slice_rule,
    indexing.dynamic_update_slice_p: dynamic_update_slice_rule,
    indexing.gather_p: gather_rule,
}
batch_rules |= {
    p: partial(scatter_rule, p)
    for p in (
        *(indexing.scatter_p, indexing.scatter_add_p, indexing.scatter_sub_p),
        *(indexing.scatter_mul_p, indexing.scatter_min_p, indexing.scatter_max_p),
    )
}


# ---- convolution


def merge_into(x, source, target):
    """An axis made the outer part of another one, which is counted without it."""
    x = move_axis(x, source, target)
    shape = aval_of(x).shape
    merged = shape[target] * shape[target + 1]
    return lax.reshape(x, (*shape[:target], merged, *shape[target + 2 :]))


def conv_rule(lanes, axes, x, y, *, dimension_numbers, **params):
    """Lanes of the input go into its batch, of the kernel into the output features; if
    both have lanes, each lane is a group."""
    x_axis, y_axis = axes
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    features, batch = params["feature_group_count"], params["batch_group_count"]
    conv = partial(conv_general_dilated_p.bind, dimension_numbers=dimension_numbers)
    n = lanes.size
    if n == 0:
        params |= dict(dimension_numbers=dimension_numbers)
        return no_lanes(axes, (x, y), params)
    if x_axis is not None and y_axis is not None:
        x = merge_into(x, x_axis, lhs_spec[0 if batch > 1 else 1])
        y = merge_into(y, y_axis, rhs_spec[0])
        name = "batch_group_count" if batch > 1 else "feature_group_count"
        z = conv(x, y, **{**params, name: n * params[name]})
        return split_axis(z, out_spec[1], n), out_spec[1]
    if x_axis is not None:
        x = merge_grouped(x, x_axis, lhs_spec[0], batch)
        return split_axis(conv(x, y, **params), out_spec[0], n), out_spec[0]
    groups = max(features, batch)
    y = merge_grouped(y, y_axis, rhs_spec[0], groups)
    z = split_axis(conv(x, y, **params), out_spec[1], groups)
    # The output features are now groups, lanes, features of a group.
    z = split_axis(z, out_spec[1] + 1, n)
    z = move_axis(z, out_spec[1] + 1, 0)
    return merge_into(z, out_spec[1] + 1, out_spec[1] + 1), 0


def no_lanes(axes, operands, params):
    """The result of a convolution in no lanes: the type of one lane says its shape."""
    pairs = zip(map(aval_of, operands), axes, strict=True)
    avals = [a if axis is None else without_axis(a, axis) for a, axis in pairs]
    out = shape_rules[conv_general_dilated_p](*avals, **params)
    return lax.full((0, *out.shape), 0, out.dtype), 0


def merge_grouped(x, source, target, groups):
    """Lanes merged into an axis, which is counted without them, inside its groups."""
    x = move_axis(x, source, 0)
    x = split_axis(x, target + 1, groups)
    x = merge_into(x, 0, target + 1)
    return merge_into(x, target, target)


batch_rules |= {conv_general_dilated_p: conv_rule}


# ---- collectives


psum_p, pmax_p, pmin_p = map(Primitive, ["psum", "pmax", "pmin"])
axis_index_p, all_gather_p = Primitive("axis_index"), Primitive("all_gather")


def axis_size(axis_name):
    """How many lanes the named axes have: a Python int (`jax.lax.axis_size`)."""
    sizes = axis_sizes()
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        if name not in sizes:
            raise NameError(
                f"unbound axis name: {name}. A collective is over the lanes of a vmap "
                f"with axis_name={name!r} around it; the names here are "
                f"{list(sizes)}{at_line(user_source())}"
            )
    return math.prod(sizes[name] for name in names)


def names_of(axis_name):
    """One name or several as a tuple; each must be bound."""
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    axis_size(names)
    return tuple(names)


def reject_groups(axis_index_groups):
    if axis_index_groups is not None:
        raise NotImplementedError("axis_index_groups are not supported under vmap")


def psum(x, axis_name, *, axis_index_groups=None):
    """The sum over the lanes of an axis that a `vmap` named, the same in each.

    Args:
      x: array or tree of arrays.
      axis_name: what `vmap(..., axis_name=)` called the axis, or a tuple of names.

    A number is the same in all lanes: its sum is known, and a number.
    """
    reject_groups(axis_index_groups)
    names = names_of(axis_name)

    def one(v):
        if isinstance(v, (int, float, complex)):
            return v * axis_size(names)
        if aval_of(v).dtype.kind == "b":
            v = lax.convert(v, np.dtype(np.int32))
        return psum_p.bind(v, axis_name=names)

    return tree_map(one, x)


def pmean(x, axis_name, *, axis_index_groups=None):
    """The mean over the lanes of a named axis."""
    n = axis_size(names_of(axis_name))
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)

    def one(v):
        dtype = aval_of(v).dtype
        if not dtypes.issubdtype(dtype, np.inexact):
            v = lax.convert(v, dtypes.canonicalize_dtype(np.float64))
        return lax.div(v, lax.full((), n, aval_of(v).dtype))

    return tree_map(one, total)


def pmax(x, axis_name, *, axis_index_groups=None):
    """The largest over the lanes of a named axis."""
    reject_groups(axis_index_groups)
    names = names_of(axis_name)
    return tree_map(lambda v: pmax_p.bind(v, axis_name=names), x)


def pmin(x, axis_name, *, axis_index_groups=None):
    """The smallest over the lanes of a named axis."""
    reject_groups(axis_index_groups)
    names = names_of(axis_name)
    return tree_map(lambda v: pmin_p.bind(v, axis_name=names), x)


def axis_index(axis_name):
    """Which lane of a named axis this is: int32."""
    names = names_of(axis_name)
    index = None
    for name in names:
        here = axis_index_p.bind(axis_name=(name,))
        behind = axis_size(name)
        index = here if index is None else lax.add(lax.mul(index, behind), here)
    return index


def all_gather(x, axis_name, *, axis_index_groups=None, axis=0, tiled=False):
    """The values of all lanes of a named axis, stacked along a new axis `axis`.

    With `tiled` they are put one after another along an axis that is there already.
    """
    reject_groups(axis_index_groups)
    names = names_of(axis_name)

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
    here = axis_index(axis_name)
    starts = [np.int32(0)] * aval_of(x).ndim
    starts[axis] = here
    sizes = list(aval_of(x).shape)
    sizes[axis] = 1
    part = indexing.dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes))
    return lax.squeeze(part, (axis,))


def counted_axis(name, aval, axis):
    """An axis counted from the front; ValueError if there is none."""
    if not -aval.ndim <= axis < aval.ndim:
        raise ValueError(
            f"{name}: axis {axis} is out of bounds for an array of {aval.ndim} axes"
            f"{at_line(user_source())}"
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
            f"{wanted}, one part for each lane{at_line(user_source())}"
        )
    return axis


def shares(x, axis, size):
    """An axis as two: whose share it is, and where in it."""
    return split_axis(x, axis, size)


def all_to_all(
    x, axis_name, split_axis, concat_axis, *, axis_index_groups=None, tiled=False
):
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
    reject_groups(axis_index_groups)
    names = names_of(axis_name)
    size = axis_size(names)

    def one(v):
        axis = in_parts("all_to_all", aval_of(v), split_axis, size, tiled)
        target = counted_axis("all_to_all", aval_of(v), concat_axis)
        parts = shares(v, axis, size) if tiled else v
        parts = own_part(all_gather(parts, names), names, axis + 1)
        return merge_into(parts, 0, target) if tiled else move_axis(parts, 0, target)

    return tree_map(one, x)


def pswapaxes(x, axis_name, axis, *, axis_index_groups=None):
    """The axis of the lanes and one of x exchanged (`jax.lax.pswapaxes`)."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def psum_scatter(
    x, axis_name, *, scatter_dimension=0, axis_index_groups=None, tiled=False
):
    """Lane i gets the i-th part of the sum over the lanes (`jax.lax.psum_scatter`).

    Args:
      scatter_dimension: the axis of the parts, one for each lane; it goes, but with
        `tiled`, where each lane gets an equal share of it.
    """
    reject_groups(axis_index_groups)
    names = names_of(axis_name)
    size = axis_size(names)

    def one(v):
        axis = in_parts("psum_scatter", aval_of(v), scatter_dimension, size, tiled)
        total = psum(shares(v, axis, size) if tiled else v, names)
        return own_part(total, names, axis)

    return tree_map(one, x)


def ppermute(x, axis_name, perm):
    """Send values from lane to lane.

    Args:
      perm: pairs (from which lane, to which lane); no lane may stand twice on the same
        side.  A lane that gets nothing has zeros.
    """
    names = names_of(axis_name)
    size = axis_size(names)
    senders = sender_table(perm, size)
    here = axis_index(names)
    sender = lax.as_constant(np.array([max(s, 0) for s in senders], np.int32))
    known = lax.as_constant(np.array([s >= 0 for s in senders]))

    def one(v):
        everything = all_gather(v, names)
        start = own_place(sender, here)
        zeros = [np.int32(0)] * aval_of(v).ndim
        sizes = (1, *aval_of(v).shape)
        part = indexing.dynamic_slice_p.bind(
            everything, start, *zeros, slice_sizes=sizes
        )
        part = lax.squeeze(part, (0,))
        if min(senders) >= 0:
            return part
        nothing = lax.full(aval_of(v).shape, 0, aval_of(v).dtype)
        return lax.select_n(own_place(known, here), nothing, part)

    return tree_map(one, x)


def own_place(table, here):
    """One entry of a table, as a scalar."""
    entry = indexing.dynamic_slice_p.bind(table, here, slice_sizes=(1,))
    return lax.squeeze(entry, (0,))


def sender_table(perm, size):
    """For each lane the one that sends to it, or -1."""
    senders, pairs = [-1] * size, [tuple(map(int, pair)) for pair in perm]
    if any(not 0 <= lane < size for pair in pairs for lane in pair):
        raise ValueError(
            f"ppermute over {size} lanes: perm={pairs} names lanes that are not there"
            f"{at_line(user_source())}"
        )
    for side in zip(*pairs, strict=True):
        if len(set(side)) < len(side):
            raise ValueError(
                "ppermute: a lane may send once and receive once, but perm="
                f"{pairs}{at_line(user_source())}"
            )
    for source, target in pairs:
        senders[target] = source
    return senders


def pshuffle(x, axis_name, perm):
    """Lane i gets what lane perm[i] has (`jax.lax.pshuffle`)."""
    size = axis_size(axis_name)
    if sorted(perm) != list(range(size)):
        raise ValueError(
            f"pshuffle: perm={list(perm)} is no permutation of {size} lanes"
            f"{at_line(user_source())}"
        )
    return ppermute(x, axis_name, list(zip(perm, range(size), strict=True)))


def gathered_shape(x, *, axis_size, all_gather_dimension, **params):
    shape = inserted(x.shape, all_gather_dimension, axis_size)
    return x.update(shape=shape)


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


def other_names(lanes, axis_name):
    """The names of the axes that other vmaps must take care of."""
    return tuple(name for name in axis_name if name != lanes.name)


def reduce_lanes(primitive, reduction, lanes, axes, x, *, axis_name):
    """A collective over these lanes: a reduction, after which all lanes are one."""
    axis, = axes
    if axis is None:
        n = lax.full((), lanes.size, aval_of(x).dtype)
        x = lax.mul(x, n) if primitive is psum_p else x
    else:
        x = reduction(x, (axis,))
    rest = other_names(lanes, axis_name)
    return (primitive.bind(x, axis_name=rest) if rest else x), None


def index_of_lane(lanes, axes, *, axis_name):
    return lax.iota(np.dtype(np.int32), lanes.size), 0


def gather_lanes(lanes, axes, x, *, all_gather_dimension, **params):
    return lanes_at(x, axes[0], all_gather_dimension, lanes.size), None


collective_rules |= {
    psum_p: partial(reduce_lanes, psum_p, lax.reduce_sum),
    pmax_p: partial(reduce_lanes, pmax_p, lax.reduce_max),
    pmin_p: partial(reduce_lanes, pmin_p, lax.reduce_min),
    axis_index_p: index_of_lane,
    all_gather_p: gather_lanes,
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
    starts = [np.int32(0)] * ct.ndim
    starts[all_gather_dimension] = here
    sizes = (1 if d == all_gather_dimension else n for d, n in enumerate(ct.shape))
    mine = indexing.dynamic_slice_p.bind(total, *starts, slice_sizes=tuple(sizes))
    return (lax.reshape(mine, x.aval.shape),)


linearize_rules |= linear_in_first(psum_p, all_gather_p)
transpose_rules |= adding({
    psum_p: lambda ct, x, *, axis_name: (psum_p.bind(ct, axis_name=axis_name),),
    all_gather_p: all_gather_transpose,
})
