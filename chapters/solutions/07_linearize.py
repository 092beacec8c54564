"""Solutions to chapter 7."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp


def newton(f, x, steps):
    for _ in range(steps):
        value, slope = mj.jvp(f, (x,), (1.0,))
        x = x - value / slope
    return x


def check_newton(newton):
    """`mj.jvp(f, (x,), (1.0,))` is the pair (f(x), f'(x))."""
    assert abs(float(newton(lambda x: x * x - 2.0, 1.0, 6)) - 2.0**0.5) < 1e-5
    assert abs(float(newton(jnp.cos, 1.0, 5)) - np.pi / 2) < 1e-5
