"""Loops cut where a condition on their axis changes: `concatenate`, `pad`, `roll`.

    for i in 300:                             for i in 100: y[i] = a[i] * 2
      y[i] = a[min(i, 99)] * 2 if i < 100     for i in 200: y[i+100] = b[i]
             else b[max(i - 100, 0)]

On the left both are loaded, from places that a compiler cannot tell are neighbours, and
one of them is thrown away.  On the right there is nothing to choose, and every loop
goes along memory.  Of loops around everything only short ones are cut: others may be
divided among threads, and then they have to be one.
"""

import math

from .decisions import loop_rules, noted
from .expression_graphs import postorder
from .expressions import Axis, Const, Op, as_index, op
from .fuse import renamed
from .interchange import Renamer
from .loops import For, expressions, statements
from .nests import steps_of
from .placing_rules import arrangements
from .settings import config

# comparison with a constant -> how far behind that constant the other answer begins.
comparisons = {"lt": 0, "ge": 0, "le": 1, "gt": 1}


def cuts_of(axis, body):
    """Where along an axis the answers to comparisons in some statements change."""
    found = set()
    for expr in postorder(expressions(body)):
        if not isinstance(expr, Op) or expr.name not in comparisons:
            continue
        index, limit = expr.args
        if axis not in index.free or not isinstance(limit, Const):
            continue
        first = place_on(index, axis)
        if first is not None:
            found.add(limit.value - first + comparisons[expr.name])
    return sorted(cut for cut in map(int, found) if 0 < cut < axis.extent)


def place_on(index, axis):
    """What is added to an axis to make an index, a number; None if it is more."""
    if index.free != {axis} or steps_of(index) != {axis: 1}:
        return None
    start, = Renamer({axis: as_index(0)})([index])
    return start.value if isinstance(start, Const) else None


def in_ranges(body, outermost=True):
    """A kernel's statements, with loops cut into ranges."""
    result = []
    for stmt in body:
        if isinstance(stmt, For):
            stmt = For(stmt.axis, in_ranges(stmt.body, False))
            result += ranges(stmt, outermost)
        else:
            result.append(stmt)
    return tuple(result)


def ranges(loop, outermost):
    """A loop, or several that do the same one after the other."""
    axis, settings = loop.axis, config.fusion
    if axis.kind != "loop" or not isinstance(axis.extent, int):
        return [loop]
    inner = [s.axis for s in statements(loop.body) if isinstance(s, For)]
    whole = all(isinstance(a.extent, int) for a in inner)
    cuts = cuts_of(axis, loop.body) if whole else []
    if not cuts:
        return [loop]
    pieces, steps = len(cuts) + 1, axis.extent * math.prod(a.extent for a in inner)
    if pieces > settings.most_ranges or outermost and steps > settings.one_range:
        noted("one range", ranges=pieces, steps=steps)
        return [loop]
    noted("ranges", ranges=pieces)
    result = []
    for start, end in zip([0, *cuts], [*cuts, axis.extent], strict=True):
        part = Axis(end - start)
        names = {axis: op("add", part, as_index(start))}
        names |= {a: Axis(a.extent, a.kind) for a in inner}
        result.append(For(part, renamed(loop.body, names)))
    return result


loop_rules |= {
    "ranges": (True, "its loops are cut where conditions change", "most_ranges"),
    "one range": (False, "so many ranges, or so long a loop, stay one", "one_range"),
}
arrangements.append(in_ranges)
