"""Tiles: what runs along another axis is turned in the memory that a block has.

    for j in 1000:                  for b in blocks of 32 x 32:
      for i in 700:                   for r, c in thread 8 x 32, k in 4:
        y[j,i] = x[i,j] * 2             tile[k*8 + r, c] = x[.., .. + c]
                                      for r, c in thread 8 x 32, k in 4:
                                        y[.., .. + c] = tile[c, k*8 + r] * 2

On the left 32 neighbouring threads store 32 neighbours, and load numbers that are a row
apart: 32 sectors for 32 numbers.  On the right both sides go along memory, and
the turn is in between.  A row of a tile has one number more than it needs: without it
all numbers of a column would lie in one bank.  A thread does four elements, eight rows
apart: their addresses differ by constants, which stand in the instructions.
"""

from functools import partial

from ...compile.decisions import noted
from ...compile.loops.buffers import Buffer
from ...compile.loops.expressions import Axis, Load, as_index, op
from ...compile.loops.graphs import substitute
from ...compile.loops.statements import For, If, Store, replaced
from ...compile.pipeline import nest_forms
from ...compile.schedule.nests import joined, nest_of, runs_along
from ...compile.schedule.panels import free_to_cut, turned
from ...compile.settings import config
from .grid import Part, votes_of
from .grid_memory import COMMON_BYTES, THREADS, WARP

# Rows that a block's threads do at once.
ROWS = THREADS // WARP
# Numbers in a row of a tile, one of them unused: columns then lie in different banks.
ROW = WARP + 1


def crossing(axes, stores):
    """The two axes along which the most bytes run, if both are long; or None.

    Of a short axis most of a tile would be empty.
    """
    votes = votes_of(stores)
    best = sorted((a for a in axes if votes[a]), key=votes.__getitem__)[:-3:-1]
    if len(best) < 2 or min(a.extent for a in best) < config.fusion.few_steps:
        return None
    return best


def room_for(load, n):
    """The memory in which what a load reads in a tile is turned."""
    dtype = load.buffer.dtype
    return Buffer(f"{load.buffer.name}_tile{n}", (WARP, ROW), dtype, space="cache")


class Tile:
    """One step of a tiled nest.

    Attributes:
      starts: {axis: where the tile begins}, of the two axes.
      rooms: {load that has to be turned: its `room_for`}.
    """

    def __init__(self, starts, loads):
        self.starts = starts
        self.rooms = {load: room_for(load, n) for n, load in enumerate(loads)}

    def each(self, fast, slow, make):
        """A loop over the elements, neighbouring threads along the axis `fast`.

        Args:
          make: function of (row, column, inside): the stores.  `inside` puts an
            element's index in the place of both axes, and never leaves the array.
        """
        down, right, later = Axis(ROWS), Axis(WARP), Axis(WARP // ROWS)
        both, names = joined([down, right], "thread")
        row, column = op("mul", later, as_index(ROWS)), names[right]
        row = op("add", row, names[down])
        place = {slow: op("add", self.starts[slow], row)}
        place[fast] = op("add", self.starts[fast], column)
        edge = {a: op("min", i, as_index(a.extent - 1)) for a, i in place.items()}
        into = (partial(substitute, replacement=n.get) for n in (edge, place))
        body = tuple(make(row, column, *into))
        for axis, i in place.items():
            if axis.extent % WARP:
                body = (If(op("lt", i, as_index(axis.extent)), body),)
        return For(both, (For(later, body),))

    def fill(self, fast, slow, loads, stores=()):
        """Read loads along memory into their rooms; and do some stores, too."""

        def make(row, column, inside, here):
            for load in loads:
                value, = inside([load])
                yield Store(self.rooms[load], (row, column), value)
            yield from self.moved(stores, {}, inside, here)

        return self.each(fast, slow, make)

    def use(self, fast, slow, loads, stores):
        """Do stores along memory; what some loads read is in their rooms."""

        def make(row, column, inside, here):
            turned = {load: Load(self.rooms[load], (column, row)) for load in loads}
            yield from self.moved(stores, turned, inside, here)

        return self.each(fast, slow, make)

    @staticmethod
    def moved(stores, turned, inside, here):
        for store in stores:
            value, = inside(substitute([store.value], turned.get))
            yield Store(store.buffer, tuple(here(store.index)), value)


def sides_of(axes, stores):
    """How stores run, one way and the other: [(axis, stores, loads to be turned), ...].

    The way on which loads have to be turned comes first.
    """
    run, other = crossing(axes, stores)
    across = [s for s in stores if runs_along(s) is other]
    along = [s for s in stores if s not in across]
    first = run, along, turned(along, run, other)
    second = other, across, turned(across, other, run)
    return (first, second) if first[2] else (second, first)


def steps(tile, first, second):
    """The loops of one tile, for the two sides of its nest."""
    (run, along, loads), (other, across, more) = first, second
    result = [tile.fill(other, run, loads, () if more else across)]
    if more:
        result += [tile.fill(run, other, more), tile.use(other, run, more, across)]
    return [*result, tile.use(run, other, loads, along)]


def tiled(stmt):
    """A `Part` of which each step is a tile, or None where none are needed."""
    nest = nest_of(stmt)
    if not (nest and free_to_cut(nest[1]) and crossing(*nest)):
        return None
    axes, sides = nest[0], sides_of(*nest)
    loads = [load for _, _, loads in sides for load in loads]
    room = sum(WARP * ROW * load.dtype.itemsize for load in loads)
    if not 0 < room <= COMMON_BYTES:
        return None
    noted("tiles of a block", bytes=room)
    counters = {axis: Axis(-(-axis.extent // WARP)) for axis, _, _ in sides}
    starts = {a: op("mul", n, as_index(WARP)) for a, n in counters.items()}
    blocks = tuple(counters[a] for a in axes if a in counters)
    outer, names = joined([a for a in axes if a not in counters])
    blocks = (outer, *blocks) if len(axes) > 2 else blocks
    body = steps(Tile(starts, loads), *sides)
    return Part(blocks, True, replaced(body, names.get))


nest_forms |= {"tiled": tiled}
