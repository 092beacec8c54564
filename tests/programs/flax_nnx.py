"""flax.nnx: a model with state, nnx.jit, nnx.value_and_grad, an optimizer."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Model(nnx.Module):
    def __init__(self, rngs):
        # No bias: the mean is taken away, so its gradient would be noise, which Adam
        # makes large.
        self.first = nnx.Linear(4, 8, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.second = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.dropout(self.norm(self.first(x))))
        return self.second(x)


model = Model(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(0.05), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(1), (16, 4))
y = jnp.stack([jnp.sin(x.sum(1)), x[:, 0] * x[:, 1]], 1)


@nnx.jit
def step(model, optimizer, x, y):
    def loss(model):
        return ((model(x) - y) ** 2).mean()

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


for _ in range(6):
    value = step(model, optimizer, x, y)
print("loss", value)
model.eval()
print("predicted", model(x)[0])
print("mean", model.norm.mean[...])
graph, state = nnx.split(model)
print("leaves", len(jax.tree.leaves(state)))
again = nnx.merge(graph, state)
print("merged", again(x)[1])
