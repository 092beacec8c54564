"""Seed S1, first half: a jitted function called inside another is traced once."""

import re
from functools import partial

import pytest

import minijit as jax
import minijit.numpy as jnp

pytestmark = pytest.mark.chapter(6)


def outer_of(inner_fn):
    """The seed's outer function around `inner_fn`."""

    @jax.jit
    def outer_fn(x):
        print("entering outer_fn now")
        old_x = x
        for _ in range(10):
            x = inner_fn(x)
        x = x + old_x
        return x

    return outer_fn


def test_the_seed_verbatim(capsys):
    @partial(jax.jit, inline=True)
    def inner_fn(state):
        print("entering inner_fn now")
        return 2 * state

    state = jnp.arange(5, dtype=jnp.uint32)
    result = outer_of(inner_fn)(state).block_until_ready()
    assert capsys.readouterr().out.splitlines() == ["entering outer_fn now",
                                                    "entering inner_fn now"]
    assert result.tolist() == [1025 * i for i in range(5)]
    assert result.dtype == jnp.uint32


def test_inline_leaves_no_call():
    inner_fn = jax.jit(lambda state: 2 * state, inline=True)
    text = str(jax.make_jaxpr(outer_of(inner_fn))(jnp.arange(5)))
    assert text.count("mul 2") == 10
    assert text.count("jit[") == 1


def test_a_call_is_shared(capsys):
    @jax.jit
    def inner_fn(state):
        print("entering inner_fn now")
        return 2 * state

    outer_fn = outer_of(inner_fn)
    state = jnp.arange(5, dtype=jnp.uint32)
    text = str(jax.make_jaxpr(outer_fn)(state))
    assert text.startswith("let inner_fn = {")
    assert text.count("mul 2") == 1
    assert len(re.findall(r"jit\[name=inner_fn jaxpr=inner_fn\]", text)) == 10
    outer_fn(state)
    inner_fn(state)
    assert capsys.readouterr().out.count("inner_fn now") == 1
    assert len(inner_fn.traces) == 1


def test_a_method_reads_tracers_through_an_attribute():
    class Model:
        weights = None

    model = Model()

    @jax.jit
    def layer(x):
        return model.weights * x

    @jax.jit
    def run(w, x):
        model.weights = w
        return layer(x)

    assert float(run(2.0, 3.0)) == 6.0
    assert run(jnp.ones(3), 3.0).tolist() == [3.0, 3.0, 3.0]
    assert run(jnp.ones(2), 3.0).tolist() == [3.0, 3.0]
    assert run(jnp.ones(2), 4).tolist() == [4.0, 4.0]
