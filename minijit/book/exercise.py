"""Exercises: a stub the reader fills in, a check that never raises, and the solution.

In a chapter's notebook an exercise NAME is a cell with the tag `exercise` that defines
NAME with a hole in it, and after it a cell `%check NAME`.  In `chapters/solutions/`, in
the file of the notebook's name, stand the solution and the check, whose docstring is
the hint:

    def count_eqns(jaxpr): ...                  # the solution

    def check_count_eqns(count_eqns):
        \"\"\"An equation's params may hold jaxprs: count in those too.\"\"\"
        assert count_eqns(make_jaxpr(f)(1.0)) == 3
"""

from __future__ import annotations

import ast
import linecache
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .cases import ADDRESS, HOOK, Cases, labelled, rewritten, shown
from .notebook import Json, joined, quiet_statements, sections, source, tags
from .project import Book, BookError, Chapter
from .text import names
from .tracebacks import file_of, frames

SECONDS = 20  # an answer may take; a solution takes a few, where it is compiled


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter; `shown` is what its check printed when it ran."""

    name: str
    section: str
    stub: str
    shown: str


def exercises(notebook: Json) -> list[Exercise]:
    """The exercises of a notebook, by their `%check` cells."""
    found = []
    stubs: dict[str, str] = {}
    for section, cell in sections(notebook):
        text = source(cell)
        if "exercise" in tags(cell):
            for s in quiet_statements(text):
                stubs |= dict.fromkeys(names(s.node), text)
        if cell["cell_type"] == "code" and text.startswith("%check "):
            name = text.split()[1]
            printed = "".join(
                joined(o.get("text", "")) for o in cell.get("outputs", [])
            )
            found.append(Exercise(name, section, stubs.get(name, ""), printed.strip()))
    return found


def solutions(book: Book, chapter: Chapter) -> dict[str, Any]:
    """Run a chapter's file of solutions; its namespace."""
    path = book.solutions(chapter)
    if not path.exists():
        raise BookError(f"{chapter.called} has no {path.relative_to(book.base)}")
    text = path.read_text(encoding="utf-8")
    linecache.checkcache(str(path))
    module = types.ModuleType(f"solutions_{chapter.stem}")
    module.__file__ = str(path)
    vars(module)[HOOK] = Cases()
    tree = rewritten(ast.parse(text))
    exec(compile(tree, str(path), "exec", dont_inherit=True), vars(module))
    return vars(module)


def check_of(space: dict[str, Any], name: str) -> Callable[[Any], Any]:
    """The check of an exercise; BookError if there is none."""
    found = space.get(f"check_{name}")
    if found is None:
        raise BookError(f"there is no exercise {name} in the solutions")
    return found


def hint(check: Callable[[Any], Any]) -> str:
    """A check's docstring, in one line."""
    return " ".join((check.__doc__ or "").split())


def verdict(
    check: Callable[[Any], Any], answer: Any, tries: int = 1, seconds: float = SECONDS
) -> str:
    """`right`, or `not yet` with the first case that fails.  Never raises.

    From the second try on the hint is with it.
    """
    told = complaint(check, answer, seconds)
    if not told:
        return "right"
    about = hint(check)
    last = f"  {'hint':<10}{about}" if tries > 1 else "  (the next try shows a hint)"
    return "\n".join(["not yet: " + told[0], *told[1:], last])


def complaint(check: Callable[[Any], Any], answer: Any, seconds: float) -> list[str]:
    """What is wrong with an answer, in lines; none if nothing is."""
    name = check.__name__.removeprefix("check_")
    if is_empty(answer):
        return [f"`{name}` is empty so far; write in place of its `...`, and run it"]
    record = check.__globals__.get(HOOK) or Cases()
    record.called = None
    try:
        with time_limit(seconds):
            result = check(answer)
    except TooLong:
        told = f"stopped after {seconds} seconds; does a loop in it ever end?"
        return [record.called[0] if record.called else name, f"  {told}"]
    except Exception as e:
        # A `CaseFailed`, perhaps that of another copy of this package, has told it.
        return getattr(e, "told", None) or error_told(e, answer, check, record)
    fine = result is None or result is True
    return [] if fine else [f"the check of {name} says {result!r}"]


def is_empty(answer: Any) -> bool:
    """Is it a function without anything in it but `...` or words?"""

    def empty() -> None: ...

    def words() -> None:
        """Words."""

    code = getattr(answer, "__code__", None)
    if code is None or code.co_names or set(code.co_consts) - {None, answer.__doc__}:
        return False
    return code.co_code in [f.__code__.co_code for f in (empty, words)]


def error_told(
    error: Exception, answer: Any, check: Callable[[Any], Any], record: Cases
) -> list[str]:
    """An error while a check ran: the call, the error, and the line of the answer."""
    call, result = record.called or (line_of(check, error), None)
    what = plain(f"{type(error).__name__}: {error}")
    file = getattr(getattr(answer, "__code__", None), "co_filename", None)
    own = [tb for tb in frames(error.__traceback__) if file == file_of(tb)]
    if isinstance(error, AssertionError) and not own:
        return [call, *labelled("", str(error).split("\n"))]
    if own:
        line = own[-1].tb_lineno
        text = linecache.getline(file or "", line).strip()
        where = [f"line {line} of its cell: {text}" if text else f"line {line}"]
        return [call, *labelled("raised", what), *labelled("in", where)]
    if record.called and result is not NotImplemented:
        came = labelled("came", shown(result))
        return [call, *came, *labelled("and then", what)]
    return [call, *labelled("raised", what)]


def line_of(check: Callable[[Any], Any], error: Exception) -> str:
    """The line of a check that an error went through."""
    code = check.__code__
    for tb in frames(error.__traceback__):
        if tb.tb_frame.f_code is code:
            line = linecache.getline(code.co_filename, tb.tb_lineno).strip()
            return line.removeprefix("assert ")
    return check.__name__.removeprefix("check_")


def plain(text: str) -> list[str]:
    """The lines of an error without addresses, and without lines about the check."""
    lines = ADDRESS.sub("", text).split("\n")
    about = [i for i, line in enumerate(lines) if f"{os.sep}solutions{os.sep}" in line]
    return lines[: max(about[0], 1)] if about else lines


class TooLong(BaseException):
    """An answer ran for too long; no `except Exception` of an answer catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in the main thread if the block works for longer.

    Time is counted as this process has a core, for others may use it as well; what only
    waits may take ten times as long.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if sys.platform == "emscripten":
        with limit_of_lines(seconds):
            yield
        return
    over, late = threading.Event(), threading.Event()
    # In a job of the background signals from the keyboard are ignored: heed them here.
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    began, worked = time.monotonic(), time.process_time()
    main = threading.get_ident()

    def left() -> float:
        waited = (time.monotonic() - began) / 10
        return seconds - max(waited, time.process_time() - worked)

    def stop() -> None:
        # A signal, not only its flag: it also ends what sleeps.  Again and again: one
        # that comes in a callback of C code is lost.
        wait = seconds
        while not over.wait(wait):
            if (wait := left()) <= 0:
                late.set()
                signal.pthread_kill(main, signal.SIGINT)
                wait = 1.0

    threading.Thread(target=stop, daemon=True).start()
    try:
        yield
        over.set()
    except KeyboardInterrupt:
        if late.is_set():
            raise TooLong from None
        raise
    finally:
        over.set()
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


@contextmanager
def limit_of_lines(seconds: float) -> Iterator[None]:
    """`time_limit` in a browser, which has no threads: each line looks at the clock."""
    end = time.monotonic() + seconds

    def look(*_: object) -> Any:
        if time.monotonic() > end:
            raise TooLong
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)
