"""Solutions to chapter 5."""

from types import SimpleNamespace

from minijit.trace.trees.pytree import (
    node_types,
    register_pytree_node,
    tree_flatten,
    tree_map,
    tree_structure,
)


def partition(keep, tree):
    leaves, treedef = tree_flatten(tree)
    kept = [x if keep(x) else None for x in leaves]
    others = [None if keep(x) else x for x in leaves]
    return treedef.unflatten(kept), treedef.unflatten(others)


def check_partition(partition):
    """Flatten once, and unflatten two lists of leaves."""
    tree = {"a": [1, 2.0, None], "b": (3, "x")}
    whole, rest = partition(lambda x: isinstance(x, int), tree)
    assert whole == {"a": [1, None, None], "b": (3, None)}
    assert rest == {"a": [None, 2.0, None], "b": (None, "x")}
    assert partition(bool, 0) == (None, 0)


def namespace_rules():
    def flatten(x):
        names = tuple(sorted(vars(x)))
        return [getattr(x, name) for name in names], names

    def unflatten(names, children):
        return SimpleNamespace(**dict(zip(names, children, strict=True)))

    return flatten, unflatten


def check_namespace_rules(namespace_rules):
    """Children and data: the values of `vars(x)` by sorted name, and those names."""
    flatten, unflatten = namespace_rules()
    known = dict(node_types)
    try:
        register_pytree_node(SimpleNamespace, flatten, unflatten)
        x = SimpleNamespace(w=1, b=(2, 3))
        assert tree_flatten(x)[0] == [2, 3, 1]
        assert tree_map(lambda leaf: leaf + 1, x) == SimpleNamespace(b=(3, 4), w=2)
        same, other = SimpleNamespace(b=(0, 0), w=0), SimpleNamespace(b=(2, 3), v=1)
        assert tree_structure(x) == tree_structure(same) != tree_structure(other)
    finally:
        node_types.clear()
        node_types.update(known)
