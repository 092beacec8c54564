"""Solutions to the tour layers.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import nn, random
from minijit.example_libraries import stax


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


def cross_entropy(scores, labels):
    hot = nn.one_hot(labels, scores.shape[-1])
    return -jnp.mean(jnp.sum(hot * nn.log_softmax(scores), -1))


def check_cross_entropy(cross_entropy):
    """log_softmax subtracts the largest score; one_hot picks the label's entry."""
    scores = jnp.array([[2000.0, 1999.0], [0.0, 0.0]])
    labels = jnp.array([1, 0])
    want = (np.log(1 + np.exp(1)) + np.log(2)) / 2
    assert np.allclose(cross_entropy(scores, labels), want)
    g = mj.grad(cross_entropy)(scores, labels)
    assert np.allclose(g, (nn.softmax(scores) - nn.one_hot(labels, 2)) / 2, atol=1e-6)


def residual(layer):
    init_inside, apply_inside = layer

    def init(key, input_shape):
        output_shape, params = init_inside(key, input_shape)
        if tuple(output_shape) != tuple(input_shape):
            raise ValueError(f"a layer from {input_shape} to {output_shape}")
        return output_shape, params

    def apply(params, x, **kwargs):
        return x + apply_inside(params, x, **kwargs)

    return init, apply


def check_residual(residual):
    """Call the layer's own init and apply; add the input to what comes out."""
    layer = stax.serial(stax.Dense(3), stax.Tanh)
    init, apply = residual(layer)
    shape, params = init(random.key(1), (-1, 3))
    x = jnp.array([[1.0, -2.0, 0.5]])
    assert tuple(shape) == (-1, 3)
    assert np.allclose(apply(params, x), x + layer[1](params, x))
    init, apply = stax.serial(residual(layer), residual(layer), stax.Dense(2))
    shape, params = init(random.key(1), (-1, 3))
    assert tuple(shape) == (-1, 2) and apply(params, x).shape == (1, 2)
    try:
        residual(stax.Dense(4))[0](random.key(1), (-1, 3))
    except ValueError:
        return
    raise AssertionError("3 inputs and 4 outputs cannot be added: a ValueError")
