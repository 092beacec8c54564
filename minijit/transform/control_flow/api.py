"""Control flow in traced programs: `cond`, `while_loop`, `scan`.

    cond(x > 0, lambda x: x, lambda x: -x, x)
    while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, f(c[1])), (0, x))
    scan(lambda carry, x: (carry + x, carry), init, xs)

Python's own `if` and `while` decide while a function is traced; these decide while it
runs.  Each records the users' functions and is one equation whose params hold them as
jaxprs.  What such an equation means stands in `branches` and `loops`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...trace.arguments import function_name
from ...trace.array import aval_of
from ...trace.base.config import config
from ...trace.base.errors import ConcretizationTypeError
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Var
from ...trace.jit.refs import read, write_back
from ...trace.primitives import as_array
from ...trace.trees.pytree import tree_flatten, tree_unflatten
from ...trace.types import ArrayLike
from ..pieces import close_alone, close_over, interned, split, with_loop_traces
from .agreement import (
    as_predicate, check_trees, cond_arguments, is_tracer, join_avals, not_given,
    record_body, record_branches, record_test, returning_pairs, scan_in_python,
    scan_length, unrolled_steps, while_in_python, with_types, without_refs,
    without_steps,
)
from .batching import is_union, opened
from .branches import cond_p
from .while_and_scan import scan_p, while_p

# ---- cond


@with_loop_traces
def cond(
    pred: ArrayLike, true_fun: Callable[..., Any], false_fun: Callable[..., Any],
    *operands: Any, operand: Any = not_given, linear: Any = None,
) -> Any:
    """`true_fun(*operands)` if `pred`, else `false_fun(*operands)` (`jax.lax.cond`).

    Args:
      pred: a scalar, bool or number.
      true_fun, false_fun: functions whose results have the same structure and types.
        The form cond(pred, true_operand, true_fun, false_operand, false_fun) works too.

    Returns:
      The result.  Only the branch that is taken runs; its gradient costs what it costs.
    """
    del linear
    branches, operands = cond_arguments(true_fun, false_fun, operands, operand)
    if config.disable_jit and not is_tracer(pred):
        return branches[bool(pred)](*operands)
    names = ("false_fun", "true_fun")
    return bind_branches(as_predicate(pred), branches, operands, names, "cond")


def bind_branches(index, branches, operands, names, kind):
    """Record the branches, make them agree, and bind cond."""
    operands, branches = without_refs(operands, branches)
    leaves, in_tree = tree_flatten(operands)
    records, refs = record_branches(branches, leaves, in_tree, kind)
    jaxprs, captured, trees = zip(*records, strict=True)
    tree = check_trees(kind, names, trees)
    columns = zip(*[jaxpr.out_avals for jaxpr in jaxprs], strict=True)
    avals = [join_avals(kind, names, c, tree, i) for i, c in enumerate(columns)]
    closed = [with_types(c, avals) for c in close_over_all(jaxprs)]
    given = [x for of_branch in captured for x in of_branch] + leaves
    given += map(read, refs)
    same = passed_through(closed)
    kept = [k for k, i in enumerate(same) if i is None]
    rest = [interned(only_results(c, kept)) for c in closed]
    computed = iter(cond_p.bind(index, *given, branches=tuple(rest)))
    pairs = zip(same, avals, strict=True)
    outs = [next(computed) if i is None else as_array(given[i], a) for i, a in pairs]
    return tree_unflatten(tree, write_back(refs, outs))


def passed_through(closed):
    """For each result the position of the input that it is in all branches, or None.

    Such a result needs no branch: under `vmap` it is one value for all lanes.
    """
    places = [{v: i for i, v in enumerate(c.jaxpr.invars)} for c in closed]
    columns = zip(*[c.jaxpr.outvars for c in closed], strict=True)
    found = [{p.get(v) for p, v in zip(places, vs, strict=True)} for vs in columns]
    return [inputs.pop() if len(inputs) == 1 else None for inputs in found]


def only_results(closed, kept):
    """A closed jaxpr with some of its results."""
    outvars = tuple(closed.jaxpr.outvars[k] for k in kept)
    return ClosedJaxpr(closed.jaxpr.replace(outvars=outvars), closed.consts)


def close_over_all(jaxprs):
    """Branches that all take what any of them captured: -> list of closed jaxprs."""
    variables, closed = [jaxpr.constvars for jaxpr in jaxprs], []
    for k, jaxpr in enumerate(jaxprs):
        before = [Var(v.aval) for vs in variables[:k] for v in vs]
        after = [Var(v.aval) for vs in variables[k + 1 :] for v in vs]
        closed.append(close_over(jaxpr, before, after))
    return closed


# ---- while_loop

def tape_mode(slots):
    """The primitive of a loop that is reversed by a tape, and its param."""
    if slots is not None:
        raise ValueError("while_loop: only reverse='checkpoint' has slots")
    return while_p, {"stack": False}


# How a loop is reversed: slots -> (the primitive, its own params).
reverse_modes = {"tape": tape_mode}


@with_loop_traces
def while_loop(
    cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any, *,
    reverse: Any = "tape", slots: Any = None,
) -> Any:
    """Repeat `val = body_fun(val)` while `cond_fun(val)` (`jax.lax.while_loop`).

    Unlike JAX's it can be differentiated in reverse.  With `reverse` "tape" the forward
    pass keeps what the body's gradient needs of each step that was run; chapter 13 has
    another mode.  Raises TypeError if `body_fun` does not return the structure and
    types of `init_val`, or `cond_fun` no bool.
    """
    if reverse not in reverse_modes:
        known = " or ".join(map(repr, reverse_modes))
        raise ValueError(f"while_loop: reverse must be {known}, got {reverse!r}")
    primitive, params = reverse_modes[reverse](slots)
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError("lax.while_loop: cond_fun and body_fun must be callable")
    init, tree = tree_flatten((init_val,))
    if config.disable_jit and not any(map(is_tracer, init)):
        # A traced value that cond_fun captured makes it an equation after all.
        with suppress(ConcretizationTypeError):
            return while_in_python(cond_fun, body_fun, init_val)
    one_carry = lambda val: (body_fun(val),)
    init, body, consts, _, refs = record_body(
        one_carry, init, [], tree, "while_loop body_fun"
    )
    avals = body.in_avals[len(consts) : len(body.in_avals) - len(refs)]
    test, test_consts = record_test(cond_fun, avals, tree, refs)
    outs = primitive.bind(
        *(*test_consts, *consts, *init), cond_jaxpr=interned(close_alone(test)),
        body_jaxpr=body, cond_nconsts=len(test_consts), body_nconsts=len(consts),
        **params,
    )
    return tree_unflatten(tree, write_back(refs, outs))[0]


# ---- scan


@with_loop_traces
def scan(
    f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False, unroll: int | bool = 1, _split_transpose: bool = False,
) -> Any:
    """Fold `carry, y = f(carry, x)` over the first axis of xs (`jax.lax.scan`).

    Args:
      f: function of a carry and a slice of xs; returns a carry of the same structure
        and types, and a y.
      init: the initial carry, a tree of arrays.
      xs: a tree of arrays with the steps on the first axis, or None.
      length: how many steps; needed if xs is None.
      reverse: whether to go through the steps from the last to the first.
      unroll: how many steps the compiler may write out (True: all of them).

    Returns:
      (the last carry, the ys stacked along a new first axis).

    Outside jit a loop is compiled as a jitted function is: `lax.scan.traces` says of
    each loop when, and why.
    """
    del _split_transpose
    name, f = f"scan body {function_name(f)}", returning_pairs(f)
    leaves, tree = tree_flatten((init, xs))
    if any(map(is_union, leaves)):
        leaves, tree = tree_flatten((init, opened(xs)))
    carry_tree, xs_tree = tree.children()
    init_leaves, xs_leaves = split(leaves, carry_tree.num_leaves)
    length = scan_length(xs_leaves, length)
    if config.disable_jit and not any(map(is_tracer, leaves)):
        return scan_in_python(f, init, xs_leaves, xs_tree, length, reverse)
    x_avals = [without_steps(aval_of(x)) for x in xs_leaves]
    carry, body, consts, (_, ys_tree), refs = record_body(
        f, init_leaves, x_avals, tree, name
    )
    outs = scan_p.bind(
        *(*consts, *carry, *xs_leaves), jaxpr=body, length=length,
        reverse=bool(reverse), num_consts=len(consts), num_carry=len(carry),
        unroll=unrolled_steps(unroll, length),
    )
    carry, ys = split(outs, len(carry))
    carry = write_back(refs, carry)
    return tree_unflatten(carry_tree, carry), tree_unflatten(ys_tree, ys)
