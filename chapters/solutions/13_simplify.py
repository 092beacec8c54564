"""Solutions to chapter 13."""

import numpy as np

import minijit as jax
import minijit.numpy as jnp
from minijit.compile.simplify import rules, simplify
from minijit.trace import primitives as prim
from minijit.trace.jaxpr import make_jaxpr


def abs_of_neg(s, out, x):
    negated = s.maker(x, prim.neg_p)
    if negated:
        return s.apply(prim.abs_p, negated.invars[0])


def check_abs_of_neg(abs_of_neg):
    """`s.maker(x, prim.neg_p)` is the equation that negated x, or None; `s.apply`."""
    known = rules[prim.abs_p]
    rules[prim.abs_p] = [*known, abs_of_neg]
    try:
        signs = lambda x: (abs(-x), abs(jnp.negative(-x)), abs(x))
        closed = make_jaxpr(signs)(np.ones(3))
        assert [e.primitive for e in simplify(closed).eqns] == [prim.abs_p]
        closed = make_jaxpr(lambda x: abs(jnp.sin(x)))(np.ones(3))
        assert len(simplify(closed).eqns) == 2
    finally:
        rules[prim.abs_p] = known


def used_arguments(f, *args):
    jaxpr = simplify(make_jaxpr(f)(*args)).jaxpr
    mentioned = {v for eqn in jaxpr.eqns for v in eqn.invars} | {*jaxpr.outvars}
    return [i for i, v in enumerate(jaxpr.invars) if v in mentioned]


def check_used_arguments(used_arguments):
    """A jaxpr mentions variables in its equations' invars, and in its outvars."""
    assert used_arguments(lambda x, y: x, 1.0, 2.0) == [0]
    assert used_arguments(lambda x, y, z: x + y * 1, 1, 2, 3) == [0, 1]
    assert used_arguments(lambda x, y: x + y * 0, 1, 2) == [0]
    assert used_arguments(lambda x, y: x + y * 0.0, 1.0, 2.0) == [0, 1]
    assert used_arguments(lambda x: 3, 1.0) == []
    assert used_arguments(jax.jit(lambda x, y: jnp.sin(y)), 1.0, 2.0) == [1]


def is_noop(f, x):
    jaxpr = simplify(make_jaxpr(f)(x)).jaxpr
    return jaxpr.outvars == jaxpr.invars


def check_is_noop(is_noop):
    """A simplified no-op has the variable of its argument as its result."""
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    assert is_noop(lambda x: x, x)
    assert is_noop(lambda x: (x.T * 1.0).T.reshape(6).reshape(2, 3), x)
    assert is_noop(lambda x: jnp.where(True, x, 0.0), x)
    assert not is_noop(lambda x: x + 0.0, x)
    assert not is_noop(lambda x: x.T, x[:, :2])
