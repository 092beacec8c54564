"""Tables: where tapes and unions are in memory.

    t0[0] = b0                          # a tape: where its items begin
    while:                              # a while that fills it
      ...
      reserve t2, n0 + 1                # the table has room for one more item
      t2[n0] = s2                       # a residual of this step
      n0 = n0 + 1
    t1[0] = n0 - b0                     # the tape: how many items there are

A table is a buffer whose rows nobody has counted yet.  A Tape is a range of the rows of
a table, a Union a number for each case, which says in which row of that case's tables
its values stand.  They nest as their types do, and all of it is flat arrays of numbers.

Tables that a region makes have a zero in row 0, and a register that counts their rows:

    reserve t2, 1                       # at the beginning of the region
    t2[0] = 0.0
    n0[] = 1
"""

from contextlib import contextmanager
from dataclasses import dataclass

from ...transform.control_flow.unions_and_tapes import Tape, Union
from ..loops.buffers import Buffer
from ..loops.expressions import Const, Expr, as_index, op
from ..loops.scalars import INDEX
from ..loops.statements import Reserve
from .regions import Part, each_element

# In place of the length of a zero Tape, which has whatever length is asked for.
ZERO = -1


def rows(builder, shape, dtype):
    """A buffer that has as many rows as it takes."""
    return builder.buffer((0, *shape), dtype, "table")


@contextmanager
def at_start(builder):
    """What is built meanwhile stands at the beginning of the region."""
    builder.blocks.append(builder.first)
    yield
    builder.blocks.pop()


def growing(builder):
    """(column, count) for a table that a region makes, and that grows."""

    def column(shape, dtype, zero):
        buffer, root = rows(builder, shape, dtype), builder.root
        with at_start(root):
            root.add(Reserve(buffer, as_index(1)))
            fill(root, Part(buffer, (as_index(0),)), zero)
        return buffer

    def count():
        number = builder.number(INDEX)
        with at_start(builder):
            builder.set(number, as_index(1))
        return number

    return column, count


def fill(builder, where, value):
    """All elements of an array become a number."""
    value = Const(value, where.buffer.dtype)
    each_element(builder, where, lambda index: value)


def empty(builder, every):
    """Tables have no records yet, but for the zero."""
    for records in every:
        builder.set(records.count, as_index(1))


# ---- what is in a table


def all_columns(table):
    """The buffers of a table, each followed by those of what is in it."""
    inner = (t for records in table.inner for t in records.tables)
    return [*table.columns, *(name for t in inner for name in all_columns(t))]


def all_records(table):
    """The records that a table's values refer to, and what those refer to in turn."""
    found = []
    for records in table.inner:
        found += [records, *(r for t in records.tables for r in all_records(t))]
    return found


# ---- tables


@dataclass(frozen=True, eq=False)
class Records:
    """Tables whose rows belong together, and the register that counts these."""

    count: Part | None
    tables: tuple

    @property
    def used(self):
        return self.count.load()


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Arrays as rows of one buffer."""

    rows: Buffer
    inner = ()

    @property
    def columns(self):
        return (self.rows,)


@dataclass(frozen=True, eq=False)
class TapeTable:
    """Tapes: `start` and `length` are buffers of indices."""

    start: Buffer
    length: Buffer
    items: Records

    @property
    def columns(self):
        return (self.start, self.length)

    @property
    def inner(self):
        """The records that its values refer to."""
        return (self.items,)


@dataclass(frozen=True, eq=False)
class UnionTable:
    """Unions: `positions` is a buffer of indices for each case, `cases` its records."""

    positions: tuple
    cases: tuple

    @property
    def columns(self):
        return self.positions

    @property
    def inner(self):
        return self.cases


# chapter 22
def make_table(aval, column, count):
    """A table for values of a type.

    Args:
      column: function(shape, dtype, zero) -> a buffer of such rows, the first of which
        is that zero.
      count: function() -> the register that counts rows, or None.
    """
    if isinstance(aval, Tape):
        columns = column((), INDEX, 0), column((), INDEX, ZERO)
        return TapeTable(*columns, make_records((aval.element,), column, count))
    if isinstance(aval, Union):
        columns = tuple(column((), INDEX, 0) for _ in aval.cases)
        cases = tuple(make_records(case, column, count) for case in aval.cases)
        return UnionTable(columns, cases)
    return ArrayTable(column(aval.shape, aval.dtype, 0))


def make_records(avals, column, count):
    """The tables for values that stand in the same row."""
    tables = tuple(make_table(aval, column, count) for aval in avals)
    return Records(count(), tables)


# ---- where tapes and unions are


@dataclass(frozen=True)
class Ref:
    """One record: where a Tape or Union is."""

    table: object
    index: Expr

    def column(self, buffer):
        """The number of this record in a column."""
        return Part(buffer, (self.index,))

    def position(self, case):
        """Of a Union, where its values of a case are."""
        return self.column(self.table.positions[case])

    def item(self, i):
        """Of a Tape, the item in row i of the table of items."""
        return record(self.table.items.tables[0], i)

    def reader(self, builder):
        """From a step of a scan to the place of what that step reads."""
        first = builder.hold(self.column(self.table.start).load())
        length = self.column(self.table.length).load()
        # A zero has the item in row 0, for all steps.
        some = op("ne", length, as_index(ZERO))
        stride = builder.hold(op("convert", some, dtype=INDEX))
        return lambda i: self.item(op("add", first, op("mul", i, stride)))

    def writer(self, builder, steps):
        """From a step of a scan to the place of what that step writes."""
        tape = self.recording(builder)
        tape.all_items(steps)
        return lambda i: self.item(op("add", tape.first, i))

    def recording(self, builder):
        """What builds how a loop fills this Tape, item by item."""
        return Recording(builder, self)


def record(table, index):
    """The value at an index of a table, as a part of a buffer or a reference."""
    if isinstance(table, ArrayTable):
        return Part(table.rows, (index,))
    return Ref(table, index)


def reserve(builder, records, more):
    """Make tables longer, unless they have room for so many more rows."""
    rows = op("add", records.used, more)
    for table in records.tables:
        builder.add(*(Reserve(column, rows) for column in table.columns))


def take(builder, records, more):
    """So many more rows are in use."""
    builder.set(records.count, op("add", records.used, more))


class Recording:
    """A Tape that a loop fills: items behind those that are in the table already."""

    def __init__(self, builder, ref):
        self.builder, self.ref, self.items = builder, ref, ref.table.items
        self.first = builder.hold(self.items.used)
        builder.set(ref.column(ref.table.start), self.first)

    def next_item(self):
        """Where the item of this step goes, if the steps are not known beforehand."""
        reserve(self.builder, self.items, as_index(1))
        return self.ref.item(self.items.used)

    def step(self):
        """There is one item more."""
        take(self.builder, self.items, as_index(1))

    def finish(self):
        """How many items the Tape has got."""
        length = op("sub", self.items.used, self.first)
        self.builder.set(self.ref.column(self.ref.table.length), length)

    def all_items(self, steps):
        """Make room for so many items at once, to be written in any order."""
        reserve(self.builder, self.items, steps)
        take(self.builder, self.items, steps)
        self.finish()


def local_record(builder, aval):
    """A Tape or Union that is gone when the program around it has run."""
    table = make_table(aval, *growing(builder))
    empty(builder, all_records(table))
    return Ref(table, as_index(0))
