"""Loops and branches as statements of the loop IR: `while`, `scan` and `cond` lowered.

    print(with_regions(lower(make_jaxpr(
        lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * c + 1, x))(2.0))))
    # program main(in0: f32[]):
    #   temp s0: f32[], s1: bool[], s2: f32[]
    #   output out0: f32[]
    #   while:
    #     s0[] = in0[]
    #     while:
    #       s1[] = s0[] < 100.0
    #       if not s1[]: break
    #       s2[] = (s0[] * s0[]) + 1.0
    #       s0[] = s2[]
    #     out0[] = s0[]

A loop that no Python has to drive is, after `lower`, a `Call` on arrays, with a program
for its body.  Here it becomes a `Region`: the statements of the body in a loop, and the
loops and branches in the body inside of that.  What has no axes is in a register.  A
carry with axes is updated in place where each element depends on no other element of
it; otherwise there are two of it, which swap their storage after every step.

The statements of kernels are placed before they come here: what `plan` has found out
about the order of their loads and stores is so what runs.
"""

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..compile.expressions import Axis, Const, Load, as_index, op, postorder, substitute
from ..compile.loops import (
    Call,
    Fail,
    For,
    Function,
    If,
    Kernel,
    Let,
    Look,
    Region,
    Reserve,
    Start,
    Step,
    Store,
    Swap,
    While,
    after_pass,
    expressions,
    statements,
)
from ..compile.memory import Buffer, View
from ..compile.place import place
from ..compile.scalars import BOOL
from ..trace.array import ShapedArray
from ..transform import steps as loop_steps
from ..transform.branches import cond_p
from ..transform.loops import scan_p, while_p
from ..transform.pieces import split
from .interrupts import BETWEEN_LOOKS, work_of
from .lane_blocks import block_size, lanes_of
from .native_control import kind_of, programs_of, steps_of
from .overwriting import copied_by, nest, plan
from .python_source import NEST, nestable

# ---- where values are


@dataclass(frozen=True)
class Part:
    """A buffer, or the part of one at the first indices `prefix`."""

    buffer: Buffer
    prefix: tuple = ()

    @property
    def shape(self):
        return self.buffer.shape[len(self.prefix) :]

    @property
    def dtype(self):
        return self.buffer.dtype

    def load(self, index=()):
        return Load(self.buffer, (*self.prefix, *index))

    def store(self, index, value, combine=None):
        return Store(self.buffer, (*self.prefix, *index), value, combine)

    def row(self, i):
        """The part at index i of the first axis."""
        return Part(self.buffer, (*self.prefix, i))

    def reader(self, builder):
        """From a step of a scan to the place of what that step reads."""
        return self.row

    def writer(self, builder, steps):
        """From a step of a scan to the place of what that step writes."""
        return self.row

    def start(self, offset):
        """How many elements of the buffer stand before the one at an offset."""
        for i, stride in zip(self.prefix, self.buffer.strides, strict=False):
            offset = op("add", offset, op("mul", i, as_index(stride)))
        return offset


@dataclass(frozen=True)
class Known:
    """A number that is a constant."""

    value: Const
    shape = prefix = ()

    @property
    def dtype(self):
        return self.value.dtype

    def load(self, index=()):
        return self.value


# Arrays within a region of up to so many bytes are on the stack, if they fit there.
SMALL_ROOM, LARGEST_STACK = 1 << 12, 1 << 16


class RegionBuilder:
    """Builds the statements of one region.

    Attributes:
      first: the statements that its tables begin with.
      blocks: lists of statements: the innermost one is being filled.
      rooms: the buffers for what lies between.
      constants: {id of an array: (buffer, array)}.
      known: what was found out about steps that write results over arguments.
      attached: the `Attached` of each tape or union that it takes or gives.
      shared: the programs that become functions.
      functions: {(program, how what it is given is the same): its `Function`}.
      root: the builder of the region, if this is that of a function.
    """

    nest = staticmethod(nest)

    def __init__(self, prefix):
        self.prefix, self.first, self.attached = prefix, [], []
        self.blocks, self.rooms, self.constants, self.known = [[]], [], {}, {}
        self.stack, self.shared, self.functions = 0, frozenset(), {}
        self.root = self

    def add(self, *stmts):
        self.blocks[-1].extend(stmts)

    @contextmanager
    def block(self):
        """A new list of statements, filled by what is built meanwhile."""
        self.blocks.append([])
        yield self.blocks[-1]
        self.blocks.pop()

    @contextmanager
    def at_start(self):
        """What is built meanwhile stands at the beginning of the region."""
        self.blocks.append(self.first)
        yield
        self.blocks.pop()

    def set(self, where, value):
        """A number in a register, or at a place, becomes another one."""
        self.add(where.store((), value))

    def hold(self, value):
        """What an expression is now, as an expression that stays that."""
        number = self.number(value.dtype)
        self.set(number, value)
        return number.load()

    def nests(self, axes, body):
        """Statements in loops over some axes, all of them in the innermost one."""
        for axis in reversed(axes):
            body = (For(axis, tuple(body)),)
        return body

    def table(self, shape, dtype):
        """A buffer that has as many rows as it takes."""
        name = f"{self.prefix}t{len(self.rooms)}"
        self.rooms.append(Buffer(name, (0, *shape), dtype, space="table"))
        return self.rooms[-1]

    def room(self, shape, dtype):
        """Where a value between steps goes."""
        size = Buffer("", shape, dtype).nbytes
        small = size <= SMALL_ROOM and self.stack + size <= LARGEST_STACK
        self.stack += size if small else 0
        name = f"{self.prefix}{'t' if shape else 's'}{len(self.rooms)}"
        space = "register" if small else "global"
        self.rooms.append(Buffer(name, shape, dtype, space=space))
        return Part(self.rooms[-1])

    def number(self, dtype):
        return self.room((), np.dtype(dtype))

    def constant(self, buffer, value):
        """A constant of a program."""
        if buffer.shape == ():
            return Known(Const(value[()], buffer.dtype))
        if id(value) not in self.constants:
            name = f"{self.prefix}c{len(self.constants)}"
            own = Buffer(name, buffer.shape, buffer.dtype)
            self.constants[id(value)] = own, value
        return Part(self.constants[id(value)][0])

    def watch(self, work):
        self.add(Look(as_index(work)))

    def copy(self, source, targets):
        """A copy of a value to several places."""
        targets = [t for t in targets if t != source]
        if targets and 0 not in source.shape:
            axes = tuple(map(Axis, source.shape))
            stores = [t.store(axes, source.load(axes)) for t in targets]
            self.add(*(nest(axes, store) for store in stores))

    def program(self, program, inputs, outputs):
        """The steps of a program, or a call of the function that they are.

        Args:
          inputs: for each input its place.
          outputs: for each output a tuple of places; it is written to all of them.
        """
        if program in self.shared:
            self.call_function(program, inputs, outputs)
        else:
            self.inline(program, inputs, outputs)

    def call_function(self, program, inputs, outputs):
        """A call of a program's function, which is made at its first call."""
        outputs = [
            tuple(wanted) or (self.room(buffer.shape, buffer.dtype),)
            for buffer, wanted in zip(program.outputs, outputs, strict=True)
        ]
        number, taken, made = {}, {}, {}

        def numbers(where, found):
            """A place as the numbers of the arrays and tables that it consists of."""
            atoms, rebuild = flatteners[type(where)](self, where)
            for atom in atoms:
                number.setdefault(atom, len(number))
                found[atom] = None
                if not isinstance(where, (Part, Known)):
                    # What says where a tape or union is, is read in any case.
                    taken[atom] = None
            return tuple(number[atom] for atom in atoms), rebuild

        given = [numbers(where, taken) for where in inputs]
        wanted = [[numbers(w, made) for w in wanted] for wanted in outputs]
        rows = {x.buffer for x in number if isinstance(x, Part)}
        if rows & number.keys():
            # A row of a table that the function makes longer would be left behind.
            self.inline(program, inputs, outputs)
            return
        key = (
            program,
            tuple(key for key, _ in given),
            tuple(tuple(key for key, _ in several) for several in wanted),
        )
        if key not in self.functions:
            self.functions[key] = self.function(program, list(number), given, wanted)
        views = {x: view_of(x) if isinstance(x, Part) else x for x in number}
        attrs = dict(function=self.functions[key], given=tuple(views.values()))
        sides = [
            tuple(views[x] for x in side if isinstance(x, Part))
            for side in (taken, made)
        ]
        self.add(Call("function", *sides, attrs))

    def in_memory(self, where):
        """A constant in a register."""
        number = self.number(where.dtype)
        self.set(number, where.load())
        return number

    def function(self, program, atoms, given, wanted):
        """The function of a program, for arrays and tables of these kinds.

        Args:
          atoms: what it is given, each once.
          given, wanted: for its inputs and outputs functions that make a place out of
            {atom: its param}.
        """
        prefix = f"{self.prefix}f{len(self.functions)}_"
        own = RegionBuilder(prefix)
        own.shared, own.functions, own.known = self.shared, self.functions, self.known
        own.constants, own.rooms, own.root = self.constants, self.rooms, self.root
        params = {}
        for i, x in enumerate(atoms):
            space = "global" if isinstance(x, Part) else x.space
            params[x] = Buffer(f"{prefix}p{i}", x.shape, x.dtype, space=space)
        inputs = [rebuild(params) for _, rebuild in given]
        outputs = [tuple(rebuild(params) for _, rebuild in w) for w in wanted]
        own.inline(program, inputs, outputs)
        body = (*own.first, *own.blocks[0])
        params = tuple(params[x] for x in atoms)
        inside = [b for b in buffers_in(body) if b.space != "register"]
        captures = tuple(b for b in inside if b not in params)
        return Function(prefix.rstrip("_"), params, captures, body)

    def inline(self, program, inputs, outputs):
        """The steps of a program where it is run: see `program`."""
        places = {b: (p,) for b, p in zip(program.inputs, inputs, strict=True)}
        pairs = [
            (old, new)
            for old, where in zip(program.inputs, inputs, strict=True)
            for new, wanted in zip(program.outputs, outputs, strict=True)
            if old.shape and where in wanted
        ]
        overwriting = plan(program, pairs, self.known)
        program = overwriting.program
        for new, old in overwriting.over.items():
            places[new] = places[old][:1]
        for buffer, wanted in zip(program.outputs, outputs, strict=True):
            places[buffer] = places.get(buffer, ()) + tuple(wanted)
        for buffer, value in program.constants:
            places[buffer] = (self.constant(buffer, value),)
        places = {buffer: where for buffer, where in places.items() if where}
        for give_places in placers:
            give_places(self, program, places)
        for buffer in (*program.temps, *program.outputs):
            where = places.get(buffer, ())
            number = buffer.shape == () and buffer in program.temps
            if buffer.dtype != object and (number or not where):
                places[buffer] = (self.room(buffer.shape, buffer.dtype), *where)
        for step in program.body:
            if isinstance(step, Kernel):
                body = place(step.body, NEST, nestable)
                self.add(*Moved(places).block(body))
            else:
                call_builders[kind_of(step)](self, step, places)


class Moved:
    """Placed statements on the places that buffers have in a region.

    Attributes:
      places: {buffer: a tuple of places}; it is read from the first one.
      new: {expression: what became of it}.
      named: the expressions that a `Let` here or around has computed.
    """

    def __init__(self, places):
        self.places, self.new, self.named = places, {}, frozenset()

    def exprs(self, exprs):
        return substitute(list(exprs), self.load, self.new)

    def load(self, expr):
        if type(expr) is not Load or expr.buffer not in self.places:
            return None
        where = self.places[expr.buffer][0]
        return where.load(self.exprs(expr.index))

    def block(self, body):
        """The statements; a total that became another's equal has one step."""
        found, outside = [], self.named
        for stmt in body:
            for new in self.statement(stmt):
                steps = [s.reduce for s in found if type(s) is Step]
                if type(new) is Let:
                    if new.expr not in self.named:
                        found.append(new)
                    self.named |= {new.expr}
                elif type(new) is not Step or new.reduce not in steps:
                    found.append(new)
        self.named = outside
        return tuple(found)

    def statement(self, stmt):
        match stmt:
            case Let():
                return [Let(*self.exprs([stmt.expr]))]
            case Start() | Step():
                return [type(stmt)(*self.exprs([stmt.reduce]))]
            case Store():
                return self.stores(stmt)
            case For():
                body = self.block(stmt.body)
                return [For(stmt.axis, body)] if body else []
            case If():
                pred, = self.exprs([stmt.pred])
                then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
                return [If(pred, then, otherwise)] if then or otherwise else []
        raise TypeError(f"no statement of a placed kernel: {stmt!r}")

    def stores(self, stmt):
        """A store into each of the places of a result, but no element onto itself."""
        wheres, source = self.places[stmt.buffer], copied_by(stmt)
        if source is not None:
            wheres = [w for w in wheres if w != self.places[source][0]]
        *index, value = self.exprs([*stmt.index, stmt.value])
        stores = [w.store(index, value, stmt.combine) for w in wheres]
        if len(stores) > 1 and value.children():
            return [Let(value), *stores]
        return stores


# Functions(builder, program, places) that add to the places, before its steps.
placers: list = []


def view_of(where):
    """A part of a buffer as a view."""
    strides = Buffer("", where.shape, where.dtype).strides
    return View(where.buffer, where.shape, strides, where.start(as_index(0)))


# type of a place -> function(builder, place) -> (the parts of buffers, and the tables,
# that it consists of, function of {each of them: a buffer} that makes the place again).
flatteners = {
    Part: lambda builder, where: ([where], lambda params: Part(params[where])),
    Known: lambda builder, where: (
        [number := builder.in_memory(where)], lambda params: Part(params[number])
    ),
}


def buffers_in(body):
    """The buffers that statements use, and the functions that they call, in order."""
    found = {}
    for stmt in statements(body):
        match stmt:
            case Store():
                found[stmt.buffer] = None
            case Swap():
                found |= dict.fromkeys((stmt.first, stmt.second))
            case Reserve():
                found[stmt.table] = None
            case Call():
                views = stmt.attrs.get("given") or (*stmt.outputs, *stmt.inputs)
                found |= dict.fromkeys(getattr(v, "buffer", v) for v in views)
                if stmt.routine == "function":
                    found |= dict.fromkeys(stmt.attrs["function"].captures)
    loads = (e for e in postorder(expressions(body)) if isinstance(e, Load))
    return list(found | dict.fromkeys(e.buffer for e in loads))


def build_call(builder, call, places):
    """An inner program where it is called."""
    inputs = [places[view.buffer][0] for view in call.inputs]
    outputs = [places[view.buffer] for view in call.outputs]
    builder.program(call.attrs["program"], inputs, outputs)


def build_inner_loop(builder, call, places):
    """A loop or a branch within another one."""
    inputs = [places[view.buffer][0] for view in call.inputs]
    outputs = [places[view.buffer] for view in call.outputs]
    build = loop_builders[call.attrs["primitive"]]
    build(builder, call.attrs["programs"], inputs, outputs, **call.attrs["params"])


def build_matmul(builder, call, places):
    """A product of matrices, or of each pair in a batch of them."""
    axes = tuple(map(Axis, call.outputs[0].shape[:-2]))

    def matrix(view):
        where, offset = places[view.buffer][0], as_index(view.offset)
        for axis, stride in zip(axes, view.strides, strict=False):
            offset = op("add", offset, op("mul", axis, as_index(stride)))
        shape, strides = view.shape[-2:], view.strides[-2:]
        return View(where.buffer, shape, strides, where.start(offset))

    sides = (tuple(map(matrix, views)) for views in (call.inputs, call.outputs))
    builder.add(nest(axes, Call("matmul", *sides, {}, call.eqns)))
    for view in call.outputs:
        first, *others = places[view.buffer]
        builder.copy(first, others)


# kind of call -> function(builder, call, places) that builds its statements.
call_builders = {
    "program": build_call,
    "loop": build_inner_loop,
    "matmul": build_matmul,
}


# ---- loops and branches


@dataclass(frozen=True)
class Carry:
    """Where a carry is when a step begins, and where the step leaves it."""

    now: Part
    next: Part


class Carries:
    """The carries of one loop: where they are, from the first step to the last."""

    def __init__(self, builder, body, buffers, inits, results):
        """Build what comes before the loop.

        Args:
          body: the `Program` of a step; buffers: its inputs that are carries.
          inits: the places of the initial values; results: tuples of places.
        """
        self.builder, self.results, self.all = builder, results, []
        pairs = list(zip(buffers, body.outputs, strict=False))
        in_place = plan(body, pairs, builder.known).pairs
        for pair, init, wanted in zip(pairs, inits, results, strict=True):
            carry = self.carry(pair[0], pair in in_place, wanted)
            builder.copy(init, [carry.now])
            self.all.append(carry)

    def carry(self, source, in_place, wanted):
        builder, shape, dtype = self.builder, source.shape, source.dtype
        if shape and in_place:
            where = wanted[0] if wanted else builder.room(shape, dtype)
            return Carry(where, where)
        return Carry(builder.room(shape, dtype), builder.room(shape, dtype))

    @property
    def now(self):
        return [carry.now for carry in self.all]

    @property
    def next(self):
        return [(carry.next,) for carry in self.all]

    def step(self):
        """The end of a step: what was new is what the next one begins with."""
        for carry in self.all:
            if carry.now.shape and carry.now != carry.next:
                self.builder.add(Swap(carry.now.buffer, carry.next.buffer))
            else:
                self.builder.copy(carry.next, [carry.now])

    def finish(self):
        """What comes after the loop."""
        for carry, wanted in zip(self.all, self.results, strict=True):
            self.builder.copy(carry.now, wanted)


def build_while(
    builder, programs, inputs, outputs, *,
    cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack,
):  # fmt: skip
    """A `While` whose condition is computed by statements, too."""
    test, body = programs
    test_consts, consts, inits = split(inputs, cond_nconsts, body_nconsts)
    finals, counts, ys = split(outputs, len(inits), 1 if stack else 0)
    carries = Carries(builder, body, body.inputs[body_nconsts:], inits, finals)
    tapes = [wanted[0].recording(builder) for wanted in ys]
    if stack:
        steps = builder.number("int32")
        builder.set(steps, Const(0, steps.buffer.dtype))
    goes_on = builder.number(BOOL)
    with builder.block() as before:
        builder.program(test, [*test_consts, *carries.now], [(goes_on,)])
    with builder.block() as step:
        rows = [(tape.next_item(),) for tape in tapes]
        builder.program(body, [*consts, *carries.now], [*carries.next, *rows])
        carries.step()
        for tape in tapes:
            tape.step()
        if stack:
            count_step(builder, steps)
        builder.watch(work_of(test) + work_of(body))
    builder.add(While(tuple(before), goes_on.load(), tuple(step)))
    carries.finish()
    for tape in tapes:
        tape.finish()
    for wanted in counts:
        builder.copy(steps, wanted)


def count_step(builder, steps):
    """One step more, if there may be one more."""
    count, most = steps.load(), loop_steps.MOST_STEPS
    last = op("eq", count, Const(most, count.dtype))
    builder.add(Fail(last, loop_steps.too_many_steps()))
    builder.set(steps, op("add", count, Const(1, count.dtype)))


def build_scan(
    builder, programs, inputs, outputs, *,
    jaxpr, length, reverse, num_consts, num_carry, unroll,
):  # fmt: skip
    """A `For`; xs are read, and ys written, in the row of its axis."""
    body, = programs
    counts, rest = split(inputs, length is None)
    consts, inits, xs = split(rest, num_consts, num_carry)
    finals, ys = split(outputs, num_carry)
    buffers = body.inputs[num_consts : num_consts + num_carry]
    carries = Carries(builder, body, buffers, inits, finals)
    steps = as_index(counts[0].load() if counts else length)
    readers = [x.reader(builder) for x in xs]
    writers = [[y.writer(builder, steps) for y in wanted] for wanted in ys]
    if length != 0:
        with steps_of_scan(builder, steps, length, reverse, body) as i:
            targets = [tuple(at(i) for at in writer) for writer in writers]
            given = [*consts, *carries.now, *(at(i) for at in readers)]
            builder.program(body, given, [*carries.next, *targets])
            carries.step()
    carries.finish()


@contextmanager
def steps_of_scan(builder, steps, length, reverse, body):
    """The loop of a scan; of a long scan in parts, between which it looks for signals.

    A part is a loop that LLVM can vectorise.  Around another loop it would only be one
    more level: such a scan looks at each step.

    Args:
      steps: how many, as an expression; length: as a number, if it is known.
      body: the program of one step.

    Yields:
      The index of the step, while what is built is the body.
    """
    work = work_of(body)
    size = max(BETWEEN_LOOKS // work, 1)
    short = length is not None and length <= size
    nested = any(call.routine == "loop" for call in body.calls)
    outer, axis = None, Axis(steps if length is None else length, "serial")
    i = axis
    if not short and not nested:
        parts = op("floordiv", op("add", steps, as_index(size - 1)), as_index(size))
        outer = Axis(parts if length is None else parts.value, "serial")
        first = op("mul", outer, as_index(size))
        left = op("min", op("sub", steps, first), as_index(size))
        axis = Axis(left, "serial")
        i = op("add", first, axis)
    if reverse:
        i = op("sub", op("sub", steps, as_index(1)), i)
    with builder.block() as step:
        yield i
        if nested and not short:
            builder.watch(work)
    loop = For(axis, tuple(step))
    if outer is not None:
        loop = For(outer, (Look(op("mul", left, as_index(work))), loop))
    builder.add(loop)


def build_cond(builder, programs, inputs, outputs, *, branches):
    """`If`s: the last branch is what no other one is."""
    index, *operands = inputs

    def choice(k):
        with builder.block() as body:
            builder.program(programs[k], operands, outputs)
        if k == len(programs) - 1:
            return tuple(body)
        this = index.load()
        pred = op("eq", this, Const(k, this.dtype))
        return (If(pred, tuple(body), choice(k + 1)),)

    builder.add(*choice(0))


# ---- scans over arrays larger than the caches


def build_scan_by_blocks(builder, programs, inputs, outputs, **params):
    """A scan, in blocks of lanes if it has lanes and they pay: see `lane_blocks`."""
    (body,) = programs
    size = block_size(body, params)
    if size is None:
        build_scan(builder, programs, inputs, outputs, **params)
        return
    n = lanes_of(body, params)
    block = Axis(-(-n // size), "serial")
    first = op("mul", block, as_index(size))
    left = op("min", op("sub", as_index(n), first), as_index(size))
    with builder.block() as scan:
        build_scan(builder, programs, inputs, outputs, **params)
    builder.add(For(block, tuple(part_of_lanes(stmt, first, left) for stmt in scan)))


def part_of_lanes(stmt, first, count):
    """A statement of a scan, for `count` lanes from the first one on."""
    if not isinstance(stmt, For):
        return stmt
    if stmt.axis.kind == "serial":
        body = tuple(part_of_lanes(inner, first, count) for inner in stmt.body)
        return For(stmt.axis, body)
    lane = Axis(count, stmt.axis.kind)
    index, known = op("add", first, lane), {}

    def exprs(roots):
        return substitute(roots, lambda e: index if e is stmt.axis else None, known)

    body = tuple(inner.rewrite(exprs, lambda b: b) for inner in stmt.body)
    return For(lane, body)


loop_builders = {cond_p: build_cond, while_p: build_while, scan_p: build_scan_by_blocks}


# ---- programs


def with_regions(program):
    """A program in which every loop that no Python drives is a `Region`."""
    body, temps, constants = [], list(program.temps), list(program.constants)
    for step in program.body:
        if isinstance(step, Call) and kind_of(step) == "loop":
            region, builder = region_of(step, f"r{len(body)}_")
            constants += builder.constants.values()
            temps += builder.rooms
            step = region
        body.append(step)
    if body == list(program.body):
        return program
    new = replace(
        program, body=tuple(body), temps=tuple(temps), constants=tuple(constants)
    )
    for function in after_pass:
        function(new)
    return new


def array_of(builder, view, aval):
    """The place of an argument or a result that is an array."""
    return Part(view.buffer)


# type of a value -> function(builder, view, aval): where an argument, or a result, is.
arguments_of = {ShapedArray: array_of}
results_of = {ShapedArray: array_of}


def region_of(call, prefix):
    """The `Region` of a call of a loop, and what built it."""
    builder = RegionBuilder(prefix)
    builder.shared = shared_programs(call)
    (eqn,) = call.eqns
    inputs = [
        arguments_of[type(atom.aval)](builder, view, atom.aval)
        for view, atom in zip(call.inputs, eqn.invars, strict=True)
    ]
    outputs = [
        (results_of[type(var.aval)](builder, view, var.aval),)
        for view, var in zip(call.outputs, eqn.outvars, strict=True)
    ]
    primitive = call.attrs["primitive"]
    build = loop_builders[primitive]
    build(builder, call.attrs["programs"], inputs, outputs, **call.attrs["params"])
    body = (*builder.first, *builder.blocks[0])
    functions = tuple(builder.functions.values())
    tables = tuple(builder.attached)
    return Region(primitive.name, body, call.eqns, tables, functions), builder


# How many kernels and calls a function has to save.
WORTH_A_CALL = 8


def shared_programs(call):
    """The programs within a loop that occur several times, and are worth a call."""
    times, todo = Counter(), [call]
    while todo:
        for program in programs_of(todo.pop()):
            if program not in times:
                todo += program.calls
            times[program] += 1
    return frozenset(
        program
        for program, n in times.items()
        if n > 1 and (n - 1) * steps_of(program) >= WORTH_A_CALL
    )
