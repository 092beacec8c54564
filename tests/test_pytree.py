"""Pytrees: taken apart, rebuilt, compared, mapped; their errors; against JAX's."""

import functools
import pickle
from collections import OrderedDict, defaultdict, namedtuple

import pytest
from harness import refused
from hypothesis import given, settings, strategies as st

from minijit import tree, tree_util
from minijit.trace.trees import paths, pytree
from minijit.trace.trees.paths import tree_flatten_with_path, tree_map_with_path
from minijit.trace.trees.pytree import (
    keystr, tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten,
)
from minijit.trace.trees.tools import Partial, flatten_axes, tree_transpose

pytestmark = pytest.mark.chapter(5)

Point = namedtuple("Point", "x y")


class Pair:
    """A registered class: one child and one datum."""

    def __init__(self, child, datum):
        self.child, self.datum = child, datum

    def __eq__(self, other):
        return (self.child, self.datum) == (other.child, other.datum)

    def tree_flatten(self):
        return (self.child,), self.datum

    @classmethod
    def tree_unflatten(cls, datum, children):
        return cls(*children, datum)


pytree.register_pytree_node_class(Pair)

printed = [
    (1, "*"),
    (None, "None"),
    ((), "()"),
    ([], "[]"),
    ({}, "{}"),
    ((1,), "(*,)"),
    ([1, (2, 3)], "[*, (*, *)]"),
    ({"b": 1, "a": (2, [3])}, "{'a': (*, [*]), 'b': *}"),
    ({2: 1, 1: None}, "{1: None, 2: *}"),
    (Point(1, 2), "CustomNode(namedtuple[Point], [*, *])"),
    (OrderedDict(b=1, a=2), "CustomNode(OrderedDict[('b', 'a')], [*, *])"),
    (defaultdict(list, b=1, a=2),
     "CustomNode(defaultdict[(<class 'list'>, ('a', 'b'))], [*, *])"),
    (Pair(1, "q"), "CustomNode(Pair[q], [*])"),
]


@pytest.mark.parametrize("example, text", printed)
def test_structures_print_as_in_jax(example, text):
    assert repr(tree_structure(example)) == f"PyTreeDef({text})"


@pytest.mark.parametrize("example, text", printed)
def test_round_trip(example, text):
    leaves, treedef = tree_flatten(example)
    again = tree_unflatten(treedef, leaves)
    assert again == example and type(again) is type(example)
    assert tree_structure(again) == treedef
    assert hash(tree_structure(again)) == hash(treedef)


def test_data_need_not_have_a_hash():
    structures = [tree_structure({"a": Pair(1, [name])}) for name in "rrs"]
    first, same, other = structures
    assert first == same != other
    assert hash(first) == hash(same) and len({*structures}) == 2


def test_what_is_a_leaf():
    class MyDict(dict):
        pass

    assert tree_leaves([MyDict(a=1), {3}, "ab", range(2)]) == [
        *(MyDict(a=1), {3}, "ab", range(2))
    ]
    assert tree_leaves([None, 1]) == [1]
    assert tree_leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
    assert tree_leaves([(1, 2), 3], is_leaf=lambda x: isinstance(x, tuple)) == [
        *((1, 2), 3)
    ]

    class Subpoint(Point):
        pass

    assert type(tree_map(abs, Subpoint(-1, 2))) is Subpoint


def test_tree_map():
    assert tree_map(lambda x: x + 1, {"a": (1, [2])}) == {"a": (2, [3])}
    assert tree_map(lambda x, y, z: x + y * z, (1, [2]), (3, [4]), (5, [6])) == (
        *(16,), [26],
    )
    # The first tree says where to stop.
    assert tree_map(lambda x, y: y, (1, 2), ((3, 4), [5])) == ((3, 4), [5])
    assert tree_map(lambda x: x, None) is None
    plus = lambda x, y: y if x is None else x + y
    assert tree_map(plus, (None, 1), (2, 3), is_leaf=lambda x: x is None) == (2, 4)


def mismatch(first, second):
    with pytest.raises(ValueError) as caught:
        tree_map(lambda x, y: None, first, second)
    return str(caught.value)


def test_an_error_names_the_place_and_both_structures():
    text = mismatch({"w": [1, (2, 3)]}, {"w": [1, (2, 3, 4)]})
    assert text == (
        "pytree structure error: different lengths of tuple at key path ['w'][1]: "
        "Tuple arity mismatch: 3 != 2\n"
        "  there the first tree has a tuple of length 2,\n"
        "  and tree number 2 has a tuple of length 3.\n"
        "  the first tree: PyTreeDef({'w': [*, (*, *)]})\n"
        "  tree number 2: PyTreeDef({'w': [*, (*, *, *)]})"
    )


@pytest.mark.parametrize("first, second, parts", [
    ((1, [2]), (1, (2,)), ["path [1]", "a list of", "a tuple of length 1"]),
    ((1, [2]), (1, 2), ["path [1]", "a list of length 1", "a leaf of type int"]),
    ({"a": 1}, {"b": 1}, ["(the root): Dict key mismatch", "['a']", "['b']"]),
    ((1, None), (1, 2), ["path [1]", "has None", "is_leaf=lambda x: x is None"]),
    (Point(1, (2,)), Point(1, 2), ["path .y", "a tuple of length 1"]),
    ([Point(1, 2)], [(1, 2)], ["path [0]", "a Point of length 2", "a tuple of"]),
    (Pair((1,), 0), Pair(1, 0), ["path [<flat index 0>]", "a leaf of type int"]),
    (Pair(1, "q"), Pair(1, "r"), ["1 children with data 'q'", "with data 'r'"]),
])  # fmt: skip
def test_mismatches(first, second, parts):
    text = mismatch(first, second)
    assert all(part in text for part in parts), text


def test_errors_do_not_run_on_for_pages():
    text = mismatch((list(range(10_000)), []), (list(range(10_000)), 1))
    assert "key path [1]" in text and len(text) < 1500
    keys = dict.fromkeys(range(10_000))
    assert len(mismatch(keys, {**keys, 10_000: None})) < 2500


def test_a_third_tree_is_named():
    with pytest.raises(ValueError, match="tree number 3 has a leaf of type int"):
        tree_map(lambda *xs: None, (1, (2,)), (1, (2,)), (1, 2))


def test_wrong_number_of_leaves():
    treedef = tree_structure((1, 2))
    with pytest.raises(ValueError, match=r"Too few leaves .*2, got 1.*\(\*, \*\)"):
        treedef.unflatten([1])
    with pytest.raises(ValueError, match="Too many leaves .* expected 2, got 3"):
        treedef.unflatten([1, 2, 3])


def test_keys_that_cannot_be_sorted():
    refused(ValueError, r"must be sortable.*\[1, 'a'\]", tree_flatten, {1: 2, "a": 3})


def test_a_deep_nest():
    deep = 1
    for _ in range(10_000):
        deep = [deep]
    leaves, treedef = tree_flatten(deep)
    assert leaves == [1] and treedef.num_nodes == 10_001
    assert treedef == tree_structure(tree_map(lambda x: x, deep))
    assert hash(treedef) == hash(tree_structure(deep))
    assert repr(treedef).startswith("PyTreeDef([[[[[")
    ((path, leaf),), _ = tree_flatten_with_path(deep)
    assert len(path) == 10_000


# With one leaf each, a list stands at the odd places only: the search for a list that
# contains itself must not wait for one at an even place.
@pytest.mark.parametrize("leaves, copies", [([], 1), ([], 2), ([1], 1)])
def test_a_list_that_contains_itself(leaves, copies):
    endless = [*leaves]
    endless += [endless] * copies
    for function in (tree_flatten, tree_flatten_with_path):
        refused(ValueError, "does a list in it contain itself", function, endless)


def test_how_deep_a_tree_may_be(monkeypatch):
    monkeypatch.setattr(paths, "suspicious_size", 8)
    paths.check_depth([[[[0]]]])
    refused(ValueError, "more than 4 levels deep", paths.check_depth, [[[[[0]]]]])


def test_a_wide_tree_is_not_taken_for_an_endless_one():
    wide = [(i, i) for i in range(pytree.suspicious_size)]
    assert tree_structure(wide).num_leaves == 2 * pytree.suspicious_size


def test_paths():
    example = {"a": [1, Point(2, 3)], "c": Pair(5, 6), "o": OrderedDict(b=1)}
    found, treedef = tree_flatten_with_path(example)
    assert treedef == tree_structure(example)
    assert [leaf for path, leaf in found] == tree_leaves(example)
    assert [keystr(path) for path, leaf in found] == [
        "['a'][0]", "['a'][1].x", "['a'][1].y", "['c'][<flat index 0>]", "['o']['b']",
    ]
    assert [keystr(p, simple=True, separator="/") for p, leaf in found] == [
        *("a/0", "a/1/x", "a/1/y", "c/0", "o/b")
    ]
    assert repr(found[0][0]) == "(DictKey(key='a'), SequenceKey(idx=0))"
    assert tree_util.GetAttrKey("x") == found[1][0][2]


def test_tree_map_with_path():
    example = {"a": [1, 2], "b": 3}
    names = tree_map_with_path(lambda path, x: keystr(path) + f"={x}", example)
    assert names == {"a": ["['a'][0]=1", "['a'][1]=2"], "b": "['b']=3"}
    added = tree_map_with_path(lambda path, x, y: x + y, example, example)
    assert added == {"a": [2, 4], "b": 6}
    assert tree_map_with_path(lambda path, x: x, {}) == {}
    by_path = lambda path, x: len(path) == 1
    stopped = tree_flatten_with_path(example, by_path, is_leaf_takes_path=True)[0]
    assert [leaf for path, leaf in stopped] == [[1, 2], 3]


def test_reduce_and_all():
    assert tree.reduce(lambda a, b: a + b, [1, (2,)]) == 3
    assert tree.reduce(lambda a, b: a + b, [1, (2,)], 10) == 13
    refused(TypeError, "empty", tree.reduce, lambda a, b: a + b, [])
    assert tree.all([True, None, (1,)]) and not tree.all([True, 0])


def test_transpose():
    outer, inner = tree_structure([0, 0]), tree_structure({"a": 0, "b": 0})
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    columns = {"a": [1, 3], "b": [2, 4]}
    assert tree_transpose(outer, inner, rows) == columns
    assert tree_transpose(outer, None, rows) == columns
    assert tree_transpose(inner, outer, columns) == rows
    # Leaves are counted, as in JAX: a node may flatten all that is below it.
    assert tree_transpose(outer, tree_structure((0, 0)), rows) == ([1, 3], [2, 4])
    with pytest.raises(TypeError, match="expected PyTreeDef.*\n.*got"):
        tree_transpose(outer, tree_structure((0, 0, 0)), rows)
    refused(TypeError, "Mismatch", tree_transpose, outer, inner, rows[:1])


def test_parts_of_a_treedef():
    treedef = tree_structure([1, (2, {"a": 3}), None])
    assert treedef.num_leaves == 3 and treedef.num_nodes == 7
    assert list(map(str, treedef.children())) == [
        "PyTreeDef(*)", "PyTreeDef((*, {'a': *}))", "PyTreeDef(None)",
    ]
    assert treedef.node_data() == (list, None)
    assert tree_structure({"b": 1}).node_data() == (dict, ("b",))
    assert tree_structure(1).node_data() is None
    assert str(tree_structure((1, 2)).compose(tree_structure([3]))) == (
        "PyTreeDef(([*], [*]))"
    )
    assert tree_structure((1, 2)).flatten_up_to(([1], 2)) == [[1], 2]
    assert treedef != 3 and treedef == pickle.loads(pickle.dumps(treedef))


def test_axes():
    treedef = tree_structure((1, (2, {"a": 3}), None))
    assert flatten_axes("in_axes", treedef, 0) == [0, 0, 0]
    assert flatten_axes("in_axes", treedef, (0, None, 1)) == [0, None, None]
    assert flatten_axes("in_axes", treedef, (0, (1, None), 2)) == [0, 1, None]
    with pytest.raises(ValueError, match="in_axes .* tree prefix .* at key path \\[1"):
        flatten_axes("vmap in_axes", treedef, (0, (1, 2, 3), None))


def test_registering():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    assert isinstance(tree_leaves([Box(1)])[0], Box)
    pytree.register_pytree_node(
        Box,
        lambda box: ([box.inside], None),
        lambda _, children: Box(*children),
        lambda box: ([(tree_util.GetAttrKey("inside"), box.inside)], None),
    )
    assert tree_leaves([Box((1, 2))]) == [1, 2]
    assert keystr(tree_flatten_with_path([Box(1)])[0][0][0]) == "[0].inside"
    with pytest.raises(ValueError, match="Duplicate custom PyTreeDef type"):
        pytree.register_pytree_node(Box, None, None)
    with pytest.raises(TypeError, match="only a class can be registered"):
        pytree.register_pytree_node(3, None, None)


def test_partial_of_a_partial():
    # What functools.partial fixed is part of the function, and no leaf.
    inner = functools.partial(lambda mode, x, y: (mode, x, y), "fast")
    part = Partial(inner, 1)
    assert tree_leaves(part) == [1] and part(2) == ("fast", 1, 2)
    assert tree_structure(part) == tree_structure(Partial(inner, 2))
    nested = Partial(Partial(inner, 1), 2)
    assert tree_leaves(nested) == [1, 2] and nested() == ("fast", 1, 2)


keys = st.sampled_from("abcd")
trees = st.recursive(
    st.integers() | st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
        st.builds(Point, inner, inner),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(trees, trees)
def test_random_trees(one, other):
    leaves, treedef = tree_flatten(one)
    assert treedef.unflatten(leaves) == one
    assert treedef.num_leaves == len(leaves)
    assert tree_leaves(tree_map(str, one)) == list(map(str, leaves))
    assert [leaf for path, leaf in tree_flatten_with_path(one)[0]] == leaves
    same = str(treedef) == str(tree_structure(other))
    assert same == (treedef == tree_structure(other))
    outside = tree_structure(other)
    assert outside.compose(treedef).num_leaves == outside.num_leaves * len(leaves)
    if outside.num_leaves:
        children = tree_structure([one, other]).children()
        assert children == [treedef, outside]


@pytest.mark.oracle
@settings(deadline=None, max_examples=100)
@given(trees, trees)
def test_jax_agrees_on_random_trees(one, other):
    jax = pytest.importorskip("jax")
    theirs = jax.tree_util
    leaves, treedef = theirs.tree_flatten(one)
    assert tree_leaves(one) == leaves
    assert str(tree_structure(one)) == str(treedef)
    assert tree_structure(one).num_nodes == treedef.num_nodes
    paths = [theirs.keystr(p) for p, leaf in theirs.tree_leaves_with_path(one)]
    assert [keystr(p) for p, leaf in tree_flatten_with_path(one)[0]] == paths
    assert (tree_structure(other) == tree_structure(one)) == (
        theirs.tree_structure(other) == treedef
    )
    try:
        expected = treedef.flatten_up_to(other)
    except ValueError:
        with pytest.raises(ValueError, match="pytree structure error"):
            tree_structure(one).flatten_up_to(other)
    else:
        assert tree_structure(one).flatten_up_to(other) == expected
