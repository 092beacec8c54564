"""Scans in blocks of lanes: which they are, and what they compute."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.trace.base.config import config
from minijit.trace.jit.jit import executors
from tests.test_native_control import agree, sources

pytestmark = pytest.mark.chapter(21)

x = np.linspace(-1, 1, 103, dtype="f4")


def small_caches():
    """As if the caches held a hundred bytes, and registers a few numbers."""
    few = dict(worth_lanes=100, lane_block=64, block_elements=4)
    return config.override("fusion", config.fusion.but(**few))


@pytest.fixture(autouse=True)
def with_small_caches():
    with small_caches():
        yield


def has_blocks(f, *args):
    """Whether the loop of a function goes over blocks."""
    mj.clear_caches()
    run = executors["plain"](mj.make_jaxpr(f)(*args), "f")
    run(*args)
    assert run.fallbacks == ()
    (text,) = sources()
    return "minimum(" in text


def decay(x):
    return lax.fori_loop(0, 9, lambda i, c: c * 0.5 + jnp.float32(i), x)


def several(x):
    """Carries that swap, so that they cannot be updated in place, and a number."""

    def step(carry, _):
        a, b, k = carry
        return (b * 0.5 + k, a - b, k + 1.0), None

    return lax.scan(step, (x, x * 2, 0.0), None, length=7)[0]


def of_matrices(x):
    """A lane is a row; its elements may look at each other."""
    y = jnp.stack([x, x + 1, x * x, x + 2, x + 3], 1)
    step = lambda i, c: jnp.sin(c) + 3 + c.max(1, keepdims=True)
    return lax.fori_loop(0, 3, step, y)


def backwards(x):
    """One number comes in and one goes out at each step."""
    step = lambda c, k: (c * k + 0.25, k * 2)
    return lax.scan(step, x, jnp.arange(5.0), reverse=True)


def within_a_loop(x):
    return lax.fori_loop(0, 3, lambda i, c: jnp.flip(decay(c)), x)


def mixing(x):
    return lax.fori_loop(0, 5, lambda i, c: jnp.roll(c, 1) * 0.5, x)


def total(x):
    return lax.fori_loop(0, 5, lambda i, c: c / (1 + jnp.sum(c * c)), x)


def counting(x):
    return lax.fori_loop(0, 5, lambda i, c: c + jnp.arange(103.0), x)


def streaming(x):
    return lax.scan(lambda c, y: (c + y, c * y), x, jnp.ones((5, 103)))


WITH = [decay, several, of_matrices, backwards, within_a_loop]
WITHOUT = [mixing, total, streaming]


@pytest.mark.parametrize("f", WITH)
def test_lanes_that_do_not_look_at_each_other_go_in_blocks(f):
    assert has_blocks(f, x)


@pytest.mark.parametrize("f", WITHOUT)
def test_other_scans_go_step_by_step(f):
    assert not has_blocks(f, x)


@pytest.mark.parametrize("f", [*WITH, *WITHOUT, counting])
@pytest.mark.parametrize("backend", ["plain", "python"])
def test_they_compute_the_same(f, backend):
    agree(f, x, backend=backend)


def test_what_fits_into_the_cache_needs_no_blocks():
    with config.override("fusion", config.fusion.but(worth_lanes=1 << 19)):
        assert not has_blocks(decay, x)
