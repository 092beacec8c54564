"""Solutions to the tour transposes.ipynb."""

import numpy as np

import minijit.numpy as jnp
from minijit import linear_transpose


def transposed(ct):
    return jnp.cumsum(ct[::-1])


def check_transposed(transposed):
    """Transpose each step, last step first: a flip is its own transpose."""
    for n in (1, 4, 7):
        x = jnp.arange(1.0, n + 1.0)
        wanted, = linear_transpose(lambda x: jnp.cumsum(x[::-1]), x)(x)
        assert np.allclose(transposed(x), wanted)


def is_transpose(f, g, x, y):
    return bool(jnp.allclose(jnp.dot(y, f(x)), jnp.dot(g(y), x)))


def check_is_transpose(is_transpose):
    """<y, f(x)> must be <g(y), x>; floats are equal only nearly."""
    a = np.random.RandomState(0).randn(3, 4)
    x, y = np.random.RandomState(1).randn(4), np.random.RandomState(2).randn(3)
    assert is_transpose(lambda x: a @ x, lambda y: a.T @ y, x, y) is True
    assert is_transpose(lambda x: a @ x, lambda y: 2 * a.T @ y, x, y) is False
