"""Images of another size: `jax.image`.

    resize(photo, (64, 64, 3), "bilinear")

Along each axis the new pixels are sums of old ones, so that an image is multiplied by
one matrix of weights for each axis.
"""

import enum
import operator

import numpy as np

from . import lax, numpy as jnp
from .numpy import core
from .trace.api import calls


class ResizeMethod(enum.Enum):
    """How a new pixel is made of old ones."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s):
        """By its name, in small letters."""
        if s not in method_names:
            raise ValueError(f'Unknown resize method "{s}"')
        return method_names[s]


method_names = {
    **{m.name.lower().replace("_", "-"): m for m in ResizeMethod},
    **dict.fromkeys(["bilinear", "trilinear", "triangle"], ResizeMethod.LINEAR),
    **dict.fromkeys(["bicubic", "tricubic"], ResizeMethod.CUBIC),
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
}


def resize(image, shape, method, antialias=True, precision=lax.Precision.HIGHEST):
    """An image of another shape.

    Args:
      image: any number of axes, of which those are changed whose size differs.
      shape: of the result; method: a `ResizeMethod` or its name.
      antialias: when it shrinks, let each new pixel see all old ones that it replaces.
    """
    image, shape, method = checked(image, shape, method)
    if method is ResizeMethod.NEAREST:
        return nearest(image, shape)
    axes = [d for d, n in enumerate(shape) if n != image.shape[d]]
    if any(shape[d] and not image.shape[d] for d in axes):
        raise ValueError(f"resize: no pixels to take for {shape}, got {image.shape}")
    scale = [shape[d] / image.shape[d] if shape[d] else 1.0 for d in axes]
    return resampled(
        image, shape, axes, scale, [0.0] * len(axes), method, antialias, precision
    )


def scale_and_translate(
    image, shape, spatial_dims, scale, translation, method, antialias=True,
    precision=lax.Precision.HIGHEST,
):  # fmt: skip
    """An image drawn larger or smaller at another place, zero where there is none.

    Args:
      shape: of the result; spatial_dims: the axes that are changed.
      scale, translation: for each of these; position x goes to x * scale + translation.
      method: as in `resize`, but not the nearest pixel.
    """
    image, shape, method = checked(image, shape, method)
    if method is ResizeMethod.NEAREST:
        raise ValueError(
            "Nearest neighbor resampling is not currently supported for "
            "scale_and_translate."
        )
    scale, translation = core.promote_args_inexact(
        "scale_and_translate", scale, translation
    )
    return resampled(
        image, shape, spatial_dims, scale, translation, method, antialias, precision
    )


def checked(image, shape, method):
    """The arguments with an array, a tuple of ints and a `ResizeMethod`."""
    image, shape = jnp.asarray(image), tuple(map(operator.index, shape))
    if len(shape) != image.ndim:
        raise ValueError(
            "shape must have length equal to the number of dimensions of x;  "
            f"{shape} vs {image.shape}"
        )
    return image, shape, (
        ResizeMethod.from_string(method) if isinstance(method, str) else method
    )  # fmt: skip


def nearest(image, shape):
    """For each new pixel the old one that its middle is in."""
    for d, (old, new) in enumerate(zip(image.shape, shape, strict=True)):
        if old != new:
            middle = np.arange(new, dtype=np.float32) + np.float32(0.5)
            places = np.floor(middle * np.float32(old) / np.float32(new))
            image = jnp.take(image, places.astype(np.int32), axis=d)
    return image


def resampled(image, shape, axes, scale, shift, method, antialias, precision):
    """The image times a matrix of weights for each of some axes."""
    image, = core.promote_args_inexact("resize", image)
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    for d, s, t in zip(axes, scale, shift, strict=True):
        d = operator.index(d) % image.ndim if image.ndim else d
        w = weights(image.shape[d], shape[d], s, t, method, antialias)
        dims = (((d,), (0,)), ((), ()))
        image = lax.dot_general(image, w.astype(image.dtype), dims, precision)
        image = jnp.moveaxis(image, -1, d)
    return image


def weights(old, new, scale, shift, method, antialias):
    """[old, new]: the share of each old pixel in each new one."""
    dtype = jnp.result_type(scale, shift)
    inverse = 1 / scale
    start = jnp.arange(new, dtype=dtype) * inverse - shift * inverse
    # Where the middle of a new pixel is among the old ones.
    middle = start + 0.5 * inverse - 0.5
    radius, kernel = kernels[method]
    padded = method is ResizeMethod.CUBIC_PYTORCH
    beyond = radius if padded else 0
    places = jnp.arange(-beyond, old + beyond, dtype=dtype)[:, None]
    if kernel is None:
        top = jnp.minimum(start + inverse, places + 1)
        w = jnp.maximum(0, top - jnp.maximum(start, places))
    else:
        width = jnp.maximum(inverse, 1) if antialias else 1
        w = kernel(jnp.abs(middle - places) / width)
    if padded:
        # What lies beyond the image is like its first and last pixels.
        first = w[: beyond + 1].sum(0, keepdims=True)
        last = w[old + beyond - 1 :].sum(0, keepdims=True)
        inner = w[beyond + 1 : old + beyond - 1]
        w = jnp.concatenate([first, inner, last]) if old > 1 else (
            w.sum(0, keepdims=True)
        )  # fmt: skip
    total = w.sum(0, keepdims=True)
    enough = jnp.abs(total) > 1000 * np.finfo(np.float32).eps
    w = jnp.where(enough, w / jnp.where(total != 0, total, 1), 0)
    inside = padded | ((middle >= -0.5) & (middle <= old - 0.5))
    return jnp.where(inside, w, 0)


# ---- kernels: the weight of an old pixel at a distance


def triangle(x):
    return jnp.maximum(0, 1 - x)


def lanczos(radius):
    def kernel(x):
        y = radius * jnp.sin(np.pi * x) * jnp.sin(np.pi * x / radius)
        y = y / jnp.where(x != 0, np.pi**2 * x**2, 1)
        return jnp.where(x > radius, 0, jnp.where(x > 1e-3, y, 1))

    return kernel


def cubic(a):
    """Keys's kernel, by its slope at 1."""

    def kernel(x):
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x >= 2, 0, jnp.where(x >= 1, far, near))

    return kernel


# method -> (how far its kernel reaches, the kernel, or None for areas that overlap).
kernels = {
    ResizeMethod.LINEAR: (1, triangle),
    ResizeMethod.LANCZOS3: (3, lanczos(3.0)),
    ResizeMethod.LANCZOS5: (5, lanczos(5.0)),
    ResizeMethod.CUBIC: (2, cubic(-0.5)),
    ResizeMethod.CUBIC_PYTORCH: (2, cubic(-0.75)),
    ResizeMethod.AREA: (1, None),
}

calls.publish(globals(), "ResizeMethod resize scale_and_translate")
