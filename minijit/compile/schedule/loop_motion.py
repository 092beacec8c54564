"""Code motion: what is computed before a loop, or in place of a jump.

    def step(c, x):                         before = W @ W
      return tanh(c @ (W @ W)) + x, c       scan: tanh(c @ before) + x

Of a loop, only what is dear is moved, a product, a sum or an exponential for example,
and only if its result is no larger than what it is made of: to read the result of a few
operations from memory in each step may take longer than to compute it.

    cond[branches=(zeros, f)] any x         select_n any 0.0 (f x)

Where each lane of a `vmap` decides for itself, a branch runs if some lane takes it; if
none does, zeros stand for its results.  To jump over a branch of a few small equations
saves less than it costs: kernels would end before the jump and begin anew behind it,
and each of them takes time to compile.
"""

import math

from ...trace.array import ShapedArray
from ...trace.jaxprs.jaxpr import (
    ClosedJaxpr, Literal, Var, dce, has_effect, needed_equations, subjaxprs,
)
from ...trace.primitives import ne_p, select_n_p
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.while_and_scan import scan_p
from ...transform.pieces import split
from ..lower.walk import fallbacks, row_of
from ..simplify.folding import loop_rules


def unchanging(jaxpr, consts, cheap):
    """The dear results that are the same in every step, where others need them.

    Args:
      consts: the inputs of the body that no step changes.
      cheap: what costs fewer additions for each element is computed in each step.
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
        dear = wanted and (row_of(eqn).total or row_of(eqn).cost >= cheap)
        if dear and is_no_larger(eqn):
            found += eqn.outvars
        elif wanted:
            needed.update(eqn.invars)
    return found


def is_no_larger(eqn):
    """Whether the results of an equation have no more elements than its arguments."""
    given = sum(x.aval.size for x in eqn.invars)
    return sum(v.aval.size for v in eqn.outvars) <= given


def within(s, closed, args, wanted):
    """The atoms for what a body or a branch computes, without the loop or the jump.

    Args:
      closed: the body; args: atoms for the first of its inputs, all that is needed.
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
    return [env.get(x, x) for x in wanted]


def moved_scan(s, args, params, avals):
    """The results of a scan, with what it need not repeat before it; or None.

    Args:
      s: the `Simplifier`; args: atoms; params, avals: of the scan and its results.
    """
    closed, count = params["jaxpr"], params["num_consts"]
    jaxpr = closed.jaxpr
    # A scan whose number of steps is not known may have none.
    fixed, cheap = jaxpr.invars[:count], s.settings.cheap
    early = unchanging(jaxpr, fixed, cheap) if params["length"] else ()
    if not early:
        return None
    (consts, rest), (given, inputs) = split(jaxpr.invars, count), split(args, count)
    eqns = tuple(e for e in jaxpr.eqns if not set(early).intersection(e.outvars))
    left = dce(jaxpr.replace(invars=(*consts, *early, *rest), eqns=eqns))
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    body = ClosedJaxpr(left, tuple(values[v] for v in left.constvars))
    changes = {"jaxpr": body, "num_consts": count + len(early)}
    args = [*given, *within(s, closed, given, early), *inputs]
    return s.emit(scan_p, args, params | changes, avals)


def reads_nothing(closed):
    """Whether a branch makes its results of numbers that it has itself."""
    atoms = [x for eqn in closed.eqns for x in eqn.invars] + [*closed.jaxpr.outvars]
    return not {*closed.jaxpr.invars}.intersection(x for x in atoms if type(x) is Var)


def price(eqn):
    """What an equation costs, in additions of two numbers; infinite if it must wait."""
    atoms = *eqn.invars, *eqn.outvars
    waits = has_effect(eqn) or subjaxprs(eqn) or eqn.primitive in fallbacks
    if waits or not all(isinstance(x.aval, ShapedArray) for x in atoms):
        return math.inf
    row = row_of(eqn)
    sizes = [x.aval.size for x in (atoms if row.total else eqn.outvars)]
    return max(row.cost, not row.by_element) * max(sizes)


def is_short(closed, settings):
    """Whether a branch has few equations, which take no longer than a kernel."""
    eqns = closed.eqns
    if len(eqns) > settings.small_function:
        return False
    return sum(map(price, eqns)) * settings.copy_cost <= settings.kernel_cost


def chosen_cond(s, args, params, avals):
    """The results of a `cond` without the jump; or None where it stays.

    Args:
      s: the `Simplifier`; args: atoms; params, avals: of the cond and its results.
    """
    (index, *given), branches = args, params["branches"]
    arrays = all(isinstance(a, ShapedArray) for a in avals)
    if not (len(branches) == 2 and arrays and reads_nothing(branches[0])):
        return None
    if not all(is_short(b, s.settings) for b in branches):
        return None
    cases = [within(s, b, given, b.jaxpr.outvars) for b in branches]
    taken = s.apply(ne_p, index, Literal(index.aval.dtype.type(0), index.aval))
    pairs = zip(avals, *cases, strict=True)
    return [s.with_type(s.apply(select_n_p, taken, *xs), a) for a, *xs in pairs]


loop_rules |= {scan_p: moved_scan, cond_p: chosen_cond}
