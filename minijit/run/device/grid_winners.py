"""Elements that several updates set: the last one wins, whichever thread is first.

    kernel:                            kernel: for i in 50: last[i] = -1
      for u in serial 900:             kernel: for u in 900: last[k[u]] max= u, atomic
        out[k[u]] = x[u]               kernel: for u in 900:
                                         if last[k[u]] == u: out[k[u]] = x[u]

Of updates that meet, memory keeps the highest number, in whatever order they come.
"""

from dataclasses import replace

import numpy as np

from ...compile.decisions import noted
from ...compile.fuse.fusion import nested
from ...compile.loops.buffers import Buffer
from ...compile.loops.expressions import Axis, Const, Load, as_index, op
from ...compile.loops.graphs import postorder
from ...compile.loops.statements import For, If, Store, expressions
from ...compile.settings import config
from .grid import apart, kernel_forms, renamed, steps_of
from .grid_memory import joined
from .grid_totals import number_of

NUMBER = np.dtype("int32")


def by_winners(kernel, rooms, number):
    """Three kernels for one that sets elements in order; or None.

    Args:
      rooms, number: as in `in_parts`.
    """
    axes, body = [], kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        axes.append(body[0].axis)
        body = body[0].body
    if not any(a.kind == "serial" for a in axes) or not is_setting(axes, body):
        return None
    guarded = isinstance(body[0], If)
    store, = body[0].then if guarded else body
    others = {a: [b for b in axes if b is not a] for a in axes}
    lanes = [a for a in axes if apart(For(a, nested(others[a], body)))]
    steps, width, settings = steps_of(axes), steps_of(lanes), config.fusion
    if width >= settings.few_threads:
        # Threads that set a column each need no order among them.
        return None
    if not settings.thread_steps * width <= steps < 2**31:
        return None
    noted("last update", updates=steps)
    last = Buffer(f"last{number + len(rooms)}", store.buffer.shape, NUMBER)
    rooms.append(last)
    places = tuple(map(Axis, last.shape))
    clear = nested(places, (Store(last, places, Const(-1, NUMBER)),))
    own = op("convert", number_of(axes), dtype=NUMBER)
    # A load happens before it is known whether there is such an element.
    inside = tuple(
        op("max", op("min", i, as_index(n - 1)), as_index(0))
        for i, n in zip(store.index, last.shape, strict=True)
    )
    wins = op("eq", Load(last, inside), own)
    guard = lambda stmt: (If(body[0].pred, (stmt,)) if guarded else stmt,)
    decide = nested(axes, guard(replace(store, buffer=last, value=own, combine="max")))
    update, names = joined(axes)
    settle = (For(update, renamed(guard(If(wins, (store,))), names)),)
    return [replace(kernel, body=body) for body in (clear, decide, settle)]


def is_setting(axes, body):
    """Whether statements are one store, of what is known before the kernel runs."""
    guarded = len(body) == 1 and isinstance(body[0], If) and not body[0].otherwise
    stores = body[0].then if guarded else body
    if len(stores) != 1 or not isinstance(stores[0], Store) or stores[0].combine:
        return False
    loads = {e.buffer for e in postorder(expressions(body)) if type(e) is Load}
    known = all(isinstance(a.extent, int) for a in axes)
    buffer = stores[0].buffer
    return known and buffer not in loads and buffer.space == "global"


kernel_forms.append(by_winners)
