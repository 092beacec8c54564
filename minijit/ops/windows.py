"""Reductions over windows that move over an array: pooling.

    reduce_window(x, -inf, max, (2, 2), (2, 2))        # the largest of each 2x2 block

A window has a size, a stride (how far it moves), and may have holes (window or rhs
dilation); the array it moves over may be padded, and have holes too (base or lhs
dilation), which are filled with the reduction's identity or with zeros.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..trace import dtypes, primitives as lax, slicing
from ..trace.api.calls import underlying
from ..trace.array import aval_of, shape_rules, to_numpy
from ..trace.core import Primitive, Tracer, eval_rules
from ..trace.numpy_values import highest, lowest
from ..trace.shape_checks import (
    anything, canonicalize_shape, check_kind, check_same_dtypes, number,
)
from ..trace.slicing import dilated_size, pad, pad_numpy
from ..trace.types import Shape
from ..transform.batching.vmap import batch_rules
from ..transform.batching.windows import inserted
from ..transform.derivatives import linearize
from ..transform.derivatives.linearize import linearize_rules
from ..transform.derivatives.transpose import adding, transpose_rules

reduce_window_sum_p = Primitive("reduce_window_sum")
reduce_window_max_p = Primitive("reduce_window_max")
reduce_window_min_p = Primitive("reduce_window_min")


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int],
    padding: Any,
) -> Any:
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


# The functions by which there are primitives that reduce windows.
by_function = {
    lax.add: reduce_window_sum_p,
    lax.max: reduce_window_max_p,
    lax.min: reduce_window_min_p,
}
reduced_by = {p: lax.monoids[function] for function, p in by_function.items()}

shape_rules |= {
    p: reduce_window_shape(p.name, number if m.combine is lax.add else anything)
    for p, m in reduced_by.items()
}
eval_rules |= lax.on_wide({
    p: over_windows(m.ufunc, m.identity) for p, m in reduced_by.items()
})


def reduce_window(
    operand: Any, init_value: Any, computation: Callable[..., Any],
    window_dimensions: Shape, window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:  # fmt: skip
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
        if computation in by_function:
            return by_function[computation].bind(operands[0], **params)
    results = fold_windows(operands, inits, computation, several, params)
    return type(operand)(results) if several else results[0]


def start_of(computation, x, init):
    """The initial value of a reduction of x: of its dtype, or a number that is the
    computation's identity there."""
    dtype = aval_of(x).dtype
    known = type(init) in dtypes.python_scalars and computation in lax.monoids
    if known and lax.monoids[computation].identity(dtype) == init:
        init = lax.convert(init, dtype)
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


def is_identity(computation, init):
    """Whether `init` is known, and the value that `computation` does not notice."""
    if isinstance(init, Tracer) or computation not in lax.monoids:
        return False
    identity = lax.monoids[computation].identity(aval_of(init).dtype)
    return bool(to_numpy(init) == identity)


def fold_windows(operands, inits, computation, several, params):
    """Reduce windows by a function: one strided slice for each element of a window."""
    windows, strides = params["window_dimensions"], params["window_strides"]
    padding, dilations = params["padding"], params["window_dilation"]
    shape, base = aval_of(operands[0]).shape, params["base_dilation"]
    sizes = tuple(map(dilated_size, shape, base))
    counts = window_counts("reduce_window", sizes, windows, strides, padding, dilations)
    results = [lax.full(counts, init) for init in inits]
    if 0 in counts:
        return results
    config = [(*p, dilation - 1) for p, dilation in zip(padding, base, strict=True)]
    padded = [pad(x, init, config) for x, init in zip(operands, inits, strict=True)]
    inside = pad_numpy(np.ones(shape, bool), False, padding_config=config)
    if not several and is_identity(computation, inits[0]):
        inside = np.ones_like(inside)
    kind = type(operands) if several else list
    apply = computation if several else lambda a, b: [computation(*a, *b)]
    for where in parts_of_windows(counts, params):
        parts = kind(lax.slice(x, *where) for x in padded)
        before, results = results, apply(kind(results), parts)
        taken = inside[tuple(map(slice, *where))]
        if not taken.all():
            pairs = zip(results, before, strict=True)
            results = [lax.select(taken, new, old) for new, old in pairs]
    return list(results)


def parts_of_windows(counts, params):
    """For each element of a window where it stands in all of them: the starts, limits
    and strides of a slice of the padded array."""
    strides, dilations = params["window_strides"], params["window_dilation"]
    for offset in itertools.product(*map(range, params["window_dimensions"])):
        starts = [i * dilation for i, dilation in zip(offset, dilations, strict=True)]
        steps = zip(starts, counts, strides, strict=True)
        yield starts, [at + (n - 1) * stride + 1 for at, n, stride in steps], strides


# Of an axis along which a window is one element.
ALONE = dict(
    window_dimensions=1, window_strides=1, padding=(0, 0), base_dilation=1,
    window_dilation=1,
)  # fmt: skip


def along(axis, params):
    """The params of windows that are rows along one axis; None if they are elements."""
    if all(values[axis] == ALONE[name] for name, values in params.items()):
        return None
    return {
        name: tuple(x if d == axis else ALONE[name] for d, x in enumerate(values))
        for name, values in params.items()
    }


def extremum_of_rows(primitive, worst, x, params):
    """The extrema of windows that are rows, and the map of a tangent of `x`: to that of
    the first element that attains each."""
    y, fill = primitive.bind(x, **params), worst(aval_of(x).dtype).item()
    shape, dtype = aval_of(y).shape, np.dtype(np.int32)
    places = [*enumerate(parts_of_windows(shape, params))]
    config = zip(params["padding"], params["base_dilation"], strict=True)
    config = [(*p, dilation - 1) for p, dilation in config]
    padded = lambda x, value: pad(x, lax.full((), value, aval_of(x).dtype), config)
    row, which = padded(x, fill), lax.full(shape, len(places) - 1, dtype)
    for k, where in reversed(places[:-1]):
        part = lax.slice(row, *where)
        attains = lax.bitwise_or(lax.eq(part, y), lax.ne(part, part))
        which = lax.select(attains, lax.full(shape, k, dtype), which)

    def tangent(t):
        row = padded(t, 0)
        parts = ((lax.eq(which, k), lax.slice(row, *where)) for k, where in places)
        kept = (lax.select(here, part, lax.full_like(part, 0)) for here, part in parts)
        return functools.reduce(lax.add, kept)

    return y, tangent


# Rows of more elements are rows of shorter ones.
FEW = 8


def in_short_rows(axis, params):
    """The params of a row's windows one after the other, each of few elements.

    Shorter rows first, which begin at each element, and then rows of those, which may
    lie over each other: the first that has the extremum has its first element.
    """
    size, dilation = params["window_dimensions"][axis], params["window_dilation"][axis]
    if size <= FEW:
        return [params]
    step = size // FEW
    put = lambda params, **given: params | {
        name: (*params[name][:axis], value, *params[name][axis + 1 :])
        for name, value in given.items()
    }
    first = put(params, window_dimensions=size - (FEW - 1) * step, window_strides=1)
    last = put(params, window_dimensions=FEW, window_dilation=step * dilation,
               padding=(0, 0), base_dilation=1)  # fmt: skip
    return [*in_short_rows(axis, first), last]


def window_extremum(primitive, worst, nonzero, x, **params):
    """The tangent of a window's extremum is that of the first one that attains it.

    It is in the first of the window's rows with this extremum, and so on.
    """
    counts, maps = shape_rules[primitive](aval_of(x), **params).shape, []
    if 0 in (*counts, *aval_of(x).shape, *params["window_dimensions"]):
        return primitive.bind(x, **params), lambda t: None
    for axis in reversed(range(len(counts))):
        if (row := along(axis, params)):
            for short in in_short_rows(axis, row):
                x, tangent = extremum_of_rows(primitive, worst, x, short)
                maps.append(tangent)
    return x, lambda t: functools.reduce(lambda t, tangent: tangent(t), maps, t)


linearize_rules |= linearize.linear_in_first(reduce_window_sum_p)
linearize_rules |= {
    reduce_window_max_p: partial(window_extremum, reduce_window_max_p, lowest),
    reduce_window_min_p: partial(window_extremum, reduce_window_min_p, highest),
}


def holes_undone(sizes, windows, strides, counts, padding, base, dilation):
    """The padding that makes a window over a cotangent undo one over its operand.

    All arguments have an entry for each axis; see above.
    """
    pads = []
    for n, window, stride, count, (low, _), holes, reach in zip(
        sizes, windows, strides, counts, padding, base, dilation, strict=True
    ):
        before = (window - 1) * reach - low
        after = dilated_size(n, holes) + low - 1
        pads.append((before, after - (count - 1) * stride if count else after))
    return tuple(pads)


def reduce_window_sum_transpose(ct, x, **params):
    """Each element gets the sum of the windows it was in: again a sum over windows."""
    windows, base = params["window_dimensions"], params["base_dilation"]
    strides, dilation = params["window_strides"], params["window_dilation"]
    pads = holes_undone(
        x.aval.shape, windows, strides, ct.shape, params["padding"], base, dilation
    )
    config = [(*p, stride - 1) for p, stride in zip(pads, strides, strict=True)]
    padded = slicing.pad(ct, lax.full((), 0, aval_of(ct).dtype), config)
    back = reduce_window_sum_p.bind(
        padded, window_dimensions=windows, window_strides=base,
        padding=((0, 0),) * padded.ndim, base_dilation=(1,) * padded.ndim,
        window_dilation=dilation,
    )
    return (back,)


transpose_rules |= adding({reduce_window_sum_p: reduce_window_sum_transpose})


def window_batch(primitive, lanes, axes, x, **params):
    """Along the lanes a window has size 1, and moves by 1."""
    axis, = axes
    params = {
        name: inserted(values, axis, (0, 0) if name == "padding" else 1)
        for name, values in params.items()
    }
    return primitive.bind(x, **params), axis


batch_rules |= {p: partial(window_batch, p) for p in reduced_by}
