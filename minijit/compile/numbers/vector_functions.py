"""More functions in operations that vectorise: as `vector_math`.

    scalar_form(op("cbrt", x))          # a third of the exponent, a polynomial, a step
"""

import math

from .coefficients import CBRT, ERF32, EXP_RANGE
from .scalar_forms import (
    FLOAT32,
    FLOAT64,
    copysign,
    in_double,
    is_nan,
    limited,
    muladd,
    polynomial,
    scalar_forms,
    where,
)
from .vector_math import (
    INF,
    LN2,
    NAN,
    by_dtype,
    expm1_small,
    power_of_two,
    reduced_exp,
    scaled,
    whole_part,
)


def exp2(x, dtype):
    low, high = EXP_RANGE[dtype]
    x = limited(x, low / LN2, high / LN2)
    k = whole_part(x)
    return scaled(expm1_small((x - k) * LN2) + 1.0, k)


def expm1(x, dtype):
    """2**k (exp(r) - 1) + (2**k - 1): nothing cancels; exp(x) if that is large."""
    wide = limited(x.to(FLOAT64), -50.0, 100.0)
    k, r = reduced_exp(wide)
    scale = power_of_two(k)
    result = muladd(expm1_small(r), scale, scale - 1.0).to(dtype)
    if dtype == FLOAT64:
        result = where(x > 50.0, x.apply("exp"), result)
    return where(x.is_(0.0), x, result)


def log1p(x):
    """log(u) for u = 1 + x as rounded, and what that rounding lost."""
    u = x + 1.0
    lost = where(abs(x) < 1.0, x - (u - 1.0), 1.0 - (u - x))
    result = u.apply("log") + lost / u
    result = where((u.is_(0.0)) | (u.is_(INF)), u.apply("log"), result)
    return where(x.is_(0.0), x, result)


def half_exp(x):
    """exp(x) / 2, which overflows later than exp."""
    k, r = reduced_exp(limited(x, -740.0, 720.0))
    return scaled(expm1_small(r) + 1.0, k - 1.0)


def cosh(x):
    e = half_exp(abs(x))
    return e + 0.25 / e


def sinh(x):
    """Taylor's polynomial where the two exponentials would cancel."""
    e, z = half_exp(abs(x)), x * x
    series = [1 / math.factorial(n) for n in range(19, 1, -2)]
    small = muladd(z * polynomial(z, *series), x, x)
    return where(abs(x) < 1.0, small, copysign(e - 0.25 / e, x))


def asinh(x):
    size = abs(x)
    square = size * size
    small = (size + square / ((square + 1.0).apply("sqrt") + 1.0)).apply("log1p")
    large = size.apply("log") + LN2
    return where(x.is_(0.0), x, copysign(where(size > 1e8, large, small), x))


def acosh(x):
    t = x - 1.0
    near = (t + (t * t + t * 2.0).apply("sqrt")).apply("log1p")
    result = where(x > 1e8, x.apply("log") + LN2, near)
    return where(x < 1.0, NAN, result)


def atanh(x):
    size = abs(x)
    twice = size + size
    small = twice + twice * size / (1.0 - size)
    ratio = where(size < 0.5, small, twice / (1.0 - size))
    return where(x.is_(0.0), x, copysign(ratio.apply("log1p") * 0.5, x))


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


def erf32(x):
    """Two polynomials, the second in the exponent."""
    size, z = abs(x), x * x
    small = polynomial(z, *ERF32)
    t = limited(size, 0.0, 10.0)
    r = muladd(t, t.like(-1.72853470e-5), 3.83197126e-4)
    u = muladd(t, t.like(-3.88396438e-3), 2.42546219e-2)
    r = muladd(r, t * t, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = muladd(r, t, c)
    large = 1.0 - muladd(r, t, -t).apply("exp")
    return where(size > 0.927734375, copysign(large, x), muladd(small, x, x))


scalar_forms |= {
    "exp2": exp2,
    "expm1": expm1,
    "log1p": by_dtype(log1p, log1p),
    "cosh": in_double(cosh),
    "sinh": in_double(sinh),
    "asinh": in_double(asinh),
    "acosh": in_double(acosh),
    "atanh": in_double(atanh),
    "cbrt": in_double(cbrt),
    "pow": power,
    "erf": by_dtype(erf32, lambda x: None),
}
