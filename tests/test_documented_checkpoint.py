"""checkpoint as JAX's documentation uses it: what is held between the two passes, what
is computed again, policies of every kind, recursive checkpoints, static arguments."""

import numpy as np
import pytest
from harness import alike, count, refused

import minijit.numpy as jnp
from minijit import (
    ad_checkpoint, checkpoint, checkpoint_policies as policies, grad, jit, lax,
    make_jaxpr, vmap,
)
from minijit.ad_checkpoint import checkpoint_name, saved_residuals

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

draw = np.random.default_rng(3)
sizes = 4, 5, 6, 7
weights = [
    draw.normal(size=(n, m)).astype(np.float32)
    for m, n in zip(sizes, sizes[1:], strict=False)
]
x = draw.normal(size=4).astype(np.float32)


def layer(w, x):
    return jnp.sin(w @ x)


def network(weights, x, around=lambda f: f):
    for w in weights:
        x = around(layer)(w, x)
    return x


def held(f, *args):
    """What made the residuals that are no arguments, with their shapes, in order."""
    found = [(r.made_by, r.aval.shape) for r in saved_residuals(f, *args)]
    return sorted(pair for pair in found if pair[0] is not None)


def gradients_agree(f, g, *args):
    alike(*(grad(h)(*args) for h in (f, g)), rtol=2e-5, atol=1e-6)


def total(f):
    return lambda *args: jnp.sum(f(*args))


# ---- what is held


def named(weights, x):
    for i, w in enumerate(weights):
        x = checkpoint_name(layer(w, x), f"layer {i}")
    return x


cosines, sines, products, names = (
    [(made_by, (n,)) for n in (5, 6, 7)]
    for made_by in ("cos", "sin", "dot_general", "name")
)
answers = {
    "sin": ad_checkpoint.Saveable,
    "dot_general": ad_checkpoint.Recompute,
    "cos": ad_checkpoint.Offloadable(src="device", dst="pinned_host"),
}
of_dots = [
    policies.dots_saveable, policies.checkpoint_dots,
    policies.dots_with_no_batch_dims_saveable,
    policies.checkpoint_dots_with_no_batch_dims,
    policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
]  # fmt: skip
some = policies.save_only_these_names
# The last layer's result is needed by nobody, named or not.
held_by = [
    (network, policies.everything_saveable, cosines + sines[:2]),
    (network, policies.nothing_saveable, []),
    *((network, policy, products) for policy in of_dots),
    (network, lambda prim, *avals, **params: prim.name == "sin", sines[:2]),
    (network, lambda prim, *avals, **params: answers.get(prim.name, False),
     cosines + sines[:2]),
    (named, some("layer 0"), names[:1]),
    (named, some("layer 0", "layer 1"), names[:2]),
    (named, some("another"), []),
    (named, policies.save_any_names_but_these("layer 0"), names[1:2]),
    (named, policies.save_any_names_but_these(), names[:2]),
    (named, policies.save_anything_except_these_names("layer 0"),
     [*cosines, names[1], sines[0]]),
    (named, policies.save_from_both_policies(policies.dots_saveable, some("layer 0")),
     [*products, names[0]]),
    (named, policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["layer 1"],
        names_which_can_be_offloaded=["layer 0"],
        offload_src="device", offload_dst="pinned_host"), names[:2]),
]  # fmt: skip


@pytest.mark.parametrize("function, policy, wanted", held_by)
def test_what_a_policy_holds(function, policy, wanted):
    f = checkpoint(function, policy=policy)
    assert held(f, weights, x) == wanted
    for g in (total(f), jit(total(f))):
        gradients_agree(g, total(network), weights, x)


def test_what_goes_elsewhere_says_from_where_to_where():
    policy = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"],
        offload_src="device", offload_dst="pinned_host",
    )  # fmt: skip
    name_p = make_jaxpr(lambda x: checkpoint_name(x, "a"))(x).eqns[0].primitive
    there = policy(name_p, name="b")
    assert (there.src, there.dst) == ("device", "pinned_host")
    assert policy(name_p, name="a") is True and policy(name_p, name="c") is False


def test_a_name_changes_nothing_else():
    f = lambda x: checkpoint_name({"a": x, "b": 2 * x}, "pair")["b"].sum()
    assert f(x) == 2 * x.sum()
    np.testing.assert_array_equal(grad(f)(x), np.full(4, 2.0))
    assert count(make_jaxpr(f)(x), "name") == 2
    np.testing.assert_allclose(jit(vmap(lambda x: checkpoint_name(x, "n")))(x), x)


def test_the_report_prints_names_and_lines(capsys):
    f = checkpoint(named, policy=policies.save_only_these_names("layer 0"))
    ad_checkpoint.print_saved_residuals(f, weights, x)
    text = capsys.readouterr().out
    assert "named 'layer 0'" in text and "test_documented_checkpoint.py" in text
    assert "the argument weights[2]" in text and "the argument x" in text
    # f32: three matrices, x, and the first hidden layer.
    assert f"{4 * (20 + 30 + 42 + 4 + 5)} bytes in all" in text


# ---- what is computed again


def test_a_checkpoint_in_a_scan_holds_the_carries():
    stack = draw.normal(size=(6, 4, 4)).astype(np.float32) / 2

    def run(body):
        return lambda ws, x: jnp.sum(lax.scan(body, x, ws)[0])

    def body(x, w):
        return jnp.tanh(jnp.tanh(w @ x) * 2), None

    plain, again = run(body), run(checkpoint(body))
    tight = run(checkpoint(body, prevent_cse=False))
    sizes = [saved_residuals(f, stack, x).nbytes for f in (plain, again, tight)]
    own = sum(r.nbytes for r in saved_residuals(again, stack, x) if r.made_by)
    assert own == 6 * 4 * 4, "six carries of four numbers, in float32"
    assert sizes[1] == sizes[2] < sizes[0]
    for f in (again, tight, jit(again), jit(tight)):
        gradients_agree(f, plain, stack, x)
    whole = checkpoint(plain)
    assert held(whole, stack, x) == []
    gradients_agree(whole, plain, stack, x)


# ---- with everything else


@pytest.mark.parametrize("call, kind, words", [
    (lambda: checkpoint(jnp.sin, concrete=True), NotImplementedError,
     ["concrete", "static_argnums"]),
    (lambda: checkpoint(jnp.sin, policy=3), TypeError, ["policy", "3"]),
    (lambda: checkpoint(lambda x: x, static_argnums=2)(1.0), ValueError,
     ["static_argnums=(2,)", "1 positional", "test_documented_checkpoint"]),
    (lambda: grad(checkpoint(jnp.sin, policy=policies.save_only_these_names))(1.0),
     TypeError, ["save_only_these_names", "sin"]),
    (lambda: grad(checkpoint(jnp.sin, policy=lambda *a, **k: None))(1.0),
     TypeError, ["True or False", "None"]),
    (lambda: policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a", "b"],
        offload_src="device", offload_dst="pinned_host"),
     ValueError, ["not both", "['a']"]),
    (lambda: grad(checkpoint(lambda x: x if x > 0 else -x))(1.0),
     TypeError, ["checkpoint", "lambda"]),
])  # fmt: skip
def test_errors(call, kind, words):
    refused(kind, words, call)
