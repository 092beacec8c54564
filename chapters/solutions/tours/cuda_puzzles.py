"""Solutions to the tour cuda_puzzles.ipynb."""

import math

import numpy as np
from numba import cuda

from minijit.book.kernels import agree, launch, unset

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
    x, y = values[:64], unset(64)
    ran = launch(double, 1, 64, x, y)
    agree(ran, y, x * 2)
    assert ran.most("x") == 1, "a thread has one element"


def guarded(x, y, n):
    i = cuda.threadIdx.x
    if i < n:
        y[i] = x[i] * 2


def check_guarded(guarded):
    """Threads from n on must do nothing."""
    for n in 50, 64, 1:
        x, y = values[:n], unset(n)
        ran = launch(guarded, 1, 64, x, y, n)
        agree(ran, y, x * 2)
        assert ran.most("x") == 1, "a thread has one element at the most"


def in_blocks(x, y, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        y[i] = x[i] * 2


def check_in_blocks(in_blocks):
    """Before a block there are as many threads as all blocks before it have."""
    for n, blocks, threads in (1000, 8, 128), (128, 1, 128), (130, 5, 32):
        x, y = values[:n], unset(n)
        ran = launch(in_blocks, blocks, threads, x, y, n)
        agree(ran, y, x * 2)
        assert ran.most("x") == 1, "a thread has one element at the most"
        assert ran.sectors("x") == -(-n // 8), "neighbours should load neighbours"


def add_outer(column, row, y, width):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y[i] = column[i // width] + row[i % width]


def check_add_outer(add_outer):
    """Neighbouring threads have neighbours of one row: i % width is the column."""
    for height, width, threads in (8, 32, 64), (2, 64, 128), (4, 48, 32):
        column, row = values[:height], values[64 : 64 + width]
        y = unset(height * width)
        ran = launch(add_outer, len(y) // threads, threads, column, row, y, width)
        agree(ran, y, (column[:, None] + row).ravel())
        assert ran.sectors("y") == len(y) // 8, "neighbours should store neighbours"


def flip_blocks(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 64
    s[t] = x[first + t]
    cuda.syncthreads()
    y[first + t] = s[63 - t]


def check_flip_blocks(flip_blocks):
    """Load in order, wait, and turn around while reading from shared memory."""
    x, y = values[:256], unset(256)
    ran = launch(flip_blocks, 4, 64, x, y)
    agree(ran, y, x.reshape(4, 64)[:, ::-1].ravel())
    taken = sum(access.taken for access in ran.of(shared=True, what="loads"))
    assert taken == 256, "from shared memory each thread takes what another has stored"


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
    for n in 256, 64:
        x, y = values[:n], unset(n)
        ran = launch(three_sums, n // 64, 64, x, y, n)
        agree(ran, y, np.convolve(x, [1, 1, 1], "same"))
        assert ran.loads("x") <= n // 64 * 66, "a block loads 66 numbers at the most"


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
    x, y = values[:512], unset(4)
    ran = launch(block_total, 4, 128, x, y)
    agree(ran, y, x.reshape(4, 128).sum(1))
    assert ran.loads("x") == 512, "each number should be loaded once"
    assert ran.sectors("x") == 64, "each thread should load a number of its own"
    assert ran.most(what="combines") == 0, "no `cuda.atomic`: threads add in rounds"
    most = ran.most(shared=True, what="loads")
    assert most <= 16, "each of seven rounds takes two numbers from shared memory"


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
    x, y = values[:128], unset(4)
    ran = launch(warp_total, 4, 32, x, y)
    agree(ran, y, x.reshape(4, 32).sum(1))
    assert ran.most(shared=True) == 0, "no shared memory"
    assert ran.sectors("x") == 16, "each thread should load a number of its own"
    assert ran.most(what="exchanges") == 5, "five exchanges do"


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
    for n in 64, 96:
        x, y = matrix(n), unset(n * n)
        ran = launch(turned, (n // 32) ** 2, 32, x, y, n)
        agree(ran, y, x.reshape(n, n).T.ravel())
        assert ran.sectors("x") == n * n // 8, "neighbours should load neighbours"
        assert ran.sectors("y") == n * n // 8, "neighbours should store neighbours"
        assert ran.conflicts == 0, "threads of a warp wait for a bank of shared memory"


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
    """First all threads find the largest number, then the sum of what is left."""
    x, y = values[:128] * np.float32(20), unset(128)
    x[96:] = -200 - np.abs(x[96:])
    x.flags.writeable = False
    ran = launch(softmax_rows, 4, 32, x, y)
    rows = np.exp(x.reshape(4, 32) - x.reshape(4, 32).max(1, keepdims=True))
    agree(ran, y, (rows / rows.sum(1, keepdims=True)).ravel(), 1e-5)
    assert ran.most("x") <= 2, "each thread should load a number of its own"
    assert ran.sectors("y") == 16, "each thread should store one number, once"
    assert ran.most(what="exchanges") == 10, "each of two totals is five exchanges"


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
    x, y = values[:64], unset(64)
    ran = launch(block_scan, 1, 64, x, y)
    agree(ran, y, np.cumsum(x))
    assert ran.most("x") == 1, "each number should be loaded once"
    assert ran.loads("y") == 0, "the rounds are in shared memory, and y is stored once"
    most = ran.most(shared=True, what="loads")
    assert most <= 16, "each of six rounds takes two numbers from shared memory"


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
    for n in 32, 48:
        x, w, y = matrix(n), matrix(n, 1024), unset(n * n)
        ran = launch(product, (n // 16) ** 2, 256, x, w, y, n)
        agree(ran, y, (x.reshape(n, n) @ w.reshape(n, n)).ravel())
        for name in "xw":
            assert ran.loads(name) == n**3 // 16, "load each tile once"
            assert ran.sectors(name) == n**3 // 128, "neighbours should load neighbours"
        assert ran.sectors("y") == n * n // 8, "neighbours should store neighbours"
        assert ran.conflicts == 0, "threads of a warp wait for a bank of shared memory"
