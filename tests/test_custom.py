"""Custom derivative rules: what they are given, where they work, and their errors."""

from functools import partial

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import (
    custom_gradient, custom_jvp, custom_vjp, grad, hessian, jit, jvp, linearize,
    value_and_grad, vjp, vmap,
)
from minijit.test_util import check_grads
from minijit.trace.base.errors import UnexpectedTracerError
from minijit.trace.trees.pytree import tree_map

pytestmark = [
    pytest.mark.chapter(10),
    pytest.mark.usefixtures("in_double_precision", "no_words_of_the_test"),
]


@custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    x, = primals
    t, = tangents
    return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t


def clipped():
    """The identity, whose gradient is cut off."""
    @custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))
    return f


# ---- custom_jvp


@pytest.mark.parametrize("f", [log1pexp, jit(log1pexp), lambda x: jit(log1pexp)(x)])
def test_a_rule_in_every_mode(f):
    assert grad(f)(1000.0) == 1.0
    assert jvp(f, (1000.0,), (2.0,))[1] == 2.0
    assert linearize(f, 1000.0)[1](2.0) == 2.0
    assert jit(grad(f))(1000.0) == 1.0
    assert vmap(grad(f))(np.array([1000.0, 0.0])).tolist() == [1.0, 0.5]
    assert grad(lambda x: jnp.sum(vmap(f)(x)))(np.zeros(2)).tolist() == [0.5, 0.5]


def test_derivatives_of_the_rule():
    x = 0.3
    s = 1 / (1 + np.exp(-x))
    assert np.isclose(grad(grad(log1pexp))(x), s * (1 - s))
    assert np.isclose(grad(grad(grad(log1pexp)))(x), s * (1 - s) * (1 - 2 * s))
    assert np.isclose(hessian(log1pexp)(x), s * (1 - s))


def test_a_rule_for_each_argument():
    f = custom_jvp(lambda x, y: jnp.sin(x) * y)
    f.defjvps(lambda t, out, x, y: jnp.cos(x) * t * y, None)
    assert np.isclose(grad(f)(0.5, 2.0), 2 * np.cos(0.5))
    assert grad(f, 1)(0.5, 2.0) == 0.0


def test_nondiff_argnums():
    @partial(custom_jvp, nondiff_argnums=(0,))
    def app(f, x):
        return f(x)

    app.defjvp(lambda f, p, t: (f(p[0]), 10.0 * t[0]))
    assert app(np.sin, 0.0) == 0.0
    assert grad(app, 1)(lambda x: x**2, 3.0) == 10.0
    assert jit(grad(lambda x: app(jnp.sin, x)))(1.0) == 10.0


def test_integer_arguments_have_float0_tangents():
    f = custom_jvp(lambda x, n: x * n)

    @f.defjvp
    def rule(primals, tangents):
        x, n = primals
        assert tangents[1].dtype == np.dtype([("float0", np.void, 0)])
        return f(x, n), tangents[0] * n

    assert grad(f)(2.0, 3) == 3.0


def test_symbolic_zeros_of_custom_jvp():
    f = custom_jvp(lambda x, y: x * y)
    seen = []

    def rule(primals, tangents):
        seen.append([type(t).__name__ for t in tangents])
        return f(*primals), tangents[0] * primals[1]

    f.defjvp(rule, symbolic_zeros=True)
    assert grad(f)(2.0, 3.0) == 3.0
    assert seen[-1][1] == "SymbolicZero" and seen[-1][0] != "SymbolicZero"


def test_methods_can_have_rules():
    class Scale:
        def __init__(self, k):
            self.k = k

        @partial(custom_jvp, nondiff_argnums=(0,))
        def apply(self, x):
            return x * self.k

        @apply.defjvp
        def rule(self, primals, tangents):
            return self.apply(*primals), tangents[0] * 100.0

    assert grad(Scale(2.0).apply)(1.0) == 100.0


def test_captured_tracers():
    """A function with a rule that closes over a value being differentiated."""
    def outer(a, x):
        f = custom_jvp(lambda x: x * 2.0)
        f.defjvp(lambda p, t: (f(*p), t[0] * 2.0 * a))
        return f(x)

    assert grad(outer, 1)(3.0, 1.0) == 6.0
    assert jit(grad(outer, 1))(3.0, 1.0) == 6.0


# ---- custom_vjp


@pytest.mark.chapter(16)
def test_under_vmap_each_lane_has_its_own_bwd():
    f = clipped()
    x = np.array([1.0, 2.0, 3.0])
    assert vmap(grad(lambda x: f(x) * 3))(x).tolist() == [1, 1, 1]
    assert grad(lambda x: jnp.sum(vmap(f)(x) * x))(x).tolist() == [2, 3, 4]
    by_sum = custom_vjp(lambda w, x: w * x)
    by_sum.defvjp(lambda w, x: (w * x, (w, x)), lambda r, ct: (ct * r[1], ct * r[0]))
    total = lambda w: jnp.sum(vmap(by_sum, in_axes=(None, 0))(w, x))
    assert grad(total)(2.0) == 6.0


def test_residuals_and_trees():
    @custom_vjp
    def f(p, x):
        return {"y": p["w"] * x}

    def fwd(p, x):
        return f(p, x), {"kept": (p["w"], x)}

    def bwd(residuals, ct):
        w, x = residuals["kept"]
        return {"w": ct["y"] * x, "b": None}, ct["y"] * w

    f.defvjp(fwd, bwd)
    g = grad(lambda p, x: f(p, x)["y"], argnums=(0, 1))
    gp, gx = g({"w": 2.0, "b": 1.0}, 3.0)
    assert tree_map(float, gp) == {"w": 3.0, "b": 0.0} and gx == 2.0


def test_nondiff_argnums_of_custom_vjp():
    @partial(custom_vjp, nondiff_argnums=(0, 2))
    def f(op, x, n):
        return op(x) * n

    f.defvjp(lambda op, x, n: (op(x) * n, x), lambda op, n, x, ct: (ct * n * 100,))
    assert grad(f, 1)(jnp.sin, 1.0, 3) == 300.0


def test_forward_mode_is_refused():
    with pytest.raises(TypeError, match="can't apply forward-mode.*custom_vjp"):
        jvp(clipped(), (1.0,), (1.0,))


def test_integers_in_custom_vjp():
    f = custom_vjp(lambda x, n: x * n)
    f.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n, None))
    assert grad(f)(2.0, 3) == 3.0
    assert jit(grad(f))(2.0, 3) == 3.0


# ---- custom_gradient, closure_convert


def test_custom_gradient():
    @custom_gradient
    def f(x):
        return x**2, lambda ct: (ct * 3 * x,)

    @custom_gradient
    def g(x, y):
        return x * y, lambda ct: (ct * y, ct * 7.0)

    assert f(2.0) == 4.0 and grad(f)(2.0) == 6.0
    assert jit(grad(f))(2.0) == 6.0 and vmap(grad(f))(np.ones(2)).tolist() == [3, 3]
    assert grad(jit(f))(2.0) == 6.0 and grad(grad(f))(2.0) == 3.0
    assert [float(x) for x in grad(g, (0, 1))(2.0, 5.0)] == [5.0, 7.0]
    alone = custom_gradient(lambda x: (x, lambda ct: ct * 5.0))
    assert grad(alone)(1.0) == 5.0


# ---- errors: which rule, which leaf


def vjp_error(fwd, bwd, call=lambda f: grad(lambda p: f(p)["y"]), kind=TypeError):
    def bad_fwd(p):
        return fwd(p)

    def bad_bwd(residuals, ct):
        return bwd(residuals, ct)

    f = custom_vjp(lambda p: {"y": p["a"] * p["b"]})
    f.defvjp(bad_fwd, bad_bwd)
    with pytest.raises(kind) as error:
        call(f)({"a": 1.0, "b": 2.0})
    return str(error.value)


def test_errors_of_fwd_and_bwd():
    fwd = lambda p: ({"y": p["a"]}, p)
    for result in (5, None, (1, 2, 3)):
        message = vjp_error(lambda p, result=result: result, None)
        assert "bad_fwd" in message and "pair" in message
    recorded = lambda f: grad(jit(lambda p: f(p)["y"]))
    message = vjp_error(lambda p: (p["a"], p), None, recorded)
    assert "bad_fwd" in message and "structure" in message
    message = vjp_error(fwd, lambda r, ct: ct["y"])
    assert "bad_bwd" in message and "tuple" in message
    message = vjp_error(fwd, lambda r, ct: (ct["y"], ct["y"]))
    assert "a tuple of length 1" in message
    message = vjp_error(fwd, lambda r, ct: ({"a": ct["y"]},))
    assert "structure" in message and "'b'" in message
    bwd = lambda r, ct: ({"a": ct["y"], "b": np.ones(3)},)
    message = vjp_error(fwd, bwd, kind=ValueError)
    assert "bad_bwd" in message and "f64[3]" in message and "leaf 1" in message


def test_keyword_only_arguments_are_refused():
    f = custom_jvp(lambda x, *, k: x * k)
    f.defjvp(lambda p, t: (f(*p), t[0]))
    refused(TypeError, "by position, but k", f, 1.0, k=2.0)


@pytest.mark.chapter(16)
def test_value_and_grad_through_both():
    f = clipped()
    value, g = value_and_grad(lambda x: 3 * f(log1pexp(x)))(0.0)
    assert np.isclose(value, 3 * np.log(2)) and np.isclose(g, 0.5)


# ---- wrong rules are found


def test_check_grads_finds_a_wrong_derivative():
    @custom_jvp
    def wrong(x):
        return jnp.sin(x)

    wrong.defjvp(lambda primals, tangents: (wrong(*primals), tangents[0] * 0.9))
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match=mode):
            check_grads(wrong, (1.0,), order=1, modes=(mode,))
    check_grads(jnp.sin, (1.0,), order=3)


# ---- linear_call: a transpose of the user's own


def doubled_back(r, x):
    """r @ x, whose transpose is said to be twice what it is, and its result a dict."""
    from minijit.custom_derivatives import linear_call

    back = lambda r, ct: {"a": 2 * (ct["y"] @ r)}
    return linear_call(lambda r, x: {"y": r @ x["a"]}, back, r, {"a": x})["y"]


@pytest.mark.chapter(16)
def test_linear_call():
    r, x = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
    f, want = partial(doubled_back, r), r @ x
    for call in (f, jit(f), lambda x: vmap(f)(jnp.stack([x]))[0]):
        np.testing.assert_array_equal(call(x), want)
        np.testing.assert_array_equal(jvp(call, (x,), (x,))[1], want)
        np.testing.assert_array_equal(vjp(call, x)[1](want)[0], 2 * want @ r)
    lanes = vmap(doubled_back, (0, None))(jnp.stack([r, 2 * r]), x)
    np.testing.assert_array_equal(lanes, [want, 2 * want])
    # The transpose of the transpose is the function again.
    twice = vjp(lambda ct: vjp(f, x)[1](ct)[0], want)[1]
    np.testing.assert_array_equal(twice(x)[0], want)


# ---- what a function captured comes in front of its arguments


def square(kind, w):
    """x², of a function that captures `w` and has a rule that does not."""
    f = kind(lambda x: w * 0 + x * x)
    if kind is custom_jvp:
        f.defjvp(lambda p, t: (p[0] * p[0], 2 * p[0] * t[0]))
    else:
        f.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
    return f


@pytest.mark.parametrize("kind", [custom_jvp, custom_vjp])
def test_a_value_comes_with_the_gradient(kind):
    f = jit(lambda w, x: square(kind, w * 1.0)(x))
    assert value_and_grad(square(kind, 3.0))(3.0) == (9.0, 6.0)
    assert value_and_grad(f, 1)(2.0, 3.0) == (9.0, 6.0)
    assert jit(value_and_grad(f, 1))(2.0, 3.0) == (9.0, 6.0)
    lanes = vmap(f, (None, 0))
    for g in (f, lambda w, x: lanes(w, jnp.stack([x, 0 * x])).sum()):
        if kind is custom_jvp:
            assert value_and_grad(g, (0, 1))(2.0, 3.0) == (9.0, (0.0, 6.0))
        else:
            with pytest.raises(UnexpectedTracerError, match="differentiated by that"):
                grad(g, (0, 1))(2.0, 3.0)


def test_bwd_gets_what_fwd_kept_in_its_places():
    @partial(custom_vjp, nondiff_argnums=(1,))
    def f(x, name, y):
        return x * y, 7

    def fwd(x, name, y):
        assert name == "middle"
        return (x * y, 7), {"a": x, "b": 2, "c": y}

    def bwd(name, kept, cts):
        assert name == "middle" and type(kept["b"]) is int
        assert len(cts) == 2
        return kept["b"] * kept["c"] * cts[0], 10 * kept["a"] * cts[0]

    f.defvjp(fwd, bwd)
    slopes = grad(lambda x, y: f(x, "middle", y)[0], (0, 1))
    assert slopes(3.0, 5.0) == jit(slopes)(3.0, 5.0) == (10.0, 30.0)
    out, pull = vjp(lambda x, y: f(x, "middle", y), 3.0, 5.0)
    none = np.zeros((), [("float0", np.void, 0)])
    assert out == (15.0, 7) and pull((1.0, none)) == (10.0, 30.0)


def test_a_symbolic_zero_of_another_shape():
    @custom_vjp
    def f(x, y, z):
        return x, y, z

    def fwd(x, y, z):
        return f(x.value, y.value, z.value), None

    f.defvjp(fwd, lambda _, g: (g[1], g[0], g[2]), symbolic_zeros=True)
    of_last = lambda x, y, z: f(x, y, z)[2].sum()
    with pytest.raises(ValueError, match="Consider just returning a None here"):
        grad(of_last)(np.ones(1), np.ones(2), np.ones(3))


def test_a_capture_of_a_rule_within_a_rule_is_explained_once():
    def ruled(f):
        f = custom_jvp(f)
        f.defjvp(lambda p, t: (p[0], t[0]))
        return f

    inner = lambda y, x: ruled(lambda x: x * y)(x)
    with pytest.raises(UnexpectedTracerError) as error:
        grad(lambda y, x: ruled(lambda x: inner(y, x))(x))(2.0, 3.0)
    assert str(error.value).count("has a custom derivative rule") == 1
