"""Elements in another place: flips, rolls, repeats, stacks, splits, insertions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..trace import primitives, slicing
from ..trace.types import Array, ArrayLike, Axis, DTypeLike, Shape
from .arguments import canonical_axes, canonical_axis, canonicalize_shape, static_int
from .core import arrays, as_array, convert, expand_to, known_int, ndim
from .elementwise import mod
from .making import array, asarray, checked_arrays, concatenate, zeros_like
from .shapes import expand_dims, moveaxis, ravel, reshape, transpose


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.  JAX: `jnp.swapaxes`."""
    x, = arrays("swapaxes", a)
    axes = list(range(x.ndim))
    i, j = (canonical_axis(axis, x.ndim, IndexError) for axis in (axis1, axis2))
    axes[i], axes[j] = axes[j], axes[i]
    return transpose(x, axes)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """An axis moved before another one.  JAX: `jnp.rollaxis`."""
    x, = arrays("rollaxis", a)
    start = static_int(start, "the argument 'start' of jnp.rollaxis")
    axis = canonical_axis(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise ValueError(f"{start=} must satisfy {-x.ndim}<=start<={x.ndim}")
    start += x.ndim if start < 0 else 0
    return moveaxis(x, axis, start - (start > axis))


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """The axes in another order.  JAX: `jnp.permute_dims`."""
    return transpose(a, axes)


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """As `concatenate`.  JAX: `jnp.concat`."""
    return concatenate(arrays, axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, as a tuple.  JAX: `jnp.unstack`."""
    x, = arrays("unstack", x)
    return tuple(moveaxis(x, canonical_axis(axis, x.ndim), 0))


def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """The elements in reverse order along axes, by default all.  JAX: same name."""
    x, = arrays("flip", m)
    return slicing.rev(x, canonical_axes(axis, x.ndim))


def fliplr(m: ArrayLike) -> Array:
    """Columns in reverse order.  JAX: `jnp.fliplr`."""
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """Rows in reverse order.  JAX: `jnp.flipud`."""
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Turned by k times 90 degrees in the plane of two axes.  JAX: same name."""
    x, = arrays("rot90", m)
    if x.ndim < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got "
            f"first argument of shape {x.shape}, which has ndim {x.ndim}"
        )
    axes, k = canonical_axes(axes, x.ndim), static_int(k, "k")
    if len(axes) != 2:
        raise ValueError(f"rot90 requires two axes, got {axes}")
    i, j = axes
    if i == j:
        raise ValueError("Axes must be different")
    turns = {
        0: lambda: x,
        1: lambda: swapaxes(flip(x, j), i, j),
        2: lambda: flip(x, (i, j)),
        3: lambda: flip(swapaxes(x, i, j), j),
    }
    return turns[k % 4]()


def roll(a: ArrayLike, shift: ArrayLike | Sequence[int], axis: Axis = None) -> Array:
    """Shifted along axes; what leaves at an end returns at the other.  JAX: same."""
    x, = arrays("roll", a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [canonical_axis(i, x.ndim) for i in axes]
    several = isinstance(shift, (tuple, list)) or getattr(shift, "ndim", 0)
    shifts = shift if several else (shift,)
    axes, places = np.broadcast_arrays(axes, range(len(shifts)))
    for axis, place in zip(axes, places, strict=True):
        x = roll_one(x, shifts[int(place)], int(axis))
    return x


def roll_one(x, shift, axis):
    """`roll` along one axis; the shift may be traced."""
    n = x.shape[axis]
    if n == 0:
        return x
    known = known_int(shift)
    if known is None:
        twice = concatenate([x, x], axis)
        start = convert(mod(-as_array(shift), n), np.int32)
        return slicing.dynamic_slice_in_dim(twice, start, n, axis)
    cut = -known % n
    before, after = part_of(x, axis, 0, cut), part_of(x, axis, cut, n)
    return concatenate([after, before], axis)


def part_of(x, axis, start, stop):
    """`x[start:stop]` along an axis."""
    return x[(slice(None),) * axis + (slice(start, stop),)]


def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """The array repeated as a whole along each axis.  JAX: `jnp.tile`."""
    x, = arrays("tile", A)
    reps = canonicalize_shape(reps)
    rank = builtins.max(x.ndim, len(reps))
    reps = (1,) * (rank - len(reps)) + reps
    x = expand_to(x, rank)
    shape = [part for rep, n in zip(reps, x.shape, strict=True) for part in (rep, n)]
    x = primitives.broadcast_in_dim(x, shape, range(1, 2 * rank, 2))
    return reshape(x, [r * n for r, n in zip(shape[::2], shape[1::2], strict=True)])


def atleast_nd(name, promote, args):
    """What `atleast_1d` and its sisters share: one array, or a list of them."""
    results = [promote(x) for x in arrays(name, *args)]
    return results[0] if len(results) == 1 else results


def atleast_1d(*arys: ArrayLike) -> Any:
    """With one axis at least.  JAX: `jnp.atleast_1d`."""
    return atleast_nd("atleast_1d", lambda x: array(x, copy=False, ndmin=1), arys)


def atleast_2d(*arys: ArrayLike) -> Any:
    """With two axes at least.  JAX: `jnp.atleast_2d`."""
    return atleast_nd("atleast_2d", lambda x: array(x, copy=False, ndmin=2), arys)


def atleast_3d(*arys: ArrayLike) -> Any:
    """With three axes at least: [1, n, 1] from [n].  JAX: `jnp.atleast_3d`."""
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}

    def promote(x):
        return expand_dims(x, new[x.ndim]) if x.ndim in new else x

    return atleast_nd("atleast_3d", promote, arys)


def vstack(tup: Array | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Joined as rows, along the first axis.  JAX: `jnp.vstack`."""
    return concatenate([atleast_2d(x) for x in checked_arrays("vstack", tup)], 0, dtype)


def hstack(tup: Array | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Joined along the second axis, vectors along the first.  JAX: `jnp.hstack`."""
    parts = [atleast_1d(x) for x in checked_arrays("hstack", tup)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype)


def dstack(tup: Array | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Joined along the third axis.  JAX: `jnp.dstack`."""
    return concatenate([atleast_3d(x) for x in checked_arrays("dstack", tup)], 2, dtype)


def column_stack(tup: Array | Sequence[ArrayLike]) -> Array:
    """Vectors as columns, matrices as they are, side by side.  JAX: same name."""
    parts = arrays("column_stack", *checked_arrays("column_stack", tup))
    return concatenate([x if x.ndim > 1 else atleast_2d(x).T for x in parts], 1)


def block(arrays: Any) -> Array:
    """An array from nested lists of blocks.  JAX: `jnp.block`."""
    return block_and_depth(arrays)[0]


def block_and_depth(xs):
    """-> (the array of nested lists of blocks, how deep the lists are)."""
    if isinstance(xs, tuple):
        raise ValueError(f"jax.numpy.block does not allow tuples, got {xs}")
    if not isinstance(xs, list):
        return asarray(xs), 1
    if not xs:
        raise ValueError("jax.numpy.block does not allow empty list arguments")
    parts, depths = zip(*map(block_and_depth, xs), strict=True)
    if len(set(depths)) > 1:
        raise ValueError("Mismatched list depths in jax.numpy.block")
    rank = builtins.max(depths[0], *[x.ndim for x in parts])
    return concatenate([expand_to(x, rank) for x in parts], -depths[0]), depths[0] + 1


def split_at(name, ary, where, axis):
    """An array cut at places, or into so many parts."""
    x, = arrays(name, ary)
    axis = canonical_axis(axis, x.ndim, IndexError)
    n = x.shape[axis]
    if isinstance(where, (tuple, list)) or getattr(where, "ndim", 0):
        places = [static_int(i, f"a place for jnp.{name}") for i in where]
        ends = [slice(None, i).indices(n)[1] for i in places]
    else:
        # As JAX takes it: 2.5 parts are two.
        parts = static_int(where, f"the number of parts of jnp.{name}", int)
        if parts < 1:
            raise ValueError(f"jnp.{name}: number sections must be larger than 0.")
        short, more = builtins.divmod(n, parts)
        if more and name != "array_split":
            raise ValueError(
                f"array split does not result in an equal division: rest is {more}"
            )
        sizes = [short + 1] * more + [short] * (parts - more)
        ends = np.cumsum(sizes)[:-1].tolist()
    pairs = zip([0, *ends], [*ends, n], strict=True)
    return [part_of(x, axis, i, builtins.max(i, j)) for i, j in pairs]


def split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0
) -> list[Array]:
    """Cut into equal parts, or at places, as a list.  JAX: `jnp.split`."""
    return split_at("split", ary, indices_or_sections, axis)


def array_split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0
) -> list[Array]:
    """As `split`; the first parts may be longer by one.  JAX: `jnp.array_split`."""
    return split_at("array_split", ary, indices_or_sections, axis)


def vsplit(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike
) -> list[Array]:
    """`split` along the first axis.  JAX: `jnp.vsplit`."""
    return split_at("vsplit", ary, indices_or_sections, 0)


def hsplit(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike
) -> list[Array]:
    """`split` along the second axis, vectors along the first.  JAX: `jnp.hsplit`."""
    return split_at("hsplit", ary, indices_or_sections, 0 if ndim(ary) == 1 else 1)


def dsplit(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike
) -> list[Array]:
    """`split` along the third axis.  JAX: `jnp.dsplit`."""
    return split_at("dsplit", ary, indices_or_sections, 2)


def resize(a: ArrayLike, new_shape: Shape) -> Array:
    """The elements over and over, until `new_shape` is full.  JAX: `jnp.resize`."""
    x, = arrays("resize", a)
    shape = canonicalize_shape(new_shape)
    if builtins.any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    total = math.prod(shape)
    if x.size == 0 or total == 0:
        return zeros_like(x, shape=shape)
    return reshape(tile(ravel(x), math.ceil(total / x.size))[:total], shape)
