"""More pytrees: dataclasses, static classes, structures of structures."""

import functools
from dataclasses import dataclass, field, fields

import pytest
from harness import refused

from minijit import tree, tree_util
from minijit.trace.trees.paths import tree_flatten_with_path
from minijit.trace.trees.pytree import DictKey, keystr, tree_leaves, tree_map
from minijit.tree_util import tree_structure

pytestmark = pytest.mark.chapter(5)


@tree_util.register_dataclass
@dataclass
class Layer:
    weight: object
    bias: object = None
    name: str = field(default="layer", metadata={"static": True})


def test_dataclasses():
    layer = Layer(1, (2, 3), "first")
    assert str(tree_structure(layer)) == (
        "PyTreeDef(CustomNode(Layer[('first',)], [*, (*, *)]))"
    )
    assert tree_map(lambda x: x * 2, layer) == Layer(2, (4, 6), "first")
    paths = [keystr(path) for path, leaf in tree_flatten_with_path(layer)[0]]
    assert paths == [".weight", ".bias[0]", ".bias[1]"]
    with pytest.raises(ValueError, match="data \\('first',\\).*\n.*data \\('second',"):
        tree_map(lambda x, y: x, layer, Layer(1, (2, 3), "second"))


def test_dataclass_fields_given_by_name():
    @functools.partial(
        tree_util.register_dataclass, data_fields=["a"], meta_fields=["b"]
    )
    @dataclass
    class Given:
        a: object
        b: object
        computed: int = field(init=False, default=7)

    assert tree_leaves(Given(1, 2)) == [1]
    assert tree_map(lambda x: x + 1, Given(1, 2)) == Given(2, 2)


@pytest.mark.parametrize("fields, text", [
    ((["a"], []), r"fields are \['a', 'b'\], got data_fields=\['a'\]"),
    ((["a", "b"], ["b"]), "must name each init field of Two once"),
])  # fmt: skip
def test_dataclass_fields_must_be_named_once(fields, text):
    @dataclass
    class Two:
        a: object
        b: object

    refused(ValueError, text, tree_util.register_dataclass, Two, *fields)


def test_what_register_dataclass_refuses():
    refused(TypeError, "int is no dataclass", tree_util.register_dataclass, int)
    with pytest.raises(TypeError, match="needs both data_fields and meta_fields"):
        tree_util.register_dataclass(Layer, ["weight"])


def test_drop_fields():
    @dataclass
    class Cached:
        a: object
        cache: object = None

    tree_util.register_dataclass(Cached, drop_fields=["cache"])
    assert tree_map(lambda x: x + 1, Cached(1, "old")) == Cached(2, None)


def test_static_classes():
    @tree_util.register_static
    class Mode(str):
        pass

    assert tree_leaves([Mode("fast"), 1]) == [1]
    assert tree_structure(Mode("fast")) == tree_structure(Mode("fast"))
    assert tree_structure(Mode("fast")) != tree_structure(Mode("slow"))
    assert tree_map(lambda x: x, [Mode("fast"), 1]) == [Mode("fast"), 1]


def test_classes_with_keys():
    @tree_util.register_pytree_with_keys_class
    class Named:
        def __init__(self, a):
            self.a = a

        def tree_flatten_with_keys(self):
            return ((tree_util.GetAttrKey("a"), self.a),), None

        @classmethod
        def tree_unflatten(cls, data, children):
            return cls(*children)

    (path, leaf), = tree_flatten_with_path(Named(3))[0]
    assert keystr(path) == ".a" and leaf == 3
    assert tree_map(lambda x: x + 1, Named(3)).a == 4


def test_reduce_in_pairs():
    total = tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcde"))
    assert total == "(((ab)(cd))e)"
    assert tree.reduce_associative(max, [], identity=0) == 0
    refused(ValueError, "needs an identity", tree.reduce_associative, max, [])


def test_broadcast():
    assert tree.broadcast((1, 2), (0, (0, [0]))) == (1, (2, [2]))
    assert tree.broadcast(1, {"a": 0, "b": ()}) == {"a": 1, "b": ()}


def test_build_tree():
    treedef = tree_structure([0, (0, 0)])
    assert tree_util.build_tree(treedef, (1, [2, 3])) == [1, (2, 3)]
    with pytest.raises(ValueError, match="expected a tuple of length 2, got 3 items"):
        tree_util.build_tree(treedef, [1, [2, 3, 4]])


def test_structures_of_structures():
    one, two = tree_structure(1), tree_structure([2, None])
    both = tree_util.treedef_tuple([one, two])
    assert both == tree_structure((1, [2, None]))
    assert tree_util.treedef_children(both) == [one, two]
    assert tree_util.treedef_is_leaf(one) and not tree_util.treedef_is_leaf(two)


def test_questions_about_values():
    assert tree_util.all_leaves([1, "a"]) and not tree_util.all_leaves([1, None])
    assert tree_util.is_tree_node(list) and not tree_util.is_tree_node(int)
    assert tree_util.flatten_one_level([(1, 2), 3]) == ([(1, 2), 3], None)
    named = {"a": [1], "b": 2}
    assert tree_util.flatten_one_level(named) == (([1], 2), ("a", "b"))
    pairs, data = tree_util.flatten_one_level_with_keys(named)
    assert pairs == ((DictKey("a"), [1]), (DictKey("b"), 2)) and data == ("a", "b")
    with pytest.raises(ValueError, match="can't tree-flatten type: <class 'int'>"):
        tree_util.flatten_one_level(1)


@pytest.mark.oracle
def test_jax_has_the_names():
    jax = pytest.importorskip("jax")
    missing = {name for name in dir(jax.tree_util) if name[0] != "_"} - {
        name for name in dir(tree_util) if name[0] != "_"
    }
    assert missing == {"default_registry"}
    names = {name for name in dir(jax.tree) if name[0] != "_"} - {*tree.__all__}
    assert names <= {"static"}


def test_static_marks_a_meta_field():
    @tree_util.register_dataclass
    @dataclass
    class Operation:
        x: object
        name: str = tree.static(default="add", metadata={"unit": "m"})

    leaves, treedef = tree.flatten(Operation(1))
    assert leaves == [1] and tree.unflatten(treedef, [2]) == Operation(2, "add")
    assert fields(Operation)[1].metadata == {"static": True, "unit": "m"}
