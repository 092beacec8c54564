"""Inline or store?  What a value costs where it is asked for, against memory.

    value.cost, value.aval.size      # 20 additions an element, 1,000 elements
    value.asked                      # at which indices, in which kernels, it is wanted
    first_policy(value)              # None: inline; else (rule, reason): store it
    recomputed(value)                # ("recompute", reason, {"cheap": 180, ...})
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from ...trace.array import ShapedArray
from ...trace.jaxprs.jaxpr import Eqn, Var
from ...trace.primitives import broadcast_in_dim_p, reshape_p
from ..loops.graphs import free_axes, postorder
from ..settings import config


@dataclass(frozen=True)
class Value:
    """A variable about which a policy decides: all that is asked of it.

    Attributes:
      eqn, aval: what computes it, and its type.
      cost, total: as in `Elements`, but with all inlined producers.
      asked: pairs (group, index), one for each index at which it is wanted.
      reads: the variables that would be loaded in its place.
      moved: whether these are in another order in memory, or of another size.
    """

    eqn: Eqn
    aval: ShapedArray
    cost: float
    total: bool
    asked: tuple
    reads: frozenset
    moved: bool


class Estimates:
    """What an element of each variable costs and reads if all before it is inlined.

    It is estimated before the walk, which decides about the producers of a value only
    after the value itself.  A total that several ask for is not inlined.
    """

    def __init__(self, jaxpr, row_of):
        self.costs, self.reads, self.moved = defaultdict(float), {}, set()
        uses = Counter(a for eqn in jaxpr.eqns for a in eqn.invars)
        for eqn in jaxpr.eqns:
            row = row_of(eqn)
            parts = sum(self.costs[v] for v in set(eqn.invars) if isinstance(v, Var))
            cost = 0.0 if row.total else min(row.cost + parts, 1e9)
            self.costs.update(dict.fromkeys(eqn.outvars, cost))
            reads = self.read_by(eqn)
            for var in eqn.outvars:
                inlined = not row.total or (row.by_element and uses[var] == 1)
                self.reads[var] = reads if inlined else frozenset([var])
            if not row.total and (moves(eqn, row) or self.moved & {*eqn.invars}):
                self.moved.update(eqn.outvars)

    def read_by(self, eqn):
        """The variables that an equation loads if all before it is inlined.

        Where these are too many, its own operands.
        """
        operands = frozenset(v for v in eqn.invars if isinstance(v, Var))
        found = frozenset().union(*(self.reads.get(v, {v}) for v in operands))
        return found if len(found) <= config.fusion.most_buffers else operands

    def value(self, eqn, row, readers):
        """The result of an equation, as a policy sees it."""
        var, = eqn.outvars
        asked = tuple((g, index) for g, indices in readers.items() for index in indices)
        cost = self.costs[var] or row.cost
        reads, moved = self.read_by(eqn), var in self.moved
        return Value(eqn, var.aval, cost, row.total, asked, reads, moved)


def moves(eqn, row):
    """Whether an equation does not want elements as they lie in memory, one by one."""
    if row.cost == 0:
        return eqn.primitive is not reshape_p
    shapes = {v.aval.shape for v in (*eqn.invars, *eqn.outvars) if v.aval.size > 1}
    return len(shapes) > 1


def times_computed(group, index):
    """How often an expression at `index`, placed well, is computed in a group."""
    axes = free_axes(index)
    depth = max((i + 1 for i, a in enumerate(group.nest) if a in axes), default=0)
    inner = [axis for axis in axes if axis not in group.nest]
    outer = group.nest if inner else group.nest[:depth]
    return math.prod(axis.extent for axis in (*outer, *inner))


def first_policy(value):
    """Inline what is cheap or asked for once; totals get kernels of their own.

    Returns:
      None to inline, or (rule, reason) to materialise; some rules add what they
      compared: {name: number}.
    """
    groups, limits = dict(value.asked), config.fusion
    if any(group.size > limits.most_operations for group in groups):
        most = limits.most_operations
        return "large kernel", f"its kernel has {most} operations already"
    if value.total:
        alone = len(value.asked) == 1 and value.asked[0][1] == value.asked[0][0].axes
        if not alone:
            return "total", "every element of it takes a loop"
        if over_outer_axes(value.eqn) and value.asked[0][0].has_total:
            return "rows", "another total is made of it, and each goes on row by row"
        return None
    if any(is_scattered(value, *asked) for asked in value.asked):
        return "digits", "it is asked for at digits of what several loops count"
    copies = len(value.asked)
    if value.cost == 0:
        return None
    if any(crowded(group, value, limits.most_buffers) for group in groups):
        return "many arrays", f"its kernel takes {limits.most_buffers} arrays already"
    if copies * value.cost > limits.cheap_in_all:
        return recomputed(value)
    if value.cost < limits.cheap:
        return None
    return recomputed(value, math.floor(value.cost) + 1)


def is_scattered(value, group, index):
    """Whether no loop of a group goes through memory: what is not read as it lies is
    asked for at digits of numbers that several loops count, as a reshape makes them.

    Where there is no total, and nothing but to be moved, loops count digits.
    """
    if not value.moved or value.eqn.primitive is broadcast_in_dim_p:
        return False
    inside = postorder(index)
    digits = (e for e in inside if getattr(e, "name", "") in ("floordiv", "mod"))
    if not any(len(e.free) > 1 for e in digits):
        return False
    met = [e for e in inside if e in group.nest]
    across = met != [axis for axis in group.nest if axis in met]
    return group.has_total or len(value.asked) > 1 or bool(value.cost) and across


def recomputed(value, enough=math.inf):
    """What it would cost to inline a value, if that is not cheap for each element.

    Args:
      enough: a value of the setting `cheap` with which it is inlined whatever it costs.

    Returns:
      None to inline, or (rule, reason, numbers): first the least `cheap` to inline it.
    """
    size, cheap = value.aval.size, config.fusion.cheap
    times = sum(times_computed(*asked) for asked in value.asked)
    extra = value.cost * (times - size)
    if extra <= cheap * size:
        return None
    extra = math.ceil(extra / size)
    told = (
        f"inlined it would be computed {times:,} times, not {size:,}: {extra:,} "
        f"additions more an element, and {cheap:,} are allowed"
    )
    numbers = {"cheap": min(extra, enough), "extra": extra, "cost": value.cost}
    return "recompute", told, {**numbers, "times": times, "elements": size}


def over_outer_axes(eqn):
    """Whether an equation is a total that leaves the last axis of its operand."""
    axes = eqn.params.get("axes", ())
    return bool(axes) and eqn.invars[0].aval.ndim - 1 not in axes


def crowded(group, value, most):
    """Whether a kernel takes too many arrays already to inline a value that adds some.

    One array more is no worse than the value itself, in an array of its own.
    """
    more = value.reads - group.reads
    return len(more) > 1 and len(group.reads) + len(more) > most

