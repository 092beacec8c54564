"""Forward mode through branches and loops: values and tangents side by side.

No tape is needed for it: a loop of both does what `linearize` does in two loops.
"""

from dataclasses import replace

from ...trace.array import aval_of
from ...trace.jaxprs.jaxpr import Var
from ...trace.jaxprs.memory import memoised
from ..closed_jaxprs import fill, present
from ..derivatives.linearize import joint_rules, jvp_jaxpr
from ..pieces import interned, mask_of, none_of, reorder, split
from .branches import cond_p
from .linear_branches import agreed
from .steps import fixpoint, instantiate_carry
from .while_and_scan import Loop, While, scan_p, while_p


def cond_joint(primals, tangents, *, branches):
    nonzero = mask_of(tangents[1:])
    n = len(branches[0].out_avals)
    nonzero_out = agreed([jvp_jaxpr(b, nonzero, none_of(n))[1] for b in branches])
    joint = tuple(jvp_jaxpr(b, nonzero, nonzero_out)[0] for b in branches)
    outs = cond_p.bind(*primals, *present(tangents[1:]), branches=joint)
    return outs[:n], fill(nonzero_out, outs[n:])


@memoised
def jvp_body(body, consts, carry, xs):
    """The body of a loop with its tangents: consts, carries and xs each followed by
    theirs: -> (closed jaxpr, nonzero carry, nonzero results).

    `consts`, `carry` and `xs` say which of them have tangents when the loop begins.
    """
    n_carry, n_ys = len(carry), len(body.out_avals) - len(carry)

    def step(carry):
        nonzero = consts + carry + xs, carry + none_of(n_ys)
        return jvp_jaxpr(body, *nonzero)[1][:n_carry]

    carry = fixpoint(step, carry)
    nonzero = consts + carry + xs, carry + none_of(n_ys)
    joint, nonzero_out = jvp_jaxpr(body, *nonzero)
    sizes = len(consts), n_carry, len(xs), sum(consts), sum(carry)
    c, k, x, t_c, t_k, t_x = split(joint.jaxpr.invars, *sizes)
    out_k, y, t_out_k, t_y = split(joint.jaxpr.outvars, n_carry, n_ys, sum(carry))
    invars, outvars = c + t_c + k + t_k + x + t_x, out_k + t_out_k + y + t_y
    return reorder(joint, invars, outvars), carry, nonzero_out


def scan_joint(primals, tangents, **params):
    loop = Loop(**params)
    steps, consts, carry, xs = loop.split(primals)
    _, *given = loop.split(tangents)
    joint, nonzero_carry, nonzero_out = jvp_body(loop.jaxpr, *map(mask_of, given))
    t_consts, t_carry, t_xs = given
    t_carry = present(instantiate_carry(carry, t_carry, nonzero_carry))
    outs = replace(loop, jaxpr=joint).bind(
        steps, consts + present(t_consts), carry + t_carry, xs + present(t_xs)
    )
    n_ys = len(loop.jaxpr.out_avals) - len(carry)
    carry, t_carry, ys, t_ys = split(outs, len(carry), len(t_carry), n_ys)
    return carry + ys, fill(nonzero_out, t_carry + t_ys)


def while_joint(primals, tangents, **params):
    loop = While(**params)
    cond_consts, consts, carry = loop.split(primals)
    _, t_consts, t_carry = loop.split(tangents)
    masks = mask_of(t_consts), mask_of(t_carry), ()
    body, nonzero_carry, nonzero_out = jvp_body(loop.body_jaxpr, *masks)
    t_carry = present(instantiate_carry(carry, t_carry, nonzero_carry))
    ignored = tuple(Var(aval_of(t)) for t in t_carry)
    test = interned(reorder(loop.cond_jaxpr, loop.cond_jaxpr.jaxpr.invars + ignored))
    outs = replace(loop, cond_jaxpr=test, body_jaxpr=body).bind(
        cond_consts, consts + present(t_consts), carry + t_carry
    )
    n, n_ys = len(carry), len(loop.body_jaxpr.out_avals) - len(carry)
    carry, t_carry, count, ys, t_ys = split(outs, n, len(t_carry), loop.stack, n_ys)
    t_carry = fill(nonzero_out[:n], t_carry)
    t_ys = fill(nonzero_out[n:], t_ys) if loop.stack else []
    return carry + count + ys, [*t_carry, *(None for _ in count), *t_ys]


joint_rules |= {cond_p: cond_joint, scan_p: scan_joint, while_p: while_joint}
