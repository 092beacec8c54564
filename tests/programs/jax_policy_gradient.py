"""A policy learns in one program: steps of environments in epochs of minibatches."""

import jax
import jax.numpy as jnp
from jax import lax, random

envs, steps, updates, epochs, parts = 4, 16, 6, 2, 4
sizes = 2, 16, 2


def reset(key):
    return random.uniform(key, (2,), minval=-0.5, maxval=0.5)


def step(key, state, action):
    """A point with a speed, that is pushed left or right, and lost beyond 1."""
    place, speed = state
    speed = 0.95 * speed + jnp.where(action == 1, 0.1, -0.1)
    moved = jnp.stack([place + speed, speed])
    lost = jnp.abs(moved[0]) > 1
    return jnp.where(lost, reset(key), moved), 1.0 - moved[0] ** 2, lost


def init(key):
    keys = random.split(key, 4)
    hidden = random.normal(keys[0], sizes[:2]) / jnp.sqrt(sizes[0]), jnp.zeros(sizes[1])
    heads = [0.1 * random.normal(k, (sizes[1], n)) for k, n in zip(keys[1:], (2, 1))]
    return {"hidden": hidden, "policy": heads[0], "value": heads[1]}


def network(params, x):
    weight, bias = params["hidden"]
    hidden = jnp.tanh(x @ weight + bias)
    return jax.nn.log_softmax(hidden @ params["policy"]), (hidden @ params["value"])[
        ..., 0
    ]


def act(carry, key):
    params, states = carry
    logits, values = network(params, states)
    keys = random.split(key, envs + 1)
    actions = random.categorical(keys[0], logits)
    chosen = jnp.take_along_axis(logits, actions[:, None], 1)[:, 0]
    new, rewards, lost = jax.vmap(step)(keys[1:], states, actions)
    return (params, new), (states, actions, chosen, values, rewards, lost)


def advantages(values, rewards, lost, last):
    def back(carry, at):
        value, after = carry
        here, reward, end = at
        delta = reward + 0.97 * jnp.where(end, 0, value) - here
        after = delta + 0.97 * 0.9 * jnp.where(end, 0, after)
        return (here, after), after

    start = last, jnp.zeros_like(last)
    return lax.scan(back, start, (values, rewards, lost), reverse=True)[1]


def loss(params, batch):
    states, actions, old, aims, gains = batch
    logits, values = network(params, states)
    chosen = jnp.take_along_axis(logits, actions[:, None], 1)[:, 0]
    ratio = jnp.exp(chosen - old)
    gains = (gains - gains.mean()) / (gains.std() + 1e-6)
    policy = -jnp.minimum(ratio * gains, jnp.clip(ratio, 0.8, 1.2) * gains).mean()
    entropy = -(jnp.exp(logits) * logits).sum(-1).mean()
    return policy + 0.5 * jnp.square(values - aims).mean() - 0.01 * entropy


def minibatch(params, batch):
    value, slopes = jax.value_and_grad(loss)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.03 * g, params, slopes), value


def epoch(carry, key):
    params, data = carry
    order = random.permutation(key, envs * steps)
    mixed = jax.tree.map(lambda x: x[order].reshape(parts, -1, *x.shape[1:]), data)
    params, values = lax.scan(minibatch, params, mixed)
    return (params, data), values.mean()


def update(carry, key):
    acting, learning = random.split(key)
    carry, seen = lax.scan(act, carry, random.split(acting, steps))
    (params, states), (*seen, values, rewards, lost) = carry, seen
    gains = advantages(values, rewards, lost, network(params, states)[1])
    data = *seen, gains + values, gains
    data = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), data)
    (params, _), values = lax.scan(
        epoch, (params, data), random.split(learning, epochs)
    )
    return (params, states), (values, rewards.mean())


@jax.jit
def train(key):
    starting, resetting, rest = random.split(key, 3)
    carry = init(starting), jax.vmap(reset)(random.split(resetting, envs))
    return lax.scan(update, carry, random.split(rest, updates))


(params, states), (values, rewards) = train(random.key(0))
print("losses", values)
print("rewards", rewards)
print("states", states, params["policy"].sum())
(_, _), (several, _) = jax.vmap(train)(random.split(random.key(1), 3))
print("seeds", several.shape, several.mean((1, 2)))
