"""Rules of layout: chains become one link, and links that move nothing go.

Broadcasts, reshapes, squeezes, slices, reversals, concatenations, paddings, and
reductions over no axes.  The rule of transposes stands in `simplify`.

    y = jnp.pad(a, (4, 0))                  # four zeros, and a
    y[:3]                                   # three zeros
    y.at[:4].set(b)                         # concatenate([b, a])

The gradient of `split` is like that: into zeros goes one piece after the other.  As a
concatenation all of them are written once, and nothing has to be zero before.
"""

import math

from ...trace import dtypes, primitives as prim, slicing
from ...trace.array import ShapedArray
from ..pipeline import shortcuts
from .folding import filled, rules
from .known_values import uniform


def unchanged(s, out, x, *, dimensions=(), **params):
    """An operation that moves nothing, as it gives the shape that there is."""
    return None if dimensions or x.aval.shape != out.shape else x


def broadcasts(s, out, x, *, shape, broadcast_dimensions):
    """Of a broadcast, where each axis goes in the end."""
    eqn = s.maker(x, prim.broadcast_in_dim_p)
    if eqn:
        inner = eqn.params["broadcast_dimensions"]
        dims = tuple(broadcast_dimensions[d] for d in inner)
        params = {"shape": shape, "broadcast_dimensions": dims}
        return s.apply(prim.broadcast_in_dim_p, eqn.invars[0], **params)


def reshapes(s, out, x, *, new_sizes, dimensions):
    """A reshape of something that keeps the order of elements."""
    origin, dims = in_same_order(s, x)
    if origin is not None and dimensions is None:
        params = {"new_sizes": new_sizes, "dimensions": dims}
        return s.apply(prim.reshape_p, origin, **params)


def in_same_order(s, x):
    """(what x is a reshape of, the `dimensions` of that reshape), or (None, None)."""
    reshape = s.maker(x, prim.reshape_p)
    eqn = reshape or s.maker(x, prim.squeeze_p) or s.maker(x, prim.broadcast_in_dim_p)
    dims = eqn.params.get("broadcast_dimensions", ()) if eqn else ()
    if not eqn or eqn.invars[0].aval.size != x.aval.size or list(dims) != sorted(dims):
        return None, None
    return eqn.invars[0], reshape and reshape.params["dimensions"]


def squeezes(s, out, x, *, dimensions):
    """A squeeze of a reshape or of axes that were just put there, as a reshape."""
    return reshapes(s, out, x, new_sizes=out.shape, dimensions=None)


def equal_elements(s, out, x, **params):
    """A layout operation on copies of one scalar makes copies of that scalar."""
    value = uniform(s, x) if s.maker(x, prim.broadcast_in_dim_p) else None
    return None if value is None else filled(s, value, out)


rules |= {
    prim.broadcast_in_dim_p: [unchanged, broadcasts],
    prim.reshape_p: [unchanged, reshapes],
    prim.squeeze_p: [unchanged, squeezes],
}
for primitive in (prim.reshape_p, prim.squeeze_p, prim.transpose_p):
    rules[primitive].append(equal_elements)


def slices(s, out, x, *, start_indices, limit_indices, strides):
    """Of a slice, a slice."""
    eqn = s.maker(x, prim.slice_p)
    if eqn is None:
        return None
    ones = (1,) * len(out.shape)
    steps = eqn.params["strides"] or ones
    offsets = zip(eqn.params["start_indices"], steps, start_indices, strict=True)
    starts = tuple(a + step * b for a, step, b in offsets)
    strides = tuple(a * b for a, b in zip(steps, strides or ones, strict=True))
    ends = zip(starts, strides, out.shape, strict=True)
    limits = tuple(a + step * (n - 1) + 1 if n else a for a, step, n in ends)
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return s.apply(prim.slice_p, eqn.invars[0], **params)


def reversals(s, out, x, *, dimensions):
    """A reversal of axes with one element; of a reversal, the axes in just one."""
    long = tuple(d for d in dimensions if out.shape[d] > 1)
    eqn = s.maker(x, slicing.rev_p)
    if not long:
        return x
    if eqn:
        inner = eqn.params["dimensions"]
        dims = tuple(sorted(set(inner) ^ set(long)))
        origin = eqn.invars[0]
        return s.apply(slicing.rev_p, origin, dimensions=dims) if dims else origin


def nothing(s, primitive, out, args, params):
    """A result without elements: nothing has to be computed, whatever the primitive.

    So what lowers the program meets such an array as an argument only.
    """
    if not isinstance(out, ShapedArray) or 0 not in out.shape or not args:
        return None
    if primitive is prim.broadcast_in_dim_p or out.dtype.kind not in "biufcV":
        return None
    return None if out.dtype == dtypes.float0 else filled(s, 0, out)


shortcuts |= {"nothing": nothing}


def concatenations(s, out, *xs, dimension):
    """Without the empty pieces; of a single piece that piece."""
    full = [x for x in xs if x.aval.shape[dimension] > 0]
    if len(full) == 1:
        return full[0]
    if 0 < len(full) < len(xs):
        return s.apply(prim.concatenate_p, *full, dimension=dimension)


def no_padding(s, out, x, value, *, padding_config):
    """Padding by nothing."""
    return x if all(p == (0, 0, 0) for p in padding_config) else None


def known_places(s, x, starts, sizes):
    """Where a part of an array begins, clamped into it; None if a run decides."""
    places = [uniform(s, start) for start in starts]
    if any(place is None for place in places):
        return None
    limits = zip(places, x.aval.shape, sizes, strict=True)
    return tuple(min(max(int(place), 0), n - size) for place, n, size in limits)


def fixed_slice(s, out, x, *starts, slice_sizes):
    """A slice at a place that is known: an ordinary one, clamped into the array."""
    firsts = known_places(s, x, starts, slice_sizes)
    if firsts is None:
        return None
    lasts = tuple(a + n for a, n in zip(firsts, slice_sizes, strict=True))
    params = {"start_indices": firsts, "limit_indices": lasts, "strides": None}
    return s.apply(prim.slice_p, x, **params)


rules |= {
    prim.slice_p: [unchanged, slices],
    slicing.rev_p: [reversals],
    prim.concatenate_p: [concatenations],
    slicing.pad_p: [no_padding],
    slicing.dynamic_slice_p: [fixed_slice],
}
for name in ("sum", "prod", "max", "min", "and", "or"):
    rules[getattr(prim, f"reduce_{name}_p")] = [unchanged]
for primitive in (prim.slice_p, slicing.rev_p):
    rules[primitive].append(equal_elements)

# ---- arrays in pieces

# An update of an array that has more pieces changes it where it lies.
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
    sizes = update.aval.shape
    places = known_places(s, x, starts, sizes)
    if places is None:
        return None
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
