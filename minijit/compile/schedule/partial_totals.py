"""A total of many numbers in parts, which several cores may compute.

    out[] = sqrt(total(k: x[k]))          for p in 64:
                                            part[p] = total(k: x[p * 65536 + k])
                                          for l in serial 1:
                                            out[] = sqrt(total(p: part[p]))

How many parts there are depends on how many numbers there are, and the parts are added
in their order.  So the result has the same bits, whoever computes which part.

Totals that go on side by side, see `interchange`, have parts of so many whole rows: to
cut the rows themselves makes memory read ahead in vain.  One core has them in one part,
which takes a twentieth to a tenth less: each part begins and ends rows of its own.

    for j:                              for p in 21:
      y[j] = total(k: x[k,j])             for j: part[p,j] = total(k: x[p * 128 + k,j])
                                        for l in serial 1:
                                          for j: y[j] = total(p: part[p,j])

Long sums of float32 grow in float64, a share of up to 4096 numbers at a time:

    out[i] = total(k: x[i,k])             out[i] = f32(total(p: f64(
                                                     total(k: x[i, p * 4096 + k]))))
"""

import math

from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.contents import loads_within, totals_in, totals_within
from ..loops.expressions import Axis, Load, Reduce, as_index, op
from ..loops.graphs import substitute
from ..loops.reductions import grows_in
from ..loops.statements import For, Store, nested, replaced
from ..pipeline import arrangements
from ..settings import config
from .interchange import piece_of, stages_in_rows, total_of
from .machine import Machine
from .nests import all_along, count_of, split

# A part of more steps has a multiple of that: whole vectors.
LINE = 64
# So many numbers of a long sum are added up in float32: in several registers at once,
# and so few in each element of one.  To add those up at the end of a share takes as
# long as a hundred numbers.
SHARE = 4096


def in_parts(body):
    """A kernel's statements, with what is but large totals in parts."""
    loop = body[0] if len(body) == 1 and isinstance(body[0], For) else None
    stores = loop.body if loop else body
    if not all(isinstance(s, Store) and not s.combine for s in stores):
        return body
    totals = [e for e in totals_within([s.value for s in stores]) if not e.free]
    if loop:
        totals = totals_in_rows(loop)
    if not totals or not all(map(can_part, totals)):
        return body
    extents = {tuple(a.extent for a in total.axes) for total in totals}
    if len(extents) > 1 or any(s.buffer.space == "cache" for s in stores):
        return body
    extents, = extents
    around = (loop.axis,) if loop else ()
    inner = (e.axes for total in totals for e in totals_within(total.bodies))
    terms = count_of(around) * math.prod(extents) * max(map(count_of, inner), default=1)
    # The first axis that is long enough, or else the longest one.
    settings = config.fusion
    long = (n for n in extents if n >= settings.most_parts)
    which = extents.index(next(long, max(extents)))
    count = min(settings.most_parts, terms // settings.shortest_part, extents[which])
    if loop:
        # Rows of a few parts do not cost more than those of the whole, and are there.
        room = count_of(around) * sum(total.dtype.itemsize for total in totals)
        count = min(count, extents[which] // LINE, settings.row_bytes // room)
    wide = terms >= settings.part_total * (1 + len(around)) and count > 1
    if not noted("parts" if wide else "one part", terms=terms, parts=max(count, 1)):
        return body
    length = -(-extents[which] // count)
    length = -(-length // LINE) * LINE if length > LINE else length
    part, start, count = split(totals[0].axes[which], length)
    fill, names, each = [], {}, Axis(part.extent, "reduce")
    for n, total in enumerate(totals):
        shape = (part.extent, *(a.extent for a in around))
        room = Buffer(f"part{n}", shape, total.dtype, space="cache")
        value = part_of(total, which, start, count)
        fill.append(Store(room, (part, *around), value))
        more = op("convert", Load(room, (each, *around)), dtype=grows_in(total))
        whole = Reduce(total.op, (each,), (more,))
        names[total] = op("convert", whole, dtype=total.dtype)
    # What comes after all parts is in a loop of one step: a range of its own.
    after = nested(around, replaced(stores, names.get))
    return For(part, nested(around, fill)), For(Axis(1, "serial"), after)


def totals_in_rows(loop):
    """The totals of a loop that go on side by side, in one piece of a row."""
    alone = Machine.in_force().cores < 2
    if alone or not all(s.buffer.space == "global" for s in loop.body):
        return []
    stages = stages_in_rows(loop)
    whole = stages and piece_of(loop.axis, stages) >= loop.axis.bounds[1] + 1
    return [e for s in loop.body for e in [total_of(s)]] if whole else []


loop_rules |= {
    "parts": (
        True, "its totals are in parts, for several cores", "part_total", "most_parts",
        "shortest_part",
    ),
    "one part": (False, "so few terms are no work for several cores", "part_total"),
}  # fmt: skip


def can_part(total):
    """Whether parts of a total can be combined, and be computed apart."""
    alone = len(total.bodies) == 1 and total.is_fixed
    return alone and all(e.is_fixed and e.free for e in totals_within(total.bodies))


def part_of(total, which, start, length):
    """The total over one part of an axis."""
    axis = Axis(length, "reduce")
    place = {total.axes[which]: op("add", start, axis)}
    axes = tuple(axis if i == which else a for i, a in enumerate(total.axes))
    return Reduce(total.op, axes, tuple(substitute(total.bodies, place.get)))


# ---- shares of a long sum


def in_shares(body):
    """A kernel's statements with long sums in shares, and what goes on beside them."""
    found = totals_in(body)
    alike, names = {}, {}
    for total in filter(can_share, found):
        alike.setdefault(tuple(a.extent for a in total.axes), []).append(total)
    for totals in alike.values():
        if count_of(totals[0].axes) > SHARE and any(map(grows, totals)):
            names |= Shares(totals[0].axes, totals).made()
    return replaced(body, names.get) if names else body


def can_share(total):
    """Whether it is one number, of what no inner total makes, in no register's lane."""
    return (
        total.is_plain
        and not totals_within(total.bodies)
        and not any(a.kind == "vector" for a in total.free)
    )


def grows(total):
    return grows_in(total) != total.dtype


class Shares:
    """Totals of equal extents, which go on in the same loops, in shares.

    Attributes:
      outer, inner: the axes of the sum of shares, and of one share; the latter is empty
        where memory does not run along it: then each number is added in float64.
      start: what is added to the last inner axis.
    """

    def __init__(self, axes, totals):
        self.totals, (*outer, last) = totals, axes
        terms, self.start = last.bounds[1] + 1, as_index(0)
        if terms > SHARE:
            share = Axis(-(-terms // SHARE), "reduce")
            self.start = op("mul", share, as_index(SHARE))
            left = op("sub", as_index(last.extent), self.start)
            left = op("max", op("min", left, as_index(SHARE)), as_index(0))
            count = SHARE if last.extent == terms and terms % SHARE == 0 else left
            outer, inner = [*outer, share], [Axis(count, "reduce")]
        else:
            inner = [last]
            while (terms := terms * (outer[-1].bounds[1] + 1)) <= SHARE:
                inner.insert(0, outer.pop())
        long = math.prod(a.bounds[1] + 1 for a in inner) >= LINE
        loads = {total: loads_within(total.bodies) for total in totals}
        # Does memory run along the last axes?
        along = long and all(all_along(e.axes[-1], (), loads[e]) for e in totals)
        self.outer, self.inner = (outer, inner) if along else (axes, [])

    def made(self):
        """{total: what takes its place}."""
        long = self.totals if self.inner else filter(grows, self.totals)
        return {total: self.of(total) for total in long}

    def of(self, total):
        """A total as a sum of shares, which is kept in float64."""
        (body,), outer = total.bodies, total.axes
        if self.inner:
            *given, last = total.axes
            place = dict(zip(given, (*self.outer, *self.inner), strict=False))
            place[last] = op("add", self.start, self.inner[-1])
            moved = {a: there for a, there in place.items() if there is not a}
            body, = substitute([body], moved.get)
            body, outer = Reduce(total.op, tuple(self.inner), (body,)), self.outer
        body = op("convert", body, dtype=grows_in(total))
        return op("convert", Reduce(total.op, (*outer,), (body,)), dtype=total.dtype)


arrangements |= {"in_parts": in_parts, "in_shares": in_shares}
