"""The backward pass of a checkpointed loop, natively: the schedule and its carries.

    l0 = 0                                  # how many carries are held before this one
    t0[0] = in3                             # row l0 of a table: a carry that is held
    t1[0] = in0                             # how many steps to go back to row l0
    while l0 >= 0:
        if t1[l0] > 1:
            k0 = next_checkpoint(t1[l0], max(slots - l0, 1))
            ...                             # k0 steps forward, from row l0 to the next
            t1[l0], t1[l0 + 1] = k0, t1[l0] - k0
            l0 += 1
        else:
            if t1[l0] == 1:
                ...                         # a step back, from row l0
            l0 -= 1

It is the recursion of chapter 12, with its stack made visible: what one call holds is a
row.  There are `slots` rows and one; beyond sixteen, tables grow as those of tapes do.
"""

import numpy as np

from ..compile.watching import work_of
from ..transform.reverse_loops import next_checkpoint, operands, treeverse_p
from .native_control import Carries, loop_printers
from .scalar_math import functions
from .tables import FIRST_RECORDS

functions |= {"next_checkpoint": next_checkpoint}


class HeldCarries:
    """The tables of the carries that are held, the first one in row 0."""

    def __init__(self, function, carry, slots):
        self.function = function
        # The last row is for the carry from which the next step back is taken.
        self.grows = slots + 1 > FIRST_RECORDS
        rows = min(slots + 1, FIRST_RECORDS)
        self.tables = [function.room(x.shape, x.dtype, (rows,)) for x in carry]
        self.todo = function.room((), np.dtype("int32"), (rows,))

    def row(self, at):
        return [table.row(at) for table in self.tables]

    def reserve(self, rows):
        """Print that there is room for one row more than so many."""
        for table in (*self.tables, self.todo):
            if self.grows:
                self.function.line(f"{table.name} = roomy({table.name}, {rows}, 1)")


def print_treeverse(function, programs, inputs, outputs, *, body, back, slots):
    """The loop over the schedule, a part of the loop forward, and one step back."""
    step, step_back = programs
    count, *args = inputs
    shared, consts, given, carry = operands(args, body, back)
    known, n_given = [*shared, *consts], len(given)
    held = HeldCarries(function, carry, slots)
    level, steps, i = map(function.fresh, ("l", "k", "i"))
    buffers = step_back.inputs[len(known) : len(known) + n_given]
    cts = Carries(function, step_back, buffers, given, outputs)
    todo = held.todo.name
    function.line(f"{level} = 0")
    function.line(f"{todo}[0] = {count.element(())}")
    for start, where in zip(carry, held.row("0"), strict=True):
        function.copy(start, [where])
    function.line(f"while {level} >= 0:")
    with function.indent():
        function.watch(work_of(step_back))
        function.line(f"if {todo}[{level}] > 1:")
        with function.indent():
            left = f"max({slots} - {level}, 1)"
            function.line(f"{steps} = next_checkpoint({todo}[{level}], {left})")
            held.reserve(f"{level} + 1")
            ahead = [(where,) for where in held.row(f"{level} + 1")]
            buffers = step.inputs[len(consts) :]
            carries = Carries(function, step, buffers, held.row(level), ahead)
            function.line(f"for {i} in range({steps}):")
            with function.indent():
                function.program(step, [*consts, *carries.now], carries.next)
                carries.step()
                function.watch(work_of(step))
            carries.finish()
            function.line(f"{todo}[{level} + 1] = {todo}[{level}] - {steps}")
            function.line(f"{todo}[{level}] = {steps}")
            function.line(f"{level} += 1")
        function.line("else:")
        with function.indent():
            function.line(f"if {todo}[{level}] == 1:")
            with function.indent():
                values = [*known, *cts.now, *held.row(level)]
                function.program(step_back, values, cts.next)
                cts.step()
            function.line(f"{level} -= 1")
    cts.finish()


loop_printers |= {treeverse_p: print_treeverse}
