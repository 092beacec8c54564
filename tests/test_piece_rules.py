"""Slices and updates of concatenations and padded arrays: other concatenations."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.simplify.folding import simplify

pytestmark = pytest.mark.chapter(16)
rng = np.random.default_rng(0)
A, B, C = (rng.normal(size=(3, 4)).astype("f4") for _ in range(3))


def loss(x):
    first, second, third = jnp.split(x, 3, 1)
    return (jnp.sin(first) * second + third * third).sum()


def concatenated(*parts):
    return jnp.concatenate(parts, 1)


def updated(x, part, *at):
    return lax.dynamic_update_slice(x, part, at)


# name: (function of A, B and C, the primitives that are left).
CASES = {
    "a part": (lambda a, b, c: concatenated(a, b)[:, 4:], "concatenate slice"),
    "padding": (lambda a, b, c: jnp.pad(a, ((0, 0), (4, 4)))[:, 1:3] + b[:, :2],
                "add broadcast_in_dim slice"),
    "two parts": (lambda a, b, c: concatenated(a, b, c)[:, 4:], "concatenate slice"),
    "half a part": (lambda a, b, c: concatenated(a, b)[:, 2:4], "concatenate slice"),
    "along another axis": (lambda a, b, c: concatenated(a, b)[1:], "concatenate slice"),
    "an update": (lambda a, b, c: updated(concatenated(a, b), c, 0, 4), "concatenate"),
    "of two parts": (lambda a, b, c: updated(concatenated(a, b, a), concatenated(b, c),
                                             0, 4), "concatenate"),
    "clamped": (lambda a, b, c: updated(concatenated(a, b), c, -7, 9), "concatenate"),
    "into zeros": (lambda a, b, c: updated(jnp.pad(a, ((0, 0), (6, 0))), b, 0, 1),
                   "broadcast_in_dim concatenate"),
    "that cuts a part": (lambda a, b, c: updated(concatenated(a, b), c, 0, 2),
                         "concatenate dynamic_update_slice"),
    "of a corner": (lambda a, b, c: updated(concatenated(a, b), c[:1], 0, 4),
                    "concatenate dynamic_update_slice slice"),
}  # fmt: skip


def primitives(f, *args):
    eqns = simplify(mj.make_jaxpr(f)(*args)).jaxpr.eqns
    return sorted({eqn.primitive.name for eqn in eqns})


@pytest.mark.parametrize("case", CASES)
def test_pieces(case):
    f, left = CASES[case]
    assert primitives(f, A, B, C) == left.split()
    np.testing.assert_array_equal(mj.jit(f)(A, B, C), f(A, B, C))


def test_the_gradient_of_split_is_one_concatenation():
    x = concatenated(A, B, C)
    left = primitives(mj.grad(loss), x)
    assert "concatenate" in left and not {"pad", "dynamic_update_slice"} & {*left}
    want = concatenated(jnp.cos(A) * B, jnp.sin(A), 2 * C)
    np.testing.assert_allclose(mj.jit(mj.grad(loss))(x), want, 1e-6, 1e-6)
