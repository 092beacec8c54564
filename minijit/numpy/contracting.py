"""Products of matrices and arrays: `dot`, `tensordot`, `matmul`."""

from __future__ import annotations

import builtins
from functools import lru_cache
from typing import Any

from ..trace import dtypes, primitives
from ..trace.types import Array, ArrayLike, DTypeLike
from .arguments import canonical_axis
from .core import arrays, convert
from .shapes import transpose


def contract(name, x, y, dimensions, precision, dtype):
    """A `dot_general` whose result has the dtype `dtype`, or the promoted one.

    Args:
      dimensions: the `dimension_numbers`, tuples of ints.
    """
    weak_type = False
    if dtype is not None:
        dtype = dtypes.user_dtype(dtype, name)
    elif x.aval.dtype == y.aval.dtype and not x.aval.weak_type:
        dtype = x.aval.dtype
    else:
        dtype, weak_type = dtypes.result_type(x, y, return_weak_type_flag=True)
    precision = primitives.canonicalize_precision(precision)
    result = primitives.dot_general_p.bind(
        x, y, dimension_numbers=dimensions, precision=precision,
        preferred_element_type=dtype,
    )  # fmt: skip
    return convert(result, dtype, weak_type)


def contract_last(name, x, y, precision, dtype):
    """The sum of products over x's last and y's second to last axis."""
    i, j = len(x.aval.shape), len(y.aval.shape)
    axes = ((i - 1,), (builtins.max(j - 2, 0),)) if i and j else ((), ())
    return contract(name, x, y, (axes, ((), ())), precision, dtype)


def dot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products over a's last and b's second to last axis.  JAX: `jnp.dot`."""
    x, y = arrays("dot", a, b)
    return contract_last("dot", x, y, precision, preferred_element_type)


def tensordot(
    a: ArrayLike, b: ArrayLike, axes: Any = 2, *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products over pairs of axes, or the last of a and first of b.

    JAX: `jnp.tensordot`.
    """
    x, y = arrays("tensordot", a, b)
    if isinstance(axes, int):
        if axes > builtins.min(x.ndim, y.ndim):
            raise TypeError(
                f"Number of tensordot axes (axes {axes}) exceeds input ranks "
                f"({x.shape} and {y.shape})"
            )
        axes = range(x.ndim - axes, x.ndim), range(axes)
    else:
        axes = paired_axes(x, y, axes)
    dimensions = (tuple(map(tuple, axes)), ((), ()))
    return contract("tensordot", x, y, dimensions, precision, preferred_element_type)


def paired_axes(x, y, axes):
    """The axes of x and of y that a pair of ints or of sequences names."""
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise TypeError(
            "tensordot axes argument must be an int, a pair of ints, or a pair of "
            "lists/tuples of ints."
        )
    first, second = [[a] if isinstance(a, int) else list(a) for a in axes]
    if len(first) != len(second):
        raise TypeError(
            f"tensordot requires axes lists to have equal length, got {axes[0]} and "
            f"{axes[1]}."
        )
    return (
        [canonical_axis(i, x.ndim) for i in first],
        [canonical_axis(i, y.ndim) for i in second],
    )


def matmul(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The matrix product; leading axes broadcast.  JAX: `jnp.matmul`.

    Only axes that both arrays have are batch dimensions of the `dot_general`: what is
    repeated for broadcasting would be multiplied again and again.
    """
    x, y = arrays("matmul", a, b)
    ranks = len(x.aval.shape), len(y.aval.shape)
    if 0 in ranks:
        raise ValueError(
            f"matmul input operand {ranks.index(0)} must have ndim at least 1, but it "
            "has ndim 0"
        )
    if builtins.max(ranks) <= 2:
        return contract_last("matmul", x, y, precision, preferred_element_type)
    i = (*range(-x.ndim, -2), "n", "k")[-x.ndim :]
    j = (*range(-y.ndim, -2), "k", "m") if y.ndim > 1 else ("k",)
    y, j = without_ones(y, j, i)
    x, i = without_ones(x, i, j)
    out = (*sorted({n for n in i + j if isinstance(n, int)}), "n", "m")
    out = tuple(n for n in out if n in i + j)
    return contract_named("matmul", x, i, y, j, out, precision, preferred_element_type)


def without_ones(x, names, others):
    """`x` and its axes' names, without the batch axes along which it is repeated."""
    sizes = zip(names, x.shape, strict=True)
    gone = [n for n, size in sizes if size == 1 and n in others and n != "k"]
    if not gone:
        return x, names
    x = primitives.squeeze(x, [names.index(n) for n in gone])
    return x, tuple(n for n in names if n not in gone)


def contract_named(
    name, x, i, y, j, out, precision=None, dtype=None, product=contract
):  # fmt: skip
    """Sum the products of `x` and `y` over the names that `out` lacks.

    Args:
      i, j: the names of the axes of x and of y, each at most once.
      out: the names of the result's axes.
      product: what multiplies, called as `contract`.
    """
    dimensions, order = contraction(tuple(i), tuple(j), tuple(out))
    for a, b in zip(*dimensions[1], strict=True):
        if x.shape[a] != y.shape[b]:
            raise ValueError(
                f"Incompatible shapes for {name} arguments: {x.shape} and {y.shape}"
            )
    result = product(name, x, y, dimensions, precision, dtype)
    return transpose(result, order) if order else result


@lru_cache(maxsize=4096)
def contraction(i, j, out):
    """-> (dimension numbers of a `dot_general`, the order of its axes or None)."""
    shared = [n for n in i if n in j]
    over = [n for n in shared if n not in out]
    batch = [n for n in shared if n in out]
    pairs = tuple(
        (tuple(map(i.index, names)), tuple(map(j.index, names)))
        for names in (over, batch)
    )
    found = batch + [n for n in (*i, *j) if n not in shared]
    order = tuple(map(found.index, out))
    return pairs, None if order == tuple(range(len(order))) else order
