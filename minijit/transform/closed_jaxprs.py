"""Closed jaxprs: record one, replay one, drop its dead equations."""

from ..trace.arguments import TraceInfo
from ..trace.core import set_trace
from ..trace.jaxprs.jaxpr import ClosedJaxpr, Jaxpr, JaxprTrace, dce, eval_jaxpr, unzip2


def trace_closed(f, avals, info, kind=JaxprTrace):
    """Record `f` on its own, outside of every trace: -> `ClosedJaxpr`."""
    trace = kind(None, info)
    arguments = [trace.argument(aval) for aval in avals]
    with set_trace(trace):
        outvars = tuple(map(trace.lift, f(*arguments)))
    return close(trace, outvars)


def close(trace, outvars):
    """A closed jaxpr of what a trace without parents recorded."""
    trace.over = True
    constvars, consts = unzip2(trace.constants.values())
    invars, eqns = tuple(trace.invars), tuple(trace.eqns)
    return ClosedJaxpr(Jaxpr(constvars, invars, eqns, outvars, trace.info), consts)


def apply_closed(closed, *args):
    """Replay a closed jaxpr into the current trace."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


# Params of a call that say something of its own arguments, not of those of a call that
# is made from it.
OF_ARGUMENTS = frozenset({"donated_invars", "keep_unused"})


def rebind(primitive, params, closed, args):
    """Bind a primitive that calls `params["jaxpr"]` so that it calls another jaxpr."""
    params = params | {"jaxpr": closed}
    kept = {name: x for name, x in params.items() if name not in OF_ARGUMENTS}
    return primitive.bind(*args, **kept)


def info_of(closed, kind):
    """What to call a jaxpr made from another one."""
    debug = closed.jaxpr.debug
    return TraceInfo(debug.name if debug else "jaxpr", kind, debug and debug.source)


def drop_dead(closed):
    """Dead code elimination of a closed jaxpr, its unused consts included."""
    jaxpr = dce(closed.jaxpr)
    values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return ClosedJaxpr(jaxpr, tuple(values[v] for v in jaxpr.constvars))


def present(values):
    """The values that are not None."""
    return [v for v in values if v is not None]


def fill(mask, values):
    """Put values where the mask is True and None elsewhere: undoes `present`."""
    values = iter(values)
    return [next(values) if m else None for m in mask]


def replaced(values, places, others):
    """Values with others at some places."""
    values = list(values)
    for i, x in zip(places, others, strict=True):
        values[i] = x
    return values


def completed(values, others):
    """Values with others, one after the other, in the place of each None."""
    others = iter(others)
    return [next(others) if x is None else x for x in values]
