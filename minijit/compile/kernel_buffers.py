"""Which buffers the statements of a kernel read and write, and what they are called."""

from .expression_graphs import postorder
from .expressions import Load
from .loops import Store, expressions, statements

# What a statement touches besides the loads in its expressions.
# type of a statement -> function of it: (buffers that it writes, that it reads).
touched: dict = {Store: lambda stmt: ((stmt.buffer,), ())}


def buffer_names(body):
    """{buffer: name}: x0, x1, ... are read only, y0, y1, ... are written.

    Kernels that do the same so are the same text, whatever their buffers are called.
    """
    written, read = {}, {}
    for stmt in statements(body):
        if type(stmt) in touched:
            writes, reads = touched[type(stmt)](stmt)
            written |= dict.fromkeys(writes)
            read |= dict.fromkeys(reads)
    loads = (e for e in postorder(expressions(body)) if isinstance(e, Load))
    read |= dict.fromkeys(e.buffer for e in loads)
    read = [buffer for buffer in read if buffer not in written]
    names = {buffer: f"x{i}" for i, buffer in enumerate(read)}
    return names | {buffer: f"y{i}" for i, buffer in enumerate(written)}
