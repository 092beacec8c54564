"""`floor`, and `rem`, what a division leaves over: `%` and `//` are made of them."""

import numpy as np

from .array import shape_rules
from .core import Primitive, eval_rules
from .primitives import binary, of_one, of_two, on_wide, unary

floor_p, rem_p = Primitive("floor"), Primitive("rem")
shape_rules |= unary((np.floating,), floor_p)
shape_rules |= binary((np.integer, np.floating), rem_p)


def remainder(x, y):
    """What is left of x after division by y cut towards zero; x where y is 0."""
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    # By -1 nothing is left; NumPy may trap on the least integer.
    safe = (y != 0) & (y != y.dtype.type(-1) if y.dtype.kind == "i" else True)
    left = np.fmod(x, np.where(safe, y, y.dtype.type(1)))
    return np.where(y == 0, x, left)


eval_rules |= on_wide({floor_p: np.floor, rem_p: remainder})

floor = of_one(floor_p, "The largest whole number not above x, elementwise.")
rem = of_two(rem_p, "x - y * trunc(x / y), elementwise: the sign is x's; x for y = 0.")
