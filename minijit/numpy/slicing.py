"""`x[index]` by slices: what stands between the brackets, taken apart.

    x[0], x[1:, ::-1], x[..., None]         # static slices, squeezes, new axes
    x[i]                                    # i traced: a dynamic slice
    x[ds(i, 4)]                             # four elements from there
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..trace.array import aval_of, is_array_like, to_numpy
from ..trace.base.errors import (
    HERE, ConcretizationTypeError, NonConcreteBooleanIndexError,
)
from ..trace.core import Tracer, operators
from ..trace.primitives import (
    canonicalize_shape, convert, expand_dims, slice as static_slice, squeeze,
)
from ..trace.slicing import dynamic_slice, rev, to_int64, wrap_negative
from .making import array


@dataclass(frozen=True)
class Slice:
    """`size` elements of an axis from `start`, which may be traced.  JAX: same name."""

    start: object
    size: int
    stride: int = 1

    def __post_init__(self):
        if self.stride < 0:
            raise ValueError("`stride` must be >= 0.")

    @classmethod
    def from_slice(cls, slc, size):
        """That of a Python slice of an axis of this size."""
        taken = range(size)[slc]
        if taken.step < 1:
            raise ValueError(f"slice must have a step >= 1 (found: {taken.step})")
        return cls(taken.start, len(taken), taken.step)


def dslice(start: Any, size: Any = None, stride: int | None = None) -> Any:
    """`size` elements from `start`, as an index.  JAX: `jax.dslice`, `jax.ds`.

        x[ds(i, 4)]        # x[i : i + 4], moved into x where it reaches out of it
        x[ds(i, 4, 2)]     # every second one of x[i : i + 8]

    Args:
      start: may be traced; None means the whole axis, and without `size` this is the
        size, and the start is 0.
    """
    if start is None:
        return slice(None)
    stride = 1 if stride is None else stride
    if not isinstance(stride, int):
        raise ValueError("Non-static stride in `dslice`")
    return Slice(0, start, stride) if size is None else Slice(start, size, stride)


ds = dslice

# The entries of a NumPy-style index, once parsed, are: `None`; a slice whose parts are
# ints; an int; a bool, which makes an axis of its own, of size 1 or 0; an integer array
# with axes (NumPy's); a traced integer array.  Each of the last four but a bool, and
# each slice or `Slice`, is for one axis of the operand, in order.


def parse_index(shape, index):
    """Take a NumPy-style index into an array of this shape apart.

    Args:
      shape: a tuple of ints.
      index: what stands between the brackets of `x[...]`.

    Returns:
      (entries, contiguous): a list of entries that covers all axes, and whether the
      integers and arrays stood side by side, which decides where their axes go.

    Raises:
      TypeError, IndexError: for what is no index, with JAX's distinctions.
    """
    index = index if isinstance(index, tuple) else (reject_list(index),)
    parts = [parse_entry(i, position) for position, i in enumerate(index)]
    taken = sum(map(axes_taken, parts))
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if taken > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {taken} were "
            f"indexed{HERE}"
        )
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    entries, axis = [], 0
    for position, part in enumerate(parts):
        n = len(shape) - taken if part is Ellipsis else axes_taken(part)
        if part is Ellipsis:
            entries += [slice(None)] * n
        elif is_mask(part):
            entries += indices_of_mask(part, shape[axis : axis + n], position)
        else:
            entries.append(part)
        axis += n
    places = [i for i, part in enumerate(parts) if is_mask(part) or is_integer(part)]
    return entries, not places or places[-1] - places[0] == len(places) - 1


def is_mask(entry):
    """Whether a part of an index is a boolean array with axes."""
    return isinstance(entry, np.ndarray) and entry.dtype.kind == "b"


def is_integer(entry):
    """Whether an entry is an int, or an array of integers, known or traced."""
    return isinstance(entry, (int, np.ndarray, Tracer)) and not isinstance(entry, bool)


def axes_taken(part):
    """For how many axes of the operand a part of an index is."""
    if is_mask(part):
        return part.ndim
    return int(isinstance(part, (slice, Slice)) or is_integer(part))


def reject_list(index):
    """A list is no index by itself, as in JAX: NumPy's rules for it were a trap."""
    if isinstance(index, Sequence) and not isinstance(index, str):
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; "
            "use `x[jnp.array(seq)]` for an array of indices, or `x[tuple(seq)]` for "
            f"one index an axis, instead of `x[seq]`.{HERE}"
        )
    return index


def parse_entry(i, position):
    """One part of an index: values that are known become Python's or NumPy's."""
    if i is None or i is Ellipsis:
        return i
    if isinstance(i, slice):
        return parse_slice(i, position)
    if isinstance(i, Slice):
        size, = canonicalize_shape((i.size,))
        return Slice(parse_entry(i.start, position), size, i.stride)
    if isinstance(i, str):
        raise TypeError(f"JAX does not support string indexing; got idx={i!r}")
    if isinstance(i, Sequence):
        i = array(i) if len(i) else np.zeros(0, np.int32)
    if not is_array_like(i):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and "
            f"integer or boolean arrays are valid indices. Got {i!r}"
        )
    aval = aval_of(i)
    if aval.dtype.kind not in "biu":
        raise TypeError(
            "Indexer must have integer or boolean type, got indexer with type "
            f"{aval.dtype}{HERE}"
        )
    if aval.dtype.kind == "b":
        i = concrete_mask(i)
    if isinstance(i, Tracer):
        return i
    i = i if isinstance(i, (int, np.ndarray)) else to_numpy(i)
    return i if np.ndim(i) else np.asarray(i).item()


def parse_slice(s, position):
    """A slice with Python's ints in it."""
    try:
        parts = [
            None if k is None else operator.index(k) for k in (s.start, s.stop, s.step)
        ]
    except TypeError as error:
        raise IndexError(
            f"Slice entries must be static integers. Got {s} at position {position}."
            f"{HERE}\n  Instead: take a window of a known size with "
            "`lax.dynamic_slice_in_dim(x, start, size)`, or mask what is not wanted "
            "with `jnp.where`."
        ) from error
    return slice(*parts)


def concrete_mask(mask):
    """The value of a boolean index, which must be known."""
    if not isinstance(mask, Tracer):
        return mask
    try:
        return mask.concrete("numpy")
    except (ConcretizationTypeError, TypeError) as error:
        raise NonConcreteBooleanIndexError(
            f"Array boolean indices must be concrete; got {mask.aval}: how many "
            "elements it selects, and so the result's shape, would depend on its "
            f"value.{mask.origin()}{HERE}\n"
            "  Instead: keep the shape with `jnp.where(mask, x, 0)`; or say how many "
            "there are at most with `jnp.where(mask, size=n)` or "
            "`jnp.nonzero(mask, size=n)` and index by that; to write, use "
            "`jnp.where(mask, new, x)`."
        ) from error


def indices_of_mask(mask, shape, position):
    """An array of indices for each axis of a mask that covers axes of these sizes."""
    if any(m not in (0, n) for m, n in zip(mask.shape, shape, strict=True)):
        raise IndexError(
            "boolean index did not match shape of indexed array in index "
            f"{position}: got {mask.shape}, expected {shape}{HERE}"
        )
    return list(np.nonzero(mask))


@dataclass(frozen=True)
class Span:
    """What a slice takes from an axis: `size` elements from `first` on, upwards."""

    first: int
    size: int
    step: int
    reverse: bool

    @property
    def length(self):
        """How many elements of the axis lie from the first to the last one taken."""
        return (self.size - 1) * self.step + 1 if self.size else 0


def span_of(s, n):
    """The `Span` of a slice of an axis of size n; of a `Slice` where it says."""
    if isinstance(s, Slice):
        span = Span(s.start, s.size, s.stride, False)
        if not 0 <= span.length <= n:
            raise TypeError(
                f"a slice of {s.size} elements, {s.stride} apart, does not fit into an "
                f"axis of size {n}{HERE}"
            )
        return span
    taken = range(n)[s]
    if len(taken) == 0:
        return Span(0, 0, 1, False)
    step = taken.step if len(taken) > 1 else 1
    return Span(min(taken[0], taken[-1]), len(taken), abs(step), step < 0)


def take_slices(x, index):
    """`x[index]` without arrays in the index: a slice, static or dynamic.

    Raises NotImplementedError for an index with arrays: see `numpy/take_and_put.py`.
    """
    shape = aval_of(x).shape
    entries, _ = parse_index(shape, index)
    entries = wrap_entries(entries, shape)
    if not is_basic(entries):
        raise NotImplementedError("no indexing by arrays yet: slices and integers only")
    return take_basic(x, entries, shape)


def insert_axes(x, axes):
    """x with axes of size 1, so that they are these axes of the result."""
    return expand_dims(x, axes) if axes else x


def wrap_entries(entries, shape, wrap=True):
    """The entries with negative integers counted from the end of their axis."""
    sizes = iter(shape)
    result = []
    for entry in entries:
        n = next(sizes) if axes_taken(entry) else None
        if is_integer(entry):
            entry = wrap_integer(entry, n, wrap)
        elif isinstance(entry, Slice):
            entry = replace(entry, start=wrap_integer(entry.start, n, wrap))
        result.append(entry)
    return result


def wrap_integer(entry, n, wrap):
    """An int, or a 32-bit array of indices, with negative ones counted from the end."""
    if isinstance(entry, int):
        return entry + n if wrap and entry < 0 else entry
    unsigned = entry.dtype.kind == "u"
    if isinstance(entry, np.ndarray):
        limits = np.iinfo(np.int32)
        if entry.dtype != np.int32:
            entry = np.clip(to_int64(entry), limits.min, limits.max).astype(np.int32)
    elif entry.dtype not in (np.int32, np.int64):
        entry = convert(entry, np.dtype(np.int32))
    return wrap_negative(entry, n) if wrap and not unsigned else entry


def is_basic(entries):
    """Whether slices do: no bools, and no arrays with axes."""
    return not any(
        isinstance(entry, bool) or (is_integer(entry) and np.ndim(entry) > 0)
        for entry in entries
    )


def take_basic(x, entries, shape):
    """`x[entries]` by a slice; by a dynamic one where an integer is traced."""
    starts, spans, squeezed, new_axes, sizes = [], [], [], [], iter(shape)
    for entry in entries:
        if entry is None:
            new_axes.append(len(spans) - len(squeezed) + len(new_axes))
            continue
        n = next(sizes)
        span = Span(entry, 1, 1, False) if is_integer(entry) else span_of(entry, n)
        if is_integer(entry):
            check_not_empty(n, len(spans))
            squeezed.append(len(spans))
        start, inside = span.first, range(n - span.length + 1)
        if isinstance(start, int) and start not in inside:
            # A program may look for this: `checkify`'s `index_checks` do.
            start = wrap_integer(np.array(start), n, wrap=False)
        starts.append(start)
        spans.append(span)
    x = take_spans(x, shape, starts, spans)
    reversed_axes = [axis for axis, span in enumerate(spans) if span.reverse]
    if reversed_axes:
        x = rev(x, reversed_axes)
    if squeezed:
        x = squeeze(x, tuple(squeezed))
    return insert_axes(x, new_axes)


def check_not_empty(n, axis):
    """Raise if an integer is to index an axis of size zero."""
    if n == 0:
        raise IndexError(f"index is out of bounds for axis {axis} with size 0{HERE}")


def take_spans(x, shape, starts, spans):
    """The window that begins at `starts`; static where all of them are ints."""
    lengths = tuple(span.length for span in spans)
    if not all(isinstance(start, int) for start in starts):
        x = dynamic_slice(x, same_dtype(starts), lengths, allow_negative_indices=False)
        shape, starts = lengths, [0] * len(spans)
    steps = tuple(span.step for span in spans)
    if lengths == shape and all(step == 1 for step in steps):
        return x
    limits = tuple(a + n for a, n in zip(starts, lengths, strict=True))
    strided = any(step != 1 for step in steps)
    return static_slice(x, starts, limits, steps if strided else None)


def same_dtype(indices):
    """Indices, known and traced, as arrays of one dtype: int32 unless one is int64."""
    wide = any(getattr(i, "dtype", None) == np.int64 for i in indices)
    dtype = np.dtype(np.int64 if wide else np.int32)
    return [
        convert(i, dtype) if isinstance(i, Tracer) else np.asarray(i, dtype)
        for i in indices
    ]


operators |= {"__getitem__": take_slices}
