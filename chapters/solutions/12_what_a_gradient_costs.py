"""Solutions to chapter 12."""

from math import comb

import minijit as mj
import minijit.numpy as jnp
from minijit import lax


def slots_needed(steps, t):
    slots = 1
    while comb(slots + t, slots) < steps:
        slots += 1
    return slots


def check_slots_needed(slots_needed):
    """With s slots, binomial(s + t, s) steps can be reversed: `math.comb(s + t, s)`."""
    assert [slots_needed(n, 1) for n in (2, 3, 10)] == [1, 2, 9]
    assert slots_needed(165, 3) == 8
    assert slots_needed(166, 3) == 9


def in_chunks(body, n, x):
    @mj.checkpoint
    def chunk(x, _):
        return lax.scan(lambda x, _: (body(x), None), x, None, length=n)

    return lax.scan(chunk, x, None, length=n)[0]


def check_in_chunks(in_chunks):
    """A scan of scans; the inner one forgets what it computed: `mj.checkpoint`."""
    body = lambda x: jnp.sin(1.1 * x)
    x, expected = jnp.full(100, 0.5), 0.5
    for _ in range(25):
        expected = body(expected)
    assert abs(float(in_chunks(body, 5, x)[0]) - float(expected)) < 1e-5
    _, pull_back = mj.vjp(lambda x: in_chunks(body, 5, x), x)
    kept = sum(leaf.nbytes for leaf in mj.tree.leaves(pull_back))
    assert kept <= 400 * 8
