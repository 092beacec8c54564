"""Which totals share their loops, and where running totals begin: for `place`."""

from .expressions import Reduce, postorder, substitute
from .loops import Start, expressions


def running_totals(loop):
    """A `Start` for each Reduce over the axis of a loop of kind `scan`."""
    if loop.axis.kind != "scan":
        return []
    inside = postorder(expressions(loop.body))
    return [Start(e) for e in inside if type(e) is Reduce and loop.axis in e.axes]


def share_axes(body):
    """Statements in which Reduces of equal extents run over the same axes.

    They can share loops then, and what they read.  Those inside each other keep axes
    of their own.
    """
    heights, shared, chosen = {}, {}, {}
    for expr in postorder(expressions(body)):
        inside = max((heights[e] for e in expr.children()), default=0)
        heights[expr] = inside + (type(expr) is Reduce)
        if type(expr) is Reduce:
            for place, axis in enumerate(expr.axes):
                if axis.kind == "reduce":
                    key = axis.extent, place, heights[expr]
                    chosen[axis] = shared.setdefault(key, axis)
    known = {}

    def exprs(roots):
        return substitute(roots, renamed, known)

    def renamed(expr):
        return chosen[expr] if chosen.get(expr, expr) is not expr else None

    return tuple(stmt.rewrite(exprs, lambda buffer: buffer) for stmt in body)
