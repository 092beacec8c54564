"""Files that come with a chapter without being shown; tours; `%show`; the limits.

The toy book is changed for it: chapter 1 brings `words` before its cells and `more`
after them, chapter 2 brings a part of a file whose other part it builds, and
`toy/__init__.py` is no longer shown but wires the others.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import book_toy
import pytest
from harness import refused

from minijit.book import author, magics, measure, run
from minijit.book.build import Workshop
from minijit.book.check import check
from minijit.book.measure import CHAPTER_LINES, STRETCH_LINES
from minijit.book.notebook import build_cells, code_cell, dump, load, source
from minijit.book.project import Book, BookError, read_book
from minijit.book.show import statement_text
from minijit.book.stage import StageError, open_chapter, write_stage
from minijit.book.stages import diff, import_modules, stage_folder
from minijit.book.sync import sync

TOML = """\
[book]
package = "toy"
chapters = "chapters"
rooms = ["trace", "transform"]
wires = ["toy/__init__.py"]
whole_tests = ["tests/test_whole.py"]

[[chapter]]
id = 1
title = "Values"
file = "01_values.ipynb"
brings = ["toy/trace/words.py"]
builds = ["toy/trace/core.py", "toy/numpy.py"]
brings_after = ["toy/trace/more.py", "toy/numpy.py"]

[[chapter]]
id = 2
title = "Trees"
file = "02_trees.ipynb"
builds = ["toy/trace/pytree.py"]
brings_after = ["toy/trace/pytree.py"]

[[chapter]]
id = 3
title = "Linearize"
file = "03_linearize.ipynb"
builds = ["toy/transform/lin.py"]

[[tour]]
title = "A walk"
file = "tours/walk.ipynb"
after = 2
"""

WORDS = '''\
"""Words for errors."""


def no_rule(p):
    """What to say where a rule is missing."""
    return f"no rule for {p}"
'''

MORE_TREES = '''

# chapter 2, brought along
from .words import no_rule


def count(tree):
    """The number of leaves."""
    return len(flatten(tree))


registry[tuple] = list
'''

INIT = '''\
"""A toy."""

# chapter 1
from .trace.core import Array, array
from .trace import more as more

# chapter 2
from .trace.pytree import count, flatten

# chapter 3
from .transform.lin import (
    clear_caches,
    jvp,
    remember,
)


def slope(p, x):
    return jvp(p, (x,), (1.0,))[1]
'''

WALK = """\
# A walk

See [trees](../02_trees.ipynb), and their [file](../../toy/trace/pytree.py).

```python
%load_ext minijit.book
%tour walk
```

```python
import toy

toy.count([1, (2, 3)]), toy.slope(toy.trace.core.sin_p, 0.0)
```

```python
%show toy/trace/words.py no_rule
```

```python exercise
def twice(x):
    ...
```

```python
%check twice
```
"""

SOLUTION = '''\
from toy import count


def twice(x):
    return 2 * x


def check_twice(twice):
    """Add it to itself."""
    assert twice(count([1, 2])) == 4
'''

BROUGHT = """
It brings [words](../toy/trace/words.py), [more](../toy/trace/more.py)
and the rest of [numpy](../toy/numpy.py) along.
"""
CELL = "```python\n%%build toy/__init__.py :\n```\n"


def sources() -> dict[str, str]:
    """The notebooks' sources: without cells for `toy/__init__.py`, and the tour."""
    one = book_toy.CHAPTER_1.replace("The goal.\n", "The goal.\n" + BROUGHT)
    two = book_toy.CHAPTER_2.replace(
        "# Trees\n", "# Trees\n\nAnd [more of it](../toy/trace/pytree.py).\n"
    )
    three = book_toy.CHAPTER_3
    found = {"1": one, "2": two, "3": three, "walk": WALK}
    return {id: text.replace(CELL, "") for id, text in found.items()}


def make(root: Path) -> Book:
    """The changed toy, its notebooks written and not run."""
    files = dict(book_toy.FILES)
    numpy = files["toy/numpy.py"]
    files |= {
        "book.toml": TOML,
        "toy/__init__.py": INIT,
        "toy/numpy.py": numpy.replace("# chapter 1s\n", "# chapter 1, brought along\n"),
        "toy/trace/pytree.py": files["toy/trace/pytree.py"] + MORE_TREES,
        "toy/trace/words.py": WORDS,
        "chapters/solutions/tours/walk.py": SOLUTION,
    }
    more = files["tests/test_more.py"].replace('"1s"', "1")
    files["tests/test_more.py"] = more
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    book = read_book(root)
    for c in book.notebooks():
        assert author.new(book, c, sources()[c.id]) == []
    return book


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    yield make(tmp_path)
    book_toy.close()


def opened(book: Book, id: str) -> tuple[Workshop, list]:
    """A chapter that is open, and its build cells."""
    chapter = book.chapter(id)
    shop = Workshop(open_chapter(book, chapter))
    return shop, list(build_cells(load(book.notebook(chapter))))


def build(shop: Workshop, cell, old: str = "", new: str = "") -> str:
    """Run a build cell, with a text in it replaced."""
    line = f"{cell.file} {cell.owner}".strip()
    body = cell.body.replace(old, new) if old else cell.body
    return shop.build_cell(line, body + "\n", {}, cell.cell["id"])


def named(told: list[str]) -> list[str]:
    """Complaints apart from those about cells that have not run."""
    return [t for t in told if "not been run" not in t and "not run" not in t]


# -- stages


def test_what_is_brought_is_there_before_and_after_the_cells(book: Book):
    shop, cells = opened(book, "1")
    words = importlib.import_module("toy.trace.words")
    assert words.no_rule("sin") == "no rule for sin"
    for cell in cells:
        with pytest.raises(StageError, match="once all its build cells have run"):
            importlib.import_module("toy.trace.more")
        assert not shop.stage.finished
        assert build(shop, cell) == ""
    assert shop.stage.finished
    more = importlib.import_module("toy.trace.more")
    numpy = importlib.import_module("toy.numpy")
    assert more.neg(2.0) == -2.0 and numpy.negative(2.0) == -2.0


def test_a_wiring_file_has_each_name_once_its_definition_is_there(book: Book):
    shop, cells = opened(book, "1")
    toy = importlib.import_module("toy")
    with pytest.raises(StageError, match="toy.array comes with this chapter, 1"):
        _ = toy.array
    seen = []
    for cell in cells:
        build(shop, cell)
        seen.append([n for n in ("Array", "array", "more") if n in vars(toy)])
    assert [] in seen and ["Array"] in seen
    assert seen[-1] == ["Array", "array", "more"]
    assert seen.index(["Array"]) < seen.index(["Array", "array"]) < len(seen) - 1


def test_what_is_no_import_waits_for_the_end(book: Book):
    shop, cells = opened(book, "3")
    toy = importlib.import_module("toy")
    for cell in cells[:-1]:
        build(shop, cell)
    assert "jvp" in vars(toy) and "clear_caches" not in vars(toy)
    with pytest.raises(StageError, match="toy.slope comes with this chapter"):
        _ = toy.slope
    build(shop, cells[-1])
    sin_p = importlib.import_module("toy.trace.core").sin_p
    assert toy.slope(sin_p, 0.0) == 1.0
    assert toy.slope.__code__.co_firstlineno == 1 + INIT[: INIT.index("def sl")].count(
        "\n"
    )


def test_a_brought_part_runs_in_the_module_that_cells_began(book: Book):
    shop, cells = opened(book, "2")
    toy = importlib.import_module("toy")
    for cell in cells:
        assert "count" not in vars(toy)
        build(shop, cell)
    tree = importlib.import_module("toy.trace.pytree")
    assert tree.count((1, [2, 3])) == 3 and toy.count is tree.count
    # An edit of what a brought statement called when it ran is followed.
    assert tree.registry[tuple] is list
    found = [c for c in cells if "def flatten" in c.body]
    told = build(shop, found[0], "if rule is None", "if rule is None or False")
    assert "flatten differs" in told and tree.count((1, [2, 3])) == 3


def test_a_brought_statement_follows_an_edit_of_what_it_called(book: Book):
    shop, cells = opened(book, "1")
    for cell in cells:
        build(shop, cell)
    more = importlib.import_module("toy.trace.more")
    neg = more.neg
    (one,) = (c for c in cells if "def unary" in c.body)
    told = build(
        shop, one, "        return bind(p, x)", "        return 5 + bind(p, x)"
    )
    assert neg(1.0) == 4.0 and more.neg is neg
    assert "Made anew with it: cos, sin, neg." in told


def test_a_cell_whose_end_fails_leaves_nothing_behind(book: Book):
    shop, cells = opened(book, "1")
    for cell in cells[:-1]:
        build(shop, cell)
    path = book.root / "toy/trace/more.py"
    whole = path.read_text()
    path.write_text(whole + "\n\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        build(shop, cells[-1])
    assert not shop.stage.finished and "toy.trace.more" not in sys.modules
    path.write_text(whole)
    assert build(shop, cells[-1]) == "" and shop.stage.finished


def test_stages_in_folders_have_what_is_brought(book: Book, tmp_path: Path):
    out = tmp_path / "stage"
    files = write_stage(book, book.chapter("1"), out)
    assert "toy/trace/more.py" in files and "toy/trace/words.py" in files
    assert "toy/trace/pytree.py" not in files
    assert (out / "toy/numpy.py").read_text() == (
        book.root / "toy/numpy.py"
    ).read_text()
    assert "chapter 2" not in (out / "toy/__init__.py").read_text()
    for c in book.chapters:
        with stage_folder(book, c) as folder:
            assert import_modules(book, folder) == 0, c.id
    lines = list(diff(book, book.chapter("1"), book.chapter("2")))
    assert "+def count(tree):" in lines and "+def flatten(tree):" in lines


def test_outline_names_what_is_brought(book: Book):
    lines = list(author.outline(book, book.chapter("1")))
    assert "toy/trace/words.py (7 lines, brought before the first cell)" in lines
    assert any(
        line.startswith("toy/trace/more.py (") and "after the last" in line
        for line in lines
    )
    assert any(line.startswith("toy/__init__.py (") for line in lines)
    assert any(line.split() == ["3", "Primitive"] for line in lines) or any(
        line.endswith(" Primitive") for line in lines
    )


# -- check


def test_the_changed_toy_is_in_order(book: Book):
    assert named(check(book)) == []
    assert sync(book) == []


def test_headings_are_what_book_toml_says(book: Book):
    def first(id: str) -> str:
        return source(load(book.notebook(book.chapter(id)))["cells"][0])

    assert first("2").startswith(
        "# 2 Trees\n\n[01 Values](01_values.ipynb) · "
        "[03 Linearize](03_linearize.ipynb) · "
        "tour [A walk](tours/walk.ipynb)\n\nAnd [more of it]"
    )
    assert first("3") == "# 3 Linearize\n\n[02 Trees](02_trees.ipynb)"
    assert first("walk").startswith("# A walk\n\nafter [02 Trees](../02_trees.ipynb)")
    begin = '\n[start]\ntitle = "Start here"\nfile = "00_start.ipynb"\n\n[[tour]]'
    book_toy.edit(book, "book.toml", "\n[[tour]]", begin)
    book_toy.edit(book, "book.toml", '"Trees"', '"Flat lists"')
    book = read_book(book.root)
    start = book.chapter(0)
    text = (
        "# Hello\n\nYou are here.\n\n```python\n%load_ext minijit.book\n%chapter 0\n```"
    )
    assert author.new(book, start, text) == []
    assert first("0") == (
        "# 0 Start here\n\n[01 Values](01_values.ipynb)\n\nYou are here."
    )
    found = [t for t in check(book) if "must begin with" in t]
    assert [t.partition(" must")[0] for t in found] == [
        "chapter 1", "chapter 2", "chapter 3", "tour walk"
    ]  # fmt: skip
    sync(book)
    contents = "[contents](00_start.ipynb)"
    assert (
        first("3") == f"# 3 Linearize\n\n[02 Flat lists](02_trees.ipynb) · {contents}"
    )
    assert first("walk").startswith(
        "# A walk\n\n[contents](../00_start.ipynb) · after [02 Flat"
    )
    assert not [t for t in check(book) if "must begin with" in t]


def test_a_draft_has_the_parts_of_a_chapter(book: Book):
    text = author.draft(book, book.chapter("1"))
    assert text.startswith("# 1 Values\n\n[02 Trees](02_trees.ipynb)\n")
    assert "- [trace/words.py](../toy/trace/words.py): Words for errors." in text
    assert "style.matrix(1)" in text and "## Exercises" in text


@pytest.mark.parametrize("old, new, told", [
    ('brings = ["toy/trace/words.py"]\n', "",
     "toy/trace/words.py is neither built nor brought by a chapter: docstring"),
    ('id = 3\n', 'id = 3\nbrings = ["toy/trace/words.py"]\n',
     "toy/trace/words.py: chapter 3 brings a part, but no line is"),
    ('"toy/trace/more.py", "toy/numpy.py"]', '"toy/trace/more.py"]',
     "toy/numpy.py: book.toml does not list it in chapter 1"),
    ('["toy/trace/words.py"]', '["toy/trace/words.py", "toy/trace/words.py"]',
     "toy/trace/words.py: chapter 1 lists it twice"),
    ('["toy/trace/words.py"]', '["toy/trace/words.py", "toy/no.py"]',
     "chapter 1 brings toy/no.py: no such file"),
    ('["toy/transform/lin.py"]', '["toy/transform/lin.py", "toy/__init__.py"]',
     "toy/__init__.py: it wires the others, so no chapter lists it"),
    ('["toy/__init__.py"]', '["toy/__init__.py", "toy/new.py"]',
     "toy/new.py, which is to wire the others, is not there"),
    ("after = 2", "after = 7", "tour walk is for readers of chapter 7: no such"),
    ('id = 3\n', 'id = 3\nexceptions = { speed = "why" }\n',
     "chapter 3 is excused from speed: the rules are cells, stretch, lines"),
    ('id = 3\n', 'id = 3\nexceptions = { lines = " " }\n',
     "chapter 3 is excused from lines without a reason"),
])  # fmt: skip
def test_book_toml_must_say_it_once(book: Book, old: str, new: str, told: str):
    book_toy.edit(book, "book.toml", old, new)
    found = check(read_book(book.root))
    assert any(t.startswith(told) for t in found), found


def test_a_wiring_file_names_its_chapters(book: Book):
    book_toy.edit(book, "toy/__init__.py", "\n# chapter 1\n", "\n")
    told = [t for t in check(book) if "above the first line" in t]
    assert told == [
        f"toy/__init__.py: {key} stands above the first line `# chapter ...`"
        for key in ("from .trace.core", "from .trace")
    ]


def test_imports_of_what_comes_later_in_the_same_chapter(book: Book):
    inside = "    from .more import neg\n    return 1\n"
    book_toy.edit(book, "toy/trace/core.py", "    return 1\n", inside)
    early = '"""Words for errors."""\nfrom .core import bind\n'
    book_toy.edit(book, "toy/trace/words.py", '"""Words for errors."""\n', early)
    sync(book)
    told = "\n".join(check(book))
    assert "scale imports neg, which this chapter only later brings" in told
    assert "from .core imports bind, which this chapter only later builds" in told


def test_a_file_that_is_brought_is_named_in_the_prose(book: Book):
    path = book.notebook(book.chapter("1"))
    text = path.read_text()
    path.write_text(text.replace("(../toy/trace/more.py)", "(../toy/trace/core.py)"))
    assert named(check(book)) == [
        "chapter 1 brings toy/trace/more.py along, and does not link to it"
    ]
    excused = 'id = 1\nexceptions = { brought = "a draft" }\n'
    book_toy.edit(book, "book.toml", "id = 1\n", excused)
    assert named(check(read_book(book.root))) == []


def test_links_lead_somewhere(book: Book):
    path = book.notebook(book.chapter("1"))
    text = path.read_text().replace("(../toy/trace/more.py)", "(gone.ipynb#x)")
    path.write_text(text)
    (told,) = [t for t in check(book) if "is not there" in t]
    assert told.startswith("chapter 1, section") and "links to gone.ipynb" in told


def add_cell(book: Book, id: str, text: str, tags: list[str] | None = None) -> None:
    path = book.notebook(book.chapter(id))
    notebook = load(path)
    notebook["cells"].append(code_cell(text, "added", tags))
    dump(notebook, path)


def test_cells_import_nothing_that_comes_later(book: Book):
    later = "def f():\n    from toy.transform.lin import jvp\n    from toy import slope"
    add_cell(book, "2", later)
    add_cell(book, "1", "from toy import flatten", ["raises-exception"])
    add_cell(book, "3", "%run tours/walk.ipynb")
    told = [t for t in check(book) if "imports" in t or "runs no" in t]
    assert told == ["chapter 2, section 'Demo' imports jvp, which is chapter 3's",
                    "chapter 2, section 'Demo' imports slope, which is chapter 3's",
                    "chapter 3, section 'Demo': a chapter runs no other notebook"]


def test_build_lines_between_runs_and_in_a_chapter(book: Book):
    path = book.root / "toy/transform/lin.py"
    rows = [f"\n\ndef f{i}():\n" + "    x = 1\n" * 29 for i in range(16)]
    path.write_text(path.read_text() + "".join(rows))
    draft = author.draft(book, book.chapter("3"), size=30)
    assert author.new(book, book.chapter("3"), draft) == []
    count = sum(1 for line in path.read_text().split("\n") if line.strip())
    assert count > CHAPTER_LINES
    told = [t for t in named(check(book)) if "at most" in t]
    assert told == [
        f"chapter 3, section 'toy/transform/lin.py': {count} build lines without a "
        f"run; at most {STRETCH_LINES}",
        f"chapter 3 has {count} build lines; at most {CHAPTER_LINES}",
    ]
    excused = 'id = 3\nexceptions = { stretch = "long", lines = "long", cells = "?" }\n'
    book_toy.edit(book, "book.toml", "id = 3\n", excused)
    book = read_book(book.root)
    assert [t for t in check(book) if "at most" in t] == []
    assert list(measure.idle_exceptions(book)) == [
        "chapter 3 keeps to the rule `cells` by now"
    ]


def test_what_is_measured(book: Book):
    notebook = load(book.notebook(book.chapter("1")))
    m = measure.measure(notebook)
    lines = sum(
        1 for c in build_cells(notebook) for line in c.body.split("\n") if line.strip()
    )
    prose = [source(c) for c in notebook["cells"] if c["cell_type"] == "markdown"]
    words = sum(len(text.split()) for text in prose)
    assert (m.lines, m.words, m.exercises, m.pictures) == (lines, words, 1, 0)
    assert m.within == "Arrays" and 0 < m.stretch < lines
    shown = list(measure.table(book))
    assert re.match(rf"chapter 1 +{lines} +{words} +{words / lines:.1f} ", shown[1])
    assert shown[-2].split() == ["tour", "walk", "11", "0", "1", "10"]
    assert shown[-1].startswith("all chapters")


# -- tours


def test_a_tour_uses_the_finished_library(book: Book):
    pytest.importorskip("nbclient")
    tour = book.chapter("walk")
    assert tour is book.chapter("tours/walk") and tour.whole
    assert run.run(book, tour) == ""
    cells = load(book.notebook(tour))["cells"]
    shown = ["".join(str(o) for o in c.get("outputs", [])) for c in cells]
    assert "Tour: A walk. toy is the finished library." in shown[1]
    assert "(3, 1.0)" in shown[2]
    assert "# toy/trace/words.py" in shown[3] and "text/markdown" in shown[3]
    assert "not yet: `twice` is empty so far" in shown[5]
    assert check(book, tour) == []
    done = book_toy.command(book.root, "exercise", "walk")
    assert done.returncode == 0, done.stdout + done.stderr
    book_toy.edit(book, "toy/trace/words.py", "no rule for", "no rule at all for")
    assert check(book, tour) == [
        "tour walk, section 'A walk', at `%show toy/trace/words.py no_rule`: "
        "it does not show what the library has today; run it again"
    ]


def test_a_tour_builds_nothing_and_opens_as_one(book: Book):
    add_cell(book, "walk", "%%build toy/trace/core.py\nx = 1")
    path = book.notebook(book.chapter("walk"))
    path.write_text(path.read_text().replace("%tour walk", "%chapter walk"))
    told = check(book, book.chapter("walk"))
    assert "tour walk, section 'A walk': it builds toy/trace/core.py, and only " in (
        "\n".join(told)
    )
    assert any("it must say `%tour walk` once" in t for t in told)


def test_opening_a_tour_after_a_chapter_gives_the_whole_library(
    book: Book, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(book.root)
    monkeypatch.syspath_prepend(book.root)
    magics.open_book("1", {})
    with pytest.raises(StageError):
        importlib.import_module("toy.transform.lin")
    assert magics.open_book("walk", {}) == "Tour: A walk. toy is the finished library."
    assert importlib.import_module("toy").slope is not None
    shop = Workshop(open_chapter(book, book.chapter("walk")))
    text = book.statements("toy/trace/core.py")
    (scale,) = (s.text for s in text if s.key == "scale")
    core = importlib.import_module("toy.trace.core")
    shop.build_cell("toy/trace/core.py", scale.replace("1", "7"), {}, "mine")
    assert core.scale() == 7 and core.table_size(core.sin_p) == 21
    shop.build_cell("toy/trace/core.py", scale, {}, "mine")
    assert core.scale() == 1


def test_show_finds_statements(book: Book):
    def shown(line: str) -> str:
        head, text = statement_text(book, line).split("\n", 1)
        assert head == "# " + line.split()[0]
        return text

    core = "toy/trace/core.py"
    assert shown(f"{core} scale") == "def scale():\n    return 1"
    assert shown(f"{core} cos").startswith("sin, cos = unary")
    assert shown(f"{core} Array.describe").startswith("    def describe(self):")
    assert shown(f"{core} Array").startswith("@dataclass(frozen=True)\nclass Array")
    assert "mul_p" in shown(f"{core} eval_rules #3")
    refused(BookError, "has no nothing; it has docstring", shown, f"{core} nothing")
    refused(BookError, "toy/no.py is no file of the library", shown, "toy/no.py x")
