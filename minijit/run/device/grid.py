"""A kernel's loops on a grid: which steps are blocks, which are threads of a block.

    for i in 64:                       64 blocks of 256 threads; block i has the step i:
      r0 = add(k in 1000: x[i,k])        r0 = add(k in 1000: x[i,k])     all together
      for j in 1000:                     for j in thread 1000:           divided
        y[i,j] = x[i,j] / r0               y[i,j] = x[i,j] / r0

A GPU runs one text in many threads.  They come in *blocks*: threads of one block can
wait for each other and have memory in common, those of different blocks have not.  So
a nest's outer loops may be bound to a grid in two ways:

    by thread    each step of the loops is one thread's: all within it is a loop of its
                 own.  Neighbouring threads have neighbouring steps of the axis along
                 which memory runs, so that what 32 of them load at once lies together.
    by block     each step is one block's.  Loops and totals within it are divided among
                 its threads, and what the kernel has in the cache is memory in common.

This is decided on loops as `lower` leaves them; what the passes before `place` do for
the caches of a CPU is not wanted here.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

from ...compile.decisions import loop_rules, noted
from ...compile.loops.contents import (
    axes_in, loads_of, stored_in, stores_in, totals_in,
)
from ...compile.loops.expressions import Load
from ...compile.loops.graphs import postorder
from ...compile.loops.kernel_buffers import local_buffers
from ...compile.loops.statements import For, If, nested, replaced
from ...compile.pipeline import nest_forms, part_forms
from ...compile.schedule.independence import independent
from ...compile.schedule.nests import bytes_of, count_of, joined, runs_along
from ...compile.schedule.placing_rules import share_axes
from ...compile.schedule.shared_loops import loaded_buffers
from ...compile.settings import config
from ...trace.base.demand import add_rows
from .grid_memory import (
    MOST_ALONG_Y, MOST_THREADS, THREADS, WARP, bytes_of_own, placed_flat, warps_of,
    widest_total,
)

# Why: whether a step is a block's (or whether something is done), and the reason.
loop_rules |= {
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
    "in order": (
        False, "steps need those before them: one thread does all", "thread_steps"
    ),
    "once a block": (
        True, "a total that many steps want is computed once, by a block",
        "total_again",
    ),
    "tiles of a block": (
        True, "what runs along another axis is turned in memory of a block", "few_steps"
    ),
}  # fmt: skip


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


def inner_axes(body):
    """The axes within statements that the threads of a block could share."""
    axes = [*axes_in(body), *(a for total in totals_in(body) for a in total.axes)]
    return [a for a in dict.fromkeys(axes) if a.kind in ("loop", "reduce")]


def widest(body):
    """How many steps the longest loop or total within statements has."""
    axes = (a for a in axes_in(body) if a.kind in ("loop", "thread"))
    loops = (a.bounds[1] + 1 for a in axes)
    return max([*loops, *map(widest_total, totals_in(body))], default=1)


def depend_on_each_other(stmts):
    """Whether statements touch what others of them store."""
    stored = [stored_in([stmt]) for stmt in stmts]
    for i, stmt in enumerate(stmts):
        others = set().union(*(b for j, b in enumerate(stored) if j != i))
        if others & (loaded_buffers([stmt]) | stored[i]):
            return True
    return False


@dataclass(frozen=True)
class Part:
    """A nest of a kernel, its outer loops bound to the grid.

    Attributes:
      axes: of these loops: which step of them it has, a block or thread knows by its
        number.  Several axes are those of a grid of blocks, the last one its x.
      by_block: whether a step is a block's; else it is a thread's.
      body: the statements of one step.
    """

    axes: tuple
    by_block: bool
    body: tuple

    def joined(self):
        """The same with one axis."""
        axis, names = joined(self.axes)
        return replace(self, axes=(axis,), body=replaced(self.body, names.get))

    def placed(self, made):
        """The same in its loops, as `placed_flat`."""
        body = nested(self.axes, self.body)
        return replace(self, body=placed_flat(body, made))

    @property
    def threads(self):
        """How many threads a block wants: enough for the widest of what they share."""
        steps = count_of(self.axes)
        if not self.by_block:
            return min(THREADS, warps_of(steps))
        few = steps * THREADS < config.fusion.few_threads
        return min(MOST_THREADS if few else THREADS, warps_of(widest(self.body)))

    def grid(self, threads):
        """How many blocks it wants along x, y and z."""
        each = 1 if self.by_block else threads
        steps = [-(-a.extent // each) for a in self.axes]
        return (*reversed(steps), 1, 1)[:3]


# ---- the whole map, of what follows


def part_of(stmt):
    """What a nest is on a grid: -> `Part`."""
    add_rows("run.device.grid")
    for form in nest_forms.passes:
        if found := form(stmt):
            return found
    axes, body = peeled(stmt)
    outer = known_outside(axes, body)
    if len(outer) < len(axes):
        noted("once a block", steps=count_of(outer))
        body = nested([a for a in axes if a not in outer], body)
    outer = best_last(outer, body)
    # A total that all steps want: only one block can compute it once.
    by_block = bool(axes and not outer) or goes_by_block(outer, body)
    loops = axes_in(body)
    if count_of(outer) == 1 and not by_block and loops:
        noted("in order", steps=max(a.bounds[1] + 1 for a in loops))
    return bind(outer, by_block, body)


def launch_of(body):
    """The grid for a kernel's statements, as `lower` leaves them: -> `Launch`."""
    stmts = share_axes(tuple(body))
    parts = [part_of(stmt) for stmt in stmts]
    if depend_on_each_other(stmts):
        # Only within a block do later statements see what earlier ones stored.
        parts = [bind((), True, stmts)]
    if len(parts) > 1 or max(a.extent for a in parts[0].axes) > MOST_ALONG_Y:
        parts = [part.joined() for part in parts]
    threads, made = max(part.threads for part in parts), {}
    grid = max(part.grid(threads) for part in parts)
    return Launch(tuple(part.placed(made) for part in parts), grid, threads)


# chapter 26
# ---- which loops may be bound


def apart(loop, common=False):
    """Whether the steps of a loop can run at once.

    Stores at indices that were loaded are apart if whoever made the loop says so: its
    kind is not `serial`.

    Args:
      common: whether steps have in common what is in the cache; else each has its own.
    """
    told = {s.buffer for s in stores_in((loop,)) if promised(s, loop.axis)}
    told -= loaded_buffers((loop,))
    own = told if common else {*told, *local_buffers((loop,))}
    return loop.axis.is_plain and independent(loop.axis, loop.body, own, again=True)


def promised(store, axis):
    """Whether a store's index is loaded, another one in each step of an axis."""
    return any(type(e) is Load and axis in e.free for e in postorder(store.index))


def peeled(stmt, common=False):
    """(axes, statements within): loops around all of a nest whose steps are apart."""
    axes, body = [], (stmt,)
    while len(body) == 1 and isinstance(body[0], For) and apart(body[0], common):
        axes.append(body[0].axis)
        body = body[0].body
    return axes, body


def known_outside(axes, body):
    """The axes that all long totals depend on: in steps of others they would be
    computed again.  What the kernel keeps to itself depends on all."""
    own = stored_in(body)
    long = [
        e for e in totals_in(body) if widest_total(e) >= config.fusion.total_again
        and not any(type(x) is Load and x.buffer in own for x in postorder([e]))
    ]
    return [a for a in axes if all(a in total.free for total in long)]


# ---- along which axis memory runs


def votes_of(body):
    """{axis: how many bytes run along it}: of loads, each once, and of stores.

    What is the kernel's own does not count.
    """
    votes = Counter()
    for access in (*stores_in(body), *loads_of(body)):
        if access.buffer.space != "cache":
            votes[runs_along(access)] += bytes_of(access)
    return votes


def best_last(axes, body):
    """The axes with that one last along which the most bytes run."""
    if not axes:
        return axes
    best = max(reversed(axes), key=votes_of(body).__getitem__)
    return [*(a for a in axes if a is not best), best]


# ---- by thread or by block


def goes_by_block(axes, body):
    """Whether the threads of a block share each step of some axes."""
    wide, settings, steps = widest(body), config.fusion, count_of(axes)
    if wide < WARP:
        return noted("short steps", longest=wide)
    if (kept := bytes_of_own(body)) > settings.thread_bytes:
        return noted("large steps", bytes=kept)
    few = settings.few_threads
    if steps * 8 < few or (steps < few and wide > few):
        return noted("few blocks", steps=steps)
    votes = votes_of(body)
    inside = sum(votes[a] for a in inner_axes(body))
    along = inside > sum(votes[a] for a in axes[-1:])
    return noted("along a step" if along else "across steps", steps=steps)


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
    return For(axis, replaced(body, names.get))


# ---- the grid


def bind(axes, by_block, body):
    """Loops over some axes on the grid, each step of them a block's or a thread's.

    What steps of a block have in them is for its threads to divide.
    """
    part = Part(tuple(axes), by_block, tuple(body))
    for better in part_forms.passes:
        part = better(part)
    part = part.joined()
    if part.by_block:
        part = replace(part, body=tuple(map(collapsed, part.body)))
    return part
