"""Dead code within loops and branches: results that nobody needs, and what makes them.

    c, _ = lax.scan(body, c, xs)      # a body that makes the next c, and no y

A value that a loop carries is needed if its last value is, or if the next value of one
that is needed is made from it.
"""

from itertools import compress

from ...trace.jaxprs.jaxpr import dce_rules, needed_equations
from ...trace.jaxprs.memory import memoised
from ..closed_jaxprs import drop_dead
from ..pieces import reorder, split
from .branches import cond_p
from .steps import fixpoint
from .while_and_scan import Loop, While, scan_p, while_p


@memoised
def needed_inputs(closed, outs):
    """One bool an input: whether an effect, or one of the results `outs`, needs it."""
    jaxpr = closed.jaxpr
    wanted = compress(jaxpr.outvars, outs)
    _, needed = needed_equations(jaxpr.eqns, wanted, effects=True)
    return tuple(v in needed for v in jaxpr.invars)


@memoised
def part(closed, ins, outs):
    """A closed jaxpr from some of its inputs to some of its results."""
    jaxpr = closed.jaxpr
    invars, outvars = compress(jaxpr.invars, ins), compress(jaxpr.outvars, outs)
    return drop_dead(reorder(closed, invars, outvars))


def smaller(eqn, ins, outs, **params):
    """JAX's answer of a rule: (which operands are needed, the equation of those)."""
    invars, outvars = compress(eqn.invars, ins), compress(eqn.outvars, outs)
    params = eqn.params | params
    return ins, eqn.replace(invars=tuple(invars), outvars=tuple(outvars), params=params)


def dce_scan(used, eqn):
    loop = Loop(**eqn.params)
    carry, ys = map(tuple, split(used, loop.num_carry))

    def inputs(carry):
        return split(needed_inputs(loop.jaxpr, carry + ys), loop.num_consts, len(carry))

    carry = fixpoint(lambda carry: inputs(carry)[1], carry)
    consts, _, xs = inputs(carry)
    ins = *consts, *carry, *xs
    return smaller(
        eqn, (True,) * (loop.length is None) + ins, carry + ys,
        jaxpr=part(loop.jaxpr, ins, carry + ys), num_consts=sum(consts),
        num_carry=sum(carry),
    )


def dce_while(used, eqn):
    loop = While(**eqn.params)
    n = len(loop.cond_jaxpr.in_avals) - loop.cond_nconsts
    carry, counted, ys = map(tuple, split(used, n, int(loop.stack)))
    test = needed_inputs(loop.cond_jaxpr, (True,))
    cond_consts, tested = map(tuple, split(test, loop.cond_nconsts))
    stack = any(counted + ys)

    def inputs(carry):
        return split(needed_inputs(loop.body_jaxpr, carry + ys), loop.body_nconsts)

    carry = tuple(a or b for a, b in zip(carry, tested, strict=True))
    carry = fixpoint(lambda carry: inputs(carry)[1], carry)
    consts = tuple(inputs(carry)[0])
    return smaller(
        eqn, cond_consts + consts + carry, carry + (stack,) * loop.stack + ys,
        cond_jaxpr=part(loop.cond_jaxpr, cond_consts + carry, (True,)),
        body_jaxpr=part(loop.body_jaxpr, consts + carry, carry + ys),
        cond_nconsts=sum(cond_consts), body_nconsts=sum(consts), stack=stack,
    )


def dce_cond(used, eqn):
    outs, branches = tuple(used), eqn.params["branches"]
    needed = [needed_inputs(branch, outs) for branch in branches]
    ins = tuple(map(any, zip(*needed, strict=True)))
    parts = tuple(part(branch, ins, outs) for branch in branches)
    return smaller(eqn, (True, *ins), outs, branches=parts)


dce_rules |= {scan_p: dce_scan, while_p: dce_while, cond_p: dce_cond}
