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

from dataclasses import replace

from ..loops.contents import stored_in
from ..loops.expressions import Axis, Load, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.statements import For, Store, changed, statements
from ..pipeline import arrangements
from .shared_loops import loaded_buffers

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
        length, kind = op("min", op("sub", as_index(n), first), as_index(most)), "loop"
    elif n % most:
        first = op("min", first, as_index(n - most))
    return (For(chunk, side_by_side(stmt, first, length, kind)),)


def overwrites(stmt):
    """Whether statements read an array that they store into, beside their cells."""
    both = stored_in(stmt.body) & loaded_buffers([stmt])
    return any(buffer.space != "cache" for buffer in both)


def loaded(store, seen):
    """The numbers of a kernel's own that a statement reads, beside what was `seen`."""
    found = postorder(store.uses(), seen)
    seen.update(found)
    loads = (e for e in found if type(e) is Load)
    return {e.buffer for e in loads if e.buffer.space == "cache"}


def side_by_side(stmt, first, length, kind):
    """The statements of a loop, for so many lanes from the first one on.

    Each run of stores is a loop over the lanes, of this kind; a number of the kernel's
    own is one for each of them.
    """
    cells = {
        s.buffer: replace(s.buffer, shape=(LANES,))
        for s in statements(stmt.body)
        if isinstance(s, Store) and has_cells(s)
    }

    def over_lanes(stores):
        here = Axis(length, kind)
        known = {stmt.axis: op("add", first, here)}

        def moved(expr):
            if type(expr) is Load and expr.buffer in cells:
                return Load(cells[expr.buffer], (here,))
            return None

        def rewritten(store):
            *index, value = substitute([*store.index, store.value], moved, known)
            where = (here,) if store.buffer in cells else tuple(index)
            return Store(cells.get(store.buffer, store.buffer), where, value)

        return For(here, tuple(map(rewritten, stores)))

    def phases(stmts):
        result, run, loads, seen = [], [], set(), set()
        for stmt in stmts:
            # What the run reads of the step before is written after it.
            if run and (isinstance(stmt, For) or stmt.buffer in loads):
                result.append(over_lanes(run))
                run, loads, seen = [], set(), set()
            if isinstance(stmt, For):
                result.append(For(stmt.axis, phases(stmt.body)))
            else:
                run.append(stmt)
                loads |= loaded(stmt, seen)
        return (*result, over_lanes(run)) if run else tuple(result)

    return phases(stmt.body)


arrangements |= {"in_lanes": in_lanes}
