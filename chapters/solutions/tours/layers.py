"""Solutions to the tour layers.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import nn, random


def init_mlp(key, sizes):
    init = nn.initializers.glorot_normal()
    keys = random.split(key, len(sizes) - 1)
    pairs = zip(sizes[:-1], sizes[1:], strict=True)
    return [
        (init(k, (n_in, n_out)), jnp.zeros(n_out))
        for k, (n_in, n_out) in zip(keys, pairs, strict=True)
    ]


def check_init_mlp(init_mlp):
    """Split the key once, into as many keys as there are layers."""
    key = random.key(3)
    params = init_mlp(key, [4, 5, 2])
    assert [(w.shape, b.shape) for w, b in params] == [((4, 5), (5,)), ((5, 2), (2,))]
    init = nn.initializers.glorot_normal()
    want = init(random.split(key)[1], (5, 2))
    assert np.array_equal(params[1][0], want) and not np.any(params[0][1])


def cross_entropy(logits, labels):
    hot = nn.one_hot(labels, logits.shape[-1])
    return -jnp.mean(jnp.sum(hot * nn.log_softmax(logits), -1))


def check_cross_entropy(cross_entropy):
    """log_softmax subtracts the largest logit; one_hot picks the label's entry."""
    logits = jnp.array([[2000.0, 1999.0], [0.0, 0.0]])
    labels = jnp.array([1, 0])
    want = (np.log(1 + np.exp(1)) + np.log(2)) / 2
    assert np.allclose(cross_entropy(logits, labels), want)
    g = mj.grad(cross_entropy)(logits, labels)
    assert np.allclose(g, (nn.softmax(logits) - nn.one_hot(labels, 2)) / 2, atol=1e-6)
