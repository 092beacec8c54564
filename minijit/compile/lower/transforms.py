"""Rows of what part 2 added: calls with rules of their own, checkpoints, control flow.

A function with a derivative rule of its own is, to the compiler, that function.  So is
a checkpoint, but for the one in a backward pass, which computes again what the forward
pass computed: it stays a program of its own, or the compiler would find the equal
equations and keep the values after all.
"""

from functools import partial

from ...trace.jaxprs.jaxpr import Var
from ...trace.primitives import broadcast_in_dim_p, select_n_p
from ...transform.control_flow.batching import (
    borrow_p, every_p, select_lanes_p, spread_p, sum_lanes_p,
)
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.checkpointed_loops import (
    checkpointed_while_p, replay_forward, replay_p, run_while, treeverse_p,
)
from ...transform.control_flow.tape_rules import zero_p
from ...transform.control_flow.unions_and_tapes import inject_p, project_p
from ...transform.control_flow.while_and_scan import scan_p, while_p
from ...transform.custom.custom_derivatives import (
    custom_jvp_p, custom_linear_p, custom_vjp_p,
)
from ...transform.custom.custom_vmap import custom_vmap_p
from ...transform.custom.implicit import linear_solve_p, solution
from ...transform.debugging import debug_callback_p
from ...transform.derivatives.linearize import add_any_p
from ...transform.pieces import index_aval, jaxpr_of
from ...transform.remat.checkpoint import checkpoint_p
from ...transform.remat.policies import name_p
from ...transform.stop_gradient import stop_gradient_p
from ...transform.tangents import tangent_aval
from ..loops.expressions import Axis, as_index, op
from ..loops.graphs import postorder
from ..pipeline import expansions
from ..simplify.folding import inline_rules
from .calls import call_program
from .elements import one_operation
from .walk import At, Elements, Statements, fallbacks, lower_rules, row_of


def called_function(*, call, rule):
    """The primal function of a custom rule."""
    return call


def unless_computed_again(*, jaxpr, policy, prevent_cse, differentiated):
    """A checkpoint's function, unless it is there to compute something again."""
    return None if prevent_cse and differentiated else jaxpr


def plain_while(*, slots, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    """A checkpointed loop with no derivative to come: a while."""
    avals = [*cond_jaxpr.in_avals[:cond_nconsts], *body_jaxpr.in_avals]
    params = dict(cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, slots=slots)
    params |= dict(cond_nconsts=cond_nconsts, body_nconsts=body_nconsts)
    return jaxpr_of(partial(run_while, **params), avals, "while")


def plain_replay(*, body, num_consts, mask, slots):
    """The linear side of one, forward: a scan."""
    tangents = [tangent_aval(a) for a, m in zip(body.in_avals, mask, strict=True) if m]
    params = dict(body=body, num_consts=num_consts, mask=mask, slots=slots)
    avals = [index_aval, *body.in_avals, *tangents]
    return jaxpr_of(partial(replay_forward, **params), avals, "replay")


inline_rules |= {
    checkpointed_while_p: plain_while,
    replay_p: plain_replay,
    custom_jvp_p: called_function,
    custom_vjp_p: called_function,
    custom_vmap_p: called_function,
    linear_solve_p: solution,
    checkpoint_p: unless_computed_again,
}


def lower_checkpoint(walk, eqn):
    call_program(walk, eqn, eqn.params["jaxpr"], "checkpoint")


def borrowed(out, index, running, first, x):
    """The row of `borrow`: an idle lane has the element of the first that runs."""
    axis, last = len(running.shape) - 1, as_index(running.shape[-1] - 1)
    before, lane = index[:axis], index[axis]
    chosen = op("select", running[(*before, lane)], lane, as_index(first[before]))
    # It is in bounds; now the indices' own arithmetic can see that.
    chosen = op("min", op("max", chosen, as_index(0)), last)
    return x[(*before, chosen, *index[axis + 1 :])]


def with_own_inputs(jaxpr):
    """A jaxpr in which no lane borrows, where what idle lanes compute is thrown away.

    So it is where what was borrowed leads, lane by lane, only to `select`s by the
    same lanes.  To compute on is then cheaper than to look for a lane that runs.
    """
    if not any(eqn.primitive is borrow_p for eqn in jaxpr.eqns):
        return jaxpr
    kept, masks = {eqn: lanes_kept(eqn) for eqn in jaxpr.eqns}, {}
    for eqn in jaxpr.eqns:
        if eqn.primitive is broadcast_in_dim_p:
            x, = eqn.invars
            if kept[eqn].get(x) == x.aval.ndim:
                masks[eqn.outvars[0]] = masks.get(x, x)
    # variable -> the masks in whose lanes alone it matters.
    matters, own = dict.fromkeys(jaxpr.outvars, frozenset()), {}
    for eqn in reversed(jaxpr.eqns):
        found = [matters[v] for v in eqn.outvars if v in matters]
        here = frozenset.intersection(*found) if found else frozenset()
        if eqn.primitive is borrow_p and eqn.invars[0] in here:
            own[eqn.outvars[0]] = eqn.invars[2]
        for n, x in enumerate(eqn.invars):
            if isinstance(x, Var):
                depth = kept[eqn].get(x, 0)
                lanes = {m for m in here if m.aval.ndim <= depth}
                if eqn.primitive is select_n_p and n == 2:
                    lanes.add(masks.get(eqn.invars[0], eqn.invars[0]))
                matters[x] = frozenset(lanes) & matters.get(x, lanes)
    eqns = []
    for eqn in jaxpr.eqns:
        invars = tuple(own.get(x, x) if isinstance(x, Var) else x for x in eqn.invars)
        if not own.keys().isdisjoint(eqn.outvars):
            own[eqn.outvars[0]] = invars[2]
        else:
            eqns.append(eqn.replace(invars=invars))
    outvars = tuple(own.get(x, x) if isinstance(x, Var) else x for x in jaxpr.outvars)
    return jaxpr.replace(eqns=tuple(eqns), outvars=outvars)


def lanes_kept(eqn):
    """{operand: how many of an element's first indices are those of the result's}."""
    if len(eqn.outvars) != 1 or not (row := row_of(eqn)).by_element:
        return {}
    index, kept = tuple(map(Axis, eqn.outvars[0].aval.shape)), {}
    for e in postorder([row.at(eqn, index)]):
        if type(e) is At:
            same = [i is j for i, j in zip(e.index, index, strict=False)]
            count = same.index(False) if False in same else len(same)
            kept[e.var] = min(kept.get(e.var, count), count)
    return kept


expansions |= {"with_own_inputs": with_own_inputs}
lower_rules |= {
    add_any_p: one_operation("add"),
    name_p: Elements(lambda out, index, x, *, name: x[index], 0),
    checkpoint_p: Statements(lower_checkpoint),
    borrow_p: Elements(borrowed),
}
lower_rules |= {stop_gradient_p: Elements(lambda out, index, x: x[index], 0)}
fallbacks |= {
    custom_linear_p: "only its transpose exists: running it says so",
    debug_callback_p: "it calls back into Python",
}
fallbacks |= dict.fromkeys(
    (cond_p, scan_p, while_p, treeverse_p),
    "the loop or branch itself is driven from Python",
)
fallbacks |= dict.fromkeys(
    (inject_p, project_p, every_p, select_lanes_p, spread_p, sum_lanes_p, zero_p),
    "tapes and unions are left to Python",
)
