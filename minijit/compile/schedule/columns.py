"""Blocks of columns: totals over outer axes beside what is made of them.

    for j:                             for block:
      r0 = add(k: x[k,j])                for j: s[j] = add(k: x[k,b+j])
      for i: y[i,j] = x[i,j] / r0        for i: for j: y[i,b+j] = x[i,b+j] / s[j]

What stands on the left goes through memory with a step of a row.  On the right a block
of columns is gone through row by row; a number that there was for each column is now a
row of them.  The totals in it go on side by side, see `interchange`.
"""

from collections import Counter

from ..loops.buffers import Buffer
from ..loops.contents import loads_of, loads_within, stores_in
from ..loops.expressions import Axis, Load, Op, Reduce, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.statements import For, Store, expressions, replaced, statements
from ..pipeline import arrangements
from ..settings import config
from .interchange import longest_piece, total_of
from .nests import nest_of, split, stride_along
from .shared_loops import is_nest


def block_length(axis, body):
    """How many columns a block has; 1 where memory does not run along the axis.

    Args:
      axis: of the innermost loop around the statements.
    """
    if not axis.is_plain or axis.extent < config.fusion.fewest_totals:
        return 1
    if bytes_along(axis, body) <= 0:
        return 1
    # A row holds numbers of 32 bits, mostly.
    return min(axis.extent, longest_piece(axis.extent, 4))


def in_blocks(body):
    """A kernel's statements, with loops over columns in blocks where that is better."""
    return tuple(s for stmt in body for s in blocks(stmt))


def blocks(stmt):
    """One loop in blocks of columns, or as it is."""
    if not isinstance(stmt, For):
        return (stmt,)
    mixed = is_nest(stmt.body) and goes_by_columns(stmt)
    plain = mixed and all(isinstance(s, Store) or is_plain(s) for s in stmt.body)
    length = block_length(stmt.axis, stmt.body) if plain else 1
    if length == 1:
        return (For(stmt.axis, in_blocks(stmt.body)),)
    return Columns(stmt.axis, stmt.body, length).statements()


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
    made = [s.value for s in loop.body if type(s.value) is not Reduce]
    totals = [e for e in postorder(made) if type(e) is Reduce and loop.axis in e.free]
    stored = {s.value for s in loop.body}
    twice = any(total in stored for total in totals)
    return bool(totals) and (twice or not all(map(total_of, loop.body)))


def is_plain(loop):
    """Whether there is but one statement in each loop within a loop, or stores."""
    while isinstance(loop, For):
        if len(loop.body) > 1:
            return all(isinstance(s, Store) for s in loop.body)
        loop, = loop.body
    return True


def is_total(store):
    return type(store.value) is Reduce


def bytes_along(axis, body):
    """Bytes of arrays that memory runs along with an axis, less those it crosses."""
    places = (*stores_in(body), *loads_of(body))
    return sum(
        place.buffer.nbytes * (1 if stride_along(place, axis) == 1 else -1)
        for place in places
        if place.buffer.space != "cache" and any(axis in i.free for i in place.index)
    )


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
        stores = stores_in(body)
        stored = Counter(s.buffer for s in stores)
        self.again = {buffer for buffer, count in stored.items() if count > 1}
        # A buffer of the kernel's own holds one column; now it holds a block of them.
        own = [
            s.buffer for s in stores
            if s.buffer.space == "cache" and not any(axis in i.free for i in s.index)
        ]
        wide = {
            b: Buffer(b.name, (*b.shape, length), b.dtype, space="cache") for b in own
        }
        self.rows, self.known, self.parts = {*wide.values()}, {}, []
        self.new, self.plain = {}, set()
        for stmt in on_buffers(body, lambda b, index: (wide[b], (*index, axis)), wide):
            self.take(stmt)

    def of_columns(self, expr):
        """Whether an expression has one value for each column."""
        return self.axis in expr.free and not any(
            a in self.inner or a.kind == "reduce" for a in expr.free
        )

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
        elif type(stmt.value) is Reduce:
            self.add_total(stmt)
        else:
            self.plain.update(found)
            self.add_store(stmt)

    def add_store(self, store):
        """A store, in the loop of those just before: what they share is made once."""
        last = self.parts[-1:]
        if last and last[0].axis is self.axis and not any(map(is_total, last[0].body)):
            self.parts[-1] = For(self.axis, (*last[0].body, store))
        else:
            self.parts.append(self.innermost(store))

    def add_total(self, store):
        """A total that is stored as it is: those that follow find it there.

        It goes on beside those that were stored just before.
        """
        last, stores = self.parts[-1:], ()
        if last and last[0].axis is self.axis:
            stores = last[0].body
        made = {s.buffer for s in stores}
        reads = {e.buffer for e in loads_within([store.value])}
        if stores and all(type(s.value) is Reduce for s in stores) and not made & reads:
            self.parts[-1] = For(self.axis, (*stores, store))
        else:
            self.parts.append(self.innermost(store))
        if store.buffer not in self.again:
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
        extent, length = self.axis.extent, self.length
        if extent <= length:
            return self.block(lambda j: j, extent)
        block, start, count = split(self.axis, length)
        return (For(block, self.block(lambda j: op("add", start, j), count)),)

    def block(self, place, count):
        """The statements of one block, each loop over columns with its own axis."""
        return tuple(self.placed(s, place, count) for s in self.parts)

    def placed(self, stmt, place, count):
        if stmt.axis is not self.axis:
            inner = tuple(self.placed(s, place, count) for s in stmt.body)
            return For(stmt.axis, inner)
        j = Axis(count)

        def in_row(buffer, index):
            return buffer, tuple(substitute(list(index), {self.axis: j}.get))

        body = on_buffers(stmt.body, in_row, self.rows)
        return For(j, replaced(body, {self.axis: place(j)}.get))


def on_buffers(body, place, buffers):
    """Statements with the elements of some buffers elsewhere.

    Args:
      place: function of a buffer and an index: the buffer and index in their place.
    """

    def load(expr):
        if type(expr) is not Load or expr.buffer not in buffers:
            return None
        moved = Load(*place(expr.buffer, expr.index))
        return moved if moved is not expr else None

    def stores(body):
        for stmt in body:
            if isinstance(stmt, For):
                yield For(stmt.axis, tuple(stores(stmt.body)))
            elif stmt.buffer in buffers:
                where = place(stmt.buffer, stmt.index)
                yield Store(*where, stmt.value, stmt.combine)
            else:
                yield stmt

    return tuple(stores(replaced(body, load)))


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
