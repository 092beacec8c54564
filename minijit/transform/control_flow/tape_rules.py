"""What else tapes and unions are asked: their tangents, zeros, sums and copies.

A gradient has them among its residuals only.  A second derivative has tangents of
residuals, and cotangents of these: they are tapes and unions again.  `inject` and
`project` are each other's transposes.
"""

from functools import partial

from ...trace import primitives as lax
from ...trace.array import aval_of, shape_rules
from ...trace.core import Primitive, eval_rules
from ..closed_jaxprs import fill, present
from ..derivatives.linearize import add_any_p, constant, linearize_rules
from ..derivatives.transpose import adding, transpose_rules
from ..opaque import OpaqueValue
from ..tangents import dense, tangent_aval, tangent_types, zero_makers
from .unions_and_tapes import (
    Tape, TapeValue, Union, UnionValue, inject, inject_p, project, project_p,
)

# ---- tangents


def tape_tangent(aval):
    """The tangent of a tape has its length; none if its items have none."""
    element = tangent_aval(aval.element)
    return None if element is None else Tape(element)


def union_tangent(aval):
    """The tangent of a union has its case, and the floating parts of its values."""
    cases = tuple(tuple(present(map(tangent_aval, case))) for case in aval.cases)
    return Union(cases, aval.every) if any(cases) else None


tangent_types |= {Tape: tape_tangent, Union: union_tangent}


def inject_rule(nonzero, *values, case, aval):
    mask = [tangent_aval(a) is not None for a in aval.cases[case]]

    def linear(*tangents):
        if not present(tangents):
            return None
        tangents = [t for t, m in zip(tangents, mask, strict=True) if m]
        of_union = tangent_aval(aval)
        return inject(case, of_union, dense(tangents, of_union.cases[case]))

    return inject(case, aval, values), linear


def project_rule(nonzero, union, *, case):
    mask = [tangent_aval(a) is not None for a in aval_of(union).cases[case]]
    return project(case, union), lambda t: fill(mask, project(case, t))


linearize_rules |= {inject_p: inject_rule, project_p: project_rule}
transpose_rules |= adding({
    inject_p: lambda ct, *values, case, aval: project(case, ct),
    project_p: lambda cts, union, *, case: [
        inject(case, union.aval, dense(cts, union.aval.cases[case]))
    ],
})


# ---- zeros

zero_p = Primitive("zero")


def eval_zero(*, aval):
    if isinstance(aval, Tape):
        return TapeValue(aval, None)
    return UnionValue(aval, (None,) * len(aval.cases))


shape_rules |= {zero_p: lambda *, aval: aval}
eval_rules |= {zero_p: eval_zero}
linearize_rules |= constant(zero_p)
zero_makers |= {kind: lambda aval: zero_p.bind(aval=aval) for kind in (Tape, Union)}


# ---- sums and copies


def pointwise(function, x, *others, typed=lambda aval: aval):
    """Apply a function of arrays to the arrays within values of one type.

    A lazy zero stands for zeros wherever the others have values.  `typed` gives the
    type of the result for that of `x`.
    """
    if not isinstance(x, OpaqueValue):
        return function(x, *others)
    within, aval = partial(pointwise, function, typed=typed), typed(x.aval)
    if all(value.is_zero for value in (x, *others)):
        return eval_zero(aval=aval)
    kind = map_tapes if isinstance(x, TapeValue) else map_unions
    return kind(within, (x, *others), aval)


def map_tapes(function, tapes, aval):
    steps = range(max(map(len, tapes)))
    return TapeValue(aval, [function(*[tape[i] for tape in tapes]) for i in steps])


def map_unions(function, unions, aval):
    def of_case(k):
        if all(u.cases[k] is None for u in unions):
            return None
        columns = zip(*[u.case(k) for u in unions], strict=True)
        return tuple(function(*column) for column in columns)

    return UnionValue(aval, tuple(map(of_case, range(len(aval.cases)))))


add_arrays, copy_array = eval_rules[add_any_p], eval_rules[lax.copy_p]


def eval_add_any(x, y):
    """The sum of two values of one type."""
    if not isinstance(x, OpaqueValue):
        return add_arrays(x, y)
    if x.is_zero or y.is_zero:
        return y if x.is_zero else x
    return pointwise(eval_add_any, x, y)


def eval_copy(x):
    """A tape or union never changes: it is as good as its copy."""
    return x if isinstance(x, OpaqueValue) else copy_array(x)


# What they are for arrays.
eval_add_any.on_arrays, eval_copy.on_arrays = add_arrays, copy_array
eval_rules |= {add_any_p: eval_add_any, lax.copy_p: eval_copy}
