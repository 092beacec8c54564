"""Chapters in real kernels: `run`, nbval, and the commands, on the toy book."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import book_toy
import pytest

from minijit.book import run, tracebacks
from minijit.book.exercise import exercises
from minijit.book.judge import judge
from minijit.book.notebook import code_cell, dump, joined, load, source
from minijit.book.pages import write_pages
from minijit.book.project import Book
from minijit.book.stage import write_stage
from minijit.book.stages import (
    all_stages, chapter_of_test, diff, import_modules, run_tests, stage_folder,
    staged_tests, unmarked_tests,
)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return book_toy.copy(tmp_path)


def output(book: Book, id: str, text: str) -> str:
    """What the first cell that holds a text shows."""
    cells = load(book.notebook(book.chapter(id)))["cells"]
    cell = next(c for c in cells if text in source(c))
    shown = ""
    for o in cell["outputs"]:
        shown += joined(o.get("text", "")) + joined(
            o.get("data", {}).get("text/plain", "")
        )
        shown += "\n".join(o.get("traceback", []))
    return shown


# -- run


def test_a_second_run_changes_nothing(book: Book):
    # The last chapter runs twice below.
    before = book.notebook(book.chapters[0]).read_bytes()
    assert run.run(book, book.chapters[0]) == ""
    assert book.notebook(book.chapters[0]).read_bytes() == before


def test_what_the_chapters_show(book: Book):
    assert output(book, "1", "a * a") == "(Array(value=4.0), 'array over base', 1, 0.0)"
    meant = "(This cell is meant to fail.)\n"
    assert output(book, "1", "import toy.trace.pytree") == (
        f"{meant}StageError: toy.trace.pytree is built in chapter 2; this is chapter 1"
    )
    assert output(book, "1", "import toy.trace.core") == (
        f"{meant}StageError: toy.trace.core is built by a cell that has not run yet"
    )
    assert output(book, "1s", "%chapter") == (
        "Chapter 1s: More values. toy is what the chapters before it built.\n"
    )
    assert output(book, "2", "flatten([Pair") == "[1.0, 2, 3]"


def test_tracebacks_have_real_files_and_lines_and_no_paths_of_this_machine(book: Book):
    shown = output(book, "1", "%tb")
    assert "File toy/trace/core.py:31, in unary.<locals>.op(x)" in shown
    assert "File toy/trace/core.py:40, in bind(p, *xs)" in shown
    assert "---> 40     return eval_rules[p](*xs)" in shown
    text = book.notebook(book.chapter("1")).read_text()
    for local in ("\\u001b", str(book_toy.executed()), "ipykernel_", "minijit/book"):
        assert local not in text


def test_tracebacks_show_the_readers_frames_only(book: Book):
    shown = output(book, "1", 'sin("no")')
    assert '----> 1 sin("no")' in shown
    assert "toy/" not in shown
    assert "%tb shows them)\nTypeError: must be real number, not str" in shown


def test_a_failing_cell_is_named_and_nothing_is_written(book: Book):
    chapter = book.chapter("3")
    path = book.notebook(chapter)
    notebook = load(path)
    notebook["cells"].append(code_cell("undefined_name", "new"))
    dump(notebook, path)
    before = path.read_bytes()
    told = run.run(book, chapter)
    assert told.startswith("chapter 3, section 'Demo':") and "undefined_name" in told
    assert path.read_bytes() == before


PLOT = """\
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
from IPython.display import Image, display
import io, os
file = io.BytesIO()
figure = plt.figure(figsize=(1, 1))
plt.plot([0, %s])
figure.savefig(file, metadata={"Title": os.urandom(8).hex()})
plt.close(figure)
display(Image(file.getvalue()))
"""


def test_pictures_stay_if_their_pixels_do_and_volatile_ones_always(book: Book):
    pytest.importorskip("matplotlib")
    chapter = book.chapter("3")
    path = book.notebook(chapter)
    notebook = load(path)
    notebook["cells"] += [
        code_cell(PLOT % "1", "same"),
        code_cell(PLOT % "int.from_bytes(os.urandom(4))", "volatile", ["volatile"]),
        code_cell(PLOT % "int.from_bytes(os.urandom(4))", "other"),
    ]
    dump(notebook, path)
    shown = []
    for _ in range(2):
        assert run.run(book, chapter) == ""
        shown.append([c["outputs"] for c in load(path)["cells"][-3:]])
    assert all("image/png" in c[0]["data"] for c in shown[0])
    assert shown[0][:2] == shown[1][:2] and shown[0][2] != shown[1][2]


def test_no_ids_no_timing_no_versions_are_stored(book: Book):
    for c in book.chapters:
        notebook = load(book.notebook(c))
        assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
        assert all("execution" not in x["metadata"] for x in notebook["cells"])


# -- nbval


def nbval(book: Book, file: str) -> subprocess.CompletedProcess[str]:
    """Run the book's test suite on one chapter."""
    args = ["-q", "-p", "nbval.plugin", "--nbval", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONPATH": str(book_toy.REPO)}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # The others take a second to load.
    return subprocess.run(
        [sys.executable, "-m", "pytest", *args, f"chapters/{file}"],
        cwd=book.root, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_nbval_passes_and_can_fail(book: Book):
    pytest.importorskip("nbval")
    book_toy.edit(book, "toy/trace/core.py", "x * y}", "x * y + 1}")
    path = book.notebook(book.chapter("1"))
    path.write_text(path.read_text().replace("x * y}", "x * y + 1}"))
    done = nbval(book, "01_values.ipynb")
    cells = len([c for c in load(path)["cells"] if c["cell_type"] == "code"])
    assert done.returncode == 1 and f"1 failed, {cells - 1} passed" in done.stdout


# -- stages


def test_stages_are_prefixes_and_import_alone(book: Book, tmp_path: Path):
    out = tmp_path / "stage"
    chapter = book.chapter("1s")
    files = write_stage(book, chapter, out)
    assert files == ["toy/__init__.py", "toy/numpy.py", "toy/trace/__init__.py",
                     "toy/trace/core.py", "toy/trace/more.py"]
    init = (out / "toy/__init__.py").read_text()
    assert init and book_toy.INIT.startswith(init.rstrip())
    assert "chapter 2" not in init
    assert (out / "toy/numpy.py").read_text() == book_toy.NUMPY
    code = "import toy.numpy as n; assert n.neg(1) == -1; print(n.__file__)"
    line = [sys.executable, "-P", "-c", code]
    env = {"PYTHONPATH": str(out)}
    done = subprocess.run(line, cwd="/", env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(out / "toy/numpy.py")


def test_every_stage_stands(book: Book, capfd: pytest.CaptureFixture[str]):
    assert all_stages(book) == []
    shown = capfd.readouterr().out
    assert shown.count("1 passed") == 3 and "stage 2: imported, 0 test files" in shown


def test_a_stage_that_needs_a_later_chapter_fails(
    book: Book, capfd: pytest.CaptureFixture[str]
):
    later = "import math\nimport toy.trace.more\n"
    book_toy.edit(book, "toy/trace/core.py", "import math\n", later)
    assert all_stages(book, book.chapter("1")) == ["stage 1: a module does not import",
                                                   "stage 1: tests failed",
                                                   "stage 1: exercises failed"]
    said = capfd.readouterr().err
    assert "import toy, first in its process:" in said and "toy/trace/core.py:" in said


def test_a_module_that_only_imports_after_another_fails(book: Book):
    """`more` must stand alone too, not only where `numpy` imports it."""
    first = "import sys\n\nassert 'toy.numpy' in sys.modules\nneg_p ="
    book_toy.edit(book, "toy/trace/more.py", "neg_p =", first)
    with stage_folder(book, book.chapter("1")) as folder:
        assert import_modules(book, folder) == 0
    with stage_folder(book, book.chapter("1s")) as folder:
        assert import_modules(book, folder) == 1


def test_tests_run_on_the_stage_and_can_fail(
    book: Book, capfd: pytest.CaptureFixture[str]
):
    def outcome(id: str, only: bool = False, every: int = 0) -> tuple[int, str]:
        with stage_folder(book, book.chapter(id)) as folder:
            code = run_tests(book, book.chapter(id), folder, only, every)
        return code, capfd.readouterr().out

    code, shown = outcome("3")
    assert code == 0 and "3 passed" in shown
    code, shown = outcome("3", every=2)
    assert code == 0 and "1 passed" in shown
    code, shown = outcome("3", only=True)
    assert code == 0 and "1 passed" in shown
    book_toy.edit(book, "toy/trace/more.py", "lambda x: -x", "lambda x: x")
    assert outcome("1")[0] == 0 and outcome("1s")[0] == 1
    (book.root / "tests/test_core.py").write_text(
        "import pytest, toy, toy.trace.pytree\npytestmark = pytest.mark.chapter(1)\n"
        "def test_it(): pass\n"
    )
    assert outcome("1")[0] != 0


def test_chapters_of_tests(book: Book):
    found = {
        p.name: c.id if (c := chapter_of_test(book, p)) else None
        for p in sorted((book.root / "tests").glob("test_*.py"))
    }
    assert found == {
        "test_core.py": "1",
        "test_lin.py": "3",
        "test_more.py": "1s",
        "test_whole.py": None,
    }
    assert unmarked_tests(book) == []
    (book.root / "tests/test_other.py").write_text("def test_it(): pass\n")
    assert unmarked_tests(book) == ["tests/test_other.py"]
    names = [p.name for p in staged_tests(book, book.chapter("2"))]
    assert names == ["test_core.py", "test_more.py"]


def test_diff(book: Book):
    lines = list(diff(book, book.chapter("1s"), book.chapter("2")))
    assert "+++ toy/trace/pytree.py" in lines and "--- toy/__init__.py" in lines
    assert "+from .trace.pytree import flatten" in lines
    assert not any("jvp" in line or line.startswith("-f") for line in lines)


# -- exercises


@pytest.fixture
def staged(book: Book, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    """The book, with its stage 1 on the path."""
    with stage_folder(book, book.chapter("1")) as folder:
        monkeypatch.syspath_prepend(folder)
        yield book
        book_toy.close()


SOLUTION = "chapters/solutions/01_values.py"
BLIND = """\
    try:
        fine = cube(2.0) == 8.0
    except Exception:
        fine = False
    assert fine
"""
WHERE = "chapter 1, section 'Exercises', exercise cube: "


def test_exercises_are_in_order(book: Book):
    found = exercises(load(book.notebook(book.chapter("1"))))
    empty = "not yet: `cube` is empty so far; write in place of its `...`, and run it"
    shown = f"{empty}\n  (the next try shows a hint)"
    assert [(e.name, e.shown) for e in found] == [("cube", shown)]
    done = book_toy.command(book.root, "exercise", "1")
    assert done.returncode == 0 and done.stdout == "exercises: in order\n"


@pytest.mark.parametrize("file, old, new, told", [
    (SOLUTION, "return mul(x, mul(x, x))", "return mul(x, x)",
     WHERE + "the solution is not yet: cube(2.0)\n  came      4.0\n"),
    (SOLUTION, '    """Multiply twice."""\n', "",
     WHERE + "there is no hint (the docstring of its check)"),
    (SOLUTION, "def check_cube", "def check_square",
     WHERE + "the solutions lack cube or check_cube"),
    (SOLUTION, "Multiply twice.", "the next try",
     WHERE + "the chapter does not show"),
    (SOLUTION, "    assert cube(2.0) == 8.0", BLIND,
     WHERE + "only 1 different messages of"),
    (SOLUTION, "== 8.0", "== 8.0, 'return mul(x, mul(x, x))'",
     WHERE + "a wrong answer's message gives `return mul(x, mul(x, x))` away"),
    (SOLUTION, "return mul(x, mul(x, x))", "return Path and mul(x, mul(x, x))",
     WHERE + "the solution uses Path; import that in the stub's cell"),
    (SOLUTION, "def check_cube", "check_square = len\n\n\ndef check_cube",
     "chapter 1: no `%check square`"),
    ("chapters/01_values.ipynb", '"exercise"', '"other"',
     WHERE + "no cell tagged `exercise` defines cube"),
    ("chapters/01_values.ipynb", '"    ..."', '"    return x**3"',
     WHERE + "the stub is right already"),
    ("chapters/01_values.ipynb", '"not yet: `cube` is empty', '"right `cube` is',
     WHERE + "the chapter does not show `not yet: <case>` but 'right"),
])  # fmt: skip
def test_exercises_out_of_order(staged: Book, file: str, old: str, new: str, told: str):
    assert judge(staged, staged.chapter("1")) == []
    book_toy.edit(staged, file, old, new)
    found = judge(staged, staged.chapter("1"))
    assert any(t.startswith(told) for t in found), found


def test_solutions_see_their_stage_only(book: Book):
    book_toy.edit(
        book, SOLUTION, "import mul\n", "import mul\nfrom toy import flatten\n"
    )
    done = book_toy.command(book.root, "exercise", "1")
    assert done.returncode == 1 and "flatten" in done.stderr


# -- commands


def test_commands(book: Book, tmp_path: Path):
    def command(*args: str) -> str:
        done = book_toy.command(book.root / "chapters", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert command("check", "--complete") == "book and library agree\n"
    assert command("sync") == "nothing to do\n"
    assert "Pair" in command("outline", "2")
    assert "+def register(cls):" in command("diff", "1", "2")
    (tmp_path / "x.md").write_text(command("text", "2"))
    assert command("new", "2", str(tmp_path / "x.md")).startswith("wrote chapters/02_")
    assert "stage 2: 6 files" in command("stage", "2", "--out", str(tmp_path / "out"))
    assert "3 passed" in command("test", "3")
    done = book_toy.command(book.root, "check", "7")
    assert done.returncode == 2
    assert done.stderr == "there is no chapter 7; book.toml has 1, 1s, 2, 3\n"


def test_html_makes_only_what_is_new(book: Book, tmp_path: Path):
    pytest.importorskip("mistune")
    out = tmp_path / "out"
    pages = write_pages(book, None, out)
    assert len(pages) > len(book.chapters) + 3
    told: list[str] = []
    assert write_pages(book, None, out, told.append) == [out / "index.html"]
    assert len(told) == len(pages)
    path = book.notebook(book.chapter("2"))
    notebook = load(path)
    notebook["cells"][0]["source"] += "\nA new sentence about `zebras`."
    dump(notebook, path)
    new = write_pages(book, None, out)
    assert new == [out / "index.html", out / "02_trees.html"]
    assert "zebras" in (out / "web" / "search.js").read_text(encoding="utf-8")
    book_toy.edit(book, "toy/transform/lin.py", "c = cos(x)", "c = cos(x + 0)")
    names = [p.name for p in write_pages(book, None, out)]
    assert names == ["index.html", "lin.py.html"]


def test_run_refuses_cells_that_are_not_the_library(book: Book):
    path = book.notebook(book.chapter("3"))
    before = path.read_bytes()
    book_toy.edit(book, "toy/transform/lin.py", "c = cos(x)", "c = cos(x + 0)")
    done = book_toy.command(book.root, "run", "3")
    assert done.returncode == 1
    assert "sin_lin differs" in done.stdout
    assert done.stdout.endswith("sync 3, then run\n")
    assert path.read_bytes() == before


def test_the_command_also_runs_as_a_module(book: Book):
    env = {**os.environ, "PYTHONPATH": str(book_toy.REPO)}
    line = [sys.executable, "-m", "minijit.book", "--root", str(book.root), "check"]
    done = subprocess.run(line, cwd="/", env=env, capture_output=True, text=True)
    assert done.stdout == "book and library agree\n"


def test_the_book_imports_nothing_of_the_library():
    code = "import sys; sys.argv[1:] = ['check', '1']\n"
    code += (
        "import runpy\ntry:\n    runpy.run_path('minijit/book', run_name='__main__')\n"
    )
    code += "except SystemExit:\n    pass\n"
    code += "print([m for m in sys.modules if m.split('.')[0] == 'minijit'])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=book_toy.REPO, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip().endswith("[]"), done.stdout


def test_colours_take_no_room_in_a_message():
    line = "TypeError: " + "word " * 40
    coloured = line.replace("TypeError", "\x1b[31mTypeError\x1b[39m")
    first, *rest = tracebacks.folded_line(line)
    assert len(first) == 100 and len(rest) == 2
    first = first.replace("TypeError", "\x1b[31mTypeError\x1b[39m")
    assert tracebacks.folded_line(coloured) == [first, *rest]


@pytest.mark.parametrize("here, there, same", [
    ("[0.7310586  0.26894143 0.  ]", "[0.7310586 0.2689414 0.        ]", True),
    ("mul b 0.9092974:f32[]", "mul b 0.9092973:f32[]", True),
    ("2718.2812 in 3 steps", "2718.282 in 3 steps", True),
    ("2718.2812 in 3 steps", "2718.282 in 4 steps", False),
    ("0.0757", "0.0758", False),
    ("1.5 nan", "1.5 inf", False),
    ("1.5 nan", "1.5  nan", False),
    ("[1.5]", "[1.5 2.5]", False),
    ("1.5e-3", "1.5e-4", False),
])  # fmt: skip
def test_the_last_digits_of_another_cpu_are_no_difference(here, there, same):
    assert run.same_but_for_rounding(here, there.splitlines(True)) is same
    new, old = {"text": here}, {"text": there.splitlines(True)}
    run.keep_rounding(new, old)
    assert (new == old) is same
    new, old = {"data": {"text/plain": here}}, {"data": {"text/plain": there}}
    run.keep_rounding(new, old)
    assert (new == old) is same
