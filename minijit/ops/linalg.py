"""Decompositions of matrices, by LAPACK: under the names of `jax.lax.linalg`.

    l = cholesky(a)                         # a = l @ l.T
    q, r = qr(a)                            # a = q @ r
    u, s, vh = svd(a)                       # a = (u * s) @ vh
    v, w = eigh(a)                          # a @ v = v * w
    x = triangular_solve(l, b, left_side=True, lower=True)      # l @ x = b

Matrices stand in the last two axes; the axes before them are a batch.  LAPACK comes
with SciPy.  What it cannot decompose (a matrix that is not positive definite, one with
a NaN in it) gives NaN, as in JAX, and no error.
"""

import enum
import functools
import math
import operator
from functools import partial

import numpy as np

from ..trace import primitives as lax
from ..trace.api import calls
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.base import names as _names
from ..trace.base.errors import HERE
from ..trace.core import Primitive, eval_rules
from ..trace.jaxprs.jaxpr import fallbacks
from ..trace.numpy_values import real_part
from ..trace.plans import worth
from ..trace.shape_checks import check_kind
from ..trace.slicing import pad
from ..transform.batching.vmap import batch_rules, front_rule, in_front, move_axis
from ..transform.control_flow.api import while_loop
from ..transform.custom.implicit import custom_linear_solve
from ..transform.derivatives.linearize import linearize, linearize_rules
from ..transform.derivatives.transpose import adding, transpose_rules
from ..transform.stop_gradient import stop_gradient
from .complex_numbers import complex as to_complex, conj, real, to_complex as of_parts
from .sorting import take_along

cholesky_p, triangular_solve_p = map(Primitive, ["cholesky", "triangular_solve"])
lu_pivots_to_permutation_p = Primitive("lu_pivots_to_permutation")
several = partial(Primitive, multiple_results=True)
lu_p, qr_p, svd_p = map(several, ["lu", "qr", "svd"])
eigh_p, eig_p, schur_p = map(several, ["eigh", "eig", "schur"])
hessenberg_p, geqrf_p = map(several, ["hessenberg", "geqrf"])
householder_product_p = Primitive("householder_product")
tridiagonal_solve_p = Primitive("tridiagonal_solve")
tridiagonal_p = several("tridiagonal")

numbers = (np.float32, np.float64, np.complexfloating)
halves = (np.dtype("float16"), np.dtype("bfloat16"))
INT32 = np.dtype(np.int32)


# ---- matrices in the last two axes


def transposed(x):
    """Each matrix transposed."""
    n = aval_of(x).ndim
    return lax.transpose(x, (*range(n - 2), n - 1, n - 2))


def is_complex(x):
    return aval_of(x).dtype.kind == "c"


def adjoint(x):
    """Each matrix transposed and conjugated."""
    return conj(transposed(x)) if is_complex(x) else transposed(x)


def product(*factors):
    """The product of matrices, batch by batch, by as few multiplications as may be."""
    if len(factors) == 1:
        return factors[0]
    sizes = *(aval_of(x).shape[-2] for x in factors), aval_of(factors[-1]).shape[-1]
    _, k = fewest(sizes)
    x, y, n = product(*factors[:k]), product(*factors[k:]), aval_of(factors[0]).ndim
    batch = tuple(range(n - 2))
    return lax.dot_general(x, y, (((n - 1,), (n - 2,)), (batch, batch)))


def fewest(sizes):
    """(multiplications, factors left of the last one) of a product of matrices.

    Args:
      sizes: of which two in a row are the shape of a factor.
    """
    first, *between, last = sizes
    ways = (
        (fewest(sizes[: k + 1])[0] + fewest(sizes[k:])[0] + first * n * last, -k)
        for k, n in enumerate(between, start=1)
    )
    steps, k = min(ways, default=(0, 0))
    return steps, -k


def position_mask(x, keep):
    """keep(row, column), as an array of bools of the shape of x."""
    shape = aval_of(x).shape
    row, column = (lax.broadcasted_iota(INT32, shape, len(shape) - d) for d in (2, 1))
    return keep(row, column)


def part(x, keep):
    """x where keep(row, column), elsewhere zero."""
    return lax.select(position_mask(x, keep), x, lax.full_like(x, 0))


def tril(x, k=0):
    """What is on the diagonal, or `k` above it, and below."""
    return part(x, lambda i, j: lax.ge(lax.add(i, INT32.type(k)), j))


def triu(x, k=0):
    """What is on the diagonal, or `k` above it, and above that."""
    return part(x, lambda i, j: lax.le(lax.add(i, INT32.type(k)), j))


def on_diagonal(x):
    """x on the diagonal, elsewhere zero."""
    return part(x, lax.eq)


def diagonal(x):
    """The diagonals of square matrices."""
    return lax.reduce_sum(on_diagonal(x), (aval_of(x).ndim - 1,))


def unit(x):
    """Identity matrices of the shape and dtype of x."""
    return lax.convert_element_type(position_mask(x, lax.eq), aval_of(x).dtype)


def as_columns(s, like):
    """The elements of vectors, each along a column of matrices like `like`."""
    shape = aval_of(like).shape
    kept = [d for d in range(len(shape)) if d != len(shape) - 2]
    return lax.broadcast_in_dim(s, shape, kept)


def as_rows(s, like):
    """The elements of vectors, each along a row of matrices like `like`."""
    shape = aval_of(like).shape
    return lax.broadcast_in_dim(s, shape, list(range(len(shape) - 1)))


def inverse_gaps(values, like):
    """1 / (values[j] - values[i]) at [i, j], and 0 on the diagonal."""
    gaps = lax.sub(as_columns(values, like), as_rows(values, like))
    ones = unit(gaps)
    return lax.sub(lax.div(lax.full_like(gaps, 1), lax.add(gaps, ones)), ones)


def symmetrize(x):
    """(x + x^H) / 2."""
    return lax.mul(lax.add(x, adjoint(x)), lax.full_like(x, 0.5))


# ---- checks


def check_matrix(name, x, square=False):
    """Complain unless x is a batch of matrices of floats or complex numbers."""
    check_kind(name, x.dtype, numbers)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices" if square else "matrices"
        raise ValueError(
            f"{name} takes an array of {what} in its last two axes, got shape "
            f"{x.shape}{HERE}"
        )


# ---- the functions


def cholesky(x, *, symmetrize_input=True):
    """The lower triangle l with l @ l^H = x (`jax.lax.linalg.cholesky`).

    Args:
      x: [..., n, n], Hermitian and positive definite.  NaN comes out if it is not.
      symmetrize_input: use (x + x^H) / 2; else the lower triangle alone is read.
    """
    check_matrix("cholesky", aval_of(x), square=True)
    x = symmetrize(x) if symmetrize_input else x
    return tril(cholesky_p.bind(x))


def triangular_solve(
    a, b, *, left_side=False, lower=False, transpose_a=False, conjugate_a=False,
    unit_diagonal=False,
):  # fmt: skip
    """x with op(a) @ x = b, or x @ op(a) = b (`jax.lax.linalg.triangular_solve`).

    Args:
      a: [..., n, n], of which one triangle is read.
      b: [..., n, m] if `left_side`, else [..., m, n], of the dtype of a; or a vector,
        without the axis m.
      transpose_a, conjugate_a: op(a) is the transpose, or the conjugate, or both.
      unit_diagonal: take the diagonal of a to be ones.

    Returns:
      Of the shape of b.  Where a has a zero on its diagonal, inf and NaN.
    """
    vector = aval_of(b).ndim == aval_of(a).ndim - 1
    if vector:
        n = aval_of(b).ndim
        b = lax.expand_dims(b, (n if left_side else n - 1,))
    # LAPACK and BLAS have no 16-bit floats.
    dtype = aval_of(b).dtype
    narrow = dtype if aval_of(a).dtype == dtype in halves else None
    if narrow is not None:
        a, b = (lax.convert_element_type(x, np.float32) for x in (a, b))
    x = triangular_solve_p.bind(
        *(a, b), left_side=bool(left_side), lower=bool(lower),
        transpose_a=bool(transpose_a), unit_diagonal=bool(unit_diagonal),
        conjugate_a=bool(conjugate_a) and is_complex(a),
    )  # fmt: skip
    if vector:
        n = aval_of(x).ndim
        x = lax.squeeze(x, (n - 1 if left_side else n - 2,))
    return x if narrow is None else lax.convert_element_type(x, narrow)


def lu(x):
    """x[permutation] = l @ u (`jax.lax.linalg.lu`).

    Returns:
      (l and u in one array of the shape of x, l below the diagonal with ones on it,
      pivots int32[..., k]: the rows exchanged step by step; permutation int32[..., m]).
    """
    return tuple(lu_p.bind(x))


def lu_pivots_to_permutation(pivots, permutation_size):
    """Rows exchanged step by step as a permutation of `permutation_size` rows."""
    size = operator.index(permutation_size)
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=size)


def qr(x, *, pivoting=False, full_matrices=True, use_magma=None):
    """x = q @ r, or x[:, p] = q @ r with pivoting (`jax.lax.linalg.qr`).

    Args:
      x: [..., m, n]; full_matrices: q is [m, m] and r [m, n], else [m, k] and [k, n]
        with k = min(m, n).

    Returns:
      (q, r) or, with pivoting, (q, r, p int32[..., n]).
    """
    return tuple(qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices))


def svd(
    x, *, full_matrices=True, compute_uv=True, subset_by_index=None, algorithm=None
):
    """x = (u * s) @ vh, with s in descending order (`jax.lax.linalg.svd`).

    Returns:
      (u, s, vh), or s without `compute_uv`.
    """
    if subset_by_index is not None:
        raise NotImplementedError("svd: subset_by_index must be None")
    compute_uv = bool(compute_uv)
    params = dict(full_matrices=bool(full_matrices), compute_uv=compute_uv)
    s, *vectors = svd_p.bind(x, **params)
    return (vectors[0], s, vectors[1]) if compute_uv else s


def eigh(
    x, *, lower=True, symmetrize_input=True, sort_eigenvalues=True,
    subset_by_index=None, implementation=None,
):  # fmt: skip
    """x @ v = v * w of Hermitian x, w in ascending order (`jax.lax.linalg.eigh`).

    Returns:
      (v, w).
    """
    if subset_by_index is not None:
        raise NotImplementedError("eigh: subset_by_index must be None")
    check_matrix("eigh", aval_of(x), square=True)
    x = symmetrize(x) if symmetrize_input else x
    return tuple(eigh_p.bind(x, lower=bool(lower)))


def eig(
    x, *, compute_left_eigenvectors=True, compute_right_eigenvectors=True,
    implementation=None, use_magma=None,
):  # fmt: skip
    """x @ v = v * w of any square matrix (`jax.lax.linalg.eig`).

    Returns:
      [w, left eigenvectors, right eigenvectors], all complex; those asked for.
    """
    left, right = bool(compute_left_eigenvectors), bool(compute_right_eigenvectors)
    return list(eig_p.bind(x, left=left, right=right))


def schur(x, *, compute_schur_vectors=True, sort_eig_vals=False, select_callable=None):
    """x = v @ t @ v^H with t upper triangular, of real x with blocks of two.

    Returns:
      (t, v), or (t,).  JAX: `jax.lax.linalg.schur`.
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: eigenvalues come in LAPACK's order")
    return tuple(schur_p.bind(x, compute_schur_vectors=bool(compute_schur_vectors)))


def hessenberg(a):
    """Reflections that bring a to Hessenberg form (`jax.lax.linalg.hessenberg`).

    Returns:
      (the form, and below it the reflections' vectors; taus [..., n - 1]).
    """
    return tuple(hessenberg_p.bind(a))


def geqrf(a):
    """The reflections of a's QR decomposition, as LAPACK gives them.

    Returns:
      (R, and below it the reflections' vectors; taus [..., min(m, n)]).
    """
    return tuple(geqrf_p.bind(a))


def householder_product(a, taus):
    """The product of reflections (`jax.lax.linalg.householder_product`).

    Args:
      a: [..., m, n], the reflections' vectors below its diagonal; taus: [..., k].
    """
    return householder_product_p.bind(a, taus)


def tridiagonal(a, *, lower=True):
    """Reflections that make Hermitian a tridiagonal (`jax.lax.linalg.tridiagonal`).

    Returns:
      (the form, and beyond it the reflections' vectors; its diagonal and the one
      beside it, real [..., n] and [..., n - 1]; taus [..., n - 1]).
    """
    return tuple(tridiagonal_p.bind(a, lower=bool(lower)))


def tridiagonal_solve(dl, d, du, b, *, perturb_singular=False):
    """x with a @ x = b for a tridiagonal a (`jax.lax.linalg.tridiagonal_solve`).

    Args:
      dl, d, du: [..., n]: a[i, i - 1], a[i, i] and a[i, i + 1]; the first of dl and the
        last of du are not read.
      b: [..., n, m], of the same dtype.
    """
    if perturb_singular:
        raise NotImplementedError("tridiagonal_solve: perturb_singular must be False")
    return tridiagonal_solve_p.bind(dl, d, du, b)


def ormqr(a, taus, c, *, left=True, transpose=False):
    """q @ c or c @ q, q the product of reflections (`jax.lax.linalg.ormqr`).

    Args:
      a: [..., m, n], the reflections' vectors below its diagonal; taus: [..., k].
      c: [..., m, p], or [..., p, m] from the right; transpose: with q^H instead.
    """
    check_reflections("ormqr", aval_of(a), aval_of(taus))
    if not left:
        return adjoint(reflected(a, taus, adjoint(c), not transpose))
    return reflected(a, taus, c, transpose)


def reflected(a, taus, c, transpose=False):
    """q @ c, where q = 1 - v t v^H; Schreiber and Van Loan, 1989.

    t = (1 + d s)^-1 d, with d = diag(taus) and s the part of v^H v above its diagonal.
    """
    v = columns(a, 0, aval_of(taus).shape[-1])
    v = lax.add(tril(v, -1), unit(v))
    gram = product(adjoint(v), v)
    system = lax.add(unit(gram), lax.mul(as_rows(taus, gram), triu(gram, 1)))
    y = product(adjoint(v), c)
    inverse = partial(triangular_solve, system, left_side=True)
    if transpose:
        z = inverse(y, transpose_a=True, conjugate_a=True)
        z = lax.mul(as_rows(conj(taus) if is_complex(taus) else taus, y), z)
    else:
        z = inverse(lax.mul(as_rows(taus, y), y))
    return lax.sub(c, product(v, z))


def cholesky_update(r_matrix, w_vector):
    """Upper r' with r'^T r' = r^T r + w w^T (`jax.lax.linalg.cholesky_update`).

    Args:
      r_matrix: [n, n], upper triangular; w_vector: [n].
    """
    shapes = aval_of(r_matrix).shape, aval_of(w_vector).shape
    n = shapes[1][0] if shapes[1] else 0
    if shapes != ((n, n), (n,)):
        raise ValueError(
            "cholesky_update takes a matrix [n, n] and a vector [n], got shapes "
            f"{shapes[0]} and {shapes[1]}"
        )
    whole = lax.concatenate([r_matrix, lax.reshape(w_vector, (1, n))], 0)
    r = qr(whole, full_matrices=False)[1]
    return lax.mul(as_rows(lax.sign(diagonal(r)), r), r)


class EigImplementation(enum.Enum):
    """What JAX can be told of how to compute `eig`; LAPACK does it here."""

    CUSOLVER, MAGMA, LAPACK = "cusolver", "magma", "lapack"


class EighImplementation(enum.Enum):
    """What JAX can be told of how to compute `eigh`; LAPACK does it here."""

    QR, JACOBI, QDWH = "qr", "jacobi", "qdwh"


class SvdAlgorithm(enum.Enum):
    """What JAX can be told of how to compute `svd`; LAPACK does it here."""

    DEFAULT, QR, JACOBI, POLAR = "default", "QR", "Jacobi", "polar"


def symmetric_product(a, c, *, alpha=1.0, beta=0.0, symmetrize_output=False):
    """alpha * a @ a.T + beta * c (`jax.lax.linalg.symmetric_product`)."""
    shapes = aval_of(alpha).shape, aval_of(beta).shape
    if shapes != ((), ()):
        raise TypeError(
            "symmetric_product takes numbers for alpha and beta, got arrays of shapes "
            f"{shapes[0]} and {shapes[1]}"
        )
    square = product(a, transposed(a))
    square = lax.mul(square, lax.full_like(square, alpha))
    result = lax.add(square, lax.mul(c, lax.full_like(c, beta)))
    if symmetrize_output:
        result = lax.add(tril(result), transposed(tril(result, -1)))
    return result


def qdwh(x, *, is_hermitian=False, max_iterations=None, eps=None, dynamic_shape=None):
    """x = u @ h with orthogonal u and h >= 0 (`jax.lax.linalg.qdwh`).

    Halley's iteration with weights (Nakatsukasa, Bai and Gygi, 2010): it brings the
    singular values, which lie between l and 1, close to 1.

    Args:
      x: [m, n] of full rank, m >= n.
      eps: how close; max_iterations: 10 by default.

    Returns:
      (u, h, how many iterations it took, whether u has converged).
    """
    if dynamic_shape is not None:
        raise NotImplementedError("qdwh: sizes are known here; slice x instead")
    check_matrix("qdwh", aval_of(x))
    if aval_of(x).ndim > 2:
        raise ValueError(
            f"qdwh takes one matrix, got shape {aval_of(x).shape}: use vmap{HERE}"
        )
    m, n = aval_of(x).shape
    if m < n:
        raise ValueError("The input matrix of shape M x N must have M >= N.")
    most = 10 if max_iterations is None else operator.index(max_iterations)
    eps = float(np.finfo(aval_of(x).dtype).eps) if eps is None else eps
    one, other = (
        lax.reduce_max(lax.reduce_sum(lax.abs(x), (d,)), (0,)) for d in (0, 1)
    )
    size = lax.sqrt(one) * lax.sqrt(other)
    u = x / like_dtype(lax.select(lax.eq(size, size * 0), size * 0 + 1, size), x)
    before, weights = u * np.nan, halley_weights(eps, most)
    for a, b, c in weights:
        before, u = u, halley_step(u, a, b, c)

    def moved(before, u):
        change = lax.abs(lax.sub(u, before))
        square = lax.reduce_sum(change * change, (0, 1))
        return lax.gt(lax.sqrt(square), square * 0 + (5 * eps) ** (1 / 3))

    def again(state):
        k, u, _ = state
        new = halley_step(u, 3.0, 1.0, 3.0)
        return k + 1, new, moved(u, new)

    unfinished = lambda state: state[2] & (state[0] < most)
    start = len(weights), u, moved(before, u)
    k, u, is_moving = while_loop(unfinished, again, start)
    u = 1.5 * u - 0.5 * product(u, adjoint(u), u)
    return u, symmetrize(product(adjoint(u), x)), k, lax.bitwise_not(is_moving)


def halley_weights(eps, most):
    """The weights (a, b, c) of steps that bring singular values from eps close to 1."""
    weights, l = [], eps
    while l + 5 * eps < 1 and len(weights) < most:
        d = (4 * (1 / l**2 - 1) / l**2) ** (1 / 3)
        root = (1 + d) ** 0.5
        a = root + (2 - d + 2 * (2 - l**2) / (l**2 * root)) ** 0.5
        b = (a - 1) ** 2 / 4
        weights.append((a, b, a + b - 1))
        l *= (a + b * l**2) / (1 + (a + b - 1) * l**2)
    return weights


def halley_step(u, a, b, c):
    """u (a + b u^H u) (1 + c u^H u)^-1, by QR where c is large."""
    m, n = aval_of(u).shape
    square = product(adjoint(u), u)
    if c > 100:
        q, _ = qr(lax.concatenate([c**0.5 * u, unit(square)], 0), full_matrices=False)
        first, rest = rows(q, 0, m), rows(q, m, m + n)
        return b / c * u + (a - b / c) / c**0.5 * product(first, adjoint(rest))
    factor = cholesky(c * square + unit(square), symmetrize_input=False)
    solve = partial(triangular_solve, factor, lower=True)
    moved = solve(solve(u, transpose_a=True, conjugate_a=True))
    return b / c * u + (a - b / c) * moved


def solve(a, b):
    """x with a @ x = b: a [..., n, n], b [..., n, m], of one dtype and batch.

    It is differentiated as a solution: the gradient solves with a transposed.
    """
    # The factors only help to solve: what is differentiated is the equation.
    packed, _, permutation = lu(stop_gradient(a))

    def by_lu(transpose):
        def solver(matvec, b):
            return lu_solve(packed, permutation, b, transpose)

        return solver

    return custom_linear_solve(lambda x: product(a, x), b, by_lu(0), by_lu(1))


def lu_solve(packed, permutation, b, trans=0):
    """x with op(a) @ x = b from the LU decomposition of a.

    Args:
      packed, permutation: what `lu` gives; b: [..., n, m].
      trans: 0: a; 1: its transpose; 2: its adjoint.
    """
    below = partial(triangular_solve, packed, left_side=True, lower=True)
    below, above = (
        partial(below, unit_diagonal=True),
        partial(triangular_solve, packed, left_side=True),
    )
    if trans == 0:
        return above(below(permuted(b, permutation)))
    flags = dict(transpose_a=True, conjugate_a=trans == 2)
    x = below(above(b, **flags), **flags)
    return permuted(x, inverse_permutation(permutation))


def permuted(b, permutation):
    """The rows of each matrix of b in the order of a permutation."""
    return take_along(b, as_rows(permutation, b), aval_of(b).ndim - 2)


def inverse_permutation(permutation):
    """The inverse of permutations: where each number stands in them.

    It is looked for everywhere, which native loops do too; to solve takes longer.
    """
    *batch, n = aval_of(permutation).shape
    shape, rank = (*batch, n, n), len(batch)
    places, numbers = (lax.broadcasted_iota(INT32, shape, rank + d) for d in (0, 1))
    found = lax.eq(as_rows(permutation, numbers), numbers)
    there = lax.select(found, places, lax.full_like(places, 0))
    return lax.reduce_sum(there, (rank,))


# ---- shapes


def same_square(name):
    def rule(x):
        check_matrix(name, x, square=True)
        return x

    return rule


def triangular_solve_shape(a, b, *, left_side, **flags):
    check_matrix("triangular_solve", a, square=True)
    check_kind("triangular_solve", b.dtype, numbers)
    if a.dtype != b.dtype:
        raise TypeError(
            "triangular_solve takes arrays of one dtype, got "
            f"{a.dtype.name} and {b.dtype.name}{HERE}"
        )
    fits = b.ndim == a.ndim and a.shape[:-2] == b.shape[:-2]
    if not fits or b.shape[-2 if left_side else -1] != a.shape[-1]:
        side = "rows" if left_side else "columns"
        raise TypeError(
            f"triangular_solve of matrices {a.shape} takes a right side of the same "
            f"batch with {a.shape[-1]} {side}, got shape {b.shape}{HERE}"
        )
    return b


def lu_shape(x):
    check_matrix("lu", x)
    *batch, m, n = x.shape
    integers = x.update(dtype=INT32, weak_type=False)
    sizes = min(m, n), m
    return [x, *(integers.update(shape=(*batch, k)) for k in sizes)]


def permutation_shape(pivots, *, permutation_size):
    if permutation_size < pivots.shape[-1]:
        raise ValueError(
            f"lu_pivots_to_permutation: Output permutation size {permutation_size} has "
            "to exceed the trailing dimension of the pivots. Got pivots size "
            f"{pivots.shape[-1]}"
        )
    return pivots.update(shape=(*pivots.shape[:-1], permutation_size))


def qr_shape(x, *, pivoting, full_matrices):
    check_matrix("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    shapes = (*batch, m, k), (*batch, k, n)
    places = x.update(shape=(*batch, n), dtype=INT32, weak_type=False)
    return [*(x.update(shape=s) for s in shapes), *[places] * pivoting]


def svd_shape(x, *, full_matrices, compute_uv):
    check_matrix("svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    s = x.update(shape=(*batch, k), dtype=real_part(x.dtype))
    rows, columns = (m, n) if full_matrices else (k, k)
    shapes = (*batch, m, rows), (*batch, columns, n)
    return [s, *(x.update(shape=shape) for shape in shapes if compute_uv)]


def eigh_shape(x, *, lower):
    check_matrix("eigh", x, square=True)
    return [x, x.update(shape=x.shape[:-1], dtype=real_part(x.dtype))]


def eig_shape(x, *, left, right):
    check_matrix("eig", x, square=True)
    result = x.update(dtype=of_parts(x.dtype), weak_type=False)
    return [result.update(shape=x.shape[:-1]), *[result] * (left + right)]


def schur_shape(x, *, compute_schur_vectors):
    check_matrix("schur", x, square=True)
    return [x] * (1 + compute_schur_vectors)


def hessenberg_shape(x):
    check_matrix("hessenberg", x, square=True)
    taus = *x.shape[:-2], max(x.shape[-1] - 1, 0)
    return [x, x.update(shape=taus)]


def geqrf_shape(x):
    check_matrix("geqrf", x)
    return [x, x.update(shape=(*x.shape[:-2], min(x.shape[-2:])))]


def tridiagonal_shape(a, *, lower):
    check_matrix("tridiagonal", a, square=True)
    *batch, n, _ = a.shape
    beside = a.update(shape=(*batch, max(n - 1, 0)))
    as_real = lambda x: x.update(dtype=real_part(a.dtype))
    return [a, as_real(a.update(shape=(*batch, n))), as_real(beside), beside]


def tridiagonal_solve_shape(dl, d, du, b):
    check_matrix("tridiagonal_solve", b)
    if len({x.dtype for x in (dl, d, du, b)}) > 1:
        raise TypeError(
            "tridiagonal_solve takes arrays of one dtype, got "
            f"{[x.dtype.name for x in (dl, d, du, b)]}{HERE}"
        )
    if not dl.shape == d.shape == du.shape == b.shape[:-1]:
        raise TypeError(
            "tridiagonal_solve requires that all diagonal arguments have the shape of "
            f"b without its last axis, got {dl.shape}, {d.shape}, {du.shape} and "
            f"{b.shape}{HERE}"
        )
    return b


def check_reflections(name, a, taus):
    """The vectors [..., m, n] and factors [..., k] of reflections."""
    check_matrix(name, a)
    m, n = a.shape[-2:]
    fit = taus.shape and taus.shape[-1] <= min(m, n)
    if taus.shape[:-1] != a.shape[:-2] or not fit:
        raise TypeError(
            f"{name} takes vectors [..., m, n] and taus [..., k] with k <= min(m, n), "
            f"got shapes {a.shape} and {taus.shape}"
        )


def householder_shape(a, taus):
    check_reflections("householder_product", a, taus)
    if a.shape[-2] < a.shape[-1]:
        raise TypeError(
            f"householder_product takes no more columns than rows, got shape {a.shape}"
        )
    return a


# ---- values, by LAPACK

# How many axes of the first input are a matrix's, if they are not 2.
first_axes = {lu_pivots_to_permutation_p: 1, tridiagonal_solve_p: 1}
# Of these NumPy decomposes a whole batch in one call.
at_once = {cholesky_p, qr_p, svd_p, eigh_p, eig_p}


def of_matrices(p, function):
    """The values of a primitive, one matrix of a batch after the other.

    Args:
      function: (*matrices, **params) -> a result, or several, as the primitive has
        them; None for NaN in all of them.  Matrices without elements it never gets.
        Of a batch, where it takes one, None says that it cannot do all of it.
    """

    def values(*arrays, **params):
        found = each(p, function, [np.ascontiguousarray(x) for x in arrays], params)
        return found if p.multiple_results else found[0]

    return values


def each(p, function, arrays, params):
    """A function of matrices applied to each of a batch of them: a list of results."""
    batch = arrays[0].shape[: arrays[0].ndim - first_axes.get(p, 2)]
    if not batch:
        return one(p, function, arrays, params)
    if 0 in batch:
        return [np.zeros(a.shape, a.dtype) for a in avals_of(p, arrays, params)]
    if p in at_once and all(x.size for x in arrays):
        found = function(*arrays, **params)
        if found is not None:
            return found if p.multiple_results else [found]
    places = np.ndindex(batch)
    found = [one(p, function, [x[i] for x in arrays], params) for i in places]
    parts = map(np.stack, zip(*found, strict=True))
    return [x.reshape(*batch, *x.shape[1:]) for x in parts]


def one(p, function, matrices, params):
    """The same for one matrix, or for those that belong together."""
    if not all(x.size for x in matrices):
        return list(map(of_nothing, avals_of(p, matrices, params)))
    found = function(*matrices, **params)
    if found is None:
        avals = avals_of(p, matrices, params)
        return [np.full(a.shape, np.nan, a.dtype) for a in avals]
    return found if p.multiple_results else [found]


def avals_of(p, arrays, params):
    """The types of a primitive's results."""
    found = shape_rules[p](*map(aval_of, arrays), **params)
    return found if p.multiple_results else [found]


def of_nothing(aval):
    """A result for a matrix without elements: the identity, rows in their order."""
    if aval.ndim == 2:
        return np.eye(*aval.shape, dtype=aval.dtype)
    return np.arange(*aval.shape, dtype=aval.dtype)


@functools.cache
def lapack(name, dtype):
    """A function of LAPACK's or BLAS's for a dtype: there may be a call a matrix."""
    from scipy.linalg import blas, lapack

    find = blas.get_blas_funcs if name == "trsm" else lapack.get_lapack_funcs
    return find(name, dtype=dtype)


def triangular_solve_numpy(
    a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal
):
    if conjugate_a and not transpose_a:
        a, conjugate_a = a.conj(), False
    trsm = lapack("trsm", b.dtype)
    trans = 2 if conjugate_a else int(transpose_a)
    return trsm(
        *(1.0, a, b), side=int(not left_side), lower=int(lower), trans_a=trans,
        diag=int(unit_diagonal),
    )  # fmt: skip


def lu_numpy(x):
    packed, pivots, info = lapack("getrf", x.dtype)(x)
    return packed, pivots.astype(INT32), permutation_numpy(pivots, len(x))


def permutation_numpy(pivots, permutation_size):
    rows = np.arange(permutation_size, dtype=INT32)
    for i, j in enumerate(pivots):
        rows[i], rows[j] = rows[j], rows[i]
    return rows


def qr_numpy(x, *, pivoting, full_matrices):
    if not pivoting:
        return np.linalg.qr(x, "complete" if full_matrices else "reduced")
    if x.ndim > 2:
        return None
    from scipy.linalg import qr

    mode = "full" if full_matrices else "economic"
    q, r, order = qr(x, mode=mode, pivoting=True, check_finite=False)
    return q, r, order.astype(INT32)


def by_lapack(function, x, *args, **params):
    """A function of a matrix; None if it is not finite, or has no answer."""
    if not np.isfinite(x).all():
        return None
    try:
        return function(x, *args, **params)
    except np.linalg.LinAlgError:
        return None


def svd_numpy(x, *, full_matrices, compute_uv):
    found = by_lapack(np.linalg.svd, x, full_matrices, compute_uv)
    if found is None:
        return None
    return [found[1], found[0], found[2]] if compute_uv else [found]


def eigh_numpy(x, *, lower):
    if x.dtype.kind == "c":
        found = by_lapack(np.linalg.eigh, x, "L" if lower else "U")
    elif x.ndim > 2:
        return None
    else:
        # By the routine that a program calls, so that it has the same bits.
        from scipy.linalg import eigh

        found = by_lapack(eigh, x, lower=lower, driver="evd", check_finite=False)
    return found and found[::-1]


def eig_numpy(x, *, left, right):
    if not left:
        found = by_lapack(np.linalg.eig if right else np.linalg.eigvals, x)
    elif x.ndim > 2:
        return None
    else:
        from scipy.linalg import eig

        found = by_lapack(eig, x, left=True, right=right, check_finite=False)
    if found is None:
        return None
    found = found if left or right else [found]
    return [part.astype(of_parts(x.dtype)) for part in found]


def schur_numpy(x, *, compute_schur_vectors):
    from scipy.linalg import schur

    kind = "complex" if x.dtype.kind == "c" else "real"
    found = by_lapack(schur, x, output=kind, check_finite=False)
    return found and found[: 1 + compute_schur_vectors]


def hessenberg_numpy(x):
    if x.size == 1:
        return x, np.zeros(0, x.dtype)
    form, taus, info = lapack("gehrd", x.dtype)(x)
    return form, taus


def geqrf_numpy(x):
    reflections, taus, _, info = lapack("geqrf", x.dtype)(x)
    return reflections, taus


def householder_numpy(a, taus):
    return lapack("ungqr" if a.dtype.kind == "c" else "orgqr", a.dtype)(a, taus)[0]


def tridiagonal_numpy(a, *, lower):
    reduce = lapack("hetrd" if a.dtype.kind == "c" else "sytrd", a.dtype)
    return reduce(a, lower=lower)[:4]


def tridiagonal_solve_numpy(dl, d, du, b):
    if d.size == 1:
        return b / d[:, None]
    *_, x, info = lapack("gtsv", d.dtype)(dl[1:], d, du[:-1], b)
    return x if info == 0 else None


# primitive -> (the rule for its shapes, its values for one matrix).
decompositions = {
    cholesky_p: (same_square("cholesky"), partial(by_lapack, np.linalg.cholesky)),
    triangular_solve_p: (triangular_solve_shape, triangular_solve_numpy),
    lu_p: (lu_shape, lu_numpy),
    lu_pivots_to_permutation_p: (permutation_shape, permutation_numpy),
    qr_p: (qr_shape, qr_numpy),
    svd_p: (svd_shape, svd_numpy),
    eigh_p: (eigh_shape, eigh_numpy),
    eig_p: (eig_shape, eig_numpy),
    schur_p: (schur_shape, schur_numpy),
    hessenberg_p: (hessenberg_shape, hessenberg_numpy),
    geqrf_p: (geqrf_shape, geqrf_numpy),
    householder_product_p: (householder_shape, householder_numpy),
    tridiagonal_p: (tridiagonal_shape, tridiagonal_numpy),
    tridiagonal_solve_p: (tridiagonal_solve_shape, tridiagonal_solve_numpy),
}
shape_rules |= {p: rule for p, (rule, _) in decompositions.items()}
eval_rules |= on_numpy({p: of_matrices(p, f) for p, (_, f) in decompositions.items()})


# ---- derivatives


def cholesky_linearize(nonzero, x):
    """With phi(z) the lower triangle of z and half of its diagonal,
    dl = l phi(l^-1 dx l^-H)."""
    factor = tril(cholesky_p.bind(x))
    half = on_diagonal(lax.full_like(factor, 0.5))

    def linear(t):
        t = triangular_solve(factor, t, lower=True, transpose_a=True, conjugate_a=True)
        t = triangular_solve(factor, t, left_side=True, lower=True)
        return product(factor, lax.sub(tril(t), lax.mul(t, half)))

    return factor, linear


def triangular_solve_linearize(nonzero, a, b, **params):
    """op(a) dx = db - op(da) x."""
    x = triangular_solve_p.bind(a, b, **params)

    def linear(a_dot, b_dot):
        if a_dot is not None:
            a_dot = triangle(a_dot, params)
            sides = (a_dot, x) if params["left_side"] else (x, a_dot)
            moved = lax.neg(product(*sides))
            b_dot = moved if b_dot is None else lax.add(b_dot, moved)
        return triangular_solve_p.bind(a, b_dot, **params)

    return x, linear


def triangle(a, params):
    """op(a) as it is read: one triangle, with or without its diagonal."""
    strict = params["unit_diagonal"]
    a = tril(a, -strict) if params["lower"] else triu(a, +strict)
    a = transposed(a) if params["transpose_a"] else a
    return conj(a) if params["conjugate_a"] else a


def triangular_solve_transpose(ct, a, b, *, transpose_a, **params):
    flipped = dict(params, transpose_a=not transpose_a)
    return None, triangular_solve_p.bind(a, ct, **flipped)


def lu_linearize(nonzero, x):
    """With l and u made square, d(l u) = l tril(z, -1) + triu(z) u where
    z = l^-1 dx[permutation] u^-1."""
    packed, pivots, permutation = lu_p.bind(x)
    m, n = aval_of(x).shape[-2:]
    k = min(m, n)
    below = resized(tril(packed, -1), (m, k), (m, m))
    below = lax.add(below, unit(below))
    above = triu(packed)
    above = resized(above, (k, n), (n, n))
    ones = unit(above)
    rest = part(ones, lambda i, j: lax.ge(i, lax.full_like(i, k)))
    above = lax.add(above, rest)

    def linear(t):
        t = permuted(t, permutation)
        t = triangular_solve(below, t, left_side=True, lower=True, unit_diagonal=True)
        t = triangular_solve(above, t)
        t = lax.add(product(below, tril(t, -1)), product(triu(t), above))
        return [t, None, None]

    return [packed, pivots, permutation], linear


def resized(x, shape, sizes):
    """The first rows and columns of matrices, with zeros to make them of `sizes`."""
    batch = aval_of(x).shape[:-2]
    x = lax.slice(x, (0,) * (len(batch) + 2), (*batch, *shape))
    more = (size - n for size, n in zip(sizes, shape, strict=True))
    config = [*[(0, 0, 0)] * len(batch), *((0, n, 0) for n in more)]
    return pad(x, lax.full((), 0, aval_of(x).dtype), config)


def no_derivative(text):
    raise NotImplementedError(text + str(HERE))


def qr_linearize(nonzero, x, *, pivoting, full_matrices):
    """With z = q^H dx r^-1 and the antisymmetric w = tril(z, -1) - tril(z, -1)^H:
    dq = q (w - z) + dx r^-1, dr = (z - w) r.

    That is of the first k = min(m, n) columns; more columns of x follow q.  More
    columns of q move as LAPACK makes them, of reflections (arXiv 2409.13374, as JAX).
    """
    m, n = aval_of(x).shape[-2:]
    k = min(m, n)
    q, r, *places = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices)
    first, square = columns(q, 0, k), columns(r, 0, k)
    square = rows(square, 0, k)
    if full_matrices and m > k:
        rest, (top, bottom) = columns(q, k, m), (rows(first, 0, k), rows(first, k, m))
        back_z = solve(adjoint(lax.sub(top, unit(top))), adjoint(bottom))
        z_rows = adjoint(back_z)
        base = lax.add(first, product(rest, z_rows))

    def linear(t):
        if places:
            t = take_along(t, as_columns(places[0], t), aval_of(t).ndim - 1)
        moved = triangular_solve(square, columns(t, 0, k))
        z = product(adjoint(first), moved)
        below = tril(z, -1)
        w = lax.sub(below, adjoint(below))
        if is_complex(z):
            w = lax.add(w, imaginary(on_diagonal(z)))
        q_dot = lax.add(product(first, lax.sub(w, z)), moved)
        r_dot = product(lax.sub(z, w), square)
        back = adjoint(q_dot)
        if n > k:
            more = product(back, first, rows(columns(r, k, n), 0, k))
            more = lax.add(more, product(adjoint(first), columns(t, k, n)))
            r_dot = lax.concatenate([r_dot, more], aval_of(t).ndim - 1)
        if full_matrices and m > k:
            moved = lax.sub(rows(q_dot, k, m), product(z_rows, rows(q_dot, 0, k)))
            more = lax.sub(product(q_dot, back_z), product(base, adjoint(moved)))
            q_dot = lax.concatenate([q_dot, more], aval_of(t).ndim - 1)
            r_dot = resized(r_dot, (k, n), (m, n))
        return [q_dot, r_dot, *[None] * len(places)]

    return [q, r, *places], linear


def columns(x, start, stop):
    """Some columns of matrices."""
    shape = aval_of(x).shape
    return lax.slice(x, (*[0] * (len(shape) - 1), start), (*shape[:-1], stop))


def rows(x, start, stop):
    """Some rows of matrices."""
    *batch, m, n = aval_of(x).shape
    return lax.slice(x, (*[0] * len(batch), start, 0), (*batch, stop, n))


def imaginary(z):
    """z without its real part."""
    return lax.sub(z, with_zero(real(z)))


def with_zero(x):
    """Real numbers as complex ones."""
    return to_complex(x, lax.full_like(x, 0))


def real_of(x):
    return real(x) if is_complex(x) else x


def like_dtype(x, like):
    """Real x in the dtype of `like`."""
    return with_zero(x) if is_complex(like) else x


def svd_linearize(nonzero, x, *, full_matrices, compute_uv):
    """With p = u^H dx v, f[i, j] = 1 / (s[j]^2 - s[i]^2): ds = Re diag(p),
    du = u (f * (p s + s p^H)) + (1 - u u^H) dx v / s, and dv likewise."""
    m, n = aval_of(x).shape[-2:]
    if compute_uv and full_matrices and m != n:
        no_derivative(
            "svd has no derivative with full_matrices=True where matrices are not "
            f"square, got [{m}, {n}]: use full_matrices=False"
        )
    s, u, vh = svd_p.bind(x, full_matrices=False, compute_uv=True)
    outs = [s, u, vh] if compute_uv else [s]
    if compute_uv:
        core = product(adjoint(u), u)
        gaps = like_dtype(inverse_gaps(lax.mul(s, s), real_of(core)), core)
        by_column = like_dtype(as_columns(s, real_of(core)), core)
        by_row = like_dtype(as_rows(s, real_of(core)), core)
        zero = lax.convert_element_type(
            lax.eq(s, lax.full_like(s, 0)), aval_of(s).dtype
        )
        # 1 / s, and 0 where s is 0.
        inverse = lax.sub(lax.div(lax.full_like(s, 1), lax.add(s, zero)), zero)

    def linear(t):
        p = product(adjoint(u), t, adjoint(vh))
        s_dot = diagonal(real_of(p))
        if not compute_uv:
            return [s_dot]
        back = adjoint(p)
        left = lax.mul(gaps, lax.add(lax.mul(p, by_column), lax.mul(by_row, back)))
        right = lax.mul(gaps, lax.add(lax.mul(by_row, p), lax.mul(back, by_column)))
        if is_complex(p):
            on = like_dtype(as_columns(inverse, real_of(core)), core)
            left = lax.add(left, lax.mul(imaginary(on_diagonal(p)), on))
        u_dot, v_dot = product(u, left), product(adjoint(vh), right)
        if m > n:
            u_dot = lax.add(u_dot, outside(u, product(t, adjoint(vh)), inverse))
        if n > m:
            v, moved = adjoint(vh), product(adjoint(t), u)
            v_dot = lax.add(v_dot, outside(v, moved, inverse))
        return [s_dot, u_dot, adjoint(v_dot)]

    return outs, linear


def outside(u, t, inverse):
    """(1 - u u^H) t / s."""
    t = lax.sub(t, product(u, adjoint(u), t))
    return lax.mul(t, like_dtype(as_columns(inverse, real_of(t)), t))


def eigh_linearize(nonzero, x, *, lower):
    """With p = v^H dx v: dw = diag(p), dv = v (f * p), f[i, j] = 1 / (w[j] - w[i])."""
    v, w = eigh_p.bind(x, lower=lower)
    gaps = like_dtype(inverse_gaps(w, real_of(v)), v)

    def linear(t):
        p = product(adjoint(v), t, v)
        return [product(v, lax.mul(gaps, p)), diagonal(real_of(p))]

    return [v, w], linear


def eig_linearize(nonzero, x, *, left, right):
    """dw = diag(v^-1 dx v)."""
    if left or right:
        no_derivative(
            "eig has a derivative of the eigenvalues only: use eigvals; of Hermitian "
            "matrices eigh has one of the eigenvectors too"
        )
    w, v = eig_p.bind(x, left=False, right=True)
    inverse = solve(v, unit(v))

    def linear(t):
        t = t if is_complex(t) else with_zero(t)
        moved = lax.mul(inverse, transposed(product(t, v)))
        return [lax.reduce_sum(moved, (aval_of(moved).ndim - 1,))]

    return [w], linear


def householder_linearize(nonzero, a, taus):
    """The value is LAPACK's, the derivative that of `reflected`."""
    args = a, taus

    def by_reflections(*given):
        given = iter(given)
        x, t = (next(given) if has else y for y, has in zip(args, nonzero, strict=True))
        return reflected(x, t, unit(x))

    chosen = [x for x, has in zip(args, nonzero, strict=True) if has]
    _, linear = linearize(by_reflections, *chosen)
    given = lambda tangents: [t for t in tangents if t is not None]
    return householder_product_p.bind(a, taus), lambda *ts: linear(*given(ts))


def tridiagonal_solve_linearize(nonzero, dl, d, du, b):
    """a dx = db - da x."""
    x = tridiagonal_solve_p.bind(dl, d, du, b)
    above, below = (moved_rows(x, k) for k in (1, -1))

    def linear(dl_dot, d_dot, du_dot, b_dot):
        pairs = (dl_dot, above), (d_dot, x), (du_dot, below)
        for t, rows in pairs:
            if t is not None:
                term = lax.neg(lax.mul(as_rows(t, rows), rows))
                b_dot = term if b_dot is None else lax.add(b_dot, term)
        return tridiagonal_solve_p.bind(dl, d, du, b_dot)

    return x, linear


def moved_rows(x, k):
    """Row i - k of each matrix in row i, and zeros where there is none."""
    ndim = aval_of(x).ndim
    config = [(0, 0, 0)] * ndim
    config[ndim - 2] = (k, -k, 0)
    return pad(x, lax.full((), 0, aval_of(x).dtype), config)


def tridiagonal_solve_transpose(ct, dl, d, du, b):
    """With what is above the diagonal below it."""
    beside = lambda v, k: lax.squeeze(
        moved_rows(lax.expand_dims(v, (aval_of(v).ndim,)), k), (aval_of(v).ndim,)
    )
    solved = tridiagonal_solve_p.bind(beside(du, 1), d, beside(dl, -1), ct)
    return None, None, None, solved


linearize_rules |= {
    tridiagonal_solve_p: tridiagonal_solve_linearize,
    householder_product_p: householder_linearize,
    cholesky_p: cholesky_linearize,
    triangular_solve_p: triangular_solve_linearize,
    lu_p: lu_linearize,
    qr_p: qr_linearize,
    svd_p: svd_linearize,
    eigh_p: eigh_linearize,
    eig_p: eig_linearize,
}
transpose_rules |= adding({
    triangular_solve_p: triangular_solve_transpose,
    tridiagonal_solve_p: tridiagonal_solve_transpose,
})


# ---- lanes, and compiled code


def triangular_solve_batch(lanes, axes, a, b, *, left_side, **params):
    """Right sides of one matrix stand side by side."""
    if axes[0] is not None:
        params |= {"left_side": left_side}
        return front_rule(triangular_solve_p, lanes, axes, a, b, **params)
    shape = aval_of(b).shape
    end = len(shape) - 1 if left_side else len(shape) - 2
    b = move_axis(b, axes[1], end)
    whole = aval_of(b).shape
    merged = list(whole)
    merged[end - 1 : end + 1] = [whole[end - 1] * whole[end]]
    x = triangular_solve_p.bind(
        a, lax.reshape(b, merged), left_side=left_side, **params
    )
    return lax.reshape(x, whole), end


batch_rules |= in_front(*decompositions) | {triangular_solve_p: triangular_solve_batch}
worth |= dict.fromkeys(
    (cholesky_p, triangular_solve_p, lu_p, qr_p, svd_p, eigh_p),
    lambda matrices: math.prod(matrices.shape[:-2]) << 10,
)  # A call from Python, of which a program makes none, is some 10 us for each matrix.
fallbacks |= dict.fromkeys(decompositions, "decompositions are left to LAPACK")

# This module is `lax.linalg`.
__all__ = """
    EigImplementation EighImplementation SvdAlgorithm cholesky cholesky_p
    cholesky_update eig eig_p eigh eigh_p hessenberg hessenberg_p householder_product
    householder_product_p lu lu_p lu_pivots_to_permutation lu_pivots_to_permutation_p
    ormqr qdwh qr qr_p schur schur_p svd svd_p symmetric_product triangular_solve
    triangular_solve_p tridiagonal tridiagonal_p tridiagonal_solve tridiagonal_solve_p
""".split()
calls.explain_calls("lax.linalg", globals(), __all__)
_names.front(globals(), __all__)
