"""Pytrees under the names of `jax.tree`: `tree.map(f, params)`."""

from .tree_util import (
    tree_all as all, tree_flatten as flatten,
    tree_flatten_with_path as flatten_with_path, tree_leaves as leaves,
    tree_leaves_with_path as leaves_with_path, tree_map as map,
    tree_map_with_path as map_with_path, tree_reduce as reduce,
    tree_structure as structure, tree_transpose as transpose,
    tree_unflatten as unflatten,
)

from .trace.base import names as _names

__all__ = [
    "all", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map",
    "map_with_path", "reduce", "structure", "transpose", "unflatten",
]  # fmt: skip

from .tree_util import (
    tree_broadcast as broadcast, tree_reduce_associative as reduce_associative,
)

from .trace.trees.tools import static as static

__all__ += ["broadcast", "reduce_associative", "static"]
_names.front(globals(), __all__)
