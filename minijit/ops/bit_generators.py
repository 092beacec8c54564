"""Random bits as XLA generates them: of a state, which moves on.

    state, bits = rng_bit_generator(jnp.array([1, 2, 3, 4], "uint32"), (2, 3))

A state is 128 bits: a key, then a count, 64 bits each.  The bits are the hashes of
count, count + 1, ... by the key, and the new state is where the count has arrived.
The hash is threefry2x32 (two words each) or, by default, philox4x32 (four words each).
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.array import ShapedArray, aval_of, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.slicing import index_in_dim
from ..trace.types import Array, ArrayLike, DTypeLike
from ..transform.batching.vmap import batch_rules, move_axis
from ..transform.derivatives.linearize import constant, linearize_rules
from . import bits as bit_ops
from .host_calls import io_callback
from .prng import (
    UINT32, PRNGImpl, add_prng, threefry2x32_p, threefry_fold_in, threefry_seed,
    threefry_split, word,
)

rng_bit_generator_p = Primitive("rng_bit_generator", multiple_results=True)

UINT64 = np.dtype("uint64")
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85


class RandomAlgorithm(enum.IntEnum):
    """The hash of `rng_bit_generator`.  JAX: `jax.lax.RandomAlgorithm`."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    __str__ = enum.Enum.__str__


def low_and_high(x):
    """The two words of numbers: u64[...] -> both halves, u32[...]."""
    high = bit_ops.shift_right_logical(x, lax.full_like(x, 32))
    return lax.convert(x, UINT32), lax.convert(high, UINT32)


def joined(low, high):
    """The number that two words make: u32[...] twice -> u64[...]."""
    high = lax.convert(high, UINT64)
    high = bit_ops.shift_left(high, lax.full_like(high, 32))
    return lax.bitwise_or(lax.convert(low, UINT64), high)


def product(x, number):
    """Both words of the product of words and a number: the lower one, the higher."""
    x = lax.convert(x, UINT64)
    return low_and_high(lax.mul(x, lax.full_like(x, number)))


def philox4x32(key, count):
    """Two words of a key and four of a count -> four words: u32 arrays of one shape.

    Ten rounds of products whose halves change places (Salmon et al., 2011).
    """
    a, b, c, d = count
    for i in range(10):
        (low_a, high_a), (low_c, high_c) = map(product, (a, c), MULTIPLIERS)
        first, second = (
            lax.add(k, lax.full_like(k, step * i % 2**32))
            for k, step in zip(key, STEPS, strict=True)
        )
        a = lax.bitwise_xor(lax.bitwise_xor(high_c, b), first)
        c = lax.bitwise_xor(lax.bitwise_xor(high_a, d), second)
        b, d = low_c, low_a
    return a, b, c, d


def side_by_side(parts, axis):
    """Arrays of one shape, whose elements take turns along an axis."""
    shape = list(parts[0].shape)
    whole = lax.concatenate([lax.expand_dims(x, (axis + 1,)) for x in parts], axis + 1)
    shape[axis] *= len(parts)
    return lax.reshape(whole, tuple(shape))


def counts_from(start, size):
    """start, start + 1, ...: u64[size]."""
    first = lax.broadcast_in_dim(start, (size,), ())
    # Fewer than 2 ** 32 of them fit into memory.
    return lax.add(first, lax.convert(lax.iota(UINT32, size), UINT64))


def philox_bits(words, shape, dtype):
    """-> (how far the count has moved, bits): four words after the other.

    The count of the hash has 128 bits: the state's count, and above it the key.
    """
    wide = dtype == UINT64
    size = math.prod(shape)
    steps = -(-size // (2 if wide else 4))
    start, key = joined(words[2], words[3]), joined(words[0], words[1])
    count = counts_from(start, steps)
    over = lax.lt(count, lax.broadcast_in_dim(start, (steps,), ()))
    above = lax.broadcast_in_dim(key, (steps,), ())
    above = lax.add(above, lax.convert(over, UINT64))
    keys = [lax.broadcast_in_dim(k, (steps,), ()) for k in words[:2]]
    parts = philox4x32(keys, (*low_and_high(count), *low_and_high(above)))
    if wide:
        parts = joined(*parts[:2]), joined(*parts[2:])
    flat = lax.slice(side_by_side(parts, 0), (0,), (size,))
    return steps, lax.reshape(lax.convert(flat, dtype), shape)


def threefry_bits(words, shape, dtype):
    """-> (how far the count has moved, bits).

    Both words of a hash stand side by side on the first even axis, or on the longest.
    """
    wide = dtype == UINT64
    half, axis = list(shape), 0
    if shape and not wide:
        even = (i for i, n in enumerate(shape) if n % 2 == 0)
        axis = next(even, shape.index(max(shape)))
        half[axis] = -(-shape[axis] // 2)
    steps = math.prod(half)
    count = counts_from(joined(words[2], words[3]), steps)
    hashes = threefry2x32_p.bind(words[0], words[1], *low_and_high(count))
    parts = [lax.reshape(word(hashes, i), tuple(half)) for i in (0, 1)]
    if wide:
        return steps, joined(*parts)
    bits = parts[0]
    if shape:
        bits = side_by_side(parts, axis)
        bits = lax.slice(bits, (0,) * len(shape), shape)
    return steps, lax.convert(bits, dtype)


def generate(state, *, shape, dtype, algorithm):
    """-> [the new state, bits]: what `rng_bit_generator` means, in other primitives."""
    words = [index_in_dim(state, i, 0, keepdims=False) for i in range(4)]
    fry = algorithm == RandomAlgorithm.RNG_THREE_FRY
    steps, bits = (threefry_bits if fry else philox_bits)(words, shape, dtype)
    count = joined(words[2], words[3])
    count = lax.add(count, lax.full_like(count, steps))
    new = [*words[:2], *low_and_high(count)]
    return [lax.concatenate([lax.reshape(x, (1,)) for x in new], 0), bits]


def generator_batch(lanes, axes, states, *, shape, dtype, algorithm):
    """All lanes' bits are drawn from the first lane's state, as in JAX."""
    states = move_axis(states, axes[0], 0)
    params = dict(shape=(lanes.size, *shape), dtype=dtype, algorithm=algorithm)
    first = index_in_dim(states, 0, 0, keepdims=False)
    new, bits = rng_bit_generator_p.bind(first, **params)
    rest = lax.slice(states, (1, 0), states.shape)
    return [lax.concatenate([lax.expand_dims(new, (0,)), rest], 0), bits], [0, 0]


shape_rules |= {rng_bit_generator_p: lambda state, *, shape, dtype, algorithm: (
    [state, ShapedArray(shape, dtype)]
)}  # fmt: skip
eval_rules |= {rng_bit_generator_p: generate}
linearize_rules |= constant(rng_bit_generator_p)
batch_rules |= {rng_bit_generator_p: generator_batch}


def rng_bit_generator(
    key: ArrayLike, shape: int | Sequence[int], dtype: DTypeLike = np.uint32,
    algorithm: Any = RandomAlgorithm.RNG_DEFAULT, *, out_sharding: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    """-> (the new state, random bits) of a state.  JAX: `jax.lax.rng_bit_generator`.

    Args:
      key: the state, u32[4] or u64[2].
      shape, dtype: of the bits; unsigned integers of 8 to 64 bits.
      algorithm: the default is Philox, as in XLA on a CPU.
      out_sharding: one device has one placement: it changes nothing.

    Raises TypeError for another dtype, or a state that is none.
    """
    dtype = dtypes.user_dtype(dtype, "rng_bit_generator")
    if dtype.kind != "u" or dtype.itemsize not in (1, 2, 4, 8):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dtype}")
    aval = aval_of(key)
    if (aval.shape, aval.dtype) not in (((4,), UINT32), ((2,), UINT64)):
        raise TypeError(
            f"rng_bit_generator: the key must be u32[4] or u64[2], got {aval}"
        )
    state = key
    if aval.dtype == UINT64:
        state = bit_ops.bitcast_convert_type_p.bind(key, new_dtype=UINT32)
        state = lax.reshape(state, (4,))
    params = dict(shape=tuple(shape), dtype=dtype, algorithm=RandomAlgorithm(algorithm))
    new, bits = rng_bit_generator_p.bind(state, **params)
    if aval.dtype == UINT64:
        new = lax.reshape(new, (2, 2))
        new = bit_ops.bitcast_convert_type_p.bind(new, new_dtype=UINT64)
    return new, bits


@functools.cache
def generator():
    """What `rng_uniform` draws from: each call moves it on.

    NumPy imports its random numbers then, which takes a quarter as long as all that
    comes with `lax`.
    """
    return np.random.Generator(np.random.Philox(0))


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: int | Sequence[int]) -> Array:
    """Numbers from [a, b), other ones with each call.  JAX: `jax.lax.rng_uniform`.

    Args:
      a, b: scalars of one dtype, of floats or integers.

    Raises ValueError for two dtypes, or for what is no scalar.
    """
    first, second = aval_of(a), aval_of(b)
    if first.dtype != second.dtype:
        raise ValueError(
            "Arguments to rng_uniform must have identical dtypes, got "
            f"{first.dtype} and {second.dtype}."
        )
    if first.shape != () or second.shape != ():
        raise ValueError(
            "Arguments to rng_uniform must be scalars; got shapes "
            f"{first.shape} and {second.shape}."
        )
    dtype = first.dtype

    def draw(a, b):
        if dtype.kind in "iu":
            return generator().integers(a, b, shape, dtype)
        found = generator().random(shape, np.float64) * (np.float64(b) - a) + a
        found = np.asarray(found, dtype)
        # Rounding can reach b, which is no result.
        return np.minimum(found, np.nextafter(np.asarray(b, dtype), a))

    return io_callback(draw, ShapedArray(tuple(shape), dtype), a, b)


# ---- Keys that use it: "rbg", and "unsafe_rbg", whose new keys are such bits, too


def halves(key):
    """Two keys of threefry2x32 out of one of four words."""
    return lax.slice(key, (0,), (2,)), lax.slice(key, (2,), (4,))


def rbg_seed(value):
    """The words of threefry2x32, twice."""
    half = threefry_seed(value)
    return lax.concatenate([half, half], 0)


def rbg_split(key, shape):
    """New keys, whose halves are threefry2x32's of the halves."""
    both = [threefry_split(half, shape) for half in halves(key)]
    return lax.concatenate(both, len(shape))


def rbg_fold_in(key, value):
    return lax.concatenate([threefry_fold_in(half, value) for half in halves(key)], 0)


def rbg_bits(key, width, shape):
    """Random bits in unsigned integers of `width` bits: 8, 16, 32 or 64."""
    if width not in (8, 16, 32, 64):
        raise TypeError("requires 8-, 16-, 32- or 64-bit field width.")
    return rng_bit_generator(key, shape, np.dtype(f"uint{width}"))[1]


def unsafe_rbg_split(key, shape):
    """Each tenth of the generator's next rows is a key."""
    _, rows = rng_bit_generator(key, (10 * math.prod(shape), 4))
    rows = lax.slice(rows, (0, 0), rows.shape, (10, 1))
    return lax.reshape(rows, (*shape, 4))


def unsafe_rbg_fold_in(key, value):
    _, rows = rng_bit_generator(rbg_seed(value), (10, 4))
    return lax.bitwise_xor(key, index_in_dim(rows, 9, 0, keepdims=False))


rbg_prng_impl = PRNGImpl((4,), rbg_seed, rbg_split, rbg_bits, rbg_fold_in, "rbg", "rbg")
unsafe_rbg_prng_impl = PRNGImpl(
    (4,), rbg_seed, unsafe_rbg_split, rbg_bits, unsafe_rbg_fold_in, "unsafe_rbg", "urbg"
)
for impl in (rbg_prng_impl, unsafe_rbg_prng_impl):
    add_prng(impl)
