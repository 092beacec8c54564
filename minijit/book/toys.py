"""Small programs that chapters use beside the library.

    python_source(jaxpr)        # chapter 6: a line of Python for each equation
    with padding(): ...         # chapter 13: branches keep residuals as in JAX

What they use of the library comes when they are called: it may not be built before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


def python_source(jaxpr: Any) -> str:
    """A function `program` of numbers, for numba: chapter 4's, for several results."""
    names: dict[Any, str] = {}
    infix = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}"}

    def read(atom: Any) -> str:
        if hasattr(atom, "val"):
            return repr(atom.val.item())
        return names.setdefault(atom, f"v{len(names)}")

    inputs = ", ".join(map(read, (*jaxpr.constvars, *jaxpr.invars)))
    lines = [f"def program({inputs}):"]
    for eqn in jaxpr.eqns:
        text = infix.get(eqn.primitive.name, f"np.{eqn.primitive.name}({{}})")
        value = text.format(*map(read, eqn.invars))
        lines.append(f"    {read(eqn.outvars[0])} = {value}")
    results = "".join(f"{read(v)}, " for v in jaxpr.outvars)
    return "\n".join([*lines, f"    return ({results})"])


def padded_cond(nonzero: Any, index: Any, *operands: Any, branches: Any) -> Any:
    """A linearize rule for `cond`: each branch returns the residuals of all branches,
    with zeros in place of those that are not its own."""
    import minijit.numpy as jnp
    from minijit.transform.closed_jaxprs import apply_closed, fill, present
    from minijit.transform.control_flow.branches import cond_p
    from minijit.transform.derivatives.linearize import linearize_jaxpr
    from minijit.transform.pieces import agreed, jaxpr_of, split

    avals, n = branches[0].in_avals, len(branches[0].out_avals)
    parts = [linearize_jaxpr(b, nonzero[1:], (False,) * n) for b in branches]
    mask = agreed([p.nonzero_out for p in parts])
    parts = [linearize_jaxpr(b, nonzero[1:], mask) for b in branches]
    # The types of the residuals, branch by branch.
    kinds = [p.linear.in_avals[: len(p.sources)] for p in parts]

    def forward(k: int, *operands: Any) -> Any:
        outs = apply_closed(parts[k].forward, *operands)
        padded = [[jnp.zeros(a.shape, a.dtype) for a in kind] for kind in kinds]
        padded[k] = parts[k].residuals(operands, outs[n:])
        return outs[:n] + sum(padded, [])

    def linear_branch(k: int, *args: Any) -> Any:
        *pieces, tangents = split(args, *map(len, kinds))
        return apply_closed(parts[k].linear, *pieces[k], *tangents)

    def cond_of(branch: Any, avals: Any, *args: Any) -> Any:
        cases = range(len(branches))
        made = tuple(jaxpr_of(partial(branch, k), avals, "branch") for k in cases)
        return cond_p.bind(index, *args, branches=made)

    outs = cond_of(forward, avals, *operands)

    def linear(_: Any, *tangents: Any) -> Any:
        avals = [a for kind in kinds for a in kind]
        avals += [t.aval for t in present(tangents)]
        out = cond_of(linear_branch, avals, *outs[n:], *present(tangents))
        return fill(mask, out)

    return outs[:n], linear


@contextmanager
def padding() -> Iterator[None]:
    """Let `cond` keep its residuals by `padded_cond` for a while."""
    import minijit as mj
    from minijit.transform.control_flow.branches import cond_p
    from minijit.transform.derivatives.linearize import linearize_rules

    own = linearize_rules[cond_p]
    linearize_rules[cond_p] = padded_cond
    mj.clear_caches()
    try:
        yield
    finally:
        linearize_rules[cond_p] = own
        mj.clear_caches()
