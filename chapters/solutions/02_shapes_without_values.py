"""Solutions to chapter 2."""

import numpy as np

from minijit.trace import primitives as lax
from minijit.trace.array import ShapedArray, aval_of, shape_rules
from minijit.trace.core import Trace, Tracer, set_trace

answers = {
    "i8 + 1": "int8",
    "i8 + 1.5": "float32",
    "u8 + i8": "int16",
    "u32 + i8": "int32",
    "f16 + bf16": "float32",
    "i32 + f16": "float16",
    "bool + 1": "int32",
    "bf16 * 1j": "complex64",
}


def check_answers(answers):
    """Find both in the picture; follow the arrows to the first common type."""
    assert {k: str(v) for k, v in answers.items()} == {
        "i8 + 1": "int8",
        "i8 + 1.5": "float32",
        "u8 + i8": "int16",
        # With 64-bit types off, uint32 leads to int32.
        "u32 + i8": "int32",
        "f16 + bf16": "float32",
        "i32 + f16": "float16",
        "bool + 1": "int32",
        "bf16 * 1j": "complex64",
    }


def rem_values(x, y):
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, y.dtype.type(1), y)))


def check_rem_values(rem_values):
    """x/0 is -1, so what must be left of x is x - (-1) * 0; NumPy's fmod says 0."""
    x = np.array([7, -7, 7, -7, 5, -(2**31), 0], np.int32)
    y = np.array([2, 2, -2, -2, 0, -1, 0], np.int32)
    assert np.array_equal(rem_values(x, y), [1, -1, 1, -1, 5, 0, 0])
    f = np.array([5.5, -5.5], np.float32)
    assert np.array_equal(rem_values(f, np.float32([2, 2])), [1.5, -1.5])


def bytes_made(f, *avals):
    class CountBytes(Trace):
        total = 0

        def process(self, primitive, args, params):
            aval = shape_rules[primitive](*map(aval_of, args), **params)
            self.total += aval.nbytes
            return [Tracer(self, aval)]

    trace = CountBytes()
    with set_trace(trace):
        f(*[Tracer(trace, aval) for aval in avals])
    return trace.total


def check_bytes_made(bytes_made):
    """As `ShapeTrace`, with a number to which `process` adds the result's nbytes."""
    x = ShapedArray((10**6, 10**6), np.dtype("float32"))
    assert bytes_made(lambda x: x, x) == 0
    assert bytes_made(lambda x: lax.exp(lax.mul(x, x)), x) == 8 * 10**12
    assert bytes_made(lambda x: lax.gt(lax.reduce_sum(x, (0,)), 0.0), x) == 5 * 10**6


def batched_matmul(x, y):
    (b, n, k), m = x.shape, y.shape[2]
    x = lax.broadcast_in_dim(x, (b, n, k, m), (0, 1, 2))
    y = lax.broadcast_in_dim(y, (b, n, k, m), (0, 2, 3))
    return lax.reduce_sum(lax.mul(x, y), (2,))


def check_batched_matmul(batched_matmul):
    """Four axes, (b, n, k, m): x has no m, y has no n, and k is summed over."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = np.arange(40, dtype=np.float32).reshape(2, 4, 5) - 7
    assert np.array_equal(batched_matmul(x, y), x @ y)
