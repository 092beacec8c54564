"""Paths: what each leaf of a pytree is called, and where two trees differ.

    for path, leaf in tree_leaves_with_path(params):
        print(keystr(path), leaf.shape)                 # ['dense'][0]['w'] (64, 32)

The functions of `pytree.py` know no paths, because they are called all the time.
When something is wrong, the walk is repeated here, with paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import abridged
from ..jaxprs.jaxpr import flattening
from ..types import PyTree
from .pytree import (
    FlattenedIndexKey, Leaf, Node, PyTreeDef, diagnoses, keystr, leaf_node,
    matching_children, node_type, suspicious_size, tree_structure,
)


def check_depth(tree, is_leaf=None):
    """Raise if a tree is nested too deeply, as one that contains itself is."""
    stack = [(tree, 0)]
    while stack:
        x, depth = stack.pop()
        if depth > suspicious_size // 2:
            raise ValueError(
                f"a pytree is nested more than {depth - 1:,} levels deep: "
                f"does a {type(x).__name__} in it contain itself?"
            )
        if is_leaf is None or not is_leaf(x):
            stack.extend((child, depth + 1) for child in children_of(x))


def children_of(x):
    """The children of x, as a tuple; of a leaf none."""
    how = node_type(type(x))
    return () if how is None else tuple(how.flatten(x)[0])


def keys_of(x, arity):
    """A key for each child of the node x."""
    keys = node_type(type(x)).keys
    return map(FlattenedIndexKey, range(arity)) if keys is None else keys(x)


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> tuple[list[tuple[tuple[Any, ...], Any]], PyTreeDef]:
    """As `tree_flatten`, with the path to each leaf: -> ([(path, leaf), ...], treedef).

    A path is a tuple of keys: `DictKey`, `SequenceKey`, `GetAttrKey` and others.
    """
    found, nodes = [], []
    # A place is (the place above, key), so that siblings share what is above them.
    stack = [(None, tree)]
    while stack:
        if len(nodes) == suspicious_size:
            check_depth(tree)
        place, x = stack.pop()
        how = node_type(type(x))
        if is_leaf is not None:
            args = (path_to(place), x) if is_leaf_takes_path else (x,)
            how = None if is_leaf(*args) else how
        if how is None:
            found.append((place, x))
            nodes.append(leaf_node)
            continue
        children, data = how.flatten(x)
        children = tuple(children)
        nodes.append(Node(type(x), data, len(children)))
        steps = zip(keys_of(x, len(children)), children, strict=True)
        stack.extend(reversed([((place, key), child) for key, child in steps]))
    # The paths come last, for those of an endless tree would fill the memory.
    return [(path_to(place), x) for place, x in found], PyTreeDef(tuple(nodes))


def path_to(place):
    """The keys on the way from the root to a place."""
    path = []
    while place is not None:
        place, key = place
        path.append(key)
    return tuple(reversed(path))


def tree_leaves_with_path(
    tree: PyTree, is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves of a pytree with their paths: -> [(path, leaf), ...]."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any], tree: PyTree, *rest: PyTree,
    is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False,
) -> Any:
    """As `tree_map`, with f(path, leaf, ...)."""
    found, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [*zip(*found, strict=True)] or [(), ()]
    columns += [
        treedef.flatten_up_to(other, ("the first tree", f"tree number {i}"))
        for i, other in enumerate(rest, start=2)
    ]
    return treedef.unflatten([f(*xs) for xs in zip(*columns, strict=True)])


def mismatch(treedef, tree, names):
    """The message: where `tree` differs from a treedef that should be its prefix."""
    stack = [("", tree)]
    for node in treedef.nodes:
        path, x = stack.pop()
        if node.type is Leaf:
            continue
        children = matching_children(node, x)
        if children is None:
            break
        steps = zip(keys_of(x, node.arity), children, strict=True)
        stack.extend(reversed([(path + str(key), child) for key, child in steps]))
    found = tree_structure(x).nodes[0]
    first, second = names
    text = f"pytree structure error: different {difference(node, found)}"
    text += f" at key path {path or '(the root)'}:{in_short(node, found)}"
    text += f"\n  there {first} has {node_in_words(node)},"
    text += f"\n  and {second} has {node_in_words(found, x)}."
    if type(None) in (node.type, found.type):
        text += "\n  (None has no leaves. To make it one: is_leaf=lambda x: x is None.)"
    text += f"\n  {first}: {abridged(treedef)}"
    return text + f"\n  {second}: {abridged(tree_structure(tree))}"


def difference(node, found):
    """JAX's words for what two nodes differ in."""
    if node.type is not found.type:
        return "types"
    if node.arity == found.arity or node.type is dict:
        return "pytree metadata"
    if node.type in (tuple, list):
        return f"lengths of {node.type.__name__}"
    return "numbers of pytree children"


def in_short(node, found):
    """JAX's words for two nodes of one type, or nothing."""
    if node.type is found.type is dict:
        return " Dict key mismatch"
    if node.type is found.type and node.type in (tuple, list):
        kind = node.type.__name__.title()
        return f" {kind} arity mismatch: {found.arity} != {node.arity}"
    return ""


def node_in_words(node, leaf=None):
    """A node in words."""
    if node.type is Leaf:
        return f"a leaf of type {type(leaf).__name__}"
    if node.type is type(None):
        return "None"
    if node.type in (tuple, list):
        return f"a {node.type.__name__} of length {node.arity}"
    if node.type is dict:
        return f"a dict with keys {abridged([*node.data])}"
    if node.data is node.type:
        return f"a {node.type.__name__} of length {node.arity}"
    data = abridged(node.data)
    return f"a {node.type.__name__} of {node.arity} children with data {data}"


def leaf_names(name, tree):
    """What the leaves of an argument are called in messages: `params['w']`."""
    return [name + keystr(path) for path, leaf in tree_leaves_with_path(tree)]


diagnoses |= {"check_depth": check_depth, "mismatch": mismatch}
flattening |= {"leaf_names": leaf_names}
