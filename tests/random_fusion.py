"""Random programs and their gradients: with kernels fused, and without.

    python -m tests.random_fusion 2000 [first seed] [size]      # on `backend="plain"`

The programs are those of `random_memory`, on square arrays of `size`: of 6, blocks keep
them in registers; of 12, they are loops.  Fused kernels give what evaluating equation
by equation gives, and there are never more of them than without fusion.  Kernels are
counted in the plan, so that those not fused need no code; they run only where rounding
might explain a difference.
"""

import sys

import numpy as np

import minijit as mj
from minijit import config
from minijit.compile.loops.statements import Kernel
from minijit.compile.lower.walk import lower
from minijit.compile.simplify.folding import simplify
from minijit.run.executable import compile_plain
from minijit.run.loading import rewritten
from minijit.trace.jit.jit import compile_for_eval
from tests import random_memory


def total(f, size):
    """A number made of all results of a function, to be differentiated."""
    weights = np.cos(np.arange(size * size)).reshape(size, size).astype("f4")

    def g(x, y):
        by_rank = {1: weights[0], 2: weights}
        return sum((r * by_rank[r.ndim]).sum() for r in f(x, y))

    return g


def same(found, wanted):
    """Raise AssertionError unless results agree, where these are finite."""
    for a, b in zip(found, map(np.array, wanted), strict=True):
        if np.isfinite(b).all():
            np.testing.assert_allclose(a, b, 2e-3, 2e-3 * (abs(b).max() + 1e-3))


def kernels_of(program):
    """How many kernels a run of a program launches, inner programs' included."""
    program = rewritten(program)
    inner = [c.attrs["program"] for c in program.calls if c.routine == "program"]
    kernels = sum(type(step) is Kernel for step in program.body)
    return kernels + sum(map(kernels_of, inner))


def compare(f, args):
    """Raise AssertionError unless fusion changes nothing: -> (kernels, kernels)."""
    closed, apart = mj.make_jaxpr(f)(*args), config.fusion.but(enabled=False)
    run = compile_plain(closed, "drawn")
    with config.override("fusion", apart):
        plan = lower(simplify(closed), "drawn", programs={})
    kernels = kernels_of(run.program), kernels_of(plan)
    assert kernels[0] <= kernels[1], f"{kernels} kernels: more with fusion than without"
    found = run(*args)
    try:
        same(found, compile_for_eval(closed, "drawn")(*args))
    except AssertionError:
        mj.clear_caches()
        with config.override("fusion", apart):
            same(found, compile_plain(closed, "drawn")(*args))
    mj.clear_caches()
    return kernels


if __name__ == "__main__":
    count, first, size = (*map(int, sys.argv[1:]), *(100, 0, 6)[len(sys.argv) - 1 :])
    random_memory.N, kernels, wrong = size, np.zeros(2, int), []
    for seed in range(first, first + count):
        f, args = random_memory.drawn(seed)
        for g in (f, mj.grad(total(f, size), (0, 1))):
            try:
                kernels += compare(g, args)
            except Exception as error:
                wrong.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {error}"[:300], flush=True)
    print(f"{2 * count} programs; kernels: {kernels[0]}, not fused: {kernels[1]}; "
          f"wrong: {wrong}")  # fmt: skip
