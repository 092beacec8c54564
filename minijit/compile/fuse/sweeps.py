"""How often a kernel goes through an array, if what it needs again may be in a cache.

    for i0 in 4096:  m[...] max= x[i0, ...]       # one sweep
    for i0 in 4096:  s[...] += exp(x[i0, ...])    # another one, if x is large
"""

import math
import operator
from collections import defaultdict
from fractions import Fraction

from ..loops.element_sets import all_axes, most_steps
from ..loops.expressions import Load, Op
from ..loops.graphs import free_axes, postorder
from ..loops.index_rules import known
from ..loops.statements import For, Let, Start, Store

# Bytes that a kernel finds in a cache if it needs them again: half of a second cache.
# By this reports count, and nothing is compiled.
CACHE = 1 << 19
# Spaces of buffers that are no memory outside the kernel; tables have no size.
not_memory = ("cache", "register", "table")


def sweeps_of(body):
    """{(buffer, whether written): how often statements go through the array}.

    What fits in a cache is read from memory once.  Of more than that, loops one after
    another read it once each; and a loop whose steps all read the same, once a step.
    """
    here, loops = Places(body).sweeps()
    return {
        key: max(round(loops.get(key, 0)) + (key in here), 1)
        for key in here | loops.keys()
    }


class Places:
    """The statements of one block, and what they touch.

    Attributes:
      touched: {(buffer, whether written): the indices at which it is}.
      loops: pairs (axis, Places); choices: lists of Places.
    """

    def __init__(self, body, done=()):
        self.own, self.loops, self.choices = defaultdict(set), [], []
        done = set(done)
        for stmt in body:
            for load in (e for e in postorder(stmt.uses(), done) if type(e) is Load):
                self.own[load.buffer, False].add(load.index)
            if isinstance(stmt, Store):
                self.own[stmt.buffer, True].add(stmt.index)
            elif isinstance(stmt, Let):
                done.add(stmt.expr)
            elif isinstance(stmt, Start):
                done.add(stmt.reduce)
            elif isinstance(stmt, For):
                self.loops.append((stmt.axis, Places(stmt.body, done)))
            elif stmt.bodies():
                self.choices.append([Places(b, done) for b in stmt.bodies()])
        for key in [key for key in self.own if key[0].space in not_memory]:
            del self.own[key]
        self.touched = defaultdict(set)
        inside = [p for _, p in self.loops] + [p for ps in self.choices for p in ps]
        for touched in (self.own, *(p.touched for p in inside)):
            for key, indices in touched.items():
                self.touched[key] |= indices
        own: set = {axis for axis, _ in self.loops}
        self.axes: set = own.union(*(p.axes for p in inside))

    def bytes_of(self, key):
        """About how much of an array is touched in one step of the loops around."""
        buffer, whole = key[0], math.prod(key[0].shape)
        return min(self.run(None, key), whole) * buffer.dtype.itemsize

    def footprint(self, block=None):
        """About how many bytes are touched in a step of the loops around a block.

        An array that is read and written, as a loop's state in place, counts once.
        """
        sizes: dict = {}
        for key in self.touched:
            size = (block or self).bytes_of(key)
            sizes[key[0]] = max(size, sizes.get(key[0], 0))
        return sum(sizes.values())

    def sweeps(self):
        """-> (what is touched here once, {what loops go through: how often})."""
        if self.footprint() <= CACHE:
            return set(self.touched), {}
        here, total = set(self.own), defaultdict(int)
        for n, (axis, inside) in enumerate(self.loops):
            once, more = inside.sweeps()
            for key in once | more.keys():
                times = more.get(key, 0) + (key in once)
                times *= inside.repeats(key, axis)
                times -= times == 1 and self.is_kept(key, n)
                # A range of a loop that is cut counts by its length.
                total[key] += times * Fraction(inside.run(axis, key), self.longest(key))
        for arms in self.choices:
            found = [arm.sweeps() for arm in arms]
            here.update(*(once for once, _ in found))
            for key in set().union(*(more for _, more in found)):
                total[key] += max(more.get(key, 0) for _, more in found)
        # A row of numbers that all loops here use stays in the cache.
        small = {key for key in total if self.bytes_of(key) <= CACHE // 8}
        total = {key: times for key, times in total.items() if key not in small}
        return here | small, total

    def run(self, axis, key):
        """Through how many elements of an array a loop over an axis goes, about."""
        axes = self.axes | {axis}
        return max(
            math.prod(most_steps(a) for a in free_axes(index) & axes)
            for index in self.touched[key]
        )

    def longest(self, key):
        """The most elements of an array that one of the loops goes through."""
        return max(p.run(axis, key) for axis, p in self.loops if key in p.touched)

    def is_kept(self, key, n):
        """Whether an earlier loop has read an array, and it is still in the cache."""
        total = 0
        for _, earlier in reversed(self.loops[:n]):
            total += earlier.footprint(self)
            if key in earlier.touched:
                return total <= CACHE
        return False

    def repeats(self, key, axis):
        """How often all steps of a loop around these statements read an array anew."""
        moving = any(axis in all_axes(index) for index in self.touched[key])
        kept = self.footprint() <= CACHE
        return 1 if moving or kept else mean_steps(axis)


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
