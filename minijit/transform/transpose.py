"""Transpose: a linear program run backwards.  Reverse mode is linearize, then this.

A linear function has a transpose: if it maps t to A t, its transpose maps c to Aᵀ c.
A row of `transpose_rules` says for one primitive how cotangents of the result become
cotangents of the linear arguments.  `vjp`, `grad` and `value_and_grad` are the users'
functions.

    y, f_vjp = vjp(f, x)                    # f once; then f_vjp(ct) -> (ct of x,)
    grad(loss)(params)

Rules *accumulate*.  If x is used in several places, its cotangent is a sum.  A rule is
given the sum so far and returns the new one:

    rule(ct, accs, *args, **params) -> new accs

because an index into a large array, say, can then add one number in its place,
instead of making an array of zeros with one number in it and adding that.
A linear argument is a `Linear`, which only knows its type; a cotangent of None is zero.
"""

import itertools
import operator
from dataclasses import dataclass
from functools import partial, wraps

from ..trace import dtypes, indexing, primitives as lax
from ..trace.array import ShapedArray, aval_of
from ..trace.core import current_trace, find_rule
from ..trace.errors import at_line, on_behalf_of, user_source
from ..trace.jaxpr import (
    ClosedJaxpr,
    Literal,
    TraceInfo,
    Var,
    function_name,
    literal_value,
    memoised,
    trace_to_jaxpr,
)
from ..trace.jit import jit_p
from ..trace.pytree import tree_flatten, tree_leaves, tree_unflatten
from ..trace.tree_tools import Partial
from ..trace.windows import conv_general_dilated_p
from .closed_jaxprs import fill, present, trace_closed
from .flat_functions import FlatFunction, as_array, check_callable
from .linearize import add_any_p, add_tangents, finish_linear, linearize_flat
from .tangents import has_tangent, tangent_aval, tangent_out, zeros

# primitive -> rule(ct, accs, *args, **params) -> new accs, one for each argument.
# `ct` is a list for a primitive with several results.
transpose_rules = {}


@dataclass(frozen=True)
class Linear:
    """Stands for a linear argument: its type is known, its value never is."""

    aval: object


def is_linear(x):
    """Whether an argument of a transpose rule is a linear one."""
    return isinstance(x, Linear)


def backward(jaxpr, consts, args, cts, accs=None):
    """Run a jaxpr backwards in its linear inputs.

    Equations that do not depend on a linear input are run forwards, first: that is
    where a checkpoint recomputes.

    Args:
      jaxpr: a `Jaxpr`, linear in the inputs that are `Linear`.
      consts: the values of its constvars.
      args: a value or a `Linear` for each input.
      cts: a cotangent, or None for zero, for each result.
      accs: for each input what to add its cotangent to, or None.

    Returns:
      A cotangent, or None for zero, for each input.
    """
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env |= zip(jaxpr.invars, args, strict=True)
    linear_eqns = run_forward(jaxpr, env)
    sums = {}
    for var, acc in zip(jaxpr.invars, accs or [None] * len(args), strict=True):
        if acc is not None:
            sums[var] = acc
    for var, ct in zip(jaxpr.outvars, cts, strict=True):
        if ct is not None and isinstance(var, Var) and is_linear(env[var]):
            sums[var] = add_tangents(sums.get(var), ct)
    for eqn in reversed(linear_eqns):
        transpose_equation(eqn, env, sums)
    return [sums.get(v) if is_linear(env[v]) else None for v in jaxpr.invars]


def read(env, atom):
    """The value of an atom, or its `Linear`."""
    return literal_value(atom) if isinstance(atom, Literal) else env[atom]


def run_forward(jaxpr, env):
    """Run what is not linear; results that are get a `Linear`: -> those equations."""
    linear_eqns = []
    for eqn in jaxpr.eqns:
        args = [read(env, v) for v in eqn.invars]
        if any(map(is_linear, args)):
            linear_eqns.append(eqn)
            env |= {v: Linear(v.aval) for v in eqn.outvars}
        else:
            with on_behalf_of(eqn.source):
                outs = eqn.primitive.bind(*args, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
            env |= zip(eqn.outvars, outs, strict=True)
    return linear_eqns


def transpose_equation(eqn, env, sums):
    """Move the cotangents of an equation's results to its linear arguments."""
    cts = [sums.pop(v, None) for v in eqn.outvars]
    if all(ct is None for ct in cts):
        return
    args = [read(env, v) for v in eqn.invars]
    # If an argument stands twice, only the first gets the sum so far.
    accs = [sums.pop(v, None) if is_linear(x) else None
            for v, x in zip(eqn.invars, args, strict=True)]  # fmt: skip
    rule = find_rule(transpose_rules, eqn.primitive, "transpose")
    ct = cts if eqn.primitive.multiple_results else cts[0]
    with on_behalf_of(eqn.source):
        new = rule(ct, accs, *args, **eqn.params)
    for var, x, acc in zip(eqn.invars, args, new, strict=True):
        if is_linear(x) and acc is not None:
            sums[var] = add_tangents(sums.get(var), acc)


@memoised
def transpose_jaxpr(closed, linear, nonzero_cts, nonzero_accs, instantiate):
    """The jaxpr that runs a closed jaxpr backwards.

    Args:
      linear: one bool an input: whether it is linear.
      nonzero_cts: one bool a result.
      nonzero_accs: one bool an input: whether an accumulator for it is passed in.
      instantiate: one bool an input: whether its cotangent must be given even if zero.

    Returns:
      (closed jaxpr, nonzero_out): from the inputs that are not linear, the nonzero
      cotangents and the accumulators, to the cotangents of the linear inputs that
      `nonzero_out`, one bool an input, marks.
    """
    jaxpr, nonzero_out = closed.jaxpr, None

    def run(*values):
        nonlocal nonzero_out
        values = iter(values)
        args = [
            Linear(a) if is_lin else next(values)
            for a, is_lin in zip(closed.in_avals, linear, strict=True)
        ]
        cts = [next(values) if n else None for n in nonzero_cts]
        accs = [next(values) if n else None for n in nonzero_accs]
        outs = backward(jaxpr, closed.consts, args, cts, accs)
        needed = map(operator.and_, linear, instantiate)
        rows = zip(outs, closed.in_avals, needed, strict=True)
        outs = [zeros(a) if ct is None and need else ct for ct, a, need in rows]
        nonzero_out = tuple(ct is not None for ct in outs)
        return present(outs)

    avals = chosen(closed.in_avals, [not is_lin for is_lin in linear])
    avals += chosen(closed.out_avals, nonzero_cts)
    avals += chosen(closed.in_avals, nonzero_accs)
    info = TraceInfo(getattr(jaxpr.debug, "name", "jaxpr"), "transpose")
    return trace_closed(run, avals, info), nonzero_out


def chosen(values, mask):
    """The values where the mask is True."""
    return [x for x, m in zip(values, mask, strict=True) if m]


# ---- the users' functions


@dataclass(frozen=True, eq=False)
class PullBack:
    """What a `vjp` function does; its residuals are the arrays of a `Partial`."""

    jaxpr: object
    in_tree: object
    out_tree: object
    in_avals: tuple
    out_avals: tuple
    nonzero_out: tuple

    def __call__(self, residuals, cts):
        leaves, tree = tree_flatten(cts)
        if tree != self.out_tree:
            raise ValueError(
                "the cotangent given to a vjp function must have the structure of the "
                f"function's result, {self.out_tree}, got {tree}"
            )
        for ct, aval in zip(leaves, self.out_avals, strict=True):
            check_cotangent(ct, aval)
        pairs = zip(leaves, self.nonzero_out, strict=True)
        cts = [as_array(ct) for ct, n in pairs if n]
        args = [Linear(v.aval) for v in self.jaxpr.invars]
        outs = backward(self.jaxpr, residuals, args, cts)
        outs = fill([tangent_aval(a) is not None for a in self.in_avals], outs)
        outs = map(tangent_out, outs, self.in_avals)
        return tree_unflatten(self.in_tree, list(outs))


def check_cotangent(ct, aval):
    """Complain unless a user's cotangent has the type of the result."""
    wanted = tangent_aval(aval)
    if wanted is None or getattr(ct, "dtype", None) == dtypes.float0:
        return
    try:
        got = aval_of(ct)
    except (TypeError, ValueError) as error:
        where = "a vjp function was called with a cotangent that is no array: "
        raise type(error)(f"{where}{error}{at_line(user_source())}") from None
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise ValueError(
            f"a vjp function was called with a cotangent of type {got}, but the "
            f"result it belongs to has type {aval}{at_line(user_source())}"
        )


def vjp(fun, *primals, has_aux=False):
    """Reverse mode: the result and the pull-back of cotangents (`jax.vjp`).

    Args:
      fun: function of arrays or trees of them.
      primals: its arguments.
      has_aux: whether `fun` returns a pair (result, whatever else).

    Returns:
      (result, f_vjp), or (result, f_vjp, aux).  f_vjp takes a cotangent of the
      result's structure and returns a tuple, a cotangent for each argument.  It is a
      pytree, whose leaves are the residuals, and may be returned from a jitted
      function.
    """
    leaves, tree = tree_flatten(primals)
    leaves = list(map(as_array, leaves))
    flat = FlatFunction(fun, tree, has_aux)
    nonzero = tuple(map(has_tangent, leaves))
    info = TraceInfo(function_name(fun), "vjp")
    outs, tangents, recorder = linearize_flat(
        flat, leaves, nonzero, current_trace(), info
    )
    jaxpr, residuals = finish_linear(recorder, tangents)
    pull_back = PullBack(
        jaxpr,
        tree,
        flat.out_tree,
        tuple(map(aval_of, leaves)),
        tuple(map(aval_of, outs)),
        tuple(t is not None for t in tangents),
    )
    result = tree_unflatten(flat.out_tree, outs), Partial(pull_back, residuals)
    return (*result, flat.aux) if has_aux else result


def value_and_grad(
    fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=()
):
    """A function that returns `fun`'s value and gradient (`jax.value_and_grad`).

    Args:
      fun: function to a real scalar (or a pair of it and anything, with `has_aux`).
      argnums: int or tuple of ints: the positional arguments to differentiate by.
      holomorphic: whether `fun` is complex and holomorphic.
      allow_int: whether to allow integer arguments; their gradients are float0.

    Returns:
      A function: -> (value, gradient), or ((value, aux), gradient).  The gradient is
      structured as the argument, or is a tuple of those if `argnums` is one.

    Raises TypeError if an argument is an integer, or the result no real scalar.
    """
    del reduce_axes
    many = not hasattr(argnums, "__index__")
    positions = tuple(argnums) if many else (argnums,)

    @wraps(check_callable(fun))
    def value_and_gradient(*args, **kwargs):
        by = [args[checked_argnum(fun, i, args)] for i in positions]
        for x in tree_leaves(by):
            check_input(fun, x, holomorphic, allow_int)

        def of_chosen(*values):
            full = list(args)
            for i, value in zip(positions, values, strict=True):
                full[i] = value
            return fun(*full, **kwargs)

        of_chosen.__name__ = function_name(fun)
        value, pull_back, *aux = vjp(of_chosen, *by, has_aux=has_aux)
        check_output(fun, value, holomorphic)
        gradient = pull_back(one_like(value))
        gradient = gradient if many else gradient[0]
        return ((value, *aux) if has_aux else value), gradient

    return value_and_gradient


def one_like(value):
    """The cotangent to start from: 1, weakly typed if the value is."""
    aval = aval_of(value)
    if aval.weak_type:
        return complex(1) if aval.dtype.kind == "c" else 1.0
    return lax.full((), 1, aval.dtype)


def grad(
    fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=()
):
    """A function that returns `fun`'s gradient (`jax.grad`).

    Arguments and errors are those of `value_and_grad`; with `has_aux` the function
    returns (gradient, aux).
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @wraps(fun)
    def gradient(*args, **kwargs):
        value, result = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return gradient


def checked_argnum(fun, i, args):
    """`i`, if `fun` was called with that many positional arguments."""
    if not -len(args) <= i < len(args):
        raise TypeError(
            f"differentiating with respect to argnums={i} requires at least "
            f"{i + 1 if i >= 0 else -i} positional arguments to be passed to "
            f"{function_name(fun)} by the caller, but got only {len(args)}"
        )
    return i


def check_input(fun, x, holomorphic, allow_int):
    """Complain about an argument by which one cannot differentiate."""
    dtype = aval_of(x).dtype
    if holomorphic and not dtypes.issubdtype(dtype, dtypes.complexfloating):
        raise TypeError(
            "grad with holomorphic=True requires inputs with complex dtype, but got "
            f"{dtype.name}"
        )
    if dtypes.issubdtype(dtype, dtypes.inexact) or allow_int:
        return
    raise TypeError(
        "grad requires real- or complex-valued inputs (input dtype that is a "
        f"sub-dtype of np.inexact), but got {dtype.name} for {function_name(fun)}"
        f"{at_line(user_source())}\n"
        "  Instead: convert the argument to a float, or, if integers are meant, use "
        "vjp or allow_int=True."
    )


def check_output(fun, value, holomorphic):
    """Complain about a result that has no gradient."""
    name = function_name(fun)
    if not hasattr(value, "aval") and len(tree_leaves(value)) != 1:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. {name} returned "
            f"{value!r}.{at_line(user_source())}"
        )
    aval = aval_of(value)
    if aval.shape != ():
        raise TypeError(
            f"Gradient only defined for scalar-output functions. The output of {name} "
            f"had shape: {aval.shape}.{at_line(user_source())}\n  Instead: reduce it, "
            "with jnp.sum for instance, or use jacrev, jacfwd or vjp."
        )
    complex_out = dtypes.issubdtype(aval.dtype, dtypes.complexfloating)
    if complex_out != holomorphic or not dtypes.issubdtype(aval.dtype, dtypes.inexact):
        wanted = "complex" if holomorphic else "real (floating)"
        raise TypeError(
            f"grad of {name} requires a result of {wanted} dtype, but got "
            f"{aval.dtype.name}{at_line(user_source())}"
        )


def linear_transpose(fun, *primals, reduce_axes=()):
    """The transpose of a linear function (`jax.linear_transpose`).

    Args:
      fun: a linear function; constants that it adds are ignored.
      primals: its arguments, of which only types matter: arrays, or anything with a
        shape and a dtype.

    Returns:
      A function from a cotangent of `fun`'s result to a tuple of one for each argument.

    Raises NotImplementedError where `fun` is not linear.
    """
    del reduce_axes
    leaves, in_tree = tree_flatten(primals)
    avals = list(map(type_of, leaves))
    flat = FlatFunction(fun, in_tree)
    info = TraceInfo(function_name(fun), "linear_transpose")
    jaxpr, captured = trace_to_jaxpr(flat, avals, info)
    types = [a.dtype for a in (*avals, *jaxpr.out_avals)]
    kinds = dtypes.inexact, dtypes.integer
    if not any(all(dtypes.issubdtype(t, kind) for t in types) for kind in kinds):
        raise TypeError(
            "linear_transpose only supports functions from floats to floats (or "
            "complex numbers), or from integers to integers, but "
            f"{function_name(fun)} is {', '.join(map(str, avals))} -> "
            f"{', '.join(map(str, jaxpr.out_avals))}{at_line(user_source())}"
        )
    bad, _ = follow(jaxpr, (True,) * len(avals))
    if bad is not None:
        raise NotImplementedError(
            f"linear_transpose needs a linear function, but {function_name(fun)} "
            f"applies {bad.primitive} to what depends on its arguments"
            f"{at_line(bad.source)}"
        )

    def transposed(ct):
        leaves = check_cotangents(ct, flat.out_tree, [v.aval for v in jaxpr.outvars])
        args = [Linear(aval) for aval in avals]
        outs = backward(jaxpr, captured, args, list(map(as_array, leaves)))
        pairs = zip(outs, avals, strict=True)
        outs = [zeros(aval) if ct is None else ct for ct, aval in pairs]
        return tree_unflatten(in_tree, outs)

    return transposed


def type_of(x):
    """The type of an array, or of anything with a shape and a dtype."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))
    return aval_of(x)


def check_cotangents(ct, tree, avals):
    """The leaves of a cotangent, which must have the types of a result."""
    leaves, given = tree_flatten(ct)
    if given != tree:
        raise TypeError(
            "cotangent tree does not match function output, expected "
            f"{tree} but got {given}"
        )
    for x, aval in zip(leaves, avals, strict=True):
        got = aval_of(x)
        if (got.shape, got.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"cotangent type does not match function output, expected {aval} but "
                f"got {got}{at_line(user_source())}"
            )
    return leaves


# Primitives that call a function: the param that has it as a jaxpr.
calling = {jit_p: "jaxpr"}

# Linear in each of two arguments, but not in both at once.
bilinear = {lax.mul_p, lax.dot_general_p, conv_general_dilated_p}


def follow_equation(primitive, varying, params):
    """What an equation does to the arguments that vary.

    Returns:
      (the primitive, or one in what it calls, that is not linear in them, or None;
      one bool a result: whether it varies, or None if all do).  Of loops and branches
      nothing is said: their own rules find out.
    """
    if primitive in calling:
        bad, outs = follow(params[calling[primitive]].jaxpr, varying)
        return bad and bad.primitive, outs
    if any(map(holds_jaxpr, params.values())):
        return None, ()
    several = primitive in bilinear and sum(varying) > 1
    divisor = primitive is lax.div_p and varying[1]
    bad = primitive not in transpose_rules or several or divisor
    return primitive if bad else None, None


def holds_jaxpr(value):
    """Whether a param is a jaxpr, or several."""
    many = value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(x, ClosedJaxpr) for x in many)


def follow(jaxpr, varying):
    """The first equation of a jaxpr that is not linear in the inputs that vary, or
    None; and one bool a result: whether it varies."""
    found = {v for v, n in zip(jaxpr.invars, varying, strict=True) if n}
    for eqn in jaxpr.eqns:
        mask = [isinstance(x, Var) and x in found for x in eqn.invars]
        if any(mask):
            bad, outs = follow_equation(eqn.primitive, mask, eqn.params)
            if bad is not None:
                return eqn, None
            outs = itertools.repeat(True) if outs is None else outs
            found |= set(itertools.compress(eqn.outvars, outs))
    return None, [isinstance(x, Var) and x in found for x in jaxpr.outvars]


# ---- rows


def adding(rows):
    """Transpose rules that accumulate, out of ones that return cotangents.

    `rule(ct, *args, **params)` -> a cotangent, or None, for each argument.
    """
    return {p: partial(add_to_sums, rule) for p, rule in rows.items()}


def add_to_sums(rule, ct, accs, *args, **params):
    """Call a rule that returns cotangents, and add them to what there was."""
    new = rule(ct, *args, **params)
    return [
        add_tangents(acc, c) if is_linear(x) else None
        for acc, c, x in zip(accs, new, args, strict=True)
    ]


def unbroadcast(ct, x):
    """Sum a cotangent to the shape of an argument that was stretched: a scalar, or
    axes of size 1."""
    shape = x.aval.shape
    if ct is None or shape == ct.shape:
        return ct
    axes = [d for d in range(ct.ndim) if not shape or shape[d] != ct.shape[d]]
    return lax.reshape(lax.reduce_sum(ct, axes), shape)


def mul_transpose(ct, x, y):
    if is_linear(x):
        return unbroadcast(lax.mul(ct, y), x), None
    return None, unbroadcast(lax.mul(ct, x), y)


def add_transpose(ct, x, y):
    return [unbroadcast(ct, a) if is_linear(a) else None for a in (x, y)]


def div_transpose(ct, x, y):
    return unbroadcast(lax.div(ct, y), x), None


def convert_transpose(ct, x, *, new_dtype, weak_type):
    # Not `convert`: to take the real part of a cotangent is no mistake to warn of.
    back = dict(new_dtype=x.aval.dtype, weak_type=x.aval.weak_type)
    return (lax.convert_element_type_p.bind(ct, **back),)


def select_transpose(ct, which, *cases):
    zero = zeros(aval_of(ct))
    return None, *[
        lax.select_n(which, *[ct if j == i else zero for j in range(len(cases))])
        if is_linear(x)
        else None
        for i, x in enumerate(cases)
    ]


transpose_rules |= adding({
    lax.neg_p: lambda ct, x: (lax.neg(ct),),
    lax.copy_p: lambda ct, x: (ct,),
    lax.mul_p: mul_transpose,
    lax.div_p: div_transpose,
    lax.convert_element_type_p: convert_transpose,
    lax.select_n_p: select_transpose,
    add_any_p: add_transpose,
    lax.add_p: add_transpose,
})


def broadcast_transpose(ct, x, *, shape, broadcast_dimensions):
    """What was repeated is summed."""
    kept = [
        d
        for d, n in zip(broadcast_dimensions, x.aval.shape, strict=True)
        if n == shape[d]
    ]
    summed = tuple(d for d in range(len(shape)) if d not in kept)
    ct = lax.reduce_sum(ct, summed) if summed else ct
    order = sorted(range(len(kept)), key=lambda i: kept[i])
    ct = lax.transpose(ct, [order.index(i) for i in range(len(kept))])
    return (lax.reshape(ct, x.aval.shape),)


def reshape_transpose(ct, x, *, new_sizes, dimensions):
    if dimensions is None:
        return (lax.reshape(ct, x.aval.shape),)
    ct = lax.reshape(ct, [x.aval.shape[d] for d in dimensions])
    return (lax.transpose(ct, inverse(dimensions)),)


def inverse(permutation):
    """The permutation that undoes a permutation."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def reduce_sum_transpose(ct, x, *, axes):
    kept = [d for d in range(x.aval.ndim) if d not in axes]
    return (lax.broadcast_in_dim(ct, x.aval.shape, kept),)


def concatenate_transpose(ct, *args, dimension):
    out, start = [], 0
    for x in args:
        stop = start + aval_of_argument(x).shape[dimension]
        out.append(slice_in_dim(ct, start, stop, dimension) if is_linear(x) else None)
        start = stop
    return out


def aval_of_argument(x):
    """The type of an argument of a transpose rule, linear or not."""
    return x.aval if is_linear(x) else aval_of(x)


def slice_in_dim(x, start, stop, axis):
    """x[start:stop] along one axis."""
    starts, stops = [0] * x.ndim, list(x.shape)
    starts[axis], stops[axis] = start, stop
    return lax.slice(x, starts, stops)


transpose_rules |= adding({
    lax.broadcast_in_dim_p: broadcast_transpose,
    lax.reshape_p: reshape_transpose,
    lax.transpose_p: lambda ct, x, *, permutation: (
        lax.transpose(ct, inverse(permutation)),
    ),
    lax.squeeze_p: lambda ct, x, *, dimensions: (lax.reshape(ct, x.aval.shape),),
    lax.reduce_sum_p: reduce_sum_transpose,
    lax.concatenate_p: concatenate_transpose,
})


def slice_transpose(ct, accs, x, *, start_indices, limit_indices, strides):
    """The cotangent goes to its place: into the sum so far, if there is one."""
    shape = x.aval.shape
    starts = start_indices
    steps = strides or (1,) * len(shape)
    if accs[0] is not None and all(step == 1 for step in steps):
        here = lax.slice(accs[0], starts, limit_indices)
        return [indexing.dynamic_update_slice(accs[0], lax.add(here, ct), starts)]
    config = [
        (start, n - start - (m - 1) * step - 1 if m else n - start, step - 1)
        for start, n, m, step in zip(starts, shape, ct.shape, steps, strict=True)
    ]
    zero = lax.full((), 0, aval_of(ct).dtype)
    return [add_tangents(accs[0], indexing.pad(ct, zero, config))]


def dot_general_transpose(ct, x, y, *, dimension_numbers, precision, **params):
    """ct has the axes batch, x's free ones, y's free ones: contract the other's."""
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    n = len(x_batch)
    middle = len(aval_of_argument(x).shape) - len(x_contract)
    if is_linear(x):
        axes = tuple(range(middle, ct.ndim))
        dims = (x_contract, y_contract), (x_batch, y_batch)
        return dot_transpose(ct, axes, x.aval, y, dims, precision), None
    axes = tuple(range(n, middle))
    dims = (y_contract, x_contract), (y_batch, x_batch)
    return None, dot_transpose(ct, axes, y.aval, x, dims, precision)


def dot_transpose(ct, ct_axes, aval, y, dims, precision):
    """The cotangent of x, of type `aval`, in a product of x and y.

    `ct_axes` are the axes of ct that came from y's free axes; they are contracted
    with those.  What is left has the batch axes, x's free ones and y's contracted ones.
    """
    (x_contract, y_contract), (x_batch, y_batch) = dims
    y_free = [d for d in range(y.ndim) if d not in {*y_contract, *y_batch}]
    batch = tuple(range(len(x_batch)))
    dimension_numbers = (ct_axes, y_free), (batch, y_batch)
    out = lax.dot_general(ct, y, dimension_numbers, precision, aval.dtype)
    x_free = [d for d in range(aval.ndim) if d not in {*x_contract, *x_batch}]
    contract = [x_contract[y_contract.index(d)] for d in sorted(y_contract)]
    return lax.transpose(out, inverse([*x_batch, *x_free, *contract]))


transpose_rules |= {lax.slice_p: slice_transpose}
transpose_rules |= adding({lax.dot_general_p: dot_general_transpose})


def call_transpose(cts, accs, *args, name, jaxpr, **params):
    """A call backwards is a call; what has been summed so far goes in with it."""
    linear = tuple(map(is_linear, args))
    masks = [tuple(x is not None for x in xs) for xs in (cts, accs)]
    closed, nonzero_out = transpose_jaxpr(jaxpr, linear, *masks, (False,) * len(args))
    known = [x for x in args if not is_linear(x)]
    given = known + present(cts) + present(accs)
    return fill(nonzero_out, jit_p.bind(*given, name=name, jaxpr=closed))


transpose_rules |= {jit_p: call_transpose}
