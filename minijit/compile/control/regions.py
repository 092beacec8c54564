"""Regions: the statements of a loop or branch, with all that is inside of it.

    while:                              # a Region of `lax.while_loop`
      s0[] = (n0[] < 10)                # its test: a program, its steps one by one
      if not s0[]: break
      for i0 in 4:                      # its body: the kernels of another program
        t1[i0] = t0[i0] * 2.0
      swap t0, t1

A program is a list of kernels and calls on arrays, written by `lower` for arrays of its
own.  A `RegionBuilder` writes these steps down again where the program is run, on the
*places* that a region has for them: a number is in a register, an array in a buffer,
and what one step of a scan reads or writes is a part of a buffer.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ..decisions import loop_rules, noted
from ..loops.buffers import Buffer
from ..loops.expressions import Axis, Const, Load, as_index, op
from ..loops.kernel_buffers import local_buffers, opened
from ..loops.statements import Kernel, Look, Store, nested
from ..memory.moved import Known, Moved
from ..memory.overwriting import placed_once
from ..memory.updates import plan_within
from ..settings import config
from .obstacles import kind_of

loop_rules |= {
    "room in memory": (
        False, "the stack has no room for another array", "stack_bytes"
    ),
    "watched": (True, "a long loop looks for signals now and then", "between_looks"),
}  # fmt: skip



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

    def start(self, offset=0):
        """How many elements of the buffer stand before the one at an offset."""
        offset = as_index(offset)
        for i, stride in zip(self.prefix, self.buffer.strides, strict=False):
            offset = op("add", offset, op("mul", i, as_index(stride)))
        return offset.value if isinstance(offset, Const) else offset


@dataclass(frozen=True)
class Carry:
    """Where a carry is when a step begins, and where the step leaves it."""

    now: Part
    next: Part


# ---- what is written, and in which buffers


class RegionBody:
    """The statements of a region while they are written, and the buffers for them.

    Attributes:
      first: the statements that it begins with.
      blocks: lists of statements: the innermost one is being filled.
      rooms: the buffers for what lies between.
      constants: {id of an array: (buffer, array)}.
      call: the `Call` that becomes the region.
      root: the builder of the region, if this is that of a function.
      attached: the `Attached` of each tape or union that it takes or gives.
      shared: the programs that become functions, once that is known.
      functions: {(program, how what it is given is the same): its `Function`}.
    """

    # The kinds of calls that become regions; later modules add to them.
    kinds = {"loop"}

    @property
    def largest_stack(self):
        """How many bytes are on the stack at most."""
        return config.fusion.stack_bytes

    def __init__(self, prefix, call=None):
        self.prefix, self.call, self.root = prefix, call, self
        self.first, self.blocks, self.stack = [], [[]], 0
        self.rooms, self.constants = [], {}
        self.attached, self.shared, self.functions = [], None, {}

    def add(self, *stmts):
        self.blocks[-1].extend(stmts)

    @contextmanager
    def block(self):
        """A new list of statements, filled by what is built meanwhile."""
        self.blocks.append([])
        yield self.blocks[-1]
        self.blocks.pop()

    @property
    def body(self):
        """All statements built so far."""
        return opened((*self.first, *self.blocks[0]))

    def set(self, where, value):
        """A number in a register, or at a place, becomes another one."""
        self.add(where.store((), value))

    def hold(self, value):
        """What an expression is now, as an expression that stays that."""
        number = self.number(value.dtype)
        self.set(number, value)
        return number.load()

    def watch(self, work):
        """Look for signals, after a step that computes so much."""
        if self.root.call:
            noted("watched", self.root.call)
        self.add(Look(as_index(work)))

    def buffer(self, shape, dtype, space):
        """A new buffer."""
        name = f"{self.prefix}{'t' if shape else 's'}{len(self.rooms)}"
        self.rooms.append(Buffer(name, shape, dtype, space=space))
        return self.rooms[-1]

    def room(self, shape, dtype):
        """Where a value between steps goes."""
        size = Buffer("", shape, dtype).nbytes
        small = self.stack + size <= self.largest_stack
        if not small and self.root.call:
            noted("room in memory", self.root.call, bytes=size)
        self.stack += size if small else 0
        return Part(self.buffer(shape, dtype, "register" if small else "global"))

    def number(self, dtype):
        return Part(self.buffer((), np.dtype(dtype), "register"))

    def constant(self, buffer, value):
        """The place of a constant of a program."""
        if buffer.shape == ():
            return Known(Const(value[()], buffer.dtype))
        if id(value) not in self.constants:
            name = f"{self.prefix}c{len(self.constants)}"
            own = Buffer(name, buffer.shape, buffer.dtype)
            self.constants[id(value)] = own, value
        return Part(self.constants[id(value)][0])

    def copy(self, source, targets):
        """A copy of a value to several places."""
        targets = [t for t in targets if t != source]
        if targets:
            copiers[type(targets[0])](self, source, targets)

    def program(self, program, inputs, outputs):
        """The steps of a program, or a call of the function that they are.

        Args:
          inputs: for each input its place.
          outputs: for each output a tuple of places; it is written to all of them.
        """
        for call in calls_of_functions:
            if call(self, program, inputs, outputs):
                return
        self.inline(program, inputs, outputs)

    def overwriting(self, program, inputs, outputs):
        """(program, over, places): its steps ordered to overwrite inputs.

        `over` has {buffer: the one whose memory it takes}, and `places` those of the
        inputs, and of what lies over them.
        """
        places = {b: (p,) for b, p in zip(program.inputs, inputs, strict=True)}
        pairs = [
            (old, new)
            for old, where in zip(program.inputs, inputs, strict=True)
            for new, wanted in zip(program.outputs, outputs, strict=True)
            if old.shape and where in wanted
        ]
        found = plan_within(program, *pairs)
        for new, old in found.over.items():
            if old in places:
                places[new] = places[old][:1]
        return found.program, found.over, places

    def with_others(self, program, places):
        """The places that there are, and those of constants, tapes and unions."""
        for buffer, value in program.constants:
            places[buffer] = (self.constant(buffer, value),)
        places = {buffer: where for buffer, where in places.items() if where}
        for give_places in placers:
            give_places(self, program, places)
        return places

    def lacks_room(self, program, buffer, places):
        """Whether a buffer has no place, or is a number on the way to one."""
        number = buffer.shape == () and buffer in program.temps
        return buffer.dtype != object and (number or buffer not in places)


def lie_over(over, places):
    """Give each buffer of `over` the place of the one whose memory it takes."""
    for buffer in over:
        first = buffer
        while first not in places:
            first = over[first]
        places.setdefault(buffer, places[first][:1])


def each_element(builder, where, value):
    """Store `value(index)` at each index of a place."""
    if 0 not in where.shape:
        axes = tuple(map(Axis, where.shape))
        builder.add(*nested(axes, [where.store(axes, value(axes))]))


def copy_array(builder, source, targets):
    """The copy of an array, element by element, or of a number."""
    for target in targets:
        each_element(builder, target, source.load)


# type of a place -> function(builder, source, targets): copies a value.
copiers = {Part: copy_array}
# Functions(builder, program, places) that add to the places, before its steps.
placers: list = []
# Functions(builder, program, inputs, outputs): whether they have built its run.
calls_of_functions: list = []


def arguments(call, places):
    """(the places of its inputs, for each output a tuple of places)"""
    inputs = [places[view.buffer][0] for view in call.inputs]
    return inputs, [places[view.buffer] for view in call.outputs]


def build_call(builder, call, places):
    """An inner program where it is called."""
    builder.program(call.attrs["program"], *arguments(call, places))


def build_loop(builder, call, places):
    """A loop or a branch: at the top of a region, or within another one."""
    build, programs = loop_builders[call.attrs["primitive"]], call.attrs["programs"]
    build(builder, programs, *arguments(call, places), **call.attrs["params"])


# kind of call -> function(builder, call, places) that builds its statements.
call_builders = {"program": build_call, "loop": build_loop}
# primitive -> function(builder, programs, inputs, outputs, **params).
loop_builders: dict = {}


# chapter 21
# ---- the builder


class RegionBuilder(RegionBody):
    """Builds the statements of one region."""

    def places(self, program, inputs, outputs):
        """(program, {buffer: its places}): where its steps read and write."""
        program, over, places = self.overwriting(program, inputs, outputs)
        for buffer, wanted in zip(program.outputs, outputs, strict=True):
            places[buffer] = places.get(buffer, ()) + tuple(wanted)
        places = self.with_others(program, places)
        for buffer in (*program.temps, *program.outputs):
            if buffer not in over and self.lacks_room(program, buffer, places):
                room = self.room(buffer.shape, buffer.dtype)
                places[buffer] = (room, *places.get(buffer, ()))
        lie_over(over, places)
        return program, places

    def inline(self, program, inputs, outputs):
        """The steps of a program where it is run: see `program`."""
        program, places = self.places(program, inputs, outputs)
        for step in program.body:
            if isinstance(step, Kernel):
                body = placed_once(step)
                for b in local_buffers(body):
                    places[b] = (self.room(b.shape, b.dtype),)
                moved = Moved(places, body)
                self.add(*moved.scope(body))
                for first, *others in map(places.get, moved.late):
                    self.copy(first, others)
            else:
                call_builders[kind_of(step)](self, step, places)
