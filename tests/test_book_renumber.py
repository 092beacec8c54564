"""`renumber`: how texts that name a chapter are found, and a small book numbered."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from minijit.book.notebook import code_cell, dump, load, new_notebook, source
from minijit.book.project import read_book
from minijit.book.renumber import changed, renumber

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
