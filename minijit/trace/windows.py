"""Windows that move over arrays: running totals, pooling, convolution.

    cumsum(x, axis=0)                       # x[0], x[0] + x[1], ...
    reduce_window(x, -inf, max, (2, 2), (2, 2))        # the largest of each 2x2 block
    conv(images, kernels, (1, 1), "SAME")   # [n, c, h, w] and [o, c, 3, 3]

A window has a size, a stride (how far it moves), and may have holes (window or rhs
dilation); the array it moves over may be padded, and have holes too (base or lhs
dilation), which are filled with the reduction's identity or with zeros.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from . import dtypes
from .array import aval_of, eval_rules, shape_rules, to_numpy
from .calls import underlying
from .core import Primitive, Tracer
from .indexing import dilated_size, pad, pad_numpy
from .numpy_values import highest, lowest
from .primitives import (
    add,
    all_weak,
    canonicalize_precision,
    convert,
    full,
    max as lax_max,
    min as lax_min,
    mul,
    on_wide,
    select,
    slice as static_slice,
)
from .shape_checks import (
    anything,
    canonicalize_shape,
    check_kind,
    check_same_dtypes,
    is_kind,
    number,
)

cumsum_p, cumprod_p = map(Primitive, ["cumsum", "cumprod"])
cummax_p, cummin_p = map(Primitive, ["cummax", "cummin"])
cumlogsumexp_p = Primitive("cumlogsumexp")


def cumulative(name, kind):
    """The shape rule of a running total over arrays of a kind of dtype."""

    def rule(x, *, axis, reverse):
        check_kind(name, x.dtype, kind)
        if not 0 <= axis < x.ndim:
            raise ValueError(
                f"{name} axis must be in the range [0, {x.ndim}) for an array of shape "
                f"{x.shape}, got {axis}"
            )
        return x

    return rule


def running(ufunc):
    """A running total by a ufunc, in the array's own dtype, from either end."""

    def value(x, *, axis, reverse):
        x = np.flip(x, axis) if reverse else x
        total = ufunc.accumulate(x, axis, dtype=x.dtype)
        return np.flip(total, axis) if reverse else total

    return value


numbers = (cumsum_p, cumprod_p, cummax_p, cummin_p)
shape_rules |= {p: cumulative(p.name, number) for p in numbers}
shape_rules |= {cumlogsumexp_p: cumulative("cumlogsumexp", (np.floating,))}
eval_rules |= on_wide({cumsum_p: running(np.add), cumprod_p: running(np.multiply)})
eval_rules |= on_wide({cummax_p: running(np.maximum), cummin_p: running(np.minimum)})
eval_rules |= on_wide({cumlogsumexp_p: running(np.logaddexp)})


def along_axis(primitive, text):
    """The function that applies a running total; `text` documents it."""

    def function(operand, axis=0, reverse=False):
        return primitive.bind(operand, axis=int(axis), reverse=bool(reverse))

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = f"{text}, along `axis`; from its end if `reverse`."
    return function


cumsum = along_axis(cumsum_p, "Sums of the elements so far")
cumprod = along_axis(cumprod_p, "Products of the elements so far")
cummax = along_axis(cummax_p, "The largest element so far, NaN from the first one on")
cummin = along_axis(cummin_p, "The smallest element so far, NaN from the first one on")
cumlogsumexp = along_axis(cumlogsumexp_p, "log(sum(exp(x))) of the elements so far")


reduce_window_sum_p = Primitive("reduce_window_sum")
reduce_window_max_p = Primitive("reduce_window_max")
reduce_window_min_p = Primitive("reduce_window_min")


def padtype_to_pads(in_shape, window_shape, window_strides, padding):
    """The padding (low, high) of each axis for "VALID", "SAME" or "SAME_LOWER".

    "SAME" pads so that there are ceil(size / stride) windows; an odd one more goes to
    the end, or for "SAME_LOWER" to the beginning.

    JAX: `lax.padtype_to_pads`.
    """
    kind = padding.upper() if isinstance(padding, str) else padding
    if kind not in ("VALID", "SAME", "SAME_LOWER"):
        raise RuntimeError(
            "Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got "
            f"{padding}."
        )
    if any(stride < 1 for stride in window_strides):
        raise ValueError(f"window_strides must be positive, got {window_strides}")
    pads = []
    for n, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        count = -(-n // stride)
        total = max(0, (count - 1) * stride + window - n) if kind != "VALID" else 0
        low = total // 2 if kind != "SAME_LOWER" else total - total // 2
        pads.append((low, total - low))
    return pads


def window_counts(name, sizes, windows, strides, pads, dilations):
    """How many places a window has along each axis.

    Args:
      name: of the primitive, for complaints.
      sizes: of the axes, with the holes in them.
      windows, strides, pads, dilations: one entry for each axis.
    """
    options = {
        "window_dimensions": windows,
        "window_strides": strides,
        "padding": pads,
        "window_dilation": dilations,
    }
    for option, value in options.items():
        if len(value) != len(sizes):
            raise ValueError(
                f"{name} {option} must have one entry for each of {len(sizes)} axes, "
                f"got {value}"
            )
    if any(k < 0 for k in windows) or any(k < 1 for k in (*strides, *dilations)):
        raise ValueError(
            f"{name} window sizes must be nonnegative, strides and dilations positive; "
            f"got {windows}, {strides} and {dilations}"
        )
    counts = []
    for n, k, stride, (low, high), dilation in zip(
        sizes, windows, strides, pads, dilations, strict=True
    ):
        left = low + n + high - dilated_size(k, dilation)
        counts.append(max(0, left // stride + 1))
    return tuple(counts)


def reduce_window_shape(name, kind):
    """The shape rule of a reduction over windows of arrays of a kind of dtype."""

    def rule(
        x, *, window_dimensions, window_strides, padding, base_dilation, window_dilation
    ):
        check_kind(name, x.dtype, kind)
        if len(base_dilation) != x.ndim or any(k < 1 for k in base_dilation):
            raise ValueError(
                f"{name} base_dilation must be a positive int for each axis of the "
                f"operand of shape {x.shape}, got {base_dilation}"
            )
        sizes = tuple(map(dilated_size, x.shape, base_dilation))
        counts = window_counts(
            name, sizes, window_dimensions, window_strides, padding, window_dilation
        )
        return x.update(shape=counts)

    return rule


def over_windows(ufunc, identity):
    """A reduction over windows by a ufunc; `identity(dtype)` fills the holes."""

    def value(
        x, *, window_dimensions, window_strides, padding, base_dilation, window_dilation
    ):
        config = [(*p, d - 1) for p, d in zip(padding, base_dilation, strict=True)]
        x = pad_numpy(x, identity(x.dtype), padding_config=config)
        rows = zip(window_dimensions, window_strides, window_dilation, strict=True)
        # Along one axis after the other: windows are boxes.
        for axis, (window, stride, dilation) in enumerate(rows):
            left = x.shape[axis] - dilated_size(window, dilation)
            count = max(0, left // stride + 1)
            shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            total = np.full(shape, identity(x.dtype), x.dtype)
            for i in range(window if count else 0):
                start = i * dilation
                part = slice(start, start + (count - 1) * stride + 1, stride)
                ufunc(total, x[(slice(None),) * axis + (part,)], out=total)
            x = total
        return x

    return value


shape_rules |= {
    reduce_window_sum_p: reduce_window_shape("reduce_window_sum", number),
    reduce_window_max_p: reduce_window_shape("reduce_window_max", anything),
    reduce_window_min_p: reduce_window_shape("reduce_window_min", anything),
}
eval_rules |= on_wide({
    reduce_window_sum_p: over_windows(np.add, lambda dtype: np.zeros((), dtype)),
    reduce_window_max_p: over_windows(np.maximum, lowest),
    reduce_window_min_p: over_windows(np.minimum, highest),
})


def reduce_window(
    operand,
    init_value,
    computation,
    window_dimensions,
    window_strides=None,
    padding="VALID",
    base_dilation=None,
    window_dilation=None,
):
    """Reduce what is in each place of a window that moves over the operand.

    Args:
      operand: an array, or a tuple or list of arrays of one shape.
      init_value: the scalar that each reduction starts with, or as many of them.
        Padding and holes do not take part.
      computation: (a, b) -> what takes the place of both; associative. `lax.add`,
        `lax.max` and `lax.min` with their identities are primitives of their own;
        others are written out as one operation for each element of the window.
      window_dimensions: the window's size along each axis.
      window_strides: how far it moves, by default 1.
      padding: "VALID", "SAME", "SAME_LOWER", or (low, high) for each axis.
      base_dilation, window_dilation: how far apart the elements of the operand, and of
        the window, are; by default 1.

    JAX: `lax.reduce_window`.
    """
    computation = underlying(computation)
    several = isinstance(operand, (tuple, list))
    operands = operand if several else (operand,)
    inits = init_value if several else (init_value,)
    shape = aval_of(operands[0]).shape
    strides, dilations = window_strides, (base_dilation, window_dilation)
    params = window_params(shape, window_dimensions, strides, padding, *dilations)
    pairs = zip(operands, inits, strict=True)
    inits = [start_of(computation, x, init) for x, init in pairs]
    if not several and is_identity(computation, inits[0]):
        _, primitive = monoids[computation]
        if primitive is not None:
            return primitive.bind(operands[0], **params)
    results = fold_windows(operands, inits, computation, several, params)
    return type(operand)(results) if several else results[0]


def start_of(computation, x, init):
    """The initial value of a reduction of x: of its dtype, or a number that is the
    computation's identity there."""
    dtype = aval_of(x).dtype
    known = type(init) in dtypes.weak_types and computation in monoids
    if known and monoids[computation][0](dtype) == init:
        init = convert(init, dtype)
    aval = aval_of(init)
    check_same_dtypes("reduce_window", (aval_of(x), aval))
    if aval.shape != ():
        raise TypeError(
            f"reduce_window init_value must be a scalar, got shape {aval.shape}"
        )
    return init


def window_params(shape, window, strides, padding, base_dilation, window_dilation):
    """The params of a reduction over windows, with defaults and names filled in."""
    window = canonicalize_shape(window)
    ones = (1,) * len(shape)
    strides, base, dilation = (
        canonicalize_shape(k) if k is not None else ones
        for k in (strides, base_dilation, window_dilation)
    )
    given = {"window_dimensions": window, "window_strides": strides}
    given |= {"base_dilation": base, "window_dilation": dilation}
    for name, entries in given.items():
        if len(entries) != len(shape):
            raise ValueError(
                f"reduce_window {name} must have one entry for each axis of the "
                f"operand, got {entries} for operand shape {shape}"
            )
    if isinstance(padding, str):
        reach = tuple(map(dilated_size, window, dilation))
        padding = padtype_to_pads(shape, reach, strides, padding)
    padding = tuple((int(low), int(high)) for low, high in padding)
    return given | {"padding": padding}


def zero(dtype):
    """The identity of `add`."""
    return np.zeros((), dtype)


def one(dtype):
    """The identity of `mul`."""
    return np.ones((), dtype)


# For a function that reduces: its identity, and the primitive that reduces windows.
monoids = {
    add: (zero, reduce_window_sum_p),
    lax_max: (lowest, reduce_window_max_p),
    lax_min: (highest, reduce_window_min_p),
    mul: (one, None),
}


def is_identity(computation, init):
    """Whether `init` is known, and the value that `computation` does not notice."""
    if isinstance(init, Tracer) or computation not in monoids:
        return False
    identity, _ = monoids[computation]
    return bool(to_numpy(init) == identity(aval_of(init).dtype))


def fold_windows(operands, inits, computation, several, params):
    """Reduce windows by a function: one strided slice for each element of a window."""
    windows, strides = params["window_dimensions"], params["window_strides"]
    padding, dilations = params["padding"], params["window_dilation"]
    shape, base = aval_of(operands[0]).shape, params["base_dilation"]
    sizes = tuple(map(dilated_size, shape, base))
    counts = window_counts("reduce_window", sizes, windows, strides, padding, dilations)
    results = [full(counts, init) for init in inits]
    if 0 in counts:
        return results
    config = [(*p, dilation - 1) for p, dilation in zip(padding, base, strict=True)]
    padded = [pad(x, init, config) for x, init in zip(operands, inits, strict=True)]
    inside = pad_numpy(np.ones(shape, bool), False, padding_config=config)
    if not several and is_identity(computation, inits[0]):
        inside = np.ones_like(inside)
    kind = type(operands) if several else list
    apply = computation if several else lambda a, b: [computation(*a, *b)]
    for offset in itertools.product(*map(range, windows)):
        starts = [i * dilation for i, dilation in zip(offset, dilations, strict=True)]
        steps = zip(starts, counts, strides, strict=True)
        limits = [start + (n - 1) * stride + 1 for start, n, stride in steps]
        parts = kind(static_slice(x, starts, limits, strides) for x in padded)
        before, results = results, apply(kind(results), parts)
        taken = inside[tuple(map(slice, starts, limits, strides))]
        if not taken.all():
            pairs = zip(results, before, strict=True)
            results = [select(taken, new, old) for new, old in pairs]
    return list(results)


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


def conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers):
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


def conv_general_permutations(dimension_numbers):
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
    lhs,
    rhs,
    window_strides,
    padding,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    feature_group_count=1,
    batch_group_count=1,
    precision=None,
    preferred_element_type=None,
):
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
            [rhs_shape[d] for d in numbers.rhs_spec[2:]],
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
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
    """The shape rule of `conv_general_dilated`."""
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
        "conv_general_dilated",
        sizes,
        right[2:],
        window_strides,
        padding,
        params["rhs_dilation"],
    )
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


# How many elements of windows to copy side by side at once.
AT_ONCE = 2**23


def conv_numpy(lhs, rhs, *, window_strides, padding, dimension_numbers, **params):
    """Evaluate a convolution: windows as rows of matrices, a product a group."""
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
    weights = rhs.reshape(groups, -1, size).transpose(0, 2, 1)
    out = np.empty((groups, rows, math.prod(counts), weights.shape[2]), rhs.dtype)
    step = max(1, AT_ONCE // max(1, groups * math.prod(counts) * size))
    for i in range(0, rows, step):
        part = view[:, i : i + step]
        product = part.reshape(groups, -1, size) @ weights
        out[:, i : i + step] = product.reshape(*part.shape[:2], *out.shape[2:])
    out = out.transpose(1, 0, 3, 2)
    return out.reshape(rows, rhs.shape[0], *counts)


shape_rules |= {conv_general_dilated_p: conv_shape}
eval_rules |= on_wide({conv_general_dilated_p: conv_numpy})
