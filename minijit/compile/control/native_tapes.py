"""Which tapes and unions are native: within loops all whose arrays are real numbers.

What is done with them outside of loops is left to Python, and so is a loop that carries
them from step to step.
"""

from functools import partial

from ...trace.array import ShapedArray
from ...transform.control_flow.batching import every_p
from ...transform.control_flow.tape_rules import zero_p
from ...transform.control_flow.unions_and_tapes import Tape, Union, inject_p, project_p
from ..lower.calls import add_call, whole_atom
from ..lower.walk import Statements
from ..memory.overwriting import carry_positions
from ..pipeline import row_choosers
from .native_loops import driven_from_python
from .obstacles import call_obstacles, is_native, native_types
from .within_tables import on_arrays

native_types |= {
    Tape: lambda aval: is_native(aval.element),
    Union: lambda aval: all(is_native(a) for case in aval.cases for a in case),
}


def union_obstacle(call):
    """Why a Union cannot be made or opened within a native loop, or None."""
    eqn, = call.eqns
    avals = [atom.aval for atom in (*eqn.invars, *eqn.outvars)]
    other = next((aval for aval in avals if not is_native(aval)), None)
    return None if other is None else f"{other} in its body is no array of real numbers"


# What makes a Union or opens it, or makes a zero; and what goes on within.
in_tables = (inject_p, project_p, every_p, zero_p, *on_arrays)
call_obstacles |= dict.fromkeys(in_tables, union_obstacle)


def residual_row(eqn):
    """The row of a Union that is made or opened, and of a loop that carries one."""
    if eqn.primitive in in_tables and not is_array(eqn):
        return Statements(lower_union)
    if any(aval.dtype == object for aval in carry_avals(eqn)):
        reason = "it carries tapes or unions"
        return Statements(partial(driven_from_python, reason=reason))
    return None


def is_array(eqn):
    """Whether an equation is one of arrays: a copy may be."""
    return all(isinstance(a.aval, ShapedArray) for a in (*eqn.invars, *eqn.outvars))


def carry_avals(eqn):
    """The types of what a loop carries."""
    find = carry_positions.get(eqn.primitive)
    count = find(len(eqn.invars), **eqn.params)[1] if find else 0
    return [v.aval for v in eqn.outvars[:count]]


def lower_union(walk, eqn):
    """What is done with a Union: native within a loop, elsewhere left to Python."""
    reason = "tapes and unions outside of loops are left to Python"
    walk.fallbacks[eqn.primitive.name] = reason
    attrs = {"primitive": eqn.primitive, "params": eqn.params}
    add_call(walk, [eqn], "eval", map(whole_atom, eqn.invars), attrs)


row_choosers |= {"residuals": residual_row}
