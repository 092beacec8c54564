"""Code motion: what is computed before a loop, or in place of a jump.

    def step(c, x):                         before = W @ W
      return tanh(c @ (W @ W)) + x, c       scan: tanh(c @ before) + x

Of a loop, what is dear is moved, a product, a sum or an exponential for example, what
is made of that, and what a product reads; and only if the result is no larger than what
it is made of: to read the result of a few operations from memory in each step may take
longer than to compute it.

    cond[branches=(zeros, f)] any x         select_n any 0.0 (f x)

Where each lane of a `vmap` decides for itself, a branch runs if some lane takes it; if
none does, zeros stand for its results.  To jump over a branch of a few small equations
saves less than it costs: kernels would end before the jump and begin anew behind it,
and each of them takes time to compile.
"""

import math
from dataclasses import replace

from ...trace.array import ShapedArray
from ...trace.jaxprs.jaxpr import (
    ClosedJaxpr, Literal, Var, dce, has_effect, needed_equations, subjaxprs,
)
from ...trace.primitives import ne_p, select_n_p
from ...transform.control_flow.branches import cond_p
from ...transform.control_flow.while_and_scan import scan_p, while_p
from ...transform.pieces import split
from ..lower.transforms import with_own_inputs
from ..lower.walk import fallbacks, row_of
from ..simplify.folding import loop_rules


def unchanging(jaxpr, consts, cheap, stays):
    """The results that are the same in every step, and computed before the loop.

    They are dear, or made of dear ones, or what a product or another total reads.  No
    result moves that is larger than what it is made of.

    Args:
      consts: the inputs of the body that no step changes.
      cheap: what costs fewer additions for each element is computed in each step.
      stays: whether an equation has to be where it is.
    """
    # variable: how many elements it has, or all together that it can be made of.
    least = {v: size_of(v) for v in (*jaxpr.constvars, *consts)}
    constant, dear, works, needed, summed = [], set(), set(), {*jaxpr.outvars}, set()
    for eqn in jaxpr.eqns:
        inputs = {v for v in eqn.invars if isinstance(v, Var)}
        if not inputs <= least.keys() or stays(eqn):
            needed |= inputs
            summed |= inputs if row_of(eqn).total else set()
            continue
        constant.append(eqn)
        size, row = sum(map(size_of, eqn.outvars)), row_of(eqn)
        made_of = sum(least[v] for v in inputs)
        if row.total or row.cost >= cheap:
            moves = size <= sum(map(size_of, eqn.invars))
        else:
            moves = size <= made_of and not dear.isdisjoint(inputs)
        dear.update(eqn.outvars if moves else ())
        done = size <= made_of and (row.cost or not works.isdisjoint(inputs))
        works.update(eqn.outvars if done else ())
        least |= dict.fromkeys(eqn.outvars, size if moves else min(size, made_of))
    found = []
    for eqn in reversed(constant):
        wanted = needed.intersection(eqn.outvars)
        if wanted and (wanted & dear or wanted & works & summed):
            found += eqn.outvars
        elif wanted:
            needed.update(eqn.invars)
    return found


def size_of(atom):
    return getattr(atom.aval, "size", 0)


def may_hang(eqn):
    """Whether an equation has an effect, or a loop that may never end."""
    inside = (eqn for jaxpr in subjaxprs(eqn) for eqn in jaxpr.eqns)
    return eqn.primitive is while_p or has_effect(eqn) or any(map(may_hang, inside))


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


def given_more(s, closed, count, args, stays=has_effect):
    """A body that is given what it need not repeat, and the atoms for that.

    Args:
      s: the `Simplifier`; count: how many inputs of the body no step changes, after
        which it has the new ones; args: atoms for them; stays: see `unchanging`.
    """
    jaxpr = closed.jaxpr
    consts, rest = split(jaxpr.invars, count)
    if not (early := unchanging(jaxpr, consts, s.settings.cheap, stays)):
        return closed, []
    eqns = tuple(e for e in jaxpr.eqns if not set(early).intersection(e.outvars))
    left = dce(jaxpr.replace(invars=(*consts, *early, *rest), eqns=eqns))
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    body = ClosedJaxpr(left, tuple(values[v] for v in left.constvars))
    return body, within(s, closed, args, early)


def moved_scan(s, args, params, avals):
    """The results of a scan, with what it need not repeat before it; or None.

    Args:
      s: the `Simplifier`; args: atoms; params, avals: of the scan and its results.
    """
    count = params["num_consts"]
    given, rest = split(args, count)
    # A scan whose number of steps is not known may have none.
    body, early = params["jaxpr"], []
    if params["length"]:
        body, early = given_more(s, body, count, given)
    changes = {"jaxpr": body, "num_consts": count + len(early)}
    if early:
        return s.emit(scan_p, [*given, *early, *rest], params | changes, avals)


def moved_while(s, args, params, avals):
    """The same of a while.  It may have no step, which few do; a test it always has.

    So a loop in its body that never ends may be one that never began.
    """
    names, found, changes = ("cond", "body"), [], {}
    counts = [params[f"{name}_nconsts"] for name in names]
    *given, carry = split(args, *counts)
    for name, count, own in zip(names, counts, given, strict=True):
        closed = params[f"{name}_jaxpr"]
        # What lanes borrow that wait is another lane's in each step.
        closed = replace(closed, jaxpr=with_own_inputs(closed.jaxpr))
        stays = may_hang if name == "body" else has_effect
        closed, early = given_more(s, closed, count, own, stays)
        found += [*own, *early]
        if early:
            count += len(early)
            changes |= {f"{name}_jaxpr": closed, f"{name}_nconsts": count}
    if changes:
        return s.emit(while_p, [*found, *carry], params | changes, avals)


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


loop_rules |= {scan_p: moved_scan, while_p: moved_while, cond_p: chosen_cond}
