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

import numpy as np

from .trace import dtypes, primitives
from .trace.array import ArrayImpl, aval_of, to_numpy, wrap
from .trace.core import Array, operators

ndarray = Array


def check_arraylike(name, *args):
    """Raise TypeError unless all arguments of the function `name` are arrays."""
    for position, x in enumerate(args):
        if isinstance(x, (Array, np.ndarray)) or hasattr(x, "__jax_array__"):
            continue
        if isinstance(x, (str, bytes)) or not np.isscalar(x):
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at "
                f"position {position}."
            )


def as_array(x):
    """An array, a NumPy array (which is copied) or a number, as an array."""
    if isinstance(x, Array):
        return x
    if hasattr(x, "__jax_array__"):
        return as_array(x.__jax_array__())
    dtypes.dtype(x)
    aval = aval_of(x)
    return ArrayImpl(to_numpy(x, aval), aval)


def arrays(name, *args):
    """The arguments of the function `name` as a list of arrays."""
    check_arraylike(name, *args)
    return [as_array(x) for x in args]


def convert(x, dtype, weak_type=False):
    """`x` as an array of exactly this dtype and weakness: itself if it is one."""
    if not isinstance(x, Array):
        # A number is converted once, here, and not again by each run of a program.
        with np.errstate(all="ignore"):
            return wrap(np.array(as_array(x).numpy().astype(dtype)), weak_type)
    if x.dtype == dtype and x.weak_type == weak_type:
        return x
    return primitives.convert_element_type_p.bind(
        x, new_dtype=np.dtype(dtype), weak_type=weak_type
    )


def joint_shape(shapes):
    """The shape that all of `shapes`, tuples of ints, broadcast to, or a ValueError."""
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
    if len({x.ndim for x in args if x.ndim}) < 2:
        return args
    try:
        rank = len(joint_shape([x.shape for x in args]))
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
    args = [x.__jax_array__() if hasattr(x, "__jax_array__") else x for x in args]
    dtype, weak_type = dtypes.lattice_result_type(*args)
    dtype = family(dtype) if family else dtype
    return [convert(x, dtype, weak_type) for x in args]


def promote_args(name, *args):
    """The arguments of the function `name` in one dtype, with equally many axes."""
    check_arraylike(name, *args)
    return promote_shapes(name, promote_dtypes(args))


def promote_args_inexact(name, *args):
    """As `promote_args`, in a floating or complex type."""
    check_arraylike(name, *args)
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
    return (primitives.bitwise_or if x.dtype == np.bool_ else primitives.add)(x, y)


def multiply(x, y, /):
    """Elementwise product; `and` of bools.  JAX: `jnp.multiply`."""
    x, y = promote_args("multiply", x, y)
    return (primitives.bitwise_and if x.dtype == np.bool_ else primitives.mul)(x, y)


def absolute(x, /):
    """Elementwise |x|, real for complex x.  JAX: `jnp.absolute`."""
    x, = arrays("absolute", x)
    return x if x.dtype.kind in "bu" else primitives.abs(x)


abs = absolute

# How complex numbers are ordered needs their parts: `# chapter 2s` fills this in.
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


def operator_with(name, function, swap=False):
    """The method of an operator: NotImplemented for what is no array or number."""

    def method(self, other):
        numbers = (int, float, complex, np.generic, np.ndarray, Array)
        if hasattr(other, "__jax_array__"):
            other = other.__jax_array__()
        if not isinstance(other, numbers):
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


# chapter 2s
import math
import operator

from .trace.core import Tracer
from .trace.dtypes import (
    bfloat16 as bfloat16,
    bool_ as bool_,
    complex64 as complex64,
    complex128 as complex128,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    scalar_makers,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from .trace.errors import ConcretizationTypeError, at_line, user_source

pi, e, euler_gamma = math.pi, math.e, float(np.euler_gamma)
inf, nan, newaxis = math.inf, math.nan, None


def broadcast_shapes(*shapes):
    """The shape that all of `shapes` broadcast to.  JAX: `jnp.broadcast_shapes`."""
    return joint_shape([canonical_shape(shape) for shape in shapes])


def promote_args_numeric(name, *args):
    """As `promote_args`, with bools as integers."""
    check_arraylike(name, *args)
    return promote_shapes(name, promote_dtypes(args, to_numeric_dtype))


def to_numeric_dtype(dtype):
    """The dtype, or int32 for bool (int64 with `enable_x64`)."""
    return dtypes.default_dtype("signed") if dtype == np.bool_ else dtype


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
    return operator.index(concrete(x, what, static)[()])


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
    leaves = list_leaves(object)
    if builtins.any(leaf is None for leaf in leaves):
        raise ValueError("None is not a valid value for jnp.array")
    if object is leaves[0] if leaves else False:
        if isinstance(object, Array):
            return object
        number = dtype is not None and dtypes.is_python_scalar(object)
        return wrap(np.array(object, dtype)) if number else as_array(as_buffer(object))
    if dtype is None:
        dtype = dtypes.lattice_result_type(*leaves)[0] if leaves else np.float32
    if builtins.any(isinstance(leaf, Tracer) for leaf in leaves):
        return stack([array(part) for part in object], dtype=dtype)
    return as_array(np.array(map_lists(as_known, object), dtype))


def list_leaves(object):
    """All that stands in nested lists and tuples; `[object]` if it is neither."""
    if not isinstance(object, (list, tuple)):
        return [as_array(object) if hasattr(object, "__jax_array__") else object]
    return [leaf for part in object for leaf in list_leaves(part)]


def map_lists(function, object):
    """Apply a function to all that stands in nested lists and tuples."""
    if isinstance(object, (list, tuple)):
        return [map_lists(function, part) for part in object]
    return function(object)


def as_known(x):
    """The NumPy value of an array; anything else as it is."""
    return x.numpy() if isinstance(x, ArrayImpl) else x


def as_buffer(object):
    """A number as it is; what speaks a protocol (buffer, `__array__`) through NumPy."""
    if np.isscalar(object) or isinstance(object, np.ndarray):
        return object
    if hasattr(object, "__array__") or hasattr(object, "__buffer__"):
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
    return x if x.dtype == np.bool_ else primitives.ne(x, convert(0, x.dtype))


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


# `where` with one argument looks for indices: `# chapter 2s` adds that.
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
    condition = truth(arrays("where", condition, x, y)[0])
    x, y = promote_dtypes([x, y])
    if condition.ndim == 0:
        x, y = broadcast_arrays(x, y)
    else:
        condition, x, y = broadcast_arrays(condition, x, y)
    return primitives.select_n(condition, y, x)


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
        raise TypeError(f"cannot reshape array of shape {x.shape} (size {x.size}) {why}")
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
    several = isinstance(axis, (tuple, list))
    return primitives.expand_dims(x, tuple(axis) if several else (axis,))


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
    # Axes of length 1 go first, so that one equation says what is repeated.
    kept = [i for i in range(x.ndim) if x.shape[i] == shape[new + i]]
    dropped = tuple(i for i in range(x.ndim) if i not in kept)
    x = primitives.squeeze(x, dropped) if dropped else x
    return primitives.broadcast_in_dim(x, shape, tuple(new + i for i in kept))


def broadcast_arrays(*args):
    """The arrays broadcast to a common shape, as a list.  JAX: same name."""
    args = arrays("broadcast_arrays", *args)
    shape = broadcast_shapes(*[x.shape for x in args])
    return [broadcast_to(x, shape) for x in args]


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
    no_out(name, out)
    operation, combine, identity = reductions[name]
    axes = canonical_axes(axis, x.ndim)
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
    half = dtype in (np.dtype(np.float16), bfloat16.dtype)
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
    """A `dot_general` whose result has the dtype `dtype`, or the promoted one."""
    if dtype is None:
        dtype, weak_type = dtypes.result_type(x, y, return_weak_type_flag=True)
    else:
        dtype, weak_type = dtypes.user_dtype(dtype, name), False
    result = primitives.dot_general(
        x, y, dimensions, precision=precision, preferred_element_type=dtype
    )
    return convert(result, dtype, weak_type)


def dot(a, b, *, precision=None, preferred_element_type=None):
    """Sum products over a's last and b's second to last axis.  JAX: `jnp.dot`."""
    x, y = arrays("dot", a, b)
    axes = ((), ())
    if x.ndim and y.ndim:
        axes = ((x.ndim - 1,), (builtins.max(y.ndim - 2, 0),))
    return contract("dot", x, y, (axes, ((), ())), precision, preferred_element_type)


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
    for position, operand in enumerate((x, y)):
        if operand.ndim < 1:
            raise ValueError(
                f"matmul input operand {position} must have ndim at least 1, but it "
                f"has ndim {operand.ndim}"
            )
    i = [*range(-x.ndim, -2), "n", "k"][-x.ndim :]
    j = [*range(-y.ndim, -2), "k", "m"] if y.ndim > 1 else ["k"]
    y, j = without_ones(y, j, i)
    x, i = without_ones(x, i, j)
    out = sorted({n for n in i + j if isinstance(n, int)})
    out += [n for n in "nm" if n in i + j]
    return contract_named("matmul", x, i, y, j, out, precision, preferred_element_type)


def without_ones(x, names, others):
    """`x` and its axes' names, without the batch axes along which it is repeated."""
    sizes = dict(zip(names, x.shape, strict=True))
    kept = [n for n in names if n not in others or sizes[n] != 1 or n == "k"]
    return reshape(x, [sizes[n] for n in kept]), kept


def contract_named(name, x, i, y, j, out, precision=None, dtype=None):
    """Sum the products of `x` and `y` over the names that `out` lacks.

    Args:
      i, j: the names of the axes of x and of y, each at most once.
      out: the names of the result's axes.
    """
    shared = [n for n in i if n in j]
    for n in shared:
        if x.shape[i.index(n)] != y.shape[j.index(n)]:
            raise ValueError(
                f"Incompatible shapes for {name} arguments: {x.shape} and {y.shape}"
            )
    over = [n for n in shared if n not in out]
    batch = [n for n in shared if n in out]
    pairs = [
        (tuple(map(i.index, names)), tuple(map(j.index, names)))
        for names in (over, batch)
    ]
    result = contract(name, x, y, tuple(pairs), precision, dtype)
    found = batch + [n for n in (*i, *j) if n not in shared]
    return transpose(result, [found.index(n) for n in out])


def getitem(x, index):
    """`x[index]` for ints, slices that step forward, None and Ellipsis."""
    entries = list(index) if isinstance(index, tuple) else [index]
    used = builtins.sum(entry is not None and entry is not ... for entry in entries)
    if used > x.ndim:
        raise IndexError(
            f"Too many indices: array is {x.ndim}-dimensional, but {used} were indexed"
        )
    place = next((i for i, entry in enumerate(entries) if entry is ...), len(entries))
    entries[place : place + 1] = [slice(None)] * (x.ndim - used)
    spans, shape = [], []
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        spans.append(span(entry, x.shape[len(spans)]))
        start, stop, step = spans[-1]
        if isinstance(entry, slice):
            shape.append(len(range(start, stop, step)))
    starts, stops, steps = zip(*spans, strict=True) if spans else ((), (), ())
    x = primitives.slice(x, starts, stops, steps) if spans else x
    return reshape(x, shape)


def span(entry, size):
    """An int or a slice of an axis of length `size`, as (start, stop, step)."""
    if not isinstance(entry, slice):
        i = known_int(entry)
        if i is None or isinstance(entry, (builtins.bool, np.bool_)):
            raise TypeError(f"an index must be an int or a slice here, got {entry!r}")
        if not -size <= i < size:
            raise IndexError(f"index {i} is out of bounds for an axis of size {size}")
        return i % size, i % size + 1, 1
    start, stop, step = entry.indices(size)
    if step < 0:
        raise NotImplementedError("a slice that steps backwards")
    return start, builtins.max(start, stop), step


operators |= operator_methods({
    "pow": ("** or pow()", power),
    "matmul": ("@", matmul),
})
operators |= {"__getitem__": getitem}


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
    return iter([getitem(x, i) for i in range(x.shape[0])])


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
    return array(a, copy=True)


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
""".split()


def __dir__():
    return sorted(__all__)
