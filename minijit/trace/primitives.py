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

# chapter 2
import builtins
import functools
import operator
import warnings

import numpy as np

from . import dtypes
from .array import (
    Array,
    ArrayImpl,
    ShapedArray,
    aval_of,
    eval_rules,
    on_numpy,
    quietly,
    shape_rules,
)
from .core import Primitive
from .errors import TracerIntegerConversionError, at_line, user_level, user_source

neg_p, sign_p, abs_p, copy_p = map(Primitive, ["neg", "sign", "abs", "copy"])
exp_p, log_p, sqrt_p = map(Primitive, ["exp", "log", "sqrt"])
sin_p, cos_p, tanh_p = map(Primitive, ["sin", "cos", "tanh"])
add_p, sub_p, mul_p, div_p = map(Primitive, ["add", "sub", "mul", "div"])
max_p, min_p = map(Primitive, ["max", "min"])
eq_p, ne_p = map(Primitive, ["eq", "ne"])
lt_p, le_p, gt_p, ge_p = map(Primitive, ["lt", "le", "gt", "ge"])
and_p, or_p, xor_p, not_p = map(Primitive, ["and", "or", "xor", "not"])

# The kinds of dtypes that a primitive may accept.
integer = (np.integer,)
real = (np.floating,)
inexact = (np.floating, np.complexfloating)
number = (np.integer, np.floating, np.complexfloating)
bits = (np.integer, np.bool_)
ordered = (np.integer, np.floating, np.bool_)
anything = (np.number, np.bool_)


@functools.cache
def is_kind(dtype, kind):
    """Whether a dtype belongs to a kind: a tuple of NumPy's abstract types."""
    return any(dtypes.issubdtype(dtype, k) for k in kind)


def check_kind(name, dtype, kind, where=""):
    """Raise unless primitive `name` accepts `dtype`; `where` says in which argument."""
    if not is_kind(dtype, kind):
        names = ", ".join(k.__name__ for k in kind)
        raise TypeError(
            f"{name} does not accept dtype {dtype.name}{where}. "
            f"Accepted dtypes{where} are subtypes of {names}."
        )


def check_same_dtypes(name, avals):
    """Raise unless the arguments of `name` have one dtype."""
    if len({aval.dtype for aval in avals}) > 1:
        names = ", ".join(aval.dtype.name for aval in avals)
        raise TypeError(
            f"lax.{name} requires arguments to have the same dtypes, got {names}. "
            "(Tip: the function in minijit.numpy promotes its arguments; or convert "
            "one with lax.convert_element_type.)"
        )


def joint_shape(name, avals):
    """The shape of an elementwise result: equal ranks, or scalars; sizes equal or 1."""
    shapes = [aval.shape for aval in avals if aval.shape]
    if len(set(shapes)) <= 1:
        return shapes[0] if shapes else ()
    ranks = {len(shape) for shape in shapes}
    if len(ranks) > 1:
        raise TypeError(
            f"{name}: arrays must have the same number of dimensions, got shapes "
            f"{', '.join(map(str, shapes))}. (Tip: the function in minijit.numpy "
            "broadcasts; or use lax.broadcast_in_dim.)"
        )
    sizes = [set(column) - {1} for column in zip(*shapes, strict=True)]
    if any(len(s) > 1 for s in sizes):
        raise TypeError(
            f"{name} got incompatible shapes for broadcasting: "
            f"{', '.join(map(str, shapes))}."
        )
    return tuple(s.pop() if s else 1 for s in sizes)


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
        for i, (aval, kind) in enumerate(zip(avals, kinds, strict=True)):
            where = f" at position {i}" if len(kinds) > 1 else ""
            check_kind(name, aval.dtype, kind, where)
        check_same_dtypes(name, avals)
        dtype = result(avals[0].dtype)
        return ShapedArray(joint_shape(name, avals), dtype, all_weak(avals))

    return rule


def unary(kind, *primitives, result=lambda dtype: dtype):
    """Shape rules for elementwise primitives of one argument."""
    return {p: elementwise(p.name, kind, result=result) for p in primitives}


def binary(kind, *primitives, result=lambda dtype: dtype):
    """Shape rules for elementwise primitives of two arguments of one dtype."""
    return {p: elementwise(p.name, kind, kind, result=result) for p in primitives}


def to_bool(dtype):
    """The result's dtype of a comparison."""
    return np.dtype("bool")


def real_part(dtype):
    """The dtype of the parts of a complex number; other dtypes are their own."""
    return np.dtype(f"float{4 * dtype.itemsize}") if dtype.kind == "c" else dtype


shape_rules |= unary(number, neg_p, sign_p)
shape_rules |= unary((np.floating, np.complexfloating, np.signedinteger), abs_p,
                     result=real_part)
shape_rules |= unary(inexact, exp_p, log_p, sin_p, cos_p, tanh_p, sqrt_p)
shape_rules |= unary(bits, not_p)
shape_rules |= binary(number, add_p, sub_p, mul_p, div_p)
shape_rules |= binary(anything, max_p, min_p)
shape_rules |= binary(bits, and_p, or_p, xor_p)
shape_rules |= binary((*anything, dtypes.extended), eq_p, ne_p, result=to_bool)
shape_rules |= binary(ordered, lt_p, le_p, gt_p, ge_p, result=to_bool)
shape_rules |= {copy_p: lambda x: x}


def widen(x):
    """A 16-bit float in 32 bits, where both computing and summing are safe."""
    if x.dtype.itemsize != 2 or not is_kind(x.dtype, real):
        return x
    return x.astype(np.float32)


def widened(function):
    """`function` on 32-bit versions of 16-bit floats; `on_numpy` rounds its result."""

    def wide(*args, **params):
        for x in args:
            if x.dtype.itemsize == 2:
                return function(*map(widen, args), **params)
        return function(*args, **params)

    return wide


def on_wide(rows):
    """Eval rules out of NumPy functions that compute 16-bit floats in 32 bits."""
    return on_numpy({p: widened(f) for p, f in rows.items()})


def sign_value(x):
    """-1, 0, 1 or NaN; the sign of a zero stays, and x/|x| of a complex number."""
    return np.where(x == 0, x, np.sign(x))


def divide(x, y):
    """x / y; of integers the quotient cut towards zero, and x/0 = -1 (all bits set)."""
    if x.dtype.kind not in "iu":
        return np.true_divide(x, y)
    quotient = np.floor_divide(x, np.where(y == 0, y.dtype.type(1), y))
    cut = ((x < 0) != (y < 0)) & (quotient * y != x)
    return np.where(y == 0, ~x.dtype.type(0), quotient + cut.astype(x.dtype))


eval_rules |= on_wide({neg_p: np.negative, sign_p: sign_value, abs_p: np.abs})
eval_rules |= on_wide({exp_p: np.exp, log_p: np.log, sqrt_p: np.sqrt})
eval_rules |= on_wide({sin_p: np.sin, cos_p: np.cos, tanh_p: np.tanh})
eval_rules |= on_wide({add_p: np.add, sub_p: np.subtract})
eval_rules |= on_wide({mul_p: np.multiply, div_p: divide})
eval_rules |= on_wide({max_p: np.maximum, min_p: np.minimum})
eval_rules |= on_wide({eq_p: np.equal, ne_p: np.not_equal})
eval_rules |= on_wide({lt_p: np.less, le_p: np.less_equal})
eval_rules |= on_wide({gt_p: np.greater, ge_p: np.greater_equal})
eval_rules |= on_numpy({and_p: np.bitwise_and, or_p: np.bitwise_or})
eval_rules |= on_numpy({xor_p: np.bitwise_xor, not_p: np.invert})
eval_rules |= on_numpy({copy_p: np.copy})


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


def of_one(primitive, text):
    """The function of one argument that applies a primitive; `text` documents it."""

    def function(x):
        return primitive.bind(x)

    return named(function, primitive, text)


def of_two(primitive, text):
    """The function of two arguments that applies a primitive; numbers adapt."""

    def function(x, y):
        return primitive.bind(*adapt(x, y))

    return named(function, primitive, text)


def named(function, primitive, text):
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


def convert_shape(x, *, new_dtype, weak_type):
    extended = [isinstance(d, dtypes.ExtendedDtype) for d in (x.dtype, new_dtype)]
    if any(extended) and x.dtype != new_dtype:
        names = f"{x.dtype.name} to {new_dtype.name}"
        raise TypeError(f"there is no conversion from {names}{at_line(user_source())}")
    return ShapedArray(x.shape, new_dtype, weak_type)


def convert_values(x, new_dtype, weak_type=False):
    """As C converts, but a float out of an integer type's range takes its limit."""
    x = widen(x)
    if x.dtype.kind == "c" and new_dtype.kind != "c":
        x = x.real
    if new_dtype.kind == "b":
        return x != 0
    if x.dtype.kind != "f" or new_dtype.kind not in "iu":
        return x.astype(new_dtype)
    limits = np.iinfo(new_dtype)
    low, high = float(limits.min), float(limits.max)
    x = x.astype(np.float64)
    inside = np.where((x > low) & (x < high), x, 0).astype(new_dtype)
    inside = np.where(x >= high, np.array(limits.max, new_dtype), inside)
    return np.where(x <= low, np.array(limits.min, new_dtype), inside)


convert_element_type_p = Primitive("convert_element_type")
shape_rules |= {convert_element_type_p: convert_shape}
eval_rules |= on_numpy({convert_element_type_p: convert_values})


def convert_element_type(x, new_dtype):
    """x with elements of another dtype.

    Integers wrap; floats converted to integers are cut towards zero, saturate, and NaN
    gives 0; only zero gives False.  Complex to real drops the imaginary part, with
    NumPy's `ComplexWarning`.
    """
    new_dtype = dtypes.user_dtype(new_dtype, "convert_element_type")
    return convert(x, new_dtype)


def convert(x, new_dtype, weak_type=False):
    """`convert_element_type` for library code: an exact dtype, and a weak type.

    Constants (anything but an Array) are converted at once, whatever the trace.
    """
    if aval_dtype(x).kind == "c" and new_dtype.kind != "c":
        message = "Casting complex values to real discards the imaginary part"
        warnings.warn(message, np.exceptions.ComplexWarning, stacklevel=user_level())
    if not isinstance(x, Array):
        storage = dtypes.storage_of(new_dtype)
        value = np.asarray(quietly(convert_values, np.asarray(x), storage))
        return ArrayImpl(value, ShapedArray(value.shape, new_dtype, weak_type))
    if (x.dtype, x.weak_type) == (new_dtype, weak_type):
        return x
    return convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)


def aval_dtype(x):
    """The dtype of a value, also of a Python int too large for any array."""
    return np.dtype("int64") if type(x) is int else aval_of(x).dtype


def canonicalize_shape(shape):
    """A shape as a tuple of Python ints; one int is a shape of one axis.

    Raises TypeError for what is no shape, and names the argument behind a tracer.
    """
    try:
        several = isinstance(shape, tuple) or np.iterable(shape)
        sizes = shape if several else (shape,)
        return tuple(map(operator.index, sizes))
    except TracerIntegerConversionError:
        raise
    except TypeError as error:
        raise TypeError(
            "Shapes must be 1D sequences of concrete values of integer type, "
            f"got {shape}."
        ) from error


def canonicalize_axis(axis, ndim):
    """An axis counted from the front (-1 is the last), or a ValueError."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"axis {axis} is out of bounds for array of dimension {ndim}"
        )
    return axis % ndim


def check_sizes(name, what, sizes):
    """Raise unless every one of `sizes`, the param `what` of `name`, is >= 0."""
    if any(size < 0 for size in sizes):
        raise TypeError(
            f"{name} {what} must have every element be nonnegative, got {sizes}."
        )


def broadcast_in_dim_shape(x, *, shape, broadcast_dimensions):
    check_sizes("broadcast_in_dim", "shape", shape)
    pairs = list(zip(x.shape, broadcast_dimensions, strict=False))
    fits = all(d < len(shape) and n in (1, shape[d]) for n, d in pairs)
    distinct = len(set(broadcast_dimensions)) == len(broadcast_dimensions) == x.ndim
    if not fits or not distinct:
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must name a different dimension of "
            "the result for each one of the operand, whose size is the same or 1; got "
            f"operand of shape {x.shape}, target broadcast shape {shape}, "
            f"broadcast_dimensions {broadcast_dimensions}."
        )
    return x.update(shape=shape)


def broadcast_in_dim_values(x, *, shape, broadcast_dimensions):
    if x.ndim:
        order = sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
        aligned = [1] * len(shape)
        for size, dim in zip(x.shape, broadcast_dimensions, strict=True):
            aligned[dim] = size
        x = x.transpose(order).reshape(aligned)
    # Written at once, for results are contiguous; np.broadcast_to takes longer.
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


broadcast_in_dim_p = Primitive("broadcast_in_dim")
shape_rules |= {broadcast_in_dim_p: broadcast_in_dim_shape}
eval_rules |= on_numpy({broadcast_in_dim_p: broadcast_in_dim_values})


def broadcast_in_dim(operand, shape, broadcast_dimensions):
    """`operand` repeated to `shape`; its axis i becomes axis broadcast_dimensions[i].

    Axes of size 1 are stretched, and the axes that are not named are new.
    """
    shape = canonicalize_shape(shape)
    dims = canonicalize_shape(broadcast_dimensions)
    aval = aval_of(operand)
    if isinstance(operand, Array) and aval.ndim == len(shape) and not dims:
        return operand
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


def expand_dims(array, dimensions):
    """`array` with new axes of size 1 at `dimensions` of the result."""
    shape = aval_of(array).shape
    ndim = len(shape) + len(dimensions)
    new = {canonicalize_axis(d, ndim) for d in dimensions}
    if len(new) < len(dimensions):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    kept = tuple(i for i in range(ndim) if i not in new)
    sizes = dict(zip(kept, shape, strict=True))
    return broadcast_in_dim(array, [sizes.get(i, 1) for i in range(ndim)], kept)


def without(shape, axes):
    """The shape without the axes in `axes`."""
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def reduction(name, kind, keep_weak=True):
    """A shape rule for a reduction over `axes` of arrays of a kind of dtype."""

    def rule(x, *, axes):
        check_kind(name, x.dtype, kind)
        if len(axes) != len(set(axes)) or not set(axes) <= set(range(x.ndim)):
            raise ValueError(
                f"{name} axes {axes} contains duplicate or out-of-bounds indices for "
                f"{x}."
            )
        return ShapedArray(without(x.shape, axes), x.dtype, keep_weak and x.weak_type)

    return rule


reduce_sum_p, reduce_prod_p = map(Primitive, ["reduce_sum", "reduce_prod"])
reduce_max_p, reduce_min_p = map(Primitive, ["reduce_max", "reduce_min"])
shape_rules |= {p: reduction(p.name, number) for p in (reduce_sum_p, reduce_prod_p)}
shape_rules |= {p: reduction(p.name, anything) for p in (reduce_max_p, reduce_min_p)}


def lowest(dtype):
    """The identity of `max`: -inf, or the least value of an integer or bool dtype."""
    if is_kind(dtype, integer):
        return np.array(dtypes.iinfo(dtype).min, dtype)
    return np.array(-np.inf if is_kind(dtype, inexact) else False, dtype)


def highest(dtype):
    """The identity of `min`: inf, or the largest value of an integer or bool dtype."""
    if is_kind(dtype, integer):
        return np.array(dtypes.iinfo(dtype).max, dtype)
    return np.array(np.inf if is_kind(dtype, inexact) else True, dtype)


def summed(ufunc):
    """A reduction by a ufunc in the array's own dtype; NumPy would widen int8."""

    def values(x, *, axes):
        # By position: NumPy takes twice as long to read keywords.
        return ufunc.reduce(x, axes, x.dtype)

    return values


def chosen(ufunc, identity):
    """A reduction by `max` or `min`; of an empty axis the identity."""

    def values(x, *, axes):
        return ufunc.reduce(x, axis=axes, initial=identity(x.dtype))

    return values


eval_rules |= on_wide({
    reduce_sum_p: summed(np.add),
    reduce_prod_p: summed(np.multiply),
    reduce_max_p: chosen(np.maximum, lowest),
    reduce_min_p: chosen(np.minimum, highest),
})


def over_axes(primitive, text):
    """The function that applies a reduction; `axes` are counted from the front."""

    def function(operand, axes):
        return primitive.bind(operand, axes=canonicalize_shape(axes))

    return named(function, primitive, text)


reduce_sum = over_axes(reduce_sum_p, "The sum over `axes`, in the operand's dtype.")
reduce_prod = over_axes(reduce_prod_p, "The product over `axes`, in its own dtype.")
reduce_max = over_axes(reduce_max_p, "The maximum over `axes`; NaN if one is there.")
reduce_min = over_axes(reduce_min_p, "The minimum over `axes`; NaN if one is there.")


# chapter 2, brought along
import enum
import math


def pow_shape(x, y):
    check_kind("pow", x.dtype, inexact, " at position 0")
    check_kind("pow", y.dtype, number, " at position 1")
    if x.dtype != y.dtype and not is_kind(y.dtype, integer):
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), "
            "and the second argument must have an inexact or integer dtype, and two "
            f"inexact dtypes must match, but got {x.dtype} and {y.dtype} respectively."
        )
    return ShapedArray(joint_shape("pow", (x, y)), x.dtype, all_weak((x, y)))


def integer_pow_shape(x, *, y):
    check_kind("integer_pow", x.dtype, number)
    if y < 0 and is_kind(x.dtype, integer):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({x}, {y})"
        )
    return x


def power(x, y):
    return np.power(x, y.astype(x.dtype))


def power_by_squaring(x, *, y):
    """x**y by about log2(y) multiplications; 1/x**-y for negative y."""
    left, square, result = builtins.abs(y), x, None
    while left:
        if left % 2:
            result = square if result is None else result * square
        left, square = left // 2, square * square
    if result is None:
        return np.ones_like(x)
    return np.true_divide(1, result) if y < 0 else result


pow_p, integer_pow_p = map(Primitive, ["pow", "integer_pow"])
shape_rules |= {pow_p: pow_shape, integer_pow_p: integer_pow_shape}
eval_rules |= on_wide({pow_p: power})
# Each of its products is rounded, also in 16 bits.
eval_rules |= on_numpy({integer_pow_p: power_by_squaring})


def pow(x, y):
    """x**y, elementwise: x float or complex, y of the same dtype or an integer."""
    return pow_p.bind(*((x, y) if type(y) is int else adapt(x, y)))


def integer_pow(x, y):
    """x**y, elementwise, for a Python int y; not below 0 if x is integer."""
    return integer_pow_p.bind(x, y=operator.index(y))


def select_shape(which, *cases):
    if not cases:
        raise TypeError("select must have at least one case")
    shapes = ", ".join(str(c.shape) for c in cases)
    if len({c.shape for c in cases}) > 1:
        raise TypeError(f"select cases must have the same shapes, got [{shapes}].")
    if which.shape and which.shape != cases[0].shape:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, got "
            f"`which` shape {which.shape} but case shape {cases[0].shape}."
        )
    check_same_dtypes("select", cases)
    if not is_kind(which.dtype, bits):
        raise TypeError(
            f"select `which` must be boolean or integer type, got {which.dtype}."
        )
    if which.dtype.kind == "b" and len(cases) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")
    return cases[0].update(weak_type=all_weak(cases))


def select_values(which, *cases):
    """cases[which], elementwise; an index out of range takes the nearest case."""
    if which.dtype.kind == "b" and len(cases) == 2:
        return np.where(which, cases[1], cases[0])
    result = cases[-1]
    for i, case in reversed(list(enumerate(cases[:-1]))):
        result = np.where(which <= i, case, result)
    return result


select_n_p = Primitive("select_n")
shape_rules |= {select_n_p: select_shape}
eval_rules |= on_numpy({select_n_p: select_values})


def select_n(which, *cases):
    """cases[which], elementwise: `which` bool (two cases) or integer, or one scalar.

    The cases have one shape and dtype.
    """
    return select_n_p.bind(which, *adapt(*cases))


def select(pred, on_true, on_false):
    """`on_true` where `pred` holds, else `on_false`: of one shape and dtype."""
    # select_n counts its cases from False up.
    return select_n_p.bind(pred, *adapt(on_false, on_true))


def iota_shape(*, dtype, shape, dimension):
    check_sizes("iota", "shape", shape)
    check_kind("iota", dtype, number)
    if not 0 <= dimension < len(shape):
        raise ValueError(
            "iota dimension must be between 0 and len(shape), got "
            f"dimension={dimension} for shape={shape}"
        )
    return ShapedArray(shape, dtype)


def iota_values(*, dtype, shape, dimension):
    column = (-1,) + (1,) * (len(shape) - dimension - 1)
    counts = np.arange(shape[dimension]).astype(dtype)
    return np.broadcast_to(counts.reshape(column), shape)


iota_p = Primitive("iota")
shape_rules |= {iota_p: iota_shape}
eval_rules |= on_numpy({iota_p: iota_values})


def iota(dtype, size):
    """0, 1, 2, ... up to `size`, which is not included."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype, shape, dimension):
    """An array of `shape` that counts 0, 1, 2, ... along `dimension`."""
    dtype = dtypes.user_dtype(dtype, "broadcasted_iota")
    shape, dimension = canonicalize_shape(shape), operator.index(dimension)
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension)


def broadcast(operand, sizes):
    """`operand` repeated along new leading axes of the given sizes."""
    shape = aval_of(operand).shape
    sizes = canonicalize_shape(sizes)
    if not sizes:
        return as_constant(operand)
    dims = tuple(range(len(sizes), len(sizes) + len(shape)))
    return broadcast_in_dim(operand, sizes + shape, dims)


def as_constant(x):
    """An array or tracer as it is; a number or a NumPy array as an Array."""
    if isinstance(x, Array):
        return x
    aval = aval_of(x)
    return convert(x, aval.dtype, aval.weak_type)


def full(shape, fill_value, dtype=None):
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


def full_like(x, fill_value, dtype=None, shape=None):
    """An array like x (its shape, dtype and weak type unless given) of one value."""
    aval = aval_of(x)
    shape = aval.shape if shape is None else canonicalize_shape(shape)
    weak_type = dtype is None and aval.weak_type
    dtype = aval.dtype if dtype is None else dtypes.user_dtype(dtype, "full_like")
    return full(shape, convert(fill_value, dtype, weak_type))


def reshape_shape(x, *, new_sizes, dimensions):
    if math.prod(new_sizes) != x.size or any(size < 0 for size in new_sizes):
        raise TypeError(
            f"reshape total size must be unchanged, got new_sizes {new_sizes} with "
            f"{math.prod(new_sizes)} elements for shape {x.shape} with {x.size}."
        )
    if dimensions is not None and sorted(dimensions) != list(range(x.ndim)):
        raise TypeError(
            "reshape dimensions must be a permutation of operand dimensions, got "
            f"dimensions {dimensions} for shape {x.shape}."
        )
    return x.update(shape=new_sizes)


def transpose_shape(x, *, permutation):
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got "
            f"permutation {permutation} for operand shape {x.shape}."
        )
    return x.update(shape=tuple(x.shape[i] for i in permutation))


def squeeze_shape(x, *, dimensions):
    inside = [d for d in dimensions if 0 <= d < x.ndim and x.shape[d] == 1]
    if len(set(inside)) < len(dimensions):
        raise ValueError(
            "squeeze dimensions must be different axes of size 1, got "
            f"shape={x.shape} and dimensions={dimensions}"
        )
    return x.update(shape=without(x.shape, dimensions))


def reshape_values(x, *, new_sizes, dimensions):
    return (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes)


def transpose_values(x, *, permutation):
    return x.transpose(permutation)


def squeeze_values(x, *, dimensions):
    return x.squeeze(dimensions)


reshape_p, transpose_p, squeeze_p = map(Primitive, ["reshape", "transpose", "squeeze"])
shape_rules |= {
    reshape_p: reshape_shape,
    transpose_p: transpose_shape,
    squeeze_p: squeeze_shape,
}
eval_rules |= on_numpy({
    reshape_p: reshape_values,
    transpose_p: transpose_values,
    squeeze_p: squeeze_values,
})


def reshape(operand, new_sizes, dimensions=None):
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


def transpose(operand, permutation):
    """`operand` with axis permutation[i] as its axis i."""
    permutation = canonicalize_shape(permutation)
    unchanged = permutation == tuple(range(aval_of(operand).ndim))
    if unchanged and isinstance(operand, Array):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def squeeze(array, dimensions):
    """`array` without the axes `dimensions`, each of size 1."""
    ndim = aval_of(array).ndim
    dimensions = tuple(sorted(canonicalize_axis(d, ndim) for d in dimensions))
    if not dimensions and isinstance(array, Array):
        return array
    return squeeze_p.bind(array, dimensions=dimensions)


def slice_shape(x, *, start_indices, limit_indices, strides):
    starts, limits = start_indices, limit_indices
    strides = strides or (1,) * x.ndim
    if not len(starts) == len(limits) == len(strides) == x.ndim:
        raise TypeError(
            "slice start_indices, limit_indices and strides must have length equal to "
            "the number of dimensions of the operand, got indices "
            f"{starts}, {limits} and {strides} for operand shape {x.shape}."
        )
    bounds = zip(starts, limits, x.shape, strict=True)
    if not all(0 <= start <= limit <= n for start, limit, n in bounds):
        raise TypeError(
            "slice limit_indices must be greater than or equal to start_indices, and "
            f"less than or equal to operand shape, got start_indices {starts} and "
            f"limit_indices {limits} for operand shape {x.shape}."
        )
    if any(stride < 1 for stride in strides):
        raise TypeError(f"slice strides must be positive, got {strides}.")
    return x.update(shape=tuple(map(len, map(range, starts, limits, strides))))


def slice_values(x, *, start_indices, limit_indices, strides):
    strides = strides or (1,) * x.ndim
    return x[tuple(map(builtins.slice, start_indices, limit_indices, strides))]


def concatenate_shape(*xs, dimension):
    shapes = ", ".join(str(x.shape) for x in xs)
    if len({x.ndim for x in xs}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with different numbers of dimensions: "
            f"got {shapes}."
        )
    if not 0 <= dimension < xs[0].ndim:
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes "
            f"{shapes}."
        )
    if len({without(x.shape, (dimension,)) for x in xs}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other "
            f"than the one being concatenated: concatenating along dimension "
            f"{dimension} for shapes {shapes}."
        )
    check_same_dtypes("concatenate", xs)
    shape = list(xs[0].shape)
    shape[dimension] = sum(x.shape[dimension] for x in xs)
    return ShapedArray(tuple(shape), xs[0].dtype, all_weak(xs))


def concatenate_values(*xs, dimension):
    return np.concatenate(xs, axis=dimension)


slice_p, concatenate_p = map(Primitive, ["slice", "concatenate"])
shape_rules |= {slice_p: slice_shape, concatenate_p: concatenate_shape}
eval_rules |= on_numpy({slice_p: slice_values, concatenate_p: concatenate_values})


def slice(operand, start_indices, limit_indices, strides=None):
    """operand[start:limit:stride] along every axis; nothing is negative or clipped."""
    return slice_p.bind(
        operand,
        start_indices=canonicalize_shape(start_indices),
        limit_indices=canonicalize_shape(limit_indices),
        strides=None if strides is None else canonicalize_shape(strides),
    )


def concatenate(operands, dimension):
    """The arrays `operands` one after another along `dimension`."""
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    if len(operands) == 1 and isinstance(operands[0], Array):
        return operands[0]
    return concatenate_p.bind(*operands, dimension=operator.index(dimension))


reduce_and_p, reduce_or_p = map(Primitive, ["reduce_and", "reduce_or"])
reduce_xor_p = Primitive("reduce_xor")
shape_rules |= {
    p: reduction(p.name, bits, keep_weak=False)
    for p in (reduce_and_p, reduce_or_p, reduce_xor_p)
}
eval_rules |= on_numpy({
    reduce_and_p: summed(np.bitwise_and),
    reduce_or_p: summed(np.bitwise_or),
    reduce_xor_p: summed(np.bitwise_xor),
})

reduce_and = over_axes(reduce_and_p, "The bits set in all elements along `axes`.")
reduce_or = over_axes(reduce_or_p, "The bits set in any element along `axes`.")
reduce_xor = over_axes(reduce_xor_p, "The bits set an odd number of times on `axes`.")


def arg_reduction(name):
    """A shape rule for argmax or argmin."""

    def rule(x, *, axes, index_dtype):
        axis, = axes
        check_kind(name, x.dtype, ordered)
        if not 0 <= axis < x.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {x.shape}")
        if x.shape[axis] < 1:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension. "
                f"operand.shape={x.shape} axis={axis}"
            )
        if not is_kind(index_dtype, integer):
            raise TypeError(
                f"index_dtype must be an integer type, but got {index_dtype.name}"
            )
        return ShapedArray(without(x.shape, axes), index_dtype)

    return rule


def index_of(function):
    """argmax or argmin by NumPy's function of that name: the first NaN wins."""

    def values(x, *, axes, index_dtype):
        return function(x, axis=axes[0]).astype(index_dtype)

    return values


argmax_p, argmin_p = map(Primitive, ["argmax", "argmin"])
shape_rules |= {p: arg_reduction(p.name) for p in (argmax_p, argmin_p)}
eval_rules |= on_wide({argmax_p: index_of(np.argmax), argmin_p: index_of(np.argmin)})


def argmax(operand, axis, index_dtype):
    """The index of the first maximum, or of the first NaN, along `axis`."""
    index_dtype = dtypes.user_dtype(index_dtype, "argmax")
    axes = (operator.index(axis),)
    return argmax_p.bind(operand, axes=axes, index_dtype=index_dtype)


def argmin(operand, axis, index_dtype):
    """The index of the first minimum, or of the first NaN, along `axis`."""
    index_dtype = dtypes.user_dtype(index_dtype, "argmin")
    axes = (operator.index(axis),)
    return argmin_p.bind(operand, axes=axes, index_dtype=index_dtype)


def dot_general_shape(
    lhs, rhs, *, dimension_numbers, precision, preferred_element_type
):
    contract, batch = dimension_numbers
    for x, dims in zip((lhs, rhs), map(operator.add, contract, batch), strict=True):
        if len(set(dims)) < len(dims) or not set(dims) <= set(range(x.ndim)):
            raise TypeError(
                "dot_general requires contracting and batch dimensions to be distinct "
                "axes of the operands, counted from 0, got dimension_numbers="
                f"{dimension_numbers} for lhs {lhs} and rhs {rhs}."
            )
    for what, (left, right) in [("batch", batch), ("contracting", contract)]:
        sizes = [tuple(map(x.shape.__getitem__, dims))
                 for x, dims in [(lhs, left), (rhs, right)]]
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general requires {what} dimensions to have the same shape, got "
                f"{sizes[0]} and {sizes[1]}: axes {left} of lhs {lhs}, axes {right} of "
                f"rhs {rhs}."
            )
    shape = tuple(lhs.shape[d] for d in batch[0])
    shape += without(lhs.shape, contract[0] + batch[0])
    shape += without(rhs.shape, contract[1] + batch[1])
    dtype = dot_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
    return ShapedArray(shape, dtype, all_weak((lhs, rhs)))


@functools.cache
def dot_rank(dtype):
    """Sorts dtypes by how much they hold, as XLA's type inference for dot does."""
    part = real_part(dtype)
    floating = is_kind(part, real)
    limits = dtypes.finfo(part) if floating else None
    return (
        dtype.kind == "c",
        limits.maxexp if floating else -1,
        limits.nmant if floating else -1,
        dot_bits(part),
        part.kind != "u",
    )


def dot_dtype(lhs, rhs, preferred=None):
    """The dtype of a product: the larger one, or `preferred` if that is asked for."""
    result = lhs if dot_rank(lhs) > dot_rank(rhs) else rhs
    if lhs != rhs and dot_rank(lhs) == dot_rank(rhs):
        raise TypeError(f"lax.dot_general argument type error: {lhs}, {rhs}")
    if preferred is None or preferred == result:
        return result
    if not is_kind(result, real) and dot_bits(preferred) < dot_bits(result):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {preferred} for result type of {result}."
        )
    return preferred


def dot_bits(dtype):
    return 1 if dtype.kind == "b" else 8 * real_part(dtype).itemsize


@functools.cache
def joint_wide_dtype(*dtypes):
    """The dtype in which arrays of these are multiplied: 16-bit floats in 32 bits."""
    return np.result_type(*[widen(np.empty(0, dtype)) for dtype in dtypes])


def dot_general_values(
    lhs, rhs, *, dimension_numbers, precision, preferred_element_type
):
    """Batch axes first, contracted axes together, and then one matrix product."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    dtype = dot_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
    wide = joint_wide_dtype(lhs.dtype, rhs.dtype, dtype)
    lhs, rhs = lhs.astype(wide, copy=False), rhs.astype(wide, copy=False)
    if lhs.ndim == rhs.ndim == 2 and dimension_numbers == (((1,), (0,)), ((), ())):
        product = lhs @ rhs
    else:
        lhs_free = without(range(lhs.ndim), lhs_contract + lhs_batch)
        rhs_free = without(range(rhs.ndim), rhs_contract + rhs_batch)
        lhs = lhs.transpose(*lhs_batch, *lhs_free, *lhs_contract)
        rhs = rhs.transpose(*rhs_batch, *rhs_contract, *rhs_free)
        batch, rest = lhs.shape[:len(lhs_batch)], lhs.shape[len(lhs_batch):]
        rows, size = math.prod(rest[:len(lhs_free)]), math.prod(rest[len(lhs_free):])
        columns = rhs.shape[len(lhs_batch) + len(lhs_contract):]
        lhs = lhs.reshape(*batch, rows, size)
        product = lhs @ rhs.reshape(*batch, size, math.prod(columns))
        product = product.reshape((*batch, *rest[:len(lhs_free)], *columns))
    return product if product.dtype == dtype else convert_values(product, dtype)


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


dot_general_p = Primitive("dot_general")
shape_rules |= {dot_general_p: dot_general_shape}
eval_rules |= on_numpy({dot_general_p: dot_general_values})


def dot_general(
    lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None
):
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
