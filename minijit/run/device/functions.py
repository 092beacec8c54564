"""Functions of kernels for numba.cuda, where it cannot compile those of `scalar_math`:
one that asks how many bytes a number has, for instance.

Here `type(x)(1)` is a 1 of x's type: a literal would make a float64 of a float32.
"""

import numpy as np

from ..scalars.scalar_math import integers


def power(x, y):
    return x ** type(x)(y)


def limiting(low, high):
    """The function that converts a float to an integer: limited, and NaN is 0."""

    def convert(x):
        if x != x:
            return type(low)(0)
        if x >= type(x)(high):
            return high
        return low if x <= type(x)(low) else type(low)(x)

    return convert


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


own = {"power": power}
for name in integers:
    kind = np.dtype(name).type
    ends = np.iinfo(name).min, np.iinfo(name).max
    own[f"to_{name}"] = limiting(*map(kind, ends))

# {name: {type: the instruction of PTX that it is for numbers of that type}}.
instructions = {
    "maximum": {"float32": "max.NaN.f32"},
    "minimum": {"float32": "min.NaN.f32"},
    "round_even": {"float32": "cvt.rni.f32.f32", "float64": "cvt.rni.f64.f64"},
}
