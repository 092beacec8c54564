"""Python functions that compute a result for a traced program, outside of it.

    pure_callback(np.sin, ShapeDtypeStruct((3,), "float32"), x)
    io_callback(read_sensor, ShapeDtypeStruct((), "float32"), ordered=True)

The function gets arrays and gives arrays of the types that were promised.  A pure one
may be called any number of times, or not at all if nobody needs its result; the other
is called once, each time the line runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from ..trace import dtypes
from ..trace.api import calls
from ..trace.arguments import function_name, wraps
from ..trace.array import ArrayImpl, ShapedArray, shape_rules, to_numpy, wrap
from ..trace.base.errors import HERE, JaxRuntimeError
from ..trace.core import Primitive, eval_rules
from ..trace.jaxprs.jaxpr import effectful, fallbacks
from ..trace.primitives import as_array, expand_dims
from ..trace.trees.pytree import tree_flatten, tree_leaves, tree_unflatten
from ..trace.types import PyTree
from ..transform.batching.vmap import batch_rules, lanes_at, with_axis
from ..transform.debugging import in_each_lane
from ..transform.derivatives.linearize import linearize_rules
from ..transform.flat_functions import CalledByLeaves
from ..transform.tangents import zeros

pure_callback_p = Primitive("pure_callback", multiple_results=True)
io_callback_p = Primitive("io_callback", multiple_results=True)
effectful.add(io_callback_p)

vmap_methods = (
    *("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"),
    "legacy_vectorized",
)


@dataclass(frozen=True, eq=False)
class HostFunction(CalledByLeaves):
    """A function of trees as one of flat lists, with the types it promised.

    Attributes:
      in_tree, out_tree: the structures of (args, kwargs) and of the result.
      result_avals: the types of the result's leaves.
      vmap_method: what lanes do: they are calls of their own, or one more axis.
      ordered: whether its calls must come in order.
      lanes: (size, axis of each argument or None) of each vmap, the innermost last.
    """

    function: object
    in_tree: object
    out_tree: object
    result_avals: tuple
    vmap_method: str | None = None
    ordered: bool = False
    lanes: tuple = ()

    def __repr__(self):
        return function_name(self.function)

    def __call__(self, *leaves):
        """-> the leaves of the result, as NumPy arrays."""
        if not self.lanes:
            return self.call_once(leaves)
        results = map(self.call_once, in_each_lane(self.lanes, leaves))
        sizes = [size for size, _ in reversed(self.lanes)]
        return [stacked(column, sizes) for column in zip(*results, strict=True)]

    def call_once(self, leaves):
        try:
            result = self.on_leaves(leaves)
        except JaxRuntimeError:
            raise
        except Exception as error:
            raise as_runtime_error(error, self) from error
        found, tree = tree_flatten(result)
        if tree != self.out_tree:
            raise JaxRuntimeError(
                f"the callback {self} promised a result of the structure "
                f"{self.out_tree}, and returned {tree}{HERE}"
            )
        pairs = zip(found, self.result_avals, strict=True)
        return [self.checked(x, aval) for x, aval in pairs]

    def checked(self, x, aval):
        """A leaf of the result, which must be of the shape that was promised."""
        # An array of ours is NumPy's already: to ask NumPy takes as long as the rest.
        x = to_numpy(x) if isinstance(x, ArrayImpl) else np.asarray(x)
        if x.shape != aval.shape:
            raise JaxRuntimeError(
                f"the callback {self} promised a result of type {aval.str_short()}, "
                f"and returned one of shape {x.shape}{HERE}"
            )
        return x.astype(aval.dtype)


def as_runtime_error(error, callback):
    """An error of a callback as one that is JAX's class for it, and its own.

    So programs that catch either go on, and what libraries look for is in its text.
    """
    kind = type(error)
    new = runtime_kind(kind)
    new = new.__new__(new)
    new.args = (
        f"INTERNAL: error calling the callback {callback}: "
        f"{kind.__module__}.{kind.__qualname__}: {error}",
    )
    vars(new).update(vars(error))
    return new


def runtime_kind(kind):
    """A class of errors that is a JaxRuntimeError, too."""
    if issubclass(JaxRuntimeError, kind):
        return JaxRuntimeError
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind, JaxRuntimeError), names)


def stacked(results, sizes):
    """One array of the results of all lanes, the innermost vmap's on the last axis."""
    every = np.stack(results)
    every = every.reshape(*sizes, *every.shape[1:])
    n = len(sizes)
    return every.transpose(*reversed(range(n)), *range(n, every.ndim))


def eval_host_call(*args, callback, result_avals):
    return [wrap(x) for x in callback(*map(as_array, args))]


def no_derivative(kind, nonzero, *args, callback, **params):
    """JAX's refusal: nobody knows the derivative of a Python function."""
    raise ValueError(
        f"{kind} callbacks do not support JVP. Please use `jax.custom_jvp` to use "
        f"callbacks while taking gradients: {callback} was given a value that is "
        f"being differentiated{HERE}"
    )


def batch_pure(lanes, axes, *args, callback, result_avals):
    """Lanes as the callback's `vmap_method` wants them."""
    method = callback.vmap_method
    if method is None:
        raise NotImplementedError(
            "vmap is only supported for the pure_callback primitive when vmap_method "
            f"is one of {vmap_methods}. Got vmap_method=None."
        )
    many = tuple(with_axis(aval, lanes.size, 0) for aval in result_avals)
    if method.startswith("sequential"):
        return batch_in_turn(pure_callback_p, lanes, axes, args, callback, many)
    shared = lambda x: expand_dims(x, (0,)) if method == "expand_dims" else x
    args = [
        shared(x) if a is None and method != "broadcast_all"
        else lanes_at(x, a, 0, lanes.size)
        for x, a in zip(args, axes, strict=True)
    ]  # fmt: skip
    callback = replace(callback, result_avals=many)
    outs = pure_callback_p.bind(*args, callback=callback, result_avals=many)
    return outs, [0] * len(outs)


def batch_in_turn(primitive, lanes, axes, args, callback, many):
    """One call of the Python function for each lane."""
    in_lanes = (lanes.size, tuple(axes)), *callback.lanes
    callback = replace(callback, lanes=in_lanes)
    outs = primitive.bind(*args, callback=callback, result_avals=many)
    return outs, [0] * len(outs)


def batch_io(lanes, axes, *args, callback, result_avals):
    if callback.ordered:
        raise ValueError("Cannot `vmap` ordered IO callback.")
    many = tuple(with_axis(aval, lanes.size, 0) for aval in result_avals)
    return batch_in_turn(io_callback_p, lanes, axes, args, callback, many)


eval_rules |= {p: eval_host_call for p in (pure_callback_p, io_callback_p)}
shape_rules |= {
    p: lambda *avals, callback, result_avals: result_avals
    for p in (pure_callback_p, io_callback_p)
}
linearize_rules |= {
    pure_callback_p: partial(no_derivative, "Pure"),
    io_callback_p: partial(no_derivative, "IO"),
}
batch_rules |= {pure_callback_p: batch_pure, io_callback_p: batch_io}
fallbacks |= dict.fromkeys(
    (pure_callback_p, io_callback_p), "it calls back into Python"
)


def host_call(primitive, callback, result_shape_dtypes, args, kwargs, **options):
    """Bind one of the two primitives: -> a tree of arrays."""
    if not callable(callback):
        raise TypeError(f"{primitive} needs a function, got {callback!r}")
    leaves, in_tree = tree_flatten((args, kwargs))
    wanted, out_tree = tree_flatten(result_shape_dtypes)
    of_args, of_results = types = list(map(carried, leaves)), list(map(carried, wanted))
    if any(of_args + of_results):
        rest = [x for x, kind in zip(wanted, of_results, strict=True) if kind is None]
        call = partial(host_call, primitive, result_shape_dtypes=rest, **options)
        return around_types(call, callback, (leaves, in_tree), out_tree, types)
    avals = tuple(
        ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype)) for x in wanted
    )
    host = HostFunction(callback, in_tree, out_tree, avals, **options)
    outs = primitive.bind(*leaves, callback=host, result_avals=avals)
    return tree_unflatten(out_tree, outs)


def carried(x):
    """The type without elements of an argument or a promised result, or None."""
    return dtypes.carried_type(getattr(x, "dtype", None))


def around_types(call, callback, given, out_tree, types):
    """A host call of whose arguments and results some are of types without elements.

    No host function can make or read a residual of a `cond` or of a loop: it gets
    zeros, and of its results those are zeros.  Such calls tell of errors.
    """
    (leaves, in_tree), (of_args, of_results) = given, types
    is_array = [kind is None for kind in of_results]

    @wraps(callback)
    def of_arrays(*arrays):
        rest = iter(arrays)
        filled = [next(rest) if kind is None else zeros(kind) for kind in of_args]
        args, kwargs = tree_unflatten(in_tree, filled)
        return list(compress(tree_leaves(callback(*args, **kwargs)), is_array))

    arrays = [x for x, kind in zip(leaves, of_args, strict=True) if kind is None]
    found = iter(call(callback=of_arrays, args=arrays, kwargs={}))
    outs = [next(found) if kind is None else zeros(kind) for kind in of_results]
    return tree_unflatten(out_tree, outs)


def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: PyTree, *args: Any,
    sharding: Any = None, vmap_method: str | None = None, **kwargs: Any,
) -> Any:
    """What a Python function without side effects computes (`jax.pure_callback`).

    Args:
      callback: called as callback(*args, **kwargs) with arrays.
      result_shape_dtypes: a tree of `ShapeDtypeStruct`: what it returns.
      vmap_method: under vmap, "sequential": a call for each lane; "expand_dims" and
        "broadcast_all": one call, with the lanes on a first axis, of size 1 or made
        where an argument has none.

    Raises ValueError where it is differentiated, JaxRuntimeError for other results.
    """
    del sharding
    if vmap_method not in (None, *vmap_methods):
        raise ValueError(
            f"vmap_method must be one of {vmap_methods}, got {vmap_method!r}"
        )
    given = result_shape_dtypes, args, kwargs
    return host_call(pure_callback_p, callback, *given, vmap_method=vmap_method)


def io_callback(
    callback, result_shape_dtypes, *args, sharding=None, ordered=False, **kwargs
):
    """What a Python function with side effects returns (`jax.experimental`'s).

    Arguments are those of `pure_callback`; calls come in the order of the program.
    """
    del sharding
    given = result_shape_dtypes, args, kwargs
    return host_call(io_callback_p, callback, *given, ordered=ordered)


calls.explain_calls("minijit", globals(), ["pure_callback"])
