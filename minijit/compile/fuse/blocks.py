"""Blocks: kernels that keep all elements of a small matrix in registers.

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
"""

import itertools
import math
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

import numpy as np

from ...trace.array import to_numpy
from ...trace.jaxprs.jaxpr import Literal, has_effect
from ...trace.jit.jit import jit_p
from ...trace.primitives import iota_p
from ...transform.control_flow.while_and_scan import scan_p
from ..decisions import loop_rules, noted
from ..loops.contents import totals_within
from ..loops.expressions import Axis, Const, Reduce, as_index
from ..loops.graphs import substitute
from ..loops.reductions import written_out
from ..loops.statements import Store, statements
from ..lower.groups import Group
from ..lower.inlining import crowded, recomputed
from ..lower.walk import At, Lowering, Operand, new_axis, row_of
from ..pipeline import other_walks
from ..settings import config
from .rolling import rolled, without_calls
from .small_axes import Axes, is_table, may_move, terms_of

# ---- one element


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


class Tables:
    """Rules asked for elements, with the constants of a program known.

    Args:
      known: {variable: NumPy array}.
    """

    def __init__(self, known):
        self.known, self.operands = known, {}

    def operand(self, atom):
        if isinstance(atom, Literal) or atom not in self.known:
            return Operand(atom)
        if atom not in self.operands:
            looked_into = atom.aval.dtype.kind in "biuf" and is_table(atom.aval)
            value = self.known[atom]
            self.operands[atom] = Table(atom, value) if looked_into else Operand(atom)
        return self.operands[atom]

    def element(self, eqn, row, index):
        """The element of an equation's result at an index."""
        out, = eqn.outvars
        return row.rule(out.aval, index, *map(self.operand, eqn.invars), **eqn.params)


def unrolled(expr):
    """An expression in which each short total is written out, term by term."""

    def terms(e):
        short = type(e) is Reduce and terms_of(e) <= config.fusion.block_elements
        return written_out(e)[0] if short else None

    return substitute([expr], terms)[0]


# ---- groups


@dataclass(eq=False)
class Block(Group):
    """A group whose loops go over the lanes only.

    Attributes:
      indices: {stored variable: the indices at which it stores it}.
      cells: how many numbers of its own it has.
    """

    indices: dict = field(default_factory=dict)
    cells: int = 0


def places_of(var, small, lanes):
    """The indices of a variable's elements in a lane, in order.

    Args:
      small: its axes that have no loop; lanes: the indices for the others, in order.
    """
    rest = iter(lanes)
    choices = [
        map(as_index, range(n)) if d in small or n == 1 else [next(rest)]
        for d, n in enumerate(var.aval.shape)
    ]
    return list(itertools.product(*choices))


def lanes_of(var, small):
    """The extents of the loops of a block that stores a variable."""
    shape = enumerate(var.aval.shape)
    return tuple(n for d, n in shape if d not in small and n > 1)


class BlockWalk(Lowering):
    """A walk that stores some variables in blocks.

    Attributes:
      axes: the `Axes` of the program; hot: the lands whose variables are in blocks.
      tables: the constants.
      rooms: {extents of the loops: the last few blocks with such loops}.
      folded: the loops that are parts of blocks.
      forms: {equation: how many terms its totals have, as far as it was asked}.
    """

    def __init__(self, jaxpr, programs, axes, hot):
        super().__init__(jaxpr, programs)
        self.axes, self.hot, self.tables = axes, hot, Tables(axes.known)
        self.rooms, self.forms, self.folded = {}, {}, set()

    def lands_that_mix(self):
        """The lands where elements of a lane meet in a block, so that it pays.

        Otherwise each is computed from what is in memory: a loop does that better.
        """
        axes, found = self.axes, set()
        for block in self.groups.all:
            if isinstance(block, Block):
                small = set().union(*map(axes.small_of, block.indices))
                mixing = (e for eqn in block.eqns for e in axes.mixing.get(eqn, ()))
                mixed = not small.isdisjoint(map(axes.axes.of, mixing))
                if mixed or not self.folded.isdisjoint(block.eqns):
                    found |= set(map(axes.land, block.indices))
        return found

    def small(self, var):
        """The axes of a variable that have no loop."""
        own = self.axes.small.get(var, ())
        return own if own and self.axes.land(var) in self.hot else ()

    def run(self):
        for eqn in reversed(self.jaxpr.eqns):
            if any(self.is_needed(v) for v in eqn.outvars) or has_effect(eqn):
                rows = (row(self, eqn) for row in block_rows)
                row = next((row for row in rows if row), None) or row_of(eqn)
                row.lower(self, eqn)

    def element(self, eqn, row, index, groups):
        """As for any walk; constants are known, and short totals written out."""
        expr = self.tables.element(eqn, row, index)
        if all(isinstance(group, Block) for group in groups):
            expr = unrolled(expr)
        known = replace(row, rule=lambda *given, **params: expr)
        return super().element(eqn, known, index, groups)

    def value(self, eqn, row):
        """Inline or store: what only blocks ask for costs what it costs once."""
        var, = eqn.outvars
        asked = self.readers[var]
        if asked and all(isinstance(group, Block) for group in asked):
            row = self.written_out(eqn, row)
            if var not in self.results and var not in self.stored:
                value = self.estimates.value(eqn, row, asked)
                cut = block_policy(value)
                if cut is None:
                    return self.inline(var, row, value)
                self.stored[var] = cut
        return super().value(eqn, row)

    def written_out(self, eqn, row):
        """The row of a total of few terms as one of plain operations."""
        if not row.total:
            return row
        if eqn not in self.forms:
            index = tuple(map(as_index, (0,) * eqn.outvars[0].aval.ndim))
            totals = totals_within([row.at(eqn, index)])
            self.forms[eqn] = max(map(terms_of, totals), default=1)
        terms = self.forms[eqn]
        if terms > config.fusion.block_elements:
            return row
        return replace(row, cost=terms, total=False)

    def store(self, eqn, row, var):
        small = self.small(var)
        # What a root begins with is a copy, which may turn out to be needless.
        if not small or not var.aval.size or not row_of(eqn).by_element:
            return super().store(eqn, row, var)
        self.stored.setdefault(var, None)
        readers, reads = self.readers[var], self.estimates.read_by(eqn)
        row = self.written_out(eqn, row)
        block = self.room_for(var, small, row, readers, reads)
        for index in reversed(block.indices[var]):
            expr = self.element(eqn, row, index, [block])
            block.stores.append(Store(var, index, expr))
            block.values[At(var, index)] = expr
        self.groups.precede(block, readers)

    def room_for(self, var, small, row, readers, reads):
        """The block to store a variable in: one over the same lanes, or a new one."""
        lanes = lanes_of(var, small)
        rooms = self.rooms.setdefault(lanes, deque(maxlen=8))
        for block in rooms:
            indices = places_of(var, small, block.axes)
            if self.has_room(block, indices, row, readers, reads):
                break
        else:
            block = self.new_block(lanes)
            indices = places_of(var, small, block.axes)
        block.indices[var] = indices
        block.reads |= reads
        return block

    def new_block(self, lanes):
        axes = tuple(map(new_axis, lanes))
        # One lane is a loop, too: what it names means nothing outside.
        block = self.groups.new(axes, axes or (Axis(1),), kind=Block)
        self.rooms.setdefault(lanes, deque(maxlen=8)).appendleft(block)
        return block

    def drop(self, block):
        """Undo `new_block`, right after it."""
        self.groups.all.pop()
        self.groups.after.pop()
        self.rooms[tuple(axis.extent for axis in block.axes)].popleft()

    def has_room(self, block, indices, row, readers, reads):
        """Whether a variable can be stored in a block; see `Groups.has_room`."""
        after, limits = self.groups.after, config.fusion
        return (
            set(readers.get(block, ())) <= set(indices)
            and bool(block.axes or not (row.total and block.has_total))
            and block.size <= limits.block_operations
            and len(block.reads | reads) + len(block.indices) < limits.most_buffers
            and not any(after[r.number] >> block.number & 1 for r in readers)
        )


# Functions of a `BlockWalk` and an equation: the row for it there, or None.
block_rows: list = []


def block_policy(value):
    """Inline what is computed no more often than if it were stored."""
    groups, limits = dict(value.asked), config.fusion
    if value.total:
        return "total", "every element of it takes a loop"
    if value.cost == 0:
        return None
    if len(value.asked) > limits.block_elements * len(groups):
        wanted = len(value.asked)
        return "many indices", f"it is asked for at {wanted:,} indices, one by one"
    if any(crowded(group, value, limits.most_buffers) for group in groups):
        return "many arrays", f"its kernel takes {limits.most_buffers} arrays already"
    return recomputed(value)


# ---- where blocks are worth it

# Rules by which a policy stores what a block computes once in registers.
AGAIN = {"many indices", "recompute", "large kernel", "total"}


def lands_for_blocks(walk, jaxpr, axes, inlined):
    """The lands in which something is stored, or looked up, that a block just has."""
    cut = [v for v, why in walk.stored.items() if why and why[0] in AGAIN]
    # Those made of what is stored count, too: one element a lane has no small axes.
    few = [v for v in cut if v not in axes.large]
    stmts = [s for v in few for g in walk.readers[v] for s in statements(g.stores)]
    cut += [s.buffer for s in stmts if isinstance(s, Store)]
    loops = [eqn.outvars for eqn in jaxpr.eqns if eqn.primitive is scan_p]
    cut += [v for results in loops for v in results]
    wanted, makers, lands = (*cut, *inlined, *axes.taken), {}, defaultdict(dict)
    for eqn in jaxpr.eqns:
        makers |= dict.fromkeys(eqn.outvars, (eqn,))
    for var in filter(axes.small.__contains__, wanted):
        if axes.is_moved(var) and axes.small[var]:
            lands[axes.land(var)] |= dict.fromkeys(makers.get(var, ()))
        elif axes.is_moved(var):
            elements = math.prod(var.aval.shape[d] for d in axes.large[var])
            noted("large matrix", *makers.get(var, ()), elements=elements)
    fit = (x for x, e in lands.items() if fits_in_block(axes, x, e))
    return frozenset(fit)


def fits_in_block(axes, land, eqns):
    """Whether the operations of a land are written out; notes it."""
    operations, row = axes.operations(land)
    if operations > config.fusion.block_operations:
        return noted("large block", *eqns, operations=operations)
    if row and row > config.fusion.lone_row:
        return noted("one lane", *eqns, row=round(row))
    # A loop keeps its carry in registers, whatever its steps do with it.
    looped = any(eqn.primitive is scan_p for eqn in eqns)
    if not axes.is_permuted(land) and (row or not looped):
        return noted("only totals", *eqns)
    return noted("block", *eqns, operations=operations)


def block_walk(walk, jaxpr, loop, consts, inlined, done):
    """A walk over a jaxpr with blocks that is over, or None.

    Args:
      loop: an equation that is to be a part of a block, if any.
      done: {a jaxpr and its lands: such a walk}, to be used and extended.
    """
    axes = Axes(jaxpr, consts)
    hot = lands_for_blocks(walk, jaxpr, axes, inlined)
    while hot:
        key = jaxpr, hot
        if key not in done:
            done[key] = BlockWalk(jaxpr, walk.programs, axes, hot)
            done[key].run()
        other = done[key]
        if not (idle := hot - other.lands_that_mix()):
            return None if loop and loop not in other.folded else other
        hot -= idle
    return None


def in_blocks(walk, consts):
    """The walk of a program that may have blocks: with them, if it gives fewer kernels.

    Where all is one kernel with them, nobody has to look at another walk.
    """
    if not (config.fusion.enabled and may_move(walk.jaxpr)):
        return None
    whole, values, inlined = without_calls(walk.jaxpr, consts)
    jaxpr, loop = rolled(whole) or (whole, None)
    done: dict = {}
    if any(eqn.primitive is scan_p for eqn in jaxpr.eqns):
        other = block_walk(walk, jaxpr, loop, values, inlined, done)
        if other and len(other.groups.all) == 1:
            return in_rounds(other, loop), values
    walk.run()
    primitives = {eqn.primitive for eqn in walk.jaxpr.eqns}
    cut = any(why and why[0] in AGAIN for why in walk.stored.values())
    if cut or consts or not primitives.isdisjoint(for_blocks):
        for form, scan in dict.fromkeys([(jaxpr, loop), (whole, None)]):
            other = block_walk(walk, form, scan, values, inlined, done)
            if other and len(other.groups.all) < len(walk.groups.all) + is_small(other):
                return in_rounds(other, scan), values
    return walk, consts


def is_small(walk):
    """Whether the blocks of a walk are worth it without a kernel less."""
    size = sum(group.size for group in walk.groups.all if isinstance(group, Block))
    return size <= config.fusion.block_elements


def in_rounds(walk, loop):
    """A walk, with a note of the loop that equations of the program have become."""
    if loop is not None:
        equations = len(loop.params["jaxpr"].eqns)
        noted("rounds", loop, rounds=loop.params["length"], equations=equations)
    return walk


loop_rules |= {
    "block": (
        True, "each lane has a few numbers, which are in registers",
        "block_operations", "block_elements", "block_term", "lone_elements",
        "lone_row", "short_total",
    ),
    "large block": (
        False, "it has too many operations to write out", "block_operations",
        "block_term",
    ),
    "only totals": (
        False, "no numbers change places: it is rows, and their totals", "lone_elements"
    ),
    "one lane": (
        False, "there is one lane, and a loop takes so long a row at once",
        "lone_row",
    ),
    "large matrix": (
        False, "a lane has too many numbers for registers", "block_elements",
        "lone_elements",
    ),
    "rounds": (
        True, "its steps repeat in the program, one by one", "fewest_rounds"
    ),
}  # fmt: skip


# The primitives that make it worth while to look for lands.
for_blocks = {scan_p, iota_p, jit_p}
other_walks |= {"in_blocks": in_blocks}
