"""`jnp.linalg`: norms, powers and chains of matrices."""

import builtins
from types import SimpleNamespace

from ..trace import primitives
from .arguments import canonical_axes, canonical_axis, static_int
from .contracting import matmul, tensordot
from .core import arrays, convert, inf, np_shape, promote_args_inexact, sqrt
from .creation import diagonal
from .einstein import einsum
from .elementwise import power
from .making import checked_arrays, eye
from .mathematics import conj, real
from .products import cross, outer, trace, vecdot
from .reducing import max, min, sum
from .shapes import broadcast_to, matrix_transpose, squeeze


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
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


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of matrices in the last two axes.  JAX: `jnp.linalg.matrix_norm`."""
    return norm(x, ord, (-2, -1), keepdims)


def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of vectors (one axis) or matrices (two axes).  JAX: `jnp.linalg.norm`.

    Args:
      ord: of vectors any number or infinity, by default 2; of matrices "fro" (the
        default), 1, -1, inf, -inf, and "nuc", 2, -2, which are not here yet.
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
        raise NotImplementedError(f"norm of matrices with ord={ord!r}: needs svd")
    if ord not in (1, -1, inf, -inf):
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    first, second = axes if builtins.abs(ord) == 1 else axes[::-1]
    sums = sum(primitives.abs(x), first, keepdims=True)
    initial = {"initial": 0} if ord > 0 else {}
    result = (max if ord > 0 else min)(sums, second, keepdims=True, **initial)
    return result if keepdims else squeeze(result, axes)


def matrix_power(a, n):
    """A square matrix to the power n >= 0.  JAX: `jnp.linalg.matrix_power`."""
    a, = promote_args_inexact("jnp.linalg.matrix_power", a)
    n = static_int(n, "the argument 'n' of jnp.linalg.matrix_power")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise TypeError(
            f"Last 2 dimensions of the array must be square, got shape {a.shape}"
        )
    if n < 0:
        raise NotImplementedError("jnp.linalg.matrix_power of n < 0: needs inv")
    result = None
    while n:
        if n % 2:
            result = a if result is None else matmul(result, a)
        n //= 2
        a = matmul(a, a) if n else a
    unit = eye(a.shape[-1], dtype=a.dtype)
    return broadcast_to(unit, a.shape) if result is None else result


def multi_dot(arrays, *, precision=None):
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


def linalg_cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of 3.  JAX: `jnp.linalg.cross`."""
    x1, x2 = arrays("cross", x1, x2)
    sizes = [x.shape[canonical_axis(axis, x.ndim)] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError("Both input arrays must be 3-dimensional vectors")
    return cross(x1, x2, axis=axis)


def linalg_diagonal(x, /, *, offset=0):
    """The diagonals of matrices in the last two axes.  JAX: `jnp.linalg.diagonal`."""
    return diagonal(x, offset, -2, -1)


def linalg_trace(x, /, *, offset=0, dtype=None):
    """The traces of matrices in the last two axes.  JAX: `jnp.linalg.trace`."""
    return trace(x, offset, -2, -1, dtype)


def linalg_outer(x1, x2, /):
    """All products of two vectors' elements.  JAX: `jnp.linalg.outer`."""
    if len(np_shape(x1)) != 1 or len(np_shape(x2)) != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return outer(x1, x2)


linalg = SimpleNamespace(
    norm=norm, vector_norm=vector_norm, matrix_norm=matrix_norm,
    matrix_power=matrix_power, matrix_transpose=matrix_transpose, multi_dot=multi_dot,
    matmul=matmul, tensordot=tensordot, vecdot=vecdot, outer=linalg_outer,
    cross=linalg_cross, diagonal=linalg_diagonal, trace=linalg_trace,
)  # fmt: skip
