"""Tapes and unions in native loops: tables that grow, so gradients are native too.

    while True:                               # forward: a while, with a Tape to fill
        ...
        t0 = roomy(t0, n0 + 1)                # the table has room for one more item
        t0[n0] = s2                           # a residual of this step
        n0 += 1
    t1[0] = b0                                # the tape: where its items begin,
    t2[0] = n0 - b0                           # and how many there are

A Tape is a range of the rows of a table, a Union a number that says which case ran and
one that says in which row of that case's tables its values stand.  They nest as their
types do.  When the function returns, its tables are handed to Python, which sees a
`TapeValue` or a `UnionValue` and may read it; the loop that runs backwards gets the
same arrays again, and nothing was copied.
"""

import functools
from dataclasses import dataclass

import numpy as np

from ..compile.loops import INDEX
from ..compile.lower import Statements, row_choosers
from ..compile.lower_calls import add_call, whole_atom
from ..trace.array import ShapedArray, to_numpy
from ..transform.control_flow import scan_p, while_p, wrap_like
from ..transform.tape import (
    Tape,
    TapeValue,
    Union,
    UnionValue,
    inject_p,
    project_p,
    zero_p,
)
from .executable import boxed, routines
from .native_control import (
    LoadedLoop,
    Place,
    argument_places,
    call_obstacles,
    call_printers,
    driven_from_python,
    is_native,
    kind_of,
    load_loop,
    native_types,
    obstacles,
    placers,
    result_places,
    stored,
)
from .python_source import storage_dtype
from .scalar_math import functions

# ---- which tapes and unions


def holds_cases(aval):
    """Whether tables can hold a Union: not if lanes took different cases."""
    return not aval.every and all(is_native(a) for case in aval.cases for a in case)


native_types |= {
    Tape: lambda aval: is_native(aval.element),
    Union: holds_cases,
}


def union_obstacle(call):
    """Why a Union cannot be made or opened within a native loop, or None."""
    eqn, = call.eqns
    if not all(is_native(atom.aval) for atom in (*eqn.invars, *eqn.outvars)):
        return "lanes of a union in its body took different branches"
    return None


# What makes a Union or opens it, or makes a zero.
in_tables = (inject_p, project_p, zero_p)

call_obstacles |= dict.fromkeys(in_tables, union_obstacle)


def hands_on(program):
    """A tape or union that a program returns, or keeps, as it was given it.

    It would have to be in two tables; there is no copying them.
    """
    made = [call for call in program.calls if kind_of(call) is inject_p]
    opened = [call for call in program.calls if kind_of(call) is project_p]
    given = {*program.inputs, *(v.buffer for call in opened for v in call.outputs)}
    kept = [*program.outputs, *(v.buffer for call in made for v in call.inputs)]
    kept = [buffer for buffer in kept if buffer.dtype == object]
    if len(set(kept)) < len(kept) or not given.isdisjoint(kept):
        return "its body hands on a tape or union that it was given"
    return None


obstacles.append(hands_on)


def residual_row(eqn):
    """The row of a Union that is made or opened, and of a loop that carries one."""
    if eqn.primitive in in_tables:
        return Statements(lower_union)
    if any(aval.dtype == object for aval in carry_avals(eqn)):
        return driven_from_python("it carries tapes or unions")
    return None


def carry_avals(eqn):
    """The types of what a loop carries."""
    params, avals = eqn.params, [v.aval for v in eqn.outvars]
    if eqn.primitive is while_p:
        given = params["cond_nconsts"] + params["body_nconsts"]
        return avals[: len(eqn.invars) - given]
    return avals[: params["num_carry"]] if eqn.primitive is scan_p else []


def lower_union(walk, eqn):
    """Making or opening a Union: native within a loop, elsewhere left to Python."""
    walk.fallbacks[eqn.primitive.name] = "unions outside of loops are left to Python"
    attrs = {"primitive": eqn.primitive, "params": eqn.params}
    add_call(walk, eqn, "eval", map(whole_atom, eqn.invars), attrs)


row_choosers.insert(0, residual_row)


# ---- tables

# A value of some type is the record at an index of a table; of an array type, a row of
# one array.  The record of a Tape says where its items begin in the table of items, and
# how many there are; the record of a Union which case it is, and where in the tables of
# that case its values are.


# A zero has whatever length or case is asked for.  Its record says this in place of a
# length or case, and there is one zero of each kind to be read for all of them.
ZERO = -1
# In place of a case: there are values of every case.
EVERY = -2


@dataclass(frozen=True, eq=False)
class Records:
    """Tables that have a record each for the same things, and how many so far."""

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
    """Unions: `tag` and `position` are arrays by name, `cases` one `Records` each."""

    tag: str
    position: str
    cases: tuple

    @property
    def columns(self):
        return (self.tag, self.position)


def make_table(aval, column, count):
    """A table for values of a type.

    Args:
      column: function(shape, dtype) -> the name of an array with such rows.
      count: function() -> the name of a variable.
    """
    if isinstance(aval, Tape):
        names = column((), INDEX), column((), INDEX)
        items = make_table(aval.element, column, count)
        return TapeTable(*names, Records(count(), (items,)))
    if isinstance(aval, Union):
        names = column((), INDEX), column((), INDEX)
        cases = []
        for case in aval.cases:
            tables = tuple(make_table(a, column, count) for a in case)
            cases.append(Records(count(), tables))
        return UnionTable(*names, tuple(cases))
    name = column(aval.shape, storage_dtype(aval.dtype))
    return ArrayTable(Place(name, (-1, *aval.shape), aval.dtype))


def own_records(table):
    """The records that a table's values refer to."""
    if isinstance(table, TapeTable):
        return (table.items,)
    return table.cases if isinstance(table, UnionTable) else ()


def inner_records(table):
    """The same, and what those refer to in turn."""
    own = own_records(table)
    inner = (r for records in own for t in records.tables for r in inner_records(t))
    return [*own, *inner]


# ---- where tapes and unions are


@dataclass(frozen=True, eq=False)
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
        # A zero has one item, for all steps.
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
            function.line(f"{column} = roomy({column}, {records.count} + {steps})")


def roomy(array, n):
    """The array, or one at least twice as long, if it has fewer than n rows."""
    rows = array.shape[0]
    if n <= rows:
        return array
    longer = np.empty((max(n, 2 * rows), *array.shape[1:]), array.dtype)
    longer[:rows] = array
    return longer


functions |= {"roomy": roomy}


# ---- tapes and unions in a function

# How many records a table has room for at first.
FIRST_RECORDS = 16


def new_table(function, aval):
    """A table that a function makes, and that grows as it needs to."""

    def column(shape, dtype):
        name = function.fresh("t")
        function.rooms.append((name, (FIRST_RECORDS, *shape), dtype))
        return name

    def count():
        name = function.fresh("n")
        function.loads.append(f"{name} = 0")
        return name

    return make_table(aval, column, count)


def local_record(function, aval):
    """A Tape or Union that is gone when the program around it has run."""
    table = new_table(function, aval)
    for records in inner_records(table):
        function.line(f"{records.count} = 0")
    return Ref(table, "0")


def place_residuals(function, program, places):
    """Tapes and unions get their records, and residuals a place in them at once.

    The steps are looked at from the last one on: a Union says where the values go that
    are put into it.  What is taken out of one is read where it is.
    """
    given = {*program.inputs, *(buffer for buffer, _ in program.constants)}
    for call in reversed(program.calls):
        if kind_of(call) is not project_p:
            for view, var in zip(call.outputs, call.eqns[0].outvars, strict=True):
                if view.buffer.dtype == object and view.buffer not in places:
                    places[view.buffer] = (local_record(function, var.aval),)
        if kind_of(call) is inject_p:
            place_injected(function, call, places, given)
    for call in program.calls:
        if kind_of(call) is project_p:
            place_projected(function, call, places)


def place_injected(function, call, places, given):
    """What goes into a Union is written there as soon as it is computed."""
    records = case_of(call, places, call.outputs)
    reserve(function, records, 1)
    position = places[call] = function.fresh("q")
    function.line(f"{position} = {records.count}")
    for view, table in zip(call.inputs, records.tables, strict=True):
        if view.buffer not in given:
            where = record(table, position)
            places[view.buffer] = (*places.get(view.buffer, ()), where)


def place_projected(function, call, places):
    """What comes out of a Union stands there, and maybe has to go elsewhere too."""
    position = places[call] = function.fresh("q")
    tables = case_of(call, places, call.inputs).tables
    for view, table in zip(call.outputs, tables, strict=True):
        places.setdefault(view.buffer, (record(table, position),))


def case_of(call, places, views):
    """The records of the case that a Union is made of, or taken to be."""
    ref, = places[views[0].buffer]
    return ref.table.cases[call.attrs["params"]["case"]]


placers.insert(0, place_residuals)


def print_inject(function, call, places):
    """Copy to the Union what has no place in it yet, and have it say what it is."""
    records, position = case_of(call, places, call.outputs), places[call]
    for view, table in zip(call.inputs, records.tables, strict=True):
        where = record(table, position)
        if not isinstance(where, Ref) and where not in places[view.buffer]:
            function.copy(places[view.buffer][0], [where])
    ref, = places[call.outputs[0].buffer]
    function.line(f"{ref.table.tag}[{ref.index}] = {call.attrs['params']['case']}")
    function.line(f"{ref.table.position}[{ref.index}] = {position}")
    function.line(f"{records.count} += 1")


def print_project(function, call, places):
    """Find the values of a Union; copy those that are wanted elsewhere."""
    (ref,), position = places[call.inputs[0].buffer], places[call]
    function.line(f"{position} = {ref.table.position}[{ref.index}]")
    tables = case_of(call, places, call.inputs).tables
    for view, table in zip(call.outputs, tables, strict=True):
        where = record(table, position)
        if not isinstance(where, Ref):
            function.copy(where, places[view.buffer])


def print_zero(function, call, places):
    """Print a zero Tape, Union or array."""
    where = places[call.outputs[0].buffer][0]
    write_zero(function, where)


def write_zero(function, where):
    """Print a zero at a place."""
    if isinstance(where, Place):
        depth = function.writer.depth
        names = function.loops(where.shape)
        function.line(f"{where.element(names)} = 0")
        function.writer.depth = depth
        return
    table, position = where.table, function.fresh("q")
    every = own_records(table)
    # The same position for all cases, since it is not known which one is asked for.
    function.line(f"{position} = {larger_of(r.count for r in every)}")
    for records in every:
        function.line(f"{records.count} = {position}")
        reserve(function, records, 1)
        function.line(f"{records.count} += 1")
        for inner in records.tables:
            write_zero(function, record(inner, position))
    kind, at = zero_columns(table)
    function.line(f"{kind}[{where.index}] = {ZERO}")
    function.line(f"{at}[{where.index}] = {position}")


def larger_of(counts):
    """The text of the largest of some counts."""
    first, *others = counts
    return f"max({', '.join((first, *others))})" if others else first


def zero_columns(table):
    """The columns in which a zero stands: (its length or case, where its zeros are)."""
    if isinstance(table, TapeTable):
        return table.length, table.start
    return table.tag, table.position


call_printers |= {
    inject_p: print_inject,
    project_p: print_project,
    zero_p: print_zero,
}


# ---- as arguments and results


def table_argument(function, name, aval):
    """The place of an argument that is a tape or union: several arrays."""
    arguments = function.arguments
    first = len(arguments)

    def column(shape, dtype):
        where = Place(f"{name}_{len(arguments) - first}", (0, *shape), dtype)
        arguments.append(where)
        return where.name

    return Ref(make_table(aval, column, lambda: ""), "0")


def table_result(function, name, aval):
    """The place of a result that is a tape or union: tables that are returned."""
    table = new_table(function, aval)
    function.returned += all_columns(table)
    return Ref(table, "0")


def all_columns(table):
    """The names of the arrays of a table, each followed by those of what is in it."""
    inner = (t for records in own_records(table) for t in records.tables)
    return [*table.columns, *(name for t in inner for name in all_columns(t))]


argument_places |= {Tape: table_argument, Union: table_argument}
result_places |= {Tape: table_result, Union: table_result}


# ---- as Python knows them


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
        return encode_unions(aval, values)
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
        one = isinstance(union.tag, int)
        tags.append(union.tag if one else ZERO if union.tag is None else EVERY)
        positions.append(len(cases[union.tag]) if one else max(map(len, cases)))
        if one:
            cases[union.tag].append(union.values)
            continue
        # A record of each case, in the same place.
        for taken, zero, k in zip(cases, zeros, range(len(cases)), strict=True):
            taken += [zero] * (positions[-1] - len(taken))
            taken.append(zero if union.tag is None else union.values[k])
    columns = index_columns(tags, positions)
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
        return union_decoder(aval, columns.pop(0), columns.pop(0), columns)
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
