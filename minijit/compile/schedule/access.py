"""Accesses: how far what a kernel loads and stores goes on with each loop.

    access_of(Load(x, (i, j + 1)))   # of x: f32[8, 100]
    # Access(x, steps=((i, 400), (j, 4)), at=4)

It is derived once for each load and store; what asks how an index moves asks it.
"""

import functools
from collections import Counter
from dataclasses import dataclass

from ..loops.buffers import Buffer
from ..loops.expressions import Axis, Const, as_index
from ..loops.graphs import free_axes, nothing, postorder, recalled, substitute
from ..loops.index_rules import ONE, digit_of, within
from ..loops.statements import Store
from .nests import steps_of, terms_in_memory


@dataclass(frozen=True)
class Access:
    """A load or store.

    Attributes:
      steps: pairs (axis, how many bytes it goes on with it, a digit of it on average;
        nan if what is loaded, or arithmetic of another kind, decides).
      at: the byte where it begins, as far as it is known.
      clamped: the axes along which an index is kept in bounds.
    """

    buffer: Buffer
    steps: tuple
    store: bool
    at: int
    clamped: frozenset

    @functools.cached_property
    def along(self):
        """{axis: how many bytes it goes on with it}"""
        return dict(self.steps)

    @property
    def size(self):
        return self.buffer.dtype.itemsize


@recalled
def out_of_bounds(index):
    """(an index without what keeps it in bounds, the axes of that, where it begins)"""
    kept = [e for e in postorder([index]) if within(e) is not None]
    index, = substitute([index], within) if kept else [index]
    # It may have a total in it, whose own axes stay.
    first, = substitute([index], lambda e: as_index(0) if e in index.free else None)
    return index, free_axes(kept), first.value if type(first) is Const else 0


@recalled
def access_of(place):
    """The `Access` of a `Load` or `Store`."""
    buffer, index, clamped = place.buffer, place.index, nothing
    size, terms = buffer.dtype.itemsize, dict(terms_in_memory(index, buffer))
    at = terms.get(ONE, 0) * size
    # Mostly it goes on with loops, and by nothing else.
    if not all(type(part) is Axis or part is ONE for part in terms):
        index, kept, starts = zip(*map(out_of_bounds, index), strict=True)
        at = sum(n * stride for n, stride in zip(starts, buffer.strides, strict=True))
        at, clamped = at * size, nothing.union(*kept)
        terms = dict(terms_in_memory(index, buffer))
    steps = Counter()
    for part, stride in terms.items():
        number, below, _ = digit_of(part)
        for axis, n in steps_of(number).items():
            steps[axis] += n * stride * size / below
    order = sorted((a for a in steps if steps[a]), key=id)
    found = tuple((a, abs(steps[a])) for a in order)
    return Access(buffer, found, isinstance(place, Store), at, clamped)
