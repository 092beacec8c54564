"""Solvers of a function with branches: its residuals go through loops by their types."""

import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx


def f(y, args):
    up, down = lambda y: y[0] ** 2 - 2.0, lambda y: 1.0 - y[0]
    return jnp.stack([jax.lax.cond(y[0] > 0, up, down, y), jnp.sin(y[1]) - 0.3])


y0 = jnp.array([1.0, 0.5])
for solver in [optx.LevenbergMarquardt(1e-5, 1e-5), optx.Dogleg(1e-5, 1e-5)]:
    print(type(solver).__name__, optx.least_squares(f, solver, y0).value)
print(optx.root_find(f, optx.Newton(1e-5, 1e-5), y0).value)
operator = lx.JacobianLinearOperator(f, y0)
print(lx.linear_solve(lx.linearise(operator), jnp.ones(2)).value)
