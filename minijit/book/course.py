"""Course mode: build cells that the reader writes, from signature and docstring on.

A build cell with the tag `write` is a *task*.  Further tags of it name the tests that
concern it: `test_jvp.py::test_sum`.  `start --write` empties these cells in the
reader's copy, puts a `%check NAME` below each, and above it what it takes to write it:
the names of the library that the book's text uses, with their signatures.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .measure import measure
from .notebook import (
    BuildCell, Json, code_cell, load, markdown_cell, parse_build, sections, tags,
)
from .project import Book, Chapter
from .signatures import used_by
from .text import Function, is_docstring

TAG = "write"
HOLE = 'raise NotImplementedError("yours to write")'
USES = "*The next cell is yours. The book's text of it uses* {}*.*"
NOTE = """\
*This copy is to be written: where a build cell says "yours to write", put what its \
docstring asks for. `%check NAME` below the cell runs the tests that concern it, and \
from the second time on gives a hint. `%skip NAME` goes on with the book's \
text{shown}. All of it takes about {minutes} minutes. \
`%chapter {id} --mine`, in the first cell, starts from your own code of the chapters \
before.*"""


@dataclass(frozen=True)
class Task:
    """A build cell that the reader may write."""

    chapter: Chapter
    section: str
    cell: str  # its id
    file: str
    owner: str
    body: str
    functions: tuple[str, ...]  # what is emptied, `Class.method` in full
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """What `%check` calls it."""
        return called(self.functions)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the statements in it that hold its functions."""
        heads = {f.partition(".")[0] for f in self.functions}
        return frozenset(heads | {*self.functions})

    def is_called(self, name: str) -> bool:
        """Is it meant by a name: of a function, or of a method without its class?"""
        return name in {n for f in self.functions for n in (f, f.rpartition(".")[2])}

    def holds(self, file: str, key: str) -> bool:
        """Is the statement of this key, in this file, one that is to be written?"""
        return file == self.file and key in self.keys

    def bodies(self, book: Book) -> dict[str, str]:
        """The book's text of what is emptied, by function: its cell may be empty."""
        whole = BuildCell({}, "", self.file, "", None, book.source(self.file))
        lines, found = holes(whole)
        texts = {h.name: "\n".join(lines[h.first : h.last]) for h in found}
        return {name: texts[name] for name in self.functions}

    def whole(self, book: Book) -> str:
        """The cell's text with the book's in place of what is to be written."""
        lines, found = holes(self.build())
        texts = self.bodies(book)
        for hole in reversed(found):
            lines[hole.first : hole.last] = [texts[hole.name]]
        return "\n".join(lines[bool(self.owner) :])

    def uses(self, book: Book) -> list[str]:
        """What the book's text of it uses of the library, with signatures."""
        cell = "\n".join(holes(self.build())[0])
        return used_by(book, self.file, self.functions, cell)

    def hint(self, book: Book) -> str:
        """How long the book's text of it is, and what that uses."""
        texts = self.bodies(book).values()
        code = [x for t in texts for x in t.split("\n") if x.split("#")[0].strip()]
        lines = f"the book has {len(code)} line{'s' * (len(code) > 1)} here"
        used = ", ".join(self.uses(book))
        return f"{lines}, with {used}" if used else lines

    def build(self) -> BuildCell:
        """Its cell, as the book has it."""
        return BuildCell({}, self.section, self.file, self.owner, None, self.body)


def called(functions: Sequence[str]) -> str:
    """The function that a task is called by, best none of Python's own names."""
    own = [f for f in functions if not f.endswith("__")]
    return [*own, *functions][0]


def tasks(book: Book, chapter: Chapter) -> list[Task]:
    """The tasks of a chapter, in order."""
    path = book.notebook(chapter)
    return list(tasks_in(chapter, load(path))) if path.exists() else []


def written_in(book: Book, shown: str) -> Chapter | None:
    """The chapter in which readers write what `%show FILE NAME` would print, if any."""
    file, _, name = shown.removeprefix("%show").strip().partition(" ")
    for chapter in book.chapters:
        for task in tasks(book, chapter) if file in chapter.builds else ():
            if file == task.file and name in task.keys:
                return chapter
    return None


def tasks_in(chapter: Chapter, notebook: Json) -> Iterator[Task]:
    """The tasks of a notebook."""
    for section, cell in sections(notebook):
        build = parse_build(cell, section) if TAG in tags(cell) else None
        if build is not None:
            tests = tuple(t for t in tags(cell) if "::" in t)
            yield Task(
                chapter, section, cell["id"], build.file, build.owner, build.body,
                tuple(emptied(build)[1]), tests,
            )  # fmt: skip


def emptied(cell: BuildCell) -> tuple[str, list[str]]:
    """The text of a build cell without its functions' bodies; what was emptied.

    Signatures and docstrings stay, as does all that is no function: imports, tables,
    the heads and fields of classes.  A function on one line stays as well.
    """
    lines, found = holes(cell)
    for hole in reversed(found):
        lines[hole.first : hole.last] = [hole.text]
    return "\n".join(lines[bool(cell.owner) :]), [hole.name for hole in found]


@dataclass(frozen=True)
class Hole:
    """A function's body: lines first to last, from 0 and without the last one."""

    name: str  # `Class.method` in full
    first: int
    last: int
    text: str  # what stands in its place


def holes(cell: BuildCell) -> tuple[list[str], list[Hole]]:
    """The lines of a build cell, below `class Owner:` if it goes on with one, and the
    bodies that are to be written."""
    text = f"class {cell.owner}:\n{cell.body}" if cell.owner else cell.body
    lines = text.split("\n")
    found: list[Hole] = []
    tree = ast.parse(text)
    functions = [(f, f.name) for f in tree.body if isinstance(f, Function)]
    for cls in [n for n in tree.body if isinstance(n, ast.ClassDef)]:
        methods = [f for f in cls.body if isinstance(f, Function)]
        functions += [(f, f"{cls.name}.{f.name}") for f in methods]
    for function, name in functions:
        first, *rest = function.body
        if function.end_lineno == function.lineno:
            continue
        begin = signature_end(lines, function)
        if is_docstring(first):
            begin = first.end_lineno or begin
            if not rest:
                continue  # there is nothing in it but words
        hole = " " * first.col_offset + HOLE
        found.append(Hole(name, begin, function.end_lineno or begin, hole))
    return lines, sorted(found, key=lambda hole: hole.first)


def signature_end(lines: list[str], function: ast.stmt) -> int:
    """The number of the last line of a function's signature."""
    assert isinstance(function, Function)
    end = function.body[0].lineno - 1
    while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
        end -= 1  # comments above the first statement belong to the body
    return end


def emptied_notebook(notebook: Json, book: Book, chapter: Chapter) -> None:
    """Empty the cells to write, with a check below each; no outputs of the book's code.

    Above each stands what its text uses of the library.  A student has no solutions
    that could be shown.
    """
    about = {task.cell: task for task in tasks_in(chapter, notebook)}
    cells: list[Json] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        build = parse_build(cell) if TAG in tags(cell) else None
        if build is None:
            cells.append(cell)
            continue
        if used := about[cell["id"]].uses(book):
            words = USES.format(", ".join(f"`{name}`" for name in used))
            cells.append(markdown_cell(words, f"{cell['id']}-uses"))
        text, names = emptied(build)
        build.write(text, build.owner)
        cells += [cell, code_cell(f"%check {called(names)}", f"{cell['id']}-check")]
    minutes = measure({**notebook, "cells": cells}).minutes
    shown = "" if book.student else ", `%solution NAME` shows it"
    note = NOTE.format(id=chapter.id, minutes=minutes, shown=shown)
    cells.insert(1, markdown_cell(note, "to-be-written"))
    notebook["cells"] = cells
