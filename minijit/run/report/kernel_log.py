"""Kernels and calls as they run: printed line by line, or kept as a time line.

    with minijit.log_kernels():
        f(x)
    # f kernel_0   x: f32[64,32] -> t0: f32[32]           8.3 kB     2.1 us    3.9 GB/s

    with minijit.profile() as line:
        f(x)
    print(line)                        # a row for each kernel, what takes longest first
    line.roofline()                    # what each reached, below what bounds it
    line.save("trace.json")            # for Perfetto, or chrome://tracing

A driver is a Python function that calls each kernel by its name.  While somebody looks,
a call runs a copy of the driver in which these names stand for kernels with a clock
around them.  Otherwise nothing is different, and nothing costs anything.

What Python did around the kernels is in the file for Perfetto: calls, traces, compiles
and their passes, each within what it is a part of, in a row for each thread.
"""

from __future__ import annotations

import inspect
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from ...compile import pipeline
from ...compile.loops.statements import Kernel
from ...trace.api import calls
from ...trace.base.config import config
from ...trace.jaxprs.memory import memoised
from ...trace.jit.retrace import finished
from ..loading import called, load, watchers

config.define(
    "log_kernels", False, "print a line for each kernel that runs", changes_calls=True
)
config.define(
    "profile_kernels", False, "keep a time line of kernels", changes_calls=True
)


@dataclass(frozen=True)
class Event:
    """One run of a `Step` of a report: of which program, and when, in seconds.

    Attributes:
      held: the bytes of the arrays that the program has made by then, and still needs.
      thread: the number by which the system knows the thread that ran it.
    """

    program: str
    step: object
    start: float
    end: float
    held: int = 0
    thread: int = 0

    @property
    def seconds(self):
        return self.end - self.start

    @property
    def rate(self):
        """Bytes a second that it read and wrote."""
        return self.step.nbytes / self.seconds if self.seconds else 0.0

    def __str__(self):
        from ...compile.report.text import cut_to, size_text

        reads = ", ".join(str(use.buffer) for use in self.step.reads)
        writes = ", ".join(str(use.buffer) for use in self.step.writes)
        what = cut_to(f"{self.program} {self.step.name}", 26)
        arrays = cut_to(f"{reads} -> {writes}", 38)
        took, rate = time_text(self.seconds), f"{size_text(round(self.rate))}/s"
        size = size_text(self.step.nbytes)
        line = f"{what:<26} {arrays:<38} {size:>9} {took:>9} {rate:>11}"
        if self.step.is_driven:
            return f"{line}  NOT COMPILED: {self.step.reason}"
        return line


def time_text(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.1f} us"


@dataclass(frozen=True)
class Span:
    """What Python did: a "call", a "trace", a "compile", a "pass" of it, or a "block".

    Other fields are as in `Event`.
    """

    kind: str
    name: str
    start: float
    end: float
    thread: int


@dataclass(frozen=True)
class Total:
    """All runs of a kernel or call: how many, and how long they took together."""

    program: str
    step: object
    runs: int
    seconds: float

    @property
    def mean(self):
        return self.seconds / self.runs

    @property
    def rate(self):
        """Bytes a second that it read and wrote."""
        return self.step.nbytes / self.mean if self.seconds else 0.0

    @property
    def flop_rate(self):
        """Operations a second, or None where they are not known."""
        flops = self.step.flops
        return None if flops is None or not self.seconds else flops / self.mean

    @property
    def share(self):
        """Of what memory and arithmetic of the cores that share it allow.

        They were measured with arrays in memory: more than 1 if these are in a cache.
        None where operations are not counted: they may well be what it waits for.
        """
        if self.flop_rate is None:
            return None
        from ...compile.report.pictures import copy_rate, flop_rate

        moving, computing = self.rate / copy_rate(), self.flop_rate / flop_rate()
        return max(moving, computing) / self.step.threads

    def __str__(self):
        from ...compile.report.text import cut_to

        what = cut_to(f"{self.program} {self.step.name}", 34)
        times = "".join(f"{time_text(s):>10}" for s in (self.seconds, self.mean))
        flops = "?" if self.flop_rate is None else f"{self.flop_rate / 1e9:.1f}"
        share = "?" if self.share is None else f"{self.share:.0%}"
        rates = f"{self.rate / 1e9:>10.1f}{flops:>10}{share:>10}"
        return f"{what:<34}{self.runs:>10}{times}" + (
            f"  NOT COMPILED: {self.step.reason}" if self.step.is_driven else rates
        )


class TimeLine(list):
    """The `Event`s of some calls, in the order in which they ended.

    Attributes:
      spans: what Python did meanwhile, in the same order.
    """

    def __init__(self):
        super().__init__()
        self.spans = []

    @property
    def seconds(self):
        """From the first beginning to the last end."""
        ends = max((e.end for e in self), default=0.0)
        return ends - min((e.start for e in self), default=0.0)

    @property
    def steps(self):
        """A `Total` for each kernel and call, what takes longest first."""
        runs: dict = {}
        for event in self:
            runs.setdefault(event.step, []).append(event)
        totals = (
            Total(events[0].program, step, len(events), sum(e.seconds for e in events))
            for step, events in runs.items()
        )
        return sorted(totals, key=lambda total: -total.seconds)

    def __str__(self):
        from ...compile.report.pictures import copy_rate, flop_rate
        from ...compile.report.text import flops_text, size_text

        steps = self.steps
        spent = time_text(sum(total.seconds for total in steps))
        head = f"{len(self)} runs of {len(steps)} kernels and calls in "
        head += f"{time_text(self.seconds)}, {spent} of it in them"
        names = "runs", "total", "mean", "GB/s", "Gflop/s", "of limit"
        columns = "".join(f"{name:>10}" for name in names)
        moved, done = size_text(round(copy_rate())), flops_text(round(flop_rate()))
        foot = f"limit of a core: {moved}/s for arrays in memory (not for those in a "
        foot += f"cache), {done}/s in products"
        rows = [str(total) for total in steps[:40]]
        return "\n".join([head, f"{'':<34}{columns}", *rows, foot])

    __repr__ = __str__

    def roofline(self, axis=None):
        """What bounds each kernel, and below it what it did: matplotlib's figure."""
        from ...compile.report.pictures import draw_roofline

        mean = {total.step: total.mean for total in self.steps}
        return draw_roofline(mean, axis, mean)

    def chrome(self):
        """The events as Chrome's trace format has them: times in microseconds.

        They lie within the spans of their threads.  Beside them runs a counter of the
        bytes that arrays take between the steps.
        """
        begin = min((e.start for e in (*self, *self.spans)), default=0.0)

        def row(x, name, ph, **more):
            return {"name": name, "ph": ph, "ts": (x.start - begin) * 1e6, "pid": 1,
                    **more}  # fmt: skip

        def bar(x, name, kind, **more):
            took = (x.end - x.start) * 1e6
            return row(x, name, "X", cat=kind, dur=took, tid=x.thread, **more)

        def told(event):
            step = event.step
            return {
                "program": event.program,
                "bytes": step.nbytes,
                "GB/s": event.rate / 1e9,
                "reads": [str(use.buffer) for use in step.reads],
                "writes": [str(use.buffer) for use in step.writes],
                "lines": [str(source) for source in step.lines],
            }

        spans = [bar(span, span.name, span.kind) for span in self.spans]
        memory = [row(e, "arrays", "C", args={"bytes": e.held}) for e in self]
        return spans + memory + [
            bar(e, e.step.name, e.step.route, args=told(e)) for e in self
        ]

    def save(self, path):
        """Write a file that Chrome (chrome://tracing) and Perfetto show."""
        import json

        with open(path, "w") as file:
            json.dump({"traceEvents": self.chrome()}, file)

    def plot(self, axis=None):
        """A bar for each run, from its start to its end: a figure of matplotlib."""
        from ...compile.report.pictures import INK, STEP, clear, new_axis

        names = list(dict.fromkeys(event.step.name for event in self))
        begin = min((event.start for event in self), default=0.0)
        if axis is None:
            _, axis = new_axis(8, min(max(1.4, 0.28 * len(names) + 0.8), 20))
        for event in self:
            left, width = (event.start - begin) * 1e6, event.seconds * 1e6
            y = names.index(event.step.name)
            # The edge shows what is too short for a bar.
            axis.barh(y, width, left=left, height=0.7, color=STEP, edgecolor=STEP,
                      linewidth=0.8, alpha=0.7)  # fmt: skip
        axis.set_yticks(range(len(names)), names, color=INK)
        axis.invert_yaxis()
        axis.set(xlabel="microseconds")
        clear(axis)
        return axis.figure


# The `TimeLine`s that are being kept.
lines: list = []


def log_kernels(do_log: bool = True) -> AbstractContextManager[Any]:
    """`with log_kernels():` prints a line for each kernel or call that runs.

    For the whole process: `config.update("log_kernels", True)`.
    """
    return config.override("log_kernels", do_log)


@contextmanager
def profile() -> Iterator[Any]:
    """`with profile() as line:` keeps what runs meanwhile, in any thread: a `TimeLine`.

    Of the passes of the compiler it keeps this thread's.
    """
    line, before = TimeLine(), pipeline.watching.get()
    pipeline.watching.set(timing_passes())
    lines.append(line)
    try:
        config.update("profile_kernels", True)
        yield line
    finally:
        lines.remove(line)
        config.update("profile_kernels", bool(lines))
        # No token: the block may end in another context than it began in.
        pipeline.watching.set(before)


def heard(event):
    """Tell all who listen."""
    if config.log_kernels:
        print(event)
    for line in lines:
        line.append(event)


def spent(kind, name, start):
    """Tell all who listen of what began at `start` and is over now."""
    span = Span(kind, name, start, time.perf_counter(), threading.get_native_id())
    for line in lines:
        line.spans.append(span)


finished.append(spent)


def timing_passes():
    """What `pipeline.watching` may be: tells of each pass when it is over."""
    begun = []

    def watch(stage, change, form):
        if change is not None:
            spent("pass", stage.name_of(change), begun.pop())
        if stage.passes and change is not stage.passes[-1]:
            begun.append(time.perf_counter())

    return watch


# ---- drivers with a clock

def held_at(report, number):
    """The bytes of the arrays that a program has made when a step runs."""
    made = (a for a in report.buffers if a.first is not None and a.first <= number)
    return sum(a.nbytes for a in made if a.role == "result" or number <= a.last)


@memoised
def steps_of(program, native):
    """(step, bytes held meanwhile) for the steps of a program, inner ones' included."""
    from .explaining import Reporting

    names = [buffer.name for buffer in program.inputs]
    report = Reporting(native).report(program, names)
    return [(s, held_at(report, n)) for n, s in enumerate(report.steps)]


def watched(executable):
    """What to run instead of an executable's driver, if somebody listens."""
    if config.is_plain:
        return None
    if not (config.log_kernels or config.profile_kernels):
        return None
    program, native = executable.program, executable.native
    steps = iter(steps_of(program, native))

    def took(start, end):
        (step, held), thread = next(steps), threading.get_native_id()
        heard(Event(program.name, step, start, end, held, thread))

    driver = with_clocks(program, native, took)

    def run(*arrays):
        start = time.perf_counter()
        with nullcontext() if native else np.errstate(all="ignore"):
            results = driver(*arrays)
        spent("call", program.name, start)
        return results

    return run


def clocked(function, took):
    """A kernel or a call that tells when it began and ended."""

    def run(*args, **kwargs):
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            took(start, time.perf_counter())

    return run


def with_clocks(program, native, took):
    """A program's driver, in which the names of kernels and calls are clocked."""
    made = load(program, native)
    driver = inspect.unwrap(made.run)
    numpy = SimpleNamespace(**vars(np) | {"matmul": clocked(np.matmul, took)})
    namespace = {**driver.__globals__, "np": numpy}
    products = [name for name in namespace if name.startswith("product_")]
    for name in dict.fromkeys((*made.names, *products)):
        namespace[name] = clocked(namespace[name], took)
    numbers = itertools.count()
    for step in made.body:
        if isinstance(step, Kernel) or step.routine == "matmul":
            continue
        prefix = f"call_{next(numbers)}_"
        name, = (name for name in namespace if name.startswith(prefix))
        inner = called(step)
        namespace[name] = (
            with_clocks(inner, native, took) if inner
            else clocked(namespace[name], took)
        )
    return FunctionType(driver.__code__, namespace, driver.__name__)


watchers.append(watched)
calls.explain_calls("minijit", globals(), ["log_kernels", "profile"])
