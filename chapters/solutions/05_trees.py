"""Solutions to chapter 5."""


from minijit.trace.trees.pytree import tree_flatten


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
