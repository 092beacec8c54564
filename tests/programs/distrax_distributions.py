"""distrax: distributions, bijectors and a flow."""

import distrax
import jax
import jax.numpy as jnp

normal = distrax.Normal(loc=jnp.array([0.0, 1.0]), scale=jnp.array([1.0, 2.0]))
print("sample", normal.sample(seed=jax.random.PRNGKey(0), sample_shape=(2,)))
print("log_prob", normal.log_prob(0.5), normal.entropy())
categorical = distrax.Categorical(logits=jnp.array([[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]))
print("categorical", categorical.sample(seed=jax.random.PRNGKey(1)), categorical.entropy())
other = distrax.Normal(0.5, 1.5)
print("kl", normal.kl_divergence(other))
log_normal = distrax.Transformed(distrax.Normal(0.0, 1.0), distrax.Lambda(jnp.exp))
print("transformed", log_normal.log_prob(1.5))
flow = distrax.Chain([distrax.ScalarAffine(1.0, 2.0), distrax.Tanh()])
y, logdet = flow.forward_and_log_det(jnp.array([0.1, -0.3]))
print("chain", y, logdet, flow.inverse(y))
mixture = distrax.MixtureSameFamily(
    distrax.Categorical(probs=jnp.array([0.3, 0.7])),
    distrax.Normal(jnp.array([-1.0, 1.0]), jnp.array([0.5, 0.5])),
)
print("mixture", mixture.log_prob(0.2), jax.grad(mixture.log_prob)(0.2))
