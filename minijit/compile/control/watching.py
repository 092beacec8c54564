"""How much a step of a loop computes, when it looks for signals, and what it keeps.

    look 12                         # about how much a step computes

Python runs the handler of a signal, such as that of Ctrl-C, when it is back in Python,
and a native loop may be minutes away from that.  So loops count what they have done,
and look after so much of it, 20 to 200 ms as the setting `between_looks` is by default:
`Look` is the statement, and each backend has its own way.
"""

import math
from contextlib import contextmanager

from ...transform.control_flow import steps as loop_steps
from ...transform.control_flow.while_and_scan import scan_p
from ..loops.contents import counted
from ..loops.expressions import Axis, Const, Reduce, as_index, op
from ..loops.graphs import postorder
from ..loops.statements import Fail, For, Kernel
from ..schedule.nests import count_of
from ..settings import config
from .obstacles import programs_of


def work_of(program):
    """About how many operations a run of a program takes, as far as it is known.

    Loops whose number of steps only a run can tell count as one step: they look
    themselves.
    """
    return sum(map(work_of_step, program.body))


def work_of_step(step):
    """About how many operations a kernel or a call takes."""
    if isinstance(step, Kernel):
        return work_of_statements(step.body)
    if step.routine == "matmul":
        return math.prod(step.outputs[0].shape) * step.inputs[0].shape[-1]
    if step.routine == "eval":
        shape = step.inputs[0].shape if step.inputs else ()
        return 1 + math.prod(shape) * max(shape, default=1)
    is_scan = step.attrs.get("primitive") is scan_p
    steps = step.attrs["params"].get("length") if is_scan else 1
    return 1 + (steps or 1) * sum(map(work_of, programs_of(step)))


def work_of_statements(body):
    """About how many operations statements take, those in loops for each step."""
    return sum(
        times * (count_of(e.axes) if type(e) is Reduce else 1)
        for stmt, times in counted(body)
        for e in postorder(stmt.uses())
    )


# ---- steps that are counted, and steps between looks


def count_step(builder, steps):
    """One step more, if there may be one more."""
    count, most = steps.load(), loop_steps.MOST_STEPS
    last = op("eq", count, Const(most, count.dtype))
    builder.add(Fail(last, loop_steps.too_many_steps()))
    builder.set(steps, op("add", count, Const(1, count.dtype)))


@contextmanager
def steps_of_scan(builder, steps, length, reverse, body):
    """The loop of a scan; of a long scan in parts, between which it looks for signals.

    A part is a loop that LLVM can vectorise.  Around another loop it would only be one
    more level: such a scan looks at each step.

    Args:
      steps: how many, as an expression; length: as a number, if it is known.
      body: the program of one step.

    Yields:
      The index of the step, while what is built is the body.
    """
    work = work_of(body)
    size = max(config.fusion.between_looks // max(work, 1), 1)
    short = length is not None and length <= size
    nested = any(call.routine == "loop" for call in body.calls)
    outer, axis = None, Axis(steps if length is None else length, "serial")
    i = axis
    if not short and not nested:
        parts = op("floordiv", op("add", steps, as_index(size - 1)), as_index(size))
        outer = Axis(parts if length is None else parts.value, "serial")
        first = op("mul", outer, as_index(size))
        left = op("min", op("sub", steps, first), as_index(size))
        axis = Axis(left, "serial")
        i = op("add", first, axis)
    if reverse:
        i = op("sub", op("sub", steps, as_index(1)), i)
    with builder.block() as step:
        yield i
        if nested and not short:
            builder.watch(work)
    loop = For(axis, tuple(step))
    if outer is not None:
        with builder.block() as part:
            builder.watch(op("mul", left, as_index(work)))
            builder.add(loop)
        loop = For(outer, tuple(part))
    builder.add(loop)


class Kept:
    """What the steps of a `while` keep for the way back: rows of tapes, and a count.

    If there is no way back, there are no places for them, and nothing is kept.
    """

    def __init__(self, builder, counts, ys):
        """Build what comes before the loop; both are lists of tuples of places."""
        self.builder, self.counts = builder, counts
        self.tapes = [wanted[0].recording(builder) for wanted in ys]
        if counts:
            self.steps = builder.number("int32")
            builder.set(self.steps, Const(0, self.steps.dtype))

    def rows(self):
        """Where a step keeps its values."""
        return [(tape.next_item(),) for tape in self.tapes]

    def step(self):
        """The end of a step."""
        for tape in self.tapes:
            tape.step()
        if self.counts:
            count_step(self.builder, self.steps)

    def finish(self):
        """What comes after the loop."""
        for tape in self.tapes:
            tape.finish()
        for wanted in self.counts:
            self.builder.copy(self.steps, wanted)
