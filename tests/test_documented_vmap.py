"""vmap as JAX's documentation uses it: lanes along any axis of any tree, per-example
gradients, collectives over named axes, `jnp.vectorize`, and vmap rules of one's own."""

from functools import partial

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp
from minijit import grad, jacfwd, jacrev, jit, jvp, lax, random, vmap
from minijit.custom_batching import custom_vmap

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

draw = np.random.default_rng(5)


def array(*shape):
    return draw.normal(size=shape).astype(np.float32)


close = partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5)


# ---- trees


def test_no_lanes_at_all():
    assert vmap(lambda x: x.sum())(np.zeros((0, 4), np.float32)).shape == (0,)
    f = lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME")
    kernel, image = np.ones((4, 3, 3, 3), np.float32), np.ones((2, 3, 5, 5), np.float32)
    none = lambda x: np.zeros((0, *x.shape), np.float32)
    assert vmap(f, (0, None))(none(image), kernel).shape == (0, 2, 4, 5, 5)
    assert vmap(f, (None, 0))(image, none(kernel)).shape == (0, 2, 4, 5, 5)
    assert vmap(f)(none(image), none(kernel)).shape == (0, 2, 4, 5, 5)


# ---- collectives over a named axis


def over(f, x, **options):
    return vmap(f, axis_name="i", **options)(x)


def test_a_lane_that_nobody_sends_to_has_zeros():
    x = np.arange(4.0, dtype=np.float32) + 1
    found = over(lambda x: lax.ppermute(x, "i", [(3, 0), (0, 2)]), x)
    assert found.tolist() == [4, 0, 1, 0]
    tree = over(lambda x: lax.ppermute({"a": x, "n": 7}, "i", [(1, 0)]), x)
    assert tree["a"].tolist() == [2, 0, 0, 0] and tree["n"].tolist() == [7, 0, 0, 0]


@pytest.mark.parametrize("f, words", [
    (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), ["send once", "[(0, 1)"]),
    (lambda x: lax.ppermute(x, "i", [(0, 9)]), ["3 lanes", "not there"]),
    (lambda x: lax.pshuffle(x, "i", [0, 0, 1]), ["no permutation", "3 lanes"]),
    (lambda x: lax.all_to_all(x, "i", 0, 0), ["size 3", "f32[4]"]),
    (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), ["multiple of 3"]),
    (lambda x: lax.all_to_all(x, "i", 3, 0), ["axis 3", "1 axes"]),
    (lambda x: lax.psum_scatter(x, "i"), ["size 3", "psum_scatter"]),
])  # fmt: skip
def test_errors_of_exchanges(f, words):
    x = np.ones((3, 4), np.float32)
    refused(ValueError, [*words, "test_documented_vmap.py"], over, f, x)


# ---- vectorize and apply_along_axis


def test_what_all_calls_share_is_not_repeated():
    """An axis of size 1 that broadcasts is no axis of the products."""
    times = jnp.vectorize(jnp.dot, signature="(n,m),(m)->(n)")
    jaxpr = mj.make_jaxpr(times)(np.ones((1, 2, 3)), np.ones((7, 3)))
    operands = [
        v.aval.shape
        for eqn in jaxpr.eqns
        if eqn.primitive.name == "dot_general"
        for v in eqn.invars
    ]
    assert sorted(operands) == [(2, 3), (7, 3)]
    assert times(np.ones((1, 2, 3)), np.ones((1, 1, 3))).shape == (1, 1, 2)


@pytest.mark.parametrize("call, kind, words", [
    (lambda f: f(np.ones((2, 3)), np.ones(4)), ValueError, ["'m'", "3", "4"]),
    (lambda f: f(np.ones(3), np.ones(3)), ValueError, ["(3,)", "('n', 'm')"]),
    (lambda f: f(np.ones(3)), TypeError, ["expected 2", "got 1"]),
    (lambda f: f(np.ones(3), b=np.ones(3)), TypeError, ["keyword", "b"]),
    (lambda f: f(None, np.ones(3)), ValueError, ["None", "('n', 'm')"]),
    (lambda f: f(np.ones((5, 2, 3)), np.ones((4, 3))), ValueError,
     ["(5,)", "(4,)"]),
])  # fmt: skip
def test_errors_of_shapes_and_arguments(call, kind, words):
    product = lambda a, b: jnp.dot(a, b)
    f = jnp.vectorize(product, signature="(n,m),(m)->(n)")
    refused(kind, words, call, f)


@pytest.mark.parametrize("result, kind, words", [
    (lambda x: x.sum(), ValueError, ["shape ()", "('n',)"]),
    (lambda x: x[1:], ValueError, ["'n'", "size 3", "size 2"]),
])  # fmt: skip
def test_errors_of_results(result, kind, words):
    f = jnp.vectorize(result, signature="(n)->(n)")
    refused(kind, words, f, np.ones((2, 3)))


def test_errors_of_specifications():
    refused(ValueError, "gufunc signature", jnp.vectorize, jnp.dot, signature="n,m->n")
    refused(ValueError, "negative", jnp.vectorize, jnp.dot, excluded={-1})
    refused(TypeError, "integer or string", jnp.vectorize, jnp.dot, excluded={1.5})
    with pytest.raises(TypeError, match="tuple of 2"):
        jnp.vectorize(lambda x: x, signature="()->(),()")(np.ones(2))


# ---- rules of one's own


def marked():
    """sin(x) * y, whose rule says cos(x) * y: so that one sees who computed."""
    f = custom_vmap(lambda x, y: jnp.sin(x) * y)
    asked = []

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        asked.append((axis_size, tuple(in_batched)))
        return jnp.cos(x) * y, True

    return f, asked


def test_a_rule_under_derivatives_within_lanes():
    """Forward and reverse mode are those of what the rule computes."""
    f, asked = marked()
    x = array(3)
    push = lambda x: jvp(lambda x: f(x, 2.0), (x,), (1.0,))
    y, t = vmap(push)(x)
    close(y, 2 * np.cos(x))
    close(t, -2 * np.sin(x))
    assert asked and all(size == 3 for size, _ in asked)
    g = lambda x: f(x, 2.0)
    close(vmap(jacfwd(g))(x), -2 * np.sin(x))
    for each in (vmap(grad(g)), jit(vmap(grad(g))), vmap(jit(grad(g)))):
        close(each(x), -2 * np.sin(x))
    close(vmap(grad(jit(g)))(x), -2 * np.sin(x))
    close(vmap(grad(grad(g)))(x), -2 * np.cos(x))
    # Outside of lanes it is the function that is differentiated.
    close(grad(g)(x[0]), 2 * np.cos(x[0]))


def test_derivatives_by_what_all_lanes_share():
    f, _ = marked()
    x, y = array(3), array(3)
    dx, dy = vmap(grad(f, (0, 1)), in_axes=(0, None))(x, 2.0)
    close(dx, -2 * np.sin(x))
    close(dy, np.cos(x))
    dy = vmap(grad(f, 1), in_axes=(None, 0))(0.5, y)
    close(dy, np.cos(0.5) * np.ones(3))
    # Many tangents at one point are no lanes of the function: nobody asks the rule.
    push = lambda t: jvp(lambda y: f(0.5, y), (3.0,), (t,))[1]
    close(vmap(push)(y), np.sin(0.5) * y)
    close(jacfwd(f)(0.5, 2.0), 2 * np.cos(0.5))
    close(jacrev(f)(0.5, 2.0), 2 * np.cos(0.5))
    total = lambda y: vmap(f, in_axes=(0, None))(x, y).sum()
    close(grad(total)(2.0), np.cos(x).sum())


def test_callbacks_get_keys_as_keys():
    keys, seen = random.split(random.key(0)), []
    f = lambda k: mj.debug.callback(seen.append, k)
    for g in (lambda: f(keys[0]), lambda: jit(f)(keys[0]), lambda: vmap(f)(keys)):
        seen.clear()
        g()
        for found, wanted in zip(seen, keys, strict=False):
            assert found.dtype == keys.dtype and bool(found == wanted)
    assert len(seen) == 2
    jit(vmap(f))(keys)
    assert [bool(k == keys[i % 2]) for i, k in enumerate(seen)] == [True] * 4
