"""Lowering the rest: rows for the long tail of primitives.

Most of them say in a line or two which element of an operand an index means.  Guards
come before loads: an element outside of an operand is asked for at the nearest index
inside, and then not taken.  What writes to single elements (`dynamic_update_slice` and
the scatters) is a copy of the operand in one kernel and the writing in another.
"""


import math
from dataclasses import dataclass

import numpy as np

from ..trace import (
    elementwise as ew,
    indexing as ix,
    primitives as prim,
    sorting,
    windows as win,
)
from ..trace.dtypes import finfo

# For what it does: programs can be printed.
from . import loops_text as loops_text
from .loops import (
    BOOL,
    Axis,
    Const,
    If,
    Reduce,
    Store,
    as_index,
    known,
    op,
    start_values,
)
from .lower import (
    MOST_BUFFERS,
    Elements,
    Operand,
    Statements,
    affine,
    compute,
    elementwise,
    fallbacks,
    is_half,
    layout,
    lower_rules,
    new_axis,
    reduced_index,
    row_choosers,
    total_over,
    wide_dtype,
    widen,
)
from .lower_calls import add_nest, call_eval


def integer_pow(out, index, x, *, y):
    """By squaring, as the eval rule does it."""
    left, square, result = abs(y), widen(x[index]), None
    while left:
        if left % 2:
            result = square if result is None else op("mul", result, square)
        left, square = left // 2, op("mul", square, square)
    if result is None:
        return Const(1, out.dtype)
    if y < 0:
        result = op("div", Const(1, result.dtype), result)
    return op("convert", result, dtype=out.dtype)


def power(out, index, x, y):
    y = op("convert", y.spread(index), dtype=out.dtype)
    return compute("pow", x.spread(index), y, dtype=out.dtype)


def select_n(out, index, which, *cases, first=0):
    """One `select` for two cases; for more, one for each but the last."""
    which = which.spread(index)
    if which.dtype == BOOL:
        if_false, if_true = (cases * 2)[:2]
        return op("select", which, if_true[index], if_false[index])
    result = cases[-1][index]
    for i, case in reversed(list(enumerate(cases[:-1], first))):
        here = op("le", which, Const(i, which.dtype))
        result = op("select", here, case[index], result)
    return result


def lower_select(walk, eqn):
    """`select_n` of many cases: a few at a time, each kernel over what others chose."""
    var, = eqn.outvars
    which, *cases = map(Operand, eqn.invars)
    axes = tuple(map(new_axis, var.aval.shape))
    walk.stored.setdefault(var, ("parts", f"{eqn.primitive} is stored part by part"))
    step = MOST_BUFFERS - 2
    for first in reversed(range(0, len(cases) * bool(var.aval.size), step)):
        some = cases[first : first + step]
        value = select_n(var.aval, axes, which, *some, first=first)
        store = Store(var, axes, value)
        here = op("ge", which.spread(axes), Const(first, which.dtype))
        add_nest(walk, eqn, var, If(here, (store,)) if first else store, axes)


def concatenate(out, index, *xs, dimension):
    """The element of the part that `index` falls into, each asked at a safe index."""
    end, result = out.shape[dimension], None
    for x in reversed([x for x in xs if x.shape[dimension]]):
        size = x.shape[dimension]
        end -= size
        inside = op("sub", index[dimension], as_index(end))
        where = (*index[:dimension], clamped(inside, size), *index[dimension + 1 :])
        element = x[where]
        if result is None:
            result = element
        else:
            before = op("lt", index[dimension], as_index(end + size))
            result = op("select", before, element, result)
    return result


# Parts that lie in shorter pieces are stored together: one piece after the other.
SHORT = 64


def lower_parts(walk, eqn):
    """`concatenate` of many operands: each is stored where it belongs."""
    var, = eqn.outvars
    dim, end, chunks = eqn.params["dimension"], 0, []
    walk.stored.setdefault(var, ("parts", f"{eqn.primitive} is stored part by part"))
    readers = list(walk.readers[var])
    for atom in eqn.invars:
        shape, first = atom.aval.shape, end
        end += shape[dim]
        if not atom.aval.size:
            continue
        reads = walk.read_by(eqn.replace(invars=(atom,)))
        if not (chunks and chunks[-1].takes(shape, reads, dim)):
            chunks.append(Chunk(shape, [], frozenset()))
        chunks[-1].parts.append((atom, first))
        chunks[-1].reads |= reads
    for chunk in chunks:
        axes = tuple(map(new_axis, chunk.shape))
        group = walk.group(axes)
        for atom, first in chunk.parts:
            where = (*axes[:dim], affine(axes[dim], 1, first), *axes[dim + 1 :])
            group.stores.append(Store(var, where, Operand(atom)[axes]))
        walk.fill(group, eqn, readers, chunk.reads)


@dataclass
class Chunk:
    """Parts of one shape that one kernel stores: pairs (atom, where it begins)."""

    shape: tuple
    parts: list
    reads: frozenset

    def takes(self, shape, reads, dim):
        """Whether another part may come to these."""
        short = math.prod(shape[dim:]) < SHORT
        buffers = len(self.reads | reads) + 1
        return shape == self.shape and short and buffers <= MOST_BUFFERS


def many_operands(eqn):
    """The row of an equation that has too many operands to choose from.

    Few are chosen from element by element, and so can be inlined.
    """
    if eqn.primitive is prim.concatenate_p and len(eqn.invars) > MOST_BUFFERS:
        return Statements(lower_parts)
    if eqn.primitive is prim.select_n_p and len(eqn.invars) > MOST_BUFFERS:
        return Statements(lower_select)
    return None


row_choosers.append(many_operands)


def clamped(i, size):
    """The index nearest to i of an axis of `size` elements."""
    return op("max", op("min", as_index(i), as_index(size - 1)), as_index(0))


def arg_reduction(name):
    """The row of argmax or argmin: a Reduce of pairs (element, where it stands)."""

    def rule(out, index, x, *, axes, index_dtype):
        where, over = reduced_index(index, x.shape, axes)
        position = op("convert", over[0], dtype=index_dtype)
        if not isinstance(over[0], Axis):
            return position
        best = Reduce(name, over, (widen(x[where]), position))
        return op("item", best, as_index(1), dtype=index_dtype)

    return Elements(rule, total=True)


lower_rules |= {
    prim.pow_p: Elements(power, 20),
    prim.integer_pow_p: Elements(integer_pow, 3),
    prim.select_n_p: Elements(select_n),
    prim.concatenate_p: Elements(concatenate),
    prim.argmax_p: arg_reduction("argmax"),
    prim.argmin_p: arg_reduction("argmin"),
}
lower_rules |= {
    p: elementwise(p.name, 20)
    for p in (
        ew.exp2_p, ew.expm1_p, ew.log1p_p, ew.tan_p, ew.asin_p, ew.acos_p, ew.atan_p,
        ew.atan2_p, ew.sinh_p, ew.cosh_p, ew.asinh_p, ew.acosh_p, ew.atanh_p,
        ew.logistic_p, ew.cbrt_p, ew.erf_p, ew.erfc_p, ew.erf_inv_p, ew.lgamma_p,
        ew.digamma_p,
    )
}
lower_rules |= {p: elementwise(p.name, 4) for p in (ew.rsqrt_p, ew.rem_p)}
lower_rules |= {
    p: elementwise(p.name)
    for p in (
        ew.floor_p, ew.ceil_p, ew.is_finite_p, ew.nextafter_p, ew.shift_left_p,
        ew.shift_right_logical_p, ew.shift_right_arithmetic_p, ew.population_count_p,
        ew.clz_p,
    )
}


def square(out, index, x):
    return compute("mul", x[index], x[index], dtype=out.dtype)


def clamp(out, index, low, x, high):
    least = compute("max", x[index], low.spread(index), dtype=out.dtype)
    return compute("min", least, high.spread(index), dtype=out.dtype)


def round_(out, index, x, *, rounding_method):
    name = "round_even" if rounding_method else "round"
    return compute(name, x[index], dtype=out.dtype)


def unsigned(dtype):
    """The unsigned integer dtype of a dtype's width."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def reduce_precision(out, index, x, *, exponent_bits, mantissa_bits):
    """Integer operations on the bits of x: round the mantissa, clip the exponent."""
    info, word = finfo(out.dtype), unsigned(out.dtype)
    bits = op("bitcast", x[index], dtype=word)

    def const(value):
        return Const(value, word)

    if drop := max(0, info.nmant - mantissa_bits):
        odd = op("and", shift_right(bits, drop), const(1))
        half = op("add", odd, const((1 << drop - 1) - 1))
        kept = const((1 << info.bits) - (1 << drop))
        bits = op("and", op("add", bits, half), kept)
    sign_bit = 1 << info.bits - 1
    if exponent_bits < info.nexp:
        sign = op("and", bits, const(sign_bit))
        exponent = shift_right(op("and", bits, const(sign_bit - 1)), info.nmant)
        middle, reach = (1 << info.nexp - 1) - 1, (1 << exponent_bits - 1) - 1
        infinite = op("or", sign, const(((1 << info.nexp) - 1) << info.nmant))
        too_large = op("gt", exponent, const(middle + reach))
        too_small = op("le", exponent, const(middle - reach))
        bits = op("select", too_large, infinite, bits)
        bits = op("select", too_small, sign, bits)
    is_nan = op("ne", widen(x[index]), widen(x[index]))
    return op("select", is_nan, x[index], op("bitcast", bits, dtype=out.dtype))


def shift_right(bits, distance):
    """Unsigned bits moved to the right by a known distance or an expression."""
    if isinstance(distance, int):
        distance = Const(distance, bits.dtype)
    return op("shift_right_logical", bits, distance)


def bitcast(out, index, x, *, new_dtype):
    """The same bits; a wider element is made of parts, the lowest ones first."""
    old, new = x.dtype, new_dtype
    if old.itemsize == new.itemsize:
        return x[index] if old == new else op("bitcast", x[index], dtype=new)
    wide = unsigned(max(old, new, key=lambda dtype: dtype.itemsize))
    width = 8 * min(old.itemsize, new.itemsize)
    if old.itemsize > new.itemsize:
        distance = op("convert", affine(index[-1], width, 0), dtype=wide)
        part = shift_right(op("bitcast", x[index[:-1]], dtype=wide), distance)
        return op("bitcast", op("convert", part, dtype=unsigned(new)), dtype=new)
    whole = Const(0, wide)
    for i in range(x.shape[-1]):
        part = op("bitcast", x[(*index, i)], dtype=unsigned(old))
        part = op("convert", part, dtype=wide)
        part = op("shift_left", part, Const(i * width, wide))
        whole = op("or", whole, part)
    return op("bitcast", whole, dtype=new)


lower_rules |= {
    ew.square_p: Elements(square),
    ew.clamp_p: Elements(clamp, 2),
    ew.round_p: Elements(round_),
    ew.reduce_precision_p: Elements(reduce_precision, 6),
    ew.bitcast_convert_type_p: Elements(bitcast),
}
fallbacks |= {
    p: "a special function without a scalar form of its own"
    for p in (
        ew.igamma_p, ew.igammac_p, ew.bessel_i0e_p, ew.bessel_i1e_p, ew.zeta_p,
        ew.polygamma_p, ew.regularized_incomplete_beta_p, ew.igamma_grad_a_p,
        ew.random_gamma_grad_p,
    )
}
fallbacks |= {
    p: "complex numbers are left to NumPy"
    for p in (ew.real_p, ew.imag_p, ew.complex_p, ew.conj_p)
}
fallbacks |= {
    p: "sorting is left to NumPy" for p in (sorting.sort_p, sorting.top_k_p)
}


def half_nextafter(eqn):
    """The neighbour of a 16-bit float is none of float32's."""
    if eqn.primitive is ew.nextafter_p and is_half(eqn.outvars[0].aval.dtype):
        reason = "the neighbour of a 16-bit float"
        return Statements(lambda walk, eqn: call_eval(walk, eqn, reason))
    return None


row_choosers.append(half_nextafter)


def rev(out, index, x, *, dimensions):
    return x[tuple(
        affine(i, -1, n - 1) if d in dimensions else i
        for d, (i, n) in enumerate(zip(index, x.shape, strict=True))
    )]


def pad(out, index, x, value, *, padding_config):
    """The operand's element, or the padding outside of it and between its elements."""
    where, inside = [], Const(True, BOOL)
    for i, n, config in zip(index, x.shape, padding_config, strict=True):
        low, _, interior = config
        place, here = undilated(op("sub", i, as_index(low)), n, interior + 1)
        where.append(place)
        inside = op("and", inside, here)
    if 0 in x.shape:
        return value[()]
    return op("select", inside, x[tuple(where)], value[()])


def undilated(i, n, step):
    """Where position i falls among n elements that lie `step` apart.

    Returns:
      (an index in bounds, the condition that an element lies at i).
    """
    inside = both(op("ge", i, as_index(0)), op("lt", i, as_index((n - 1) * step + 1)))
    if step > 1:
        between = op("mod", i, as_index(step))
        inside = both(inside, op("eq", between, as_index(0)))
        i = op("floordiv", i, as_index(step))
    return clamped(i, n), inside


def both(x, y):
    return op("and", x, y)


def integer_index(x):
    """An integer expression as an index; what is too large for one stays too large."""
    if x.dtype == np.uint64:
        x = op("min", x, Const(2**63 - 1, x.dtype))
    return as_index(x)


def dynamic_slice(out, index, x, *starts, slice_sizes):
    """Each start is moved so far that the window fits."""
    where = []
    for i, start, n, size in zip(index, starts, x.shape, slice_sizes, strict=True):
        where.append(op("add", clamped(integer_index(start[()]), n - size + 1), i))
    return x[tuple(where)]


def windows_start(indices, batch, shape, sizes, index_map):
    """Where a window of a gather or scatter starts, from its index vector.

    Args:
      indices: the operand with the index vectors along its last axis.
      batch: the index of the vector.
      shape, sizes: of the array and of the window in it.

    Returns:
      ({axis: start}, {axis: start moved so that the window fits}, whether it fitted).
    """
    starts, moved, fits = {}, {}, Const(True, BOOL)
    for k, d in enumerate(index_map):
        start, limit = integer_index(indices[(*batch, k)]), shape[d] - sizes[d]
        starts[d], moved[d] = start, clamped(start, limit + 1)
        fits = both(fits, op("ge", start, as_index(0)))
        fits = both(fits, op("le", start, as_index(limit)))
    return starts, moved, fits


def window_index(rank, starts, window, inner, batching, batch):
    """The index into an array: start of the window plus the index in the window."""
    where = []
    for d in range(rank):
        i = starts.get(d, as_index(0))
        if d in batching:
            i = op("add", i, batch[batching[d]])
        if d in window:
            i = op("add", i, inner[window.index(d)])
        where.append(i)
    return tuple(where)


def gather(out, index, x, indices, *, dimension_numbers, slice_sizes, mode, **params):
    """The operand's element at the window's start plus the index in the window."""
    offset, collapsed, index_map, op_batching, ix_batching = dimension_numbers
    fill_mode = mode is ix.GatherScatterMode.FILL_OR_DROP
    fill = np.asarray(params["fill_value"]).astype(x.dtype) if fill_mode else 0
    if 0 in x.shape:
        return Const(fill, x.dtype)
    batch = [i for d, i in enumerate(index) if d not in offset]
    inner = [index[d] for d in offset]
    window = ix.window_axes(len(x.shape), collapsed, op_batching)
    batching = dict(zip(op_batching, ix_batching, strict=True))
    _, starts, fits = windows_start(indices, batch, x.shape, slice_sizes, index_map)
    element = x[window_index(len(x.shape), starts, window, inner, batching, batch)]
    return op("select", fits, element, Const(fill, x.dtype)) if fill_mode else element


lower_rules |= {
    ix.rev_p: layout(rev),
    ix.pad_p: Elements(pad),
    ix.dynamic_slice_p: Elements(dynamic_slice),
    ix.gather_p: Elements(gather, 2),
}


def the_operand(out, index, x, *rest, **params):
    return x[index]


def store_operand(walk, eqn):
    """Let a kernel copy the operand to the result, before others write to it."""
    var, = eqn.outvars
    walk.store(eqn, Elements(the_operand), var, walk.readers[var])


def lower_update_slice(walk, eqn):
    """`dynamic_update_slice`: copy the operand, then store the update over it."""
    operand, update, *starts = map(Operand, eqn.invars)
    axes, where = tuple(map(new_axis, update.shape)), []
    sizes = zip(axes, starts, operand.shape, update.shape, strict=True)
    for axis, start, n, size in sizes:
        first = clamped(integer_index(start[()]), n - size + 1)
        where.append(op("add", first, axis))
    var, = eqn.outvars
    if 0 not in update.shape:
        add_nest(walk, eqn, var, Store(var, tuple(where), update[axes]), axes)
    else:
        walk.stored.setdefault(var, ("root", f"{eqn.primitive} writes to a copy"))
    store_operand(walk, eqn)


def lower_scatter(combine):
    """The row of a scatter: copy the operand, then store or combine each update.

    Updates of one element are applied in the order of their indices, unless the caller
    promises that there is only one.
    """

    def function(walk, eqn):
        operand, indices, updates = map(Operand, eqn.invars)
        var, = eqn.outvars
        walk.stored.setdefault(var, ("root", f"{eqn.primitive} writes to a copy"))
        if 0 not in updates.shape and 0 not in operand.shape:
            statement, axes = scatter_store(
                var, combine, operand.shape, indices, updates, **eqn.params
            )
            add_nest(walk, eqn, var, statement, axes)
        store_operand(walk, eqn)

    return Statements(function)


def scatter_store(
    var, combine, shape, indices, updates, *, dimension_numbers, mode,
    unique_indices, **params,
):
    """The statement that takes one update in, and the axes of the loops around it."""
    window_dims, inserted, index_map, op_batching, ix_batching = dimension_numbers
    window = ix.window_axes(len(shape), inserted, op_batching)
    axes = tuple(
        new_axis(n, "loop" if unique_indices or d in window_dims else "serial")
        for d, n in enumerate(updates.shape)
    )
    batch = [axis for d, axis in enumerate(axes) if d not in window_dims]
    inner = [axes[d] for d in window_dims]
    sizes = [1] * len(shape)
    for d, u in zip(window, window_dims, strict=True):
        sizes[d] = updates.shape[u]
    batching = dict(zip(op_batching, ix_batching, strict=True))
    starts, moved, fits = windows_start(indices, batch, shape, sizes, index_map)
    clip = mode is ix.GatherScatterMode.CLIP
    starts = moved if clip else starts
    where = window_index(len(shape), starts, window, inner, batching, batch)
    store = Store(var, where, updates[axes], combine)
    return (store if clip or known(fits) else If(fits, (store,))), axes


lower_rules |= {
    ix.dynamic_update_slice_p: Statements(lower_update_slice),
    ix.scatter_p: lower_scatter(None),
    ix.scatter_add_p: lower_scatter("add"),
    ix.scatter_sub_p: lower_scatter("sub"),
    ix.scatter_mul_p: lower_scatter("mul"),
    ix.scatter_min_p: lower_scatter("min"),
    ix.scatter_max_p: lower_scatter("max"),
}


def cumulative(name):
    """The row of a running total: a loop of kind `scan`, the innermost one."""

    def function(walk, eqn):
        var, = eqn.outvars
        x, = map(Operand, eqn.invars)
        dim, backward = eqn.params["axis"], eqn.params["reverse"]
        axes = [*map(new_axis, x.shape)]
        axes[dim] = step = Axis(x.shape[dim], "scan")
        walk.stored.setdefault(var, ("scan", f"{eqn.primitive} runs along an axis"))
        if 0 in x.shape:
            return
        nest = (*(axis for axis in axes if axis is not step), step)
        place = affine(step, -1, step.extent - 1) if backward else step
        where = (*axes[:dim], place, *axes[dim + 1 :])
        total = Reduce(name, (step,), (widen(x[where]),))
        value = op("convert", total, dtype=var.aval.dtype)
        add_nest(walk, eqn, var, Store(var, where, value), nest)

    return Statements(function)


lower_rules |= {
    win.cumsum_p: cumulative("add"),
    win.cumprod_p: cumulative("mul"),
    win.cummax_p: cumulative("max"),
    win.cummin_p: cumulative("min"),
    win.cumlogsumexp_p: cumulative("logaddexp"),
}


def windowed(name):
    """The row of a reduction over windows; what is not there does not count."""

    def rule(
        out, index, x, *, window_dimensions, window_strides, padding, base_dilation,
        window_dilation,
    ):
        over = tuple(new_axis(n, "reduce") for n in window_dimensions)
        where, inside = [], Const(True, BOOL)
        for d, (i, k) in enumerate(zip(index, over, strict=True)):
            first = affine(i, window_strides[d], -padding[d][0])
            place = op("add", first, affine(k, window_dilation[d], 0))
            place, here = undilated(place, x.shape[d], base_dilation[d])
            where.append(place)
            inside = both(inside, here)
        wide = wide_dtype(out.dtype)
        start, = start_values(Reduce(name, (), (Const(0, wide),)))
        if 0 in x.shape or 0 in window_dimensions:
            return op("convert", start, dtype=out.dtype)
        value = op("select", inside, widen(x[tuple(where)]), start)
        return op("convert", total_over(name, over, value), dtype=out.dtype)

    return Elements(rule, total=True)


lower_rules |= {
    win.reduce_window_sum_p: windowed("add"),
    win.reduce_window_max_p: windowed("max"),
    win.reduce_window_min_p: windowed("min"),
}


def convolution(
    out, index, lhs, rhs, *, dimension_numbers, window_strides, padding, lhs_dilation,
    rhs_dilation, feature_group_count, batch_group_count, **params,
):
    """A sum over features and the kernel's positions, where the input has elements."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    n, feature, *places = (index[d] for d in out_spec)
    over = [new_axis(rhs.shape[d], "reduce") for d in rhs_spec[1:]]
    if 0 in lhs.shape or 0 in rhs.shape:
        return Const(0, out.dtype)
    channel, *kernel = over
    inputs, inside = [n, channel], Const(True, BOOL)
    groups = max(feature_group_count, batch_group_count)
    group = op("floordiv", feature, as_index(rhs.shape[rhs_spec[0]] // groups))
    which = 1 if feature_group_count > 1 else 0
    size = lhs.shape[lhs_spec[which]] // groups
    inputs[which] = op("add", affine(group, size, 0), inputs[which])
    for d, (i, k) in enumerate(zip(places, kernel, strict=True)):
        first = affine(i, window_strides[d], -padding[d][0])
        place = op("add", first, affine(k, rhs_dilation[d], 0))
        place, here = undilated(place, lhs.shape[lhs_spec[2 + d]], lhs_dilation[d])
        inputs.append(place)
        inside = both(inside, here)
    wide = wide_dtype(out.dtype)
    x = op("convert", lhs[permuted(inputs, lhs_spec)], dtype=wide)
    x = op("select", inside, x, Const(0, wide))
    weight = op("convert", rhs[permuted([feature, *over], rhs_spec)], dtype=wide)
    total = total_over("add", over, op("mul", x, weight))
    return op("convert", total, dtype=out.dtype)


def permuted(index, spec):
    """The index that has index[i] at position spec[i]."""
    return tuple(index[spec.index(d)] for d in range(len(index)))


lower_rules[win.conv_general_dilated_p] = Elements(convolution, total=True)
