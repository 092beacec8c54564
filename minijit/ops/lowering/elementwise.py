"""How scalar operations become loops: elementary functions, bits, rounding."""

import numpy as np

from ...compile.loops.expressions import Const, op
from ...compile.loops.scalars import is_half
from ...compile.lower.calls import call_eval
from ...compile.lower.elements import affine, compute, one_operation, widen
from ...compile.lower.walk import Elements, Statements, lower_rules
from ...compile.pipeline import row_choosers
from ...compile.simplify import folding as simplify
from ...trace.dtypes import finfo
from ..bits import bitcast_convert_type_p, counts, shifts
from ..complex_numbers import complex_p, conj_p, imag_p, real_p
from ..elementary import (
    atan2_p, cbrt_p, curves, exp2_p, expm1_p, log1p_p, logistic_p, rsqrt_p, square_p,
    tan_p,
)
from ..narrow_dtypes import narrow
from ..rounding import (
    ceil_p, clamp_p, is_finite_p, nextafter_p, reduce_precision_p, round_p,
)
from ..special import scalar


def word_of(dtype):
    """The unsigned integer dtype of a dtype's width."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def shift_right(bits, distance):
    """Unsigned bits moved to the right by a known distance or an expression."""
    if isinstance(distance, int):
        distance = Const(distance, bits.dtype)
    return op("shift_right_logical", bits, distance)


def bitcast_lower(out, index, x, *, new_dtype):
    """The same bits; a wider element is made of parts, the lowest ones first."""
    old, new = x.dtype, new_dtype
    if old.itemsize == new.itemsize:
        return x[index] if old == new else op("bitcast", x[index], dtype=new)
    wide = word_of(max(old, new, key=lambda dtype: dtype.itemsize))
    width = 8 * min(old.itemsize, new.itemsize)
    if old.itemsize > new.itemsize:
        distance = op("convert", affine(index[-1], width, 0), dtype=wide)
        part = shift_right(op("bitcast", x[index[:-1]], dtype=wide), distance)
        return op("bitcast", op("convert", part, dtype=word_of(new)), dtype=new)
    whole = Const(0, wide)
    for i in range(x.shape[-1]):
        part = op("bitcast", x[(*index, i)], dtype=word_of(old))
        part = op("convert", part, dtype=wide)
        part = op("shift_left", part, Const(i * width, wide))
        whole = op("or", whole, part)
    return op("bitcast", whole, dtype=new)


lower_rules |= {p: one_operation(p.name) for p in (*shifts, *counts)}
lower_rules |= {bitcast_convert_type_p: Elements(bitcast_lower)}


def neutral_shift(s, out, x, y):
    """x << 0 and x >> 0 are x."""
    return x if simplify.holds(s, y, 0) else None


simplify.elementwise |= {*shifts}
simplify.rules |= {p: [neutral_shift] for p in shifts}


# ---- complex numbers


def conj_lower(out, index, x, *, input_dtype):
    z = op("convert", x[index], dtype=out.dtype)
    return z if input_dtype.kind != "c" else op("conj", z)


lower_rules |= {p: one_operation(p.name, 0) for p in (real_p, imag_p, complex_p)}
lower_rules |= {conj_p: Elements(conj_lower)}


def part_put_in(s, z, i):
    """The real or the imaginary part of a number put together from parts."""
    eqn = s.maker(z, complex_p)
    return eqn and eqn.invars[i]


def part_of_conj(s, z):
    """The conjugate of a conjugate."""
    eqn = s.maker(z, conj_p)
    return eqn and eqn.invars[0]


simplify.rules |= {
    real_p: [lambda s, out, z: part_put_in(s, z, 0)],
    imag_p: [lambda s, out, z: part_put_in(s, z, 1)],
    conj_p: [lambda s, out, z, **params: part_of_conj(s, z)],
}


# ---- elementary and special functions


times = lambda out, i, x: compute("mul", x[i], x[i], dtype=out.dtype)
lower_rules |= {p: one_operation(p.name, 20) for p in (*curves, atan2_p, cbrt_p)}
lower_rules |= {rsqrt_p: one_operation("rsqrt", 4), square_p: Elements(times)}
simplify.elementwise |= {exp2_p, expm1_p, log1p_p, tan_p, logistic_p, rsqrt_p, square_p}
lower_rules |= {p: one_operation(p.name, 20) for p in scalar}


# ---- rounding and bounds


def clamp_lower(out, index, low, x, high):
    least = compute("max", x[index], low.spread(index), dtype=out.dtype)
    return compute("min", least, high.spread(index), dtype=out.dtype)


def round_lower(out, index, x, *, rounding_method):
    name = "round_even" if rounding_method else "round"
    return compute(name, x[index], dtype=out.dtype)


def reduce_precision_lower(out, index, x, *, exponent_bits, mantissa_bits):
    """Integer operations on the bits of x: round the mantissa, clip the exponent."""
    info, word = finfo(out.dtype), word_of(out.dtype)
    bits = op("bitcast", x[index], dtype=word)

    def const(value):
        return Const(value, word)

    if drop := max(0, info.nmant - mantissa_bits):
        odd = op("and", shift_right(bits, drop), const(1))
        half = op("add", odd, const((1 << drop - 1) - 1))
        kept = const((1 << info.bits) - (1 << drop))
        bits = op("and", op("add", bits, half), kept)
    sign_bit = 1 << info.bits - 1
    if exponent_bits < info.nexp:
        sign = op("and", bits, const(sign_bit))
        exponent = shift_right(op("and", bits, const(sign_bit - 1)), info.nmant)
        middle, reach = (1 << info.nexp - 1) - 1, (1 << exponent_bits - 1) - 1
        infinite = op("or", sign, const(((1 << info.nexp) - 1) << info.nmant))
        too_large = op("gt", exponent, const(middle + reach))
        too_small = op("le", exponent, const(middle - reach))
        bits = op("select", too_large, infinite, bits)
        bits = op("select", too_small, sign, bits)
    is_nan = op("ne", widen(x[index]), widen(x[index]))
    return op("select", is_nan, x[index], op("bitcast", bits, dtype=out.dtype))


lower_rules |= {p: one_operation(p.name) for p in (ceil_p, is_finite_p, nextafter_p)}
lower_rules |= {
    clamp_p: Elements(clamp_lower, 2),
    round_p: Elements(round_lower),
    reduce_precision_p: Elements(reduce_precision_lower, 6),
}


def half_nextafter(eqn):
    """The neighbour of a 16-bit float is none of float32's."""
    if eqn.primitive is nextafter_p and is_half(eqn.outvars[0].aval.dtype):
        reason = "the neighbour of a 16-bit float"
        return Statements(lambda walk, eqn: call_eval(walk, eqn, reason))
    return None


row_choosers |= {"half_nextafter": half_nextafter}


# ---- dtypes of 8 bits and fewer


stored = {scalar.dtype for scalar in narrow.values()}


def on_narrow(eqn):
    """The row of an equation with numbers of such a dtype, or None."""
    if stored.isdisjoint(atom.aval.dtype for atom in (*eqn.invars, *eqn.outvars)):
        return None
    reason = "numbers of 8 bits and fewer are left to NumPy"
    return Statements(lambda walk, eqn: call_eval(walk, eqn, reason))


row_choosers |= {"on_narrow": on_narrow}
