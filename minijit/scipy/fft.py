"""Cosine transforms of type 2, under the names of `jax.scipy.fft`."""

import operator

import numpy as np

from .. import lax, numpy as jnp
from ..numpy.arguments import canonical_axes, canonical_axis, check_arraylike, named
from ..numpy.core import promote_args_inexact
from ..trace.api import calls


def checked(name, x, type, norm):
    check_arraylike(name, x)
    if type != 2:
        raise NotImplementedError("Only DCT type 2 is implemented.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"jax.scipy.fft.{name}: {norm=} is not implemented")
    return promote_args_inexact(name, x)[0]


def sized(x, n, axis):
    """x with zeros behind it, or cut, to the length n along an axis."""
    if n is None or n == x.shape[axis]:
        return x
    config = [(0, n - x.shape[d] if d == axis else 0, 0) for d in range(x.ndim)]
    return lax.pad(x, np.array(0, x.dtype), config)


def turns(n, dtype):
    """(e**(-i pi k / (2 n)), the factors of the norm "ortho"), k = 0 ... n - 1."""
    k = np.arange(n)
    complex_dtype = np.result_type(dtype, np.complex64)
    scale = np.sqrt(np.where(k == 0, 4 * n, 2 * n)).astype(dtype)
    return np.exp(-0.5j * np.pi * k / max(n, 1)).astype(complex_dtype), scale


def of_arrays(transform):
    """The transform of real rows, (rows, whether the norm is "ortho"), as a function
    of arrays; complex ones are transformed part by part."""
    name = transform.__name__

    def function(x, type=2, n=None, axis=-1, norm=None):
        x = checked(name, x, type, norm)
        if x.dtype.kind == "c":
            of_part = lambda part: function(part, type, n, axis, norm)
            return lax.complex(of_part(x.real), of_part(x.imag))
        axis = canonical_axis(axis, x.ndim)
        rows = jnp.moveaxis(sized(x, n, axis), axis, -1)
        return jnp.moveaxis(transform(rows, norm == "ortho"), -1, axis)

    return named(function, name, transform.__doc__)


@of_arrays
def dct(x, orthonormal):
    """2 sum_j x[j] cos(pi k (2 j + 1) / (2 n)); "ortho": orthonormal.

    Makhoul, 1980: a Fourier transform of the even elements and the odd ones backwards.
    """
    turn, scale = turns(x.shape[-1], x.dtype)
    v = jnp.concatenate([x[..., ::2], jnp.flip(x[..., 1::2], -1)], -1)
    out = 2 * (jnp.fft.fft(v) * turn).real
    return out / scale if orthonormal else out


@of_arrays
def idct(x, orthonormal):
    """The inverse of `dct`."""
    size = x.shape[-1]
    turn, scale = turns(size, x.dtype)
    # In the orthonormal basis, x[k] is the real part of half of a spectrum.
    x = x if orthonormal else x / scale
    v = jnp.fft.ifft(x / scale / turn * (2 * size)).real
    half = (size + 1) // 2
    out = jnp.zeros_like(v).at[..., ::2].set(v[..., :half])
    return out.at[..., 1::2].set(jnp.flip(v[..., half:], -1))


def each_axis(one):
    """The transform of several axes, made of that of one."""

    def function(x, type=2, s=None, axes=None, norm=None):
        x = checked(f"{one.__name__}n", x, type, norm)
        if s is not None:
            s = list(s) if np.iterable(s) else [operator.index(s)]
            if len(s) > x.ndim:
                raise ValueError(
                    f"s must have at most x.ndim ({x.ndim}) elements, got {len(s)}"
                )
        if axes is None:
            axes = range(x.ndim - (x.ndim if s is None else len(s)), x.ndim)
        axes = canonical_axes(tuple(axes) if np.iterable(axes) else axes, x.ndim)
        for axis, n in zip(axes, s or [None] * len(axes), strict=True):
            x = one(x, type, n, axis, norm)
        return x

    text = f"`{one.__name__}` along several axes, by default all."
    return named(function, f"{one.__name__}n", text)


dctn, idctn = each_axis(dct), each_axis(idct)

calls.publish(globals(), "dct dctn idct idctn")
