"""Transposing the rest: rows of `transpose_rules` for the long tail.

    linear_transpose(lambda x: lax.pad(x, 0.0, [(1, 2, 0)]), x)     # a slice
    grad(lambda x: (x[rows] ** 2).sum())(x)                         # a scatter-add

What reads a part of an array is transposed into what writes to that part: a slice into
an update, a gather into a scatter-add.  Those rows take the sum so far and write into
it, so that a thousand indices into one array make a thousand small additions, and not a
thousand arrays of zeros.

There are rows only for what is linear; a `sort` or a `sin` never stands in a linear
program but on residuals.
"""

from functools import partial

from ..trace import elementwise as ew, indexing, primitives as lax
from ..trace.array import aval_of
from ..trace.indexing import dilated_size
from ..trace.windows import (
    ConvDimensionNumbers,
    conv_general_dilated,
    conv_general_dilated_p,
    cumsum,
    cumsum_p,
    reduce_window_sum_p,
)
from .linear_functions import bilinear
from .transpose import (
    adding,
    aval_of_argument,
    is_linear,
    transpose_rules,
    unbroadcast,
)


def complex_transpose(ct, x, y):
    """JAX's convention: a cotangent is no gradient, and nothing is conjugated."""
    back = unbroadcast(ew.real(ct), x) if is_linear(x) else None
    return back, unbroadcast(lax.neg(ew.imag(ct)), y) if is_linear(y) else None


def conj_transpose(ct, x, *, input_dtype):
    return (ew.conj(ct) if input_dtype.kind == "c" else ew.real(ct),)


def cumsum_transpose(ct, x, *, axis, reverse):
    return (cumsum(ct, axis, not reverse),)


transpose_rules |= adding({
    ew.real_p: lambda ct, x: (ew.complex(ct, lax.full_like(ct, 0)),),
    ew.imag_p: lambda ct, x: (ew.complex(lax.full_like(ct, 0), lax.neg(ct)),),
    ew.complex_p: complex_transpose,
    ew.conj_p: conj_transpose,
    ew.reduce_precision_p: lambda ct, x, **bits: (
        ew.reduce_precision_p.bind(ct, **bits),
    ),
    indexing.rev_p: lambda ct, x, *, dimensions: (indexing.rev(ct, dimensions),),
    cumsum_p: cumsum_transpose,
})


def pad_transpose(ct, x, value, *, padding_config):
    """The operand gets its elements back; the padding value the sum of all others."""
    undo = [(-low, -high, 0) for low, high, _ in padding_config]
    zero = lax.full((), 0, aval_of(ct).dtype)
    inner = indexing.pad(ct, zero, undo)
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
        over = indexing.dynamic_update_slice_p.bind(ct, zero, *starts)
    if is_linear(update):
        part = indexing.dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
    return over, part, *[None] * len(starts)


transpose_rules |= adding({
    indexing.pad_p: pad_transpose,
    indexing.dynamic_update_slice_p: dynamic_update_slice_transpose,
})


def sum_so_far(acc, x, ct):
    """The accumulator to write into: zeros if there is none yet."""
    return lax.full(x.aval.shape, 0, aval_of(ct).dtype) if acc is None else acc


def dynamic_slice_transpose(ct, accs, x, *starts, slice_sizes):
    """Add to the window of the sum so far."""
    acc = sum_so_far(accs[0], x, ct)
    if accs[0] is not None:
        here = indexing.dynamic_slice_p.bind(acc, *starts, slice_sizes=slice_sizes)
        ct = lax.add(here, ct)
    acc = indexing.dynamic_update_slice_p.bind(acc, ct, *starts)
    return [acc, *[None] * len(starts)]


def gather_transpose(ct, accs, x, indices, *, dimension_numbers, mode, **params):
    """Add to the sum so far wherever a number was read, as often as it was."""
    acc = indexing.scatter_add_p.bind(
        sum_so_far(accs[0], x, ct),
        indices,
        ct,
        dimension_numbers=indexing.ScatterDimensionNumbers(*dimension_numbers),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode=mode,
    )
    return [acc, None]


transpose_rules |= {
    indexing.dynamic_slice_p: dynamic_slice_transpose,
    indexing.gather_p: gather_transpose,
}


def read_updates(ct, indices, updates, *, dimension_numbers, mode, **params):
    """What each update of a scatter wrote to; 0 if it was dropped."""
    window = dimension_numbers.update_window_dims
    sizes = iter([updates.aval.shape[d] for d in window])
    single = {
        *dimension_numbers.inserted_window_dims,
        *dimension_numbers.operand_batching_dims,
    }
    clips = mode is indexing.GatherScatterMode.CLIP
    return indexing.gather(
        ct,
        indices,
        indexing.GatherDimensionNumbers(*dimension_numbers),
        [1 if d in single else next(sizes) for d in range(ct.ndim)],
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode="clip" if clips else "fill",
        fill_value=None if clips else 0,
    )


def scatter_add_transpose(sign, ct, x, indices, updates, **params):
    back = ct if is_linear(x) else None
    if not is_linear(updates):
        return back, None, None
    part = read_updates(ct, indices, updates, **params)
    return back, None, part if sign > 0 else lax.neg(part)


def scatter_transpose(ct, x, indices, updates, **params):
    """What was written over has no part in the result; each place was written once."""
    over = part = None
    if is_linear(x):
        shape = aval_of_argument(updates).shape
        zero = lax.full(shape, 0, aval_of(ct).dtype)
        over = indexing.scatter_p.bind(ct, indices, zero, **params)
    if is_linear(updates):
        part = read_updates(ct, indices, updates, **params)
    return over, None, part


def scatter_mul_transpose(ct, x, indices, updates, **params):
    """Linear in the operand, or in updates that meet no other update."""
    if is_linear(x):
        return indexing.scatter_mul_p.bind(ct, indices, updates, **params), None, None
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul can be transposed by its updates only if unique_indices=True"
        )
    return None, None, read_updates(lax.mul(ct, x), indices, updates, **params)


transpose_rules |= adding({
    indexing.scatter_add_p: partial(scatter_add_transpose, 1),
    indexing.scatter_sub_p: partial(scatter_add_transpose, -1),
    indexing.scatter_p: scatter_transpose,
    indexing.scatter_mul_p: scatter_mul_transpose,
})


# ---- windows


def holes_undone(sizes, windows, strides, counts, padding, base, dilation):
    """The padding that makes a window over a cotangent undo one over its operand.

    All arguments have an entry for each axis; see `trace.windows`.
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
    padded = indexing.pad(ct, lax.full((), 0, aval_of(ct).dtype), config)
    back = reduce_window_sum_p.bind(
        padded,
        window_dimensions=windows,
        window_strides=base,
        padding=((0, 0),) * padded.ndim,
        base_dilation=(1,) * padded.ndim,
        window_dilation=dilation,
    )
    return (back,)


def conv_transpose(ct, x, y, **params):
    if is_linear(x):
        return conv_transpose_input(ct, x, y, **params), None
    return None, conv_transpose_kernel(ct, x, y, **params)


def split_axis(x, axis, n):
    """x with one axis made two, the first of size n."""
    shape = x.shape
    sizes = (*shape[:axis], n, shape[axis] // n, *shape[axis + 1 :])
    return lax.reshape(x, sizes)


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
        [x.aval.shape[d] for d in lhs_spec[2:]],
        [y.shape[d] for d in rhs_spec[2:]],
        window_strides,
        [ct.shape[d] for d in out_spec[2:]],
        padding,
        lhs_dilation,
        rhs_dilation,
    )
    kernel = move_group(y, groups, rhs_spec[0], rhs_spec[1]) if groups > 1 else y
    kernel = lax.convert(indexing.rev(kernel, rhs_spec[2:]), aval_of(ct).dtype)
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


transpose_rules |= adding({
    reduce_window_sum_p: reduce_window_sum_transpose,
    conv_general_dilated_p: conv_transpose,
})
bilinear |= {conv_general_dilated_p}
