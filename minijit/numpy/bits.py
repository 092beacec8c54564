"""Bits packed into bytes, and unpacked."""

from __future__ import annotations

import builtins

import numpy as np

from ..trace import slicing
from ..trace.types import Array, ArrayLike
from .arguments import canonical_axis
from .core import arrays, as_array, convert, truth
from .editing import pad
from .rearranging import swapaxes
from .reducing import sum
from .shapes import ravel, reshape


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight bools as one uint8.  JAX: `jnp.packbits`."""
    x, = arrays("packbits", a)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    weights = bit_weights(bitorder)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    x = convert(truth(swapaxes(x, axis, -1)), np.uint8)
    rest = -x.shape[-1] % 8
    row = [(0, 0, 0)] * (x.ndim - 1) + [(0, rest, 0)]
    x = slicing.pad(x, convert(0, np.uint8), row) if rest else x
    x = reshape(x, (*x.shape[:-1], x.shape[-1] // 8, 8))
    return swapaxes(sum(x * weights, -1, np.uint8), axis, -1)


def bit_weights(bitorder):
    """The values of the eight bits of a byte."""
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")
    weights = 2 ** np.arange(8, dtype=np.uint8)
    return as_array(weights if bitorder == "little" else weights[::-1])


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None,
    bitorder: str = "big",
) -> Array:
    """The bits of uint8 numbers.  JAX: `jnp.unpackbits`."""
    x, = arrays("unpackbits", a)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    weights = bit_weights(bitorder)
    x, axis = (ravel(x), 0) if axis is None else (x, canonical_axis(axis, x.ndim))
    x = swapaxes(x, axis, -1)
    bits = convert(x[..., None] & weights, np.bool_)
    bits = convert(reshape(bits, (*x.shape[:-1], 8 * x.shape[-1])), np.uint8)
    if count is not None:
        more = builtins.max(0, count - bits.shape[-1])
        bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, more)])
        bits = bits[..., :count]
    return swapaxes(bits, axis, -1)
