"""Sums of products in tiles: rows and columns of results at once, in registers.

    for i in 280:                         for b in 40:
      for j in 64:                          for c in 2:
        y[i,j] = total(k: a[i,k]*b[k,j])      for v in vector 32:
                                                y[b*7+0, c*32+v] = total(k: ...)
                                                ...
                                                y[b*7+6, c*32+v] = total(k: ...)

On the left each product takes two numbers from memory.  On the right a step of `k`
takes 7 numbers of `a` and 32 neighbours of `b`, and makes 224 products of them: all
totals of a tile go on in the same loop, and stay in registers until they are stored.
What is done to a total before it is stored, a bias or an activation, comes along.
"""

import math
from typing import NamedTuple

from ..decisions import loop_rules, noted
from ..loops.contents import loads_within, totals_in, updated_in
from ..loops.expressions import Axis, Op, as_index, op
from ..loops.statements import nested, replaced
from ..pipeline import arrangements
from ..settings import config
from .nests import in_nests, strides_of

# Bytes in a row of a tile; and if more than one column in so many would be computed
# twice, tiles are narrower.
ROW, OVERLAP = 128, 6


def in_tiles(axes, stores):
    """The nest in tiles, if what it stores are sums of products; or None."""
    totals = totals_in(stores)
    here = len(totals) == 1 and config.fusion.tile_rows > 0
    if not here or not is_sum_of_products(*totals):
        return None
    total, = totals
    found = best_axes(axes, stores, total)
    if found is None:
        return None
    row, column = found
    terms = math.prod(axis.extent for axis in total.axes)
    work = terms * math.prod(axis.extent for axis in axes)
    if work < config.fusion.tile_work:
        noted("little work", products=work)
        return None
    tile = tile_of(row.extent, column.extent, total.dtype.itemsize)
    noted("tiles", rows=tile.rows, columns=tile.lanes, terms=terms)
    return tiles(axes, stores, {row: tile.rows, column: tile.lanes})


loop_rules |= {
    "little work": (False, "so few products are not worth tiles", "tile_work"),
    "tiles": (
        True, "its totals go on in tiles of registers", "tile_rows", "fewest_lanes"
    ),
}  # fmt: skip


def is_sum_of_products(total):
    """Whether a total is one of products of numbers that a register has lanes for."""
    body = total.bodies[0]
    plain = len(total.bodies) == 1 and total.op == "add" and isinstance(body, Op)
    return (
        plain
        and body.name == "mul"
        and total.dtype.kind in "iuf"
        and total.dtype.itemsize >= 4
        and total.is_fixed
    )


def best_axes(axes, stores, total):
    """(the axis of the rows, that of the columns) of the cheapest tiles, or None.

    What one factor has in a column is the same for all of them, and what the other has
    is neighbours in memory.  Each row shares these.
    """
    first, second = total.bodies[0].args
    if updated_in(stores):
        return None
    # What is read once for each result, such as a bias, may lie in another order.
    loads = loads_within(total.bodies)
    found = []
    for wide, narrow in ((first, second), (second, first)):
        rows = [a for a in reversed(axes) if a in narrow.free - wide.free]
        for column in axes:
            steps = {strides_of(load).get(column, 0) for load in loads}
            long = 2 * column.extent >= config.fusion.fewest_lanes
            if rows and long and steps <= {0, 1} and column in wide.free - narrow.free:
                found.append((max(rows, key=filled), column))
    cost = lambda pair: cost_of(pair[1], stores, total)
    return min(found, key=cost, default=None)


def filled(row):
    """How many rows a tile has at most."""
    return min(row.extent, config.fusion.tile_rows)


def cost_of(column, stores, total):
    """What a result costs, in registers of 64 bytes: its products, and its store."""
    size = total.dtype.itemsize
    lanes = tile_of(1, column.extent, size).lanes
    twice = -(-column.extent // lanes) * lanes / column.extent
    terms = math.prod(axis.extent for axis in total.axes)
    along = all(strides_of(s).get(column) == 1 for s in stores)
    return terms * twice / min(lanes, 64 // size) + (1 / lanes if along else 1)


class Tile(NamedTuple):
    """How many rows and columns of results are in registers at once.

    Attributes:
      whole: whether such tiles cover all results without computing any of them twice.
    """

    rows: int
    lanes: int
    whole: bool


def tile_of(height, width, size):
    """The `Tile` for results of so many rows and columns, and so many bytes each."""
    settings = config.fusion
    most = lanes = ROW // size
    fewest = settings.fewest_lanes
    overlap = width // OVERLAP
    while lanes > width or lanes > fewest and -width % lanes > overlap:
        lanes //= 2
    # Narrow tiles have as many more rows.
    count = -(-height // (settings.tile_rows * most // lanes))
    rows = -(-height // count)
    return Tile(rows, lanes, height % rows == 0 and width % lanes == 0)


def tiles(axes, stores, sizes):
    """The statements of all tiles; the last ones overlap those before, if they must.

    Args:
      sizes: {axis: how many of its values are in a tile}: of the rows, of the columns.
    """
    (row, rows), (column, lanes) = sizes.items()
    starts, counters = {}, {}
    for axis, size in sizes.items():
        counters[axis] = Axis(-(-axis.extent // size))
        start = op("mul", counters[axis], as_index(size))
        starts[axis] = op("min", start, as_index(axis.extent - size))
    outer = [a for a in axes if a not in sizes]
    order = [*outer[:1], counters[column], *outer[1:], counters[row]]
    # The outermost loop is the one that several cores share.
    whole = [*outer, *(n for a, n in counters.items() if a.extent % sizes[a] == 0)]
    first = max(whole, key=lambda axis: axis.extent, default=order[0])
    order = [axis for axis in order if axis is not first]

    lane, body = Axis(lanes, "vector"), []
    for n in range(rows):
        place = op("add", starts[row], as_index(n))
        names = {row: place, column: op("add", starts[column], lane)}
        body += replaced(stores, names.get)
    return nested([first, *order, lane], body)


arrangements |= {"in_tiles": in_nests(in_tiles)}
