"""Solutions to the tour programs_for_jax.ipynb."""

from typing import NamedTuple

import minijit as jax
import minijit.numpy as jnp


class Transform(NamedTuple):
    init: object
    update: object


def momentum(decay):
    def update(grads, state, params=None):
        state = jax.tree.map(lambda m, g: decay * m + g, state, grads)
        return state, state

    return Transform(lambda params: jax.tree.map(jnp.zeros_like, params), update)


def check_momentum(momentum):
    """The new state is the update too: decay times the old one, plus the gradient."""
    optimizer = momentum(0.5)
    grads = {"w": jnp.array([1.0, -2.0])}
    state = optimizer.init({"w": jnp.ones(2)})
    assert jnp.all(state["w"] == 0.0)
    for factor in (1.0, 1.5, 1.75):
        updates, state = optimizer.update(grads, state)
        assert jnp.allclose(updates["w"], factor * grads["w"])
        assert jnp.allclose(state["w"], updates["w"])
