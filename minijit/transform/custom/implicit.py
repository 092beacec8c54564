"""Solutions of equations, differentiated as what they are, not as how they were found.

    x = custom_linear_solve(matvec, b, solve, transpose_solve)      # matvec(x) = b
    x = custom_root(f, guess, solve, tangent_solve)                 # f(x) = 0

A solver iterates; of the iterations nothing is kept and nothing is reversed.  If
A x = b then A dx = db - dA x: the derivative of a solution is another solution with
the same A, and the cotangent of b is one with A transposed.  If f(x, p) = 0 then
df/dx dx = - df/dp dp, which is a linear system again: the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...trace import primitives as lax
from ...trace.array import aval_of, shape_rules
from ...trace.base.errors import HERE
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.jaxpr import Var
from ...trace.jaxprs.memory import memoised
from ...trace.trees.pytree import tree_flatten, tree_unflatten
from ..batching.vmap import at_front, batch_jaxpr, batch_rules
from ..closed_jaxprs import apply_closed, fill, present
from ..control_flow.agreement import leaf_path, with_types
from ..derivatives.linear_functions import linear_transpose
from ..derivatives.linearize import (
    add_tangents, joint_rules, jvp_jaxpr, linearize, linearize_jaxpr, linearize_rules,
)
from ..derivatives.transpose import adding, aval_of_argument, transpose_rules
from ..pieces import (
    close_over, compiled, interned, mask_of, none_of, record, reorder, split,
)
from ..tangents import dense
from . import custom_derivatives as custom

linear_solve_p = Primitive("custom_linear_solve", multiple_results=True)


# ---- what the users' functions must return


def record_solver(fun, args, kind, what, like, tree, has_aux=False):
    """Record a function that must return something like a tree of given types.

    Args:
      kind: of which user's function it is a part; what: its own name.
      like: what the result must be like, in words; tree: its structure, and
        args[-1] its types.
      has_aux: whether it returns (the result, whatever else).

    Returns:
      (closed jaxpr: captured values, arguments -> result, aux; the captured values;
      the structure of the result, of a pair if there is an aux).
    """
    in_avals, in_tree = tree_flatten(args)
    jaxpr, captured, out_tree = record(fun, in_avals, in_tree, f"{kind} {what}")
    where = str(HERE)
    if has_aux and len(out_tree.children()) != 2:
        raise TypeError(
            f"{kind}: {what} must return a pair (result, aux), because has_aux=True, "
            f"but returned {out_tree}{where}"
        )
    found = out_tree.children()[0] if has_aux else out_tree
    if found != tree:
        raise TypeError(
            f"{kind}: {what} must return something of the structure of {like}, "
            f"{tree}, but returned {found}{where}"
        )
    avals = tree_flatten(args[-1])[0]
    for i, (got, wanted) in enumerate(zip(jaxpr.out_avals, avals, strict=False)):
        check_type(f"{kind}: {what}", like, leaf_path(tree, i), got, wanted)
    avals = [*avals, *jaxpr.out_avals[len(avals) :]]
    return interned(with_types(close_over(jaxpr), avals)), captured, out_tree


def check_type(function, like, path, got, wanted):
    """Complain about a leaf of a wrong shape or dtype."""
    if got.strip_weak_type() == wanted.strip_weak_type():
        return
    error = ValueError if got.shape != wanted.shape else TypeError
    raise error(
        f"{function} must return something of the types of {like}, but {path} has "
        f"type {got.str_short()} in place of {wanted.str_short()}"
        f"{HERE}\n  Instead: convert {like}, or that result, so that "
        "they agree."
    )


def as_types(tree):
    """A tree's leaves as arrays, its structure, and the tree of their types."""
    leaves, structure = tree_flatten(tree)
    leaves = list(map(lax.as_array, leaves))
    return leaves, structure, tree_unflatten(structure, list(map(aval_of, leaves)))


# ---- linear systems
#
# The params are two tuples of as many parts: for matvec and solve, and if it is known
# for vecmat and its solve, the jaxpr, and how many captured values it has.  Operands:
# those values, part by part, and b.


def custom_linear_solve(
    matvec: Callable[..., Any], b: Any, solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None, symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """x = solve(matvec, b), differentiated as the x with matvec(x) = b
    (`jax.lax.custom_linear_solve`).

    Args:
      matvec: linear function of a tree like b.
      b: a tree of arrays.
      solve: solve(matvec, b) -> x, like b.  It need not be differentiable.
      transpose_solve: transpose_solve(vecmat, b) -> x with vecmat(x) = b, where vecmat
        is the transpose of matvec.  Reverse mode needs it.
      symmetric: whether matvec is its own transpose, and `solve` will do for both.
      has_aux: whether the solvers return a pair, (x, whatever else).

    Returns:
      What `solve` does.  Derivatives by b, and by what matvec captured.

    Raises:
      TypeError: a result has not the structure or the dtypes of b.
      ValueError: it has not the shapes of b.
    """
    leaves, tree, avals = as_types(b)
    parts = linear_parts(
        matvec, tree, avals, solve, transpose_solve, symmetric, has_aux
    )
    jaxprs, captured, _ = zip(*parts, strict=True)
    return tree_unflatten(parts[1][2], bind_parts(jaxprs, captured, leaves))


def linear_parts(matvec, tree, avals, solve, transpose_solve, symmetric, has_aux):
    """Record matvec and its solver, and their transposes if there are any."""
    check = partial(record_solver, kind="custom_linear_solve", like="b", tree=tree)
    first = check(matvec, (avals,), what="matvec")
    solver = partial(solve, matvec)
    parts = [first, check(solver, (avals,), what="solve", has_aux=has_aux)]
    if symmetric and transpose_solve is None:
        return parts + parts
    if transpose_solve is None:
        return parts
    vecmat = matvec if symmetric else transposed(matvec, avals)
    solver = partial(transpose_solve, vecmat)
    given = dict(what="transpose_solve", has_aux=has_aux)
    second = first if symmetric else check(vecmat, (avals,), what="vecmat")
    return [*parts, second, check(solver, (avals,), **given)]


def transposed(matvec, avals):
    """The transpose of a linear function of one tree of arrays to one like it."""
    return lambda y: linear_transpose(matvec, avals)(y)[0]


def bind_parts(jaxprs, captured, b):
    """The equation of parts and of what each of them captured."""
    return linear_solve_p.bind(
        *(x for values in captured for x in values), *b,
        const_lengths=tuple(map(len, captured)), jaxprs=tuple(jaxprs),
    )


def split_operands(args, const_lengths):
    """-> [captured values of each part], b"""
    *captured, b = split(args, *const_lengths)
    return captured, b


def linear_solve_eval(*args, const_lengths, jaxprs):
    captured, b = split_operands(args, const_lengths)
    return compiled(jaxprs[1])(*captured[1], *b)


shape_rules |= {linear_solve_p: lambda *avals, jaxprs, **params: jaxprs[1].out_avals}
eval_rules |= {linear_solve_p: linear_solve_eval}


def solve_tangents(args, tangents, const_lengths, jaxprs, change):
    """dx with A dx = db - dA x.

    Args:
      change: one None or dA x for each leaf of x.

    Returns:
      The tangents of all results; those of an aux are None.
    """
    captured, b = split_operands(args, const_lengths)
    _, of_b = split_operands(tangents, const_lengths)
    minus = [None if c is None else lax.neg(c) for c in change]
    rhs = list(map(add_tangents, of_b, minus))
    aux = [None] * (len(jaxprs[1].out_avals) - len(b))
    if not present(rhs):
        return [None] * len(b) + aux
    return bind_parts(jaxprs, captured, dense(rhs, map(aval_of, b)))[: len(b)] + aux


def linear_solve_linearize(nonzero, *args, const_lengths, jaxprs):
    outs = linear_solve_p.bind(*args, const_lengths=const_lengths, jaxprs=jaxprs)
    captured, b = split_operands(args, const_lengths)
    x, k, none = outs[: len(b)], const_lengths[0], none_of(len(b))
    part, residuals = None, []
    if any(nonzero[:k]):
        part = linearize_jaxpr(jaxprs[0], (*nonzero[:k], *none), none)
        inputs = [*captured[0], *x]
        new = apply_closed(part.forward, *inputs)[len(b) :]
        residuals = part.residuals(inputs, new)

    def linear(*tangents):
        change = [None] * len(b)
        if part is not None:
            given = residuals + present(tangents[:k])
            change = fill(part.nonzero_out, apply_closed(part.linear, *given))
        return solve_tangents(args, tangents, const_lengths, jaxprs, change)

    return outs, linear


def linear_solve_joint(primals, tangents, *, const_lengths, jaxprs):
    outs = linear_solve_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    captured, b = split_operands(primals, const_lengths)
    of_matvec, none = tangents[: const_lengths[0]], none_of(len(b))
    change = [None] * len(b)
    if present(of_matvec):
        mask = (*mask_of(of_matvec), *none)
        joint, nonzero_out = jvp_jaxpr(jaxprs[0], mask, none)
        given = *captured[0], *outs[: len(b)], *present(of_matvec)
        change = fill(nonzero_out, apply_closed(joint, *given)[len(b) :])
    return outs, solve_tangents(primals, tangents, const_lengths, jaxprs, change)


linearize_rules |= {linear_solve_p: linear_solve_linearize}
joint_rules |= {linear_solve_p: linear_solve_joint}


def linear_solve_transpose(cts, *args, const_lengths, jaxprs):
    """The cotangent of b is a solution with the transpose: the parts change places."""
    if len(jaxprs) == 2:
        raise TypeError(
            "custom_linear_solve: reverse mode needs transpose_solve, or "
            f"symmetric=True{HERE}"
        )
    captured, b = split_operands(args, const_lengths)
    cts = dense(cts[: len(b)], map(aval_of_argument, b))
    swapped = jaxprs[2:] + jaxprs[:2], captured[2:] + captured[:2]
    outs = bind_parts(*swapped, cts)
    return [None] * (len(args) - len(b)) + outs[: len(b)]


def linear_solve_batch(lanes, axes, *args, const_lengths, jaxprs):
    """Lanes in b and in x, all of them; captured values have them where they had."""
    captured_axes, _ = split_operands(axes, const_lengths)
    captured, b = split_operands(args, const_lengths)
    in_b = (0,) * len(b)
    batched = [
        batch_jaxpr(closed, lanes, (*found, *in_b), (0,) * len(closed.out_avals))[0]
        for closed, found in zip(jaxprs, map(tuple, captured_axes), strict=True)
    ]
    b = at_front(lanes, b, axes[len(axes) - len(b) :])
    outs = bind_parts(batched, captured, b)
    return outs, [0] * len(outs)


transpose_rules |= adding({linear_solve_p: linear_solve_transpose})
batch_rules |= {linear_solve_p: linear_solve_batch}


def solution(const_lengths, jaxprs):
    """The solver as a function of all operands, as the compiler wants it."""
    avals = [j.in_avals[:n] for j, n in zip(jaxprs, const_lengths, strict=True)]
    before, _, *after = map(tuple, avals)
    return ignoring(jaxprs[1], const_lengths[1], before, sum(after, ()))


@memoised
def ignoring(solve, count, before, after):
    """A solver that also takes, and ignores, what the other parts captured."""
    own, b = split(solve.jaxpr.invars, count)
    return reorder(solve, [*map(Var, before), *own, *map(Var, after), *b])


# ---- roots


def custom_root(
    f: Callable[..., Any], initial_guess: Any, solve: Callable[..., Any],
    tangent_solve: Callable[..., Any], has_aux: bool = False,
) -> Any:
    """x = solve(f, initial_guess), differentiated as the x with f(x) = 0
    (`jax.lax.custom_root`).

    Args:
      f: function of a tree like `initial_guess` to one like it.
      initial_guess: a tree of arrays.  The solution's derivative by it is zero.
      solve: solve(f, initial_guess) -> x.  It need not be differentiable.
      tangent_solve: tangent_solve(g, y) -> the x with g(x) = y, for a linear g; itself
        linear in y.  For scalars, `lambda g, y: y / g(1.0)`.
      has_aux: whether `solve` returns a pair, (x, whatever else).

    Returns:
      What `solve` does.  Derivatives by what f captured.

    Raises:
      TypeError: a result has not the structure or the dtypes of the guess.
      ValueError: it has not the shapes of the guess.
    """
    leaves, tree, avals = as_types(initial_guess)
    kind, like = "custom_root", "initial_guess"
    check = partial(record_solver, kind=kind, like=like, tree=tree)
    f_part = check(f, (avals,), what="f")
    solve_part = check(partial(solve, f), (avals,), what="solve", has_aux=has_aux)
    # The user's solver on f's derivative at x.
    tangent = lambda x, y: tangent_solve(linearize(f, x)[1], y)
    parts = [f_part, solve_part, check(tangent, (avals, avals), what="tangent_solve")]
    captured = [values for _, values, _ in parts]
    root = Root(
        tuple(jaxpr for jaxpr, _, _ in parts), tuple(map(len, captured)), len(leaves)
    )
    operands = [*(x for values in captured for x in values), *leaves]
    return tree_unflatten(solve_part[2], root.bind(operands))


@dataclass(frozen=True, eq=False)
class Root:
    """The recorded parts of a `custom_root`, and its derivative rule.

    Attributes:
      jaxprs, const_lengths: of f, of solve, and of the solver of the tangent system.
      size: how many leaves a solution has.
    """

    jaxprs: tuple
    const_lengths: tuple
    size: int

    def bind(self, operands):
        """The solution, for the captured values part by part and the guess."""
        f, solve, tangent = self.const_lengths
        before, after = (
            tuple(j.in_avals[:n])
            for j, n in zip(self.jaxprs[::2], (f, tangent), strict=True)
        )
        call = ignoring(self.jaxprs[1], solve, before, after)
        rule = custom.Rule("root_jvp", None, self.jvp)
        return custom.custom_jvp_p.bind(*operands, call=call, rule=rule)

    def jvp(self, primals, tangents):
        """dx with df/dx dx = - df/dp dp, for the values p that f captured."""
        outs = self.bind(primals)
        x, aux = split(outs, self.size)
        p, _, captured, _ = split(primals, *self.const_lengths)
        of_p = tangents[: self.const_lengths[0]]
        f, _, tangent_solve = self.jaxprs
        none = none_of(self.size)
        joint, nonzero = jvp_jaxpr(f, (*mask_of(of_p), *none), none)
        rhs = apply_closed(joint, *p, *x, *present(of_p))[self.size :]
        if not rhs:
            return outs, [None] * len(outs)
        rhs = dense(fill(nonzero, rhs), map(aval_of, x))
        found = apply_closed(tangent_solve, *captured, *x, *rhs)
        return outs, [*map(lax.neg, found), *[None] * len(aux)]
