"""Sorting: by one key or several, with a payload; and the k largest.

    sort(array([3.0, 1.0, 2.0]))            # [1, 2, 3]
    sort((keys, payload), num_keys=1)       # payload in the order that sorts the keys
    top_k(x, 2)                             # the two largest, and where they stand

NaN comes last, and -0.0 is equal to 0.0; complex numbers go by their real parts and
then by their imaginary parts.  `top_k` is stricter, as XLA's is: there 0.0 is larger
than -0.0.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..compile.lower.walk import fallbacks
from ..compile.pipeline import expansions, loop_expansions
from ..trace import primitives as lax
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.dtypes import bfloat16
from ..trace.numpy_values import widen
from ..trace.plans import size_of, worth
from ..trace.shape_checks import anything, canonicalize_axis, check_kind, is_kind
from ..trace.types import Array, ArrayLike
from ..transform.batching.vmap import along, batch_rules
from ..transform.derivatives.linearize import linearize_rules
from ..transform.equations import everywhere, written_out
from . import scatter
from .bits import bitcast_convert_type, shift_left, shift_right_arithmetic

sort_p = Primitive("sort", multiple_results=True)
top_k_p = Primitive("top_k", multiple_results=True)


def sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Any:
    """Sort along an axis.

    Args:
      operand: an array; or a sequence of arrays of one shape, of which the first
        `num_keys` are keys, the first one the most important, and all are brought into
        the order that sorts the keys.
      dimension: the axis.
      is_stable: whether equal keys stay in the order in which they came.
      num_keys: how many of the operands are keys.

    JAX: `lax.sort`.
    """
    several = isinstance(operand, (tuple, list))
    operands = operand if several else (operand,)
    if not operands:
        raise TypeError("sort requires at least one operand")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(
            f"num_keys={num_keys} must be between 1 and the number of operands, "
            f"{len(operands)}"
        )
    results = sort_p.bind(
        *operands,
        dimension=canonicalize_axis(dimension, aval_of(operands[0]).ndim),
        is_stable=bool(is_stable),
        num_keys=operator.index(num_keys),
    )
    return tuple(results) if several else results[0]


def sort_shape(*operands, dimension, is_stable, num_keys):
    """The shape rule of `sort`: everything keeps its type."""
    if len({x.shape for x in operands}) > 1:
        shapes = " ".join(str(x.shape) for x in operands)
        raise TypeError(f"Arguments to sort must have equal shapes, got: {shapes}")
    for x in operands[:num_keys]:
        check_kind("sort", x.dtype, anything)
    return list(operands)


def sort_numpy(*operands, dimension, is_stable, num_keys):
    """Evaluate `sort`; NumPy can put bfloat16 in order only as float32."""
    if len(operands) == 1:
        x = widen(operands[0])
        kind = "stable" if is_stable and ties_differ(x) else "quicksort"
        return [np.sort(x, axis=dimension, kind=kind)]
    # lexsort takes the most important key last.
    keys = [widen(x) for x in reversed(operands[:num_keys])]
    order = np.lexsort(keys, axis=dimension)
    return [np.take_along_axis(x, order, dimension) for x in operands]


def ties_differ(x):
    """Whether elements of x that a sort takes for equal may have different bits."""
    if x.dtype.kind in "biu":
        return False
    return x.dtype.kind == "c" or bool((np.isnan(x) | (x == 0) & np.signbit(x)).any())


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The k largest elements along an axis, the largest first, and their indices.

    Of equal elements the first comes first.  NaN is larger than all others.

    JAX: `lax.top_k`.
    """
    k = operator.index(k)
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    axis = canonicalize_axis(axis, aval_of(operand).ndim)
    return top_k_p.bind(operand, k=k, axis=axis)


def top_k_shape(x, *, k, axis):
    """The shape rule of `top_k`: -> [values, int32 indices]."""
    if is_kind(x.dtype, (np.complexfloating,)):
        raise ValueError("top_k is not compatible with complex inputs.")
    if k > x.shape[axis]:
        raise ValueError(
            f"k argument to top_k must be no larger than size along axis; got k={k} "
            f"with shape={x.shape} and axis={axis}"
        )
    if x.shape[axis] > np.iinfo(np.int32).max:
        raise ValueError(
            "top_k returns int32 indices, which will overflow for array dimensions "
            f"that are larger than the maximum int32, got {x.shape}"
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values = x.update(shape=shape)
    return [values, values.update(dtype=np.dtype(np.int32), weak_type=False)]


def top_k_numpy(x, *, k, axis):
    """Evaluate `top_k`: only what may belong to the k largest is sorted."""
    keys = np.moveaxis(total_order(x), axis, -1)
    rows = keys.reshape(math.prod(keys.shape[:-1]), keys.shape[-1])
    order = largest_first(rows, k)
    places = np.moveaxis(order.reshape(*keys.shape[:-1], k), -1, axis)
    return [np.take_along_axis(x, places, axis), places]


def largest_first(keys, k):
    """[rows, k]: where the k largest integers of each row stand, the largest first.

    Of equal ones the first comes first.  An integer and its place are one number of 64
    bits, where they fit into that: a sort of numbers is quicker than one of places.
    """
    n = keys.shape[-1]
    bits = n.bit_length()
    if 8 * keys.dtype.itemsize + bits > 64:
        found = positions_of_largest(keys, k)
        # What sorts negated keys keeps equal ones in order.
        kept = ~np.take_along_axis(keys, found, -1)
        order = np.argsort(kept, axis=-1, kind="stable")[..., :k]
        return np.take_along_axis(found, order, -1)
    wide = np.int64 if keys.dtype.kind == "i" else np.uint64
    both = keys.astype(wide) << wide(bits)
    both |= np.arange(n, dtype=wide)[::-1]
    largest = largest_numpy(both, k=k) & wide((1 << bits) - 1)
    return n - 1 - largest.astype(np.int64)


def largest_numpy(x, *, k):
    """Evaluate `largest`: the k largest of each row, no two of which are equal."""
    n = x.shape[-1]
    if k and 8 * k < n > SHORT_ROW:
        x = np.partition(x, n - k, axis=-1)[..., n - k :]
    return np.sort(x, axis=-1)[..., ::-1][..., :k]


# Rows that are sorted as quickly as NumPy finds their largest elements.
SHORT_ROW = 1000


def positions_of_largest(rows, k):
    """[rows, k]: where the k largest integers of each row stand, in ascending order.

    Of equal ones the first are taken.  All positions where that is quicker: this only
    picks what is sorted afterwards, so the result is the same.
    """
    many, n = rows.shape
    if k == 0 or 8 * k > n or rows.size < 2000:
        return np.broadcast_to(np.arange(n), rows.shape)
    least = np.partition(rows, n - k, axis=-1)[:, n - k, None]
    chosen = rows >= least
    if np.count_nonzero(chosen) > k * many:
        above = rows > least
        equal = chosen & ~above
        room = k - np.count_nonzero(above, axis=-1, keepdims=True)
        chosen = above | equal & (np.cumsum(equal, axis=-1) <= room)
    return np.nonzero(chosen)[1].reshape(many, k)


def total_order(x):
    """Integers in the order of x: of floats -NaN < -inf < -0.0 < 0.0 < inf < NaN."""
    if x.dtype.kind in "biu":
        return x
    bits = np.array(x, order="C").view(f"i{x.dtype.itemsize}")
    # The bits of negative floats count downwards: turn all of them but the sign.
    turned = bits >> 8 * x.dtype.itemsize - 1
    turned &= np.iinfo(bits.dtype).max
    turned ^= bits
    return turned


shape_rules |= {sort_p: sort_shape, top_k_p: top_k_shape}
eval_rules |= on_numpy({sort_p: sort_numpy, top_k_p: top_k_numpy})
# NumPy goes through the elements several times.
worth |= {top_k_p: lambda aval: 8 * size_of(aval)}


def take_along(x, positions, axis):
    """x[..., positions, ...] along one axis, the other axes walked together."""
    ndim = aval_of(x).ndim
    others = tuple(d for d in range(ndim) if d != axis)
    numbers = scatter.GatherDimensionNumbers((), (axis,), (axis,), others, others)
    indices = lax.reshape(positions, (*aval_of(positions).shape, 1))
    return scatter.gather(x, indices, numbers, (1,) * ndim)


def sort_linearize(nonzero, *args, dimension, **params):
    """Sort a row of positions along; tangents are taken in the order that comes out."""
    shape = aval_of(args[0]).shape
    places = lax.broadcasted_iota(np.dtype(np.int32), shape, dimension)
    *outs, order = sort_p.bind(*args, places, dimension=dimension, **params)

    def linear(*tangents):
        return [
            None if t is None else take_along(t, order, dimension) for t in tangents
        ]

    return outs, linear


def top_k_linearize(nonzero, x, *, k, axis):
    values, positions = top_k_p.bind(x, k=k, axis=axis)
    return [values, positions], lambda t: [take_along(t, positions, axis), None]


linearize_rules |= {sort_p: sort_linearize, top_k_p: top_k_linearize}


batch_rules |= along("dimension", sort_p) | along("axis", top_k_p)
fallbacks |= {p: "sorting is left to NumPy" for p in (sort_p, top_k_p)}


# ---- the k largest of integers, each of which is an element and its place

# Of so few, passes over the rows take no longer than to leave aside what cannot be
# among them, if the rows are not too long.
MOST_PASSES, LONG_ROW = 8, 1 << 15

largest_p = Primitive("largest")
shape_rules |= {largest_p: lambda x, *, k: x.update(shape=(*x.shape[:-1], k))}


eval_rules |= on_numpy({largest_p: largest_numpy})
fallbacks |= {largest_p: "sorting is left to NumPy"}


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
