"""The book itself: exercises, tasks and their tests; an edit reaches what runs.

What runs on the stages is in test_book_stages.py: tests of the library, and exercises.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import book_toy
import pytest

from minijit.book import cli, grade
from minijit.book.course import tasks
from minijit.book.exercise import exercises, hint, solutions
from minijit.book.grade import VERSIONS, misfits, versions_in
from minijit.book.notebook import load
from minijit.book.project import Chapter, find_book
from minijit.book.stages import imports_of, unmarked_tests
from minijit.book.toys import data_file, digits

BOOK = find_book(book_toy.REPO)
WRITTEN = [pytest.param(c, id=c.id) for c in BOOK.written()]
BUILT = [pytest.param(c, id=c.id) for c in BOOK.written() if c.builds]
def test_the_digits_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pictures, shown = digits()
    assert (pictures.shape, shown.shape) == ((1797, 64), (1797,))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "own.csv").touch()
    assert data_file("own.csv").resolve() == tmp_path / "data" / "own.csv"


def test_every_test_names_its_chapter():
    assert unmarked_tests(BOOK) == []


@pytest.mark.parametrize("chapter", WRITTEN)
def test_exercises_have_stub_check_hint_and_solution(chapter: Chapter):
    found = exercises(load(BOOK.notebook(chapter)))
    # A tour of puzzles is nothing but exercises.
    assert len(found) <= (12 if chapter.id == "cuda_puzzles" else 4)
    if chapter.kind == "chapter":
        # Cells that may be written (`start --write`) are exercises, too.
        assert found and len(found) + len(tasks(BOOK, chapter)) >= 3
    if found:
        space = solutions(BOOK, chapter)
        for e in found:
            told = hint(space[f"check_{e.name}"])
            assert told and e.name in space and e.stub
            assert e.shown.startswith("not yet: ") and told not in e.shown


@pytest.mark.parametrize("chapter", BUILT)
def test_tasks_name_tests_that_are_there(chapter: Chapter):
    """Two to five cells a chapter may be written by the reader, where any are."""
    found = tasks(BOOK, chapter)
    assert len(found) in (0, 2, 3, 4, 5)
    for task in found:
        assert task.tests and task.functions, task.name
        for test in task.tests:
            file, _, name = test.partition("[")[0].partition("::")
            text = (BOOK.root / "tests" / file).read_text(encoding="utf-8")
            assert f"def {name.rpartition('::')[2]}(" in text, test


def test_the_tests_of_tasks_import_only_what_comes_with_the_book():
    """`pip install -e ".[book]"` is all that a reader has typed."""
    project = tomllib.loads((BOOK.root / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["book"]]
    known = {re.split(r"[^\w-]", w)[0].replace("-", "_") for w in wanted}
    known |= {*sys.stdlib_module_names, BOOK.package, "tests"}
    todo = [task for c in BOOK.written() for task in tasks(BOOK, c)]
    files = {test.partition("::")[0] for task in todo for test in task.tests}
    for file in sorted({"conftest.py", *files}):
        text = (BOOK.root / "tests" / file).read_text(encoding="utf-8")
        beside = {p.stem for p in (BOOK.root / "tests").glob("*.py")}
        assert imports_of(text) <= known | beside, file


def test_every_task_has_wrong_versions_that_fit():
    """That its tests catch them is proved by hand: see the next test."""
    todo = [task for c in BOOK.written() for task in tasks(BOOK, c)]
    assert [told for c in BOOK.written() for told in misfits(BOOK, c)] == []
    known = versions_in((BOOK.root / VERSIONS).read_text(encoding="utf-8"))
    assert sorted(known) == sorted(task.name for task in todo)
    assert all(len({v["why"] for v in found}) > 4 for found in known.values())


def test_a_task_is_in_order(monkeypatch, capsys):
    """All of all chapters by hand: `python -m minijit.book grade --prove`."""
    first = tasks(BOOK, BOOK.chapter("2"))[:1]
    monkeypatch.setattr(grade, "tasks", lambda *_: first)
    told = cli.main(["--root", str(BOOK.root), "grade", "2", "--prove"])
    assert (told, capsys.readouterr().out) == (0, "tasks: in order\n")


LIVE = """
from minijit_book.build import Workshop
from minijit_book.project import find_book
from minijit_book.stage import open_chapter

book = find_book()
shop = Workshop(open_chapter(book, book.chapter(14)))
import minijit as mj, minijit.numpy as jnp
from minijit.trace import core, primitives

f = mj.jit(lambda x: jnp.sin(x))
sin, sin_p, Primitive = jnp.sin, primitives.sin_p, core.Primitive
file = "minijit/trace/primitives.py"
row = next(s.text for s in book.statements(file) if "sin_p: np.sin" in s.text)
core_py = "minijit/trace/core.py"
whole = next(s.text for s in book.statements(core_py) if s.key == "Primitive")
seen = [float(f(0.0))]
for text in (row.replace("sin_p: np.sin", "sin_p: np.cos"), row):
    shop.build_cell(file, text, {}, "a scratch cell")
    seen.append(float(f(0.0)))
assert seen == [0.0, 1.0, 0.0], seen
told = shop.build_cell(core_py, whole.replace("= name", "= name * 2"), {})
assert "sinsin" in str(mj.make_jaxpr(f)(0.0)) and float(f(0.0)) == 0.0, told
shop.build_cell(core_py, whole, {})
assert "sinsin" not in str(mj.make_jaxpr(f)(0.0)) and jnp.sin is sin
assert primitives.sin_p is sin_p and core.Primitive is Primitive
try:
    from minijit.compile.simplify.folding import to_inline
except ImportError as e:
    assert "is built by a cell that" in str(e), e
else:
    raise AssertionError("what this chapter builds is there before its first cell")
"""


NOTEBOOKS_ALONE = """
import pytest
from nbval.plugin import IPyNbCell
pytest.main(["--nbval", "--collect-only", "-q", "chapters/tours/transposes.ipynb"])
print(IPyNbCell.compare_outputs.__name__)
"""


def test_notebooks_run_alone_are_compared_as_with_the_tests():
    """`pytest --nbval chapters` takes the last digits of other CPUs, too."""
    command = [sys.executable, "-c", NOTEBOOKS_ALONE]
    told = subprocess.run(command, cwd=BOOK.root, capture_output=True, text=True)
    assert told.stdout.split()[-1] == "compared", told.stderr


def test_an_edit_reaches_a_function_jitted_before():
    """A rule, then the class of primitives, edited in the library at chapter 14."""
    done = book_toy.by_path(BOOK.root, LIVE)
    assert done.returncode == 0, done.stderr
