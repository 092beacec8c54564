"""Totals over outer axes: many of them go on side by side, row by row.

    for i in 1000:                      for i in 1000: y[i] = 0
      y[i] = total(k: x[k,i])           for k in 500, four at a time:
                                          for i in 1000: y[i] += x[k,i] + ... + x[k+3,i]

What stands on the left reads memory with a step of a row, one number at a time.  On the
right the same numbers are read in their order, several by one instruction, and what is
stored is its own accumulator, in a piece short enough for the first cache.  A long sum
has one in float64, too, to which what 128 such steps leave there is added.

Running totals, as of `cumsum(x, 0)`, have accumulators of their own:

    for i in 1000:                      for i in 1000: all[i] = 0
      for k in scan 500:                for k in 500:
        y[k,i] = total(k: x[k,i])         for i in 1000: all[i] += x[k,i]
                                          for i in 1000: y[k,i] = all[i]

A total of which another one is made is in a row of the kernel's own, as long as a
piece: as the largest number in `total(k: exp(x[k,i] - largest))`.
"""

import math
from collections import Counter
from dataclasses import replace

from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.contents import loads_of, loads_within, totals_in, totals_within
from ..loops.expressions import Axis, Const, Load, Op, Reduce, as_index, op
from ..loops.graphs import postorder
from ..loops.reductions import grows_in, start_values
from ..loops.scalars import comparisons
from ..loops.statements import For, Store, expressions, nested, replaced
from ..settings import config
from .machine import Machine
from .nests import Renamer, split, stride_along

# What takes no longer than reading and writing an accumulator: then several rows are
# added at once.
quick = {"add", "sub", "mul", "neg", "abs", "max", "min", "select", "convert"}
quick |= comparisons
# So many steps, of several rows each, of a long sum are added up in float32.
SHARE = 128


def interchanged(body):
    """A kernel's statements, with its totals over outer axes in rows."""
    return tuple(s for stmt in body for s in interchange(stmt))


def interchange(stmt):
    """One statement, or several that do the same."""
    if not isinstance(stmt, For):
        return (stmt,)
    if not all(isinstance(s, Store) for s in stmt.body):
        running = running_rows(stmt)
        return running or (For(stmt.axis, interchanged(stmt.body)),)
    stored = {store.buffer for store in stmt.body}
    inside = postorder(expressions(stmt.body))
    if not any(type(e) is Reduce for e in inside):
        return (stmt,)
    if any(type(e) is Load and e.buffer in stored for e in inside):
        # It would find there what an earlier stage has stored.
        return (stmt,)
    place = Axis(stmt.axis.extent)
    stages = in_stages(stmt.body, stmt.axis, place)
    if not stages or not all(pays(stmt.axis, stores) for stores in stages):
        return (stmt,)
    return in_pieces(stmt.axis, stages, place)


def in_stages(stores, axis, place):
    """Stores, those together whose totals can go on together; or nothing.

    Those of a stage have equal extents.  What is stored in one, the next ones load; a
    total of which another one is made is stored in a row of the kernel's own.

    Args:
      axis: of the stores; place: the index in such a row, within a piece of them.
    """
    stages, known = [], {}
    while stores:
        values = Renamer(known)([store.value for store in stores])
        stores = [replace(s, value=v) for s, v in zip(stores, values, strict=True)]
        ready = [store for store in stores if total_of(store)]
        if not ready:
            ready = [
                in_own_row(f"row{len(stages)}_{n}", total, axis, place)
                for n, total in enumerate(innermost(stores))
            ]
        if not ready or not all(map(total_of, ready)):
            return []
        alike = {}
        for store in ready:
            alike.setdefault(extents_of(store), []).append(store)
        stages += alike.values()
        known |= {store.value: Load(store.buffer, store.index) for store in ready}
        stores = [store for store in stores if store not in ready]
    return stages


def innermost(stores):
    """The totals in what is stored of which others are made, and that have none."""
    found = totals_within([s.value for s in stores])
    whole = [total for total in found if not totals_within(total.bodies)]
    return whole if len(whole) < len(found) else []


def in_own_row(name, total, axis, place):
    """The `Store` of a total in a row that is as long as a piece can be."""
    most = axis.bounds[1] + 1
    if isinstance(axis.extent, int):
        most = min(most, config.fusion.row_piece // total.dtype.itemsize)
    return Store(Buffer(name, (most,), total.dtype, space="cache"), (place,), total)


def total_of(store):
    """The only Reduce in what is stored, if the buffer can be its accumulator."""
    reduces = totals_within([store.value])
    if len(reduces) != 1 or store.combine:
        return None
    total, = reduces
    # Of complex numbers each part has a sum of its own.
    kinds = "iufc" if total.op == "add" else "iufb"
    fits = total.is_plain and total.dtype == store.buffer.dtype
    return total if fits and total.dtype.kind in kinds else None


def extents_of(store):
    """How long the axes of the total in what is stored are."""
    return tuple(axis.extent for axis in total_of(store).axes)


def pays(axis, stores):
    """Whether a loop's axis is the one along which memory runs, and rows are long."""
    if axis.kind != "loop":
        return False
    totals = [total_of(store) for store in stores]
    extents = extents_of(stores[0])
    if not all(isinstance(n, int) for n in extents):
        return False
    inside = loads_within([t.bodies[0] for t in totals])
    moving = [load for load in inside if axis in load.free]
    places = [*moving, *(s for s in stores if s.buffer.space != "cache")]
    if not (moving and all(stride_along(p, axis) == 1 for p in places)):
        return noted("along memory")
    count, terms, settings = axis.bounds[1] + 1, math.prod(extents), config.fusion
    if count < settings.fewest_totals:
        return noted("few totals", totals=count)
    if terms < settings.rows_at_once:
        return noted("few terms", terms=terms)
    return noted("rows", totals=count, terms=terms)


loop_rules |= {
    "along memory": (False, "memory runs along its totals, one after the other"),
    "few totals": (False, "so few totals fit in registers", "fewest_totals"),
    "few terms": (False, "its totals have few terms each", "rows_at_once"),
    "rows": (
        True, "its totals go on side by side, row by row", "fewest_totals",
        "rows_at_once",
    ),
    "pieces": (
        True, "a piece of a row at a time stays in the first cache", "row_piece",
        "shortest_row",
    ),
}  # fmt: skip


def longest_piece(count, size):
    """How many accumulators of a size are side by side in a piece of a row."""
    settings, cores = config.fusion, Machine.in_force().cores
    # For several cores there are two pieces for each, where they are not too short.
    share = -(-count // (2 * cores if cores > 1 else 1))
    return min(settings.row_piece // size, max(share, settings.shortest_row))


def rows_at_once(stores):
    """How many rows one step takes in."""
    slow = any(is_slow(total_of(store)) for store in stores)
    return 1 if slow else config.fusion.rows_at_once


def long_ones(stores):
    """{a store: the dtype in which its total grows, if that is not its own}."""
    long = math.prod(extents_of(stores[0])) > SHARE * rows_at_once(stores)
    grown = {s: grows_in(total_of(s)) for s in stores if long}
    return {s: dtype for s, dtype in grown.items() if dtype != total_of(s).dtype}


def bytes_of(stores):
    """How large the accumulators of totals are, for each of them."""
    dtypes = [*(s.buffer.dtype for s in stores), *long_ones(stores).values()]
    return sum(dtype.itemsize for dtype in dtypes)


def in_pieces(axis, stages, row_place):
    """The statements for all values of `axis`, a piece of them at a time.

    Args:
      row_place: the index in rows of the kernel's own.
    """
    size = max(map(bytes_of, stages))
    longest = axis.bounds[1] + 1
    most = longest_piece(longest, size)

    def all_stages(place, length):
        rows = (Rows((axis, row_place), s, place, length, most) for s in stages)
        return tuple(stmt for stage in rows for stmt in stage.statements())

    if longest <= most or not isinstance(axis.extent, int):
        # What only a run knows is a block already, which stays whole.
        most = longest
        return all_stages(lambda i: i, axis.extent)
    noted("pieces", totals=most)
    piece, start, length = split(axis, most)
    return (For(piece, all_stages(lambda i: op("add", start, i), length)),)


class Rows:
    """Totals that go on side by side: how they begin, take in a row, and end.

    Attributes:
      axes: of the totals, and of what is in rows of the kernel's own; stores: what is
        made of one total each.
      grown: {total: the store whose place it grows in, or a row of its own}.
      place: function of a counter of a loop of `length` steps: the value of the first.
      long: {store: the row in which its total grows, if that is not what is stored}.
      step: how many rows are taken in at once.
    """

    def __init__(self, axes, stores, place, length, most):
        self.axes, self.stores, self.place, self.length = axes, stores, place, length
        self.long, self.step, self.grown = {}, rows_at_once(stores), {}
        for total, count in Counter(map(total_of, stores)).items():
            mine = [s for s in stores if total_of(s) is total]
            owner = next((s for s in mine if s.value is total), mine[0])
            if count > 1 and owner.value is not total:
                # What several are made of is not to be written over by one of them.
                row = Buffer("total", (most,), total.dtype, space="cache")
                owner = Store(row, axes[1:], total)
            self.grown[total] = owner
        for n, (store, dtype) in enumerate(long_ones([*self.grown.values()]).items()):
            self.long[store] = Buffer(f"sum{n}", (most,), dtype, space="cache")

    def statements(self):
        """Set the accumulators, go through the rows, store what becomes of them."""
        done = self.loop(self.finish)
        begin = self.loop(self.begin)
        return (begin, *self.all_rows(), *([done] if done.body else []))

    def loop(self, make):
        """What `make` gives for a counter and a `Renamer` of the axis, in a loop."""
        i = Axis(self.length)
        axis, row_place = self.axes
        return For(i, tuple(make(i, Renamer({axis: self.place(i), row_place: i}))))

    def begin(self, i, renamed):
        for store in self.grown.values():
            first, = start_values(total_of(store))
            if store in self.long:
                row = self.long[store]
                yield Store(row, (i,), Const(first.value, row.dtype))
            else:
                yield Store(store.buffer, tuple(renamed(store.index)), first)

    def rows(self, at, axes=()):
        """Take in all that is at some values of the totals' axes: -> a loop."""

        def make(i, renamed):
            for total, store in self.grown.items():
                index = renamed(store.index)
                there = Renamer(dict(zip(total.axes, at, strict=True)))
                value, = renamed(there(total.bodies))
                value = Reduce(total.op, axes, (value,)) if axes else value
                yield Store(store.buffer, tuple(index), value, total.op)

        return self.loop(make)

    def finish(self, i, renamed):
        for store in self.stores:
            total = total_of(store)
            owner = self.grown[total]
            there = Load(owner.buffer, owner.index)
            if owner in self.long:
                there = Load(self.long[owner], (i,))
                there = op("convert", there, dtype=total.dtype)
            if owner in self.long or store is not owner or store.value is not total:
                value, = renamed(Renamer({total: there})([store.value]))
                yield Store(store.buffer, tuple(renamed(store.index)), value)

    def all_rows(self):
        """The loops over the totals' axes."""
        *extents, last = extents_of(self.stores[0])
        outer, inner = [Axis(n) for n in extents], []
        if not self.long:
            return nested(outer, self.rows_between(outer, 0, last))
        most = SHARE * self.step
        if last > most:
            whole, rest = divmod(last, most)
            share = Axis(whole)
            start = op("mul", share, as_index(most))
            body = [For(share, self.share(self.rows_between(outer, start, most)))]
            if rest:
                body += self.share(self.rows_between(outer, whole * most, rest))
            return nested(outer, body)
        rows = self.rows_between(outer, 0, last)
        while outer and (last := last * outer[-1].extent) <= most:
            inner.insert(0, outer.pop())
        return nested(outer, self.share(nested(inner, rows)))

    def share(self, rows):
        """What a few rows leave, in loops of its own, is added to long totals."""

        def begin(i, renamed):
            for store in self.long:
                first, = start_values(total_of(store))
                yield Store(store.buffer, tuple(renamed(store.index)), first)

        def end(i, renamed):
            for store, row in self.long.items():
                value, = renamed([Load(store.buffer, store.index)])
                value = op("convert", value, dtype=row.dtype)
                yield Store(row, (i,), value, total_of(store).op)

        return (self.loop(begin), *rows, self.loop(end))

    def rows_between(self, outer, start, count):
        """The loops over some rows; several rows at once are one step.

        Args:
          outer: indices of the totals' axes but the last one.
          start: where the rows begin along that, an index or a number.
        """
        step, body = self.step, []
        whole = count // step if step > 1 else 0
        if whole:
            many, one = Axis(whole), Axis(step, "reduce")
            row = op("add", op("mul", many, as_index(step)), one)
            row = op("add", as_index(start), row)
            body.append(For(many, (self.rows([*outer, row], (one,)),)))
        if rest := count - whole * step:
            one = Axis(rest)
            row = op("add", op("add", as_index(start), as_index(whole * step)), one)
            body.append(For(one, (self.rows([*outer, row]),)))
        return body


def running_rows(loop):
    """Running totals for all values of a loop's axis side by side, or nothing."""
    axis, (scan, *more) = loop.axis, loop.body
    if more or not isinstance(scan, For) or scan.axis.kind != "scan":
        return ()
    totals = totals_in(scan.body)
    if not (totals and are_apart(axis, scan, totals)):
        return ()
    noted("rows", totals=axis.extent, terms=scan.axis.extent)
    length = longest_piece(axis.extent, sum(t.dtype.itemsize for t in totals))
    length = min(length, axis.extent)
    noted("pieces", totals=length)
    piece, start, left = split(axis, length)
    rows = [
        Buffer(f"running{n}", (length,), total.dtype, space="cache")
        for n, total in enumerate(totals)
    ]
    return (For(piece, running_piece(axis, scan, totals, rows, start, left)),)


def are_apart(axis, scan, totals):
    """Whether memory runs along an axis, and nothing stored in a loop is read in it."""
    if not all(t.axes == (scan.axis,) and len(t.bodies) == 1 for t in totals):
        return False
    if not axis.is_plain or not all(isinstance(s, Store) for s in scan.body):
        return False
    if axis.extent < config.fusion.fewest_totals:
        return False
    loads = loads_of(scan.body)
    stored = {s.buffer for s in scan.body}
    places = [*scan.body, *(load for load in loads if axis in load.free)]
    along = all(stride_along(p, axis) == 1 for p in places)
    return along and not any(load.buffer in stored for load in loads)


def running_piece(axis, scan, totals, rows, start, length):
    """The statements for one piece of the axis: see `running_rows`."""
    step = Axis(scan.axis.extent, "serial")

    def loop(make):
        i = Axis(length)
        names = {axis: op("add", start, i), scan.axis: step}
        return For(i, tuple(make(i, names)))

    def begin(i, names):
        for row, total in zip(rows, totals, strict=True):
            yield Store(row, (i,), *start_values(total))

    def go_on(i, names):
        for row, total in zip(rows, totals, strict=True):
            yield Store(row, (i,), *Renamer(names)(total.bodies), total.op)

    def finish(i, names):
        done = {t: Load(row, (i,)) for t, row in zip(totals, rows, strict=True)}
        yield from replaced(scan.body, (names | done).get)

    return loop(begin), For(step, (loop(go_on), loop(finish)))


def is_slow(total):
    """Whether what is added takes longer than reading and writing an accumulator."""
    # Where a load is, is no arithmetic of the row's.
    loads = loads_within(total.bodies)
    values = postorder(total.bodies, skip=loads)
    return not {e.name for e in values if isinstance(e, Op)} <= quick
