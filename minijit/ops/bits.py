"""The bits of numbers: shifts, counts, and one dtype's bits read as another's.

    shift_left(array(1), array(40))                    # 0: all bits fall out
    bitcast_convert_type(array(1.0), "int32")          # 1065353216: the same bits
"""

from __future__ import annotations

import numpy as np

from ..trace import dtypes
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.primitives import (
    binary, bitwise_and, broadcast_in_dim, convert, of_one, of_two, reduce_or, unary,
)
from ..trace.shape_checks import complexes, integer, is_kind
from ..trace.types import Array, ArrayLike, DTypeLike
from ..transform.batching import vmap as batching
from ..transform.batching.vmap import batch_rules, in_front
from ..transform.derivatives import linearize
from ..transform.derivatives.linearize import linearize_rules

shift_left_p = Primitive("shift_left")
shift_right_logical_p = Primitive("shift_right_logical")
shift_right_arithmetic_p = Primitive("shift_right_arithmetic")
population_count_p, clz_p = map(Primitive, ["population_count", "clz"])

shifts = shift_left_p, shift_right_logical_p, shift_right_arithmetic_p
counts = population_count_p, clz_p
shape_rules |= binary(integer, *shifts) | unary(integer, *counts)


def unsigned(x):
    """The bits of an integer array as an unsigned one."""
    return x.view(f"u{x.dtype.itemsize}")


def of_fewer_bits(value):
    """`value` of integers, also of those with less bits than a byte.

    They are computed with in the upper bits of one, where their sign is its sign.
    """

    def of_any(x, *distance):
        if x.dtype.kind != "V":
            return value(x, *distance)
        width, signed = bits_of(x.dtype), dtypes.issubdtype(x.dtype, np.signedinteger)
        byte = np.dtype(np.int8 if signed else np.uint8)
        upper = x.astype(byte) << byte.type(8 - width)
        y = value(upper, *(d.astype(byte) for d in distance))
        y = y >> byte.type(8 - width) if distance else np.minimum(y, width)
        return y.astype(x.dtype)

    return of_any


def shift_within(shift, beyond):
    """A shift that is `beyond(x)` where its distance is negative or past the width."""

    def value(x, distance):
        width = 8 * x.dtype.itemsize
        distance = unsigned(distance)
        inside = distance < width
        moved = shift(x, np.where(inside, distance, 0).astype(x.dtype))
        return np.where(inside, moved, beyond(x))

    return value


def shift_right_signed(x, distance):
    """x >> distance with copies of the first bit coming in, of unsigned x as well."""
    signed = f"i{x.dtype.itemsize}"
    return (x.view(signed) >> distance.view(signed)).view(x.dtype)


def sign_bits(x):
    """All bits set where the first bit of x is, else none."""
    return -(x.view(f"i{x.dtype.itemsize}") < 0).astype(x.dtype)


def count_leading_zeros(x):
    """How many zeros stand before the first one of the bits of x."""
    bits, width = unsigned(x), 8 * x.dtype.itemsize
    distance = 1
    while distance < width:
        # Afterwards all bits below the first one are ones too.
        bits = bits | bits >> bits.dtype.type(distance)
        distance *= 2
    return width - np.bitwise_count(bits)


values = {
    shift_left_p: shift_within(np.left_shift, np.zeros_like),
    shift_right_logical_p: shift_within(
        lambda x, y: (unsigned(x) >> unsigned(y)).view(x.dtype), np.zeros_like
    ),
    shift_right_arithmetic_p: shift_within(shift_right_signed, sign_bits),
    population_count_p: lambda x: np.bitwise_count(unsigned(x)),
    clz_p: count_leading_zeros,
}
eval_rules |= on_numpy({p: of_fewer_bits(value) for p, value in values.items()})

shift_left = of_two(shift_left_p, "x << y, elementwise; 0 for y past the width.")
shift_right_logical = of_two(
    shift_right_logical_p, "x >> y with zeros coming in, elementwise."
)
shift_right_arithmetic = of_two(
    shift_right_arithmetic_p, "x >> y with copies of the sign coming in, elementwise."
)
population_count = of_one(population_count_p, "How many bits of x are 1, elementwise.")
clz = of_one(clz_p, "How many zeros lead the bits of x, elementwise.")


bitcast_convert_type_p = Primitive("bitcast_convert_type")


def bitcast_shape(x, *, new_dtype):
    """The shape rule of `bitcast_convert_type`: the last axis is split or joined."""
    old, new = x.dtype, new_dtype
    if old != new and (is_kind(old, opaque) or is_kind(new, opaque)):
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless "
            "the operand and destination types match. Got operand dtype="
            f"{old}, new_dtype={new}."
        )
    ratio = new.itemsize // old.itemsize
    if new.itemsize < old.itemsize:
        shape = (*x.shape, old.itemsize // new.itemsize)
    elif ratio == 1:
        shape = x.shape
    elif x.shape[-1:] == (ratio,):
        shape = x.shape[:-1]
    else:
        raise ValueError(
            f"Attempting to convert array of shape {x.shape} from {old} to {new}: its "
            f"last axis must have size {ratio}, one for each part of a {new}"
        )
    return x.update(shape=shape, dtype=new, weak_type=False)


opaque = (np.bool_, *complexes, dtypes.extended)


def bitcast_value(x, *, new_dtype):
    """The same bytes, in the machine's own order (little-endian, as JAX's)."""
    x = np.array(x, order="C")
    if new_dtype.itemsize < x.dtype.itemsize:
        return x[..., None].view(new_dtype)
    joined = x.view(new_dtype)
    return joined if new_dtype.itemsize == x.dtype.itemsize else joined[..., 0]


shape_rules |= {bitcast_convert_type_p: bitcast_shape}
eval_rules |= on_numpy({bitcast_convert_type_p: bitcast_value})


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The bits of `operand` read as another dtype.

    A narrower dtype adds a last axis, that splits each element; a wider one takes the
    last axis, whose elements it joins.
    """
    new_dtype = dtypes.user_dtype(new_dtype, "bitcast_convert_type")
    aval = aval_of(operand)
    if not (is_kind(aval.dtype, opaque) or is_kind(new_dtype, opaque)):
        old, new = bits_of(aval.dtype), bits_of(new_dtype)
        if min(old, new) < 8 and old != new:
            return bitcast_of_parts(operand, new_dtype, old, new)
    return bitcast_convert_type_p.bind(operand, new_dtype=new_dtype)


def bits_of(dtype):
    """How many bits an element of a dtype has: 4 for int4, 8 for bool."""
    if dtype.kind == "V" and not dtypes.issubdtype(dtype, dtypes.extended):
        is_float = dtypes.issubdtype(dtype, np.floating)
        return (dtypes.finfo if is_float else dtypes.iinfo)(dtype).bits
    return 8 * dtype.itemsize


def bitcast_of_parts(x, new_dtype, old, new):
    """`bitcast_convert_type` where an element has less bits than a byte.

    Such elements lie in bytes of their own here, so that numbers are joined and split
    by arithmetic: a part of `k` bits that comes i-th counts 2**(k * i).
    """
    word, part = np.dtype(f"uint{max(old, new, 8)}"), min(old, new)
    whole = dtypes.user_dtype(f"uint{old}", "bitcast_convert_type")
    x = convert(bitcast_convert_type_p.bind(x, new_dtype=whole), word)
    distances = np.arange(max(old, new) // part) * part
    if old > new:
        x = broadcast_in_dim(x, (*x.shape, distances.size), range(x.ndim))
        x = shift_right_logical(x, np.broadcast_to(distances, x.shape).astype(word))
        x = bitwise_and(x, np.full(x.shape, 2**part - 1, word))
    elif x.shape[-1:] == distances.shape:
        x = shift_left(x, np.broadcast_to(distances, x.shape).astype(word))
        x = reduce_or(x, (x.ndim - 1,))
    else:
        raise ValueError(
            f"Attempting to convert array of shape {x.shape} from {old} bits to {new}: "
            f"its last axis must have size {distances.size}, one for each part"
        )
    unsigned_new = dtypes.user_dtype(f"uint{new}", "bitcast_convert_type")
    return bitcast_convert_type_p.bind(convert(x, unsigned_new), new_dtype=new_dtype)


linearize_rules |= linearize.constant(*shifts, *counts, bitcast_convert_type_p)


# The last axis may be split or joined.
batch_rules |= batching.elementwise(*shifts, *counts) | in_front(bitcast_convert_type_p)
