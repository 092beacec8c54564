"""Drivers that take their temporaries from one block: the arena of a plan.

    def run_main(in0):
        memory = take_memory()              # 8,192 bytes
        t0, t1, = memory
        out0 = np.empty((32, 32), np.float32)
        np.matmul(in0, in0, out=t0)
        ...
        return (out0,)

A call has an arena of its own while it runs, so that threads, and functions that call
themselves, never meet in one.  When it is over nobody refers to it: Python frees it, or
a pool gives it to the next call.

A program that only other programs call has its arena within theirs, and writes its
results where they are wanted: `run_f(memory, out0, in0)`.  What Python makes for it,
it returns.
"""

from functools import partial

import numpy as np

from ...compile.loops.statements import Call
from ...compile.memory.arena import LINE, given_results, make_plan
from ...compile.memory.updates import rejoined, with_reuse
from ...compile.pipeline import rewrites
from ...trace.jaxprs.memory import memoised
from ..loading import rewritten
from ..python.source import DriverPrinter, driver_printers

rewrites |= {"with_reuse": with_reuse, "rejoined": rejoined}


@memoised
def plan_of(program):
    """The plan of a program as it is loaded, with its inner programs' arenas in it."""
    return make_plan(program, plan_within)


def plan_within(call):
    return plan_of(rewritten(call.attrs["program"]))


# ---- memory


def aligned(nbytes):
    """So many bytes, from the beginning of a line of the cache on."""
    block = np.empty(nbytes + LINE, np.uint8)
    start = -block.ctypes.data % LINE
    return block[start : start + nbytes]


def pieces(plan, block):
    """A block as what a driver takes: an array a buffer, for an inner call a tuple."""
    found = []
    for slot in plan.slots:
        piece = block[slot.offset : slot.offset + slot.nbytes]
        if isinstance(slot.owner, Call):
            found.append(pieces(plan_within(slot.owner), piece))
        else:
            found.append(piece.view(slot.owner.dtype).reshape(slot.owner.shape))
    return tuple(found)


def new_arena(plan):
    """An arena that nobody else has."""
    return pieces(plan, aligned(plan.nbytes))


# What the drivers of a plan call for an arena; later it comes from a pool.
arenas: dict = {"of": lambda plan: partial(new_arena, plan)}


# ---- drivers


class PlannedDriver(DriverPrinter):
    """Prints a driver whose temporaries lie in an arena."""

    def __init__(self, program, *args):
        super().__init__(program, *args)
        self.plan = plan_of(program)
        # {what lies in the arena, a buffer or a call: its name}
        self.names, calls = {}, 0
        for slot in self.plan.slots:
            called = isinstance(slot.owner, Call)
            self.names[slot.owner] = f"memory_{calls}" if called else slot.owner.name
            calls += called
        self.known |= self.names.keys()

    def print(self):
        outputs, inner = self.program.outputs, self.program.inner
        given = [outputs[i] for i in given_results(self.program)] if inner else []
        self.known.update(given)
        arena = ["memory"] if self.program.inner else []
        params = [*arena, *(b.name for b in (*given, *self.program.inputs))]
        with self.writer.block(f"def {self.name}({', '.join(params)}):"):
            self.take_memory()
            self.steps([b for b in self.program.temps if b not in self.names])
            self.results([b for b in self.program.outputs if b not in given])

    def take_memory(self):
        if not self.names:
            return
        if not self.program.inner:
            self.makers["take_memory"] = arenas["of"](self.plan)
            self.writer.line(f"memory = take_memory()  # {self.plan.nbytes:,} bytes")
        self.writer.line(f"{', '.join(self.names.values())}, = memory")

    def call_by_name(self, call, name, given, made):
        """An inner program is given its memory and the arrays for its results."""
        if call.routine == "program" and call.attrs["program"].inner:
            places = given_results(rewritten(call.attrs["program"]))
            made = [v for i, v in enumerate(call.outputs) if i not in places]
            arrays = [call.outputs[i].buffer for i in places]
            self.allocate(arrays)
            given = [self.names.get(call, "()"), *(b.name for b in arrays), *given]
        super().call_by_name(call, name, given, made)


driver_printers |= {"python": PlannedDriver}
