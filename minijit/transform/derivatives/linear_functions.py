"""Functions that are linear already: `linear_transpose`, and what is not linear.

    back, = linear_transpose(lambda x: x.reshape(2, 3).sum(1), x)(ct)

They are recorded and run backwards without being linearized.  What is not linear must
be found before, because at some point (at zero, for instance) every function has a
linear part, and its transpose would look right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ...trace import dtypes, primitives as lax
from ...trace.arguments import TraceInfo, function_name
from ...trace.array import ShapedArray, aval_of
from ...trace.base.errors import HERE, at_line
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Var, needed_equations, trace_to_jaxpr
from ...trace.jit.jit import jit_p
from ...trace.trees.pytree import tree_flatten, tree_unflatten
from ...trace.trees.tools import Partial
from ...trace.types import PyTree
from ..flat_functions import FlatFunction
from ..tangents import dense
from .grad_checks import check_cotangents
from .transpose import Linear, backward, transpose_rules


def linear_transpose(
    fun: Callable[..., Any], *primals: PyTree, reduce_axes: Any = ()
) -> Callable[..., Any]:
    """The transpose of a linear function (`jax.linear_transpose`).

    Args:
      fun: a linear function; constants that it adds are ignored.
      primals: its arguments, of which only types matter: arrays, or anything with a
        shape and a dtype.

    Returns:
      A function from a cotangent of `fun`'s result to a tuple of one for each argument;
      it is a pytree, whose leaves are the values that `fun` captured.

      It raises NotImplementedError if `fun` is not linear.
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
            f"{', '.join(map(str, jaxpr.out_avals))}{HERE}"
        )
    bad, _ = follow(jaxpr, (True,) * len(avals))
    out_avals = [v.aval for v in jaxpr.outvars]

    def transposed(captured, ct):
        if bad is not None:
            raise NotImplementedError(
                "Transpose rule (for reverse-mode differentiation) for "
                f"{bad.primitive!s} not implemented: linear_transpose needs a linear "
                f"function, but {function_name(fun)} applies {bad.primitive} to what "
                f"depends on its arguments{at_line(bad.source)}"
            )
        leaves = check_cotangents(ct, flat.out_tree, out_avals)
        args = [Linear(aval) for aval in avals]
        outs = backward(jaxpr, captured, args, list(map(lax.as_array, leaves)))
        return tree_unflatten(in_tree, dense(outs, avals))

    return Partial(transposed, captured)


def type_of(x):
    """The type of an array, or of anything with a shape and a dtype."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))
    return aval_of(x)


# Primitives that call a function: the param that has it as a jaxpr.
calling = {jit_p: "jaxpr"}

# Linear in each of two arguments, but not in both at once.
bilinear = {lax.mul_p, lax.dot_general_p}


def follow_equation(primitive, varying, params, used=None):
    """What an equation, of which the results `used` matter, does to what varies.

    Returns:
      (the primitive, or one in what it calls, that is not linear in them, or None;
      one bool a result: whether it varies, or None if all do).  Of loops and branches
      nothing is said: their own rules find out.
    """
    if primitive in calling:
        bad, outs = follow(params[calling[primitive]].jaxpr, varying, used)
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


def follow(jaxpr, varying, used=None):
    """The first equation of a jaxpr that is not linear in the inputs that vary, of
    those that the results `used` need, or None; and one bool a result: whether it
    varies."""
    found = {v for v, n in zip(jaxpr.invars, varying, strict=True) if n}
    used = [True] * len(jaxpr.outvars) if used is None else used
    wanted = tuple(itertools.compress(jaxpr.outvars, used))
    eqns, needed = needed_equations(jaxpr.eqns, wanted)
    for eqn in eqns:
        mask = [isinstance(x, Var) and x in found for x in eqn.invars]
        if any(mask):
            asked = [v in needed for v in eqn.outvars]
            bad, outs = follow_equation(eqn.primitive, mask, eqn.params, asked)
            if bad is not None:
                return eqn, None
            outs = itertools.repeat(True) if outs is None else outs
            found |= set(itertools.compress(eqn.outvars, outs))
    return None, [isinstance(x, Var) and x in found for x in jaxpr.outvars]
