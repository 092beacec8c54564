"""`linear_call`: a linear function whose transpose is the user's own.

    f = lambda r, x: x / r
    y = linear_call(f, f, 3.0, x)     # x / 3; its transpose is f again
"""

from functools import partial

from .. import compiler as compiler
from ..compile.simplify.folding import inline_rules
from ..trace.array import aval_of, shape_rules
from ..trace.base.errors import HERE
from ..trace.core import Primitive, eval_rules
from ..trace.primitives import as_array
from ..trace.trees.pytree import tree_flatten, tree_map, tree_structure, tree_unflatten
from ..transform.batching.vmap import at_front, batch_jaxpr, batch_rules
from ..transform.derivatives.linearize import linearize_rules
from ..transform.derivatives.transpose import adding, transpose_rules
from ..transform.pieces import close_over, compiled, record, reorder, split
from ..transform.tangents import dense

linear_call_p = Primitive("linear_call", multiple_results=True)


def linear_call(fun, fun_transpose, residual_args, linear_args):
    """`fun(residual_args, linear_args)`, with a transpose of the user's own.

    Args:
      fun: a function of two trees, linear in the second one.
      fun_transpose: takes residual_args and a tree like the result of `fun`; returns a
        tree like linear_args.  Its own transpose is `fun`.
      residual_args, linear_args: trees of arrays.  There are no derivatives by what
        the functions capture, nor by residual_args.

    JAX: `jax.custom_derivatives.linear_call`.
    """
    residual_args, linear_args = tree_map(as_array, (residual_args, linear_args))
    avals, tree = tree_flatten(tree_map(aval_of, (residual_args, linear_args)))
    jaxpr, captured, out_tree = record(fun, avals, tree, "linear_call")
    out_avals = [v.aval for v in jaxpr.outvars]
    residual_avals = tree_map(aval_of, residual_args)
    back = tree_flatten((residual_avals, tree_unflatten(out_tree, out_avals)))
    other, others, back_tree = record(fun_transpose, *back, "linear_call")
    linear_tree = tree_structure(linear_args)
    if back_tree != linear_tree:
        raise TypeError(
            "transpose output pytree structure must match that of linear inputs, got "
            f"output structure {back_tree} and input structure {linear_tree}.{HERE}"
        )
    residuals, x = tree_flatten(residual_args)[0], tree_flatten(linear_args)[0]
    outs = bind(
        (close_over(jaxpr), close_over(other)), (captured, others), residuals, x
    )
    return tree_unflatten(out_tree, outs)


def bind(functions, captured, residuals, x):
    """The equation of a function and its transpose, of what each of them captured."""
    lengths = *map(len, captured), len(residuals)
    return linear_call_p.bind(
        *captured[0], *captured[1], *residuals, *x, functions=functions, lengths=lengths
    )


def call_eval(*args, functions, lengths):
    captured, _, residuals, x = split(args, *lengths)
    return compiled(functions[0])(*captured, *residuals, *x)


def call_linearize(nonzero, *args, functions, lengths):
    """It is its own derivative by what it is linear in."""
    *given, x = split(args, *lengths)
    if any(nonzero[: sum(lengths)]):
        raise NotImplementedError(
            "linear_call has no derivative by its residual arguments, nor by what its "
            f"functions capture{HERE}"
        )
    call = partial(bind, functions, given[:2], given[2])

    def linear(*tangents):
        return call(dense(tangents[sum(lengths) :], map(aval_of, x)))

    return call(x), linear


def call_transpose(cts, *args, functions, lengths):
    """The function and its transpose change places."""
    captured, others, residuals, _ = split(args, *lengths)
    cts = dense(cts, functions[0].out_avals)
    outs = bind(functions[::-1], (others, captured), residuals, cts)
    return [None] * sum(lengths) + outs


def call_batch(lanes, axes, *args, functions, lengths):
    """All linear arguments and results have lanes, the others where they had some."""
    *given, x = split(args, *lengths)
    of_f, of_transpose, of_residuals, x_axes = map(tuple, split(axes, *lengths))

    def with_lanes(closed, own):
        known = *own, *of_residuals
        of_linear = (0,) * (len(closed.in_avals) - len(known))
        outs = (0,) * len(closed.out_avals)
        return batch_jaxpr(closed, lanes, (*known, *of_linear), outs)[0]

    batched = tuple(map(with_lanes, functions, (of_f, of_transpose)))
    outs = bind(batched, given[:2], given[2], at_front(lanes, x, x_axes))
    return outs, [0] * len(outs)


def as_function(functions, lengths):
    """The function as one of all operands."""
    captured, rest = split(functions[0].jaxpr.invars, lengths[0])
    unused = functions[1].jaxpr.invars[: lengths[1]]
    return reorder(functions[0], [*captured, *unused, *rest])


shape_rules |= {linear_call_p: lambda *avals, functions, **_: functions[0].out_avals}
eval_rules |= {linear_call_p: call_eval}
linearize_rules |= {linear_call_p: call_linearize}
transpose_rules |= adding({linear_call_p: call_transpose})
batch_rules |= {linear_call_p: call_batch}
inline_rules |= {linear_call_p: as_function}
