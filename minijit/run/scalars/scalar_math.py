"""Scalar arithmetic: operations on single numbers that mean exactly what JAX's mean.

A generated kernel computes one element at a time, mostly in Python's own operators and
NumPy's functions: `t2 = t0 * t1`, `t3 = np.exp(t2)`.  Where neither means what JAX
means, it calls a function from here:

    divide(np.int32(7), np.int32(0))            # -1: NumPy says 0, C says anything
    maximum(np.float32(1), np.float32("nan"))   # nan: the builtin `max` says 1.0
    to_int32(np.float32(1e20))                  # 2147483647: NumPy says -2147483648

All of them are plain Python on NumPy scalars, and numba compiles most of them as they
stand; for the others it is told more in `numba_scalars`.
"""

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


integers = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
numbers = [*integers, "float32", "float64"]

# Generated code imports them from here, each by its name.
to_bool = converting("bool")
conversions = [*map(converting, numbers)]
to_int8, to_int16, to_int32, to_int64 = conversions[:4]
to_uint8, to_uint16, to_uint32, to_uint64 = conversions[4:8]
to_float32, to_float64 = conversions[8:]

functions |= named(to_bool, *conversions)
