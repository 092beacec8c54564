"""A pytree as one vector and back, under the name of `jax.flatten_util`.

    vector, unravel = ravel_pytree({"w": w, "b": b})
    unravel(vector - 0.1 * slope)               # {"w": ..., "b": ...}
"""

import math
from dataclasses import dataclass

import numpy as np

from . import lax, numpy as jnp
from .trace import dtypes
from .trace.api import calls
from .trace.array import aval_of
from .trace.base import names as _names
from .trace.trees.pytree import PyTreeDef, tree_flatten, tree_unflatten


@dataclass(frozen=True)
class Unravel:
    """vector -> pytree; two that do the same are equal, so that jit knows them.

    Attributes:
      tree: the structure of the pytree; shapes: of its leaves.
      dtypes: of its leaves, and `dtype`, of the vector; None where all are one, and the
        vector may have another.
    """

    tree: PyTreeDef
    shapes: tuple
    dtypes: tuple | None = None
    dtype: np.dtype | None = None

    def __call__(self, flat):
        parts = lax.split(flat, [math.prod(shape) for shape in self.shapes])
        leaves = map(lax.reshape, parts, self.shapes)
        if self.dtypes is not None:
            if flat.dtype != self.dtype:
                raise TypeError(
                    f"unravel function given array of dtype {flat.dtype}, but expected "
                    f"dtype {self.dtype}"
                )
            leaves = map(to_dtype, leaves, self.dtypes)
        return tree_unflatten(self.tree, leaves)


def to_dtype(x, dtype):
    """x in another dtype; of complex numbers the real part, if it is real."""
    narrow = x.dtype.kind == "c" and np.dtype(dtype).kind != "c"
    return lax.convert_element_type(x.real if narrow else x, dtype)


def ravel_pytree(pytree):
    """(all leaves of a pytree in one vector, a function from such vectors to pytrees).

    The vector has the dtype to which those of the leaves promote; without leaves it is
    empty, of float32.
    """
    leaves, tree = tree_flatten(pytree)
    avals = [aval_of(x) for x in leaves]
    shapes, each = tuple(a.shape for a in avals), tuple(a.dtype for a in avals)
    if not leaves:
        return jnp.zeros(0, np.float32), Unravel(tree, shapes)
    dtype = dtypes.result_type(*leaves)
    # What has the dtype stays weakly typed, if it is.
    flat = [
        x if d == dtype else lax.convert_element_type(x, dtype)
        for x, d in zip(leaves, each, strict=True)
    ]
    vector = lax.concatenate([jnp.ravel(x) for x in flat], 0)
    if set(each) == {dtype}:
        return vector, Unravel(tree, shapes)
    return vector, Unravel(tree, shapes, each, dtype)


calls.explain_calls("flatten_util", globals(), ["ravel_pytree"])

_names.publish(globals(), "ravel_pytree")
