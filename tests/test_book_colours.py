"""Programs in colours: beside the plain text, and only where a reader looks on."""

from __future__ import annotations

import re

import pytest

import minijit as mj
from minijit.book import colours

interactive = pytest.importorskip("IPython.core.interactiveshell")


def test_colours_change_no_letter():
    text = str(mj.make_jaxpr(lambda x: x * 2.0 < 1.0)(3.0))
    shown = colours.coloured(text)
    number = '<span style="color: var(--jp-mirror-editor-number-color)">2.0</span>'
    assert number in shown
    plain = re.sub("<[^>]*>", "", shown).replace("&lt;", "<").replace("&gt;", ">")
    assert plain == text
    assert "<b>" not in colours.coloured("x = '<b>'")


def test_a_long_program_stays_plain():
    assert colours.html("x" * (colours.LONGEST + 1)) is None
    assert colours.html("x") is not None


@pytest.mark.parametrize("looks_on", [False, True])
def test_only_where_a_reader_looks_on(monkeypatch: pytest.MonkeyPatch, looks_on: bool):
    if looks_on:
        monkeypatch.setenv(colours.SESSION, "a/notebook.ipynb")
    else:
        monkeypatch.delenv(colours.SESSION, raising=False)
    shell = interactive.InteractiveShell()
    colours.install(shell)
    data, _ = shell.display_formatter.format(mj.make_jaxpr(mj.numpy.sin)(1.0))
    assert ("text/html" in data) == looks_on
    assert data["text/plain"].startswith("{ lambda ; a:f32[]")
    assert ("print" in shell.user_ns) == looks_on


def test_a_program_that_is_printed(monkeypatch: pytest.MonkeyPatch):
    from IPython import display

    shown: list[dict[str, str]] = []
    monkeypatch.setattr(display, "display", lambda data, raw: shown.append(data))
    jaxpr = mj.make_jaxpr(lambda x: mj.numpy.sin(x) * 2.0)(1.0)
    for value in (jaxpr, str(jaxpr), "def f(x):\n    return x"):
        colours.printed(value)
        assert shown[-1]["text/plain"] == str(value)
        assert "<span" in shown[-1]["text/html"]


def test_what_is_no_program_is_printed_as_ever(capsys: pytest.CaptureFixture[str]):
    colours.printed("define it\nor not")
    colours.printed("a", 1, sep="-", end="")
    colours.printed("{ lambda ;")
    assert capsys.readouterr().out == "define it\nor not\na-1{ lambda ;\n"
