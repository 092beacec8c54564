"""Rows: the element of a primitive's result, in terms of its operands' elements.

    transpose(out, (i, j), x, permutation=(1, 0))             # x[j, i]
    one_operation("add").rule(out, (i, j), x, y)                # x[i, j] + y[i, j]
    reduction("add").rule(out, (i,), x, axes=(1,))            # add(k: x[i, k])

The rows of layout operations compute nothing: they ask their operand at another index.
"""

import math

from ..trace import primitives as prim
from .expressions import Axis, Const, Reduce, as_index, op
from .lower import Elements, lower_rules, new_axis
from .scalars import BOOL, identities, wide_dtype
from .shapes import matched_axes


def widen(expr):
    """A 16-bit float in 32 bits."""
    return op("convert", expr, dtype=wide_dtype(expr.dtype))


def compute(name, *args, dtype):
    """`op(name, *args)` of a dtype; 16-bit floats in 32 bits, rounded afterwards."""
    wide = map(widen, args)
    result = op(bool_name(name, dtype), *wide, dtype=wide_dtype(dtype))
    return op("convert", result, dtype=dtype)


def bool_name(name, dtype):
    """The operation's name; of bools, the maximum is `or` and the minimum `and`."""
    return {"max": "or", "min": "and"}.get(name, name) if dtype == BOOL else name


def one_operation(name, cost=1):
    """The row of a primitive that is one scalar operation of its operands' elements."""

    def rule(out, index, *xs):
        return compute(name, *(x.spread(index) for x in xs), dtype=out.dtype)

    return Elements(rule, cost)


def convert(out, index, x, *, new_dtype, weak_type):
    return op("convert", x[index], dtype=new_dtype)


lower_rules |= {
    p: one_operation(p.name)
    for p in (
        prim.neg_p, prim.sign_p, prim.abs_p, prim.add_p, prim.sub_p, prim.mul_p,
        prim.max_p, prim.min_p, prim.eq_p, prim.ne_p, prim.lt_p, prim.le_p,
        prim.gt_p, prim.ge_p, prim.and_p, prim.or_p, prim.xor_p, prim.not_p,
    )
}
lower_rules |= {p: one_operation(p.name, 4) for p in (prim.div_p, prim.sqrt_p)}
lower_rules |= {
    p: one_operation(p.name, 20)
    for p in (prim.exp_p, prim.log_p, prim.sin_p, prim.cos_p, prim.tanh_p)
}
lower_rules |= {
    prim.convert_element_type_p: Elements(convert),
    prim.copy_p: Elements(lambda out, index, x: x[index], 0),
}


def iota(out, index, *, dtype, shape, dimension):
    return op("convert", index[dimension], dtype=dtype)


def broadcast_in_dim(out, index, x, *, shape, broadcast_dimensions):
    return x.spread(tuple(index[d] for d in broadcast_dimensions))


def transpose(out, index, x, *, permutation):
    """out[i] is x[j] with j[permutation[d]] = i[d]."""
    where = dict(zip(permutation, index, strict=True))
    return x[tuple(where[d] for d in range(len(index)))]


def squeeze(out, index, x, *, dimensions):
    rest = iter(index)
    return x[tuple(0 if d in dimensions else next(rest) for d in range(len(x.shape)))]


def slice_(out, index, x, *, start_indices, limit_indices, strides):
    strides = strides or (1,) * len(index)
    return x[tuple(
        affine(i, stride, start)
        for i, start, stride in zip(index, start_indices, strides, strict=True)
    )]


def affine(i, scale, offset):
    """i * scale + offset, as an index expression."""
    return op("add", op("mul", as_index(i), as_index(scale)), as_index(offset))


def reshape(out, index, x, *, new_sizes, dimensions):
    shape = x.shape if dimensions is None else [x.shape[d] for d in dimensions]
    where = reshaped_index(index, new_sizes, shape)
    if dimensions is None:
        return x[where]
    return x[tuple(where[dimensions.index(d)] for d in range(len(where)))]


def reshaped_index(index, shape, old_shape):
    """The index into `old_shape` of the element at `index` of `shape`.

    Axes are matched from the last one on, as few as have the same product on both
    sides: (2, 3, 4) -> (6, 4) keeps the 4, and divides the 6 by 3.
    """
    where = []
    for new, old in matched_axes(shape, old_shape):
        flat = as_index(0)
        for d in new:
            flat = op("add", op("mul", flat, as_index(shape[d])), index[d])
        for i, d in enumerate(old):
            rest = math.prod(old_shape[e] for e in old[i + 1 :])
            part = op("floordiv", flat, as_index(rest))
            outermost = i == 0
            where.append(part if outermost else op("mod", part, as_index(old_shape[d])))
    return tuple(where)


def layout(rule):
    """The row of a primitive that only renames indices."""
    return Elements(rule, 0)


lower_rules |= {
    prim.iota_p: layout(iota),
    prim.broadcast_in_dim_p: layout(broadcast_in_dim),
    prim.transpose_p: layout(transpose),
    prim.squeeze_p: layout(squeeze),
    prim.slice_p: layout(slice_),
    prim.reshape_p: layout(reshape),
}


def reduction(name):
    """The row of a reduction of its operand over `axes`."""

    def rule(out, index, x, *, axes):
        where, over = reduced_index(index, x.shape, axes)
        if any(x.shape[d] == 0 for d in axes):
            return Const(identities[name](out.dtype)[0], out.dtype)
        total = total_over(bool_name(name, out.dtype), over, widen(x[where]))
        return op("convert", total, dtype=out.dtype)

    return Elements(rule, total=True)


def reduced_index(index, shape, axes):
    """The index of an operand that is reduced over `axes`: -> (index, new axes)."""
    rest = iter(index)
    over = {d: new_axis(shape[d], "reduce") for d in sorted(axes)}
    where = tuple(over[d] if d in over else next(rest) for d in range(len(shape)))
    return where, tuple(over.values())


def total_over(name, over, body):
    """A Reduce over those of the indices `over` that are axes; the body without any."""
    axes = tuple(i for i in over if isinstance(i, Axis))
    return Reduce(name, axes, (body,)) if axes else body


lower_rules |= {
    prim.reduce_sum_p: reduction("add"),
    prim.reduce_prod_p: reduction("mul"),
    prim.reduce_max_p: reduction("max"),
    prim.reduce_min_p: reduction("min"),
    prim.reduce_and_p: reduction("and"),
    prim.reduce_or_p: reduction("or"),
    prim.reduce_xor_p: reduction("xor"),
}
