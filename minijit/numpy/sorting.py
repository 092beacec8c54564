"""Sorting and searching what is sorted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ops import sorting as ordering
from ..trace import dtypes, primitives
from ..trace.types import Array, ArrayLike, DTypeLike
from .arguments import canonical_axis
from .core import arrays, convert, in_one_dtype, isnan, less
from .elementwise import choose_where
from .index_to_gather import take_index
from .making import arange, asarray, concatenate, full, zeros
from .rearranging import flip, swapaxes
from .reducing import any
from .shapes import ravel


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *,
    method: str = "scan",
) -> Array:
    """Where values belong in a sorted vector.  JAX: `jnp.searchsorted`.

    By halving, with as many steps as the length has bits; NaN comes last.
    """
    if side not in ("left", "right"):
        raise ValueError(f"{side!r} is an invalid value for keyword 'side'.")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"{method!r} is an invalid value for keyword 'method'; use 'scan', "
            "'scan_unrolled', 'sort' or 'compare_all'."
        )
    a, v = in_one_dtype("searchsorted", a, v)
    if a.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    a = a if sorter is None else a[asarray(sorter)]
    n = a.shape[0]
    low = zeros(v.shape, np.int32)
    high = full(v.shape, n, np.int32)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        value = take_index(a, middle, mode="promise_in_bounds")
        left = ~sorts_before(value, v) if side == "left" else sorts_before(v, value)
        low, high = choose_where(left, low, middle), choose_where(left, middle, high)
    return high


def sorts_before(x, y):
    """x < y in the order of `sort`: NaN after everything else."""
    before = less(x, y)
    return before if x.dtype.kind in "biu" else before | (isnan(y) & ~isnan(x))


def sort_options(name, kind, order):
    """NumPy's arguments that have no meaning here."""
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or "
            "stable=False to specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")


def sort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None,
    stable: bool = True, descending: bool = False,
) -> Array:
    """Sorted along an axis, NaN last.  JAX: `jnp.sort`."""
    sort_options("sort", kind, order)
    x, = arrays("sort", a)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    result = ordering.sort(x, dimension=axis, is_stable=stable)
    return flip(result, axis) if descending else result


def argsort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None,
    stable: bool = True, descending: bool = False, dtype: DTypeLike | None = None,
) -> Array:
    """The indices that sort along an axis.  JAX: `jnp.argsort`."""
    sort_options("argsort", kind, order)
    x, = arrays("argsort", a)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    chosen = dtypes.user_dtype(int if dtype is None else dtype, "argsort")
    places = primitives.broadcasted_iota(chosen, x.shape, axis)
    # Backwards twice: equal elements keep their order.
    backwards = descending and stable
    x, places = [flip(y, axis) if backwards else y for y in (x, places)]
    _, places = sort_together(x, places, axis, stable)
    return flip(places, axis) if descending else places


def sort_together(keys, values, axis=-1, stable=True):
    """-> (sorted keys, the values in the same order)."""
    return ordering.sort((keys, values), axis, is_stable=stable, num_keys=1)


def lexsort(keys: Array | Sequence[ArrayLike], axis: int = -1) -> Array:
    """The indices that sort by the last key, then by the one before.  JAX: same."""
    keys = arrays("lexsort", *keys)
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({k.shape for k in keys}) > 1:
        raise ValueError("all keys need to be the same shape")
    if keys[0].ndim == 0:
        return zeros((), int)
    axis = canonical_axis(axis, keys[0].ndim)
    default = dtypes.default_dtype("signed")
    places = primitives.broadcasted_iota(default, keys[0].shape, axis)
    operands = (*keys[::-1], places)
    return ordering.sort(operands, dimension=axis, num_keys=len(keys))[-1]


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The kth element where sorting puts it, smaller before it.  JAX: same name."""
    x, bottom, top = partition_parts("partition", a, kth, axis)
    return swapaxes(concatenate([bottom[0], top[0]], -1), axis, -1)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The indices for `partition`.  JAX: `jnp.argpartition`."""
    x, (_, bottom), _ = partition_parts("argpartition", a, kth, axis)
    n = x.shape[-1]
    if n == bottom.shape[-1]:
        return swapaxes(bottom, axis, -1)
    taken = any(bottom[..., None] == arange(n), axis=-2)
    _, rest = ordering.top_k(convert(~taken, np.float32), n - bottom.shape[-1])
    return swapaxes(concatenate([bottom, rest], -1), axis, -1)


def partition_parts(name, a, kth, axis):
    """-> (x with the axis last, the kth + 1 least and their indices, the others)."""
    x, = arrays(name, a)
    if x.dtype.kind == "c":
        raise NotImplementedError(f"jnp.{name} for complex dtype is not implemented.")
    axis = canonical_axis(axis, x.ndim)
    kth = canonical_axis(kth, x.shape[axis])
    x = swapaxes(x, axis, -1)
    # -x of an unsigned integer wraps around: -(x + 1) turns the order over.
    shift = 1 if x.dtype.kind == "u" else 0
    values, places = ordering.top_k(-(x + shift) if shift else -x, kth + 1)
    bottom = (-values - shift if shift else -values), places
    return x, bottom, ordering.top_k(x, x.shape[-1] - kth - 1)


def sort_complex(a: ArrayLike) -> Array:
    """Sorted, as complex numbers.  JAX: `jnp.sort_complex`."""
    x, = arrays("sort_complex", a)
    return convert(sort(x), dtypes.to_complex_dtype(x.dtype))
