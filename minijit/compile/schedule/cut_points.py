"""Where along a loop the answers to comparisons change, so that it may be cut there.

    for i in 300:                               cut_points(i, body)      # [100], {}
      y[i] = a[i] * 2 if i < 100 else b[i]
"""

from ..loops.contents import axes_in, loads_within, stored_in, totals_in
from ..loops.expressions import Const, Load, Op, as_index, op
from ..loops.graphs import free_axes, postorder, substitute
from ..loops.index_rules import ONE, known, linear, within
from ..loops.scalars import BOOL, INDEX, is_half, wide_dtype
from ..loops.statements import expressions
from ..numbers.scalar_forms import scalar_form
from .machine import Machine
from .nests import steps_of
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
            rest = None if axis in limit.free else place_on(index, axis)
            if rest is None:
                continue
            below, more = name in ("lt", "le"), comparisons[name]
            if known(rest) is not None:
                found.append((expr, below, limit, more - known(rest)))
            elif limit.dtype == INDEX:  # Sums of others may wrap around.
                found.append((expr, below, op("sub", limit, rest), more))
    return found


def place_on(index, axis):
    """What is added to an axis to make an index; None if it is more than a sum.

    The index may have become an integer of another dtype, if it fits.
    """
    if isinstance(index, Op) and index.name == "convert":
        given, = index.args
        index = given if given.bounds == index.bounds else index
    if steps_of(index).get(axis) != 1:
        return None
    return substitute([index], {axis: as_index(0)}.get)[0]


def cut_points(axis, body):
    """Where a loop may be cut: (numbers, what is told of its ranges).

    These are known now, and so all answers are; or it is one number that a run knows:
    then {expression: what it is} of both ranges is told.
    """
    cuts = cuts_of(axis, body)
    return (cuts, ()) if cuts else open_cut(axis, body)


def cuts_of(axis, body):
    """The numbers at which answers along an axis change."""
    found = changes(axis, expressions(body))
    limits = ((known(limit), more) for _, _, limit, more in found)
    cuts = {int(limit) + more for limit, more in limits if limit is not None}
    return sorted(cut for cut in cuts if 0 < cut < axis.extent)


def open_cut(axis, body):
    """Where an answer changes that decides about a function, or about all that keeps
    the loop in bounds: a number that a run knows.

    Returns:
      As `cut_points`; the number is at least 0 and at most the axis's extent.
    """
    roots = expressions(body)
    exprs = postorder(roots)
    functions = any(is_function(e) and axis in e.free for e in exprs)
    gathered = kept(axis, exprs)
    # A vector of them is two instructions a lane.
    lanes = (Machine.in_force().vector // load.dtype.itemsize for load in gathered)
    saves = saves_time(axis, exprs, loops=2, more=2 * sum(lanes))
    if not (functions or gathered) or not saves:
        return [], ()
    inside = {a for e in totals_in(body) for a in e.axes}
    inside.update(axes_in(body))
    stored = stored_in(body)
    for compared, below, limit, more in changes(axis, roots):
        if known(limit) is None and is_given(limit, inside, stored):
            ranges = [told(compared, answer, exprs) for answer in (below, not below)]
            there = (substitute(roots, names.get) for names in ranges)
            if functions or not any(kept(axis, postorder(part)) for part in there):
                return [place_of(axis, limit, more)], ranges
    return [], ()


def kept(axis, exprs):
    """Loads from places that are kept in bounds along an axis: they are gathered."""
    loads = [e for e in exprs if isinstance(e, Load) and axis in e.free]
    return [e for e in loads if axis in free_axes(filter(within, postorder(e.index)))]


# comparison of x and y -> the least and the largest x - y if it is true, and if not.
differences = {"lt": (None, -1, 0, None), "le": (None, 0, 1, None)}
differences |= {"gt": (1, None, None, 0), "ge": (0, None, None, -1)}


def told(compared, answer, exprs):
    """{expression: what it is if a comparison has an answer}: the comparison, and what
    is kept in bounds although it is there anyway.

        i + k < 9, and so      min(i + k, 9)     is i + k
        i + k >= 9, and so     max(i + k - 9, 0) is i + k - 9
    """
    names, (x, y) = {compared: Const(answer, BOOL)}, compared.args
    if x.dtype != INDEX:
        return names
    *true, low, high = differences[compared.name]
    low, high = true if answer else (low, high)
    for expr in exprs:
        inside = within(expr)
        if inside is None:
            continue
        # How far it is from its limit, and that it is no farther, or no nearer.
        for first, second, most, least in ((x, y, high, low), (y, x, low, high)):
            limit, = {*expr.args} - {inside}
            apart = linear((inside, 1), (limit, -1), (first, -1), (second, 1))
            end = most if expr.name == "min" else least
            if apart.keys() <= {ONE} and end is not None:
                end = apart.get(ONE, 0) + (end if first is x else -end)
                if end <= 0 if expr.name == "min" else end >= 0:
                    names[expr] = inside
    return names


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
