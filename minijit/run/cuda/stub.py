"""A driver without a GPU: it writes down what it is told, and can do it on the CPU.

    with stub_driver() as device:
        f = jit(lambda x: sin(x) * 2, backend="cuda")
        f(x)                            # right, and slow: each thread one after another
        f(x)
    device.log                          # alloc, write, launch, launch
    device.graphs[0].nodes              # what a launch runs, and in which order

It has the methods of `cuda_driver.Driver`.  Memory of the "device" is NumPy's, and an
address is one of this process; one that nobody allocated is an error.  Kernels run by
the interpreter of their source (`lockstep`), products by NumPy from the numbers that
cuBLAS would be given.
"""

import bisect
import ctypes
import time
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from ...compile.loops.scalars import storage_dtype
from ..device.lockstep import run_in_lockstep
from .cublas import multiply
from .driver import using


class Event(NamedTuple):
    """A line of the log: what was asked for, and of how many bytes or nodes."""

    what: str
    count: int

    def __str__(self):
        return f"{self.what} {self.count}"


@dataclass(eq=False)
class StubNode:
    """A node of a graph.

    Attributes:
      kind: `kernel`, `product`, `copy`, `loop` or `choice`.
      work: the `CudaKernel`, the `Gemm`, the number of bytes.
      pointers: the addresses it is told; waits: numbers of nodes.
      inside: the `StubGraph`s of a loop or choice.
    """

    kind: str
    work: object
    pointers: list
    waits: tuple
    inside: tuple = ()

    @property
    def name(self):
        return self.work.name if self.kind == "kernel" else self.kind


class StubDriver:
    """See the module.

    Args:
      executes: whether launches compute anything.
      latest_first: nodes that need not wait for each other run in the other order.

    Attributes:
      log: `Event`s; graphs: the `StubGraph`s that were launched or made ready.
      memory: {address: its array of bytes}, of what is allocated now.
    """

    name, capability = "stub", (9, 0)

    def __init__(self, executes=True, latest_first=False):
        self.executes, self.latest_first = executes, latest_first
        self.log, self.graphs, self.memory, self.addresses = [], [], {}, []

    def note(self, what, count=0):
        self.log.append(Event(what, count))

    def times(self, what):
        """How often something was asked for."""
        return sum(event.what == what for event in self.log)

    def enter(self):
        """Nothing: all threads see the same memory."""

    # Memory.

    def alloc(self, nbytes):
        self.note("alloc", nbytes)
        block = np.zeros(max(nbytes, 1) + 256, np.uint8)
        start = -block.ctypes.data % 256
        block = block[start : start + max(nbytes, 1)]
        pointer = block.ctypes.data
        self.memory[pointer] = block
        bisect.insort(self.addresses, pointer)
        return pointer

    def free(self, pointer):
        self.note("free", self.memory.pop(pointer).size)
        self.addresses.remove(pointer)

    def bytes_at(self, pointer, nbytes=None):
        """The memory from an address on: an array of bytes."""
        i = bisect.bisect_right(self.addresses, pointer) - 1
        block = self.memory[self.addresses[i]] if i >= 0 else np.empty(0, np.uint8)
        start = pointer - self.addresses[i] if i >= 0 else 0
        stop = block.size if nbytes is None else start + nbytes
        if not 0 <= start <= stop <= block.size:
            raise MemoryError(f"{nbytes} bytes at {pointer:#x} are not allocated")
        return block[start:stop]

    def write(self, pointer, array):
        self.note("write", array.nbytes)
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.bytes_at(pointer, array.nbytes)[:] = flat

    def read(self, pointer, array):
        self.note("read", array.nbytes)
        found = self.bytes_at(pointer, array.nbytes)
        ctypes.memmove(array.ctypes.data, found.ctypes.data, array.nbytes)

    def copy(self, target, source, nbytes):
        self.note("copy", nbytes)
        self.bytes_at(target, nbytes)[:] = self.bytes_at(source, nbytes)

    def synchronize(self):
        self.note("synchronize")

    def milliseconds(self, work):
        """How long this machine takes for what a function asks for."""
        start = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - start)

    def cublas(self):
        return SimpleNamespace(product=self.product)

    def product(self, gemm, pointers):
        """A product of its own, outside of graphs."""
        self.note("product")
        if self.executes:
            self.run_product(StubNode("product", gemm, pointers, ()))

    # Graphs.

    def graph(self):
        return StubGraph(self)

    def run(self, graph):
        """Run the nodes of a graph, each after those it waits for."""
        left = set(range(len(graph.nodes)))
        while left:
            able = [i for i in left if not left & set(graph.nodes[i].waits)]
            i = max(able) if self.latest_first else min(able)
            left.remove(i)
            node = graph.nodes[i]
            getattr(self, f"run_{node.kind}")(node)

    def run_kernel(self, node):
        arrays = []
        for buffer, pointer in zip(node.work.args, node.pointers, strict=True):
            found = self.bytes_at(pointer, buffer.nbytes)
            arrays.append(found.view(storage_dtype(buffer.dtype)).reshape(buffer.shape))
        run_in_lockstep(node.work, *arrays)

    def run_product(self, node):
        pairs = zip(node.pointers, node.work.dtypes, strict=True)
        multiply(node.work, *(self.bytes_at(p).view(dtype) for p, dtype in pairs))

    def run_copy(self, node):
        target, source = (self.bytes_at(p, node.work) for p in node.pointers)
        target[:] = source

    def run_loop(self, node):
        while self.bytes_at(node.work, 1)[0]:
            self.run(node.inside[0])

    def run_choice(self, node):
        number = self.bytes_at(node.work, 4).view(np.int32)[0]
        self.run(node.inside[number])


class StubGraph:
    """A graph, or what a loop or a branch in one consists of: its nodes in order."""

    def __init__(self, driver):
        self.driver, self.nodes = driver, []

    def add(self, *fields):
        self.nodes.append(StubNode(*fields))
        return len(self.nodes) - 1

    def kernel(self, kernel, pointers, waits):
        return self.add("kernel", kernel, list(pointers), tuple(waits))

    def product(self, gemm, pointers, waits):
        return self.add("product", gemm, list(pointers), tuple(waits))

    def copy(self, target, source, nbytes, waits):
        return self.add("copy", nbytes, [target, source], tuple(waits))

    def filled(self, fills):
        inside = tuple(StubGraph(self.driver) for _ in fills)
        for graph, fill in zip(inside, fills, strict=True):
            fill(graph)
        return inside

    def loop(self, more, waits, fill):
        return self.add("loop", more, [], tuple(waits), self.filled([fill]))

    def choice(self, index, waits, fills):
        return self.add("choice", index, [], tuple(waits), self.filled(fills))

    def ready(self):
        self.driver.note("instantiate", len(self.nodes))
        self.driver.graphs.append(self)
        return StubReady(self)


class StubReady:
    """A graph that can be launched again and again."""

    def __init__(self, source):
        self.source, self.driver = source, source.driver

    def rebind(self, number, pointers):
        self.driver.note("rebind", number)
        self.source.nodes[number].pointers[:] = pointers

    def launch(self):
        self.driver.note("launch", len(self.source.nodes))
        if self.driver.executes:
            with np.errstate(all="ignore"):
                self.driver.run(self.source)

    def close(self):
        self.driver.note("close")
        self.driver.graphs.remove(self.source)


@contextmanager
def stub_driver(**options):
    """Within the block the driver of `backend="cuda"` is a `StubDriver`: that one."""
    with using(StubDriver(**options)) as driver:
        yield driver
