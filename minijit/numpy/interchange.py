"""Files, text and questions about dtypes."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..trace.dtypes import bfloat16
from ..trace.types import Array, ArrayLike, DTypeLike
from .core import bool_of
from .making import asarray


def can_cast(from_: DTypeLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether values of a dtype may become another.  JAX: `jnp.can_cast`."""
    return bool_of(np.can_cast(np.dtype(from_), np.dtype(to), casting))


def iterable(y: ArrayLike) -> bool:
    """Whether `for` can go over y.  JAX: `jnp.iterable`."""
    return bool_of(np.iterable(y)) and not (isinstance(y, Array) and y.ndim == 0)


def array_repr(
    arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """`repr` of an array.  JAX: `jnp.array_repr`."""
    return repr(asarray(arr))


def array_str(
    a: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """`str` of an array.  JAX: `jnp.array_str`."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file: Any, arr: ArrayLike, allow_pickle: Any = True) -> None:
    """Write an array to a .npy file.  JAX: `jnp.save`."""
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: Any = True, **kwds: Any) -> None:
    """Write arrays to an .npz file.  JAX: `jnp.savez`."""
    kwds = {name: np.asarray(x) for name, x in kwds.items()}
    np.savez(file, *map(np.asarray, args), allow_pickle=allow_pickle, **kwds)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array from a .npy file.  JAX: `jnp.load`."""
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray) and out.dtype == np.dtype("V2"):
        # A file has no name for bfloat16, only how many bytes its elements have.
        out = out.view(bfloat16.dtype)
    return asarray(out) if isinstance(out, np.ndarray) else out


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """Refused, as in JAX: a file may change while a program is remembered."""
    refuse("fromfile", "file")


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Refused, as in JAX: an iterator is used up by the first call."""
    refuse("fromiter", "iterable")


def refuse(name, what) -> NoReturn:
    """jnp.fromfile and jnp.fromiter: NotImplementedError, with what to do."""
    raise NotImplementedError(
        f"jnp.{name}() is not implemented because it may be non-pure and thus unsafe "
        "for use with JIT and other transformations. Instead: use "
        f"jnp.asarray(np.{name}(...)), which reads the {what} once, while a function "
        "is traced"
    )


printoptions = np.printoptions
set_printoptions, get_printoptions = np.set_printoptions, np.get_printoptions
