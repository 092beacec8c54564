"""Inline or store?  What a value costs where it is asked for, against memory.

    value.cost, value.aval.size      # 20 additions an element, 1,000 elements
    value.asked                      # at which indices, in which kernels, it is wanted
    first_policy(value)              # None: inline; else (rule, reason): store it
"""

import math
from dataclasses import dataclass

from ..trace.array import ShapedArray
from ..trace.jaxpr import Eqn
from .expressions import free_axes


@dataclass(frozen=True)
class Cut:
    """A decision not to fuse: `producer`'s value goes through memory.

    Attributes:
      producer: what computes it: the equation.
      rule: why, a name from the policy.
      reason: why, a sentence.
      nbytes: of the buffer written and read back.
    """

    producer: object
    rule: str
    reason: str
    nbytes: int


@dataclass(frozen=True)
class Value:
    """A variable about which a policy decides: all that is asked of it.

    Attributes:
      eqn, aval: what computes it, and its type.
      cost, total: as in `Elements`, but with all inlined producers.
      asked: pairs (group, index), one for each index at which it is wanted.
      reads: the variables that would be loaded in its place.
    """

    eqn: Eqn
    aval: ShapedArray
    cost: float
    total: bool
    asked: tuple
    reads: frozenset


def times_computed(group, index):
    """How often an expression at `index`, placed well, is computed in a group."""
    axes = free_axes(index)
    depth = max((i + 1 for i, a in enumerate(group.nest) if a in axes), default=0)
    inner = [axis for axis in axes if axis not in group.nest]
    outer = group.nest if inner else group.nest[:depth]
    return math.prod(axis.extent for axis in (*outer, *inner))


CHEAP, LARGEST_GROUP, MOST_COPIES = 8, 512, 64
# Arrays that a kernel of several stores takes: each costs compile time and a register.
MOST_BUFFERS = 16


def first_policy(value):
    """Inline what is cheap or asked for once; totals get kernels of their own.

    Returns:
      None to inline, or (rule, reason) to materialise.
    """
    groups = dict(value.asked)
    if any(group.size > LARGEST_GROUP for group in groups):
        return "large kernel", f"its kernel has {LARGEST_GROUP} operations already"
    if value.total:
        alone = len(value.asked) == 1 and value.asked[0][1] == value.asked[0][0].axes
        return None if alone else ("total", "every element of it takes a loop")
    copies = len(value.asked)
    if value.cost == 0:
        return None
    if copies > MOST_COPIES:
        return "many indices", f"it is asked for at {copies} different indices"
    if any(crowded(group, value) for group in groups):
        return "many arrays", f"its kernel takes {MOST_BUFFERS} arrays already"
    if value.cost < CHEAP and copies * value.cost <= 4 * CHEAP:
        return None
    times = sum(times_computed(*asked) for asked in value.asked)
    extra = value.cost * (times - value.aval.size)
    if extra <= CHEAP * value.aval.size:
        return None
    return "recompute", f"inlined it would be computed {times} times"


def crowded(group, value):
    """Whether a kernel takes too many arrays already to inline a value that adds some.

    One array more is no worse than the value itself, in an array of its own.
    """
    more = value.reads - group.reads
    return len(more) > 1 and len(group.reads) + len(more) > MOST_BUFFERS


policies = {"first": first_policy}
