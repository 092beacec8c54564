"""Awkward operations on numbers in terms of plain ones, as expressions of the loop IR.

    params, result = scalar_form(op("div", x, y))      # of int32
    # (x, y), select(y == 0, -1, select(y == -1, -x, machine_div(x, ...)))

Machines agree on what `x + y` is.  They do not agree on `x // 0`, on `x << 40` or on
the bits of a bfloat16, and none of them means by these what JAX means.  Here this is
said once, in operations that every machine has, so that a target (`run/llvm.py` is one)
needs a row for those few only.  What they are:

    add sub mul neg abs   and or xor not   eq ne lt le gt ge   select convert bitcast
    max min   div sqrt floor ceil round_even copysign fma muladd   of floats
    machine_div machine_rem       of integers, if y is not 0 and nothing overflows
    machine_shift_left ...        by less than the width
    population_count clz          libm_... : a function of the C library
    rare_...                      a value, or the C library's if a condition holds

A form is a function: a target writes it once and calls it, or has it inlined.
"""

import functools

import numpy as np

from .loops import BOOL, INDEX, Const, Expr, Op, dtype_bounds, known, nothing, op

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")
HALVES = ("float16", "bfloat16")


class Param(Expr):
    """A number that something around the expression binds: a function's argument.

    Attributes:
      name: for printing; two params of one name and dtype are the same.
    """

    __slots__ = ("name",)
    fields = ("name", "dtype")

    def derive(self):
        self.free = nothing
        self.bounds = dtype_bounds(self.dtype)

    def __repr__(self):
        return self.name


class Number:
    """An expression that is computed with like a number: `x * x + 1` is one too."""

    __slots__ = ("expr",)

    def __init__(self, expr):
        self.expr = expr

    @property
    def dtype(self):
        return self.expr.dtype

    def apply(self, name, *others, dtype=None):
        """The operation `name` of this number and others, which may be constants."""
        args = [self.expr, *(self.like(x).expr for x in others)]
        return Number(op(name, *args, dtype=dtype))

    def like(self, value):
        """A constant of this number's dtype; a Number as it is."""
        return value if isinstance(value, Number) else Number(Const(value, self.dtype))

    def to(self, dtype):
        """Converted to another dtype."""
        return Number(op("convert", self.expr, dtype=np.dtype(dtype)))

    def bits(self, dtype):
        """The same bits read as a dtype of the same size."""
        return Number(op("bitcast", self.expr, dtype=np.dtype(dtype)))

    def __add__(self, y):
        return self.apply("add", y)

    def __sub__(self, y):
        return self.apply("sub", y)

    def __rsub__(self, x):
        return self.like(x) - self

    def __mul__(self, y):
        return self.apply("mul", y)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, y):
        return self.apply("div", y)

    def __rtruediv__(self, x):
        return self.like(x) / self

    def __neg__(self):
        return self.apply("neg")

    def __abs__(self):
        return self.apply("abs")

    def __and__(self, y):
        return self.apply("and", y)

    def __or__(self, y):
        return self.apply("or", y)

    def __xor__(self, y):
        return self.apply("xor", y)

    def __invert__(self):
        return self.apply("not")

    def __lshift__(self, y):
        return self.apply("machine_shift_left", y)

    def __rshift__(self, y):
        """Filled with the first bit if the dtype is signed, with zeros if not."""
        kind = "arithmetic" if self.dtype.kind == "i" else "logical"
        return self.apply(f"machine_shift_right_{kind}", y)

    def __lt__(self, y):
        return self.apply("lt", y)

    def __le__(self, y):
        return self.apply("le", y)

    def __gt__(self, y):
        return self.apply("gt", y)

    def __ge__(self, y):
        return self.apply("ge", y)

    def is_(self, y):
        """Whether they are equal; `==` compares expressions."""
        return self.apply("eq", y)

    def is_not(self, y):
        return self.apply("ne", y)


def where(condition, x, y):
    """x if the condition holds, else y; one of the two may be a constant."""
    x = x if isinstance(x, Number) else y.like(x)
    return Number(op("select", condition.expr, x.expr, x.like(y).expr))


def fma(x, y, z):
    """x * y + z, rounded once."""
    return x.apply("fma", y, z)


def muladd(x, y, z):
    """x * y + z, rounded once or twice, whichever is faster."""
    return x.apply("muladd", y, z)


def rarely(condition, usual, function, *args):
    """`usual`, but where the condition holds what the C library's function says.

    That is only computed if it is wanted: so it should be hardly ever.
    """
    exprs = [x.expr for x in (condition, usual, *args)]
    return Number(op(f"rare_{function}", *exprs, dtype=usual.dtype))


def is_nan(x):
    return x.is_not(x)


def copysign(x, y):
    """The size of x, the sign of y."""
    return x.like(x).apply("copysign", y)


# name -> function(*Numbers, dtype) -> Number, or None if the operation is plain.
scalar_forms = {}


# Integers.


def divide(x, y, dtype):
    """Rounded toward zero; -1, or the largest, for y = 0; INT_MIN / -1 wraps."""
    if dtype.kind == "f":
        return None
    zero = y.is_(0)
    if dtype.kind == "u":
        return where(zero, ~y, x.apply("machine_div", where(zero, 1, y)))
    wraps = y.is_(-1)
    quotient = x.apply("machine_div", where(zero | wraps, 1, y))
    return where(zero, -1, where(wraps, -x, quotient))


def remainder(x, y, dtype):
    """x - y * (x / y): x itself for y = 0."""
    if dtype.kind == "f":
        return x.apply("libm_fmod", y)
    rest = where(y.is_(0), 1, y)
    if dtype.kind == "u":
        return where(y.is_(0), x, x.apply("machine_rem", rest))
    rest = where(y.is_(-1), 1, rest)
    return where(y.is_(0), x, x.apply("machine_rem", rest))


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
    rounded = (pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16
    nan = ((pattern >> 16) & 0x8000) | 0x7FC0
    return where(is_nan(x), nan, rounded).to("uint16")


scalar_forms |= {
    "float16_value": float16_value,
    "float16_bits": float16_bits,
    "bfloat16_value": bfloat16_value,
    "bfloat16_bits": bfloat16_bits,
}


# The plain operation to use where the arguments are known to be in range.
in_range_forms = {
    "floordiv": "machine_div",
    "mod": "machine_rem",
    "div": "machine_div",
    "rem": "machine_rem",
    "shift_left": "machine_shift_left",
    "shift_right_logical": "machine_shift_right_logical",
    "shift_right_arithmetic": "machine_shift_right_arithmetic",
}


def plain_name(expr):
    """The name of the plain operation that an `Op` is, because of its arguments."""
    name = expr.name
    if name not in in_range_forms or expr.dtype.kind not in "iu":
        return name
    x, y = expr.args
    count = known(y)
    if count is None:
        return name
    if name in ("floordiv", "mod"):
        sure = x.bounds[0] >= 0 and expr.dtype == INDEX
    elif name in ("div", "rem"):
        sure = count not in (0, -1)
    else:
        sure = 0 <= count < 8 * expr.dtype.itemsize
    return in_range_forms[name] if sure else name


@functools.cache
def form_of(name, dtypes, dtype):
    """The form of an operation: -> (params, result), or None if it is plain."""
    row = scalar_forms.get(name)
    if row is None:
        return None
    params = tuple(Param(f"x{i}", d) for i, d in enumerate(dtypes))
    result = row(*map(Number, params), dtype=dtype)
    return result and (params, result.expr)


def scalar_form(expr):
    """The form of an `Op`: -> (params, an expression in them), or None if it is plain.

    The expression has operations with forms of their own in it.
    """
    name = plain_name(expr)
    return form_of(name, tuple(arg.dtype for arg in expr.args), expr.dtype)


def plain(name, *args, dtype=None):
    """An operation that `op` has nothing to say about."""
    return Op(name, args, BOOL if dtype is None else dtype)
