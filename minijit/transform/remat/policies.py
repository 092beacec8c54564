"""Policies: which values a checkpoint may keep, and names for them to refer to.

A policy is a function policy(primitive, *avals, **params) of an equation that says
whether its results may be saved.  A `Budget` looks at the whole program instead.
"""

import heapq
import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ...trace import primitives as lax
from ...trace.arguments import function_name
from ...trace.array import shape_rules
from ...trace.base.errors import at_line
from ...trace.core import Primitive, eval_rules
from ...trace.jaxprs.jaxpr import Var, needed_equations
from ...trace.trees.pytree import tree_flatten, tree_unflatten
from ..batching.vmap import batch_rules, elementwise as batch_elementwise
from ..derivatives.linearize import linear_in_first, linearize_rules
from ..derivatives.transpose import adding, transpose_rules

# ---- names

name_p = Primitive("name")
shape_rules |= {name_p: lambda x, *, name: x}
eval_rules |= {name_p: lambda x, *, name: lax.copy(x)}
linearize_rules |= linear_in_first(name_p)
transpose_rules |= adding({name_p: lambda ct, x, *, name: (ct,)})
batch_rules |= batch_elementwise(name_p)


def checkpoint_name(x, name):
    """Give a value a name that policies can refer to (`jax.ad_checkpoint`)."""
    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, [name_p.bind(leaf, name=name) for leaf in leaves])


# ---- policies


def everything_saveable(prim, *avals, **params):
    """Save every value: as if there were no checkpoint."""
    return True


def nothing_saveable(prim, *avals, **params):
    """Save the arguments only; what `policy=None` means."""
    return False


def dots_saveable(prim, *avals, **params):
    """Save the results of matrix products and convolutions."""
    return prim.name in ("dot_general", "conv_general_dilated")


def dots_with_no_batch_dims_saveable(prim, *avals, **params):
    """Save matrix products that have no batch axes: those with a weight matrix."""
    if prim is not lax.dot_general_p:
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


def save_only_these_names(*names):
    """Save the values that `checkpoint_name` gave one of these names."""
    chosen = frozenset(names)
    return lambda prim, *avals, **params: prim is name_p and params["name"] in chosen


def save_any_names_but_these(*names):
    """Save the values that have a name, but for these."""
    others = frozenset(names)
    return lambda prim, *avals, **params: (
        prim is name_p and params["name"] not in others
    )


def save_anything_except_these_names(*names):
    """Save every value, but for those with one of these names."""
    others = frozenset(names)
    return lambda prim, *avals, **params: (
        not (prim is name_p and params["name"] in others)
    )


def save_from_both_policies(first, second):
    """Save what either policy would."""
    return lambda prim, *avals, **params: (
        first(prim, *avals, **params) or second(prim, *avals, **params)
    )


@dataclass(frozen=True)
class Offloadable:
    """A policy's answer: save the value in another memory.

    The CPU has one memory, so that here the value is saved where it is.
    """

    src: str
    dst: str


@dataclass(frozen=True)
class Answer:
    """A policy's answer with a name: `Saveable` is True, `Recompute` is False."""

    name: str


Saveable, Recompute = Answer("Saveable"), Answer("Recompute")


def save_and_offload_only_these_names(
    *, names_which_can_be_saved, names_which_can_be_offloaded, offload_src, offload_dst
):
    """Save values with some names, and offload those with others (`Offloadable`)."""
    saved = frozenset(names_which_can_be_saved)
    offloaded = frozenset(names_which_can_be_offloaded)
    if saved & offloaded:
        raise ValueError(
            "save_and_offload_only_these_names: a name may be saved or offloaded, not "
            f"both, but got {sorted(saved & offloaded)} in both"
        )

    def policy(prim, *avals, **params):
        if prim is name_p and params["name"] in offloaded:
            return Offloadable(offload_src, offload_dst)
        return prim is name_p and params["name"] in saved

    return policy


def offload_dot_with_no_batch_dims(offload_src, offload_dst):
    """Offload matrix products that have no batch axes (`Offloadable`)."""
    return lambda prim, *avals, **params: (
        dots_with_no_batch_dims_saveable(prim, *avals, **params)
        and Offloadable(offload_src, offload_dst)
    )


class CheckpointPolicies:
    """The policies by JAX's names: `checkpoint_policies.dots_saveable`."""

    everything_saveable = staticmethod(everything_saveable)
    nothing_saveable = staticmethod(nothing_saveable)
    dots_saveable = checkpoint_dots = staticmethod(dots_saveable)
    dots_with_no_batch_dims_saveable = staticmethod(dots_with_no_batch_dims_saveable)
    checkpoint_dots_with_no_batch_dims = staticmethod(dots_with_no_batch_dims_saveable)
    save_only_these_names = staticmethod(save_only_these_names)
    save_any_names_but_these = staticmethod(save_any_names_but_these)
    save_anything_except_these_names = staticmethod(save_anything_except_these_names)
    save_from_both_policies = staticmethod(save_from_both_policies)
    offload_dot_with_no_batch_dims = staticmethod(offload_dot_with_no_batch_dims)
    save_and_offload_only_these_names = staticmethod(save_and_offload_only_these_names)


checkpoint_policies = CheckpointPolicies()


# ---- what a policy says


def may_save(policy, eqn):
    """What a policy says of an equation's results.

    Raises TypeError for an answer that is none, say because the policy is a function
    that makes policies.
    """
    answer = policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)
    if answer in (Saveable, Recompute):
        return answer == Saveable
    if isinstance(answer, (bool, np.bool_, Offloadable)):
        return bool(answer)
    raise TypeError(
        f"the policy of a checkpoint must say True or False (or Saveable, Recompute or "
        f"Offloadable of ad_checkpoint), but {function_name(policy)} said {answer!r} "
        f"of {eqn.primitive}{at_line(eqn.source)}"
    )


@dataclass(frozen=True)
class Budget:
    """A policy that looks at the whole program: the dearest values, within `nbytes`."""

    nbytes: int


def checked_policy(policy, budget_bytes, concrete):
    """The policy that the options of `checkpoint` stand for, or an error."""
    if concrete is not None:
        raise NotImplementedError(
            "checkpoint has no option `concrete` any more, as in JAX. Instead: name "
            "the arguments that Python must see with static_argnums."
        )
    if budget_bytes is None:
        if policy is None or callable(policy):
            return policy
        raise TypeError(
            "the policy of a checkpoint is a function, such as "
            f"checkpoint_policies.dots_saveable, not {policy!r}"
        )
    if policy is not None:
        raise ValueError("checkpoint takes a policy or budget_bytes, not both")
    return Budget(budget_bytes)


# ---- a budget of bytes: which values are dearest to compute again


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
        return 2 * math.prod(lhs[d] for d in contract) * eqn.outvars[0].aval.size
    return size * cost_of_element.get(eqn.primitive.name, 1)


# What one element costs, in multiplications; 1 unless it stands here.
cost_of_element = dict.fromkeys(("exp", "log", "sin", "cos", "pow", "logistic"), 10)
cost_of_element |= dict.fromkeys(("tanh", "erf", "erf_inv", "lgamma"), 15)
cost_of_element |= dict.fromkeys(("digamma", "trigamma"), 15)
cost_of_element |= {"div": 4, "sqrt": 4, "rsqrt": 4, "sort": 20}
