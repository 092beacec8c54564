"""JAX's quickstart: selu, jit, grad, jacobians, vmap."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import grad, jacfwd, jacrev, jit, random, vmap


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


x = jnp.arange(5.0)
print("selu", selu(x))

key = random.key(1701)
x = random.normal(key, (1_000,))
print("jit of selu", jit(selu)(x)[:8])


def sum_logistic(x):
    return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))


x_small = jnp.arange(3.0)
derivative_fn = grad(sum_logistic)
print("grad", derivative_fn(x_small))


def first_finite_differences(f, x, eps=1e-3):
    return jnp.array(
        [(f(x + eps * v) - f(x - eps * v)) / (2 * eps) for v in jnp.eye(len(x))]
    )


close = jnp.abs(first_finite_differences(sum_logistic, x_small) - derivative_fn(x_small))
print("close to differences", bool(close.max() < 1e-3))
print("grad of jit of grad", grad(jit(grad(jit(grad(sum_logistic)))))(1.0))
print("jacobian", jax.jacobian(jnp.exp)(x_small))


def hessian(fun):
    return jit(jacfwd(jacrev(fun)))


print("hessian", hessian(sum_logistic)(x_small))

key1, key2 = random.split(key)
mat = random.normal(key1, (150, 100))
batched_x = random.normal(key2, (10, 100))


def apply_matrix(x):
    return jnp.dot(mat, x)


@jit
def vmap_batched_apply_matrix(batched_x):
    return vmap(apply_matrix)(batched_x)


by_hand = np.stack([apply_matrix(v) for v in batched_x])
same = np.allclose(by_hand, vmap_batched_apply_matrix(batched_x), atol=1e-4)
print("vmap", bool(same), vmap_batched_apply_matrix(batched_x)[0, :4])
print("devices", jax.device_count(), jax.default_backend(), isinstance(x, jax.Array))
