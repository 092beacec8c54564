"""Loops reversed by running them again: `while_loop(..., reverse="checkpoint")`.

    while_loop(cond_fun, body_fun, init, reverse="checkpoint", slots=4)

A tape holds the residuals of every step.  A checkpointed loop holds `slots` carries:
the forward pass only counts its steps, and the backward pass runs parts of the loop
again from the carries that it holds.  With s slots and at most t runs of each step,
binomial(s + t, s) steps can be reversed (Griewank and Walther's *treeverse*).

The linear side is the equation `replay`, and its transpose the equation `treeverse`.
Derivatives of these two (second order) take tapes of the carries.
"""

from functools import partial
from math import comb

import numpy as np

from ...trace import primitives as lax
from ...trace.array import aval_of, shape_rules
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.jaxpr import ClosedJaxpr
from ...trace.jaxprs.memory import memoised
from ..batching.vmap import batch_jaxpr, batch_rules, move_axis, without_axis
from ..closed_jaxprs import apply_closed, fill, present
from ..derivatives.linearize import (
    add_tangents, call_rule, joint_rules, linearize_rules,
)
from ..derivatives.transpose import transpose_rules
from ..pieces import as_whole, compiled, index_aval, int32, jaxpr_of, none_of, split
from ..tangents import dense, tangent_aval
from .api import reverse_modes
from .batching import borrow_where, front, in_front_where, select_lanes, while_batch
from .joint_loops import jvp_body, while_joint
from .steps import MOST_STEPS, SHARED, instantiate_carry, linearize_body
from .while_and_scan import Loop, While, transpose_body, while_p

# ---- one step back


@memoised
def backward_parts(body, num_consts, mask):
    """A linearized body and its transpose: -> (parts, transposed body)."""
    of_consts, of_carry = mask[:num_consts], mask[num_consts:]
    parts = linearize_body(body, of_consts, of_carry, ())
    n_shared = sum(kind in SHARED for kind, _ in parts.places)
    linear_consts = none_of(n_shared) + (True,) * sum(of_consts)
    linear_xs, n_carry = none_of(len(parts.places) - n_shared), sum(parts.nonzero_carry)
    return parts, transpose_body(parts.linear, n_carry, linear_consts, linear_xs, ())


@memoised
def one_step_back(body, num_consts, mask):
    """Shared residuals, consts, sums, cotangents after a step, the carry before it
    -> sums, cotangents before it."""
    parts, transposed = backward_parts(body, num_consts, mask)
    given = transposed.out_avals
    n_shared = sum(kind in SHARED for kind, _ in parts.places)

    def back(*args):
        sizes = n_shared, num_consts, len(given)
        shared, consts, given_now, carry = split(args, *sizes)
        _, kept = split(apply_closed(parts.forward, *consts, *carry), len(carry))
        stepwise = parts.stepwise([], kept)
        return apply_closed(transposed, *shared, *given_now, *stepwise)

    consts, carry = split(body.in_avals, num_consts)
    shared = transposed.in_avals[:n_shared]
    return jaxpr_of(back, [*shared, *consts, *given, *carry], "step back")


def carry_tangents(body, num_consts, mask):
    """The types of the nonzero tangents of the carry."""
    pairs = list(zip(body.in_avals, mask, strict=True))
    return [tangent_aval(a) for a, m in pairs[num_consts:] if m]


# chapter 13
checkpointed_while_p = Primitive("checkpointed_while", multiple_results=True)
replay_p = Primitive("replay", multiple_results=True)
treeverse_p = Primitive("treeverse", multiple_results=True)


# ---- the schedule


def runs_of_each_step(steps, slots):
    """The least t for which binomial(slots + t, slots) >= steps."""
    t = 0
    while comb(slots + t, slots) < steps:
        t += 1
    return t


def extra_steps(steps, slots):
    """How many steps the backward pass runs forward, just to get somewhere."""
    t = runs_of_each_step(steps, slots)
    return t * steps - comb(slots + t, t - 1) if t else 0


def next_checkpoint(steps, slots):
    """How far to go, of two steps or more, before the next carry is held.

    So that nothing is wasted: what was passed can be reversed with a run less; what is
    left, with a slot less, and is long enough to need a run less.  It is arithmetic
    only, so native code can ask too.
    """
    t, shorter, reach = 0, 0, 1  # reach: binomial(slots + t, slots)
    while reach < steps:
        t += 1
        shorter, reach = reach, reach * (slots + t) // t
    # binomial(slots + t - 2, slots - 1): what is left is no shorter than this.
    both_less = shorter * slots // (slots + t - 1)
    return min(shorter, steps - both_less)


def reverse_steps(advance, back, state, steps, slots):
    """Go backward through `steps` steps, with at most `slots` states held.

    Args:
      advance: (state, n) -> the state n steps later.
      back: called with the state before each step, the last step first.
    """
    if steps == 1:
        back(state)
    elif steps > 1:
        n = next_checkpoint(steps, slots)
        reverse_steps(advance, back, advance(state, n), steps - n, max(slots - 1, 1))
        reverse_steps(advance, back, state, n, slots)


# ---- the loop itself: a while loop, but for its derivative


def run_while(*args, slots, **params):
    return while_p.bind(*args, stack=False, **params)


def checkpointed_linearize(nonzero, *args, slots, **params):
    """Forward: the loop, and how many steps it took.  Linear: `replay`."""
    loop = While(**params, stack=True)
    cond_consts, consts, carry = loop.split(args)
    _, const_mask, carry_mask = map(tuple, loop.split(nonzero))
    *outs, count = loop.bind(cond_consts, consts, carry)
    body = loop.body_jaxpr
    nonzero_carry = linearize_body(body, const_mask, carry_mask, ()).nonzero_carry
    params = dict(num_consts=len(consts), mask=const_mask + nonzero_carry, slots=slots)

    def linear(*tangents):
        _, of_consts, of_carry = loop.split(tangents)
        of_carry = instantiate_carry(carry, of_carry, nonzero_carry)
        given = *consts, *carry, *present(of_consts), *present(of_carry)
        return fill(nonzero_carry, replay_p.bind(count, *given, body=body, **params))

    return outs, linear


shape_rules |= {
    checkpointed_while_p: lambda *avals, body_jaxpr, **rest: body_jaxpr.out_avals
}
eval_rules |= {checkpointed_while_p: run_while}
linearize_rules |= {checkpointed_while_p: checkpointed_linearize}


# ---- backward
#
# Operands: count; shared residuals and consts; sums for consts and cotangents of the
# last carry; the carry.  `back`, of one step, takes the same but for the count.


def operands(args, body, back):
    """The operands of `back`: -> (shared, consts, given, carry)."""
    n_carry, n_given = len(body.out_avals), len(back.out_avals)
    n_consts = len(body.in_avals) - n_carry
    return split(args, len(args) - n_consts - n_given - n_carry, n_consts, n_given)


def run_treeverse(count, *args, body, back, slots):
    """The backward pass with `slots` carries held: a Python loop over the schedule."""
    shared, consts, given, carry = operands(args, body, back)
    step, step_back = compiled(body), compiled(back)

    def advance(carry, n):
        for _ in range(n):
            carry = step(*consts, *carry)
        return carry

    def go_back(carry):
        given[:] = step_back(*shared, *consts, *given, *carry)

    reverse_steps(advance, go_back, carry, int(count), slots)
    return given


def treeverse_shape(*avals, body, back, slots):
    return back.out_avals


shape_rules |= {treeverse_p: treeverse_shape}
eval_rules |= as_whole(treeverse_p, run_treeverse)


# chapter 13, brought along

# ---- its linear side, forward: values and tangents go through the loop together
#
# Operands: count, consts, carry, tangents of consts and of the carry (the nonzero).


def replay_forward(count, *args, body, num_consts, mask, slots):
    n, of_consts = len(body.out_avals), mask[:num_consts]
    consts, carry, t_consts, t_carry = split(args, num_consts, n, sum(of_consts))
    joint, _, _ = jvp_body(body, of_consts, mask[num_consts:], ())
    return Loop(joint).bind([count], consts + t_consts, carry + t_carry, [])[n:]


def replay_shape(*avals, body, num_consts, mask, slots):
    return carry_tangents(body, num_consts, mask)


shape_rules |= {replay_p: replay_shape}
eval_rules |= {replay_p: replay_forward}


# ---- the transpose of that


def replay_transpose(cts, accs, *args, body, num_consts, mask, slots):
    """Backward: sums for the consts, and the cotangents of the carry."""
    n_known, n_sums = 1 + len(mask), sum(mask[:num_consts])
    known, of_consts, of_carry = split(args, n_known, n_sums)
    _, const_accs, carry_accs = split(accs, n_known, n_sums)
    (count, *consts), carry = split(known, 1 + num_consts)
    parts, _ = backward_parts(body, num_consts, mask)
    sums = dense(const_accs, [x.aval for x in of_consts])
    cts = dense(cts, carry_tangents(body, num_consts, mask))
    outs = treeverse_p.bind(
        *(count, *parts.shared(consts), *consts, *sums, *cts, *carry),
        body=body,
        back=one_step_back(body, num_consts, mask),
        slots=slots,
    )
    sums, cts = split(outs, n_sums)
    return [None] * n_known + sums + list(map(add_tangents, carry_accs, cts))


transpose_rules |= {replay_p: replay_transpose}


# ---- the mode of `while_loop`


def checkpoint_mode(slots):
    """`slots` carries are held at once: 8 unless it is said."""
    slots = 8 if slots is None else slots
    if not isinstance(slots, int | np.integer) or isinstance(slots, bool) or slots < 1:
        raise ValueError(f"while_loop: slots must be a positive integer, got {slots!r}")
    # There are no more steps than that, and native code computes with 64 bits.
    return checkpointed_while_p, {"slots": min(int(slots), MOST_STEPS)}


reverse_modes |= {"checkpoint": checkpoint_mode}


# ---- forward mode sees an ordinary loop


joint_rules |= {checkpointed_while_p: lambda primals, tangents, *, slots, **params: (
    while_joint(primals, tangents, stack=False, **params)
)}  # fmt: skip


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


# ---- all lanes go forward and back together, and what is held is held for all


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
