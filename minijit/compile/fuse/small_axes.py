"""Small axes that are mixed: the columns and diagonals of many 4 x 4 matrices.

    axes = Axes(jaxpr, consts)
    axes.small[var]                  # (1, 2): the axes of u32[1000,4,4] that mix
    axes.land(var)                   # what it is mixed with, as one of these variables

An axis is *mixed* where an element of a result takes elements at other indices of it:
a permutation, a slice, a concatenation, a total.  All other axes only come along: they
are the *lanes*, and each lane is a program of its own on a handful of numbers.  Which
axes these are, no table has to say: each primitive's row is asked for one element, and
its answer shows which indices it takes as they are.
"""

import math
from collections import defaultdict

from ...trace.array import to_numpy
from ...trace.core import eval_rules
from ...trace.jaxprs.jaxpr import Literal, Var
from ...trace.jit.jit import jit_p
from ...trace.primitives import (
    broadcast_in_dim_p, mul_p, reshape_p, squeeze_p, transpose_p,
)
from ...transform.control_flow.while_and_scan import scan_p
from ..decisions import loop_rules, noted
from ..loops.expressions import Axis, Reduce, as_index
from ..loops.graphs import postorder
from ..lower.walk import At, row_of
from ..settings import config
from ..simplify.folding import elementwise
from ..simplify.known_values import compute


def is_table(aval, *eqns):
    """Whether constants of a type are looked into; those of some equations are."""
    small = aval.size <= config.fusion.table_elements
    return noted("table" if small else "large table", *eqns, elements=aval.size)


loop_rules |= {
    "table": (True, "its elements are known where they are asked for"),
    "large table": (False, "it has too many elements to look into", "table_elements"),
}


def terms_of(total):
    """How many terms a total has; inf if that is not known, or it is another kind."""
    known = total.is_fixed and len(total.bodies) == 1
    return math.prod(axis.extent for axis in total.axes) if known else math.inf


class Sets:
    """Sets that grow together: `join(a, b)`, and `of(a)` is the name of a's set."""

    def __init__(self):
        self.above = {}

    def of(self, x):
        while (above := self.above.get(x, x)) is not x:
            self.above[x] = self.above.get(above, above)
            x = above
        return x

    def join(self, a, b):
        self.above[self.of(a)] = self.of(b)


# What leaves each element of an axis where it is among the others.
stay = {*elementwise, reshape_p, squeeze_p, transpose_p, broadcast_in_dim_p}


def may_move(jaxpr):
    """Whether elements may change places within an axis; inner programs may do it."""
    return any(eqn.primitive not in stay for eqn in jaxpr.eqns)


class Axes:
    """What a program does with the axes of its variables.

    Attributes:
      small: {variable: its mixed axes}, if a lane has few elements; else ().
      large: {variable: its mixed axes}, where a lane has too many elements.
      moved: the axes on which elements change places, or make short totals.
      permuted: those on which they change places, or are chosen by a known mask.
      known: {variable: NumPy array} of the constants, also where loops are given them.
      taken: the results of gathers and their like, whose index is an array.
      terms: {variable: how many terms its totals have}, of those that have any.
      costs: {variable: what an element of it costs}.
      mixing: {equation: the axes that it mixes}.
      renamed: the variables whose elements are others' elements: they cost nothing.
    """

    def __init__(self, jaxpr, consts):
        self.axes, self.lands = Sets(), Sets()
        self.mixed, self.moved, self.vars, self.links = set(), set(), {}, []
        self.known, self.taken = dict(zip(jaxpr.constvars, consts, strict=True)), set()
        self.names, self.terms, self.large, self.costs = {}, {}, {}, {}
        self.mixing, self.renamed, self.permuted = defaultdict(list), set(), set()
        self.read(jaxpr)
        mixed = {self.axes.of(axis) for axis in self.mixed}
        self.moved = {self.axes.of(axis) for axis in self.moved}
        self.permuted = {self.axes.of(axis) for axis in self.permuted}
        self.small, limits = {}, config.fusion
        for var in self.vars:
            own = tuple(
                d
                for d, n in enumerate(var.aval.shape)
                if n > 1 and self.axes.of(self.axis(var, d)) in mixed
            )
            size = math.prod(var.aval.shape[d] for d in own)
            lone = size == var.aval.size
            most = limits.lone_elements if lone else limits.block_elements
            # Alone, each element of a long total would have the whole loop.
            long = lone and self.terms.get(var, 1) > limits.short_total
            fits = size <= most and not long
            self.small[var] = own if fits else ()
            if not fits:
                self.large[var] = own
        for a, b in self.links:
            if self.small.get(a) and self.small.get(b):
                self.lands.join(a, b)

    def axis(self, var, d):
        """The name of an axis: the same object for the same axis."""
        return self.names.setdefault((var, d), (var, d))

    def land(self, var):
        return self.lands.of(var)

    def is_moved(self, var):
        """Whether elements of a variable's small axes change places."""
        mixed = self.small[var] or self.large.get(var, ())
        names = (self.axes.of(self.axis(var, d)) for d in mixed)
        return any(name in self.moved for name in names)

    def is_permuted(self, land):
        """Whether elements change places in a land."""
        own = (var for var, small in self.small.items() if small)
        small = (self.small_of(var) for var in own if self.land(var) is land)
        return not self.permuted.isdisjoint(set().union(*small))

    def small_of(self, var):
        """The sets of axes that the small axes of a variable belong to."""
        return {self.axes.of(self.axis(var, d)) for d in self.small[var]}

    def is_masked(self, eqn):
        """Whether integers are multiplied by known ones, so that the terms of zeros go.

        A total of such products is a permutation, too.
        """
        known = any(a in self.known and a.aval.shape for a in eqn.invars)
        integers = eqn.outvars[0].aval.dtype.kind in "iu"
        return eqn.primitive is mul_p and known and integers

    def operations(self, land):
        """What a lane takes if all that is mixed is written out.

        Returns:
          How many operations, in additions, where each term of a total counts as
          several; and, if there is one lane only, how long the rows are that they are
          on, on average.
        """
        found, rows, lanes = 0, [], False
        for var, small in self.small.items():
            if small and self.land(var) is land:
                own = [var.aval.shape[d] for d in small]
                lanes = lanes or math.prod(own) < var.aval.size
                if var not in self.renamed:
                    rows.append(max(own))
                    terms = self.terms.get(var, 1)
                    total = terms * config.fusion.block_term
                    cost = total if terms > 1 else max(self.costs.get(var, 1), 1)
                    found += math.prod(own) * cost
        return found, None if lanes else sum(rows) / max(len(rows), 1)

    def read(self, jaxpr):
        """Take in the equations of a jaxpr."""
        for eqn in jaxpr.eqns:
            self.vars |= dict.fromkeys(a for a in eqn.invars if isinstance(a, Var))
            self.vars |= dict.fromkeys(eqn.outvars)
            if eqn.primitive is scan_p:
                self.scan(eqn)
            elif eqn.primitive is jit_p:
                inner = eqn.params["jaxpr"]
                self.inner(inner)
                self.same(eqn.invars, inner.jaxpr.invars)
                self.same(eqn.outvars, inner.jaxpr.outvars)
            elif (row := row_of(eqn)).by_element:
                self.compute(eqn)
                self.element(eqn, row)

    def compute(self, eqn):
        """The value of an equation of constants, if it has few elements."""
        out, = eqn.outvars
        fixed = all(isinstance(a, Literal) or a in self.known for a in eqn.invars)
        if not fixed or eqn.primitive not in eval_rules:
            return
        if is_table(out.aval, eqn):
            values = [
                a.val if isinstance(a, Literal) else to_numpy(self.known[a], a.aval)
                for a in eqn.invars
            ]
            self.known[out] = compute(eqn.primitive, values, eqn.params)

    def inner(self, closed):
        """Take in a jaxpr within an equation."""
        jaxpr = closed.jaxpr
        self.known |= zip(jaxpr.constvars, closed.consts, strict=True)
        self.vars |= dict.fromkeys((*jaxpr.constvars, *jaxpr.invars))
        self.read(jaxpr)

    def scan(self, eqn):
        """A loop: what is in a step has the axes of what is outside."""
        p, closed = eqn.params, eqn.params["jaxpr"]
        body, given = closed.jaxpr, eqn.invars[p["length"] is None :]
        consts, carry = p["num_consts"], p["num_carry"]
        for inside, outside in zip(body.invars[:consts], given, strict=False):
            if isinstance(outside, Literal):
                self.known[inside] = outside.val
            elif outside in self.known:
                self.known[inside] = self.known[outside]
        self.inner(closed)
        kept = consts + carry
        self.same(given[:kept], body.invars[:kept])
        self.same(given[consts:kept], eqn.outvars[:carry])
        self.same(body.outvars[:carry], eqn.outvars[:carry])
        self.same(given[kept:], body.invars[kept:], 1)
        self.same(eqn.outvars[carry:], body.outvars[carry:], 1)

    def same(self, outside, inside, first=0):
        """Variables are the same, but that those outside have an axis more."""
        for a, b in zip(outside, inside, strict=True):
            if isinstance(a, Var) and isinstance(b, Var):
                self.links.append((a, b))
                for d in range(b.aval.ndim):
                    self.axes.join(self.axis(a, d + first), self.axis(b, d))

    def element(self, eqn, row):
        """What an element of an equation's result is made of."""
        out, = eqn.outvars
        self.costs[out] = row.cost
        if not (row.cost or row.total):
            self.renamed.add(out)
        if self.is_masked(eqn):
            self.permuted.update(self.axis(out, d) for d in range(out.aval.ndim))
        shapes = {a.aval.shape for a in eqn.invars}
        if eqn.primitive in elementwise and shapes <= {(), out.aval.shape}:
            given = [a for a in eqn.invars if a.aval.shape]
            return self.same(given, [out] * len(given))
        index = tuple(Axis(n) if n > 1 else as_index(0) for n in out.aval.shape)
        own = {i: d for d, i in enumerate(index) if type(i) is Axis}
        moves, most = eqn.primitive is not reshape_p, config.fusion.short_total
        for expr in postorder([row.at(eqn, index)]):
            if type(expr) is Reduce:
                self.terms[out] = max(terms_of(expr), self.terms.get(out, 1))
            if type(expr) is not At:
                continue
            self.links.append((expr.var, out))
            shape = expr.var.aval.shape
            for d, (i, n) in enumerate(zip(expr.index, shape, strict=True)):
                if i in own and i.extent == n:
                    self.axes.join(self.axis(expr.var, d), self.axis(out, own[i]))
                elif n > 1:
                    ways = [self.axis(out, own[a]) for a in i.free if a in own]
                    ways.append(self.axis(expr.var, d))
                    self.mixed.update(ways)
                    self.mixing[eqn] += ways
                    terms = i.free.difference(own)
                    short = all(a.extent <= most for a in terms)
                    if moves and short and (n <= most or type(i) is not Axis):
                        self.moved.update(ways)
                    if moves and not terms:
                        self.permuted.update(ways)
                    inside = [e.var for e in postorder([i]) if type(e) is At]
                    if inside and self.known.keys() >= set(inside):
                        self.taken.add(out)

