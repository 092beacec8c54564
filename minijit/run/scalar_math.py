"""Scalar arithmetic: operations on single numbers that mean exactly what JAX's mean.

A generated kernel computes one element at a time, mostly in Python's own operators and
NumPy's functions: `t2 = t0 * t1`, `t3 = np.exp(t2)`.  Where neither means what JAX
means, it calls a function from here:

    divide(np.int32(7), np.int32(0))            # -1: NumPy says 0, C says anything
    maximum(np.float32(1), np.float32("nan"))   # nan: the builtin `max` says 1.0
    to_int32(np.float32(1e20))                  # 2147483647: NumPy says -2147483648

All of them are plain Python on NumPy scalars.  numba compiles most of them as they
stand.  A few have a second body, LLVM instructions in the table `instructions`: where
Python has no word for what the machine can do in one step, such as "add, in any order".
Importing this module does not import numba.
"""

import functools
import inspect
from types import FunctionType

import numpy as np

# name -> the function, for all that generated source may call.
functions = {}


def named(*given):
    """Rows of `functions`."""
    return {function.__name__: function for function in given}


def like(value, x):
    """`value` as a NumPy scalar of x's type; in compiled code the types say it."""
    return np.asarray(x).dtype.type(value)


def bits(x, dtype):
    """The bits of the scalar x read as another type of the same size."""
    return np.asarray(x).view(dtype)[()]


def add_any_order(x, y):
    """x + y, one step of a sum: compiled code may regroup the sum, nothing else."""
    return x + y


def multiply_any_order(x, y):
    """x * y, one step of a product that compiled code may regroup."""
    return x * y


functions |= named(like, add_any_order, multiply_any_order)


def typed(x):
    """A number with a dtype: in plain Python small constants of int64 are ints."""
    return np.int64(x) if isinstance(x, int) else x


# To numba an int64 that overflows is undefined: it may conclude that x - 1 < x.
def add_wrapping(x, y):
    """x + y, modulo 2**64."""
    return typed(x) + y


def subtract_wrapping(x, y):
    """x - y, modulo 2**64."""
    return typed(x) - y


def multiply_wrapping(x, y):
    """x * y, modulo 2**64."""
    return typed(x) * y


functions |= named(add_wrapping, subtract_wrapping, multiply_wrapping)


def maximum(x, y):
    """The larger number; NaN if either is NaN."""
    return x if x > y or x != x else y


def minimum(x, y):
    """The smaller number; NaN if either is NaN."""
    return x if x < y or x != x else y


def clamp(low, x, high):
    """x limited to low..high, where high wins; a NaN stays NaN."""
    return minimum(maximum(x, low), high)


def sign(x):
    """-1, 0 or 1 as x's type; both zeros and NaN stay what they are."""
    if x > 0:
        return like(1, x)
    return like(-1, x) if x < 0 else x


functions |= named(maximum, minimum, clamp, sign)


def divide(x, y):
    """Signed x / y rounded toward zero; -1 for y = 0; INT_MIN / -1 wraps."""
    if y == 0:
        return ~y
    if y == -1:
        return -x
    q = x // y
    return q + 1 if q < 0 and q * y != x else q


def remainder(x, y):
    """Signed x - y * divide(x, y), with x's sign; x itself for y = 0."""
    if y == 0:
        return x
    if y == -1:
        return x ^ x
    r = x % y
    return r - y if r != 0 and (r < 0) != (x < 0) else r


def divide_unsigned(x, y):
    """x // y; for y = 0 the largest number of the type."""
    return ~y if y == 0 else x // y


def remainder_unsigned(x, y):
    """x % y; x itself for y = 0."""
    return x if y == 0 else x % y


functions |= named(divide, remainder, divide_unsigned, remainder_unsigned)


def shift_left(x, y):
    """x << y; 0 where y is negative or at least the width of x."""
    x = typed(x)
    return x << y if 0 <= y < 8 * x.itemsize else x ^ x


def shift_right_arithmetic(x, y):
    """x >> y, filled with the first bit; an y out of range shifts everything out."""
    x = typed(x)
    width = 8 * x.itemsize
    signed = bits(x, f"i{x.itemsize}")
    count = int(y) if 0 <= y < width else width - 1
    return bits(signed >> signed.dtype.type(count), x.dtype)


def shift_right_logical(x, y):
    """x >> y, filled with zeros; 0 where y is out of range."""
    x = typed(x)
    if not 0 <= y < 8 * x.itemsize:
        return x ^ x
    unsigned = bits(x, f"u{x.itemsize}")
    return bits(unsigned >> bits(typed(y), unsigned.dtype), x.dtype)


def power(x, y):
    """x to the power y; an integer y becomes x's type."""
    # NumPy takes a square root for y = 0.5, which has another answer there.
    return -x if y == 0.5 and x == -np.inf else np.power(x, like(y, x))


functions |= named(shift_left, shift_right_arithmetic, shift_right_logical, power)


def truncated(x, dtype):
    """A float as an integer: truncated, limited to the dtype's range, and NaN is 0."""
    limits = np.iinfo(dtype)
    if np.isnan(x):
        return dtype.type(0)
    # As floats the limits may be rounded outward, to what does not fit any more.
    if x >= float(limits.max):
        return dtype.type(limits.max)
    return dtype.type(limits.min if x <= float(limits.min) else int(x))


def converting(name):
    """The function that converts a scalar to the dtype `name`, as JAX converts."""
    dtype = np.dtype(name)

    def convert(x):
        x = np.asarray(x)[()]
        if dtype.kind in "iu" and x.dtype.kind == "f":
            return truncated(x, dtype)
        return x.astype(dtype)

    convert.__name__ = convert.__qualname__ = f"to_{name}"
    return convert


to_bool = converting("bool")
to_int8, to_int16, to_int32, to_int64 = map(
    converting, ("int8", "int16", "int32", "int64")
)
to_uint8, to_uint16, to_uint32, to_uint64 = map(
    converting, ("uint8", "uint16", "uint32", "uint64")
)
to_float32, to_float64 = map(converting, ("float32", "float64"))


functions |= named(to_bool, to_int8, to_int16, to_int32, to_int64)
functions |= named(to_uint8, to_uint16, to_uint32, to_uint64, to_float32, to_float64)


# What follows is for numba only.  A row of `instructions` is (result, emit): the type
# of the result (a name, or a function of the argument types), and a function in numba's
# form that appends LLVM instructions and returns the value.
instructions = {}


def first(x, *others):
    """The type of the first argument."""
    return x


def call_llvm(builder, name, overloads, result, *values):
    """Call an intrinsic function of LLVM, such as llvm.ctpop, by name."""
    from llvmlite import ir

    signature = ir.FunctionType(result, [v.type for v in values])
    function = builder.module.declare_intrinsic(name, overloads, signature)
    return builder.call(function, values)


def is_float(type):
    """Whether a numba type is a real floating one."""
    return type.__class__.__name__ == "Float"


def is_signed(type):
    """Whether a numba type is a signed integer."""
    return getattr(type, "signed", False)


def reassociated(method):
    """One floating operation that may be regrouped with its like, nothing else."""

    def emit(context, builder, signature, values):
        return getattr(builder, method)(*values, flags=("reassoc",))

    return emit


def extreme(name, comparison):
    """llvm.maximum or llvm.minimum; for integers a comparison and a select."""

    def emit(context, builder, signature, values):
        x, y = values
        if is_float(signature.return_type):
            return call_llvm(builder, name, [x.type], x.type, x, y)
        signed = is_signed(signature.return_type)
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        return builder.select(compare(comparison, x, y), x, y)

    return emit


def wrapping(method):
    """Integer arithmetic that may overflow."""
    return lambda context, builder, signature, values: getattr(builder, method)(*values)


instructions |= {
    "add_wrapping": (first, wrapping("add")),
    "subtract_wrapping": (first, wrapping("sub")),
    "multiply_wrapping": (first, wrapping("mul")),
    "add_any_order": (first, reassociated("fadd")),
    "multiply_any_order": (first, reassociated("fmul")),
    "maximum": (first, extreme("llvm.maximum", ">")),
    "minimum": (first, extreme("llvm.minimum", "<")),
}


def shift(method, past_the_width):
    """A shift with a value for counts that are out of range, where LLVM has none."""

    def emit(context, builder, signature, values):
        x, y = values
        width = x.type.width
        in_range = builder.icmp_unsigned("<", y, y.type(width))
        count = builder.select(in_range, y, y.type(past_the_width(width)))
        shifted = getattr(builder, method)(x, count)
        if past_the_width(width) != 0:
            return shifted
        return builder.select(in_range, shifted, x.type(0))

    return emit


instructions |= {
    "shift_left": (first, shift("shl", lambda width: 0)),
    "shift_right_logical": (first, shift("lshr", lambda width: 0)),
    "shift_right_arithmetic": (first, shift("ashr", lambda width: width - 1)),
}


def emit_convert(context, builder, signature, values):
    """A conversion, which from float to integer saturates (llvm.fptosi.sat)."""
    (x,), (source,), target = values, signature.args, signature.return_type
    if not is_float(source) or target.__class__.__name__ != "Integer":
        return context.cast(builder, x, source, target)
    kind = "llvm.fptosi.sat" if target.signed else "llvm.fptoui.sat"
    to = context.get_value_type(target)
    return call_llvm(builder, kind, [to, x.type], to, x)


def emit_like(context, builder, signature, values):
    """The first argument, converted to the type of the second."""
    return context.cast(builder, values[0], signature.args[0], signature.args[1])


integers = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
numbers = [*integers, "float32", "float64"]

instructions |= {
    "like": (lambda value, x: x, emit_like),
    "to_bool": ("boolean", emit_convert),
    **{f"to_{name}": (name, emit_convert) for name in numbers},
}


def intrinsic(name):
    """The numba function that stands for a row of `instructions`."""
    from numba import types
    from numba.extending import intrinsic as make

    result, emit = instructions[name]

    def typed(*args):
        chosen = getattr(types, result) if isinstance(result, str) else result(*args)
        return chosen(*args), emit

    # numba reads off the function's own parameters how many arguments there are.
    if len(inspect.signature(functions[name]).parameters) == 1:
        return make(lambda typing_context, x: typed(x))
    return make(lambda typing_context, x, y: typed(x, y))


@functools.cache
def native_functions():
    """{name: what numba is to compile for it}, for every row of `functions`.

    Each Python function is copied, with this dict for its globals: so the functions
    that it calls are the native ones too.
    """
    from numba.extending import register_jitable

    namespace = {"np": np}
    for function in functions.values():
        namespace |= function.__globals__
    for name, function in functions.items():
        if name in instructions:
            namespace[name] = intrinsic(name)
        else:
            copy = FunctionType(function.__code__, namespace, name)
            namespace[name] = register_jitable(copy)
    return namespace
