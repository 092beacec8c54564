"""Linearize: one rule a primitive, and every kind of derivative comes from it.

The derivative of a function at a point is a linear function.  A row of
`linearize_rules` says, for one primitive, what it computes and what that linear
function is:

    def sin_rule(nonzero, x):
        c = cos(x)                          # runs now, where the primal runs
        return sin(x), lambda t: mul(t, c)  # linear in t; `c` is a residual

`linearize` records the lambdas as a jaxpr of linear operations; `jvp` applies them at
once; chapter 7 transposes them, which is reverse mode.

    y, f_jvp = linearize(f, x)              # f once; f_jvp(t) many times
    y, t_out = jvp(f, (x,), (t,))

Conventions.  A zero tangent is `None` and never an array of zeros; `nonzero` says
which arguments have one that is not, so that a rule computes no residual for nobody.
Integers and bools have no tangents at all.
"""

import math
import weakref
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..trace import dtypes, primitives as lax
from ..trace.array import (
    ArrayImpl,
    ShapedArray,
    aval_of,
    eval_rules,
    on_numpy,
    shape_rules,
    to_numpy,
)
from ..trace.core import (
    Array,
    Primitive,
    Trace,
    Tracer,
    conversion_advice,
    current_trace,
    find_rule,
    set_trace,
)
from ..trace.errors import at_line, user_source
from ..trace.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprTrace,
    TraceInfo,
    Var,
    dce,
    eval_jaxpr,
    function_name,
    needed_equations,
    unzip2,
)
from ..trace.jit import jit_p
from ..trace.pytree import tree_flatten, tree_map, tree_unflatten

# primitive -> rule(nonzero, *primals, **params) -> (results, linear), where
# linear(*tangents) -> tangents of the results.
linearize_rules = {}

# primitive -> rule(primals, tangents, **params) -> (results, tangents).  Only for
# primitives that hold jaxprs: primal and tangent in one loop or call.
joint_rules = {}

# Types of values by class: the type of their tangents (None if they have none), and
# a zero of a type.
tangent_types = {}
zero_makers = {}


def tangent_aval(aval):
    """The type of a value's tangent, or None if its type has no tangents."""
    return tangent_types[type(aval)](aval)


def array_tangent(aval):
    """Tangents of arrays have their type; those of integers and bools have none."""
    return aval if dtypes.issubdtype(aval.dtype, np.inexact) else None


def zeros(aval):
    """A zero of a type: an array of zeros, or whatever `zero_makers` has."""
    return zero_makers[type(aval)](aval)


def array_zeros(aval):
    """An array of zeros, made where it is needed: one scalar, broadcast."""
    return lax.full(aval.shape, 0, aval.dtype)


tangent_types |= {ShapedArray: array_tangent}
zero_makers |= {ShapedArray: array_zeros}


# The sum of two tangents or cotangents of any type; an addition for arrays.
add_any_p = Primitive("add_any")
shape_rules |= {add_any_p: lambda x, y: x}
eval_rules |= on_numpy({add_any_p: np.add})


def add_tangents(s, t):
    """The sum of two tangents, either of which may be None."""
    if s is None or t is None:
        return s if t is None else t
    return add_any_p.bind(s, t)


class JVPTracer(Tracer):
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
        return concrete_array(self.primal, self.aval)

    def __float__(self):
        raise self.loses_derivative("float")

    def __complex__(self):
        raise self.loses_derivative("complex")

    def tolist(self):
        """Raises ConcretizationTypeError: the numbers would have no derivative."""
        raise self.loses_derivative("tolist")

    def __array__(self, dtype=None, copy=None):
        raise self.loses_derivative("numpy")

    def loses_derivative(self, use):
        """The error for a conversion that would silently give a gradient of zero."""
        kind, advice = conversion_advice[use]
        asked = "a NumPy array" if use == "numpy" else f"{use}()"
        return kind(
            f"{asked} was asked of a value that is being differentiated, of type "
            f"{self.aval}: what is computed from it would count as a constant, with "
            f"a derivative of zero.{at_line(user_source())}\n  Instead: {advice} If "
            "it is to be a constant, say so: `lax.stop_gradient(x)`."
        )


def concrete_array(x, aval):
    """A concrete argument as an array with the given aval."""
    return x if isinstance(x, ArrayImpl) else ArrayImpl(to_numpy(x, aval), aval)


def as_array(x):
    """A number or a NumPy array as an array of our own; arrays and tracers stay."""
    return x if isinstance(x, Array) else concrete_array(x, aval_of(x))


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
        with set_trace(self.tangent_trace):
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


def attach(trace, primal, tangent):
    """A tracer for the pair, unless the tangent is zero."""
    return primal if tangent is None else JVPTracer(trace, primal, tangent)


def linearize_flat(f, primals, nonzero, parent, info, kind=JVPTrace):
    """Run `f` once; record what its tangents do.

    Args:
      f: function of flat values to a list of them.
      primals: values of the trace `parent`, in which the primal work happens.
      nonzero: one bool a primal: whether it has a tangent.
      kind: the class of trace that runs it.

    Returns:
      (results, result tangents or None, the tangent trace, its tangent arguments).
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


def memoised(transform):
    """Remember a transformation of a closed jaxpr for as long as the jaxpr lives.

    Without this, a loop in a loop in a loop would be transformed over and over.
    """
    cache = weakref.WeakKeyDictionary()

    def remembering(closed, *key):
        results = cache.setdefault(closed, {})
        if key not in results:
            results[key] = transform(closed, *key)
        return results[key]

    remembering.cache_clear = cache.clear
    return remembering


def trace_closed(f, avals, info):
    """Record `f` on its own, outside of every trace: -> `ClosedJaxpr`."""
    trace = JaxprTrace(None, info)
    arguments = [trace.argument(aval) for aval in avals]
    with set_trace(trace):
        outvars = tuple(map(trace.lift, f(*arguments)))
    return close(trace, outvars)


def close(trace, outvars):
    """A closed jaxpr of what a trace without parents recorded."""
    trace.over = True
    constvars, consts = unzip2(trace.constants.values())
    invars, eqns = tuple(trace.invars), tuple(trace.eqns)
    return ClosedJaxpr(Jaxpr(constvars, invars, eqns, outvars, trace.info), consts)


def apply_closed(closed, *args):
    """Replay a closed jaxpr into the current trace."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def info_of(closed, kind):
    """What to call a jaxpr made from another one."""
    debug = closed.jaxpr.debug
    name = debug.name if debug else "jaxpr"
    return TraceInfo(name, kind, debug and debug.source)


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
    linear, roots = split_residuals(primal_trace, tangent_jaxpr, residuals)
    inputs = {v: i for i, v in enumerate(primal_trace.invars)}
    new = [v for v in roots if v not in inputs]
    sources = tuple(
        ("in", inputs[v]) if v in inputs else ("new", new.index(v)) for v in roots
    )
    forward = drop_dead(close(primal_trace, (*outvars, *new)))
    return Linearized(forward, linear, sources, tuple(t is not None for t in tangents))


def instantiate_zeros(tangents, outs, wanted):
    """Make the zero tangents that are `wanted` real arrays of zeros."""
    return [
        zeros(tangent_aval(aval_of(y))) if t is None and w else t
        for t, y, w in zip(tangents, outs, wanted, strict=True)
    ]


def drop_dead(closed):
    """Dead code elimination of a closed jaxpr, its unused consts included."""
    jaxpr = dce(closed.jaxpr)
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return ClosedJaxpr(jaxpr, tuple(values[v] for v in jaxpr.constvars))


def split_residuals(primal_trace, jaxpr, residuals):
    """Close a tangent jaxpr over what is known, and make the rest its first invars.

    A residual that is only another layout of something is not saved: the linear side
    lays it out again (`layout_chains`).  What is a constant becomes a const.

    Returns:
      (closed jaxpr from roots and tangents, the roots: variables of the primal trace).
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
    return ClosedJaxpr(linear, tuple(consts.values())), roots


# Operations that move or repeat elements but compute nothing.
layout_primitives = {
    lax.broadcast_in_dim_p,
    lax.reshape_p,
    lax.transpose_p,
    lax.squeeze_p,
    lax.convert_element_type_p,
}


def layout_chains(eqns, atoms):
    """Follow each atom back through layout equations, as long as that saves bytes.

    Returns:
      (the equations on the way, in order; the variables where the chains begin).
    """
    made = {v: eqn for eqn in eqns for v in eqn.outvars}
    chains, roots = set(), {}
    for atom in atoms:
        while isinstance(atom, Var):
            eqn = made.get(atom)
            if eqn is None or eqn.primitive not in layout_primitives:
                roots[atom] = None
                break
            source, = eqn.invars
            if source.aval.nbytes > atom.aval.nbytes:
                roots[atom] = None
                break
            chains.add(eqn)
            atom = source
    return tuple(eqn for eqn in eqns if eqn in chains), list(roots)


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


def present(values):
    """The values that are not None."""
    return [v for v in values if v is not None]


def fill(mask, values):
    """Put values where the mask is True and None elsewhere: undoes `present`."""
    values = iter(values)
    return [next(values) if m else None for m in mask]


class FlatFunction:
    """A function of trees as a function of flat lists.

    Attributes:
      out_tree: the structure of the last result; known after a call.
      aux: with `has_aux`, the second result of the last call.
    """

    def __init__(self, function, in_tree, has_aux=False):
        self.function = check_callable(function)
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree = None
        self.aux = None

    def __call__(self, *leaves):
        result = self.function(*tree_unflatten(self.in_tree, leaves))
        if self.has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise TypeError(
                    f"{function_name(self.function)} must return a pair (result, aux), "
                    f"because has_aux=True; it returned {result!r}"
                )
            result, aux = result
            self.aux = tree_map(primal_here, aux)
        leaves, self.out_tree = tree_flatten(result)
        return list(map(as_array, leaves))


def check_callable(fun):
    """`fun`, which is to be differentiated; TypeError if it is no function."""
    if not callable(fun):
        where = at_line(user_source())
        raise TypeError(f"Expected a callable value, got {fun!r}{where}")
    return fun


def primal_here(x):
    """A leaf of an aux, which leaves the current trace without its tangent."""
    mine = isinstance(x, JVPTracer) and x.owner is current_trace()
    return x.primal if mine else x


def check_tangents(primals, tangents, names, kind=TypeError):
    """Complain unless each tangent fits its primal; zero ones come back as None.

    Raises `kind`, and ValueError where it is the shape that differs.
    """
    checked = []
    for primal, tangent, name in zip(primals, tangents, names, strict=True):
        wanted, got = tangent_aval(aval_of(primal)), tangent_type_given(tangent)
        if wanted is None and got in (None, dtypes.float0):
            checked.append(None)
        elif got is None and wanted is not None:
            checked.append(None)
        elif wanted is None or got == dtypes.float0 or wanted.strip_weak_type() != got:
            shapes_differ = getattr(got, "shape", ()) != getattr(wanted, "shape", ())
            raise (ValueError if shapes_differ else kind)(
                f"primal and tangent of {name} do not match: the primal has type "
                f"{aval_of(primal)}, so the tangent must have type "
                f"{wanted.str_short() if wanted else 'float0'}, got {got}"
                f"{at_line(user_source())}"
            )
        else:
            checked.append(as_array(tangent))
    return checked


def tangent_type_given(tangent):
    """The aval of a tangent from a user, or float0, or None."""
    if tangent is None or getattr(tangent, "dtype", None) == dtypes.float0:
        return None if tangent is None else dtypes.float0
    return aval_of(tangent).strip_weak_type()


def tangent_out(tangent, aval):
    """A tangent for a user: zeros where there is none, float0 for integers.

    It is weakly typed if the value that it belongs to is.
    """
    if tangent is None and tangent_aval(aval) is None:
        return np.zeros(aval.shape, dtypes.float0)
    tangent = zeros(tangent_aval(aval)) if tangent is None else tangent
    if getattr(aval, "weak_type", False) and not aval_of(tangent).weak_type:
        weaken = dict(new_dtype=aval.dtype, weak_type=True)
        return lax.convert_element_type_p.bind(tangent, **weaken)
    return tangent


def jvp(fun, primals, tangents, has_aux=False):
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
    if not all(isinstance(x, (tuple, list)) for x in (primals, tangents)):
        raise TypeError(
            "primal and tangent arguments to minijit.jvp must be tuples or lists, got "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    leaves, tree = tree_flatten(tuple(primals))
    none_is_leaf = partial(tree_flatten, is_leaf=lambda x: x is None)
    tangent_leaves, tangent_tree = none_is_leaf(tuple(tangents))
    if len(tangent_leaves) != len(leaves):
        raise TypeError(
            "primal and tangent arguments to minijit.jvp must have the same tree "
            f"structure, got {tree} and {tangent_tree}"
        )
    names = [f"argument leaf {i}" for i in range(len(leaves))]
    flat = FlatFunction(fun, tree, has_aux)
    given = check_tangents(leaves, tangent_leaves, names)
    outs, out_tangents = jvp_flat(flat, list(map(as_array, leaves)), given)
    out_tangents = list(map(tangent_out, out_tangents, map(aval_of, outs)))
    unflatten = partial(tree_unflatten, flat.out_tree)
    result = unflatten(outs), unflatten(out_tangents)
    return (*result, flat.aux) if has_aux else result


def linearize(fun, *primals, has_aux=False):
    """`fun` at a point, and its derivative there as a function (`jax.linearize`).

    `fun` runs once, however often the derivative is applied.

    Returns:
      (result, f_jvp), or (result, f_jvp, aux), where f_jvp(*tangents) -> tangent.
    """
    leaves, tree = tree_flatten(primals)
    leaves = list(map(as_array, leaves))
    flat = FlatFunction(fun, tree, has_aux)
    outs, linear = linearize_here(flat, leaves)

    def f_jvp(*tangents):
        tangent_leaves, tangent_tree = tree_flatten(tangents)
        if tangent_tree != tree:
            raise TypeError(
                "the tangents given to a linearized function must have the structure "
                f"of its arguments, {tree}, got {tangent_tree}"
            )
        names = [f"argument leaf {i}" for i in range(len(leaves))]
        given = check_tangents(leaves, tangent_leaves, names, ValueError)
        out = map(tangent_out, linear(given), map(aval_of, outs))
        return tree_unflatten(flat.out_tree, list(out))

    result = tree_unflatten(flat.out_tree, outs), f_jvp
    return (*result, flat.aux) if has_aux else result


def has_tangent(x):
    """Whether a value's type has tangents."""
    return tangent_aval(aval_of(x)) is not None


def linearize_here(flat, leaves):
    """Linearize in the current trace: -> (results, linear map on flat tangents)."""
    nonzero = tuple(map(has_tangent, leaves))
    info = TraceInfo(function_name(flat), "linearize")
    outs, tangents, recorder = linearize_flat(
        flat, leaves, nonzero, current_trace(), info
    )
    jaxpr, residuals = finish_linear(recorder, tangents)

    def linear(given):
        avals = [tangent_aval(aval_of(x)) for x in leaves]
        given = [
            zeros(a) if t is None else t
            for t, a in zip(given, avals, strict=True)
            if a is not None
        ]
        out = eval_jaxpr(jaxpr, residuals, *given)
        return fill([t is not None for t in tangents], out)

    return outs, linear


# ---- rows


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


def spread(t, aval):
    """A tangent stretched to the result's type: from a scalar, or along axes of 1."""
    if t is None or aval_of(t).shape == aval.shape:
        return t
    axes = range(len(aval.shape)) if aval_of(t).ndim else ()
    return lax.broadcast_in_dim(t, aval.shape, axes)


def elementwise(rows):
    """Linearize rules from {primitive: a partial derivative for each argument}."""
    return {p: partial(elementwise_rule, p, ds) for p, ds in rows.items()}


def linear_rule(primitive, nonzero, x, *rest, **params):
    """The rule of a primitive that is linear in its first argument."""
    y = primitive.bind(x, *rest, **params)
    return y, lambda t, *_: primitive.bind(t, *rest, **params)


def linear_in_first(*primitives):
    """Linearize rules of primitives that are linear in their first argument."""
    return {p: partial(linear_rule, p) for p in primitives}


def constant_rule(primitive, nonzero, *args, **params):
    """The rule of a primitive whose derivative is zero wherever it has one."""
    outs = primitive.bind(*args, **params)
    if primitive.multiple_results:
        return outs, lambda *tangents: [None] * len(outs)
    return outs, lambda *tangents: None


def constant(*primitives):
    """Linearize rules of primitives through which no derivative passes."""
    return {p: partial(constant_rule, p) for p in primitives}


linearize_rules |= elementwise({
    lax.sin_p: [lambda y, x: lax.cos(x)],
    lax.cos_p: [lambda y, x: lax.neg(lax.sin(x))],
    lax.tanh_p: [lambda y, x: lax.mul(lax.add(1.0, y), lax.sub(1.0, y))],
    lax.exp_p: [lambda y, x: y],
    lax.log_p: [lambda y, x: lax.div(1.0, x)],
    lax.sqrt_p: [lambda y, x: lax.div(0.5, y)],
    lax.integer_pow_p: [lambda z, x, y: integer_pow_factor(x, y)],
    lax.mul_p: [lambda z, x, y: y, lambda z, x, y: x],
    lax.max_p: [lambda z, x, y: share(z, x, y), lambda z, x, y: share(z, y, x)],
    lax.min_p: [lambda z, x, y: share(z, x, y), lambda z, x, y: share(z, y, x)],
    lax.pow_p: [
        lambda z, x, y: pow_by_base(x, y),
        lambda z, x, y: pow_by_exponent(z, x),
    ],
})


def share(z, x, y):
    """How much of a maximum z's tangent is x's: 1, 0, or half of it at a tie."""
    x, y = spread(x, aval_of(z)), spread(y, aval_of(z))
    one_or_half = lax.select(lax.eq(y, z), full_as(z, 0.5), full_as(z, 1))
    return lax.select(lax.eq(x, z), one_or_half, full_as(z, 0))


def full_as(x, value):
    """An array of one value, of x's shape and dtype."""
    return lax.full(aval_of(x).shape, value, aval_of(x).dtype)


def integer_pow_factor(x, y):
    """The derivative of x ** y for an int y: 0 for y = 0, whatever x is."""
    if y in (0, 1):
        return full_as(x, y)
    return lax.mul(y, x if y == 2 else lax.integer_pow(x, y - 1))


def pow_by_base(x, y):
    """The derivative of x ** y by x; an exponent 0 is harmless if it is an integer."""
    if aval_of(y).dtype == aval_of(x).dtype:
        return lax.mul(y, lax.pow(x, lax.sub(y, full_as(y, 1))))
    is_zero = lax.eq(y, full_as(y, 0))
    power = lax.select(is_zero, full_as(y, 0), lax.sub(y, full_as(y, 1)))
    return lax.mul(lax.convert(y, aval_of(x).dtype), lax.pow(x, power))


def pow_by_exponent(z, x):
    """The derivative of z = x ** y by y: z log x, and 0 at x = 0."""
    is_zero = lax.eq(x, full_as(x, 0))
    return lax.mul(z, lax.log(lax.select(is_zero, full_as(x, 1), x)))


def add_rule(nonzero, x, y):
    z = lax.add(x, y)
    aval = aval_of(z)
    return z, lambda s, t: add_tangents(spread(s, aval), spread(t, aval))


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


def add_any_rule(nonzero, x, y):
    return add_tangents(x, y), add_tangents


linearize_rules |= {
    lax.add_p: add_rule,
    lax.sub_p: sub_rule,
    lax.div_p: div_rule,
    add_any_p: add_any_rule,
}
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
linearize_rules |= constant(
    *(lax.sign_p, lax.iota_p, lax.argmax_p, lax.argmin_p),
    *(lax.eq_p, lax.ne_p, lax.lt_p, lax.le_p, lax.gt_p, lax.ge_p),
    *(lax.and_p, lax.or_p, lax.xor_p, lax.not_p),
    *(lax.reduce_and_p, lax.reduce_or_p, lax.reduce_xor_p),
)


def convert_rule(nonzero, x, *, new_dtype, weak_type):
    """Linear between floats; through an integer no derivative passes."""
    y = lax.convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    if not has_tangent(y):
        return y, lambda t: None
    return y, lambda t: lax.convert(t, new_dtype)


def select_rule(nonzero, which, *cases):
    y = lax.select_n(which, *cases)
    avals = [tangent_aval(aval_of(x)) for x in cases]

    def linear(_, *tangents):
        if all(t is None for t in tangents):
            return None
        pairs = zip(tangents, avals, strict=True)
        return lax.select_n(which, *[zeros(a) if t is None else t for t, a in pairs])

    return y, linear


def concatenate_rule(nonzero, *args, dimension):
    y = lax.concatenate_p.bind(*args, dimension=dimension)
    avals = [tangent_aval(aval_of(x)) for x in args]

    def linear(*tangents):
        pairs = zip(tangents, avals, strict=True)
        parts = [zeros(a) if t is None else t for t, a in pairs]
        return lax.concatenate_p.bind(*parts, dimension=dimension)

    return y, linear


def dot_general_rule(nonzero, x, y, **params):
    product = partial(lax.dot_general_p.bind, **params)

    def linear(s, t):
        s = None if s is None else product(s, y)
        return add_tangents(s, None if t is None else product(x, t))

    return product(x, y), linear


linearize_rules |= {
    lax.convert_element_type_p: convert_rule,
    lax.select_n_p: select_rule,
    lax.concatenate_p: concatenate_rule,
    lax.dot_general_p: dot_general_rule,
}


def extremum_rule(primitive, nonzero, x, *, axes):
    """The tangent of a maximum is that of where it is; several share it evenly."""
    y = primitive.bind(x, axes=axes)
    kept = [i for i in range(aval_of(x).ndim) if i not in axes]
    spread_y = lax.broadcast_in_dim(y, aval_of(x).shape, kept)
    here = lax.convert(lax.eq(x, spread_y), aval_of(x).dtype)
    count = lax.reduce_sum(here, axes)
    share = lax.div(here, lax.broadcast_in_dim(count, aval_of(x).shape, kept))
    return y, lambda t: lax.reduce_sum(lax.mul(t, share), axes)


def reduce_prod_rule(nonzero, x, *, axes):
    """The tangent of a product: each factor's, times all the other factors.

    The others are multiplied from both ends, so that zeros do no harm.
    """
    y = lax.reduce_prod_p.bind(x, axes=axes)
    aval = aval_of(x)
    kept = [i for i in range(aval.ndim) if i not in axes]
    size = math.prod(aval.shape[i] for i in axes)
    shape = (size, *(aval.shape[i] for i in kept))
    rows = lax.reshape(lax.transpose(x, (*axes, *kept)), shape)
    others = products_of_others(rows)

    def linear(t):
        t = lax.reshape(lax.transpose(t, (*axes, *kept)), shape)
        return lax.reduce_sum(lax.mul(t, others), (0,))

    return y, linear


def products_of_others(x):
    """For each row of x the product of all the other rows, by halving."""
    n = aval_of(x).shape[0]
    if n <= 1:
        return full_as(x, 1)
    half = n // 2
    low, high = (
        lax.slice(x, (a, *[0] * (x.ndim - 1)), (b, *x.shape[1:]))
        for a, b in ((0, half), (half, n))
    )
    low_product, high_product = (lax.reduce_prod(part, (0,)) for part in (low, high))
    return lax.concatenate(
        [
            lax.mul(products_of_others(low), lax.broadcast(high_product, (half,))),
            lax.mul(products_of_others(high), lax.broadcast(low_product, (n - half,))),
        ],
        0,
    )


linearize_rules |= {
    lax.reduce_max_p: partial(extremum_rule, lax.reduce_max_p),
    lax.reduce_min_p: partial(extremum_rule, lax.reduce_min_p),
    lax.reduce_prod_p: reduce_prod_rule,
}


# ---- calls of jitted functions


def call_rule(nonzero, *args, name, jaxpr, **params):
    """A call becomes two: one forward, which also returns residuals, one linear."""
    n = len(jaxpr.out_avals)
    parts = linearize_jaxpr(jaxpr, nonzero, (False,) * n)
    outs = jit_p.bind(*args, name=name, jaxpr=parts.forward)
    residuals = parts.residuals(args, outs[n:])

    def linear(*tangents):
        given = residuals + present(tangents)
        out = jit_p.bind(*given, name=name, jaxpr=parts.linear)
        return fill(parts.nonzero_out, out)

    return outs[:n], linear


def call_joint(primals, tangents, *, name, jaxpr, **params):
    """Forward mode through a call: one call, primals and tangents together."""
    n = len(jaxpr.out_avals)
    nonzero = tuple(t is not None for t in tangents)
    joint, nonzero_out = jvp_jaxpr(jaxpr, nonzero, (False,) * n)
    outs = jit_p.bind(*primals, *present(tangents), name=name, jaxpr=joint)
    return outs[:n], fill(nonzero_out, outs[n:])


linearize_rules |= {jit_p: call_rule}
joint_rules |= {jit_p: call_joint}
