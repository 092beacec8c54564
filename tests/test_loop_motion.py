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


def scan(body):
    return lambda w, xs, c: lax.scan(lambda c, x: (body(w, c, x), c), c, xs)


def loop(body):
    """A while of three steps."""
    step = lambda w: lambda s: (s[0] + 1, body(w, s[1]))
    return lambda w, xs, c: lax.while_loop(lambda s: s[0] < 3, step(w), (0, c))


# name: (what moves, a function of W, X and C)
CASES = {
    "cheap": ("", scan(lambda w, c, x: c * (w[0] + 1) + x)),
    "large": ("", scan(lambda w, c, x: c + jnp.outer(w[0], w[1]) @ x)),
    "no steps": ("", lambda w, xs, c: lax.scan(
        lambda c, x: (c @ (w @ w), c), c, None, length=0)),
    "total": ("dot_general", scan(lambda w, c, x: c @ (w @ w))),
    "dear": ("sin", scan(lambda w, c, x: c * jnp.sin(w[0]) + x)),
    "made of dear": ("sin mul", scan(lambda w, c, x: c + jnp.sin(w[0]) * w[1])),
    "one of two": ("sin", scan(
        lambda w, c, x: c + jnp.outer(jnp.sin(w[0]), w[1]) @ x)),
    "operand": ("sub select_n", loop(lambda w, c: (w - jnp.diag(jnp.diag(w))) @ c)),
    "while": ("sin", loop(lambda w, c: c * jnp.sin(w[0]))),
    "what may never end": ("", loop(lambda w, c: c + lax.while_loop(
        lambda x: x < 9, lambda x: x + jnp.exp(w[0, 0]), 1.0))),
    "condition": ("reduce_max", lambda w, xs, c: lax.while_loop(
        lambda c: c.max() < w.max(), lambda c: c + 1, c)),
    "lanes": ("sin", lambda w, xs, c: mj.vmap(lambda a: lax.while_loop(
        lambda s: s < a, lambda s: s + 1 + jnp.sin(a), 0.0))(c)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_stays_and_what_moves(case):
    moves, f = CASES[case]
    jaxpr = simplify(mj.make_jaxpr(f)(W, X, C)).jaxpr
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    at, = [n for n, name in enumerate(names) if name in ("scan", "while")]
    work = {"dot_general", "sin", "add", "sub", "mul", "select_n", "reduce_max"}
    assert work.intersection(names[:at]) == {*moves.split()}
    mj.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-6),
        mj.jit(f)(W, X, C), f(W, X, C),
    )  # fmt: skip


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
