"""A program as the nodes of a CUDA graph, and which of them wait for which.

    nodes = nodes_of(program)
    nodes.steps                 # [LaunchNode, ProductNode, LoopNode, ...]
    nodes.waits                 # for each node the numbers of those it waits for
    nodes.nbytes                # what all temporaries take, side by side or in turn

A graph has no calls: programs within programs are written out.  What waits for what is
found by memory: a node waits for those that wrote what it reads, and for those that
read or wrote what it writes.  All others may run at the same time.

A loop is a node that has nodes of its own, which the device runs again for as long as
a byte in its memory is true; a branch is one, too.  A `scan` of few steps is written
out.  What the device cannot do is a `HostNode`; it says why.
"""

import weakref
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..compile.buffers import rounded
from ..compile.expressions import Axis, Const, Load, as_index, op
from ..compile.loops import Call, Kernel, Program, Store
from ..compile.memory import Buffer
from ..compile.obstacles import kind_of
from ..compile.overwriting import nest, read_by, written_by
from ..compile.scalars import BOOL, INDEX
from ..compile.updates import with_reuse
from ..trace.jit import cache_clearers
from ..transform.branches import cond_p
from ..transform.loops import scan_p, while_p
from ..transform.pieces import split
from .cublas import Gemm, gemm_of
from .cuda_kernels import cuda_kernel
from .cuda_llvm import NoCudaForm
from .llvm_kernels import functions_of, kernel_texts
from .loading import load

# ---- memory


@dataclass(eq=False)
class Memory:
    """Memory of one array on the device.

    Attributes:
      role: `argument`, `result`, `constant` or `temporary`; or `host`: a value that
        only Python knows, such as a tape.
      number: which argument or result it is.
      value: of a constant: the NumPy array.
      offset: of a temporary: where it is among all of them.
    """

    name: str
    nbytes: int
    role: str = "temporary"
    number: int = 0
    value: object = None
    offset: int = 0

    @property
    def all(self):
        return Ref(self, 0, self.nbytes)


@dataclass(frozen=True)
class Ref:
    """Some bytes of a memory."""

    memory: Memory
    offset: int
    nbytes: int

    def part(self, start, nbytes):
        return Ref(self.memory, self.offset + start, nbytes)

    def meets(self, other):
        """Whether there is a byte that belongs to both."""
        return (
            self.memory is other.memory
            and self.offset < other.offset + other.nbytes
            and other.offset < self.offset + self.nbytes
        )


# ---- nodes


@dataclass(eq=False)
class Node:
    """Something that the device does.

    Attributes:
      reads, writes: `Ref`s.
    """

    reads: tuple
    writes: tuple

    @property
    def given(self):
        """The `Ref`s whose addresses it is told, in order."""
        return ()

    @property
    def bodies(self):
        """The lists of nodes inside it."""
        return ()


@dataclass(eq=False)
class LaunchNode(Node):
    """A kernel; `given` are its arguments."""

    name: str
    kernel: object
    arguments: tuple

    @property
    def given(self):
        return self.arguments

    def __str__(self):
        return self.name


@dataclass(eq=False)
class ProductNode(Node):
    """A product of matrices, by cuBLAS."""

    gemm: Gemm

    @property
    def given(self):
        return (*self.reads, self.writes[0])

    def __str__(self):
        return "gemm"


@dataclass(eq=False)
class CopyNode(Node):
    """Bytes from one place to another."""

    @property
    def given(self):
        return (*self.writes, *self.reads)

    def __str__(self):
        return "copy"


@dataclass(eq=False)
class LoopNode(Node):
    """Nodes that run again and again while the byte at `more` is true."""

    more: Ref
    body: list

    @property
    def bodies(self):
        return (self.body,)

    def __str__(self):
        return "loop"


@dataclass(eq=False)
class ChoiceNode(Node):
    """One of several lists of nodes: the one whose number is at `index`."""

    index: Ref
    branches: list

    @property
    def bodies(self):
        return self.branches

    def __str__(self):
        return "choice"


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

    def __str__(self):
        return f"cpu: {self.name}"


# ---- what has no form on a device

# {kernel: its `CudaKernel`}, {kernel or call: its obstacle}
cuda_kernels: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
found_obstacles: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
cache_clearers += [cuda_kernels.clear, found_obstacles.clear]


def kernel_of(kernel):
    """The `CudaKernel` of a kernel, made once; raises NoCudaForm."""
    if kernel not in cuda_kernels:
        cuda_kernels[kernel] = cuda_kernel(kernel)
    return cuda_kernels[kernel]


def obstacle(step):
    """Why a kernel or call cannot be a node of a graph, or None if it can."""
    if step not in found_obstacles:
        found_obstacles[step] = find_obstacle(step)
    return found_obstacles[step]


def find_obstacle(step):
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
    if kind == "loop":
        return first_obstacle(step.attrs["programs"])
    return f"{kind} has no form for a GPU"


def first_obstacle(programs):
    steps = (step for program in programs for step in program.body)
    return next(filter(None, map(obstacle, steps)), None)


# ---- from programs to nodes

# A scan is written out if that makes no more nodes than this.
MOST_WRITTEN_OUT = 128
# Addresses that a kernel may rely on: rows of an array begin there, or are copied.
ALIGNMENT = 16


def nbytes_of(buffer):
    return Buffer("", buffer.shape, buffer.dtype).nbytes


class NodeBuilder:
    """Writes the steps of programs down as nodes.

    Attributes:
      steps: the list that is being filled: of the graph, or of a loop inside it.
      constants: {id of an array: its `Memory`}.
    """

    def __init__(self):
        self.steps, self.depth, self.constants = [], 0, {}

    # Memory.

    def temporary(self, nbytes, name="t"):
        return Memory(name, nbytes).all

    def constant(self, value, name):
        if id(value) not in self.constants:
            # The memory keeps the array, and so its id.
            self.constants[id(value)] = Memory(name, value.nbytes, "constant", 0, value)
        return self.constants[id(value)].all

    def like(self, buffer):
        """Memory for what a buffer holds."""
        if buffer.dtype == object:
            return Memory(buffer.name, 0, "host").all
        return self.temporary(nbytes_of(buffer), buffer.name)

    def staged(self, ref):
        """The same bytes where a loop finds them: its nodes keep their addresses."""
        if self.depth or ref.memory.role not in ("argument", "result"):
            return ref
        room = self.temporary(ref.nbytes, ref.memory.name)
        self.copy(ref, room)
        return room

    def wanted(self, ref, inputs):
        """Where a loop writes a result: at its place, if it may write there."""
        if ref.memory.role == "temporary" and not any(map(ref.meets, inputs)):
            return ref
        return self.temporary(ref.nbytes, ref.memory.name)

    # Nodes.

    def copy(self, source, target):
        if source != target and source.nbytes:
            self.steps.append(CopyNode((source,), (target,)))

    def launch(self, kernel, env):
        """A kernel of the loop language as a node."""
        made = kernel_of(kernel)
        given = tuple(env[buffer] for buffer in made.args)
        loaded = read_by(kernel)
        # What it does not load it stores; some it does both.
        reads = tuple(env[b] for b in made.args if b in loaded)
        stored = stored_by(kernel)
        writes = tuple(env[b] for b in made.args if b in stored)
        names = dict.fromkeys(eqn.primitive.name for eqn in kernel.eqns)
        name = " ".join(names) or kernel.name
        self.steps.append(LaunchNode(reads, writes, name, made, given))

    def glue(self, name, env, *stmts):
        """A small kernel of our own."""
        self.launch(Kernel(name, stmts), env)

    @contextmanager
    def inside(self):
        """A list of nodes inside a loop or branch, filled meanwhile."""
        before, self.steps = self.steps, []
        self.depth += 1
        try:
            yield self.steps
        finally:
            self.steps, self.depth = before, self.depth - 1

    def nest(self, kind, ref, bodies):
        """A node with lists of nodes inside."""
        inner = [node for body in bodies for node in body]
        reads = dict.fromkeys((ref, *(r for node in inner for r in node.reads)))
        writes = dict.fromkeys(r for node in inner for r in node.writes)
        given = bodies[0] if kind is LoopNode else bodies
        self.steps.append(kind(tuple(reads), tuple(writes), ref, given))

    # Programs.

    def program(self, program, inputs, outputs):
        """The steps of a program.

        Args:
          inputs, outputs: a `Ref` each.
        """
        env = dict(zip(program.inputs, inputs, strict=True))
        for buffer, value in program.constants:
            env[buffer] = self.constant(value, buffer.name)
        again = []
        for buffer, ref in zip(program.outputs, outputs, strict=True):
            if buffer in env:
                again.append((env[buffer], ref))
            env.setdefault(buffer, ref)
        for buffer in program.temps:
            env.setdefault(buffer, self.like(buffer))
        for step in program.body:
            self.step(step, env)
        for source, target in again:
            self.copy(source, target)

    def step(self, step, env):
        reason = obstacle(step)
        if reason and kind_of_step(step) != "program":
            self.host(step, env, reason)
        elif isinstance(step, Kernel):
            self.launch(step, env)
        else:
            inputs = [env[view.buffer] for view in step.inputs]
            outputs = [env[view.buffer] for view in step.outputs]
            step_rows[kind_of(step)](self, step, inputs, outputs)

    def host(self, step, env, reason):
        """A step that the CPU runs, on copies of the arrays it needs."""
        make = host_kernel if isinstance(step, Kernel) else host_call
        inputs, outputs, run = make(step)
        sides = (tuple(env[b] for b in side) for side in (inputs, outputs))
        name = str(step.attrs["primitive"] if isinstance(step, Call) else step.name)
        self.steps.append(HostNode(*sides, name, run, (*inputs, *outputs), reason))


def kind_of_step(step):
    return None if isinstance(step, Kernel) else kind_of(step)


def stored_by(step):
    """The buffers of a program that a kernel or call writes, each once."""
    return tuple(b for b in written_by(step) if b.space == "global")


def host_call(call):
    """(buffers it reads, buffers it writes, function of arrays): a call on the CPU."""
    inputs, outputs = tuple(read_by(call)), stored_by(call)
    program = Program("host", inputs, outputs, (), (), (call,))
    return inputs, outputs, load(program, "llvm").run


def host_kernel(kernel):
    """As `host_call`; a kernel may write some elements only, so it is given all."""
    text = kernel_texts[type(kernel)](kernel)
    function = text.launcher(functions_of([text])[text.key])
    numbers, stored = [c.value for c in text.numbers], stored_by(kernel)

    def run(*arrays):
        arrays = dict(zip(text.buffers, map(np.array, arrays), strict=True))
        function(*numbers, *arrays.values())
        return [arrays[b] for b in stored]

    return text.buffers, stored, run


def build_product(builder, call, inputs, outputs):
    second, first = inputs
    gemm = gemm_of(call)
    builder.steps.append(ProductNode((first, second), tuple(outputs), gemm))


def build_program(builder, call, inputs, outputs):
    builder.program(call.attrs["program"], inputs, outputs)


def build_loop(builder, call, inputs, outputs):
    """A loop or branch; what it writes outside is copied there afterwards."""
    primitive, programs = call.attrs["primitive"], call.attrs["programs"]
    loop_rows[primitive](builder, programs, inputs, outputs, **call.attrs["params"])


# kind of call -> function(builder, call, inputs, outputs) that adds its nodes.
step_rows = {"matmul": build_product, "program": build_program, "loop": build_loop}


# ---- loops and branches


def build_cond(builder, programs, inputs, outputs, *, branches):
    index, *operands = map(builder.staged, inputs)
    results = [builder.wanted(ref, inputs) for ref in outputs]
    bodies = []
    for program in programs:
        with builder.inside() as body:
            builder.program(program, operands, results)
        bodies.append(body)
    builder.nest(ChoiceNode, index, bodies)
    for result, ref in zip(results, outputs, strict=True):
        builder.copy(result, ref)


def carries(builder, inits):
    """Memory for the carries of a loop: where they are, and where a step puts them."""
    now = [builder.temporary(init.nbytes, "now") for init in inits]
    for init, ref in zip(inits, now, strict=True):
        builder.copy(init, ref)
    return now, [builder.temporary(init.nbytes, "next") for init in inits]


def build_while(
    builder, programs, inputs, outputs, *,
    cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack,
):  # fmt: skip
    test, body = programs
    test_consts, consts, inits = split(inputs, cond_nconsts, body_nconsts)
    test_consts, consts = ([*map(builder.staged, x)] for x in (test_consts, consts))
    (now, after), more = carries(builder, inits), builder.temporary(1, "more")
    builder.program(test, [*test_consts, *now], [more])
    with builder.inside() as steps:
        builder.program(body, [*consts, *now], after)
        for new, ref in zip(after, now, strict=True):
            builder.copy(new, ref)
        builder.program(test, [*test_consts, *now], [more])
    builder.nest(LoopNode, more, [steps])
    for ref, wanted in zip(now, outputs, strict=True):
        builder.copy(ref, wanted)


def build_scan(
    builder, programs, inputs, outputs, *,
    jaxpr, length, reverse, num_consts, num_carry, unroll,
):  # fmt: skip
    (body,) = programs
    counts, rest = split(inputs, length is None)
    consts, inits, xs = split(rest, num_consts, num_carry)
    finals, ys = split(outputs, num_carry)
    scan = Scan(builder, body, num_consts + num_carry, num_carry, reverse)
    if length is not None and length * scan.size <= MOST_WRITTEN_OUT:
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
            for result, row in zip(results, made, strict=True):
                builder.copy(result, row)
            now = after
        for ref, wanted in zip(now, finals, strict=True):
            builder.copy(ref, wanted)

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
        stage = lambda refs: [*map(builder.staged, refs)]
        counts, consts, xs = stage(counts), stage(consts), stage(xs)
        made = [builder.wanted(ref, [*inits, *xs]) for ref in ys]
        now, after = carries(builder, inits)
        rows = [builder.like(b) for b in self.xs]
        results = [builder.like(b) for b in self.ys]
        count, more = Buffer("i", (), INDEX), Buffer("more", (), BOOL)
        env = {count: builder.temporary(8, "i"), more: builder.temporary(1, "more")}
        if counts:
            given = Buffer(
                "n", (), np.dtype({4: "int32", 8: "int64"}[counts[0].nbytes])
            )
            env[given] = counts[0]
            steps = as_index(Load(given, ()))
        else:
            steps = as_index(length)
        i = Load(count, ())
        at = op("sub", op("sub", steps, Const(1, INDEX)), i) if self.reverse else i
        following = op("add", i, Const(1, INDEX))
        builder.glue(
            "begin", env,
            Store(count, (), Const(0, INDEX)),
            Store(more, (), op("lt", Const(0, INDEX), steps)),
        )  # fmt: skip
        with builder.inside() as nodes:
            for x, row, b in zip(xs, rows, self.xs, strict=True):
                self.move(x, row, b, at, env, True)
            builder.program(self.body, [*consts, *now, *rows], [*after, *results])
            for y, row, b in zip(made, results, self.ys, strict=True):
                self.move(y, row, b, at, env, False)
            for new, ref in zip(after, now, strict=True):
                builder.copy(new, ref)
            builder.glue("step", env, Store(more, (), op("lt", following, steps)))
            builder.glue("count", env, Store(count, (), following))
        builder.nest(LoopNode, env[more], [nodes])
        for ref, wanted in zip((*now, *made), (*finals, *ys), strict=True):
            builder.copy(ref, wanted)

    def move(self, array, row, buffer, at, env, out_of):
        """Copy a row out of an array, or into it; the device knows which one."""
        if not row.nbytes:
            return
        rows = array.nbytes // row.nbytes
        whole = Buffer("rows", (rows, *buffer.shape), buffer.dtype)
        single = Buffer("row", buffer.shape, buffer.dtype)
        axes = tuple(map(Axis, buffer.shape))
        stmt = Store(whole, (at, *axes), Load(single, axes))
        if out_of:
            stmt = Store(single, axes, Load(whole, (at, *axes)))
        given = {**env, whole: array, single: row}
        self.builder.glue("row", given, nest(axes, stmt))


# primitive -> function(builder, programs, inputs, outputs, **params).
loop_rows = {cond_p: build_cond, while_p: build_while, scan_p: build_scan}


# ---- order, and memory


def waits_of(steps):
    """For each node the numbers of the earlier ones it waits for, and all before it.

    Returns:
      (waits, befores): lists; a number in `waits` that another one implies is left out;
      `befores` are sets of numbers, as bits.
    """
    uses: dict = {}
    waits, befores = [], []
    for i, node in enumerate(steps):
        found, before = set(), 0
        if isinstance(node, HostNode):
            found = set(range(i))
        elif i and (hosts := [j for j in range(i) if isinstance(steps[j], HostNode)]):
            found.add(hosts[-1])
        for refs, writing in ((node.reads, False), (node.writes, True)):
            for ref in refs:
                for j, other, written in uses.get(ref.memory, ()):
                    if (writing or written) and ref.meets(other):
                        found.add(j)
        direct = []
        for j in sorted(found, reverse=True):
            if not before >> j & 1:
                direct.append(j)
                before |= befores[j] | 1 << j
        waits.append(tuple(reversed(direct)))
        befores.append(before)
        for refs, writing in ((node.reads, False), (node.writes, True)):
            for ref in refs:
                uses.setdefault(ref.memory, []).append((i, ref, writing))
    return waits, befores


def place_temporaries(steps, befores):
    """Give every temporary its offset: -> how many bytes they take in all.

    Two may have the same memory if all that use the one are over before any that use
    the other begin, in whatever order the device runs what it may.
    """
    users: dict = {}
    for i, node in enumerate(steps):
        for ref in refs_within(node):
            if ref.memory.role == "temporary":
                users[ref.memory] = users.get(ref.memory, 0) | 1 << i
    common = {}
    for memory, bits in users.items():
        every = -1
        for i in range(len(steps)):
            if bits >> i & 1:
                every &= befores[i]
        common[memory] = every
    apart = lambda a, b: not users[a] & ~common[b] or not users[b] & ~common[a]
    placed, total = [], 0
    for memory in sorted(users, key=lambda m: -m.nbytes):
        end = 0
        for other in sorted(placed, key=lambda m: m.offset):
            if not apart(memory, other):
                if other.offset - end >= rounded(memory.nbytes):
                    break
                end = max(end, other.offset + rounded(other.nbytes))
        memory.offset = end
        placed.append(memory)
        total = max(total, end + rounded(memory.nbytes))
    return total


def refs_within(node):
    """The places that a node or those inside it use."""
    found = [*node.reads, *node.writes]
    for body in node.bodies:
        for inner in body:
            found += refs_within(inner)
    return found


@dataclass(eq=False)
class Nodes:
    """A program as nodes.

    Attributes:
      steps, waits: the nodes, and for each the numbers of those it waits for.
      nbytes: of all temporaries.
      arguments, results: `Memory`s; constants: those with values.
      outputs: for each result of the program the number of its memory.
      hosts: the steps of the CPU.
    """

    steps: list
    waits: list
    nbytes: int
    arguments: list
    results: list
    constants: list
    outputs: tuple
    hosts: list


def nodes_of(program):
    """The `Nodes` of a program.  Steps that the CPU runs are given whole arrays, so
    that no result may lie over what they read: then memory is not shared before.
    """
    if not any(map(obstacle, program.body)):
        program = with_reuse(program)
    arguments = [
        Memory(b.name, nbytes_of(b), "argument" if b.dtype != object else "host", i)
        for i, b in enumerate(program.inputs)
    ]
    distinct = list(dict.fromkeys(program.outputs))
    results = [
        Memory(b.name, nbytes_of(b), "result" if b.dtype != object else "host", i)
        for i, b in enumerate(distinct)
    ]
    builder = NodeBuilder()
    single = replace(program, outputs=tuple(distinct))
    builder.program(single, *([m.all for m in side] for side in (arguments, results)))
    waits, befores = waits_of(builder.steps)
    nbytes = place_temporaries(builder.steps, befores)
    outputs = tuple(distinct.index(b) for b in program.outputs)
    hosts = [node for node in builder.steps if isinstance(node, HostNode)]
    constants = list(builder.constants.values())
    return Nodes(
        builder.steps, waits, nbytes, arguments, results, constants, outputs, hosts
    )
