"""The primitives as functions, under the names of `jax.lax`.

    lax.add(x, y)                           # equal dtypes and ranks, or a TypeError
    lax.dot_general(x, y, (((1,), (0,)), ((), ())))
    lax.reduce(x, 0.0, lax.add, (0,))

`minijit.numpy` is the comfortable layer: it promotes dtypes, broadcasts shapes and
counts axes from the end.  `lax` is the strict one below it: what is written is what is
recorded.  Signatures are JAX's, without its sharding arguments.
"""

# chapter 2s
import builtins
import math
import operator

import numpy as np

from .trace import primitives
from .trace.array import aval_of, to_numpy
from .trace.core import Tracer
from .trace.primitives import abs, cos, exp, integer_pow, log, neg, pow, sign, sin, sqrt
from .trace.primitives import add, div, max, min, mul, sub, tanh
from .trace.primitives import bitwise_and, bitwise_not, bitwise_or, bitwise_xor
from .trace.primitives import broadcast, broadcast_in_dim, concatenate, expand_dims
from .trace.primitives import broadcasted_iota, full, full_like, iota
from .trace.primitives import convert_element_type, select, select_n
from .trace.primitives import dot_general, Precision
from .trace.primitives import eq, ge, gt, le, lt, ne
from .trace.primitives import reduce_and, reduce_or, reduce_xor, argmax, argmin
from .trace.primitives import reduce_max, reduce_min, reduce_prod, reduce_sum
from .trace.primitives import reshape, slice, squeeze, transpose

from .trace.primitives import abs_p, cos_p, exp_p, log_p, neg_p, sign_p, sin_p, sqrt_p
from .trace.primitives import add_p, div_p, max_p, min_p, mul_p, pow_p, sub_p, tanh_p
from .trace.primitives import and_p, not_p, or_p, xor_p, copy_p, integer_pow_p
from .trace.primitives import argmax_p, argmin_p, convert_element_type_p, select_n_p
from .trace.primitives import broadcast_in_dim_p, concatenate_p, dot_general_p, iota_p
from .trace.primitives import eq_p, ge_p, gt_p, le_p, lt_p, ne_p
from .trace.primitives import reduce_and_p, reduce_or_p, reduce_xor_p
from .trace.primitives import reduce_max_p, reduce_min_p, reduce_prod_p, reduce_sum_p
from .trace.primitives import reshape_p, slice_p, squeeze_p, transpose_p

# The axes of a product: ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)).
DotDimensionNumbers = tuple[
    tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
]


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes broadcast to, by NumPy's rules.

    Raises ValueError if there is none.
    """
    rank = builtins.max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    sizes = [set(column) - {1} for column in zip(*padded, strict=True)]
    if any(len(s) > 1 for s in sizes):
        raise ValueError(
            f"Incompatible shapes for broadcasting: shapes={list(map(tuple, shapes))}"
        )
    return tuple(s.pop() if s else 1 for s in sizes)


def broadcast_to_rank(x, rank):
    """x with new leading axes of size 1, `rank` axes in all."""
    return broadcast(x, (1,) * (rank - aval_of(x).ndim))


def reciprocal(x):
    """1 / x, elementwise."""
    return integer_pow(x, -1)


def collapse(operand, start_dimension, stop_dimension=None):
    """`operand` with the axes from start up to stop, which is left out, made one.

    Without a stop all axes from start on.  Counts from the end like a slice.
    """
    shape = aval_of(operand).shape
    named = builtins.slice(start_dimension, stop_dimension)
    low, high, _ = named.indices(len(shape))
    if high < low:
        raise ValueError(
            f"Invalid dimension range passed to collapse: {shape}"
            f"[{start_dimension}:{stop_dimension}]"
        )
    size = math.prod(shape[low:high])
    return reshape(operand, (*shape[:low], size, *shape[high:]))


def slice_in_dim(operand, start_index, limit_index, stride=1, axis=0):
    """operand[start:limit:stride] along one axis.

    An index below 0 counts from the end, None stands for the end that it is at.
    """
    shape = aval_of(operand).shape
    axis = primitives.canonicalize_axis(axis, len(shape))
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    strides[axis] = operator.index(stride)
    if start_index is not None:
        starts[axis] = from_front(start_index, shape[axis])
    if limit_index is not None:
        limits[axis] = from_front(limit_index, shape[axis])
    return slice(operand, starts, limits, strides)


def from_front(index, size):
    """An index into an axis of some size, counted from its front."""
    index = operator.index(index)
    return index + size if index < 0 else index


def index_in_dim(operand, index, axis=0, keepdims=True):
    """operand[index] along one axis, which stays with size 1 if `keepdims`."""
    shape = aval_of(operand).shape
    axis, index = primitives.canonicalize_axis(axis, len(shape)), operator.index(index)
    if not -shape[axis] <= index < shape[axis]:
        raise IndexError(
            f"index {index} is out of bounds for axis {axis} with size {shape[axis]}"
        )
    index = from_front(index, shape[axis])
    result = slice_in_dim(operand, index, index + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


def dot(
    lhs, rhs, *, dimension_numbers=None, precision=None, preferred_element_type=None
):
    """`dot_general`; of vectors and matrices the axes need not be named.

    Then the last axis of `lhs` is contracted with the first one of `rhs`.
    """
    if dimension_numbers is None:
        shapes = aval_of(lhs).shape, aval_of(rhs).shape
        plain = all(len(shape) in (1, 2) for shape in shapes)
        if not plain or shapes[0][-1] != shapes[1][0]:
            raise ValueError(
                "lax.dot: dimension_numbers must be specified when not performing "
                "simple un-batched matrix-matrix, matrix-vector, or vector-vector "
                f"products; got lhs_shape={shapes[0]} rhs_shape={shapes[1]}"
            )
        dimension_numbers = (((len(shapes[0]) - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs, rhs, precision=None):
    """Matrix products over the last two axes, one for each index of the others."""
    ranks = aval_of(lhs).ndim, aval_of(rhs).ndim
    if ranks[0] != ranks[1] or ranks[0] < 2:
        raise ValueError(
            "Arguments to batch_matmul must have the same ndim, at least 2, got "
            f"{ranks[0]}, {ranks[1]}"
        )
    batch = tuple(range(ranks[0] - 2))
    contract = (ranks[0] - 1,), (ranks[0] - 2,)
    return dot_general(lhs, rhs, (contract, (batch, batch)), precision)


# The operations that `reduce` knows, with the reduction for each and its identity.
monoids = {
    add: (reduce_sum, lambda dtype: 0),
    mul: (reduce_prod, lambda dtype: 1),
    max: (reduce_max, primitives.lowest),
    min: (reduce_min, primitives.highest),
    bitwise_and: (reduce_and, lambda dtype: np.array(-1).astype(dtype)),
    bitwise_or: (reduce_or, lambda dtype: 0),
    bitwise_xor: (reduce_xor, lambda dtype: 0),
}


def reduce(operands, init_values, computation, dimensions):
    """`computation` folded over the axes `dimensions`, in whatever order is quick.

    Args:
      operands: an array.
      init_values: a scalar of its dtype, folded in as well.
      computation: one of lax.add, mul, max, min, bitwise_and, bitwise_or, bitwise_xor.
      dimensions: the axes that go.

    Raises:
      TypeError: if the dtypes differ.
      NotImplementedError: for another computation.
    """
    if computation not in monoids:
        name = getattr(computation, "__name__", computation)
        raise NotImplementedError(
            f"lax.reduce knows lax.add, mul, max, min, bitwise_and, bitwise_or and "
            f"bitwise_xor as computations, got {name}: compose what it does of their "
            "reductions (lax.reduce_sum, ...)"
        )
    dtype, init_dtype = aval_of(operands).dtype, aval_of(init_values).dtype
    if dtype != init_dtype:
        raise TypeError(
            "reduce operand dtypes should match corresponding initial value dtypes, "
            f"got operands of {dtype} and initial values of {init_dtype}"
        )
    reduction, identity = monoids[computation]
    result = reduction(operands, dimensions)
    known = not isinstance(init_values, Tracer)
    if known and to_numpy(init_values) == identity(dtype):
        return result
    return computation(result, init_values)
