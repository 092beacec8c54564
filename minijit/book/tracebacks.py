"""Tracebacks in a notebook: the reader's own frames, and the error.

What lies between, in the library and in what it calls, is left out; `%tb` shows it.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

INSTALLED = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
# IPython shows these in a way of its own.
SHOWN_WHOLE = {"SyntaxError", "UsageError"}
WIDEST = 100  # columns of what a cell shows
CODE = re.compile(r"\s*(-+>)?\s*(\x1b\[[0-9;]*m)*\s*\d+\b")  # a line of a frame
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# The name of the error, with which a message begins.
COLOURED = re.compile(rf"(?:{COLOUR.pattern})*\w*(?:{COLOUR.pattern})*")
LEFT_OUT = "(the library's own frames are left out; %tb shows them)"


def install(
    shell: Any,
    folders: Callable[[], list[Path]],
    advice: Callable[[BaseException], str],
) -> None:
    """Shorten what an IPython shell shows of the errors of its cells.

    `folders()` are those of the library, asked for anew each time; `advice(error)` is
    what more there is to say of an error, or "".  The library itself
    leaves its frames in, or `%tb` could not show them.
    """
    os.environ["MINIJIT_TRACEBACK_FILTERING"] = "off"
    package = __package__.partition(".")[0]
    if imported := sys.modules.get(f"{package}.trace.base.config"):
        imported.config.update("traceback_filtering", "off")

    def show(
        shell: Any,
        kind: type[BaseException],
        error: BaseException,
        tb: TracebackType,
        tb_offset: int | None = None,
    ) -> None:
        add_advice(error, advice)
        whole = any(c.__name__ in SHOWN_WHOLE for c in kind.__mro__)
        minimal = shell.InteractiveTB.mode == "Minimal"
        if whole or hasattr(error, "_render_traceback_"):
            # A cell that cannot be compiled fails before `run_code`.
            runs = tb.tb_frame.f_code.co_name == "run_code"
            shell.showtraceback((kind, error, tb), running_compiled_code=runs)
            return
        if minimal:
            lines = shell.InteractiveTB.structured_traceback(kind, error, tb)
        else:
            lines = short_lines(shell, error, [f"{f}/" for f in folders()])
        lines = [folded(text) for text in lines]
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
        try:
            shell.showtraceback((kind, error, tb))
        finally:
            # `%tb` shows the same error later, and then the whole of it.
            del error._render_traceback_  # type: ignore[attr-defined]

    shell.set_custom_exc((Exception,), show)


def add_advice(error: BaseException, advice: Callable[[BaseException], str]) -> None:
    """Note with an error what more there is to say of it, once."""
    told = advice(error)
    if told and told not in getattr(error, "__notes__", []):
        error.add_note(told)


def short_lines(shell: Any, error: BaseException, folders: list[str]) -> list[str]:
    """An error and those it came from as IPython shows them, in the reader's frames."""
    with shortened_chain(error, folders) as shortened:
        lines = shell.InteractiveTB.structured_traceback(
            type(error), error, error.__traceback__
        )
    return [*lines[:-1], LEFT_OUT, lines[-1]] if shortened else lines


def folded(text: str) -> str:
    """What a traceback says, on lines that are not too wide; code stays as it is."""
    return "\n".join(part for line in text.split("\n") for part in folded_line(line))


def folded_line(line: str) -> list[str]:
    """One line of a message as several, the further ones indented.

    Colours take no room.  They are kept in the name of the error, and nowhere else.
    """
    plain = COLOUR.sub("", line)
    if len(plain) <= WIDEST or CODE.match(line):
        return [line]
    margin = " " * (len(plain) - len(plain.lstrip()) + 4)
    options: Any = {"break_long_words": False, "break_on_hyphens": False}
    first, *rest = textwrap.wrap(plain, WIDEST, subsequent_indent=margin, **options)
    match = COLOURED.match(line)
    name = match.group() if match else ""
    return [name + first[len(COLOUR.sub("", name)) :], *rest]


@contextmanager
def shortened_chain(error: BaseException, folders: list[str]) -> Iterator[bool]:
    """Errors without the library's frames, in the block; whether there are any."""
    before = [
        (e, e.__traceback__, e.__cause__, e.__suppress_context__) for e in chain(error)
    ]
    shortened = False
    for e, tb, *_ in before:
        every = list(frames(tb))
        own = list(readers(every, folders))
        shortened |= len(own) < len(every)
        e.__traceback__ = joined(own or every[-1:])
        if every and not own and e is not error:  # the reader has no part in it
            above = next(a for a, *_ in before if e in (a.__cause__, a.__context__))
            above.__cause__, above.__suppress_context__ = None, True
    try:
        yield shortened
    finally:
        for e, tb, cause, suppressed in before:
            e.__traceback__, e.__cause__ = tb, cause
            e.__suppress_context__ = suppressed


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that Python shows above it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        hide = error.__suppress_context__
        error = error.__cause__ or (None if hide else error.__context__)


def frames(tb: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    while tb is not None:
        yield tb
        tb = tb.tb_next


def file_of(tb: TracebackType) -> str:
    """The file of an entry of a traceback."""
    return tb.tb_frame.f_code.co_filename


def readers(every: list[TracebackType], folders: list[str]) -> Iterator[TracebackType]:
    """The entries that are neither the library's nor of what the library called."""
    within = False
    for tb in every:
        file = file_of(tb)
        # A statement that the reader edited goes by its file's name and this word.
        library = file.startswith(tuple(folders)) and "(edited:" not in file
        installed = file.startswith((*INSTALLED, "<frozen", "<string>"))
        within = library or (within and installed)
        if not within:
            yield tb


def joined(parts: list[TracebackType]) -> TracebackType | None:
    """Entries as one traceback."""
    whole = None
    for tb in reversed(parts):
        whole = TracebackType(whole, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return whole
