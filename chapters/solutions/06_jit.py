"""Solutions to chapter 6."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.jit.jit import executors


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


def add_counting_executor(name):
    counts = {"compiled": 0, "called": 0}

    def compile_and_count(closed, name):
        counts["compiled"] += 1
        run = executors["eval"](closed, name)

        def run_and_count(*leaves):
            counts["called"] += 1
            return run(*leaves)

        return run_and_count

    executors[name] = compile_and_count
    return counts


def check_add_counting_executor(add_counting_executor):
    """A row is a function of (closed, name) that returns a function of the leaves."""
    counts = add_counting_executor("counting")
    f = mj.jit(lambda x: x * 3.0 - 1.0, backend="counting")
    assert float(f(2.0)) == 5.0
    assert counts == {"compiled": 1, "called": 1}
    f(3.0)
    assert counts == {"compiled": 1, "called": 2}
    f(jnp.ones(3))
    assert counts == {"compiled": 2, "called": 3}
