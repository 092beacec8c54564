"""Calls whose results have the memory of arguments that were given away.

    f = jit(lambda x: 2 * x, donate_argnums=0)
    x = f(x)                            # the same memory as before, other numbers in it

The program writes over such an argument.  So a call takes the memory away from the
array, and looks whether anybody else has it: a view of NumPy's, or another array.  If
so, the program gets a copy.
"""

import math
import mmap
import sys
import weakref
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from sys import getrefcount

import numpy as np

from ..compile.lower.walk import lower
from ..compile.memory.arena import LINE
from ..trace.array import ArrayImpl
from ..trace.base.config import config
from ..trace.jit.donation import donors
from .executable import Executable, compile_plain, compile_python
from .values import Block, owns_memory, to_array

# Without the lock of the interpreter nobody can count references.
HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()


class Held(list):
    """An array that a pool remembers, in a list of one: the pool's only reference.

    Whether a pool refers to an array as well is found out by taking it out of here, and
    putting it back: a step that no thread can divide.  While it is out, no pool has it.
    """

    __slots__ = ("__weakref__",)


# {id of an array: the `Held` that it is in}
pooled: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def new_array(shape, dtype):
    """An array that begins with a line of the cache, read-only, unless it is small.

    Memory that NumPy asks for begins 16 bytes after one: then each vector of 64 bytes
    lies in two lines, and what is stored past the caches fills none at once.
    """
    nbytes = dtype.itemsize * math.prod(shape)
    if nbytes < mmap.PAGESIZE:
        return np.empty(shape, dtype)
    block = Block(nbytes + LINE, np.uint8)
    # What is shown of memory that may be written to, NumPy lets anybody write to.
    block.setflags(write=False)
    return np.ndarray(shape, dtype, block, -block.ctypes.data % LINE)


def held(array):
    """What a pool has of an array that it remembers from now on."""
    found = pooled[id(array)] = Held([array])
    return found


def references(given):
    """How often an array, and the one whose memory it shows, are referred to.

    Args:
      given: the array, in a list.  Whether a function borrows a variable's reference,
        which is not counted then, Python decides otherwise from version to version;
        what a list has is always counted.
    """
    return references_but_a_pool(given), references_but_a_pool([given[0].base])


def references_but_a_pool(given):
    """How often an object in a list is referred to, but for the reference of a pool."""
    place, taken = pooled.get(id(given[0]), []), []
    try:
        # It is empty while another thread looks, whose reference counts.  In one call
        # of C: between two of Python's steps an interrupt could come.
        with suppress(IndexError):
            taken.extend(map(list.pop, [place]))
        return getrefcount(given[0]) - len(taken)
    finally:
        place += taken


def owned(given):
    """An array whose memory belongs to the caller's variable alone, or else a copy.

    Args:
      given: the array, in a list.
    """
    count, base_count = references(given)
    array, base = given[0], given[0].base
    if count == ALONE and HAS_LOCK:
        if owns_memory(array):
            return array
        whole = type(base) is np.ndarray and base.nbytes == array.nbytes
        if whole and owns_memory(base) and base_count == BASE_ALONE:
            return array
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy


def of_a_local():
    """What `owned` counts for a view that one local variable refers to."""
    array = np.empty(1)[:]
    return references([array])


ALONE, BASE_ALONE = of_a_local()


@contextmanager
def writable(arrays):
    """Let a program write to arrays that belong to it."""
    every = [each for array in arrays for each in in_memory(array)]
    for each in every:
        each.setflags(write=True)
    try:
        yield
    finally:
        for each in every:
            each.setflags(write=False)


def in_memory(array):
    """An array after those whose memory it shows."""
    inner = in_memory(array.base) if isinstance(array.base, np.ndarray) else []
    return [*inner, array]


class Donating(Executable):
    """An executable that may write results over arguments.

    Attributes:
      pairs: of positions, (argument, result), that may have one memory.
    """

    def __init__(self, closed, name, native, pairs):
        self.pairs = pairs
        super().__init__(closed, name, native, self.lower)

    def lower(self, *args, **kwargs):
        program = lower(*args, **kwargs)
        found = {program.outputs[j]: program.inputs[i] for i, j in self.pairs}
        return replace(program, donated=tuple((i, o) for o, i in found.items()))

    def __call__(self, *leaves):
        if (there := self.at(leaves)) is not self:
            return there(*leaves)
        arrays = list(map(to_array, leaves, self.in_avals))
        for i, _ in self.pairs:
            # Whoever looks for bad numbers wants to see the arguments afterwards.
            if isinstance(leaves[i], ArrayImpl) and config.calls_are_plain():
                leaves[i].delete()
            array, arrays[i] = arrays[i], None
            arrays[i] = owned([array])
        with writable([arrays[i] for i, _ in self.pairs]):
            return self.results(arrays)


def donated_lines(entry, executable, names, leaves):
    """What a shortcut does about arguments that are given away.

    Args:
      names: of the variables for the leaves: `x0`, whose NumPy array is `v0`.

    Returns:
      (lines that test the arguments, lines that take their memory).
    """
    used, deleted = entry.donations.used, entry.donations.deleted
    arrays = [i for i in used if isinstance(leaves[i], ArrayImpl)]
    given = [names[i] for i in arrays if deleted[i]]
    pairs = getattr(executable, "pairs", ())
    taking = [f"v{i} = owned([v{i}])" for i, _ in pairs]
    if not given:
        return [], taking
    ids = ", ".join(f"id({name})" for name in given)
    rest = ", ".join(f"id({names[i]})" for i in arrays if not deleted[i])
    twice = f"len(ids) != {len(given)} or not ids.isdisjoint([{rest}])"
    tests = [f"ids = {{{ids}}}", f"if {twice}: return missed"]
    return tests, [*(f"{name}.delete()" for name in given), *taking]


donors |= {
    compile_python: partial(Donating, native=True),
    compile_plain: partial(Donating, native=False),
}
