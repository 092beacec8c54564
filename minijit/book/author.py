"""From a chapter's Markdown source to its notebook, and back.

A source is Markdown in which every ```python fence at the left margin is a code cell;
words after `python` are the cell's tags.  A new cell of prose begins at each heading
and at each line `<!-- cell -->`.  A build cell may be a placeholder:

    %%build minijit/trace/core.py : Primitive, bind

takes everything of that file from where the file's previous cell stopped through
`bind`. Names count as often as they are listed (`rules, rules` goes through the second
statement of `rules` from there); `docstring` and `imports` are names too; an empty list
is the rest of this chapter's part.  `Array.__add__` stops inside a class, which the
next cell goes on with.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator

from .headings import heading, put_heading
from .notebook import (
    BuildCell, Json, build_cells, code_cell, dump, load, markdown_cell, new_notebook,
    source, tags,
)
from .project import HOW, Book, BookError, Chapter, Part
from .show import is_import
from .text import Statement, names, pieces

FENCE = re.compile(r"```python\b *(.*)$")
BREAK = "<!-- cell -->"
SAID = {
    "brings": ", brought before the first cell",
    "builds": "",
    "brings_after": ", brought after the last build cell",
    "wires": ", each name there once its definition is",
}


def parse_source(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """("markdown" or "code", text, tags) of each cell of a chapter's source."""
    prose: list[str] = []
    code: list[str] | None = None
    words: list[str] = []
    other = False  # inside a fence that is not a cell

    def flush() -> Iterator[tuple[str, str, list[str]]]:
        body = "\n".join(prose).strip("\n")
        prose.clear()
        if body.strip():
            yield "markdown", body, []

    for line in text.split("\n"):
        if code is not None:
            if line.rstrip() == "```":
                yield "code", "\n".join(code).strip("\n"), words
                code = None
            else:
                code.append(line)
        elif not other and (m := FENCE.match(line)):
            yield from flush()
            code, words = [], m[1].split()
        elif not other and line.strip() == BREAK:
            yield from flush()
        else:
            if line.startswith("```"):
                other = not other
            if not other and re.match(r"#{1,6} ", line):
                yield from flush()
            prose.append(line)
    if code is not None:
        raise BookError("the source ends inside a code fence")
    yield from flush()


def make_notebook(text: str, old: Json | None = None) -> Json:
    """The notebook of a source, not run; cells that `old` has too keep their outputs.

    A cell's id is a hash of its text, so it stays while the text does.
    """
    known = {c.get("id"): c for c in old["cells"]} if old else {}
    cells: list[Json] = []
    seen: set[str] = set()
    for kind, body, words in parse_source(text):
        id = next(i for n in range(10**6) if (i := cell_id(body, n)) not in seen)
        seen.add(id)
        if kind == "markdown":
            cells.append(markdown_cell(body, id))
            continue
        cell = code_cell(body, id, words)
        if id in known and not body.startswith("%%build"):
            cell["outputs"] = known[id].get("outputs", [])
        cells.append(cell)
    return new_notebook(cells)


def cell_id(text: str, n: int) -> str:
    """Eight letters for the n-th cell of this text."""
    return hashlib.sha1(f"{n}:{text}".encode()).hexdigest()[:8]


def read_source(book: Book, chapter: Chapter) -> str:
    """A chapter's source from its notebook; build cells become placeholders."""
    notebook = load(book.notebook(chapter))
    cursors: dict[str, Cursor] = {}
    for cell in build_cells(notebook):
        if cell.file not in cursors:
            cursors[cell.file] = Cursor(book, part_for(book, chapter, cell.file))
        cursor = cursors[cell.file]
        before = cursor.at
        if cell.wanted is None and cursor.skip(cell):
            listed = through(cursor.units[before : cursor.at])
            cell.cell["source"] = f"%%build {cell.file} : {listed}"
    return make_source(notebook)


def make_source(notebook: Json) -> str:
    """A notebook as Markdown."""
    out: list[str] = []
    after_prose = False
    for cell in notebook["cells"]:
        text = source(cell)
        if cell["cell_type"] == "markdown":
            if after_prose and not text.startswith("#"):
                out.append(BREAK)
            out.append(text)
        elif cell["cell_type"] == "code":
            out.append("\n".join(["```python " + " ".join(tags(cell)), text, "```"]))
        after_prose = cell["cell_type"] == "markdown"
    return "\n\n".join(out).replace("```python \n", "```python\n") + "\n"


# -- filling placeholders


class Cursor:
    """How far the cells of one part of a file have come."""

    def __init__(self, book: Book, part: Part):
        self.lines = book.lines(part.file)
        self.part = part
        own = [
            s for s in book.statements(part.file) if part.first <= s.first <= part.last
        ]
        self.units: list[tuple[Statement, Statement]] = []  # (statement, piece of it)
        for s in own:
            self.units += [(s, piece) for piece in pieces(s)]
        self.at = 0

    def find(self, name: str, start: int) -> int:
        """The index after the next unit of this name."""
        for i in range(start, len(self.units)):
            whole, piece = self.units[i]
            last = i + 1 == len(self.units) or self.units[i + 1][0] is not whole
            if name == "imports" and is_import(whole):
                while i + 1 < len(self.units) and is_import(self.units[i + 1][0]):
                    i += 1
                return i + 1
            if "." in name and piece is not whole and piece.base == name:
                return i + 1
            if last and name in called(whole):
                return i + 1
        here = self.units[start][1].key if start < len(self.units) else "its end"
        raise BookError(
            f"{self.part.file}: no {name} below; the next statement in chapter "
            f"{self.part.chapter.id}'s part is {here}"
        )

    def take(self, wanted: str) -> tuple[str, str]:
        """(text, class it goes on with) of the next cell, through the last name."""
        listed = [n.strip() for n in wanted.split(",") if n.strip()]
        end = self.at if listed else len(self.units)
        for name in listed:
            end = self.find(name, end)
        got = self.units[self.at : end]
        if not got:
            raise BookError(f"{self.part.file}: nothing is left for a cell (:{wanted})")
        first = got[0]
        owner = first[0].base if first[1].key != first[0].key else ""
        if owner and any(whole is not first[0] for whole, _ in got):
            raise BookError(
                f"{self.part.file}: the cell goes on with class {owner}, so it cannot "
                f"hold {got[-1][0].key} too; end it with `: {owner}` first"
            )
        self.at = end
        return "\n".join(self.lines[first[1].first - 1 : got[-1][1].last]), owner

    def skip(self, cell: BuildCell) -> bool:
        """Move on past the text of a cell that is filled in already; was it there?"""
        body = cell.body.strip("\n").split("\n")
        for i in range(self.at, len(self.units)):
            first = self.units[i][1].first
            if self.lines[first - 1 : first - 1 + len(body)] == body:
                last = first + len(body) - 1
                while i < len(self.units) and self.units[i][1].first <= last:
                    i += 1
                self.at = i
                return True
        return False


def called(s: Statement) -> set[str]:
    """The names a placeholder may use for a statement."""
    return {s.base, s.key, s.base.split(" ")[-1], *names(s.node)}


def part_for(book: Book, chapter: Chapter, file: str) -> Part:
    """The part of a file that a chapter builds; BookError if there is none."""
    if not (book.root / file).exists():
        raise BookError(f"there is no library file {file}")
    if book.source(file).strip() and not book.statements(file):
        raise BookError(f"{file} cannot be read: check says why")
    for part in book.parts(file):
        if part.chapter == chapter and part.built:
            return part
    raise BookError(
        f"chapter {chapter.id} builds no part of {file}: list it in book.toml, and if "
        f"several chapters build it, cut it by a line `# chapter {chapter.id}`"
    )


def fill(book: Book, chapter: Chapter, notebook: Json) -> list[str]:
    """Fill a notebook's placeholders with the library's text; return complaints."""
    cursors: dict[str, Cursor] = {}
    bad = []
    for cell in build_cells(notebook):
        try:
            if cell.file not in cursors:
                cursors[cell.file] = Cursor(book, part_for(book, chapter, cell.file))
            cursor = cursors[cell.file]
            if cell.wanted is None:
                cursor.skip(cell)
            else:
                cell.write(*cursor.take(cell.wanted))
        except BookError as e:
            bad.append(f"chapter {chapter.id}, section '{cell.section}': {e}")
    return bad


def new(book: Book, chapter: Chapter, text: str) -> list[str]:
    """Write a chapter's notebook from its source, if nothing is to be complained of."""
    path = book.notebook(chapter)
    notebook = make_notebook(text, load(path) if path.exists() else None)
    put_heading(book, chapter, notebook)
    bad = fill(book, chapter, notebook)
    if not bad:
        dump(notebook, path)
        no_longer_pending(book, chapter)
    return bad


def no_longer_pending(book: Book, chapter: Chapter) -> None:
    """Take the line `pending = true` out of a chapter's entry in book.toml."""
    path = book.root / "book.toml"
    entries = re.split(r"(?m)^(?=\[\[)", path.read_text(encoding="utf-8"))
    for i, entry in enumerate(entries):
        if f'"{chapter.file}"' in entry:
            entries[i] = re.sub(r"(?m)^pending = true\n", "", entry)
    path.write_text("".join(entries), encoding="utf-8")


# -- helps for authors


def outline(book: Book, chapter: Chapter) -> Iterator[str]:
    """Each statement that a chapter builds with its lines, and what it brings."""
    for how in HOW:
        files = book.wires if how == "wires" else chapter.lists(how)
        for file in files:
            parts = [
                p for p in book.parts(file) if p.chapter == chapter and p.how == how
            ]
            for part in parts:
                size = part.last - part.first + 1
                yield f"{file} ({size} lines{SAID[how]})"
                yield from statement_lines(book, part) if part.built else ()
            if not parts and how != "wires":
                yield f"{file}: not there yet"


def statement_lines(book: Book, part: Part) -> Iterator[str]:
    """The statements of a part, classes in pieces, each with its number of lines."""
    for whole, piece in Cursor(book, part).units:
        inside = "" if piece.key == whole.key else "    "
        size = piece.last - piece.first + 1
        yield f"  {size:4} {inside}{piece.key}{'  <- too long' * (size > 40)}"


def draft(book: Book, chapter: Chapter, size: int = 24) -> str:
    """A source with every placeholder in place, in cells of about `size` lines.

    It has the parts that a chapter is made of: a demo that falls short today, slices
    that build and run, the demo again, what JAX does, exercises, the matrix.
    """
    out = [heading(book, chapter), "TODO: what the reader will be able to do."]
    out.append(f"```python\n%load_ext minijit.book\n{chapter.opening}\n```")
    out += ["## TODO: a question", "TODO: a demo that falls short today."]
    for file in chapter.builds:
        mine = [p for p in book.parts(file) if p.chapter == chapter and p.built]
        for part in mine:
            out.append(f"## {file}")
            for chunk in chunks(whole_classes(Cursor(book, part).units), size):
                head = f"%%build {file} : {through(chunk)}"
                out.append(f"TODO: why.\n\n```python\n{head}\n```\n\nTODO: run it.")
    out += (
        [brought_along(book, chapter)] if chapter.brings + chapter.brings_after else []
    )
    out += ["## The demo, again", "TODO", "## In JAX", "TODO", "## Exercises", "TODO"]
    matrix = f"from minijit.book import style\n\nstyle.matrix({chapter.id})"
    out += ["## So far", f"```python\n{matrix}\n```", "TODO: what is next."]
    return "\n\n".join(out) + "\n"


def brought_along(book: Book, chapter: Chapter) -> str:
    """A section that names what a chapter brings, by the files' docstrings."""
    lines = ["## Brought along", ""]
    up = "../" * (1 + chapter.file.count("/"))
    for file in [*chapter.brings, *chapter.brings_after]:
        found = [s for s in book.statements(file)[:1] if s.key == "docstring"]
        says = [ast.literal_eval(s.text).partition("\n\n")[0] for s in found]
        short = file.removeprefix(f"{book.package}/")
        told = " ".join(says[0].split()) if says else "TODO"
        lines.append(f"- [{short}]({up}{file}): {told}")
    return "\n".join(lines)


def whole_classes(
    units: list[tuple[Statement, Statement]],
) -> list[tuple[Statement, Statement]]:
    """The units of a part, with the classes a single cell can show left whole."""
    out: list[tuple[Statement, Statement]] = []
    for whole, piece in units:
        if whole.last - whole.first >= 40:
            out.append((whole, piece))
        elif not out or out[-1][0] is not whole:
            out.append((whole, whole))
    return out


def chunks(
    units: list[tuple[Statement, Statement]], size: int
) -> Iterator[list[tuple[Statement, Statement]]]:
    """Group the units of a part into cells of at most `size` lines, where that can be.

    A cell that begins inside a class ends inside it, and a class keeps its fields: what
    `@dataclass` makes of them is made in the first cell.
    """
    cell: list[tuple[Statement, Statement]] = []
    for together in with_fields(units):
        whole, last = together[0][0], together[-1][1]
        if cell:
            first, inside = cell[0][0], cell[0][1].key != cell[0][0].key
            long = last.last - cell[0][1].first + 1 > size
            if long or inside and whole is not first:
                yield cell
                cell = []
        cell += together
    if cell:
        yield cell


def with_fields(
    units: list[tuple[Statement, Statement]],
) -> Iterator[list[tuple[Statement, Statement]]]:
    """Each unit, a class's head together with the fields that follow it."""
    group: list[tuple[Statement, Statement]] = []
    for whole, piece in units:
        field = isinstance(piece.node, ast.AnnAssign) and piece.key != whole.key
        if group and not (field and group[-1][0] is whole):
            yield group
            group = []
        group.append((whole, piece))
    if group:
        yield group


def through(chunk: list[tuple[Statement, Statement]]) -> str:
    """What a placeholder lists to take just this chunk."""
    whole, piece = chunk[-1]
    ends = piece is whole or piece.last == whole.last
    name = whole.base.partition(", ")[0] if ends else piece.base
    times = [u for u in chunk if name in called(u[0]) and u[1].last == u[0].last]
    return ", ".join([name] * (len(times) if ends else 1))
