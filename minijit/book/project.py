"""What `book.toml` says: the chapters in their order, and which files each one builds.

    [book]
    package = "minijit"
    chapters = "chapters"                     # the folder of the notebooks
    rooms = ["trace", "transform"]            # imports go from later to earlier rooms
    pending = []                              # library files no chapter builds yet
    whole_tests = ["tests/test_book_*.py"]    # tests that need the whole checkout
    whole_marks = "oracle"                    # a mark of tests that no stage runs

    [[chapter]]
    id = "2s"                                 # a number, or a supplement's "2s"
    title = "The rest of NumPy"
    file = "02s_rest_of_numpy.ipynb"
    builds = ["minijit/trace/windows.py", "minijit/numpy.py"]
    pending = true                            # the notebook is not written yet

A file that several chapters build is cut by lines that read `# chapter 2s`.  Such a
line opens that chapter's part; what stands before the first one belongs to the first
chapter that lists the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .text import Statement, TextError, statements

CUT = re.compile(r"# chapter (\w+)$")


class BookError(Exception):
    """Something the book's tools can say in one sentence; IPython shows just that."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Chapter:
    """One entry of book.toml; `index` is its place in the order of the book."""

    id: str
    title: str
    file: str
    builds: tuple[str, ...]
    index: int
    pending: bool = False

    @property
    def supplement(self) -> bool:
        """Skippable, and free of the limits on cells."""
        return not self.id.isdigit()

    @property
    def stem(self) -> str:
        """The notebook's name without its suffix."""
        return self.file.removesuffix(".ipynb")


@dataclass(frozen=True)
class Part:
    """Lines first..last of a file, both included, which one chapter builds."""

    chapter: Chapter
    file: str
    first: int
    last: int


@dataclass(frozen=True)
class Book:
    """A repository with a book.toml."""

    root: Path
    package: str
    chapters: tuple[Chapter, ...]
    folder: str = "chapters"
    rooms: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    whole_tests: tuple[str, ...] = ()
    whole_marks: str = ""

    def chapter(self, id: str | int) -> Chapter:
        """The chapter called `id`; BookError if there is none."""
        wanted = str(id).strip()
        wanted = wanted.lstrip("0") or wanted
        for c in self.chapters:
            if c.id == wanted:
                return c
        known = ", ".join(c.id for c in self.chapters)
        raise BookError(f"there is no chapter {id}; book.toml has {known}")

    def notebook(self, chapter: Chapter) -> Path:
        """Where a chapter's notebook is."""
        return self.root / self.folder / chapter.file

    def solutions(self, chapter: Chapter) -> Path:
        """Where the solutions to a chapter's exercises are."""
        return self.root / self.folder / "solutions" / f"{chapter.stem}.py"

    # -- files

    @cached_property
    def machinery(self) -> str:
        """The folder that is not in the book."""
        return f"{self.package}/book/"

    def library(self) -> list[str]:
        """Every file of the package but the book machinery: `package/room/file.py`."""
        found = (self.root / self.package).rglob("*.py")
        files = sorted(p.relative_to(self.root).as_posix() for p in found)
        return [f for f in files if not f.startswith(self.machinery)]

    def source(self, file: str) -> str:
        """The text of a library file."""
        return (self.root / file).read_text(encoding="utf-8")

    def lines(self, file: str) -> list[str]:
        """The text of a library file in lines, without their ends."""
        return self.source(file).split("\n")

    def statements(self, file: str) -> tuple[Statement, ...]:
        """The statements of a library file; none if Python cannot read it."""
        try:
            return statements(self.source(file), strict=False)
        except (SyntaxError, TextError):
            return ()

    def module(self, file: str) -> str:
        """`package/room/file.py` -> `package.room.file`."""
        return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def file(self, module: str) -> str | None:
        """`package.room.file` -> `package/room/file.py`, if there is such a file."""
        stem = module.replace(".", "/")
        for name in (f"{stem}/__init__.py", f"{stem}.py"):
            if (self.root / name).exists():
                return name
        return None

    # -- parts

    def builders(self, file: str) -> list[Chapter]:
        """The chapters whose `builds` lists the file."""
        return [c for c in self.chapters if file in c.builds]

    def parts(self, file: str) -> list[Part]:
        """A file's parts, in the order of its lines; none if no chapter builds it."""
        owners = self.builders(file)
        if not owners or not (self.root / file).exists():
            return []
        lines = self.lines(file)
        marks = [(m[1], i) for i, line in enumerate(lines, 1) if (m := CUT.match(line))]
        if not marks or any(line.strip() for line in lines[: marks[0][1] - 1]):
            marks = [m for m in marks if m != marks[0] or m[0] != owners[0].id]
            marks.insert(0, (owners[0].id, 1))
        ends = [first - 1 for _, first in marks[1:]] + [len(lines)]
        return [
            Part(self.chapter(id), file, first, last)
            for (id, first), last in zip(marks, ends, strict=True)
        ]

    def prefix(self, file: str, upto: int) -> int:
        """How many lines of a file the chapters before index `upto` have built."""
        return max(
            (p.last for p in self.parts(file) if p.chapter.index < upto), default=0
        )

    def written(self) -> Iterator[Chapter]:
        """The chapters that have a notebook."""
        return (c for c in self.chapters if not c.pending)

    def is_empty(self, file: str) -> bool:
        """Is the file without a statement, as the rooms' `__init__.py` are?"""
        return not self.source(file).strip()


def find_book(start: Path | None = None) -> Book:
    """The book of the nearest folder, from `start` or the working directory up."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / "book.toml").exists():
            return read_book(folder)
    raise BookError(
        f"no book.toml in {here} or above: the book comes with a clone of the "
        "repository, not with the installed package; clone it, and open its chapters"
    )


def read_book(root: Path) -> Book:
    """Read `root/book.toml`."""
    data = tomllib.loads((root / "book.toml").read_text(encoding="utf-8"))
    head = data["book"]
    chapters = [
        Chapter(
            id=str(c["id"]),
            title=c["title"],
            file=c["file"],
            builds=tuple(c.get("builds", ())),
            index=i,
            pending=bool(c.get("pending", False)),
        )
        for i, c in enumerate(data.get("chapter", []))
    ]
    return Book(
        root=root,
        package=head["package"],
        chapters=tuple(chapters),
        folder=head.get("chapters", "chapters"),
        rooms=tuple(head.get("rooms", ())),
        pending=tuple(head.get("pending", ())),
        whole_tests=tuple(head.get("whole_tests", ())),
        whole_marks=head.get("whole_marks", ""),
    )


def quiet_parts(book: Book, file: str) -> list[Part]:
    """A file's parts, or none if its cuts name a chapter that does not exist."""
    try:
        return book.parts(file)
    except BookError:
        return []
