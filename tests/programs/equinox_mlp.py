"""equinox: an MLP, a convolution and a GRU, with filter_jit, filter_grad and vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

model = eqx.nn.MLP(in_size=3, out_size=1, width_size=8, depth=2, key=jr.key(0))
x = jr.normal(jr.key(1), (16, 3))
y = jnp.sin(x.sum(1, keepdims=True))


@eqx.filter_value_and_grad
def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(model, x, y):
    value, grads = loss(model, x, y)
    return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads)), value


for _ in range(10):
    model, value = step(model, x, y)
print("mlp", value, jax.vmap(model)(x)[:3, 0])


class Count(eqx.Module):
    scale: jax.Array
    name: str = eqx.field(static=True)

    def __call__(self, x):
        return self.scale * x


count = Count(jnp.array([1.0, 2.0]), "count")
print("module", count.name, eqx.filter_grad(lambda m, v: m(v).sum())(count, 3.0).scale)
changed = eqx.tree_at(lambda m: m.scale, count, jnp.zeros(2))
print("tree_at", changed.scale, eqx.tree_equal(count, changed))
arrays, rest = eqx.partition(model, eqx.is_array)
print("arrays", sum(a.size for a in jax.tree.leaves(arrays)), eqx.combine(arrays, rest)(x[0]))


class Network(eqx.Module):
    layers: list

    def __init__(self, key):
        keys = jr.split(key, 2)
        self.layers = [
            eqx.nn.Conv2d(1, 3, kernel_size=3, key=keys[0]),
            eqx.nn.MaxPool2d(2, 2),
            jax.nn.relu,
            jnp.ravel,
            eqx.nn.Linear(27, 2, key=keys[1]),
            jax.nn.log_softmax,
        ]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


network = Network(jr.key(2))
image = jr.normal(jr.key(3), (1, 8, 8))
print("cnn", eqx.filter_jit(network)(image))
cell = eqx.nn.GRUCell(3, 4, key=jr.key(4))
print("gru", jax.lax.scan(lambda h, v: (cell(v, h), None), jnp.zeros(4), x)[0])
attention = eqx.nn.MultiheadAttention(2, 6, key=jr.key(5))
q = jr.normal(jr.key(6), (5, 6))
print("attention", attention(q, q, q)[0])
norm = eqx.nn.LayerNorm(3)
print("norm", jax.vmap(norm)(x)[0])
dropout = eqx.nn.Dropout(0.5)
print("dropout", dropout(jnp.ones(6), key=jr.key(7)))


@eqx.filter_jit
def positive(x):
    x = eqx.error_if(x, x < 0, "negative")
    return jnp.sqrt(x)


print("checked", positive(jnp.array(4.0)))
try:
    positive(jnp.array(-1.0))
except Exception as error:
    print("refused", "negative" in str(error))
