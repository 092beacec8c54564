"""`html`: the book as static pages, which need nothing but a browser.

    out/index.html                  the contents: parts, chapters, tours
    out/06_linearize.html           a page for each notebook; nothing is run
    out/source/minijit/lax.py.html  a page for each file that a page links to
    out/web/                        style, script, pictures, the search index

A page asks no other host for anything.  Pages whose sources have not changed are left
as they are.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .contents import Contents, Entry, contents
from .lite import ADDRESS, FOLDER
from .notebook import load
from .page_cells import Page, chapter_page
from .page_prose import source_lines
from .project import HOW, Book, Chapter, quiet_parts, still

WEB = Path(__file__).parent / "web"
RECORD = "web/built.json"
ABOUT = "A small JAX, and the book that builds it: tracing, derivatives, compiling"
INTRODUCTION = """\
<p>The chapters below build a library that traces Python functions, differentiates and
vectorises them, and compiles them to machine code. What they build is the library
itself, letter for letter. These pages are for reading; to run and change the code, open
the notebooks in JupyterLab, as the README says.</p>"""

IN_BROWSERS = """\
<p>The first {count} chapters also run here, in the browser: look for "Run this chapter"
on their pages. Their first cell fetches the library, and NumPy with Python itself. A
browser has no numba and no LLVM: the few cells that compile say so there, and all
chapters after them want an installation.</p>"""


@dataclass
class Site:
    """The pages under way.

    Attributes:
      shown: what the contents are made of: changes of it change every page.
      record: page -> (a hash of what it was made of, the source pages that it wants).
      lite: the notebooks that JupyterLite beside the pages can run, by their files.
    """

    book: Book
    out: Path
    shown: Contents
    record: dict[str, list]
    written: list[Path]
    lite: set[str]

    def write(self, name: str, text: str) -> None:
        """Write a page, and its folder if need be."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.written.append(path)


def write_pages(
    book: Book,
    only: Chapter | None,
    out: Path,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Render what is written (or one notebook), the contents, and the files linked to.

    Args:
      tell: is told of each page while it is made.

    Returns the pages written, the contents first; those that stand already are not.
    """
    book = still(book)
    lite = {p.name for p in (out / FOLDER / "files").glob("*.ipynb")}
    site = Site(book, out, contents(book), read_record(out), [], lite)
    site.write("index.html", framed(site, None, index_body(site), "index.html"))
    shutil.copyfile(WEB / "404.html", out / "404.html")
    copy_web(out)
    chapters = [only] if only else list(book.written())
    for i, chapter in enumerate(chapters, 1):
        tell(f"[{i}/{len(chapters)}] {chapter.stem}")
        write_chapter(site, chapter)
    linked = {file for row in site.record.values() for file in row[1]}
    linked |= set() if only else set(book.library())
    for i, file in enumerate(sorted(linked), 1):
        tell(f"[{i}/{len(linked)}] source/{file}")
        write_source(site, file)
    tell("")
    write_search(site)
    (out / RECORD).write_text(json.dumps(site.record, indent=0), encoding="utf-8")
    return site.written


def read_record(out: Path) -> dict[str, list]:
    """What the pages in a folder were made of, if they were made by this version."""
    path = out / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def copy_web(out: Path) -> None:
    """Style, script and icon."""
    (out / "web").mkdir(parents=True, exist_ok=True)
    for name in ("book.css", "book.js", "icon.svg"):
        shutil.copyfile(WEB / name, out / "web" / name)


def machinery() -> bytes:
    """The text of what makes pages: when it changes, all pages are made anew."""
    here = Path(__file__).parent
    names = "pages page_cells page_prose contents measure lite".split()
    return b"".join((here / f"{name}.py").read_bytes() for name in names)


def made_of(*parts: bytes | str) -> str:
    """A hash of what a page is made of."""
    found = hashlib.sha256(machinery())
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()[:16]


def write_chapter(site: Site, chapter: Chapter) -> None:
    """The page of a notebook, unless it stands there already."""
    book, name = site.book, f"{chapter.stem}.html"
    path = book.notebook(chapter)
    live = chapter.file in site.lite
    links = linkable(book)
    mark = made_of(path.read_bytes(), repr(site.shown), ",".join(links), str(live))
    kept = site.record.get(name)
    if kept and kept[0] == mark and (site.out / name).exists():
        return
    page = chapter_page(book, chapter, load(path), set(links))
    for file, data in page.pictures.items():
        target = site.out / "web" / "pictures" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    files = [f for how in HOW for f in chapter.lists(how) if (book.root / f).exists()]
    wanted = sorted({*page.files, *files})
    body = page.body + files_of(site, chapter)
    head = f'<p class="lasts">{lasts(site.shown.entry(chapter))}</p>'
    head += run_link(chapter) if live else ""
    body = body.replace("</h1>", f"</h1>{head}", 1)
    site.write(name, framed(site, chapter, body, name, page))
    site.record[name] = [mark, wanted, page.sections]


def run_link(chapter: Chapter) -> str:
    """A link to the notebook in JupyterLite."""
    where = escape(ADDRESS.format(file=chapter.file))
    return f'<p class="run"><a href="{where}">Run this chapter</a> in the browser</p>'


def lasts(entry: Entry) -> str:
    """How long a notebook takes."""
    return f"About {entry.minutes} minutes." if entry.minutes else ""


def linkable(book: Book) -> list[str]:
    """What links may lead to: notebooks; and the library, its tests, and solutions."""
    found = book.library() + [f"{book.folder}/{c.file}" for c in book.written()]
    for folder in ("tests", f"{book.folder}/solutions"):
        paths = (book.root / folder).rglob("*.py")
        found += [p.relative_to(book.root).as_posix() for p in paths]
    return sorted(found)


def write_source(site: Site, file: str) -> None:
    """The page of a library file: its text, highlighted, with numbered lines."""
    name, text = source_page(file), site.book.source(file)
    mark = made_of(text)
    kept = site.record.get(name)
    if kept and kept[0] == mark and (site.out / name).exists():
        return
    parts = quiet_parts(site.book, file)
    whose = " and ".join(dict.fromkeys(by_chapter(p.chapter, p.built) for p in parts))
    said = f"<p>{whose}.</p>" if whose else ""
    body = f"<h1><code>{escape(file)}</code></h1>{said}{source_lines(text)}"
    site.write(name, bare(site, file, body, name))
    site.record[name] = [mark, [], []]


def by_chapter(chapter: Chapter, built: bool) -> str:
    """`built in chapter 7`."""
    verb = "built in" if built else "comes along with"
    return f"{verb} chapter {escape(chapter.id)}, {escape(chapter.title)}"


def source_page(file: str) -> str:
    """Where the page of a library file is."""
    return f"source/{file}.html"


def up(name: str) -> str:
    """The way from a page to the folder of the contents."""
    return "../" * name.count("/")


# -- the frame around a page


def framed(
    site: Site, chapter: Chapter | None, body: str, name: str, page: Page | None = None
) -> str:
    """A page with the side bar, what is on it, and the way before and after."""
    start = up(name)
    title = chapter.title if chapter else "Contents"
    toc = page_contents(page) if page else ""
    small = small_contents(page) if page else ""
    inner = (
        f'<nav class="side" id="side" aria-label="Book">{sidebar(site, chapter, start)}'
        f'</nav><main id="main"><article>{small}{body}</article>'
        f"{way(site, chapter, start)}</main>{toc}"
    )
    about = site.shown.about(chapter) if chapter else ""
    return document(site, title, inner, start, about=about)


def bare(site: Site, title: str, body: str, name: str) -> str:
    """A page of source: without the side bar."""
    inner = f'<main id="main" class="source"><article>{body}</article></main>'
    return document(site, title, inner, up(name), bare=True)


def document(
    site: Site, title: str, inner: str, start: str, bare: bool = False, about: str = ""
) -> str:
    """A whole page: the head, the bar on top, and what is below it."""
    book = escape(f"{site.book.package}, the book")
    home = f"{escape(site.book.package)}<span>, the book</span>"
    menu = (
        ""
        if bare
        else '<button id="menu" type="button" aria-controls="side" '
        'aria-expanded="false">Chapters</button>'
    )
    return f"""\
<!DOCTYPE html>
<html lang="en" data-start="{start}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} - {book}</title>
<meta name="description" content="{escape(about or ABOUT)}">
<link rel="icon" href="{start}web/icon.svg">
<link rel="stylesheet" href="{start}web/book.css">
<script src="{start}web/book.js"></script>
</head>
<body{' class="bare"' if bare else ""}>
<a class="skip" href="#main">To the text</a>
<header class="top">
{menu}<a class="home" href="{start}index.html">{home}</a>
<form role="search" id="find"><label class="hidden" for="words">Search the book</label>
<input id="words" type="search" placeholder="Search" autocomplete="off"></form>
<button id="theme" type="button">Dark</button>
</header>
<div id="found" role="region" aria-label="What was found" hidden></div>
<div class="columns">
{inner}
</div>
</body>
</html>
"""


def link(chapter: Chapter, start: str = "") -> str:
    """A link to a notebook's page, under its number and title."""
    return f'<a href="{start}{chapter.stem}.html">{named(chapter)}</a>'


def named(chapter: Chapter) -> str:
    """A notebook's number and title."""
    numbered = chapter.kind in ("chapter", "start")
    return escape(f"{chapter.id} {chapter.title}" if numbered else chapter.title)


def sidebar(site: Site, here: Chapter | None, start: str) -> str:
    """All parts, chapters, tours and capstones; where the reader is stands out."""
    lines = []
    for part, entries in site.shown.groups():
        items = []
        for entry in entries:
            text = link(entry.chapter, start)
            if entry.chapter.pending:
                text = f'<span title="not yet written">{named(entry.chapter)}</span>'
            if entry.chapter == here:
                text = text.replace("<a ", '<a aria-current="page" ', 1)
            items.append(f"<li>{text}</li>")
        lines.append(f"<p>{escape(part)}</p><ul>{''.join(items)}</ul>")
    return "".join(lines)


def page_contents(page: Page) -> str:
    """The sections of a page, beside it."""
    return (
        '<nav class="here" aria-label="On this page"><p>On this page</p>'
        f"{section_list(page)}</nav>"
    )


def small_contents(page: Page) -> str:
    """The same, folded, where there is no room beside the page."""
    return (
        '<details class="sections"><summary>On this page</summary>'
        f"{section_list(page)}</details>"
    )


def section_list(page: Page) -> str:
    """Links to the sections."""
    items = [
        f'<li><a href="#{escape(anchor)}">{escape(title)}</a></li>'
        for anchor, title, _ in page.sections[1:]
    ]
    return f"<ul>{''.join(items)}</ul>"


def way(site: Site, chapter: Chapter | None, start: str) -> str:
    """What is before and after on the spine, and the tours that begin here."""
    if chapter is None:
        return ""
    order = [c for c in site.book.written() if c.kind in ("chapter", "start")]
    parts = []
    if chapter in order:
        at = order.index(chapter)
        before, after = order[max(at - 1, 0) : at], order[at + 1 : at + 2]
        parts += [f'<span class="back">{link(c, start)}</span>' for c in before]
        parts += [f'<span class="next">{link(c, start)}</span>' for c in after]
    else:
        known = [c for c in order if c.id == chapter.after]
        parts += [f'<span class="back">after {link(c, start)}</span>' for c in known]
    tours = [c for c in site.book.others if c.kind == "tour" and c.after == chapter.id]
    if tours and chapter.kind == "chapter":
        named = ", ".join(link(c, start) for c in tours)
        parts.append(f'<span class="tours">Tours from here: {named}</span>')
    return f'<nav class="way" aria-label="Before and after">{"".join(parts)}</nav>'


def files_of(site: Site, chapter: Chapter) -> str:
    """Links to the files that a chapter builds and brings, below its text."""
    rows = []
    words = {
        "builds": "Built here",
        "brings": "There from the beginning",
        "brings_after": "There once all is built",
    }
    for how, word in words.items():
        files = [f for f in chapter.lists(how) if (site.book.root / f).exists()]
        start = up(chapter.stem)
        links = "".join(
            f'<li><a href="{start}{source_page(f)}"><code>{escape(f)}</code></a></li>'
            for f in files
        )
        rows += [f"<dt>{word}</dt><dd><ul>{links}</ul></dd>"] if files else []
    title = '<h2 id="Files">Files of this chapter</h2>'
    return f"<section>{title}<dl>{''.join(rows)}</dl></section>" if rows else ""


def index_body(site: Site) -> str:
    """The contents: for each chapter its question and what it builds."""
    title = escape(f"{site.book.package}, the book")
    picture = (WEB / "landing.html").read_text(encoding="utf-8")
    lines = [f"<h1>{title}</h1>", INTRODUCTION, picture]
    if site.lite:
        lines.append(IN_BROWSERS.format(count=len(site.lite)))
    for part, entries in site.shown.groups():
        lines.append(f"<h2>{escape(part)}</h2><ul class='contents'>")
        for entry in entries:
            name = link(entry.chapter)
            if entry.chapter.pending:
                name = f"{named(entry.chapter)} (not yet written)"
            after = entry.chapter.after
            known = f" After chapter {escape(after)}." if after else ""
            said = f"{entry.sentence}{known} {lasts(entry)}"
            lines.append(f"<li>{name}<p>{said}</p></li>")
        lines.append("</ul>")
    return "\n".join(lines)


# -- search


def write_search(site: Site) -> None:
    """The index: for each section of each page its title and its words."""
    rows = []
    titles = {f"{c.stem}.html": c for c in site.book.written()}
    for name, row in sorted(site.record.items()):
        if name in titles and (site.out / name).exists():
            for anchor, title, text in row[2]:
                rows.append([name, titles[name].title, anchor, title, text])
    path = site.out / "web" / "search.js"
    path.write_text(f"found({json.dumps(rows, ensure_ascii=False)})", encoding="utf-8")


def progress() -> Callable[[str], None]:
    """Tells on one line of a terminal; elsewhere on lines, and of notebooks only."""
    terminal = sys.stderr.isatty()

    def tell(text: str) -> None:
        if terminal or text and " source/" not in text:
            shown = f"{text[:78]:78}\r" if terminal else f"{text}\n"
            print(shown, end="", file=sys.stderr, flush=True)

    return tell
