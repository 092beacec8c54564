"""Transpose: a linear program run backwards.  Reverse mode is linearize, then this.

    y, f_vjp = vjp(f, x)                    # f once; then f_vjp(ct) -> (ct of x,)
    grad(loss)(params)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

from ...trace import primitives as lax, slicing
from ...trace.arguments import wraps
from ...trace.array import aval_of
from ...trace.base.errors import HERE, made_as, on_behalf_of
from ...trace.core import find_rule
from ...trace.jaxprs.jaxpr import Literal, Var, literal_value
from ...trace.jaxprs.memory import memoised
from ...trace.jit.jit import jit_p
from ...trace.slicing import dynamic_update_slice, pad, slice_in_dim
from ...trace.trees.pytree import tree_leaves, tree_unflatten
from ...trace.types import Argnums, Args, PyTree, Result
from ..closed_jaxprs import fill, info_of, present, rebind, trace_closed
from ..flat_functions import check_callable
from ..tangents import tangent_aval, tangent_out, zeros
from .grad_checks import (
    check_input, check_output, chosen_arguments, cotangent_leaves, transposed_of_zero,
)
from .linearize import PushForward, add_any_p, add_tangents, at_point


def adding(rows):
    """Transpose rules that accumulate, out of ones that return cotangents.

    `rule(ct, *args, **params)` -> a cotangent, or None, for each argument.
    """
    return {p: partial(add_to_sums, rule) for p, rule in rows.items()}


def add_to_sums(rule, ct, accs, *args, **params):
    """Call a rule that returns cotangents, and add them to what there was.

    Cotangents without elements add nothing, whatever the rule would make of them.
    """
    if all(map(is_nothing, ct if isinstance(ct, list) else [ct])):
        return accs
    new = rule(ct, *args, **params)
    return [
        add_tangents(acc, c) if is_linear(x) else None
        for acc, c, x in zip(accs, new, args, strict=True)
    ]


def is_nothing(ct):
    """Whether a cotangent is zero as there is none, or as it has no elements."""
    return ct is None or 0 in getattr(aval_of(ct), "shape", ())


# chapter 8

# primitive -> rule(ct, accs, *args, **params) -> new accs
#
# `ct` is the cotangent of the result, a list for a primitive with several results.
# `accs` has for each argument what has been summed up for it so far, or None, and the
# rule returns the new sums.  An argument in which the primitive is linear is a
# `Linear`; every other one has its value.
transpose_rules = {}


@dataclass(frozen=True)
class Linear:
    """Stands for a linear argument: its type is known, its value never is."""

    aval: object


def is_linear(x):
    """Whether an argument of a transpose rule is a linear one."""
    return isinstance(x, Linear)


def read(env, atom):
    """The value of an atom, or its `Linear`."""
    return literal_value(atom) if isinstance(atom, Literal) else env[atom]


def transpose_equation(eqn, env, sums):
    """Move the cotangents of an equation's results to its linear arguments."""
    cts = [sums.pop(v, None) for v in eqn.outvars]
    if all(ct is None for ct in cts) and eqn.primitive not in transposed_of_zero:
        return
    args = [read(env, v) for v in eqn.invars]
    # If an argument stands twice, only the first gets the sum so far.
    accs = [sums.pop(v, None) if is_linear(x) else None
            for v, x in zip(eqn.invars, args, strict=True)]  # fmt: skip
    rule = find_rule(transpose_rules, eqn.primitive, "transpose")
    ct = cts if eqn.primitive.multiple_results else cts[0]
    with on_behalf_of(eqn.source), made_as("transposed"):
        new = rule(ct, accs, *args, **eqn.params)
        for var, x, acc in zip(eqn.invars, args, new, strict=True):
            if is_linear(x) and acc is not None:
                sums[var] = add_tangents(sums.get(var), acc)


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


transpose_rules |= adding({
    lax.mul_p: mul_transpose,
    lax.neg_p: lambda ct, x: (lax.neg(ct),),
    lax.add_p: add_transpose,
    add_any_p: add_transpose,
})


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
    pairs = zip(jaxpr.invars, accs or [None] * len(args), strict=True)
    sums = {var: acc for var, acc in pairs if acc is not None}
    for var, ct in zip(jaxpr.outvars, cts, strict=True):
        if ct is not None and isinstance(var, Var) and is_linear(env[var]):
            sums[var] = add_tangents(sums.get(var), ct)
    for eqn in reversed(linear_eqns):
        transpose_equation(eqn, env, sums)
    return [sums.get(v) if is_linear(env[v]) else None for v in jaxpr.invars]


def slice_transpose(ct, accs, x, *, start_indices, limit_indices, strides):
    """The cotangent goes to its place: into the sum so far, if there is one."""
    shape, starts = x.aval.shape, start_indices
    steps = strides or (1,) * len(shape)
    if accs[0] is not None and all(step == 1 for step in steps):
        here = lax.slice(accs[0], starts, limit_indices)
        return [dynamic_update_slice(accs[0], lax.add(here, ct), starts)]
    config = [
        (start, n - start - (m - 1) * step - 1 if m else n - start, step - 1)
        for start, n, m, step in zip(starts, shape, ct.shape, steps, strict=True)
    ]
    zero = lax.full((), 0, aval_of(ct).dtype)
    return [add_tangents(accs[0], pad(ct, zero, config))]


transpose_rules |= {lax.slice_p: slice_transpose}


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


def reduce_sum_transpose(ct, x, *, axes):
    kept = [d for d in range(x.aval.ndim) if d not in axes]
    return (lax.broadcast_in_dim(ct, x.aval.shape, kept),)


transpose_rules |= adding({
    lax.broadcast_in_dim_p: broadcast_transpose,
    lax.reduce_sum_p: reduce_sum_transpose,
})


# chapter 8, brought along

# ---- the users' functions


class PullBack(PushForward):
    """What a `vjp` function does; its residuals are the arrays of a `Partial`."""

    transform = "vjp"

    def __call__(self, residuals, cts, *more):
        """From the result's cotangents, a tree, to a tuple: one for each argument."""
        if more:
            raise TypeError(
                f"the function returned by vjp was called with {1 + len(more)} "
                "arguments, but must be called with a single argument corresponding "
                "to the single value returned by the function being differentiated, "
                f"a tree like {self.out_tree}{HERE}"
            )
        leaves = cotangent_leaves(cts, self.out_tree, self.out_avals)
        cts = list(map(lax.as_array, compress(leaves, self.nonzero_out)))
        args = [Linear(v.aval) for v in self.jaxpr.invars]
        outs = backward(self.jaxpr, residuals, args, cts)
        outs = fill([tangent_aval(a) is not None for a in self.in_avals], outs)
        outs = map(tangent_out, outs, self.in_avals)
        return tree_unflatten(self.in_tree, list(outs))


def vjp(fun: Callable[..., Any], *primals: PyTree, has_aux: bool = False) -> Any:
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
    return at_point(PullBack, fun, primals, has_aux)


def value_and_grad(
    fun: Callable[Args, Result], argnums: Argnums = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False, reduce_axes: Any = (),
) -> Callable[Args, tuple[Result, Any]]:
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

    @wraps(check_callable(fun))
    def value_and_gradient(*args, **kwargs):
        of_chosen, by, alone = chosen_arguments(fun, argnums, args, kwargs)
        for x in tree_leaves(by):
            check_input(fun, x, holomorphic, allow_int)
        value, pull_back, *aux = vjp(of_chosen, *by, has_aux=has_aux)
        check_output(fun, value, holomorphic)
        gradient = pull_back(one_like(value))
        gradient = gradient[0] if alone else gradient
        return ((value, *aux) if has_aux else value), gradient

    return value_and_gradient


def one_like(value):
    """The cotangent to start from: 1, weakly typed if the value is."""
    aval = aval_of(value)
    if aval.weak_type:
        return complex(1) if aval.dtype.kind == "c" else 1.0
    return lax.full((), 1, aval.dtype)


def grad(
    fun: Callable[Args, Any], argnums: Argnums = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False, reduce_axes: Any = (),
) -> Callable[Args, Any]:
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


# ---- layouts


def sub_transpose(ct, x, y):
    back, _ = add_transpose(ct, x, y)
    return back, unbroadcast(lax.neg(ct), y) if is_linear(y) else None


def reshape_transpose(ct, x, *, new_sizes, dimensions):
    if dimensions is None:
        return (lax.reshape(ct, x.aval.shape),)
    ct = lax.reshape(ct, [x.aval.shape[d] for d in dimensions])
    return (lax.transpose(ct, inverse(dimensions)),)


def inverse(permutation):
    """The permutation that undoes a permutation."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


transpose_rules |= adding({
    lax.sub_p: sub_transpose,
    lax.reshape_p: reshape_transpose,
    lax.squeeze_p: lambda ct, x, *, dimensions: (lax.reshape(ct, x.aval.shape),),
    lax.transpose_p: lambda ct, x, *, permutation: (
        lax.transpose(ct, inverse(permutation)),
    ),
})


# ---- products


def aval_of_argument(x):
    """The type of an argument of a transpose rule, linear or not."""
    return x.aval if is_linear(x) else aval_of(x)


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


transpose_rules |= adding({lax.dot_general_p: dot_general_transpose})


# ---- calls


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
    avals, nonzero_out = closed.in_avals, None

    def run(*values):
        nonlocal nonzero_out
        values = iter(values)
        pairs = zip(avals, linear, strict=True)
        args = [Linear(a) if is_lin else next(values) for a, is_lin in pairs]
        cts, accs = fill(nonzero_cts, values), fill(nonzero_accs, values)
        outs = backward(closed.jaxpr, closed.consts, args, cts, accs)
        needed = map(operator.and_, linear, instantiate)
        rows = zip(outs, avals, needed, strict=True)
        outs = [zeros(a) if ct is None and need else ct for ct, a, need in rows]
        nonzero_out = tuple(ct is not None for ct in outs)
        return present(outs)

    known = [not is_lin for is_lin in linear]
    given = [*compress(avals, known), *compress(closed.out_avals, nonzero_cts)]
    given += compress(avals, nonzero_accs)
    return trace_closed(run, given, info_of(closed, "transpose")), nonzero_out


def call_transpose(primitive, cts, accs, *args, **params):
    """A call backwards is a call; what has been summed so far goes in with it."""
    linear = tuple(map(is_linear, args))
    masks = [tuple(x is not None for x in xs) for xs in (cts, accs)]
    closed, nonzero_out = transpose_jaxpr(
        params["jaxpr"], linear, *masks, (False,) * len(args)
    )
    known = [x for x in args if not is_linear(x)]
    given = known + present(cts) + present(accs)
    return fill(nonzero_out, rebind(primitive, params, closed, given))


transpose_rules |= {jit_p: partial(call_transpose, jit_p)}


# ---- copies, conversions, quotients, selections and concatenations


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


def concatenate_transpose(ct, *args, dimension):
    out, start = [], 0
    for x in args:
        stop = start + aval_of_argument(x).shape[dimension]
        part = slice_in_dim(ct, start, stop, axis=dimension) if is_linear(x) else None
        out.append(part)
        start = stop
    return out


transpose_rules |= adding({
    lax.copy_p: lambda ct, x: (ct,),
    lax.convert_element_type_p: convert_transpose,
    lax.div_p: lambda ct, x, y: (unbroadcast(lax.div(ct, y), x), None),
    lax.select_n_p: select_transpose,
    lax.concatenate_p: concatenate_transpose,
})


# ---- windows: what read one writes to it
#
# A window read where an index says is transposed into an update.  That row takes the
# sum so far and writes into it, so that a thousand windows of one array make a thousand
# small additions, and not a thousand arrays of zeros.


def pad_transpose(ct, x, value, *, padding_config):
    """The operand gets its elements back; the padding value the sum of all others."""
    undo = [(-low, -high, 0) for low, high, _ in padding_config]
    zero = lax.full((), 0, aval_of(ct).dtype)
    inner = slicing.pad(ct, zero, undo)
    steps = [interior + 1 for _, _, interior in padding_config]
    part = lax.slice(inner, [0] * inner.ndim, inner.shape, steps)
    rest = None
    if is_linear(value):
        axes = range(ct.ndim)
        rest = lax.sub(lax.reduce_sum(ct, axes), lax.reduce_sum(part, axes))
    return part if is_linear(x) else None, rest


def dynamic_update_slice_transpose(ct, x, update, *starts):
    """What was written over has no part in the result."""
    shape = aval_of_argument(update).shape
    over = part = None
    if is_linear(x):
        zero = lax.full(shape, 0, aval_of(ct).dtype)
        over = slicing.dynamic_update_slice_p.bind(ct, zero, *starts)
    if is_linear(update):
        part = slicing.dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
    return over, part, *[None] * len(starts)


transpose_rules |= adding({
    slicing.rev_p: lambda ct, x, *, dimensions: (slicing.rev(ct, dimensions),),
    slicing.pad_p: pad_transpose,
    slicing.dynamic_update_slice_p: dynamic_update_slice_transpose,
})


def sum_so_far(acc, x, ct):
    """The accumulator to write into: zeros if there is none yet."""
    return lax.full(x.aval.shape, 0, aval_of(ct).dtype) if acc is None else acc


def dynamic_slice_transpose(ct, accs, x, *starts, slice_sizes):
    """Add to the window of the sum so far."""
    acc = sum_so_far(accs[0], x, ct)
    if accs[0] is not None:
        here = slicing.dynamic_slice_p.bind(acc, *starts, slice_sizes=slice_sizes)
        ct = lax.add(here, ct)
    acc = slicing.dynamic_update_slice_p.bind(acc, ct, *starts)
    return [acc, *[None] * len(starts)]


transpose_rules |= {slicing.dynamic_slice_p: dynamic_slice_transpose}
