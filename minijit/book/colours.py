"""Programs in colours, in a front end that shows them to a reader.

Jaxprs and loop programs get an HTML form beside their plain text, in the colours of
JupyterLab's own editor, so both themes show them well; and so does the text of a
program that is printed: of a jaxpr, of loops, or of Python.  Where a notebook is
executed without a reader (`run`, nbval) there is the plain text alone: that is what is
stored.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from html import escape
from typing import Any

# JupyterLab tells its kernels the notebook's path; nothing else sets this.
SESSION = "JPY_SESSION_NAME"
SHOWN = (
    ("minijit.trace.jaxprs.jaxpr", "Jaxpr"),
    ("minijit.trace.jaxprs.jaxpr", "ClosedJaxpr"),
    ("minijit.compile.loops.statements", "Program"),
)
# How the text of a program begins: a jaxpr, a loop program, Python.
PROGRAM = re.compile(
    r"\{ lambda .*\}\s*\Z|program \w+\(.*\):\n|(def \w+\(.*:|@\w+.*|import \w+)\n",
    re.DOTALL,
)
# The size and the left edge of JupyterLab's code, and of outputs that are plain text.
LIKE_TEXT = (
    "background: none; margin: 0; padding: 0 0 0 0.6em; "
    "font-size: var(--jp-code-font-size); line-height: var(--jp-code-line-height)"
)
LONGEST = 100_000  # characters; a longer text stays plain
# Kinds of tokens, by pygments' names, and the variables of JupyterLab's themes.
COLOURS = {
    "Keyword": "keyword", "Literal.Number": "number", "Literal.String": "string",
    "Comment": "comment", "Operator": "operator", "Name.Function": "def",
}  # fmt: skip
# A green and a red, as red;green;blue, that are read on white and on black.  (Those of
# the terminal are too dark for JupyterLab's dark theme, as bold letters.)
RIGHT, WRONG = "20;136;62", "222;52;52"


def is_watched() -> bool:
    """Does a reader look on: in JupyterLab, or where Python is in the browser?"""
    return bool(os.environ.get(SESSION)) or sys.platform == "emscripten"


def install(shell: Any) -> None:
    """Show programs in colours, if a reader looks on.

    Anew for each chapter: its classes are new ones.
    """
    if is_watched():
        formatter = shell.display_formatter.formatters["text/html"]
        for module, name in SHOWN:
            formatter.for_type_by_name(module, name, html)
        shell.user_ns["print"] = printed


def verdict(text: str) -> str:
    """What `%check` says, its first words green or red if a reader looks on."""
    if not is_watched():
        return text
    head = re.split("[:\n]", text, maxsplit=1)[0]
    mark, colour = ("✓", RIGHT) if head.startswith("right") else ("✗", WRONG)
    return f"\x1b[1;38;2;{colour}m{mark} {head}\x1b[0m{text[len(head) :]}"


def printed(*values: Any, **options: Any) -> None:
    """`print`, but a program by itself is shown in colours."""
    text = str(values[0]) if len(values) == 1 and not options else ""
    shown = html(text) if is_program(text) else None
    if shown is None:
        builtins.print(*values, **options)
        return
    from IPython.display import display

    display({"text/plain": text, "text/html": shown}, raw=True)


def is_program(text: str) -> bool:
    """Does a text begin as programs do?"""
    return PROGRAM.match(text.lstrip()) is not None


def html(program: Any) -> str | None:
    """A program's text as HTML, or None if it is too long to be coloured."""
    text = str(program)
    if len(text) > LONGEST:
        return None
    return f'<pre style="{LIKE_TEXT}">{coloured(text)}</pre>'


def coloured(text: str) -> str:
    """Python, or what looks like it, with a colour for each kind of token."""
    from pygments.lexers import PythonLexer

    parts = []
    for kind, token in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        name = str(kind).removeprefix("Token.")
        found = [c for prefix, c in COLOURS.items() if name.startswith(prefix)]
        if found and token.strip():
            style = f"color: var(--jp-mirror-editor-{found[0]}-color)"
            parts.append(f'<span style="{style}">{escape(token)}</span>')
        else:
            parts.append(escape(token))
    return "".join(parts)
