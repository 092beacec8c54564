"""More functions in operations that vectorise: as `vector_math`.

    scalar_form(op("cbrt", x))          # a third of the exponent, a polynomial, a step
"""

import math

from .coefficients import (
    BESSEL32, CBRT, ERF, ERF32, ERF_ABOVE32, ERF_BELOW32, ERFC, ERFC32, EXP_RANGE,
    EXPM1, LGAMMA,
)
from .scalar_forms import (
    FLOAT32, FLOAT64, copysign, fma, half_powers, in_double, is_nan, limited, muladd,
    polynomial, rarely, scalar_forms, where,
)
from .special_forms import bessel
from .vector_math import (
    INF, LN2, NAN, by_dtype, expm1_small, less_ln2, power_of_two, whole_part,
)


def exp2(x, dtype):
    low, high = EXP_RANGE[dtype]
    x = limited(x, low / LN2, high / LN2)
    k = whole_part(x)
    k = where(k > x, k - 1.0, k)
    return (expm1_small((x - k) * LN2) + 1.0) * power_of_two(k)


def expm1(x, dtype):
    """2**k (exp(r) - 1) + (2**k - 1), where nothing cancels for r near 0; its half, for
    the largest have an exponent too large."""
    near = limited(x, -40.0, EXP_RANGE[dtype][1])
    k = whole_part(near * (1 / LN2))
    scale = power_of_two(k - 1.0)
    half = muladd(expm1_small(less_ln2(near, k), EXPM1), scale, scale - 0.5)
    return where(x.is_(0.0), x, half + half)


def log1p(x):
    """log(u) for u = 1 + x as rounded, and what that rounding lost."""
    u = x + 1.0
    lost = where(abs(x) < 1.0, x - (u - 1.0), 1.0 - (u - x))
    result = u.apply("log") + lost / u
    result = where((u.is_(0.0)) | (u.is_(INF)), u.apply("log"), result)
    return where(x.is_(0.0), x, result)


def half_exp(x):
    """exp(x) / 2 for x from 0, which overflows later than exp."""
    x = limited(x, 0.0, EXP_RANGE[x.dtype][1] + 1.0)
    k = whole_part(muladd(x, x.like(1 / LN2), -0.5))
    return (expm1_small(less_ln2(x, k)) + 1.0) * power_of_two(k - 1.0)


def cosh(x):
    e = half_exp(abs(x))
    return e + 0.25 / e


def sinh(x):
    """Taylor's polynomial where the two exponentials would cancel."""
    e, z = half_exp(abs(x)), x * x
    last = 11 if x.dtype == FLOAT32 else 19
    series = [1 / math.factorial(n) for n in range(last, 1, -2)]
    small = muladd(z * polynomial(z, *series), x, x)
    return where(abs(x) < 1.0, small, copysign(e - 0.25 / e, x))


# From here on a number and the root of its square beside 1 are twice that number.
TWICE = 1e16


def asinh(x):
    size = abs(x)
    square, far = size * size, size > TWICE
    near = size + square / ((square + 1.0).apply("sqrt") + 1.0)
    result = where(far, size, near).apply("log1p") + where(far, LN2, x.like(0.0))
    return copysign(result, x)


def acosh(x):
    t, far = x - 1.0, x > TWICE
    near = t + (t * t + t * 2.0).apply("sqrt")
    result = where(far, x, near).apply("log1p") + where(far, LN2, x.like(0.0))
    return where(x < 1.0, NAN, result)


def atanh(x):
    size = abs(x)
    twice = size + size
    ratio = twice / (1.0 - size)
    ratio = where(size < 0.5, muladd(ratio, size, twice), ratio)
    return copysign(ratio.apply("log1p") * 0.5, x)


def cbrt(x):
    """A third of the exponent, a polynomial, one step of Newton's."""
    tiny = abs(x) < 2.0**-1022
    size = where(tiny, abs(x) * 2.0**54, abs(x))
    high = (size.bits("uint64") >> 32).to("uint32")
    third = high.apply("machine_div", 3) + 715094163
    t = (third.to("uint64") << 32).bits(FLOAT64)
    t = t * polynomial((t * t) * (t / size), *CBRT)
    t = ((t.bits("uint64") + 0x80000000) & 0xFFFFFFFFC0000000).bits(FLOAT64)
    r = size / (t * t)
    t = muladd(t, (r - t) / (t + t + r), t) * where(tiny, 2.0**-18, x.like(1.0))
    return where((x - x).is_(0.0) & x.is_not(0.0), copysign(t, x), x)


def pow32(x, y):
    """exp(y log |x|) in float64."""
    base, y = x.to(FLOAT64), y.to(FLOAT64)
    result = (y * abs(base).apply("log")).apply("exp")
    return special_power(base, y, result).to(FLOAT32)


def special_power(x, y, result):
    """x ** y, given |x| ** y: the cases of the C standard."""
    result = where(abs(x).is_(1.0) | y.is_(0.0), 1.0, result)
    whole = y.apply("round_even").is_(y)
    half = y * 0.5
    odd = whole & half.apply("round_even").is_not(half)
    negative = copysign(x.like(1.0), x) < 0.0
    result = where(negative & odd, -result, result)
    finite = (x < 0.0) & (x > -INF)
    result = where(finite & ~whole, NAN, result)
    one = x.is_(1.0) | y.is_(0.0)
    return where(one, 1.0, where(is_nan(x) | is_nan(y), NAN, result))


def power(x, y, dtype):
    """Of floats; a float64 is left to the C library, or to squaring if it is none."""
    if dtype.kind != "f":
        return integer_power(x, y, dtype)
    return pow32(x, y) if dtype == FLOAT32 else None


integer_power = scalar_forms["pow"]


def half_power(y):
    """x ** y for y = 1.5, -0.5 and the like, in a tenth of the instructions.

    In float64 nobody sees what each of them rounds; and -inf and -0.0 lose their sign.
    """

    def form(x, _, dtype):
        wide = x.to(FLOAT64)
        base = where(wide.is_(-INF), INF, wide) + 0.0
        result = base.apply("sqrt")
        for _ in range(int(abs(y))):
            result = result * base
        return (1.0 / result if y < 0 else result).to(dtype)

    return form


# Of a quotient up to here float64 has so many bits behind the point that it is rounded
# to a whole number only if it is one.
FAR = 2.0**28


def remainder(x, y, dtype):
    """Of float32: what the C library's fmod says, and it says it where the quotient is
    large, or none."""
    if dtype != FLOAT32:
        return integer_remainder(x, y, dtype)
    size, unit = abs(x).to(FLOAT64), abs(y).to(FLOAT64)
    ratio = size / unit
    rest = size - ratio.apply("floor") * unit
    near = (ratio < FAR) & (unit < INF)
    return rarely(~near, copysign(rest.to(FLOAT32), x), "rem", x, y)


integer_remainder = scalar_forms["rem"]


def erf32(x):
    """A quotient of two polynomials, up to where the result is 1."""
    x = limited(x, -3.92, 3.92)
    z = x * x
    result = x * (polynomial(z, *ERF_ABOVE32) / polynomial(z, *ERF_BELOW32))
    return limited(result, -1.0, 1.0)


def bessel32(x, n):
    """exp(-x) I_n(x) for x from 0: a quotient up to 8, then a polynomial in 1 / x."""
    above, below, tail = BESSEL32[n]
    small, large = limited(x, 0.0, 8.0), where(x < 8.0, 8.0, x)
    near = polynomial(small, *above) / polynomial(small, *below)
    near = small * near if n else near
    far = polynomial(1.0 / large, *tail) / large.apply("sqrt")
    return where(x < 8.0, near, far)


def erf_of_size(x):
    """The error function of x from 0 to 1."""
    return x * polynomial(x * x, *ERF)


def erfc_of_size(x):
    """1 - erf(x) for x from 0.5: exp(-x**2), with what rounding the square lost."""
    end, terms = (10.5, ERFC32) if x.dtype == FLOAT32 else (28.0, ERFC)
    x = limited(x, 0.5, end)
    square = x * x
    lost = fma(x, x, -square)
    e = (-square).apply("exp")
    factor = polynomial((x - 4.0) / (x + 4.0), *terms) / muladd(x, x.like(2.0), 1.0)
    return muladd(e * factor, -lost, e * factor)


def erf64(x):
    size = abs(x)
    result = where(size < 1.0, erf_of_size(size), 1.0 - erfc_of_size(size))
    return copysign(where(is_nan(x), x, result), x)


def erfc(x, dtype):
    size, z = abs(x), x * x
    tail = erfc_of_size(size)
    near = muladd(polynomial(z, *ERF32), x, x) if dtype == FLOAT32 else erf_of_size(x)
    near = 1.0 - near
    result = where(size < 0.5, near, where(x < 0.0, 2.0 - tail, tail))
    return where(is_nan(x), x, result)


def lgamma(x):
    """Steps of one to where a polynomial is; from 8 on Stirling's series; reflection.

    One division and one logarithm serve both.
    """
    size = abs(x)
    far = size >= 8.0
    z, product = size, x.like(1.0)
    for _ in range(6):
        above = (z >= 2.7) & ~far
        z = where(above, z - 1.0, z)
        product = where(above, product * z, product)
    below = z < 0.7
    logarithm = where(far, size, where(below, z, product)).apply("log")
    z = where(below, z + 1.0, z)
    ratio = where(far, 1.0, z - 1.375) / where(far, size, z + 1.375)
    near = polynomial(ratio, *LGAMMA) * ((z - 1.0) * (z - 2.0))
    near = near + where(below, -logarithm, logarithm)
    terms = 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12
    series = polynomial(ratio * ratio, *terms) * ratio + 0.5 * math.log(2 * math.pi)
    series = muladd(size - 0.5, logarithm - 1.0, series - 0.5)
    result = where(far, series, near)
    part = (x - x.apply("round_even")) * math.pi
    sine = [(-1) ** (n // 2) / math.factorial(n) for n in range(23, 0, -2)]
    sine = part * polynomial(part * part, *sine)
    mirrored = math.log(math.pi) - abs(x * sine).apply("log") - result
    result = where(x < 0.0, mirrored, result)
    pole = ((x <= 0.0) & x.apply("floor").is_(x)) | size.is_(INF)
    return where(pole, INF, result)


scalar_forms |= {name: half_power(y) for y, name in half_powers.items()}
scalar_forms |= {
    "exp2": exp2,
    "expm1": expm1,
    "log1p": by_dtype(log1p, log1p),
    "cosh": by_dtype(cosh, cosh),
    "sinh": by_dtype(sinh, sinh),
    "asinh": by_dtype(asinh, asinh),
    "acosh": by_dtype(acosh, acosh),
    "atanh": by_dtype(atanh, atanh),
    "cbrt": in_double(cbrt),
    "pow": power,
    "rem": remainder,
    "erf": by_dtype(erf32, erf64),
    "erfc": erfc,
    "bessel_i0e": by_dtype(lambda x: bessel32(abs(x), 0), lambda x: bessel(abs(x), 0)),
    "bessel_i1e": by_dtype(
        lambda x: copysign(bessel32(abs(x), 1), x),
        lambda x: copysign(bessel(abs(x), 1), x),
    ),
    # That of the C library is right near the zeros between negative whole numbers.
    "lgamma": by_dtype(lambda x: in_double(lgamma)(x, dtype=FLOAT32), lambda x: None),
}
