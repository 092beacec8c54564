"""What fusion asks of two kernels: which loops they share, and what that would save.

    a, b = Part.of(0, kernel), Part.of(1, other)
    shared_axes(a, b)               # {axis of a: the axis of b that is the same}
    saved_bytes(a, b, alone)        # what no longer goes through memory

And what of a kernel is wanted at all: a store that nobody loads from is dead.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property

from ..loops.contents import is_nest, loads_of, perfect, stores_in
from ..loops.expressions import Axis, Load, Op, Reduce, as_index, op
from ..loops.graphs import postorder, substitute
from ..loops.scalars import is_half
from ..loops.statements import (
    For, If, Kernel, Store, changed, expressions, nested, statements,
)

# The primitives that nothing is fused across: each with the rule that says why.
barriers: dict = {}


def between_them(a, b):
    """The rule of a barrier in b, behind what a computes; or None."""
    stops = [eqn for eqn in b.step.eqns if eqn.primitive in barriers]
    made = {var for eqn in a.step.eqns for var in eqn.outvars} if stops else ()
    found = (e.primitive for e in stops if any(atom in made for atom in e.invars))
    return barriers.get(next(found, None))


def after_loop(body):
    """The totals beside a kernel's loop: the stores behind it, or nothing.

    They add up what each step of the loop has left in an array of the kernel's own.
    """
    loop, *after = body or (None,)
    if not isinstance(loop, For) or not all(isinstance(s, Store) for s in after):
        return ()
    return tuple(after) if shares_of((loop,), after) else ()


def shares_of(loops, after):
    """The stores in loops that leave the shares of totals in what comes after them."""
    loaded, stores = loaded_buffers(after), stores_in(loops)
    return [s for s in stores if s.buffer.space == "cache" and s.buffer in loaded]


def in_own_rows(kernel):
    """A scatter whose loops go over rows of the result, in any order; or the kernel.

    A row is an axis of the result that an axis of the updates goes along, and where in
    the row something is stored may depend on which row it is.
    The order of a loop matters where two steps may write to one element.  A condition
    becomes a choice of what is stored, so that stores are all that is left.
    """
    axes, inside = perfect(kernel.body)
    guard = next((s for s in inside if isinstance(s, If)), None)
    stores = guard.then if guard else inside
    if is_nest(kernel.body) or [*map(type, stores)] != [Store] or len(inside) > 1:
        return kernel
    (store,), dtype = stores, stores[0].buffer.dtype
    loads = loads_of(inside)
    places = [i for i in store.index if type(i) is not Axis]
    chosen = frozenset().union(*(i.free for i in places))
    rows = [a for a in axes if a in store.index and (a.kind == "serial" or a in chosen)]
    if (
        dtype.kind not in "iuf" or is_half(dtype) or guard and guard.otherwise
        or any(load.buffer is store.buffer for load in loads)
        or not rows or any(a.kind != "loop" for a in axes if a not in rows)
    ):
        return kernel
    index = store.index
    if guard:
        limits = [as_index(n - 1) for n in store.buffer.shape]
        index = [op("min", i, n) for i, n in zip(index, limits, strict=True)]
        index = tuple(op("max", i, as_index(0)) for i in index)
    old, value = Load(store.buffer, index), store.value
    if store.combine:
        value = op(store.combine, old, value)
    if guard:
        value = op("select", guard.pred, value, old)
    names = {axis: Axis(axis.extent) for axis in rows}
    *index, value = substitute([*index, value], names.get)
    store = Store(store.buffer, tuple(index), value)
    return replace(kernel, body=nested([names.get(a, a) for a in axes], [store]))


@dataclass(eq=False)
class Part:
    """A step of a program, or a loop within one, as fusion sees it.

    Attributes:
      number: its place in the program; step: the kernel or call.
      axes, body: the loops around all of it, and what they are around.
      after: the totals beside these loops, of what their steps leave.
      loads, stores: {buffer: the indices at which it is read or written}.
      size: how many operations it has.
      was: the kernel as it is if nothing is fused with it, where that is another one.
    """

    number: int
    step: object
    axes: tuple
    body: tuple
    loads: dict
    stores: dict
    size: int = 0
    was: object = None
    after: tuple = ()

    @classmethod
    def of(cls, number, step):
        """What a kernel or a call is to fusion."""
        if isinstance(step, Kernel):
            nest = in_own_rows(step)
            part = cls.inside(number, nest, nest.body)
            return part if nest is step else replace(part, was=step)
        sides = (step.inputs, step.outputs)
        return cls(number, step, (), (), *({v.buffer: [()] for v in s} for s in sides))

    @classmethod
    def inside(cls, number, step, body):
        """What some statements are to fusion."""
        loads, stores, size = defaultdict(list), defaultdict(list), 0
        for expr in postorder(expressions(body)):
            if type(expr) is Load:
                loads[expr.buffer].append(expr.index)
            size += type(expr) in (Op, Reduce)
        for stmt in statements(body):
            if isinstance(stmt, Store):
                stores[stmt.buffer].append(stmt.index)
                if stmt.combine:
                    loads[stmt.buffer].append(stmt.index)
        after = after_loop(body)
        own = *perfect(body[:1] if after else body), dict(loads), dict(stores), size
        return cls(number, step, *own, after=after)

    @cached_property
    def buffers(self):
        """All that it reads or writes."""
        return self.loads.keys() | self.stores.keys()

    def places(self, buffer):
        """The indices at which it reads or writes a buffer."""
        return (*self.loads.get(buffer, ()), *self.stores.get(buffer, ()))

    @cached_property
    def is_nest(self):
        """Whether it is loops around stores, which may share them with others."""
        nest = type(self.step) is Kernel and bool(self.axes)
        return nest and is_nest(self.step.body)


def is_copy(part):
    """Whether a kernel copies elements, each to the same place of another array."""
    return all(
        isinstance(s, Store) and type(s.value) is Load and s.value.index == s.index
        for s in part.body
    )


def in_columns(part, shared):
    """Whether only the last loops are shared, along which memory runs."""
    rest = [axis for axis in part.axes if axis not in shared]
    return bool(rest) and part.axes[-1] in shared


def traffic_of(part):
    """The bytes of all arrays that a kernel reads and writes."""
    return sum(b.nbytes for b in part.loads) + sum(b.nbytes for b in part.stores)


def axes_of_reads(a, b):
    """The shared axes where both only read the same arrays, the largest one first."""
    both = [buffer for buffer in a.loads if buffer in b.loads and buffer.shape]
    pairs = []
    for buffer in sorted(both, key=lambda x: -x.nbytes):
        for first in a.loads[buffer]:
            for second in b.loads[buffer]:
                pairs += zip(first, second, strict=True)
    return one_to_one([(i, j) for i, j in pairs if i in a.axes], b)


# ---- dead stores


def loaded_buffers(body):
    """The buffers that statements read."""
    return {e.buffer for e in loads_of(body)}


def wanted_only(body, others):
    """Statements without their dead stores.

    Args:
      others: function of a buffer: whether anybody else wants it.
    """
    while True:
        loaded = loaded_buffers(body)
        stores = stores_in(body)
        unread = {s for s in stores if not (s.buffer in loaded or others(s.buffer))}
        if not unread:
            return body
        body = without(body, unread)


def without(body, dropped):
    """Statements without some of them, and without loops around nothing."""
    return changed(body, lambda stmt: () if stmt in dropped else None)


# chapter 17

# ---- which loops are the same


def partner(axis, stored, loaded):
    """What stands in the index of a load where that of a store has an axis, or None."""
    places = zip(stored, loaded, strict=True)
    return next((there for here, there in places if here is axis), None)


def one_to_one(pairs, b):
    """Pairs of axes of one extent, each axis in one of them only."""
    shared = {}
    for i, j in pairs:
        fits = type(j) is Axis and j in b.axes and i.extent == j.extent
        if fits and i not in shared and j not in shared.values():
            shared[i] = j
    return shared


def axes_of_flows(a, b, flows):
    """The shared axes where a stores `flows`, which b reads."""
    pairs = []
    for axis in a.axes:
        partners = {
            partner(axis, stored, loaded)
            for buffer in flows
            for stored in a.stores[buffer]
            for loaded in b.loads[buffer]
        }
        pairs += [(axis, *partners)] if len(partners) == 1 else []
    return one_to_one(pairs, b)


def shared_axes(a, b):
    """The loops that two kernels may share: {axis of a: axis of b}."""
    flows = [buffer for buffer in a.stores if buffer in b.loads]
    return axes_of_flows(a, b, flows) if flows else axes_of_reads(a, b)


def within_steps(a, b, shared):
    """Whether each step of shared loops overwrites only what the same step used."""
    overwritten = a.buffers & b.stores.keys()
    return all(
        shared and all(at_one_place(a, b, buffer, *pair) for pair in shared.items())
        for buffer in overwritten
    )


def at_one_place(a, b, buffer, i, j):
    """Whether two axes stand at one place of the index, wherever a buffer is used."""
    return any(
        {index[d] for index in a.places(buffer)} == {i}
        and {index[d] for index in b.places(buffer)} == {j}
        for d in range(len(buffer.shape))
    )


# ---- what it saves


def saved_bytes(a, b, others):
    """What need not be read or written if two kernels are one: -> bytes."""
    saved = 0
    for buffer in a.stores.keys() & b.loads.keys():
        saved += buffer.nbytes * (1 if others(buffer) else 2)
    for buffer in a.loads.keys() & b.loads.keys():
        saved += buffer.nbytes
    return saved


def worth(a, b):
    """Whether what two kernels both read is as large as what one of them stores."""
    both = max((x.nbytes for x in a.loads.keys() & b.loads.keys()), default=0)
    return both >= min(sum(x.nbytes for x in p.stores) for p in (a, b))
