"""Rewrites of a kernel's loops; of them recipes are made.

    nests = distribute(body)           # each store, and each total, in loops of its own
    nests = [reordered(n) for n in nests]       # memory runs along the innermost one
    groups = joined(nests)             # those that go the same way through rows
    flat(body, 16, 400)                # short loops and totals written out

Each is right if the steps of the loops that it changes do not depend on each other:
`independent` answers that.  Where it says no there is no rewrite: `distribute` raises
`NotAllowed`, which says of what loop that is and why; others give None, or no change.
"""

import functools
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, replace

from ..loops.buffers import Buffer
from ..loops.contents import (
    counted, loads_within, totals_in, totals_within, updated_in,
)
from ..loops.expressions import Axis, Const, Load, Op, Reduce, as_index, op
from ..loops.graphs import free_axes, postorder, substitute
from ..loops.reductions import written_out
from ..loops.statements import For, Store, nested, replaced, statements
from .access import access_of
from .independence import independent, shared_buffer, shared_dims
from .nests import SHORT, count_of, rest_of, runs_along, stride_along
from .placing_rules import share_axes
from .weights import weight


class NotAllowed(ValueError):
    """A rewrite of loops is not sure to compute the same.

    Attributes:
      about: the axis or statement that stands in the way; why: a sentence.
    """

    def __init__(self, about, why):
        super().__init__(why)
        self.about, self.why = about, why


@dataclass(frozen=True)
class Nest:
    """One store in loops of its own, in any order, the first one outermost."""

    axes: tuple
    store: Store

    @functools.cached_property
    def loads(self):
        return loads_within(list(self.store.uses()))

    @property
    def places(self):
        return [self.store, *self.loads]

    @functools.cached_property
    def reads(self):
        return {e.buffer for e in self.loads}

    def with_axis(self, old, new, at):
        """The same with a new axis in the place of one, where it is `at`."""
        axes = {a: Axis(a.extent) for a in self.axes if a is not old}
        places = tuple(axes.get(a, new) for a in self.axes)
        return Nest(places, *replaced([self.store], (axes | {old: at}).get))

    @functools.cached_property
    def body(self):
        """It as statements: once, for the candidates that it is a part of."""
        return self.within()

    def within(self, *around):
        """The statements inside of some of its loops."""
        return nested([a for a in self.axes if a not in around], [self.store])


# ---- what depends on what


def nests_of(body, around=()):
    """(axes, store) of each store."""
    found = []
    for stmt in body:
        if isinstance(stmt, Store):
            if stmt.combine:
                why = f"the store to {stmt.buffer.name} adds to what is there"
                raise NotAllowed(stmt, why)
            # What stands in no loop runs once.
            found.append((around or (Axis(1),), stmt))
            continue
        if not isinstance(stmt, For):
            raise NotAllowed(stmt, "there is a branch, or a loop of unknown length")
        ordered = stmt.axis.kind != "loop" and stmt.axis.extent != 1
        if ordered or not isinstance(stmt.axis.extent, int):
            raise NotAllowed(stmt.axis, "its steps have an order, or no fixed number")
        if buffer := shared_buffer(stmt.axis, stmt.body):
            why = f"a step of it may touch what another one stores of {buffer.name}"
            raise NotAllowed(stmt.axis, why)
        found += nests_of(stmt.body, (*around, stmt.axis))
    return found


# ---- distribute


@dataclass(frozen=True)
class Wide:
    """What takes the place of a kernel's own buffer: an array with a place for each
    step of the loops around it.

    Attributes:
      steps: the axes of these loops.
      order: of its dimensions among those of the steps and the buffer's own.
    """

    array: Buffer
    steps: tuple
    order: tuple

    def at(self, index):
        """The index of what the buffer had at its index, in the step that runs."""
        places = (*self.steps, *index)
        return tuple(places[d] for d in self.order)


class Distribution:
    """Each store of a kernel, and each total that is a part of one, in its own loops.

    Attributes:
      nests: of them, in order.
      temps: the arrays that take the place of a kernel's own numbers, one for each
        step, and those of totals.
      wide: {buffer of the kernel's own: `Wide`}.
      names: {total: what takes its place}, as long as nothing it reads is stored again.
    """

    def __init__(self, pairs, prefix):
        self.pairs, self.prefix = pairs, prefix
        self.nests, self.temps, self.names = [], [], {}
        beside = defaultdict(list)
        for axes, store in pairs:
            loads = loads_within(store.uses())
            for place in {p.buffer: p for p in (*loads[::-1], store)}.values():
                if place.buffer.space == "cache":
                    beside[place.buffer].append((axes, place, (store, *loads)))
        self.wide = {s.buffer: self.widened(s.buffer, beside[s.buffer])
                     for _, s in pairs if s.buffer.space == "cache"}  # fmt: skip

    def fresh(self, shape, dtype):
        name = f"{self.prefix}_t{len(self.temps)}"
        self.temps.append(Buffer(name, tuple(shape), dtype))
        return self.temps[-1]

    def widened(self, buffer, beside):
        """A `Wide` for a buffer; it lies in memory as the largest array beside it.

        Args:
          beside: (the loops, an access of the buffer, all there) of each statement.
        """
        first = beside[0][0]
        steps = tuple(a for a in first if all(a in axes for axes, *_ in beside)
                      and not self.has_own(a, buffer))  # fmt: skip
        order = range(len(steps) + len(buffer.shape))
        others = ((mine.index, p) for _, mine, places in beside
                  if all(i.free for i in mine.index)
                  for p in places if p.buffer != buffer)  # fmt: skip
        by_size = sorted(others, key=lambda pair: pair[1].buffer.nbytes)
        for index, place in reversed(by_size):
            along = access_of(place).along
            far = [sum(along.get(a, 0) for a in p.free) for p in (*steps, *index)]
            if all(far):
                order = sorted(range(len(far)), key=lambda d: -far[d])
                break
        shape = (*(a.extent for a in steps), *buffer.shape)
        array = self.fresh((shape[d] for d in order), buffer.dtype)
        return Wide(array, steps, tuple(order))

    def has_own(self, axis, buffer):
        """Whether each step of a loop has its own part of a buffer as it is."""
        places = (p for _, s in self.pairs for p in (s, *loads_within(s.uses()))
                  if p.buffer is buffer)  # fmt: skip
        return bool(shared_dims([(p, axis) for p in places]))

    def load(self, expr):
        if type(expr) is Load and expr.buffer in self.wide:
            wide = self.wide[expr.buffer]
            return Load(wide.array, wide.at(substitute(list(expr.index), self.load)))
        return self.names.get(expr)

    def run(self):
        """The nests."""
        for axes, store in self.pairs:
            self.take(axes, store)
        return self.nests

    def take(self, axes, store):
        store, = replaced([store], self.load)
        if store.buffer in self.wide:
            wide = self.wide[store.buffer]
            store = replace(store, buffer=wide.array, index=wide.at(store.index))
        while True:
            value, = substitute([store.value], self.names.get)
            store = replace(store, value=value)
            found = totals_within([value])
            if short := next((e for e in found if short_run(axes, e)), None):
                self.take_rows(axes, short, value)
                continue
            # What each element has for itself stays with it, if it is read as stored.
            totals = [e for e in found
                      if not e.free >= set(axes) or is_across(axes, e, store)
                      or is_first(axes, e, found)]
            whole = store.value in totals and len(found) == 1
            if not totals or whole and not is_across(axes, store.value, store):
                break
            total = totals[0]
            own = (a for a in axes if a in total.free)
            own = by_reach(own, loads_within(total.bodies))
            if not (total.is_plain and total.free <= set(own)):
                why = f"the total ({total.op}) has several results, or steps of its own"
                raise NotAllowed(store, why)
            row = self.fresh((a.extent for a in own), total.dtype)
            self.add(own, Store(row, own, total))
            self.names[total] = Load(row, own)
        self.add(axes, store)
        self.names = {
            total: there for total, there in self.names.items()
            if not any(e.buffer is store.buffer for e in loads_within([total]))
        }

    def add(self, around, store):
        """A store in some loops.  What stays the same, for a row, from step to step of
        an outer one, or of a total's, is computed once, in loops of its own."""
        totals = totals_within([store.value])
        parts = [c for e in totals for c in e.bodies] if totals else [store.value]
        axes = *around, *(a for e in totals for a in e.axes)
        last = by_reach(axes, (store, *loads_within(parts)))[-1]

        def row_of(expr):
            if not (isinstance(expr, Op) and last in expr.free < {*axes}):
                return None
            if not all(isinstance(a.extent, int) for a in expr.free):
                return None
            loads = loads_within([expr])
            words = sum(sum(weight(e)) for e in postorder([expr], skip=loads))
            # It would cost as much to load it as it does to compute it.
            quick = words <= 1 or expr.dtype.kind in "iu"
            if quick or not loads or totals_within([expr]):
                return None
            own = by_reach((a for a in axes if a in expr.free), loads)
            if any(a.kind == "reduce" for a in own):
                why = "what is the same for many terms would be an array"
                raise NotAllowed(store, why)
            row = self.fresh((a.extent for a in own), expr.dtype)
            self.nests.append(Nest(own, Store(row, own, expr)))
            self.names[expr] = Load(row, own)
            return self.names[expr]

        pairs = zip(parts, substitute(parts, row_of), strict=True)
        changed = {part: new for part, new in pairs if new is not part}
        value, = substitute([store.value], changed.get)
        self.nests.append(Nest(around, replace(store, value=value)))

    def take_rows(self, axes, total, value):
        """A total that memory runs along for a few steps at a time: first the totals of
        all else, whole rows of them, and then those few of each.

        Args:
          value: what it is a part of.
        """
        run = most_read(total)[0]
        long, short = Axis(run.extent), Axis(run.extent, "reduce")
        bodies = substitute(list(total.bodies), {run: long}.get)
        rest = tuple(a for a in total.axes if a is not run)
        inner = Reduce(total.op, rest, tuple(bodies))
        own = (a for a in (*axes, long) if a in inner.free)
        own = by_reach(own, loads_within(bodies))
        row = self.fresh((a.extent for a in own), total.dtype)
        self.nests.append(Nest(own, Store(row, own, inner)))
        there = Load(row, tuple(short if a is long else a for a in own))
        total_of_row = Reduce(total.op, (short,), (there,))
        others = (e for e in totals_within([value]) if e is not total)
        if any(total in postorder(e.bodies) for e in others):
            own = tuple(a for a in axes if a in total.free)
            done = self.fresh((a.extent for a in own), total.dtype)
            self.nests.append(Nest(own, Store(done, own, total_of_row)))
            total_of_row = Load(done, own)
        self.names[total] = total_of_row


def most_read(total):
    """(the axis that memory runs along, the load) of the largest array of a total."""
    loads = loads_within(total.bodies)
    most = max(loads, key=lambda load: load.buffer.nbytes, default=None)
    return (runs_along(most), most) if most else (None, None)


def short_run(axes, total):
    """Whether memory runs along a short axis of a total, and then along a loop's:
    sum(k, l: x[k,i,l])."""
    run, most = most_read(total)
    plain = total.is_plain and len(total.axes) > 1 and total.free <= {*axes}
    if not plain or run not in total.axes or not isinstance(run.extent, int):
        return False
    next_to_it = any(stride_along(most, a) == run.extent for a in axes)
    return run.extent < SHORT and next_to_it


def is_across(axes, total, store):
    """Whether memory runs along another axis where a total's terms are read than where
    it is stored: sum(k: x[k,i,j]) at y[j,i]."""
    if most_read(total)[0] not in axes:
        return False
    return runs_along(store) is not by_reach(axes, loads_within(total.bodies))[-1]


def is_first(axes, total, others):
    """Whether another total needs one first, and memory runs along a loop, not along
    it: each goes through all of an array, a row at a time.  Steps along which it runs
    have what both need in the cache."""
    first = any(total in postorder(e.bodies) for e in others if e is not total)
    return first and most_read(total)[0] in axes


def distribute(body, prefix):
    """(nests, arrays that are new): see `Distribution`.

    Args:
      prefix: of the arrays' names.

    Raises:
      NotAllowed: a loop's steps depend on each other, or something is no loop.
    """
    made = Distribution(nests_of(share_axes(body)), prefix)
    return made.run(), made.temps


# ---- reorder


def check_order(nest):
    """Raise `NotAllowed` unless a nest's steps may run in any order."""
    mine = nest.store.buffer
    for axis in nest.axes:
        if not any(rest_of(i, axis) is not None for i in nest.store.index):
            why = f"several steps of it may store to one place of {mine.name}"
            raise NotAllowed(axis, why)
    for load in nest.loads:
        if load.buffer is mine and load.index != nest.store.index:
            why = f"a step reads of {mine.name} what another one stores"
            raise NotAllowed(nest.axes[0], why)


def may_reorder(nest):
    """Whether a nest's steps may run in any order: no step reads what others store."""
    try:
        check_order(nest)
    except NotAllowed:
        return False
    return True


def reordered(nest):
    """A nest whose innermost loop is the one along which most of its memory runs."""
    if not may_reorder(nest):
        return nest
    return replace(nest, axes=by_reach(nest.axes, nest.places))


def by_reach(axes, places):
    """Axes by how far places in memory go with them, the farthest first."""
    places = [access_of(p) for p in places]

    def far(axis):
        steps = ((a.buffer.nbytes, a.along.get(axis, 0)) for a in places)
        return sum(n * math.log2(1 + min(s, 1 << 22)) for n, s in steps if s == s)

    return tuple(sorted(axes, key=far, reverse=True))


# ---- join


@dataclass(frozen=True)
class Group:
    """Nests of which each step of a loop runs one after the other.

    Attributes:
      axis: of the loop; None if there is one nest, in its own loops.
      nests: of them; the axis is theirs.
      start: where the loop begins among the steps of all nests that were joined.
      family: a number; the same one for loops that were cut from each other.
    """

    axis: Axis | None
    nests: tuple
    start: int
    family: int

    @property
    def body(self):
        if self.axis is None:
            return self.nests[0].body
        inside = (s for n in self.nests for s in n.within(self.axis))
        return (For(self.axis, tuple(inside)),)

    def at(self, place):
        """Pairs (dimension, how far from the loop's step a place is in it)."""
        found = shifts(place, self.axis)
        if self.axis.extent == 1:
            # Of a loop of one step no index tells.
            known = enumerate(place.index)
            found = {d: i.value for d, i in known if type(i) is Const}
        return {(d, n - self.start) for d, n in found.items()}


def joined(nests):
    """Nests in `Group`s that run one after the other.

    Those that share a loop touch, in each step, elements that no other step stores. A
    nest may run some steps behind those before it; where one of them begins or ends,
    the loop is cut.  A nest joins the last ones if it reads what they store.
    """
    families = []
    for nest in nests:
        members = families and with_nest(families[-1], nest)
        if members:
            families[-1] = members
        else:
            families.append([(nest, None, 0)])
    return [group for n, members in enumerate(families) for group in cut(members, n)]


def with_nest(members, nest):
    """Members of a loop and a nest that has joined them, or None.

    A member is (nest, its axis, how many steps it runs behind the first one).
    """
    stored = {n.store.buffer for n, _, _ in members}
    if not stored & {*nest.reads, nest.store.buffer}:
        return None
    (first, axis, _), *others = members
    for a in outer_axes(first) if axis is None else [axis]:
        for b in outer_axes(nest):
            mine = [(first, a, 0), *others]
            late = steps_behind(mine, nest, b)
            if late is not None:
                mine.append((nest, b, late))
                lows, highs = zip(*map(span, mine), strict=True)
                # Most of the steps are steps of all.
                if 2 * (min(highs) - max(lows)) > max(highs) - min(lows):
                    return mine
    return None


def outer_axes(nest):
    """The axes along which the largest array does not run: a total's own axis may."""
    places = map(access_of, nest.places)
    largest = max(places, key=lambda a: (a.buffer.nbytes, len(a.steps)))
    nearest = min(largest.along.values(), default=0)
    return [a for a in nest.axes if largest.along.get(a) != nearest]


def shifts(place, axis):
    """{dimension whose index is an axis and a number: the number}"""
    found = {d: rest_of(i, axis) for d, i in enumerate(place.index)}
    return {d: i.value for d, i in found.items() if type(i) is Const}


def steps_behind(members, nest, axis):
    """How many steps of a loop a nest has to run behind the first one of its members,
    so that it meets what they store, and stores what they touch, in the same step.

    Returns:
      None if this is not the same number for all that is stored.
    """
    if not all(a in n.axes and may_reorder(n) for n, a, _ in members):
        return None
    if not may_reorder(nest):
        return None
    found = set()
    for buffer in {n.store.buffer for n in (nest, *(n for n, _, _ in members))}:
        near = [(p, shifts(p, axis)) for p in nest.places if p.buffer is buffer]
        far = [(p, shifts(p, a), late) for n, a, late in members
               for p in n.places if p.buffer is buffer]  # fmt: skip
        dims = [set(shift) for _, shift, *_ in (*near, *far)]
        if not (common := set.intersection(*dims)):
            return None
        d = min(common)
        found |= {
            late + mine[d] - theirs[d]
            for p, mine in near
            for q, theirs, late in far
            if isinstance(p, Store) or isinstance(q, Store)
        }
    return found.pop() if len(found) == 1 else None


def span(member):
    """The first step in which a member of a loop runs, and the first one after it."""
    _, axis, late = member
    return late, late + axis.extent


def cut(members, family):
    """The `Group`s of a family: cut wherever a member begins or ends."""
    if len(members) == 1:
        yield Group(None, (members[0][0],), 0, family)
        return
    ends = sorted({end for member in members for end in span(member)})
    for low, high in itertools.pairwise(ends):
        axis, nests = Axis(high - low), []
        for member in members:
            first, last = span(member)
            if first <= low and high <= last:
                at = op("add", axis, as_index(low - first))
                nests.append(member[0].with_axis(member[1], axis, at))
        yield Group(axis, tuple(nests), low, family)


# ---- short rows


def flat(body, most, parts):
    """The body of a loop with loops and totals of so many steps at most written out.

    Arrays of the kernel's own become numbers, if each place of them is stored once.

    Args:
      parts: how many stores, and how many expressions, there may be then.

    Returns:
      A tuple of stores; or None if something is no short loop.
    """
    if sum(times for stmt, times in counted(body) if isinstance(stmt, Store)) > parts:
        return None
    if sum(map(least_of(body), totals_in(body))) > parts:
        return None
    result, held, known, seen = [], {}, {}, set()

    def short(*axes):
        kinds = all(a.kind in ("loop", "reduce") for a in axes)
        fixed = kinds and all(isinstance(a.extent, int) for a in axes)
        return fixed and math.prod(a.extent for a in axes) <= most

    def value_of(expr):
        if expr in held:
            return held[expr]
        total = expr.args[0] if type(expr) is Op and expr.name == "item" else expr
        if type(total) is Reduce and short(*total.axes):
            which = expr.args[1].value if total is not expr else 0
            return written_out(total)[which]
        return None

    def take(stmts, names):
        for stmt in stmts:
            if isinstance(stmt, For):
                if not short(stmt.axis):
                    return False
                steps = range(stmt.axis.extent)
                here = ({**names, stmt.axis: as_index(n)} for n in steps)
                if not all(take(stmt.body, now) for now in here):
                    return False
                continue
            if not isinstance(stmt, Store) or stmt.combine:
                return False
            *index, value = substitute(list(stmt.uses()), names.get)
            *index, value = substitute([*index, value], value_of, known)
            seen.update(postorder([*index, value], seen))
            if len(seen) > parts:
                return False
            if stmt.buffer.space != "cache" or free_axes(index):
                # Each step has a place of its own, as for a total after the loop.
                result.append(Store(stmt.buffer, tuple(index), value))
            elif not all(type(i) is Const for i in index):
                return False  # Only a run knows of which number it takes the place.
            else:
                place = Load(stmt.buffer, tuple(index))
                if place in known:
                    # What was computed from it had another value there.
                    known.clear()
                held[place] = value
        return True

    if not take(body, {}):
        return None
    left = any(type(e) is Reduce or type(e) is Load and e.buffer.space == "cache"
               for e in seen)  # fmt: skip
    return None if left else tuple(result)


def least_of(body):
    """A function of a total in statements: how many expressions it is written out.

    Each term is one, and is combined with those before it by another; and there is a
    total for each step of the loops that it depends on.
    """
    loops = {stmt.axis for stmt in statements(body) if isinstance(stmt, For)}
    return lambda e: count_of(e.free & loops) * (2 * count_of(e.axes) - 1)


def lanes(axis, stores):
    """A loop whose steps go side by side in vectors, or None if they may meet.

    All is computed before anything is stored; a number of its own marks such a loop.
    """
    if updated_in(stores) or not independent(axis, stores):
        return None
    kept = list(dict.fromkeys(s.value for s in stores))
    cells = {v: Buffer(f"c{n}", (), v.dtype, space="cache") for n, v in enumerate(kept)}
    first = [Store(cell, (), value) for value, cell in cells.items()]
    then = [replace(s, value=Load(cells[s.value], ())) for s in stores]
    return (For(axis, (*first, *then)),)
