"""Loops reversed by running them again: `while_loop(..., reverse="checkpoint")`.

    while_loop(cond_fun, body_fun, init, reverse="checkpoint", slots=4)

A tape holds the residuals of every step.  A checkpointed loop holds `slots` carries:
the forward pass only counts its steps, and the backward pass runs parts of the loop
again from the carries that it holds.  With s slots and at most t runs of each step,
binomial(s + t, s) steps can be reversed (Griewank and Walther's *treeverse*).

The linear side is the equation `replay`, and its transpose the equation `treeverse`.
Derivatives of these two (second order) take tapes of the carries.
"""

from math import comb

import numpy as np

from ...trace.array import shape_rules
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.memory import memoised
from ..closed_jaxprs import apply_closed, fill, present
from ..derivatives.linearize import add_tangents, linearize_rules
from ..derivatives.transpose import transpose_rules
from ..pieces import as_whole, compiled, jaxpr_of, none_of, split
from ..tangents import dense, tangent_aval
from .api import reverse_modes
from .joint_loops import jvp_body
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
    left, with a slot less, and is long enough to need all its runs.  It is arithmetic
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
