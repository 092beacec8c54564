"""Rounding and bounds; and which numbers are finite, or come next.

    ceil(x), round(x), clamp(0.0, x, 1.0), reduce_precision(x, 5, 10)

Values are JAX's on a CPU also at the edges, as where halves are rounded.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.jaxprs.parser import param_types
from ..trace.primitives import adapt, all_weak, binary, of_one, on_wide, to_bool, unary
from ..trace.shape_checks import anything, check_kind, check_same_dtypes, real as reals
from ..trace.types import Array, ArrayLike
from ..transform.batching import vmap as batching
from ..transform.batching.vmap import batch_rules, lanes_at
from ..transform.derivatives import linearize
from ..transform.derivatives.linearize import add_tangents, linearize_rules, spread
from ..transform.derivatives.transpose import adding, transpose_rules

ceil_p, round_p = map(Primitive, ["ceil", "round"])
is_finite_p, nextafter_p = map(Primitive, ["is_finite", "nextafter"])
clamp_p = Primitive("clamp")
reduce_precision_p = Primitive("reduce_precision")

shape_rules |= unary(reals, ceil_p)
shape_rules |= unary(reals, is_finite_p, result=to_bool)
shape_rules |= binary(reals, nextafter_p)


eval_rules |= on_wide({ceil_p: np.ceil})
eval_rules |= on_numpy({is_finite_p: np.isfinite, nextafter_p: np.nextafter})

ceil = of_one(ceil_p, "The smallest whole number not below x, elementwise.")
is_finite = of_one(is_finite_p, "Whether x is neither infinite nor NaN, elementwise.")
nextafter = lax.documented(
    lambda x1, x2: nextafter_p.bind(*lax.adapt(x1, x2)),
    nextafter_p,
    "The float next to x1 in the direction of x2.",
)


class RoundingMethod(enum.IntEnum):
    """Where `round` takes what lies halfway between two whole numbers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round_value(x, *, rounding_method):
    """The nearest whole number."""
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    # Not floor(x + 0.5): for the float below 0.5 that sum rounds up to 1.
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x)


def round_shape(x, *, rounding_method):
    check_kind("round", x.dtype, reals)
    return x


def clamp_shape(low, x, high):
    for name, bound in [("min", low), ("max", high)]:
        if bound.shape not in ((), x.shape):
            raise TypeError(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), "
                f"got {name}.shape={bound.shape}, operand.shape={x.shape}."
            )
    check_kind("clamp", x.dtype, anything)
    check_same_dtypes("clamp", (low, x, high))
    return x.update(weak_type=all_weak((low, x, high)))


def reduce_precision_shape(x, *, exponent_bits, mantissa_bits):
    check_kind("reduce_precision", x.dtype, reals)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(
            "reduce_precision requires exponent_bits >= 1 and mantissa_bits >= 0, got "
            f"{exponent_bits} and {mantissa_bits}"
        )
    return x


def reduce_precision_value(x, *, exponent_bits, mantissa_bits):
    """Round the bits of x as a float with fewer of them would: halves to even.

    What the smaller exponent cannot hold becomes infinite, or zero: there are no
    subnormal numbers in the smaller format.
    """
    info = dtypes.finfo(x.dtype)
    bits = np.array(x, order="C").view(f"u{x.dtype.itemsize}")
    unit = bits.dtype.type
    if drop := max(0, info.nmant - mantissa_bits):
        half = unit((1 << drop - 1) - 1) + (bits >> unit(drop) & unit(1))
        bits = bits + half >> unit(drop) << unit(drop)
    sign = bits & unit(1 << info.bits - 1)
    if exponent_bits < info.nexp:
        exponent = (bits & ~unit(1 << info.bits - 1)) >> unit(info.nmant)
        middle, reach = (1 << info.nexp - 1) - 1, (1 << exponent_bits - 1) - 1
        infinite = unit(((1 << info.nexp) - 1) << info.nmant)
        bits = np.where(exponent > middle + reach, sign | infinite, bits)
        bits = np.where(exponent <= middle - reach, sign, bits)
    return np.where(np.isnan(x), x, bits.view(x.dtype))


shape_rules |= {
    round_p: round_shape,
    clamp_p: clamp_shape,
    reduce_precision_p: reduce_precision_shape,
}
eval_rules |= on_wide({round_p: round_value})
eval_rules |= on_wide({clamp_p: lambda a, x, b: np.minimum(np.maximum(x, a), b)})
eval_rules |= on_numpy({reduce_precision_p: reduce_precision_value})


def round(x: ArrayLike, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The whole number nearest to x, elementwise.

    Args:
      x: floats.
      rounding_method: a `RoundingMethod`, where halves go.
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, but at least `min` and then at most `max`, elementwise; NaN stays.

    The bounds are scalars or have the shape of x, and its dtype.
    """
    return clamp_p.bind(*adapt(min, x, max))


def reduce_precision(
    operand: ArrayLike, exponent_bits: int, mantissa_bits: int
) -> Array:
    """`operand` rounded to what a float of so many bits could hold, elementwise."""
    return reduce_precision_p.bind(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


linearize_rules |= linearize.constant(ceil_p, round_p, is_finite_p)
linearize_rules |= linearize.linear_in_first(reduce_precision_p)


def nextafter_linearize(nonzero, x, y):
    raise NotImplementedError("nextafter is not differentiable: it steps over bits")


def clamp_linearize(nonzero, low, x, high):
    """A tangent passes where its argument is the result; x only strictly inside."""
    y = clamp_p.bind(low, x, high)
    aval = aval_of(y)
    low, high = (spread(bound, aval) for bound in (low, high))
    chosen = [
        lax.bitwise_and(lax.gt(low, x), lax.lt(low, high)) if nonzero[0] else None,
        lax.bitwise_and(lax.gt(x, low), lax.lt(x, high)) if nonzero[1] else None,
        lax.lt(high, x) if nonzero[2] else None,
    ]

    def linear(*tangents):
        total = None
        for t, mask in zip(tangents, chosen, strict=True):
            if t is not None:
                part = lax.select(mask, spread(t, aval), lax.full_like(y, 0))
                total = add_tangents(total, part)
        return total

    return y, linear


linearize_rules |= {nextafter_p: nextafter_linearize, clamp_p: clamp_linearize}
transpose_rules |= adding({
    reduce_precision_p: lambda ct, x, **bits: (reduce_precision_p.bind(ct, **bits),),
})


def clamp_batch(lanes, axes, low, x, high):
    """Bounds that are scalars in each lane are stretched over it."""
    _, x_axis, _ = axes
    bounds = (low, axes[0]), (high, axes[2])
    if all(axis is None and aval_of(bound).ndim == 0 for bound, axis in bounds):
        return clamp_p.bind(low, x, high), x_axis
    x = lanes_at(x, x_axis, 0, lanes.size)
    shape = aval_of(x).shape
    bounds = [lanes_at(bound, axis, 0, lanes.size) for bound, axis in bounds]
    low, high = (
        lax.broadcast_in_dim(bound, shape, range(aval_of(bound).ndim))
        for bound in bounds
    )
    return clamp_p.bind(low, x, high), 0


batch_rules |= batching.elementwise(
    *(ceil_p, round_p, is_finite_p, nextafter_p, reduce_precision_p),
)
batch_rules |= {clamp_p: clamp_batch}
param_types |= {"RoundingMethod": RoundingMethod}
