"""Loops that are reversed by running them again: in forward mode, twice, and in lanes.

Forward mode sees an ordinary loop.  For second derivatives `replay` and `treeverse` are
what they stand for: two scans with Tapes of the carries between them.  Under `vmap` all
lanes go forward and back together, and what is held is held for all of them.
"""

from functools import partial

from ...trace import primitives as lax
from ...trace.array import aval_of
from ...trace.jaxprs.jaxpr import ClosedJaxpr
from ...trace.jaxprs.memory import memoised
from ..batching.vmap import batch_jaxpr, batch_rules, move_axis, without_axis
from ..closed_jaxprs import apply_closed
from ..derivatives.linearize import call_rule, joint_rules, linearize_rules
from ..pieces import index_aval, int32, jaxpr_of, split
from .batching import borrow_where, front, in_front_where, while_batch
from .batching_of_tapes import select_lanes
from .checkpointed_loops import (
    checkpointed_while_p,
    operands,
    replay_forward,
    replay_p,
    treeverse_p,
)
from .joint_loops import while_joint
from .while_and_scan import Loop, while_p


def joint_while(primals, tangents, *, slots, **params):
    return while_joint(primals, tangents, stack=False, **params)


joint_rules |= {checkpointed_while_p: joint_while}


# ---- second derivatives: of the loops that these equations stand for


def linearize_as(function, nonzero, *args, **params):
    """The derivative of a primitive that does what a function of others does."""
    avals = list(map(aval_of, args))
    closed = jaxpr_of(partial(function, **params), avals, "reverse")
    return call_rule(tuple(nonzero), *args, name="reverse", jaxpr=closed)


def treeverse_by_tape(count, *args, body, back, slots):
    """The same as two loops, and between them tapes of the carries."""
    shared, consts, given, carry = operands(args, body, back)
    keep = lambda *args: [*apply_closed(body, *args), *args[len(consts) :]]
    forward = Loop(jaxpr_of(keep, body.in_avals, "keep"))
    kept = forward.bind([count], consts, carry, [])[len(carry) :]
    return Loop(back, reverse=True).bind([count], shared + consts, given, kept)


linearize_rules |= {
    replay_p: partial(linearize_as, replay_forward),
    treeverse_p: partial(linearize_as, treeverse_by_tape),
}


# ---- lanes


def checkpointed_batch(lanes, axes, *args, slots, **params):
    """The batched loop of `while_batch`, which is to be reversed in this way too."""
    found = []

    def batched(*args):
        outs, where = while_batch(lanes, axes, *args, stack=False, **params)
        found[:] = where
        return outs

    closed = jaxpr_of(batched, list(map(aval_of, args)), "lanes")
    eqns = tuple(checkpointed(eqn, slots) for eqn in closed.jaxpr.eqns)
    closed = ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    outs = apply_closed(closed, *args)
    return outs, found


def checkpointed(eqn, slots):
    """An equation as it is, a while loop as one with checkpoints."""
    if eqn.primitive is not while_p:
        return eqn
    params = {k: v for k, v in eqn.params.items() if k != "stack"}
    return eqn.replace(primitive=checkpointed_while_p, params=params | {"slots": slots})


def replay_batch(lanes, axes, *args, **params):
    avals = [
        a if axis is None else without_axis(a, axis)
        for a, axis in zip(map(aval_of, args), axes, strict=True)
    ]
    closed = jaxpr_of(partial(replay_forward, **params), avals, "reverse")
    wanted = ("any",) * len(closed.out_avals)
    batched, out_axes = batch_jaxpr(closed, lanes, tuple(axes), wanted)
    return apply_closed(batched, *args), out_axes


def treeverse_batch(lanes, axes, count, *args, body, back, slots):
    """The steps of all lanes together; what is held is held for all of them."""
    by_lane, *axes = axes
    shared, consts, given, carry = operands(args, body, back)
    known = front(axes[: len(shared) + len(consts)])
    every = (*known, *(0,) * len((*given, *carry)))
    args = in_front_where(lanes, args, axes, every)
    states = (0,) * len(carry)
    body, _ = batch_jaxpr(body, lanes, known[len(shared) :] + states, states)
    back, _ = batch_jaxpr(back, lanes, every, (0,) * len(given))
    if by_lane is not None:
        counts = move_axis(count, by_lane, 0)
        count = lax.reduce_max(counts, (0,))
        shared, consts, given, carry = operands(args, body, back)
        args = [*shared, counts, *consts, *given, lax.full((), 0, int32), *carry]
        body, back = of_lanes(body, back, known, aval_of(counts))
    outs = treeverse_p.bind(count, *args, body=body, back=back, slots=slots)
    return outs, [0] * len(outs)


@memoised
def of_lanes(body, back, known, counts):
    """(body, back) with two operands more: a const, the number of steps of each lane,
    and a carry, how many were taken.

    A lane that has taken its steps stands still, and borrows inputs of one that runs.

    Args:
      body, back: of all lanes at once; counts: the type of the numbers of steps.
      known: for each shared residual and const, the axis of its lanes or None.
    """
    of_shared, of_consts, of_given, of_carry = operands(back.in_avals, body, back)
    n_shared, n_consts = len(of_shared), len(of_consts)
    axes = known + (0,) * len(of_carry)

    def step(counts, *values):
        consts, (i, *carry) = split(values, n_consts)
        running = lax.lt(lax.broadcast(i, counts.shape), counts)
        values = borrow_where(running, [*consts, *carry], axes[n_shared:])
        pairs = zip(apply_closed(body, *values), carry, strict=True)
        return [lax.add(i, 1), *(select_lanes(running, x, old) for x, old in pairs)]

    def step_back(*values):
        pieces = split(values, n_shared, 1 + n_consts, len(of_given))
        shared, (counts, *consts), given, (i, *carry) = pieces
        running = lax.lt(lax.broadcast(i, counts.shape), counts)
        values = borrow_where(running, [*shared, *consts, *carry], axes)
        known, carry = split(values, n_shared + n_consts)
        pairs = zip(apply_closed(back, *known, *given, *carry), given, strict=True)
        return [select_lanes(running, x, old) for x, old in pairs]

    of_lane, state = [counts, *of_consts], [index_aval, *of_carry]
    return (
        jaxpr_of(step, [*of_lane, *state], "lanes"),
        jaxpr_of(step_back, [*of_shared, *of_lane, *of_given, *state], "lanes back"),
    )


batch_rules |= {
    checkpointed_while_p: checkpointed_batch,
    replay_p: replay_batch,
    treeverse_p: treeverse_batch,
}
