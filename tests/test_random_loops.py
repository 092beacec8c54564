"""Random loops, differentiated: as the same program unrolled by Python.

The body of a loop is drawn statement by statement: arithmetic, branches and loops in
it, integers that are carried and indexed with, values captured from outside.  How often
it runs depends on the data.  What is asked of a program of `test_control_flow` is asked
of it, under a stack of transformations that is drawn as well.

Each step takes the square root of a number that is positive as long as the loop runs,
and not any more when it is over: a lane that waits for others and computed with it
would bring NaN into their gradients.
"""

import os
import random
from typing import NamedTuple

import numpy as np
import pytest
import test_control_flow as control_flow

import minijit as mj
import minijit.numpy as jnp
from minijit.trace.jit.jit import executors

pytestmark = [pytest.mark.chapter(22), pytest.mark.usefixtures("interpreted_doubles")]

# ---- what a program consists of
#
# A state is {"x": f64[3], "s": f64[], "t": f64[], "n": i32[]}.  t is positive while the
# outer loop runs.  A statement is a function (L, outside, state) -> state, where `L`
# has the control flow, and `outside` what the body captures: {"w": f64[3], "m":
# f64[3,3]}.

vectors = {
    "x": lambda o, s: s["x"],
    "w": lambda o, s: o["w"],
    "const": lambda o, s: jnp.array([0.3, -0.7, 1.1]),
    "times": lambda o, s: s["x"] * o["w"] * s["s"],
    "sin": lambda o, s: jnp.sin(s["x"] + o["w"]),
    "tanh": lambda o, s: jnp.tanh(s["x"] * s["t"]),
    "matrix": lambda o, s: o["m"] @ s["x"],
    "roll": lambda o, s: jnp.roll(s["x"], 1) * o["w"],
    "where": lambda o, s: jnp.where(s["x"] > 0.1, s["x"], o["w"] * s["x"]),
    "set": lambda o, s: s["x"].at[s["n"] % 3].set(s["s"]),
    "add": lambda o, s: s["x"].at[s["n"] % 3].add(s["t"]),
    "kept": lambda o, s: jnp.cumsum(o["m"], 0)[1] * s["x"],
    "jitted": lambda o, s: jitted(s["x"], o["w"]),
    "own_rule": lambda o, s: own_rule(s["x"] * o["w"]),
}
scalars = {
    "s": lambda o, s: s["s"] * 0.9,
    "sum": lambda o, s: jnp.sum(s["x"] * o["w"]),
    "dot": lambda o, s: jnp.dot(s["x"], o["w"]),
    "root": lambda o, s: jnp.sqrt(s["t"]) * s["s"],
    "log": lambda o, s: jnp.log(s["t"]) + s["s"],
    "inverse": lambda o, s: s["s"] / s["t"],
    "index": lambda o, s: s["x"][s["n"] % 3] * s["s"],
    "number": lambda o, s: s["n"].astype("float64") * 0.1 * s["s"],
    "max": lambda o, s: jnp.max(s["x"] * o["w"]),
    "norm": lambda o, s: jnp.sum(s["x"] ** 2) + s["s"],
}
integers = {
    "next": lambda o, s: s["n"] + 1,
    "mixed": lambda o, s: (s["n"] * 3 + 1) % 7,
    "data": lambda o, s: s["n"] + (s["s"] > 0.2),
    "largest": lambda o, s: jnp.argmax(s["x"]).astype("int32"),
}
tests = {
    "scalar": lambda o, s: s["s"] > 0.13,
    "vector": lambda o, s: jnp.sum(s["x"]) < 0.17,
    "integer": lambda o, s: s["n"] % 2 == 0,
    "outside": lambda o, s: s["x"][0] < o["w"][1],
}


@mj.jit
def jitted(x, w):
    return jnp.sin(x) * w


@mj.custom_jvp
def own_rule(x):
    return x / (1.0 + x * x)


@own_rule.defjvp
def own_rule_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return own_rule(x), t * (1.0 - x * x) / (1.0 + x * x) ** 2


class Step(NamedTuple):
    """A statement: what kind it is, and its parts."""

    kind: str
    parts: tuple

    def __call__(self, L, outside, state):
        return kinds[self.kind](L, outside, state, *self.parts)


def run_all(steps, L, outside, state):
    for step in steps:
        state = step(L, outside, state)
    return state


def branch(L, o, s, test, first, second):
    """A branch whose operands are the state, and what is outside a closure."""
    return L.cond(tests[test](o, s), lambda s: run_all(first, L, o, s),
                  lambda s: run_all(second, L, o, s), s)  # fmt: skip


def branch_on_closures(L, o, s, test, first, second):
    """A branch without operands, of which one part only comes out."""
    x, r = L.cond(
        tests[test](o, s),
        lambda: (run_all(first, L, o, s)["x"], s["s"]),
        lambda: (o["w"] * s["s"], run_all(second, L, o, s)["s"]),
    )
    return s | {"x": x, "s": r}


def choice(L, o, s, *branches):
    functions = [lambda s, steps=steps: run_all(steps, L, o, s) for steps in branches]
    return L.switch(s["n"] % len(branches), functions, s)


def inner_while(L, o, s, steps):
    """As often as a number says that is one of the data."""
    goes_on = lambda c: c[0] < c[1]["n"] % 4
    body = lambda c: (c[0] + 1, run_all(steps, L, o, c[1]) | {"n": c[1]["n"]})
    return L.while_loop(goes_on, body, (jnp.zeros((), "int32"), s))[1]


def inner_fori(L, o, s, steps):
    counted = lambda i, s: s | {"n": s["n"] + jnp.asarray(i, "int32")}
    return L.fori_loop(0, 2, lambda i, s: run_all(steps, L, o, counted(i, s)), s)


def inner_scan(L, o, s, reverse, steps):
    def body(s, row):
        s = run_all(steps, L, o | {"w": row}, s)
        return s, s["x"] * row

    s, ys = L.scan(body, s, o["m"], reverse=reverse)
    return s | {"x": jnp.tanh(jnp.sum(ys, 0))}


kinds = {
    "vector": lambda L, o, s, name: s | {"x": jnp.tanh(vectors[name](o, s))},
    "scalar": lambda L, o, s, name: s | {"s": jnp.sin(scalars[name](o, s))},
    "integer": lambda L, o, s, name: s | {"n": integers[name](o, s)},
    "cond": branch, "closures": branch_on_closures, "switch": choice,
    "while": inner_while, "fori": inner_fori, "scan": inner_scan,
}  # fmt: skip


def statements(draw, depth):
    """Some statements, nested at most so deep."""
    count = draw.randint(1, 3 if depth else 2)
    return tuple(statement(draw, depth) for _ in range(count))


def statement(draw, depth):
    simple = {"vector": vectors, "scalar": scalars, "integer": integers}
    kind = draw.choice([*simple, *simple] + [*kinds][3:] * (depth > 0))
    if kind in simple:
        return Step(kind, (draw.choice([*simple[kind]]),))
    count = {"cond": 2, "closures": 2, "switch": 3}.get(kind, 1)
    first = {"scan": [True, False]} | dict.fromkeys(("cond", "closures"), [*tests])
    chosen = [draw.choice(first[kind])] if kind in first else []
    return Step(kind, (*chosen, *(statements(draw, depth - 1) for _ in range(count))))


# ---- the loop


class Program(NamedTuple):
    """A loop of drawn statements, alone or in a scan; `time` is how long it goes on."""

    steps: tuple
    time: float
    in_a_scan: bool
    mode: tuple

    def __call__(self, L, x):
        x = jnp.asarray(x)
        w, time = jnp.cos(3.0 * x), self.time * (1.0 + x[1])
        if not self.in_a_scan:
            return self.loop(L, x, w, time) * x

        def body(x, row):
            """The loop runs for each row, and what it finds is carried."""
            y = self.loop(L, x + row[0] * 0.3, w, time * row[1])
            return jnp.tanh(x + y * w), y

        xs = np.array([[0.2, 1.0], [-0.5, 0.2], [0.1, 0.7]])
        x, ys = L.scan(body, x, xs)
        return x * ys

    def loop(self, L, x, w, time):
        """Until t is used up, at a rate that depends on the data."""
        outside = {"w": w, "m": jnp.outer(w, jnp.cos(w)) * 0.5}

        def body(state):
            state = run_all(self.steps, L, outside, state)
            slower = 0.1 * jnp.sqrt(state["t"]) * jnp.tanh(state["s"] ** 2)
            return state | {"t": state["t"] - 0.4 + slower}

        state = {"x": x, "s": x[1], "t": time, "n": jnp.zeros((), "int32")}
        goes_on = lambda state: state["t"] > 0.1
        end = L.while_loop(goes_on, body, state, **dict(self.mode))
        weights = np.array([1.0, 2.0, -0.5])
        return jnp.dot(end["x"], weights) + end["s"] * time + end["t"]


def drawn(seed):
    draw = random.Random(seed)
    mode = draw.choice([{}, {}, {"reverse": "checkpoint", "slots": 2}])
    # In the two lanes: no step or one; two or three; seven or fifteen.
    time = draw.choice([0.1, 0.65, 3.15])
    return Program(statements(draw, 2), time, seed % 2 == 0, tuple(mode.items()))


# `LOOPS=1000` runs so many.
MANY = int(os.environ.get("LOOPS", "14"))


@pytest.mark.parametrize("seed", range(MANY))
def test_what_lanes_share_has_a_gradient_from_each(seed):
    program, points = drawn(seed), list(map(jnp.asarray, control_flow.points))
    f = lambda L, x, w: program.loop(L, x, w, program.time * (1.0 + x[1]))
    lanes = lambda w: mj.vmap(lambda x: f(mj.lax, x, w))(jnp.stack(points))
    found = mj.grad(lambda w: jnp.sum(lanes(w)))(points[0])
    unrolled = lambda w: sum(f(control_flow.Unrolled, x, w) for x in points)
    np.testing.assert_allclose(found, mj.grad(unrolled)(points[0]), 1e-9, 1e-12)


jitting = [name for name in control_flow.stacks if "jit" in name]


@pytest.mark.parametrize("seed", range(MANY))
def test_as_unrolled(seed):
    stacks = [*control_flow.stacks]
    control_flow.test_as_unrolled(drawn(seed), stacks[seed % len(stacks)])


@pytest.mark.parametrize("seed", range(MANY))
def test_native_loops_are_as_unrolled(seed, monkeypatch):
    """The source that is compiled, run as the Python that it is."""
    monkeypatch.setitem(executors, "default", executors["plain"])
    control_flow.test_as_unrolled(drawn(seed), jitting[seed % len(jitting)])
    mj.clear_caches()
