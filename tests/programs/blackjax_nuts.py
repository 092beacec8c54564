"""blackjax: NUTS with window adaptation on a Gaussian."""

import blackjax
import jax
import jax.numpy as jnp
import jax.scipy.stats as stats

data = 3.0 + 2.0 * jax.random.normal(jax.random.key(0), (200,))


def logdensity(position):
    scale = jnp.exp(position["log_scale"])
    return jnp.sum(stats.norm.logpdf(data, position["mean"], scale))


initial = {"mean": jnp.array(1.0), "log_scale": jnp.array(0.5)}
kernel = blackjax.nuts(logdensity, step_size=0.1, inverse_mass_matrix=jnp.ones(2) * 0.02)
state = kernel.init(initial)


@jax.jit
def sample(state, keys):
    def one(state, key):
        state, info = kernel.step(key, state)
        return state, (state.position, info.num_integration_steps)

    return jax.lax.scan(one, state, keys)


state, (positions, steps) = sample(state, jax.random.split(jax.random.key(1), 150))
kept = jax.tree.map(lambda x: x[50:], positions)
print("mean", bool(abs(kept["mean"].mean() - 3.0) < 0.5))
print("scale", bool(abs(jnp.exp(kept["log_scale"]).mean() - 2.0) < 0.4))
print("first steps", steps[:5], positions["mean"][:3])
