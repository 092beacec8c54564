"""Loops of kind `vector`: all their steps at once, in registers of many lanes.

    for i in vector 16:                           # y, x: f32[1000,4]
      y[n * 16 + i, 0] = x[n * 16 + i, 3]
      ...

    %v1 = load <4 x float>, ptr %p                ; what one lane reads lies together
    ...                                           ; 16 rows, turned: 4 vectors of 16
    store <4 x float> %v90, ptr %q

An array is read and written in whole rows, one for each lane, and turned in registers:
what a lane reads at neighbouring places becomes vectors that have an element of each
lane.  To gather these elements one by one would take three times as long.
"""

import functools
import math
from collections import defaultdict
from contextlib import contextmanager

from ...compile.loops.contents import (
    loads_of, loads_within, stores_in, totals_in, updated_in,
)
from ...compile.loops.expressions import Axis, Const, Load, Op
from ...compile.loops.graphs import postorder, substitute
from ...compile.loops.index_rules import ONE
from ...compile.loops.reductions import combine
from ...compile.loops.scalars import BOOL, INDEX, is_half
from ...compile.loops.statements import (
    For, Let, Start, Step, Store, expressions, statements,
)
from ...compile.numbers.scalar_forms import scalar_form
from ...compile.schedule.machine import host_cores, host_level
from ...compile.schedule.nests import stride_along, strides_of, terms_in_memory
from ...compile.schedule.weights import weight
from ...trace.base.config import config
from ...trace.jit.jit import executors
from ..emit import Walker, walkers
from . import extremes
from .blocks import as_it_is, bits_of, exchanged, joined, shuffled, spread
from .functions import function_name, key_of, typed_text
from .instructions import instructions
from .lanes import LaneWriter, has_rare_branch, lanes_of
from .target import level_of_target, vector_bytes
from .types import memory_type, register_type


def moves_apart(loop):
    """Whether each step only moves numbers, to and from places far from those of the
    next one: LLVM has no vectors for that, and looks for them longest."""
    places = (*stores_in(loop.body), *loads_of(loop.body))
    strides = [strides_of(place).get(loop.axis, 0) for place in places]
    numbers = (e for e in postorder(expressions(loop.body)) if isinstance(e, Op))
    return (
        all(plain(s) for s in loop.body)
        and all(isinstance(n, int) and abs(n) > PACKED for n in strides)
        and all(e.dtype == INDEX for e in numbers)
    )


def in_vectors(loop):
    """Whether the steps of a loop can run at once, statement by statement."""
    if loop.axis.kind != "vector":
        return False
    return totals_in_vectors(loop) if has_totals(loop) else steps_at_once(loop)


def steps_at_once(loop):
    """Whether steps without totals can run at once."""
    axis = loop.axis
    if not all(plain(s) for s in loop.body):
        return False
    exprs = postorder(expressions(loop.body))
    accesses = [e for e in (*exprs, *loop.body) if isinstance(e, (Load, Store))]
    given = loads_within([i for access in accesses for i in access.index])
    return (
        not totals_in(loop.body)
        and not any(axis in e.free for e in given)
        and each_place_once(loop)
    )


def has_totals(loop):
    return any(isinstance(s, Step) for s in statements(loop.body))


def totals_in_vectors(loop):
    """Whether the totals of all steps can go on at once, each in a lane.

    What a total's terms load is the same in all lanes, or neighbours.
    """
    inner, axis = statements(loop.body), loop.axis
    accesses, stores = loads_of(loop.body), stores_in(loop.body)
    terms = {s.axis for s in inner if isinstance(s, For)}
    once = [e for e in accesses if axis in e.free and not e.free & terms]
    return (
        all(isinstance(s, (Start, Step, For, Let, Store)) for s in inner)
        and all(len(s.reduce.bodies) == 1 for s in inner if isinstance(s, Step))
        and not updated_in(loop.body)
        and all(follows(a, axis) for a in accesses if axis in a.free and a not in once)
        and all(isinstance(strides_of(a).get(axis), int) for a in (*once, *stores))
    )


def plain(stmt):
    return isinstance(stmt, Let) or isinstance(stmt, Store) and not stmt.combine


def each_place_once(loop):
    """Whether loads may come first and stores last: no step reads what it has stored,
    nor what it stores to, for all but vectors of neighbours.

    Places of one array are told apart by the constants in their index.
    """
    stored = {s.buffer for s in loop.body if isinstance(s, Store)}
    rows, done, named = defaultdict(set), set(), set()
    for stmt in loop.body:
        loads = [e for e in postorder(stmt.uses(), named) if type(e) is Load]
        named.update(stmt.uses() if isinstance(stmt, Let) else ())
        stores = [stmt] if isinstance(stmt, Store) else []
        for access in (*loads, *stores):
            if access.buffer not in stored:
                continue
            if follows(access, loop.axis):
                rows[access.buffer].add("whole")
                continue
            row, column = fixed_and_not(access)
            apart = any(loop.axis in i.free for i in row if i)
            adds = access is stmt and stmt.combine
            if (access.buffer, row, column) in done or not apart or adds:
                return False
            rows[access.buffer].add(row)
        alone = (s for s in stores if not follows(s, loop.axis))
        done.update((s.buffer, *fixed_and_not(s)) for s in alone)
    return all(len(found) == 1 for found in rows.values())


def follows(access, axis):
    """Whether lanes are neighbours in memory."""
    return stride_along(access, axis) == 1


def fixed_and_not(access):
    """(the parts of an index that change, those that do not)"""
    fixed = [isinstance(i, Const) for i in access.index]
    pairs = [*zip(access.index, fixed, strict=True)]
    return tuple(None if f else i for i, f in pairs), tuple(i for i, f in pairs if f)


def row_of(access):
    """(where a lane's row is, which of its elements this is)"""
    terms = dict(terms_in_memory(access.index, access.buffer))
    column = terms.pop(ONE, 0)
    return (access.buffer, frozenset(terms.items())), column


def in_rows(row, size):
    """Whether all that an access may touch lies in rows of so many numbers, one after
    the other: then the whole of a row is there to be loaded."""
    buffer, terms = row
    whole = buffer.nbytes // buffer.dtype.itemsize % size == 0
    return whole and all(n % size == 0 for _, n in terms)


def alike(loop, count):
    """The functions that a loop's vectors ask for so often that LLVM would be long over
    them: {a call: all those of the function that need not wait for each other}.

    Args:
      count: how many numbers a vector has.

    A function that reads what the loop stores is computed where it stands.
    """
    stored = {s.buffer for s in stores_in(loop.body)}
    groups, rounds, bound = defaultdict(list), {}, set()
    for e in postorder(expressions(loop.body)):
        rounds[e] = max((rounds[part] for part in e.children()), default=0)
        if type(e) is Load and e.buffer in stored or bound & {*e.children()}:
            bound.add(e)
        elif type(e) is Op and loop.axis in e.free and scalar_form(e):
            groups[rounds[e], key_of(e)].append(e)
            rounds[e] += 1
    several = [(e, g) for g in groups.values() if len(g) > 2 for e in g]
    most = WRITTEN_OUT * vector_bytes() / count  # Of a byte's width.
    return {e: g for e, g in several if len(g) * weight(e)[0] * e.dtype.itemsize > most}


@functools.cache
def any_lane(count):
    """The axis of so many lanes, whichever loop goes through them."""
    return Axis(count, "vector")


def substitute_in(row, replacement):
    """A row, as `row_of` has it, with other expressions in its index."""
    buffer, terms = row
    return buffer, frozenset((*substitute([e], replacement), n) for e, n in terms)


def pieces(columns, most, whole=0):
    """Columns in pieces that lie together: whole rows, if these have so many columns;
    else powers of two, as long as they can be."""
    columns, sizes = sorted(columns), [most >> k for k in range(most.bit_length())]
    while columns:
        together = (n for n in (whole, *sizes) if n and columns[:n] == [
            *range(columns[0], columns[0] + n)])  # fmt: skip
        size = next(together)
        yield columns[:size]
        columns = columns[size:]


# Rows of fewer numbers are read and written as whole vectors.  Longer rows take fewer
# instructions one by one, and exchanged as a square.
PACKED = 8
# Of numbers shorter than 32 bits no more bytes are put into order by one instruction.
WITHIN = 16
# Between a load and a store of one vector.  Of those, and a choice of what was loaded,
# LLVM makes a store under a mask, which takes some processors twenty cycles, and from
# which nothing is loaded until it is done.
NOTHING = 'call void asm sideeffect "", ""() nounwind memory(none)'
# So many instructions of one register are written out side by side.  LLVM takes 30 us
# for each, and a loop over alike functions costs a tenth of their time.
WRITTEN_OUT = 400
# Results of kernels begin at a multiple of so many bytes.
ALIGNED = 16


class WithinKernel(LaneWriter):
    """Writes operations of vectors into what another writer writes."""

    __slots__ = ("lanes",)  # All else is the other writer's.

    def __init__(self, writer, lanes):
        self.__dict__ = writer.__dict__
        self.lanes = lanes

    def call(self, key, values):
        """What a function computes; a long one is called, for a register at a time."""
        n = lanes_of(key[-1])
        if not has_rare_branch(key) or self.lanes % n:
            return super().call(key, values)
        self.used[key] = None
        *kinds, own = map(register_type, (*key[1], key[-1]))
        starts = range(0, self.lanes, n)
        pieces = [[self.part(vector, kind, k, n) for k in starts]
                  for kind, vector in zip(kinds, values, strict=True)]  # fmt: skip
        vectors = [f"<{n} x {kind}>" for kind in kinds]
        head = f"call <{n} x {own}> @{function_name(key)}_v{n}"
        found = [
            self.do(f"{head}({typed_text(vectors, piece)})")
            for piece in zip(*pieces, strict=True)
        ]
        return joined(self, found, own, n)

    def part(self, vector, kind, start, n):
        """n of a vector's numbers, from one on."""
        if n == self.lanes:
            return vector
        order = range(start, start + n)
        return shuffled(self, kind, self.lanes, vector, "poison", order)


def has_choice(expr):
    """Whether anything in an expression depends on a condition."""
    return any(e.dtype == BOOL for e in postorder([expr]))


class Lanes(Walker):
    """Tells a writer what statements say, for all lanes of a loop at once.

    Attributes:
      outer: the walker of the statements around the loop, whose values are numbers.
      axis: of the loop; own: how many lanes there are.
      count: the same, or as many as whole registers have.
      columns: {(row, column): (all columns of its piece, its first access)} of loads.
      loaded: the addresses of vectors that were loaded.
      alike: {a call of a function: all those that a loop computes}.
    """

    def __init__(self, outer, loop, count=None):
        self.outer, self.writer, self.axis = outer, outer.emitter, loop.axis
        self.own, self.columns, self.turned = count or loop.axis.extent, {}, {}
        self.totals, self.loaded = has_totals(loop), set()
        self.count = self.whole(loop) if self.totals else self.own
        self.alike = {} if self.totals else alike(loop, self.count)
        super().__init__(WithinKernel(self.writer, self.count))

    def whole(self, loop):
        """How many lanes registers have for totals, which go from step to step.

        LLVM keeps a vector in a register there, filled up to a power of two, or takes
        it apart, number by number, if that is no register's length.
        """
        sizes = {total.dtype.itemsize for total in totals_in(loop.body)}
        count = 1 << (self.own - 1).bit_length()
        fits = all(ALIGNED <= count * size <= vector_bytes() for size in sizes)
        loads = (e for e in loads_of(loop.body) if self.axis in e.free)
        if fits or count == self.own or not all(map(self.follows, loads)):
            return self.own
        return max(count, ALIGNED // min(sizes))

    def walk(self, body):
        """Write the statements; rows are stored when all of them are known."""
        varying = [e for e in loads_of(body) if self.axis in e.free]
        loads = self.in_pieces(e for e in varying if not self.follows(e))
        self.columns = self.in_whole_rows(loads)
        rows = []
        for stmt in body:
            if type(stmt) in lane_walkers:
                lane_walkers[type(stmt)](self, stmt)
            elif isinstance(stmt, Store):
                value = self.value(stmt.value)
                if self.follows(stmt):
                    where = self.address(stmt, 0)
                    value = self.combined(stmt, where, value)
                    chosen = where in self.loaded and has_choice(stmt.value)
                    streams = self.streams(stmt)
                    self.store_vector(stmt.buffer, where, value, streams, chosen)
                elif self.totals:
                    self.store_apart(stmt, value)
                else:
                    rows.append((stmt, value))
            elif self.axis not in stmt.expr.free:
                walkers[Let](self.outer, stmt)
            elif not self.only_index(stmt.expr):
                self.values[stmt.expr] = self.value(stmt.expr)
        self.store_rows(rows)

    def loop(self, stmt):
        """A loop within each lane, which all of them go through together."""
        with self.writer.loop(stmt, stmt.axis.extent) as counter:
            self.one_step(stmt, counter)

    def one_step(self, stmt, number):
        """A step of a loop within each lane; nothing after it knows what it loads."""
        known, before = dict(self.values), dict(self.outer.values)
        columns, turned = self.columns, dict(self.turned)
        self.outer.values[stmt.axis] = number
        self.walk(stmt.body)
        self.values, self.outer.values = known, before
        self.columns, self.turned = columns, turned

    def number(self, lane):
        """The number of a lane's step."""
        return str(lane)

    def steps(self):
        """The numbers of all lanes' steps."""
        return f"<{', '.join(f'i64 {lane}' for lane in range(self.count))}>"

    def follows(self, access):
        return follows(access, self.axis)

    def only_index(self, expr):
        """Whether an expression is arithmetic with counters, which addresses repeat."""
        index = expr.dtype == INDEX
        return index and not loads_within([expr])

    def in_pieces(self, accesses):
        """{(row, column): (the columns that lie with it, their first access)}."""
        rows, found = defaultdict(dict), {}
        for access in accesses:
            row, column = row_of(access)
            rows[row][column] = access
        for row, columns in rows.items():
            whole = self.packed(columns[min(columns)])
            for piece in pieces(columns, self.count, whole):
                found |= {(row, c): (piece, columns[piece[0]]) for c in piece}
        return found

    def in_whole_rows(self, found):
        """The same where some of a row's numbers are loaded, and the others may be."""
        for (row, c), (piece, first) in found.items():
            size = self.packed(first)
            alone = row[0] in self.writer.read_only and in_rows(row, size or 1)
            if alone and size > len(piece):
                found[row, c] = [*range(c - c % size, c - c % size + size)], first
        return found

    # Values.

    def value(self, expr):
        """The vector of an expression's values; of what lanes share, one for all."""
        if expr in self.values or expr in self.cells or isinstance(expr, Const):
            return super().value(expr)
        if self.axis not in expr.free:
            return self.spread(expr)
        if expr is self.axis:
            return self.steps()
        if isinstance(expr, Load):
            return self.load_lanes(expr)
        assert isinstance(expr, Op)
        if expr in self.alike:
            self.compute(self.alike[expr])
            return self.values[expr]
        return self.operation(expr, [self.value(arg) for arg in expr.args])

    def compute(self, calls):
        """Compute one function of several vectors, in a loop: they are on the stack."""
        first, writer = calls[0], self.emitter
        # The statements that would have named what these share may come later.
        given = [arg for e in calls for arg in e.args]
        for e in postorder(given, {*loads_within(given)}):
            if type(e) is Op:
                self.values[e] = self.value(e)
        rows = {e: [self.value(arg) for arg in e.args] for e in calls}
        # What is the same for all of them stays where it is.
        columns = enumerate(zip(*rows.values(), strict=True))
        moved = [k for k, values in columns if len({*values}) > 1]
        slots = {k: self.stack(first.args[k].dtype, len(calls)) for k in moved}
        result = self.stack(first.dtype, len(calls))
        for number, row in enumerate(rows.values()):
            for k, slot in slots.items():
                self.put(slot, number, row[k])
        with writer.loop(None, len(calls)) as number:
            row = [*rows[first]]
            for k, slot in slots.items():
                row[k] = self.taken(slot, number)
            self.put(result, number, self.operation(first, row))
        self.values |= {e: self.taken(result, n) for n, e in enumerate(calls)}

    def stack(self, dtype, count):
        """Memory for so many vectors: (the type of one, its address)."""
        kind = self.emitter.type(dtype)
        return kind, self.writer.slot(f"[{count} x {kind}]")

    def within(self, slot, number):
        return self.writer.do(f"getelementptr {slot[0]}, ptr {slot[1]}, i64 {number}")

    def put(self, slot, number, value):
        self.writer.line(f"store {slot[0]} {value}, ptr {self.within(slot, number)}")

    def taken(self, slot, number):
        return self.writer.do(f"load {slot[0]}, ptr {self.within(slot, number)}")

    def spread(self, expr):
        """A number in each lane."""
        self.values[expr] = self.in_each_lane(expr.dtype, self.outer.value(expr))
        return self.values[expr]

    def in_each_lane(self, dtype, value):
        return spread(self.writer, register_type(dtype), self.count, value)

    # Memory.

    def address(self, access, lane):
        """Where a lane's element is."""
        with self.in_lane(access, lane):
            index = self.outer.index(access)
        return self.writer.address(access.buffer, index)

    @contextmanager
    def in_lane(self, access, lane):
        """The walker outside knows a lane's numbers, of those its index is made of.

        What has been computed for all lanes is taken from there: it may have taken
        many steps, each of which uses the one before more than once.
        """
        taken = {self.axis: self.number(lane)}
        seen, todo = set(), list(access.index)
        while todo:
            expr = todo.pop()
            if expr is self.axis or expr in seen or self.axis not in expr.free:
                continue
            seen.add(expr)
            if expr in self.values:
                vector = f"{self.emitter.type(expr.dtype)} {self.values[expr]}"
                taken[expr] = self.writer.do(f"extractelement {vector}, i32 {lane}")
            else:
                todo += expr.children()
        self.outer.values |= taken
        yield
        for expr in taken:
            del self.outer.values[expr]

    def note(self, buffer):
        return f", align {buffer.dtype.itemsize}{self.writer.alias(buffer)}"

    def load_vector(self, buffer, where, count):
        kind = f"<{count} x {memory_type(buffer.dtype)}>"
        self.loaded.add(where)
        return self.writer.do(f"load {kind}, ptr {where}{self.note(buffer)}")

    def load_row(self, buffer, where):
        """The neighbours that all lanes have; those that are no lane's, as the last."""
        vector, n = self.load_vector(buffer, where, self.own), self.own
        if n == self.count:
            return vector
        order = [min(lane, n - 1) for lane in range(self.count)]
        kind = memory_type(buffer.dtype)
        return shuffled(self.writer, kind, n, vector, "poison", order)

    def combined(self, stmt, where, value):
        """What is stored at an address: with what is there already, if it has to be."""
        if not stmt.combine:
            return value
        old = Load(stmt.buffer, stmt.index)
        before = self.load_row(stmt.buffer, where)
        expr = Op(stmt.combine, (old, stmt.value), stmt.buffer.dtype)
        return self.operation(expr, [self.as_value(stmt.buffer, before), value])

    def store_apart(self, stmt, value):
        """Store an element for each lane, far from each other."""
        kind, note = memory_type(stmt.buffer.dtype), self.note(stmt.buffer)
        if not stmt.combine:
            vector = f"<{self.count} x {kind}> {self.as_memory(stmt.buffer, value)}"
            for lane, where in enumerate(self.addresses(stmt)):
                one = self.writer.do(f"extractelement {vector}, i32 {lane}")
                self.writer.line(f"store {kind} {one}, ptr {where}{note}")
            return
        vector = self.emitter.type(stmt.value.dtype)
        for lane in range(self.own):
            one = self.writer.do(f"extractelement {vector} {value}, i32 {lane}")
            self.outer.values[stmt.value] = one
            with self.in_lane(stmt, lane):
                self.outer.store(stmt)
        del self.outer.values[stmt.value]

    def as_value(self, buffer, vector):
        """What was loaded, in registers: bools are bytes in memory, and halves bits."""
        if is_half(buffer.dtype):
            return self.emitter.decode(buffer.dtype, vector)
        if buffer.dtype != BOOL:
            return vector
        return self.writer.do(f"icmp ne <{self.count} x i8> {vector}, zeroinitializer")

    def store_vector(self, buffer, where, value, streams=False, chosen=False):
        """Store a vector.

        Args:
          streams: whether past the caches; chosen: whether some of it is what is there.
        """
        value, note = self.as_memory(buffer, value), self.note(buffer)
        kind = memory_type(buffer.dtype)
        value = self.emitter.part(value, kind, 0, self.own)
        if streams:
            past = self.writer.note("!{i32 1}")
            note = f", align {ALIGNED}{self.writer.alias(buffer)}, !nontemporal {past}"
        if chosen:
            self.writer.line(NOTHING)
        vector = f"<{self.own} x {kind}> {value}"
        self.writer.line(f"store {vector}, ptr {where}{note}")

    def streams(self, stmt):
        """Whether a vector goes to memory past the caches: a whole one, from a panel.

        All of what it is stored in begins at a multiple of 16 bytes, and so does it.
        """
        buffer, size = stmt.buffer, ALIGNED // stmt.buffer.dtype.itemsize
        if self.totals or stmt.combine or buffer.space != "global":
            return False
        places = terms_in_memory(stmt.index, buffer)
        whole = all(n % size == 0 for part, n in places if part is not self.axis)
        large = buffer.nbytes >= config.fusion.stream_bytes
        return large and whole and self.follows(stmt)

    def as_memory(self, buffer, value):
        if is_half(buffer.dtype):
            return self.emitter.encode(buffer.dtype, value)
        if buffer.dtype != BOOL:
            return value
        n = self.count
        return self.writer.do(f"zext <{n} x i1> {value} to <{n} x i8>")

    def load_lanes(self, load):
        """An element for each lane."""
        if self.follows(load):
            vector = self.load_row(load.buffer, self.address(load, 0))
            return self.as_value(load.buffer, vector)
        row, column = row_of(load)
        turned, place = self.known_rows(row)
        if (place, column) not in turned:
            piece, first = self.columns[row, column]
            found = zip(piece, self.loaded_rows(first, piece), strict=True)
            turned.update(((place, c), v) for c, v in found if (row, c) in self.columns)
        return self.as_value(load.buffer, turned[place, column])

    def known_rows(self, row):
        """What has been turned, and a name for a row: (dict, name).

        Rows that nothing stores into are the same for another loop over the same lanes,
        after this one: those are known as long as what the walker outside has computed.
        """
        if row[0] not in self.writer.read_only:
            return self.turned, row
        here = {self.axis: any_lane(self.count)}.get
        return self.outer.values, (self.count, *substitute_in(row, here))

    def addresses(self, first):
        """Where each lane's row is, from an access on."""
        stride = self.stride(first)
        if stride is None:
            return [self.address(first, lane) for lane in range(self.own)]
        start, kind = self.address(first, 0), memory_type(first.buffer.dtype)
        element = f"getelementptr {kind}, ptr {start}, i64"
        return [
            self.writer.do(f"{element} {lane * stride}") for lane in range(self.own)
        ]

    def stride(self, access):
        """How far apart the lanes are in memory, if that is known now."""
        stride = strides_of(access).get(self.axis)
        return stride if isinstance(stride, int) else None

    def packed(self, access):
        """How long the lanes' rows are if they lie one after the other; 0 if not.

        Rows of so few numbers take the fewest instructions as whole vectors.
        """
        stride = self.stride(access)
        most = max(PACKED, WITHIN // access.buffer.dtype.itemsize)
        return stride if stride and 1 < stride < min(most, self.count) else 0

    def loaded_rows(self, first, piece):
        """Neighbours of each lane, as vectors that have one of each lane.

        Args:
          first: one of the loads; piece: their columns.
        """
        buffer, size = first.buffer, len(piece)
        kind = memory_type(buffer.dtype)
        if size == self.packed(first):
            n = in_register(kind, self.count)
            places = self.parts(first, size, n, row_of(first)[1] - piece[0])
            rows = [self.load_vector(buffer, where, n) for where in places]
            turning = Turning(self.writer, kind, size, n)
            blocks = [
                turning.columns(rows[k : k + size]) for k in range(0, len(rows), size)
            ]
            columns = zip(*blocks, strict=True)
            return [joined(self.writer, column, kind, n) for column in columns]
        rows = [self.load_vector(buffer, p, size) for p in self.addresses(first)]
        wide = [joined(self.writer, rows[k::size], kind, size) for k in range(size)]
        return exchanged(self.writer, wide, kind, self.count)

    def parts(self, first, size, n, column=0):
        """Where the vectors of n numbers begin that together are the rows of all lanes.

        Args:
          column: which number of a row the access loads or stores.
        """
        start, kind = self.address(first, 0), memory_type(first.buffer.dtype)
        element = f"getelementptr {kind}, ptr {start}, i64"
        places = (k - column for k in range(0, size * self.count, n))
        return [self.writer.do(f"{element} {n}") for n in places]

    def store_rows(self, stores):
        """Store what each lane has for neighbouring places: -> nothing."""
        values = {row_of(store): value for store, value in stores}
        found = self.in_pieces(store for store, _ in stores)
        for (row, column), (piece, first) in found.items():
            if column != piece[0]:
                continue
            buffer, size = first.buffer, len(piece)
            kind = memory_type(buffer.dtype)
            vectors = [self.as_memory(buffer, values[row, c]) for c in piece]
            if size == self.packed(first):
                n, wide = in_register(kind, self.count), []
                turning = Turning(self.writer, kind, size, n)
                for k in range(0, self.count, n):
                    part = [self.emitter.part(v, kind, k, n) for v in vectors]
                    wide += turning.rows(part)
                places = self.parts(first, size, n)
            else:
                n, square = size, exchanged(self.writer, vectors, kind, self.count)
                wide = [
                    self.emitter.part(square[lane % n], kind, lane - lane % n, n)
                    for lane in range(self.count)
                ]
                places = self.addresses(first)
            for where, part in zip(places, wide, strict=True):
                note = self.note(buffer)
                self.writer.line(f"store <{n} x {kind}> {part}, ptr {where}{note}")


def in_register(kind, n):
    """How many of n numbers are turned together: those that one instruction puts into
    any order; all of them if they are no multiple of that."""
    size = bits_of(kind) // 8
    count = (vector_bytes() if size >= 4 else WITHIN) // size
    return n if n % count else count


class Turning:
    """n rows of r numbers, which lie in r vectors of n, and their columns.

    As Catanzaro, Keller and Garland turn them (2014): numbers at the same place of all
    vectors are rotated among these, those of each vector put into order, and all are
    rotated again if r and n have a divisor in common.  To rotate places by different
    numbers of vectors is a choice between two vectors for each bit of these numbers; to
    merge all vectors for each column would be one for each vector.

    Attributes:
      far, farther: how many vectors on the numbers at each place come first, and last.
      named: which vector each one is meanwhile; orders: where its numbers come from.
    """

    def __init__(self, writer, kind, r, n):
        self.writer, self.kind, self.r, self.n = writer, kind, r, n
        common = math.gcd(r, n)
        self.far = [j % r for j in range(n)]
        self.farther = [j * common // n for j in range(n)]
        self.named = [(k * n - k * common // r) % r for k in range(r)]
        self.orders = [
            [((k + far) % r + j * r) % n for j, far in enumerate(self.farther)]
            for k in range(r)
        ]

    def columns(self, rows):
        """The vectors of the rows' columns, of those that together are the rows."""
        if self.r == 2:
            return [self.shuffled(*rows, range(c, 2 * self.n, 2)) for c in (0, 1)]
        rows = [rows[self.named.index(k)] for k in range(self.r)]
        rows = self.rotated(rows, self.far, -1)
        rows = map(self.shuffled, rows, ["poison"] * self.r, self.orders)
        return self.rotated([*rows], self.farther, -1)

    def rows(self, columns):
        """The vectors that together are the rows, of those of the rows' columns."""
        if self.r == 2:
            order = [k for j in range(self.n) for k in (j, j + self.n)]
            halves = order[: self.n], order[self.n :]
            return [self.shuffled(*columns, half) for half in halves]
        columns, places = self.rotated(columns, self.farther, 1), range(self.n)
        back = [sorted(places, key=order.__getitem__) for order in self.orders]
        rows = map(self.shuffled, columns, ["poison"] * self.r, back)
        rows = self.rotated([*rows], self.far, 1)
        return [rows[k] for k in self.named]

    def rotated(self, rows, far, way):
        """Vectors of which a place comes from the vector that is so far behind it."""
        for bit in range(max(far).bit_length()):
            order = [j + self.n * (away >> bit & 1) for j, away in enumerate(far)]
            others = (rows[(k + (way << bit)) % self.r] for k in range(self.r))
            rows = map(self.shuffled, rows, [*others], [order] * self.r)
            rows = [as_it_is(self.writer, row, self.kind, self.n) for row in rows]
        return rows

    def shuffled(self, x, y, order):
        return shuffled(self.writer, self.kind, self.n, x, y, order)


# ---- totals


def step(lanes, stmt):
    """What each lane adds to its total; a product and the sum are one instruction."""
    total, (cell,) = stmt.reduce, lanes.cells[stmt.reduce]
    if not isinstance(cell, tuple):
        extremes.step(lanes, stmt)
        return
    body, = total.bodies
    is_product = isinstance(body, Op) and body.name == "mul"
    known = body in lanes.values or total.dtype.kind != "f"
    if total.op == "add" and is_product and not known:
        values = [*map(lanes.value, body.args), lanes.emitter.get(cell)]
        value = instructions["muladd"](lanes.emitter, "muladd", total, values)
    else:
        new, = combine(total.op, (total,), total.bodies)
        value = lanes.value(new)
    lanes.emitter.set(cell, value)


lane_walkers = {For: lambda lanes, stmt: lanes.loop(stmt), Start: extremes.start,
                Step: step}  # fmt: skip


# ---- other targets


def without_tiles(compile):
    """The executor of a target that has no such vectors: its sums are no tiles."""

    def compiled(closed, name):
        fusion = config.fusion.but(tile_rows=0, direct_convolutions=False)
        with config.override("fusion", fusion):
            return compile(closed, name)

    return compiled


executors["python"] = without_tiles(executors["python"])


# ---- the machine that loops are priced for

host_level[0] = level_of_target
host_cores[0] = lambda: config.read("cpu_threads")
