"""Custom derivative rules: `custom_jvp`, `custom_vjp`.

    @custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    @log1pexp.defjvp
    def log1pexp_jvp(primals, tangents):
        x, = primals
        t, = tangents
        return log1pexp(x), t * (1 - 1 / (1 + jnp.exp(x)))
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ...trace.arguments import TraceInfo, function_name, function_source
from ...trace.array import aval_of, shape_rules, to_numpy
from ...trace.base.errors import HERE
from ...trace.core import Primitive, Tracer, current_trace, eval_rules, set_trace
from ...trace.jaxprs.jaxpr import (
    ClosedJaxpr, eval_jaxpr, staging_rules, trace_to_jaxpr, unzip2,
)
from ...trace.jit.jit import jit_p
from ...trace.primitives import as_array
from ...trace.trees.pytree import tree_flatten, tree_map, tree_unflatten
from ...trace.types import Args, Result
from ..closed_jaxprs import apply_closed, fill, present
from ..derivatives.grad_checks import transposed_of_zero
from ..derivatives.linear_functions import calling, follow_equation
from ..derivatives.linearize import (
    JVPTrace, add_tangents, finish_linear, joint_rules, linearize_flat, linearize_rules,
)
from ..derivatives.transpose import call_transpose, transpose_rules
from ..tangents import tangent_aval, tangent_out, zeros
from .rule_checks import (
    CustomFunction, Rule, TwoHalves, checked_tangents, no_forward_mode,
    no_rule_for_captured, zero_from_primal,
)


def push_of(recorder, tangents):
    """What was recorded from given tangents to `tangents`, as a function of lists with
    None for zero."""
    jaxpr, residuals = finish_linear(recorder, tangents)
    mask = [t is not None for t in tangents]
    return lambda *given: fill(mask, eval_jaxpr(jaxpr, residuals, *present(given)))


def of_arguments(row, by_captured=None):
    """A row of `linearize_rules` that hears of the user's arguments alone: what a
    recorded function captured comes in front of them, and has no derivative.  An error
    `by_captured` is for where one is asked for."""

    def linearize(nonzero, *primals, rule, **params):
        n = rule.captured
        if by_captured and any(nonzero[:n]):
            raise by_captured(rule.name)
        outs, linear = row(nonzero[n:], *primals[n:], rule=rule, **params)
        return outs, lambda *tangents: linear(*tangents[n:])

    return linearize


# ---- what users see


class custom_jvp(CustomFunction[Args, Result]):
    """A function with a jvp rule of its own (`jax.custom_jvp`).

    Args:
      fun: function of arrays or trees of them.
      nondiff_argnums: positions of arguments without derivatives, any Python values;
        the rule gets them first.

    `defjvp(rule)` sets rule(*nondiff, primals, tangents) -> (result, tangent);
    `defjvps(*rules)` one rule(t, result, *primals) -> tangent for each argument, or
    None where the derivative is zero.
    """

    jvp = None
    symbolic_zeros = False

    def defjvp(self, jvp, symbolic_zeros=False):
        """Set the rule; returns it, so it can decorate."""
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        if self.jvp is None:
            self.no_rule("JVP defined for custom_jvp", "defjvp")
        args = list(self.resolve(args, kwargs))
        for i in self.positions(args):
            args[i] = tree_map(without_tangent, args[i])
        nondiff, leaves, in_tree, flat = self.flat_call(args)
        call = partial(self.apply_rule, nondiff, in_tree, flat)
        rule = Rule(function_name(self.jvp), function_source(self.jvp), call)
        outs = custom_jvp_p.bind(*leaves, call=flat, rule=rule)
        return tree_unflatten(flat.out_tree, outs)

    def apply_rule(self, nondiff, in_tree, flat, primals, tangents):
        """The user's rule on flat lists: -> (results, tangents or None)."""
        zero = partial(zero_from_primal, symbolic_zeros=self.symbolic_zeros)
        pairs = zip(primals, tangents, strict=True)
        tangents = [zero(x) if t is None else t for x, t in pairs]
        trees = [tree_unflatten(in_tree, xs) for xs in (primals, tangents)]
        result, tangent = self.ask_pair("JVP rule", self.jvp, *nondiff, *trees)
        outs, tree = tree_flatten(result)
        self.check_structure(flat, "JVP rule", self.jvp, tree, tree_flatten(tangent)[1])
        return list(map(as_array, outs)), checked_tangents(self.jvp, outs, tangent)

    def defjvps(self, *jvps):
        """Set a rule for each argument."""
        if self.nondiff:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals, tangents):
            result = self(*primals)
            total = zero_from_primal(result)
            for rule, t in zip(jvps, tangents, strict=True):
                if rule is not None:
                    total = tree_map(add_tangents, total, rule(t, result, *primals))
            return result, total

        self.defjvp(jvp)


def without_tangent(x):
    """A nondiff argument as it is; a traced one is a constant to every derivative."""
    if not isinstance(x, Tracer):
        return x
    rule = Rule("nondiff_argument", None, lambda primals, tangents: (primals, [None]))
    constant, = custom_jvp_p.bind(x, call=lambda x: [x], rule=rule)
    return constant


class custom_vjp(TwoHalves[Args, Result]):
    """A function with a vjp rule of its own (`jax.custom_vjp`).

    Args:
      fun: function of arrays or trees of them.
      nondiff_argnums: positions of arguments without derivatives, any Python values;
        `fwd` gets them in place, `bwd` first.

    `defvjp(fwd, bwd)` sets fwd(*args) -> (result, residuals) and bwd(*nondiff,
    residuals, cotangent) -> a cotangent for each argument, None for zero.
    """

    def defvjp(self, fwd, bwd, symbolic_zeros=False, optimize_remat=False):
        """Set the two halves of the rule."""
        del optimize_remat
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        if self.fwd is None:
            self.no_rule("VJP defined for custom_vjp", "defvjp")
        args = self.resolve(args, kwargs)
        nondiff, leaves, in_tree, flat = self.flat_call(args)
        self.check_nondiff(nondiff)
        kept = self.nondiff_alone(args)
        call = partial(self.apply_fwd, kept, nondiff, in_tree, flat)
        rule = Rule(function_name(self.fwd), function_source(self.fwd), call)
        outs = custom_vjp_p.bind(*leaves, call=flat, rule=rule)
        return tree_unflatten(flat.out_tree, outs)


# chapter 10
custom_jvp_p = Primitive("custom_jvp_call", multiple_results=True)
custom_vjp_p = Primitive("custom_vjp_call", multiple_results=True)
# The linear half of a custom_vjp: only its transpose, `bwd`, is known.
custom_linear_p = Primitive("custom_vjp_linear", multiple_results=True)


def run(call, *args):
    """Run the primal function of a custom rule: Python's, or a recorded one."""
    return apply_closed(call, *args) if isinstance(call, ClosedJaxpr) else call(*args)


def eval_custom(*args, call, **params):
    return run(call, *args)


eval_rules |= {custom_jvp_p: eval_custom, custom_vjp_p: eval_custom}


def jvp_joint(primals, tangents, *, call, rule):
    """Forward mode: just call the rule."""
    return rule(primals, tangents)


joint_rules |= {custom_jvp_p: jvp_joint}


class TangentTrace(JVPTrace):
    """Runs a jvp rule at a tangent of zero, where only what is linear in it may be
    recorded: anything else would give a derivative that is plausible and wrong."""

    def process(self, primitive, args, params):
        varies = any(self.pair(x)[1] is not None for x in args)
        if varies and primitive in at_tangents:
            return at_tangents[primitive](self, args, params)
        process = self.linear if varies else super().process
        return process(primitive, args, params)

    def linear(self, primitive, args, params):
        """An equation that is linear in the tangents that it is applied to."""
        varying = [self.pair(x)[1] is not None for x in args]
        bad, _ = follow_equation(primitive, varying, params)
        if bad is not None:
            many = "tangents" if sum(varying) > 1 else "a tangent"
            raise NotImplementedError(
                "reverse mode needs a jvp rule that is linear in the tangents, but "
                f"this one applies {bad} to {many}{HERE}"
            )
        return super().process(primitive, args, params)


# primitive -> function(trace, args, params), where a jvp rule applies it to a tangent.
at_tangents: dict = {}


def jvp_linearize(nonzero, *primals, call, rule, kind=TangentTrace):
    """Reverse mode: the rule is linear in its tangents; linearize it there, at zero."""
    given = [x for x, nz in zip(primals, nonzero, strict=True) if nz]
    origin = [tangent_out(None, aval_of(x)) for x in given]

    def of_tangents(*tangents):
        outs, out_tangents = rule.call(primals, fill(nonzero, tangents))
        return [*outs, *out_tangents]

    info = TraceInfo(rule.name, "custom_jvp", rule.source)
    outs, tangents, recorder = linearize_flat(
        of_tangents, origin, [True] * len(origin), current_trace(), info, kind
    )
    count = len(outs) // 2
    return outs[:count], push_of(recorder, tangents[count:])


linearize_rules |= {custom_jvp_p: of_arguments(jvp_linearize)}


# ---- custom_vjp


def vjp_linearize(nonzero, *primals, call, rule):
    """Run fwd now; record a linear primitive that only `bwd` knows how to transpose."""
    outs, residuals, bwd = rule.call(primals, nonzero)
    avals = tuple(tangent_aval(aval_of(y)) for y in outs)
    has_tangent = [a is not None for a in avals]

    def linear(*tangents):
        mask = tuple(t is not None for t in tangents)
        params = dict(rule=replace(rule, call=bwd), mask=mask, avals=avals)
        out = custom_linear_p.bind(*residuals, *present(tangents), **params)
        return fill(has_tangent, out)

    return list(outs), linear


def linear_transpose_rule(cts, accs, *args, rule, mask, avals):
    """The user's bwd, which makes the zeros for cotangents that are zero."""
    count = len(args) - sum(mask)
    has_tangent = [a is not None for a in avals]
    new = rule.call(args[:count], fill(has_tangent, cts))
    chosen = [ct for ct, m in zip(new, mask, strict=True) if m]
    sums = [add_tangents(a, c) for a, c in zip(accs[count:], chosen, strict=True)]
    return [None] * count + sums


linearize_rules |= {custom_vjp_p: of_arguments(vjp_linearize, no_rule_for_captured)}
shape_rules |= {custom_linear_p: lambda *args, avals, **params: present(avals)}
transpose_rules |= {custom_linear_p: linear_transpose_rule}
# A user's bwd need not be linear: it may return new statistics as a cotangent.
transposed_of_zero |= {custom_linear_p}


# chapter 10, brought along

# ---- recorded


def stage_call(args, params):
    """Record the primal function.  What it captured comes in front of its arguments."""
    call = params["call"]
    if isinstance(call, ClosedJaxpr):
        return args, params
    info = TraceInfo(params["rule"].name, "custom rule", params["rule"].source)
    jaxpr, captured = trace_to_jaxpr(call, list(map(aval_of, args)), info)
    closed = ClosedJaxpr(
        jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))
    )
    rule = params["rule"].ignoring(len(captured))
    return (*captured, *args), params | {"call": closed, "rule": rule}


def shape_of_custom(*avals, call, rule, **params):
    """The types of the function's results, which is recorded if it is not yet."""
    if not isinstance(call, ClosedJaxpr):
        info = TraceInfo(rule.name, "custom rule", rule.source)
        call, _ = trace_to_jaxpr(call, list(avals), info)
    return call.out_avals


staging_rules |= {custom_jvp_p: stage_call, custom_vjp_p: stage_call}
shape_rules |= {custom_jvp_p: shape_of_custom, custom_vjp_p: shape_of_custom}


def function_at_tangents(trace, args, params):
    """Its function says what it does to a tangent.  The rule says how that varies,
    which is the same if the function is linear."""
    with set_trace(trace):
        return run(params["call"], *args)


calling |= {custom_jvp_p: "call"}
at_tangents |= {custom_jvp_p: function_at_tangents}
# Of a function that is applied to tangents: the transpose of what it computes.
transpose_rules |= {custom_jvp_p: lambda cts, accs, *args, call, rule: (
    call_transpose(jit_p, cts, accs, *args, name=rule.name, jaxpr=call)
)}  # fmt: skip


def linear_eval(*args, rule, mask, avals, **params):
    """A linear function is zero at zero; its other values are not known."""
    given = args[len(args) - sum(mask) :]
    if not any(np.any(to_numpy(t)) for t in given):
        return list(map(zeros, present(avals)))
    raise no_forward_mode(rule)


def linear_linearize(nonzero, *args, rule, mask, **params):
    """The linear half of a custom_vjp is its own derivative by the tangents."""
    count = len(args) - sum(mask)
    if any(nonzero[:count]):
        raise no_forward_mode(rule)
    outs = custom_linear_p.bind(*args, rule=rule, mask=mask, **params)
    given = iter(nonzero[count:])
    mask = tuple(m and next(given) for m in mask)

    def linear(*tangents):
        given = args[:count] + tuple(present(tangents[count:]))
        return custom_linear_p.bind(*given, rule=rule, mask=mask, **params)

    return outs, linear


def holds_pull_back(closed):
    """Whether a jitted function, or one that it calls, has the half of a custom_vjp
    that only goes backwards."""
    return any(
        eqn.primitive is custom_linear_p
        or (eqn.primitive is jit_p and holds_pull_back(eqn.params["jaxpr"]))
        for eqn in closed.eqns
    )


def call_at_tangents(trace, args, params):
    """A jitted function: what has such a half inside is looked at by itself."""
    if not holds_pull_back(params["jaxpr"]):
        return trace.linear(jit_p, args, params)
    with set_trace(trace):
        return apply_closed(params["jaxpr"], *args)


def linear_at_tangents(trace, args, params):
    """The linear half of a custom_vjp, within a rule that uses `jvp`.

    Its value at zero is zero, and a linear function is its own derivative.
    """
    primals, tangents = unzip2(map(trace.pair, args))
    given = tangents[len(args) - sum(params["mask"]) :]
    if any(t is None for t in given):
        return JVPTrace.process(trace, custom_linear_p, args, params)
    residuals = primals[: len(args) - len(given)]
    with set_trace(trace.parent):
        outs = list(map(zeros, present(params["avals"])))
    with set_trace(trace.tangent_trace):
        out_tangents = custom_linear_p.bind(*residuals, *given, **params)
    return trace.join(custom_linear_p, outs, out_tangents)


eval_rules |= {custom_linear_p: linear_eval}
linearize_rules |= {custom_linear_p: linear_linearize}
at_tangents |= {jit_p: call_at_tangents, custom_linear_p: linear_at_tangents}
