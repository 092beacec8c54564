"""What is kept between a forward and a backward pass, in words: `saved_residuals`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...trace.api import calls
from ...trace.array import aval_of
from ...trace.base.errors import Source, folded
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Var
from ...trace.trees.pytree import tree_flatten
from ..batching.axes import leaf_names
from ..control_flow.unions_and_tapes import Tape, Union
from ..derivatives.linearize import linearize_jaxpr
from ..equations import inline_calls
from ..pieces import record
from ..tangents import tangent_aval
from .checkpoint import checkpoint_p
from .policies import name_p, work_again


@dataclass(frozen=True)
class Residual:
    """A value held between the forward and the backward pass.

    Attributes:
      aval: its type.
      nbytes: how many bytes it holds; of a Union, at most.
      nbytes_per_step: how many bytes a Tape in it holds for each step of its loop.
      origin: what it is: an argument by name, a constant, or a primitive's result.
      source: the user's line that made it, or None.
      made_by: the primitive that made it, or None for inputs.
      used_by: the primitives of the backward pass that read it, at which lines.
      operations: about how many scalar operations it would take to compute it again.
    """

    aval: object
    nbytes: int
    nbytes_per_step: int
    origin: str
    source: Source | None
    made_by: str | None
    used_by: tuple
    operations: int

    def __str__(self):
        users = ", ".join(dict.fromkeys(str(use) for use in self.used_by))
        where = f" at {self.source}" if self.source else ""
        held = held_text(self.nbytes, self.nbytes_per_step)
        text = f"{self.aval} {self.origin}{where}: {held}, for {users}"
        return text + f", {self.operations} operations to redo" * bool(self.made_by)


class Residuals(list):
    """A list of `Residual`s that prints one a line, and the sum of their bytes."""

    nbytes = property(lambda self: sum(r.nbytes for r in self))
    nbytes_per_step = property(lambda self: sum(r.nbytes_per_step for r in self))

    def __repr__(self):
        total = held_text(self.nbytes, self.nbytes_per_step)
        return "\n".join([*(folded(str(r)) for r in self), f"{total} in all"])


def held_text(nbytes, per_step):
    """Bytes in words: `40 bytes`, `24 bytes a step`, or both."""
    once, steps = f"{nbytes} bytes", f"{per_step} bytes a step"
    if not per_step:
        return once
    return f"{once} and {steps}" if nbytes else steps


def bytes_held(aval):
    """How many bytes values of a type hold: -> (once, for each step of its loop).

    Of a Union the case that holds most counts, or all of them if all are there.  What
    a loop within a loop keeps, it keeps for each of its own steps.
    """
    if isinstance(aval, Tape):
        return 0, sum(bytes_held(aval.element))
    if isinstance(aval, Union):
        cases = [list(map(bytes_held, case)) for case in aval.cases]
        cases = [(sum(n for n, _ in case), sum(n for _, n in case)) for case in cases]
        if aval.every:
            return sum(n for n, _ in cases), sum(n for _, n in cases)
        return max(cases, key=sum)
    return aval.nbytes, 0


def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What reverse mode of `fun` keeps between its two passes.

    Args:
      fun: the function to differentiate, by all its floating arguments.
      args, kwargs: its arguments, or anything with their shapes and dtypes.

    Returns:
      A list of `Residual`s.  (JAX: `jax.ad_checkpoint.saved_residuals`.)
    """
    leaves, tree = tree_flatten((args, kwargs))
    called = lambda args, kwargs: fun(*args, **kwargs)
    avals = list(map(aval_of, leaves))
    jaxpr, captured, _ = record(called, avals, tree, "saved_residuals", fun)
    closed = inline_calls(ClosedJaxpr(jaxpr, captured))
    nonzero = tuple(tangent_aval(a) is not None for a in closed.in_avals)
    parts = linearize_jaxpr(closed, nonzero, (False,) * len(closed.out_avals))
    return residuals_of(parts, leaf_names(fun, args, kwargs))


def residuals_of(parts, names):
    """The `Residuals` of a `Linearized` jaxpr whose inputs have these names."""
    forward, linear = parts.forward.jaxpr, parts.linear.jaxpr
    made = {v: eqn for eqn in forward.eqns for v in eqn.outvars}
    inputs = dict(zip(forward.invars, names, strict=True))
    kept = parts.residuals(forward.invars, forward.outvars[len(parts.nonzero_out) :])
    users = uses(linear)
    found = Residuals()
    for var, atom in zip(linear.invars, kept, strict=False):
        eqn, cost = maker(made, atom), 0
        origin = f"the argument {inputs.get(atom)}"
        if eqn is not None:
            origin, cost = origin_of(eqn), work_again(forward, [atom], [])
        made_by = (eqn.source, eqn.primitive.name) if eqn else (None, None)
        used_by = tuple(users.get(var, ()))
        held = bytes_held(var.aval)
        found.append(Residual(var.aval, *held, origin, *made_by, used_by, cost))
    for var in linear.constvars:
        used_by = tuple(users.get(var, ()))
        held = bytes_held(var.aval)
        found.append(Residual(var.aval, *held, "a constant", None, None, used_by, 0))
    return found


def origin_of(eqn):
    """What an equation's results are called in the report."""
    if eqn.primitive is name_p:
        return f"named {eqn.params['name']!r}"
    return f"result of {eqn.primitive}"


def maker(made, atom):
    """The equation that makes a value; within a checkpoint, the one in it that does."""
    eqn = made.get(atom)
    while eqn is not None and eqn.primitive is checkpoint_p:
        inner = eqn.params["jaxpr"].jaxpr
        atom = inner.outvars[eqn.outvars.index(atom)]
        eqn = {v: e for e in inner.eqns for v in e.outvars}.get(atom)
    return eqn


def uses(jaxpr):
    """{variable: the equations that read it, as 'primitive at line'}"""
    found = {}
    for eqn in jaxpr.eqns:
        where = f"{eqn.primitive} at {eqn.source}" if eqn.source else str(eqn.primitive)
        for atom in eqn.invars:
            if isinstance(atom, Var):
                found.setdefault(atom, []).append(where)
    return found


def print_saved_residuals(fun, *args, **kwargs):
    """Print `saved_residuals` (`jax.ad_checkpoint.print_saved_residuals`)."""
    print(repr(saved_residuals(fun, *args, **kwargs)))


calls.explain_calls("minijit", globals(), ["saved_residuals"])
