"""checkpoint: forget values in the forward pass and compute them again in the backward.

    f = checkpoint(f)                                  # keep the arguments only
    f = checkpoint(f, policy=dots_saveable)            # and the results of products
    f = checkpoint(f, budget_bytes=1 << 20)            # and what is dearest, in 1 MiB
    saved_residuals(f, x)                              # what is kept, and for whom

Between a function and its gradient stand the *residuals*: values that the forward
pass computed and the backward pass needs.  A checkpoint cuts the program between those
it keeps and those it does not; the backward pass starts by running the part after the
cut again.  That part is a slice of the jaxpr by whole equations (`slice_jaxpr`), and
together with the linear equations that follow it is one equation `checkpoint`.
"""

import heapq
import math
from dataclasses import dataclass
from functools import partial, reduce, wraps

import numpy as np

from ..trace import primitives as lax
from ..trace.array import aval_of, eval_rules, shape_rules
from ..trace.core import Primitive
from ..trace.errors import Source, at_line, on_behalf_of, user_source
from ..trace.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    TraceInfo,
    Var,
    argument_names,
    flattening,
    function_name,
    function_source,
    literal_value,
    memoised,
    needed_equations,
    trace_to_jaxpr,
)
from ..trace.jit import jit_p
from ..trace.pytree import tree_flatten, tree_unflatten
from .batching import (
    batch_rules,
    call_rule as batch_call,
    elementwise as batch_elementwise,
)
from .closed_jaxprs import apply_closed, drop_dead, fill, info_of, present, trace_closed
from .flat_functions import FlatFunction, check_callable
from .joint_calls import call_joint
from .linearize import joint_rules, linear_in_first, linearize_jaxpr, linearize_rules
from .tangents import tangent_aval
from .tape import Tape, Union
from .transpose import adding, call_transpose, transpose_rules

checkpoint_p = Primitive("checkpoint", multiple_results=True)
name_p = Primitive("name")


def shape_of_checkpoint(*avals, jaxpr, **params):
    return jaxpr.out_avals


def eval_checkpoint(*args, jaxpr, **params):
    return apply_closed(jaxpr, *args)


shape_rules |= {checkpoint_p: shape_of_checkpoint, name_p: lambda x, *, name: x}
eval_rules |= {checkpoint_p: eval_checkpoint, name_p: lambda x, *, name: lax.copy(x)}
linearize_rules |= linear_in_first(name_p)
transpose_rules |= adding({name_p: lambda ct, x, *, name: (ct,)})
batch_rules |= batch_elementwise(name_p)


def checkpoint_name(x, name):
    """Give a value a name that policies can refer to (`jax.ad_checkpoint`)."""
    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, [name_p.bind(leaf, name=name) for leaf in leaves])


# ---- policies: may this equation's results be saved?


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


def may_save(policy, eqn):
    """What a policy says of an equation's results.

    Raises TypeError for an answer that is none, say because the policy is a function
    that makes policies.
    """
    avals = [v.aval for v in eqn.invars]
    answer = policy(eqn.primitive, *avals, **eqn.params)
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


# ---- the users' function


def checkpoint(
    fun=None,
    *,
    policy=None,
    prevent_cse=True,
    static_argnums=(),
    budget_bytes=None,
    concrete=None,
):
    """A function whose residuals are computed again when needed (`jax.checkpoint`).

    Args:
      fun: function of arrays or trees of them; without it a decorator is returned.
      policy: which results of equations may be saved all the same: a function
        policy(primitive, *avals, **params) -> bool, such as `dots_saveable`; None
        saves the arguments only.
      prevent_cse: keep the compiler from merging the second computation with the
        first, which would save the values after all.
      static_argnums: positions of arguments that are no arrays.
      budget_bytes: save the values that are dearest to compute again, of at most so
        many bytes in all; `saved_residuals` says which.  Not together with `policy`.
      concrete: an option that JAX had once; raises NotImplementedError.
    """
    given = dict(locals())
    if given.pop("fun") is None:
        return partial(checkpoint, **given)
    policy = checked_policy(policy, budget_bytes, concrete)
    params = dict(policy=policy, prevent_cse=prevent_cse, differentiated=False)
    static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    return wraps(check_callable(fun))(partial(bind_checkpoint, fun, static, params))


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


def bind_checkpoint(fun, static, params, *args, **kwargs):
    """Record a function and bind the equation `checkpoint` to its arguments."""
    if any(not -len(args) <= i < len(args) for i in static):
        raise ValueError(
            f"checkpoint of {function_name(fun)} has static_argnums={tuple(static)}, "
            f"but was called with {len(args)} positional arguments"
            f"{at_line(user_source())}"
        )
    fixed = {i % len(args) for i in static}
    dynamic = [x for i, x in enumerate(args) if i not in fixed]

    def of_dynamic(values, kwargs):
        values = iter(values)
        full = [x if i in fixed else next(values) for i, x in enumerate(args)]
        return fun(*full, **kwargs)

    leaves, tree = tree_flatten((dynamic, kwargs))
    flat = FlatFunction(of_dynamic, tree)
    info = TraceInfo(function_name(fun), "checkpoint", function_source(fun))
    jaxpr, captured = trace_to_jaxpr(flat, list(map(aval_of, leaves)), info)
    invars = (*jaxpr.constvars, *jaxpr.invars)
    closed = ClosedJaxpr(jaxpr.replace(constvars=(), invars=invars))
    outs = checkpoint_p.bind(*captured, *leaves, jaxpr=closed, **params)
    return tree_unflatten(flat.out_tree, outs)


remat = checkpoint


# ---- rows of the checkpoint equation


@memoised
def inline_calls(closed):
    """The same jaxpr without calls of jitted functions: a cut must see all values."""
    jaxpr = closed.jaxpr
    while any(eqn.primitive is jit_p for eqn in jaxpr.eqns):
        closed = trace_closed(
            partial(apply_inlined, closed), closed.in_avals, info_of(closed, "inline")
        )
        jaxpr = closed.jaxpr
    return closed


def apply_inlined(closed, *args):
    """Replay a jaxpr, and the jaxprs it calls, in place of the calls."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env |= zip(closed.jaxpr.invars, args, strict=True)

    def read(atom):
        return env[atom] if isinstance(atom, Var) else literal_value(atom)

    for eqn in closed.jaxpr.eqns:
        values = map(read, eqn.invars)
        if eqn.primitive is jit_p:
            outs = apply_closed(eqn.params["jaxpr"], *values)
        else:
            with on_behalf_of(eqn.source):
                outs = eqn.primitive.bind(*values, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
        env |= zip(eqn.outvars, outs, strict=True)
    return [read(v) for v in closed.jaxpr.outvars]


@dataclass(frozen=True, eq=False)
class Cut:
    """A jaxpr cut in two for its derivative.

    Attributes:
      forward: inputs -> results, then the saved values.
      linear: the inputs it needs (`inputs`), saved values, nonzero tangents ->
        nonzero result tangents.  It computes again, and is linear in the tangents.
      inputs: positions of the inputs that `linear` needs.
      nonzero_out: one bool a result.
    """

    forward: ClosedJaxpr
    linear: ClosedJaxpr
    inputs: tuple
    nonzero_out: tuple


@memoised
def cut_jaxpr(closed, nonzero, policy):
    """Decide what to save, and cut: -> `Cut`."""
    n = len(closed.out_avals)
    parts = linearize_jaxpr(inline_calls(closed), nonzero, (False,) * n)
    forward = parts.forward.jaxpr
    residuals = [
        forward.invars[i] if kind == "in" else forward.outvars[n + i]
        for kind, i in parts.sources
    ]
    saved, renamed = choose_saved(forward, residuals, policy)
    given = (*forward.constvars, *forward.invars, *saved)
    again = without_names(forward.eqns, renamed, saved)
    residuals = [renamed.get(v, v) for v in residuals]
    eqns, needed = needed_equations(again, residuals, given)
    saved = [v for v in saved if v in needed]
    inputs = tuple(i for i, v in enumerate(forward.invars) if v in needed)
    linear = parts.linear.jaxpr
    substitute = dict(zip(linear.invars, residuals, strict=False))
    invars = (*[forward.invars[i] for i in inputs], *saved)
    joined = Jaxpr(
        (*forward.constvars, *linear.constvars),
        (*invars, *linear.invars[len(residuals) :]),
        (*eqns, *[rename_inputs(e, substitute) for e in linear.eqns]),
        tuple(rename_atom(v, substitute) for v in linear.outvars),
        linear.debug,
    )
    consts = (*parts.forward.consts, *parts.linear.consts)
    first = forward.replace(outvars=(*forward.outvars[:n], *saved))
    return Cut(
        drop_dead(ClosedJaxpr(first, parts.forward.consts)),
        drop_dead(ClosedJaxpr(joined, consts)),
        inputs,
        parts.nonzero_out,
    )


def rename_inputs(eqn, substitute):
    """An equation that reads other variables."""
    return eqn.replace(invars=tuple(rename_atom(v, substitute) for v in eqn.invars))


def rename_atom(atom, substitute):
    """What stands for an atom in a renamed program; literals stand for themselves."""
    return substitute.get(atom, atom) if isinstance(atom, Var) else atom


def choose_saved(forward, residuals, policy):
    """The variables to save, and {value: the name equation's result} of named ones.

    A saved name also supplies the value that it named.
    """
    if isinstance(policy, Budget):
        return within_budget(forward, residuals, policy.nbytes), {}
    saved, renamed = [], {}
    for eqn in forward.eqns:
        if policy is not None and may_save(policy, eqn):
            saved += eqn.outvars
            source = eqn.invars[0] if eqn.primitive is name_p else None
            if isinstance(source, Var):
                renamed[source] = eqn.outvars[0]
    return saved, renamed


def without_names(eqns, renamed, saved):
    """The equations that run again; they read saved names, not what was named."""
    saved = set(saved)
    return [
        rename_inputs(eqn, renamed) for eqn in eqns if not saved.issuperset(eqn.outvars)
    ]


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


def checkpoint_rule(nonzero, *args, jaxpr, policy, prevent_cse, differentiated):
    """Forward: the function and what is saved.  Backward: one equation `checkpoint`,
    which is marked: it computes again what was computed before."""
    cut = cut_jaxpr(jaxpr, nonzero, policy)
    n = len(jaxpr.out_avals)
    params = dict(policy=policy, prevent_cse=prevent_cse)
    first = params | dict(differentiated=differentiated)
    outs = checkpoint_p.bind(*args, jaxpr=cut.forward, **first)
    params |= dict(differentiated=True)
    kept = [args[i] for i in cut.inputs] + outs[n:]

    def linear(*tangents):
        out = checkpoint_p.bind(*kept, *present(tangents), jaxpr=cut.linear, **params)
        return fill(cut.nonzero_out, out)

    return outs[:n], linear


linearize_rules |= {checkpoint_p: checkpoint_rule}
joint_rules |= {checkpoint_p: partial(call_joint, checkpoint_p)}
transpose_rules |= {checkpoint_p: partial(call_transpose, checkpoint_p)}
batch_rules |= {checkpoint_p: partial(batch_call, checkpoint_p)}


# ---- what is kept


@dataclass(frozen=True)
class Residual:
    """A value held between the forward and the backward pass.

    Attributes:
      aval: its type.
      nbytes: how many bytes it holds; of a Union, at most.
      nbytes_per_step: how many bytes a Tape in it holds for each step of its loop.
      origin: what it is: an argument by name, a constant, or a primitive's result.
      source: the user's line that made it, or None.
      made_by: the primitive that made it, or None for inputs.
      used_by: the primitives of the backward pass that read it, at which lines.
      operations: about how many scalar operations it would take to compute it again.
    """

    aval: object
    nbytes: int
    nbytes_per_step: int
    origin: str
    source: Source | None
    made_by: str | None
    used_by: tuple
    operations: int

    def __str__(self):
        users = ", ".join(dict.fromkeys(str(use) for use in self.used_by))
        where = f" at {self.source}" if self.source else ""
        held = held_text(self.nbytes, self.nbytes_per_step)
        text = f"{self.aval} {self.origin}{where}: {held}, for {users}"
        return text + f", {self.operations} operations to redo" * bool(self.made_by)


class Residuals(list):
    """A list of `Residual`s that prints one a line, and the sum of their bytes."""

    @property
    def nbytes(self):
        return sum(r.nbytes for r in self)

    @property
    def nbytes_per_step(self):
        return sum(r.nbytes_per_step for r in self)

    def __repr__(self):
        total = held_text(self.nbytes, self.nbytes_per_step)
        return "\n".join([*map(str, self), f"{total} in all"])


def held_text(nbytes, per_step):
    """Bytes in words: `40 bytes`, `24 bytes a step`, or both."""
    once, steps = f"{nbytes} bytes", f"{per_step} bytes a step"
    if not per_step:
        return once
    return f"{once} and {steps}" if nbytes else steps


def bytes_held(aval):
    """How many bytes values of a type hold: -> (once, for each step of its loop).

    Of a Union the case that holds most counts, or all of them if all are there.  What
    a loop within a loop keeps, it keeps for each of its own steps.
    """
    if isinstance(aval, Tape):
        return 0, sum(bytes_held(aval.element))
    if isinstance(aval, Union):
        cases = [list(map(bytes_held, case)) for case in aval.cases]
        cases = [(sum(n for n, _ in case), sum(n for _, n in case)) for case in cases]
        if aval.every:
            return sum(n for n, _ in cases), sum(n for _, n in cases)
        return max(cases, key=sum)
    return aval.nbytes, 0


def saved_residuals(fun, *args, **kwargs):
    """What reverse mode of `fun` keeps between its two passes.

    Args:
      fun: the function to differentiate, by all its floating arguments.
      args, kwargs: its arguments, or anything with their shapes and dtypes.

    Returns:
      A list of `Residual`s.  (JAX: `jax.ad_checkpoint.saved_residuals`.)
    """
    leaves, tree = tree_flatten((args, kwargs))
    flat = FlatFunction(lambda args, kwargs: fun(*args, **kwargs), tree)
    info = TraceInfo(function_name(fun), "saved_residuals", function_source(fun))
    jaxpr, captured = trace_to_jaxpr(flat, list(map(aval_of, leaves)), info)
    closed = inline_calls(ClosedJaxpr(jaxpr, captured))
    nonzero = tuple(tangent_aval(a) is not None for a in closed.in_avals)
    parts = linearize_jaxpr(closed, nonzero, (False,) * len(closed.out_avals))
    return residuals_of(parts, residual_names(fun, args, kwargs))


def residuals_of(parts, names):
    """The `Residuals` of a `Linearized` jaxpr whose inputs have these names."""
    forward, linear = parts.forward.jaxpr, parts.linear.jaxpr
    made = {v: eqn for eqn in forward.eqns for v in eqn.outvars}
    inputs = dict(zip(forward.invars, names, strict=True))
    kept = parts.residuals(forward.invars, forward.outvars[len(parts.nonzero_out) :])
    users = uses(linear)
    found = Residuals()
    for var, atom in zip(linear.invars, kept, strict=False):
        eqn, cost = maker(made, atom), 0
        origin = f"the argument {inputs.get(atom)}"
        if eqn is not None:
            origin, cost = origin_of(eqn), work_again(forward, [atom], [])
        made_by = (eqn.source, eqn.primitive.name) if eqn else (None, None)
        used_by = tuple(users.get(var, ()))
        held = bytes_held(var.aval)
        found.append(Residual(var.aval, *held, origin, *made_by, used_by, cost))
    for var in linear.constvars:
        used_by = tuple(users.get(var, ()))
        held = bytes_held(var.aval)
        found.append(Residual(var.aval, *held, "a constant", None, None, used_by, 0))
    return found


def origin_of(eqn):
    """What an equation's results are called in the report."""
    if eqn.primitive is name_p:
        return f"named {eqn.params['name']!r}"
    return f"result of {eqn.primitive}"


def maker(made, atom):
    """The equation that makes a value; within a checkpoint, the one in it that does."""
    eqn = made.get(atom)
    while eqn is not None and eqn.primitive is checkpoint_p:
        inner = eqn.params["jaxpr"].jaxpr
        atom = inner.outvars[eqn.outvars.index(atom)]
        eqn = {v: e for e in inner.eqns for v in e.outvars}.get(atom)
    return eqn


def residual_names(fun, args, kwargs):
    """The names of the leaves of the arguments."""
    names = argument_names(fun, args, kwargs)
    values = [*args, *kwargs.values()]
    leaf_names = flattening["leaf_names"]
    pairs = list(zip(names, values, strict=True))
    ordered = pairs[: len(args)] + sorted(pairs[len(args) :], key=lambda pair: pair[0])
    return [leaf for name, value in ordered for leaf in leaf_names(name, value)]


def uses(jaxpr):
    """{variable: the equations that read it, as 'primitive at line'}"""
    found = {}
    for eqn in jaxpr.eqns:
        where = f"{eqn.primitive} at {eqn.source}" if eqn.source else str(eqn.primitive)
        for atom in eqn.invars:
            if isinstance(atom, Var):
                found.setdefault(atom, []).append(where)
    return found


def print_saved_residuals(fun, *args, **kwargs):
    """Print `saved_residuals` (`jax.ad_checkpoint.print_saved_residuals`)."""
    print(repr(saved_residuals(fun, *args, **kwargs)))
