"""Updates that meet in an element: combined in memory; or set, and the last one wins.

    kernel:                            kernel: for i in 50: last[i] = -1
      for u in serial 900:             kernel: for u in 900: last[k[u]] max= u, atomic
        out[k[u]] = x[u]               kernel: for u in 900:
                                         if last[k[u]] == u: out[k[u]] = x[u]

Of updates that set an element memory keeps the highest number, in whatever order they
come.  Updates that combine are a thread's each, in any order.
"""

from dataclasses import replace

import numpy as np

from ...compile.decisions import loop_rules, noted
from ...compile.loops.contents import perfect
from ...compile.loops.expressions import Axis, Const, Load, op
from ...compile.loops.statements import For, If, Store, nested, replaced
from ...compile.lower.choices import clamped
from ...compile.pipeline import kernel_forms, nest_forms
from ...compile.schedule.nests import count_of, joined
from ...compile.schedule.shared_loops import loaded_buffers
from ...compile.settings import config
from .grid import Part, apart, part_of
from .grid_memory import ATOMIC, number_of, room_in

NUMBER = np.dtype("int32")


def lanes_of(axes, body):
    """The loops whose steps are apart, whichever stands outside."""
    around = {a: nested([b for b in axes if b is not a], body) for a in axes}
    return [a for a in axes if apart(For(a, around[a]))]


def update_in(stmts):
    """(axes, store, function) of loops in order around one store, guarded or not.

    The function puts a statement in the store's place.  None of other loops, and where
    its buffer is loaded.
    """
    axes, body = perfect(stmts)
    guarded = len(body) == 1 and isinstance(body[0], If) and not body[0].otherwise
    stores = body[0].then if guarded else body
    serial = any(a.kind == "serial" for a in axes)
    if not serial or not all(type(a.extent) is int for a in axes) or len(stores) != 1:
        return None
    store, = stores
    if not isinstance(store, Store) or store.buffer in loaded_buffers(body):
        return None
    return axes, store, lambda s: (If(body[0].pred, (s,)) if guarded else s,)


def in_any_order(stmt):
    """The `Part` of a scatter whose updates combine: each is a thread's.

    The order in which they are combined is the device's.
    """
    axes, store, guard = update_in((stmt,)) or (None, None, None)
    if not store or not store.combine:
        return None
    store = replace(store, combine=ATOMIC + store.combine)
    return Part(axes, False, guard(store)).joined()


def lanes_first(stmt):
    """As `part_of`, of a loop in order around others: those that are apart go outside.

    Rows that a scatter sets: each thread sets its column of one row after another.
    """
    axes, body = perfect((stmt,))
    if len(axes) < 2 or axes[0].kind != "serial":
        return None
    lanes = lanes_of(axes, body)
    if not lanes:
        return None
    ordered = [a for a in axes if a not in lanes]
    turned, = nested([*lanes, *ordered], body)
    return part_of(turned)


nest_forms |= {"in_any_order": in_any_order, "lanes_first": lanes_first}


# ---- the last one wins


def by_winners(kernel, temps):
    """Three kernels for one that sets elements in order; or None."""
    axes, store, guard = update_in(kernel.body) or (None, None, None)
    if not store or store.combine or store.buffer.space != "global":
        return None
    lanes = lanes_of(axes, guard(store))
    steps, width, settings = count_of(axes), count_of(lanes), config.fusion
    if width >= settings.few_threads:
        # Threads that set a column each need no order among them.
        return None
    if not settings.thread_steps * width <= steps < 2**31:
        return None
    noted("last update", updates=steps)
    last = room_in(temps, "last", store.buffer.shape, NUMBER)
    places = tuple(map(Axis, last.shape))
    clear = nested(places, (Store(last, places, Const(-1, NUMBER)),))
    own = op("convert", number_of(axes), dtype=NUMBER)
    # A load happens before it is known whether there is such an element.
    inside = tuple(map(clamped, store.index, last.shape))
    wins = op("eq", Load(last, inside), own)
    decide = nested(axes, guard(replace(store, buffer=last, value=own, combine="max")))
    update, names = joined(axes)
    settle = (For(update, replaced(guard(If(wins, (store,))), names.get)),)
    return [replace(kernel, body=body) for body in (clear, decide, settle)]


kernel_forms |= {"by_winners": by_winners}
loop_rules |= {
    "last update": (
        True, "updates may meet: two more kernels find which one is the last",
        "thread_steps", "few_threads",
    ),
}  # fmt: skip
