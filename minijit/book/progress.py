"""How far a reader has come: what `%check` found right, kept beside the copies."""

from __future__ import annotations

import json
from pathlib import Path

from .exercise import exercises
from .notebook import load
from .project import Book, Chapter
from .reader import FOLDER, copy_folder

FILE = ".progress.json"
Found = dict[str, list[str]]  # chapter -> what of it is right


def found(book: Book) -> Found:
    """What is right so far."""
    path = copy_folder(book) / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def todo(book: Book, chapter: Chapter) -> list[str]:
    """What the copy of a notebook has a `%check` of: exercises, and cells to write."""
    path = copy_folder(book) / chapter.file
    own = load(path if path.exists() else book.notebook(chapter))
    return [e.name for e in exercises(own)]


def noted(book: Book, chapter: Chapter, name: str, right: bool) -> str:
    """Note what came of one; a line about the chapter, in the reader's copy of it."""
    if not Path.cwd().resolve().is_relative_to(copy_folder(book)):
        return ""
    every, known = todo(book, chapter), found(book)
    was = set(known.get(chapter.id, []))
    now = was | {name} if right else was - {name}
    if now != was:
        known[chapter.id] = sorted(now)
        text = json.dumps(known, indent=1)
        (copy_folder(book) / FILE).write_text(text, encoding="utf-8")
    return f"{chapter.called}: {len(now & {*every})} of {len(every)} are right"


def table(book: Book) -> str:
    """What is right in each notebook of the reader's copy that has something to do."""
    known, lines = found(book), []
    for chapter in book.written():
        if every := todo(book, chapter):
            now = [name for name in every if name in known.get(chapter.id, [])]
            bar = "●" * len(now) + "○" * (len(every) - len(now))
            lines.append(f"{chapter.called:<32}{len(now):>3} of {len(every):<4}{bar}")
    return "\n".join(lines) or f"nothing is to be done in {FOLDER}"
