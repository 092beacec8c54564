"""Forward mode: each rule against differences, linearize against jvp, and errors."""

import numpy as np
import pytest
from derivative_cases import cases, ours
from harness import alike

import minijit.numpy as jnp
from minijit import jit, jvp, linearize, make_jaxpr
from minijit.trace import primitives, slicing
from minijit.trace.core import Primitive
from minijit.trace.jaxprs.checks import check_jaxpr
from minijit.trace.trees.pytree import tree_leaves
from minijit.transform.derivatives.linearize import constant_rule, linearize_rules

pytestmark = [pytest.mark.chapter(7), pytest.mark.usefixtures("in_double_precision")]

EPS = 1e-5


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
    moved = lambda step: map(np.asarray, tree_leaves(
        f(*(x + step * t for x, t in zip(args, tangents, strict=True)))
    ))
    with np.errstate(invalid="ignore"):
        return [
            np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, a - b) / (2 * EPS)
            for a, b in zip(moved(EPS), moved(-EPS), strict=True)
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
    f_jvp = linearize(f, *args)[1]
    for _ in range(2):
        alike(f_jvp(*tangents), jvp(f, args, tangents)[1], case, 1e-12, 1e-12)


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
        alike(found, wanted, case, 1e-12, 1e-12)


def met_and_constant():
    """Primitives in the jaxpr of some case, and those whose derivative is zero."""
    met = set()
    for case in cases:
        jaxpr = make_jaxpr(case.function(ours))(*case.varying())
        met |= {eqn.primitive for eqn in jaxpr.eqns}
    flat = {p for p, rule in linearize_rules.items()
            if getattr(rule, "func", None) is constant_rule}
    return met, flat


def test_every_rule_that_is_not_constant_is_tried():
    """Each primitive with a derivative stands in the jaxpr of some case."""
    met, flat = met_and_constant()
    own = {
        value
        for module in (primitives, slicing)
        for value in vars(module).values()
        if isinstance(value, Primitive)
    }
    assert not own - flat - met - {primitives.copy_p}
    assert len(met) > 30


w, table = np.arange(3.0), np.arange(12.0).reshape(3, 4)
# Functions of a [3,4], and what the linear half is given before the tangent.
HANDED = {
    "captured, laid out": (lambda x: jnp.broadcast_to(w[:, None], (3, 4)) * x, []),
    "captured, turned": (lambda x: jnp.asarray(table).T @ jnp.sin(x), [(3, 4)]),
    "computed of it": (lambda x: jnp.sin(w)[:, None] * x, [(3,)]),
    "laid out": (lambda x: jnp.broadcast_to(x[:, :1], (3, 4)) * x, [(3, 4), (3, 1)]),
    "an argument": (lambda x: x * x, [(3, 4)]),
    "in order": (lambda x: jnp.sin(x).sum(0) * jnp.exp(x[:1]), [(3, 4), (1, 4), (4,)]),
}


@pytest.mark.chapter(16)
@pytest.mark.parametrize("name", HANDED)
def test_what_a_jitted_function_hands_to_its_derivative(name):
    """No array that it captured, nothing that is another layout: each has a half."""
    from minijit import grad

    f, wanted = HANDED[name]
    closed = make_jaxpr(lambda x: linearize(jit(lambda x: f(x).sum()), x)[1](x))(table)
    _, linear = (eqn for eqn in closed.eqns if eqn.primitive.name == "jit")
    check_jaxpr(closed.jaxpr)
    found = grad(jit(lambda x: f(x).sum()))(table)
    np.testing.assert_allclose(found, grad(lambda x: f(x).sum())(table), rtol=1e-12)
    assert [v.aval.shape for v in linear.invars] == [*wanted, (3, 4)]
