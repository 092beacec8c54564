"""The first lines of a notebook: number, title, and the way to its neighbours.

    # 7 Backwards

    [06 One rule, two uses](06_one_rule.ipynb) · [contents](00_start_here.ipynb) · ...

book.toml says all of it; `sync` writes it, and `check` compares.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from .notebook import Json, source
from .project import Book, Chapter

# A title, and the line of links below it, if there is one.
LINKS = r"(?:after |tour )?\[[^\]\n]*\]\([^)\n]*\.ipynb\)"
TITLE = re.compile(rf"\A# [^\n]*(?:\n+{LINKS}(?: · {LINKS})*(?=\n|\Z))?")


def heading(book: Book, chapter: Chapter) -> str:
    """What a notebook begins with: its title, then links."""
    numbered = chapter.kind in ("chapter", "start")
    title = f"# {chapter.id} {chapter.title}" if numbered else f"# {chapter.title}"
    links = " · ".join(ways(book, chapter))
    return f"{title}\n\n{links}" if links else title


def ways(book: Book, chapter: Chapter) -> Iterator[str]:
    """Links to what comes before, the contents, what comes after, and its tours.

    From a tour or a capstone: to the contents, and to the chapter it builds on.
    """
    start = next((c for c in book.others if c.kind == "start"), None)
    contents = [start] if start and start is not chapter else []
    if chapter.kind in ("tour", "capstone"):
        yield from (link(chapter, c, "contents") for c in contents)
        known = [c for c in book.chapters if c.id == chapter.after]
        yield from ("after " + link(chapter, c) for c in known)
        return
    order = [c for c in book.written() if c.kind in ("chapter", "start")]
    at = order.index(chapter) if chapter in order else len(order)
    before = [c for c in order[:at] if c not in contents]
    if before:
        yield link(chapter, before[-1])
    yield from (link(chapter, c, "contents") for c in contents)
    if order[at + 1 :]:
        yield link(chapter, order[at + 1])
    for tour in book.others:
        if tour.kind == "tour" and tour.after == chapter.id and not chapter.whole:
            yield "tour " + link(chapter, tour, tour.title)


def link(chapter: Chapter, other: Chapter, words: str = "") -> str:
    """A link from one notebook to another."""
    file = posixpath.relpath(other.file, posixpath.dirname(chapter.file) or ".")
    number = other.id.zfill(2) if other.id.isdigit() else other.id
    return f"[{words or f'{number} {other.title}'}]({file})"


def put_heading(book: Book, chapter: Chapter, notebook: Json) -> None:
    """Give a notebook's first cell the heading that book.toml says."""
    for cell in notebook["cells"][:1]:
        if cell["cell_type"] == "markdown" and (m := TITLE.match(source(cell))):
            rest = source(cell)[m.end() :].lstrip("\n")
            cell["source"] = heading(book, chapter) + (f"\n\n{rest}" if rest else "")


def check_heading(book: Book, chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Does the notebook begin with its heading?"""
    cells = notebook["cells"]
    text = source(cells[0]) if cells else ""
    wanted = heading(book, chapter)
    if text != wanted and not text.startswith(f"{wanted}\n"):
        title = wanted.partition("\n")[0]
        yield f"{chapter.called} must begin with `{title}` and its links; run sync"
