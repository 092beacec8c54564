"""Which elements of an array an index reaches: ranges of positions, counted.

    i, j = Axis(4), Axis(8)
    reached((32,), (i * 8 + j,))                   # all 32, without trying them
    reached((64, 8), (i * 2, j))                   # 4 of 64 rows, and all 8 columns
    count([the first, the second], (64, 8))        # how many are in one or the other

An element is known by its position in memory, row by row.  What is added up to it falls
into groups of which no two depend on one loop: each is a list of ranges, and a position
is any sum of one of each.  So the loops over 33 million elements of `x[i, j, k]` are
three numbers of steps.
"""

import math
from dataclasses import dataclass

import numpy as np

from .buffers import Buffer
from .expressions import Axis, Const, Load, Op
from .graphs import postorder
from .index_rules import ONE, joined_digits, linear
from .scalars import INDEX

# Up to so many combinations of indices are tried one by one, and so many ranges listed.
MOST_TRIED = 1 << 22


@dataclass(frozen=True, eq=False)
class Elements:
    """Some elements of an array.

    Attributes:
      count: how many; exact: whether it is that many, and not at most.
      ranges: int64[n, 2]: where they begin and end, disjoint and in order; None where
        they are too many to list, or not known.
      key: two sets of equal keys are equal.
    """

    count: int
    exact: bool
    ranges: object
    key: object


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


class Unknown(Exception):
    """An integer does not follow from the loops' counters, and constant arrays."""


def values_of(roots, counters, constants):
    """The values of integers for arrays of values of the axes, or `Unknown`."""
    known = dict(counters)
    for expr in postorder(roots, known):
        parts = [known[e] for e in expr.children()]
        if isinstance(expr, Const):
            known[expr] = np.asarray(expr.value, expr.dtype)
        elif isinstance(expr, Load) and expr.buffer in constants:
            array = constants[expr.buffer]
            tops = [n - 1 for n in array.shape]
            where = (np.clip(p, 0, t) for p, t in zip(parts, tops, strict=True))
            known[expr] = array[tuple(where)]
        elif not isinstance(expr, Op) or expr.dtype.kind not in "iub":
            raise Unknown
        elif expr.name == "convert" and expr.args[0].dtype.kind in "iub":
            known[expr] = np.asarray(parts[0]).astype(expr.dtype)
        elif expr.name in on_indices:
            known[expr] = on_indices[expr.name](*parts)
        else:
            raise Unknown
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


# ---- from an index to a set


def reached(shape, index, guards=(), constants=(), certain=True):
    """The `Elements` of an array that are used at an index, in loops.

    Args:
      shape: of the array; index: an expression for each of its dimensions.
      guards: pairs (condition, whether it must be true or false).
      constants: {buffer: its array} of what is known of the loaded indices.
      certain: whether all that fulfil the guards are sure to be used.
    """
    strides = Buffer("", shape, INDEX).strides
    terms = joined_digits(linear(*zip(index, strides, strict=True)))
    start, preds = terms.pop(ONE, 0), [pred for pred, _ in guards]
    asked = all_axes([*index, *preds])
    if any(most_steps(axis) == 0 for axis in asked):
        return listed(np.zeros((0, 2), np.int64), True)
    try:
        parts = [ranges_of(*g, constants) for g in groups(terms, guards)]
        if found := total(start, parts, certain):
            return found
    except Unknown:
        pass
    # As many as all indices have values, or the loops steps.
    values = math.prod(map(number_of_values, index, shape))
    most = min(values, math.prod(map(most_steps, all_axes(index))))
    return Elements(most, False, None, object())


def number_of_values(index, extent):
    """How many values an index may have."""
    low, high = index.bounds or (0, extent - 1)
    return max(min(high, extent - 1) - max(low, 0) + 1, 0)


def listed(ranges, exact):
    """The `Elements` in disjoint ranges."""
    size = int((ranges[:, 1] - ranges[:, 0]).sum())
    return Elements(size, exact, ranges, ranges.tobytes() if exact else object())


def ranges_of(axes, terms, guards, constants):
    """What the terms of loops that depend on each other add up to.

    Args:
      axes: of these loops; terms: {expression: its factor}.
      guards, constants: as of `reached`.

    Returns:
      int64[n, 2]; of a loop of fixed length by itself (steps, how far one goes, the
      least).

    Raises:
      Unknown: if there is too much to try, or a run decides.
    """
    (term, times), *more = terms.items() or [(None, 0)]
    alone = type(term) is Axis and not (more or guards)
    if alone and isinstance(steps := term.extent, int):
        return steps, abs(times), min(times * (steps - 1), 0)
    varying = [t for t in terms
               if type(t) is Axis and not isinstance(t.extent, int)]  # fmt: skip
    tested = [t for t in terms if t not in varying]
    tested += [pred for pred, _ in guards]
    others = {*all_axes(tested), *all_axes([a.extent for a in varying])}
    # One loop whose length varies may be the ranges themselves; others are tried.
    runs = [a for a in varying if a not in others and abs(terms[a]) == 1][:1]
    grid = [a for a in all_axes(axes) if a not in runs]
    sizes = [*map(most_steps, grid)]
    if math.prod(sizes) > MOST_TRIED:
        raise Unknown
    shaped = np.ix_(*map(np.arange, sizes))
    counters, allowed = dict(zip(grid, shaped, strict=True)), np.ones(sizes, bool)
    value = lambda e: values_of([e], counters, constants)[0]
    for axis in (a for a in grid if not isinstance(a.extent, int)):
        allowed = allowed & (counters[axis] < value(axis.extent))
    for pred, wanted in guards:
        allowed = allowed & (value(pred) == wanted)
    starts, lengths = np.zeros(sizes, np.int64), np.ones(sizes, np.int64)
    for term, times in terms.items():
        if term not in runs:
            starts = starts + times * value(term)
    for axis in runs:
        lengths = np.broadcast_to(value(axis.extent), sizes)
        starts = starts - (lengths - 1) * (terms[axis] < 0)
        allowed = allowed & (lengths > 0)
    return disjoint(starts[allowed], lengths[allowed])


def groups(terms, guards):
    """(axes, terms, guards) in groups of which no two depend on one axis."""
    parts = [({*all_axes([term])}, {term: times}, ()) for term, times in terms.items()]
    parts += [({*all_axes([guard[0]])}, {}, (guard,)) for guard in guards]
    done = []
    for axes, own, conditions in parts:
        meet = [g for g in done if g[0] & axes]
        done = [g for g in done if not g[0] & axes]
        for more, some, others in meet:
            axes, own, conditions = more | axes, some | own, others + conditions
        done.append((axes, own, conditions))
    return done


def total(start, parts, certain):
    """The `Elements` at all sums of a start and one number of each part; or None."""
    steady = sorted((p for p in parts if type(p) is tuple), key=lambda p: p[1])
    ranges = np.array([[start, start + 1]], np.int64)
    for part in (p for p in parts if type(p) is not tuple):
        if len(ranges) * len(part) > MOST_TRIED:
            return None
        ranges = sums(ranges, part)
    for n, (steps, far, low) in enumerate(steady):
        if not len(ranges):
            break
        ranges = ranges + low
        if far <= (ranges[:, 1] - ranges[:, 0]).min():
            ranges = disjoint(ranges[:, 0], np.diff(ranges)[:, 0] + far * (steps - 1))
        elif len(ranges) * steps <= MOST_TRIED:
            one = far * np.arange(steps, dtype=np.int64)[:, None] + [0, 1]
            ranges = sums(ranges, one)
        elif len(ranges) == 1:
            return counted(ranges[0], steady[n:], certain)
        else:
            return None
    return listed(ranges, certain)


def sums(first, second):
    """The ranges of all sums of a number in one list of ranges and one in another."""
    starts = first[:, None, 0] + second[None, :, 0]
    lengths = np.diff(first) + np.diff(second).T - 1
    return disjoint(starts.reshape(-1), lengths.reshape(-1))


def counted(one, steady, certain):
    """Positions that are too many to list, and can be counted if none is met twice."""
    low, high = map(int, one)
    size, span = high - low, high - low
    for steps, far, below in steady:
        if far < span:
            return None
        low, size, span = low + below, size * steps, span + far * (steps - 1)
    key = low, *sorted((far, steps) for steps, far, _ in steady), high - int(one[0])
    return Elements(size, certain, None, key if certain else object())


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


def count(sets, shape):
    """How many elements of an array are in at least one of some sets.

    Returns:
      (number, whether it is exactly, and not at most, that).
    """
    kept, whole = {s.key: s for s in sets if s.count}.values(), math.prod(shape)
    exact = [s for s in kept if s.exact]
    guesses = sum(s.count for s in kept if not s.exact)
    if any(s.count == whole for s in exact):
        return whole, True
    together, sure = sum(s.count for s in exact), True
    if len(exact) > 1:
        sure = all(s.ranges is not None for s in exact)
        if sure:
            ranges = np.concatenate([s.ranges for s in exact])
            together = listed(disjoint(ranges[:, 0], np.diff(ranges)[:, 0]), True).count
    return min(together + guesses, whole), sure and not guesses


def covers(sets, one, shape):
    """Whether all elements of a set are known to be in the union of others."""
    if any(s.key == one.key for s in sets):
        return True
    together, sure = count(sets, shape)
    if sure and together == math.prod(shape):
        return True
    more, exact = count([*sets, one], shape)
    return sure and exact and more == together
