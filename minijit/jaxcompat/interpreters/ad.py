"""Derivatives of primitives of one's own, under the names of `jax.interpreters.ad`.

    primitive_jvps[p] = rule            # rule(primals, tangents, **params) -> (y, t)
    primitive_transposes[p] = rule      # rule(ct, *args, **params) -> cotangents

A jvp rule serves both modes, as that of a `custom_jvp` does: it is linear in its
tangents, and reverse mode linearizes it there.
"""

from functools import partial

from ...trace import dtypes, primitives as lax
from ...trace.array import aval_of, result_avals
from ...trace.base import names as _names
from ...trace.core import Array, set_trace
from ...trace.jaxprs.jaxpr import unzip2
from ...trace.trees.pytree import register_pytree_node as _register
from ...transform.custom.custom_derivatives import Rule, TangentTrace, jvp_linearize
from ...transform.derivatives.linearize import (
    JVPTrace as JVPTrace, JVPTracer as JVPTracer, add_any_p,
    add_tangents as add_known_tangents, joint_rules, linearize_rules,
)
from ...transform.derivatives.transpose import (
    Linear, adding, aval_of_argument, is_linear, transpose_rules,
)
from ...transform.stop_gradient import stop_gradient_p as stop_gradient_p
from ...transform.tangents import zero_type, zeros
from . import Rules

UndefinedPrimal, is_undefined_primal = Linear, is_linear
add_jaxvals_p = add_any_p
zeros_like_aval = zeros


class Zero:
    """A zero tangent or cotangent of a type, which is not made."""

    def __init__(self, aval):
        self.aval = aval

    @staticmethod
    def from_primal_value(x):
        return zero_of(aval_of(x))

    def instantiate(self):
        return zeros_like_aval(self.aval)

    def __repr__(self):
        return f"Zero({self.aval})"


# It holds no array, so a tree of it has no leaf.
_register(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))


def zero_of(aval):
    """The zero tangent of a value of a type."""
    return Zero(zero_type(aval))


def shown(t, aval):
    """A tangent as a rule of JAX's wants it."""
    return zero_of(aval) if t is None else t


def known(t):
    """A tangent as a rule of JAX's gives it: None if it is zero."""
    zero = t is None or isinstance(t, Zero) or t is Zero
    if zero or getattr(t, "dtype", None) == dtypes.float0:
        return None
    return t if isinstance(t, Array) else lax.as_array(t)


def instantiate_zeros(t):
    """A tangent as an array."""
    return t.instantiate() if isinstance(t, Zero) else t


def add_tangents(x, y):
    """The sum of two tangents, either of which may be a `Zero`."""
    if isinstance(x, Zero):
        return y
    return x if isinstance(y, Zero) else add_known_tangents(x, y)


add_jaxvals = add_known_tangents


# ---- tables


class RuleTrace(TangentTrace):
    """Runs a jvp rule at a tangent of zero; a rule may apply its primitive to tangents.

    Where that is linear, as a transpose rule says, it is recorded as it is.
    """

    def process(self, primitive, args, params):
        primals, tangents = unzip2(map(self.pair, args))
        own = dict.__contains__(primitive_jvps, primitive)
        linear = own and primitive in transpose_rules
        if not linear or all(t is None for t in tangents):
            return super().process(primitive, args, params)
        avals = result_avals(primitive, list(map(aval_of, primals)), params)
        with set_trace(self.parent):
            outs = list(map(zeros_like_aval, avals))
        given = [x if t is None else t for x, t in zip(primals, tangents, strict=True)]
        with set_trace(self.tangent_trace):
            found = primitive.bind(*given, **params)
        found = found if primitive.multiple_results else [found]
        return self.join(primitive, outs, found)


def set_jvp(primitive, jvp):
    """A jvp rule becomes the rows for both modes."""
    many = primitive.multiple_results

    def call(params, primals, tangents):
        shown_tangents = list(map(shown, tangents, map(aval_of, primals)))
        outs, out_tangents = jvp(tuple(primals), tuple(shown_tangents), **params)
        if not many:
            outs, out_tangents = [outs], [out_tangents]
        return list(map(lax.as_array, outs)), list(map(known, out_tangents))

    def joint(primals, tangents, **params):
        return call(params, list(primals), list(tangents))

    def linearize(nonzero, *primals, **params):
        rule = Rule(primitive.name, None, partial(call, params))
        outs, linear = jvp_linearize(
            nonzero, *primals, call=None, rule=rule, kind=RuleTrace
        )
        return (outs, linear) if many else (outs[0], lambda *ts: linear(*ts)[0])

    joint_rules[primitive] = joint
    linearize_rules[primitive] = linearize


def jvp_of(primitive):
    """The jvp rule, in JAX's form, that a row of minijit's is."""
    row = linearize_rules.get(primitive)
    if row is None:
        return None

    def jvp(primals, tangents, **params):
        tangents = list(map(known, tangents))
        outs, linear = row(tuple(t is not None for t in tangents), *primals, **params)
        found = linear(*tangents)
        if not primitive.multiple_results:
            return outs, shown(found, aval_of(outs))
        return outs, list(map(shown, found, map(aval_of, outs)))

    return jvp


def set_transpose(primitive, rule):
    """A transpose rule becomes a row that adds its cotangents to what there was."""

    def row(ct, *args, **params):
        if primitive.multiple_results:
            avals = list(map(aval_of_argument, args))
            ct = list(map(shown, ct, result_avals(primitive, avals, params)))
        found = rule(ct, *args, **params)
        return [None] * len(args) if found is Zero else list(map(known, found))

    transpose_rules.update(adding({primitive: row}))


def transpose_of(primitive):
    """The transpose rule, in JAX's form, that a row of minijit's is."""
    row = transpose_rules.get(primitive)
    if row is None:
        return None

    def rule(ct, *args, **params):
        return row(ct, [None] * len(args), *args, **params)

    return rule


primitive_jvps = Rules(set_jvp, jvp_of)
primitive_transposes = Rules(set_transpose, transpose_of)


def get_primitive_transpose(primitive):
    """The transpose rule of a primitive, or NotImplementedError."""
    if primitive not in primitive_transposes:
        raise NotImplementedError(f"Transpose rule for {primitive.name!r} not defined")
    return primitive_transposes[primitive]


# ---- ways to make rules


def deflinear(primitive, transpose_rule):
    """A primitive that is linear in all arguments: transpose_rule(ct, **params)."""
    deflinear2(primitive, lambda ct, *args, **params: transpose_rule(ct, **params))


def deflinear2(primitive, transpose_rule):
    """A primitive that is linear in all arguments: transpose_rule(ct, *args)."""

    def jvp(primals, tangents, **params):
        out = primitive.bind(*primals, **params)
        if all(isinstance(t, Zero) for t in tangents):
            return out, Zero.from_primal_value(out)
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def defjvp(primitive, *jvps):
    """A rule for each argument, jvp(t, *primals, **params), or None."""
    def with_result(rule):
        return rule and (lambda t, result, *xs, **params: rule(t, *xs, **params))

    defjvp2(primitive, *map(with_result, jvps))


def defjvp2(primitive, *jvps):
    """A rule for each argument, jvp(t, result, *primals, **params), or None."""

    def jvp(primals, tangents, **params):
        out = primitive.bind(*primals, **params)
        total = Zero.from_primal_value(out)
        for rule, t in zip(jvps, tangents, strict=True):
            if rule is not None and not isinstance(t, Zero):
                total = add_tangents(total, rule(t, out, *primals, **params))
        return out, total

    primitive_jvps[primitive] = jvp


def defbilinear(primitive, lhs_rule, rhs_rule):
    """A primitive that is linear in each of two arguments: lhs_rule(ct, x, y)."""
    defjvp(
        primitive,
        lambda t, x, y, **params: primitive.bind(t, y, **params),
        lambda t, x, y, **params: primitive.bind(x, t, **params),
    )

    def transpose(ct, x, y, **params):
        if is_undefined_primal(x):
            return lhs_rule(ct, x, y, **params), None
        return None, rhs_rule(ct, x, y, **params)

    primitive_transposes[primitive] = transpose


_names.publish(globals(), """
    JVPTrace JVPTracer UndefinedPrimal Zero add_jaxvals add_jaxvals_p add_tangents
    defbilinear defjvp defjvp2 deflinear deflinear2 get_primitive_transpose
    instantiate_zeros is_undefined_primal primitive_jvps primitive_transposes
    zeros_like_aval
""")
