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

from ...trace.base.config import config
from ...trace.base.errors import Source
from ...trace.base.frames import in_library
from ...trace.base.turns import turns

test_runners = "PYTEST_VERSION", "PYTEST_CURRENT_TEST"
in_tests = any(name in os.environ for name in test_runners)
config.define(
    "compile_progress", not in_tests, "say so where a first call takes over a second"
)

PATIENCE = 1.0  # seconds until something is said
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


class Telling(threading.Thread):
    """Waits for a second, then tells, and in a notebook goes on counting.

    Args:
      source: the line of the call.
      before: what told of the first part of the same work, if this goes on with it.
    """

    def __init__(self, source, before=None):
        super().__init__(name="minijit's compile_progress", daemon=True)
        self.source, self.over = source, threading.Event()
        self.begun = before.begun if before else time.monotonic()
        self.told = before is not None and before.told
        self.display = before.display if before else None
        self.start()

    def run(self):
        left = PATIENCE - (time.monotonic() - self.begun)
        if self.over.wait(max(left, 0.0)):
            return
        if not self.told:
            self.told = True
            self.display = notebook_display(self.text())
            if self.display is None:
                print(self.text(), file=sys.stderr, flush=True)
        if self.display is None:
            return
        while not self.over.wait(1.0):
            self.show(f"{self.text()} ({time.monotonic() - self.begun:.0f} s)")

    def text(self):
        where = f"the call at {self.source}" if self.source else "a call"
        return f"minijit: tracing and compiling {where}, once for these types"

    def show(self, text):
        self.display.update(plain(text), raw=True)

    def stop(self):
        """The work is done."""
        self.over.set()
        if self.display is not None:
            self.join()
            taken = time.monotonic() - self.begun
            where = f" the call at {self.source}" if self.source else " a call"
            self.show(f"minijit: traced and compiled{where} in {taken:.1f} s")


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
