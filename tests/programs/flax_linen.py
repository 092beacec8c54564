"""flax.linen: modules, batch norm, dropout, scan over a cell, a train state."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
from flax.training import train_state


class CNN(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(self.features, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.relu(x)
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dropout(0.3, deterministic=not train)(x)
        return nn.Dense(3)(x)


model = CNN(4)
images = jax.random.normal(jax.random.key(0), (6, 8, 8, 1))
labels = jnp.arange(6) % 3
variables = model.init(jax.random.key(1), images, train=False)
print(jax.tree.map(jnp.shape, variables))


class State(train_state.TrainState):
    batch_stats: dict


state = State.create(
    apply_fn=model.apply, params=variables["params"], tx=optax.adamw(0.02),
    batch_stats=variables["batch_stats"],
)


@jax.jit
def step(state, key):
    def loss(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats}, images, train=True,
            rngs={"dropout": key}, mutable=["batch_stats"],
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), updates

    (value, updates), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    return state.replace(batch_stats=updates["batch_stats"]), value


for key in jax.random.split(jax.random.key(2), 4):
    state, value = step(state, key)
print("loss", value, "step", state.step)
restored = serialization.from_bytes(state.params, serialization.to_bytes(state.params))
print("bytes", jnp.allclose(restored["Dense_0"]["kernel"], state.params["Dense_0"]["kernel"]))


class RNN(nn.Module):
    @nn.compact
    def __call__(self, xs):
        cell = nn.scan(
            nn.LSTMCell, variable_broadcast="params", split_rngs={"params": False},
            in_axes=1, out_axes=1,
        )(5)
        carry = cell.initialize_carry(jax.random.key(0), xs[:, 0].shape)
        return cell(carry, xs)[1]


xs = jax.random.normal(jax.random.key(3), (2, 7, 3))
params = RNN().init(jax.random.key(4), xs)
print("lstm", RNN().apply(params, xs)[0, -1])
attention = nn.MultiHeadDotProductAttention(num_heads=2)
params = attention.init(jax.random.key(5), xs[..., :2].repeat(2, -1))
print("attention", attention.apply(params, xs[..., :2].repeat(2, -1))[0, 0])
