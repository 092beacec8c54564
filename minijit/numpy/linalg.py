"""Linear algebra under the names of `jax.numpy.linalg`: `jnp.linalg`.

    jnp.linalg.solve(a, b), jnp.linalg.svd(a), jnp.linalg.norm(x)

Matrices stand in the last two axes, the axes before them are a batch.  The
decompositions themselves are primitives: see `minijit.ops.linalg`.
"""

from __future__ import annotations

import builtins
import inspect
import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ops import linalg as decompositions
from ..trace import dtypes, primitives
from ..trace.api import calls
from ..trace.base import names
from ..trace.base.errors import HERE
from ..trace.jit.jit import where_known
from ..trace.numpy_values import by_squaring
from ..trace.types import Args, Array, ArrayLike, Axis, DTypeLike, Result, Traced
from ..transform.custom.custom_derivatives import custom_jvp
from .arguments import canonical_axes, canonical_axis, static_int, tell_of_batches
from .contracting import matmul as matmul, tensordot as tensordot
from .core import (
    arrays, check_inexact, convert, inf, np_shape, promote_args_inexact, promote_dtypes,
    sqrt,
)
from .creation import diagonal as all_diagonals, trace as any_trace
from .elementwise import power, where
from .making import checked_arrays, eye, ones, zeros
from .mathematics import conj, real
from .products import cross as any_cross, einsum, outer as any_outer, vecdot as vecdot
from .reducing import max, min, prod, sum
from .shapes import (
    broadcast_to, expand_dims, matrix_transpose as matrix_transpose, moveaxis, reshape,
    squeeze,
)
from .sorting import argsort
from .take_and_put import take_along_axis

SVDResult = namedtuple("SVDResult", ["U", "S", "Vh"])
QRResult = namedtuple("QRResult", ["Q", "R"])


class EigResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class SlogdetResult(NamedTuple):
    sign: Array
    logabsdet: Array


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: int | str = 2
) -> Array:
    """The norm of vectors along axes.  JAX: `jnp.linalg.vector_norm`."""
    x, = promote_args_inexact("jnp.linalg.vector_norm", x)
    if ord is None or ord == 2:
        return sqrt(sum(real(x * conj(x)), axis, keepdims=keepdims))
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm; see jnp.inf.")
    size = primitives.abs(x)
    if ord == inf:
        return max(size, axis, keepdims=keepdims, initial=0)
    if ord == -inf:
        return min(size, axis, keepdims=keepdims)
    if ord == 0:
        return sum(x != 0, axis, size.dtype, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    exponent = convert(ord, size.dtype)
    return power(sum(size**exponent, axis, keepdims=keepdims), 1.0 / exponent)


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: int | str = "fro"
) -> Array:
    """The norm of matrices in the last two axes.  JAX: `jnp.linalg.matrix_norm`."""
    return norm(x, ord, (-2, -1), keepdims)


def norm(
    x: ArrayLike, ord: int | str | None = None, axis: Axis = None,
    keepdims: bool = False,
) -> Array:
    """The norm of vectors (one axis) or matrices (two axes).  JAX: `jnp.linalg.norm`.

    Args:
      ord: of vectors any number or infinity, by default 2; of matrices "fro" (the
        default), 1, -1, inf, -inf, and of their singular values the largest, 2, the
        smallest, -2, and the sum, "nuc".
    """
    x, = promote_args_inexact("jnp.linalg.norm", x)
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    axes = canonical_axes(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, ord=ord, axis=axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of axes for norm: {axis=}. Pass one axis to compute a "
            "vector-norm, or two axes to compute a matrix-norm."
        )
    if ord in (None, "f", "fro"):
        return vector_norm(x, axis=axes, keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(moveaxis(x, axes, (-2, -1)))
        # An empty matrix has no singular value, and its norm is 0.
        initial = {"initial": 0} if ord == 2 else {}
        result = {"nuc": sum, 2: max, -2: min}[ord](values, -1, **initial)
        return expand_dims(result, sorted(axes)) if keepdims else result
    if ord not in (1, -1, inf, -inf):
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    first, second = axes if builtins.abs(ord) == 1 else axes[::-1]
    sums = sum(primitives.abs(x), first, keepdims=True)
    initial = {"initial": 0} if ord > 0 else {}
    result = (max if ord > 0 else min)(sums, second, keepdims=True, **initial)
    return result if keepdims else squeeze(result, axes)


def matrix_power(a: ArrayLike, n: int) -> Array:
    """A square matrix to the power n, of its inverse if n < 0.

    JAX: `jnp.linalg.matrix_power`.
    """
    a, = checked_arrays("jnp.linalg.matrix_power", [a])
    n = static_int(n, "the argument 'n' of jnp.linalg.matrix_power")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError(
            f"Last 2 dimensions of the array must be square, got shape {a.shape}"
        )
    a, n = (inv(a), -n) if n < 0 else (a, n)
    if n:
        return by_squaring(a, n, matmul)
    return broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)


def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """The product of matrices, in the cheapest order.  JAX: `jnp.linalg.multi_dot`."""
    parts = checked_arrays("jnp.linalg.multi_dot", arrays)
    letters = [chr(ord("a") + i) for i in range(len(parts) + 1)]
    first, last = len(np_shape(parts[0])) == 1, len(np_shape(parts[-1])) == 1
    terms = ["".join(letters[i : i + 2]) for i in range(len(parts))]
    terms[0] = terms[0][first:]
    terms[-1] = terms[-1][:1] if last else terms[-1]
    result = ("" if first else letters[0]) + ("" if last else letters[-1])
    text = f"{','.join(terms)}->{result}"
    return einsum(text, *parts, optimize="optimal", precision=precision)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3.  JAX: `jnp.linalg.cross`."""
    x1, x2 = arrays("cross", x1, x2)
    sizes = [x.shape[canonical_axis(axis, x.ndim)] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError("Both input arrays must be 3-dimensional vectors")
    return any_cross(x1, x2, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices in the last two axes.  JAX: `jnp.linalg.diagonal`."""
    return all_diagonals(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The traces of matrices in the last two axes.  JAX: `jnp.linalg.trace`."""
    return any_trace(x, offset, -2, -1, dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """All products of two vectors' elements.  JAX: `jnp.linalg.outer`."""
    if len(np_shape(x1)) != 1 or len(np_shape(x2)) != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return any_outer(x1, x2)


# ---- decompositions


def one_dtype(name, *args):
    """Arguments as arrays of one inexact dtype, whatever their shapes are."""
    check_inexact(f"jnp.linalg.{name}", args)
    return promote_dtypes(args, dtypes.to_inexact_dtype)


def matrices(name: str, *args: Any, square: bool = False) -> list[Array]:
    """Arguments as arrays of one inexact dtype; raises ValueError if they are no
    matrices, or not square ones."""
    found = one_dtype(name, *args)
    for x in found[: 1 if square else None]:
        if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
            what = "[..., n, n]" if square else "[..., m, n]"
            raise ValueError(
                f"Argument to {name} must have shape {what}, got {x.shape}{HERE}"
            )
    return found


def one_program(function: Callable[Args, Result]) -> Traced[Args, Result]:
    """A function of arrays that is one compiled program where values are known.

    Step by step it would record, at each call, how its system is solved and transposed,
    and call LAPACK through Python for each matrix of a batch.
    """
    parameters = inspect.signature(function).parameters.values()
    options = tuple(p.name for p in parameters if p.default is not p.empty)
    return where_known(function, function, static_argnames=options)


@one_program
def cholesky(
    a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True
) -> Array:
    """The lower triangle l with l @ l^H = a, or the upper one u with u^H @ u = a.

    NaN where a is not positive definite.  JAX: `jnp.linalg.cholesky`.
    """
    a, = matrices("cholesky", a, square=True)
    a = a if symmetrize_input or not upper else conj(matrix_transpose(a))
    lower = decompositions.cholesky(a, symmetrize_input=symmetrize_input)
    return conj(matrix_transpose(lower)) if upper else lower


@one_program
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True,
    hermitian: bool = False, subset_by_index: Sequence[int] | None = None,
) -> Any:
    """a = (U * S[..., None, :]) @ Vh, S in descending order.

    Args:
      full_matrices: U is [m, m] and Vh [n, n], else [m, k] and [k, n], k = min(m, n).
      compute_uv: without it, S alone.
      hermitian: a is, so `eigh` will do.

    Returns:
      `SVDResult(U, S, Vh)`, or S.  JAX: `jnp.linalg.svd`.
    """
    a, = matrices("svd", a)
    if hermitian:
        return svd_of_hermitian(a, compute_uv)
    found = decompositions.svd(
        a, full_matrices=full_matrices, compute_uv=compute_uv,
        subset_by_index=subset_by_index,
    )  # fmt: skip
    return SVDResult(*found) if compute_uv else found


def svd_of_hermitian(a, compute_uv):
    """Singular values are the absolute eigenvalues, the largest first."""
    v, w = decompositions.eigh(a)
    s = primitives.abs(w)
    order = argsort(s, descending=True)
    s = take_last(s, order)
    if not compute_uv:
        return s
    u = take_last(v, order)
    signs = take_last(primitives.sign(w), order)
    signs = where(signs == 0, convert(1, signs.dtype), signs)
    vh = conj(matrix_transpose(u * expand_dims(signs, -2)))
    return SVDResult(u, s, vh)


def take_last(x, order):
    """Elements, or columns, in the order of a permutation of the last axis."""
    order = expand_dims(order, -2) if x.ndim - order.ndim else order
    return take_along_axis(x, broadcast_to(order, x.shape), -1)


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values, in descending order.  JAX: `jnp.linalg.svdvals`."""
    return svd(x, compute_uv=False)


@one_program
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """a = Q @ R, with R upper triangular.  JAX: `jnp.linalg.qr`.

    Args:
      mode: "reduced": Q [m, k], R [k, n] with k = min(m, n); "complete": Q [m, m];
        "r": R alone; "full" is another name of "reduced", as in JAX; "raw": LAPACK's
        reflections.

    Returns:
      `QRResult(Q, R)`, or R; of "raw" the transpose of R with the reflections' vectors
      below it, and their factors, for `lax.linalg.ormqr`.
    """
    a, = matrices("qr", a)
    modes = "reduced", "r", "full", "complete", "raw"
    if mode not in modes:
        raise ValueError(
            f"Unsupported QR decomposition mode '{mode}': use one of {modes}"
        )
    if mode == "raw":
        reflections, taus = decompositions.geqrf(a)
        return QRResult(decompositions.transposed(reflections), taus)
    found = decompositions.qr(a, full_matrices=mode == "complete")
    return found[1] if mode == "r" else QRResult(*found)


def eig(a: ArrayLike) -> EigResult:
    """a @ v = v * w: `EigResult(eigenvalues, eigenvectors)`, always complex.

    JAX: `jnp.linalg.eig`.
    """
    a, = matrices("eig", a, square=True)
    w, v = decompositions.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues, complex, in LAPACK's order.  JAX: `jnp.linalg.eigvals`."""
    a, = matrices("eigvals", a, square=True)
    no = dict(compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return decompositions.eig(a, **no)[0]


@one_program
def eigh(
    a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True
) -> EighResult:
    """a @ v = v * w of Hermitian a: `EighResult(eigenvalues, eigenvectors)`.

    Args:
      UPLO: "L" or "U": which triangle is read; symmetrize_input: use (a + a^H) / 2.

    Returns:
      Eigenvalues, real, in ascending order, and vectors in columns.
      JAX: `jnp.linalg.eigh`.
    """
    a, = matrices("eigh", a, square=True)
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO!r}")
    lower = UPLO != "U"
    v, w = decompositions.eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(
    a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True
) -> Array:
    """The eigenvalues of Hermitian a, ascending.  JAX: `jnp.linalg.eigvalsh`."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


# ---- determinants


@one_program
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign and the logarithm of the absolute value of the determinant.

    Args:
      method: "lu" or None; JAX's "qr" gives the same numbers another way.

    Returns:
      `SlogdetResult(sign, logabsdet)`: sign 0 and logarithm -inf of singular matrices.
      JAX: `jnp.linalg.slogdet`.
    """
    a, = matrices("slogdet", a, square=True)
    if method not in (None, "lu", "qr"):
        raise ValueError(f"Unknown slogdet method '{method}'. Supported: 'lu', 'qr'")
    return SlogdetResult(*sign_and_log(a))


@custom_jvp
def sign_and_log(a):
    packed, pivots, _ = decompositions.lu(a)
    values = all_diagonals(packed, 0, -2, -1)
    size = primitives.abs(values)
    zero = (values == 0).any(-1)
    unit = values / where(size == 0, convert(1, size.dtype), size).astype(values.dtype)
    sign = parity(pivots).astype(values.dtype) * prod(unit, -1)
    log = sum(primitives.log(size), -1)
    lowest = convert(-inf, log.dtype)
    return where(zero, zeros((), sign.dtype), sign), where(zero, lowest, log)


@sign_and_log.defjvp
def sign_and_log_jvp(primals, tangents):
    """d log det a = trace(a^-1 da)."""
    (a,), (a_dot,) = primals, tangents
    sign, log = sign_and_log(a)
    moved = any_trace(solve(a, a_dot), 0, -2, -1)
    turned = (moved - real(moved)) * sign if sign.dtype.kind == "c" else 0 * sign
    return (sign, log), (turned, real(moved))


def parity(pivots):
    """1 or -1: whether rows were exchanged an even number of times."""
    places = primitives.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    count = sum((pivots != places).astype(pivots.dtype), -1)
    return 1 - 2 * (count % 2)


@one_program
def det(a: ArrayLike) -> Array:
    """The determinant.  JAX: `jnp.linalg.det`."""
    a, = matrices("det", a, square=True)
    n = a.shape[-1]
    if n == 0:
        return ones(a.shape[:-2], a.dtype)
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if n == 3:
        return det_of_three(*([a[..., i, j] for j in range(3)] for i in range(3)))
    return det_by_lu(a)


def det_of_three(x, y, z):
    """The determinant of three rows: x times the cross product of the others."""
    found = x[0] * (y[1] * z[2] - y[2] * z[1])
    found -= x[1] * (y[0] * z[2] - y[2] * z[0])
    return found + x[2] * (y[0] * z[1] - y[1] * z[0])


@custom_jvp
def det_by_lu(a):
    packed, pivots, _ = decompositions.lu(a)
    values = all_diagonals(packed, 0, -2, -1)
    return prod(values, -1) * parity(pivots).astype(a.dtype)


@det_by_lu.defjvp
def det_by_lu_jvp(primals, tangents):
    """d det a = trace(adj(a) da), where adj(a) = det(a) a^-1 exists of any a."""
    (a,), (a_dot,) = primals, tangents
    y, moved = adjugate_product(a, a_dot)
    return y, any_trace(moved, 0, -2, -1)


def adjugate_product(a, b):
    """(det a, adj(a) @ b), also where one pivot is zero; if more are, adj(a) is zero.

    With a = p^T l u, and the last pivot put aside, det(a) u^-1 is finite: in its last
    row det(a) / pivot is the product of the others.
    """
    n = a.shape[-1]
    packed, pivots, permutation = decompositions.lu(a)
    values = all_diagonals(packed, 0, -2, -1)
    sign = parity(pivots).astype(a.dtype)
    others = prod(values[..., :-1], -1) * sign
    y = others * values[..., -1]
    last = np.zeros((n, n), bool)
    last[-1, -1] = True
    upper = where(last, convert(1, a.dtype), packed)
    gone = expand_dims((values[..., :-1] == 0).any(-1), (-1, -2))
    upper = where(gone, eye(n, dtype=a.dtype), upper)
    x = decompositions.triangular_solve(
        packed, decompositions.permuted(b, permutation), left_side=True, lower=True,
        unit_diagonal=True,
    )  # fmt: skip
    lowest = np.arange(n)[:, None] == n - 1
    scale = where(lowest, expand_dims(others, (-1, -2)), expand_dims(y, (-1, -2)))
    x = decompositions.triangular_solve(upper, x * scale, left_side=True)
    return y, where(gone, zeros((), x.dtype), x)


# ---- systems of equations


@one_program
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """x with a @ x = b.  JAX: `jnp.linalg.solve`.

    Args:
      a: [..., n, n]; b: [n] or [..., n, m].  A singular a gives inf and NaN.
    """
    a, b = matrices("solve", a, b, square=True)
    vector = b.ndim == 1
    tell_of_batches("solve", (a, 2), (b, 1 if vector else 2))
    b = b[:, None] if vector else b
    if b.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"jnp.linalg.solve: a has shape {a.shape}, so b must have {a.shape[-1]} "
            f"rows, got {b.shape[-2]}{HERE}"
        )
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = broadcast_to(a, (*batch, *a.shape[-2:]))
    b = broadcast_to(b, (*batch, *b.shape[-2:]))
    x = decompositions.solve(a, b)
    return squeeze(x, -1) if vector else x


@one_program
def inv(a: ArrayLike) -> Array:
    """The inverse.  JAX: `jnp.linalg.inv`."""
    a, = matrices("inv", a, square=True)
    return solve(a, broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape))


def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The Moore-Penrose inverse.  JAX: `jnp.linalg.pinv`.

    Args:
      rtol (or rcond): singular values up to this part of the largest one count as zero;
        by default 10 * max(m, n) * eps.
      hermitian: a is.
    """
    a, = matrices("pinv", a)
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: only one of rtol and rcond may be specified.")
    rtol = rcond if rtol is None else rtol
    if not a.size:
        return zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    default = 10 * builtins.max(a.shape[-2:]) * float(dtypes.finfo(a.dtype).eps)
    rtol = default if rtol is None else rtol
    return pseudo_inverse(a, convert(rtol, real(a).dtype), hermitian)


def pseudo_inverse(a, rtol, hermitian):
    @custom_jvp
    def inverse(a):
        u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
        cutoff = expand_dims(rtol, -1) * s[..., :1]
        s = where(s > cutoff, s, convert(inf, s.dtype)).astype(u.dtype)
        back = conj(matrix_transpose(vh)) / expand_dims(s, -2)
        return matmul(back, conj(matrix_transpose(u)))

    @inverse.defjvp
    def rule(primals, tangents):
        """Golub and Pereyra, 1973: the derivative where the rank stays the same."""
        (a,), (t,), product = primals, tangents, decompositions.product
        p = inverse(a)
        h, th = adjoint(p), adjoint(t)
        first = product(p, t, p)
        second = product(p, h, th) - product(p, h, th, a, p)
        third = product(th, h, p) - product(p, a, th, h, p)
        return p, second + third - first

    return inverse(a)


def adjoint(x):
    return conj(matrix_transpose(x))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """x that makes the norm of b - a @ x least.  JAX: `jnp.linalg.lstsq`.

    Args:
      a: [m, n]; b: [m] or [m, k].
      rcond: singular values up to this part of the largest one count as zero.
      numpy_resid: residuals are empty where NumPy's are.

    Returns:
      (x, sums of squared residuals, rank, singular values).
    """
    a, b = one_dtype("lstsq", a, b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise ValueError(
            "jnp.linalg.lstsq takes a of shape [m, n] and b of shape [m] or [m, k], "
            f"got {a.shape} and {b.shape}{HERE}"
        )
    (m, n), vector = a.shape, b.ndim == 1
    b = b[:, None] if vector else b
    if not a.size:
        s, rank = zeros(0, real(a).dtype), zeros((), int)
        x = zeros((n, *b.shape[1:]), a.dtype)
    else:
        part = float(dtypes.finfo(a.dtype).eps) * builtins.max(m, n)
        rcond = part if rcond is None else rcond
        u, s, vh = svd(a, full_matrices=False)
        # Of a matrix of zeros nothing is kept.
        kept = (s > 0) & (s >= convert(rcond, s.dtype) * s[0])
        rank = sum(kept, dtype=int)
        safe = where(kept, s, convert(1, s.dtype)).astype(a.dtype)
        scaled = where(kept[:, None], matmul(adjoint(u), b) / safe[:, None], 0)
        x = matmul(adjoint(vh), scaled)
    what = "the rank of a in jnp.linalg.lstsq(numpy_resid=True)"
    if numpy_resid and (m <= n or (a.size and static_int(rank, what) < n)):
        residuals = zeros(0, real(a).dtype)
    else:
        residuals = vector_norm(b - matmul(a, x), axis=0) ** 2
    return (x[:, 0] if vector else x), residuals, rank, s


def matrix_rank(
    M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """How many singular values are above a tolerance.  JAX: `jnp.linalg.matrix_rank`.

    Args:
      rtol: relative to the largest one; by default max(m, n) * eps; tol: absolute.
    """
    M, = promote_args_inexact("jnp.linalg.matrix_rank", M)
    if M.ndim < 2:
        return (M != 0).any().astype(np.int32)
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if tol is None:
        part = builtins.max(M.shape[-2:]) * float(dtypes.finfo(M.dtype).eps)
        rtol = convert(part if rtol is None else rtol, s.dtype)
        tol = rtol * max(s, -1, keepdims=True, initial=0)
    return sum(s > tol, -1, dtype=int)


def cond(x: ArrayLike, p: ArrayLike | None = None) -> Array:
    """The condition number: norm(x, p) * norm(inv(x), p).  JAX: `jnp.linalg.cond`.

    Args:
      p: as of `norm`; None and 2: the largest singular value by the smallest one.
    """
    x, = matrices("cond", x)
    if p in (None, 2, -2):
        s = svdvals(x)
        ratio = s[..., 0] / s[..., -1]
        result = 1 / ratio if p == -2 else ratio
    else:
        x, = matrices("cond", x, square=True)
        result = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    return where(result != result, convert(inf, result.dtype), result)


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse for `tensordot`, of the first `ind` axes against the others.

    JAX: `jnp.linalg.tensorinv`.
    """
    a, = promote_args_inexact("jnp.linalg.tensorinv", a)
    ind = static_int(ind, "the argument 'ind' of jnp.linalg.tensorinv")
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got {ind=}")
    first, rest = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise ValueError(
            f"product of dimensions before and after ind={ind} must match, got shape "
            f"{a.shape}{HERE}"
        )
    n = math.prod(first)
    return reshape(inv(reshape(a, (n, n))), (*rest, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """x with tensordot(a, x, x.ndim) = b.  JAX: `jnp.linalg.tensorsolve`.

    Args:
      axes: of a, to be moved to its end first.
    """
    a, b = one_dtype("tensorsolve", a, b)
    if axes is not None:
        a = moveaxis(a, axes, tuple(range(a.ndim - len(axes), a.ndim)))
    rest = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(rest) != b.size:
        raise ValueError(
            f"jnp.linalg.tensorsolve: a of shape {a.shape} must begin with the shape "
            f"of b, {b.shape}, and have as many elements in its other axes{HERE}"
        )
    return reshape(solve(reshape(a, (b.size, b.size)), b.ravel()), rest)


__all__ = [
    *("cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals"),
    *("eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power"),
    *("matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr"),
    *("slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve"),
    *("trace", "vecdot", "vector_norm"),
]
names.front(globals(), __all__)
calls.explain_calls("jnp.linalg", globals(), __all__)
