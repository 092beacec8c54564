"""Loops and branches as statements: `while`, `scan` and `cond` lowered.

    print(with_regions(lower(make_jaxpr(
        lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * c + 1, x))(2.0))))
    # program main(in0: f32[]):
    #   temp s0: f32[], s1: bool[], s2: f32[]
    #   output out0: f32[]
    #   while:
    #     s0[] = in0[]
    #     while:
    #       s1[] = s0[] < 100.0
    #       if not s1[]: break
    #       s2[] = (s0[] * s0[]) + 1.0
    #       s0[] = s2[]
    #     out0[] = s0[]

A loop that no Python has to drive is, after `lower`, a `Call` on arrays, with programs
for its test and its body.  Here it becomes a `Region`.  A carry that is an array is
updated in place where each element depends on no other element of it; otherwise there
are two of it, which swap their storage after every step.
"""

from dataclasses import replace

from ...trace.array import ShapedArray
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.while_and_scan import scan_p, while_p
from ...transform.pieces import split
from ..loops.expressions import Const, as_index, op
from ..loops.scalars import BOOL
from ..loops.statements import Call, If, Region, Swap, While, after_pass
from ..memory.overwriting import plan
from .obstacles import call_obstacle, kind_of

# chapter 21
from .regions import Carry, Part, RegionBuilder, call_builders, loop_builders
from .watching import Kept, steps_of_scan, work_of

# ---- carries


class Carries:
    """The carries of one loop: where they are, from the first step to the last."""

    def __init__(self, builder, body, buffers, inits, results):
        """Build what comes before the loop; `buffers` are inputs of the step."""
        self.builder, self.results, self.all = builder, results, []
        pairs = list(zip(buffers, body.outputs, strict=False))
        in_place = plan(body, *pairs).pairs
        for pair, init, wanted in zip(pairs, inits, results, strict=True):
            carry = self.carry(pair[0], pair in in_place, wanted)
            builder.copy(init, [carry.now])
            self.all.append(carry)

    def carry(self, source, in_place, wanted):
        builder, shape, dtype = self.builder, source.shape, source.dtype
        if shape and in_place:
            where = wanted[0] if wanted else builder.room(shape, dtype)
            return Carry(where, where)
        return Carry(builder.room(shape, dtype), builder.room(shape, dtype))

    @property
    def now(self):
        return [carry.now for carry in self.all]

    @property
    def next(self):
        return [(carry.next,) for carry in self.all]

    def step(self):
        """The end of a step: what was new is what the next one begins with."""
        for carry in self.all:
            if carry.now.shape and carry.now != carry.next:
                self.builder.add(Swap(carry.now.buffer, carry.next.buffer))
            else:
                self.builder.copy(carry.next, [carry.now])

    def finish(self):
        """What comes after the loop."""
        for carry, wanted in zip(self.all, self.results, strict=True):
            self.builder.copy(carry.now, wanted)


# ---- loops and branches


def build_while(
    builder, programs, inputs, outputs, *,
    cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, stack,
):  # fmt: skip
    """A `While` whose condition is computed by statements, too."""
    test, body = programs
    test_consts, consts, inits = split(inputs, cond_nconsts, body_nconsts)
    finals, counts, ys = split(outputs, len(inits), 1 if stack else 0)
    carries = Carries(builder, body, body.inputs[body_nconsts:], inits, finals)
    kept = Kept(builder, counts, ys)
    goes_on = builder.number(BOOL)
    with builder.block() as before:
        builder.program(test, [*test_consts, *carries.now], [(goes_on,)])
    with builder.block() as step:
        results = [*carries.next, *kept.rows()]
        builder.program(body, [*consts, *carries.now], results)
        carries.step()
        kept.step()
        builder.watch(work_of(test) + work_of(body))
    builder.add(While(tuple(before), goes_on.load(), tuple(step)))
    carries.finish()
    kept.finish()


def build_scan(
    builder, programs, inputs, outputs, *,
    jaxpr, length, reverse, num_consts, num_carry, unroll,
):  # fmt: skip
    """A `For`; xs are read, and ys written, in the row of its axis."""
    body, = programs
    counts, rest = split(inputs, length is None)
    consts, inits, xs = split(rest, num_consts, num_carry)
    finals, ys = split(outputs, num_carry)
    buffers = body.inputs[num_consts : num_consts + num_carry]
    carries = Carries(builder, body, buffers, inits, finals)
    steps = as_index(counts[0].load() if counts else length)
    readers = [x.reader(builder) for x in xs]
    writers = [[y.writer(builder, steps) for y in wanted] for wanted in ys]
    if length != 0:
        with steps_of_scan(builder, steps, length, reverse, body) as i:
            targets = [tuple(at(i) for at in writer) for writer in writers]
            given = [*consts, *carries.now, *(at(i) for at in readers)]
            builder.program(body, given, [*carries.next, *targets])
            carries.step()
    carries.finish()


def build_cond(builder, programs, inputs, outputs, *, branches):
    """`If`s: the last branch is what no other one is."""
    index, *operands = inputs

    def choice(k):
        with builder.block() as body:
            builder.program(programs[k], operands, outputs)
        if k == len(programs) - 1:
            return tuple(body)
        this = index.load()
        pred = op("eq", this, Const(k, this.dtype))
        return (If(pred, tuple(body), choice(k + 1)),)

    builder.add(*choice(0))


loop_builders |= {cond_p: build_cond, while_p: build_while, scan_p: build_scan}


# chapter 21, brought along
# ---- programs


def array_of(builder, view, aval):
    """The place of an argument or a result that is an array."""
    return Part(view.buffer)


# type of a value -> function(builder, view, aval): where an argument, or a result, is.
arguments_of = {ShapedArray: array_of}
results_of = {ShapedArray: array_of}


def region_of(call, prefix, make=RegionBuilder):
    """The `Region` of a call, and what built it."""
    builder, (eqn,), places = make(prefix, call), call.eqns, {}
    for rows, views, atoms in (
        (arguments_of, call.inputs, eqn.invars),
        (results_of, call.outputs, eqn.outvars),
    ):
        for view, atom in zip(views, atoms, strict=True):
            if view.buffer not in places:
                places[view.buffer] = (rows[type(atom.aval)](builder, view, atom.aval),)
    call_builders[kind_of(call)](builder, call, places)
    tables, functions = tuple(builder.attached), tuple(builder.functions.values())
    name = call.attrs["primitive"].name
    return Region(name, builder.body, call.eqns, tables, functions), builder


def with_regions(program, make=RegionBuilder):
    """A program in which every loop that no Python drives is a `Region`.

    So is any other call of a kind that `make` builds, unless something is in the way.
    """
    body, temps, constants = [], list(program.temps), list(program.constants)
    for step in program.body:
        is_kind = isinstance(step, Call) and kind_of(step) in make.kinds
        if is_kind and call_obstacle(step) is None:
            step, builder = region_of(step, f"r{len(body)}_", make)
            constants += builder.constants.values()
            temps += builder.rooms
        body.append(step)
    if body == list(program.body):
        return program
    new = replace(
        program, body=tuple(body), temps=tuple(temps), constants=tuple(constants)
    )
    for function in after_pass:
        function(new)
    return new
