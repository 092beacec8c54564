"""Functions of kernels for numba.cuda, where it cannot compile those of `scalar_math`:
one that asks how many bytes a number has, for instance.

Here `type(x)(1)` is a 1 of x's type: a literal would make a float64 of a float32.
"""

import numpy as np

from ..scalars.scalar_math import numbers


def like(value, x):
    return type(x)(value)


def add_wrapping(x, y):
    return np.int64(np.uint64(np.int64(x)) + np.uint64(np.int64(y)))


def subtract_wrapping(x, y):
    return np.int64(np.uint64(np.int64(x)) - np.uint64(np.int64(y)))


def multiply_wrapping(x, y):
    return np.int64(np.uint64(np.int64(x)) * np.uint64(np.int64(y)))


def power(x, y):
    return x ** type(x)(y)


def to_bool(x):
    return x != type(x)(0)


def limiting(low, high):
    """The function that converts a float to an integer: limited, and NaN is 0."""

    def convert(x):
        if x != x:
            return type(low)(0)
        if x >= type(x)(high):
            return high
        return low if x <= type(x)(low) else type(low)(x)

    return convert


def reading(dtype):
    return lambda x: x.view(dtype)


def swap_in(swap):
    """`compare_and_swap` of 8 or 16 bits, by that of the word that they are in."""

    def compare_and_swap(array, index, expected, new):
        at = np.uint32(index * array.itemsize % 4 * 8)
        ones = np.uint32((1 << 8 * array.itemsize) - 1)
        word = np.uint32((expected & ones) << at)
        change = np.uint32(((expected ^ new) & ones) << at)
        while True:
            found = swap(array, index, word, np.uint32(word ^ change))
            part = type(expected)(found >> at)
            if found == word or part != expected:
                return part
            word = found

    return compare_and_swap


own = {name: value for name, value in globals().items() if callable(value)}
for name in numbers:
    dtype = np.dtype(name)
    own[f"bits_{name}"] = reading(dtype.type)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype).min, np.iinfo(dtype).max
        own[f"to_{name}"] = limiting(*map(dtype.type, ends))

# {name: {type: the instruction of PTX that it is for numbers of that type}}.
instructions = {
    "maximum": {"float32": "max.NaN.f32"},
    "minimum": {"float32": "min.NaN.f32"},
    "round_even": {"float32": "cvt.rni.f32.f32", "float64": "cvt.rni.f64.f64"},
}
