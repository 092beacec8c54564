"""Forward mode through a call: one jaxpr for primals and tangents together.

By the rule for `linearize` a call becomes two, with residuals between them.  Forward
mode applies the linear one at once, so one call can do both and nothing is saved.
"""

from functools import partial

from ...trace.jaxprs.memory import memoised
from ...trace.jit.jit import jit_p
from ..closed_jaxprs import apply_closed, fill, info_of, present, rebind, trace_closed
from ..tangents import tangent_aval
from .linearize import instantiate_zeros, joint_rules, jvp_flat


@memoised
def jvp_jaxpr(closed, nonzero, instantiate):
    """The jaxpr of primals and tangents together.

    Returns:
      (closed jaxpr, nonzero_out): from inputs, then nonzero tangents, to results, then
      nonzero result tangents.
    """
    tangent_avals = [
        tangent_aval(aval)
        for aval, n in zip(closed.in_avals, nonzero, strict=True)
        if n
    ]
    nonzero_out = None

    def joint(*args):
        nonlocal nonzero_out
        primals = args[: len(nonzero)]
        tangents = fill(nonzero, args[len(nonzero) :])
        outs, out_tangents = jvp_flat(partial(apply_closed, closed), primals, tangents)
        out_tangents = instantiate_zeros(out_tangents, outs, instantiate)
        nonzero_out = tuple(t is not None for t in out_tangents)
        return [*outs, *present(out_tangents)]

    info = info_of(closed, "jvp")
    return trace_closed(joint, [*closed.in_avals, *tangent_avals], info), nonzero_out


def call_joint(primitive, primals, tangents, **params):
    """Forward mode through a call: one call, primals and tangents together."""
    closed = params["jaxpr"]
    n = len(closed.out_avals)
    nonzero = tuple(t is not None for t in tangents)
    joint, nonzero_out = jvp_jaxpr(closed, nonzero, (False,) * n)
    outs = rebind(primitive, params, joint, (*primals, *present(tangents)))
    return outs[:n], fill(nonzero_out, outs[n:])


joint_rules |= {jit_p: partial(call_joint, jit_p)}
