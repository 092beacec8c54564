"""Functions of trees as functions of lists, under the names of `jax.api_util`."""

from ..trace.arguments import TraceInfo, function_name, function_source
from ..trace.array import ShapedArray, aval_of
from ..trace.base import names as _names
from ..trace.trees.pytree import tree_flatten, tree_unflatten
from ..trace.trees.tools import flatten_axes as flatten_axes
from ..transform.closed_jaxprs import replaced as _replaced
from .extend.linear_util import transformation_with_aux


@transformation_with_aux
def flatten_fun(in_tree, *args_flat):
    """A function of (args, kwargs) as one of leaves, and the tree of its result."""
    args, kwargs = tree_unflatten(in_tree, args_flat)
    result = yield args, kwargs
    yield tree_flatten(result)


@transformation_with_aux
def flatten_fun_nokwargs(in_tree, *args_flat):
    """A function of args as one of leaves, and the tree of its result."""
    result = yield tree_unflatten(in_tree, args_flat), {}
    yield tree_flatten(result)


def argnums_partial(f, dyn_argnums, args, require_static_args_hashable=True):
    """Fix all arguments but some: -> (function of those, those)."""
    del require_static_args_hashable
    chosen = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    chosen = tuple(i % len(args) for i in chosen)

    def call(*given, **kwargs):
        return f.call_wrapped(*_replaced(args, chosen, given), **kwargs)

    return f.wrap(call), tuple(args[i] for i in chosen)


def infer_argnums_and_argnames(sig, argnums, argnames):
    """Positions and names of the same parameters, where only one kind is given."""
    if argnums is None and argnames is None:
        return (), ()
    plain = [
        (i, name)
        for i, (name, p) in enumerate(sig.parameters.items())
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    chosen = argnums if argnums is None else tuple(_as_list(argnums))
    named = argnames if argnames is None else tuple(_as_list(argnames))
    if chosen is None:
        chosen = tuple(i for i, name in plain if name in named)
    elif named is None:
        named = tuple(name for i, name in plain if i in chosen)
    return chosen, named


def _as_list(x):
    return [x] if isinstance(x, (int, str)) else list(x)


def debug_info(traced_for, fun, args=(), kwargs=None, **more):
    """The name and the place of a function, for jaxprs."""
    del args, kwargs, more
    return TraceInfo(function_name(fun), traced_for, function_source(fun))


def safe_map(f, *lists):
    """A list of f's results; the lists must have one length."""
    return [f(*xs) for xs in zip(*lists, strict=True)]


def shaped_abstractify(x):
    """The type of a value, or of anything with a shape and a dtype."""
    if hasattr(x, "shape") and hasattr(x, "dtype") and not hasattr(x, "__array__"):
        return ShapedArray(tuple(x.shape), x.dtype, getattr(x, "weak_type", False))
    return aval_of(x)


_names.publish(globals(), """
    argnums_partial debug_info flatten_axes flatten_fun flatten_fun_nokwargs
    infer_argnums_and_argnames safe_map shaped_abstractify
""")
