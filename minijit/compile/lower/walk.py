"""Lowering: from equations between whole arrays to loops over their elements.

    print(lower(make_jaxpr(lambda x: sin(x.T) * 2.0)(x)))
    # program main(in0: f32[4,3]):
    #   output out0: f32[3,4]
    #   k0:
    #     for i0 in 3:
    #       for i1 in 4:
    #         out0[i0, i1] = sin(in0[i1, i0]) * 2.0

Each primitive answers a question: what is the element of your result at this index?
A walk asks, from the last equation to the first.  When it comes to an equation it knows
every index at which its result is wanted, and a *policy* decides: inline (the answer is
computed wherever it is asked for), or store (a loop nest computes all of it).
"""

from collections import defaultdict
from dataclasses import dataclass

from ...trace.core import find_rule
from ...trace.jaxprs.jaxpr import Literal, fallbacks as fallbacks, has_effect
from ..decisions import noting
from ..loops.expression_text import question_text
from ..loops.expressions import Axis, Const, Expr, Load, as_index
from ..loops.graphs import postorder
from ..loops.statements import Store
from ..pipeline import row_choosers
from .assembly import assemble, expanded, walked
from .groups import Groups
from .inlining import Estimates, first_policy

# {primitive: its row}, an `Elements` or `Statements`.
lower_rules = {}


@dataclass(frozen=True)
class Statements:
    """A row: `lower(walk, eqn)` adds loop nests or calls of its own."""

    lower: object
    cost: int = 0
    total: bool = True
    by_element = False


def row_of(eqn):
    """The row that lowers an equation: by its primitive, if nothing else decides."""
    chosen = (row for choose in row_choosers.passes if (row := choose(eqn)))
    return next(chosen, None) or find_rule(lower_rules, eqn.primitive, "lower")


def new_axis(extent, kind="loop"):
    """An axis; what has one element only needs none, and is always at 0."""
    return as_index(0) if extent == 1 else Axis(extent, kind)


class At(Expr):
    """A question: the element of a variable at an index.

    Rules answer in terms of these; the lowering puts the element's own expression in
    their place, or a load.  They are interned, so a question is asked only once.
    """

    __slots__ = fields = ("var", "index")
    text = question_text

    def derive(self):
        self.dtype = self.var.aval.dtype
        super().derive()

    def children(self):
        return self.index

    def rebuild(self, children):
        return At(self.var, tuple(children))


# chapter 15
class Operand:
    """An equation's operand as its rule sees it: `x[i, j]` is an expression."""

    def __init__(self, atom):
        self.atom = atom
        self.shape = atom.aval.shape
        self.dtype = atom.aval.dtype

    def __getitem__(self, where):
        where = where if isinstance(where, tuple) else (where,)
        if len(where) != len(self.shape):
            raise IndexError(f"{len(where)} indices for shape {self.shape}")
        if isinstance(self.atom, Literal):
            return Const(self.atom.val, self.dtype)
        return At(self.atom, tuple(map(as_index, where)))

    def spread(self, where):
        """The element that broadcasting puts at `where`: axes of size 1 stand still."""
        if not self.shape:
            return self[()]
        pairs = zip(self.shape, where, strict=True)
        return self[tuple(0 if n == 1 else i for n, i in pairs)]


@dataclass(frozen=True)
class Elements:
    """A row: a rule for the element of the result at an index.

    Attributes:
      rule: `rule(out, index, *operands, **params) -> Expr`, with `out` the result's
        aval and the operands as `Operand`s.
      cost: of one element, in additions; 0 for what only renames indices.
      total: whether each element takes a loop.
    """

    rule: object
    cost: int = 1
    total: bool = False
    by_element = True

    def lower(self, walk, eqn):
        walk.value(eqn, self)

    def at(self, eqn, index):
        """The element of an equation's result at an index."""
        out, = eqn.outvars
        return self.rule(out.aval, index, *map(Operand, eqn.invars), **eqn.params)


class Lowering:
    """One walk over a jaxpr, from its last equation to its first.

    Attributes:
      stored: the variables that get a buffer, each with its (rule, reason) or None.
      readers: for each variable the groups that ask for it, each with the indices.
      answers: for each question about an inlined variable its expression.
      groups: the kernels and calls to be.
      within: {variable: another one, in whose memory it lies}.
    """

    def __init__(self, jaxpr, programs):
        self.jaxpr, self.programs = jaxpr, {} if programs is None else programs
        self.results, self.stored = set(jaxpr.outvars), {}
        self.readers, self.answers, self.within = defaultdict(dict), {}, {}
        self.groups, self.estimates = Groups(), Estimates(jaxpr, row_of)
        self.made_by = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.fallbacks = {}

    def run(self):
        """Lower every equation that something needs."""
        for eqn in reversed(self.jaxpr.eqns):
            if any(self.is_needed(v) for v in eqn.outvars) or has_effect(eqn):
                row_of(eqn).lower(self, eqn)

    def is_needed(self, var):
        return var in self.results or var in self.stored or var in self.readers

    def ask(self, exprs, group):
        """Note the questions in expressions of a group."""
        for expr in postorder(exprs, group.seen):
            group.seen.add(expr)
            if type(expr) is At:
                self.readers[expr.var].setdefault(group, {})[expr.index] = None

    def element(self, eqn, row, index, groups):
        """The expression of an equation's result at an index, wanted by `groups`."""
        expr = row.at(eqn, index)
        for group in groups:
            self.ask([expr], group)
            group.take(eqn, row)
        return expr

    def value(self, eqn, row):
        """Inline or store the one result of an equation, as the policy decides."""
        var, = eqn.outvars
        if var not in self.results and var not in self.stored:
            value = self.estimates.value(eqn, row, self.readers[var])
            cut = first_policy(value)
            if cut is None:
                return self.inline(var, row, value)
            self.stored[var] = cut
        self.store(eqn, row, var)

    def inline(self, var, row, value):
        """Answer each question about a variable by an expression."""
        wanted = defaultdict(list)
        for group, index in value.asked:
            wanted[index].append(group)
            group.reads = group.reads - {var} | value.reads
        for index, groups in wanted.items():
            self.answers[At(var, index)] = self.element(value.eqn, row, index, groups)

    def store(self, eqn, row, var):
        """Store all elements of an equation's result in a kernel, new or shared."""
        self.stored.setdefault(var, None)
        if var.aval.size:
            readers, reads = self.readers[var], self.estimates.read_by(eqn)
            group = self.groups.room_for(var, row, readers, reads, new_axis)
            expr = self.element(eqn, row, group.axes, [group])
            group.stores.append(Store(var, group.axes, expr))
            group.values[At(var, group.axes)] = expr
            self.groups.precede(group, readers)

    def answer(self, expr, group, buffers):
        """What takes the place of a question in a group; None for other expressions."""
        if type(expr) is not At:
            return None
        if expr in group.values:
            return group.values[expr]
        if expr.var in buffers:
            return Load(buffers[expr.var], expr.index)
        return self.answers[expr]


# chapter 15, brought along
def lower(closed, name="main", programs=None):
    """Lower a `ClosedJaxpr`, simplified or not, to a `Program` of loops.

    Args:
      programs: {jaxpr: Program} of inner jitted functions, to be used and extended.
    """
    with noting() as notes:
        walk = Lowering(expanded(closed.jaxpr), programs)
        return assemble(*walked(walk, closed.consts), name, notes)
