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
import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

from ..trace import primitives as prim
from ..trace.array import ShapedArray, to_numpy
from ..trace.core import find_rule
from ..trace.jaxpr import Eqn, Literal, Var, has_effect
from .loops import (
    BOOL,
    Axis,
    Buffer,
    Const,
    Cut,
    Expr,
    For,
    Kernel,
    Load,
    Program,
    Reduce,
    Store,
    after_pass,
    as_index,
    dtype_bounds,
    expressions,
    free_axes,
    identities,
    op,
    postorder,
    rewrite,
    substitute,
)

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


@dataclass(eq=False)
class Group:
    """What will become one kernel, or one call, while the walk goes on.

    Attributes:
      number: groups made later run earlier, if nothing else decides.
      axes, nest: the index at which it stores, and the same from the outermost loop on.
      stores: statements, on variables where buffers will be.
      values: the stored variables at `axes`, known there without a load.
      make: if it is no loop nest, `make(finish, eqns)` is its statement.
      shape: of the stored variables, if more of them may join.
      reads: the variables that it loads, as far as one can tell.
    """

    number: int
    axes: tuple = ()
    nest: tuple = ()
    stores: list = field(default_factory=list)
    values: dict = field(default_factory=dict)
    make: object = None
    eqns: dict = field(default_factory=dict)
    seen: set = field(default_factory=set)
    shape: tuple | None = None
    reads: frozenset = frozenset()
    size: int = 0
    has_total: bool = False
    fed: bool = False


@dataclass(frozen=True)
class Value:
    """A variable about which a policy decides: all that is asked of it.

    Attributes:
      eqn, aval: what computes it, and its type.
      cost, total: as in `Elements`, but with all inlined producers.
      asked: pairs (group, index), one for each index at which it is wanted.
      reads: the variables that would be loaded in its place.
    """

    eqn: Eqn
    aval: ShapedArray
    cost: float
    total: bool
    asked: tuple
    reads: frozenset


def times_computed(group, index):
    """How often an expression at `index`, placed well, is computed in a group."""
    axes = free_axes(index)
    depth = max((i + 1 for i, a in enumerate(group.nest) if a in axes), default=0)
    inner = [axis for axis in axes if axis not in group.nest]
    outer = group.nest if inner else group.nest[:depth]
    return math.prod(axis.extent for axis in (*outer, *inner))


CHEAP, LARGEST_GROUP, MOST_COPIES = 8, 512, 64
# Arrays that a kernel of several stores takes: each costs compile time and a register.
MOST_BUFFERS = 16


def first_policy(value):
    """Inline what is cheap or asked for once; totals get kernels of their own.

    Returns:
      None to inline, or (rule, reason) to materialise.
    """
    groups = dict(value.asked)
    if any(group.size > LARGEST_GROUP for group in groups):
        return "large kernel", f"its kernel has {LARGEST_GROUP} operations already"
    if value.total:
        alone = len(value.asked) == 1 and value.asked[0][1] == value.asked[0][0].axes
        return None if alone else ("total", "every element of it takes a loop")
    copies = len(value.asked)
    if value.cost == 0:
        return None
    if copies > MOST_COPIES:
        return "many indices", f"it is asked for at {copies} different indices"
    if any(crowded(group, value) for group in groups):
        return "many arrays", f"its kernel takes {MOST_BUFFERS} arrays already"
    if value.cost < CHEAP and copies * value.cost <= 4 * CHEAP:
        return None
    times = sum(times_computed(*asked) for asked in value.asked)
    extra = value.cost * (times - value.aval.size)
    if extra <= CHEAP * value.aval.size:
        return None
    return "recompute", f"inlined it would be computed {times} times"


def crowded(group, value):
    """Whether a kernel takes too many arrays already to inline a value that adds some.

    One array more is no worse than the value itself, in an array of its own.
    """
    more = value.reads - group.reads
    return len(more) > 1 and len(group.reads) + len(more) > MOST_BUFFERS


policies = {"first": first_policy}


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
            rewrite(s, lambda e: self.answer(e, group, answers), self.buffers.get)
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


def with_own_results(jaxpr):
    """The jaxpr with a copy of each result that is an argument, constant or literal.

    Arrays are written to two places at once, but what is no array is made in one.
    """
    given = {*jaxpr.invars, *jaxpr.constvars}
    outvars, copies = [], []
    for atom in jaxpr.outvars:
        if isinstance(atom, Literal) or atom in given:
            copy = Var(atom.aval)
            copies.append(Eqn(prim.copy_p, (atom,), (copy,), {}))
            atom = copy
        elif not isinstance(atom.aval, ShapedArray):
            given.add(atom)
        outvars.append(atom)
    if not copies:
        return jaxpr
    return jaxpr.replace(eqns=(*jaxpr.eqns, *copies), outvars=tuple(outvars))


def constant_array(value, aval):
    """A constant as kernels take it: in row-major order, or an array of one object."""
    if isinstance(aval, ShapedArray):
        return np.asarray(to_numpy(value, aval), order="C")
    box = np.empty((), object)
    box[()] = value
    return box


# The rows of the primitives of chapter 2.


FLOAT32 = np.dtype("float32")


def is_half(dtype):
    """Whether a dtype is a 16-bit float."""
    return dtype.itemsize == 2 and dtype.kind not in "iub"


def wide_dtype(dtype):
    """The dtype to compute in: float32 for 16-bit floats, otherwise the dtype."""
    return FLOAT32 if is_half(dtype) else dtype


def widen(expr):
    """A 16-bit float in 32 bits."""
    return op("convert", expr, dtype=wide_dtype(expr.dtype))


def compute(name, *args, dtype):
    """`op(name, *args)` of a dtype; 16-bit floats in 32 bits, rounded afterwards."""
    wide = map(widen, args)
    result = op(bool_name(name, dtype), *wide, dtype=wide_dtype(dtype))
    return op("convert", result, dtype=dtype)


def bool_name(name, dtype):
    """The operation's name; of bools, the maximum is `or` and the minimum `and`."""
    return {"max": "or", "min": "and"}.get(name, name) if dtype == BOOL else name


def elementwise(name, cost=1):
    """The row of a primitive that is one scalar operation of its operands' elements."""

    def rule(out, index, *xs):
        return compute(name, *(x.spread(index) for x in xs), dtype=out.dtype)

    return Elements(rule, cost)


def convert(out, index, x, *, new_dtype, weak_type):
    return op("convert", x[index], dtype=new_dtype)


lower_rules |= {
    p: elementwise(p.name)
    for p in (
        prim.neg_p, prim.sign_p, prim.abs_p, prim.add_p, prim.sub_p, prim.mul_p,
        prim.max_p, prim.min_p, prim.eq_p, prim.ne_p, prim.lt_p, prim.le_p,
        prim.gt_p, prim.ge_p, prim.and_p, prim.or_p, prim.xor_p, prim.not_p,
    )
}
lower_rules |= {p: elementwise(p.name, 4) for p in (prim.div_p, prim.sqrt_p)}
lower_rules |= {
    p: elementwise(p.name, 20)
    for p in (prim.exp_p, prim.log_p, prim.sin_p, prim.cos_p, prim.tanh_p)
}
lower_rules |= {
    prim.convert_element_type_p: Elements(convert),
    prim.copy_p: Elements(lambda out, index, x: x[index], 0),
}


def iota(out, index, *, dtype, shape, dimension):
    return op("convert", index[dimension], dtype=dtype)


def broadcast_in_dim(out, index, x, *, shape, broadcast_dimensions):
    return x.spread(tuple(index[d] for d in broadcast_dimensions))


def transpose(out, index, x, *, permutation):
    """out[i] is x[j] with j[permutation[d]] = i[d]."""
    where = dict(zip(permutation, index, strict=True))
    return x[tuple(where[d] for d in range(len(index)))]


def squeeze(out, index, x, *, dimensions):
    rest = iter(index)
    return x[tuple(0 if d in dimensions else next(rest) for d in range(len(x.shape)))]


def slice_(out, index, x, *, start_indices, limit_indices, strides):
    strides = strides or (1,) * len(index)
    return x[tuple(
        affine(i, stride, start)
        for i, start, stride in zip(index, start_indices, strides, strict=True)
    )]


def affine(i, scale, offset):
    """i * scale + offset, as an index expression."""
    return op("add", op("mul", as_index(i), as_index(scale)), as_index(offset))


def reshape(out, index, x, *, new_sizes, dimensions):
    shape = x.shape if dimensions is None else [x.shape[d] for d in dimensions]
    where = reshaped_index(index, new_sizes, shape)
    if dimensions is None:
        return x[where]
    return x[tuple(where[dimensions.index(d)] for d in range(len(where)))]


def reshaped_index(index, shape, old_shape):
    """The index into `old_shape` of the element at `index` of `shape`.

    Axes are matched from the last one on, as few as have the same product on both
    sides: (2, 3, 4) -> (6, 4) keeps the 4, and divides the 6 by 3.
    """
    where = []
    for new, old in matched_axes(shape, old_shape):
        flat = as_index(0)
        for d in new:
            flat = op("add", op("mul", flat, as_index(shape[d])), index[d])
        for i, d in enumerate(old):
            rest = math.prod(old_shape[e] for e in old[i + 1 :])
            part = op("floordiv", flat, as_index(rest))
            outermost = i == 0
            where.append(part if outermost else op("mod", part, as_index(old_shape[d])))
    return tuple(where)


def matched_axes(shape, old_shape):
    """The axes of two shapes of one size in groups of equal products, as in reshape.

    Returns:
      A list of pairs (axes of `shape`, axes of `old_shape`), from the first axes on.
    """
    groups, new, old = [], len(shape), len(old_shape)
    while new or old:
        new_end, old_end = new, old
        new, old = max(new - 1, 0), max(old - 1, 0)
        while True:
            size = math.prod(shape[new:new_end])
            old_size = math.prod(old_shape[old:old_end])
            if size == old_size:
                break
            new, old = (new - 1, old) if size < old_size else (new, old - 1)
        groups.append((range(new, new_end), range(old, old_end)))
    return groups[::-1]


def layout(rule):
    """The row of a primitive that only renames indices."""
    return Elements(rule, 0)


lower_rules |= {
    prim.iota_p: layout(iota),
    prim.broadcast_in_dim_p: layout(broadcast_in_dim),
    prim.transpose_p: layout(transpose),
    prim.squeeze_p: layout(squeeze),
    prim.slice_p: layout(slice_),
    prim.reshape_p: layout(reshape),
}


def reduction(name):
    """The row of a reduction of its operand over `axes`."""

    def rule(out, index, x, *, axes):
        where, over = reduced_index(index, x.shape, axes)
        if any(x.shape[d] == 0 for d in axes):
            return Const(identities[name](out.dtype)[0], out.dtype)
        total = total_over(bool_name(name, out.dtype), over, widen(x[where]))
        return op("convert", total, dtype=out.dtype)

    return Elements(rule, total=True)


def reduced_index(index, shape, axes):
    """The index of an operand that is reduced over `axes`: -> (index, new axes)."""
    rest = iter(index)
    over = {d: new_axis(shape[d], "reduce") for d in sorted(axes)}
    where = tuple(over[d] if d in over else next(rest) for d in range(len(shape)))
    return where, tuple(over.values())


def total_over(name, over, body):
    """A Reduce over those of the indices `over` that are axes; the body without any."""
    axes = tuple(i for i in over if isinstance(i, Axis))
    return Reduce(name, axes, (body,)) if axes else body


lower_rules |= {
    prim.reduce_sum_p: reduction("add"),
    prim.reduce_prod_p: reduction("mul"),
    prim.reduce_max_p: reduction("max"),
    prim.reduce_min_p: reduction("min"),
    prim.reduce_and_p: reduction("and"),
    prim.reduce_or_p: reduction("or"),
    prim.reduce_xor_p: reduction("xor"),
}
