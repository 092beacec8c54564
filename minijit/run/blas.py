"""Products of matrices, called from native loops.

    matmul(40, 30, 50, t0, 0, 50, in0, 0, 30, 1, in1, 0, 50, 1)    # t0 = in0 @ in1

`matmul` takes arrays, and says where in each a matrix begins, and how many elements it
is from a row or a column to the next: so a transpose, or one matrix out of a batch, is
other numbers and no copy.  As plain Python it is NumPy's product.  For numba it is a
call of gemm, at its address in the BLAS that comes with SciPy: no Python, no object, no
allocation.
"""

import functools

import numpy as np

from .lapack import address
from .scalar_math import functions


def product_text(views, starts):
    """The call of the BLAS for one product.

    Args:
      views: of the result and the two factors.
      starts: for each the texts of its array and of its first element there.
    """
    (out_row, _), *steps = (view.strides[-2:] for view in views)
    (a_row, a_column), (b_row, b_column) = steps
    (m, k), n = views[1].shape[-2:], views[2].shape[-1]
    out, a, b = starts
    left, right = f"{a}, {a_row}, {a_column}", f"{b}, {b_row}, {b_column}"
    return f"matmul({m}, {k}, {n}, {out}, {out_row}, {left}, {right})"


def matmul(m, k, n, out, o, out_row, a, i, a_row, a_column, b, j, b_row, b_column):
    """out = a @ b, matrices within arrays from the elements o, i and j on.

    Compiled code calls the BLAS here.

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
    """`matmul` for numba: a call of gemm in SciPy's BLAS."""
    from numba import types
    from numba.extending import intrinsic

    def typed(emit, args):
        kinds = [x if isinstance(x, types.Array) else types.int64 for x in args]

        def generate(context, builder, signature, values):
            arrays = [x for x in signature.args if isinstance(x, types.Array)]
            emit(BlasCall(context, builder, arrays), *values)
            return context.get_dummy_value()

        return types.void(*kinds), generate

    @intrinsic
    def matmul(typing_context, m, k, n, out, o, so, a, i, r, c, b, j, rb, cb):
        return typed(emit_gemm, (m, k, n, out, o, so, a, i, r, c, b, j, rb, cb))

    return {"matmul": matmul}


class BlasCall:
    """What a call of the BLAS consists of; all its arguments go by address.

    Attributes:
      arrays: the types of the result and of the two factors.
    """

    def __init__(self, context, builder, arrays):
        from llvmlite import ir

        self.context, self.builder, self.arrays, self.ir = context, builder, arrays, ir
        number = context.get_data_type(arrays[0].dtype)
        self.one, self.zero = self.slot(number(1.0)), self.slot(number(0.0))

    def slot(self, value):
        """The address of a number, on the stack."""
        from numba.core import cgutils

        pointer = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, pointer)
        return pointer

    def size(self, value):
        return self.slot(self.builder.trunc(value, self.ir.IntType(32)))

    def data(self, which, array, start):
        """The address of an element of an array."""
        make = self.context.make_array(self.arrays[which])
        return self.builder.gep(make(self.context, self.builder, array).data, [start])

    def flag(self, condition, yes, no):
        letters = (self.ir.IntType(8)(ord(x)) for x in (yes, no))
        return self.slot(self.builder.select(condition, *letters))

    def matrix(self, rows, columns, row, column):
        """Whether a matrix is stored by rows, and the step from one to the next."""

        def larger(x, y):
            return self.builder.select(self.builder.icmp_signed(">", x, y), x, y)

        by_rows = self.builder.icmp_signed("==", column, column.type(1))
        step = self.builder.select(by_rows, larger(row, columns), larger(column, rows))
        return by_rows, self.size(step)

    def call(self, name, *args):
        from numba.core import types

        letter = {types.float32: "s", types.float64: "d"}[self.arrays[0].dtype]
        kind = self.ir.FunctionType(self.ir.VoidType(), [x.type for x in args])
        target = self.ir.IntType(64)(address(letter + name))
        self.builder.call(self.builder.inttoptr(target, kind.as_pointer()), args)


def emit_gemm(blas, m, k, n, out, o, row, a, i, a_row, a_column, b, j, b_row, b_column):
    """The call of gemm.  It knows columns, not rows: out.T = b.T @ a.T."""
    a_by_rows, a_step = blas.matrix(m, k, a_row, a_column)
    b_by_rows, b_step = blas.matrix(k, n, b_row, b_column)
    _, step = blas.matrix(m, n, row, row.type(1))
    flags = blas.flag(b_by_rows, "n", "t"), blas.flag(a_by_rows, "n", "t")
    factors = blas.data(2, b, j), b_step, blas.data(1, a, i), a_step
    sizes = map(blas.size, (n, m, k))
    result = blas.zero, blas.data(0, out, o), step
    blas.call("gemm", *flags, *sizes, blas.one, *factors, *result)
