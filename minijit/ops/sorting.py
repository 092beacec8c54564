"""Sorting: by one key or several, with a payload; and the k largest.

    sort(array([3.0, 1.0, 2.0]))            # [1, 2, 3]
    sort((keys, payload), num_keys=1)       # payload in the order that sorts the keys
    top_k(x, 2)                             # the two largest, and where they stand

NaN comes last, and -0.0 is equal to 0.0; complex numbers go by their real parts and
then by their imaginary parts.  `top_k` is stricter, as XLA's is: there 0.0 is larger
than -0.0.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..trace import primitives as lax
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.jaxprs.jaxpr import fallbacks
from ..trace.numpy_values import widen
from ..trace.plans import size_of, worth
from ..trace.shape_checks import anything, canonicalize_axis, check_kind, is_kind
from ..trace.types import Array, ArrayLike
from ..transform.batching.vmap import along, batch_rules
from ..transform.derivatives.linearize import linearize_rules
from . import scatter

sort_p = Primitive("sort", multiple_results=True)
top_k_p = Primitive("top_k", multiple_results=True)
largest_p = Primitive("largest")  # what a `top_k` becomes when it is lowered


def sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Any:
    """Sort along an axis.

    Args:
      operand: an array; or a sequence of arrays of one shape, of which the first
        `num_keys` are keys, the first one the most important, and all are brought into
        the order that sorts the keys.
      dimension: the axis.
      is_stable: whether equal keys stay in the order in which they came.
      num_keys: how many of the operands are keys.

    JAX: `lax.sort`.
    """
    several = isinstance(operand, (tuple, list))
    operands = operand if several else (operand,)
    if not operands:
        raise TypeError("sort requires at least one operand")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(
            f"num_keys={num_keys} must be between 1 and the number of operands, "
            f"{len(operands)}"
        )
    results = sort_p.bind(
        *operands, dimension=canonicalize_axis(dimension, aval_of(operands[0]).ndim),
        is_stable=bool(is_stable), num_keys=operator.index(num_keys),
    )
    return tuple(results) if several else results[0]


def sort_shape(*operands, dimension, is_stable, num_keys):
    """The shape rule of `sort`: everything keeps its type."""
    if len({x.shape for x in operands}) > 1:
        shapes = " ".join(str(x.shape) for x in operands)
        raise TypeError(f"Arguments to sort must have equal shapes, got: {shapes}")
    for x in operands[:num_keys]:
        check_kind("sort", x.dtype, anything)
    return list(operands)


def sort_numpy(*operands, dimension, is_stable, num_keys):
    """Evaluate `sort`; NumPy can put bfloat16 in order only as float32."""
    if len(operands) == 1:
        x = widen(operands[0])
        kind = "stable" if is_stable and ties_differ(x) else "quicksort"
        return [np.sort(x, axis=dimension, kind=kind)]
    # lexsort takes the most important key last.
    keys = [widen(x) for x in reversed(operands[:num_keys])]
    order = np.lexsort(keys, axis=dimension)
    return [np.take_along_axis(x, order, dimension) for x in operands]


def ties_differ(x):
    """Whether elements of x that a sort takes for equal may have different bits."""
    if x.dtype.kind in "biu":
        return False
    return x.dtype.kind == "c" or bool((np.isnan(x) | (x == 0) & np.signbit(x)).any())


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The k largest elements along an axis, the largest first, and their indices.

    Of equal elements the first comes first.  NaN is larger than all others.

    JAX: `lax.top_k`.
    """
    k = operator.index(k)
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    axis = canonicalize_axis(axis, aval_of(operand).ndim)
    return top_k_p.bind(operand, k=k, axis=axis)


def top_k_shape(x, *, k, axis):
    """The shape rule of `top_k`: -> [values, int32 indices]."""
    if is_kind(x.dtype, (np.complexfloating,)):
        raise ValueError("top_k is not compatible with complex inputs.")
    if k > x.shape[axis]:
        raise ValueError(
            f"k argument to top_k must be no larger than size along axis; got k={k} "
            f"with shape={x.shape} and axis={axis}"
        )
    if x.shape[axis] > np.iinfo(np.int32).max:
        raise ValueError(
            "top_k returns int32 indices, which will overflow for array dimensions "
            f"that are larger than the maximum int32, got {x.shape}"
        )
    values = x.update(shape=(*x.shape[:axis], k, *x.shape[axis + 1 :]))
    return [values, values.update(dtype=np.dtype(np.int32), weak_type=False)]


def top_k_numpy(x, *, k, axis):
    """Evaluate `top_k`: only what may belong to the k largest is sorted."""
    keys = np.moveaxis(total_order(x), axis, -1)
    rows = keys.reshape(math.prod(keys.shape[:-1]), keys.shape[-1])
    order = largest_first(rows, k)
    places = np.moveaxis(order.reshape(*keys.shape[:-1], k), -1, axis)
    return [np.take_along_axis(x, places, axis), places]


def largest_first(keys, k):
    """[rows, k]: where the k largest integers of each row stand, the largest first.

    Of equal ones the first comes first.  An integer and its place are one number of 64
    bits, where they fit into that: a sort of numbers is quicker than one of places.
    """
    n = keys.shape[-1]
    bits = n.bit_length()
    if 8 * keys.dtype.itemsize + bits > 64:
        found = positions_of_largest(keys, k)
        # What sorts negated keys keeps equal ones in order.
        kept = ~np.take_along_axis(keys, found, -1)
        order = np.argsort(kept, axis=-1, kind="stable")[..., :k]
        return np.take_along_axis(found, order, -1)
    wide = np.int64 if keys.dtype.kind == "i" else np.uint64
    both = keys.astype(wide) << wide(bits)
    both |= np.arange(n, dtype=wide)[::-1]
    largest = largest_numpy(both, k=k) & wide((1 << bits) - 1)
    return n - 1 - largest.astype(np.int64)


def largest_numpy(x, *, k):
    """Evaluate `largest`: the k largest of each row, no two of which are equal."""
    n = x.shape[-1]
    if k and 8 * k < n > SHORT_ROW:
        x = np.partition(x, n - k, axis=-1)[..., n - k :]
    return np.sort(x, axis=-1)[..., ::-1][..., :k]


# Rows that are sorted as quickly as NumPy finds their largest elements.
SHORT_ROW = 1000


def positions_of_largest(rows, k):
    """[rows, k]: where the k largest integers of each row stand, in ascending order.

    Of equal ones the first are taken.  All positions where that is quicker: this only
    picks what is sorted afterwards, so the result is the same.
    """
    many, n = rows.shape
    if k == 0 or 8 * k > n or rows.size < 2000:
        return np.broadcast_to(np.arange(n), rows.shape)
    least = np.partition(rows, n - k, axis=-1)[:, n - k, None]
    chosen = rows >= least
    if np.count_nonzero(chosen) > k * many:
        above = rows > least
        equal = chosen & ~above
        room = k - np.count_nonzero(above, axis=-1, keepdims=True)
        chosen = above | equal & (np.cumsum(equal, axis=-1) <= room)
    return np.nonzero(chosen)[1].reshape(many, k)


def total_order(x):
    """Integers in the order of x: of floats -NaN < -inf < -0.0 < 0.0 < inf < NaN."""
    if x.dtype.kind in "biu":
        return x
    bits = np.array(x, order="C").view(f"i{x.dtype.itemsize}")
    # The bits of negative floats count downwards: turn all of them but the sign.
    turned = bits >> 8 * x.dtype.itemsize - 1
    turned &= np.iinfo(bits.dtype).max
    turned ^= bits
    return turned


shape_rules |= {sort_p: sort_shape, top_k_p: top_k_shape}
shape_rules |= {largest_p: lambda x, *, k: x.update(shape=(*x.shape[:-1], k))}
eval_rules |= on_numpy({sort_p: sort_numpy, top_k_p: top_k_numpy})
eval_rules |= on_numpy({largest_p: largest_numpy})
# NumPy goes through the elements several times.
worth |= {top_k_p: lambda aval: 8 * size_of(aval)}


def take_along(x, positions, axis):
    """x[..., positions, ...] along one axis, the other axes walked together."""
    ndim = aval_of(x).ndim
    others = tuple(d for d in range(ndim) if d != axis)
    numbers = scatter.GatherDimensionNumbers((), (axis,), (axis,), others, others)
    indices = lax.reshape(positions, (*aval_of(positions).shape, 1))
    return scatter.gather(x, indices, numbers, (1,) * ndim)


def sort_linearize(nonzero, *args, dimension, **params):
    """Sort a row of positions along; tangents are taken in the order that comes out."""
    shape = aval_of(args[0]).shape
    places = lax.broadcasted_iota(np.dtype(np.int32), shape, dimension)
    *outs, order = sort_p.bind(*args, places, dimension=dimension, **params)

    def linear(*tangents):
        return [
            None if t is None else take_along(t, order, dimension) for t in tangents
        ]

    return outs, linear


def top_k_linearize(nonzero, x, *, k, axis):
    values, positions = top_k_p.bind(x, k=k, axis=axis)
    return [values, positions], lambda t: [take_along(t, positions, axis), None]


linearize_rules |= {sort_p: sort_linearize, top_k_p: top_k_linearize}


batch_rules |= along("dimension", sort_p) | along("axis", top_k_p)
fallbacks |= {p: "sorting is left to NumPy" for p in (sort_p, top_k_p, largest_p)}
