"""Solutions to the tour cuda_puzzles.ipynb."""

import math

import numpy as np
from numba import cuda

from minijit.book.kernels import unset
from minijit.book.puzzles import Case, judge

values = np.random.default_rng(0).integers(-9, 9, 4096).astype(np.float32)
values.flags.writeable = False


def matrix(n, first=0):
    """n * n of the values, again and again."""
    x = np.resize(values[first:], n * n)
    x.flags.writeable = False
    return x


def double(x, y):
    i = cuda.threadIdx.x
    y[i] = x[i] * 2


def check_double(double):
    """There is no loop: each thread has the one element with its own number."""
    for threads in 64, 32, 1024:
        x = values[:threads]
        given = dict(x=x, y=unset(threads))
        judge(double, Case(1, threads, given, x * 2, each=dict(x=1, y=1)))


def guarded(x, y, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = x[i] * 2


def check_guarded(guarded):
    """Threads from n on must do nothing."""
    for n in 50, 64, 1:
        x = values[:n]
        given = dict(x=x, y=unset(n), n=n)
        judge(guarded, Case(1, 64, given, x * 2, each=dict(x=1, y=1)))


def in_blocks(x, y, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        y[i] = x[i] * 2


def check_in_blocks(in_blocks):
    """Before block b there are b blocks, each of `cuda.blockDim.x` threads."""
    for n, blocks, threads in (1000, 8, 128), (128, 1, 128), (130, 5, 32), (9, 3, 32):
        x, least = values[:n], -(-n // 8)
        given = dict(x=x, y=unset(n), n=n)
        judge(in_blocks, Case(
            blocks, threads, given, x * 2, each=dict(x=1, y=1),
            sectors=dict(x=least, y=least),
        ))  # fmt: skip


def add_outer(column, row, y, width):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y[i] = column[i // width] + row[i % width]


def check_add_outer(add_outer):
    """Neighbouring threads have neighbours of one row: i % width is the column."""
    for height, width, threads in (8, 32, 64), (2, 64, 128), (4, 48, 32):
        column, row = values[:height], values[64 : 64 + width]
        size = height * width
        given = dict(column=column, row=row, y=unset(size), width=width)
        judge(add_outer, Case(
            size // threads, threads, given, column[:, None] + row,
            each=dict(column=1, row=1, y=1), sectors=dict(y=size // 8),
        ))  # fmt: skip


def flip_blocks(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 64
    s[t] = x[first + t]
    cuda.syncthreads()
    y[first + t] = s[63 - t]


def check_flip_blocks(flip_blocks):
    """Load in order, wait, and turn around while reading from shared memory."""
    for blocks in 4, 7, 1:
        x = values[: blocks * 64]
        given = dict(x=x, y=unset(len(x)))
        judge(flip_blocks, Case(
            blocks, 64, given, x.reshape(-1, 64)[:, ::-1], each=dict(x=1, y=1),
            shared=1, waits=1,
        ))  # fmt: skip


def three_sums(x, y, n):
    s = cuda.shared.array(66, np.float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 64 + t
    s[t + 1] = x[i]
    if t == 0:
        s[0] = x[i - 1] if i > 0 else np.float32(0)
    if t == 63:
        s[65] = x[i + 1] if i + 1 < n else np.float32(0)
    cuda.syncthreads()
    y[i] = s[t] + s[t + 1] + s[t + 2]


def check_three_sums(three_sums):
    """The first and the last thread of a block load a neighbour of the block, too."""
    for n in 256, 448, 64:
        x, blocks = values[:n], n // 64
        given = dict(x=x, y=unset(n), n=n)
        judge(three_sums, Case(
            blocks, 64, given, np.convolve(x, [1, 1, 1], "same"),
            each=dict(x=3, y=1), loads=dict(x=blocks * 66 - 2),
            waits=1,
        ))  # fmt: skip


def block_total(x, y):
    s = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.blockIdx.x * 128 + t]
    distance = 64
    while distance > 0:
        cuda.syncthreads()
        if t < distance:
            s[t] += s[t + distance]
        distance //= 2
    if t == 0:
        y[cuda.blockIdx.x] = s[0]


def check_block_total(block_total):
    """In each round half of the threads add what others have, after a barrier."""
    for blocks in 4, 7, 1:
        x = values[: blocks * 128]
        given = dict(x=x, y=unset(blocks))
        judge(block_total, Case(
            blocks, 128, given, x.reshape(-1, 128).sum(1), each=dict(x=1, y=1),
            sectors=dict(x=blocks * 16), shared=16, waits=8,
        ))  # fmt: skip


def warp_total(x, y):
    t = cuda.threadIdx.x
    total = x[cuda.blockIdx.x * 32 + t]
    distance = 16
    while distance > 0:
        total += cuda.shfl_xor_sync(-1, total, distance)
        distance //= 2
    if t == 0:
        y[cuda.blockIdx.x] = total


def check_warp_total(warp_total):
    """`cuda.shfl_xor_sync(-1, v, 16)` is the v of the thread 16 further, or before."""
    for blocks in 4, 7, 1:
        x = values[: blocks * 32]
        given = dict(x=x, y=unset(blocks))
        judge(warp_total, Case(
            blocks, 32, given, x.reshape(-1, 32).sum(1), each=dict(x=1, y=1),
            sectors=dict(x=blocks * 4), shared=0, exchanges=5,
        ))  # fmt: skip


def turned(x, y, n):
    s = cuda.shared.array(1056, np.float32)
    t = cuda.threadIdx.x
    down = cuda.blockIdx.x // (n // 32) * 32
    across = cuda.blockIdx.x % (n // 32) * 32
    for k in range(32):
        s[k * 33 + t] = x[(down + k) * n + across + t]
    cuda.syncthreads()
    for k in range(32):
        y[(across + k) * n + down + t] = s[t * 33 + k]


def check_turned(turned):
    """Load rows of a tile of 32 by 32, store its columns; rows of `s` have 33."""
    for n in 64, 96, 32:
        x, tiles, least = matrix(n), n // 32, n * n // 8
        given = dict(x=x, y=unset(n * n), n=n)
        judge(turned, Case(
            tiles * tiles, 32, given, x.reshape(n, n).T, each=dict(x=32, y=32),
            sectors=dict(x=least, y=least), waits=1, banks=False,
        ))  # fmt: skip


def softmax_rows(x, y):
    i = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    largest = x[i]
    for k in range(5):
        largest = max(largest, cuda.shfl_xor_sync(-1, largest, 1 << k))
    own = math.exp(x[i] - largest)
    total = own
    for k in range(5):
        total += cuda.shfl_xor_sync(-1, total, 1 << k)
    y[i] = own / total


def check_softmax_rows(softmax_rows):
    """First all threads find the largest number, m, then the sum of `exp(v - m)`."""
    for blocks in 4, 7, 1:
        x = values[: blocks * 32] * np.float32(20)
        x[-32:] = -200 - np.abs(x[-32:])
        x.flags.writeable = False
        rows = x.reshape(-1, 32)
        powers = np.exp(rows - rows.max(1, keepdims=True))
        given = dict(x=x, y=unset(len(x)))
        judge(softmax_rows, Case(
            blocks, 32, given, powers / powers.sum(1, keepdims=True), near=1e-5,
            each=dict(x=1, y=1), shared=0, exchanges=10,
        ))  # fmt: skip


def block_scan(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    distance = 1
    while distance < 64:
        cuda.syncthreads()
        before = s[t - distance] if t >= distance else np.float32(0)
        cuda.syncthreads()
        s[t] += before
        distance *= 2
    y[t] = s[t]


def check_block_scan(block_scan):
    """Add what is 1, 2, 4, ... before: all load, wait, and only then store."""
    for x in values[:64], values[64:128]:
        given = dict(x=x, y=unset(64))
        judge(block_scan, Case(
            1, 64, given, np.cumsum(x), each=dict(x=1, y=1), shared=32, waits=13
        ))  # fmt: skip


def product(x, w, y, n):
    a = cuda.shared.array(256, np.float32)
    b = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    down = cuda.blockIdx.x // (n // 16) * 16 + t // 16
    across = cuda.blockIdx.x % (n // 16) * 16 + t % 16
    total = np.float32(0)
    for tile in range(n // 16):
        a[t] = x[down * n + tile * 16 + t % 16]
        b[t] = w[(tile * 16 + t // 16) * n + across]
        cuda.syncthreads()
        for k in range(16):
            total += a[t // 16 * 16 + k] * b[k * 16 + t % 16]
        cuda.syncthreads()
    y[down * n + across] = total


def check_product(product):
    """All threads load a tile of each factor, wait, use both, and wait again."""
    for n in 32, 48, 16:
        x, w, tiles = matrix(n), matrix(n, 1024), n // 16
        least = n**3 // 128
        given = dict(x=x, w=w, y=unset(n * n), n=n)
        judge(product, Case(
            tiles * tiles, 256, given, x.reshape(n, n) @ w.reshape(n, n),
            each=dict(x=tiles, w=tiles, y=1),
            sectors=dict(x=least, w=least, y=n * n // 8),
            waits=2 * tiles, banks=False,
        ))  # fmt: skip
