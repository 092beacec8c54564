"""Which buffers the statements of a kernel read and write, and what they are called.

    buffer_names(body)       # {in0: "x0", out0: "y0"}: those that it is given
    local_buffers(body)      # those of its own, in the cache
"""

from collections import Counter

from .buffers import Buffer
from .contents import loads_of, stores_in
from .statements import Call, Reserve, Store, Swap, statements


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
