"""The reader's copy: `start`, `reset`, and that neither touches what git keeps."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import book_toy
import pytest

from minijit.book.notebook import METADATA, dump, load, source
from minijit.book.project import Book
from minijit.book.reader import MADE_BY, reset, start, tell_kernels


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return book_toy.copy(tmp_path)


def mine(book: Book, name: str) -> Path:
    return book.root / "my_chapters" / name


def test_start_copies_what_is_not_there_yet(book: Book):
    assert list(start(book)) == ["my_chapters: 4 notebooks made",
                                 "open it: jupyter lab my_chapters/01_values.ipynb"]
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


STARTED = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import PyFileConfigLoader

# What an editable install has: a finder behind that of sys.path.
class EditableFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "toy":
            from importlib.util import spec_from_file_location
            return spec_from_file_location(name, {repo!r} + "/toy/__init__.py")
sys.meta_path.append(EditableFinder)
sys.path.insert(0, "")  # a kernel looks into the notebook's folder first
config = PyFileConfigLoader({file!r}).load_config()
shell = InteractiveShell.instance(config=config)
shell.run_line_magic("colors", "nocolor")
"""
EARLY = """
shell.run_cell("%%build toy/trace/core.py\\nx = 1")
shell.run_cell("%check jvp")
shell.run_cell("%solution jvp")
shell.run_cell("import toy")
shell.run_cell("import toy.trace.core as core")
shell.run_cell("%load_ext minijit.book\\n%chapter 2")
shell.run_cell("import toy; toy.Array.__module__")
shell.run_cell("toy.flatten")
"""


def in_kernel(book: Book, code: str, folder: str = "my_chapters") -> str:
    """What cells print in a kernel of the checkout's own environment, after `start`."""
    pytest.importorskip("IPython")
    list(start(book))
    tell_kernels(book, book.root / ".venv")
    file = book.root / ".venv" / "etc" / "ipython" / "ipython_kernel_config.py"
    code = STARTED.format(repo=str(book.root), file=str(file)) + code
    line = [sys.executable, "-P", "-c", code]
    done = subprocess.run(
        line, cwd=book.root / folder, text=True, capture_output=True, timeout=120
    )
    return done.stdout + done.stderr


def test_cells_that_are_run_before_the_first_one(book: Book):
    """They say what to do, and neither magics nor the library take effect."""
    told = in_kernel(book, EARLY)
    first = "run the notebook's first cell: it says which chapter"
    assert told.count(f"UsageError: {first}") == 3, told
    assert told.count(f"RunTheFirstCell: {first}") == 2, told
    assert "Chapter 2: Trees." in told and "'toy.trace.core'" in told, told
    assert "toy.flatten is built by a cell that" in told, told


UNREAD = """
shell.run_cell("%load_ext minijit.book\\n%chapter 1")
for line in "return x * x * x", "return = x", "return x":
    shell.run_cell("def cube(x):\\n    " + line)
    print("of", line)
    shell.run_cell("%check cube")
"""


def test_a_cell_that_python_cannot_read_is_not_judged_by_an_older_one(book: Book):
    first, second, third = in_kernel(book, UNREAD).split("of return")[1:]
    says = "not yet: the cell that defines cube did not run: a SyntaxError"
    assert says in second and says not in first + third


def test_the_first_cell_of_a_copy_of_an_editable_install(book: Book):
    """Nothing in the copy's folder shadows the library, nor is in its way."""
    guard = book.root / "my_chapters" / "toy" / "__init__.py"  # as `start` once made it
    guard.parent.mkdir(parents=True)
    guard.write_text(f"raise SystemExit  # {MADE_BY}")
    told = in_kernel(book, 'shell.run_cell("%load_ext minijit.book\\n%chapter 1")')
    assert "Chapter 1: " in told and "toy is empty" in told, told


def test_elsewhere_the_library_is_imported_as_usual(book: Book):
    told = in_kernel(book, 'shell.run_cell("import toy; toy.__file__")', "toy")
    assert "__init__.py" in told and "Error" not in told, told


def test_settings_of_kernels_are_the_environments_own(book: Book, tmp_path: Path):
    tell_kernels(book, tmp_path.parent / "another")
    assert not (tmp_path.parent / "another").exists()
    file = book.root / ".venv" / "etc" / "ipython" / "ipython_kernel_config.py"
    tell_kernels(book, book.root / ".venv")
    made = file.read_text()
    file.write_text(made.replace("FIRST", "OLD"))  # what an earlier version made
    tell_kernels(book, book.root / ".venv")
    assert file.read_text() == made
    file.write_text("c = get_config()")
    tell_kernels(book, book.root / ".venv")
    assert file.read_text() == "c = get_config()"
