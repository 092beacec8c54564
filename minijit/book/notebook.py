"""Notebooks as JSON: their cells, sections and build cells.

Reading and writing go through `json` alone, so that `check` and `sync` need nothing
that is not in Python; `dump` writes what `nbformat` would write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .text import Statement, TextError, statements

Json = dict[str, Any]
HEADING = re.compile(r"(#{1,6})\s+(.*)")
# A caption: a paragraph in italics below a picture, and nothing else in it.
CAPTION = re.compile(r"\A\s*(?:\*([^*]+)\*|_([^_]+)_)\s*(?:\n\n|\Z)")
# What JupyterLab 4.6 writes when it opens a notebook: so opening one changes nothing.
# The version is that of the Python on which outputs were stored; a reader's copy has
# the reader's (see `reader`).
METADATA: Json = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": "3.11.7",
    },
}


def source(cell: Json) -> str:
    """A cell's text (notebooks keep it as one string, or as a list of lines)."""
    text = cell["source"]
    return text if isinstance(text, str) else "".join(text)


def joined(text: str | list[str]) -> str:
    """A string that a notebook may keep as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def tags(cell: Json) -> list[str]:
    """A cell's tags."""
    return list(cell.get("metadata", {}).get("tags", []))


def load(path: Path) -> Json:
    """Read a notebook."""
    return json.loads(path.read_text(encoding="utf-8"))


def dump(notebook: Json, path: Path) -> bool:
    """Write a notebook as nbformat does; say whether the file changed."""
    for cell in notebook["cells"]:
        cell["source"] = as_lines(source(cell))
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return True


def as_lines(text: str) -> list[str]:
    """A string as the list of its lines, ends kept: one line of JSON for each."""
    return text.splitlines(True)


@dataclass
class BuildCell:
    """A `%%build FILE [CLASS]` cell: where it stands, and what is below its head."""

    cell: Json = field(repr=False)
    section: str
    file: str
    owner: str  # the class it goes on with, or ""
    wanted: str | None  # what follows ` :` in a placeholder that sync will fill in
    body: str

    def write(self, body: str, owner: str) -> None:
        """Replace the cell's text."""
        self.body, self.owner, self.wanted = body, owner, None
        head = f"%%build {self.file}" + (f" {owner}" if owner else "")
        self.cell["source"] = f"{head}\n{body}"


def sections(notebook: Json) -> Iterator[tuple[str, Json]]:
    """Each cell with the nearest heading above it."""
    section = "(before the first heading)"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            for _, title in headings(source(cell)):
                section = title
        yield section, cell


def headings(markdown: str) -> Iterator[tuple[int, str]]:
    """(level, title) of each heading, leaving out what stands in code fences."""
    fenced = False
    for line in markdown.split("\n"):
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and (m := HEADING.match(line)):
            yield len(m[1]), m[2].strip()


def parse_build(cell: Json, section: str = "") -> BuildCell | None:
    """The cell as a build cell, or None if it is another one."""
    text = source(cell)
    if cell["cell_type"] != "code" or not text.startswith("%%build"):
        return None
    head, _, body = text.partition("\n")
    target, colon, wanted = head.removeprefix("%%build").partition(":")
    file, owner, *_ = [*target.split(), "", ""]
    return BuildCell(cell, section, file, owner, wanted if colon else None, body)


def build_cells(notebook: Json) -> Iterator[BuildCell]:
    """The build cells of a notebook, in order."""
    for section, cell in sections(notebook):
        if found := parse_build(cell, section):
            yield found


def code_cell(text: str, id: str, tags: list[str] | None = None) -> Json:
    """A code cell that has not run."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": id,
        "metadata": {"tags": tags} if tags else {},
        "outputs": [],
        "source": text,
    }


def markdown_cell(text: str, id: str) -> Json:
    """A cell of prose."""
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": text}


def new_notebook(cells: list[Json]) -> Json:
    """A notebook of these cells."""
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def quiet_statements(text: str) -> tuple[Statement, ...]:
    """The statements, or none if the text cannot be read."""
    try:
        return statements(text, strict=False)
    except (SyntaxError, TextError):
        return ()
