"""What weights start from, under the names of `jax.nn.initializers`.

    init = glorot_normal()
    init(random.key(0), (64, 32))               # f32[64,32]
    init(random.key(0), (64, 32), jnp.bfloat16)

An initializer is a function (key, shape, dtype, out_sharding) -> array.  `zeros` and
`ones` are initializers themselves; the others are made by a function of their options.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .. import numpy as jnp, random
from ..numpy import arguments
from ..trace import dtypes
from ..trace.api import calls
from ..trace.base import names as _names
from ..trace.numpy_values import real_part
from ..trace.types import Array, ArrayLike, DTypeLike, Shape


@runtime_checkable
class Initializer(Protocol):
    """The type of initializers, for annotations."""

    def __call__(self, key, shape, dtype=None, out_sharding=None): ...


def placing(init):
    """An initializer with JAX's fourth argument, which says where the weights lie."""

    @functools.wraps(init)
    def call(key, shape, dtype=init.__defaults__[0], out_sharding=None):
        weights = init(key, shape, dtype)
        if out_sharding is None:
            return weights
        place: Any = jnp.asarray
        return place(weights, out_sharding=out_sharding)

    return call


def weight_dtype(dtype):
    """The dtype of weights: by default float32 (float64 with `enable_x64`)."""
    return dtypes.user_dtype(float if dtype is None else dtype, "initializer")


@placing
def zeros(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
    """Zeros, whatever the key."""
    return jnp.zeros(shape, weight_dtype(dtype))


@placing
def ones(key: ArrayLike, shape: Shape, dtype: DTypeLike | None = None) -> Array:
    """Ones, whatever the key."""
    return jnp.ones(shape, weight_dtype(dtype))


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Callable[..., Array]:
    """An initializer to one value, or to an array that broadcasts to the shape."""

    def init(key, shape, dtype=dtype):
        return jnp.full(shape, value, weight_dtype(dtype))

    return placing(init)


def uniform(
    scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None
) -> Callable[..., Array]:
    """An initializer to random numbers from [0, scale)."""

    def init(key, shape, dtype=dtype):
        dtype = weight_dtype(dtype)
        return random.uniform(key, shape, dtype) * jnp.array(scale, dtype)

    return placing(init)


def normal(
    stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None
) -> Callable[..., Array]:
    """An initializer to normal random numbers of mean 0."""

    def init(key, shape, dtype=dtype):
        dtype = weight_dtype(dtype)
        return random.normal(key, shape, dtype) * jnp.array(stddev, dtype)

    return placing(init)


def truncated_normal(
    stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None, lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Callable[..., Array]:
    """An initializer to normal random numbers, none beyond two bounds.

    Args:
      stddev: scales the numbers and the bounds.
    """

    def init(key, shape, dtype=dtype):
        dtype = weight_dtype(dtype)
        sample = random.truncated_normal(key, lower, upper, shape, dtype)
        return sample * jnp.array(stddev, dtype)

    return placing(init)


def fans(shape, in_axis, out_axis, batch_axis):
    """How many inputs a unit has, and how many outputs: -> (fan_in, fan_out).

    Axes that are none of those, as the window of a convolution, count for both.
    """
    if isinstance(in_axis, int) and in_axis == -2 and len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional "
            "weights tensor with default in_axis. Must be at least 2D or specify "
            "in_axis explicitly."
        )
    sizes = [
        math.prod(shape[i] for i in arguments.canonical_axes(axis, len(shape)))
        for axis in (in_axis, out_axis, batch_axis)
    ]
    if 0 in shape:
        raise ValueError(
            f"variance scaling initializer: no variance is right for the shape {shape}"
        )
    field = math.prod(shape) / math.prod(sizes)
    return sizes[0] * field, sizes[1] * field


denominators = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: (fan_in * fan_out) ** 0.5,
}


def scaled_truncated_normal(key, shape, dtype, variance):
    # The standard deviation of what is left of a bell curve between -2 and 2; and of
    # a complex one within a circle of radius 2.
    if dtypes.issubdtype(dtype, np.floating):
        stddev = jnp.sqrt(variance) / jnp.array(0.87962566103423978, dtype)
        return random.truncated_normal(key, -2, 2, shape, dtype) * stddev
    stddev = jnp.sqrt(variance) / jnp.array(0.95311164380491208, dtype)
    return complex_truncated_normal(key, 2, shape, dtype) * stddev


def scaled_uniform(key, shape, dtype, variance):
    if dtypes.issubdtype(dtype, np.floating):
        return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)
    return complex_uniform(key, shape, dtype) * jnp.sqrt(variance)


def scaled_normal(key, shape, dtype, variance):
    """Normal numbers of a variance."""
    return random.normal(key, shape, dtype) * jnp.sqrt(variance)


distributions = {
    "truncated_normal": scaled_truncated_normal,
    "normal": scaled_normal,
    "uniform": scaled_uniform,
}


def polar(key, shape, dtype, radius):
    """Complex numbers of random angle; `radius` makes their lengths from uniforms."""
    first, second = random.split(key)
    real = real_part(dtype)
    lengths = radius(random.uniform(first, shape, real)).astype(dtype)
    angles = 2 * np.pi * random.uniform(second, shape, real).astype(dtype)
    return lengths * jnp.exp(1j * angles)


def complex_uniform(key, shape, dtype):
    """Complex numbers of variance 1, uniform within a circle."""
    return polar(key, shape, dtype, lambda u: jnp.sqrt(2 * u))


def complex_truncated_normal(key, upper, shape, dtype):
    """Complex normal numbers of variance 1, none longer than `upper`."""
    share = 1 - np.exp(-(upper**2.0))
    return polar(key, shape, dtype, lambda u: jnp.sqrt(-jnp.log(1 - share * u)))


def variance_scaling(
    scale: ArrayLike, mode: str, distribution: str, in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1, batch_axis: int | Sequence[int] = (),
    dtype: DTypeLike | None = None,
) -> Callable[..., Array]:
    """An initializer whose variance is `scale` over a number of connections.

    Args:
      scale: a number.
      mode: which number: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
      distribution: "truncated_normal", "normal" or "uniform".
      in_axis, out_axis, batch_axis: the axes of the weights, an int or several, along
        which inputs, outputs and independent weights lie.

    Raises ValueError for another mode or distribution.
    """

    def init(key, shape, dtype=dtype):
        shape, dtype = arguments.canonicalize_shape(shape), weight_dtype(dtype)
        both = fans(shape, in_axis, out_axis, batch_axis)
        if mode not in denominators:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        if distribution not in distributions:
            raise ValueError(
                "invalid distribution for variance scaling initializer: "
                f"{distribution}"
            )
        variance = jnp.array(scale / denominators[mode](*both), dtype=dtype)
        return distributions[distribution](key, shape, dtype, variance)

    return placing(init)


def scaling(name, scale, mode, distribution) -> Callable[..., Callable[..., Array]]:
    """A function that makes one kind of `variance_scaling`."""

    def make(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
        axes = in_axis, out_axis, batch_axis
        return variance_scaling(scale, mode, distribution, *axes, dtype)

    numbers = distribution.replace("_", " ").capitalize()
    variances = {"fan_in": f"{scale:g} / fan_in"}
    variances["fan_avg"] = f"{2 * scale:g} / (fan_in + fan_out)"
    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"{numbers} numbers of variance {variances[mode]} initialise.  "
        "(in_axis, out_axis, batch_axis: see variance_scaling.)"
    )
    return make


glorot_uniform = scaling("glorot_uniform", 1.0, "fan_avg", "uniform")
glorot_normal = scaling("glorot_normal", 1.0, "fan_avg", "truncated_normal")
lecun_uniform = scaling("lecun_uniform", 1.0, "fan_in", "uniform")
lecun_normal = scaling("lecun_normal", 1.0, "fan_in", "truncated_normal")
he_uniform = scaling("he_uniform", 2.0, "fan_in", "uniform")
he_normal = scaling("he_normal", 2.0, "fan_in", "truncated_normal")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Callable[..., Array]:
    """An initializer to orthonormal columns, or rows if there are fewer of them.

    Args:
      scale: a factor.
      column_axis: the axis along which the columns lie; the others are one.
    """

    def init(key, shape, dtype=dtype):
        shape, dtype = arguments.canonicalize_shape(shape), weight_dtype(dtype)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        if 0 in shape:
            return jnp.zeros(shape, dtype)
        axis = arguments.canonical_axis(column_axis, len(shape))
        columns = shape[axis]
        rows = math.prod(shape) // columns
        matrix = random.orthogonal(key, rows, (), dtype, columns)
        rest = np.delete(shape, column_axis).tolist()
        weights = jnp.moveaxis(matrix.reshape(*rest, columns), -1, column_axis)
        return jnp.array(scale, dtype) * weights

    return placing(init)


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Callable[..., Array]:
    """An initializer of convolutions: zeros, and in the middle an orthogonal matrix.

    Raises ValueError unless the shape is (*window, fan_in, fan_out) with one to three
    axes of the window, and fan_in at most fan_out.
    """

    def init(key, shape, dtype=dtype):
        shape, dtype = arguments.canonicalize_shape(shape), weight_dtype(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError(
                "Delta orthogonal initializer requires a 3D, 4D or 5D shape."
            )
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, dtype).at[middle].set(matrix)

    return placing(init)


__all__ = """
    Initializer constant delta_orthogonal glorot_normal glorot_uniform he_normal
    he_uniform kaiming_normal kaiming_uniform lecun_normal lecun_uniform normal ones
    orthogonal truncated_normal uniform variance_scaling xavier_normal xavier_uniform
    zeros
""".split()
makers = {*__all__} - {"Initializer", "ones", "zeros"}
calls.explain_calls("nn.initializers", globals(), results=makers)
_names.front(globals(), __all__)
