"""Totals that no step of a loop changes: computed once, before it.

    def step(c, x):                         before = W @ W
      return tanh(c @ (W @ W)) + x, c       scan: tanh(c @ before) + x

Only what takes a loop itself is moved, a product or a sum for example, and only if its
result is no larger than what it is made of: to read the result of a few operations from
memory in each step may take longer than to compute it.
"""

from ...trace.jaxprs.jaxpr import ClosedJaxpr, Var, dce, has_effect, needed_equations
from ...transform.control_flow.while_and_scan import scan_p
from ...transform.pieces import split
from ..lower.walk import row_of
from ..simplify.folding import loop_rules


def unchanging(jaxpr, consts):
    """The results of totals that are the same in every step, where others need them.

    Args:
      consts: the inputs of the body that no step changes.
    """
    fixed, constant, needed = {*jaxpr.constvars, *consts}, [], {*jaxpr.outvars}
    for eqn in jaxpr.eqns:
        inputs = {v for v in eqn.invars if isinstance(v, Var)}
        if inputs and inputs <= fixed and not has_effect(eqn):
            fixed.update(eqn.outvars)
            constant.append(eqn)
        else:
            needed |= inputs
    found = []
    for eqn in reversed(constant):
        wanted = needed.intersection(eqn.outvars)
        if wanted and row_of(eqn).total and is_no_larger(eqn):
            found += eqn.outvars
        elif wanted:
            needed.update(eqn.invars)
    return found


def is_no_larger(eqn):
    """Whether the results of an equation have no more elements than its arguments."""
    given = sum(x.aval.size for x in eqn.invars)
    return sum(v.aval.size for v in eqn.outvars) <= given


def before_loop(s, closed, args, wanted):
    """The atoms for variables of a loop's body that are computed before the loop.

    Args:
      closed: the body; args: atoms for the first of its inputs, which no step changes.
    """
    jaxpr, source = closed.jaxpr, s.source
    env = dict(zip(jaxpr.invars, args, strict=False))
    pairs = zip(jaxpr.constvars, closed.consts, strict=True)
    env |= {v: s.constant(value, v.aval) for v, value in pairs}
    for eqn in needed_equations(jaxpr.eqns, wanted)[0]:
        s.source = eqn.source
        given = [env.get(x, x) for x in eqn.invars]
        avals = [v.aval for v in eqn.outvars]
        atoms = s.emit(eqn.primitive, given, eqn.params, avals)
        env.update(zip(eqn.outvars, atoms, strict=True))
    s.source = source
    return [env[v] for v in wanted]


def moved_scan(s, args, params, avals):
    """The results of a scan, with totals that it need not repeat before it; or None.

    Args:
      s: the `Simplifier`; args: atoms; params, avals: of the scan and its results.
    """
    closed, count = params["jaxpr"], params["num_consts"]
    jaxpr = closed.jaxpr
    # A scan whose number of steps is not known may have none.
    early = unchanging(jaxpr, jaxpr.invars[:count]) if params["length"] else ()
    if not early:
        return None
    (consts, rest), (given, inputs) = split(jaxpr.invars, count), split(args, count)
    eqns = tuple(e for e in jaxpr.eqns if not set(early).intersection(e.outvars))
    left = dce(jaxpr.replace(invars=(*consts, *early, *rest), eqns=eqns))
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    body = ClosedJaxpr(left, tuple(values[v] for v in left.constvars))
    changes = {"jaxpr": body, "num_consts": count + len(early)}
    args = [*given, *before_loop(s, closed, given, early), *inputs]
    return s.emit(scan_p, args, params | changes, avals)


loop_rules |= {scan_p: moved_scan}
