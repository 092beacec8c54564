"""`check`: does the book show the library, all of it, once, letter for letter, and did it run?

Everything said here names chapter, section and definition, never the number of a cell.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from .notebook import (
    BuildCell,
    Json,
    build_cells,
    headings,
    joined,
    load,
    sections,
    source,
    tags,
)
from .project import Book, BookError, Chapter, Part
from .text import Statement, TextError, members, names, statements

CELL_LINES = 40
CHAPTER_CELLS = 45
ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")


def check(book: Book, only: Chapter | None = None, complete: bool = False) -> list[str]:
    """Every complaint about the book (about one chapter, if `only` is given)."""
    bad: list[str] = []
    placed: dict[tuple[str, str], list[BuildCell]] = defaultdict(list)
    for c in book.written():
        if not book.notebook(c).exists():
            bad.append(f"chapter {c.id}: {book.folder}/{c.file} is not there")
            continue
        notebook = load(book.notebook(c))
        for cell in build_cells(notebook):
            placed[c.id, cell.file].append(cell)
        if only in (None, c):
            bad += check_notebook(book, c, notebook)
    for file in book.library():
        bad += check_file(book, file, placed, only)
    for (id, file), cells in placed.items():
        if only in (None, book.chapter(id)):
            bad += check_placed(book, book.chapter(id), file, cells)
    if only is None:
        bad += [f"{f} is in {book.folder} but not in book.toml" for f in strays(book)]
    if complete:
        bad += [f"chapter {c.id} is pending" for c in book.chapters if c.pending]
        bad += [f"{f} is pending" for f in book.pending]
    return bad


def strays(book: Book) -> list[str]:
    """Notebooks that no chapter names: nothing would check them."""
    found = {
        p.relative_to(book.root / book.folder).as_posix()
        for p in (book.root / book.folder).rglob("*.ipynb")
        if ".ipynb_checkpoints" not in p.parts
    }
    return sorted(found - {c.file for c in book.chapters})


def pending_lines(book: Book) -> tuple[int, int]:
    """(lines of the library that wait for their chapter, all lines)."""
    waiting = total = 0
    for file in book.library():
        count = sum(1 for line in book.lines(file) if line.strip())
        total += count
        if file in book.pending:
            waiting += count
        for part in quiet_parts(book, file):
            if part.chapter.pending:
                lines = book.lines(file)[part.first - 1 : part.last]
                waiting += sum(1 for line in lines if line.strip())
    return waiting, total


def quiet_parts(book: Book, file: str) -> list[Part]:
    """A file's parts, or none if its cuts name a chapter that does not exist."""
    try:
        return book.parts(file)
    except BookError:
        return []


# -- files


def check_file(
    book: Book,
    file: str,
    placed: dict[tuple[str, str], list[BuildCell]],
    only: Chapter | None,
) -> Iterator[str]:
    """Tiling of a file by the cells of its chapters, and its imports."""
    try:
        statements(book.source(file))
        parts = book.parts(file)
    except (SyntaxError, TextError, BookError) as e:
        line = getattr(e, "line", None) or getattr(e, "lineno", None)
        yield f"{file}{f':{line}' if line else ''}: {e}"
        return
    if not parts:
        if file not in book.pending and not book.is_empty(file) and only is None:
            yield f"{file} is in no chapter: {listing(book.statements(file))}"
        return
    yield from check_cuts(book, file, parts) if only is None else ()
    for part in parts:
        if only in (None, part.chapter):
            yield from check_imports(book, part)
            if not part.chapter.pending:
                yield from check_part(book, part, placed[part.chapter.id, file])


def check_cuts(book: Book, file: str, parts: list[Part]) -> Iterator[str]:
    """The parts follow the order of the book, and book.toml says the same as the cuts."""
    ids = [p.chapter.id for p in parts]
    order = [p.chapter.index for p in parts]
    if order != sorted(set(order)):
        yield f"{file}: its parts are not in the order of the book: {', '.join(ids)}"
    listed = [c.id for c in book.builders(file) if not c.pending]
    for id in listed:
        if id not in ids:
            yield f"{file}: book.toml says that chapter {id} builds a part, but no line reads `# chapter {id}`"
    for p in parts:
        if p.chapter not in book.builders(file):
            yield f"{file}:{p.first}: `# chapter {p.chapter.id}`, but book.toml does not list it there"


def check_part(book: Book, part: Part, cells: list[BuildCell]) -> Iterator[str]:
    """The cells, one after another, are the part, letter for letter."""
    lines = book.lines(part.file)
    own = [s for s in book.statements(part.file) if part.first <= s.first <= part.last]
    starts = {piece.first: (s, piece) for s in own for piece in pieces(s)}
    at = part.first - 1
    for cell in cells:
        while at < part.last and not lines[at].strip():
            at += 1
        body = cell.body.strip("\n").split("\n")
        if cell.wanted is not None or lines[at : at + len(body)] != body:
            yield from differences(book, part, cells)
            return
        begin = starts.get(at + 1)
        if begin is None or bad_owner(cell, *begin):
            got = begin[1].key if begin else body[0].strip()
            yield (
                f"{place(part, cell)}: a cell cannot begin with {got} here; a cell that goes "
                "on with a class says so: `%%build FILE CLASS`"
            )
        at += len(body)
        inside = next((s for s, p in starts.values() if p.first <= at < p.last), None)
        if inside is not None:
            yield f"{place(part, cell)}: the cell ends in the middle of {inside.key}"
            return
    if left := [s for s in own if s.last > at]:
        yield f"{part.file} is in no cell of chapter {part.chapter.id}: {listing(left)}"


def bad_owner(cell: BuildCell, whole: Statement, piece: Statement) -> bool:
    """Does the cell's header not say what its first line belongs to?"""
    return cell.owner != ("" if piece.key == whole.key else whole.base)


def pieces(s: Statement) -> tuple[Statement, ...]:
    """A class as head and members, any other statement as itself."""
    return members(s) if isinstance(s.node, ast.ClassDef) else (s,)


def place(part: Part, cell: BuildCell) -> str:
    """Where a complaint is."""
    return f"chapter {part.chapter.id}, section '{cell.section}', {part.file}"


def listing(found: list[Statement] | tuple[Statement, ...]) -> str:
    """The definitions, at most eight by name."""
    keys = [s.key for s in found]
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    return ", ".join(keys[:8]) + more


def differences(book: Book, part: Part, cells: list[BuildCell]) -> Iterator[str]:
    """Say, definition by definition, how the cells of a part differ from it."""
    own = [s for s in book.statements(part.file) if part.first <= s.first <= part.last]
    cut = {cell.owner for cell in cells if cell.owner}
    library = [u for s in own for u in (pieces(s) if s.base in cut else (s,))]
    shown: list[tuple[BuildCell, Statement]] = []
    for cell in cells:
        if cell.wanted is not None:
            yield f"{place(part, cell)}: a placeholder is not filled in; run sync"
            return
        try:
            shown += [(cell, u) for u in cell_units(cell, cut)]
        except (SyntaxError, TextError) as e:
            yield f"{place(part, cell)}: the cell cannot be read: {e}"
            return
    free = list(library)
    changed = []
    for cell, unit in shown:
        if found := next((u for u in free if u.text == unit.text), None):
            free.remove(found)
        else:
            changed.append((cell, unit))
    said = False
    for cell, unit in changed:
        said = True
        if found := next((u for u in free if u.base == unit.base), None):
            free.remove(found)
            yield f"{place(part, cell)}: {unit.key} differs{first_difference(unit, found)}"
        elif any(u.text == unit.text for u in library):
            yield f"{place(part, cell)}: {unit.key} stands in the book twice"
        else:
            yield f"{place(part, cell)}: {unit.key} is not in the library"
    if free:
        said = True
        yield f"{part.file} is in no cell of chapter {part.chapter.id}: {listing(free)}"
    if not said:
        order = ", ".join(
            u.key for (_, u), b in zip(shown, library) if u.text != b.text
        )
        yield (
            f"{place(part, cells[0])}: the cells are not in the order of the library, or "
            f"differ between statements{': ' if order else ''}{order}"
        )


def cell_units(cell: BuildCell, cut: set[str]) -> Iterator[Statement]:
    """The statements of a cell; classes that several cells show, in pieces."""
    text = cell.body.strip("\n")
    if cell.owner:
        whole = statements(f"class {cell.owner}:\n{text}")[0]
        yield from members(whole)[1:]
        return
    for s in statements(text):
        yield from pieces(s) if s.base in cut else (s,)


def first_difference(cell: Statement, library: Statement) -> str:
    """The first line in which two statements differ, from either side."""
    mine, theirs = cell.text.split("\n"), library.text.split("\n")
    i = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), None)
    if i is None:
        i = min(len(mine), len(theirs))
    book_line = mine[i] if i < len(mine) else "(nothing)"
    library_line = theirs[i] if i < len(theirs) else "(nothing)"
    return f"\n    book     {book_line}\n    library  {library_line}"


def check_placed(
    book: Book, chapter: Chapter, file: str, cells: list[BuildCell]
) -> Iterator[str]:
    """Cells that build a file which is not this chapter's."""
    parts = quiet_parts(book, file)
    if any(p.chapter == chapter for p in parts):
        return
    where = f"chapter {chapter.id}, section '{cells[0].section}'"
    if file not in book.library():
        yield f"{where}: {file} is no file of the library"
        return
    owners = ", ".join(p.chapter.id for p in parts) or "no chapter"
    names_of = cells[0].body.strip("\n").split("\n")[0]
    yield f"{where} builds {file} ({names_of}), which is chapter {owners}'s"


# -- imports


def check_imports(book: Book, part: Part) -> Iterator[str]:
    """Imports go one way: to earlier rooms and chapters, from rooms never to public modules."""
    room = part.file.split("/")[1] if part.file.count("/") > 1 else None
    for s in book.statements(part.file):
        if not part.first <= s.first <= part.last:
            continue
        for node, target, name in imported(book, part.file, s.node):
            where = f"chapter {part.chapter.id}, {part.file}:{node.lineno}, {s.key}"
            if target.startswith(book.machinery):
                yield f"{where}: the library must not import the book machinery"
            elif room and target.count("/") < 2:
                yield f"{where}: a room must not import the public module {target}"
            elif room and later_room(book, room, target.split("/")[1]):
                yield f"{where} imports {target}: imports go {' <- '.join(book.rooms)}"
            elif later := built_later(book, part, target, name):
                yield f"{where} imports {name or target}, which chapter {later.id} builds"


def later_room(book: Book, room: str, other: str) -> bool:
    """Is `other` a room after `room`?"""
    rooms = book.rooms
    return room in rooms and other in rooms and rooms.index(other) > rooms.index(room)


def imported(
    book: Book, file: str, tree: ast.AST
) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, str]]:
    """(node, library file, name in it or "") of each import of the package, at any depth."""
    here = book.module(file).split(".")
    base = here if file.endswith("/__init__.py") else here[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if target := library_file(book, alias.name):
                    yield node, target, ""
        elif isinstance(node, ast.ImportFrom):
            start = base[: len(base) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                if target := library_file(book, f"{module}.{alias.name}"):
                    yield node, target, ""
                elif target := library_file(book, module):
                    yield node, target, alias.name


def library_file(book: Book, module: str) -> str | None:
    """The file of a module, if it is the package's."""
    inside = module == book.package or module.startswith(f"{book.package}.")
    return book.file(module) if inside else None


def built_later(book: Book, part: Part, target: str, name: str) -> Chapter | None:
    """The chapter that builds the imported thing, if it comes after the importing part's."""
    parts = quiet_parts(book, target)
    if not parts:
        return None
    owner = parts[0].chapter
    for s in book.statements(target) if name else ():
        if name in names(s.node):
            owner = next(p.chapter for p in parts if p.first <= s.first <= p.last)
            break
    return owner if owner.index > part.chapter.index else None


# -- notebooks


def check_notebook(book: Book, chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Headings, lengths, and that every cell ran, in order, as its tags say."""
    titles = [
        t
        for _, c in sections(notebook)
        if c["cell_type"] == "markdown"
        for level, t in headings(source(c))
        if level == 1
    ]
    if len(titles) != 1:
        yield f"chapter {chapter.id} has {len(titles)} H1 headings, not one"
    yield from check_opening(chapter, notebook)
    yield from check_lengths(chapter, notebook)
    count = 0
    for section, cell in sections(notebook):
        if cell["cell_type"] != "code" or not source(cell).strip():
            continue
        count += 1
        where = f"chapter {chapter.id}, section '{section}', at `{first_line(cell)}`"
        yield from (f"{where}: {what}" for what in check_run(cell, count))


def first_line(cell: Json) -> str:
    """What tells a cell from the others, for a reader."""
    lines = [line for line in source(cell).split("\n") if line.strip()]
    if lines[0].startswith("%%build"):
        lines = lines[1:] or lines
        for s in quiet_statements("\n".join(lines)):
            return f"%%build ... {s.key}"
    return lines[0].strip()


def quiet_statements(text: str) -> tuple[Statement, ...]:
    """The statements, or none if the text cannot be read."""
    try:
        return statements(text, strict=False)
    except (SyntaxError, TextError):
        return ()


def check_opening(chapter: Chapter, notebook: Json) -> Iterator[str]:
    """The chapter opens its own stage, and once."""
    lines = [
        line.split()
        for c in notebook["cells"]
        if c["cell_type"] == "code"
        for line in source(c).split("\n")
        if line.startswith("%chapter")
    ]
    if lines != [["%chapter", chapter.id]]:
        found = ", ".join(" ".join(line) for line in lines) or "no %chapter line"
        yield f"chapter {chapter.id} must say `%chapter {chapter.id}` once; it has {found}"


def check_lengths(chapter: Chapter, notebook: Json) -> Iterator[str]:
    """Build cells of at most 40 lines, at most 45 of them; supplements are free."""
    cells = list(build_cells(notebook))
    if chapter.supplement:
        return
    if len(cells) > CHAPTER_CELLS:
        yield f"chapter {chapter.id} has {len(cells)} build cells; at most {CHAPTER_CELLS}"
    for cell in cells:
        n = len(cell.body.strip("\n").split("\n"))
        if n > CELL_LINES:
            keys = [s.key for s in quiet_statements(cell.body)] or [cell.owner]
            yield (
                f"chapter {chapter.id}, section '{cell.section}', {cell.file}: the cell of "
                f"{', '.join(keys[:4])} has {n} lines; at most {CELL_LINES}"
            )


def check_run(cell: Json, count: int) -> Iterator[str]:
    """What is wrong with a cell's stored run; `count` is what its execution count must be."""
    text = source(cell)
    outputs = cell.get("outputs", [])
    marks = [t for t in tags(cell) if t.lower().startswith(("nbval", "skip"))]
    if cell.get("execution_count") != count:
        yield "the cell was not run, or not in order"
    errors = [o for o in outputs if o["output_type"] == "error"]
    if "raises-exception" in tags(cell):
        if not errors:
            yield "tagged raises-exception, but no error is stored"
    elif errors:
        yield f"raised {errors[0].get('ename')}, without the tag raises-exception"
    if any(o.get("name") == "stderr" for o in outputs):
        yield "something went to stderr"
    if marks or re.search(r"(?m)^\s*#\s*(NBVAL_|PYTEST_VALIDATE)", text):
        yield "nbval is told to look away"
    if any(ADDRESS.search(shown) for shown in texts(outputs)):
        yield "an output holds an address"
    if "volatile" in tags(cell) and any(o["output_type"] == "stream" for o in outputs):
        yield "a volatile cell may only show pictures"


def texts(outputs: list[Json]) -> Iterator[str]:
    """The texts that outputs show."""
    for o in outputs:
        yield joined(o.get("text", ""))
        for kind, value in o.get("data", {}).items():
            if kind.startswith("text/"):
                yield joined(value)
        yield str(o.get("evalue", ""))
