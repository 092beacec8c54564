"""checkpoint: what is kept, what is computed again, and that nothing else changes."""

from functools import partial

import numpy as np
import pytest
from harness import alike, count

import minijit.numpy as jnp
from minijit import (
    checkpoint, checkpoint_policies as policies, grad, jit, jvp, lax, make_jaxpr,
    saved_residuals, value_and_grad, vjp,
)
from minijit.ad_checkpoint import checkpoint_name
from minijit.trace.array import aval_of
from minijit.trace.trees.pytree import tree_leaves
from minijit.transform.control_flow.unions_and_tapes import Tape, TapeValue, Union
from minijit.transform.remat.residual_report import bytes_held

pytestmark = [pytest.mark.chapter(12), pytest.mark.usefixtures("interpreted_doubles")]

random = np.random.RandomState(0)
w1, w2 = random.randn(16, 32), random.randn(32, 4)
x, y = random.randn(8, 16), random.randn(8, 4)
params = {"w1": w1, "w2": w2}


def mlp(params, x):
    hidden = jnp.tanh(x @ params["w1"])
    return jnp.tanh(hidden @ params["w2"])


def loss(params, x):
    return jnp.mean((mlp(params, x) - y) ** 2)


assert_trees = partial(alike, rtol=1e-11)


all_policies = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "dots without batch": policies.dots_with_no_batch_dims_saveable,
    "names": policies.save_only_these_names("hidden"),
    "other names": policies.save_any_names_but_these("hidden"),
    "anything but": policies.save_anything_except_these_names("hidden"),
    "both": policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("hidden")
    ),
}


@pytest.mark.parametrize("policy", all_policies)
def test_values_and_derivatives_are_the_same(policy):
    f = checkpoint(loss, policy=all_policies[policy])
    wanted = value_and_grad(loss)(params, x)
    for g in (value_and_grad(f), jit(value_and_grad(f)), value_and_grad(jit(f))):
        assert_trees(g(params, x), wanted)
    tangents = random.randn(8, 16)
    assert_trees(
        jvp(lambda x: f(params, x), (x,), (tangents,)),
        jvp(lambda x: loss(params, x), (x,), (tangents,)),
    )
    second = lambda f: grad(lambda x: jnp.sum(grad(f, 1)(params, x) ** 2))(x)
    assert_trees(second(f), second(loss), rtol=1e-9)


def test_sines_are_computed_twice():
    f = lambda x: jnp.sin(jnp.sin(x))
    plain = make_jaxpr(grad(f))(1.0)
    again = make_jaxpr(grad(checkpoint(f)))(1.0)
    assert count(plain, "sin") == 2 and count(again, "sin") == 3


@pytest.mark.parametrize("policy, again", [("nothing", 2), ("dots", 0)])
def test_products_are_computed_again_unless_saved(policy, again):
    """Two products forwards, two for the gradient of the first weight."""
    f = lambda w1: jnp.sum(jnp.tanh(jnp.tanh(x @ w1) @ w2))
    plain = make_jaxpr(grad(f))(w1)
    jaxpr = make_jaxpr(grad(checkpoint(f, policy=all_policies[policy])))(w1)
    assert count(plain, "dot_general") == 4
    assert count(jaxpr, "dot_general") == 4 + again


def test_an_equation_says_whether_it_is_differentiated():
    f = lambda p: loss(p, x)
    one, = make_jaxpr(checkpoint(f))(params).eqns
    assert one.params["differentiated"] is False


def test_the_backward_pass_is_one_equation():
    jaxpr = make_jaxpr(grad(checkpoint(lambda x: jnp.sin(jnp.sin(x)))))(1.0)
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    assert names.count("checkpoint") == 2


def test_names_are_kept_and_no_more():
    def f(x):
        a = checkpoint_name(jnp.sin(x), "a")
        return jnp.sin(checkpoint_name(jnp.sin(a), "b"))

    for names, sines in ((("a", "b"), 3), (("a",), 4), ((), 5)):
        g = checkpoint(f, policy=policies.save_only_these_names(*names))
        jaxpr = make_jaxpr(grad(lambda x, g=g: jnp.sum(g(x))))(x)
        assert count(jaxpr, "sin") == sines, names


def test_a_saved_name_serves_for_what_it_named():
    """The derivative of tanh is made of its value, which has the name."""
    named = lambda y: checkpoint_name(y, "a")
    policy = policies.save_only_these_names("a")
    after = lambda x: jnp.sin(named(jnp.tanh(x)))
    beside = lambda x: (lambda y: jnp.sin(jnp.exp(y)) + named(y))(jnp.tanh(x))
    times = lambda x: (lambda y: jnp.sin(x) * y + named(y))(jnp.tanh(x))
    for f in (after, beside, times):
        g = checkpoint(f, policy=policy)
        assert count(make_jaxpr(grad(lambda x, g=g: jnp.sum(g(x))))(x), "tanh") == 1


def test_what_is_not_needed_is_not_kept():
    """Here the value of tanh is all that the way back needs, and the cotangent."""
    policy = policies.everything_saveable
    f = checkpoint(lambda x, y: jnp.sum(jnp.tanh(x) + 2.0 * y), policy=policy)
    forward, backward = (
        eqn for eqn in make_jaxpr(grad(f))(x, x).eqns
        if eqn.primitive.name == "checkpoint"
    )  # fmt: skip
    assert len(forward.outvars) == 2 and len(backward.invars) == 2


def test_static_and_named_arguments():
    f = lambda x, y, name: {"twice": 2.0 * x, "once": x}[name] * y
    last = checkpoint(f, static_argnums=-1)
    assert grad(last)(3.0, 5.0, "twice") == 10.0
    assert grad(checkpoint(lambda x, k: x * k))(3.0, k=5.0) == 5.0
    assert grad(checkpoint(lambda x, k=2.0: x * k))(3.0, k=5.0) == 5.0
    sized = checkpoint(lambda x, options: x * len(options), static_argnums=1)
    assert grad(sized)(1.0, {"not": "hashable"}) == 1
    for number in (3, -4):
        with pytest.raises(ValueError, match="3 positional arguments"):
            checkpoint(f, static_argnums=number)(3.0, 5.0, "once")


def test_a_call_inside_is_looked_into():
    """A policy sees the products in a jitted function."""
    inner = jit(lambda x: jnp.tanh(x @ w1))
    f = checkpoint(lambda x: jnp.sum(inner(x) ** 2), policy=policies.dots_saveable)
    jaxpr = make_jaxpr(grad(f))(x)
    assert count(jaxpr, "dot_general") == 2


# ---- a budget


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_a_budget_is_kept_to(share):
    everything = saved_residuals(loss, params, x)
    made = sum(r.nbytes for r in everything if r.made_by)
    budget = int(made * share)
    f = checkpoint(loss, budget_bytes=budget)
    report = saved_residuals(f, params, x)
    kept = sum(r.nbytes for r in report if r.made_by)
    assert kept <= budget
    assert_trees(grad(f)(params, x), grad(loss)(params, x))
    assert_trees(jit(grad(f))(params, x), grad(loss)(params, x))


def test_a_budget_buys_the_dearest_first():
    """A product of 2 * 8 * 16 * 32 operations goes before a sine of as many numbers."""

    def f(x, w):
        return jnp.sum(jnp.sin(jnp.sin(x) @ w) * jnp.cos(x @ w))

    hidden = 8 * 32 * 8
    report = saved_residuals(checkpoint(f, budget_bytes=hidden), x, w1)
    assert [r.made_by for r in report if r.made_by] == ["dot_general"]


def test_a_budget_and_a_policy_are_too_much():
    with pytest.raises(ValueError, match="not both"):
        checkpoint(loss, policy=policies.dots_saveable, budget_bytes=10)


def test_bytes_of_tapes_and_unions_are_reported():
    """A loop keeps so many bytes a step; a branch those of the case that is dearest."""

    def loop(w, x):
        body = lambda c: jnp.sin(w @ c) + c * c + 1.0
        return jnp.sum(lax.while_loop(lambda c: jnp.sum(c) < 50.0, body, x))

    w, x = np.ones((3, 3), "f4"), np.ones(3, "f4")
    report = saved_residuals(loop, w, x)
    # The number of steps, and w, once; the cosine, and c itself, for each step.
    assert (report.nbytes, report.nbytes_per_step) == (4 + 36, 12 + 12)
    assert "40 bytes and 24 bytes a step in all" in repr(report)
    tapes = [t for t in tree_leaves(vjp(loop, w, x)[1]) if isinstance(t, TapeValue)]
    steps = len(tapes[0])
    assert steps > 1 and {len(t) for t in tapes} == {steps}
    assert sum(t.nbytes for t in tapes) == steps * report.nbytes_per_step

    def branch(x):
        return lax.cond(x[0] > 0, lambda x: jnp.sin(x) * x * x, jnp.tanh, x)

    def looped(x):
        return lax.scan(lambda c, _: (branch(c), None), x, None, length=5)[0]

    one = saved_residuals(branch, x)
    union = next(r for r in one if "Union" in str(r.aval))
    first, second = union.aval.cases
    most = max(sum(a.nbytes for a in case) for case in (first, second))
    assert (union.nbytes, union.nbytes_per_step) == (most, 0) and most > 0
    each = next(r for r in saved_residuals(looped, x) if "Union" in str(r.aval))
    assert (each.nbytes, each.nbytes_per_step) == (0, most)
    assert f"{most} bytes a step" in str(each)
    array, tape = aval_of(x), Tape(aval_of(x))
    assert bytes_held(Tape(tape)) == (0, 12)  # Of a loop within a loop.
    cases = (tape, tape, tape), (array, tape)
    assert bytes_held(Union(cases)) == (0, 36)
    assert bytes_held(Union(cases, every=True)) == (12, 48)
