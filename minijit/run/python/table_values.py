"""Tables as Python knows them: tapes and unions that a native loop filled, or is given.

`decoder` reads the arrays of a table as values, one at a time, when they are asked for;
`encode` writes values as the arrays of a table, unless a loop put them in one already.
"""

import numpy as np

from ...compile.control.tables import ZERO
from ...compile.loops.scalars import INDEX, is_half
from ...trace.array import to_numpy
from ...transform.control_flow.tape_rules import eval_zero
from ...transform.control_flow.unions_and_tapes import (
    Tape, TapeValue, Union, UnionValue,
)
from ...transform.pieces import wrap_like
from ..values import pairs
from .region_launchers import RegionLauncher, region_launchers


class TableItems:
    """The items of a Tape, in the tables that a loop filled.

    Attributes:
      item: function from an index into the tables to the value there.
      first, length: where the items begin, and how many there are.
      columns: the arrays of the table of items.
    """

    def __init__(self, item, first, length, columns):
        self.item, self.first, self.length = item, first, length
        self.columns = columns

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if not -self.length <= i < self.length:
            raise IndexError(f"item {i} of a tape of {self.length}")
        return self.item(self.first + i % self.length)


class TableValues(tuple):
    """The cases of a Union that a loop made.

    Attributes:
      columns: the arrays of a table of just this Union.
    """


def stored(array):
    """An array as a loop takes it: 16-bit floats as bits, complex numbers as pairs."""
    array = pairs(array) if array.dtype.kind == "c" else array
    return array.view(np.uint16) if is_half(array.dtype) else array


def encode(aval, values):
    """Values of one type as the arrays of a table: -> list, as `all_columns` has it."""
    if isinstance(aval, Tape):
        return encode_tapes(aval, values)
    if isinstance(aval, Union):
        return encode_unions(aval, values)
    return [stored(np.stack([to_numpy(x, aval) for x in values]))]


def encode_tapes(aval, tapes):
    """The same for Tapes.  One that a loop filled is in a table already."""
    if len(tapes) == 1 and isinstance(tapes[0].items, TableItems):
        items = tapes[0].items
        return [*index_columns([items.first], [len(items)]), *items.columns]
    # The first item is a zero, which all zeros refer to.
    values, starts, lengths = [zero_of(aval.element)], [], []
    for tape in tapes:
        is_zero = tape.items is None
        starts.append(0 if is_zero else len(values))
        lengths.append(ZERO if is_zero else len(tape))
        values += [] if is_zero else [tape.items[i] for i in range(len(tape))]
    return [*index_columns(starts, lengths), *encode(aval.element, values)]


def encode_unions(aval, unions):
    """The same for Unions."""
    if len(unions) == 1 and isinstance(unions[0].cases, TableValues):
        return unions[0].cases.columns
    positions, columns = [], []
    for k, avals in enumerate(aval.cases):
        values, at = [list(map(zero_of, avals))], []
        for union in unions:
            has_case = union.cases[k] is not None
            at.append(len(values) if has_case else 0)
            values += [union.case(k)] if has_case else []
        positions.append(at)
        for i, inner in enumerate(avals):
            columns += encode(inner, [row[i] for row in values])
    return index_columns(*positions) + columns


def index_columns(*columns):
    """Columns of starts, lengths or positions."""
    return [np.array(column, INDEX) for column in columns]


def zero_of(aval):
    """A zero of a type as Python has it."""
    if isinstance(aval, (Tape, Union)):
        return eval_zero(aval=aval)
    return np.zeros(aval.shape, aval.dtype)


def decoder(aval, columns):
    """A function from an index to the value there; takes its arrays off the list."""
    if isinstance(aval, Tape):
        return tape_decoder(aval, columns.pop(0), columns.pop(0), columns)
    if isinstance(aval, Union):
        positions = [columns.pop(0) for _ in aval.cases]
        return union_decoder(aval, positions, columns)
    column = columns.pop(0)
    rows = column.view(aval.dtype).reshape(len(column), *aval.shape)
    return lambda i: wrap_like(rows[i])


def tape_decoder(aval, start, length, columns):
    """The same for Tapes; the items are read when they are asked for."""
    arrays = list(columns)
    item = decoder(aval.element, columns)
    arrays = arrays[: len(arrays) - len(columns)]

    def tape(i):
        first, n = int(start[i]), int(length[i])
        items = None if n == ZERO else TableItems(item, first, n, arrays)
        return TapeValue(aval, items)

    return tape


def union_decoder(aval, positions, columns):
    """The same for Unions."""
    arrays = list(columns)
    cases = [[decoder(a, columns) for a in case] for case in aval.cases]
    arrays = arrays[: len(arrays) - len(columns)]

    def values(case, position):
        """The values of one case, or None: position 0 is that of the zero."""
        return tuple(value(position) for value in case) if position else None

    def union(i):
        at = [int(column[i]) for column in positions]
        found = TableValues(map(values, cases, at))
        found.columns = [column[i : i + 1] for column in positions] + arrays
        return UnionValue(aval, found)

    return union


class TableLauncher(RegionLauncher):
    """Calls the function of a region that takes or gives tapes and unions.

    To the driver each is an array of one object.  The function takes the columns of its
    tables, after the arrays, and returns those of the tables that it filled.

    Attributes:
      taken: (position, type) of each among the arguments; made: among the results.
    """

    def __init__(self, source, function, native):
        super().__init__(source, function, native)
        where = {buffer: i for i, buffer in enumerate(source.buffers)}
        self.count = len(where) - len(source.tables)
        pairs = [(where[t.buffer], t) for t in source.tables]
        self.taken = [(i, t.aval) for i, t in pairs if not t.given]
        self.made = [(i, t.aval) for i, t in pairs if t.given]

    def __call__(self, *arrays):
        given = list(arrays[: self.count])
        for i, aval in self.taken:
            given += encode(aval, [arrays[i][()]])
        columns = list(super().__call__(*given) or ())
        for i, aval in self.made:
            arrays[i][()] = decoder(aval, columns)(0)


region_launchers |= {True: TableLauncher}
