"""Markdown as HTML: links to pages, headings with anchors, mathematics as MathML."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import cache
from html import escape, unescape
from typing import Any

import mistune
from mistune.plugins.math import math
from mistune.plugins.table import table
from pygments import lex
from pygments.lexers import get_lexer_by_name
from pygments.token import (
    Comment, Error, Keyword, Name, Number, Operator, String, Token,
)

from .colours import is_program
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


# ---- code, coloured by a few classes, for which the style has light and dark


ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# The first kind that a token is in gives its class.
CLASSES = {
    Comment: "c",
    String: "s",
    Number: "m",
    Keyword: "k",
    Operator.Word: "k",
    Name.Function: "f",
    Name.Class: "f",
    Name.Decorator: "d",
    Name.Builtin: "b",
    Error: "",
}
KNOWN = {"python", "ipython3", "python3", "bash", "sh", "console", "toml", "json", "c"}


@cache
def class_of(kind: Any) -> str:
    """The class of a token's kind, or ""."""
    return next((name for parent, name in CLASSES.items() if kind in parent), "")


@cache
def lexer(language: str) -> Any:
    """The lexer of a language."""
    known = language if language in KNOWN else "llvm" if language == "llvm" else "text"
    return get_lexer_by_name(known, stripnl=False, ensurenl=False)


def spans(code: str, language: str = "python") -> str:
    """Code with its tokens in spans."""
    parts: list[tuple[str, str]] = []
    for kind, text in lex(code, lexer(language)):
        name = "" if kind in Token.Text else class_of(kind)
        if parts and parts[-1][0] == name:
            parts[-1] = name, parts[-1][1] + text
        else:
            parts.append((name, text))
    return "".join(
        f'<span class="{name}">{escape(text, quote=False)}</span>'
        if name
        else escape(text, quote=False)
        for name, text in parts
    )


def highlighted(code: str, language: str = "python") -> str:
    """A block of code, which scrolls if it is wide: so the keyboard must reach it."""
    inner = spans(code.rstrip("\n"), language)
    return f'<pre tabindex="0"><code>{inner}</code></pre>\n'


def plain(text: str, kind: str) -> str:
    """What a cell printed."""
    text = ANSI.sub("", text).rstrip("\n")
    program = is_program(text) and kind == "out"
    inner = spans(text) if program else escape(text, quote=False)
    return f'<pre class="{kind}" tabindex="0">{inner}</pre>\n'


def source_lines(text: str) -> str:
    """A whole file, with a number and an anchor for each line."""
    lines = []
    for number, line in enumerate(whole_lines(spans(text.rstrip("\n"))), 1):
        lines.append(f'<b id="L{number}"></b>{line}')
    return f'<pre class="file" tabindex="0"><code>{chr(10).join(lines)}</code></pre>'


def whole_lines(html: str) -> list[str]:
    """Lines of highlighted text: a span that goes over several is one in each."""
    lines, name = [], ""
    for line in html.split("\n"):
        line = f'<span class="{name}">{line}' if name else line
        opened = re.findall(r'<span class="(\w)">|</span>', line)
        name = opened[-1] if opened and opened[-1] else ""
        lines.append(line + "</span>" * bool(name))
    return lines
