"""Arrays in pieces: slices and updates of concatenations and of padded arrays.

    y = jnp.pad(a, (4, 0))                  # four zeros, and a
    y[:3]                                   # three zeros
    y.at[:4].set(b)                         # concatenate([b, a])

The gradient of `split` is like that: into zeros goes one piece after the other.  As a
concatenation all of them are written once, and nothing has to be zero before.
"""

import math

from ..trace import primitives as prim, slicing
from ..trace.array import ShapedArray
from .known_values import uniform
from .simplify import filled, rules

# Arrays of more pieces than that are updated where they lie.
MOST_PIECES = 16


def pieces_of(s, x):
    """(an axis, the atoms that make up x along it), or (None, [x]) if it is whole."""
    eqn = s.maker(x, prim.concatenate_p)
    if eqn:
        return eqn.params["dimension"], list(eqn.invars)
    eqn = s.maker(x, slicing.pad_p)
    value = uniform(s, eqn.invars[1]) if eqn else None
    if value is None:
        return None, [x]
    config = eqn.params["padding_config"]
    padded = [d for d, sides in enumerate(config) if sides != (0, 0, 0)]
    low, high, inside = config[padded[0]] if len(padded) == 1 else (-1, -1, -1)
    if min(low, high) < 0 or inside:
        return None, [x]
    axis, inner = padded[0], eqn.invars[0]
    before, after = (fill(s, value, inner.aval, axis, n) for n in (low, high))
    return axis, [*before, inner, *after]


def fill(s, value, aval, axis, length):
    """A list of one atom: copies of a scalar, so long along an axis; or of none."""
    shape = (*aval.shape[:axis], length, *aval.shape[axis + 1 :])
    return [filled(s, value, ShapedArray(shape, aval.dtype))] if length else []


def part_of(s, pieces, axis, start, stop):
    """The atoms between two places along the axis of pieces; None if one is cut.

    Copies of one scalar may be cut.
    """
    found, first = [], 0
    for piece in pieces:
        size = piece.aval.shape[axis]
        low, high = max(start - first, 0), min(stop - first, size)
        first += size
        if low >= high:
            continue
        value = uniform(s, piece)
        if value is not None:
            found += fill(s, value, piece.aval, axis, high - low)
        elif (low, high) == (0, size):
            found.append(piece)
        else:
            return None
    return found


def along_one_axis(x, starts, sizes):
    """The only axis along which a slice is not all of x; None if there are several."""
    places = zip(starts, sizes, x.aval.shape, strict=True)
    cut = [d for d, (a, n, whole) in enumerate(places) if (a, n) != (0, whole)]
    return cut[0] if len(cut) == 1 else None


def slice_of_pieces(s, out, x, *, start_indices, limit_indices, strides):
    """A slice of nothing but copies of one scalar.

    Of another piece it stays a slice: rounds that are alike are to stay alike, so that
    they can become a loop.
    """
    axis = along_one_axis(x, start_indices, out.shape)
    if axis is None or strides and math.prod(strides) != 1:
        return None
    cut, pieces = pieces_of(s, x)
    if cut != axis:
        return None
    found = part_of(s, pieces, axis, start_indices[axis], limit_indices[axis])
    same = found and len(found) == 1 and uniform(s, found[0]) is not None
    return found[0] if same else None


def update_of_pieces(s, out, x, update, *starts):
    """An update that takes the place of some of the pieces."""
    places = [uniform(s, start) for start in starts]
    if any(place is None for place in places):
        return None
    sizes = update.aval.shape
    limits = zip(places, x.aval.shape, sizes, strict=True)
    places = [min(max(int(place), 0), n - size) for place, n, size in limits]
    axis = along_one_axis(x, places, sizes)
    cut, pieces = pieces_of(s, x)
    if axis is None or cut != axis or len(pieces) > MOST_PIECES:
        return None
    first, last, end = places[axis], places[axis] + sizes[axis], out.shape[axis]
    before = part_of(s, pieces, axis, 0, first)
    after = part_of(s, pieces, axis, last, end)
    if before is None or after is None:
        return None
    return s.apply(prim.concatenate_p, *before, update, *after, dimension=axis)


rules[prim.slice_p].append(slice_of_pieces)
rules |= {slicing.dynamic_update_slice_p: [update_of_pieces]}
