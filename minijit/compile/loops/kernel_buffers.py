"""Which buffers the statements of a kernel read and write, and what they are called.

    buffer_names(body)       # {in0: "x0", out0: "y0"}: those that it is given
    local_buffers(body)      # those of its own, in the cache
"""

from collections import Counter

from .expressions import Load
from .graphs import postorder
from .statements import Store, expressions, statements

# What a statement touches besides the loads in its expressions.
# type of a statement -> function of it: (buffers that it writes, that it reads).
touched: dict = {Store: lambda stmt: ((stmt.buffer,), ())}


def buffer_names(body):
    """{buffer: name}: x0, x1, ... are read only, y0, y1, ... are written.

    Kernels that do the same so are the same text, whatever their buffers are called.
    Those of its own in the cache are not among them.
    """
    written, read = {}, {}
    for stmt in statements(body):
        if type(stmt) in touched:
            writes, reads = touched[type(stmt)](stmt)
            written |= dict.fromkeys(writes)
            read |= dict.fromkeys(reads)
    loads = (e for e in postorder(expressions(body)) if isinstance(e, Load))
    read |= dict.fromkeys(e.buffer for e in loads)
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
    stores = (s for s in statements(body) if isinstance(s, Store))
    return list(dict.fromkeys(s.buffer for s in stores if s.buffer.space == "cache"))
