"""Recording functions, under the names of `jax.interpreters.partial_eval`."""

from collections import ChainMap
from itertools import compress

from ...trace.arguments import TraceInfo, function_name
from ...trace.array import aval_of
from ...trace.base import names as _names
from ...trace.core import Tracer, current_trace, set_trace
from ...trace.jaxprs.jaxpr import (
    ClosedJaxpr, Jaxpr, JaxprTrace, JaxprTracer as JaxprTracer, Var,
    dce_rules as _dce_rules, has_effect, trace_to_jaxpr, unzip2,
)
from ...trace.jit.jit import jit_p
from ...trace.primitives import as_array
from ...transform.remat.checkpoint import checkpoint_p

DynamicJaxprTracer = JaxprTracer

# Rules for a part of minijit that does not exist: derivatives are of whole equations.
# They may be written, and nobody reads them.
custom_partial_eval_rules: dict = {}
partial_eval_jaxpr_custom_rules: dict = {}


def trace_to_jaxpr_dynamic(
    fun, in_avals, *, keep_inputs=None, lower=False, auto_dce=False
):
    """Record a function of a flat list: -> (jaxpr, types of the results, constants).

    Args:
      fun: a `linear_util.WrappedFun`, or any function.
      in_avals: the types of its arguments.
    """
    del keep_inputs, lower, auto_dce
    call = getattr(fun, "call_wrapped", fun)
    flat = lambda *args: list(map(as_array, call(*args)))
    info = TraceInfo(function_name(getattr(fun, "f", fun)), "trace_to_jaxpr_dynamic")
    jaxpr, consts = trace_to_jaxpr(flat, list(in_avals), info)
    return jaxpr, jaxpr.out_avals, list(consts)


class PartialVal(tuple):
    """A value that is known, (None, value), or of which the type is, (aval, None)."""

    @classmethod
    def unknown(cls, aval):
        return cls((aval, None))

    @classmethod
    def known(cls, const):
        return cls((None, const))

    def is_known(self):
        return self[0] is None

    def get_aval(self):
        return aval_of(self[1]) if self.is_known() else self[0]


class PartialTrace(JaxprTrace):
    """Records what depends on unknown values, and computes the rest at once."""

    def process(self, primitive, args, params):
        if any(isinstance(x, Tracer) and x.owner is self for x in args):
            return super().process(primitive, args, params)
        with set_trace(self.parent):
            outs = primitive.bind(*args, **params)
        return outs if primitive.multiple_results else [outs]


def trace_to_jaxpr_nounits(fun, pvals, instantiate=False):
    """Split a function by what is known: -> (jaxpr, `PartialVal`s, constants).

    Args:
      fun: a `linear_util.WrappedFun`.
      pvals: a `PartialVal` for each argument.
      instantiate: whether to count known results among the unknown ones.

    Returns:
      A jaxpr from the unknown arguments, its constvars first, to the unknown results.
    """
    info = TraceInfo(function_name(fun.f), "partial evaluation")
    trace = PartialTrace(current_trace(), info)
    given = [x if aval is None else trace.argument(aval) for aval, x in pvals]
    with set_trace(trace):
        outs = list(map(as_array, fun.call_wrapped(*given)))
    mine = [instantiate or isinstance(y, Tracer) and y.owner is trace for y in outs]
    results = [
        PartialVal.unknown(aval_of(y)) if m else PartialVal.known(y)
        for y, m in zip(outs, mine, strict=True)
    ]
    outvars = tuple(trace.lift(y) for y, m in zip(outs, mine, strict=True) if m)
    trace.over = True
    constvars, consts = unzip2(trace.constants.values())
    invars = (*constvars, *trace.invars)
    return Jaxpr((), invars, tuple(trace.eqns), outvars, info), results, list(consts)


def dce_jaxpr(jaxpr, used_outputs, instantiate=False):
    """Drop dead equations and inputs: -> (jaxpr, one bool an input: if it stays)."""
    outvars = tuple(compress(jaxpr.outvars, used_outputs))
    needed, kept = {v for v in outvars if isinstance(v, Var)}, []
    for eqn in reversed(jaxpr.eqns):
        used = [v in needed for v in eqn.outvars]
        if not any(used) and not has_effect(eqn):
            continue
        if eqn.primitive in dce_rules:
            eqn = dce_rules[eqn.primitive](used, eqn)[1]
        if eqn is not None:
            kept.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    every = [instantiate] * len(jaxpr.invars)
    every = list(instantiate) if isinstance(instantiate, (list, tuple)) else every
    used = [v in needed or keep for v, keep in zip(jaxpr.invars, every, strict=True)]
    smaller = jaxpr.replace(
        constvars=tuple(v for v in jaxpr.constvars if v in needed),
        invars=tuple(compress(jaxpr.invars, used)),
        eqns=tuple(reversed(kept)),
        outvars=outvars,
    )
    return smaller, used


def dce_jaxpr_consts(jaxpr, used_outputs, instantiate=False):
    """`dce_jaxpr` and which constvars stay: -> (jaxpr, a bool a constvar, an input)."""
    smaller, used = dce_jaxpr(jaxpr, used_outputs, instantiate)
    return smaller, [v in smaller.constvars for v in jaxpr.constvars], used


def dce_call(used, eqn):
    """The rule of `jit` and `checkpoint`: what is dead inside takes operands along."""
    closed = eqn.params["jaxpr"]
    jaxpr, consts, ins = dce_jaxpr_consts(closed.jaxpr, used)
    closed = ClosedJaxpr(jaxpr, tuple(compress(closed.consts, consts)))
    return ins, eqn.replace(
        invars=tuple(compress(eqn.invars, ins)),
        outvars=tuple(compress(eqn.outvars, used)),
        params=eqn.params | {"jaxpr": closed},
    )


# Here alone calls have such a rule: what is compiled is inlined first. A rule that a
# program adds is one of all.
dce_rules = ChainMap(_dce_rules, {jit_p: dce_call, checkpoint_p: dce_call})


_names.publish(globals(), """
    DynamicJaxprTracer JaxprTracer custom_partial_eval_rules dce_jaxpr
    dce_jaxpr_consts dce_rules PartialVal partial_eval_jaxpr_custom_rules
    trace_to_jaxpr_dynamic trace_to_jaxpr_nounits
""")
