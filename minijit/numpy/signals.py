"""Convolutions, correlations, and the windows that signals are weighted with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.convolution import conv_general_dilated
from ..trace import dtypes
from ..trace.types import Array, ArrayLike, DTypeLike
from .arguments import named, static_int
from .core import absolute, cos, in_one_dtype, pi, sqrt
from .making import counting, ones
from .mathematics import conj, i0
from .rearranging import flip


def slide(name, x, y, mode, precision, dtype):
    """What `convolve` and `correlate` share: slide the shorter over the longer."""
    family = dtypes.to_inexact_dtype if dtype is None else None
    x, y = in_one_dtype(name, x, y, family=family)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    if x.size == 0 or y.size == 0:
        raise ValueError(
            f"{name}: inputs cannot be empty, got shapes {x.shape} and {y.shape}."
        )
    y = conj(y) if name == "correlate" else y
    swap = x.size < y.size
    x, y = (y, x) if swap else (x, y)
    y = flip(y) if name == "convolve" else y
    n = y.size
    paddings = {"valid": (0, 0), "same": (n // 2, n - n // 2 - 1), "full": (n - 1,) * 2}
    if mode not in paddings:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    result = conv_general_dilated(
        x[None, None], y[None, None], (1,), [paddings[mode]],
        precision=precision, preferred_element_type=dtype,
    )[0, 0]  # fmt: skip
    return flip(result) if name == "correlate" and swap else result


def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The convolution of two vectors.  JAX: `jnp.convolve`."""
    return slide("convolve", a, v, mode, precision, preferred_element_type)


def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The cross-correlation of two vectors.  JAX: `jnp.correlate`."""
    return slide("correlate", a, v, mode, precision, preferred_element_type)


def window(name, weight) -> Callable[[int], Array]:
    """The window function `name`: M weights, highest in the middle."""

    def function(M):
        M = static_int(M, f"the argument 'M' of jnp.{name}")
        dtype = dtypes.default_dtype("floating")
        return ones(M, dtype) if M <= 1 else weight(counting(M, dtype), M - 1)

    return named(function, name, f"The {name} window of M points.  JAX: `jnp.{name}`.")


bartlett = window("bartlett", lambda n, m: 1 - absolute(2 * n - m) / m)
hanning = window("hanning", lambda n, m: 0.5 * (1 - cos(2 * pi * n / m)))
hamming = window("hamming", lambda n, m: 0.54 - 0.46 * cos(2 * pi * n / m))
blackman = window(
    "blackman",
    lambda n, m: 0.42 - 0.5 * cos(2 * pi * n / m) + 0.08 * cos(4 * pi * n / m),
)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of M points.  JAX: `jnp.kaiser`."""

    def weight(n, m):
        distance = (n - 0.5 * m) / (0.5 * m)
        return i0(beta * sqrt(1 - distance**2)) / i0(beta)

    return window("kaiser", weight)(M)
