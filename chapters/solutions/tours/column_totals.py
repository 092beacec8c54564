"""Solutions to the tour column_totals.ipynb."""

from dataclasses import replace

import numpy as np

import minijit.numpy as jnp
from minijit import make_jaxpr
from minijit.compile.fuse.fusion import Fusion
from minijit.compile.lower.walk import lower
from minijit.compile.settings import Settings
from minijit.run.python.source import print_program
from minijit.trace.base.config import config


def side_by_side(program):
    fusion = Fusion(program, Settings())
    decisions = fusion.run().decisions

    def alike(m, n):
        a, b = fusion.parts[m], fusion.parts[n]
        waits = fusion.reach[m] >> n & 1 or fusion.reach[n] >> m & 1
        extents = [[axis.extent for axis in part.axes] for part in (a, b)]
        return a.is_nest and b.is_nest and not waits and extents[0] == extents[1]

    while True:
        pairs = [(m, n) for n in fusion.parts for m in fusion.parts if m < n]
        pair = next((pair for pair in pairs if alike(*pair)), None)
        if pair is None:
            return replace(fusion.program_of([]), decisions=decisions)
        a, b = (fusion.parts[n].axes for n in pair)
        fusion.merge(*pair, dict(zip(a, b, strict=True)))


def check_side_by_side(side_by_side):
    """`Fusion.reach` says which part waits for which; `Fusion.merge` merges two."""
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(1, 2, (24, 16)).astype(np.float32) for _ in range(2))

    def kernels(f):
        with config.override("fusion", Settings(enabled=False)):
            program = side_by_side(lower(make_jaxpr(f)(x, y), "f"))
        source, space = print_program(program), {}
        exec(source.text, space)
        results = space[source.driver](x, y)
        for got, want in zip(results, f(x, y), strict=True):
            np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5)
        return len(program.kernels)

    def in_a_row(x, y):
        total = x.sum()
        first = x / total
        other = (first * y).sum()
        return total, first, other, first / other

    assert kernels(lambda x, y: (jnp.sin(x), jnp.cos(y))) == 1
    assert kernels(lambda x, y: (jnp.asarray(x).sum(1), jnp.asarray(y).max(1))) == 1
    assert kernels(lambda x, y: (jnp.sin(x), jnp.cos(y).T)) == 2
    assert kernels(in_a_row) == 3
