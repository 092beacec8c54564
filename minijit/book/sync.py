"""`sync`: bring the build cells along after the library was edited."""

from __future__ import annotations

from .author import cell_id, chunks, fill
from .check import cell_units, listing
from .headings import put_heading
from .measure import CELL_LINES
from .notebook import (
    METADATA, BuildCell, Json, build_cells, code_cell, dump, load, source,
)
from .project import Book, Chapter, Part
from .text import Statement, TextError, likeness, pieces


def sync(book: Book, only: Chapter | None = None) -> list[str]:
    """Rewrite build cells whose text the library no longer has; return what to tell."""
    told: list[str] = []
    for c in book.written():
        path = book.notebook(c)
        if only not in (None, c) or not path.exists():
            continue
        notebook = load(path)
        put_heading(book, c, notebook)
        notebook["metadata"] = METADATA
        told += fill(book, c, notebook)
        for file in book.library():
            for part in book.parts(file):
                if part.chapter == c and part.built:
                    told += sync_part(book, part, notebook)
        for cell in build_cells(notebook):
            if not any(p.chapter == c and p.built for p in book.parts(cell.file)):
                told.append(f"orphan: {c.called}, '{cell.section}' builds {cell.file}")
        before = code_of(load(path))
        if dump(notebook, path):
            again = ": run it again" if code_of(notebook) != before else ""
            told.append(f"{c.called} changed{again}")
    return told


def code_of(notebook: Json) -> list[str]:
    """What a notebook runs."""
    return [source(c) for c in notebook["cells"] if c["cell_type"] == "code"]


def sync_part(book: Book, part: Part, notebook: Json) -> list[str]:
    """Set the cells of one part anew; each unit stays in the cell that has it.

    A unit no cell has joins the cell of the unit before it, or the next cell where that
    one goes on with a class and the unit is no member of it.  A unit of a cell that the
    library no longer has is dropped, and named.  A cell that grows too long is cut.
    """
    cells = [c for c in build_cells(notebook) if c.file == part.file]
    own = [s for s in book.statements(part.file) if part.first <= s.first <= part.last]
    where = f"chapter {part.chapter.id}, {part.file}"
    if not own:
        return [f"{where}: the part is empty"] if cells else []
    if not cells:
        return [f"{where}: no cell yet for {listing(own)}"]
    if any(c.wanted is not None for c in cells):
        return []  # `fill` has said why
    units = [(s, u) for s in own for u in pieces(s)]
    told: list[str] = []
    owner = owners(units, cells, where, told)
    lines = book.lines(part.file)
    for i, cell in enumerate(cells):
        got = [u for u, o in zip(units, owner, strict=True) if o == i]
        if not got:
            told.append(
                f"{where}, '{cell.section}': nothing is left of a cell; it is gone"
            )
            notebook["cells"].remove(cell.cell)
            continue
        for n, chunk in enumerate(fitting(got)):
            (whole, first), (_, last) = chunk[0], chunk[-1]
            if n:
                told.append(
                    f"{where}: a cell grew too long; {first.key} begins another"
                )
                cell = next_cell(notebook, cell)
            text = "\n".join(lines[first.first - 1 : last.last])
            cell.write(text, "" if first.key == whole.key else whole.base)
    return told


def fitting(units: list[tuple[Statement, Statement]]) -> list[list]:
    """The units of a cell, or of as many cells as they need to be short enough."""
    short = units[-1][1].last - units[0][1].first < CELL_LINES
    return [units] if short else list(chunks(units, CELL_LINES))


def next_cell(notebook: Json, cell: BuildCell) -> BuildCell:
    """A new build cell after another one, for more of the same file."""
    at = notebook["cells"].index(cell.cell) + 1
    known = {c.get("id") for c in notebook["cells"]}
    texts = (f"{cell.cell.get('id')}:{n}" for n in range(len(known) + 1))
    id = next(i for t in texts if (i := cell_id(t, 0)) not in known)
    notebook["cells"].insert(at, code_cell(f"%%build {cell.file}", id))
    return BuildCell(notebook["cells"][at], cell.section, cell.file, "", None, "")


def owners(
    units: list[tuple[Statement, Statement]],
    cells: list[BuildCell],
    where: str,
    told: list[str],
) -> list[int]:
    """For each unit of the library, the cell it goes to; never going back."""
    had: list[tuple[int, Statement]] = []
    for i, cell in enumerate(cells):
        try:
            had += [(i, u) for u in cell_units(cell)]
        except (SyntaxError, TextError) as e:
            told.append(f"{where}, '{cell.section}': a cell cannot be read ({e})")
    found: dict[int, int] = {}
    for exact in (True, False):
        for n, (_, unit) in enumerate(units):
            if n in found:
                continue
            same = [h for h in had if h[1].base == unit.base]
            same = [h for h in same if h[1].text == unit.text] if exact else same
            if same:
                best = max(same, key=lambda h: likeness(h[1].text, unit.text))
                had.remove(best)
                found[n] = best[0]
    told += [
        f"{where}: dropped {u.key}, which the library no longer has" for _, u in had
    ]
    order: list[int] = []
    for n, (whole, unit) in enumerate(units):
        before = order[-1] if order else 0
        if n not in found:
            beside = "what is before it"
            if cells[before].owner not in ("", whole.base) and before + 1 < len(cells):
                before, beside = before + 1, "what is after it"
            told.append(f"{where}: {unit.key} is new; it joined the cell of {beside}")
        order.append(max(before, found.get(n, before)))
    return order
