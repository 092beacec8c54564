"""Random programs and their gradients: with kernels fused, and without.

    python -m tests.random_fusion 2000 [first seed] [size]      # on `backend="plain"`

The programs are those of `random_memory`, on square arrays of `size`: of 6, blocks keep
them in registers; of 12, they are loops.  Results agree, and there are never more
kernels.
"""

import sys

import numpy as np

import minijit as mj
from minijit import config
from minijit.tree_util import tree_leaves
from tests import random_memory


def total(f, size):
    """A number made of all results of a function, to be differentiated."""
    weights = np.cos(np.arange(size * size)).reshape(size, size).astype("f4")

    def g(x, y):
        by_rank = {1: weights[0], 2: weights}
        return sum((r * by_rank[r.ndim]).sum() for r in f(x, y))

    return g


def results_of(f, args, settings):
    """The results, and how many kernels computed them."""
    with config.override("fusion", settings):
        mj.clear_caches()
        f = mj.jit(f, backend="plain")
        found = [np.array(leaf) for leaf in tree_leaves(f(*args))]
        entry, = f.entries.values()
        return found, len(entry.executable.kernels)


def compare(f, args):
    """Raise AssertionError unless fusion changes nothing: -> (kernels, kernels)."""
    found, fused = results_of(f, args, config.fusion)
    wanted, apart = results_of(f, args, config.fusion.but(enabled=False))
    assert fused <= apart, f"{fused} kernels, and {apart} without fusion"
    for a, b in zip(found, wanted, strict=True):
        if np.isfinite(b).all():
            np.testing.assert_allclose(a, b, 2e-3, 2e-3 * (abs(b).max() + 1e-3))
    return fused, apart


if __name__ == "__main__":
    count, first, size = (*map(int, sys.argv[1:]), *(100, 0, 6)[len(sys.argv) - 1 :])
    random_memory.N, kernels = size, np.zeros(2, int)
    for seed in range(first, first + count):
        f, args = random_memory.drawn(seed)
        for g in (f, mj.grad(total(f, size), (0, 1))):
            kernels += compare(g, args)
    print(f"{2 * count} programs agree; kernels: {kernels[0]}, not fused: {kernels[1]}")
