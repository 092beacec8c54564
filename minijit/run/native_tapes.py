"""Tapes and unions in native loops: residuals are tables, so gradients are native too.

Residuals are computed where they will be kept: a Union that a branch returns says in
which row of which table its values go, and the kernels write them there.  When a loop
returns, its tables are handed to Python, which sees a `TapeValue` or a `UnionValue` and
may read it (`table_values`); the loop that runs backwards gets the same arrays again,
and nothing was copied.
"""

from dataclasses import replace

from ..compile.obstacles import kind_of
from ..transform.lanes_of_tapes import every_p
from ..transform.tape import Tape, Union, inject_p, project_p
from ..transform.tape_rows import zero_p
from .native_control import (
    Place,
    argument_places,
    call_printers,
    placers,
    result_places,
)
from .pointwise import copy_arrays, on_arrays, pointwise, walk_case
from .tables import (
    Ref,
    all_columns,
    all_inner,
    empty,
    growing,
    local_record,
    make_table,
    record,
    reserve,
    write_zero,
)

# ---- where they are in a function


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
        if kind_of(call) is every_p:
            place_cases(function, call, places)
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
        where = record(table, position)
        if isinstance(where, Ref):
            # It is made in one place; if this is another one, it is copied.
            places.setdefault(view.buffer, (where,))
        elif view.buffer not in given:
            places[view.buffer] = (*places.get(view.buffer, ()), where)


def place_cases(function, call, places):
    """Case k of the k-th Union is made where the Union of every case has it."""
    (every,), growth = places[call.outputs[0].buffer], growing(function)
    pairs = zip(call.inputs, call.eqns[0].invars, strict=True)
    for k, (view, var) in enumerate(pairs):
        if view.buffer not in places:
            table, shared = make_table(var.aval, *growth), every.table.cases[k]
            cases = (*table.cases[:k], shared, *table.cases[k + 1 :])
            others = [case for case in cases if case is not shared]
            empty(function, [r for c in others for r in (c, *all_inner(c))])
            places[view.buffer] = (Ref(replace(table, cases=cases), "0"),)


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


# ---- making and opening them


def print_inject(function, call, places):
    """Copy to the Union what has no place in it yet, and have it say what it is."""
    records, position = case_of(call, places, call.outputs), places[call]
    for view, table in zip(call.inputs, records.tables, strict=True):
        where = record(table, position)
        if where not in places[view.buffer]:
            pointwise(function, [places[view.buffer][0]], [where], copy_arrays)
    (ref,), case = places[call.outputs[0].buffer], call.attrs["params"]["case"]
    for k in range(len(ref.table.cases)):
        function.line(f"{ref.position(k)} = {position if k == case else 0}")
    function.line(f"{records.count} += 1")


def print_every(function, call, places):
    """A Union of every case has them where the Unions have that it is made of."""
    ref, = places[call.outputs[0].buffer]
    for k, view in enumerate(call.inputs):
        source = places[view.buffer][0]
        if source.table.cases[k] is ref.table.cases[k]:
            function.line(f"{ref.position(k)} = {source.position(k)}")
        else:
            walk_case(function, [source], ref, copy_arrays, k)


def print_project(function, call, places):
    """Find the values of a Union; copy those that are wanted elsewhere."""
    (ref,), position = places[call.inputs[0].buffer], places[call]
    function.line(f"{position} = {ref.position(call.attrs['params']['case'])}")
    tables = case_of(call, places, call.inputs).tables
    for view, table in zip(call.outputs, tables, strict=True):
        source = record(table, position)
        pointwise(function, [source], places[view.buffer], copy_arrays)


def print_pointwise(function, call, places):
    """Print a function of tapes or unions that is one of the arrays within them."""
    kind, params = kind_of(call), call.attrs["params"]
    operands = [places[view.buffer][0] for view in call.inputs]
    sources, print_arrays = on_arrays[kind](params, operands)
    pointwise(function, sources, places[call.outputs[0].buffer], print_arrays)


def print_zero(function, call, places):
    """Print a zero Tape, Union or array."""
    where = places[call.outputs[0].buffer][0]
    write_zero(function, where)


call_printers |= {
    inject_p: print_inject,
    project_p: print_project,
    every_p: print_every,
    zero_p: print_zero,
}
call_printers |= dict.fromkeys(on_arrays, print_pointwise)


# ---- as arguments and results


def table_argument(function, name, aval):
    """The place of an argument that is a tape or union: several arrays."""
    arguments = function.arguments
    first = len(arguments)

    def column(shape, dtype, zero):
        # How many rows there are, nobody knows yet.
        where = Place(f"{name}_{len(arguments) - first}", (0, *shape), dtype)
        arguments.append(where)
        return where.name

    return Ref(make_table(aval, column, lambda: ""), "0")


def table_result(function, name, aval):
    """The place of a result that is a tape or union: tables that are returned."""
    table = make_table(aval, *growing(function))
    function.returned += all_columns(table)
    return Ref(table, "0")


argument_places |= {Tape: table_argument, Union: table_argument}
result_places |= {Tape: table_result, Union: table_result}
