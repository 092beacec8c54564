"""Branches and loops under `vmap`.

Where all lanes decide alike, a branch or a loop is one of all lanes.  Where each lane
decides for itself, all branches run that some lane takes, and a loop runs as long as
some lane does.  Lanes that wait *borrow* the inputs of one that runs: what they compute
is legal, and is thrown away.
"""

from dataclasses import replace

import numpy as np

from ...trace import primitives as lax
from ...trace.array import ArrayImpl, ShapedArray, aval_of, shape_rules, to_numpy
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.jaxpr import has_effect
from ...trace.jaxprs.memory import memoised
from ..batching.vmap import (
    at_front,
    batch_jaxpr,
    batch_rules,
    in_front,
    lanes_at,
    move_axis,
)
from ..closed_jaxprs import apply_closed
from ..derivatives.linearize import linearize_rules
from ..pieces import index_aval, int32, jaxpr_of, split
from ..tangents import zeros
from .batching_of_tapes import every_case, select_arrays, select_lanes, spread_p
from .branches import cond_p
from .steps import fixpoint
from .tape_rules import zero_p
from .unions_and_tapes import Union, inject, inject_p, project
from .while_and_scan import Loop, While, scan_p, while_p

# ---- lanes that wait

borrow_p = Primitive("borrow")


def borrow(running, x):
    """x, where each lane that is not `running` has the values of the first that is.

    A lane that waits for others still computes; with a running lane's inputs it
    computes something legal, and no NaN gets into sums over lanes.
    """
    return borrow_p.bind(running, x) if isinstance(aval_of(x), ShapedArray) else x


def borrow_where(running, values, axes):
    """Values, those that have lanes (axis 0, or else None) borrowed."""
    pairs = zip(values, axes, strict=True)
    return [x if axis is None else borrow(running, x) for x, axis in pairs]


def in_front_where(lanes, values, axes, wanted):
    """Values with their lanes on axis 0 where an axis is wanted, the others as is."""
    return [
        x if w is None else lanes_at(x, axis, 0, lanes.size)
        for x, axis, w in zip(values, axes, wanted, strict=True)
    ]


def front(axes):
    """Lanes on axis 0 wherever there are any: one axis a value, or None."""
    return tuple(None if axis is None else 0 for axis in axes)


def borrow_eval(running, x):
    aval, running, x = aval_of(x), to_numpy(running), to_numpy(x)
    if not running.size:
        return ArrayImpl(x, aval)
    first = running.argmax(-1)[..., None]
    lanes = np.where(running, np.arange(running.shape[-1]), first)
    lanes = lanes.reshape(lanes.shape + (1,) * (x.ndim - running.ndim))
    borrowed = np.take_along_axis(x, lanes, running.ndim - 1)
    return ArrayImpl(np.ascontiguousarray(borrowed), aval)


def borrow_linearize(nonzero, running, x):
    """Tangents of idle lanes do not count: they are zero."""

    def linear(_, t):
        return select_arrays(running, t, zeros(aval_of(t))) if t is not None else None

    return borrow(running, x), linear


shape_rules |= {borrow_p: lambda running, x: x}
eval_rules |= {borrow_p: borrow_eval}
linearize_rules |= {borrow_p: borrow_linearize}
batch_rules |= in_front(borrow_p)


# ---- cond


def cond_batch(lanes, axes, index, *operands, branches):
    """A shared index: a cond of batched branches.  One index a lane: all branches that
    some lane takes, and then a choice lane by lane."""
    index_axis, operand_axes = axes[0], tuple(axes[1:])
    n = len(branches[0].out_avals)
    if index_axis is None:
        found = [batch_jaxpr(b, lanes, operand_axes, ("any",) * n)[1] for b in branches]
        wanted = tuple(
            None if all(a is None for a in column) else 0
            for column in zip(*found, strict=True)
        )
        batched = [batch_jaxpr(b, lanes, operand_axes, wanted)[0] for b in branches]
        return cond_p.bind(index, *operands, branches=tuple(batched)), wanted
    index = move_axis(index, index_axis, 0)
    columns = [
        run_in_some_lanes(lanes, k, index, operands, operand_axes, branch)
        for k, branch in enumerate(branches)
    ]
    tags = [[case_made(b, i) for b in branches] for i in range(n)]
    pairs = zip(zip(*columns, strict=True), tags, strict=True)
    outs = [choose_by_lane(index, column, made) for column, made in pairs]
    return outs, [0] * n


def run_in_some_lanes(lanes, k, index, operands, axes, branch):
    """Branch k in all lanes, if some lane takes it; lanes that do not borrow a lane's
    operands that does, so that nothing illegal is computed."""
    taken = lax.eq(index, lax.full_like(index, k))
    wanted = front(axes)
    operands = in_front_where(lanes, operands, axes, wanted)
    closed, _ = batch_jaxpr(branch, lanes, wanted, (0,) * len(branch.out_avals))
    is_taken = lax.convert(lax.reduce_or(taken, (0,)), int32)
    if not any(map(has_effect, branch.jaxpr.eqns)):  # Else it tells what it is given.
        operands = borrow_where(taken, operands, wanted)
    return cond_p.bind(is_taken, *operands, branches=(idle_branch(closed), closed))


@memoised
def idle_branch(closed):
    """A branch of the same type that computes nothing."""
    return jaxpr_of(
        lambda *args: [zeros(a) for a in closed.out_avals], closed.in_avals, "idle"
    )


def choose_by_lane(index, column, made):
    """One result a branch, each in all lanes: every lane gets that of its branch.

    Of a Union, `made` says which case each branch makes; see `case_made`.
    """
    aval = aval_of(column[0])
    if isinstance(aval, Union):
        cases = range(len(aval.cases))
        return every_case(*[choose_case(index, k, column, made) for k in cases])
    return choose_values(index, list(enumerate(column)))


def choose_values(index, numbered):
    """The values of the branch that each lane took, out of (branch, values) pairs."""
    (_, result), *others = numbered
    for k, y in others:
        result = select_lanes(lax.eq(index, lax.full_like(index, k)), y, result)
    return result


def choose_case(index, case, column, made):
    """A Union whose values for one case are right in each lane that is of that case."""
    aval = Union(aval_of(column[0]).cases)
    makers = [k for k, c in enumerate(made) if c in (case, None)]
    if len(makers) < 2:
        return column[makers[0]] if makers else zeros(aval)
    values = zip(*[project(case, column[k]) for k in makers], strict=True)
    pairs = [list(zip(makers, vs, strict=True)) for vs in values]
    return inject(case, aval, [choose_values(index, p) for p in pairs])


def case_made(closed, i):
    """Which case of a Union a branch returns as its i-th result: -1 for a zero, None
    where the branch does not say."""
    made = {v: eqn for eqn in closed.eqns for v in eqn.outvars}
    eqn = made.get(closed.jaxpr.outvars[i])
    while eqn is not None and eqn.primitive is spread_p:
        eqn = made.get(eqn.invars[0])
    if eqn is None or eqn.primitive not in (inject_p, zero_p):
        return None
    return eqn.params.get("case", -1)


batch_rules |= {cond_p: cond_batch}


# ---- loops that all lanes leave together


def batch_body(body, lanes, consts, carry, xs=()):
    """The body of a loop in lanes.

    `consts`, `carry` and `xs` are the axes of their lanes when the loop begins; None
    where there are none.

    Returns:
      (batched body, the axes of its carry, those of its ys): 0 or None each.
    """
    rest = ("any",) * (len(body.out_avals) - len(carry))

    def batched(mask):
        wanted = tuple(0 if m else "any" for m in mask) + rest
        inputs = consts + tuple(0 if m else None for m in mask) + xs
        return batch_jaxpr(body, lanes, inputs, wanted)

    def step(mask):
        return [axis is not None for axis in batched(mask)[1][: len(carry)]]

    mask = fixpoint(step, tuple(axis is not None for axis in carry))
    new, axes = batched(mask)
    carry, ys = tuple(0 if m else None for m in mask), front(axes[len(carry) :])
    if axes != carry + ys:
        # What each step returns has its lanes elsewhere.
        new, _ = batch_jaxpr(body, lanes, consts + carry + xs, carry + ys)
    return new, carry, ys


def scan_batch(lanes, axes, *args, **params):
    loop = Loop(**params)
    steps, consts, carry, xs = loop.split(args)
    step_axes, const_axes, carry_axes, x_axes = map(tuple, loop.split(axes))
    xs, x_axes = step_lanes(xs, x_axes)
    if step_axes and step_axes[0] is not None:
        steps = move_axis(steps[0], step_axes[0], 0)
        return scan_batch_counts(
            lanes, loop, steps, consts, carry, xs, (const_axes, carry_axes, x_axes)
        )
    body, wanted, y_axes = batch_body(loop.jaxpr, lanes, const_axes, carry_axes, x_axes)
    carry = in_front_where(lanes, carry, carry_axes, wanted)
    outs = replace(loop, jaxpr=body).bind(steps, consts, carry, xs)
    ys = zip(outs[len(carry) :], y_axes, strict=True)
    return outs, [*wanted, *(stack_axis(aval_of(y), axis) for y, axis in ys)]


def stack_axis(aval, axis):
    """Lanes of a stacked array come after its steps; within a Tape they are first."""
    return 1 if axis is not None and isinstance(aval, ShapedArray) else axis


def step_lanes(xs, axes):
    """Stacked arrays with their steps first; -> (xs, the lanes' axis in one step)."""
    moved = [
        move_axis(x, axis, 1)
        if axis is not None and isinstance(aval_of(x), ShapedArray)
        else x
        for x, axis in zip(xs, axes, strict=True)
    ]
    return moved, front(axes)


# ---- loops that each lane leaves by itself


def scan_batch_counts(lanes, loop, counts, consts, carry, xs, axes):
    """A trip count a lane: run to the longest; a lane that is through stays put."""
    const_axes, carry_axes, x_axes = axes
    n, n_consts, n_carry = len(loop.jaxpr.out_avals), len(consts), len(carry)
    in_axes = const_axes + (0,) * n_carry + x_axes
    body, _ = batch_jaxpr(loop.jaxpr, lanes, in_axes, (0,) * n)

    def step(counts, *values):  # counts, consts, i, carry, xs -> i, carry, ys
        consts, (i, *carry), xs = split(values, n_consts, 1 + n_carry)
        i = lax.sub(i, 1) if loop.reverse else i
        outs = apply_closed(body, *consts, *carry, *xs)
        active = lax.lt(lax.broadcast(i, aval_of(counts).shape), counts)
        pairs = zip(outs, carry, strict=False)
        kept = [select_lanes(active, new, old) for new, old in pairs]
        return [i if loop.reverse else lax.add(i, 1), *kept, *outs[n_carry:]]

    of_consts, of_rest = split(body.in_avals, n_consts)
    avals = [aval_of(counts).strip_weak_type(), *of_consts, index_aval, *of_rest]
    longest = lax.reduce_max(counts, (0,))
    start = longest if loop.reverse else lax.full((), 0, int32)
    carry = [start, *at_front(lanes, carry, carry_axes)]
    by_lane = Loop(jaxpr_of(step, avals, "lanes"), reverse=loop.reverse)
    outs = by_lane.bind([longest], [counts, *consts], carry, xs)
    return outs[1:], [0] * n


batch_rules |= {scan_p: scan_batch}


def while_batch(lanes, axes, *args, **params):
    loop = While(**params)
    cond_consts, consts, carry = loop.split(args)
    cond_axes, const_axes, carry_axes = map(tuple, loop.split(axes))
    body, wanted, y_axes = batch_body(loop.body_jaxpr, lanes, const_axes, carry_axes)
    test_axes = cond_axes + wanted
    test, (test_axis,) = batch_jaxpr(loop.cond_jaxpr, lanes, test_axes, ("any",))
    if test_axis is not None:
        consts = in_front_where(lanes, consts, const_axes, const_axes)
        carry = at_front(lanes, carry, carry_axes)
        return while_batch_lanes(
            lanes, loop, cond_consts, consts, carry, cond_axes, front(const_axes)
        )
    carry = in_front_where(lanes, carry, carry_axes, wanted)
    loop = replace(loop, cond_jaxpr=test, body_jaxpr=body)
    outs = loop.bind(cond_consts, consts, carry)
    return outs, [*wanted, *((None, *y_axes) if loop.stack else ())]


def while_batch_lanes(lanes, loop, cond_consts, consts, carry, cond_axes, const_axes):
    """A predicate a lane: as long as one lane runs.  Lanes that are through keep their
    carry, and borrow a running lane's inputs for what is computed all the same."""
    n, in_front = len(carry), (0,) * len(carry)
    test, _ = batch_jaxpr(loop.cond_jaxpr, lanes, cond_axes + in_front, (0,))
    outs = (0,) * len(loop.body_jaxpr.out_avals)
    body, _ = batch_jaxpr(loop.body_jaxpr, lanes, const_axes + in_front, outs)

    def any_lane(*values):  # cond_consts, carry, counts -> whether a lane runs
        running, = apply_closed(test, *values[:-1])
        return [lax.reduce_or(running, (0,))]

    def step(*values):  # cond_consts, consts, carry, counts -> carry, counts, ys
        sizes = len(cond_consts), len(consts), n
        of_test, of_body, states, (counts,) = split(values, *sizes)
        running, = apply_closed(test, *of_test, *states)
        given = borrow_where(running, of_body + states, const_axes + in_front)
        outs = apply_closed(body, *given)
        pairs = zip(outs, states, strict=False)
        kept = [select_lanes(running, new, old) for new, old in pairs]
        return [*kept, lax.add(counts, lax.convert(running, int32)), *outs[n:]]

    counts_aval = ShapedArray((lanes.size,), int32)
    avals = [*test.in_avals[: len(cond_consts)], *body.in_avals, counts_aval]
    by_lane = While(
        jaxpr_of(any_lane, [*test.in_avals, counts_aval], "cond"),
        jaxpr_of(step, avals, "body"),
        stack=loop.stack,
    )
    counts = lax.full((lanes.size,), 0, int32)
    outs = by_lane.bind(cond_consts, cond_consts + consts, [*carry, counts])
    # The count of each lane takes the place of the count of the loop.
    carry, counts, _, tapes = split(outs, n, 1, loop.stack)
    outs = carry + (counts + tapes if loop.stack else [])
    return outs, [0] * len(outs)


batch_rules |= {while_p: while_batch}
