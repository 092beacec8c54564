"""Running totals by all threads of a block, and of long rows by many blocks.

    for i in scan 5000:                 for s in 3 tiles of 2,048 steps, in order:
      r0 += x[i]                          for j in thread 2048: stage[j] = x[s*2048 + j]
      y[i] = r0                           for t in thread 256: part[t] = total(8: stage)
                                          for d in 1, 2, 4, ...: part[t] += part[t - d]
                                          for t in thread 256: go on from part[t - 1]
                                          for j in thread 2048: y[s*2048 + j] = sums[j]

Each step seems to need the one before.  But threads can have neighbouring pieces, each
with a total of its own; from those of all pieces before it a thread knows where its
piece begins.  After eight steps that double the distance every part holds the total of
all parts up to it.
"""

from dataclasses import replace
from functools import partial

from ...compile.decisions import loop_rules, noted
from ...compile.loops.buffers import Buffer
from ...compile.loops.contents import only_sets, totals_in, updated_in
from ...compile.loops.expressions import Axis, Load, Reduce, as_index, op
from ...compile.loops.graphs import postorder, substitute
from ...compile.loops.reductions import combine, start_values
from ...compile.loops.scalars import wide_dtype
from ...compile.loops.statements import For, If, Store, replaced
from ...compile.pipeline import kernel_forms, nest_forms
from ...compile.schedule.nests import count_of
from ...compile.settings import config
from .grid import Part, peeled, votes_of
from .grid_memory import (
    COMMON_BYTES, MOST_THREADS, THREADS, number_of, parts_of_place, room_in,
)

# Neighbours that a thread adds up itself: one access of 128 bits, or two of them.
SHORTEST, LONGEST = 4, 8
ZERO = as_index(0)


def running(stmt):
    """As `part_of`, of a loop whose totals are seen in every step."""
    axes, body = peeled(stmt)
    if len(body) != 1 or not isinstance(body[0], For) or not is_running(body[0], axes):
        return None
    loop, = body
    totals = totals_of(loop)
    most = COMMON_BYTES // sum(wide_dtype(e.dtype).itemsize for e in totals)
    length = min(max(-(-loop.axis.extent // THREADS), SHORTEST), LONGEST)
    # So many numbers a thread has in all the arrays of a `Scan`, at most.
    own = 2 * (length + 1) + THREADS.bit_length() + 1
    threads = min(-(-loop.axis.extent // length), THREADS, most // own)
    body = Scan(loop, totals, threads, length).statements()
    return Part(tuple(axes), True, body).joined()


def totals_of(loop):
    """The running totals of a loop."""
    return [e for e in totals_in(loop.body) if loop.axis in e.axes]


def is_running(loop, axes):
    """Whether the threads of a block should share the steps of a loop."""
    axis, totals, fewest = loop.axis, totals_of(loop), config.fusion.thread_steps
    if not totals or not isinstance(axis.extent, int) or axis.extent < fewest:
        return False
    if not only_sets(loop.body):
        return False
    inner = {e for total in totals for e in postorder(total.bodies)}
    single = all(len(e.bodies) == len(e.axes) == 1 for e in totals)
    if not single or inner.intersection(totals):
        return False
    once = len({s.buffer for s in loop.body}) == len(loop.body)
    apart = once and not updated_in(loop.body)
    if not apart or not all(moves_along(s, axis) for s in loop.body):
        return False
    votes = votes_of(loop.body)
    along = votes[axis] > sum(votes[a] for a in axes)
    return along or count_of(axes) < config.fusion.few_threads


def moves_along(store, axis):
    """Whether each step of an axis stores another element."""
    terms = parts_of_place(store)
    return terms.pop(axis, 0) != 0 and not any(axis in part.free for part in terms)


class Scan:
    """The statements of a block for one loop.  No array is filled twice.

    Attributes:
      threads, length: how many pieces a tile has, and how many steps each of them.
      tile: which tile it is, an axis.
      stages, sums: for each total what it adds up, and how far it is; carries: how far
        it was before the tile.
    """

    def __init__(self, loop, totals, threads, length):
        self.loop, self.totals = loop, totals
        self.threads, self.length, self.size = threads, length, threads * length
        self.tile = Axis(-(-loop.axis.extent // self.size), "serial")
        # A number more for each thread: neighbouring ones use different banks.
        self.stages = self.rooms("stage", threads * (length + 1))
        self.sums = self.rooms("sums", threads * (length + 1))
        self.carries = self.rooms("carry", 1)

    def rooms(self, name, size):
        """Memory of the block for each total."""
        return [
            Buffer(f"{name}{n}", (size,), wide_dtype(e.dtype), space="cache")
            for n, e in enumerate(self.totals)
        ]

    def statements(self):
        """All tiles, one after another; what one leaves for the next is its carry."""
        begin, body = [], []
        for e, stage, carry in zip(self.totals, self.stages, self.carries, strict=True):
            value, = start_values(e)
            begin.append(Store(carry, (ZERO,), op("convert", value, dtype=carry.dtype)))
            body.append(self.filled(e, stage))
        rooms = self.stages, self.sums, self.carries
        for each in zip(self.totals, *rooms, strict=True):
            body += self.combined(*each)
        return (*begin, For(self.tile, (*body, self.seen())))

    def each(self, make):
        """A loop over a tile, neighbouring threads along the loop's axis.

        Args:
          make: function of a place in a stage, and of two functions of expressions:
            statements.  One puts the step in the axis' place, the other never goes too
            far.
        """
        axis, j = self.loop.axis, Axis(self.size, "thread")
        step = number_of((self.tile, j))
        inside = op("min", step, as_index(axis.extent - 1))
        place = op("add", j, op("floordiv", j, as_index(self.length)))
        names = ({axis: step}, {axis: inside})
        into = (partial(substitute, replacement=n.get) for n in names)
        body = tuple(make(place, *into))
        if axis.extent % self.size:
            body = (If(op("lt", step, as_index(axis.extent)), body),)
        return For(j, body)

    def filled(self, total, stage):
        def make(place, here, inside):
            value, = inside(total.bodies)
            yield Store(stage, (place,), op("convert", value, dtype=stage.dtype))

        return self.each(make)

    def seen(self):
        """What the loop stores, with its totals at hand."""

        def make(place, here, inside):
            known = {
                e: op("convert", Load(sums, (place,)), dtype=e.dtype)
                for e, sums in zip(self.totals, self.sums, strict=True)
            }
            for store in self.loop.body:
                value, = inside(substitute([store.value], known.get))
                yield Store(store.buffer, tuple(here(store.index)), value)

        return self.each(make)

    def combined(self, total, stage, sums, carry):
        """From the numbers in a stage to running totals, and the next carry."""
        both = lambda a, b: combine(total.op, (a,), (b,))[0]
        at = lambda t, k: op("add", op("mul", t, as_index(self.length + 1)), k)
        t, k = Axis(self.threads, "thread"), Axis(self.length, "reduce")
        piece = Reduce(total.op, (k,), (Load(stage, (at(t, k),)),))
        parts, distance = self.part(0, sums), 1
        yield For(t, (Store(parts, (t,), piece),))
        while distance < self.threads:
            t, after = Axis(self.threads, "thread"), self.part(distance, sums)
            own, earlier = Load(parts, (t,)), Load(parts, (back(t, distance),))
            reaches = op("ge", t, as_index(distance))
            value = op("select", reaches, both(earlier, own), own)
            yield For(t, (Store(after, (t,), value),))
            parts, distance = after, 2 * distance
        t, k = Axis(self.threads, "thread"), Axis(self.length, "scan")
        start, earlier = Load(carry, (ZERO,)), Load(parts, (back(t, 1),))
        start = op("select", op("gt", t, ZERO), both(start, earlier), start)
        own = Reduce(total.op, (k,), (Load(stage, (at(t, k),)),))
        yield For(t, (For(k, (Store(sums, (at(t, k),), both(start, own)),)),))
        last = at(as_index(self.threads - 1), as_index(self.length - 1))
        yield Store(carry, (ZERO,), Load(sums, (last,)))

    def part(self, distance, sums):
        name = f"{sums.name}_{distance}"
        return Buffer(name, (self.threads,), sums.dtype, space="cache")


def back(t, distance):
    return op("max", op("sub", t, as_index(distance)), ZERO)


nest_forms |= {"running": running}


# ---- very many steps


def in_pieces(kernel, temps):
    """Three kernels for the loop of a single row, so that many blocks work; or None.

    Blocks add up pieces of equal length, one block finds how far the sum is before each
    of them, and then the blocks go on from there.
    """
    if len(kernel.body) != 1 or not isinstance(kernel.body[0], For):
        return None
    loop, = kernel.body
    if not is_running(loop, []) or not (length := piece_of(loop.axis.extent)):
        return None
    noted("pieces of a row", pieces=loop.axis.extent // length)
    count, totals = loop.axis.extent // length, totals_of(loop)
    fill, order, p = [], [], Axis(count)
    each, names = Axis(count, "scan"), {}
    for e in totals:
        part, upto = (room_in(temps, name, (count,), wide_dtype(e.dtype))
                      for name in ("piece", "upto"))  # fmt: skip
        k = Axis(length, "reduce")
        there = {loop.axis: number_of((p, k))}
        value = Reduce(e.op, (k,), tuple(substitute(e.bodies, there.get)))
        fill.append(Store(part, (p,), op("convert", value, dtype=part.dtype)))
        sums = Reduce(e.op, (each,), (Load(part, (each,)),))
        order.append(Store(upto, (each,), sums))
    first, k = Axis(count), Axis(length, "scan")
    here = {loop.axis: number_of((first, k))}
    for e, store in zip(totals, order, strict=True):
        before = op("convert", Load(store.buffer, (back(first, 1),)), dtype=e.dtype)
        own = Reduce(e.op, (k,), tuple(substitute(e.bodies, here.get)))
        both, = combine(e.op, (before,), (own,))
        names[e] = op("select", op("gt", first, ZERO), both, own)
    finish = replaced(replaced(loop.body, names.get), here.get)
    loops = (p, fill), (each, order), (first, [For(k, finish)])
    return [replace(kernel, body=(For(axis, tuple(body)),)) for axis, body in loops]


def piece_of(steps):
    """How many steps a piece of a row has: they are of equal length; or None.

    A block has work for all its threads, and the one that adds pieces up one for each.
    """
    shortest = max(LONGEST * THREADS, -(-steps // MOST_THREADS))
    longest = steps // config.fusion.fewest_parts
    return next((n for n in range(shortest, longest + 1) if steps % n == 0), None)


kernel_forms |= {"in_pieces": in_pieces}
loop_rules |= {
    "pieces of a row": (
        True, "blocks add up pieces, and wait for the sum of those before them",
        "fewest_parts", "thread_steps",
    ),
}  # fmt: skip
