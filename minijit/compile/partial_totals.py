"""A total of many numbers in parts, which several cores may compute.

    out[] = sqrt(total(k: x[k]))          for p in 64:
                                            part[p] = total(k: x[p * 65536 + k])
                                          for l in serial 1:
                                            all[l] = 0
                                            for p in serial 64:
                                              all[l] += part[p]
                                            out[] = sqrt(all[l])

How many parts there are depends on how many numbers there are, and the parts are added
in their order.  So the result has the same bits, whoever computes which part.  It has
fewer rounding errors, too: a long sum loses the small numbers that come late.
"""

import math
from dataclasses import replace

from .decisions import loop_rules, noted
from .expression_graphs import postorder
from .expressions import Axis, Load, Reduce, as_index, op
from .index_rules import known
from .interchange import Renamer
from .loops import For, Store
from .memory import Buffer
from .pipeline import arrangements
from .reductions import start_values
from .settings import config

# A part of more steps has a multiple of that: whole vectors.
LINE = 64


def in_parts(body):
    """A kernel's statements, with what is but large totals in parts."""
    stores = [s for s in body if isinstance(s, Store) and not s.combine]
    exprs = postorder([s.value for s in stores])
    totals = [e for e in exprs if type(e) is Reduce and not e.free]
    if len(stores) < len(body) or not totals or not all(map(can_part, totals)):
        return body
    extents = {tuple(a.extent for a in total.axes) for total in totals}
    if len(extents) > 1 or any(s.buffer.space == "cache" for s in stores):
        return body
    extents, = extents
    terms = math.prod(extents) * max(map(terms_within, totals))
    which, settings = axis_to_cut(extents), config.fusion
    count = min(settings.most_parts, terms // settings.shortest_part, extents[which])
    wide = terms >= settings.part_total and count > 1
    if not noted("parts" if wide else "one part", terms=terms, parts=max(count, 1)):
        return body
    length = -(-extents[which] // count)
    length = -(-length // LINE) * LINE if length > LINE else length
    part = Axis(-(-extents[which] // length))
    return parted(stores, totals, which, part, length)


loop_rules |= {
    "parts": (
        True, "its totals are in parts, for several cores", "part_total", "most_parts",
        "shortest_part",
    ),
    "one part": (False, "so few terms are no work for several cores", "part_total"),
}  # fmt: skip


def can_part(total):
    """Whether parts of a total can be combined, and be computed apart."""
    alone = len(total.bodies) == 1 and not total.free
    inner = [e for e in postorder(total.bodies) if type(e) is Reduce]
    return alone and all(
        axis.kind == "reduce" and isinstance(axis.extent, int)
        for reduce in (total, *inner) for axis in reduce.axes
    ) and all(reduce.free for reduce in inner)


def terms_within(total):
    """How many numbers the longest total within each step of one has."""
    inner = [e for e in postorder(total.bodies) if type(e) is Reduce]
    return max((math.prod(a.extent for a in e.axes) for e in inner), default=1)


def axis_to_cut(extents):
    """The number of the first axis that is long enough, or else of the longest."""
    most = config.fusion.most_parts
    enough = (i for i, extent in enumerate(extents) if extent >= most)
    return next(enough, extents.index(max(extents)))


def parted(stores, totals, which, part, length):
    """The statements for totals whose axis number `which` is cut into parts."""
    fill, finish, names = [], [], {}
    # What comes after all parts is in a loop of one step: a range of its own.
    once = Axis(1, "serial")
    for n, total in enumerate(totals):
        room = Buffer(f"part{n}", (part.extent,), total.dtype, space="cache")
        whole = Buffer(f"all{n}", (1,), total.dtype, space="cache")
        fill.append(Store(room, (part,), part_of(total, which, part, length)))
        first, = start_values(total)
        each = Axis(part.extent, "serial")
        step = Store(whole, (once,), Load(room, (each,)), total.op)
        finish += [Store(whole, (once,), first), For(each, (step,))]
        names[total] = Load(whole, (once,))
    exprs = Renamer(names)
    finish += [replace(s, value=exprs([s.value])[0]) for s in stores]
    return For(part, tuple(fill)), For(once, tuple(finish))


def part_of(total, which, part, length):
    """The total over one part of an axis."""
    start = op("mul", part, as_index(length))
    left = op("sub", as_index(total.axes[which].extent), start)
    left = op("min", left, as_index(length))
    axis = Axis(left if known(left) is None else known(left), "reduce")
    place = {total.axes[which]: op("add", start, axis)}
    axes = tuple(axis if i == which else a for i, a in enumerate(total.axes))
    return Reduce(total.op, axes, tuple(Renamer(place)(total.bodies)))


arrangements |= {"in_parts": in_parts}
