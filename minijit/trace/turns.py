"""Turns: of several threads that want the same thing made, one makes it."""

import gc
import os
import threading
from contextlib import contextmanager, nullcontext


class Turns:
    """One lock a key, for work that may itself wait for other keys and threads.

    with turns.of(key):               # waits while another thread is in such a block
        value = made.get(key) or make(key)

    A thread never waits for one that waits for it: it goes ahead, as it does for a
    key of its own, and the work is done twice.
    """

    def __init__(self):
        self.owners = {}
        self.wanted = {}
        self.changed = threading.Condition()
        # A context in which the work is done; a later module tells how long it takes.
        self.watch = nullcontext

    @contextmanager
    def of(self, key):
        """Enter when it is this thread's turn to do the work of `key`."""
        me = threading.get_ident()
        with self.changed:
            self.wanted[me] = key
            try:
                self.changed.wait_for(lambda: not self.must_wait(me))
            finally:
                del self.wanted[me]
            is_first = key not in self.owners
            self.owners.setdefault(key, me)
        try:
            with self.watch():
                yield
        finally:
            if is_first:
                with self.changed:
                    del self.owners[key]
                    self.changed.notify_all()

    def forget_others(self):
        """In a forked process: the other threads, and what they did, are not there."""
        me = threading.get_ident()
        self.owners = {key: owner for key, owner in self.owners.items() if owner == me}
        self.wanted = {}
        self.changed = threading.Condition()

    def must_wait(self, me):
        """Whether the thread's key is another's, and that one does not wait for it."""
        first = thread = self.owners.get(self.wanted[me])
        while thread != me and thread in self.wanted:
            thread = self.owners.get(self.wanted[thread])
        return first is not None and thread != me


# Of several threads that want the same trace, or the same compiled program, one makes
# it.
turns = Turns()

# For tables only, and never held while a function is traced: tracing runs the user's
# code, which may wait for threads that want traces of their own.
lock = threading.RLock()

# While a program is compiled, garbage is collected once so many objects have come.
COLLECT = 200_000


class Compiling:
    """A lock, in which garbage is seldom collected.

    What a compiler makes comes by the ten thousand and mostly stays: collections amid
    that, each of all that the process has, took a tenth of the time of a first call.
    They go on, but seldom: other threads make garbage meanwhile.  Whoever has switched
    collections off, or does so meanwhile, finds them off.
    """

    def __init__(self):
        self.lock, self.depth, self.often = threading.RLock(), 0, gc.get_threshold()

    def __enter__(self):
        self.lock.acquire()
        self.depth += 1
        if self.depth == 1:
            self.often = gc.get_threshold()
            first, *others = self.often
            # A threshold of 0 means no collections.
            gc.set_threshold(first and max(first, COLLECT), *others)

    def __exit__(self, *error):
        self.depth -= 1
        if not self.depth:
            gc.set_threshold(*self.often)
        self.lock.release()


# Compilers share tables of what they made, and run no code of the user's: one program
# is compiled at a time.
compiling = Compiling()

# What is locked while a process forks: no other thread is then in the middle of
# compiling, or of changing a table, and the child does not wait for one for ever.
fork_locks = [compiling.lock, lock]


def before_fork():
    """Wait for the other threads to leave what is locked."""
    for held in fork_locks:
        held.acquire()


def after_fork():
    """Unlock, in either process."""
    for held in reversed(fork_locks):
        held.release()


def after_fork_in_child():
    """Unlock; the threads whose turn it was are not in the child."""
    turns.forget_others()
    after_fork()


os.register_at_fork(
    before=before_fork,
    after_in_parent=after_fork,
    after_in_child=after_fork_in_child,
)
