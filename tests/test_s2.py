"""S2, jax's issue 8239: a bounded loop's gradient costs what was run, compiled too."""

import functools
import math
import sys

import numpy as np
import pytest
from test_reverse_loops import bounded_while_loop

import minijit as jax
import minijit.experimental.stax as stax
import minijit.numpy as jnp
import minijit.random as jrandom
from minijit.run.scalars.scalar_math import functions

pytestmark = pytest.mark.chapter(22)

STEPS = 8

_init, _apply = stax.serial(
    stax.Dense(256),
    stax.elementwise(jnp.tanh),
    stax.Dense(256),
    stax.elementwise(jnp.tanh),
    stax.Dense(1),
)
parameters = _init(jrandom.PRNGKey(0), (1,))[1]
expensive_fn = functools.partial(_apply, parameters)


def cond_fun(val):
    return val[1] < STEPS


def body_fun(val):
    x, step = val
    return expensive_fn(x), step + 1


def make(wrap, backend):
    """The seed's f, and the loop itself."""
    def forward(val, n):
        return jnp.sum(bounded_while_loop(cond_fun, body_fun, (val, 0), n, wrap)[0])

    compiled = functools.partial(jax.jit, static_argnums=1, backend=backend)
    return compiled(forward), compiled(jax.grad(forward))


@functools.cache
def reference():
    """The loop and its derivative for val = 1, in float64."""
    dense = [[np.float64(x) for x in layer] for layer in parameters if layer]
    x, slope = np.array([1.0]), np.array([1.0])
    for _ in range(STEPS):
        for i, (w, b) in enumerate(dense):
            x, slope = x @ w + b, slope @ w
            if i < len(dense) - 1:
                x = np.tanh(x)
                slope = slope * (1 - x**2)
    return x.sum(), slope


WRAPS = {"plain": lambda f: f, "checkpointed": jax.checkpoint}


@pytest.mark.chapter(23)
@pytest.mark.parametrize("wrap, max_steps", [("checkpointed", 64), ("plain", 1024)])
def test_gradients_are_those_of_the_steps(wrap, max_steps):
    f, gradient = make(WRAPS[wrap], "llvm")
    val = jnp.array([1.0])
    value, slope = reference()
    np.testing.assert_allclose(f(val, max_steps), value, rtol=1e-4)
    np.testing.assert_allclose(gradient(val, max_steps), slope, rtol=1e-4)


def products(f, *args):
    """How many products of matrices the generated code runs: -> (count, result)."""
    routine = functions["matmul"]
    module = sys.modules[routine.__module__]
    count = 0

    def counting(*args):
        nonlocal count
        count += 1
        routine(*args)

    with pytest.MonkeyPatch.context() as patch:
        # The generated file imports it from where it is defined.
        patch.setattr(module, "matmul", counting)
        jax.clear_caches()
        result = f(*args)
    jax.clear_caches()
    return count, result


@pytest.mark.parametrize("max_steps", [8, 64, 1024])
def test_the_generated_code_runs_a_body_a_step(max_steps):
    val = jnp.ones((2, 1))  # two, as a product with one vector is loops
    f, gradient = make(WRAPS["plain"], "plain")
    forward, _ = products(f, val, max_steps)
    assert forward > 0 and forward % STEPS == 0
    both, slope = products(gradient, val, max_steps)
    np.testing.assert_allclose(slope[0], reference()[1], rtol=1e-4)
    assert both <= 2 * forward


@pytest.mark.parametrize("max_steps", [8, 64, 256])
def test_the_generated_code_of_checkpoints_runs_again_once_a_level(max_steps):
    val = jnp.ones((2, 1))  # two, as a product with one vector is loops
    forward, _ = products(make(WRAPS["plain"], "plain")[0], val, max_steps)
    runs, slope = products(make(WRAPS["checkpointed"], "plain")[1], val, max_steps)
    np.testing.assert_allclose(slope[0], reference()[1], rtol=1e-4)
    assert runs <= (math.log2(max_steps) + 2) * forward
