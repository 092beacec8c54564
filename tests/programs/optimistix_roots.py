"""optimistix: a root, a minimum, least squares, a fixed point, and a gradient."""

import jax
import jax.numpy as jnp
import optimistix as optx


def root(a):
    solver = optx.Newton(rtol=1e-5, atol=1e-5)
    return optx.root_find(lambda x, a: x**3 - a, solver, jnp.array(1.5), args=a).value


print("root", root(jnp.array(2.0)), jax.grad(root)(jnp.array(2.0)))


def rosenbrock(y, args):
    return (args - y[0]) ** 2 + 10.0 * (y[1] - y[0] ** 2) ** 2


found = optx.minimise(
    rosenbrock, optx.BFGS(rtol=1e-5, atol=1e-5), jnp.array([-0.5, 0.5]), args=1.0,
    max_steps=400,
)
print("minimum", jnp.round(found.value, 2))
t = jnp.linspace(0.0, 2.0, 20)
data = 2.0 * jnp.exp(-1.3 * t)
fit = optx.least_squares(
    lambda p, d: p[0] * jnp.exp(-p[1] * t) - d,
    optx.LevenbergMarquardt(rtol=1e-5, atol=1e-5), jnp.array([1.0, 1.0]), args=data,
)
print("fit", jnp.round(fit.value, 3))
fixed = optx.fixed_point(
    lambda y, args: jnp.cos(y), optx.FixedPointIteration(rtol=1e-4, atol=1e-4), jnp.array(0.5)
)
print("fixed point", jnp.round(fixed.value, 3))
