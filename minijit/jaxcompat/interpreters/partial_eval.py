"""Recording functions, under the names of `jax.interpreters.partial_eval`."""

from ...trace.arguments import TraceInfo, function_name
from ...trace.array import aval_of
from ...trace.base import names as _names
from ...trace.core import Tracer, current_trace, set_trace
from ...trace.jaxprs.jaxpr import (
    Jaxpr,
    JaxprTrace,
    JaxprTracer as JaxprTracer,
    dce,
    dce_rules as dce_rules,
    trace_to_jaxpr,
    unzip2,
)
from ...trace.primitives import as_array

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
    smaller = dce(jaxpr, list(used_outputs))
    read = {v for eqn in smaller.eqns for v in eqn.invars} | set(smaller.outvars)
    every = [instantiate] * len(jaxpr.invars)
    every = list(instantiate) if isinstance(instantiate, (list, tuple)) else every
    used = [v in read or keep for v, keep in zip(smaller.invars, every, strict=True)]
    kept = tuple(v for v, u in zip(smaller.invars, used, strict=True) if u)
    return smaller.replace(invars=kept), used


_names.publish(globals(), """
    DynamicJaxprTracer JaxprTracer custom_partial_eval_rules dce_jaxpr dce_rules
    PartialVal partial_eval_jaxpr_custom_rules trace_to_jaxpr_dynamic
    trace_to_jaxpr_nounits
""")
