"""NumPy's indices as gathers and scatters: `x[rows, columns]`, `x.at[index].set(v)`.

    take_index(x, (rows, columns))             # arrays of indices: a gather
    update_index(x, 0, 1.0, scatter_add)       # x.at[0].add(1.0): a scatter
"""

import warnings

import numpy as np

from ..ops.scatter import (
    GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers, gather, scatter,
)
from ..trace import dtypes
from ..trace.array import aval_of, to_numpy
from ..trace.base.errors import HERE, user_level
from ..trace.core import Tracer, current, operators
from ..trace.numpy_values import broadcast_in_dim_values
from ..trace.primitives import broadcast_in_dim, concatenate, convert, squeeze
from ..trace.slicing import rev
from .shapes import check_broadcast
from .slicing import (
    Slice, axes_taken, check_not_empty, insert_axes, is_basic, is_integer, parse_index,
    same_dtype, span_of, take_basic, wrap_entries,
)

# As how many primitives reading an index with arrays in it counts: outside of traces
# NumPy does what they would do, to wrap and to stack the arrays.
READ = 4


def take_index(
    x, index, mode=None, fill_value=None, indices_are_sorted=False,
    unique_indices=False, wrap_negative_indices=True,
):  # fmt: skip
    """`x[index]` with NumPy's meaning, in the cheapest form there is.

    Without arrays in the index that is a slice, static or dynamic; else a gather.

    Args:
      x: an array.
      index: NumPy's: ints, slices, None, Ellipsis, integer arrays (also traced),
        boolean arrays of known value.
      mode: what an index out of bounds does: "clip" (the default: the nearest element
        is read), "fill", "promise_in_bounds".
      fill_value: what mode "fill" reads out of bounds; see `gather`.
      indices_are_sorted, unique_indices: promises about the arrays in the index.
      wrap_negative_indices: whether negative indices count from the end.

    JAX: `x[index]` and `x.at[index].get()`.
    """
    shape = aval_of(x).shape
    mode = GatherScatterMode.from_any(mode or GatherScatterMode.PROMISE_IN_BOUNDS)
    entries, contiguous = parse_index(shape, index)
    entries = wrap_entries(entries, shape, wrap_negative_indices)
    if is_basic(entries) and not has_to_fill(entries, shape, mode):
        return take_basic(x, entries, shape)
    form = gather_form(shape, entries, contiguous)
    current.bottom.steps += READ
    if 0 in form.shape:
        return broadcast_in_dim(np.zeros((), aval_of(x).dtype), form.shape, ())
    result = gather(
        insert_axes(x, form.bool_axes), form.indices, form.dimension_numbers(),
        form.sizes, unique_indices=unique_indices or form.unique,
        indices_are_sorted=indices_are_sorted or form.unique, mode=mode,
        fill_value=concrete_scalar(fill_value),
    )
    if form.reversed_axes:
        result = rev(result, form.reversed_axes)
    return insert_axes(result, form.new_axes)


# The modes in which a read out of bounds gives a value that is no element.
filling = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT


def has_to_fill(entries, shape, mode):
    """Whether an integer may be out of bounds, and something is to be filled in."""
    sizes = iter(shape)
    for entry in entries:
        n = next(sizes) if axes_taken(entry) else None
        start, size = entry, 1
        if isinstance(entry, Slice):
            start, size = entry.start, span_of(entry, n).length
        inside = isinstance(start, int) and 0 <= start <= (n or 0) - size
        if mode in filling and is_integer(start) and not inside:
            return True
    return False


def concrete_scalar(fill_value):
    """A fill value as a Python number, for the parameters of an equation."""
    if fill_value is None or isinstance(fill_value, (bool, int, float, complex)):
        return fill_value
    if aval_of(fill_value).shape != ():
        raise ValueError("fill_value argument to indexed get() must be a scalar")
    return to_numpy(fill_value).item()


def gather_form(shape, entries, contiguous, scatters=False):
    """The `GatherForm` of parsed and wrapped entries into an array of this shape."""
    shape, entries, bool_axes = expand_bools(shape, entries)
    arrays = [i for i, e in enumerate(entries) if is_integer(e)]
    advanced = any(np.ndim(entries[i]) for i in arrays)
    place = None if not advanced else arrays[0] if contiguous else 0
    form, taken = GatherForm(shape, tuple(bool_axes), not advanced), []
    for position, entry in enumerate(entries):
        if position == place:
            form.add_arrays(entries)
        if entry is None:
            form.add_new_axis()
        elif isinstance(entry, (slice, Slice)):
            form.add_span(span_of(entry, shape[form.axis]))
        else:
            taken += [form.axis] if advanced else []
            form.add_integer(entry, advanced)
    # What is written out of bounds is dropped, and a read of nothing reads nothing.
    if not scatters and 0 not in form.shape:
        for axis in taken:
            check_not_empty(shape[axis], axis)
    form.indices = join_indices(form.parts, form.batch)
    return form


def expand_bools(shape, entries):
    """Scalar bools as arrays that index an axis of size 1: [0], or [] for False."""
    shape, result, bool_axes, axis = list(shape), [], [], 0
    for entry in entries:
        if isinstance(entry, bool):
            shape.insert(axis, 1)
            bool_axes.append(axis)
            entry = np.arange(int(entry), dtype=np.int32)
        axis += axes_taken(entry)
        result.append(entry)
    return tuple(shape), result, bool_axes


class GatherForm:
    """A NumPy-style index as a gather, or as a scatter, which mirrors it.

    It is made entry after entry; `axis` is the next axis of the operand.

    Attributes:
      bool_axes: axes of size 1 to insert into the operand first, for scalar bools.
      unique: whether no element is taken twice, and they come in order.
      parts: (indices, the first batch axis they run along, the operand's axis they are
        for); broadcast to the axes `batch`, side by side, they are the start indices.
      indices: those, once all entries are there: int[*batch, k], NumPy's if known.
      offset: axes of the result that windows have; collapsed: of the operand, that
        windows lose; sizes: of the window, an int for each axis of the operand.
      reversed_axes: axes of what is gathered to reverse, for negative steps.
      new_axes: axes of size 1 to insert into the result at last, for each `None`.
      shape: of the result.
    """

    def __init__(self, operand_shape, bool_axes, unique):
        self.operand_shape, self.axis = operand_shape, 0
        self.bool_axes, self.unique = bool_axes, unique
        self.parts, self.batch, self.indices = [], (), None
        self.offset = self.collapsed = self.sizes = ()
        self.shape = self.reversed_axes = self.new_axes = ()

    def add_new_axis(self):
        """An entry `None`."""
        self.new_axes += (len(self.shape),)
        self.shape += (1,)

    def add_arrays(self, entries):
        """The axes of all arrays, broadcast against each other."""
        axis, found = 0, []
        for entry in entries:
            if is_integer(entry):
                found.append((entry, axis))
            axis += axes_taken(entry)
        shape = index_shape([np.shape(entry) for entry, _ in found])
        for entry, axis in found:
            first = len(self.batch) + len(shape) - np.ndim(entry)
            self.parts.append((entry, first, axis))
        self.batch += shape
        self.shape += shape

    def add_integer(self, entry, advanced):
        """An integer or array; what it adds to the result, `add_arrays` has added."""
        if not advanced:
            check_not_empty(self.operand_shape[self.axis], self.axis)
            self.parts.append((entry, len(self.batch), self.axis))
        self.collapsed += (self.axis,)
        self.sizes += (1,)
        self.axis += 1

    def add_span(self, span):
        """A slice: a window where it has no step, else an array of indices."""
        # The next axis of what is gathered, which has no new axes yet.
        axis = len(self.shape) - len(self.new_axes)
        if span.reverse:
            self.reversed_axes += (axis,)
        if span.step == 1:
            if span.size != self.operand_shape[self.axis]:
                self.parts.append((span.first, len(self.batch), self.axis))
            self.offset += (axis,)
            self.sizes += (span.size,)
        else:
            indices = span.first + span.step * np.arange(span.size, dtype=np.int32)
            self.parts.append((indices, len(self.batch), self.axis))
            self.batch += (span.size,)
            self.collapsed += (self.axis,)
            self.sizes += (1,)
        self.shape += (span.size,)
        self.axis += 1

    def dimension_numbers(self):
        """The `GatherDimensionNumbers`."""
        starts = tuple(axis for _, _, axis in self.parts)
        return GatherDimensionNumbers(self.offset, self.collapsed, starts)


def index_shape(shapes):
    """The common shape of arrays of indices."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise ValueError(
            "Incompatible shapes for broadcasting: "
            f"shapes=[{', '.join(map(str, shapes))}]: the arrays of an index must have "
            f"shapes that broadcast against each other{HERE}"
        ) from error


def join_indices(parts, batch):
    """Start indices int[*batch, k] out of a `GatherForm`'s parts."""
    indices = same_dtype([part for part, _, _ in parts])
    if not parts:
        return np.zeros((*batch, 0), np.int32)
    columns = []
    for i, (_, first, _) in zip(indices, parts, strict=True):
        axes = tuple(range(first, first + np.ndim(i)))
        columns.append(spread_index(i, (*batch, 1), axes))
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate(columns, -1)
    return concatenate(columns, len(batch))


def spread_index(x, shape, axes):
    """`broadcast_in_dim`, done at once where x is NumPy's."""
    if isinstance(x, Tracer):
        return broadcast_in_dim(x, shape, axes)
    return broadcast_in_dim_values(x, shape=shape, broadcast_dimensions=axes)


def update_index(
    x, index, update, scatter, mode=None, indices_are_sorted=False,
    unique_indices=False, wrap_negative_indices=True,
):  # fmt: skip
    """`x` with `update` scattered to where `x[index]` reads.

    Args:
      x: an array.
      index: as in `take_index`.
      update: what broadcasts to the shape of `x[index]`.
      scatter: `scatter`, `scatter_add`, ...
      mode: what an update out of bounds does: "drop" (the default), "clip",
        "promise_in_bounds".
      indices_are_sorted, unique_indices: promises about the arrays in the index.
      wrap_negative_indices: whether negative indices count from the end.

    JAX: `x.at[index].set(update)`, `.add` and so on.
    """
    aval = aval_of(x)
    entries, contiguous = parse_index(aval.shape, index)
    entries = wrap_entries(entries, aval.shape, wrap_negative_indices)
    form = gather_form(aval.shape, entries, contiguous, scatters=True)
    operand, update = promote_update(x, update)
    if 0 in form.shape:
        # Nothing is asked of an update of nothing: any shape will do, as in JAX.
        return x
    update = shape_update(update, form)
    if 0 in aval.shape:
        return x
    dims = ScatterDimensionNumbers(*form.dimension_numbers())
    result = scatter(
        insert_axes(operand, form.bool_axes), form.indices, update, dims,
        indices_are_sorted=form.unique or indices_are_sorted,
        unique_indices=form.unique or unique_indices, mode=mode,
    )
    if form.bool_axes:
        result = squeeze(result, form.bool_axes)
    return convert(result, aval.dtype, aval.weak_type)


def promote_update(x, update):
    """An operand and its update in a common dtype; a Python int takes the operand's."""
    dtype = aval_of(x).dtype
    if isinstance(update, int) and not isinstance(update, bool) and dtype.kind in "iu":
        limits = dtypes.iinfo(dtype)
        if limits.min <= update <= limits.max:
            return x, np.array(update, dtype)
    common, _ = dtypes.lattice_result_type(x, update)
    if common != dtype and dtypes.promote_types(dtype, common) != dtype:
        warn_unsafe_update(dtype, aval_of(update).dtype)
    return convert(x, common), convert(update, common)


def warn_unsafe_update(dtype, update_dtype):
    """An update that its operand cannot hold is cut; JAX warns, and so does this."""
    warnings.warn(
        "scatter inputs have incompatible types: cannot safely cast value from "
        f"dtype={update_dtype} to dtype={dtype}. In future JAX releases this will "
        f"result in an error.{HERE}",
        FutureWarning,
        stacklevel=user_level(),
    )


def shape_update(update, form):
    """An update broadcast to what is scattered: no new axes, and steps upwards."""
    given = aval_of(update)
    shape, rank = given.shape, len(form.shape)
    if shape != form.shape:
        check_broadcast(
            given,
            form.shape,
            f": an update of shape {shape} does not broadcast to the shape "
            f"{form.shape} of the indexed part{HERE}",
        )
        update = broadcast_in_dim(
            update, form.shape, tuple(range(rank - len(shape), rank))
        )
    if form.new_axes:
        update = squeeze(update, form.new_axes)
    return rev(update, form.reversed_axes) if form.reversed_axes else update


def apply_index(x, index, function, **params):
    """`x` with `function` applied, once, to the elements that `x[index]` reads."""
    if aval_of(x).size == 0:
        return update_index(x, index, 0, scatter, **params)
    wrap = params.get("wrap_negative_indices", True)
    taken = take_index(x, index, mode="clip", wrap_negative_indices=wrap)
    return update_index(x, index, function(taken), scatter, **params)


operators |= {"__getitem__": take_index}
