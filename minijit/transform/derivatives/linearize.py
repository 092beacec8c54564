"""Linearize: one rule a primitive, and every kind of derivative comes from it.

A rule says what a primitive computes, and what it does to tangents:

    def sin_rule(nonzero, x):
        c = cos(x)                          # runs now, where the primal runs
        return sin(x), lambda t: mul(t, c)  # linear in t; `c` is a residual

    y, t_out = jvp(f, (x,), (t,))           # applies the lambdas at once
    y, f_jvp = linearize(f, x)              # records them; f_jvp(t) many times

A zero tangent is `None`.  `nonzero` says which arguments have one that is not, so a
rule computes only residuals that somebody uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from ...trace import primitives as lax
from ...trace.arguments import TraceInfo, function_name
from ...trace.array import aval_of, on_numpy, shape_rules
from ...trace.base.errors import made_as
from ...trace.core import (
    Primitive, Trace, Tracer, current_trace, eval_rules, find_rule, set_trace,
)
from ...trace.jaxprs.jaxpr import (
    ClosedJaxpr, Jaxpr, JaxprTrace, Var, eval_jaxpr, needed_equations, unzip2,
)
from ...trace.jaxprs.memory import memoised
from ...trace.jit.jit import jit_p
from ...trace.trees.pytree import tree_flatten, tree_unflatten
from ...trace.trees.tools import Partial
from ...trace.types import PyTree
from ..closed_jaxprs import (
    apply_closed, close, drop_dead, fill, info_of, present, rebind, trace_closed,
)
from ..flat_functions import FlatFunction
from ..tangents import (
    dense, flat_tangents, has_tangent, linear_in_all, tangent_aval, tangent_out,
    tangents_like, typed_tangent, zeros,
)
from .layout_chains import layout_chains
from .lost_derivatives import KeepsDerivative

# primitive -> rule(primals, tangents, **params) -> (results, tangents).  Only for
# primitives that hold jaxprs: primal and tangent in one loop or call.
joint_rules = {}


class JVPTracer(KeepsDerivative):
    """A value with a tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace, primal, tangent):
        super().__init__(trace, aval_of(primal))
        self.primal = primal
        self.tangent = tangent

    def concrete(self, use):
        """Outside of jit the primal is a number, and Python may have it."""
        if isinstance(self.primal, Tracer):
            return self.primal.concrete(use)
        return lax.as_array(self.primal, self.aval)


def attach(trace, primal, tangent):
    """A tracer for the pair, unless the tangent is zero."""
    return primal if tangent is None else JVPTracer(trace, primal, tangent)


def spread(t, aval):
    """A tangent stretched to the result's type: from a scalar, or along axes of 1."""
    if t is None or aval_of(t).shape == aval.shape:
        return t
    axes = range(len(aval.shape)) if aval_of(t).ndim else ()
    return lax.broadcast_in_dim(t, aval.shape, axes)


@dataclass(frozen=True, eq=False)
class Linearized:
    """A jaxpr split into what runs forward and what is linear.

    Attributes:
      forward: inputs -> results, then new residuals.
      linear: residuals, then nonzero input tangents -> nonzero result tangents.
      sources: where each residual comes from: ("in", i), the i-th input, which is
        never copied; or ("new", i), the i-th new residual of `forward`.
      nonzero_out: one bool a result: whether it has a tangent.
    """

    forward: ClosedJaxpr
    linear: ClosedJaxpr
    sources: tuple
    nonzero_out: tuple

    def residuals(self, inputs, new):
        """The residuals' values, from the inputs and `forward`'s extra results."""
        return [inputs[i] if kind == "in" else new[i] for kind, i in self.sources]


def finish_linear(recorder, out_tangents):
    """Close a tangent trace: -> (jaxpr, residuals).

    The jaxpr's constvars are the residuals' variables, its invars the tangents that
    go in; its results are the tangents that are not None.
    """
    outvars = tuple(recorder.lift(t) for t in out_tangents if t is not None)
    recorder.over = True
    eqns, needed = needed_equations(recorder.eqns, outvars, effects=True)
    kept = [(v, x) for v, x in recorder.constants.values() if v in needed]
    constvars, residuals = unzip2(kept)
    jaxpr = Jaxpr(constvars, tuple(recorder.invars), eqns, outvars, recorder.info)
    return jaxpr, residuals


# chapter 7
# primitive -> rule(nonzero, *primals, **params) -> (results, linear), where
# linear(*tangents) -> tangents of the results.
linearize_rules = {}

# The sum of two tangents or cotangents of any type; an addition for arrays.
add_any_p = Primitive("add_any")
shape_rules |= {add_any_p: lambda x, y: x}
eval_rules |= on_numpy({add_any_p: np.add})


def add_tangents(s, t):
    """The sum of two tangents, either of which may be None."""
    if s is None or t is None:
        return s if t is None else t
    return add_any_p.bind(s, t)


class JVPTrace(Trace):
    """Pushes tangents forward, through the rules of its primitives.

    Primal work happens in `parent`; tangent work in `tangent_trace`, which is the
    parent too for `jvp`, and a recording one for `linearize`.
    """

    def __init__(self, parent, tangent_trace=None):
        self.parent = parent
        self.tangent_trace = tangent_trace or parent

    def pair(self, x):
        """-> (primal, tangent or None)"""
        if isinstance(x, JVPTracer) and x.owner is self:
            return x.primal, x.tangent
        return x, None

    def process(self, primitive, args, params):
        primals, tangents = unzip2(map(self.pair, args))
        many = primitive.multiple_results
        with set_trace(self.parent):
            if all(t is None for t in tangents):
                outs = primitive.bind(*primals, **params)
                return outs if many else [outs]
            if self.tangent_trace is self.parent and primitive in joint_rules:
                outs, out_tangents = joint_rules[primitive](primals, tangents, **params)
                return self.join(primitive, outs, out_tangents)
            rule = find_rule(linearize_rules, primitive, "linearize")
            nonzero = tuple(t is not None for t in tangents)
            outs, linear = rule(nonzero, *primals, **params)
        with set_trace(self.tangent_trace), made_as("tangent"):
            out_tangents = linear(*tangents)
        if not many:
            outs, out_tangents = [outs], [out_tangents]
        return self.join(primitive, outs, out_tangents)

    def join(self, primitive, outs, tangents):
        """Results with their tangents; those with none stay plain values."""
        if len(outs) != len(tangents):
            raise AssertionError(f"{primitive}: a tangent for each result is needed")
        return [
            y if t is None else JVPTracer(self, y, t)
            for y, t in zip(outs, tangents, strict=True)
        ]


def jvp_flat(f, primals, tangents):
    """Forward mode on flat lists: -> (results, tangents), zero tangents None."""
    trace = JVPTrace(current_trace())
    with set_trace(trace):
        outs = f(*map(partial(attach, trace), primals, tangents))
    outs, out_tangents = unzip2(map(trace.pair, outs))
    return list(outs), list(out_tangents)


def linearize_flat(f, primals, nonzero, parent, info, kind=JVPTrace):
    """Run `f` once; record what its tangents do.

    Args:
      f: function of flat values to a list of them.
      primals: values of the trace `parent`, in which the primal work happens.
      nonzero: one bool a primal: whether it has a tangent.
      kind: the class of trace that runs it.

    Returns:
      (results, result tangents or None, the tangent trace).
    """
    recorder = JaxprTrace(parent, info)
    trace = kind(parent, recorder)
    tangents = [
        recorder.argument(tangent_aval(aval_of(x))) if n else None
        for x, n in zip(primals, nonzero, strict=True)
    ]
    with set_trace(trace):
        outs = f(*map(partial(attach, trace), primals, tangents))
    outs, out_tangents = unzip2(map(trace.pair, outs))
    return list(outs), list(out_tangents), recorder


def elementwise_rule(primitive, partials, nonzero, *args, **params):
    """The rule of an elementwise primitive from its partial derivatives.

    `partials[i](y, *args, **params)` is the derivative of the result y by argument i,
    or None where it is zero everywhere.
    """
    y = primitive.bind(*args, **params)
    aval = aval_of(y)
    factors = [
        d(y, *args, **params) if n and d else None
        for d, n in zip(partials, nonzero, strict=True)
    ]

    def linear(*tangents):
        total = None
        for t, factor in zip(tangents, factors, strict=True):
            if t is not None and factor is not None:
                total = add_tangents(total, spread(lax.mul(t, factor), aval))
        return total

    return y, linear


def elementwise(rows):
    """Linearize rules from {primitive: a partial derivative for each argument}."""
    return {p: partial(elementwise_rule, p, ds) for p, ds in rows.items()}


linearize_rules |= elementwise({
    lax.sin_p: [lambda y, x: lax.cos(x)],
    lax.cos_p: [lambda y, x: lax.neg(lax.sin(x))],
    lax.tanh_p: [lambda y, x: lax.mul(lax.add(1.0, y), lax.sub(1.0, y))],
    lax.exp_p: [lambda y, x: y],
    lax.sqrt_p: [lambda y, x: lax.div(0.5, y)],
    lax.mul_p: [lambda z, x, y: y, lambda z, x, y: x],
})


def log_rule(nonzero, x):
    """The derivative is 1 / x, which may be too large a number where t / x is none."""
    return lax.log(x), lambda t: lax.div(t, x)


linearize_rules |= {lax.log_p: log_rule}


def linear_rule(primitive, nonzero, x, *rest, **params):
    """The rule of a primitive that is linear in its first argument."""
    y = primitive.bind(x, *rest, **params)
    return y, lambda t, *_: primitive.bind(t, *rest, **params)


def linear_in_first(*primitives):
    """Linearize rules of primitives that are linear in their first argument."""
    return {p: partial(linear_rule, p) for p in primitives}


linearize_rules |= linear_in_first(
    lax.neg_p,
    lax.copy_p,
    lax.broadcast_in_dim_p,
    lax.reshape_p,
    lax.transpose_p,
    lax.squeeze_p,
    lax.slice_p,
    lax.reduce_sum_p,
)


@memoised
def linearize_jaxpr(closed, nonzero, instantiate):
    """Linearize a jaxpr at its own inputs: -> `Linearized`.

    Args:
      closed: a `ClosedJaxpr`.
      nonzero: tuple of bools: which inputs have tangents.
      instantiate: tuple of bools: which results must have one, if only a zero.
    """
    info = info_of(closed, "linearize")
    primal_trace = JaxprTrace(None, info)
    args = [primal_trace.argument(aval) for aval in closed.in_avals]
    run = partial(apply_closed, closed)
    outs, tangents, recorder = linearize_flat(run, args, nonzero, primal_trace, info)
    with set_trace(recorder):
        tangents = instantiate_zeros(tangents, outs, instantiate)
    tangent_jaxpr, residuals = finish_linear(recorder, tangents)
    outvars = tuple(map(primal_trace.lift, outs))
    linear, new, sources = split_residuals(primal_trace, tangent_jaxpr, residuals)
    forward = drop_dead(close(primal_trace, (*outvars, *new)))
    return Linearized(forward, linear, sources, tuple(t is not None for t in tangents))


def call_rule(nonzero, *args, jaxpr, **params):
    """A call becomes two: one forward, which also returns residuals, one linear."""
    n = len(jaxpr.out_avals)
    parts = linearize_jaxpr(jaxpr, nonzero, (False,) * n)
    outs = rebind(jit_p, params, parts.forward, args)
    residuals = parts.residuals(args, outs[n:])

    def linear(*tangents):
        given = residuals + present(tangents)
        out = rebind(jit_p, params, parts.linear, given)
        return fill(parts.nonzero_out, out)

    return outs[:n], linear


linearize_rules |= {jit_p: call_rule}


# chapter 7, brought along

def add_rule(nonzero, x, y):
    z = lax.add(x, y)
    aval = aval_of(z)
    return z, lambda s, t: add_tangents(spread(s, aval), spread(t, aval))


def add_any_rule(nonzero, x, y):
    return add_tangents(x, y), add_tangents


def bilinear_rule(primitive, nonzero, x, y, **params):
    product = partial(primitive.bind, **params)

    def linear(s, t):
        s = None if s is None else product(s, y)
        return add_tangents(s, None if t is None else product(x, t))

    return product(x, y), linear


linearize_rules |= {
    lax.add_p: add_rule,
    add_any_p: add_any_rule,
    lax.dot_general_p: partial(bilinear_rule, lax.dot_general_p),
}


def constant_rule(primitive, nonzero, *args, **params):
    """The rule of a primitive whose derivative is zero wherever it has one."""
    outs = primitive.bind(*args, **params)
    if primitive.multiple_results:
        return outs, lambda *tangents: [None] * len(outs)
    return outs, lambda *tangents: None


def constant(*primitives):
    """Linearize rules of primitives through which no derivative passes."""
    return {p: partial(constant_rule, p) for p in primitives}


linearize_rules |= constant(
    *(lax.sign_p, lax.iota_p, lax.argmax_p, lax.argmin_p),
    *(lax.eq_p, lax.ne_p, lax.lt_p, lax.le_p, lax.gt_p, lax.ge_p),
    *(lax.and_p, lax.or_p, lax.xor_p, lax.not_p),
    *(lax.reduce_and_p, lax.reduce_or_p, lax.reduce_xor_p),
)


def jvp(
    fun: Callable[..., Any], primals: PyTree, tangents: PyTree, has_aux: bool = False
) -> Any:
    """Forward mode: the derivative in one direction (`jax.jvp`).

    Args:
      fun: function of arrays or trees of them.
      primals: tuple of arguments.
      tangents: tuple of the same structure, shapes and dtypes: the direction;
        `float0` or None for integers.
      has_aux: whether `fun` returns a pair (result, whatever else).

    Returns:
      (result, tangent), or (result, tangent, aux): d/dε fun(primals + ε tangents).

    Raises:
      TypeError: structures or dtypes of primals and tangents differ.
      ValueError: shapes differ.
    """
    leaves, tree, given = flat_tangents(primals, tangents)
    flat = FlatFunction(fun, tree, has_aux)
    outs, out_tangents = jvp_flat(flat, leaves, given)
    out_tangents = list(map(typed_tangent, out_tangents, map(aval_of, outs)))
    unflatten = partial(tree_unflatten, flat.out_tree)
    result = unflatten(outs), unflatten(out_tangents)
    return (*result, flat.aux) if has_aux else result


@dataclass(frozen=True, eq=False)
class PushForward:
    """What a linearized function does; its residuals are the arrays of a `Partial`."""

    jaxpr: object
    in_tree: object
    out_tree: object
    in_avals: tuple
    out_avals: tuple
    nonzero_out: tuple
    transform = "linearize"

    def __call__(self, residuals, *tangents):
        given = tangents_like(self.in_tree, self.in_avals, tangents)
        nonzero = [tangent_aval(a) is not None for a in self.in_avals]
        given = dense(compress(given, nonzero), [v.aval for v in self.jaxpr.invars])
        outs = fill(self.nonzero_out, eval_jaxpr(self.jaxpr, residuals, *given))
        outs = map(tangent_out, outs, self.out_avals)
        return tree_unflatten(self.out_tree, list(outs))


def linearize(fun: Callable[..., Any], *primals: PyTree, has_aux: bool = False) -> Any:
    """`fun` at a point, and its derivative there as a function (`jax.linearize`).

    `fun` runs once, however often the derivative is applied.

    Returns:
      (result, f_jvp), or (result, f_jvp, aux), where f_jvp(*tangents) -> tangent.
      f_jvp is a pytree, whose leaves are the residuals, and may be returned from a
      jitted function.
    """
    return at_point(PushForward, fun, primals, has_aux)


def at_point(kind, fun, primals, has_aux):
    """Run `fun` in the current trace, and record what it does to tangents.

    Returns:
      (result, linear), or (result, linear, aux).  What `linear` does says `kind`, a
      `PushForward`; its residuals are the leaves.
    """
    leaves, tree = tree_flatten(primals)
    leaves = list(map(lax.as_array, leaves))
    flat = FlatFunction(fun, tree, has_aux)
    info = TraceInfo(function_name(fun), kind.transform)
    nonzero = tuple(map(has_tangent, leaves))
    outs, tangents, recorder = linearize_flat(
        flat, leaves, nonzero, current_trace(), info
    )
    jaxpr, residuals = finish_linear(recorder, tangents)
    linear = kind(
        jaxpr,
        tree,
        flat.out_tree,
        tuple(map(aval_of, leaves)),
        tuple(map(aval_of, outs)),
        tuple(t is not None for t in tangents),
    )
    result = tree_unflatten(flat.out_tree, outs), Partial(linear, residuals)
    return (*result, flat.aux) if has_aux else result


def sub_rule(nonzero, x, y):
    z = lax.sub(x, y)
    aval = aval_of(z)

    def linear(s, t):
        t = None if t is None else lax.neg(t)
        return add_tangents(spread(s, aval), spread(t, aval))

    return z, linear


def div_rule(nonzero, x, y):
    z = lax.div(x, y)
    aval = aval_of(z)
    by_y = lax.neg(lax.div(z, y)) if nonzero[1] else None

    def linear(s, t):
        s = None if s is None else spread(lax.div(s, y), aval)
        return add_tangents(s, None if t is None else spread(lax.mul(t, by_y), aval))

    return z, linear


def convert_rule(nonzero, x, *, new_dtype, weak_type):
    """Linear between floats; through an integer no derivative passes."""
    y = lax.convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    if not has_tangent(y):
        return y, lambda t: None
    return y, lambda t: lax.convert(t, new_dtype, weak_type)


def select_rule(nonzero, which, *cases):
    avals = [tangent_aval(aval_of(x)) for x in cases]

    def linear(_, *tangents):
        if all(t is None for t in tangents):
            return None
        return lax.select_n(which, *dense(tangents, avals))

    return lax.select_n(which, *cases), linear


def concatenate_rule(nonzero, *args, dimension):
    join = partial(lax.concatenate_p.bind, dimension=dimension)
    return linear_in_all(join, *args)


linearize_rules |= {
    lax.sub_p: sub_rule,
    lax.div_p: div_rule,
    lax.convert_element_type_p: convert_rule,
    lax.select_n_p: select_rule,
    lax.concatenate_p: concatenate_rule,
}


def instantiate_zeros(tangents, outs, wanted):
    """Make the zero tangents that are `wanted` real arrays of zeros."""
    return [
        zeros(tangent_aval(aval_of(y))) if t is None and w else t
        for t, y, w in zip(tangents, outs, wanted, strict=True)
    ]


def split_residuals(primal_trace, jaxpr, residuals):
    """Close a tangent jaxpr over what is known, and make the rest its first invars.

    A residual that is only another layout of something is not saved: the linear side
    lays it out again (`layout_chains`).  What is a constant becomes a const.

    Returns:
      (closed jaxpr from residuals and tangents, those residuals that are no inputs of
      the primal trace: variables of it, the `sources` of a `Linearized`).
    """
    atoms, consts = {}, {}
    for var, value in zip(jaxpr.constvars, residuals, strict=True):
        if isinstance(value, Tracer):
            atoms[var] = primal_trace.lift(value)
        else:
            consts[var] = value
    chains, roots = layout_chains(primal_trace.eqns, atoms.values())
    known = {v: x for v, x in primal_trace.constants.values() if v in roots}
    roots = [v for v in roots if v not in known]
    consts |= known

    def rename(atom):
        return atoms.get(atom, atom) if isinstance(atom, Var) else atom

    eqns = [e.replace(invars=tuple(map(rename, e.invars))) for e in jaxpr.eqns]
    outvars = tuple(map(rename, jaxpr.outvars))
    invars = (*roots, *jaxpr.invars)
    linear = Jaxpr(tuple(consts), invars, (*chains, *eqns), outvars, jaxpr.debug)
    inputs = {v: i for i, v in enumerate(primal_trace.invars)}
    new = [v for v in roots if v not in inputs]
    sources = tuple(
        ("in", inputs[v]) if v in inputs else ("new", new.index(v)) for v in roots
    )
    return ClosedJaxpr(linear, tuple(consts.values())), new, sources


# ---- forward mode through a call: one jaxpr for primals and tangents together
#
# By the rule for `linearize` a call becomes two, with residuals between them.  Forward
# mode applies the linear one at once, so one call can do both and nothing is saved.


@memoised
def jvp_jaxpr(closed, nonzero, instantiate):
    """The jaxpr of primals and tangents together.

    Returns:
      (closed jaxpr, nonzero_out): from inputs, then nonzero tangents, to results, then
      nonzero result tangents.
    """
    tangent_avals = [
        tangent_aval(aval)
        for aval, n in zip(closed.in_avals, nonzero, strict=True)
        if n
    ]
    nonzero_out = None

    def joint(*args):
        nonlocal nonzero_out
        primals = args[: len(nonzero)]
        tangents = fill(nonzero, args[len(nonzero) :])
        outs, out_tangents = jvp_flat(partial(apply_closed, closed), primals, tangents)
        out_tangents = instantiate_zeros(out_tangents, outs, instantiate)
        nonzero_out = tuple(t is not None for t in out_tangents)
        return [*outs, *present(out_tangents)]

    info = info_of(closed, "jvp")
    return trace_closed(joint, [*closed.in_avals, *tangent_avals], info), nonzero_out


def call_joint(primitive, primals, tangents, **params):
    """Forward mode through a call: one call, primals and tangents together."""
    closed = params["jaxpr"]
    n = len(closed.out_avals)
    nonzero = tuple(t is not None for t in tangents)
    joint, nonzero_out = jvp_jaxpr(closed, nonzero, (False,) * n)
    outs = rebind(primitive, params, joint, (*primals, *present(tangents)))
    return outs[:n], fill(nonzero_out, outs[n:])


joint_rules |= {jit_p: partial(call_joint, jit_p)}
