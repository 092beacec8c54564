"""Rolling up: rounds that a program writes out one after the other become a loop.

    for _ in range(10):          # 10 times the same 70 equations, in a row
        m = double_round(m)

    m = scan[length=10](m)       # once these 70, for `blocks`

Python unrolls its loops when it is traced, and a function of `jit` that is called ten
times may be inlined ten times.  Equations that repeat those a *period* before them,
with operands that are as far back, or that are the same, are the steps of a loop: what
a step uses of the one before it is its carry.  Code and the time to compile it then
grow with one round, not with all of them.
"""

from dataclasses import dataclass

import numpy as np

from ...trace.jaxprs.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_effect
from ...transform.control_flow.while_and_scan import scan_p
from ..simplify.folding import atom_key, freeze


# Equations that repeat fewer times stay as they are.
FEWEST = 3


@dataclass
class Rounds:
    """Equations that repeat: `count` steps of `period` equations, from `start` on."""

    start: int
    period: int
    count: int

    @property
    def end(self):
        return self.start + self.period * self.count


def longest_run(mask):
    """(where it begins, how long it is) of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.view("i1"), [0]))))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return 0, 0
    best = int(np.argmax(ends - begins))
    return int(begins[best]), int(ends[best] - begins[best])


def find_rounds(jaxpr):
    """The longest `Rounds` of a jaxpr, or None."""
    numbers, given = {}, {*jaxpr.constvars, *jaxpr.invars}
    same = lambda x: atom_key(x) if isinstance(x, Literal) or x in given else None
    kinds = []
    for eqn in jaxpr.eqns:
        # What changes in the first round only is not looked at yet.
        key = eqn.primitive, freeze(eqn.params), tuple(map(same, eqn.invars))
        kinds.append(numbers.setdefault(key, len(numbers)))
    kinds, best = np.array(kinds), (0, 0, 0)
    for period in range(1, len(kinds) // FEWEST + 1):
        begin, length = longest_run(kinds[period:] == kinds[:-period])
        if length > best[0] + period:
            best = length, begin, period
    length, begin, period = best
    if not length or length < period * (FEWEST - 1):
        return None
    numbered = enumerate(jaxpr.eqns)
    made = {v: (i, k) for i, e in numbered for k, v in enumerate(e.outvars)}
    alike = np.array([
        repeats(jaxpr.eqns, i, period, made)
        for i in range(begin + period, begin + period + length)
    ])  # fmt: skip
    first, length = longest_run(alike)
    # What repeats the step before it, and that step; cut where least is carried on.
    start, end = begin + first, begin + first + period + length
    if length < 2 * period:
        return None
    start += fewest_alive(jaxpr, start + period, period)
    return Rounds(start, period, (end - start) // period)


def fewest_alive(jaxpr, start, period):
    """How far behind `start`, within a period, fewest values are used later on.

    Of several such places it is one that has a whole round before it, if there is one.
    """
    last = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars
            if isinstance(v, Var)}  # fmt: skip
    last |= dict.fromkeys(jaxpr.outvars, len(jaxpr.eqns))
    crossing = np.zeros(len(jaxpr.eqns) + 2, int)
    for i, eqn in enumerate(jaxpr.eqns):
        for v in eqn.outvars:
            if v in last:
                crossing[i + 1] += 1
                crossing[last[v] + 1] -= 1
    alive = np.cumsum(crossing)[start : start + period]
    places = np.flatnonzero(alive == alive.min())
    whole = places[places + start >= 2 * period]
    return int(whole[0] if len(whole) else places[0])


def repeats(eqns, i, period, made):
    """Whether an equation does with its operands what one a period before did."""
    eqn, before = eqns[i], eqns[i - period]
    if has_effect(eqn):
        return False
    for x, y in zip(eqn.invars, before.invars, strict=True):
        known = {x, y} <= made.keys()
        alike = known and back(x, i, made) == back(y, i - period, made)
        if not (alike or x is y or same_literals(x, y)):
            return False
    return True


def same_literals(x, y):
    both = isinstance(x, Literal) and isinstance(y, Literal)
    return both and atom_key(x) == atom_key(y)


def back(var, i, made):
    """How far before equation i a variable is made, and as which of its results."""
    j, k = made[var]
    return i - j, k


def rolled(jaxpr):
    """A jaxpr with its longest rounds as one scan: -> (jaxpr, the scan) or None."""
    rounds = find_rounds(jaxpr)
    if rounds is None:
        return None
    eqns, start, period = jaxpr.eqns, rounds.start, rounds.period
    first, step, later = (eqns[max(i, 0) : i + period]
                          for i in (start - period, start, start + period))  # fmt: skip
    new = counterparts(step, later)
    given = dict.fromkeys(v for e in later for v in e.invars if isinstance(v, Var))
    carried = [v for v in given if v in new]
    consts = [v for v in given if v not in new and v not in new.values()]
    if not made_by(eqns[start:]).isdisjoint(consts):
        return None  # it reaches back two steps
    inits = values_before(first, later, new) if start >= period else None
    if inits is not None:
        # The first round, too: what it uses of the one before comes from outside.
        rounds = Rounds(start - period, period, rounds.count + 1)
    else:
        inits = dict(operands(later, step))
    inits = [inits[v] for v in carried]
    same = lambda a, b: (a.aval.shape, a.aval.dtype) == (b.aval.shape, b.aval.dtype)
    if not all(map(same, carried, inits)):
        return None
    final = counterparts(step, eqns[rounds.end - period : rounds.end])
    results = tuple(final[v] for v in carried)
    before, inside, after = (
        eqns[: rounds.start], eqns[rounds.start : rounds.end], eqns[rounds.end :]
    )  # fmt: skip
    used = {v for e in after for v in e.invars} | set(jaxpr.outvars)
    if not used & made_by(inside) <= set(results):
        return None
    closed = step_of(later, consts, carried, new, jaxpr.debug)
    params = dict(
        jaxpr=closed, length=rounds.count, reverse=False,
        num_consts=len(consts), num_carry=len(carried), unroll=1,
    )  # fmt: skip
    scan = Eqn(scan_p, (*consts, *inits), results, params, step[0].source)
    return jaxpr.replace(eqns=(*before, scan, *after)), scan


def made_by(eqns):
    return {v for eqn in eqns for v in eqn.outvars}


def counterparts(step, other):
    """{variable that a round makes: what another round has in its place}"""
    found = {}
    for eqn, same in zip(step, other, strict=True):
        found |= zip(eqn.outvars, same.outvars, strict=True)
    return found


def step_of(eqns, consts, carried, new, debug):
    """The jaxpr of one step: a round, as a function of its operands.

    Args:
      carried: what it uses of the round before; new: what becomes of that in it.
    """
    names = {v: Var(v.aval) for v in (*consts, *carried)}
    read = lambda x: names.get(x, x) if isinstance(x, Var) else x
    body = tuple(e.replace(invars=tuple(map(read, e.invars))) for e in eqns)
    outvars = tuple(new[v] for v in carried)
    return ClosedJaxpr(Jaxpr((), tuple(names.values()), body, outvars, debug), ())


def operands(later, step):
    """Pairs of operands at the same place, of equations and those they repeat."""
    for now, old in zip(later, step, strict=True):
        yield from zip(now.invars, old.invars, strict=True)


def values_before(first, later, new):
    """What a first round uses where later ones use what the round before them made.

    Args:
      first: equations; later: those of another round.
      new: {variable of the round before `later`: its counterpart there}.

    Returns:
      {variable of the round before `later`: what the first uses}, or None if `first` is
      no such round.
    """
    found, own = {}, {}
    for eqn, now in zip(first, later, strict=True):
        alike = eqn.primitive is now.primitive and len(eqn.invars) == len(now.invars)
        if not alike or freeze(eqn.params) != freeze(now.params):
            return None
        for x, y in zip(now.invars, eqn.invars, strict=True):
            if x in new and isinstance(y, Var):
                alike = found.setdefault(x, y) is y and y not in own.values()
            else:
                alike = own.get(x, x) is y or same_literals(x, y)
            if not alike:
                return None
        own |= zip(now.outvars, eqn.outvars, strict=True)
    return found

