"""Equations in other words: with other variables, or with calls written out."""

from functools import partial

from ..trace.arguments import TraceInfo
from ..trace.base.errors import on_behalf_of
from ..trace.jaxprs.jaxpr import ClosedJaxpr, Var, literal_value
from ..trace.jaxprs.memory import memoised
from ..trace.jit.jit import jit_p
from .closed_jaxprs import apply_closed, info_of, trace_closed


@memoised
def inline_calls(closed, calls=frozenset({jit_p})):
    """The same jaxpr without calls by these primitives, as of jitted functions."""
    jaxpr = closed.jaxpr
    while any(eqn.primitive in calls for eqn in jaxpr.eqns):
        apply = partial(apply_inlined, closed, calls)
        closed = trace_closed(apply, closed.in_avals, info_of(closed, "inline"))
        jaxpr = closed.jaxpr
    return closed


def apply_inlined(closed, calls, *args):
    """Replay a jaxpr, and the jaxprs it calls, in place of the calls."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env |= zip(closed.jaxpr.invars, args, strict=True)

    def read(atom):
        return env[atom] if isinstance(atom, Var) else literal_value(atom)

    for eqn in closed.jaxpr.eqns:
        values = map(read, eqn.invars)
        if eqn.primitive in calls:
            called, = (x for x in eqn.params.values() if isinstance(x, ClosedJaxpr))
            outs = apply_closed(called, *values)
        else:
            with on_behalf_of(eqn.source):
                outs = eqn.primitive.bind(*values, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
        env |= zip(eqn.outvars, outs, strict=True)
    return [read(v) for v in closed.jaxpr.outvars]


def written_out(eqn, function, **params):
    """The equations of a function of arrays in the place of one equation."""
    function = partial(function, **eqn.params, **params)

    def flat(*args):
        outs = function(*args)
        return outs if isinstance(outs, list) else [outs]

    avals = [x.aval for x in eqn.invars]
    jaxpr = trace_closed(flat, avals, TraceInfo("written_out", "")).jaxpr
    names = dict(zip(jaxpr.invars, eqn.invars, strict=True))
    names |= zip(jaxpr.outvars, eqn.outvars, strict=True)
    outvars = lambda e: tuple(names.get(v, v) for v in e.outvars)
    renamed = [rename_inputs(e, names) for e in jaxpr.eqns]
    return [e.replace(outvars=outvars(e), source=eqn.source) for e in renamed]


def rename_inputs(eqn, substitute):
    """An equation that reads other variables."""
    return eqn.replace(invars=tuple(rename_atom(v, substitute) for v in eqn.invars))


def rename_atom(atom, substitute):
    """What stands for an atom in a renamed program; literals stand for themselves."""
    return substitute.get(atom, atom) if isinstance(atom, Var) else atom
