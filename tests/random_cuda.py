"""Random programs and their gradients on a grid of threads, run in lock-step.

The programs are those of `random_memory`.  Results agree with those of no compiler,
`backend="eval"`, and no kernel does what is undefined on a device: no race, nothing out
of bounds, no barrier that some threads miss.  Every twentieth program is compared with
the CPU's and jax's results, too, and PTX is made of it.  In every other one a thread
has four neighbours; in two of four, running totals and updates that meet are shared by
threads however few they are.

Some programs enlarge what rounding did, until float32 says nothing: those have to agree
in float64.  A few enlarge even that: of those, results may differ by no more than what
happens to `eval`'s own if arguments change by one part in 1e14.
"""

from unittest import mock

import numpy as np

import minijit as mj
from minijit.trace.base.config import config
from minijit.tree_util import tree_leaves
from tests import random_memory


def results(f, args):
    return [np.array(x) for x in tree_leaves(f(*args))]


def by_jax(make, args):
    """What jax says of a program."""
    import jax

    alone = random_memory.inner.__wrapped__
    with mock.patch.multiple(random_memory, jnp=jax.numpy, lax=jax.lax, inner=alone):
        return results(make(jax), [jax.numpy.array(a) for a in args])


def distance(found, wanted):
    """How far results are from what is wanted, as a part of the largest of it."""
    far = [0.0]
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.size and np.isfinite(b).all():
            part = abs(a.astype("f8") - b).max() / (abs(b).max() + 1e-3)
            far.append(part if np.isfinite(part) else np.inf)
    return max(far)


def moved(make, args, wanted):
    """How far results of `eval` go if arguments change by one part in 1e14."""
    changes = np.random.default_rng(0)
    found = [0.0]
    for _ in range(3):
        near = [a * (1 + 1e-14 * changes.choice([-1, 1], a.shape)) for a in args]
        found.append(distance(by_minijit("eval")(make, near), wanted))
    return max(found)


def compare(make, args, peers=("eval",), ptx=False):
    """Raise AssertionError unless lock-step and others agree: -> (kernels, verdict).

    The verdict says where they agree: in `float32`, in `float64` only, or as far as an
    `ill-conditioned` program lets them.

    Args:
      make: function of minijit, or jax: a program.
      peers: backends, and "jax".
      ptx: whether PTX is made of the kernels.
    """
    mj.clear_caches()
    on_grid = mj.jit(make(mj), backend="cuda-lockstep")
    found, verdict = results(on_grid, args), "float32"
    entry, = on_grid.entries.values()
    if ptx:
        for kernel in entry.executable.loaded.kernels:
            kernel.ptx((9, 0))
    for peer in peers:
        by = by_jax if peer == "jax" else by_minijit(peer)
        if distance(found, by(make, args)) > 2e-3:
            verdict = in_float64(make, [a.astype("f8") for a in args])
            assert verdict, f"not as {peer}"
    return len(entry.executable.kernels), verdict


def in_float64(make, args):
    """The verdict on a program that does not agree in float32; "" if it is wrong."""
    with mj.config.override("enable_x64", True):
        alike = by_minijit("cuda-lockstep"), by_minijit("eval")
        found, wanted = (run(make, args) for run in alike)
        far = distance(found, wanted)
        if far <= 1e-6:
            return "float64"
        return "ill-conditioned" if far <= 10 * moved(make, args, wanted) else ""


def by_minijit(backend):
    def run(make, args):
        return results(mj.jit(make(mj), backend=backend), args)

    return run


def both(seed):
    """((functions of a library: a program, its gradient), arguments) of a seed."""
    f, args = random_memory.drawn(seed)
    slopes = lambda lib: lib.grad(random_memory.total(f, random_memory.N), (0, 1))
    return (lambda lib: f, slopes), args


def on_a_grid(seed):
    """Raise AssertionError unless a program and its gradient agree."""
    makes, args = both(seed)
    peers = ("eval",) if seed % 20 else ("eval", "plain", "llvm", "jax")
    # Forms that are for large arrays are for small ones, too.
    small = {"enough_threads": 0} if seed % 2 else {}
    small |= {"thread_steps": 3} if seed % 4 < 2 else {}
    for make in makes:
        with config.override("fusion", config.fusion.but(**small)):
            compare(make, args, peers, ptx=seed % 20 == 0)
