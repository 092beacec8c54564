"""`%chapter`, `%%build`, `%check`, short tracebacks: what a notebook sees."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from . import colours, course, exercise, grade, reader, tracebacks
from .build import Workshop, shortened
from .notebook import (
    build_cells, load, parse_build, quiet_statements, sections, source, tags,
)
from .project import Book, BookError, Chapter, find_book
from .ran import MEANT
from .show import mime, statement_text
from .stage import open_chapter, stale_names
from .text import names
from .units import Unit

workshop: Workshop | None = None
# What cells define that Python could not read when they were last run.
unread: set[str | None] = set()


def register(shell: Any) -> None:
    """Register the magics in an IPython shell."""

    def chapter(line: str) -> None:
        """%chapter ID: the library is now what the chapters before this one built.

        %chapter ID --mine: those chapters as the reader's own copy of them has it.
        %tour NAME: the library is the finished one.
        """
        __tracebackhide__ = True
        # Running the first cell again should not say that this is loaded already.
        shell.extension_manager.loaded.discard(__package__)
        print(open_book(line, shell.user_ns))
        colours.install(shell)

    def show(line: str) -> None:
        """%show FILE NAME: print a statement of the library."""
        from IPython.display import display

        __tracebackhide__ = True
        if here().student and (chapter := course.written_in(here(), line)):
            print(f"This checkout does not show it: you write it in {chapter.called}.")
            return
        display(mime(statement_text(here(), line)), raw=True)

    def build(line: str, cell: str) -> None:
        """%%build FILE [CLASS]: run the cell in that module of the library."""
        __tracebackhide__ = True
        id = cell_id(shell)
        unread.discard(id)
        try:
            report = opened().build_cell(line, cell, shell.user_ns, id)
        except Exception as e:
            unread.add(id)
            tracebacks.add_advice(e, advice)
            show_short(shell, e)
            raise
        if report:
            print(report)

    def check(line: str) -> None:
        """%check NAME: is the exercise solved, or the build cell right?"""
        __tracebackhide__ = True
        print(colours.verdict(check_answer(line.strip(), shell.user_ns)))

    def skip(line: str) -> None:
        """%skip NAME: go on with the book's text of a cell that is to be written."""
        __tracebackhide__ = True
        print(skip_task(line.strip(), shell.user_ns))

    emptying = shell.magics_manager.registry["NamespaceMagics"].reset

    def reset(line: str) -> None:
        """%reset 7: renew the copy of chapter 7.  Else it is IPython's `%reset`."""
        __tracebackhide__ = True
        book = here() if workshop is None else home()
        word = line.strip()
        if word not in {i for c in book.written() for i in (c.id, f"0{c.id}", c.stem)}:
            emptying(line)
            return
        told = [*reader.reset(book, book.chapter(word), book.student)]
        print("\n".join([*told, "If it is open: File, Reload Notebook from Disk."]))

    def solution(line: str) -> None:
        """%solution NAME: show the solution of an exercise, or the book's cell."""
        from IPython.display import display

        __tracebackhide__ = True
        shop = opened()
        chapter = shop.stage.chapter
        display(mime(grade.solution_text(home(), chapter, line.strip())), raw=True)

    shell.register_magic_function(chapter, "line", "chapter")
    shell.register_magic_function(chapter, "line", "tour")
    shell.register_magic_function(show, "line", "show")
    shell.register_magic_function(build, "cell", "build")
    shell.register_magic_function(check, "line", "check")
    shell.register_magic_function(solution, "line", "solution")
    shell.register_magic_function(skip, "line", "skip")
    shell.register_magic_function(reset, "line", "reset")
    shell.register_magic_function(lambda line: print(reader.table(home())), "line",
                                  "progress")  # fmt: skip
    tracebacks.install(shell, library_folders, advice)
    # Loops are those of the stored outputs, whichever CPU this is.
    if "MINIJIT_MACHINE" not in os.environ:
        os.environ["MINIJIT_MACHINE"] = "book"
        flags: Any = getattr(sys.modules.get("minijit"), "config", None)
        if flags and "machine" in flags.values:  # it was read before this
            flags.update("machine", "book")
    if sys.platform == "emscripten":
        shell.events.register("post_run_cell", lambda result: go_on(shell))
    if announce not in shell.events.callbacks["pre_run_cell"]:
        shell.events.register("pre_run_cell", announce)
        shell.events.register("post_run_cell", note_unread)


def announce(info: Any) -> None:
    """Say of a cell that is meant to fail that it is, before it does."""
    if workshop is None:
        return
    text = info.raw_cell.strip()
    head = build_heads().get(text) or build_heads().get(str(info.cell_id))
    if head and not text.startswith("%%"):
        print(f"This cell has lost its first line, `{head}`: what it defines is in the "
              "notebook, and the library does not have it.")  # fmt: skip
    failing = failing_cells().get(text)
    if failing and (failing.pop(0) if len(failing) > 1 else failing[0]):
        print(MEANT)


def note_unread(result: Any) -> None:
    """Note what a cell defines if it did not run, for an older one is still there."""
    defined = set(re.findall(r"(?m)^(?:def|class) (\w+)", result.info.raw_cell or ""))
    unread.difference_update(defined)
    if isinstance(result.error_before_exec, SyntaxError):
        unread.update(defined)


def build_heads() -> dict[str, str]:
    """The first line of each build cell, by the cell's id and by its other lines."""
    assert workshop is not None
    if workshop.heads is None:
        path = workshop.book.notebook(workshop.stage.chapter)
        workshop.heads = {}
        for build in build_cells(load(path)) if path.exists() else ():
            head = f"%%build {build.file} {build.owner}".rstrip()
            workshop.heads |= {build.body.strip(): head, str(build.cell["id"]): head}
    return workshop.heads


def go_on(shell: Any) -> None:
    """In a browser: print an error, for JupyterLite drops all waiting cells after one.

    It does so even if the cell is tagged `raises-exception`.
    """
    if (failed := shell._last_traceback) is not None:
        print("\n".join(failed["traceback"]), file=sys.stderr)
        shell._last_traceback = None


def failing_cells() -> dict[str, list[bool]]:
    """{text of a cell: whether it is meant to fail, for each time that it is run}.

    A chapter may end with the demo that it began with, which then works: so of two
    cells with one text the first one counts when it is run first.
    """
    assert workshop is not None
    if workshop.failing is None:
        path = workshop.book.notebook(workshop.stage.chapter)
        cells = load(path)["cells"] if path.exists() else []
        found: dict[str, list[bool]] = {}
        for cell in cells:
            tagged = "raises-exception" in tags(cell)
            found.setdefault(source(cell).strip(), []).append(tagged)
        workshop.failing = {text: one for text, one in found.items() if any(one)}
    return workshop.failing


def advice(error: BaseException) -> str:
    """Of a name that is not there: which cell of the open notebook sets it."""
    name = getattr(error, "name", None)
    if sys.platform == "emscripten" and name in ("numba", "llvmlite"):
        return f"A browser has no {name}: the chapter's page shows what comes here."
    if workshop is None or not isinstance(error, NameError) or not name:
        return ""
    path = workshop.book.notebook(workshop.stage.chapter)
    for section, cell in sections(load(path)) if path.exists() else ():
        build = parse_build(cell)
        text = source(cell) if cell["cell_type"] == "code" else ""
        text = build.body if build else "\n".join(ordinary_lines(text))
        for s in quiet_statements(text):
            if name in names(s.node) and not (build and build.owner):
                return f"`{name}` is set by a cell in '{section}', which has not run."
    return ""


def ordinary_lines(text: str) -> list[str]:
    """A cell without its lines of magics."""
    return [line for line in text.split("\n") if not line.startswith("%")]


def library_folders() -> list[Path]:
    """Where the library lies: the one around this machinery, and the open book's."""
    folders = [Path(__file__).resolve().parents[1]]
    if workshop is not None:
        folders.append(workshop.book.root / workshop.book.package)
    return folders


def show_short(shell: Any, e: Exception) -> None:
    """Let IPython show the traceback of a build cell from the cell's own text on."""
    if hasattr(e, "_render_traceback_"):
        return
    short = shortened(e.__traceback__)
    if short is not None:
        lines = shell.InteractiveTB.structured_traceback(type(e), e, short, tb_offset=0)
        e._render_traceback_ = lambda: lines  # type: ignore[attr-defined]


def cell_id(shell: Any) -> str | None:
    """The id of the cell that runs, where the front end tells it (JupyterLab does)."""
    try:
        found = shell.get_parent()["metadata"]["cellId"]
    except (AttributeError, KeyError, TypeError):
        return None
    return str(found)


def opened() -> Workshop:
    """The workshop of the chapter that is open."""
    if workshop is None:
        raise BookError("run the chapter's first cell: it says which chapter this is")
    return workshop


def here() -> Book:
    """The book of the chapter that is open, or of the working directory."""
    return workshop.book if workshop is not None else find_book()


def open_book(id: str, namespace: dict[str, Any]) -> str:
    """Open a chapter; what to tell the reader."""
    global workshop
    book = find_book()
    words = [w for w in id.split() if w != "--mine"]
    if len(words) != 1:
        raise BookError("write the chapter's number: `%chapter 6`, or `%tour types`")
    chapter = book.chapter(words[0])
    mine: list[str] = []
    if "--mine" in id.split():
        book, mine = grade.own_code(book, chapter)
    stage = open_chapter(book, chapter)
    workshop = Workshop(stage)
    told = "\n".join([opening_words(book, chapter), *mine])
    if stale := stale_names(stage, namespace):
        told += f"\nFrom before this line, and out of date: {', '.join(stale)}."
    return told


def opening_words(book: Book, chapter: Chapter) -> str:
    """What `%chapter` prints: the same whatever chapters land before this one."""
    title = chapter.title if chapter.title.endswith("?") else f"{chapter.title}."
    if chapter.whole:
        kind = "Chapter 0" if chapter.kind == "start" else chapter.kind.capitalize()
        return f"{kind}: {title} {book.package} is the finished library."
    head = f"Chapter {chapter.id}: {title}"
    state = "is what the chapters before it built" if chapter.index else "is empty"
    return f"{head} {book.package} {state}."


def home() -> Book:
    """The book that has the notebooks, and not a reader's own code in it."""
    book = opened().book
    return book if book.home is None else find_book(book.home)


def check_answer(name: str, namespace: dict[str, Any]) -> str:
    """The verdict on an answer to an exercise, or on a build cell that was written."""
    __tracebackhide__ = True
    chapter = opened().stage.chapter
    exercises = exercise.exercises(load(home().notebook(chapter)))
    known = [e.name for e in exercises]
    todo = course.tasks(home(), chapter)
    if name in known:
        told = check_exercise(name, namespace)
        right = told.startswith("right")
        note = reader.noted(home(), chapter, name, right)
        return f"{told}\n{note}" if note else told
    for task in todo:
        if task.is_called(name):
            return "\n".join(check_written(task))
    asked = f"there is no exercise {name} here" if name else "write `%check NAME`"
    names = ", ".join([*known, *(t.name for t in todo)])
    raise BookError(f"{asked}; this notebook has {names or 'none'}")


def check_written(task: course.Task) -> list[str]:
    """The verdict on a build cell that the reader wrote, in lines."""
    shop, live = opened(), live_cells()
    mine = [u for units in live for u in units if task.holds(u.file, u.key)]
    if task.name in shop.skipped and all(u.same for u in mine):
        return [f"not yet: {task.name} is the book's, for you have skipped it"]
    if task.cell in unread:
        return [f"not yet: the cell of {task.name} failed, so nothing of it counts"]
    ran = any(r.cell == task.cell for r in shop.records.values())
    mark = grade.check_task(shop.book, task, live, ran)
    told, right = grade.words(mark), mark.state == "right"
    if mark.state == "wrong":
        shop.tries[task.name] = shop.tries.get(task.name, 0) + 1
        if shop.tries[task.name] > 1:
            told.append(f"  {'hint':<10}{task.hint(home())}")
    if right:
        shop.skipped.discard(task.name)
        told += shop.reveal(task)
    note = reader.noted(home(), shop.stage.chapter, task.name, right)
    return [*told, note] if note else told


def skip_task(name: str, namespace: dict[str, Any]) -> str:
    """Build a cell that is to be written as the book has it."""
    __tracebackhide__ = True
    shop, book = opened(), home()
    todo = course.tasks(book, shop.stage.chapter)
    task = next((t for t in todo if t.is_called(name)), None)
    if task is None:
        names = ", ".join(t.name for t in todo)
        raise BookError(f"write `%skip NAME`; this notebook has {names or 'no tasks'}")
    text = task.whole(book)
    shop.build_cell(f"{task.file} {task.owner}", text, namespace, task.cell)
    shop.skipped.add(task.name)
    told = f"{task.name} is the book's from here on, and not shown."
    return f"{told} Write yours at any time: its cell and `%check` wait for it."


def check_exercise(name: str, namespace: dict[str, Any]) -> str:
    """The verdict on the reader's answer to an exercise of the open chapter."""
    __tracebackhide__ = True
    shop = opened()
    if name in unread:
        return f"not yet: the cell that defines {name} did not run: a SyntaxError"
    space = exercise.solutions(home(), shop.stage.chapter)
    if name not in namespace:
        return f"not yet: run the cell that defines {name} first"
    shop.tries[name] = shop.tries.get(name, 0) + 1
    check = exercise.check_of(space, name)
    told = exercise.verdict(check, namespace[name], shop.tries[name])
    if told == "right":
        shop.tries[name] = 0
    return told


def live_cells() -> list[list[Unit]]:
    """What the build cells that ran hold now, cell by cell."""
    cells: dict[tuple[str | None, str], list[Unit]] = {}
    for record in opened().records.values():
        if not record.gone and not record.staged:
            place = record.cell, record.unit.file
            cells.setdefault(place, []).append(record.unit)
    return [sorted(units, key=lambda u: u.mine.first) for units in cells.values()]
