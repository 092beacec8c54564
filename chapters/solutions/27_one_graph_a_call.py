"""Solutions to chapter 27."""

from minijit.run.cuda.nodes import CopyNode, Memory, waits_of


def longest(waits, times):
    ends = []
    for before, time in zip(waits, times, strict=True):
        ends.append(max((ends[j] for j in before), default=0) + time)
    return max(ends, default=0)


def check_longest(longest):
    """When is each node done?  Go through them in order."""
    assert longest([(), (0,), (1,)], [1, 2, 3]) == 6
    assert longest([(), (), (0, 1)], [5, 1, 2]) == 7
    assert longest([(), (0,), (0,), (2,)], [1, 9, 2, 3]) == 10
    assert longest([(), ()], [3, 4]) == 4
    assert longest([], []) == 0


def split_copies(steps, most):
    found = []
    for node in steps:
        if not isinstance(node, CopyNode):
            found.append(node)
            continue
        (source,), (target,) = node.reads, node.writes
        for start in range(0, source.nbytes, most):
            size = min(most, source.nbytes - start)
            refs = (ref.part(start, size) for ref in (source, target))
            found.append(CopyNode(*((ref,) for ref in refs)))
    return found


def check_split_copies(split_copies):
    """Other nodes stay what they are; the last part may be smaller."""
    a, b, c = (Memory(name, 100).all for name in "abc")
    big, small = CopyNode((a,), (b,)), CopyNode((b.part(0, 10),), (c.part(5, 10),))
    found = split_copies([big, small], 40)
    assert [n.reads[0].nbytes for n in found] == [40, 40, 20, 10]
    assert [n.writes[0].offset for n in found] == [0, 40, 80, 5]
    assert [n.reads[0].memory.name for n in found] == ["a", "a", "a", "b"]
    waits, _ = waits_of(found)
    assert waits == [(), (), (), (0,)]
    other = object()
    assert split_copies([other], 40) == [other]
