"""checkpoint: forget values in the forward pass and compute them again in the backward.

    f = checkpoint(f)                                  # keep the arguments only
    f = checkpoint(f, policy=dots_saveable)            # and the results of products
    f = checkpoint(f, budget_bytes=1 << 20)            # and what is dearest, in 1 MiB

A checkpoint cuts a program between the values that are kept and those that are not.
The backward pass starts by running the part after the cut again: a slice of the jaxpr
by whole equations.  With the linear equations it is one equation `checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...trace.arguments import function_name, wraps
from ...trace.array import aval_of, shape_rules
from ...trace.base.errors import HERE
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Jaxpr, Var, needed_equations
from ...trace.jaxprs.memory import memoised
from ...trace.jit.refs import read, write_back
from ...trace.trees.pytree import tree_flatten, tree_unflatten
from ...trace.types import Argnums
from ..batching.vmap import batch_rules, call_rule as batch_call
from ..closed_jaxprs import apply_closed, drop_dead, fill, present
from ..derivatives.linearize import (
    call_joint, joint_rules, linearize_jaxpr, linearize_rules,
)
from ..derivatives.transpose import call_transpose, transpose_rules
from ..equations import inline_calls, rename_atom, rename_inputs
from ..flat_functions import check_callable
from ..pieces import close_over, interned, none_of, record, split
from .policies import Budget, checked_policy, may_save, name_p, within_budget


@dataclass(frozen=True, eq=False)
class Cut:
    """A jaxpr cut in two for its derivative.

    Attributes:
      forward: inputs -> results, then the saved values.
      linear: the inputs it needs (`inputs`), saved values, nonzero tangents ->
        nonzero result tangents.  It computes again, and is linear in the tangents.
      inputs: positions of the inputs that `linear` needs.
      nonzero_out: one bool a result.
    """

    forward: ClosedJaxpr
    linear: ClosedJaxpr
    inputs: tuple
    nonzero_out: tuple


def without_names(eqns, renamed, saved):
    """The equations that run again; they read saved names, not what was named."""
    saved = set(saved)
    return [
        rename_inputs(eqn, renamed) for eqn in eqns if not saved.issuperset(eqn.outvars)
    ]


# chapter 12
checkpoint_p = Primitive("checkpoint", multiple_results=True)
shape_rules |= {checkpoint_p: lambda *avals, jaxpr, **params: jaxpr.out_avals}
eval_rules |= {checkpoint_p: lambda *args, jaxpr, **params: apply_closed(jaxpr, *args)}


# ---- what to save


def choose_saved(forward, residuals, policy):
    """The variables to save, and {value: the name equation's result} of named ones.

    A saved name also supplies the value that it named.
    """
    if isinstance(policy, Budget):
        return within_budget(forward, residuals, policy.nbytes), {}
    saved, renamed = [], {}
    for eqn in forward.eqns:
        if policy is not None and may_save(policy, eqn):
            saved += eqn.outvars
            source = eqn.invars[0] if eqn.primitive is name_p else None
            if isinstance(source, Var):
                renamed[source] = eqn.outvars[0]
    return saved, renamed


# ---- the cut


@memoised
def cut_jaxpr(closed, nonzero, policy):
    """Decide what to save, and cut: -> `Cut`."""
    n = len(closed.out_avals)
    # Steps 1 and 2: the residuals.
    parts = linearize_jaxpr(inline_calls(closed), nonzero, none_of(n))
    forward, linear = parts.forward.jaxpr, parts.linear.jaxpr
    residuals = parts.residuals(forward.invars, forward.outvars[n:])
    # Step 3: what to save.
    saved, renamed = choose_saved(forward, residuals, policy)
    # Step 4: the slice.
    given = (*forward.constvars, *forward.invars, *saved)
    again = without_names(forward.eqns, renamed, saved)
    residuals = [renamed.get(v, v) for v in residuals]
    eqns, needed = needed_equations(again, residuals, given)
    saved = [v for v in saved if v in needed]
    inputs = tuple(i for i, v in enumerate(forward.invars) if v in needed)
    # Step 5: one jaxpr of the slice and of the linear equations.
    kept = [*(forward.invars[i] for i in inputs), *saved]
    names, tangents = split(linear.invars, len(residuals))
    substitute = dict(zip(names, residuals, strict=True))
    joined = Jaxpr(
        (*forward.constvars, *linear.constvars),
        (*kept, *tangents),
        (*eqns, *(rename_inputs(e, substitute) for e in linear.eqns)),
        tuple(rename_atom(v, substitute) for v in linear.outvars),
        linear.debug,
    )
    consts = (*parts.forward.consts, *parts.linear.consts)
    first = forward.replace(outvars=(*forward.outvars[:n], *saved))
    return Cut(
        drop_dead(ClosedJaxpr(first, parts.forward.consts)),
        drop_dead(ClosedJaxpr(joined, consts)),
        inputs,
        parts.nonzero_out,
    )


# ---- rows


def checkpoint_rule(nonzero, *args, jaxpr, policy, prevent_cse, differentiated):
    """Forward: the function and what is saved.  Backward: one equation `checkpoint`,
    which is marked: it computes again what was computed before."""
    cut = cut_jaxpr(jaxpr, nonzero, policy)
    n = len(jaxpr.out_avals)
    params = dict(policy=policy, prevent_cse=prevent_cse)
    first = params | dict(differentiated=differentiated)
    outs = checkpoint_p.bind(*args, jaxpr=cut.forward, **first)
    params |= dict(differentiated=True)
    kept = [args[i] for i in cut.inputs] + outs[n:]

    def linear(*tangents):
        out = checkpoint_p.bind(*kept, *present(tangents), jaxpr=cut.linear, **params)
        return fill(cut.nonzero_out, out)

    return outs[:n], linear


linearize_rules |= {checkpoint_p: checkpoint_rule}
joint_rules |= {checkpoint_p: partial(call_joint, checkpoint_p)}
transpose_rules |= {checkpoint_p: partial(call_transpose, checkpoint_p)}
batch_rules |= {checkpoint_p: partial(batch_call, checkpoint_p)}


# chapter 12, brought along

# ---- the users' function


def checkpoint(
    fun: Callable[..., Any] | None = None, *, policy: Any = None,
    prevent_cse: bool = True, static_argnums: Argnums = (),
    budget_bytes: int | None = None, concrete: Any = None,
) -> Any:
    """A function whose residuals are computed again when needed (`jax.checkpoint`).

    Args:
      fun: function of arrays or trees of them; without it a decorator is returned.
      policy: which results of equations may be saved all the same: a function
        policy(primitive, *avals, **params) -> bool, such as `dots_saveable`; None
        saves the arguments only.
      prevent_cse: keep the compiler from merging the second computation with the
        first, which would save the values after all.
      static_argnums: positions of arguments that are no arrays.
      budget_bytes: save the values that are dearest to compute again, of at most so
        many bytes in all; `saved_residuals` says which.  Not together with `policy`.
      concrete: an option that JAX had once; raises NotImplementedError.
    """
    given = dict(locals())
    if given.pop("fun") is None:
        return partial(checkpoint, **given)
    policy = checked_policy(policy, budget_bytes, concrete)
    params = dict(policy=policy, prevent_cse=prevent_cse, differentiated=False)
    static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    return wraps(check_callable(fun))(partial(bind_checkpoint, fun, static, params))


def bind_checkpoint(fun, static, params, *args, **kwargs):
    """Record a function and bind the equation `checkpoint` to its arguments."""
    if any(not -len(args) <= i < len(args) for i in static):
        raise ValueError(
            f"checkpoint of {function_name(fun)} has static_argnums={tuple(static)}, "
            f"but was called with {len(args)} positional arguments{HERE}"
        )
    fixed = {i % len(args) for i in static}
    dynamic = [x for i, x in enumerate(args) if i not in fixed]
    statics = tuple((i, x) for i, x in enumerate(args) if i in fixed)

    def of_dynamic(values, kwargs):
        full = list(values)
        for i, x in statics:
            full.insert(i, x)
        return fun(*full, **kwargs)

    leaves, tree = tree_flatten((dynamic, kwargs))
    avals = list(map(aval_of, leaves))
    refs: list = []
    found = record(of_dynamic, avals, tree, "checkpoint", fun, written=refs)
    jaxpr, captured, out_tree = found
    given = *captured, *leaves, *map(read, refs)
    outs = checkpoint_p.bind(*given, jaxpr=interned(close_over(jaxpr)), **params)
    return tree_unflatten(out_tree, write_back(refs, outs))


remat = checkpoint
