"""Parts of a grid that move less: rows that a block keeps, four neighbours at once.

    for i in 64, a block's:               for i in 64, a block's:
      r0 = max(k in 2000: x[i,k])           for j in thread 2000: row[j] = x[i,j]
      for j in thread 2000:                 r0 = max(k in 2000: row[k])
        y[i,j] = x[i,j] - r0                for j in thread 2000: y[i,j] = row[j] - r0

    for i in 1000000, a thread's:         for q in 250000, a thread's:
      y[i] = x[i] * 2                       for k in vector 4:
                                              y[q*4 + k] = x[q*4 + k] * 2

On the right of the first a row comes from memory once; on that of the second a thread
loads and stores 128 bits at once.
"""

from collections import Counter
from dataclasses import replace

from ...compile.decisions import loop_rules, noted
from ...compile.loops.buffers import Buffer
from ...compile.loops.contents import (
    axes_in, loads_of, loads_within, stored_in, stores_in, totals_in,
)
from ...compile.loops.expressions import Axis, Load, Reduce
from ...compile.loops.graphs import substitute
from ...compile.loops.kernel_buffers import local_buffers
from ...compile.loops.statements import For, Store, nested, replaced
from ...compile.pipeline import part_forms
from ...compile.schedule.nests import count_of, joined, nest_of
from ...compile.settings import config
from .grid import collapsed
from .grid_memory import (
    COMMON_BYTES, WARP, bytes_of_own, number_of, parts_of_place, widest_total,
)

# ---- what a block keeps


def kept_by_block(part):
    """A block's part, its totals and the rows that it reads as its memory allows.

    A block has memory for arrays of the kernel's own, and for rows that several of its
    loops read.  Where that is too little, arrays are computed again, the largest first;
    if still not all rows fit, they stay in memory and some are read several times.
    """
    if not part.by_block:
        return part
    body, versions = part.body, []
    local = sorted(local_buffers(body), key=lambda b: b.nbytes)
    while True:
        inside = tuple(map(collapsed, totals_of_one_axis(body)))
        part = replace(part, body=inside)
        kept, room = rows_kept(part)
        if room >= 0:
            if len(kept) > len(inside):
                noted("rows kept", bytes=bytes_of_own(kept))
            return replace(part, body=kept)
        versions.append(inside if bytes_of_own(inside) > COMMON_BYTES else kept)
        if not local:
            noted("long rows", room=COMMON_BYTES)
            fitting = (v for v in versions if bytes_of_own(v) <= COMMON_BYTES)
            return replace(part, body=next(fitting, versions[-1]))
        body = without(local.pop(), body)


def without(buffer, body):
    """Statements with a buffer's elements where they load it, if one nest fills it."""
    times = Counter(s.buffer for s in stores_in(body))
    nest = next(s for s in body if buffer in local_buffers([s]))
    axes, stores = nest_of(nest) or ([], ())
    store = next((s for s in stores if s.buffer is buffer), None)
    if store is None or times[buffer] > 1 or {*store.index} != {*axes}:
        return body
    loaded = {e.buffer for e in loads_within([store.value])}
    if any(times[b] > (b.space == "cache") for b in loaded):
        # These may have changed where the element is wanted.
        return body

    def element(load):
        if type(load) is not Load or load.buffer is not buffer:
            return None
        names = dict(zip(store.index, load.index, strict=True))
        return substitute([store.value], names.get)[0]

    others = [s for s in stores if s is not store]
    place = body.index(nest)
    body = *body[:place], *(nested(axes, others) if others else ()), *body[place + 1 :]
    return replaced(body, element)


def rows_kept(part):
    """(statements that read a row once, if several loops want it; bytes left over).

    A row with a step for each thread needs no memory: threads keep their numbers.  The
    bytes are negative if not all rows found room.
    """
    body, names, fills = part.body, {}, []
    room, missing = COMMON_BYTES - bytes_of_own(body), 0
    for (buffer, index, step), loads in rows_of(body).items():
        if len(loads) < 2 or step.extent <= part.threads:
            continue
        row = Buffer(f"{buffer.name}_row", (step.extent,), buffer.dtype, space="cache")
        if row.nbytes > room:
            missing += row.nbytes
            continue
        room -= row.nbytes
        fills.append(For(step, (Store(row, (step,), Load(buffer, index)),)))
        names |= {load: Load(row, (axis,)) for axis, load in loads.items()}
    return (*fills, *replaced(body, names.get)), room - missing


def rows_of(body):
    """{(buffer, index, axis in it): {axis: load}}: what is read along single axes that
    threads share."""
    stored = stored_in(body)
    loops = {*axes_in(body)}
    loops.update(a for e in totals_in(body) for a in e.axes)
    steps: dict = {}
    found: dict = {}
    for load in loads_of(body):
        if load.buffer in stored:
            continue
        inside = list(zip(load.index, load.buffer.shape, strict=True))
        if not all(0 <= i.bounds[0] and i.bounds[1] < n for i, n in inside):
            continue
        match [a for a in loops if a in load.free]:
            case [Axis(kind="thread" | "reduce", extent=int(extent)) as axis]:
                step = steps.setdefault(extent, Axis(extent, "thread"))
                index = tuple(substitute(load.index, {axis: step}.get))
                found.setdefault((load.buffer, index, step), {})[axis] = load
    return found


def totals_of_one_axis(body):
    """Statements of a block whose totals over several axes are over one: neighbouring
    threads then have neighbouring steps."""
    loops = {*axes_in(body)}
    new: dict = {}

    def one(total):
        several = type(total) is Reduce and len(total.axes) > 1
        if not several or not is_wide(total) or total.free & loops:
            return None
        if total not in new:
            # Totals within it first: they may be over the very same axes.
            inner = substitute(list(total.bodies), one)
            axis, names = joined(total.axes, "reduce")
            bodies = tuple(substitute(inner, names.get))
            new[total] = Reduce(total.op, (axis,), bodies)
        return new[total]

    return replaced(body, one)


def is_wide(total):
    """Whether the threads of a block are to share a total's steps."""
    known_now = all(isinstance(a.extent, int) for a in total.axes)
    return known_now and widest_total(total) >= WARP


# ---- four neighbours by a thread


def in_quads(part):
    """A thread's part, if its steps are very many: four neighbours a thread's."""
    if part.by_block or not part.axes or not are_quads(part.axes, part.body):
        return part
    noted("four neighbours", steps=count_of(part.axes))
    *outer, last = part.axes
    quad, one = Axis(last.extent // 4), Axis(4, "vector")
    names = {last: number_of((quad, one))}
    body = (For(one, replaced(part.body, names.get)),)
    return replace(part, axes=(*outer, quad), body=body)


def are_quads(axes, body):
    """Whether a thread should do four neighbours: it loads and stores them at once."""
    axis = axes[-1]
    many = count_of(axes) >= 4 * config.fusion.enough_threads
    if not many or axis.extent % 4 or not all(type(s) is Store for s in body):
        return False
    if totals_in(body):
        return False
    accesses = (a for a in (*body, *loads_of(body)) if a.buffer.space != "cache")
    return all(are_neighbours(parts_of_place(a), axis) for a in accesses)


def are_neighbours(terms, axis):
    """Whether four steps of an axis are one piece of memory, or one element."""
    if not any(axis in part.free for part in terms):
        return True
    alone = terms.pop(axis, 0) == 1 and not any(axis in part.free for part in terms)
    return alone and not any(factor % 4 for factor in terms.values())


part_forms |= {"kept_by_block": kept_by_block, "in_quads": in_quads}
loop_rules |= {
    "rows kept": (True, "rows that several loops read are read once, by a block"),
    "long rows": (False, "a block has no room for rows that several loops read"),
    "four neighbours": (
        True, "steps are many: a thread does four that are neighbours in memory",
        "enough_threads",
    ),
}  # fmt: skip
