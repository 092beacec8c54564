"""Did a chapter's notebook run, all of it, in order, as its tags say?

nbval passes in vain where a cell never ran, a magic was missing, or an error that was
to come did not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from .headings import check_heading
from .measure import LINK, check_limits
from .notebook import (
    CAPTION, METADATA, Json, headings, joined, quiet_statements, sections, source, tags,
)
from .project import Book, Chapter
from .show import check_shown

MEANT = "(This cell is meant to fail.)"  # printed before an error that is to come
ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")
LOCAL = re.compile(r"ipykernel_\d+|(?<![\w.])/(home|root|Users|tmp)/\w")
WIDEST = 100  # columns of an output
# Letters in a picture, in points.
SMALL = re.compile(r"\bfontsize=[1-8](\.\d+)?[,)]|\.text\(.*\bsize=[1-8][,)]")
LOOK_AWAY = re.compile(r"(?m)^\s*#\s*(NBVAL_|PYTEST_VALIDATE)")


def check_notebook(book: Book, chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Headings, limits, and that every cell ran, in order, as its tags say."""
    titles = [
        title
        for cell in notebook["cells"]
        if cell["cell_type"] == "markdown"
        for level, title in headings(source(cell))
        if level == 1
    ]
    if len(titles) != 1:
        yield f"{chapter.called} has {len(titles)} H1 headings, not one"
    else:
        yield from check_heading(book, chapter, notebook)
    if notebook["metadata"] != METADATA:
        yield f"{chapter.called} has not the metadata that JupyterLab writes; run sync"
    yield from check_opening(chapter, notebook)
    yield from check_links(book, chapter, notebook)
    yield from check_captions(chapter, notebook)
    yield from check_limits(book, chapter, notebook)
    code = [(s, c) for s, c in sections(notebook) if is_code(c)]
    if code and all(c.get("execution_count") is None for _, c in code):
        yield f"{chapter.called} has not been run"
        return
    in_order = True
    for count, (section, cell) in enumerate(code, 1):
        bad = [*check_run(cell), *check_shown(book, cell)]
        if in_order and cell.get("execution_count") != count:
            bad.insert(0, "the cell was not run, or not in order")
            in_order = False  # and then those below are not either
        for what in bad:
            where = f"{chapter.called}, section '{section}', at `{first_line(cell)}`"
            yield f"{where}: {what}"


def is_code(cell: Json) -> bool:
    """Is there something to run?"""
    return cell["cell_type"] == "code" and bool(source(cell).strip())


def first_line(cell: Json) -> str:
    """What tells a cell from the others, for a reader."""
    lines = [line for line in source(cell).split("\n") if line.strip()]
    if lines[0].startswith("%%build"):
        lines = lines[1:] or lines
        for s in quiet_statements("\n".join(lines)):
            return f"%%build ... {s.key}"
    return lines[0].strip()


def check_links(book: Book, chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Every link to a file leads to one, or to a notebook of the book."""
    folder = book.notebook(chapter).parent
    known = {book.notebook(c) for c in book.notebooks()}
    for section, cell in sections(notebook):
        if cell["cell_type"] == "markdown":
            for to in LINK.findall(source(cell)):
                path = Path(os.path.normpath(folder / to))
                if "://" not in to and path not in known and not path.exists():
                    where = f"{chapter.called}, section '{section}'"
                    yield f"{where} links to {to}, which is not there"


def check_captions(chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Below each picture stands what it shows, in a paragraph of italics."""
    cells = [*sections(notebook), ("", {"cell_type": "markdown", "source": ""})]
    for (section, cell), (_, below) in zip(cells, cells[1:], strict=False):
        shown = [kind for o in cell.get("outputs", []) for kind in o.get("data", {})]
        captioned = below["cell_type"] == "markdown" and CAPTION.match(source(below))
        if "image/png" in shown and not captioned:
            where = f"{chapter.called}, section '{section}', at `{first_line(cell)}`"
            yield f"{where}: the cell below has no caption, `*What is to be seen.*`"


def check_opening(chapter: Chapter, notebook: Json) -> Iterator[str]:
    """The chapter opens its own stage, and once."""
    lines = [
        line.split()
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
        for line in source(cell).split("\n")
        if line.startswith(("%chapter", "%tour"))
    ]
    if lines != [chapter.opening.split()]:
        found = ", ".join(" ".join(line) for line in lines) or "no such line"
        wanted = f"`{chapter.opening}` once"
        yield f"{chapter.called}: it must say {wanted}, not {found}"


def check_run(cell: Json) -> Iterator[str]:
    """What is wrong with what a cell's run stored."""
    text = source(cell)
    outputs = cell.get("outputs", [])
    marks = [t for t in tags(cell) if t.lower().startswith(("nbval", "skip"))]
    errors = [o for o in outputs if o["output_type"] == "error"]
    if "raises-exception" in tags(cell):
        if not errors:
            yield "tagged raises-exception, but no error is stored"
        elif not any(MEANT in shown for shown in texts(outputs)):
            yield "it does not say that it is meant to fail; run it again"
    elif errors:
        yield f"raised {errors[0].get('ename')}, without the tag raises-exception"
    if any(o.get("name") == "stderr" for o in outputs):
        yield "something went to stderr"
    if marks or LOOK_AWAY.search(text):
        yield "nbval is told to look away"
    if any(ADDRESS.search(shown) for shown in texts(outputs)):
        yield "an output holds an address"
    if wide := [line for line in shown_lines(outputs) if len(line) > WIDEST]:
        yield f"an output has a line of {len(wide[0])} columns, more than {WIDEST}"
    if SMALL.search(text):
        yield "letters in a picture are smaller than 9 points"
    if any(LOCAL.search(shown) for shown in texts(outputs)):
        yield "an output holds a path of the machine it ran on"
    if "volatile" in tags(cell) and any(o["output_type"] == "stream" for o in outputs):
        yield "a volatile cell may only show pictures"


def shown_lines(outputs: list[Json]) -> Iterator[str]:
    """The lines that a reader sees; source code may be as wide as it is."""
    for o in outputs:
        kinds = o.get("data", {})
        whole = joined(kinds.get("text/plain", o.get("text", "")))
        if "text/markdown" not in kinds and "image/png" not in kinds:
            yield from whole.split("\n")
        yield from "\n".join(o.get("traceback", [])).split("\n")


def texts(outputs: list[Json]) -> Iterator[str]:
    """The texts that outputs show."""
    for o in outputs:
        yield joined(o.get("text", ""))
        for kind, value in o.get("data", {}).items():
            if kind.startswith("text/"):
                yield joined(value)
        yield str(o.get("evalue", ""))
        yield "\n".join(o.get("traceback", []))
