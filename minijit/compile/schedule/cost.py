"""One price for loops: what a kernel's arranged statements take on a `Machine`, in ns.

    price(arrange(kernel.body), Machine.host())

There are two things to it.  *Instructions* of each loop's step: an innermost loop
along memory does a vector's worth at once, a total waits for itself, accumulators
without a register go to the stack.  *Lines*: what a loop touches comes into a cache
once if a step of the loop leaves it there for the next one, and anew in each step if
not.  No pattern is looked for.
"""

import functools
import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from ..fuse.sweeps import mean_steps
from ..loops.expressions import Load
from ..loops.graphs import nothing, postorder, recalled
from ..loops.kernel_buffers import used_buffers
from ..loops.scalars import wide_dtype
from ..loops.statements import For, If, Let, Start, Step, Store
from .access import Access, access_of
from .independence import is_parallel
from .place import place
from .placing_rules import share_axes
from .weights import weight, words_of

# LLVM writes out loops of so many steps, up to so many instructions in all.
WRITTEN_OUT, MOST_WRITTEN = 7, 300


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
        return max((*sizes.values(), *wide), default=1)

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
        self.live = max(self.live, other.live)


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
        elif isinstance(stmt, If):
            for arm in stmt.bodies():
                other = self.read(arm, loop.axis, named)
                loop.add(other)
                loop.words += 2
                loop.places |= other.places
                loop.inner += other.inner


def written_out(loop, m):
    """The loop with short ones within it written out, as LLVM does."""
    many, new = (written_out(x, m) for x in loop.inner), replace(loop, inner=[])
    new.places, new.totals = set(loop.places), dict(loop.totals)
    for x in many:
        n, plain = x.steps, isinstance(x.axis.extent, int)
        plain = plain and not (x.inner or x.lanes)
        # What is stored in few steps is one short vector for each step around.
        plain = plain and (x.totals or not m.one_vector(n, x.widest))
        words = n * (x.words + len(x.places) + x.slow)
        if not plain or n > WRITTEN_OUT or words > MOST_WRITTEN:
            new.inner.append(x)
            continue
        new.add(x, n)
        for a in x.places:
            step = a.along.get(x.axis, 0)
            rest = tuple(p for p in a.steps if p[0] is not x.axis)
            step = 0 if math.isnan(step) else step
            each = [k * step for k in range(int(n))] if step else [0]
            new.places |= {replace(a, steps=rest, at=a.at + far) for far in each}
        new.totals |= {t: n * w for t, w in x.totals.items() if new.axis in t.axes}
        new.serial |= x.serial and not x.totals
    return new


# ---- instructions


def moves(loop, width):
    """Instructions of the loads and stores of so many steps, at once or one by one."""

    def each(a):
        step = a.along.get(loop.axis, 0)
        if step == 0:
            return float(loop.axis is None)
        if width == 1 or step == a.size and loop.axis not in a.clamped:
            return 1.0
        # No shuffle pairs registers for every third number.
        return 2.0 * {1: 1, 2: 2, 3: 6, 4: 4}.get(abs(step) / a.size, width)

    return sum(map(each, loop.places))


def waits(loop, m):
    """ns from a step to the next one that goes on with a loop's totals.

    An extreme of floats is three totals, none of which waits for another.
    """
    each = (w / words_of(t.op, t.dtype) for t, w in loop.totals.items())
    return m.wait * max(each, default=0.0)


def in_lanes(loop, lanes, m):
    """ns of a step of a loop that is done for all lanes at once."""
    many = max(lanes.steps * loop.widest / m.vector, 1.0)

    def along(a):
        row = a.along.get(lanes.axis, 0) / a.size
        # Rows that are taken apart in registers, or turned; lane by lane if too long,
        # where an index is kept in bounds, and where complex numbers are stored.
        pairs = a.store and a.buffer.dtype.kind == "c" and row > 1
        alone = pairs or lanes.axis in a.clamped
        turned = 0 < row <= 16 and not alone
        return many * min(row, 6.0) if turned else 5 * lanes.steps if row else 1

    words = many * (loop.words + m.slow * loop.slow) + sum(map(along, loop.places))
    over = max(many * (loop.live + 1) + 2 - m.registers, 0.0)
    words += 2 * over * loop.taken / max(loop.live, 1)
    return max(m.op * words, waits(loop, m)) + m.call * loop.calls * lanes.steps


def block(rows, n, m):
    """ns to turn a block of n rows in registers: they are loaded, exchanged in rounds
    of which each pairs all of them, and stored."""
    many = max(n * rows.widest / m.vector, 1.0)
    return m.op * n * many * (len(rows.places) + math.log2(n))


def work(loop, m, lanes=None, waited=False):
    """ns of one run of a loop, all that it needs being in the first cache.

    Args:
      waited: whether other loops follow in a step, which may wait for its totals.
    """
    n = loop.steps
    if loop.lanes:
        if turned := [x for x in loop.inner if x.lanes]:
            return sum(block(x, n, m) for x in turned)
        n = 1.0
    around, last = loop if loop.lanes else lanes, loop.inner[-1:]
    inner = sum(work(x, m, around, x not in last) for x in loop.inner)
    if loop.lanes or lanes:
        each = in_lanes(loop, loop if loop.lanes else lanes, m)
        return n * (each + inner) + (0 if loop.lanes else m.loop)
    wait = waits(loop, m)
    one = m.op * (loop.words + m.slow / 2 * loop.slow + moves(loop, 1))
    one = max(one + m.call * loop.calls, wait)
    if loop.axis is None:
        return one + inner
    held = any(a.store and not a.along.get(loop.axis, 0) for a in loop.places)
    if loop.inner or loop.serial or held and not loop.totals:
        # A new best of n numbers is found about log(n) times, and not foreseen.
        missed = loop.choices * m.branch * (0.6 + math.log(max(n, 1.0)))
        return n * (one + inner + m.step) + m.loop + missed
    return vectors(loop, m, one, wait, waited)


def vectors(loop, m, one, wait, waited):
    """ns of one run of an innermost loop, of which a step takes `one` by itself.

    At its end the numbers of a vector become one total, half of them at a time.
    """
    n, width = loop.steps, max(m.vector // loop.widest, 1)
    each = m.op * (loop.words + m.slow * loop.slow + moves(loop, width))
    many, one = max(each, wait / 4) + m.call * loop.calls * width, one + m.step
    known = isinstance(loop.axis.extent, int)
    whole, rest = divmod(n, width) if known else (n / width, (width - 1) / 2)
    steps = (a.along.get(loop.axis, 0) / a.size for a in loop.places if not a.store)
    if not rest and any(1 < step <= 4 for step in steps):
        # A vector of every third number, the last one, would read what is behind it.
        whole, rest = whole - 1, width
    half, rest = divmod(rest, max(width / 2, 1))
    few = known and whole + half + rest <= 8
    in_all = (whole + half) * many + rest * one
    halves = (max(m.wait * waited, m.op * (1 + w)) for w in loop.totals.values())
    in_all += math.log2(width) * sum(halves)
    return min(n * one, in_all) + (0 if few else m.loop)


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
        share = 1 if full else again
        return order * share, other * share

    def run(self, loop, again, always=frozenset(), full=frozenset()):
        """ns of one run of a loop: (lines in order, others).

        Args:
          again: what share of what the kernels touch has left the cache when they run
            once more.
          always: axes whose steps run at once, in vectors.
          full: the buffers whose lines crowd a few sets.
        """
        axes, accesses = loop.axes | always, loop.accesses
        of_a_step = axes if loop.lanes else axes - {loop.axis}
        if not loop.inner or self.fit(accesses, of_a_step):
            return self.fetched(accesses, axes, again, full)
        full = full | self.room(accesses, of_a_step)[1]
        n, always = (1.0, always | {loop.axis}) if loop.lanes else (loop.steps, always)
        found = [self.run(x, again, always, full) for x in loop.inner]
        found.append(self.fetched(loop.places, always, again, frozenset()))
        order, other = map(sum, zip(*found, strict=True))
        return n * order, n * other

    def again(self, kernels):
        """How much of what they touch has left the cache when they run once more."""
        axes = frozenset().union(*(k.axes for k in kernels))
        accesses = set().union(*(k.accesses for k in kernels))
        return min(max(self.room(accesses, axes)[0] / self.c.size - 0.5, 0.0), 1.0)


# ---- the price


@dataclass(frozen=True)
class Times:
    """ns of a kernel on one core.

    Attributes:
      words: of its instructions.
      lines: for each cache of the machine (of lines in order, of others).
      steps: of its outermost loop, which cores may share; one if they may not.
    """

    words: float
    lines: tuple
    steps: int

    def on(self, cores, machine):
        """ns on so many cores.

        What comes in order comes while other things are computed; for other lines these
        wait.  All cores have their own caches, but for the last one, whose lines come
        one after the other, whoever has asked for them.  The core that has most steps
        is the last to be ready.
        """
        *own, (order, other) = self.lines
        last, share = machine.caches[-1], -(-self.steps // cores) / self.steps
        order += share * sum(x for x, _ in own)
        other *= max(share, last.stream / max(last.jump, last.stream))
        other += share * sum(x for _, x in own)
        return math.hypot(share * self.words, order) + other

    def least(self, machine):
        """ns on one core, or on all of them if that is faster."""
        alone = self.on(1, machine)
        if min(self.steps, machine.cores) < 2:
            return alone
        return min(alone, machine.wake + self.on(machine.cores, machine))


def price(bodies, machine, most=math.inf):
    """ns of kernels' arranged statements, one after the other: a whole number, so that
    what is summed up in another order costs the same.

    Args:
      most: where instructions alone take more, what they take is the answer: neither
        are lines counted then, nor the other kernels looked at.
    """
    known, so_far = [], 0.0
    for body in bodies:
        kernel, times = instructions(body, machine)
        known.append((kernel, times))
        so_far += times.least(machine) + machine.kernel
        if so_far > most:
            return round(so_far)
    groups: dict = {}
    caches = [Fetches(cache, groups) for cache in machine.caches]
    again = [cache.again([kernel for kernel, _ in known]) for cache in caches]
    each = 0
    for kernel, times in known:
        lines = (c.run(kernel, a) for c, a in zip(caches, again, strict=True))
        each += replace(times, lines=tuple(lines)).least(machine)
    return round(each + machine.kernel * len(known))


@recalled
def instructions(body, machine):
    """(arranged statements as a `Loop`, the `Times` of their instructions alone)."""
    kernel = Reader().read(place(body, prepare=share_axes))
    free = ((0.0, 0.0),) * len(machine.caches)
    words = work(written_out(kernel, machine), machine)
    steps = body[0].axis.bounds[1] + 1 if is_parallel(body) else 1
    return kernel, Times(words, free, steps)


def least(bodies, machine):
    """ns that no loops for these arrays go below: each byte moves once, in order."""
    written, read = used_buffers([stmt for body in bodies for stmt in body])
    times = dict.fromkeys(read, 1) | dict.fromkeys(written, 2)
    moved = sum(n * b.nbytes for b, n in times.items() if b.space == "global")
    size, line = machine.caches[-1].size, machine.caches[0].line
    behind = [c for c in machine.caches if c.line == line]
    share = min(max(moved / size - 0.5, 0.0), 1.0)
    rates = [c.stream for c in behind[:-1]] + [share * behind[-1].stream]
    return moved / line * sum(rates)
