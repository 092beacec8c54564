"""Tiles: what runs along another axis is turned in the memory that a block has.

    for j in 1000:                  for b in blocks of 32 x 32:
      for i in 700:                   for c in thread 1024:
        y[j,i] = x[i,j] * 2             tile[c // 32, c % 32] = x[.., .. + c % 32]
                                      for c in thread 1024:
                                        y[.., .. + c % 32] = tile[c % 32, c // 32] * 2

On the left 32 neighbouring threads store 32 neighbours, and load numbers that are a row
apart: 32 pieces of memory for 32 numbers.  On the right both sides go along memory, and
the turn is in between.  A row of a tile has one number more than it needs: without it
all numbers of a column would lie in one bank.
"""

from collections import Counter

from ..compile.expressions import Axis, Load, as_index, op
from ..compile.interchange import Renamer
from ..compile.loops import For, If, Store
from ..compile.memory import Buffer
from ..compile.nests import bytes_of, loads_of, nest_of, runs_along
from ..compile.panels import free_to_cut, turned
from ..compile.scalars import BOOL
from .grid import WARP, joined, nest_forms

# Axes of fewer steps have no tiles: most of one would be empty.
FEWEST = 8
# Numbers in a row of a tile, with the one that nobody uses.
ROW = WARP + 1
# So many tiles of 8-byte numbers fit in what a block has.
MOST_TILES = 5


def tiled(stmt):
    """(axis of the tiles, True, statements of one), or None where none are needed."""
    nest = nest_of(stmt)
    if not nest or not free_to_cut(nest[1]):
        return None
    axes, stores = nest
    pair = crossing(axes, stores)
    if pair is None:
        return None
    run, other = pair
    across = [s for s in stores if runs_along(s) is other]
    along = [s for s in stores if s not in across]
    to_turn = turned(along, run, other), turned(across, other, run)
    if not 0 < sum(map(len, to_turn)) <= MOST_TILES:
        return None
    tiles = {a: Axis(-(-a.extent // WARP)) for a in pair}
    outer = [a for a in axes if a not in pair]
    axis, names = joined([*outer, tiles[other], tiles[run]])
    starts = {a: op("mul", names[tiles[a]], as_index(WARP)) for a in pair}
    rooms = {load: room_for(load, n) for n, load in enumerate(sum(to_turn, []))}
    first, second = to_turn
    filled = [Store(rooms[load], (), load) for load in first]
    passes = [(other, run, filled + (across if not second else []))]
    filled = [Store(rooms[load], (), load) for load in second]
    passes.append((run, other, filled + along))
    if second:
        passes.append((other, run, across))
    body = []
    for fast, slow, work in passes:
        turning = dict.fromkeys(first if fast is run else second)
        body += one_pass(fast, slow, starts, work, rooms, turning)
    outside = Renamer({a: names[a] for a in outer})
    return axis, True, tuple(s.rewrite(outside, lambda buffer: buffer) for s in body)


nest_forms.append(tiled)


def crossing(axes, stores):
    """The two axes along which the most bytes run, if both are long; or None."""
    votes = Counter()
    for access in (*loads_of(stores), *stores):
        votes[runs_along(access)] += bytes_of(access)
    best = sorted((a for a in axes if votes[a]), key=votes.__getitem__)[:-3:-1]
    if len(best) < 2 or min(a.extent for a in best) < FEWEST:
        return None
    return best


def room_for(load, n):
    dtype = load.buffer.dtype
    return Buffer(f"{load.buffer.name}_tile{n}", (WARP, ROW), dtype, space="cache")


def one_pass(fast, slow, starts, work, rooms, turning):
    """All elements of a tile, neighbouring threads along the axis `fast`.

    Args:
      starts: {axis: where the tile begins}.
      work: stores; those into rooms have no index yet: the slow axis, then the fast.
      turning: the loads that have been turned, in `rooms` with their axes in order.
    """
    if not work:
        return []
    down, right = Axis(WARP), Axis(WARP)
    both, names = joined([down, right], "thread")
    row, column = names[down], names[right]
    here = {
        fast: op("add", starts[fast], column), slow: op("add", starts[slow], row)
    }
    # What is loaded is loaded whether it is stored or not.
    there = {a: op("min", here[a], as_index(a.extent - 1)) for a in here}
    known = {load: Load(rooms[load], (column, row)) for load in turning}
    stores = []
    for store in work:
        value, = Renamer(known)([store.value])
        value, = Renamer(there)([value])
        own = store.index == () and store.buffer in rooms.values()
        index = (row, column) if own else Renamer(here)(store.index)
        stores.append(Store(store.buffer, tuple(index), value))
    body, pred = tuple(stores), None
    for axis in (slow, fast):
        if axis.extent % WARP:
            less = op("lt", here[axis], as_index(axis.extent))
            pred = less if pred is None else op("and", pred, less, dtype=BOOL)
    return [For(both, (If(pred, body),) if pred is not None else body)]
