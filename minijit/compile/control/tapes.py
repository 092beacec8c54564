"""Tapes and unions within regions: residuals are computed where they will be kept.

    if s3[] == 0:                       # a branch that returns a Union
      reserve t5, n0[] + 1
      p0[] = n0[]
      for i0 in 8:
        t5[p0[], i0] = exp(t1[i0])      # its residual, in the table of case 0 at once
      t3[0] = p0[]                      # the Union: it is in this row of case 0,
      t4[0] = 0                         # and not in case 1
      n0[] = n0[] + 1

A value is put into a Union after it has been computed.  So the steps of a program are
looked at from the last one on: the Union says where the value is wanted, and the kernel
that computes it stores it there.  What is taken out of a Union is read where it is.
"""

from ...transform.control_flow.tape_rules import zero_p
from ...transform.control_flow.unions_and_tapes import Tape, Union, inject_p, project_p
from ..loops.expressions import as_index
from ..loops.scalars import INDEX
from ..loops.statements import Attached
from .lowering import arguments_of, results_of
from .obstacles import kind_of
from .regions import Part, call_builders, placers
from .tables import ZERO, fill, growing, rows


# ---- what comes out of a Union, and zeros


def build_project(builder, call, places):
    """Find the values of a Union; copy those that are wanted elsewhere."""
    (ref,), position = places[call.inputs[0].buffer], places[call]
    builder.set(position, ref.position(call.attrs["params"]["case"]).load())
    tables = case_of(call, places, call.inputs).tables
    for view, table in zip(call.outputs, tables, strict=True):
        builder.copy(record(table, position.load()), places[view.buffer])


def build_zero(builder, call, places):
    """A zero Tape or Union, or array: records that refer to zeros, or zeros."""
    for where in places[call.outputs[0].buffer]:
        if isinstance(where, Part):
            fill(builder, where, 0)
            continue
        for column in where.table.columns:
            builder.set(where.column(column), as_index(0))
        if hasattr(where.table, "length"):
            builder.set(where.column(where.table.length), as_index(ZERO))


call_builders |= {project_p: build_project, zero_p: build_zero}


# ---- as arguments and results


def table_argument(builder, view, aval):
    """The place of an argument that is a tape or union: several buffers."""
    column = lambda shape, dtype, zero: rows(builder, shape, dtype)
    return attach(builder, view, aval, make_table(aval, column, lambda: None), False)


def table_result(builder, view, aval):
    """The place of a result that is a tape or union: tables that outlive the region."""
    return attach(builder, view, aval, make_table(aval, *growing(builder)), True)


def attach(builder, view, aval, table, given):
    columns = tuple(all_columns(table))
    builder.attached.append(Attached(view.buffer, aval, columns, given))
    return Ref(table, as_index(0))


arguments_of |= {Tape: table_argument, Union: table_argument}
results_of |= {Tape: table_result, Union: table_result}


# chapter 22
from .tables import Ref, all_columns, local_record, make_table, record, reserve, take


def case_of(call, places, views):
    """The records of the case that a Union is made of, or taken to be."""
    (ref,) = places[views[0].buffer]
    return ref.table.cases[call.attrs["params"]["case"]]


# ---- what goes into a Union


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


def build_inject(builder, call, places):
    """Copy to the Union what has no place in it yet, and have it say what it is."""
    records, position = case_of(call, places, call.outputs), places[call]
    for view, table in zip(call.inputs, records.tables, strict=True):
        where = record(table, position)
        if where not in places[view.buffer]:
            builder.copy(places[view.buffer][0], [where])
    (ref,), case = places[call.outputs[0].buffer], call.attrs["params"]["case"]
    for k in range(len(ref.table.cases)):
        builder.set(ref.position(k), position if k == case else as_index(0))
    take(builder, records, as_index(1))


# kind of call -> function(builder, call, places, given): places what it is given.
given_places = {inject_p: place_injected}
call_builders |= {inject_p: build_inject}


# ---- a program, from its last step to its first


def place_made(builder, call, places):
    """Each Tape or Union that a call makes has a record, if it has no place yet."""
    for view, var in zip(call.outputs, call.eqns[0].outvars, strict=True):
        if view.buffer.dtype == object and view.buffer not in places:
            places[view.buffer] = (local_record(builder, var.aval),)


def place_projected(builder, call, places):
    """What comes out of a Union stands there, and maybe has to go elsewhere too."""
    number = builder.number(INDEX)
    places[call] = number
    tables = case_of(call, places, call.inputs).tables
    for view, table in zip(call.outputs, tables, strict=True):
        places.setdefault(view.buffer, (record(table, number.load()),))


def place_residuals(builder, program, places):
    """Tapes and unions get their records, and residuals a place in them at once."""
    given = {*program.inputs, *(buffer for buffer, _ in program.constants)}
    for call in reversed(program.calls):
        if kind_of(call) is not project_p:
            place_made(builder, call, places)
        if kind_of(call) in given_places:
            given_places[kind_of(call)](builder, call, places, given)
    for call in program.calls:
        if kind_of(call) is project_p:
            place_projected(builder, call, places)


placers.append(place_residuals)
