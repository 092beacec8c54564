"""jvp and linearize as users call them: structures, Python numbers, jit, errors."""

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import jit, jvp, linearize, make_jaxpr
from minijit.trace.arguments import TraceInfo
from minijit.trace.core import current_trace
from minijit.transform.derivatives.linearize import linearize_flat

pytestmark = [
    pytest.mark.chapter(7),
    pytest.mark.usefixtures("in_double_precision", "no_words_of_the_test"),
]


# ---- structure


def test_a_zero_tangent_stays_none():
    """Nothing is computed for an argument that does not vary."""
    def f(x, y):
        return jnp.sin(x) * jnp.cos(y)

    x, y = jnp.asarray(1.0), jnp.asarray(2.0)
    both = make_jaxpr(lambda s, t: jvp(f, (x, y), (s, t))[1])(x, y)
    alone = make_jaxpr(lambda s: jvp(lambda x: f(x, y), (x,), (s,))[1])(x)
    assert len(alone.eqns) < len(both.eqns)
    power = make_jaxpr(lambda s: jvp(lambda x: x**y, (x,), (s,))[1])(x)
    assert "log" not in str(power)


def test_perturbations_are_not_confused():
    """The inner derivative, of x y by y, is x: the outer one is of x * x."""
    inner = lambda x: jvp(lambda y: x * y, (1.0,), (1.0,))[1]
    _, t = jvp(lambda x: x * inner(x), (3.0,), (1.0,))
    assert float(t) == 6.0


def test_an_integer_is_no_argument_of_the_linear_function():
    y, f_lin = linearize(lambda x, n: x * n, 2.0, 3)
    assert float(y) == 6.0 and float(f_lin(1.0, float0())) == 3.0
    info, f = TraceInfo("f", "linearize"), lambda x, n: [jnp.sin(x)]
    values = jnp.asarray(2.0), jnp.asarray(3)
    *_, recorder = linearize_flat(f, values, (True, False), current_trace(), info)
    assert len(recorder.invars) == 1


def test_linearize_runs_the_function_once():
    calls = []

    def f(x):
        calls.append(1)
        return jnp.sin(x) * x

    y, f_jvp = linearize(f, 2.0)
    assert np.isclose(y, np.sin(2.0) * 2)
    for t in (1.0, 2.0, 3.0):
        assert np.isclose(f_jvp(t), t * (np.cos(2.0) * 2 + np.sin(2.0)))
    assert len(calls) == 1


def test_linear_jaxpr_has_only_linear_operations():
    """What is not linear was done on the primal side."""
    def f(x):
        return jnp.exp(jnp.sin(x)) / jnp.sum(x * x)

    _, f_jvp = linearize(f, jnp.arange(1.0, 4.0))
    jaxpr = make_jaxpr(f_jvp)(jnp.ones(3))
    names = {eqn.primitive.name for eqn in jaxpr.eqns}
    linear = {"mul", "div", "neg", "add_any", "reduce_sum", "broadcast_in_dim"}
    assert names <= linear | {"convert_element_type", "pjit"}


def test_jit_in_and_around():
    f = jit(lambda x: jnp.sin(x) ** 2)
    x, t = 0.7, 1.0
    wanted = 2 * np.sin(x) * np.cos(x)
    assert np.isclose(jvp(f, (x,), (t,))[1], wanted)
    assert np.isclose(jit(lambda x, t: jvp(f, (x,), (t,))[1])(x, t), wanted)
    assert np.isclose(linearize(f, x)[1](t), wanted)


def test_integers_have_tangents_of_float0():
    _, (t, s) = jvp(lambda x, n: (x * n, n + 1), (2.0, 3), (1.0, float0()))
    assert t == 3.0 and s.dtype == float0().dtype


def float0(shape=()):
    return np.zeros(shape, [("float0", np.void, 0)])


def test_trees():
    def f(p):
        return {"out": p["a"] * p["b"][0]}

    p = {"a": 2.0, "b": [3.0]}
    y, t = jvp(f, (p,), ({"a": 1.0, "b": [10.0]},))
    assert float(y["out"]) == 6.0 and float(t["out"]) == 23.0


# ---- errors


@pytest.mark.parametrize("primals, tangents, words", [
    (1.0, 1.0, ["must be tuples or lists", "float"]),
    ((1.0,), (1.0, 2.0), ["same tree structure"]),
    ((1.0,), (1,), ["do not match", "f64[]", "i64[]"]),
    ((np.ones(3),), (np.ones(3, int),), ["do not match", "f64[3]", "i64[3]"]),
    ((1,), (1.0,), ["do not match", "float0"]),
])  # fmt: skip
def test_wrong_tangents(primals, tangents, words):
    refused(TypeError, words, lambda: jvp(lambda x: x * 2.0, primals, tangents))


def test_tangents_of_a_linearized_function():
    _, f_jvp = linearize(lambda x: x["a"] * 2, {"a": 1.0})
    refused(TypeError, "structure", f_jvp, 1.0)
    refused(ValueError, "different primal and tangent shapes", f_jvp, {"a": np.ones(3)})
    refused(ValueError, "do not match.*f64.*i64", f_jvp, {"a": 1})
    with pytest.raises(ValueError, match=r"f64\[3\], got f64\[2\]"):
        jvp(lambda x: x, (np.ones(3),), (np.ones(2),))
