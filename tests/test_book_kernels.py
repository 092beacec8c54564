"""Kernels that a reader writes: what is said of wrong ones, and how they are read."""

import inspect
import linecache
import math
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

from minijit.book.kernels import NoKernel, Unset, launch
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


def hasty(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[(t + 1) % 64]


def one_for_all(x, y):
    y[0] = x[cuda.threadIdx.x]


def among_many(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    y[t] = s[3]
    if t == 5:
        s[3] = x[t]


def counted(x, y, wait):
    s = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, 0, x[t])
    if wait == 1:
        cuda.syncthreads()
    if t == 0:
        y[cuda.blockIdx.x] = s[0]


def test_a_barrier_stands_between_an_atomic_and_a_load():
    y = np.zeros(2, "f4")
    launch(counted, 2, 64, x, y, 1)
    assert (y == x[:64].sum()).all()
    both = r"thread 0 of block 0 and thread \d+ of block 0 use s\[0\]"
    with pytest.raises(Race, match=both):
        launch(counted, 2, 64, x, np.zeros(2, "f4"), 0)


def too_far(x, y):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x + 200]


def parted(x, y):
    if cuda.threadIdx.x < 40:
        cuda.syncthreads()


def endless(x, y):
    k = 0
    while k < 1:
        k = 0


def partly(x, y):
    t = cuda.threadIdx.x
    if t < 40:
        v = x[t]
    y[t] = v


def empty(x, y):
    s = cuda.shared.array(2 * 32, np.float32)
    y[cuda.threadIdx.x] = s[cuda.threadIdx.x]


def beginning(x, y):
    x[cuda.threadIdx.x] = 0


@pytest.mark.parametrize("kernel, error, says", [
    (hasty, Race, r"thread 0 of block 0 and thread 1 of block 0 use s\[1\], one of"),
    (one_for_all, Race, r"0 and thread 1 of block 0 use y\[0\], both of them to store"),
    (among_many, Race, r"thread 5 of block 0 and thread 63 of block 0 use s\[3\]"),
    (too_far, OutOfBounds, r"thread 56 of block 0 loads x\[256\]"),
    (parted, Divergence, "of block 0 some threads came to a barrier"),
    (endless, NoKernel, "after 10,000 statements the kernel has not ended"),
    (partly, Unset, "thread 40 of block 0 uses v, which it has not set"),
    (empty, Unset, r"thread 0 of block 0 loads s\[0\], which no thread has stored"),
    (beginning, NoKernel, r"thread 0 of block 0 stores x\[0\], and x is only to be lo"),
])  # fmt: skip
def test_a_wrong_kernel_is_told_what_is_wrong(kernel, error, says):
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
    ("v = cuda.grid(1)", "cuda.grid(1)", LIST),
    ("v = sorted(t)", "sorted(t)", LIST),
    ("cuda.syncthreads", "cuda.syncthreads", "write `cuda.syncthreads()`"),
    ("s = cuda.shared.array(64, dtype=np.float32)",
     "cuda.shared.array(64, dtype=np.float32)", "write `cuda.shared.array(64, np.fl"),
    ("s = cuda.shared.array((8, 8), np.float32)",
     "cuda.shared.array((8, 8), np.float32)", "write `cuda.shared.array(64, np.float"),
    ("s = cuda.shared.array(n, np.float32)",
     "cuda.shared.array(n, np.float32)", "write `cuda.shared.array(64, np.float32)`"),
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
    ("y[t] = TILE", "TILE", "write the number itself, or give it to the kernel"),
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


@pytest.mark.parametrize("line, error, says", [
    ("y[t] = x[t / n]", NoKernel, "index of x is not a whole number: write `//`"),
    ("y[t] = cuda.shfl_xor_sync(-1, t, 32)", OutOfBounds, "a distance of 32, not"),
    ("y[t] = cuda.shfl_xor_sync(-1, t, -1)", OutOfBounds, "a distance of -1, not"),
    ("y[t] = cuda.shfl_xor_sync(0, t, 1)", Divergence, "the mask 0; -1 is the mask"),
    ("v = w = t", NoKernel, "does not run in lock-step: ValueError"),
])  # fmt: skip
def test_what_only_a_run_shows_is_told_with_its_line(line, error, says):
    kernel = of_source(f"def k(x, y, n):\n    t = cuda.threadIdx.x\n    {line}\n")["k"]
    with pytest.raises(error) as caught:
        launch(kernel, 1, 64, x, np.zeros(64, "f4"), 64)
    *told, where = str(caught.value).split("\n")
    assert says in " ".join(told) and where == f"in line 3: {line}"


@pytest.mark.parametrize("blocks, threads", [(1, 50), (1, 2048), (1, 0)])
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
    with pytest.raises(NoKernel, match="takes x, y; given are 1"):
        launch(one_for_all, 1, 32, x)
    y = np.zeros(64, "f4")
    launch(cuda.jit(downwards), 1, 64, x, y)
    assert y.any()


# ---- the tour of puzzles: what a reader may get wrong, and what is said of it

mistakes = [
    ("double", "i = cuda.threadIdx.x", "i = 0", r"Race: thread 0 .* use y\[0\]"),
    ("double", "i = cuda.threadIdx.x", "i = cuda.blockIdx.x", r"use y\[0\]"),
    ("double", "* 2", "* 2 if i < 63 else 0", "AssertionError"),
    ("double", "y[i] =", "y[i] +=", r"Unset: thread 0 .* y\[0\], which no thread has"),
    ("double", "(x, y):\n    i = cuda.threadIdx.x\n    y[i] = x",
     "(a, y):\n    i = cuda.threadIdx.x\n    y[i] = a", "no array `x`: keep the names"),
    ("double", "y[i] = x", "x[i] *= 2; y[i] = x", r"x\[0\], and x is only to be load"),
    ("guarded", "i < n", "i <= n", r"OutOfBounds: thread 50 of block 0 loads x\[50\]"),
    ("guarded", "if i < n:", "if True:", "OutOfBounds: thread 50"),
    ("guarded", "i < n", "i < n - 1", "AssertionError"),
    ("guarded", "i < n", "i < 50", r"y\[50\]: no thread has stored it, expected"),
    ("guarded", "y[i] = x[i] * 2", "y[i] = x[i]", r"y\[0\]: came 6.0, expected 12.0"),
    ("in_blocks", "cuda.blockDim.x", "64", r"use y\[64\]"),
    ("in_blocks", "if i < n:", "if True:", "OutOfBounds: thread 104 of block 7"),
    ("in_blocks", "cuda.blockIdx.x * cuda.blockDim.x + ", "", "can stand between blo"),
    ("in_blocks", "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x",
     "cuda.threadIdx.x * cuda.gridDim.x + cuda.blockIdx.x", "should load neighbours"),
    ("add_outer", "[i // width]", "[i % width]", "OutOfBounds"),
    ("add_outer", "[i % width]", "[i]", "OutOfBounds"),
    ("add_outer", "cuda.blockDim.x", "64", "OutOfBounds"),
    ("add_outer", "y[i]", "y[i * 5 % (64 * cuda.gridDim.x)]", "AssertionError"),
    ("flip_blocks", "    cuda.syncthreads()\n", "", r"use s\[63\]"),
    ("flip_blocks", "63 - t", "64 - t", r"OutOfBounds: .* s\[64\]"),
    ("flip_blocks", "first = cuda.blockIdx.x * 64", "first = 0", r"use y\[0\]"),
    ("three_sums", "    cuda.syncthreads()\n", "", r"use s\[1\]"),
    ("three_sums", "x[i - 1] if i > 0 else np.float32(0)", "x[i - 1]", r"x\[-1\]"),
    ("three_sums", "x[i + 1] if i + 1 < n else", "", "AssertionError"),
    ("three_sums", "t == 0:", "t == 0 and i > 0:", r"loads s\[0\], which no thread"),
    ("block_total", "        cuda.syncthreads()\n", "", r"use s\[64\]"),
    ("block_total", "distance = 64", "distance = 32", "AssertionError"),
    ("block_total", "    if t == 0:\n    ", "", r"use s\[0\]"),
    ("block_total", "x] =", "x] +=", r"thread 0 of block 0 loads y\[0\], which no"),
    ("warp_total", "    if t == 0:\n    ", "", r"use y\[0\]"),
    ("warp_total", "> 0:", "> t:", "Divergence: of a warp some threads exchange"),
    ("warp_total", "distance = 16", "distance = 8", "AssertionError"),
    ("warp_total", "(-1", "(0", "Divergence: of a warp .* -1 is the mask of all"),
    ("warp_total", "x] =", "x] +=", r"thread 0 of block 0 loads y\[0\], which no"),
    ("turned", "    cuda.syncthreads()\n", "", r"use s\[33\]"),
    ("turned", "33", "32", "wait for a bank"),
    ("turned", "(n // 32)", "2", "OutOfBounds: thread 0 of block 6 loads x"),
    ("turned", "(across + k) * n + down", "(down + k) * n + across", "AssertionError"),
    ("softmax_rows", " - largest", "", "AssertionError"),
    ("softmax_rows", "range(5)", "range(4)", "AssertionError"),
    ("softmax_rows", "= x[i]", "= max(x[i], 0)", r"y\[96\]: came nan"),
    ("softmax_rows", "= max(largest, ", "= (largest + ", "AssertionError"),
    ("block_scan", "        cuda.syncthreads()\n        s[t]", "        s[t]", "use s"),
    ("block_scan", "t >= distance", "t > distance", "AssertionError"),
    ("block_scan", "distance < 64", "distance < 32", "AssertionError"),
    ("product", "        cuda.syncthreads()\n    y", "    y", r"use a\[\d+\]"),
    ("product", "b[k * 16 + t % 16]", "b[t % 16 * 16 + k]", "AssertionError"),
    ("product", "t // 16 * 16 + k", "k * 16 + t % 16", "AssertionError"),
    ("product", "n // 16", "2", "OutOfBounds: thread 0 of block 6"),
    ("product", "across] =", "across] +=", r"loads y\[0\], which no thread has"),
    ("product", "total += a", "y[down * n + across] += a", r"loads y\[0\], which no"),
    ("product", "b[t] = w[(tile * 16 + t // 16) * n + across]",
     "i, j = t % 16, t // 16; b[i * 16 + j] = w[(tile * 16 + i) * n + across - i + j]",
     "neighbours should load neighbours"),
]
# Whole kernels: `t` is the thread, `b` its block.
others = [
    ("double", """
        if t == 0:
            for k in range(64):
                y[k] = x[k] * 2
    """, "a thread has one element"),
    ("in_blocks", """
        if b == 0:
            for i in range(t, n, cuda.blockDim.x):
                y[i] = x[i] * 2
    """, "a thread has one element at the most"),
    ("flip_blocks", """
        s = cuda.shared.array(64, np.float32)
        s[t] = x[b * 64 + t]
        y[b * 64 + 63 - t] = s[t]
    """, "takes what another has stored"),
    ("flip_blocks", """
        s = cuda.shared.array(64, np.float32)
        s[t] = x[b * 64 + 63 - t]
        y[b * 64 + t] = s[t]
    """, "takes what another has stored"),
    ("flip_blocks", """
        y[b * 64 + t] = x[b * 64 + 63 - t]
    """, "takes what another has stored"),
    ("block_total", """
        s = cuda.shared.array(128, np.float32)
        s[t] = x[b * 128 + t]
        cuda.syncthreads()
        if t == 0:
            total = np.float32(0)
            for k in range(128):
                total += s[k]
            y[b] = total
    """, "each of seven rounds takes two numbers"),
    ("block_total", """
        cuda.atomic.add(y, b, x[b * 128 + t])
    """, r"combines y\[0\], which no thread has stored"),
    ("block_total", """
        if t == 0:
            y[b] = 0
        cuda.syncthreads()
        cuda.atomic.add(y, b, x[b * 128 + t])
    """, "no `cuda.atomic`"),
    ("warp_total", """
        v = x[b * 32 + t]
        total = v
        for k in range(1, 32):
            total += cuda.shfl_xor_sync(-1, v, k)
        if t == 0:
            y[b] = total
    """, "five exchanges do"),
    ("warp_total", """
        cuda.atomic.add(y, b, x[b * 32 + t])
    """, r"combines y\[0\], which no thread has stored"),
    ("warp_total", """
        if t < 16:
            v = x[b * 32 + t] + x[b * 32 + t + 16]
        for k in range(4):
            v += cuda.shfl_xor_sync(-1, v, 8 >> k)
        if t == 0:
            y[b] = v
    """, "thread 16 of block 0 uses v, which it has not set"),
    ("softmax_rows", """
        b *= 32
        top = x[b]
        for k in range(32):
            top = max(top, x[b + k])
        total = np.float32(0)
        for k in range(32):
            total += math.exp(x[b + k] - top)
        y[b + t] = math.exp(x[b + t] - top) / total
    """, "each thread should load a number of its own"),
    ("block_scan", """
        s = cuda.shared.array(64, np.float32)
        s[t] = x[t]
        cuda.syncthreads()
        total = np.float32(0)
        for k in range(t + 1):
            total += s[k]
        y[t] = total
    """, "each of six rounds takes two numbers"),
    ("block_scan", """
        y[t] = x[t]
        for k in range(6):
            cuda.syncthreads()
            v = y[t]
            if t >= 1 << k:
                v += y[t - (1 << k)]
            cuda.syncthreads()
            y[t] = v
    """, "the rounds are in shared memory"),
    ("product", """
        a = cuda.shared.array(256, np.float32)
        c = cuda.shared.array(256, np.float32)
        row, column, tiles = t % 16, t // 16, n // 16
        down, across = b // tiles * 16 + row, b % tiles * 16 + column
        total = np.float32(0)
        for k in range(tiles):
            a[row * 16 + column] = x[down * n + k * 16 + column]
            c[row * 16 + column] = w[(k * 16 + row) * n + across]
            cuda.syncthreads()
            for j in range(16):
                total += a[row * 16 + j] * c[j * 16 + column]
            cuda.syncthreads()
        y[down * n + across] = total
    """, "neighbours should load neighbours"),
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
    names = ", ".join(inspect.signature(space[name]).parameters)
    begin = "t, b = cuda.threadIdx.x, cuda.blockIdx.x"
    body = textwrap.indent(f"{begin}\n{textwrap.dedent(body).strip()}", "    ")
    kernel = of_source(f"def {name}({names}):\n{body}\n")[name]
    assert re.search(says, complaint(space, name, kernel))


def complaint(space, name, kernel):
    """What the check of a puzzle says of a kernel, in one line."""
    with pytest.raises((AssertionError, MinijitError)) as caught:
        space[f"check_{name}"](kernel)
    return " ".join(f"{caught.type.__name__}: {caught.value}".split())
