"""The contents of the book: its parts, and a sentence for each chapter and tour.

They stand in two tables of chapter 0, which readers of the notebooks use as well:

    | **Part 1: trace** | | |
    | [01](01_values.ipynb) | How can one function mean several things? | traces |

For what the tables do not have, the sentence is the first one of the notebook.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from itertools import groupby

from .measure import measure
from .notebook import joined, load, source
from .page_prose import TAGS, prose
from .project import Book, Chapter

PART = re.compile(r"\| \*\*(.+?)\*\* \|")
ROW = re.compile(r"\| (.+?) \| (.+?) \| (.*?) \|(?: \d+ \|)?$")
TO = re.compile(r"\]\(([^)]+)\.ipynb\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
HEADS = {"start": "", "tour": "Tours", "capstone": "Capstones"}


@dataclass(frozen=True)
class Entry:
    """One chapter in the contents: its part, a sentence (HTML) about it, its time."""

    chapter: Chapter
    part: str
    sentence: str
    minutes: int


@dataclass(frozen=True)
class Contents:
    """Everything that the book has, in the order of reading."""

    entries: tuple[Entry, ...]

    def groups(self) -> list[tuple[str, list[Entry]]]:
        """(title of a part, what is in it)."""
        by_part = groupby(self.entries, key=lambda entry: entry.part)
        return [(part, list(entries)) for part, entries in by_part]

    def entry(self, chapter: Chapter) -> Entry:
        """What the contents have about a chapter."""
        return next(e for e in self.entries if e.chapter == chapter)

    def about(self, chapter: Chapter) -> str:
        """The sentence about a chapter as plain text."""
        return unescape(TAGS.sub("", self.entry(chapter).sentence))


def contents(book: Book) -> Contents:
    """The contents, as chapter 0 has them."""
    parts, sentences = tables(book)
    entries, part = [], "The book"
    for chapter in book.notebooks():
        part = parts.get(chapter.stem, HEADS.get(chapter.kind) or part)
        sentence = sentences.get(chapter.stem)
        if sentence is None:
            sentence = "" if chapter.pending else first_sentence(book, chapter)
        words = LINK.sub(r"\1", sentence)
        told = prose(words, inline=True)
        written = not chapter.pending
        minutes = measure(load(book.notebook(chapter))).minutes if written else 0
        entries.append(Entry(chapter, part, told, minutes))
    return Contents(tuple(entries))


def tables(book: Book) -> tuple[dict[str, str], dict[str, str]]:
    """{stem: part}, {stem: question, what is built}: chapter 0's."""
    start = next((c for c in book.others if c.kind == "start"), None)
    parts: dict[str, str] = {}
    sentences: dict[str, str] = {}
    if start is None or start.pending:
        return parts, sentences
    part = ""
    for cell in load(book.notebook(start))["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        for line in source(cell).splitlines():
            if m := PART.match(line):
                part = m[1]
            elif (m := ROW.match(line)) and (to := TO.search(line)):
                question, built = (m[2], m[3]) if TO.search(m[1]) else (m[1], "")
                parts |= {to[1]: part} if part and TO.search(m[1]) else {}
                sentences[to[1]] = question + (f" You build {built}." if built else "")
    return parts, sentences


def first_sentence(book: Book, chapter: Chapter) -> str:
    """The first sentence of a notebook that is neither its title nor a link."""
    for cell in load(book.notebook(chapter))["cells"]:
        if cell["cell_type"] == "markdown":
            for paragraph in joined(cell["source"]).split("\n\n"):
                if not paragraph.startswith(
                    ("#", "[", "|", "- ", "after [", "tour [")
                ):
                    return re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0]
    return ""
