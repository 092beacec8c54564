"""Products of matrices as compiled functions: the BLAS, in parts, without Python.

    multiply = native_product(call)         # of a `Call` of `matmul`
    multiply(a, b, out)                     # NumPy arrays; out is written

One machine-code function serves all products of a dtype: it takes the arrays' memory, a
list of sizes and steps, and a range of parts.  A part is a product of matrices out of a
batch, or some rows or columns of one large product.  Large ones run in parts on our own
threads: those of a BLAS wait for each other, and so for whatever else a core is doing.
"""

import functools
import math

import numpy as np

from ..trace.config import config
from .cache_folder import short_name
from .llvm_blas import blas_symbol, one_thread, stored_by
from .llvm_kernels import functions_of
from .llvm_python import builtin_text, python_declarations
from .threads import PARTS, Job, workers

# Multiplications that one core does meanwhile are worth to wake another: 0.1 ms.
WORTH_THREADS = 5_000_000
# What a BLAS does on one thread in any case, and the least for a part.
ONE_THREAD, SMALLEST_PART = 1 << 18, 1_000_000
# Fewer rows than that are not worth it that the BLAS sorts the other factor for them.
SHORTEST = 64

# The numbers in the list, in this order; then size and three steps for each loop.
FIELDS = """
    m n k lda ldb ldc a_flag b_flag a_start b_start out_start
    by_rows extent block a_step b_step out_step loops
""".split()

TEXT = """
define internal void @NAME(ptr %a, ptr %b, ptr %out, ptr %list, ptr %range) {
start:
FIELDS
  %lo = load i64, ptr %range
  %last = getelementptr i64, ptr %range, i64 1
  %hi = load i64, ptr %last
  %rows_split = icmp ne i64 %by_rows, 0
  %a_letter = trunc i64 %a_flag to i8
  %b_letter = trunc i64 %b_flag to i8
SLOTS
  %more = icmp slt i64 %lo, %hi
  br i1 %more, label %part, label %done
part:
  %i = phi i64 [%lo, %start], [%i_next, %call]
  %before = add i64 %extent, %block
  %rounded = sub i64 %before, 1
  %blocks = sdiv i64 %rounded, %block
  %which = srem i64 %i, %blocks
  %rest = sdiv i64 %i, %blocks
  %first = mul i64 %which, %block
  %left = sub i64 %extent, %first
  %short = icmp slt i64 %left, %block
  %count = select i1 %short, i64 %left, i64 %block
  %m_here = select i1 %rows_split, i64 %count, i64 %m
  %n_here = select i1 %rows_split, i64 %n, i64 %count
  %a_more = mul i64 %first, %a_step
  %b_more = mul i64 %first, %b_step
  %out_more = mul i64 %first, %out_step
  %a_first = add i64 %a_start, %a_more
  %b_first = add i64 %b_start, %b_more
  %out_first = add i64 %out_start, %out_more
  br label %loop
loop:
  %d = phi i64 [0, %part], [%d_next, %inside]
  %number = phi i64 [%rest, %part], [%number_next, %inside]
  %a_at = phi i64 [%a_first, %part], [%a_next, %inside]
  %b_at = phi i64 [%b_first, %part], [%b_next, %inside]
  %out_at = phi i64 [%out_first, %part], [%out_next, %inside]
  %inner = icmp slt i64 %d, %loops
  br i1 %inner, label %inside, label %call
inside:
  %line = mul i64 %d, 4
  %place = add i64 %line, COUNT
  %size_at = getelementptr i64, ptr %list, i64 %place
  %size = load i64, ptr %size_at
  %a_by_at = getelementptr i64, ptr %size_at, i64 1
  %a_by = load i64, ptr %a_by_at
  %b_by_at = getelementptr i64, ptr %size_at, i64 2
  %b_by = load i64, ptr %b_by_at
  %out_by_at = getelementptr i64, ptr %size_at, i64 3
  %out_by = load i64, ptr %out_by_at
  %step = srem i64 %number, %size
  %number_next = sdiv i64 %number, %size
  %a_move = mul i64 %step, %a_by
  %b_move = mul i64 %step, %b_by
  %out_move = mul i64 %step, %out_by
  %a_next = add i64 %a_at, %a_move
  %b_next = add i64 %b_at, %b_move
  %out_next = add i64 %out_at, %out_move
  %d_next = add i64 %d, 1
  br label %loop
call:
  %m32 = trunc i64 %m_here to i32
  %n32 = trunc i64 %n_here to i32
  store i32 %m32, ptr %s_m
  store i32 %n32, ptr %s_n
  %a_ptr = getelementptr KIND, ptr %a, i64 %a_at
  %b_ptr = getelementptr KIND, ptr %b, i64 %b_at
  %out_ptr = getelementptr KIND, ptr %out, i64 %out_at
  call void @GEMM(ptr %s_b_letter, ptr %s_a_letter, ptr %s_n, ptr %s_m, ptr %s_k,
    ptr %s_one, ptr %b_ptr, ptr %s_ldb, ptr %a_ptr, ptr %s_lda, ptr %s_zero,
    ptr %out_ptr, ptr %s_ldc)
  %i_next = add i64 %i, 1
  %again = icmp slt i64 %i_next, %hi
  br i1 %again, label %part, label %done
done:
  ret void
}
"""


class ProductText:
    """The function for products of a dtype, as `functions_of` takes it."""

    name, used, steps = "product", (), 1 << 20

    def __init__(self, dtype):
        letter, kind = {"f4": ("s", "float"), "f8": ("d", "double")}[dtype.str[1:]]
        gemm = blas_symbol(letter + "gemm")
        fields = []
        for i, name in enumerate(FIELDS):
            fields += [
                f"  %at_{name} = getelementptr i64, ptr %list, i64 {i}",
                f"  %{name} = load i64, ptr %at_{name}",
            ]
        slots = []
        for name in ("k", "lda", "ldb", "ldc"):
            slots += [
                f"  %s_{name} = alloca i32",
                f"  %t_{name} = trunc i64 %{name} to i32",
                f"  store i32 %t_{name}, ptr %s_{name}",
            ]
        slots += ["  %s_m = alloca i32", "  %s_n = alloca i32"]
        for name, given, value in (
            ("a_letter", "i8", "%a_letter"), ("b_letter", "i8", "%b_letter"),
            ("one", kind, "1.0"), ("zero", kind, "0.0"),
        ):  # fmt: skip
            slots.append(f"  %s_{name} = alloca {given}")
            slots.append(f"  store {given} {value}, ptr %s_{name}")
        text = TEXT.replace("FIELDS", "\n".join(fields)).replace("KIND", kind)
        text = text.replace("SLOTS", "\n".join(slots)).replace("GEMM", gemm)
        text = text.replace("COUNT", str(len(FIELDS))) + builtin_text(5, True)
        self.key = short_name(text)
        self.text = text.replace("NAME", f"kernel_{self.key}")
        pointers = ", ".join(["ptr"] * 13)
        declared = f"declare void @{gemm}({pointers})"
        self.declared = dict.fromkeys((declared, *python_declarations))


@functools.cache
def product_function(dtype):
    """The compiled function for products of a dtype."""
    text = ProductText(dtype)
    return functions_of([text])[text.key]


# ---- one call


def steps_of(call, block=None, by_rows=True):
    """The list of numbers for a `Call`: see `FIELDS`."""
    a, b = call.inputs
    out, = call.outputs
    (m, k), n = a.shape[-2:], b.shape[-1]
    a_by_rows, lda = stored_by((m, k), a.strides[-2:])
    b_by_rows, ldb = stored_by((k, n), b.strides[-2:])
    flags = (ord("n" if stored else "t") for stored in (a_by_rows, b_by_rows))
    extent = m if by_rows else n
    moves = (a.strides[-2], 0, out.strides[-2]) if by_rows else (0, b.strides[-1], 1)
    loops = list(
        zip(a.shape[:-2], *(view.strides[:-2] for view in (a, b, out)), strict=True)
    )
    numbers = [m, n, k, lda, ldb, max(out.strides[-2], n), *flags]
    numbers += [a.offset, b.offset, out.offset]
    numbers += [by_rows, extent, block or max(extent, 1), *moves, len(loops)]
    # The innermost loop goes on fastest.
    return np.array(numbers + [x for line in reversed(loops) for x in line], np.int64)


def block_of(call, parts):
    """(how many rows or columns make a part, whether it is rows) of one product."""
    a, b = call.inputs
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch, work, extent = math.prod(a.shape[:-2]), m * n * k, max(m, n)
    wanted = min(parts // batch, work // SMALLEST_PART, extent // SHORTEST)
    size = -(-extent // max(1, wanted))
    return min(extent, -(-size // 16) * 16), m >= n


def native_product(call):
    """A function of three arrays that does what a `Call` of `matmul` says."""
    a, b = call.inputs
    function = product_function(a.buffer.dtype)
    batch, each = math.prod(a.shape[:-2]), math.prod(a.shape[-2:]) * b.shape[-1]
    steps, whole = steps_of(call), np.array([0, batch])
    if each <= ONE_THREAD and batch * each <= WORTH_THREADS:
        return lambda left, right, out: function(left, right, out, steps, whole)

    def multiply(left, right, out):
        threads = config.read("cpu_threads")
        with one_thread:
            if threads < 2 or batch * each <= WORTH_THREADS:
                return function(left, right, out, steps, whole)
            block, by_rows = block_of(call, PARTS * threads)
            extent = max(a.shape[-2], b.shape[-1])
            count = batch * -(-extent // block)
            size = -(-count // (PARTS * threads))
            starts = range(0, count, size)
            ranges = [np.array([i, min(i + size, count)]) for i in starts]
            arrays = left, right, out, steps_of(call, block, by_rows)
            job = Job(function, arrays, ranges)
            workers.ask(job, min(threads, len(ranges)) - 1)
            job.work()
            job.done.acquire()

    return multiply
