"""Loops reversed by running them again: `while_loop(..., reverse="checkpoint")`.

    while_loop(cond_fun, body_fun, init, reverse="checkpoint", slots=4)

A tape holds the residuals of every step.  A checkpointed loop holds `slots` carries:
the forward pass only counts its steps, and the backward pass runs parts of the loop
again from the carries that it holds.  With s slots and at most t runs of each step,
binomial(s + t, s) steps can be reversed (Griewank and Walther's *treeverse*).

The linear side is the equation `replay`, and its transpose the equation `treeverse`.
Derivatives of these two (second order), and their lanes, take tapes.
"""

from functools import partial
from math import comb

from ..trace.array import aval_of, eval_rules, shape_rules
from ..trace.core import Primitive
from ..trace.jaxpr import ClosedJaxpr
from .batching import batch_jaxpr, batch_rules
from .control_flow import (
    SHARED,
    compiled,
    instantiate_carry,
    jaxpr_of,
    jvp_body,
    linearize_body,
    reverse_modes,
    scan_p,
    split,
    transpose_body,
    while_batch,
    while_joint,
    while_p,
)
from .linearize import (
    add_tangents,
    apply_closed,
    call_rule,
    fill,
    joint_rules,
    linearize_rules,
    memoised,
    present,
    tangent_aval,
    zeros,
)
from .transpose import transpose_rules

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
    """How far to go before the next carry is held, so that nothing is wasted."""
    t = runs_of_each_step(steps, slots)
    before = steps - comb(slots - 1 + t - 1, t - 1)
    return min(comb(slots + t - 1, slots), before)


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


def joint_while(primals, tangents, *, slots, **params):
    return while_joint(primals, tangents, stack=False, **params)


def checkpointed_batch(lanes, axes, *args, slots, **params):
    """The batched loop of chapter 9, which is to be reversed in this way too."""
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


def checkpointed_linearize(nonzero, *args, slots, **params):
    """Forward: the loop, and how many steps it took.  Linear: `replay`."""
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    body = params["body_jaxpr"]
    _, consts, carry = split(args, nc, nb)
    *outs, count = while_p.bind(*args, stack=True, **params)
    parts = linearize_body(body, tuple(nonzero[nc:]), nb, len(carry))
    mask = tuple(nonzero[nc : nc + nb]) + parts.nonzero_carry

    def linear(*tangents):
        _, of_consts, of_carry = split(tangents, nc, nb)
        of_carry = instantiate_carry(carry, of_carry, parts.nonzero_carry)
        given = (count, *consts, *carry, *present(of_consts), *present(of_carry))
        rest = dict(num_consts=nb, mask=mask, slots=slots)
        return fill(parts.nonzero_carry, replay_p.bind(*given, body=body, **rest))

    return outs, linear


shape_rules |= {
    checkpointed_while_p: lambda *avals, body_jaxpr, **rest: body_jaxpr.out_avals
}
eval_rules |= {checkpointed_while_p: run_while}
joint_rules |= {checkpointed_while_p: joint_while}
linearize_rules |= {checkpointed_while_p: checkpointed_linearize}
batch_rules |= {checkpointed_while_p: checkpointed_batch}


# ---- its linear side, forward: values and tangents go through the loop together
#
# Operands: count, consts, carry, tangents of consts and of the carry (the nonzero).


def replay_forward(count, *args, body, num_consts, mask, slots):
    n, n_tangents = len(body.out_avals), sum(mask[:num_consts])
    consts, carry, of_consts, of_carry = split(args, num_consts, n, n_tangents)
    joint, _, _ = jvp_body(body, mask, num_consts, n)
    outs = scan_p.bind(
        *(count, *consts, *of_consts, *carry, *of_carry),
        jaxpr=joint,
        length=None,
        reverse=False,
        num_consts=num_consts + n_tangents,
        num_carry=n + len(of_carry),
        unroll=1,
    )
    return outs[n:]


def replay_shape(*avals, body, num_consts, mask, slots):
    return carry_tangents(body, num_consts, mask)


def carry_tangents(body, num_consts, mask):
    """The types of the nonzero tangents of the carry."""
    avals = zip(body.in_avals, mask, strict=True)
    return [tangent_aval(a) for a, m in list(avals)[num_consts:] if m]


def replay_transpose(cts, accs, *args, body, num_consts, mask, slots):
    """Backward: sums for the consts, and the cotangents of the carry."""
    n_sums = sum(mask[:num_consts])
    known, of_consts, of_carry = split(args, 1 + len(mask), n_sums)
    _, const_accs, carry_accs = split(accs, len(known), n_sums)
    start = [
        zeros(x.aval) if a is None else a
        for x, a in zip(of_consts, const_accs, strict=True)
    ]
    avals = carry_tangents(body, num_consts, mask)
    cts = [zeros(a) if c is None else c for c, a in zip(cts, avals, strict=True)]
    params = dict(body=body, num_consts=num_consts, mask=mask, slots=slots)
    outs = treeverse_p.bind(*known, *start, *cts, **params)
    sums, of_carry = split(outs, n_sums)
    return [None] * len(known) + sums + list(map(add_tangents, carry_accs, of_carry))


shape_rules |= {replay_p: replay_shape}
eval_rules |= {replay_p: replay_forward}
transpose_rules |= {replay_p: replay_transpose}


# ---- backward
#
# Operands: count, consts, carry, sums for consts, cotangents of the last carry.


@memoised
def backward_parts(body, num_consts, mask):
    """A linearized body and its transpose: -> (parts, transposed body)."""
    parts = linearize_body(body, mask, num_consts, len(body.out_avals))
    n_shared = sum(kind in SHARED for kind, _ in parts.places)
    n_sums, stepwise = sum(mask[:num_consts]), len(parts.places) - n_shared
    linear = (False,) * n_shared + (True,) * n_sums
    args = n_shared + n_sums, sum(parts.nonzero_carry), linear, (False,) * stepwise, ()
    return parts, transpose_body(parts.linear, *args)


def shared_residuals(parts, consts):
    """The residuals that are the same in every step."""
    hoisted = apply_closed(parts.hoisted, *consts) if parts.hoisted.out_avals else []
    where = {"const": consts, "hoisted": hoisted}
    return [where[kind][i] for kind, i in parts.places if kind in SHARED]


@memoised
def one_step_back(body, num_consts, mask):
    """Shared residuals, consts, the carry before a step, sums, cotangents after it
    -> sums, cotangents before it."""
    parts, transposed = backward_parts(body, num_consts, mask)
    n, n_sums = len(body.out_avals), sum(mask[:num_consts])
    n_shared = sum(kind in SHARED for kind, _ in parts.places)

    def back(*args):
        shared, consts, carry, sums, cts = split(args, n_shared, num_consts, n, n_sums)
        kept = apply_closed(parts.forward, *consts, *carry)[n:]
        stepwise = [kept[i] for kind, i in parts.places if kind == "step"]
        return apply_closed(transposed, *shared, *sums, *cts, *stepwise)

    shared = transposed.in_avals[:n_shared]
    sums = transposed.out_avals
    return jaxpr_of(back, [*shared, *body.in_avals, *sums], "step back")


def run_treeverse(count, *args, body, num_consts, mask, slots):
    """The backward pass with `slots` carries held: a Python loop over the schedule."""
    consts, carry, given = split(args, num_consts, len(body.out_avals))
    parts, _ = backward_parts(body, num_consts, mask)
    shared = shared_residuals(parts, consts)
    step, step_back = compiled(body), compiled(one_step_back(body, num_consts, mask))

    def advance(carry, n):
        for _ in range(n):
            carry = step(*consts, *carry)
        return carry

    def back(carry):
        given[:] = step_back(*shared, *consts, *carry, *given)

    reverse_steps(advance, back, carry, int(count), slots)
    return given


def treeverse_by_tape(count, *args, body, num_consts, mask, slots):
    """The same as two loops and the tapes between them."""
    n, n_sums = len(body.out_avals), sum(mask[:num_consts])
    consts, carry, sums, cts = split(args, num_consts, n, n_sums)
    parts, transposed = backward_parts(body, num_consts, mask)
    params = dict(length=None, unroll=1)
    sizes = dict(num_consts=num_consts, num_carry=n)
    given = count, *consts, *carry
    kept = scan_p.bind(*given, jaxpr=parts.forward, reverse=False, **sizes, **params)
    stepwise = [kept[n + i] for kind, i in parts.places if kind == "step"]
    shared = shared_residuals(parts, consts)
    sizes = dict(num_consts=len(shared), num_carry=len(sums) + len(cts))
    given = count, *shared, *sums, *cts, *stepwise
    return scan_p.bind(*given, jaxpr=transposed, reverse=True, **sizes, **params)


def treeverse_shape(*avals, body, num_consts, mask, slots):
    return list(avals[1 + len(mask) :])


shape_rules |= {treeverse_p: treeverse_shape}
eval_rules |= {treeverse_p: run_treeverse}


# ---- second derivatives and lanes of both: by tapes


def linearize_as(function, nonzero, *args, **params):
    """The derivative of a primitive that does what a function of others does."""
    avals = list(map(aval_of, args))
    closed = jaxpr_of(partial(function, **params), avals, "reverse")
    return call_rule(tuple(nonzero), *args, name="reverse", jaxpr=closed)


def batch_as(function, lanes, axes, *args, **params):
    avals = [
        a if axis is None else a.update(shape=a.shape[:axis] + a.shape[axis + 1 :])
        for a, axis in zip(map(aval_of, args), axes, strict=True)
    ]
    closed = jaxpr_of(partial(function, **params), avals, "reverse")
    wanted = ("any",) * len(closed.out_avals)
    batched, out_axes = batch_jaxpr(closed, lanes, tuple(axes), wanted)
    return apply_closed(batched, *args), out_axes


linearize_rules |= {
    replay_p: partial(linearize_as, replay_forward),
    treeverse_p: partial(linearize_as, treeverse_by_tape),
}
batch_rules |= {
    replay_p: partial(batch_as, replay_forward),
    treeverse_p: partial(batch_as, treeverse_by_tape),
}


# ---- the mode of `while_loop`


def checkpoint_mode(slots):
    """`slots` carries are held at once: 8 unless it is said."""
    slots = 8 if slots is None else slots
    if not isinstance(slots, int) or slots < 1:
        raise ValueError(f"while_loop: slots must be a positive integer, got {slots!r}")
    return checkpointed_while_p, {"slots": slots}


reverse_modes |= {"checkpoint": checkpoint_mode}
