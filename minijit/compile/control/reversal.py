"""The backward pass of a checkpointed loop as statements: the schedule and its carries.

    l = 0                                   # how many carries are held before this one
    t0[0] = in3                             # row l of a table: a carry that is held
    t1[0] = in0                             # how many steps to go back to row l
    while l >= 0:
      if t1[l] > 1:
        k = the next checkpoint, with max(slots - l, 1) slots
        ...                                 # k steps forward, from row l to the next
        t1[l], t1[l + 1] = k, t1[l] - k
        l += 1
      else:
        if t1[l] == 1:
          ...                               # a step back, from row l
        l -= 1

It is the recursion of chapter 13, with its stack made visible: what one call holds is a
row.  There are `slots` rows and one.
"""

from ...transform.control_flow.checkpointed_loops import operands, treeverse_p
from ..loops.expressions import Axis, as_index, op
from ..loops.scalars import INDEX
from ..loops.statements import For, If, While
from .lowering import Carries
from .obstacles import parts_of
from .regions import Part, loop_builders
from .watching import work_of


def register(load):
    """The register that holds a number."""
    return Part(load.buffer)


class HeldCarries:
    """The rows of the carries that are held, the first one in row 0."""

    def __init__(self, builder, carry, slots):
        self.builder, self.slots = builder, slots
        # The last row is for the carry from which the next step back is taken.
        kinds = *((where.shape, where.dtype) for where in carry), ((), INDEX)
        *self.tables, self.todo = (
            builder.room((slots + 1, *shape), dtype) for shape, dtype in kinds
        )

    def start(self, count, carry):
        """Hold the carry that the loop begins with: -> the number of its row."""
        level = self.builder.hold(as_index(0))
        self.builder.set(self.left(as_index(0)), count)
        for source, where in zip(carry, self.row(as_index(0)), strict=True):
            self.builder.copy(source, [where])
        return level

    def row(self, at):
        return [table.row(at) for table in self.tables]

    def left(self, at):
        """How many steps there are to go back to the carry in a row."""
        return self.todo.row(at)


def run_steps(builder, step, steps, consts, begin, end):
    """So many steps, from a carry in the places `begin` to one in the places `end`."""
    ahead = [(where,) for where in end]
    carries = Carries(builder, step, step.inputs[len(consts) :], begin, ahead)
    with builder.block() as one:
        builder.program(step, [*consts, *carries.now], carries.next)
        carries.step()
        builder.watch(work_of(step))
    builder.add(For(Axis(steps, "serial"), tuple(one)))
    carries.finish()


def build_treeverse(builder, programs, inputs, outputs, *, body, back, slots):
    """The loop over the schedule, a part of the loop forward, and one step back."""
    step, step_back = programs
    count, *args = inputs
    shared, consts, given, carry = operands(args, body, back)
    known = [*shared, *consts]
    held = HeldCarries(builder, carry, slots)
    buffers = step_back.inputs[len(known) : len(known) + len(given)]
    cts = Carries(builder, step_back, buffers, given, outputs)
    level = held.start(as_index(count.load()), carry)
    left = held.left(level)
    with builder.block() as forward:
        go_forward(builder, held, step, consts, level)
    with builder.block() as backward:
        builder.program(step_back, [*known, *cts.now, *held.row(level)], cts.next)
        cts.step()
    down = register(level).store((), op("sub", level, as_index(1)))
    with builder.block() as turn:
        builder.watch(work_of(step_back))
        builder.add(one_turn(left, tuple(forward), tuple(backward), down))
    builder.add(While((), op("ge", level, as_index(0)), tuple(turn)))
    cts.finish()


parts_of |= {treeverse_p: lambda body, back, slots: (body, back)}
loop_builders |= {treeverse_p: build_treeverse}


def next_checkpoint(builder, steps, slots):
    """`checkpointed_loops.next_checkpoint`, of expressions: -> an expression."""
    t, shorter, reach = (builder.hold(as_index(n)) for n in (0, 0, 1))
    further = op("lt", reach, steps)
    with builder.block() as body:
        old = builder.hold(reach)
        builder.set(register(t), op("add", t, as_index(1)))
        longer = op("div", op("mul", old, op("add", slots, t)), t)
        builder.set(register(reach), longer)
        builder.set(register(shorter), old)
    builder.add(While((), further, tuple(body)))
    less = op("sub", op("add", slots, t), as_index(1))
    both_less = op("div", op("mul", shorter, slots), less)
    return builder.hold(op("min", shorter, op("sub", steps, both_less)))


def go_forward(builder, held, step, consts, level):
    """From the carry in a row some steps forward, to one that is held in the next row.

    Args:
      step: the `Program` of one step; consts: the places of what all steps share.
    """
    left, above = held.left(level), op("add", level, as_index(1))
    free = op("max", op("sub", as_index(held.slots), level), as_index(1))
    steps = next_checkpoint(builder, left.load(), builder.hold(free))
    run_steps(builder, step, steps, consts, held.row(level), held.row(above))
    builder.set(held.left(above), op("sub", left.load(), steps))
    builder.set(left, steps)
    builder.set(register(level), above)


def one_turn(left, forward, backward, down):
    """The statement of a turn: forward if several steps are left, else back and down.

    Args:
      left: the place of the number of steps; forward, backward: lists of statements;
      down: the statement that goes to the row before.
    """
    one, several = (op(how, left.load(), as_index(1)) for how in ("eq", "gt"))
    return If(several, forward, (If(one, backward), down))
