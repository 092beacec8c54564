"""Trigonometry in operations that vectorise: as `vector_math`.

    scalar_form(op("sin", x))           # (x,), rare_sin(abs(x) > 2**30, ..., x)

An argument is reduced to at most a quarter of pi by three parts of pi; beyond 2**30
that is not enough, and the C library's function is called, in a branch.
"""

from .coefficients import (
    ARCS, ASIN_DOWN, ASIN_UP, ATAN, COS32, COS64, HALF_PI, SIN32, SIN64,
)
from .scalar_forms import (
    FLOAT32, FLOAT64, copysign, fma, in_double, is_nan, muladd, polynomial, rarely,
    scalar_forms, where,
)
from .special_forms import PI
from .vector_math import MAGIC, by_dtype


def quadrant(x):
    """x = k pi/2 + r + tail, for a float64 x below 2**30: -> (k's bits, r, tail)."""
    first, second, third = (x.like(-part) for part in HALF_PI)
    k = x * (2 / PI) + MAGIC[FLOAT64]
    n, k = k.bits("uint64"), k - MAGIC[FLOAT64]
    rest = fma(k, first, x)
    # What the second step rounds away: of the product, and of the sum.
    product = k * second
    lost = fma(k, second, -product)
    r = rest + product
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
