"""Where the extreme of a row stands, as two totals that vectors compute.

    place[i] = argmax(k: x[i,k], k)       place[i] = min(l: l where x[i,l] is best,
                                                         else 2147483647)
                                          with best = max(k: x[i,k])

On the left each step looks at what the last one has found.  On the right the terms of
both totals are in any order, and the first of several places is the least one.  The
extreme of a row with a NaN in it is NaN, and stands where the first NaN does.
"""

import functools

from ..loops.expressions import Axis, Const, Op, Reduce, op
from ..loops.graphs import substitute
from ..loops.scalars import highest
from ..pipeline import arrangements
from .columns import replaced


def two_totals(expr):
    """Of a pair (extreme, place) the one that an expression is; None of any other."""
    if type(expr) is not Op or expr.name != "item" or type(expr.args[0]) is not Reduce:
        return None
    pair, which = expr.args
    running = any(axis.kind != "reduce" for axis in pair.axes)
    if pair.op not in ("argmax", "argmin") or running:
        return None
    value, place = pair.bodies
    best = Reduce("max" if pair.op == "argmax" else "min", pair.axes, (value,))
    if which.value == 0:
        return best
    axes = {axis: Axis(axis.extent, axis.kind) for axis in pair.axes}
    value, place = substitute([value, place], axes.get)
    here = op("eq", value, best)
    if value.dtype.kind == "f":
        here = op("or", here, op("ne", value, value))
    none = Const(highest(place.dtype), place.dtype)
    return Reduce("min", tuple(axes.values()), (op("select", here, place, none),))


def in_first_places(body):
    """A kernel's statements, with the places of extremes as two totals."""
    return replaced(body, functools.cache(two_totals))


arrangements |= {"in_first_places": in_first_places}
