"""Sorting, and where something is: `searchsorted`, `nonzero`, masks, counts."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops import sorting as ordering
from ..trace import dtypes, primitives
from ..trace.types import Array, ArrayLike, DTypeLike
from .arguments import canonical_axis, concrete, no_out, static_int
from .core import (
    arrays, convert, in_one_dtype, isnan, less, np_shape, shape, truth,
)
from .elementwise import choose_where
from .index_to_gather import take_index
from .making import arange, asarray, concatenate, ones, stack, zeros
from .mathematics import clip
from .rearranging import atleast_1d, flip, swapaxes
from .reducing import any, sum
from .reductions import cumsum
from .shapes import moveaxis, ravel


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
    # So many elements surely come before, and of so many more nobody knows.
    before, unknown = zeros(v.shape, np.int32), a.shape[0]
    while unknown:
        half = (unknown + 1) // 2
        value = take_index(a, before + (half - 1), wrap_negative_indices=False)
        more = sorts_before(value, v) if side == "left" else ~sorts_before(v, value)
        before = choose_where(more, before + half, before)
        unknown //= 2
    return before


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


# ---- where something is


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Array, Array]:
    """Where `mask_func(ones((n, n)), k)` is not zero.  JAX: `jnp.mask_indices`."""
    i, j = nonzero(mask_func(ones((n, n)), k), size=size)
    return i, j


def triangle_indices(name, mask_of, n, k, m):
    """The indices where a triangle of ones is, which is known without a tracer."""
    n = static_int(n, f"the argument 'n' of jnp.{name}")
    m = n if m is None else static_int(m, f"the argument 'm' of jnp.{name}")
    k = static_int(k, f"the argument 'k' of jnp.{name}")
    i, j = np.nonzero(mask_of(np.ones((n, m)), k))
    return asarray(i, dtype=int), asarray(j, dtype=int)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """-> (rows, columns) of the lower triangle.  JAX: `jnp.tril_indices`."""
    return triangle_indices("tril_indices", np.tril, n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """-> (rows, columns) of the upper triangle.  JAX: `jnp.triu_indices`."""
    return triangle_indices("triu_indices", np.triu, n, k, m)


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for the shape of a matrix.  JAX: `jnp.tril_indices_from`."""
    n, m = matrix_shape(arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for the shape of a matrix.  JAX: `jnp.triu_indices_from`."""
    n, m = matrix_shape(arr)
    return triu_indices(n, k, m)


def matrix_shape(x):
    """The shape of a matrix."""
    if len(shape(x)) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return shape(x)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the diagonal of an n by n by ... array.  JAX: same name."""
    n = static_int(n, "the argument 'n' of jnp.diag_indices")
    ndim = static_int(ndim, "the argument 'ndim' of jnp.diag_indices")
    for name, value in (("n", n), ("ndim", ndim)):
        if value < 0:
            raise ValueError(
                f"{name} argument to diag_indices must be nonnegative, got {value}"
            )
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """`diag_indices` for an array with equal sizes.  JAX: same name."""
    arr, = arrays("diag_indices_from", arr)
    if arr.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(arr.shape[0], arr.ndim)


def known_size(size, what):
    """A `size=` argument as an int, or None."""
    return None if size is None else static_int(size, f"the argument 'size' of {what}")


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> tuple[Array, ...]:
    """For each axis, the indices of what is not zero.  JAX: `jnp.nonzero`.

    Args:
      size: how many to give; needed where `a` is traced.  Missing ones are
        `fill_value`: a number (0), or one for each axis.

    Raises ConcretizationTypeError for a traced array without `size`.
    """
    x, = arrays("nonzero", a)
    if x.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use "
            "jnp.atleast_1d(scalar).nonzero() instead."
        )
    size = known_size(size, "jnp.nonzero")
    if size is None:
        advice = "pass size=: how many indices to give, at most."
        known = concrete(x, "the argument of jnp.nonzero", advice)
        return tuple(asarray(i, dtype=int) for i in np.nonzero(known))
    mask = truth(x)
    if x.size == 0 or size == 0:
        found = tuple(zeros(size, int) for _ in x.shape)
    else:
        found = unravelled(x.shape, cumsum(bincount(cumsum(mask), length=size)))
    if fill_value is None:
        return found
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * x.ndim
    if len(fills) != x.ndim or builtins.any(np_shape(v) != () for v in fills):
        raise ValueError(
            f"fill_value must be a scalar or a tuple of length {x.ndim}; "
            f"got {fill_value}"
        )
    missing = arange(size) >= sum(mask)
    pairs = zip(fills, found, strict=True)
    return tuple(choose_where(missing, value, i) for value, i in pairs)


def unravelled(shape, flat):
    """Flat indices as one index an axis; past the end they begin again."""
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    return tuple(
        flat // int(stride) % n for stride, n in zip(strides, shape, strict=True)
    )


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The flat indices of what is not zero.  JAX: `jnp.flatnonzero`."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The indices of what is not zero, a row each.  JAX: `jnp.argwhere`."""
    x, = arrays("argwhere", a)
    rows = stack(nonzero(atleast_1d(x), size=size, fill_value=fill_value), axis=1)
    return rows[:, :0] if x.ndim == 0 else rows


def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, *,
    size: int | None = None, fill_value: ArrayLike = 0, out: None = None,
) -> Array:
    """The slices along an axis where a mask holds.  JAX: `jnp.compress`."""
    no_out("compress", out)
    mask, x, fill_value = arrays("compress", condition, a, fill_value)
    if mask.ndim != 1:
        raise ValueError("condition must be a 1D array")
    mask = convert(mask, np.bool_)
    x, axis = (ravel(x), 0) if axis is None else (moveaxis(x, axis, 0), axis)
    mask, extra = mask[: x.shape[0]], mask[x.shape[0] :]
    x = x[: mask.shape[0]]
    size = known_size(size, "jnp.compress")
    if size is None:
        if extra.size and any(extra):
            raise ValueError("condition contains entries that are out of bounds")
        return moveaxis(x[mask], 0, axis)
    if not 0 <= size <= x.shape[0]:
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; "
            f"got {size=} for a.shape[axis]={x.shape[0]}"
        )
    column = primitives.expand_dims(mask, range(1, x.ndim))
    x = choose_where(column, x, convert(fill_value, x.dtype))
    return moveaxis(x[argsort(mask, descending=True)][:size], 0, axis)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """The elements where a mask holds.  JAX: `jnp.extract`."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *,
    length: int | None = None,
) -> Array:
    """How often each of 0, 1, 2, ... occurs, or with what weight.  JAX: same name.

    Args:
      length: the length of the result, needed where x is traced; what lies beyond is
        not counted.  Negative numbers count as 0.
    """
    x, = arrays("bincount", x)
    x = convert(x, np.int32) if x.dtype == np.bool_ else x
    if x.dtype.kind not in "iu":
        raise TypeError(
            f"x argument to bincount must have an integer type; got {x.dtype}"
        )
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = static_int(minlength, "the argument 'minlength' of jnp.bincount")
    if length is None:
        known = concrete(x, "the argument 'x' of jnp.bincount", "pass length=.")
        length = builtins.max(minlength, 1 + builtins.max(known.tolist(), default=-1))
    else:
        length = static_int(length, "the argument 'length' of jnp.bincount")
    weights = convert(1, dtypes.default_dtype("signed")) if weights is None else weights
    weights, = arrays("bincount", weights)
    if weights.ndim and x.shape != weights.shape:
        raise ValueError(
            f"shape of weights must match shape of x, got {weights.shape} and {x.shape}"
        )
    return zeros(length, weights.dtype).at[clip(x, 0)].add(weights, mode="drop")
