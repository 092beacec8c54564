"""Random programs and their gradients on a grid of threads, run in lock-step.

    python -m tests.random_cuda 2000 [first seed] [size]

The programs are those of `random_memory`.  Results agree with those of no compiler,
`backend="eval"`, and no kernel does what is undefined on a device: no race, nothing out
of bounds, no barrier that some threads miss.  Every twentieth program is compared with
the CPU's and jax's results, too, and PTX is made of it.  In every other one a thread
has four neighbours.

Some programs enlarge what rounding did, until float32 says nothing: those have to agree
in float64.
"""

import sys
from unittest import mock

import numpy as np

import minijit as mj
from minijit.run import grid
from minijit.tree_util import tree_leaves
from tests import random_memory
from tests.random_fusion import total


def results(f, args):
    return [np.array(x) for x in tree_leaves(f(*args))]


def by_jax(make, args):
    """What jax says of a program."""
    import jax

    alone = random_memory.inner.__wrapped__
    with mock.patch.multiple(random_memory, jnp=jax.numpy, lax=jax.lax, inner=alone):
        return results(make(jax), [jax.numpy.array(a) for a in args])


def far(found, wanted, tolerance=2e-3):
    """Which results are not the same, but for rounding."""
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if np.isfinite(b).all():
            near = tolerance * (abs(b).max() + 1e-3)
            if not np.allclose(a, b, tolerance, near):
                return True
    return False


def compare(make, args, peers=("eval",), ptx=False):
    """Raise AssertionError unless lock-step and others agree: -> (kernels, steady).

    Args:
      make: function of minijit, or jax: a program.
      peers: backends, and "jax".
      ptx: whether PTX is made of the kernels.
    """
    mj.clear_caches()
    on_grid = mj.jit(make(mj), backend="cuda-lockstep")
    found, steady = results(on_grid, args), True
    entry, = on_grid.entries.values()
    if ptx:
        for kernel in entry.executable.loaded.kernels:
            kernel.ptx((9, 0))
    for peer in peers:
        by = by_jax if peer == "jax" else by_minijit(peer)
        if far(found, by(make, args)):
            steady = False
            with mj.config.override("enable_x64", True):
                wide = [a.astype("f8") for a in args]
                alike = by_minijit("cuda-lockstep"), by_minijit("eval")
                found_wide, wanted = (run(make, wide) for run in alike)
            assert not far(found_wide, wanted, 1e-6), f"not as {peer}"
    return len(entry.executable.kernels), steady


def by_minijit(backend):
    def run(make, args):
        mj.clear_caches()
        return results(mj.jit(make(mj), backend=backend), args)

    return run


def both(seed):
    """((functions of a library: a program, its gradient), arguments) of a seed."""
    f, args = random_memory.drawn(seed)
    slopes = lambda lib: lib.grad(total(f, random_memory.N), (0, 1))
    return (lambda lib: f, slopes), args


if __name__ == "__main__":
    count, first, size = (*map(int, sys.argv[1:]), *(100, 0, 6)[len(sys.argv) - 1 :])
    random_memory.N, kernels, unsteady = size, 0, 0
    for done, seed in enumerate(range(first, first + count), 1):
        makes, args = both(seed)
        peers = ("eval",) if seed % 20 else ("eval", "plain", "llvm", "jax")
        quads = mock.patch.object(grid, "QUADS_FROM", 1 if seed % 2 else 1 << 18)
        for make in makes:
            try:
                with quads:
                    found, steady = compare(make, args, peers, ptx=seed % 20 == 0)
            except Exception as error:
                raise AssertionError(f"program {seed}") from error
            kernels, unsteady = kernels + found, unsteady + (not steady)
        if done % 50 == 0 or done == count:
            print(f"{2 * done} programs agree, {unsteady} of them in float64 only; "
                  f"{kernels} kernels", flush=True)
