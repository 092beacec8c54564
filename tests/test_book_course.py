"""Course mode on a toy: cells that readers write, their tests, `--mine`, `grade`."""

from __future__ import annotations

import inspect
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path

import book_toy
import pytest

from minijit.book import colours, magics
from minijit.book.build import Workshop
from minijit.book.colours import SESSION, verdict
from minijit.book.course import HOLE, Task, emptied, tasks
from minijit.book.grade import (
    ONLY_PASS, VERSIONS, check_task, grade, lines_of, misfits, own_code, prove,
    solution_text, trials, words,
)
from minijit.book.notebook import BuildCell, build_cells, code_cell, dump, load, source
from minijit.book.project import Book, BookError
from minijit.book.reader import copy_folder, copy_of, start, table as table_of
from minijit.book.signatures import used_by
from minijit.book.splice import overlaid
from minijit.book.stage import open_chapter
from minijit.book.units import Unit, read_cell

TASKS = {
    ("1s", "def negative"): ["test_more.py::test_neg"],
    ("3", "def sin_lin(x)"): ["test_lin.py::test_jvp"],
    ("3", "def jvp(p"): ["test_lin.py::test_jvp"],
}
WRONG = "    return cos(x), lambda t: t"
BOOKS = "    c = cos(x)\n    return sin(x), lambda t: t * c"
MINE = "    slope = slope_of(x)\n    return sin(x), lambda t: slope * t"
HELPER = "def slope_of(x):\n    return cos(x)\n\n\n"
HEAD = '''"""x"""
from ..trace.core import bind, cos, mul_p, sin, sin_p
lin_rules = {}
'''


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """A toy book with tasks in it."""
    book = book_toy.copy(tmp_path)
    for (id, text), tests in TASKS.items():
        path = book.notebook(book.chapter(id))
        notebook = load(path)
        cell = next(c for c in build_cells(notebook) if text in c.body)
        cell.cell["metadata"]["tags"] = ["write", *tests]
        dump(notebook, path)
    return book


@pytest.fixture
def close() -> Iterator[None]:
    yield
    book_toy.close()


def opened(book: Book) -> tuple[Workshop, Task]:
    """Chapter 3 is open, and the file of its first task has begun."""
    magics.workshop = shop = Workshop(open_chapter(book, book.chapter("3")))
    task = tasks(book, book.chapter("3"))[0]
    shop.build_cell(task.file, HEAD, {}, "above")
    return shop, task


def write(book: Book, id: str, name: str, body: str, before: str = "") -> None:
    """Write a function's body into the reader's copy."""
    path = copy_of(book, book.chapter(id))
    notebook = load(path)
    for cell in notebook["cells"]:
        text = source(cell)
        head, found, rest = text.partition(f"def {name}(")
        if found and text.startswith("%%build"):
            line, _, after = rest.partition("\n")
            assert HOLE in after
            after = after.partition(HOLE)[2]
            cell["source"] = f"{head}{before}{found}{line}\n{body}{after}"
    dump(notebook, path)


def table(book: Book, id: str = "3") -> list[str]:
    """Task and state of each row of `grade`."""
    rows, _ = grade(book, [book.chapter(id)], None)
    return [" ".join(row.split()[1:]) for row in rows[1:-1] if row[:1].isdigit()]


def test_a_cell_is_emptied_to_signature_and_docstring(book: Book):
    cells = list(build_cells(load(book.notebook(book.chapter("1")))))
    found = {n: emptied(c)[0] for c in cells for n in emptied(c)[1]}
    hole = f"        {HOLE}"
    assert (
        f'    """One operation."""\n\n    def __init__(self, name):\n{hole}'
        in (found["Primitive.__init__"])
    )
    assert found["Array.__mul__"] == (
        f"    def __mul__(self, other):\n{hole}\n\n    __rmul__ = __mul__"
    )
    numpy = list(build_cells(load(book.notebook(book.chapter("1s")))))[1]
    text, names = emptied(numpy)
    assert names == ["negative"]
    assert text.endswith(f'    """Another name for neg."""\n    {HOLE}')


def test_above_an_empty_cell_stands_what_its_text_uses(book: Book):
    core, functions = "toy/trace/core.py", ["Array.__mul__", "array", "table_size"]
    found = ["Array(value)", "mul(x, y)", "scale()"]
    assert used_by(book, core, functions, "") == found
    assert used_by(book, core, functions, "class Array:\n    x = 1") == found[1:]
    assert used_by(book, "toy/trace/more.py", ["twice"], "") == [
        "LIMIT",
        "bind(p, *xs)",
        "neg_p",
    ]
    list(start(book, write=True))
    cells = load(copy_of(book, book.chapter("3")))["cells"]
    above = [i - 1 for i, cell in enumerate(cells) if HOLE in source(cell)]
    told = [source(cells[i]) for i in above]
    assert told[0].endswith("The book's text of it uses* `cos`, `sin`*.*")


def test_a_function_on_one_line_is_not_emptied():
    text = "def f(x): return x\ndef g(x):\n    return f(x)"
    cell = BuildCell({}, "", "toy/trace/core.py", "", None, text)
    assert emptied(cell) == (f"def f(x): return x\ndef g(x):\n    {HOLE}", ["g"])


def test_a_task_is_in_order_only_if_its_tests_need_it(book: Book):
    assert next(prove(book, book.chapter("1s"))) == (
        "chapter 1s, task negative: its tests pass without it"
    )


def test_wrong_versions_must_be_caught(book: Book):
    chapter = book.chapter("3")
    versions = [
        ("sin_lin", "another value", "return sin(x)", "return cos(x)"),
        ("sin_lin", "nothing is wrong", "t * c", "c * t"),
        ("jvp", "gone", "t / c", "t"),
    ]
    text = "".join(
        f'[["{task}"]]\nwhy = "{why}"\nbook = "{old}"\nwrong = "{new}"\n'
        for task, why, old, new in versions
    )
    (book.root / VERSIONS).write_text(text)
    few = "wrong versions of it in tests/wrong_versions.toml, and there should be 5"
    misfit = [
        f"chapter 3, task sin_lin: 2 {few}",
        "chapter 3, task jvp: 't / c' does not stand in it once",
        f"chapter 3, task jvp: 1 {few}",
    ]
    assert list(misfits(book, chapter)) == misfit
    assert list(prove(book, chapter)) == [
        "chapter 3, task sin_lin: right, though nothing is wrong", *misfit,
    ]


def test_a_cell_that_lacks_a_function_must_not_count(
    book: Book, monkeypatch: pytest.MonkeyPatch
):
    chapter = book.chapter("3")
    found = {t.why: t.mark for t in trials(book, chapter) if t.mark.why}
    renamed = [f"`{name}` has another name" for name in ("sin_lin", "jvp")]
    assert [*found] == [ONLY_PASS, *renamed]
    assert found[ONLY_PASS].why == "this cell defines no `jvp`"
    monkeypatch.setattr("minijit.book.grade.not_written", lambda *_: None)
    told = list(prove(book, chapter))
    assert f"chapter 3, task sin_lin: right, though {ONLY_PASS}" in told
    assert f"chapter 3, task jvp: right, though {renamed[1]}" in told


def test_where_no_test_ran_nothing_is_wrong(
    book: Book, monkeypatch: pytest.MonkeyPatch
):
    list(start(book, write=True))
    write(book, "3", "sin_lin", BOOKS)
    with monkeypatch.context() as m:
        m.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(BookError, match="tests need pytest: pip install pytest"):
            grade(book, [book.chapter("3")], None)
    path = book.root / "tests" / "test_lin.py"
    path.write_text(path.read_text().replace("def test_jvp", "def no_test"))
    assert table(book) == ["sin_lin not tested", "jvp not written"]
    task = tasks(book, book.chapter("3"))[0]
    cells = [read_cell(book, task.file, task.owner, task.body)]
    told = words(check_task(book, task, cells))
    assert told[0] == "not tested: none of the tests of sin_lin ran"
    assert "not found" in told[1] and "test_jvp" in told[1]
    (book.root / "tests" / "conftest.py").write_text("[][0]\n")
    told = words(check_task(book, task, cells))
    assert told[0] == "not tested: none of the tests of sin_lin ran"
    assert "IndexError" in "".join(told[1:])


def test_an_empty_cell_does_not_print_what_the_book_has(book: Book, close: None):
    shop = Workshop(open_chapter(book, book.chapter("1")))
    for cell in build_cells(load(book.notebook(book.chapter("1")))):
        text, names = emptied(cell)
        told = shop.build_cell(f"{cell.file} {cell.owner}", text, {}, "a")
        book_lines = {line.strip() for line in cell.body.split("\n")}
        gone = book_lines - {line.strip() for line in text.split("\n")}
        assert not [line for line in gone if line and line in told], told
        assert all(f"{n.rpartition('.')[2]}" in told for n in names), told
        if names:
            assert "is yours to write." in told
            break


def test_a_chapter_written_by_hand(book: Book, tmp_path: Path):
    list(start(book, write=True))
    cells = [source(c) for c in load(copy_of(book, book.chapter("3")))["cells"]]
    assert sum(HOLE in text for text in cells) == 2
    assert cells[1].startswith("*This copy is to be written")
    assert "%check sin_lin" in cells and "%check jvp" in cells
    assert table(book) == ["sin_lin not written", "jvp not written"]

    write(book, "3", "jvp", JVP)
    write(book, "3", "sin_lin", WRONG)
    assert table(book) == ["sin_lin wrong 0 of 1", "jvp right 1 of 1"]
    rows, right = grade(book, [book.chapter("3")], tmp_path / "report.xml")
    assert not right and rows[-1] == "1 of 2 tasks are right"
    assert (
        "test_lin.py::test_jvp" in rows[2] and "failed    assert (1.0, 1.0)" in rows[4]
    )
    suite = xml.parse(tmp_path / "report.xml").getroot()[0]
    assert suite.attrib["tests"] == "2" and suite.attrib["failures"] == "1"
    assert suite[0][0].tag == "failure" and len(suite[1]) == 0

    done = book_toy.command(book.root, "grade", "3")
    assert done.returncode == 1 and "sin_lin" in done.stdout
    list(start(book, write=True))
    path = copy_of(book, book.chapter("3"))
    notebook = load(path)
    for cell in notebook["cells"]:
        text = source(cell).replace(WRONG, MINE)
        cell["source"] = text.replace("def sin_lin", HELPER + "def sin_lin")
    dump(notebook, path)
    assert table(book) == ["sin_lin right 1 of 1", "jvp right 1 of 1"]


JVP = "    y, f = lin_rules[p](*primals)\n    return y, f(*tangents)"
LACKS = "this cell defines no `sin_lin`"
ABSENT = {
    "only pass": "pass",
    "another name": f"def sine_lin(x):\n{BOOKS}",
    "a class of that name": "class sines:\n    def sin_lin(x):\n        return x",
    "imported": "from toy.transform.lin import sin_lin",
}


def replace_cell(book: Book, name: str, body: str) -> None:
    """Write another text below the `%%build` line of chapter 3's cell of a function."""
    path = copy_of(book, book.chapter("3"))
    notebook = load(path)
    for cell in notebook["cells"]:
        head, _, text = source(cell).partition("\n")
        if head.startswith("%%build") and f"def {name}(" in text:
            cell["source"] = f"{head}\n{body}"
    dump(notebook, path)


@pytest.mark.parametrize("body", ABSENT.values(), ids=[*ABSENT])
def test_what_a_cell_does_not_define_is_not_written(
    book: Book, close: None, tmp_path: Path, body: str
):
    """The tests would pass: the book's version stands in."""
    list(start(book, write=True))
    write(book, "3", "jvp", JVP)
    replace_cell(book, "sin_lin", body)
    rows, right = grade(book, [book.chapter("3")], tmp_path / "report.xml")
    assert not right
    assert table(book) == ["sin_lin not written", "jvp right 1 of 1"]
    assert rows[2].strip() == LACKS
    assert f"not written: {LACKS}" in (tmp_path / "report.xml").read_text()
    # In the notebook the cell has run, and the same is said of it.
    shop, task = opened(book)
    if body != ABSENT["imported"]:
        shop.build_cell(task.file, body, {}, task.cell)
        assert magics.check_answer("sin_lin", {}) == f"not written: {LACKS}"


def test_what_another_cell_defines_is_written(book: Book):
    """A task in two cells; and of two texts of it the last one counts."""
    list(start(book, write=True))
    write(book, "3", "jvp", JVP)
    path = copy_of(book, book.chapter("3"))
    for body, state in ((BOOKS, "right 1 of 1"), (WRONG, "wrong 0 of 1")):
        notebook = load(path)
        text = f"%%build toy/transform/lin.py\ndef sin_lin(x):\n{body}"
        notebook["cells"].append(code_cell(text, f"another {state}"))
        dump(notebook, path)
        assert table(book) == [f"sin_lin {state}", "jvp right 1 of 1"]


def test_a_class_may_stand_for_a_function(book: Book):
    list(start(book, write=True))
    write(book, "3", "jvp", JVP)
    inside = BOOKS.replace("    ", "        ").replace("return", "self.both =")
    called = f"class sin_lin:\n    def __init__(self, x):\n{inside}\n\n"
    called += "    def __iter__(self):\n        return iter(self.both)"
    replace_cell(book, "sin_lin", called)
    assert table(book)[0] == "sin_lin right 1 of 1"


def test_text_that_is_no_python_is_wrong(book: Book):
    list(start(book, write=True))
    write(book, "3", "jvp", "    return (")
    rows, _ = grade(book, [book.chapter("3")], None)
    assert any("SyntaxError" in row for row in rows)


def test_where_no_cell_is_to_be_written_that_is_said(book: Book):
    plain = [c for c in book.notebooks() if not tasks(book, c)]
    rows, right = grade(book, plain[:1], None)
    assert right and len(rows) == 1
    assert rows[0].startswith(f"{plain[0].called}: no cell of it is graded; `%check`")


def test_starting_from_own_code(book: Book, close: None):
    list(start(book, write=True))
    write(book, "1s", "negative", "    return neg(x) + 0.5")
    write(book, "3", "sin_lin", WRONG)
    other, told = own_code(book, book.chapter("3"))
    assert told == ["With your own text of: negative."]
    open_chapter(other, other.chapter("3"))
    from toy.numpy import negative  # type: ignore[import-not-found]

    assert negative(2.0) == -1.5
    assert "+ 0.5" in (other.root / "toy/numpy.py").read_text()
    assert other.notebook(other.chapter("3")) == book.notebook(book.chapter("3"))


def test_check_of_a_cell_in_a_kernel(book: Book, close: None):
    magics.workshop = shop = Workshop(open_chapter(book, book.chapter("3")))
    task = tasks(book, book.chapter("3"))[0]
    told = "\n".join(words(check_task(book, task, magics.live_cells())))
    assert told == "not yet: run the build cell of sin_lin first"
    text = "def sin_lin(x):\n" + WRONG + "\n"
    shop.build_cell("toy/transform/lin.py", HEAD + text, {}, "a")
    told = words(check_task(book, task, magics.live_cells()))
    assert told[0] == "not yet: test_lin.py::test_jvp"
    assert told[1].startswith("  the test  ") and "jvp(sin_p" in told[1]
    right = text.replace(WRONG, MINE.replace("slope_of", "cos"))
    shop.build_cell("toy/transform/lin.py", right, {}, "a")
    told = "\n".join(words(check_task(book, task, magics.live_cells())))
    assert told == "right: its test passes"


def test_another_mistake_is_not_blamed_on_a_task(book: Book):
    """What is empty is the book's, and what is wrong is left out, if that helps."""
    of_sine, of_jvp = tasks(book, book.chapter("3"))
    right = read_cell(book, of_jvp.file, of_jvp.owner, of_jvp.body)
    empty = read_cell(book, of_sine.file, of_sine.owner, emptied(of_sine.build())[0])
    wrong = of_sine.body.replace("t * c", "t - c")
    for other in (empty, read_cell(book, of_sine.file, of_sine.owner, wrong)):
        assert check_task(book, of_jvp, [other, right]).state == "right"
    assert check_task(book, of_sine, [empty, right]).state == "not written"
    assert check_task(book, of_sine, [right]).state == "not run"


def test_a_failure_in_a_cell_to_be_written_does_not_show_its_lines(book: Book):
    task = tasks(book, book.chapter("3"))[0]
    line = "return sin(x), lambda t: t * c"
    where = ["transform/lin.py", line]
    told = ["failed", ["assert jvp(sin_p)"], ["TypeError: no"], where]
    shown = lines_of(book, "test_jvp", told)
    assert shown[-1] == "  in        toy/transform/lin.py: sin_lin"
    mine = task.body.replace(BOOKS, MINE.replace("slope_of", "cos"))
    cells = [read_cell(book, task.file, task.owner, mine)]
    where[1] = "slope = cos(x)"
    with tempfile.TemporaryDirectory() as folder:
        shown = lines_of(overlaid(book, cells, Path(folder)), "test_jvp", told)
    assert shown[-1].endswith("lin.py: slope = cos(x)")


def test_an_error_in_an_emptied_chapter_shows_no_lines_around(
    book: Book, close: None
):
    """What is built as the book has it goes by a name of its own."""
    list(start(book, write=True))
    shop = Workshop(open_chapter(book, book.chapter("3")))
    of_jvp = tasks(book, book.chapter("3"))[1]
    text = f"{HEAD}\n\n{of_jvp.body}"
    shop.build_cell(of_jvp.file, text, {}, "a")
    jvp = sys.modules["toy.transform.lin"].jvp
    assert jvp.__code__.co_filename.endswith("lin.py (as in the book: jvp)")
    source = inspect.getsource(jvp)
    assert "y, f = lin_rules[p]" in source and "lambda t: t * c" not in source


def test_in_an_emptied_chapter_the_difference_is_told_when_it_is_right(
    book: Book, close: None
):
    list(start(book, write=True))
    shop, task = opened(book)
    for body in (WRONG, MINE.replace("slope_of", "cos")):
        told = shop.build_cell(task.file, f"def sin_lin(x):\n{body}\n", {}, "b")
        assert "sin_lin is yours; `%check sin_lin` says whether" in told
        assert "c = cos(x)" not in told and "lambda t: t * c" not in told
    told = magics.check_answer("sin_lin", {}).split("\n")
    assert told[0] == "right: its test passes"
    assert told[1].startswith("sin_lin differs from the book")
    assert "-    c = cos(x)" in told
    again = shop.build_cell(task.file, f"def sin_lin(x):\n{WRONG}\n", {}, "b")
    assert "-    c = cos(x)" in again.split("\n")


def test_solutions_can_be_pasted(book: Book):
    chapter = book.chapter("3")
    text = solution_text(book, chapter, "sin_lin")
    assert text.startswith("%%build toy/transform/lin.py\n") and BOOKS in text
    text = solution_text(book, book.chapter("1"), "cube")
    assert text == (
        "from toy.trace.core import mul\n\n\ndef cube(x):\n    return mul(x, mul(x, x))"
    )
    with pytest.raises(BookError, match="neither a task nor an exercise nothing"):
        solution_text(book, chapter, "nothing")


def units(book: Book, text: str, owner: str = "") -> list[Unit]:
    return read_cell(book, "toy/trace/core.py", owner, text)


def test_cells_are_spliced_into_the_file(book: Book, tmp_path: Path):
    core = "toy/trace/core.py"
    cells = [
        units(
            book, "def scale():\n    return helper()\n\n\ndef helper():\n    return 7"
        ),
        units(
            book,
            "class Primitive:\n    def __init__(self, name):\n        self.n = name",
        ),
        units(
            book,
            "    def extra(self):\n        return 1\n\n    __rmul__ = None",
            "Array",
        ),
    ]
    other = overlaid(book, cells, tmp_path / "mine")
    text, before = other.source(core), book.source(core)
    compile(text, core, "exec")
    assert "def scale():\n    return helper()\n\n\ndef helper():\n    return 7" in text
    assert "self.n = name" in text and '"""One operation."""' not in text
    assert "    def __repr__(self):\n        return self.name" in text
    assert "    def extra(self):" in text and "    __rmul__ = None" in text
    assert "class Array(Base):" in text and "def __mul__" in text
    assert book.source(core) == before
    init = read_cell(book, "toy/__init__.py", "", "from .trace.pytree import flatten")
    assert overlaid(book, [init], tmp_path / "two").parts("toy/__init__.py")


def test_a_task_is_skipped_hinted_at_and_counted(
    book: Book, close: None, monkeypatch: pytest.MonkeyPatch
):
    list(start(book, write=True))
    monkeypatch.chdir(copy_folder(book))
    shop, task = opened(book)
    none = "chapter 3: 0 of 2 are right"
    told = magics.skip_task("sin_lin", {})
    assert told.startswith("sin_lin is the book's") and "cos(x)" not in told
    assert sys.modules["toy.transform.lin"].sin_lin(0.0)[0] == 0.0
    told = magics.check_answer("sin_lin", {})
    assert told == "not yet: sin_lin is the book's, for you have skipped it"
    for hints in (0, 1):
        shop.build_cell(task.file, f"def sin_lin(x):\n{WRONG}\n", {}, task.cell)
        told = magics.check_answer("sin_lin", {})
        assert told.split("\n")[-1] == none
        assert told.count("the book has 2 lines here, with cos, sin") == hints
    right = f"def sin_lin(x):\n{MINE.replace('slope_of', 'cos')}\n"
    shop.build_cell(task.file, right, {}, task.cell)
    told = magics.check_answer("sin_lin", {})
    assert told.split("\n")[-1] == "chapter 3: 1 of 2 are right"
    assert table_of(book).split("\n")[-1].split() == "chapter 3 1 of 2 ●○".split()
    with pytest.raises(BookError, match="%skip NAME`; this notebook has sin_lin, jvp"):
        magics.skip_task("nothing", {})


def test_a_verdict_has_a_colour_and_a_word(monkeypatch: pytest.MonkeyPatch):
    told = "right: 3 tests of it pass"
    assert verdict(told) == told
    monkeypatch.setenv(SESSION, "a notebook")
    right, wrong = f"\x1b[1;38;2;{colours.RIGHT}m", f"\x1b[1;38;2;{colours.WRONG}m"
    assert verdict(told) == f"{right}✓ right\x1b[0m: 3 tests of it pass"
    assert verdict("right\nchapter 1: 1") == f"{right}✓ right\x1b[0m\nchapter 1: 1"
    assert verdict("not yet: f(2)\n  x").startswith(f"{wrong}✗ not yet\x1b[0m: f(2)")
