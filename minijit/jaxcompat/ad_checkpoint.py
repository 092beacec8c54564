"""Checkpointing under the names of `jax.ad_checkpoint`."""

from ..trace.api import calls
from ..transform.remat.checkpoint import checkpoint as checkpoint, remat as remat
from ..transform.remat.policies import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
)
from ..transform.remat.residual_report import (
    print_saved_residuals as print_saved_residuals,
    saved_residuals as saved_residuals,
)

calls.publish(globals(), results=["checkpoint", "remat"])
