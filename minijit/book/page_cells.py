"""A notebook as the body of a page: prose, code, what it printed, its pictures."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
import struct
import zlib
from dataclasses import dataclass, field
from html import escape, unescape

from mistune import Markdown

from .notebook import CAPTION, Json, joined, source, tags
from .page_prose import (
    ANSI, TAGS, Prose, highlighted, page_of, plain, prose as prose_of, renderer,
)
from .project import Book, Chapter

BUILD = re.compile(r"%%build (\S+)[^\n]*\n?")
SENTENCE = re.compile(r"(?<=[.?!:])\s+")
MARKS = {
    "raises-exception": "This cell fails on purpose.",
    "exercise": "An exercise: yours to write.",
}


@dataclass
class Page:
    """What a notebook became.

    Attributes:
      sections: [anchor, title, words for the search]; the first is the page's title.
      files: the source pages that it links to.
      pictures: file name -> PNG.
    """

    chapter: Chapter
    body: str = ""
    sections: list[list[str]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    pictures: dict[str, bytes] = field(default_factory=dict)
    last_prose: str = ""
    caption: str = ""


def chapter_page(book: Book, chapter: Chapter, notebook: Json, files: set[str]) -> Page:
    """The page of a notebook; `files` are those that have pages of source."""
    page = Page(chapter)
    folder = posixpath.dirname(f"{book.folder}/{chapter.file}")
    up = "../" * chapter.file.count("/")
    prose = Prose(lambda url: page_of(url, folder, files, page.files, up))
    markdown = renderer(prose)
    cells = notebook["cells"]
    for i, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            text = without_links(source(cell))
            if i and any(
                "image/png" in o.get("data", {}) for o in outputs_of(cells[i - 1])
            ):
                text = CAPTION.sub("", text)  # it stands in the figure
            add_prose(page, prose, str(markdown(text)))
        elif cell["cell_type"] == "code":
            after = cells[i + 1] if i + 1 < len(cells) else None
            page.caption = caption_in(after)
            page.body += code_cell(page, cell, up, markdown)
    return page


def outputs_of(cell: Json) -> list[Json]:
    """The outputs of a cell."""
    return list(cell.get("outputs", []))


def without_links(text: str) -> str:
    """A title without the line of links below it: the page has them elsewhere."""
    from .headings import TITLE

    m = TITLE.match(text)
    return m[0].split("\n", 1)[0] + text[m.end() :] if m else text


def add_prose(page: Page, prose: Prose, html: str) -> None:
    """Prose joins the page; its headings begin sections."""
    known = len(page.sections)
    page.body += html
    titles = list(prose.sections)
    parts = re.split(r"<h[1-6] id=[^>]*>.*?</h[1-6]>", html, flags=re.DOTALL)
    if page.sections:
        page.sections[-1][2] += words(parts[0])
    for (anchor, title), text in zip(titles[known:], parts[1:], strict=False):
        page.sections.append([anchor, title, words(text)])
    paragraphs = re.findall(r"<(?:p|li)>(.*?)</(?:p|li)>", html, flags=re.DOTALL)
    if paragraphs:
        page.last_prose = words(paragraphs[-1]).strip()


def words(html: str) -> str:
    """The text of HTML, on one line."""
    return " " + " ".join(unescape(TAGS.sub(" ", html)).split())


def code_cell(page: Page, cell: Json, up: str, markdown: Markdown) -> str:
    """A code cell and its outputs."""
    code = source(cell)
    label = ""
    if m := BUILD.match(code):
        file = m[1]
        page.files.add(file)
        address = f"{up}source/{file}.html"
        label = f'builds <a href="{escape(address)}"><code>{escape(file)}</code></a>'
        code = code[m.end() :]
    for tag, text in MARKS.items():
        label = label or (text if tag in tags(cell) else "")
    if page.sections:
        page.sections[-1][2] += " " + " ".join(code.split())
    kind = "cell built" if BUILD.match(source(cell)) else "cell"
    shown = f'<p class="label">{label}</p>' if label else ""
    inner = highlighted(code) if code.strip() else ""
    outputs = "".join(output(page, o, markdown) for o in outputs_of(cell))
    return f'<div class="{kind}">{shown}{inner}{outputs}</div>\n'


def output(page: Page, found: Json, markdown: Markdown) -> str:
    """One output of a cell."""
    kind = found["output_type"]
    if kind == "stream":
        return plain(joined(found["text"]), "out")
    if kind == "error":
        return plain("\n".join(found["traceback"]), "out error")
    data = found.get("data", {})
    if "image/png" in data:
        png = base64.b64decode(joined(data["image/png"]))
        return picture(page, png, found.get("metadata", {}).get("image/png", {}))
    if "text/markdown" in data:
        return f'<div class="out">{markdown(joined(data["text/markdown"]))}</div>'
    if "text/html" in data:
        return f'<div class="out">{joined(data["text/html"])}</div>'
    if "text/plain" in data:
        return plain(joined(data["text/plain"]), "out")
    return ""


def picture(page: Page, data: bytes, size: Json) -> str:
    """A picture with its caption; what it shows is said for those who do not see it.

    `size` is in units of the page: a picture may have more dots than that.
    """
    name = f"{hashlib.sha256(data).hexdigest()[:16]}.png"
    page.pictures[name] = data
    width, height = struct.unpack(">II", data[16:24])
    width, height = size.get("width", width), size.get("height", height)
    up = "../" * page.chapter.file.count("/")
    told = prose_of(page.caption, inline=True)
    caption = f"<figcaption>{told}</figcaption>" if told else ""
    said = words(told).strip() if told else last_sentences(page)
    alt = f"A picture. {said}" if said else "A picture"
    address = f"{up}web/pictures/{name}"
    kind = "" if is_clear(data) else ' class="paper"'
    return (
        f'<figure{kind} tabindex="0"><img src="{address}" alt="{escape(alt)}" '
        f'width="{width}" height="{height}" '  # not lazy: a printer does not scroll
        f'style="--least: {width * 9 // 10}px">{caption}</figure>'
    )


def is_clear(data: bytes) -> bool:
    """Whether a PNG's first pixel is transparent: then it may stand on any colour."""
    rows, at = b"", 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        rows += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    has_alpha = data[24:26] == b"\x08\x06"
    # A row begins with the number of its filter; no filter changes the first pixel.
    return has_alpha and zlib.decompressobj().decompress(rows, 5)[4] == 0


def last_sentences(page: Page) -> str:
    """What the prose above a picture ends with."""
    sentences = SENTENCE.split(ANSI.sub("", page.last_prose))
    return " ".join(sentences[-2:])[-300:].strip()


def caption_in(cell: Json | None) -> str:
    """The caption that a cell begins with, or ""."""
    if cell is None or cell["cell_type"] != "markdown":
        return ""
    m = CAPTION.match(source(cell))
    return (m[1] or m[2]) if m else ""
