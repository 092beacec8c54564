"""The primitives as functions, under the names of `jax.lax`.

    lax.add(x, y)                           # equal dtypes and ranks, or a TypeError
    lax.dot_general(x, y, (((1,), (0,)), ((), ())))
    lax.reduce(x, 0.0, lax.add, (0,))

`minijit.numpy` is the comfortable layer: it promotes dtypes, broadcasts shapes and
counts axes from the end.  `lax` is the strict one below it: what is written is what is
recorded.  Signatures are JAX's, without its sharding arguments.
"""

# chapter 3
from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .trace.api import calls
from .trace.base import names as _names
from .trace import primitives, shape_checks
from .trace.array import aval_of, to_numpy
from .trace.core import Tracer
from .trace.types import Array, ArrayLike, DTypeLike
from .trace.primitives import (
    abs as abs, cos as cos, exp as exp, integer_pow as integer_pow, log as log,
    neg as neg, pow as pow, sign as sign, sin as sin, sqrt as sqrt, add as add,
    div as div, max as max, min as min, mul as mul, sub as sub, tanh as tanh,
    bitwise_and as bitwise_and, bitwise_not as bitwise_not, bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor, broadcast as broadcast,
    broadcast_in_dim as broadcast_in_dim, concatenate as concatenate,
    expand_dims as expand_dims, broadcasted_iota as broadcasted_iota, full as full,
    full_like as full_like, iota as iota, convert_element_type as convert_element_type,
    select as select, select_n as select_n, dot_general as dot_general,
    Precision as Precision, eq as eq, ge as ge, gt as gt, le as le, lt as lt, ne as ne,
    reduce_and as reduce_and, reduce_or as reduce_or, reduce_xor as reduce_xor,
    argmax as argmax, argmin as argmin, reduce_max as reduce_max,
    reduce_min as reduce_min, reduce_prod as reduce_prod, reduce_sum as reduce_sum,
    monoids, reshape as reshape, slice as slice, squeeze as squeeze,
    transpose as transpose,
)

from .trace.primitives import (
    abs_p as abs_p, cos_p as cos_p, exp_p as exp_p, log_p as log_p, neg_p as neg_p,
    sign_p as sign_p, sin_p as sin_p, sqrt_p as sqrt_p, add_p as add_p, div_p as div_p,
    max_p as max_p, min_p as min_p, mul_p as mul_p, pow_p as pow_p, sub_p as sub_p,
    tanh_p as tanh_p, and_p as and_p, not_p as not_p, or_p as or_p, xor_p as xor_p,
    copy_p as copy_p, integer_pow_p as integer_pow_p, argmax_p as argmax_p,
    argmin_p as argmin_p, convert_element_type_p as convert_element_type_p,
    select_n_p as select_n_p, broadcast_in_dim_p as broadcast_in_dim_p,
    concatenate_p as concatenate_p, dot_general_p as dot_general_p, iota_p as iota_p,
    eq_p as eq_p, ge_p as ge_p, gt_p as gt_p, le_p as le_p, lt_p as lt_p, ne_p as ne_p,
    reduce_and_p as reduce_and_p, reduce_or_p as reduce_or_p,
    reduce_xor_p as reduce_xor_p, reduce_max_p as reduce_max_p,
    reduce_min_p as reduce_min_p, reduce_prod_p as reduce_prod_p,
    reduce_sum_p as reduce_sum_p, reshape_p as reshape_p, slice_p as slice_p,
    squeeze_p as squeeze_p, transpose_p as transpose_p,
)
from .trace.primitives import (
    floor as floor, floor_p as floor_p, rem as rem, rem_p as rem_p,
)
from .trace.slicing import (
    dilated_size, dynamic_slice as dynamic_slice,
    dynamic_update_slice as dynamic_update_slice, pad as pad, rev as rev,
    dynamic_index_in_dim as dynamic_index_in_dim,
    dynamic_slice_in_dim as dynamic_slice_in_dim, index_in_dim as index_in_dim,
    dynamic_update_index_in_dim as dynamic_update_index_in_dim,
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
    slice_in_dim as slice_in_dim, dynamic_slice_p as dynamic_slice_p,
    dynamic_update_slice_p as dynamic_update_slice_p, pad_p as pad_p, rev_p as rev_p,
)

# A number of a user does not adapt to the array beside it: see `strict`.
add, sub, mul, div, rem = builtins.map(calls.strict, (add, sub, mul, div, rem))
max, min, pow = builtins.map(calls.strict, (max, min, pow))
eq, ne, lt, le, gt, ge = builtins.map(calls.strict, (eq, ne, lt, le, gt, ge))
bitwise_and, bitwise_or = calls.strict(bitwise_and), calls.strict(bitwise_or)
bitwise_xor = calls.strict(bitwise_xor)
select, select_n, pad = builtins.map(calls.strict, (select, select_n, pad))

# The axes of a product: ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)).
DotDimensionNumbers = tuple[
    tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
]


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to, by NumPy's rules.

    Raises ValueError if there is none.
    """
    shapes = builtins.map(primitives.canonicalize_shape, shapes)
    return shape_checks.broadcast_shape(tuple(shapes))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """x with new leading axes of size 1, `rank` axes in all."""
    return broadcast(x, (1,) * (rank - aval_of(x).ndim))


def reciprocal(x: ArrayLike) -> Array:
    """1 / x, elementwise."""
    return integer_pow(x, -1)


def collapse(
    operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None
) -> Array:
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


def dot(
    lhs: ArrayLike, rhs: ArrayLike, *, dimension_numbers: Any = None,
    precision: Any = None, preferred_element_type: DTypeLike | None = None,
) -> Array:
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


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
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


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """`operand` cut along one axis into parts of these sizes: a list."""
    shape = aval_of(operand).shape
    axis = primitives.canonicalize_axis(axis, len(shape))
    if sum(sizes) != shape[axis] or any(size < 0 for size in sizes):
        raise ValueError(
            f"Sum of sizes {sizes} must be equal to dimension {axis} of the operand "
            f"shape {shape}"
        )
    ends = np.cumsum([0, *sizes]).tolist()
    return [
        slice_in_dim(operand, start, end, 1, axis)
        for start, end in zip(ends, ends[1:], strict=False)
    ]


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Arrays of one shape side by side along a new axis."""
    shapes = {aval_of(x).shape for x in operands}
    if len(shapes) != 1:
        raise ValueError(f"stack requires arrays of one shape, got {sorted(shapes)}")
    axis = primitives.canonicalize_axis(axis, len(shapes.pop()) + 1)
    return concatenate([expand_dims(x, (axis,)) for x in operands], axis)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The parts of x along one axis, which goes: a tuple."""
    shape = aval_of(x).shape
    size = shape[primitives.canonicalize_axis(axis, len(shape))]
    return tuple(index_in_dim(x, i, axis, keepdims=False) for i in range(size))


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """`operand` repeated reps[i] times along each axis i."""
    shape = aval_of(operand).shape
    if len(reps) != len(shape):
        raise ValueError(
            f"tile reps must have one entry for each axis, got {reps} for an operand "
            f"of shape {shape}"
        )
    pairs = [n for pair in zip(reps, shape, strict=True) for n in pair]
    dims = tuple(range(1, 2 * len(shape), 2))
    repeated = broadcast_in_dim(operand, pairs, dims)
    return reshape(repeated, [r * n for r, n in zip(reps, shape, strict=True)])


_inner = """
    Any Array ArrayLike Callable DTypeLike Sequence TYPE_CHECKING Tracer annotations
    aval_of dilated_size fold monoids to_numpy transposed_padding
"""
_names.front(globals(), lambda: _names.public_names(globals(), besides=_inner))

# chapter 9
from .transform.batching.collectives import (
    all_gather as all_gather, all_to_all as all_to_all, axis_index as axis_index,
    axis_size as axis_size, pmax as pmax, pmean as pmean, pmin as pmin,
    ppermute as ppermute, pshuffle as pshuffle, psum as psum,
    psum_scatter as psum_scatter, pswapaxes as pswapaxes,
)

# chapter 11
from .transform.control_flow.api import (
    cond as cond, cond_p as cond_p, scan as scan, scan_p as scan_p,
    while_loop as while_loop, while_p as while_p,
)
from .transform.control_flow.more_loops import (
    associative_scan as associative_scan, fori_loop as fori_loop, map_loop as _map_loop,
    platform_dependent as platform_dependent, switch as switch,
)
from .transform.custom.implicit import (
    custom_linear_solve as custom_linear_solve, custom_root as custom_root,
)
from .transform.stop_gradient import (
    stop_gradient as stop_gradient, stop_gradient_p as stop_gradient_p,
)

map = _map_loop  # For type checkers a name that an import changes is a file's own.

calls.explain_calls("lax", globals(), besides=("aval_of", "to_numpy"))

# chapter 16
import functools

from .trace.dtypes import dtype as dtype
from .ops import linalg as linalg
from .ops.fft import FftType as FftType, fft as fft, fft_p as fft_p
from .ops.bit_generators import (
    RandomAlgorithm as RandomAlgorithm, rng_bit_generator as rng_bit_generator,
    rng_uniform as rng_uniform,
)
from .ops.bits import (
    bitcast_convert_type as bitcast_convert_type, clz as clz,
    population_count as population_count, shift_left as shift_left,
    shift_right_arithmetic as shift_right_arithmetic,
    shift_right_logical as shift_right_logical,
)
from .ops.complex_numbers import (
    complex as complex, conj as conj, imag as imag, real as real,
)
from .ops.convolution import (
    conv_dimension_numbers as conv_dimension_numbers,
    conv_general_dilated as conv_general_dilated,
    conv_general_permutations as conv_general_permutations,
    ConvDimensionNumbers as ConvDimensionNumbers,
)
from .ops.cumulative import (
    cumlogsumexp as cumlogsumexp, cummax as cummax, cummin as cummin,
    cumprod as cumprod, cumsum as cumsum,
)
from .ops.elementary import (
    acos as acos, acosh as acosh, asin as asin, asinh as asinh, atan as atan,
    atan2 as atan2, atanh as atanh, cosh as cosh, sinh as sinh, cbrt as cbrt,
    exp2 as exp2, expm1 as expm1, log1p as log1p, logistic as logistic, rsqrt as rsqrt,
    square as square, tan as tan,
)
from .ops.ragged import (
    ragged_dot as ragged_dot, ragged_dot_general as ragged_dot_general,
    RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
)
from .ops.rounding import (
    ceil as ceil, clamp as clamp, is_finite as is_finite, nextafter as nextafter,
    reduce_precision as reduce_precision, round as round,
    RoundingMethod as RoundingMethod,
)
from .ops.scatter import (
    gather as gather, GatherDimensionNumbers as GatherDimensionNumbers,
    GatherScatterMode as GatherScatterMode, scatter as scatter,
    scatter_add as scatter_add, scatter_max as scatter_max, scatter_min as scatter_min,
    scatter_mul as scatter_mul, scatter_sub as scatter_sub,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
)
from .ops.sorting import sort as sort, top_k as top_k
from .ops.special import (
    bessel_i0e as bessel_i0e, bessel_i1e as bessel_i1e, betainc as betainc,
    digamma as digamma, erf as erf, erf_inv as erf_inv, erfc as erfc, igamma as igamma,
    igamma_grad_a as igamma_grad_a, igammac as igammac, lgamma as lgamma,
    polygamma as polygamma, random_gamma_grad as random_gamma_grad, zeta as zeta,
)
from .ops.windows import (
    padtype_to_pads as padtype_to_pads, reduce_window as reduce_window,
)
from .trace.base import errors
from .trace.trees import pytree as _pytree
from .trace.jit.jit import jit as _jit

from .ops.bit_generators import rng_bit_generator_p as rng_bit_generator_p
from .ops.bits import (
    bitcast_convert_type_p as bitcast_convert_type_p, clz_p as clz_p,
    population_count_p as population_count_p, shift_left_p as shift_left_p,
    shift_right_arithmetic_p as shift_right_arithmetic_p,
    shift_right_logical_p as shift_right_logical_p,
)
from .ops.complex_numbers import (
    complex_p as complex_p, conj_p as conj_p, imag_p as imag_p, real_p as real_p,
)
from .ops.convolution import conv_general_dilated_p as conv_general_dilated_p
from .ops.cumulative import (
    cumlogsumexp_p as cumlogsumexp_p, cummax_p as cummax_p, cummin_p as cummin_p,
    cumprod_p as cumprod_p, cumsum_p as cumsum_p,
)
from .ops.elementary import (
    acos_p as acos_p, acosh_p as acosh_p, asin_p as asin_p, asinh_p as asinh_p,
    atan2_p as atan2_p, atan_p as atan_p, atanh_p as atanh_p, cbrt_p as cbrt_p,
    cosh_p as cosh_p, exp2_p as exp2_p, expm1_p as expm1_p, log1p_p as log1p_p,
    logistic_p as logistic_p, rsqrt_p as rsqrt_p, sinh_p as sinh_p,
    square_p as square_p, tan_p as tan_p,
)
from .ops.rounding import (
    ceil_p as ceil_p, clamp_p as clamp_p, is_finite_p as is_finite_p,
    nextafter_p as nextafter_p, reduce_precision_p as reduce_precision_p,
    round_p as round_p,
)
from .ops.scatter import (
    gather_p as gather_p, scatter_add_p as scatter_add_p,
    scatter_max_p as scatter_max_p, scatter_min_p as scatter_min_p,
    scatter_mul_p as scatter_mul_p, scatter_p as scatter_p,
    scatter_sub_p as scatter_sub_p,
)
from .ops.sorting import sort_p as sort_p, top_k_p as top_k_p
from .ops.special import (
    bessel_i0e_p as bessel_i0e_p, bessel_i1e_p as bessel_i1e_p, digamma_p as digamma_p,
    erf_inv_p as erf_inv_p, erf_p as erf_p, erfc_p as erfc_p, igamma_p as igamma_p,
    igammac_p as igammac_p, lgamma_p as lgamma_p, polygamma_p as polygamma_p,
    regularized_incomplete_beta_p as regularized_incomplete_beta_p, zeta_p as zeta_p,
)
from .ops.windows import (
    reduce_window_max_p as reduce_window_max_p,
    reduce_window_min_p as reduce_window_min_p,
    reduce_window_sum_p as reduce_window_sum_p,
)

atan2, nextafter = calls.strict(atan2), calls.strict(nextafter)
complex, zeta, clamp = builtins.map(calls.strict, (complex, zeta, clamp))
shift_left = calls.strict(shift_left)
shift_right_arithmetic = calls.strict(shift_right_arithmetic)
shift_right_logical = calls.strict(shift_right_logical)
igamma, igammac, betainc = builtins.map(calls.strict, (igamma, igammac, betainc))
igamma_grad_a, polygamma = calls.strict(igamma_grad_a), calls.strict(polygamma)
random_gamma_grad = calls.strict(random_gamma_grad)


_exact_product = mul


def mul(  # type: ignore[no-redef]
    x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None
) -> Array:
    """x * y, elementwise; with `out_dtype` both become of that dtype before."""
    if out_dtype is not None:
        x, y = (convert_element_type(z, out_dtype) for z in (x, y))
    return _exact_product(x, y)


def reduce(
    operands: Any, init_values: Any, computation: Callable[..., Any],
    dimensions: Sequence[int], out_sharding: Any = None,
) -> Any:
    """`computation` folded over the axes `dimensions`, in whatever order is quick.

    Args:
      operands: an array, or a tree of arrays of one shape.
      init_values: for each a scalar of its dtype, folded in as well: an identity of
        the computation.
      computation: (x, y) -> result, associative, and elementwise if given arrays; of
        a tree of operands x, y and the result are such trees.
      dimensions: the axes that go.

    Raises ValueError if the structures differ, TypeError if the dtypes do.
    """
    del out_sharding
    computation = calls.underlying(computation)
    leaves, tree = _pytree.tree_flatten(operands)
    starts, start_tree = _pytree.tree_flatten(init_values)
    if tree != start_tree:
        raise ValueError(
            "Operands must have the same tree structure as init_values: "
            f"{tree} vs. {start_tree}"
        )
    single = tree == _pytree.tree_structure(0)
    monoid = monoids.get(computation) if single else None
    if monoid and not isinstance(init_values, Tracer):
        if to_numpy(init_values) == monoid.identity(aval_of(operands).dtype):
            return monoid.reduce(operands, dimensions)
    for x, init in zip(leaves, starts, strict=True):
        dtype, init_dtype = aval_of(x).dtype, aval_of(init).dtype
        if dtype != init_dtype:
            raise TypeError(
                "reduce operand dtypes should match corresponding initial value "
                f"dtypes, got operands of {dtype} and initial values of {init_dtype}"
            )
        if np.shape(init) != ():
            raise ValueError(
                f"reduce found non-scalar initial value, of shape {np.shape(init)}"
            )
    if monoid:
        return computation(monoid.reduce(operands, dimensions), init_values)
    trees = lambda sides: builtins.map(tree.unflatten, sides)
    flat = lambda *sides: tree.flatten_up_to(computation(*trees(sides)))
    return tree.unflatten(fold(leaves, starts, flat, dimensions))


def fold(operands, init_values, computation, dimensions):
    """Any `reduce`: halves of the axis are combined until one element is left."""
    dimensions = primitives.canonicalize_shape(dimensions)
    shape = aval_of(operands[0]).shape
    kept = [i for i in range(len(shape)) if i not in dimensions]
    rest = [shape[i] for i in kept]
    size = math.prod(shape[i] for i in dimensions)
    front = [transpose(x, (*dimensions, *kept)) for x in operands]
    rows = [reshape(x, (size, *rest)) for x in front]
    while size > 1:
        half = size // 2
        left = tuple(slice_in_dim(x, 0, half) for x in rows)
        right = tuple(slice_in_dim(x, half, 2 * half) for x in rows)
        odd = [slice_in_dim(x, 2 * half, size) for x in rows]
        joint = computation(left, right)
        rows = [concatenate(pair, 0) for pair in zip(joint, odd, strict=True)]
        size -= half
    start = tuple(full(rest, init) for init in init_values)
    if size == 0:
        return start
    return tuple(computation(start, tuple(squeeze(x, (0,)) for x in rows)))


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The upper half of the digits of x * y: integers of one dtype, elementwise."""
    dtype = aval_of(x).dtype
    if dtype.kind not in "iu" or aval_of(y).dtype != dtype:
        raise TypeError(
            "mulhi takes integers of one dtype, got "
            f"{dtype.name} and {aval_of(y).dtype.name}"
        )
    half = dtype.itemsize * 4
    many = lambda n: np.array(n, dtype)
    low = lambda z: bitwise_and(z, full_like(z, many((1 << half) - 1)))
    signed = shift_right_arithmetic if dtype.kind == "i" else shift_right_logical
    high = lambda z: signed(z, full_like(z, many(half)))
    # Halves are multiplied, and what is carried over from the lower ones is added.
    first = mul(low(x), low(y))
    first = shift_right_logical(first, full_like(first, many(half)))
    second = add(mul(high(x), low(y)), first)
    third = add(mul(low(x), high(y)), low(second))
    return add(mul(high(x), high(y)), add(high(second), high(third)))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """`arr` broadcast to the shape of `like_arr`."""
    shape = aval_of(like_arr).shape
    ndim = aval_of(arr).ndim
    return broadcast_in_dim(arr, shape, range(len(shape) - ndim, len(shape)))


def empty(
    shape: int | Sequence[int], dtype: DTypeLike, *, out_sharding: Any = None
) -> Array:
    """An array for results: zeros, for there is no memory without values here."""
    return full(shape, 0, dtype)


def composite(
    decomposition: Callable[..., Any], name: str, version: int = 0
) -> Callable[..., Any]:
    """`decomposition` as one call under a name (JAX: `lax.composite`).

    Args:
      decomposition: a function of arrays; its keyword arguments are attributes of the
        composite, known while it is traced.
      name, version: what a compiler would know it by; here the call has that name.
    """

    @functools.wraps(decomposition)
    def call(*args, **attributes):
        if any(isinstance(x, Tracer) for x in attributes.values()):
            raise errors.UnexpectedTracerError(
                "Found a Tracer as an attribute in the decomposition for the composite "
                f"op {name!r}: pass it as a positional argument."
            )
        whole = lambda *args: decomposition(*args, **attributes)
        whole.__name__ = whole.__qualname__ = name
        return _jit(whole)(*args)

    return call


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """(keys sorted along an axis, values in the same order)."""
    return sort((keys, values), dimension, is_stable, num_keys=1)


def approx_max_k(
    operand: ArrayLike, k: int, reduction_dimension: int = -1,
    recall_target: float = 0.95, reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k largest along an axis and where they are: exact, as JAX's is on a CPU."""
    return list(top_k(operand, k, axis=reduction_dimension))


def approx_min_k(
    operand: ArrayLike, k: int, reduction_dimension: int = -1,
    recall_target: float = 0.95, reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k smallest along an axis and where they are: exact, as JAX's is on a CPU."""
    values, indices = top_k(neg(operand), k, axis=reduction_dimension)
    return [neg(values), indices]


def conv(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: str,
    precision: Any = None, preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolution of [n, c, *spatial] with a kernel [o, c, *spatial]."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_with_general_padding(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]], lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """`conv` with padding in pairs and dilation; see conv_general_dilated."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_local(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]], filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:  # fmt: skip
    """A convolution with a kernel of its own at each place of the result.

    Args:
      lhs: the input; see conv_general_dilated.
      rhs: as a kernel of windows of one element, with c * prod(filter_shape) features
        of the input, and with the sizes of the result for its spatial axes.
      filter_shape: the window's size along each spatial axis.
    """
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation,
        dimension_numbers, precision,
    )  # fmt: skip
    shape = (1, 1, *filter_shape)
    numbers = conv_dimension_numbers(aval_of(lhs).shape, shape, dimension_numbers)
    out, kernel = numbers.out_spec, numbers.rhs_spec
    places = sorted(zip(out[2:], kernel[2:], strict=True))
    batch = [i for i, _ in places], [i for _, i in places]
    pairs = ([out[1]], [kernel[1]]), batch
    result = dot_general(patches, rhs, pairs, precision)
    # The places come first, then the examples, then the features.
    made = [*batch[0], out[0], out[1]]
    return transpose(result, [made.index(d) for d in range(len(made))])


def conv_transpose(
    lhs: ArrayLike, rhs: ArrayLike, strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]], rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, transpose_kernel: bool = False,
    precision: Any = None, preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:  # fmt: skip
    """Convolution with a stride of 1/strides: the input is spread out by them.

    Args:
      lhs, rhs: the input [n, *spatial, c] and the kernel [*spatial, c, o], unless
        `dimension_numbers` says otherwise.
      strides: by how much the result is larger than the input.
      padding: "SAME" or "VALID", of the convolution that this turns around; pairs are
        the padding of this one, unless `use_consistent_padding`.
      rhs_dilation, precision, preferred_element_type: see conv_general_dilated.
      transpose_kernel: whether to flip the kernel and swap its features, which makes
        this the transpose of the convolution by that kernel.
    """
    shape = aval_of(rhs).shape
    spatial = "HWD"[: len(shape) - 2]
    if dimension_numbers is None:
        dimension_numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    numbers = conv_dimension_numbers(aval_of(lhs).shape, shape, dimension_numbers)
    windows = [shape[d] for d in numbers.rhs_spec[2:]]
    dilations = rhs_dilation or (1,) * len(windows)
    if use_consistent_padding or padding in ("SAME", "VALID"):
        reach = builtins.map(dilated_size, windows, dilations)
        each = [padding] * len(windows) if isinstance(padding, str) else padding
        padding = tuple(builtins.map(transposed_padding, reach, strides, each))
    if transpose_kernel:
        rhs = rev(rhs, numbers.rhs_spec[2:])
        order = list(range(len(shape)))
        out, features = numbers.rhs_spec[:2]
        order[out], order[features] = features, out
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(windows),
        padding,
        strides,
        rhs_dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def transposed_padding(window, stride, padding):
    """The padding that turns around a convolution by a window with this padding."""
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
        return low, total - low
    if padding == "VALID":
        total = window + stride - 2 + builtins.max(window - stride, 0)
        return window - 1, total - window + 1
    low, high = padding
    return window - 1 - low, window - 1 - high


def conv_general_dilated_patches(
    lhs: ArrayLike, filter_shape: Sequence[int], window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]], lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    precision: Any = None, preferred_element_type: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """What a window sees at each place, as features: those of the input times its size.

    Args:
      lhs: the input of a convolution.
      filter_shape: the window's size along each spatial axis.
      others: see conv_general_dilated.

    Returns:
      An array with c * prod(filter_shape) features: all of the window for the first
      feature of the input, then for the next.
    """
    shape, dtype = aval_of(lhs).shape, aval_of(lhs).dtype
    filter_shape = tuple(filter_shape)
    rank = len(filter_shape)
    numbers = conv_dimension_numbers(shape, (1, 1, *filter_shape), dimension_numbers)
    size, features = math.prod(filter_shape), shape[numbers.lhs_spec[1]]
    one_hot = np.eye(size, dtype=dtype).reshape(size, 1, *filter_shape)
    kernel = np.tile(one_hot, (features, 1, *[1] * rank))
    kernel = kernel.transpose([numbers.rhs_spec.index(d) for d in range(rank + 2)])
    return conv_general_dilated(
        lhs, kernel, window_strides, padding, lhs_dilation, rhs_dilation, numbers,
        feature_group_count=features, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


calls.explain_calls("lax", globals(), besides=("aval_of", "to_numpy"))

if TYPE_CHECKING:
    from .jaxcompat.placement import (
        pcast as pcast, with_sharding_constraint as with_sharding_constraint,
    )

# chapter 17
from .ops.barriers import (
    optimization_barrier as optimization_barrier,
    optimization_barrier_p as optimization_barrier_p,
)

calls.explain_calls("lax", globals(), ["optimization_barrier"])
