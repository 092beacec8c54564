"""The choice: of the ways to run a kernel, the one with the lowest price.

    program = scheduled(program)       # a kernel may have become several

The price of each stands in the program's ledger, those of the rejected too.
"""

from collections import Counter
from dataclasses import replace

from ..decisions import in_bounds, loop_rules, noted
from ..loops.check import LoopTypeError, check_program
from ..loops.expressions import Load, Reduce
from ..loops.graphs import postorder
from ..loops.statements import (
    For,
    Kernel,
    Store,
    expressions,
    program_expressions,
    statements,
)
from ..pipeline import rewrites
from ..settings import config
from .machine import Machine
from .nests import stride_along
from .placing_rules import arrange

# Nanoseconds: kernels that take less are left as they are.  To price a few candidates
# takes some milliseconds, a hundred runs of such a kernel.
WORTH = 30_000
# Elements: fewer are computed in that time, however slowly.
STEPS = 100_000
# Nothing is looked for where no candidate could be so many times as fast.
NEAR = 1.5
# Prices nearer to each other are the same: on average the model errs by about that.
SURE = 0.945
# Statements: more are what somebody has written out; to price them takes a second.
MANY = 100


def scheduled(program):
    """A program in which kernels run as it costs least on the machine in force."""
    if not config.fusion.enabled:
        return program
    new, machine = program, Machine.in_force()
    for kernel in program.kernels:
        if type(kernel) is Kernel and may_matter(kernel):
            new = with_cheapest(new, kernel, machine)
    if new is not program:
        try:
            check_program(new)
        except LoopTypeError as error:
            noted("ill-formed", *program.kernels, **{str(error): 0})
            return program
    return new


def may_matter(kernel):
    """Whether there is anything to choose: totals, several statements, several axes."""
    inside = statements(kernel.body)
    loops = [s for s in inside if isinstance(s, For)]
    if not loops or len(inside) > MANY or steps_of(kernel.body) < STEPS:
        return False
    stores = [s for s in inside if isinstance(s, Store)]
    exprs = postorder(expressions(kernel.body))
    if len(stores) > 1 or any(type(e) is Reduce for e in exprs):
        return True
    # One nest: does memory run along its innermost loop?
    loads = [e for e in exprs if type(e) is Load]
    strides = (stride_along(place, loops[-1].axis) for place in (*stores, *loads))
    return len(loops) > 1 and not all(stride in (0, 1) for stride in strides)


def steps_of(body, times=1):
    """How many elements statements compute, the terms of their totals too."""
    found = 0
    for stmt in body:
        if isinstance(stmt, For):
            found += steps_of(stmt.body, times * (stmt.axis.bounds[1] + 1))
            continue
        terms = 1
        for e in postorder(list(stmt.uses())):
            if type(e) is Reduce:
                here = 1
                for axis in e.axes:
                    here *= axis.bounds[1] + 1 if axis.kind == "reduce" else 1
                terms += here
        found += times * terms + sum(steps_of(b, times) for b in stmt.bodies())
    return found


def with_cheapest(program, kernel, machine):
    """A program in which a kernel runs in its cheapest way."""
    # They come with the first kernel that may matter.
    from .cost import least, price
    from .recipes import candidates

    today = price([arrange(kernel.body)], machine)
    if today < WORTH or today < NEAR * least([kernel.body], machine):
        return program
    found = {}
    for candidate in candidates(kernel, alone_in(program, kernel)):
        bodies = [arrange(body) for body in candidate.bodies]
        found[candidate] = price(bodies, machine)
    chosen = min(found, key=found.get, default=None)
    prices = {c.recipe: round(cost) for c, cost in found.items()}
    if chosen is None or found[chosen] >= SURE * today:
        if found:
            noted("as fused", kernel, **{"as fused": round(today)} | prices)
        return program
    new, kernels = with_candidate(program, kernel, chosen)
    prices = {chosen.recipe: round(found[chosen]), "as fused": round(today)} | prices
    noted("schedule", *kernels, **prices)
    return new


loop_rules |= {
    "schedule": (True, "its loops are those that cost least, in nanoseconds"),
    "as fused": (False, "no other loops cost less, in nanoseconds"),
    "ill-formed": (False, "the checker refuses the loops that would cost less"),
}


def touched(step):
    """The arrays that a step of a program reads or writes."""
    if type(step) is not Kernel:
        views = (*step.inputs, *step.outputs) if hasattr(step, "inputs") else ()
        return {view.buffer for view in views}
    stores = {s.buffer for s in statements(step.body) if isinstance(s, Store)}
    loads = (e for e in postorder(expressions(step.body)) if type(e) is Load)
    return stores | {e.buffer for e in loads}


def alone_in(program, kernel):
    """The temporaries that nothing but one kernel uses."""
    uses = Counter(b for step in program.body for b in touched(step))
    here = touched(kernel)
    return {b for b in program.temps if b in here and uses[b] == 1}


def with_candidate(program, kernel, candidate):
    """(the program with a candidate in a kernel's place, the candidate's kernels)"""
    names = [kernel.name]
    names += [f"{kernel.name}_{n}" for n in range(1, len(candidate.bodies))]
    kernels = tuple(
        Kernel(name, body, kernel.eqns)
        for name, body in zip(names, candidate.bodies, strict=True)
    )
    body = []
    for step in program.body:
        body += kernels if step is kernel else [step]
    temps = [t for t in program.temps if t not in candidate.gone]
    temps += candidate.temps
    return replace(program, body=tuple(body), temps=tuple(temps)), kernels


def in_time(program):
    """`scheduled`, or the program where to price it takes too long."""
    return in_bounds(scheduled, program, program_expressions, *program.body)


rewrites |= {"scheduled": in_time}
