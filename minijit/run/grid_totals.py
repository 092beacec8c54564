"""A total of very many numbers on many blocks: two kernels for one.

    kernel:                                kernel: for p in 128 blocks:
      out[] = sqrt(total(k: x[k]))           part[p] = total(k in 8192: x[p*8192 + k])
                                           kernel: out[] = sqrt(total(p: part[p]))

Blocks of one kernel cannot wait for each other, but a kernel waits for the one before.
"""

import math
from dataclasses import replace

from ..compile.expression_graphs import postorder
from ..compile.expressions import Axis, Load, Reduce, as_index, op
from ..compile.interchange import Renamer
from ..compile.loops import For, Kernel, Store
from ..compile.memory import Buffer
from ..compile.partial_totals import can_part
from .grid import digits

# A total of fewer numbers than these is one block's, and a part has at least so many.
FROM, SHORTEST = 1 << 15, 1 << 12
MOST_PARTS = 1024


def with_parts(program):
    """A program whose totals of very many numbers are two kernels each."""
    body, temps = [], list(program.temps)
    for step in program.body:
        rooms = []
        parts = in_parts(step, rooms, len(temps)) if type(step) is Kernel else None
        body += parts or [step]
        temps += rooms
    if len(body) == len(program.body):
        return program
    return replace(program, body=tuple(body), temps=tuple(temps))


def in_parts(kernel, rooms, number):
    """Two kernels for one whose stores are of totals; or None.

    Args:
      rooms: list of buffers, to which those for the parts are added.
      number: how many other temporaries there are.
    """
    stores = kernel.body
    if not all(isinstance(s, Store) and not s.combine for s in stores):
        return None
    totals = [e for e in postorder([s.value for s in stores]) if type(e) is Reduce]
    if not totals or not all(map(can_part, totals)):
        return None
    extents = {tuple(a.extent for a in total.axes) for total in totals}
    steps = math.prod(*extents) if len(extents) == 1 else 0
    if steps < FROM:
        return None
    length = max(-(-steps // MOST_PARTS), SHORTEST)
    part, names, filled = Axis(-(-steps // length)), {}, []
    for total in totals:
        name = f"part{number + len(rooms)}"
        rooms.append(Buffer(name, (part.extent,), total.dtype))
        each = Axis(part.extent, "reduce")
        names[total] = Reduce(total.op, (each,), (Load(rooms[-1], (each,)),))
        filled.append(Store(rooms[-1], (part,), part_of(total, part, length, steps)))
    finish = tuple(s.rewrite(Renamer(names), lambda buffer: buffer) for s in stores)
    fill = replace(kernel, body=(For(part, tuple(filled)),))
    return [fill, replace(kernel, body=finish)]


def part_of(total, part, length, steps):
    """The total over one part of all steps, counted together."""
    first = op("mul", part, as_index(length))
    left = op("min", as_index(length), op("sub", as_index(steps), first))
    axis = Axis(length if steps % length == 0 else left, "reduce")
    places = digits(op("add", first, axis), total.axes)
    return Reduce(total.op, (axis,), tuple(Renamer(places)(total.bodies)))
