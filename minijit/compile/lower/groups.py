"""Groups: the kernels and calls to be, while the walk of `lower` goes on.

    groups = Groups()
    group = groups.new((i, j))       # a kernel that stores at the index (i, j)
    groups.precede(other, [group])   # `other` computes what `group` reads
    groups.room_for(...)             # a kernel in which one more array can be stored
    groups.in_order()                # an order to run them in
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from ..loops.graphs import sorted_steps
from ..settings import config


@dataclass(eq=False)
class Group:
    """What will become one kernel, or one call.

    Attributes:
      number: groups made later run earlier, if nothing else decides.
      axes, nest: the index at which it stores, and the same from the outermost loop on.
      shape: of the stored variables, if more of them may join.
      stores: statements, on variables where buffers will be.
      values: the stored variables at `axes`, known there without a load.
      make: if it is no loop nest, `make(arrays, eqns)` is its statement.
      eqns: those that it computes; seen: the expressions looked through.
      reads: the variables that it loads, as far as one can tell.
      size: of how many operations; has_total: whether it has loops for totals.
      fed: whether another group has to run before it.
    """

    number: int
    axes: tuple = ()
    nest: tuple = ()
    shape: tuple | None = None
    stores: list = field(default_factory=list)
    values: dict = field(default_factory=dict)
    make: object = None
    eqns: dict = field(default_factory=dict)
    seen: set = field(default_factory=set)
    reads: frozenset = frozenset()
    size: int = 0
    has_total: bool = False
    fed: bool = False

    def take(self, eqn, row):
        """Note that it computes an element of an equation's result."""
        self.eqns[eqn] = None
        self.size += 1
        self.has_total |= row.total


class Groups:
    """All groups of a walk, and which of them must run before which.

    Attributes:
      all: the groups, those that were made later last.
      after: for each of them a bit mask of those that must run after it.
      edges: pairs of numbers: the first group writes what the second reads.
      rooms: by shape and array the last few groups that store that shape and read it.
    """

    def __init__(self):
        self.all = []
        self.after = []
        self.edges = set()
        self.rooms = defaultdict(lambda: deque(maxlen=8))

    def new(self, axes=(), nest=None, shape=None, kind=Group):
        """A new group, that is a new kernel or call."""
        # An axis of one element is the constant 0, and needs no loop.
        nest = tuple(i for i in (axes if nest is None else nest) if i.free)
        group = kind(len(self.all), axes, nest, shape)
        self.all.append(group)
        self.after.append(0)
        return group

    def precede(self, first, readers):
        """Note that group `first` has to run before the groups that read from it."""
        for reader in list(readers):
            if reader is not first:
                self.join(first, reader)

    def join(self, first, second):
        """Note that group `first` has to run before group `second`."""
        reached = self.after[second.number] | 1 << second.number
        second.fed = True
        self.edges.add((first.number, second.number))
        if reached & ~self.after[first.number] == 0:
            return
        self.after[first.number] |= reached
        if first.fed:
            for number, mask in enumerate(self.after):
                if mask >> first.number & 1:
                    self.after[number] |= reached

    def room_for(self, var, row, readers, reads, new_axis):
        """The group to store a variable in: one of the same shape, or a new one.

        It may join a group that reads it, or an array that it reads, too: together they
        read that once.  A few numbers, which many kernels may read, are no reason.
        """
        shape, size = var.aval.shape, var.aval.size
        large = [v for v in reads if v.aval.size >= size]
        # Those that came last are asked first: `reads` has no order of its own.
        alike = {
            (place, -group.number): group
            for v in large
            for place, group in enumerate(reversed(self.rooms[shape, v]))
        }
        last = [alike[key] for key in sorted(alike)]
        for group in dict.fromkeys([*readers, *last]):
            if self.has_room(group, shape, row, readers, reads):
                break
        else:
            group = self.new(tuple(map(new_axis, shape)), shape=shape)
        group.reads |= reads
        for v in large:
            if group not in self.rooms[shape, v]:
                self.rooms[shape, v].append(group)
        return group

    def has_room(self, group, shape, row, readers, reads):
        """Whether a variable can be stored in a group.

        The group may read it only at the index it is stored at, and no path may lead
        from the group through a third one back to it.
        """
        settings = config.fusion
        return (
            group.shape == shape
            and set(readers.get(group, ())) <= {group.axes}
            and bool(shape or not (row.total and group.has_total))
            and group.size <= settings.most_operations
            and len(group.reads | reads) + len(group.stores) < settings.most_buffers
            and not any(self.after[r.number] >> group.number & 1 for r in readers)
        )

    def in_order(self):
        """The groups, each after those it needs, otherwise as in the jaxpr."""
        # The group made last holds what comes first.
        before = {-group.number: [] for group in self.all}
        for first, second in self.edges:
            before[-second].append(-first)
        order = sorted_steps(before)
        assert order is not None, "kernels wait for each other in a ring"
        return [self.all[-n] for n in order]
