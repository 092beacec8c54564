"""The memory of a program: how long its buffers live, and where each one lies.

    plan = make_plan(program)
    print(plan)
    # arena of 8,192 bytes for 3 buffers of 12,288
    # t0: f32[32,32]  0..2  at 0
    # t1: f32[32,32]  1..4  at 4096
    # t2: f32[32,32]  3..5  at 0

What lies between the kernels and calls of a program needs memory from the step that
writes it first to the step that uses it last.  Two buffers may have the same memory if
no step finds both of them alive.  All of them together are one block, the *arena*.
"""

from dataclasses import dataclass

import numpy as np

from ...trace.jaxprs.memory import memoised
from ..loops.buffers import Buffer
from ..loops.kernel_buffers import buffer_names
from ..loops.statements import Call, Kernel

# Where an array begins: at the first byte of a line of the cache.
LINE = 64


@memoised
def own_memory(program):
    """The buffers that a call makes or may keep, and that so have their own memory.

    Python makes its results, and a callback may put its arguments on a list; what an
    inner program hands to Python, or gets from there, counts where it is called too.
    """
    found = set()
    for call in program.calls:
        if call.routine == "eval":
            found.update(buffers_of(call))
        elif call.routine == "program":
            inner = call.attrs["program"]
            theirs = own_memory(inner)
            theirs = theirs if inner.inner else theirs | {*inner.outputs}
            views = (*call.inputs, *call.outputs)
            pairs = zip(views, (*inner.inputs, *inner.outputs), strict=True)
            found.update(view.buffer for view, b in pairs if b in theirs)
    return frozenset(found)


def given_results(program):
    """Which results of an inner program its caller has memory for: indices.

    The others are objects, or made by Python, and the program returns them.
    """
    kept = own_memory(program)
    return [
        i for i, b in enumerate(program.outputs) if b.dtype != object and b not in kept
    ]


@dataclass(frozen=True, eq=False)
class Slot:
    """A piece of the arena.

    Attributes:
      owner: the `Buffer`, or the `Call` of a program that has its own arena in there.
      offset, nbytes: where it is.
      first, last: the steps at which it is in use.
    """

    owner: Buffer | Call
    offset: int
    nbytes: int
    first: int
    last: int

    def __str__(self):
        called = isinstance(self.owner, Call)
        what = self.owner.attrs["program"].name if called else self.owner
        return f"{what}  {self.first}..{self.last}  at {self.offset}"


@dataclass(frozen=True, eq=False)
class Plan:
    """The memory of a program.

    Attributes:
      slots: of its arena, in the order of their first steps.
      nbytes: of the arena.
      least: how many bytes of it are alive at once; no plan could do with less.
      results: how many bytes the results take, which are not in the arena.
      copies: those of whole arrays, and why they are needed.
    """

    slots: tuple
    nbytes: int
    least: int
    results: int
    copies: tuple = ()

    @property
    def peak(self):
        """How many bytes a call takes, besides its arguments and constants."""
        return self.nbytes + self.results

    @property
    def separate(self):
        """How many bytes the arena's buffers would take side by side."""
        return sum(rounded(slot.nbytes) for slot in self.slots)

    def __str__(self):
        head = f"arena of {self.nbytes:,} bytes for {len(self.slots)} buffers"
        return "\n".join([f"{head} of {self.separate:,}", *map(str, self.slots)])


def in_arena(program):
    """The buffers that lie in the program's arena: its temporaries, if they are arrays.

    Not in there is what is no memory of its own at all: registers, rows of tables, and
    tapes; nor a result, which stays when the call is over.
    """
    lives, kept = lifetimes(program), own_memory(program) | {*program.outputs}
    return {
        buffer: lives[buffer]
        for buffer in program.temps
        if buffer in lives and buffer not in kept
        and buffer.space == "global" and buffer.dtype != object
    }  # fmt: skip


def rounded(nbytes):
    """A number of bytes, as whole lines of the cache."""
    return -(-nbytes // LINE) * LINE


def have_a_step(lives):
    """Which of some lifetimes have a step in common: lists of bools, [n][n]."""
    first, last = np.reshape(lives, (-1, 2)).T
    return ((first <= last[:, None]) & (first[:, None] <= last)).tolist()


def make_plan(program, plan_within=lambda call: make_plan(call.attrs["program"])):
    """The `Plan` of a program.

    Args:
      plan_within: function of a call of another program: that one's plan.
    """
    entries = [(b, b.nbytes, *life) for b, life in in_arena(program).items()]
    for i, step in enumerate(program.body):
        if isinstance(step, Call) and step.routine == "program":
            within = plan_within(step)
            if step.attrs["program"].inner and within.slots:
                entries.append((step, within.nbytes, i, i))
    entries.sort(key=lambda entry: entry[2])
    lives = [(first, last) for _, _, first, last in entries]
    sizes = [rounded(nbytes) for _, nbytes, _, _ in entries]
    offsets, total = arranged(lives, sizes)
    slots = tuple(
        Slot(owner, offset, nbytes, first, last)
        for (owner, nbytes, first, last), offset in zip(entries, offsets, strict=True)
    )
    results = {b for b in program.outputs if b.dtype != object} - {*program.inputs}
    kept = sum(buffer.nbytes for buffer in results)
    least = most_at_once(lives, sizes)
    return check_plan(Plan(slots, total, least, kept, program.copies))


# chapter 19
# ---- who uses what, and when


def buffers_of(step):
    """The buffers that a kernel or call writes or reads, each once."""
    if isinstance(step, Kernel):
        return list(buffer_names(step.body))
    return list(dict.fromkeys(v.buffer for v in (*step.outputs, *step.inputs)))


def lifetimes(program):
    """{buffer: (the first step that uses it, the last one)}, as indices of its body."""
    lives = {}
    for i, step in enumerate(program.body):
        for buffer in buffers_of(step):
            lives[buffer] = lives.get(buffer, (i, i))[0], i
    return lives


# ---- where it lies


def most_at_once(lives, sizes):
    """The most bytes that are alive at one step: no arena can be smaller."""
    change = {}
    for (first, last), size in zip(lives, sizes, strict=True):
        change[first] = change.get(first, 0) + size
        change[last + 1] = change.get(last + 1, 0) - size
    most = now = 0
    for step in sorted(change):
        now += change[step]
        most = max(most, now)
    return most


def placed_in_order(order, sizes, meet):
    """An offset for each of some sizes, in the smallest gap that is large enough.

    Args:
      order: in which they are placed: indices.
      meet: meet[k][j]: whether k and j are in use at once.
    """
    offsets, placed = {}, []
    for k in order:
        end, best = 0, None
        for start, j in placed:
            if meet[k][j]:
                gap = start - end
                if gap >= sizes[k] and (best is None or gap < best[0]):
                    best = gap, end
                end = max(end, start + sizes[j])
        offsets[k] = best[1] if best else end
        placed.append((offsets[k], k))
        placed.sort()
    return offsets


def arranged(lives, sizes):
    """Offsets for memory of these lifetimes and sizes: -> (offsets, bytes in all).

    Large ones are placed first, and if that is not as good as can be, those that come
    first, and those that live long; the best of these counts.
    """
    least, best, meet = most_at_once(lives, sizes), None, have_a_step(lives)
    for urgent in urgencies:
        order = sorted(range(len(sizes)), key=lambda k: urgent(*lives[k], sizes[k]))
        offsets = placed_in_order(order, sizes, meet)
        total = max((offsets[k] + sizes[k] for k in order), default=0)
        if best is None or total < best[1]:
            best = [offsets[k] for k in range(len(sizes))], total
        if best[1] == least:
            break
    return best


# Functions of (first step, last step, size): what is placed before what.
urgencies = [
    lambda first, last, size: (-size, first),
    lambda first, last, size: (first, -size),
    lambda first, last, size: (first - last, -size),
]


def check_plan(plan):
    """Raise AssertionError, "A and B share memory", of slots alive at one step."""
    alive = []
    for slot in sorted(plan.slots, key=lambda slot: slot.first):
        alive = [other for other in alive if other.last >= slot.first]
        end = slot.offset + slot.nbytes
        assert slot.offset % LINE == 0 and 0 <= slot.offset and end <= plan.nbytes
        for other in alive:
            apart = end <= other.offset or other.offset + other.nbytes <= slot.offset
            assert apart, f"{slot} and {other} share memory"
        alive.append(slot)
    return plan
