"""Elementwise mathematics beyond the core: angles, rounding, remainders, closeness."""

from __future__ import annotations

import builtins
import math
from functools import partial
from typing import Any

import numpy as np

from ..ops import bits as bit_ops, complex_numbers, elementary, rounding, special
from ..trace import dtypes, primitives
from ..trace.primitives import floor as floor_whole, rem
from ..trace.types import Array, ArrayLike, Unary
from ..transform.control_flow.api import while_loop
from ..transform.custom.custom_derivatives import custom_jvp
from ..transform.custom.rule_checks import SymbolicZero
from .arguments import (
    check_arraylike, check_inexact, check_promotable, named, no_out, static_int,
    unwrapped,
)
from .core import (
    absolute, add, arrays, binary, bool_of, convert, exp, greater,
    inf, invert, isnan, less, like, maximum, minimum, pi,
    promote_args, promote_args_inexact, promote_args_numeric, promote_dtypes, sign,
    strong, unary,
)
from .elementwise import choose_where, floor_divide, mod, nonzero_divisor, power
from .making import array, asarray, full, ones_like, zeros_like
from .reducing import all, any
from .shapes import broadcast_arrays, broadcast_shapes, broadcast_to

tan = unary("tan", elementary.tan)
arcsin = unary("arcsin", elementary.asin)
arccos = unary("arccos", elementary.acos)
arctan = unary("arctan", elementary.atan)
sinh = unary("sinh", elementary.sinh)
cosh = unary("cosh", elementary.cosh)
arcsinh = unary("arcsinh", elementary.asinh)
arctanh = unary("arctanh", elementary.atanh)
expm1 = unary("expm1", elementary.expm1)
log1p = unary("log1p", elementary.log1p)
exp2 = unary("exp2", elementary.exp2)
cbrt = unary("cbrt", elementary.cbrt)
square = unary("square", elementary.square, promote_args_numeric)
arctan2 = binary("arctan2", elementary.atan2, promote_args_inexact)
nextafter = binary("nextafter", rounding.nextafter, promote_args_inexact)
float_power = binary("float_power", primitives.pow, promote_args_inexact)
left_shift = binary("left_shift", bit_ops.shift_left, promote_args_numeric)
bitwise_left_shift = left_shift
bitwise_invert = invert


def arccosh(x: ArrayLike, /) -> Array:
    """Elementwise inverse of `cosh`.  JAX: `jnp.arccosh`."""
    x, = promote_args_inexact("arccosh", x)
    result = elementary.acosh(x)
    if result.dtype.kind != "c":
        return result
    return choose_where(real(result) < 0, -result, result)


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Elementwise x1 >> x2; the sign of signed integers is kept.  JAX: same name."""
    x, n = promote_args_numeric("right_shift", x1, x2)
    unsigned = dtypes.issubdtype(x.dtype, np.unsignedinteger)
    shift = bit_ops.shift_right_logical if unsigned else bit_ops.shift_right_arithmetic
    return shift(x, n)


bitwise_right_shift = right_shift


def bitwise_count(x: ArrayLike, /) -> Array:
    """How many bits of |x| are set, as uint8.  JAX: `jnp.bitwise_count`."""
    x, = promote_args_numeric("bitwise_count", x)
    return convert(bit_ops.population_count(absolute(x)), np.uint8)


def fabs(x: ArrayLike, /) -> Array:
    """Elementwise |x| as a float.  JAX: `jnp.fabs`."""
    x, = promote_args_inexact("fabs", x)
    if x.dtype.kind == "c":
        raise TypeError("ufunc 'fabs' does not support complex dtypes")
    return primitives.abs(x)


def rounded(name, operation) -> Unary:
    """The function `name` that rounds floats and leaves integers as they are."""

    def function(x, /):
        x, = arrays(name, x)
        return x if x.dtype.kind in "biu" else operation(x)

    return named(function, name)


floor = rounded("floor", floor_whole)
ceil = rounded("ceil", rounding.ceil)
trunc = rounded("trunc", lambda x: choose_where(x < 0, ceil(x), floor(x)))


def rint(x: ArrayLike, /) -> Array:
    """The nearest integer, as a float; halves to even.  JAX: `jnp.rint`."""
    x, = arrays("rint", x)
    if x.dtype.kind in "biu":
        return convert(x, dtypes.default_dtype("floating"))
    if x.dtype.kind == "c":
        return complex_numbers.complex(rint(real(x)), rint(imag(x)))
    return round_to_even(x)


def round_to_even(x):
    """The nearest integer of floats; halves to even."""
    return rounding.round(x, rounding.RoundingMethod.TO_NEAREST_EVEN)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Rounded to a number of decimals; halves to even.  JAX: `jnp.round`."""
    no_out("round", out)
    x, = arrays("round", a)
    decimals = static_int(decimals, "the argument 'decimals' of jnp.round")
    if x.dtype.kind in "iu":
        if decimals < 0:
            raise NotImplementedError("jnp.round of integers with decimals < 0")
        return x
    if x.dtype.kind == "c":
        parts = round(real(x), decimals), round(imag(x), decimals)
        return complex_numbers.complex(*parts)
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


def real(val: ArrayLike, /) -> Array:
    """The real part.  JAX: `jnp.real`."""
    x, = arrays("real", val)
    return complex_numbers.real(x) if x.dtype.kind == "c" else x


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part; 0 for real x.  JAX: `jnp.imag`."""
    x, = arrays("imag", val)
    return complex_numbers.imag(x) if x.dtype.kind == "c" else zeros_like(x)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate.  JAX: `jnp.conjugate`."""
    x, = arrays("conjugate", x)
    return complex_numbers.conj(x) if x.dtype.kind == "c" else x


conj = conjugate


def lexicographic(operation, x, y):
    """Order complex numbers by their real parts, then by their imaginary parts."""
    x, y = broadcast_arrays(x, y)
    same = primitives.eq(real(x), real(y))
    first = operation(real(x), real(y))
    return primitives.select(same, operation(imag(x), imag(y)), first)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of complex numbers, in radians or degrees.  JAX: `jnp.angle`."""
    z, = arrays("angle", z)
    x, y = real(z), imag(z)
    if x.dtype.kind in "biu" or (z.dtype.kind == "f" and z.ndim == 0):
        default = dtypes.default_dtype("floating")
        x, y = convert(x, default), convert(y, default)
    result = elementary.atan2(y, x)
    return degrees(result) if deg else result


def isfinite(x: ArrayLike, /) -> Array:
    """Where x is neither infinite nor NaN.  JAX: `jnp.isfinite`."""
    x, = arrays("isfinite", x)
    if x.dtype.kind == "c":
        return isfinite(real(x)) & isfinite(imag(x))
    known = not dtypes.issubdtype(x.dtype, np.inexact)
    return full(x.shape, True) if known else rounding.is_finite(x)


def isinf(x: ArrayLike, /) -> Array:
    """Where x is infinite.  JAX: `jnp.isinf`."""
    x, = arrays("isinf", x)
    if x.dtype.kind == "c":
        return isinf(real(x)) | isinf(imag(x))
    if x.dtype.kind in "biu":
        return full(x.shape, False)
    size = primitives.abs(x)
    return primitives.eq(size, convert(inf, size.dtype))


def isposinf(x: ArrayLike, /, out: Any = None) -> Array:
    """Where x is +infinity.  JAX: `jnp.isposinf`."""
    return is_infinity("isposinf", x, inf, out)


def isneginf(x: ArrayLike, /, out: Any = None) -> Array:
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


def iscomplex(x: ArrayLike) -> Array:
    """Where the imaginary part is not zero.  JAX: `jnp.iscomplex`."""
    y = imag(x)
    return primitives.ne(y, like(y, 0))


def isreal(x: ArrayLike) -> Array:
    """Where the imaginary part is zero.  JAX: `jnp.isreal`."""
    y = imag(x)
    return primitives.eq(y, like(y, 0))


def iscomplexobj(x: Any) -> bool:
    """Whether x has a complex dtype.  JAX: `jnp.iscomplexobj`."""
    return x is not None and not isinstance(x, str) and dtype_kind(x) == "c"


def isrealobj(x: Any) -> bool:
    """Whether x has a dtype that is not complex.  JAX: `jnp.isrealobj`."""
    return not iscomplexobj(x)


def dtype_kind(x):
    """The kind of the dtype of an array, a number or a list of them."""
    return (x if hasattr(x, "dtype") else asarray(x)).dtype.kind


def isscalar(element: Any) -> bool:
    """Whether x is a number or an array without axes.  JAX: `jnp.isscalar`."""
    element = unwrapped(element)
    if isinstance(element, (np.ndarray, Array)):
        return element.ndim == 0
    return bool_of(np.isscalar(element))


def bits_of_float(x):
    """-> (float x as signed integers, how many bits stand below its sign)."""
    info = dtypes.finfo(x.dtype)
    bits = bit_ops.bitcast_convert_type(x, np.dtype(f"int{info.bits}"))
    return bits, info.bits - 1


def signbit(x: ArrayLike, /) -> Array:
    """Where the sign is negative, also of -0.0 and NaN.  JAX: `jnp.signbit`."""
    x, = arrays("signbit", x)
    if x.dtype.kind == "b":
        return full(x.shape, False)
    if x.dtype.kind in "iu":
        return x < 0
    if x.dtype.kind == "c":
        raise ValueError(f"jax.numpy.signbit is not well defined for {x.dtype}")
    bits, _ = bits_of_float(x)
    return bits < 0


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """|x1| with the sign of x2.  JAX: `jnp.copysign`."""
    x, y = promote_args_inexact("copysign", x1, x2)
    if x.dtype.kind == "c":
        raise TypeError("copysign does not support complex-valued inputs")
    return choose_where(signbit(y), -primitives.abs(x), primitives.abs(x))


def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next float away from zero.  JAX: `jnp.spacing`."""
    x, = promote_args_inexact("spacing", x)
    if x.dtype.kind == "c":
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    infinity = convert(inf, x.dtype)
    if x.dtype == np.float16:
        return rounding.nextafter(x, broadcast_to(infinity, x.shape)) - x
    return rounding.nextafter(x, copysign(infinity, x)) - x


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """-> (m, n) with x = m * 2**n and 0.5 <= |m| < 1.  JAX: `jnp.frexp`."""
    x, = promote_args_inexact("frexp", x)
    if x.dtype.kind == "c":
        raise TypeError("frexp does not support complex-valued inputs")
    info = dtypes.finfo(x.dtype)
    # Subnormal numbers are scaled first, so that they have an exponent to read.
    tiny = primitives.abs(x) < info.tiny
    bits, _ = bits_of_float(choose_where(tiny, x * 2.0**info.nmant, x))
    mask, bias = 2**info.nexp - 1, 1 - info.minexp
    n = (bits >> info.nmant & mask) - (bias - 1) - choose_where(tiny, info.nmant, 0)
    bits = bits & ~(mask << info.nmant) | (bias - 1 << info.nmant)
    m = bit_ops.bitcast_convert_type(bits, x.dtype)
    plain = isinf(x) | isnan(x) | (x == 0)
    n = convert(choose_where(plain, 0, n), np.int32)
    return choose_where(plain, x, mantissa(x, m, n)), n


@custom_jvp
def mantissa(x, m, n):
    """m = x / 2**n, which was read from the bits of x: they have no derivative."""
    return m


mantissa.defjvps(lambda t, ans, x, m, n: t * power(2, -convert(n, x.dtype)), None, None)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * 2**x2.  JAX: `jnp.ldexp`."""
    x, n = arrays("ldexp", x1, x2)
    if x.dtype.kind == "c" or n.dtype.kind not in "biu":
        raise ValueError(f"ldexp not supported for input types {(x.dtype, n.dtype)}")
    x, = promote_args_inexact("ldexp", x)
    m, e = frexp(x)
    e = add(*promote_args("ldexp", convert(e, x.dtype), convert(n, x.dtype)))
    m, e = choose_where(e > 0, m * 2, m), choose_where(e > 0, e - 1, e)
    return choose_where(isinf(x) | (x == 0), x, m * power(2, e))


def modf(x: ArrayLike, /, out: Any = None) -> tuple[Array, Array]:
    """-> (fraction, whole part), both with the sign of x.  JAX: `jnp.modf`."""
    no_out("modf", out)
    x, = promote_args_inexact("modf", x)
    whole = choose_where(x >= 0, floor(x), ceil(x))
    return x - whole, whole


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder with the sign of x1, as in C.  JAX: `jnp.fmod`."""
    x, y = promote_args_numeric("fmod", x1, x2)
    return rem(x, nonzero_divisor(y))


def float_divmod(x, y):
    """`divmod` of floats: the quotient is an exact multiple before it is rounded."""
    r = rem(x, y)
    exact = choose_where(y == 0, x, x - r)
    quotient = exact / y
    opposite = (r != 0) & (primitives.sign(y) != primitives.sign(r))
    r = choose_where(opposite, r + y, r)
    quotient = choose_where(opposite, quotient - 1, quotient)
    return rounding.round(quotient, rounding.RoundingMethod.AWAY_FROM_ZERO), r


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x.  JAX: `jnp.reciprocal`."""
    x, = promote_args_inexact("reciprocal", x)
    return primitives.integer_pow(x, -1)


def logarithm(name, base, scale) -> Unary:
    """The logarithm to another base."""

    def function(x, /):
        x, = promote_args_inexact(name, x)
        y = primitives.log(x)
        if x.dtype.kind == "c":
            return complex_numbers.complex(scale(real(y)), scale(imag(y)))
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


def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees in radians.  JAX: `jnp.deg2rad`."""
    x, = promote_args_inexact("deg2rad", x)
    return primitives.mul(x, like(x, pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Radians in degrees.  JAX: `jnp.rad2deg`."""
    x, = promote_args_inexact("rad2deg", x)
    return primitives.mul(x, like(x, 180 / pi))


radians, degrees = deg2rad, rad2deg


def log_of_sum(x, y):
    """log(exp(x) + exp(y)) of arrays of one dtype, without overflow."""
    if x.dtype.kind == "c":
        return complex_logaddexp(x, y)
    # Not -abs(x - y): where x = y, both have half of the derivative.
    greater, difference = maximum(x, y), minimum(x, y) - maximum(x, y)
    tail = elementary.log1p(primitives.exp(difference))
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
    return complex_numbers.complex(part, convert(wrapped, part.dtype, weak_type))


def log2_of_sum(x, y):
    """log2(2**x + 2**y) of arrays of one dtype, without overflow."""
    greater, difference = maximum(x, y), minimum(x, y) - maximum(x, y)
    tail = elementary.log1p(elementary.exp2(difference))
    tail = tail * like(tail, 1 / math.log(2))
    return choose_where(isnan(difference), x + y, greater + tail)


# Inside they have a corner where x1 = x2, which only cancels in first derivatives.
smooth_logaddexp = custom_jvp(log_of_sum)
smooth_logaddexp2 = custom_jvp(log2_of_sum)


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow.  JAX: `jnp.logaddexp`."""
    return smooth_logaddexp(*promote_args_inexact("logaddexp", x1, x2))


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
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


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 below zero, 1 above, x2 at zero.  JAX: `jnp.heaviside`."""
    check_inexact("heaviside", (x1, x2))
    x, y = broadcast_arrays(*promote_dtypes([x1, x2], dtypes.to_inexact_dtype))
    zero, one = like(x, 0), like(x, 1)
    result = choose_where(isnan(x), x, y)
    result = choose_where(primitives.gt(x, zero), one, result)
    return choose_where(primitives.lt(x, zero), zero, result)


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
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


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at zero.  JAX: `jnp.sinc`."""
    x, = promote_args_inexact("sinc", x)
    y = x * like(x, pi)
    safe = choose_where(x == 0, like(x, 1), y)
    # At zero Taylor's series, for its derivatives: of even order they are not zero.
    square, series = y * y, like(x, 0)
    for n in (10, 8, 6, 4, 2, 0):
        series = like(x, (-1) ** (n // 2) / math.factorial(n + 1)) + series * square
    return choose_where(x == 0, series, primitives.sin(safe) / safe)


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.  JAX: `jnp.i0`."""
    x, = promote_args_inexact("i0", x)
    if x.dtype.kind == "c":
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {x.dtype}")
    # Not abs(x), whose derivative at zero is 1.
    return primitives.exp(x * sign(x)) * special.bessel_i0e(x)


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None, neginf: ArrayLike | None = None,
) -> Array:
    """NaN and the infinities replaced by numbers.  JAX: `jnp.nan_to_num`."""
    x, = arrays("nan_to_num", x)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        return x  # Of integers, and of keys.
    if x.dtype.kind == "c":
        parts = [
            nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf)
            for part in (real(x), imag(x))
        ]
        return complex_numbers.complex(*parts)
    info = dtypes.finfo(x.dtype)
    posinf = info.max if posinf is None else posinf
    neginf = info.min if neginf is None else neginf
    out = choose_where(isnan(x), asarray(nan, x.dtype), x)
    out = choose_where(isposinf(out), asarray(posinf, x.dtype), out)
    return choose_where(isneginf(out), asarray(neginf, x.dtype), out)


def clip(
    arr: ArrayLike | None = None, /, min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
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


def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger one; NaN only where both are.  JAX: `jnp.fmax`."""
    return choose_where(greater(x1, x2) | isnan(x2), x1, x2)


def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller one; NaN only where both are.  JAX: `jnp.fmin`."""
    return choose_where(less(x1, x2) | isnan(x2), x1, x2)


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of integers.  JAX: `jnp.gcd`.

    Euclid's algorithm, until the last of them is done.
    """
    check_promotable("gcd", (x1, x2))
    x, y = broadcast_arrays(*promote_dtypes([x1, x2]))
    if x.dtype.kind not in "iu":
        raise ValueError("Arguments to jax.numpy.gcd must be integers.")

    def step(pair):
        x, y = pair
        is_left = y != 0
        return choose_where(is_left, y, x), choose_where(is_left, rem(x, y), like(y, 0))

    pair = [absolute(z) if z.ndim == 0 else strong(absolute(z)) for z in (x, y)]
    return while_loop(lambda pair: any(pair[1] != 0), step, tuple(pair))[0]


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of integers.  JAX: `jnp.lcm`."""
    x, y = promote_args("lcm", x1, x2)
    if x.dtype.kind not in "iu":
        raise ValueError("Arguments to jax.numpy.lcm must be integers.")
    x, y = absolute(x), absolute(y)
    d = gcd(x, y)
    return choose_where(d == 0, like(d, 0), x * floor_divide(y, d))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether shapes and all elements are equal.  JAX: `jnp.array_equal`."""
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return array(False)
    if x.dtype != y.dtype:
        x, y = promote_args("array_equal", x, y)
    same = x == y
    return all(same | (isnan(x) & isnan(y)) if equal_nan else same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays broadcast and are equal then.  JAX: `jnp.array_equiv`."""
    x, y = asarray(a1), asarray(a2)
    try:
        broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return array(False)
    return all(x == y)
