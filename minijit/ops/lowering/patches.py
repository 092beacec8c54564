"""Convolutions as products: what each window sees is a row of a matrix.

    { lambda ; a:f32[8,28,28,32] b:f32[3,3,32,64]. let
        c:f32[8,28,28,3,3,32] = patches[...] a          # 9 times the image, row by row
        d:f32[8,28,28,64] = dot_general[...] c b        # one product
      in (d,) }

That is how a convolution of floats with several features is lowered, and the gradients
by both of its operands, which are convolutions too.  The patches lie as the image does:
what is adjacent there is adjacent here, so that they are copied in runs, and the BLAS
takes their rows or their columns.  Others (one feature a group, integers, small ones)
are loops over the windows, see `conv_lower`.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...compile.decisions import loop_rules, noted
from ...compile.loops.expressions import Const, op
from ...compile.loops.scalars import BOOL, FLOAT32
from ...compile.lower.choices import both, undilated
from ...compile.lower.elements import affine
from ...compile.lower.factors import large_products
from ...compile.lower.walk import Elements, lower_rules
from ...compile.pipeline import expansions
from ...compile.settings import config
from ...trace import primitives as prim, slicing
from ...trace.core import Primitive
from ...trace.jaxprs.jaxpr import Eqn, Var
from ...transform.equations import everywhere
from ..convolution import conv_general_dilated_p

patches_p = Primitive("patches")
# A convolution that gives fewer channels is no product of patches.
FEWEST = 4


@dataclass(frozen=True)
class Window:
    """How one spatial axis is slid over: the place that step i of k elements is at.

    Attributes:
      axis: of the image; size: of it there.
      stride, dilation: from a step to the next, and between a kernel's elements.
      low: what is padded before it; holes: how far apart its own elements are.
      length: of the kernel; flipped: whether it is turned round.
    """

    axis: int
    size: int
    stride: int
    dilation: int
    low: int
    holes: int
    length: int
    flipped: bool

    def at(self, i, k):
        """(the index in the image, whether there is an element)"""
        if self.flipped:
            k = affine(k, -1, self.length - 1)
        first = affine(i, self.stride, -self.low)
        place = op("add", first, affine(k, self.dilation, 0))
        return undilated(place, self.size, self.holes)


def patches_row(out, index, x, *, axes, windows):
    """The element of an image in a window, or 0 beside the image.

    Args:
      axes: for each axis of the result what it is: an axis of the image that stays, as
        ("same", axis), ("step", n) of window n or ("kernel", n).
    """
    where, inside = dict(zip(axes, index, strict=True)), Const(True, BOOL)
    place = {axis: i for (kind, axis), i in where.items() if kind == "same"}
    for n, window in enumerate(windows):
        i, k = where["step", n], where["kernel", n]
        place[window.axis], here = window.at(i, k)
        inside = both(inside, here)
    value = x[tuple(place[d] for d in range(len(x.shape)))]
    return op("select", inside, value, Const(0, out.dtype))


lower_rules |= {patches_p: Elements(patches_row, cost=8)}


def summed_in_window(eqn):
    """How many products one number of a convolution's result is the sum of."""
    kernel = eqn.invars[1].aval
    features = kernel.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
    return kernel.size // max(features, 1)


def is_large(eqn):
    """Whether a convolution has so many products that a copy of its image is little."""
    work = eqn.outvars[0].aval.size * summed_in_window(eqn)
    return work > config.fusion.small_product


large_products[conv_general_dilated_p] = is_large, summed_in_window


def is_product(eqn):
    """Whether a convolution had better be a product of its patches."""
    (lhs, rhs), (out,) = eqn.invars, eqn.outvars
    groups = eqn.params["feature_group_count"] * eqn.params["batch_group_count"]
    features = rhs.aval.shape[eqn.params["dimension_numbers"].rhs_spec[0]]
    each = rhs.aval.size // max(features, 1)
    same = lhs.aval.dtype == rhs.aval.dtype == out.aval.dtype
    floats = same and out.aval.dtype in (FLOAT32, np.float64)
    work = out.aval.size * each
    wide, large = features >= FEWEST and each > 1, is_large(eqn)
    if not (floats and groups == 1 and lhs.aval.size):
        return False
    rule = "patches" if wide and large else "no patches"
    return noted(rule, eqn, features=features, multiplications=work)


loop_rules |= {
    "patches": (
        True, "it is a product of matrices of patches", "small_product",
        "direct_convolutions",
    ),
    "no patches": (
        False, "so small a convolution is no product of patches", "small_product"
    ),
}  # fmt: skip


def windows_of(eqn, flipped):
    """The `Window` of each spatial axis of a convolution."""
    p, spec = eqn.params, eqn.params["dimension_numbers"]
    lhs, rhs = (x.aval.shape for x in eqn.invars)
    return tuple(
        Window(
            axis, lhs[axis], p["window_strides"][n], p["rhs_dilation"][n],
            p["padding"][n][0], p["lhs_dilation"][n], rhs[spec.rhs_spec[2 + n]],
            spec.rhs_spec[2 + n] in flipped,
        )
        for n, axis in enumerate(spec.lhs_spec[2:])
    )


def as_product(eqn, makers):
    """A convolution as equations: patches, their product with the kernel, a transpose.

    Args:
      makers: {variable: its equation}: a kernel that is turned round is read so.
    """
    (image, kernel), (out,) = eqn.invars, eqn.outvars
    spec, flipped = eqn.params["dimension_numbers"], ()
    if is_pointwise(eqn):
        return pointwise(eqn)
    made = makers.get(kernel) if isinstance(kernel, Var) else None
    if made is not None and made.primitive is slicing.rev_p:
        spatial = spec.rhs_spec[2:]
        if set(made.params["dimensions"]) <= {*spatial}:
            (kernel,), flipped = made.invars, made.params["dimensions"]
    windows = windows_of(eqn, flipped)
    steps = range(len(windows))
    # Which axis of the result, and of the kernel, each axis of the patches is.
    rows = {("same", spec.lhs_spec[0]): spec.out_spec[0]}
    rows |= {("step", n): spec.out_spec[2 + n] for n in steps}
    sums = {("same", spec.lhs_spec[1]): spec.rhs_spec[1]}
    sums |= {("kernel", n): spec.rhs_spec[2 + n] for n in steps}
    axes = axes_of(eqn, rows, sums, windows)
    sizes = [out.aval.shape[rows[a]] if a in rows else kernel.aval.shape[sums[a]]
             for a in axes]  # fmt: skip
    patches = Var(image.aval.update(shape=tuple(sizes), weak_type=False))
    params = dict(axes=axes, windows=windows)
    first = Eqn(patches_p, (image,), (patches,), params, eqn.source)
    contract = [[], []]
    for place, axis in enumerate(axes):
        if axis in sums:
            contract[0].append(place)
            contract[1].append(sums[axis])
    # The product has its rows in the patches' order, and the features last.
    order = [rows[a] for a in axes if a in rows] + [spec.out_spec[1]]
    contract = tuple(map(tuple, contract))
    return [first, *product_and_transpose(eqn, patches, kernel, contract, order)]


def product_and_transpose(eqn, lhs, rhs, contract, order):
    """The equations of a product whose axes are those of a convolution in an order."""
    out, = eqn.outvars
    product = Var(out.aval.update(shape=tuple(out.aval.shape[d] for d in order)))
    params = dict(
        dimension_numbers=(contract, ((), ())),
        precision=eqn.params["precision"],
        preferred_element_type=out.aval.dtype,
    )
    one = Eqn(prim.dot_general_p, (lhs, rhs), (product,), params, eqn.source)
    back = dict(permutation=tuple(order.index(d) for d in range(len(order))))
    return [one, Eqn(prim.transpose_p, (product,), (out,), back, eqn.source)]


def is_pointwise(eqn):
    """Whether each window is one place of the image, and each place in one window."""
    spec, p = eqn.params["dimension_numbers"], eqn.params
    image, kernel, out = (x.aval.shape for x in (*eqn.invars, *eqn.outvars))
    alike = all(
        kernel[k] == 1 and image[d] == out[o]
        for d, k, o in zip(spec.lhs_spec[2:], spec.rhs_spec[2:], spec.out_spec[2:],
                           strict=True)
    )  # fmt: skip
    plain = set(p["window_strides"]) | set(p["lhs_dilation"]) == {1}
    return alike and plain and not any(low for low, _ in p["padding"])


def pointwise(eqn):
    """A convolution with a kernel of one place: the product without any patches."""
    image, kernel = eqn.invars
    spec = eqn.params["dimension_numbers"]
    features = spec.rhs_spec[:2]
    shape = tuple(kernel.aval.shape[d] for d in sorted(features))
    weights = Var(kernel.aval.update(shape=shape))
    params = dict(new_sizes=shape, dimensions=None)
    first = Eqn(prim.reshape_p, (kernel,), (weights,), params, eqn.source)
    contract = (spec.lhs_spec[1],), (int(features[1] > features[0]),)
    places = dict(zip(spec.lhs_spec, spec.out_spec, strict=True))
    rest = [d for d in range(image.aval.ndim) if d != spec.lhs_spec[1]]
    order = [places[d] for d in rest] + [spec.out_spec[1]]
    return [first, *product_and_transpose(eqn, image, weights, contract, order)]


def axes_of(eqn, rows, sums, windows):
    """The axes of the patches, so that what is adjacent in the image is adjacent.

    Rows are in the order of the result, sums in that of the kernel; those of the two
    come last that have the image's last axis, and it is the last of them.
    """
    image = eqn.invars[0].aval
    last = max((d for d in range(image.ndim) if image.shape[d] > 1), default=0)
    fast = "same", last
    if fast not in rows and fast not in sums:
        n = [w.axis for w in windows].index(last)
        is_long = eqn.outvars[0].aval.shape[rows["step", n]] >= windows[n].length
        fast = ("step" if is_long else "kernel", n)
    groups = [sorted(group, key=group.get) for group in (rows, sums)]
    outer, inner = groups if fast in sums else groups[::-1]
    inner = [a for a in inner if a != fast] + [fast]
    batch = "same", eqn.params["dimension_numbers"].lhs_spec[0]
    if batch in inner[:1] and math.prod(image.shape) > image.shape[batch[1]]:
        # An image after the other: its windows are one product.
        outer, inner = [batch, *outer], inner[1:] or [batch]
        outer = outer if inner != [batch] else outer[1:]
    return (*outer, *inner)


def convolutions(jaxpr):
    """A jaxpr with those convolutions as products that had better be ones."""
    makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}

    def rule(eqn):
        here = eqn.primitive is conv_general_dilated_p and is_product(eqn)
        return as_product(eqn, makers) if here else None

    return everywhere(rule)(jaxpr)


expansions |= {"patches": convolutions}
