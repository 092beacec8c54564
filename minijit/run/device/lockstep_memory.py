"""Memory as threads use it: how much, in how many sectors, and in what order.

    memory = Memory("x0", "global", values, size)
    memory.load(lanes, index, mask)     # a number for each thread of `lanes` in `mask`
    memory.counts                       # Counts(loads=..., sectors=..., ...)

Of each element it is known who stored it last, who has loaded it since, and after how
many barriers of their block.
"""

from dataclasses import dataclass

import numpy as np

from ...trace.base.errors import MinijitError
from .grid_memory import SECTOR, WARP

# Memory that a block has in common is in so many banks of 4 bytes: each gives a warp
# one number at a time.
BANKS = 32
# Who has used an element: nobody, more than one, several that an atomic put in order.
NOBODY, SEVERAL, ATOMIC = -1, -2, -3


class OutOfBounds(MinijitError):
    """A thread has used an index that an array does not have."""


class Race(MinijitError):
    """Two threads have used an element, one of them to store, in no order."""


class Divergence(MinijitError):
    """Not all threads have come where all of them are needed."""


@dataclass
class Counts:
    """What a kernel did with one array.

    Attributes:
      loads, stores: how many elements, counted once for each thread.
      sectors: pieces of 32 bytes that warps asked for, to load and to store.
      conflicts: of memory in common: how often a warp had to wait for a bank.
    """

    loads: int = 0
    stores: int = 0
    sectors: int = 0
    conflicts: int = 0


class Lanes:
    """Some blocks' threads.

    Attributes:
      block, thread: of each lane; lane: its number in the whole grid.
      numbers: {"blockIdx": of each lane, along x, y and z, "threadIdx": its own}.
      epoch: how many barriers its block has passed.
      together: in a loop of kind `vector`, {(memory, what): the sectors asked for so
        far}; else None.
    """

    together = None

    def __init__(self, blocks, threads, grid):
        self.blocks, self.threads = blocks, threads
        self.block = np.repeat(blocks, threads)
        self.thread = np.tile(np.arange(threads), len(blocks))
        self.lane = self.block * threads + self.thread
        places = np.unravel_index(self.block, grid[::-1])
        self.numbers = dict(blockIdx=places[::-1], threadIdx=[self.thread])
        self.warp = self.lane // WARP
        self.epoch = np.zeros(len(self.lane), np.int64)
        self.everyone = np.ones(len(self.lane), bool)

    def spread(self, value):
        """A value as an array with a number for each lane."""
        value = np.asarray(value)
        return value if value.shape else np.full(self.lane.shape, value)


# ---- memory


class Users:
    """Who has used the elements of an array in one way: to load, or to store.

    Attributes:
      lane, block: for each element one that has, or `NOBODY`, or `SEVERAL`; last,
        before: of several the last one, and another one.
      epoch: how many barriers that block had passed.
    """

    def __init__(self, size):
        self.lane, self.block = np.full(size, NOBODY), np.full(size, NOBODY)
        self.epoch = np.zeros(size, np.int64)
        self.last, self.before = np.full(size, NOBODY), np.full(size, NOBODY)

    def others(self, lanes, going, where):
        """Whether another thread has, and no barrier has come between."""
        lane, block, epoch = self.lane[where], self.block[where], self.epoch[where]
        before = (block == lanes.block[going]) & (epoch < lanes.epoch[going])
        return (lane != NOBODY) & (lane != lanes.lane[going]) & ~before

    def add(self, lanes, going, where):
        """These lanes, besides those that no barrier stands between."""
        several = self.others(lanes, going, where)
        block = lanes.block[going]
        apart = several & (self.block[where] != block)
        self.lane[where] = np.where(several, SEVERAL, lanes.lane[going])
        self.block[where] = np.where(apart, SEVERAL, block)
        self.epoch[where] = lanes.epoch[going]
        lane, last, before = lanes.lane[going], self.last[where], self.before[where]
        self.before[where] = np.where(several & (last != lane), last, before)
        self.last[where] = lane
        if len(where) > 1:
            # Lanes that use the same element at once are several, too.
            order = np.argsort(where, kind="stable")
            place, block = where[order], block[order]
            same = place[1:] == place[:-1]
            self.lane[place[1:][same]] = SEVERAL
            self.before[place[1:][same]] = lane[order][:-1][same]
            self.last[place[1:][same]] = lane[order][1:][same]
            self.block[place[1:][same & (block[1:] != block[:-1])]] = SEVERAL

    def one_of(self, where, lane):
        """A thread that has used an element, other than a given one."""
        found = self.lane[where]
        if found >= 0:
            return found
        return self.last[where] if self.last[where] != lane else self.before[where]


class Memory:
    """An array, and who has used what of it.

    Attributes:
      kind: `global`, `shared` or `local`.
      values: one row of numbers; of what each block or thread has for itself, all of
        theirs, one after another; start: where in it a lane's own begins.
      readers, writers: `Users`; a store forgets who has loaded before.
    """

    def __init__(self, name, kind, values, size, start=None):
        self.name, self.kind, self.values, self.size = name, kind, values, size
        self.start, self.counts = start, Counts()
        self.readers, self.writers = Users(len(values)), Users(len(values))

    def places(self, lanes, index, mask, what):
        """(which lanes go there, where each of them goes)"""
        going = np.flatnonzero(mask)
        index = lanes.spread(index)[going]
        wrong = (index < 0) | (index >= self.size)
        if wrong.any():
            first = wrong.argmax()
            raise OutOfBounds(
                f"{self.who(lanes, going[first])} {what} {self.name}[{index[first]}], "
                f"and {self.name} has {self.size} elements"
            )
        self.count(lanes, going, index, what)
        return going, index if self.start is None else index + self.start[going]

    @staticmethod
    def who(lanes, lane):
        return f"thread {lanes.thread[lane]} of block {lanes.block[lane]}"

    def count(self, lanes, going, index, what):
        """The sectors that warps ask for at once, or how long they wait for a bank."""
        place, size = index * self.values.itemsize, self.size * self.values.itemsize
        warps = lanes.warp[going]
        if self.kind == "global":
            sectors = np.unique(warps * (size // SECTOR + 1) + place // SECTOR)
            if lanes.together is not None:
                before = lanes.together.get((self, what), sectors[:0])
                lanes.together[self, what] = np.union1d(before, sectors)
                sectors = np.setdiff1d(sectors, before)
            self.counts.sectors += len(sectors)
        elif self.kind == "shared" and len(index) > 1:
            # Threads that ask for the same word are given it together.
            words = np.unique(warps * (size // 4 + 1) + place // 4)
            warp, word = np.divmod(words, size // 4 + 1)
            banks, asked = np.unique(warp * BANKS + word % BANKS, return_counts=True)
            _, first = np.unique(banks // BANKS, return_index=True)
            if len(first):
                longest = np.maximum.reduceat(asked, first)
                self.counts.conflicts += int((longest - 1).sum())

    def load(self, lanes, index, mask):
        going, where = self.places(lanes, index, mask, "loads")
        self.counts.loads += len(going)
        if self.kind != "local":
            self.check(self.writers, lanes, going, where, "one")
            self.readers.add(lanes, going, where)
        found = np.zeros(lanes.lane.shape, self.values.dtype)
        found[going] = self.values[where]
        return found

    def store(self, lanes, index, value, mask):
        going, where = self.places(lanes, index, mask, "stores")
        self.counts.stores += len(going)
        if self.kind != "local":
            self.alone(lanes, going, where)
            self.check(self.writers, lanes, going, where, "both")
            self.check(self.readers, lanes, going, where, "one")
            self.writers.add(lanes, going, where)
            self.readers.lane[where] = NOBODY
        self.values[where] = lanes.spread(value)[going]

    def combine(self, lanes, function, mask, index, *operands):
        """An atomic operation: threads do it one after another, in any order.

        Args:
          function: of values, places and operands; gives what each place had, or None.
        """
        going, where = self.places(lanes, index, mask, "combines")
        self.counts.loads += len(going)
        self.counts.stores += len(going)
        plain = self.writers.lane[where] != ATOMIC
        self.check(self.writers, lanes, going[plain], where[plain], "both")
        self.check(self.readers, lanes, going, where, "one")
        self.writers.lane[where] = ATOMIC
        # Shared memory is one block's, so a barrier comes between; other memory is not.
        own = lanes.block[going] if self.kind == "shared" else SEVERAL
        self.writers.block[where] = own
        self.writers.epoch[where] = lanes.epoch[going]
        self.writers.last[where] = lanes.lane[going]
        operands = [lanes.spread(x)[going] for x in operands]
        if (seen := function(self.values, where, *operands)) is not None:
            found = np.zeros(mask.shape, seen.dtype)
            found[going] = seen
            return found

    def check(self, users, lanes, going, where, storing):
        """Raise `Race` if others have used elements, and no barrier came between.

        Args:
          storing: `one` of the two, or `both`.
        """
        bad = users.others(lanes, going, where)
        if bad.any():
            first = bad.argmax()
            lane, where = going[first], where[first]
            user = users.one_of(where, lanes.lane[lane])
            self.race(lanes, lane, where, user, storing)

    def alone(self, lanes, going, where):
        """Raise `Race` if several lanes store into one element at once."""
        order = np.argsort(where, kind="stable")
        twice = np.flatnonzero(where[order][1:] == where[order][:-1])
        if len(twice):
            one, other = going[order[twice[0]]], going[order[twice[0] + 1]]
            user = lanes.lane[other]
            self.race(lanes, one, where[order[twice[0]]], user, "both", at_once=True)

    def race(self, lanes, lane, where, user, storing, at_once=False):
        block, thread = divmod(user, lanes.threads)
        other = "others" if user < 0 else f"thread {thread} of block {block}"
        apart = user >= 0 and block != lanes.block[lane]
        order = "no barrier stands between"
        if apart:
            order = "no barrier can stand between blocks"
        elif at_once:
            order = "they do it at once"
        raise Race(
            f"{self.who(lanes, lane)} and {other} use {self.name}[{where % self.size}]"
            f", {storing} of them to store, and {order}"
        )
