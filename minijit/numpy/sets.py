"""Arrays as sets: `unique`, `isin`, unions and differences."""

from __future__ import annotations

import builtins
from collections import namedtuple
from typing import Any

from ..trace import primitives
from ..trace.types import Array, ArrayLike
from .arguments import canonical_axis, concrete
from .calculus import diff
from .core import arrays, as_array, bool_of, convert, in_one_dtype, isnan, nan
from .editing import append
from .elementwise import choose_where
from .making import arange, concatenate, full, full_like, zeros, zeros_like
from .reducing import any, argmax, max, min, sum
from .reductions import cumsum
from .shapes import moveaxis, ravel, reshape
from .sorting import bincount, known_size, lexsort, nonzero, searchsorted, sort

unique_advice = "pass size=: how many different values to give, at most."


def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: int | None = None, *, equal_nan: bool = True,
    size: int | None = None, fill_value: ArrayLike | None = None, sorted: bool = True,
) -> Any:  # fmt: skip
    """The different values, sorted; or different slices along an axis.

    JAX: `jnp.unique`.  With the flags also, in this order: the index where each first
    occurs, for each element the place of its value, how often each occurs.

    Args:
      size: how many to give; needed where `ar` is traced.  Missing ones are
        `fill_value`, by default the least.
    """
    x, = arrays("unique", ar)
    size = known_size(size, "jnp.unique")
    if size is None:
        concrete(x, "the first argument of jnp.unique", unique_advice)
    shape = x.shape
    x, place = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    if x.shape[place] == 0 and size and fill_value is None:
        raise ValueError(
            "jnp.unique: for zero-sized input with nonzero size argument, fill_value "
            "must be specified"
        )
    rows, first, order = sorted_rows(moveaxis(x, place, 0), equal_nan)
    found = nonzero(first, size=size)[0]
    values = rows[found] if rows.size else rows
    if size is not None and fill_value is not None:
        values = filled_rows(values, first, size, fill_value)
    results = [moveaxis(values, 0, place)]
    if return_index:
        results.append(order[found] if rows.size else order)
    if return_inverse:
        inverse = inverse_of(first, order, x.shape[place])
        results.append(reshape(inverse, shape) if axis is None else inverse)
    if return_counts:
        results.append(run_lengths(first, size, x.shape[place]))
    return results[0] if len(results) == 1 else tuple(results)


def sorted_rows(x, equal_nan):
    """-> (x sorted by rows, where a row differs from the one before, the order)."""
    n = x.shape[0]
    if x.size == 0:
        rows = x[: builtins.min(n, 1)]
        return rows, full(rows.shape[:1], True), zeros(rows.shape[:1], int)
    if x.dtype.kind == "c":
        x = choose_where(isnan(x), convert(nan, x.dtype), x)
    columns = reshape(x, (n, x.size // n))
    order = lexsort(list(columns.T)[::-1])
    rows = x[order]
    before, after = rows[:-1], rows[1:]
    differs = before != after
    if equal_nan and x.dtype.kind not in "biu":
        differs = differs & ~(isnan(before) & isnan(after))
    differs = any(differs, axis=tuple(range(1, x.ndim)))
    return rows, concatenate([full(1, True), differs]), order


def filled_rows(values, first, size, fill_value):
    """The rows of `unique`, with a fill value where there are no more."""
    fill = convert(as_array(fill_value), values.dtype)
    if values.shape[0] == 0:
        return full((size, *values.shape[1:]), fill)
    valid = arange(size) < sum(first)
    valid = primitives.expand_dims(valid, range(1, values.ndim))
    return choose_where(valid, values, fill)


def inverse_of(first, order, n):
    """For each element, the place of its value among the different ones."""
    if first.shape[0] != n:
        return zeros(n, int)
    return zeros(n, int).at[order].set(cumsum(first) - 1)


def run_lengths(first, size, n):
    """How often each of the different values occurs."""
    if first.shape[0] != n:
        return full(first.shape, n, int)
    if size is None:
        starts = nonzero(first)[0]
        return diff(append(starts, n))
    if n == 0:
        return zeros(size, int)
    starts = nonzero(first, size=size + 1)[0]
    return diff(starts.at[1:].set(choose_where(starts[1:] != 0, starts[1:], n)))


UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """`unique` with everything, as a named tuple; NaNs differ.  JAX: same name."""
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueAll(*unique(x, True, True, True, **options))


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """`unique` with counts, as a named tuple; NaNs differ.  JAX: same name."""
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueCounts(*unique(x, return_counts=True, **options))


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Array, ...]:
    """`unique` with the inverse, as a named tuple; NaNs differ.  JAX: same name."""
    options = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return UniqueInverse(*unique(x, return_inverse=True, **options))


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """`unique`; NaNs differ.  JAX: `jnp.unique_values`."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False,
    invert: bool = False, *, method: str = "auto",
) -> Array:
    """For each element, whether it is among others.  JAX: `jnp.isin`."""
    x, others = in_one_dtype("isin", element, test_elements)
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"{method=} is not implemented; options are 'compare_all', "
            "'binary_search', 'sort', and 'auto'"
        )
    if x.size == 0 or others.size == 0:
        return full(x.shape, bool_of(invert))
    if method in ("auto", "compare_all"):
        found = any(x[..., None] == ravel(others), axis=-1)
    else:
        others = sort(ravel(others))
        found = x == others[searchsorted(others, x)]
    return ~found if invert else found


def set_size(name, size, *args):
    """The `size=` of a set operation; without it, the arguments must be known."""
    for x in args if size is None else ():
        concrete(x, f"an argument of jnp.{name}", "pass size=: how many to give.")
    return known_size(size, f"jnp.{name}")


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The different values of two arrays, sorted.  JAX: `jnp.union1d`."""
    x, y = arrays("union1d", ar1, ar2)
    size = set_size("union1d", size, x, y)
    both = concatenate([ravel(x), ravel(y)])
    return unique(both, size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *,
    size: int | None = None, fill_value: ArrayLike | None = None,
) -> Array:
    """The different values of one array that another lacks.  JAX: same name."""
    x, y = map(ravel, arrays("setdiff1d", ar1, ar2))
    size = set_size("setdiff1d", size, x, y)
    fill = full_like(x, 0 if fill_value is None else fill_value, shape=())
    if x.size == 0:
        return full_like(x, fill, shape=size or 0)
    if size is None:
        x = x if assume_unique else unique(x)
        return x[isin(x, y, invert=True)]
    keep = full(x.shape, True)
    if not assume_unique:
        x, _, _, counts = unique(x, True, True, True, size=x.size)
        keep = counts > 0
    return packed(x, keep & isin(x, y, invert=True), size, fill)


def packed(x, keep, size, fill):
    """The elements that a mask keeps, then a fill value, `size` in all."""
    found = nonzero(keep, size=size)[0]
    return choose_where(arange(size) < sum(keep), x[found], fill)


def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *,
    size: int | None = None, fill_value: ArrayLike | None = None,
) -> Array:
    """The values that are in just one of two arrays.  JAX: `jnp.setxor1d`."""
    x, y = map(ravel, in_one_dtype("setxor1d", ar1, ar2))
    size = set_size("setxor1d", size, x, y)
    values, from_x, from_y = merged(x, y)
    keep = (from_x == 0) | (from_y == 0)
    keep = keep & (from_x + from_y > 0)
    if assume_unique:
        keep = from_x + from_y == 1
    return kept_values(values, keep, size, fill_value)


def merged(x, y):
    """-> (different values of both, how often each is in x, and in y).

    As many as x and y have elements: past the last one the counts are 0.
    """
    both = concatenate([x, y])
    n = both.shape[0]
    if n == 0:
        return both, zeros(0, int), zeros(0, int)
    values, place = unique(both, return_inverse=True, size=n)
    from_x = bincount(place[: x.shape[0]], length=n)
    return values, from_x, bincount(place[x.shape[0] :], length=n)


def kept_values(values, keep, size, fill_value):
    """The values a mask keeps; with `size`, filled up as JAX's set operations do."""
    if size is None:
        return values[keep]
    if values.shape[0] == 0:
        return zeros(size, values.dtype)
    found = nonzero(keep, size=size)[0]
    valid = arange(size) < sum(keep)
    if fill_value is not None:
        return choose_where(valid, values[found], fill_value)
    result = choose_where(valid, values[found], zeros_like(values[found]))
    result = choose_where(valid, result, max(result))
    return choose_where(valid, result, min(result))


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False,
    return_indices: bool = False, *, size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The values that are in both arrays.  JAX: `jnp.intersect1d`.

    With `return_indices`: -> (values, where each first is in ar1, and in ar2).
    """
    x, y = map(ravel, in_one_dtype("intersect1d", ar1, ar2))
    size = set_size("intersect1d", size, x, y)
    values, from_x, from_y = merged(x, y)
    keep = (from_x > 0) & (from_y > 0)
    result = kept_values(values, keep, size, fill_value)
    if not return_indices:
        return result
    places = []
    for part in (x, y):
        if part.shape[0] == 0 or result.shape[0] == 0:
            places.append(full(result.shape, part.shape[0], int))
            continue
        at = argmax(result[:, None] == part, axis=1)
        known = True if size is None else arange(result.shape[0]) < sum(keep)
        places.append(choose_where(known, at, part.shape[0]))
    return result, *places
