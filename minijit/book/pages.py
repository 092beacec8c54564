"""`html`: the book as static pages, with an index in its own order."""

from __future__ import annotations

import posixpath
import re
from html import escape
from pathlib import Path

from .project import Book, Chapter

# In prose, a link to a notebook: it becomes one to the notebook's page.
LINK = re.compile(r"(\]\([^)\s]*)\.ipynb\b")
# In prose, a link to a file: if it is the library's, it becomes one to its page.
TO_FILE = re.compile(r"(\]\()([^)\s#]+\.py)\b")
HEADS = {"tour": "Tours", "capstone": "Capstones"}
STYLE = "font: 16px/1.5 sans-serif; max-width: 50em; margin: 1em auto; padding: 0 1em"
DARK = """\
%s
@media (prefers-color-scheme: dark) {
body { background: #0d1117; color: #e6edf3 }
%s
}
"""
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
    """Render what is written (or one notebook), the index, and the library's files that
    the prose links to, into a folder.

    Outputs are those that the notebooks store; nothing is run.  Returns the files.
    """
    import nbformat
    from nbconvert import HTMLExporter

    exporter = HTMLExporter()
    pages = [written_page(out / "index.html", index_page(book))]
    linked: set[str] = set()
    for chapter in [only] if only else book.written():
        notebook = nbformat.read(book.notebook(chapter), 4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                text = LINK.sub(r"\1.html", cell.source)
                cell.source, files = to_sources(book, chapter, text)
                linked |= files
        title = {"metadata": {"name": f"{chapter.id} {chapter.title}"}}
        body, _ = exporter.from_notebook_node(notebook, title)
        body = with_way(body, way(book, chapter))
        pages.append(written_page(out / f"{chapter.stem}.html", body))
    for file in sorted(linked):
        pages.append(written_page(out / source_page(file), file_page(book, file)))
    return pages


def written_page(path: Path, text: str) -> Path:
    """Write a page, and its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def to_sources(book: Book, chapter: Chapter, text: str) -> tuple[str, set[str]]:
    """Prose with its links to library files made links to their pages; the files."""
    library = set(book.library())
    folder = posixpath.dirname(f"{book.folder}/{chapter.file}")
    found: set[str] = set()

    def to_page(m: re.Match[str]) -> str:
        file = posixpath.normpath(posixpath.join(folder, m[2]))
        if file not in library:
            return m[0]
        found.add(file)
        return f"{m[1]}{up(chapter)}{source_page(file)}"

    return TO_FILE.sub(to_page, text), found


def up(chapter: Chapter) -> str:
    """The way from a notebook's page to the folder of the index."""
    return "../" * chapter.file.count("/")


def source_page(file: str) -> str:
    """Where the page of a library file is."""
    return f"source/{file}.html"


def file_page(book: Book, file: str) -> str:
    """A library file, highlighted, for light and dark screens."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    lines = HtmlFormatter(linenos="inline", lineanchors="line", wrapcode=True)
    body = highlight(book.source(file), PythonLexer(), lines)
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    css = DARK % (lines.get_style_defs(".highlight"), dark)
    items = f'<p><a href="{"../" * (file.count("/") + 1)}index.html">Contents</a></p>'
    page = INDEX.format(title=escape(file), style=STYLE, items=items + body)
    return page.replace("</head>", f"<style>{css}</style></head>")


def link(chapter: Chapter, start: str = "") -> str:
    """A link to a notebook's page, under its number and title."""
    shown = (
        chapter.title
        if chapter.kind in ("tour", "capstone")
        else (f"{chapter.id} {chapter.title}")
    )
    return f'<a href="{start}{chapter.stem}.html">{escape(shown)}</a>'


def way(book: Book, chapter: Chapter) -> str:
    """The line with what is before it, the index, and what is after it."""
    written = list(book.written())
    at, start = written.index(chapter), up(chapter)
    steps = [f'<a href="{start}index.html">Contents</a>']
    if at > 0:
        steps.insert(0, "&larr; " + link(written[at - 1], start))
    if at + 1 < len(written):
        steps.append(link(written[at + 1], start) + " &rarr;")
    return f'<nav style="{STYLE}">{" &middot; ".join(steps)}</nav>'


def with_way(page: str, line: str) -> str:
    """A page with a line above and below what it shows."""
    page = re.sub(r"<body[^>]*>", lambda m: m[0] + line, page, count=1)
    head, end, tail = page.rpartition("</body>")
    return head + line + end + tail


def index_page(book: Book) -> str:
    """The table of contents: all chapters, then the tours and the capstones."""
    rows = []
    kind = "chapter"
    for chapter in book.written():
        if chapter.kind in HEADS and chapter.kind != kind:
            rows.append(f"<h2>{HEADS[chapter.kind]}</h2>")
        kind = chapter.kind
        known = f" (after chapter {chapter.after})" if chapter.after else ""
        rows.append(f'<p style="margin: 0">{link(chapter)}{known}</p>')
    title = escape(f"{book.package}, the book")
    return INDEX.format(title=title, style=STYLE, items="\n".join(rows))
