"""Code as HTML: coloured by a few classes, for which the style has light and dark."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

from pygments import lex
from pygments.lexers import get_lexer_by_name
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Operator,
    String,
    Token,
)

from .colours import is_program

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


def highlighted(code: str, language: str = "python", kind: str = "") -> str:
    """A block of code, which scrolls if it is wide: so the keyboard must reach it."""
    named = f' class="{kind}"' if kind else ""
    inner = spans(code.rstrip("\n"), language)
    return f'<pre{named} tabindex="0"><code>{inner}</code></pre>\n'


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
