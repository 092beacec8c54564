"""The derivative of a `cond`: two of them, with a Union of residuals in between."""

from dataclasses import dataclass
from functools import partial

from ...trace.jaxprs.memory import memoised
from ..closed_jaxprs import apply_closed, fill, present
from ..derivatives.linearize import linearize_jaxpr, linearize_rules
from ..derivatives.transpose import is_linear, transpose_jaxpr, transpose_rules
from ..pieces import agreed, jaxpr_of, mask_of, none_of, split
from ..tangents import tangent_aval


@dataclass(frozen=True, eq=False)
class LinearBranches:
    """The branches of a cond: `forward`, which also return a Union of residuals; and
    `linear`: (Union, operands at `inputs`, nonzero tangents) -> nonzero tangents."""

    forward: tuple
    linear: tuple
    inputs: tuple
    nonzero_out: tuple


# chapter 11
from .branches import cond_p
from .unions_and_tapes import Union, inject, project


@memoised
def linearize_branches(first, others, nonzero):
    """Linearize the branches of a cond: -> `LinearBranches`.

    An operand that a linear branch needs is passed to it, and never put in the Union.
    """
    branches = first, *others
    avals, n = first.in_avals, len(first.out_avals)
    found = [linearize_jaxpr(b, nonzero, none_of(n)).nonzero_out for b in branches]
    nonzero_out = agreed(found)
    parts = [linearize_jaxpr(b, nonzero, nonzero_out) for b in branches]
    cases = tuple(tuple(p.forward.out_avals[n:]) for p in parts)
    unions = [Union(cases)] if any(cases) else []
    inputs = tuple(sorted({i for p in parts for kind, i in p.sources if kind == "in"}))
    tangents = [tangent_aval(a) for a, m in zip(avals, nonzero, strict=True) if m]
    given = [*unions, *(avals[i] for i in inputs), *tangents]
    forward, linear = [], []
    for k, part in enumerate(parts):
        run = partial(forward_branch, part, n, k, unions)
        forward.append(jaxpr_of(run, avals, "branch"))
        run = partial(linear_branch, part, k, unions, inputs)
        linear.append(jaxpr_of(run, given, "branch"))
    return LinearBranches(tuple(forward), tuple(linear), inputs, nonzero_out)


def forward_branch(part, n, k, unions, *operands):
    """operands -> (results, the residuals in a Union, if there is one)"""
    outs = apply_closed(part.forward, *operands)
    return outs[:n] + [inject(k, u, outs[n:]) for u in unions]


def linear_branch(part, k, unions, inputs, *args):
    """(the Union, operands, tangents) -> tangents of the results"""
    held, operands, tangents = split(args, len(unions), len(inputs))
    kept = project(k, held[0]) if held and unions[0].cases[k] else []
    residuals = [
        operands[inputs.index(i)] if kind == "in" else kept[i]
        for kind, i in part.sources
    ]
    return apply_closed(part.linear, *residuals, *tangents)


def cond_linearize(nonzero, index, *operands, branches):
    parts = linearize_branches(branches[0], branches[1:], nonzero[1:])
    outs = cond_p.bind(index, *operands, branches=parts.forward)
    outs, union = split(outs, len(branches[0].out_avals))
    kept = union + [operands[i] for i in parts.inputs]

    def linear(_, *tangents):
        given = kept + present(tangents)
        out = cond_p.bind(index, *given, branches=parts.linear)
        return fill(parts.nonzero_out, out)

    return outs, linear


linearize_rules |= {cond_p: cond_linearize}


def cond_transpose(cts, accs, index, *args, branches):
    """The transpose of a cond is a cond of the branches' transposes."""
    masks = tuple(map(is_linear, args)), mask_of(cts), mask_of(accs[1:])
    found = [transpose_jaxpr(b, *masks, none_of(len(args)))[1] for b in branches]
    nonzero = agreed(found)
    transposed = tuple(transpose_jaxpr(b, *masks, nonzero)[0] for b in branches)
    known = [x for x in args if not is_linear(x)]
    given = known + present(cts) + present(accs)
    return [None, *fill(nonzero, cond_p.bind(index, *given, branches=transposed))]


transpose_rules |= {cond_p: cond_transpose}
