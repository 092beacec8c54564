"""The executor "cuda": a whole program is one graph, launched once a call.

    with stub_driver() as device:                   # or a GPU, and no stub
        f = jit(lambda x, y: sin(x) @ y, backend="cuda")
        z = f(x, y)                                 # traced, compiled; a graph is made
        f(x, y)                                     # one launch
    print(f.lower(x, y).compile().executable.nodes)

Telling a GPU to run one kernel costs a program some microseconds; a kernel on a small
array is done in less.  So the kernels, products and copies of a program are told once,
with all that each waits for, as a graph; a call launches that.  When a call gets other
arrays than the one before, the nodes that read them are told their addresses first.
"""

import functools
import threading
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from ..compile.loops import Region
from ..compile.lower import lower
from ..compile.simplify import simplify
from ..trace.array import ShapedArray
from ..trace.config import config
from ..trace.dtypes import ExtendedDtype, float0, storage_of
from ..trace.jit import cache_clearers, executors, shortcut_makers
from ..trace.turns import lock
from .cache_folder import write_source
from .cuda import ORDINARY
from .cuda_arrays import CudaArray, DeviceMemory, pool_of, upload
from .cuda_driver import cuda_driver, in_use
from .cuda_nodes import (
    ChoiceNode,
    CopyNode,
    HostNode,
    LaunchNode,
    LoopNode,
    ProductNode,
    kernel_of,
    nodes_of,
    obstacle,
    waits_of,
)
from .dispatch import (
    NoShortcut,
    ShortcutPrinter,
    make_shortcut,
    printers,
    the_aval,
)
from .executable import Executable
from .loading import load, loaders, programs, rewritten
from .reports import heading_of, kernel_names, kernel_routes, places
from .values import to_array, unboxed

# ---- a program on a device


def fill(graph, steps, waits, address):
    """Add nodes to a graph of a driver: -> their numbers there.

    Args:
      waits: for each node the positions of those it waits for; address: of a `Ref`.
    """
    numbers = []
    for node, before in zip(steps, waits, strict=True):
        waited = tuple(numbers[i] for i in before)
        numbers.append(adders[type(node)](graph, node, waited, address))
    return numbers


def add_kernel(graph, node, waits, address):
    return graph.kernel(node.kernel, list(map(address, node.given)), waits)


def add_product(graph, node, waits, address):
    return graph.product(node.gemm, list(map(address, node.given)), waits)


def add_copy(graph, node, waits, address):
    target, source = map(address, node.given)
    return graph.copy(target, source, node.reads[0].nbytes, waits)


def filling(steps, address):
    """What fills the graph inside a loop or a branch: -> those nobody waits for."""

    def fill_inside(graph):
        waits, _ = waits_of(steps)
        numbers, waited = fill(graph, steps, waits, address), set().union(*waits)
        return tuple(n for i, n in enumerate(numbers) if i not in waited)

    return fill_inside


def add_loop(graph, node, waits, address):
    return graph.loop(address(node.more), waits, filling(node.body, address))


def add_choice(graph, node, waits, address):
    fills = [filling(body, address) for body in node.branches]
    return graph.choice(address(node.index), waits, fills)


# type of a node -> function(graph, node, waits, address) that adds it: its number.
adders = {
    LaunchNode: add_kernel,
    ProductNode: add_product,
    CopyNode: add_copy,
    LoopNode: add_loop,
    ChoiceNode: add_choice,
}


class Use:
    """A node of a graph that is told where an argument or a result is.

    Attributes:
      pointers: all that it was told.
    """

    def __init__(self, ready, number, pointers):
        self.ready, self.number, self.pointers = ready, number, pointers

    def tell(self):
        self.ready.rebind(self.number, self.pointers)


class DeviceProgram:
    """A program on one device: its memory, its graphs, and where they read and write.

    Attributes:
      parts: functions that launch a graph, or run a step of the CPU.
      bases: {memory: where it is}, of all but temporaries.
      bound: the addresses of arguments and results in the last call.
      uses: for each of these a list of (`Use`, which of its pointers, bytes to add).
      values: {memory: what only Python knows}, of the call that runs now.
    """

    def __init__(self, driver, nodes):
        self.driver, self.nodes, self.lock = driver, nodes, threading.Lock()
        pool, self.graphs, self.bound = pool_of(driver), [], None
        # At the end of the process the driver gives everything back itself.
        weakref.finalize(self, close_all, self.graphs).atexit = False
        self.arena = pool.take(nodes.nbytes)
        self.constants = [upload(memory.value) for memory in nodes.constants]
        pairs = zip(nodes.constants, self.constants, strict=True)
        self.bases = {memory: array.memory.pointer for memory, array in pairs}
        everything = *nodes.arguments, *nodes.results
        self.outside = [m for m in everything if m.role != "host"]
        self.has_values = len(self.outside) < len(everything)
        self.values: dict = {}
        self.uses = [[] for _ in self.outside]
        results = (m for m in nodes.results if m.role != "host")
        self.takes = [pool.home(m.nbytes).take for m in results]
        # Two of each are in the pool from here on: when the second call begins, the
        # results of the first are still there.
        [take() for take in self.takes * 2]
        self.in_order = nodes.outputs == tuple(range(len(self.takes)))

    def address(self, ref):
        """Where some bytes are on the device."""
        memory = ref.memory
        if memory.role == "temporary":
            return self.arena.pointer + memory.offset + ref.offset
        return self.bases[memory] + ref.offset

    def build(self):
        """Make the graphs, once all addresses are known: -> the parts, in order."""
        parts, first, steps = [], 0, self.nodes.steps
        hosts = [i for i, node in enumerate(steps) if isinstance(node, HostNode)]
        for i in (*hosts, len(steps)):
            if i > first:
                waits = self.nodes.waits[first:i]
                waits = [[j - first for j in some if j >= first] for some in waits]
                parts.append(self.graph(steps[first:i], waits).launch)
            if i < len(steps):
                parts.append(functools.partial(self.on_host, steps[i]))
            first = i + 1
        return parts

    def graph(self, steps, waits):
        """Some nodes as a graph that is ready."""
        graph = self.driver.graph()
        numbers = fill(graph, steps, waits, self.address)
        ready = graph.ready()
        self.graphs.append(ready)
        places = dict(zip(self.outside, self.uses, strict=True))
        for number, node in zip(numbers, steps, strict=True):
            use = Use(ready, number, list(map(self.address, node.given)))
            for i, ref in enumerate(node.given):
                if ref.memory in places:
                    places[ref.memory].append((use, i, ref.offset))
        return ready

    def on_host(self, node):
        """Run a step of the CPU on copies, and copy its results to the device."""
        arrays = []
        for ref, buffer in zip(node.reads, node.buffers, strict=False):
            if ref.memory.role == "host":
                arrays.append(self.values[ref.memory])
                continue
            array = np.empty(buffer.shape, buffer.dtype)
            if array.nbytes:
                self.driver.read(self.address(ref), array)
            arrays.append(array)
        for ref, result in zip(node.writes, node.run(*arrays), strict=True):
            if ref.memory.role == "host":
                self.values[ref.memory] = result
            elif ref.nbytes:
                self.driver.write(self.address(ref), np.ascontiguousarray(result))

    def bind(self, pointers):
        """Have the graphs read and write arguments and results at these addresses."""
        self.driver.enter()
        if self.bound is None:
            self.bases |= zip(self.outside, pointers, strict=True)
            self.parts = self.build()
        else:
            told = {}
            for k, new in enumerate(pointers):
                if new != self.bound[k]:
                    self.bases[self.outside[k]] = new
                    for use, i, offset in self.uses[k]:
                        use.pointers[i] = new + offset
                        told[use] = None
            for use in told:
                use.tell()
        self.bound = pointers

    def run(self, *given):
        """Launch: -> a list of the results' memories; of a tape or union the value.

        Args:
          given: a `DeviceMemory` for each argument, or a value.
        """
        if self.has_values:
            return self.run_with_values(given)
        results = [take() for take in self.takes]
        pointers = [memory.pointer for memory in given]
        pointers += [memory.pointer for memory in results]
        with self.lock:
            if pointers != self.bound:
                self.bind(pointers)
            for part in self.parts:
                part()
        return results if self.in_order else [results[i] for i in self.nodes.outputs]

    def run_with_values(self, given):
        """The same, where some arguments or results are known to Python only."""
        results = [take() for take in self.takes]
        memories = [x for x in given if isinstance(x, DeviceMemory)]
        pairs = zip(self.nodes.arguments, given, strict=True)
        with self.lock:
            self.values = {memory: x for memory, x in pairs if memory.role == "host"}
            self.bind([memory.pointer for memory in (*memories, *results)])
            for part in self.parts:
                part()
            values, self.values = self.values, {}
        memories, made = iter(results), self.nodes.results
        found = [values[m] if m.role == "host" else next(memories) for m in made]
        return [found[i] for i in self.nodes.outputs]


def close_all(graphs):
    """Give the graphs of a program that is gone back to the driver."""
    for ready in graphs:
        ready.close()


# ---- the executable


class GraphProgram:
    """What a report wants to know of a program: as `LLVMProgram`, with nothing to run.

    Attributes:
      body: the kernels and calls, in order; constants: as in `Program`.
      names: of the kernels, in order.
    """

    def __init__(self, program, native, heading):
        program = rewritten(program)
        self.name, self.heading = program.name, heading
        self.body, self.constants = program.body, program.constants
        self.names = [f"kernel_{i}" for i in range(len(program.kernels))]
        self.kernels = {
            name: kernel
            for name, kernel in zip(self.names, program.kernels, strict=True)
            if not isinstance(kernel, Region) and obstacle(kernel) is None
        }

    @functools.cached_property
    def source(self):
        """The kernels as Python for a grid: an object with `text` and `kernels`."""
        found = {
            name: kernel_of(kernel).source for name, kernel in self.kernels.items()
        }
        texts = [f"# {name}\n{text}" for name, text in found.items()]
        kernels = [SimpleNamespace(name=k, text=found.get(k, "")) for k in self.names]
        return SimpleNamespace(text="\n\n".join(texts), kernels=kernels)

    @functools.cached_property
    def path(self):
        return write_source(self.source.text)

    @property
    def texts(self):
        """{"ptx": of all kernels, "llvm": what that is made from}."""
        kernels = [*map(kernel_of, self.kernels.values())]
        return {
            "ptx": lambda: "\n".join(k.ptx(ORDINARY) for k in kernels),
            "llvm": lambda: "\n".join(k.llvm for k in kernels),
        }


loaders |= {"cuda": GraphProgram}
kernel_routes |= {"cuda": "cuda"}


class CudaExecutable(Executable):
    """A program for a GPU; nothing of CUDA is asked for before it is called.

    Attributes:
      nodes: its `Nodes`; on_devices: {driver: its `DeviceProgram`}.
    """

    def __init__(self, program, in_avals, out_avals, heading=str):
        self.in_avals, self.out_avals = in_avals, out_avals
        self.native, self.nodes = "cuda", nodes_of(program)
        reasons = {n.name: f"runs on the CPU: {n.reason}" for n in self.nodes.hosts}
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
                self.on_devices[driver] = DeviceProgram(driver, self.nodes)
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
        storage = aval.dtype.storage
        shape = aval.shape
        return unboxed(CudaArray(made, ShapedArray(shape, storage)).numpy(), aval)
    return CudaArray(made, aval)


# ---- where a program runs

# {an executable for the CPU: the same program for a GPU}
moved: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
cache_clearers.append(moved.clear)


def on_gpu(executable, leaves):
    """The same program for a GPU, if an argument is there or `default_device` is."""
    if executable.native != "llvm":
        return None
    there = any(type(x) is CudaArray for x in leaves)
    if not there and config.read("default_device") in ("", "cpu"):
        return None
    if executable not in moved:
        avals = executable.in_avals, executable.out_avals
        program = replace(executable.program, donated=())
        moved[executable] = CudaExecutable(program, *avals)
    return moved[executable]


places.append(on_gpu)


class CudaShortcutPrinter(ShortcutPrinter):
    """Prints the function for arguments on a GPU."""

    def leaf(self, text, x):
        if type(x) is not CudaArray:
            raise NoShortcut
        name = f"x{len(self.names)}"
        array = name.replace("x", "v")
        self.names.append(name)
        aval = self.constant("aval", the_aval(x.aval))
        self.tests.append(f"{name} = {text}")
        self.unless(f"type({name}) is not {self.constant('kind', CudaArray)}")
        self.unless(f"{name}.aval is not {aval} and not adopt({name}, {aval})")
        self.values.append(f"{array} = {name}.memory")
        self.values.append(f"if {array} is None: return missed")

    def result(self, i, aval):
        if isinstance(aval.dtype, ExtendedDtype):
            raise NoShortcut
        cls = self.constant("kind", CudaArray)
        return [f"r{i} = new({cls})", f"r{i}._value = None", f"r{i}.memory = y{i}"]


printers |= {"cuda": CudaShortcutPrinter}
shortcut_makers |= {CudaExecutable: make_shortcut}


def compile_cuda(closed, name):
    """The executor "cuda", which JAX also calls "gpu"."""
    program = lower(simplify(closed), name, programs=programs)
    heading = functools.partial(heading_of, weakref.ref(closed))
    return CudaExecutable(program, closed.in_avals, closed.out_avals, heading)


executors |= {"cuda": compile_cuda, "gpu": compile_cuda}
