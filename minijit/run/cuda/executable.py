"""The executor "cuda": a whole program is one graph, launched once a call.

    with stub_driver() as device:                   # or a GPU, and no stub
        f = jit(lambda x, y: sin(x) @ y, backend="cuda")
        z = f(x, y)                                 # traced, compiled; a graph is made
        f(x, y)                                     # one launch
    print(f.lower(x, y).compile().executable.nodes)

A function runs on a GPU, too, if one of its arguments is there.
"""

import functools
import weakref
from dataclasses import replace

import numpy as np

from ...compile.control.residuals_as_arrays import with_arrays
from ...compile.decisions import noting, with_notes
from ...compile.loops.statements import Region
from ...compile.lower.walk import lower
from ...compile.memory.updates import rejoined, with_reuse
from ...compile.pipeline import device_rewrites
from ...compile.simplify.folding import simplify
from ...trace.array import ShapedArray
from ...trace.base.config import config
from ...trace.base.turns import lock
from ...trace.dtypes import ExtendedDtype, float0, storage_of
from ...trace.jaxprs.memory import memoised
from ...trace.jit.jit import cache_clearers
from ...trace.jit.jitted import shortcut_makers
from ..calls.dispatch import (
    NoShortcut, ShortcutPrinter, make_shortcut, printers,
)
from ..device.grid_totals import on_grid
from ..executable import Executable
from ..loading import load, loaders, own_rewrites, programs, rewritten
from ..reports import heading_of, kernel_names, kernel_rules
from ..values import to_array, unboxed
from .arrays import CudaArray, DeviceMemory, upload
from .driver import cuda_driver, in_use
from .executor import CudaProgram
from .graphs import DeviceProgram, adders, fill
from .loops import ChoiceNode, HostNode, LoopNode, obstacle
from .nodes import kernel_of, nodes_of, waits_of

# ---- nodes with nodes inside


def fills_of(node, address):
    """What fills each graph inside a loop or a branch: -> those nobody waits for."""

    def fill_inside(steps, graph):
        waits, _ = waits_of(steps)
        numbers, waited = fill(graph, steps, waits, address), set().union(*waits)
        return tuple(n for i, n in enumerate(numbers) if i not in waited)

    return [functools.partial(fill_inside, steps) for steps in node.bodies]


def add_loop(graph, node, waits, address):
    return graph.loop(address(node.where), waits, *fills_of(node, address))


def add_choice(graph, node, waits, address):
    return graph.choice(address(node.where), waits, fills_of(node, address))


adders |= {LoopNode: add_loop, ChoiceNode: add_choice}


# ---- programs of several graphs


class PartedProgram(DeviceProgram):
    """A program of which the CPU runs some steps, between graphs.

    Attributes:
      values: {memory: what only Python knows}, of the call that runs now.
    """

    def build(self, setting):
        """Make the graphs, once all addresses are known: -> the parts, in order."""
        parts, first, steps = [], 0, self.nodes.steps
        hosts = [i for i, node in enumerate(steps) if isinstance(node, HostNode)]
        for i in (*hosts, len(steps)):
            if i > first:
                waits = self.nodes.waits[first:i]
                waits = [[j - first for j in some if j >= first] for some in waits]
                parts.append(self.graph(setting, steps[first:i], waits).launch)
            if i < len(steps):
                parts.append(functools.partial(self.on_host, setting, steps[i]))
            first = i + 1
        return parts

    def on_host(self, setting, node):
        """Run a step of the CPU on copies, and copy its results to the device."""
        arrays = []
        for ref, buffer in zip(node.reads, node.buffers, strict=False):
            if ref.memory.role == "host":
                arrays.append(self.values[ref.memory])
                continue
            array = np.empty(buffer.shape, buffer.dtype)
            if array.nbytes:
                self.driver.read(setting.address(ref), array)
            arrays.append(array)
        for ref, result in zip(node.writes, node.run(*arrays), strict=True):
            if ref.memory.role == "host":
                self.values[ref.memory] = result
            elif ref.nbytes:
                self.driver.write(setting.address(ref), np.ascontiguousarray(result))

    def run(self, *given):
        """Launch: -> a list of the results' memories; of a tape or union the value.

        Args:
          given: a `DeviceMemory` for each argument, or a value.
        """
        pointers = [x.pointer for x in given if isinstance(x, DeviceMemory)]
        pairs = zip(self.nodes.arguments, given, strict=True)
        with self.lock:
            self.values = {memory: x for memory, x in pairs if memory.role == "host"}
            results = self.launch(pointers)
            values, self.values = self.values, {}
        memories, made = iter(results), self.nodes.results
        found = [values[m] if m.role == "host" else next(memories) for m in made]
        return [found[i] for i in self.nodes.outputs]


# ---- the executable


class GraphProgram(CudaProgram):
    """What a report wants to know of a program: there is no driver that runs it.

    What the CPU runs has a name among its `names`, and is none of its `kernels`.
    """

    def __init__(self, program, native, heading):
        program = rewritten(program, native)
        self.body, self.constants = program.body, program.constants
        self.names = [f"kernel_{i}" for i in range(len(program.kernels))]
        self.kernels = [
            kernel_of(kernel).called(name)
            for name, kernel in zip(self.names, program.kernels, strict=True)
            if not isinstance(kernel, Region) and obstacle(kernel) is None
        ]


loaders |= {"cuda": GraphProgram}
own_rewrites |= {"cuda": device_rewrites}
kernel_rules |= {"cuda": on_grid}


class CudaExecutable(Executable):
    """A program for a GPU; nothing of CUDA is asked for before it is called.

    Attributes:
      nodes: its `Nodes`; hosts: those that the CPU runs.
      on_devices: {driver: its `DeviceProgram`}; here: that of the last call.
    """

    def __init__(self, program, in_avals, out_avals, heading=str):
        self.in_avals, self.out_avals = in_avals, out_avals
        self.native = "cuda"
        # The CPU is given whole arrays: no result may lie over what a step reads.
        with config.override("fusion", program.settings), noting() as notes:
            on_cpu = any(map(obstacle, program.body))
            self.nodes = nodes_of(program if on_cpu else rejoined(with_reuse(program)))
        program = with_notes(program, notes)
        self.hosts = [n for n in self.nodes.steps if isinstance(n, HostNode)]
        reasons = {n.name: f"runs on the CPU: {n.reason}" for n in self.hosts}
        fallbacks = tuple((reasons | dict(program.fallbacks)).items())
        self.program = replace(program, fallbacks=fallbacks)
        self.loaded = load(self.program, "cuda", heading)
        self.kernels = kernel_names(self.program, "cuda")
        self.on_devices, self.here = weakref.WeakKeyDictionary(), None

    def on_device(self):
        """The `DeviceProgram` for the driver that is in use."""
        driver = cuda_driver()
        with lock:
            if driver not in self.on_devices:
                make = PartedProgram if self.hosts else DeviceProgram
                self.on_devices[driver] = make(driver, self.nodes)
            self.here = self.on_devices[driver]
        return self.here

    def run(self, *given):
        """From the memories of the arguments to those of the results: one launch."""
        here = self.here
        if here is None or not in_use or here.driver is not in_use[0]:
            here = self.on_device()
        return here.run(*given)

    def __call__(self, *leaves):
        given = map(memory_of, leaves, self.in_avals)
        return list(map(as_result, self.run(*given), self.out_avals))


def memory_of(x, aval):
    """The device memory of an argument, which is copied there if need be."""
    if type(x) is CudaArray:
        if x.memory is None:
            raise x._deleted()
        return x.memory
    value = to_array(x, aval)
    return value if value.dtype == object else upload(value).memory


def as_result(made, aval):
    """A result as an array on the device; what is no plain array is on the CPU."""
    if not isinstance(made, DeviceMemory):
        return unboxed(made, aval)
    if aval.dtype == float0:
        return unboxed(np.zeros(aval.shape, storage_of(float0)), aval)
    if isinstance(aval.dtype, ExtendedDtype):
        stored = ShapedArray(aval.shape, aval.dtype.storage)
        return unboxed(CudaArray(made, stored).numpy(), aval)
    return CudaArray(made, aval)


# ---- where a program runs


@memoised
def on_gpu(executable):
    """The same program for a GPU."""
    if executable.native != "llvm":
        return executable
    return compile_cuda(executable.closed(), executable.program.name)



class CudaShortcutPrinter(ShortcutPrinter):
    """Prints the function for arguments on a GPU."""

    def leaf(self, text, x):
        """As of any array, but what is taken is its memory on the device."""
        if type(x) is not CudaArray:
            raise NoShortcut
        super().leaf(text, x)
        self.values[-2] = self.values[-2].replace("._value", ".memory")

    def result(self, i, aval):
        if isinstance(aval.dtype, ExtendedDtype):
            raise NoShortcut
        cls = self.constant("kind", CudaArray)
        return [f"r{i} = new({cls})", f"r{i}._value = None", f"r{i}.memory = y{i}"]


printers |= {"cuda": CudaShortcutPrinter}
shortcut_makers |= {CudaExecutable: make_shortcut}


def compile_cuda(closed, name):
    """The executor "cuda", which JAX also calls "gpu"."""
    heading = functools.partial(heading_of, weakref.ref(closed))
    program = lowered(simplify(closed), name)
    return CudaExecutable(program, closed.in_avals, closed.out_avals, heading)


# {closed jaxpr: its Program, with products of 16-bit floats}
cuda_programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
cache_clearers.append(cuda_programs.clear)


def lowered(closed, name):
    """A program for a GPU: its BLAS multiplies floats of 16 bits, and large patches.

    That of the CPU does not: a program of which it has to run a step is made for both.
    """
    changed = config.fusion.but(half_products=True, direct_convolutions=False)
    with config.override("fusion", changed):
        program = with_arrays(lower(closed, name, programs=cuda_programs))
    if any(map(obstacle, program.body)):
        program = with_arrays(lower(closed, name, programs=programs))
    return program

