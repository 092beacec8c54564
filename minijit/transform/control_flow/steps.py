"""Steps of loops: how many, what the first one starts from, arrays by the row; what the
linear side of a loop is, and where it finds each residual of a step."""

from dataclasses import dataclass

import numpy as np

from ...trace import dtypes
from ...trace.array import ArrayImpl, aval_of, to_numpy
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Jaxpr, Literal, dce
from ...trace.jaxprs.memory import memoised
from ..closed_jaxprs import apply_closed, drop_dead
from ..derivatives.linearize import linearize_jaxpr
from ..opaque import OpaqueValue
from ..pieces import int32, none_of, reorder, split, wrap_like
from ..tangents import tangent_aval, zeros

# How many steps a loop may take of which something is kept for each: they are counted
# in an int32.
MOST_STEPS = 2**31 - 1


def step_count(count):
    """The number of steps that a loop took, as an array."""
    if count > MOST_STEPS:
        raise OverflowError(too_many_steps())
    return wrap_like(np.array(count, int32))


def too_many_steps():
    """What an error says of a loop whose steps cannot be counted any more."""
    return (
        f"while_loop: a loop that is differentiated took more than {MOST_STEPS} steps. "
        "Instead: nest loops, each of which takes fewer."
    )


def of_first(closed, n, outvars):
    """The part of a jaxpr that depends on its first n inputs only: -> closed jaxpr."""
    jaxpr = closed.jaxpr
    part = Jaxpr(jaxpr.constvars, jaxpr.invars[:n], jaxpr.eqns, tuple(outvars))
    # What is printed meanwhile, the whole jaxpr prints.
    part = dce(part, effects=False)
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    return ClosedJaxpr(part, tuple(values[v] for v in part.constvars))


def instantiate_carry(carry, tangents, mask):
    """The initial tangents of a carry that has one in some step."""
    return [
        zeros(tangent_aval(aval_of(x))) if m and t is None else t
        for x, t, m in zip(carry, tangents, mask, strict=True)
    ]


def rows_of(x, steps):
    """A stacked argument as something to index with a step."""
    if isinstance(x, OpaqueValue):
        if not x.is_zero and len(x) < steps:
            raise AssertionError(f"a tape of {len(x)} items in a loop of {steps} steps")
        return x
    dtype = aval_of(x).dtype
    return [wrap_like(row, dtype) for row in to_numpy(x).copy()]


class Stack:
    """An array of the values that one result of a loop's body has in its steps.

    They are copied as they come: held one by one until the last step, their memory
    could not serve the steps after them.
    """

    def __init__(self, aval, steps):
        self.aval = aval.update(shape=(steps, *aval.shape))
        self.values = np.zeros(self.aval.shape, dtypes.storage_of(aval.dtype))

    def __setitem__(self, i, x):
        self.values[i] = to_numpy(x)

    def array(self):
        return ArrayImpl(self.values, self.aval)


# ---- the body of a loop, linearized


@dataclass(frozen=True, eq=False)
class LinearLoop:
    """The body of a loop, linearized.

    Attributes:
      nonzero_carry: one bool a carry: whether it has a tangent, in any step.
      nonzero_out: one bool a result of the body.
      forward: the body, which also returns the residuals of a step.
      hoisted: consts -> the residuals that depend on nothing else: computed once.
      places: for each residual ("const" | "hoisted" | "xs" | "step", position).
      linear: the linear body: residuals that are the same in every step, tangents of
        consts; tangents of the carry; residuals of a step, tangents of xs.
    """

    nonzero_carry: tuple
    nonzero_out: tuple
    forward: ClosedJaxpr
    hoisted: ClosedJaxpr
    places: tuple
    linear: ClosedJaxpr

    def shared(self, consts):
        """The residuals that are the same in every step."""
        found = {"const": consts, "hoisted": apply_closed(self.hoisted, *consts)}
        return [found[kind][i] for kind, i in self.places if kind in SHARED]

    def stepwise(self, xs, kept):
        """The residuals that differ from step to step, stacked."""
        found = {"xs": xs, "step": kept}
        return [found[kind][i] for kind, i in self.places if kind not in SHARED]


SHARED = ("const", "hoisted")


def place_residuals(part, n, num_consts, num_carry):
    """Where the linear loop finds each residual of a step: -> (places, the residuals
    to compute once, the residuals that every step returns)."""
    jaxpr = part.forward.jaxpr
    consts, _, xs = split(jaxpr.invars, num_consts, num_carry)
    unchanging = {*jaxpr.constvars, *consts}
    for eqn in jaxpr.eqns:
        if all(isinstance(v, Literal) or v in unchanging for v in eqn.invars):
            unchanging.update(eqn.outvars)
    hoisted, stepwise, places = [], [], []
    for v in part.residuals(jaxpr.invars, jaxpr.outvars[n:]):
        kind, found = "step", stepwise
        if v in consts:
            kind, found = "const", consts
        elif v in xs:
            kind, found = "xs", xs
        elif v in unchanging:
            kind, found = "hoisted", hoisted
        if v not in found:
            found.append(v)
        places.append((kind, found.index(v)))
    return tuple(places), hoisted, stepwise


def order_linear_body(linear, places, num_consts, num_carry):
    """Residuals that every step shares first, then tangents, then those of a step."""
    sizes = len(places), num_consts, num_carry
    residuals, consts, carry, xs = split(linear.jaxpr.invars, *sizes)
    pairs = list(zip(residuals, places, strict=True))
    shared = [v for v, (kind, _) in pairs if kind in SHARED]
    stepwise = [v for v, (kind, _) in pairs if kind not in SHARED]
    return reorder(linear, [*shared, *consts, *carry, *stepwise, *xs])


def fixpoint(step, mask):
    """Repeat `mask = mask or step(mask)` until it stays."""
    while True:
        new = tuple(a or b for a, b in zip(mask, step(mask), strict=True))
        if new == mask:
            return mask
        mask = new


@memoised
def linearize_body(body, consts, carry, xs):
    """Linearize the body of a loop: -> `LinearLoop`.

    `consts`, `carry` and `xs` say which of them have tangents when the loop begins.
    """
    n, n_carry = len(body.out_avals), len(carry)
    ys = none_of(n - n_carry)

    def step(carry):
        part = linearize_jaxpr(body, consts + carry + xs, carry + ys)
        return part.nonzero_out[:n_carry]

    carry = fixpoint(step, carry)
    part = linearize_jaxpr(body, consts + carry + xs, carry + ys)
    places, hoisted, stepwise = place_residuals(part, n, len(consts), n_carry)
    outvars = *part.forward.jaxpr.outvars[:n], *stepwise
    return LinearLoop(
        carry, part.nonzero_out, drop_dead(reorder(part.forward, outvars=outvars)),
        of_first(part.forward, len(consts), hoisted), places,
        order_linear_body(part.linear, places, sum(consts), sum(carry)),
    )
