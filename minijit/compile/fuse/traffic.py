"""What a kernel reads and writes: which elements of which array, and how often.

    softmax over axis 0:    reads   x: f32[4096,1024]   16.8 MB, in 3 sweeps
                            writes  y: f32[4096,1024]   16.8 MB

An element counts once, however often a kernel reads it: what it needs again may still
be in a cache, or in a register.  Whether it is depends on how much the kernel touches
in between: so there is a second number, the *sweeps*, how many times it goes through
the array.  What it reads after it has written it itself is no traffic.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ..loops.buffers import Buffer
from ..loops.element_sets import Elements, count, covers, most_steps, reached
from ..loops.expressions import Load, Op
from ..loops.graphs import postorder
from ..loops.statements import Call, For, If, Kernel, Let, Region, Start, Step, Store
from ..schedule.lines import sweeps_of
from ..schedule.place import place

# Spaces of buffers that are no memory outside the kernel; tables have no size.
not_memory = ("cache", "register", "table")


@dataclass(frozen=True)
class Use:
    """What a kernel, or a call, reads of one array, or writes of it.

    Attributes:
      buffer: the array.
      elements: how many different ones; exact: whether so many, and not at most.
      sweeps: how many times it goes through them.
      sets: which elements, as `count` of `element_sets` takes them.
    """

    buffer: Buffer
    elements: int
    exact: bool = True
    sweeps: int = 1
    sets: tuple = field(default=(), repr=False, compare=False)

    @property
    def nbytes(self):
        return self.elements * self.buffer.dtype.itemsize

    @property
    def whole(self):
        """Whether it is all of the array."""
        return self.exact and self.elements == math.prod(self.buffer.shape)


@dataclass(frozen=True, eq=False)
class Traffic:
    """All that a kernel, or a call, reads and writes.

    Attributes:
      reads, writes: a `Use` for each array.
      flops: operations on floating-point numbers, or None if that is not known.
    """

    reads: tuple
    writes: tuple
    flops: int | None

    @property
    def nbytes(self):
        """Bytes read and bytes written."""
        return sum(use.nbytes for use in (*self.reads, *self.writes))

    @property
    def exact(self):
        """Whether these are known bytes, and no upper bound."""
        return all(use.exact for use in (*self.reads, *self.writes))


# What is only known to be a number of 32 bits is no bound.
MOST = (1 << 31) - 1


def at_most(axis, times):
    """How often a body runs whose loop has no fixed length: a bound, or None."""
    most = times and times * most_steps(axis)
    return most if most is None or most < MOST else None


@dataclass(eq=False)
class Touch:
    """One place in a kernel's statements where an array is read or written."""

    buffer: Buffer
    elements: Elements
    writes: bool


# What costs nothing, or is only a choice.
free_operations = {"convert", "bitcast", "select", "item"}


def let(walk, stmt, done):
    done.add(stmt.expr)


def start(walk, stmt, done):
    done.add(stmt.reduce)


def step(walk, stmt, done):
    walk.count(stmt.reduce.dtype.kind not in "iub")


def uses_of(touches, writes, sweeps):
    """A `Use` for each array that is read, or written."""
    by_buffer = defaultdict(list)
    for touch in touches:
        if touch.writes == writes:
            by_buffer[touch.buffer].append(touch.elements)
    found = []
    for buffer, sets in by_buffer.items():
        elements, exact = count(sets, buffer.shape)
        times = sweeps.get(buffer, 1)
        found.append(Use(buffer, elements, exact, times, tuple(sets)))
    return tuple(found)


# chapter 20
@dataclass
class Walk:
    """A walk over placed statements, in the order in which they run.

    Attributes:
      constants: {buffer: array} of what is known of loaded indices.
      touches: what was found; seen: the same, to find nothing twice.
      guards: the conditions around; certain: whether the place is reached for sure.
      times: how often a statement here runs; flops: so many were counted so far.
    """

    constants: dict
    touches: list = field(default_factory=list)
    guards: tuple = ()
    certain: bool = True
    times: int | None = 1
    flops: int | None = 0
    seen: set = field(default_factory=set)

    def block(self, body, done):
        done = set(done)
        for stmt in body:
            self.uses(stmt, done)
            walkers[type(stmt)](self, stmt, done)

    def uses(self, stmt, done):
        """The loads, and the operations, that a statement needs itself."""
        for expr in postorder(stmt.uses(), done):
            if isinstance(expr, Load):
                self.touch(expr.buffer, expr.index, False)
            elif isinstance(expr, Op) and expr.dtype.kind not in "iub":
                self.count(expr.name not in free_operations)

    def count(self, operations):
        if self.flops is not None:
            known = self.times is not None
            self.flops = self.flops + operations * self.times if known else None

    def touch(self, buffer, index, writes):
        """Note an element that is used."""
        key = buffer, tuple(index), writes, self.guards
        if buffer.space in not_memory or key in self.seen:
            return
        self.seen.add(key)
        self.add(buffer, buffer.shape, tuple(index), writes)

    def add(self, buffer, shape, index, writes):
        found = reached(shape, index, self.guards, self.constants, self.certain)
        self.touches.append(Touch(buffer, found, writes))

    # Statements.

    def store(self, stmt, done):
        if stmt.combine:
            self.touch(stmt.buffer, stmt.index, False)
            self.count(stmt.buffer.dtype.kind not in "iub")
        self.touch(stmt.buffer, stmt.index, True)

    def loop(self, stmt, done):
        extent = stmt.axis.extent
        if extent == 0:
            return
        outside = self.times
        known = isinstance(extent, int) and outside is not None
        self.times = outside * extent if known else at_most(stmt.axis, outside)
        self.block(stmt.body, done)
        self.times = outside

    def choice(self, stmt, done):
        outside = self.guards
        for wanted, body in zip((True, False), stmt.bodies(), strict=True):
            self.guards = *outside, (stmt.pred, wanted)
            self.block(body, done)
        self.guards = outside


# type of a statement -> function(walk, statement, what is computed already).
walkers = {
    Let: let,
    Start: start,
    Step: step,
    Store: Walk.store,
    For: Walk.loop,
    If: Walk.choice,
}


def own_reads(touches):
    """The touches without reads of what the kernel has written before."""
    written, kept = defaultdict(list), []
    for touch in touches:
        earlier = written[touch.buffer]
        if touch.writes:
            earlier.append(touch.elements)
        elif earlier and covers(earlier, touch.elements, touch.buffer.shape):
            continue
        kept.append(touch)
    return kept


def traffic_of(stmt, constants=()):
    """The `Traffic` of a kernel or call.

    Args:
      constants: pairs (buffer, array), as of a `Program`.
    """
    walk = Walk(dict(constants))
    sweeps = {}
    if isinstance(stmt, Kernel):
        placed = stmt.body if isinstance(stmt, Region) else place(stmt.body)
        walk.block(placed, set())
        sweeps = sweeps_of(placed)
    else:
        walkers[Call](walk, stmt, set())
    touches = own_reads(walk.touches)
    reads, writes = (uses_of(touches, side, sweeps) for side in (False, True))
    return Traffic(reads, writes, walk.flops)
