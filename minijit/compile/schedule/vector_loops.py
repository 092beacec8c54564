"""Loops that a compiler makes vectors of: functions beside totals, choices, places.

    for i in 1000:                      for b in 16:
      y[i] = exp(total(k: x[i,k]))        for j in 64: side[j] = total(k: x[b*64+j,k])
                                          for j in 64: y[b*64+j] = exp(side[j])

A compiler vectorises the innermost loop.  On the left that is the total's, and `exp` is
computed for one number at a time.  On the right it is computed for eight or sixteen.

    for i in 300:                             for i in 100: y[i] = a[i] * 2
      y[i] = a[min(i, 99)] * 2 if i < 100     for i in 200: y[i+100] = b[i]
             else b[max(i - 100, 0)]

On the left, a `concatenate`, both are loaded, from places of which a compiler cannot
tell that they are neighbours, and one of them is thrown away.  On the right there is
nothing to choose, and every loop goes along memory.  A mask, such as `j <= i` along j,
cuts its loop at a number that only a run knows, if a function such as `exp` is in it,
or if all is gathered only for its sake, as where `jnp.roll` asks a run how far; and the
range of a total in which it leaves out terms.

    place[i] = argmax(k: x[i,k], k)     place[i] = min(l: l where x[i,l] is best,
                                                       else 2147483647)
                                        with best = max(k: x[i,k])

On the left each step looks at what the last one has found.  On the right the terms of
both totals are in any order, and the first of several places is the least one.  The
extreme of a row with a NaN in it is NaN, and stands where the first NaN does.
"""

import functools
import math

from ...trace.numpy_values import highest
from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.contents import (
    axes_in, loads_within, stored_in, stores_in, totals_in, totals_within,
)
from ..loops.expressions import Axis, Const, Load, Op, Reduce, as_index, op
from ..loops.graphs import free_axes, postorder, substitute
from ..loops.index_rules import within
from ..loops.reductions import start_values
from ..loops.scalars import BOOL, INDEX
from ..loops.statements import For, Store, changed, expressions, nested, replaced
from ..lower.choices import MOST_RANGES
from ..pipeline import arrangements
from ..settings import config
from .cut_points import (
    changes, comparisons, cut_points, is_function, is_given, place_of, saves_time,
)
from .machine import Machine
from .nests import FEW, count_of, in_nests, loop_over, split, strides_of, with_rows
from .row_totals import outer_totals
from .weights import words_of

# So many totals, or functions, are kept for the loop that follows at once.
ASIDE = 64

# ---- places of extremes


def two_totals(expr):
    """The place of an extreme, which is a part of a pair; None of other expressions."""
    if type(expr) is not Op or expr.name != "item":
        return None
    pair, _ = expr.args
    value, place = pair.bodies
    best = Reduce("max" if pair.op == "argmax" else "min", pair.axes, (value,))
    axes = {axis: Axis(axis.extent, axis.kind) for axis in pair.axes}
    value, place = substitute([value, place], axes.get)
    here = op("eq", value, best)
    if value.dtype.kind == "f":
        here = op("or", here, op("ne", value, value))
    none = Const(highest(place.dtype), place.dtype)
    return Reduce("min", tuple(axes.values()), (op("select", here, place, none),))


def in_first_places(body):
    """A kernel's statements, with the places of extremes as two totals."""
    totals = totals_in(body)
    if not any(total.op in ("argmax", "argmin") for total in totals):
        return body
    return replaced(body, functools.cache(two_totals))


# ---- functions beside totals


def totals_of(stores, axis):
    """The totals that depend on an axis, each used outside of others too; or nothing.

    Nothing, too, if one of them is no plain number, or reads what is stored here.
    """
    stored, found = {s.buffer for s in stores}, outer_totals([s.value for s in stores])
    totals = [total for total in found if axis in total.free]
    for total in totals:
        loads = loads_within(total.bodies)
        if not total.is_plain or any(load.buffer in stored for load in loads):
            return []
    return totals


def functions_of(stores, totals, axis):
    """How many functions are computed beside the totals for each step of an axis."""
    found = postorder([s.value for s in stores], set(totals))
    return sum(is_function(e) and axis in e.free for e in found)


def with_totals_aside(axes, stores):
    """The nest with its totals in a loop of their own, a block of them at a time."""
    *outer, axis = axes
    totals, settings = totals_of(stores, axis), config.fusion
    if not totals or not (functions := functions_of(stores, totals, axis)):
        return None
    # Those of totals inside count for each total that they are in.
    inside = (e for total in totals for e in totals_within([total]))
    terms = sum(count_of(e.axes) for e in inside)
    most = settings.terms_aside * functions
    if axis.extent < settings.fewest_totals or terms > most:
        noted("long totals", terms=terms, functions=functions)
        return None
    length = min(ASIDE, axis.extent)
    noted("totals aside", terms=terms, functions=functions, totals=length)
    return nested(outer, [with_aside(axis, totals, stores, length)])


def with_aside(axis, values, body, length):
    """A loop in blocks of a length, with some values computed before the rest of it."""
    block, start, count = split(axis, length, axis.kind)
    first, second = Axis(count), Axis(count, axis.kind)
    sides = [
        Buffer(f"side{n}", (length,), value.dtype, space="cache")
        for n, value in enumerate(values)
    ]
    there = substitute(values, {axis: op("add", start, first)}.get)
    fill = map(Store, sides, [(first,)] * len(sides), there)
    names = dict(zip(values, (Load(side, (second,)) for side in sides), strict=True))
    running = [total for total in totals_in(body) if axis in total.axes]
    names |= {t: Reduce(t.op, (block, second), t.bodies) for t in running}
    done = replaced(body, (names | {axis: op("add", start, second)}).get)
    return For(block, (For(first, tuple(fill)), For(second, done)))


# ---- what is beside stores at places that only a run knows

# What takes fewer operations is done before it were written to memory and read.
FEWEST = 4


def with_functions_aside(body):
    """Statements with long expressions in loops of their own, a block at a time.

        for i in 1000:                    for b in 16:
          y[at(i)] += exp(x[i])             for j in 64: place[j] = at(b*64+j)
                                            for j in 64: side[j] = exp(x[b*64+j])
                                            for j in 64: y[place[j]] += side[j]
    """
    return changed(body, functions_aside)


def functions_aside(loop):
    """An innermost loop with what is long before it, a block at a time, or None.

    That is where each step goes on from the one before, or stores at a place that an
    array says.
    """
    if not isinstance(loop, For) or axes_in(loop.body):
        return None
    axis, stores = loop.axis, stores_in(loop.body)
    few = config.fusion.fewest_totals
    if not isinstance(axis.extent, int) or axis.extent < few:
        return None
    apart = any(math.isnan(strides_of(s).get(axis, 0)) for s in stores)
    if axis.kind != "scan" and not apart:
        return None
    values = long_before(expressions(loop.body), axis, stored_in(loop.body))
    if not values:
        return None
    length = min(ASIDE, axis.extent)
    noted("functions aside", functions=len(values), elements=length)
    return (with_aside(axis, values, loop.body, length),)


def long_before(exprs, axis, stored):
    """The outermost long expressions that need nothing of the steps before."""
    found, todo = {}, list(exprs)
    while todo:
        expr = todo.pop()
        if expr in found or axis not in expr.free:
            continue
        inside = [e for e in postorder([expr]) if axis in e.free]
        loads = [e for e in inside if type(e) is Load]
        runs = any(type(e) is Reduce and axis in e.axes for e in inside)
        free = not runs and stored.isdisjoint(load.buffer for load in loads)
        # It is computed for all steps, those too that a condition keeps from storing.
        if is_long(expr, inside) and free and all(map(is_within, loads)):
            found[expr] = None
        elif type(expr) is not Reduce or axis in expr.axes:  # Else of loops within.
            todo += expr.children()
    return list(found)


def is_long(expr, inside):
    """Whether an expression is worth a row of its own.

    Places in memory are not, nor whether they are in bounds: they take more room, or
    more instructions, than the integers that they come from.
    """
    if not isinstance(expr, Op) or expr.dtype in (INDEX, BOOL):
        return False
    if is_function(expr):
        return True
    plain = [e for e in inside if isinstance(e, Op) and e.dtype != INDEX]
    return len(plain) >= FEWEST and not totals_within([expr])


def is_within(load):
    """Whether an index is in bounds by what is known of it, whatever stands around."""
    pairs = zip(load.index, load.buffer.shape, strict=True)
    return all(0 <= i.bounds[0] and i.bounds[1] < n for i, n in pairs)


# ---- choices


def without_masked(body):
    """Statements with totals that leave out the terms of which a mask makes nothing.

    Of the maximum of `x[k] if k <= i else -inf`, that is all from i + 1 on.
    """
    stored = stored_in(body)
    names = {total: cut_total(total, stored) for total in totals_in(body)}
    names = {total: new for total, new in names.items() if new is not None}
    return replaced(body, names.get) if names else body


def cut_total(total, stored):
    """A total over a range of one of its axes: what is left out is its start value.

    Returns:
      None if there is no such mask, or what it compares is not known before the total
      begins; or the range is so short that all of it is faster.
    """
    body, *more = total.bodies
    kinds = {a.kind for a in (*total.axes, *total.free)}
    if more or kinds - {"reduce", "loop"} or getattr(body, "name", "") != "select":
        return None
    mask, *values = body.args
    nothing_there = [v is start_values(total)[0] for v in values]
    if nothing_there not in ([True, False], [False, True]):
        return None
    for which, axis in enumerate(total.axes):
        more = words_of(total.op, total.dtype)
        if not saves_time(axis, postorder([body]), loops=1, more=more):
            continue
        for compared, below, limit, step in changes(axis, [mask]):
            if compared is mask and is_given(limit, {*total.axes}, stored):
                cut, end = place_of(axis, limit, step), as_index(axis.extent)
                first = below == nothing_there[1]
                start, end = (as_index(0), cut) if first else (cut, end)
                part = loop_over(op("sub", end, start), "reduce")
                axes = (*total.axes[:which], part, *total.axes[which + 1 :])
                values = substitute(values, {axis: op("add", part, start)}.get)
                return Reduce(total.op, axes, (values[nothing_there.index(False)],))
    return None


def in_ranges(body, outermost=True):
    """A kernel's statements, with loops cut into ranges.

    Of loops around everything only short ones are cut, and those of single elements
    where few cores are: others may be divided among threads, and then they have to be
    one.
    """
    exprs = postorder(expressions(body))
    if not any(isinstance(e, Op) and e.name in comparisons for e in exprs):
        return body
    result, body = [], without_masked(body) if outermost else body
    for stmt in body:
        if not isinstance(stmt, For):
            result.append(stmt)
            continue
        # In a range of this loop there may be nothing left to cut those within for.
        for part in ranges(stmt, outermost):
            result.append(For(part.axis, in_ranges(part.body, False)))
    # Where nothing is asked any more, memory may go through several as through one.
    return with_rows(tuple(result), FEW) if outermost else tuple(result)


def ranges(loop, outermost):
    """A loop, or several that do the same one after the other."""
    axis, settings = loop.axis, config.fusion
    if not axis.is_plain:
        return [loop]
    inner = axes_in(loop.body)
    if not all(isinstance(a.extent, int) for a in inner):
        return [loop]
    cuts, answers = cut_points(axis, loop.body)
    if not cuts:
        return [loop]
    cuts = between_longest(cuts, axis.extent)
    pieces, steps = len(cuts) + 1, axis.extent * math.prod(a.extent for a in inner)
    # A loop of single elements that is not cut computes all cases of each, and gathers
    # what it reads: two cores take as long for it as one for its parts.  So do loops
    # within, if only a cut of this one keeps a position of both in bounds.
    exprs = postorder(expressions(loop.body))
    both = (e.free for e in exprs if axis in e.free and within(e) is not None)
    rows = inner and all(free.isdisjoint(inner) for free in both)
    shared = outermost and (rows or Machine.in_force().cores > 2)
    whole = shared and steps > settings.one_range
    parts = [] if whole else cut_at(cuts, loop, answers)
    if whole or not (inner or answers) and costs_less(loop, parts):
        noted("one range", ranges=pieces, steps=steps)
        return [loop]
    noted("ranges", ranges=pieces)
    return parts


def between_longest(cuts, extent):
    """Of too many numbers at which a loop may be cut those between its longest ranges:
    what is short, as the edges of a wide stencil are, is one with its neighbours."""
    if len(cuts) < MOST_RANGES:
        return cuts
    ends = [0, *cuts, extent]
    joint = lambda k: ends[k + 1] - ends[k - 1]
    while True:
        least = min(range(1, len(ends) - 1), key=joint)
        if joint(least) > extent // MOST_RANGES and len(ends) <= MOST_RANGES + 1:
            return ends[1:-1]
        del ends[least]


def costs_less(loop, parts):
    """Whether a loop that chooses costs less than its ranges, of which some are a step
    alone: its functions wait for each of their instructions, those of a register of
    steps do not."""
    alone = (p for p in parts if p.axis.extent == 1)
    if not any(is_function(e) for p in alone for e in postorder(expressions(p.body))):
        return False
    # It comes with the first loop that may matter.
    from .cost import instructions

    exprs, machine = expressions([loop]), Machine.in_force()
    free = free_axes(exprs) - {loop.axis}
    around = [e for e in postorder(exprs) if e in free]
    ways = (nested(around, body) for body in ([loop], parts))
    whole, cut = (instructions(way, machine)[1].words for way in ways)
    return whole < cut


def cut_at(cuts, loop, answers=()):
    """The loops for the ranges of one between some numbers.

    Args:
      answers: of each range {expression: what it is there}, if they are told.
    """
    axis, result, inner = loop.axis, [], axes_in(loop.body)
    answers = answers or [{}] * (len(cuts) + 1)
    ranges = zip([0, *cuts], [*cuts, axis.extent], answers, strict=True)
    for start, end, known in ranges:
        start = as_index(start)
        part = loop_over(op("sub", as_index(end), start))
        names = {axis: op("add", part, start)} | known
        names |= {a: Axis(a.extent, a.kind) for a in inner}
        result.append(For(part, replaced(loop.body, names.get)))
    return result


loop_rules |= {
    "functions aside": (True, "what is long has a loop of its own"),
    "totals aside": (True, "its functions have loops of their own", "terms_aside"),
    "long totals": (
        False, "its totals take longer than its functions, or are too few",
        "terms_aside", "fewest_totals",
    ),
    "ranges": (True, "its loops are cut where conditions change", "one_range"),
    "one range": (
        False, "ranges so short, or a loop so long, stay one", "one_range"
    ),
}  # fmt: skip
in_totals_aside = in_nests(with_totals_aside)
arrangements |= {
    "in_first_places": in_first_places,
    "with_totals_aside": lambda body: with_functions_aside(in_totals_aside(body)),
    "in_ranges": in_ranges,
}  # fmt: skip
