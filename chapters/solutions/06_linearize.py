"""Solutions to chapter 6."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.primitives import mul


def newton(f, x, steps):
    for _ in range(steps):
        value, slope = mj.jvp(f, (x,), (1.0,))
        x = x - value / slope
    return x


def check_newton(newton):
    """`mj.jvp(f, (x,), (1.0,))` is the pair (f(x), f'(x))."""
    assert abs(float(newton(lambda x: x * x - 2.0, 1.0, 6)) - 2.0**0.5) < 1e-5
    assert abs(float(newton(jnp.cos, 1.0, 5)) - np.pi / 2) < 1e-5


def columns(f, x):
    _, f_jvp = mj.linearize(f, x)
    directions = jnp.eye(x.size, dtype=x.dtype)
    return jnp.stack([f_jvp(t) for t in directions], axis=1)


def check_columns(columns):
    """A column is f_jvp of a row of jnp.eye; stack them along axis 1."""
    x = jnp.array([1.0, 2.0, 3.0])
    calls = []

    def f(x):
        calls.append(x)
        return jnp.stack([jnp.sum(x * x), jnp.prod(x)])

    got = np.asarray(columns(f, x))
    assert np.allclose(got, [[2.0, 4.0, 6.0], [6.0, 3.0, 2.0]])
    assert len(calls) == 1


def cube_rule(nonzero, x):
    square = mul(x, x)
    slope = mul(3.0, square)
    return mul(square, x), lambda t: mul(t, slope)


def check_cube_rule(cube_rule):
    """3 x² is the residual: compute it outside of the lambda, which only multiplies."""
    value, linear = cube_rule((True,), jnp.array(2.0))
    assert float(value) == 8.0
    assert float(linear(1.0)) == 12.0 and float(linear(-2.0)) == -24.0
    recorded = mj.make_jaxpr(lambda t: linear(t))(1.0)
    assert len(recorded.eqns) == 1
