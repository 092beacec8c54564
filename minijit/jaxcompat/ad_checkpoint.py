"""Checkpointing under the names of `jax.ad_checkpoint`."""

from .. import checkpoint as checkpoint, remat as remat
from ..trace.api import calls
from ..transform.remat.policies import (
    Offloadable as Offloadable, Recompute as Recompute, Saveable as Saveable,
    checkpoint_name as checkpoint_name, checkpoint_policies as checkpoint_policies,
)
from ..transform.remat.residual_report import (
    print_saved_residuals as print_saved_residuals, saved_residuals as saved_residuals,
)

calls.publish(globals(), results=["checkpoint", "remat"])


def residual_pairs(fun, *args, **kwargs):
    """`saved_residuals` as JAX's own tests ask for them: pairs (aval, what it is)."""
    ranks = {"a constant": 0, "the argument": 1}
    pairs = []
    for r in saved_residuals(fun, *args, **kwargs):
        rank = next((n for start, n in ranks.items() if r.origin.startswith(start)), 2)
        text = "from " * (rank < 2) + r.origin.replace("result of", "output of")
        pairs.append((rank, r.aval, text + f" from {r.source}" * (rank == 2)))
    return [pair for _, *pair in sorted(pairs, key=lambda pair: pair[::2])]
