"""Functions of the arrays within tapes and unions, in native code: copies and sums.

    k0 = t1[0]                                # the length of a tape,
    k1 = t4[0]                                # that of another one,
    k2 = max(k0, k1)                          # and of their sum: one may be a zero
    ...
    for i0 in range(k2):
        t8[b2 + i0] = t2[b0 + i0 * (k0 != -1)] + t5[b1 + i0 * (k1 != -1)]

The walk through the values is that of `pointwise` in chapter 10.  Here it is one
through the tables, and what it leaves is a program.
"""

import numpy as np

from ..trace.primitives import copy_p
from ..transform.lanes_of_tapes import select_lanes_p, spread_p, sum_lanes_p
from ..transform.linearize import add_any_p
from .native_control import Place
from .printed_kernels import HALVES
from .python_source import dtype_text
from .tables import ZERO, TapeTable, UnionTable, record, reserve


def pointwise(function, sources, targets, print_arrays):
    """Print a function of arrays for the arrays within values of one type.

    Args:
      sources: the places of its arguments; targets: each place for its result.
      print_arrays: function(function, sources, target), for places of arrays.
    """
    for target in targets:
        if target in sources:
            continue
        if isinstance(target, Place):
            print_arrays(function, sources, target)
        else:
            walkers[type(target.table)](function, sources, target, print_arrays)


def walk_tapes(function, sources, target, print_arrays):
    """The same for Tapes, item by item."""
    starts, lengths, items = [], [], target.table.items
    for source in sources:
        starts.append(function.fresh("b"))
        lengths.append(function.fresh("k"))
        function.line(f"{starts[-1]} = {source.table.start}[{source.index}]")
        function.line(f"{lengths[-1]} = {source.table.length}[{source.index}]")
    length, first, i = map(function.fresh, "kbi")
    # They are equal, but for those of zeros, which are smaller.
    largest = f"max({', '.join(lengths)})" if len(lengths) > 1 else lengths[0]
    function.line(f"{length} = {largest}")
    function.line(f"{first} = 0 if {length} == {ZERO} else {items.count}")
    function.line(f"{target.table.start}[{target.index}] = {first}")
    function.line(f"{target.table.length}[{target.index}] = {length}")
    function.line(f"{length} = max({length}, 0)")
    reserve(function, items, length)
    function.line(f"{items.count} += {length}")
    function.line(f"for {i} in range({length}):")
    with function.indent():
        given = [
            source.item(f"{start} + {i} * ({k} != {ZERO})")
            for source, start, k in zip(sources, starts, lengths, strict=True)
        ]
        pointwise(function, given, [target.item(f"{first} + {i}")], print_arrays)


def walk_unions(function, sources, target, print_arrays):
    """The same for Unions, case by case."""
    for k in range(len(target.table.cases)):
        walk_case(function, sources, target, print_arrays, k)


def walk_case(function, sources, target, print_arrays, case):
    """The same for the values of one case, if any of the sources has that case."""
    records, new = target.table.cases[case], function.fresh("q")
    positions = [function.fresh("q") for _ in sources]
    for source, position in zip(sources, positions, strict=True):
        function.line(f"{position} = {source.position(case)}")
    function.line(f"{target.position(case)} = 0")
    function.line(f"if {' + '.join(positions)} > 0:")
    with function.indent():
        function.line(f"{new} = {records.count}")
        reserve(function, records, 1)
        function.line(f"{records.count} += 1")
        for i, table in enumerate(records.tables):
            tables = (source.table.cases[case].tables[i] for source in sources)
            given = list(map(record, tables, positions))
            pointwise(function, given, [record(table, new)], print_arrays)
        function.line(f"{target.position(case)} = {new}")


# type of a table -> function(function, sources, target, print_arrays).
walkers = {TapeTable: walk_tapes, UnionTable: walk_unions}


def copy_arrays(function, sources, target):
    """Print the copy of an array."""
    function.copy(*sources, [target])


def element_by_element(formula):
    """What prints a function of the elements of arrays.

    Args:
      formula: function(names, *sources) -> the text of the result's element at indices.
    """

    def print_arrays(function, sources, target):
        depth = function.writer.depth
        names = function.loops(target.shape)
        text = formula(names, *sources)
        function.line(f"{target.element(names)} = {text}")
        function.writer.depth = depth

    return print_arrays


def sum_text(names, x, y):
    """The text of the sum of two elements."""
    return encoded(x.dtype, f"{decoded(x, names)} + {decoded(y, names)}")


def decoded(where, names):
    """The text of an element as a number: 16-bit floats are stored as their bits."""
    text, name = where.element(names), where.dtype.name
    return f"{name}_value({text})" if name in HALVES else text


def encoded(dtype, text):
    """The text of a number as it is stored."""
    return f"{dtype.name}_bits({text})" if dtype.name in HALVES else text


def add_arrays(params, operands):
    return operands, element_by_element(sum_text)


def choose_arrays(params, operands):
    """`select_lanes`: the predicate is an array, for the first axes of the others."""
    pred, *sources = operands

    def formula(names, x, y):
        chosen = pred.element(names[: len(pred.shape)])
        return f"{x.element(names)} if {chosen} else {y.element(names)}"

    return sources, element_by_element(formula)


def spread_arrays(params, operands):
    """`spread_lanes`: every element along the new axis is the same."""
    axis = params["axis"]
    formula = lambda names, x: x.element([*names[:axis], *names[axis + 1 :]])
    return operands, element_by_element(formula)


def sum_arrays(params, operands):
    """`sum_lanes`: the sum along an axis."""
    axis = params["axis"]

    def print_arrays(function, sources, target):
        depth, lane, total = function.writer.depth, *map(function.fresh, "iv")
        x, = sources
        names = function.loops(target.shape)
        element = decoded(x, [*names[:axis], lane, *names[axis:]])
        wide = np.dtype("float32") if x.dtype.name in HALVES else x.dtype
        function.line(f"{total} = {dtype_text(wide)}(0)")
        function.line(f"for {lane} in range({x.shape[axis]}):")
        with function.indent():
            function.line(f"{total} += {element}")
        function.line(f"{target.element(names)} = {encoded(x.dtype, total)}")
        function.writer.depth = depth

    return operands, print_arrays


# primitive -> function(params, operands) -> (sources, print_arrays): what it does to
# the arrays within tapes and unions.
on_arrays = {
    copy_p: lambda params, operands: (operands, copy_arrays),
    add_any_p: add_arrays,
    select_lanes_p: choose_arrays,
    spread_p: spread_arrays,
    sum_lanes_p: sum_arrays,
}
