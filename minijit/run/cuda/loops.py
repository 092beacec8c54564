"""Loops, branches and steps of the CPU as nodes of a graph.

A loop of small steps is one kernel, whose only block goes on from step to step.  Other
loops are nodes that have nodes of their own, which the device runs again for as long
as a byte in its memory is true; branches are, too.  A `scan` of few steps is written
out.  What the device cannot do is a `HostNode`; it says why.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...compile.control.lowering import with_regions
from ...compile.control.obstacles import kind_of
from ...compile.control.watching import work_of
from ...compile.decisions import loop_rules, noted
from ...compile.loops.buffers import Buffer
from ...compile.loops.contents import axes_in
from ...compile.loops.expressions import Axis, Const, Load, as_index, op
from ...compile.loops.scalars import BOOL, INDEX
from ...compile.loops.statements import Call, Kernel, Program, Store, nested
from ...compile.memory.overwriting import written_by
from ...compile.settings import config
from ...trace.jaxprs.memory import memoised
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.while_and_scan import scan_p, while_p
from ...transform.pieces import split
from ..device.grid_memory import NoCudaForm
from ..llvm.kernels import functions_of, kernel_texts
from ..loading import load
from .kernels import BlockBuilder
from .nodes import Node, Ref, first_rows, kernel_of, nbytes_of, step_rows

# ---- nodes


@dataclass(eq=False)
class NodeAround(Node):
    """Lists of nodes; a number in memory, at `where`, says what runs."""

    where: Ref
    bodies: list


class LoopNode(NodeAround):
    """Nodes that run again and again while the byte at `where` is true."""

    name = "loop"


class ChoiceNode(NodeAround):
    """One of several lists of nodes: the one whose number is at `where`."""

    name = "choice"


@dataclass(eq=False)
class HostNode(Node):
    """What runs on the CPU: the arrays are copied there, and its results back.

    Attributes:
      name: what it is; run: a function of NumPy arrays; buffers: what these arrays
        are; reason: why it is no node of a graph.
    """

    name: str
    run: object
    buffers: tuple
    reason: str
    is_alone = True

    def __str__(self):
        return f"cpu: {self.name}"


# ---- what has no form on a device


@memoised
def obstacle(step):
    """Why a kernel or call cannot be a node of a graph, or None if it can."""
    if isinstance(step, Kernel):
        try:
            kernel_of(step)
        except NoCudaForm as error:
            return str(error)
        return None
    if any(view.buffer.dtype == object for view in (*step.inputs, *step.outputs)):
        return "a tape or union is there, which grows while the program runs"
    kind = kind_of(step)
    if kind == "matmul":
        return None
    if kind == "program":
        return first_obstacle([step.attrs["program"]])
    if kind == "loop" and step.attrs["primitive"] not in loop_rows:
        return "a stack of states is there, and only a run knows how many"
    if kind == "loop":
        return first_obstacle(step.attrs["programs"])
    return f"{kind} has no form for a GPU"


def first_obstacle(programs):
    steps = (step for program in programs for step in program.body)
    return next(filter(None, map(obstacle, steps)), None)


def on_host(builder, step, places):
    """Have the CPU run a step that has no form for a device, on copies of its arrays.

    An inner program has steps of its own, some of which may have one.
    """
    reason = obstacle(step)
    if reason is None or (isinstance(step, Call) and step.routine == "program"):
        return False
    make = host_kernel if isinstance(step, Kernel) else host_call
    inputs, outputs, run = make(step)
    sides = (tuple(places[b] for b in side) for side in (inputs, outputs))
    name = str(step.attrs["primitive"] if isinstance(step, Call) else step.name)
    builder.steps.append(HostNode(*sides, name, run, (*inputs, *outputs), reason))
    return True


first_rows.append(on_host)


def host_call(call):
    """(buffers it reads, buffers it writes, function of arrays): a call on the CPU."""
    sides = call.inputs, call.outputs
    inputs, outputs = (distinct(v.buffer for v in side) for side in sides)
    program = Program("host", inputs, outputs, (), (), (call,))
    return inputs, outputs, load(program, "llvm").run


def host_kernel(kernel):
    """As `host_call`; a kernel may write some elements only, so it is given all."""
    text = kernel_texts[type(kernel)](kernel)
    function = text.launch(functions_of([text])[text.key], *text.facts)
    written = written_by(kernel)
    stored = tuple(b for b in text.buffers if b in written)

    def run(*arrays):
        arrays = dict(zip(text.buffers, map(np.array, arrays), strict=True))
        function(*arrays.values())
        return [arrays[b] for b in stored]

    return text.buffers, stored, run


# ---- loops and branches

# Addresses that a kernel may rely on: rows of an array begin there, or are copied.
ALIGNMENT = 16


def staged(builder, refs):
    """The same bytes where a loop finds them: the nodes in it keep their addresses."""
    found = []
    for ref in refs:
        if builder.depth == 0 and ref.memory.role in ("argument", "result"):
            room = builder.temporary(ref.nbytes, ref.memory.name)
            builder.copy(ref, room)
            ref = room
        found.append(ref)
    return found


def rooms_for(builder, refs, inputs):
    """Where a loop writes its results: at their places, if it may write there."""
    may = lambda ref: ref.memory.role == "temporary" and not any(map(ref.meets, inputs))
    return [r if may(r) else builder.temporary(r.nbytes, r.memory.name) for r in refs]


@contextmanager
def inside(builder):
    """A list of nodes inside a loop or branch, filled meanwhile."""
    before, builder.steps = builder.steps, []
    builder.depth += 1
    try:
        yield builder.steps
    finally:
        builder.steps, builder.depth = before, builder.depth - 1


def add_around(builder, kind, where, bodies):
    """A node with lists of nodes inside."""
    inner = [node for body in bodies for node in body]
    reads = dict.fromkeys((where, *(r for node in inner for r in node.reads)))
    writes = dict.fromkeys(r for node in inner for r in node.writes)
    builder.steps.append(kind(tuple(reads), tuple(writes), where, bodies))


def glue(builder, name, places, *stmts):
    """A small kernel of our own."""
    builder.launch(Kernel(name, stmts), places)


def copy_all(builder, sources, targets):
    for source, target in zip(sources, targets, strict=True):
        builder.copy(source, target)


def build_cond(builder, programs, inputs, outputs, *, branches):
    index, *operands = staged(builder, inputs)
    results = rooms_for(builder, outputs, inputs)
    bodies = []
    for program in programs:
        with inside(builder) as body:
            builder.program(program, operands, results)
        bodies.append(body)
    add_around(builder, ChoiceNode, index, bodies)
    copy_all(builder, results, outputs)


def carries(builder, inits):
    """Memory for the carries of a loop: where they are, and where a step puts them."""
    now = [builder.temporary(init.nbytes, "now") for init in inits]
    copy_all(builder, inits, now)
    return now, [builder.temporary(init.nbytes, "next") for init in inits]


def build_while(
    builder, programs, inputs, outputs, *,
    cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack,
):  # fmt: skip
    test, body = programs
    test_consts, consts, inits = split(inputs, cond_nconsts, body_nconsts)
    test_consts, consts = (staged(builder, x) for x in (test_consts, consts))
    # With `stack` the loop counts its steps; one that fills tapes is not for a device.
    finals, counts = split(outputs, len(inits))
    counted = [Counter(builder, ref) for ref in counts]
    (now, after), more = carries(builder, inits), builder.temporary(1, "more")
    builder.program(test, [*test_consts, *now], [more])
    with inside(builder) as steps:
        builder.program(body, [*consts, *now], after)
        copy_all(builder, after, now)
        for counter in counted:
            counter.step()
        builder.program(test, [*test_consts, *now], [more])
    add_around(builder, LoopNode, more, [steps])
    made = *now, *(counter.place for counter in counted)
    copy_all(builder, made, outputs)


class Counter:
    """A number on the device that counts the steps of a loop, as large as `ref`."""

    def __init__(self, builder, ref):
        self.builder, self.place = builder, builder.temporary(ref.nbytes, "count")
        self.buffer = Buffer("count", (), integer_of(ref))
        now, one = Load(self.buffer, ()), Const(1, self.buffer.dtype)
        self.following = op("add", now, one)
        self.set("begin", Const(0, self.buffer.dtype))

    def set(self, name, value):
        places = {self.buffer: self.place}
        glue(self.builder, name, places, Store(self.buffer, (), value))

    def step(self):
        self.set("count", self.following)


def integer_of(ref):
    """The dtype of a number of steps at some place."""
    return np.dtype({4: "int32", 8: "int64"}[ref.nbytes])


def build_scan(
    builder, programs, inputs, outputs, *,
    jaxpr, length, reverse, num_consts, num_carry, unroll,
):  # fmt: skip
    (body,) = programs
    counts, rest = split(inputs, length is None)
    consts, inits, xs = split(rest, num_consts, num_carry)
    finals, ys = split(outputs, num_carry)
    scan = Scan(builder, body, num_consts + num_carry, num_carry, reverse)
    few = length is not None and length * scan.size <= config.fusion.most_nodes
    if noted("nodes of steps" if few else "counted steps", builder.call):
        scan.written_out(length, consts, inits, xs, finals, ys)
    else:
        scan.looped(counts, length, consts, inits, xs, finals, ys)


class Scan:
    """A scan: its body, and how many of the body's inputs and results are no rows."""

    def __init__(self, builder, body, first_x, first_y, reverse):
        self.builder, self.body, self.reverse = builder, body, reverse
        self.xs, self.ys = body.inputs[first_x:], body.outputs[first_y:]
        self.carries = body.outputs[:first_y]
        self.size = len(body.body) + len(self.xs) + len(self.ys)

    def written_out(self, length, consts, inits, xs, finals, ys):
        """A step after the other; rows are read and written where they are."""
        builder, now = self.builder, inits
        for i in reversed(range(length)) if self.reverse else range(length):
            last = i == (0 if self.reverse else length - 1)
            after = finals if last and now is not inits else None
            rows = [self.row(x, b, i) for x, b in zip(xs, self.xs, strict=True)]
            made = [self.row(y, b, i) for y, b in zip(ys, self.ys, strict=True)]
            given = [self.aligned(row) for row in rows]
            results = [self.aligned(row, False) for row in made]
            # A carry that the scan collects, too, is where it is collected.
            collected = dict(zip(self.ys, results, strict=True))
            after = after or [
                collected.get(b) or builder.temporary(nbytes_of(b), "carry")
                for b in self.carries
            ]
            builder.program(self.body, [*consts, *now, *given], [*after, *results])
            copy_all(builder, results, made)
            now = after
        copy_all(builder, now, finals)

    def row(self, ref, buffer, i):
        nbytes = nbytes_of(buffer)
        return ref.part(i * nbytes, nbytes)

    def aligned(self, row, filled=True):
        """A row, or a copy of it that begins where a kernel may expect it."""
        if row.offset % ALIGNMENT == 0:
            return row
        room = self.builder.temporary(row.nbytes, "row")
        if filled:
            self.builder.copy(row, room)
        return room

    def looped(self, counts, length, consts, inits, xs, finals, ys):
        """The device counts the steps; rows are copied to and from where a step is."""
        builder = self.builder
        counts, consts, xs = (staged(builder, x) for x in (counts, consts, xs))
        made = rooms_for(builder, ys, [*inits, *xs])
        now, after = carries(builder, inits)
        rows = [builder.like(b) for b in self.xs]
        results = [builder.like(b) for b in self.ys]
        counter = Counter(builder, builder.temporary(8))
        count, more = counter.buffer, Buffer("more", (), BOOL)
        env = {count: counter.place, more: builder.temporary(1, "more")}
        if counts:
            given = Buffer("n", (), integer_of(counts[0]))
            env[given], length = counts[0], Load(given, ())
        steps = as_index(length)
        i, following = Load(count, ()), counter.following
        at = op("sub", op("sub", steps, Const(1, INDEX)), i) if self.reverse else i
        first = Store(more, (), op("lt", Const(0, INDEX), steps))
        glue(builder, "begin", env, first)
        with inside(builder) as nodes:
            for x, row, b in zip(xs, rows, self.xs, strict=True):
                self.move(x, row, b, at, env, True)
            builder.program(self.body, [*consts, *now, *rows], [*after, *results])
            for y, row, b in zip(made, results, self.ys, strict=True):
                self.move(y, row, b, at, env, False)
            copy_all(builder, after, now)
            glue(builder, "step", env, Store(more, (), op("lt", following, steps)))
            counter.step()
        add_around(builder, LoopNode, env[more], [nodes])
        copy_all(builder, (*now, *made), (*finals, *ys))

    def move(self, array, row, buffer, at, env, out_of):
        """Copy a row out of an array, or into it; the device knows which one."""
        if not row.nbytes:
            return
        rows = array.nbytes // row.nbytes
        whole = Buffer("rows", (rows, *buffer.shape), buffer.dtype)
        single = Buffer("row", buffer.shape, buffer.dtype)
        axes = tuple(map(Axis, buffer.shape))
        sides = (single, axes), (whole, (at, *axes))
        into, source = sides if out_of else reversed(sides)
        stmt = Store(*into, Load(*source))
        given = {**env, whole: array, single: row}
        glue(self.builder, "row", given, *nested(axes, [stmt]))


loop_rules |= {
    "small steps of a loop": (
        True, "all steps of a loop that do little are one block's", "block_step"
    ),
    "large steps of a loop": (
        False, "one block would be slow: a graph begins each step", "block_step"
    ),
    "nodes of steps": (True, "so few steps follow each other in a graph", "most_nodes"),
    "counted steps": (False, "the device counts so many steps", "most_nodes"),
}  # fmt: skip

# primitive -> function(builder, programs, inputs, outputs, **params).
loop_rows = {cond_p: build_cond, while_p: build_while, scan_p: build_scan}


@memoised
def in_one_block(call):
    """A program in which a loop is one kernel of one block; None if it has no form."""
    sides = (tuple(v.buffer for v in x) for x in (call.inputs, call.outputs))
    single = Program("loop", *map(distinct, sides), (), (), (call,))
    program = with_regions(single, BlockBuilder)
    region, = program.kernels
    # The device would count steps of which only a run knows how many there are.
    known = all(isinstance(axis.extent, int) for axis in axes_in(region.body))
    whole = known and not obstacle(region)
    return program if whole else None


def distinct(buffers):
    return tuple(dict.fromkeys(buffers))


def build_loop(builder, call, inputs, outputs):
    """A loop or branch; what it writes outside is copied there afterwards."""
    primitive, programs = call.attrs["primitive"], call.attrs["programs"]
    work = sum(map(work_of, programs))
    small = work <= config.fusion.block_step
    steps = "small steps of a loop" if small else "large steps of a loop"
    noted(steps, call, operations=work)
    if small and (program := in_one_block(call)):
        sides = zip((call.inputs, call.outputs), (inputs, outputs), strict=True)
        places = ({v.buffer: x for v, x in zip(*s, strict=True)} for s in sides)
        builder.program(program, *(list(found.values()) for found in places))
        return
    builder.call = call
    loop_rows[primitive](builder, programs, inputs, outputs, **call.attrs["params"])


step_rows |= {"loop": build_loop}
