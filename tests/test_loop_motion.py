"""What is dear, and no step of a loop changes, is computed before it, once."""

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
    "cheap": lambda w, xs, c: lax.scan(lambda c, x: (c * (w[0] + 1) + x, c), c, xs),
    "large": lambda w, xs, c: lax.scan(
        lambda c, x: (c + jnp.outer(w[0], w[1]) @ x, c), c, xs
    ),
    "no steps": lambda w, xs, c: lax.scan(
        lambda c, x: (c @ (w @ w), c), c, None, length=0
    ),
}


MOVE = {
    "total": lambda w, xs, c: lax.scan(lambda c, x: (c @ (w @ w), c), c, xs),
    "dear": lambda w, xs, c: lax.scan(lambda c, x: (c * jnp.sin(w[0]) + x, c), c, xs),
}


@pytest.mark.parametrize("case", STAY | MOVE)
def test_what_stays_and_what_moves(case):
    jaxpr = simplify(mj.make_jaxpr((STAY | MOVE)[case])(W, X, C)).jaxpr
    loop, = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]
    before = {eqn.primitive.name for eqn in jaxpr.eqns[: jaxpr.eqns.index(loop)]}
    assert bool({"dot_general", "sin", "add"} & before) == (case in MOVE)


@pytest.mark.parametrize("count", [2, 3])
def test_only_of_two_short_branches_is_one_chosen_without_a_jump(count):
    branches = [lambda c: 0.0 * jnp.ones(5), *[lambda c: c + 1.0] * (count - 1)]
    step = lambda c, i: (lax.switch(i, branches, c), None)
    f = lambda c: lax.scan(step, c, np.arange(4) % count)[0]
    assert ("cond" in str(simplify(mj.make_jaxpr(f)(C)))) == (count > 2)
    np.testing.assert_array_equal(mj.jit(f)(C), f(C))


def test_gradients():
    step = lambda w: lambda c, x: (c @ jnp.tanh(w @ jnp.sin(w)) + x, c)
    f = lambda w: lax.scan(step(w), C, X)[0].sum()
    want = mj.grad(f)(W)
    np.testing.assert_allclose(mj.jit(mj.grad(f))(W), want, 1e-4, 1e-5)
