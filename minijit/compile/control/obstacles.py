"""What a native loop may consist of, and what stands in the way, in words.

    obstacle(program)                   # "sort in its body runs uncompiled", or None

These sentences stand among the fallbacks of a program whose loop Python has to drive.
"""


from ...trace.array import ShapedArray
from ...trace.jit.jit import jit_p
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.while_and_scan import scan_p, while_p
from ..decisions import loop_rules, noted
from ..lower.assembly import expanded
from ..lower.calls import runs_uncompiled
from ..lower.walk import fallbacks
from ..settings import config

# primitive -> function of its params: the jaxprs that it runs.
parts_of = {
    cond_p: lambda branches: branches,
    while_p: lambda cond_jaxpr, body_jaxpr, **rest: (cond_jaxpr, body_jaxpr),
    scan_p: lambda jaxpr, **rest: (jaxpr,),
}


def programs_of(call):
    """The programs that a call runs."""
    if call.routine == "program":
        return (call.attrs["program"],)
    return call.attrs.get("programs", ())


def kind_of(call):
    """What the tables know a call by: its routine, or what it runs uncompiled."""
    return call.attrs["primitive"] if call.routine == "eval" else call.routine


def obstacle(program):
    """Why a program cannot run within a native loop, or None if it can."""
    calls = filter(None, map(call_obstacle, program.calls))
    return too_large(program) or next(calls, None)


def left_to_python(closed):
    """What a body surely calls that no native code can, as an obstacle, or None.

    It is seen without lowering the body, which may be the better half of a compile.
    """
    for eqn in closed.jaxpr.eqns:
        kind = eqn.primitive
        inner = (eqn.params["jaxpr"],) if kind is jit_p else ()
        if kind in parts_of:
            inner = parts_of[kind](**eqn.params)
        for reason in filter(None, map(left_to_python, inner)):
            return reason if kind is jit_p else told(kind)
        uncompiled = kind in fallbacks and runs_uncompiled(eqn)
        # Others may be lowered in its place.
        if uncompiled and kind not in call_obstacles:
            if any(e is eqn for e in expanded(closed.jaxpr).eqns):
                return told(kind)
    return None


def steps_of(program):
    """How many kernels and calls a program consists of, inner ones included."""
    inner = (p for call in program.calls for p in programs_of(call))
    return len(program.body) + sum(map(steps_of, inner))


def too_large(program):
    """The size of a program as an obstacle, or None."""
    most = config.fusion.largest_loop
    if (steps := steps_of(program)) > most:
        noted("large loop", *program.body, kernels=steps)
        return f"its body has more than {most} kernels (the setting largest_loop)"
    return None


loop_rules |= {"large loop": (False, "it would compile for too long", "largest_loop")}


def call_obstacle(call):
    """Why native code cannot make a call, or None."""
    kind = kind_of(call)
    if kind in call_obstacles:
        return call_obstacles[kind](call)
    return told(kind)


def told(kind):
    """That native code cannot make a call of a kind, in words."""
    how = "is driven from Python" if kind in parts_of else "runs uncompiled"
    return f"{kind} in its body {how}"


# kind of call -> function of the call: why native code cannot make it, or None.
call_obstacles = {
    "program": lambda call: obstacle(call.attrs["program"]),
    "loop": lambda call: None,
}

# type of a value -> function of the aval: whether native loops can hold such values.
native_types = {ShapedArray: lambda aval: aval.dtype.kind != "O"}


def is_native(aval):
    """Whether native loops can hold values of a type."""
    holds = native_types.get(type(aval))
    return holds is not None and holds(aval)
