"""Samplers and networks, compiled: one kernel each, and the same numbers."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, random
from minijit.run.executable import compile_plain

pytestmark = pytest.mark.chapter(16)

key = random.PRNGKey(5)

samplers = {
    "bits": lambda k: random.bits(k, (7, 3)),
    "uint8": lambda k: random.bits(k, (11,), "uint8"),
    "split": lambda k: random.split(k, 5),
    "fold_in": lambda k: random.fold_in(k, 3),
    "uniform": lambda k: random.uniform(k, (40,)),
    "normal": lambda k: random.normal(k, (5, 6)),
    "randint": lambda k: random.randint(k, (20,), -3, 17),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (20,)),
    "gumbel": lambda k: random.gumbel(k, (20,)),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 2.0, (20,)),
}


@pytest.mark.parametrize("name", samplers)
def test_a_sampler_is_one_kernel(name):
    """The hash, and what makes a number of it, is one loop over the result."""
    draw = samplers[name]
    run = compile_plain(mj.make_jaxpr(draw)(key), name)
    assert run.kernels == ("kernel_0",) and run.fallbacks == ()
    np.testing.assert_allclose(run(key)[0], draw(key), rtol=1e-5, atol=1e-6)


def test_a_sampler_compiled_by_numba():
    draw = mj.jit(lambda k: random.normal(k, (300,)))
    np.testing.assert_allclose(draw(key), random.normal(key, (300,)), 1e-5, 1e-6)


def test_stop_gradient_leaves_no_kernel():
    closed = mj.make_jaxpr(lambda x: lax.stop_gradient(x * 2) + 1)(jnp.ones(5))
    assert len(compile_plain(closed, "stop").kernels) == 1
