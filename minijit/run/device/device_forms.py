"""Functions of the C library in float64, for devices: in operations that they have.

    scalar_forms["device_pow"]          # as those of `vector_functions`

A CPU calls the C library for these: it is as good as arithmetic can be.  A device has
no C library.  The polynomials are interpolations at Chebyshev's nodes, made in 50
digits.  Errors are below four units in the last place; `lgamma` of negative numbers
has them as if its result were at least 1, for it has zeros there.
"""

import math

from ...compile.numbers.coefficients import LN2_HIGH, LN2_LOW
from ...compile.numbers.scalar_forms import (
    FLOAT64,
    copysign,
    fma,
    in_double,
    is_nan,
    limited,
    muladd,
    polynomial,
    scalar_forms,
    where,
)
from ...compile.numbers.vector_functions import special_power
from ...compile.numbers.vector_math import (
    INF,
    expm1_small,
    mantissa_and_exponent,
    reduced_exp,
    scaled,
    special_log,
)

# erf(x) / x in x**2, up to 1.
ERF = (
    -7.795898827002142e-10, 1.3720064546777686e-08, -1.6208483801871705e-07,
    1.6447424703317362e-06, -1.492473690741966e-05, 0.00012055294904839707,
    -0.0008548325975389692, 0.0052239776071164225, -0.02686617064323777,
    0.11283791670945006, -0.37612638903183543, 1.1283791670955126,
)  # fmt: skip
# exp(x**2) erfc(x) (1 + 2 x) in (x - 4) / (x + 4), from 0.5 to 28.
ERFC = (
    -9.455982939872743e-09, 7.389680444833914e-08, 5.941337955131871e-08,
    -7.811785785175153e-07, 3.0842678654442027e-07, 5.678446518677392e-06,
    -1.1230434994851926e-05, -2.4385454299846383e-05, 0.0001506247026512128,
    -0.000199260546967223, -0.0007577739752266992, 0.005031970657505758,
    -0.016197733962200932, 0.03716751546515809, -0.0663303658198799,
    0.09373283500259434, -0.10103906603599298, 0.06809705425457811,
    0.015379652102614858, -0.1396211168405616, 1.2329951186255526,
)  # fmt: skip
# log gamma(x) / (x - 1) / (x - 2) in (x - 1.375) / (x + 1.375), from 0.7 to 2.7.
LGAMMA = (
    -0.042734355123148875, 0.04170018900548105, -0.024765182640643247,
    0.024099803008624417, -0.03324593132511786, 0.032229691106729505,
    -0.03759016989377913, 0.03626100407572057, -0.04431437901592047, 0.0424555175142313,
    -0.05388308594216199, 0.05110282956972054, -0.0687474331630683, 0.06413162716698549,
    -0.09501881165669941, 0.0858550164516069, -0.15450486623046134, 0.1289529245980419,
    -0.44907267850537486, 0.5024224884952694,
)  # fmt: skip


def erf_of_size(x):
    """The error function of x from 0 to 1."""
    return x * polynomial(x * x, *ERF)


def erfc_of_size(x):
    """1 - erf(x) for x from 0.5: exp(-x**2), with what rounding the square lost."""
    x = limited(x, 0.5, 28.0)
    square = x * x
    lost = fma(x, x, -square)
    e = (-square).apply("exp")
    factor = polynomial((x - 4.0) / (x + 4.0), *ERFC) / muladd(x, x.like(2.0), 1.0)
    return muladd(e * factor, -lost, e * factor)


def erf(x):
    size = abs(x)
    result = where(size < 1.0, erf_of_size(size), 1.0 - erfc_of_size(size))
    return copysign(where(is_nan(x), x, result), x)


def erfc(x):
    size = abs(x)
    tail = erfc_of_size(size)
    near = 1.0 - x * polynomial(x * x, *ERF)
    result = where(size < 0.5, near, where(x < 0.0, 2.0 - tail, tail))
    return where(is_nan(x), x, result)


def stirling(z):
    """log gamma(z) for z from 10 on."""
    w = 1.0 / (z * z)
    terms = 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12
    series = polynomial(w, *terms) / z + 0.5 * math.log(2 * math.pi)
    return muladd(z - 0.5, z.apply("log") - 1.0, series - 0.5)


def lgamma(x):
    """Steps of one to where a polynomial is; from 10 on a series; reflection."""
    size = abs(x)
    z, product = size, x.like(1.0)
    for _ in range(8):
        above = (z >= 2.7) & (size < 10.0)
        z = where(above, z - 1.0, z)
        product = where(above, product * z, product)
    below = z < 0.7
    logarithm = where(below, z, product).apply("log")
    logarithm = where(below, -logarithm, logarithm)
    z = where(below, z + 1.0, z)
    near = polynomial((z - 1.375) / (z + 1.375), *LGAMMA) * ((z - 1.0) * (z - 2.0))
    result = where(size < 10.0, near + logarithm, stirling(size))
    part = (x - x.apply("round_even")) * math.pi
    mirrored = (math.pi / abs(x * part.apply("sin"))).apply("log") - result
    result = where(x < 0.0, mirrored, result)
    pole = ((x <= 0.0) & x.apply("floor").is_(x)) | size.is_(INF)
    return where(pole, INF, result)


def log_in_two(x):
    """(h, l) with log(x) = h + l, for x > 0: together 64 bits or more are right.

    By the series of atanh(q), q = (m - 1) / (m + 1), of which the first two terms are
    computed with what rounding loses.
    """
    m, e = mantissa_and_exponent(x)
    f, sum_ = m - 1.0, m + 1.0
    q = f / sum_
    q_low = (fma(-q, sum_, f) - q * (m - (sum_ - 1.0))) / sum_
    r = q * q
    r_low = fma(q, q, -r) + 2.0 * q * q_low
    t = r * q
    t_low = fma(r, q, -t) + (r * q_low + r_low * q)
    third = x.like(1 / 3)
    u = t * third
    # A third is 1.85e-17 more than its float.
    u_low = fma(t, third, -u) + (t * (1 / 3 / 2**54) + t_low * third)
    rest = t * r * polynomial(r, *(1 / (2 * n + 5) for n in range(10, -1, -1)))
    s = q + u
    s_low = ((q - s) + u) + (q_low + (u_low + rest))
    whole, double = e * LN2_HIGH[FLOAT64], s + s
    high = whole + double
    low = ((whole - high) + double) + (s_low + s_low + e * LN2_LOW[FLOAT64])
    return special_log(x, high), low


def power(x, y):
    """exp(y log |x|); the cases of the C standard."""
    size = abs(x)
    high, low = log_in_two(size)
    product = y * high
    lost = fma(y, high, -product) + y * low
    lost = where(abs(product) < 1000.0, lost, 0.0)
    k, r = reduced_exp(limited(product, -746.0, 710.0))
    result = scaled(expm1_small(r + lost) + 1.0, k)
    return special_power(x, y, result)


scalar_forms |= {
    f"device_{form.__name__}": in_double(form) for form in (erf, erfc, lgamma)
}
scalar_forms |= {"device_pow": in_double(power)}
# name -> how many arguments it has.
device_forms = dict(erf=1, erfc=1, lgamma=1, pow=2)
