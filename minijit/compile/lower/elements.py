"""Rows: the element of a primitive's result, in terms of its operands' elements.

    transpose(out, (i, j), x, permutation=(1, 0))             # x[j, i]
    one_operation("add").rule(out, (i, j), x, y)              # x[i, j] + y[i, j]
    reduction("add").rule(out, (i,), x, axes=(1,))            # add(k in 8: x[i, k])
"""

import math

from ...trace import primitives as prim
from ...trace.numpy_values import joint_wide_dtype
from ..loops.expressions import Axis, Const, Reduce, as_index, op, shorter
from ..loops.scalars import BOOL, exact, identities, is_half, wide_dtype
from ..simplify.shapes import matched_axes

# Operations of single elements, and what each costs in additions.
plain = "neg sign abs add sub mul max min eq ne lt le gt ge and or xor not".split()
costs = dict.fromkeys(plain, 1) | {"div": 4, "sqrt": 4}
costs |= dict.fromkeys(("exp", "log", "sin", "cos", "tanh"), 20)


def bool_name(name, dtype):
    """The operation's name; of bools, the maximum is `or` and the minimum `and`."""
    return {"max": "or", "min": "and"}.get(name, name) if dtype == BOOL else name


def widen(expr):
    """A 16-bit float in 32 bits."""
    return op("convert", expr, dtype=wide_dtype(expr.dtype))


def compute(name, *args, dtype):
    """`op(name, *args)` of a dtype; 16-bit floats in 32 bits, rounded afterwards.

    What is one of the numbers given, but for its sign, is not rounded again.
    """
    if name in exact and is_half(dtype):
        return op(name, *args, dtype=dtype)
    result = op(bool_name(name, dtype), *map(widen, args), dtype=wide_dtype(dtype))
    return op("convert", result, dtype=dtype)


def total_over(name, over, body):
    """A total over those of the indices `over` that are axes; the body without any."""
    axes = tuple(i for i in over if isinstance(i, Axis))
    return shorter(Reduce(name, axes, (body,))) if axes else body


def reduced_index(index, shape, axes):
    """The index of an operand that is reduced over `axes`: -> (index, new axes)."""
    rest = iter(index)
    over = {d: new_axis(shape[d], "reduce") for d in sorted(axes)}
    where = tuple(over[d] if d in over else next(rest) for d in range(len(shape)))
    return where, tuple(over.values())


# chapter 15
from .walk import Elements, lower_rules, new_axis


def one_operation(name, cost=1):
    """The row of a primitive that is one scalar operation of its operands' elements."""

    def rule(out, index, *xs):
        return compute(name, *(x.spread(index) for x in xs), dtype=out.dtype)

    return Elements(rule, cost)


lower_rules |= {
    getattr(prim, f"{name}_p"): one_operation(name, n) for name, n in costs.items()
}


# What only renames indices.


def transpose(out, index, x, *, permutation):
    """out[i] is x[j] with j[permutation[d]] = i[d]."""
    where = dict(zip(permutation, index, strict=True))
    return x[tuple(where[d] for d in range(len(index)))]


def broadcast_in_dim(out, index, x, *, shape, broadcast_dimensions):
    return x.spread(tuple(index[d] for d in broadcast_dimensions))


lower_rules |= {
    prim.transpose_p: Elements(transpose, cost=0),
    prim.broadcast_in_dim_p: Elements(broadcast_in_dim, cost=0),
}


def reduction(name):
    """The row of a reduction of its operand over `axes`."""

    def rule(out, index, x, *, axes):
        where, over = reduced_index(index, x.shape, axes)
        if any(x.shape[d] == 0 for d in axes):
            return Const(identities[name](out.dtype)[0], out.dtype)
        value = total_over(bool_name(name, out.dtype), over, widen(x[where]))
        return op("convert", value, dtype=out.dtype)

    return Elements(rule, total=True)


lower_rules |= {
    prim.reduce_sum_p: reduction("add"),
    prim.reduce_prod_p: reduction("mul"),
    prim.reduce_max_p: reduction("max"),
    prim.reduce_min_p: reduction("min"),
}


# chapter 15, brought along

def affine(i, scale, offset):
    """i * scale + offset, as an index expression."""
    return op("add", op("mul", as_index(i), as_index(scale)), as_index(offset))


def slice_(out, index, x, *, start_indices, limit_indices, strides):
    steps = zip(index, strides or (1,) * len(index), start_indices, strict=True)
    return x[tuple(affine(i, stride, start) for i, stride, start in steps)]


def reshape(out, index, x, *, new_sizes, dimensions):
    shape = x.shape if dimensions is None else [x.shape[d] for d in dimensions]
    where = reshaped_index(index, new_sizes, shape)
    if dimensions is None:
        return x[where]
    return x[tuple(where[dimensions.index(d)] for d in range(len(where)))]


def reshaped_index(index, shape, old_shape):
    """The index into `old_shape` of the element at `index` of `shape`.

    Only axes that belong together are multiplied and divided: (2, 3, 4) -> (6, 4) keeps
    the 4, and divides the 6 by 3.
    """
    where = []
    for new, old in matched_axes(shape, old_shape):
        flat = as_index(0)
        for d in new:
            flat = affine(flat, shape[d], index[d])
        for i, d in enumerate(old):
            rest = math.prod(old_shape[e] for e in old[i + 1 :])
            part = op("floordiv", flat, as_index(rest))
            where.append(op("mod", part, as_index(old_shape[d])) if i else part)
    return tuple(where)


def iota(out, index, *, dtype, shape, dimension):
    return op("convert", index[dimension], dtype=dtype)


def sum_of_products(out, index, lhs, rhs, *, dimension_numbers, **accuracy):
    """A product as a sum over new axes, in a dtype wide enough for both operands."""
    contract, batch = dimension_numbers
    over = tuple(new_axis(lhs.shape[d], "reduce") for d in contract[0])
    if any(lhs.shape[d] == 0 for d in contract[0]):
        return Const(0, out.dtype)
    wide = joint_wide_dtype(lhs.dtype, rhs.dtype, out.dtype)
    rest, elements = iter(index[len(batch[0]) :]), []
    for x, c, b in zip((lhs, rhs), contract, batch, strict=True):
        where = dict(zip((*b, *c), (*index[: len(b)], *over), strict=True))
        place = (where[d] if d in where else next(rest) for d in range(len(x.shape)))
        elements.append(op("convert", x[tuple(place)], dtype=wide))
    value = op("and" if wide == BOOL else "mul", *elements)
    value = total_over("or" if wide == BOOL else "add", over, value)
    return op("convert", value, dtype=out.dtype)


def convert(out, index, x, *, new_dtype, weak_type):
    return op("convert", x[index], dtype=new_dtype)


lower_rules |= {
    prim.slice_p: Elements(slice_, cost=0),
    prim.reshape_p: Elements(reshape, cost=0),
    prim.iota_p: Elements(iota, cost=0),
    prim.dot_general_p: Elements(sum_of_products, total=True),
    prim.reduce_and_p: reduction("and"),
    prim.reduce_or_p: reduction("or"),
    prim.reduce_xor_p: reduction("xor"),
    prim.convert_element_type_p: Elements(convert),
    prim.copy_p: Elements(lambda out, index, x: x[index], 0),
}
