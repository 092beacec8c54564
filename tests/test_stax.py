"""stax: its layers against jax's, and the networks of people who use it."""

from functools import cache

import numpy as np
import pytest
from harness import alike, refused
from referee import together

import minijit as mj
import minijit.experimental.stax as stax
import minijit.numpy as jnp
from minijit import random

pytestmark = pytest.mark.chapter(16)

# Lines of the shape of an input, and a layer, given stax and its jnp.
image = 2, 8, 8, 3
plain = "Tanh Relu Exp LogSoftmax Softmax Softplus Sigmoid Elu LeakyRelu Selu Gelu"
layers = [f"2, 7; s.{name}" for name in plain.split()] + """\
2, 3; s.Dense(4)
2, 3; s.Dense(4, W_init=lambda k, shape: np_.ones(shape))
image; s.Conv(4, (3, 3), padding="SAME")
image; s.Conv(4, (3, 2), (2, 1))
2, 3, 8, 8; s.GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (3, 3))
image; s.ConvTranspose(2, (3, 3), (2, 2))
2, 5, 3; s.Conv1DTranspose(2, (3,), (2,))
image; s.BatchNorm()
5, 3; s.BatchNorm(0, center=False)
image; s.BatchNorm(center=False, scale=False)
image; s.MaxPool((2, 2), (2, 2))
image; s.SumPool((3, 3), padding="SAME")
image; s.AvgPool((3, 3), (2, 2), "SAME")
2, 3, 8, 8; s.AvgPool((2, 3), spec="NCHW")
image; s.Flatten
image; s.Identity
2, 3; s.elementwise(np_.clip, min=-0.5)
20, 3; s.Dropout(0.7)
20, 3; s.Dropout(0.7, mode="test")
2, 3; s.serial(s.FanOut(2), s.parallel(s.Dense(3), s.Identity), s.FanInSum)
2, 3; s.serial(s.FanOut(2), s.parallel(s.Dense(3), s.Dropout(0.5)), s.FanInConcat(0))
2, 3; s.shape_dependent(lambda shape: s.Dense(shape[-1]))
image; s.serial(s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu, \
    s.MaxPool((2, 2), (2, 2)), s.Conv(3, (2, 2), (2, 2)), s.Flatten, s.Dense(5))
""".splitlines()


def built(row, stax, jnp):
    """-> (the shape of an input, `init` and `apply` of a layer)"""
    text, layer = row.split("; ")
    given = {"s": stax, "np_": jnp}
    return eval(text, {"image": image}), *eval(layer, given)


def drawn(shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@cache
def asked():
    """({row: jax's parameters and result}, {row: its shape})"""
    import jax
    from jax.example_libraries import stax

    programs, shapes = {}, {}
    for row in layers:
        shape, init, apply = built(row, stax, jax.numpy)

        def program(x, row=row, init=init, apply=apply):
            shapes[row], params = init(jax.random.PRNGKey(4), x.shape)
            return params, apply(params, x, rng=jax.random.PRNGKey(1))

        programs[row] = program, drawn(shape)
    return together(programs), shapes


@pytest.mark.oracle
@pytest.mark.parametrize("row", layers)
def test_layers_are_jax_s(row):
    jax = pytest.importorskip("jax")
    wanted, shapes = asked()
    shape, init, apply = built(row, stax, jnp)
    got, params = init(random.PRNGKey(4), shape)
    assert tuple(got) == tuple(shapes[row])
    jax_params, z = wanted[row]
    leaves = mj.tree.leaves(params)
    alike(leaves, jax.tree.leaves(jax_params), rtol=1e-5, atol=1e-6)
    y = apply(params, drawn(shape), rng=random.PRNGKey(1))
    assert y.shape == z.shape and ("FanIn" in row or y.shape == tuple(got))
    np.testing.assert_allclose(y, z, rtol=2e-5, atol=2e-5)


def test_dropout_wants_a_key():
    _, apply = stax.Dropout(0.5)
    refused(ValueError, "PRNG key", apply, (), jnp.ones(3))
