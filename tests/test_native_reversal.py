"""Loops reversed with checkpoints in native code: the same schedule, without Python."""

import sys

import numpy as np
import pytest
from harness import profiled

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.trace.jit.jit import executors
from minijit.transform.control_flow.checkpointed_loops import extra_steps
from tests.test_native_control import agree, allocations, sources

pytestmark = pytest.mark.chapter(22)

w = np.arange(9, dtype="f4").reshape(3, 3) / 10
x = np.ones(3, "f4")


def looped(slots, steps=13):
    """A loop whose carry has an integer, a vector and a matrix, and a const."""
    mode = {"reverse": "checkpoint", "slots": slots} if slots else {}

    def body(state):
        i, c, m = state
        c = jnp.sin(w @ c) + 0.1 * i
        return i + 1, c, m * 0.9 + jnp.outer(c, jnp.roll(c, 1))

    def f(x, w=w, steps=steps):
        start = (0, x, w + 0.0 * x)
        _, c, m = lax.while_loop(lambda s: s[0] < steps, body, start, **mode)
        return jnp.sum(c) + jnp.sum(m * m)

    return f


def nested(slots):
    """Branches and loops within a step, and a number of steps that depends on data."""

    def body(state):
        c, t = state
        c = lax.cond(c[0] > 0.5, lambda c: jnp.tanh(c) * t, lambda c: c + 0.3 * t, c)
        return lax.scan(lambda c, a: (jnp.roll(c, 1) * a, None), c, x + t)[0], t * 0.7

    def f(x):
        mode = {"reverse": "checkpoint", "slots": slots}
        goes_on = lambda s: s[1] > 0.05
        loop = lambda c: lax.while_loop(goes_on, body, (c, 1.0), **mode)[0]
        return jnp.sum(lax.fori_loop(0, 2, lambda i, c: loop(c) + 0.1 * i, x))

    return f


def halves(slots):
    def f(x):
        body = lambda c: (c[0] + 1, c[1] * c[1] + x.astype("float16"))
        mode = {"reverse": "checkpoint", "slots": slots}
        start = (0, jnp.zeros(3, "float16"))
        return jnp.sum(lax.while_loop(lambda c: c[0] < 4, body, start, **mode)[1])

    return f


def taking_turns(slots):
    """A carry that becomes the other one, and numbers that are not in arrays."""

    def f(x):
        def body(s):
            i, a, b, n = s
            return i + 1, b, jnp.sin(a) + n * x, n * 0.9 + a[0]

        mode = {"reverse": "checkpoint", "slots": slots}
        start = (0, x, 0.5 * x, x[1])
        ends = lax.while_loop(lambda s: s[0] < 7, body, start, **mode)
        return sum(map(jnp.sum, ends))

    return f


cases = {
    "slots of 1": looped(1),
    "slots of 3": looped(3),
    "more slots than steps": looped(40, steps=20),
    "no step": looped(2, steps=0),
    "one step": looped(2, steps=1),
    "nested": nested(3),
    "half precision": halves(2),
    "taking turns": taking_turns(2),
}


# By numba a sample.
ways = [(name, "plain") for name in cases]
ways += [pytest.param(name, "llvm", marks=pytest.mark.chapter(23)) for name in cases]
ways += [("slots of 3", "python"), ("half precision", "python")]


@pytest.mark.parametrize("name, backend", ways)
def test_gradients_are_native_and_as_interpreted(name, backend):
    g = mj.grad(cases[name])
    assert executors["plain"](mj.make_jaxpr(g)(x), "g").fallbacks == ()
    for point in (x, 0.3 * x):
        agree(g, point, backend=backend, rtol=1e-4)


transformed = {
    "loop alone": lambda f: f,
    "jvp": lambda f: lambda x: mj.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: mj.linearize(f, x)[1](x),
    "hessian": mj.hessian,
    "grad of grad": lambda f: mj.grad(lambda x: jnp.sum(mj.grad(f)(x) ** 2)),
    "vmap": lambda f: lambda x: mj.vmap(mj.grad(f))(jnp.stack([x, 2 * x])),
    "vmap of vmap": lambda f: (
        lambda x: mj.vmap(mj.vmap(mj.grad(f)))(jnp.stack([x, 2 * x])[None])
    ),
    "in a scan": lambda f: (
        lambda x: lax.scan(lambda c, _: (c - 0.1 * mj.grad(f)(c), None), x, length=3)[0]
    ),
}


# Lanes that take different branches, and second derivatives, leave unions to Python.
with_branches = ("loop alone", "jvp", "linearize", "in a scan")


@pytest.mark.parametrize("name, f", [
    *((name, looped(2)) for name in transformed),
    *((name, nested(2)) for name in with_branches),
])  # fmt: skip
def test_whatever_is_made_of_it_is_native(name, f):
    f = transformed[name](f)
    assert executors["plain"](mj.make_jaxpr(f)(x), "f").fallbacks == ()
    agree(f, x, backend="plain", rtol=1e-3)


def test_lanes_with_trip_counts_of_their_own():
    """No tape: the carries of all lanes are held together."""
    steps = np.array([3, 0, 13, 1], "int32")
    lanes = np.stack([x, 2 * x, 0.5 * x, -x])
    f = lambda of: mj.vmap(lambda n, x: mj.grad(of)(x, steps=n))
    got = mj.jit(f(looped(2)))(steps, lanes)
    np.testing.assert_allclose(got, f(looped(None))(steps, lanes), rtol=1e-4)
    text = str(mj.make_jaxpr(f(looped(2)))(steps, lanes))
    assert "treeverse" in text and "Tape" not in text


def test_a_lane_that_is_through_runs_nothing_that_would_not_end():
    def f(x):
        # From 1 or less it never gets to 100.
        inner = lambda c: lax.while_loop(lambda s: s < 100.0, lambda s: s * s, c)
        body = lambda c: c - 1.0 + 1e-5 * inner(c)
        return lax.while_loop(lambda c: c > 1.0, body, x, reverse="checkpoint", slots=2)

    lanes = np.array([3.0, 0.9, 5.0], "f4")
    want = [mj.grad(f)(p) for p in lanes]
    for g in (mj.vmap(mj.grad(f)), mj.jit(mj.vmap(mj.grad(f)))):
        np.testing.assert_allclose(g(lanes), want, rtol=1e-4)


@pytest.mark.chapter(23)
def test_no_python_frame_a_step():
    g = mj.jit(lambda x, n: mj.grad(looped(4))(x, steps=n))
    g(x, 5)
    g(x, 5)  # the second call of a signature prints its short way

    few, many = (len(profiled(g, x, n)[1]) for n in (10, 1000))
    assert few == many


def test_no_allocation_a_step():
    g = mj.jit(lambda x, n: mj.grad(looped(4))(x, steps=n), backend="python")
    g(x, 5)
    few, many = (allocations(g, x, n) for n in (10, 1000))
    assert few == many > 0


def test_what_is_held_are_slots_and_one():
    """The tables of the generated code: of vectors, of matrices and of numbers."""
    mj.clear_caches()
    mj.jit(mj.grad(looped(5)), backend="plain")(x)
    text, = (text for text in sources() if "while s" in text)
    for shape in ("6,", "6, 3", "6, 3, 3"):
        assert f"np.empty(({shape})" in text
    assert "(13," not in text


def test_many_carries_are_held():
    many, taped = (mj.jit(mj.grad(looped(slots, 300)))(x) for slots in (100, None))
    np.testing.assert_allclose(many, taped, rtol=1e-4)


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_the_schedule_is_that_of_the_formula(slots):
    """The generated code, run as Python: how many steps just to get somewhere."""
    mj.clear_caches()
    f = mj.jit(lambda x, n: mj.grad(looped(slots))(x, steps=n), backend="plain")
    f(x, 20)
    (text,) = (text for text in sources() if "while s" in text)
    lines, ran = text.splitlines(), []
    # The loop over steps forward, and the first line in it that runs once a step.
    (first,) = (i + 1 for i, line in enumerate(lines) if "in range(s" in line)
    while lines[first].lstrip().startswith("for "):
        first += 1

    def trace(frame, event, arg):
        line = frame.f_lineno - frame.f_code.co_firstlineno
        if event == "line" and line == first:
            ran.append(line)
        return trace if frame.f_code.co_name.startswith("treeverse") else None

    sys.settrace(trace)
    try:
        f(x, 20)
    finally:
        sys.settrace(None)
    assert len(ran) == extra_steps(20, slots) > 0
