"""Scalar arithmetic: operations on single numbers that mean exactly what JAX's mean.

A generated kernel computes one element at a time, mostly in Python's own operators and
NumPy's functions: `t2 = t0 * t1`, `t3 = np.exp(t2)`.  Where neither means what JAX
means, it calls a function from here:

    machine_div(np.int32(-7), np.int32(2))      # -3: NumPy says -4
    maximum(np.float32(1), np.float32("nan"))   # nan: the builtin `max` says 1.0
    to_int32(np.float32(1e20))                  # 2147483647: NumPy says -2147483648

All of them are plain Python on NumPy scalars, and numba compiles most of them as they
stand; for the others it is told more in `numba_scalars`.  What has a form in the loop
IR, such as `divide`, is printed from that: see `run/python/scalar_functions.py`.
"""

import numpy as np

from ...trace.numpy_values import convert_values

# name -> the function, for all that generated source may call.
functions = {}


def named(*given):
    """Rows of `functions`."""
    return {function.__name__: function for function in given}


def like(value, x):
    """`value` as a NumPy scalar of x's type; in compiled code the types say it."""
    return np.asarray(x).dtype.type(value)


def bits(x, dtype):
    """The bits of the scalar x read as another type of the same size."""
    return np.asarray(x).view(dtype)[()]


def add_any_order(x, y):
    """x + y, one step of a sum: compiled code may regroup the sum, nothing else."""
    return x + y


def multiply_any_order(x, y):
    """x * y, one step of a product that compiled code may regroup."""
    return x * y


functions |= named(like, add_any_order, multiply_any_order)


def typed(x):
    """A number with a dtype: in plain Python small constants of int64 are ints."""
    return np.int64(x) if isinstance(x, int) else x


# To numba an int64 that overflows is undefined: it may conclude that x - 1 < x.
def add_wrapping(x, y):
    """x + y, modulo 2**64."""
    return typed(x) + y


def subtract_wrapping(x, y):
    """x - y, modulo 2**64."""
    return typed(x) - y


def multiply_wrapping(x, y):
    """x * y, modulo 2**64."""
    return typed(x) * y


functions |= named(add_wrapping, subtract_wrapping, multiply_wrapping)


def maximum(x, y):
    """The larger number; NaN if either is NaN."""
    return x if x > y or x != x else y


def minimum(x, y):
    """The smaller number; NaN if either is NaN."""
    return x if x < y or x != x else y


functions |= named(maximum, minimum)


def machine_div(x, y):
    """Integers x / y rounded toward zero; y is not 0."""
    q = typed(x) // y
    return q + 1 if q < 0 and q * y != x else q


def machine_rem(x, y):
    """What `machine_div` leaves, with x's sign."""
    return x - y * machine_div(x, y)


def power(x, y):
    """x to the power y; an integer y becomes x's type."""
    # NumPy takes a square root for y = 0.5, which has another answer there.
    return -x if y == 0.5 and x == -np.inf else np.power(x, like(y, x))


functions |= named(machine_div, machine_rem, power)


def converting(name):
    """The function that converts a scalar to the dtype `name`, as JAX converts."""
    dtype = np.dtype(name)

    def convert(x):
        return convert_values(np.asarray(x), dtype)[()]

    convert.__name__ = convert.__qualname__ = f"to_{name}"
    return convert


integers = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
numbers = [*integers, "float32", "float64"]

# Generated code imports them from here, each by its name.
conversions = named(*map(converting, ["bool", *numbers]))
globals().update(conversions)
functions |= conversions
