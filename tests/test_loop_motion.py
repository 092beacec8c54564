"""Totals that no step of a loop changes are computed before it, once."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.simplify.folding import simplify

pytestmark = pytest.mark.chapter(21)
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape).astype("f4") / 3


W, X, C = floats(5, 5), floats(4, 5), floats(5)


def scan(body, c, *args, **params):
    return lax.scan(body, c, *args, **params)


CASES = {
    "product": lambda w, xs, c: scan(lambda c, x: (c @ (w @ w) + x, c), c, xs),
    "sum": lambda w, xs, c: scan(lambda c, x: (c * w.sum(0) + x, c), c, xs),
    "made of others": lambda w, xs, c: scan(lambda c, x: (
        c @ jnp.tanh(w @ jnp.sin(w)) + x, c), c, xs),
    "of a constant": lambda w, xs, c: scan(lambda c, x: (c @ (w @ W) + x, c), c, xs),
    "a result too": lambda w, xs, c: scan(lambda c, x: (c + x, w @ w), c, xs),
    "reversed": lambda w, xs, c: scan(lambda c, x: (
        c @ (w @ w) + x, c), c, xs, reverse=True),
    "within": lambda w, xs, c: scan(lambda c, x: (
        lax.fori_loop(0, 3, lambda i, c: c @ (w @ w), c) + x, c), c, xs),
    "in a function": lambda w, xs, c: scan(lambda c, x: (
        mj.jit(lambda c: c @ (w @ w))(c) + x, c), c, xs),
}  # fmt: skip


STAY = {
    "cheap": lambda w, xs, c: scan(lambda c, x: (c * jnp.sin(w[0]) + x, c), c, xs),
    "large": lambda w, xs, c: scan(
        lambda c, x: (c + jnp.outer(w[0], w[1]) @ x, c), c, xs
    ),
    "no steps": lambda w, xs, c: scan(lambda c, x: (c @ (w @ w), c), c, None, length=0),
}


@pytest.mark.parametrize("case", STAY)
def test_what_stays(case):
    jaxpr = simplify(mj.make_jaxpr(STAY[case])(W, X, C)).jaxpr
    loop, = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
    before = jaxpr.eqns[: jaxpr.eqns.index(loop)]
    assert not {"dot_general", "sin"} & {eqn.primitive.name for eqn in before}


def test_gradients():
    f = lambda w: CASES["made of others"](w, X, C)[0].sum()
    want = mj.grad(f)(W)
    np.testing.assert_allclose(mj.jit(mj.grad(f))(W), want, 1e-4, 1e-5)
