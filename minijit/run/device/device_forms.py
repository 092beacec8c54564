"""Functions of the C library in float64, for devices: in operations that they have.

    scalar_forms["device_pow"]          # as those of `vector_functions`

A CPU calls the C library for these: it is as good as arithmetic can be.  A device has
no C library.  Errors are below four units in the last place; `lgamma` of negative
numbers has them as if its result were at least 1, for it has zeros there.
"""

from ...compile.numbers.coefficients import LN2_HIGH, LN2_LOW
from ...compile.numbers.scalar_forms import (
    FLOAT64, fma, in_double, limited, polynomial, scalar_forms, where,
)
from ...compile.numbers.vector_functions import lgamma, special_power
from ...compile.numbers.vector_math import (
    expm1_small, mantissa_and_exponent, reduced_exp, scaled, special_log,
)


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


scalar_forms |= {"device_lgamma": in_double(lgamma), "device_pow": in_double(power)}
# name -> how many arguments it has.
device_forms = dict(lgamma=1, pow=2)
