"""Lanes of tapes and unions: what `vmap` makes of them.

The values within have their lanes on the first axis.  Lanes may have taken different
branches: the Union of such a cond holds all cases, each right in the lanes that took
it.  Here, too, types are read back from text: `Tape[f32[3]]`.
"""

from functools import partial

from ...trace import primitives as lax
from ...trace.array import ShapedArray, aval_of, shape_rules
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.parser import aval_parsers, parse_aval
from ..batching.vmap import (
    LaneType,
    at_front,
    batch_rules,
    in_front,
    lane_types,
    lanes_at,
)
from ..closed_jaxprs import present
from ..derivatives.linearize import linear_in_first, linearize_rules
from ..derivatives.transpose import adding, transpose_rules
from ..tangents import dense, linear_in_all, tangent_aval, zeros
from .tape_rules import pointwise
from .unions_and_tapes import (
    Tape,
    Union,
    UnionValue,
    inject,
    inject_p,
    project,
    project_p,
)


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


def spread_transpose(ct, x, *, size, axis):
    return [sum_lanes_p.bind(ct, axis=axis)]


def sum_lanes_transpose(ct, x, *, axis):
    return [spread_p.bind(ct, size=lane_count(x.aval, axis), axis=axis)]


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
    spread_p: spread_transpose,
    sum_lanes_p: sum_lanes_transpose,
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
        inject(
            case,
            many_lanes(aval, lanes.size, 0),
            at_front(lanes, values, axes),
        ),
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


def eval_select_lanes(pred, on_true, on_false):
    return pointwise(partial(select_arrays, pred), on_true, on_false)


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
eval_rules |= {select_lanes_p: eval_select_lanes}
linearize_rules |= {select_lanes_p: select_lanes_rule}
transpose_rules |= adding({select_lanes_p: select_lanes_transpose})
batch_rules |= in_front(select_lanes_p)
