"""Loops along memory in strips: as many steps at once as a register or four hold.

    for i in 1000:                      for b in 63:
      y[i] = x[i] * 2                     i = min(16 * b, 984)
                                          y[i : i+16] = x[i : i+16] * 2

LLVM would find these vectors too.  But it looks for them in tens of passes, and writes
each loop three times: for whole vectors, for half ones and for single numbers.  Here
the last strip reaches back into the one before it.  What it computes again is the same;
where that would count twice, a mask leaves it out.  And where the next loop soon loads
what is stored here, what is left is shorter strips: of 9 numbers 8, and 1.  Of a loop
whose length only a run knows, as under a mask such as `j <= i`, the last strip loads
and stores a part only.
"""

import functools
import math
from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

from ...compile.loops.contents import loads_within
from ...compile.loops.expressions import Axis, Const, Load, Op
from ...compile.loops.graphs import free_axes, postorder
from ...compile.loops.reductions import combine
from ...compile.loops.scalars import BOOL, INDEX, storage_dtype, wide_dtype
from ...compile.loops.statements import (
    For, If, Let, Start, Step, Store, expressions, statements,
)
from ...compile.numbers.scalar_forms import form_of
from ...compile.schedule.machine import Machine
from ...compile.schedule.nests import strides_of
from ...compile.schedule.weights import weight
from ..emit import Walker, any_order, total_only, walkers
from . import blocks
from .extremes import start
from .functions import key_of
from .instructions import c_functions, divisions, overload
from .lanes import has_rare_branch, lanes_of
from .loops import LoopWriter
from .notes import ACCUMULATED, FEWEST_STEPS
from .target import vector_bytes
from .text import LLVMWriter
from .vectors import (
    PACKED, WRITTEN_OUT, Lanes, WithinKernel, each_place_once, follows, in_rows,
    in_vectors, lane_walkers, moves_apart, pieces, row_of, step,
)

# ---- which loops

# Shorter strips than these are left to LLVM where some steps of the loop are left over.
FEWEST = 4
# Rows of so many strips are written out where an array says where they lie.
MOST_STRIPS = 16


class Steps(NamedTuple):
    """What the steps of a loop do, several of which run at once, in a strip.

    Attributes:
      totals: those that go on in the loop, and began before it.
      again: whether a step may run twice: it reads nothing that the loop stores; and
        then whether the last strip reaches back.
      stores: all of them; values: the operations that differ from step to step.
      size: bytes of the widest number.
      masked: whether a part of a strip may load and store no more than that part.
      apart: whether the numbers of some loads or stores are no neighbours.
      count: how many steps one strip has.
      soon: whether what is stored is loaded soon, or rows are written over, so that no
        strip reaches back.
      whole: whether LLVM is not to look for more: of totals that are shorter than a
        register it takes those of several steps around at once.
    """

    totals: list
    again: bool
    stores: list
    values: list
    size: int
    masked: bool
    apart: bool
    count: int = 0
    soon: bool = False
    whole: bool = False


def plan_of(walker, loop):
    """The `Steps` of a loop in strips; None of one that is left to LLVM."""
    steps = steps_at_once(walker, loop)
    count, soon = strip_of(walker, loop, steps) if steps else (0, False)
    if not count:
        return None
    keys, extent = {key_of(e) for e in steps.values}, loop.axis.extent
    # A loop that is one strip is what LLVM would not find, be it ever so short.
    one = count == extent
    long = any(has_rare_branch(key) and count % lanes_of(key[-1]) for key in keys)
    if any(map(stays_scalar, keys)) or long and not one:
        return None
    soon = soon or steps.apart and not steps.again
    again = steps.again and not (soon or steps.totals) and isinstance(extent, int)
    whole = count >= shortest(steps) or not steps.totals
    return steps._replace(again=again, count=count, soon=soon, whole=whole)


def steps_at_once(walker, loop):
    """The `Steps` of a loop; None if they have an order, or are no plain ones."""
    axis, inside = loop.axis, statements(loop.body)
    if axis.kind not in ("loop", "reduce") or not all(map(is_plain, inside)):
        return None
    began = {s.reduce for s in inside if isinstance(s, Start)}
    steps = dict.fromkeys(s.reduce for s in inside if isinstance(s, Step))
    totals, known = [r for r in steps if r not in began], {*walker.cells, *began}
    exprs = postorder(expressions(loop.body), known)
    loads = [e for e in exprs if type(e) is Load]
    stores = [s for s in inside if isinstance(s, Store)]
    nested = [s for s in inside if isinstance(s, For)]
    stored = {s.buffer for s in stores}
    again = not any(s.combine for s in stores)
    again = again and not any(load.buffer in stored for load in loads)
    varying = [e for e in loads if axis in e.free] + stores
    apart = [a for a in varying if not follows(a, axis)]
    if not in_any_order(loads, stores) or nested and totals:
        return None
    values = postorder([*values_of(inside)], {*loads, *known})
    values = [e for e in values if isinstance(e, Op) and axis in e.free]
    dtypes = {e.dtype for e in values} - {INDEX, BOOL}
    dtypes |= {a.buffer.dtype for a in varying} | {total.dtype for total in totals}
    size = max((wide_dtype(dtype).itemsize for dtype in dtypes), default=8)
    # Of a loop that is less than a register LLVM would make single numbers.
    few = Machine.host().one_vector(axis.extent, size)
    once = again or not (nested or totals) and each_place_once(loop)
    short = again and few and not nested
    if apart and not (short or once and are_packed(apart, axis, walker)):
        return None
    if nested and not stored.isdisjoint(a.buffer for a in apart):
        return None
    # Without instructions for them, masks are a branch for each number.
    least = {16: 16, 32: 4}.get(vector_bytes(), 2)
    masks = all(a.buffer.dtype.itemsize >= least for a in varying)
    masked, apart = masks and not apart, bool(apart)
    return Steps(totals, again, stores, values, size, masked, apart)


def strip_of(walker, loop, steps):
    """(how many steps a strip has, whether what is stored is loaded soon); no steps if
    the loop is shorter than a register."""
    extent, fixed = loop.axis.extent, isinstance(loop.axis.extent, int)
    least = count = shortest(steps)
    machine = Machine.host()
    # Side by side so many operations do not wait for each other, nor a total for the
    # sum before; that is worth it if not too much is written out, or computed again in
    # the last strip.
    many = 1 << int(math.log2(machine.wait / machine.op))
    short = fixed and extent < 4 * many * count
    if not any(isinstance(s, For) for s in loop.body):
        register = vector_bytes() // steps.size
        instructions = sum(weight(e)[0] for e in steps.values)
        # Several totals do not wait for each other.
        many = max(many // max(len(steps.totals), 1), 1)
        # What one strip has no registers for, several would have on the stack.
        crowded = held_at_once(steps.values) > machine.registers
        while many > 1 and (
            crowded
            or many * instructions > WRITTEN_OUT
            or not fixed
            or 8 * up_to(extent, many * register) > 9 * up_to(extent, least)
        ):
            many //= 2
        count = max(count, many * register)
    if not short:
        return count, False
    # What is stored here is loaded soon: a processor waits for a load that reaches
    # over two stores, as that of a last strip does.  In a long loop that store is done.
    around = {e for e in walker.values if type(e) is Axis}
    places = ((s.buffer.space, free_axes(s.index)) for s in steps.stores)
    soon = not steps.again
    soon = soon or any(space == "cache" or around - free for space, free in places)
    # What one step of a native loop stores, the next one loads at once.
    soon = soon or isinstance(walker.emitter, LoopWriter)
    while count > extent:
        count //= 2
    whole, few = extent % count == 0, count < least and count != extent
    if steps.totals and (extent < FEWEST_STEPS or soon and not whole):
        return 0, soon  # LLVM writes such rows out, and takes several at once.
    if few and (not soon or count < FEWEST):
        return 0, soon
    return count if count > 1 else 0, soon


def held_at_once(values):
    """How many numbers wait for their last use, at most, if operations run in order."""
    last = {e: n for n, value in enumerate(values) for e in value.children() if e.free}
    held, most = set(), 0
    for n, value in enumerate(values):
        held |= {e for e in (*value.children(), value) if last.get(e, -1) >= n}
        most = max(most, len(held))
        held = {e for e in held if last[e] > n}
    return most


def up_to(extent, count):
    """How many steps whole strips have, the last of which may reach further."""
    return -(-extent // count) * count


def shortest(steps):
    """How many steps a strip has at least, unless the loop has no more."""
    return (ACCUMULATED if steps.totals else vector_bytes()) // steps.size


def is_plain(stmt):
    """Whether lanes do the same in it, and nobody sees in which order."""
    if isinstance(stmt, For):
        return stmt.axis.kind == "reduce" and isinstance(stmt.axis.extent, int)
    if isinstance(stmt, (Start, Step)):
        return len(stmt.reduce.bodies) == 1 and total_only(stmt.reduce)
    return isinstance(stmt, (Let, Store))


def values_of(inside):
    """What statements compute, without the places in memory."""
    for stmt in inside:
        if isinstance(stmt, Step):
            yield from stmt.reduce.bodies
        elif isinstance(stmt, Store):
            yield stmt.value


def in_any_order(loads, stores):
    """Whether no step reads, or stores again, what another one has stored."""
    stored = {(store.buffer, store.index) for store in stores}
    buffers = {buffer for buffer, _ in stored}
    alike = defaultdict(set)
    for place in stored | {(e.buffer, e.index) for e in loads if e.buffer in buffers}:
        numbers = (i.value if isinstance(i, Const) else None for i in place[1])
        alike[place[0], *numbers].add(place)
    if any(len(places) > 1 and places & stored for places in alike.values()):
        return False
    # What has numbers in the same dimensions, and others, is apart from each other.
    kinds = {(first, *(n is None for n in numbers)) for first, *numbers in alike}
    return len(kinds) == len(buffers) or all(
        are_apart(place, other)
        for place, places in alike.items()
        for other in alike
        if other[0] is place[0] and other != place and places & stored
    )


def are_apart(place, other):
    """Whether two places of an array differ in a dimension where both have a number."""
    pairs = zip(place[1:], other[1:], strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def are_packed(accesses, axis, walker):
    """Whether they touch, in all steps, whole rows of few numbers, or may load them."""
    rows = defaultdict(set)
    for access in accesses:
        (row, column), stride = row_of(access), strides_of(access).get(axis)
        if not isinstance(stride, int) or not 1 < stride < PACKED:
            return False
        if access.buffer not in walker.emitter.read_only or not in_rows(row, stride):
            rows[type(access), row, stride].add(column)
    return all(
        len(piece) == n
        for (*_, n), columns in rows.items()
        for piece in pieces(columns, 1, n)
    )


@functools.cache
def stays_scalar(key):
    """Whether processors have an operation for single numbers only."""
    name, _, dtype = key
    if (form := form_of(*key)) is None:
        return name in c_functions or name in divisions and dtype.kind in "iu"
    inside = (e for e in postorder([form[1]]) if isinstance(e, Op))
    inside = (e for e in inside if e.name not in divisions or e.dtype.itemsize == 8)
    return any(stays_scalar(key_of(e)) for e in inside)


# ---- their text


class Strip(Lanes):
    """Tells a writer what the steps of one strip do.

    Attributes:
      first: the number of its first step; going: the cells of totals that go on from
        strip to strip; mask: which steps count, or None if all do; is_part: whether
        there are no others.
    """

    is_part = False

    def __init__(self, outer, loop, count, first, going, mask=None):
        super().__init__(outer, loop, count)
        self.first, self.going, self.mask = first, going, mask
        self.cells |= going

    def only(self, steps):
        """The same of its first steps only, so many that a run knows."""
        kind, count = self.emitter.type(INDEX), self.in_each_lane(INDEX, steps)
        self.mask = self.writer.do(f"icmp sgt {kind} {count}, {super().steps()}")
        self.is_part = True
        return self

    def number(self, lane):
        return self.writer.do(f"add i64 {self.first}, {lane}") if lane else self.first

    def steps(self):
        vector = self.emitter.type(INDEX)
        first = self.in_each_lane(INDEX, self.first)
        return self.writer.do(f"add {vector} {first}, {super().steps()}")

    def value(self, expr):
        """A vector; if all lanes take the same of several loads, one is loaded."""
        if where := self.place(expr):
            buffer, pointer = where
            vector = self.load_vector(buffer, pointer, self.count)
            self.values[expr] = self.as_value(buffer, vector)
        return super().value(expr)

    def place(self, expr):
        """Where the numbers lie that all lanes choose alike: (buffer, pointer).

        What is known already is not loaded again: a store may have come since.
        """
        if expr in self.values:
            return None
        if isinstance(expr, Load):
            along = self.axis in expr.free and self.follows(expr)
            return (expr.buffer, self.address(expr, 0)) if along else None
        if getattr(expr, "name", "") != "select" or self.axis in expr.args[0].free:
            return None
        if not (x := self.place(expr.args[1])) or not (y := self.place(expr.args[2])):
            return None
        condition = self.outer.value(expr.args[0])
        pointer = self.writer.do(f"select i1 {condition}, ptr {x[1]}, ptr {y[1]}")
        # What overlaps neither of two arrays may overlap what is loaded: it bears no
        # tags, neither those of the one nor of the other.
        return x[0] if x[0] is y[0] else replace(x[0]), pointer

    def known_rows(self, row):
        return self.turned, row  # Another strip has other rows.

    def streams(self, stmt):
        return False

    def loop(self, stmt):
        """A loop within each lane: LLVM would write out a short one, and so do we."""
        if stmt.axis.extent > FEWEST_STEPS:
            super().loop(stmt)
            return
        for k in range(stmt.axis.extent):
            self.one_step(stmt, str(k))

    def load_vector(self, buffer, where, count):
        if not self.is_part:
            return super().load_vector(buffer, where, count)
        dtype = storage_dtype(buffer.dtype)
        kind, mask = self.emitter.type(dtype), self.emitter.type(BOOL)
        name = f"llvm.masked.load.{overload(self.emitter, dtype)}.p0"
        given = ("ptr", where), ("i32", dtype.itemsize), (mask, self.mask)
        return self.writer.invoke(name, kind, *given, (kind, "zeroinitializer"))

    def store_vector(self, buffer, where, value, streams=False, chosen=False):
        if self.is_part:
            dtype, value = storage_dtype(buffer.dtype), self.as_memory(buffer, value)
            name = f"llvm.masked.store.{overload(self.emitter, dtype)}.p0"
            kind, mask = self.emitter.type(dtype), self.emitter.type(BOOL)
            given = f"{kind} {value}, ptr {where}, i32 {dtype.itemsize}"
            declared = f"declare void @{name}({kind}, ptr, i32, {mask})"
            self.writer.declared[declared] = None
            self.writer.line(f"call void @{name}({given}, {mask} {self.mask})")
            return
        if self.mask:
            old = self.as_value(buffer, self.load_vector(buffer, where, self.count))
            value = self.masked(self.emitter.type(buffer.dtype), value, old)
        super().store_vector(buffer, where, value, streams, chosen or bool(self.mask))

    def masked(self, kind, new, old):
        """The steps that count of a new vector, and the others of an old one."""
        mask = f"{self.emitter.type(BOOL)} {self.mask}"
        return self.writer.do(f"select {mask}, {kind} {new}, {kind} {old}")


def masked_step(lanes, stmt):
    """A step of a total; it leaves out what a mask does."""
    if not getattr(lanes, "mask", None) or stmt.reduce not in lanes.going:
        step(lanes, stmt)
        return
    cell, = lanes.cells[stmt.reduce]
    slots = [slot for slot, *_ in parts_of(cell, stmt.reduce)]
    before = [lanes.emitter.get(slot) for slot in slots]
    step(lanes, stmt)
    for slot, old in zip(slots, before, strict=True):
        new = lanes.masked(slot[0], lanes.emitter.get(slot), old)
        lanes.emitter.set(slot, new)


lane_walkers |= {Step: masked_step}


def is_row_where_told(loop, steps):
    """Whether it is a short row that lies where an array says: it is written out.

    A processor waits for such a row, and sees the next ones as far as instructions of
    the rows before are few.
    """
    if steps > MOST_STRIPS:
        return False
    exprs = postorder(expressions(loop.body))
    places = [i for e in exprs if type(e) is Load for i in e.index]
    work = [e for e in exprs if isinstance(e, Op) and loop.axis in e.free]
    return len(work) <= FEWEST_STEPS and any(loads_within(places))


def walk_strips(walker, loop, plan):
    """A loop in strips; at its end its totals become numbers."""
    writer, axis = walker.emitter, loop.axis
    count, totals, again = plan.count, plan.totals, plan.again
    outside = dict(walker.values)
    first, length = "0", axis.extent
    if span := writer.span(axis):
        first, length = span
    elif not isinstance(length, int):
        length = walker.value(length)
    fixed = isinstance(length, int)
    end = str(length) if fixed else writer.do(f"add i64 {first}, {length}")
    last = writer.do(f"sub i64 {end}, {count}") if again or fixed else None
    if again and not fixed:
        # A range may be shorter than a strip: then this one begins with the loop, and
        # stores what another thread stores as well.
        last = writer.invoke("llvm.smax.i64", "i64", ("i64", last), ("i64", "0"))
    lanes = Strip(walker, loop, count, first, {})
    for total in totals:
        start(lanes, Start(total))
    going = dict(lanes.cells)

    def strips(steps):
        if steps == 1 or fixed and is_row_where_told(loop, steps):
            for k in range(steps):
                at = min(k * count, length - count)
                Strip(walker, loop, count, str(at), going).walk(loop.body)
            return
        known = dict(walker.values)
        with writer.loop(None if span else loop, steps) as k:
            at = writer.do(f"mul nuw nsw i64 {k}, {count}")
            at = writer.do(f"add nuw nsw i64 {first}, {at}")
            if again:
                at = writer.invoke("llvm.smin.i64", "i64", ("i64", at), ("i64", last))
            Strip(walker, loop, count, at, going).walk(loop.body)
        walker.values = known  # What was computed within is not there behind.

    if fixed:
        whole, rest = divmod(length, count)
        strips(whole + (again and rest > 0))
        at = length - rest
        while plan.soon and rest:
            part = 1 << rest.bit_length() - 1
            if part > 1:
                Strip(walker, loop, part, str(at), going).walk(loop.body)
            else:  # LLVM's passes stumble over vectors of one number.
                walker.values[axis] = str(at)
                walker.block(loop.body)
            at, rest = at + part, rest - part
        if rest and not again:
            mask = ", ".join(f"i1 {int(k >= count - rest)}" for k in range(count))
            Strip(walker, loop, count, last, going, f"<{mask}>").walk(loop.body)
    else:
        more = count - 1 if again else 0
        whole = writer.do(f"add i64 {length}, {more}")
        strips(writer.do(f"udiv i64 {whole}, {count}"))
    left = not fixed and not again
    if left:
        rest = writer.do(f"urem i64 {length}, {count}")
        done = writer.do(f"sub i64 {end}, {rest}")
    if left and plan.masked:
        with writer.branch(writer.do(f"icmp sgt i64 {rest}, 0")):
            Strip(walker, loop, count, done, going).only(rest).walk(loop.body)
    for total in totals:
        join(walker, lanes, total)
    if left and not plan.masked:
        with writer.loop(None if span else loop, rest) as k:
            walker.values[axis] = writer.do(f"add nuw nsw i64 {done}, {k}")
            walker.block(loop.body)
    walker.values = outside


# ---- totals


def parts_of(cell, total):
    """The slots of a total's cell: (slot, the operation of two, their dtype)."""
    if not isinstance(cell, tuple):
        return cell.parts
    floats = wide_dtype(total.dtype).kind == "f"
    name = any_order.get(total.op, total.op) if floats else total.op
    return [(cell, name, total.dtype)]


def join(walker, lanes, total):
    """The lanes of a total become one number, which joins what was there before."""
    (cell,), (wide,) = walker.cells[total], lanes.cells[total]
    parts = zip(parts_of(cell, total), parts_of(wide, total), strict=True)
    for (slot, name, dtype), (vectors, *_) in parts:
        both = functools.partial(together, name, dtype)
        writer, value, n = walker.emitter, lanes.emitter.get(vectors), lanes.count
        kind = vectors[0].removesuffix(">").rpartition(" x ")[2]
        while n > 1:
            n //= 2
            halves = (range(n), range(n, 2 * n))
            values = [blocks.shuffled(writer, kind, 2 * n, value, "poison", half)
                      for half in halves]  # fmt: skip
            value = both(WithinKernel(writer, n), *values)
        value = writer.do(f"extractelement <1 x {kind}> {value}, i32 0")
        writer.set(slot, both(writer, writer.get(slot), value))


def together(name, dtype, emitter, x, y):
    """Two values of a total as one."""
    first, second = (Op(name, (), dtype) for name in ("first", "second"))
    walker, (expr,) = Walker(emitter), combine(name, (first,), (second,))
    walker.values |= {first: x, second: y}
    return walker.value(expr)


def walk_loop(walker, stmt):
    """A loop in strips, or all steps at once; and as it was, where neither can be."""
    writer = walker.emitter
    if not isinstance(writer, LLVMWriter):
        Walker.loop(walker, stmt)
        return
    here = writer.for_host
    if here and (free := without_guard(walker, stmt)):
        with writer.branch(walker.value(stmt.body[-1].pred)):
            walker.block([free])
    elif here and (plan := plan_of(walker, stmt)):
        writer.loops.add((stmt.axis, plan.whole))
        walk_strips(walker, stmt, plan)
    elif in_vectors(stmt):
        writer.loops.add((stmt.axis, True))
        Lanes(walker, stmt).walk(stmt.body)
    else:
        if stmt.axis.extent != 1 and not any(isinstance(s, For) for s in stmt.body):
            writer.loops.add((stmt.axis, moves_apart(stmt)))
        blocks.walk_loop(walker, stmt)


def without_guard(walker, loop):
    """A loop whose steps all ask the same, without that question; None of others.

    An update asks whether it is within its array, and its place may be known before.
    """
    *before, last = loop.body or (None,)
    guarded = isinstance(last, If) and not last.otherwise and last.pred in walker.values
    if not guarded or not all(isinstance(s, Let) for s in before):
        return None
    return For(loop.axis, (*before, *last.then))


walkers |= {For: walk_loop}
