"""`stats`, and the limits of a chapter that can be read in one sitting.

A build line is a line of a build cell that is not blank.  A *run* is a cell that shows
something: any code cell but those that build, open the chapter, or belong to an
exercise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .imports import imported
from .notebook import (
    Json, build_cells, load, parse_build, quiet_statements, sections, source, tags,
)
from .project import Book, Chapter

CELL_LINES = 40
STRETCH_LINES = 100
CHAPTER_LINES = 350
LINK = re.compile(r"\]\(([^)\s#]+)")
FENCED = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
PICTURES = ("image/png", "image/svg+xml")
NO_RUN = ("%load_ext", "%chapter", "%tour", "%check", "%show")

# A careful reader's pace: of prose, of what is built, of what tries it out.
WORDS_A_MINUTE, LINES_A_MINUTE, RUN_LINES_A_MINUTE = 130, 4, 10
MINUTES_AN_EXERCISE = 10

# What `exceptions` in book.toml may excuse a chapter from.
RULES = {
    "cells": f"a build cell has at most {CELL_LINES} lines",
    "stretch": f"at most {STRETCH_LINES} build lines stand between two runs",
    "lines": f"a chapter has at most {CHAPTER_LINES} build lines",
    "brought": "a chapter links to each file that it brings along",
    "imports": "a chapter imports nothing that comes later",
}


@dataclass(frozen=True)
class Measure:
    """What `stats` prints for a notebook."""

    lines: int  # build lines
    words: int  # of prose, without what stands in code fences
    stretch: int  # the most build lines without a run
    within: str  # the section in which that stretch ends
    pictures: int  # images among the outputs
    exercises: int
    run_lines: int  # of the cells that run

    @property
    def words_per_line(self) -> float:
        """Words of prose for each build line."""
        return self.words / max(self.lines, 1)

    @property
    def minutes(self) -> int:
        """How long it takes to read, run and do the exercises, to five minutes.

        Cells to write count as exercises, once they are empty.
        """
        code = self.lines / LINES_A_MINUTE + self.run_lines / RUN_LINES_A_MINUTE
        worked = self.exercises * MINUTES_AN_EXERCISE
        return 5 * round((self.words / WORDS_A_MINUTE + code + worked) / 5)


def measure(notebook: Json) -> Measure:
    """Count what there is in a notebook."""
    lines = words = pictures = exercises = run_lines = so_far = longest = 0
    within = ""
    for section, cell in sections(notebook):
        text = source(cell)
        if cell["cell_type"] == "markdown":
            words += len(FENCED.sub("", text).split())
            continue
        if found := parse_build(cell):
            lines += length(found.body)
            so_far += length(found.body)
            if so_far > longest:
                longest, within = so_far, section
        elif is_run(cell):
            so_far = 0
            run_lines += length(text)
        exercises += text.startswith("%check ")
        for output in cell.get("outputs", []):
            pictures += any(kind in output.get("data", {}) for kind in PICTURES)
    return Measure(lines, words, longest, within, pictures, exercises, run_lines)


def length(text: str) -> int:
    """The lines of a cell, without blank ones."""
    return sum(1 for line in text.split("\n") if line.strip())


def is_run(cell: Json) -> bool:
    """Does the cell show what was built?"""
    text = source(cell).strip()
    other = not text or text.startswith(NO_RUN) or "exercise" in tags(cell)
    return cell["cell_type"] == "code" and not other


def table(book: Book, only: Chapter | None = None) -> Iterator[str]:
    """The lines of `stats`: one for each notebook, and one for all that build."""
    head = ["build lines", "words", "words a line", "stretch", "pictures"]
    head += ["exercises", "minutes"]
    yield f"{'':24}" + "".join(f"{h:>14}" for h in head)
    built = []
    for chapter in [only] if only else book.written():
        m = measure(load(book.notebook(chapter)))
        yield row(chapter.called, m, builds=not chapter.whole)
        built += [] if chapter.whole else [m]
    if len(built) > 1:
        every = Measure(
            sum(m.lines for m in built),
            sum(m.words for m in built),
            max(m.stretch for m in built),
            "",
            sum(m.pictures for m in built),
            sum(m.exercises for m in built),
            sum(m.run_lines for m in built),
        )
        yield row("all chapters", every)


def row(name: str, m: Measure, builds: bool = True) -> str:
    """One line of `stats`; a tour has no figures for what it does not build."""
    ratio = f"{m.words_per_line:.1f}" if builds and m.lines else ""
    lines, stretch = (m.lines, m.stretch) if builds else ("", "")
    cells = lines, m.words, ratio, stretch, m.pictures, m.exercises, m.minutes
    return f"{name:24}" + "".join(f"{cell:>14}" for cell in cells)


# -- limits


def complaints(
    book: Book, chapter: Chapter, notebook: Json
) -> Iterator[tuple[str, str]]:
    """(rule, what breaks it) of a chapter, excused or not."""
    yield from (("cells", told) for told in long_cells(chapter, notebook))
    m = measure(notebook)
    if m.stretch > STRETCH_LINES:
        yield (
            "stretch",
            f"{chapter.called}, section '{m.within}': {m.stretch} build lines without "
            f"a run; at most {STRETCH_LINES}",
        )
    if m.lines > CHAPTER_LINES:
        told = f"{m.lines} build lines; at most {CHAPTER_LINES}"
        yield "lines", f"{chapter.called} has {told}"
    yield from (("brought", told) for told in unnamed(book, chapter, notebook))
    yield from (("imports", told) for told in later_imports(book, chapter, notebook))


def long_cells(chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Build cells that are too long to be read at once."""
    for cell in build_cells(notebook):
        n = len(cell.body.strip("\n").split("\n"))
        if n > CELL_LINES:
            keys = [s.key for s in quiet_statements(cell.body)] or [cell.owner]
            where = f"{chapter.called}, section '{cell.section}', {cell.file}"
            what = ", ".join(keys[:4])
            yield f"{where}: the cell of {what} has {n} lines; at most {CELL_LINES}"


def unnamed(book: Book, chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Files that a chapter brings along without a link to them in its prose."""
    up = "../" * (1 + chapter.file.count("/"))
    prose = "\n".join(
        source(c) for c in notebook["cells"] if c["cell_type"] == "markdown"
    )
    linked = set(LINK.findall(prose))
    for file in [*chapter.brings, *chapter.brings_after]:
        if f"{up}{file}" not in linked:
            yield f"{chapter.called} brings {file} along, and does not link to it"


def later_imports(book: Book, chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Imports in cells of what a later chapter has, and notebooks that are run.

    A cell that is to raise may ask for it: that is how a chapter begins.
    """
    for section, cell in sections(notebook):
        where = f"{chapter.called}, section '{section}'"
        text = source(cell)
        if cell["cell_type"] != "code" or parse_build(cell):
            continue
        if "raises-exception" in tags(cell):
            continue
        lines = text.split("\n")
        if any(line.startswith("%run") for line in lines):
            yield f"{where}: a chapter runs no other notebook"
        plain = "\n".join("" if line.startswith("%") else line for line in lines)
        for s in quiet_statements(plain) if "import" in plain else ():
            for _, file, name in imported(book, f"{book.package}/__init__.py", s.node):
                part = book.part_of(file, name)
                if part is not None and part.chapter.index > chapter.index:
                    told = f"which is chapter {part.chapter.id}'s"
                    yield f"{where} imports {name or file}, {told}"


def check_limits(book: Book, chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Rules that a chapter breaks, and exceptions of it that mean nothing."""
    if chapter.whole:
        return
    for rule, told in complaints(book, chapter, notebook):
        if rule not in chapter.exceptions:
            yield told
    for rule, reason in chapter.exceptions.items():
        if rule not in RULES:
            known = ", ".join(RULES)
            yield f"{chapter.called} is excused from {rule}: the rules are {known}"
        elif not reason.strip():
            yield f"{chapter.called} is excused from {rule} without a reason"


def idle_exceptions(book: Book) -> Iterator[str]:
    """Exceptions that a chapter no longer needs."""
    for chapter in book.chapters:
        if chapter.exceptions and not chapter.pending:
            found = complaints(book, chapter, load(book.notebook(chapter)))
            broken = {rule for rule, _ in found}
            for rule in chapter.exceptions:
                if rule in RULES and rule not in broken:
                    yield f"{chapter.called} keeps to the rule `{rule}` by now"
