"""Steps of loops: how many, what the first one starts from, and arrays by the row."""

import numpy as np

from ...trace import dtypes
from ...trace.array import ArrayImpl, aval_of, to_numpy
from ...trace.jaxprs.jaxpr import ClosedJaxpr, Jaxpr, dce
from ..opaque import OpaqueValue
from ..pieces import int32, wrap_like
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


def stack_values(aval, rows):
    """Arrays of one type, stacked along a new first axis."""
    if not rows:
        shape = (0, *aval.shape)
        storage = np.zeros(shape, dtypes.storage_of(aval.dtype))
        return ArrayImpl(storage, aval.update(shape=shape))
    aval = aval.update(shape=(len(rows), *aval.shape))
    return ArrayImpl(np.stack([to_numpy(x) for x in rows]), aval)
