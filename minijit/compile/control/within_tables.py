"""Functions of the arrays within tapes and unions: copies, sums, and those of lanes.

    n2 = max(t1[0], t4[0])              # the length of two tapes; one may be a zero
    ...
    for i0 in serial n2:
      t8[b2 + i0] = t2[b0 + i0 * (t1[0] != -1)] + t5[b1 + i0 * (t4[0] != -1)]

The walk through the values is that of `pointwise` in chapter 11.  Here it is a walk
through the tables, and what it leaves is statements.  And under `vmap` a Union has
every case that some lane took: each of them is where the branch made it.
"""

import functools
from dataclasses import replace

from ...trace.primitives import copy_p
from ...transform.control_flow.batching import (
    every_p, select_lanes_p, spread_p, sum_lanes_p,
)
from ...transform.derivatives.linearize import add_any_p
from ..loops.expressions import Axis, Const, as_index, op
from ..loops.scalars import wide_dtype
from ..loops.statements import For, If, nested
from ..lower.elements import compute
from .obstacles import kind_of
from .regions import call_builders, copiers, each_element
from .tables import (
    ZERO, Ref, TapeTable, UnionTable, all_records, empty, growing, make_table, record,
    reserve, take,
)
from .tapes import given_places

# ---- the walk


def pointwise(builder, sources, targets, arrays):
    """A function of arrays for the arrays within values of one type.

    Args:
      sources: the places of its arguments; targets: each place for its result.
      arrays: function(builder, sources, target), for places of arrays.
    """
    for target in targets:
        if not isinstance(target, Ref):
            arrays(builder, sources, target)
        else:
            walkers[type(target.table)](builder, sources, target, arrays)


def walk_tapes(builder, sources, target, arrays):
    """The same for Tapes, item by item."""
    items, readers = target.table.items, [s.reader(builder) for s in sources]
    # They are equal, but for those of zeros, which are smaller.
    lengths = (s.column(s.table.length).load() for s in sources)
    length = builder.hold(functools.reduce(functools.partial(op, "max"), lengths))
    is_zero = op("eq", length, as_index(ZERO))
    first = builder.hold(op("select", is_zero, as_index(0), items.used))
    builder.set(target.column(target.table.start), first)
    builder.set(target.column(target.table.length), length)
    count = builder.hold(op("max", length, as_index(0)))
    reserve(builder, items, count)
    take(builder, items, count)
    i = Axis(count, "serial")
    with builder.block() as body:
        given = [at(i) for at in readers]
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
    total = functools.reduce(functools.partial(op, "add"), positions)
    with builder.block() as body:
        new = builder.hold(records.used)
        reserve(builder, records, as_index(1))
        take(builder, records, as_index(1))
        for i, table in enumerate(records.tables):
            tables = (source.table.cases[case].tables[i] for source in sources)
            given = list(map(record, tables, positions))
            pointwise(builder, given, [record(table, new)], arrays)
        builder.set(target.position(case), new)
    builder.add(If(op("gt", total, as_index(0)), tuple(body)))


# type of a table -> function(builder, sources, target, arrays).
walkers = {TapeTable: walk_tapes, UnionTable: walk_unions}


# ---- copies, sums, and functions of lanes


def element_by_element(formula):
    """A function of arrays by `formula(index, *sources)`, the element at an index."""

    def arrays(builder, sources, target):
        each_element(builder, target, lambda index: formula(index, *sources))

    return arrays


copy_within = element_by_element(lambda index, x: x.load(index))


def copy_record(builder, source, targets):
    """The copy of a Tape or Union."""
    pointwise(builder, [source], targets, copy_within)


copiers |= {Ref: copy_record}


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
        builder.add(*nested(axes, body))

    return operands, arrays


# primitive -> function(params, operands) -> (sources, arrays): what it does to the
# arrays within tapes and unions.
on_arrays = {
    copy_p: lambda params, operands: (operands, copy_within),
    add_any_p: add_arrays,
    select_lanes_p: choose_arrays,
    spread_p: spread_arrays,
    sum_lanes_p: sum_arrays,
}


def build_pointwise(builder, call, places):
    """A function of tapes or unions that is one of the arrays within them."""
    kind, params = kind_of(call), call.attrs["params"]
    operands = [places[view.buffer][0] for view in call.inputs]
    sources, arrays = on_arrays[kind](params, operands)
    pointwise(builder, sources, places[call.outputs[0].buffer], arrays)


call_builders |= dict.fromkeys(on_arrays, build_pointwise)


# ---- unions of every case


def place_cases(builder, call, places, given):
    """Case k of the k-th Union is made where the Union of every case has it."""
    (every,), growth = places[call.outputs[0].buffer], growing(builder)
    pairs = zip(call.inputs, call.eqns[0].invars, strict=True)
    for k, (view, var) in enumerate(pairs):
        if view.buffer not in places:
            table, shared = make_table(var.aval, *growth), every.table.cases[k]
            cases = (*table.cases[:k], shared, *table.cases[k + 1 :])
            unused = replace(table, cases=(*table.cases[:k], *table.cases[k + 1 :]))
            empty(builder, all_records(unused))
            places[view.buffer] = (Ref(replace(table, cases=cases), as_index(0)),)


def build_every(builder, call, places):
    """A Union of every case has them where the Unions have that it is made of."""
    (ref,) = places[call.outputs[0].buffer]
    for k, view in enumerate(call.inputs):
        source = places[view.buffer][0]
        if source.table.cases[k] is ref.table.cases[k]:
            builder.set(ref.position(k), source.position(k).load())
        else:
            walk_case(builder, [source], ref, copy_within, k)


given_places |= {every_p: place_cases}
call_builders |= {every_p: build_every}
