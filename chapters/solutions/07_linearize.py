"""Solutions to chapter 7."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.array import eval_rules, on_numpy, shape_rules
from minijit.trace.core import Primitive
from minijit.trace.primitives import mul
from minijit.transform.derivatives.linearize import linearize_rules


def newton(f, x, steps):
    for _ in range(steps):
        value, slope = mj.jvp(f, (x,), (1.0,))
        x = x - value / slope
    return x


def check_newton(newton):
    """`mj.jvp(f, (x,), (1.0,))` is the pair (f(x), f'(x))."""
    assert abs(float(newton(lambda x: x * x - 2.0, 1.0, 6)) - 2.0**0.5) < 1e-5
    assert abs(float(newton(jnp.cos, 1.0, 5)) - np.pi / 2) < 1e-5


def make_cube():
    cube_p = Primitive("cube")
    shape_rules[cube_p] = lambda x: x
    eval_rules.update(on_numpy({cube_p: lambda x: x * x * x}))

    def rule(nonzero, x):
        slope = mul(3.0, mul(x, x))
        return cube_p.bind(x), lambda t: mul(t, slope)

    linearize_rules[cube_p] = rule
    return cube_p.bind


def check_make_cube(make_cube):
    """3 x² is a residual: compute it outside the lambda, which only multiplies."""
    cube = make_cube()
    recorded = mj.make_jaxpr(cube)(2.0)
    assert len(recorded.eqns) == 1, "cube should be one primitive"
    assert float(cube(jnp.array(2.0))) == 8.0
    value, tangent = mj.jvp(cube, (2.0,), (-2.0,))
    assert float(value) == 8.0 and float(tangent) == -24.0
    value, push = mj.linearize(mj.jit(lambda x: cube(x) + cube(x)), 2.0)
    assert float(value) == 16.0 and float(push(1.0)) == 24.0
    push = mj.linearize(cube, 2.0)[1]
    assert len(mj.make_jaxpr(push)(1.0).eqns) == 1, "too much in the lambda"
    second = mj.jvp(lambda x: mj.jvp(cube, (x,), (1.0,))[1], (2.0,), (1.0,))[1]
    assert float(second) == 12.0
