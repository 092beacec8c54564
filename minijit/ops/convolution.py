"""Convolutions: a kernel that slides over an array, and what it adds up there.

    conv_general_dilated(images, kernels, (1, 1), "SAME")  # [n, c, h, w], [o, c, 3, 3]

Strides, padding and holes are those of windows (`ops/windows.py`).  The derivatives by
either operand are convolutions again; so is a batch of them, a group a lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..trace import dtypes, primitives as lax, slicing
from ..trace.array import aval_of, shape_rules
from ..trace.core import Primitive, eval_rules
from ..trace.primitives import all_weak, canonicalize_precision, on_wide
from ..trace.shape_checks import (
    canonicalize_shape, check_kind, check_same_dtypes, is_kind, number,
)
from ..trace.slicing import dilated_size, pad_numpy
from ..trace.types import Array, ArrayLike, DTypeLike
from ..transform.batching.vmap import batch_rules, move_axis, without_axis
from ..transform.batching.windows import merge_into, split_axis
from ..transform.derivatives.linear_functions import bilinear
from ..transform.derivatives.linearize import bilinear_rule, linearize_rules
from ..transform.derivatives.transpose import adding, is_linear, transpose_rules
from .windows import (
    holes_undone, padtype_to_pads, window_counts,
)


class ConvDimensionNumbers(NamedTuple):
    """Which axis is which in a convolution.  JAX: `lax.ConvDimensionNumbers`.

    Attributes:
      lhs_spec: the axes of the input: (batch, features, *spatial).
      rhs_spec: the axes of the kernel: (out features, in features, *spatial).
      out_spec: the axes of the result: (batch, features, *spatial).
    """

    lhs_spec: tuple
    rhs_spec: tuple
    out_spec: tuple


conv_general_dilated_p = Primitive("conv_general_dilated")


def conv_dimension_numbers(
    lhs_shape: int | Sequence[int], rhs_shape: int | Sequence[int],
    dimension_numbers: Any,
) -> Any:
    """A `ConvDimensionNumbers` from strings such as ("NHWC", "HWIO", "NHWC").

    None is ("NCHW", "OIHW", "NCHW") for two spatial axes. The order of the spatial axes
    is theirs in the second string.  JAX: `lax.conv_dimension_numbers`.
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            "convolution requires lhs and rhs ndim to be equal, got "
            f"{len(lhs_shape)} and {len(rhs_shape)}."
        )
    rank = len(lhs_shape)
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    if not isinstance(dimension_numbers, (tuple, list)) or len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers must be None, a ConvDimensionNumbers or a "
            f"triple of strings, got {dimension_numbers!r}."
        )
    names, specials = ("lhs", "rhs", "out"), ("NC", "OI", "NC")
    for name, spec, special in zip(names, dimension_numbers, specials, strict=True):
        if len(spec) != rank or any(spec.count(c) != 1 for c in special):
            raise ValueError(
                f"convolution dimension_numbers for {name} must have {rank} "
                f"characters, {special[0]} and {special[1]} once, got {spec!r}"
            )
    return conv_general_permutations(dimension_numbers)


def conv_general_permutations(dimension_numbers: Any) -> Any:
    """The axes that three strings of a convolution stand for."""
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]
    if not set(spatial) == {*lhs} - {*"NC"} == {*out} - {*"NC"}:
        raise ValueError(
            "convolution dimension_numbers must have the same spatial characters, got "
            f"{tuple(dimension_numbers)}"
        )
    rows = (lhs, "NC"), (rhs, "OI"), (out, "NC")
    return ConvDimensionNumbers(
        *(tuple(spec.index(c) for c in (*special, *spatial)) for spec, special in rows)
    )


def conv_general_dilated(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]], lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    feature_group_count: int = 1, batch_group_count: int = 1, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Convolution: sums of products of the kernel with each window of the input.

    As everywhere in machine learning the kernel is not flipped.

    Args:
      lhs: the input: batch, features and n spatial axes.
      rhs: the kernel: output features, input features and n spatial axes.
      window_strides: n ints.
      padding: "VALID", "SAME", "SAME_LOWER", or n pairs (low, high); may be negative.
      lhs_dilation: how far apart the elements of the input are; by default 1.
      rhs_dilation: how far apart the elements of the kernel are; by default 1.
      dimension_numbers: see `conv_dimension_numbers`.
      feature_group_count: into how many groups the features are divided, each with its
        own part of the output features.
      batch_group_count: into how many groups the batch is divided, likewise.
      precision: as in `dot_general`.
      preferred_element_type: the dtype of the sums and the result.

    JAX: `lax.conv_general_dilated`.
    """
    lhs_shape, rhs_shape = aval_of(lhs).shape, aval_of(rhs).shape
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    ones = (1,) * (len(lhs_shape) - 2)
    window_strides = canonicalize_shape(window_strides)
    lhs_dilation = ones if lhs_dilation is None else canonicalize_shape(lhs_dilation)
    rhs_dilation = ones if rhs_dilation is None else canonicalize_shape(rhs_dilation)
    check_spatial("window_strides", window_strides, lhs_shape)
    check_spatial("lhs_dilation", lhs_dilation, lhs_shape)
    check_spatial("rhs_dilation", rhs_dilation, lhs_shape)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.user_dtype(
            preferred_element_type, "conv_general_dilated"
        )
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=window_strides,
        padding=conv_padding(
            [lhs_shape[d] for d in numbers.lhs_spec[2:]],
            [rhs_shape[d] for d in numbers.rhs_spec[2:]], window_strides, padding,
            lhs_dilation, rhs_dilation,
        ),
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=numbers,
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
    )


def check_spatial(name, numbers, shape):
    """Raise unless a convolution's argument has one number for each spatial axis."""
    if len(numbers) != len(shape) - 2:
        raise ValueError(
            f"conv_general_dilated {name} must have one number for each of the "
            f"{len(shape) - 2} spatial axes of lhs of shape {shape}, got {numbers}"
        )


def conv_padding(sizes, windows, strides, padding, lhs_dilation, rhs_dilation):
    """The padding of a convolution's spatial axes as pairs of ints."""
    if isinstance(padding, str):
        if any(d != 1 for d in lhs_dilation):
            raise ValueError(
                f"padding {padding!r} has no meaning where lhs_dilation is not 1, got "
                f"{lhs_dilation}: give pairs (low, high), or use conv_transpose"
            )
        reach = tuple(map(dilated_size, windows, rhs_dilation))
        return tuple(padtype_to_pads(sizes, reach, strides, padding))
    try:
        return tuple((int(low), int(high)) for low, high in padding)
    except (ValueError, TypeError) as error:
        raise ValueError(
            "padding argument to conv_general_dilated should be a string or a sequence "
            f"of (low, high) pairs, got {padding}"
        ) from error


def check_conv(lhs, rhs, features, batch):
    """Raise unless the features and groups of a convolution fit.

    Args:
      lhs: the shape of the input as (batch, features, *spatial).
      rhs: the shape of the kernel as (out features, in features, *spatial).
      features, batch: the group counts.
    """
    if features < 1 or batch < 1 or (features > 1 and batch > 1):
        raise ValueError(
            "conv_general_dilated feature_group_count and batch_group_count must be "
            f"positive, and one of them 1, got {features} and {batch}"
        )
    if lhs[1] != features * rhs[1]:
        raise ValueError(
            "conv_general_dilated lhs feature dimension size divided by "
            "feature_group_count must equal the rhs input feature dimension size, but "
            f"{lhs[1]} // {features} != {rhs[1]}."
        )
    if rhs[0] % features or rhs[0] % batch or lhs[0] % batch:
        raise ValueError(
            "conv_general_dilated group counts must divide the rhs output feature "
            f"dimension size {rhs[0]}, and batch_group_count also the lhs batch "
            f"dimension size {lhs[0]}, got feature_group_count {features} and "
            f"batch_group_count {batch}."
        )


def conv_dtype(dtype, preferred):
    """The dtype of the sums: `preferred` if it is of the same kind, or wider."""
    if preferred is None or preferred == dtype:
        return dtype
    integral, floating, complexes = (np.integer,), (np.floating,), (np.complexfloating,)
    pairs = [(integral, integral), (integral, floating), (floating, floating)]
    pairs.append((complexes, complexes))
    if not any(is_kind(dtype, a) and is_kind(preferred, b) for a, b in pairs):
        raise TypeError(
            f"conv_general_dilated of {dtype} cannot have preferred_element_type "
            f"{preferred}: integers may become floats, all else keeps its kind"
        )
    if preferred.itemsize < dtype.itemsize:
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"{preferred} for {dtype}."
        )
    return preferred


def conv_shape(lhs, rhs, *, window_strides, padding, dimension_numbers, **params):
    if lhs.ndim != rhs.ndim:
        raise ValueError(
            "conv_general_dilated lhs and rhs must have the same number of dimensions, "
            f"but got {lhs.shape} and {rhs.shape}."
        )
    check_same_dtypes("conv_general_dilated", (lhs, rhs))
    check_kind("conv_general_dilated", lhs.dtype, number)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    left = [lhs.shape[d] for d in lhs_spec]
    right = [rhs.shape[d] for d in rhs_spec]
    groups = params["feature_group_count"], params["batch_group_count"]
    check_conv(left, right, *groups)
    sizes = tuple(map(dilated_size, left[2:], params["lhs_dilation"]))
    counts = window_counts(
        "conv_general_dilated", sizes, right[2:], window_strides, padding,
        params["rhs_dilation"],
    )  # fmt: skip
    in_order = (left[0] // groups[1], right[0], *counts)
    shape = tuple(in_order[out_spec.index(d)] for d in range(lhs.ndim))
    dtype = conv_dtype(lhs.dtype, params["preferred_element_type"])
    return lhs.update(shape=shape, dtype=dtype, weak_type=all_weak((lhs, rhs)))


def window_view(x, windows, strides, dilations):
    """A view [*counts, *windows] of an array, padded already, through windows."""
    reach = tuple(map(dilated_size, windows, dilations))
    if any(r > n for r, n in zip(reach, x.shape, strict=True)):
        counts = [
            max(0, (n - r) // stride + 1)
            for n, r, stride in zip(x.shape, reach, strides, strict=True)
        ]
        return np.empty((*counts, *windows), x.dtype)
    view = np.lib.stride_tricks.sliding_window_view(x, reach)
    return view[tuple(slice(None, None, step) for step in (*strides, *dilations))]


# How many elements of windows to copy side by side at once: a bound of the memory that
# NumPy needs here.  What is compiled has its patches from `patches.py`.
AT_ONCE = 2**23


def conv_numpy(lhs, rhs, *, window_strides, padding, dimension_numbers, **params):
    """Evaluate a convolution: windows as rows of matrices, a product a group."""
    if not (lhs.size and rhs.size):  # A sum of nothing, be the padding what it may.
        known = {"padding": padding, "dimension_numbers": dimension_numbers, **params}
        avals = map(aval_of, (lhs, rhs))
        out = conv_shape(*avals, window_strides=window_strides, **known)
        return np.zeros(out.shape, out.dtype)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    features, batch = params["feature_group_count"], params["batch_group_count"]
    dtype = params["preferred_element_type"]
    lhs, rhs = lhs.transpose(lhs_spec), rhs.transpose(rhs_spec)
    if dtype is not None and lhs.dtype != dtype:
        lhs, rhs = lhs.astype(dtype), rhs.astype(dtype)
    config = [(*p, d - 1) for p, d in zip(padding, params["lhs_dilation"], strict=True)]
    lhs = pad_numpy(lhs, 0, padding_config=[(0, 0, 0), (0, 0, 0), *config])
    windows, strides = (1, 1, *rhs.shape[2:]), (1, 1, *window_strides)
    view = window_view(lhs, windows, strides, (1, 1, *params["rhs_dilation"]))
    out = conv_groups(np.squeeze(view, (lhs.ndim, lhs.ndim + 1)), rhs, features, batch)
    return out.transpose([out_spec.index(d) for d in range(lhs.ndim)])


def conv_groups(view, rhs, features, batch):
    """Products of windows [n, c, *counts, *kernel] with [o, c / features, *kernel].

    Returns:
      [n / batch, o, *counts].
    """
    spatial = rhs.ndim - 2
    n, _, *counts = view.shape[: 2 + spatial]
    groups, kernel = features * batch, rhs.shape[1:]
    rows, size = n // batch, math.prod(rhs.shape[1:])
    # One of the two group counts is 1, so either way the groups become the first axis.
    view = view.reshape(batch, rows, features, rhs.shape[1], *view.shape[2:])
    order = [0, 2, 1, *range(4, 4 + spatial), 3, *range(4 + spatial, view.ndim)]
    view = view.transpose(order).reshape(groups, rows, *counts, *kernel)
    weights = rhs.reshape(groups, rhs.shape[0] // groups, size).transpose(0, 2, 1)
    out = np.empty((groups, rows, math.prod(counts), weights.shape[2]), rhs.dtype)
    step = max(1, AT_ONCE // max(1, groups * math.prod(counts) * size))
    for i in range(0, rows, step):
        part = view[:, i : i + step]
        places = part.shape[1] * math.prod(counts)
        product = part.reshape(groups, places, size) @ weights
        out[:, i : i + step] = product.reshape(*part.shape[:2], *out.shape[2:])
    out = out.transpose(1, 0, 3, 2)
    return out.reshape(rows, rhs.shape[0], *counts)


shape_rules |= {conv_general_dilated_p: conv_shape}
eval_rules |= on_wide({conv_general_dilated_p: conv_numpy})


# A convolution is a product: linear in either operand.
linearize_rules |= {
    conv_general_dilated_p: partial(bilinear_rule, conv_general_dilated_p)
}
bilinear |= {conv_general_dilated_p}


def conv_transpose(ct, x, y, **params):
    if is_linear(x):
        return conv_transpose_input(ct, x, y, **params), None
    return None, conv_transpose_kernel(ct, x, y, **params)


def move_group(x, n, source, target):
    """Take a factor n out of the front of one axis, and put it before another one."""
    x = split_axis(x, source, n)
    order = [d for d in range(x.ndim) if d != source]
    place = order.index(target + (target >= source))
    order.insert(place, source)
    x = lax.transpose(x, order)
    shape = x.shape
    merged = (*shape[:place], n * shape[place + 1], *shape[place + 2 :])
    return lax.reshape(x, merged)


def conv_transpose_input(
    ct, x, y, *, window_strides, padding, lhs_dilation, rhs_dilation,
    dimension_numbers, feature_group_count, batch_group_count, precision,
    preferred_element_type,
):  # fmt: skip
    """Slide the kernel, turned round, over the cotangent: a convolution again."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    groups = max(feature_group_count, batch_group_count)
    pads = holes_undone(
        [x.aval.shape[d] for d in lhs_spec[2:]], [y.shape[d] for d in rhs_spec[2:]],
        window_strides, [ct.shape[d] for d in out_spec[2:]], padding, lhs_dilation,
        rhs_dilation,
    )
    kernel = move_group(y, groups, rhs_spec[0], rhs_spec[1]) if groups > 1 else y
    kernel = lax.convert(slicing.rev(kernel, rhs_spec[2:]), aval_of(ct).dtype)
    swapped = rhs_spec[1], rhs_spec[0], *rhs_spec[2:]
    back = conv_general_dilated(
        ct,
        kernel,
        window_strides=lhs_dilation,
        padding=pads,
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, swapped, lhs_spec),
        feature_group_count=groups,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    back = lax.convert(back, x.aval.dtype)
    if batch_group_count == 1:
        return back
    return move_group(back, groups, lhs_spec[1], lhs_spec[0])


def conv_transpose_kernel(
    ct, x, y, *, window_strides, padding, lhs_dilation, rhs_dilation,
    dimension_numbers, feature_group_count, batch_group_count, precision,
    preferred_element_type,
):  # fmt: skip
    """Slide the cotangent over the input: batch and features change places."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    swapped = [(spec[1], spec[0], *spec[2:]) for spec in dimension_numbers]
    sizes = [x.shape[d] for d in lhs_spec[2:]]
    windows = [y.aval.shape[d] for d in rhs_spec[2:]]
    pads = []
    for n, window, stride, count, (low, _), holes, reach in zip(
        sizes, windows, window_strides, [ct.shape[d] for d in out_spec[2:]],
        padding, lhs_dilation, rhs_dilation, strict=True,
    ):  # fmt: skip
        # As far as the first and the last element of the kernel were slid.
        last = dilated_size(count, stride) + dilated_size(window, reach) - 1
        pads.append((low, last - dilated_size(n, holes) - low))
    back = conv_general_dilated(
        lax.convert(x, aval_of(ct).dtype),
        ct,
        window_strides=rhs_dilation,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(swapped[0], swapped[2], swapped[1]),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    return lax.convert(back, y.aval.dtype)


transpose_rules |= adding({conv_general_dilated_p: conv_transpose})


def conv_batch(lanes, axes, x, y, *, dimension_numbers, **params):
    """Lanes of the input go into its batch, of the kernel into the output features; if
    both have lanes, each lane is a group."""
    x_axis, y_axis = axes
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    features, batch = params["feature_group_count"], params["batch_group_count"]
    conv = partial(conv_general_dilated_p.bind, dimension_numbers=dimension_numbers)
    n = lanes.size
    if n == 0:
        params |= dict(dimension_numbers=dimension_numbers)
        return no_lanes(axes, (x, y), params)
    if x_axis is not None and y_axis is not None:
        x = merge_into(x, x_axis, lhs_spec[0 if batch > 1 else 1])
        y = merge_into(y, y_axis, rhs_spec[0])
        name = "batch_group_count" if batch > 1 else "feature_group_count"
        z = conv(x, y, **{**params, name: n * params[name]})
        return split_axis(z, out_spec[1], n), out_spec[1]
    if x_axis is not None:
        x = merge_grouped(x, x_axis, lhs_spec[0], batch)
        return split_axis(conv(x, y, **params), out_spec[0], n), out_spec[0]
    groups = max(features, batch)
    y = merge_grouped(y, y_axis, rhs_spec[0], groups)
    z = split_axis(conv(x, y, **params), out_spec[1], groups)
    # The output features are now groups, lanes, features of a group.
    z = split_axis(z, out_spec[1] + 1, n)
    z = move_axis(z, out_spec[1] + 1, 0)
    return merge_into(z, out_spec[1] + 1, out_spec[1] + 1), 0


def no_lanes(axes, operands, params):
    """The result of a convolution in no lanes: the type of one lane says its shape."""
    pairs = zip(map(aval_of, operands), axes, strict=True)
    avals = [a if axis is None else without_axis(a, axis) for a, axis in pairs]
    out = shape_rules[conv_general_dilated_p](*avals, **params)
    return lax.full((0, *out.shape), 0, out.dtype), 0


def merge_grouped(x, source, target, groups):
    """Lanes merged into an axis, which is counted without them, inside its groups."""
    x = move_axis(x, source, 0)
    x = split_axis(x, target + 1, groups)
    x = merge_into(x, 0, target + 1)
    return merge_into(x, target, target)


batch_rules |= {conv_general_dilated_p: conv_batch}
