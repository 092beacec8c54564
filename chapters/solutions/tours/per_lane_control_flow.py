"""Solutions to the tour per_lane_control_flow.ipynb."""

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit import lax


def collatz(n):
    def step(state):
        n, count = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda state: state[0] > 1, step, (n, 0))[1]


def check_collatz(collatz):
    """The carry is (n, count); choose the next n with jnp.where."""
    want = [0, 1, 7, 2, 5, 8, 16, 3, 19, 111]
    found = mj.vmap(collatz)(jnp.array([*range(1, 10), 27]))
    assert np.array_equal(found, want), found


def guarded(f, safe, x):
    inside = jnp.where(x > 0, x, safe)
    return jnp.where(x > 0, f(inside), 0.0)


def check_guarded(guarded):
    """The first `where` chooses what f sees; the second chooses the result."""
    xs = jnp.array([-1.0, 0.0, 4.0])
    for f, value, slope in ((jnp.sqrt, 2.0, 0.25), (jnp.log, np.log(4.0), 0.25)):
        one = lambda x, f=f: guarded(f, 1.0, x)
        assert np.allclose(mj.vmap(one)(xs), [0, 0, value])
        assert np.allclose(mj.vmap(mj.grad(one))(xs), [0, 0, slope])
