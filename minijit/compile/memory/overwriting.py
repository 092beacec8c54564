"""Results written over arguments: an update of one element is a store, not a copy.

    def body(i, t):
        old = t[i]                              # v0 = t[i]
        return t.at[i].set(old + 1.0)           # t[i] = v0 + 1

    found = plan(program, (program.inputs[1], program.outputs[1]))
    found.pairs                                 # those that can share their memory
    found.program                               # its steps in an order that allows it

A scatter copies its operand and then stores into the copy.  If nobody reads the operand
after that, the copy may be the operand itself.  So each pair (old, new) asks for an
order of the steps in which all that reads `old` comes before what writes `new`.  One
kernel that does both may read of the old one the element that it writes; otherwise it
is parted, and what it reads is computed early, into memory of the size of the update.
"""

import functools
import math
import operator
from collections import defaultdict
from dataclasses import replace

from ...trace.jaxprs.memory import memoised
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.while_and_scan import scan_p, while_p
from ..loops.buffers import Buffer
from ..loops.contents import in_loops, perfect, stores_in
from ..loops.expressions import Load, Op
from ..loops.graphs import nothing, postorder, sorted_steps, substitute
from ..loops.index_rules import piece_of
from ..loops.kernel_buffers import buffer_names
from ..loops.statements import (
    Call, If, Kernel, Let, Store, expressions, nested, on_buffers, statements,
)
from ..schedule.place import placed
from ..schedule.shared_loops import after_loop, loaded_buffers, without


def copied_by(stmt):
    """The buffer whose element a statement stores at its index in another, or None."""
    if not isinstance(stmt, Store) or not isinstance(stmt.value, Load):
        return None
    whole = stmt.combine is None and stmt.value.index == stmt.index
    return stmt.value.buffer if whole else None


def read_by(step):
    """The buffers that a kernel or call reads."""
    if isinstance(step, Kernel):
        return loaded_buffers(step.body)
    return {view.buffer for view in step.inputs}


def written_by(step, old=None):
    """The buffers that a kernel or call writes; copies of `old` do not count."""
    if not isinstance(step, Kernel):
        return {view.buffer for view in step.outputs}
    stores = stores_in(step.body)
    return {s.buffer for s in stores if old is None or copied_by(s) is not old}


@memoised
def touched_by(step):
    """(the buffers that a kernel or call reads, those that it writes)"""
    return read_by(step), written_by(step)


class Overwriting:
    """An order of a program's steps in which results are written over arguments.

    Args:
      program: a `Program`; pairs: of its inputs and outputs, all that are wished for.
      alone: whether a kernel that reads what it writes over may store nothing else.

    Attributes:
      pairs: those that can share their memory.
      program: the program, its steps in that order, some of them parted.
      over: {buffer: the one whose memory it takes}, of what lies between.
    """

    def __init__(self, program, pairs, alone=False):
        self.program, self.pairs, self.over = program, [], {}
        self.links, self.alone = [], alone
        for old, new in pairs:
            if old.shape == new.shape != () and old.dtype == new.dtype != object:
                if self.allow(self.chain(old, new)):
                    self.pairs.append((old, new))

    def chain(self, old, new):
        """The links from `old` to `new`, by way of buffers that are copied whole."""
        links, temps = [], set(self.program.temps) - set(self.program.outputs)
        while (before := self.copied_to(new)) in temps and before not in self.over:
            if before.shape != new.shape:  # It is a part of a larger one.
                break
            links.append((before, new))
            new = before
        return [(old, new), *reversed(links)]

    def copied_to(self, buffer):
        """The buffer of which another one is a copy to begin with, or None."""
        writers = (s for s in self.program.body if buffer in touched_by(s)[1])
        first = next(writers, None)
        if not isinstance(first, Kernel):
            return None
        for stmt in statements(first.body):
            if isinstance(stmt, Store) and stmt.buffer is buffer:
                return copied_by(stmt)
        return None

    def allow(self, links):
        """Take on some links, if there is an order for them: -> whether there is."""
        wanted = self.links + links
        near = {buffer for link in links for buffer in link}
        for part in (False, True):
            program = parted(self.program, wanted, near) if part else self.program
            order = self.order(program.body, wanted)
            if order is not None:
                self.program, self.links = replace(program, body=order), wanted
                self.over = {n: o for o, n in wanted if n in program.temps}
                return True
        return False

    def order(self, body, links):
        """The steps so that each `old` is read before its `new` is written, or None.

        It is the order they had, where nothing else is asked for.
        """
        before = dependences(body)
        olds, readers = dict(links), defaultdict(set)
        whose = {new: old for old, new in links}
        news = whose.keys()
        for i, step in enumerate(body):
            for buffer in touched_by(step)[0] & olds.keys():
                readers[buffer].add(i)
        for j, step in enumerate(body):
            both, made = [], touched_by(step)[1] & news
            for old, new in links if made else ():
                if new not in made or new not in written_by(step, old):
                    continue
                # What is a copy, and no more, has the memory of what is read on.
                while old is not None:
                    before[j] |= readers[old] - {j}
                    both += [(old, new)] if j in readers[old] else []
                    old = whose.get(old)
            if both and not self.overwrites(step, both):
                return None
        order = sorted_steps(dict(enumerate(before)))
        return None if order is None else tuple(body[i] for i in order)

    def overwrites(self, step, pairs):
        """Whether one step may read each `old` and write its `new` in one memory."""
        if not isinstance(step, Kernel):
            return call_overwrites(step, *pairs)
        # A kernel's pairs come one after the other: each is looked at once.
        found = all(reads_first(step, *pair) for pair in pairs)
        return found and not (self.alone and len(stores_in(placed_once(step))) > 1)


@memoised
def reads_first(kernel, old, new):
    """Whether a kernel reads no element of `old` when `new` is there in its place."""
    return reading_of(kernel).ends_before(old, new)


@memoised
def call_overwrites(call, *pairs):
    """Whether a call may write each `new` in the memory of its `old`."""
    rule = overwriting_calls.get(call.routine)
    return rule is not None and rule(call, pairs)


@memoised
def plan(program, *pairs):
    """The `Overwriting` of a program, made once for each set of pairs."""
    return Overwriting(program, pairs)


@memoised
def placed_once(kernel):
    """The statements of a kernel as they run: it is asked for them several times."""
    return placed(kernel.body)


def dependences(body):
    """For each step the numbers of the earlier ones that have to stay before it."""
    readers, writers, before = defaultdict(set), defaultdict(set), []
    for i, step in enumerate(body):
        reads, writes = touched_by(step)
        earlier = [writers[b] for b in reads | writes] + [readers[b] for b in writes]
        before.append(set().union(*earlier))
        for found, buffers in ((readers, reads), (writers, writes)):
            for buffer in buffers:
                found[buffer].add(i)
    return before


class Reading:
    """What placed statements load: one walk tells it, however many pairs ask.

    Attributes:
      body, inside: the statements, and with them those in their loops and branches.
      loads: the `Load`s that they are computed from, in the order of their bits.
      reach: {expression: which loads it needs, as a number with a bit for each}.
    """

    def __init__(self, body):
        self.body, self.inside = body, statements(body)
        self.loads, self.reach = [], {}
        for expr in postorder(expressions(body)):
            needed = self.needed(expr.children())
            if isinstance(expr, Load):
                needed |= 1 << len(self.loads)
                self.loads.append(expr)
            self.reach[expr] = needed

    def needed(self, exprs):
        """The loads that expressions need, as bits."""
        return functools.reduce(operator.or_, (self.reach[e] for e in exprs), 0)

    def of(self, buffers):
        """The loads from some buffers, as bits."""
        return sum(1 << k for k, e in enumerate(self.loads) if e.buffer in buffers)

    def computes(self, exprs, bits, names):
        """Whether expressions need some loads otherwise than by way of `names`."""
        todo, seen = list(exprs), set(names)
        while todo:
            expr = todo.pop()
            if expr not in seen and self.reach[expr] & bits:
                if self.reach[expr] & bits & ~self.needed(expr.children()):
                    return True
                seen.add(expr)
                todo += expr.children()
        return False

    def ends_before(self, old, new):
        """Whether nothing of `old` is read that has been written over.

        That is so if the one store into `new` is in no loop, or stores in each step
        what no other one reads; and if what is read after it has a name by then.
        """
        copies = [s for s in self.inside if copied_by(s) is old and s.buffer is new]
        inside = [s for s in self.inside if s not in copies]
        stores = [s for s in inside if isinstance(s, Store)]
        if sum(s.buffer is new for s in stores) != 1:
            return False
        store = next(s for s in stores if s.buffer is new)
        at, around = inside.index(store), dict(in_loops(self.body))
        axes = around[store]
        early, late = inside[:at], inside[at + 1 :]
        bits = self.of({old})
        read = self.needed(expressions([s for s in self.body if s not in copies]))
        loads = [e for k, e in enumerate(self.loads) if read & bits & 1 << k]
        if axes and any(e.index != store.index for e in loads):
            return False
        if {*axes} - set().union(*(told_by(index, axes) for index in store.index)):
            return False
        written = self.of({old, *(s.buffer for s in stores)})
        if axes and self.needed(store.index) & written:
            return False
        # What gets its name after the store, or another time, is computed after it.
        names = {s.expr for s in early if isinstance(s, Let)}
        names -= {s.expr for s in late if isinstance(s, Let)}
        if self.computes(expressions(late), bits, names):
            return False
        return not self.needed(names) & bits or self.is_known(store, late)

    def is_known(self, store, late):
        """Whether all that is read of a store's buffer later is the value it stored."""
        blocks = (self.body, *(b for s in self.inside for b in s.bodies()))
        block = next(b for b in blocks if store in b)
        after = statements(block[block.index(store) + 1 :])
        elsewhere = [s for s in late if s not in after]
        bits = others = self.of({store.buffer})
        for k, e in enumerate(self.loads):
            if not store.combine and (e.buffer, e.index) == (store.buffer, store.index):
                others -= 1 << k
        read, read_elsewhere = (self.needed(expressions(b)) for b in (late, elsewhere))
        return not (read & others or read_elsewhere & bits)


@memoised
def reading_of(kernel):
    """What a kernel loads."""
    return Reading(placed_once(kernel))


def told_by(index, axes):
    """The axes of loops in whose steps an index is never the same again.

    That is one axis, or `piece` and `i` of `piece * 64 + i` if i is less than 64.
    """
    for axis in axes:
        if piece := piece_of(index, axis):
            return {axis} | told_by(piece[1], axes)
    terms = index.args if isinstance(index, Op) and index.name == "add" else ()
    pairs = zip(terms, reversed(terms), strict=True)
    return next(({x} for x, y in pairs if x in axes and y.free.isdisjoint(axes)), set())


def parted(program, links, near):
    """A program whose kernels read no more than they must when they write a `new`.

    They are parted into their statements, but for a loop and the totals beside it; what
    an update loads from an `old` is computed before, into memory of its own.

    Args:
      near: the buffers of which kernels have one that are parted.
    """
    body, temps = [], []
    before = {new: old for old, new in links}
    for step in program.body:
        whole = not isinstance(step, Kernel) or after_loop(step.body)
        reads, writes = touched_by(step)
        if whole or not writes & before.keys() or near.isdisjoint(reads | writes):
            body.append(step)
            continue
        for stmt in step.body:
            made = len(program.temps) + len(temps)
            early, stmt, rooms = early_values(stmt, before, made)
            temps += rooms
            body += [replace(step, body=(s,)) for s in (*early, stmt)]
    return replace(program, body=tuple(body), temps=(*program.temps, *temps))


def early_values(stmt, before, made=0):
    """What an update loads from arrays that are written over, computed before it.

    It still loads itself the element that it writes over.

    Args:
      stmt: a statement; before: {buffer: the one whose memory it takes}.
      made: how many temporaries there are, for the names of others.

    Returns:
      (statements to run before, the update, the buffers in between).
    """
    axes, pred, update = taken_apart(stmt)
    known = all(isinstance(axis.extent, int) for axis in axes)
    if not known or not isinstance(update, Store) or update.buffer not in before:
        return [], stmt, []
    if math.prod(a.extent for a in axes) >= math.prod(update.buffer.shape):
        return [], stmt, []
    here = Load(before[update.buffer], update.index)
    exprs = (*pred, *update.index, update.value)
    arrays = {*before, *before.values()}
    exprs, rooms = with_rooms(exprs, arrays, here, axes, made)
    pred, (*index, value) = exprs[: len(pred)], exprs[len(pred) :]
    update = Store(update.buffer, tuple(index), value, update.combine)
    update = If(*pred, (update,)) if pred else update
    stores = [Store(e.buffer, e.index, expr) for expr, e in rooms.items()]
    early = [s for store in stores for s in nested(store.index, [store])]
    return early, *nested(axes, [update]), [store.buffer for store in stores]


def taken_apart(stmt):
    """(axes of the loops around a statement, its condition if any, the statement)"""
    (axes, body), pred = perfect((stmt,)), []
    if len(body) == 1 and isinstance(body[0], If) and not body[0].otherwise:
        pred, body = [body[0].pred], body[0].then
    return axes, pred, body[0] if len(body) == 1 else stmt


def with_rooms(exprs, arrays, here, axes, made):
    """Expressions that load what they need of some arrays from temporaries.

    Args:
      here: the load that may stay; axes: those of the temporaries.
      made: how many temporaries there are already.

    Returns:
      (the expressions, {expression that was computed: the load in its place}).
    """
    rooms, old = {}, old_loads(exprs, arrays)

    def in_room(expr):
        loads = old.get(expr, nothing)
        movable = expr.free <= set(axes) and here not in loads
        if not movable or len({e.buffer for e in loads}) != 1:
            return None
        if expr not in rooms:
            own = tuple(axis for axis in axes if axis in expr.free)
            name = f"early{made + len(rooms)}"
            room = Buffer(name, tuple(a.extent for a in own), expr.dtype)
            rooms[expr] = Load(room, own)
        return rooms[expr]

    return substitute(exprs, in_room), rooms


def old_loads(exprs, buffers):
    """{expression: the loads from some buffers that it is computed from}"""
    found = {}
    for expr in postorder(exprs):
        own = isinstance(expr, Load) and expr.buffer in buffers
        found[expr] = frozenset([expr] if own else ()).union(
            *(found[child] for child in expr.children())
        )
    return found


# ---- calls of programs


def program_overwrites(call, pairs):
    """Whether an inner program may write results over arguments."""
    return overwrite_within(call.attrs["program"], argument_pairs(call, pairs))


def loop_overwrites(call, pairs):
    """Whether a branch may write results over operands, or a loop over its inits.

    A loop copies these before its first step, if they are not where its carries are.
    What else it is given, its steps read one after the other.
    """
    positions = argument_pairs(call, pairs)
    if call.attrs["primitive"] is cond_p:
        positions = positions and [(i - 1, j) for i, j in positions]
        branches = call.attrs["programs"]
        return all(overwrite_within(p, positions) for p in branches)
    carries = carries_of(call)
    return positions is not None and all(pair in carries for pair in positions)


def carries_of(call):
    """Pairs (position among a call's inputs, among its outputs), one for each carry."""
    find = carry_positions.get(call.attrs["primitive"])
    if find is None:
        return []
    first, count = find(len(call.inputs), **call.attrs["params"])
    return [(first + j, j) for j in range(count)]


def argument_pairs(call, pairs):
    """Pairs of buffers as positions among the inputs and outputs of a call, or None.

    There are none if the call is given a buffer twice, or a part of it.
    """
    positions = []
    for old, new in pairs:
        given = [i for i, view in enumerate(call.inputs) if view.buffer is old]
        made = [j for j, view in enumerate(call.outputs) if view.buffer is new]
        if len(given) != 1 or len(made) != 1 or not call.inputs[given[0]].whole:
            return None
        positions.append((given[0], made[0]))
    return positions


def overwrite_within(program, positions):
    """Whether a program may write these results over these inputs."""
    if positions is None:
        return False
    pairs = [(program.inputs[i], program.outputs[j]) for i, j in sorted(positions)]
    return plan(program, *pairs).pairs == pairs


def carries_of_while(operands, cond_nconsts, body_nconsts, **rest):
    first = cond_nconsts + body_nconsts
    return first, operands - first


def carries_of_scan(operands, length, num_consts, num_carry, **rest):
    return (length is None) + num_consts, num_carry


# primitive -> function of (how many operands, **params): the position of the first
# carry among them, and how many there are.
carry_positions = {while_p: carries_of_while, scan_p: carries_of_scan}

# routine -> function of (call, pairs of buffers that it reads and writes): whether it
# may write each over the one it reads.  Others write over nothing they read.
overwriting_calls = {"program": program_overwrites, "loop": loop_overwrites}


# ---- one buffer in the place of another


class Names:
    """Which buffers are one: {buffer: the one in whose place it is}."""

    def __init__(self, program):
        self.program, self.found = program, {}

    def __getitem__(self, buffer):
        while buffer in self.found:
            buffer = self.found[buffer]
        return buffer

    def join(self, old, new):
        """Let two be one: an argument if one of them is, or else a result."""
        old, new = self[old], self[new]
        if new in self.program.outputs and old not in self.program.inputs:
            old, new = new, old
        self.found[new] = old

    def program_with(self, body, done=()):
        """A program with these steps, in which what is one has one name.

        Args:
          done: the stores that copy an array onto itself, and so go.
        """
        steps, known = [], {}
        place = lambda buffer, index: (self[buffer], index)
        for step in body:
            if isinstance(step, Call):
                sides = (step.inputs, step.outputs)
                inputs, outputs = (tuple(map(self.view, side)) for side in sides)
                steps.append(replace(step, inputs=inputs, outputs=outputs))
            elif self.found.keys().isdisjoint(buffer_names(step.body)):
                steps.append(step)
            elif rest := without(step.body, done):
                rest = on_buffers(rest, place, self.found, known)
                steps.append(replace(step, body=rest))
        temps = tuple(b for b in self.program.temps if b not in self.found)
        outputs = tuple(map(self.__getitem__, self.program.outputs))
        left = tuple(map(self.copy, self.program.copies))
        new = dict(body=tuple(steps), temps=temps, outputs=outputs, copies=left)
        return replace(self.program, **new)

    def copy(self, copy):
        return replace(copy, source=self[copy.source], target=self[copy.target])

    def view(self, view):
        return replace(view, buffer=self[view.buffer])
