"""Which elements of an array an index reaches: sets of integers, counted.

    i, j = Axis(4), Axis(8)
    reached(Access((32,), (i * 8 + j,)))           # all 32, without trying them
    reached(Access((64, 8), (i * 2, j)))           # 4 of 64 rows, and all 8 columns
    count([the first, the second], shape)          # how many are in one or the other

The dimensions of an array fall into *blocks*: in `x[i, j, i + k]` the first and the
third belong together, the second is by itself.  A set is the product of one set for
each block, and a set of one block is a list of ranges of positions in it.  So the loops
over 33 million elements of `x[i, j, k]` are three ranges.
"""

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from .buffers import Buffer
from .expressions import Axis, Const, Load, Op
from .graphs import postorder
from .index_rules import ONE, joined_digits, linear
from .scalars import INDEX

# Up to so many combinations of indices are tried one by one, where nothing else helps.
MOST_TRIED = 1 << 22
# Up to so many elements of an array are marked one by one.
MOST_MARKED = 1 << 24


@dataclass(frozen=True)
class Access:
    """An element of an array that is used in loops.

    Attributes:
      shape: of the array; index: an expression for each of its dimensions.
      guards: pairs (condition, whether it must be true or false).
      flat: whether `index` is instead one expression, of the position in memory.
      certain: whether it is sure to happen for all that fulfil the guards.
    """

    shape: tuple
    index: tuple
    guards: tuple = ()
    flat: bool = False
    certain: bool = True


@dataclass(frozen=True, eq=False)
class Part:
    """Some positions in one block of dimensions.

    Attributes:
      dims: of the array, in order.
      ranges: int64[n, 2]: starts and ends, disjoint and in order; None where they are
        too many to list.
      count: how many positions; exact: whether it is that many, and not at most.
      key: two parts of equal keys are equal.
    """

    dims: tuple
    ranges: object
    count: int
    exact: bool
    key: object = None

    @cached_property
    def known_by(self):
        """Something hashable; two parts that have it in common are equal."""
        if not self.exact or self.ranges is None and self.key is None:
            return id(self)
        listed = self.key if self.ranges is None else self.ranges.tobytes()
        return self.dims, self.ranges is None, listed


# ---- values of indices

# Operations on whole arrays of indices.
on_indices = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "select": lambda c, x, y: np.where(c, x, y),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
}


def known_values(expr, constants):
    """Whether an integer follows from the loops' counters, and constant arrays."""
    for part in postorder([expr]):
        if isinstance(part, (Const, Axis)):
            continue
        if isinstance(part, Load):
            if part.buffer not in constants:
                return False
        elif not (isinstance(part, Op) and part.dtype.kind in "iub"):
            return False
        elif part.name != "convert" and part.name not in on_indices:
            return False
        elif part.name == "convert" and part.args[0].dtype.kind not in "iub":
            return False
    return True


def values_of(roots, counters, constants):
    """The values of expressions for arrays of values of the axes."""
    known = dict(counters)
    for expr in postorder(roots, known):
        parts = [known[e] for e in expr.children()]
        if isinstance(expr, Const):
            known[expr] = np.asarray(expr.value, expr.dtype)
        elif isinstance(expr, Load):
            array = constants[expr.buffer]
            tops = [n - 1 for n in array.shape]
            where = (np.clip(p, 0, t) for p, t in zip(parts, tops, strict=True))
            known[expr] = array[tuple(where)]
        elif expr.name == "convert":
            known[expr] = np.asarray(parts[0]).astype(expr.dtype)
        else:
            known[expr] = on_indices[expr.name](*parts)
    return [known[root] for root in roots]


def all_axes(exprs):
    """The axes that expressions depend on, also by the extents of their loops."""
    found, todo = {}, [axis for e in exprs for axis in e.free]
    while todo:
        axis = todo.pop()
        if axis not in found:
            found[axis] = None
            todo += () if isinstance(axis.extent, int) else axis.extent.free
    # In an order that does not depend on addresses.
    return sorted(found, key=lambda a: (most_steps(a), str(a.extent)))


def most_steps(axis):
    """The most steps that a loop can take."""
    extent = axis.extent
    return extent if isinstance(extent, int) else max(extent.bounds[1], 0)


# ---- from an access to a set


def reached(access, constants=None):
    """The set of an access: a list of `Part`s, whose product it is.

    Args:
      constants: {buffer: its array} of what is known of the loaded indices.
    """
    constants = constants or {}
    guards = [(pred, all_axes([pred]), wanted) for pred, wanted in access.guards]
    blocks = []  # [dims, axes, guards]
    dims = [tuple(range(len(access.shape)))] if access.flat else None
    for d, index in enumerate(access.index):
        blocks.append([dims[d] if dims else (d,), set(all_axes([index])), [], [index]])
    for pred, axes, wanted in guards:
        blocks.append([(), set(axes), [(pred, wanted)], []])
    parts = [] if access.certain else [Part((), None, 1, False)]
    for block in merged(blocks):
        part = reached_in(access, *block, constants)
        if part.dims or part.count == 0 or not part.exact:
            parts.append(part)
    return parts


def merged(blocks):
    """Blocks of which no two depend on one axis."""
    done = []
    for block in blocks:
        apart = [b for b in done if not (b[1] & block[1])]
        for other in [b for b in done if b[1] & block[1]]:
            block = [x | y if isinstance(x, set) else x + y
                     for x, y in zip(other, block, strict=True)]  # fmt: skip
        done = [*apart, block]
    return done


def reached_in(access, dims, axes, guards, indices, constants):
    """The positions that the indices of one block of dimensions reach."""
    if access.flat:
        extents = [math.prod(access.shape)]
    else:
        extents = [access.shape[d] for d in dims]
        order = sorted(range(len(dims)), key=dims.__getitem__)
        dims, indices, extents = (
            [x[i] for i in order] for x in (dims, indices, extents)
        )
    dims = tuple(dims)
    strides = Buffer("", extents, INDEX).strides
    terms = joined_digits(linear(*zip(indices, strides, strict=True)))
    constant = terms.pop(ONE, 0)
    counters = set(all_axes([*terms, *(pred for pred, _ in guards)]))
    if any(most_steps(axis) == 0 for axis in axes):
        return Part(dims, np.zeros((0, 2), np.int64), 0, True)
    seen = [*terms, *(pred for pred, _ in guards)]
    seen += [a.extent for a in axes if not isinstance(a.extent, int)]
    whole = Bound(dims, indices, extents, axes)
    if not all(known_values(e, constants) for e in seen):
        return whole.part()
    return tried(dims, constant, terms, guards, counters, constants, whole)


class Bound:
    """What is known of positions whose indices are not known."""

    def __init__(self, dims, indices, extents, axes):
        self.dims, self.points = dims, math.prod(map(most_steps, axes))
        self.size = math.prod(map(self.values, indices, extents))

    @staticmethod
    def values(index, extent):
        """How many values an index may have."""
        low, high = index.bounds or (0, extent - 1)
        return max(min(high, extent - 1) - max(low, 0) + 1, 0)

    def part(self):
        return Part(self.dims, None, min(self.size, self.points), False)


def tried(dims, constant, terms, guards, axes, constants, whole):
    """The positions `constant + terms`, trying what no reasoning can spare.

    An axis that stands in the sum by itself makes ranges longer, or repeats them at
    steps; the values of all other axes are tried.
    """
    tested = [term for term in terms if not isinstance(term, Axis)]
    inside = set(all_axes([*tested, *(pred for pred, _ in guards)]))
    alone = sorted((a for a in axes if a not in inside), key=str)
    varying = [a for a in alone if not isinstance(a.extent, int)]
    for axis in varying:
        inside |= set(all_axes([axis.extent]))
    alone = [a for a in alone if a not in inside]
    varying = [a for a in varying if a not in inside]
    # One loop whose length varies may be the ranges themselves; others are tried.
    runs = [a for a in varying if abs(terms[a]) == 1][:1]
    inside |= {a for a in varying if a not in runs}
    steady = [a for a in alone if a not in inside and a not in runs]
    grid = sorted(inside, key=str)
    if math.prod(map(most_steps, grid)) > MOST_TRIED:
        return whole.part()
    starts, lengths = tried_starts(constant, terms, guards, grid, runs, constants)
    for axis in sorted(steady, key=lambda a: abs(terms[a])):
        times, steps = terms[axis], axis.extent
        starts = starts + min(times * (steps - 1), 0)
        times = abs(times)
        if starts.size and times <= lengths.min():
            lengths = lengths + times * (steps - 1)
        elif starts.size * steps <= MOST_TRIED:
            starts = (starts[:, None] + times * np.arange(steps)).reshape(-1)
            lengths = np.repeat(lengths, steps)
        else:
            return counted(dims, constant, terms, grid, whole)
    ranges = disjoint(starts, lengths)
    return Part(dims, ranges, int((ranges[:, 1] - ranges[:, 0]).sum()), True)


def tried_starts(constant, terms, guards, grid, runs, constants):
    """-> (where ranges start, how long they are), for all values of some axes."""
    sizes = list(map(most_steps, grid))
    shaped = np.ix_(*map(np.arange, sizes))
    counters = dict(zip(grid, shaped, strict=True))
    allowed = np.ones(sizes, bool)
    for axis in grid:
        if not isinstance(axis.extent, int):
            extent, = values_of([axis.extent], counters, constants)
            allowed = allowed & (counters[axis] < extent)
    for pred, wanted in guards:
        value, = values_of([pred], counters, constants)
        allowed = allowed & (value == wanted)
    total = np.full(sizes, constant, np.int64)
    for term, times in terms.items():
        if not isinstance(term, Axis) or term in counters:
            value, = values_of([term], counters, constants)
            total = total + times * value
    lengths = np.ones(sizes, np.int64)
    for axis in runs:
        extent, = values_of([axis.extent], counters, constants)
        lengths = np.broadcast_to(extent, sizes)
        if terms[axis] < 0:
            total = total - (lengths - 1)
        allowed = allowed & (lengths > 0)
    return total[allowed], lengths[allowed]


def counted(dims, constant, terms, grid, whole):
    """Positions that are too many to list, and can be counted if none is met twice."""
    if grid:
        return whole.part()
    span, count = 1, 1
    for axis, times in sorted(terms.items(), key=lambda pair: abs(pair[1])):
        if abs(times) < span:
            return whole.part()
        span += abs(times) * (axis.extent - 1)
        count *= axis.extent
    shape = frozenset((abs(times), axis.extent) for axis, times in terms.items())
    low = sum(min(times * (axis.extent - 1), 0) for axis, times in terms.items())
    return Part(dims, None, count, True, (constant + low, shape))


def disjoint(starts, lengths):
    """Ranges in order, those that meet or overlap as one: int64[n, 2]."""
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], (starts + lengths)[order]
    if not starts.size:
        return np.zeros((0, 2), np.int64)
    reach = np.maximum.accumulate(stops)
    new = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([new[1:], [True]])
    return np.stack([starts[new], reach[last]], 1)


# ---- unions


def size(parts):
    """-> (how many elements a product of parts has, whether exactly so many)."""
    exact = all(part.exact for part in parts)
    return math.prod(part.count for part in parts if part.dims), exact


def is_empty(parts):
    """Whether it is sure that nothing is reached."""
    return any(part.exact and part.count == 0 for part in parts)


def equal(first, second):
    """Whether two sets are known to be equal."""
    return known_parts(first) == known_parts(second)


def known_parts(parts):
    """What sets that are known to be equal have in common."""
    return frozenset(part.known_by for part in parts)


def count(sets, shape):
    """How many elements of an array are in at least one of some sets.

    Returns:
      (number, whether it is exactly, and not at most, that).
    """
    whole = math.prod(shape)
    kept = list({known_parts(s): s for s in sets if not is_empty(s)}.values())
    exact = [s for s in kept if size(s)[1]]
    if any(size(s)[0] == whole for s in exact):
        return whole, True
    guesses = sum(size(s)[0] for s in kept if not size(s)[1])
    total, sure = union(exact, shape)
    if guesses == 0:
        return total, sure
    return min(total + guesses, whole), False


def union(sets, shape):
    """The size of a union of sets whose sizes are known: as `count`."""
    if len(sets) < 2:
        return (size(sets[0])[0] if sets else 0), True
    if all(part.ranges is not None for s in sets for part in s):
        if len({frozenset(part.dims for part in s) for s in sets}) == 1:
            total = by_classes(sets)
            if total is not None:
                return total, True
        if math.prod(shape) <= MOST_MARKED:
            return int(marked(sets, shape).sum()), True
    return min(sum(size(s)[0] for s in sets), math.prod(shape)), False


def by_classes(sets, most=1 << 16):
    """The size of a union of products over the same blocks, or None if it is large.

    In each block positions are alike if they are in the same of the sets: so there are
    few kinds of positions, whatever their number.
    """
    if len(sets) > 60:
        return None
    kinds = {(1 << len(sets)) - 1: 1}  # in which sets -> how many so far
    for dims in sorted(part.dims for part in sets[0]):
        parts = [next(p for p in s if p.dims == dims) for s in sets]
        found, new = classes(parts), {}
        if len(found) * len(kinds) > most:
            return None
        for mask, number in kinds.items():
            for other, times in found.items():
                if both := mask & other:
                    new[both] = new.get(both, 0) + number * times
        kinds = new
    return sum(kinds.values())


def classes(parts):
    """{bit mask of the parts that a position is in: how many such positions}."""
    edges = np.unique(np.concatenate([part.ranges.reshape(-1) for part in parts]))
    masks = np.zeros(max(len(edges) - 1, 0), np.int64)
    for i, part in enumerate(parts):
        changes = np.zeros(len(edges), np.int64)
        at = np.searchsorted(edges, part.ranges)
        np.add.at(changes, at[:, 0], 1)
        np.add.at(changes, at[:, 1], -1)
        masks |= (np.cumsum(changes)[:-1] > 0).astype(np.int64) << i
    lengths, found = np.diff(edges), {}
    for mask in np.unique(masks):
        found[int(mask)] = int(lengths[masks == mask].sum())
    return found


def marked(sets, shape):
    """The union as an array of bools."""
    total = np.zeros(shape, bool)
    for parts in sets:
        inside = [mask_of(part, shape) for part in parts if part.dims]
        total |= reduce(np.logical_and, inside, np.ones((1,) * len(shape), bool))
    return total


def mask_of(part, shape):
    """The positions of one block, as bools that broadcast against the array."""
    extents = [shape[d] for d in part.dims]
    changes = np.zeros(math.prod(extents) + 1, np.int8)
    np.add.at(changes, part.ranges[:, 0], 1)
    np.add.at(changes, part.ranges[:, 1], -1)
    inside = np.cumsum(changes[:-1]).astype(bool)
    return inside.reshape([n if d in part.dims else 1 for d, n in enumerate(shape)])


def covers(sets, parts, shape):
    """Whether all elements of a set are known to be in the union of others."""
    if any(equal(one, parts) for one in sets):
        return True
    together, sure = count(sets, shape)
    if sure and together == math.prod(shape):
        return True
    more, exact = count([*sets, parts], shape)
    return sure and exact and more == together
