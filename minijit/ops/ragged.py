"""Products whose rows fall into groups: under the names of `jax.lax`.

    ragged_dot(x, kernels, [2, 0, 3])       # x[:2] @ kernels[0], x[2:5] @ kernels[2]

Each group has a copy of `lhs` with zeros in the rows of the others, so a product costs
what one of all groups costs, and is compiled, differentiated and batched as others are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..trace import primitives as lax
from ..trace.array import aval_of
from ..trace.base.errors import HERE
from ..trace.types import Array, ArrayLike, DTypeLike
from .cumulative import cumsum


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which axis is which in a ragged product.  JAX: same name.

    Attributes:
      dot_dimension_numbers: those of `lax.dot_general`.
      lhs_ragged_dimensions: the one axis of lhs whose elements fall into groups.
      rhs_group_dimensions: the axis of rhs that has an element for each group, if the
        ragged axis is neither contracted nor a batch axis; else none.
    """

    dot_dimension_numbers: tuple
    lhs_ragged_dimensions: tuple
    rhs_group_dimensions: tuple

    def __post_init__(self):
        nested = tuple(tuple(map(tuple, t)) for t in self.dot_dimension_numbers)
        object.__setattr__(self, "dot_dimension_numbers", nested)
        for name in ("lhs_ragged_dimensions", "rhs_group_dimensions"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


plain_numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Rows of lhs [m, k] times the matrix of their group in rhs [g, k, n]: [m, n].

    Args:
      group_sizes: int[g]; the first rows belong to the first group, and so on.  Rows
        after the last group give zeros.
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, plain_numbers, precision, preferred_element_type,
        group_offset, out_sharding,
    )  # fmt: skip


def ragged_dot_general(
    lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: Any, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """`dot_general` where the elements of one axis of lhs fall into groups.

    Args:
      group_sizes: int[g], or [..., g] with the axes of lhs on which the sizes depend:
        batch axes, and those of the ragged axis' kind before it.

    Returns:
      As `dot_general`; if the ragged axis is contracted, with g as its first axis: a
      sum for each group.  A ragged batch axis changes nothing.

    Raises TypeError for axes that do not fit each other.
    """
    if group_offset is not None:
        raise NotImplementedError("Unimplemented group_offset support.")
    numbers, shape = ragged_dot_dimension_numbers, aval_of(lhs).shape
    if not isinstance(numbers, RaggedDotDimensionNumbers):
        raise TypeError(
            "ragged_dot_dimension_numbers must be a RaggedDotDimensionNumbers, got "
            f"{numbers!r}"
        )
    (contract, rhs_contract), (batch, rhs_batch) = numbers.dot_dimension_numbers
    dim, rows = check_numbers(numbers, len(shape))
    check_groups(numbers, rows, shape, aval_of(rhs).shape, aval_of(group_sizes))
    options = precision, preferred_element_type
    up = lambda axes: [d + 1 for d in axes]
    if rows is batch:
        return lax.dot_general(lhs, rhs, numbers.dot_dimension_numbers, *options)
    before = [*batch, *rows[: rows.index(dim)]]
    left = in_groups(lhs, group_sizes, dim, before)
    if rows is not contract:
        group, = numbers.rhs_group_dimensions
        pairs = [*up(contract), 0], [*rhs_contract, group]
        return lax.dot_general(left, rhs, (pairs, (up(batch), rhs_batch)), *options)
    other = dict(zip((*batch, *contract), (*rhs_batch, *rhs_contract), strict=True))
    right = in_groups(rhs, group_sizes, other[dim], [other[d] for d in before])
    pairs = up(contract), up(rhs_contract)
    batches = [0, *up(batch)], [0, *up(rhs_batch)]
    return lax.dot_general(left, right, (pairs, batches), *options)


def check_numbers(numbers, ndim):
    """-> (the ragged axis of lhs, the axes of its kind)."""
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError("ragged_dot_general expects exactly one lhs ragged dimension.")
    dim, = numbers.lhs_ragged_dimensions
    if not 0 <= dim < ndim:
        raise TypeError(
            "ragged_dot_general requires lhs ragged dimension numbers to be "
            "nonnegative and less than the number of axes of the lhs value, got "
            f"{dim} for lhs of rank {ndim}.{HERE}"
        )
    (contract, _), (batch, _) = numbers.dot_dimension_numbers
    if dim in contract or dim in batch:
        return dim, contract if dim in contract else batch
    return dim, [d for d in range(ndim) if d not in contract + batch]


def check_groups(numbers, rows, shape, rhs_shape, sizes):
    """Complain unless the sizes of groups, and the groups of rhs, fit lhs."""
    dim, = numbers.lhs_ragged_dimensions
    (contract, _), (batch, _) = numbers.dot_dimension_numbers
    groups, where = numbers.rhs_group_dimensions, str(HERE)
    if sizes.dtype.kind not in "iu":
        raise TypeError(
            "ragged_dot_general requires that group_sizes.dtype is subtype of "
            f"np.integer, got {sizes.dtype.name}{where}"
        )
    before = [*(() if rows is batch else batch), *rows[: rows.index(dim)]]
    wanted = tuple(shape[d] for d in before)
    if sizes.ndim == 0 or (sizes.ndim > 1 and sizes.shape[:-1] != wanted):
        raise TypeError(
            f"expected group_sizes to have shape {(*wanted, '...')}, got "
            f"{sizes.shape}{where}"
        )
    needed = int(rows is not contract and rows is not batch)
    if len(groups) != needed:
        raise TypeError(
            f"ragged_dot_general requires {needed} group dimensions in the rhs "
            "when the lhs ragged dimension is "
            f"{'noncontracting' if needed else 'contracting or batch'}, got "
            f"{len(groups)}{where}"
        )
    if needed and rhs_shape[groups[0]] != sizes.shape[-1]:
        raise TypeError(
            f"expected rhs group dimension size to be {sizes.shape[-1]}, got "
            f"{rhs_shape[groups[0]]}{where}"
        )


def in_groups(x, sizes, dim, before):
    """[g, *x.shape]: for each group x, with zeros where the axis `dim` is not in it.

    Args:
      sizes: int[g], or [..., g] with the axes `before` of x.
    """
    n, shape = aval_of(sizes).ndim, (aval_of(sizes).shape[-1], *aval_of(x).shape)
    ends = cumsum(sizes, n - 1)
    order = np.argsort(before) if n > 1 else np.zeros(0, int)
    axes = [0, *(before[i] + 1 for i in order)]

    def spread(s):
        s = lax.transpose(s, (n - 1, *order.tolist()))
        return lax.broadcast_in_dim(s, shape, axes)

    place = lax.broadcasted_iota(aval_of(sizes).dtype, shape, dim + 1)
    inside = lax.bitwise_and(
        lax.ge(place, spread(lax.sub(ends, sizes))), lax.lt(place, spread(ends))
    )
    x = lax.broadcast_in_dim(x, shape, range(1, len(shape)))
    return lax.select(inside, x, lax.full_like(x, 0))
