"""Loops inside of blocks: each lane goes through all steps with its carry in registers.

    for i0 in 63:                                     # 1,000 lanes, 16 at a time
      for i1 in 16: t0[i1] = in0[i0 * 16 + i1, 0]     # the carry: a cell an element
      for i2 in serial 10:                            # the steps
        for i3 in 16: ...                             # what becomes of each cell
      for i4 in 16: out0[i0 * 16 + i4, 0] = t0[i4]

A `scan` whose steps do the same in each lane, and mix only small axes of the carry, is
a part of the block that asks for its results.  The lanes go side by side, as many as
fit a vector, so that each operation is one instruction for all of them.
"""

from dataclasses import replace
from functools import partial

from ...trace.jaxprs.jaxpr import Literal
from ...transform.control_flow.while_and_scan import scan_p
from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.contents import stored_in
from ..loops.expressions import Axis, Const, Load, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.statements import For, Store, expressions, statements
from ..lower.walk import At, Operand, Statements, row_of
from ..pipeline import arrangements
from ..schedule.shared_loops import loaded_buffers
from ..settings import config
from .blocks import Block, block_rows, lanes_of, places_of, unrolled


class Unfit(Exception):
    """A loop cannot be a part of a block."""


class Step:
    """The elements of one step of a loop, each computed from what the step is given.

    Args:
      closed: the step, a `ClosedJaxpr`.
      leaf: function of an argument and an index: its element, as an expression.
      tables: the constants, `Tables`.
      lanes: the indices that every variable of the lanes has.
    """

    def __init__(self, closed, leaf, tables, lanes):
        self.jaxpr, self.leaf, self.tables = closed.jaxpr, leaf, tables
        self.lanes, self.given = lanes, set(self.jaxpr.invars)
        self.made = {v: eqn for eqn in self.jaxpr.eqns for v in eqn.outvars}
        self.answers, self.whole, self.rows = {}, {}, {}

    def value(self, atom, index):
        """The element of a variable of the step, or of a literal."""
        if isinstance(atom, Literal):
            return Operand(atom)[index]
        question, todo = At(atom, index), [At(atom, index)]
        while todo:
            if todo[-1] in self.whole:
                todo.pop()
                continue
            answer = self.answer(todo[-1])
            needed = [e for e in self.questions(answer) if e not in self.whole]
            if needed:
                todo += needed
            else:
                # One memo for all: each part of an expression is looked at once.
                substitute([todo.pop()], self.answers.get, self.whole)
        return self.whole[question]

    def questions(self, expr):
        """The questions in an expression that are about variables of the step."""
        alone = type(expr) is At and not any(i.children() for i in expr.index)
        parts = [expr] if alone else postorder([expr], self.whole)
        asked = (e for e in parts if type(e) is At)
        return [e for e in asked if e.var in self.made or e.var in self.given]

    def answer(self, question):
        """What an element is computed from: elements of the operands."""
        if question not in self.answers:
            var, index = question.var, question.index
            if var in self.given:
                self.answers[question] = self.leaf(var, index)
            else:
                self.answers[question] = self.element(var, index)
        return self.answers[question]

    def element(self, var, index):
        eqn = self.made.get(var)
        if eqn not in self.rows:
            self.rows[eqn] = eqn and row_of(eqn)
        row = self.rows[eqn]
        if not row or not row.by_element:
            raise Unfit
        if not all(isinstance(i, Const) or i in self.lanes for i in index):
            raise Unfit  # it would be computed at each index anew
        expr = self.tables.element(eqn, row, index)
        return unrolled(expr) if row.total else expr


class Fold:
    """A loop as a part of a block.

    Attributes:
      eqn, block: the loop, and the block.
      cells: {(number of a carry, index): the buffers with its element in each lane, now
        and after the step}.
      nexts: {the same: what becomes of it in a step}.
      step: the axis of the steps.
    """

    def __init__(self, eqn, block):
        self.eqn, self.block, self.cells, self.nexts = eqn, block, {}, {}
        self.step = Axis(eqn.params["length"], "serial")
        self.lanes = set(block.nest)
        self.numbers = {v: k for k, v in enumerate(eqn.params["jaxpr"].jaxpr.invars)}

    def cell(self, k, index):
        """The element of a carry that a step begins with; a new cell, if need be."""
        if (k, index) not in self.cells:
            if len(self.cells) >= config.fusion.block_elements:
                raise Unfit
            if not all(isinstance(i, Const) or i in self.lanes for i in index):
                raise Unfit
            dtype, first = self.eqn.outvars[k].aval.dtype, self.block.cells
            self.cells[k, index] = tuple(
                Buffer(f"cell{first + i}", (), dtype, space="cache") for i in (0, 1)
            )
            self.block.cells += 2
        return Load(self.cells[k, index][0], ())

    def given(self, var, index):
        """The element of an argument of the step: a constant, a carry, or a row."""
        p, k = self.eqn.params, self.numbers[var]
        consts, carries, length = p["num_consts"], p["num_carry"], p["length"]
        if k < consts:
            return Operand(self.eqn.invars[k])[index]
        if k < consts + carries:
            return self.cell(k - consts, index)
        last = as_index(length - 1)
        now = op("sub", last, self.step) if p["reverse"] else self.step
        return Operand(self.eqn.invars[k])[(now, *index)]

    def statements(self):
        """The loop, with what comes before it."""
        inits = self.eqn.invars[self.eqn.params["num_consts"] :]
        begin = [
            Store(now, (), Operand(inits[k])[index])
            for (k, index), (now, _) in self.cells.items()
        ]
        compute = [
            Store(new, (), self.nexts[key]) for key, (_, new) in self.cells.items()
        ]
        keep = [Store(now, (), Load(new, ())) for now, new in self.cells.values()]
        return [*begin, For(self.step, (*compute, *keep))]


def fold(walk, eqn, block, asked):
    """A `Fold` of a scan for a block.

    Args:
      asked: {number of a carry: the indices at which its last value is wanted}.

    Raises:
      Unfit: if a step needs more than a few elements of the carry in a lane.
    """
    found, closed = Fold(eqn, block), eqn.params["jaxpr"]
    step = Step(closed, found.given, walk.tables, found.lanes)
    for k, indices in asked.items():
        for index in indices:
            found.cell(k, index)
    # What becomes of a cell may ask for others.
    while missing := [key for key in found.cells if key not in found.nexts]:
        for k, index in missing:
            found.nexts[k, index] = step.value(closed.jaxpr.outvars[k], index)
    block.size += len(step.answers)
    return found


def fold_row(walk, eqn):
    """The row of a scan that can be a part of a block, or None."""
    if eqn.primitive is not scan_p or not eqn.params["length"]:
        return None
    carries = eqn.params["num_carry"]
    wanted = {k: v for k, v in enumerate(eqn.outvars) if walk.is_needed(v)}
    if not wanted or any(k >= carries for k in wanted):
        return None
    lanes = {lanes_of(v, walk.small(v)) for v in wanted.values()}
    if len(lanes) != 1 or not any(map(walk.small, wanted.values())):
        return None
    return Statements(partial(lower_fold, wanted=wanted, lanes=lanes.pop()))


def lower_fold(walk, eqn, wanted, lanes):
    """Put a loop into the block that asks for its results, or into one of its own."""
    readers = {group for v in wanted.values() for group in walk.readers[v]}
    kept = any(v in walk.results or v in walk.stored for v in wanted.values())
    one_block = len(readers) == 1 and all(isinstance(g, Block) for g in readers)
    alone = one_block and not kept
    block = readers.pop() if alone else walk.new_block(lanes)
    if alone:
        asked = {k: list(walk.readers[v][block]) for k, v in wanted.items()}
    else:
        small = {k: walk.small(v) for k, v in wanted.items()}
        asked = {k: places_of(v, small[k], block.axes) for k, v in wanted.items()}
    try:
        found = fold(walk, eqn, block, asked)
    except Unfit:
        if not alone:
            walk.drop(block)
        return row_of(eqn).lower(walk, eqn)
    block.eqns[eqn] = None
    walk.folded.add(eqn)
    if not alone:
        for k, v in wanted.items():
            walk.stored.setdefault(v, None)
            block.indices[v] = asked[k]
            stores = [Store(v, index, At(v, index)) for index in asked[k]]
            block.stores += reversed(stores)
            walk.groups.precede(block, walk.readers[v])
    for k, v in wanted.items():
        for index in asked[k]:
            now, _ = found.cells[k, index]
            block.values[At(v, index)] = Load(now, ())
    steps = found.statements()
    walk.ask(expressions(steps), block)
    block.stores += reversed(steps)
    block.reads |= walk.estimates.read_by(eqn)


block_rows.append(fold_row)


# ---- loops around the lanes


def in_lanes(body):
    """A kernel's statements; where lanes have numbers of their own, side by side."""
    return tuple(lanes_of_loop(s) if isinstance(s, For) else s for s in body)


def has_cells(store):
    """Whether a statement gives a number of a kernel's own its value."""
    return store.buffer.space == "cache" and not store.buffer.shape


def lanes_of_loop(stmt):
    """A loop, or one that does the same side by side.

    The last lanes overlap those before them, and do again what is done.  (Where what
    they read may be gone by then, or there are too few, they are fewer.)
    """
    if not any(has_cells(s) for s in stmt.body if isinstance(s, Store)):
        return For(stmt.axis, in_lanes(stmt.body))
    n, most = stmt.axis.extent, config.fusion.lanes_at_once
    noted("side by side" if n >= most else "few lanes", lanes=min(most, n))
    chunk = Axis(-(-n // most))
    first, length, kind = op("mul", chunk, as_index(most)), most, "vector"
    if n < most or n % most and overwrites(stmt):
        length, kind = op("min", op("sub", as_index(n), first), as_index(most)), "loop"
    elif n % most:
        first = op("min", first, as_index(n - most))
    return For(chunk, side_by_side(stmt, first, length, kind))


loop_rules |= {
    "side by side": (True, "lanes in registers go on side by side", "lanes_at_once"),
    "few lanes": (False, "so few lanes make no vector", "lanes_at_once"),
}


def overwrites(stmt):
    """Whether statements read an array that they store into, beside their cells."""
    both = stored_in(stmt.body) & loaded_buffers([stmt])
    return any(buffer.space != "cache" for buffer in both)


def loaded(store, seen):
    """The numbers of a kernel's own that a statement reads, beside what was `seen`."""
    found = postorder(store.uses(), seen)
    seen.update(found)
    loads = (e for e in found if type(e) is Load)
    return {e.buffer for e in loads if e.buffer.space == "cache"}


def side_by_side(stmt, first, length, kind):
    """The statements of a loop, for so many lanes from the first one on.

    Each run of stores is a loop over the lanes, of this kind; a number of the kernel's
    own is one for each of them.
    """
    cells = {
        s.buffer: replace(s.buffer, shape=(config.fusion.lanes_at_once,))
        for s in statements(stmt.body)
        if isinstance(s, Store) and has_cells(s)
    }

    def over_lanes(stores):
        here = Axis(length, kind)
        known = {stmt.axis: op("add", first, here)}

        def moved(expr):
            if type(expr) is Load and expr.buffer in cells:
                return Load(cells[expr.buffer], (here,))
            return None

        def rewritten(store):
            *index, value = substitute([*store.index, store.value], moved, known)
            where = (here,) if store.buffer in cells else tuple(index)
            return Store(cells.get(store.buffer, store.buffer), where, value)

        return For(here, tuple(map(rewritten, stores)))

    def phases(stmts):
        result, run, loads, seen = [], [], set(), set()
        for stmt in stmts:
            # What the run reads of the step before is written after it.
            if run and (isinstance(stmt, For) or stmt.buffer in loads):
                result.append(over_lanes(run))
                run, loads, seen = [], set(), set()
            if isinstance(stmt, For):
                result.append(For(stmt.axis, phases(stmt.body)))
            else:
                run.append(stmt)
                loads |= loaded(stmt, seen)
        return (*result, over_lanes(run)) if run else tuple(result)

    return phases(stmt.body)


arrangements |= {"in_lanes": in_lanes}
