"""Rows of `transpose_rules` for windows: what read one writes to it.

    linear_transpose(lambda x: lax.pad(x, 0.0, [(1, 2, 0)]), x)     # a slice

A window read where an index says is transposed into an update.  That row takes the sum
so far and writes into it, so that a thousand windows of one array make a thousand small
additions, and not a thousand arrays of zeros.
"""

from ...trace import primitives as lax, slicing
from ...trace.array import aval_of
from .transpose import adding, aval_of_argument, is_linear, transpose_rules


def pad_transpose(ct, x, value, *, padding_config):
    """The operand gets its elements back; the padding value the sum of all others."""
    undo = [(-low, -high, 0) for low, high, _ in padding_config]
    zero = lax.full((), 0, aval_of(ct).dtype)
    inner = slicing.pad(ct, zero, undo)
    steps = [interior + 1 for _, _, interior in padding_config]
    part = lax.slice(inner, [0] * inner.ndim, inner.shape, steps)
    rest = None
    if is_linear(value):
        axes = range(ct.ndim)
        rest = lax.sub(lax.reduce_sum(ct, axes), lax.reduce_sum(part, axes))
    return part if is_linear(x) else None, rest


def dynamic_update_slice_transpose(ct, x, update, *starts):
    """What was written over has no part in the result."""
    shape = aval_of_argument(update).shape
    over = part = None
    if is_linear(x):
        zero = lax.full(shape, 0, aval_of(ct).dtype)
        over = slicing.dynamic_update_slice_p.bind(ct, zero, *starts)
    if is_linear(update):
        part = slicing.dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
    return over, part, *[None] * len(starts)


transpose_rules |= adding({
    slicing.rev_p: lambda ct, x, *, dimensions: (slicing.rev(ct, dimensions),),
    slicing.pad_p: pad_transpose,
    slicing.dynamic_update_slice_p: dynamic_update_slice_transpose,
})


def sum_so_far(acc, x, ct):
    """The accumulator to write into: zeros if there is none yet."""
    return lax.full(x.aval.shape, 0, aval_of(ct).dtype) if acc is None else acc


def dynamic_slice_transpose(ct, accs, x, *starts, slice_sizes):
    """Add to the window of the sum so far."""
    acc = sum_so_far(accs[0], x, ct)
    if accs[0] is not None:
        here = slicing.dynamic_slice_p.bind(acc, *starts, slice_sizes=slice_sizes)
        ct = lax.add(here, ct)
    acc = slicing.dynamic_update_slice_p.bind(acc, ct, *starts)
    return [acc, *[None] * len(starts)]


transpose_rules |= {slicing.dynamic_slice_p: dynamic_slice_transpose}
