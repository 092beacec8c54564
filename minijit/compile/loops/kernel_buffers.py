"""Which buffers the statements of a kernel read and write, and what they are called.

    buffer_names(body)       # {in0: "x0", out0: "y0"}: those that it is given
    local_buffers(body)      # those of its own, in the cache
"""

from collections import Counter, defaultdict

from .buffers import Buffer
from .contents import loads_of, loads_within, stores_in
from .expressions import Axis
from .statements import Call, For, If, Let, Reserve, Store, Swap, While, statements


def touched_by_call(stmt):
    """What a call writes and reads; a function may write what it captures."""
    writes, reads = ([v.buffer for v in side] for side in (stmt.outputs, stmt.inputs))
    if stmt.routine == "function":
        tables = (x for x in stmt.attrs["given"] if isinstance(x, Buffer))
        writes += (*tables, *stmt.attrs["function"].captures)
    return writes, reads


# What a statement touches besides the loads in its expressions.
# type of a statement -> function of it: (buffers that it writes, that it reads).
touched: dict = {
    Store: lambda stmt: ((stmt.buffer,), ()),
    Call: touched_by_call,
    Swap: lambda stmt: ((stmt.first, stmt.second), ()),
    Reserve: lambda stmt: ((stmt.table,), ()),
}


def used_buffers(body):
    """({buffer that statements write: None}, {buffer that they read: None})"""
    written: dict = {}
    read: dict = {}
    for stmt in statements(body):
        if type(stmt) in touched:
            writes, reads = touched[type(stmt)](stmt)
            written |= dict.fromkeys(writes)
            read |= dict.fromkeys(reads)
    return written, read | dict.fromkeys(load.buffer for load in loads_of(body))


def changed_loads(body, after=()):
    """For each statement of a region: those of its loads that a later one has, too, and
    whose array is written by then.

    Args:
      after: more that comes later.
    """
    pending, changed, found = defaultdict(set), set(), []
    for stmt in reversed((*body, *after)):
        written, _ = used_buffers((stmt,))
        for buffer in written:
            changed |= pending.pop(buffer, set())
        loads = loads_of((stmt,))
        if stmt.bodies() and not is_scope(stmt):
            changed.update(e for e in loads if e.buffer in written)
        found.append([e for e in loads if e in changed])
        for e in loads:
            pending[e.buffer].add(e)
    return found[len(after) :][::-1]


def scope(body):
    """A statement in which what others compute has a name."""
    return For(Axis(1, "names"), tuple(body))


def is_scope(stmt):
    return type(stmt) is For and stmt.axis.kind == "names"


def opened(body, after=()):
    """Statements with what is in scopes in their place, but where a name would be known
    to a later statement for which it is something else."""
    found = []
    for stmt, changed in zip(body, changed_loads(body, after), strict=True):
        if is_scope(stmt):
            named = [s.expr for s in stmt.body if type(s) is Let]
            if not {*changed}.isdisjoint(loads_within(named)):
                found.append(For(Axis(1, "serial"), stmt.body))
            else:
                found += stmt.body
        elif type(stmt) is While:
            test = opened(stmt.test, stmt.body)
            found.append(While(test, stmt.cond, opened(stmt.body)))
        elif type(stmt) is If:
            found.append(If(stmt.pred, *map(opened, stmt.bodies())))
        else:
            found.append(For(stmt.axis, opened(stmt.body)) if stmt.bodies() else stmt)
    return tuple(found)


def buffer_names(body):
    """{buffer: name}: x0, x1, ... are read only, y0, y1, ... are written.

    Kernels that do the same so are the same text, whatever their buffers are called.
    Those of its own in the cache are not among them.
    """
    written, read = used_buffers(body)
    read = [b for b in read if b not in written and b.space != "cache"]
    written = [b for b in written if b.space != "cache"]
    names = {buffer: f"x{i}" for i, buffer in enumerate(read)}
    return names | {buffer: f"y{i}" for i, buffer in enumerate(written)}


def given_buffers(body):
    """{buffer: name}, as `buffer_names`: of those that lie in memory outside."""
    names, counts = {}, Counter()
    for buffer, own in buffer_names(body).items():
        if buffer.space == "global":
            names[buffer] = f"{own[0]}{counts[own[0]]}"
            counts[own[0]] += 1
    return names


def local_buffers(body):
    """The buffers of a kernel's own, which live in the cache while a step runs."""
    stores = (s.buffer for s in stores_in(body))
    return list(dict.fromkeys(b for b in stores if b.space == "cache"))
