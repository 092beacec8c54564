"""The methods of arrays that need the rest of NumPy."""

from __future__ import annotations

import functools

import numpy as np

from ..ops import bits, complex_numbers
from ..trace import dtypes
from ..trace.base import demand
from ..trace.core import operators
from ..trace.types import Array, ArrayLike, DTypeLike
from .array_methods import by_name
from .core import convert
from .creation import diagonal, trace
from .making import copy, stack
from .mathematics import clip, conj, imag, real, round
from .rearranging import flip, swapaxes
from .reductions import cumprod, cumsum, ptp
from .shapes import reshape, squeeze
from .sorting import argpartition, argsort, compress, nonzero, searchsorted, sort
from .take_and_put import choose, repeat, take


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


operators |= {
    "__round__": rounded,
    "real": property(real),
    "imag": property(imag),
    "flat": property(no_flat),
    "conj": conj,
    "clip": clip_method,
    "compress": compress_method,
}
operators |= by_name(
    *(conj, round, ptp, cumsum, cumprod, swapaxes, diagonal, trace, repeat, view),
    *(byteswap, sort, argsort, argpartition, searchsorted, nonzero, take, choose),
)

# The functions that are ufuncs in NumPy, by how many numbers they take.
ufuncs = {
    1: ["negative"],
    2: """
        add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and
        logical_or logical_xor maximum minimum multiply subtract
    """.split(),
}
identities = {
    "add": 0, "multiply": 1, "logical_and": True, "logical_or": False,
    "logical_xor": False, "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0,
    "logaddexp": -np.inf, "logaddexp2": -np.inf,
}  # fmt: skip


def add_methods(namespace):
    """Give all functions that are ufuncs in NumPy their methods."""
    for count, names in ufuncs.items():
        for name in names:
            function, identity = namespace[name], identities.get(name)
            made = functools.partial(
                demand.on_demand("numpy.vectorized:ufunc"),
                *(function, count, 1), name=name, identity=identity,
            )
            known = {"nin": count, "nout": 1, "nargs": count, "identity": identity}
            for method in "reduce accumulate at outer reduceat".split():
                known[method] = functools.partial(method_of, made, method)
            vars(function).update(known)


def method_of(made, method, /, *args, **kwargs):
    """Call a method of what `made()` gives."""
    return getattr(made(), method)(*args, **kwargs)
