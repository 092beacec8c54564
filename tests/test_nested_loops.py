"""Loops in loops in loops: the work of preparing them grows with how many there are.

Each level costs as much as the one before, however deep it stands: the user's function
runs once, each body is linearized, transposed, simplified and lowered so many times.
What would make it 2^n: to record a body again because its carry was weakly typed, or
to transform a body once for each body around it.
"""

from collections import Counter

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.compile.lower import walk as lower
from minijit.compile.simplify import folding as simplify
from minijit.trace.jit.jit import executors
from minijit.transform.derivatives import linearize, transpose

pytestmark = pytest.mark.chapter(22)

LEVELS = 6


@pytest.fixture
def counts(monkeypatch):
    """How often what was done since the last `clear`."""
    counts = Counter()

    def count(where, name):
        function = getattr(where, name)

        def counting(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(where, name, counting)

    count(linearize, "linearize_flat")
    count(linearize, "jvp_flat")
    count(transpose, "backward")
    # One equation simplified, and one lowered.
    count(simplify, "equation")
    count(lower, "row_of")
    return counts


def summing(inner, init):
    """A carry of its own, that starts as a constant, in each level."""

    def level(c, w):
        body = lambda s, _: (s + inner(c, w), None)
        return lax.scan(body, init, None, length=2)[0]

    return level


def handing_down(inner, init):
    """The carry of a level is the first carry of the next."""

    def level(c, w):
        body = lambda s, _: (inner(s, w), None)
        return lax.scan(body, c + init, None, length=2)[0]

    return level


def branching(inner, init):
    """A branch between each two levels, and a while in place of the scan."""

    def level(c, w):
        def body(state):
            i, s = state
            return i + 1, lax.cond(s < 9.0, lambda s: s + inner(c, w), jnp.sin, s)

        return lax.while_loop(lambda state: state[0] < 2, body, (0, init))[1]

    return level


ways = {
    "grad": mj.grad,
    "jvp": lambda f: lambda w: mj.jvp(f, (w,), (w,))[1],
    "grad-grad": lambda f: mj.grad(mj.grad(f)),
    "vmap-grad": lambda f: lambda w: mj.vmap(mj.grad(f))(jnp.stack([w, 2 * w])),
    "grad-checkpoint": mj.grad,
}


nests = [(summing, init, way) for init in (0.0, 0, np.float32(0)) for way in ways]
nests += [(handing_down, 0.0, way) for way in ways]
# Where lanes take different branches, Python runs them, and lowers them when it does.
nests += [(branching, 0.0, way) for way in ways if way != "vmap-grad"]


@pytest.mark.parametrize(("kind", "init", "way"), nests)
def test_each_level_costs_the_same(counts, kind, way, init):
    wrap = mj.checkpoint if way == "grad-checkpoint" else lambda f: f

    def nest(levels):
        def leaf(c, w):
            counts["leaf"] += 1
            return jnp.sin(c) * w

        f = leaf
        for _ in range(levels):
            f = kind(wrap(f), init)
        return lambda w: f(w, w)

    found = {}
    # The innermost two are looked at once more: they may be a block.
    for levels in (3, 4, LEVELS):
        counts.clear()
        mj.clear_caches()
        closed = mj.make_jaxpr(ways[way](nest(levels)))(np.float32(0.3))
        executors["plain"](closed, "f")
        found[levels] = Counter(counts)
    for name in found[LEVELS]:
        three, four, many = (found[n][name] for n in found)
        assert many - four == (LEVELS - 4) * (four - three), name
    assert found[LEVELS]["leaf"] == 1
    assert found[LEVELS]["row_of"] > 2 * LEVELS
    assert found[LEVELS]["equation"] > 2 * LEVELS


def test_what_a_nest_gives_is_right():
    """Ten levels of two steps each: the innermost runs 2^10 times."""

    def f(w, levels):
        g = lambda c, w: jnp.sin(c) * w
        for _ in range(levels):
            g = summing(g, 0.0)
        return g(w, w)

    w = np.float32(0.3)
    want = 1024 * (np.sin(w) + w * np.cos(w))
    compiled = mj.jit(mj.grad(lambda w: f(w, 10)), backend="plain")
    np.testing.assert_allclose(compiled(w), want, rtol=1e-5)


# ---- when types are changed in the jaxpr, and when the user's function runs again


@pytest.mark.parametrize(
    ("body", "init", "times"),
    [
        (lambda c, x: (c + x, c), 0.0, 1),
        (lambda c, x: (c + x, None), 0, 1),
        (lambda c, x: ((c[0] + x, c[1] + c[0]), c[1] * 2.0), (0.0, 0.0), 1),
        # An int that is also something else than converted: its users change, too.
        (lambda c, x: (c + x, c * 2), 0, 2),
        (lambda c, x: (c * 2 + x, None), 0, 2),
    ],
)
def test_a_body_is_recorded_again_only_if_it_would_change(body, init, times):
    """Whatever was done, the result is that of a carry that was converted before."""
    seen = []

    def counting(c, x):
        seen.append(1)
        return body(c, x)

    xs = np.linspace(0.5, 2.0, 4, dtype="float32")
    got = lax.scan(counting, init, xs)
    assert len(seen) == times
    strong = mj.tree.map(lambda x: jnp.asarray(x, "float32"), init)
    want = lax.scan(body, strong, xs)
    for x, y in zip(mj.tree.leaves(got), mj.tree.leaves(want), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
