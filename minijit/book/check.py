"""`check`: does the book show the library, all of it, once, letter for letter?

Everything said here names chapter, section and definition, never the number of a cell.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from .imports import check_imports
from .measure import idle_exceptions, measure
from .notebook import BuildCell, build_cells, load, source
from .project import CUT, HOW, Book, BookError, Chapter, Part, quiet_parts, still
from .ran import check_notebook
from .text import Statement, TextError, members, pieces, statements


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """No garbage collections: they cost more than the trees that they walk through."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@collecting_nothing()
def check(book: Book, only: Chapter | None = None, complete: bool = False) -> list[str]:
    """Every complaint about the book (about one chapter, if `only` is given)."""
    book = still(book)
    bad: list[str] = []
    placed: dict[tuple[str, str], list[BuildCell]] = defaultdict(list)
    for c in book.written():
        if not book.notebook(c).exists():
            bad.append(f"{c.called}: {book.folder}/{c.file} is not there")
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
        bad += missing_files(book)
        bad += wrong_references(book)
        bad += not_on_the_map(book)
        bad += wrong_glossary(book)
        bad += [f"{f} is in {book.folder} but not in book.toml" for f in strays(book)]
    if complete:
        bad += idle_exceptions(book)
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
    return sorted(found - {c.file for c in book.notebooks()})


def prose(book: Book, chapter: Chapter) -> str:
    """What a notebook says in words."""
    cells = load(book.notebook(chapter))["cells"]
    return "\n".join(source(c) for c in cells if c["cell_type"] == "markdown")


def not_on_the_map(book: Book) -> Iterator[str]:
    """Notebooks that the page that begins the book does not link to, or misplaces.

    Its minutes may be off by ten: they need not follow each sentence.
    """
    for start in (c for c in book.written() if c.kind == "start"):
        lines = prose(book, start).split("\n")
        for c in book.written():
            links = [line for line in lines if f"]({c.file})" in line]
            rows = [line for line in links if line.startswith("|")]
            if c != start and not links:
                yield f"{start.called} has no link to {c.file} on its map"
            if c.after and rows and not rows[0].endswith(f"| {c.after} |"):
                yield f"{c.file} is for readers of chapter {c.after}, says book.toml"
            if c.kind == "chapter" and rows:
                counted = measure(load(book.notebook(c))).minutes
                said = re.search(r"\| (\d+) \|$", rows[0])
                if said and abs(int(said[1]) - counted) > 10:
                    told = f"{said[1]} minutes for {c.called}, and stats {counted}"
                    yield f"{start.called} says {told}"


def wrong_glossary(book: Book) -> Iterator[str]:
    """Words that the chapter named behind them does not use, or out of order."""
    files = {c.file: c for c in book.written()}
    for start in (c for c in book.written() if c.kind == "start"):
        _, _, glossary = prose(book, start).partition("\n## Glossary\n")
        rows = re.findall(r"^- \*\*(.+?)\*\*(.*)", glossary, re.M)
        heads = [words.lower() for words, _ in rows]
        if heads != sorted(heads):
            yield f"{start.called}: its glossary is out of order"
        for words, told in rows:
            link = re.search(r"\[\w+\]\((.+?)\)$", told)
            if not link or link[1] not in files:
                yield f"{start.called}: {words} has no chapter in the glossary"
                continue
            says = prose(book, files[link[1]]).lower()
            for word in words.lower().split(", "):
                if not re.search(rf"\b{re.escape(word.removesuffix('s'))}", says):
                    yield f"{start.called}: {link[1]} has not the word {word}"


def missing_files(book: Book) -> Iterator[str]:
    """Files that book.toml names and the library does not have."""
    library = book.library()
    for c in book.chapters:
        for how in HOW if not c.pending else ():
            for file in c.lists(how):
                if file not in library:
                    yield f"chapter {c.id} {how.replace('_', ' ')} {file}: no such file"
    for file in book.wires:
        if file not in library:
            yield f"{file}, which is to wire the others, is not there"


def wrong_references(book: Book) -> Iterator[str]:
    """Names in book.toml that mean nothing, or two things."""
    known = {c.id for c in book.chapters}
    for c in book.others:
        if c.after and c.after not in known:
            yield f"{c.called} is for readers of chapter {c.after}: no such chapter"
    every = [c.id for c in book.notebooks()]
    for id in {i for i in every if every.count(i) > 1}:
        yield f"book.toml has more than one {id}"


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


# -- files


def check_file(
    book: Book,
    file: str,
    placed: dict[tuple[str, str], list[BuildCell]],
    only: Chapter | None,
) -> Iterator[str]:
    """Tiling of a file by the cells of its chapters, and its imports."""
    try:
        parts = book.parts(file)
        if only is not None and all(p.chapter != only for p in parts):
            return
        statements(book.source(file), strict=any(p.built for p in parts))
    except (SyntaxError, TextError, BookError) as e:
        line = getattr(e, "line", None) or getattr(e, "lineno", None)
        yield f"{file}{f':{line}' if line else ''}: {e}"
        return
    if not parts:
        if file not in book.pending and not book.is_empty(file) and only is None:
            told = listing(book.statements(file))
            yield f"{file} is neither built nor brought by a chapter: {told}"
        return
    yield from check_cuts(book, file, parts) if only is None else ()
    yield from check_repeats(book, file, parts)
    for part in parts:
        if only in (None, part.chapter):
            yield from check_imports(book, part)
            written = not part.chapter.pending and book.notebook(part.chapter).exists()
            if part.built and written:
                yield from check_part(book, part, placed[part.chapter.id, file])


def check_cuts(book: Book, file: str, parts: list[Part]) -> Iterator[str]:
    """The parts are in the order of the book; book.toml and the cuts agree.

    So every line of the file is built or brought exactly once.
    """
    ids = [p.chapter.id for p in parts]
    order = [p.moment for p in parts]
    if order != sorted(set(order)):
        yield f"{file}: its parts are not in the order of the book: {', '.join(ids)}"
    listed = book.listed(file)
    found = [(p.chapter, p.how) for p in parts]
    for i, (c, how) in enumerate(listed):
        if (c, how) in listed[:i]:
            yield f"{file}: chapter {c.id} lists it twice"
        elif (c, how) not in found and not c.pending:
            cut = f"# chapter {c.id}" + ", brought along" * ((c, "builds") in listed)
            cut = cut if how != "builds" else f"# chapter {c.id}"
            yield (
                f"{file}: chapter {c.id} {how.replace('_', ' ')} a part, but no line "
                f"is `{cut}`"
            )
    yield from check_wires(book, file) if file in book.wires else ()
    for c, how in found:
        if how == "wires" and listed:
            yield f"{file}: it wires the others, so no chapter lists it"
        elif how != "wires" and (c, how) not in listed:
            yield f"{file}: book.toml does not list it in chapter {c.id}"


def check_wires(book: Book, file: str) -> Iterator[str]:
    """In a file that wires the others only its docstring is nobody's."""
    cuts = [i for i, line in enumerate(book.lines(file), 1) if CUT.match(line)]
    for s in book.statements(file):
        if s.key != "docstring" and not (cuts and s.last >= cuts[0]):
            yield f"{file}: {s.key} stands above the first line `# chapter ...`"


def check_repeats(book: Book, file: str, parts: list[Part]) -> Iterator[str]:
    """No built statement stands there twice: unchanged, the second would not run."""
    seen: dict[str, Statement] = {}
    built = [p for p in parts if p.built]
    for s in book.statements(file):
        if isinstance(s.node, (ast.Import, ast.ImportFrom)):
            continue
        if not any(p.first <= s.first <= p.last for p in built):
            continue
        if first := seen.get(s.text):
            yield (
                f"{file}:{s.first}: {s.key} is word for word what stands in line "
                f"{first.first}; a build cell would not run it a second time"
            )
        seen[s.text] = s


def unlike_library(book: Book, chapter: Chapter) -> list[str]:
    """How a chapter's build cells differ from the library."""
    cells: dict[str, list[BuildCell]] = defaultdict(list)
    for cell in build_cells(load(book.notebook(chapter))):
        cells[cell.file].append(cell)
    parts = [p for file in chapter.builds for p in quiet_parts(book, file)]
    return [
        told
        for part in parts
        if part.chapter == chapter and part.built
        for told in check_part(book, part, cells[part.file])
    ]


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
                f"{place(part, cell)}: a cell cannot begin with {got} here; one that "
                "goes on with a class says so: `%%build FILE CLASS`"
            )
        held = [s for n, (s, _) in starts.items() if at < n <= at + len(body)]
        if cell.owner and (more := [s for s in held if s.base != cell.owner]):
            yield (
                f"{place(part, cell)}: a cell that goes on with class {cell.owner} "
                f"holds only its members, not {listing(more)}"
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
    library = [u for s in own for u in pieces(s)]
    shown: list[tuple[BuildCell, Statement]] = []
    for cell in cells:
        if cell.wanted is not None:
            yield f"{place(part, cell)}: a placeholder is not filled in; run sync"
            return
        try:
            shown += [(cell, u) for u in cell_units(cell)]
        except (SyntaxError, TextError) as e:
            yield f"{place(part, cell)}: the cell cannot be read: {e}"
            return
    told = list(unmatched(part, library, shown))
    yield from told
    if not told:
        pairs = zip(shown, library, strict=False)
        order = ", ".join(u.key for (_, u), b in pairs if u.text != b.text)
        yield (
            f"{place(part, cells[0])}: the cells are not in the order of the library, "
            f"or differ between statements{': ' if order else ''}{order}"
        )


def unmatched(
    part: Part, library: list[Statement], shown: list[tuple[BuildCell, Statement]]
) -> Iterator[str]:
    """What the cells show otherwise than the library, more than it, or less."""
    free = list(library)
    changed = []
    for cell, unit in shown:
        if found := next((u for u in free if u.text == unit.text), None):
            free.remove(found)
        else:
            changed.append((cell, unit))
    for cell, unit in changed:
        where = place(part, cell)
        if found := next((u for u in free if u.base == unit.base), None):
            free.remove(found)
            yield f"{where}: {unit.key} differs{first_difference(unit, found)}"
        elif any(u.text == unit.text for u in library):
            yield f"{where}: {unit.key} stands in the book twice"
        else:
            yield f"{where}: {unit.key} is not in the library"
    heads = {u.key for u in free}
    if free := [u for u in free if u.key.partition(".")[0] not in heads - {u.key}]:
        yield f"{part.file} is in no cell of chapter {part.chapter.id}: {listing(free)}"


def cell_units(cell: BuildCell) -> Iterator[Statement]:
    """The statements of a cell, classes in pieces."""
    text = cell.body.strip("\n")
    if cell.owner:
        whole = statements(f"class {cell.owner}:\n{text}")[0]
        yield from members(whole)[1:]
        return
    for s in statements(text):
        yield from pieces(s)


def first_difference(cell: Statement, library: Statement) -> str:
    """The first line in which two statements differ, from either side."""
    mine, theirs = cell.text.split("\n"), library.text.split("\n")
    i = 0
    while i < min(len(mine), len(theirs)) and mine[i] == theirs[i]:
        i += 1
    book_line = mine[i] if i < len(mine) else "(nothing)"
    library_line = theirs[i] if i < len(theirs) else "(nothing)"
    return f"\n    book     {book_line}\n    library  {library_line}"


def check_placed(
    book: Book, chapter: Chapter, file: str, cells: list[BuildCell]
) -> Iterator[str]:
    """Cells that build a file which is not this chapter's."""
    parts = quiet_parts(book, file)
    if any(p.chapter == chapter and p.built for p in parts):
        return
    where = f"{chapter.called}, section '{cells[0].section}'"
    if chapter.whole:
        yield f"{where}: it builds {file}, and only chapters build"
        return
    if file not in book.library():
        yield f"{where}: {file} is no file of the library"
        return
    owners = ", ".join(p.chapter.id for p in parts if p.built) or "no chapter"
    names_of = cells[0].body.strip("\n").split("\n")[0]
    yield f"{where} builds {file} ({names_of}), which is chapter {owners}'s"
