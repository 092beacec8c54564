"""Products of matrices from machine code: calls of the BLAS that comes with SciPy.

    call void @minijit_sgemm(ptr %b1, ptr %b2, ptr %b3, ...)

Every argument goes by address: numbers and letters into slots of the stack.
"""

import ctypes
import functools

from .llvm_target import binding
from .llvm_types import memory_type


class ProductCalls:
    """What a writer of a region says to the BLAS: methods for `RegionWriter`."""

    def product(self, call, offsets):
        """A product of matrices: the BLAS takes all its arguments by address."""
        views = (*call.outputs, *call.inputs)
        kind = memory_type(views[0].buffer.dtype)
        starts = [
            self.do(f"getelementptr {kind}, ptr {self.pointer(v.buffer)}, i64 {i}")
            for v, i in zip(views, offsets, strict=True)
        ]
        name, arguments = blas_call(views, starts)
        given = [f"ptr {self.given(kind, x)}" for x in arguments]
        word = blas_symbol({"float": "s", "double": "d"}[kind] + name)
        self.declared[f"declare void @{word}({', '.join(['ptr'] * len(given))})"] = None
        self.line(f"call void @{word}({', '.join(given)})")

    def given(self, kind, value):
        """The address of an argument: a matrix's, or that of a slot for a number."""
        if isinstance(value, str) and value.startswith("%"):
            return value
        if isinstance(value, str):
            kind, value = "i8", ord(value)
        elif isinstance(value, int):
            kind = "i32"
        slot = f"%b{self.fresh()}"
        self.entry.append(f"  {slot} = alloca {kind}")
        self.line(f"store {kind} {value}, ptr {slot}")
        return slot


@functools.cache
def blas_symbol(name):
    """The name by which LLVM finds a routine of the BLAS that comes with SciPy."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    binding().add_symbol(f"minijit_{name}", address)
    return f"minijit_{name}"


def blas_call(views, starts):
    """(routine, arguments) for a product of two matrices.

    Args:
      views: of the result and the two factors; starts: their addresses.
    """
    (out_row, _), a_steps, b_steps = (view.strides[-2:] for view in views)
    (m, k), n = views[1].shape[-2:], views[2].shape[-1]
    out, a, b = starts
    # The BLAS knows columns, not rows: out.T = b.T @ a.T.
    a_by_rows, a_step = stored_by((m, k), a_steps)
    b_by_rows, b_step = stored_by((k, n), b_steps)
    flags = ("n" if b_by_rows else "t"), ("n" if a_by_rows else "t")
    factors = b, b_step, a, a_step
    return "gemm", (*flags, n, m, k, 1.0, *factors, 0.0, out, max(out_row, n))


def stored_by(shape, steps):
    """Whether a matrix is stored by rows, and the step from one to the next."""
    (rows, columns), (row, column) = shape, steps
    by_rows = column == 1
    return by_rows, max(row, columns) if by_rows else max(column, rows)
