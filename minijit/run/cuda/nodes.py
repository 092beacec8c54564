"""A program as the nodes of a CUDA graph, and which of them wait for which.

    nodes = nodes_of(program)
    nodes.steps                 # [LaunchNode, ProductNode, CopyNode, ...]
    nodes.waits                 # for each node the numbers of those it waits for
    nodes.nbytes                # what all temporaries take, side by side or in turn

A graph has no calls: programs within programs are written out.  What waits for what is
found by memory: a node waits for those that wrote what it reads, and for those that
read or wrote what it writes.  All others may run at the same time.
"""

import operator
from dataclasses import dataclass, replace
from functools import reduce

from ...compile.control.obstacles import kind_of
from ...compile.decisions import noting
from ...compile.loops.statements import Kernel
from ...compile.memory.arena import placed_in_order, rounded
from ...compile.memory.overwriting import read_by, written_by
from ...trace.jaxprs.memory import memoised
from ..device.grid_totals import with_parts
from .cublas import Gemm, gemm_of
from .kernels import CudaKernel, cuda_kernel


# ---- from programs to nodes

@memoised
def kernel_of(kernel):
    """The `CudaKernel` of a kernel, made once; raises NoCudaForm."""
    return cuda_kernel(kernel)


def nbytes_of(buffer):
    """How many bytes a buffer takes on a device; a tape or union is not there."""
    return 0 if buffer.dtype == object else buffer.nbytes


def role_of(buffer, role):
    return "host" if buffer.dtype == object else role


class NodeBuilder:
    """Writes the steps of programs down as nodes.

    Attributes:
      steps: the list that is being filled.
      depth: how many loops are around it.
      constants: {id of an array: its `Memory`, which keeps the array, and so its id}.
      call: the loop or branch whose nodes are built now, or None.
    """

    def __init__(self):
        self.steps, self.depth, self.constants, self.call = [], 0, {}, None

    def temporary(self, nbytes, name="t"):
        return Memory(name, nbytes).all

    def constant(self, value, name):
        memory = Memory(name, value.nbytes, "constant", value)
        return self.constants.setdefault(id(value), memory).all

    def like(self, buffer):
        """Memory for what a buffer holds."""
        return Memory(buffer.name, nbytes_of(buffer), role_of(buffer, "temporary")).all

    def copy(self, source, target):
        if source != target and source.nbytes:
            self.steps.append(CopyNode((source,), (target,)))

    def launch(self, kernel, places):
        """A kernel of the loop language as a node.

        Args:
          places: {buffer: `Ref`}.
        """
        made, loaded, stored = kernel_of(kernel), read_by(kernel), written_by(kernel)
        given = tuple(places[b] for b in made.args)
        reads = tuple(places[b] for b in made.args if b in loaded)
        writes = tuple(places[b] for b in made.args if b in stored)
        names = dict.fromkeys(eqn.primitive.name for eqn in kernel.eqns)
        name = " ".join(names) or kernel.name
        self.steps.append(LaunchNode(reads, writes, name, made, given))

    def program(self, program, inputs, outputs):
        """The steps of a program.

        Args:
          inputs, outputs: a `Ref` each; no output is an input.
        """
        with noting():
            # `GraphProgram` says the same of the kernels, to those who ask.
            program = with_parts(program)
        places, again = dict(zip(program.inputs, inputs, strict=True)), []
        for buffer, value in program.constants:
            places[buffer] = self.constant(value, buffer.name)
        for buffer, ref in zip(program.outputs, outputs, strict=True):
            if buffer in places:
                again.append((places[buffer], ref))
            places.setdefault(buffer, ref)
        for buffer in program.temps:
            places.setdefault(buffer, self.like(buffer))
        for step in program.body:
            self.step(step, places)
        for source, target in again:
            self.copy(source, target)

    def step(self, step, places):
        """The nodes of one kernel or call."""
        for row in first_rows:
            if row(self, step, places):
                return
        if isinstance(step, Kernel):
            self.launch(step, places)
            return
        sides = (
            [places[v.buffer] for v in side] for side in (step.inputs, step.outputs)
        )
        step_rows[kind_of(step)](self, step, *sides)


def build_product(builder, call, inputs, outputs):
    """A product of matrices; cuBLAS is given the factors the other way round."""
    node = ProductNode((inputs[1], inputs[0]), tuple(outputs), gemm_of(call))
    builder.steps.append(node)


def build_program(builder, call, inputs, outputs):
    """The steps of an inner program; what it writes over its inputs is copied there."""
    made = [
        builder.temporary(ref.nbytes) if any(map(ref.meets, inputs)) else ref
        for ref in outputs
    ]
    builder.program(call.attrs["program"], inputs, made)
    for source, target in zip(made, outputs, strict=True):
        builder.copy(source, target)


# kind of call -> function(builder, call, inputs, outputs) that adds its nodes.
step_rows = {"matmul": build_product, "program": build_program}
# Functions(builder, step, places): whether they have built the nodes of a step.
first_rows: list = []


# ---- memory


@dataclass(eq=False)
class Memory:
    """Memory of one array on the device.

    Attributes:
      role: `argument`, `result`, `constant` or `temporary`; or `host`: a value that
        only Python knows, such as a tape.
      value: of a constant: the NumPy array.
      offset: of a temporary: where it is among all of them.
    """

    name: str
    nbytes: int
    role: str = "temporary"
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
      name: what it does.
      reads, writes: `Ref`s.
      given: the `Ref`s whose addresses it is told, in order.
      bodies: the lists of nodes inside it, whose `reads` and `writes` are its own, too.
      is_alone: whether nothing else may run meanwhile.
    """

    reads: tuple
    writes: tuple
    given, bodies, is_alone = (), (), False

    def __str__(self):
        return self.name


@dataclass(eq=False)
class LaunchNode(Node):
    """A kernel; `given` are its arguments."""

    name: str
    kernel: CudaKernel
    given: tuple


@dataclass(eq=False)
class ProductNode(Node):
    """A product of matrices, by cuBLAS."""

    gemm: Gemm
    name = "gemm"

    @property
    def given(self):
        return (*self.reads, self.writes[0])


@dataclass(eq=False)
class CopyNode(Node):
    """Bytes from one place to another."""

    name = "copy"

    @property
    def given(self):
        return (*self.writes, *self.reads)


# chapter 27
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
        found = {j for j in range(i) if node.is_alone or steps[j].is_alone}
        used = [(ref, False) for ref in node.reads]
        used += [(ref, True) for ref in node.writes]
        for ref, writing in used:
            for j, other, written in uses.get(ref.memory, ()):
                if (writing or written) and ref.meets(other):
                    found.add(j)
        direct, before = [], 0
        for j in sorted(found, reverse=True):
            if not before >> j & 1:
                direct.append(j)
                before |= befores[j] | 1 << j
        waits.append(tuple(reversed(direct)))
        befores.append(before)
        for ref, writing in used:
            uses.setdefault(ref.memory, []).append((i, ref, writing))
    return waits, befores


def place_temporaries(steps, befores):
    """Give every temporary its offset: -> how many bytes they take in all.

    Two may have the same memory if all that use the one are over before any that use
    the other begin, in whatever order the device runs what it may.
    """
    users: dict = {}
    for i, node in enumerate(steps):
        for ref in (*node.reads, *node.writes):
            if ref.memory.role == "temporary":
                users[ref.memory] = users.get(ref.memory, 0) | 1 << i
    memories = sorted(users, key=lambda m: -m.nbytes)
    sizes, common = [rounded(m.nbytes) for m in memories], {}
    for memory, bits in users.items():
        after = (b for i, b in enumerate(befores) if bits >> i & 1)
        common[memory] = reduce(operator.and_, after)

    meet = [[users[a] & ~common[b] and users[b] & ~common[a] for b in memories]
            for a in memories]
    offsets = placed_in_order(range(len(sizes)), sizes, meet)
    for k, memory in enumerate(memories):
        memory.offset = offsets[k]
    return max((offsets[k] + sizes[k] for k in offsets), default=0)


# chapter 27, brought along
@dataclass(eq=False)
class Nodes:
    """A program as nodes.

    Attributes:
      steps, waits: the nodes, and for each the numbers of those it waits for.
      nbytes: of all temporaries.
      arguments, results: `Memory`s; constants: those with values.
      outputs: for each result of the program the number of its memory.
    """

    steps: list
    waits: list
    nbytes: int
    arguments: list
    results: list
    constants: list
    outputs: tuple


def nodes_of(program):
    """The `Nodes` of a program."""
    outputs = list(dict.fromkeys(program.outputs))
    arguments, results = (
        [Memory(b.name, nbytes_of(b), role_of(b, role)) for b in side]
        for side, role in ((program.inputs, "argument"), (outputs, "result"))
    )
    builder = NodeBuilder()
    single = replace(program, outputs=tuple(outputs))
    builder.program(single, *([m.all for m in side] for side in (arguments, results)))
    waits, befores = waits_of(builder.steps)
    nbytes = place_temporaries(builder.steps, befores)
    numbers = tuple(map(outputs.index, program.outputs))
    constants = list(builder.constants.values())
    return Nodes(builder.steps, waits, nbytes, arguments, results, constants, numbers)
