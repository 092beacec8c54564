"""Solutions to chapter 6."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp


def bucketed(f):
    jitted = mj.jit(f)

    def call(x):
        size = 1
        while size < len(x):
            size *= 2
        padded = np.zeros(size, np.asarray(x).dtype)
        padded[: len(x)] = x
        return jitted(padded, np.arange(size) < len(x))

    return call


def check_bucketed(bucketed):
    """Pad with plain NumPy before the call: shapes are decided outside the trace."""
    traced = []

    def mean(x, valid):
        traced.append(x.shape)
        return jnp.sum(jnp.where(valid, x, 0.0)) / jnp.sum(valid)

    f = bucketed(mean)
    for n in range(1, 65):
        assert abs(float(f(np.arange(n, dtype=np.float32))) - (n - 1) / 2) < 1e-3
    assert sorted(traced) == [(1,), (2,), (4,), (8,), (16,), (32,), (64,)]
