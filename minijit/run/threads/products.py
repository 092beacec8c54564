"""Products of matrices as compiled functions, in parts, without Python.

    multiply = native_product(call)         # of a `Call` of `matmul`
    multiply(a, b, out)                     # NumPy arrays; out is written

A machine-code function serves products of any size: it takes the arrays' memory, a list
of sizes and strides, and a range of parts.  A part is a product of matrices out of
a batch, or some rows and columns of one large product.  `product_tiles` writes it.
Complex numbers are left to NumPy, whose BLAS multiplies them as fast as real ones.
"""

import functools
import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

from ...trace.base.config import config
from ..donating import writable
from ..lapack import WORTH_WAITING, one_thread_of_numpy
from ..llvm.calls import plan_of, tiles
from ..llvm.python_calls import make_builtin
from ..llvm.target import binding
from .kernels import PARTS, job_of, run_job
from .shared_work import blocks_of, is_worth_sharing, pieces, work_of
from .workers import caller_in_parts


@functools.cache
def product_function(key):
    """The function of Python for products that `tiles` has a key for."""
    shared = SimpleNamespace(address=binding().address_of_symbol)
    return make_builtin(shared, f"kernel_{key}", caller_in_parts(1))


# ---- one call


def native_product(call):
    """A function of three arrays that does what a `Call` of `matmul` says."""
    a, b = call.inputs
    out, = call.outputs
    function = product_function(tiles(call))
    batch, starts = math.prod(a.shape[:-2]), (a.offset, b.offset, out.offset)
    is_long = is_worth_sharing(call)

    @functools.cache
    def job_for(threads):
        wanted = -(-PARTS * threads // batch) if threads > 1 else 1
        blocks = functools.partial(blocks_of, wanted)
        count, numbers = plan_of(call, blocks, starts)
        size = max(1, count // (PARTS * threads)) if threads > 1 else count
        return np.array(numbers, np.int64), job_of(pieces(count, size), threads)

    def multiply(left, right, out):
        threads = config.read("cpu_threads") if is_long else 1
        numbers, job = job_for(max(threads, 1))
        run_job(function, (left, right, out, numbers), job)

    return multiply


def numpy_product(call):
    """The same by NumPy, whose BLAS has threads of its own."""
    a, b, out = map(shown_by, (*call.inputs, *call.outputs))
    is_long = work_of(call) >= WORTH_WAITING

    def multiply(left, right, made):
        waits = is_long and config.read("cpu_threads") > 1
        with writable([made]), nullcontext() if waits else one_thread_of_numpy:
            np.matmul(a(left), b(right), out=out(made))

    return multiply


def shown_by(view):
    """A function of a buffer's array: what a `View` shows of its memory."""
    dtype, shape = view.buffer.dtype, view.shape
    start, *steps = (dtype.itemsize * n for n in (view.offset, *view.strides))
    return lambda array: np.ndarray(shape, dtype, array, start, steps)
