"""A kernel's loops on a grid: which steps are blocks, which are threads of a block.

    for i in 64:                       64 blocks of 256 threads; block i has the step i:
      r0 = add(k in 1000: x[i,k])        r0 = add(k in 1000: x[i,k])     all together
      for j in 1000:                     for j in thread 1000:           divided
        y[i,j] = x[i,j] / r0               y[i,j] = x[i,j] / r0

A GPU runs one text in many threads.  They come in *blocks*: threads of one block can
wait for each other and have memory in common, those of different blocks have not.  So
what a nest's outer loops say may run on a grid in two ways:

    by thread    each step of the loops is one thread's: all within it is a loop of its
                 own.  Neighbouring threads have neighbouring steps of the axis along
                 which memory runs, so that what 32 of them load at once is one piece.
    by block     each step is one block's.  Loops and totals within it are divided among
                 its threads, and what the kernel has in the cache is memory in common.

If there are very many steps, each thread has four of them that are neighbours in
memory: it loads and stores 128 bits at once.

A nest goes by block if memory runs along the loops and totals within it, or if what it
keeps does not fit a thread.  This is decided on loops as `lower` leaves them; what the
passes before `place` do for the caches of a CPU is not wanted here.
"""

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ...compile.control.regions import RegionBuilder
from ...compile.decisions import loop_rules, noted
from ...compile.fuse.fusion import nested
from ...compile.loops.buffers import Buffer
from ...compile.loops.expressions import Axis, Load, Reduce, as_index, op
from ...compile.loops.graphs import postorder, substitute
from ...compile.loops.kernel_buffers import local_buffers
from ...compile.loops.statements import For, If, Kernel, Store, expressions, statements
from ...compile.memory.complex_pairs import has_complex, in_pairs, region_in_pairs
from ...compile.pipeline import nest_forms
from ...compile.schedule.interchange import Renamer
from ...compile.schedule.nests import bytes_of, nest_of, runs_along
from ...compile.schedule.place import place
from ...compile.schedule.placing_rules import NEST, nestable, share_axes
from ...compile.settings import config
from ...trace.base.demand import add_rows
from ..threads.kernels import are_apart
from .grid_memory import NoCudaForm, flattened, joined, terms_in_memory

# Threads that run in step with each other: one instruction for all of them.
WARP = 32
# Threads of a block: those of a nest that goes by thread, eight warps, of which all
# devices run several blocks at once; and as many as a device takes.
THREADS, MOST_THREADS = 256, 1024
# Blocks of a grid along y, and along z, that a device takes; along x it is 2**31 - 1.
MOST_ALONG_Y = (1 << 16) - 1
# Of the 48 KB that a block has in common on all devices, so many are for arrays; some
# are for totals.
COMMON_BYTES = 40 << 10


@dataclass(frozen=True)
class Part:
    """One of the nests of a kernel, on the grid.

    Attributes:
      axes: which thread or block it is; their extents are how many there are of them.
        Several axes are those of a grid of blocks, the last one its x.
      by_block: whether a step of the axes is a block's.
      body: placed statements, one of them the loops over `axes`.
    """

    axes: tuple
    by_block: bool
    body: tuple


@dataclass(frozen=True)
class Launch:
    """A kernel on a grid.

    Attributes:
      parts: its nests; with several, each thread does its share of one after another.
      grid: how many blocks along x, y and z; threads: how many in each.
    """

    parts: tuple
    grid: tuple
    threads: int

    @property
    def blocks(self):
        return math.prod(self.grid)


def launch_of(body):
    """The grid for a kernel's statements, as `lower` leaves them: -> `Launch`."""
    stmts = share_axes(tuple(body))
    split = [part_of(stmt) for stmt in stmts]
    if depend_on_each_other(stmts):
        # Only within a block do later statements see what earlier ones stored.
        split = [of_block([Axis(1)], stmts)]
    if len(split) > 1 or max(a.extent for a in split[0][0]) > MOST_ALONG_Y:
        split = [as_one(*part) for part in split]
    threads = max(threads_of(*part) for part in split)
    parts, grids, made = [], [], {}
    for axes, by_block, inner in split:
        body = placed_flat(nested(axes, inner), made)
        parts.append(Part(tuple(axes), by_block, body))
        steps = [a.extent if by_block else -(-a.extent // threads) for a in axes]
        grids.append((*reversed(steps), 1, 1)[:3])
    return Launch(tuple(parts), max(grids), threads)


def placed_flat(body, made):
    """Statements placed, with flat arrays; what has no complex numbers flat before."""
    if has_complex(body):
        return flattened(in_pairs(place(body, NEST, nestable, tuple)), made)
    return place(body, NEST, nestable, partial(flattened, made=made))


def as_one(axes, by_block, body):
    """A part whose axes are one."""
    axis, names = joined(axes)
    return [axis], by_block, renamed(body, names)


def renamed(body, names):
    """Statements with expressions in the places of axes."""
    return tuple(s.rewrite(Renamer(names), lambda buffer: buffer) for s in body)


def depend_on_each_other(stmts):
    """Whether statements touch what others of them store."""
    stored = [
        {s.buffer for s in statements([stmt]) if isinstance(s, Store)} for stmt in stmts
    ]
    for i, stmt in enumerate(stmts):
        others = set().union(*(b for j, b in enumerate(stored) if j != i))
        loads = (e for e in postorder(expressions([stmt])) if type(e) is Load)
        if others.intersection({e.buffer for e in loads} | stored[i]):
            return True
    return False


class BlockBuilder(RegionBuilder):
    """Builds regions that one block runs: its threads divide the loops in it."""

    # One block has loops; a decomposition is not for a grid.
    kinds, largest_stack = {"loop"}, COMMON_BYTES

    def __init__(self, *args):
        super().__init__(*args)
        # Everything stands where it is run.
        self.shared = frozenset()

    def add(self, *stmts):
        """Copies come as plain loops; what a kernel does has been divided before."""
        super().add(*map(collapsed, stmts))

    @staticmethod
    def placed(body):
        body = tuple(map(collapsed, share_axes(tuple(body))))
        return place(body, NEST, nestable, tuple)


def launch_of_region(region):
    """One block for a region's statements: -> `Launch`."""
    body = flattened(region_in_pairs(region).body)
    inner = [s.axis for s in statements(body) if isinstance(s, For)]
    wide = [a.bounds[1] + 1 for a in inner if a.kind in ("thread", "reduce")]
    threads = min(MOST_THREADS, -(-max(wide, default=1) // WARP) * WARP)
    return Launch((Part((), True, body),), (1, 1, 1), threads)


# ---- what `explain` says of it

loop_rules |= {
    "rows kept": (True, "rows that several loops read are read once, by a block"),
    "long rows": (False, "a block has no room for rows that several loops read"),
    "in order": (
        False, "steps need those before them: one thread does all", "thread_steps"
    ),
    "parts on a grid": (
        True, "blocks cannot wait for each other: a second kernel adds the parts",
        "block_total", "enough_threads", "fewest_parts",
    ),
    "totals on a grid": (
        True, "blocks cannot wait for each other: a second kernel adds their shares",
    ),
    "pieces of a row": (
        True, "blocks add up pieces, and wait for the sum of those before them",
        "fewest_parts", "thread_steps",
    ),
    "last update": (
        True, "updates may meet: two more kernels find which one is the last",
        "thread_steps", "few_threads",
    ),
    "short steps": (
        False, "no loop within a step has work for 32 threads: each step is a thread's"
    ),
    "large steps": (
        True, "what a step keeps is too much for a thread: each step is a block's",
        "thread_bytes",
    ),
    "few blocks": (
        True, "so few steps would be few threads: each step is a block's", "few_threads"
    ),
    "along a step": (
        True, "memory runs along the loops within a step: each step is a block's"
    ),
    "across steps": (
        False, "memory runs from step to step: each step is a thread's",
        "few_threads", "thread_bytes",
    ),
    "four neighbours": (
        True, "steps are many: a thread does four that are neighbours in memory",
        "enough_threads",
    ),
    "tiles of a block": (
        True, "what runs along another axis is turned in memory of a block", "few_steps"
    ),
    "once a block": (
        True, "a total that many steps want is computed once, by a block",
        "total_again",
    ),
}  # fmt: skip

# Functions of (kernel, list for new temporaries, how many others there are): several
# kernels in its place, or None.
kernel_forms: list = []


def in_kernels(kernel, rooms, number):
    """The kernels that a device runs for one, whose blocks cannot wait."""
    forms = (form(kernel, rooms, number) for form in kernel_forms)
    return next(filter(None, forms), [kernel])


def on_grid(body):
    """Find the grid of a kernel's statements, while somebody notes what is decided."""
    with suppress(NoCudaForm):
        for kernel in in_kernels(Kernel("kernel", body), [], 0):
            launch_of(kernel.body)


# ---- one nest


def apart(loop, common=False):
    """As `are_apart`: whether the steps of a loop can run at once.

    Stores at indices that were loaded are apart if whoever made the loop says so: its
    kind is not `serial`.

    Args:
      common: whether steps have in common what is in the cache; else each has its own.
    """
    stores = [s for s in statements((loop,)) if isinstance(s, Store)]
    loads = [e for e in postorder(expressions((loop,))) if type(e) is Load]
    told = {s.buffer for s in stores if promised(s, loop.axis)}
    told -= {load.buffer for load in loads}
    own = set() if common else set(local_buffers((loop,)))
    return are_apart(loop, told | own)


def promised(store, axis):
    """Whether a store's index is loaded, another one in each step of an axis."""
    return any(
        type(e) is Load and axis in e.free for e in postorder(store.index)
    )


def peeled(stmt, common=False):
    """(axes, statements within): loops around all of a nest whose steps are apart."""
    axes, body = [], (stmt,)
    while len(body) == 1 and isinstance(body[0], For) and apart(body[0], common):
        axes.append(body[0].axis)
        body = body[0].body
    return axes, body


def part_of(stmt):
    """(axes, by_block, statements within): what a nest is on a grid."""
    add_rows("run.device.grid")
    for form in nest_forms.passes:
        if found := form(stmt):
            return found
    axes, body = peeled(stmt)
    outer = known_outside(axes, body)
    if len(outer) < len(axes):
        noted("once a block", steps=steps_of(outer))
    if axes and not outer:
        # A total that all steps want: only one block can compute it once.
        return of_block([Axis(1)], (stmt,))
    body = nested([a for a in axes if a not in outer], body)
    axes = best_last(outer, body)
    by_block = goes_by_block(axes, body)
    if axes and not by_block and are_quads(axes, body):
        noted("four neighbours", steps=steps_of(axes))
        axes, body = in_quads(axes, body)
    part = as_one(axes, by_block, body)
    loops = [s.axis for s in statements(body) if isinstance(s, For)]
    if steps_of(axes) == 1 and not by_block and loops:
        noted("in order", steps=max(a.bounds[1] + 1 for a in loops))
    if by_block:
        return of_block(part[0], part[2])
    return part


def steps_of(axes):
    """How many steps loops over some axes have in all."""
    return math.prod(a.extent for a in axes)


def of_block(axes, body):
    """(axes, True, statements) of what a block does in each step of some axes.

    A block has memory for arrays of the kernel's own, and for rows that several of its
    loops read.  Where that is too little, arrays are computed again, the largest first;
    if still not all rows fit, they stay in memory and some are read several times.
    """
    local, versions = sorted(local_buffers(body), key=lambda b: b.nbytes), []
    while True:
        inside = tuple(map(collapsed, totals_of_one_axis(body)))
        kept, room = rows_kept(axes, inside)
        if room >= 0:
            if len(kept) > len(inside):
                noted("rows kept", bytes=bytes_of_own(kept))
            return axes, True, kept
        versions.append(inside if bytes_of_own(inside) > COMMON_BYTES else kept)
        if not local:
            noted("long rows", room=COMMON_BYTES)
            fitting = (v for v in versions if bytes_of_own(v) <= COMMON_BYTES)
            return axes, True, next(fitting, versions[-1])
        body = without(local.pop(), body)


def bytes_of_own(body):
    """How many bytes the arrays take that statements have in the cache."""
    return sum(buffer.nbytes for buffer in local_buffers(body))


def without(buffer, body):
    """Statements with a buffer's elements where they load it, if one nest fills it."""
    times = Counter(s.buffer for s in statements(body) if isinstance(s, Store))
    nest = next(s for s in body if buffer in local_buffers([s]))
    axes, stores = nest_of(nest) or ([], ())
    store = next((s for s in stores if s.buffer is buffer), None)
    if store is None or times[buffer] > 1 or {*store.index} != {*axes}:
        return body
    loads = {e.buffer for e in postorder([store.value]) if type(e) is Load}
    if any(times[b] > (b.space == "cache") for b in loads):
        # These may have changed where the element is wanted.
        return body

    def element(load):
        if type(load) is not Load or load.buffer is not buffer:
            return None
        names = dict(zip(store.index, load.index, strict=True))
        return Renamer(names)([store.value])[0]

    others = [s for s in stores if s is not store]
    place = body.index(nest)
    body = *body[:place], *(nested(axes, others) if others else ()), *body[place + 1 :]
    exprs = lambda roots: substitute(list(roots), element)
    return tuple(s.rewrite(exprs, lambda buffer: buffer) for s in body)


def rows_kept(axes, body):
    """(statements that read a row once, if several loops want it; bytes left over).

    A row with a step for each thread needs no memory: threads keep their numbers.  The
    bytes are negative if not all rows found room.
    """
    room, missing = COMMON_BYTES - bytes_of_own(body), 0
    threads, names, fills = threads_of(axes, True, body), {}, []
    for (buffer, index, step), loads in rows_of(body).items():
        if len(loads) < 2 or step.extent <= threads:
            continue
        row = Buffer(f"{buffer.name}_row", (step.extent,), buffer.dtype, space="cache")
        if row.nbytes > room:
            missing += row.nbytes
            continue
        room -= row.nbytes
        fills.append(For(step, (Store(row, (step,), Load(buffer, index)),)))
        names |= {load: Load(row, (axis,)) for axis, load in loads.items()}
    return (*fills, *renamed(body, names)), room - missing


def rows_of(body):
    """{(buffer, index, axis in it): {axis: load}}: what is read along single axes that
    threads share."""
    stored = {s.buffer for s in statements(body) if isinstance(s, Store)}
    loops = {s.axis for s in statements(body) if isinstance(s, For)}
    exprs = postorder(expressions(body))
    loops.update(a for e in exprs if type(e) is Reduce for a in e.axes)
    steps: dict = {}
    found: dict = {}
    for load in exprs:
        if type(load) is not Load or load.buffer in stored:
            continue
        inside = list(zip(load.index, load.buffer.shape, strict=True))
        if not all(0 <= i.bounds[0] and i.bounds[1] < n for i, n in inside):
            continue
        match [a for a in loops if a in load.free]:
            case [Axis(kind="thread" | "reduce", extent=int(extent)) as axis]:
                step = steps.setdefault(extent, Axis(extent, "thread"))
                index = tuple(Renamer({axis: step})(load.index))
                found.setdefault((load.buffer, index, step), {})[axis] = load
    return found


def are_quads(axes, body):
    """Whether a thread should do four neighbours: it loads and stores them at once."""
    axis = axes[-1]
    many = steps_of(axes) >= 4 * config.fusion.enough_threads
    if not many or axis.extent % 4 or not all(type(s) is Store for s in body):
        return False
    if any(type(e) is Reduce for e in postorder(expressions(body))):
        return False
    return all(are_neighbours(terms_in_memory(a), axis) for a in accesses(body))


def are_neighbours(terms, axis):
    """Whether four steps of an axis are one piece of memory, or one element."""
    if not any(axis in part.free for part in terms):
        return True
    alone = terms.pop(axis, 0) == 1 and not any(axis in part.free for part in terms)
    return alone and not any(factor % 4 for factor in terms.values())


def in_quads(axes, body):
    """The same steps, four of the last axis a thread's: -> (axes, body)."""
    *outer, last = axes
    quad, one = Axis(last.extent // 4), Axis(4, "vector")
    names = {last: op("add", op("mul", quad, as_index(4)), one)}
    return [*outer, quad], (For(one, renamed(body, names)),)


def totals_of_one_axis(body):
    """Statements of a block whose totals over several axes are over one: neighbouring
    threads then have neighbouring steps."""
    loops = {s.axis for s in statements(body) if isinstance(s, For)}
    new: dict = {}

    def one(total):
        several = type(total) is Reduce and len(total.axes) > 1
        if not several or not is_wide(total) or total.free & loops:
            return None
        if total not in new:
            axis, names = joined(total.axes, "reduce")
            bodies = tuple(Renamer(names)(total.bodies))
            new[total] = Reduce(total.op, (axis,), bodies)
        return new[total]

    exprs = lambda roots: substitute(list(roots), one)
    return tuple(s.rewrite(exprs, lambda buffer: buffer) for s in body)


def is_wide(total):
    """Whether the threads of a block are to share a total's steps."""
    known_now = all(isinstance(a.extent, int) for a in total.axes)
    return known_now and widest_total(total) >= WARP


# What memory does by itself, so that no two threads do it at once: for which kinds of
# numbers, of 4 or 8 bytes.
ATOMIC = "atomic "
atomic_kinds = {"add": "fiu", "max": "iu", "min": "iu", "and": "iu", "or": "iu"}
atomic_kinds |= {"xor": "iu"}


def in_any_order(stmt):
    """(axes, False, statements) of a scatter whose updates meet: each is a thread's.

    The order in which they are combined is the device's.
    """
    axes, body = [], (stmt,)
    while len(body) == 1 and isinstance(body[0], For):
        axes.append(body[0].axis)
        body = body[0].body
    guarded = len(body) == 1 and isinstance(body[0], If) and not body[0].otherwise
    stores = body[0].then if guarded else body
    serial = any(a.kind == "serial" for a in axes)
    if not serial or not all(type(a.extent) is int for a in axes) or len(stores) != 1:
        return None
    store, = stores
    loads = {e.buffer for e in postorder(expressions(body)) if type(e) is Load}
    if not isinstance(store, Store) or store.buffer in loads or not is_atomic(store):
        return None
    store = replace(store, combine=ATOMIC + store.combine)
    body = (If(body[0].pred, (store,)),) if guarded else (store,)
    return as_one(axes, False, body)


def is_atomic(store):
    """Whether a device combines such numbers in memory."""
    dtype = store.buffer.dtype
    kinds = atomic_kinds.get(store.combine, "")
    return dtype.kind in kinds and dtype.itemsize in (4, 8)


def lanes_first(stmt):
    """As `part_of`, of a loop in order around others: those that are apart go outside.

    Rows that a scatter sets: each thread sets its column of one row after another.
    """
    axes, body = [], (stmt,)
    while len(body) == 1 and isinstance(body[0], For):
        axes.append(body[0].axis)
        body = body[0].body
    if len(axes) < 2 or axes[0].kind != "serial":
        return None
    lanes = []
    for axis in axes:
        others = [a for a in axes if a is not axis]
        if apart(For(axis, nested(others, body))):
            lanes.append(axis)
    if not lanes:
        return None
    ordered = [a for a in axes if a not in lanes]
    turned, = nested([*lanes, *ordered], body)
    return part_of(turned)


nest_forms |= {"in_any_order": in_any_order, "lanes_first": lanes_first}


def known_outside(axes, body):
    """The axes that all long totals depend on: in steps of others they would be
    computed again.  What the kernel keeps to itself depends on all."""
    totals = [e for e in postorder(expressions(body)) if type(e) is Reduce]
    own = {s.buffer for s in statements(body) if isinstance(s, Store)}
    long = [
        e for e in totals if widest_total(e) >= config.fusion.total_again
        and not any(type(x) is Load and x.buffer in own for x in postorder([e]))
    ]
    return [a for a in axes if all(a in total.free for total in long)]


def accesses(body):
    """Loads, each once, and stores of memory that is not the kernel's own."""
    found = [s for s in statements(body) if isinstance(s, Store)]
    found += [e for e in postorder(expressions(body)) if type(e) is Load]
    return [a for a in found if a.buffer.space != "cache"]


def best_last(axes, body):
    """The axes with that one last along which the most bytes run."""
    votes = Counter()
    for access in accesses(body):
        votes[runs_along(access)] += bytes_of(access)
    if not axes:
        return axes
    best = max(reversed(axes), key=votes.__getitem__)
    return [*(a for a in axes if a is not best), best]


def inner_axes(body):
    """The axes within statements that the threads of a block could share."""
    loops = [s.axis for s in statements(body) if isinstance(s, For)]
    totals = [e for e in postorder(expressions(body)) if type(e) is Reduce]
    axes = [*loops, *(a for total in totals for a in total.axes)]
    return [a for a in dict.fromkeys(axes) if a.kind in ("loop", "reduce")]


def widest(body):
    """How many steps the longest loop or total within statements has."""
    loops = [s.axis.bounds[1] + 1 for s in statements(body) if isinstance(s, For)
             and s.axis.kind in ("loop", "thread")]
    totals = [e for e in postorder(expressions(body)) if type(e) is Reduce]
    return max([*loops, *map(widest_total, totals)], default=1)


def widest_total(total):
    """How many steps a total has that its threads could share; a running one has 1."""
    if any(axis.kind != "reduce" for axis in total.axes):
        return 1
    return math.prod(axis.bounds[1] + 1 for axis in total.axes)


def goes_by_block(axes, body):
    """Whether the threads of a block share each step of some axes."""
    wide = widest(body)
    if wide < WARP:
        return noted("short steps", longest=wide)
    own = {s.buffer for s in statements(body) if isinstance(s, Store)}
    settings, points = config.fusion, steps_of(axes)
    kept = sum(b.nbytes for b in own if b.space == "cache")
    if kept > settings.thread_bytes:
        return noted("large steps", bytes=kept)
    few = settings.few_threads
    if points * 8 < few or (points < few and wide > few):
        return noted("few blocks", steps=points)
    votes, inside = Counter(), inner_axes(body)
    for access in accesses(body):
        votes[runs_along(access)] += bytes_of(access)
    along = sum(votes[a] for a in inside) > sum(votes[a] for a in axes[-1:])
    return noted("along a step" if along else "across steps", steps=points)


def collapsed(stmt):
    """A statement of a block, each nest of loops in it one loop of kind `thread`."""
    if isinstance(stmt, If):
        then, otherwise = (tuple(map(collapsed, body)) for body in stmt.bodies())
        return If(stmt.pred, then, otherwise)
    if not isinstance(stmt, For) or stmt.axis.kind == "thread":
        return stmt
    axes, body = peeled(stmt, common=True)
    if not axes:
        return For(stmt.axis, tuple(map(collapsed, stmt.body)))
    axis, names = joined(best_last(axes, body), "thread")
    return For(axis, renamed(body, names))


def threads_of(axes, by_block, body):
    """How many threads a block has: enough for the widest of what they share."""
    steps = steps_of(axes)
    if not by_block:
        return min(THREADS, -(-steps // WARP) * WARP)
    few = steps * THREADS < config.fusion.few_threads
    most = MOST_THREADS if few else THREADS
    return min(most, -(-widest(body) // WARP) * WARP)
