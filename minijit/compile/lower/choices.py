"""Rows of `lower_rules` for powers, choices among operands, and windows of arrays.

Guards come before loads: an element outside of an operand is asked for at the nearest
index inside, and then not taken.  What writes to single elements is a copy of the
operand in one kernel and the writing in another.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...trace import primitives as lax, slicing
from ...trace.numpy_values import by_squaring
from ...trace.primitives import floor_p, rem_p
from ..decisions import loop_rules, noted
from ..loops.expressions import Axis, Const, Reduce, as_index, op
from ..loops.graphs import free_axes
from ..loops.index_rules import known
from ..loops.scalars import BOOL
from ..loops.statements import If, Store
from ..pipeline import row_choosers
from ..settings import config
from .calls import add_nest, fill
from .elements import affine, compute, one_operation, reduced_index, widen
from .walk import Elements, Operand, Statements, lower_rules, new_axis


# Parts of an array that lie in pieces of fewer elements are stored by one kernel.
SHORT_PART = 64
# A loop is cut into so many ranges at most, each of which is code of its own; what is
# put together of more parts is stored.
MOST_RANGES = 8


def integer_pow(out, index, x, *, y):
    """By squaring, as the eval rule does it."""
    result = by_squaring(widen(x[index]), abs(y), partial(op, "mul"))
    if result is None:
        return Const(1, out.dtype)
    if y < 0:
        result = op("div", Const(1, result.dtype), result)
    return op("convert", result, dtype=out.dtype)


def power(out, index, x, y):
    y = op("convert", y.spread(index), dtype=out.dtype)
    return compute("pow", x.spread(index), y, dtype=out.dtype)


def squeeze(out, index, x, *, dimensions):
    rest = iter(index)
    return x[tuple(0 if d in dimensions else next(rest) for d in range(len(x.shape)))]


def select_n(out, index, which, *cases, first=0):
    """One `select` for two cases; for more, one for each but the last."""
    which = which.spread(index)
    if which.dtype == BOOL:
        if_false, if_true = (cases * 2)[:2]
        return op("select", which, if_true[index], if_false[index])
    result = cases[-1][index]
    for i, case in reversed(list(enumerate(cases[:-1], first))):
        here = op("le", which, Const(i, which.dtype))
        result = op("select", here, case[index], result)
    return result


def lower_select(walk, eqn):
    """`select_n` of many cases: a few at a time, each kernel over what others chose."""
    var, = eqn.outvars
    which, *cases = map(Operand, eqn.invars)
    axes = tuple(map(new_axis, var.aval.shape))
    walk.stored.setdefault(var, ("parts", f"{eqn.primitive} is stored part by part"))
    step = config.fusion.most_buffers - 2
    for first in reversed(range(0, len(cases) * bool(var.aval.size), step)):
        some = cases[first : first + step]
        value = select_n(var.aval, axes, which, *some, first=first)
        store = Store(var, axes, value)
        here = op("ge", which.spread(axes), Const(first, which.dtype))
        add_nest(walk, eqn, var, If(here, (store,)) if first else store, axes)


def concatenate(out, index, *xs, dimension):
    """The element of the part that `index` falls into, each asked at a safe index."""
    end, result, fixed = out.shape[dimension], None, known(index[dimension])
    for x in reversed([x for x in xs if x.shape[dimension]]):
        size = x.shape[dimension]
        end -= size
        if fixed is not None and not end <= fixed < end + size:
            continue
        inside = op("sub", index[dimension], as_index(end))
        where = (*index[:dimension], clamped(inside, size), *index[dimension + 1 :])
        element = x[where]
        if result is None:
            result = element
        else:
            before = op("lt", index[dimension], as_index(end + size))
            result = op("select", before, element, result)
    return result


def lower_parts(walk, eqn):
    """`concatenate` of many operands: each is stored where it belongs."""
    var, = eqn.outvars
    dim, end, chunks = eqn.params["dimension"], 0, []
    walk.stored.setdefault(var, ("parts", f"{eqn.primitive} is stored part by part"))
    readers = list(walk.readers[var])
    for atom in eqn.invars:
        shape, first = atom.aval.shape, end
        end += shape[dim]
        if not atom.aval.size:
            continue
        reads = walk.estimates.read_by(eqn.replace(invars=(atom,)))
        if not (chunks and chunks[-1].takes(shape, reads, dim)):
            chunks.append(Chunk(shape, [], frozenset()))
        chunks[-1].parts.append((atom, first))
        chunks[-1].reads |= reads
    noted("parts of an array", eqn, kernels=len(chunks))
    for chunk in chunks:
        axes = tuple(map(new_axis, chunk.shape))
        group = walk.groups.new(axes)
        for atom, first in chunk.parts:
            where = (*axes[:dim], affine(axes[dim], 1, first), *axes[dim + 1 :])
            group.stores.append(Store(var, where, Operand(atom)[axes]))
        fill(walk, group, eqn, readers, chunk.reads)


def asked_along(walk, eqn, dims):
    """The indices at which a result is asked for along some dimensions."""
    asked = [i for where in walk.readers[eqn.outvars[0]].values() for i in where]
    return [index[d] for index in asked for d in dims]


@dataclass(frozen=True)
class Parts(Elements):
    """The row of `concatenate`: elements choose a part, where a loop can be cut so that
    they need not; the loop of a total along all parts is one."""

    def lower(self, walk, eqn):
        along = free_axes(asked_along(walk, eqn, [eqn.params["dimension"]]))
        if any(axis.kind != "loop" for axis in along):
            lower_parts(walk, eqn)
        else:
            walk.value(eqn, self)


@dataclass
class Chunk:
    """Parts of one shape that one kernel stores: pairs (atom, where it begins)."""

    shape: tuple
    parts: list
    reads: frozenset

    def takes(self, shape, reads, dim):
        """Whether another part may come to these."""
        limits, buffers = config.fusion, len(self.reads | reads) + 1
        short = math.prod(shape[dim:]) < SHORT_PART
        return shape == self.shape and short and buffers <= limits.most_buffers


loop_rules |= {
    "parts of an array": (
        True, "its many parts are stored, a few shapes by a kernel", "most_buffers"
    ),
}  # fmt: skip


def many_operands(eqn):
    """The row of an equation that has too many operands to choose from.

    Few are chosen from element by element, and so can be inlined.
    """
    many = len(eqn.invars) > config.fusion.most_buffers
    if eqn.primitive is lax.concatenate_p:
        # A single number is asked for by few.
        many |= sum(x.aval.size > 1 for x in eqn.invars) > MOST_RANGES
        return Statements(lower_parts) if many else None
    if eqn.primitive is lax.select_n_p:
        return Statements(lower_select) if many else None
    return None


row_choosers |= {"many_operands": many_operands}


def clamped(i, size):
    """The index nearest to i of an axis of `size` elements."""
    return op("max", op("min", as_index(i), as_index(size - 1)), as_index(0))


def arg_reduction(name):
    """The row of argmax or argmin: a Reduce of pairs (element, where it stands)."""

    def rule(out, index, x, *, axes, index_dtype):
        where, over = reduced_index(index, x.shape, axes)
        position = op("convert", over[0], dtype=index_dtype)
        if not isinstance(over[0], Axis):
            return position
        best = Reduce(name, over, (widen(x[where]), position))
        return op("item", best, as_index(1), dtype=index_dtype)

    return Elements(rule, total=True)


lower_rules |= {
    lax.pow_p: Elements(power, 20),
    lax.integer_pow_p: Elements(integer_pow, 3),
    lax.squeeze_p: Elements(squeeze, cost=0),
    lax.select_n_p: Elements(select_n),
    lax.concatenate_p: Parts(concatenate),
    lax.argmax_p: arg_reduction("argmax"),
    lax.argmin_p: arg_reduction("argmin"),
}


def rev(out, index, x, *, dimensions):
    return x[tuple(
        affine(i, -1, n - 1) if d in dimensions else i
        for d, (i, n) in enumerate(zip(index, x.shape, strict=True))
    )]


def pad(out, index, x, value, *, padding_config):
    """The operand's element, or the padding outside of it and between its elements."""
    where, inside = [], Const(True, BOOL)
    for i, n, widths in zip(index, x.shape, padding_config, strict=True):
        low, _, interior = widths
        place, here = undilated(op("sub", i, as_index(low)), n, interior + 1)
        where.append(place)
        inside = op("and", inside, here)
    if 0 in x.shape:
        return value[()]
    return op("select", inside, x[tuple(where)], value[()])


@dataclass(frozen=True)
class Padded(Elements):
    """The row of `pad`: it is stored for a total along what is padded, as parts are."""

    def lower(self, walk, eqn):
        dims = [d for d, w in enumerate(eqn.params["padding_config"]) if any(w)]
        along = asked_along(walk, eqn, dims)
        if any(isinstance(i, Axis) and i.kind != "loop" for i in along):
            why = "parts", "a total goes along its padding"
            walk.stored.setdefault(eqn.outvars[0], why)
        walk.value(eqn, self)


def undilated(i, n, step):
    """Where position i falls among n elements that lie `step` apart.

    Returns:
      (an index in bounds, the condition that an element lies at i).
    """
    inside = both(op("ge", i, as_index(0)), op("lt", i, as_index((n - 1) * step + 1)))
    if step > 1:
        between = op("mod", i, as_index(step))
        inside = both(inside, op("eq", between, as_index(0)))
        i = op("floordiv", i, as_index(step))
    return clamped(i, n), inside


def both(x, y):
    return op("and", x, y)


def integer_index(x):
    """An integer expression as an index; what is too large for one stays too large."""
    if x.dtype == np.uint64:
        x = op("min", x, Const(2**63 - 1, x.dtype))
    return as_index(x)


def dynamic_slice(out, index, x, *starts, slice_sizes):
    """Each start is moved so far that the window fits."""
    where = []
    for i, start, n, size in zip(index, starts, x.shape, slice_sizes, strict=True):
        where.append(op("add", clamped(integer_index(start[()]), n - size + 1), i))
    return x[tuple(where)]


def store_operand(walk, eqn):
    """Let a kernel copy the operand to the result, before others write to it."""
    var, = eqn.outvars
    walk.store(eqn, Elements(lambda out, index, x, *rest, **params: x[index]), var)


def lower_update_slice(walk, eqn):
    """`dynamic_update_slice`: copy the operand, then store the update over it."""
    operand, update, *starts = map(Operand, eqn.invars)
    axes, where = tuple(map(new_axis, update.shape)), []
    sizes = zip(axes, starts, operand.shape, update.shape, strict=True)
    for axis, start, n, size in sizes:
        first = clamped(integer_index(start[()]), n - size + 1)
        where.append(op("add", first, axis))
    var, = eqn.outvars
    if 0 not in update.shape:
        add_nest(walk, eqn, var, Store(var, tuple(where), update[axes]), axes)
    else:
        walk.stored.setdefault(var, ("root", f"{eqn.primitive} writes to a copy"))
    store_operand(walk, eqn)


lower_rules |= {
    slicing.rev_p: Elements(rev, cost=0),
    slicing.pad_p: Padded(pad),
    slicing.dynamic_slice_p: Elements(dynamic_slice),
    slicing.dynamic_update_slice_p: Statements(lower_update_slice),
}
lower_rules |= {floor_p: one_operation("floor"), rem_p: one_operation("rem", 4)}
