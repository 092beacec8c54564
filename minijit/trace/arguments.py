"""The functions that are traced, and their arguments: names, places, types.

    function_name(f), function_source(f)       "f", <notebook cell>:1 (f)
    argument_names(f, (1.0, 2.0), {})          ["x", "y"] for def f(x, y)
    leaf_avals([1.0], ["x"], f)                the types, or an error that names `x`
"""

import functools
import inspect
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from . import dtypes
from .array import ShapedArray, aval_of, is_array_like
from .base.config import config
from .base.errors import HERE, Source, abridged


@dataclass(frozen=True)
class TraceInfo:
    """What is being traced: for error messages and for the names of calls.

    Attributes:
      name: the function's name.
      kind: for which transformation (`jit`, `make_jaxpr`, `scan`, ...).
      source: where the function is defined, or None.
      arg_names: one name an argument leaf, such as `params['w']`.
      arrays_stay: ids of arrays without axes that are to be no literals.
    """

    name: str
    kind: str
    source: Source | None = None
    arg_names: tuple = ()
    arrays_stay: Collection = field(default=(), compare=False, repr=False)

    def is_literal(self, value, aval):
        """Whether a value of a type is written into the program: scalars mostly are."""
        return is_scalar(aval) and id(value) not in self.arrays_stay


def function_source(function):
    """Where a Python function is defined, or None for other callables."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return code and Source(code.co_filename, code.co_firstlineno, function.__name__)


def function_name(function):
    """The name under which a function is printed and reported."""
    while isinstance(function, functools.partial):
        function = getattr(function, "__wrapped__", function.func)
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def wraps(function):
    """`functools.wraps` of any callable: what no function could have is not copied."""
    kinds = {"__name__": str, "__qualname__": str, "__annotations__": dict}
    names = [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if isinstance(getattr(function, name, None), kinds.get(name, object))
    ]
    return functools.wraps(function, assigned=names)


def argument_names(function, args, kwargs):
    """The parameter's name for each positional argument, then the keywords."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return [f"args[{i}]" for i in range(len(args))] + list(kwargs)
    names = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(len(args) - len(names))]
        elif parameter.kind is not parameter.VAR_KEYWORD and len(names) < len(args):
            names.append(name)
    return names + list(kwargs)


def is_argument(x):
    """Whether a traced function takes `x`: it has a dtype that arrays may have."""
    dtype = getattr(x, "dtype", None) if hasattr(x, "shape") else None
    if isinstance(dtype, np.dtype):
        known = dtype in dtypes.dtype_names or dtype == dtypes.float0
        return known or dtypes.carried_type(dtype) is not None
    return is_array_like(x) or dtype is not None


def leaf_avals(leaves, names, function):
    """The avals of flat arguments; anything that is no array is an error."""
    avals = []
    for leaf, name in zip(leaves, names, strict=True):
        if not is_argument(leaf):
            raise TypeError(
                f"Error interpreting argument to {function_name(function)} as an "
                f"abstract array. The problematic value is of type {type(leaf)} and "
                f"was passed to the function at path {name}: {abridged(leaf)}{HERE}\n"
                "  Instead: pass arrays and numbers; what is neither must be static "
                "(static_argnums or static_argnames)."
            )
        avals.append(aval_of(leaf) if is_array_like(leaf) else aval_like(leaf))
    return avals


def aval_like(x):
    """The aval of something that only has a shape and a dtype."""
    weak_type = getattr(x, "weak_type", False)
    return whole_type(ShapedArray(tuple(x.shape), dtypes.as_dtype(x.dtype), weak_type))


def whole_type(aval):
    """The aval of a shape and a dtype, which may be all that is known of a tape."""
    return dtypes.carried_type(aval.dtype) or aval


# ---- what `make_jaxpr` makes of arguments


def flatten_flat(args):
    """The default, without trees: a tuple of arrays, or one array, is already flat."""
    return (list(args), len(args)) if isinstance(args, tuple) else ([args], None)


def unflatten_flat(count, leaves):
    """The inverse of `flatten_flat`."""
    return leaves[0] if count is None else tuple(leaves)


# How arguments and results become flat lists of arrays, and what the leaves of an
# argument are called; as what the types of results are shown; and a function that is
# to be recorded, if mutable arrays are among its arguments.  Later modules take these
# rows over.
flattening = {
    "flatten": flatten_flat,
    "unflatten": unflatten_flat,
    "leaf_names": lambda name, tree: [name],
    "infos": list,
    "with_refs": lambda flat, leaves: flat,
}


def axes_named(axis_env):
    """While a `with` block runs, collectives may name axes: pairs (name, size)."""
    if not axis_env:
        return nullcontext()
    return config.override("named_axes", (*config.named_axes, *axis_env))


def scalar(value, aval):
    """A literal's value: a read-only NumPy array without axes."""
    value = np.array(value, dtype=aval.dtype)
    value.flags.writeable = False
    return value


def is_scalar(aval):
    """Whether values of a type can be literals: those of NumPy's, without axes."""
    if not isinstance(aval, ShapedArray) or aval.shape:
        return False
    return isinstance(aval.dtype, np.dtype)


# ---- where a traced value comes from, as a sentence for error messages


def origin(tracer):
    """What is being traced, which arguments a tracer needs, and the line it is from."""
    trace = tracer.owner
    info = trace.info
    where = f", defined at {info.source}," if info.source else ""
    text = f"\n  It was traced as part of {info.name}{where} for {info.kind}"
    names = arguments_behind(trace, tracer.variable)
    text += f", and depends on the argument {', '.join(names)}." if names else "."
    if tracer.source:
        text += f"\n  It was computed at {tracer.source}: {tracer.source.text()}"
    return text


def arguments_behind(trace, var):
    """The names of the arguments of a trace that its variable is computed from."""
    needed = {var}
    for eqn in reversed(trace.eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(eqn.invars)
    names = zip(trace.invars, trace.info.arg_names, strict=False)
    return [name for v, name in names if v in needed]
