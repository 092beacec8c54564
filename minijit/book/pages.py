"""`html`: the book as static pages, with an index in its own order."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from .project import Book, Chapter

# In prose, a link to a notebook: it becomes one to the notebook's page.
LINK = re.compile(r"(\]\([^)\s]*)\.ipynb\b")
STYLE = "font: 16px/1.5 sans-serif; max-width: 50em; margin: 1em auto; padding: 0 1em"
INDEX = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body style="{style}">
<h1>{title}</h1>
{items}
</body>
</html>
"""


def write_pages(book: Book, only: Chapter | None, out: Path) -> list[Path]:
    """Render the written chapters (or one of them) and the index into a folder.

    Outputs are those that the notebooks store; nothing is run.  Returns the files.
    """
    import nbformat
    from nbconvert import HTMLExporter

    exporter = HTMLExporter()
    out.mkdir(parents=True, exist_ok=True)
    index = out / "index.html"
    index.write_text(index_page(book), encoding="utf-8")
    pages = [index]
    for chapter in [only] if only else book.written():
        notebook = nbformat.read(book.notebook(chapter), 4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = LINK.sub(r"\1.html", cell.source)
        title = {"metadata": {"name": f"{chapter.id} {chapter.title}"}}
        body, _ = exporter.from_notebook_node(notebook, title)
        page = out / f"{chapter.stem}.html"
        page.write_text(with_way(body, way(book, chapter)), encoding="utf-8")
        pages.append(page)
    return pages


def link(chapter: Chapter) -> str:
    """A link to a chapter's page, under its number and title."""
    shown = escape(f"{chapter.id} {chapter.title}")
    return f'<a href="{chapter.stem}.html">{shown}</a>'


def way(book: Book, chapter: Chapter) -> str:
    """The line with the chapter before, the index, and the chapter after."""
    written = list(book.written())
    at = written.index(chapter)
    steps = ['<a href="index.html">Contents</a>']
    if at > 0:
        steps.insert(0, "&larr; " + link(written[at - 1]))
    if at + 1 < len(written):
        steps.append(link(written[at + 1]) + " &rarr;")
    return f'<nav style="{STYLE}">{" &middot; ".join(steps)}</nav>'


def with_way(page: str, line: str) -> str:
    """A page with a line above and below what it shows."""
    page = re.sub(r"<body[^>]*>", lambda m: m[0] + line, page, count=1)
    head, end, tail = page.rpartition("</body>")
    return head + line + end + tail


def index_page(book: Book) -> str:
    """The table of contents: all chapters, supplements set in."""
    rows = []
    for chapter in book.written():
        indent = "2em" if chapter.supplement else "0"
        rows.append(f'<p style="margin: 0 0 0 {indent}">{link(chapter)}</p>')
    title = escape(f"{book.package}, the book")
    return INDEX.format(title=title, style=STYLE, items="\n".join(rows))
