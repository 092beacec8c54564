"""Lanes side by side: numbers of a kernel's own become rows, one number a lane.

    for i0 in 1000:                           for i0 in 63:
      cell0 = in0[i0, 0]                        for i1 in vector 16:
      for i1 in serial 10:                        cell0[i1] = in0[i0 * 16 + i1, 0]
        cell0 = cell0 * 3                       for i2 in serial 10:
      out0[i0] = cell0                            for i3 in vector 16:
                                                    cell0[i3] = cell0[i3] * 3
                                                for i4 in vector 16:
                                                  out0[i0 * 16 + i4] = cell0[i4]

As many lanes as fit a vector: each operation is one instruction for all of them.
"""

from ..loops.contents import updated_in
from ..loops.expressions import Axis, Load, as_index, op
from ..loops.graphs import postorder
from ..loops.statements import For, Store, changed
from ..pipeline import arrangements
from .interchange import in_block, widened
from .nests import steps_of_block

# So many lanes go side by side: as many numbers of 32 bits as a wide vector has.
LANES = 16


def in_lanes(body):
    """A kernel's statements; where lanes have numbers of their own, side by side."""
    return changed(body, lanes_of_loop)


def has_cells(store):
    """Whether a statement gives a number of a kernel's own its value."""
    return store.buffer.space == "cache" and not store.buffer.shape


def lanes_of_loop(stmt):
    """A loop that does the same side by side, or None.

    The last lanes overlap those before them, and do again what is done.  (Where what
    they read may be gone by then, or there are too few, they are fewer.)
    """
    stores = stmt.body if isinstance(stmt, For) else ()
    if not any(has_cells(s) for s in stores if isinstance(s, Store)):
        return None
    n, most = stmt.axis.extent, LANES
    chunk = Axis(-(-n // most))
    first, length, kind = op("mul", chunk, as_index(most)), most, "vector"
    if n < most or n % most and overwrites(stmt):
        length, kind = steps_of_block(first, most, n), "loop"
    elif n % most:
        first = op("min", first, as_index(n - most))
    body, rows = widened(stmt.axis, stmt.body, LANES)
    parts, place = in_runs(stmt.axis, body), lambda i: op("add", first, i)
    return (For(chunk, in_block(parts, stmt.axis, place, rows, length, kind)),)


def overwrites(stmt):
    """Whether statements read an array that they store into, beside their cells."""
    return any(buffer.space != "cache" for buffer in updated_in([stmt]))


def loaded(store, seen):
    """The numbers of a kernel's own that a statement reads, beside what was `seen`."""
    found = postorder(store.uses(), seen)
    seen.update(found)
    loads = (e for e in found if type(e) is Load)
    return {e.buffer for e in loads if e.buffer.space == "cache"}


def in_runs(axis, body):
    """Statements of a loop over lanes in loops of their own, a run of stores in each.

    What a run reads of the step before is written after it.
    """
    result, run, loads, seen = [], (), set(), set()
    for stmt in body:
        if run and (isinstance(stmt, For) or stmt.buffer in loads):
            result.append(For(axis, run))
            run, loads, seen = (), set(), set()
        if isinstance(stmt, For):
            result.append(For(stmt.axis, in_runs(axis, stmt.body)))
        else:
            run = (*run, stmt)
            loads |= loaded(stmt, seen)
    return (*result, For(axis, run)) if run else tuple(result)


arrangements |= {"in_lanes": in_lanes}
