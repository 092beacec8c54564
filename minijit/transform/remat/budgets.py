"""A budget of bytes for a checkpoint: which values are dearest to compute again."""

import heapq
import math
from functools import reduce

from ...trace import primitives as lax
from ...trace.jaxprs.jaxpr import Var, needed_equations


def within_budget(forward, residuals, nbytes):
    """Greedily save the value that spares most work for its bytes, while it fits.

    What each would spare is found out anew when so many have been saved as before: as
    often as their number has binary digits.
    """
    saved = []
    while chosen := dearest(forward, residuals, saved, nbytes):
        saved += chosen
        nbytes -= sum(v.aval.nbytes for v in chosen)
    return saved


def dearest(forward, residuals, saved, nbytes):
    """The next values to save, at most one more than there are: a list.

    A value spares the work of all that only it needs.  What is saved after it is worth
    nothing, and what stands before it less by what it spares: such a value goes back
    into the heap if it has come to be worth less than the next one.
    """
    above = dominators(forward, residuals, saved)
    spared = {node: 0 if isinstance(node, Var) else operations(node) for node in above}
    for node, over in reversed(above.items()):
        spared[over] = spared.get(over, 0) + spared[node]
    values = [v for eqn in forward.eqns for v in eqn.outvars if v in above]
    heap = [(-math.inf, i) for i, v in enumerate(values) if v.aval.nbytes]
    chosen = []
    while heap and len(chosen) <= len(saved):
        i = heapq.heappop(heap)[1]
        value, size = values[i], values[i].aval.nbytes
        worth = spared[value] / size
        if worth <= 0 or size > nbytes:
            continue
        if heap and -worth > heap[0][0]:
            heapq.heappush(heap, (-worth, i))
            continue
        path = [value]
        while (over := above[path[-1]]) is not None:
            path.append(over)
        if not any(v in path for v in chosen):
            chosen.append(value)
            nbytes -= size
            for node in reversed(path):
                spared[node] -= spared[value]
    return chosen


def dominators(forward, residuals, saved):
    """For each equation and value that is needed: the nearest that it serves alone.

    All that needs it needs it for that one; None is the backward pass.  Users come
    before what they use.
    """
    given = {*forward.constvars, *forward.invars, *saved}
    users = {v: [None] for v in residuals if isinstance(v, Var)}
    above, depth = {}, {None: 0}

    def meet(one, other):
        while one is not other:
            if depth[one] < depth[other]:
                one, other = other, one
            one = above[one]
        return one

    for eqn in reversed(forward.eqns):
        users[eqn] = [v for v in eqn.outvars if v in users and v not in given]
        for node in (*users[eqn], eqn) if users[eqn] else ():
            # From the deepest on, each next one is met near where the last was.
            ordered = sorted(users[node], key=depth.get, reverse=True)
            above[node] = reduce(meet, ordered)
            depth[node] = depth[above[node]] + 1
            for v in eqn.invars if node is eqn else ():
                users.setdefault(v, []).append(eqn)
    return above


def work_again(forward, residuals, saved):
    """How many operations it takes to compute the residuals from what is saved."""
    given = (*forward.constvars, *forward.invars, *saved)
    eqns, _ = needed_equations(forward.eqns, residuals, given)
    return sum(map(operations, eqns))


def operations(eqn):
    """About how many scalar operations an equation takes."""
    size = max((v.aval.size for v in (*eqn.invars, *eqn.outvars)), default=1)
    if eqn.primitive is lax.dot_general_p:
        (contract, _), _ = eqn.params["dimension_numbers"]
        lhs = eqn.invars[0].aval.shape
        inner = 1
        for d in contract:
            inner *= lhs[d]
        return 2 * inner * eqn.outvars[0].aval.size
    return size * cost_of_element.get(eqn.primitive.name, 1)


# What one element costs, in multiplications; 1 unless it stands here.
cost_of_element = dict.fromkeys(("exp", "log", "sin", "cos", "pow", "logistic"), 10)
cost_of_element |= dict.fromkeys(("tanh", "erf", "erf_inv", "lgamma", "digamma"), 15)
cost_of_element |= {"div": 4, "sqrt": 4, "rsqrt": 4, "sort": 20}
