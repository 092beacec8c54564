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


STAY = {
    "cheap": lambda w, xs, c: lax.scan(lambda c, x: (c * jnp.sin(w[0]) + x, c), c, xs),
    "large": lambda w, xs, c: lax.scan(
        lambda c, x: (c + jnp.outer(w[0], w[1]) @ x, c), c, xs
    ),
    "no steps": lambda w, xs, c: lax.scan(
        lambda c, x: (c @ (w @ w), c), c, None, length=0
    ),
}


@pytest.mark.parametrize("case", STAY)
def test_what_stays(case):
    jaxpr = simplify(mj.make_jaxpr(STAY[case])(W, X, C)).jaxpr
    loop, = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
    before = jaxpr.eqns[: jaxpr.eqns.index(loop)]
    assert not {"dot_general", "sin"} & {eqn.primitive.name for eqn in before}


def test_gradients():
    step = lambda w: lambda c, x: (c @ jnp.tanh(w @ jnp.sin(w)) + x, c)
    f = lambda w: lax.scan(step(w), C, X)[0].sum()
    want = mj.grad(f)(W)
    np.testing.assert_allclose(mj.jit(mj.grad(f))(W), want, 1e-4, 1e-5)
