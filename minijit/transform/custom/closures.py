"""What a function captures, made explicit: `closure_convert`, `custom_gradient`, and
both passes of reverse mode as functions that capture nothing: `fwd_and_bwd`.

    converted, captured = closure_convert(f, x)     # converted(x, *captured) is f(x)

A rule of one's own differentiates by arguments only.  So a solver that is given a
function, and has a rule, wants as arguments what that function captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

from ...trace.arguments import TraceInfo, function_name, function_source
from ...trace.array import aval_of
from ...trace.core import Tracer
from ...trace.jaxprs.jaxpr import eval_jaxpr, trace_to_jaxpr
from ...trace.jit.jit import jit
from ...trace.trees.pytree import tree_flatten, tree_map, tree_structure, tree_unflatten
from ...trace.trees.tools import Partial
from ...trace.types import Argnums, PyTree
from ..closed_jaxprs import completed
from ..derivatives.grad_checks import chosen_arguments
from ..derivatives.transpose import vjp
from ..flat_functions import FlatFunction, check_callable
from ..tangents import has_tangent, leaves_like, tangent_aval
from .custom_derivatives import custom_vjp
from .rule_checks import CustomVJPPrimal


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns its result and its pull-back (`jax.custom_gradient`).

    `fun(*args)` returns (result, vjp), where vjp(cotangent) gives a cotangent for each
    argument: one for a single argument, else a tuple.
    """
    wrapped = custom_vjp(lambda *args: fun(*args)[0])
    update_wrapper(wrapped, check_callable(fun))

    def fwd(*args):
        result, pull_back = fun(*args)
        convert, captured = converted_closure(pull_back, (result,), lambda x: True)
        return result, Partial(Carried(convert, len(args)), captured)

    def bwd(carried, ct):
        return carried(ct)

    wrapped.defvjp(fwd, bwd)
    return wrapped


@dataclass(frozen=True, eq=False)
class Carried:
    """A converted pull-back on its way from fwd to bwd."""

    convert: object
    arguments: int

    def __call__(self, captured, ct):
        cts = self.convert(ct, *captured)
        alone = self.arguments == 1 and not isinstance(cts, (tuple, list))
        return (cts,) if alone else tuple(cts)


def closure_convert(
    fun: Callable[..., Any], *example_args: PyTree
) -> tuple[Callable[..., Any], list[Any]]:
    """A function that captures no tracers, and what it did (`jax.closure_convert`).

    Returns:
      (converted, captured): converted(*args, *captured) does what `fun(*args)` does.
      What cannot have a derivative, an array or an integer, stays captured.
    """
    return converted_closure(fun, example_args, may_have_tangent)


def may_have_tangent(x):
    """Whether a captured value may be one that is differentiated by."""
    return isinstance(x, Tracer) and has_tangent(x)


def converted_closure(fun, example_args, wanted):
    """The same for those of the captured values that are `wanted`."""
    leaves, in_tree = tree_flatten(example_args)
    flat = FlatFunction(fun, in_tree)
    info = TraceInfo(function_name(fun), "closure_convert", function_source(fun))
    avals = [tangent_aval(aval_of(x)) or aval_of(x) for x in leaves]
    jaxpr, consts = trace_to_jaxpr(flat, avals, info)
    moved = [wanted(x) for x in consts]
    captured = [x for x, move in zip(consts, moved, strict=True) if move]
    # Of what is moved nothing stays here.
    kept = [None if move else x for x, move in zip(consts, moved, strict=True)]
    captured_tree = tree_structure([0] * len(captured))
    out_tree, count = flat.out_tree, len(example_args)

    def converted(*args):
        what = "the arguments of a converted function", "those it was converted with"
        given = leaves_like(in_tree, args[:count], *what)
        values = completed(kept, leaves_like(captured_tree, [*args[count:]], *what))
        return tree_unflatten(out_tree, eval_jaxpr(jaxpr, values, *given))

    return converted, captured


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: Argnums, has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward pass as two functions (`jax.fwd_and_bwd`).

    Each is compiled once, and they may be called in any order and number.

    Args:
      fun: the function; `argnums` says by which positional arguments to differentiate.
      has_aux: whether `fun` returns a pair (result, whatever else).
      jitted: whether to jit both.

    Returns:
      (fwd, bwd): fwd(*args) -> (result, residuals), or (result, residuals, aux);
      bwd(residuals, cotangent) -> a cotangent for each argument that was asked for, or
      just one for one int.
    """
    alone = hasattr(argnums, "__index__")
    check_callable(fun)

    def fwd(*args):
        of_chosen, by, _ = chosen_arguments(fun, argnums, args, {})
        return vjp(of_chosen, *by, has_aux=has_aux)

    def bwd(residuals, ct):
        cts = residuals(ct)
        return cts[0] if alone else cts

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


def custom_vjp_primal_tree_values(tree):
    """The arguments of a `fwd` with symbolic zeros, as arrays
    (`jax.custom_derivatives.custom_vjp_primal_tree_values`)."""
    return tree_map(lambda x: x.value if isinstance(x, CustomVJPPrimal) else x, tree)
