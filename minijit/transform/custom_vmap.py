"""`custom_vmap`: a function that says itself what `vmap` makes of it.

    @custom_vmap
    def f(x, y):
        return x @ y

    @f.def_vmap
    def f_rule(axis_size, in_batched, x, y):
        x_batched, y_batched = in_batched
        ...                                 # arguments with lanes have them on axis 0
        return result, True                 # and whether the result has lanes

Outside of `vmap` it is the function.  Its derivatives are the function's: those of what
the rule does under `grad(vmap(f))`; under `vmap(grad(f))` the rule is not asked.
"""

from functools import partial

from ..trace.array import eval_rules, shape_rules
from ..trace.core import Primitive, current_trace
from ..trace.errors import at_line, user_source
from ..trace.jaxpr import (
    TraceInfo,
    eval_jaxpr,
    function_name,
    function_source,
    staging_rules,
)
from ..trace.pytree import tree_flatten, tree_map, tree_unflatten
from .batching import batch_rules, lanes_at, vmap_flat
from .control_flow import map_loop
from .custom import (
    CustomFunction,
    Rule,
    eval_custom,
    run,
    shape_of_custom,
    stage_call,
)
from .linearize import (
    FlatFunction,
    fill,
    finish_linear,
    joint_rules,
    jvp_flat,
    linearize_flat,
    linearize_rules,
    present,
)

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
        flat = FlatFunction(self.fun, in_tree)
        call = partial(self.apply_rule, in_tree, flat)
        rule = Rule(function_name(self.fun), function_source(self.fun), call)
        outs = custom_vmap_p.bind(*leaves, call=flat, rule=rule)
        return tree_unflatten(flat.out_tree, outs)

    def apply_rule(self, in_tree, flat, axis_size, batched, values):
        """The user's rule on flat lists: -> (results, one bool a result)."""
        if self.vmap_rule is None:
            self.no_rule("def_vmap")
        in_batched = tree_unflatten(in_tree, batched)
        args = tree_unflatten(in_tree, values)
        pair = self.vmap_rule(axis_size, list(in_batched), *args)
        name = f"the vmap rule {function_name(self.vmap_rule)}"
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"{name} of {function_name(self.fun)} must return a pair (result, "
                f"which leaves of it have lanes), but returned {pair!r}"
            )
        outs, tree = tree_flatten(pair[0])
        flat.out_tree = flat.out_tree or tree
        if tree != flat.out_tree:
            raise ValueError(
                f"{name} must return a result of the structure that "
                f"{function_name(self.fun)} returns, {flat.out_tree}, got {tree}"
                f"{at_line(user_source())}"
            )
        out_batched, spec = tree_flatten(pair[1])
        if spec != tree:
            raise ValueError(
                f"{name} must say for each leaf of its result whether it has lanes, in "
                f"the structure {tree}, got {spec}{at_line(user_source())}"
            )
        return outs, out_batched


def batch_by_rule(lanes, axes, *args, call, rule):
    """Ask the rule; what a recorded function captured must be the same in all lanes."""
    n = rule.captured
    if any(axis is not None for axis in axes[:n]):
        return vmap_flat(partial(run, call), lanes, args, axes)
    batched = [axis is not None for axis in axes[n:]]
    values = [
        x if axis is None else lanes_at(x, axis, 0, lanes.size)
        for x, axis in zip(args[n:], axes[n:], strict=True)
    ]
    outs, out_batched = rule.call(lanes.size, batched, values)
    return outs, [0 if b else None for b in out_batched]


def linearize_function(nonzero, *primals, call, rule):
    """The derivative of the function itself."""
    info = TraceInfo(rule.name, "custom_vmap", rule.source)
    outs, tangents, recorder = linearize_flat(
        partial(run, call), primals, nonzero, current_trace(), info
    )
    jaxpr, residuals = finish_linear(recorder, tangents)
    mask = [t is not None for t in tangents]

    def linear(*given):
        return fill(mask, eval_jaxpr(jaxpr, residuals, *present(given)))

    return outs, linear


def joint_function(primals, tangents, *, call, rule):
    return jvp_flat(partial(run, call), primals, tangents)


batch_rules |= {custom_vmap_p: batch_by_rule}
linearize_rules |= {custom_vmap_p: linearize_function}
joint_rules |= {custom_vmap_p: joint_function}


def sequential_vmap(fun):
    """A function that `vmap` runs lane by lane, in a loop: for what must not be
    widened (`jax.custom_batching.sequential_vmap`)."""
    wrapped = custom_vmap(fun)

    @wrapped.def_vmap
    def one_by_one(axis_size, in_batched, *args):
        leaves, tree = tree_flatten(args)
        batched = tree_flatten(in_batched)[0]
        moving = [x for x, b in zip(leaves, batched, strict=True) if b]

        def lane(values):
            values = iter(values)
            pairs = zip(leaves, batched, strict=True)
            full = [next(values) if b else x for x, b in pairs]
            return fun(*tree_unflatten(tree, full))

        result = map_loop(lane, moving)
        return result, tree_map(lambda _: True, result)

    return wrapped
