"""custom_vmap: what its rule is given, where it is asked, and its errors."""

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import custom_vjp, grad, jit, lax, make_jaxpr, vmap
from minijit.custom_batching import custom_vmap, sequential_vmap
from minijit.trace.trees.pytree import tree_map

pytestmark = [pytest.mark.chapter(12), pytest.mark.usefixtures("no_words_of_the_test")]


def marked():
    """x * y, to which its rule adds 100; and a list of what the rule was given."""
    seen = []
    f = custom_vmap(lambda x, y: {"z": x * y})

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        seen.append((axis_size, in_batched, np.shape(x), np.shape(y)))
        return {"z": x * y + 100}, {"z": True}

    return f, seen


def test_the_jaxpr():
    f, _ = marked()
    assert "custom_vmap_call" in str(make_jaxpr(f)(1.0, 2.0))


def test_sequential_vmap():
    @sequential_vmap
    def f(x, n):
        return {"y": lax.fori_loop(0, 3, lambda i, a: a * n, x)}

    x = np.arange(3.0, dtype=np.float32)
    found = vmap(f, in_axes=(0, None))(x, 2.0)
    assert found["y"].tolist() == [0, 8, 16]
    assert vmap(lambda x: f(x, x)["y"])(x).tolist() == [0, 1, 16]
    jaxpr = make_jaxpr(vmap(f, in_axes=(0, None)))(x, 2.0)
    assert "scan" in [eqn.primitive.name for eqn in jaxpr.eqns]
    assert tree_map(np.shape, f(1.0, 2.0)) == {"y": ()}


@pytest.mark.parametrize("result, words", [
    (lambda x: 5, ["bad_rule", "pair"]),
    (lambda x: ({"z": x}, True), ["bad_rule", "batching specification"]),
    (lambda x: ({"z": x}, {"z": (True,)}), ["bad_rule", "batching specification"]),
])  # fmt: skip
def test_errors_of_a_rule(result, words):
    def bad_rule(axis_size, in_batched, x):
        return result(x)

    f = custom_vmap(lambda x: {"z": x})
    f.def_vmap(bad_rule)
    refused((TypeError, ValueError), words, vmap(f), np.ones(3))


def test_a_rule_with_another_structure():
    f = custom_vmap(lambda x: {"z": x})
    f.def_vmap(lambda n, batched, x: (x, True))
    refused(ValueError, "structure", lambda: vmap(jit(f))(np.ones(3)))


@pytest.mark.chapter(16)
def test_a_derivative_rule_around_a_vmap_rule():
    @custom_vjp
    @custom_vmap
    def f(x):
        return 2 * x

    f.def_vmap(lambda n, batched, x: (3 * x, True))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (5 * ct,))
    assert vmap(f)(jnp.ones(2)).tolist() == [3, 3] and grad(f)(1.0) == 5
    assert vmap(grad(f))(jnp.ones(2)).tolist() == [5, 5]
    refused(AttributeError, "no attribute 'defrule'", lambda: f.defrule(1))
