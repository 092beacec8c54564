"""The primitives of an array language, and the functions that apply them.

    add(array(1.0), array(2.0))             # Array(3., dtype=float32)
    reduce_sum(iota, axes=(0,))             # one primitive, one row in each table

For each primitive `shape_rules` has the types of its results and the complaints about
its arguments, and `eval_rules` its meaning in NumPy.  The functions are strict, as in
`jax.lax`: equal dtypes, equal ranks; only Python's numbers adapt.  `minijit.numpy`
promotes and broadcasts on top of them.

Names, params, dtypes and values are JAX's on a CPU.  Where NumPy differs:
integers wrap and never widen; `div` of integers truncates, and x/0 is -1; a float
converts to an integer by saturating, NaN to 0; 16-bit floats compute in 32 bits.
"""

from __future__ import annotations

# chapter 3
import numpy as np

from . import numpy_values as values, shape_checks as checks
from .array import ShapedArray, on_numpy, shape_rules
from .core import Primitive, eval_rules

add_p, sub_p, mul_p, div_p = map(Primitive, ["add", "sub", "mul", "div"])
max_p, min_p = map(Primitive, ["max", "min"])
neg_p = Primitive("neg")
exp_p, log_p, sqrt_p = map(Primitive, ["exp", "log", "sqrt"])
sin_p, cos_p, tanh_p = map(Primitive, ["sin", "cos", "tanh"])


def joint_shape(name, avals):
    """The shape of an elementwise result: equal ranks, or scalars; sizes equal or 1."""
    shapes = [aval.shape for aval in avals if aval.shape]
    if len(set(shapes)) <= 1:
        return shapes[0] if shapes else ()
    checks.check_shapes_fit(name, shapes)
    # Along an axis all sizes are equal, but for some that are 1.
    return tuple(next((n for n in ns if n != 1), 1) for ns in zip(*shapes, strict=True))


def all_weak(avals):
    """Whether the result's type may give way: only if that of all arguments may."""
    return all(aval.weak_type for aval in avals)


def elementwise(name, *kinds, result=lambda dtype: dtype):
    """A shape rule for an elementwise primitive.

    Args:
      name: the primitive's, for complaints.
      kinds: for each argument the kind of dtypes it may have.
      result: the dtype of the result from that of the arguments.
    """

    def rule(*avals):
        checks.check_kinds(name, avals, kinds)
        checks.check_same_dtypes(name, avals)
        dtype = result(avals[0].dtype)
        return ShapedArray(joint_shape(name, avals), dtype, all_weak(avals))

    return rule


def unary(kind, *primitives, result=lambda dtype: dtype):
    """Shape rules for elementwise primitives of one argument."""
    return {p: elementwise(p.name, kind, result=result) for p in primitives}


def binary(kind, *primitives, result=lambda dtype: dtype):
    """Shape rules for elementwise primitives of two arguments of one dtype."""
    return {p: elementwise(p.name, kind, kind, result=result) for p in primitives}


shape_rules |= unary(checks.number, neg_p)
shape_rules |= unary(checks.inexact, exp_p, log_p, sin_p, cos_p, tanh_p, sqrt_p)
shape_rules |= binary(checks.number, add_p, sub_p, mul_p, div_p)
shape_rules |= binary(checks.anything, max_p, min_p)


def on_wide(rows):
    """Eval rules out of NumPy functions that compute 16-bit floats in 32 bits."""
    return on_numpy({p: values.widened(f) for p, f in rows.items()})


eval_rules |= on_wide({add_p: np.add, sub_p: np.subtract, mul_p: np.multiply})
eval_rules |= on_wide({div_p: values.divide})
eval_rules |= on_wide({max_p: values.maximum, min_p: values.minimum})
eval_rules |= on_wide({neg_p: np.negative})
eval_rules |= on_wide({exp_p: np.exp, log_p: np.log, sqrt_p: np.sqrt})
eval_rules |= on_wide({sin_p: np.sin, cos_p: np.cos, tanh_p: np.tanh})


def broadcast_in_dim_shape(x, *, shape, broadcast_dimensions):
    checks.check_broadcast(x, shape, broadcast_dimensions)
    return x.update(shape=shape)


broadcast_in_dim_p = Primitive("broadcast_in_dim")
shape_rules |= {broadcast_in_dim_p: broadcast_in_dim_shape}
eval_rules |= on_numpy({broadcast_in_dim_p: values.broadcast_in_dim_values})


def without(shape, axes):
    """The shape without the axes in `axes`."""
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def reduction(name, kind, keep_weak=True):
    """A shape rule for a reduction over `axes` of arrays of a kind of dtype."""

    def rule(x, *, axes):
        checks.check_kind(name, x.dtype, kind)
        checks.check_axes(name, x, axes)
        return ShapedArray(without(x.shape, axes), x.dtype, keep_weak and x.weak_type)

    return rule


reduce_sum_p, reduce_prod_p = map(Primitive, ["reduce_sum", "reduce_prod"])
reduce_max_p, reduce_min_p = map(Primitive, ["reduce_max", "reduce_min"])
sums, choices = (reduce_sum_p, reduce_prod_p), (reduce_max_p, reduce_min_p)
shape_rules |= {p: reduction(p.name, checks.number) for p in sums}
shape_rules |= {p: reduction(p.name, checks.anything) for p in choices}
eval_rules |= on_wide({
    reduce_sum_p: values.summed(np.add),
    reduce_prod_p: values.summed(np.multiply),
    reduce_max_p: values.chosen(np.maximum, values.lowest),
    reduce_min_p: values.chosen(np.minimum, values.highest),
})


def dot_general_shape(
    lhs, rhs, *, dimension_numbers, precision, preferred_element_type
):
    checks.check_dot(lhs, rhs, dimension_numbers)
    contract, batch = dimension_numbers
    shape = tuple(lhs.shape[d] for d in batch[0])
    shape += without(lhs.shape, contract[0] + batch[0])
    shape += without(rhs.shape, contract[1] + batch[1])
    dtype = values.dot_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
    return ShapedArray(shape, dtype, all_weak((lhs, rhs)))


dot_general_p = Primitive("dot_general")
shape_rules |= {dot_general_p: dot_general_shape}
eval_rules |= on_numpy({dot_general_p: values.dot_general_values})


# chapter 3, brought along

def convert_shape(x, *, new_dtype, weak_type):
    checks.check_conversion(x.dtype, new_dtype)
    return ShapedArray(x.shape, new_dtype, weak_type)


convert_element_type_p = Primitive("convert_element_type")
shape_rules |= {convert_element_type_p: convert_shape}
eval_rules |= on_numpy({convert_element_type_p: values.convert_values})


def transpose_shape(x, *, permutation):
    checks.check_permutation(x, permutation)
    return x.update(shape=tuple(x.shape[i] for i in permutation))


transpose_p = Primitive("transpose")
shape_rules |= {transpose_p: transpose_shape}
eval_rules |= on_numpy({
    transpose_p: lambda x, *, permutation: x.transpose(permutation),
})


# The other elementwise primitives: signs, comparisons, bits.
sign_p, abs_p, copy_p = map(Primitive, ["sign", "abs", "copy"])
eq_p, ne_p = map(Primitive, ["eq", "ne"])
lt_p, le_p, gt_p, ge_p = map(Primitive, ["lt", "le", "gt", "ge"])
and_p, or_p, xor_p, not_p = map(Primitive, ["and", "or", "xor", "not"])


def to_bool(dtype):
    """The result's dtype of a comparison."""
    return np.dtype("bool")


shape_rules |= unary(checks.number, sign_p) | {copy_p: lambda x: x}
shape_rules |= unary(checks.signed, abs_p, result=values.real_part)
shape_rules |= binary(checks.bits, and_p, or_p, xor_p) | unary(checks.bits, not_p)
shape_rules |= binary(checks.extended, eq_p, ne_p, result=to_bool)
shape_rules |= binary(checks.ordered, lt_p, le_p, gt_p, ge_p, result=to_bool)
eval_rules |= on_wide({sign_p: values.sign_value, abs_p: np.abs})
eval_rules |= on_wide({eq_p: np.equal, ne_p: np.not_equal})
eval_rules |= on_wide({lt_p: np.less, le_p: np.less_equal})
eval_rules |= on_wide({gt_p: np.greater, ge_p: np.greater_equal})
eval_rules |= on_numpy({and_p: np.bitwise_and, or_p: np.bitwise_or})
eval_rules |= on_numpy({xor_p: np.bitwise_xor, not_p: np.invert, copy_p: np.copy})


def reshape_shape(x, *, new_sizes, dimensions):
    checks.check_reshape(x, new_sizes, dimensions)
    return x.update(shape=new_sizes)


def squeeze_shape(x, *, dimensions):
    checks.check_squeeze(x, dimensions)
    return x.update(shape=without(x.shape, dimensions))


def slice_shape(x, *, start_indices, limit_indices, strides):
    strides = strides or (1,) * x.ndim
    checks.check_slice(x, start_indices, limit_indices, strides)
    ranges = map(range, start_indices, limit_indices, strides)
    return x.update(shape=tuple(map(len, ranges)))


def concatenate_shape(*xs, dimension):
    checks.check_concatenate(xs, dimension)
    shape = list(xs[0].shape)
    shape[dimension] = sum(x.shape[dimension] for x in xs)
    return ShapedArray(tuple(shape), xs[0].dtype, all_weak(xs))


def iota_shape(*, dtype, shape, dimension):
    checks.check_iota(dtype, shape, dimension)
    return ShapedArray(shape, dtype)


def select_shape(which, *cases):
    checks.check_select(which, cases)
    return cases[0].update(weak_type=all_weak(cases))


reshape_p, squeeze_p = map(Primitive, ["reshape", "squeeze"])
slice_p, concatenate_p = map(Primitive, ["slice", "concatenate"])
iota_p, select_n_p = map(Primitive, ["iota", "select_n"])
shape_rules |= {reshape_p: reshape_shape, squeeze_p: squeeze_shape}
shape_rules |= {slice_p: slice_shape, concatenate_p: concatenate_shape}
shape_rules |= {iota_p: iota_shape, select_n_p: select_shape}
eval_rules |= on_numpy({
    reshape_p: values.reshape_values,
    squeeze_p: lambda x, *, dimensions: x.squeeze(dimensions),
    slice_p: values.slice_values,
    concatenate_p: lambda *xs, dimension: np.concatenate(xs, dimension),
    iota_p: values.iota_values,
    select_n_p: values.select_values,
})


import enum
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import dtypes
from .array import ArrayImpl, aval_of, to_numpy
from .base.config import config
from .base.errors import user_level
from .shape_checks import canonicalize_axis, canonicalize_shape
from .types import Array, ArrayLike, Binary, DTypeLike, Shape, Unary


def pow_shape(x, y):
    checks.check_kind("pow", x.dtype, checks.inexact, " at position 0")
    checks.check_kind("pow", y.dtype, checks.number, " at position 1")
    if x.dtype != y.dtype and not checks.is_kind(y.dtype, checks.integer):
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), "
            "and the second argument must have an inexact or integer dtype, and two "
            f"inexact dtypes must match, but got {x.dtype} and {y.dtype} respectively."
        )
    return ShapedArray(joint_shape("pow", (x, y)), x.dtype, all_weak((x, y)))


def integer_pow_shape(x, *, y):
    checks.check_integer_pow(x, y)
    return x


pow_p, integer_pow_p = map(Primitive, ["pow", "integer_pow"])
shape_rules |= {pow_p: pow_shape, integer_pow_p: integer_pow_shape}
eval_rules |= on_wide({pow_p: values.power})
# Each of its products is rounded, also in 16 bits.
eval_rules |= on_numpy({integer_pow_p: values.power_by_squaring})

reduce_and_p, reduce_or_p = map(Primitive, ["reduce_and", "reduce_or"])
reduce_xor_p = Primitive("reduce_xor")
shape_rules |= {
    p: reduction(p.name, checks.bits, keep_weak=False)
    for p in (reduce_and_p, reduce_or_p, reduce_xor_p)
}
eval_rules |= on_numpy({
    reduce_and_p: values.summed(np.bitwise_and),
    reduce_or_p: values.summed(np.bitwise_or),
    reduce_xor_p: values.summed(np.bitwise_xor),
})


def arg_reduction(name):
    """A shape rule for argmax or argmin."""

    def rule(x, *, axes, index_dtype):
        axis, = axes
        checks.check_kind(name, x.dtype, checks.ordered)
        if not 0 <= axis < x.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {x.shape}")
        if x.shape[axis] < 1:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension. "
                f"operand.shape={x.shape} axis={axis}"
            )
        if not checks.is_kind(index_dtype, checks.integer):
            raise TypeError(
                f"index_dtype must be an integer type, but got {index_dtype.name}"
            )
        return ShapedArray(without(x.shape, axes), index_dtype)

    return rule


argmax_p, argmin_p = map(Primitive, ["argmax", "argmin"])
shape_rules |= {p: arg_reduction(p.name) for p in (argmax_p, argmin_p)}
eval_rules |= on_wide(
    {argmax_p: values.index_of(np.argmax), argmin_p: values.index_of(np.argmin)}
)


# -- functions that apply them: those of `jax.lax`


def adapt(*args):
    """Python numbers among `args` take the dtype of the arrays beside them.

    Only if they fit without changing it: 2 adapts to float32, 2.5 not to int32.
    """
    for x in args:
        if type(x) in dtypes.weak_types:
            break
    else:
        return args
    given = {aval_of(x).dtype for x in args if type(x) not in dtypes.weak_types}
    if len(given) != 1:
        return args
    dtype, = given
    return [as_dtype(x, dtype) if type(x) in dtypes.weak_types else x for x in args]


def as_dtype(x, dtype):
    """A Python number as a weak array of `dtype`, unless that would change its kind."""
    if dtypes.promote_types(dtype, type(x)) != dtype or aval_of(x).dtype == dtype:
        return x
    # NumPy complains of an int that does not fit.
    return convert(np.asarray(x, dtype), dtype, weak_type=True)


def of_one(primitive, text) -> Unary:
    """The function of one argument that applies a primitive; `text` documents it."""

    def function(x):
        return primitive.bind(x)

    return documented(function, primitive, text)


def of_two(primitive, text) -> Binary:
    """The function of two arguments that applies a primitive; numbers adapt."""

    def function(x, y):
        return primitive.bind(*adapt(x, y))

    return documented(function, primitive, text)


def documented(function, primitive, text):
    """`function` with the name and the docstring of a function of `jax.lax`."""
    bitwise = primitive in (and_p, or_p, xor_p, not_p)
    function.__name__ = "bitwise_" * bitwise + primitive.name
    function.__qualname__ = function.__name__
    function.__doc__ = text
    return function


neg = of_one(neg_p, "-x, elementwise; unsigned integers wrap.")
sign = of_one(sign_p, "-1, 0 or 1, elementwise; NaN and -0.0 stay; x/|x| if complex.")
abs = of_one(abs_p, "|x|, elementwise; real for complex numbers.")
exp = of_one(exp_p, "e**x, elementwise, of floats or complex numbers.")
log = of_one(log_p, "The natural logarithm, elementwise; NaN below zero.")
sqrt = of_one(sqrt_p, "The square root, elementwise; NaN below zero.")
sin = of_one(sin_p, "The sine, elementwise, of floats or complex numbers.")
cos = of_one(cos_p, "The cosine, elementwise, of floats or complex numbers.")
tanh = of_one(tanh_p, "The hyperbolic tangent, elementwise.")
bitwise_not = of_one(not_p, "~x, elementwise: all bits of integers, `not` of bools.")
copy = of_one(copy_p, "The same values in memory of their own.")

add = of_two(add_p, "x + y, elementwise, of equal dtypes.")
sub = of_two(sub_p, "x - y, elementwise, of equal dtypes.")
mul = of_two(mul_p, "x * y, elementwise, of equal dtypes.")
div = of_two(div_p, "x / y, elementwise; integers truncate, and x/0 is -1.")
max = of_two(max_p, "The larger of x and y, elementwise; NaN if either is NaN.")
min = of_two(min_p, "The smaller of x and y, elementwise; NaN if either is NaN.")
bitwise_and = of_two(and_p, "x & y, elementwise, of integers or bools.")
bitwise_or = of_two(or_p, "x | y, elementwise, of integers or bools.")
bitwise_xor = of_two(xor_p, "x ^ y, elementwise, of integers or bools.")

eq = of_two(eq_p, "x == y, elementwise: bools.")
ne = of_two(ne_p, "x != y, elementwise: bools; true of NaN and anything.")
lt = of_two(lt_p, "x < y, elementwise: bools; complex numbers have no order.")
le = of_two(le_p, "x <= y, elementwise: bools; complex numbers have no order.")
gt = of_two(gt_p, "x > y, elementwise: bools; complex numbers have no order.")
ge = of_two(ge_p, "x >= y, elementwise: bools; complex numbers have no order.")


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """`operand` with elements of another dtype.

    Integers wrap; floats converted to integers are cut towards zero, saturate, and NaN
    gives 0; only zero gives False.  Complex to real drops the imaginary part, with
    NumPy's `ComplexWarning`.
    """
    new_dtype = dtypes.user_dtype(new_dtype, "convert_element_type", operand)
    return convert(operand, new_dtype)


def convert(x, new_dtype, weak_type=False):
    """`convert_element_type` for library code: an exact dtype, and a weak type.

    Constants (anything but an Array) are converted at once, whatever the trace.
    """
    if aval_dtype(x).kind == "c" and new_dtype.kind != "c":
        message = "Casting complex values to real discards the imaginary part"
        warnings.warn(message, np.exceptions.ComplexWarning, stacklevel=user_level())
    if not isinstance(x, Array):
        storage = dtypes.storage_of(new_dtype)
        value = values.quietly(values.convert_values, np.asarray(x), storage)
        value = np.asarray(value)
        return ArrayImpl(value, ShapedArray(value.shape, new_dtype, weak_type))
    if (x.dtype, x.weak_type) == (new_dtype, weak_type):
        return x
    return convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)


def aval_dtype(x):
    """The dtype of a value, also of a Python int too large for any array."""
    return np.dtype("int64") if type(x) is int else aval_of(x).dtype


def broadcast_in_dim(
    operand: ArrayLike, shape: Shape, broadcast_dimensions: Sequence[int]
) -> Array:
    """`operand` repeated to `shape`; its axis i becomes axis broadcast_dimensions[i].

    Axes of size 1 are stretched, and the axes that are not named are new.
    """
    shape = canonicalize_shape(shape)
    dims = canonicalize_shape(broadcast_dimensions)
    aval = aval_of(operand)
    if isinstance(operand, Array) and aval.ndim == len(shape) and not dims:
        return operand
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`array` with new axes of size 1 at `dimensions` of the result."""
    shape = aval_of(array).shape
    ndim = len(shape) + len(dimensions)
    new = {canonicalize_axis(d, ndim) for d in dimensions}
    if len(new) < len(dimensions):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    kept = tuple(i for i in range(ndim) if i not in new)
    sizes = dict(zip(kept, shape, strict=True))
    return broadcast_in_dim(array, [sizes.get(i, 1) for i in range(ndim)], kept)


def over_axes(primitive, text) -> Callable[[ArrayLike, Sequence[int]], Array]:
    """The function that applies a reduction; `axes` are counted from the front."""

    def function(operand, axes):
        return primitive.bind(operand, axes=canonicalize_shape(axes))

    function.primitive = primitive  # type: ignore[attr-defined]
    return documented(function, primitive, text)


reduce_sum = over_axes(reduce_sum_p, "The sum over `axes`, in the operand's dtype.")
reduce_prod = over_axes(reduce_prod_p, "The product over `axes`, in its own dtype.")
reduce_max = over_axes(reduce_max_p, "The maximum over `axes`; NaN if one is there.")
reduce_min = over_axes(reduce_min_p, "The minimum over `axes`; NaN if one is there.")


reduce_and = over_axes(reduce_and_p, "The bits set in all elements along `axes`.")
reduce_or = over_axes(reduce_or_p, "The bits set in any element along `axes`.")
reduce_xor = over_axes(reduce_xor_p, "The bits set an odd number of times on `axes`.")


@dataclass(frozen=True)
class Monoid:
    """An associative function of two, and all that reduces by it.

    Attributes:
      combine: the function of two arrays of one dtype.
      ufunc: what it is in NumPy.
      loop: what it is called in loops.
      identity: dtype -> the number that it does not notice.
      reduce: the function (operand, axes) that reduces by it, if there is one.
    """

    combine: Callable
    ufunc: Callable
    loop: str
    identity: Callable
    reduce: Callable | None = None


def known(value):
    """The identity that is the same number in each dtype."""
    return lambda dtype: np.array(value).astype(dtype)


# {a function of two: the `Monoid` of it}, for reductions, windows and running totals.
monoids = {
    m.combine: m
    for m in (
        Monoid(add, np.add, "add", known(0), reduce_sum),
        Monoid(mul, np.multiply, "mul", known(1), reduce_prod),
        Monoid(max, np.maximum, "max", values.lowest, reduce_max),
        Monoid(min, np.minimum, "min", values.highest, reduce_min),
        Monoid(bitwise_and, np.bitwise_and, "and", known(-1), reduce_and),
        Monoid(bitwise_or, np.bitwise_or, "or", known(0), reduce_or),
        Monoid(bitwise_xor, np.bitwise_xor, "xor", known(0), reduce_xor),
    )
}


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x**y, elementwise: x float or complex, y of the same dtype or an integer."""
    return pow_p.bind(*((x, y) if type(y) is int else adapt(x, y)))


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x**y, elementwise, for a Python int y; not below 0 if x is integer."""
    return integer_pow_p.bind(x, y=operator.index(y))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """cases[which], elementwise: `which` bool (two cases) or integer, or one scalar.

    The cases have one shape and dtype.
    """
    return select_n_p.bind(which, *adapt(*cases))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """`on_true` where `pred` holds, else `on_false`: of one shape and dtype."""
    # select_n counts its cases from False up.
    return select_n_p.bind(pred, *adapt(on_false, on_true))


def iota(dtype: DTypeLike, size: int) -> Array:
    """0, 1, 2, ... up to `size`, which is not included."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: DTypeLike, shape: Shape, dimension: int) -> Array:
    """An array of `shape` that counts 0, 1, 2, ... along `dimension`."""
    dtype = dtypes.user_dtype(dtype, "broadcasted_iota")
    shape, dimension = canonicalize_shape(shape), operator.index(dimension)
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension)


def broadcast(operand: ArrayLike, sizes: Sequence[int]) -> Array:
    """`operand` repeated along new leading axes of the given sizes."""
    shape = aval_of(operand).shape
    sizes = canonicalize_shape(sizes)
    if not sizes:
        return as_array(operand)
    dims = tuple(range(len(sizes), len(sizes) + len(shape)))
    return broadcast_in_dim(operand, sizes + shape, dims)


def as_array(x, aval=None):
    """An array or tracer as it is; a number or a NumPy array as an array, of `aval`."""
    if isinstance(x, Array):
        return x
    aval = aval or aval_of(x)
    return ArrayImpl(to_numpy(x, aval), aval)


def full(shape: Shape, fill_value: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """An array of `shape` filled with a scalar, converted to `dtype` if that is given.

    Without a dtype, a Python number gives an array with a weak type.
    """
    shape = canonicalize_shape(shape)
    if dtype is not None:
        dtype = dtypes.user_dtype(dtype, "full")
        if type(fill_value) is int and dtypes.holds_int(dtype, fill_value):
            return broadcast(convert(fill_value, dtype), shape)
    aval = aval_of(fill_value)
    if aval.shape:
        raise TypeError(
            f"full must be called with scalar fill_value, got shape {aval.shape}."
        )
    kind = (aval.dtype, aval.weak_type) if dtype is None else (dtype,)
    return broadcast(convert(fill_value, *kind), shape)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None,
    shape: Shape | None = None,
) -> Array:
    """An array like x (its shape, dtype and weak type unless given) of one value."""
    aval = aval_of(x)
    shape = aval.shape if shape is None else canonicalize_shape(shape)
    weak_type = dtype is None and aval.weak_type
    dtype = aval.dtype if dtype is None else dtypes.user_dtype(dtype, "full_like")
    return full(shape, convert(fill_value, dtype, weak_type))


def reshape(
    operand: ArrayLike, new_sizes: Shape, dimensions: Sequence[int] | None = None
) -> Array:
    """The elements of `operand`, row by row, in another shape.

    With `dimensions`, a permutation, the axes are transposed first.
    """
    aval, new_sizes = aval_of(operand), canonicalize_shape(new_sizes)
    if dimensions is not None:
        dimensions = canonicalize_shape(dimensions)
        dimensions = None if dimensions == tuple(range(aval.ndim)) else dimensions
    unchanged = aval.shape == new_sizes and dimensions is None
    if unchanged and isinstance(operand, Array) and new_sizes:
        return operand
    return reshape_p.bind(operand, new_sizes=new_sizes, dimensions=dimensions)


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """`operand` with axis permutation[i] as its axis i."""
    permutation = canonicalize_shape(permutation)
    unchanged = permutation == tuple(range(aval_of(operand).ndim))
    if unchanged and isinstance(operand, Array):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`array` without the axes `dimensions`, each of size 1."""
    ndim = aval_of(array).ndim
    dimensions = tuple(sorted(canonicalize_axis(d, ndim) for d in dimensions))
    if not dimensions and isinstance(array, Array):
        return array
    return squeeze_p.bind(array, dimensions=dimensions)


def slice(
    operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """operand[start:limit:stride] along every axis; nothing is negative or clipped."""
    return slice_p.bind(
        operand,
        start_indices=canonicalize_shape(start_indices),
        limit_indices=canonicalize_shape(limit_indices),
        strides=None if strides is None else canonicalize_shape(strides),
    )


def concatenate(operands: Array | Sequence[ArrayLike], dimension: int) -> Array:
    """The arrays `operands` one after another along `dimension`."""
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if len(operands) == 1 and isinstance(operands[0], Array):
        return operands[0]
    return concatenate_p.bind(*operands, dimension=operator.index(dimension))


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index of the first maximum, or of the first NaN, along `axis`."""
    index_dtype = dtypes.user_dtype(index_dtype, "argmax")
    axes = (operator.index(axis),)
    return argmax_p.bind(operand, axes=axes, index_dtype=index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index of the first minimum, or of the first NaN, along `axis`."""
    index_dtype = dtypes.user_dtype(index_dtype, "argmin")
    axes = (operator.index(axis),)
    return argmin_p.bind(operand, axes=axes, index_dtype=index_dtype)


class Precision(enum.Enum):
    """How exactly a matrix product is computed; on a CPU always exactly."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"

    def __repr__(self):
        return f"Precision.{self.name}"

    def __str__(self):
        return self.name


precision_names = {
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}


def canonicalize_precision(precision):
    """None, or a pair of `Precision`s for the two operands of a product."""
    if precision is None:
        # JAX's flag, which a later module defines; a CPU computes exactly in any case.
        flag = "default_matmul_precision"
        precision = config.overrides.values.get(flag, config.values.get(flag))
        if precision not in precision_names:
            return None
    pair = precision if isinstance(precision, (tuple, list)) else (precision,) * 2
    pair = tuple(
        p if isinstance(p, Precision) else precision_names.get(p) for p in pair
    )
    if len(pair) != 2 or None in pair:
        raise ValueError(
            f"precision must be None, a lax.Precision, one of {list(precision_names)}, "
            f"or a pair of those, got {precision!r}"
        )
    return pair


def dot_general(
    lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of products over the contracted axes, for each index of the batch axes.

    Args:
      lhs, rhs: arrays; their dtypes may differ, and the larger one is the result's.
      dimension_numbers: ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)),
        each a sequence of axes.
      precision: None, or a pair of `Precision`s; a CPU computes exactly in any case.
      preferred_element_type: the result's dtype, in which the sum is computed too.

    Returns:
      An array with the batch axes, then lhs's other axes, then rhs's.
    """
    contract, batch = dimension_numbers
    if preferred_element_type is not None:
        preferred_element_type = dtypes.user_dtype(preferred_element_type, "dot")
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=(
            tuple(map(canonicalize_shape, contract)),
            tuple(map(canonicalize_shape, batch)),
        ),
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
    )


# ---- floor, and what a division leaves over: `%` and `//` are made of them


floor_p, rem_p = Primitive("floor"), Primitive("rem")
shape_rules |= unary((np.floating,), floor_p)
shape_rules |= binary((np.integer, np.floating), rem_p)


def remainder(x, y):
    """What is left of x after division by y cut towards zero; x where y is 0."""
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    # By -1 nothing is left; NumPy may trap on the least integer.
    safe = (y != 0) & (y != y.dtype.type(-1) if y.dtype.kind == "i" else True)
    left = np.fmod(x, np.where(safe, y, y.dtype.type(1)))
    return np.where(y == 0, x, left)


eval_rules |= on_wide({floor_p: np.floor, rem_p: remainder})

floor = of_one(floor_p, "The largest whole number not above x, elementwise.")
rem = of_two(rem_p, "x - y * trunc(x / y), elementwise: the sign is x's; x for y = 0.")
