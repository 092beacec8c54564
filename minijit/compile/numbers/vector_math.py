"""Vector mathematics: exp, log and tanh in operations that vectorise.

    scalar_form(op("exp", x))[1]        # multiplications, additions, bits; no branch

A call of the C library's `exp` in a loop keeps a compiler from doing eight elements at
a time.  A polynomial does not.  So every function here is straight arithmetic: reduce
the argument to a small range, evaluate a polynomial there, scale the result back, and
`where` an argument is special, choose what is right for it.

Those that matter most (exp, exp2, log, log1p, tanh, erf, sin, cos) are computed in the
dtype of their argument, which a sine of float32 reduces in float64.  Most others are
computed in float64, and for float32 they are rounded from there.
Errors are below two units in the last place, of tanh below three in float64, and as
XLA's, below six, in float32.  Below the smallest normal number exp is 0, and the
logarithm takes it for 0, as XLA's do.  More functions are in `vector_waves` and
`vector_functions`, all coefficients in `coefficients`.
"""

import math

import numpy as np

from .coefficients import (
    EXP, EXP_RANGE, EXPM1, LN2_HIGH, LN2_LOW, LOG32, LOG64, TANH_ABOVE32,
    TANH_BELOW32,
)
from .scalar_forms import (
    FLOAT32, FLOAT64, copysign, limited, muladd, polynomial, scalar_forms, where,
)

LN2 = math.log(2.0)
INF, NAN = math.inf, math.nan

# From here on the hyperbolic tangent is 1, rounded; of the quotient in float32, too.
TANH_END = {FLOAT32: 9.4, FLOAT64: 19.1}


def tanh(x, dtype):
    """t / (t + 2) for t = exp(2 |x|) - 1 = 2**k (exp(r) - 1) + (2**k - 1); in float32 a
    quotient of two polynomials, in a third of the instructions."""
    end = TANH_END[dtype]
    if dtype == FLOAT32:
        x = limited(x, -end, end)
        z = x * x
        ratio = polynomial(z, *TANH_ABOVE32) / polynomial(z, *TANH_BELOW32)
        return limited(x * ratio, -1.0, 1.0)
    size = limited(abs(x), 0.0, end)
    k = whole_part((size + size) * (1 / LN2))
    scale = power_of_two(k)
    t = muladd(expm1_small(less_ln2(size + size, k), EXPM1), scale, scale - 1.0)
    return copysign(t / (t + 2.0), x)


# chapter 24

# Adding this number to a smaller one rounds that to a whole number, and leaves it in
# the low bits of the sum.
MAGIC = {FLOAT32: 1.5 * 2.0**23, FLOAT64: 1.5 * 2.0**52}
WORD = {FLOAT32: np.dtype("uint32"), FLOAT64: np.dtype("uint64")}
MANTISSA = {FLOAT32: 23, FLOAT64: 52}
BIAS = {FLOAT32: 127, FLOAT64: 1023}


def whole_part(x):
    """The whole number nearest to x, which is not large."""
    return (x + MAGIC[x.dtype]) - MAGIC[x.dtype]


def less_ln2(x, k):
    """r with x = k ln 2 + r, for a whole k."""
    r = muladd(k, k.like(-LN2_HIGH[x.dtype]), x)
    return muladd(k, k.like(-LN2_LOW[x.dtype]), r)


def expm1_small(r, terms=EXP):
    """exp(r) - 1 for an r from 0 to ln 2."""
    return muladd(r * r, polynomial(r, *terms[r.dtype]), r)


def power_of_two(k):
    """2 ** k for a whole k: 0 and infinity for those just beyond a normal number's."""
    shifted = k + (MAGIC[k.dtype] + BIAS[k.dtype])
    return (shifted.bits(WORD[k.dtype]) << MANTISSA[k.dtype]).bits(k.dtype)


def exp(x, dtype):
    """exp(r) * 2**k, where exp(r) is from 1 to 2; below the normal numbers it is 0."""
    x = limited(x, *EXP_RANGE[dtype])
    k = whole_part(muladd(x, x.like(1 / LN2), -0.5))
    return (expm1_small(less_ln2(x, k)) + 1.0) * power_of_two(k)


scalar_forms |= {"exp": exp, "tanh": tanh}


# chapter 24, brought along
def by_dtype(in_float32, in_float64):
    """A form with one body for each dtype."""
    bodies = {FLOAT32: in_float32, FLOAT64: in_float64}
    return lambda *args, dtype: bodies[dtype](*args)


# The bits of sqrt(1/2), rounded up; a mantissa is taken from there to twice as much.
ROOT_HALF = {FLOAT32: 0x3F3504F3, FLOAT64: 0x3FE6A09E00000000}
ONE = {FLOAT32: 0x3F800000, FLOAT64: 0x3FF0000000000000}


def mantissa_and_exponent(x):
    """(m, e) with x = m * 2**e, m between sqrt(1/2) and sqrt(2), for a normal x > 0."""
    dtype = x.dtype
    word, width, start = WORD[dtype], MANTISSA[dtype], ROOT_HALF[dtype]
    pattern = x.bits(word) + (ONE[dtype] - start)
    m = ((pattern & ((1 << width) - 1)) + start).bits(dtype)
    # The exponent's bits, with those of MAGIC above them, are a float.
    whole = x.like(2.0**width).bits(word)
    e = ((pattern >> width) | whole).bits(dtype) - (2.0**width + BIAS[dtype])
    return m, e


def special_log(x, result):
    """The logarithm of what is below the normal numbers, of infinity and of NaN."""
    below = where(x < 0.0, NAN, x.like(-INF))
    result = where(x < float(np.finfo(x.dtype).tiny), below, result)
    return where(x < INF, result, x)


def log32(x):
    m, e = mantissa_and_exponent(x)
    f = m - 1.0
    z = f * f
    y = f * polynomial(f, *LOG32) * z
    y = muladd(e, e.like(LN2_LOW[FLOAT32]), y)
    y = muladd(z, z.like(-0.5), y)
    return special_log(x, muladd(e, e.like(LN2_HIGH[FLOAT32]), f + y))


def log64(x):
    m, e = mantissa_and_exponent(x)
    f = m - 1.0
    s, half = f / (f + 2.0), f * f * 0.5
    z = s * s
    r = muladd(s, half + z * polynomial(z, *LOG64), e * LN2_LOW[FLOAT64])
    result = e * LN2_HIGH[FLOAT64] - ((half - r) - f)
    return special_log(x, result)


scalar_forms |= {"log": by_dtype(log32, log64)}
