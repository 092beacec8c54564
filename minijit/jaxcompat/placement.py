"""Where arrays are put, and functions whose results are: what they say is checked.

    x = device_put(x, NamedSharding(mesh, PartitionSpec("data")))
    with_sharding_constraint(x, PartitionSpec("data"))     # x, if it has such an axis
    jit(f, out_shardings=NamedSharding(mesh, PartitionSpec()))

With one device nothing is moved; an array knows how it was placed (`placed_arrays.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..trace.api import calls
from ..trace.api.devices import Device, Sharding, SingleDeviceSharding, device_of
from ..trace.api.stages import putters
from ..trace.base.errors import HERE
from ..trace.jit.captures import capture_rules
from ..trace.jit.jit import JitFunction
from ..trace.jit.signature import sort_arguments
from ..trace.primitives import as_array
from ..trace.trees.pytree import tree_flatten, tree_map, tree_unflatten
from ..trace.trees.tools import broadcast_prefix
from ..trace.types import Array, ArrayLike, DTypeLike, Shape
from ..transform.batching.collectives import names_of
from .meshes import NamedSharding, PartitionSpec, get_mesh
from .placed_arrays import Placed, place


def sharding_of(x):
    """A sharding, or a `PartitionSpec` for the mesh around us, as a sharding."""
    if not isinstance(x, PartitionSpec):
        return x
    mesh = get_mesh()
    if mesh.empty:
        raise RuntimeError(
            "with_sharding_constraint requires a non-empty mesh in context if you are "
            "passing `PartitionSpec`s to shardings. You can define a context mesh via "
            f"`jax.set_mesh(mesh)`.{HERE}"
        )
    return NamedSharding(mesh, x)


def check_rank(sharding, ndim):
    """Complain about a sharding of more axes than an array has."""
    spec = getattr(sharding, "spec", ())
    if len(spec) > ndim:
        raise ValueError(
            f"Sharding {sharding} is only valid for values of rank at least "
            f"{len(spec)}, but was applied to a value of rank {ndim}{HERE}"
        )


def is_placement(x):
    """Whether something says where an array is."""
    return x is None or isinstance(x, (Device, Sharding, PartitionSpec, str))


def each_placed(x, placements):
    """A tree of arrays, each placed as a tree of placements, a prefix of x, says.

    What is None in it says nothing.  Complains of what does not fit.
    """
    leaves, tree = tree_flatten(x)
    each = map(sharding_of, broadcast_prefix(placements, x, is_leaf=is_placement))
    return tree_unflatten(tree, map(placed_as, leaves, each))


def placed_as(x, where):
    """An array that knows it lies as said, once that was checked; None says nothing."""
    if where is None:
        return x
    device_of(where)
    check_rank(where, np.ndim(x))
    return place(x, where)


# The functions whose results are placed by `out_sharding`; `einsum` does so itself.
placed_results = {
    "Array": "flatten ravel reshape",
    "Array.at": "add divide get max min mul multiply power set subtract",
    "jnp": """
        arange array asarray bincount broadcast_to dot empty full full_like matmul ones
        ones_like percentile ravel repeat reshape tensordot zeros zeros_like
    """,
    "jnp.linalg": "tensordot",
    "lax": """
        broadcast broadcast_in_dim broadcasted_iota conv_general_dilated dot dot_general
        reduce reduce_sum reshape
    """,
    "random": """
        ball bernoulli beta bits categorical cauchy chisquare dirichlet exponential f
        gamma generalized_normal geometric gumbel laplace loggamma logistic lognormal
        maxwell multivariate_normal normal orthogonal pareto permutation poisson
        rademacher randint rayleigh t triangular truncated_normal uniform wald
    """,
}
calls.placed |= {
    f"{module}.{name}": each_placed
    for module, names in placed_results.items()
    for name in names.split()
}

put_on_device = putters["put"]


def put(x, where):
    """An array put on a device, of which a sharding says how."""
    where = sharding_of(where)
    check_rank(where, np.ndim(x))
    if isinstance(x, Placed) and x.sharding == where:
        return x
    x = put_on_device(x, where)
    return x if where is None else place(x, where)


def put_like(x, other):
    """An array that lies as another of its shape does, if that was placed."""
    alike = isinstance(other, Placed) and other.shape == x.shape
    return place(x, other.sharding) if alike else x


putters |= {"put": put, "like": put_like}


def with_sharding_constraint(x: ArrayLike, shardings: Any) -> Array:
    """x, which is to lie as said: with one device it does (`jax.lax`)."""
    return each_placed(tree_map(as_array, x), shardings)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """x: whether it differs along axes of a mesh is not kept track of (`jax.lax`)."""
    names_of(axis_name)
    return tree_map(as_array, x)


def reshard(xs: Any, out_shardings: Any) -> Any:
    """x, put as said: with one device it is there.  JAX: `jax.sharding.reshard`."""
    return with_sharding_constraint(xs, out_shardings)


def make_single_device_sharding(device, *, memory_kind=None):
    """All of an array on one device."""
    del memory_kind
    return SingleDeviceSharding(device)


def make_array_from_callback(
    shape: Shape, sharding: Any, data_callback: Callable[..., Any] | None,
    dtype: DTypeLike | None = None,
) -> Any:
    """The array whose only part is data_callback(index): `make_array_from_callback`."""
    check_rank(sharding, len(shape))
    x = as_array(data_callback(tuple(slice(None) for _ in shape)))
    if x.shape != tuple(shape):
        raise ValueError(f"expected data of shape {tuple(shape)}, got {x.shape}")
    return place(x, sharding)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """The array of this process's data, which is all there is."""

    def one(x):
        shape = global_shape or np.shape(x)
        return make_array_from_callback(shape, sharding, lambda index: x)

    return tree_map(one, local_data)


def make_array_from_single_device_arrays(
    shape: Shape, sharding: Any, arrays: Sequence[ArrayLike]
) -> Any:
    """The array made of the parts on each device: of the only one."""
    part, = arrays
    return make_array_from_callback(shape, sharding, lambda index: part)


# ---- Functions whose arguments and results are placed


class PlacingFunction(JitFunction):
    """What `jit` returns if it was given `in_shardings` or `out_shardings`."""

    def __init__(self, function, options, in_shardings, out_shardings):
        super().__init__(function, options)
        self.shardings = in_shardings, out_shardings

    def __call__(self, *args, **kwargs):
        into, out = self.shardings
        args = args if into is None else self.arguments_placed(args, into)
        result = super().__call__(*args, **kwargs)
        return result if out is None else each_placed(result, out)

    def arguments_placed(self, args, placements):
        """The positional arguments, of which the traced ones are placed."""
        call = sort_arguments(self.options, args, {})
        if isinstance(placements, list):
            placements = tuple(placements)
        return call.full(each_placed(tree_map(as_array, call.args), placements), {})[0]

    def lower(self, *args, **kwargs):
        """The function traced for these arguments, or for their shapes: `Lowered`."""
        lowered = super().lower(*args, **kwargs)
        if self.shardings[1] is not None:
            lowered.placed = partial(each_placed, placements=self.shardings[1])
        return lowered

    def __reduce__(self):
        return PlacingFunction, (self.function, self.options, *self.shardings)


capture_rules |= {PlacingFunction: capture_rules[JitFunction]}
names = [name for name in globals() if name.startswith("make_array_")]
calls.explain_calls("minijit", globals(), [*names, "reshard"])
calls.explain_calls("lax", globals(), ["pcast", "with_sharding_constraint"])
