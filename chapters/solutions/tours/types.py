"""Solutions to the tour types.ipynb."""

import itertools

from minijit.trace.dtypes import wider

# The types of chapter 3.  Those of 8 bits and fewer mix with no other type.
last = "complex128"
lattice = {
    node: [after for after in nodes if wider[after] or after == last]
    for node, nodes in wider.items()
    if nodes or node == last
}


def reached(graph, node):
    return {node}.union(*(reached(graph, after) for after in graph[node]))


def mix(graph, a, b):
    common = reached(graph, a) & reached(graph, b)
    least = [node for node in common if common <= reached(graph, node)]
    if len(least) != 1:
        raise TypeError(f"{a} and {b} have no least type above them")
    return least[0]


def check_mix(mix):
    """What both reach; and of that the type that reaches all the rest."""
    assert mix(wider, "int32", "float16") == "float16"
    assert mix(wider, "uint8", "int8") == "int16"
    assert mix(wider, "int*", "bool") == "int*"
    assert mix(wider, "float64", "complex64") == "complex128"
    for graph in ({"a": [], "b": []}, {"a": "cd", "b": "cd", "c": [], "d": []}):
        try:
            mix(graph, "a", "b")
        except TypeError:
            continue
        raise AssertionError("there is no least type above a and b: a TypeError")


def with_float8(graph):
    others = [node for node in graph["float*"] if node != "complex*"]
    return graph | {"float*": ["float8", "complex*"], "float8": others}


def check_with_float8(with_float8):
    """It stands between float* and the two floats of 16 bits."""
    before = {node: list(after) for node, after in lattice.items()}
    graph = with_float8(lattice)
    assert lattice == before, "the graph that was given has changed"
    pairs = {"bfloat16": "bfloat16", "float16": "float16", "int64": "float8"}
    pairs |= {"float*": "float8", "complex*": "complex64", "bool": "float8"}
    for other, want in pairs.items():
        assert reference(graph, "float8", other) == want, other
    for a, b in itertools.product(before, repeat=2):
        assert reference(graph, a, b) == reference(before, a, b), (a, b)


reference = mix
