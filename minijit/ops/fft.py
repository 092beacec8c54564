"""Discrete Fourier transforms over the last axes, by SciPy (`jax.lax.fft`).

    fft(x, "FFT", (8,))                     # complex [..., 8] -> complex [..., 8]
    fft(x, "RFFT", (8,))                    # real [..., 8] -> complex [..., 5]

All four kinds are linear.  The matrix of a transform is symmetric, so FFT and IFFT are
their own transposes; the other two leave out or put in the half that is a conjugate.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..trace import primitives as lax
from ..trace.array import aval_of, on_numpy, shape_rules
from ..trace.base.demand import extension
from ..trace.base.errors import HERE
from ..trace.core import Primitive, eval_rules
from ..trace.dtypes import to_complex_dtype, to_inexact_dtype
from ..trace.jaxprs.jaxpr import fallbacks
from ..trace.numpy_values import real_part
from ..trace.shape_checks import check_kind
from ..trace.types import Array, ArrayLike
from ..transform.batching.vmap import batch_rules, in_front
from ..transform.derivatives.linearize import linear_in_first, linearize_rules
from ..transform.derivatives.transpose import adding, transpose_rules
from .complex_numbers import conj, to_complex

fft_p = Primitive("fft")


class FftType(enum.Enum):
    """The kinds of transforms (`jax.lax.FftType`)."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3

    def __repr__(self):
        return self.name


def fft(x: ArrayLike, fft_type: Any, fft_lengths: Sequence[int]) -> Array:
    """Transform x over its last axes.

    Args:
      x: of RFFT a real array; of the others any, it becomes a complex one.
      fft_type: an `FftType`, or its name, in whatever case.
      fft_lengths: the lengths of those axes; of IRFFT the last one that of the result,
        and x has length // 2 + 1 there.

    Returns:
      An array of the dtype of x, but for RFFT (complex) and IRFFT (real).

    Raises:
      ValueError: the lengths are not those of x, or there are more than 3.
    """
    if not isinstance(fft_type, FftType):
        names = {kind.name: kind for kind in FftType}
        kind = names.get(str(fft_type).upper())
        if kind is None:
            raise ValueError(f"Unknown FFT type '{fft_type}': use one of {[*names]}")
        fft_type = kind
    lengths = tuple(map(operator.index, fft_lengths))
    operand = lax.as_array(x)
    dtype = to_inexact_dtype(aval_of(operand).dtype)
    if fft_type is not FftType.RFFT:
        dtype = to_complex_dtype(dtype)
    elif dtype.kind == "c":
        raise ValueError(f"only real valued inputs supported for rfft, got {dtype}")
    operand = lax.convert_element_type(operand, dtype)
    params = dict(fft_type=fft_type, fft_lengths=lengths)
    return fft_p.bind(operand, **params) if lengths else operand


def fft_shape(x, *, fft_type, fft_lengths):
    """The shape rule: lengths are as `fft` says."""
    name, count = fft_type.name, len(fft_lengths)
    is_real = fft_type is FftType.RFFT
    parts = (np.float32, np.float64)
    check_kind(name, x.dtype, parts if is_real else (np.complexfloating,))
    if not 1 <= count <= 3 or count > x.ndim:
        raise ValueError(
            f"{name} takes 1 to 3 lengths, and at most as many as the array has axes, "
            f"got {fft_lengths} for shape {x.shape}{HERE}"
        )
    wanted = half(fft_lengths) if fft_type is FftType.IRFFT else fft_lengths
    if x.shape[-count:] != wanted:
        raise ValueError(
            f"{name} with lengths {fft_lengths} takes an array whose last axes are "
            f"{wanted}, got shape {x.shape}{HERE}"
        )
    rest = x.shape[:-count]
    if is_real:
        return x.update(shape=(*rest, *half(fft_lengths)), dtype=to_complex(x.dtype))
    if fft_type is FftType.IRFFT:
        return x.update(shape=(*rest, *fft_lengths), dtype=real_part(x.dtype))
    return x


def half(lengths):
    """The shape of a real array's transform without its conjugate half."""
    return (*lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0)


def routines():
    """SciPy's machine code for transforms; None if this SciPy has it elsewhere."""
    # Of SciPy 1.18 on, and before: they have the same functions.
    places = "scipy.fft._duccfft.pyduccfft", "scipy.fft._pocketfft.pypocketfft"
    return next(filter(None, map(extension, places)), None)


def fft_numpy(x, out=None, cores=1, *, fft_type, fft_lengths):
    if 0 in fft_lengths or not x.size:
        aval = fft_shape(aval_of(x), fft_type=fft_type, fft_lengths=fft_lengths)
        return np.zeros(aval.shape, aval.dtype)
    axes, code = tuple(range(x.ndim - len(fft_lengths), x.ndim)), routines()
    if code is None:
        from scipy import fft

        return getattr(fft, fft_type.name.lower() + "n")(x, fft_lengths, axes)
    # Forward transforms are sums, the others are divided by how much they sum up.
    if fft_type is FftType.RFFT:
        return code.r2c(x, axes, True, 0, out, cores)
    if fft_type is FftType.IRFFT:
        return code.c2r(x, axes, fft_lengths[-1], False, 2, out, cores)
    forward = fft_type is FftType.FFT
    return code.c2c(x, axes, forward, 0 if forward else 2, out, cores)


def fft_transpose(ct, x, *, fft_type, fft_lengths):
    apply = lambda y, kind: fft_p.bind(y, fft_type=kind, fft_lengths=fft_lengths)
    if fft_type in (FftType.FFT, FftType.IFFT):
        return (apply(ct, fft_type),)
    # A number of the half that is kept stands for two: all but the first one and, of an
    # even length, the last one.
    n, half_is_given = fft_lengths[-1], fft_type is FftType.RFFT
    dtype = to_complex(aval_of(ct).dtype)
    weights = np.full(n // 2 + 1, 2 / math.prod(fft_lengths), dtype)
    weights[0] /= 2
    if n % 2 == 0:
        weights[-1] /= 2
    if half_is_given:
        return (apply(lax.mul(conj(ct), spread(1 / weights, ct)), FftType.IRFFT),)
    y = apply(ct, FftType.RFFT)
    return (conj(lax.mul(y, spread(weights, y))),)


def spread(row, like):
    """A row for each row of an array."""
    shape = aval_of(like).shape
    return lax.broadcast_in_dim(row, shape, (len(shape) - 1,))


shape_rules |= {fft_p: fft_shape}
eval_rules |= on_numpy({fft_p: fft_numpy})
linearize_rules |= linear_in_first(fft_p)
transpose_rules |= adding({fft_p: fft_transpose})
batch_rules |= in_front(fft_p)
fallbacks |= {fft_p: "Fourier transforms are left to SciPy"}
