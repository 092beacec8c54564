"""Lines: what loops touch, and how often that comes into a cache of the machine.

    Fetches(machine.caches[-1], {}).sweeps(Reader().read(placed))
    # {x: 2, y: 1}: all lines of x come in twice

What a loop touches comes in once if a step of the loop leaves it there for the next
one, and anew in each step if not.
"""

import functools
import math
import operator
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ..loops.element_sets import most_steps
from ..loops.expressions import Load, Op
from ..loops.graphs import nothing, postorder
from ..loops.index_rules import known
from ..loops.scalars import wide_dtype
from ..loops.statements import For, Let, Start, Step, Store
from .access import Access, access_of
from .machine import Machine
from .weights import weight, words_of


def mean_steps(axis):
    """How many steps a loop has: on average, if it is a piece of a longer loop.

    The last piece may be shorter: `min(1000 - piece * 300, 300)` is 250 on average.
    """
    extent, of_piece = axis.extent, lambda n: n
    if isinstance(extent, Op) and extent.name in ("floordiv", "mod"):
        # Several steps of it at once, and those that are left.
        divide = operator.floordiv if extent.name == "floordiv" else operator.mod
        extent, size = extent.args[0], known(extent.args[1])
        of_piece = lambda n: divide(n, size) if size else n
    if isinstance(extent, Op) and extent.name == "min":
        most, left = sorted(extent.args, key=lambda e: isinstance(e, Op))
        piece = isinstance(left, Op) and left.name == "sub" and known(most)
        if piece and (total := known(left.args[0])):
            whole, rest = divmod(total - 1, piece)
            return Fraction(whole * of_piece(piece) + of_piece(rest + 1), whole + 1)
    return most_steps(axis)


def trips(axis):
    """How many steps a loop has, on average."""
    if isinstance(axis.extent, int):
        return float(axis.extent)
    (low, high), mean = axis.extent.bounds, float(mean_steps(axis))
    return max(mean if mean < high else (low + high) / 2, 0.5)


# ---- loops, and what each step does


@dataclass(eq=False)
class Loop:
    """A loop, or all of a kernel: what each step does, and the loops within.

    Attributes:
      words, slow, calls: instructions, slow ones, calls of the C library.
      wide: bytes of the widest number that is computed.
      places: the `Access`es of a step; inner: the loops in it.
      totals: {Reduce that goes on from step to step: instructions that wait for it}.
      live, taken: how many accumulators there are, and how often one goes on.
      choices: how many totals say where their best is.
      serial: whether a step needs the one before; lanes: whether all are one vector.
    """

    axis: object = None
    words: float = 0.0
    slow: float = 0.0
    calls: float = 0.0
    wide: int = 1
    places: set = field(default_factory=set)
    inner: list = field(default_factory=list)
    totals: dict = field(default_factory=dict)
    live: int = 0
    taken: float = 0.0
    choices: int = 0
    serial: bool = False
    lanes: bool = False

    @functools.cached_property
    def steps(self):
        return trips(self.axis) if self.axis is not None else 1.0

    @property
    def widest(self):
        """Bytes of the widest number; 16-bit floats are computed with in 32 bits."""
        sizes = {a.buffer.dtype: a.size for a in self.places}
        wide = (wide_dtype(d).itemsize for d in sizes if self.words)
        return max((self.wide, *sizes.values(), *wide))

    @functools.cached_property
    def axes(self):
        """The axes of the loop and of those within."""
        own = () if self.axis is None else (self.axis,)
        return frozenset(own).union(*(x.axes for x in self.inner))

    @functools.cached_property
    def accesses(self):
        """What a run of the loop touches in memory."""
        own = frozenset(a for a in self.places if a.buffer.space != "register")
        return own.union(*(x.accesses for x in self.inner))

    def add(self, other, times=1.0):
        """What another one's step does, so many times."""
        for name in ("words", "slow", "calls", "taken"):
            there = getattr(self, name) + times * getattr(other, name)
            setattr(self, name, there)
        self.live, self.wide = max(self.live, other.live), max(self.wide, other.wide)


class Reader:
    """Reads placed statements as `Loop`s."""

    def __init__(self):
        self.known = {}

    def access(self, stmt):
        key = type(stmt) is Load, stmt.buffer, stmt.index
        if key not in self.known:
            self.known[key] = access_of(stmt)
        return self.known[key]

    def read(self, body, axis=None, named=()):
        """The loop of some statements over an axis."""
        loop, named = Loop(axis), set(named)
        loop.serial = axis is not None and axis.kind in ("serial", "scan")
        loop.lanes = axis is not None and axis.kind == "vector"
        for stmt in body:
            if isinstance(stmt, For):
                loop.inner.append(self.read(stmt.body, stmt.axis, named))
                continue
            for e in postorder(list(stmt.uses()), named):
                if type(e) is Load:
                    loop.places.add(self.access(e))
                words, slow, calls = weight(e)
                loop.words, loop.slow = loop.words + words, loop.slow + slow
                loop.calls += calls
                if words and e.dtype.itemsize > loop.wide:
                    loop.wide = e.dtype.itemsize
            self.statement(loop, stmt, named)
        return loop

    def statement(self, loop, stmt, named):
        """What a statement does beside its expressions."""
        if isinstance(stmt, Store):
            there = self.access(stmt)
            loop.places.add(there)
            if stmt.combine:
                loop.places.add(replace(there, store=False))
                loop.words += words_of(stmt.combine, stmt.buffer.dtype)
        elif isinstance(stmt, Let):
            named.add(stmt.expr)
        elif isinstance(stmt, Start):
            named.add(stmt.reduce)
        elif isinstance(stmt, Step):
            total = stmt.reduce
            pair, words = len(total.bodies) > 1, words_of(total.op, total.dtype)
            loop.words += 4 if pair else words
            loop.totals[total] = 1.0 if pair else words
            loop.serial |= pair or any(a.kind == "scan" for a in total.axes)
            loop.choices += pair
            loop.live, loop.taken = loop.live + 1, loop.taken + 1
        else:
            for arm in stmt.bodies():
                other = self.read(arm, loop.axis, named)
                loop.add(other)
                loop.words += 2
                loop.places |= other.places
                loop.inner += other.inner


# ---- lines


@dataclass
class Group:
    """Accesses that go the same way through a buffer, so that they share lines.

    Attributes:
      span: bytes from the first to the last of them, where they are neighbours.
    """

    access: Access
    stored: bool
    span: float = 0.0
    counted: dict = field(default_factory=dict)

    def lines(self, axes, line):
        """(lines touched over some axes, runs of neighbours, [(step, steps apart)])"""
        key = line, axes.intersection(self.access.along) if axes else nothing
        if key not in self.counted:
            self.counted[key] = self.count(axes, line)
        return self.counted[key]

    def count(self, axes, line):
        """What `lines` says; it is asked the same for each cache."""
        a, run, points, wide = self.access, self.access.size + self.span, 1.0, []
        here = [(s, trips(x)) for x, s in a.steps if x in axes]
        for step, n in sorted(p for p in here if p[0] == p[0]):
            if step <= max(run, line):
                run = max(run, step * (n - 1) + run)
            else:
                points *= n
                wide.append((step, n))
        points *= math.prod(n for s, n in here if s != s)
        most = a.buffer.nbytes / line + 1
        points = min(points, most)
        return min(points * max(run / line, 1.0), most), points, wide


class Fetches:
    """What a kernel fetches from behind one cache of the machine.

    Attributes:
      known: {(bytes of a line, accesses): their groups}, which caches share.
    """

    def __init__(self, cache, known):
        self.c, self.line, self.sets = cache, cache.line, cache.sets
        self.known, self.rooms = known, {}

    def groups(self, accesses):
        """Accesses in groups; those of each set of them are found once a line."""
        key = self.line, frozenset(accesses)
        if key not in self.known:
            alike = defaultdict(list)
            for a in accesses:
                alike[a.buffer, a.steps].append(a)
            self.known[key] = [g for many in alike.values() for g in self.grouped(many)]
        return self.known[key]

    def grouped(self, many):
        found, last = [], None
        for a in sorted(many, key=lambda a: a.at):
            apart = 0 if last is None else a.at - last
            if last is not None and self.meet(a, apart):
                found[-1].stored |= a.store
                found[-1].span += apart if apart < self.line else 0
            else:
                found.append(Group(a, a.store))
            last = a.at
        return found

    def meet(self, a, apart):
        """Whether two accesses that far apart touch the same, earlier or later."""
        steps = ((x, s) for x, s in a.steps if s == s)
        along = any(s <= apart < s * trips(x) and apart % s == 0 for x, s in steps)
        return apart < self.line or along

    def crowded(self, group, axes):
        """Whether its lines meet in a few sets, more than these have room for."""
        count, runs, wide = group.lines(axes, self.line)
        covered = count / runs
        for step, n in wide:
            step = int(step) // self.line if step % self.line == 0 else 1
            apart = self.sets // math.gcd(self.sets, step)
            covered = min(covered * min(n, apart), self.sets)
        return covered < 0.9 * self.sets and count / max(covered, 1.0) > self.c.ways

    def room(self, accesses, axes):
        """(bytes of the cache that they take, buffers that crowd a few sets)"""
        key = frozenset(accesses), frozenset(axes)
        if key not in self.rooms:
            self.rooms[key] = self.room_for(accesses, axes)
        return self.rooms[key]

    def room_for(self, accesses, axes):
        most, met, full = defaultdict(float), defaultdict(int), set()
        for g in self.groups(accesses):
            b = g.access.buffer
            most[b] += g.lines(axes, self.line)[0] * self.line
            if self.sets:
                key = b, g.access.at // self.line % self.sets
                met[key] += 1
                if met[key] > self.c.ways or self.crowded(g, axes):
                    full.add(b)
        taken = (min(x, max(b.nbytes, self.line)) for b, x in most.items())
        return sum(taken), frozenset(full)

    def fit(self, accesses, axes):
        room, full = self.room(accesses, axes)
        return room <= self.c.size and not full

    def fetched(self, accesses, axes, again, full):
        """ns for what they touch: (in order, other lines); again: how much was gone."""
        if not (share := 1 if full else again):
            return 0.0, 0.0
        order, other, kept = 0.0, 0.0, self.fit(accesses, ())
        for g in self.groups(accesses):
            b = g.access.buffer
            if b.space == "cache" and b.nbytes < self.c.size:
                continue
            count, runs, _ = g.lines(axes, self.line)
            if not kept:
                along = (x for x, _ in g.access.steps if x in axes)
                runs = count = math.prod(map(trips, along))
            first, times = self.c.crowd if b in full else self.c.jump, 1 + g.stored
            order += times * max(count - runs, 0) * self.c.stream
            other += times * runs * first
        return order * share, other * share

    def visits(self, loop, times=1.0, always=frozenset(), full=frozenset()):
        """Where a run of a loop fetches lines: (how often, what, over which axes, full)

        Args:
          always: axes whose steps run at once, in vectors.
          full: the buffers whose lines crowd a few sets.
        """
        axes, accesses = loop.axes | always, loop.accesses
        of_a_step = axes if loop.lanes else axes - {loop.axis}
        if not loop.inner or self.fit(accesses, of_a_step):
            yield times, accesses, axes, full
            return
        full = full | self.room(accesses, of_a_step)[1]
        if loop.lanes:
            always = always | {loop.axis}
        else:
            times *= loop.steps
        for x in loop.inner:
            yield from self.visits(x, times, always, full)
        yield times, loop.places, always, frozenset()

    def run(self, kernel, again):
        """ns of one run of a kernel: (lines in order, others).

        Args:
          again: what share of what the kernels touch has left the cache when they run
            once more.
        """
        in_order = others = 0.0
        for times, accesses, axes, full in self.visits(kernel):
            order, other = self.fetched(accesses, axes, again, full)
            in_order, others = in_order + times * order, others + times * other
        return in_order, others

    def sweeps(self, kernel):
        """{buffer: how often a kernel goes through it}, by how often lines are fetched.

        What a loop reads in several ways it fetches once, as a rule.
        """
        fetched, each = Counter(), Counter()
        for g in self.groups(kernel.accesses):
            each[g.access.buffer] += g.lines(kernel.axes, self.line)[0]
        for times, accesses, axes, _ in self.visits(kernel):
            lines: dict = {}
            for g in self.groups(accesses):
                b, n = g.access.buffer, g.lines(axes, self.line)[0]
                lines[b] = max(n, lines.get(b, 0))
            fetched.update({b: times * n for b, n in lines.items()})
        once = {b: min(n, b.nbytes / self.line + 1) for b, n in each.items()}
        return {b: max(round(n / once[b]), 1) for b, n in fetched.items()}

    def again(self, kernels):
        """How much of what they touch has left the cache when they run once more."""
        axes = frozenset().union(*(k.axes for k in kernels))
        accesses = set().union(*(k.accesses for k in kernels))
        return min(max(self.room(accesses, axes)[0] / self.c.size - 0.5, 0.0), 1.0)


def sweeps_of(placed):
    """{buffer: how often placed statements go through it}: what the last cache fetches

        for i0 in 4096:  m[...] max= x[i0, ...]       # one sweep
        for i0 in 4096:  s[...] += exp(x[i0, ...])    # another one, if x is large
    """
    last = Machine.in_force().caches[-1]
    return Fetches(last, {}).sweeps(Reader().read(placed))
