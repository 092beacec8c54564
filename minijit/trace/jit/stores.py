"""Where traces are kept, for how long, and who may find them.

A trace is shared by all wrappers of the same function, unless it would then outlive
something that its owner let go, or give an old answer:

    what the function reads              where its traces are kept
    numbers, arrays, other functions     `shared`, one table for all
    a list, an object: it can change     with the function object itself
    values of a trace around it          with that trace
"""

import types
import weakref

from ..array import ShapedArray
from ..base.turns import lock
from ..core import current
from ..jaxprs.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from ..jaxprs.memory import Living, Memory
from .captures import atoms, can_be_owner, capture_rules, parts, reaches
from .retrace import BODY

# All tables of traces.
stores = Living()

# Clearing the caches raises this number, which is a part of every key.
generation = [0]


class Table(dict):
    """A dict that `clear_caches` empties."""

    __hash__ = object.__hash__

    def __init__(self):
        super().__init__()
        stores.add(self)


class Shortcuts:
    """Calls of a jitted function made ready, each for one signature, the last first.

    Attributes:
      calls: functions (args, kwargs) -> the result, or `missed` for other arguments.
      misses: how many calls went the long way.
    """

    def __init__(self):
        self.calls: tuple = ()
        self.misses = 0
        stores.add(self)

    def add(self, call):
        self.calls = (call, *self.calls[: MOST_SHORTCUTS - 1])

    def clear(self):
        self.calls, self.misses = (), 0


MOST_SHORTCUTS = 8
# What a shortcut returns for arguments of another signature.
missed = object()


class Recent(Table):
    """A dict that forgets the entries that were not used for longest.

    An entry also goes when one of its owners does.  That may happen at any time, so
    that nothing here relies on an entry still being there.
    """

    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def find(self, key):
        """The value of a key, or None."""
        with lock:
            found = self.pop(key, None)
            if found is None:
                return None
            # Under the key that the owners' callbacks know: once they are gone, it
            # is equal to no other one.
            self[found[0]] = found
            return found[1]

    def store(self, key, value, owners=()):
        """Add an entry; the oldest goes if there are too many."""

        def forget(owner):
            self.pop(key, None)

        with lock:
            owners = {id(x): x for x in owners if can_be_owner(x)}.values()
            self[key] = key, value, [weakref.ref(x, forget) for x in owners]
            if len(self) > self.limit:
                self.pop(list(self)[0], None)


# Traces by what the function is and by signature, for all wrappers there are.
shared = Recent(limit=256)

# A function that captures a jaxpr is known by that: its text is not compared.
capture_rules |= {ClosedJaxpr: lambda walk, _, c: walk.identify(BODY, c, False)}
# Of a jaxpr, only params and constants can hold something of the user's.
atoms |= {Memory, ShapedArray}
parts |= {
    ClosedJaxpr: lambda closed: (closed.jaxpr, *closed.consts),
    Jaxpr: lambda jaxpr: jaxpr.eqns,
    Eqn: lambda eqn: eqn.params.values(),
}


def store_of(function, captures, holds):
    """Where a trace of a function is kept: a `Recent`, or None.

    Args:
      holds: what the trace, and the key it is kept under, consists of.
    """
    if captures.tracers:
        # They are worth nothing after the trace that surrounds them.
        return vars(current.trace).setdefault("inner_traces", Recent(limit=10_000))
    if captures.mutable is None and not reaches(holds, captures.owners):
        return shared
    return own_store(function)


def own_store(function):
    """The traces that live as long as a Python function, and no longer, or None."""
    if isinstance(function, types.FunctionType):
        return vars(function).setdefault("minijit_traces", Recent(limit=256))
    return None


def kept_entry(function, captures, key):
    """The entry that one of the tables has for a key, or None."""
    inner = vars(current.trace).get("inner_traces") if captures.tracers else None
    tables = [inner] if captures.tracers else [shared, own_store(function)]
    found = (table.find(key) for table in tables if table is not None)
    return next(filter(None, found), None)


def keep_entry(function, captures, key, entry, known_by):
    """Put a new entry into the table it belongs to, if there is one.

    Args:
      known_by: what the key has of the call.
    """
    # Another tracer may sit where a hidden one was found, unnoticed.
    entry.record.kept = captures.tracers or not entry.tracers
    store = store_of(function, captures, (entry.closed, entry.out_tree, *known_by))
    if entry.record.kept and store is not None:
        store.store(key, entry, captures.owners if store is shared else ())
