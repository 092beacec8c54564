"""How gathers and scatters become loops."""

import numpy as np

from ...compile.loops.expressions import Const, as_index, op
from ...compile.loops.index_rules import known
from ...compile.loops.scalars import BOOL
from ...compile.loops.statements import If, Store
from ...compile.lower.calls import add_nest
from ...compile.lower.choices import both, clamped, integer_index, store_operand
from ...compile.lower.walk import (
    At, Elements, Operand, Statements, lower_rules, new_axis,
)
from ...compile.memory.complex_pairs import stored_as_pairs
from ..scatter import (
    GatherScatterMode, combining, gather_p, scatter_add_p, scatter_mul_p, scatter_p,
    scatter_sub_p, window_axes,
)


def windows_start(indices, batch, shape, sizes, index_map):
    """Where a window of a gather or scatter starts, from its index vector.

    Args:
      indices: the operand with the index vectors along its last axis.
      batch: the index of the vector.
      shape, sizes: of the array and of the window in it.

    Returns:
      ({axis: start}, {axis: start moved so that the window fits}, whether it fitted).
    """
    starts, moved, fits = {}, {}, Const(True, BOOL)
    for k, d in enumerate(index_map):
        start, limit = integer_index(indices[(*batch, k)]), shape[d] - sizes[d]
        starts[d], moved[d] = start, clamped(start, limit + 1)
        fits = both(fits, op("ge", start, as_index(0)))
        fits = both(fits, op("le", start, as_index(limit)))
    return starts, moved, fits


def window_index(rank, starts, window, inner, batching, batch):
    """The index into an array: start of the window plus the index in the window."""
    where = []
    for d in range(rank):
        i = starts.get(d, as_index(0))
        if d in batching:
            i = op("add", i, batch[batching[d]])
        if d in window:
            i = op("add", i, inner[window.index(d)])
        where.append(i)
    return tuple(where)


def gather_lower(
    out, index, x, indices, *, dimension_numbers, slice_sizes, mode, **params
):
    """The operand's element at the window's start plus the index in the window."""
    offset, collapsed, index_map, op_batching, ix_batching = dimension_numbers
    fill_mode = mode is GatherScatterMode.FILL_OR_DROP
    fill = np.asarray(params["fill_value"]).astype(x.dtype) if fill_mode else 0
    if 0 in x.shape:
        return Const(fill, x.dtype)
    batch = [i for d, i in enumerate(index) if d not in offset]
    inner = [index[d] for d in offset]
    window = window_axes(len(x.shape), collapsed, op_batching)
    batching = dict(zip(op_batching, ix_batching, strict=True))
    _, starts, fits = windows_start(indices, batch, x.shape, slice_sizes, index_map)
    element = x[window_index(len(x.shape), starts, window, inner, batching, batch)]
    return op("select", fits, element, Const(fill, x.dtype)) if fill_mode else element


def lower_scatter(combine):
    """The row of a scatter: copy the operand, then store or combine each update.

    Updates of one element are applied in the order of their indices, unless the caller
    promises that there is only one.
    """

    def function(walk, eqn):
        operand, indices, updates = map(Operand, eqn.invars)
        var, = eqn.outvars
        if 0 not in updates.shape and 0 not in operand.shape:
            statement, axes = scatter_store(
                var, combine, operand.shape, indices, updates, **eqn.params
            )
            add_nest(walk, eqn, var, statement, axes)
        store_operand(walk, eqn)

    return Statements(function)


def scatter_store(
    var, combine, shape, indices, updates, *, dimension_numbers, mode,
    unique_indices, **params,
):
    """The statement that takes one update in, and the axes of the loops around it."""
    window_dims, inserted, index_map, op_batching, ix_batching = dimension_numbers
    window = window_axes(len(shape), inserted, op_batching)
    axes = tuple(
        new_axis(n, "loop" if unique_indices or d in window_dims else "serial")
        for d, n in enumerate(updates.shape)
    )
    batch = [axis for d, axis in enumerate(axes) if d not in window_dims]
    inner = [axes[d] for d in window_dims]
    sizes = [1] * len(shape)
    for d, u in zip(window, window_dims, strict=True):
        sizes[d] = updates.shape[u]
    batching = dict(zip(op_batching, ix_batching, strict=True))
    starts, moved, fits = windows_start(indices, batch, shape, sizes, index_map)
    sure = mode is GatherScatterMode.CLIP or known(fits)
    place = lambda at: window_index(len(shape), at, window, inner, batching, batch)
    where, value = place(moved if sure else starts), updates[axes]
    if combine == "mul" and value.dtype.kind == "c":
        # Each part of a product takes both parts of what is there, which may be loaded
        # before it is known whether the update fits.
        value, combine = op("mul", At(var, place(moved)), value), None
    store = Store(var, where, value, combine)
    return (store if sure else If(fits, (store,))), axes


lower_rules |= {gather_p: Elements(gather_lower, 2)}
lower_rules |= {p: lower_scatter(name) for p, (_, name) in combining.items()}
stored_as_pairs |= {scatter_p, scatter_add_p, scatter_mul_p, scatter_sub_p}
