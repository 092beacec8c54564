"""Turns: of several threads that want the same thing made, one makes it.

A signal's handler may raise wherever a function returns to Python, or one of Python's
own begins.  What is locked here is locked by `with` and a `Lock`: nothing comes
between.  What a `finally` does by a function in Python may not be done.
"""

import functools
import gc
import logging  # noqa: F401  (what it locks at a fork is to be locked after ours)
import os
import threading
import weakref
from contextlib import nullcontext

from . import demand
from .locks import Lock


class Turn:
    """The turn of a thread to do the work of a key: over when its lock is free."""

    def __init__(self, key):
        self.key, self.thread = key, threading.get_ident()
        self.lock = Lock(threading.Lock())


class Turns:
    """One turn at a time for a key, for work that may itself wait for other keys.

    turn = Turn(key)
    with turn.lock, turns.claim(turn):      # waits while another thread has its turn
        value = made.get(key) or make(key)

    A thread never waits for one that waits for it: it goes ahead, as it does for a key
    of its own, and the work is done twice.

    Attributes:
      owners: {key: the turn that was taken last}, while somebody has that.
      wanted: {thread: the turn it waits for}.
    """

    def __init__(self):
        # A context in which the work is done; a later module tells how long it takes.
        self.watch = nullcontext
        self.owners = weakref.WeakValueDictionary()
        self.wanted, self.lock = {}, Lock(threading.RLock())

    def claim(self, turn):
        """Wait for other threads that work for the key: -> a context for the work.

        Args:
          turn: its lock is locked.
        """
        while self.waits(turn):
            pass
        return self.watch()

    def waits(self, turn):
        """Take a turn, or else wait for another one to end: -> whether it was that."""
        me = turn.thread
        try:
            with self.lock:
                first = self.owners.get(turn.key)
                if first is None or not first.lock.locked():
                    self.owners[turn.key] = turn
                    return False
                self.wanted[me] = first
                if self.waits_for(first.thread, me):
                    return False
            with first.lock:
                return True
        finally:
            self.wanted.pop(me, None)

    def waits_for(self, thread, other):
        """Whether a thread is another one, or waits for it, maybe through others."""
        while thread != other and thread in self.wanted:
            thread = self.wanted[thread].thread
        return thread == other

    def forget_others(self):
        """In a forked process: the other threads, and what they did, are not there."""
        me, owners = threading.get_ident(), self.owners
        self.owners = weakref.WeakValueDictionary(
            {key: turn for key, turn in owners.items() if turn.thread == me}
        )
        self.wanted, self.lock = {}, Lock(threading.RLock())


# Of several threads that want the same trace, or the same compiled program, one makes
# it.
turns = Turns()

# For tables only, and never held while a function is traced: tracing runs the user's
# code, which may wait for threads that want traces of their own.
lock = Lock(threading.RLock())

# Compilers share tables of what they made, and run no code of the user's: one program
# is compiled at a time.
compile_lock = Lock(threading.RLock())

# While a program is compiled, garbage is collected once so many objects have come.
COLLECT = 200_000


def one_at_a_time(compiler):
    """A compiler that one thread at a time is in, with garbage seldom collected.

    What a compiler makes comes by the ten thousand and mostly stays: collections amid
    that, each of all that the process has, took a tenth of the time of a first call.
    They go on, but seldom: other threads make garbage meanwhile.  Whoever has switched
    collections off, or does so meanwhile, finds them off.
    """

    @functools.wraps(compiler)
    def run(*args, **kwargs):
        with compile_lock:
            first, *others = often = gc.get_threshold()
            try:
                # A threshold of 0 means no collections.
                gc.set_threshold(first and max(first, COLLECT), *others)
                return compiler(*args, **kwargs)
            finally:
                gc.set_threshold(*often)

    return run


# What is locked while a process forks: no other thread is then in the middle of
# compiling, or of changing a table, and the child does not wait for one for ever.
fork_locks = [compile_lock, lock, demand.imports_lock]
# Those that are locked now, for another thread may add one meanwhile.
held: list = []


def before_fork():
    """Wait for the other threads to leave what is locked, and to end their imports.

    These may need what is locked, or lock more: all is left while one is waited for.
    """
    me = threading.get_ident()
    while True:
        for each in list(fork_locks):
            each.acquire()
            held.append(each)
        others = [each.lock for each in demand.imports if each.thread != me]
        if held == fork_locks and not any(each.locked() for each in others):
            return
        after_fork()
        for each in others:
            with each:
                pass


def after_fork():
    """Unlock, in either process."""
    mine = held[::-1]
    held.clear()  # What is locked next is another thread's.
    for each in mine:
        each.release()


def after_fork_in_child():
    """Unlock; the threads whose turn it was are not in the child."""
    turns.forget_others()
    after_fork()


# What was registered last is called first.  So is ours before logging's: a thread that
# compiles may want logging's lock, and we wait for that thread.
os.register_at_fork(
    before=before_fork, after_in_parent=after_fork, after_in_child=after_fork_in_child
)
