"""A program on a device: one graph, told once and launched once a call.

    program = DeviceProgram(driver, nodes)
    results = program.run(*memories)        # the graph is made, and launched
    program.run(*memories)                  # launched
    program.run(*others)                    # told other addresses, then launched

Telling a GPU to run one kernel costs a program some microseconds; a kernel on a small
array is done in less.  So the kernels, products and copies of a program are told once,
with all that each waits for, as a graph; a call launches that.  Nodes are told where
arrays are that have moved.  Calls take turns between two graphs: x = f(x) moves none.
"""

import functools
import threading
import weakref
from collections import deque
from sys import getrefcount

from ...trace.base.config import config
from ...trace.base.locks import Lock
from ..donating import HAS_LOCK
from .arrays import pool_of, upload
from .nodes import CopyNode, LaunchNode, ProductNode

# ---- nodes in a graph


def fill(graph, steps, waits, address):
    """Add nodes to a graph: -> their numbers; `address` is a function of `Ref`s."""
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


class Setting:
    """A program's graphs, and the addresses that they were told.

    Attributes:
      homes: where the memory of each result comes from.
      memories: a `DeviceMemory` for each result; pointers: where these are.
      alone: how often Python refers to each of them while nobody looks at it.
      parts: functions to call in order; here one that launches the graph.
      bases: {memory: where it is}, of all but temporaries, which follow `arena`.
      bound: the addresses of arguments and results, or None before there is a graph.
      uses: {argument or result: a list of (pointers that a node was told, which of
        them it is, bytes to add, function that tells the node)}.
    """

    def __init__(self, arena, bases, homes):
        self.arena, self.bases, self.homes = arena, bases, homes
        self.bound = None
        self.forget()

    def forget(self):
        """Let the memory of the results go: None is looked at by many."""
        self.memories, self.alone = (None,) * len(self.homes), [0] * len(self.homes)

    def renew(self):
        """Take other memory for the results that somebody looks at."""
        counts = list(map(getrefcount, self.memories))
        new = lambda m, count, alone, home: m if count == alone else home.take()
        self.memories = tuple(map(new, self.memories, counts, self.alone, self.homes))
        self.pointers = [memory.pointer for memory in self.memories]
        self.alone = list(map(getrefcount, self.memories))

    def address(self, ref):
        """Where some bytes are on the device."""
        memory = ref.memory
        if memory.role == "temporary":
            return self.arena.pointer + memory.offset + ref.offset
        return self.bases[memory] + ref.offset


class DeviceProgram:
    """A program on one device: its memory, and its settings, which take turns.

    Attributes:
      settings: the one that is next is the first.
      keeps: whether the memory of results stays with the program.
    """

    def __init__(self, driver, nodes):
        self.driver, self.nodes = driver, nodes
        self.lock = Lock(threading.Lock())
        pool, self.graphs = pool_of(driver), []
        # At the end of the process the driver gives everything back itself.
        weakref.finalize(self, close_all, self.graphs).atexit = False
        self.arena = pool.take(nodes.nbytes)
        self.constants = [upload(memory.value) for memory in nodes.constants]
        pairs = zip(nodes.constants, self.constants, strict=True)
        bases = {memory: array.memory.pointer for memory, array in pairs}
        outside = *nodes.arguments, *nodes.results
        self.outside = [m for m in outside if m.role != "host"]
        homes = [pool.home(m.nbytes) for m in nodes.results if m.role != "host"]
        self.in_order = nodes.outputs == tuple(range(len(homes)))
        two = (Setting(self.arena, dict(bases), homes) for _ in range(2))
        self.settings, self.nbytes = deque(two), 2 * sum(home.size for home in homes)
        self.keeps = HAS_LOCK and self.nbytes <= config.pool_bytes
        if self.keeps:
            pool.programs.add(self)
            for setting in self.settings:
                setting.renew()

    def forget(self):
        """Let the memory of results go, unless a call is under way."""
        if self.lock.acquire(blocking=False):
            for setting in self.settings:
                setting.forget()
            self.lock.release()

    def build(self, setting):
        """Make the graph, once all addresses are known: -> the parts."""
        return [self.graph(setting, self.nodes.steps, self.nodes.waits).launch]

    def graph(self, setting, steps, waits):
        """Some nodes as a graph that is ready."""
        graph = self.driver.graph()
        numbers = fill(graph, steps, waits, setting.address)
        ready = graph.ready()
        self.graphs.append(ready)
        for number, node in zip(numbers, steps, strict=True):
            told = list(map(setting.address, node.given))
            tell = functools.partial(ready.rebind, number, told)
            for i, ref in enumerate(node.given):
                if ref.memory in setting.uses:
                    setting.uses[ref.memory].append((told, i, ref.offset, tell))
        return ready

    def bind(self, setting, pointers):
        """Have the graphs read and write arguments and results at these addresses."""
        self.driver.enter()
        # After an error the graph is made again.
        bound, setting.bound = setting.bound, None
        if bound is None:
            setting.bases |= zip(self.outside, pointers, strict=True)
            setting.uses = {memory: [] for memory in self.outside}
            setting.parts = self.build(setting)
        else:
            changed = {}
            for memory, old, new in zip(self.outside, bound, pointers, strict=True):
                if new != old:
                    setting.bases[memory] = new
                    for told, i, offset, tell in setting.uses[memory]:
                        told[i] = new + offset
                        changed[tell] = None
            for tell in changed:
                tell()
        setting.bound = pointers

    def launch(self, pointers):
        """Run with arguments at these addresses: -> a list of the results' memories."""
        setting = self.settings[0]
        self.settings.rotate()
        if list(map(getrefcount, setting.memories)) != setting.alone:
            setting.renew()
        # In a list of its own: somebody looks at them from here on.
        results = list(setting.memories)
        pointers += setting.pointers
        if pointers != setting.bound:
            self.bind(setting, pointers)
        for part in setting.parts:
            part()
        if not self.keeps:
            setting.forget()
        return results

    def run(self, *given):
        """Launch: from the `DeviceMemory`s of the arguments to those of the results."""
        with self.lock:
            results = self.launch([memory.pointer for memory in given])
        return results if self.in_order else [results[i] for i in self.nodes.outputs]


def close_all(graphs):
    """Give the graphs of a program that is gone back to the driver."""
    for ready in graphs:
        ready.close()
