"""Kernels that a reader writes: what is said of wrong ones, and how they are read."""

import linecache
import re
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

from minijit.book.kernels import NoKernel, launch
from minijit.run.device.lockstep_memory import Divergence, OutOfBounds, Race
from minijit.trace.base.errors import MinijitError

x = np.arange(256, dtype="f4")


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
    y[t] = s[3]
    if t == 5:
        s[3] = x[t]


def too_far(x, y):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x + 200]


def parted(x, y):
    if cuda.threadIdx.x < 40:
        cuda.syncthreads()


def returning(x, y):
    if cuda.threadIdx.x > 9:
        return


def squared(x, y):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x] ** 2


def misspelt(x, y):
    y[cuda.threadIdx.x] = z + 1  # noqa: F821


def endless(x, y):
    while y[cuda.threadIdx.x] < 1:
        y[cuda.threadIdx.x] *= 2


@pytest.mark.parametrize("kernel, error, says", [
    (hasty, Race, r"thread 0 of block 0 and thread 1 of block 0 use s\[1\]"),
    (one_for_all, Race, r"thread 0 of block 0 and thread 1 of block 0 use y\[0\]"),
    (among_many, Race, r"thread 5 of block 0 and thread 63 of block 0 use s\[3\]"),
    (too_far, OutOfBounds, r"thread 56 of block 0 loads x\[256\]"),
    (parted, Divergence, "of block 0 some threads came to a barrier"),
    (returning, NoKernel, "`return` does not run in lock-step: write it with"),
    (squared, NoKernel, r"`x\[cuda.threadIdx.x\] \*\* 2` does not run in lock-step"),
    (misspelt, NoKernel, "nothing that is called 'z'"),
    (endless, NoKernel, "has not ended"),
])  # fmt: skip
def test_a_wrong_kernel_is_told_what_is_wrong(kernel, error, says):
    with pytest.raises(error, match=says):
        launch(kernel, 1, 64, x, np.zeros(64, "f4"))


# ---- the tour of puzzles: what a reader may get wrong, and what is said of it

mistakes = [
    ("double", "i = cuda.threadIdx.x", "i = 0", r"Race: thread 0 .* use y\[0\]"),
    ("double", "i = cuda.threadIdx.x", "i = cuda.blockIdx.x", r"use y\[0\]"),
    ("double", "* 2", "* 2 if i < 63 else 0", "AssertionError"),
    ("guarded", "i < n", "i <= n", r"OutOfBounds: thread 50 of block 0 loads x\[50\]"),
    ("guarded", "if i < n:", "if True:", "OutOfBounds: thread 50"),
    ("guarded", "i < n", "i < n - 1", "AssertionError"),
    ("in_blocks", "cuda.blockDim.x", "64", r"use y\[64\]"),
    ("in_blocks", "if i < n:", "if True:", "OutOfBounds: thread 104 of block 7"),
    ("in_blocks", "cuda.blockIdx.x * cuda.blockDim.x + ", "", "of block 1 use y"),
    ("add_outer", "[i // width]", "[i % width]", "OutOfBounds"),
    ("add_outer", "[i % width]", "[i]", "OutOfBounds"),
    ("add_outer", "y[i]", "y[i * 5 % (64 * cuda.gridDim.x)]", "AssertionError"),
    ("flip_blocks", "    cuda.syncthreads()\n", "", r"use s\[63\]"),
    ("flip_blocks", "63 - t", "64 - t", r"OutOfBounds: .* s\[64\]"),
    ("flip_blocks", "first = cuda.blockIdx.x * 64", "first = 0", r"use y\[0\]"),
    ("three_sums", "    cuda.syncthreads()\n", "", r"use s\[1\]"),
    ("three_sums", "x[i - 1] if i > 0 else np.float32(0)", "x[i - 1]", r"x\[-1\]"),
    ("three_sums", "x[i + 1] if i + 1 < n else", "", "AssertionError"),
    ("block_total", "        cuda.syncthreads()\n", "", r"use s\[64\]"),
    ("block_total", "distance = 64", "distance = 32", "AssertionError"),
    ("block_total", "    if t == 0:\n    ", "", r"use s\[0\]"),
    ("warp_total", "    if t == 0:\n    ", "", r"use y\[0\]"),
    ("warp_total", "> 0:", "> t:", "Divergence: of a warp some threads exchange"),
    ("warp_total", "distance = 16", "distance = 8", "AssertionError"),
    ("turned", "    cuda.syncthreads()\n", "", r"use s\[33\]"),
    ("turned", "33", "32", "wait for a bank"),
    ("turned", "(across + k) * n + down", "(down + k) * n + across", "AssertionError"),
    ("softmax_rows", " - largest", "", "AssertionError"),
    ("softmax_rows", "range(5)", "range(4)", "AssertionError"),
    ("softmax_rows", "= max(largest, ", "= (largest + ", "AssertionError"),
    ("block_scan", "        cuda.syncthreads()\n        s[t]", "        s[t]", "use s"),
    ("block_scan", "t >= distance", "t > distance", "AssertionError"),
    ("block_scan", "distance < 64", "distance < 32", "AssertionError"),
    ("product", "        cuda.syncthreads()\n    y", "    y", r"use a\[\d+\]"),
    ("product", "b[k * 16 + t % 16]", "b[t % 16 * 16 + k]", "AssertionError"),
    ("product", "t // 16 * 16 + k", "k * 16 + t % 16", "AssertionError"),
]
puzzles = Path(__file__).parent.parent / "chapters/solutions/tours/cuda_puzzles.py"


@pytest.mark.parametrize("name, old, new, says", mistakes)
def test_a_puzzle_solved_wrongly_is_told_why(name, old, new, says):
    text = puzzles.read_text(encoding="utf-8")
    before, own = text.split(f"def {name}(")
    own, check = own.split(f"def check_{name}(")
    assert old in own
    text = f"{before}def {name}({own.replace(old, new)}def check_{name}({check}"
    linecache.cache["<wrong>"] = (len(text), None, text.splitlines(True), "<wrong>")
    space = {}
    exec(compile(text, "<wrong>", "exec"), space)
    with pytest.raises((AssertionError, MinijitError)) as caught:
        space[f"check_{name}"](space[name])
    assert re.search(says, f"{caught.type.__name__}: {caught.value}")
