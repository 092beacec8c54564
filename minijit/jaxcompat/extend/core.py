"""Primitives and jaxprs of one's own, under the names of `jax.extend.core`.

    square_p = Primitive("square")
    square_p.def_impl(lambda x: x * x)            # a row of `eval_rules`
    square_p.def_abstract_eval(lambda aval: aval) # a row of `shape_rules`
    ad.primitive_jvps[square_p] = ...             # `interpreters.ad`, and so on

The classes are minijit's own; `jaxcompat/attributes.py` gives them what JAX's have.
"""

import itertools
from functools import partial

from ... import compiler as compiler
from ...compile.lower.walk import fallbacks, lower_rules
from ...trace import dtypes
from ...trace.arguments import whole_type
from ...trace.array import aval_of, shape_rules
from ...trace.base import names as _names
from ...trace.base.errors import JaxprTypeError as JaxprTypeError
from ...trace.core import (
    BottomTrace, Primitive as Primitive, Tracer, current, eval_rules,
)
from ...trace.jaxprs.checks import check_jaxpr as check_jaxpr
from ...trace.jaxprs.jaxpr import (
    ClosedJaxpr as ClosedJaxpr, Eqn as JaxprEqn, Jaxpr as SpineJaxpr, JaxprTrace,
    Literal as Literal, Var as Var, effectful, eval_jaxpr,
    subjaxprs as subjaxprs_of_equation,
)
from ...trace.primitives import as_array
from ...transform.batching.vmap import BatchTrace, with_axis, without_axis
from ..attributes import no_effects as no_effects
from ..core import (
    AbstractValue as AbstractValue, DebugInfo as DebugInfo, Effect as Effect,
    Effects as Effects, ShapedArray as ShapedArray, StandIn, Trace as Trace,
)

# ---- primitives


def of_each(primitive, convert, results):
    """What a user's rule gave, converted: one result, or a list of several."""
    if primitive.multiple_results:
        return list(map(convert, results))
    return convert(results)


def def_impl(primitive, impl):
    """Say how a primitive is computed: impl(*arrays, **params); returns `impl`."""

    def evaluate(*args, **params):
        return of_each(primitive, as_array, impl(*args, **params))

    primitive.impl = impl
    eval_rules[primitive] = evaluate
    # A library may say it twice, the second time after it said how to compile it.
    if primitive not in lower_rules:
        fallbacks.setdefault(primitive, "it is computed by its def_impl, in Python")
    return impl


def def_abstract_eval(primitive, rule):
    """Say of which types the results are: rule(*avals, **params); returns `rule`."""

    def shapes(*avals, **params):
        avals = map(plain_aval, avals)
        return of_each(primitive, checked_aval, rule(*avals, **params))

    primitive.abstract_eval = rule
    shape_rules[primitive] = shapes
    return rule


def def_effectful_abstract_eval(primitive, rule):
    """As `def_abstract_eval`, for a rule that returns (types, effects)."""
    effectful.add(primitive)
    def_abstract_eval(primitive, lambda *avals, **params: rule(*avals, **params)[0])
    return rule


def checked_aval(aval):
    """A type as the user's rule gives it, with a dtype of NumPy's."""
    weak_type = getattr(aval, "weak_type", False)
    return whole_type(ShapedArray.make(aval.shape, aval.dtype, weak_type))


def plain_aval(aval):
    """A type as a user's rule knows it: what a branch keeps is shown as an array."""
    if dtypes.carried_type(aval.dtype) is None:
        return aval
    return ShapedArray.make(aval.shape, aval.dtype)


def bind_with_trace(primitive, trace, args, params):
    """Apply a primitive under a trace that is given."""
    results = trace.process(primitive, args, params)
    return results if primitive.multiple_results else results[0]


# ---- jaxprs


class Jaxpr(metaclass=StandIn):
    """A function as data: Jaxpr(constvars, invars, outvars, eqns)."""

    stands_for = SpineJaxpr

    @staticmethod
    def make(
        constvars, invars, outvars, eqns, effects=no_effects, debug_info=None,
        is_high=False,
    ):  # fmt: skip
        variables, results = tuple(constvars), tuple(outvars)
        return SpineJaxpr(variables, tuple(invars), tuple(eqns), results, debug_info)


class DropVar:
    """A result that nobody needs: there are none here, every result has a `Var`."""


def new_jaxpr_eqn(
    invars, outvars, primitive, params, effects=no_effects, source_info=None, ctx=None
):
    """An equation.  JAX: same name."""
    return JaxprEqn(primitive, tuple(invars), tuple(outvars), params, source_info)


def jaxpr_as_fun(closed_jaxpr):
    """The function of a flat list of arguments that a jaxpr is."""
    return partial(eval_jaxpr, closed_jaxpr.jaxpr, closed_jaxpr.consts)


def gensym(suffix=""):
    """A function that makes a new variable of a type."""
    del suffix
    return Var


def jaxprs_in_params(params):
    """The jaxprs among the params of an equation, closed ones opened."""
    yield from subjaxprs_of_equation(JaxprEqn(None, (), (), params))


def subjaxprs(jaxpr):
    """The jaxprs in the params of a jaxpr's equations."""
    return itertools.chain(*map(subjaxprs_of_equation, jaxpr.eqns))


# ---- traces


def take_current_trace():
    """The trace that gives primitives their meaning now."""
    return current.trace


def trace_state_clean():
    """Whether nothing is being traced here."""
    return type(current.trace) is BottomTrace


def find_top_trace(args):
    """The trace of the innermost tracer among some values, or the current one."""
    traces = [x.owner for x in args if isinstance(x, Tracer)]
    return max(traces, key=depth, default=current.trace)


def depth(trace):
    """How many traces a trace runs in."""
    return 0 if trace is None else 1 + depth(trace.parent)


def get_opaque_trace_state(convention="flax"):
    """What tells one trace from another: equal in the same trace."""
    del convention
    return OpaqueTraceState(current.trace)


class OpaqueTraceState:
    """Compares equal to that of the same trace."""

    def __init__(self, trace):
        self.trace = trace

    def __eq__(self, other):
        return isinstance(other, OpaqueTraceState) and self.trace is other.trace

    def __hash__(self):
        return id(self.trace)


def within(kind):
    """Whether a trace of a class is at work here."""
    trace = current.trace
    while trace is not None and not isinstance(trace, kind):
        trace = trace.parent
    return trace is not None


def unsafe_am_i_under_a_jit_DO_NOT_USE():
    """Whether this is being recorded.  JAX: same name."""
    return within(JaxprTrace)


def unsafe_am_i_under_a_vmap_DO_NOT_USE():
    """Whether this runs in lanes.  JAX: same name."""
    return within(BatchTrace)


# ---- types


def valid_jaxtype(x):
    """Whether a value may be an argument of a primitive."""
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


def mapped_aval(size, axis, aval):
    """The type of one lane."""
    return aval if axis is None else without_axis(aval, axis)


def unmapped_aval(size, axis, aval, explicit_mesh_axis=None):
    """The type with lanes on an axis."""
    return aval if axis is None else with_axis(aval, size, axis)


def primal_dtype_to_tangent_dtype(primal_dtype):
    """The dtype of tangents: float0 for integers and bools."""
    inexact = dtypes.issubdtype(primal_dtype, dtypes.inexact)
    return primal_dtype if inexact else dtypes.float0


def concrete_or_error(force, value, context=""):
    """`value`, or force(value), of which a tracer must know its number."""
    del context
    if isinstance(value, Tracer):
        value = value.concrete("numpy")
    return value if force is None else force(value)


def is_concrete(x):
    """Whether a value is known: all but those that stand for any.  JAX: same name."""
    try:
        concrete_or_error(None, x)
    except TypeError:
        return False
    return True


_names.publish(globals(), """
    AbstractValue ClosedJaxpr DropVar Jaxpr JaxprEqn JaxprTypeError Literal Primitive
    ShapedArray Trace Var check_jaxpr concrete_or_error find_top_trace gensym
    get_opaque_trace_state is_concrete jaxpr_as_fun jaxprs_in_params mapped_aval
    new_jaxpr_eqn no_effects primal_dtype_to_tangent_dtype subjaxprs take_current_trace
    unmapped_aval unsafe_am_i_under_a_jit_DO_NOT_USE
    unsafe_am_i_under_a_vmap_DO_NOT_USE valid_jaxtype
""")
