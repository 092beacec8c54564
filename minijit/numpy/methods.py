"""The methods of arrays that need the rest of NumPy."""

from __future__ import annotations

import numpy as np

from ..ops import bits, complex_numbers
from ..trace import dtypes
from ..trace.api import calls
from ..trace.api.operator_calls import Later, give_to_class
from ..trace.base.demand import fetch
from ..trace.core import Array as ArrayClass, operators
from ..trace.types import Array, ArrayLike, DTypeLike
from .array_methods import by_name
from .core import convert
from .making import copy, stack
from .mathematics import clip, imag, real, round
from .rearranging import flip
from .shapes import reshape, squeeze
from .sorting import compress
from .take_and_put import At, Indexed


def view(x: Array, dtype: DTypeLike | None = None, type: None = None) -> Array:
    """`x.view(dtype)`: the same bytes as another dtype.

    The last axis grows or shrinks where the sizes of the elements differ.
    """
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    if dtype is None or dtypes.user_dtype(dtype, "view") == x.dtype:
        return x
    dtype = dtypes.user_dtype(dtype, "view")
    old, new = bits.bits_of(x.dtype), bits.bits_of(dtype)
    if x.ndim == 0:
        if old != new:
            raise ValueError(
                "view() of a 0d array is only supported if the itemsize is unchanged."
            )
        return squeeze(view(x[None], dtype), 0)
    if x.shape[-1] * old % new:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total "
            "size in bytes of the last axis of the array."
        )
    if x.dtype == np.bool_:
        return view(convert(x, np.uint8), dtype)
    if dtype == np.bool_:
        return convert(view(x, np.uint8), np.bool_)
    if x.dtype.kind == "c":
        parts = stack([real(x), imag(x)], -1)
        return view(reshape(parts, (*x.shape[:-1], 2 * x.shape[-1])), dtype)
    if dtype.kind == "c":
        parts = view(x, np.dtype(f"f{new // 16}"))
        return complex_numbers.complex(parts[..., ::2], parts[..., 1::2])
    if old < new:
        x = reshape(x, (*x.shape[:-1], x.shape[-1] * old // new, new // old))
    out = bits.bitcast_convert_type(x, dtype)
    return reshape(out, (*out.shape[:-2], -1)) if old > new else out


def byteswap(x: Array) -> Array:
    """`x.byteswap()`: the bytes of each element in reverse order."""
    if x.dtype.kind == "c":
        return complex_numbers.complex(byteswap(real(x)), byteswap(imag(x)))
    if x.dtype.itemsize == 1:
        return copy(x)
    parts = bits.bitcast_convert_type(x, np.dtype(np.uint8))
    return bits.bitcast_convert_type(flip(parts, -1), x.dtype)


def clip_method(
    x: Array, min: ArrayLike | None = None, max: ArrayLike | None = None
) -> Array:
    """`x.clip(min, max)`."""
    return clip(x, min, max)


def compress_method(
    x: Array, condition: ArrayLike, axis: int | None = None, *, out: None = None,
    size: int | None = None, fill_value: ArrayLike = 0,
) -> Array:
    """`x.compress(condition)`."""
    return compress(condition, x, axis, size=size, fill_value=fill_value, out=out)


def rounded(x, ndigits=None):
    """Python's `round(x)`, which is an integer, and `round(x, ndigits)`, which is not.

    JAX: as here, int32 (int64 with `enable_x64`) for whatever type of number.
    """
    if ndigits is None:
        return convert(round(x), dtypes.default_dtype("signed"))
    return round(x, ndigits)


def no_flat(x):
    """`x.flat` would write into the array."""
    raise NotImplementedError(
        "minijit arrays do not implement the arr.flat property: consider "
        "arr.flatten() instead."
    )


methods = {
    "at": property(At),
    "real": property(real),
    "imag": property(imag),
    "flat": property(no_flat),
    "clip": clip_method,
    "compress": compress_method,
}
methods |= by_name(byteswap, view)
# The others are functions of `jnp`, by which users know them.
later = [name for name, x in vars(ArrayClass).items() if isinstance(x, Later)]
others = [name for name in later if name not in methods]
methods |= {name: getattr(fetch("numpy"), name) for name in others}
calls.explain_calls("Array", methods)
calls.explain_methods("Array.at", Indexed)
operators |= methods
give_to_class(ArrayClass, methods)
