"""Jaxprs: programs as data, and the trace that records them.

    jaxpr = make_jaxpr(lambda x: sin(x) * 2.0)(3.0)
    # { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, 3.0)

A jaxpr is a list of equations, each one primitive applied to variables and literals;
a variable is assigned once.  The grammar:

    Jaxpr ::= { lambda constvars ; invars . let eqns in (outvars) }
    Eqn   ::= outvars = primitive[params] atoms          (and the user's source line)
    Atom  ::= Var | Literal

`ClosedJaxpr` pairs a jaxpr with the values of its constvars: the arrays that the
traced function used without being given them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arguments import (
    TraceInfo, argument_names, axes_named, flattening, function_name, function_source,
    leaf_avals, origin, scalar, wraps,
)
from ..array import ArrayImpl, aval_of, result_avals
from ..base.errors import Source, leaked_tracer, on_behalf_of, user_source
from ..core import Trace, Tracer, current_trace, set_trace
from ..types import Argnums, Args
from .memory import memoised
from .text import eqn_text, jaxpr_text, subjaxprs as subjaxprs

# Primitives that hold Python functions where values are known, and jaxprs in a
# jaxpr: rule(args, params) -> (args, params), run in the recording trace.
staging_rules = {}

# For primitives that hold jaxprs: a function of one bool a result, whether it is
# needed, and the equation -> (one bool an operand, the equation of what is needed).
# JAX: `jax.interpreters.partial_eval.dce_rules`.
dce_rules = {}

# Primitives that do something, printing for instance, though nobody needs a result.
effectful = set()

# Primitives that no compiler compiles, and why: their eval rules are called.
fallbacks: dict = {}


def has_effect(eqn):
    """Whether an equation, or one in the jaxprs it holds, does more than compute."""
    if eqn.primitive in effectful:
        return True
    return bool(effectful) and any(map(jaxpr_has_effect, subjaxprs(eqn)))


@memoised
def jaxpr_has_effect(jaxpr):
    """Whether an equation of a jaxpr has an effect."""
    return any(map(has_effect, jaxpr.eqns))


class Var:
    """A variable of a jaxpr: an aval, and an identity of its own."""

    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval

    def __repr__(self):
        return f"Var({self.aval})"


class Literal:
    """A scalar written into an equation.  Its value is a NumPy scalar array."""

    __slots__ = ("val", "aval")

    def __init__(self, val, aval):
        self.val = val
        self.aval = aval

    def __repr__(self):
        return f"Literal({self.val}:{self.aval})"


@dataclass(frozen=True, eq=False)
class Eqn:
    """`outvars = primitive[params] invars`; `source` is the user's line, or None."""

    primitive: object
    invars: tuple
    outvars: tuple
    params: dict
    source: Source | None = None

    def replace(self, **changes):
        """The same equation with some fields changed."""
        return replace(self, **changes)

    def __str__(self):
        return eqn_text(self)


@dataclass(frozen=True, eq=False)
class Jaxpr:
    """A function as data: see the grammar at the top of this module.

    Two jaxprs are equal only if they are the same object, so that transformations
    of one can be remembered by it.
    """

    constvars: tuple
    invars: tuple
    eqns: tuple
    outvars: tuple
    debug: object = field(default=None, repr=False)

    @property
    def in_avals(self):
        return [v.aval for v in self.invars]

    @property
    def out_avals(self):
        return [v.aval for v in self.outvars]

    def replace(self, **changes):
        """The same jaxpr with some fields changed."""
        return replace(self, **changes)

    def __str__(self):
        return jaxpr_text(self)


@dataclass(frozen=True, eq=False)
class ClosedJaxpr:
    """A jaxpr with the values of its constvars."""

    jaxpr: Jaxpr
    consts: tuple = ()

    @property
    def in_avals(self):
        return self.jaxpr.in_avals

    @property
    def out_avals(self):
        return self.jaxpr.out_avals

    @property
    def eqns(self):
        return self.jaxpr.eqns

    def __str__(self):
        return str(self.jaxpr)

    __repr__ = __str__


def encloses(inner, trace):
    """Whether `trace` is one of the traces that `inner` runs in."""
    while inner is not None:
        if inner == trace:
            return True
        inner = inner.parent
    return False


def unzip2(pairs):
    """Pairs to a pair of tuples, also where there are none."""
    pairs = list(pairs)
    return tuple(first for first, _ in pairs), tuple(second for _, second in pairs)


class JaxprTracer(Tracer):
    """A variable of the jaxpr that is being recorded."""

    __slots__ = ("variable", "source")

    def __init__(self, trace, var, source=None):
        super().__init__(trace, var.aval)
        self.variable = var
        self.source = source

    origin = origin


def literal_value(literal):
    """A literal as a concrete array (which keeps its weak type)."""
    return ArrayImpl(literal.val, literal.aval)


def last_uses(jaxpr):
    """{equation index: variables not needed after it}; results are always needed."""
    seen, last = set(jaxpr.outvars), {}
    for i, eqn in reversed(list(enumerate(jaxpr.eqns))):
        mentioned = {v for v in (*eqn.invars, *eqn.outvars) if isinstance(v, Var)}
        last[i] = mentioned - seen
        seen |= mentioned
    return last


# chapter 4
def eval_jaxpr(jaxpr, consts, *args):
    """Apply a jaxpr to values, one `bind` an equation: -> list of results.

    Under a trace this replays the program into it, so the same function evaluates,
    differentiates or inlines.  Values are dropped after their last use.
    """
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env |= zip(jaxpr.invars, args, strict=True)
    last = last_uses(jaxpr)

    def read(atom):
        return literal_value(atom) if isinstance(atom, Literal) else env[atom]

    for i, eqn in enumerate(jaxpr.eqns):
        with on_behalf_of(eqn.source):
            results = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        results = results if eqn.primitive.multiple_results else [results]
        env |= zip(eqn.outvars, results, strict=True)
        for var in last.get(i, ()):
            del env[var]
    return [read(v) for v in jaxpr.outvars]


class JaxprTrace(Trace):
    """Records every primitive applied to anything as an equation.

    Scalars become literals; arrays, and tracers of enclosing traces, become
    constvars, one for each object.  Used once it is `over`: RuntimeError, "the trace of
    f is over".
    """

    def __init__(self, parent, info):
        self.parent = parent
        self.info = info
        self.invars = []
        self.eqns = []
        self.constants = {}
        self.over = False

    def argument(self, aval):
        """A new argument of the jaxpr, as a tracer."""
        var = Var(aval)
        self.invars.append(var)
        return JaxprTracer(self, var)

    def process(self, primitive, args, params):
        if self.over:
            raise RuntimeError(f"the trace of {self.info.name} is over")
        # A Python function among its parameters becomes a jaxpr.
        if primitive in staging_rules:
            args, params = staging_rules[primitive](args, params)
        invars = tuple(map(self.lift, args))
        source = user_source()
        avals = result_avals(primitive, [v.aval for v in invars], params, source)
        outvars = tuple(map(Var, avals))
        self.eqns.append(Eqn(primitive, invars, outvars, params, source))
        return [JaxprTracer(self, v, source) for v in outvars]

    def lift(self, value):
        """The atom for a value that is used in the traced function."""
        if isinstance(value, Tracer):
            if value.owner is self:
                return value.variable
            if not encloses(self, value.owner):
                raise leaked_tracer(f"the traced function {self.info.name}", value)
        elif not isinstance(value, np.ndarray) or value.ndim == 0:
            aval = aval_of(value)
            if self.info.is_literal(value, aval):
                return Literal(scalar(value, aval), aval)
        if id(value) not in self.constants:
            self.constants[id(value)] = Var(aval_of(value)), value
        return self.constants[id(value)][0]


def trace_to_jaxpr(function, avals, info):
    """Record `function` applied to arguments of the types `avals`.

    Args:
      function: takes one tracer an aval, returns a flat list of values.
      avals: list of avals.
      info: a `TraceInfo`.

    Returns:
      (jaxpr, constants): the constvars' values may be tracers of enclosing traces.
    """
    trace = JaxprTrace(current_trace(), info)
    arguments = [trace.argument(aval) for aval in avals]
    with set_trace(trace):
        outvars = tuple(map(trace.lift, function(*arguments)))
    trace.over = True
    constvars, constants = unzip2(trace.constants.values())
    jaxpr = Jaxpr(constvars, tuple(trace.invars), tuple(trace.eqns), outvars, info)
    return jaxpr, constants


def needed_equations(eqns, wanted, given=(), effects=False):
    """The equations that compute the atoms `wanted`, stopping at the variables `given`.

    With `effects` those that do more than compute are needed as well.  If only some
    results of one are needed, `dce_rules[primitive](used, eqn)[1]` takes its place, if
    there is such a row: `used` has a bool for each result.

    Returns:
      (eqns in order, the set of variables that they and `wanted` mention).
    """
    given = set(given)
    needed = {v for v in wanted if isinstance(v, Var)}
    kept = []
    for eqn in reversed(eqns):
        used = [v in needed and v not in given for v in eqn.outvars]
        if any(used) or (effects and has_effect(eqn)):
            # A loop can do with a smaller body if few of its results are needed.
            if eqn.primitive in dce_rules and not all(used):
                eqn = dce_rules[eqn.primitive](used, eqn)[1]
            kept.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    return tuple(reversed(kept)), needed


def slice_jaxpr(jaxpr, given, wanted):
    """The part of a program that computes `wanted` from `given`, by whole equations.

    Args:
      jaxpr: a `Jaxpr`.
      given: variables of it whose values will be supplied.
      wanted: atoms of it to compute.

    Returns:
      A `Jaxpr` from `given` (as invars) to `wanted`; whatever else it needs, of the
      program's own inputs, are its constvars.
    """
    eqns, needed = needed_equations(jaxpr.eqns, wanted, given)
    made = {v for eqn in eqns for v in eqn.outvars} | set(given)
    inputs = (*jaxpr.constvars, *jaxpr.invars)
    constvars = tuple(v for v in inputs if v in needed and v not in made)
    return Jaxpr(constvars, tuple(given), eqns, tuple(wanted), jaxpr.debug)


# chapter 4, brought along

def dce(jaxpr, used_outputs=None, effects=True):
    """Dead code elimination: drop equations whose results nobody needs.

    Args:
      jaxpr: a `Jaxpr`; its invars all stay.
      used_outputs: one bool an output; those that are False go too.
      effects: whether equations with effects stay.
    """
    used = used_outputs or [True] * len(jaxpr.outvars)
    outvars = tuple(v for v, u in zip(jaxpr.outvars, used, strict=True) if u)
    eqns, needed = needed_equations(jaxpr.eqns, outvars, effects=effects)
    constvars = tuple(v for v in jaxpr.constvars if v in needed)
    return jaxpr.replace(constvars=constvars, eqns=eqns, outvars=outvars)


def trace_call(fun, args, kwargs, static_argnums=(), kind="make_jaxpr", arrays_stay=()):
    """Record `fun(*args, **kwargs)`: -> (closed jaxpr, structure of the result).

    The closed jaxpr's consts may be tracers of the traces that surround the call.
    """
    flatten, unflatten = flattening["flatten"], flattening["unflatten"]
    static = {i % len(args) for i in static_argnums}
    every = (*args, *kwargs.values())
    named = zip(argument_names(fun, args, kwargs), every, strict=True)
    traced = [pair for i, pair in enumerate(named) if i not in static]
    leaves, tree = flatten(tuple(value for _, value in traced))
    names = [leaf for pair in traced for leaf in flattening["leaf_names"](*pair)]
    about = kind, function_source(fun), tuple(names), arrays_stay
    info = TraceInfo(function_name(fun), *about)
    out_tree = None

    def flat(*tracers):
        nonlocal out_tree
        values = iter(unflatten(tree, list(tracers)))
        full = [x if i in static else next(values) for i, x in enumerate(args)]
        result = fun(*full, **dict(zip(kwargs, values, strict=True)))
        out, out_tree = flatten(result)
        return out

    flat = flattening["with_refs"](flat, leaves)
    avals = leaf_avals(leaves, names, fun)
    jaxpr, consts = trace_to_jaxpr(flat, avals, info)
    return ClosedJaxpr(jaxpr, consts), out_tree


def make_jaxpr(
    fun: Callable[Args, Any], static_argnums: Argnums = (), axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[Args, Any]:
    """A function that takes `fun`'s arguments and returns its jaxpr (`jax.make_jaxpr`).

    Args:
      fun: a function of arrays, or of trees of arrays.
      static_argnums: int or ints; these positional arguments are handed to `fun` as
        they are.
      axis_env: pairs (name, size) of axes that collectives in `fun` may name.
      return_shape: also return the results' types, in the structure of the result.

    Returns:
      A function that returns a `ClosedJaxpr`.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")

    @wraps(fun)
    def traced(*args, **kwargs):
        with axes_named(axis_env):
            closed, out_tree = trace_call(fun, args, kwargs, static, "make_jaxpr")
        if not return_shape:
            return closed
        infos = flattening["infos"](closed.out_avals)
        return closed, flattening["unflatten"](out_tree, infos)

    return traced
