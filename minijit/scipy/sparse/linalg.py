"""Linear systems solved by products with a matrix, or a function in its place.

    x, _ = cg(lambda v: a @ v, b)

Unknowns are pytrees; inside they are vectors.  Solutions are differentiated as such:
the gradient solves the transposed system, by the same method.
"""

import functools
import operator

import numpy as np

from ... import lax, numpy as jnp
from ...flatten_util import ravel_pytree
from ...trace.api import calls
from ...trace.core import Array
from ...trace.trees.pytree import tree_leaves, tree_map, tree_structure
from ..linalg import solve


def product_by(f):
    """v -> f @ v of a square matrix; a function is one already."""
    if callable(f):
        return f
    if isinstance(f, (np.ndarray, Array)) or hasattr(f, "__matmul__"):
        if len(f.shape) != 2 or f.shape[0] != f.shape[1]:
            raise ValueError(
                f"linear operator must be a square matrix, but has shape: {f.shape}"
            )
        return lambda v: f @ v
    raise TypeError(f"linear operator must be either a function or ndarray: {f}")


def dot(x, y):
    """The real part of conj(x) . y."""
    return jnp.vdot(x, y).real


def solved(method, A, b, x0, tol, atol, maxiter, M, symmetric=False):
    """Solve A(x) = b by method(A, b, x0, atol, maxiter, M), all of them of vectors."""
    A = product_by(A)
    M = product_by((lambda x: x) if M is None else M)
    x0 = tree_map(lambda x: jnp.zeros_like(x), b) if x0 is None else x0
    if tree_structure(x0) != tree_structure(b):
        raise ValueError(
            "x0 and b must have matching tree structure: "
            f"{tree_structure(x0)} vs {tree_structure(b)}"
        )
    shapes = [[np.shape(x) for x in tree_leaves(t)] for t in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}"
        )
    vector, unravel = ravel_pytree(b)
    start = ravel_pytree(x0)[0].astype(vector.dtype)
    flat = lambda f: lambda v: ravel_pytree(f(unravel(v)))[0]
    maxiter = 10 * vector.size if maxiter is None else maxiter
    size = jnp.sqrt(dot(vector, vector))
    allowed = jnp.maximum(tol * size, atol)
    solver = functools.partial(
        method, x0=start, atol=allowed, maxiter=maxiter, M=flat(M)
    )
    run = lambda matvec, b: solver(matvec, b)
    is_real = vector.dtype.kind != "c"
    x = lax.custom_linear_solve(
        flat(A), vector, run, run, symmetric=symmetric and is_real
    )
    return unravel(x)


def by_gradients(A, b, x0, atol, maxiter, M):
    """Conjugate gradients: Hestenes and Stiefel, 1952, with a preconditioner."""

    def unfinished(state):
        _, r, _, _, k = state
        return (dot(r, r) > atol**2) & (k < maxiter)

    def step(state):
        x, r, gamma, p, k = state
        q = A(p)
        alpha = (gamma / dot(p, q)).astype(b.dtype)
        x, r = x + alpha * p, r - alpha * q
        z = M(r)
        new = dot(r, z)
        return x, r, new, z + (new / gamma).astype(b.dtype) * p, k + 1

    r = b - A(x0)
    z = M(r)
    return lax.while_loop(unfinished, step, (x0, r, dot(r, z), z, 0))[0]


def by_two_gradients(A, b, x0, atol, maxiter, M):
    """BiCGSTAB: van der Vorst, 1992."""

    def unfinished(state):
        _, r, *_, k = state
        return (dot(r, r) > atol**2) & (k < maxiter) & (k >= 0)

    def step(state):
        x, r, alpha, omega, rho, p, q, k = state
        new = jnp.vdot(shadow, r)
        p = r + new / rho * alpha / omega * (p - omega * q)
        direction = M(p)
        q = A(direction)
        alpha = new / jnp.vdot(shadow, q)
        s = r - alpha * q
        early = dot(s, s) < atol**2
        turned = M(s)
        t = A(turned)
        omega = jnp.vdot(t, s) / jnp.vdot(t, t)
        x = x + alpha * direction + jnp.where(early, 0, omega * turned)
        r = jnp.where(early, s, s - omega * t)
        broken = (omega == 0) | (alpha == 0) | (new == 0)
        return x, r, alpha, omega, new, p, q, jnp.where(broken & ~early, -1, k + 1)

    shadow = b - A(x0)
    one = jnp.ones((), b.dtype)
    start = x0, shadow, one, one, one, shadow, shadow, 0
    return lax.while_loop(unfinished, step, start)[0]


def by_residuals(A, b, x0, atol, maxiter, M, restart):
    """GMRES: Saad and Schultz, 1986.  Each round spans a space of `restart` vectors."""
    restart = min(restart, b.size)
    eps = float(jnp.finfo(b.dtype).eps)

    def residual(x):
        r = M(b - A(x))
        return r, jnp.sqrt(dot(r, r))

    def one_more(k, spaces):
        basis, images = spaces
        v = M(A(basis[k]))
        size = jnp.sqrt(dot(v, v))
        h = jnp.zeros(restart + 1, b.dtype)
        # Gram and Schmidt, twice, for what the first time leaves.
        for _ in range(2):
            part = jnp.conj(basis) @ v
            v, h = v - part @ basis, h + part
        rest = jnp.sqrt(dot(v, v))
        new = rest > eps * size
        unit = jnp.where(new, v / jnp.where(new, rest, 1), 0)
        h = h.at[k + 1].set(jnp.where(new, rest, 0).astype(b.dtype))
        return basis.at[k + 1].set(unit), images.at[k].set(h)

    def round(state):
        x, r, size, k = state
        basis = jnp.zeros((restart + 1, b.size), b.dtype).at[0].set(r / size)
        images = jnp.eye(restart, restart + 1, dtype=b.dtype)
        basis, images = lax.fori_loop(0, restart, one_more, (basis, images))
        target = jnp.zeros(restart + 1, b.dtype).at[0].set(size.astype(b.dtype))
        h = images.T
        # Directions that are not there have no image: they get no weight.
        square = jnp.conj(h).T @ h
        empty = (jnp.abs(jnp.diag(square)) == 0).astype(b.dtype)
        y = solve(square + jnp.diag(empty), jnp.conj(h).T @ target, assume_a="pos")
        x = x + y @ basis[:-1]
        return x, *residual(x), k + 1

    unfinished = lambda state: (state[2] > atol) & (state[3] < maxiter)
    return lax.while_loop(unfinished, round, (x0, *residual(x0), 0))[0]


def cg(A, b, x0=None, *, tol=1e-5, atol=0.0, maxiter=None, M=None):
    """(x with A(x) = b for Hermitian positive definite A, None).

    Args:
      A: a square matrix, or a linear function of pytrees like b.
      x0: where to begin, by default zero.
      tol, atol: the norm of the residual may be max(tol * norm(b), atol).
      maxiter: by default ten times the number of unknowns.
      M: a function or matrix near the inverse of A.
    """
    return solved(by_gradients, A, b, x0, tol, atol, maxiter, M, symmetric=True), None


def bicgstab(A, b, x0=None, *, tol=1e-5, atol=0.0, maxiter=None, M=None):
    """(x with A(x) = b for any A, None); see `cg`."""
    return solved(by_two_gradients, A, b, x0, tol, atol, maxiter, M), None


def gmres(
    A, b, x0=None, *, tol=1e-5, atol=0.0, restart=20, maxiter=None, M=None,
    solve_method="batched",
):  # fmt: skip
    """(x with A(x) = b for any A, 0 or -1 if it failed); see `cg`.

    Args:
      restart: how many vectors a round uses; solve_method: "batched" or "incremental",
        which is the same here.
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or "
            "'batched'"
        )
    method = functools.partial(by_residuals, restart=operator.index(restart))
    x = solved(method, A, b, x0, tol, atol, maxiter, M)
    return x, jnp.where(jnp.isnan(ravel_pytree(x)[0]).any(), -1, 0)


calls.publish(globals(), "bicgstab cg gmres")
