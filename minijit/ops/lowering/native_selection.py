"""The k largest of rows of integers, in native code: a heap of those found so far.

    top_k(x, 20)            # of 10,000 floats: one loop over x, and 20 numbers

On top of the heap is the least of the k largest so far.  Most numbers are less than
that, and nothing else is done with them.  In the end the heap is sorted in its place.
"""

import numpy as np

from ...compile.control.obstacles import call_obstacles
from ...compile.control.regions import Part, RegionBuilder, call_builders
from ...compile.loops.expressions import as_index, op
from ...compile.loops.scalars import INDEX
from ...compile.loops.statements import While
from ...compile.lower.walk import Statements
from ...compile.pipeline import row_choosers
from .native_linalg import branch, call_native, element, finish, loop, loops, minus
from ..sorting import largest_p


def plus(x, y):
    return op("add", x, as_index(y))


def steps(builder, number):
    """A loop of so many steps, of none at all too."""
    return loop(builder, minus(number, as_index(0)))


def build(builder, call, places):
    """The k largest of each row, the largest first."""
    view, target = call.inputs[0], places[call.outputs[0].buffer][0]
    read, k = element(view, places[view.buffer][0]), call.attrs["params"]["k"]
    *batch, n = view.shape
    with loops(builder, batch) as lead:
        heap = Part(target.buffer, (*target.prefix, *lead))
        sink = lambda value, at, size: sink_in(builder, heap, value, at, size)
        with loop(builder, k) as i:
            builder.add(heap.store((i,), read((*lead, i))))
        with steps(builder, k // 2) as i:
            at = minus(k // 2 - 1, i)
            sink(builder.hold(heap.load((at,))), at, as_index(k))
        with steps(builder, n - k) as i:
            value = builder.hold(read((*lead, plus(i, k))))
            with branch(builder, op("gt", value, heap.load((as_index(0),)))):
                sink(value, as_index(0), as_index(k))
        # The least one leaves the heap, which is shorter then, and stands behind it.
        with steps(builder, k - 1) as i:
            last = minus(k - 1, i)
            value = builder.hold(heap.load((last,)))
            builder.add(heap.store((last,), heap.load((as_index(0),))))
            sink(value, as_index(0), last)
    finish(builder, call, places)


def sink_in(builder, heap, value, at, size):
    """Put a value where none is, or below: what is less than it rises meanwhile.

    Args:
      heap: its first `size` numbers are a heap but for the one at `at`.
    """
    place, child, goes_on = (
        builder.number(dtype) for dtype in (INDEX, INDEX, np.dtype(bool))
    )
    builder.set(place, at)
    with builder.block() as test:
        first = plus(op("mul", place.load(), as_index(2)), 1)
        exists = lambda i: op("lt", i, size)
        # What does not exist is not looked at: in its place is the top.
        there = lambda i: heap.load((op("select", exists(i), i, as_index(0)),))
        second = plus(first, 1)
        less = op("and", exists(second), op("lt", there(second), there(first)))
        builder.set(child, op("select", less, second, first))
        found = child.load()
        builder.set(goes_on, op("and", exists(found), op("lt", there(found), value)))
    with builder.block() as body:
        builder.add(heap.store((place.load(),), heap.load((child.load(),))))
        builder.set(place, child.load())
    builder.add(While(tuple(test), goes_on.load(), tuple(body)))
    builder.add(heap.store((place.load(),), value))


def native_row(eqn):
    """The row of a selection that takes less than to sort whole rows, or None."""
    if eqn.primitive is not largest_p:
        return None
    (x,), k = eqn.invars, eqn.params["k"]
    return Statements(call_native) if SHARE * k <= x.aval.shape[-1] else None


# NumPy sorts as quickly, in vectors, if a heap is for more than one in so many.
SHARE = 8

call_obstacles |= {largest_p: lambda call: None}
call_builders |= {largest_p: build}
RegionBuilder.kinds |= {largest_p}
row_choosers |= {"native_selection": native_row}
