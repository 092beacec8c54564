"""Lowering: from equations between whole arrays to loops over their elements.

    program = lower(make_jaxpr(lambda x: sin(x.T) * 2.0)(x))
    print(program)
    # program main(in0: f32[4,3]):
    #   output out0: f32[3,4]
    #   k0:
    #     for i0 in 3:
    #       for i1 in 4:
    #         out0[i0, i1] = sin(in0[i1, i0]) * 2.0

The question that each primitive answers here is: what is the element of your result at
this index?  `lower_rules[transpose_p]` says: the element of the operand at the permuted
index.  So a transpose moves nothing; it changes a question that a later equation asks.

`Lowering` asks the questions from the last equation to the first.  When it comes to an
equation it knows every index at which anybody wants its result, and a *policy* decides:
inline (the expression is computed wherever it is asked for), or materialise (a loop
nest of its own stores all of it in a buffer, and whoever asks loads).
"""

import heapq
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from ..trace.core import find_rule
from ..trace.jaxpr import Literal, Var, has_effect
from .expressions import (
    Axis,
    Const,
    Expr,
    Load,
    as_index,
    free_axes,
    postorder,
    substitute,
)
from .groups import Group
from .inlining import LARGEST_GROUP, MOST_BUFFERS, Cut, Value, policies
from .interface import constant_array, with_own_results
from .loops import For, Kernel, Program, Store, after_pass, expressions
from .memory import Buffer
from .scalars import dtype_bounds

lower_rules = {}
# Primitives that run uncompiled, and why.
fallbacks = {}
# Functions of an equation: a row for it, or None. A later module looks at dtypes here.
row_choosers = []


def new_axis(extent, kind="loop"):
    """An axis; what has one element only needs none, and is always at 0."""
    return as_index(0) if extent == 1 else Axis(extent, kind)


class At(Expr):
    """A question: the element of a variable at an index.

    The rules answer in terms of these; the lowering puts the operand's own expression
    in their place, or a load.  They are interned, so a question is asked only once.
    """

    __slots__ = fields = ("var", "index")
    name = "at"

    def derive(self):
        self.dtype = self.var.aval.dtype
        self.free = free_axes(self.index)
        self.bounds = dtype_bounds(self.dtype)

    def children(self):
        return self.index

    def rebuild(self, children):
        return At(self.var, tuple(children))


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

    def lower(self, walk, eqn):
        walk.value(eqn, self)


@dataclass(frozen=True)
class Statements:
    """A row: `function(walk, eqn)` adds loop nests or calls of its own."""

    function: object
    cost: int = 0
    total: bool = True

    def lower(self, walk, eqn):
        self.function(walk, eqn)


def row_of(eqn):
    """The row that lowers an equation: by its primitive, if nothing else decides."""
    for choose in row_choosers:
        row = choose(eqn)
        if row is not None:
            return row
    return find_rule(lower_rules, eqn.primitive, "lower")


class Lowering:
    """One walk over a jaxpr, from its last equation to its first.

    Attributes:
      stored: the variables that get a buffer, each with its (rule, reason) or None.
      readers: for each variable the groups that need it, each with the indices.
      answers: for each question about an inlined variable its expression.
      groups: the kernels and calls to be; after: for each of them a bit mask of those
        that must run after it.
    """

    def __init__(self, jaxpr, policy, programs):
        self.jaxpr = jaxpr
        self.policy_name = policy
        self.policy = policies[policy]
        self.programs = programs
        self.results = set(jaxpr.outvars)
        self.stored = {}
        self.readers = defaultdict(dict)
        self.answers = {}
        self.groups = []
        self.after = []
        self.rooms = defaultdict(lambda: deque(maxlen=8))
        self.fallbacks = {}
        self.called = []
        self.edges = set()
        self.made_by = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self.costs, self.reads = defaultdict(float), {}
        self.estimate()

    def estimate(self):
        """Note what an element costs and reads if all before it is inlined.

        A total that several ask for is not.
        """
        uses = Counter(a for eqn in self.jaxpr.eqns for a in eqn.invars)
        for eqn in self.jaxpr.eqns:
            row = row_of(eqn)
            parts = sum(self.costs[v] for v in set(eqn.invars) if isinstance(v, Var))
            cost = 0.0 if row.total else min(row.cost + parts, 1e9)
            self.costs.update(dict.fromkeys(eqn.outvars, cost))
            reads = self.read_by(eqn)
            for var in eqn.outvars:
                inlined = not row.total or (uses[var] == 1 and type(row) is Elements)
                self.reads[var] = reads if inlined else frozenset([var])

    def read_by(self, eqn):
        """The variables that an equation loads if all before it is inlined.

        Where these are too many, its own operands.
        """
        operands = frozenset(v for v in eqn.invars if isinstance(v, Var))
        found = frozenset().union(*(self.reads.get(v, {v}) for v in operands))
        return found if len(found) <= MOST_BUFFERS else operands

    def run(self):
        """Lower every equation that something needs."""
        for eqn in reversed(self.jaxpr.eqns):
            if any(self.is_needed(v) for v in eqn.outvars) or has_effect(eqn):
                row_of(eqn).lower(self, eqn)

    def is_needed(self, var):
        return var in self.results or var in self.stored or var in self.readers

    def group(self, axes=(), nest=None):
        """A new group, that is a new kernel or call."""
        nest = axes if nest is None else nest
        nest = tuple(axis for axis in nest if isinstance(axis, Axis))
        group = Group(len(self.groups), axes, nest)
        self.groups.append(group)
        self.after.append(0)
        return group

    def precede(self, first, second):
        """Note that group `first` has to run before group `second`."""
        reached = self.after[second.number] | 1 << second.number
        second.fed = True
        self.edges.add((first.number, second.number))
        if reached & ~self.after[first.number] == 0:
            return
        self.after[first.number] |= reached
        if first.fed:
            for number, mask in enumerate(self.after):
                if mask >> first.number & 1:
                    self.after[number] |= reached

    def fill(self, group, eqn, readers, reads):
        """Ask for what a group's statements need, and let it run before its readers."""
        group.eqns[eqn] = None
        group.reads = reads
        self.ask(expressions(group.stores), group)
        for reader in readers:
            self.precede(group, reader)

    def ask(self, exprs, group):
        """Note the questions in expressions of a group."""
        for expr in postorder(exprs, group.seen):
            group.seen.add(expr)
            if type(expr) is At:
                self.readers[expr.var].setdefault(group, {})[expr.index] = None

    def element(self, eqn, row, index, groups):
        """The expression of an equation's result at an index, wanted by `groups`."""
        operands = map(Operand, eqn.invars)
        expr = row.rule(eqn.outvars[0].aval, index, *operands, **eqn.params)
        for group in groups:
            self.ask([expr], group)
            group.eqns[eqn] = None
            group.size += 1
        return expr

    def value(self, eqn, row):
        """Inline or store the one result of an equation, as the policy decides."""
        var, = eqn.outvars
        readers = self.readers[var]
        asked = tuple((g, index) for g, indices in readers.items() for index in indices)
        if var not in self.results and var not in self.stored:
            cost = self.costs[var]
            reads = self.read_by(eqn)
            value = Value(eqn, var.aval, cost or row.cost, row.total, asked, reads)
            cut = self.policy(value)
            if cut is None:
                for group in readers:
                    group.reads = group.reads - {var} | reads
                wanted = defaultdict(list)
                for group, index in asked:
                    wanted[index].append(group)
                for index, groups in wanted.items():
                    expr = self.element(eqn, row, index, groups)
                    self.answers[At(var, index)] = expr
                return
            self.stored[var] = cut
        self.stored.setdefault(var, None)
        self.store(eqn, row, var, readers)

    def store(self, eqn, row, var, readers):
        """Store all elements of an equation's result in a kernel, new or shared."""
        if var.aval.size == 0:
            return
        group = self.room_for(var, row, readers, self.read_by(eqn))
        expr = self.element(eqn, row, group.axes, [group])
        group.stores.append(Store(var, group.axes, expr))
        group.values[At(var, group.axes)] = expr
        for reader in list(readers):
            if reader is not group:
                self.precede(group, reader)

    def room_for(self, var, row, readers, reads):
        """The group to store a variable in: one of the same shape, or a new one.

        It may join a group that reads it, or an array that it reads, too: together they
        read that once.  A few numbers, which many kernels may read, are no reason.
        """
        shape, size = var.aval.shape, var.aval.size
        large = [v for v in reads if v.aval.size >= size]
        alike = [group for v in large for group in reversed(self.rooms[shape, v])]
        for group in dict.fromkeys([*readers, *alike]):
            if self.has_room(group, var, row, readers, reads):
                break
        else:
            group = self.group(tuple(map(new_axis, shape)))
            group.shape = shape
        group.has_total |= row.total
        group.reads |= reads
        for v in large:
            if group not in self.rooms[shape, v]:
                self.rooms[shape, v].append(group)
        return group

    def has_room(self, group, var, row, readers, reads):
        """Whether a variable can be stored in a group.

        The group may read it only at the index it is stored at, and no path may lead
        from the group through a third one back to it.
        """
        shape = var.aval.shape
        return (
            group.shape == shape
            and set(readers.get(group, ())) <= {group.axes}
            and bool(shape or not (row.total and group.has_total))
            and group.size <= LARGEST_GROUP
            and len(group.reads | reads) + len(group.stores) < MOST_BUFFERS
            and not any(self.after[r.number] >> group.number & 1 for r in readers)
        )


class Finish:
    """From the walk's groups to a `Program`: buffers, an order, no more questions."""

    def __init__(self, walk, name, consts):
        self.walk = walk
        self.name = name
        jaxpr = walk.jaxpr
        self.order = {eqn: i for i, eqn in enumerate(walk.made_by.values())}
        self.buffers = {}
        self.constants = []
        self.kernels = 0
        self.add_buffers("in", jaxpr.invars)
        for var, value in zip(jaxpr.constvars, consts, strict=True):
            self.constant(var, value)
        self.add_buffers("out", jaxpr.outvars)
        stored = [v for v in walk.made_by if v in walk.stored]
        self.temps = self.add_buffers("t", stored)

    def add_buffers(self, prefix, variables):
        """A buffer for each variable that has none: -> the new ones."""
        added = []
        for var in variables:
            if var not in self.buffers:
                name, aval = f"{prefix}{len(added)}", var.aval
                self.buffers[var] = Buffer(name, aval.shape, aval.dtype)
                added.append(self.buffers[var])
        return tuple(added)

    def constant(self, atom, value):
        """The buffer of a constant: a constvar's value, or a literal's."""
        if atom not in self.buffers:
            name, aval = f"c{len(self.constants)}", atom.aval
            buffer = Buffer(name, aval.shape, aval.dtype)
            self.buffers[atom] = buffer
            self.constants.append((buffer, constant_array(value, aval)))
        return self.buffers[atom]

    def program(self):
        """The program, with its statements in order."""
        jaxpr = self.walk.jaxpr
        body = [self.statement(group) for group in self.in_order()]
        return Program(
            name=self.name,
            inputs=tuple(self.buffers[v] for v in jaxpr.invars),
            outputs=tuple(self.buffers[v] for v in jaxpr.outvars),
            constants=tuple(self.constants),
            temps=self.temps,
            body=tuple(body),
            cuts=self.cuts(),
            fallbacks=self.all_fallbacks(),
        )

    def in_order(self):
        """The groups, each after those it needs, otherwise as in the jaxpr."""
        groups = self.walk.groups
        waits, direct = [0] * len(groups), [[] for _ in groups]
        for first, second in self.walk.edges:
            direct[first].append(second)
            waits[second] += 1
        # The group made last holds what comes first.
        ready = [-i for i, n in enumerate(waits) if n == 0]
        heapq.heapify(ready)
        ordered = []
        while ready:
            number = -heapq.heappop(ready)
            ordered.append(groups[number])
            for later in direct[number]:
                waits[later] -= 1
                if waits[later] == 0:
                    heapq.heappush(ready, -later)
        assert len(ordered) == len(groups), "kernels wait for each other in a ring"
        return ordered

    def statement(self, group):
        """A group as a `Kernel` or `Call`."""
        eqns = tuple(sorted(group.eqns, key=self.order.get))
        if group.make:
            return group.make(self, eqns)
        answers = {}
        body = tuple(
            s.rewrite(lambda e: self.answer(e, group, answers), self.buffers.get)
            for s in reversed(group.stores)
        )
        for axis in reversed(group.nest):
            body = (For(axis, body),)
        self.kernels += 1
        return Kernel(f"k{self.kernels - 1}", body, eqns)

    def answer(self, exprs, group, answers):
        """Expressions of a group with the questions in them answered."""

        def replacement(expr):
            if type(expr) is not At:
                return None
            if expr in group.values:
                return group.values[expr]
            if expr.var in self.buffers:
                return Load(self.buffers[expr.var], expr.index)
            return self.walk.answers[expr]

        return substitute(exprs, replacement, answers)

    def cuts(self):
        """A `Cut` for each variable that the policy, or a call, put into memory."""
        walk = self.walk
        return tuple(
            Cut(walk.made_by[v], *why, v.aval.nbytes * (1 + len(walk.readers[v])))
            for v, why in reversed(walk.stored.items())
            if why is not None and v in walk.made_by
        )

    def all_fallbacks(self):
        """What runs uncompiled here, and in the programs called from here."""
        found = dict(self.walk.fallbacks)
        for program in self.walk.called:
            found |= dict(program.fallbacks)
        return tuple(sorted(found.items()))


def lower(closed, name="main", policy="first", programs=None):
    """Lower a program to loops.

    Args:
      closed: a `ClosedJaxpr`, simplified or not.
      name: the program's.
      policy: a name in `policies`.
      programs: {jaxpr: Program} of what was lowered already, to be used and extended:
        the programs of inner jitted functions, one for each jaxpr.

    Returns:
      A `Program`.
    """
    programs = {} if programs is None else programs
    walk = Lowering(with_own_results(closed.jaxpr), policy, programs)
    walk.run()
    program = Finish(walk, name, closed.consts).program()
    for function in after_pass:
        function(program)
    return program
