"""Files, text and questions about dtypes."""

import numpy as np

from ..trace.core import Array
from ..trace.dtypes import bfloat16
from .core import bool_of
from .making import asarray


def can_cast(from_, to, casting="safe"):
    """Whether values of a dtype may become another.  JAX: `jnp.can_cast`."""
    return bool_of(np.can_cast(np.dtype(from_), np.dtype(to), casting))


def iterable(y):
    """Whether `for` can go over y.  JAX: `jnp.iterable`."""
    return bool_of(np.iterable(y)) and not (isinstance(y, Array) and y.ndim == 0)


def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    """`repr` of an array.  JAX: `jnp.array_repr`."""
    return repr(asarray(arr))


def array_str(a, max_line_width=None, precision=None, suppress_small=None):
    """`str` of an array.  JAX: `jnp.array_str`."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file, arr, allow_pickle=True):
    """Write an array to a .npy file.  JAX: `jnp.save`."""
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file, *args, allow_pickle=True, **kwds):
    """Write arrays to an .npz file.  JAX: `jnp.savez`."""
    kwds = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *map(np.asarray, args), allow_pickle=allow_pickle, **kwds)


def load(file, *args, **kwargs):
    """Read an array from a .npy file.  JAX: `jnp.load`."""
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray) and out.dtype == np.dtype("V2"):
        # A file has no name for bfloat16, only how many bytes its elements have.
        out = out.view(bfloat16.dtype)
    return asarray(out) if isinstance(out, np.ndarray) else out


def fromfile(*args, **kwargs):
    """Refused, as in JAX: a file may change while a program is remembered."""
    refuse("fromfile", "file")


def fromiter(*args, **kwargs):
    """Refused, as in JAX: an iterator is used up by the first call."""
    refuse("fromiter", "iterable")


def refuse(name, what):
    """jnp.fromfile and jnp.fromiter: NotImplementedError, with what to do."""
    raise NotImplementedError(
        f"jnp.{name}() is not implemented because it may be non-pure and thus unsafe "
        "for use with JIT and other transformations. Instead: use "
        f"jnp.asarray(np.{name}(...)), which reads the {what} once, while a function "
        "is traced"
    )


printoptions = np.printoptions
set_printoptions, get_printoptions = np.set_printoptions, np.get_printoptions
