"""More products: `trace`, `outer`, `kron`, `cross`, and those over the last axes."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..trace import primitives
from ..trace.types import Array, ArrayLike, DTypeLike
from .arguments import canonical_axis, no_out, tell_of_batches
from .contracting import dot, matmul, tensordot
from .core import arrays, expand_to, in_one_dtype
from .elementwise import choose_where
from .making import astype, eye, stack, zeros_like
from .mathematics import conj
from .reducing import sum
from .shapes import moveaxis, ravel, reshape


def trace(
    a: ArrayLike, offset: ArrayLike = 0, axis1: int = 0, axis2: int = 1,
    dtype: DTypeLike | None = None, out: None = None,
) -> Array:
    """The sum along a diagonal.  JAX: `jnp.trace`."""
    no_out("trace", out)
    a, = arrays("trace", a)
    if canonical_axis(axis1, a.ndim) == canonical_axis(axis2, a.ndim):
        raise ValueError(f"axis1 and axis2 can not be same. {axis1=} and {axis2=}")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    mask = eye(*a.shape[-2:], k=offset, dtype=np.bool_)
    return sum(choose_where(mask, a, zeros_like(a)), (-2, -1), dtype)


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """All products of two vectors' elements.  JAX: `jnp.outer`."""
    no_out("outer", out)
    x, y = in_one_dtype("outer", a, b)
    return ravel(x)[:, None] * ravel(y)[None]


def inner(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products over both last axes.  JAX: `jnp.inner`."""
    x, y = arrays("inner", a, b)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    if x.ndim and y.ndim:
        return tensordot(x, y, (-1, -1), **options)
    if preferred_element_type is not None:
        x, y = astype(x, preferred_element_type), astype(y, preferred_element_type)
    return x * y


def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products of all elements, a's conjugated.  JAX: `jnp.vdot`."""
    x, y = arrays("vdot", a, b)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return dot(ravel(conj(x)), ravel(y), **options)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products along an axis, x1's conjugated; others broadcast.  JAX: same."""
    x, y = arrays("jnp.vecdot", x1, x2)
    if x.shape[canonical_axis(axis, x.ndim)] != y.shape[canonical_axis(axis, y.ndim)]:
        raise ValueError(
            f"axes must match; got shapes {x.shape} and {y.shape} with {axis=}"
        )
    tell_of_batches("vecdot", (x, 1), (y, 1))
    x, y = moveaxis(conj(x), axis, -1), moveaxis(y, axis, -1)
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return matmul(x[..., None, :], y[..., None], **options)[..., 0, 0]


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors; leading axes broadcast.  JAX: `jnp.matvec`."""
    x, y = arrays("matvec", x1, x2)
    tell_of_batches("matvec", (x, 2), (y, 1))
    return matmul(x, y[..., None])[..., 0]


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugate vectors times matrices; leading axes broadcast.  JAX: same name."""
    x, y = arrays("vecmat", x1, x2)
    tell_of_batches("vecmat", (x, 1), (y, 2))
    return matmul(conj(x)[..., None, :], y)[..., 0, :]


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product.  JAX: `jnp.kron`."""
    x, y = in_one_dtype("kron", a, b)
    rank = builtins.max(x.ndim, y.ndim)
    x, y = expand_to(x, rank), expand_to(y, rank)
    shape = [m * n for m, n in zip(x.shape, y.shape, strict=True)]
    x = primitives.expand_dims(x, range(1, 2 * rank, 2))
    y = primitives.expand_dims(y, range(0, 2 * rank, 2))
    return reshape(x * y, shape)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors of 3, or of 2.  JAX: `jnp.cross`."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = in_one_dtype("cross", a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    a, b = [[x[..., i] for i in range(x.shape[-1])] for x in (a, b)]
    last = a[0] * b[1] - a[1] * b[0]
    if len(a) == len(b) == 2:
        return last
    a, b = [x if len(x) == 3 else [*x, zeros_like(x[0])] for x in (a, b)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], last]
    return moveaxis(stack(parts), 0, axisc)
