"""Checkpointing under the names of `jax.ad_checkpoint`."""

from ..trace import calls
from ..transform.checkpoint import checkpoint as checkpoint, remat as remat
from ..transform.policies import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
)
from ..transform.residual_report import (
    print_saved_residuals as print_saved_residuals,
    saved_residuals as saved_residuals,
)

calls.publish(globals(), results=["checkpoint", "remat"])
