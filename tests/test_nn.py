"""nn: activations, softmax and its kin, attention, initializers; against jax."""

from functools import cache

import numpy as np
import pytest
from function_cases import leaves
from harness import alike, refused
from module_cases import nn_cases
from referee import together

import minijit as mj
import minijit.experimental.stax as stax
import minijit.numpy as jnp
from minijit import nn, random
from minijit.nn import initializers

pytestmark = pytest.mark.chapter(16)

rng = np.random.default_rng(0)
m = rng.normal(size=(3, 4)).astype(np.float32)


def of_array(name, case):
    """A case as a function of (nn, array), and the array."""
    x, *rest = case.args
    return lambda nn, x: leaves(getattr(nn, name)(x, *rest, **case.kwargs))[0], x


calls = {
    f"{name} {k}": of_array(name, case)
    for name, cases in nn_cases.items() if name != "dot_product_attention"
    for k, case in enumerate(cases)
    if getattr(case.args[0], "dtype", None) == np.float32 and case.args[0].size
}  # fmt: skip


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


def slopes(lib, nn, name):
    """A function of the call's array: its first and its second derivatives."""
    function, array = calls[name]
    weights = lambda y: np.cos(np.arange(y.size, dtype=np.float32)).reshape(y.shape)

    def loss(x):
        y = function(nn, x)
        return (y * weights(y)).sum() + (y**2).sum()

    first = lib.grad(loss)
    second = lib.grad(lambda x: (first(x) * weights(array)).sum())
    return lambda x: (first(x), second(x))


@pytest.fixture(scope="module")
def wanted():
    """What jax says: {name: both derivatives}; `test_every_function` has the values."""
    jax = pytest.importorskip("jax")
    return together({f: (slopes(jax, jax.nn, f), calls[f][1]) for f in calls})


@pytest.mark.oracle
@pytest.mark.parametrize("name", calls)
def test_first_and_second_derivatives_are_jax_s(wanted, name):
    found = slopes(mj, nn, name)(calls[name][1])
    alike(found, wanted[name], rtol=2e-4, atol=2e-4)


def test_derivatives_stop_at_the_largest():
    """The sum of softmax is constant, at ties as well."""
    g = mj.grad(lambda x: nn.softmax(x).sum())(jnp.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(g, 0, atol=1e-7)
    g = mj.grad(nn.logsumexp)(jnp.array([1.0, 1.0]))
    np.testing.assert_allclose(g, 0.5)


def test_one_hot_over_the_axis_of_a_vmap():
    f = mj.vmap(
        lambda i: nn.one_hot(i, 3, axis="classes"),
        in_axes=None,
        axis_size=3,
        axis_name="classes",
    )
    np.testing.assert_array_equal(f(jnp.array([2, 0])), [[0, 1], [0, 0], [1, 0]])


# ---- Attention


def attention_arrays(batch=2, queries=5, keys=6, heads=4, groups=2, features=3):
    q = rng.normal(size=(batch, queries, heads, features)).astype(np.float32)
    k, v = rng.normal(size=(2, batch, keys, groups, features)).astype(np.float32)
    bias = rng.normal(size=(1, heads, queries, keys)).astype(np.float32)
    mask = rng.random((batch, 1, queries, keys)) < 0.7
    return q, k, v, bias, mask


def slopes_of_attention(lib, nn, case):
    """-> (the gradient by queries, keys and values, these)"""
    q, k, v, *rest = case.args
    attend = lambda *x: leaves(nn.dot_product_attention(*x, *rest, **case.kwargs))[0]
    return lib.grad(lambda *x: (attend(*x) ** 2).sum(), (0, 1, 2)), q, k, v


@pytest.mark.oracle
def test_slopes_of_attention_are_jax_s(jax):
    cases = dict(enumerate(nn_cases["dot_product_attention"]))
    asked = {k: slopes_of_attention(jax, jax.nn, case) for k, case in cases.items()}
    for k, want in together(asked).items():
        slope, *args = slopes_of_attention(mj, nn, cases[k])
        alike(slope(*args), want, cases[k], 1e-4, 1e-5)


def test_attention_by_hand():
    q, k, v, _, _ = attention_arrays(batch=1, heads=2, groups=2)
    got = np.asarray(nn.dot_product_attention(q[0], k[0], v[0]))
    for head in range(2):
        products = q[0, :, head] @ k[0, :, head].T / np.sqrt(3)
        shares = np.exp(products) / np.exp(products).sum(-1, keepdims=True)
        np.testing.assert_allclose(got[:, head], shares @ v[0, :, head], rtol=1e-5)


# ---- Initializers


def test_initializers_have_their_variance():
    key, shape = random.key(0), (200, 300)
    variances = [
        ("glorot_normal", 2 / 500), ("glorot_uniform", 2 / 500), ("he_normal", 2 / 200),
        ("he_uniform", 2 / 200), ("lecun_normal", 1 / 200), ("lecun_uniform", 1 / 200),
    ]  # fmt: skip
    for name, variance in variances:
        weights = getattr(initializers, name)()(key, shape)
        np.testing.assert_allclose(np.var(weights), variance, rtol=0.02)


def test_a_function_of_the_library_is_shared(capsys):
    for _ in range(2):
        mj.jit(lambda v: print("traced") or nn.relu(v))(jnp.ones(3))
    assert capsys.readouterr().out == "traced\n"


def test_one_hot_of_floats_warns():
    with pytest.warns(DeprecationWarning, match="should be integer-typed"):
        assert nn.one_hot(jnp.array([1.0]), 3).tolist() == [[0, 1, 0]]


# ---- stax: its layers against jax's, and the networks of people who use it


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
