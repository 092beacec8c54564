"""Solutions to the tour implicit_differentiation.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import lax


def argmin_slope(g, x, a):
    by_x = mj.grad(g, argnums=0)
    return -mj.grad(by_x, argnums=1)(x, a) / mj.grad(by_x, argnums=0)(x, a)


def check_argmin_slope(argmin_slope):
    """The equation is f = grad(g, 0) = 0; dx/da is -(df/da) / (df/dx)."""
    def g(x, a):
        return (x - a * a) ** 2 + 3.0

    def h(x, a):
        return jnp.cosh(x - 2.0) + a * x

    assert np.allclose(argmin_slope(g, 9.0, 3.0), 6.0)
    a = 0.5  # sinh(x - 2) = -a
    x = 2.0 - np.arcsinh(a)
    assert np.allclose(argmin_slope(h, x, a), -1 / np.sqrt(1 + a * a), rtol=1e-4)


def fixed_point(f, a, x):
    def solve(g, x):
        def step(state):
            x, _ = state
            return x + g(x), x

        moving = lambda state: abs(state[0] - state[1]) >= 1e-6
        return lax.while_loop(moving, step, (x + g(x), x))[0]

    return lax.custom_root(lambda x: f(x, a) - x, x, solve, lambda g, y: y / g(1.0))


def check_fixed_point(fixed_point):
    """g(x) = f(x, a) - x is what custom_root's solver gets: x + g(x) is the next x."""
    def towards(x, a):
        return jnp.cos(a * x)

    for a in (0.5, 1.0):
        x = 0.7
        for _ in range(200):
            x = np.cos(a * x)
        slope = -x * np.sin(a * x) / (1 + a * np.sin(a * x))
        assert np.allclose(fixed_point(towards, a, 0.7), x, atol=1e-5)
        found = mj.grad(lambda a: fixed_point(towards, a, 0.7))(a)
        assert np.allclose(found, slope, atol=1e-4), (found, slope)
    many = mj.vmap(lambda a: fixed_point(towards, a, 0.7))(jnp.array([0.5, 1.0]))
    assert np.allclose(many[1], x, atol=1e-5)
