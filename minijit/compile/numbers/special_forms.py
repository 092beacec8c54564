"""Special functions in terms of exp, log and their like: no branch, no loop.

    scalar_form(op("logistic", x))                     # (x,), 1 / (exp(-x) + 1)

Those that the C library has are left to it: in float64, and for float32 rounded.
"""

import math

from .scalar_forms import FLOAT64, in_double, is_nan, polynomial, scalar_forms, where

LN2, PI, INF, NAN = math.log(2.0), math.pi, math.inf, math.nan


def library(name):
    """A form that leaves a function to the C library, in float64."""
    return lambda x, dtype: (
        None if dtype == FLOAT64 else x.to(FLOAT64).apply(name).to(dtype)
    )


def logistic(x, dtype):
    return 1.0 / ((-x).apply("exp") + 1.0)


def logaddexp(x, y, dtype):
    high, low = where(x > y, x, y), where(x > y, y, x)
    result = high + (low - high).apply("exp").apply("log1p")
    # Equal ones may be infinite.
    result = where(x.is_(y), x + LN2, result)
    return where(is_nan(x) | is_nan(y), x + y, result)


# What `digamma` is from 1 to 2, divided by the distance from its root, less a mean:
# a quotient of polynomials in x - 1, fitted at Chebyshev's nodes; highest powers first.
DIGAMMA_ABOVE = (
    -0.002035819357349022, -0.044806877631320866, -0.28779348140672556,
    -0.6494116097171447, -0.32616797522047924, 0.25479851061131553,
)  # fmt: skip
DIGAMMA_BELOW = (
    -5.351344099578249e-07, 0.0020915583530410307, 0.05357103482514063,
    0.43324354903999995, 1.4560522263441509, 2.074287577714884, 1.0,
)  # fmt: skip
DIGAMMA_MEAN = 0.99558162689208984
# The root, less 1, in three parts.
ROOT = 495673741 / 2**30, 381566830 / 2**60, 0.9016312093258695918615e-19


def digamma(x):
    """Reflection, then recurrence down to 1 to 2, or the asymptotic series from 10.

    Abramowitz and Stegun, 6.3.7, 6.3.5 and 6.3.18; NaN at the poles 0, -1, -2, ...
    From 1 to 2 a quotient, times the distance from the root there. Near a negative
    root the two sides of the reflection cancel, so both have to be right to their last
    digits: what is taken from x here, whole numbers and a half, leaves no rest.
    """
    negative, small = x < 0.0, (x >= 0.0) & (x < 1.0)
    less_1 = where(negative, -x, where(small, x, x - 1.0))
    z = less_1 + 1.0
    w = 1.0 / (z * z)
    terms = 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12
    series = z.apply("log") - 0.5 / z - w * polynomial(w, *terms)
    total = x.like(0.0)
    for _ in range(8):
        above = less_1 > 1.0
        total = where(above, total + 1.0 / less_1, total)
        less_1 = where(above, less_1 - 1.0, less_1)
    near = polynomial(less_1, *DIGAMMA_ABOVE) / polynomial(less_1, *DIGAMMA_BELOW)
    near = (near + DIGAMMA_MEAN) * (((less_1 - ROOT[0]) - ROOT[1]) - ROOT[2])
    result = where(z < 10.0, total + near, series)
    part = x - x.apply("round_even")
    size = part.apply("abs")
    slope = (where(size > 0.25, 0.5 - size, size) * PI).apply("tan")
    cotangent = where(size > 0.25, slope, 1.0 / slope)
    reflected = PI * where(part < 0.0, -cotangent, cotangent)
    result = where(negative, result - reflected, result)
    result = where(small, result - 1.0 / x, result)
    return where((x <= 0.0) & x.apply("floor").is_(x), NAN, result)


scalar_forms |= {
    "logistic": logistic,
    "logaddexp": logaddexp,
    "erf": library("erf"),
    "erfc": library("erfc"),
    "lgamma": library("lgamma"),
    "digamma": in_double(digamma),
}
