"""Solutions to chapter 13."""

import math

import minijit.numpy as jnp
from minijit import lax
from minijit.trace.array import aval_of
from minijit.transform.control_flow import checkpointed_loops
from minijit.transform.control_flow.checkpointed_loops import one_step_back
from minijit.transform.pieces import jaxpr_of


def reverse_by_halves(advance, back, state, steps, slots):
    if steps == 1:
        back(state)
    elif steps > 1:
        half = steps // 2
        middle = advance(state, half)
        reverse_by_halves(advance, back, middle, steps - half, slots)
        reverse_by_halves(advance, back, state, half, slots)


def check_reverse_by_halves(reverse_by_halves):
    """`advance(state, n)` returns the state n steps later; one step: `back(state)`."""
    runs, order = [], []

    def advance(state, n):
        runs.append(n)
        return state + n

    reverse_by_halves(advance, order.append, 0, 16, 1)
    assert order == list(reversed(range(16)))
    assert sum(runs) == 32
    body = jaxpr_of(lambda x: [lax.sin(x)], [aval_of(jnp.float32(1.0))], "body")
    back = one_step_back(body, 0, (True,))
    own = checkpointed_loops.reverse_steps
    checkpointed_loops.reverse_steps = reverse_by_halves
    try:
        args = jnp.int32(9), jnp.float32(1.0), jnp.float32(0.5)
        slope, = checkpointed_loops.run_treeverse(*args, body=body, back=back, slots=1)
    finally:
        checkpointed_loops.reverse_steps = own
    want, x = 1.0, 0.5
    for _ in range(9):
        want, x = want * math.cos(x), math.sin(x)
    assert abs(float(slope) - want) < 1e-5
