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

import linecache
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .notebook import Json, joined, load, quiet_statements, sections, source, tags
from .project import Book, BookError, Chapter
from .text import names
from .tracebacks import file_of, frames


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
        raise BookError(f"{chapter.called} has no {path.relative_to(book.root)}")
    text = path.read_text(encoding="utf-8")
    linecache.checkcache(str(path))
    module = types.ModuleType(f"solutions_{chapter.stem}")
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
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


def verdict(check: Callable[[Any], Any], answer: Any) -> str:
    """`right`, or `not yet` with the hint, and the answer's error.  Never raises."""
    why = ""
    try:
        result = check(answer)
        if result is None or result is True:
            return "right"
    except Exception as e:
        why = reason(e, answer)
    return f"not yet: {hint(check)}" + (f"\n({why})" if why else "")


def reason(error: Exception, answer: Any) -> str:
    """What a check says of an answer, or the error that the answer itself raised.

    An error elsewhere tells the reader nothing: no check expects what the answer gave.
    """
    file = getattr(getattr(answer, "__code__", None), "co_filename", None)
    own = [tb for tb in frames(error.__traceback__) if file == file_of(tb)]
    if own and not isinstance(error, AssertionError):
        return f"line {own[-1].tb_lineno}: {type(error).__name__}: {error}"
    return str(error) if isinstance(error, AssertionError) else ""


def judge(book: Book, chapter: Chapter) -> list[str]:
    """Complaints about a chapter's exercises; run on the chapter's stage.

    Every stub must be not right, in the notebook's stored output and here; every
    solution right; every hint there; every solution's check used in the notebook.
    """
    found = exercises(load(book.notebook(chapter)))
    if not found:
        return []
    space = solutions(book, chapter)
    bad = []
    for e in found:
        where = f"{chapter.called}, section '{e.section}', exercise {e.name}"
        bad += [f"{where}: {what}" for what in judge_one(e, space)]
    checked = {e.name for e in found}
    for name in space:
        if name.startswith("check_") and name.removeprefix("check_") not in checked:
            bad.append(f"{chapter.called}: no `%check {name.removeprefix('check_')}`")
    return bad


def judge_one(e: Exercise, space: dict[str, Any]) -> list[str]:
    """Complaints about one exercise."""
    if f"check_{e.name}" not in space or e.name not in space:
        return [f"the solutions lack {e.name} or check_{e.name}"]
    check = check_of(space, e.name)
    bad = []
    if not hint(check):
        bad.append("there is no hint (the docstring of its check)")
    if not e.stub:
        bad.append(f"no cell tagged `exercise` defines {e.name}")
    elif stub_is_right(e, check, space):
        bad.append("the stub is right already")
    if not e.shown.startswith(f"not yet: {hint(check)}"):
        bad.append(f"the chapter does not show `not yet: <hint>` but {e.shown!r}")
    answer = verdict(check, space[e.name])
    if answer != "right":
        bad.append(f"the solution is {answer}")
    return bad


def stub_is_right(
    e: Exercise, check: Callable[[Any], Any], space: dict[str, Any]
) -> bool:
    """Does the stub, run beside the solutions' imports, pass the check?"""
    scratch = {k: v for k, v in space.items() if k != e.name}
    try:
        exec(compile(e.stub, f"<stub of {e.name}>", "exec", dont_inherit=True), scratch)
    except Exception:
        return False
    return verdict(check, scratch.get(e.name)) == "right"
