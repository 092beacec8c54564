"""Convolutions as loops over what they add up, in tiles of registers.

    { lambda ; a:f32[8,28,28,32] b:f32[3,3,32,64]. let
        c:f32[8,30,30,32] = pad[...] a            # no window reaches beside the image
        d:f32[8,28,28,64] = direct_convolution[padding=((0, 0), (0, 0)) ...] c b
      in (d,) }

The loops of the second line are sums of products: 64 neighbouring features share what
they read of the image, and 7 neighbouring places what they read of the kernel.  So they
go on in tiles, see `register_tiles`, and no patch is ever written to memory.  The
gradients by both operands are convolutions, and so are their loops.

The gradient of a convolution with strides slides over an image with holes.  Most of
what such a window sees is nothing.  Its places in a row see only two patterns, if the
stride is 2: so it is a convolution without holes, with twice as many features, those
of one place and those of the next.
"""

import math

import numpy as np

from ...compile.decisions import loop_rules, noted, settings_of_rules
from ...compile.fuse.fusion import rules
from ...compile.loops.scalars import FLOAT32
from ...compile.lower.walk import Elements, lower_rules
from ...compile.pipeline import expansions
from ...compile.schedule.register_tiles import tile_of
from ...compile.schedule.shared_loops import barriers
from ...compile.schedule.side_by_side import LANES
from ...compile.settings import config
from ...trace import primitives as lax, slicing
from ...trace.core import Primitive
from ...trace.jaxprs.jaxpr import Var
from ...transform.equations import everywhere, written_out
from ..barriers import optimization_barrier, optimization_barrier_p
from ..convolution import (
    ConvDimensionNumbers, conv_general_dilated, conv_general_dilated_p,
)
from .windows import conv_lower


# A convolution with a kernel of more places is no sum of shifted products.
MOST_SHIFTS = 64


def is_plain(eqn):
    """Whether a convolution is of floats of one dtype, in one group."""
    atoms = (*eqn.invars, *eqn.outvars)
    groups = eqn.params["feature_group_count"] * eqn.params["batch_group_count"]
    dtypes = {x.aval.dtype for x in atoms}
    floats = len(dtypes) == 1 and dtypes <= {FLOAT32, np.dtype("float64")}
    return floats and groups == 1 and all(x.aval.size for x in atoms)


# ---- images with holes


def has_phases(eqn):
    """Whether the image of a convolution has holes that a stride has made."""
    p = eqn.params
    pairs = zip(p["lhs_dilation"], p["window_strides"], p["rhs_dilation"], strict=True)
    holes = [pair for pair in pairs if pair[0] > 1]
    return bool(holes) and is_plain(eqn) and all(p[1:] == (1, 1) for p in holes)


def in_phases(lhs, rhs, *, counts, dimension_numbers, padding, lhs_dilation, **params):
    """A convolution over an image with holes, as one over the image without them.

    With d - 1 holes after each element, place d * i + a sees the elements from i on
    through the part k = d * t + low - a of the kernel.  So places of one i are more
    features of one place, `a` of them along each axis.  Places may be counted from some
    before the first one, so that those of one i see as few elements as can be.

    Args:
      counts: how many places the result has along each spatial axis.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    features, channels, *windows = (rhs.shape[d] for d in rhs_spec)
    longer, shape, pads, skipped = [], [], [], []
    rows = zip(lhs_spec[2:], windows, lhs_dilation, padding, counts, strict=True)
    for axis, window, d, (low, high), count in rows:
        if d == 1:
            longer.append((0, 0, 0))
            shape += [window, 1]
            pads.append((low, high))
            skipped.append(0)
            continue
        first = (d - 1 - low) // d
        before = d - 1 - low - d * first
        skip = before if -(-window // d) < -(-(window + before) // d) else 0
        before -= skip
        skipped.append(skip)
        steps, places = -(-(window + before) // d), -(-(count + skip) // d)
        longer.append((before, d * steps - window - before, 0))
        shape += [steps, d]
        pads.append((-first, places + steps - 1 - lhs.shape[axis] + first))
    n = len(windows)
    kernel = lax.transpose(rhs, rhs_spec)
    kernel = padded(kernel, [NOTHING] * 2 + longer)
    kernel = lax.reshape(kernel, (features, channels, *shape))
    kernel = slicing.rev(kernel, tuple(range(3, 2 + 2 * n, 2)))
    steps, phases = range(2, 2 + 2 * n, 2), range(3, 3 + 2 * n, 2)
    kernel = lax.transpose(kernel, (*steps, 1, *phases, 0))
    rows = math.prod(shape[1::2]) * features
    kernel = lax.reshape(kernel, (*shape[::2], channels, rows))
    last = (0, n + 1, *range(1, n + 1))
    numbers = ConvDimensionNumbers(lhs_spec, (n + 1, n, *range(n)), last)
    out = conv_general_dilated(
        lhs, kernel, padding=pads, dimension_numbers=numbers, **params
    )
    batch, *places, _ = out.shape
    out = lax.reshape(out, (batch, *places, *shape[1::2], features))
    between = [axis for i in range(n) for axis in (1 + i, 1 + n + i)]
    out = lax.transpose(out, (0, *between, 1 + 2 * n))
    whole = [count * d for count, d in zip(places, shape[1::2], strict=True)]
    out = lax.reshape(out, (batch, *whole, features))
    ends = [skip + count for skip, count in zip(skipped, counts, strict=True)]
    out = lax.slice(out, (0, *skipped, 0), (batch, *ends, features))
    return lax.transpose(out, [last[out_spec.index(d)] for d in range(n + 2)])


NOTHING = (0, 0, 0)


def padded(x, edges):
    """An array with zeros around it: (low, high, between) along each axis."""
    if all(edge == NOTHING for edge in edges):
        return x
    return slicing.pad(x, lax.full((), 0, x.dtype), edges)


def edges_of(ndim, spec, padding, dilation):
    """The zeros around, and between, the elements of an image."""
    edges = [NOTHING] * ndim
    for axis, pair, holes in zip(spec[2:], padding, dilation, strict=True):
        edges[axis] = (*pair, holes - 1)
    return edges


# ---- loops


def has_tiles(eqn):
    """Whether a convolution's results go on side by side, in enough lanes."""
    settings = config.fusion
    if not (settings.direct_convolutions and settings.tile_rows and is_plain(eqn)):
        return False
    lhs_spec, rhs_spec, _ = eqn.params["dimension_numbers"]
    (image, kernel), (out,) = eqn.invars, eqn.outvars
    features, batch = kernel.aval.shape[rhs_spec[0]], image.aval.shape[lhs_spec[0]]
    work = out.aval.size * kernel.aval.size // features
    numbers = {"features": features, "multiplications": work}
    if 2 * features < settings.fewest_lanes or work <= settings.small_product:
        return noted("no windows in tiles", eqn, **numbers)
    # Long sums are to be in blocks, which no two tiles may overlap in.
    tile = tile_of(batch, features, out.aval.dtype.itemsize)
    whole = tile.whole or not is_over_images(eqn.params["dimension_numbers"])
    rule = "windows in tiles" if whole else "no windows in tiles"
    return noted(rule, eqn, **numbers)


def is_over_images(numbers):
    """Whether sums go over all images, as the gradient by a kernel does."""
    return numbers.lhs_spec[0] != 0


def with_tiles(lhs, rhs, *, dimension_numbers, padding, lhs_dilation, **params):
    """A convolution without padding, of an image that has it, and of a kernel whose
    features are neighbours."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    lhs = padded(lhs, edges_of(lhs.ndim, lhs_spec, padding, lhs_dilation))
    order = [d for d in range(rhs.ndim) if d != rhs_spec[0]] + [rhs_spec[0]]
    if order != [*range(rhs.ndim)]:
        rhs = lax.transpose(rhs, order)
    if not is_over_images(dimension_numbers):
        # What makes a kernel goes along its features, and images do not.
        rhs = optimization_barrier(rhs)
    n = lhs.ndim - 2
    last = (0, n + 1, *range(1, n + 1))
    kernel = tuple(order.index(d) for d in rhs_spec)
    numbers = ConvDimensionNumbers(lhs_spec, kernel, last)
    out = conv_general_dilated(
        lhs, rhs, padding=[(0, 0)] * n, dimension_numbers=numbers, **params
    )
    return lax.transpose(out, [last[out_spec.index(d)] for d in range(n + 2)])


# ---- few features


def has_shifts(eqn):
    """Whether products of each place alone cost less than tiles, or patches, would.

    A stride passes over most of these products; a tile of few features has a vector for
    each of them, however few lanes that fills; and each number of a patch is copied.
    """
    _, rhs_spec, _ = eqn.params["dimension_numbers"]
    (image, kernel), (out,) = (x.aval for x in eqn.invars), eqn.outvars
    features, channels, *windows = (kernel.shape[d] for d in rhs_spec)
    settings, places = config.fusion, math.prod(windows)
    over_images = is_over_images(eqn.params["dimension_numbers"])
    if places <= 1 or not is_plain(eqn) or over_images:
        return False
    each, copy = settings.product_cost, settings.copy_cost
    terms = out.aval.size // features * places * channels
    shifts = features * places * image.size * (each + copy / channels)
    patches = terms * (features * each + copy)
    wide = 2 * features >= settings.fewest_lanes
    tiles = terms * each * LANES if wide else patches
    here = 2 * features < LANES and shifts < min(tiles, patches)
    here = here and places <= MOST_SHIFTS
    here = here and terms * features > settings.small_product
    costs = {"shifts": round(shifts), "otherwise": round(min(tiles, patches))}
    return noted("shifts" if here else "no shifts", eqn, places=places, **costs)


choices = "fewest_lanes", "small_product", "product_cost", "copy_cost"
loop_rules |= {
    "shifts": (True, "its products of each place are shifted and added", *choices),
    "no shifts": (False, "it is no sum of shifted products", *choices),
    "windows in tiles": (
        True, "its sums go on in tiles of registers", "direct_convolutions",
        "fewest_lanes", "tile_rows", "small_product",
    ),
    "no windows in tiles": (
        False, "it is too small for tiles, or tiles would overlap", "fewest_lanes",
        "small_product", "tile_rows",
    ),
}  # fmt: skip


def in_shifts(
    lhs, rhs, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
    **params,
):  # fmt: skip
    """A convolution as products of each place with the whole kernel, shifted and added.

    The products are a matrix's, and the patches of them are not written to memory.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    lhs = padded(lhs, edges_of(lhs.ndim, lhs_spec, padding, lhs_dilation))
    sums = (rhs_spec[1],), (lhs_spec[1],)
    kinds = {k: params[k] for k in ("precision", "preferred_element_type")}
    parts = lax.dot_general(rhs, lhs, (sums, ((), ())), **kinds)
    # The axes of the products: the kernel's, then the image's, without the channels.
    left = [d for d in rhs_spec if d != rhs_spec[1]]
    right = [d for d in lhs_spec if d != lhs_spec[1]]
    at = {("kernel", d): sorted(left).index(d) for d in left}
    at |= {("image", d): len(left) + sorted(right).index(d) for d in right}
    total = None
    for place in np.ndindex(*(rhs.shape[d] for d in rhs_spec[2:])):
        start, limit, step = [0] * parts.ndim, list(parts.shape), [1] * parts.ndim
        for n, i in enumerate(place):
            window = (rhs.shape[rhs_spec[2 + n]] - 1) * rhs_dilation[n]
            k, d = at["kernel", rhs_spec[2 + n]], at["image", lhs_spec[2 + n]]
            start[k], limit[k] = i, i + 1
            start[d], step[d] = i * rhs_dilation[n], window_strides[n]
            limit[d] -= window - start[d]
        part = lax.slice(parts, start, limit, step)
        total = part if total is None else lax.add(total, part)
    spatial = [at["kernel", d] for d in rhs_spec[2:]]
    total = lax.squeeze(total, spatial)
    rest = [d for d in range(parts.ndim) if d not in spatial]
    order = [("image", lhs_spec[0]), ("kernel", rhs_spec[0])]
    order += [("image", d) for d in lhs_spec[2:]]
    axes = [rest.index(at[key]) for key in order]
    return lax.transpose(total, [axes[out_spec.index(d)] for d in range(lhs.ndim)])


# ---- in tiles


direct_convolution_p = Primitive("direct_convolution")
# The same, of sums over all images.
direct_sum_p = Primitive("direct_convolution_over_images")


class Direct(Elements):
    """The row of a convolution in tiles, whose operands are in memory."""

    def lower(self, walk, eqn):
        for atom in eqn.invars:
            made = walk.made_by.get(atom) if isinstance(atom, Var) else None
            if made and made.primitive is not optimization_barrier_p:
                walk.stored.setdefault(atom, ("windows", "windows read it many times"))
        walk.value(eqn, self)


# ---- in place of the equations


def rewritten(eqn):
    """A convolution as equations: without holes, and in tiles; None for others."""
    if eqn.primitive is not conv_general_dilated_p:
        return None
    if has_phases(eqn):
        spec, out = eqn.params["dimension_numbers"].out_spec, eqn.outvars[0].aval
        counts = [out.shape[d] for d in spec[2:]]
        eqns = written_out(eqn, in_phases, counts=counts)
        return [new for e in eqns for new in rewritten(e) or [e]]
    if has_shifts(eqn):
        return written_out(eqn, in_shifts)
    if not has_tiles(eqn):
        return None
    over_images = is_over_images(eqn.params["dimension_numbers"])
    primitive = direct_sum_p if over_images else direct_convolution_p
    here = lambda e: e.primitive is conv_general_dilated_p
    eqns = written_out(eqn, with_tiles)
    return [e.replace(primitive=primitive) if here(e) else e for e in eqns]


expansions |= {"direct_convolutions": everywhere(rewritten)}
row = Direct(conv_lower, total=True)
lower_rules |= {direct_convolution_p: row, direct_sum_p: row}
# What computes the images does not share the loops over tiles.
barriers[direct_sum_p] = "all images"
rules |= {
    "all images": (
        False, "each tile of a convolution reads all images", "direct_convolutions"
    ),
}  # fmt: skip
settings_of_rules |= {"windows": ("direct_convolutions",)}
