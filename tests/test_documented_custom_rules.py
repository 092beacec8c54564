"""What JAX's pages on custom derivative rules promise, program by program.

Each test is one behaviour that a page relies on, with a program and numbers of its own.
What `tests/test_custom.py` has is not repeated here.
"""

from functools import partial

import numpy as np
import pytest
from harness import refused

import minijit.numpy as jnp
from minijit import (
    closure_convert, custom_derivatives, custom_jvp, custom_vjp, grad, hessian, jacrev,
    jit, jvp, lax, vmap,
)
from minijit.errors import UnexpectedTracerError

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

three = np.float32([1, 2, 3])


close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)


def with_jvp(f, rule, **options):
    """f with a jvp rule."""
    f = custom_jvp(f, **options)
    f.defjvp(rule)
    return f


def with_vjp(f, fwd, bwd, **options):
    """f with a vjp rule."""
    f = custom_vjp(f, **options)
    f.defvjp(fwd, bwd)
    return f


# ---- what rules are for


def test_forward_over_reverse_where_fwd_calls_the_function():
    """The tangent of fwd's own result is not needed; compiled, it is not computed."""
    f = with_vjp(jnp.sin, lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))
    close(jit(hessian(f))(0.5), -np.sin(0.5))
    close(jit(vmap(hessian(f)))(three), -np.sin(three))


def test_a_jvp_rule_that_asks_jvp_of_a_function_with_a_vjp_rule():
    """Forward mode would be impossible; in reverse mode only bwd is asked."""
    call = lambda f, x: f(x)
    cube = with_vjp(lambda x: x**3, lambda x: (x**3, x), lambda x, ct: (6 * ct * x**2,))
    for inner in (cube, jit(cube), jit(jit(lambda x: 2 * cube(x) / 2))):
        outer = with_jvp(partial(call, inner), partial(jvp, inner))
        for g in (grad(outer), jit(grad(outer)), jit(jacrev(outer))):
            assert g(2.0) == 24.0
        assert grad(grad(outer))(2.0) == 24.0
        refused(TypeError, "forward-mode", jvp, outer, (2.0,), (1.0,))
    once = lambda x: lax.scan(lambda c, _: (cube(c), None), x, length=1)[0]
    looped = with_jvp(partial(call, once), partial(jvp, once))
    assert grad(looped)(2.0) == jit(grad(looped))(2.0) == 24.0
    # In the direction of nothing, nothing changes: even forward mode can say so.
    assert jvp(cube, (2.0,), (0.0,)) == (8.0, 0.0)


# ---- arguments


@pytest.mark.parametrize("kind", [custom_jvp, custom_vjp])
def test_nondiff_arguments_by_name(kind):
    f = kind(lambda x, mode="twice": x, nondiff_argnames=("mode",))
    scale = {"twice": 2.0, "thrice": 3.0}
    if kind is custom_jvp:
        f.defjvp(lambda mode, p, t: (p[0], scale[mode] * t[0]))
    else:
        bwd = lambda mode, _, ct: (scale[mode] * ct,)
        f.defvjp(lambda x, mode: (x, None), bwd)
    assert grad(f)(1.0) == 2.0 and grad(f)(1.0, "thrice") == 3.0
    assert grad(lambda x: f(x, mode="thrice"))(1.0) == 3.0


def test_traced_nondiff_arguments():
    """Of a jvp rule they are constants; of a vjp rule, an error."""
    scaled = lambda n, x: n * x
    f = with_jvp(
        scaled, lambda n, p, t: (n * p[0], 10 * n * t[0]), nondiff_argnums=(0,)
    )
    assert jit(grad(f, 1))(2.0, 3.0) == 20.0
    assert vmap(grad(f, 1))(three, three).tolist() == [10.0, 20.0, 30.0]
    assert grad(f)(2.0, 3.0) == 0.0
    assert grad(lambda n: n * f(n, 3.0))(2.0) == 6.0
    g = with_vjp(
        scaled, lambda n, x: (n * x, None), lambda n, _, ct: (n * ct,),
        nondiff_argnums=(0,),
    )  # fmt: skip
    assert grad(g, 1)(2.0, 3.0) == 2.0
    for call in (jit(lambda n, x: g(n, x)), grad(g), vmap(g)):
        with pytest.raises(UnexpectedTracerError, match=r"ordinary.*bwd returns None"):
            call(three, three)


def test_nondiff_positions_that_are_not_there():
    f = with_jvp(lambda x: x, lambda n, p, t: (p[0], t[0]), nondiff_argnums=(1,))
    refused(IndexError, "nondiff_argnums", f, 1.0)


def test_what_is_no_array_is_refused():
    f = with_jvp(lambda x, mode: x, lambda p, t: (p[0], t[0]))
    refused(TypeError, "nondiff_argnums", f, 1.0, "fast")


# ---- captured values


def capturing(kind, where):
    """f(y, x) with a rule by x alone, where the function or the rule captures y."""
    def f(y, x):
        inside = y if where == "function" else 3.0
        outside = y if where == "rule" else 5.0
        function = lambda x: inside * x
        if kind is custom_jvp:
            rule = lambda p, t: (g(*p), 10 * outside * t[0])
            g = with_jvp(function, rule)
        else:
            g = with_vjp(function, lambda x: (g(x), outside), lambda o, ct: (ct * o,))
        return g(x)

    return f


kinds = pytest.mark.parametrize("kind", [custom_jvp, custom_vjp])
places = pytest.mark.parametrize("where", ["function", "rule"])


@kinds
@places
def test_functions_and_rules_may_capture_what_is_traced(kind, where):
    f = capturing(kind, where)
    scale = 10 if kind is custom_jvp else 1
    by_x = lambda y: scale * (5 * np.ones_like(y) if where == "function" else y)
    ys = np.float32([2, 4])
    close(jit(grad(f, 1))(2.0, 1.0), by_x(2.0))
    close(vmap(grad(f, 1), (0, None))(ys, 1.0), by_x(ys))
    close(jit(vmap(grad(f, 1)))(ys, ys), by_x(ys))
    # All lanes of the capture share x: its gradient is the sum.
    close(grad(lambda x: vmap(lambda y: f(y, x))(ys).sum())(1.0), by_x(ys).sum())
    close(vmap(f, (0, None))(ys, 2.0), 2 * (ys if where == "function" else 3))


def test_captures_that_have_no_derivative_stay_captured():
    n, a = jnp.array(3), jnp.arange(2.0)

    def outer(y):
        converted, captured = closure_convert(lambda x: (n * a * x * y).sum(), 1.0)
        assert len(captured) == 1
        return converted(2.0, *captured)

    assert grad(outer)(5.0) == 6.0 and jit(grad(outer))(5.0) == 6.0


# ---- symbolic zeros


def test_a_symbolic_zero_may_be_returned():
    f = custom_jvp(lambda x, y: (x, y))
    f.defjvp(lambda p, t: (f(*p), (t[0], t[1])), symbolic_zeros=True)
    assert jvp(lambda x: f(x, 3.0), (2.0,), (1.0,)) == ((2.0, 3.0), (1.0, 0.0))
    zero_of = custom_derivatives.zero_from_primal
    zero, = zero_of([np.ones(3, "float32")], symbolic_zeros=True)
    assert zero_of({"x": 1.0})["x"] == 0.0
    assert zero.shape == (3,) and zero.dtype == np.float32


def test_the_values_of_a_tree_of_arguments():
    def fwd(p, x):
        assert p["a"].perturbed and not p["b"].perturbed
        p, x = custom_derivatives.custom_vjp_primal_tree_values((p, x))
        return f(p, x), (p, x)

    bwd = lambda px, ct: ({"a": 7 * ct * px[1], "b": None}, None)
    f = custom_vjp(lambda p, x: p["a"] * p["b"] * x)
    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert grad(lambda a: f({"a": a, "b": 2.0}, 3.0))(5.0) == 21.0


# ---- errors


def test_a_list_will_do_for_a_pair():
    f = with_jvp(lambda x: 2 * x, lambda p, t: [2 * p[0], 2 * t[0]])
    assert grad(f)(1.0) == 2.0


def test_defjvps():
    f = custom_jvp(lambda x, y: (x * y, x + y))
    f.defjvps(None, lambda t, out, x, y: (5 * t, 6 * t))
    total = lambda x, y: sum(f(x, y))
    assert grad(total, (0, 1))(2.0, 3.0) == (0.0, 11.0)
    f = custom_jvp(lambda n, x: x, nondiff_argnums=(0,))
    refused(TypeError, "defjvps", f.defjvps, lambda t, out, x: t)
