"""custom_root and custom_linear_solve: derivatives that no solver's steps go into."""

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.transform.control_flow.unions_and_tapes import TapeValue

pytestmark = [pytest.mark.chapter(12), pytest.mark.usefixtures("interpreted_doubles")]


# ---- solvers, of either library


def bisect(lax, f, guess):
    """The root between 0 and 8 of a rising function of a scalar.  Of no use to a
    derivative: its steps are comparisons."""

    def step(state):
        low, high, i = state
        middle = (low + high) / 2
        above = f(middle) > 0
        return (
            lax.select(above, low, middle),
            lax.select(above, middle, high),
            i + 1,
        )

    start = guess * 0, guess * 0 + 8, 0
    low, high, _ = lax.while_loop(lambda state: state[2] < 60, step, start)
    return (low + high) / 2


def conjugate_gradients(lax, matvec, b):
    """For symmetric positive matrices: as many steps as there are unknowns.  A right
    side of zeros is none's fault: half of a vmap may have no cotangent."""

    def step(i, state):
        x, r, p, size = state
        through = matvec(p)
        length = size / ((p * through).sum() + (size == 0))
        r = r - length * through
        new = (r * r).sum()
        return x + length * p, r, r + new / (size + (size == 0)) * p, new

    return lax.fori_loop(0, 3, step, (b * 0, b, b, (b * b).sum()))[0]


def relax(lax, matvec, b):
    """For matrices near the identity, not symmetric: x = x + b - A x."""
    step = lambda i, x: x + b - matvec(x)
    return lax.fori_loop(0, 80, step, b * 0)


spd = np.array([[3.0, 1.0, 0.2], [1.0, 2.0, 0.5], [0.2, 0.5, 4.0]])
skew = np.eye(3) + np.array([[0.1, 0.3, 0.0], [-0.2, 0.1, 0.1], [0.3, 0.0, 0.2]])
rhs = np.array([1.0, -2.0, 0.5])


def cube_root(lib, a):
    f = lambda x: x * x * x - a
    solve = lambda f, guess: bisect(lib, f, guess)
    return lib.custom_root(f, a * 0 + 1, solve, lambda g, y: y / g(1.0))


def symmetric_solve(lib, a, b):
    matvec = lambda x: (a + a.T) / 2 @ x
    solve = lambda matvec, b: conjugate_gradients(lib, matvec, b)
    return lib.custom_linear_solve(matvec, b, solve, symmetric=True)


def general_solve(lib, a, b):
    solve = lambda matvec, b: relax(lib, matvec, b)
    return lib.custom_linear_solve(lambda x: a @ x, b, solve, transpose_solve=solve)


# What is done, and what comes out of NumPy.
problems = {
    "root": (lambda x: cube_root(lax, x[0] * x[1] + 3.0), [rhs * 0.3]),
    "symmetric": (lambda a, b: jnp.sum(symmetric_solve(lax, a, b) ** 3), [spd, rhs]),
    "general": (lambda a, b: jnp.sum(general_solve(lax, a, b) ** 3), [skew, rhs]),
}
direct = {
    "root": lambda x: np.cbrt(x[0] * x[1] + 3.0),
    "symmetric": lambda a, b: np.sum(np.linalg.solve((a + a.T) / 2, b) ** 3),
    "general": lambda a, b: np.sum(np.linalg.solve(a, b) ** 3),
}


def differences(f, args, directions):
    """The derivative of a NumPy function in a direction."""
    h = 1e-5
    up, down = (
        f(*[x + s * h * u for x, u in zip(args, directions, strict=True)])
        for s in (1, -1)
    )
    return (up - down) / (2 * h)


def dot(gradients, directions):
    pairs = zip(gradients, directions, strict=True)
    return sum(jnp.sum(g * u) for g, u in pairs)


def by_grad(wrap=lambda f: f):
    """The derivative of f in a direction, by reverse mode."""

    def slope(f):
        every = lambda args: tuple(range(len(args)))
        return lambda args, us: dot(wrap(mj.grad(f, every(args)))(*args), us)

    return slope


ways = {
    "jvp": lambda f: lambda args, us: mj.jvp(f, tuple(args), tuple(us))[1],
    "linearize": lambda f: lambda args, us: mj.linearize(f, *args)[1](*us),
    "jit-jvp": lambda f: mj.jit(
        lambda args, us: mj.jvp(mj.jit(f), tuple(args), tuple(us))[1]
    ),
    "grad": by_grad(),
    "jit-grad": by_grad(mj.jit),
    "grad-jit": lambda f: by_grad()(mj.jit(f)),
    "grad-checkpoint": lambda f: by_grad()(mj.checkpoint(f)),
    "vmap-grad": lambda f: (
        lambda args, us: mj.vmap(by_grad()(f))(
            [np.stack([x, x * 0.9]) for x in args], [np.stack([u, u]) for u in us]
        )[0]
    ),
    "grad-vmap": lambda f: by_grad()(
        lambda *args: mj.vmap(f)(*[jnp.stack([x * 0.9, x]) for x in args])[1]
    ),
}


@pytest.mark.parametrize("way", ways)
@pytest.mark.parametrize("name", problems)
def test_first_derivatives(name, way):
    f, args = problems[name]
    directions = [np.cos(np.arange(x.size) + 1.0).reshape(x.shape) for x in args]
    np.testing.assert_allclose(f(*args), direct[name](*args), rtol=1e-10)
    want = differences(direct[name], args, directions)
    got = ways[way](f)(args, directions)
    np.testing.assert_allclose(got, want, rtol=1e-7)


inners = "jvp", "grad", "jit-grad"


@pytest.mark.parametrize("name, outer, inner", [
    (name, outer, inners[(i + k) % 3])
    for i, name in enumerate(problems)
    for k, outer in enumerate(["jvp", "grad", "grad-checkpoint", "grad-vmap"])
])  # fmt: skip
def test_second_derivatives(name, outer, inner):
    f, args = problems[name]
    directions = [np.cos(np.arange(x.size) + 1.0).reshape(x.shape) for x in args]
    slope = lambda *args: ways[inner](f)(args, directions)
    numeric = lambda *args: differences(direct[name], args, directions)
    got = ways[outer](slope)(args, directions)
    h = 1e-3
    up, down = (
        numeric(*[x + s * h * u for x, u in zip(args, directions, strict=True)])
        for s in (1, -1)
    )
    np.testing.assert_allclose(got, (up - down) / (2 * h), rtol=1e-3)


def test_no_step_of_a_solver_is_kept_or_reversed():
    """Sixty steps of bisection, and nothing of them among the residuals."""
    f, args = problems["root"]
    pull_back = mj.vjp(f, *args)[1]
    leaves = mj.tree.leaves(pull_back)
    assert not any(isinstance(x, TapeValue) for x in leaves)
    assert sum(np.asarray(x).nbytes for x in leaves) <= 64
    text = str(mj.make_jaxpr(mj.grad(f))(*args))
    assert text.count("while") == 1


def test_the_guess_has_no_derivative():
    def f(guess):
        solve = lambda f, x: bisect(lax, f, x)
        return lax.custom_root(lambda x: x - 2.0, guess, solve, lambda g, y: y)

    assert float(f(1.0)) == 2.0 and float(mj.grad(f)(1.0)) == 0.0
    assert float(mj.jvp(f, (1.0,), (1.0,))[1]) == 0.0


def test_forward_mode_needs_no_transpose():
    def f(b):
        solve = lambda matvec, b: b / 4.0
        return lax.custom_linear_solve(lambda x: 4.0 * x, b, solve)

    assert float(mj.jvp(f, (2.0,), (1.0,))[1]) == 0.25
    with pytest.raises(TypeError, match=r"needs transpose_solve, or symmetric=True"):
        mj.grad(f)(2.0)


def test_errors_name_the_function_and_the_leaf():
    b = {"p": jnp.ones(3), "q": jnp.ones(2)}
    same = lambda x: x
    solve = lambda f, x: x
    with pytest.raises(TypeError, match=r"custom_linear_solve: matvec must .*structur"):
        lax.custom_linear_solve(lambda x: x["p"], b, solve)
    with pytest.raises(ValueError, match=r"matvec .* result\['q'\] has type f.*\[3\]"):
        lax.custom_linear_solve(lambda x: x | {"q": x["p"]}, b, solve)
    with pytest.raises(ValueError, match=r"solve .* result\['p'\] has type f64\[1\]"):
        lax.custom_linear_solve(same, b, lambda f, x: x | {"p": x["p"][:1]})
    with pytest.raises(TypeError, match=r"transpose_solve must .* structure of b"):
        lax.custom_linear_solve(same, b, solve, lambda f, x: x["q"])
    with pytest.raises(TypeError, match=r"solve must return a pair .*has_aux=True"):
        lax.custom_linear_solve(same, b["p"], solve, has_aux=True)
    with pytest.raises(TypeError, match=r"result\['q'\] has type i32\[2\] in place of"):
        lax.custom_linear_solve(lambda x: x | {"q": x["q"].astype("i4")}, b, solve)
    with pytest.raises(TypeError, match=r"custom_root: f must .* of initial_guess"):
        lax.custom_root(lambda x: (x, x), 1.0, solve, lambda g, y: y)
    with pytest.raises(ValueError, match=r"custom_root: solve .* f64\[2\] in place of"):
        lax.custom_root(same, 1.0, lambda f, x: jnp.stack([x, x]), lambda g, y: y)
    with pytest.raises(TypeError, match=r"tangent_solve must .*structure"):
        lax.custom_root(same, 1.0, solve, lambda g, y: [y])
    with pytest.raises(TypeError, match=r"solve must return a pair .*has_aux=True"):
        lax.custom_root(same, 1.0, solve, lambda g, y: y, has_aux=True)
