"""The types of public functions, in their annotations: arrays, and what passes for one.

    def scale(x: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None) -> Array:

Within the library functions go without: there ideas come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar,
)

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
# A function, in the type of one that takes the same arguments.
Function = TypeVar("Function", bound=Callable[..., Any])
# What a decorator of classes gives back.
Class = TypeVar("Class", bound=type[Any])


class Traced(Generic[Args, Result]):
    """A function that says what was compiled of it, as lax.scan does."""

    traces: Any

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        raise NotImplementedError


Axis: TypeAlias = int | Sequence[int] | None
Shape: TypeAlias = Sequence[int]
# Which positional arguments are meant.
Argnums: TypeAlias = int | Sequence[int]
# Any nest of containers, with arrays for leaves.
PyTree: TypeAlias = Any


class JitOptions(TypedDict, total=False):
    """What `jit` is told beside the function."""

    static_argnums: Argnums | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: Argnums | None
    donate_argnames: str | Sequence[str] | None
    inline: bool
    keep_unused: bool
    max_traces: int | None
    globals: str | None
    backend: str | None
    device: Any
    in_shardings: Any
    out_shardings: Any
    compiler_options: Any
