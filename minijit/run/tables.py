"""Tables: where native code has its tapes and unions.

    t0[0] = b0                                # a tape: where its items begin
    while True:                               # a while that fills it
        ...
        t2 = roomy(t2, n0, 1)                 # the table has room for one more item
        t2[n0] = s2                           # a residual of this step
        n0 += 1
    t1[0] = n0 - b0                           # the tape: how many items there are

A Tape is a range of the rows of a table, a Union a number for each case, which says in
which row of that case's tables its values stand.  They nest as their types do, and all
of it is flat arrays of numbers.
"""

from dataclasses import dataclass

import numpy as np

from ..compile.growing import ZERO
from ..compile.scalars import INDEX, storage_dtype
from ..transform.tape import Tape, Union
from .native_control import Place
from .scalar_math import functions

# A value of some type is the record at an index of a table; of an array type, a row of
# one array.  The record of a Tape says where its items begin in the table of items, and
# how many there are; the record of a Union, for each case, where in the tables of that
# case its values are.  Row 0 of a table that is referred to is a zero: a case that did
# not run is there, and so are all cases of a zero Union.


@dataclass(frozen=True, eq=False)
class Records:
    """Tables whose rows belong together, and the variable that counts these."""

    count: str
    tables: tuple


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Arrays as rows of one array: `rows` is the place of it."""

    rows: Place

    @property
    def columns(self):
        return (self.rows.name,)


@dataclass(frozen=True, eq=False)
class TapeTable:
    """Tapes: `start` and `length` are arrays of indices, by name."""

    start: str
    length: str
    items: Records

    @property
    def columns(self):
        return (self.start, self.length)


@dataclass(frozen=True, eq=False)
class UnionTable:
    """Unions: `positions` is an array for each case by name, `cases` its `Records`."""

    positions: tuple
    cases: tuple

    @property
    def columns(self):
        return self.positions


def make_table(aval, column, count):
    """A table for values of a type.

    Args:
      column: function(shape, dtype, zero) -> the name of an array with such rows, the
        first of which is that zero.
      count: function() -> the name of a variable.
    """
    if isinstance(aval, Tape):
        names = column((), INDEX, 0), column((), INDEX, ZERO)
        return TapeTable(*names, make_records((aval.element,), column, count))
    if isinstance(aval, Union):
        names = tuple(column((), INDEX, 0) for _ in aval.cases)
        cases = tuple(make_records(case, column, count) for case in aval.cases)
        return UnionTable(names, cases)
    name = column(aval.shape, storage_dtype(aval.dtype), 0)
    return ArrayTable(Place(name, (-1, *aval.shape), aval.dtype))


def make_records(avals, column, count):
    """The tables for values that stand in the same row."""
    tables = tuple(make_table(aval, column, count) for aval in avals)
    return Records(count(), tables)


def own_records(table):
    """The records that a table's values refer to."""
    if isinstance(table, TapeTable):
        return (table.items,)
    return () if isinstance(table, ArrayTable) else table.cases


def inner_records(table):
    """The same, and what those refer to in turn."""
    return [r for records in own_records(table) for r in (records, *all_inner(records))]


def all_inner(records):
    """What the values in some records refer to."""
    return [r for table in records.tables for r in inner_records(table)]


def all_columns(table):
    """The names of the arrays of a table, each followed by those of what is in it."""
    inner = (t for records in own_records(table) for t in records.tables)
    return [*table.columns, *(name for t in inner for name in all_columns(t))]


# ---- where tapes and unions are


@dataclass(frozen=True)
class Ref:
    """One record: where a Tape or Union is."""

    table: object
    index: str

    def item(self, i):
        """Of a Tape, the item in row i of the table of items."""
        return record(self.table.items.tables[0], i)

    def reader(self, function):
        """From a step of a scan to the place of what that step reads."""
        first, stride = function.fresh("b"), function.fresh("k")
        function.line(f"{first} = {self.table.start}[{self.index}]")
        # A zero has the item in row 0, for all steps.
        function.line(f"{stride} = {self.table.length}[{self.index}] != {ZERO}")
        return lambda i: self.item(f"{first} + {i} * {stride}")

    def writer(self, function, steps):
        """From a step of a scan to the place of what that step writes."""
        tape = self.recording(function)
        tape.all_items(steps)
        return lambda i: self.item(f"{tape.first} + {i}")

    def recording(self, function):
        """What prints how a loop fills this Tape, item by item."""
        return Recording(function, self)

    def position(self, case):
        """Of a Union, the text of where its values of a case are."""
        return f"{self.table.positions[case]}[{self.index}]"


def record(table, index):
    """The value at an index of a table, as a place or a reference."""
    if isinstance(table, ArrayTable):
        return table.rows.row(index)
    return Ref(table, index)


class Recording:
    """A Tape that a loop fills: items behind those that are in the table already."""

    def __init__(self, function, ref):
        self.function, self.ref, self.items = function, ref, ref.table.items
        self.first = function.fresh("b")
        function.line(f"{self.first} = {self.items.count}")
        function.line(f"{ref.table.start}[{ref.index}] = {self.first}")

    def next_item(self):
        """Where the item of this step goes, if the steps are not known beforehand."""
        reserve(self.function, self.items, 1)
        return self.ref.item(self.items.count)

    def step(self):
        """Print that there is one item more."""
        self.function.line(f"{self.items.count} += 1")

    def finish(self):
        """Print how many items the Tape has got."""
        length = f"{self.items.count} - {self.first}"
        self.function.line(f"{self.ref.table.length}[{self.ref.index}] = {length}")

    def all_items(self, steps):
        """Make room for so many items at once, to be written in any order."""
        reserve(self.function, self.items, steps)
        self.function.line(f"{self.items.count} += {steps}")
        self.finish()


def reserve(function, records, steps):
    """Print that tables are made longer, unless they have room for so many more."""
    for table in records.tables:
        for column in table.columns:
            function.line(f"{column} = roomy({column}, {records.count}, {steps})")


def roomy(array, used, more):
    """The array, or one at least twice as long if it has no room for so many more."""
    rows = array.shape[0]
    if used + more <= rows:
        return array
    longer = np.empty((max(used + more, 2 * rows), *array.shape[1:]), array.dtype)
    # Element by element: of an assignment of slices numba makes ten times the code.
    for i in range(array.size):
        longer.flat[i] = array.flat[i]
    return longer


functions |= {"roomy": roomy}


# ---- tables that a function makes

# How many records a table has room for at first.
FIRST_RECORDS = 16


def growing(function):
    """(column, count) for a table that a function makes, and that grows."""

    def column(shape, dtype, zero):
        name = function.fresh("t")
        function.rooms.append((name, (FIRST_RECORDS, *shape), dtype))
        function.loads.append(f"{name}[0] = {zero}")
        return name

    def count():
        name = function.fresh("n")
        function.loads.append(f"{name} = 1")
        return name

    return column, count


def local_record(function, aval):
    """A Tape or Union that is gone when the program around it has run."""
    table = make_table(aval, *growing(function))
    empty(function, inner_records(table))
    return Ref(table, "0")


def empty(function, every):
    """Print that tables have no records yet, but for the zero."""
    for records in every:
        function.line(f"{records.count} = 1")


def write_zero(function, where):
    """Print a zero at a place: an array of zeros, or a record that refers to them."""
    if isinstance(where, Place):
        depth = function.writer.depth
        names = function.loops(where.shape)
        function.line(f"{where.element(names)} = 0")
        function.writer.depth = depth
        return
    for column in where.table.columns:
        function.line(f"{column}[{where.index}] = 0")
    if isinstance(where.table, TapeTable):
        function.line(f"{where.table.length}[{where.index}] = {ZERO}")
