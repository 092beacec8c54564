"""Nests of loops, and how far what they load and store goes on in memory.

    for j in 1024:                    # with x and y of shape (1024, 1024)
      for i in 1024:
        y[j,i] = x[i,j] * 2

    strides_of(store)                 # {j: 1024, i: 1}: it runs along i
    strides_of(load)                  # {i: 1024, j: 1}: it runs along j
"""

import itertools
import math
from collections import Counter

from ..loops.contents import (
    axes_in, loads_of, loads_within, only_sets, perfect, stores_in, totals_in,
    totals_within,
)
from ..loops.expressions import Axis, Const, Expr, Op, Reduce, as_index, op, shorter
from ..loops.graphs import free_axes, postorder, recalled, substitute
from ..loops.index_rules import (
    digit_of, has_digit, joined_digits, known, linear, over,
)
from ..loops.scalars import INDEX
from ..loops.statements import For, Store, changed, nested, replaced, statements
from ..settings import config


# ---- along which axis arrays run


@recalled
def steps_of(index):
    """{axis: how much an index grows with it}; nan where that changes."""
    if type(index) in (Const, Axis):
        return {index: 1} if type(index) is Axis else {}
    found = {}
    for expr in postorder([index]):
        name = expr.name if isinstance(expr, Op) else ""
        parts = [found[e] for e in expr.children()]
        factor = known(expr.args[1]) if name == "mul" else None
        if type(expr) is Axis:
            found[expr] = {expr: 1}
        elif name in ("add", "sub"):
            found[expr] = steps = Counter(parts[0])
            for axis, step in parts[1].items():
                steps[axis] += step if name == "add" else -step
        elif factor is not None:
            found[expr] = {axis: factor * step for axis, step in parts[0].items()}
        else:
            found[expr] = dict.fromkeys(expr.free, math.nan)
    return found[index]


def rest_of(index, axis):
    """What is added to an axis to make an index; None if it is more than a sum."""
    if index.free != {axis} or steps_of(index) != {axis: 1}:
        return None
    return substitute([index], {axis: as_index(0)}.get)[0]


@recalled
def terms_in_memory(index, buffer):
    """Pairs of a part of where an element is in memory, and how far that goes with it.

    Digits, as a reshape makes them, meet: x[i // 6, i % 6] of f32[4,6] goes on with i.
    """
    return joined_digits(linear(*zip(index, buffer.strides, strict=True))).items()


@recalled
def strides_of(access):
    """{axis: how far a `Load` or `Store` goes on in memory with it}, in elements."""
    strides = Counter()
    for index, stride in terms_in_memory(access.index, access.buffer):
        for axis, step in steps_of(index).items():
            strides[axis] += step * stride
    return {axis: stride for axis, stride in strides.items() if stride}


def stride_along(access, axis):
    """How far a `Load` or `Store` goes on in memory with one axis, in elements."""
    return strides_of(access).get(axis, 0)


def all_along(axis, stores, loads):
    """Whether all that is stored, and what is loaded elsewhere in each step of an axis,
    goes on with it from one element to the next."""
    moving = (load for load in loads if axis in load.free)
    return all(stride_along(place, axis) == 1 for place in (*stores, *moving))


def runs_along(access):
    """The axis along which an access goes from one element to the next, or None."""
    strides = strides_of(access).items()
    return next((axis for axis, stride in strides if stride == 1), None)


def bytes_of(access):
    """How many bytes an access touches, in all; those of a store count twice.

    A line of the cache is read before a part of it is written.
    """
    extents = (a.extent for a in strides_of(access) if isinstance(a.extent, int))
    times = 2 if isinstance(access, Store) else 1
    return times * math.prod(extents) * access.buffer.dtype.itemsize


def piece_of_memory(place, axis):
    """How many elements of memory each step of a loop has to itself; or None.

    Indices may not tell, as `n // 6, n % 6` of `n = i * 9 + j` in a reshaped array.
    """
    terms = dict(terms_in_memory(place.index, place.buffer))
    size = terms.pop(axis, 0)
    ends = [sorted(n * end for end in part.bounds) for part, n in terms.items()]
    low, high = map(sum, zip((0, 0), *ends, strict=True))
    return size if 0 <= low and high < size else None


# ---- loops that are one in memory

# Longer rows take far longer than to begin and to end them.
SHORT = 32
# So few steps are over before that matters, and read better as they are.
FEW = 1024


def in_long_rows(body):
    """A kernel's statements; loops that memory goes through as one are one.

    So a row of `y[i,j] = total(k: x[k,i,j])` has all i and j, be there ever so few j,
    and `y[i] = total(j, k: x[i,j,k])` has one loop.  Rows without totals stay as they
    are where they are long enough.
    """
    return with_rows(with_long_totals(body), 1)


def with_rows(body, times):
    """Statements that run so many times, their loops in long rows."""
    result = tuple(with_long_rows(stmt, times) for stmt in body)
    return body if result == body else result


def with_long_rows(stmt, times):
    axes, body = [], (stmt,)
    while len(body) == 1 and isinstance(body[0], For) and body[0].axis.kind == "loop":
        axes, body = [*axes, body[0].axis], body[0].body
    if not axes:
        return stmt
    one = axes_in_one(axes, body, times)
    inner = with_rows(body, times * count_of(axes))
    if len(axes[one]) > 1:
        row, names = joined(axes[one])
        inner = replaced(inner, names.get)
        axes[one] = [row]
    elif inner is body:
        return stmt
    return nested(axes, inner)[0]


def axes_in_one(axes, body, times):
    """Which of the loops are to be one, as a slice: those that memory goes through, be
    others within them, as those of an axis over which there is a total."""
    totals, stores = totals_in(body), stores_in(body)
    along = (runs_along(s) for s in stores)
    row = next((a for a in along if a in axes), axes[-1]) if totals else axes[-1]
    end = axes.index(row) + 1
    none = slice(end - 1, end)
    steps = times * count_of(axes) * max((count_of(e.axes) for e in totals), default=1)
    if steps < FEW or count_of([row]) >= SHORT and not totals:
        return none
    # What a step has for itself would become a row of as many.
    cached = (s for s in stores if s.buffer.space == "cache")
    own = any(not stride_along(s, row) for s in cached)
    plain = not own and all(type(s) in (Store, For) for s in statements(body))
    plain = plain and any(stride_along(s, row) == 1 for s in stores)
    return slice(end - (rows_of_memory(axes[:end], body) if plain else 1), end)


def rows_of_memory(axes, body):
    """How many of the last loops around statements memory goes through as through one.

    What asks for one of them by itself keeps it alone: arithmetic, and how long others
    are.
    """
    stores = stores_in(body)
    loads = loads_of(stores)
    loops = axes_in(body)
    values = postorder([s.value for s in stores], skip=loads)
    loops += (a for e in values if type(e) is Reduce for a in e.axes)
    asked = free_axes([a.extent for a in loops if isinstance(a.extent, Expr)])
    asked |= {e for e in values if type(e) is Axis}
    return neighbours(axes, (*stores, *loads), asked)


def with_long_totals(body):
    """Statements whose totals go through memory in its order, and in one loop where
    they can."""
    totals = totals_in(body)
    ordered = {total: along_memory(total_in_digits(total)) for total in totals}
    ordered = {total: new for total, new in ordered.items() if new is not total}
    if ordered:
        body = replaced(body, ordered.get)
        totals = totals_in(body)
    counts = {}
    for total in totals:
        counts[total.axes] = min(total_axes_in_one(total), counts.get(total.axes, 99))
    new = {}
    for axes, count in counts.items():
        if count > 1:
            one, names = joined(axes[-count:], "reduce")
            new[axes] = (*axes[:-count], one), names
    if not new:
        return body

    def renamed(expr):
        if type(expr) is not Reduce or expr.axes not in new:
            return None
        axes, names = new[expr.axes]
        return Reduce(expr.op, axes, tuple(substitute(expr.bodies, names.get)))

    return replaced(body, renamed)


def along_memory(total):
    """A total whose last axis is the one along which most of its memory runs.

    Its terms are in any order, so `add(j, i: x[i,j])` may be `add(i, j: x[i,j])`.
    """
    axes = total.axes
    plain = total.is_fixed and len(total.bodies) == 1
    if len(axes) < 2 or not plain or terms_of(total) < FEW:
        return total
    loads = loads_within(total.bodies)
    order = farthest_first(axes, loads)
    long = order[-1].extent >= SHORT or neighbours(order, loads) > 1
    return Reduce(total.op, order, total.bodies) if long and order != axes else total


def farthest_first(axes, loads):
    """Axes of a total, the last one that along which most of its memory runs."""
    strides = [(e.buffer.nbytes, strides_of(e)) for e in loads]

    def far(axis):
        # Where nothing moves, nothing is gained by being the innermost loop.
        steps = ((size, steps.get(axis, 0)) for size, steps in strides)
        moved = sum(size * math.log2(1 + abs(n)) for size, n in steps if n == n)
        return moved or math.inf

    return tuple(sorted(axes, key=far, reverse=True))


def total_in_digits(total):
    """A total over each digit of an axis that places in memory ask for.

    So `add(k: x[k // 3])` is `add(q: 3 * x[q])`, which runs along memory.
    """
    if len(total.bodies) > 1 or not total.is_fixed:
        return total
    axes, bodies, todo = [], total.bodies, [*reversed(total.axes)]
    while todo:
        axis = todo.pop()
        loads = loads_within(bodies)
        size = size_of_digits(axis, loads)
        # Few steps are written out, and so are their digits.
        if size is None or axis.extent < SHORT:
            axes.append(axis)
            continue
        high, low, number = two_digits(axis, size)
        bodies = tuple(substitute(bodies, {axis: number}.get))
        todo += low, high
    if len(axes) == len(total.axes):
        return total
    return shorter(Reduce(total.op, farthest_first(axes, loads), bodies))


def total_axes_in_one(total):
    """How many of a total's last axes are to be one."""
    axes = total.axes
    if len(axes) < 2 or not total.is_fixed or terms_of(total) < FEW:
        return 1
    loads, inner = loads_within(total.bodies), totals_within(total.bodies)
    lengths = [a.extent for e in inner for a in e.axes]
    asked = free_axes([n for n in lengths if isinstance(n, Expr)])
    asked |= {e for e in postorder(total.bodies, skip=loads) if type(e) is Axis}
    if asked & {*axes} or not any(stride_along(e, axes[-1]) == 1 for e in loads):
        return 1
    return neighbours(axes, loads)


def terms_of(total):
    """How many terms a total has at most, in all steps of the loops around it."""
    return count_of((*total.axes, *total.free))


def neighbours(axes, accesses, asked=()):
    """How many of the last axes memory goes through as through one.

    Args:
      asked: axes that stay alone.
    """
    count = 1
    while count < len(axes):
        outer, inner = axes[-count - 1], axes[-count]
        known = type(outer.extent) is type(inner.extent) is int
        if not known or not {outer, inner}.isdisjoint(asked):
            break
        if not all(stride_along(p, outer) == inner.extent * stride_along(p, inner)
                   for p in accesses):  # fmt: skip
            break
        count += 1
    return count


def in_digits(axes, stores):
    """A nest with a loop for each digit of an axis that places in memory ask for.

        for j in 64: y[j] = x[j // 2]         for q in 32:
                                                for r in 2: y[q * 2 + r] = x[q]

    An outermost one around others keeps enough steps for several cores.  Axes that make
    up one number are one axis first: `x.T.reshape(4, 6)` asks for digits of `i * 6 + j`
    where x is f32[8,3].
    """
    done, found = with_digits(axes, stores)
    for _ in axes:
        numbers, renamed = as_numbers(done, found)
        if numbers == [*axes]:
            break  # Nothing was a digit, or a number of several axes.
        more, renamed = with_digits(numbers, renamed)
        if more == done or {*more} & {*numbers} - {*done}:
            break
        done, found = more, renamed
    return nested(done, found) if done != [*axes] else None


def with_digits(axes, stores):
    """(axes, stores) of a nest: the digits of axes in the place of these."""
    done, todo = [], [*reversed(axes)]
    while todo:
        axis = todo.pop()
        size = size_of_digits(axis, (*stores, *loads_of(stores)))
        # It is shared among cores: a few steps could not be shared evenly.
        outermost = not done and len(axes) > 1
        if size is None or outermost and axis.extent // size < SHORT:
            done.append(axis)
            continue
        high, low, number = two_digits(axis, size)
        stores = replaced(stores, {axis: number}.get)
        todo += low, high
    return done, stores


def as_numbers(axes, stores):
    """(axes, stores) of a nest: one axis for neighbours of whose number places ask for
    digits, where all that is stored, loaded and compared goes on with that number."""
    loads = loads_of(stores)
    places = [terms_in_memory(a.index, a.buffer) for a in (*stores, *loads)]
    mixed = {n.free for terms in places for p, _ in terms for n in numbers_in(p)}
    for several in [free for free in mixed if len(free) > 1]:
        first = min(map(axes.index, several & {*axes}), default=0)
        row = axes[first : first + len(several)]
        if several != {*row}:
            continue
        values = postorder([s.value for s in stores], skip=loads)
        asked = [e for v in values if v.dtype != INDEX for e in v.children()]
        asked += [s.value for s in stores]
        asked = (linear((e, 1)).items() for e in asked if e.dtype == INDEX)
        if all(go_on_as_one(terms, row) for terms in (*places, *asked)):
            number, names = joined(row)
            axes = [*axes[:first], number, *axes[first + len(row) :]]
            return as_numbers(axes, replaced(stores, names.get))
    return axes, stores


def go_on_as_one(terms, row):
    """Whether a sum of parts goes on with the number that counts the steps of loops, or
    with some digits of it, one after the other."""
    plain, sums = Counter(), []
    for part, factor in terms:
        if type(part) is Axis:
            plain[part] += factor
        elif not part.free.isdisjoint(row):
            sums += map(steps_of, numbers_in(part))
    for steps in (plain, *sums):
        moving = [d for d, axis in enumerate(row) if steps.get(axis)]
        for d, after in itertools.pairwise(moving):
            step = row[after].extent * steps[row[after]]
            if after > d + 1 or steps[row[d]] != step:
                return False
    return True


def numbers_in(part):
    """The sums of which a part of an index is a digit, or a digit kept in bounds."""
    number, *_ = digit_of(part)
    if number is not part:
        return numbers_in(number)
    if kept_in_bounds(part) or has_digit(part):
        parts = (p for arg in part.args for p in linear((arg, 1)) if p.free)
        return set().union(*map(numbers_in, parts))
    return {part}


def kept_in_bounds(part):
    return isinstance(part, Op) and part.name in ("max", "min")


def two_digits(axis, size):
    """Two axes, the second with so many steps, and the number they are together."""
    high, low = Axis(axis.extent // size, axis.kind), Axis(size, axis.kind)
    return high, low, op("add", op("mul", high, as_index(size)), low)


def size_of_digits(axis, places):
    """How many values the last digit of an axis has in some places; None if there is
    none, or others do not end where it does."""
    parts = (p for a in places for p, _ in terms_in_memory(a.index, a.buffer))
    parts = (p for p in parts if axis in p.free)
    found = set().union(*(ends_of(part, axis) for part in parts)) - {1, axis.extent}
    size = min(found, default=1)
    whole = all(n % size == 0 for n in (*found, axis.extent))
    return size if found and whole else None


def ends_of(part, axis):
    """Where a digit of an axis begins and ends: of `i % 60 // 4` at 4 and 60."""
    if part is axis:
        return {1}
    if kept_in_bounds(part):
        parts = (p for arg in part.args for p in linear((arg, 1)))
        return set().union(*(ends_of(p, axis) for p in parts))
    number, step, size = digit_of(part)
    found = set() if number is part else ends_of(number, axis)
    step *= min(found, default=1)
    return found | {step, step * (size or 1)} if found else found


def count_of(axes):
    """How many steps loops within each other have at most."""
    return math.prod(axis.bounds[1] + 1 for axis in axes)


def joined(axes, kind="loop"):
    """One axis for several, and {axis: the expression that it is now}."""
    if len(axes) == 1 and axes[0].kind == kind:
        return axes[0], {}
    axis = Axis(count_of(axes), kind)
    return axis, digits(axis, axes)


def digits(number, axes):
    """{axis: its value}, where a number counts the steps of all axes together."""
    names, steps = {}, 1
    for a in reversed(axes):
        names[a] = op("mod", over(number, steps), as_index(a.extent))
        steps *= a.extent
    if axes:
        names[axes[0]] = over(number, steps // axes[0].extent)
    return names


def split(axis, length, kind="loop"):
    """An axis in blocks of a length, of which the last one may have fewer steps.

    Returns:
      (the axis of the blocks, where one begins, how many steps it has).
    """
    block = Axis(-(-axis.extent // length), kind)
    start = op("mul", block, as_index(length))
    return block, start, steps_of_block(start, length, axis.extent)


def steps_of_block(start, length, extent):
    """How many steps there are from some start on, and at most so many."""
    count = op("min", as_index(length), op("sub", as_index(extent), start))
    return count if known(count) is None else known(count)


# ---- nests of loops


def nest_of(stmt):
    """(axes, stores) of loops with nothing between them, in any order; or None."""
    axes, body = perfect((stmt,))
    plain = axes and all(a.is_plain for a in axes) and only_sets(body)
    return ([*axes], body) if plain else None


def in_nests(change):
    """A pass that changes each nest among a kernel's statements.

    Args:
      change: function of axes and stores: the statements in their place, or None.
    """

    def of_nest(stmt):
        nest = nest_of(stmt)
        return nest and (change(*nest) or (stmt,))

    apply = lambda body: changed(body, of_nest)
    apply.__doc__ = change.__doc__
    return apply


def loop_over(extent, kind="loop"):
    """An axis of so many steps; they are an int if they are known."""
    return Axis(extent if known(extent) is None else known(extent), kind)


# ---- tiles


def around_tiles(axes, *tiles):
    """The loops around some axes' tiles: the outermost one is for several cores."""
    cut_up, counters = {t.axis for t in tiles}, [t.counter for t in tiles if t.counter]
    loops = [axis for axis in axes if axis not in cut_up] + counters
    if loops and loops[0].extent < config.fusion.few_steps:
        most = max(loops, key=lambda axis: axis.extent)
        loops = [most, *(a for a in loops if a is not most)]
    return loops
