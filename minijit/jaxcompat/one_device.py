"""`pmap` and `shard_map` over the one device there is.

    pmap(f)(x)                                   # x has a first axis of size 1
    shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)

An axis of a mesh is a named axis of size 1, over which `psum` and its like look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..trace import primitives as lax
from ..trace.api import calls
from ..trace.arguments import function_name, wraps
from ..trace.array import aval_of
from ..trace.base.errors import HERE
from ..trace.jit.jit import jit
from ..trace.jit.signature import Options, sort_arguments
from ..trace.trees.pytree import tree_flatten, tree_unflatten
from ..trace.trees.tools import broadcast_prefix, flatten_axes
from ..trace.types import Argnums, Function, PyTree
from ..transform.batching.vmap import Lanes, vmap, vmap_flat
from ..transform.flat_functions import FlatFunction, check_callable
from .meshes import NamedSharding, PartitionSpec, get_mesh
from .placed_arrays import place


def pmap(
    fun: Function, axis_name: Any = None, *, in_axes: PyTree = 0, out_axes: PyTree = 0,
    static_broadcasted_argnums: Argnums = (), devices: Any = None, backend: Any = None,
    axis_size: int | None = None, donate_argnums: Argnums = (),
) -> Function:
    """`fun` for each part of its arguments, a part on each device (`jax.pmap`).

    There is one device, so that the mapped axes must have size 1.
    """
    check_callable(fun)
    del devices, backend
    static = static_broadcasted_argnums
    static = (static,) if isinstance(static, int) else tuple(static)
    options = Options(static_argnums=static)

    def mapped(*args, **kwargs):
        call = sort_arguments(options, args, kwargs)
        axes = in_axes
        if isinstance(in_axes, (tuple, list)):
            axes = tuple(a for i, a in enumerate(in_axes) if i not in call.statics)

        def of_rest(*rest, **named):
            every, named = call.full(rest, named)
            return fun(*every, **named)

        size = axis_size
        leaves, tree = tree_flatten((call.args, kwargs))
        each = flatten_axes("pmap in_axes", tree, (axes, 0))
        for x, axis in zip(leaves, each, strict=True):
            shape = aval_of(x).shape
            # Of an axis that is not there `vmap` complains.
            if axis is not None and axis < len(shape):
                size = shape[axis]
        if size not in (None, 1):
            raise ValueError(
                f"compiling computation `{function_name(fun)}` that requires {size} "
                f"logical devices, but only 1 XLA devices are available"
                f"{HERE}\n  Instead: minijit.vmap."
            )
        lanes = dict(axis_name=axis_name, axis_size=axis_size)
        return vmap(of_rest, axes, out_axes, **lanes)(*call.args, **kwargs)

    jitted = jit(mapped, static_argnums=static, donate_argnums=donate_argnums)
    return wraps(fun)(lambda *args, **kwargs: jitted(*args, **kwargs))


def shard_map(
    f: Callable[..., Any] | None = None, /, *, out_specs: PyTree,
    in_specs: PyTree = None, mesh: Any = None, axis_names: Any = frozenset(),
    check_vma: bool = True, check_rep: bool = True, auto: Any = frozenset(),
) -> Any:
    """`f` of each device's part of the arguments (`jax.shard_map`).

    With one device a part is the whole: what `in_specs` and `out_specs` say is checked.

    Args:
      in_specs, out_specs: trees of `PartitionSpec`, prefixes of the arguments and of
        the result.
      mesh: whose axes they name; by default that of `set_mesh`.
    """
    if f is None:
        given = dict(mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        return lambda f: shard_map(f, **given)
    check_callable(f)

    @wraps(f)
    def mapped(*args):
        around = get_mesh() if mesh is None else mesh
        sizes = around.shape
        if any(size != 1 for size in sizes.values()):
            raise ValueError(f"shard_map has one device, and a mesh of {dict(sizes)}")
        leaves, tree = tree_flatten(args)
        if in_specs is not None:
            check_specs(f, sizes, "in_specs", in_specs, args, leaves)
        flat = FlatFunction(f, tree)
        outs = along_axes(flat, list(sizes), leaves)
        result = tree_unflatten(flat.out_tree, outs)
        each = check_specs(f, sizes, "out_specs", out_specs, result, outs)
        placed = [place(y, NamedSharding(around, spec)) for y, spec in each]
        return tree_unflatten(flat.out_tree, placed)

    return mapped


def along_axes(f, names, leaves):
    """Apply f to leaves where axes of size 1 have names."""
    if not names:
        return f(*leaves)
    name, *inner = names
    run = lambda *xs: along_axes(f, inner, xs)
    outs, axes = vmap_flat(run, Lanes(1, name), leaves, [None] * len(leaves))
    pairs = zip(outs, axes, strict=True)
    return [y if axis is None else lax.squeeze(y, (axis,)) for y, axis in pairs]


def check_specs(f, sizes, kind, specs, tree, leaves):
    """Complain unless specs name axes of the mesh, and no more than a value has.

    Returns: a list of (leaf, its `PartitionSpec`).
    """
    is_spec = lambda x: x is None or isinstance(x, PartitionSpec)
    specs = tuple(specs) if kind == "in_specs" and isinstance(specs, list) else specs
    each = [spec or PartitionSpec() for spec in broadcast_prefix(specs, tree, is_spec)]
    for spec, x in zip(each, leaves, strict=True):
        unknown = [name for name in spec.mesh_axes() if name not in sizes]
        if unknown:
            raise ValueError(
                f"shard_map {kind} argument must refer to an axis of the mesh, "
                f"{list(sizes)}, but {kind} refers to {unknown[0]!r}{HERE}"
            )
        if len(spec) > aval_of(x).ndim:
            raise ValueError(
                f"shard_map applied to the function {function_name(f)!r} was given "
                f"{kind} with an entry which is too long: {spec} has length "
                f"{len(spec)}, but the value has shape {aval_of(x).shape}{HERE}"
            )
    return list(zip(leaves, each, strict=True))


calls.explain_calls("minijit", globals(), ["pmap", "shard_map"])
