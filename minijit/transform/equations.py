"""Equations in other words: with other variables, or with calls written out."""

from functools import partial

from ..trace.arguments import TraceInfo
from ..trace.jaxprs.jaxpr import ClosedJaxpr, JaxprTrace, Var
from ..trace.jaxprs.memory import memoised
from ..trace.jit.jit import jit_p
from .closed_jaxprs import apply_closed, info_of, trace_closed


class Inlining(JaxprTrace):
    """Records what is called by some primitives in place of the calls."""

    def __init__(self, calls, *args):
        super().__init__(*args)
        self.calls = calls

    def process(self, primitive, args, params):
        if primitive not in self.calls:
            return super().process(primitive, args, params)
        called, = (x for x in params.values() if isinstance(x, ClosedJaxpr))
        return apply_closed(called, *args)


@memoised
def inline_calls(closed, calls=frozenset({jit_p})):
    """The same jaxpr without calls by these primitives, as of jitted functions."""
    if not any(eqn.primitive in calls for eqn in closed.jaxpr.eqns):
        return closed
    apply, kind = partial(apply_closed, closed), partial(Inlining, calls)
    return trace_closed(apply, closed.in_avals, info_of(closed, "inline"), kind)


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


def everywhere(rule):
    """The pass that puts the equations rule(eqn), if not None, in the place of each."""

    def rewrite(jaxpr):
        found = [(eqn, rule(eqn)) for eqn in jaxpr.eqns]
        if all(new is None for _, new in found):
            return jaxpr
        eqns = [e for eqn, new in found for e in ([eqn] if new is None else new)]
        return jaxpr.replace(eqns=tuple(eqns))

    return rewrite


def rename_inputs(eqn, substitute):
    """An equation that reads other variables."""
    return eqn.replace(invars=tuple(rename_atom(v, substitute) for v in eqn.invars))


def rename_atom(atom, substitute):
    """What stands for an atom in a renamed program; literals stand for themselves."""
    return substitute.get(atom, atom) if isinstance(atom, Var) else atom
