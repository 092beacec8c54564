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


def results(f, args, backend):
    return [np.array(x) for x in tree_leaves(mj.jit(f, backend=backend)(*args))]


def close(found, wanted):
    """Whether results agree, but for rounding."""
    pairs = [(a, b) for a, b in zip(found, wanted, strict=True) if np.isfinite(b).all()]
    return all(
        np.allclose(a, b, 2e-3, 2e-3 * (abs(b).max() + 1e-3)) for a, b in pairs
    )


def compare(f, args, ptx=False):
    """Raise AssertionError unless lock-step and plain agree: -> number of kernels.

    It is 0 for a program that rounding changes: plain and eval do not agree either.
    """
    mj.clear_caches()
    on_grid = mj.jit(f, backend="cuda-lockstep")
    found = [np.array(leaf) for leaf in tree_leaves(on_grid(*args))]
    wanted = results(f, args, "plain")
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if not close(found, wanted):
        assert not close(results(f, args, "eval"), wanted)
        return 0
    entry, = on_grid.entries.values()
    if ptx:
        for kernel in entry.executable.loaded.kernels:
            kernel.ptx((9, 0))
    return len(entry.executable.kernels)


if __name__ == "__main__":
    count, first, size = (*map(int, sys.argv[1:]), *(100, 0, 6)[len(sys.argv) - 1 :])
    random_memory.N, kernels, unsteady = size, 0, 0
    for seed in range(first, first + count):
        f, args = random_memory.drawn(seed)
        for g in (f, mj.grad(total(f, size), (0, 1))):
            try:
                count_of = compare(g, args, seed % 10 == 0)
            except Exception as error:
                raise AssertionError(f"program {seed}") from error
            kernels, unsteady = kernels + count_of, unsteady + (not count_of)
    print(f"{2 * count - unsteady} programs agree, {kernels} kernels; rounding changes "
          f"{unsteady} more")
