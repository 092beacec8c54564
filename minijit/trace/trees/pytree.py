"""Pytrees: nested containers taken apart into leaves, and put together again.

    leaves, treedef = tree_flatten({"w": 1.0, "b": (2.0, 3.0)})
    leaves                                       # [2.0, 3.0, 1.0]: keys are sorted
    treedef                                      # PyTreeDef({'b': (*, *), 'w': *})
    tree_unflatten(treedef, [x * 10 for x in leaves])
    tree_map(jnp.add, params, updates)           # leaf by leaf, of trees alike

A treedef is written as a list of nodes, each before its children (Polish notation):

    {"b": (2.0, 3.0), "w": 1.0}   ->   [dict of 2, tuple of 2, *, *, *]

So to flatten, to rebuild and to compare are plain loops over a list, however deep
the nest.  Which types are nodes, and not leaves, says the table `node_types`;
`register_pytree_node` adds a type.  None is a node without children.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..base.errors import abridged
from ..jaxprs.jaxpr import flattening
from ..types import Class, PyTree

# A tree with this many nodes is looked at once for having no end.
suspicious_size = 100_000

# What is to be said when something is wrong with a tree; `paths.py` says more.
diagnoses = {
    "check_depth": lambda tree, is_leaf: None,
    "mismatch": lambda treedef, tree, names: "pytree structure error",
}


def sorted_keys(x):
    """The keys of a dict in the order in which its values are flattened."""
    try:
        return tuple(sorted(x))
    except TypeError as error:
        raise ValueError(
            "the keys of a dict in a pytree must be sortable, so that equal dicts "
            f"have equal structures; got {list(x)!r}: {error}"
        ) from error


def show_node(node, children):
    """How a node prints in a treedef, as in JAX's."""
    text = ", ".join(children)
    if node.type is type(None):
        return "None"
    if node.type is tuple:
        return f"({text},)" if node.arity == 1 else f"({text})"
    if node.type is list:
        return f"[{text}]"
    if node.type is dict:
        items = zip(node.data, children, strict=True)
        return "{" + ", ".join(f"{key!r}: {child}" for key, child in items) + "}"
    name, data = node.type.__name__, node.data
    if node.data is node.type:
        name, data = "namedtuple", node.type.__name__
    return f"CustomNode({name}[{data}], [{text}])"


@dataclass(frozen=True)
class NodeType:
    """How to take one kind of container apart, and make it again.

    Attributes:
      flatten: x -> (children, data).
      unflatten: (data, children) -> x.
      keys: x -> a key for each child, for the path to it; else they are counted.
    """

    flatten: Callable
    unflatten: Callable
    keys: Callable | None = None


node_types = {
    type(None): NodeType(lambda x: ((), None), lambda data, children: None),
    tuple: NodeType(
        lambda x: (x, None),
        lambda data, children: tuple(children),
        lambda x: map(SequenceKey, range(len(x))),
    ),
    list: NodeType(
        lambda x: (x, None),
        lambda data, children: list(children),
        lambda x: map(SequenceKey, range(len(x))),
    ),
}


def zip_dict(keys, children):
    return dict(zip(keys, children, strict=True))


def flatten_dict(x):
    keys = sorted_keys(x)
    return [x[key] for key in keys], keys


node_types |= {
    dict: NodeType(flatten_dict, zip_dict, lambda x: map(DictKey, sorted_keys(x))),
    # An OrderedDict is told apart by its order, so its keys are not sorted.
    OrderedDict: NodeType(
        lambda x: (x.values(), tuple(x)),
        lambda keys, children: OrderedDict(zip_dict(keys, children)),
        lambda x: map(DictKey, x),
    ),
    defaultdict: NodeType(
        lambda x: (flatten_dict(x)[0], (x.default_factory, sorted_keys(x))),
        lambda data, children: defaultdict(data[0], zip_dict(data[1], children)),
        lambda x: map(DictKey, sorted_keys(x)),
    ),
}

namedtuple_type = NodeType(
    lambda x: (x, type(x)),
    lambda kind, children: kind(*children),
    lambda x: map(GetAttrKey, x._fields),
)


def node_type(kind):
    """How to flatten instances of the class `kind`; None if they are leaves.

    Subclasses are leaves unless registered, except of namedtuples.
    """
    found = node_types.get(kind)
    if found is None and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return namedtuple_type
    return found


def make_node(node, children):
    """The container a node stands for, around its children."""
    return node_type(node.type).unflatten(node.data, tuple(children))


def matching_children(node, x):
    """The children of x if it is of the same type and shape as a node, else None."""
    if type(x) is not node.type:
        return None
    children, data = node_type(node.type).flatten(x)
    children = tuple(children)
    return children if len(children) == node.arity and data == node.data else None


class Described:
    """What a structure tells of itself: its text, its parts, itself within another."""

    __slots__ = ()
    nodes: tuple[Node, ...]
    num_leaves: int
    fold: Callable[..., Any]

    def __repr__(self):
        return f"PyTreeDef({self.fold(['*'] * self.num_leaves, show_node)})"

    def __reduce__(self):
        return type(self), (self.nodes,)

    @property
    def num_nodes(self):
        return len(self.nodes)

    def node_data(self):
        """-> (type, data) of the outermost node; None of a leaf."""
        node = self.nodes[0]
        return None if node.type is Leaf else (node.type, node.data)

    def children(self):
        """The treedefs of the outermost node's children."""
        parts, missing = [], 0
        for node in self.nodes[1:]:
            if missing == 0:
                parts.append([])
                missing = 1
            parts[-1].append(node)
            missing += node.arity - 1
        return [PyTreeDef(tuple(part)) for part in parts]

    def compose(self, inner):
        """This structure with the structure `inner` in place of each leaf."""
        parts = (inner.nodes if n.type is Leaf else (n,) for n in self.nodes)
        return PyTreeDef(tuple(node for part in parts for node in part))


# ---- keys: what one step down a tree is called, and how paths are written


@dataclass(frozen=True)
class SequenceKey:
    """The step to item `idx` of a list or a tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx}]"


@dataclass(frozen=True)
class DictKey:
    """The step to the value of a dict at `key`."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """The step to the attribute `name`."""

    name: str

    def __str__(self):
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """The step to child number `key` of a container whose type names no keys."""

    key: int

    def __str__(self):
        return f"[<flat index {self.key}>]"


def keystr(path: Any, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `['w'][0].x`; `simple` with a separator "/" gives `w/0/x`."""
    if not simple:
        return separator.join(map(str, path))
    return separator.join(map(simple_key, path))


def simple_key(key):
    """The bare name or number of a key."""
    for field in ("key", "idx", "name"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return str(key)


# ---- nodes


class Leaf:
    """The type of the nodes that stand for leaves."""


class Node(NamedTuple):
    """One node of a treedef.

    Attributes:
      type: the container's class, or `Leaf`.
      data: what beside its children makes it: a dict's keys, say.
      arity: how many children it has; they follow it in the list of nodes.
    """

    type: Any
    data: Any
    arity: int


leaf_node = Node(Leaf, None, 0)


# chapter 5
def tree_flatten(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree, left to right, and its structure.

    Args:
      tree: containers in containers; whatever is none of `node_types` is a leaf.
      is_leaf: optional, x -> bool: also stop at nodes for which it is true.

    Returns: (list of leaves, PyTreeDef).
    """
    leaves, nodes = [], []
    stack = [tree]
    while stack:
        if len(nodes) == suspicious_size:
            diagnoses["check_depth"](tree, is_leaf)
        x = stack.pop()
        how = None if is_leaf is not None and is_leaf(x) else node_type(type(x))
        if how is None:
            leaves.append(x)
            nodes.append(leaf_node)
            continue
        children, data = how.flatten(x)
        children = tuple(children)
        nodes.append(Node(type(x), data, len(children)))
        stack.extend(reversed(children))
    return leaves, PyTreeDef(tuple(nodes))


class PyTreeDef(Described):
    """The structure of a pytree: its nodes in order, each before its children.

    Two are equal if their nodes are, whatever the leaves were.
    """

    __slots__ = ("nodes", "num_leaves")

    def __init__(self, nodes):
        self.nodes = nodes
        self.num_leaves = sum(node.type is Leaf for node in nodes)

    def __eq__(self, other):
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return self.nodes is other.nodes or self.nodes == other.nodes

    def __hash__(self):
        # The data of a user's node may have no hash: it need only be comparable.
        return hash(tuple((node.type, node.arity) for node in self.nodes))

    def fold(self, leaves, make):
        """Build from the leaves upwards, with make(node, children) for each node."""
        # Backwards, the children of a node come before it, the first on top.
        stack = []
        leaves = list(leaves)
        for node in reversed(self.nodes):
            if node.type is Leaf:
                stack.append(leaves.pop())
            else:
                stack.append(make(node, [stack.pop() for _ in range(node.arity)]))
        result, = stack
        return result

    def unflatten(self, leaves):
        """The pytree of this structure with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            many = "few" if len(leaves) < self.num_leaves else "many"
            raise ValueError(
                f"Too {many} leaves for PyTreeDef; expected {self.num_leaves}, got "
                f"{len(leaves)}: {abridged(self)}"
            )
        return self.fold(leaves, make_node)

    def flatten_up_to(self, tree, names=("the prefix tree", "the tree")):
        """Take `tree` apart as far as this structure goes: -> list of subtrees.

        Raises ValueError, naming the place, unless this structure is a prefix of it.
        """
        subtrees = []
        stack = [tree]
        for node in self.nodes:
            x = stack.pop()
            if node.type is Leaf:
                subtrees.append(x)
                continue
            children = matching_children(node, x)
            if children is None:
                raise ValueError(diagnoses["mismatch"](self, tree, names))
            stack.extend(reversed(children))
        return subtrees


def tree_map(
    f: Callable[..., Any], tree: PyTree, *rest: PyTree,
    is_leaf: Callable[[Any], bool] | None = None,
) -> PyTree:
    """A pytree like `tree`, each leaf replaced by f(leaf, *what the others have there).

    The others may go on where `tree` has a leaf: f gets a subtree then.
    Raises ValueError, naming the place, where they differ otherwise.
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [leaves] + [
        treedef.flatten_up_to(other, ("the first tree", f"tree number {i}"))
        for i, other in enumerate(rest, start=2)
    ]
    return treedef.unflatten([f(*xs) for xs in zip(*columns, strict=True)])


# chapter 5, brought along


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> PyTree:
    """The inverse of `tree_flatten`: the pytree of this structure and these leaves."""
    return treedef.unflatten(leaves)


# From here on functions of trees can be recorded (`make_jaxpr`).  In messages all
# leaves of an argument bear its name, until `paths.py` has better ones.
flattening |= {
    "flatten": tree_flatten,
    "unflatten": tree_unflatten,
    "leaf_names": lambda name, tree: [name for leaf in tree_leaves(tree)],
}


def tree_leaves(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any]:
    """The leaves of a pytree, left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> PyTreeDef:
    """The structure of a pytree."""
    return tree_flatten(tree, is_leaf)[1]


def register(kind, how):
    """Add a row to `node_types`; ValueError if there is one."""
    if not isinstance(kind, type):
        raise TypeError(f"only a class can be registered as a pytree, got {kind!r}")
    if kind in node_types:
        raise ValueError(f"Duplicate custom PyTreeDef type registration for {kind}.")
    node_types[kind] = how


def register_pytree_node(
    nodetype: type, flatten_func: Callable[..., Any],
    unflatten_func: Callable[..., Any],
    flatten_with_keys_func: Callable[..., Any] | None = None,
) -> None:
    """Make instances of a class containers.  JAX: the same name in `jax.tree_util`.

    Args:
      flatten_func: x -> (children, data).  The data is compared and hashed.
      unflatten_func: (data, children) -> x.
      flatten_with_keys_func: optional, x -> ([(key, child), ...], data).
    """
    keys = None
    if flatten_with_keys_func is not None:
        keys = lambda x: [key for key, child in flatten_with_keys_func(x)[0]]
    register(nodetype, NodeType(flatten_func, unflatten_func, keys))


def register_pytree_node_class(cls: Class) -> Class:
    """Class decorator, for a class with methods `tree_flatten`, `tree_unflatten`."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls
