"""Rules for `vmap` of one's own, under the names of `jax.custom_batching`."""

from ..trace import calls, names as _names
from ..transform.custom_vmap import (
    custom_vmap as custom_vmap,
    sequential_vmap as sequential_vmap,
)

calls.explain_calls("custom_batching", globals(), results=["sequential_vmap"])

__all__ = _names.public_names(globals())
__dir__, __getattr__ = _names.front(__name__, __all__)
