"""grad, vjp and linear_transpose as users call them: sums, structures, errors."""

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import grad, jit, linear_transpose, make_jaxpr, vjp
from minijit.trace import primitives as lax, slicing

pytestmark = [
    pytest.mark.chapter(8),
    pytest.mark.usefixtures("in_double_precision", "no_words_of_the_test"),
]


def test_slices_are_added_to_the_sum_so_far():
    """n parts of one array: one array of zeros, and no addition of whole arrays."""
    def f(x):
        return sum(jnp.sin(x[i]) for i in range(10))

    jaxpr = make_jaxpr(grad(f))(np.arange(10.0))
    whole = [
        eqn for eqn in jaxpr.eqns
        if eqn.primitive.name in ("add_any", "pad") and eqn.outvars[0].aval.shape
    ]
    assert len(whole) <= 1
    np.testing.assert_allclose(grad(f)(np.arange(10.0)), np.cos(np.arange(10.0)))
    window = lambda x, i: jnp.sin(slicing.dynamic_slice(x, (i,), (2,))).sum()
    overlapping = grad(lambda x: window(x, 0) + window(x, 1))(np.arange(3.0))
    np.testing.assert_allclose(overlapping, np.cos(np.arange(3.0)) * [1, 2, 1])


def test_an_accumulator_goes_into_a_call():
    g = jit(lambda x: x[1] * 2.0)

    def f(x):
        return x[0] * 2.0 + g(x) + g(x)

    np.testing.assert_allclose(grad(f)(np.arange(3.0)), [2, 4, 0])


def test_an_argument_that_stands_twice():
    assert grad(lambda x: x + x)(3.0) == 2.0
    assert grad(lambda x: x * x)(3.0) == 6.0
    assert grad(lambda x: (x + x) * x)(3.0) == 12.0
    np.testing.assert_allclose(
        linear_transpose(lambda x: lax.add(x, x), np.ones(2))(np.ones(2))[0], [2, 2]
    )


# ---- what grad takes and gives


@pytest.mark.parametrize("f, args, wanted", [
    (lax.max, (1.0, 1.0), (0.5, 0.5)),
    (lax.max, (1.0, 2.0), (0.0, 1.0)),
    (lax.min, (1.0, 1.0), (0.5, 0.5)),
    (lax.min, (1.0, 2.0), (1.0, 0.0)),
    (lambda x: lax.reduce_max(x, (0,)), ([2.0, 2.0, 1.0],), ([0.5, 0.5, 0.0],)),
    (lambda x: lax.reduce_min(x, (0,)), ([2.0, 1.0, 1.0],), ([0.0, 0.5, 0.5],)),
    (lambda x: lax.reduce_prod(x, (0,)), ([0.0, 2.0, 3.0],), ([6.0, 0.0, 0.0],)),
    (lambda x: lax.reduce_prod(x, (0,)), ([0.0, 0.0, 3.0],), ([0.0, 0.0, 0.0],)),
    (lambda x: lax.reduce_prod(x, (0,)), ([2.0, 3.0, 4.0, 5.0, 6.0],),
     ([360.0, 240.0, 180.0, 144.0, 120.0],)),
    (lax.abs, (0.0,), (1.0,)),
    (lax.abs, (-2.0,), (-1.0,)),
    (lambda x: lax.integer_pow(x, 0), (0.0,), (0.0,)),
    (lambda x: lax.integer_pow(x, 1), (0.0,), (1.0,)),
    (lambda x: lax.integer_pow(x, 2), (0.0,), (0.0,)),
    (lax.pow, (0.0, 2.0), (0.0, 0.0)),
    (lax.pow, (2.0, 3.0), (12.0, 8 * np.log(2))),
])  # fmt: skip
def test_slopes_at_ties_at_zero_and_at_the_ends(f, args, wanted):
    """As jax says: those that tie share evenly, and |x| has a slope of 1 at 0."""
    args = [np.asarray(x) for x in args]
    for slope in (grad(f, range(len(args))), jit(grad(f, range(len(args))))):
        for found, want in zip(slope(*args), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-12)


def test_a_result_that_stands_twice():
    def f(x):
        y = x * 2.0
        return y, y

    assert vjp(f, 3.0)[1]((1.0, 10.0)) == (22.0,)


def test_axes_that_a_broadcast_puts_in_another_order():
    """The cotangent goes back in the order of the operand's axes."""
    ct = np.arange(24.0).reshape(4, 3, 2)
    for shape, kept, wanted in (
        ((2, 3), (2, 1), ct.sum(0).T),
        ((2, 1), (2, 1), ct.sum((0, 1))[:, None]),
        ((3, 2, 4), (1, 2, 0), ct.transpose(1, 2, 0)),
    ):
        f = lambda x, kept=kept: lax.broadcast_in_dim(x, (4, 3, 2), kept)
        (found,) = linear_transpose(f, np.ones(shape))(ct)
        np.testing.assert_array_equal(found, wanted)


def test_keyword_arguments_are_not_differentiated():
    assert grad(lambda x, scale: x * scale)(1.0, scale=3.0) == 3.0


def test_integers_get_float0():
    g = grad(lambda n, x: x * n, argnums=(0, 1), allow_int=True)(3, 2.0)
    assert g[0].dtype == np.dtype([("float0", np.void, 0)]) and g[1] == 3.0
    by_tree = grad(lambda p: p["x"] * p["n"][1], allow_int=True)
    assert by_tree({"x": 2.0, "n": np.arange(3)})["n"].shape == (3,)


def test_a_jitted_gradient_traces_once():
    g = jit(grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)))
    for i in range(4):
        g(np.arange(3.0) + i)
    assert len(g.traces) == 1


def test_linear_transpose():
    f = lambda x: lax.reduce_sum(lax.reshape(x, (2, 3)), (1,))
    back, = linear_transpose(f, np.ones(6))(np.array([1.0, 2.0]))
    assert back.tolist() == [1, 1, 1, 2, 2, 2]
    # Of a function's two results only one matters.
    both = jit(lambda x: (2.0 * x, 3.0 * x))
    assert linear_transpose(lambda x: both(x)[1], 1.0)(2.0) == (6.0,)


# ---- errors


@pytest.mark.parametrize("call, words", [
    (lambda: grad(lambda x: (x, x))(1.0), ["scalar-output"]),
    (lambda: grad(lambda x: x)(1), ["real- or complex-valued", "int64"]),
    (lambda: grad(lambda x: x > 0)(1.0), ["real", "bool"]),
    (lambda: grad(jnp.sin)(1j), ["real"]),
    (lambda: grad(lambda x: x, holomorphic=True)(1.0), ["complex dtype"]),
    (lambda: grad(lambda x: x, argnums=2)(1.0), ["argnums=2", "only 1"]),
    (lambda: grad(lambda x: x)(x=1.0), ["positional"]),
    (lambda: grad(jnp.abs, holomorphic=True)(1j), ["complex"]),
    (lambda: grad(lambda x: (x, x, x), has_aux=True)(1.0), ["two-element tuple"]),
])  # fmt: skip
def test_errors_of_grad(call, words):
    refused(TypeError, words, call)


def test_cotangents_are_as_weak_as_what_they_are_made_of():
    """jax.vjp(jnp.sin, 2.0)[1](jnp.float32(1)) is strong; a number's is weak."""
    strong = jnp.float64(1)
    for f in (jnp.sin, lambda x: x * x, lambda x: 1 / x, lambda x: x**2):
        for transform in (lambda f: f, jit):
            pull = lambda x, ct, f=f: vjp(f, x)[1](ct)[0]
            assert not transform(pull)(2.0, strong).weak_type
            assert not transform(pull)(strong, 1.0).weak_type
            assert transform(pull)(2.0, 1.0).weak_type
            assert transform(grad(f))(2.0).weak_type
            assert not transform(grad(f))(strong).weak_type
    # What was converted to a strong type is converted back.
    assert grad(lambda x: x * strong)(2.0).weak_type
    assert grad(lambda x: strong)(2.0).weak_type
