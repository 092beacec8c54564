"""Products of matrices, called from native loops.

    matmul(40, 30, 50, t0, 0, 50, in0, 0, 30, 1, in1, 0, 50, 1)    # t0 = in0 @ in1

`matmul` takes arrays, and says where in each a matrix begins, and how many elements it
is from a row or a column to the next: so a transpose, or one matrix out of a batch, is
other numbers and no copy.  As plain Python it is NumPy's product.  For numba it is a
call of gemm, as those that numba itself makes: no Python, no object, no allocation.
"""

import ctypes
import functools

import numpy as np

from ..scalars.scalar_math import functions


def matmul(m, k, n, out, o, out_row, a, i, a_row, a_column, b, j, b_row, b_column):
    """out = a @ b, matrices within arrays from the elements o, i and j on.

    Args:
      m, k, n: the sizes: [m, k] @ [k, n].
      out_row, ...: how many elements it is from a row, or column, to the next.
    """

    left = elements(a, i, (a_row, a_column), (m, k))
    right = elements(b, j, (b_row, b_column), (k, n))
    elements(out, o, (out_row, 1), (m, n))[...] = left @ right


def elements(array, start, strides, shape):
    """A view of an array's elements, from the one at `start` on; strides count them."""
    flat = array.reshape(-1)[start:]
    steps = [s * array.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(flat, shape, steps)


functions |= {"matmul": matmul}


@functools.cache
def native_products():
    """`matmul` for numba: a call of gemm, which numba has found in SciPy."""
    import numba
    from numba import _helperlib

    # The type of numbers, two letters, three sizes, and for the factors and the result
    # their addresses and the steps from row to row, or column to column.
    number, size, letter = ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_byte
    kinds = [letter] * 3 + [size] * 3 + [number] * 8
    address = _helperlib.c_helpers["xxgemm"]
    gemm = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(address)
    ones, zeros = np.ones(1, "f4"), np.zeros(1, "f8")
    doubles = np.ones(1, "f8")

    @numba.njit
    def stored_by(rows, columns, row, column):
        """The letter for a matrix, and the step from one row or column to the next."""
        if column == 1:
            return ord("n"), max(row, columns)
        return ord("t"), max(column, rows)

    @numba.njit
    def matmul(m, k, n, out, o, so, a, i, r, c, b, j, rb, cb):
        # gemm knows columns, not rows: out.T = b.T @ a.T.
        left, left_step = stored_by(m, k, r, c)
        right, right_step = stored_by(k, n, rb, cb)
        single, size = out.itemsize == 4, out.itemsize
        gemm(
            ord("s") if single else ord("d"), right, left, n, m, k,
            ones.ctypes.data if single else doubles.ctypes.data,
            b.ctypes.data + size * j, right_step,
            a.ctypes.data + size * i, left_step,
            zeros.ctypes.data, out.ctypes.data + size * o, max(so, n),
        )  # fmt: skip

    return matmul
