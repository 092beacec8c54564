"""Values where they enter and leave a program: arrays that nobody else writes to."""

import numpy as np

from ..trace.array import ArrayImpl, ShapedArray, to_numpy
from ..trace.core import BottomTrace, current, eval_rules, find_rule
from ..trace.dtypes import float0, storage_of
from ..trace.numpy_values import real_part
from ..transform.pieces import by_step
from .scalars.scalar_math import functions, named


def to_array(x, aval):
    """An argument as a NumPy array in row-major order, as kernels take for granted."""
    if aval.dtype == object:
        return boxed(x)
    value = to_numpy(x, aval)
    if aval.dtype == float0:
        return np.zeros(aval.shape, storage_of(float0))
    return value if value.flags.c_contiguous else value.copy()


# primitive -> function of a `Call`: what does it where its eval rule is not the best.
evaluators: dict = {}


def evaluating(call):
    """The function for a `Call` that no kernel can do: the primitive's eval rule."""
    primitive = call.attrs["primitive"]
    if found := evaluators.get(primitive, lambda call: None)(call):
        return found
    rule = by_step.get(primitive) or find_rule(eval_rules, primitive, "eval")
    params = call.attrs["params"]
    avals = [ShapedArray(v.shape, v.buffer.dtype) for v in call.inputs]

    def evaluate(*arrays):
        # As `set_trace` does, which takes longer than many a rule.
        before, current.trace = current.trace, BottomTrace()
        try:
            results = rule(*map(unboxed, arrays, avals), **params)
        finally:
            current.trace = before
        if not primitive.multiple_results:
            results = [results]
        return list(map(boxed, results))

    return evaluate


def boxed(x):
    """A result as a program holds it; what is no array in an array of one object."""
    if isinstance(x, ArrayImpl):
        return own(x.numpy())
    box = np.empty((), object)
    box[()] = x
    return box


def unboxed(array, aval):
    """The value that a program holds as an array."""
    if array.dtype == object:
        return array[()]
    if aval.dtype == float0:
        array = np.zeros(aval.shape, float0)
    # A view, for a rule may give its argument back: that is copied in `boxed`.
    return ArrayImpl(array.view(), aval)


class Block(np.ndarray):
    """Memory for one array, which begins somewhere in it.

    NumPy gives the views of that array to it, and not to a block, for that is no plain
    array.  So whoever looks at the memory holds the array.
    """


def owns_memory(array):
    """Whether an array's memory goes with it: it has it from nobody, or in a block."""
    return array.flags.owndata or type(array.base) is Block


def own(value):
    """The array if its memory is its own and in row-major order, else a copy of it."""
    if owns_memory(value) and value.flags.c_contiguous:
        return value
    return value.copy()


def pairs(array):
    """An array of complex numbers as their parts: the same memory, one more axis."""
    return np.ndarray((*array.shape, 2), real_part(array.dtype), array)


functions |= named(pairs)
