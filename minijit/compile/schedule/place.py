"""Placing: from expressions, which are graphs, to statements, which are lines.

    for i in 4:                         for i in 4:
      y[i] = total(k: exp(x[i,k]))        start total
                                          for k in 8:
                                            step total (exp(x[i,k]))
                                          y[i] = total

A kernel says what is stored, and in which loops.  Where the parts of a value are
computed it does not say: each at the shallowest depth where its axes are bound, once,
and a total in loops of its own.  Printers of code take it from here.
"""

from collections import Counter

from ..loops.expressions import Axis, Const, Reduce
from ..loops.graphs import nothing, postorder
from ..loops.statements import For, If, Let, Start, Step, Store, expressions
from ..loops.text import arranged
from . import placing_rules as rules
from .placing_rules import NEST, known_here, nestable, prepared, running_totals, sure


class Placer:
    """The walk of `place`.  `uses` says how often each expression is used in all."""

    def __init__(self, uses, nest, nestable, waits=None):
        self.uses, self.waits = uses, waits or {}
        self.nest, self.nestable = nest, nestable

    def let(self, expr, users, placed):
        """A `Let` for an expression whose parts are placed, if it needs one."""
        parts = expr.children()
        depth = 1 + max((placed[c] for c in parts), default=0)
        alone = self.uses[expr] == 1 and expr in users and depth <= self.nest
        leaf = isinstance(expr, (Const, Axis))
        cheap = sure(expr) and depth <= 3
        inside = leaf or cheap or (alone and self.nestable(expr))
        placed[expr] = 0 if leaf or not inside else depth
        return [] if inside else [Let(expr)]

    def block(self, body, bound, placed):
        """Place what the statements of one loop's body need; `placed` is known."""
        placed, full = dict(placed), rules.filled(body, self.waits)
        bound = rules.bound_before(body, bound, self.waits)
        reduces = rules.totals_known(body, bound, self.waits, placed)
        result = self.exprs(reduces, (), bound, placed)
        for stmt, buffers in zip(body, full, strict=True):
            bound = bound.union(buffers if isinstance(stmt, Store) else ())
            here = () if isinstance(stmt, For) else stmt.uses()
            if not stmt.single:
                result += self.exprs(expressions([stmt]), here, bound, placed)
            bound = bound | buffers
            if isinstance(stmt, For):
                result += running_totals(stmt)
                inner = self.block(stmt.body, bound | {stmt.axis}, placed)
                stmt = For(stmt.axis, inner)
            elif isinstance(stmt, If):
                then, otherwise = stmt.then, stmt.otherwise
                then = self.block(then, bound, placed)
                stmt = If(stmt.pred, then, self.block(otherwise, bound, placed))
            result.append(stmt)
        return tuple(result)

    def exprs(self, roots, here, bound, placed):
        """The statements that compute all that `roots` need and can be known here.

        Reduces wait until nothing else is left; those over the same axes that are
        ready together share their loops.
        """
        waiting = rules.parts_known(roots, bound, self.waits, placed)
        # A total's parts are used in loops deeper down, a running total's here.
        users = set(here)
        for expr in waiting:
            if type(expr) is not Reduce or bound.issuperset(expr.axes):
                users.update(expr.children())
        result = []
        while waiting:
            later, blocked = [], set()
            for expr in waiting:
                if type(expr) is Reduce or blocked.intersection(expr.children()):
                    blocked.add(expr)
                    later.append(expr)
                else:
                    result += self.let(expr, users, placed)
            waiting = later
            if waiting:
                result += self.loops(waiting, bound, placed)
                waiting = [e for e in waiting if e not in placed]
        return result

    def loops(self, waiting, bound, placed):
        """The loops of the first Reduce that is ready, shared with its like."""
        reduces = [e for e in waiting if type(e) is Reduce]
        ready = [e for e in reduces if known_here(e, bound, placed)]
        group = [e for e in ready if e.axes == ready[0].axes]
        axes = [axis for axis in group[0].axes if axis not in bound]
        starts = [Start(e) for e in group] if axes else []
        result = starts + self.nest_of(group, axes, bound, placed)
        placed.update(dict.fromkeys(group, 0))
        return result

    def nest_of(self, group, axes, bound, placed):
        """Nested loops over `axes` around one step of each Reduce in `group`."""
        values = [body for reduce in group for body in reduce.bodies]
        placed = dict(placed)
        lets = self.exprs(values, values if len(axes) < 1 else (), bound, placed)
        if not axes:
            return lets + [Step(reduce) for reduce in group]
        inner = self.nest_of(group, axes[1:], bound | {axes[0]}, placed)
        return lets + [For(axes[0], tuple(inner))]


def place(body, nest=6, nestable=None, prepare=prepared):
    """Give every expression in a kernel's statements its place.

    Args:
      body: statements `Store`, `For`, `If`, which `prepare` puts in other loops.
      nest: how deep an expression may stay inside its only user, if that stands in the
        same loop.  With 0, everything but sure index arithmetic gets a `Let`.
      nestable: whether an expression may do so at all; by default all may.

    Returns:
      A tuple of statements, with `Let`, `Start` and `Step`.
    """
    body = prepare(body)
    uses = Counter()
    for expr in postorder(direct := expressions(body)):
        uses.update(expr.children())
    uses.update(direct)
    nestable = nestable or (lambda expr: True)
    placer = Placer(uses, nest, nestable, rules.waiting_for(body))
    return placer.block(body, nothing | rules.stored_in(body), {})


def placed(body):
    """The statements of a kernel placed as they run."""
    return place(body, NEST, nestable)


arranged |= {"kernel": place}
