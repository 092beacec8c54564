"""Solutions to the tour running_totals.ipynb."""

import itertools

import numpy as np

import minijit.numpy as jnp
from minijit import jit, lax


def fibonacci(n):
    step = jnp.array([[1, 1], [1, 0]])
    steps = jnp.broadcast_to(step, (n, 2, 2))
    return lax.associative_scan(jnp.matmul, steps)[:, 0, 1]


def check_fibonacci(fibonacci):
    """The powers of [[1, 1], [1, 0]] have Fibonacci numbers in them; jnp.matmul."""
    want = [1, 1]
    while len(want) < 20:
        want.append(want[-1] + want[-2])
    for n in (1, 2, 7, 20):
        assert np.array_equal(fibonacci(n), want[:n])


def balanced(x):
    totals = lax.associative_scan(jnp.add, x)
    return (jnp.min(totals) >= 0) & (totals[-1] == 0)


def check_balanced(balanced):
    """Look at the smallest and at the last of the running totals."""
    def slow(word):
        totals = list(itertools.accumulate(word))
        return min(totals) >= 0 and totals[-1] == 0

    for word in itertools.product((1, -1), repeat=6):
        assert bool(jit(balanced)(jnp.array(word))) == slow(word), word


def restarting(x, starts):
    def combine(a, b):
        return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])

    return lax.associative_scan(combine, (starts, x))[1]


def check_restarting(restarting):
    """If the right part has a start, what is on its left does not count."""
    rng = np.random.default_rng(0)
    x, starts = rng.integers(0, 9, 50).astype("f4"), rng.uniform(size=50) < 0.2
    total, want = 0.0, []
    for value, start in zip(x, starts, strict=True):
        total = value if start else total + value
        want.append(total)
    assert np.array_equal(restarting(jnp.array(x), jnp.array(starts)), want)
