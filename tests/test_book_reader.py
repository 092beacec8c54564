"""The reader's copy: `start`, `reset`, and that neither touches what git keeps."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import book_toy
import pytest

from minijit.book.notebook import METADATA, dump, load, source
from minijit.book.project import Book
from minijit.book.reader import reset, start, tell_kernels


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return book_toy.copy(tmp_path)


def mine(book: Book, name: str) -> Path:
    return book.root / "my_chapters" / name


def test_start_copies_what_is_not_there_yet(book: Book):
    assert list(start(book)) == [
        "my_chapters: 4 notebooks made",
        "open it: jupyter lab my_chapters/01_values.ipynb",
    ]
    path = mine(book, "01_values.ipynb")
    copy = load(path)
    assert copy["cells"] == load(book.notebook(book.chapter("1")))["cells"]
    language = {**METADATA["language_info"], "version": platform.python_version()}
    assert copy["metadata"].pop("minijit")["write"] is False
    assert copy["metadata"] == {**METADATA, "language_info": language}
    copy = load(path)
    copy["cells"][0]["source"] = "my own words"
    dump(copy, path)
    mine(book, "02_trees.ipynb").unlink()
    assert next(start(book)) == "my_chapters: 1 notebooks made"
    assert source(load(path)["cells"][0]) == "my own words"


def test_start_says_what_is_newer_in_the_book(book: Book):
    list(start(book))
    path = book.notebook(book.chapter("2"))
    notebook = load(path)
    notebook["cells"][0]["source"] += "\nA new sentence."
    dump(notebook, path)
    told = list(start(book))
    assert told[1] == "newer in the book than your copy: 2"
    assert "`reset K` renews" in told[2]


def test_reset_keeps_what_was_there(book: Book):
    list(start(book))
    path = mine(book, "02_trees.ipynb")
    before = path.read_text()
    for n, kept in enumerate(("02_trees.ipynb", "02_trees_2.ipynb")):
        path.write_text(f'{{"cells": [], "metadata": {{}}, "n": {n}}}')
        told = list(reset(book, book.chapter("2")))
        assert told[0].endswith(f"is kept as my_chapters/before_reset/{kept}")
        assert path.read_text() == before
        assert load(mine(book, f"before_reset/{kept}"))["n"] == n


def test_the_commands_also_from_within_the_copy(book: Book):
    done = book_toy.command(book.root, "start")
    assert done.returncode == 0 and "4 notebooks made" in done.stdout
    mine(book, "03_linearize.ipynb").unlink()
    done = book_toy.command(book.root / "my_chapters", "reset", "3")
    assert done.stdout == "my_chapters/03_linearize.ipynb is as the book has it\n"


GUARDED = """
import sys
from IPython.core.interactiveshell import InteractiveShell
sys.path[:0] = ["", {repo!r}]
shell = InteractiveShell.instance()
shell.run_line_magic("colors", "nocolor")
shell.run_cell("import toy")
shell.run_cell("import toy.trace.core as core")
shell.run_cell("%load_ext minijit.book\\n%chapter 2")
shell.run_cell("import toy; toy.Array.__module__")
shell.run_cell("toy.flatten")
"""


def test_an_import_before_the_first_cell_is_refused(book: Book):
    pytest.importorskip("IPython")
    list(start(book))
    folder = book.root / "my_chapters"
    line = [sys.executable, "-P", "-c", GUARDED.format(repo=str(book_toy.REPO))]
    done = subprocess.run(line, cwd=folder, text=True, capture_output=True)
    told = "RunTheFirstCell: run the notebook's first cell: it says which chapter"
    assert done.stdout.count(told) == 2, done.stdout + done.stderr
    assert "Chapter 2: Trees." in done.stdout and "'toy.trace.core'" in done.stdout
    assert "toy.flatten is built in this chapter" in done.stdout


RESTARTED = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import PyFileConfigLoader
sys.path[:0] = ["", {repo!r}]
config = PyFileConfigLoader({file!r}).load_config()
shell = InteractiveShell.instance(config=config)
shell.run_line_magic("colors", "nocolor")
shell.run_cell("%%build toy/trace/core.py\\nx = 1")
shell.run_cell("%check jvp")
shell.run_cell("import toy")
shell.run_cell("%solution jvp")
shell.run_cell("%load_ext minijit.book\\n%chapter 1")
"""


def test_a_build_cell_right_after_a_restart(book: Book, tmp_path: Path):
    """The environment's configuration knows the magics, and they say what to do."""
    pytest.importorskip("IPython")
    list(start(book))
    tell_kernels(book, tmp_path.parent / "another")
    assert not (tmp_path.parent / "another").exists()
    tell_kernels(book, book.root / ".venv")
    file = book.root / ".venv" / "etc" / "ipython" / "ipython_kernel_config.py"
    code = RESTARTED.format(repo=str(book_toy.REPO), file=str(file))
    line = [sys.executable, "-P", "-c", code]
    folder = book.root / "my_chapters"
    done = subprocess.run(line, cwd=folder, text=True, capture_output=True)
    told = "UsageError: run the notebook's first cell"
    assert (done.stdout + done.stderr).count(told) == 3, done.stdout + done.stderr
    assert "Chapter 1: " in done.stdout and "toy is empty" in done.stdout


def test_the_guard_lets_others_pass(book: Book):
    list(start(book))
    code = "import toy, toy.trace.core; print(toy.__file__)"
    env = {**os.environ, "PYTHONPATH": str(book.root)}
    line = [sys.executable, "-c", code]
    folder = book.root / "my_chapters"
    done = subprocess.run(line, cwd=folder, env=env, text=True, capture_output=True)
    assert done.stdout.strip() == str(book.root / "toy" / "__init__.py"), done.stderr
