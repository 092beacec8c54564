"""More scalar arithmetic: special functions, counts of bits, 16-bit floats.

As in `scalar_math`: plain Python on NumPy scalars, with a row in the table of
`numba_scalars` where numba is to be told more.
"""

import math

import numpy as np

from ..scalars.numba_scalars import call_llvm, first, instructions
from ..scalars.scalar_math import bits, functions, like, named, numbers, typed
from .emitter import call, operations
from .source_text import Text


def reading_bits(name):
    """The function that reads a scalar's bits as the dtype `name`."""

    def read(x):
        return bits(x, name)

    read.__name__ = read.__qualname__ = f"bits_{name}"
    return read


# Generated code imports them from here, each by its name.
readers = [*map(reading_bits, numbers)]
bits_int8, bits_int16, bits_int32, bits_int64 = readers[:4]
bits_uint8, bits_uint16, bits_uint32, bits_uint64 = readers[4:8]
bits_float32, bits_float64 = readers[8:]

functions |= named(*readers)


def emit_bits(context, builder, signature, values):
    """LLVM's bitcast: no instruction at all, or a move between register files."""
    return builder.bitcast(values[0], context.get_value_type(signature.return_type))


instructions |= {f"bits_{name}": (name, emit_bits) for name in numbers}


operations |= {"bitcast": lambda expr, x: Text(f"bits_{expr.dtype.name}({x})")}


def population_count(x):
    """How many bits of an integer are 1."""
    x = typed(x)
    return like(int(bits(x, f"u{x.itemsize}")).bit_count(), x)


def clz(x):
    """How many zero bits an integer begins with."""
    x = typed(x)
    return like(8 * x.itemsize - int(bits(x, f"u{x.itemsize}")).bit_length(), x)


def emit_population_count(context, builder, signature, values):
    """llvm.ctpop: one instruction."""
    x, = values
    return call_llvm(builder, "llvm.ctpop", [x.type], x.type, x)


def emit_clz(context, builder, signature, values):
    """llvm.ctlz, told that an argument 0 is meant to give the width."""
    from llvmlite import ir

    x, = values
    return call_llvm(builder, "llvm.ctlz", [x.type], x.type, x, ir.IntType(1)(0))


functions |= named(population_count, clz)
operations |= {name: call(name) for name in ("population_count", "clz")}
instructions |= {
    "population_count": (first, emit_population_count),
    "clz": (first, emit_clz),
}


def rsqrt(x):
    """1 / sqrt(x)."""
    return like(1.0, x) / np.sqrt(x)


def logistic(x):
    """1 / (1 + exp(-x)), the sigmoid."""
    return like(1.0, x) / (like(1.0, x) + np.exp(-x))


def round_away(x):
    """The nearest whole number; halves go away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(like(1.0, x), x) if abs(x - whole) >= 0.5 else whole


def erf(x):
    """The error function."""
    return like(math.erf(x), x)


def erfc(x):
    """1 - erf(x), without the cancellation."""
    return like(math.erfc(x), x)


def lgamma(x):
    """log |gamma(x)|; infinite at the poles 0, -1, -2, ... and at both infinities."""
    if (x <= 0 and x == np.floor(x)) or abs(x) == np.inf:
        return abs(like(np.inf, x))
    return like(math.lgamma(x), x)


def digamma(x):
    """The derivative of log gamma(x); NaN at its poles 0, -1, -2, ...

    Reflection, then recurrence up to x >= 10, then the asymptotic series (Abramowitz
    and Stegun, 6.3.18).
    """
    z = float(x)
    if z <= 0 and z == np.floor(z):
        return like(math.nan, x)
    total = 0.0
    if z < 0:
        total = -math.pi / math.tan(math.pi * (z - np.floor(z)))
        z = 1 - z
    while z < 10:
        total -= 1 / z
        z += 1
    w = 1 / (z * z)
    series = w * polynomial(digamma_series, w)
    return like(total + math.log(z) - 0.5 / z - series, x)


digamma_series = 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12


# Giles, "Approximating the erfinv function" (2012), double precision, as in XLA:
# one polynomial for each of three ranges of w = -log(1 - x^2), highest power first.
erf_inv_central = (
    -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
    1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
    6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693, 1.6536545626831027356,
)  # fmt: skip

erf_inv_middle = (
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
    3.0838856104922207635,
)  # fmt: skip

erf_inv_tail = (
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
    2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
    7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977, 4.8499064014085844221,
)  # fmt: skip


def polynomial(coefficients, w):
    """Horner's rule, highest power first."""
    total = 0.0
    for c in coefficients:
        total = total * w + c
    return total


def erf_inv(x):
    """The inverse of erf: infinite at -1 and 1, NaN outside."""
    z = float(x)
    if abs(z) == 1.0:
        return like(z * math.inf, x)
    if not abs(z) < 1.0:
        return like(math.nan, x)
    w = -math.log((1 - z) * (1 + z))
    if w < 6.25:
        return like(z * polynomial(erf_inv_central, w - 3.125), x)
    if w < 16:
        return like(z * polynomial(erf_inv_middle, math.sqrt(w) - 3.25), x)
    return like(z * polynomial(erf_inv_tail, math.sqrt(w) - 5), x)


def bessel(x, n):
    """exp(-x) times the Bessel function I_n(x), for x >= 0 and n of 0 or 1.

    A series of terms of one sign, and from 30 on the asymptotic one (Abramowitz and
    Stegun, 9.6.10 and 9.7.1).
    """
    if x < 30:
        total = term = math.exp(-x) * (0.5 * x if n else 1.0)
        k = 1
        while term > 1e-17 * total:
            term *= 0.25 * x * x / (k * (k + n))
            total += term
            k += 1
        return total
    total = term = 1.0
    for k in range(1, 30):
        term *= ((2 * k - 1) * (2 * k - 1) - 4 * n) / (8 * k * x)
        total += term
    return total / math.sqrt(2 * math.pi * x)


def bessel_i0e(x):
    """e**-|x| times the Bessel function I0."""
    return like(bessel(abs(float(x)), 0), x)


def bessel_i1e(x):
    """e**-|x| times the Bessel function I1."""
    return like(math.copysign(bessel(abs(float(x)), 1), x), x)


functions |= named(rsqrt, logistic, round_away)
functions |= named(erf, erfc, lgamma, digamma, polynomial, erf_inv)
functions |= named(bessel, bessel_i0e, bessel_i1e)
rest_names = "rsqrt logistic erf erfc erf_inv lgamma digamma".split()
rest_names += ["bessel_i0e", "bessel_i1e"]
operations |= {name: call(name) for name in rest_names}
operations |= {"round": call("round_away")}


# The 16-bit floats are stored as uint16 and computed with as float32: `..._value` is
# what a load does, `..._bits` a store, `round_...` what every operation ends with.
def bfloat16_value(stored):
    """The float32 whose upper half is `stored`."""
    return bits_float32(np.uint32(np.uint32(stored) << 16))


def bfloat16_bits(x):
    """The upper half of a float32, rounded to the nearest, halves to even."""
    pattern = bits_uint32(x)
    if x != x:
        return np.uint16(0x7FC0 | (pattern >> 16) & 0x8000)
    return np.uint16((pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16)


def round_bfloat16(x):
    """The float32 nearest to x among those that are bfloat16 values."""
    return bfloat16_value(bfloat16_bits(x))


# By its bits, for not each machine has instructions for it.
def float16_value(stored):
    """The float32 that equals the float16 with these bits: 5 bits of exponent to 8."""
    wide = np.uint32(stored)
    size = np.uint32((wide & 0x7FFF) << 13)
    pattern = np.uint32(bits_uint32(bits_float32(size) * np.float32(2.0**112)))
    # An exponent of all ones is one of all ones again.
    if wide & 0x7C00 == 0x7C00:
        pattern = np.uint32(size | 0x7F800000)
    return bits_float32(np.uint32(pattern | ((wide & 0x8000) << 16)))


def float16_bits(x):
    """The bits of the float16 nearest to a float32, halves to even."""
    pattern = bits_uint32(x)
    size, top = np.uint32(pattern & 0x7FFFFFFF), (pattern >> 16) & 0x8000
    if size > 0x7F800000:
        return np.uint16(top | 0x7E00 | ((size >> 13) & 0x3FF))
    if size >= 0x477FF000:
        return np.uint16(top | 0x7C00)
    if size < 0x38800000:
        # With 0.5 added, multiples of 2 ** -24, the smallest float16, are the low bits.
        small = bits_uint32(bits_float32(size) + np.float32(0.5)) - 0x3F000000
        return np.uint16(top | small)
    return np.uint16(top | ((size - 0x37FFF001 + ((size >> 13) & 1)) >> 13))


def round_float16(x):
    """The float32 nearest to x among those that are float16 values."""
    return float16_value(float16_bits(x))


functions |= named(bfloat16_value, bfloat16_bits, round_bfloat16)
functions |= named(float16_value, float16_bits, round_float16)
