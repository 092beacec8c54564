"""The rest of the elementwise primitives, and the functions that apply them.

    tan(array(1.0)), erf(array(1.0))        # functions of a number
    shift_left(array(1), array(40))         # 0: all bits fall out
    bitcast_convert_type(array(1.0), "int32")          # 1065353216: the same bits

They have rows in the same tables as those of `trace.primitives`, and are as strict.
Values are JAX's on a CPU also at the edges: remainders by zero, shifts past the width,
rounding of halves, poles of special functions.
"""

import enum

import numpy as np

from . import dtypes
from .array import aval_of, eval_rules, on_numpy, shape_rules
from .core import Primitive
from .numpy_values import real_part
from .primitives import (
    adapt,
    all_weak,
    binary,
    elementwise,
    of_one,
    of_two,
    on_wide,
    to_bool,
    unary,
)
from .shape_checks import (
    anything,
    check_kind,
    check_same_dtypes,
    inexact,
    is_kind,
    number,
)

# The kinds of dtypes that a primitive may accept.
integer = (np.integer,)
reals = (np.floating,)
complexes = (np.complexfloating,)

exp2_p, expm1_p, log1p_p, tan_p = map(Primitive, ["exp2", "expm1", "log1p", "tan"])
asin_p, acos_p, atan_p, atan2_p = map(Primitive, ["asin", "acos", "atan", "atan2"])
sinh_p, cosh_p = map(Primitive, ["sinh", "cosh"])
asinh_p, acosh_p, atanh_p = map(Primitive, ["asinh", "acosh", "atanh"])
logistic_p, rsqrt_p, cbrt_p = map(Primitive, ["logistic", "rsqrt", "cbrt"])
square_p = Primitive("square")

shape_rules |= unary(inexact, exp2_p, expm1_p, log1p_p, tan_p, asin_p, acos_p, atan_p)
shape_rules |= unary(inexact, sinh_p, cosh_p, asinh_p, acosh_p, atanh_p)
shape_rules |= unary(inexact, logistic_p, rsqrt_p)
shape_rules |= unary(reals, cbrt_p)
shape_rules |= unary(number, square_p)
shape_rules |= binary(inexact, atan2_p)


def exp2_value(x):
    """2**x; NumPy's own knows no complex numbers."""
    return np.exp2(x) if x.dtype.kind != "c" else np.exp(x * x.dtype.type(np.log(2)))


def atan2_value(y, x):
    """The angle of the point (x, y); for complex numbers, where cut as JAX cuts it."""
    if y.dtype.kind != "c":
        return np.arctan2(y, x)
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def logistic_value(x):
    """1 / (1 + e**-x), by a form whose exponential does not overflow."""
    small = np.exp(-np.abs(x)) if x.dtype.kind != "c" else np.exp(-x)
    result = 1 / (1 + small)
    return result if x.dtype.kind == "c" else np.where(x < 0, small * result, result)


eval_rules |= on_wide({exp2_p: exp2_value, expm1_p: np.expm1, log1p_p: np.log1p})
eval_rules |= on_wide({tan_p: np.tan, asin_p: np.arcsin, acos_p: np.arccos})
eval_rules |= on_wide({atan_p: np.arctan, atan2_p: atan2_value})
eval_rules |= on_wide({sinh_p: np.sinh, cosh_p: np.cosh})
eval_rules |= on_wide({asinh_p: np.arcsinh, acosh_p: np.arccosh, atanh_p: np.arctanh})
eval_rules |= on_wide({logistic_p: logistic_value, cbrt_p: np.cbrt})
eval_rules |= on_wide({rsqrt_p: lambda x: 1 / np.sqrt(x), square_p: lambda x: x * x})

exp2 = of_one(exp2_p, "2**x, elementwise, of floats or complex numbers.")
expm1 = of_one(expm1_p, "e**x - 1, elementwise, exact also for small x.")
log1p = of_one(log1p_p, "log(1 + x), elementwise, exact also for small x.")
tan = of_one(tan_p, "The tangent, elementwise, of floats or complex numbers.")
asin = of_one(asin_p, "The inverse sine, elementwise; NaN outside [-1, 1].")
acos = of_one(acos_p, "The inverse cosine, elementwise; NaN outside [-1, 1].")
atan = of_one(atan_p, "The inverse tangent, elementwise.")
atan2 = of_two(atan2_p, "The angle of the point (x, y), elementwise: y is first.")
sinh = of_one(sinh_p, "The hyperbolic sine, elementwise.")
cosh = of_one(cosh_p, "The hyperbolic cosine, elementwise.")
asinh = of_one(asinh_p, "The inverse hyperbolic sine, elementwise.")
acosh = of_one(acosh_p, "The inverse hyperbolic cosine, elementwise; NaN below 1.")
atanh = of_one(atanh_p, "The inverse hyperbolic tangent, elementwise.")
logistic = of_one(logistic_p, "1 / (1 + e**-x), elementwise: the sigmoid.")
rsqrt = of_one(rsqrt_p, "1 / sqrt(x), elementwise.")
cbrt = of_one(cbrt_p, "The real cube root, elementwise, also below zero.")
square = of_one(square_p, "x * x, elementwise; integers wrap.")


erf_p, erfc_p, erf_inv_p = map(Primitive, ["erf", "erfc", "erf_inv"])
lgamma_p, digamma_p = map(Primitive, ["lgamma", "digamma"])
igamma_p, igammac_p = map(Primitive, ["igamma", "igammac"])
bessel_i0e_p, bessel_i1e_p = map(Primitive, ["bessel_i0e", "bessel_i1e"])
regularized_incomplete_beta_p = Primitive("regularized_incomplete_beta")
zeta_p, polygamma_p = map(Primitive, ["zeta", "polygamma"])
igamma_grad_a_p = Primitive("igamma_grad_a")
random_gamma_grad_p = Primitive("random_gamma_grad")

shape_rules |= unary(reals, erf_p, erfc_p, erf_inv_p, lgamma_p, digamma_p)
shape_rules |= unary(reals, bessel_i0e_p, bessel_i1e_p)
shape_rules |= binary(reals, igamma_p, igammac_p, zeta_p, polygamma_p)
shape_rules |= binary(reals, igamma_grad_a_p, random_gamma_grad_p)
shape_rules |= {
    regularized_incomplete_beta_p: elementwise(
        "regularized_incomplete_beta", reals, reals, reals
    )
}


def special(name):
    """A function of `scipy.special`, which is imported when it is first needed."""

    def function(*args):
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return function


def digamma_value(x):
    """The logarithmic derivative of gamma; NaN at all its poles, zero included."""
    return np.where((x == 0) | (x == -np.inf), np.nan, special("psi")(x))


def lgamma_value(x):
    """log(|gamma(x)|); infinite also at -inf."""
    return np.where(x == -np.inf, np.inf, special("gammaln")(x))


def polygamma_value(m, x):
    """The m-th derivative of digamma, for whole m >= 0; NaN for others."""
    sign = np.where(m % 2 == 0, -1, 1)
    factorial = special("gamma")(m + 1)
    higher = sign * factorial * special("zeta")(m + 1, x)
    value = np.where(m == 0, digamma_value(x), higher)
    return np.where((m >= 0) & (m == np.floor(m)), value, np.nan)


def igamma_series(a, x):
    """1 + x / (a+1) + x**2 / ((a+1) (a+2)) + ..., to which igamma is proportional."""
    term = total = np.ones_like(a)
    for n in range(1, 10_000):
        term = term * x / (a + n)
        total = total + term
        if not np.any(np.abs(term) > 1e-20 * np.abs(total)):
            break
    return total


def igammac_fraction(a, x):
    """The continued fraction to which igammac is proportional, by Lentz's method."""
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for n in range(1, 10_000):
        step, b = n * (a - n), b + 2
        d = 1 / (step * d + b)
        c = b + step / c
        value = value * (c * d)
        if not np.any(np.abs(c * d - 1) > 1e-16):
            break
    return value


def igamma_slope(a, x):
    """The derivative of igamma by a, as a multiple of that by x.

    The series, and where x > a + 1 the fraction, are evaluated at a + 1e-30 i: the
    imaginary part of the result is 1e-30 times its derivative, without any rounding.
    """
    a, x = np.broadcast_arrays(a, x)
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    a, y = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    low = y <= a + 1
    z = a + 1e-30j
    total = igamma_series(z, np.where(low, y, 0.5))
    rest = igammac_fraction(z, np.where(low, a + 2, y))
    log, psi = np.log(y), special("psi")(a)
    by_series = y / a * ((log - psi - 1 / a) * total.real + total.imag * 1e30)
    by_fraction = -y * ((log - psi) * rest.real + rest.imag * 1e30)
    slope = np.where(low, by_series, by_fraction)
    at_the_end = (a > 0) & ((x == 0) | (x == np.inf))
    return np.where(inside, slope, np.where(at_the_end, 0.0, np.nan))


def igamma_grad_a_value(a, x):
    """The derivative of igamma(a, x) by a."""
    with np.errstate(all="ignore"):
        density = np.exp((a - 1) * np.log(x) - x - special("gammaln")(a))
        slope = igamma_slope(a, x)
        return np.where(slope == 0, 0.0, density * slope)


eval_rules |= on_wide({igamma_grad_a_p: igamma_grad_a_value})
eval_rules |= on_wide({random_gamma_grad_p: lambda a, x: -igamma_slope(a, x)})
eval_rules |= on_wide({erf_p: special("erf"), erfc_p: special("erfc")})
eval_rules |= on_wide({erf_inv_p: special("erfinv"), lgamma_p: lgamma_value})
eval_rules |= on_wide({digamma_p: digamma_value, polygamma_p: polygamma_value})
eval_rules |= on_wide({igamma_p: special("gammainc"), igammac_p: special("gammaincc")})
eval_rules |= on_wide({bessel_i0e_p: special("i0e"), bessel_i1e_p: special("i1e")})
eval_rules |= on_wide({regularized_incomplete_beta_p: special("betainc")})
eval_rules |= on_wide({zeta_p: special("zeta")})

erf = of_one(erf_p, "The error function, elementwise.")
erfc = of_one(erfc_p, "1 - erf(x), elementwise, also where that is small.")
erf_inv = of_one(erf_inv_p, "The inverse of erf, elementwise; NaN outside [-1, 1].")
lgamma = of_one(lgamma_p, "log(|gamma(x)|), elementwise.")
digamma = of_one(digamma_p, "The derivative of lgamma, elementwise.")
igamma = of_two(igamma_p, "The regularised lower incomplete gamma function.")
igammac = of_two(igammac_p, "1 - igamma(a, x), elementwise.")
igamma_grad_a = of_two(igamma_grad_a_p, "The derivative of igamma(a, x) by a.")
random_gamma_grad = of_two(
    random_gamma_grad_p, "How a sample x of gamma(a) moves with a, of (a, x)."
)
bessel_i0e = of_one(bessel_i0e_p, "e**-|x| times the Bessel function I0, elementwise.")
bessel_i1e = of_one(bessel_i1e_p, "e**-|x| times the Bessel function I1, elementwise.")
zeta = of_two(zeta_p, "The Hurwitz zeta function of (x, q), elementwise.")
polygamma = of_two(polygamma_p, "The m-th derivative of digamma, of (m, x).")


def betainc(a, b, x):
    """The regularised incomplete beta function, elementwise."""
    return regularized_incomplete_beta_p.bind(*adapt(a, b, x))


floor_p, ceil_p, round_p = map(Primitive, ["floor", "ceil", "round"])
is_finite_p, nextafter_p = map(Primitive, ["is_finite", "nextafter"])
rem_p, clamp_p = map(Primitive, ["rem", "clamp"])
reduce_precision_p = Primitive("reduce_precision")

shape_rules |= unary(reals, floor_p, ceil_p)
shape_rules |= unary(reals, is_finite_p, result=to_bool)
shape_rules |= binary(reals, nextafter_p)
shape_rules |= binary((*integer, *reals), rem_p)


def remainder(x, y):
    """What is left of x after division by y cut towards zero; x where y is 0."""
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    # By -1 nothing is left; NumPy may trap on the least integer.
    safe = (y != 0) & (y != y.dtype.type(-1) if y.dtype.kind == "i" else True)
    left = np.fmod(x, np.where(safe, y, y.dtype.type(1)))
    return np.where(y == 0, x, left)


eval_rules |= on_wide({floor_p: np.floor, ceil_p: np.ceil, rem_p: remainder})
eval_rules |= on_numpy({is_finite_p: np.isfinite, nextafter_p: np.nextafter})

floor = of_one(floor_p, "The largest whole number not above x, elementwise.")
ceil = of_one(ceil_p, "The smallest whole number not below x, elementwise.")
is_finite = of_one(is_finite_p, "Whether x is neither infinite nor NaN, elementwise.")
nextafter = of_two(nextafter_p, "The float next to x in the direction of y.")
rem = of_two(rem_p, "x - y * trunc(x / y), elementwise: the sign is x's; x for y = 0.")


class RoundingMethod(enum.IntEnum):
    """Where `round` takes what lies halfway between two whole numbers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round_value(x, *, rounding_method):
    """The nearest whole number."""
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    # Not floor(x + 0.5): for the float below 0.5 that sum rounds up to 1.
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x)


def round_shape(x, *, rounding_method):
    """The shape rule of `round`."""
    check_kind("round", x.dtype, reals)
    return x


def clamp_shape(low, x, high):
    """The shape rule of `clamp`."""
    for name, bound in [("min", low), ("max", high)]:
        if bound.shape not in ((), x.shape):
            raise TypeError(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), "
                f"got {name}.shape={bound.shape}, operand.shape={x.shape}."
            )
    check_kind("clamp", x.dtype, anything)
    check_same_dtypes("clamp", (low, x, high))
    return x.update(weak_type=all_weak((low, x, high)))


def reduce_precision_shape(x, *, exponent_bits, mantissa_bits):
    """The shape rule of `reduce_precision`."""
    check_kind("reduce_precision", x.dtype, reals)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(
            "reduce_precision requires exponent_bits >= 1 and mantissa_bits >= 0, got "
            f"{exponent_bits} and {mantissa_bits}"
        )
    return x


def reduce_precision_value(x, *, exponent_bits, mantissa_bits):
    """Round the bits of x as a float with fewer of them would: halves to even.

    What the smaller exponent cannot hold becomes infinite, or zero: there are no
    subnormal numbers in the smaller format.
    """
    info = dtypes.finfo(x.dtype)
    bits = np.array(x, order="C").view(f"u{x.dtype.itemsize}")
    unit = bits.dtype.type
    if drop := max(0, info.nmant - mantissa_bits):
        half = unit((1 << drop - 1) - 1) + (bits >> unit(drop) & unit(1))
        bits = bits + half >> unit(drop) << unit(drop)
    sign = bits & unit(1 << info.bits - 1)
    if exponent_bits < info.nexp:
        exponent = (bits & ~unit(1 << info.bits - 1)) >> unit(info.nmant)
        middle, reach = (1 << info.nexp - 1) - 1, (1 << exponent_bits - 1) - 1
        infinite = unit(((1 << info.nexp) - 1) << info.nmant)
        bits = np.where(exponent > middle + reach, sign | infinite, bits)
        bits = np.where(exponent <= middle - reach, sign, bits)
    return np.where(np.isnan(x), x, bits.view(x.dtype))


shape_rules |= {
    round_p: round_shape,
    clamp_p: clamp_shape,
    reduce_precision_p: reduce_precision_shape,
}
eval_rules |= on_wide({round_p: round_value})
eval_rules |= on_wide({clamp_p: lambda a, x, b: np.minimum(np.maximum(x, a), b)})
eval_rules |= on_numpy({reduce_precision_p: reduce_precision_value})


def round(x, rounding_method=RoundingMethod.AWAY_FROM_ZERO):
    """The whole number nearest to x, elementwise.

    Args:
      x: floats.
      rounding_method: a `RoundingMethod`, where halves go.
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def clamp(min, x, max):
    """x, but at least `min` and then at most `max`, elementwise; NaN stays.

    The bounds are scalars or have the shape of x, and its dtype.
    """
    return clamp_p.bind(*adapt(min, x, max))


def reduce_precision(operand, exponent_bits, mantissa_bits):
    """`operand` rounded to what a float of so many bits could hold, elementwise."""
    return reduce_precision_p.bind(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


shift_left_p = Primitive("shift_left")
shift_right_logical_p = Primitive("shift_right_logical")
shift_right_arithmetic_p = Primitive("shift_right_arithmetic")
population_count_p, clz_p = map(Primitive, ["population_count", "clz"])

shape_rules |= binary(integer, shift_left_p, shift_right_logical_p)
shape_rules |= binary(integer, shift_right_arithmetic_p)
shape_rules |= unary(integer, population_count_p, clz_p)


def unsigned(x):
    """The bits of an integer array as an unsigned one."""
    return x.view(f"u{x.dtype.itemsize}")


def shifted(shift, beyond):
    """A shift that is `beyond(x)` where its distance is negative or past the width."""

    def value(x, distance):
        width = 8 * x.dtype.itemsize
        distance = unsigned(distance)
        inside = distance < width
        moved = shift(x, np.where(inside, distance, 0).astype(x.dtype))
        return np.where(inside, moved, beyond(x))

    return value


def shift_right_unsigned(x, distance):
    """x >> distance with zeros coming in from the left."""
    return (unsigned(x) >> unsigned(distance)).view(x.dtype)


def shift_right_signed(x, distance):
    """x >> distance with copies of the first bit coming in, of unsigned x as well."""
    signed = f"i{x.dtype.itemsize}"
    return (x.view(signed) >> distance.view(signed)).view(x.dtype)


def sign_bits(x):
    """All bits set where the first bit of x is, else none."""
    return -(x.view(f"i{x.dtype.itemsize}") < 0).astype(x.dtype)


def count_leading_zeros(x):
    """How many zeros stand before the first one of the bits of x."""
    bits, width = unsigned(x), 8 * x.dtype.itemsize
    distance = 1
    while distance < width:
        # Afterwards all bits below the first one are ones too.
        bits = bits | bits >> bits.dtype.type(distance)
        distance *= 2
    return width - np.bitwise_count(bits)


eval_rules |= on_numpy({
    shift_left_p: shifted(np.left_shift, np.zeros_like),
    shift_right_logical_p: shifted(shift_right_unsigned, np.zeros_like),
    shift_right_arithmetic_p: shifted(shift_right_signed, sign_bits),
    population_count_p: lambda x: np.bitwise_count(unsigned(x)),
    clz_p: count_leading_zeros,
})

shift_left = of_two(shift_left_p, "x << y, elementwise; 0 for y past the width.")
shift_right_logical = of_two(
    shift_right_logical_p, "x >> y with zeros coming in, elementwise."
)
shift_right_arithmetic = of_two(
    shift_right_arithmetic_p, "x >> y with copies of the sign coming in, elementwise."
)
population_count = of_one(population_count_p, "How many bits of x are 1, elementwise.")
clz = of_one(clz_p, "How many zeros lead the bits of x, elementwise.")


bitcast_convert_type_p = Primitive("bitcast_convert_type")


def bitcast_shape(x, *, new_dtype):
    """The shape rule of `bitcast_convert_type`: the last axis is split or joined."""
    old, new = x.dtype, new_dtype
    if old != new and (is_kind(old, opaque) or is_kind(new, opaque)):
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless "
            "the operand and destination types match. Got operand dtype="
            f"{old}, new_dtype={new}."
        )
    ratio = new.itemsize // old.itemsize
    if new.itemsize < old.itemsize:
        shape = (*x.shape, old.itemsize // new.itemsize)
    elif ratio == 1:
        shape = x.shape
    elif x.shape[-1:] == (ratio,):
        shape = x.shape[:-1]
    else:
        raise ValueError(
            f"Attempting to convert array of shape {x.shape} from {old} to {new}: its "
            f"last axis must have size {ratio}, one for each part of a {new}"
        )
    return x.update(shape=shape, dtype=new, weak_type=False)


opaque = (np.bool_, *complexes, dtypes.extended)


def bitcast_value(x, *, new_dtype):
    """The same bytes, in the machine's own order (little-endian, as JAX's)."""
    x = np.array(x, order="C")
    if new_dtype.itemsize < x.dtype.itemsize:
        return x[..., None].view(new_dtype)
    joined = x.view(new_dtype)
    return joined if new_dtype.itemsize == x.dtype.itemsize else joined[..., 0]


shape_rules |= {bitcast_convert_type_p: bitcast_shape}
eval_rules |= on_numpy({bitcast_convert_type_p: bitcast_value})


def bitcast_convert_type(operand, new_dtype):
    """The bits of `operand` read as another dtype.

    A narrower dtype adds a last axis, that splits each element; a wider one takes the
    last axis, whose elements it joins.
    """
    new_dtype = dtypes.user_dtype(new_dtype, "bitcast_convert_type")
    return bitcast_convert_type_p.bind(operand, new_dtype=new_dtype)


real_p, imag_p, complex_p, conj_p = map(Primitive, ["real", "imag", "complex", "conj"])

# Only these floats are the parts of a complex number.
parts = (np.float32, np.float64)


def to_complex(dtype):
    """The complex dtype with parts of this dtype; a complex dtype is its own."""
    return dtype if dtype.kind == "c" else np.dtype(f"complex{16 * dtype.itemsize}")


def conj_shape(x, *, input_dtype):
    """The shape rule of `conj`: of a real number it makes a complex one."""
    check_kind("conj", x.dtype, (*parts, *complexes))
    return x.update(dtype=to_complex(x.dtype))


shape_rules |= unary(complexes, real_p, imag_p, result=real_part)
shape_rules |= binary(parts, complex_p, result=to_complex)
shape_rules |= {conj_p: conj_shape}


def complex_value(x, y):
    """x + iy, whatever they are: infinite and NaN parts stay apart."""
    x, y = np.broadcast_arrays(x, y)
    result = np.empty(x.shape, to_complex(x.dtype))
    result.real, result.imag = x, y
    return result


eval_rules |= on_numpy({real_p: np.real, imag_p: np.imag, complex_p: complex_value})
eval_rules |= on_numpy({conj_p: lambda x, *, input_dtype: np.conj(x)})

real = of_one(real_p, "The real part of complex numbers, elementwise.")
imag = of_one(imag_p, "The imaginary part of complex numbers, elementwise.")
complex = of_two(complex_p, "x + iy, elementwise, of two float32 or two float64.")


def conj(x):
    """The complex conjugate, elementwise; complex also of a float."""
    return conj_p.bind(x, input_dtype=aval_of(x).dtype)
