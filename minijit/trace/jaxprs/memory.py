"""What is computed from a jaxpr once, and remembered for as long as the jaxpr lives.

    @memoised
    def count(jaxpr):                # runs once for each jaxpr
        return len(jaxpr.eqns)
"""

import weakref


class Living:
    """Objects while they live.  Threads may add some while others go through them."""

    def __init__(self):
        self.known = weakref.WeakValueDictionary()

    def add(self, x):
        self.known[id(x)] = x

    def __len__(self):
        return len(self.known)

    def __iter__(self):
        refs = self.known.valuerefs()
        return iter([x for ref in refs if (x := ref()) is not None])


class Memory(dict):
    """What is remembered of one jaxpr: see `memoised`.  A copy remembers nothing."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__

    def __init__(self):
        memories.add(self)

    def __reduce__(self):
        return Memory, ()


# All memories there are.
memories = Living()


def memoised(transform):
    """Remember what a function makes of a jaxpr for as long as the jaxpr lives.

    Without this, a loop in a loop in a loop would be transformed over and over.  The
    jaxpr itself has what is remembered: a table that maps a jaxpr to something which
    holds it, however far down, would keep both for ever.
    """

    def remembering(jaxpr, *key):
        memory = vars(jaxpr).get("memory")
        if memory is None:
            memory = vars(jaxpr).setdefault("memory", Memory())
        full = transform, key
        # Another thread may clear it at any time.
        found = memory.get(full, memory)
        if found is memory:
            found = memory[full] = transform(jaxpr, *key)
        return found

    return remembering


def forget_jaxprs():
    """Forget all that is remembered of jaxprs."""
    for memory in memories:
        memory.clear()
