"""Elementwise functions of several primitives: `power`, `where`, `isclose`, `//`."""

from __future__ import annotations

from typing import Any, overload

from ..trace import dtypes, primitives
from ..trace.array import aval_of
from ..trace.core import operators
from ..trace.dtypes import integer, issubdtype, unsignedinteger
from ..trace.primitives import rem
from ..trace.types import Array, ArrayLike
from .arguments import alike, check_arraylike, with_number
from .core import (
    arrays, as_array, as_number, bitwise_and, convert, equal,
    from_later, inf, isnan, known_int, logical_and, multiply, not_equal,
    operator_methods, promote_args_inexact, promote_args_numeric, promote_dtypes,
    promote_shapes, subtract, truth,
)
from .making import ones_like
from .shapes import to_one_shape


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
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


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
@overload
def where(
    condition: ArrayLike, x: None = None, y: None = None, /, *, size: int | None = None,
    fill_value: Any = None,
) -> tuple[Array, ...]: ...
def where(condition, x=None, y=None, /, *, size=None, fill_value=None):
    """x where the condition holds, else y; all broadcast.  JAX: `jnp.where`.

    With the condition alone: the indices where it holds, as `nonzero` gives them.
    """
    if x is None and y is None:
        nonzero = from_later("where", "jnp.where of a condition alone")
        return nonzero(condition, size=size, fill_value=fill_value)
    found = choose_where(condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError(
            "jnp.where takes size and fill_value with a condition alone, which gives "
            f"indices, and not with x and y; got {size=}, {fill_value=}"
        )
    return found


def choose_where(condition, x, y):
    """`where` of three arguments."""
    if alike((x, y)) and x.aval.shape == y.aval.shape and is_mask(condition, x):
        return primitives.select_n_p.bind(condition, y, x)
    if dtypes.carried_type(getattr(x, "dtype", None)) is not None:
        choose = from_later("where_of_type", "a choice of values without elements")
        return choose(condition, x, y)
    check_arraylike("where", condition, x, y)
    condition = truth(as_array(condition))
    x, y = with_number((x, y), as_number) or promote_dtypes([x, y])
    if condition.aval.shape:
        condition, x, y = to_one_shape([condition, x, y])
    else:
        x, y = to_one_shape([x, y])
    return primitives.select_n_p.bind(condition, y, x)


def is_mask(condition, x):
    """Whether a condition is an array of bools, one for each element of NumPy's."""
    if not isinstance(condition, Array) or x.aval.dtype.kind not in "biufc":
        return False
    return condition.aval.dtype == bool and condition.aval.shape == x.aval.shape


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Where |a - b| <= atol + rtol |b|; keys where they are equal.

    JAX: `jnp.isclose`.
    """
    if all(isinstance(getattr(x, "dtype", None), dtypes.ExtendedDtype) for x in (a, b)):
        return equal(a, b)
    x, y = promote_args_inexact("isclose", a, b)
    work = dtypes.finfo(x.dtype).dtype
    rtol, atol = convert(rtol, work), convert(atol, work)
    size = primitives.abs(y)
    near = (primitives.abs(x - y) <= atol + rtol * size) & (size != inf)
    close = (x == y) | near
    return close | (isnan(x) & isnan(y)) if equal_nan else close


# ---- division with a whole quotient


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 - floor(x1 / x2) * x2: with the sign of x2.  JAX: `jnp.remainder`.

    Integers modulo 0 give 0, floats NaN.
    """
    x, y = promote_args_numeric("remainder", x1, x2)
    y = nonzero_divisor(y)
    r = rem(x, y)
    zero = convert(0, r.dtype)
    opposite = primitives.ne(primitives.lt(r, zero), primitives.lt(y, zero))
    return choose_where(opposite & (r != 0), r + y, r)


def nonzero_divisor(y):
    """1 where an integer divisor is 0: what is left over is 0 then."""
    if not issubdtype(y.dtype, integer):
        return y
    return choose_where(y == 0, ones_like(y), y)


mod = remainder


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient rounded down.  JAX: `jnp.floor_divide`.  x // 0 is -1 for ints."""
    x, y = promote_args_numeric("floor_divide", x1, x2)
    if x.dtype.kind == "c":
        raise TypeError("floor_divide does not support complex-valued inputs")
    if not issubdtype(x.dtype, integer):
        return from_later("float_divmod", "a rounded quotient of floats")(x, y)[0]
    quotient = primitives.div(x, y)
    if issubdtype(x.dtype, unsignedinteger):
        return quotient
    opposite = primitives.sign(x) != primitives.sign(y)
    cut = opposite & (rem(x, y) != 0)
    return choose_where(cut, quotient - 1, quotient)


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """-> (x1 // x2, x1 % x2).  JAX: `jnp.divmod`."""
    x, y = promote_args_numeric("divmod", x1, x2)
    if issubdtype(x.dtype, integer):
        return floor_divide(x, y), remainder(x, y)
    return from_later("float_divmod", "a rounded quotient of floats")(x, y)


more_operators = {
    "floordiv": ("//", floor_divide),
    "mod": ("%", remainder),
    "divmod": ("divmod()", divmod),
}
operators |= operator_methods(more_operators)
