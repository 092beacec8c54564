"""Tables as Python knows them: tapes and unions that a native loop filled, or is given.

`decoder` reads the arrays of a table as values, one at a time, when they are asked for;
`encode` writes values as the arrays of a table, unless they are in one already.
"""

import functools

import numpy as np

from ..compile.loops import INDEX
from ..trace.array import ShapedArray, to_numpy
from ..transform.control_flow import wrap_like
from ..transform.tape import Tape, TapeValue, Union, UnionValue
from .executable import boxed, routines
from .native_control import LoadedLoop, load_loop, stored
from .tables import ZERO


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


def encode(aval, values):
    """Values of one type as the arrays of a table: -> list, as `all_columns` has it."""
    if isinstance(aval, Tape):
        return encode_tapes(aval, values)
    if isinstance(aval, Union):
        return (encode_every if aval.every else encode_unions)(aval, values)
    rows = [to_numpy(x, aval) for x in values]
    empty = np.empty((0, *aval.shape), aval.dtype)
    return [stored(np.stack(rows) if rows else empty)]


def encode_tapes(aval, tapes):
    """The same for Tapes.  One that a loop filled is in a table already."""
    if len(tapes) == 1 and isinstance(tapes[0].items, TableItems):
        items = tapes[0].items
        return [*index_columns([items.first], [len(items)]), *items.columns]
    values, starts, lengths = [], [], []
    for tape in tapes:
        is_zero = tape.items is None
        starts.append(len(values))
        lengths.append(ZERO if is_zero else len(tape))
        zero = [zero_of(aval.element)]
        values += zero if is_zero else [tape.items[i] for i in range(len(tape))]
    return [*index_columns(starts, lengths), *encode(aval.element, values)]


def encode_unions(aval, unions):
    """The same for Unions."""
    cases = [[] for _ in aval.cases]
    tags, positions = [], []
    zeros = [tuple(map(zero_of, case)) for case in aval.cases]
    for union in unions:
        if union.tag is None:
            # A zero of each case, in the same place.
            tags.append(ZERO)
            positions.append(max(map(len, cases)))
            for taken, zero in zip(cases, zeros, strict=True):
                taken += [zero] * (positions[-1] + 1 - len(taken))
            continue
        tags.append(union.tag)
        positions.append(len(cases[union.tag]))
        cases[union.tag].append(union.values)
    return index_columns(tags, positions) + encode_cases(aval, cases)


def encode_every(aval, unions):
    """The same for Unions of every case."""
    n = len(aval.cases)
    cases = [[union.case(k) for union in unions] for k in range(n)]
    return index_columns(*[range(len(unions))] * n) + encode_cases(aval, cases)


def encode_cases(aval, cases):
    """The columns of the values of each case."""
    columns = []
    for avals, taken in zip(aval.cases, cases, strict=True):
        for i, inner in enumerate(avals):
            columns += encode(inner, [values[i] for values in taken])
    return columns


def index_columns(*columns):
    """Columns of starts, lengths, tags or positions."""
    return [np.array(column, INDEX) for column in columns]


def zero_of(aval):
    """A zero of a type as Python has it."""
    if isinstance(aval, Tape):
        return TapeValue(aval, None)
    if isinstance(aval, Union):
        return UnionValue(aval, None, ())
    return np.zeros(aval.shape, aval.dtype)


def decoder(aval, columns):
    """A function from an index to the value there; takes its arrays off the list."""
    if isinstance(aval, Tape):
        return tape_decoder(aval, columns.pop(0), columns.pop(0), columns)
    if isinstance(aval, Union):
        names = range(len(aval.cases) if aval.every else 2)
        decoder_of = every_decoder if aval.every else union_decoder
        return decoder_of(aval, *[columns.pop(0) for _ in names], columns)
    rows = columns.pop(0).view(aval.dtype)
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


def union_decoder(aval, tag, position, columns):
    """The same for Unions."""
    cases = [[decoder(a, columns) for a in case] for case in aval.cases]

    def union(i):
        k, at = int(tag[i]), int(position[i])
        if k == ZERO:
            return zero_of(aval)
        return UnionValue(aval, k, tuple(value(at) for value in cases[k]))

    return union


def every_decoder(aval, *columns):
    """The same for Unions of every case."""
    *positions, columns = columns
    cases = [[decoder(a, columns) for a in case] for case in aval.cases]

    def union(i):
        pairs = zip(positions, cases, strict=True)
        values = (tuple(value(int(at[i])) for value in case) for at, case in pairs)
        return UnionValue(aval, "every", tuple(values))

    return union


class LoadedTables(LoadedLoop):
    """A loop whose arguments and results may be tapes and unions.

    A program holds what is no array in an array of one object.
    """

    def __init__(self, call, native):
        super().__init__(call, native)
        self.in_avals = [atom.aval for atom in call.eqns[0].invars]

    def __call__(self, *arrays):
        given = self.columns(arrays)
        is_array = [isinstance(aval, ShapedArray) for aval in self.out_avals]
        pairs = zip(self.out_avals, is_array, strict=True)
        outs = [np.empty(aval.shape, aval.dtype) for aval, array in pairs if array]
        columns = self.function(*map(stored, (*given, *self.constants, *outs)))
        columns, outs = list(columns or ()), iter(outs)
        return tuple(
            next(outs) if array else boxed(decoder(aval, columns)(0))
            for aval, array in zip(self.out_avals, is_array, strict=True)
        )

    def columns(self, arrays):
        """The arrays that the function takes, those of tapes and unions among them."""
        given = []
        for array, aval in zip(arrays, self.in_avals, strict=True):
            is_array = isinstance(aval, ShapedArray)
            given += [array] if is_array else encode(aval, [array[()]])
        return given


routines |= {"loop": functools.partial(load_loop, loaded=LoadedTables)}
