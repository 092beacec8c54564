"""Loops and branches as calls of programs: which are native, and which Python drives.

    out0, out1 = loop[while](in0)       # a `Call`; attrs["programs"]: test and body
    out0 = eval[while](in0)             # driven from Python; the fallbacks say why

A loop is native if all that its body does can be said in statements.  What stands in
the way is told in words: what surely runs uncompiled is seen in the body's equations,
the rest in its program, once the same lowering has lowered it.  A `loop` call becomes a
`Region` in `lowering.py`.
"""

import weakref

from ...trace.jaxprs.jaxpr import ClosedJaxpr
from ...trace.jit.jit import cache_clearers
from ..lower.calls import add_call, call_eval, whole_atom
from ..lower.walk import Statements, lower
from ..pipeline import loop_expansions, row_choosers
from .obstacles import is_native, left_to_python, obstacle, parts_of

# {closed jaxpr: the Program of that body or branch}
bodies: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
cache_clearers.append(bodies.clear)


def program_of(closed):
    """The program of a body or a branch, lowered once.

    It is simplified already, as a param of an equation of a simplified program.
    """
    program = bodies.get(closed)
    if program is None:
        name = closed.jaxpr.debug.name or "body"
        closed, given = without_calls(closed), closed
        program = bodies[given] = lower(closed, name, programs=bodies)
    return program


def without_calls(closed):
    """A body, or a branch, with equations of its own for what would be a call."""
    jaxpr = closed.jaxpr
    for change in loop_expansions.passes:
        jaxpr = change(jaxpr)
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


def native_row(eqn):
    """The row of a loop or branch.  What it does is lowered when the row is."""
    return Statements(lower_loop) if eqn.primitive in parts_of else None


def lower_loop(walk, eqn):
    """A call that becomes a `Region`, or one that Python drives, and why."""
    for atom in (*eqn.invars, *eqn.outvars):
        if not is_native(atom.aval):
            reason = f"{atom.aval} is no array of real numbers"
            return driven_from_python(walk, eqn, reason)
    parts = parts_of[eqn.primitive](**eqn.params)
    for reason in filter(None, map(left_to_python, map(without_calls, parts))):
        return driven_from_python(walk, eqn, reason)
    programs = tuple(map(program_of, parts))
    for reason in filter(None, map(obstacle, programs)):
        return driven_from_python(walk, eqn, reason)
    attrs = {"primitive": eqn.primitive, "params": eqn.params, "programs": programs}
    add_call(walk, [eqn], "loop", map(whole_atom, eqn.invars), attrs)


def driven_from_python(walk, eqn, reason):
    """A call that runs a loop's body, compiled, from Python."""
    call_eval(walk, eqn, f"driven from Python: {reason}")


row_choosers |= {"native_loops": native_row}
