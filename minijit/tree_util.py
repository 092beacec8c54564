"""Pytrees under the names of `jax.tree_util`."""

from typing import Any

from .trace.trees.pytree import (
    PyTreeDef as PyTreeDef, register_pytree_node as register_pytree_node,
    register_pytree_node_class as register_pytree_node_class,
    tree_flatten as tree_flatten, tree_leaves as tree_leaves, tree_map as tree_map,
    tree_structure as tree_structure, tree_unflatten as tree_unflatten,
)
from .trace.trees.tools import (
    Partial as Partial, tree_all as tree_all, tree_reduce as tree_reduce,
    tree_transpose as tree_transpose,
)
from .trace.trees.paths import (
    tree_flatten_with_path as tree_flatten_with_path,
    tree_leaves_with_path as tree_leaves_with_path,
    tree_map_with_path as tree_map_with_path,
)
from .trace.trees.pytree import (
    DictKey as DictKey, FlattenedIndexKey as FlattenedIndexKey,
    GetAttrKey as GetAttrKey, SequenceKey as SequenceKey, keystr as keystr,
)

KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]

from .trace.trees.tools import (
    all_leaves as all_leaves, build_tree as build_tree,
    flatten_one_level as flatten_one_level,
    flatten_one_level_with_keys as flatten_one_level_with_keys,
    is_tree_node as is_tree_node, register_dataclass as register_dataclass,
    register_pytree_with_keys as register_pytree_with_keys,
    register_pytree_with_keys_class as register_pytree_with_keys_class,
    register_static as register_static, tree_broadcast as tree_broadcast,
    tree_reduce_associative as tree_reduce_associative,
    treedef_children as treedef_children, treedef_is_leaf as treedef_is_leaf,
    treedef_tuple as treedef_tuple,
)

from .trace.api import calls
from .trace.base import names as _names

calls.explain_calls("tree_util", globals())

__all__ = _names.public_names(globals(), besides="Any")
_names.front(globals(), __all__)
