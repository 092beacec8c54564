"""Tapes and unions as tables: buffers that grow, and numbers that say which rows.

    t0[0] = b0                                # a tape: where its items begin
    while:                                    # a while that fills it
      ...
      reserve t2, n0 + 1                      # the table has room for one more item
      t2[n0] = s2                             # a residual of this step
      n0 = n0 + 1
    t1[0] = n0 - b0                           # the tape: how many items there are

A Tape is a range of the rows of a table, a Union a number for each case, which says in
which row of that case's tables its values stand.  They nest as their types do.  Row 0
of a table that is referred to is a zero: a case that did not run is there, and so are
all cases of a zero Union.  A zero Tape has the length `ZERO`.

Residuals are computed where they will be kept: a Union that a branch returns says in
which row of which table its values go, and the nests store them there.
"""

from dataclasses import dataclass, replace

from ..compile.expressions import Axis, Const, Expr, as_index, op
from ..compile.loops import Attached, For, If, Reserve
from ..compile.lower_elements import compute
from ..compile.memory import Buffer
from ..compile.scalars import INDEX, wide_dtype
from ..trace.primitives import copy_p
from ..transform.lanes_of_tapes import every_p, select_lanes_p, spread_p, sum_lanes_p
from ..transform.linearize import add_any_p
from ..transform.tape import Tape, Union, inject_p, project_p
from ..transform.tape_rows import zero_p
from .lower_control import (
    Part,
    arguments_of,
    call_builders,
    flatteners,
    placers,
    results_of,
)
from .native_control import kind_of
from .tables import ZERO

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


@dataclass(frozen=True, eq=False)
class UnionTable:
    """Unions: `positions` is a buffer of indices for each case, `cases` its records."""

    positions: tuple
    cases: tuple

    @property
    def columns(self):
        return self.positions


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
    """The buffers of a table, each followed by those of what is in it."""
    inner = (t for records in own_records(table) for t in records.tables)
    return [*table.columns, *(name for t in inner for name in all_columns(t))]


# ---- where tapes and unions are


@dataclass(frozen=True)
class Ref:
    """One record: where a Tape or Union is."""

    table: object
    index: Expr

    def item(self, i):
        """Of a Tape, the item in row i of the table of items."""
        return record(self.table.items.tables[0], i)

    def column(self, buffer):
        """The number of this record in a column."""
        return Part(buffer, (self.index,))

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

    def position(self, case):
        """Of a Union, where its values of a case are."""
        return self.column(self.table.positions[case])


def record(table, index):
    """The value at an index of a table, as a part of a buffer or a reference."""
    if isinstance(table, ArrayTable):
        return Part(table.rows, (index,))
    return Ref(table, index)


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
        more = op("add", self.items.used, as_index(1))
        self.builder.set(self.items.count, more)

    def finish(self):
        """How many items the Tape has got."""
        length = op("sub", self.items.used, self.first)
        self.builder.set(self.ref.column(self.ref.table.length), length)

    def all_items(self, steps):
        """Make room for so many items at once, to be written in any order."""
        reserve(self.builder, self.items, steps)
        self.builder.set(self.items.count, op("add", self.items.used, steps))
        self.finish()


def reserve(builder, records, more):
    """Make tables longer, unless they have room for so many more rows."""
    rows = op("add", records.used, more)
    for table in records.tables:
        builder.add(*(Reserve(column, rows) for column in table.columns))


def flat_ref(builder, ref):
    """The columns, the counts of rows, and the index: see `flatteners`."""
    index, every = builder.number(INDEX), all_inner(Records(None, (ref.table,)))
    builder.set(index, ref.index)
    counts = [records.count for records in every if records.count is not None]
    atoms = [*all_columns(ref.table), *counts, index]

    def rebuild(params):
        return Ref(moved_table(ref.table, params), Part(params[index]).load())

    return atoms, rebuild


def moved_table(table, params):
    """A table with the params of a function in place of its buffers."""
    match table:
        case ArrayTable():
            return ArrayTable(params[table.rows])
        case TapeTable():
            items = moved_records(table.items, params)
            return TapeTable(params[table.start], params[table.length], items)
    cases = tuple(moved_records(case, params) for case in table.cases)
    return UnionTable(tuple(params[p] for p in table.positions), cases)


def moved_records(records, params):
    """The same of records; those that several tables refer to stay the same ones."""
    if records not in params:
        count = None if records.count is None else Part(params[records.count])
        tables = tuple(moved_table(table, params) for table in records.tables)
        params[records] = Records(count, tables)
    return params[records]


flatteners |= {Ref: flat_ref}


# ---- tables that a region makes


def growing(builder):
    """(column, count) for a table that a region makes, and that grows."""

    def column(shape, dtype, zero):
        buffer, root = builder.table(shape, dtype), builder.root
        with root.at_start():
            root.add(Reserve(buffer, as_index(1)))
            fill(root, Part(buffer, (as_index(0),)), zero)
        return buffer

    def count():
        number = builder.number(INDEX)
        with builder.at_start():
            builder.set(number, as_index(1))
        return number

    return column, count


def fill(builder, where, value):
    """All elements of an array become a number."""
    axes = tuple(map(Axis, where.shape))
    if 0 not in where.shape:
        value = Const(value, where.buffer.dtype)
        builder.add(builder.nest(axes, where.store(axes, value)))


def local_record(builder, aval):
    """A Tape or Union that is gone when the program around it has run."""
    table = make_table(aval, *growing(builder))
    empty(builder, inner_records(table))
    return Ref(table, as_index(0))


def empty(builder, every):
    """Tables have no records yet, but for the zero."""
    for records in every:
        builder.set(records.count, as_index(1))


def write_zero(builder, where):
    """A zero at a place: an array of zeros, or a record that refers to them."""
    if isinstance(where, Part):
        fill(builder, where, 0)
        return
    for column in where.table.columns:
        builder.set(where.column(column), as_index(0))
    if isinstance(where.table, TapeTable):
        builder.set(where.column(where.table.length), as_index(ZERO))


# ---- functions of the arrays within tapes and unions


def pointwise(builder, sources, targets, arrays):
    """A function of arrays for the arrays within values of one type.

    Args:
      sources: the places of its arguments; targets: each place for its result.
      arrays: function(builder, sources, target), for places of arrays.
    """
    for target in targets:
        if target in sources:
            continue
        if not isinstance(target, Ref):
            arrays(builder, sources, target)
        else:
            walkers[type(target.table)](builder, sources, target, arrays)


def walk_tapes(builder, sources, target, arrays):
    """The same for Tapes, item by item."""
    starts, lengths, items = [], [], target.table.items
    for source in sources:
        start, length = source.table.start, source.table.length
        starts.append(builder.hold(source.column(start).load()))
        lengths.append(builder.hold(source.column(length).load()))
    # They are equal, but for those of zeros, which are smaller.
    length = lengths[0]
    for other in lengths[1:]:
        length = op("max", length, other)
    length = builder.hold(length)
    is_zero = op("eq", length, as_index(ZERO))
    first = builder.hold(op("select", is_zero, as_index(0), items.used))
    builder.set(target.column(target.table.start), first)
    builder.set(target.column(target.table.length), length)
    count = builder.hold(op("max", length, as_index(0)))
    reserve(builder, items, count)
    builder.set(items.count, op("add", items.used, count))
    i = Axis(count, "serial")
    with builder.block() as body:
        given = []
        for source, start, own in zip(sources, starts, lengths, strict=True):
            some = op("convert", op("ne", own, as_index(ZERO)), dtype=INDEX)
            given.append(source.item(op("add", start, op("mul", i, some))))
        pointwise(builder, given, [target.item(op("add", first, i))], arrays)
    builder.add(For(i, tuple(body)))


def walk_unions(builder, sources, target, arrays):
    """The same for Unions, case by case."""
    for k in range(len(target.table.cases)):
        walk_case(builder, sources, target, arrays, k)


def walk_case(builder, sources, target, arrays, case):
    """The same for the values of one case, if any of the sources has that case."""
    records = target.table.cases[case]
    positions = [builder.hold(source.position(case).load()) for source in sources]
    builder.set(target.position(case), as_index(0))
    total = positions[0]
    for position in positions[1:]:
        total = op("add", total, position)
    with builder.block() as body:
        new = builder.hold(records.used)
        reserve(builder, records, as_index(1))
        builder.set(records.count, op("add", records.used, as_index(1)))
        for i, table in enumerate(records.tables):
            tables = (source.table.cases[case].tables[i] for source in sources)
            given = list(map(record, tables, positions))
            pointwise(builder, given, [record(table, new)], arrays)
        builder.set(target.position(case), new)
    builder.add(If(op("gt", total, as_index(0)), tuple(body)))


# type of a table -> function(builder, sources, target, arrays).
walkers = {TapeTable: walk_tapes, UnionTable: walk_unions}


def copy_arrays(builder, sources, target):
    """The copy of an array."""
    builder.copy(*sources, [target])


def element_by_element(formula):
    """A function of arrays by `formula(index, *sources)`, the element at an index."""

    def arrays(builder, sources, target):
        if 0 not in target.shape:
            axes = tuple(map(Axis, target.shape))
            value = formula(axes, *sources)
            builder.add(builder.nest(axes, target.store(axes, value)))

    return arrays


def add_arrays(params, operands):
    def formula(index, x, y):
        return compute("add", x.load(index), y.load(index), dtype=x.buffer.dtype)

    return operands, element_by_element(formula)


def choose_arrays(params, operands):
    """`select_lanes`: the predicate is an array, for the first axes of the others."""
    pred, *sources = operands

    def formula(index, x, y):
        chosen = pred.load(index[: len(pred.shape)])
        return op("select", chosen, x.load(index), y.load(index))

    return sources, element_by_element(formula)


def spread_arrays(params, operands):
    """`spread_lanes`: every element along the new axis is the same."""
    axis = params["axis"]
    formula = lambda index, x: x.load((*index[:axis], *index[axis + 1 :]))
    return operands, element_by_element(formula)


def sum_arrays(params, operands):
    """`sum_lanes`: the sum along an axis."""
    axis = params["axis"]

    def arrays(builder, sources, target):
        (x,) = sources
        dtype = x.buffer.dtype
        axes, lane = tuple(map(Axis, target.shape)), Axis(x.shape[axis], "serial")
        total = builder.number(wide_dtype(dtype))
        term = x.load((*axes[:axis], lane, *axes[axis:]))
        term = op("convert", term, dtype=total.buffer.dtype)
        step = total.store((), compute("add", total.load(), term, dtype=term.dtype))
        result = op("convert", total.load(), dtype=dtype)
        body = (
            total.store((), Const(0, term.dtype)),
            For(lane, (step,)),
            target.store(axes, result),
        )
        builder.add(*builder.nests(axes, body))

    return operands, arrays


# primitive -> function(params, operands) -> (sources, arrays): what it does to the
# arrays within tapes and unions.
on_arrays = {
    copy_p: lambda params, operands: (operands, copy_arrays),
    add_any_p: add_arrays,
    select_lanes_p: choose_arrays,
    spread_p: spread_arrays,
    sum_lanes_p: sum_arrays,
}


# ---- where they are in a region


def place_residuals(builder, program, places):
    """Tapes and unions get their records, and residuals a place in them at once.

    The steps are looked at from the last one on: a Union says where the values go that
    are put into it.  What is taken out of one is read where it is.
    """
    given = {*program.inputs, *(buffer for buffer, _ in program.constants)}
    for call in reversed(program.calls):
        if kind_of(call) is not project_p:
            for view, var in zip(call.outputs, call.eqns[0].outvars, strict=True):
                if view.buffer.dtype == object and view.buffer not in places:
                    places[view.buffer] = (local_record(builder, var.aval),)
        if kind_of(call) is inject_p:
            place_injected(builder, call, places, given)
        if kind_of(call) is every_p:
            place_cases(builder, call, places)
    for call in program.calls:
        if kind_of(call) is project_p:
            place_projected(builder, call, places)


def place_injected(builder, call, places, given):
    """What goes into a Union is written there as soon as it is computed."""
    records = case_of(call, places, call.outputs)
    reserve(builder, records, as_index(1))
    position = places[call] = builder.hold(records.used)
    for view, table in zip(call.inputs, records.tables, strict=True):
        where = record(table, position)
        if isinstance(where, Ref):
            # It is made in one place; if this is another one, it is copied.
            places.setdefault(view.buffer, (where,))
        elif view.buffer not in given:
            places[view.buffer] = (*places.get(view.buffer, ()), where)


def place_cases(builder, call, places):
    """Case k of the k-th Union is made where the Union of every case has it."""
    (every,), growth = places[call.outputs[0].buffer], growing(builder)
    pairs = zip(call.inputs, call.eqns[0].invars, strict=True)
    for k, (view, var) in enumerate(pairs):
        if view.buffer not in places:
            table, shared = make_table(var.aval, *growth), every.table.cases[k]
            cases = (*table.cases[:k], shared, *table.cases[k + 1 :])
            others = [case for case in cases if case is not shared]
            empty(builder, [r for c in others for r in (c, *all_inner(c))])
            own = replace(table, cases=cases)
            places[view.buffer] = (Ref(own, as_index(0)),)


def place_projected(builder, call, places):
    """What comes out of a Union stands there, and maybe has to go elsewhere too."""
    number = builder.number(INDEX)
    places[call] = number
    tables = case_of(call, places, call.inputs).tables
    for view, table in zip(call.outputs, tables, strict=True):
        places.setdefault(view.buffer, (record(table, number.load()),))


def case_of(call, places, views):
    """The records of the case that a Union is made of, or taken to be."""
    (ref,) = places[views[0].buffer]
    return ref.table.cases[call.attrs["params"]["case"]]


placers.append(place_residuals)


# ---- making and opening them


def build_inject(builder, call, places):
    """Copy to the Union what has no place in it yet, and have it say what it is."""
    records, position = case_of(call, places, call.outputs), places[call]
    for view, table in zip(call.inputs, records.tables, strict=True):
        where = record(table, position)
        if where not in places[view.buffer]:
            pointwise(builder, [places[view.buffer][0]], [where], copy_arrays)
    (ref,), case = places[call.outputs[0].buffer], call.attrs["params"]["case"]
    for k in range(len(ref.table.cases)):
        builder.set(ref.position(k), position if k == case else as_index(0))
    builder.set(records.count, op("add", records.used, as_index(1)))


def build_every(builder, call, places):
    """A Union of every case has them where the Unions have that it is made of."""
    (ref,) = places[call.outputs[0].buffer]
    for k, view in enumerate(call.inputs):
        source = places[view.buffer][0]
        if source.table.cases[k] is ref.table.cases[k]:
            builder.set(ref.position(k), source.position(k).load())
        else:
            walk_case(builder, [source], ref, copy_arrays, k)


def build_project(builder, call, places):
    """Find the values of a Union; copy those that are wanted elsewhere."""
    (ref,), position = places[call.inputs[0].buffer], places[call]
    builder.set(position, ref.position(call.attrs["params"]["case"]).load())
    tables = case_of(call, places, call.inputs).tables
    for view, table in zip(call.outputs, tables, strict=True):
        source = record(table, position.load())
        pointwise(builder, [source], places[view.buffer], copy_arrays)


def build_pointwise(builder, call, places):
    """A function of tapes or unions that is one of the arrays within them."""
    kind, params = kind_of(call), call.attrs["params"]
    operands = [places[view.buffer][0] for view in call.inputs]
    sources, arrays = on_arrays[kind](params, operands)
    pointwise(builder, sources, places[call.outputs[0].buffer], arrays)


def build_zero(builder, call, places):
    """A zero Tape, Union or array."""
    for where in places[call.outputs[0].buffer]:
        write_zero(builder, where)


call_builders |= {
    inject_p: build_inject,
    project_p: build_project,
    every_p: build_every,
    zero_p: build_zero,
}
call_builders |= dict.fromkeys(on_arrays, build_pointwise)


# ---- as arguments and results


def table_argument(builder, view, aval):
    """The place of an argument that is a tape or union: several buffers."""
    table = make_table(aval, lambda shape, dtype, zero: builder.table(shape, dtype),
                       lambda: None)  # fmt: skip
    columns = tuple(all_columns(table))
    builder.attached.append(Attached(view.buffer, aval, columns, given=False))
    return Ref(table, as_index(0))


def table_result(builder, view, aval):
    """The place of a result that is a tape or union: tables that outlive the region."""
    table = make_table(aval, *growing(builder))
    columns = tuple(all_columns(table))
    builder.attached.append(Attached(view.buffer, aval, columns, given=True))
    return Ref(table, as_index(0))


arguments_of |= {Tape: table_argument, Union: table_argument}
results_of |= {Tape: table_result, Union: table_result}
