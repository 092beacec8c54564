"""Polynomials as arrays of coefficients, the highest power first."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..trace import dtypes
from ..trace.base.demand import on_demand
from ..trace.types import Array, ArrayLike
from .arguments import check_arraylike, concrete, static, static_int
from .contracting import matmul
from .core import (
    absolute, convert, in_one_dtype, promote_args_inexact, promote_dtypes, sqrt,
)
from .creation import vander
from .editing import trim_zeros
from .elementwise import where
from .making import arange, concatenate, eye, ones, stack, zeros
from .rearranging import atleast_1d, roll
from .reducing import all, argmin, sum
from .shapes import broadcast_shapes, broadcast_to
from .signals import convolve
from .sorting import argsort

eigvals = on_demand("numpy.linalg:eigvals")
inv = on_demand("numpy.linalg:inv")
lstsq = on_demand("numpy.linalg:lstsq")


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The polynomial with coefficients p, highest first, at x.  JAX: same name."""
    p, x = in_one_dtype("polyval", p, x)
    y = zeros(broadcast_shapes(p.shape[1:], x.shape), x.dtype)
    for i in range(p.shape[0]):
        y = y * x + p[i]
    return y


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.  JAX: `jnp.polyadd`."""
    x, y = in_one_dtype("polyadd", a1, a2)
    x, y = (x, y) if y.shape[0] <= x.shape[0] else (y, x)
    return x.at[-y.shape[0] :].add(y) if y.shape[0] else x


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.  JAX: `jnp.polysub`."""
    x, y = in_one_dtype("polysub", a1, a2)
    return polyadd(x, -y)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.  JAX: `jnp.polymul`."""
    x, y = in_one_dtype("polymul", a1, a2, family=dtypes.to_inexact_dtype)
    if trim_leading_zeros and (x.size > 1 or y.size > 1):
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    x, y = [z if z.size else zeros(1, z.dtype) for z in (x, y)]
    return convolve(x, y)


def polydiv(
    u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False
) -> tuple[Array, Array]:
    """-> (quotient, remainder) of two polynomials.  JAX: `jnp.polydiv`."""
    rest, v = in_one_dtype("polydiv", u, v, family=dtypes.to_inexact_dtype)
    m, n = rest.shape[0] - 1, v.shape[0] - 1
    q = zeros(builtins.max(m - n + 1, 1), rest.dtype)
    for k in range(m - n + 1):
        d = rest[k] / v[0]
        q = q.at[k].set(d)
        rest = rest.at[k : k + n + 1].add(-d * v)
    if trim_leading_zeros:
        small = float(dtypes.finfo(rest.dtype).eps) ** 0.5
        known = concrete(absolute(rest) < small, "the remainder of jnp.polydiv", static)
        rest = rest[int(np.argmin(known)) if not known.all() else rest.shape[0] :]
    return q, rest


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The m-th integral of a polynomial, with constants k.  JAX: `jnp.polyint`."""
    m = static_int(m, "the argument 'm' of jnp.polyint")
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    k = 0 if k is None else k
    p, k = in_one_dtype("polyint", p, k, family=dtypes.to_inexact_dtype)
    k = broadcast_to(k, (m,)) if k.size == 1 else k
    if k.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    n = p.shape[0] + m
    grid = np.maximum(1, np.arange(n)[None] - np.arange(m)[:, None])
    return concatenate([p, k]) / convert(grid.prod(0)[::-1].astype(float), p.dtype)


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial.  JAX: `jnp.polyder`."""
    p, = promote_args_inexact("polyder", p)
    m = static_int(m, "the argument 'm' of jnp.polyder")
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    grid = np.arange(m, p.shape[0])[None] - np.arange(m)[:, None]
    return p[:-m] * convert(grid.prod(0)[::-1].astype(float), p.dtype)


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial, complex: eigenvalues of a matrix.  JAX: `jnp.roots`.

    Args:
      strip_zeros: leave out a zero for each leading coefficient that is 0, which must
        be known; else, as in a traced function, NaN stands last for each of them.
    """
    p, = promote_args_inexact("roots", p)
    p = atleast_1d(p)
    if p.ndim != 1:
        raise ValueError(f"Input must be a rank-1 array, got shape {p.shape}")
    complex_dtype = dtypes.to_complex_dtype(p.dtype)
    if p.size < 2:
        return zeros(0, complex_dtype)
    none = p == 0
    leading = where(all(none), p.size, argmin(none))
    if strip_zeros:
        advice = "pass strip_zeros=False to jnp.roots, which then gives NaNs"
        p = p[int(concrete(leading, "the leading zeros of jnp.roots", advice)) :]
        return eigvals(companion(p)) if p.size > 1 else zeros(0, complex_dtype)
    p = where(all(none), convert(1, p.dtype), p)
    found = eigvals(companion(roll(p, -leading)))
    # Zeros that the rolling made stand last, where those without a value go.
    found = found[argsort(found == 0)]
    known = arange(found.size) < found.size - leading
    return where(known, found, convert(complex(np.nan, np.nan), complex_dtype))


def companion(p):
    """The matrix whose eigenvalues are the zeros of a polynomial."""
    return eye(p.size - 1, k=-1, dtype=p.dtype).at[0].set(-p[1:] / p[0])


def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None,
    full: bool = False, w: ArrayLike | None = None, cov: bool = False,
) -> Any:
    """The polynomial of a degree with the least squares at points.  JAX: same name.

    Args:
      x: [m]; y: [m] or [m, k]; w: [m], weights of the differences.
      rcond: singular values up to this part of the largest one count as zero.
      full: return also residuals, rank, singular values and rcond.
      cov: return also the covariance of the coefficients; "unscaled": for weights that
        are reciprocals of standard deviations.
    """
    given = [x, y, *([] if w is None else [w])]
    check_arraylike("polyfit", *given)
    x, y = promote_dtypes([x, y], dtypes.to_inexact_dtype)
    weights = [promote_args_inexact("polyfit", w)[0] for w in given[2:]]
    deg = static_int(deg, "the argument 'deg' of jnp.polyfit")
    check_points(x, y, deg)
    rcond = x.size * float(dtypes.finfo(x.dtype).eps) if rcond is None else rcond
    table, right = vander(x, deg + 1), y
    for w in weights:
        if w.ndim != 1 or w.shape[0] != y.shape[0]:
            raise TypeError(
                "expected a 1-d array for weights, of the same length as y, got shape "
                f"{w.shape}"
            )
        table, right = table * w[:, None], right * (w if y.ndim == 1 else w[:, None])
    scale = sqrt(sum(table * table, 0))
    table = table / scale
    found, residuals, rank, s = lstsq(table, right, rcond)
    found = found / (scale if y.ndim == 1 else scale[:, None])
    if full:
        return found, residuals, rank, s, convert(rcond, s.dtype)
    if not cov:
        return found
    covariance = inv(matmul(table.T, table)) / (scale[:, None] * scale)
    factor = ones(1, x.dtype)
    if cov != "unscaled":
        if x.size <= deg + 1:
            raise ValueError(
                "the number of data points must exceed order to scale the covariance "
                "matrix"
            )
        factor = residuals / (x.size - deg - 1)
    return found, covariance * factor if y.ndim == 1 else covariance[..., None] * factor


def check_points(x, y, deg):
    """Complain unless a polynomial of degree `deg` can be fitted to points."""
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if x.size == 0:
        raise TypeError("expected non-empty vector for x")
    if y.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with these zeros, or the eigenvalues of a matrix as its zeros.

    JAX: `jnp.poly`.
    """
    x, = promote_args_inexact("poly", seq_of_zeros)
    x = atleast_1d(x)
    if x.ndim == 2 and x.shape[0] == x.shape[1] != 0:
        x = eigvals(x)
    if x.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    result = ones((1,) if x.size else (), x.dtype)
    for i in range(x.shape[0]):
        result = convolve(result, stack([ones((), x.dtype), -x[i]]))
    return result
