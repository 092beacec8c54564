"""Kernels on several cores: each thread has a range of the outermost loop.

    config.update("cpu_threads", 1)         # as many as there are cores, by default

A kernel whose elements do not depend on each other may compute any of them first.  So
a large one gets three more numbers, the first index of its outermost loop, the last,
and whether what comes after that loop is to run; and it runs in parts.  Each element is
computed as by one thread: results have the same bits, whatever the number of threads.

    range, x0, x1, ...     ->     define void @kernel(ptr %range, ptr %x0, ptr %x1)

Workers are threads that never come back from one function of machine code: it takes
parts of jobs, without Python's lock.  The thread that calls takes parts too, until
there are none left, so that a call never waits for a worker that has not begun: several
callers at once, or a process that was forked and has no workers yet, take longer but
never wait in vain.
"""

import functools
import math
import os
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ...compile.loops.expressions import Reduce
from ...compile.loops.graphs import postorder
from ...compile.loops.kernel_buffers import buffer_names
from ...compile.loops.scalars import storage_dtype
from ...compile.loops.statements import For, Kernel
from ...compile.memory.complex_pairs import in_pairs, origin_of, pairs_of
from ...compile.schedule.independence import handed_on, is_parallel
from ...compile.schedule.machine import PARTS, Machine
from ...compile.schedule.place import place
from ...compile.schedule.placing_rules import arrange, share_axes
from ...compile.schedule.weights import weight
from ...trace.base.config import config
from ...trace.base.locks import Lock
from ..llvm.kernels import KernelText, eights, kernel_texts
from ..llvm.text import LLVMWriter
from ..reports import kernel_rules
from .workers import caller_in_parts, new_box, serving


def available_cores():
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


config.define("cpu_threads", available_cores(), "how many threads one kernel may use")
# To wake a worker takes 20,000 to 50,000 nanoseconds, and less if it looks for jobs.
config.define(
    "thread_time", 60_000,
    "a kernel or product that takes so many nanoseconds runs in parts, for threads",
    changes_traces=True,
)  # fmt: skip

# ---- into which parts

# A part of more indices than that has a multiple of it: whole vectors, and whole lines
# of the cache, which two cores then do not both write to.
LINE = 64


def ranges(extent, threads):
    """The parts of a loop: (begin, end, whether it runs what comes after the loop).

    Of several parts none does: that runs when all of them are done.
    """
    if threads < 2:
        return [(0, extent, 1)]
    size = -(-extent // (PARTS * threads))
    if size > LINE:
        size = -(-size // LINE) * LINE
    return [(lo, min(lo + size, extent), 0) for lo in range(0, extent, size)]


def job_of(ranges, threads=1):
    """The numbers of a job: how many parts, how many workers may help, the ranges."""
    helpers = max(min(threads, len(ranges)) - 1, 0)
    return np.array([len(ranges), helpers, *np.ravel(ranges)], np.int64)


# ---- workers


class Workers:
    """Threads that wait for jobs; made when they are first needed.

    Attributes:
      boxes: one for each worker, where it looks for jobs.
      table: where each of the boxes is in memory.
    """

    def __init__(self):
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self):
        """Begin anew: in a forked process there are no threads."""
        self.boxes, self.table = [], np.zeros(0, np.int64)
        self.lock = Lock(threading.Lock())

    def ask(self, count):
        """The table of so many workers, or more."""
        if len(self.table) < count:
            with self.lock:
                self.grow(count)
        return self.table

    def grow(self, count):
        """Make threads, until there are so many."""
        while len(self.boxes) < count:
            box = [new_box()]
            self.boxes += box
            threading.Thread(target=serving(), args=box, daemon=True).start()
        self.table = np.array([box.ctypes.data for box in self.boxes], np.int64)


workers = Workers()


def run_job(function, arrays, job):
    """Run all parts of a job: this thread does, and workers that have nothing to do."""
    function(*arrays, job, workers.ask(int(job[1])))


# ---- kernels


def duration_of(body, times=1):
    """About how many nanoseconds statements take on one core."""
    total, each = 0.0, config.fusion.product_cost
    for expr in postorder([e for stmt in body for e in stmt.uses()]):
        axes = expr.axes if isinstance(expr, Reduce) else ()
        inner = math.prod(axis.bounds[1] + 1 for axis in axes)
        total += times * inner * each * max(sum(weight(expr)), 1)
    for stmt in body:
        extent = stmt.axis.bounds[1] + 1 if isinstance(stmt, For) else 1
        total += sum(duration_of(inner, times * extent) for inner in stmt.bodies())
    return total


class RangeWriter(LLVMWriter):
    """Writes a kernel whose outermost loop goes from `%lo` on, `%count` times.

    What comes after it is a loop of one step, which runs if `%last` is 1, and not if it
    is 0.
    """

    def __init__(self, loop, after):
        super().__init__()
        self.axis, self.last = loop.axis, after[0].axis if after else None
        self.read_words("%range", ("lo", "hi", "last"))
        self.entry.append("  %count = sub nsw i64 %hi, %lo")

    def span(self, axis):
        return ("%lo", "%count") if axis is self.axis else None

    @contextmanager
    def loop(self, stmt, extent):
        if stmt is None or stmt.axis not in (self.axis, self.last):
            with super().loop(stmt, extent) as counter:
                yield counter
            return
        first = stmt.axis is self.axis
        with super().loop(stmt, "%count" if first else "%last") as counter:
            yield self.do(f"add nuw nsw i64 %lo, {counter}") if first else counter


class ThreadedText(KernelText):
    """A kernel that takes a range: int64[3], its first and its end, and whether it is
    the last one, after which comes what is not divided; and then arrays.

    Attributes:
      shared: the kernel's own buffers in which all ranges leave something.
    """

    def __init__(self, kernel, prepare):
        loop, *after = kernel.body
        body = in_pairs(place(kernel.body, prepare=prepare))
        self.shared = tuple(map(pairs_of, handed_on(kernel.body)))
        names = buffer_names(body)
        shared = {buffer: f"s{i}" for i, buffer in enumerate(self.shared)}
        writer = RangeWriter(loop, after)
        self.walk(writer, body, names | shared)
        given = {"range": "range", **names, **shared}
        self.finish(writer, body, given, "void")
        self.called_by = lambda: caller_in_parts(eights(len(names | shared)))
        self.buffers = tuple(map(origin_of, names))
        # The text has neither: it takes any range, and what is shared from outside.
        rooms = tuple((b.shape, storage_dtype(b.dtype)) for b in self.shared)
        self.facts = loop.axis.extent, rooms, bool(after)

    @staticmethod
    def launch(function, extent, rooms, goes_on):
        """What the driver calls: it divides the range among threads.

        Args:
          extent: of the outermost loop.
          rooms: shape and dtype of each buffer in which all ranges leave something.
          goes_on: whether something comes after that loop.
        """
        last = job_of([(extent, extent, 1)])

        @functools.cache
        def job_for(threads):
            return job_of(ranges(extent, threads), threads)

        def launch(*arrays):
            arrays += tuple(np.empty(*room) for room in rooms)
            threads = max(config.read("cpu_threads"), 1)
            run_job(function, arrays, job_for(threads))
            if goes_on and threads > 1:
                run_job(function, arrays, last)

        return launch


# chapter 24
# ---- what is divided


def text_of_kernel(kernel):
    """The text of a kernel: for threads if it is large, and can be divided."""
    # The loops as they will run: totals in rows, for one, go on from step to step, and
    # no range of those steps runs by itself.
    divided = replace(kernel, body=arrange(kernel.body))
    text = ThreadedText if is_divided(divided.body) else KernelText
    return text(divided, share_axes)


def is_divided(body):
    """Whether cores share arranged statements: it has to be allowed, and worth it."""
    duration = duration_of(in_pairs(body))
    if duration < config.thread_time or not is_parallel(body):
        return False
    # Prices come with the first large kernel.
    from ...compile.schedule.cost import is_shared

    return is_shared(body, Machine.in_force())


kernel_texts |= {Kernel: text_of_kernel}
kernel_rules |= {"llvm": lambda body: is_divided(arrange(body))}
