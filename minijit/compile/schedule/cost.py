"""One price for loops: what a kernel's arranged statements take on a `Machine`, in ns.

    price(arrange(kernel.body), Machine.host())

There are two things to it.  *Instructions* of each loop's step: an innermost loop
along memory does a vector's worth at once, a total waits for itself, accumulators
without a register go to the stack.  *Lines*: what a loop touches comes into a cache
once if a step of the loop leaves it there for the next one, and anew in each step if
not.  No pattern is looked for.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

from ..decisions import loop_rules, noted
from ..loops.contents import loads_of, stores_in
from ..loops.expressions import Load, Op, Reduce
from ..loops.graphs import postorder, recalled
from ..loops.statements import Store, expressions
from .independence import is_parallel
from .lines import Fetches, Group, Reader, trips
from .machine import PARTS
from .nests import bytes_of
from .place import place
from .placing_rules import share_axes
from .weights import weight, words_of

# LLVM writes out loops of so many steps, up to so many instructions in all.
WRITTEN_OUT, MOST_WRITTEN = 7, 300


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
        # No shuffle pairs registers for every third number; an index that is kept in
        # bounds makes a gather.
        far = 0 if loop.axis in a.clamped else abs(step) / a.size
        return 2.0 * {1: 1, 2: 2, 3: 6, 4: 4}.get(far, width)

    return sum(map(each, loop.places))


def waits(loop, m):
    """ns from a step to the next one that goes on with a loop's totals.

    An extreme of floats is three totals, none of which waits for another.
    """
    each = (w / words_of(t.op, t.dtype) for t, w in loop.totals.items())
    return m.wait * max(each, default=0.0)


def in_lanes(loop, lanes, m):
    """ns of a step of a loop that is done for all lanes at once."""
    n, width = int(lanes.steps), max(m.vector // loop.widest, 1)
    # Lanes are loaded and stored as vectors that have a power of two of them.
    many, pieces = max(n / width, 1.0), n // width + bin(n % width).count("1")

    def along(a):
        row = a.along.get(lanes.axis, 0) / a.size
        # Rows that are taken apart in registers, or turned; lane by lane if too long,
        # where an index is kept in bounds, or where complex numbers are stored.  No
        # shuffle turns rows of numbers that short.
        if not row:
            return 1
        pairs = a.store and a.buffer.dtype.kind == "c" and row > 1
        if pairs or lanes.axis in a.clamped or not 0 < row <= 16:
            return 5 * n
        return 1.5 * n if a.size < 4 and row > 1 else pieces * min(row, 6.0)

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
    if loop.calls:  # A function of the C library is for one number.
        return n * (one + m.step) + m.loop
    each = m.op * (loop.words + m.slow * loop.slow + moves(loop, width))
    many, one = max(each, wait / 4), one + m.step
    known = isinstance(loop.axis.extent, int)
    whole, rest = divmod(n, width) if known else (n / width, (width - 1) / 2)
    steps = (a.along.get(loop.axis, 0) / a.size for a in loop.places if not a.store)
    if not rest and any(1 < step <= 4 for step in steps):
        # A vector of every third number, the last one, would read what is behind it.
        whole, rest = whole - 1, width
    if known and n < width and not loop.totals:
        # They become a vector of half a register, one of a quarter, and so on.
        half, rest = bin(int(n)).count("1"), 0
    else:
        half, rest = divmod(rest, max(width / 2, 1))
    few = known and whole + half + rest <= 8
    in_all = (whole + half) * many + rest * one
    halves = (max(m.wait * waited, m.op * (1 + w)) for w in loop.totals.values())
    in_all += math.log2(width) * sum(halves)
    return min(n * one, in_all) + (0 if few else m.loop)


# ---- the price


@dataclass(frozen=True)
class Times:
    """ns of a kernel on one core.

    Attributes:
      words: of its instructions.
      lines: for each cache of the machine (of lines in order, of others).
      steps: of its outermost loop, which cores may share; one if they may not.
      taken: of lines that cores take from each other, if they share it.
    """

    words: float
    lines: tuple
    steps: int
    taken: float = 0.0

    def on(self, cores, machine):
        """ns on so many cores.

        What comes in order comes while other things are computed, and so do lines that
        another core has written to; for other lines these wait.  All cores have their
        own caches, but for the last one, whose lines come one after the other, whoever
        has asked for them.  The core that has most steps is the last to be ready.
        """
        *own, (order, other) = self.lines
        last, share = machine.caches[-1], -(-self.steps // cores) / self.steps
        order += share * sum(x for x, _ in own) + self.taken * (cores > 1)
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
    each = sum(times.least(machine) for times in with_lines(known, machine))
    return round(each + machine.kernel * len(known))


def with_lines(known, machine):
    """The `Times` of kernels that run one after the other, with the lines they fetch.

    Args:
      known: what `instructions` says of each.
    """
    groups: dict = {}
    caches = [Fetches(cache, groups) for cache in machine.caches]
    again = [cache.again([kernel for kernel, _ in known]) for cache in caches]
    for kernel, times in known:
        lines = (c.run(kernel, a) for c, a in zip(caches, again, strict=True))
        yield replace(times, lines=tuple(lines))


def is_shared(body, machine):
    """Whether cores share arranged statements whose steps are independent: where they
    do not take lines of memory from each other for longer than they help."""
    machine = replace(machine, cores=max(machine.cores, 2))
    known = instructions(body, machine)
    if not known[1].taken:
        return True
    times, = with_lines([known], machine)
    alone, shared = (round(times.on(n, machine)) for n in (1, machine.cores))
    return shared < alone or noted("one core", alone=alone, shared=shared)


loop_rules |= {
    "one core": (False, "cores that share it would take lines from each other, in ns")
}


@recalled
def instructions(body, machine):
    """(arranged statements as a `Loop`, the `Times` of their instructions alone)."""
    kernel = Reader().read(place(body, prepare=share_axes))
    free = ((0.0, 0.0),) * len(machine.caches)
    words = work(written_out(kernel, machine), machine)
    if not is_parallel(body):
        return kernel, Times(words, free, 1)
    first, cores = kernel.inner[0], machine.cores
    taken = machine.take * lines_taken(first, cores, machine) if cores > 1 else 0.0
    return kernel, Times(words, free, first.axis.bounds[1] + 1, taken)


def lines_taken(loop, cores, machine):
    """How often cores that share a loop need a line which another one has written to.

    The parts of a row may lie in the same line, in each row that inner loops go to.
    """
    line, steps, found = machine.caches[0].line, loop.axis.bounds[1] + 1, 0.0
    part = -(-steps // (PARTS * cores))
    for a in loop.accesses:
        if a.store and 0 < part * a.along.get(loop.axis, 0) < line:
            lines, *_ = Group(a, True).lines(loop.axes - {loop.axis}, line)
            found += -(-steps // part) * (lines - 1)
    return found


def least(bodies, machine):
    """ns that no loops of such kernels go below: each value is computed once, in whole
    vectors, and each byte moves once a kernel, in order, if caches do not keep it."""
    each = [needs(body, machine) for body in bodies]
    words = sum(words for words, _ in each) / machine.cores
    kept = {b: min(n, b.nbytes) for _, moved in each for b, n in moved.items()}
    room, line, rate = sum(kept.values()), machine.caches[0].line, 0.0
    for cache in machine.caches:
        if cache.line == line:
            again = min(max(room / cache.size - 0.5, 0.0), 1.0)
            alone = cache is machine.caches[-1]
            rate += again * cache.stream / (1 if alone else machine.cores)
    order = sum(sum(moved.values()) for _, moved in each) * rate / line
    return math.hypot(words, order) + machine.kernel * len(each)


@recalled
def needs(body, machine):
    """(ns of a kernel's instructions on one core, {array: how many bytes of it move}),
    at the least."""
    moved, words = Counter(), 0.0
    for there in (*loads_of(body), *stores_in(body)):
        b, times = there.buffer, 1 + isinstance(there, Store)
        if b.space == "global":
            moved[b] = max(moved[b], min(bytes_of(there), times * b.nbytes))
    whole = postorder(expressions(body))
    # Where steps of a loop choose, ranges of it may compute one thing only.
    choices = (e for e in whole if type(e) is Op and e.name == "select")
    chosen = {a for e in choices for a in e.args[1:]}
    for e in postorder(expressions(body), chosen):
        (some, slow, calls), axes = weight(e), e.free
        if type(e) is Reduce:
            some, axes = words_of(e.op, e.dtype), axes.union(e.axes)
        elif type(e) is Load:
            some = 1.0
        if some or slow or calls:
            each = machine.op * (some + machine.slow * slow) * e.dtype.itemsize
            each = each / machine.vector + machine.call * calls
            words += each * math.prod(map(trips, axes))
    return words, moved
