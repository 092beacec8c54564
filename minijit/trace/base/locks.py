"""A lock that Ctrl-C leaves as it should be."""

from operator import attrgetter


class Lock:
    """A lock of Python's that `with` takes, and gives back whatever a signal raises.

    Since Python 3.14, `with` calls `__enter__` as any function, and looks for signals
    when a function in C is done: there the lock is taken, and `__exit__` not yet called
    for.  It does not look where a function in Python returns, nor where a `for` asks
    an iterator in C, which here takes the lock.  `__exit__` is the lock's own, in C: no
    signal comes before it has begun.
    """

    def __init__(self, lock):
        self.lock, self.acquire, self.leave = lock, lock.acquire, lock.__exit__

    def __getattr__(self, name):
        return getattr(self.lock, name)

    def __enter__(self):
        for _ in iter(self.acquire, None):
            return self

    __exit__ = property(attrgetter("leave"))
