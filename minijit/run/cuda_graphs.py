"""A program on a device: one graph, told once and launched once a call.

    program = DeviceProgram(driver, nodes)
    results = program.run(*memories)        # the graph is made, and launched
    program.run(*memories)                  # launched
    program.run(*others)                    # told other addresses, then launched

Telling a GPU to run one kernel costs a program some microseconds; a kernel on a small
array is done in less.  So the kernels, products and copies of a program are told once,
with all that each waits for, as a graph; a call launches that.  When a call gets other
arrays than the one before, the nodes that read them are told their addresses first.
"""

import threading
import weakref

from .cuda_arrays import pool_of, upload
from .cuda_nodes import CopyNode, LaunchNode, ProductNode

# ---- nodes in a graph


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


# type of a node -> function(graph, node, waits, address) that adds it: its number.
adders = {LaunchNode: add_kernel, ProductNode: add_product, CopyNode: add_copy}


# ---- a program


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
      parts: functions to call in order; here one that launches the graph.
      bases: {memory: where it is}, of all but temporaries.
      bound: the addresses of arguments and results in the last call.
      uses: for each of these a list of (`Use`, which of its pointers, bytes to add).
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
        """Make the graph, once all addresses are known: -> the parts."""
        return [self.graph(self.nodes.steps, self.nodes.waits).launch]

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
        """Launch: from the `DeviceMemory`s of the arguments to those of the results."""
        results = [take() for take in self.takes]
        pointers = [memory.pointer for memory in given]
        pointers += [memory.pointer for memory in results]
        with self.lock:
            if pointers != self.bound:
                self.bind(pointers)
            for part in self.parts:
                part()
        return results if self.in_order else [results[i] for i in self.nodes.outputs]


def close_all(graphs):
    """Give the graphs of a program that is gone back to the driver."""
    for ready in graphs:
        ready.close()
