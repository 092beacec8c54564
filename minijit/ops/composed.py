"""Functions called outside jit that are recorded, and go to a program from when on.

    for x in batches:
        jnp.searchsorted(edges, x)      # some 80 primitives; after a while one program
    jnp.var(million)                    # one program, from the first call on

A public function called with concrete arrays looks at its arguments, and evaluates
primitive after primitive, each by NumPy.  Once that has cost what recording costs, the
function is recorded for arguments of these types.  From then on only the recorded
equations are evaluated, each by its plan: the same functions of NumPy's give the same
result, to the last bit.

Whether one compiled program does, instead, depends on whether it is *exact*: whether
each of its primitives has one right result, to the last bit.  So have choices,
comparisons and whatever moves elements, what IEEE 754 rounds correctly (a sum of two
numbers, a quotient, a square root), and arithmetic of integers.  Sums of many floats
and functions such as `exp` have not: they depend on the order and on who computes them.

A function that is exact is compiled when its calls have cost what compiling costs, by
the clock, and so is of another one what is exact and comes first, the bits of random
numbers: NumPy takes 60 ns for an element that it gathers, and less than 1 ns for one
that it adds.  So what is called a few times is never compiled, and what is called often
takes at most about twice as long as if it had been known from the start which is
cheaper.  Nobody can see it in the results.

In those of other functions it would be seen.  So what they are given decides alone: if
a large array is computed with, they are compiled for the first call, as it takes few
more to earn that back; otherwise never.  The same call gives the same digits, however
often it was made before.

Under `vmap` and `grad` outside jit, a function of more than a few primitives is one
call, as if it were jitted, from the first one on: the transformation takes it as a
whole, once for all calls with arrays of these types.  What comes of it is computed by
the rules above.

Primitives that are evaluated by themselves have a program if an array is large, by the
same rules: `of_large`.
"""

import math
import time
from collections import defaultdict
from functools import partial

import numpy as np

from ..trace import dtypes, primitives as prim, slicing
from ..trace.api.calls import ELEMENTS, MANY, is_large_shape, passing
from ..trace.arguments import TraceInfo, function_source
from ..trace.array import ArrayImpl, ShapedArray, array_classes, known_aval, to_numpy
from ..trace.base.config import config
from ..trace.base.demand import fetch
from ..trace.base.errors import left_out
from ..trace.core import Array, BottomTrace, Primitive, Tracer, current
from ..trace.jaxprs.jaxpr import ClosedJaxpr, Literal, Var, last_uses
from ..trace.jit.jit import executors, jit_p
from ..trace.jit.stores import Table
from ..trace.numpy_values import quiet, quietly
from ..trace.plans import LARGE, has_numpy_dtype, is_large, plan_for, size_of
from ..trace.remembered import is_plain
from ..trace.trees.pytree import tree_flatten
from ..transform.batching.vmap import BatchTrace
from ..transform.closed_jaxprs import apply_closed, drop_dead, trace_closed
from ..transform.control_flow.branches import cond_p
from ..transform.control_flow.while_and_scan import scan_p, while_p
from ..transform.custom.custom_derivatives import custom_jvp_p, custom_vjp_p
from ..transform.derivatives.linearize import JVPTrace, add_any_p
from ..transform.equations import inline_calls
from ..transform.pieces import compiled, jaxpr_of, loop_traces
from ..transform.stop_gradient import stop_gradient_p
from . import bits, cumulative, elementary, prng, rounding, scatter, sorting, windows

left_out["wrappers"] += (__file__,)

overrides = config.overrides
bottom = current.bottom

# In steps, of which one takes 10 us for itself and 2.5 ns for each element: what a call
# of a public function takes before its first; and recording.
CALL, RECORD = 4, 100
# What compiling takes, in nanoseconds: a program, and each of its equations.
PROGRAM, EQUATION = 5_000_000, 1_000_000
# What `Composed.calls` says of what it does not have.
UNKNOWN = object()
# For how many kinds of arguments is known what became of a function; and how many may
# be looked up of one that takes few steps: numbers may be others at each call.
LIMIT, KINDS = 256, 32


class Composed:
    """A public function that was seen to take many steps, or a large array.

    Attributes:
      wrapper: what users call it by; it has `traces` as soon as something is compiled.
      label: its name for users: "jnp.interp".
      calls: {what a call was given: the steps it took so far; what computes it; or
        None, if it stays as it is}.
      is_composed: whether the last call took many steps, or any, and there are few
        kinds of calls.  Otherwise looking them up takes longer than it saves, and the
        wrapper asks only here if an array is large.
    """

    def __init__(self, function, wrapper, label):
        self.function, self.wrapper, self.label = function, wrapper, label
        self.calls, self.is_composed = Table(), True

    def __call__(self, args, kwargs):
        flags, trace = config.plain_key, current.trace
        transformed = type(trace) is not BottomTrace
        plain = flags is not None and not overrides.values
        if not plain or transformed and not takes_calls(trace):
            return self.function(*args, **kwargs)
        arrays, key = [], [flags, transformed, *kwargs]
        for x in (*args, *kwargs.values()):
            if not describe(x, arrays, key, transformed):
                return self.function(*args, **kwargs)
        key = tuple(key)
        known = self.calls.get(key, UNKNOWN)
        if transformed:
            if known is UNKNOWN:
                known = self.call_for(args, kwargs, arrays)
                self.keep(key, known)
            return known(arrays) if known else self.function(*args, **kwargs)
        if type(known) is Recorded:
            return known(arrays)
        if known is UNKNOWN:
            shapes = (x for x in (*args, *kwargs.values()) if type(x) is tuple)
            large = any(x._value.size >= LARGE for x in arrays)
            large = large or any(map(is_large_shape, shapes))
            known = self.known_at_once(args, kwargs, arrays) if large else 0
            self.keep(key, known)
            if type(known) is Recorded:
                return known(arrays)
        before = bottom.steps
        result = self.function(*args, **kwargs)
        steps = bottom.steps - before
        sizes = [size_of(x.aval) for x in arrays]
        if type(result) is ArrayImpl:
            sizes.append(size_of(result.aval))
        work = steps * (1 + max(sizes, default=0) // ELEMENTS)
        self.is_composed = work >= MANY or 0 < steps and len(self.calls) < KINDS
        if known is not None and self.is_composed and steps:
            known += CALL + work
            if known >= RECORD:
                known = self.known_by_now(args, kwargs, arrays, result)
            self.keep(key, known)
        return result

    def keep(self, key, known):
        """Remember what is known of a kind of call."""
        if len(self.calls) >= LIMIT:
            self.calls.clear()
        self.calls[key] = known

    def call_for(self, args, kwargs, arrays):
        """A call for a transformation, or None for what has few steps, or no arrays."""
        closed, tree = self.recorded(args, kwargs, arrays, True)
        if closed is None or len(inline_calls(closed, with_rules).jaxpr.eqns) <= CALL:
            return None
        call = dict(name=self.label, jaxpr=closed, executor="composed")
        return Recorded(partial(jit_p.bind, **call), tree)

    def known_at_once(self, args, kwargs, arrays):
        """Of a call with a large array: its program, or what is known of others."""
        closed, tree = self.recorded(args, kwargs, arrays)
        if closed is None or config.fast_math:
            return None
        if not has_large(closed.jaxpr):
            return 0
        return Recorded(self.program(closed), tree)

    def known_by_now(self, args, kwargs, arrays, result):
        """What computes `result` out of arrays of these types, or None."""
        known, tree = tree_flatten(result)
        if not known or not all(is_array(type(x)) for x in known):
            return None
        closed, out_tree = self.recorded(args, kwargs, arrays)
        if closed is None or out_tree != tree:
            return None
        if closed.out_avals != [x.aval for x in known]:
            return None
        # Rules of derivatives are not asked for here.
        closed = drop_dead(inline_calls(closed, with_rules))
        run = in_parts(closed, self.program, False)
        return run and Recorded(run, tree)

    def program(self, closed):
        """A closed jaxpr as a compiled function of arrays."""
        if not hasattr(self.wrapper, "traces"):
            self.wrapper.traces = loop_traces
        return compiled(closed)

    def recorded(self, args, kwargs, arrays, traced=False):
        """A call of arrays of these types: its closed jaxpr, its results' structure.

        Two times None for a call that values decide, or whose results are no arrays.
        """
        out_tree = None

        def flat(*leaves):
            nonlocal out_tree
            leaves = iter(leaves)
            given, named = replaced((args, kwargs), leaves, traced)
            found, out_tree = tree_flatten(self.function(*given, **named))
            if not found or not all(isinstance(x, Array) for x in found):
                raise TypeError("no arrays")
            return found

        info = TraceInfo(self.label, "eager", function_source(self.function))
        try:
            return trace_closed(flat, [x.aval for x in arrays], info), out_tree
        except (TypeError, ValueError, IndexError):
            # Values decide; or the function itself says what is wrong with the call.
            return None, None


def compile_composed(closed, name):
    """The executor of what a transformation made of a public function's call."""
    closed = drop_dead(inline_calls(closed, with_rules))
    made = [x.aval for eqn in closed.jaxpr.eqns for x in eqn.outvars]
    if not all(type(aval) is ShapedArray for aval in (*closed.in_avals, *made)):
        return partial(apply_closed, closed)  # The tape of a loop has no NumPy value.
    given = filter(has_numpy_dtype, closed.in_avals)
    is_large = max(map(size_of, given), default=0) >= LARGE and not config.fast_math
    if is_large and has_large(closed.jaxpr):
        return compiled(closed)
    run, avals = in_parts(closed, compiled, True), closed.in_avals
    return lambda *leaves: run(*map(prim.as_array, leaves, avals))


executors["composed"] = compile_composed


def in_parts(closed, program, calls):
    """A function of arrays: what is exact is earned, and NumPy computes the rest.

    Args:
      program: what makes a program of a closed jaxpr.
      calls: whether the rest may call programs; otherwise None if it does.
    """
    first, rest = in_two(closed)
    if not rest.jaxpr.eqns:
        return earned(closed, program)
    if len(first.jaxpr.eqns) <= CALL or config.fast_math:
        return by_numpy(closed, calls)
    begin, end = earned(first, program), by_numpy(rest, calls)
    return end and (lambda *arrays: end(*begin(*arrays), *arrays))


def earned(closed, program):
    """What computes a closed jaxpr that is exact."""
    run, eqns = by_numpy(closed, True), closed.jaxpr.eqns
    small = [e for e in eqns if not is_large(e.primitive, types_of(e))]
    if config.fast_math or len(eqns) == len(small) == 1 or all(map(is_view, eqns)):
        return run
    return Earned(run, lambda: program(closed), len(eqns))


def in_two(closed):
    """What is exact and needs nothing else, and the rest of it: two closed jaxprs.

    The second takes the results of the first one before all arguments.  Of numbers of
    a normal distribution the bits are exact, and what becomes of them is not.
    """
    jaxpr, first, rest = closed.jaxpr, [], []
    known = {*jaxpr.constvars, *jaxpr.invars}
    for eqn in jaxpr.eqns:
        needs = {x for x in eqn.invars if isinstance(x, Var)}
        if needs <= known and eqn_is_exact(eqn):
            first.append(eqn)
            known.update(eqn.outvars)
        else:
            rest.append(eqn)
    made = [x for eqn in first for x in eqn.outvars]
    asked = {*jaxpr.outvars, *(x for eqn in rest for x in eqn.invars)}
    made = tuple(x for x in made if x in asked)
    halves = (
        jaxpr.replace(eqns=tuple(first), outvars=made),
        jaxpr.replace(eqns=tuple(rest), invars=made + jaxpr.invars),
    )
    return [ClosedJaxpr(half, closed.consts) for half in halves]


def by_numpy(closed, calls):
    """A function of arrays that evaluates equation after equation, each by its plan.

    It is a text: of the mean of five numbers, for example,

        def values(v0):
            v1 = asarray(f0(v0), d0, "C")
            del v0
            v2 = asarray(f1(v1, v3), d1, "C")
            del v1
            return [v2]

        def run(v0):
            bottom.steps += 2
            v2, = copy().run(values, v0._value)
            return [ArrayImpl(v2, t0)]

    What depends on no argument, as v3, is evaluated here, once.  None if one equation
    calls a program, which has digits of its own, unless `calls` says that it may.
    """
    jaxpr, lines, planned = closed.jaxpr, [], 0
    names: dict = defaultdict(lambda: f"v{len(names)}")
    known = dict(asarray=np.asarray, ArrayImpl=ArrayImpl, bottom=bottom)
    known["copy"] = quiet.copy
    for x, value in zip(jaxpr.constvars, closed.consts, strict=True):
        known[names[x]] = to_numpy(value)
    given, last = ", ".join([names[x] for x in jaxpr.invars]), last_uses(jaxpr)
    atoms = [x for eqn in jaxpr.eqns for x in eqn.invars]
    known |= {names[x]: x.val for x in (*atoms, *jaxpr.outvars) if type(x) is Literal}
    for i, eqn in enumerate(jaxpr.eqns):
        primitive, params = eqn.primitive, eqn.params
        plan = plan_for(primitive, tuple(x.aval for x in eqn.invars), params)
        args, results = ([names[x] for x in side] for side in (eqn.invars, eqn.outvars))
        call = f"f{i}({', '.join(args)})"
        if plan is None or primitive.multiple_results:
            if any(bodies(params.values())) and not calls:
                return None
            known[f"f{i}"] = by_binding(eqn)
            lines.append(f"[{', '.join(results)}] = {call}")
        else:
            known |= {f"f{i}": partial(plan[1], **params), f"d{i}": plan[2]}
            line, planned = f'{results[0]} = asarray({call}, d{i}, "C")', planned + 1
            if known.keys() >= {*args}:
                quietly(exec, line, known)
                continue
            lines.append(line)
        unused = {names[x] for x in last[i]} - known.keys()
        lines += [f"del {', '.join(sorted(unused))}"] if unused else []
    found = [names[x] for x in jaxpr.outvars]
    lines.append(f"return [{', '.join(found)}]")
    results = [f"ArrayImpl({x}, t{i})" for i, x in enumerate(found)]
    values = "".join([f", {names[x]}._value" for x in jaxpr.invars])
    run = [
        f"def run({given}):",
        f"bottom.steps += {planned}",
        f"[{', '.join(found)}] = copy().run(values{values})",
        f"return [{', '.join(results)}]",
    ]
    text = "\n    ".join([f"def values({given}):", *lines])
    text += "\n" + "\n    ".join(run)
    known |= {f"t{i}": known_type(aval) for i, aval in enumerate(closed.out_avals)}
    exec(compile(text, __file__, "exec"), known)  # Its errors are ours.
    return known.pop("run")


def by_binding(eqn):
    """An equation without a plan, as a function from NumPy's values to a list."""
    avals = [known_type(x.aval) for x in eqn.invars]

    def run(*values):
        results = eqn.primitive.bind(*map(ArrayImpl, values, avals), **eqn.params)
        several = eqn.primitive.multiple_results
        return [x._value for x in (results if several else [results])]

    return run


def known_type(aval):
    """A type as the object that arrays of it have."""
    is_known = has_numpy_dtype(aval)
    return known_aval(aval.shape, aval.dtype, aval.weak_type) if is_known else aval


# An error of the call itself is none of the function's, as without this class.
passing.add(Composed.__call__.__code__)


def of_large(primitive, avals, params, function):
    """What computes a primitive of large arrays, in place of a function of NumPy's."""
    bind, several = partial(primitive.bind, **params), primitive.multiple_results
    results = bind if several else lambda *xs: [bind(*xs)]
    closed = jaxpr_of(results, avals, primitive.name)
    eqn, = closed.jaxpr.eqns
    fetch("compiler")
    from ..compile.lower.assembly import expanded
    from ..compile.lower.calls import runs_uncompiled

    lowered = expanded(closed.jaxpr).eqns
    if is_view(eqn) or any(map(runs_uncompiled, lowered)) or config.fast_math:
        return function
    run = compiled(closed)
    if several:
        return run

    def program(*values, **params):
        result, = run(*map(ArrayImpl, values, avals))
        return result._value

    if not is_exact(closed):
        return program
    return Earned(function, lambda: program, 1)


class Earned:
    """A function until it has cost what it costs to compile what `make` makes of it.

    Args:
      equations: how many are compiled.
    """

    def __init__(self, function, make, equations):
        self.function, self.make = function, make
        self.left = PROGRAM + EQUATION * equations

    def __call__(self, *values, **params):
        if self.left == math.inf:
            return self.function(*values, **params)
        if self.left <= 0:
            self.function, self.left = self.make(), math.inf
            return self.function(*values, **params)
        start = time.thread_time_ns()
        result = self.function(*values, **params)
        self.left -= time.thread_time_ns() - start
        return result


class Recorded:
    """A recorded call: a function of the list of its arrays."""

    def __init__(self, run, tree):
        self.run, self.tree = run, tree
        self.is_single = tree.num_nodes == tree.num_leaves == 1

    def __call__(self, arrays):
        results = self.run(*arrays)
        return results[0] if self.is_single else self.tree.unflatten(results)


def takes_calls(trace):
    """Whether a trace and those around it take a call as a whole, and do it at once."""
    while type(trace) in (BatchTrace, JVPTrace):
        trace = trace.parent
    return type(trace) is BottomTrace


def describe(x, arrays, key, traced=False):
    """Add the arrays in an argument to a list, and what else there is to a key.

    If `traced`, tracers count as arrays, and so do floats, which may be others at each
    call: of them only the type is known.
    Returns whether nothing is there but arrays, values that compare by what they are,
    and lists, tuples and dicts of those.
    """
    kind = type(x)
    if traced and isinstance(x, Tracer):
        if type(x.aval) is not ShapedArray:
            return False
        arrays.append(x)
        key += Tracer, x.aval.shape, x.aval.dtype, x.aval.weak_type
    elif kind is ArrayImpl or is_array(kind):  # Most are, and take no call to see it.
        if x._value is None:
            return False
        aval = x.aval
        arrays.append(x)
        key += kind, aval.shape, aval.dtype, aval.weak_type
    elif kind is tuple or kind is list:
        key += kind, len(x)
        return all(describe(part, arrays, key, traced) for part in x)
    elif kind is dict:
        key += kind, *x
        return all(describe(part, arrays, key, traced) for part in x.values())
    elif kind is slice:
        key.append(kind)
        return describe((x.start, x.stop, x.step), arrays, key, traced)
    elif kind is float or kind is complex:
        if traced:
            arrays.append(prim.as_array(x))
        key += kind, None if traced else repr(x)  # 0.0 is not -0.0.
    elif x is ... or is_plain(x) or is_dtype(x):
        key += kind, x
    else:
        return False
    return True


def is_array(kind):
    """Whether a class is of arrays in NumPy's memory, as that of random keys is."""
    return kind is ArrayImpl or kind in array_classes.values()


def is_dtype(x):
    """Whether x is `jnp.float32`, `np.float32` or `float`."""
    if isinstance(x, type):
        return issubclass(x, (np.generic, bool, int, float, complex))
    return type(x) is dtypes.ScalarType


def replaced(x, leaves, traced):
    """An argument with the next of `leaves` for each that `describe` found in it."""
    kind, within = type(x), partial(replaced, leaves=leaves, traced=traced)
    if is_array(kind) or isinstance(x, Tracer):
        return next(leaves)
    if kind is float or kind is complex:
        return next(leaves) if traced else x
    if kind is tuple or kind is list:
        return kind(map(within, x))
    if kind is dict:
        return {name: within(part) for name, part in x.items()}
    if kind is slice:
        return slice(*within((x.start, x.stop, x.step)))
    return x


# ---- which programs have one right result

files = prim, slicing, bits, elementary, rounding, scatter, sorting, windows, prng
made = [x for file in (*files, cumulative) for x in vars(file).values()]
known = {p.name: p for p in (*made, add_any_p, stop_gradient_p) if type(p) is Primitive}

# Of numbers that are real, whatever their dtype is.  A scatter takes its updates in one
# after the other.
exact_of_reals = {known[name] for name in """
    add sub mul div sqrt neg square rem floor add_any ceil round is_finite nextafter
    clamp reduce_precision max min sign abs copy convert_element_type eq ne lt le gt ge
    and or xor not shift_left shift_right_logical shift_right_arithmetic
    population_count clz bitcast_convert_type reduce_and reduce_or reduce_xor reduce_max
    reduce_min argmax argmin sort top_k cummax cummin threefry2x32 broadcast_in_dim
    transpose reshape squeeze slice concatenate iota select_n rev pad dynamic_slice
    dynamic_update_slice gather stop_gradient scatter scatter-add scatter-sub
    scatter-mul scatter-min scatter-max
""".split()}
# Of integers, which wrap, in any order.
exact_of_integers = {known[name] for name in """
    reduce_sum reduce_prod dot_general pow integer_pow cumsum cumprod reduce_window_sum
    reduce_window_max reduce_window_min
""".split()}
# Of random keys, which NumPy has as what they are made of.
exact_of_keys = {prng.random_wrap_p, prng.random_unwrap_p}
# If what they call is.
exact_calls = {jit_p, cond_p, scan_p, while_p, custom_jvp_p, custom_vjp_p}
with_rules = frozenset({custom_jvp_p, custom_vjp_p})


def is_view(eqn):
    """Whether NumPy has the result of an equation in the memory of its operand."""
    if eqn.primitive is prim.slice_p:
        operand, sizes = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
        return eqn.params["strides"] is None and operand[1:] == sizes[1:]
    if eqn.primitive is prim.reshape_p:
        return eqn.params["dimensions"] is None
    return eqn.primitive in (prim.squeeze_p, stop_gradient_p)


def types_of(eqn):
    """The types that NumPy has, of what an equation takes and makes."""
    return [x.aval for x in (*eqn.invars, *eqn.outvars) if has_numpy_dtype(x.aval)]


def has_large(jaxpr):
    """Whether a large operation of a jaxpr is not exact."""
    large = (e for e in jaxpr.eqns if is_large(e.primitive, types_of(e)))
    return not all(map(eqn_is_exact, large))


def is_exact(closed):
    """Whether all that a closed jaxpr computes has one right result."""
    return all(map(eqn_is_exact, closed.jaxpr.eqns))


def eqn_is_exact(eqn):
    avals = [x.aval for x in (*eqn.invars, *eqn.outvars)]
    if eqn.primitive in exact_calls:
        return all(map(is_exact, bodies(eqn.params.values())))
    if eqn.primitive in exact_of_keys:
        return True
    if eqn.primitive in exact_of_reals:
        return all(map(is_real, avals))
    return eqn.primitive in exact_of_integers and all(map(is_integer, avals))


def bodies(params):
    """The closed jaxprs in params."""
    for x in params:
        if isinstance(x, ClosedJaxpr):
            yield x
        elif isinstance(x, tuple):
            yield from bodies(x)


def is_real(aval):
    of_numpy = type(aval) is ShapedArray and isinstance(aval.dtype, np.dtype)
    return of_numpy and (aval.dtype.kind in "biuf" or aval.dtype == dtypes.bfloat16)


def is_integer(aval):
    return is_real(aval) and aval.dtype.kind in "biu"
