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

from dataclasses import dataclass, field

import numpy as np

from .array import ArrayImpl, ShapedArray, aval_of, shape_rules
from .core import Trace, Tracer, current_trace, find_rule, leaked_tracer, set_trace
from .errors import Source, user_source


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
        return Eqn(**({f: getattr(self, f) for f in self.__dataclass_fields__} | changes))


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
        return Jaxpr(**({f: getattr(self, f) for f in self.__dataclass_fields__} | changes))

    def __str__(self):
        return jaxpr_printers["text"](self)


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
        return jaxpr_printers["text"](self.jaxpr)

    __repr__ = __str__


# `jaxpr_text` fills this in: printing is a room of its own.
jaxpr_printers = {"text": repr}


@dataclass(frozen=True)
class TraceInfo:
    """What is being traced: for error messages and for the names of calls.

    Attributes:
      name: the function's name.
      kind: for which transformation (`jit`, `make_jaxpr`, `scan`, ...).
      source: where the function is defined, or None.
      arg_names: one name an argument leaf, such as `params['w']`.
    """

    name: str
    kind: str
    source: Source | None = None
    arg_names: tuple = ()


class JaxprTracer(Tracer):
    """A variable of the jaxpr that is being recorded."""

    __slots__ = ("var", "source")

    def __init__(self, trace, var, source=None):
        super().__init__(trace, var.aval)
        self.var = var
        self.source = source

    def origin(self):
        return self.trace.origin(self)


class JaxprTrace(Trace):
    """Records every primitive applied to anything as an equation.

    Scalars become literals; arrays, and tracers of enclosing traces, become
    constvars, one for each object.
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

    def lift(self, value):
        """The atom for a value that is used in the traced function."""
        if isinstance(value, Tracer):
            if value.trace is self:
                return value.var
            if not encloses(self, value.trace):
                raise leaked_tracer(f"{self.info.name} (traced for {self.info.kind})", value)
        elif not isinstance(value, np.ndarray) or value.ndim == 0:
            aval = aval_of(value)
            if aval.shape == ():
                return Literal(scalar(value, aval), aval)
        if id(value) not in self.constants:
            self.constants[id(value)] = Var(aval_of(value)), value
        return self.constants[id(value)][0]

    def process(self, primitive, args, params):
        if self.over:
            raise RuntimeError(f"the trace of {self.info.name} is over")
        invars = tuple(map(self.lift, args))
        rule = find_rule(shape_rules, primitive, "shape")
        avals = rule(*[v.aval for v in invars], **params)
        outvars = tuple(map(Var, avals if primitive.multiple_results else [avals]))
        source = user_source()
        self.eqns.append(Eqn(primitive, invars, outvars, params, source))
        return [JaxprTracer(self, v, source) for v in outvars]

    def origin(self, tracer):
        """A sentence: what is being traced, and which arguments `tracer` needs."""
        where = f", defined at {self.info.source}," if self.info.source else ""
        text = f"\n  It was traced as part of {self.info.name}{where} for {self.info.kind}"
        names = self.arguments_behind(tracer.var)
        text += f", and depends on the argument {', '.join(names)}." if names else "."
        if tracer.source:
            text += f"\n  It was computed at {tracer.source}: {tracer.source.text()}"
        return text

    def arguments_behind(self, var):
        """The names of the arguments that `var` is computed from."""
        needed = {var}
        for eqn in reversed(self.eqns):
            if not needed.isdisjoint(eqn.outvars):
                needed.update(v for v in eqn.invars if isinstance(v, Var))
        names = zip(self.invars, self.info.arg_names, strict=False)
        return [name for v, name in names if v in needed]


def scalar(value, aval):
    """A literal's value: a read-only NumPy array without axes."""
    value = np.array(value, dtype=aval.dtype)
    value.flags.writeable = False
    return value


def encloses(inner, trace):
    """Whether `trace` is one of the traces that `inner` runs in."""
    while inner is not None:
        if inner is trace:
            return True
        inner = inner.parent
    return False


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


def unzip2(pairs):
    """Pairs to a pair of tuples, also where there are none."""
    firsts, seconds = [], []
    for first, second in pairs:
        firsts.append(first)
        seconds.append(second)
    return tuple(firsts), tuple(seconds)


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
        results = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        results = results if eqn.primitive.multiple_results else [results]
        env |= zip(eqn.outvars, results, strict=True)
        for var in last.get(i, ()):
            del env[var]
    return [read(v) for v in jaxpr.outvars]


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


def subjaxprs(eqn):
    """The jaxprs among an equation's params, closed ones opened."""
    todo, found = list(eqn.params.values()), []
    for value in todo:
        if isinstance(value, ClosedJaxpr):
            found.append(value.jaxpr)
        elif isinstance(value, Jaxpr):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            todo.extend(value)
    return found


def dce(jaxpr, used_outputs=None):
    """Dead code elimination: drop equations whose results nobody needs.

    Args:
      jaxpr: a `Jaxpr`; its invars all stay.
      used_outputs: one bool an output; those that are False go too.
    """
    used = used_outputs or [True] * len(jaxpr.outvars)
    outvars = tuple(v for v, u in zip(jaxpr.outvars, used, strict=True) if u)
    eqns, needed = needed_equations(jaxpr.eqns, outvars)
    constvars = tuple(v for v in jaxpr.constvars if v in needed)
    return jaxpr.replace(constvars=constvars, eqns=eqns, outvars=outvars)


def needed_equations(eqns, wanted, given=()):
    """The equations that compute the atoms `wanted`, stopping at the variables `given`.

    Returns:
      (eqns in order, the set of variables that they and `wanted` mention).
    """
    given = set(given)
    needed = {v for v in wanted if isinstance(v, Var)}
    kept = []
    for eqn in reversed(eqns):
        if any(v in needed and v not in given for v in eqn.outvars):
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
