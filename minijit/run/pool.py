"""A pool of arrays: memory for results is used again, once nobody looks at it.

    pool = Pool((1000,), np.dtype("float32"))
    x = pool.take()                 # a NumPy array; the pool remembers it
    view = x[:10]
    del x
    pool.take()                     # another one: `view` looks at the first
    del view
    pool.take()                     # the first one again

Python counts how often an object is referred to.  A view of NumPy, a memoryview or a
DLPack capsule refers to the array whose memory it shows.  So an array that only the
pool refers to is one that Python would free at once if there were no pool, and nobody
can tell that its memory is used again.

What all pools hold together is bounded by `config.pool_bytes`; `clear_caches` lets go
of it.
"""

import math
import mmap
import os
from collections import deque
from sys import getrefcount

import numpy as np

from ..trace.base.config import config
from ..trace.jaxprs.memory import Living
from ..trace.jit.jit import cache_clearers
from .donating import HAS_LOCK, held, new_array


def with_room(make):
    """What a function makes; if memory runs out, once more without what is kept."""
    try:
        return make()
    except MemoryError:
        empty_pools()
        return make()


# An eighth of the machine's memory: the system fills fresh pages with zeros, and that
# takes longer than most kernels that write to them.
pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 19
eighth = pages * mmap.PAGESIZE // 8
config.define("pool_bytes", eighth, "how much memory of old results may be kept")
pools = Living()
# About how many bytes the pools remember, as a list of one: pools that are gone count.
remembered = [0]


def make_room(nbytes):
    """Count bytes that a pool has come to remember; if it is too much, forget all."""
    remembered[0] += nbytes
    if remembered[0] > config.pool_bytes:
        remembered[0] = sum(len(pool.lent) * pool.nbytes for pool in pools)
        if remembered[0] > config.pool_bytes:
            empty_pools()


def empty_pools():
    """Forget all arrays: what nobody refers to is free memory again."""
    for pool in pools:
        pool.lent.clear()
    remembered[0] = 0


cache_clearers.append(empty_pools)


# How many arrays a pool remembers, and how many of them it looks at before it makes
# another one.  Two are enough for x = f(x).  They are no settings: what the memory may
# come to is `pool_bytes`, and a look costs a call its time whether it finds one or not.
MOST_ARRAYS = 8
MOST_LOOKS = 2


def references_of_a_pool():
    """What `getrefcount` says of an array that a pool has, and one local variable.

    It is given the array from the list, not from the variable: whether a function may
    borrow a variable's reference, which then is not counted, Python decides otherwise
    from version to version.
    """
    place = [np.empty(0)]
    array = place[0]  # noqa: F841
    return getrefcount(place[0])


ALONE = references_of_a_pool()


class Memory:
    """Arrays of one shape and dtype, read-only, with whatever numbers in them."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.lent = shape, dtype, deque()
        self.nbytes = dtype.itemsize * math.prod(shape)
        pools.add(self)

    def new(self):
        """An array that the pool does not remember yet."""
        array = new_array(self.shape, self.dtype)
        array.setflags(write=False)
        return array

    def make(self):
        """A new array, remembered if there is room."""
        array = with_room(self.new)
        if HAS_LOCK and 2 * self.nbytes <= config.pool_bytes:
            self.lent.append(held(array))
            if len(self.lent) > MOST_ARRAYS:
                self.lent.popleft()
            else:
                make_room(self.nbytes)
        return array


# chapter 25
class Pool(Memory):
    """Arrays of one shape and dtype that are used again.

    Attributes:
      lent: those that it gave last, the oldest first, each in a list of one; some may
        be free by now.
    """

    def take(self):
        """An array that nobody else refers to."""
        lent = self.lent
        for _ in range(MOST_LOOKS):
            try:
                # Held here, so that it has the array whatever others do to the deque.
                place = lent[0]
                array = place[0]
            except IndexError:
                break
            lent.rotate(-1)
            # Another thread that has found it counts this one's reference.
            if getrefcount(place[0]) == ALONE:
                return array
        return self.make()
