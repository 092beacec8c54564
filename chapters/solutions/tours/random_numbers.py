"""Solutions to the tour random_numbers.ipynb."""

import numpy as np

import minijit.numpy as jnp
from minijit import jit, lax, random


def dropout(key, x, rate):
    kept = random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(kept, x / (1 - rate), 0.0)


def check_dropout(dropout):
    """`random.bernoulli(key, p, shape)` is True with probability p."""
    x = jnp.linspace(1.0, 2.0, 20_000)
    for rate in (0.1, 0.5, 0.75):
        y = np.asarray(jit(dropout)(random.key(3), x, rate))
        kept = y != 0
        assert np.allclose(y[kept], np.asarray(x)[kept] / (1 - rate))
        assert abs(kept.mean() - (1 - rate)) < 0.02
        assert abs(y.mean() - 1.5) < 0.05
    assert np.array_equal(dropout(random.key(3), x, 0.75), y)
    assert not np.array_equal(dropout(random.key(4), x, 0.75), y)


def draw(key, logits, k):
    noise = random.gumbel(key, logits.shape)
    return lax.top_k(logits + noise, k)[1]


def check_draw(draw):
    """Add Gumbel noise to the logits; the k largest sums are the draws, in order."""
    p = np.array([0.1, 0.2, 0.7], np.float32)
    keys = random.split(random.key(0), 1500)
    pairs = np.array([np.asarray(draw(key, jnp.log(p), 2)) for key in keys])
    assert pairs.shape == (1500, 2) and (pairs[:, 0] != pairs[:, 1]).all()
    first = np.bincount(pairs[:, 0], minlength=3) / 1500
    assert np.allclose(first, p, atol=0.05)
    after_two = pairs[pairs[:, 0] == 2, 1]  # 0.1 and 0.2 are left: one to two
    assert abs((after_two == 1).mean() - 2 / 3) < 0.06
