"""The types of public functions, in their annotations: arrays, and what passes for one.

    def scale(x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None) -> Array:

What the book's chapters build has few of them: there ideas come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    # Whose operators and methods, unlike those of `core.Array`, have types.
    from ..declared import Array as Array
else:
    from .core import Array as Array

# What functions take for an array.
ArrayLike: TypeAlias = (
    Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
)

# Functions of one and of two arrays, which are given by position.
Unary: TypeAlias = Callable[[ArrayLike], Array]
Binary: TypeAlias = Callable[[ArrayLike, ArrayLike], Array]


class SupportsDType(Protocol):
    """What has a dtype, such as jnp.float32."""

    @property
    def dtype(self) -> np.dtype[Any]: ...


# What functions take for a dtype: "float32", jnp.float32, np.dtype("f4"), float.
DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any] | SupportsDType

# What a function takes and gives back, in the type of another that is made of it.
Args = ParamSpec("Args")
Result = TypeVar("Result")
# What a decorator of classes gives back.
Class = TypeVar("Class", bound=type[Any])


class Traced(Generic[Args, Result]):
    """A function that says what was compiled of it, as lax.scan does."""

    traces: Any

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        raise NotImplementedError


Axis: TypeAlias = int | Sequence[int] | None
Shape: TypeAlias = Sequence[int]
# Any nest of containers, with arrays for leaves.
PyTree: TypeAlias = Any
