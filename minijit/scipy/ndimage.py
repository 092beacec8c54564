"""Images read between their pixels, under the name of `jax.scipy.ndimage`."""

import functools
import itertools
import operator

import numpy as np

from .. import lax, numpy as jnp
from ..trace.api import calls


def mirrored(index, size):
    """Index of an image that is continued by its mirror image, edges not twice."""
    last = size - 1
    return jnp.abs((index + last) % (2 * last) - last) if last else 0 * index


# How an image goes on outside: (index, size) -> an index inside.
continuations = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": mirrored,
    "reflect": lambda index, size: (mirrored(2 * index + 1, 2 * size + 1) - 1) // 2,
}


def rounded(x):
    """x to the nearest integer, halves away from zero."""
    return x if jnp.issubdtype(x.dtype, np.integer) else lax.round(x)


def neighbours(coordinate, order):
    """[(index, weight)] of the pixels that a coordinate lies between."""
    if order == 0:
        return [(rounded(coordinate).astype(np.int32), 1)]
    low = jnp.floor(coordinate)
    index, share = low.astype(np.int32), coordinate - low
    return [(index, 1 - share), (index + 1, share)]


def map_coordinates(input, coordinates, order, mode="constant", cval=0.0):
    """`input` at coordinates, one array of them for each of its axes.

    Args:
      order: 0: the nearest element, 1: linear between the neighbours.
      mode: how `input` goes on outside: "constant" (`cval`), "nearest", "wrap",
        "mirror" or "reflect".
    """
    input, coordinates = jnp.asarray(input), [jnp.asarray(c) for c in coordinates]
    if len(coordinates) != input.ndim:
        raise ValueError(
            "coordinates must be a sequence of length input.ndim, but "
            f"{len(coordinates)} != {input.ndim}"
        )
    if mode not in continuations:
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates does not yet support mode {mode}. "
            f"Currently supported modes are {set(continuations)}."
        )
    if order not in (0, 1):
        raise NotImplementedError(
            "jax.scipy.ndimage.map_coordinates currently requires order<=1"
        )
    cval = jnp.asarray(cval, input.dtype)
    parts = []
    choices = [neighbours(c, order) for c in coordinates]
    for corner in itertools.product(*choices):
        each = [(i, n) for (i, _), n in zip(corner, input.shape, strict=True)]
        value = input[tuple([continuations[mode](i, n) for i, n in each])]
        if mode == "constant":
            inside = [(i >= 0) & (i < n) for i, n in each]
            value = jnp.where(functools.reduce(operator.and_, inside), value, cval)
        parts.append(functools.reduce(operator.mul, [w for _, w in corner]) * value)
    result = functools.reduce(operator.add, parts)
    is_integer = jnp.issubdtype(input.dtype, np.integer)
    return (rounded(result) if is_integer else result).astype(input.dtype)


calls.publish(globals(), "map_coordinates")
