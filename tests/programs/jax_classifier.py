"""JAX's "training a simple neural network", with numbers in place of the data set."""

import jax
import jax.numpy as jnp
from jax import grad, jit, random, vmap
from jax.nn import one_hot
from jax.scipy.special import logsumexp

layer_sizes = [16, 24, 10]
step_size = 0.05


def random_layer_params(m, n, key, scale=1e-1):
    w_key, b_key = random.split(key)
    return scale * random.normal(w_key, (n, m)), scale * random.normal(b_key, (n,))


def init_network_params(sizes, key):
    keys = random.split(key, len(sizes))
    return [
        random_layer_params(m, n, k) for m, n, k in zip(sizes[:-1], sizes[1:], keys)
    ]


def predict(params, image):
    activations = image
    for w, b in params[:-1]:
        activations = jax.nn.relu(jnp.dot(w, activations) + b)
    final_w, final_b = params[-1]
    logits = jnp.dot(final_w, activations) + final_b
    return logits - logsumexp(logits)


batched_predict = vmap(predict, in_axes=(None, 0))


def accuracy(params, images, targets):
    target_class = jnp.argmax(targets, axis=1)
    return jnp.mean(jnp.argmax(batched_predict(params, images), axis=1) == target_class)


def loss(params, images, targets):
    return -jnp.mean(batched_predict(params, images) * targets)


@jit
def update(params, x, y):
    grads = grad(loss)(params, x, y)
    return [(w - step_size * dw, b - step_size * db)
            for (w, b), (dw, db) in zip(params, grads)]


key = random.PRNGKey(0)
images = random.normal(key, (64, 16))
labels = jnp.argmax(images @ random.normal(random.PRNGKey(1), (16, 10)), axis=1)
targets = one_hot(labels, 10)
params = init_network_params(layer_sizes, random.PRNGKey(2))
for _ in range(30):
    params = update(params, images, targets)
print("loss", loss(params, images, targets))
print("accuracy", accuracy(params, images, targets))
print("last bias", params[-1][1])
