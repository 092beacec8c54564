"""Solutions to chapter 26."""

import math

import numpy as np

from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Load
from minijit.compile.loops.statements import For, Store
from minijit.compile.schedule.nests import nest_of
from minijit.run.device.grid import Part, collapsed


def sectors(first, stride):
    return len({4 * (first + k * stride) // 32 for k in range(32)})


def check_sectors(sectors):
    """An element k is in the sector that its byte 4 * k is in."""
    assert sectors(0, 1) == 4, "32 neighbours from the start of a sector are four"
    assert sectors(5, 1) == 5, "32 neighbours that begin within a sector are in five"
    assert sectors(0, 2) == 8 and sectors(0, 96) == 32 and sectors(7, 0) == 1


def one_block(stmt):
    nest = nest_of(stmt)
    if not nest or math.prod(axis.extent for axis in nest[0]) > 1024:
        return None
    return Part((Axis(1),), True, (collapsed(stmt),))


def check_one_block(one_block):
    """For a small nest the statement is one loop of the kind `thread`."""

    def nest(rows, columns):
        shape, kind = (rows, columns), np.dtype("float32")
        x, y = (Buffer(name, shape, kind) for name in "xy")
        i, j = Axis(rows), Axis(columns)
        return For(i, (For(j, (Store(y, (i, j), Load(x, (i, j))),)),))

    part = one_block(nest(8, 16))
    (axis,), (loop,) = part.axes, part.body
    assert (axis.extent, part.by_block) == (1, True)
    assert (loop.axis.extent, loop.axis.kind) == (128, "thread")
    assert one_block(nest(64, 64)) is None
    assert one_block(nest(64, 16)) is not None, "1,024 steps are not too many"
    assert one_block(Store(Buffer("y", (), np.dtype("f4")), (), None)) is None
