"""stax: its layers against jax's, and the networks of people who use it."""

import functools

import numpy as np
import pytest
from test_reverse_loops import bounded_while_loop

import minijit as mj
import minijit.experimental.stax as stax
import minijit.numpy as jnp
from minijit import random
from minijit.example_libraries import stax as new_stax

pytestmark = pytest.mark.chapter(16)

# name -> (a layer, given stax and its jnp; the shape of an input)
image = 2, 8, 8, 3
layers = {
    "Dense": (lambda s, np_: s.Dense(4), (2, 3)),
    "Dense ones": (
        lambda s, np_: s.Dense(4, W_init=lambda k, shape: np_.ones(shape)),
        (2, 3),
    ),
    "Conv": (lambda s, np_: s.Conv(4, (3, 3), padding="SAME"), image),
    "Conv strides": (lambda s, np_: s.Conv(4, (3, 2), (2, 1)), image),
    "GeneralConv": (
        lambda s, np_: s.GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (3, 3)),
        (2, 3, 8, 8),
    ),
    "ConvTranspose": (lambda s, np_: s.ConvTranspose(2, (3, 3), (2, 2)), image),
    "Conv1DTranspose": (lambda s, np_: s.Conv1DTranspose(2, (3,), (2,)), (2, 5, 3)),
    "BatchNorm": (lambda s, np_: s.BatchNorm(), image),
    "BatchNorm 0": (lambda s, np_: s.BatchNorm(0, center=False), (5, 3)),
    "BatchNorm bare": (lambda s, np_: s.BatchNorm(center=False, scale=False), image),
    "MaxPool": (lambda s, np_: s.MaxPool((2, 2), (2, 2)), image),
    "SumPool": (lambda s, np_: s.SumPool((3, 3), padding="SAME"), image),
    "AvgPool": (lambda s, np_: s.AvgPool((3, 3), (2, 2), "SAME"), image),
    "AvgPool NCHW": (lambda s, np_: s.AvgPool((2, 3), spec="NCHW"), (2, 3, 8, 8)),
    "Flatten": (lambda s, np_: s.Flatten, image),
    "Identity": (lambda s, np_: s.Identity, image),
    "elementwise": (lambda s, np_: s.elementwise(np_.clip, min=-0.5), (2, 3)),
    "Dropout": (lambda s, np_: s.Dropout(0.7), (20, 3)),
    "Dropout test": (lambda s, np_: s.Dropout(0.7, mode="test"), (20, 3)),
    **{
        name: (lambda s, np_, name=name: getattr(s, name), (2, 7))
        for name in """Tanh Relu Exp LogSoftmax Softmax Softplus Sigmoid Elu LeakyRelu
        Selu Gelu""".split()
    },
    "FanOut": (
        lambda s, np_: s.serial(
            s.FanOut(2), s.parallel(s.Dense(3), s.Identity), s.FanInSum
        ),
        (2, 3),
    ),
    "FanInConcat": (
        lambda s, np_: s.serial(
            s.FanOut(2), s.parallel(s.Dense(3), s.Dropout(0.5)), s.FanInConcat(0)
        ),
        (2, 3),
    ),
    "shape_dependent": (
        lambda s, np_: s.shape_dependent(lambda shape: s.Dense(shape[-1])),
        (2, 3),
    ),
    "image net": (
        lambda s, np_: s.serial(
            s.Conv(4, (3, 3), padding="SAME"), s.BatchNorm(), s.Relu,
            s.MaxPool((2, 2), (2, 2)), s.Conv(3, (2, 2), (2, 2)), s.Flatten,
            s.Dense(5), s.LogSoftmax,
        ),
        image,
    ),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", layers)
def test_layers_are_jax_s(name):
    jax = pytest.importorskip("jax")
    theirs = pytest.importorskip("jax.example_libraries.stax")
    layer, shape = layers[name]
    init, apply = layer(stax, jnp)
    jax_init, jax_apply = layer(theirs, jax.numpy)
    got, params = init(random.PRNGKey(4), shape)
    want, jax_params = jax_init(jax.random.PRNGKey(4), shape)
    assert tuple(got) == tuple(want)
    leaves, jax_leaves = mj.tree.leaves(params), jax.tree.leaves(jax_params)
    for a, b in zip(leaves, jax_leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    y = apply(params, x, rng=random.PRNGKey(1))
    z = jax_apply(jax_params, x, rng=jax.random.PRNGKey(1))
    assert y.shape == z.shape and (name.startswith("Fan") or y.shape == tuple(got))
    np.testing.assert_allclose(y, z, rtol=2e-5, atol=2e-5)


def test_both_names():
    assert stax.Dense is new_stax.Dense
    names = """serial parallel shape_dependent elementwise Dense GeneralConv Conv Relu
    GeneralConvTranspose Flatten FanInSum glorot randn logsoftmax""".split()
    assert all(hasattr(stax, name) for name in names)


def test_unknown_number_of_examples():
    init, _ = stax.serial(
        stax.Conv(4, (3, 3)), stax.MaxPool((2, 2)), stax.Flatten, stax.Dense(7)
    )
    shape, params = init(random.PRNGKey(0), (-1, 8, 8, 1))
    assert shape[-1] == 7
    assert [p.shape for p in mj.tree.leaves(params)] == [
        (3, 3, 1, 4), (1, 1, 1, 4), (100, 7), (7,),
    ]  # fmt: skip


def test_dropout_wants_a_key():
    _, apply = stax.Dropout(0.5)
    with pytest.raises(ValueError, match="PRNG key"):
        apply((), jnp.ones(3))


def test_the_network_of_the_bounded_loop():
    """Its gradient, with a network in stax, is that of the unrolled loop."""
    init, apply = stax.serial(
        stax.Dense(16),
        stax.elementwise(jnp.tanh),
        stax.Dense(16),
        stax.elementwise(jnp.tanh),
        stax.Dense(1),
    )
    expensive = functools.partial(apply, init(random.PRNGKey(0), (1,))[1])

    def f(val, max_steps):
        cond_fun = lambda val: val[1] < 5
        body_fun = lambda val: (expensive(val[0]), val[1] + 1)
        return jnp.sum(bounded_while_loop(cond_fun, body_fun, (val, 0), max_steps)[0])

    def unrolled(val):
        for _ in range(5):
            val = expensive(val)
        return jnp.sum(val)

    val = jnp.array([1.0])
    want = mj.grad(unrolled)(val)
    assert float(jnp.abs(want)[0]) > 1e-8
    np.testing.assert_allclose(mj.grad(f)(val, 8), want, rtol=1e-5)
