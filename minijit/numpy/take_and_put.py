"""Taking elements and putting them: `x[...]`, `x.at[...]`, `take`, `nonzero`, ..."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops import scatter
from ..trace import dtypes, primitives
from ..trace.base.errors import HERE
from ..trace.core import Tracer
from ..trace.types import Array, ArrayLike, DTypeLike, Shape
from ..transform.control_flow.more_loops import fori_loop
from .arguments import (
    canonical_axis, canonicalize_shape, check_arraylike, concrete, no_out, static,
    tell_of_batches, unwrapped,
)
from .core import arrays, as_array, convert, divide, np_shape, promote_dtypes
from .creation import indices
from .elementwise import choose_where, divmod, mod, power, where
from .index_to_gather import apply_index, take_index, update_index
from .making import array, asarray, counting, ones_like, stack, zeros
from .mathematics import clip
from .rearranging import part_of, resize, roll
from .reductions import cumsum
from .shapes import (
    along_axis, broadcast_arrays, broadcast_shapes, broadcast_to, ravel, reshape,
)
from .sorting import diag_indices


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """The array with `val` on its diagonal.  JAX: `jnp.fill_diagonal`.

    Raises NotImplementedError unless `inplace=False`: arrays are immutable.
    """
    not_in_place("fill_diagonal", inplace, NotImplementedError)
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a, val = arrays("fill_diagonal", a, val)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    n = builtins.min(a.shape)
    if val.ndim:
        val = resize(val, (n,))
    return a.at[diag_indices(n, a.ndim)].set(val)


def not_in_place(name, inplace, error=ValueError):
    """NumPy's functions that change their argument have a pure form here."""
    if inplace:
        raise error(
            f"jnp.{name} cannot modify arrays in-place, because arrays are immutable: "
            "it must have inplace=False, and returns the changed array."
        )


class Indexed:
    """`x.at[index]`: an array and where to change it.

    Its methods return a changed copy: `x.at[i].set(v)`, `.add(v)`, `.max(v)`, ...
    Each takes `mode`, `indices_are_sorted`, `unique_indices` and
    `wrap_negative_indices`; see `update_index`.  JAX: `jnp.ndarray.at`.
    """

    __slots__ = ("array", "index")

    def __init__(self, array, index):
        self.array = array
        self.index = index

    def __repr__(self):
        return f"Indexed({self.array!r}, {self.index!r})"

    def __getattr__(self, name):
        has = [k for k, x in vars(Indexed).items() if k[0] != "_" and callable(x)]
        raise AttributeError(
            f"x.at[idx] has no attribute {name!r}, but {', '.join(has)}{HERE}"
        )

    def get(self, *, mode=None, fill_value=None, **promises):
        """The elements themselves: `x[index]`, with a mode for those out of bounds."""
        return take_index(
            self.array, self.index, mode=mode, fill_value=fill_value, **promises
        )

    def _update(self, scatter, values, options, array=None):
        """Scatter `values` into the array.  They may be lists, as JAX's may."""
        array = self.array if array is None else array
        values = asarray(values) if isinstance(values, (list, tuple)) else values
        values = unwrapped(values)
        check_arraylike("scatter", values)
        return update_index(array, self.index, values, scatter, **options)

    def set(self, values, **options):
        """`x[index] = values`."""
        return self._update(scatter.scatter, values, options)

    def add(self, values, **options):
        """`x[index] += values`, once for each time an index is named."""
        return self._update(scatter.scatter_add, values, options)

    def subtract(self, values, **options):
        """`x[index] -= values`, once for each time an index is named."""
        return self._update(scatter.scatter_sub, values, options)

    def multiply(self, values, **options):
        """`x[index] *= values`, once for each time an index is named."""
        return self._update(scatter.scatter_mul, values, options)

    mul = multiply

    def divide(self, values, **options):
        """`x[index] /= values`."""
        divisor = ones_like(self.array).at[self.index].multiply(values, **options)
        return divide(self.array, divisor)

    def power(self, values, **options):
        """`x[index] **= values`."""
        exponent = ones_like(self.array).at[self.index].multiply(values, **options)
        return power(self.array, exponent)

    def min(self, values, **options):
        """`x[index] = minimum(x[index], values)`."""
        return self._update(scatter.scatter_min, values, options)

    def max(self, values, **options):
        """`x[index] = maximum(x[index], values)`."""
        return self._update(scatter.scatter_max, values, options)

    def apply(self, func, **options):
        """`x[index] = func(x[index])`, once for each time an index is named."""
        x = apply_index(self.array, self.index, func, **options)
        if options.get("unique_indices") or not may_repeat(self.index):
            return x
        times = self._update(scatter.scatter_add, 1, options, zeros(x.shape, int))
        again = lambda i, x: convert(where(times > i, func(x), x), x.dtype)
        return fori_loop(1, times.max(initial=0), again, x)


def may_repeat(index):
    """Whether an index may name an element twice: it has arrays of integers."""
    entries = index if isinstance(index, tuple) else (index,)
    return builtins.any(np.ndim(i) and i.dtype != bool for i in entries)


class At:
    """`x.at`: takes the index."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index):
        return Indexed(self.array, index)

    def __setitem__(self, index, value):
        raise TypeError(
            "arrays are immutable, and x.at does not support item assignment. Instead "
            f"of x.at[idx] = y, use x = x.at[idx].set(y) or another method{HERE}"
        )

    def __getattr__(self, name):
        raise AttributeError(
            f"x.at has no attribute {name!r}: its methods are those "
            f"of x.at[idx], such as x.at[idx].set(y){HERE}"
        )


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None,
    mode: str | None = None, unique_indices: bool = False,
    indices_are_sorted: bool = False, fill_value: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The elements or slices at `indices` along an axis.  JAX: `jnp.take`.

    Args:
      mode: for indices out of bounds: "fill" (the default: NaN, or the least value of
        an integer type), "clip" or "wrap".
    """
    no_out("take", out)
    x, i = arrays("take", a, indices)
    if i.dtype == bool:
        # Zeros and ones, where x[i] would see a mask.
        i = i.astype(int)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    if mode not in (None, "fill", "clip", "wrap"):
        raise ValueError(f"Invalid mode '{mode}' for np.take")
    size = x.shape[axis]
    if size == 0 and i.size:
        raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
    if mode == "wrap" and size:
        i = mod(i, convert(size, i.dtype))
    return take_index(
        x, (slice(None),) * axis + (i,),
        mode={"clip": "clip", "wrap": "promise_in_bounds"}.get(mode, "fill"),
        fill_value=fill_value, unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        wrap_negative_indices=mode in (None, "fill"),
    )


def take_along_axis(
    arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: Any = None,
    fill_value: ArrayLike | None = None, *, wrap_negative_indices: bool | None = None,
) -> Array:
    """For each position, the element that an index along `axis` names.

    JAX: `jnp.take_along_axis`.  The other axes broadcast.
    """
    x, i = arrays("take_along_axis", arr, indices)
    if i.dtype.kind not in "iu":
        raise TypeError(
            f"take_along_axis indices must be of integer type, got {i.dtype}"
        )
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    if x.ndim != i.ndim:
        raise ValueError(
            "indices and arr must have the same number of dimensions; "
            f"{i.ndim} vs. {x.ndim}"
        )
    axis = canonical_axis(axis, x.ndim)
    if wrap_negative_indices is None:
        wrap_negative_indices = mode != "promise_in_bounds"
    shape, index = along_axis_index(x.shape, i, axis)
    if x.shape[axis] == 0:
        return zeros(shape, x.dtype)
    return take_index(
        x, index, mode=mode or "fill", fill_value=fill_value,
        wrap_negative_indices=wrap_negative_indices,
    )  # fmt: skip


def along_axis_index(shape, i, axis):
    """-> (the shape of what is read, the index that reads position i along one axis,
    and each position of the others)"""
    sizes = [1 if n == axis else size for n, size in enumerate(shape)]
    out_shape = broadcast_shapes(i.shape, sizes)
    grid = [
        along_axis(counting(n, np.dtype(np.int32)), k, len(out_shape))
        if shape[k] != 1
        else asarray(0)
        for k, n in enumerate(out_shape)
    ]
    grid[axis] = i
    return out_shape, tuple(grid)


def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None,
    inplace: bool = True, *, mode: str | None = None,
) -> Array:
    """The array with values at indices along an axis.  JAX: same name.

    Raises ValueError unless `inplace=False`: arrays are immutable.
    """
    not_in_place("put_along_axis", inplace)
    x, i, values = arrays("put_along_axis", arr, indices, values)
    flat, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    if flat.ndim != i.ndim:
        raise ValueError(
            "put_along_axis arguments 'arr' and 'indices' must have same ndim. Got "
            f"{flat.ndim} and {i.ndim}."
        )
    _, index = along_axis_index(flat.shape, i, axis)
    values = broadcast_to(values, i.shape)
    return reshape(flat.at[index].set(values, mode=mode), x.shape)


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *,
    inplace: bool = True,
) -> Array:
    """The array with values at flat indices.  JAX: `jnp.put`, with inplace=False."""
    not_in_place("put", inplace)
    x, i, v = arrays("put", a, ind, v)
    i, v = ravel(i), ravel(v)
    if x.size == 0 or i.size == 0 or v.size == 0:
        return x
    v = resize(v, (i.size,))
    if mode == "wrap":
        i = mod(i, convert(x.size, i.dtype))
    elif mode == "clip" or mode is None:
        # With "clip" a negative index is the first one, as in NumPy: only without a
        # mode it counts back.
        i = i if mode else choose_where(i < 0, i + x.size, i)
        i = clip(i, 0, x.size - 1)
    else:
        kind = NotImplementedError if mode == "raise" else ValueError
        raise kind(f"mode should be one of 'wrap' or 'clip'; got {mode=}")
    return reshape(ravel(x).at[i].set(v, mode="drop"), x.shape)


def place(
    arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True
) -> Array:
    """The array with values, in turn, where a mask holds.  JAX: same name."""
    not_in_place("place", inplace)
    x, mask, vals = arrays("place", arr, mask, vals)
    if x.size != mask.size:
        raise ValueError("place: arr and mask must be the same size")
    if vals.size == 0:
        raise ValueError("Cannot place values from an empty array")
    if x.size == 0:
        return x
    i = where(ravel(mask), size=x.size, fill_value=x.size)[0]
    values = resize(ravel(vals), (x.size,))
    return reshape(ravel(x).at[i].set(values, mode="drop"), x.shape)


def choose(
    a: ArrayLike, choices: Array | Sequence[ArrayLike], out: None = None,
    mode: str = "raise",
) -> Array:
    """For each element, that of the array it names.  JAX: `jnp.choose`."""
    no_out("choose", out)
    a, *choices = arrays("choose", a, *choices)
    if a.dtype.kind not in "iu":
        raise ValueError("`a` array must be integer typed")
    n = len(choices)
    if mode == "raise":
        advice = "use mode='wrap' or mode='clip'."
        known = concrete(a, "the first argument of jnp.choose", advice)
        if np.any((known < 0) | (known >= n)):
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        a = a % n
    elif mode == "clip":
        a = clip(a, 0, n - 1)
    else:
        raise ValueError(f"{mode=} not understood. Must be 'raise', 'wrap', or 'clip'")
    a, *choices = broadcast_arrays(a, *choices)
    return stack(choices)[(a, *indices(a.shape, sparse=True))]


def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike],
    default: ArrayLike = 0,
) -> Array:
    """For each position, the first choice whose condition holds.  JAX: same name."""
    if len(condlist) != len(choicelist):
        raise ValueError(
            "condlist must have length equal to choicelist "
            f"({len(condlist)} vs {len(choicelist)})"
        )
    if len(condlist) == 0:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    default, *choices = promote_dtypes([default, *choicelist])
    shape = broadcast_shapes(*map(np_shape, [*condlist, *choices]))
    result = broadcast_to(default, shape)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        result = choose_where(condition, choice, result)
    return result


def piecewise(
    x: ArrayLike, condlist: Array | Sequence[ArrayLike], funclist: Sequence[Any],
    *args: Any, **kw: Any,
) -> Array:
    """For each x, the function of the last condition that holds.  JAX: same name.

    All functions are applied to all of x, and the results chosen from.
    """
    x, = arrays("piecewise", x)
    n, m = len(condlist), len(funclist)
    if m not in (n, n + 1):
        raise ValueError(
            f"with {n} condition(s), either {n} or {n + 1} functions are expected; "
            f"got {m}"
        )
    default = funclist[n] if m == n + 1 else 0
    conditions = [convert(asarray(x), np.bool_) for x in condlist]
    tell_of_batches("piecewise", (x, 0), *((c, 0) for c in conditions))
    values = [
        asarray(f(x, *args, **kw) if callable(f) else f, dtype=x.dtype)
        for f in (default, *funclist[:n])
    ]
    result = broadcast_to(values[0], x.shape)
    for condition, value in zip(conditions, values[1:], strict=True):
        result = choose_where(condition, value, result)
    return result


def ravel_multi_index(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise",
    order: str = "C", *, dtype: DTypeLike | None = None,
) -> Array:
    """Indices along several axes as flat indices.  JAX: `jnp.ravel_multi_index`."""
    sizes = canonicalize_shape(tuple(dims))
    parts = arrays("ravel_multi_index", *multi_index)
    if len(parts) != len(sizes):
        raise ValueError(
            f"as many indices as dims are needed, got {len(parts)} and {len(sizes)}"
        )
    chosen = dtypes.result_type(int, *parts) if dtype is None else dtype
    dtype = dtypes.user_dtype(chosen, "ravel_multi_index")
    if dtype.kind not in "iu":
        raise ValueError(f"{dtype=} is not an integer type.")
    if builtins.any(i.dtype.kind not in "iu" for i in parts):
        raise TypeError("only int indices permitted")
    tell_of_batches("ravel_multi_index", *((i, 0) for i in parts))
    strides = np.cumprod((1, *sizes[:0:-1]))[::-1]
    if order == "F":
        strides = np.cumprod((1, *sizes[:-1]))
    elif order != "C":
        raise ValueError(f"invalid {order=}. Expected 'C' or 'F'")
    result = array(0, dtype=dtype)
    for i, n, stride in zip(parts, sizes, strides, strict=True):
        result = result + convert(in_bounds(i, n, mode), dtype) * int(stride)
    return result


def in_bounds(i, n, mode):
    """An index of an axis of length n: checked, clipped or wrapped."""
    if mode == "raise":
        advice = "use mode='wrap' or mode='clip'."
        known = concrete(i, "an index of jnp.ravel_multi_index", advice)
        if np.any((known < 0) | (known >= n)):
            raise ValueError("invalid entry in coordinates array")
        return i
    if mode == "ignore":
        return i
    if mode not in ("clip", "wrap"):
        raise ValueError(
            f"invalid {mode=}. Expected 'raise', 'wrap', 'clip', or 'ignore'."
        )
    return clip(i, 0, n - 1) if mode == "clip" else i % n


def unravel_index(indices: ArrayLike, shape: Shape) -> tuple[Array, ...]:
    """Flat indices as a tuple of one index an axis.  JAX: `jnp.unravel_index`.

    `shape` may be traced: integers, or an array of one axis.
    """
    i, = arrays("unravel_index", indices)
    sizes = list(shape) if np.iterable(shape) else [shape]
    if not builtins.any(isinstance(n, Tracer) for n in sizes):
        sizes = canonicalize_shape(sizes)
    found = []
    for n in reversed(sizes):
        i, rest = divmod(i, n)
        found.append(rest)
    above = i > 0
    below = i < -1 if i.dtype.kind != "u" else asarray(False)
    pairs = zip(sizes, reversed(found), strict=True)
    return tuple(
        choose_where(above, n - 1, choose_where(below, 0, k)) for n, k in pairs
    )


def repeat(
    a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *,
    total_repeat_length: int | None = None,
) -> Array:
    """Each slice along an axis repeated.  JAX: `jnp.repeat`.

    Args:
      repeats: how often: a number, or one for each slice.
      total_repeat_length: the length of the result; needed where repeats is traced.
        The last slice fills what is left.
    """
    check_arraylike("repeat", a, repeats)
    x = as_array(a)
    x = ravel(x) if axis is None or x.ndim == 0 else x
    axis = canonical_axis(axis or 0, x.ndim)
    length = total_repeat_length
    if length is None:
        advice = f"pass total_repeat_length=, or {static}"
        repeats = concrete(repeats, "the argument 'repeats' of jnp.repeat", advice)
        if repeats.dtype.kind not in "biu":
            raise TypeError(f"jnp.repeat: repeats must be integers, got {repeats}")
        if repeats.ndim == 0 or repeats.size == 1:
            return repeat_each(x, int(repeats.reshape(())), axis)
        if repeats.shape != (x.shape[axis],):
            raise ValueError(
                f"jnp.repeat: repeats must be one number or as many as axis {axis} is "
                f"long, got shape {repeats.shape} for an array of shape {x.shape}"
            )
        length = int(np.sum(repeats))
    repeats = broadcast_to(ravel(as_array(repeats)), (x.shape[axis],))
    if length == 0 or x.shape[axis] == 0:
        return part_of(x, axis, 0, 0) if length == 0 else x
    starts = roll(repeats, 1).at[0].set(0)
    marks = zeros(length, np.int32).at[cumsum(starts)].add(1)
    return take(x, cumsum(marks) - 1, axis)


def repeat_each(x, times, axis):
    """Each slice along an axis repeated equally often."""
    sizes = [*x.shape[: axis + 1], times, *x.shape[axis + 1 :]]
    kept = [i for i in range(len(sizes)) if i != axis + 1]
    wide = primitives.broadcast_in_dim(x, sizes, kept)
    shape = [n * times if i == axis else n for i, n in enumerate(x.shape)]
    return reshape(wide, shape)
