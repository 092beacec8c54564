"""Operations with exact results in terms of plain ones: integers, bits, 16-bit floats.

    scalar_form(op("shift_left", x, y))                # of int32
    # (x, y), select(y as uint32 < 32, machine_shift_left(x, ...), 0)
"""

import numpy as np

from .scalar_forms import FLOAT32, copysign, is_nan, scalar_forms, where

# Integers.


def quotient(x, y):
    """(what a machine divides by, the quotient of that) where y may not be divided by:
    then it is 1, and the quotient x."""
    unfit = y.is_(0) if y.dtype.kind == "u" else y.is_(0) | y.is_(-1)
    divisor = where(unfit, 1, y)
    return divisor, x.apply("machine_div", divisor)


def divide(x, y, dtype):
    """Rounded toward zero; -1, or the largest, for y = 0; INT_MIN / -1 wraps."""
    if dtype.kind == "f":
        return None
    _, whole = quotient(x, y)
    if dtype.kind == "u":
        return where(y.is_(0), ~y, whole)
    return where(y.is_(0), -1, where(y.is_(-1), -x, whole))


def remainder(x, y, dtype):
    """x - y * (x / y): x itself for y = 0.

    Whoever rounds down divides for the quotient and for the rest: it is one division.
    """
    if dtype.kind == "f":
        return None
    divisor, whole = quotient(x, y)
    return where(y.is_(0), x, x - divisor * whole)


def remainder_of_power(x, y, dtype):
    """Of floats, for y = 1, 2, 4 ...; a zero has the sign of x."""
    size = abs(x)
    return copysign(size - (size / y).apply("floor") * y, x)


def floordiv(x, y, dtype):
    """Of an index by a positive number, rounded down."""
    quotient = x.apply("machine_div", y)
    return where(x < quotient * y, quotient - 1, quotient)


def mod(x, y, dtype):
    """What `floordiv` leaves, from 0 to y - 1."""
    rest = x.apply("machine_rem", y)
    return where(rest < 0, rest + y, rest)


def shift(name, past_the_width):
    """A shift with its value for counts that are negative or too large."""

    def form(x, y, dtype):
        width = 8 * dtype.itemsize
        in_range = unsigned(y) < width
        if past_the_width is None:
            return x.apply(name, where(in_range, y, width - 1))
        shifted = x.apply(name, where(in_range, y, 0))
        return where(in_range, shifted, past_the_width)

    return form


def unsigned(x):
    """An integer's bits as an unsigned one."""
    return x.bits(f"uint{8 * x.dtype.itemsize}") if x.dtype.kind == "i" else x


def power(x, y, dtype):
    """By squaring, for integers; a negative power is 0, but for those of 1 and -1."""
    if dtype.kind == "f":
        return None
    result, square, count = x.like(1), x, unsigned(y)
    for i in range(8 * dtype.itemsize):
        bit = (count >> i) & 1
        result = where(bit.is_not(0), result * square, result)
        square = square * square
    if dtype.kind == "u":
        return result
    odd = (y & 1).is_not(0)
    inverse = where(x.is_(1), 1, where(x.is_(-1), where(odd, -1, x.like(1)), 0))
    return where(y < 0, inverse, result)


def sign(x, dtype):
    """-1, 0 or 1; zeros and NaN stay what they are."""
    positive = where(x > 0, 1, x)
    return positive if dtype.kind == "u" else where(x < 0, -1, positive)


scalar_forms |= {
    "div": divide,
    "rem": remainder,
    "rem_of_power": remainder_of_power,
    "floordiv": floordiv,
    "mod": mod,
    "pow": power,
    "sign": sign,
    "shift_left": shift("machine_shift_left", 0),
    "shift_right_logical": shift("machine_shift_right_logical", 0),
    "shift_right_arithmetic": shift("machine_shift_right_arithmetic", None),
}


# Floats.


def round_away(x, dtype):
    """The nearest whole number; halves go away from zero."""
    size = abs(x)
    whole = size.apply("floor")
    return copysign(where(size - whole >= 0.5, whole + 1.0, whole), x)


def is_finite(x, dtype):
    return abs(x) < np.inf


def rsqrt(x, dtype):
    return 1.0 / x.apply("sqrt")


def nextafter(x, y, dtype):
    """The next float after x towards y: one step in the bits."""
    word = np.dtype(f"uint{8 * x.dtype.itemsize}")
    pattern, top = x.bits(word), word.type(1) << word.type(8 * word.itemsize - 1)
    away = (x < y).apply("eq", x > 0.0)
    step = where(away, pattern + 1, pattern - 1)
    first = (y.bits(word) & top) | 1
    moved = where(x.is_(0.0), first, step).bits(x.dtype)
    moved = where(x.is_(y), y, moved)
    return where(is_nan(x) | is_nan(y), x + y, moved)


scalar_forms |= {
    "round": round_away,
    "is_finite": is_finite,
    "rsqrt": rsqrt,
    "nextafter": nextafter,
}


# The 16-bit floats: stored as uint16, computed with as float32.


def float16_value(stored, dtype):
    """The float32 that equals the float16 with these bits: 5 bits of exponent to 8."""
    wide = stored.to("uint32")
    size = ((wide & 0x7FFF) << 13).bits(FLOAT32) * np.float32(2.0**112)
    # An exponent of all ones is one of all ones again.
    special = ((wide & 0x7FFF) << 13) | 0x7F800000
    size = where((wide & 0x7C00).is_(0x7C00), special.bits(FLOAT32), size)
    return (size.bits("uint32") | ((wide & 0x8000) << 16)).bits(FLOAT32)


def float16_bits(x, dtype):
    """The bits of the float16 nearest to a float32, halves to even."""
    pattern = x.bits("uint32")
    size, top = pattern & 0x7FFFFFFF, (pattern >> 16) & 0x8000
    odd = (size >> 13) & 1
    normal = (size - ((112 << 23) - 0xFFF) + odd) >> 13
    # Adding 0.5 leaves a multiple of 2 ** -24, the smallest float16, in the low bits.
    small = (size.bits(FLOAT32) + 0.5).bits("uint32") - 0x3F000000
    result = where(size < (113 << 23), small, normal)
    result = where(size >= 0x477FF000, 0x7C00, result)
    kept = ((size >> 13) & 0x3FF) | 0x7E00
    return (where(size > 0x7F800000, kept, result) | top).to("uint16")


def bfloat16_value(stored, dtype):
    """The float32 whose upper half is `stored`."""
    return (stored.to("uint32") << 16).bits(FLOAT32)


def bfloat16_bits(x, dtype):
    """The upper half of a float32, rounded to the nearest, halves to even."""
    pattern = x.bits("uint32")
    rounded = pattern + 0x7FFF + ((pattern >> 16) & 1)
    # A NaN gets a bit in the upper half.  One choice of 32 bits serves both: where the
    # result is computed with, LLVM makes a mask of this shift and that to the left.
    return (where(is_nan(x), pattern | 0x400000, rounded) >> 16).to("uint16")


scalar_forms |= {
    "float16_value": float16_value,
    "float16_bits": float16_bits,
    "bfloat16_value": bfloat16_value,
    "bfloat16_bits": bfloat16_bits,
    # To the nearest one, still as a float32.
    "round_float16": lambda x, dtype: float16_value(float16_bits(x, dtype), dtype),
    "round_bfloat16": lambda x, dtype: bfloat16_value(bfloat16_bits(x, dtype), dtype),
}
