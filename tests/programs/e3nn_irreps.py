"""Arrays that rotate: e3nn's, whose types add in a way of their own."""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp

x = e3nn.normal("2x0e + 1o + 2e", jax.random.PRNGKey(0), (3,))
print(x.irreps, x.array.sum())
product = e3nn.tensor_product(x, x, filter_ir_out=["0e", "1o"])
print(product.irreps, product.array.sum())
gated = e3nn.gate(e3nn.normal("3x0e + 2x0e + 2x1o", jax.random.PRNGKey(2)))
print(gated.irreps, gated.array)


@jax.jit
def energy(v):
    harmonics = e3nn.spherical_harmonics("1o + 2e", v, True)
    return (harmonics.array**2 * jnp.arange(8)).sum()


print(jax.grad(energy)(jnp.array([1.0, 0.5, 0.2])))
