"""vmap as users call it: axes, trees, with other transformations, errors."""

import numpy as np
import pytest
from harness import refused

import minijit
import minijit.numpy as jnp
from minijit import grad, jit, jvp, vmap
from minijit.trace.trees.pytree import tree_map

pytestmark = [
    pytest.mark.chapter(9),
    pytest.mark.usefixtures("in_double_precision", "no_words_of_the_test"),
]


# ---- where the lanes are


def test_keyword_arguments_are_mapped_along_axis_0():
    found = vmap(lambda x, y: x + y)(np.arange(3.0), y=np.arange(3.0))
    assert found.tolist() == [0, 2, 4]


# ---- against other transformations


def test_gradients_of_lanes():
    f = lambda x: jnp.sum(jnp.sin(x) ** 2)
    x = np.arange(6.0).reshape(3, 2)
    wanted = np.sin(2 * x)
    np.testing.assert_allclose(vmap(grad(f))(x), wanted)
    np.testing.assert_allclose(grad(lambda x: jnp.sum(vmap(f)(x)))(x), wanted)
    np.testing.assert_allclose(vmap(jit(grad(f)))(x), wanted)
    y, t = jvp(vmap(f), (x,), (np.ones_like(x),))
    np.testing.assert_allclose(t, wanted.sum(1))


# ---- errors


@pytest.mark.parametrize("call, kind, words", [
    (lambda: vmap(lambda p: p["a"])({"a": np.ones(3), "b": np.ones(2)}),
     ValueError, ["p['a']", "p['b']"]),
    (lambda: vmap(lambda x: x, in_axes=1)(np.ones(3)), ValueError,
     ["axis 1", "rank", "(3,)"]),
    (lambda: vmap(lambda x: x, in_axes=(0, 0))(np.ones(3)), ValueError,
     ["2 entries", "1 positional"]),
    (lambda: vmap(lambda x: x, in_axes="0"), TypeError, ["in_axes"]),
    (lambda: vmap(lambda x: x, in_axes=1.0), TypeError, ["in_axes"]),
    (lambda: vmap(lambda x: 1 if x > 0 else 2)(np.ones(3)),
     minijit.errors.TracerBoolConversionError, ["different value in each lane"]),
])  # fmt: skip
def test_errors(call, kind, words):
    refused(kind, words, call)


def test_a_list_of_axes_is_a_tuple():
    scaled = vmap(lambda x, y: x * y, in_axes=[0, None])
    assert scaled(np.ones(2), 3.0).tolist() == [3, 3]


def test_results_may_be_trees():
    found = vmap(lambda x: {"a": x, "b": [x.sum(), 1]})(np.ones((3, 2)))
    assert tree_map(lambda y: y.shape, found) == {"a": (3, 2), "b": [(3,), (3,)]}
