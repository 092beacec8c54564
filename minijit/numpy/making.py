"""Arrays out of numbers, lists and arrays: `array`, `zeros`, `arange`, `stack`."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..trace import dtypes, primitives
from ..trace.array import ArrayImpl, wrap
from ..trace.core import Tracer
from ..trace.dtypes import scalar_makers
from ..trace.primitives import floor
from ..trace.types import Array, ArrayLike, DTypeLike, Shape
from .arguments import (
    canonical_axis, canonicalize_shape, check_arraylike, concrete, no_out, static,
    static_int, unwrapped,
)
from .core import (
    arrays, as_array, bool_of, convert, expand_to, from_later, nan, np_shape,
    promote_dtypes,
)
from .shapes import (
    broadcast_arrays, broadcast_to, expand_dims, moveaxis, ravel, reshape,
)

# How a new array is put on a device: a later module knows several.
placers = {"put": lambda x, device: x, "like": lambda x, other: x}


def placed(x, device):
    """A new array on a device that was asked for."""
    return x if device is None else placers["put"](x, device)


def placed_like(x, device, other):
    """The same; if none was asked for, where another array lies."""
    return placers["like"](x, other) if device is None else placed(x, device)


def array(
    object: Any, dtype: DTypeLike | None = None, copy: bool = True,
    order: str | None = "K", ndmin: int = 0, *, device: Any = None,
) -> Array:
    """An array from numbers, arrays, or nested lists of them.  JAX: `jnp.array`.

    NumPy arrays are copied.  Lists may hold tracers.  A dtype of None stands for the
    one that the parts promote to; a single Python number stays weakly typed.
    """
    if order not in (None, "K"):
        raise NotImplementedError("Only implemented for order='K'")
    weak_type = dtype is None and dtypes.is_weakly_typed(object)
    dtype = None if dtype is None else dtypes.user_dtype(dtype, "array", object)
    result = from_parts(object, dtype)
    result = convert(result, result.dtype if dtype is None else dtype, weak_type)
    if copy and isinstance(object, Array) and result is object:
        result = primitives.copy_p.bind(object)
    return placed(expand_to(result, ndmin) if result.ndim < ndmin else result, device)


def from_parts(object, dtype):
    """An array out of whatever `array` accepts; tracers are joined by primitives."""
    object = list(object) if isinstance(object, range) else object
    if not isinstance(object, (list, tuple)):
        return from_one(object, dtype)
    leaves = list_leaves(object)
    if builtins.any(leaf is None for leaf in leaves):
        raise ValueError("None is not a valid value for jnp.array")
    if dtype is None:
        try:
            dtype = dtypes.lattice_result_type(*(leaves or [0.0]))[0]
        except TypeError:  # a part whose type only NumPy knows
            dtype = dtypes.lattice_result_type(*map(as_buffer, leaves))[0]
    if builtins.any(isinstance(leaf, Tracer) for leaf in leaves) or isinstance(
        dtype, dtypes.ExtendedDtype
    ):
        return stack([array(part, dtype, copy=False) for part in object])
    return as_array(converted(map_lists(as_known, object), dtype))


def converted(x, dtype):
    """A NumPy array of a dtype out of what may not fit it, which is then named."""
    try:
        return np.array(x, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        kinds = (OverflowError, ValueError, TypeError)
        kind = next(k for k in kinds if isinstance(error, k))
        raise kind(f"{x!r} gives no array of {dtype}: {error}") from None


def from_one(object, dtype):
    """An array out of one array, number, or what speaks a protocol of arrays."""
    object = unwrapped(object)
    if isinstance(object, Array):
        return object
    if object is None:
        raise ValueError("None is not a valid value for jnp.array")
    if isinstance(object, (str, bytes)):
        raise TypeError(
            f"Value {object!r} with dtype {np.asarray(object).dtype} is not a valid "
            "JAX array type: only numbers, bools, and arrays and lists of them are."
        )
    # A dtype that is asked for is the first that a NumPy array is converted to.
    x = as_buffer(object)
    return as_array(x) if dtype is None else wrap(converted(x, dtype))


def list_leaves(object):
    """All that stands in nested lists and tuples; `[object]` if it is neither."""
    if not isinstance(object, (list, tuple)):
        return [unwrapped(object)]
    return [leaf for part in object for leaf in list_leaves(part)]


def map_lists(function, object):
    """Apply a function to all that stands in nested lists and tuples."""
    if isinstance(object, (list, tuple)):
        return [map_lists(function, part) for part in object]
    return function(object)


def as_known(x):
    """The NumPy value of an array; anything else as it is."""
    x = unwrapped(x)
    return np.asarray(x) if isinstance(x, ArrayImpl) else x


def as_buffer(object):
    """A number or array as it is; anything else as NumPy reads it, which knows many
    protocols: buffers, `__array__`, `__array_interface__` (images), sequences."""
    if isinstance(object, (bool, int, float, complex, np.ndarray, np.generic, Array)):
        return object
    if hasattr(object, "__dlpack__") and not hasattr(object, "__array__"):
        return np.from_dlpack(object)
    x = np.asarray(object)
    if x.dtype == np.dtype("O"):
        raise TypeError(f"Unexpected input type for array: {type(object)}")
    return x


def asarray(
    a: Any, dtype: DTypeLike | None = None, order: str | None = None, *,
    copy: bool | None = None, device: Any = None,
) -> Array:
    """As `array`, but an array of that dtype is returned itself."""
    return array(a, dtype=dtype, copy=bool_of(copy), order=order, device=device)


scalar_makers |= {"array": asarray}


def full(
    shape: int | Shape, fill_value: ArrayLike, dtype: DTypeLike | None = None, *,
    device: Any = None,
) -> Array:
    """An array of `shape` with one value everywhere.  JAX: `jnp.full`."""
    check_arraylike("full", fill_value)
    return placed(filled(canonicalize_shape(shape), fill_value, dtype, "full"), device)


def filled(shape, value, dtype, name):
    """`value` in every element; its own dtype, weak or not, where `dtype` is None."""
    if dtypes.carried_type(dtype) is not None:
        fill = from_later("full_of_type", "a zero of a type without elements")
        return fill(shape, value, dtypes.carried_type(dtype))
    if dtype is None:
        dtype, weak_type = dtypes.lattice_result_type(value)
    else:
        dtype, weak_type = dtypes.user_dtype(dtype, name), False
    return broadcast_to(convert(value, dtype, weak_type), shape)


def zeros(
    shape: int | Shape, dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """An array of `shape` filled with 0, float32 by default.  JAX: `jnp.zeros`."""
    return placed(constant(shape, 0, dtype, "zeros"), device)


def ones(
    shape: int | Shape, dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """An array of `shape` filled with 1, float32 by default.  JAX: `jnp.ones`."""
    return placed(constant(shape, 1, dtype, "ones"), device)


def constant(shape, value, dtype, name):
    """What `zeros` and `ones` share."""
    if isinstance(dtype, int) and isinstance(shape, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type.\n\nDid you accidentally write "
            f"`jnp.{name}({shape}, {dtype})` when you meant "
            f"`jnp.{name}(({shape}, {dtype}))`, with a tuple for the shape?"
        )
    dtype = float if dtype is None else dtype
    return filled(canonicalize_shape(shape), value, dtype, name)


def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None,
    shape: int | Shape | None = None, *, device: Any = None,
) -> Array:
    """An array like `a` with one value everywhere.  JAX: `jnp.full_like`."""
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        a, = arrays("full_like", a)
    check_arraylike("full_like", 0, fill_value)
    shape = a.shape if shape is None else canonicalize_shape(shape)
    dtype = a.dtype if dtype is None and dtypes.carried_type(a.dtype) else dtype
    if dtype is not None:
        return placed_like(filled(shape, fill_value, dtype, "full_like"), device, a)
    weak_type = dtypes.is_weakly_typed(a)
    fill = convert(fill_value, dtypes.canonicalize_dtype(a.dtype), weak_type)
    return placed_like(broadcast_to(fill, shape), device, a)


def zeros_like(
    a: ArrayLike, dtype: DTypeLike | None = None, shape: int | Shape | None = None, *,
    device: Any = None,
) -> Array:
    """An array like `a` filled with 0.  JAX: `jnp.zeros_like`."""
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(
    a: ArrayLike, dtype: DTypeLike | None = None, shape: int | Shape | None = None, *,
    device: Any = None,
) -> Array:
    """An array like `a` filled with 1.  JAX: `jnp.ones_like`."""
    return full_like(a, 1, dtype, shape, device=device)


def arange(
    start: ArrayLike, stop: ArrayLike | None = None, step: ArrayLike | None = None,
    dtype: DTypeLike | None = None, *, device: Any = None,
) -> Array:
    """Numbers from `start` up to and without `stop`.  JAX: `jnp.arange`."""
    given = [x for x in (start, stop, step) if x is not None]
    check_arraylike("arange", *given)
    dtype = dtypes.result_type(*given) if dtype is None else dtype
    dtype = dtypes.user_dtype(dtype, "arange")
    start, stop, step = arange_bounds(start, stop, step)
    given = [x for x in (start, stop, step) if isinstance(x, (float, complex))]
    if step == 0 or not np.isfinite(given).all() or np.iscomplexobj(given):
        raise ValueError(
            "jnp.arange: start, stop and step must be finite real numbers, and step "
            f"not 0, got {start=}, {stop=}, {step=}"
        )
    size = math.ceil((stop - start) / (1 if step is None else step))
    floating = dtypes.issubdtype(dtype, np.floating)
    small = floating and dtypes.finfo(dtype).bits < 32
    work = np.dtype(np.float32) if small and step is not None else dtype
    x = counting(builtins.max(0, size), work)
    x = x if step is None else primitives.mul(convert(step, work), x)
    x = x if step is None and start == 0 else primitives.add(convert(start, work), x)
    return placed(convert(x, dtype), device)


def counting(size, dtype):
    """The numbers 0, 1, 2, ... of a dtype."""
    return primitives.broadcasted_iota(dtype, (size,), 0)


def arange_bounds(start, stop, step) -> tuple[float, float, float | None]:
    """-> (start, stop, step or None) as Python numbers."""
    start, stop = (0, start) if stop is None else (start, stop)
    bounds = [start, stop] if step is None else [start, stop, step]
    names = ["start", "stop", "step"][: len(bounds)]
    for i, (name, x) in enumerate(zip(names, bounds, strict=True)):
        bounds[i] = concrete(x, f"the argument {name!r} of jnp.arange", static)
        if bounds[i].ndim:
            raise ValueError(
                f"jax.numpy.arange: arguments must be scalars; got {name}={x}"
            )
    start, stop, *steps = [x.item() for x in bounds]
    return start, stop, steps[0] if steps else None


def concatenate(
    arrays: Array | Sequence[ArrayLike], axis: int | None = 0,
    dtype: DTypeLike | None = None,
) -> Array:
    """The arrays one after another along an axis.  JAX: `jnp.concatenate`."""
    parts = together("concatenate", arrays, dtype)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    if parts[0].ndim == 0:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonical_axis(axis, parts[0].ndim)
    return parts[0] if len(parts) == 1 else primitives.concatenate(parts, axis)


def stack(
    arrays: Array | Sequence[ArrayLike], axis: int = 0, out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The arrays beside one another along a new axis.  JAX: `jnp.stack`."""
    no_out("stack", out)
    parts = together("stack", arrays, dtype)
    if len({x.shape for x in parts}) > 1:
        shapes = ", ".join(str(x.shape) for x in parts)
        raise ValueError(f"All input arrays must have the same shape. Got {shapes}.")
    axis = canonical_axis(axis, parts[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in parts], axis)


def together(name, parts, dtype):
    """A sequence of arrays, or the rows of one, in a common dtype."""
    parts = checked_arrays(name, parts)
    if dtype is not None:
        return [asarray(x, dtype) for x in parts]
    return promote_dtypes(parts) if len(parts) > 1 else [as_array(parts[0])]


def checked_arrays(name, tup):
    """A sequence of arrays, or the rows of one."""
    check_arraylike(name, *tup)
    if not len(tup):
        raise ValueError(f"Need at least one array to {name}.")
    return list(tup)


def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None
) -> Array:
    """The array with another dtype.  JAX: `jnp.astype`."""
    x, = arrays("astype", x)
    dtype = dtypes.user_dtype(float if dtype is None else dtype, "astype", x)
    if x.dtype.kind == "c" and dtype.kind in "iuf":
        x = primitives.convert(x, np.dtype(f"f{x.dtype.itemsize // 2}"))
    if x.dtype.kind == "c" and dtype.kind == "b":
        # Its imaginary part counts as well.
        x = primitives.ne(x, primitives.full_like(x, 0))
    result = convert(x, dtype)
    return placed(primitives.copy_p.bind(x) if copy and result is x else result, device)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of the array.  JAX: `jnp.copy`."""
    return array(a, copy=True, order=order)


def inexact_dtype(name, dtype, *args):
    """The dtype asked for, or the floating one that `args` promote to."""
    if dtype is None:
        return dtypes.to_inexact_dtype(dtypes.result_type(*args))
    return dtypes.user_dtype(dtype, name)


def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True,
    retstep: bool = False, dtype: DTypeLike | None = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop`.  JAX: `jnp.linspace`.

    With `retstep`: -> (numbers, the step between them).
    """
    num = static_int(num, "the argument 'num' of jnp.linspace")
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = arrays("linspace", start, stop)
    dtype = inexact_dtype("linspace", dtype, start, stop)
    work = dtypes.to_inexact_dtype(dtype)
    start, stop = broadcast_arrays(convert(start, work), convert(stop, work))
    intervals = num - bool_of(endpoint)
    numbers = spaced(start, stop, num, intervals, work)
    if dtype.kind in "iu":
        numbers = floor(numbers)
    numbers = placed(moveaxis(convert(numbers, dtype), 0, axis), device)
    if not retstep:
        return numbers
    if num < 2 and (endpoint or num == 0):
        return numbers, full((), nan, work)
    return numbers, (stop - start) / convert(intervals, work)


def sum_in_double(x, y, z):
    """x + y * z, rounded once where a double holds the product: so XLA computes it."""
    if x.dtype != np.float32:
        return x + y * z
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    x, y, z = (primitives.convert(a, double) for a in (x, y, z))
    return primitives.convert(x + y * z, single)


def spaced(start, stop, num, intervals, dtype):
    """The numbers of `linspace`, along a new first axis."""
    if num < 2:
        return broadcast_to(start, (num, *start.shape))
    real = dtypes.finfo(dtype).dtype
    one = primitives.convert(1 / np.asarray(intervals, real), real)
    i = reshape(counting(intervals, real), (intervals, *[1] * start.ndim))
    rest, step = start * convert(1 - i * one, dtype), stop * convert(one, dtype)
    out = sum_in_double(rest, step, convert(i, dtype))
    # The last number is `stop` itself, whatever rounding does to the others.
    return out if intervals == num else concatenate([out, stop[None]])


def eye(
    N: int, M: int | None = None, k: ArrayLike = 0, dtype: DTypeLike | None = None, *,
    device: Any = None,
) -> Array:
    """Ones on the k-th diagonal of an N by M matrix of zeros.  JAX: `jnp.eye`."""
    dtype = dtypes.user_dtype(float if dtype is None else dtype, "eye")
    shape = canonicalize_shape((N, N if M is None else M))
    if builtins.min(shape) < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    if isinstance(k, int):
        # A diagonal beyond a corner is as empty as the first one outside.
        k = builtins.max(-shape[0], builtins.min(k, shape[1]))
    kind = dtypes.dtype(k)
    if np_shape(k) != () or kind.kind not in "iu":
        raise ValueError(f"k must be a scalar integer; got {k}")
    rows = primitives.broadcasted_iota(kind, shape, 0)
    columns = primitives.broadcasted_iota(kind, shape, 1)
    return placed(convert(rows + convert(k, kind) == columns, dtype), device)
