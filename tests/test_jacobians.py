"""Jacobians and Hessians: values, structures, and their errors."""

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import hessian, jacfwd, jacrev, jit, jvp, vjp, vmap
from minijit.trace.trees.pytree import tree_map

pytestmark = [
    pytest.mark.chapter(9),
    pytest.mark.usefixtures("in_double_precision", "no_words_of_the_test"),
]

both = pytest.mark.parametrize("jac", [jacfwd, jacrev])
x = np.array([0.5, -1.0, 2.0])
A = np.arange(12.0).reshape(4, 3)


@both
def test_of_vectors(jac):
    np.testing.assert_allclose(jac(lambda x: A @ x)(x), A)
    np.testing.assert_allclose(jac(jnp.sin)(x), np.diag(np.cos(x)))
    np.testing.assert_allclose(jit(jac(lambda x: jnp.sum(x**2)))(x), 2 * x)
    assert jac(jnp.sin)(1.0).shape == ()


@both
def test_of_matrices(jac):
    j = jac(lambda m: m @ m.T)(A)
    assert j.shape == (4, 4, 4, 3)
    t = np.random.RandomState(0).randn(4, 3)
    np.testing.assert_allclose(
        np.tensordot(j, t, 2), jvp(lambda m: m @ m.T, (A,), (t,))[1]
    )


@both
def test_of_trees(jac):
    def f(p, y):
        return {"sum": p["w"] @ y, "twice": 2 * p["b"]}

    p = {"w": A, "b": np.ones(2)}
    found = tree_map(np.shape, jac(f)(p, x))
    assert found == {
        "sum": {"w": (4, 4, 3), "b": (4, 2)},
        "twice": {"w": (2, 4, 3), "b": (2, 2)},
    }
    np.testing.assert_allclose(jac(f)(p, x)["twice"]["b"], 2 * np.eye(2))
    by_both = jac(f, argnums=(0, 1))(p, x)
    np.testing.assert_allclose(by_both["sum"][1], A)
    np.testing.assert_allclose(jac(f, argnums=1)(p, x)["sum"], A)


@both
def test_holomorphic(jac):
    z = np.array([1 + 1j, 2.0])
    np.testing.assert_allclose(
        jac(lambda z: z**2, holomorphic=True)(z), np.diag(2 * z)
    )


def test_hessian_of_trees():
    p = {"a": x, "b": 2.0}
    h = hessian(lambda p: jnp.sum(p["a"] ** 2) * p["b"])(p)
    assert tree_map(np.shape, h) == {
        "a": {"a": (3, 3), "b": (3,)}, "b": {"a": (3,), "b": ()}
    }
    np.testing.assert_allclose(h["a"]["b"], 2 * x)


def test_by_vmap_and_by_hand():
    f = lambda x: jnp.tanh(A @ x)
    rows = vmap(lambda ct: vjp(f, x)[1](ct)[0])(np.eye(4))
    columns = vmap(lambda t: jvp(f, (x,), (t,))[1], out_axes=1)(np.eye(3))
    np.testing.assert_allclose(jacrev(f)(x), rows)
    np.testing.assert_allclose(jacfwd(f)(x), columns)


@pytest.mark.parametrize("call, words", [
    (lambda: jacfwd(lambda x: x)(np.arange(3)), ["int64"]),
    (lambda: jacrev(lambda x: x)(np.arange(3)), ["int64"]),
    (lambda: jacrev(lambda x: x > 0)(x), ["real floating", "bool"]),
    (lambda: jacfwd(lambda x: x, argnums=1)(x), ["argnums=1"]),
    (lambda: jacrev(lambda x: x, holomorphic=True)(x), ["complex"]),
    (lambda: jacfwd(jnp.sin)(1j), ["holomorphic=True"]),
    (lambda: jacfwd("f"), ["callable"]),
])  # fmt: skip
def test_errors(call, words):
    refused(TypeError, words, call)
