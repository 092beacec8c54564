"""Types for annotations, under the names of `jax.typing`.

    def scale(x: ArrayLike, dtype: DTypeLike) -> Array: ...
"""

from .trace.base import names as _names
from .trace.types import ArrayLike as ArrayLike, DTypeLike as DTypeLike

_names.publish(globals(), "ArrayLike DTypeLike")
