"""Checkpointing under the names of `jax.ad_checkpoint`."""

from .trace import calls
from .transform.checkpoint import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint as checkpoint,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
    print_saved_residuals as print_saved_residuals,
    remat as remat,
    saved_residuals as saved_residuals,
)

calls.explain_calls("ad_checkpoint", globals(), results=["checkpoint", "remat"])
