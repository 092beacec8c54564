"""Vector mathematics: exp, log, sin and their like in operations that vectorise.

    scalar_form(op("exp", x))[1]        # multiplications, additions, bits; no branch

A call of the C library's `exp` in a loop keeps a compiler from doing eight elements at
a time.  A polynomial does not.  So every function here is straight arithmetic: reduce
the argument to a small range, evaluate a polynomial there, scale the result back, and
`where` an argument is special, choose what is right for it.

The ones that matter most (exp, log, tanh, erf, sin, cos) are written twice, in float32
and in float64; the others in float64, and for float32 they are rounded from there.
Errors are below two units in the last place.  Sources: `fdlibm` (Sun Microsystems,
1993) for the polynomials in float64 if nothing else is said, `Cephes` (Moshier) for
those in float32.
"""

import math

import numpy as np

from .scalar_forms import (
    FLOAT32,
    FLOAT64,
    copysign,
    fma,
    is_nan,
    muladd,
    rarely,
    scalar_forms,
    where,
)

LN2, PI = math.log(2.0), math.pi
INF, NAN = math.inf, math.nan


def polynomial(x, *coefficients):
    """Horner's rule, the highest power first."""
    total = x.like(coefficients[0])
    for c in coefficients[1:]:
        total = muladd(total, x, c)
    return total


def limited(x, low, high):
    """x within low..high; a NaN stays one."""
    return where(x < low, low, where(x > high, high, x))


def by_dtype(in_float32, in_float64):
    """A form with one body for each dtype."""
    bodies = {FLOAT32: in_float32, FLOAT64: in_float64}
    return lambda *args, dtype: bodies[dtype](*args)


def in_double(body):
    """A form that computes in float64, whatever its dtype is."""

    def form(*args, dtype):
        return body(*(x.to(FLOAT64) for x in args)).to(dtype)

    return form


# Adding this number to a smaller one rounds that to a whole number, and leaves it in
# the low bits of the sum.
MAGIC = {FLOAT32: 1.5 * 2.0**23, FLOAT64: 1.5 * 2.0**52}
WORD = {FLOAT32: np.dtype("uint32"), FLOAT64: np.dtype("uint64")}
MANTISSA = {FLOAT32: 23, FLOAT64: 52}
BIAS = {FLOAT32: 127, FLOAT64: 1023}


def power_of_two(k):
    """2 ** k for a whole k that a normal number can have as its exponent."""
    shifted = k + (MAGIC[k.dtype] + BIAS[k.dtype])
    return (shifted.bits(WORD[k.dtype]) << MANTISSA[k.dtype]).bits(k.dtype)


def scaled(x, k):
    """x * 2 ** k, in two steps: either alone could overflow, or round too early."""
    half = (k * 0.5).apply("floor")
    return x * power_of_two(half) * power_of_two(k - half)


def whole_part(x):
    """The whole number nearest to x, which is not large."""
    return (x + MAGIC[x.dtype]) - MAGIC[x.dtype]


# ln 2 in two parts; the first has so few bits that its multiples are exact.
LN2_HIGH = {FLOAT32: 0.693359375, FLOAT64: 6.93147180369123816490e-01}
LN2_LOW = {FLOAT32: -2.12194440e-4, FLOAT64: 1.90821492927058770002e-10}

EXP = {
    FLOAT32: (
        1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
        1.6666665459e-1, 5.0000001201e-1,
    ),
    # Taylor's: up to half of ln 2 these are enough.
    FLOAT64: tuple(1 / math.factorial(n) for n in range(13, 1, -1)),
}  # fmt: skip


def reduced_exp(x):
    """(k, r) with x = k ln 2 + r, where r is at most half of ln 2."""
    k = whole_part(x * (1 / LN2))
    r = muladd(k, k.like(-LN2_HIGH[x.dtype]), x)
    return k, muladd(k, k.like(-LN2_LOW[x.dtype]), r)


def expm1_small(r):
    """exp(r) - 1 for an r of at most half of ln 2."""
    return muladd(r * r, polynomial(r, *EXP[r.dtype]), r)


# Beyond these limits the result is 0, or infinite.
EXP_RANGE = {FLOAT32: (-104.0, 89.0), FLOAT64: (-746.0, 710.0)}


def exp(x, dtype):
    k, r = reduced_exp(limited(x, *EXP_RANGE[dtype]))
    return scaled(expm1_small(r) + 1.0, k)


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


scalar_forms |= {"exp": exp, "exp2": exp2, "expm1": expm1}


# The bits of sqrt(1/2), rounded up; a mantissa is taken from there to twice as much.
ROOT_HALF = {FLOAT32: 0x3F3504F3, FLOAT64: 0x3FE6A09E00000000}
ONE = {FLOAT32: 0x3F800000, FLOAT64: 0x3FF0000000000000}


def mantissa_and_exponent(x):
    """(m, e) with x = m * 2**e and m between sqrt(1/2) and sqrt(2), for x > 0."""
    dtype = x.dtype
    word, width, start = WORD[dtype], MANTISSA[dtype], ROOT_HALF[dtype]
    tiny = x < float(np.finfo(dtype).tiny)
    pattern = where(tiny, x * 2.0 ** (width + 2), x).bits(word)
    pattern = pattern + (ONE[dtype] - start)
    m = ((pattern & ((1 << width) - 1)) + start).bits(dtype)
    # The exponent's bits, with those of MAGIC above them, are a float.
    whole = x.like(2.0**width).bits(word)
    e = ((pattern >> width) | whole).bits(dtype) - (2.0**width + BIAS[dtype])
    return m, where(tiny, e - (width + 2.0), e)


def special_log(x, result):
    """The logarithm of 0, of negative numbers, of infinity and NaN."""
    result = where(x.is_(0.0), -INF, where(x < 0.0, NAN, result))
    return where(x < INF, result, x)


LOG32 = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
    1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
    3.3333331174e-1,
)  # fmt: skip


def log32(x):
    m, e = mantissa_and_exponent(x)
    f = m - 1.0
    z = f * f
    y = f * polynomial(f, *LOG32) * z
    y = muladd(e, e.like(LN2_LOW[FLOAT32]), y)
    y = muladd(z, z.like(-0.5), y)
    return special_log(x, muladd(e, e.like(LN2_HIGH[FLOAT32]), f + y))


LOG64 = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
    2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
    6.666666666666735130e-01,
)  # fmt: skip


def log64(x):
    m, e = mantissa_and_exponent(x)
    f = m - 1.0
    s, half = f / (f + 2.0), f * f * 0.5
    z = s * s
    r = muladd(s, half + z * polynomial(z, *LOG64), e * LN2_LOW[FLOAT64])
    result = e * LN2_HIGH[FLOAT64] - ((half - r) - f)
    return special_log(x, result)


def log1p(x):
    """log(u) for u = 1 + x as rounded, and what that rounding lost."""
    u = x + 1.0
    lost = where(abs(x) < 1.0, x - (u - 1.0), 1.0 - (u - x))
    result = u.apply("log") + lost / u
    result = where((u.is_(0.0)) | (u.is_(INF)), u.apply("log"), result)
    return where(x.is_(0.0), x, result)


def logaddexp(x, y, dtype):
    high, low = where(x > y, x, y), where(x > y, y, x)
    result = high + (low - high).apply("exp").apply("log1p")
    # Equal ones may be infinite.
    result = where(x.is_(y), x + LN2, result)
    return where(is_nan(x) | is_nan(y), x + y, result)


scalar_forms |= {
    "log": by_dtype(log32, log64),
    "log1p": in_double(log1p),
    "logaddexp": logaddexp,
}


# Hyperbolic functions.


TANH32 = (
    -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
    -3.33332819422e-1,
)  # fmt: skip


def tanh32(x):
    size = abs(x)
    large = 1.0 - 2.0 / ((size + size).apply("exp") + 1.0)
    z = x * x
    small = muladd(z * polynomial(z, *TANH32), x, x)
    return copysign(where(size < 0.625, small, large), x)


def tanh64(x):
    size = abs(x)
    t = (size * -2.0).apply("expm1")
    ratio = where(size < 1.0, -t, (t + 1.0) * 2.0) / (t + 2.0)
    return copysign(where(size < 1.0, ratio, 1.0 - ratio), x)


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


def logistic(x, dtype):
    return 1.0 / ((-x).apply("exp") + 1.0)


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


scalar_forms |= {
    "tanh": by_dtype(tanh32, tanh64),
    "cosh": in_double(cosh),
    "sinh": in_double(sinh),
    "logistic": logistic,
    "asinh": in_double(asinh),
    "acosh": in_double(acosh),
    "atanh": in_double(atanh),
}


# Trigonometry.  Half of pi in three parts, of 53 bits each.
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)

SIN32 = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS32 = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
SIN64 = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08,
    2.75573137070700676789e-06, -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
)  # fmt: skip
COS64 = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09,
    -2.75573143513906633035e-07, 2.48015872894767294178e-05,
    -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip


def quadrant(x):
    """x = k pi/2 + r + tail, for a float64 x below 2**30: -> (k's bits, r, tail)."""
    first, second, third = (x.like(-part) for part in HALF_PI)
    k = x * (2 / PI) + MAGIC[FLOAT64]
    n, k = k.bits("uint64"), k - MAGIC[FLOAT64]
    rest = fma(k, first, x)
    r = fma(k, second, rest)
    # What the second step rounded away: of the product, and of the sum.
    product = k * second
    lost = fma(k, second, -product)
    other = r - rest
    error = (rest - (r - other)) + (product - other)
    return n, r, fma(k, third, lost + error)


def sin_small(r, tail):
    """sin(r + tail) for an r of at most pi/4."""
    z = r * r
    v = z * r
    q = polynomial(z, *SIN64)
    return r - (muladd(z, tail * 0.5 - v * q, -tail) - v * -1.66666666666666324348e-01)


def cos_small(r, tail):
    z = r * r
    half = z * 0.5
    w = 1.0 - half
    return w + (((1.0 - w) - half) + muladd(z * z, polynomial(z, *COS64), -(r * tail)))


def sin_of_quadrant(n, sin_r, cos_r):
    """The sine of k pi/2 + r, from sine and cosine of r and the low bits of k."""
    value = where((n & 1).is_not(0), cos_r, sin_r)
    flip = (n & 2) << (8 * n.dtype.itemsize - 2)
    return (value.bits(n.dtype) ^ flip).bits(value.dtype)


def wave64(x, quarters):
    n, r, tail = quadrant(x)
    return sin_of_quadrant(n + quarters, sin_small(r, tail), cos_small(r, tail))


def wave32(x, quarters):
    """The reduction in float64, for nothing may cancel there; the rest in float32."""
    n, r, _ = quadrant(x.to(FLOAT64))
    r = r.to(FLOAT32)
    z = r * r
    sin_r = muladd(r * z, polynomial(z, *SIN32), r)
    cos_r = muladd(z * z, polynomial(z, *COS32), muladd(z, z.like(-0.5), z.like(1.0)))
    result = sin_of_quadrant(n.to("uint32") + quarters, sin_r, cos_r)
    # Of the two zeros, its own.
    return result if quarters else where(x.is_(0.0), x, result)


def tan64(x):
    n, r, tail = quadrant(x)
    sin_r, cos_r = sin_small(r, tail), cos_small(r, tail)
    odd = (n & 1).is_not(0)
    return where(odd, -cos_r, sin_r) / where(odd, sin_r, cos_r)


# From here on three parts of pi are not enough.
FAR = 2.0**30


def exact_if_far(function, near):
    """A form that leaves arguments beyond `FAR` to the C library."""
    return lambda x: rarely(abs(x) > FAR, near(x), function, x)


def wave(function, quarters):
    """The form of a sine moved by some quarters of a turn."""
    near = (lambda x: wave32(x, quarters)), (lambda x: wave64(x, quarters))
    return by_dtype(*(exact_if_far(function, body) for body in near))


scalar_forms |= {
    "sin": wave("sin", 0),
    "cos": wave("cos", 1),
    "tan": in_double(exact_if_far("tan", tan64)),
}


ATAN = (
    1.62858201153657823623e-02, -3.65315727442169155270e-02, 4.97687799461593236017e-02,
    -5.83357013379057348645e-02, 6.66107313738753120669e-02,
    -7.69187620504482999495e-02, 9.09088713343650656196e-02,
    -1.11111104054623557880e-01, 1.42857142725034663711e-01,
    -1.99999999998764832476e-01, 3.33333333333329318027e-01,
)  # fmt: skip

# From a limit on: c in (x - c) / (1 + c x), and its arc in two parts.
ARCS = (
    (7 / 16, 0.5, 4.63647609000806093515e-01, 2.26987774529616870924e-17),
    (11 / 16, 1.0, 7.85398163397448278999e-01, 3.06161699786838301793e-17),
    (19 / 16, 1.5, 9.82793723247329054082e-01, 1.39033110312309984516e-17),
)


def atan_of_size(x):
    """atan(x) for x >= 0."""
    up, down = x, x.like(1.0)
    high = low = x.like(0.0)
    for limit, c, arc, rest in ARCS:
        here = x >= limit
        up, down = where(here, x - c, up), where(here, muladd(x, x.like(c), 1.0), down)
        high, low = where(here, arc, high), where(here, rest, low)
    large = x >= 39 / 16
    up, down = where(large, -1.0, up), where(large, x, down)
    high, low = where(large, HALF_PI[0], high), where(large, HALF_PI[1], low)
    t = up / down
    z = t * t
    return high - ((t * z * polynomial(z, *ATAN) - low) - t)


def atan(x):
    return copysign(atan_of_size(abs(x)), x)


def atan2(y, x):
    """The angle of the point (x, y), from -pi to pi; of the origin as of (±1, ±0)."""
    across, up = abs(x), abs(y)
    ratio = where(up.is_(across), 1.0, up / across)
    angle = where(up.is_(0.0) & across.is_(0.0), 0.0, atan_of_size(ratio))
    left = copysign(x.like(1.0), x) < 0.0
    angle = where(left, PI - (angle - 2 * HALF_PI[1]), angle)
    return copysign(where(is_nan(x), x, angle), y)


ASIN_UP = (
    3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02,
    2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01,
)  # fmt: skip
ASIN_DOWN = (
    7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e+00,
    -2.40339491173441421878e+00, 1.0,
)  # fmt: skip


def asin_ratio(z):
    """(asin(x) - x) / x for z = x * x up to 1/4."""
    return z * polynomial(z, *ASIN_UP) / polynomial(z, *ASIN_DOWN)


def half_angle(x):
    """Of 1 - x: (its half z, the root of z in two parts), for x of 0.5 to 1."""
    z = (1.0 - x) * 0.5
    s = z.apply("sqrt")
    f = (s.bits("uint64") & 0xFFFFFFFF00000000).bits(FLOAT64)
    return z, s, f, where(s.is_(0.0), 0.0, (z - f * f) / (s + f))


def asin(x):
    size = abs(x)
    z, s, f, c = half_angle(size)
    rest = s * asin_ratio(z) * 2.0 - (HALF_PI[1] - c * 2.0)
    large = PI / 4 - (rest - (PI / 4 - f * 2.0))
    return where(size < 0.5, muladd(x, asin_ratio(x * x), x), copysign(large, x))


def acos(x):
    z, s, f, c = half_angle(abs(x))
    ratio = asin_ratio(z)
    right = (f + muladd(ratio, s, c)) * 2.0
    left = (HALF_PI[0] - (s + (ratio * s - HALF_PI[1]))) * 2.0
    middle = HALF_PI[0] - (x - (HALF_PI[1] - x * asin_ratio(x * x)))
    return where(abs(x) < 0.5, middle, where(x < 0.0, left, right))


scalar_forms |= {
    "atan": in_double(atan),
    "atan2": in_double(atan2),
    "asin": in_double(asin),
    "acos": in_double(acos),
}


# Powers and roots.


CBRT = (
    0.145996192886612446982, -0.758397934778766047437, 1.621429720105354466140,
    -1.88497979543377169875, 1.87595182427177009643,
)  # fmt: skip


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
    """exp(y log |x|) in float64; the cases of the C standard."""
    base, y = x.to(FLOAT64), y.to(FLOAT64)
    size = abs(base)
    result = (y * size.apply("log")).apply("exp")
    result = where(size.is_(1.0) | y.is_(0.0), 1.0, result)
    whole = y.apply("round_even").is_(y)
    half = y * 0.5
    odd = whole & half.apply("round_even").is_not(half)
    negative = copysign(x.like(1.0), x) < 0.0
    result = where(negative & odd, -result, result)
    finite = (base < 0.0) & (base > -INF)
    result = where(finite & ~whole, NAN, result)
    one = base.is_(1.0) | y.is_(0.0)
    return where(one, 1.0, where(is_nan(base) | is_nan(y), NAN, result)).to(FLOAT32)


def power(x, y, dtype):
    """Of floats; a float64 is left to the C library, or to squaring if it is none."""
    if dtype.kind != "f":
        return integer_power(x, y, dtype)
    return pow32(x, y) if dtype == FLOAT32 else x.apply("libm_pow", y)


integer_power = scalar_forms["pow"]
scalar_forms |= {"cbrt": in_double(cbrt), "pow": power}


# The error function and its like.


def erf32(x):
    """Two polynomials, the second in the exponent (N. Juffa's, 2015)."""
    size, z = abs(x), x * x
    small = polynomial(
        z, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
        -3.76125336e-1, 1.28379166e-1,
    )  # fmt: skip
    t = limited(size, 0.0, 10.0)
    r = muladd(t, t.like(-1.72853470e-5), 3.83197126e-4)
    u = muladd(t, t.like(-3.88396438e-3), 2.42546219e-2)
    r = muladd(r, t * t, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = muladd(r, t, c)
    large = 1.0 - muladd(r, t, -t).apply("exp")
    return where(size > 0.927734375, copysign(large, x), muladd(small, x, x))


def library(name):
    """A form that calls a function of the C library, in float64."""
    return in_double(lambda *args: args[0].apply(f"libm_{name}", *args[1:]))


def lgamma(x):
    """log |gamma(x)|; infinite at the poles 0, -1, -2, ... and at both infinities."""
    pole = (x <= 0.0) & x.apply("floor").is_(x)
    infinite = abs(x).is_(INF)
    safe = where(pole | infinite, 1.0, x)
    return where(pole | infinite, INF, safe.apply("libm_lgamma"))


def digamma(x):
    """Reflection, recurrence up to 10, then the asymptotic series.

    Abramowitz and Stegun, 6.3.7, 6.3.5 and 6.3.18; NaN at the poles 0, -1, -2, ...
    """
    negative = x < 0.0
    z, total = where(negative, 1.0 - x, x), x.like(0.0)
    part = (x - x.apply("round_even")) * PI
    for _ in range(10):
        below = z < 10.0
        total = where(below, total - 1.0 / z, total)
        z = where(below, z + 1.0, z)
    w = 1.0 / (z * z)
    series = w * polynomial(w, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
    result = total + z.apply("log") - 0.5 / z - series
    result = where(negative, result - PI / part.apply("tan"), result)
    return where((x <= 0.0) & x.apply("floor").is_(x), NAN, result)


scalar_forms |= {
    "erf": by_dtype(erf32, lambda x: x.apply("libm_erf")),
    "erfc": library("erfc"),
    "lgamma": in_double(lgamma),
    "digamma": in_double(digamma),
}
