"""The same elements in another shape or order: `reshape`, `transpose`, `squeeze`."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

import numpy as np

from ..trace import primitives
from ..trace.shape_checks import broadcast_shape
from ..trace.types import Array, ArrayLike, Axis, Shape
from .arguments import canonical_axes, canonical_axis, canonicalize_shape
from .core import arrays


def broadcast_shapes(*shapes: int | Shape) -> tuple[int, ...]:
    """The shape that all of `shapes` broadcast to.  JAX: `jnp.broadcast_shapes`."""
    return broadcast_shape(tuple(map(canonicalize_shape, shapes)))


def reshape(
    a: ArrayLike, shape: int | Shape, order: str = "C", *, copy: bool | None = None
) -> Array:
    """The same elements in another shape; one size may be -1.  JAX: `jnp.reshape`."""
    x, = arrays("reshape", a)
    sizes = known_sizes(x, shape)
    if order == "F":
        return transpose(reshape(transpose(x), sizes[::-1]))
    if order != "C":
        kind = NotImplementedError if order == "A" else ValueError
        raise kind(f"Unexpected value for 'order' argument: {order}.")
    return x if sizes == x.shape else primitives.reshape(x, sizes)


def known_sizes(x, shape):
    """`shape` for reshaping `x`, its -1 replaced by what is left over."""
    sizes = canonicalize_shape(shape)
    if sizes.count(-1) > 1:
        raise TypeError(
            f"can only specify one unknown axis size with a `-1` value, got {shape}"
        )
    rest = math.prod(s for s in sizes if s != -1)
    if -1 in sizes and rest and x.size % rest == 0:
        return tuple(x.size // rest if s == -1 else s for s in sizes)
    if -1 in sizes or rest != x.size:
        why = f"into shape {shape} (size {rest})"
        if -1 in sizes:
            why = (
                f"into shape {shape} because the product of specified axis sizes "
                f"({rest}) does not evenly divide {x.size}"
            )
        what = f"array of shape {x.shape} (size {x.size})"
        raise TypeError(f"cannot reshape {what} {why}")
    return sizes


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements along one axis.  JAX: `jnp.ravel`."""
    x, = arrays("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return reshape(x, (x.size,), order)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order: backwards by default.  JAX: `jnp.transpose`."""
    x, = arrays("transpose", a)
    axes = range(x.ndim)[::-1] if axes is None else axes
    order = tuple(canonical_axis(i, x.ndim) for i in axes)
    return x if order == tuple(range(x.ndim)) else primitives.transpose(x, order)


def moveaxis(
    a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> Array:
    """The axes `source` moved to the places `destination`.  JAX: `jnp.moveaxis`."""
    x, = arrays("moveaxis", a)
    source = canonical_axes(source, x.ndim)
    destination = canonical_axes(destination, x.ndim)
    if len(source) != len(destination):
        raise ValueError(
            f"Inconsistent number of elements: {len(source)} vs {len(destination)}"
        )
    order = [i for i in range(x.ndim) if i not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """New axes of length 1, at places of the result.  JAX: `jnp.expand_dims`."""
    x, = arrays("expand_dims", a)
    return primitives.expand_dims(x, tuple(axis) if np.iterable(axis) else (axis,))


def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Without the axes of length 1, or without those given.  JAX: `jnp.squeeze`."""
    x, = arrays("squeeze", a)
    if axis is None:
        axis = tuple(i for i, size in enumerate(x.shape) if size == 1)
    return primitives.squeeze(x, canonical_axes(axis, x.ndim))


def broadcast_to(array: ArrayLike, shape: int | Shape) -> Array:
    """The array repeated along axes to fit `shape`.  JAX: `jnp.broadcast_to`."""
    x, = arrays("broadcast_to", array)
    shape = canonicalize_shape(shape)
    if x.shape == shape:
        return x
    check_broadcast(x.aval, shape)
    return stretch(x, shape)


def check_broadcast(given, shape, explanation=""):
    """Raise ValueError unless an array of this aval can be broadcast to `shape`."""
    new = len(shape) - given.ndim
    if new < 0:
        raise ValueError(
            "Cannot broadcast to shape with fewer dimensions: "
            f"arr_shape={given.shape} shape={shape}{explanation}"
        )
    pairs = zip(given.shape, shape[new:], strict=True)
    if builtins.any(size not in (1, wanted) for size, wanted in pairs):
        of_given, of_wanted = (",".join(map(str, s)) for s in (given.shape, shape))
        raise ValueError(
            "Incompatible types for broadcasting: input type="
            f"{given.dtype}[{of_given}] and requested type={given.dtype}[{of_wanted}]"
            f"{explanation}"
        )


def stretch(x, shape):
    """`x` repeated to a shape that it fits."""
    given = x.aval.shape
    new = len(shape) - len(given)
    # Axes of length 1 go first, so that one equation says what is repeated.
    kept = [i for i, size in enumerate(given) if size == shape[new + i]]
    dropped = tuple([i for i in range(len(given)) if i not in kept])
    x = primitives.squeeze(x, dropped) if dropped else x
    dims = tuple([new + i for i in kept])
    return primitives.broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays broadcast to a common shape, as a list.  JAX: same name."""
    return to_one_shape(arrays("broadcast_arrays", *args))


def to_one_shape(args):
    """`broadcast_arrays` of a list of arrays."""
    shape = broadcast_shape(tuple([x.aval.shape for x in args]))
    return [x if x.aval.shape == shape else stretch(x, shape) for x in args]


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes swapped.  JAX: `jnp.matrix_transpose`."""
    x, = arrays("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            "x must be at least two-dimensional for matrix_transpose; got "
            f"ndim={x.ndim}"
        )
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def along_axis(x, axis, rank):
    """A vector along one of `rank` axes; the others have length 1."""
    return primitives.expand_dims(x, [i for i in range(rank) if i != axis])
