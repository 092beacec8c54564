"""Random loops, differentiated: as the same program unrolled by Python.

Hypothesis draws the body of a loop, statement by statement: arithmetic, branches and
loops in it, integers that are carried and indexed with, values captured from outside.
How often it runs depends on the data.  Its gradient is that of the same statements
run by Python's own `if` and `while`, which shares no rule of control flow with it.

A step takes the square root, the logarithm and the inverse of a number that is positive
as long as the loop runs, and soon not any more: a lane that waits for others and
computed with it would bring NaN into their gradients.
"""

import os
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from harness import alike
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.ad_checkpoint import saved_residuals
from minijit.trace.array import ShapedArray
from minijit.trace.jit.jit import executors
from minijit.transform.control_flow.unions_and_tapes import TapeValue
from minijit.transform.remat.residual_report import bytes_held
from tests.test_control_flow import Unrolled

pytestmark = pytest.mark.chapter(22)

# `LOOPS=1000` runs so many of each.
MANY = int(os.environ.get("LOOPS", "0"))


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with mj.enable_x64(True):
        yield
    mj.clear_caches()


# ---- what a program consists of
#
# A state is {"x": f64[3], "s": f64[], "t": f64[], "n": i32[]}.  t is positive while the
# outer loop runs.  A step is a function (L, outside, state) -> state, where `L` has the
# control flow, and `outside` what the body captures: {"w": f64[3], "m": f64[3,3]}.

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


@dataclass(frozen=True)
class Step:
    """A statement: what kind it is, and its parts."""

    kind: str
    parts: tuple

    def __call__(self, L, outside, state):
        return kinds[self.kind](L, outside, state, *self.parts)


def run_all(steps, L, outside, state):
    for step in steps:
        state = step(L, outside, state)
    return state


def set_vector(L, o, s, name):
    return s | {"x": jnp.tanh(vectors[name](o, s))}


def set_scalar(L, o, s, name):
    return s | {"s": jnp.sin(scalars[name](o, s))}


def set_integer(L, o, s, name):
    return s | {"n": integers[name](o, s)}


def branch(L, o, s, test, first, second):
    """A branch whose operands are the state, and what is outside a closure."""
    return L.cond(
        tests[test](o, s),
        lambda s: run_all(first, L, o, s),
        lambda s: run_all(second, L, o, s),
        s,
    )


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
    def body(i, s):
        return run_all(steps, L, o, s | {"n": s["n"] + jnp.asarray(i, "int32")})

    return L.fori_loop(0, 2, body, s)


def inner_scan(L, o, s, reverse, steps):
    def body(s, row):
        s = run_all(steps, L, o | {"w": row}, s)
        return s, s["x"] * row

    s, ys = L.scan(body, s, o["m"], reverse=reverse)
    return s | {"x": jnp.tanh(jnp.sum(ys, 0))}


kinds = {
    "vector": set_vector, "scalar": set_scalar, "integer": set_integer,
    "cond": branch, "closures": branch_on_closures, "switch": choice,
    "while": inner_while, "fori": inner_fori, "scan": inner_scan,
}  # fmt: skip


@st.composite
def statements(draw, depth):
    """A list of statements, nested at most so deep."""
    return tuple(
        draw(statement(depth)) for _ in range(draw(st.integers(1, 3 if depth else 2)))
    )


@st.composite
def statement(draw, depth):
    simple = {"vector": vectors, "scalar": scalars, "integer": integers}
    kind = draw(st.sampled_from([*simple, *simple] + [*kinds][3:] * (depth > 0)))
    if kind in simple:
        return Step(kind, (draw(st.sampled_from(sorted(simple[kind]))),))
    count = {"cond": 2, "closures": 2, "switch": 3}.get(kind, 1)
    parts = tuple(draw(statements(depth - 1)) for _ in range(count))
    if kind in ("cond", "closures"):
        parts = (draw(st.sampled_from(sorted(tests))), *parts)
    if kind == "scan":
        parts = (draw(st.booleans()), *parts)
    return Step(kind, parts)


# ---- the loop, and what is done to it


def loop(steps, L, p, **mode):
    """Until t is used up, at a rate that depends on the data."""
    outside = {"w": p["w"], "m": jnp.outer(p["w"], jnp.cos(p["w"])) * 0.5}

    def body(state):
        state = run_all(steps, L, outside, state)
        return state | {"t": state["t"] - 0.3 - 0.2 * jnp.tanh(state["s"] ** 2)}

    state = {"x": p["x"], "s": p["x"][1], "t": p["t"], "n": jnp.zeros((), "int32")}
    end = L.while_loop(lambda state: state["t"] > 0.3, body, state, **mode)
    return jnp.dot(end["x"], np.array([1.0, 2.0, -0.5])) + end["s"] * p["t"] + end["t"]


class UnrolledToo(Unrolled):
    """Python's control flow, which takes a `reverse` and needs none."""

    @staticmethod
    def while_loop(goes_on, body, val, **mode):
        return Unrolled.while_loop(goes_on, body, val)


def alone(steps, L, p, **mode):
    return loop(steps, L, p, **mode)


def in_a_scan(steps, L, p, **mode):
    """The loop runs once for each row of xs, and what it finds is carried."""

    def body(x, row):
        y = loop(steps, L, p | {"x": x + row[0] * 0.3, "t": p["t"] * row[1]}, **mode)
        return jnp.tanh(x + y * p["w"]), y

    xs = np.array([[0.2, 1.0], [-0.5, 0.2], [0.1, 0.7]])
    x, ys = L.scan(body, p["x"], xs)
    return jnp.sum(x * ys)


def of(program, L):
    steps, nest, mode = program
    mode = mode if L is lax else {}
    return lambda p: nest(steps, L, p, **mode)


# t decides on the number of steps: none, one, two to four, six to ten.
points = [
    {"x": np.array([0.4, -0.3, 0.8]), "w": np.array([0.9, -0.5, 0.4]), "t": 0.2},
    {"x": np.array([-0.6, 0.5, 0.2]), "w": np.array([0.3, 0.8, -0.7]), "t": 0.55},
    {"x": np.array([0.1, 0.9, -0.4]), "w": np.array([-0.8, 0.6, 0.5]), "t": 1.4},
    {"x": np.array([0.7, 0.2, -0.9]), "w": np.array([0.5, -0.9, 0.6]), "t": 3.2},
]
lanes = mj.tree.map(lambda *xs: np.stack(xs), *points)


def reference(program):
    """The gradient at each point, with the loops in Python."""
    grad = mj.grad(of(program, UnrolledToo))
    return [grad(p) for p in points]


def summed(f):
    return lambda lanes: jnp.sum(mj.vmap(f)(lanes))


# A transformed function, as one of all lanes or of one point.
each = {
    "grad": mj.grad,
    "jit-grad": lambda f: mj.jit(mj.grad(f)),
    "grad-jit": lambda f: mj.grad(mj.jit(f)),
    "grad-checkpoint": lambda f: mj.grad(mj.checkpoint(f)),
    "checkpoint-grad": lambda f: mj.checkpoint(mj.grad(f)),
    "vjp-linear": lambda f: lambda p: mj.linear_transpose(
        mj.linearize(f, p)[1], p
    )(1.0)[0],
}  # fmt: skip
together = {
    "vmap-grad": lambda f: mj.vmap(mj.grad(f)),
    "grad-vmap": lambda f: mj.grad(summed(f)),
    "jit-vmap-grad": lambda f: mj.jit(mj.vmap(mj.grad(f))),
    "grad-vmap-checkpoint": lambda f: mj.grad(summed(mj.checkpoint(f))),
    "grad-checkpoint-vmap": lambda f: mj.grad(mj.checkpoint(summed(f))),
}
programs = st.tuples(
    statements(2),
    st.sampled_from([alone, in_a_scan]),
    st.sampled_from([{}, {}, {"reverse": "checkpoint", "slots": 2}]),
)


def quick(examples):
    return settings(
        max_examples=MANY or examples,
        deadline=None,
        derandomize=not MANY,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


close = partial(alike, rtol=1e-8, atol=1e-10)


def compare(program, name, backend):
    """One way to a gradient, at all points, against Python's."""
    before, want = executors["default"], reference(program)
    executors["default"] = executors[backend]
    try:
        if name in each:
            f = each[name](of(program, lax))
            for p, y in zip(points, want, strict=True):
                close(f(p), y)
        else:
            f = together[name](of(program, lax))
            close(f(lanes), mj.tree.map(lambda *ys: jnp.stack(ys), *want))
    finally:
        executors["default"] = before
        mj.clear_caches()


@quick(14)
@given(programs, st.sampled_from([*each, *together]))
def test_gradient_is_that_of_the_unrolled_program(program, name):
    compare(program, name, "eval")


jitted_ways = [name for name in (*each, *together) if "jit" in name]


@quick(10)
@given(programs, st.sampled_from(jitted_ways))
def test_gradient_of_the_native_loop_is_too(program, name):
    """The source that is compiled, run as the Python that it is."""
    compare(program, name, "plain")


# ---- what is kept


class Counting(UnrolledToo):
    """Counts the steps of the outermost loop."""

    def __init__(self):
        self.steps = self.depth = 0

    def while_loop(self, goes_on, body, val, **mode):
        self.depth += 1
        while bool(goes_on(val)):
            self.steps += self.depth == 1
            val = body(val)
        self.depth -= 1
        return val


@pytest.mark.parametrize("backend", ["eval", "plain"])
@quick(6)
@given(steps=statements(2))
def test_tapes_hold_their_steps_times_what_a_step_keeps(backend, steps):
    f = of((steps, alone, {}), lax)
    report = saved_residuals(f, points[-1])
    before = executors["default"]
    executors["default"] = executors[backend]
    try:
        for p in points:
            counting = Counting()
            loop(steps, counting, mj.tree.map(jnp.asarray, p))
            leaves = mj.tree.leaves(mj.vjp(mj.jit(f), p)[1])
            tapes = [x for x in leaves if isinstance(x, TapeValue)]
            assert {len(t) for t in tapes} <= {counting.steps}
            assert sum(sum(bytes_held(t.aval)) for t in tapes) == report.nbytes_per_step
            for tape in tapes:
                # What a branch or an inner loop keeps is for their tests to count.
                known = isinstance(tape.aval.element, ShapedArray)
                most = len(tape) * sum(bytes_held(tape.aval))
                assert tape.nbytes == most or not known
            arrays = [x for x in leaves if not isinstance(x, TapeValue)]
            assert sum(np.asarray(x).nbytes for x in arrays) <= report.nbytes
    finally:
        executors["default"] = before
        mj.clear_caches()
