"""Kernels that a reader writes: what is said of wrong ones, and how they are read."""

import numpy as np
import pytest
from numba import cuda

from minijit.book.kernels import NoKernel, launch
from minijit.run.device.lockstep_memory import Divergence, OutOfBounds, Race

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
    (misspelt, NoKernel, "nothing that is called 'z'"),
    (endless, NoKernel, "has not ended"),
])  # fmt: skip
def test_a_wrong_kernel_is_told_what_is_wrong(kernel, error, says):
    with pytest.raises(error, match=says):
        launch(kernel, 1, 64, x, np.zeros(64, "f4"))
