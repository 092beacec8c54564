"""Solutions to chapter 8."""

from functools import partial

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.array import eval_rules, on_numpy, shape_rules
from minijit.trace.core import Primitive
from minijit.transform.derivatives.linearize import linearize_rules
from minijit.transform.derivatives.transpose import adding, transpose_rules


def hvp(f, x, v):
    return mj.jvp(mj.grad(f), (x,), (v,))[1]


def check_hvp(hvp):
    """The Hessian is the derivative of the gradient: jvp of grad, in direction v."""
    f = lambda x: jnp.sum(x**3.0)
    x, v = jnp.array([1.0, 2.0]), jnp.array([1.0, -1.0])
    assert jnp.allclose(hvp(f, x, v), jnp.array([6.0, -12.0]))
    wide = jnp.ones(200)
    eqns = mj.make_jaxpr(lambda x: hvp(f, x, wide))(wide).eqns
    largest = max(v.aval.size for eqn in eqns for v in eqn.outvars)
    assert largest <= 200, "no array may be as large as the Hessian"


def make_running_sum():
    running_sum_p = Primitive("running_sum")
    shape_rules[running_sum_p] = lambda x, *, backwards: x

    def values(x, *, backwards):
        return np.cumsum(x[::-1])[::-1] if backwards else np.cumsum(x)

    eval_rules.update(on_numpy({running_sum_p: values}))

    def linearize(nonzero, x, **params):
        apply = partial(running_sum_p.bind, **params)
        return apply(x), apply

    def transpose(ct, x, *, backwards):
        return (running_sum_p.bind(ct, backwards=not backwards),)

    linearize_rules[running_sum_p] = linearize
    transpose_rules.update(adding({running_sum_p: transpose}))
    return partial(running_sum_p.bind, backwards=False)


def check_make_running_sum(make_running_sum):
    """Element i counts for all results from i on: the transpose adds from the back."""
    running_sum = make_running_sum()
    x = jnp.array([1.0, 2.0, 3.0])
    assert len(mj.make_jaxpr(running_sum)(x).eqns) == 1, "it should be one primitive"
    assert running_sum(x).tolist() == [1.0, 3.0, 6.0]
    value, tangent = mj.jvp(running_sum, (x,), (2.0 * x,))
    assert tangent.tolist() == [2.0, 6.0, 12.0]
    value, pull_back = mj.vjp(running_sum, x)
    assert pull_back(jnp.array([1.0, 10.0, 100.0]))[0].tolist() == [111, 110, 100]
    twice = lambda x: jnp.sum(running_sum(running_sum(x)) * x)
    matrix = np.tri(3) @ np.tri(3)
    expected = (matrix + matrix.T) @ np.asarray(x)
    assert jnp.allclose(mj.grad(mj.jit(twice))(x), expected)
