"""Polynomials as arrays of coefficients, the highest power first."""

import builtins

import numpy as np

from ..trace import dtypes
from .arguments import check_arraylike, concrete, static, static_int
from .core import absolute, convert, promote_args_inexact, promote_dtypes
from .editing import trim_zeros
from .making import concatenate, ones, stack, zeros
from .rearranging import atleast_1d
from .shapes import broadcast_shapes, broadcast_to
from .signals import convolve


def polyval(p, x, *, unroll=16):
    """The polynomial with coefficients p, highest first, at x.  JAX: same name."""
    check_arraylike("polyval", p, x)
    p, x = promote_dtypes([p, x])
    shape = broadcast_shapes(p.shape[1:], x.shape)
    y = zeros(shape, x.dtype)
    for i in range(p.shape[0]):
        y = y * x + p[i]
    return y


def polyadd(a1, a2):
    """The sum of two polynomials.  JAX: `jnp.polyadd`."""
    check_arraylike("polyadd", a1, a2)
    x, y = promote_dtypes([a1, a2])
    x, y = (x, y) if y.shape[0] <= x.shape[0] else (y, x)
    return x.at[-y.shape[0] :].add(y) if y.shape[0] else x


def polysub(a1, a2):
    """The difference of two polynomials.  JAX: `jnp.polysub`."""
    check_arraylike("polysub", a1, a2)
    x, y = promote_dtypes([a1, a2])
    return polyadd(x, -y)


def polymul(a1, a2, *, trim_leading_zeros=False):
    """The product of two polynomials.  JAX: `jnp.polymul`."""
    check_arraylike("polymul", a1, a2)
    x, y = promote_dtypes([a1, a2], dtypes.to_inexact_dtype)
    if trim_leading_zeros and (x.size > 1 or y.size > 1):
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    x, y = [z if z.size else zeros(1, z.dtype) for z in (x, y)]
    return convolve(x, y)


def polydiv(u, v, *, trim_leading_zeros=False):
    """-> (quotient, remainder) of two polynomials.  JAX: `jnp.polydiv`."""
    check_arraylike("polydiv", u, v)
    u, v = promote_dtypes([u, v], dtypes.to_inexact_dtype)
    m, n = u.shape[0] - 1, v.shape[0] - 1
    q = zeros(builtins.max(m - n + 1, 1), u.dtype)
    for k in range(m - n + 1):
        d = u[k] / v[0]
        q = q.at[k].set(d)
        u = u.at[k : k + n + 1].add(-d * v)
    if trim_leading_zeros:
        small = float(dtypes.finfo(u.dtype).eps) ** 0.5
        known = concrete(absolute(u) < small, "the remainder of jnp.polydiv", static)
        u = u[int(np.argmin(known)) if not known.all() else u.shape[0] :]
    return q, u


def polyint(p, m=1, k=None):
    """The m-th integral of a polynomial, with constants k.  JAX: `jnp.polyint`."""
    m = static_int(m, "the argument 'm' of jnp.polyint")
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    check_arraylike("polyint", p, 0 if k is None else k)
    p, k = promote_dtypes([p, 0 if k is None else k], dtypes.to_inexact_dtype)
    k = broadcast_to(k, (m,)) if k.size == 1 else k
    if k.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    n = p.shape[0] + m
    grid = np.maximum(1, np.arange(n)[None] - np.arange(m)[:, None])
    return concatenate([p, k]) / convert(grid.prod(0)[::-1].astype(float), p.dtype)


def polyder(p, m=1):
    """The m-th derivative of a polynomial.  JAX: `jnp.polyder`."""
    p, = promote_args_inexact("polyder", p)
    m = static_int(m, "the argument 'm' of jnp.polyder")
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    grid = np.arange(m, p.shape[0])[None] - np.arange(m)[:, None]
    return p[:-m] * convert(grid.prod(0)[::-1].astype(float), p.dtype)


def poly(seq_of_zeros):
    """The polynomial with these zeros.  JAX: `jnp.poly`; of matrices not yet."""
    x, = promote_args_inexact("poly", seq_of_zeros)
    x = atleast_1d(x)
    if x.ndim != 1:
        raise NotImplementedError("jnp.poly of a matrix needs its eigenvalues")
    result = ones((1,) if x.size else (), x.dtype)
    for i in range(x.shape[0]):
        result = convolve(result, stack([ones((), x.dtype), -x[i]]))
    return result
