"""Forward mode: each rule against differences, linearize against jvp, and errors."""

import numpy as np
import pytest
from derivative_cases import cases, modules, ours

import minijit.numpy as jnp
from minijit import enable_x64, jit, jvp, linearize, make_jaxpr
from minijit.trace import elementwise as ew, indexing, primitives
from minijit.trace.core import Primitive
from minijit.trace.pytree import tree_leaves
from minijit.transform.linearize import constant_rule, linearize_rules

pytestmark = pytest.mark.chapter("6s")

EPS = 1e-5


@pytest.fixture(autouse=True)
def in_double_precision():
    with enable_x64(True):
        yield


def direction(x, seed=0):
    """A random tangent of x."""
    random = np.random.default_rng(seed)
    t = random.standard_normal(x.shape)
    if x.dtype.kind == "c":
        t = t + 1j * random.standard_normal(x.shape)
    return np.asarray(t, x.dtype)


def directions(args, seed=0):
    return [direction(x, seed + i) for i, x in enumerate(args)]


def difference(f, args, tangents):
    """The derivative in a direction from two values, leaf by leaf."""
    high, low = (
        [
            np.asarray(y)
            for y in tree_leaves(
                f(*[x + s * EPS * t for x, t in zip(args, tangents, strict=True)])
            )
        ]
        for s in (1, -1)
    )
    with np.errstate(invalid="ignore"):
        return [
            np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, a - b) / (2 * EPS)
            for a, b in zip(high, low, strict=True)
        ]


def assert_tangents(found, wanted, message):
    """Equal up to the error of a difference; integers have none."""
    for t, d in zip(tree_leaves(found), wanted, strict=True):
        if t.dtype.kind in "fc":
            np.testing.assert_allclose(t, d, rtol=1e-6, atol=1e-6, err_msg=message)


@pytest.mark.parametrize("case", cases, ids=repr)
def test_jvp_against_differences(case):
    f, args = case.function(ours), case.varying()
    tangents = directions(args)
    value, tangent = jvp(f, args, tangents)
    assert_tangents(tangent, difference(f, args, tangents), case.name)
    for y, wanted in zip(tree_leaves(value), tree_leaves(f(*args)), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-12)
        assert y.aval == wanted.aval


@pytest.mark.parametrize("case", [c for c in cases if c.order > 1], ids=repr)
def test_second_order_against_differences(case):
    f, args = case.function(ours), case.varying()
    tangents = directions(args)

    def derivative(*args):
        found = tree_leaves(jvp(f, args, tangents)[1])
        return [t for t in found if t.dtype.kind in "fc"]

    others = directions(args, seed=7)
    _, second = jvp(derivative, args, others)
    assert_tangents(second, difference(derivative, args, others), case.name)


@pytest.mark.parametrize("case", cases, ids=repr)
def test_linearize_is_jvp(case):
    f, args = case.function(ours), case.varying()
    tangents = directions(args)
    value, tangent = jvp(f, args, tangents)
    value_too, f_jvp = linearize(f, *args)
    for seed in (0, 0):
        again = f_jvp(*directions(args, seed))
        for a, b in zip(tree_leaves(again), tree_leaves(tangent), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            if a.dtype.kind in "fc":
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", cases[::3], ids=repr)
def test_one_argument_at_a_time(case):
    """A tangent of None gives what a tangent of zeros gives."""
    f, args = case.function(ours), case.varying()
    if len(args) < 2:
        return
    for i in range(len(args)):
        alone = lambda x, i=i: f(*args[:i], x, *args[i + 1 :])
        t = direction(args[i])
        _, found = jvp(alone, (args[i],), (t,))
        zero = [np.zeros_like(x) for x in args]
        _, wanted = jvp(f, args, [*zero[:i], t, *zero[i + 1 :]])
        for a, b in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
            if a.dtype.kind in "fc":
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_every_rule_that_is_not_constant_is_tried():
    """Each primitive with a derivative stands in the jaxpr of some case."""
    met = set()
    for case in cases:
        jaxpr = make_jaxpr(case.function(ours))(*case.varying())
        met |= {eqn.primitive for eqn in jaxpr.eqns}
    flat = {p for p, rule in linearize_rules.items()
            if getattr(rule, "func", None) is constant_rule}
    own = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Primitive)
    }
    missing = own - flat - met - {ew.nextafter_p, primitives.copy_p}
    assert not missing
    assert len(met) > 75


# ---- structure


def test_a_zero_tangent_stays_none():
    """Nothing is computed for an argument that does not vary."""
    def f(x, y):
        return jnp.sin(x) * jnp.cos(y)

    x, y = jnp.asarray(1.0), jnp.asarray(2.0)
    both = make_jaxpr(lambda s, t: jvp(f, (x, y), (s, t))[1])(x, y)
    alone = make_jaxpr(lambda s: jvp(lambda x: f(x, y), (x,), (s,))[1])(x)
    assert len(alone.eqns) < len(both.eqns)


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


def test_python_sees_values_outside_of_jit():
    def f(x):
        return x * 2 if x > 0 else x * 3

    assert jvp(f, (1.0,), (1.0,))[1] == 2 and jvp(f, (-1.0,), (1.0,))[1] == 3


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


def test_has_aux():
    y, t, aux = jvp(lambda x: (x * x, {"x": x}), (3.0,), (1.0,), has_aux=True)
    assert (float(y), float(t), float(aux["x"])) == (9.0, 6.0, 3.0)


def test_trees():
    def f(p):
        return {"out": p["a"] * p["b"][0]}

    p = {"a": 2.0, "b": [3.0]}
    y, t = jvp(f, (p,), ({"a": 1.0, "b": [10.0]},))
    assert float(y["out"]) == 6.0 and float(t["out"]) == 23.0


# ---- errors


@pytest.mark.parametrize(
    "primals, tangents, words",
    [
        (1.0, 1.0, ["must be tuples or lists", "float"]),
        ((1.0,), (1.0, 2.0), ["same tree structure"]),
        ((1.0,), (1,), ["do not match", "f64[]", "i64[]"]),
        ((np.ones(3),), (np.ones(2),), ["do not match", "f64[3]", "f64[2]"]),
        ((1,), (1.0,), ["do not match", "float0"]),
    ],
)
def test_wrong_tangents(primals, tangents, words):
    with pytest.raises(TypeError) as error:
        jvp(lambda x: x * 2.0, primals, tangents)
    for word in words:
        assert word in str(error.value)


def test_tangents_of_a_linearized_function():
    _, f_jvp = linearize(lambda x: x["a"] * 2, {"a": 1.0})
    with pytest.raises(TypeError, match="structure"):
        f_jvp(1.0)
    with pytest.raises(TypeError, match="do not match"):
        f_jvp({"a": np.ones(3)})


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: ew.igamma(x, 1.0), "igamma by its parameter a"),
        (lambda x: ew.polygamma(x, 1.0), "polygamma by its order m"),
        (lambda x: ew.zeta(x, 2.0), "zeta by its exponent x"),
        (lambda x: ew.betainc(x, 2.0, 0.5), "betainc by its parameter a"),
        (lambda x: ew.nextafter(x, 2.0), "nextafter is not differentiable"),
    ],
)
def test_no_derivative_says_which(call, words):
    with pytest.raises(NotImplementedError, match=words):
        jvp(call, (1.5,), (1.0,))


def test_scatter_mul_of_repeated_indices_is_refused():
    numbers = indexing.ScatterDimensionNumbers((), (0,), (0,))
    f = lambda u: indexing.scatter_mul(np.ones(3), np.zeros((2, 1), int), u, numbers)
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        jvp(f, (np.ones(2),), (np.ones(2),))
