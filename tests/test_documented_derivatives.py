"""What JAX's pages on differentiation say its functions do, program by program.

Each test is one behaviour that a page relies on, with a program and numbers of its own.
"""

from functools import partial

import numpy as np
import pytest
from harness import alike, refused
from referee import together

import minijit as mj
import minijit.numpy as jnp
from minijit import grad, jacfwd, jacrev, jit, linear_transpose, vjp, vmap

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("no_words_of_the_test")]

points = np.array([[0.2, -1.0, 0.7], [1.5, 0.3, -0.4]], np.float32)


close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)


# ---- Jacobians, Hessians, products with them


def test_both_passes_as_functions():
    layer = lambda w, x: jnp.tanh(x @ w)
    forward, backward = mj.fwd_and_bwd(layer, argnums=(0, 1))
    w = np.full((3, 3), 0.2, np.float32)
    for scale in (1, 2, 3):
        y, residuals = forward(scale * w, points)
        close(y, layer(scale * w, points))
        found = backward(residuals, jnp.ones_like(y))
        wanted = grad(lambda w, x: layer(w, x).sum(), (0, 1))(scale * w, points)
        close(found[0], wanted[0])
        close(found[1], wanted[1])
    assert len(forward.traces) == len(backward.traces) == 1
    forward, backward = mj.fwd_and_bwd(lambda x, k: (x**k, k), 0, True, jitted=False)
    y, residuals, aux = forward(3.0, 2)
    assert (y, aux, backward(residuals, 1.0)) == (9.0, 2, 6.0)


def test_jacobians_with_integers_are_zero_there():
    f = lambda x, n: (x * n, n)
    x, n = np.ones(2, "float32"), np.arange(2)
    by_x, by_n = jacrev(lambda x, n: x * n, (0, 1), allow_int=True)(x, n)
    assert by_x.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert by_n.dtype == np.int32 and not by_n.any() and by_n.shape == (2, 2)
    of_floats, of_integers = jacfwd(f)(x, n)
    assert of_floats.shape == of_integers.shape == (2, 2)
    assert of_integers.dtype == np.int32 and not of_integers.any()


# ---- linear functions


@pytest.mark.parametrize("f, culprit", [
    (jnp.sin, "sin"),
    (lambda x: x * x, "mul"),
    (lambda x: 1 / x, "div"),
    (lambda x: jit(jnp.exp)(x), "jit"),
    (lambda x: jnp.maximum(x, 0.0), "max"),
])  # fmt: skip
def test_linear_transpose_of_what_is_not_linear(f, culprit):
    with pytest.raises(NotImplementedError, match=f"needs a linear.*{culprit}"):
        linear_transpose(f, 1.0)(1.0)


def test_cotangents_that_do_not_fit():
    to = linear_transpose(lambda x: 2 * x, np.float32(0))
    refused(TypeError, "cotangent type", to, np.ones(3, "float32"))
    refused(TypeError, "cotangent tree", to, (1.0,))
    with pytest.raises(ValueError, match="unexpected JAX type"):
        vjp(jnp.sin, 1.0)[1](np.zeros((), mj.float0))


# ---- derivatives of library functions, of second and third order


def second(f, *x):
    return float(grad(grad(f))(*x))


def test_second_derivatives_where_a_formula_has_a_corner():
    """Each is smooth there, whatever it is computed from."""
    for x in (0.0, 3.0):
        close(second(jnp.logaddexp, x, x), 0.25)
        close(second(jnp.logaddexp2, x, x), np.log(2) / 4)
        close(grad(grad(jnp.logaddexp), 1)(x, x), -0.25)
    close(second(mj.nn.softplus, 0.0), 0.25)
    close(second(mj.nn.log_sigmoid, 0.0), -0.25)
    close(second(jnp.sinc, 0.0), -np.pi**2 / 3)
    close(grad(grad(grad(grad(jnp.sinc))))(0.0), np.pi**4 / 5)
    close(grad(jnp.i0)(0.0), 0.0)
    close(second(jnp.i0, 0.0), 0.5)


@pytest.mark.parametrize(
    "x, y", [(np.inf, 1.0), (1.0, np.inf), (np.inf, np.inf), (-np.inf, 1.0)]
)
def test_logaddexp_of_infinities(x, y):
    """e**x is all of the sum, or none of it; two infinities have all of it each."""
    gx, gy = grad(jnp.logaddexp, (0, 1))(x, y)
    assert gx == (1.0 if x >= y else 0.0)
    assert gy == (1.0 if y >= x else 0.0)


def test_derivatives_by_parameters_of_special_functions():
    """Far from where a series is short, and against closed forms."""
    from minijit.scipy import special

    with mj.enable_x64(True):
        # At (1, 1): the integral of exp(-t) log(t) up to 1, and Euler's constant.
        wanted = -0.7965995992970531 + np.euler_gamma * (1 - np.exp(-1))
        close(grad(special.gammainc)(1.0, 1.0), wanted, rtol=1e-12)
        a = np.array([0.01, 0.5, 3.0, 30.0, 900.0, 1e4])
        for x in (a / 2, a, a + 1, 2 * a):
            by_a = vmap(grad(special.gammainc))(a, x)
            eps = 1e-5 * a
            difference = special.gammainc(a + eps, x) - special.gammainc(a - eps, x)
            close(by_a, difference / (2 * eps), rtol=1e-7)
            close(vmap(grad(special.gammaincc))(a, x), -by_a, rtol=1e-12)
        # zeta(s, 1): at s = 2, the derivative is -sum of log(n) / n**2.
        close(grad(special.zeta)(2.0, 1.0), -0.9375482543158438, rtol=1e-12)
        n = np.arange(1.0, 4000)
        wanted = (np.log(n) ** 2 / n**6).sum()
        close(grad(grad(special.zeta))(6.0, 1.0), wanted, rtol=1e-10)
    with pytest.raises(NotImplementedError, match="betainc by its parameter"):
        grad(special.betainc)(1.0, 2.0, 0.5)


# ---- the oracle: dtypes, weak types and structures, all at once

programs = {
    "grad": lambda m, n: m.grad(n.sin)(2.0),
    "constant": lambda m, n: m.grad(lambda x: 3.0)(2.0),
    "jvp": lambda m, n: m.jvp(lambda x: n.where(x > 0, x, 0.0), (2.0,), (1.0,))[1],
    "jacobians": lambda m, n: [
        jac(lambda d: {"s": d["a"] ** 2 * d["b"]})({"a": 2.0, "b": np.ones(2, "f")})
        for jac in (m.jacfwd, m.jacrev)
    ],
    "hessian": lambda m, n: m.hessian(lambda x, y: x * y, (0, 1))(2.0, np.float32(1)),
    "holomorphic": lambda m, n: m.grad(n.sin, holomorphic=True)(1j),
    "mixed": lambda m, n: m.grad(
        lambda x: (x * n.ones(3, n.bfloat16)).sum().astype("float32")
    )(2.0),
    "jit": lambda m, n: m.jit(m.value_and_grad(lambda x: x * 2))(1.0),
    "integers": lambda m, n: m.grad(lambda x, k: x * k)(2.0, 3),
    "vjp": lambda m, n: m.vjp(lambda x, y: x * y, 2.0, n.ones(2))[1](n.ones(2)),
    "linear_transpose": lambda m, n: m.linear_transpose(lambda x: 3 * x + 1, 0.0)(2.0),
}


@pytest.mark.oracle
def test_types_are_those_of_jax():
    jax = pytest.importorskip("jax")
    asked = {name: (partial(f, jax, jax.numpy),) for name, f in programs.items()}
    for name, want in together(asked).items():
        found = programs[name](mj, jnp)
        assert str(mj.tree.structure(found)) == str(jax.tree.structure(want)), name
        alike(found, want, name, 1e-5, 1e-5, weak=True)
