"""Residuals of a shape that is only known when the program has run: Union and Tape.

A `Tape` is a list that grows as a loop runs: the gradient of a loop keeps one value a
step on it and no more, however many steps were allowed.  A `Union` holds the values of
whichever branch ran, and only those.  Both are values like arrays: they have types
that print, `Tape[f32[3]]` and `Union[(f32[3]), ()]`, and stand in jaxprs.

    u = inject(1, aval, [x, y])          # made at the end of branch 1
    x, y = project(1, u)                 # opened by branch 1 of the linear side

`inject` and `project` are each other's transposes.  A zero of either type is lazy: it
has no length and no tag, and gives zeros when it is read.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..trace import primitives as lax
from ..trace.array import ShapedArray, aval_of, eval_rules, shape_rules
from ..trace.core import Array, Primitive
from ..trace.jaxpr_parser import aval_parsers, parse_aval
from ..trace.jaxpr_text import aval_printers, print_aval
from .linearize import (
    add_any_p,
    add_tangents,
    constant,
    linear_in_first,
    linearize_rules,
)
from .tangents import tangent_aval, tangent_types, zero_makers, zeros
from .closed_jaxprs import fill, present
from .transpose import is_linear, transpose_rules


class Opaque:
    """What types without elements say when they are asked as arrays are."""

    shape = ()
    ndim = 0
    size = 1
    nbytes = 0
    dtype = np.dtype(object)
    weak_type = False

    def strip_weak_type(self):
        return self


@dataclass(frozen=True)
class Tape(Opaque):
    """The type of a list with one value a step.  Its length is not in the type."""

    element: object

    def __str__(self):
        return f"Tape[{print_aval(self.element)}]"


@dataclass(frozen=True)
class Union(Opaque):
    """The type of the values of one case out of several.

    Attributes:
      cases: for each case a tuple of avals.
      every: whether the values of all cases are there (a branch under `vmap`, where
        lanes may differ in which one they took).
    """

    cases: tuple
    every: bool = False

    def __str__(self):
        cases = ", ".join(f"({', '.join(map(print_aval, c))})" for c in self.cases)
        return f"{'Every' if self.every else 'Union'}[{cases}]"


class TapeValue(Array):
    """A list of values, or with `items` None a zero of whatever length is asked for."""

    __slots__ = ("aval", "items")

    def __init__(self, aval, items):
        self.aval = aval
        self.items = items

    def __repr__(self):
        length = "zero" if self.items is None else f"{len(self.items)} items"
        return f"<{self.aval}, {length}>"

    def __getitem__(self, i):
        return zeros(self.aval.element) if self.items is None else self.items[i]

    def __len__(self):
        return 0 if self.items is None else len(self.items)

    @property
    def nbytes(self):
        """The bytes that the items hold."""
        return sum(value_nbytes(x) for x in self.items or ())


class UnionValue(Array):
    """The values of the case `tag`; of every case, a tuple each, if tag is "every";
    or with tag None a zero."""

    __slots__ = ("aval", "tag", "values")

    def __init__(self, aval, tag, values):
        self.aval = aval
        self.tag = tag
        self.values = values

    def __repr__(self):
        return f"<{self.aval}, case {self.tag}>"

    def case(self, k):
        """The values of case k; zeros where that case was not taken."""
        if self.tag == k:
            return list(self.values)
        if self.tag == "every":
            return list(self.values[k])
        return [zeros(a) for a in self.aval.cases[k]]

    @property
    def nbytes(self):
        """The bytes that the values hold."""
        if self.tag is None:
            return 0
        values = sum(self.values, ()) if self.tag == "every" else self.values
        return sum(map(value_nbytes, values))


def value_nbytes(x):
    """The bytes that a value of any type holds."""
    return x.nbytes if isinstance(x, (TapeValue, UnionValue)) else aval_of(x).nbytes


# ---- what part 1 and 2 must know of the two types


def parse_tape(text):
    return Tape(parse_aval(text))


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


aval_printers |= {Tape: str, Union: str}
aval_parsers |= {
    "Tape": parse_tape,
    "Union": parse_cases,
    "Every": partial(parse_cases, every=True),
}


def tape_tangent(aval):
    """The tangent of a tape has its length; none if its items have none."""
    element = tangent_aval(aval.element)
    return None if element is None else Tape(element)


def union_tangent(aval):
    """The tangent of a union has its tag, and the floating parts of its cases."""
    cases = tuple(tuple(present(map(tangent_aval, case))) for case in aval.cases)
    return Union(cases, aval.every) if any(cases) else None


zero_p = Primitive("zero")


def eval_zero(*, aval):
    if isinstance(aval, Tape):
        return TapeValue(aval, None)
    return UnionValue(aval, None, ())


shape_rules |= {zero_p: lambda *, aval: aval}
eval_rules |= {zero_p: eval_zero}
tangent_types |= {Tape: tape_tangent, Union: union_tangent}
zero_makers |= {kind: lambda aval: zero_p.bind(aval=aval) for kind in (Tape, Union)}


def pointwise(function, x, *others, typed=lambda aval: aval):
    """Apply a function of arrays to the arrays within values of one type.

    A lazy zero stands for zeros of whatever length or tag the others have.  `typed`
    gives the type of the result for that of `x`.
    """
    values, aval = (x, *others), getattr(x, "aval", None)
    within = partial(pointwise, function, typed=typed)
    if isinstance(x, TapeValue):
        longest = max(map(len, values))
        if all(v.items is None for v in values):
            return TapeValue(typed(aval), None)
        items = [within(*[v[i] for v in values]) for i in range(longest)]
        return TapeValue(typed(aval), items)
    if isinstance(x, UnionValue):
        tags = {v.tag for v in values} - {None}
        if not tags:
            return UnionValue(typed(aval), None, ())
        cases = lambda k: zip(*[v.case(k) for v in values], strict=True)
        one = lambda k: tuple(within(*vs) for vs in cases(k))
        if len(tags) > 1 or "every" in tags:
            every = tuple(map(one, range(len(aval.cases))))
            return UnionValue(typed(aval), "every", every)
        tag, = tags
        return UnionValue(typed(aval), tag, one(tag))
    return function(*values)


add_arrays = eval_rules[add_any_p]


def eval_add_any(x, y):
    """The sum of two values of one type."""
    if isinstance(x, (TapeValue, UnionValue)):
        zero_x = getattr(x, "items", 0) is None or getattr(x, "tag", 0) is None
        zero_y = getattr(y, "items", 0) is None or getattr(y, "tag", 0) is None
        return y if zero_x else x if zero_y else pointwise(eval_add_any, x, y)
    return add_arrays(x, y)


copy_array = eval_rules[lax.copy_p]


def eval_copy(x):
    """A tape or union never changes: it is as good as its copy."""
    return x if isinstance(x, (TapeValue, UnionValue)) else copy_array(x)


eval_rules |= {add_any_p: eval_add_any, lax.copy_p: eval_copy}


# ---- making and opening unions

inject_p = Primitive("inject")
project_p = Primitive("project", multiple_results=True)


def inject(case, aval, values):
    """A Union of type `aval` that holds the values of one case."""
    return inject_p.bind(*values, case=case, aval=aval)


def project(case, union):
    """The values that a Union holds for a case: -> list."""
    return project_p.bind(union, case=case)


shape_rules |= {
    inject_p: lambda *values, case, aval: aval,
    project_p: lambda union, *, case: list(union.cases[case]),
}
eval_rules |= {
    inject_p: lambda *values, case, aval: UnionValue(aval, case, values),
    project_p: lambda union, *, case: union.case(case),
}


def inject_rule(nonzero, *values, case, aval):
    avals = [tangent_aval(a) for a in aval.cases[case]]

    def linear(*tangents):
        if all(t is None for t in tangents):
            return None
        pairs = zip(tangents, avals, strict=True)
        filled = [zeros(a) if t is None else t for t, a in pairs if a is not None]
        return inject(case, tangent_aval(aval), filled)

    return inject(case, aval, values), linear


def project_rule(nonzero, union, *, case):
    mask = [tangent_aval(a) is not None for a in aval_of(union).cases[case]]
    return project(case, union), lambda t: fill(mask, project(case, t))


def inject_transpose(ct, accs, *values, case, aval):
    new = project(case, ct)
    return [add_tangents(a, c) for a, c in zip(accs, new, strict=True)]


def project_transpose(cts, accs, union, *, case):
    avals = union.aval.cases[case]
    filled = [zeros(a) if c is None else c for c, a in zip(cts, avals, strict=True)]
    ct = inject(case, union.aval, filled)
    return [add_tangents(accs[0], ct)]


linearize_rules |= {inject_p: inject_rule, project_p: project_rule}
transpose_rules |= {inject_p: inject_transpose, project_p: project_transpose}
linearize_rules |= constant(zero_p)


# chapter 10, brought along
from .batching import LaneType, batch_rules, lane_types, lanes_at

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


def spread_transpose(ct, accs, x, *, size, axis):
    ct = sum_lanes_p.bind(ct, axis=axis)
    return [add_tangents(accs[0], ct)]


def sum_lanes_transpose(ct, accs, x, *, axis):
    size = lane_count(x.aval, axis)
    return [add_tangents(accs[0], spread_p.bind(ct, size=size, axis=axis))]


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
transpose_rules |= {
    spread_p: spread_transpose,
    sum_lanes_p: sum_lanes_transpose,
}
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
            [lanes_at(x, a, 0, lanes.size) for x, a in zip(values, axes, strict=True)],
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
    aval = Union(unions[0].aval.cases, every=True)
    return UnionValue(aval, "every", cases)


def every_rule(nonzero, *unions):
    avals = [tangent_aval(aval_of(u)) for u in unions]

    def linear(*tangents):
        pairs = zip(tangents, avals, strict=True)
        return every_case(*[zeros(a) if t is None else t for t, a in pairs])

    return every_case(*unions), linear


def every_transpose(ct, accs, *unions):
    """Each union gets back the cotangents of the case that it supplied."""
    new = [inject(k, u.aval, project(k, ct)) for k, u in enumerate(unions)]
    return [add_tangents(a, c) for a, c in zip(accs, new, strict=True)]


def every_batch(lanes, axes, *unions):
    spread = [lanes_at(u, a, 0, lanes.size) for u, a in zip(unions, axes, strict=True)]
    return every_case(*spread), 0


shape_rules |= {every_p: lambda *unions: Union(unions[0].cases, every=True)}
eval_rules |= {every_p: eval_every}
linearize_rules |= {every_p: every_rule}
transpose_rules |= {every_p: every_transpose}
batch_rules |= {every_p: every_batch}

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
    if isinstance(on_true, (TapeValue, UnionValue)):
        return pointwise(partial(eval_select_lanes, pred), on_true, on_false)
    return select_arrays(pred, on_true, on_false)


def select_lanes_rule(nonzero, pred, on_true, on_false):
    avals = [tangent_aval(aval_of(x)) for x in (on_true, on_false)]

    def linear(_, *tangents):
        if all(t is None for t in tangents):
            return None
        pairs = zip(tangents, avals, strict=True)
        return select_lanes(pred, *[zeros(a) if t is None else t for t, a in pairs])

    return select_lanes(pred, on_true, on_false), linear


def select_lanes_transpose(ct, accs, pred, on_true, on_false):
    zero = zeros(aval_of(ct))
    new = [select_lanes(pred, ct, zero), select_lanes(pred, zero, ct)]
    sums = zip(accs[1:], new, (on_true, on_false), strict=True)
    return [None, *[add_tangents(a, c) if is_linear(x) else None for a, c, x in sums]]


def select_lanes_batch(lanes, axes, *args):
    spread = [lanes_at(x, a, 0, lanes.size) for x, a in zip(args, axes, strict=True)]
    return select_lanes_p.bind(*spread), 0


shape_rules |= {select_lanes_p: lambda pred, on_true, on_false: on_true}
eval_rules |= {select_lanes_p: eval_select_lanes}
linearize_rules |= {select_lanes_p: select_lanes_rule}
transpose_rules |= {select_lanes_p: select_lanes_transpose}
batch_rules |= {select_lanes_p: select_lanes_batch}
