"""The chapters that a browser runs: which, their copies, and the wheel they install."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import book_toy
import pytest

from minijit.book import lite, magics
from minijit.book.judge import used_globals
from minijit.book.notebook import load, source, tags
from minijit.book.project import find_book
from minijit.book.text import names

BOOK = find_book(book_toy.REPO)
# What there is in a browser: no compilers, no threads, no other processes.
IN_A_BROWSER = """
import subprocess, sys, threading
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite", "scipy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path[:] = [Absent(), *(f for f in sys.meta_path
                                if "Editable" not in getattr(f, "__name__", ""))]
def none(*args, **kwargs):
    raise RuntimeError("can't start new thread")
threading.Thread.start = subprocess.Popen.__init__ = none
sys.path.insert(0, sys.argv[1])
from minijit.book import magics
space = {}
print(magics.open_book("15", space))
import minijit as mj
assert mj.__file__.startswith(sys.argv[1]), mj.__file__
import minijit.numpy as jnp
print(mj.grad(lambda x: jnp.sin(x) * x)(2.0))
print(mj.jit(mj.vmap(lambda x: x * 2))(jnp.arange(3.0)))
print(magics.open_book("5", space))
from minijit.book import colours, exercise
magics.opened().stage.finish()
found = exercise.solutions(magics.home(), magics.opened().stage.chapter)
name = next(n for n in found if n.startswith("check_"))[6:]
space[name] = found[name]
sys.platform = "emscripten"
print(colours.verdict(magics.check_exercise(name, space)))
"""


def test_chapters_that_need_no_compiler():
    names = [chapter.id for chapter in lite.chapters(BOOK)]
    assert names == [str(n) for n in range(1, len(names) + 1)]
    after = BOOK.chapters[len(names)]
    files = [f for how in ("builds", "brings") for f in after.lists(how)]
    assert any(f.startswith("minijit/run/") for f in files)


def test_no_cell_needs_what_is_text_in_a_browser():
    """What a cell defines that is not run there, only such cells use."""
    wrong = []
    for chapter in lite.chapters(BOOK):
        known, missing = set[str](), set[str]()
        for cell in load(BOOK.notebook(chapter))["cells"]:
            text = source(cell)
            if cell["cell_type"] != "code" or text.startswith("%"):
                continue
            tree = ast.parse(text)
            sets = set().union(*map(names, tree.body))
            if lite.ABSENT.intersection(tags(cell)):
                missing |= sets - known
                continue
            used = used_globals(tree) & missing
            wrong += [f"{chapter.called}: {name}" for name in used]
            known |= sets
            missing -= sets
    assert wrong == []


def test_a_copy_fetches_the_library():
    notebook = lite.in_browsers(BOOK, load(BOOK.notebook(BOOK.chapter("3"))))
    first, second, *_ = (c for c in notebook["cells"] if c["cell_type"] == "code")
    assert "%pip install -q minijit" in source(first)
    assert "%chapter 3" in source(second)


def test_what_needs_numba_is_shown_and_not_run():
    notebook = load(BOOK.notebook(BOOK.chapter("1")))
    meant = [cell["id"] for cell in notebook["cells"] if "numba" in tags(cell)]
    cells = {cell["id"]: cell for cell in lite.in_browsers(BOOK, notebook)["cells"]}
    learns, draws = (cells[id] for id in meant[-2:])
    assert {cells[id]["cell_type"] for id in meant} == {"markdown"}
    assert "range(1001)" in learns["source"] and "of 200" in learns["source"]
    assert "(attachment:0.png)" in draws["source"] and draws["attachments"]["0.png"]


def test_what_a_distribution_lacks(tmp_path: Path):
    """A package may be listed and not be there, as in the one that npm has."""
    there = {"ml-dtypes": {"file_name": "a.whl"}, "numpy": {"file_name": "b.whl"}}
    (tmp_path / "pyodide-lock.json").write_text(json.dumps({"packages": there}))
    (tmp_path / "a.whl").touch()
    assert lite.lacking(tmp_path) == ["numpy", "matplotlib"]


def test_run_all_goes_on_after_an_error(capsys: pytest.CaptureFixture[str]):
    """JupyterLite drops the cells that wait if it is told of one."""

    class Shell:
        _last_traceback: dict[str, list[str]] | None = {"traceback": ["a", "b"]}

    shell = Shell()
    magics.go_on(shell)
    magics.go_on(shell)
    assert capsys.readouterr().err == "a\nb\n" and shell._last_traceback is None


def test_the_wheel_is_a_book_that_needs_no_compiler(tmp_path: Path):
    wheel = lite.write_wheel(BOOK, tmp_path)
    assert wheel.stat().st_size < 4e6
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    command = [sys.executable, "-P", "-c", IN_A_BROWSER, str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "✓ right" in done.stdout.splitlines()[-1]
    assert "0.0770" in done.stdout and "[0. 2. 4.]" in done.stdout


def test_jupyterlite(tmp_path: Path):
    if not importlib.util.find_spec("jupyterlite_pyodide_kernel"):
        pytest.skip("JupyterLite is not installed: pip install -e '.[lite]'")
    told = "\n".join(lite.write_lite(BOOK, tmp_path))
    assert "ask Pyodide's server" in told and "chapters 1 to " in told
    made = tmp_path / lite.FOLDER
    listed = json.loads((made / "api" / "contents" / "all.json").read_text("utf-8"))
    files = {row["name"] for row in listed["content"]}
    assert files == {"data", *(c.file for c in lite.chapters(BOOK))}
    assert (made / "pypi" / "minijit-0-py3-none-any.whl").exists()
