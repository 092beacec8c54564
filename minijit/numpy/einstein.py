"""`einsum`: products and sums by the names of axes."""

import numpy as np

from ..trace import dtypes, einsum as einstein, primitives
from .arguments import no_out
from .core import (
    arrays,
    choose_where,
    contract_named,
    convert,
    transpose,
    without_ones,
    zeros_like,
)


def einsum(
    subscripts, /, *operands, out=None, optimize="auto", precision=None,
    preferred_element_type=None,
):  # fmt: skip
    """Einstein's sum: products summed over the names the result lacks.

    JAX: `jnp.einsum`.  `einsum("i j, j k -> i k", x, y)` is a matrix product; so is
    `einsum(x, [0, 1], y, [1, 2], [0, 2])`.  Spaces do not matter; "..." stands for
    axes that broadcast; without "->" the result has the names that occur once.
    """
    no_out("einsum", out)
    operands, terms, result, path = einsum_plan(subscripts, operands, optimize)
    if preferred_element_type is None:
        dtype, weak_type = dtypes.result_type(*operands, return_weak_type_flag=True)
    else:
        dtype = dtypes.user_dtype(preferred_element_type, "einsum")
        weak_type = False
    parts = list(zip(operands, terms, strict=True))
    for places in path:
        taken = [parts[i] for i in places]
        parts = [part for i, part in enumerate(parts) if i not in places]
        needed = {name for _, names in parts for name in names} | set(result)
        parts.append(contract_parts(taken, needed, precision, dtype, result))
    (x, names), = parts
    x = transpose(x, [names.index(n) for n in result])
    return convert(x, dtype, weak_type)


def einsum_plan(subscripts, operands, optimize):
    """-> (operands, for each the names of its axes, those of the result, the path)."""
    if isinstance(subscripts, str):
        terms, result = einstein.parse(subscripts, len(operands))
    else:
        terms, result, operands = einstein.parse_lists([subscripts, *operands])
    operands = arrays("einsum", *operands)
    shapes = [x.shape for x in operands]
    terms, result = einstein.expand(terms, result, shapes)
    sizes = einstein.sizes_of(terms, shapes)
    path = einstein.contraction_path(terms, result, sizes, optimize)
    return operands, terms, result, path


def contract_parts(parts, needed, precision, dtype, result=()):
    """Multiply operands of an einsum, and sum over the names not `needed` later.

    If the order of operands can make the axes come out as `result`, it does.
    """
    if len(parts) == 1:
        (x, i), = parts
        return reduce_names(x, i, needed)
    (x, i), (y, j), *more = parts
    if more:
        later = needed | {name for _, names in more for name in names}
        first = contract_parts([(x, i), (y, j)], later, precision, dtype)
        return contract_parts([*more, first], needed, precision, dtype, result)
    x, i = reduce_names(x, i, needed | set(j))
    y, j = reduce_names(y, j, needed | set(i))
    y, j = without_ones(y, j, i)
    x, i = without_ones(x, i, j)
    x, i = reduce_names(x, i, needed | set(j))
    y, j = reduce_names(y, j, needed | set(i))
    # A product has the free axes of its first operand before those of its second: the
    # order of operands decides whether the result must be transposed.
    if product_names(j, i, needed) == list(result):
        (x, i), (y, j) = (y, j), (x, i)
    out = product_names(i, j, needed)
    return contract_named("einsum", x, i, y, j, out, precision, dtype), out


def product_names(i, j, needed):
    """The axes of a product of operands with axes i and j, as it leaves them."""
    i, j = ([n for n in names if n in needed] for names in (i, j))
    batch, free = [n for n in i if n in j], [n for n in i if n not in j]
    return batch + free + [n for n in j if n not in i]


def reduce_names(x, names, needed):
    """Take diagonals of names that occur twice; sum over those nobody needs."""
    names = list(names)
    for name in set(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            rows, columns = [
                primitives.broadcasted_iota(np.dtype(np.int32), x.shape, k)
                for k in (i, j)
            ]
            x = choose_where(rows == columns, x, zeros_like(x))
            x = total(x, (j,))
            names.pop(j)
    gone = tuple(k for k, name in enumerate(names) if name not in needed)
    x = total(x, gone) if gone else x
    return x, [name for name in names if name in needed]


def total(x, axes):
    """The sum over axes in the array's own dtype."""
    logic = x.dtype == np.bool_
    return (primitives.reduce_or if logic else primitives.reduce_sum)(x, axes)


def einsum_path(subscripts, /, *operands, optimize="auto"):
    """-> (the order in which `einsum` multiplies, a description).  JAX: same name.

    The order is a list of pairs of positions among the operands that are left.
    """
    operands, terms, result, path = einsum_plan(subscripts, operands, optimize)
    sizes = einstein.sizes_of(terms, [x.shape for x in operands])
    lines = [f"  Complete contraction: {len(terms)} operands, sizes {sizes}"]
    lines += [f"  contract {places}" for places in path]
    return path, "\n".join(lines)
