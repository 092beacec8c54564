"""What `place` asks: in which loops, what is cheap, which totals share their loops."""

from ..decisions import in_bounds
from ..loops.contents import loads_of, stored_in, totals_in
from ..loops.expressions import Axis, Const, Load, Op, Reduce
from ..loops.graphs import nothing, postorder, recalled, remembered, substitute
from ..loops.scalars import INDEX, dtype_bounds
from ..loops.statements import If, Start, changed, expressions, replaced
from ..pipeline import arrangements
from ..settings import config
from .interchange import interchanged
from .nests import in_digits, in_long_rows, in_nests

arrangements |= {
    "in_long_rows": in_long_rows,
    "in_digits": in_nests(in_digits),
    "interchanged": interchanged,
}


def arrange(body):
    """A kernel's statements in the loops that run.  Those arranged already stay so."""
    with remembered():
        return arranged(body, config.fusion)


@recalled
def arranged(body, settings):
    """A kernel's statements in the loops that run where some settings are in force."""
    return arrangements.through(
        body, lambda change, stmts: in_bounds(change, stmts, expressions)
    )


arithmetic = {"add", "sub", "mul", "floordiv", "mod", "max", "min"}


def sure(expr):
    """Whether it is arithmetic on an index that cannot overflow."""
    plain = isinstance(expr, Op) and expr.dtype == INDEX and expr.name in arithmetic
    return plain and expr.bounds != dtype_bounds(INDEX)


# How deep an expression may grow before it gets a line of its own, in code that runs.
# This is for readers, and for compilers that take deep ones slowly: what is computed,
# and in which loop, is the same.
NEST = 4


def nestable(expr):
    """Whether an expression may stand inside another one, in code that runs.

    An integer needs a variable of its own type, in which it wraps around.
    """
    return isinstance(expr, Load) or expr.dtype.kind not in "iu"


def known_here(reduce, bound, placed):
    """Whether all that a Reduce uses from outside its loops has been computed."""
    inside = postorder(reduce.bodies, placed)
    return not any(e.free <= bound and e.children() for e in inside)


def waiting_for(body):
    """{expression: the buffers that it reads, and that these statements write}

    Expressions that read none are left out, so that mostly there is nothing.
    """
    written, waits = stored_in(body), {}
    if not any(load.buffer in written for load in loads_of(body)):
        return waits
    for expr in postorder(expressions(body)):
        found = nothing.union(*(waits.get(e, nothing) for e in expr.children()))
        if type(expr) is Load and expr.buffer in written:
            found |= {expr.buffer}
        if found:
            waits[expr] = found
    return waits


def running_totals(loop):
    """A `Start` for each Reduce of which a loop of kind `scan` is the outermost."""
    if loop.axis.kind != "scan":
        return []
    return [Start(e) for e in totals_in(loop.body) if e.axes[0] is loop.axis]


def without_guards(body):
    """Statements without the conditions that are known to hold."""

    def held(stmt):
        known = isinstance(stmt, If) and isinstance(stmt.pred, Const)
        return without_guards(stmt.then) if known and stmt.pred.value else None

    return changed(body, held)


@recalled
def share_axes(body):
    """Statements in which Reduces of equal extents run over the same axes.

    They can share loops then, and what they read.  Those inside each other keep axes
    of their own.  Conditions that are known to hold go.
    """
    heights, shared, chosen, keys = {}, {}, {}, {}
    for expr in postorder(expressions(body)):
        inside = max((heights[e] for e in expr.children()), default=0)
        heights[expr] = inside + (type(expr) is Reduce)
        if type(expr) is Reduce:
            for place, axis in enumerate(expr.axes):
                if axis.kind == "reduce":
                    keys[axis] = place, heights[expr]
    known = {}

    def renamed(expr):
        return chosen[expr] if chosen.get(expr, expr) is not expr else None

    for axis, key in keys.items():
        if isinstance(axis.extent, int):
            chosen[axis] = shared.setdefault((axis.extent, *key), axis)
    for axis, key in reversed(keys.items()):
        # How long the loops inside are may depend on the axes of those around them.
        if not isinstance(axis.extent, int):
            extent, = substitute([axis.extent], renamed, known)
            own = axis if extent is axis.extent else Axis(extent, axis.kind)
            chosen[axis] = shared.setdefault((extent, *key), own)
    return without_guards(replaced(body, renamed, known))


def prepared(body):
    """A kernel's statements before anything in them has its place."""
    return share_axes(arrange(body))
