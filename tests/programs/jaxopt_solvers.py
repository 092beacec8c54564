"""jaxopt: L-BFGS, gradient descent, projections, and a gradient through a solution."""

import jax
import jax.numpy as jnp
import jaxopt

x = jax.random.normal(jax.random.key(0), (20, 3))
y = x @ jnp.array([1.0, -1.0, 2.0]) + 0.1


def ridge(w, decay):
    return jnp.mean((x @ w - y) ** 2) + decay * jnp.sum(w**2)


solver = jaxopt.LBFGS(fun=ridge, maxiter=30)
print("lbfgs", jnp.round(solver.run(jnp.zeros(3), decay=0.1).params, 4))
descent = jaxopt.GradientDescent(fun=ridge, maxiter=100, implicit_diff=True)
print("descent", jnp.round(descent.run(jnp.zeros(3), decay=0.1).params, 3))
through = jax.jacobian(lambda d: solver.run(jnp.zeros(3), decay=d).params)
print("derivative", jnp.round(through(0.1), 2))
print("simplex", jaxopt.projection.projection_simplex(jnp.array([0.3, 1.2, -0.5])))
lasso = jaxopt.ProximalGradient(
    fun=lambda w, data: jnp.mean((data[0] @ w - data[1]) ** 2), prox=jaxopt.prox.prox_lasso
)
found = lasso.run(jnp.zeros(3), hyperparams_prox=0.5, data=(x, y)).params
print("lasso", jnp.round(found, 3))
