"""Special functions in terms of exp, log and their like: no branch, no loop.

    scalar_form(op("logistic", x))                     # (x,), 1 / (exp(-x) + 1)

Those that the C library has are left to it: in float64, and for float32 rounded.
"""

import math

from .scalar_forms import (
    FLOAT32, FLOAT64, copysign, in_double, is_nan, limited, muladd, polynomial,
    scalar_forms, where,
)

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


def trigamma(x):
    """Reflection, then recurrence up to 10, and from there the asymptotic series.

    Abramowitz and Stegun, 6.4.7, 6.4.6 and 6.4.12; infinite at the poles 0, -1, ...
    """
    negative = x < 0.0
    z, total = where(negative, 1.0 - x, x), x.like(0.0)
    for _ in range(10):
        small = z < 10.0
        total = where(small, total + 1.0 / (z * z), total)
        z = where(small, z + 1.0, z)
    w = 1.0 / (z * z)
    terms = 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6
    result = total + (1.0 / z + w / 2.0 + w / z * polynomial(w, *terms))
    sine = ((x - x.apply("round_even")) * PI).apply("sin")
    result = where(negative, PI * PI / (sine * sine) - result, result)
    return where(x.is_(-INF), INF, result)


# Giles, "Approximating the erfinv function" (2012), double precision, as in XLA:
# one polynomial for each of three ranges of w = -log(1 - x^2), highest power first.
CENTRAL64 = (
    -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
    1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
    6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693, 1.6536545626831027356,
)  # fmt: skip

MIDDLE64 = (
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
    3.0838856104922207635,
)  # fmt: skip

TAIL64 = (
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
    2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
    7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977, 4.8499064014085844221,
)  # fmt: skip


def erf_inv64(x):
    """The inverse of erf: all three ranges, then a choice."""
    w = -((1.0 - x) * (x + 1.0)).apply("log")
    root = w.apply("sqrt")
    central = polynomial(w - 3.125, *CENTRAL64)
    middle = polynomial(root - 3.25, *MIDDLE64)
    tail = polynomial(root - 5.0, *TAIL64)
    factor = where(w < 6.25, central, where(w < 16.0, middle, tail))
    return where(abs(x).is_(1.0), x * INF, x * factor)


# Giles's polynomials in single precision, as in XLA, for two ranges of w.
CENTRAL32 = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
TAIL32 = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def erf_inv32(x):
    w = -((1.0 - x) * (x + 1.0)).apply("log")
    central = polynomial(w - 2.5, *CENTRAL32)
    tail = polynomial(w.apply("sqrt") - 3.0, *TAIL32)
    factor = where(w < 5.0, central, tail)
    return where(abs(x).is_(1.0), x * INF, x * factor)


def erf_inv(x, dtype):
    return erf_inv32(x) if dtype == FLOAT32 else erf_inv64(x)


# sqrt(x) exp(-x) times the Bessel function I0, or I1, in 24 / x - 1, from 12 on.
BESSEL = (
    (
        7.781813701957895e-14, 5.141634682609955e-13, 2.9244363727941333e-13,
        -2.4264173381335874e-12, -4.0843496759638406e-12, 7.795407615795011e-13,
        8.00950436085003e-12, 1.192205684602059e-11, 1.9119673209503433e-11,
        4.774608164296453e-11, 1.5609100930124313e-10, 6.481161201646666e-10,
        3.4434613603410047e-09, 2.3688428086420635e-08, 2.1716049995603082e-07,
        2.7977070193727124e-06, 5.598482533378034e-05, 0.002182168172116929,
        0.4010710650668474,
    ),
    (
        -8.979746185563769e-14, -5.382769736311917e-13, -2.4981842916687204e-13,
        2.574176502777145e-12, 4.154255136591194e-12, -9.725564417468879e-13,
        -8.414878010595835e-12, -1.2540061638175926e-11, -2.046268951651653e-11,
        -5.181617810430159e-11, -1.720015221928054e-10, -7.28232163985399e-10,
        -3.967583294642738e-09, -2.8253696498045836e-08, -2.7268454458098413e-07,
        -3.8279513554254895e-06, -9.124755355089437e-05, -0.006405453603482359,
        0.39262449420411655,
    ),
)  # fmt: skip


def bessel(x, n):
    """exp(-x) I_n(x) for x from 0 and n of 0 or 1: a series; from 12 on a polynomial.

    The series, Abramowitz and Stegun's 9.6.10, has terms of one sign.  It is corrected
    for what rounding the square lost, as the logarithm's slope is nearly x / (x + 1).
    """
    small, large = limited(x, 0.0, 12.0), where(x < 12.0, 12.0, x)
    square, fact = small * small, math.factorial
    # What rounding the square lost, by its factors' halves of 26 bits (Dekker, 1971).
    wide = small * (2.0**27 + 1.0)
    high = wide - (wide - small)
    low = small - high
    lost = ((high * high - square) + 2.0 * high * low) + low * low
    terms = (0.25**k / (fact(k) * fact(k + n)) for k in range(26, -1, -1))
    series = polynomial(square, *terms) * (-small).apply("exp")
    series = small * 0.5 * series if n else series
    lost = 0.5 * lost / (small + (1.0 + 2 * n))
    tail = polynomial(24.0 / large - 1.0, *BESSEL[n]) / large.apply("sqrt")
    result = where(x < 12.0, muladd(series, lost, series), tail)
    return where(is_nan(x), x, result)


scalar_forms |= {
    "logistic": logistic,
    "logaddexp": logaddexp,
    "erf": library("erf"),
    "erfc": library("erfc"),
    "lgamma": library("lgamma"),
    "digamma": in_double(digamma),
    "trigamma": in_double(trigamma),
    "bessel_i0e": in_double(lambda x: bessel(abs(x), 0)),
    "bessel_i1e": in_double(lambda x: copysign(bessel(abs(x), 1), x)),
    "erf_inv": erf_inv,
}
