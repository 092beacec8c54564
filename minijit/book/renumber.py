"""`renumber`: number the chapters by their order in book.toml, wherever they are named.

A chapter that is put between two others gets a number for the time being, such as 1000,
in book.toml and in the name of its file; then this gives each chapter the number of its
place.  Files are renamed.  What names a chapter is found by how it is written, in the
library, the tests, the notebooks and the pages at the top:

    chapter 7, Chapters 6 and 7, this chapter, 7        in prose, magics and cuts
    mark.chapter(7), style.matrix(7)                    in code
    python -m minijit.book test 7, `test 7`             in commands
    [07 Backwards](07_transpose.ipynb), "07_transpose"  files, and links to them
    | [A walk](tours/walk.ipynb) | 7 |                  in the list of tours
    | 06 to 12 |                                        in tables of README.md
    for n in 00 01 05                                   in .ci/run
    id = 7, after = 7                                   in book.toml

A range that begins with the first chapter still does: `chapters 1 to 5` are all up to
the fifth.  The text of stored outputs is changed like the rest; pictures that name a
chapter, such as `style.matrix` draws, want `run`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .notebook import dump, load
from .project import Book

LIST = r"\d+(?:(?:, and |, or |, | and | or | to |\.\.)\d+)*"
WORDS = re.compile(rf"(\b[Cc]hapters?[ \n]|\bthis chapter, )({LIST})\b")
RANGE = re.compile(r"^(\d+)(?= to |\.\.)")
CALLS = re.compile(
    r"(\bmark\.chapter\(|\bstyle\.(?:draw_matrix|matrix|pipeline)\()(\d+)\b"
)
COMMANDS = re.compile(
    r"((?:minijit\.book |`)(?:reset|grade|check|stats|sync|run|test|stages|exercise"
    r"|text|outline|draft|diff|html) )(\d+(?: \d+)?)\b"
)
ROWS = re.compile(r"^(\| )(\d\d(?:(?:, | to )\d\d)*)(?= \|)", re.M)
NOTEBOOKS = re.compile(r"(\bfor n in )((?:\d\d ?)+)")
REAL = re.compile(r"(\bBOOK\.chapter\(\")(\d+)\b")  # the real book, in its tests
LINKS = re.compile(r"\[(\d\d)(?=[^\]\n]*\]\((?:\.\./)*(\d+)_)")
AFTER = re.compile(r"(\]\(tours/\w+\.ipynb\) \| )(\d+)(?= \|)")
SETTINGS = re.compile(r"^((?:id|after) = )(\d+)$", re.M)
PLACES = {"book.toml": (SETTINGS,), "README.md": (ROWS,), ".ci/run": (NOTEBOOKS,)}

# These speak of other books: examples in docstrings, and the toy book of the tests.
OTHER_BOOKS = ("minijit/book/", "tests/book_toy.py", "tests/test_book_")

Numbers = Mapping[int, int]


def renumber(book: Book) -> list[str]:
    """Give every chapter the number of its place; what to tell."""
    new = {int(c.id): n for n, c in enumerate(book.chapters, 1)}
    if all(old == n for old, n in new.items()):
        return ["every chapter has the number of its place"]
    stems = {c.stem: renamed(c.stem, new) for c in book.chapters}
    for path in texts(book, own=False):
        text = path.read_text(encoding="utf-8")
        write(path, text, REAL.sub(lambda m: m[1] + numbers(m[2], new), text))
    for path in texts(book):
        if path.suffix == ".ipynb":
            change_notebook(path, lambda text: changed(text, new, stems))
        else:
            text = path.read_text(encoding="utf-8")
            now = changed(text, new, stems)
            for pattern in PLACES.get(path.relative_to(book.root).as_posix(), ()):
                now = pattern.sub(lambda m: m[1] + numbers(m[2], new), now)
            write(path, text, now)
    move(book, stems)
    moved = [f"{old} -> {n}" for old, n in new.items() if old != n]
    return [f"renumbered: {', '.join(moved)}", "now: sync, run, check"]


def write(path: Path, before: str, text: str) -> None:
    """Write a text that has changed."""
    if text != before:
        path.write_text(text, encoding="utf-8")


def texts(book: Book, own: bool = True) -> list[Path]:
    """The files that may name a chapter: all text that git knows.

    Those of OTHER_BOOKS, if not `own`.
    """
    listed = subprocess.run(
        ["git", "ls-files"], cwd=book.root, capture_output=True, text=True, check=True
    )
    kinds = (".py", ".ipynb", ".md", ".toml", ".txt")
    found = [line for line in listed.stdout.splitlines() if line.endswith(kinds)]
    found += [line for line in listed.stdout.splitlines() if line in PLACES]
    wanted = [f for f in dict.fromkeys(found) if f.startswith(OTHER_BOOKS) != own]
    return [book.root / file for file in wanted if (book.root / file).exists()]


def changed(text: str, new: Numbers, stems: Mapping[str, str]) -> str:
    """A text with the new numbers."""
    text = LINKS.sub(lambda m: f"[{new.get(int(m[2]), int(m[2])):02}", text)
    text = WORDS.sub(lambda m: m[1] + listed(m[2], new), text)
    for pattern in (CALLS, COMMANDS, AFTER):
        text = pattern.sub(lambda m: m[1] + numbers(m[2], new), text)
    names = "|".join(map(re.escape, sorted(stems, key=len, reverse=True)))
    return re.sub(rf"\b({names})\b", lambda m: stems[m[1]], text)


def listed(text: str, new: Numbers) -> str:
    """The same for `6 and 7`, and for `1 to 5`, which is all up to the fifth."""
    first = RANGE.match(text)
    if first and int(first[1]) == min(new):
        return f"1{numbers(text[first.end() :], new)}"
    return numbers(text, new)


def numbers(text: str, new: Numbers) -> str:
    """The numbers in a text, each the new one; what no chapter has stays."""

    def one(m: re.Match[str]) -> str:
        number = str(new.get(int(m[0]), int(m[0])))
        return number.zfill(2) if m[0][:-1].startswith("0") else number

    return re.sub(r"\d+", one, text)


def renamed(stem: str, new: Numbers) -> str:
    """`07_transpose` as `08_transpose`."""
    number, _, name = stem.partition("_")
    return f"{new[int(number)]:02}_{name}"


def change_notebook(path: Path, change: Callable[[str], str]) -> None:
    """Change the text of each cell, and of its outputs."""
    notebook = load(path)
    before = json.dumps(notebook)
    for cell in notebook["cells"]:
        cell["source"] = change("".join(cell["source"])).splitlines(keepends=True)
        for output in cell.get("outputs", []):
            for shown in output, output.get("data", {}):
                for key in shown:
                    if key in ("text", "evalue", "traceback") or "text/" in key:
                        shown[key] = changed_lines(shown[key], change)
    if json.dumps(notebook) != before:
        dump(notebook, path)


def changed_lines(text: Any, change: Callable[[str], str]) -> Any:
    """What an output shows: a text, or its lines."""
    return change(text) if isinstance(text, str) else [change(line) for line in text]


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
