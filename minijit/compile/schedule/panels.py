"""Panels: arrays that run along different axes, read and written in whole runs.

    for j in 1024:                    for t in 16:                    # 64 rows of y
      for i in 1024:                    for b in 64, c in 4:
        y[j,i] = x[i,j] * 2               panel[..] = x[..]           # 16 x 16, turned
                                        for j in 64:
                                          for i in 1024:
                                            y[t*64+j,i] = panel[j,i] * 2

On the left each step reads one number of another line of the cache, and that line is
forgotten before its next number is wanted.  On the right lines are read whole: blocks
of 16 x 16 numbers are turned in registers into a *panel*, an array in the cache, which
is then gone through in the order of what is stored.

The pass `in_panels` cuts the loops of nests where no order is good for all arrays.
"""

import math
from collections import Counter
from dataclasses import dataclass

from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.contents import loads_of, totals_in, updated_in
from ..loops.expressions import Axis, Load, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.statements import Store, expressions, nested, replaced
from ..pipeline import arrangements
from ..settings import config
from .nests import (
    around_tiles, bytes_of, in_nests, loop_over, runs_along, strides_of,
)

# A block that is turned in registers has so many rows, and so many columns.
BLOCK = 16


@dataclass(frozen=True)
class Tiles:
    """An axis in tiles.

    Attributes:
      axis: the axis; counter: the axis of the tiles, None if there is only one.
      length: of a tile, a multiple of `BLOCK`; the last tile may be shorter, but is
        not shorter than a block.
    """

    axis: Axis
    length: int
    counter: Axis | None

    def before(self, size):
        """What the tiles before this one have, if each has `size`."""
        return op("mul", self.counter, as_index(size)) if self.counter else as_index(0)

    @property
    def start(self):
        """Where this tile begins."""
        return self.before(self.length)

    @property
    def left(self):
        """How many steps this tile has."""
        left = op("sub", as_index(self.axis.extent), self.start)
        return op("min", left, as_index(self.length))

    @property
    def blocks(self):
        """How many blocks this tile has."""
        most = self.length // BLOCK
        left = op("sub", as_index(-(-self.axis.extent // BLOCK)), self.before(most))
        return op("min", left, as_index(most))

    def block(self, n):
        """Where a block begins: the last one overlaps the one before it, if it must."""
        start = op("mul", n, as_index(BLOCK))
        if self.axis.extent % BLOCK == 0:
            return start
        return op("min", start, op("sub", self.left, as_index(BLOCK)))


def in_tiles(axis, longest):
    """An axis in tiles of about the same length."""
    count = -(-axis.extent // longest)
    length = -(-axis.extent // (count * BLOCK)) * BLOCK
    while axis.extent > length and 0 < axis.extent % length < BLOCK:
        length += BLOCK
    count = -(-axis.extent // length)
    return Tiles(axis, length, Axis(count) if count > 1 else None)


def streamed(stores, run):
    """Whether so much is stored along an axis that it had better not go through caches.

    A line of memory that is stored in parts is read first.  Whole registers can go to
    memory without that, and leave the caches to the panels.
    """
    kinds = {e.dtype for e in postorder(expressions(stores))}
    whole = run.extent % BLOCK == 0 and all(d.itemsize >= 4 for d in kinds)
    large = max(s.buffer.nbytes for s in stores) >= config.fusion.stream_bytes
    return whole and large


def stored_past_caches(stores, p, q, panels):
    """What a tile stores, in whole registers.

    Args:
      p, q: the `Tiles` along which stores and loads run; panels: {load: its panel}.
    """
    j, n, lane = loop_over(q.left), loop_over(p.blocks), Axis(BLOCK, "vector")
    i = op("add", op("mul", n, as_index(BLOCK)), lane)
    return nested([j, n, lane], from_panels(stores, p, q, panels, i, j))


def cut(axes, run, other, loads, count, past_caches):
    """{axis: its `Tiles`} of the two axes along which arrays run.

    Args:
      count: of how many arrays a tile is in the cache.
      past_caches: whether all that is stored is `streamed`: then it may be in short
        runs, and what is loaded is in long ones.
    """
    settings, size = config.fusion, max(load.buffer.dtype.itemsize for load in loads)
    # Half as long again is better than two that are short.
    row, read = 3 * settings.panel_row // 2, settings.panel_read
    if past_caches:
        row, read = settings.stream_row, settings.stream_read
        along = lambda axis: sum(bytes_of(x) for x in loads if runs_along(x) is axis)
        run, other = sorted((run, other), key=along)
    first = in_tiles(run, max(row // size, BLOCK))
    room = settings.row_bytes // (first.length * size * count)
    wide = max(min(read // size, room) // BLOCK * BLOCK, BLOCK)
    second = in_tiles(other, wide)
    if len(axes) == 2 and not (first.counter or second.counter):
        # There is to be a loop around them.
        second = in_tiles(other, -(-other.extent // 2))
        if not second.counter:
            first = in_tiles(run, -(-run.extent // 2))
    return {run: first, other: second}


def other_axis(axes, stores):
    """The axis along which the most bytes run after the innermost one's, or None."""
    *outer, run = axes
    votes = Counter()
    for access in (*loads_of(stores), *stores):
        axis, size = runs_along(access), bytes_of(access)
        if axis in outer and run in strides_of(access):
            large = size >= config.fusion.panel_from
            votes[axis] += size if large else noted("small array", bytes=size)
    best = max(votes, key=votes.__getitem__, default=None)
    if best is None or not votes[best]:
        return None
    shorter = min(best.extent, run.extent)
    return best if shorter >= BLOCK or noted("short axis", steps=shorter) else None


loop_rules |= {
    "small array": (False, "so small an array is in the first cache", "panel_from"),
    "short axis": (False, "an axis is shorter than a block of registers"),
    "whole loops": (False, "one store needs all that another one stores"),
    "no panels": (False, "no array is turned"),
    "one tile": (False, "all of it is one tile, with no loop around it"),
    "streamed": (True, "results are written past the caches", "stream_bytes"),
    "panels": (
        True, "arrays along other axes are turned in panels", "panel_from", "panel_row",
        "panel_read", "row_bytes", "stream_row", "stream_read", "few_steps",
    ),
}  # fmt: skip


# ---- panels


def filled(panel, load, p, q):
    """The statements that copy what a load reads in a tile to a panel, turned."""
    n, m = loop_over(p.blocks), loop_over(q.blocks)
    i, j = Axis(BLOCK, "vector"), Axis(BLOCK, "vector")
    row, column = op("add", p.block(n), i), op("add", q.block(m), j)
    there = {p.axis: op("add", p.start, row), q.axis: op("add", q.start, column)}
    value, = substitute([load], there.get)
    return nested([n, m, i, j], [Store(panel, (column, row), value)])


def turned(stores, run, other):
    """The loads in some stores that run along `other`, and are to run along `run`."""
    found = []
    for load in loads_of(stores):
        strides = strides_of(load)
        steps = strides.get(run, math.nan)
        if strides.get(other) == 1 and math.isfinite(steps):
            found.append(load)
    return found


def from_panels(stores, p, q, panels, i, j):
    """The stores at the place (j, i) of a tile, with loads from {load: its panel}."""
    there = {load: Load(panel, (j, i)) for load, panel in panels.items()}
    there |= {p.axis: op("add", p.start, i), q.axis: op("add", q.start, j)}
    return replaced(stores, there.get)


def worked_on(stores, run, other, tiles):
    """The statements of one tile for the stores that run along one of its axes."""
    if not stores:
        return []
    p, q, statements, panels = tiles[run], tiles[other], [], {}
    for load in turned(stores, run, other):
        dtype = load.buffer.dtype
        # Rows a power of two apart would share their places in the first cache: each
        # has an odd number of lines.
        lines = -(-p.length * dtype.itemsize // 64) | 1
        shape = q.length, lines * 64 // dtype.itemsize
        panel = Buffer(f"{load.buffer.name}_panel", shape, dtype, space="cache")
        statements += filled(panel, load, p, q)
        panels[load] = panel
    if streamed(stores, run) and noted("streamed", stores=len(stores)):
        return [*statements, *stored_past_caches(stores, p, q, panels)]
    i, j = loop_over(p.left), loop_over(q.left)
    return [*statements, *nested([j, i], from_panels(stores, p, q, panels, i, j))]


def free_to_cut(stores):
    """Whether stores can be done tile by tile, those along one axis after the others.

    None of them may read what another one stores, and there are no loops for totals.
    What is stored in the cache belongs to a panel already.
    """
    own = updated_in(stores) or any(s.buffer.space == "cache" for s in stores)
    return not own and not totals_in(stores)


def in_panels(axes, stores):
    """The nest in tiles, with what runs along another axis in panels; or None."""
    other, run = other_axis(axes, stores), axes[-1]
    if other is None or not (free_to_cut(stores) or noted("whole loops")):
        return None
    along = [s for s in stores if runs_along(s) is not other]
    across = [s for s in stores if runs_along(s) is other]
    sides = (across, other, run), (along, run, other)
    # What needs no panel reads lines in their order, and leaves them in the cache.
    sides = sorted(sides, key=lambda side: bool(turned(*side)))
    loads = [load for side in sides for load in turned(*side)]
    if not (loads or noted("no panels")):
        return None
    # What is stored as it was read keeps a tile in the cache, beside the panels.
    count = len(loads) + bool(along and across)
    past_caches = all(streamed(side, axis) for side, axis, _ in sides if side)
    tiles = cut(axes, run, other, loads, count, past_caches)
    loops = around_tiles(axes, tiles[other], tiles[run])
    if not loops:
        noted("one tile")
        return None
    body = [stmt for side in sides for stmt in worked_on(*side, tiles)]
    lengths = {"row": tiles[run].length, "read": tiles[other].length}
    moved = sum(map(bytes_of, loads))
    noted("panels", panels=len(loads), bytes=moved, steps=loops[0].extent, **lengths)
    return nested(loops, body)


arrangements |= {"in_panels": in_nests(in_panels)}
