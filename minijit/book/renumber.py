"""`renumber`: number the chapters by their order in book.toml, wherever they are named.

A chapter that is put between two others gets a number for the time being, such as 1000,
in book.toml and in the name of its file; then this gives each chapter the number of its
place.  Files are renamed.  What names a chapter is found by how it is written, in the
library, the tests, the notebooks and the pages at the top:

    chapter 7, Chapters 6 and 7, chapters 1 to 5        in prose, magics and cuts
    mark.chapter(7), style.matrix(7)                    in code
    python -m minijit.book test 7                       in commands
    [07 Backwards](07_transpose.ipynb), "07_transpose"  files, and links to them
    id = 7, after = 7                                   in book.toml

Stored outputs are not touched: `run` makes them anew.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from .notebook import dump, load
from .project import Book

LIST = r"\d+(?:(?:, and |, or |, | and | or | to |\.\.)\d+)*"
WORDS = re.compile(rf"(\b[Cc]hapters?[ \n])({LIST})\b")
CALLS = re.compile(r"(\bmark\.chapter\(|\bstyle\.(?:draw_)?matrix\()(\d+)\b")
COMMANDS = re.compile(
    r"(minijit\.book (?:reset|grade|check|stats|sync|run|test|stages|exercise|text"
    r"|outline|draft|diff|html) )(\d+(?: \d+)?)\b"
)
LINKS = re.compile(r"\[(\d\d)(?=[^\]\n]*\]\((?:\.\./)*(\d+)_)")
SETTINGS = re.compile(r"^((?:id|after) = )(\d+)$", re.M)

# These speak of other books: examples in docstrings, and the toy book of the tests.
OTHER_BOOKS = ("minijit/book/", "tests/book_toy.py", "tests/test_book_")

Numbers = Mapping[int, int]


def renumber(book: Book) -> list[str]:
    """Give every chapter the number of its place; what to tell."""
    new = {int(c.id): n for n, c in enumerate(book.chapters, 1)}
    if all(old == n for old, n in new.items()):
        return ["every chapter has the number of its place"]
    stems = {c.stem: renamed(c.stem, new) for c in book.chapters}
    for path in texts(book):
        if path.suffix == ".ipynb":
            change_notebook(path, lambda text: changed(text, new, stems))
        else:
            text = path.read_text(encoding="utf-8")
            now = changed(text, new, stems)
            if path.name == "book.toml":
                now = SETTINGS.sub(lambda m: m[1] + numbers(m[2], new), now)
            if now != text:
                path.write_text(now, encoding="utf-8")
    move(book, stems)
    moved = [f"{old} -> {n}" for old, n in new.items() if old != n]
    return [f"renumbered: {', '.join(moved)}", "now: sync, run, check"]


def texts(book: Book) -> list[Path]:
    """The files that may name a chapter: all text that git knows."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=book.root, capture_output=True, text=True, check=True
    )
    kinds = (".py", ".ipynb", ".md", ".toml", ".txt")
    found = [line for line in listed.stdout.splitlines() if line.endswith(kinds)]
    own = [line for line in found if not line.startswith(OTHER_BOOKS)]
    return [book.root / line for line in own if (book.root / line).exists()]


def changed(text: str, new: Numbers, stems: Mapping[str, str]) -> str:
    """A text with the new numbers."""
    text = LINKS.sub(lambda m: f"[{new.get(int(m[2]), int(m[2])):02}", text)
    for pattern in (WORDS, CALLS, COMMANDS):
        text = pattern.sub(lambda m: m[1] + numbers(m[2], new), text)
    names = "|".join(map(re.escape, sorted(stems, key=len, reverse=True)))
    return re.sub(rf"\b({names})\b", lambda m: stems[m[1]], text)


def numbers(text: str, new: Numbers) -> str:
    """The numbers in a text, each the new one; what no chapter has stays."""
    return re.sub(r"\d+", lambda m: str(new.get(int(m[0]), m[0])), text)


def renamed(stem: str, new: Numbers) -> str:
    """`07_transpose` as `08_transpose`."""
    number, _, name = stem.partition("_")
    return f"{new[int(number)]:02}_{name}"


def change_notebook(path: Path, change: Callable[[str], str]) -> None:
    """Change the text of each cell; outputs stay."""
    notebook = load(path)
    before = json.dumps(notebook)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        cell["source"] = change(source).splitlines(keepends=True)
    if json.dumps(notebook) != before:
        dump(notebook, path)


def move(book: Book, stems: Mapping[str, str]) -> None:
    """Rename notebooks and solutions, by way of names that nothing has."""
    folder = book.root / book.folder
    pairs = [
        (folder / f"{old}.ipynb", folder / f"{now}.ipynb") for old, now in stems.items()
    ]
    pairs += [
        (folder / "solutions" / f"{old}.py", folder / "solutions" / f"{now}.py")
        for old, now in stems.items()
    ]
    pairs = [(a, b) for a, b in pairs if a != b and a.exists()]
    for a, _ in pairs:
        a.rename(a.with_name(f"moving_{a.name}"))
    for a, b in pairs:
        a.with_name(f"moving_{a.name}").rename(b)
