"""Blocks: programs that keep all elements of a small matrix in registers.

    for i0 in 1000:                         # f32[1000,4], sorted out step by step
      out0[i0, 0] = exp(in0[i0, 3]) + ...
      out0[i0, 1] = exp(in0[i0, 0]) + ...
      ...

In a loop over the elements of a matrix each step asks for other elements at an index
that only a run knows; so what several of them ask for has to be stored.  In a *block*
there is no such loop: each element is stored by a statement of its own, at an index
that is a constant.  Then every question comes at constants, and what an element of an
equation is worth is one expression, however often and wherever it is asked for.
Permutations cost nothing: they only say which expression is meant.

A `scan` whose steps do the same in each lane is a loop around such statements, with its
carry in numbers of the kernel's own:

    for i0 in 1000:
      cell0 = in0[i0, 0]                    # the carry: a number an element
      for i1 in serial 10: ...              # what becomes of each of them
      out0[i0, 0] = cell0
"""

import itertools
import math

import numpy as np

from ...trace.array import to_numpy
from ...trace.core import eval_rules
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Literal, has_effect
from ...trace.jit.jit import jit_p
from ...trace.primitives import iota_p
from ...transform.control_flow.while_and_scan import scan_p
from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.expressions import Axis, Const, Load, Reduce, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.reductions import written_out
from ..loops.statements import For, Store, expressions
from ..lower.assembly import with_own_results
from ..lower.walk import At, Lowering, Operand, new_axis, row_of
from ..pipeline import other_walks
from ..settings import config
from ..simplify.folding import simplify, stay_calls
from ..simplify.known_values import compute
from .rolling import rolled
from .small_axes import Axes, may_move

# Constants of more elements are not looked into.
TABLE = 4096
# As so many operations each term of a total counts: a loop adds so many at once.
TERM = 8
# Where there is one lane, loops do better for more elements, or longer rows of them.
LONE, LONE_ROW = 16, 6
# Functions of so many equations are inlined, to see what each lane does.
CALLED = 512
# So many operations take longer to compile than a kernel less saves in many calls.
WORTH_A_KERNEL = 400


class Unfit(Exception):
    """A program is no block; a rule may say why."""


class Table(Operand):
    """A constant as a rule sees it: elements at constants are numbers at once.

    An index that is such a number may make another operand's element a number, too.
    """

    def __init__(self, atom, value):
        super().__init__(atom)
        self.value = np.asarray(to_numpy(value, atom.aval))

    def __getitem__(self, where):
        asked = super().__getitem__(where)
        if not all(isinstance(i, Const) for i in asked.index):
            return asked
        return Const(self.value[tuple(i.value for i in asked.index)], self.dtype)


class Lane:
    """The elements of a program in a lane, or of a step of a loop, each made once.

    Attributes:
      block: what it is a part of; fold: the loop, of whose step it is.
      known: {variable: NumPy array} of what is made of constants.
      answers: {question: what an element is made of, from other elements}; whole: what
        it is made of, from what the lane is given.
    """

    def __init__(self, block, closed, fold=None, known=()):
        self.block, self.jaxpr, self.fold, self.operands = block, closed.jaxpr, fold, {}
        self.made = {v: eqn for eqn in self.jaxpr.eqns for v in eqn.outvars}
        # What a program is given, it loads.
        self.own = {*self.made, *((*fold.given, *self.jaxpr.constvars) if fold else ())}
        self.known = dict(zip(self.jaxpr.constvars, closed.consts, strict=True))
        self.known |= known
        self.answers, self.whole = {}, {}
        for eqn in self.jaxpr.eqns:
            fixed = all(isinstance(a, Literal) or a in self.known for a in eqn.invars)
            # A loop is none of a few operations: it stays one.
            one = not eqn.primitive.multiple_results
            if fixed and one and eqn.primitive in eval_rules:
                self.compute(eqn)

    def compute(self, eqn):
        """The value of an equation of constants, if it has few elements."""
        out, = eqn.outvars
        if out.aval.size <= TABLE:
            values = [
                a.val if isinstance(a, Literal) else to_numpy(self.known[a], a.aval)
                for a in eqn.invars
            ]
            self.known[out] = compute(eqn.primitive, values, eqn.params)

    def operand(self, atom):
        if atom not in self.operands:
            small = atom.aval.size <= TABLE and atom.aval.dtype.kind in "biuf"
            table = not isinstance(atom, Literal) and small and atom in self.known
            own = Table(atom, self.known[atom]) if table else Operand(atom)
            self.operands[atom] = own
        return self.operands[atom]

    def asks(self, expr):
        """Whether an expression is a question about a variable of the lane."""
        return type(expr) is At and expr.var in self.own

    def value(self, atom, index):
        """The element of a variable, or of a literal."""
        question = self.operand(atom)[index]
        todo = [question] if self.asks(question) else []
        while todo:
            if todo[-1] in self.whole:
                todo.pop()
                continue
            answer = self.answer(todo[-1])
            alone = type(answer) is At and not any(i.children() for i in answer.index)
            parts = [answer] if alone else postorder([answer], self.whole)
            if needed := [e for e in parts if self.asks(e) and e not in self.whole]:
                todo += needed
            else:
                # One memo for all: each part of an expression is looked at once.
                substitute([todo.pop()], self.answers.get, self.whole)
        return self.whole.get(question, question)

    def answer(self, question):
        """What an element is made of: elements of the operands."""
        if question not in self.answers:
            self.answers[question] = self.element(question.var, question.index)
        return self.answers[question]

    def element(self, var, index):
        if self.fold and var in self.fold.given:
            return self.fold.argument(self.fold.given[var], index)
        if var not in self.made or not self.block.knows(index):
            raise Unfit  # a table, or it would be computed at each index anew
        eqn = self.made[var]
        if eqn.primitive is scan_p:
            return self.block.fold(eqn).cell(eqn.outvars.index(var), index)
        row = row_of(eqn)
        self.block.take(var, index, row)
        expr = row.rule(var.aval, index, *map(self.operand, eqn.invars), **eqn.params)
        return substitute([expr], self.terms)[0] if row.total else expr

    def terms(self, expr):
        """What takes the place of a short total: its terms, one by one."""
        if type(expr) is not Reduce:
            return None
        terms = math.prod(axis.extent for axis in expr.axes) if expr.is_fixed else 0
        if len(expr.bodies) > 1 or not 0 < terms <= config.fusion.block_elements:
            raise Unfit
        self.block.spend(TERM * terms)
        return written_out(expr)[0]


class Fold:
    """A loop as a part of a block.

    Attributes:
      eqn: the loop; outside: the `Lane` that it is in; inside: that of a step.
      given: {argument of a step: its number}.
      cells: {(number of a carry, index): the buffers with its element in each lane, now
        and after the step}.
      step: the axis of the steps; now: which row a step is given.
    """

    def __init__(self, block, eqn, outside):
        p = eqn.params
        if not p["length"]:
            raise Unfit
        self.block, self.eqn, self.outside, self.cells = block, eqn, outside, {}
        self.consts, self.carry = p["num_consts"], p["num_carry"]
        self.step = self.now = Axis(p["length"], "serial")
        if p["reverse"]:
            self.now = op("sub", as_index(p["length"] - 1), self.step)
        block.lanes.add(self.now)
        self.given = {v: k for k, v in enumerate(p["jaxpr"].jaxpr.invars)}
        known = {}
        for v, atom in zip(self.given, eqn.invars[: self.consts], strict=False):
            if isinstance(atom, Literal) or atom in outside.known:
                literal = isinstance(atom, Literal)
                known[v] = atom.val if literal else outside.known[atom]
        self.inside = Lane(block, p["jaxpr"], self, known)

    def cell(self, k, index):
        """The element of a carry that a step begins with; a new cell, if need be."""
        if (k, index) not in self.cells:
            fits = len(self.cells) < config.fusion.block_elements
            if not (fits and self.block.knows(index) and k < self.carry):
                raise Unfit
            self.cells[k, index] = self.block.new_cells(self.eqn.outvars[k].aval.dtype)
        return Load(self.cells[k, index][0], ())

    def argument(self, k, index):
        """The element of an argument of the step: a constant, a carry, or a row."""
        if self.consts <= k < self.consts + self.carry:
            return self.cell(k - self.consts, index)
        index = index if k < self.consts else (self.now, *index)
        return self.outside.value(self.eqn.invars[k], index)

    def statements(self):
        """The loop, with what comes before it."""
        nexts, results = {}, self.inside.jaxpr.outvars
        # What becomes of a cell may ask for others.
        while missing := [key for key in self.cells if key not in nexts]:
            for k, index in missing:
                nexts[k, index] = self.inside.value(results[k], index)
        inits = self.eqn.invars[self.consts :]
        begin = [Store(now, (), self.outside.value(inits[k], index))
                 for (k, index), (now, _) in self.cells.items()]  # fmt: skip
        step = [Store(new, (), nexts[key]) for key, (_, new) in self.cells.items()]
        step += [Store(now, (), Load(new, ())) for now, new in self.cells.values()]
        return [*begin, For(self.step, tuple(step))]


class Block:
    """All that a program computes, lane by lane.

    Args:
      most: how many operations it has at most.

    Attributes:
      axes: of the lanes; mixing: the `Axes` of the program.
      lanes: the indices that an element may have, besides constants: those of the
        lanes, and of the steps of loops.
      folds: {loop: its `Fold`}; cells: how many numbers of its own it has.
      size: how many operations it has.
      rows: how long the rows are that are computed; moves: whether elements change
        places.

    Raises:
      Unfit: if loops over the elements are better, or needed.
    """

    def __init__(self, closed, most):
        jaxpr, self.mixing, self.most = closed.jaxpr, Axes(closed.jaxpr), most
        looped = any(eqn.primitive is scan_p for eqn in jaxpr.eqns)
        lanes = set(map(self.mixing.lanes, jaxpr.outvars))
        if len(lanes) != 1 or not all(v.aval.size for v in jaxpr.outvars):
            raise Unfit
        self.axes = tuple(map(new_axis, lanes.pop()))
        # A loop keeps its carry in registers, whatever its steps do with it.
        self.moves = bool(looped and self.axes and self.mixing.mixed)
        if not (self.mixing.permuted or self.moves):
            raise Unfit  # It is rows, and their totals.
        self.lanes, self.folds, self.cells = {*self.axes}, {}, 0
        self.size, self.rows = 0, {}
        self.lane = Lane(self, closed)
        stores = [
            Store(v, index, self.lane.value(v, index))
            for v in dict.fromkeys(jaxpr.outvars)
            for index in self.places(v)
        ]
        loops = []
        for eqn in reversed(jaxpr.eqns):
            # A loop asks for what loops before it leave, maybe the first one to do so.
            if eqn in self.folds:
                loops = self.folds[eqn].statements() + loops
        self.statements = [*loops, *stores]
        if not self.moves:
            raise Unfit
        if not self.axes and sum(self.rows.values()) > LONE_ROW * len(self.rows):
            raise Unfit("one lane")

    def places(self, var):
        """The indices of a variable's elements in a lane, in order."""
        self.lengths(var)
        rest, small = iter(self.axes), self.mixing.small[var]
        return itertools.product(*(
            map(as_index, range(n)) if d in small or n == 1 else [next(rest)]
            for d, n in enumerate(var.aval.shape)
        ))  # fmt: skip

    def knows(self, index):
        return all(isinstance(i, Const) or i in self.lanes for i in index)

    def lengths(self, var):
        """Those of the axes along which a lane has several elements of a variable."""
        lengths, most = self.mixing.lengths(var), config.fusion.block_elements
        if math.prod(lengths) > (most if self.axes else min(most, LONE)):
            raise Unfit("large matrix")
        return lengths

    def take(self, var, index, row):
        """Note that an element of a variable is computed."""
        if row.cost > config.fusion.cheap and not {*self.axes} <= {*index}:
            raise Unfit("shared value")
        lengths = self.lengths(var)
        if row.cost or row.total:
            self.rows[var] = max(lengths, default=1)
        self.moves |= var in self.mixing.permuted
        self.spend(row.cost)

    def spend(self, operations):
        self.size += operations
        if self.size > self.most:
            raise Unfit("large block")

    def fold(self, eqn):
        if eqn not in self.folds:
            if not any(map(self.mixing.small.get, eqn.outvars)):
                raise Unfit  # no matrix: as a native loop it looks for signals
            self.folds[eqn] = Fold(self, eqn, self.lane)
        return self.folds[eqn]

    def new_cells(self, dtype):
        self.cells += 2
        names = (f"cell{self.cells - n}" for n in (2, 1))
        return tuple(Buffer(name, (), dtype, space="cache") for name in names)


# ---- where blocks are worth it

# Rules by which a policy stores what a block computes once in registers; and primitives
# that make it worth while to look.
AGAIN, for_blocks = {"recompute", "large kernel", "total"}, {iota_p, jit_p, scan_p}


def is_by_element(eqn, looped=False):
    """Whether all that an equation does can be asked for element by element.

    Args:
      looped: whether it stands in a loop: a loop in a loop is no block.
    """
    kind, inner = eqn.primitive, eqn.params.get("jaxpr")
    if kind not in (jit_p, scan_p):
        return row_of(eqn).by_element and not has_effect(eqn)
    if len(inner.eqns) > CALLED:
        return noted("large function", eqn)
    if any(stays(eqn) for stays in stay_calls) or looped and kind is scan_p:
        return False
    return all(is_by_element(e, looped or kind is scan_p) for e in inner.eqns)


def block_walk(jaxpr, consts, programs, most):
    """The walk of a program that is a block, and the values of its constants; or None.

    It is over: all is in one group, of so many operations at most.
    """
    closed = ClosedJaxpr(jaxpr, tuple(consts))
    if not {jit_p, scan_p}.isdisjoint(eqn.primitive for eqn in jaxpr.eqns):
        # Functions that are called are inlined, be they longer than others may be.
        with config.override("fusion", config.fusion.but(small_function=CALLED)):
            closed = simplify(closed)
    jaxpr = with_own_results(closed.jaxpr)  # What was inlined may return a constant.
    closed = ClosedJaxpr(jaxpr, closed.consts)
    try:
        block = Block(closed, most)
    except Unfit as why:
        for rule in why.args:
            noted(rule, *jaxpr.eqns)
        return None
    walk = Lowering(jaxpr, programs)
    group = walk.groups.new(block.axes, block.axes or (Axis(1),))
    group.stores, group.size = block.statements[::-1], block.size
    group.eqns, walk.stored = dict.fromkeys(jaxpr.eqns), dict.fromkeys(jaxpr.outvars)
    walk.ask(expressions(block.statements), group)
    noted("block", *jaxpr.eqns, operations=block.size)
    return walk, closed.consts


def in_blocks(walk, consts):
    """The walk of a program that may be a block, and the values of its constants.

    It is one where that gives enough fewer kernels for what is written out.  Where
    rounds have become a loop, nobody has to look at another walk.
    """
    jaxpr, most = walk.jaxpr, config.fusion.block_operations
    moves = config.fusion.enabled and may_move(jaxpr)
    if not (moves and all(map(is_by_element, jaxpr.eqns))):
        return None
    found, loop = rolled(jaxpr) or (jaxpr, None)
    looped = any(eqn.primitive is scan_p for eqn in found.eqns)
    if looped and (done := block_walk(found, consts, walk.programs, most)):
        if loop:
            equations = len(loop.params["jaxpr"].eqns)
            noted("rounds", loop, rounds=loop.params["length"], equations=equations)
        return done
    walk.run()
    again = any(why and why[0] in AGAIN for why in walk.stored.values())
    if again or consts or not for_blocks.isdisjoint(e.primitive for e in jaxpr.eqns):
        # Even if it is no kernel less, a small one need not look into tables.
        worth = WORTH_A_KERNEL * (len(walk.groups.all) - 1)
        most = min(most, max(worth, config.fusion.block_elements))
        if loop or not looped:
            return block_walk(jaxpr, consts, walk.programs, most) or (walk, consts)
    return walk, consts


loop_rules |= {
    "block": (
        True, "each lane has a few numbers, which are in registers",
        "block_operations", "block_elements",
    ),
    "large block": (
        False, "it has too many operations to write out", "block_operations"
    ),
    "one lane": (False, "there is one lane, and a loop takes so long a row at once"),
    "shared value": (
        False, "lanes share what is dear to compute, and each would do it anew", "cheap"
    ),
    "large matrix": (
        False, "a lane has too many numbers for registers", "block_elements"
    ),
    "large function": (False, "it has too many equations to inline"),
    "rounds": (True, "its steps repeat in the program, one by one"),
}  # fmt: skip
other_walks |= {"in_blocks": in_blocks}
