"""Decompositions of small matrices within native loops: LAPACK's values, no Python."""

import itertools

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax

pytestmark = pytest.mark.chapter(20)

random = np.random.default_rng(7)


def R(*shape):
    return random.normal(size=shape).astype(np.float32)


def shifted(a):
    return a + 3 * np.eye(a.shape[-1], dtype=np.float32)


def solver(**flags):
    """`triangular_solve` with these flags, of a view of some matrices."""
    side = flags["left_side"]

    def solve(a, b):
        a, b = jnp.swapaxes(shifted(a), 1, 2)[1:], b[1:]
        b = b if side else jnp.swapaxes(b, 1, 2)
        return lax.linalg.triangular_solve(a, b, **flags)

    return solve


def solved(a, b):
    return jnp.linalg.solve(shifted(a), b)


def slopes(a, b):
    return mj.grad(lambda a, b: (solved(a, b) ** 2).sum(), (0, 1))(a, b)


a, b = R(3, 5, 5), R(3, 5, 2)
definite = a @ a.transpose(0, 2, 1) + np.eye(5, dtype=np.float32)
indefinite = definite - np.float32([0, 9, 0])[:, None, None] * np.eye(5)
sides = itertools.product((False, True), repeat=3)
names = "left_side", "lower", "transpose_a"
# name -> (function, arguments)
calls = {
    "cholesky": (lax.linalg.cholesky, definite),
    "cholesky, one indefinite": (lax.linalg.cholesky, indefinite.astype(np.float32)),
    "cholesky of numbers": (lax.linalg.cholesky, definite[:, :1, :1]),
    "lu": (lax.linalg.lu, a),
    "lu, wide": (lax.linalg.lu, R(3, 5)),
    "lu, tall": (lax.linalg.lu, R(2, 5, 3)),
    "lu of zeros": (lax.linalg.lu, np.zeros((3, 3), np.float32)),
    "unit diagonal": (solver(left_side=True, unit_diagonal=True), a, b),
    "det": (jnp.linalg.det, a),
    "solve": (solved, a, b),
    "gradient of solve": (slopes, a, b),
} | {
    f"triangular {flags}": (solver(**dict(zip(names, flags, strict=True))), a, b)
    for flags in sides
}


def in_a_loop(which):
    """A function of {name: arguments}: the results, computed in a loop of two steps."""

    def every(arguments):
        return {name: calls[name][0](*arguments[name]) for name in which}

    def looped(arguments):
        zeros = mj.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype), mj.eval_shape(every, arguments)
        )
        return lax.fori_loop(0, 2, lambda i, _: every(arguments), zeros)

    return looped


def check(which, backend):
    arguments = {name: calls[name][1:] for name in which}
    compiled = mj.jit(in_a_loop(which), backend=backend).lower(arguments).compile()
    assert compiled.fallbacks == ()
    for name, got in compiled(arguments).items():
        want = calls[name][0](*arguments[name])
        for x, y in zip(mj.tree.leaves(got), mj.tree.leaves(want), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4, err_msg=name)


def test_as_plain_python():
    check(calls, "plain")


@pytest.mark.chapter(22)
def test_compiled():
    check(["cholesky, one indefinite", "lu, tall", "solve"], None)


@pytest.mark.chapter(22)
def test_large_matrices_are_left_to_lapack():
    large = 70 * np.eye(70, dtype=np.float32)
    step = lambda x, _: (lax.linalg.cholesky(x * x), None)
    f = mj.jit(lambda x: lax.scan(step, x, length=2)[0])
    reasons = dict(f.lower(large).compile().executable.fallbacks)
    assert "left to LAPACK" in reasons["scan"]
    np.testing.assert_allclose(f(large), large)
