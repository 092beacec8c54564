"""Rules for `vmap` of one's own, under the names of `jax.custom_batching`."""

from ..trace.api import calls
from ..transform.custom.custom_vmap import (
    custom_vmap as custom_vmap, sequential_vmap as sequential_vmap,
)

calls.publish(globals(), results=["sequential_vmap"])
