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

import functools
import inspect
import weakref
from dataclasses import dataclass, field, replace

import numpy as np

from . import dtypes
from .advice import leaked_tracer
from .array import ArrayImpl, ShapedArray, aval_of, is_array_like, result_avals
from .core import Trace, Tracer, current_trace, set_trace
from .errors import JaxprTypeError, Source, at_line, on_behalf_of, user_source


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
        return jaxpr_printers["text"](self)


class Memory(dict):
    """What is remembered of one jaxpr: see `memoised`."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__


# All memories there are.
memories: weakref.WeakSet = weakref.WeakSet()


def memoised(transform):
    """Remember what a function makes of a jaxpr for as long as the jaxpr lives.

    Without this, a loop in a loop in a loop would be transformed over and over.  The
    jaxpr itself has what is remembered: a table that maps a jaxpr to something which
    holds it, however far down, would keep both for ever.
    """

    def remembering(jaxpr, *key):
        memory = vars(jaxpr).get("memory")
        if memory is None:
            memory = vars(jaxpr).setdefault("memory", Memory())
            memories.add(memory)
        full = transform, key
        if full not in memory:
            memory[full] = transform(jaxpr, *key)
        return memory[full]

    return remembering


def forget_jaxprs():
    """Forget all that is remembered of jaxprs."""
    for memory in list(memories):
        memory.clear()


@dataclass(frozen=True, eq=False)
class ClosedJaxpr:
    """A jaxpr with the values of its constvars."""

    jaxpr: Jaxpr
    consts: tuple = ()

    def __reduce__(self):
        # A copy remembers nothing.
        return ClosedJaxpr, (self.jaxpr, self.consts)

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

    __slots__ = ("variable", "source")

    def __init__(self, trace, var, source=None):
        super().__init__(trace, var.aval)
        self.variable = var
        self.source = source

    def origin(self):
        return self.owner.origin(self)


# Primitives that hold Python functions where values are known, and jaxprs in a
# jaxpr: rule(args, params) -> (args, params), run in the recording trace.
staging_rules = {}


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
            if value.owner is self:
                return value.variable
            if not encloses(self, value.owner):
                raise leaked_tracer(f"the traced function {self.info.name}", value)
        elif not isinstance(value, np.ndarray) or value.ndim == 0:
            aval = aval_of(value)
            if is_scalar(aval):
                return Literal(scalar(value, aval), aval)
        if id(value) not in self.constants:
            self.constants[id(value)] = Var(aval_of(value)), value
        return self.constants[id(value)][0]

    def process(self, primitive, args, params):
        if self.over:
            raise RuntimeError(f"the trace of {self.info.name} is over")
        if primitive in staging_rules:
            args, params = staging_rules[primitive](args, params)
        invars = tuple(map(self.lift, args))
        source = user_source()
        avals = result_avals(primitive, [v.aval for v in invars], params, source)
        outvars = tuple(map(Var, avals))
        self.eqns.append(Eqn(primitive, invars, outvars, params, source))
        return [JaxprTracer(self, v, source) for v in outvars]

    def origin(self, tracer):
        """A sentence: what is being traced, and which arguments `tracer` needs."""
        info = self.info
        where = f", defined at {info.source}," if info.source else ""
        text = f"\n  It was traced as part of {info.name}{where} for {info.kind}"
        names = self.arguments_behind(tracer.variable)
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


def is_scalar(aval):
    """Whether values of a type can be literals: those of NumPy's, without axes."""
    if not isinstance(aval, ShapedArray) or aval.shape:
        return False
    return isinstance(aval.dtype, np.dtype)


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
        with on_behalf_of(eqn.source):
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


def check_jaxpr(jaxpr):
    """Raise `JaxprTypeError` unless every equation is well-formed.

    Variables must be assigned once, before they are used; every equation's results
    must have the types that its shape rule computes.
    """
    todo = [jaxpr]
    while todo:
        jaxpr = todo.pop()
        defined = set()
        for var in (*jaxpr.constvars, *jaxpr.invars):
            define(defined, var, "the inputs")
        for eqn in jaxpr.eqns:
            check_equation(defined, eqn)
            todo.extend(subjaxprs(eqn))
        check_defined(defined, jaxpr.outvars, "the results")


def define(defined, var, where):
    """Note that `var` has a value from here on; it must not have one yet."""
    if var in defined:
        raise JaxprTypeError(
            f"a variable of type {var.aval} is assigned a second time, in {where}"
        )
    defined.add(var)


def check_defined(defined, atoms, where):
    """Every variable among `atoms` must have a value."""
    for atom in atoms:
        if isinstance(atom, Var) and atom not in defined:
            raise JaxprTypeError(
                f"a variable of type {atom.aval} has no value yet, in {where}"
            )


def check_equation(defined, eqn):
    """Check one equation and define its results."""
    where = f"the equation of {eqn.primitive}{at_line(eqn.source)}"
    check_defined(defined, eqn.invars, where)
    in_avals = [v.aval for v in eqn.invars]
    avals = result_avals(eqn.primitive, in_avals, eqn.params, eqn.source)
    for var, aval in zip(eqn.outvars, avals, strict=True):
        define(defined, var, where)
        if var.aval.strip_weak_type() != aval.strip_weak_type():
            raise JaxprTypeError(
                f"{where} assigns a result of type {aval} to a variable of type "
                f"{var.aval}"
            )


# Primitives that do something, printing for instance, though nobody needs a result.
effectful = set()

jaxprs_with_effects: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def has_effect(eqn):
    """Whether an equation, or one in the jaxprs it holds, does more than compute."""
    if eqn.primitive in effectful:
        return True
    return bool(effectful) and any(map(jaxpr_has_effect, subjaxprs(eqn)))


def jaxpr_has_effect(jaxpr):
    """Whether an equation of a jaxpr has an effect; remembered."""
    if jaxpr not in jaxprs_with_effects:
        jaxprs_with_effects[jaxpr] = any(map(has_effect, jaxpr.eqns))
    return jaxprs_with_effects[jaxpr]


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


def needed_equations(eqns, wanted, given=(), effects=False):
    """The equations that compute the atoms `wanted`, stopping at the variables `given`.

    With `effects` those that do more than compute are needed as well.

    Returns:
      (eqns in order, the set of variables that they and `wanted` mention).
    """
    given = set(given)
    needed = {v for v in wanted if isinstance(v, Var)}
    kept = []
    for eqn in reversed(eqns):
        wants = any(v in needed and v not in given for v in eqn.outvars)
        if wants or (effects and has_effect(eqn)):
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


def flatten_flat(args):
    """The default for chapter 3: a tuple of arrays, or one array, is already flat."""
    return (list(args), len(args)) if isinstance(args, tuple) else ([args], None)


def unflatten_flat(count, leaves):
    """The inverse of `flatten_flat`."""
    return leaves[0] if count is None else tuple(leaves)


# How arguments and results become flat lists of arrays, and what the leaves of an
# argument are called.  Pytrees take these rows over.
flattening = {
    "flatten": flatten_flat,
    "unflatten": unflatten_flat,
    "leaf_names": lambda name, tree: [name],
}


def function_source(function):
    """Where a Python function is defined, or None for other callables."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return code and Source(code.co_filename, code.co_firstlineno, function.__name__)


def function_name(function):
    """The name under which a function is printed and reported."""
    while isinstance(function, functools.partial):
        function = getattr(function, "__wrapped__", function.func)
    return getattr(function, "__name__", type(function).__name__)


def argument_names(function, args, kwargs):
    """The parameter's name for each positional argument, then the keywords."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return [f"args[{i}]" for i in range(len(args))] + list(kwargs)
    names = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(len(args) - len(names))]
        elif parameter.kind is not parameter.VAR_KEYWORD and len(names) < len(args):
            names.append(name)
    return names + list(kwargs)


def is_argument(x):
    """Whether a traced function takes `x`: it has a dtype that arrays may have."""
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype in dtypes.dtype_names or dtype == dtypes.float0
    return is_array_like(x) or dtype is not None


def leaf_avals(leaves, names, function):
    """The avals of flat arguments; anything that is no array is an error."""
    avals = []
    for leaf, name in zip(leaves, names, strict=True):
        if not is_argument(leaf):
            raise TypeError(
                f"{function_name(function)} was given {leaf!r} of type "
                f"{type(leaf).__name__} for the argument {name}, which is not an "
                f"array{at_line(user_source())}\n"
                "  Instead: pass arrays and numbers; what is neither must be static "
                "(static_argnums or static_argnames)."
            )
        avals.append(aval_of(leaf) if is_array_like(leaf) else aval_like(leaf))
    return avals


def aval_like(x):
    """The aval of something that only has a shape and a dtype."""
    weak_type = getattr(x, "weak_type", False)
    return ShapedArray(tuple(x.shape), dtypes.as_dtype(x.dtype), weak_type)


def make_jaxpr(fun, static_argnums=(), return_shape=False):
    """A function that takes `fun`'s arguments and returns its jaxpr (`jax.make_jaxpr`).

    Args:
      fun: a function of arrays, or of trees of arrays.
      static_argnums: int or ints; these positional arguments are handed to `fun` as
        they are.
      return_shape: also return the results' avals, in the structure of the result.

    Returns:
      A function that returns a `ClosedJaxpr`.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")

    @functools.wraps(fun)
    def traced(*args, **kwargs):
        closed, out_tree = trace_call(fun, args, kwargs, static, "make_jaxpr")
        if not return_shape:
            return closed
        return closed, flattening["unflatten"](out_tree, closed.out_avals)

    return traced


def trace_call(fun, args, kwargs, static_argnums=(), kind="make_jaxpr"):
    """Record `fun(*args, **kwargs)`: -> (closed jaxpr, structure of the result).

    The closed jaxpr's consts may be tracers of the traces that surround the call.
    """
    flatten, unflatten = flattening["flatten"], flattening["unflatten"]
    static = {i % len(args) for i in static_argnums}
    names = argument_names(fun, args, kwargs)
    dynamic = [i for i in range(len(args)) if i not in static]
    values = (*[args[i] for i in dynamic], *kwargs.values())
    value_names = [names[i] for i in dynamic] + list(kwargs)
    leaves, tree = flatten(values)
    leaf_names = [
        leaf
        for name, value in zip(value_names, values, strict=True)
        for leaf in flattening["leaf_names"](name, value)
    ]
    avals = leaf_avals(leaves, leaf_names, fun)
    info = TraceInfo(function_name(fun), kind, function_source(fun), tuple(leaf_names))
    out_tree = None

    def flat(*tracers):
        nonlocal out_tree
        values = unflatten(tree, list(tracers))
        full = list(args)
        for i, value in zip(dynamic, values, strict=False):
            full[i] = value
        result = fun(*full, **dict(zip(kwargs, values[len(dynamic) :], strict=True)))
        out, out_tree = flatten(result)
        return out

    jaxpr, consts = trace_to_jaxpr(flat, avals, info)
    return ClosedJaxpr(jaxpr, consts), out_tree
