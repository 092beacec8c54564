"""Markdown as HTML: links to pages, headings with anchors, mathematics as MathML."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from html import escape, unescape
from typing import Any

import mistune
from mistune.plugins.math import math
from mistune.plugins.table import table

from .project import BookError

TAGS = re.compile(r"<[^>]+>")


class Prose(mistune.HTMLRenderer):
    """The renderer of one page.

    Attributes:
      resolve: the address on the pages of a link in a notebook.
      sections: (anchor, title) of the headings so far.
    """

    def __init__(self, resolve: Callable[[str], str] = lambda url: url):
        super().__init__(escape=False)
        self.resolve = resolve
        self.sections: list[tuple[str, str]] = []

    def link(self, text: str, url: str, title: str | None = None) -> str:
        address = self.resolve(url)
        return f'<a href="{escape(address)}">{text}</a>' if address else text

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        title = unescape(TAGS.sub("", text))
        # As JupyterLab names them, so that links to sections lead there.
        anchor = title.replace(" ", "-")
        self.sections.append((anchor, title))
        at = escape(anchor)
        sign = f'<a class="anchor" href="#{at}" aria-hidden="true" tabindex="-1">#</a>'
        return f'<h{level} id="{at}">{text}{sign}</h{level}>\n'

    def block_code(self, code: str, info: str | None = None) -> str:
        from .page_code import highlighted

        return highlighted(code, (info or "text").split()[0])

    def block_math(self, text: str) -> str:
        return f'<div class="math">{mathml(text, "block")}</div>\n'

    def inline_math(self, text: str) -> str:
        return mathml(text, "inline")

    def table(self, text: str) -> str:
        return f'<div class="table" tabindex="0"><table>{text}</table></div>\n'


def mathml(text: str, display: str) -> str:
    """A formula of TeX as MathML, which browsers show without a script."""
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError:
        raise BookError(
            "formulas need latex2mathml: pip install -e '.[book]' installs it"
        ) from None
    return convert(text, display=display)


def renderer(prose: Prose) -> mistune.Markdown:
    """What turns Markdown into HTML with this renderer."""
    return mistune.create_markdown(renderer=prose, plugins=[table, math])


def prose(text: str, inline: bool = False) -> str:
    """A little Markdown as HTML; `inline` without the paragraph around it."""
    html = str(renderer(Prose())(text)).strip()
    return html.removeprefix("<p>").removesuffix("</p>") if inline else html


def page_of(url: str, folder: str, files: set[str], found: set[str], up: str) -> str:
    """The address of what a notebook in `folder` links to.

    A notebook is its page, or "" if it is not written; a file is a page of source,
    which joins `found`.  `files` are those that there are.
    """
    path, mark, anchor = url.partition("#")
    if re.match(r"[a-z]+:", url) or not path:
        return url
    file = posixpath.normpath(posixpath.join(folder, path))
    if path.endswith(".ipynb"):
        page = f"{path.removesuffix('.ipynb')}.html{mark}{anchor}"
        return page if file in files else ""
    if file in files:
        found.add(file)
        return f"{up}source/{file}.html"
    return url
