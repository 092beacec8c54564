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
import math

import numpy as np


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


def shift_left(x, y):
    """x << y; 0 where y is negative or at least the width of x."""
    return x << y if 0 <= y < 8 * x.itemsize else x ^ x


def shift_right_arithmetic(x, y):
    """x >> y, filled with the first bit; an y out of range shifts everything out."""
    width = 8 * x.itemsize
    signed = bits(x, f"i{x.itemsize}")
    count = int(y) if 0 <= y < width else width - 1
    return bits(signed >> signed.dtype.type(count), x.dtype)


def shift_right_logical(x, y):
    """x >> y, filled with zeros; 0 where y is out of range."""
    if not 0 <= y < 8 * x.itemsize:
        return x ^ x
    unsigned = bits(x, f"u{x.itemsize}")
    return bits(unsigned >> bits(y, unsigned.dtype), x.dtype)


def population_count(x):
    """How many bits of an integer are 1."""
    return like(int(bits(x, f"u{x.itemsize}")).bit_count(), x)


def clz(x):
    """How many zero bits an integer begins with."""
    return like(8 * x.itemsize - int(bits(x, f"u{x.itemsize}")).bit_length(), x)


def power(x, y):
    """x to the power y; an integer y becomes x's type."""
    # NumPy takes a square root for y = 0.5, which has another answer there.
    return -x if y == 0.5 and x == -np.inf else np.power(x, like(y, x))


def rsqrt(x):
    """1 / sqrt(x)."""
    return like(1.0, x) / np.sqrt(x)


def logistic(x):
    """1 / (1 + exp(-x)), the sigmoid."""
    return like(1.0, x) / (like(1.0, x) + np.exp(-x))


def round_away(x):
    """The nearest whole number; halves go away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(like(1.0, x), x) if abs(x - whole) >= 0.5 else whole


def erf(x):
    """The error function."""
    return like(math.erf(x), x)


def erfc(x):
    """1 - erf(x), without the cancellation."""
    return like(math.erfc(x), x)


def lgamma(x):
    """log |gamma(x)|; infinite at the poles 0, -1, -2, ... and at both infinities."""
    if (x <= 0 and x == np.floor(x)) or abs(x) == np.inf:
        return abs(like(np.inf, x))
    return like(math.lgamma(x), x)


def digamma(x):
    """The derivative of log gamma(x); NaN at its poles 0, -1, -2, ...

    Reflection, then recurrence up to x >= 10, then the asymptotic series (Abramowitz
    and Stegun, 6.3.18).
    """
    z = float(x)
    if z <= 0 and z == np.floor(z):
        return like(math.nan, x)
    total = 0.0
    if z < 0:
        total = -math.pi / math.tan(math.pi * (z - np.floor(z)))
        z = 1 - z
    while z < 10:
        total -= 1 / z
        z += 1
    w = 1 / (z * z)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w / 132))))
    return like(total + math.log(z) - 0.5 / z - series, x)


# Giles, "Approximating the erfinv function" (2012), double precision, as in XLA:
# one polynomial for each of three ranges of w = -log(1 - x^2), highest power first.
erf_inv_central = (
    -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
    1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
    6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693, 1.6536545626831027356,
)  # fmt: skip

erf_inv_middle = (
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
    3.0838856104922207635,
)  # fmt: skip

erf_inv_tail = (
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
    2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
    7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977, 4.8499064014085844221,
)  # fmt: skip


def polynomial(coefficients, w):
    """Horner's rule, highest power first."""
    total = 0.0
    for c in coefficients:
        total = total * w + c
    return total


def erf_inv(x):
    """The inverse of erf: infinite at -1 and 1, NaN outside."""
    z = float(x)
    if abs(z) == 1.0:
        return like(z * math.inf, x)
    if not abs(z) < 1.0:
        return like(math.nan, x)
    w = -math.log((1 - z) * (1 + z))
    if w < 6.25:
        return like(z * polynomial(erf_inv_central, w - 3.125), x)
    if w < 16:
        return like(z * polynomial(erf_inv_middle, math.sqrt(w) - 3.25), x)
    return like(z * polynomial(erf_inv_tail, math.sqrt(w) - 5), x)


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


def reading_bits(name):
    """The function that reads a scalar's bits as the dtype `name`."""

    def read(x):
        return bits(x, name)

    read.__name__ = read.__qualname__ = f"bits_{name}"
    return read


bits_int8, bits_int16, bits_int32, bits_int64 = map(
    reading_bits, ("int8", "int16", "int32", "int64")
)
bits_uint8, bits_uint16, bits_uint32, bits_uint64 = map(
    reading_bits, ("uint8", "uint16", "uint32", "uint64")
)
bits_float32, bits_float64 = map(reading_bits, ("float32", "float64"))


# The 16-bit floats are stored as uint16 and computed with as float32: `..._value` is
# what a load does, `..._bits` a store, `round_...` what every operation ends with.
def bfloat16_value(stored):
    """The float32 whose upper half is `stored`."""
    return bits_float32(np.uint32(np.uint32(stored) << 16))


def bfloat16_bits(x):
    """The upper half of a float32, rounded to the nearest, halves to even."""
    pattern = bits_uint32(x)
    if x != x:
        return np.uint16(0x7FC0 | (pattern >> 16) & 0x8000)
    return np.uint16((pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16)


def round_bfloat16(x):
    """The float32 nearest to x among those that are bfloat16 values."""
    return bfloat16_value(bfloat16_bits(x))


def float16_value(stored):
    """The float32 that equals the float16 with these bits."""
    return np.float32(bits(stored, np.float16))


def float16_bits(x):
    """The bits of the float16 nearest to x."""
    return bits(x.astype(np.float16), np.uint16)


def round_float16(x):
    """The float32 nearest to x among those that are float16 values."""
    return float16_value(float16_bits(x))


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


instructions |= {
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


def emit_population_count(context, builder, signature, values):
    """llvm.ctpop: one instruction."""
    x, = values
    return call_llvm(builder, "llvm.ctpop", [x.type], x.type, x)


def emit_clz(context, builder, signature, values):
    """llvm.ctlz, told that an argument 0 is meant to give the width."""
    from llvmlite import ir

    x, = values
    return call_llvm(builder, "llvm.ctlz", [x.type], x.type, x, ir.IntType(1)(0))


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
    "population_count": (first, emit_population_count),
    "clz": (first, emit_clz),
    "like": (lambda value, x: x, emit_like),
    "to_bool": ("boolean", emit_convert),
    **{f"to_{name}": (name, emit_convert) for name in numbers},
}


def emit_bits(context, builder, signature, values):
    """LLVM's bitcast: no instruction at all, or a move between register files."""
    return builder.bitcast(values[0], context.get_value_type(signature.return_type))


def emit_float16_value(context, builder, signature, values):
    """Bits to half to float."""
    from llvmlite import ir

    half = builder.bitcast(values[0], ir.HalfType())
    return builder.fpext(half, ir.FloatType())


def emit_float16_bits(context, builder, signature, values):
    """Float to half, rounded to the nearest, to bits."""
    from llvmlite import ir

    half = builder.fptrunc(values[0], ir.HalfType())
    return builder.bitcast(half, ir.IntType(16))


instructions |= {
    **{f"bits_{name}": (name, emit_bits) for name in numbers},
    "float16_value": ("float32", emit_float16_value),
    "float16_bits": ("uint16", emit_float16_bits),
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
    if len(inspect.signature(globals()[name]).parameters) == 1:
        return make(lambda typing_context, x: typed(x))
    return make(lambda typing_context, x, y: typed(x, y))


@functools.cache
def native_functions():
    """{name: what numba is to compile for it}, for every function of this module."""
    from types import FunctionType

    from numba.extending import register_jitable

    namespace = dict(globals())
    for name, function in globals().items():
        if name in instructions:
            namespace[name] = intrinsic(name)
        elif isinstance(function, FunctionType) and function.__module__ == __name__:
            # A copy that finds the other native functions where it looks for globals.
            copy = FunctionType(function.__code__, namespace, name)
            namespace[name] = register_jitable(copy)
    return namespace
