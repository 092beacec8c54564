"""Solutions to chapter 14."""

import numpy as np

import minijit.numpy as jnp
from minijit.compile.simplify.folding import fast_rules, rules, simplify
from minijit.trace import primitives as prim
from minijit.trace.jaxprs.jaxpr import make_jaxpr


def over_single(s, out, x, *, axes):
    if all(x.aval.shape[d] == 1 for d in axes):
        return s.apply(prim.reshape_p, x, new_sizes=out.shape, dimensions=None)


def check_over_single(over_single):
    """`x.aval.shape[d]` is a length; `s.apply(prim.reshape_p, x, ...)`."""
    tables = [(rules, prim.reduce_max_p), (fast_rules, prim.reduce_sum_p)]
    known = [table.get(p) for table, p in tables]
    for table, p in tables:
        table[p] = [*table.get(p, ()), over_single]
    try:
        x = np.array([[-0.0, np.nan, 1.0]], np.float32)
        names = lambda f, **options: [
            e.primitive.name for e in simplify(make_jaxpr(f)(x), **options).eqns
        ]
        assert names(lambda x: jnp.max(x, axis=0)) == ["reshape"]
        assert names(lambda x: jnp.max(x[None], axis=(0, 1))) == ["reshape"]
        assert names(lambda x: jnp.max(x, axis=1)) == ["reduce_max"]
        assert names(lambda x: jnp.max(x, axis=(0, 1))) == ["reduce_max"]
        assert names(lambda x: jnp.sum(x, axis=0)) == ["reduce_sum"]
        assert names(lambda x: jnp.sum(x, axis=0), fast_math=True) == ["reshape"]
    finally:
        for (table, p), old in zip(tables, known, strict=True):
            if old is None:
                del table[p]
            else:
                table[p] = old
