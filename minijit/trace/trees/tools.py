"""Tools for pytrees: reduce, turn inside out, broadcast; more ways to register.

    Partial(layer, params)               # a function with arrays in it, as a pytree
    tree_transpose(outer, inner, tree)   # a list of dicts as a dict of lists
    @register_static                     # a class whose instances have no leaves
    @register_dataclass                  # a dataclass, with meta fields as data
    treedef_tuple(treedefs)              # structures made of structures
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import abridged, text_of
from ..types import Class, PyTree
from .paths import keys_of, mismatch, node_in_words
from .pytree import (
    GetAttrKey, Leaf, Node, NodeType, PyTreeDef, leaf_node, node_type, node_types,
    register, register_pytree_node, tree_flatten, tree_leaves, tree_structure, zip_dict,
)


def tree_reduce_associative(
    operation: Callable[..., Any], tree: PyTree, *, identity: Any = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """As `tree_reduce`, combined in pairs: for an associative operation."""
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is None:
            raise ValueError("tree_reduce_associative of no leaves needs an identity")
        return identity
    while len(values) > 1:
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [operation(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def all_leaves(
    iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether no item is a container, None included."""
    one_leaf = PyTreeDef((leaf_node,))
    return all(tree_structure(x, is_leaf) == one_leaf for x in iterable)


def build_tree(treedef: Any, xs: Any) -> Any:
    """The pytree of this structure out of `xs`, iterables nested alike."""
    leaves, stack = [], [xs]
    for node in treedef.nodes:
        x = stack.pop()
        if node.type is Leaf:
            leaves.append(x)
            continue
        if not hasattr(x, "__iter__"):
            raise TypeError(f"build_tree: expected {node_in_words(node)}, got {x!r}")
        children = tuple(x)
        if len(children) != node.arity:
            raise ValueError(
                f"build_tree: expected {node_in_words(node)}, got {len(children)} items"
            )
        stack.extend(reversed(children))
    return treedef.unflatten(leaves)


def tree_broadcast(
    prefix_tree: PyTree, full_tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """A tree like `full_tree` with the leaves of its prefix `prefix_tree`."""
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees with these structures."""
    treedefs = tuple(treedefs)
    nodes = [Node(tuple, None, len(treedefs))]
    return PyTreeDef(tuple(nodes + [n for treedef in treedefs for n in treedef.nodes]))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the outermost node."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, or an empty container."""
    return treedef.num_nodes == 1


def is_tree_node(typ: type) -> bool:
    """Whether values of this type are containers that `tree_flatten` opens."""
    if not isinstance(typ, type):
        raise TypeError(f"is_tree_node takes a type, got {text_of(typ)}")
    return node_type(typ) is not None


def flatten_one_level(x: Any) -> Any:
    """-> (children, data) of one container; ValueError for a leaf.

    JAX: same name: a list or a named tuple has a list of children, others a tuple.
    """
    if not is_tree_node(type(x)):
        raise ValueError(f"can't tree-flatten type: {type(x)}")
    children, data = node_type(type(x)).flatten(x)
    if type(x) is list:
        return x, data
    return (list if hasattr(x, "_fields") else tuple)(children), data


def flatten_one_level_with_keys(x: Any) -> Any:
    """-> (pairs (key, child), data) of one container; ValueError for a leaf."""
    children, data = flatten_one_level(x)
    return tuple(zip(keys_of(x, len(children)), children, strict=True)), data


def register_pytree_with_keys(
    nodetype: Any, flatten_with_keys: Callable[..., Any],
    unflatten_func: Callable[..., Any], flatten_func: Any = None,
) -> Any:
    """As `register_pytree_node`, for a flatten function that names its children."""

    def flatten(x):
        pairs, data = flatten_with_keys(x)
        return [child for key, child in pairs], data

    flatten = flatten_func or flatten
    register_pytree_node(nodetype, flatten, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: Class) -> Class:
    """Class decorator: `tree_flatten_with_keys` and `tree_unflatten`."""
    register_pytree_with_keys(
        cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten,
        getattr(cls, "tree_flatten", None),
    )
    return cls


def register_static(cls: Class) -> Class:
    """Class decorator: instances have no leaves, and are compared as a whole."""
    register(cls, NodeType(lambda x: ((), x), lambda x, children: x))
    return cls


def dataclass_fields(cls, drop_fields=()):
    """-> (data_fields, meta_fields): meta if marked metadata=dict(static=True)."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(
            f"register_dataclass: {cls.__name__} is no dataclass, so data_fields and "
            "meta_fields are required"
        )
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    names = [name for name in fields if name not in drop_fields]
    meta = [name for name in names if fields[name].metadata.get("static", False)]
    return [name for name in names if name not in meta], meta


def check_fields(cls, data_fields, meta_fields, drop_fields):
    """Raise unless the lists name each field that __init__ takes just once."""
    init = [f.name for f in dataclasses.fields(cls) if f.init]
    given = [*data_fields, *meta_fields, *drop_fields]
    if len(set(given)) < len(given) or not set(init) <= set(given):
        raise ValueError(
            "data_fields, meta_fields and drop_fields must name each init field of "
            f"{cls.__name__} once: the fields are {init}, got data_fields="
            f"{list(data_fields)}, meta_fields={list(meta_fields)}, "
            f"drop_fields={list(drop_fields)}"
        )


def register_dataclass(
    nodetype: Class, data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None, drop_fields: Sequence[str] = (),
) -> Class:
    """Make a dataclass a container; its meta fields are compared, not traversed.

    Without lists, the fields with `metadata=dict(static=True)` are the meta fields.
    Usable as a decorator.
    """
    if (data_fields is None) != (meta_fields is None):
        raise TypeError("register_dataclass needs both data_fields and meta_fields")
    if data_fields is None:
        data_fields, meta_fields = dataclass_fields(nodetype, drop_fields)
    if dataclasses.is_dataclass(nodetype):
        check_fields(nodetype, data_fields, meta_fields, drop_fields)

    def flatten(x):
        meta = tuple(getattr(x, name) for name in meta_fields)
        return [getattr(x, name) for name in data_fields], meta

    def unflatten(meta, children):
        data = zip_dict(data_fields, children)
        return nodetype(**zip_dict(meta_fields, meta), **data)

    keys = lambda x: map(GetAttrKey, data_fields)
    register(nodetype, NodeType(flatten, unflatten, keys))
    return nodetype


def static(**kwargs: Any) -> Any:
    """`dataclasses.field` of a meta field, for `register_dataclass` (`jax.tree`)."""
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


class Partial(functools.partial):
    """`functools.partial` as a pytree: its arguments children, its function data."""

    def __new__(cls, func, *args, **kwargs):
        if not callable(func):
            raise TypeError(f"Partial: func must be callable, got {func!r}")
        # functools.partial would merge with a partial inside it, and what was fixed
        # there would become leaves.
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            func = Fixed(func)
        return super().__new__(cls, func, *args, **kwargs)


@dataclass(frozen=True)
class Fixed:
    """A `functools.partial` as a function without parts."""

    partial: functools.partial

    def __call__(self, *args, **kwargs):
        return self.partial(*args, **kwargs)


node_types |= {
    Partial: NodeType(
        lambda x: ((x.args, x.keywords), x.func),
        lambda func, children: Partial(func, *children[0], **children[1]),
        lambda x: map(GetAttrKey, ("args", "keywords")),
    )
}


# Says that an argument was not given.
not_given: Any = object()


def tree_reduce(
    function: Callable[..., Any], tree: PyTree, initializer: Any = not_given,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The leaves combined by function(total, leaf), as by `functools.reduce`."""
    begin = () if initializer is not_given else (initializer,)
    leaves = tree_leaves(tree, is_leaf)
    if not (leaves or begin):
        raise TypeError("reduce() of empty iterable with no initial value")
    return functools.reduce(function, leaves, *begin)


def tree_all(tree: PyTree, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None,
    pytree_to_transpose: PyTree,
) -> Any:
    """A tree of trees, inside out: a list of dicts becomes a dict of lists.

    Args:
      outer_treedef: the structure outside; `inner_treedef`: that of each part, or
        None to take the first part's.

    Raises TypeError unless the tree has as many leaves as both make.
    """
    if inner_treedef is None:
        first, *_ = outer_treedef.flatten_up_to(pytree_to_transpose)
        inner_treedef = tree_structure(first)
    found, n = tree_leaves(pytree_to_transpose), inner_treedef.num_leaves
    if len(found) != n * outer_treedef.num_leaves:
        expected = outer_treedef.compose(inner_treedef)
        raise TypeError(
            "Mismatch: tree_transpose's tree is not made of the structures given."
            f"\n  expected {abridged(expected)}"
            f"\n  got      {abridged(tree_structure(pytree_to_transpose))}"
        )
    columns = (outer_treedef.unflatten(found[i::n]) for i in range(n))
    return inner_treedef.unflatten(columns)


def broadcast_prefix(prefix_tree, full_tree, is_leaf=None):
    """The leaves of a prefix of `full_tree`, each repeated for the leaves below it.

    `jax.vmap`'s `in_axes` is such a prefix: (0, None) for arguments (x, (y, z)) is
    [0, None, None], with is_leaf=lambda x: x is None.
    """
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    subtrees = treedef.flatten_up_to(full_tree)
    counts = [tree_structure(subtree).num_leaves for subtree in subtrees]
    return [x for x, n in zip(leaves, counts, strict=True) for _ in range(n)]


def flatten_axes(name, treedef, axis_tree):
    """One entry of `axis_tree`, a prefix of `treedef`, for each leaf; None is an entry.

    `name` says in an error what `axis_tree` is: "vmap in_axes".
    """
    leaves, prefix = tree_flatten(axis_tree, is_leaf=lambda x: x is None)
    counts = leaves_below(prefix, treedef)
    if counts is not None:
        return [x for x, n in zip(leaves, counts, strict=True) for _ in range(n)]
    full = treedef.unflatten([object()] * treedef.num_leaves)
    difference = mismatch(prefix, full, ("the prefix tree", "the tree"))
    raise ValueError(
        f"{name} specification must be a tree prefix of the corresponding value: "
        f"{difference}"
    )


def prefix_errors(prefix_tree, full_tree, is_leaf=None):
    """Why a tree is no prefix of another: functions of a name that make a ValueError.

    As JAX's private function of this name, which libraries import; of several places
    that differ only the first is told.
    """
    prefix = tree_structure(prefix_tree, is_leaf)
    if leaves_below(prefix, tree_structure(full_tree)) is not None:
        return []

    def error(name):
        names = f"the prefix tree {name}", "the full tree"
        return ValueError(mismatch(prefix, full_tree, names))

    return [error]


def equality_errors(tree1, tree2, is_leaf=None):
    """Where two trees differ: (path, what is in the first, in the second, why).

    As JAX's private function of this name, which libraries import.
    """
    stack = [((), tree1, tree2)]
    while stack:
        path, x, y = stack.pop()
        first, second = (tree_structure(z, is_leaf).nodes[0] for z in (x, y))
        if first.type is second.type is Leaf:
            continue
        if type(x) is not type(y):
            yield path, str(type(x)), str(type(y)), "their Python types differ"
        elif first != second:
            why = "their children or their data differ"
            if isinstance(x, (list, tuple)):
                why = "the lengths do not match"
            yield path, node_in_words(first, x), node_in_words(second, y), why
        else:
            pairs = zip(
                flatten_one_level_with_keys(x)[0], flatten_one_level(y)[0], strict=True
            )
            below = [((*path, key), child, other) for (key, child), other in pairs]
            stack.extend(reversed(below))


def leaves_below(prefix, treedef):
    """How many leaves of `treedef` are below each leaf of a prefix; None of no prefix.

    Nothing is unflattened for it: a user's class may want other leaves than numbers.
    """
    counts, place = [], 0
    for node in prefix.nodes:
        if node.type is not Leaf:
            if treedef.nodes[place] != node:
                return None
            place += 1
            continue
        end, missing = place, 1
        while missing:
            missing += treedef.nodes[end].arity - 1
            end += 1
        counts.append(sum(n.type is Leaf for n in treedef.nodes[place:end]))
        place = end
    return counts
