"""`%show FILE NAME`: a statement of the library, printed where it is talked about.

NAME is a function, class, `Class.method` or assigned name, as it stands in the file;
`rules #2` is the second statement that sets `rules`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from . import colours
from .notebook import Json, joined, source
from .project import Book, BookError
from .text import Statement, pieces


def statement_text(book: Book, line: str) -> str:
    """The text of the statement that `%show LINE` names, its file in a comment above.

    BookError if there is no such file or statement.
    """
    file, _, name = line.strip().partition(" ")
    if file not in book.library():
        raise BookError(f"write `%show FILE NAME`: {file} is no file of the library")
    every = book.statements(file)
    found = [s for s in every if name.strip() in (s.key, s.base, *s.key.split(", "))]
    found += [m for s in every for m in pieces(s)[1:] if m.key == name.strip()]
    if not found:
        defined = [n for s in every if not is_import(s) for n in s.key.split(", ")]
        near = difflib.get_close_matches(name.strip(), defined, 8, 0.3) or defined[:8]
        known = ", ".join(dict.fromkeys(near))
        raise BookError(f"{file} has no {name.strip()}; it has {known} and more")
    return f"# {file}\n{found[0].text}"


def is_import(s: Statement) -> bool:
    """Is it an import statement?"""
    return isinstance(s.node, (ast.Import, ast.ImportFrom))


def mime(text: str) -> dict[str, str]:
    """Python source as a front end shows it: plain, or highlighted in its colours."""
    if colours.is_watched():
        return {"text/plain": text, "text/html": colours.html(text) or text}
    return {"text/plain": text, "text/markdown": f"```python\n{text}\n```"}


def check_shown(book: Book, cell: Json) -> Iterator[str]:
    """Is what a `%show` cell printed what the library has today?"""
    text = source(cell).strip()
    if not text.startswith("%show"):
        return
    try:
        wanted = statement_text(book, text.removeprefix("%show"))
    except BookError as e:
        yield str(e)
        return
    shown = [joined(o.get("data", {}).get("text/plain", "")) for o in cell["outputs"]]
    if shown != [wanted]:
        yield "it does not show what the library has today; run it again"
