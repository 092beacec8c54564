"""Solutions to the tour derivatives.ipynb."""

import numpy as np

from minijit.ops.sorting import sort
from minijit.trace import primitives as lax
from minijit.trace.array import to_numpy
from minijit.transform.derivatives.linearize import add_tangents


def max_rule(nonzero, x, y):
    z = lax.max(x, y)
    first = lax.ge(x, y)

    def linear(s, t):
        s = None if s is None else lax.select(first, s, lax.full_like(z, 0))
        t = None if t is None else lax.select(first, lax.full_like(z, 0), t)
        return add_tangents(s, t)

    return z, linear


def check_max_rule(max_rule):
    """The mask `x >= y` says whose tangent it is; a tangent may be None."""
    x, y = np.float32([1, 2, 3]), np.float32([3, 2, 1])
    z, linear = max_rule((True, True), x, y)
    assert to_numpy(z).tolist() == [3, 2, 3]
    s, t = np.float32([1, 1, 1]), np.float32([10, 10, 10])
    assert to_numpy(linear(s, t)).tolist() == [10, 1, 1]
    assert to_numpy(linear(s, None)).tolist() == [0, 1, 1]
    assert to_numpy(linear(None, t)).tolist() == [10, 0, 0]


def median_tangent(x, t):
    _, moved = sort((x, t), num_keys=1)
    middle = x.shape[0] // 2
    return lax.squeeze(lax.slice(moved, (middle,), (middle + 1,)), (0,))


def check_median_tangent(median_tangent):
    """Sort the tangents along with the numbers, and take the one in the middle."""
    x, t = np.float32([3, 1, 2, 5, 4]), np.float32([10, 20, 30, 40, 50])
    assert float(median_tangent(x, t)) == 10
    assert float(median_tangent(x[:3], t[:3])) == 30
