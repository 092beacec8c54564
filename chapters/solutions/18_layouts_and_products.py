"""Solutions to chapter 18."""

import numpy as np

from minijit import lax, make_jaxpr
from minijit.compile.simplify.folding import fast_rules, simplify
from minijit.trace import primitives as prim
from minijit.trace.jaxprs.jaxpr import eval_jaxpr


def other_order(s, out, x, y, **params):
    eqn = s.maker(x, prim.dot_general_p)
    if eqn is None or eqn.params != params:
        return None
    a, b = eqn.invars
    (n, k), (m, p) = a.aval.shape, y.aval.shape
    if n * k * m + n * m * p > k * m * p + n * k * p:
        inner = s.apply(prim.dot_general_p, b, y, **params)
        return s.apply(prim.dot_general_p, a, inner, **params)


def check_other_order(other_order):
    """(a b) y takes n k m + n m p multiplications; the params of both are `params`."""
    known = fast_rules.get(prim.dot_general_p)
    fast_rules[prim.dot_general_p] = [other_order]

    def left(f, *shapes):
        arrays = [np.random.default_rng(0).normal(size=s).astype("f4") for s in shapes]
        closed = make_jaxpr(f)(*arrays)
        simple = simplify(closed, fast_math=True)
        both = [eval_jaxpr(c.jaxpr, c.consts, *arrays)[0] for c in (simple, closed)]
        assert np.allclose(*both, rtol=1e-3, atol=1e-3)
        return [e.outvars[0].aval.shape for e in simple.eqns]

    try:
        product = lambda a, b, y: (a @ b) @ y
        assert left(product, (30, 20), (20, 40), (40, 1)) == [(20, 1), (30, 1)]
        assert left(product, (2, 20), (20, 40), (40, 30)) == [(2, 40), (2, 30)]
        chain = lambda a, b, c, y: ((a @ b) @ c) @ y
        assert left(chain, (9, 8), (8, 7), (7, 6), (6, 1)) == [(7, 1), (8, 1), (9, 1)]
        turned = lambda a, b, y: lax.dot_general(a @ b, y, (([1], [1]), ([], [])))
        assert left(turned, (30, 20), (20, 40), (1, 40)) == [(30, 40), (30, 1)]
    finally:
        if known is None:
            del fast_rules[prim.dot_general_p]
        else:
            fast_rules[prim.dot_general_p] = known
