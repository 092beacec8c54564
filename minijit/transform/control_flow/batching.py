"""Branches and loops under `vmap`.

Where all lanes decide alike, a branch or a loop is one of all lanes.  Where each lane
decides for itself, all branches run that some lane takes, and a loop runs as long as
some lane does.  Lanes that wait *borrow* the inputs of one that runs: what they compute
is legal, and is thrown away.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from ...trace import primitives as lax
from ...trace.array import ArrayImpl, ShapedArray, aval_of, shape_rules, to_numpy
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.jaxpr import has_effect, subjaxprs
from ...trace.jaxprs.memory import memoised
from ...trace.jaxprs.parser import aval_parsers, parse_aval
from ...trace.trees.pytree import register_pytree_node_class, tree_map
from ..batching.vmap import (
    LaneType, at_front, batch_jaxpr, batch_rules, in_front, lane_types, lanes_at,
    move_axis,
)
from ..closed_jaxprs import apply_closed, present
from ..derivatives.linearize import linear_in_first, linearize_rules
from ..derivatives.transpose import adding, transpose_rules
from ..pieces import index_aval, int32, jaxpr_of, split
from ..tangents import dense, linear_in_all, tangent_aval, zeros
from .branches import cond_p
from .steps import fixpoint
from .tape_rules import pointwise, zero_p
from .unions_and_tapes import (
    Tape, Union, UnionValue, inject, inject_p, project, project_p,
)
from .while_and_scan import Loop, While, scan_p, while_p

# ---- lanes that wait

borrow_p = Primitive("borrow")


def borrow_where(running, values, axes):
    """Values, in which lanes that are not `running` have those of the first that is.

    A lane that waits for others still computes; with a running lane's inputs it
    computes something legal, and no NaN gets into sums over lanes.

    Args:
      axes: for each value 0, where its lanes are, or None if it has none.
    """
    if aval_of(running).size < 2:
        return values
    first = lax.argmax(running, 0, int32)
    return [
        borrow_p.bind(running, first, x)
        if axis is not None and isinstance(aval_of(x), ShapedArray)
        else x
        for x, axis in zip(values, axes, strict=True)
    ]


def in_front_where(lanes, values, axes, wanted):
    """Values with their lanes on axis 0 where an axis is wanted, the others as is."""
    return [
        x if w is None else lanes_at(x, axis, 0, lanes.size)
        for x, axis, w in zip(values, axes, wanted, strict=True)
    ]


def front(axes):
    """Lanes on axis 0 wherever there are any: one axis a value, or None."""
    return tuple(None if axis is None else 0 for axis in axes)


def borrow_eval(running, first, x):
    aval, running, x = aval_of(x), to_numpy(running), to_numpy(x)
    first = to_numpy(first)[..., None]
    lanes = np.where(running, np.arange(running.shape[-1]), first)
    lanes = lanes.reshape(lanes.shape + (1,) * (x.ndim - running.ndim))
    borrowed = np.take_along_axis(x, lanes, running.ndim - 1)
    return ArrayImpl(np.ascontiguousarray(borrowed), aval)


def borrow_linearize(nonzero, running, first, x):
    """Tangents of idle lanes do not count: they are zero."""

    def linear(_, first_tangent, t):
        return select_arrays(running, t, zeros(aval_of(t))) if t is not None else None

    return borrow_p.bind(running, first, x), linear


shape_rules |= {borrow_p: lambda running, first, x: x}
eval_rules |= {borrow_p: borrow_eval}
linearize_rules |= {borrow_p: borrow_linearize}
batch_rules |= in_front(borrow_p)


# ---- cond

# So few operations take no longer than to look for a lane that wants them.
SHORT = 16


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
    operands that does, so that nothing illegal is computed.

    A few numbers are computed whether a lane takes it or not: to ask takes longer.
    """
    taken = lax.eq(index, lax.full_like(index, k))
    eqns, wanted = branch.jaxpr.eqns, front(axes)
    few = lanes.size > 1 and is_short(branch)
    if few:  # No NaN of a lane gets into a sum over lanes: each has all there is.
        pairs = zip(wanted, branch.in_avals, strict=True)
        wanted = tuple(0 if is_number(aval) else w for w, aval in pairs)
    operands = in_front_where(lanes, operands, axes, wanted)
    closed, _ = batch_jaxpr(branch, lanes, wanted, (0,) * len(branch.out_avals))
    if eqns and not any(map(has_effect, eqns)):  # Else it tells what it is given.
        operands = borrow_where(taken, operands, wanted)
    if few:
        outs = apply_closed(closed, *operands)
        none = [zeros(aval_of(y)) for y in outs if eqns]
        return [*map(partial(select_lanes, taken), outs, none)] if eqns else outs
    is_taken = lax.convert(lax.reduce_or(taken, (0,)), int32)
    return cond_p.bind(is_taken, *operands, branches=(idle_branch(closed), closed))


def is_short(branch):
    """Whether a branch computes but a few numbers, or none at all."""
    eqns = branch.jaxpr.eqns
    values = (x.aval for eqn in eqns for x in (*eqn.invars, *eqn.outvars))
    plain = all(isinstance(aval, ShapedArray) for aval in branch.out_avals)
    plain &= not any(has_effect(eqn) or [*subjaxprs(eqn)] for eqn in eqns)
    return plain and len(eqns) <= SHORT and all(map(is_number, values))


def is_number(aval):
    return isinstance(aval, ShapedArray) and aval.shape == ()


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
    carry, and borrow a running lane's inputs for what is computed all the same.

    Which lanes run is part of the carry: else the loop and its body would both ask.
    """
    n, in_front = len(carry), (0,) * len(carry)
    test, _ = batch_jaxpr(loop.cond_jaxpr, lanes, cond_axes + in_front, (0,))
    outs = (0,) * len(loop.body_jaxpr.out_avals)
    body, _ = batch_jaxpr(loop.body_jaxpr, lanes, const_axes + in_front, outs)

    def any_lane(running, *_):  # running, counts, carry -> whether a lane runs
        return [lax.reduce_or(running, (0,))]

    def step(*values):  # cond_consts, consts, running, counts, carry -> the last 3, ys
        sizes = len(cond_consts), len(consts), 2
        of_test, of_body, (running, counts), states = split(values, *sizes)
        given = borrow_where(running, of_body + states, const_axes + in_front)
        outs = apply_closed(body, *given)
        pairs = zip(outs, states, strict=False)
        kept = [select_lanes(running, new, old) for new, old in pairs]
        counts = lax.add(counts, lax.convert(running, int32))
        return [*apply_closed(test, *of_test, *kept), counts, *kept, *outs[n:]]

    of_test, given = test.in_avals[: len(cond_consts)], body.in_avals
    of_lanes = [*test.out_avals, ShapedArray((lanes.size,), int32)]
    of_body, states = split(given, len(consts))
    by_lane = While(
        jaxpr_of(any_lane, [*of_lanes, *states], "cond"),
        jaxpr_of(step, [*of_test, *of_body, *of_lanes, *states], "body"),
        stack=loop.stack,
    )
    carry = [*apply_closed(test, *cond_consts, *carry),
             lax.full((lanes.size,), 0, int32), *carry]  # fmt: skip
    outs = by_lane.bind([], cond_consts + consts, carry)
    # The count of each lane takes the place of the count of the loop.
    _, counts, carry, _, tapes = split(outs, 1, 1, n, loop.stack)
    outs = carry + (counts + tapes if loop.stack else [])
    return outs, [0] * len(outs)


batch_rules |= {while_p: while_batch}


# ---- tapes and unions: their types are read back from text, `Tape[f32[3]]`


def parse_cases(text, every=False):
    """`(f32[3]), ()` -> the type of a Union of those cases."""
    cases, depth, start, current = [], 0, None, []
    for i, c in enumerate(text):
        if c == "(" and depth == 0:
            current, start = [], i + 1
        depth += (c in "([") - (c in ")]")
        closes = c == ")" and depth == 0
        if closes or (c == "," and depth == 1):
            if part := text[start:i].strip():
                current.append(parse_aval(part))
            start = i + 1
        if closes:
            cases.append(tuple(current))
    return Union(tuple(cases), every)


aval_parsers |= {
    "Tape": lambda text: Tape(parse_aval(text)),
    "Union": parse_cases,
    "Every": partial(parse_cases, every=True),
}


# ---- lanes: the values within have theirs on the first axis


def within(change, aval):
    """A type with the types of the values within changed."""
    if isinstance(aval, Tape):
        return Tape(within(change, aval.element))
    if isinstance(aval, Union):
        cases = tuple(tuple(within(change, a) for a in c) for c in aval.cases)
        return Union(cases, aval.every)
    return change(aval)


def one_lane(aval, axis):
    return within(lambda a: lane_types[ShapedArray].one(a, axis), aval)


def many_lanes(aval, size, axis):
    return within(lambda a: lane_types[ShapedArray].many(a, size, axis), aval)


spread_p = Primitive("spread_lanes")


def spread_lanes(x, size, axis):
    """A tape or union whose values are repeated along a new axis."""
    return spread_p.bind(x, size=size, axis=axis)


def eval_spread(x, *, size, axis):
    spread = lambda a: lanes_at(a, None, axis, size)
    return pointwise(spread, x, typed=lambda aval: many_lanes(aval, size, axis))


def spread_batch(lanes, axes, x, *, size, axis):
    """The values already have lanes on their first axis: the new ones come later."""
    return spread_p.bind(x, size=size, axis=axis + 1), 0


def eval_sum_lanes(x, *, axis):
    summed = lambda a: lax.reduce_sum(a, (axis,))
    return pointwise(summed, x, typed=lambda aval: one_lane(aval, axis))


sum_lanes_p = Primitive("sum_lanes")
shape_rules |= {
    spread_p: lambda x, *, size, axis: many_lanes(x, size, axis),
    sum_lanes_p: lambda x, *, axis: one_lane(x, axis),
}
eval_rules |= {spread_p: eval_spread, sum_lanes_p: eval_sum_lanes}
linearize_rules |= linear_in_first(spread_p, sum_lanes_p)
transpose_rules |= adding({
    spread_p: lambda ct, x, *, size, axis: [sum_lanes_p.bind(ct, axis=axis)],
    sum_lanes_p: lambda ct, x, *, axis: [
        spread_p.bind(ct, size=lane_count(x.aval, axis), axis=axis)
    ],
})
batch_rules |= {
    spread_p: spread_batch,
    sum_lanes_p: lambda lanes, axes, x, *, axis: (
        sum_lanes_p.bind(x, axis=axis + 1),
        0,
    ),
}
batch_rules |= {
    inject_p: lambda lanes, axes, *values, case, aval: (
        inject(case, many_lanes(aval, lanes.size, 0), at_front(lanes, values, axes)),
        0,
    ),
    project_p: lambda lanes, axes, union, *, case: (
        project(case, union),
        [0] * len(aval_of(union).cases[case]),
    ),
}
lane_types |= {
    kind: LaneType(one_lane, many_lanes, spread_lanes, lambda x, source, target: x)
    for kind in (Tape, Union)
}


def lane_count(aval, axis):
    """How long the lane axis is in the values of a type."""
    while not isinstance(aval, ShapedArray):
        tape = isinstance(aval, Tape)
        aval = aval.element if tape else next(a for case in aval.cases for a in case)
    return aval.shape[axis]


# ---- lanes that took different branches
#
# The Union of such a cond holds all cases, each right in the lanes that took it.

every_p = Primitive("every_case")


def every_case(*unions):
    """The Union of all cases, the k-th of which the k-th argument supplies."""
    return every_p.bind(*unions)


def eval_every(*unions):
    cases = tuple(tuple(u.case(k)) for k, u in enumerate(unions))
    return UnionValue(Union(unions[0].aval.cases, every=True), cases)


def every_transpose(ct, *unions):
    """Each union gets back the cotangents of the case that it supplied."""
    return [inject(k, u.aval, project(k, ct)) for k, u in enumerate(unions)]


shape_rules |= {every_p: lambda *unions: Union(unions[0].cases, every=True)}
eval_rules |= {every_p: eval_every}
linearize_rules |= {every_p: lambda nonzero, *us: linear_in_all(every_case, *us)}
transpose_rules |= adding({every_p: every_transpose})
batch_rules |= in_front(every_p)

# ---- stacked functions that `vjp` and `linearize` return: a scan over them, or of them


@register_pytree_node_class
class AllCases:
    """The values of all cases of a Union, each an array as any other.  Put together
    again they are a Union that holds all of them."""

    def __init__(self, cases):
        self.cases = cases

    def tree_flatten(self):
        return [self.cases], None

    @classmethod
    def tree_unflatten(cls, _, children):
        cases, = children
        aval = Union(tuple(tuple(map(aval_of, case)) for case in cases))
        return every_case(*[inject(k, aval, case) for k, case in enumerate(cases)])


def is_union(x):
    return isinstance(getattr(x, "aval", None), Union)


def opened(tree):
    """A tree with the values of each Union in its place, which can be stacked."""

    def open_one(x):
        if not is_union(x):
            return x
        return AllCases([opened(project(k, x)) for k in range(len(x.aval.cases))])

    return tree_map(open_one, tree)


select_lanes_p = Primitive("select_lanes")


def select_lanes(pred, on_true, on_false):
    """Values lane by lane: pred [lanes], values with their lanes on the first axis."""
    if isinstance(aval_of(on_true), ShapedArray):
        return select_arrays(pred, on_true, on_false)
    return select_lanes_p.bind(pred, on_true, on_false)


def select_arrays(pred, on_true, on_false):
    """`select` with a predicate for the first axes of the values only."""
    shape = aval_of(on_true).shape
    axes = range(aval_of(pred).ndim)
    pred = lax.broadcast_in_dim(pred, shape, axes) if shape else pred
    return lax.select(pred, on_true, on_false)


def select_lanes_rule(nonzero, pred, on_true, on_false):
    avals = [tangent_aval(aval_of(x)) for x in (on_true, on_false)]

    def linear(_, *tangents):
        if not present(tangents):
            return None
        return select_lanes(pred, *dense(tangents, avals))

    return select_lanes(pred, on_true, on_false), linear


def select_lanes_transpose(ct, pred, on_true, on_false):
    zero = zeros(aval_of(ct))
    return [None, select_lanes(pred, ct, zero), select_lanes(pred, zero, ct)]


shape_rules |= {select_lanes_p: lambda pred, on_true, on_false: on_true}
eval_rules |= {
    select_lanes_p: lambda pred, *xs: pointwise(partial(select_arrays, pred), *xs)
}
linearize_rules |= {select_lanes_p: select_lanes_rule}
transpose_rules |= adding({select_lanes_p: select_lanes_transpose})
batch_rules |= in_front(select_lanes_p)
