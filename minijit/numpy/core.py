"""NumPy's functions over minijit's primitives: `import minijit.numpy as jnp`.

    x = jnp.arange(6.0).reshape(2, 3)
    (x / x.sum(axis=1, keepdims=True)).T           # operators and methods: same rules
    jnp.where(x > 2, x, 0)

Names, signatures, result types and errors are those of `jax.numpy`.  A function here
does three things: it checks its arguments, brings them to a common dtype and rank, and
binds primitives.  So what runs under NumPy runs under every trace as well.

Shapes broadcast as NumPy's do.  Result dtypes follow `trace/dtypes.py`.  Where a
docstring gives no errors, arguments that are no arrays or numbers raise TypeError, and
shapes that do not fit raise TypeError or ValueError.
"""

# chapter 2
from ..trace import dtypes, primitives
from ..trace.array import ArrayImpl, ShapedArray, aval_of
from ..trace.core import Array, operators
from ..trace.numpy_values import quietly
from .arguments import alike, check_inexact, check_promotable, is_inexact
from .arguments import joint_rank, known_value, named, operand, unwrapped


def as_array(x):
    """An array, a NumPy array (which is copied) or a number, as an array."""
    return primitives.as_array(unwrapped(x))


def convert(x, dtype, weak_type=False):
    """`x` as an array of exactly this dtype and weakness: itself if it is one."""
    if isinstance(x, Array):
        if x.aval.dtype == dtype and x.aval.weak_type == weak_type:
            return x
        params = {"new_dtype": dtypes.as_dtype(dtype), "weak_type": weak_type}
        return primitives.convert_element_type_p.bind(x, **params)
    # A number is converted once, here, and not again by each run of a program.
    value = quietly(known_value, x, dtypes.storage_of(dtype))
    return ArrayImpl(value, ShapedArray(value.shape, dtypes.as_dtype(dtype), weak_type))


def promote_dtypes(args, family=None):
    """All of `args` in the dtype that they promote to together.

    Args:
      family: maps that dtype to the one to compute in (`dtypes.to_inexact_dtype`).
    """
    if family is None and alike(args):
        return list(args)
    args = [x if isinstance(x, Array) else unwrapped(x) for x in args]
    dtype, weak_type = dtypes.lattice_result_type(*args)
    dtype = family(dtype) if family else dtype
    return [convert(x, dtype, weak_type) for x in args]


def expand_to(x, rank):
    """Leading axes of length 1, up to `rank` axes."""
    new = rank - x.ndim
    return primitives.broadcast_in_dim_p.bind(
        x, shape=(1,) * new + x.shape, broadcast_dimensions=tuple(range(new, rank))
    )


def promote_shapes(name, args):
    """Leading axes of length 1, so that all arrays with axes have as many."""
    rank = joint_rank(name, args)
    return [x if len(x.aval.shape) in (0, rank) else expand_to(x, rank) for x in args]


def promote_args(name, *args):
    """The arguments of the function `name` in one dtype, with equally many axes."""
    if alike(args):
        return args
    check_promotable(name, args)
    return promote_shapes(name, promote_dtypes(args))


def promote_args_inexact(name, *args):
    """As `promote_args`, in a floating or complex type."""
    if alike(args) and is_inexact(args[0]):
        return args
    check_inexact(name, args)
    return promote_shapes(name, promote_dtypes(args, dtypes.to_inexact_dtype))


def unary(name, operation, promote=promote_args_inexact):
    """The function `name` of one array: promote, then bind."""

    def function(x, /):
        return operation(*promote(name, x))

    return named(function, name)


def binary(name, operation, promote=promote_args):
    """The function `name` of two arrays: promote, then bind."""

    def function(x, y, /):
        return operation(*promote(name, x, y))

    return named(function, name)


exp = unary("exp", primitives.exp_p.bind)
log = unary("log", primitives.log_p.bind)
sin = unary("sin", primitives.sin_p.bind)
cos = unary("cos", primitives.cos_p.bind)
tanh = unary("tanh", primitives.tanh_p.bind)
sqrt = unary("sqrt", primitives.sqrt_p.bind)
negative = unary("negative", primitives.neg_p.bind, promote_args)
positive = unary("positive", as_array, promote_args)
sign = unary("sign", primitives.sign_p.bind, promote_args)
invert = unary("invert", primitives.not_p.bind, promote_args)
bitwise_not = unary("bitwise_not", primitives.not_p.bind, promote_args)

subtract = binary("subtract", primitives.sub_p.bind)
true_divide = binary("true_divide", primitives.div_p.bind, promote_args_inexact)
divide = binary("divide", primitives.div_p.bind, promote_args_inexact)
maximum = binary("maximum", primitives.max_p.bind)
minimum = binary("minimum", primitives.min_p.bind)
equal = binary("equal", primitives.eq_p.bind)
not_equal = binary("not_equal", primitives.ne_p.bind)
bitwise_and = binary("bitwise_and", primitives.and_p.bind)
bitwise_or = binary("bitwise_or", primitives.or_p.bind)
bitwise_xor = binary("bitwise_xor", primitives.xor_p.bind)


def add(x, y, /):
    """Elementwise sum; `or` of bools.  JAX: `jnp.add`."""
    x, y = promote_args("add", x, y)
    operation = primitives.or_p if x.dtype.kind == "b" else primitives.add_p
    return operation.bind(x, y)


def multiply(x, y, /):
    """Elementwise product; `and` of bools.  JAX: `jnp.multiply`."""
    x, y = promote_args("multiply", x, y)
    operation = primitives.and_p if x.dtype.kind == "b" else primitives.mul_p
    return operation.bind(x, y)


def operator_with(name, function, swap=False):
    """The method of an operator: NotImplemented for what is no array or number."""

    def method(self, other):
        other = operand(name, other)
        if other is NotImplemented:
            return NotImplemented
        return function(other, self) if swap else function(self, other)

    return method


def operator_methods(table):
    """The methods `__add__` and `__radd__` for a row "add", and so on."""
    rows = {}
    for name, (text, function) in table.items():
        rows[f"__{name}__"] = operator_with(text, function)
        rows[f"__r{name}__"] = operator_with(text, function, swap=True)
    return rows


binary_operators = {
    "add": ("+", add),
    "sub": ("-", subtract),
    "mul": ("*", multiply),
    "truediv": ("/", true_divide),
    "and": ("&", bitwise_and),
    "or": ("|", bitwise_or),
    "xor": ("^", bitwise_xor),
}
operators |= operator_methods(binary_operators)
operators |= {"__neg__": negative, "__pos__": positive, "__invert__": invert}


# chapter 2, brought along
import builtins
import math
import operator
from functools import lru_cache

import numpy as np

from ..trace.remainders import floor
from ..trace.array import wrap
from ..trace.core import Tracer
from ..trace.dtypes import (
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int64,
    scalar_makers,
    uint64,
)
from ..trace.errors import at_line, user_source
from .arguments import (
    canonical_axes,
    canonical_axis,
    canonical_shape,
    check_arraylike,
    concrete,
    joint_shape,
    no_out,
    static,
    static_int,
)

ndarray = Array
pi, e, euler_gamma = math.pi, math.e, float(np.euler_gamma)
inf, nan, newaxis = math.inf, math.nan, None
bool = bool_
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning


def arrays(name, *args):
    """The arguments of the function `name` as a list of arrays."""
    for x in args:
        if not isinstance(x, Array):
            break
    else:
        return list(args)
    check_arraylike(name, *args)
    return [as_array(x) for x in args]


def absolute(x, /):
    """Elementwise |x|, real for complex x.  JAX: `jnp.absolute`."""
    x, = arrays("absolute", x)
    return x if x.dtype.kind in "bu" else primitives.abs(x)


abs = absolute

# What chapter 15 adds: the order of complex numbers, "where" with one argument, and
# "float_divmod".
later: dict = {}


def comparison(name, operation):
    """The function `name` that orders two arrays."""

    def function(x, y, /):
        x, y = promote_args(name, x, y)
        if x.dtype.kind == "c" and "order" in later:
            return later["order"](operation, x, y)
        return operation(x, y)

    return named(function, name)


less = comparison("less", primitives.lt)
less_equal = comparison("less_equal", primitives.le)
greater = comparison("greater", primitives.gt)
greater_equal = comparison("greater_equal", primitives.ge)


operators |= {
    "__eq__": operator_with("==", equal),
    "__ne__": operator_with("!=", not_equal),
    "__lt__": operator_with("<", less),
    "__le__": operator_with("<=", less_equal),
    "__gt__": operator_with(">", greater),
    "__ge__": operator_with(">=", greater_equal),
    "__abs__": absolute,
}


def broadcast_shapes(*shapes):
    """The shape that all of `shapes` broadcast to.  JAX: `jnp.broadcast_shapes`."""
    return joint_shape(tuple(map(canonical_shape, shapes)))


def promote_args_numeric(name, *args):
    """As `promote_args`, with bools as integers."""
    check_arraylike(name, *args)
    return promote_shapes(name, promote_dtypes(args, to_numeric_dtype))


def to_numeric_dtype(dtype):
    """The dtype, or int32 for bool."""
    return np.dtype(np.int32) if dtype.kind == "b" else dtype


def array(object, dtype=None, copy=True, order="K", ndmin=0, *, device=None):
    """An array from numbers, arrays, or nested lists of them.  JAX: `jnp.array`.

    NumPy arrays are copied.  Lists may hold tracers.  A dtype of None stands for the
    one that the parts promote to; a single Python number stays weakly typed.
    """
    if order not in (None, "K"):
        raise NotImplementedError("Only implemented for order='K'")
    weak_type = dtype is None and dtypes.is_weakly_typed(object)
    dtype = None if dtype is None else dtypes.user_dtype(dtype, "array")
    result = from_parts(object, dtype)
    result = convert(result, result.dtype if dtype is None else dtype, weak_type)
    if copy and isinstance(object, Array) and result is object:
        result = primitives.copy_p.bind(object)
    return expand_to(result, ndmin) if result.ndim < ndmin else result


def from_parts(object, dtype):
    """An array out of whatever `array` accepts; tracers are joined by primitives."""
    if not isinstance(object, (list, tuple)):
        return from_one(object, dtype)
    leaves = list_leaves(object)
    if builtins.any(leaf is None for leaf in leaves):
        raise ValueError("None is not a valid value for jnp.array")
    if dtype is None:
        dtype = dtypes.lattice_result_type(*leaves)[0] if leaves else np.float32
    if builtins.any(isinstance(leaf, Tracer) for leaf in leaves) or isinstance(
        dtype, dtypes.ExtendedDtype
    ):
        return stack([array(part, dtype, copy=False) for part in object])
    return as_array(converted(map_lists(as_known, object), dtype))


def converted(x, dtype):
    """A NumPy array of a dtype out of what may not fit it, which is then named."""
    try:
        return np.array(x, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        kinds = (OverflowError, ValueError, TypeError)
        kind = next(k for k in kinds if isinstance(error, k))
        raise kind(f"{x!r} gives no array of {dtype}: {error}") from None


def from_one(object, dtype):
    """An array out of one array, number, or what speaks a protocol of arrays."""
    object = unwrapped(object)
    if isinstance(object, Array):
        return object
    if object is None or isinstance(object, (str, bytes)):
        error = ValueError if object is None else TypeError
        raise error(
            f"{object!r} is not a valid value for jnp.array: only numbers, bools, and "
            "arrays and lists of them are."
        )
    # A dtype that is asked for is the first that a NumPy array is converted to.
    x = as_buffer(object)
    return as_array(x) if dtype is None else wrap(converted(x, dtype))


def list_leaves(object):
    """All that stands in nested lists and tuples; `[object]` if it is neither."""
    if not isinstance(object, (list, tuple)):
        return [unwrapped(object)]
    return [leaf for part in object for leaf in list_leaves(part)]


def map_lists(function, object):
    """Apply a function to all that stands in nested lists and tuples."""
    if isinstance(object, (list, tuple)):
        return [map_lists(function, part) for part in object]
    return function(object)


def as_known(x):
    """The NumPy value of an array; anything else as it is."""
    x = unwrapped(x)
    return x.numpy() if isinstance(x, ArrayImpl) else x


def as_buffer(object):
    """A number as it is; what speaks a protocol (buffer, `__array__`) through NumPy."""
    if dtypes.is_python_scalar(object) or isinstance(object, (np.ndarray, np.generic)):
        return object
    if hasattr(object, "__array__") or isinstance(object, (int, float, complex)):
        return np.asarray(object)
    if hasattr(object, "__dlpack__"):
        return np.from_dlpack(object)
    try:
        return np.asarray(memoryview(object))
    except TypeError:
        kind = f"Unexpected input type for array: {type(object)}"
        raise TypeError(kind) from None


def asarray(a, dtype=None, order=None, *, copy=None, device=None):
    """As `array`, but an array of that dtype is returned itself."""
    return array(a, dtype=dtype, copy=bool_of(copy), order=order)


def bool_of(x):
    """Whether x holds, where this module's own `bool` is a dtype."""
    return builtins.bool(x)


scalar_makers |= {"array": asarray}


def full(shape, fill_value, dtype=None, *, device=None):
    """An array of `shape` with one value everywhere.  JAX: `jnp.full`."""
    check_arraylike("full", fill_value)
    return filled(canonical_shape(shape), fill_value, dtype, "full")


def filled(shape, value, dtype, name):
    """`value` in every element; its own dtype, weak or not, where `dtype` is None."""
    if dtype is None:
        dtype, weak_type = dtypes.lattice_result_type(value)
    else:
        dtype, weak_type = dtypes.user_dtype(dtype, name), False
    return broadcast_to(convert(value, dtype, weak_type), shape)


def zeros(shape, dtype=None, *, device=None):
    """An array of `shape` filled with 0, float32 by default.  JAX: `jnp.zeros`."""
    return constant(shape, 0, dtype, "zeros")


def ones(shape, dtype=None, *, device=None):
    """An array of `shape` filled with 1, float32 by default.  JAX: `jnp.ones`."""
    return constant(shape, 1, dtype, "ones")


def constant(shape, value, dtype, name):
    """What `zeros` and `ones` share."""
    if isinstance(dtype, int) and isinstance(shape, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type.\n\nDid you accidentally write "
            f"`jnp.{name}({shape}, {dtype})` when you meant "
            f"`jnp.{name}(({shape}, {dtype}))`, with a tuple for the shape?"
        )
    dtype = float if dtype is None else dtype
    return filled(canonical_shape(shape), value, dtype, name)


def full_like(a, fill_value, dtype=None, shape=None, *, device=None):
    """An array like `a` with one value everywhere.  JAX: `jnp.full_like`."""
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        a, = arrays("full_like", a)
    check_arraylike("full_like", 0, fill_value)
    shape = a.shape if shape is None else canonical_shape(shape)
    if dtype is not None:
        return filled(shape, fill_value, dtype, "full_like")
    weak_type = dtypes.is_weakly_typed(a)
    fill = convert(fill_value, dtypes.canonicalize_dtype(a.dtype), weak_type)
    return broadcast_to(fill, shape)


def zeros_like(a, dtype=None, shape=None, *, device=None):
    """An array like `a` filled with 0.  JAX: `jnp.zeros_like`."""
    return full_like(a, 0, dtype, shape)


def ones_like(a, dtype=None, shape=None, *, device=None):
    """An array like `a` filled with 1.  JAX: `jnp.ones_like`."""
    return full_like(a, 1, dtype, shape)


def arange(start, stop=None, step=None, dtype=None, *, device=None):
    """Numbers from `start` up to and without `stop`.  JAX: `jnp.arange`."""
    given = [x for x in (start, stop, step) if x is not None]
    check_arraylike("arange", *given)
    dtype = dtypes.result_type(*given) if dtype is None else dtype
    dtype = dtypes.user_dtype(dtype, "arange")
    start, stop, step = arange_bounds(start, stop, step)
    given = [x for x in (start, stop, step) if isinstance(x, (float, complex))]
    if step == 0 or not np.isfinite(given).all() or np.iscomplexobj(given):
        raise ValueError(
            "jnp.arange: start, stop and step must be finite real numbers, and step "
            f"not 0, got {start=}, {stop=}, {step=}"
        )
    size = math.ceil((stop - start) / (1 if step is None else step))
    small = dtype.kind not in "bui" and dtypes.finfo(dtype).bits < 32
    work = np.dtype(np.float32) if small and step is not None else dtype
    x = counting(builtins.max(0, size), work)
    x = x if step is None else primitives.mul(convert(step, work), x)
    x = x if step is None and start == 0 else primitives.add(convert(start, work), x)
    return convert(x, dtype)


def counting(size, dtype):
    """The numbers 0, 1, 2, ... of a dtype."""
    return primitives.broadcasted_iota(dtype, (size,), 0)


def arange_bounds(start, stop, step):
    """-> (start, stop, step or None) as Python numbers."""
    start, stop = (0, start) if stop is None else (start, stop)
    bounds = [start, stop] if step is None else [start, stop, step]
    names = ["start", "stop", "step"][: len(bounds)]
    for i, (name, x) in enumerate(zip(names, bounds, strict=True)):
        bounds[i] = concrete(x, f"the argument {name!r} of jnp.arange", static)
        if bounds[i].ndim:
            raise ValueError(
                f"jax.numpy.arange: arguments must be scalars; got {name}={x}"
            )
    start, stop, *steps = [x.item() for x in bounds]
    return start, stop, steps[0] if steps else None


def power(x1, x2, /):
    """Elementwise x1 to the power x2.  JAX: `jnp.power`.

    An int that is known becomes the parameter of `integer_pow`.
    """
    check_arraylike("power", x1, x2)
    exponent = known_int(x2)
    if exponent is not None:
        x, = promote_args_numeric("power", x1)
        return primitives.integer_pow(x, exponent)
    base, exponent = promote_args_numeric("power", x1, x2)
    if base.dtype.kind in "iu":
        return integer_powers(base, exponent)
    # A floating base keeps an exponent of integers as they are: that is exact.
    if aval_of(x2).dtype.kind in "iu" and aval_of(x1).dtype.kind not in "biu":
        base, exponent = promote_shapes("power", arrays("power", x1, x2))
    return primitives.pow(base, exponent)


pow = power


def known_int(x):
    """A Python int, or a concrete integer array without axes, as an int; or None."""
    if isinstance(x, Tracer):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


def integer_powers(x, n):
    """x**n for integers, by repeated squaring: a step for each bit of an exponent."""
    one = convert(1, x.dtype)
    zero = convert(0, x.dtype)
    two = convert(2, x.dtype)
    result = where(logical_and(equal(x, 0), not_equal(n, 0)), zero, one)
    for _ in range(6):
        odd = bitwise_and(n, one)
        result = where(odd, multiply(result, x), result)
        x = multiply(x, x)
        n = primitives.div(subtract(n, odd), two)
    return result


def truth(x):
    """Whether each element is not zero."""
    return x if x.dtype.kind == "b" else primitives.ne(x, like(x, 0))


def like(x, value):
    """A constant with x's dtype; weakly typed if x is just such a number."""
    return convert(value, x.dtype, x.weak_type and x.ndim == 0)


def logical(name, operation):
    """The function `name` of one or two arrays taken as truth values."""

    def promote(name, *args):
        return map(truth, promote_args(name, *args))

    one = operation is primitives.bitwise_not
    return (unary if one else binary)(name, operation, promote)


logical_not = logical("logical_not", primitives.bitwise_not)
logical_and = logical("logical_and", primitives.bitwise_and)
logical_or = logical("logical_or", primitives.bitwise_or)
logical_xor = logical("logical_xor", primitives.bitwise_xor)


def isnan(x, /):
    """Where x is not a number.  JAX: `jnp.isnan`."""
    x, = arrays("isnan", x)
    return primitives.ne(x, x)


def from_later(name, what):
    """A row of `later`, or an error that says `what` is missing."""
    if name not in later:
        raise NotImplementedError(f"{what} comes with chapter 15")
    return later[name]


def where(condition, x=None, y=None, /, *, size=None, fill_value=None):
    """x where the condition holds, else y; all broadcast.  JAX: `jnp.where`.

    With the condition alone: the indices where it holds, as `nonzero` gives them.
    """
    if x is None and y is None:
        nonzero = from_later("where", "jnp.where of a condition alone")
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None or size is not None or fill_value is not None:
        raise ValueError(
            "jnp.where takes condition, x and y, or condition alone with optional "
            f"size and fill_value; got x={x}, y={y}, {size=}, {fill_value=}"
        )
    return choose_where(condition, x, y)


def choose_where(condition, x, y):
    """`where` of three arguments."""
    check_arraylike("where", condition, x, y)
    condition = truth(as_array(condition))
    x, y = promote_dtypes([x, y])
    if condition.aval.shape:
        condition, x, y = to_one_shape([condition, x, y])
    else:
        x, y = to_one_shape([x, y])
    return primitives.select_n_p.bind(condition, y, x)


def reshape(a, shape, order="C", *, copy=None):
    """The same elements in another shape; one size may be -1.  JAX: `jnp.reshape`."""
    x, = arrays("reshape", a)
    sizes = known_sizes(x, shape)
    if order == "F":
        return transpose(reshape(transpose(x), sizes[::-1]))
    if order != "C":
        raise ValueError(f"Unexpected value for 'order' argument: {order}.")
    return x if sizes == x.shape else primitives.reshape(x, sizes)


def known_sizes(x, shape):
    """`shape` for reshaping `x`, its -1 replaced by what is left over."""
    sizes = canonical_shape(shape)
    if sizes.count(-1) > 1:
        raise TypeError(
            f"can only specify one unknown axis size with a `-1` value, got {shape}"
        )
    rest = math.prod(s for s in sizes if s != -1)
    if -1 in sizes and rest and x.size % rest == 0:
        return tuple(x.size // rest if s == -1 else s for s in sizes)
    if -1 in sizes or rest != x.size:
        why = f"into shape {shape} (size {rest})"
        if -1 in sizes:
            why = (
                f"into shape {shape} because the product of specified axis sizes "
                f"({rest}) does not evenly divide {x.size}"
            )
        what = f"array of shape {x.shape} (size {x.size})"
        raise TypeError(f"cannot reshape {what} {why}")
    return sizes


def ravel(a, order="C"):
    """All elements along one axis.  JAX: `jnp.ravel`."""
    x, = arrays("ravel", a)
    return reshape(x, (x.size,), order)


def transpose(a, axes=None):
    """The axes in another order: backwards by default.  JAX: `jnp.transpose`."""
    x, = arrays("transpose", a)
    axes = range(x.ndim)[::-1] if axes is None else axes
    order = tuple(canonical_axis(i, x.ndim) for i in axes)
    return x if order == tuple(range(x.ndim)) else primitives.transpose(x, order)


def moveaxis(a, source, destination):
    """The axes `source` moved to the places `destination`.  JAX: `jnp.moveaxis`."""
    x, = arrays("moveaxis", a)
    source = canonical_axes(source, x.ndim)
    destination = canonical_axes(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError(
            "Inconsistent number of elements: "
            f"{len(source)} vs {len(destination)}"
        )
    order = [i for i in range(x.ndim) if i not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


def expand_dims(a, axis):
    """New axes of length 1, at places of the result.  JAX: `jnp.expand_dims`."""
    x, = arrays("expand_dims", a)
    return primitives.expand_dims(x, tuple(axis) if np.iterable(axis) else (axis,))


def squeeze(a, axis=None):
    """Without the axes of length 1, or without those given.  JAX: `jnp.squeeze`."""
    x, = arrays("squeeze", a)
    if axis is None:
        axis = tuple(i for i, size in enumerate(x.shape) if size == 1)
    return primitives.squeeze(x, canonical_axes(axis, x.ndim))


def broadcast_to(array, shape):
    """The array repeated along axes to fit `shape`.  JAX: `jnp.broadcast_to`."""
    x, = arrays("broadcast_to", array)
    shape = canonical_shape(shape)
    if x.shape == shape:
        return x
    new = len(shape) - x.ndim
    sizes = zip(x.shape, shape[builtins.max(new, 0) :], strict=False)
    if new < 0 or builtins.any(a not in (1, b) for a, b in sizes):
        raise ValueError(
            f"Incompatible shapes for broadcasting: {x.shape} and requested {shape}"
        )
    return stretch(x, shape)


def stretch(x, shape):
    """`x` repeated to a shape that it fits."""
    given = x.aval.shape
    new = len(shape) - len(given)
    # Axes of length 1 go first, so that one equation says what is repeated.
    kept = [i for i, size in enumerate(given) if size == shape[new + i]]
    dropped = tuple([i for i in range(len(given)) if i not in kept])
    x = primitives.squeeze(x, dropped) if dropped else x
    dims = tuple([new + i for i in kept])
    return primitives.broadcast_in_dim_p.bind(
        x, shape=shape, broadcast_dimensions=dims
    )


def broadcast_arrays(*args):
    """The arrays broadcast to a common shape, as a list.  JAX: same name."""
    return to_one_shape(arrays("broadcast_arrays", *args))


def to_one_shape(args):
    """`broadcast_arrays` of a list of arrays."""
    shape = joint_shape(tuple([x.aval.shape for x in args]))
    return [x if x.aval.shape == shape else stretch(x, shape) for x in args]


def concatenate(arrays, axis=0, dtype=None):
    """The arrays one after another along an axis.  JAX: `jnp.concatenate`."""
    parts = together("concatenate", arrays, dtype)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    if parts[0].ndim == 0:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonical_axis(axis, parts[0].ndim)
    return parts[0] if len(parts) == 1 else primitives.concatenate(parts, axis)


def stack(arrays, axis=0, out=None, dtype=None):
    """The arrays beside one another along a new axis.  JAX: `jnp.stack`."""
    no_out("stack", out)
    parts = together("stack", arrays, dtype)
    if len({x.shape for x in parts}) > 1:
        shapes = ", ".join(str(x.shape) for x in parts)
        raise ValueError(f"All input arrays must have the same shape: got {shapes}.")
    axis = canonical_axis(axis, parts[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in parts], axis)


def together(name, parts, dtype):
    """A sequence of arrays, or the rows of one, in a common dtype."""
    check_arraylike(name, *parts)
    if not len(parts):
        raise ValueError(f"Need at least one array to {name}.")
    if dtype is not None:
        return [asarray(x, dtype) for x in parts]
    return promote_dtypes(list(parts)) if len(parts) > 1 else [as_array(parts[0])]


# Each reduction: what it is by primitives, and the operation on two values.
reductions = {
    "sum": (primitives.monoids[primitives.add], add),
    "prod": (primitives.monoids[primitives.mul], multiply),
    "max": (primitives.monoids[primitives.max], maximum),
    "min": (primitives.monoids[primitives.min], minimum),
    "all": (primitives.monoids[primitives.bitwise_and], bitwise_and),
    "any": (primitives.monoids[primitives.bitwise_or], bitwise_or),
}


def reduce(name, x, axis, out, keepdims, initial=None, where=None, dtype=None):
    """Reduce `x` along axes by the row `name` of `reductions`."""
    if out is not None:
        no_out(name, out)
    monoid, combine = reductions[name]
    axes = canonical_axes(axis, len(x.aval.shape))
    if initial is None and name in ("max", "min"):
        needs_identity(name, [x.shape[i] for i in axes], where)
    if where is not None:
        x = masked(name, x, where, monoid.identity(x.dtype))
    result = monoid.reduce(x, axes)
    if initial is not None:
        result = combine(convert(initial, result.dtype), result)
    return expand_dims(result, axes) if keepdims and axes else result


def needs_identity(name, sizes, where):
    """`max` and `min` of nothing have no value: raise for them."""
    if where is not None:
        raise ValueError(
            f"reduction operation {name} does not have an identity, so to use a where "
            "mask one has to specify 'initial'"
        )
    if 0 in sizes:
        raise ValueError(
            f"zero-size array to reduction operation {name} which has no identity"
        )


def masked(name, x, mask, value):
    """`x` with `value` where a mask of bools does not hold."""
    mask, = arrays(name, mask)
    if mask.dtype != np.bool_:
        raise ValueError(
            f"jnp.{name}: where must be None or a boolean array; got "
            f"where.dtype={mask.dtype}."
        )
    return choose_where(mask, x, convert(value, x.dtype))


def accumulate_dtype(dtype, name, asked, promote_integers=True):
    """-> (dtype to compute in, dtype of the result) of a sum or product."""
    if asked is not None:
        asked = dtypes.user_dtype(asked, name)
        return asked, asked
    dtype = to_numeric_dtype(dtype)
    if promote_integers and dtype.kind in "iu":
        default = dtypes.default_dtype("signed" if dtype.kind == "i" else "unsigned")
        dtype = default if dtype.itemsize < default.itemsize else dtype
    # Sums of 16-bit floats are kept in 32 bits and rounded once.
    half = dtype.itemsize == 2 and dtype.kind in ("f", "V")
    return np.dtype(np.float32) if half else dtype, dtype


def accumulate(name, a, axis, dtype, out, keepdims, initial, where, promote_integers):
    """What `sum` and `prod` share."""
    x, = arrays(name, a)
    work, dtype = accumulate_dtype(x.dtype, name, dtype, promote_integers)
    logic = {"sum": "any", "prod": "all"}
    row = logic[name] if work == np.bool_ else name
    x = reduce(row, convert(x, work), axis, out, keepdims, initial, where)
    return convert(x, dtype)


def sum(
    a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None,
    promote_integers=True,
):  # fmt: skip
    """The sum over axes, where a mask holds.  JAX: `jnp.sum`.

    Small integers are summed as int32 (uint32) and bools counted, unless `dtype`.
    """
    return accumulate(
        "sum", a, axis, dtype, out, keepdims, initial, where, promote_integers
    )


def prod(
    a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None,
    promote_integers=True,
):  # fmt: skip
    """The product over axes; dtypes as in `sum`.  JAX: `jnp.prod`."""
    return accumulate(
        "prod", a, axis, dtype, out, keepdims, initial, where, promote_integers
    )


def max(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """The greatest value over axes; NaN if there is one.  JAX: `jnp.max`.

    Raises ValueError over nothing without `initial`.
    """
    x, = arrays("max", a)
    return strong(reduce("max", x, axis, out, keepdims, initial, where))


def min(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """The least value over axes; NaN if there is one.  JAX: `jnp.min`."""
    x, = arrays("min", a)
    return strong(reduce("min", x, axis, out, keepdims, initial, where))


def strong(x):
    """The array without its weak type."""
    return convert(x, x.dtype)


def all(a, axis=None, out=None, keepdims=False, *, where=None):
    """Whether all values over axes are nonzero.  JAX: `jnp.all`."""
    x, = arrays("all", a)
    return reduce("all", convert(x, np.bool_), axis, out, keepdims, where=where)


def any(a, axis=None, out=None, keepdims=False, *, where=None):
    """Whether any value over axes is nonzero.  JAX: `jnp.any`."""
    x, = arrays("any", a)
    return reduce("any", convert(x, np.bool_), axis, out, keepdims, where=where)


def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=None):
    """The mean over axes, where a mask holds.  JAX: `jnp.mean`."""
    x, = arrays("mean", a)
    no_out("mean", out)
    given = dtypes.to_inexact_dtype(x.dtype) if dtype is None else dtype
    work, result = accumulate_dtype(given, "mean", dtype)
    total = sum(x, axis, work, keepdims=keepdims, where=where)
    return convert(primitives.div(total, count(x, axis, keepdims, where, work)), result)


def count(x, axis, keepdims, where, dtype):
    """How many values a mean over `axis` is made of."""
    if where is not None:
        mask = broadcast_to(as_array(where), x.shape)
        return sum(mask, axis, dtype, keepdims=keepdims)
    return convert(math.prod(x.shape[i] for i in canonical_axes(axis, x.ndim)), dtype)


def var(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None,
    mean=None, correction=None,
):  # fmt: skip
    """The variance over axes: mean square distance from the mean.  JAX: `jnp.var`."""
    no_out("var", out)
    x, = arrays("var", a)
    if correction is not None and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    work, result = variance_dtypes(x.dtype, dtype)
    x = convert(x, work)
    centre = mean_of(x, axis, work, where) if mean is None else asarray(mean, work)
    distance = subtract(x, centre)
    square = multiply(*[primitives.abs(distance) if work.kind == "c" else distance] * 2)
    total = sum(square, axis, square.dtype, keepdims=keepdims, where=where)
    n = subtract(
        count(x, axis, keepdims, where, total.dtype),
        convert(ddof if correction is None else correction, total.dtype),
    )
    value = convert(primitives.div(*promote_shapes("var", [total, n])), result)
    return choose_where(greater(n, 0), value, nan)


def mean_of(x, axis, dtype, where):
    """The mean, with its axes kept."""
    return mean(x, axis, dtype, keepdims=True, where=where)


def variance_dtypes(dtype, asked):
    """-> (dtype to compute a variance in, dtype of the result)."""
    if asked is not None:
        asked = dtypes.user_dtype(asked, "var")
        if asked == np.bool_:
            raise TypeError("jnp.var: dtype must be a type of numbers, got bool")
        if dtype.kind == "c" and asked.kind != "c":
            raise ValueError("jnp.var of complex values needs a complex dtype")
        return accumulate_dtype(asked, "var", None)[0], asked
    work = accumulate_dtype(dtypes.to_inexact_dtype(dtype), "var", None)[0]
    return work, dtypes.to_floating_dtype(dtype)


def std(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None,
    mean=None, correction=None,
):  # fmt: skip
    """The standard deviation over axes: the root of `var`.  JAX: `jnp.std`."""
    no_out("std", out)
    options = {"where": where, "mean": mean, "correction": correction}
    return sqrt(var(a, axis, dtype, None, ddof, keepdims, **options))


def argmax(a, axis=None, out=None, keepdims=None):
    """The index of the first greatest value; of all values if no axis is given.

    JAX: `jnp.argmax`.  Raises ValueError over nothing.
    """
    return argument("argmax", primitives.argmax, a, axis, out, keepdims)


def argmin(a, axis=None, out=None, keepdims=None):
    """The index of the first least value, as `argmax`.  JAX: `jnp.argmin`."""
    return argument("argmin", primitives.argmin, a, axis, out, keepdims)


def argument(name, operation, a, axis, out, keepdims):
    """What `argmax` and `argmin` share."""
    no_out(name, out)
    x, = arrays(name, a)
    kept = range(x.ndim) if axis is None else canonical_axes(axis, x.ndim)
    x, axis = (ravel(x), 0) if axis is None else (x, kept[0])
    if x.shape[axis] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    result = operation(x, axis, dtypes.default_dtype("signed"))
    return expand_dims(result, tuple(kept)) if keepdims else result


def contract(name, x, y, dimensions, precision, dtype):
    """A `dot_general` whose result has the dtype `dtype`, or the promoted one.

    Args:
      dimensions: the `dimension_numbers`, tuples of ints.
    """
    if dtype is None:
        dtype, weak_type = dtypes.result_type(x, y, return_weak_type_flag=True)
    else:
        dtype, weak_type = dtypes.user_dtype(dtype, name), False
    if precision is not None:
        precision = primitives.canonicalize_precision(precision)
    result = primitives.dot_general_p.bind(
        x,
        y,
        dimension_numbers=dimensions,
        precision=precision,
        preferred_element_type=dtype,
    )
    return convert(result, dtype, weak_type)


def contract_last(name, x, y, precision, dtype):
    """The sum of products over x's last and y's second to last axis."""
    axes = ((), ())
    if x.ndim and y.ndim:
        axes = ((x.ndim - 1,), (y.ndim - 2 if y.ndim > 1 else 0,))
    return contract(name, x, y, (axes, ((), ())), precision, dtype)


def dot(a, b, *, precision=None, preferred_element_type=None):
    """Sum products over a's last and b's second to last axis.  JAX: `jnp.dot`."""
    x, y = arrays("dot", a, b)
    return contract_last("dot", x, y, precision, preferred_element_type)


def tensordot(a, b, axes=2, *, precision=None, preferred_element_type=None):
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


def matmul(a, b, *, precision=None, preferred_element_type=None):
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


def contract_named(name, x, i, y, j, out, precision=None, dtype=None):
    """Sum the products of `x` and `y` over the names that `out` lacks.

    Args:
      i, j: the names of the axes of x and of y, each at most once.
      out: the names of the result's axes.
    """
    dimensions, order = contraction(tuple(i), tuple(j), tuple(out))
    for a, b in zip(*dimensions[1], strict=True):
        if x.shape[a] != y.shape[b]:
            raise ValueError(
                f"Incompatible shapes for {name} arguments: {x.shape} and {y.shape}"
            )
    result = contract(name, x, y, dimensions, precision, dtype)
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


operators |= operator_methods({
    "pow": ("** or pow()", power),
    "matmul": ("@", matmul),
})


def setitem(x, index, value):
    """`x[index] = value`: an error, since arrays are immutable."""
    raise TypeError(
        "minijit arrays are immutable and do not support in-place item assignment. "
        "Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method."
        f"{at_line(user_source())}"
    )


def rows_of(x):
    """`for row in x`, and `a, b = x`."""
    if x.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return iter([x[i] for i in range(x.shape[0])])


def contains(x, value):
    """`value in x`, of an array with one axis."""
    if value is None or isinstance(value, str):
        raise TypeError(f"Array.__contains__: unsupported operand type {type(value)}.")
    query, = arrays("Array.__contains__", value)
    if x.ndim != 1 or query.ndim != 0:
        raise ValueError(
            "Array.__contains__: search array must be one-dimensional and the query a "
            f"scalar, got shapes {x.shape} and {query.shape}"
        )
    return any(equal(x, query))


operators |= {
    "__setitem__": setitem,
    "__iter__": rows_of,
    "__reversed__": lambda x: iter(list(rows_of(x))[::-1]),
    "__contains__": contains,
}


def astype(x, dtype, /, *, copy=False, device=None):
    """The array with another dtype.  JAX: `jnp.astype`."""
    x, = arrays("astype", x)
    dtype = dtypes.user_dtype(float if dtype is None else dtype, "astype")
    if x.dtype.kind == "c" and dtype.kind in "iuf":
        x = primitives.convert(x, np.dtype(f"f{x.dtype.itemsize // 2}"))
    result = convert(x, dtype)
    return primitives.copy_p.bind(x) if copy and result is x else result


def astype_method(x, dtype, copy=False, device=None):
    """`x.astype(dtype)`."""
    return astype(x, dtype, copy=copy)


def reshape_method(x, *shape, order="C", copy=None):
    """`x.reshape(2, 3)`, and `x.reshape((2, 3))`."""
    return reshape(x, shape[0] if len(shape) == 1 else shape, order)


def transpose_method(x, *axes):
    """`x.transpose(1, 0)`, and `x.transpose((1, 0))`."""
    single = len(axes) == 1 and not isinstance(axes[0], int)
    return transpose(x, (axes[0] if single else axes) or None)


def matrix_transpose(x, /):
    """The last two axes swapped.  JAX: `jnp.matrix_transpose`."""
    x, = arrays("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            "x must be at least two-dimensional for matrix_transpose; got "
            f"ndim={x.ndim}"
        )
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def copy(a, order=None):
    """A copy of the array.  JAX: `jnp.copy`."""
    return array(a, copy=True, order=order)


operators |= {
    "astype": astype_method,
    "copy": copy,
    "reshape": reshape_method,
    "transpose": transpose_method,
    "T": property(transpose),
    "mT": property(matrix_transpose),
    "ravel": ravel,
    "flatten": ravel,
    "squeeze": squeeze,
    "nbytes": property(lambda x: x.aval.nbytes),
    "itemsize": property(lambda x: x.dtype.itemsize),
    "block_until_ready": lambda x: x,
}
operators |= {
    "sum": sum,
    "prod": prod,
    "max": max,
    "min": min,
    "all": all,
    "any": any,
    "mean": mean,
    "std": std,
    "var": var,
    "argmax": argmax,
    "argmin": argmin,
    "dot": dot,
}


def inexact_dtype(name, dtype, *args):
    """The dtype asked for, or the floating one that `args` promote to."""
    if dtype is None:
        return dtypes.to_inexact_dtype(dtypes.result_type(*args))
    return dtypes.user_dtype(dtype, name)


def linspace(
    start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *,
    device=None,
):  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop`.  JAX: `jnp.linspace`.

    With `retstep`: -> (numbers, the step between them).
    """
    num = static_int(num, "the argument 'num' of jnp.linspace")
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = arrays("linspace", start, stop)
    dtype = inexact_dtype("linspace", dtype, start, stop)
    work = dtypes.to_inexact_dtype(dtype)
    start, stop = broadcast_arrays(convert(start, work), convert(stop, work))
    intervals = num - bool_of(endpoint)
    numbers = spaced(start, stop, num, intervals, work)
    if dtype.kind in "iu":
        numbers = floor(numbers)
    numbers = moveaxis(convert(numbers, dtype), 0, axis)
    if not retstep:
        return numbers
    if num < 2 and (endpoint or num == 0):
        return numbers, full((), nan, work)
    return numbers, (stop - start) / convert(intervals, work)


def spaced(start, stop, num, intervals, dtype):
    """The numbers of `linspace`, along a new first axis."""
    if num < 2:
        return broadcast_to(start, (num, *start.shape))
    real = dtypes.finfo(dtype).dtype
    t = counting(intervals, real) / convert(intervals, real)
    t = reshape(convert(t, dtype), (intervals, *[1] * start.ndim))
    out = start * (1 - t) + stop * t
    # The last number is `stop` itself, whatever rounding does to the others.
    return out if intervals == num else concatenate([out, stop[None]])


def eye(N, M=None, k=0, dtype=None, *, device=None):
    """Ones on the k-th diagonal of an N by M matrix of zeros.  JAX: `jnp.eye`."""
    dtype = dtypes.user_dtype(float if dtype is None else dtype, "eye")
    shape = canonical_shape((N, N if M is None else M))
    if builtins.min(shape) < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    kind = dtypes.dtype(k)
    if np_shape(k) != () or kind.kind not in "iu":
        raise ValueError(f"k must be a scalar integer; got {k}")
    rows = primitives.broadcasted_iota(kind, shape, 0)
    columns = primitives.broadcasted_iota(kind, shape, 1)
    return convert(rows + convert(k, kind) == columns, dtype)


def along_axis(x, axis, rank):
    """A vector along one of `rank` axes; the others have length 1."""
    return primitives.expand_dims(x, [i for i in range(rank) if i != axis])


def shape(a):
    """The sizes of the axes, as a tuple of ints.  JAX: `jnp.shape`."""
    if hasattr(a, "shape"):
        return a.shape
    x, = arrays("shape", a)
    return x.shape


def ndim(a):
    """How many axes there are.  JAX: `jnp.ndim`."""
    return len(shape(a))


def size(a, axis=None):
    """How many elements there are, or how many along axes.  JAX: `jnp.size`."""
    sizes = shape(a)
    return math.prod(sizes[i] for i in canonical_axes(axis, len(sizes)))


def np_shape(x):
    """The shape of an array or a number."""
    return shape(x)


def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where |a - b| <= atol + rtol |b|.  JAX: `jnp.isclose`."""
    x, y = promote_args_inexact("isclose", a, b)
    work = dtypes.finfo(x.dtype).dtype
    rtol, atol = convert(rtol, work), convert(atol, work)
    size = primitives.abs(y)
    near = (primitives.abs(x - y) <= atol + rtol * size) & (size != inf)
    close = (x == y) | near
    return close | (isnan(x) & isnan(y)) if equal_nan else close


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close, as `isclose` says.  JAX: `jnp.allclose`."""
    return all(isclose(a, b, rtol, atol, equal_nan))
