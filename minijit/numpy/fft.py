"""Fourier transforms under the names of `jax.numpy.fft`: `jnp.fft`.

    jnp.fft.fft(x), jnp.fft.irfft2(y), jnp.fft.fftfreq(8)
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..ops import fft as transforms
from ..trace.api import calls
from ..trace.base import names
from ..trace.base.errors import HERE
from ..trace.types import Array, ArrayLike, Axis, DTypeLike, Shape
from .arguments import canonical_axes, canonical_axis, named
from .core import convert, promote_args, promote_args_inexact
from .making import arange, placed, zeros
from .mathematics import conj
from .editing import pad
from .rearranging import roll
from .shapes import moveaxis


def transformed(name, kind, a, s, axes, norm):
    """All transforms come down to this: pad or cut, move the axes last, scale.

    Args:
      name: what the user called; kind: of `transforms.FftType`.
      s: the lengths of the axes (of IRFFT the last one of the result), or None.
      axes: which, or None for all, or the last len(s).
      norm: None or "backward": the inverse is divided by the lengths; "forward": the
        other one is; "ortho": both are, by the square root.
    """
    a, = promote_args_inexact(f"jnp.fft.{name}", a)
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(
            f"jnp.fft.{name}: Invalid norm value {norm!r}; should be None, "
            "'backward', 'ortho' or 'forward'."
        )
    if axes is None:
        axes = range(a.ndim if s is None else len(s))
        axes = [d - len(axes) for d in axes]
    if len({*canonical_axes(tuple(axes), a.ndim)}) != len(axes):
        raise ValueError(
            f"jnp.fft.{name} does not support repeated axes. Got axes {tuple(axes)}."
        )
    if kind == "RFFT" and a.dtype.kind == "c":
        raise ValueError(f"jnp.fft.{name} only accepts real inputs, got {a.dtype}")
    axes = [canonical_axis(d, a.ndim) for d in axes]
    if s is not None and len(s) != len(axes):
        raise ValueError(
            f"jnp.fft.{name} requires s to have as many lengths as there are axes, "
            f"got s={tuple(s)} and axes={tuple(axes)}{HERE}"
        )
    lengths = [a.shape[d] for d in axes] if s is None else list(map(operator.index, s))
    if kind == "IRFFT" and s is None and axes:
        lengths[-1] = builtins.max(0, 2 * (lengths[-1] - 1))
    if s is not None and builtins.any(n < 1 for n in lengths):
        raise ValueError(
            f"jnp.fft.{name}: Shape should be non-negative, and a transform has at "
            f"least 1 data point, got lengths {tuple(lengths)}{HERE}"
        )
    if kind != "RFFT":
        a = convert(a, np.result_type(a.dtype, np.complex64))
    if not axes:
        return a
    if 0 in lengths:
        # Nothing is transformed: sums of nothing, if there is a result at all.
        shape, dtype = list(a.shape), np.result_type(a.dtype, np.complex64)
        for d, n in zip(axes, lengths, strict=True):
            shape[d] = n
        if kind == "RFFT":
            shape[axes[-1]] = lengths[-1] // 2 + 1
        real = np.empty(0, dtype).real.dtype
        return zeros(shape, real if kind == "IRFFT" else dtype)
    taken = transforms.half(lengths) if kind == "IRFFT" else lengths
    a = moveaxis(resized(a, axes, taken), axes, range(a.ndim - len(axes), a.ndim))
    # A primitive takes three axes at once; of more, the last ones are done first.
    result = step(a, kind, lengths)
    result = moveaxis(result, range(a.ndim - len(axes), a.ndim), axes)
    if norm in (None, "backward"):
        return result
    count = math.prod(lengths)
    scale = math.sqrt(count) if norm == "ortho" else count
    scale = 1 / scale if kind in ("FFT", "RFFT") else scale
    return result * convert(scale, result.dtype)


def step(a, kind, lengths):
    """Transform the last axes, at most three at a time."""
    if len(lengths) <= 3:
        return transforms.fft(a, kind, lengths)
    first, last = lengths[:-3], lengths[-3:]
    plain = {"RFFT": "FFT", "IRFFT": "IFFT"}.get(kind, kind)
    ends = range(a.ndim - 3, a.ndim)
    front = range(a.ndim - len(lengths), a.ndim - len(lengths) + 3)

    def on_first(x):
        x = moveaxis(x, ends, front)
        return moveaxis(step(x, plain, first), front, ends)

    if kind == "IRFFT":
        return transforms.fft(on_first(a), kind, last)
    return on_first(transforms.fft(a, kind, last))


def resized(a, axes, lengths):
    """a cut, or padded with zeros, to some lengths of some axes."""
    cut = [slice(None)] * a.ndim
    widths = [(0, 0)] * a.ndim
    for d, n in zip(axes, lengths, strict=True):
        cut[d] = slice(0, n)
        widths[d] = (0, builtins.max(0, n - a.shape[d]))
    return pad(a[tuple(cut)], widths)


class OneAxis(Protocol):
    def __call__(
        self, a: ArrayLike, n: int | None = ..., axis: int = ..., norm: str | None = ...
    ) -> Array: ...


class SeveralAxes(Protocol):
    def __call__(
        self, a: ArrayLike, s: Shape | None = ..., axes: Sequence[int] | None = ...,
        norm: str | None = ...,
    ) -> Array: ...


def of_one_axis(name, kind, text) -> OneAxis:
    """A transform over one axis."""

    def function(a, n=None, axis=-1, norm=None):
        if not isinstance(axis, (int, np.integer)):
            raise ValueError(f"jnp.fft.{name} does not support multiple axes: {axis}")
        s = None if n is None else (n,)
        return transformed(name, kind, a, s, (axis,), norm)

    return named(function, name, f"{text}\n\n    JAX: `jnp.fft.{name}`.\n    ")


def of_all_axes(name, kind, text, default=None) -> SeveralAxes:
    """A transform over several axes: all, or two, by default the last ones."""

    def function(a, s=None, axes=default, norm=None):
        if default is not None and len(axes) != 2:
            raise ValueError(f"jnp.fft.{name} only supports 2 axes. Got axes = {axes}.")
        return transformed(name, kind, a, s, axes, norm)

    return named(function, name, f"{text}\n\n    JAX: `jnp.fft.{name}`.\n    ")


of_two_axes = partial(of_all_axes, default=(-2, -1))


fft = of_one_axis("fft", "FFT", "The discrete Fourier transform along an axis.")
ifft = of_one_axis("ifft", "IFFT", "The inverse of `fft`.")
rfft = of_one_axis("rfft", "RFFT", "`fft` of real numbers: its first n // 2 + 1.")
irfft = of_one_axis("irfft", "IRFFT", "The inverse of `rfft`: n real numbers.")
fft2 = of_two_axes("fft2", "FFT", "`fft` over two axes.")
ifft2 = of_two_axes("ifft2", "IFFT", "The inverse of `fft2`.")
rfft2 = of_two_axes("rfft2", "RFFT", "`rfft` over the last of two axes, `fft` before.")
irfft2 = of_two_axes("irfft2", "IRFFT", "The inverse of `rfft2`.")
fftn = of_all_axes("fftn", "FFT", "`fft` over several axes, by default all.")
ifftn = of_all_axes("ifftn", "IFFT", "The inverse of `fftn`.")
rfftn = of_all_axes("rfftn", "RFFT", "`rfft` over the last of several axes.")
irfftn = of_all_axes("irfftn", "IRFFT", "The inverse of `rfftn`.")


# The norms of `hfft` and `ihfft`, as those of the transforms they are made of.
swapped = {None: "forward", "backward": "forward", "forward": "backward"}


def hfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The real transform of a signal of which one half is given, as it is the conjugate
    of the other.  JAX: `jnp.fft.hfft`."""
    return irfft(conj(a), n, axis, swapped.get(norm, norm))


def ihfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `hfft`.  JAX: `jnp.fft.ihfft`."""
    return conj(rfft(a, n, axis, swapped.get(norm, norm)))


def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """The frequencies of `fft`'s results: cycles a unit of the spacing d.

    JAX: `jnp.fft.fftfreq`.
    """
    n = checked_count("fftfreq", n)
    places = (arange(n) + n // 2) % n - n // 2
    return placed(in_cycles(places, n, d, dtype), device)


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """The frequencies of `rfft`'s results.  JAX: `jnp.fft.rfftfreq`."""
    n = checked_count("rfftfreq", n)
    return placed(in_cycles(arange(n // 2 + 1), n, d, dtype), device)


def checked_count(name, n):
    if not isinstance(n, (int, np.integer)):
        raise ValueError(
            f"The n argument of jnp.fft.{name} must be an int, got {n!r}. "
            "It must be known while the function is traced."
        )
    if n == 0:
        raise ValueError(f"The n argument of jnp.fft.{name} must be nonzero, got {n}.")
    return int(n)


def in_cycles(places, n, d, dtype):
    if np.ndim(d):
        raise ValueError(f"The d argument of jnp.fft.fftfreq is a number, got {d}.")
    places, = promote_args_inexact("jnp.fft.fftfreq", places)
    places = places if dtype is None else convert(places, dtype)
    return places / convert(d * n, places.dtype)


def fftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """The zero frequency moved to the middle.  JAX: `jnp.fft.fftshift`."""
    return rolled(x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """The inverse of `fftshift`.  JAX: `jnp.fft.ifftshift`."""
    return rolled(x, axes, -1)


def rolled(x, axes, sign):
    x, = promote_args("jnp.fft.fftshift", x)
    axes = canonical_axes(axes, x.ndim)
    shifts = [x.shape[d] // 2 if sign > 0 else -(x.shape[d] // 2) for d in axes]
    return roll(x, shifts, axes)


__all__ = [
    *("fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn"),
    *("ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq"),
    *("rfftn",),
]
names.front(globals(), __all__)
calls.explain_calls("jnp.fft", globals(), __all__)
