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
import builtins
from functools import lru_cache

import numpy as np

from .trace import dtypes, primitives
from .trace.array import (
    ArrayImpl,
    ShapedArray,
    aval_of,
    quiet,
    scalar_aval,
    to_numpy,
    wrap,
)
from .trace.core import Array, operators

ndarray = Array


def check_arraylike(name, *args):
    """Raise TypeError unless all arguments of the function `name` are arrays."""
    for position, x in enumerate(args):
        if isinstance(x, (Array, np.ndarray)) or type(x) in dtypes.python_scalars:
            continue
        if hasattr(x, "__jax_array__"):
            continue
        if isinstance(x, (str, bytes)) or not np.isscalar(x):
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at "
                f"position {position}."
            )


def unwrapped(x):
    """What `x.__jax_array__()` gives where there is that method, else `x` itself."""
    if isinstance(x, Array) or not hasattr(x, "__jax_array__"):
        return x
    return x.__jax_array__()


def as_array(x):
    """An array, a NumPy array (which is copied) or a number, as an array."""
    x = unwrapped(x)
    if isinstance(x, Array):
        return x
    dtypes.dtype(x)
    aval = aval_of(x)
    return ArrayImpl(to_numpy(x, aval), aval)


def arrays(name, *args):
    """The arguments of the function `name` as a list of arrays."""
    for x in args:
        if not isinstance(x, Array):
            break
    else:
        return list(args)
    check_arraylike(name, *args)
    return [as_array(x) for x in args]


def convert(x, dtype, weak_type=False):
    """`x` as an array of exactly this dtype and weakness: itself if it is one."""
    if not isinstance(x, Array):
        # A number is converted once, here, and not again by each run of a program.
        value = quiet.copy().run(known_value, x, dtypes.storage_of(dtype))
        if value.shape:
            aval = ShapedArray(value.shape, dtypes.as_dtype(dtype), weak_type)
        else:
            aval = scalar_aval(dtypes.as_dtype(dtype), weak_type)
        return ArrayImpl(value, aval)
    aval = x.aval
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return primitives.convert_element_type_p.bind(
        x, new_dtype=dtypes.as_dtype(dtype), weak_type=weak_type
    )


def known_value(x, dtype):
    """The NumPy value of what is no array of ours, in a dtype."""
    if type(x) is float and dtype == np.float32:
        return np.array(x, dtype)
    if dtypes.is_python_scalar(x):
        # First in the dtype of its kind, which an int has to fit, or else that asked.
        fits = type(x) is int and dtypes.holds_int(dtype, x)
        value = np.array(x, dtype if fits else dtypes.scalar_dtype(x))
    else:
        value = as_array(x).numpy()
    return value if value.dtype == dtype else value.astype(dtype)


@lru_cache(maxsize=4096)
def joint_shape(shapes):
    """The shape that all of `shapes` broadcast to, or a ValueError.

    Args:
      shapes: a tuple of tuples of ints.
    """
    rank = builtins.max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        size = next((s for s in sizes if s != 1), 1)
        if builtins.any(s not in (1, size) for s in sizes):
            text = ", ".join(map(str, shapes))
            raise ValueError(f"Incompatible shapes for broadcasting: shapes=[{text}]")
        result.append(size)
    return tuple(result)


def promote_shapes(name, args):
    """Leading axes of length 1, so that all arrays with axes have as many."""
    if len({len(x.aval.shape) for x in args if x.aval.shape}) < 2:
        return args
    try:
        rank = len(joint_shape(tuple(x.shape for x in args)))
    except ValueError:
        text = ", ".join(str(x.shape) for x in args)
        message = f"{name} got incompatible shapes for broadcasting: {text}."
        raise ValueError(message) from None
    return [x if x.ndim in (0, rank) else expand_to(x, rank) for x in args]


def expand_to(x, rank):
    """Leading axes of length 1, up to `rank` axes."""
    return primitives.expand_dims(x, range(rank - x.ndim))


def promote_dtypes(args, family=None):
    """All of `args` in the dtype that they promote to together.

    Args:
      family: maps that dtype to the one to compute in (`dtypes.to_inexact_dtype`).
    """
    if family is None and alike(args):
        return list(args)
    return promote_unlike(args, family)


def promote_unlike(args, family=None):
    """As `promote_dtypes`, for arguments that are not `alike`."""
    args = [x if isinstance(x, Array) else unwrapped(x) for x in args]
    dtype, weak_type = dtypes.lattice_result_type(*args)
    dtype = family(dtype) if family else dtype
    return [convert(x, dtype, weak_type) for x in args]


def alike(args):
    """Whether `args` are arrays of one strong dtype, and of one rank or scalars."""
    dtype, rank = None, 0
    for x in args:
        if not isinstance(x, Array) or x.aval.weak_type:
            return False
        aval = x.aval
        # NumPy takes None for float64 where it compares dtypes.
        if dtype is not None and aval.dtype != dtype:
            return False
        if rank and aval.shape and len(aval.shape) != rank:
            return False
        dtype, rank = aval.dtype, rank or len(aval.shape)
    return True


def promote_args(name, *args):
    """The arguments of the function `name` in one dtype, with equally many axes."""
    if alike(args):
        return args
    check_arraylike(name, *args)
    try:
        args = promote_unlike(args)
    except ValueError:
        reject_extended(name, args)
        raise
    return promote_shapes(name, args)


def reject_extended(name, args):
    """Raise TypeError if some of the dtypes are not NumPy's: there is no arithmetic."""
    for x in args:
        if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDtype):
            found = [dtypes.dtype(x) for x in args]
            text = ", ".join(d.name for d in found)
            plural = "s" * (len(found) > 1)
            message = f"{name} does not accept dtype{plural} {text}."
            raise TypeError(message) from None


def promote_args_inexact(name, *args):
    """As `promote_args`, in a floating or complex type."""
    if alike(args) and args[0].aval.dtype.kind in ("f", "c"):
        return args
    check_arraylike(name, *args)
    reject_extended(name, args)
    return promote_shapes(name, promote_dtypes(args, dtypes.to_inexact_dtype))


def unary(name, operation, promote=promote_args_inexact):
    """The function `name` of one array: promote, then bind."""

    def function(x, /):
        return operation(*promote(name, x))

    return named(function, name)


def binary(name, operation, promote=promote_args):
    """The function `name` of two arrays: promote, broadcast, then bind."""

    def function(x, y, /):
        return operation(*promote(name, x, y))

    return named(function, name)


def named(function, name):
    """Give a function made by another one its name and a docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Elementwise `{name}`.  JAX: `jnp.{name}`."
    return function


exp = unary("exp", primitives.exp)
log = unary("log", primitives.log)
sin = unary("sin", primitives.sin)
cos = unary("cos", primitives.cos)
tanh = unary("tanh", primitives.tanh)
sqrt = unary("sqrt", primitives.sqrt)
negative = unary("negative", primitives.neg, promote_args)
positive = unary("positive", as_array, promote_args)
sign = unary("sign", primitives.sign, promote_args)
invert = unary("invert", primitives.bitwise_not, promote_args)
bitwise_not = unary("bitwise_not", primitives.bitwise_not, promote_args)

subtract = binary("subtract", primitives.sub)
true_divide = binary("true_divide", primitives.div, promote_args_inexact)
divide = binary("divide", primitives.div, promote_args_inexact)
maximum = binary("maximum", primitives.max)
minimum = binary("minimum", primitives.min)
equal = binary("equal", primitives.eq)
not_equal = binary("not_equal", primitives.ne)
bitwise_and = binary("bitwise_and", primitives.bitwise_and)
bitwise_or = binary("bitwise_or", primitives.bitwise_or)
bitwise_xor = binary("bitwise_xor", primitives.bitwise_xor)


def add(x, y, /):
    """Elementwise sum; `or` of bools.  JAX: `jnp.add`."""
    x, y = promote_args("add", x, y)
    return (primitives.bitwise_or if x.dtype.kind == "b" else primitives.add)(x, y)


def multiply(x, y, /):
    """Elementwise product; `and` of bools.  JAX: `jnp.multiply`."""
    x, y = promote_args("multiply", x, y)
    return (primitives.bitwise_and if x.dtype.kind == "b" else primitives.mul)(x, y)


def absolute(x, /):
    """Elementwise |x|, real for complex x.  JAX: `jnp.absolute`."""
    x, = arrays("absolute", x)
    return x if x.dtype.kind in "bu" else primitives.abs(x)


abs = absolute

# How complex numbers are ordered needs their parts, which are brought along.
complex_order = {}


def comparison(name, operation):
    """The function `name` that orders two arrays."""

    def function(x, y, /):
        x, y = promote_args(name, x, y)
        if x.dtype.kind == "c" and complex_order:
            return complex_order["lexicographic"](operation, x, y)
        return operation(x, y)

    return named(function, name)


less = comparison("less", primitives.lt)
less_equal = comparison("less_equal", primitives.le)
greater = comparison("greater", primitives.gt)
greater_equal = comparison("greater_equal", primitives.ge)


operands = Array, int, float, complex, np.generic, np.ndarray


def operator_with(name, function, swap=False):
    """The method of an operator: NotImplemented for what is no array or number."""

    def method(self, other):
        if not isinstance(other, operands):
            other = unwrapped(other)
        if not isinstance(other, operands):
            # Where NumPy would take a list for an array, JAX and minijit do not.
            if isinstance(other, (list, tuple, set, dict)):
                raise TypeError(
                    f"unsupported operand type(s) for {name}: 'Array' and "
                    f"{type(other).__name__!r}. Convert it with jnp.asarray(...)."
                )
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
operators |= {
    "__eq__": operator_with("==", equal),
    "__ne__": operator_with("!=", not_equal),
    "__lt__": operator_with("<", less),
    "__le__": operator_with("<=", less_equal),
    "__gt__": operator_with(">", greater),
    "__ge__": operator_with(">=", greater_equal),
    "__neg__": negative,
    "__pos__": positive,
    "__abs__": absolute,
    "__invert__": invert,
}


# chapter 2, brought along
import math
import operator
from collections import namedtuple
from types import SimpleNamespace

from .trace import einsum as einstein, elementwise, indexing, sorting, windows
from .trace.core import Tracer
from .trace.dtypes import (
    bfloat16 as bfloat16,
    bool_ as bool_,
    complex64 as complex64,
    complex128 as complex128,
    complexfloating as complexfloating,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    floating as floating,
    generic as generic,
    iinfo as iinfo,
    inexact as inexact,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    integer as integer,
    isdtype as isdtype,
    issubdtype as issubdtype,
    number as number,
    promote_types as promote_types,
    result_type as result_type,
    scalar_makers,
    signedinteger as signedinteger,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    unsignedinteger as unsignedinteger,
)
from .trace.errors import ConcretizationTypeError, at_line, user_source

pi, e, euler_gamma = math.pi, math.e, float(np.euler_gamma)
inf, nan, newaxis = math.inf, math.nan, None
bool = bool_
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning


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


def concrete(x, what, advice):
    """The NumPy value of `x`, which decides what the function `what` does.

    Raises ConcretizationTypeError where `x` is traced, with `advice`.
    """
    if not isinstance(x, Tracer):
        return np.asarray(x)
    try:
        return x.concrete("numpy").numpy()
    except TypeError:
        raise ConcretizationTypeError(
            f"{what} must be known while the function is traced, got a traced value "
            f"of type {x.aval}.{x.origin()}{at_line(user_source())}\n"
            f"  Instead: {advice}"
        ) from None


static = "mark the argument it comes from with static_argnums or static_argnames."


def static_int(x, what):
    """A size or an axis as an int; a traced one raises."""
    x = concrete(x, what, static)[()] if isinstance(x, Tracer) else x
    try:
        return operator.index(x)
    except TypeError:
        raise TypeError(f"{what} must be an integer, got {x!r}") from None


def canonical_shape(shape):
    """A shape, or a single size, as a tuple of ints.

    Raises TypeError for traced and for fractional sizes.
    """
    single = not isinstance(shape, (tuple, list)) and getattr(shape, "ndim", 0) == 0
    sizes = (shape,) if single and not hasattr(shape, "__next__") else shape
    try:
        return tuple(map(operator.index, sizes))
    except TypeError:
        raise shape_error(sizes) from None


def shape_error(sizes):
    """The TypeError for a shape that is not made of known integers."""
    origins = {x.origin() for x in sizes if isinstance(x, Tracer)}
    return TypeError(
        "Shapes must be 1D sequences of concrete values of integer type, got "
        f"{tuple(sizes)}.{''.join(sorted(origins))}{at_line(user_source())}\n"
        f"  Instead: if using `jit`, {static} Arithmetic on `x.shape` of an array is "
        "always known, with plain `np`."
    )


def canonical_axis(axis, ndim):
    """An axis counted from the front.  Raises ValueError where there is none."""
    axis = static_int(axis, "an axis")
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def canonical_axes(axis, ndim):
    """One axis, several or None (all of them), as a tuple counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    several = isinstance(axis, (tuple, list)) or getattr(axis, "ndim", 0)
    axes = tuple(canonical_axis(a, ndim) for a in (axis if several else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def no_out(name, out):
    """NumPy's `out=` writes into an array; arrays here are immutable."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


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


# `where` with one argument looks for indices: the part brought along adds that.
one_argument = {}


def where(condition, x=None, y=None, /, *, size=None, fill_value=None):
    """x where the condition holds, else y; all broadcast.  JAX: `jnp.where`.

    With the condition alone: the indices where it holds, as `nonzero` gives them.
    """
    if x is None and y is None:
        return one_argument["where"](condition, size=size, fill_value=fill_value)
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


# Each reduction: the primitive, the operation on two values, and on no value.
reductions = {
    "sum": (primitives.reduce_sum, add, lambda dtype: 0),
    "prod": (primitives.reduce_prod, multiply, lambda dtype: 1),
    "max": (primitives.reduce_max, maximum, lambda dtype: extreme(dtype, -inf)),
    "min": (primitives.reduce_min, minimum, lambda dtype: extreme(dtype, inf)),
    "all": (primitives.reduce_and, bitwise_and, lambda dtype: True),
    "any": (primitives.reduce_or, bitwise_or, lambda dtype: False),
}


def extreme(dtype, infinity):
    """The least value of a dtype for -inf, the greatest for inf."""
    if dtype.kind in "iu":
        limits = dtypes.iinfo(dtype)
        return int(limits.min if infinity < 0 else limits.max)
    return infinity > 0 if dtype == np.bool_ else infinity


def reduce(name, x, axis, out, keepdims, initial=None, where=None, dtype=None):
    """Reduce `x` along axes by the row `name` of `reductions`."""
    if out is not None:
        no_out(name, out)
    operation, combine, identity = reductions[name]
    axes = canonical_axes(axis, len(x.aval.shape))
    if initial is None and name in ("max", "min"):
        needs_identity(name, [x.shape[i] for i in axes], where)
    if where is not None:
        x = masked(name, x, where, identity(x.dtype))
    result = operation(x, axes)
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


def empty(shape, dtype=None, *, device=None):
    """As `zeros`: nothing here is ever uninitialised.  JAX: `jnp.empty`."""
    return constant(shape, 0, dtype, "empty")


def empty_like(prototype, dtype=None, shape=None, *, device=None):
    """As `zeros_like`.  JAX: `jnp.empty_like`."""
    return full_like(prototype, 0, dtype, shape)


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
        numbers = elementwise.floor(numbers)
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


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """`base` to the power of evenly spaced numbers.  JAX: `jnp.logspace`."""
    dtype = inexact_dtype("logspace", dtype, start, stop)
    work = dtypes.to_inexact_dtype(dtype)
    start, stop = [convert(x, work) for x in arrays("logspace", start, stop)]
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    return convert(power(base, exponents), dtype)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """`num` numbers with a constant ratio from start to stop.  JAX: `jnp.geomspace`."""
    dtype = inexact_dtype("geomspace", dtype, start, stop)
    work = dtypes.to_inexact_dtype(dtype)
    start, stop = [convert(x, work) for x in arrays("geomspace", start, stop)]
    direction = sign(start)
    ends = log10(start / direction), log10(stop / direction)
    numbers = direction * logspace(*ends, num, endpoint, dtype=work)
    return convert(moveaxis(numbers, 0, axis), dtype)


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


def identity(n, dtype=None):
    """The n by n identity matrix.  JAX: `jnp.identity`."""
    return eye(n, dtype=dtype)


def tri(N, M=None, k=0, dtype=None):
    """Ones on and below the k-th diagonal of an N by M matrix.  JAX: `jnp.tri`."""
    dtype = dtypes.user_dtype(np.float32 if dtype is None else dtype, "tri")
    shape = canonical_shape((N, N if M is None else M))
    k = static_int(k, "the argument 'k' of jnp.tri") if not isinstance(k, Tracer) else k
    rows = primitives.broadcasted_iota(np.dtype(np.int32), shape, 0)
    columns = primitives.broadcasted_iota(np.dtype(np.int32), shape, 1)
    return convert(rows + k >= columns, dtype)


def triangle(name, m, k):
    """The mask of the lower triangle up to diagonal k, and `m` as an array."""
    m, = arrays(name, m)
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
    return broadcast_to(tri(*m.shape[-2:], k=k, dtype=np.bool_), m.shape), m


def tril(m, k=0):
    """The matrix with zeros above the k-th diagonal.  JAX: `jnp.tril`."""
    mask, m = triangle("tril", m, k)
    return primitives.select(mask, m, zeros_like(m))


def triu(m, k=0):
    """The matrix with zeros below the k-th diagonal.  JAX: `jnp.triu`."""
    mask, m = triangle("triu", m, k - 1)
    return primitives.select(mask, zeros_like(m), m)


def mask_indices(n, mask_func, k=0, *, size=None):
    """Where `mask_func(ones((n, n)), k)` is not zero.  JAX: `jnp.mask_indices`."""
    i, j = nonzero(mask_func(ones((n, n)), k), size=size)
    return i, j


def triangle_indices(name, mask_of, n, k, m):
    """The indices where a triangle of ones is, which is known without a tracer."""
    n = static_int(n, f"the argument 'n' of jnp.{name}")
    m = n if m is None else static_int(m, f"the argument 'm' of jnp.{name}")
    k = static_int(k, f"the argument 'k' of jnp.{name}")
    i, j = np.nonzero(mask_of(np.ones((n, m)), k))
    return asarray(i, dtype=int), asarray(j, dtype=int)


def tril_indices(n, k=0, m=None):
    """-> (rows, columns) of the lower triangle.  JAX: `jnp.tril_indices`."""
    return triangle_indices("tril_indices", np.tril, n, k, m)


def triu_indices(n, k=0, m=None):
    """-> (rows, columns) of the upper triangle.  JAX: `jnp.triu_indices`."""
    return triangle_indices("triu_indices", np.triu, n, k, m)


def tril_indices_from(arr, k=0):
    """`tril_indices` for the shape of a matrix.  JAX: `jnp.tril_indices_from`."""
    n, m = matrix_shape(arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr, k=0):
    """`triu_indices` for the shape of a matrix.  JAX: `jnp.triu_indices_from`."""
    n, m = matrix_shape(arr)
    return triu_indices(n, k, m)


def matrix_shape(x):
    """The shape of a matrix."""
    if len(shape(x)) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return shape(x)


def diag_indices(n, ndim=2):
    """The indices of the diagonal of an n by n by ... array.  JAX: same name."""
    n = static_int(n, "the argument 'n' of jnp.diag_indices")
    ndim = static_int(ndim, "the argument 'ndim' of jnp.diag_indices")
    for name, value in (("n", n), ("ndim", ndim)):
        if value < 0:
            raise ValueError(
                f"{name} argument to diag_indices must be nonnegative, got {value}"
            )
    return (arange(n),) * ndim


def diag_indices_from(arr):
    """`diag_indices` for an array with equal sizes.  JAX: same name."""
    arr, = arrays("diag_indices_from", arr)
    if arr.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(arr.shape[0], arr.ndim)


def diagonal(a, offset=0, axis1=0, axis2=1):
    """The diagonal of two axes, as the last axis.  JAX: `jnp.diagonal`."""
    a, = arrays("diagonal", a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    offset = static_int(offset, "the argument 'offset' of jnp.diagonal")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    below, right = builtins.max(-offset, 0), builtins.max(offset, 0)
    size = builtins.max(0, builtins.min(rows - below, columns - right))
    return a[..., arange(below, below + size), arange(right, right + size)]


def diag(v, k=0):
    """The k-th diagonal of a matrix, or the matrix with that diagonal.

    JAX: `jnp.diag`.  Raises ValueError unless v has one or two axes.
    """
    v, = arrays("diag", v)
    k = static_int(k, "the argument 'k' of jnp.diag")
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("diag input must be 1d or 2d")
    n = v.shape[0] + builtins.abs(k)
    zero = full_like(v, 0, shape=())
    widths = [(builtins.max(0, -k), builtins.max(0, k), 0)]
    values = indexing.pad(v, zero, widths)
    return choose_where(eye(n, k=k, dtype=np.bool_), values[:, None], zero)


def diagflat(v, k=0):
    """The matrix with all elements of `v` on its k-th diagonal.  JAX: same name."""
    v, = arrays("diagflat", v)
    return strong(diag(ravel(v), k))


def fill_diagonal(a, val, wrap=False, *, inplace=True):
    """The array with `val` on its diagonal.  JAX: `jnp.fill_diagonal`.

    Raises NotImplementedError unless `inplace=False`: arrays are immutable.
    """
    not_in_place("fill_diagonal", inplace)
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a, val = arrays("fill_diagonal", a, val)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    n = builtins.min(a.shape)
    if val.ndim:
        val = resize(val, (n,))
    return a.at[diag_indices(n, a.ndim)].set(val)


def not_in_place(name, inplace):
    """NumPy's functions that change their argument have a pure form here."""
    if inplace:
        raise NotImplementedError(
            f"minijit arrays are immutable, must use inplace=False in jnp.{name}: it "
            "returns the changed array"
        )


def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Coordinate arrays from coordinate vectors, as a list.  JAX: `jnp.meshgrid`."""
    args = arrays("meshgrid", *xi)
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(
            f"Valid values for indexing are 'xy' and 'ij', got {indexing}"
        )
    if builtins.any(x.ndim != 1 for x in args):
        shapes = [x.shape for x in args]
        raise ValueError(f"Arguments to jax.numpy.meshgrid must be 1D, got {shapes}")
    swap = indexing == "xy" and len(args) > 1
    args[:2] = args[:2][::-1] if swap else args[:2]
    grids = [along_axis(x, i, len(args)) for i, x in enumerate(args)]
    if not sparse:
        grids = [broadcast_to(x, [y.size for y in args]) for x in grids]
    grids[:2] = grids[:2][::-1] if swap else grids[:2]
    return grids


def along_axis(x, axis, rank):
    """A vector along one of `rank` axes; the others have length 1."""
    return primitives.expand_dims(x, [i for i in range(rank) if i != axis])


def ix_(*args):
    """Index vectors, each along an axis of its own.  JAX: `jnp.ix_`."""
    args = arrays("ix", *args)
    for x in args:
        if x.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {x.shape}"
            )
        if x.dtype == np.bool_:
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_")
    args = [x if x.size else zeros(0, int) for x in args]
    return tuple(along_axis(x, i, len(args)) for i, x in enumerate(args))


def indices(dimensions, dtype=None, sparse=False):
    """For each axis of a grid, the index along it.  JAX: `jnp.indices`.

    One array with a new first axis, or a tuple of arrays with `sparse`.
    """
    dtype = dtypes.user_dtype(int if dtype is None else dtype, "indices")
    sizes = canonical_shape(tuple(dimensions))
    counts = [counting(size, dtype) for size in sizes]
    grids = [along_axis(x, i, len(sizes)) for i, x in enumerate(counts)]
    if sparse:
        return tuple(grids)
    grids = [broadcast_to(x, sizes) for x in grids]
    return stack(grids) if grids else zeros(0, dtype)


class Grid:
    """`jnp.mgrid[0:3, 0:1:5j]`: coordinate arrays from slices; `ogrid`: sparse ones."""

    def __init__(self, name, sparse):
        self.name = name
        self.sparse = sparse

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        axes = promote_dtypes([slice_values(k) for k in keys])
        if not isinstance(key, tuple):
            return axes[0]
        grids = meshgrid(*axes, indexing="ij", sparse=self.sparse)
        return grids if self.sparse else stack(grids)


def slice_values(s):
    """The numbers that a slice stands for; an imaginary step says how many."""
    start = 0 if s.start is None else s.start
    step = 1 if s.step is None else s.step
    if isinstance(step, complex):
        return linspace(start, s.stop, int(builtins.abs(step)))
    return arange(start, s.stop, step)


mgrid, ogrid = Grid("mgrid", sparse=False), Grid("ogrid", sparse=True)


class Joiner:
    """`jnp.r_[1:4, 0, x]`: join slices, numbers and arrays; `c_`: as columns."""

    def __init__(self, axis, rank, trans1d):
        self.options = axis, rank, trans1d

    def __getitem__(self, key):
        keys = list(key) if isinstance(key, tuple) else [key]
        axis, rank, trans1d = self.options
        if keys and isinstance(keys[0], str):
            numbers = [int(n) for n in keys.pop(0).split(",")]
            axis, rank, trans1d = (*numbers, *self.options[len(numbers) :])
        return concatenate([self.part(k, rank, trans1d) for k in keys], axis)

    def part(self, key, rank, trans1d):
        """One operand, with `rank` axes at least; `trans1d` places its own."""
        x = slice_values(key) if isinstance(key, slice) else asarray(key)
        x = x if x.ndim else expand_to(x, 1) if rank <= 1 else x
        new = rank - x.ndim
        if new <= 0:
            return x
        if trans1d < 0:
            return expand_to(x, rank)
        place = builtins.min(trans1d, new) if x.ndim else 0
        kept = range(place, place + x.ndim)
        return primitives.expand_dims(x, [i for i in range(rank) if i not in kept])


r_, c_ = Joiner(0, 1, -1), Joiner(-1, 2, 0)


class IndexExpression:
    """`jnp.s_[1:3, ...]`: the index itself, to be used later."""

    def __init__(self, always_tuple):
        self.always_tuple = always_tuple

    def __getitem__(self, index):
        as_tuple = self.always_tuple and not isinstance(index, tuple)
        return (index,) if as_tuple else index


s_, index_exp = IndexExpression(False), IndexExpression(True)


def frombuffer(buffer, dtype=float, count=-1, offset=0):
    """An array with the bytes of a buffer.  JAX: `jnp.frombuffer`."""
    return asarray(np.frombuffer(buffer, dtype, count, offset))


def fromstring(string, dtype=float, count=-1, *, sep):
    """An array of the numbers written in a string.  JAX: `jnp.fromstring`."""
    return asarray(np.fromstring(string, dtype, count, sep=sep))


def from_dlpack(x, /, *, device=None, copy=None):
    """An array from another library, through DLPack.  JAX: `jnp.from_dlpack`."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"from_dlpack needs an array with a method __dlpack__, got {x!r} of type "
            f"{type(x).__name__}"
        )
    return asarray(np.from_dlpack(x))


def fromfunction(function, shape, *, dtype=float, **kwargs):
    """`function` of the indices of each element, all at once.  JAX: same name.

    The function is applied to arrays of indices, so it must be elementwise.
    """
    sizes = canonical_shape(shape)
    return function(*indices(sizes, dtype, sparse=False), **kwargs)


def vander(x, N=None, increasing=False):
    """The powers of each x as a row of a matrix.  JAX: `jnp.vander`."""
    x, = arrays("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    N = x.shape[0] if N is None else static_int(N, "the argument 'N' of jnp.vander")
    if N < 0:
        raise ValueError("N must be nonnegative")
    exponents = counting(N, x.dtype)
    exponents = exponents if increasing else convert(N - 1, x.dtype) - exponents
    return power(x[:, None], exponents[None])


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


tan = unary("tan", elementwise.tan)
arcsin = unary("arcsin", elementwise.asin)
arccos = unary("arccos", elementwise.acos)
arctan = unary("arctan", elementwise.atan)
sinh = unary("sinh", elementwise.sinh)
cosh = unary("cosh", elementwise.cosh)
arcsinh = unary("arcsinh", elementwise.asinh)
arctanh = unary("arctanh", elementwise.atanh)
expm1 = unary("expm1", elementwise.expm1)
log1p = unary("log1p", elementwise.log1p)
exp2 = unary("exp2", elementwise.exp2)
cbrt = unary("cbrt", elementwise.cbrt)
square = unary("square", elementwise.square, promote_args_numeric)
arctan2 = binary("arctan2", elementwise.atan2, promote_args_inexact)
nextafter = binary("nextafter", elementwise.nextafter, promote_args_inexact)
float_power = binary("float_power", primitives.pow, promote_args_inexact)
left_shift = binary("left_shift", elementwise.shift_left, promote_args_numeric)
bitwise_left_shift = left_shift
bitwise_invert = invert


def arccosh(x, /):
    """Elementwise inverse of `cosh`.  JAX: `jnp.arccosh`."""
    x, = promote_args_inexact("arccosh", x)
    result = elementwise.acosh(x)
    if result.dtype.kind != "c":
        return result
    return choose_where(real(result) < 0, -result, result)


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def right_shift(x1, x2, /):
    """Elementwise x1 >> x2; the sign of signed integers is kept.  JAX: same name."""
    x, n = promote_args_numeric("right_shift", x1, x2)
    unsigned = x.dtype.kind == "u"
    shift = (
        elementwise.shift_right_logical
        if unsigned
        else elementwise.shift_right_arithmetic
    )
    return shift(x, n)


bitwise_right_shift = right_shift


def bitwise_count(x, /):
    """How many bits of |x| are set, as uint8.  JAX: `jnp.bitwise_count`."""
    x, = promote_args_numeric("bitwise_count", x)
    return convert(elementwise.population_count(absolute(x)), np.uint8)


def fabs(x, /):
    """Elementwise |x| as a float.  JAX: `jnp.fabs`."""
    x, = promote_args_inexact("fabs", x)
    if x.dtype.kind == "c":
        raise TypeError("ufunc 'fabs' does not support complex dtypes")
    return primitives.abs(x)


def rounding(name, operation):
    """The function `name` that rounds floats and leaves integers as they are."""

    def function(x, /):
        x, = arrays(name, x)
        return x if x.dtype.kind in "biu" else operation(x)

    return named(function, name)


floor = rounding("floor", elementwise.floor)
ceil = rounding("ceil", elementwise.ceil)
trunc = rounding("trunc", lambda x: choose_where(x < 0, ceil(x), floor(x)))


def rint(x, /):
    """The nearest integer, as a float; halves to even.  JAX: `jnp.rint`."""
    x, = arrays("rint", x)
    if x.dtype.kind in "biu":
        return convert(x, dtypes.default_dtype("floating"))
    if x.dtype.kind == "c":
        return elementwise.complex(rint(real(x)), rint(imag(x)))
    return round_to_even(x)


def round_to_even(x):
    """The nearest integer of floats; halves to even."""
    return elementwise.round(x, elementwise.RoundingMethod.TO_NEAREST_EVEN)


def round(a, decimals=0, out=None):
    """Rounded to a number of decimals; halves to even.  JAX: `jnp.round`."""
    no_out("round", out)
    x, = arrays("round", a)
    decimals = static_int(decimals, "the argument 'decimals' of jnp.round")
    if x.dtype.kind in "iu":
        if decimals < 0:
            raise NotImplementedError("jnp.round of integers with decimals < 0")
        return x
    if x.dtype.kind == "c":
        return elementwise.complex(round(real(x), decimals), round(imag(x), decimals))
    if decimals > math.log10(float(dtypes.finfo(x.dtype).max)):
        return x
    return round_to_even(x) if decimals == 0 else round_decimals(x, decimals)


def round_decimals(x, decimals):
    """`round` of floats, by scaling them."""
    work = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
    scaled = convert(x, work, x.weak_type)
    factor = convert(10.0**decimals, work, x.weak_type)
    rounded = round_to_even(scaled * factor) / factor
    return convert(rounded, x.dtype, x.weak_type)


around = round


def real(val, /):
    """The real part.  JAX: `jnp.real`."""
    x, = arrays("real", val)
    return elementwise.real(x) if x.dtype.kind == "c" else x


def imag(val, /):
    """The imaginary part; 0 for real x.  JAX: `jnp.imag`."""
    x, = arrays("imag", val)
    return elementwise.imag(x) if x.dtype.kind == "c" else zeros_like(x)


def conjugate(x, /):
    """The complex conjugate.  JAX: `jnp.conjugate`."""
    x, = arrays("conjugate", x)
    return elementwise.conj(x) if x.dtype.kind == "c" else x


conj = conjugate


def lexicographic(operation, x, y):
    """Order complex numbers by their real parts, then by their imaginary parts."""
    x, y = broadcast_arrays(x, y)
    same = primitives.eq(real(x), real(y))
    first = operation(real(x), real(y))
    return primitives.select(same, operation(imag(x), imag(y)), first)


complex_order |= {"lexicographic": lexicographic}


def angle(z, deg=False):
    """The angle of complex numbers, in radians or degrees.  JAX: `jnp.angle`."""
    z, = arrays("angle", z)
    x, y = real(z), imag(z)
    if x.dtype.kind in "biu" or (z.dtype.kind == "f" and z.ndim == 0):
        default = dtypes.default_dtype("floating")
        x, y = convert(x, default), convert(y, default)
    result = elementwise.atan2(y, x)
    return degrees(result) if deg else result


def isfinite(x, /):
    """Where x is neither infinite nor NaN.  JAX: `jnp.isfinite`."""
    x, = arrays("isfinite", x)
    if x.dtype.kind == "c":
        return isfinite(real(x)) & isfinite(imag(x))
    known = x.dtype.kind in "biu"
    return full(x.shape, True) if known else elementwise.is_finite(x)


def isinf(x, /):
    """Where x is infinite.  JAX: `jnp.isinf`."""
    x, = arrays("isinf", x)
    if x.dtype.kind == "c":
        return isinf(real(x)) | isinf(imag(x))
    if x.dtype.kind in "biu":
        return full(x.shape, False)
    size = primitives.abs(x)
    return primitives.eq(size, convert(inf, size.dtype))


def isposinf(x, /, out=None):
    """Where x is +infinity.  JAX: `jnp.isposinf`."""
    return is_infinity("isposinf", x, inf, out)


def isneginf(x, /, out=None):
    """Where x is -infinity.  JAX: `jnp.isneginf`."""
    return is_infinity("isneginf", x, -inf, out)


def is_infinity(name, x, infinity, out):
    """What `isposinf` and `isneginf` share."""
    no_out(name, out)
    x, = arrays(name, x)
    if x.dtype.kind == "c":
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    if x.dtype.kind in "biu":
        return full(x.shape, False)
    return primitives.eq(x, convert(infinity, x.dtype))


def iscomplex(x):
    """Where the imaginary part is not zero.  JAX: `jnp.iscomplex`."""
    y = imag(x)
    return primitives.ne(y, like(y, 0))


def isreal(x):
    """Where the imaginary part is zero.  JAX: `jnp.isreal`."""
    y = imag(x)
    return primitives.eq(y, like(y, 0))


def iscomplexobj(x):
    """Whether x has a complex dtype.  JAX: `jnp.iscomplexobj`."""
    return x is not None and not isinstance(x, str) and dtype_kind(x) == "c"


def isrealobj(x):
    """Whether x has a dtype that is not complex.  JAX: `jnp.isrealobj`."""
    return not iscomplexobj(x)


def dtype_kind(x):
    """The kind of the dtype of an array, a number or a list of them."""
    return (x if hasattr(x, "dtype") else asarray(x)).dtype.kind


def isscalar(element):
    """Whether x is a number or an array without axes.  JAX: `jnp.isscalar`."""
    if isinstance(element, (np.ndarray, Array)):
        return element.ndim == 0
    return bool_of(np.isscalar(element))


def sign_bits(x):
    """-> (float x as signed integers, how many bits stand below its sign)."""
    info = dtypes.finfo(x.dtype)
    bits = elementwise.bitcast_convert_type(x, np.dtype(f"int{info.bits}"))
    return bits, info.bits - 1


def signbit(x, /):
    """Where the sign is negative, also of -0.0 and NaN.  JAX: `jnp.signbit`."""
    x, = arrays("signbit", x)
    if x.dtype.kind == "b":
        return full(x.shape, False)
    if x.dtype.kind in "iu":
        return x < 0
    if x.dtype.kind == "c":
        raise ValueError(f"jax.numpy.signbit is not well defined for {x.dtype}")
    bits, _ = sign_bits(x)
    return bits < 0


def copysign(x1, x2, /):
    """|x1| with the sign of x2.  JAX: `jnp.copysign`."""
    x, y = promote_args_inexact("copysign", x1, x2)
    if x.dtype.kind == "c":
        raise TypeError("copysign does not support complex-valued inputs")
    return choose_where(signbit(y), -primitives.abs(x), primitives.abs(x))


def spacing(x, /):
    """The distance to the next float away from zero.  JAX: `jnp.spacing`."""
    x, = promote_args_inexact("spacing", x)
    if x.dtype.kind == "c":
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    infinity = convert(inf, x.dtype)
    if x.dtype == np.float16:
        return elementwise.nextafter(x, broadcast_to(infinity, x.shape)) - x
    return elementwise.nextafter(x, copysign(infinity, x)) - x


def frexp(x, /):
    """-> (m, n) with x = m * 2**n and 0.5 <= |m| < 1.  JAX: `jnp.frexp`."""
    x, = promote_args_inexact("frexp", x)
    if x.dtype.kind == "c":
        raise TypeError("frexp does not support complex-valued inputs")
    info = dtypes.finfo(x.dtype)
    # Subnormal numbers are scaled first, so that they have an exponent to read.
    tiny = primitives.abs(x) < info.tiny
    bits, _ = sign_bits(choose_where(tiny, x * 2.0**info.nmant, x))
    mask, bias = 2**info.nexp - 1, 1 - info.minexp
    n = (bits >> info.nmant & mask) - (bias - 1) - choose_where(tiny, info.nmant, 0)
    bits = bits & ~(mask << info.nmant) | (bias - 1 << info.nmant)
    m = elementwise.bitcast_convert_type(bits, x.dtype)
    plain = isinf(x) | isnan(x) | (x == 0)
    n = convert(choose_where(plain, 0, n), np.int32)
    return choose_where(plain, x, m), n


def ldexp(x1, x2, /):
    """x1 * 2**x2.  JAX: `jnp.ldexp`."""
    x, n = arrays("ldexp", x1, x2)
    if x.dtype.kind == "c" or n.dtype.kind not in "biu":
        raise ValueError(f"ldexp not supported for input types {(x.dtype, n.dtype)}")
    x, = promote_args_inexact("ldexp", x)
    m, e = frexp(x)
    e = convert(e, x.dtype) + convert(n, x.dtype)
    m, e = choose_where(e > 0, m * 2, m), choose_where(e > 0, e - 1, e)
    return choose_where(isinf(x) | (x == 0), x, m * power(2, e))


def modf(x, /, out=None):
    """-> (fraction, whole part), both with the sign of x.  JAX: `jnp.modf`."""
    no_out("modf", out)
    x, = promote_args_inexact("modf", x)
    whole = choose_where(x >= 0, floor(x), ceil(x))
    return x - whole, whole


def remainder(x1, x2, /):
    """x1 - floor(x1 / x2) * x2: with the sign of x2.  JAX: `jnp.remainder`.

    Integers modulo 0 give 0, floats NaN.
    """
    x, y = promote_args_numeric("remainder", x1, x2)
    y = nonzero_divisor(y)
    r = elementwise.rem(x, y)
    zero = convert(0, r.dtype)
    opposite = primitives.ne(primitives.lt(r, zero), primitives.lt(y, zero))
    return choose_where(opposite & (r != 0), r + y, r)


def nonzero_divisor(y):
    """1 where an integer divisor is 0: what is left over is 0 then."""
    if y.dtype.kind not in "iu":
        return y
    return choose_where(y == 0, ones_like(y), y)


mod = remainder


def fmod(x1, x2, /):
    """The remainder with the sign of x1, as in C.  JAX: `jnp.fmod`."""
    x, y = promote_args_numeric("fmod", x1, x2)
    return elementwise.rem(x, nonzero_divisor(y))


def floor_divide(x1, x2, /):
    """The quotient rounded down.  JAX: `jnp.floor_divide`.  x // 0 is -1 for ints."""
    x, y = promote_args_numeric("floor_divide", x1, x2)
    if x.dtype.kind == "c":
        raise TypeError("floor_divide does not support complex-valued inputs")
    if x.dtype.kind == "f" or x.dtype == bfloat16:
        return float_divmod(x, y)[0]
    quotient = primitives.div(x, y)
    if x.dtype.kind == "u":
        return quotient
    opposite = primitives.sign(x) != primitives.sign(y)
    cut = opposite & (elementwise.rem(x, y) != 0)
    return choose_where(cut, quotient - 1, quotient)


def float_divmod(x, y):
    """`divmod` of floats: the quotient is an exact multiple before it is rounded."""
    r = elementwise.rem(x, y)
    exact = choose_where(y == 0, x, x - r)
    quotient = exact / y
    opposite = (r != 0) & (primitives.sign(y) != primitives.sign(r))
    r = choose_where(opposite, r + y, r)
    quotient = choose_where(opposite, quotient - 1, quotient)
    return elementwise.round(quotient, elementwise.RoundingMethod.AWAY_FROM_ZERO), r


def divmod(x1, x2, /):
    """-> (x1 // x2, x1 % x2).  JAX: `jnp.divmod`."""
    x, y = promote_args_numeric("divmod", x1, x2)
    if x.dtype.kind in "iu":
        return floor_divide(x, y), remainder(x, y)
    return float_divmod(x, y)


def reciprocal(x, /):
    """1 / x.  JAX: `jnp.reciprocal`."""
    x, = promote_args_inexact("reciprocal", x)
    return primitives.integer_pow(x, -1)


def logarithm(name, base, scale):
    """The logarithm to another base."""

    def function(x, /):
        x, = promote_args_inexact(name, x)
        y = primitives.log(x)
        if x.dtype.kind == "c":
            return elementwise.complex(scale(real(y)), scale(imag(y)))
        return scale(y)

    return named(function, name)


def in_log2(y):
    """A natural logarithm as one to base 2."""
    return primitives.div(y, primitives.log(convert(2, y.dtype)))


def in_log10(y):
    """A natural logarithm as one to base 10."""
    return primitives.mul(y, convert(1 / math.log(10), y.dtype))


log2 = logarithm("log2", 2, in_log2)
log10 = logarithm("log10", 10, in_log10)


def deg2rad(x, /):
    """Degrees in radians.  JAX: `jnp.deg2rad`."""
    x, = promote_args_inexact("deg2rad", x)
    return primitives.mul(x, like(x, pi / 180))


def rad2deg(x, /):
    """Radians in degrees.  JAX: `jnp.rad2deg`."""
    x, = promote_args_inexact("rad2deg", x)
    return primitives.mul(x, like(x, 180 / pi))


radians, degrees = deg2rad, rad2deg


def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2)) without overflow.  JAX: `jnp.logaddexp`."""
    x, y = promote_args_inexact("logaddexp", x1, x2)
    if x.dtype.kind == "c":
        return complex_logaddexp(x, y)
    # Not -abs(x - y): where x = y, both have half of the derivative.
    greater, difference = maximum(x, y), minimum(x, y) - maximum(x, y)
    tail = elementwise.log1p(primitives.exp(difference))
    # inf - inf is NaN: equal infinities, and NaNs, are their own sum.
    return choose_where(isnan(difference), x + y, greater + tail)


def complex_logaddexp(x, y):
    """`logaddexp` of complex numbers, its angle in (-pi, pi]."""
    greater, difference = maximum(x, y), x - y
    swapped = choose_where(greater == x, -difference, difference)
    total = choose_where(isnan(difference), x + y, greater + log1p(exp(swapped)))
    wrapped = mod(imag(total) + pi, 2 * pi) - pi
    part = real(total)
    weak_type = part.weak_type and part.ndim == 0
    return elementwise.complex(part, convert(wrapped, part.dtype, weak_type))


def logaddexp2(x1, x2, /):
    """log2(2**x1 + 2**x2) without overflow.  JAX: `jnp.logaddexp2`."""
    x, y = promote_args_inexact("logaddexp2", x1, x2)
    greater, difference = maximum(x, y), minimum(x, y) - maximum(x, y)
    tail = elementwise.log1p(elementwise.exp2(difference))
    tail = tail * like(tail, 1 / math.log(2))
    return choose_where(isnan(difference), x + y, greater + tail)


def heaviside(x1, x2, /):
    """0 below zero, 1 above, x2 at zero.  JAX: `jnp.heaviside`."""
    x, y = promote_args_inexact("heaviside", x1, x2)
    zero, one = like(x, 0), like(x, 1)
    result = choose_where(isnan(x), x, y)
    result = choose_where(primitives.gt(x, zero), one, result)
    return choose_where(primitives.lt(x, zero), zero, result)


def hypot(x1, x2, /):
    """sqrt(x1**2 + x2**2) without overflow.  JAX: `jnp.hypot`."""
    x, y = promote_args_inexact("hypot", x1, x2)
    if x.dtype.kind == "c":
        raise ValueError("jnp.hypot is not well defined for complex-valued inputs.")
    x, y = primitives.abs(x), primitives.abs(y)
    infinite = isposinf(x) | isposinf(y)
    longer, shorter = maximum(x, y), minimum(x, y)
    ratio = shorter / choose_where(longer == 0, ones_like(longer), longer)
    length = longer * primitives.sqrt(1 + ratio * ratio)
    result = choose_where(longer == 0, longer, length)
    return choose_where(infinite, like(result, inf), result)


def sinc(x, /):
    """sin(pi x) / (pi x), and 1 at zero.  JAX: `jnp.sinc`."""
    x, = promote_args_inexact("sinc", x)
    y = x * like(x, pi)
    safe = choose_where(x == 0, like(x, 1), y)
    # At zero Taylor's series, for its derivatives: of even order they are not zero.
    square, series = y * y, like(x, 0)
    for n in (10, 8, 6, 4, 2, 0):
        series = like(x, (-1) ** (n // 2) / math.factorial(n + 1)) + series * square
    return choose_where(x == 0, series, primitives.sin(safe) / safe)


def i0(x):
    """The modified Bessel function of order 0.  JAX: `jnp.i0`."""
    x, = promote_args_inexact("i0", x)
    if x.dtype.kind == "c":
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {x.dtype}")
    # Not abs(x), whose derivative at zero is 1.
    return primitives.exp(x * sign(x)) * elementwise.bessel_i0e(x)


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """NaN and the infinities replaced by numbers.  JAX: `jnp.nan_to_num`."""
    x, = arrays("nan_to_num", x)
    if x.dtype.kind in "biu":
        return x
    if x.dtype.kind == "c":
        parts = [
            nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf)
            for part in (real(x), imag(x))
        ]
        return elementwise.complex(*parts)
    info = dtypes.finfo(x.dtype)
    posinf = info.max if posinf is None else posinf
    neginf = info.min if neginf is None else neginf
    out = choose_where(isnan(x), asarray(nan, x.dtype), x)
    out = choose_where(isposinf(out), asarray(posinf, x.dtype), out)
    return choose_where(isneginf(out), asarray(neginf, x.dtype), out)


def clip(arr=None, /, min=None, max=None):
    """Each value moved into the range from min to max.  JAX: `jnp.clip`."""
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    check_arraylike("clip", arr)
    if builtins.any(iscomplexobj(x) for x in (arr, min, max)):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max "
            "keywords. Complex values have no ordering; clip jnp.real and jnp.imag."
        )
    arr = arr if min is None else maximum(min, arr)
    arr = arr if max is None else minimum(max, arr)
    return asarray(arr)


def fmax(x1, x2):
    """The larger one; NaN only where both are.  JAX: `jnp.fmax`."""
    return choose_where(greater(x1, x2) | isnan(x2), x1, x2)


def fmin(x1, x2):
    """The smaller one; NaN only where both are.  JAX: `jnp.fmin`."""
    return choose_where(less(x1, x2) | isnan(x2), x1, x2)


def gcd(x1, x2):
    """The greatest common divisor of integers.  JAX: `jnp.gcd`.

    Euclid's algorithm in as many steps as the widest integers can need.
    """
    x, y = broadcast_arrays(*promote_args("gcd", x1, x2))
    if x.dtype.kind not in "iu":
        raise ValueError("Arguments to jax.numpy.gcd must be integers.")
    x, y = absolute(x), absolute(y)
    for _ in range(gcd_steps(x, y)):
        x, y = choose_where(y != 0, y, x), fmod(x, y)
    return strong(x) if x.ndim else x


def gcd_steps(x, y):
    """How often Euclid's algorithm divides: known for known numbers, else at most."""
    # Two numbers of n bits need at most log(2**n * sqrt(5)) / log(golden ratio) steps.
    bits = 8 * x.dtype.itemsize
    most = math.ceil((bits * math.log(2) + 0.81) / math.log((1 + 5**0.5) / 2))
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        return most
    steps, a, b = 0, x.numpy().astype(object), y.numpy().astype(object)
    while np.any(b != 0):
        a, b = np.where(b != 0, b, a), np.where(b != 0, a % np.where(b == 0, 1, b), 0)
        steps += 1
    return builtins.min(steps, most)


def lcm(x1, x2):
    """The least common multiple of integers.  JAX: `jnp.lcm`."""
    x, y = promote_args("lcm", x1, x2)
    if x.dtype.kind not in "iu":
        raise ValueError("Arguments to jax.numpy.lcm must be integers.")
    x, y = absolute(x), absolute(y)
    d = gcd(x, y)
    return choose_where(d == 0, like(d, 0), x * floor_divide(y, d))


def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where |a - b| <= atol + rtol |b|.  JAX: `jnp.isclose`."""
    x, y = promote_args_inexact("isclose", a, b)
    work = dtypes.finfo(x.dtype).dtype
    rtol, atol = convert(rtol, work), convert(atol, work)
    near = primitives.abs(x - y) <= atol + rtol * primitives.abs(y)
    close = (x == y) | (isfinite(y) & near)
    return close | (isnan(x) & isnan(y)) if equal_nan else close


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close, as `isclose` says.  JAX: `jnp.allclose`."""
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1, a2, equal_nan=False):
    """Whether shapes and all elements are equal.  JAX: `jnp.array_equal`."""
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return array(False)
    same = x == y
    return all(same | (isnan(x) & isnan(y)) if equal_nan else same)


def array_equiv(a1, a2):
    """Whether two arrays broadcast and are equal then.  JAX: `jnp.array_equiv`."""
    x, y = asarray(a1), asarray(a2)
    try:
        broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return array(False)
    return all(x == y)


more_operators = {
    "floordiv": ("//", floor_divide),
    "mod": ("%", remainder),
    "divmod": ("divmod()", divmod),
    "lshift": ("<<", left_shift),
    "rshift": (">>", right_shift),
}
binary_operators |= more_operators
operators |= operator_methods(more_operators)


class Indexed:
    """`x.at[index]`: an array and where to change it.

    Its methods return a changed copy: `x.at[i].set(v)`, `.add(v)`, `.max(v)`, ...
    Each takes `mode`, `indices_are_sorted`, `unique_indices` and
    `wrap_negative_indices`; see `trace/indexing.py`.  JAX: `jnp.ndarray.at`.
    """

    __slots__ = ("array", "index")

    def __init__(self, array, index):
        self.array = array
        self.index = index

    def __repr__(self):
        return f"Indexed({self.array!r}, {self.index!r})"

    def get(self, *, mode=None, fill_value=None, **promises):
        """The elements themselves: `x[index]`, with a mode for those out of bounds."""
        return indexing.take_index(
            self.array, self.index, mode=mode, fill_value=fill_value, **promises
        )

    def update(self, scatter, values, options):
        """Scatter `values` into the array."""
        check_arraylike("scatter", values)
        return indexing.update_index(self.array, self.index, values, scatter, **options)

    def set(self, values, **options):
        """`x[index] = values`."""
        return self.update(indexing.scatter, values, options)

    def add(self, values, **options):
        """`x[index] += values`, once for each time an index is named."""
        return self.update(indexing.scatter_add, values, options)

    def subtract(self, values, **options):
        """`x[index] -= values`, once for each time an index is named."""
        return self.update(indexing.scatter_sub, values, options)

    def multiply(self, values, **options):
        """`x[index] *= values`, once for each time an index is named."""
        return self.update(indexing.scatter_mul, values, options)

    mul = multiply

    def divide(self, values, **options):
        """`x[index] /= values`."""
        divisor = ones_like(self.array).at[self.index].multiply(values, **options)
        return divide(self.array, divisor)

    def power(self, values, **options):
        """`x[index] **= values`."""
        exponent = ones_like(self.array).at[self.index].multiply(values, **options)
        return power(self.array, exponent)

    def min(self, values, **options):
        """`x[index] = minimum(x[index], values)`."""
        return self.update(indexing.scatter_min, values, options)

    def max(self, values, **options):
        """`x[index] = maximum(x[index], values)`."""
        return self.update(indexing.scatter_max, values, options)

    def apply(self, func, **options):
        """`x[index] = func(x[index])`."""
        return indexing.apply_index(self.array, self.index, func, **options)


class At:
    """`x.at`: takes the index."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index):
        return Indexed(self.array, index)


operators |= {"__getitem__": indexing.take_index, "at": property(At)}


def take(
    a, indices, axis=None, out=None, mode=None, unique_indices=False,
    indices_are_sorted=False, fill_value=None,
):  # fmt: skip
    """The elements or slices at `indices` along an axis.  JAX: `jnp.take`.

    Args:
      mode: for indices out of bounds: "fill" (the default: NaN, or the least value of
        an integer type), "clip" or "wrap".
    """
    no_out("take", out)
    x, i = arrays("take", a, indices)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    if mode not in (None, "fill", "clip", "wrap"):
        raise ValueError(f"Invalid mode '{mode}' for np.take")
    size = x.shape[axis]
    if size == 0 and i.size:
        raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
    if mode == "wrap" and size:
        i = mod(i, convert(size, i.dtype))
    return indexing.take_index(
        x,
        (slice(None),) * axis + (i,),
        mode={"clip": "clip", "wrap": "promise_in_bounds"}.get(mode, "fill"),
        fill_value=fill_value,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        wrap_negative_indices=mode in (None, "fill"),
    )


def take_along_axis(
    arr, indices, axis=-1, mode=None, fill_value=None, *, wrap_negative_indices=None
):
    """For each position, the element that an index along `axis` names.

    JAX: `jnp.take_along_axis`.  The other axes broadcast.
    """
    x, i = arrays("take_along_axis", arr, indices)
    if i.dtype.kind not in "iu":
        raise TypeError(
            f"take_along_axis indices must be of integer type, got {i.dtype}"
        )
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    if x.ndim != i.ndim:
        raise ValueError(
            "indices and arr must have the same number of dimensions; "
            f"{i.ndim} vs. {x.ndim}"
        )
    axis = canonical_axis(axis, x.ndim)
    if wrap_negative_indices is None:
        wrap_negative_indices = mode != "promise_in_bounds"
    sizes = [1 if n == axis else size for n, size in enumerate(x.shape)]
    shape = broadcast_shapes(i.shape, sizes)
    if x.shape[axis] == 0:
        return zeros(shape, x.dtype)
    return indexing.take_index(
        x,
        along_axis_index(x.shape, shape, i, axis),
        mode=mode or "fill",
        fill_value=fill_value,
        wrap_negative_indices=wrap_negative_indices,
    )


def along_axis_index(shape, out_shape, i, axis):
    """The index that reads position i along one axis, and each position of others."""
    grid = [
        along_axis(counting(n, np.dtype(np.int32)), k, len(out_shape))
        if shape[k] != 1
        else asarray(0)
        for k, n in enumerate(out_shape)
    ]
    grid[axis] = i
    return tuple(grid)


def put_along_axis(arr, indices, values, axis, inplace=True, *, mode=None):
    """The array with values at indices along an axis.  JAX: same name.

    Raises ValueError unless `inplace=False`: arrays are immutable.
    """
    if inplace:
        raise ValueError(
            "jnp.put_along_axis cannot modify arrays in-place, because arrays are "
            "immutable. Pass inplace=False to instead return an updated array."
        )
    x, i, values = arrays("put_along_axis", arr, indices, values)
    flat, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    if flat.ndim != i.ndim:
        raise ValueError(
            "put_along_axis arguments 'arr' and 'indices' must have same ndim. Got "
            f"{flat.ndim} and {i.ndim}."
        )
    sizes = [1 if n == axis else size for n, size in enumerate(flat.shape)]
    index = along_axis_index(flat.shape, broadcast_shapes(i.shape, sizes), i, axis)
    values = broadcast_to(values, i.shape)
    return reshape(flat.at[index].set(values, mode=mode), x.shape)


def put(a, ind, v, mode=None, *, inplace=True):
    """The array with values at flat indices.  JAX: `jnp.put`, with inplace=False."""
    if inplace:
        raise ValueError(
            "jnp.put cannot modify arrays in-place, because arrays are immutable. Pass "
            "inplace=False to instead return an updated array."
        )
    x, i, v = arrays("put", a, ind, v)
    i, v = ravel(i), ravel(v)
    if x.size == 0 or i.size == 0 or v.size == 0:
        return x
    v = resize(v, (i.size,))
    if mode == "wrap":
        i = mod(i, convert(x.size, i.dtype))
    elif mode not in (None, "clip"):
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode=}")
    flat = ravel(x).at[i].set(v, mode="clip" if mode == "clip" else "drop")
    return reshape(flat, x.shape)


def place(arr, mask, vals, *, inplace=True):
    """The array with values, in turn, where a mask holds.  JAX: same name."""
    if inplace:
        raise ValueError(
            "jnp.place cannot modify arrays in-place, because arrays are immutable. "
            "Pass inplace=False to instead return an updated array."
        )
    x, mask, vals = arrays("place", arr, mask, vals)
    if x.size != mask.size:
        raise ValueError("place: arr and mask must be the same size")
    if vals.size == 0:
        raise ValueError("Cannot place values from an empty array")
    if x.size == 0:
        return x
    i = where(ravel(mask), size=x.size, fill_value=x.size)[0]
    values = resize(ravel(vals), (x.size,))
    return reshape(ravel(x).at[i].set(values, mode="drop"), x.shape)


def choose(a, choices, out=None, mode="raise"):
    """For each element, that of the array it names.  JAX: `jnp.choose`."""
    no_out("choose", out)
    a, *choices = arrays("choose", a, *choices)
    if a.dtype.kind not in "iu":
        raise ValueError("`a` array must be integer typed")
    n = len(choices)
    if mode == "raise":
        advice = "use mode='wrap' or mode='clip'."
        known = concrete(a, "the first argument of jnp.choose", advice)
        if np.any((known < 0) | (known >= n)):
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        a = a % n
    elif mode == "clip":
        a = clip(a, 0, n - 1)
    else:
        raise ValueError(f"{mode=} not understood. Must be 'raise', 'wrap', or 'clip'")
    a, *choices = broadcast_arrays(a, *choices)
    return stack(choices)[(a, *indices(a.shape, sparse=True))]


def select(condlist, choicelist, default=0):
    """For each position, the first choice whose condition holds.  JAX: same name."""
    if len(condlist) != len(choicelist):
        raise ValueError(
            "condlist must have length equal to choicelist "
            f"({len(condlist)} vs {len(choicelist)})"
        )
    if len(condlist) == 0:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    default, *choices = promote_dtypes([default, *choicelist])
    shape = broadcast_shapes(*map(np_shape, [*condlist, *choices]))
    result = broadcast_to(default, shape)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        result = choose_where(condition, choice, result)
    return result


def np_shape(x):
    """The shape of an array or a number."""
    return shape(x)


def piecewise(x, condlist, funclist, *args, **kw):
    """For each x, the function of the last condition that holds.  JAX: same name.

    All functions are applied to all of x, and the results chosen from.
    """
    x, = arrays("piecewise", x)
    n, m = len(condlist), len(funclist)
    if m not in (n, n + 1):
        raise ValueError(
            f"with {n} condition(s), either {n} or {n + 1} functions are expected; "
            f"got {m}"
        )
    default = funclist[n] if m == n + 1 else 0
    values = [
        asarray(f(x, *args, **kw) if callable(f) else f, dtype=x.dtype)
        for f in (default, *funclist[:n])
    ]
    result = broadcast_to(values[0], x.shape)
    for condition, value in zip(condlist, values[1:], strict=True):
        result = choose_where(convert(asarray(condition), np.bool_), value, result)
    return result


def known_size(size, what):
    """A `size=` argument as an int, or None."""
    return None if size is None else static_int(size, f"the argument 'size' of {what}")


def nonzero(a, *, size=None, fill_value=None):
    """For each axis, the indices of what is not zero.  JAX: `jnp.nonzero`.

    Args:
      size: how many to give; needed where `a` is traced.  Missing ones are
        `fill_value`: a number (0), or one for each axis.

    Raises ConcretizationTypeError for a traced array without `size`.
    """
    x, = arrays("nonzero", a)
    if x.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use "
            "jnp.atleast_1d(scalar).nonzero() instead."
        )
    size = known_size(size, "jnp.nonzero")
    if size is None:
        advice = "pass size=: how many indices to give, at most."
        known = concrete(x, "the argument of jnp.nonzero", advice)
        return tuple(asarray(i, dtype=int) for i in np.nonzero(known))
    mask = truth(x)
    if x.size == 0 or size == 0:
        found = tuple(zeros(size, int) for _ in x.shape)
    else:
        found = unravelled(x.shape, cumsum(bincount(cumsum(mask), length=size)))
    if fill_value is None:
        return found
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * x.ndim
    if len(fills) != x.ndim or builtins.any(np_shape(v) != () for v in fills):
        raise ValueError(
            f"fill_value must be a scalar or a tuple of length {x.ndim}; "
            f"got {fill_value}"
        )
    missing = arange(size) >= sum(mask)
    pairs = zip(fills, found, strict=True)
    return tuple(choose_where(missing, value, i) for value, i in pairs)


def unravelled(shape, flat):
    """Flat indices as one index an axis; past the end they begin again."""
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    return tuple(
        flat // int(stride) % n for stride, n in zip(strides, shape, strict=True)
    )


one_argument |= {"where": nonzero}


def flatnonzero(a, *, size=None, fill_value=None):
    """The flat indices of what is not zero.  JAX: `jnp.flatnonzero`."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a, *, size=None, fill_value=None):
    """The indices of what is not zero, a row each.  JAX: `jnp.argwhere`."""
    x, = arrays("argwhere", a)
    rows = stack(nonzero(atleast_1d(x), size=size, fill_value=fill_value), axis=1)
    return rows[:, :0] if x.ndim == 0 else rows


def compress(condition, a, axis=None, *, size=None, fill_value=0, out=None):
    """The slices along an axis where a mask holds.  JAX: `jnp.compress`."""
    no_out("compress", out)
    mask, x, fill_value = arrays("compress", condition, a, fill_value)
    if mask.ndim != 1:
        raise ValueError("condition must be a 1D array")
    mask = convert(mask, np.bool_)
    x, axis = (ravel(x), 0) if axis is None else (moveaxis(x, axis, 0), axis)
    mask, extra = mask[: x.shape[0]], mask[x.shape[0] :]
    x = x[: mask.shape[0]]
    size = known_size(size, "jnp.compress")
    if size is None:
        if extra.size and any(extra):
            raise ValueError("condition contains entries that are out of bounds")
        return moveaxis(x[mask], 0, axis)
    if not 0 <= size <= x.shape[0]:
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; "
            f"got {size=} for a.shape[axis]={x.shape[0]}"
        )
    column = primitives.expand_dims(mask, range(1, x.ndim))
    x = choose_where(column, x, convert(fill_value, x.dtype))
    return moveaxis(x[argsort(mask, descending=True)][:size], 0, axis)


def extract(condition, arr, *, size=None, fill_value=0):
    """The elements where a mask holds.  JAX: `jnp.extract`."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def searchsorted(a, v, side="left", sorter=None, *, method="scan"):
    """Where values belong in a sorted vector.  JAX: `jnp.searchsorted`.

    By halving, with as many steps as the length has bits; NaN comes last.
    """
    if side not in ("left", "right"):
        raise ValueError(f"{side!r} is an invalid value for keyword 'side'.")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"{method!r} is an invalid value for keyword 'method'; use 'scan', "
            "'scan_unrolled', 'sort' or 'compare_all'."
        )
    check_arraylike("searchsorted", a, v)
    a, v = promote_dtypes([a, v])
    if a.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    a = a if sorter is None else a[asarray(sorter)]
    n = a.shape[0]
    low = zeros(v.shape, np.int32)
    high = full(v.shape, n, np.int32)
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        value = indexing.take_index(a, middle, mode="promise_in_bounds")
        left = ~sorts_before(value, v) if side == "left" else sorts_before(v, value)
        low, high = choose_where(left, low, middle), choose_where(left, middle, high)
    return high


def sorts_before(x, y):
    """x < y in the order of `sort`: NaN after everything else."""
    before = less(x, y)
    return before if x.dtype.kind in "biu" else before | (isnan(y) & ~isnan(x))


def digitize(x, bins, right=False, *, method=None):
    """In which bin each value falls; bins may go down.  JAX: `jnp.digitize`."""
    x, bins = arrays("digitize", x, bins)
    right = bool_of(concrete(right, "the argument 'right' of jnp.digitize", static))
    if bins.ndim != 1:
        raise ValueError(
            f"digitize: bins must be a 1-dimensional array; got {bins=}"
        )
    if bins.shape[0] == 0:
        return zeros_like(x, dtype=np.int32)
    options = {"side": "left" if right else "right", "method": method or "scan"}
    up = searchsorted(bins, x, **options)
    down = bins.shape[0] - searchsorted(bins[::-1], x, **options)
    return choose_where(bins[-1] >= bins[0], up, down)


def bincount(x, weights=None, minlength=0, *, length=None):
    """How often each of 0, 1, 2, ... occurs, or with what weight.  JAX: same name.

    Args:
      length: the length of the result, needed where x is traced; what lies beyond is
        not counted.  Negative numbers count as 0.
    """
    x, = arrays("bincount", x)
    x = convert(x, np.int32) if x.dtype == np.bool_ else x
    if x.dtype.kind not in "iu":
        raise TypeError(
            f"x argument to bincount must have an integer type; got {x.dtype}"
        )
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = static_int(minlength, "the argument 'minlength' of jnp.bincount")
    if length is None:
        known = concrete(x, "the argument 'x' of jnp.bincount", "pass length=.")
        length = builtins.max(minlength, int(np.max(known, initial=-1)) + 1)
    else:
        length = static_int(length, "the argument 'length' of jnp.bincount")
    weights = convert(1, dtypes.default_dtype("signed")) if weights is None else weights
    weights, = arrays("bincount", weights)
    if weights.ndim and x.shape != weights.shape:
        raise ValueError(
            f"shape of weights must match shape of x, got {weights.shape} and {x.shape}"
        )
    return zeros(length, weights.dtype).at[clip(x, 0)].add(weights, mode="drop")


def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """The edges of equal bins over the data's range.  JAX: same name."""
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    x, edges = arrays("histogram_bin_edges", a, bins)
    dtype = dtypes.to_inexact_dtype(x.dtype)
    if edges.ndim == 1:
        return asarray(edges, dtype)
    count = static_int(bins, "the argument 'bins' of jnp.histogram_bin_edges")
    if range is not None and (not hasattr(range, "__len__") or len(range) != 2):
        raise ValueError(
            f"histogram_bin_edges: range must be a pair (low, high), got {range}"
        )
    low, high = [min(x), max(x)] if range is None else range
    low, high = asarray(low, dtype), asarray(high, dtype)
    empty_range = low == high
    low = choose_where(empty_range, low - 0.5, low)
    high = choose_where(empty_range, high + 0.5, high)
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(a, bins=10, range=None, weights=None, density=None):
    """-> (how many values fall in each bin, the bins' edges).  JAX: same name."""
    x, = promote_args_inexact("histogram", a)
    weights = ones_like(x) if weights is None else weights
    if x.shape != np_shape(weights):
        raise ValueError("weights should have the same shape as a.")
    x, weights = promote_args_inexact("histogram", x, weights)
    edges = histogram_bin_edges(x, bins, range, weights)
    i = searchsorted(edges, x, side="right")
    i = choose_where(x == edges[-1], edges.shape[0] - 1, i)
    counts = zeros(edges.shape[0], weights.dtype).at[i].add(weights)[1:]
    if density:
        counts = counts / diff(edges) / sum(counts)
    return counts, edges


def histogram2d(x, y, bins=10, range=None, weights=None, density=None):
    """-> (counts, x edges, y edges).  JAX: `jnp.histogram2d`."""
    x, y = arrays("histogram2d", x, y)
    several = len(bins) if hasattr(bins, "__len__") else 1
    bins = bins if several in (1, 2) else [asarray(bins)] * 2
    sample = stack([x, y], axis=1)
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(sample, bins=10, range=None, weights=None, density=None):
    """-> (counts, a list of edges), of points in several dimensions.  JAX: same name.

    Args:
      sample: [points, dimensions].
    """
    sample, = promote_args_inexact("histogramdd", sample)
    if weights is not None:
        sample, weights = promote_dtypes([sample, weights], dtypes.to_inexact_dtype)
        if weights.shape != sample.shape[:1]:
            raise ValueError("should have one weight for each sample.")
    if sample.ndim != 2:
        raise ValueError(f"histogramdd: sample must be 2-d, got {sample.shape}")
    rank = sample.shape[1]
    bins = list(bins) if hasattr(bins, "__len__") else [bins] * rank
    ranges = [None] * rank if range is None else list(range)
    if len(bins) != rank or len(ranges) != rank:
        raise ValueError("should be a bin and a range for each dimension.")
    edges, places = [], []
    for x, count, limits in zip(sample.T, bins, ranges, strict=True):
        edges.append(histogram_bin_edges(x, count, limits, weights))
        i = searchsorted(edges[-1], x, side="right")
        places.append(choose_where(x == edges[-1][-1], i - 1, i))
    sizes = tuple(e.shape[0] + 1 for e in edges)
    flat = ravel_multi_index(tuple(places), sizes, mode="clip")
    counts = bincount(flat, weights, length=math.prod(sizes))
    counts = reshape(counts, sizes)[(slice(1, -1),) * rank]
    if density:
        counts = convert(counts, sample.dtype)
        counts = counts / sum(counts)
        for widths in ix_(*map(diff, edges)):
            counts = counts / widths
    return counts, edges


def ravel_multi_index(multi_index, dims, mode="raise", order="C", *, dtype=None):
    """Indices along several axes as flat indices.  JAX: `jnp.ravel_multi_index`."""
    sizes = canonical_shape(tuple(dims))
    parts = arrays("ravel_multi_index", *multi_index)
    if len(parts) != len(sizes):
        raise ValueError(
            f"as many indices as dims are needed, got {len(parts)} and {len(sizes)}"
        )
    chosen = dtypes.result_type(int, *parts) if dtype is None else dtype
    dtype = dtypes.user_dtype(chosen, "ravel_multi_index")
    if dtype.kind not in "iu":
        raise ValueError(f"{dtype=} is not an integer type.")
    if builtins.any(i.dtype.kind not in "iu" for i in parts):
        raise TypeError("only int indices permitted")
    strides = np.cumprod((1, *sizes[:0:-1]))[::-1]
    if order == "F":
        strides = np.cumprod((1, *sizes[:-1]))
    elif order != "C":
        raise ValueError(f"invalid {order=}. Expected 'C' or 'F'")
    result = array(0, dtype=dtype)
    for i, n, stride in zip(parts, sizes, strides, strict=True):
        result = result + convert(in_bounds(i, n, mode), dtype) * int(stride)
    return result


def in_bounds(i, n, mode):
    """An index of an axis of length n: checked, clipped or wrapped."""
    if mode == "raise":
        advice = "use mode='wrap' or mode='clip'."
        known = concrete(i, "an index of jnp.ravel_multi_index", advice)
        if np.any((known < 0) | (known >= n)):
            raise ValueError("invalid entry in coordinates array")
        return i
    if mode == "ignore":
        return i
    if mode not in ("clip", "wrap"):
        raise ValueError(
            f"invalid {mode=}. Expected 'raise', 'wrap', 'clip', or 'ignore'."
        )
    return clip(i, 0, n - 1) if mode == "clip" else i % n


def unravel_index(indices, shape):
    """Flat indices as a tuple of one index an axis.  JAX: `jnp.unravel_index`."""
    i, = arrays("unravel_index", indices)
    sizes = canonical_shape(shape)
    found = []
    for n in reversed(sizes):
        i, rest = divmod(i, n)
        found.append(rest)
    above = i > 0
    below = i < -1 if i.dtype.kind != "u" else asarray(False)
    pairs = zip(sizes, reversed(found), strict=True)
    return tuple(
        choose_where(above, n - 1, choose_where(below, 0, k)) for n, k in pairs
    )


unique_advice = "pass size=: how many different values to give, at most."


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *,
    equal_nan=True, size=None, fill_value=None, sorted=True,
):  # fmt: skip
    """The different values, sorted; or different slices along an axis.

    JAX: `jnp.unique`.  With the flags also, in this order: the index where each first
    occurs, for each element the place of its value, how often each occurs.

    Args:
      size: how many to give; needed where `ar` is traced.  Missing ones are
        `fill_value`, by default the least.
    """
    x, = arrays("unique", ar)
    size = known_size(size, "jnp.unique")
    if size is None:
        concrete(x, "the first argument of jnp.unique", unique_advice)
    shape = x.shape
    x, place = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    if x.shape[place] == 0 and size and fill_value is None:
        raise ValueError(
            "jnp.unique: for zero-sized input with nonzero size argument, fill_value "
            "must be specified"
        )
    rows, first, order = sorted_rows(moveaxis(x, place, 0), equal_nan)
    found = nonzero(first, size=size)[0]
    values = rows[found] if rows.size else rows
    if size is not None and fill_value is not None:
        values = filled_rows(values, first, size, fill_value)
    results = [moveaxis(values, 0, place)]
    if return_index:
        results.append(order[found] if rows.size else order)
    if return_inverse:
        inverse = inverse_of(first, order, x.shape[place])
        results.append(reshape(inverse, shape) if axis is None else inverse)
    if return_counts:
        results.append(run_lengths(first, size, x.shape[place]))
    return results[0] if len(results) == 1 else tuple(results)


def sorted_rows(x, equal_nan):
    """-> (x sorted by rows, where a row differs from the one before, the order)."""
    n = x.shape[0]
    if x.size == 0:
        rows = x[: builtins.min(n, 1)]
        return rows, full(rows.shape[:1], True), zeros(rows.shape[:1], int)
    if x.dtype.kind == "c":
        x = choose_where(isnan(x), convert(nan, x.dtype), x)
    columns = reshape(x, (n, x.size // n))
    order = lexsort(list(columns.T)[::-1])
    rows = x[order]
    before, after = rows[:-1], rows[1:]
    differs = before != after
    if equal_nan and x.dtype.kind not in "biu":
        differs = differs & ~(isnan(before) & isnan(after))
    differs = any(differs, axis=tuple(range(1, x.ndim)))
    return rows, concatenate([full(1, True), differs]), order


def filled_rows(values, first, size, fill_value):
    """The rows of `unique`, with a fill value where there are no more."""
    fill = convert(as_array(fill_value), values.dtype)
    if values.shape[0] == 0:
        return full((size, *values.shape[1:]), fill)
    valid = arange(size) < sum(first)
    valid = primitives.expand_dims(valid, range(1, values.ndim))
    return choose_where(valid, values, fill)


def inverse_of(first, order, n):
    """For each element, the place of its value among the different ones."""
    if first.shape[0] != n:
        return zeros(n, int)
    return zeros(n, int).at[order].set(cumsum(first) - 1)


def run_lengths(first, size, n):
    """How often each of the different values occurs."""
    if first.shape[0] != n:
        return full(first.shape, n, int)
    if size is None:
        starts = nonzero(first)[0]
        return diff(append(starts, n))
    if n == 0:
        return zeros(size, int)
    starts = nonzero(first, size=size + 1)[0]
    return diff(starts.at[1:].set(choose_where(starts[1:] != 0, starts[1:], n)))


UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def unique_all(x, /, *, size=None, fill_value=None):
    """`unique` with everything, as a named tuple; NaNs differ.  JAX: same name."""
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueAll(*unique(x, True, True, True, **options))


def unique_counts(x, /, *, size=None, fill_value=None):
    """`unique` with counts, as a named tuple; NaNs differ.  JAX: same name."""
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueCounts(*unique(x, return_counts=True, **options))


def unique_inverse(x, /, *, size=None, fill_value=None):
    """`unique` with the inverse, as a named tuple; NaNs differ.  JAX: same name."""
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueInverse(*unique(x, return_inverse=True, **options))


def unique_values(x, /, *, size=None, fill_value=None):
    """`unique`; NaNs differ.  JAX: `jnp.unique_values`."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def isin(element, test_elements, assume_unique=False, invert=False, *, method="auto"):
    """For each element, whether it is among others.  JAX: `jnp.isin`."""
    check_arraylike("isin", element, test_elements)
    x, others = promote_dtypes([element, test_elements])
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"{method=} is not implemented; options are 'compare_all', "
            "'binary_search', 'sort', and 'auto'"
        )
    if x.size == 0 or others.size == 0:
        return full(x.shape, bool_of(invert))
    if method in ("auto", "compare_all"):
        found = any(x[..., None] == ravel(others), axis=-1)
    else:
        others = sort(ravel(others))
        found = x == others[searchsorted(others, x)]
    return ~found if invert else found


def set_size(name, size, *args):
    """The `size=` of a set operation; without it, the arguments must be known."""
    for x in args if size is None else ():
        concrete(x, f"an argument of jnp.{name}", "pass size=: how many to give.")
    return known_size(size, f"jnp.{name}")


def union1d(ar1, ar2, *, size=None, fill_value=None):
    """The different values of two arrays, sorted.  JAX: `jnp.union1d`."""
    x, y = arrays("union1d", ar1, ar2)
    size = set_size("union1d", size, x, y)
    both = concatenate([ravel(x), ravel(y)])
    return unique(both, size=size, fill_value=fill_value)


def setdiff1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None):
    """The different values of one array that another lacks.  JAX: same name."""
    x, y = map(ravel, arrays("setdiff1d", ar1, ar2))
    size = set_size("setdiff1d", size, x, y)
    fill = full_like(x, 0 if fill_value is None else fill_value, shape=())
    if x.size == 0:
        return full_like(x, fill, shape=size or 0)
    if size is None:
        x = x if assume_unique else unique(x)
        return x[isin(x, y, invert=True)]
    keep = full(x.shape, True)
    if not assume_unique:
        x, _, _, counts = unique(x, True, True, True, size=x.size)
        keep = counts > 0
    return packed(x, keep & isin(x, y, invert=True), size, fill)


def packed(x, keep, size, fill):
    """The elements that a mask keeps, then a fill value, `size` in all."""
    found = nonzero(keep, size=size)[0]
    return choose_where(arange(size) < sum(keep), x[found], fill)


def setxor1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None):
    """The values that are in just one of two arrays.  JAX: `jnp.setxor1d`."""
    x, y = map(ravel, promote_args_1d("setxor1d", ar1, ar2))
    size = set_size("setxor1d", size, x, y)
    values, from_x, from_y = merged(x, y)
    keep = (from_x == 0) | (from_y == 0)
    keep = keep & (from_x + from_y > 0)
    if assume_unique:
        keep = from_x + from_y == 1
    return kept_values(values, keep, size, fill_value)


def promote_args_1d(name, *args):
    """Arguments in one dtype, whatever their shapes."""
    check_arraylike(name, *args)
    return promote_dtypes(args)


def merged(x, y):
    """-> (different values of both, how often each is in x, and in y).

    As many as x and y have elements: past the last one the counts are 0.
    """
    both = concatenate([x, y])
    n = both.shape[0]
    if n == 0:
        return both, zeros(0, int), zeros(0, int)
    values, place = unique(both, return_inverse=True, size=n)
    from_x = bincount(place[: x.shape[0]], length=n)
    return values, from_x, bincount(place[x.shape[0] :], length=n)


def kept_values(values, keep, size, fill_value):
    """The values a mask keeps; with `size`, filled up as JAX's set operations do."""
    if size is None:
        return values[keep]
    if values.shape[0] == 0:
        return zeros(size, values.dtype)
    found = nonzero(keep, size=size)[0]
    valid = arange(size) < sum(keep)
    if fill_value is not None:
        return choose_where(valid, values[found], fill_value)
    result = choose_where(valid, values[found], zeros_like(values[found]))
    result = choose_where(valid, result, max(result))
    return choose_where(valid, result, min(result))


def intersect1d(
    ar1, ar2, assume_unique=False, return_indices=False, *, size=None, fill_value=None
):
    """The values that are in both arrays.  JAX: `jnp.intersect1d`.

    With `return_indices`: -> (values, where each first is in ar1, and in ar2).
    """
    x, y = map(ravel, promote_args_1d("intersect1d", ar1, ar2))
    size = set_size("intersect1d", size, x, y)
    values, from_x, from_y = merged(x, y)
    keep = (from_x > 0) & (from_y > 0)
    result = kept_values(values, keep, size, fill_value)
    if not return_indices:
        return result
    places = []
    for part in (x, y):
        if part.shape[0] == 0 or result.shape[0] == 0:
            places.append(full(result.shape, part.shape[0], int))
            continue
        at = argmax(result[:, None] == part, axis=1)
        known = True if size is None else arange(result.shape[0]) < sum(keep)
        places.append(choose_where(known, at, part.shape[0]))
    return result, *places


def swapaxes(a, axis1, axis2):
    """Two axes exchanged.  JAX: `jnp.swapaxes`."""
    x, = arrays("swapaxes", a)
    axes = list(range(x.ndim))
    i, j = canonical_axis(axis1, x.ndim), canonical_axis(axis2, x.ndim)
    axes[i], axes[j] = axes[j], axes[i]
    return transpose(x, axes)


def rollaxis(a, axis, start=0):
    """An axis moved before another one.  JAX: `jnp.rollaxis`."""
    x, = arrays("rollaxis", a)
    start = static_int(start, "the argument 'start' of jnp.rollaxis")
    axis = canonical_axis(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise ValueError(f"{start=} must satisfy {-x.ndim}<=start<={x.ndim}")
    start += x.ndim if start < 0 else 0
    return moveaxis(x, axis, start - (start > axis))


def permute_dims(a, /, axes):
    """The axes in another order.  JAX: `jnp.permute_dims`."""
    return transpose(a, axes)


def concat(arrays, /, *, axis=0):
    """As `concatenate`.  JAX: `jnp.concat`."""
    return concatenate(arrays, axis)


def unstack(x, /, *, axis=0):
    """The slices along an axis, as a tuple.  JAX: `jnp.unstack`."""
    x, = arrays("unstack", x)
    if x.ndim == 0:
        raise ValueError("Unstack requires arrays with rank > 0, however a scalar")
    return tuple(moveaxis(x, axis, 0))


def flip(m, axis=None):
    """The elements in reverse order along axes, by default all.  JAX: same name."""
    x, = arrays("flip", m)
    axes = canonical_axes(axis, x.ndim)
    return indexing.rev(x, axes)


def fliplr(m):
    """Columns in reverse order.  JAX: `jnp.fliplr`."""
    return flip(m, 1)


def flipud(m):
    """Rows in reverse order.  JAX: `jnp.flipud`."""
    return flip(m, 0)


def rot90(m, k=1, axes=(0, 1)):
    """Turned by k times 90 degrees in the plane of two axes.  JAX: same name."""
    x, = arrays("rot90", m)
    if x.ndim < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got "
            f"first argument of shape {x.shape}, which has ndim {x.ndim}"
        )
    axes, k = canonical_axes(axes, x.ndim), static_int(k, "k")
    if len(axes) != 2:
        raise ValueError(f"rot90 requires two axes, got {axes}")
    i, j = axes
    if i == j:
        raise ValueError("Axes must be different")
    turns = {
        0: lambda: x,
        1: lambda: swapaxes(flip(x, j), i, j),
        2: lambda: flip(x, (i, j)),
        3: lambda: flip(swapaxes(x, i, j), j),
    }
    return turns[k % 4]()


def roll(a, shift, axis=None):
    """Shifted along axes; what leaves at an end returns at the other.  JAX: same."""
    x, = arrays("roll", a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [canonical_axis(i, x.ndim) for i in axes]
    several = isinstance(shift, (tuple, list)) or getattr(shift, "ndim", 0)
    shifts = shift if several else (shift,)
    axes, places = np.broadcast_arrays(axes, range(len(shifts)))
    for axis, place in zip(axes, places, strict=True):
        x = roll_one(x, shifts[int(place)], int(axis))
    return x


def roll_one(x, shift, axis):
    """`roll` along one axis; the shift may be traced."""
    n = x.shape[axis]
    if n == 0:
        return x
    known = known_int(shift)
    if known is None:
        twice = concatenate([x, x], axis)
        begin = [0] * x.ndim
        begin[axis] = convert(mod(-as_array(shift), n), np.int32)
        return indexing.dynamic_slice(twice, begin, x.shape)
    cut = -known % n
    before, after = part_of(x, axis, 0, cut), part_of(x, axis, cut, n)
    return concatenate([after, before], axis)


def part_of(x, axis, start, stop):
    """`x[start:stop]` along an axis."""
    return x[(slice(None),) * axis + (slice(start, stop),)]


def tile(A, reps):
    """The array repeated as a whole along each axis.  JAX: `jnp.tile`."""
    x, = arrays("tile", A)
    reps = canonical_shape(reps)
    rank = builtins.max(x.ndim, len(reps))
    reps = (1,) * (rank - len(reps)) + reps
    x = expand_to(x, rank)
    shape = [part for rep, n in zip(reps, x.shape, strict=True) for part in (rep, n)]
    x = primitives.broadcast_in_dim(x, shape, range(1, 2 * rank, 2))
    return reshape(x, [r * n for r, n in zip(shape[::2], shape[1::2], strict=True)])


def repeat(a, repeats, axis=None, *, total_repeat_length=None):
    """Each slice along an axis repeated.  JAX: `jnp.repeat`.

    Args:
      repeats: how often: a number, or one for each slice.
      total_repeat_length: the length of the result; needed where repeats is traced.
        The last slice fills what is left.
    """
    check_arraylike("repeat", a, repeats)
    x = as_array(a)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    length = total_repeat_length
    if length is None:
        advice = f"pass total_repeat_length=, or {static}"
        repeats = concrete(repeats, "the argument 'repeats' of jnp.repeat", advice)
        if repeats.dtype.kind not in "biu":
            raise TypeError(f"jnp.repeat: repeats must be integers, got {repeats}")
        if repeats.ndim == 0 or repeats.size == 1:
            return repeat_each(x, int(repeats.reshape(())), axis)
        if repeats.shape != (x.shape[axis],):
            raise ValueError(
                f"jnp.repeat: repeats must be one number or as many as axis {axis} is "
                f"long, got shape {repeats.shape} for an array of shape {x.shape}"
            )
        length = int(np.sum(repeats))
    repeats = broadcast_to(ravel(as_array(repeats)), (x.shape[axis],))
    if length == 0 or x.shape[axis] == 0:
        return part_of(x, axis, 0, 0) if length == 0 else x
    starts = roll(repeats, 1).at[0].set(0)
    marks = zeros(length, np.int32).at[cumsum(starts)].add(1)
    return take(x, cumsum(marks) - 1, axis)


def repeat_each(x, times, axis):
    """Each slice along an axis repeated equally often."""
    sizes = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    kept = [i for i in range(len(sizes)) if i != axis + 1]
    wide = primitives.broadcast_in_dim(x, sizes, kept)
    shape = [n * times if i == axis else n for i, n in enumerate(x.shape)]
    return reshape(wide, shape)


def atleast_nd(name, promote, args):
    """What `atleast_1d` and its sisters share: one array, or a list of them."""
    results = [promote(x) for x in arrays(name, *args)]
    return results[0] if len(results) == 1 else results


def atleast_1d(*arys):
    """With one axis at least.  JAX: `jnp.atleast_1d`."""
    return atleast_nd("atleast_1d", lambda x: array(x, copy=False, ndmin=1), arys)


def atleast_2d(*arys):
    """With two axes at least.  JAX: `jnp.atleast_2d`."""
    return atleast_nd("atleast_2d", lambda x: array(x, copy=False, ndmin=2), arys)


def atleast_3d(*arys):
    """With three axes at least: [1, n, 1] from [n].  JAX: `jnp.atleast_3d`."""
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}

    def promote(x):
        return expand_dims(x, new[x.ndim]) if x.ndim in new else x

    return atleast_nd("atleast_3d", promote, arys)


def vstack(tup, dtype=None):
    """Joined as rows, along the first axis.  JAX: `jnp.vstack`."""
    return concatenate([atleast_2d(x) for x in checked("vstack", tup)], 0, dtype)


def hstack(tup, dtype=None):
    """Joined along the second axis, vectors along the first.  JAX: `jnp.hstack`."""
    parts = [atleast_1d(x) for x in checked("hstack", tup)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype)


def dstack(tup, dtype=None):
    """Joined along the third axis.  JAX: `jnp.dstack`."""
    return concatenate([atleast_3d(x) for x in checked("dstack", tup)], 2, dtype)


def column_stack(tup):
    """Vectors as columns, matrices as they are, side by side.  JAX: same name."""
    parts = arrays("column_stack", *checked("column_stack", tup))
    return concatenate([x if x.ndim > 1 else atleast_2d(x).T for x in parts], 1)


def checked(name, tup):
    """A sequence of arrays, or the rows of one."""
    check_arraylike(name, *tup)
    if not len(tup):
        raise ValueError(f"Need at least one array to {name}.")
    return list(tup)


def block(arrays):
    """An array from nested lists of blocks.  JAX: `jnp.block`."""
    return block_and_depth(arrays)[0]


def block_and_depth(xs):
    """-> (the array of nested lists of blocks, how deep the lists are)."""
    if isinstance(xs, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {xs}")
    if not isinstance(xs, list):
        return asarray(xs), 1
    if not xs:
        raise ValueError("jax.numpy.block does not allow empty list arguments")
    parts, depths = zip(*map(block_and_depth, xs), strict=True)
    if len(set(depths)) > 1:
        raise ValueError("Mismatched list depths in jax.numpy.block")
    rank = builtins.max(depths[0], *[x.ndim for x in parts])
    return concatenate([expand_to(x, rank) for x in parts], -depths[0]), depths[0] + 1


def split_at(name, ary, where, axis):
    """An array cut at places, or into so many parts."""
    x, = arrays(name, ary)
    axis = canonical_axis(axis, x.ndim)
    n = x.shape[axis]
    if isinstance(where, (tuple, list)) or getattr(where, "ndim", 0):
        places = [static_int(i, f"a place for jnp.{name}") for i in where]
        ends = [slice(None, i).indices(n)[1] for i in places]
    else:
        parts = static_int(where, f"the number of parts of jnp.{name}")
        if parts < 1:
            raise ValueError(f"jnp.{name}: number sections must be larger than 0.")
        short, more = builtins.divmod(n, parts)
        if more and name != "array_split":
            raise ValueError(
                f"array split does not result in an equal division: rest is {more}"
            )
        sizes = [short + 1] * more + [short] * (parts - more)
        ends = np.cumsum(sizes)[:-1].tolist()
    pairs = zip([0, *ends], [*ends, n], strict=True)
    return [part_of(x, axis, i, builtins.max(i, j)) for i, j in pairs]


def split(ary, indices_or_sections, axis=0):
    """Cut into equal parts, or at places, as a list.  JAX: `jnp.split`."""
    return split_at("split", ary, indices_or_sections, axis)


def array_split(ary, indices_or_sections, axis=0):
    """As `split`; the first parts may be longer by one.  JAX: `jnp.array_split`."""
    return split_at("array_split", ary, indices_or_sections, axis)


def vsplit(ary, indices_or_sections):
    """`split` along the first axis.  JAX: `jnp.vsplit`."""
    return split_at("vsplit", ary, indices_or_sections, 0)


def hsplit(ary, indices_or_sections):
    """`split` along the second axis, vectors along the first.  JAX: `jnp.hsplit`."""
    return split_at("hsplit", ary, indices_or_sections, 0 if ndim(ary) == 1 else 1)


def dsplit(ary, indices_or_sections):
    """`split` along the third axis.  JAX: `jnp.dsplit`."""
    return split_at("dsplit", ary, indices_or_sections, 2)


def resize(a, new_shape):
    """The elements over and over, until `new_shape` is full.  JAX: `jnp.resize`."""
    x, = arrays("resize", a)
    shape = canonical_shape(new_shape)
    if builtins.any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    total = math.prod(shape)
    if x.size == 0 or total == 0:
        return zeros_like(x, shape=shape)
    return reshape(tile(ravel(x), math.ceil(total / x.size))[:total], shape)


def append(arr, values, axis=None):
    """`concatenate` of two arrays.  JAX: `jnp.append`."""
    if axis is None:
        arr, values, axis = ravel(arr), ravel(values), 0
    return concatenate([arr, values], axis)


def delete(arr, obj, axis=None, *, assume_unique_indices=False):
    """Without the slices that an int, a slice, indices or a mask name.

    JAX: `jnp.delete`.  Traced indices need `assume_unique_indices`.
    """
    x, = arrays("delete", arr)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    n = x.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(n)[obj]
    known = known_int(obj) if np_shape(obj) == () else None
    if known is not None:
        i = canonical_axis(known, n)
        return concatenate([part_of(x, axis, 0, i), part_of(x, axis, i + 1, n)], axis)
    check_arraylike("delete", obj)
    if assume_unique_indices and dtype_kind(obj) in "iu":
        return x[(slice(None),) * axis + (kept_indices(asarray(obj), n),)]
    advice = "pass assume_unique_indices=True, if they are."
    obj = concrete(obj, "the argument 'obj' of jnp.delete", advice)
    keep = ~obj if obj.dtype == np.bool_ else np.ones(n, np.bool_)
    if keep.shape != (n,) or obj.dtype.kind not in "biu":
        raise ValueError(
            "np.delete(arr, obj): obj must hold integers, or be a mask with length "
            f"matching specified axis; got {obj.dtype}{list(obj.shape)} for {n}"
        )
    if obj.dtype != np.bool_:
        keep[obj] = False
    return x[(slice(None),) * axis + (keep,)]


def kept_indices(gone, n):
    """The indices below n that are not among `gone`, which are all different."""
    gone = sort(clip(choose_where(gone < 0, gone + n, gone), 0, n).ravel())
    gone = gone - arange(gone.size, dtype=gone.dtype)
    i = arange(n - gone.size, dtype=gone.dtype)
    return i + sum(i[None] >= gone[:, None], axis=0, dtype=i.dtype)


def insert(arr, obj, values, axis=None):
    """With `values` before the places `obj` along an axis.  JAX: `jnp.insert`."""
    x, values = arrays("insert", arr, values)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    n = x.shape[axis]
    places = arange(*obj.indices(n)) if isinstance(obj, slice) else asarray(obj)
    if places.size == 0 and not isinstance(obj, Array):
        places = convert(places, np.int32)
    if places.ndim > 1 or places.dtype.kind not in "iu":
        raise ValueError(
            "jnp.insert(): obj must be a slice, an integer, or a vector of integers; "
            f"got {obj}"
        )
    values = array(values, dtype=x.dtype, copy=False, ndmin=x.ndim)
    if places.size == 1:
        values = moveaxis(values, 0, axis) if places.ndim == 0 else values
        places = broadcast_to(ravel(places), (values.shape[axis],))
    more, = broadcast_shapes(places.shape, (values.shape[axis],))
    places = clip(choose_where(places < 0, places + n, places), 0, n)
    # Each value moves on by the values that are inserted before it.
    i = places.at[argsort(places)].add(arange(more, dtype=places.dtype))
    old = where(full(n + more, True).at[i].set(False), size=n)[0]
    shape = [size + more * (k == axis) for k, size in enumerate(x.shape)]
    before = (slice(None),) * axis
    result = zeros_like(x, shape=tuple(shape)).at[(*before, i)].set(values)
    return result.at[(*before, old)].set(x)


def trim_zeros(filt, trim="fb", axis=None):
    """Without the zeros in front and at the back.  JAX: `jnp.trim_zeros`."""
    x, = arrays("trim_zeros", filt)
    known = concrete(x, "the argument 'filt' of jnp.trim_zeros", static) != 0
    index = [slice(None)] * x.ndim
    for i in canonical_axes(axis, x.ndim):
        others = tuple(k for k in range(x.ndim) if k != i)
        used = np.flatnonzero(np.any(known, axis=others))
        if used.size == 0:
            index[i] = slice(0, 0)
            continue
        start = int(used[0]) if "f" in trim.lower() else None
        index[i] = slice(start, int(used[-1]) + 1 if "b" in trim.lower() else None)
    return x[tuple(index)]


def pairs_of(values, rank, name):
    """A number, a pair, or a pair for each axis, as a pair for each axis."""
    if isinstance(values, dict):
        values = [values.get(i, values.get(i - rank, (0, 0))) for i in range(rank)]
    known = concrete(values, f"the argument {name!r} of jnp.pad", static)
    if known.shape not in ((), (1,), (2,), (1, 2), (rank, 2)):
        raise ValueError(
            f"jnp.pad: {name} with nd={rank} has unsupported shape {known.shape}. "
            f"Valid shapes are ({rank}, 2), (1, 2), (2,), (1,), or ()."
        )
    return np.broadcast_to(known, (rank, 2)).tolist()


def pad(array, pad_width, mode="constant", **kwargs):
    """With more elements before and after along each axis.  JAX: `jnp.pad`.

    Args:
      pad_width: how many: a number, (before, after), or such a pair for each axis.
      mode: "constant" (`constant_values=0`), "edge", "wrap", "empty", "reflect" and
        "symmetric" (`reflect_type="even"` or "odd"), "linear_ramp" (`end_values=0`),
        "maximum", "minimum", "mean", "median" (`stat_length=`).
    """
    x, = arrays("pad", array)
    widths = pairs_of(pad_width, x.ndim, "pad_width")
    if builtins.any(not isinstance(n, int) for pair in widths for n in pair):
        raise TypeError("`pad_width` must be of integral type.")
    if builtins.any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    if builtins.any(n > dtypes.iinfo(np.int32).max for pair in widths for n in pair):
        raise ValueError(f"cannot pad by more than 2**31 - 1, got {pad_width}")
    if mode not in pad_modes:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    option, rule = pad_modes[mode]
    extra = set(kwargs) - {option}
    if extra:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {extra}")
    if mode == "constant":
        return pad_constant(x, widths, kwargs.get("constant_values", 0))
    if mode in pad_statistics and kwargs.get("stat_length") is not None:
        kwargs["stat_length"] = pairs_of(kwargs["stat_length"], x.ndim, "stat_length")
    if mode == "linear_ramp":
        ends = kwargs.get("end_values", 0)
        kwargs["end_values"] = pairs_of(ends, x.ndim, "end_values")
    for axis, (before, after) in enumerate(widths):
        if before or after:
            x = rule(x, axis, before, after, mode, kwargs.get(option))
    return x


def pad_constant(x, widths, values):
    """Values of its own on each side of each axis, later axes last."""
    values = convert(asarray(values), x.dtype, x.weak_type)
    if values.size == 1:
        rows = [(before, after, 0) for before, after in widths]
        return indexing.pad(x, reshape(values, ()), rows)
    values = broadcast_to(values, (x.ndim, 2))
    for axis, pair in enumerate(widths):
        for side, n in enumerate(pair):
            row = [(0, 0, 0)] * x.ndim
            row[axis] = (0, n, 0) if side else (n, 0, 0)
            x = indexing.pad(x, values[axis, side], row) if n else x
    return x


def check_not_empty_axis(x, axis, mode):
    """There is nothing to repeat along an axis of length 0."""
    if x.shape[axis] == 0:
        raise ValueError(f"Cannot apply '{mode}' padding to empty axis")


def pad_edge(x, axis, before, after, mode, option):
    """The first and the last slice, repeated."""
    check_not_empty_axis(x, axis, mode)
    n = x.shape[axis]
    first = repeat(part_of(x, axis, 0, 1), before, axis)
    last = repeat(part_of(x, axis, n - 1, n), after, axis)
    return concatenate([first, x, last], axis)


def pad_wrap(x, axis, before, after, mode, option):
    """The whole array over and over."""
    check_not_empty_axis(x, axis, mode)
    n = x.shape[axis]
    i = np.arange(-before, n + after) % n
    return take(x, i, axis, mode="clip")


def pad_empty(x, axis, before, after, mode, option):
    """Anything: zeros."""
    row = [(0, 0, 0)] * x.ndim
    row[axis] = (before, after, 0)
    return indexing.pad(x, convert(0, x.dtype, x.weak_type), row)


def pad_mirror(x, axis, before, after, mode, option):
    """The array reflected, with its edge twice for "symmetric"."""
    check_not_empty_axis(x, axis, mode)
    if option not in (None, "even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd', got {option!r}")
    offset = int(mode == "reflect" and x.shape[axis] > 1)
    # Each round adds as much as the array holds by now; then it is longer.
    size = x.shape[axis] - offset
    while before > 0:
        n = builtins.min(before, size)
        before -= n
        part = flip(part_of(x, axis, offset, offset + n), axis)
        x = concatenate([mirrored(part, part_of(x, axis, 0, 1), option), x], axis)
    end = x.shape[axis]
    while after > 0:
        n = builtins.min(after, size)
        after -= n
        part = flip(part_of(x, axis, end - offset - n, end - offset), axis)
        edge = part_of(x, axis, end - 1, end)
        x = concatenate([x, mirrored(part, edge, option)], axis)
        end = x.shape[axis]
    return x


def mirrored(part, edge, option):
    """A reflected part; for "odd", through the edge's value as well."""
    return 2 * edge - part if option == "odd" else part


def pad_ramp(x, axis, before, after, mode, option):
    """From the edge evenly to an end value."""
    n = x.shape[axis]
    start, stop = option[axis]
    ends = [(start, 0, before), (stop, n - 1, after)]
    ramps = [
        linspace(
            end, squeeze(part_of(x, axis, i, i + 1), axis), count, endpoint=False,
            dtype=x.dtype, axis=axis,
        )
        for end, i, count in ends
    ]  # fmt: skip
    first, last = [convert(ramp, x.dtype, x.weak_type) for ramp in ramps]
    return concatenate([first, x, flip(last, axis)], axis)


def pad_statistic(x, axis, before, after, mode, option):
    """A statistic of the slices next to each side."""
    n = x.shape[axis]
    lengths = (n, n) if option is None else option[axis]
    if 0 in lengths:
        raise ValueError("stat_length of 0 yields no value for padding")
    spans = [(0, builtins.min(lengths[0], n)), (n - builtins.min(lengths[1], n), n)]
    sides = []
    for (start, stop), count in zip(spans, (before, after), strict=True):
        value = pad_statistics[mode](part_of(x, axis, start, stop), axis, keepdims=True)
        value = round(value) if x.dtype.kind in "iu" else value
        sides.append(repeat(convert(value, x.dtype, x.weak_type), count, axis))
    return concatenate([sides[0], x, sides[1]], axis)


pad_modes = {
    "constant": ("constant_values", None),
    "edge": (None, pad_edge),
    "wrap": (None, pad_wrap),
    "empty": (None, pad_empty),
    "reflect": ("reflect_type", pad_mirror),
    "symmetric": ("reflect_type", pad_mirror),
    "linear_ramp": ("end_values", pad_ramp),
    "maximum": ("stat_length", pad_statistic),
    "minimum": ("stat_length", pad_statistic),
    "mean": ("stat_length", pad_statistic),
    "median": ("stat_length", pad_statistic),
}


def sort_options(name, kind, order):
    """NumPy's arguments that have no meaning here."""
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or "
            "stable=False to specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")


def sort(a, axis=-1, *, kind=None, order=None, stable=True, descending=False):
    """Sorted along an axis, NaN last.  JAX: `jnp.sort`."""
    sort_options("sort", kind, order)
    x, = arrays("sort", a)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    result = sorting.sort(x, dimension=axis, is_stable=stable)
    return flip(result, axis) if descending else result


def argsort(
    a, axis=-1, *, kind=None, order=None, stable=True, descending=False, dtype=None
):
    """The indices that sort along an axis.  JAX: `jnp.argsort`."""
    sort_options("argsort", kind, order)
    x, = arrays("argsort", a)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    chosen = dtypes.user_dtype(int if dtype is None else dtype, "argsort")
    places = primitives.broadcasted_iota(chosen, x.shape, axis)
    # Backwards twice: equal elements keep their order.
    backwards = descending and stable
    x, places = [flip(y, axis) if backwards else y for y in (x, places)]
    _, places = sort_together(x, places, axis, stable)
    return flip(places, axis) if descending else places


def sort_together(keys, values, axis=-1, stable=True):
    """-> (sorted keys, the values in the same order)."""
    return sorting.sort((keys, values), axis, is_stable=stable, num_keys=1)


def lexsort(keys, axis=-1):
    """The indices that sort by the last key, then by the one before.  JAX: same."""
    keys = arrays("lexsort", *keys)
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({k.shape for k in keys}) > 1:
        raise ValueError("all keys need to be the same shape")
    if keys[0].ndim == 0:
        return zeros((), int)
    axis = canonical_axis(axis, keys[0].ndim)
    default = dtypes.default_dtype("signed")
    places = primitives.broadcasted_iota(default, keys[0].shape, axis)
    operands = (*keys[::-1], places)
    return sorting.sort(operands, dimension=axis, num_keys=len(keys))[-1]


def partition(a, kth, axis=-1):
    """The kth element where sorting puts it, smaller before it.  JAX: same name."""
    x, bottom, top = partition_parts("partition", a, kth, axis)
    return swapaxes(concatenate([bottom[0], top[0]], -1), axis, -1)


def argpartition(a, kth, axis=-1):
    """The indices for `partition`.  JAX: `jnp.argpartition`."""
    x, (_, bottom), _ = partition_parts("argpartition", a, kth, axis)
    n = x.shape[-1]
    if n == bottom.shape[-1]:
        return swapaxes(bottom, axis, -1)
    taken = any(bottom[..., None] == arange(n), axis=-2)
    _, rest = sorting.top_k(convert(~taken, np.float32), n - bottom.shape[-1])
    return swapaxes(concatenate([bottom, rest], -1), axis, -1)


def partition_parts(name, a, kth, axis):
    """-> (x with the axis last, the kth + 1 least and their indices, the others)."""
    x, = arrays(name, a)
    if x.dtype.kind == "c":
        raise NotImplementedError(f"jnp.{name} for complex dtype is not implemented.")
    axis = canonical_axis(axis, x.ndim)
    kth = canonical_axis(kth, x.shape[axis])
    x = swapaxes(x, axis, -1)
    # -x of an unsigned integer wraps around: -(x + 1) turns the order over.
    shift = 1 if x.dtype.kind == "u" else 0
    values, places = sorting.top_k(-(x + shift) if shift else -x, kth + 1)
    bottom = (-values - shift if shift else -values), places
    return x, bottom, sorting.top_k(x, x.shape[-1] - kth - 1)


def sort_complex(a):
    """Sorted, as complex numbers.  JAX: `jnp.sort_complex`."""
    x, = arrays("sort_complex", a)
    return convert(sort(x), dtypes.to_complex_dtype(x.dtype))


def quantile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False,
    *, weights=None,
):  # fmt: skip
    """The values below which parts `q` of the data lie.  JAX: `jnp.quantile`.

    Args:
      q: numbers from 0 to 1; with one axis, that is the result's first.
      method: "linear", "lower", "higher", "midpoint", "nearest" or "inverted_cdf".
      weights: of each value, for "inverted_cdf" only.
    """
    options = (axis, method, keepdims, weights)
    return quantiles("quantile", a, q, out, overwrite_input, False, *options)


def nanquantile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False,
    *, weights=None,
):  # fmt: skip
    """`quantile` of what is not NaN.  JAX: `jnp.nanquantile`."""
    options = (axis, method, keepdims, weights)
    return quantiles("nanquantile", a, q, out, overwrite_input, True, *options)


def quantiles(name, a, q, out, overwrite, skip_nans, axis, method, keepdims, weights):
    """What `quantile` and `nanquantile` share."""
    a, q = arrays(name, a, q)
    if overwrite or out is not None:
        raise ValueError(
            f"jax.numpy.{name} does not support overwrite_input=True or out != None"
        )
    methods = ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"]
    if method not in methods:
        raise ValueError(f"method can only be one of {methods}, got {method!r}")
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' does."
        )
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    x, = promote_args_inexact(name, a)
    if x.dtype.kind == "c":
        raise ValueError("quantile does not support complex input: it has no order.")
    axes = canonical_axes(axis, x.ndim)
    if method == "inverted_cdf":
        result = weighted_quantiles(x, q, axes, weights, skip_nans)
    else:
        result = sorted_quantiles(axes_last(x, axes), q, method, skip_nans)
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    result = reshape(result, (*q.shape, *kept)) if keepdims else result
    return convert(result, x.dtype)


def axes_last(x, axes):
    """The axes moved to the end and joined to one."""
    others = [i for i in range(x.ndim) if i not in axes]
    sizes = [x.shape[i] for i in others]
    size = math.prod(x.shape[i] for i in axes)
    return reshape(transpose(x, (*others, *axes)), (*sizes, size))


def sorted_quantiles(x, q, method, skip_nans):
    """Quantiles along the last axis, read between neighbours of the sorted values."""
    missing = isnan(x)
    if not skip_nans:
        x = choose_where(any(missing, axis=-1, keepdims=True), nan, x)
    x = sort(x)
    q = convert(q, dtypes.to_inexact_dtype(q.dtype))
    n = x.shape[-1] if not skip_nans else sum(~missing, axis=-1, dtype=q.dtype)
    last = convert(n, q.dtype) - 1
    shape = q.shape + x.shape[:-1]
    q = reshape(q, q.shape + (1,) * (x.ndim - 1))
    place = q * last
    low, high = floor(place), ceil(place)
    above = place - low
    low, high = [
        convert(maximum(0, minimum(i, last)), dtypes.default_dtype("signed"))
        for i in (low, high)
    ]
    grid = indices(x.shape[:-1], sparse=True)
    low, high = [x[(*grid, broadcast_to(i, shape))] for i in (low, high)]
    return between(method, low, high, above)


def between(method, low, high, above):
    """A value between two neighbours, by a part `above` from the lower one."""
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "nearest":
        return choose_where(above <= 0.5, low, high)
    if method == "midpoint":
        return (low + high) * 0.5
    work = above.dtype
    return convert(low, work) * (1 - above) + convert(high, work) * above


def weighted_quantiles(x, q, axes, weights, skip_nans):
    """The least values whose weights, with all below, reach the parts q."""
    w = ones_like(x) if weights is None else weights_like(x, axes, weights)
    x, w = promote_dtypes([x, w])
    x, w = axes_last(x, axes), axes_last(w, axes)
    missing = isnan(x)
    bad = any((w < 0) | isnan(w), axis=-1)
    w = choose_where(missing | (w < 0) | isnan(w), 0, w)
    x, w = sort_together(x, w)
    total = cumsum(w, axis=-1)
    target = reshape(q, q.shape + (1,) * x.ndim) * total[..., -1:]
    place = sum(convert(total < target, np.int32), axis=-1)
    valid = sum(~missing, axis=-1) if skip_nans else convert(x.shape[-1], np.int32)
    place = maximum(0, minimum(place, valid - 1))
    grid = indices(x.shape[:-1], sparse=True)
    result = x[(*grid, broadcast_to(place, q.shape + x.shape[:-1]))]
    unknown = valid == 0 if skip_nans else any(missing, axis=-1)
    return choose_where(bad | unknown, nan, result)


def weights_like(x, axes, weights):
    """Weights broadcast to the shape of x: of that shape, or of its axes' shape."""
    weights, = promote_args_inexact("quantile", weights)
    if weights.dtype.kind == "c":
        raise ValueError("Weights cannot be complex types.")
    if weights.shape == x.shape:
        return weights
    if weights.shape != tuple(x.shape[i] for i in axes) or len(axes) == x.ndim:
        raise ValueError(
            f"Weights shape {weights.shape} must match the shape {x.shape} of a, or "
            "the axes that are reduced"
        )
    return primitives.broadcast_in_dim(weights, x.shape, axes)


def percentile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False,
    *, weights=None,
):  # fmt: skip
    """As `quantile`, with q from 0 to 100.  JAX: `jnp.percentile`."""
    check_arraylike("percentile", a, q)
    q, = promote_args_inexact("percentile", q)
    options = (axis, out, overwrite_input, method, keepdims)
    return quantile(a, q / 100, *options, weights=weights)


def nanpercentile(
    a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False,
    *, weights=None,
):  # fmt: skip
    """`percentile` of what is not NaN.  JAX: `jnp.nanpercentile`."""
    check_arraylike("nanpercentile", a, q)
    q, = promote_args_inexact("nanpercentile", q)
    options = (axis, out, overwrite_input, method, keepdims)
    return nanquantile(a, q / 100, *options, weights=weights)


def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The value in the middle.  JAX: `jnp.median`."""
    check_arraylike("median", a)
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """`median` of what is not NaN.  JAX: `jnp.nanmedian`."""
    check_arraylike("nanmedian", a)
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


pad_statistics: dict = {"maximum": max, "minimum": min, "mean": mean, "median": median}


amax, amin = max, min


def ptp(a, axis=None, out=None, keepdims=False):
    """The greatest value minus the least.  JAX: `jnp.ptp`."""
    no_out("ptp", out)
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


def count_nonzero(a, axis=None, keepdims=False):
    """How many values are not zero.  JAX: `jnp.count_nonzero`."""
    x, = arrays("count_nonzero", a)
    return sum(x != 0, axis, int, keepdims=keepdims)


def without_nans(name, a, value, reduction, *args, **options):
    """A reduction with `value` in place of NaN, and where all were NaN."""
    x, = arrays(name, a)
    if x.dtype.kind in "biu":
        return reduction(x, *args, **options), None
    missing = isnan(x)
    x = choose_where(missing, convert(value, x.dtype), x)
    return reduction(x, *args, **options), missing


def nanmax(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """`max` of what is not NaN; NaN if nothing is.  JAX: `jnp.nanmax`."""
    options = (axis, out, keepdims, initial, where)
    result, missing = without_nans("nanmax", a, -inf, max, *options)
    return nan_where_all(result, missing, axis, keepdims, initial)


def nanmin(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """`min` of what is not NaN; NaN if nothing is.  JAX: `jnp.nanmin`."""
    options = (axis, out, keepdims, initial, where)
    result, missing = without_nans("nanmin", a, inf, min, *options)
    return nan_where_all(result, missing, axis, keepdims, initial)


def nan_where_all(result, missing, axis, keepdims, initial):
    """NaN where everything was missing."""
    if missing is None or initial is not None:
        return result
    nothing = all(missing, axis, keepdims=keepdims)
    return choose_where(nothing, convert(nan, result.dtype), result)


def nansum(
    a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None
):
    """`sum` of what is not NaN.  JAX: `jnp.nansum`."""
    options = (axis, dtype, out, keepdims, initial, where)
    return without_nans("nansum", a, 0, sum, *options)[0]


def nanprod(
    a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None
):
    """`prod` of what is not NaN.  JAX: `jnp.nanprod`."""
    options = (axis, dtype, out, keepdims, initial, where)
    return without_nans("nanprod", a, 1, prod, *options)[0]


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, where=None):
    """`mean` of what is not NaN.  JAX: `jnp.nanmean`."""
    no_out("nanmean", out)
    x, = arrays("nanmean", a)
    if x.dtype.kind in "biu":
        return mean(x, axis, dtype, keepdims=keepdims, where=where)
    dtype = inexact_dtype("nanmean", dtype, strong(x))
    options = {"keepdims": keepdims, "where": where}
    n = sum(~isnan(x), axis, dtype, **options)
    return primitives.div(nansum(x, axis, dtype, **options), n)


def nanvar(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None
):
    """`var` of what is not NaN.  JAX: `jnp.nanvar`."""
    no_out("nanvar", out)
    x, = arrays("nanvar", a)
    work, result = variance_dtypes(x.dtype, dtype)
    x = convert(x, work)
    options = {"keepdims": True, "where": where}
    centre = nanmean(x, axis, work, **options) if mean is None else asarray(mean, work)
    distance = x - centre
    if work.kind == "c":
        square = real(distance * conj(distance))
    else:
        square = distance * distance
    square = choose_where(isnan(x), 0, square)
    n = sum(~isnan(x), axis, keepdims=keepdims, where=where) - ddof
    total = sum(square, axis, keepdims=keepdims, where=where)
    total = choose_where(n <= 0, nan, total)
    n = choose_where(n <= 0, 1, n)
    return convert(total / convert(n, total.dtype), result)


def nanstd(
    a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None
):
    """`std` of what is not NaN.  JAX: `jnp.nanstd`."""
    no_out("nanstd", out)
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))


def nan_argument(name, find, a, axis, out, keepdims, value):
    """What `nanargmax` and `nanargmin` share: -1 where all is NaN."""
    no_out(name, out)
    x, = arrays(name, a)
    if x.dtype.kind in "biu":
        return find(x, axis, keepdims=keepdims)
    missing = isnan(x)
    found = find(choose_where(missing, value, x), axis, keepdims=keepdims)
    return choose_where(all(missing, axis, keepdims=bool_of(keepdims)), -1, found)


def nanargmax(a, axis=None, out=None, keepdims=None):
    """`argmax` of what is not NaN; -1 if nothing is.  JAX: `jnp.nanargmax`."""
    return nan_argument("nanargmax", argmax, a, axis, out, keepdims, -inf)


def nanargmin(a, axis=None, out=None, keepdims=None):
    """`argmin` of what is not NaN; -1 if nothing is.  JAX: `jnp.nanargmin`."""
    return nan_argument("nanargmin", argmin, a, axis, out, keepdims, inf)


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    """The mean with weights.  JAX: `jnp.average`.

    With `returned`: -> (mean, sum of weights).
    """
    x, = promote_args_inexact("average", a)
    axes = canonical_axes(axis, x.ndim)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        total = convert(math.prod(x.shape[i] for i in axes), result.dtype)
    else:
        check_arraylike("average", a, weights)
        x, w = promote_dtypes([a, weights], dtypes.to_inexact_dtype)
        w = average_weights(x, w, axis, axes)
        total = sum(w, axis, keepdims=keepdims)
        result = sum(x * w, axis, keepdims=keepdims) / total
    return (result, broadcast_to(total, result.shape)) if returned else result


def average_weights(x, w, axis, axes):
    """Weights with an axis for each of x's: of x's shape, or of its axes'."""
    if w.shape == x.shape:
        return w
    if axis is None:
        raise ValueError("Axis must be specified when shapes of a and weights differ.")
    if w.shape != tuple(x.shape[i] for i in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    kept = [i for i in range(x.ndim) if i not in axes]
    return primitives.expand_dims(transpose(w, order), kept)


def cumulative(name, operation, a, axis, dtype, out=None, promote_integers=False):
    """What `cumsum` and its sisters share."""
    no_out(name, out)
    x, = arrays(name, a)
    if axis is None or dtypes.is_python_scalar(a):
        x, axis = ravel(x), axis or 0
    axis = canonical_axis(axis, x.ndim)
    if dtype is not None:
        result = work = dtypes.user_dtype(dtype, name)
        x = x != 0 if result == np.bool_ else x
        work = to_numeric_dtype(work)
    elif promote_integers or x.dtype == np.bool_:
        _, result = accumulate_dtype(x.dtype, name, None)
        work = result
    else:
        work = result = x.dtype
    return convert(operation(convert(x, work), axis), result)


def cumsum(a, axis=None, dtype=None, out=None):
    """Each sum of the values so far.  JAX: `jnp.cumsum`."""
    return cumulative("cumsum", windows.cumsum, a, axis, dtype, out)


def cumprod(a, axis=None, dtype=None, out=None):
    """Each product of the values so far.  JAX: `jnp.cumprod`."""
    return cumulative("cumprod", windows.cumprod, a, axis, dtype, out)


def nancumsum(a, axis=None, dtype=None, out=None):
    """`cumsum` with 0 for NaN.  JAX: `jnp.nancumsum`."""
    a = ravel(a) if dtypes.is_python_scalar(a) else a
    return without_nans("nancumsum", a, 0, cumsum, axis, dtype, out)[0]


def nancumprod(a, axis=None, dtype=None, out=None):
    """`cumprod` with 1 for NaN.  JAX: `jnp.nancumprod`."""
    a = ravel(a) if dtypes.is_python_scalar(a) else a
    return without_nans("nancumprod", a, 1, cumprod, axis, dtype, out)[0]


def cumulative_of(name, operation, x, axis, dtype, first, promote_integers):
    """The array API's cumulative functions, which may begin with that of nothing."""
    x, = arrays(name, x)
    if x.ndim == 0:
        raise ValueError(f"The input of {name} must be non-scalar, got a scalar.")
    if axis is None and x.ndim > 1:
        raise ValueError(
            f"The input array has rank {x.ndim}, however axis was not set to an "
            "explicit value. It is only optional for one-dimensional arrays."
        )
    axis = canonical_axis(0 if axis is None else axis, x.ndim)
    rest = cumulative(name, operation, x, axis, dtype, None, promote_integers)
    if first is None:
        return rest
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return concatenate([full_like(rest, first, shape=shape), rest], axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """As `cumsum`, in wide integers; may begin with 0.  JAX: same name."""
    first = 0 if include_initial else None
    return cumulative_of("cumulative_sum", windows.cumsum, x, axis, dtype, first, True)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """As `cumprod`; may begin with 1.  JAX: `jnp.cumulative_prod`."""
    first = 1 if include_initial else None
    options = (axis, dtype, first, False)
    return cumulative_of("cumulative_prod", windows.cumprod, x, *options)


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours, n times over.  JAX: `jnp.diff`."""
    x, = arrays("diff", a)
    n = static_int(n, "the argument 'n' of jnp.diff")
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if n == 0:
        return x
    if x.ndim == 0:
        raise ValueError(
            f"diff requires input that is at least one dimensional; got {a}"
        )
    axis = canonical_axis(axis, x.ndim)
    ends = [edge_values("diff", e, x, axis) for e in (prepend, append)]
    parts = [ends[0], x, ends[1]]
    if prepend is not None or append is not None:
        x = concatenate([p for p in parts if p is not None], axis)
    for _ in range(n):
        after, before = part_of(x, axis, 1, None), part_of(x, axis, None, -1)
        x = (not_equal if x.dtype == np.bool_ else subtract)(after, before)
    return x


def edge_values(name, value, x, axis):
    """What is joined to x along an axis: an array, a number for all, or None."""
    if value is None:
        return None
    value, = arrays(name, value)
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return value if value.ndim else broadcast_to(value, shape)


def ediff1d(ary, to_end=None, to_begin=None):
    """Differences of neighbours, flat, between given ends.  JAX: same name."""
    x = ravel(ary)
    result = primitives.sub(x[1:], x[:-1])
    if to_begin is not None:
        begin = convert(arrays("ediff1d", to_begin)[0], x.dtype)
        result = concatenate([ravel(begin), result])
    if to_end is not None:
        end = convert(arrays("ediff1d", to_end)[0], x.dtype)
        result = concatenate([result, ravel(end)])
    return result


def gradient(f, *varargs, axis=None, edge_order=None):
    """Central differences, one-sided at the ends.  JAX: `jnp.gradient`.

    Args:
      varargs: the spacing: one number for all axes, or for each axis a number or the
        places of its points.

    Returns an array, or a list of one an axis.
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient.")
    check_arraylike("gradient", f, *varargs)
    x, *spacing = promote_dtypes([f, *varargs], dtypes.to_inexact_dtype)
    axes = canonical_axes(axis, x.ndim)
    if builtins.any(x.shape[i] < 2 for i in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 "
            "elements are required."
        )
    if len(spacing) == 0:
        spacing = [convert(1.0, x.dtype)]
    if len(spacing) not in (1, len(axes)):
        raise TypeError(
            f"Invalid number of spacing arguments {len(spacing)} for {axis=}"
        )
    spacing = spacing * len(axes) if len(spacing) == 1 else spacing
    pairs = zip(axes, spacing, strict=True)
    results = [gradient_along(x, h, i) for i, h in pairs]
    return results[0] if len(axes) == 1 else results


def gradient_along(x, h, axis):
    """`gradient` along one axis."""
    n = x.shape[axis]
    if h.ndim > 1:
        raise ValueError("Spacing arrays must be 1D arrays or scalars.")
    if h.ndim == 1 and h.shape[0] != n:
        raise ValueError(
            "Spacing arrays must have the same length as the dimension along which "
            "the gradient is calculated."
        )
    step = diff(x, axis=axis)
    if h.ndim == 0:
        slope = step / h
        inner = (part_of(x, axis, 2, None) - part_of(x, axis, None, -2)) * 0.5 / h
    else:
        width = along_axis(diff(h), axis, x.ndim)
        slope = step / width
        d1, d2 = part_of(width, axis, None, -1), part_of(width, axis, 1, None)
        before, middle, after = [
            part_of(x, axis, i, n - 2 + i) for i in range(3)
        ]
        inner = -d2 / (d1 * (d1 + d2)) * before
        inner = inner + (d2 - d1) / (d1 * d2) * middle
        inner = inner + d1 / (d2 * (d1 + d2)) * after
    ends = part_of(slope, axis, 0, 1), part_of(slope, axis, n - 2, n - 1)
    return concatenate([ends[0], inner, ends[1]], axis)


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral by the trapezoid rule.  JAX: `jnp.trapezoid`."""
    if x is None:
        y, = promote_args_inexact("trapezoid", y)
        widths = asarray(dx)
        if widths.ndim:
            widths = moveaxis(expand_to(widths, y.ndim), axis, -1)
    else:
        check_arraylike("trapezoid", y, x)
        y, x = promote_dtypes([y, x], dtypes.to_inexact_dtype)
        widths = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    y = moveaxis(y, axis, -1)
    if widths.ndim == 0 or widths.shape[-1] == 1:
        width = widths if widths.ndim == 0 else widths[..., 0]
        return width * (sum(y, -1) - 0.5 * (y[..., 0] + y[..., -1]))
    return 0.5 * sum(widths * (y[..., 1:] + y[..., :-1]), -1)


def interp(x, xp, fp, left=None, right=None, period=None):
    """Linear interpolation between the points (xp, fp), xp rising.  JAX: same name.

    Args:
      left, right: the value outside, by default that of the end; "extrapolate" goes on.
      period: of x; the points are sorted first then.
    """
    check_arraylike("interp", x, xp, fp)
    if np_shape(xp) != np_shape(fp) or len(np_shape(xp)) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(
                f"the only valid string value of `{name}` is 'extrapolate', but got: "
                f"{value!r}"
            )
    x, xp = promote_dtypes([x, xp], dtypes.to_inexact_dtype)
    fp, = promote_dtypes([fp], dtypes.to_inexact_dtype)
    if x.dtype.kind == "c":
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        x, xp, fp = periodic_points(x, xp, fp, period)
    i = clip(searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    df, dx = fp[i] - fp[i - 1], xp[i] - xp[i - 1]
    flat = primitives.abs(dx) <= np.spacing(dtypes.finfo(xp.dtype).eps)
    slope = (x - xp[i - 1]) / choose_where(flat, 1, dx)
    y = choose_where(flat, fp[i - 1], fp[i - 1] + slope * df)
    if period is None and left != "extrapolate":
        y = choose_where(x < xp[0], fp[0] if left is None else left, y)
    if period is None and right != "extrapolate":
        y = choose_where(x > xp[-1], fp[-1] if right is None else right, y)
    return y


def periodic_points(x, xp, fp, period):
    """Points brought into one period, sorted, and continued by one on each side."""
    if np_shape(period) != ():
        raise ValueError(f"period must be a scalar; got {period}")
    period = absolute(period)
    x, xp = x % period, xp % period
    xp, fp = sort_together(xp, fp)
    xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return x, xp, concatenate([fp[-1:], fp, fp[:1]])


def unwrap(p, discont=None, axis=-1, period=2 * pi):
    """Without jumps of more than half a period between neighbours.  JAX: same name."""
    check_arraylike("unwrap", p, period, *([] if discont is None else [discont]))
    p, period = promote_dtypes([p, period])
    if p.dtype.kind == "c":
        raise ValueError("jnp.unwrap does not support complex inputs.")
    axis = canonical_axis(axis, p.ndim)
    if p.shape[axis] == 0:
        return p
    discont = period / 2 if discont is None else discont
    half = period // 2 if p.dtype.kind in "iu" else period / 2
    step = diff(p, axis=axis)
    wrapped = mod(step + half, period) - half
    wrapped = choose_where((wrapped == -half) & (step > 0), half, wrapped)
    change = choose_where(absolute(step) < discont, 0, wrapped - step)
    first, rest = part_of(p, axis, 0, 1), part_of(p, axis, 1, None)
    return concatenate([first, rest + cumsum(change, axis=axis)], axis)


def convolution(name, x, y, mode, precision, dtype):
    """What `convolve` and `correlate` share: slide the shorter over the longer."""
    check_arraylike(name, x, y)
    x, y = promote_dtypes([x, y], dtypes.to_inexact_dtype if dtype is None else None)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    if x.size == 0 or y.size == 0:
        raise ValueError(
            f"{name}: inputs cannot be empty, got shapes {x.shape} and {y.shape}."
        )
    y = conj(y) if name == "correlate" else y
    swap = x.size < y.size
    x, y = (y, x) if swap else (x, y)
    y = flip(y) if name == "convolve" else y
    n = y.size
    paddings = {"valid": (0, 0), "same": (n // 2, n - n // 2 - 1), "full": (n - 1,) * 2}
    if mode not in paddings:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    result = windows.conv_general_dilated(
        x[None, None], y[None, None], (1,), [paddings[mode]],
        precision=precision, preferred_element_type=dtype,
    )[0, 0]  # fmt: skip
    return flip(result) if name == "correlate" and swap else result


def convolve(a, v, mode="full", *, precision=None, preferred_element_type=None):
    """The convolution of two vectors.  JAX: `jnp.convolve`."""
    return convolution("convolve", a, v, mode, precision, preferred_element_type)


def correlate(a, v, mode="valid", *, precision=None, preferred_element_type=None):
    """The cross-correlation of two vectors.  JAX: `jnp.correlate`."""
    return convolution("correlate", a, v, mode, precision, preferred_element_type)


def cov(
    m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None,
    dtype=None,
):  # fmt: skip
    """The covariance matrix of variables, a row each.  JAX: `jnp.cov`."""
    x = variables("cov", m, y, rowvar)
    if dtype is not None:
        x = convert(x, real_dtype("cov", dtype))
    if x.shape[0] == 0:
        return zeros((0, 0))
    if x.shape[1] == 0:
        return squeeze(full((x.shape[0],) * 2, nan, x.dtype))
    ddof = int(not bias) if ddof is None else ddof
    w = sample_weights(x, fweights, aweights)
    w = w if w is None or dtype is None else convert(w, x.dtype)
    centre, total = average(x, 1, w, returned=True)
    total = total[0]
    if w is None:
        n = x.shape[1] - ddof
    elif aweights is None or ddof == 0:
        n = total - ddof
    else:
        n = total - ddof * sum(w * absolute(aweights)) / total
    x = x - centre[:, None]
    weighted = x if w is None else x * w
    return squeeze(dot(x, conj(weighted.T)) / n)


def variables(name, m, y, rowvar):
    """The variables of `cov` as the rows of a matrix."""
    args = [m] if y is None else [m, y]
    check_arraylike(name, *args)
    args = promote_dtypes(args, dtypes.to_inexact_dtype)
    rows = []
    for x in args:
        if x.ndim > 2:
            raise ValueError(f"an argument of {name} has more than 2 dimensions")
        flat = x.ndim == 1
        x = atleast_2d(x)
        rows.append(x if rowvar or flat or (rows and x.shape[0] == 1) else x.T)
    return concatenate(rows, 0) if len(rows) > 1 else rows[0]


def real_dtype(name, dtype):
    """A dtype asked for that must be floating or complex."""
    dtype = dtypes.user_dtype(dtype, name)
    if dtype.kind in "biu":
        raise ValueError(f"{name}: dtype must be a float or complex type; got {dtype}")
    return dtype


def sample_weights(x, fweights, aweights):
    """The weight of each sample, or None."""
    w = None
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        weights, = arrays("cov", weights)
        if weights.ndim > 1 or weights.shape[0] != x.shape[1]:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and weights.dtype.kind not in "iu":
            raise TypeError("fweights must be integer.")
        w = absolute(weights) if w is None else w * absolute(weights)
    return w


def corrcoef(x, y=None, rowvar=True, dtype=None):
    """The correlation matrix of variables, a row each.  JAX: `jnp.corrcoef`."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return divide(c, c)
    deviation = convert(sqrt(real(diag(c))), c.dtype)
    c = c / deviation[:, None] / deviation
    if c.dtype.kind != "c":
        return clip(c, -1, 1)
    return elementwise.complex(clip(real(c), -1, 1), clip(imag(c), -1, 1))


def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """The sum along a diagonal.  JAX: `jnp.trace`."""
    no_out("trace", out)
    a, = arrays("trace", a)
    if canonical_axis(axis1, a.ndim) == canonical_axis(axis2, a.ndim):
        raise ValueError(f"axis1 and axis2 can not be same. {axis1=} and {axis2=}")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    mask = eye(*a.shape[-2:], k=offset, dtype=np.bool_)
    return sum(choose_where(mask, a, zeros_like(a)), (-2, -1), dtype)


def outer(a, b, out=None):
    """All products of two vectors' elements.  JAX: `jnp.outer`."""
    no_out("outer", out)
    check_arraylike("outer", a, b)
    x, y = promote_dtypes([a, b])
    return ravel(x)[:, None] * ravel(y)[None]


def inner(a, b, *, precision=None, preferred_element_type=None):
    """Sum products over both last axes.  JAX: `jnp.inner`."""
    x, y = arrays("inner", a, b)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    if x.ndim and y.ndim:
        return tensordot(x, y, (-1, -1), **options)
    if preferred_element_type is not None:
        x, y = astype(x, preferred_element_type), astype(y, preferred_element_type)
    return x * y


def vdot(a, b, *, precision=None, preferred_element_type=None):
    """Sum products of all elements, a's conjugated.  JAX: `jnp.vdot`."""
    x, y = arrays("vdot", a, b)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return dot(ravel(conj(x)), ravel(y), **options)


def vecdot(x1, x2, /, *, axis=-1, precision=None, preferred_element_type=None):
    """Sum products along an axis, x1's conjugated; others broadcast.  JAX: same."""
    x, y = arrays("jnp.vecdot", x1, x2)
    if x.shape[canonical_axis(axis, x.ndim)] != y.shape[canonical_axis(axis, y.ndim)]:
        raise ValueError(
            f"axes must match; got shapes {x.shape} and {y.shape} with {axis=}"
        )
    x, y = moveaxis(conj(x), axis, -1), moveaxis(y, axis, -1)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return matmul(x[..., None, :], y[..., None], **options)[..., 0, 0]


def matvec(x1, x2, /):
    """Matrices times vectors; leading axes broadcast.  JAX: `jnp.matvec`."""
    x, y = arrays("matvec", x1, x2)
    return matmul(x, y[..., None])[..., 0]


def vecmat(x1, x2, /):
    """Conjugate vectors times matrices; leading axes broadcast.  JAX: same name."""
    x, y = arrays("vecmat", x1, x2)
    return matmul(conj(x)[..., None, :], y)[..., 0, :]


def kron(a, b):
    """The Kronecker product.  JAX: `jnp.kron`."""
    check_arraylike("kron", a, b)
    x, y = promote_dtypes([a, b])
    rank = builtins.max(x.ndim, y.ndim)
    x, y = expand_to(x, rank), expand_to(y, rank)
    shape = [m * n for m, n in zip(x.shape, y.shape, strict=True)]
    x = primitives.expand_dims(x, range(1, 2 * rank, 2))
    y = primitives.expand_dims(y, range(0, 2 * rank, 2))
    return reshape(x * y, shape)


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The cross product of vectors of 3, or of 2.  JAX: `jnp.cross`."""
    check_arraylike("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    a, b = [[x[..., i] for i in range(x.shape[-1])] for x in (a, b)]
    last = a[0] * b[1] - a[1] * b[0]
    if len(a) == len(b) == 2:
        return last
    a, b = [x if len(x) == 3 else [*x, zeros_like(x[0])] for x in (a, b)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], last]
    return moveaxis(stack(parts), 0, axisc)


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


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """The norm of vectors along axes.  JAX: `jnp.linalg.vector_norm`."""
    x, = promote_args_inexact("jnp.linalg.vector_norm", x)
    if ord is None or ord == 2:
        return sqrt(sum(real(x * conj(x)), axis, keepdims=keepdims))
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm; see jnp.inf.")
    size = primitives.abs(x)
    if ord == inf:
        return max(size, axis, keepdims=keepdims, initial=0)
    if ord == -inf:
        return min(size, axis, keepdims=keepdims)
    if ord == 0:
        return sum(x != 0, axis, size.dtype, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    exponent = convert(ord, size.dtype)
    return power(sum(size**exponent, axis, keepdims=keepdims), 1.0 / exponent)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of matrices in the last two axes.  JAX: `jnp.linalg.matrix_norm`."""
    return norm(x, ord, (-2, -1), keepdims)


def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of vectors (one axis) or matrices (two axes).  JAX: `jnp.linalg.norm`.

    Args:
      ord: of vectors any number or infinity, by default 2; of matrices "fro" (the
        default), 1, -1, inf, -inf, and "nuc", 2, -2, which are not here yet.
    """
    x, = promote_args_inexact("jnp.linalg.norm", x)
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    axes = canonical_axes(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, ord=ord, axis=axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of axes for norm: {axis=}. Pass one axis to compute a "
            "vector-norm, or two axes to compute a matrix-norm."
        )
    if ord in (None, "f", "fro"):
        return vector_norm(x, axis=axes, keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        raise NotImplementedError(f"norm of matrices with ord={ord!r}: needs svd")
    if ord not in (1, -1, inf, -inf):
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    first, second = axes if builtins.abs(ord) == 1 else axes[::-1]
    sums = sum(primitives.abs(x), first, keepdims=True)
    initial = {"initial": 0} if ord > 0 else {}
    result = (max if ord > 0 else min)(sums, second, keepdims=True, **initial)
    return result if keepdims else squeeze(result, axes)


def matrix_power(a, n):
    """A square matrix to the power n >= 0.  JAX: `jnp.linalg.matrix_power`."""
    a, = promote_args_inexact("jnp.linalg.matrix_power", a)
    n = static_int(n, "the argument 'n' of jnp.linalg.matrix_power")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError(
            f"Last 2 dimensions of the array must be square, got shape {a.shape}"
        )
    if n < 0:
        raise NotImplementedError("jnp.linalg.matrix_power of n < 0: needs inv")
    result = None
    while n:
        if n % 2:
            result = a if result is None else matmul(result, a)
        n //= 2
        a = matmul(a, a) if n else a
    unit = eye(a.shape[-1], dtype=a.dtype)
    return broadcast_to(unit, a.shape) if result is None else result


def multi_dot(arrays, *, precision=None):
    """The product of matrices, in the cheapest order.  JAX: `jnp.linalg.multi_dot`."""
    parts = checked("jnp.linalg.multi_dot", arrays)
    letters = [chr(ord("a") + i) for i in range(len(parts) + 1)]
    first, last = len(np_shape(parts[0])) == 1, len(np_shape(parts[-1])) == 1
    terms = ["".join(letters[i : i + 2]) for i in range(len(parts))]
    terms[0] = terms[0][first:]
    terms[-1] = terms[-1][:1] if last else terms[-1]
    result = ("" if first else letters[0]) + ("" if last else letters[-1])
    text = f"{','.join(terms)}->{result}"
    return einsum(text, *parts, optimize="optimal", precision=precision)


def linalg_cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of 3.  JAX: `jnp.linalg.cross`."""
    x1, x2 = arrays("cross", x1, x2)
    sizes = [x.shape[canonical_axis(axis, x.ndim)] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError("Both input arrays must be 3-dimensional vectors")
    return cross(x1, x2, axis=axis)


def linalg_diagonal(x, /, *, offset=0):
    """The diagonals of matrices in the last two axes.  JAX: `jnp.linalg.diagonal`."""
    return diagonal(x, offset, -2, -1)


def linalg_trace(x, /, *, offset=0, dtype=None):
    """The traces of matrices in the last two axes.  JAX: `jnp.linalg.trace`."""
    return trace(x, offset, -2, -1, dtype)


def linalg_outer(x1, x2, /):
    """All products of two vectors' elements.  JAX: `jnp.linalg.outer`."""
    if len(np_shape(x1)) != 1 or len(np_shape(x2)) != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return outer(x1, x2)


linalg = SimpleNamespace(
    norm=norm, vector_norm=vector_norm, matrix_norm=matrix_norm,
    matrix_power=matrix_power, matrix_transpose=matrix_transpose, multi_dot=multi_dot,
    matmul=matmul, tensordot=tensordot, vecdot=vecdot, outer=linalg_outer,
    cross=linalg_cross, diagonal=linalg_diagonal, trace=linalg_trace,
)  # fmt: skip


def packbits(a, axis=None, bitorder="big"):
    """Eight bools as one uint8.  JAX: `jnp.packbits`."""
    x, = arrays("packbits", a)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    weights = bit_weights(bitorder)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    x = convert(truth(swapaxes(x, axis, -1)), np.uint8)
    rest = -x.shape[-1] % 8
    row = [(0, 0, 0)] * (x.ndim - 1) + [(0, rest, 0)]
    x = indexing.pad(x, convert(0, np.uint8), row) if rest else x
    x = reshape(x, (*x.shape[:-1], x.shape[-1] // 8, 8))
    return swapaxes(sum(x * weights, -1, np.uint8), axis, -1)


def bit_weights(bitorder):
    """The values of the eight bits of a byte."""
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")
    weights = 2 ** np.arange(8, dtype=np.uint8)
    return as_array(weights if bitorder == "little" else weights[::-1])


def unpackbits(a, axis=None, count=None, bitorder="big"):
    """The bits of uint8 numbers.  JAX: `jnp.unpackbits`."""
    x, = arrays("unpackbits", a)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    weights = bit_weights(bitorder)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    x = swapaxes(x, axis, -1)
    bits = convert(x[..., None] & weights, np.bool_)
    bits = convert(reshape(bits, (*x.shape[:-1], 8 * x.shape[-1])), np.uint8)
    if count is not None:
        more = builtins.max(0, count - bits.shape[-1])
        bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, more)])
        bits = bits[..., :count]
    return swapaxes(bits, axis, -1)


def polyval(p, x, *, unroll=16):
    """The polynomial with coefficients p, highest first, at x.  JAX: same name."""
    check_arraylike("polyval", p, x)
    p, x = promote_dtypes([p, x])
    shape = broadcast_shapes(p.shape[1:], x.shape)
    y = zeros(shape, x.dtype)
    for i in range(p.shape[0]):
        y = y * x + p[i]
    return y


def polyadd(a1, a2):
    """The sum of two polynomials.  JAX: `jnp.polyadd`."""
    check_arraylike("polyadd", a1, a2)
    x, y = promote_dtypes([a1, a2])
    x, y = (x, y) if y.shape[0] <= x.shape[0] else (y, x)
    return x.at[-y.shape[0] :].add(y) if y.shape[0] else x


def polysub(a1, a2):
    """The difference of two polynomials.  JAX: `jnp.polysub`."""
    check_arraylike("polysub", a1, a2)
    x, y = promote_dtypes([a1, a2])
    return polyadd(x, -y)


def polymul(a1, a2, *, trim_leading_zeros=False):
    """The product of two polynomials.  JAX: `jnp.polymul`."""
    check_arraylike("polymul", a1, a2)
    x, y = promote_dtypes([a1, a2], dtypes.to_inexact_dtype)
    if trim_leading_zeros and (x.size > 1 or y.size > 1):
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    x, y = [z if z.size else zeros(1, z.dtype) for z in (x, y)]
    return convolve(x, y)


def polydiv(u, v, *, trim_leading_zeros=False):
    """-> (quotient, remainder) of two polynomials.  JAX: `jnp.polydiv`."""
    check_arraylike("polydiv", u, v)
    u, v = promote_dtypes([u, v], dtypes.to_inexact_dtype)
    m, n = u.shape[0] - 1, v.shape[0] - 1
    q = zeros(builtins.max(m - n + 1, 1), u.dtype)
    for k in range(m - n + 1):
        d = u[k] / v[0]
        q = q.at[k].set(d)
        u = u.at[k : k + n + 1].add(-d * v)
    if trim_leading_zeros:
        small = float(dtypes.finfo(u.dtype).eps) ** 0.5
        known = concrete(absolute(u) < small, "the remainder of jnp.polydiv", static)
        u = u[int(np.argmin(known)) if not known.all() else u.shape[0] :]
    return q, u


def polyint(p, m=1, k=None):
    """The m-th integral of a polynomial, with constants k.  JAX: `jnp.polyint`."""
    m = static_int(m, "the argument 'm' of jnp.polyint")
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    check_arraylike("polyint", p, 0 if k is None else k)
    p, k = promote_dtypes([p, 0 if k is None else k], dtypes.to_inexact_dtype)
    k = broadcast_to(k, (m,)) if k.size == 1 else k
    if k.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    n = p.shape[0] + m
    grid = np.maximum(1, np.arange(n)[None] - np.arange(m)[:, None])
    return concatenate([p, k]) / convert(grid.prod(0)[::-1].astype(float), p.dtype)


def polyder(p, m=1):
    """The m-th derivative of a polynomial.  JAX: `jnp.polyder`."""
    p, = promote_args_inexact("polyder", p)
    m = static_int(m, "the argument 'm' of jnp.polyder")
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    grid = np.arange(m, p.shape[0])[None] - np.arange(m)[:, None]
    return p[:-m] * convert(grid.prod(0)[::-1].astype(float), p.dtype)


def poly(seq_of_zeros):
    """The polynomial with these zeros.  JAX: `jnp.poly`; of matrices not yet."""
    x, = promote_args_inexact("poly", seq_of_zeros)
    x = atleast_1d(x)
    if x.ndim != 1:
        raise NotImplementedError("jnp.poly of a matrix needs its eigenvalues")
    result = ones((1,) if x.size else (), x.dtype)
    for i in range(x.shape[0]):
        result = convolve(result, stack([ones((), x.dtype), -x[i]]))
    return result


def window(name, weight):
    """The window function `name`: M weights, highest in the middle."""

    def function(M):
        M = static_int(M, f"the argument 'M' of jnp.{name}")
        dtype = dtypes.default_dtype("floating")
        return ones(M, dtype) if M <= 1 else weight(counting(M, dtype), M - 1)

    function = named(function, name)
    function.__doc__ = f"The {name} window of M points.  JAX: `jnp.{name}`."
    return function


bartlett = window("bartlett", lambda n, m: 1 - absolute(2 * n - m) / m)
hanning = window("hanning", lambda n, m: 0.5 * (1 - cos(2 * pi * n / m)))
hamming = window("hamming", lambda n, m: 0.54 - 0.46 * cos(2 * pi * n / m))
blackman = window(
    "blackman",
    lambda n, m: 0.42 - 0.5 * cos(2 * pi * n / m) + 0.08 * cos(4 * pi * n / m),
)


def kaiser(M, beta):
    """The Kaiser window of M points.  JAX: `jnp.kaiser`."""
    M = static_int(M, "the argument 'M' of jnp.kaiser")
    dtype = dtypes.default_dtype("floating")
    if M <= 1:
        return ones(M, dtype)
    middle = 0.5 * (M - 1)
    distance = (counting(M, dtype) - middle) / middle
    return i0(beta * sqrt(1 - distance**2)) / i0(beta)


def apply_over_axes(func, a, axes):
    """`func(a, axis)` for one axis after another.  JAX: `jnp.apply_over_axes`."""
    x, = arrays("apply_over_axes", a)
    for axis in axes:
        y = func(x, axis)
        if y.ndim not in (x.ndim, x.ndim - 1):
            raise ValueError("function is not returning an array of the correct shape")
        x = y if y.ndim == x.ndim else expand_dims(y, axis)
    return x


def can_cast(from_, to, casting="safe"):
    """Whether values of a dtype may become another.  JAX: `jnp.can_cast`."""
    return bool_of(np.can_cast(np.dtype(from_), np.dtype(to), casting))


def iterable(y):
    """Whether `for` can go over y.  JAX: `jnp.iterable`."""
    return bool_of(np.iterable(y)) and not (isinstance(y, Array) and y.ndim == 0)


def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    """`repr` of an array.  JAX: `jnp.array_repr`."""
    return repr(asarray(arr))


def array_str(a, max_line_width=None, precision=None, suppress_small=None):
    """`str` of an array.  JAX: `jnp.array_str`."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file, arr, allow_pickle=True):
    """Write an array to a .npy file.  JAX: `jnp.save`."""
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file, *args, allow_pickle=True, **kwds):
    """Write arrays to an .npz file.  JAX: `jnp.savez`."""
    kwds = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *map(np.asarray, args), allow_pickle=allow_pickle, **kwds)


def load(file, *args, **kwargs):
    """Read an array from a .npy file.  JAX: `jnp.load`."""
    out = np.load(file, *args, **kwargs)
    return asarray(out) if isinstance(out, np.ndarray) else out


printoptions = np.printoptions
set_printoptions, get_printoptions = np.set_printoptions, np.get_printoptions


def view(x, dtype=None, type=None):
    """`x.view(dtype)`: the same bytes as another dtype.

    The last axis grows or shrinks where the sizes of the elements differ.
    """
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    if dtype is None or dtypes.user_dtype(dtype, "view") == x.dtype:
        return x
    dtype = dtypes.user_dtype(dtype, "view")
    old, new = x.dtype.itemsize, dtype.itemsize
    if x.ndim == 0:
        if old != new:
            raise ValueError(
                "view() of a 0d array is only supported if the itemsize is unchanged."
            )
        return squeeze(view(x[None], dtype), 0)
    if x.shape[-1] * old % new:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total "
            "size in bytes of the last axis of the array."
        )
    if x.dtype == np.bool_:
        return view(convert(x, np.uint8), dtype)
    if dtype == np.bool_:
        return convert(view(x, np.uint8), np.bool_)
    if x.dtype.kind == "c":
        parts = stack([real(x), imag(x)], -1)
        return view(reshape(parts, (*x.shape[:-1], 2 * x.shape[-1])), dtype)
    if dtype.kind == "c":
        parts = view(x, np.dtype(f"f{new // 2}"))
        return elementwise.complex(parts[..., ::2], parts[..., 1::2])
    if old < new:
        x = reshape(x, (*x.shape[:-1], x.shape[-1] * old // new, new // old))
    out = elementwise.bitcast_convert_type(x, dtype)
    return reshape(out, (*out.shape[:-2], -1)) if old > new else out


def byteswap(x):
    """`x.byteswap()`: the bytes of each element in reverse order."""
    if x.dtype.kind == "c":
        return elementwise.complex(byteswap(real(x)), byteswap(imag(x)))
    if x.dtype.itemsize == 1:
        return copy(x)
    parts = elementwise.bitcast_convert_type(x, np.dtype(np.uint8))
    return elementwise.bitcast_convert_type(flip(parts, -1), x.dtype)


def clip_method(x, min=None, max=None):
    """`x.clip(min, max)`."""
    return clip(x, min, max)


def compress_method(x, condition, axis=None, *, out=None, size=None, fill_value=0):
    """`x.compress(condition)`."""
    return compress(condition, x, axis, size=size, fill_value=fill_value, out=out)


def no_flat(x):
    """`x.flat` would write into the array."""
    raise NotImplementedError(
        "minijit arrays do not implement the arr.flat property: consider "
        "arr.flatten() instead."
    )


operators |= {
    "__round__": round,
    "real": property(real),
    "imag": property(imag),
    "flat": property(no_flat),
    "conj": conj,
    "conjugate": conj,
    "round": round,
    "clip": clip_method,
    "ptp": ptp,
    "cumsum": cumsum,
    "cumprod": cumprod,
    "swapaxes": swapaxes,
    "diagonal": diagonal,
    "trace": trace,
    "repeat": repeat,
    "view": view,
    "byteswap": byteswap,
}
operators |= {
    "sort": sort,
    "argsort": argsort,
    "argpartition": argpartition,
    "searchsorted": searchsorted,
    "nonzero": nonzero,
    "take": take,
    "choose": choose,
    "compress": compress_method,
}

__all__ = """
    ndarray pi e euler_gamma inf nan newaxis
    bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 bfloat16 float16 float32
    float64 complex64 complex128
    array asarray astype copy zeros ones full full_like zeros_like ones_like arange
    exp log sin cos tanh sqrt negative positive sign invert bitwise_not absolute abs
    add subtract multiply divide true_divide power pow maximum minimum
    bitwise_and bitwise_or bitwise_xor logical_not logical_and logical_or logical_xor
    equal not_equal less less_equal greater greater_equal isnan where
    reshape ravel transpose matrix_transpose moveaxis expand_dims squeeze
    broadcast_to broadcast_arrays broadcast_shapes concatenate stack
    sum prod max min all any mean var std argmax argmin
    dot tensordot matmul
    bool int_ uint float_ complex_ single double csingle cdouble dtype ComplexWarning
    generic number integer signedinteger unsignedinteger inexact floating
    complexfloating finfo iinfo isdtype issubdtype promote_types result_type can_cast
    empty empty_like linspace logspace geomspace eye identity tri tril triu
    mask_indices tril_indices triu_indices tril_indices_from triu_indices_from
    diag_indices diag_indices_from diagonal diag diagflat fill_diagonal meshgrid ix_
    indices mgrid ogrid r_ c_ s_ index_exp frombuffer fromstring from_dlpack
    fromfunction vander shape ndim size
    tan arcsin arccos arctan sinh cosh arcsinh arccosh arctanh expm1 log1p exp2 cbrt
    square arctan2 nextafter float_power asin acos atan atan2 asinh acosh atanh
    left_shift right_shift bitwise_left_shift bitwise_right_shift bitwise_invert
    bitwise_count fabs floor ceil trunc rint round around real imag conj conjugate
    angle isfinite isinf isposinf isneginf iscomplex isreal iscomplexobj isrealobj
    isscalar signbit copysign spacing frexp ldexp modf remainder mod fmod floor_divide
    divmod reciprocal log2 log10 deg2rad rad2deg radians degrees logaddexp logaddexp2
    heaviside hypot sinc i0 nan_to_num clip fmax fmin gcd lcm isclose allclose
    array_equal array_equiv
    take take_along_axis put_along_axis put place choose select piecewise nonzero
    flatnonzero argwhere compress extract searchsorted digitize bincount
    histogram_bin_edges histogram histogram2d histogramdd ravel_multi_index
    unravel_index unique unique_all unique_counts unique_inverse unique_values isin
    union1d setdiff1d setxor1d intersect1d
    swapaxes rollaxis permute_dims concat unstack flip fliplr flipud rot90 roll tile
    repeat atleast_1d atleast_2d atleast_3d vstack hstack dstack column_stack block
    split array_split vsplit hsplit dsplit resize append delete insert trim_zeros pad
    sort argsort lexsort partition argpartition sort_complex quantile nanquantile
    percentile nanpercentile median nanmedian
    amax amin ptp count_nonzero nanmax nanmin nansum nanprod nanmean nanvar nanstd
    nanargmax nanargmin average cumsum cumprod nancumsum nancumprod cumulative_sum
    cumulative_prod diff ediff1d gradient trapezoid interp unwrap convolve correlate
    cov corrcoef trace outer inner vdot vecdot matvec vecmat kron cross einsum
    einsum_path linalg packbits unpackbits polyval polyadd polysub polymul polydiv
    polyint polyder poly bartlett hanning hamming blackman kaiser apply_over_axes
    iterable array_repr array_str save savez load printoptions set_printoptions
    get_printoptions
""".split()


def __dir__():
    return sorted(__all__)

# chapter 7, brought along
from functools import partial

from .transform.custom import SymbolicZero, custom_jvp

# Inside they have a corner where x1 = x2, which only cancels in first derivatives.
smooth_logaddexp = custom_jvp(logaddexp)
smooth_logaddexp2 = custom_jvp(logaddexp2)


def logaddexp(x1, x2, /):  # type: ignore[no-redef]
    """log(exp(x1) + exp(x2)) without overflow.  JAX: `jnp.logaddexp`."""
    return smooth_logaddexp(*promote_args_inexact("logaddexp", x1, x2))


def logaddexp2(x1, x2, /):  # type: ignore[no-redef]
    """log2(2**x1 + 2**x2) without overflow.  JAX: `jnp.logaddexp2`."""
    return smooth_logaddexp2(*promote_args_inexact("logaddexp2", x1, x2))


def share_of_sum(function, exponential, primals, tangents):
    """The derivative of a logarithm of a sum by a summand is its share of the sum."""
    total = function(*primals)
    out = zeros_like(total)
    for x, t in zip(primals, tangents, strict=True):
        if not isinstance(t, SymbolicZero):
            # An infinite summand is all of the sum; inf - inf would be NaN.
            share = choose_where(isposinf(real(x)), like(x, 0), x - total)
            out = out + t * exponential(share)
    return total, out


smooth_logaddexp.defjvp(partial(share_of_sum, smooth_logaddexp, exp), True)
smooth_logaddexp2.defjvp(partial(share_of_sum, smooth_logaddexp2, exp2), True)


# chapter 8, brought along
import functools
import re

from .trace.pytree import tree_map
from .transform.batching import vmap

DIMENSIONS = r"\((?:\w+(?:,\w+)*)?\)"


class Vectorized:
    """What `vectorize` was told, and the function that it makes.

    Attributes:
      excluded: positions and names of the arguments that are passed on as they are.
      signature: the text, or None.
      inputs, outputs: for each argument and each result the names of its own axes;
        None for what the signature does not say.
    """

    def __init__(self, function, excluded, signature):
        self.function = function
        self.excluded = check_excluded(excluded)
        self.signature = signature
        self.inputs = self.outputs = None
        if signature is not None:
            self.inputs, self.outputs = parse_signature(signature)

    def error(self, kind, problem):
        """An exception of a kind that names the function and the signature."""
        name = getattr(self.function, "__name__", repr(self.function))
        where = f"{name}, vectorized with signature={self.signature!r}"
        return kind(f"{where}: {problem}{at_line(user_source())}")

    def __call__(self, *args, **kwargs):
        places = [*enumerate(args), *kwargs.items()]
        given = [p for p, x in places if p not in self.excluded and x is not None]
        values = dict(places)
        operands = [asarray(values[p]) for p in given]
        core = self.core_axes(len(args), kwargs, given)

        def one(*parts):
            full = values | dict(zip(given, parts, strict=True))
            positional = [full[i] for i in range(len(args))]
            result = self.function(*positional, **{k: full[k] for k in kwargs})
            if self.outputs is not None:
                self.check_results(result, sizes)
            return result

        sizes = self.core_sizes(core, operands)
        pairs = zip(operands, core, strict=True)
        batches = [x.shape[: x.ndim - len(names)] for x, names in pairs]
        return over_batches(one, operands, batches)

    def core_axes(self, count, kwargs, given):
        """The names of the own axes of each operand."""
        if self.inputs is None:
            return [()] * len(given)
        named = [k for k in kwargs if k not in self.excluded]
        if named:
            problem = f"a signature says nothing of keyword arguments, but got {named}"
            raise self.error(TypeError, problem)
        counted = [i for i in range(count) if i not in self.excluded]
        if len(counted) != len(self.inputs):
            problem = f"expected {len(self.inputs)} arguments, got {len(counted)}"
            raise self.error(TypeError, f"wrong number of arguments: {problem}")
        core = dict(zip(counted, self.inputs, strict=True))
        absent = [i for i in counted if i not in given and core[i]]
        if absent:
            problem = f"argument {absent[0]} is None, but has axes {core[absent[0]]}"
            raise self.error(ValueError, problem)
        return [core[i] for i in given]

    def core_sizes(self, core, operands):
        """{name of an axis: its size}, which must be the same wherever it stands."""
        sizes = {}
        for names, x in zip(core, operands, strict=True):
            if x.ndim < len(names):
                problem = f"an argument of shape {x.shape} does not have axes {names}"
                raise self.error(ValueError, problem)
            self.note_sizes(sizes, names, x.shape[x.ndim - len(names) :])
        return sizes

    def note_sizes(self, sizes, names, shape):
        """Add the sizes of named axes; ValueError if one has another size already."""
        for name, n in zip(names, shape, strict=True):
            if sizes.setdefault(name, n) != n:
                problem = f"axis {name!r} has size {sizes[name]} and size {n}"
                raise self.error(ValueError, f"inconsistent sizes: {problem}")

    def check_results(self, result, sizes):
        """Raise unless the results have the axes that the signature gives them."""
        several = len(self.outputs) != 1
        if several and not isinstance(result, tuple):
            problem = f"expected a tuple of {len(self.outputs)} results, got {result!r}"
            raise self.error(TypeError, problem)
        results = result if several else (result,)
        if len(results) != len(self.outputs):
            problem = f"expected {len(self.outputs)} results, got {len(results)}"
            raise self.error(TypeError, problem)
        sizes = dict(sizes)
        for names, y in zip(self.outputs, results, strict=True):
            shape = np.shape(y)
            if len(shape) != len(names):
                problem = f"a result of shape {shape} does not have the axes {names}"
                raise self.error(ValueError, problem)
            self.note_sizes(sizes, names, shape)


def check_excluded(excluded):
    """The excluded positions and names as a set, or an error."""
    if builtins.any(not isinstance(x, (int, str)) for x in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude integer or string arguments, but "
            f"{excluded=}"
        )
    if builtins.any(isinstance(x, int) and x < 0 for x in excluded):
        raise ValueError(f"{excluded=} contains negative numbers")
    return frozenset(excluded)


def parse_signature(text):
    """`(n,m),(m)->(n)` -> ([("n", "m"), ("m",)], [("n",)])"""
    sides = text.split("->")
    several = f"{DIMENSIONS}(?:,{DIMENSIONS})*"
    if len(sides) != 2 or not builtins.all(re.fullmatch(several, s) for s in sides):
        raise ValueError(f"not a valid gufunc signature: {text}")
    return [
        [tuple(re.findall(r"\w+", part)) for part in re.findall(DIMENSIONS, side)]
        for side in sides
    ]


def over_batches(function, operands, batches):
    """Apply a function along leading axes, which broadcast: a vmap for each.

    An operand that has size 1 along one of them is shared there, and not repeated.
    """
    broadcast = joint_shape(tuple(batches))
    rank = len(broadcast)
    wide = [(1,) * (rank - len(batch)) + tuple(batch) for batch in batches]
    parts = [
        x.reshape(*(n for n in batch if n != 1), *x.shape[len(given) :])
        for x, batch, given in zip(operands, wide, batches, strict=True)
    ]
    for d in reversed(range(rank)):
        in_axes = tuple(None if batch[d] == 1 else 0 for batch in wide)
        if builtins.all(axis is None for axis in in_axes):
            function = with_new_axis(function)
        else:
            function = vmap(function, in_axes=in_axes)
    return function(*parts)


def with_new_axis(function):
    """The function whose results have one more axis of size 1 in front."""
    return lambda *args: tree_map(lambda y: expand_dims(y, 0), function(*args))


def vectorize(pyfunc, *, excluded=frozenset(), signature=None):
    """A function of arrays out of one of scalars, or of arrays with few axes.

    Args:
      pyfunc: the function; it is called once, on tracers.
      excluded: positions and names of arguments that are passed on as they are.
      signature: `"(n,m),(m)->(n)"`: which axes, the last ones, of each argument and
        each result belong to one call.  None: arguments are scalars.

    All other axes broadcast, and are mapped by `vmap`.  None as an argument stays
    None.  Keyword arguments broadcast too, unless there is a signature.  JAX:
    `jnp.vectorize`, which does not look at keyword arguments.

    Raises:
      ValueError: for a bad signature, or shapes that do not fit it.
      TypeError: for too few or too many arguments or results.
    """
    if not callable(pyfunc):
        raise TypeError(f"jnp.vectorize: expected a callable value, got {pyfunc!r}")
    vectorized = Vectorized(pyfunc, excluded, signature)
    return functools.wraps(pyfunc)(lambda *args, **kwargs: vectorized(*args, **kwargs))


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """Apply a function of a vector to each line of an array along an axis.

    Args:
      func1d: function(line, *args, **kwargs); the axes of its result take the place
        of the axis.

    JAX: `jnp.apply_along_axis`.
    """
    arr, = arrays("apply_along_axis", arr)
    axis = canonical_axis(axis, arr.ndim)
    function = lambda line: func1d(line, *args, **kwargs)
    for d in range(1, arr.ndim - axis):
        function = vmap(function, in_axes=d, out_axes=-1)
    for _ in range(axis):
        function = vmap(function)
    return function(arr)


__all__ += ["apply_along_axis", "vectorize"]

from .trace import calls

calls.explain_calls("jnp", globals(), __all__, results=["vectorize"])
calls.explain_calls("jnp.linalg", vars(linalg))
calls.explain_calls("Array", operators)
calls.explain_methods("Array", ArrayImpl, ["item"])
calls.explain_methods("Array.at", Indexed)
