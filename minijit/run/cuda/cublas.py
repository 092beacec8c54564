"""Products of matrices by cuBLAS: one call says where all three matrices lie.

    gemm = gemm_of(call)                # of a `Call` of `matmul`
    gemm.operations, gemm.sizes         # ("T", "N"), (64, 32, 16)
    multiply(gemm, a, b, out)           # the same product by NumPy, from these numbers

cuBLAS thinks by columns: for it our rows are columns, and a matrix of ours is the
transpose of one of its own.  So it is asked for the transpose of the result, which is
the product of the transposed factors the other way round.  A factor that lies by
columns gets a letter, T.  So no layout needs a copy: `layout` has seen to it that in
each matrix one of the two steps is 1.
"""

import ctypes
import functools
import itertools
from dataclasses import dataclass

import numpy as np

from ...compile.loops.scalars import wide_dtype


@dataclass(frozen=True)
class Gemm:
    """What `cublasGemmStridedBatchedEx` is told, once or several times.

    Attributes:
      dtype, result: of the numbers of both factors, and of the product.  Sums of
        products of 16-bit floats are in 32 bits.
      operations: two letters, N or T, of the first and the second factor it is given.
      sizes: (rows, columns, length of the sums) of the product, as it sees them.
      leading: for each of the three matrices the step from column to column.
      steps: for each of the three the step from one product of the batch to the next.
      batch: how many products.
      starts: a call for each of these: the first elements of the three matrices.
    """

    dtype: np.dtype
    result: np.dtype
    operations: tuple
    sizes: tuple
    leading: tuple
    steps: tuple
    batch: int
    starts: tuple

    @property
    def dtypes(self):
        """Of the three matrices, in the order in which cuBLAS is given them."""
        return self.dtype, self.dtype, self.result

    @property
    def flops(self):
        m, n, k = self.sizes
        return 2 * m * n * k * self.batch * len(self.starts)


def stored_by(shape, steps):
    """Whether a matrix is stored by rows, and the step from one to the next."""
    (rows, columns), (row, column) = shape, steps
    by_rows = column == 1
    return by_rows, max(row, columns) if by_rows else max(column, rows)


def gemm_of(call):
    """The `Gemm` of a `Call` of `matmul`."""
    a, b = call.inputs
    (out,) = call.outputs
    (m, k), n = a.shape[-2:], b.shape[-1]
    a_by_rows, a_leading = stored_by((m, k), a.strides[-2:])
    b_by_rows, b_leading = stored_by((k, n), b.strides[-2:])
    operations = tuple("N" if by_rows else "T" for by_rows in (b_by_rows, a_by_rows))
    views = b, a, out
    loops = list(zip(out.shape[:-2], *(v.strides[:-2] for v in views), strict=True))
    loops = [loop for loop in loops if loop[0] > 1]
    # The longest loop is the batch; for the others there is a call each.
    batch, *steps = max(loops, default=(1, 0, 0, 0))
    if loops:
        loops.remove((batch, *steps))
    starts = []
    for numbers in itertools.product(*(range(size) for size, *_ in loops)):
        moves = zip(numbers, (s for _, *s in loops), strict=True)
        start = [v.offset for v in views]
        for i, by in moves:
            start = [x + i * s for x, s in zip(start, by, strict=True)]
        starts.append(tuple(start))
    leading = b_leading, a_leading, max(out.strides[-2], n)
    numbers = (n, m, k), leading, tuple(steps), batch, tuple(starts)
    return Gemm(a.buffer.dtype, out.buffer.dtype, operations, *numbers)


# ---- what it means


def matrices(gemm, memory, which, start, rows, columns):
    """The matrices that cuBLAS sees in some memory: an array (batch, rows, columns).

    Args:
      memory: a flat NumPy array; which: 0, 1 or 2; rows, columns: as they are stored.
    """
    size = memory.itemsize
    strides = gemm.steps[which] * size, size, gemm.leading[which] * size
    shape = gemm.batch, rows, columns
    last = start + sum((n - 1) * s // size for n, s in zip(shape, strides, strict=True))
    if not 0 <= start <= last < memory.size:
        raise IndexError(f"{gemm} reads or writes beyond {memory.size} elements")
    as_strided = np.lib.stride_tricks.as_strided
    return as_strided(memory[start:], shape, strides)


def multiply(gemm, first, second, out):
    """What cuBLAS does with these numbers, by NumPy.

    Args:
      first, second, out: flat arrays, in the order in which cuBLAS is given them.
    """
    m, n, k = gemm.sizes
    for starts in gemm.starts:
        factors = []
        for which, shape in enumerate(((m, k), (k, n))):
            turned = gemm.operations[which] == "T"
            stored = shape[::-1] if turned else shape
            given = (first, second)[which]
            found = matrices(gemm, given, which, starts[which], *stored)
            found = found.transpose(0, 2, 1) if turned else found
            factors.append(found.astype(wide_dtype(gemm.dtype), copy=False))
        result = matrices(gemm, out, 2, starts[2], m, n)
        result[...] = np.matmul(*factors)


# ---- the library itself

# Numbers of cuBLAS: types of elements, how sums are computed, letters.
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
COMPUTE = {"float32": 68, "float64": 70}
LETTERS = {"N": 0, "T": 1}
# What cuBLAS may use besides: NVIDIA's advice for Hopper.
WORKSPACE = 32 << 20


@functools.cache
def library():
    """cuBLAS, of the wheel `nvidia-cublas` or of the system."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)


def check(status, what):
    if status:
        raise RuntimeError(f"cuBLAS: {what} failed with status {status}")


class Cublas:
    """cuBLAS on one stream, with memory of its own to work in."""

    def __init__(self, stream, workspace):
        self.stream, self.handle = stream, ctypes.c_void_p()
        check(library().cublasCreate_v2(ctypes.byref(self.handle)), "cublasCreate")
        self.call("cublasSetStream_v2", ctypes.c_void_p(stream))
        size = ctypes.c_size_t(WORKSPACE)
        self.call("cublasSetWorkspace_v2", ctypes.c_void_p(workspace), size)

    def call(self, name, *args):
        check(getattr(library(), name)(self.handle, *args), name)

    def product(self, gemm, pointers):
        """Put a product onto the stream."""
        wide = wide_dtype(gemm.dtype).name
        number = ctypes.c_float if wide == "float32" else ctypes.c_double
        one, zero = ctypes.byref(number(1)), ctypes.byref(number(0))
        letters = (ctypes.c_int(LETTERS[x]) for x in gemm.operations)
        sizes = map(ctypes.c_int64, gemm.sizes)
        head = [*letters, *sizes, one]
        for starts in gemm.starts:
            sides = []
            given = zip(
                gemm.dtypes, pointers, starts, gemm.leading, gemm.steps, strict=True
            )
            for dtype, pointer, start, *steps in given:
                address = ctypes.c_void_p(pointer + start * dtype.itemsize)
                kind = ctypes.c_int(TYPES[dtype.name])
                sides.append([address, kind, *map(ctypes.c_int64, steps)])
            first, second, out = sides
            tail = ctypes.c_int64(gemm.batch), ctypes.c_int(COMPUTE[wide])
            given = *head, *first, *second, zero, *out, *tail, ctypes.c_int(-1)
            self.call("cublasGemmStridedBatchedEx_64", *given)
