"""Sorting in a compiled program: a few of the largest, and short rows in loops."""

import numpy as np

from ...compile.pipeline import expansions, loop_expansions
from ...trace import primitives as lax
from ...trace.dtypes import bfloat16
from ...transform.equations import everywhere, written_out
from .. import scatter
from ..bits import bitcast_convert_type, shift_left, shift_right_arithmetic
from ..sorting import largest_p, sort_p, top_k_p

# ---- the k largest of integers, each of which is an element and its place

# Of so few, passes over the rows take no longer than to leave aside what cannot be
# among them, if the rows are not too long.
MOST_PASSES, LONG_ROW = 8, 1 << 15


def largest_words(x, *, k, axis, word):
    """What `top_k` means: an element and its place are one integer, a `word`, so that
    no two are equal."""
    bits, shape = x.shape[axis].bit_length(), x.shape
    number = lambda value, like: lax.full(like.shape, lax.convert(value, word))
    backwards = lambda places: lax.sub(number(shape[axis] - 1, places), places)
    places = lax.broadcasted_iota(np.dtype(np.int32), shape, axis)
    keys = lax.convert(as_integers(x), word)
    words = shift_left(keys, number(bits, keys))
    words = lax.bitwise_or(words, backwards(lax.convert(places, word)))
    few = k <= MOST_PASSES and shape[axis] <= LONG_ROW
    found = (in_passes if few else in_a_heap)(words, k, axis)
    places = backwards(lax.bitwise_and(found, number((1 << bits) - 1, found)))
    keys = shift_right_arithmetic(found, number(bits, found))
    return [from_integers(keys, x.dtype), lax.convert(places, np.dtype(np.int32))]


def in_passes(words, k, axis):
    """The k largest, one after another: each is the largest of those below the last."""
    found, kept, shape = [], words, words.shape
    least = lax.full(shape, lax.convert(np.iinfo(words.dtype).min, words.dtype))
    for _ in range(k):
        found.append(lax.expand_dims(lax.reduce_max(kept, (axis,)), (axis,)))
        last = lax.broadcast_in_dim(found[-1], shape, tuple(range(len(shape))))
        kept = lax.select(lax.lt(words, last), words, least)
    return lax.concatenate(found, axis)


def in_a_heap(words, k, axis):
    """The k largest by a primitive of their own."""
    order = [d for d in range(words.ndim) if d != axis] + [axis]
    found = largest_p.bind(lax.transpose(words, order), k=k)
    return lax.transpose(found, np.argsort(order))


def as_integers(x):
    """`total_order` in primitives."""
    if x.dtype.kind in "biu":
        return x
    return turned(bitcast_convert_type(x, np.dtype(f"i{x.dtype.itemsize}")))


def from_integers(keys, dtype):
    """What `as_integers` made these integers of."""
    if dtype.kind in "biu":
        return lax.convert(keys, dtype)
    bits = lax.convert(keys, np.dtype(f"i{dtype.itemsize}"))
    return bitcast_convert_type(turned(bits), dtype)


def turned(bits):
    """All bits but the sign are turned of what is negative: its own inverse."""
    number = lambda value: lax.full(bits.shape, lax.convert(value, bits.dtype))
    sign = shift_right_arithmetic(bits, number(8 * bits.dtype.itemsize - 1))
    rest = number(np.iinfo(bits.dtype).max)
    return lax.bitwise_xor(bits, lax.bitwise_and(sign, rest))


def word_for(eqn):
    """The integer for an element of a `top_k` and its place; None if there is none."""
    if eqn.primitive is not top_k_p or not eqn.params["k"]:
        return None
    aval = eqn.invars[0].aval
    bits = 8 * aval.dtype.itemsize + aval.shape[eqn.params["axis"]].bit_length()
    known = aval.dtype.kind in "biuf" or aval.dtype == bfloat16
    word = np.dtype(np.int32 if bits < 32 else np.int64)
    return word if known and bits < 64 else None


def of_words(eqn):
    """A `top_k` as the largest of distinct integers, or None."""
    word = word_for(eqn)
    return None if word is None else written_out(eqn, largest_words, word=word)


expansions |= {"largest_words": everywhere(of_words)}


# ---- short rows in loops: each element counts those that come before it

# How long the rows are, and how many pairs of elements are compared, at most.
SHORT, MOST_PAIRS = 256, 1 << 18


def sorted_by_places(*operands, dimension, is_stable, num_keys):
    """What `sort` means: an element's place is how many come before it."""
    keys = [in_one_order(x) for x in operands[:num_keys]]
    return at_places(places_of(keys, dimension), operands, dimension)


def largest_by_places(x, *, k, axis):
    """What `top_k` means."""
    places = lax.broadcasted_iota(np.dtype(np.int32), x.shape, axis)
    down = lax.bitwise_not(in_integers(x))
    both = at_places(places_of([down], axis), [x, places], axis)
    limits = [k if d == axis else n for d, n in enumerate(x.shape)]
    return [lax.slice(y, (0,) * y.ndim, limits) for y in both]


def places_of(keys, axis):
    """For each element how many come before it: smaller ones, and equal ones that stand
    before it."""
    shape, rest = keys[0].shape, [d for d in range(keys[0].ndim) if d != axis]
    pairs = (*shape, shape[axis])
    own = lambda x: lax.broadcast_in_dim(x, pairs, range(len(shape)))
    other = lambda x: lax.broadcast_in_dim(
        lax.transpose(x, (*rest, axis)), pairs, (*rest, len(shape))
    )
    index = lax.broadcasted_iota(np.dtype(np.int32), shape, axis)
    before = lax.lt(other(index), own(index))
    for key in reversed(keys):
        before = lax.bitwise_and(lax.eq(other(key), own(key)), before)
        before = lax.bitwise_or(lax.lt(other(key), own(key)), before)
    return lax.reduce_sum(lax.convert(before, np.dtype(np.int32)), (len(shape),))


def at_places(places, arrays, axis):
    """Arrays whose elements are put to other places along an axis."""
    rest = tuple(d for d in range(places.ndim) if d != axis)
    numbers = scatter.ScatterDimensionNumbers((), (axis,), (axis,), rest, rest)
    places = lax.reshape(places, (*places.shape, 1))
    kind = dict(mode="promise_in_bounds", unique_indices=True)
    return [scatter.scatter(x, places, x, numbers, **kind) for x in arrays]


def in_integers(x):
    """Integers in the order of x, of bools too."""
    keys = as_integers(x)
    return keys if keys.dtype != bool else lax.convert(keys, np.dtype(np.int32))


def in_one_order(x):
    """Integers in the order that `sort` means: zeros are equal, and so are NaNs."""
    if x.dtype.kind in "biu":
        return in_integers(x)
    number = lambda value: lax.full(x.shape, lax.convert(value, x.dtype))
    x = lax.select(lax.eq(x, number(0)), number(0), x)
    return in_integers(lax.select(lax.ne(x, x), number(np.nan), x))


def by_places(eqn):
    """A sort, or a `top_k`, of short rows as equations; or None."""
    params = eqn.params
    if eqn.primitive is sort_p:
        function, axis, keys = sorted_by_places, params["dimension"], params["num_keys"]
    elif eqn.primitive is top_k_p and word_for(eqn) is None:
        function, axis, keys = largest_by_places, params["axis"], 1
    else:
        return None
    dtypes = [key.aval.dtype for key in eqn.invars[:keys]]
    known = all(d.kind in "biuf" or d == bfloat16 for d in dtypes)
    aval = eqn.invars[0].aval
    n = aval.shape[axis]
    short = 0 < n <= SHORT and aval.size * n <= MOST_PAIRS
    return written_out(eqn, function) if known and short else None


loop_expansions |= {"small_sorts": everywhere(by_places)}
