"""Kernels that a reader writes: what is said of wrong ones, and how they are read."""

import inspect
import linecache
import math
import re
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from harness import refused
from numba import cuda

from minijit.book.cases import CaseFailed
from minijit.book.exercise import verdict
from minijit.book.kernels import NoKernel, Unset, launch, look
from minijit.book.puzzles import judge
from minijit.run.device.lockstep import run_in_lockstep
from minijit.run.device.lockstep_memory import Divergence, OutOfBounds, Race
from minijit.trace.base.errors import MinijitError

x = np.arange(256, dtype="f4")
x.flags.writeable = False


def plain(x, y, n, low):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if low <= i < n and (i % 2 == 0 or i > 9):
        y[i] += max(x[i], 3)


def test_what_lockstep_does_not_know_is_said_in_other_words():
    y = np.ones(256, "f4")
    ran = launch(plain, 8, 32, x, y, 200, 1)
    i = np.arange(256)
    going = (i >= 1) & (i < 200) & ((i % 2 == 0) | (i > 9))
    assert (y == 1 + np.where(going, np.maximum(x, 3), 0)).all()
    assert ran.loads("x") == going.sum() and ran.conflicts == 0
    # The numbers 0 to 7 are a sector, and so on up to 199: 25, loaded and stored.
    assert (ran.sectors("x"), ran.sectors("y")) == (25, 50)
    refused(NoKernel, "the kernel has no array `z`", ran.of, "z")


def one_for_all(x, y):
    y[0] = x[cuda.threadIdx.x]


def counted(x, y):
    s = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, 0, x[t])
    cuda.syncthreads()
    if t == 0:
        y[cuda.blockIdx.x] = s[0]


def test_a_barrier_stands_between_an_atomic_and_a_load():
    text, wait = inspect.getsource(counted), "    cuda.syncthreads()\n    if t == 0"
    kernel = SimpleNamespace(
        printed=SimpleNamespace(text=text), constants={},
        grid=(2, 1, 1), block=(64, 1, 1),
    )  # fmt: skip
    y = np.zeros(2, "f4")
    run_in_lockstep(kernel, x, y)
    assert (y == x[:64].sum()).all() and wait in text
    kernel.printed.text = text.replace(wait, "    if t == 0")
    both = r"thread 0 of block 0 and thread \d+ of block 0 use s\[0\]"
    refused(Race, both, run_in_lockstep, kernel, x, np.zeros(2, "f4"))


SHARED = "s = cuda.shared.array(64, np.float32)"
MANY = "s[t] = x[t] | cuda.syncthreads() | y[t] = s[3] | if t == 5: s[3] = x[t]"
FLAG = "s[t] = 1 | while s[(t + 1) % 64] > 0: |     if t == 63: s[0] = 1"


# Kernels, of which `|` divides the lines.
@pytest.mark.parametrize("lines, error, says", [
    ("s[t] = x[t] | y[t] = s[(t + 1) % 64]", Race,
     r"thread 0 of block 0 and thread 1 of block 0 use s\[1\], one of"),
    ("y[0] = x[t]", Race, r"thread 1 of block 0 use y\[0\], both .* do it at once"),
    (MANY, Race, r"thread 5 of block 0 and thread 63 of block 0 use s\[3\]"),
    ("y[t] = x[t + 200]", OutOfBounds, r"thread 56 of block 0 loads x\[256\]"),
    ("if t < 40: cuda.syncthreads()", Divergence,
     "0 of block 0 came to a barrier, and thread 40 did not"),
    ("s[t] = x[t] | for k in range(2): y[t] = s[(1 - t) % 64 + 63 * k]", OutOfBounds,
     r"thread 0 of block 0 loads s\[64\], and s has 64"),
    ("s[t] = x[0] | y[t] = s[0] | if t < 40: cuda.syncthreads()", Divergence,
     "0 of block 0 came to a barrier, and thread 40 did not"),
    (FLAG, Race, r"thread 0 of block 0 and thread 1 of block 0 use s\[1\], one"),
    ("k = 0 | while k < 1: k = 0", NoKernel,
     "after 10,000 statements the kernel has not ended"),
    ("if t < 40: v = x[t] | y[t] = v", Unset,
     "thread 40 of block 0 uses v, which it has not set"),
    ("u = cuda.shared.array(2 * 32, np.float32) | y[t] = u[t]", Unset,
     r"thread 0 of block 0 loads u\[0\], which no thread has stored"),
    ("x[t] = 0", NoKernel, r"thread 0 of block 0 stores x\[0\], and x is only to be"),
])  # fmt: skip
def test_a_wrong_kernel_is_told_what_is_wrong(lines, error, says):
    body = ["t = cuda.threadIdx.x", *[SHARED] * ("s[" in lines), *lines.split(" | ")]
    kernel = of_source("def k(x, y):\n" + "".join(f"    {x}\n" for x in body))["k"]
    with pytest.raises(error) as caught:
        launch(kernel, 1, 64, x, np.zeros(64, "f4"))
    told = str(caught.value).split("\n")
    assert re.search(says, " ".join(told))
    assert re.match("in line [2-9]: [a-z]", told[-1])


def of_source(text):
    """What a source defines, as a notebook has it: with lines to be shown."""
    linecache.cache["<wrong>"] = (len(text), None, text.splitlines(True), "<wrong>")
    space = {"cuda": cuda, "np": np, "math": math}
    exec(compile(text, "<wrong>", "exec"), space)
    return space


LIST = "there are cuda.syncthreads(), cuda.shfl_xor_sync(-1, v, 16), max(a, b)"


@pytest.mark.parametrize("line, part, advice", [
    ("v = x.shape[0]", "x.shape", "give the kernel the number of elements"),
    ("v = x.size", "x.size", "give the kernel the number of elements"),
    ("v = len(x)", "len(x)", "give the kernel the number of elements"),
    ("v = threadIdx.x", "threadIdx.x", "write `cuda.threadIdx.x`"),
    ("v = cuda.threadidx.x", "cuda.threadidx.x", "write `cuda.threadIdx.x`"),
    ("v = cuda.threadIdx.y", "cuda.threadIdx.y", "write `cuda.threadIdx.x`"),
    ("v = cuda.laneid", "cuda.laneid", "there are cuda.threadIdx.x, cuda.blockIdx.x"),
    ("v = cuda.grid(1)", "cuda.grid(1)",
     "write `cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x`"),
    ("cuda.atomic.add(y, 0, x[t])", "cuda.atomic.add(y, 0, x[t])",
     "threads take turns at it; do it without `cuda.atomic`"),
    ("v = w = t", "v = w = t", "write a statement for each name"),
    ("v: float = t", "v: float = t", "a variable has no type here: write `a = v`"),
    ("v = sorted(t)", "sorted(t)", LIST),
    ("cuda.syncthreads", "cuda.syncthreads", "write `cuda.syncthreads()`"),
    ("s = cuda.shared.array(64, dtype=np.float32)",
     "cuda.shared.array(64, dtype=np.float32)", "write `cuda.shared.array(64, np.fl"),
    ("s = cuda.shared.array((8, 8), np.float32)",
     "cuda.shared.array((8, 8), np.float32)", "write the size as one number: `cuda"),
    ("s = cuda.shared.array(n, np.float32)",
     "cuda.shared.array(n, np.float32)", "write the size as one number: `cuda.shared"),
    ("s = cuda.shared.array(64, float)",
     "cuda.shared.array(64, float)", "write `cuda.shared.array(64, np.float32)`"),
    ("for half in (64, 32): pass", "(64, 32)", "a loop is `for k in range(7)`"),
    ("r, c = divmod(t, n)", "divmod(t, n)", "write `i // n` and `i % n`"),
    ("r, c = t", "r, c = t", "write a value for each name"),
    ("y[t, 0] = 1", "(t, 0)", "an array has one index, such as `row * width + column`"),
    ("y[:] = 1", ":", "an array has one index"),
    ("y = x * 2", "y", "an array is used by its elements, such as `y[i]`"),
    ("v = x * 2", "x", "an array is used by its elements, such as `x[i]`"),
    ("v = np.exp(x[t])", "np.exp(x[t])", "write `math.exp(v)`"),
    ("v = max(t, 3, n)", "max(t, 3, n)", "write `max(a, b)`"),
    ("v = 2 ** t", "2 ** t", "write `v * v`, and `1 << k` for 2"),
    ("return", "return", "put what only some threads do into an `if`"),
    ("while t: break", "break", "put what only some threads do into an `if`"),
    ("v = cuda.shfl_xor_sync(t, 16)",
     "cuda.shfl_xor_sync(t, 16)", "write `cuda.shfl_xor_sync(-1, v, 16)`"),
    ("v = [t]", "[t]", "write it with `if`, `for`, `while`"),
])  # fmt: skip
def test_what_has_no_form_is_told_what_to_write(line, part, advice):
    kernel = of_source(f"def k(x, y, n):\n    t = cuda.threadIdx.x\n    {line}\n")["k"]
    with pytest.raises(NoKernel) as caught:
        launch(kernel, 1, 64, x, np.zeros(64, "f4"), 64)
    *told, where = str(caught.value).split("\n")
    assert " ".join(told).startswith(f"`{part}` does not run in lock-step: {advice}")
    assert where == f"in line 3: {line}"


@pytest.mark.parametrize("line, wrong", [("y[t] = TILE", "TILE"), ("y[tt] = 1", "tt")])
def test_a_name_that_nothing_has_is_told(line, wrong):
    kernel = of_source(f"def k(x, y):\n    t = cuda.threadIdx.x\n    {line}\n")["k"]
    says = f"^`{wrong}` is no variable or parameter of this kernel: write the number"
    refused(NoKernel, says, launch, kernel, 1, 64, x, np.zeros(64, "f4"))


@pytest.mark.parametrize("head", ["for k in range(2)", "while t < 0"])
def test_a_loop_has_no_else(head):
    body = f"    t = cuda.threadIdx.x\n    {head}: pass\n    else:\n        y[t] = 1\n"
    with pytest.raises(NoKernel, match="a loop has no `else`: (.|\n)*line 5: y.t. = 1"):
        launch(of_source(f"def k(x, y):\n{body}")["k"], 1, 64, x, np.zeros(64, "f4"))


@pytest.mark.parametrize("line, error, says", [
    ("y[t] = x[t / n]", NoKernel, "index of x is not a whole number: write `//`"),
    ("y[t] = cuda.shfl_xor_sync(-1, t, 32)", OutOfBounds, "a distance of 32, not"),
    ("y[t] = cuda.shfl_xor_sync(-1, t, -1)", OutOfBounds, "a distance of -1, not"),
    ("y[t] = cuda.shfl_xor_sync(0, t, 1)", Divergence, "the mask 0; -1 is the mask"),
    ("v = n // (t - 3)", NoKernel, "thread 3 of block 0 divides by 0"),
    ("v = n % (t % 2)", NoKernel, "thread 0 of block 0 divides by 0"),
    ("v = t << (5 - t)", NoKernel, "thread 6 of block 0 shifts by a number that"),
    ("for k in range(0, 4, t): pass", NoKernel, "thread 0 of block 0 has a step of 0"),
    ("for k in range(0, 4, 5 - 2 * t): pass", NoKernel,
     "thread 3 of block 0 has a step of another sign than others"),
])  # fmt: skip
def test_what_only_a_run_shows_is_told_with_its_line(line, error, says):
    kernel = of_source(f"def k(x, y, n):\n    t = cuda.threadIdx.x\n    {line}\n")["k"]
    with pytest.raises(error) as caught:
        launch(kernel, 1, 64, x, np.zeros(64, "f4"), 64)
    *told, where = str(caught.value).split("\n")
    assert says in " ".join(told) and where == f"in line 3: {line}"


def strides(x, y):
    t = cuda.threadIdx.x
    total = np.float32(0)
    if t > 0:
        for k in range(0, 12, t):
            total += x[k] / t if t % 3 else x[12 // t]
    y[t] = total


def test_each_thread_may_have_a_step_of_its_own():
    y = np.zeros(32, "f4")
    launch(strides, 1, 32, x, y)
    for t in range(1, 32):
        each = [k / t if t % 3 else 12 // t for k in range(0, 12, t)]
        assert np.isclose(y[t], sum(each)), t


@pytest.mark.parametrize("launched, says", [
    ((), "say how many blocks, and how many threads of each, before what the kernel"),
    (((2, 1), (32,), x, x), "say how many blocks"),
    ((1, 0, x, x), "say how many blocks"),
    ((1, 64, [1, 2], x), "x is a list with 1 axes: a kernel is given numbers"),
    ((1, 64, x, x.reshape(16, 16)), "y is a ndarray with 2 axes"),
])  # fmt: skip
def test_what_a_launch_lacks_is_told(launched, says, capsys):
    refused(NoKernel, re.escape(says), launch, one_for_all, *launched)
    look(one_for_all, *launched)
    assert capsys.readouterr().out.startswith(f"NoKernel: {says}")


@pytest.mark.parametrize("blocks, threads", [(1, 50), (1, 2048)])
def test_a_block_has_so_many_threads(blocks, threads):
    with pytest.raises(NoKernel, match=f"multiple of 32 .* 1,024 .*; not {threads}"):
        launch(one_for_all, blocks, threads, x, x)


def downwards(x, y):
    t = cuda.threadIdx.x
    total = np.float32(0) if t < math.inf else -math.pi
    for k in range(t, -1, -1):
        total += x[k]
    distance = 2
    if t & 32:
        distance = 5
    y[t] = total + cuda.shfl_xor_sync(-1, total, distance)


def test_loops_go_down_bits_are_tests_and_distances_differ():
    y = np.zeros(64, "f4")
    launch(downwards, 1, 64, x, y)
    totals, t = np.cumsum(x[:64]), np.arange(64)
    assert (y == totals + totals[t ^ np.where(t < 32, 2, 5)]).all()


def test_only_a_function_is_a_kernel():
    with pytest.raises(NoKernel, match="a kernel is a function of its own"):
        launch(lambda x, y: None, 1, 32, x, x)
    refused(NoKernel, "takes x, y; given are 1", launch, one_for_all, 1, 32, x)
    y = np.zeros(64, "f4")
    launch(cuda.jit(downwards), 1, 64, x, y)
    assert y.any()


# ---- the tour of puzzles: what a reader may get wrong, and what is said of it

mistakes = [
    ("double", "i = cuda.threadIdx.x", "i = 0", r"Race: thread 0 .* use y\[0\]"),
    ("double", "* 2", "* 2 if i < 63 else 0", "63 of block 0 has stored 0.0, exp"),
    ("double", "y[i] =", "y[i] +=", r"Unset: thread 0 .* y\[0\], which no thread has"),
    ("double", "(x, y):\n    i = cuda.threadIdx.x\n    y[i] = x",
     "(a, y):\n    i = cuda.threadIdx.x\n    y[i] = a", "is given x, y: keep these"),
    ("double", "y[i] = x", "x[i] *= 2; y[i] = x", r"x\[0\], and x is only to be load"),
    ("guarded", "i < n", "i <= n", r"OutOfBounds: thread 50 of block 0 loads x\[50\]"),
    ("guarded", "i < n", "i < n - 1", r"y\[49\]: no thread has stored it"),
    ("guarded", "i < n", "i < 50", r"y\[50\]: no thread has stored it, expected"),
    ("guarded", "y[i] = x[i] * 2", "y[i] = x[i]", "has stored 6.0, expected 12.0"),
    ("in_blocks", "cuda.blockDim.x", "64", r"use y\[64\]"),
    ("in_blocks", "i < n", "i < n - 1", r"y\[999\]: no thread has stored it"),
    ("in_blocks", "if i < n:", "if True:", "OutOfBounds: thread 104 of block 7"),
    ("in_blocks", "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x",
     "cuda.threadIdx.x * cuda.gridDim.x + cuda.blockIdx.x", "should load neighbours"),
    ("add_outer", "[i // width]", "[i % width]", "OutOfBounds"),
    ("add_outer", "[i % width]", "[i]", "OutOfBounds"),
    ("add_outer", "y[i]", "y[i * 5 % (64 * cuda.gridDim.x)]", "are wrong"),
    ("flip_blocks", "    cuda.syncthreads()\n", "", r"use s\[63\]"),
    ("flip_blocks", "63 - t", "64 - t", r"OutOfBounds: .* s\[64\]"),
    ("flip_blocks", "first = cuda.blockIdx.x * 64", "first = 0", r"use y\[0\]"),
    ("three_sums", "    cuda.syncthreads()\n", "", r"use s\[1\]"),
    ("three_sums", "x[i - 1] if i > 0 else np.float32(0)", "x[i - 1]", r"x\[-1\]"),
    ("three_sums", "x[i + 1] if i + 1 < n else", "", r"y\[63\]: thread 63"),
    ("three_sums", "t == 0:", "t == 0 and i > 0:", r"loads s\[0\], which no thread"),
    ("block_total", "        cuda.syncthreads()\n", "", r"use s\[64\]"),
    ("block_total", "distance = 64", "distance = 32", "4 of 4 numbers are wrong"),
    ("block_total", "x] =", "x] +=", r"thread 0 of block 0 loads y\[0\], which no"),
    ("warp_total", "    if t == 0:\n    ", "", r"use y\[0\]"),
    ("warp_total", "> 0:", "> t:", "0 of block 0 exchanges numbers, and thread 16"),
    ("warp_total", "distance = 16", "distance = 8", "4 of 4 numbers are wrong"),
    ("warp_total", "(-1", "(0", "Divergence: of a warp .* -1 is the mask of all"),
    ("warp_total", "x] =", "x] +=", r"thread 0 of block 0 loads y\[0\], which no"),
    ("turned", "    cuda.syncthreads()\n", "", r"use s\[33\]"),
    ("turned", "33", "32", "wait 3,968 times for a bank of s"),
    ("turned", "(n // 32)", "2", "OutOfBounds: thread 0 of block 6 loads x"),
    ("turned", "(across + k) * n + down", "(down + k) * n + across", "is y.32.:"),
    ("softmax_rows", " - largest", "", "has stored nan"),
    ("softmax_rows", "range(5)", "range(4)", "9 of 128 numbers are wrong"),
    ("softmax_rows", "= x[i]", "= max(x[i], 0)", "thread 0 of block 3 has stored nan"),
    ("block_scan", "        cuda.syncthreads()\n        s[t]", "        s[t]", "use s"),
    ("block_scan", "distance < 64", "distance < 32", r"first is y\[32\]"),
    ("product", "        cuda.syncthreads()\n    y", "    y", r"use a\[\d+\]"),
    ("product", "b[k * 16 + t % 16]", "b[t % 16 * 16 + k]", "numbers are wrong"),
    ("product", "n // 16", "2", "OutOfBounds: thread 0 of block 6"),
    ("product", "across] =", "across] +=", r"loads y\[0\], which no thread has"),
    ("product", "b[t] = w[(tile * 16 + t // 16) * n + across]",
     "i, j = t % 16, t // 16; b[i * 16 + j] = w[(tile * 16 + i) * n + across - i + j]",
     "to load w takes 1,024 sectors, where 256 would do"),
    ("double", "cuda.threadIdx.x", "63 - cuda.threadIdx.x", "1 block of 32 .* x.63."),
    ("add_outer", "cuda.blockIdx.x * cuda.blockDim.x + ", "", r"both of them to store"),
    ("flip_blocks", "s[63 - t]", "s[t]", "has stored 6.0, expected -2.0"),
    ("flip_blocks", "cuda.syncthreads()", "if t < 63:\n        cuda.syncthreads()",
     "thread 0 of block 0 came to a barrier, and thread 63 did not"),
    ("flip_blocks", "= s[63 - t]", "= s[63 - t]; cuda.syncthreads()",
     "all wait at 2 barriers, where 1 would do"),
    ("three_sums", "66", "64", r"thread 63 of block 0 stores s\[64\], and s has 64"),
    ("three_sums", "s[t + 2]", "s[t + 3]", r"thread 63 of block 0 loads s\[66\]"),
    ("block_total", "t < distance", "t <= distance", "64 of block 0 loads s.128."),
    ("turned", "t * 33 + k", "t * 32 + k", "thread 1 of block 0 loads s.32., which no"),
    ("turned", "1056", "1024", r"OutOfBounds: thread 1 of block 0 stores s\[1024\]"),
    ("softmax_rows", "(5):\n        total", "(6):\n        total",
     "exchanges over a distance of 32, not 1 to 31"),
]  # fmt: skip
# Whole kernels: `t` is the thread, `b` its block.
others = [
    ("double", """
        if t == 0:
            for k in range(64):
                y[k] = x[k] * 2
    """, "loads 64 numbers of x, where 1 would do: divide the work"),
    ("flip_blocks", """
        s = cuda.shared.array(64, np.float32)
        s[t] = x[b * 64 + t]
        y[b * 64 + 63 - t] = s[t]
    """, "no thread takes from shared memory what another one has"),
    ("block_total", """
        cuda.atomic.add(y, b, x[b * 128 + t])
    """, "do it without `cuda.atomic`"),
    ("warp_total", """
        v = x[b * 32 + t]
        total = v
        for k in range(1, 32):
            total += cuda.shfl_xor_sync(-1, v, k)
        if t == 0:
            y[b] = total
    """, "each thread makes 31 exchanges, expected 5"),
    ("softmax_rows", """
        b *= 32
        top = x[b]
        for k in range(32):
            top = max(top, x[b + k])
        total = np.float32(0)
        for k in range(32):
            total += math.exp(x[b + k] - top)
        y[b + t] = math.exp(x[b + t] - top) / total
    """, "32 numbers of x, where 1 would do: what several threads need, one of them"),
    ("block_scan", """
        s = cuda.shared.array(64, np.float32)
        s[t] = x[t]
        cuda.syncthreads()
        total = np.float32(0)
        for k in range(t + 1):
            total += s[k]
        y[t] = total
    """, "thread 63 of block 0 loads 64 numbers from shared memory, where 32"),
    ("in_blocks", """
        i = n - 1 - (b * cuda.blockDim.x + t)
        if i >= 0:
            y[i] = x[i] * 2
    """, "17 would do: a warp should begin where a sector begins, at a multiple of 8"),
    ("double", """
        y[t] = x[t]
        y[t] += x[t]
    """, "loads y.0.: keep in a variable what is not a result yet"),
    ("guarded", """
        if t == 0:
            for k in range(n):
                y[k] = x[k] * 2
    """, "loads 50 numbers of x, where 1 would do"),
    ("add_outer", """
        i = t * cuda.gridDim.x + b
        y[i] = column[i // width] + row[i % width]
    """, "takes 128 sectors, where 32 would do: neighbouring threads should store"),
    ("three_sums", """
        i = b * 64 + t
        v = x[i]
        if i > 0:
            v += x[i - 1]
        if i < n - 1:
            v += x[i + 1]
        y[i] = v
    """, "load 766 numbers of x, where 262 would do"),
    ("warp_total", """
        s = cuda.shared.array(32, np.float32)
        s[t] = x[b * 32 + t]
        for k in range(5):
            cuda.syncthreads()
            if t < 16 >> k:
                s[t] += s[t + (16 >> k)]
        if t == 0:
            y[b] = s[0]
    """, "do it without shared memory"),
    ("double", """
        y[t] = x[t]
        y[t] = x[t] * 2
    """, "stores into y 2 times, where 1 would do: keep in a variable what is not"),
    ("block_scan", """
        s = cuda.shared.array(64, np.float32)
        s[t] = x[t]
        for k in range(1, 64):
            cuda.syncthreads()
            if t == k:
                s[t] += s[t - 1]
        y[t] = s[t]
    """, "all wait at 63 barriers, where 13 would"),
    ("block_scan", """
        if t == 0:
            total = np.float32(0)
            for k in range(64):
                total += x[k]
                y[k] = total
    """, "thread 0 of block 0 loads 64 numbers of x, where 1 would do"),
]
# Right ones that are not as the solution has it.
variants = [
    ("double", "v = x[t]\nv *= 2\ny[t] = v"),
    ("guarded", "if t < n:\n    v = x[t]\n    y[t] = v + v"),
    ("in_blocks", "i = t + b * cuda.blockDim.x\nif n > i:\n    y[i] = 2 * x[i]"),
    ("add_outer", """
        i = b * cuda.blockDim.x + t
        r, c = i // width, i % width
        y[r * width + c] = column[r] + row[c]
    """),
    ("three_sums", """
        s = cuda.shared.array(64, np.float32)
        i = b * 64 + t
        s[t] = x[i]
        cuda.syncthreads()
        total = s[t]
        if t > 0:
            total += s[t - 1]
        elif i > 0:
            total += x[i - 1]
        if t < 63:
            total += s[t + 1]
        elif i < n - 1:
            total += x[i + 1]
        y[i] = total
    """),
    ("block_total", """
        s = cuda.shared.array(4, np.float32)
        v = x[b * 128 + t]
        for k in range(5):
            v += cuda.shfl_xor_sync(-1, v, 1 << k)
        if t % 32 == 0:
            s[t // 32] = v
        cuda.syncthreads()
        if t == 0:
            y[b] = s[0] + s[1] + s[2] + s[3]
    """),
    ("softmax_rows", """
        v = x[b * 32 + t]
        m = v
        bit = 16
        while bit:
            m = max(m, cuda.shfl_xor_sync(-1, m, bit))
            bit >>= 1
        e = math.exp(v - m)
        total = e
        for k in range(5):
            total = total + cuda.shfl_xor_sync(-1, total, 1 << k)
        y[b * 32 + t] = e / total
    """),
    ("block_scan", """
        s = cuda.shared.array(64, np.float32)
        v = x[t]
        s[t] = v
        cuda.syncthreads()
        for k in range(6):
            if t >= 1 << k:
                v += s[t - (1 << k)]
            cuda.syncthreads()
            s[t] = v
            cuda.syncthreads()
        y[t] = v
    """),
    ("block_scan", """
        s = cuda.shared.array(2, np.float32)
        v, total = x[t], x[t]
        for k in range(5):
            other = cuda.shfl_xor_sync(-1, total, 1 << k)
            v += other if t & 1 << k else 0
            total += other
        if t % 32 == 0:
            s[t // 32] = total
        cuda.syncthreads()
        y[t] = v + s[0] if t > 31 else v
    """),
]
puzzles = Path(__file__).parent.parent / "chapters/solutions/tours/cuda_puzzles.py"


@pytest.mark.parametrize("name, old, new, says", mistakes)
def test_a_puzzle_solved_wrongly_is_told_why(name, old, new, says):
    text = puzzles.read_text(encoding="utf-8")
    before, own = text.split(f"def {name}")
    own, check = own.split(f"def check_{name}")
    assert old in own
    own = own.replace(old, new)
    space = of_source(f"{before}def {name}{own}def check_{name}{check}")
    assert re.search(says, complaint(space, name, space[name]))


@pytest.mark.parametrize("name, body, says", others)
def test_a_puzzle_solved_by_other_means_is_told_why(name, body, says):
    space = of_source(puzzles.read_text(encoding="utf-8"))
    assert re.search(says, complaint(space, name, kernel_of(space, name, body)))


@pytest.mark.parametrize("name, body", variants)
def test_a_puzzle_may_be_solved_in_another_way(name, body):
    space = of_source(puzzles.read_text(encoding="utf-8"))
    space[f"check_{name}"](kernel_of(space, name, body))


@pytest.mark.parametrize("name", sorted({name for name, *_ in mistakes}))
def test_each_limit_is_what_the_solution_uses(name):
    """With any of them lower by one the solution itself is refused."""
    space, cases = of_source(puzzles.read_text(encoding="utf-8")), []
    space["judge"] = lambda kernel, case: cases.append(case)
    space[f"check_{name}"](space[name])
    # What is shared may be loaded, and waited for, in more ways than one; so may a
    # neighbour's number.
    loose, lowered = {"three_sums": ["x"]}.get(name, []), []
    for case in cases:
        for key in ("each", "loads", "sectors"):
            of_key = getattr(case, key)
            for array in of_key if key != "each" else {*of_key} - {*loose}:
                less = of_key | {array: of_key[array] - 1}
                lowered.append(replace(case, **{key: less}))
        if case.exchanges is not None:
            lowered.append(replace(case, exchanges=case.exchanges - 1))
    for case in lowered:
        with pytest.raises(CaseFailed):
            judge(space[name], case)
    assert len(lowered) >= len(cases)


def test_a_verdict_begins_with_the_launch():
    space = of_source(puzzles.read_text(encoding="utf-8"))
    kernel = kernel_of(space, "guarded", "if t <= n:\n    y[t] = x[t] * 2")
    told = verdict(space["check_guarded"], kernel).split("\n")
    assert told[0] == "not yet: guarded: 1 block of 64 threads, n = 50"
    assert told[1].startswith("  raised    OutOfBounds: thread 50 of block 0 loads")


def test_each_puzzle_has_enough_wrong_kernels():
    checks = of_source(puzzles.read_text(encoding="utf-8"))
    for name in checks:
        if name.startswith("check_"):
            known = [x for x in mistakes + others if f"check_{x[0]}" == name]
            assert len(known) >= 5, name


def kernel_of(space, name, body):
    """A whole kernel for a puzzle."""
    names = ", ".join(inspect.signature(space[name]).parameters)
    begin = "t, b = cuda.threadIdx.x, cuda.blockIdx.x"
    body = textwrap.indent(f"{begin}\n{textwrap.dedent(body).strip()}", "    ")
    return of_source(f"def {name}({names}):\n{body}\n")[name]


def complaint(space, name, kernel):
    """What the check of a puzzle says of a kernel, in one line."""
    with pytest.raises((AssertionError, MinijitError)) as caught:
        space[f"check_{name}"](kernel)
    return " ".join(f"{caught.type.__name__}: {caught.value}".split())
