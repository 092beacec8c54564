"""Types for annotations, under the names of `jax.typing`.

    def scale(x: ArrayLike, dtype: DTypeLike) -> Array: ...
"""

from typing import Any

import numpy as np

from .trace import names as _names
from .trace.core import Array

# What functions take for an array.
ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
# What functions take for a dtype: "float32", jnp.float32, np.dtype("f4"), float.
DTypeLike = str | type[Any] | np.dtype

__all__ = ["ArrayLike", "DTypeLike"]
__dir__, __getattr__ = _names.front(__name__, __all__)
