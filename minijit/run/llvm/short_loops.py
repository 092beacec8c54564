"""Loops of a few steps, written out: the loop around them is the innermost one then.

    for i in 1000:                      for i in 1000:
      start total                         start total
      for k in 3:                         step total (x[i, 0])
        step total (x[i, k])              step total (x[i, 1])
      y[i] = total                        step total (x[i, 2])
                                          y[i] = total

On the left a vector has three numbers, which become one at its end.  On the right whole
vectors have a number of each row.  Prices take it that a printer does so.

And what all steps of a loop ask alike is asked before it: an update asks whether it is
within its array, and its place may be known.
"""

from dataclasses import replace

from ...compile.loops.contents import loads_within, stored_in
from ...compile.loops.expressions import Reduce, as_index
from ...compile.loops.graphs import postorder, substitute
from ...compile.loops.statements import (
    For, If, Let, Start, Step, Store, While, expressions, statements,
)
from ...compile.schedule.machine import Machine
from ...compile.schedule.weights import MOST_WRITTEN, WRITTEN_OUT, weight


def short_loops_written_out(body, around=False):
    """Placed statements without loops of a few steps in others.

    Args:
      around: whether other loops are around them.
    """
    body = [within(stmt, around) for stmt in body]
    short = [s for s in body if around and isinstance(s, For) and is_short(s)]
    # Beside longer loops, what a short one stores is one vector, or two.
    alone = sum(isinstance(s, For) for s in body) == len(short)
    found = []
    for stmt in body:
        if stmt in short and (alone or stmt.axis.kind == "reduce"):
            for k in range(stmt.axis.extent):
                found += step_of(stmt, k)
        else:
            found.append(stmt)
    return tuple(found)


def within(stmt, around):
    """A statement with what is inside it written out, unless lanes do it at once."""
    if isinstance(stmt, For) and stmt.axis.kind != "vector":
        axis = stmt.axis
        stmt = For(axis, short_loops_written_out(stmt.body, True))
        if asked := asked_before(stmt):
            loop = For(axis, (*stmt.body[:-1], *asked.then))
            return If(asked.pred, short_loops_written_out((loop,), around))
    elif isinstance(stmt, If):
        cases = (short_loops_written_out(case, around) for case in stmt.bodies())
        return If(stmt.pred, *cases)
    elif isinstance(stmt, While):
        test, body = (short_loops_written_out(inner, True) for inner in stmt.bodies())
        return replace(stmt, test=test, body=body)
    return stmt


def asked_before(loop):
    """The last statement, an `If`, of a loop whose steps all ask the same, or None."""
    *before, last = loop.body or (None,)
    if not isinstance(last, If) or last.otherwise or loop.axis in last.pred.free:
        return None
    stored = stored_in(loop.body)
    changes = any(load.buffer in stored for load in loads_within([last.pred]))
    inside = statements(last.then)
    plain = all(isinstance(s, (For, Let, Store)) for s in inside)
    if changes or not plain or not all(isinstance(s, Let) for s in before):
        return None
    # What is computed in the loop is not there before it.
    own = {s.expr for s in before}
    return last if own.isdisjoint(postorder([last.pred])) else None


def is_short(loop):
    """Whether a loop may be written out: its steps are few, and plain."""
    axis, body = loop.axis, loop.body
    steps, exprs = axis.extent, expressions(body)
    if axis.kind not in ("loop", "reduce") or not isinstance(steps, int):
        return False
    plain = all(isinstance(s, (Let, Start, Step, Store)) for s in body)
    if steps > WRITTEN_OUT or not plain:
        return False
    # What a step reads of what it has stored would have one name for all steps.
    stored = stored_in(body)
    if any(load.buffer in stored for load in loads_within(exprs)):
        return False
    inside = [e for e in postorder(exprs) if axis in e.free]
    words = sum(sum(weight(e)) for e in inside) + len(loads_within(inside))
    size = max((e.dtype.itemsize for e in inside if e.dtype != axis.dtype), default=8)
    # What is stored in few steps is one short vector for each step around.
    one = axis.kind == "loop" and Machine.host().one_vector(steps, size)
    return steps * words <= MOST_WRITTEN and not one


def step_of(loop, number):
    """The statements of one step of a loop."""
    new = {loop.axis: as_index(number)}
    exprs = lambda roots: substitute(list(roots), lambda expr: None, new)
    new |= {s.reduce: s.reduce for s in loop.body if isinstance(s, Step)}
    found = []
    for stmt in loop.body:
        if isinstance(stmt, Start):
            total = stmt.reduce
            # The steps are there: it may not become a shorter one.
            new[total] = Reduce(total.op, total.axes, tuple(exprs(total.bodies)))
        if isinstance(stmt, Step):
            terms = tuple(exprs(stmt.uses()))
            found.append(Step(new[stmt.reduce], terms))
        else:
            found.append(stmt.rewrite(exprs, lambda *place: place))
    return found
