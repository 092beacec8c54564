"""`custom_vmap`: a function that says itself what `vmap` makes of it.

    @custom_vmap
    def f(x, y):
        return x @ y

    @f.def_vmap
    def f_rule(axis_size, in_batched, x, y):
        x_batched, y_batched = in_batched
        ...                                 # arguments with lanes have them on axis 0
        return result, True                 # and whether the result has lanes

Outside of `vmap` it is the function.  A derivative is that of what is computed: of the
function, and in lanes of what the rule computes, be it `grad(vmap(f))`, `vmap(grad(f))`
or `vmap` of a `jvp`.  (JAX has only forward mode for such functions.)
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import compress

from ...trace.arguments import TraceInfo, function_name, function_source
from ...trace.array import aval_of, shape_rules
from ...trace.base.errors import HERE
from ...trace.core import Array, Primitive, current_trace, eval_rules
from ...trace.jaxprs.jaxpr import staging_rules, trace_to_jaxpr
from ...trace.primitives import as_array
from ...trace.trees.pytree import tree_flatten, tree_map, tree_unflatten
from ..batching.vmap import batch_jaxpr, batch_rules, lane_types, lanes_at, vmap_flat
from ..closed_jaxprs import completed, fill, present
from ..control_flow.batching import in_front_where
from ..control_flow.more_loops import map_loop
from ..derivatives.linearize import (
    add_tangents, joint_rules, jvp_flat, linearize_flat, linearize_rules,
)
from ..derivatives.transpose import (
    Linear, backward, is_linear, transpose_jaxpr, transpose_rules,
)
from ..flat_functions import FlatFunction
from ..tangents import dense, has_tangent, tangent_aval
from .custom_derivatives import (
    Rule, eval_custom, push_of, run, shape_of_custom, stage_call,
)
from .rule_checks import CustomFunction

custom_vmap_p = Primitive("custom_vmap_call", multiple_results=True)

staging_rules |= {custom_vmap_p: stage_call}
shape_rules |= {custom_vmap_p: shape_of_custom}
eval_rules |= {custom_vmap_p: eval_custom}


class custom_vmap(CustomFunction):
    """A function with a vmap rule of its own (`jax.custom_batching.custom_vmap`).

    `def_vmap(rule)` sets rule(axis_size, in_batched, *args) -> (result, out_batched):
    in_batched says for each leaf of each argument whether it has lanes, which are then
    on axis 0; out_batched says so of the result.
    """

    vmap_rule = None

    def def_vmap(self, vmap_rule):
        """Set the rule; returns it, so it can decorate."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args, **kwargs):
        args = self.resolve(args, kwargs)
        leaves, in_tree = tree_flatten(args)
        leaves = [x if type(x) is bool else as_array(x) for x in leaves]
        flat = FlatFunction(self.fun, in_tree)
        call = partial(self.apply_rule, in_tree, flat)
        rule = Rule(function_name(self.fun), function_source(self.fun), call)
        outs = custom_vmap_p.bind(*leaves, call=flat, rule=rule)
        return tree_unflatten(flat.out_tree, outs)

    def apply_rule(self, in_tree, flat, axis_size, batched, values):
        """The user's rule on flat lists: -> (results, one bool a result)."""
        if self.vmap_rule is None:
            self.no_rule("batching rule defined for custom_vmap", "def_vmap")
        in_batched = tree_unflatten(in_tree, batched)
        args = tree_unflatten(in_tree, values)
        pair = self.vmap_rule(axis_size, list(in_batched), *args)
        name = f"custom vmap rule {function_name(self.vmap_rule)}"
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"{name} of {function_name(self.fun)} must return a pair (result, "
                f"which leaves of it have lanes), but returned {pair!r}"
            )
        outs, tree = tree_flatten(pair[0])
        flat.out_tree = flat.out_tree or tree
        if tree != flat.out_tree:
            raise ValueError(
                f"structure of output returned by {name} does not match that of "
                f"original custom-vmapped function {function_name(self.fun)}, "
                f"{flat.out_tree}, but is {tree}{HERE}"
            )
        out_batched, spec = tree_flatten(pair[1])
        if spec != tree:
            raise ValueError(
                "structure of output value and output batching specification returned "
                f"by {name} do not match: they are {tree} and {spec}{HERE}"
            )
        return outs, out_batched


@dataclass(frozen=True, eq=False)
class LaneRule(Rule):
    """The rule of a derivative of a function.

    Attributes:
      counts: one bool an argument: whether lanes of it are a reason to ask the rule.
        Lanes of tangents only are not: the function is at one point then.
    """

    counts: tuple = ()


def is_asked(rule, batched):
    """Whether it is for the rule to say what to do; `batched` is of its arguments."""
    if isinstance(rule, LaneRule):
        return any(b and c for b, c in zip(batched, rule.counts, strict=True))
    return any(batched)


def batch_by_rule(lanes, axes, *args, call, rule):
    """Ask the rule; what a recorded function captured must be the same in all lanes."""
    n = rule.captured
    batched = [axis is not None for axis in axes[n:]]
    if any(axis is not None for axis in axes[:n]):
        return vmap_flat(partial(run, call), lanes, args, axes)
    if not is_asked(rule, batched):
        return batch_beside_rule(lanes, axes, args, call, rule)
    values = in_front_where(lanes, args[n:], axes[n:], axes[n:])
    outs, out_batched = rule.call(lanes.size, batched, values)
    return outs, [0 if b else None for b in out_batched]


def derivative_of(push, call, rule, nonzero, with_results):
    """The function of primals and nonzero tangents that differentiates a function.

    Args:
      push: (f, primals, tangents) -> (results, tangents or None).
      call, rule: the function, and its vmap rule.
      nonzero: one bool an argument: whether it has a tangent.
      with_results: whether the results come in front of the tangents.

    Returns:
      (call, rule).  The rule differentiates what the given rule computes.
    """
    n = rule.captured

    def both(f, primals, tangents):
        outs, found = push(f, primals, tangents)
        avals = [tangent_aval(aval_of(y)) for y in outs]
        mask = [a is not None for a in avals]
        return outs, dense(compress(found, mask), present(avals)), mask

    def new_call(*values):
        primals, tangents = values[: len(nonzero)], values[len(nonzero) :]
        outs, found, _ = both(partial(run, call), primals, fill(nonzero, tangents))
        return [*outs, *found] if with_results else found

    def new_rule(size, batched, values):
        pairs = list(zip(values, batched, strict=True))
        k = len(nonzero) - n
        lanes = join_lanes(size, pairs[:k], fill(nonzero[n:], pairs[k:]))
        primals, tangents, moving = map(list, zip(*lanes, strict=True))
        out_batched = None

        def f(*primals):
            nonlocal out_batched
            outs, out_batched = rule.call(size, moving, list(primals))
            return outs

        outs, found, mask = both(f, primals, tangents)
        of_tangents = [b for b, m in zip(out_batched, mask, strict=True) if m]
        if with_results:
            return [*outs, *found], [*out_batched, *of_tangents]
        return found, of_tangents

    counts = (*counts_of(rule, len(nonzero) - n), *[False] * sum(nonzero))
    return new_call, LaneRule(rule.name, rule.source, new_rule, n, counts)


def counts_of(rule, count):
    """Whether lanes of each of the arguments are a reason to ask a rule."""
    return rule.counts if isinstance(rule, LaneRule) else (True,) * count


def join_lanes(size, primals, tangents):
    """Pairs (value, whether it has lanes): -> [(primal, tangent, whether they have)].

    If one of the two has lanes, the other one gets them too.
    """
    joined = []
    for (x, x_batched), pair in zip(primals, tangents, strict=True):
        t, t_batched = (None, False) if pair is None else pair
        batched = x_batched or t_batched
        if batched and not x_batched:
            x = lanes_at(x, None, 0, size)
        if batched and t is not None and not t_batched:
            t = lanes_at(t, None, 0, size)
        joined.append((x, t, batched))
    return joined


def push_forward(info, f, primals, tangents):
    """Tangents of results, by equations that are linear in the tangents."""
    nonzero = [t is not None for t in tangents]
    outs, linear = linearize_plainly(info, nonzero, primals, f)
    return outs, linear(*tangents)


def linearize_function(nonzero, *primals, call, rule):
    """The function again, and a linear one that `vmap` asks a rule for as well.

    The derivative by what a recorded function captured is only the function's.
    """
    info = TraceInfo(rule.name, "custom_vmap", rule.source)
    if any(nonzero[: rule.captured]):
        return linearize_plainly(info, nonzero, primals, partial(run, call))
    outs = custom_vmap_p.bind(*primals, call=call, rule=rule)
    mask = list(map(has_tangent, outs))
    push = partial(push_forward, info)
    tangent_call, tangent_rule = derivative_of(push, call, rule, nonzero, False)

    def linear(*tangents):
        given = (*primals, *present(tangents))
        return fill(
            mask, custom_vmap_p.bind(*given, call=tangent_call, rule=tangent_rule)
        )

    return outs, linear


def linearize_plainly(info, nonzero, primals, f):
    """The derivative of the function itself."""
    here = current_trace()
    outs, tangents, recorder = linearize_flat(f, primals, nonzero, here, info)
    return outs, push_of(recorder, tangents)


def joint_function(primals, tangents, *, call, rule):
    """Forward mode: one function of primals and tangents, with a rule of its own."""
    nonzero = [t is not None for t in tangents]
    if any(nonzero[: rule.captured]):
        return jvp_flat(partial(run, call), primals, tangents)
    new_call, new_rule = derivative_of(jvp_flat, call, rule, nonzero, True)
    given = (*primals, *present(tangents))
    results = custom_vmap_p.bind(*given, call=new_call, rule=new_rule)
    count = number_of_results(results)
    outs = results[:count]
    mask = list(map(has_tangent, outs))
    return outs, fill(mask, results[count:])


def number_of_results(results):
    """How many of these are results; one tangent follows for each that has any."""
    for count in range(len(results) + 1):
        if count + sum(map(has_tangent, results[:count])) == len(results):
            return count
    raise AssertionError("results and tangents do not fit together")


def transpose_function(cts, accs, *args, call, rule):
    """The transpose of a linear function, with a rule: the transpose of its rule."""
    linear = tuple(map(is_linear, args))
    nonzero, every = tuple(ct is not None for ct in cts), (True,) * len(args)
    none = (False,) * len(args)
    transposed, _ = transpose_jaxpr(call, linear, nonzero, none, every)
    n, given = rule.captured, args[rule.captured :]
    in_lanes = partial(transpose_in_lanes, rule, given, nonzero)
    pairs = zip(given, counts_of(rule, len(given)), strict=True)
    counts = (*[c for x, c in pairs if not is_linear(x)], *[False] * sum(nonzero))
    new_rule = LaneRule(rule.name, rule.source, in_lanes, n, counts)
    known = [x for x in args if not is_linear(x)]
    new = custom_vmap_p.bind(*known, *present(cts), call=transposed, rule=new_rule)
    return list(map(add_tangents, accs, fill(linear, new)))


def transpose_in_lanes(rule, args, nonzero, size, batched, values):
    """The transpose of what a rule does, in all lanes.

    Args:
      args: of the linear function: `Linear` where it is linear.
      nonzero: one bool a result: whether it has a cotangent.
      size, batched, values: as a rule is given them: known arguments and cotangents.
    """
    known = [not is_linear(x) for x in args]
    k = sum(known)
    flags = [True if b is None else b for b in fill(known, batched[:k])]
    cts = [
        lanes_at(ct, 0 if b else None, 0, size)
        for ct, b in zip(values[k:], batched[k:], strict=True)
    ]
    lanes = [x.aval for x in args if is_linear(x)]
    avals = [lane_types[type(aval)].many(aval, size, 0) for aval in lanes]

    def of_tangents(*tangents):
        full = completed(fill(known, values[:k]), tangents)
        outs, out_batched = rule.call(size, flags, full)
        rows = zip(outs, out_batched, nonzero, strict=True)
        return [lanes_at(y, 0 if b else None, 0, size) for y, b, nz in rows if nz]

    info = TraceInfo(rule.name, "transpose of custom_vmap", rule.source)
    jaxpr, captured = trace_to_jaxpr(of_tangents, avals, info)
    outs = backward(jaxpr, captured, list(map(Linear, avals)), cts)
    return dense(outs, avals), [True] * len(outs)


class OneLane(Array):
    """Stands for one lane of a value where only its type matters."""

    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval


def batch_beside_rule(lanes, axes, args, call, rule):
    """The function in lanes that are none of the rule's; an outer `vmap` may ask it.

    It is then asked once, and what it computes is done in these lanes as well.
    """
    rows = [(x, aval_of(x), axis) for x, axis in zip(args, axes, strict=True)]
    one_lane = [
        x if axis is None else OneLane(lane_types[type(aval)].one(aval, axis))
        for x, aval, axis in rows
    ]
    given, params = stage_call(one_lane, dict(call=call, rule=rule))
    closed, rule = params["call"], params["rule"]
    args = (*given[: len(given) - len(args)], *args)
    axes = (*[None] * (len(args) - len(axes)), *axes)
    found = batch_jaxpr(closed, lanes, axes, ("any",) * len(closed.out_avals))[1]
    wanted = tuple(None if axis is None else 0 for axis in found)
    many, _ = batch_jaxpr(closed, lanes, axes, wanted)

    def in_both(size, batched, values):
        flags = None

        def f(*values):
            nonlocal flags
            outs, flags = rule.call(size, batched, list(values))
            return outs

        pairs = zip(axes[rule.captured :], batched, strict=True)
        inner = [None if axis is None else axis + b for axis, b in pairs]
        outs, places = vmap_flat(f, lanes, values, inner)
        rows = zip(outs, places, wanted, flags, strict=True)
        return [
            y if target is None else lanes_at(y, place, int(b), lanes.size)
            for y, place, target, b in rows
        ], flags

    outs = custom_vmap_p.bind(*args, call=many, rule=replace(rule, call=in_both))
    return outs, list(wanted)


batch_rules |= {custom_vmap_p: batch_by_rule}
linearize_rules |= {custom_vmap_p: linearize_function}
joint_rules |= {custom_vmap_p: joint_function}
transpose_rules |= {custom_vmap_p: transpose_function}


def sequential_vmap(fun):
    """A function that `vmap` runs lane by lane, in a loop: for what must not be
    widened (`jax.custom_batching.sequential_vmap`)."""
    wrapped = custom_vmap(fun)

    @wrapped.def_vmap
    def one_by_one(axis_size, in_batched, *args):
        leaves, tree = tree_flatten(args)
        batched = tree_flatten(in_batched)[0]
        shared = [None if b else x for x, b in zip(leaves, batched, strict=True)]

        def lane(values):
            return fun(*tree_unflatten(tree, completed(shared, values)))

        result = map_loop(lane, list(compress(leaves, batched)))
        return result, tree_map(lambda _: True, result)

    return wrapped
