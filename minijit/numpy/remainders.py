"""Division with a whole quotient: `x // y`, `x % y` and `divmod(x, y)`."""

from __future__ import annotations

from ..trace import primitives
from ..trace.core import operators
from ..trace.dtypes import integer, issubdtype, unsignedinteger
from ..trace.remainders import rem
from ..trace.types import Array, ArrayLike
from .core import (
    binary_operators,
    convert,
    from_later,
    operator_methods,
    promote_args_numeric,
)
from .elementwise import choose_where
from .making import ones_like


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
binary_operators |= more_operators
operators |= operator_methods(more_operators)
