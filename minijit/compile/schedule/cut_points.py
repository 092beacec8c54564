"""Where along a loop the answers to comparisons change, so that it may be cut there.

    for i in 300:                               cut_points(i, body)      # [100], {}
      y[i] = a[i] * 2 if i < 100 else b[i]
"""

from ..loops.contents import loads_within, stored_in, totals_in
from ..loops.expressions import Const, Op, as_index, op
from ..loops.graphs import postorder
from ..loops.index_rules import known
from ..loops.scalars import BOOL, INDEX, is_half, wide_dtype
from ..loops.statements import For, expressions, statements
from ..numbers.scalar_forms import scalar_form
from .machine import Machine
from .nests import rest_of
from .weights import weight


def is_function(expr):
    """Whether it is an operation that takes many instructions, as `exp` does, or as
    rounding to 16 bits."""
    if not isinstance(expr, Op):
        return False
    rounds = expr.name == "convert" and is_half(expr.dtype)
    return rounds or expr.dtype.kind == "f" and bool(scalar_form(expr))


# comparison with a number -> how far behind that number the other answer begins.
comparisons = {"lt": 0, "ge": 0, "le": 1, "gt": 1}
# The same comparison with its sides exchanged.
mirrored = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def changes(axis, exprs):
    """Where along an axis the answers to comparisons in some expressions change.

    Returns:
      A list of (the comparison, what its answer is up to there, the number that the
      axis is compared with, what is to be added to that number).
    """
    found = []
    for expr in postorder(exprs):
        if not isinstance(expr, Op) or expr.name not in comparisons:
            continue
        x, y = expr.args
        for name, index, limit in ((expr.name, x, y), (mirrored[expr.name], y, x)):
            first = None if axis in limit.free else place_on(index, axis)
            if first is not None:
                below = name in ("lt", "le")
                found.append((expr, below, limit, comparisons[name] - first))
    return found


def place_on(index, axis):
    """What is added to an axis to make an index, a number; None if it is more.

    The index may have become an integer of another dtype, if it fits.
    """
    if isinstance(index, Op) and index.name == "convert":
        given, = index.args
        index = given if given.bounds == index.bounds else index
    start = rest_of(index, axis)
    return start.value if isinstance(start, Const) else None


def cut_points(axis, body):
    """Where a loop may be cut: (numbers, {comparison: its answer up to the first one}).

    These are known now, and so all answers are; or one number that a run knows.
    """
    cuts = cuts_of(axis, body)
    return (cuts, {}) if cuts else open_cut(axis, body)


def cuts_of(axis, body):
    """The numbers at which answers along an axis change."""
    found = changes(axis, expressions(body))
    limits = ((known(limit), more) for _, _, limit, more in found)
    cuts = {int(limit) + more for limit, more in limits if limit is not None}
    return sorted(cut for cut in cuts if 0 < cut < axis.extent)


def open_cut(axis, body):
    """Where an answer changes that decides about a function: a number that a run knows.

    Returns:
      As `cut_points`; the number is at least 0 and at most the axis's extent.
    """
    exprs = postorder(expressions(body))
    functions = any(is_function(e) and axis in e.free for e in exprs)
    if not functions or not saves_time(axis, exprs, loops=2):
        return [], {}
    inside = {a for e in totals_in(body) for a in e.axes}
    inside.update(s.axis for s in statements(body) if isinstance(s, For))
    stored = stored_in(body)
    for compared, below, limit, more in changes(axis, expressions(body)):
        if known(limit) is None and is_given(limit, inside, stored):
            return [place_of(axis, limit, more)], {compared: Const(below, BOOL)}
    return [], {}


def saves_time(axis, exprs, loops, more=0):
    """Whether half of a loop takes longer than so many loops of a length that only a
    run knows: where each ends is not foreseen, nor whether a part of a vector is left.

    Args:
      exprs: what a step computes; more: instructions beside.
    """
    if not isinstance(axis.extent, int):
        return False
    m, varying = Machine.in_force(), [e for e in exprs if axis in e.free]
    dtypes = {e.dtype for e in varying} - {INDEX, BOOL}
    size = max((wide_dtype(dtype).itemsize for dtype in dtypes), default=8)
    words = sum(words + m.slow * slow for words, slow, _ in map(weight, varying))
    vector = m.op * (more + words)
    last = 2 * (m.branch + m.loop) + vector
    return axis.extent / 2 * vector * size / m.vector > loops * last


def is_given(limit, inside, stored):
    """Whether a limit is an integer that is there before some loops begin."""
    loads = loads_within([limit])
    whole = limit.dtype.kind in "iu" and limit.dtype.name != "uint64"
    known_there = limit.free.isdisjoint(inside)
    return whole and known_there and not any(load.buffer in stored for load in loads)


def place_of(axis, limit, more):
    """Where along an axis an answer changes: at least 0, at most the axis's extent."""
    low, high = as_index(-more), as_index(axis.extent - more)
    limit = op("min", op("max", as_index(limit), low), high)
    return op("add", limit, as_index(more))
