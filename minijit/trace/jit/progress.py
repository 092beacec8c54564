"""A first call that takes longer than a second says so.

    minijit: tracing and compiling the call at train.py:31 (main), once for these types

That is one line on stderr, or in a notebook a line that counts the seconds.  Nothing is
said with `config.update("compile_progress", False)`, nor in tests by default: what is
said depends on the clock, and would stand in stored outputs.
"""

import os
import sys
import threading
import time
from contextlib import contextmanager

from ..base.config import config
from ..base.errors import Source
from ..base.frames import in_library
from ..base.locks import Lock
from ..base.turns import fork_locks, turns

test_runners = "PYTEST_VERSION", "PYTEST_CURRENT_TEST"
in_tests = any(name in os.environ for name in test_runners)
config.define(
    "compile_progress", not in_tests, "say so where a first call takes over a second"
)

PATIENCE = 1.0  # seconds until something is said
COUNT = 1.0  # seconds until a notebook's line counts on
PAUSE = 0.05  # tracing that ends so shortly before compiling begins is one work with it


class Watched(threading.local):
    """A thread's work: whether it is in it, until when it was, and what tells of it."""

    def __init__(self):
        self.busy, self.end, self.telling = False, 0.0, None


watched = Watched()


@contextmanager
def watch():
    """Around tracing or compiling: say so once it has taken long."""
    if watched.busy or not config.compile_progress:
        yield
        return
    source, before = calling_line(), watched.telling
    goes_on = time.monotonic() - watched.end < PAUSE and before.source == source
    watched.telling = Telling(source, before if goes_on else None)
    watched.busy = True
    try:
        teller.take(watched.telling)
        yield
    finally:
        watched.telling.stop()
        watched.busy, watched.end = False, time.monotonic()


def calling_line():
    """The line outside of minijit, and of what it uses, that made the call; or None."""
    frame = sys._getframe(1)
    while frame is not None and in_library(frame.f_code.co_filename):
        frame = frame.f_back
    code = frame and frame.f_code
    return code and Source(code.co_filename, frame.f_lineno, code.co_name)


class Telling:
    """Tells of a work that goes on for longer than a second, in a notebook each second.

    Args:
      source: the line of the call.
      before: what told of the first part of the same work, if this goes on with it.
    """

    def __init__(self, source, before=None):
        self.source = source
        self.begun = before.begun if before else time.monotonic()
        self.told = before is not None and before.told
        self.display = before.display if before else None
        self.due = self.begun + PATIENCE

    def tell(self):
        """Say what is due."""
        self.due += COUNT
        if self.display is not None:
            self.show(f"{self.text()} ({time.monotonic() - self.begun:.0f} s)")
        elif not self.told:
            self.told = True
            self.display = notebook_display(self.text())
            if self.display is None:
                print(self.text(), file=sys.stderr, flush=True)

    def text(self):
        where = f"the call at {self.source}" if self.source else "a call"
        return f"minijit: tracing and compiling {where}, once for these types"

    def show(self, text):
        self.display.update(plain(text), raw=True)

    def stop(self):
        """The work is done."""
        teller.leave(self)
        if self.display is not None:
            taken = time.monotonic() - self.begun
            where = f" the call at {self.source}" if self.source else " a call"
            self.show(f"minijit: traced and compiled{where} in {taken:.1f} s")


class Teller:
    """One thread for all that is at work: most of it is over before it looks.

    It ends where it wakes up and finds nothing.  A thread for each piece of work took a
    tenth of the time of a small first call.

    Attributes:
      at_work: what goes on; changed, and told of, under `lock`.
    """

    def __init__(self):
        self.lock, self.at_work, self.thread = Lock(threading.RLock()), set(), None

    def take(self, work):
        with self.lock:
            self.at_work.add(work)
            if self.thread is None or not self.thread.is_alive():
                name = "minijit's compile_progress"
                self.thread = threading.Thread(target=self.run, name=name, daemon=True)
                self.thread.start()

    def leave(self, work):
        with self.lock:
            self.at_work.discard(work)

    def run(self):
        while True:
            with self.lock:
                if not self.at_work:
                    self.thread = None
                    return
                for work in self.at_work:
                    if work.due <= time.monotonic():
                        work.tell()
                due = min(work.due for work in self.at_work)
            # What begins meanwhile is not due before it wakes up.
            time.sleep(min(max(due - time.monotonic(), 0.0), PATIENCE))

    def forget(self):
        """In a forked process: what other threads work at is not there."""
        self.at_work, self.thread = set(), None


teller = Teller()
fork_locks.append(teller.lock)
os.register_at_fork(after_in_child=teller.forget)


def plain(text):
    """A text as notebooks are given what to show."""
    return {"text/plain": text}


def notebook_display(text):
    """A place in the notebook that shows a text, and can be told another; or None."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display(plain(text), raw=True, display_id=True)


turns.watch = watch
