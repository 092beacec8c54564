"""Operations of the loop IR in terms of plainer ones, as expressions of the loop IR.

    params, result = scalar_form(op("div", x, y))      # of int32
    # (x, y), select(y == 0, -1, select(y == -1, -x, machine_div(x, ...)))

Machines agree on what `x + y` is.  They do not agree on `x // 0`, on `x << 40` or on
the bits of a bfloat16, and none of them means by these what JAX means.  Here this is
said once, in operations that every machine has, so that a target (`run/llvm/text.py` is
one) needs a row for those few only.  What they are:

    add sub mul neg abs   and or xor not   eq ne lt le gt ge   select convert bitcast
    max min   div sqrt floor ceil round_even copysign fma muladd   of floats
    machine_div machine_rem       of integers, if y is not 0 and nothing overflows
    machine_shift_left ...        by less than the width
    population_count clz          exp sin ... : a function of the C library
    rare_...                      a value, or the C library's if a condition holds

A form is a function of `Number`s: a target writes it once and calls it, or has it
inlined.  Here is how they are written; the forms are in `exact_forms`, `special_forms`
and `vector_math`.
"""

import functools
import math

import numpy as np

from ..loops.expressions import Const, Expr, Op, op
from ..loops.graphs import nothing
from ..loops.index_rules import known
from ..loops.scalars import BOOL, INDEX, dtype_bounds

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

    def text(self, parts):
        return self.name


def operator(name):
    """The method of `Number` for an operation of two numbers."""
    return lambda x, y: x.apply(name, y)


def reflected(name):
    """The same where the number stands on the right: `1.0 - x`."""
    return lambda y, x: y.like(x).apply(name, y)


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

    __add__ = __radd__ = operator("add")
    __mul__ = __rmul__ = operator("mul")
    __sub__, __rsub__ = operator("sub"), reflected("sub")
    __truediv__, __rtruediv__ = operator("div"), reflected("div")
    __and__, __or__, __xor__ = operator("and"), operator("or"), operator("xor")
    __lt__, __le__ = operator("lt"), operator("le")
    __gt__, __ge__ = operator("gt"), operator("ge")
    # Not `==`, which compares expressions.
    is_, is_not = operator("eq"), operator("ne")
    __lshift__ = operator("machine_shift_left")

    def __rshift__(self, y):
        """Filled with the first bit if the dtype is signed, with zeros if not."""
        kind = "arithmetic" if self.dtype.kind == "i" else "logical"
        return self.apply(f"machine_shift_right_{kind}", y)

    def __neg__(self):
        return self.apply("neg")

    def __abs__(self):
        return self.apply("abs")

    def __invert__(self):
        return self.apply("not")


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


def limited(x, low, high):
    """x within low..high; a NaN stays one.  Each choice is one instruction."""
    x = where(x > high, high, x)
    return where(x < low, low, x)


def polynomial(x, *coefficients):
    """Horner's rule, the highest power first."""
    total = x.like(coefficients[0])
    for c in coefficients[1:]:
        total = muladd(total, x, c)
    return total


def in_double(body):
    """A form that computes in float64, whatever its dtype is."""

    def form(*args, dtype):
        return body(*(x.to(FLOAT64) for x in args)).to(dtype)

    return form


# name -> function(*Numbers, dtype) -> Number, or None if the operation is plain.
scalar_forms = {}


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


# Exponents with which a power is a root and products: {y: the name of x ** y}.  A plain
# root is one since the program was simplified.
halves = -7, -5, -3, -1, 3, 5, 7
half_powers = {k / 2: f"pow_{k}_halves".replace("-", "minus_") for k in halves}


def plain_name(expr):
    """The name of the plain operation that an `Op` is, because of its arguments."""
    name = expr.name
    if name == "rem" and by_power_of_two(expr):
        return "rem_of_power"
    if name == "pow" and expr.dtype == FLOAT32 and type(expr.args[1]) is Const:
        return half_powers.get(expr.args[1].value, name)
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


def by_power_of_two(expr):
    """Whether a float is divided by 1, 2, 4 ...: then the quotient is exact."""
    y = expr.args[1]
    if expr.dtype not in (FLOAT32, FLOAT64) or type(y) is not Const:
        return False
    mantissa, exponent = math.frexp(y.value)
    return mantissa == 0.5 and 1 <= exponent <= 64


def form_of(name, dtypes, dtype):
    """The form of an operation: -> (params, result), or None if it is plain.

    Complex numbers have none: `in_pairs` makes real ones of them.
    """
    row = scalar_forms.get(name)
    pairs = any(d.kind == "c" for d in (*dtypes, dtype))
    return None if row is None or pairs else form_by(row, dtypes, dtype)


@functools.cache
def form_by(row, dtypes, dtype):
    """What a row of `scalar_forms` says of an operation on these dtypes."""
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
