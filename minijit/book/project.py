"""What `book.toml` says: the chapters in their order, and what each builds and brings.

    [book]
    package = "minijit"
    chapters = "chapters"                     # the folder of the notebooks
    rooms = ["trace", "transform"]            # imports go from later to earlier rooms
    wires = ["minijit/__init__.py"]           # files that collect names of the others
    pending = []                              # library files no chapter has yet
    whole_tests = ["tests/test_book_*.py"]    # tests that need the whole checkout
    whole_marks = "oracle"                    # a mark of tests that no stage runs

    [[chapter]]
    id = 2
    title = "Shapes without values"
    file = "02_shapes_without_values.ipynb"
    brings = ["minijit/trace/dtypes.py"]      # there before the first cell; not shown
    builds = ["minijit/trace/array.py"]       # shown in build cells, letter by letter
    brings_after = ["minijit/numpy/more.py"]  # there after the last build cell
    pending = true                            # the notebook is not written yet
    exceptions = { stretch = "why" }          # rules of `check` it is excused from

    [start]                                   # chapter 0, [[tour]]s and [[capstone]]s
    title = "Start here"                      # build nothing: they use the finished
    file = "00_start_here.ipynb"              # library

    [[tour]]
    title = "What type is a 2?"
    file = "tours/types.ipynb"
    after = 2                                 # the chapter that one should know

Each library file is built or brought by one chapter.  A file that several have parts of
is cut by lines that read `# chapter 2`, or `# chapter 2, brought along` where that
chapter also builds a part.  Such a line opens a part; what stands before the first one
belongs to the first chapter that lists the file; if that one brings and builds it, the
head (docstring and imports) is brought.  A file that wires the others is cut
in the same way and listed by no chapter: each of its names is there once its
definition is.
"""

from __future__ import annotations

import base64
import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from .text import Statement, TextError, first_lines, statements

NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
CUT = re.compile(r"# chapter (\w+)(, brought along)?$")
HOW = ("brings", "builds", "brings_after", "wires")  # in the order in which they come

Moment = tuple[int, int]  # (chapter, place in HOW): compared, never counted


class BookError(Exception):
    """Something the book's tools can say in one sentence; IPython shows just that."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Chapter:
    """One entry of book.toml; `index` is its place in the order of the book.

    A notebook that uses the finished library has a place after all chapters.
    """

    id: str
    title: str
    file: str
    builds: tuple[str, ...]
    index: int
    brings: tuple[str, ...] = ()
    brings_after: tuple[str, ...] = ()
    pending: bool = False
    exceptions: Mapping[str, str] = field(default_factory=dict, hash=False)
    kind: str = "chapter"  # or "start", "tour", "capstone"
    after: str = ""  # the chapter that a tour's reader should know

    @property
    def stem(self) -> str:
        """The notebook's name without its suffix."""
        return self.file.removesuffix(".ipynb")

    @property
    def whole(self) -> bool:
        """Does it use the finished library, and build nothing?"""
        return self.kind != "chapter"

    @property
    def called(self) -> str:
        """What complaints call it: `chapter 2`, `tour types`."""
        return f"{'chapter' if self.kind == 'start' else self.kind} {self.id}"

    @property
    def opening(self) -> str:
        """The line that its first cell must have."""
        word = "chapter" if self.kind in ("chapter", "start") else "tour"
        return f"%{word} {self.id}"

    @property
    def begin(self) -> Moment:
        """When what it brings before its first cell is there, and nothing of it."""
        return self.index, 0

    @property
    def end(self) -> Moment:
        """When it is through, and all that it brings is there."""
        return self.index, len(HOW)

    def lists(self, how: str) -> tuple[str, ...]:
        """The files that book.toml lists for it under `how`."""
        return () if how == "wires" else getattr(self, how)


@dataclass(frozen=True)
class Part:
    """Lines first..last of a file, both included, that a chapter builds or brings."""

    chapter: Chapter
    file: str
    first: int
    last: int
    how: str  # one of HOW

    @property
    def built(self) -> bool:
        """Is it shown in cells?"""
        return self.how == "builds"

    @property
    def moment(self) -> Moment:
        """When it is there; moments compare in the order of the book."""
        return self.chapter.index, min(HOW.index(self.how), HOW.index("brings_after"))


@dataclass(frozen=True)
class Book:
    """A repository with a book.toml."""

    root: Path
    package: str
    chapters: tuple[Chapter, ...]
    others: tuple[Chapter, ...] = ()  # those on the finished library
    folder: str = "chapters"
    rooms: tuple[str, ...] = ()
    wires: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    whole_tests: tuple[str, ...] = ()
    whole_marks: str = ""
    student: bool = False  # a checkout to be written: its cells are empty ones
    home: Path | None = None  # of notebooks and tests, if the library is elsewhere

    @property
    def base(self) -> Path:
        """The folder of `chapters/`, `tests/` and the reader's copy."""
        return self.home or self.root

    def chapter(self, id: str | int) -> Chapter:
        """The chapter, tour or capstone called `id`; BookError if there is none."""
        wanted = str(id).strip()
        wanted = wanted.lstrip("0") or wanted[-1:]
        for c in self.notebooks():
            if wanted in (c.id, c.stem):
                return c
        known = ", ".join(c.id for c in self.notebooks())
        raise BookError(f"there is no chapter {id}; book.toml has {known}")

    def notebooks(self) -> Iterator[Chapter]:
        """Chapter 0, the chapters, the tours, the capstones."""
        yield from (c for c in self.others if c.kind == "start")
        yield from self.chapters
        yield from (c for c in self.others if c.kind != "start")

    def notebook(self, chapter: Chapter) -> Path:
        """Where a chapter's notebook is."""
        return self.base / self.folder / chapter.file

    def solutions(self, chapter: Chapter) -> Path:
        """Where the checks of a chapter's exercises are, and most often solutions."""
        place = "checks" if self.student else "solutions"
        return self.base / self.folder / place / f"{chapter.stem}.py"

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
        return unsealed((self.root / file).read_bytes())

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

    def has(self, file: str) -> bool:
        """Is there such a file?"""
        return (self.root / file).exists()

    def file(self, module: str) -> str | None:
        """`package.room.file` -> `package/room/file.py`, if there is such a file."""
        stem = module.replace(".", "/")
        for name in (f"{stem}/__init__.py", f"{stem}.py"):
            if self.has(name):
                return name
        return None

    # -- parts

    @cached_property
    def all_lists(self) -> Mapping[str, list[tuple[Chapter, str]]]:
        """What `listed` says, by file."""
        found: dict[str, list[tuple[Chapter, str]]] = {}
        for c in self.chapters:
            for how in HOW:
                for file in c.lists(how):
                    found.setdefault(file, []).append((c, how))
        return found

    def listed(self, file: str) -> list[tuple[Chapter, str]]:
        """(chapter, how) of each list that names the file, in the order of moments."""
        return self.all_lists.get(file, [])

    def parts(self, file: str) -> list[Part]:
        """A file's parts, in the order of its lines; none if no chapter has it."""
        listed = self.listed(file)
        if not self.has(file) or not (listed or file in self.wires):
            return []
        text = self.source(file)
        found, above = cut_lines(text)
        cuts = [(*self.meant(file, id, brought), i) for id, brought, i in found]
        if listed and (not cuts or above):
            cuts = [c for c in cuts if c != cuts[0] or c[:2] != listed[0]]
            cuts.insert(0, (*listed[0], 1))
        ends = [first - 1 for _, _, first in cuts[1:]] + [text.count("\n") + 1]
        return [
            Part(chapter, file, first if i else 1, last, how)
            for i, ((chapter, how, first), last) in enumerate(
                zip(cuts, ends, strict=True)
            )
        ]

    def meant(self, file: str, id: str, brought: bool) -> tuple[Chapter, str]:
        """The chapter and the way that a cut line names."""
        chapter = self.chapter(id)
        if file in self.wires:
            return chapter, "wires"
        ways = [how for how in HOW if file in chapter.lists(how)]
        if "builds" in ways and not brought or not ways:
            return chapter, "builds"
        others = [how for how in ways if how != "builds"]
        return chapter, others[-1] if others else "brings_after"

    def part_of(self, file: str, name: str = "") -> Part | None:
        """The part that has a name of a file (or the first one, for ""), if any."""
        parts = quiet_parts(self, file)
        try:
            first = first_lines(self.source(file)).get(name) if parts else None
        except (SyntaxError, TextError):
            first = None
        if first is not None:
            return next(p for p in parts if p.first <= first <= p.last)
        return parts[0] if parts else None

    def prefix(self, file: str, at: Moment) -> int:
        """How many lines of a file are there at a moment."""
        return max((p.last for p in self.parts(file) if p.moment <= at), default=0)

    def files_in_order(self) -> list[str]:
        """The files that chapters have, in the order in which they come."""
        listed = [f for c in self.chapters for how in HOW for f in c.lists(how)]
        return list(dict.fromkeys([*listed, *self.wires]))

    def written(self) -> Iterator[Chapter]:
        """What has a notebook, in the order of reading."""
        return (c for c in self.notebooks() if not c.pending)

    def is_empty(self, file: str) -> bool:
        """Is the file without a statement, as the rooms' `__init__.py` are?"""
        return not self.source(file).strip()


SEAL = "# coding: utf-7"  # the first line of a sealed file, which Python decodes


def sealed(text: str, parts: Iterable[str]) -> bytes:
    """A text that Python runs, with some of its parts in letters that nobody reads."""
    out = [SEAL, "\n"]
    for part in parts:
        before, found, text = text.partition(part)
        out += [before.replace("+", "+-"), letters(found)]
    out.append(text.replace("+", "+-"))
    return NOT_ASCII.sub(lambda m: letters(m[0]), "".join(out)).encode()


def letters(text: str) -> str:
    """UTF-7 of a text, its plain characters encoded as well."""
    return f"+{base64.b64encode(text.encode('utf-16-be')).decode().rstrip('=')}-"


def unsealed(data: bytes) -> str:
    """The text of a file, sealed or not; a sealed one has a first line in both."""
    if data.startswith(SEAL.encode()):
        return data.decode("utf-7").replace(SEAL, "# sealed", 1)
    return data.decode().replace("\r\n", "\n")


class StillBook(Book):
    """A book whose library does not change for a while: each file is read once."""

    @cached_property
    def found(self) -> dict[str, str | None]:
        """The text of each file of the package, once somebody has asked for it."""
        paths = (self.root / self.package).rglob("*.py")
        return dict.fromkeys(p.relative_to(self.root).as_posix() for p in sorted(paths))

    def library(self) -> list[str]:
        return [file for file in self.found if not file.startswith(self.machinery)]

    def source(self, file: str) -> str:
        if (text := self.found.get(file)) is None:
            text = self.found[file] = super().source(file)
        return text

    def has(self, file: str) -> bool:
        return file in self.found


def still(book: Book) -> StillBook:
    """The book as it is now."""
    return StillBook(*(getattr(book, f.name) for f in fields(Book)))


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
            brings=tuple(c.get("brings", ())),
            brings_after=tuple(c.get("brings_after", ())),
            exceptions=c.get("exceptions", {}),
            pending=bool(c.get("pending", False)),
        )
        for i, c in enumerate(data.get("chapter", []))
    ]
    others = [
        Chapter(
            id="0" if kind == "start" else Path(c["file"]).stem,
            title=c["title"],
            file=c["file"],
            builds=(),
            index=len(chapters),
            kind=kind,
            after=str(c.get("after", "")),
        )
        for kind in ("start", "tour", "capstone")
        for c in as_list(data.get(kind, []))
    ]
    return Book(
        root=root,
        package=head["package"],
        chapters=tuple(chapters),
        others=tuple(others),
        folder=head.get("chapters", "chapters"),
        rooms=tuple(head.get("rooms", ())),
        wires=tuple(head.get("wires", ())),
        pending=tuple(head.get("pending", ())),
        whole_tests=tuple(head.get("whole_tests", ())),
        whole_marks=head.get("whole_marks", ""),
        student=head.get("student", False),
    )


def as_list(entries: Any) -> list[dict[str, Any]]:
    """A table of TOML, or an array of tables, as a list."""
    return [entries] if isinstance(entries, dict) else entries


@functools.lru_cache(maxsize=4096)
def cut_lines(text: str) -> tuple[tuple[tuple[str, bool, int], ...], bool]:
    """(chapter, brought along?, line) of each cut of a text; is anything above them?"""
    if "# chapter " not in text:  # As in most files, and there are many lines.
        return (), bool(text.strip())
    lines = text.split("\n")
    matches = ((CUT.match(line), i) for i, line in enumerate(lines, 1))
    cuts = tuple((m[1], bool(m[2]), i) for m, i in matches if m)
    above = lines[: cuts[0][2] - 1] if cuts else lines
    return cuts, any(line.strip() for line in above)


def quiet_parts(book: Book, file: str) -> list[Part]:
    """A file's parts, or none if its cuts name a chapter that does not exist."""
    try:
        return book.parts(file)
    except BookError:
        return []
