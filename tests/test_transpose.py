"""Reverse mode: each rule against forward mode and differences, and its errors."""

from functools import partial

import numpy as np
import pytest
from derivative_cases import cases, ours

import minijit.numpy as jnp
from minijit import (
    enable_x64,
    grad,
    jit,
    jvp,
    linear_transpose,
    make_jaxpr,
    value_and_grad,
    vjp,
)
from minijit.test_util import check_grads, check_vjp, inner, random_like
from minijit.trace import indexing, primitives as lax
from minijit.trace.pytree import tree_leaves, tree_map

pytestmark = pytest.mark.chapter("7s")


@pytest.fixture(autouse=True)
def in_double_precision():
    with enable_x64(True):
        yield


@pytest.mark.parametrize("case", cases, ids=repr)
def test_vjp_is_the_transpose_of_jvp(case):
    """<c, J t> = <Jᵀ c, t>, to the last bits; J was compared with differences."""
    f, args = case.function(ours), case.varying()
    random = np.random.default_rng(1)
    tangents = random_like(random, args)
    value, pull_back = vjp(f, *args)
    ct = random_like(random, value)
    back = pull_back(ct)
    _, tangent = jvp(f, args, tangents)
    for x, c in zip(args, back, strict=True):
        assert x.shape == c.shape and x.dtype == c.dtype
    tangent = [c if t.dtype.kind not in "fc" else t
               for t, c in zip(tree_leaves(tangent), tree_leaves(ct), strict=True)]
    np.testing.assert_allclose(
        inner(back, tangents), inner(tangent, tree_leaves(ct)), rtol=1e-9, atol=1e-10
    )


def is_finite(y):
    return y.dtype.kind in "fc" and bool(jnp.isfinite(y).all())


@pytest.mark.parametrize("case", [c for c in cases if c.order > 1], ids=repr)
def test_second_order(case):
    """Reverse over reverse, forward over reverse, reverse over forward."""
    f = case.function(ours)
    floats = lambda *args: [y for y in tree_leaves(f(*args)) if is_finite(y)]
    args = case.varying()
    if not floats(*args):
        return
    check_grads(floats, args, order=2, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("case", cases[::5], ids=repr)
def test_under_jit(case):
    """The transposed program as one jaxpr gives what it gives equation by equation."""
    f, args = case.function(ours), case.varying()
    ct = random_like(np.random.default_rng(2), f(*args))
    wanted = vjp(f, *args)[1](ct)
    found = jit(lambda args, ct: vjp(f, *args)[1](ct), backend="eval")(args, ct)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


# ---- sums


def test_slices_are_added_to_the_sum_so_far():
    """n parts of one array: one array of zeros, and no addition of whole arrays."""
    def f(x):
        return sum(jnp.sin(x[i]) for i in range(10))

    jaxpr = make_jaxpr(grad(f))(np.arange(10.0))
    whole = [
        eqn for eqn in jaxpr.eqns
        if eqn.primitive.name in ("add_any", "pad") and eqn.outvars[0].aval.shape
    ]
    assert len(whole) <= 1
    np.testing.assert_allclose(grad(f)(np.arange(10.0)), np.cos(np.arange(10.0)))


def test_gathers_and_dynamic_slices_write_into_the_sum_so_far():
    rows = np.array([0, 2, 2])

    def f(x, i):
        taken = [x[rows] for _ in range(3)]
        windows = [indexing.dynamic_slice(x, (i, i), (2, 2)) for _ in range(3)]
        return sum(jnp.sum(y * y) for y in taken + windows)

    x = np.random.default_rng(0).standard_normal((4, 4))
    jaxpr = make_jaxpr(grad(f))(x, 1)
    zeros = [
        eqn for eqn in jaxpr.eqns
        if eqn.primitive is lax.broadcast_in_dim_p
        and eqn.outvars[0].aval.shape == (4, 4)
    ]
    assert len(zeros) == 1
    assert not any(
        eqn.primitive.name == "add_any" and eqn.outvars[0].aval.shape == (4, 4)
        for eqn in jaxpr.eqns
    )
    check_grads(lambda x: f(x, 1), (x,), order=2)


def test_an_accumulator_goes_into_a_call():
    g = jit(lambda x, i: x[i] * 2.0)

    def f(x):
        return g(x, 0) + g(x, 1) + g(x, 1)

    np.testing.assert_allclose(grad(f)(np.arange(3.0)), [2, 4, 0])


def test_an_argument_that_stands_twice():
    assert grad(lambda x: x * x)(3.0) == 6.0
    assert grad(lambda x: (x + x) * x)(3.0) == 12.0
    np.testing.assert_allclose(
        linear_transpose(lambda x: lax.add(x, x), np.ones(2))(np.ones(2))[0], [2, 2]
    )


# ---- what grad takes and gives


def test_argnums_and_trees():
    def f(p, x, y):
        return p["w"] * x * jnp.sum(y)

    p, x, y = {"w": 2.0, "b": 1.0}, 3.0, np.array([1.0, 2.0])
    assert tree_map(float, grad(f)(p, x, y)) == {"w": 9.0, "b": 0.0}
    assert float(grad(f, 1)(p, x, y)) == 6.0
    gp, gy = grad(f, (0, -1))(p, x, y)
    assert tree_map(float, gp) == {"w": 9.0, "b": 0.0} and gy.tolist() == [6.0, 6.0]
    value, (gx,) = value_and_grad(f, argnums=(1,))(p, x, y)
    assert float(value) == 18.0 and float(gx) == 6.0


def test_has_aux():
    f = lambda x: (x * x, {"twice": 2 * x})
    (value, aux), g = value_and_grad(f, has_aux=True)(3.0)
    assert (float(value), float(aux["twice"]), float(g)) == (9.0, 6.0, 6.0)
    g, aux = grad(f, has_aux=True)(3.0)
    assert (float(g), float(aux["twice"])) == (6.0, 6.0)


def test_keyword_arguments_are_not_differentiated():
    assert grad(lambda x, scale: x * scale)(1.0, scale=3.0) == 3.0


def test_integers_get_float0():
    g = grad(lambda n, x: x * n, argnums=(0, 1), allow_int=True)(3, 2.0)
    assert g[0].dtype == np.dtype([("float0", np.void, 0)]) and g[1] == 3.0


def test_holomorphic():
    g = grad(lambda z: z**3, holomorphic=True)(1 + 2j)
    assert np.isclose(g, 3 * (1 + 2j) ** 2)


def test_a_pull_back_can_leave_a_jitted_function():
    @jit
    def forward(x):
        return vjp(jnp.sin, x)

    y, pull_back = forward(np.ones(3))
    np.testing.assert_allclose(pull_back(np.ones(3))[0], np.cos(np.ones(3)))


def test_a_jitted_gradient_traces_once():
    g = jit(grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)))
    for i in range(4):
        g(np.arange(3.0) + i)
    assert len(g.traces) == 1


def test_third_order():
    f = lambda x: jnp.sin(x) * x**3
    third = grad(grad(grad(f)))(0.5)
    x = 0.5
    wanted = (
        6 * np.sin(x) + 18 * x * np.cos(x) - 9 * x**2 * np.sin(x) - x**3 * np.cos(x)
    )
    assert np.isclose(third, wanted)


def test_linear_transpose():
    f = lambda x: lax.reduce_sum(lax.reshape(x, (2, 3)), (1,))
    back, = linear_transpose(f, np.ones(6))(np.array([1.0, 2.0]))
    assert back.tolist() == [1, 1, 1, 2, 2, 2]


# ---- errors


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: grad(lambda x: x)(np.ones(2)), ["scalar-output", "(2,)", "jacrev"]),
        (lambda: grad(lambda x: (x, x))(1.0), ["scalar-output"]),
        (lambda: grad(lambda x: x)(1), ["real- or complex-valued", "int64"]),
        (lambda: grad(lambda x: x > 0)(1.0), ["real", "bool"]),
        (lambda: grad(lambda x: x * 1j)(1.0), ["complex128"]),
        (lambda: grad(lambda x: x, holomorphic=True)(1.0), ["complex dtype"]),
        (lambda: grad(lambda x: x, argnums=2)(1.0), ["argnums=2", "only 1"]),
        (lambda: grad(lambda x: x, has_aux=True)(1.0), ["pair"]),
    ],
)
def test_errors_of_grad(call, words):
    with pytest.raises(TypeError) as error:
        call()
    for word in words:
        assert word in str(error.value)


def test_errors_of_a_pull_back():
    _, pull_back = vjp(lambda x: {"y": x * 2}, np.ones(3))
    with pytest.raises(ValueError, match="structure"):
        pull_back(np.ones(3))
    with pytest.raises(ValueError, match=r"f64\[2\].*f64\[3\]"):
        pull_back({"y": np.ones(2)})


# ---- check_grads itself


def test_check_grads_finds_a_wrong_derivative():
    from minijit import custom_jvp

    @custom_jvp
    def wrong(x):
        return jnp.sin(x)

    wrong.defjvp(lambda primals, tangents: (wrong(*primals), tangents[0] * 0.9))
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match=mode):
            check_grads(wrong, (1.0,), order=1, modes=(mode,))
    check_grads(jnp.sin, (1.0,), order=3)


def test_check_grads_finds_a_second_order_that_is_wrong():
    from minijit import custom_jvp

    @custom_jvp
    def wrong(x):
        return jnp.sin(x)

    stop = custom_jvp(lambda x: x)
    stop.defjvp(lambda primals, tangents: (primals[0], 0.0 * tangents[0]))
    wrong.defjvp(lambda p, t: (wrong(*p), t[0] * jnp.cos(stop(p[0]))))
    check_grads(wrong, (1.0,), order=1)
    with pytest.raises(AssertionError):
        check_grads(wrong, (1.0,), order=2)


def test_check_vjp_with_a_wrong_transpose():
    def wrong(x):
        return jnp.sin(x), lambda ct: (ct * 0.0,)

    check_vjp(jnp.sin, partial(vjp, jnp.sin), (1.0,))
    with pytest.raises(AssertionError, match="vjp"):
        check_vjp(jnp.sin, wrong, (1.0,))
