"""Scalars: what is known of single numbers of a dtype, and of operations on them.

    dtype_bounds(np.dtype("int8"))                 # (-128, 127)
    interval_of("add", INDEX, [(0, 3), (4, 7)])   # (4, 10)
    identities["max"](np.dtype("float32"))         # (-inf,): what a maximum begins with
    wide_dtype(np.dtype("float16"))                # float32: what it is computed in
"""

import functools

import numpy as np

from ...trace.numpy_values import highest, lowest

INDEX = np.dtype("int64")
BOOL = np.dtype("bool")
FLOAT32 = np.dtype("float32")
UINT16 = np.dtype("uint16")
INF = float("inf")
ANY = (-INF, INF)

# Operations whose result is a bool.
comparisons = {"eq", "ne", "lt", "le", "gt", "ge", "is_finite"}


@functools.cache
def dtype_bounds(dtype):
    """The smallest and largest value of an integer dtype; None for others."""
    bits = 1 if dtype == BOOL else 8 * dtype.itemsize
    if dtype.kind == "i":
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return (0, 2**bits - 1) if dtype.kind in "ub" else None


# The first value, or values, of a total: dtype -> tuple.
identities = {
    "add": lambda dtype: (0,),
    "mul": lambda dtype: (1,),
    "times": lambda dtype: (1, 0),
    "max": lambda dtype: (lowest(dtype),),
    "min": lambda dtype: (highest(dtype),),
    "and": lambda dtype: (dtype_bounds(dtype)[1] if dtype.kind != "i" else -1,),
    "or": lambda dtype: (0,),
    "xor": lambda dtype: (0,),
    "argmax": lambda dtype: (lowest(dtype), 0),
    "argmin": lambda dtype: (highest(dtype), 0),
    "logaddexp": lambda dtype: (-INF,),
}


def corners(function):
    """The interval of a function of two intervals that is extreme at their ends."""

    def interval(x, y):
        values = [function(a, b) for a in x for b in y]
        return min(values), max(values)

    return interval


def quotients(x, divisors):
    """The interval of quotients by a number that is known."""
    divisor, most = divisors
    return (x[0] // divisor, x[1] // divisor) if 0 < divisor == most else ANY


def remainders(x, divisors):
    """The interval of remainders; exact where all the quotients are the same."""
    divisor, most = divisors
    low, high = quotients(x, divisors)
    if low == high:
        return x[0] % divisor, x[1] % divisor
    return (0, most - 1) if 0 < divisor == most else ANY


# The interval of an integer operation, from those of its arguments.
intervals = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": corners(lambda a, b: a * b),
    "floordiv": quotients,
    "mod": remainders,
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "select": lambda c, x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "convert": lambda x: x,
    # Of conditions: whether they must hold, and whether they can.
    "lt": lambda x, y: (x[1] < y[0], x[0] < y[1]),
    "le": lambda x, y: (x[1] <= y[0], x[0] <= y[1]),
    "gt": lambda x, y: (x[0] > y[1], x[1] > y[0]),
    "ge": lambda x, y: (x[0] >= y[1], x[1] >= y[0]),
    "eq": lambda x, y: (x[0] == x[1] == y[0] == y[1], x[0] <= y[1] and y[0] <= x[1]),
    # Of integers, `and` can give anything.
    "and": lambda x, y: (x[0] & y[0], x[1] & y[1]) if {*x, *y} <= {0, 1} else ANY,
}


def interval_of(name, dtype, bounds):
    """The bounds of an operation's result.

    Args:
      bounds: those of its arguments, each a pair, or None where it is no integer.
    """
    everything, rule = dtype_bounds(dtype), intervals.get(name)
    if None in (everything, rule, *bounds):
        return everything
    low, high = rule(*bounds)
    # An operation that could wrap around can give anything.
    fits = everything[0] <= low and high <= everything[1]
    return (low, high) if fits else everything


def certain(name, dtype, args):
    """The index or condition that an operation on known ones gives, or None."""
    if dtype is not INDEX and dtype is not BOOL:
        return None
    bounds = [arg.bounds for arg in args]
    for known in bounds:
        if known is None or known[0] != known[1]:
            return None
    low, high = interval_of(name, dtype, bounds)
    return low if low == high else None


def bits(value, dtype):
    """What tells constants of a dtype apart.  Most are indices, and quickly told."""
    return int(value) if dtype == INDEX else np.asarray(value, dtype).tobytes()


# Operations whose result, but for its sign, is one of their operands.
exact = {"neg", "abs", "max", "min"}


def is_half(dtype):
    """Whether a dtype is a 16-bit float."""
    return dtype.itemsize == 2 and dtype.kind not in "iub"


def wide_dtype(dtype):
    """The dtype to compute in: float32 for 16-bit floats, otherwise the dtype."""
    return FLOAT32 if is_half(dtype) else dtype


def storage_dtype(dtype):
    """The dtype of the memory for a dtype: that of the bits of a 16-bit float."""
    return UINT16 if is_half(dtype) else dtype
