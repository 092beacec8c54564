"""Linear algebra: values and derivatives are JAX's, and what LAPACK refuses is NaN."""

import numpy as np
import pytest
from harness import refused

import minijit as mj
import minijit.numpy as jnp
from minijit.ops import linalg
from minijit.trace.api.stages import all_eqns
from minijit.tree_util import tree_leaves

pytestmark = pytest.mark.chapter(16)

random = np.random.default_rng(1)


def R(*shape):
    return random.normal(size=shape)


def C(*shape):
    return random.normal(size=shape) + 1j * random.normal(size=shape)


def positive(a):
    """A positive definite matrix."""
    return a @ a.swapaxes(-1, -2).conj() + np.eye(a.shape[-1])


singular = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])

# (name in jnp.linalg, arguments, keywords): the arguments are differentiated.
cases = [
    ("cholesky", (positive(R(2, 3, 3)),), {}),
    ("cholesky", (positive(C(3, 3)),), {"upper": True}),
    ("cond", (R(3, 3),), {}),
    ("cond", (R(3, 3),), {"p": 1}),
    ("det", (R(2, 4, 4),), {}),
    ("det", (C(3, 3),), {}),
    ("det", (singular,), {}),
    ("det", (np.ones((3, 3)),), {}),
    ("eigh", (positive(C(3, 3)),), {}),
    ("eigvals", (C(3, 3),), {}),
    ("eigvalsh", (positive(R(2, 3, 3)),), {}),
    ("inv", (C(3, 3),), {}),
    ("lstsq", (R(5, 3), R(5)), {}),
    ("lstsq", (R(3, 5), R(3, 2)), {}),
    ("lstsq", (singular, R(3)), {}),
    ("matrix_norm", (R(2, 3, 4),), {"ord": 2}),
    ("matrix_power", (R(3, 3),), {"n": -2}),
    ("norm", (R(3, 4),), {"ord": "nuc"}),
    ("norm", (R(2, 3, 4),), {"ord": -2, "axis": (0, 2), "keepdims": True}),
    ("pinv", (R(2, 3, 4),), {}),
    ("pinv", (singular,), {}),
    ("qr", (C(4, 3),), {}),
    ("qr", (R(2, 3, 4),), {}),
    ("qr", (R(4, 3),), {"mode": "complete"}),
    ("qr", (R(4, 3),), {"mode": "r"}),
    ("slogdet", (R(2, 4, 4),), {}),
    ("slogdet", (C(4, 4),), {}),
    ("slogdet", (singular,), {}),
    ("solve", (R(3, 3), R(3)), {}),
    ("solve", (C(3, 3), R(2, 3, 4)), {}),
    ("svd", (R(2, 3, 5),), {"full_matrices": False}),
    ("svd", (C(4, 4),), {}),
    ("svd", (positive(C(4, 4)),), {"hermitian": True}),
    ("svdvals", (C(3, 4),), {}),
    ("tensorinv", (R(2, 3, 6),), {"ind": 2}),
    ("tensorsolve", (R(3, 2, 2, 3), R(3, 2)), {}),
]
numbered = [pytest.param(*c, id=f"{i}-{c[0]}") for i, c in enumerate(cases)]


def total(module, name, kwargs):
    """A real number made of all results; the signs of vectors do not matter in it."""

    def f(*args):
        found = getattr(module.linalg, name)(*args, **kwargs)
        found = found if isinstance(found, tuple) else (found,)
        parts = [abs(y) ** 2 for y in found if y.dtype.kind in "fc"]
        weights = [np.cos(np.arange(y.size)).reshape(y.shape) for y in parts]
        return sum((y * w).sum() for y, w in zip(parts, weights, strict=True))

    return f


@pytest.mark.parametrize("name, args, kwargs", numbered)
def test_values_and_derivatives(name, args, kwargs, in_double_precision):
    """NumPy's values, up to the signs of vectors, and difference quotients."""
    got = tree_leaves(getattr(jnp.linalg, name)(*args, **kwargs))
    if name == "lstsq":
        want = [np.linalg.pinv(args[0]) @ args[1]]
    elif name == "matrix_norm":
        want = [np.linalg.norm(*args, ord=2, axis=(-2, -1))]
    elif name == "solve" and args[1].ndim == 1:
        want = [np.linalg.solve(args[0], args[1])]
    else:
        want = getattr(np.linalg, name)(*args, **kwargs)
        want = want if isinstance(want, tuple) else [want]
    for x, y in zip(got, want, strict=name != "lstsq"):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(abs(np.asarray(x)), abs(y), 1e-9, 1e-9)
    if np.isinf(np.asarray(got[-1])).any():
        return  # the logarithm of the determinant of a singular matrix
    f, (x, *rest) = total(jnp, name, kwargs), args
    if name == "pinv" and x is singular or name == "lstsq" and x is singular:
        return  # no derivative: its rank changes nearby
    t = np.cos(np.arange(x.size)).reshape(x.shape)
    if name in ("cholesky", "eigh", "eigvalsh") or kwargs.get("hermitian"):
        t = t + t.swapaxes(-1, -2)
    slope = (np.asarray(mj.grad(f)(x, *rest)) * t).sum().real
    want = (f(x + 1e-6 * t, *rest) - f(x - 1e-6 * t, *rest)) / 2e-6
    np.testing.assert_allclose(slope, want, 2e-5, 2e-5)


def test_eigenvectors(in_double_precision):
    a = R(2, 4, 4)
    w, v = jnp.linalg.eig(a)
    np.testing.assert_allclose(a @ v, v * w[:, None], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1.0)


second_order = {"cholesky", "det", "eigvalsh", "lstsq", "pinv", "solve", "svd"}


@pytest.mark.parametrize("name", sorted(second_order))
def test_second_derivatives(name, in_double_precision):
    """Forward over reverse is the difference of gradients."""
    of_name = (c for c in cases if c[0] == name)
    _, args, kwargs = next(c for c in of_name if c[1][0].dtype.kind == "f")
    x, *rest = args
    slope = lambda x: mj.grad(total(jnp, name, kwargs))(x, *rest)
    t = np.cos(np.arange(x.size)).reshape(x.shape)
    _, got = mj.jvp(slope, (x,), (t,))
    want = (slope(x + 1e-6 * t) - slope(x - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose(got, want, 1e-4, 1e-4 * np.abs(want).max())


@pytest.mark.parametrize("left_side", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("conjugate_a", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_triangular_solve(
    left_side, lower, transpose_a, conjugate_a, unit_diagonal, in_double_precision
):
    flags = dict(
        left_side=left_side, lower=lower, transpose_a=transpose_a,
        conjugate_a=conjugate_a, unit_diagonal=unit_diagonal,
    )  # fmt: skip
    a, b = C(2, 3, 3), C(2, 3, 3)
    x = np.asarray(linalg.triangular_solve(a, b, **flags))
    full = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        full = full - full * np.eye(3) + np.eye(3)
    full = full.swapaxes(-1, -2) if transpose_a else full
    full = full.conj() if conjugate_a else full
    np.testing.assert_allclose(full @ x if left_side else x @ full, b, 1e-9, 1e-9)
    # It is linear in b, and its transpose is a solution too.
    solve = lambda b: linalg.triangular_solve(a, b, **flags)
    back, = mj.linear_transpose(solve, b)(b)
    inner = (np.asarray(back) * b).sum() - (b * x).sum()
    assert abs(inner) < 1e-9
    shared = mj.vmap(lambda b: linalg.triangular_solve(a[0], b, **flags))(b)
    np.testing.assert_allclose(shared[0], x[0], 1e-9, 1e-9)


@pytest.mark.parametrize("shape", [(300, 3), (3, 300)])
@pytest.mark.parametrize("name", ["svd", "pinv", "qr"])
def test_a_gradient_makes_no_square_of_the_longer_side(name, shape):
    options = {"full_matrices": False} if name == "svd" else {}
    f = lambda x: sum((r * r).sum() for r in tree_leaves(f_of(x, **options)))
    f_of = getattr(jnp.linalg, name)
    closed = mj.make_jaxpr(mj.grad(f))(R(*shape))
    largest = max(v.aval.size for eqn in all_eqns(closed.jaxpr) for v in eqn.outvars)
    assert largest == 900


def test_what_cannot_be_decomposed_is_nan():
    assert np.isnan(jnp.linalg.cholesky(-np.eye(2))).any()
    bad = np.full((2, 2), np.nan)
    assert np.isnan(jnp.linalg.svdvals(bad)).all()
    assert np.isnan(jnp.linalg.eigvalsh(bad)).all()
    assert np.isnan(jnp.linalg.eigvals(bad)).all()
    assert not np.isfinite(jnp.linalg.solve(np.zeros((2, 2)), np.ones(2))).any()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)])
def test_empty_batches_and_matrices(shape):
    x = np.zeros(shape, np.float32)
    assert jnp.linalg.inv(x).shape == shape
    assert jnp.linalg.svdvals(x).shape == shape[:-1]
    assert jnp.linalg.qr(x).R.shape == shape
    assert jnp.linalg.eigvals(x).dtype == np.complex64
    assert jnp.linalg.det(x).shape == shape[:-2]
    norm = jnp.linalg.matrix_norm(x, ord=2)
    assert norm.shape == shape[:-2] and not norm.any()


def test_a_batch_of_complex_matrices_is_one_call(monkeypatch):
    x, shapes = C(3, 2, 4, 4), []
    values = mj.jit(lambda x: jnp.linalg.svd(x, compute_uv=False))
    want, svd = np.linalg.svd(x, compute_uv=False), np.linalg.svd
    monkeypatch.setattr(
        np.linalg, "svd", lambda x, *how: shapes.append(x.shape) or svd(x, *how)
    )
    np.testing.assert_allclose(values(x), want, 1e-4)
    assert shapes == [x.shape]
    x[1, 1] = np.nan  # This one alone has no values.
    np.testing.assert_allclose(np.isnan(values(x)).sum(2), [[0, 0], [0, 4], [0, 0]])


def test_rank():
    assert jnp.linalg.matrix_rank(singular) == 2
    assert jnp.linalg.matrix_rank(singular, tol=10.0) == 0
    assert jnp.linalg.matrix_rank(np.zeros((2, 4, 3))).tolist() == [0, 0]
    assert jnp.linalg.matrix_rank(np.ones(3)) == 1


@pytest.mark.chapter(20)
@pytest.mark.parametrize("n", [2, 3])
def test_determinants_of_the_smallest_matrices_are_products(n):
    x = np.random.default_rng(n).normal(size=(2000, n, n)).astype("f4")
    compiled = mj.jit(jnp.linalg.det).lower(x).compile()
    assert len(compiled.explain().kernels) == 1
    assert "lu" not in str(compiled.explain())
    np.testing.assert_allclose(compiled(x), np.linalg.det(x), 1e-4, 1e-5)
    slope = mj.grad(lambda x: jnp.linalg.det(x).sum())(x)
    adjugate = np.linalg.det(x)[:, None, None] * np.linalg.inv(x)
    np.testing.assert_allclose(slope, adjugate.swapaxes(1, 2), 1e-3, 1e-3)


@pytest.mark.parametrize("x", [R(5, 5), R(7, 3), C(4, 3)], ids=["", "tall", "complex"])
def test_polar_form(x, in_double_precision):
    u, h, steps, has_converged = linalg.qdwh(x)
    assert has_converged and 3 < steps < 9
    np.testing.assert_allclose(u @ h, x, atol=1e-12)
    np.testing.assert_allclose(np.conj(u).T @ u, np.eye(x.shape[1]), atol=1e-12)
    assert (np.linalg.eigvalsh(h) > 0).all() and np.allclose(h, np.conj(h).T)
    assert not linalg.qdwh(x, max_iterations=2)[3]
    refused(ValueError, "must have M >= N", linalg.qdwh, np.ones((2, 3)))


@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (0, 3)])
def test_the_raw_form_of_qr(shape):
    """Reflections that `ormqr` multiplies with: q^H a is r."""
    a = random.normal(size=shape).astype("f4")
    h, taus = jnp.linalg.qr(a, mode="raw")
    assert h.shape == (*shape[:-2], shape[-1], shape[-2])
    assert taus.shape == (*shape[:-2], min(shape[-2:]))
    r = linalg.ormqr(h.mT, taus, a, transpose=True)
    np.testing.assert_allclose(r, np.triu(h.mT), 1e-4, 1e-4)


def test_pivots_of_more_rows_than_there_are():
    with pytest.raises(ValueError, match="size 2 has to exceed .* Got pivots size 3"):
        linalg.lu_pivots_to_permutation(np.int32([0, 1, 2]), 2)


def test_a_system_outside_jit_is_one_program(monkeypatch):
    """Its solvers are recorded once for a shape, and no matrix comes to Python."""
    recorded = []
    solve = jnp.linalg.decompositions.solve

    def counted(a, b):
        recorded.append(a.shape)
        return solve(a, b)

    monkeypatch.setattr(jnp.linalg.decompositions, "solve", counted)
    a, b = R(7, 3, 3), R(7, 3, 2)
    for _ in range(4):
        x = jnp.linalg.solve(a + 4 * np.eye(3), b)
        u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        values = jnp.linalg.svd(a, compute_uv=False)
    assert len(recorded) == 1
    assert jnp.linalg.solve.traces[-1].call == "(a: float32[7,3,3], b: float32[7,3,2])"
    np.testing.assert_allclose((a + 4 * np.eye(3)) @ x, b, 1e-4, 1e-4)
    np.testing.assert_allclose(u * s[:, None] @ vh, a, 1e-4, 1e-4)
    np.testing.assert_allclose(values, s, 1e-4, 1e-4)
    # What is differentiated or batched step by step has no program around it.
    mapped = mj.vmap(jnp.linalg.inv)(a + 4 * np.eye(3))
    np.testing.assert_allclose(mapped @ (a + 4 * np.eye(3)) - np.eye(3), 0, 0, 1e-3)
    refused(ValueError, "must have 3 rows", jnp.linalg.solve, a, b[:, :2])
