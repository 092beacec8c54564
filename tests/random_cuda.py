"""Random programs and their gradients on a grid of threads, run in lock-step.

    python -m tests.random_cuda 2000 [first seed] [size]

The programs are those of `random_memory`.  Results agree with `backend="plain"`, and no
kernel does what is undefined on a device: no race, nothing out of bounds, no
barrier that some threads miss.  PTX is made of every tenth program.
"""

import sys

import numpy as np

import minijit as mj
from minijit.tree_util import tree_leaves
from tests import random_memory
from tests.random_fusion import total


def compare(f, args, ptx=False):
    """Raise AssertionError unless lock-step and plain agree: -> number of kernels."""
    mj.clear_caches()
    on_grid = mj.jit(f, backend="cuda-lockstep")
    found = [np.array(leaf) for leaf in tree_leaves(on_grid(*args))]
    wanted = tree_leaves(mj.jit(f, backend="plain")(*args))
    for a, b in zip(found, map(np.array, wanted), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if np.isfinite(b).all():
            np.testing.assert_allclose(a, b, 2e-3, 2e-3 * (abs(b).max() + 1e-3))
    entry, = on_grid.entries.values()
    if ptx:
        for kernel in entry.executable.loaded.kernels:
            kernel.ptx((9, 0))
    return len(entry.executable.kernels)


if __name__ == "__main__":
    count, first, size = (*map(int, sys.argv[1:]), *(100, 0, 6)[len(sys.argv) - 1 :])
    random_memory.N, kernels = size, 0
    for seed in range(first, first + count):
        f, args = random_memory.drawn(seed)
        for g in (f, mj.grad(total(f, size), (0, 1))):
            try:
                kernels += compare(g, args, seed % 10 == 0)
            except Exception as error:
                raise AssertionError(f"program {seed}") from error
    print(f"{2 * count} programs agree; {kernels} kernels")
