"""Solutions to chapter 1."""

import numpy as np

from minijit.tiny import (
    Loops, Primitive, eval_rules, grad, jvp, linearize_rules, make_jaxpr, mul, sum, vjp,
    vmap,
)


def make_exp():
    exp = Primitive("exp")
    eval_rules[exp] = np.exp

    def rule(x):
        y = exp(x)
        return y, [lambda t: mul(t, y)]

    linearize_rules[exp] = rule
    return exp


def check_make_exp(make_exp):
    """A rule gives the value, and a list with one linear map; see that of tanh."""
    exp = make_exp()
    assert np.allclose(exp(0.5), np.exp(0.5))
    value, slope = jvp(exp, (0.5,), (2.0,))
    assert np.allclose(value, np.exp(0.5))
    assert np.allclose(slope, 2.0 * np.exp(0.5))
    assert np.allclose(grad(grad(exp))(0.5), np.exp(0.5))
    x = np.array([0.0, 1.0])
    assert np.allclose(vmap(grad(exp))(x), np.exp(x))
    assert "= exp(a[i])" in str(Loops(make_jaxpr(exp)(x)))


def jacobian(f, x):
    y, f_vjp = vjp(f, x)
    return vmap(lambda ct: f_vjp(ct)[0])(np.eye(len(y)))


def check_jacobian(jacobian):
    """f_vjp takes a cotangent to a tuple with one row; vmap makes it take a batch."""
    W = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert np.allclose(jacobian(lambda x: W @ x, np.ones(3)), W)
    x = np.array([1.0, 2.0, 3.0])
    assert np.allclose(jacobian(lambda x: x * x, x), np.diag(2.0 * x))
    runs = []

    def f(x):
        runs.append(1)
        return x * sum(x)

    expected = np.ones((3, 3)) * x[:, None] + 6.0 * np.eye(3)
    assert np.allclose(jacobian(f, x), expected)
    assert len(runs) == 1, "f is to be run once, for all rows"
