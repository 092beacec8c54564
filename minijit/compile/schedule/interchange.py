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

What else there is for each column, a total of which another one is made, or loops that
use it, comes along in a block of columns, and is a row there:

    for j:                              for block:
      r0 = add(k: x[k,j])                 for j: s[j] = add(k: x[k,b+j])
      for i: y[i,j] = x[i,j] / r0         for i: for j: y[i,b+j] = x[i,b+j] / s[j]
"""

from collections import Counter
from functools import partial

from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.contents import (
    is_nest, loads_of, loads_within, stores_in, totals_in, totals_within, updated_in,
)
from ..loops.expressions import Axis, Const, Load, Op, Reduce, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.reductions import grows_in, start_values
from ..loops.scalars import comparisons
from ..loops.statements import (
    For, Store, changed, expressions, nested, on_buffers, replaced, statements,
)
from ..numbers.scalar_forms import scalar_form
from ..pipeline import arrangements
from ..settings import config
from .machine import Machine
from .nests import all_along, count_of, nest_of, split, stride_along

# What takes no longer than reading and writing an accumulator: then several rows are
# added at once.
quick = {"add", "sub", "mul", "neg", "abs", "max", "min", "select", "convert"}
quick |= comparisons
# So many steps, of several rows each, of a long sum are added up in float32.
SHARE = 128


def interchanged(body):
    """A kernel's statements, with its totals over outer axes in rows."""
    return changed(body, interchange)


def interchange(stmt):
    """One statement, or several that do the same; None where it is to look inside."""
    if not isinstance(stmt, For):
        return (stmt,)
    if not all(isinstance(s, Store) for s in stmt.body):
        return running_rows(stmt)
    stages = stages_in_rows(stmt)
    return in_pieces(stmt.axis, stages) if stages else (stmt,)


def stages_in_rows(loop):
    """The stores in a loop, in lists of those whose totals go on together in rows; or
    nothing, if not all do."""
    if updated_in(loop.body):
        # It would find there what an earlier stage has stored.
        return ()
    alike = {}
    for store in loop.body:
        if not (total := total_of(store)):
            return ()
        alike.setdefault(tuple(axis.extent for axis in total.axes), []).append(store)
    rows = all(pays(loop.axis, stores) for stores in alike.values())
    return [*alike.values()] if rows else ()


def total_of(store):
    """The only Reduce in what is stored, if it can go on in a row."""
    reduces = totals_within([store.value])
    if len(reduces) != 1 or store.combine:
        return None
    total, = reduces
    # Of complex numbers each part has a sum of its own.
    kinds = "iufc" if total.op == "add" else "iufb"
    return total if total.is_plain and total.dtype.kind in kinds else None


def pays(axis, stores):
    """Whether a loop's axis is the one along which memory runs, and rows are long."""
    if axis.kind != "loop":
        return False
    totals = [total_of(store) for store in stores]
    axes = totals[0].axes
    if any(axis in as_index(a.extent).free for a in axes):
        return False
    inside = loads_within([t.bodies[0] for t in totals])
    moves = any(axis in load.free for load in inside)
    aside = {e for total in totals for e in kept_aside(axis, total)}
    inside = [load for load in inside if load not in aside]
    kept = [s for s in stores if s.buffer.space != "cache"]
    if not (moves and all_along(axis, kept, inside)):
        return noted("along memory")
    count, terms, settings = axis.bounds[1] + 1, count_of(axes), config.fusion
    if count < settings.fewest_totals:
        return noted("few totals", totals=count)
    if terms < settings.rows_at_once:
        return noted("few terms", terms=terms)
    return noted("rows", totals=count, terms=terms)


def kept_aside(axis, total):
    """The loads that are the same for all terms of a total, and do not run along the
    axis: a coordinate of each point.  They are read once, into rows of their own.

    Functions such as `exp` are as quick in a loop over the terms, which keeps its total
    in registers.
    """
    loads = loads_within(total.bodies)
    values = postorder(total.bodies, skip=loads)
    if any(isinstance(e, Op) and scalar_form(e) for e in values):
        return []
    same = (e for e in loads if axis in e.free <= total.free)
    return [e for e in same if stride_along(e, axis) != 1]


loop_rules |= {
    "along memory": (False, "memory runs along its totals, one after the other"),
    "few totals": (False, "so few totals fit in registers", "fewest_totals"),
    "few terms": (False, "its totals have few terms each", "rows_at_once"),
    "rows": (
        True, "its totals go on side by side, row by row", "fewest_totals",
        "rows_at_once",
    ),
    "pieces": (
        True, "a piece of a row at a time stays in the first cache", "row_piece"
    ),
}  # fmt: skip


def longest_piece(count, size):
    """How many accumulators of a size are side by side in a piece of a row.

    All pieces are about as long, and none begins in the midst of a line of memory: a
    core would wait for the one that has the longest.  They are no shorter than the
    cache demands, for several cores either: what is fetched ahead of a short one is
    another's.
    """
    most, line = config.fusion.row_piece // size, Machine.in_force().caches[0].line // 4
    pieces = -(-count // most)
    return min(most, -(-count // (pieces * line)) * line)


def rows_at_once(totals):
    """How many rows one step takes in."""
    for total in totals:
        # Where a load is, is no arithmetic of the row's.
        values = postorder(total.bodies, skip=loads_within(total.bodies))
        if not {e.name for e in values if isinstance(e, Op)} <= quick:
            return 1
    return config.fusion.rows_at_once


def long_ones(totals):
    """{a total: the dtype in which it grows, if that is not its own}"""
    axes = totals[0].axes
    long = count_of(axes) > SHARE * rows_at_once(totals) and axes[0].kind == "reduce"
    return {e: grows_in(e) for e in totals if long and grows_in(e) != e.dtype}


def bytes_of(axis, stores):
    """How large the accumulators of totals are, and what is kept aside, for each."""
    totals = [e for s in stores for e in totals_within([s.value])]
    long = long_ones(totals)
    dtypes = [d for e in totals for d in (e.dtype, long.get(e)) if d]
    aside = {e for total in totals for e in kept_aside(axis, total)}
    return sum(dtype.itemsize for dtype in [*dtypes, *(e.dtype for e in aside)])


def piece_of(axis, stages):
    """How many values of an axis a piece of a row has."""
    size = max(bytes_of(axis, stage) for stage in stages)
    return longest_piece(axis.bounds[1] + 1, size)


def in_pieces(axis, stages):
    """The statements for all values of `axis`, a piece of them at a time.

    Args:
      stages: lists of stores; the totals in those of one go on together.
    """
    longest = axis.bounds[1] + 1
    most = piece_of(axis, stages)
    if longest > most and isinstance(axis.extent, int):
        noted("pieces", totals=most)
    else:
        # What only a run knows is a block already, which stays whole.
        most = longest

    def all_stages(place, length):
        rows = (Rows(axis, s, place, length, most) for s in stages)
        return tuple(stmt for stage in rows for stmt in stage.statements())

    return piece_by_piece(axis, most, all_stages)


def piece_by_piece(axis, most, make):
    """Statements for all values of an axis, for at most so many of them at a time.

    Args:
      make: function of a function, from a counter to the value of the axis, and of how
        many steps it counts: statements.
    """
    if not isinstance(axis.extent, int) or axis.extent <= most:
        return make(lambda i: i, axis.extent)
    piece, start, count = split(axis, most)
    return (For(piece, make(lambda i: op("add", start, i), count)),)


class Rows:
    """Totals that go on side by side: how they begin, take in a row, and end.

    Attributes:
      axis: of the totals; stores: what is made of them.
      grown: {total: the store whose place it grows in, or one into a row of its own}.
      place: function of a counter of a loop of `length` steps: the value of the axis.
      here: stands for that counter, the index in rows of the kernel's own.
      long: {total: the row in which it grows, if that is not what is stored}.
      step: how many rows are taken in at once.
      seen: {axis of running totals: that of the steps, in each of which they are seen}.
      aside: {what is the same for all terms: a row that has it, at `here`}.
    """

    def __init__(self, axis, stores, place, length, most):
        self.axis, self.stores, self.place, self.length = axis, stores, place, length
        self.here, self.most = Axis(length), most
        totals = totals_within([s.value for s in stores])
        scans = [axis for axis in totals[0].axes if axis.kind == "scan"]
        self.seen = {axis: Axis(axis.extent, "serial") for axis in scans}
        self.step, self.grown = rows_at_once(totals), {}
        for total in totals:
            self.grown[total] = self.owner(total)
        self.long = {
            total: self.row("sum", n, dtype)
            for n, (total, dtype) in enumerate(long_ones(totals).items())
        }
        aside = dict.fromkeys(e for total in totals for e in kept_aside(axis, total))
        self.aside = {
            load: Load(self.row("aside", n, load.dtype), (self.here,))
            for n, load in enumerate(aside)
        }

    def row(self, name, n, dtype):
        return Buffer(f"{name}{n}", (self.most,), dtype, space="cache")

    def owner(self, total):
        """What stores a total: what is made of it, or a row."""
        mine = [s for s in self.stores if total in totals_within([s.value])]
        whole = [s for s in mine if s.value is total]
        other = (whole or mine)[0].buffer.dtype != total.dtype
        if self.seen or other or len(mine) > 1 and not whole:
            # What several are made of is not to be written over by one of them.
            row = self.row("total", len(self.grown), total.dtype)
            return Store(row, (self.here,), total)
        return (whole or mine)[0]

    def statements(self):
        """Set the accumulators, go through the rows, store what becomes of them."""
        begin, done = self.loop(self.begin), self.loop(self.finish)
        for step in self.seen.values():
            return begin, For(step, (self.rows([step]), done))
        return (begin, *self.all_rows(), *([done] if done.body else []))

    def loop(self, make):
        """What `make` gives for a counter, and what puts it in the axis' place."""
        i = Axis(self.length)
        names = {self.axis: self.place(i), self.here: i} | self.seen
        return For(i, tuple(make(i, partial(substitute, replacement=names.get))))

    def begin(self, i, renamed):
        for load, kept in self.aside.items():
            yield Store(kept.buffer, (i,), *renamed([load]))
        for total, store in self.grown.items():
            first, = start_values(total)
            if row := self.long.get(total):
                yield Store(row, (i,), Const(first.value, row.dtype))
            else:
                yield Store(store.buffer, tuple(renamed(store.index)), first)

    def rows(self, at, axes=()):
        """Take in all that is at some values of the totals' axes: -> a loop."""

        def make(i, renamed):
            for total, store in self.grown.items():
                index = renamed(store.index)
                there = dict(zip(total.axes, at, strict=True)) | self.aside
                value, = renamed(substitute(total.bodies, there.get))
                value = Reduce(total.op, axes, (value,)) if axes else value
                yield Store(store.buffer, tuple(index), value, total.op)

        return self.loop(make)

    def finish(self, i, renamed):
        there = {e: Load(s.buffer, s.index) for e, s in self.grown.items()}
        for total, row in self.long.items():
            there[total] = op("convert", Load(row, (i,)), dtype=total.dtype)
        for store in self.stores:
            total = store.value
            if total in self.long or self.grown.get(total) is not store:
                value, = renamed(substitute([total], there.get))
                yield Store(store.buffer, tuple(renamed(store.index)), value)

    def all_rows(self):
        """The loops over the totals' axes."""
        *axes, row = next(iter(self.grown)).axes
        outer, inner, last = [Axis(a.extent) for a in axes], [], row.extent
        if not self.long:
            return nested(outer, self.rows_between(outer, 0, last))
        most = SHARE * self.step
        if (terms := row.bounds[1] + 1) > most:
            whole, rest = in_steps(last, most)
            share = Axis(whole)
            start = op("mul", share, as_index(most))
            body = [For(share, self.share(self.rows_between(outer, start, most)))]
            if rest:
                start = op("mul", as_index(whole), as_index(most))
                body += self.share(self.rows_between(outer, start, rest))
            return nested(outer, body)
        rows = self.rows_between(outer, 0, last)
        while outer and (terms := terms * (outer[-1].bounds[1] + 1)) <= most:
            inner.insert(0, outer.pop())
        return nested(outer, self.share(nested(inner, rows)))

    def share(self, rows):
        """What a few rows leave, in loops of its own, is added to long totals."""

        def begin(i, renamed):
            for total in self.long:
                store = self.grown[total]
                index = tuple(renamed(store.index))
                yield Store(store.buffer, index, *start_values(total))

        def end(i, renamed):
            for total, row in self.long.items():
                store = self.grown[total]
                value, = renamed([Load(store.buffer, store.index)])
                value = op("convert", value, dtype=row.dtype)
                yield Store(row, (i,), value, total.op)

        return (self.loop(begin), *rows, self.loop(end))

    def rows_between(self, outer, start, count):
        """The loops over some rows; several rows at once are one step.

        Args:
          outer: indices of the totals' axes but the last one.
          start: where the rows begin along that, an index or a number.
        """
        step, body = self.step, []
        whole, rest = in_steps(count, step) if step > 1 else (0, count)
        if whole:
            many, one = Axis(whole), Axis(step, "reduce")
            row = op("add", op("mul", many, as_index(step)), one)
            row = op("add", as_index(start), row)
            body.append(For(many, (self.rows([*outer, row], (one,)),)))
        if rest:
            one = Axis(rest)
            done = op("mul", as_index(whole), as_index(step))
            row = op("add", op("add", as_index(start), done), one)
            body.append(For(one, (self.rows([*outer, row]),)))
        return body


def in_steps(count, size):
    """(how many steps of a size there are in a count, how many are left)"""
    if isinstance(count, int):
        return divmod(count, size)
    return tuple(op(name, count, as_index(size)) for name in ("floordiv", "mod"))


def running_rows(loop):
    """Running totals for all values of a loop's axis side by side, or None."""
    axis, (scan, *more) = loop.axis, loop.body
    if more or not isinstance(scan, For) or scan.axis.kind != "scan":
        return None
    totals = totals_in(scan.body)
    if not (totals and are_apart(axis, scan, totals)):
        return None
    noted("rows", totals=axis.extent, terms=scan.axis.extent)
    return in_pieces(axis, [scan.body])


def are_apart(axis, scan, totals):
    """Whether memory runs along an axis, and nothing stored in a loop is read in it."""
    if not all(t.axes == (scan.axis,) and len(t.bodies) == 1 for t in totals):
        return False
    if not axis.is_plain or not all(isinstance(s, Store) for s in scan.body):
        return False
    if axis.extent < config.fusion.fewest_totals:
        return False
    apart = not updated_in(scan.body)
    return apart and all_along(axis, scan.body, loads_of(scan.body))


# ---- blocks of columns


def block_length(axis, body):
    """How many columns a block has; 1 where memory does not run along the axis.

    Args:
      axis: of the innermost loop around the statements.
    """
    longest = axis.bounds[1] + 1
    few = axis.kind != "loop" or longest < config.fusion.fewest_totals
    if few or bytes_along(axis, body) <= 0:
        return 1
    if not isinstance(axis.extent, int):
        return longest  # a block already
    # A row holds numbers of 32 bits, mostly; each column has rows of its own.
    own = sum(b.nbytes for b in own_rows(axis, stores_in(body)))
    most = config.fusion.row_bytes // own if own else longest
    return max(min(longest, longest_piece(longest, 4), most), 1)


def own_rows(axis, stores):
    """The kernel's own buffers that hold what one column has, of those stored."""
    own = (s for s in stores if s.buffer.space == "cache")
    return {s.buffer: None for s in own if not any(axis in i.free for i in s.index)}


def in_blocks(body):
    """A kernel's statements, with loops over columns in blocks where that is better."""
    return changed(body, blocks)


def blocks(stmt):
    """One loop in blocks of columns, or None."""
    mixed = isinstance(stmt, For) and is_nest(stmt.body) and goes_by_columns(stmt)
    plain = mixed and all(isinstance(s, Store) or is_plain(s) for s in stmt.body)
    length = block_length(stmt.axis, stmt.body) if plain else 1
    if length == 1:
        return None
    return in_blocks(Columns(stmt.axis, stmt.body, length).statements())


def goes_by_columns(loop):
    """Whether there is work for each value of a loop's axis, besides inner loops.

    Stores of one total each go on side by side as they are, see `interchange`.
    """
    inner = [s for s in loop.body if isinstance(s, For)]
    found = postorder(expressions(loop.body))
    if any(type(e) is Reduce and len(e.bodies) > 1 for e in found):
        # What stands where is no number that a row can hold.
        return False
    if inner:
        found = postorder(expressions(inner))
        if len(loop.body) > 1:
            return True
        # A nest's loops change places if memory runs along the outer one rather.
        total = any(type(e) is Reduce and loop.axis in e.free for e in found)
        least = bytes_along(nest_of(*inner)[0][-1], inner) if nest_of(*inner) else 0
        return total and bytes_along(loop.axis, inner) > least
    values = [s.value for s in loop.body]
    mine = [e for e in totals_within(values) if loop.axis in e.free]
    if any(is_of_column(t, loop.axis) for e in mine for t in totals_within(e.bodies)):
        return True
    made = totals_within([v for v in values if type(v) is not Reduce])
    made = [e for e in made if loop.axis in e.free]
    twice = any(total in values for total in made)
    return bool(made) and (twice or not all(map(total_of, loop.body)))


def is_plain(loop):
    """Whether there is but one statement in each loop within a loop, or stores."""
    while isinstance(loop, For):
        if len(loop.body) > 1:
            return all(isinstance(s, Store) for s in loop.body)
        loop, = loop.body
    return True


def bytes_along(axis, body):
    """Bytes of arrays that memory runs along with an axis, less those it crosses."""
    places = (*stores_in(body), *loads_of(body))
    return sum(
        place.buffer.nbytes * (1 if stride_along(place, axis) == 1 else -1)
        for place in places
        if place.buffer.space != "cache" and any(axis in i.free for i in place.index)
    )


def is_of_column(expr, axis, inner=()):
    """Whether an expression has one value for each column, in no loop within."""
    of_loops = (a in inner or a.kind == "reduce" for a in expr.free)
    return axis in expr.free and not any(of_loops)


def widened(axis, body, length):
    """(statements, buffers): where a buffer of the kernel's own held what one step of a
    loop has, it holds what a block of so many steps has."""
    wide = {
        b: Buffer(b.name, (*b.shape, length), b.dtype, space="cache")
        for b in own_rows(axis, stores_in(body))
    }
    there = lambda b, index: (wide[b], (*index, axis))
    return on_buffers(body, there, wide), {*wide.values()}


class Columns:
    """The body of a loop over columns, taken apart.

    Attributes:
      axis: of the columns; length: of a block.
      known: {expression of a column: the load from the row of a block}.
      new, plain: what `known` makes of expressions, and those that need no total, so
        that what statements share is looked into once.
      parts: statements in loops over `axis`, in order.
      rows: the buffers in which each column of a block has a place of its own.
      again: the buffers that several statements store into.
    """

    def __init__(self, axis, body, length):
        self.axis, self.length = axis, length
        inside = statements(body)
        self.inner = {s.axis for s in inside if isinstance(s, For)}
        stored = Counter(s.buffer for s in stores_in(body))
        self.again = {buffer for buffer, count in stored.items() if count > 1}
        body, self.rows = widened(axis, body, length)
        self.known, self.parts, self.new, self.plain = {}, [], {}, set()
        for stmt in body:
            self.take(stmt)

    def of_columns(self, expr):
        return is_of_column(expr, self.axis, self.inner)

    def take(self, stmt):
        """A statement of a column: first the totals that it needs, in rows."""
        while True:
            stmt, = replaced([stmt], self.known.get, self.new)
            in_loop = isinstance(stmt, For)
            found = postorder(expressions([stmt]), () if in_loop else self.plain)
            totals = [e for e in found if type(e) is Reduce and self.of_columns(e)]
            ready = [e for e in totals if not self.holds(e, totals)]
            if not ready or isinstance(stmt, Store) and ready == [stmt.value]:
                break
            self.in_rows(ready)
        if in_loop:
            # What is made of totals, and would be made of them again in each step.
            users = [e for e in found if not self.of_columns(e)]
            parts = [c for e in users for c in e.children()]
            parts += [s.value for s in stores_in([stmt])]
            values = [e for e in dict.fromkeys(parts) if self.is_work(e)]
            if values:
                self.in_rows(values)
                stmt, = replaced([stmt], self.known.get, self.new)
            self.parts.append(self.innermost(stmt))
        else:
            self.plain.update(() if type(stmt.value) is Reduce else found)
            self.add(stmt)

    def add(self, store):
        """A store, in the loop of those just before, as far as it does not need them:
        what they share is made once.  Those that follow find a total there."""
        last, total = self.parts[-1:], type(store.value) is Reduce
        beside = last[0].body if last and last[0].axis is self.axis else ()
        reads = {e.buffer for e in loads_within([store.value])} if total else set()
        alike = all((type(s.value) is Reduce) == total for s in beside)
        if beside and alike and reads.isdisjoint(s.buffer for s in beside):
            self.parts[-1] = For(self.axis, (*beside, store))
        else:
            self.parts.append(self.innermost(store))
        if total and store.buffer not in self.again:
            self.know(store.value, Load(store.buffer, store.index))

    def know(self, value, load):
        self.known[value] = load
        self.new.clear()

    def holds(self, expr, others):
        inside = postorder(expr.bodies)
        return any(other in inside for other in others)

    def is_work(self, expr):
        """Whether it is an operation for each column, on more than indices."""
        inside = postorder([expr])
        works = isinstance(expr, Op) and self.of_columns(expr)
        return works and any(type(e) is Load for e in inside) and expr.dtype.kind != "i"

    def in_rows(self, values):
        """Compute values of columns in rows."""
        stores = []
        for value in values:
            name = f"row{len(self.rows)}"
            row = Buffer(name, (self.length,), value.dtype, space="cache")
            self.rows.add(row)
            stores.append(Store(row, (self.axis,), value))
            self.know(value, Load(row, (self.axis,)))
        self.parts.append(For(self.axis, tuple(stores)))

    def innermost(self, stmt):
        """A statement with the loop over columns inside of its own loops."""
        if isinstance(stmt, For) and any(isinstance(s, For) for s in stmt.body):
            return For(stmt.axis, tuple(map(self.innermost, stmt.body)))
        if isinstance(stmt, For):
            return For(stmt.axis, (For(self.axis, stmt.body),))
        return For(self.axis, (stmt,))

    def statements(self):
        """All of it, in loops over blocks if there are several."""
        return piece_by_piece(self.axis, self.length, self.block)

    def block(self, place, count):
        return in_block(self.parts, self.axis, place, self.rows, count)


def in_block(parts, axis, place, rows, *block):
    """Statements in which each loop over an axis goes over a block of its steps.

    Args:
      place: function of a counter of the block: the value of the axis.
      rows: the buffers in which each step of a block has a place of its own, which the
        axis is the index of; block: how many steps it has, and of what kind they are.
    """

    def placed(stmt):
        if not isinstance(stmt, For) or stmt.axis is not axis:
            return None
        j = Axis(*block)
        in_row = lambda b, index: (b, tuple(substitute(index, {axis: j}.get)))
        body = on_buffers(stmt.body, in_row, rows)
        return (For(j, replaced(body, {axis: place(j)}.get)),)

    return changed(parts, placed)


def in_rows(body, rows):
    """Statements with rows in the place of arrays.

    Args:
      rows: {array: (its row, the dimensions that the row has)}.
    """

    def place(buffer, index):
        row, left = rows[buffer]
        # A number has a row of one: a buffer without axes would be one of a lane.
        return row, tuple(index[d] for d in left) or (as_index(0),) * len(row.shape)

    return on_buffers(body, place, rows) if rows else body


arrangements |= {"in_blocks": in_blocks}
