"""Rules of layout: chains become one link, and links that move nothing go.

Broadcasts, reshapes, squeezes, slices, reversals, concatenations, paddings, and
reductions over no axes.  The rule of transposes stands in `simplify`.
"""

from ..trace import primitives as prim, slicing
from .known_values import uniform
from .simplify import refilled, rules


def broadcasts(s, out, x, *, shape, broadcast_dimensions):
    """A broadcast of nothing new; of a broadcast, where each axis goes in the end."""
    if x.aval.shape == shape and broadcast_dimensions == tuple(range(len(shape))):
        return x
    eqn = s.maker(x, prim.broadcast_in_dim_p)
    if eqn:
        inner = eqn.params["broadcast_dimensions"]
        dims = tuple(broadcast_dimensions[d] for d in inner)
        params = {"shape": shape, "broadcast_dimensions": dims}
        return s.apply(prim.broadcast_in_dim_p, eqn.invars[0], **params)


def reshapes(s, out, x, *, new_sizes, dimensions):
    """A reshape to the same shape, or of something that keeps the order of elements."""
    if dimensions is not None:
        return None
    if x.aval.shape == new_sizes:
        return x
    origin, dims = in_same_order(s, x)
    if origin is not None:
        params = {"new_sizes": new_sizes, "dimensions": dims}
        return s.apply(prim.reshape_p, origin, **params)
    return refilled(s, out, x)


def in_same_order(s, x):
    """(what x is a reshape of, the `dimensions` of that reshape), or (None, None)."""
    for primitive in (prim.reshape_p, prim.squeeze_p, prim.broadcast_in_dim_p):
        eqn = s.maker(x, primitive)
        if eqn is None:
            continue
        origin = eqn.invars[0]
        dims = eqn.params.get("broadcast_dimensions", ())
        if origin.aval.size == x.aval.size and list(dims) == sorted(dims):
            return origin, eqn.params.get("dimensions") if primitive is (
                prim.reshape_p
            ) else None
    return None, None


def squeezes(s, out, x, *, dimensions):
    """A squeeze of no axis; of a reshape or of axes that were just put there."""
    if not dimensions:
        return x
    origin, dims = in_same_order(s, x)
    if origin is not None and dims is None:
        params = {"new_sizes": out.shape, "dimensions": None}
        return s.apply(prim.reshape_p, origin, **params)
    return refilled(s, out, x)


rules |= {
    prim.broadcast_in_dim_p: [broadcasts],
    prim.reshape_p: [reshapes],
    prim.squeeze_p: [squeezes],
}


def slices(s, out, x, *, start_indices, limit_indices, strides):
    """A slice of all there is, or of a slice, or of copies of one scalar."""
    if x.aval.shape == out.shape:
        return x
    eqn = s.maker(x, prim.slice_p)
    if eqn is None:
        return refilled(s, out, x)
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
    return refilled(s, out, x)


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


def fixed_slice(s, out, x, *starts, slice_sizes):
    """A slice at a place that is known: an ordinary one, clamped into the array."""
    places = [uniform(s, start) for start in starts]
    if any(place is None for place in places):
        return None
    sizes = zip(places, x.aval.shape, slice_sizes, strict=True)
    firsts = tuple(min(max(int(place), 0), n - size) for place, n, size in sizes)
    lasts = tuple(a + n for a, n in zip(firsts, slice_sizes, strict=True))
    params = {"start_indices": firsts, "limit_indices": lasts, "strides": None}
    return s.apply(prim.slice_p, x, **params)


def over_no_axes(s, out, x, *, axes):
    """A reduction over no axes."""
    return None if axes else x


rules |= {
    prim.slice_p: [slices],
    slicing.rev_p: [reversals],
    prim.concatenate_p: [concatenations],
    slicing.pad_p: [no_padding],
    slicing.dynamic_slice_p: [fixed_slice],
    prim.reduce_sum_p: [over_no_axes],
    prim.reduce_prod_p: [over_no_axes],
    prim.reduce_max_p: [over_no_axes],
    prim.reduce_min_p: [over_no_axes],
    prim.reduce_and_p: [over_no_axes],
    prim.reduce_or_p: [over_no_axes],
}
