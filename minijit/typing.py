"""Types for annotations, under the names of `jax.typing`.

    def scale(x: ArrayLike, dtype: DTypeLike) -> Array: ...
"""

from typing import Any, Protocol

import numpy as np

from . import Array
from .trace.base import names as _names

# What functions take for an array.
ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex


class _SupportsDType(Protocol):
    """What has a dtype, such as jnp.float32."""

    @property
    def dtype(self) -> np.dtype[Any]: ...


# What functions take for a dtype: "float32", jnp.float32, np.dtype("f4"), float.
DTypeLike = str | type[Any] | np.dtype[Any] | _SupportsDType

_names.publish(globals(), "ArrayLike DTypeLike")
