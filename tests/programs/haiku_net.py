"""haiku: transform, state, LSTM, and training with optax."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax


def forward(x, is_training):
    net = hk.Sequential([
        hk.Linear(16), jax.nn.relu, hk.BatchNorm(True, True, 0.9) if False else jnp.tanh,
        hk.Linear(3),
    ])
    x = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)
    x = hk.dropout(hk.next_rng_key(), 0.25, x) if is_training else x
    return net(x)


f = hk.transform(forward)
key = jax.random.key(0)
x = jax.random.normal(jax.random.key(1), (8, 5))
labels = jnp.arange(8) % 3
params = f.init(key, x, True)
print("shapes", jax.tree.map(jnp.shape, params))


def loss(params, key):
    logits = f.apply(params, key, x, True)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


optimizer = optax.adam(0.05)
state = optimizer.init(params)


@jax.jit
def step(params, state, key):
    value, grads = jax.value_and_grad(loss)(params, key)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


for key in jax.random.split(jax.random.key(2), 6):
    params, state, value = step(params, state, key)
print("loss", value)
print("logits", f.apply(params, None, x, False)[0])


def with_state(x):
    x = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(x, True)
    return hk.Conv1D(2, 3)(x[..., None]).sum(1)


g = hk.transform_with_state(with_state)
params, state = g.init(jax.random.key(3), x)
out, state = jax.jit(g.apply)(params, state, jax.random.key(4), x)
print("state", out[0], jax.tree.leaves(state)[1])


def unroll(xs):
    core = hk.LSTM(4)
    out, _ = hk.dynamic_unroll(core, xs, core.initial_state(8))
    return out


h = hk.without_apply_rng(hk.transform(unroll))
xs = jax.random.normal(jax.random.key(5), (6, 8, 5))
params = h.init(jax.random.key(6), xs)
print("lstm", h.apply(params, xs)[-1, 0])
