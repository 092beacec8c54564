"""Functions of short totals: in loops of their own, which vectorise.

    for i in 1000:                      for b in 16:
      y[i] = exp(total(k: x[i,k]))        for j in 64: side[j] = total(k: x[b*64+j,k])
                                          for j in 64: y[b*64+j] = exp(side[j])

A compiler vectorises the innermost loop.  On the left that is the total's, and `exp` is
computed for one number at a time.  On the right it is computed for eight or sixteen.
"""

import math

from .decisions import loop_rules, noted
from .expression_graphs import postorder
from .expressions import Axis, Load, Op, Reduce, as_index, op
from .fuse import nested
from .interchange import Renamer
from .loops import Store
from .memory import Buffer
from .nests import in_nests, loop_over
from .placing_rules import arrangements
from .scalar_forms import scalar_form
from .settings import config


def totals_of(stores, axis):
    """The totals that depend on an axis, each used outside of others too; or nothing.

    Nothing, too, if one of them is no plain number, or reads what is stored here.
    """
    values, stored = [s.value for s in stores], {s.buffer for s in stores}
    inside = {e for e in postorder(values) if type(e) is Reduce}
    parts = [c for e in postorder(values, inside) for c in e.children()]
    found = dict.fromkeys(e for e in (*values, *parts) if e in inside)
    totals = [total for total in found if axis in total.free]
    for total in totals:
        loads = (e for e in postorder(total.bodies) if type(e) is Load)
        plain = len(total.bodies) == 1 and all(a.kind == "reduce" for a in total.axes)
        if not plain or any(load.buffer in stored for load in loads):
            return []
    return totals


def is_function(expr):
    """Whether it is an operation that takes many instructions, as `exp` does."""
    return isinstance(expr, Op) and expr.dtype.kind == "f" and bool(scalar_form(expr))


def functions_of(stores, totals, axis):
    """How many functions are computed beside the totals for each step of an axis."""
    found = postorder([s.value for s in stores], set(totals))
    return sum(is_function(e) and axis in e.free for e in found)


def terms_of(total):
    """How many terms a total has, those of totals inside it too; inf if it is slow."""
    inside = postorder(total.bodies)
    if any(map(is_function, inside)):
        return math.inf
    inner = [total, *(e for e in inside if type(e) is Reduce)]
    return sum(math.prod(a.bounds[1] + 1 for a in e.axes) for e in inner)


def with_totals_aside(axes, stores):
    """The nest with its totals in a loop of their own, a block of them at a time."""
    *outer, axis = axes
    totals, settings = totals_of(stores, axis), config.fusion
    if not totals or not (functions := functions_of(stores, totals, axis)):
        return None
    terms, most = sum(map(terms_of, totals)), settings.terms_aside * functions
    if axis.extent < settings.fewest_totals or terms > most:
        noted("long totals", terms=terms, functions=functions)
        return None
    noted("totals aside", terms=terms, functions=functions)
    length = min(settings.totals_aside, axis.extent)
    block = Axis(-(-axis.extent // length))
    start = op("mul", block, as_index(length))
    left = op("min", as_index(length), op("sub", as_index(axis.extent), start))
    first, second = loop_over(left), loop_over(left)
    sides = [
        Buffer(f"side{n}", (length,), total.dtype, space="cache")
        for n, total in enumerate(totals)
    ]
    at = [(first,)] * len(sides)
    exprs = Renamer({axis: op("add", start, first)})
    fill = map(Store, sides, at, exprs(totals))
    names = {t: Load(side, (second,)) for t, side in zip(totals, sides, strict=True)}
    use = Renamer(names | {axis: op("add", start, second)})
    done = [store.rewrite(use, lambda buffer: buffer) for store in stores]
    return nested([*outer, block], (*nested([first], fill), *nested([second], done)))


loop_rules |= {
    "totals aside": (True, "its functions have loops of their own", "terms_aside"),
    "long totals": (False, "its totals take longer than its functions", "terms_aside"),
}
arrangements.append(in_nests(with_totals_aside))
