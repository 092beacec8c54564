"""Products of matrices from machine code: calls of the BLAS that comes with SciPy.

    call void @minijit_sgemm(ptr %b1, ptr %b2, ptr %b3, ...)

Every argument goes by address: numbers and letters into slots of the stack.
"""

import ctypes
import functools
import math
import threading

from ..compile.loops import Call, statements
from .lapack import address
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
        self.call_routine(word, given)

    def lapack(self, call, offsets):
        """A routine of LAPACK: of each argument it is given the address."""
        given = []
        for view, i in zip(call.attrs["given"], offsets, strict=True):
            kind, base = memory_type(view.buffer.dtype), self.pointer(view.buffer)
            given.append(f"ptr {self.do(f'getelementptr {kind}, ptr {base}, i64 {i}')}")
        self.call_routine(blas_symbol(call.attrs["name"]), given)

    def call_routine(self, word, given):
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
    """The name by which LLVM finds a routine of the BLAS or LAPACK of SciPy."""
    binding().add_symbol(f"minijit_{name}", address(name))
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


# ---- its threads

class OneThread:
    """While anybody is within, the BLAS that comes with SciPy uses one thread only."""

    def __init__(self):
        self.lock, self.inside, self.before = threading.Lock(), 0, 1

    def __enter__(self):
        read, write = blas_threads()
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.before = read()
                write(1)

    def __exit__(self, *error):
        _, write = blas_threads()
        with self.lock:
            self.inside -= 1
            if not self.inside:
                write(self.before)


one_thread = OneThread()


@functools.cache
def blas_threads():
    """Functions that read and write how many threads SciPy's BLAS has."""
    from scipy.linalg import cython_blas

    library = ctypes.CDLL(cython_blas.__file__)
    for prefix in ("scipy_", ""):
        try:
            read = getattr(library, f"{prefix}openblas_get_num_threads")
            return read, getattr(library, f"{prefix}openblas_set_num_threads")
        except AttributeError:
            continue
    # Another BLAS: it is left as it is.
    return (lambda: 1), (lambda count: None)


# So many multiplications, 1 ms or more, are worth the threads of the BLAS.
WORTH_WAITING = 1 << 26


def works_alone(bodies):
    """Whether what some statements call is small, and they call anything.

    Threads of a BLAS wait for each other after each product.  In a loop of small ones
    that takes longer than the products, and on a busy machine many times as long.
    """
    calls = [s for body in bodies for s in statements(body) if isinstance(s, Call)]
    products = [call.inputs for call in calls if call.routine == "matmul"]
    works = [math.prod(a.shape) * b.shape[-1] for a, b in products]
    routines = [call.outputs for call in calls if call.routine == "lapack"]
    works += [max(math.prod(x.shape) for x in views) ** 1.5 for views in routines]
    return bool(works) and max(works) < WORTH_WAITING


def alone(function):
    """A function during which the BLAS uses one thread."""

    def run(*arrays):
        with one_thread:
            return function(*arrays)

    return run
