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
from ..loops.graphs import nothing, postorder, recalled
from ..loops.contents import stored_in
from ..loops.statements import For, If, Let, Start, Step, Store, expressions, told_apart
from ..loops.text import arranged
from . import placing_rules as rules
from .placing_rules import NEST, known_here, nestable, prepared, running_totals, sure


@recalled
def place(body, nest=6, nestable=lambda expr: True, prepare=prepared):
    """Give every expression in a kernel's statements its place.

    Args:
      body: statements `Store`, `For`, `If`, which `prepare` puts in other loops.
      nest: how deep an expression may stay inside its only user, if that stands in the
        same loop.  With 0, everything but sure index arithmetic gets a `Let`.
      nestable: whether an expression may do so at all; by default all may.

    Returns:
      A tuple of statements, with `Let`, `Start` and `Step`.
    """
    body = told_apart(prepare(body))
    uses = Counter(direct := expressions(body))
    for expr in postorder(direct):
        uses.update(expr.children())
    about, waits = (uses, nest, nestable), rules.waiting_for(body)
    placer = WaitingPlacer(*about, waits=waits) if waits else Placer(*about)
    return placer.block(body, nothing.union(*waits.values()), {})


def placed(body):
    """The statements of a kernel placed as they run."""
    return place(body, NEST, nestable)


# chapter 16
class Placer:
    """The walk of `place`.  `uses` says how often each expression is used in all.

    In its methods `bound` has the axes of the loops around, and `placed` is
    {expression that is known there: how many operations of it stand in one line}.
    """

    def __init__(self, uses, nest, nestable):
        self.uses, self.nest, self.nestable = uses, nest, nestable
        self.has_totals = any(type(e) is Reduce for e in uses)

    def known(self, roots, bound, placed):
        """The parts of expressions, in order, that can be computed where `bound` is."""
        return [e for e in postorder(roots, placed) if e.free <= bound]

    def let(self, expr, used_here, placed):
        """A `Let` for an expression whose parts are placed, if it needs one."""
        parts = expr.children()
        deep = 1 + max((placed[c] for c in parts), default=0)
        alone = self.uses[expr] == 1 and expr in used_here and deep <= self.nest
        leaf = isinstance(expr, (Const, Axis))
        cheap = sure(expr) and deep <= 3
        inside = leaf or cheap or (alone and self.nestable(expr))
        placed[expr] = 0 if leaf or not inside else deep
        return [] if inside else [Let(expr)]

    def block(self, body, bound, placed):
        """Place what the statements of one loop's body need; `placed` is known."""
        placed = dict(placed)
        result = self.exprs(self.totals(body, bound, placed), (), bound, placed)
        for stmt in body:
            result += self.statement(stmt, bound, bound, placed)
        return tuple(result)

    def totals(self, body, bound, placed):
        """The Reduces that a block begins with, all of them: they may share loops."""
        if not self.has_totals:
            return []
        exprs = expressions([stmt for stmt in body if not stmt.single])
        return [e for e in self.known(exprs, bound, placed) if type(e) is Reduce]

    def statement(self, stmt, bound, inside, placed):
        """A statement behind what it needs; in it `inside` is bound."""
        here = () if isinstance(stmt, For) else stmt.uses()
        needs = [] if stmt.single else expressions([stmt])
        result = self.exprs(needs, here, bound, placed)
        if isinstance(stmt, For):
            result += running_totals(stmt)
            inner = self.block(stmt.body, inside | {stmt.axis}, placed)
            stmt = For(stmt.axis, inner)
        elif isinstance(stmt, If):
            cases = (self.block(case, inside, placed) for case in stmt.bodies())
            stmt = If(stmt.pred, *cases)
        return [*result, stmt]

    def exprs(self, roots, here, bound, placed):
        """The statements that compute all that `roots` need and can be known here.

        Reduces wait until nothing else is left; those over the same axes that are
        ready together share their loops.
        """
        waiting = self.known(roots, bound, placed)
        # A total's parts are used in loops deeper down, a running total's here.
        used_here = set(here)
        for expr in waiting:
            if type(expr) is not Reduce or bound.issuperset(expr.axes):
                used_here.update(expr.children())
        result = []
        while waiting:
            later, blocked = [], set()
            for expr in waiting:
                if type(expr) is Reduce or blocked.intersection(expr.children()):
                    blocked.add(expr)
                    later.append(expr)
                else:
                    result += self.let(expr, used_here, placed)
            if waiting := later:
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
        lets = self.exprs(values, () if axes else values, bound, placed)
        if not axes:
            return lets + [Step(reduce) for reduce in group]
        inner = self.nest_of(group, axes[1:], bound | {axes[0]}, placed)
        return lets + [For(axes[0], tuple(inner))]


arranged |= {"kernel": place}


# chapter 16, brought along


class WaitingPlacer(Placer):
    """A `Placer` for a kernel that reads what it stores.

    Such a buffer is bound as an axis is, but before a loop that stores into it, and
    where a block begins that does.  `waits` has the buffers that an expression reads.
    """

    def __init__(self, *about, waits):
        super().__init__(*about)
        self.waits = waits

    def known(self, roots, bound, placed):
        parts = super().known(roots, bound, placed)
        return [e for e in parts if self.waits.get(e, nothing) <= bound]

    def block(self, body, bound, placed):
        placed, still = dict(placed), bound - stored_in(body)
        result = self.exprs(self.totals(body, still, placed), (), still, placed)
        for stmt in body:
            # What a statement uses itself, a store's value or the condition of an `If`,
            # is read before it stores anything.
            own = stmt.uses()
            result += self.exprs(own, own, bound, placed)
            still = bound if type(stmt) is Store else bound - stored_in([stmt])
            result += self.statement(stmt, still, bound, placed)
        return tuple(result)
