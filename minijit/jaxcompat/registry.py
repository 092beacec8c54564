"""`jax.tree_util.default_registry`: the one table of types of trees, as an object."""

from types import SimpleNamespace

from ..trace.trees import pytree, tools


def of_nodes(one_level):
    """A function of one container, which says None of a leaf."""
    return lambda x: one_level(x) if tools.is_tree_node(type(x)) else None


default_registry = SimpleNamespace(
    flatten=pytree.tree_flatten,
    flatten_one_level=of_nodes(tools.flatten_one_level),
    flatten_one_level_with_keys=of_nodes(tools.flatten_one_level_with_keys),
    register_node=pytree.register_pytree_node,
)
