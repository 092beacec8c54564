"""jaxlie: poses, their logarithms, and gradients along the manifold."""

import jax
import jax.numpy as jnp
import jaxlie

pose = jaxlie.SE3.exp(jnp.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
print(pose.wxyz_xyz, pose.adjoint()[0])
distance = lambda t: jnp.sum((jaxlie.SE3.exp(t) @ pose).log() ** 2)
print(jax.jit(jax.value_and_grad(distance))(jnp.full(6, 0.1)))
weights = jnp.array([1.0, 2.0, 3.0])
turn = jaxlie.SO3.exp(jnp.full(3, 0.2))
loss = lambda r: jnp.sum(r.apply(jnp.arange(3.0)) ** 2 * weights)
print(jaxlie.manifold.grad(loss)(turn))
