"""What is in statements and expressions: stores, loads, totals; and loops around all.

    stores_in(kernel.body), loads_of(kernel.body), totals_in(kernel.body)
    loads_within([store.value])              # the same of expressions
    perfect(nested([i, j], [store]))         # ((i, j), (store,))
"""

import math

from .buffers import Buffer
from .expressions import Const, Load, Reduce
from .graphs import postorder, recalled
from .statements import For, Store, expressions, statements


@recalled
def of_kind(kind, exprs):
    """The expressions of a kind that some are computed from: a tuple, made once."""
    return tuple([e for e in postorder(exprs) if type(e) is kind])


@recalled
def used(kind, body):
    """Those that what some statements use is computed from."""
    return of_kind(kind, tuple(expressions(body)))


@recalled
def stores(body):
    """What `stores_in` says."""
    return tuple([stmt for stmt in statements(body) if isinstance(stmt, Store)])


def loads_within(exprs):
    """The loads that expressions are computed from, each once."""
    return [*of_kind(Load, tuple(exprs))]


def totals_within(exprs):
    """The totals that they are computed from, those of which others are made first."""
    return [*of_kind(Reduce, tuple(exprs))]


def stores_in(body):
    """The stores among some statements and all those inside them."""
    return [*stores(tuple(body))]


def axes_in(body):
    """The axes of the loops among some statements and all those inside them."""
    return [stmt.axis for stmt in statements(body) if isinstance(stmt, For)]


def in_loops(body, axes=()):
    """Pairs (statement, the axes of the loops around it) of all, and those inside."""
    for stmt in body:
        yield stmt, axes
        around = (*axes, stmt.axis) if isinstance(stmt, For) else axes
        for inner in stmt.bodies():
            yield from in_loops(inner, around)


def counted(body):
    """Pairs (statement, how often it runs at most) of all of them, and those inside."""
    for stmt, axes in in_loops(body):
        yield stmt, math.prod(axis.bounds[1] + 1 for axis in axes)


def stored_in(body):
    """The buffers that statements and those inside them store into."""
    return {store.buffer for store in stores_in(body)}


def loads_of(body):
    """The loads in what statements use, each once."""
    return [*used(Load, tuple(body))]


def updated_in(body):
    """The buffers that statements load from, and store into as well."""
    return stored_in(body) & {load.buffer for load in loads_of(body)}


def totals_in(body):
    """The totals in what statements use, those of which others are made first."""
    return [*used(Reduce, tuple(body))]


def only_sets(body):
    """Whether statements are stores, and none adds to what is there."""
    return all(isinstance(stmt, Store) and not stmt.combine for stmt in body)


def perfect(body):
    """The loops around all of some statements: -> (their axes, what is inside)."""
    axes = []
    while len(body) == 1 and isinstance(body[0], For):
        axes.append(body[0].axis)
        body = body[0].body
    return tuple(axes), body


def is_nest(body):
    """Whether statements are loops around plain stores, in no order of their own."""
    return all(
        s.axis.is_plain if isinstance(s, For) else only_sets([s])
        for s in statements(body)
    )


def outline(body):
    """(what statements are but for the names of their axes and arrays, the arrays in
    the order in which they come up): the same for those that do the same."""
    known, arrays, found = {}, [], []

    def named(thing):
        if isinstance(thing, tuple):
            return tuple(map(named, thing))
        if isinstance(thing, Buffer) and thing not in known:
            place = len(arrays), thing.space
            known[thing] = *place, thing.shape, thing.dtype, thing.order
            arrays.append(thing)
        return known.get(thing, thing)

    for stmt in statements(body):
        axis, inside = getattr(stmt, "axis", None), stmt.bodies()
        for e in postorder([*stmt.uses(), *[axis] * bool(axis)], known):
            if type(e) is not Const:
                found.append((type(e), *(named(getattr(e, name)) for name in e.fields)))
                known[e] = len(known)
        parts = (part for part in vars(stmt).values() if part not in inside)
        found.append((type(stmt), *map(len, inside), *map(named, parts)))
    return tuple(found), arrays
