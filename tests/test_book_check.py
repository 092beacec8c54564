"""`check`, `sync` and `new` on the toy book.

Nothing may be shown wrongly, twice or not at all, and the stored runs must be real.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import book_toy
import pytest

from minijit.book import author, headings
from minijit.book.check import check, not_on_the_map, wrong_glossary
from minijit.book.notebook import (
    build_cells, code_cell, dump, load, markdown_cell, new_notebook, source,
)
from minijit.book.project import Book, read_book
from minijit.book.renumber import changed, renumber
from minijit.book.sync import sync


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return book_toy.copy(tmp_path)


def change(book: Book, id: str, edit: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Edit the cells of a chapter's notebook."""
    path = book.notebook(book.chapter(id))
    notebook = load(path)
    edit(notebook["cells"])
    dump(notebook, path)


def find(cells: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """The first cell that holds a text."""
    return next(c for c in cells if text in source(c))


def replace_in_cell(book: Book, id: str, old: str, new: str) -> None:
    """Replace a text in a cell."""

    def edit(cells: list[dict[str, Any]]) -> None:
        cell = find(cells, old)
        cell["source"] = source(cell).replace(old, new, 1)

    change(book, id, edit)


def test_the_toy_is_in_order(book: Book):
    assert check(book, complete=True) == []


# -- tiling


def definitions(book: Book) -> Iterator[tuple[str, str, int, int]]:
    """(file, definition, first line, last line) of all that the toy's library holds."""
    for file in book.library():
        for s in book.statements(file):
            yield file, s.key, s.first, s.last


def test_any_character_changed_in_the_library_is_found(book: Book):
    count = 0
    for file, key, first, last in definitions(book):
        lines = book.lines(file)
        line = next(i for i in range(last, first - 1, -1) if lines[i - 1].strip())
        text = lines[line - 1]
        lines[line - 1] = text[:-1] + chr(ord(text[-1]) ^ 1)
        path = book.root / file
        before = path.read_text()
        path.write_text("\n".join(lines))
        told = [c for c in check(book) if file in c]
        path.write_text(before)
        assert told, (file, key, text)
        readable = not any("SyntaxError" in c or "never closed" in c for c in told)
        if readable and ("def " in before.split("\n")[first - 1]):
            assert any("chapter" in c and "section" in c for c in told), told
            assert any(key in c for c in told), (key, told)
        count += 1
    assert count > 40


def test_a_library_edit_names_chapter_section_and_definition(book: Book):
    book_toy.edit(
        book, "toy/trace/core.py", "return eval_rules[p]", "return  eval_rules[p]"
    )
    assert check(book) == [
        "chapter 1, section 'Operations', toy/trace/core.py: bind differs\n"
        "    book         return eval_rules[p](*xs)\n"
        "    library      return  eval_rules[p](*xs)"
    ]


def test_a_cell_that_goes_on_with_a_class_holds_only_members(book: Book):
    replace_in_cell(book, "1", "LIMIT = 1\n", "")
    replace_in_cell(book, "1", "return LIMIT", "return LIMIT\n\n\nLIMIT = 1")
    told = "a cell that goes on with class Array holds only its members, not LIMIT"
    assert any(t.endswith(f"toy/trace/core.py: {told}") for t in check(book))


def test_a_statement_that_stands_in_a_file_twice_is_refused(book: Book):
    row = "# Said again.\n__version__ = 1\n"
    path = book.root / "toy/__init__.py"
    again = path.read_text() + "\n" + row
    path.write_text(again.replace("\n# chapter 2\n", f"\n{row}\n# chapter 2\n"))
    assert sync(book) != []
    (told,) = [t for t in check(book) if "toy/__init__.py:" in t]
    assert told == (
        "toy/__init__.py:14: __version__ #2 is word for word what stands in line 5; "
        "a build cell would not run it a second time"
    )


def test_any_build_cell_left_out_repeated_or_moved_is_found(book: Book):
    for c in book.chapters:
        path = book.notebook(c)
        before = path.read_text()
        cells = [i for i, x in enumerate(load(path)["cells"]) if "%%build" in source(x)]
        for i in cells:
            change(book, c.id, lambda x, i=i: x.pop(i))
            assert any("is in no cell of chapter" in t for t in check(book)), (c.id, i)
            path.write_text(before)
            change(book, c.id, lambda x, i=i: x.insert(i, dict(x[i])))
            assert any("twice" in t for t in check(book)), (c.id, i)
            path.write_text(before)
        files = [source(load(path)["cells"][i]).split()[1] for i in cells]
        for i, j, a, b in zip(cells, cells[1:], files, files[1:], strict=False):
            if a == b:
                change(book, c.id, lambda x, i=i, j=j: x.insert(i, x.pop(j)))
                told = [t for t in check(book) if "not run, or not in order" not in t]
                names = [t.partition("between statements: ")[2] for t in told]
                assert any(names), (c.id, i, j, told)
                path.write_text(before)


def test_code_in_no_chapter_fails(book: Book):
    book_toy.edit(book, "toy/trace/more.py", "neg_p = Prim", "EXTRA = 1\nneg_p = Prim")
    (book.root / "toy/trace/new.py").write_text("x = 1\n")
    assert check(book) == [
        "toy/trace/more.py is in no cell of chapter 1s: EXTRA",
        "toy/trace/new.py is neither built nor brought by a chapter: x",
    ]


def test_code_in_two_chapters_fails(book: Book):
    cell = find(load(book.notebook(book.chapter("1s")))["cells"], "neg_p")
    cell["outputs"] = []
    change(book, "2", lambda cells: cells.append(cell))
    told = check(book)
    where = "chapter 2, section 'Demo' builds toy/trace/more.py"
    assert any(t.startswith(where) and "chapter 1s's" in t for t in told)


def test_text_that_is_not_in_the_library_fails(book: Book):
    replace_in_cell(book, "3", "def jvp", "extra = 1\n\n\ndef jvp")
    assert check(book) == [
        "chapter 3, section 'Rules', toy/transform/lin.py: extra is not in the library"
    ]
    change(book, "2", lambda c: c.append(code_cell("%%build toy/no.py\nx = 1", "a")))
    assert any("toy/no.py is no file of the library" in t for t in check(book))


def test_blank_lines_at_cuts_are_free_and_others_are_not(book: Book):
    book_toy.edit(book, "toy/transform/lin.py", "\n\n\ndef jvp", "\n\n\n\n\ndef jvp")
    assert check(book) == []
    book_toy.edit(book, "toy/trace/core.py", "\n\n\ndef mul(", "\n\n\n\ndef mul(")
    assert len(check(book)) == 1


def test_comments_below_the_last_statement_fail(book: Book):
    path = book.root / "toy/transform/lin.py"
    path.write_text(path.read_text() + "\n# the end\n")
    told = check(book)
    assert told == ["toy/transform/lin.py:41: a comment with no statement below it"]


def test_parts_follow_the_book(book: Book):
    book_toy.edit(book, "toy/__init__.py", "# chapter 2\n", "# chapter 4\n")
    (book.root / "toy/transform/__init__.py").write_text("# chapter 9\nx = 1\n")
    told = check(book)
    assert "toy/__init__.py: there is no chapter 4; book.toml has 1, 1s, 2, 3" in told
    told_of = "toy/transform/__init__.py is neither built nor brought by a chapter: x"
    assert told_of in told


def test_parts_and_book_toml_agree(book: Book):
    book_toy.edit(book, "toy/numpy.py", "# chapter 1s\n", "# chapter 2\n")
    told = "\n".join(check(book))
    assert "toy/numpy.py: chapter 1s builds a part, but no line is" in told
    assert "toy/numpy.py: book.toml does not list it in chapter 2" in told


def ways_of(book: Book, id: str) -> list[str]:
    """The links that a notebook must begin with."""
    return list(headings.ways(book, book.chapter(id)))


def test_metadata_are_what_jupyterlab_writes(book: Book):
    path = book.notebook(book.chapter("1"))
    notebook = load(path)
    notebook["metadata"]["language_info"] = {"name": "python"}
    dump(notebook, path)
    told = "chapter 1 has not the metadata that JupyterLab writes; run sync"
    assert check(book) == [told]
    assert sync(book) == ["chapter 1 changed"]
    assert check(book) == []


def test_pending_chapters_and_files(book: Book, tmp_path: Path):
    book.notebook(book.chapter("3")).unlink()
    assert check(book) == ["chapter 3: chapters/03_linearize.ipynb is not there"]
    book_toy.edit(book, "book.toml", 'title = "Lin', 'pending = true\ntitle = "Lin')
    (book.root / "toy/trace/new.py").write_text("x = 1\n")
    book_toy.edit(
        book, "book.toml", "[book]\n", '[book]\npending = ["toy/trace/new.py"]\n'
    )
    book = read_book(tmp_path)
    assert check(book) == [
        "chapter 2 must begin with `# 2 Trees` and its links; run sync"
    ]
    assert sync(book) == ["chapter 2 changed"]
    assert check(book) == []
    assert check(book, complete=True) == ["chapter 3 is pending",
                                          "toy/trace/new.py is pending"]
    tour = '\n[[tour]]\ntitle = "A walk"\nfile = "tours/walk.ipynb"\nafter = 2\n'
    (tmp_path / "book.toml").write_text((tmp_path / "book.toml").read_text() + tour)
    book = read_book(tmp_path)
    assert ways_of(book, "2")[-1] == "tour [A walk](tours/walk.ipynb)"
    author.no_longer_pending(book, book.chapter("walk"))
    assert read_book(tmp_path).chapter("3").pending
    assert author.new(book, book.chapter("3"), book_toy.CHAPTER_3) == []
    assert not read_book(tmp_path).chapter("3").pending


# -- imports


TO_LIN = "import math\nimport toy.transform.lin\n"
TO_NUMPY = "import Array, array\nfrom .numpy import neg\n"
TO_BOOK = "import Array, array\nfrom . import book\n"
INSIDE = "    from .pytree import flatten\n    return 1\n"
PUBLIC = "clear_caches: a room must not import the public module "


@pytest.mark.parametrize(
    "file, old, new, told",
    [
        ("toy/trace/core.py", "    return 1\n", INSIDE,
         "core.py:84, scale imports flatten, which chapter 2 builds"),
        ("toy/trace/core.py", "import math\n", TO_LIN,
         "core.py:7, import toy.transform.lin imports toy/transform/lin.py: "
         "imports go trace <- transform"),
        ("toy/transform/lin.py", "    memory.clear()", "    from toy import numpy",
         PUBLIC + "toy/numpy.py"),
        ("toy/transform/lin.py", "    memory.clear()", "    from .. import array",
         PUBLIC + "toy/__init__.py"),
        ("toy/__init__.py", "import Array, array\n", TO_NUMPY,
         "toy/__init__.py:4, from .numpy imports neg, which chapter 1s builds"),
        ("toy/__init__.py", "import Array, array\n", TO_BOOK,
         "the library must not import the book machinery"),
    ],
)  # fmt: skip
def test_imports_go_one_way(book: Book, file: str, old: str, new: str, told: str):
    (book.root / "toy/book").mkdir()
    (book.root / "toy/book/__init__.py").write_text("")
    book_toy.edit(book, file, old, new)
    sync(book)
    assert [c for c in check(book) if told in c], check(book)


def test_folders_that_are_no_rooms_are_public(book: Book):
    (book.root / "toy/nn").mkdir()
    (book.root / "toy/nn/__init__.py").write_text("from ..numpy import neg\n")
    builds = '"toy/trace/pytree.py", "toy/__init__.py"'
    book_toy.edit(book, "book.toml", builds, builds + ', "toy/nn/__init__.py"')
    book = read_book(book.root)
    assert check(book) == [
        "toy/nn/__init__.py is in no cell of chapter 2: from ..numpy"
    ]
    book_toy.edit(
        book, "toy/transform/lin.py", "    memory.clear()", "    from .. import nn"
    )
    assert any(PUBLIC + "toy/nn/__init__.py" in c for c in check(book))


# -- runs


def spoil(cell: dict[str, Any], **values: Any) -> None:
    cell.update(values)


ERROR = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
STDERR = {"output_type": "stream", "name": "stderr", "text": ["Warning"]}
SHOWN = {"output_type": "stream", "name": "stdout", "text": ["<f at 0x7f12345678>"]}
PLACE = {"output_type": "stream", "name": "stdout", "text": ["/tmp/ipykernel_3/4.py"]}
WIDE = {"output_type": "stream", "name": "stdout", "text": ["x" * 101]}
PICTURE = {"output_type": "display_data", "data": {"image/png": "", "text/plain": ""}}
RAISES = {"tags": ["raises-exception"]}
MAGIC = {"output_type": "stream", "name": "stderr", "text": ["UsageError: Cell magic"]}


@pytest.mark.parametrize("text, values, told", [
    ("%%build toy/trace/more", {"execution_count": None}, "was not run"),
    ("%%build toy/trace/more", {"execution_count": 7}, "not in order"),
    ("%%build toy/trace/more", {"outputs": [MAGIC]}, "something went to stderr"),
    ("from toy", {"outputs": [ERROR]}, "raised E, without the tag"),
    ("from toy", {"outputs": [STDERR]}, "something went to stderr"),
    ("from toy", {"outputs": [SHOWN]}, "an output holds an address"),
    ("from toy", {"outputs": [PLACE]}, "a path of the machine it ran on"),
    ("from toy", {"outputs": [WIDE]}, "a line of 101 columns, more than 100"),
    ("from toy", {"outputs": [PICTURE]}, "the cell below has no caption"),
    ("from toy", {"source": "f(fontsize=8)"}, "smaller than 9 points"),
    ("from toy", {"source": "a.text(1, 'b', size=7)"}, "smaller than 9 points"),
    ("from toy", {"metadata": RAISES}, "no error is stored"),
    ("from toy", {"metadata": {"tags": ["nbval-skip"]}}, "told to look away"),
    ("from toy", {"source": "# NBVAL_IGNORE_OUTPUT\n1"}, "told to look away"),
    ("from toy", {"metadata": {"tags": ["volatile"]}, "outputs": [
        {"output_type": "stream", "name": "stdout", "text": ["1.3 s"]}]},
     "a volatile cell may only show pictures"),
    ("%load_ext", {"source": "%load_ext x"}, "must say `%chapter 1s` once"),
    ("%load_ext", {"source": "%chapter 2"}, "must say `%chapter 1s` once"),
    ("# 1s More", {"source": "More"}, "has 0 H1 headings"),
    ("# 1s More", {"source": "# More\n\n# And more"}, "has 2 H1 headings"),
])  # fmt: skip
def test_a_run_cannot_pass_in_vain(book: Book, text: str, values: Any, told: str):
    change(book, "1s", lambda cells: spoil(find(cells, text), **values))
    assert any(told in c for c in check(book)), check(book)


def test_lengths(book: Book):
    rows = "".join(f"    {i}: {i},\n" for i in range(50))
    for file, id in (("toy/transform/lin.py", "3"), ("toy/trace/more.py", "1s")):
        path = book.root / file
        path.write_text(path.read_text() + f"\n\nlong = {{\n{rows}}}\n")
        sync(book, book.chapter(id))
    one, two = (c for c in check(book) if "at most 40" in c)
    assert "chapter 3, section 'Rules'" in two and "the cell of long has 52" in two
    assert "chapter 1s, section" in one


def test_stray_notebooks_are_named(book: Book):
    (book.root / "chapters/99_extra.ipynb").write_text(json.dumps({"cells": []}))
    assert check(book) == ["99_extra.ipynb is in chapters but not in book.toml"]


def test_check_runs_by_path_while_the_library_is_broken(book: Book):
    book_toy.edit(book, "toy/trace/core.py", "import math\n", "import math\n1 / 0\n")
    done = book_toy.command(book.root / "chapters", "check")
    assert done.returncode == 1 and done.stderr == ""
    assert "toy/trace/core.py is in no cell of chapter 1: 1 / 0" in done.stdout
    book_toy.edit(book, "toy/trace/core.py", "1 / 0\n", "def broken(:\n")
    done = book_toy.command(book.root, "check")
    assert done.returncode == 1 and "toy/trace/core.py:7: inv" in done.stdout


# -- sync


def test_sync_brings_edits_along(book: Book):
    core = "toy/trace/core.py"
    book_toy.edit(
        book, core, "return eval_rules[p](*xs)", "return eval_rules[p](*xs) + 0"
    )
    book_toy.edit(
        book, core, "def scale()", "def extra():\n    return 2\n\n\ndef scale()"
    )
    book_toy.edit(book, core, "    __rmul__ = __mul__\n\n", "")
    book_toy.edit(book, core, "    @property\n", "    two = 2\n\n    @property\n")
    told = sync(book)
    where, joined = (
        "chapter 1, toy/trace/core.py",
        "it joined the cell of what is before it",
    )
    assert told == [f"{where}: dropped Array.__rmul__, which the library no longer has",
                    f"{where}: Array.two is new; {joined}",
                    f"{where}: extra is new; {joined}",
                    "chapter 1 changed: run it again"]
    assert check(book) == []
    cells = list(build_cells(load(book.notebook(book.chapter("1")))))
    assert [c.owner for c in cells if "Array" in c.owner] == ["Array", "Array"]
    assert sync(book) == []


def test_sync_keeps_new_statements_out_of_cells_that_go_on_with_a_class(book: Book):
    core = "toy/trace/core.py"
    book_toy.edit(book, core, "LIMIT = 1\n", "FLOOR = 0\nLIMIT = 1\n")
    assert sync(book) == [
        f"chapter 1, {core}: FLOOR is new; it joined the cell of what is after it",
        "chapter 1 changed: run it again",
    ]
    assert check(book) == []


def test_sync_keeps_a_table_row_in_its_own_cell(book: Book):
    core = "toy/trace/core.py"
    replace_in_cell(book, "1", "eval_rules |= {mul_p", "eval_rules |= {cos_p")
    book_toy.edit(book, core, "sin_p: math.sin, ", "sin_p: lambda x: math.sin(x), ")
    sync(book)
    assert check(book) == []


def test_sync_names_orphans_and_files_without_a_cell(book: Book):
    change(book, "2", lambda c: c.append(code_cell("%%build toy/no.py\nx = 1", "a")))
    change(book, "1s", lambda c: c.remove(find(c, "%%build toy/trace/more")))
    told = sync(book)
    assert "orphan: chapter 2, 'Demo' builds toy/no.py" in told
    assert any(
        "toy/trace/more.py: no cell yet for docstring, from .core" in t for t in told
    )


def test_sync_fills_placeholders(book: Book):
    change(
        book,
        "3",
        lambda c: spoil(
            find(c, "def jvp"), source="%%build toy/transform/lin.py : jvp"
        ),
    )
    assert any("a placeholder is not filled in" in t for t in check(book))
    sync(book)
    assert check(book) == []


# -- authors


def test_source_and_notebook_are_inverse(book: Book):
    for c in book.chapters:
        path = book.notebook(c)
        before = load(path)
        text = author.read_source(book, c)
        assert "%%build" in text and "Primitive(" not in text
        assert author.new(book, c, text) == []
        now = load(path)["cells"]
        assert [source(x) for x in now] == [source(x) for x in before["cells"]]


def test_a_new_notebook_keeps_ids_and_outputs_of_what_stays(book: Book):
    chapter = book.chapter("3")
    before = {c["id"]: c for c in load(book.notebook(chapter))["cells"]}
    text = book_toy.CHAPTER_3.replace("## Rules", "## The rules\n\nWhy.")
    assert author.new(book, chapter, text) == []
    now = {c["id"]: c for c in load(book.notebook(chapter))["cells"]}
    assert len(set(now) - set(before)) == 1
    same = [i for i in now if i in before and before[i].get("outputs")]
    assert same and all(now[i]["outputs"] == before[i]["outputs"] for i in same)


@pytest.mark.parametrize("old, new, told", [
    (": Primitive", ": Primitiv", "no Primitiv below; the next statement"),
    (": Array.__rmul__", ": array",
     "the cell goes on with class Array, so it cannot"),
    ("toy/numpy.py :", "toy/trace/more.py :", "chapter 1 builds no part of"),
    ("toy/numpy.py :", "toy/nothing.py :",
     "there is no library file toy/nothing.py"),
    ("toy/numpy.py :", "toy/trace/core.py :", "nothing is left for a cell"),
])  # fmt: skip
def test_wrong_placeholders_are_named(book: Book, old: str, new: str, told: str):
    before = book.notebook(book.chapter("1")).read_text()
    text = book_toy.CHAPTER_1.replace(old, new, 1)
    bad = author.new(book, book.chapter("1"), text)
    assert any(told in b and b.startswith("chapter 1, section '") for b in bad), bad
    assert book.notebook(book.chapter("1")).read_text() == before


def test_a_draft_places_everything(book: Book):
    for c in book.chapters:
        for size in (5, 24, 40):
            assert author.new(book, c, author.draft(book, c, size)) == []
            told = [t for t in check(book, c) if "run" not in t]
            assert told == []
        lines = [line for line in author.outline(book, c) if "too long" in line]
        assert lines == []


def test_the_map_has_every_notebook(book: Book, monkeypatch: pytest.MonkeyPatch):
    start = replace(book.chapters[0], kind="start")
    others = book.chapters[1:]
    monkeypatch.setattr(Book, "written", lambda self: iter([start, *others]))
    path = book.notebook(start)
    links = "\n".join(f"[it]({c.file})" for c in others[1:])
    dump({"cells": [markdown_cell(links, "map")], "metadata": {}}, path)
    told = list(not_on_the_map(book))
    assert told == [f"{start.called} has no link to {others[0].file} on its map"]


GLOSSARY = """# Start

## Glossary

- **word**: one of a chapter. [01](01_values.ipynb)
- **nonsense, words**: not said there. [01](01_values.ipynb)
- **Zebra**: nowhere.
"""


def test_the_glossary_is_true(book: Book, monkeypatch: pytest.MonkeyPatch):
    start, one = replace(book.chapters[0], kind="start"), book.chapters[1]
    one = replace(one, file="01_values.ipynb", kind="tour", after="3")
    told = "Many Words.\n\n| [it](01_values.ipynb) | 2 |"
    dump({"cells": [markdown_cell(told, "a")], "metadata": {}}, book.notebook(one))
    start = replace(start, file="00_start.ipynb")
    cells = [markdown_cell(GLOSSARY, "b"), markdown_cell(told, "c")]
    dump({"cells": cells, "metadata": {}}, book.notebook(start))
    monkeypatch.setattr(Book, "written", lambda self: iter([start, one]))
    assert list(wrong_glossary(book)) == [
        f"{start.called}: its glossary is out of order",
        f"{start.called}: 01_values.ipynb has not the word nonsense",
        f"{start.called}: Zebra has no chapter in the glossary",
    ]
    assert list(not_on_the_map(book)) == [
        "01_values.ipynb is for readers of chapter 3, says book.toml"
    ]


# ---- `renumber`: how texts that name a chapter are found, and a small book numbered


NEW = {1000: 1, 1: 2, 2: 3, 5: 6, 9: 10}
STEMS = {"1000_first": "01_first", "01_values": "02_values", "05_jit": "06_jit"}


@pytest.mark.parametrize("text, wanted", [
    ("Chapter 5, chapters 1 and 2", "Chapter 6, chapters 2 and 3"),
    ("chapters 1 to 5; chapters 2 to 5", "chapters 1 to 6; chapters 3 to 6"),
    ("%chapter 5 --mine; # chapter 9, brought along",
     "%chapter 6 --mine; # chapter 10, brought along"),
    ("comes with this chapter, 5, once", "comes with this chapter, 6, once"),
    ("%chapter 0, chapter 12, chapter 5s", "%chapter 0, chapter 12, chapter 5s"),
    ("mark.chapter(5) style.matrix(9)", "mark.chapter(6) style.matrix(10)"),
    ("`python -m minijit.book run 5`, `draft 5`, `grade 5 --prove`",
     "`python -m minijit.book run 6`, `draft 6`, `grade 6 --prove`"),
    ("[05 jit](05_jit.ipynb) [01](../1000_first.ipynb)",
     "[06 jit](06_jit.ipynb) [01](../01_first.ipynb)"),
    ("| Why? | [A walk](tours/walk.ipynb) | 5 |",
     "| Why? | [A walk](tours/walk.ipynb) | 6 |"),
    ("x = 5; part 5; 5 chapters", "x = 5; part 5; 5 chapters"),
])  # fmt: skip
def test_a_text_names_the_new_numbers(text: str, wanted: str):
    assert changed(text, NEW, STEMS) == wanted


BOOK = """
[book]
package = "toy"

[[chapter]]
id = 1000
title = "First"
file = "1000_first.ipynb"

[[chapter]]
id = 1
title = "Values"
file = "01_values.ipynb"

[[tour]]
title = "A walk"
file = "tours/walk.ipynb"
after = 1
"""


def test_the_chapters_get_the_numbers_of_their_places(tmp_path: Path):
    chapters = tmp_path / "chapters"
    for name, id in ("1000_first", 1000), ("01_values", 1):
        cell = code_cell(f"%chapter {id}", "a")
        cell["outputs"] = [{"output_type": "stream", "text": ["Chapter 1: no\n", "x"]}]
        dump(new_notebook([cell]), chapters / f"{name}.ipynb")
    files = {
        "book.toml": BOOK,
        "chapters/solutions/01_values.py": '"""Solutions to chapter 1."""\n',
        "README.md": "| chapters | |\n|---|---|\n| 01 | values |\n",
        "tests/test_x.py": "pytestmark = pytest.mark.chapter(1)\n",
        "tests/test_book_x.py": 'BOOK.chapter("1"), book.chapter("1")  # chapter 1\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for line in ["init", "-q"], ["add", "."]:
        subprocess.run(["git", *line], cwd=tmp_path, check=True)
    assert renumber(read_book(tmp_path))[0] == "renumbered: 1000 -> 1, 1 -> 2"
    book = read_book(tmp_path)
    assert [c.file for c in book.chapters] == ["01_first.ipynb", "02_values.ipynb"]
    assert [c.after for c in book.others] == ["2"]
    for chapter in book.chapters:
        [cell] = load(book.notebook(chapter))["cells"]
        assert source(cell) == f"%chapter {chapter.id}"
        assert cell["outputs"][0]["text"] == ["Chapter 2: no\n", "x"]
    assert "chapter 2." in book.solutions(book.chapter("2")).read_text()
    assert "| 02 | values |" in (tmp_path / "README.md").read_text()
    assert "chapter(2)" in (tmp_path / "tests" / "test_x.py").read_text()
    others = (tmp_path / "tests" / "test_book_x.py").read_text()
    assert others == 'BOOK.chapter("2"), book.chapter("1")  # chapter 1\n'
    assert renumber(book) == ["every chapter has the number of its place"]
