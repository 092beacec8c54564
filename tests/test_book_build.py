"""%%build: what a reader's edits do, on the toy book, in this process."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import book_toy
import pytest
from harness import refused

from minijit.book import magics
from minijit.book.build import Workshop
from minijit.book.notebook import BuildCell, build_cells, load
from minijit.book.patch import Journal, Patcher
from minijit.book.project import Book, BookError
from minijit.book.stage import StageError, open_chapter
from minijit.trace.api import calls


class Reader:
    """A reader with a chapter open, all of its build cells run."""

    def __init__(self, book: Book, chapter: str):
        self.book = book
        self.shop = Workshop(open_chapter(book, book.chapter(chapter)))
        self.names: dict[str, object] = {}
        self.cells = list(build_cells(load(book.notebook(book.chapter(chapter)))))
        for cell in self.cells:
            assert self.run(cell) == ""

    def run(self, cell: BuildCell, old: str = "", new: str = "") -> str:
        """Run a build cell, with a text in it replaced."""
        assert cell.body.count(old) == 1 or not old
        body = cell.body.replace(old, new) if old else cell.body
        id = str(self.cells.index(cell)) if cell in self.cells else None
        line = f"{cell.file} {cell.owner}".strip()
        return self.shop.build_cell(line, body + "\n", self.names, id)

    def cell(self, text: str) -> BuildCell:
        """The first build cell that holds a text."""
        return next(c for c in self.cells if text in c.body)

    def edit(self, old: str, new: str, within: str = "") -> str:
        """Run the cell that holds `old` with `new` in its place."""
        found = [c for c in self.cells if old in c.body and within in c.body]
        return self.run(found[0], old, new)

    def paste(self, file: str, text: str, owner: str = "") -> str:
        """Run a build cell of the reader's own."""
        return self.shop.build_cell(f"{file} {owner}".strip(), text, self.names, "mine")

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    return book_toy.make(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def close() -> Iterator[None]:
    yield
    book_toy.close()


@pytest.fixture
def one(book: Book, close: None) -> Reader:
    return Reader(book, "1")


@pytest.fixture
def two(book: Book, close: None) -> Reader:
    return Reader(book, "2")


@pytest.fixture
def three(book: Book, close: None) -> Reader:
    return Reader(book, "3")


# -- functions


def test_an_edited_function_is_live_in_names_imported_before(one: Reader):
    core, public = one.module("toy.trace.core"), one.module("toy.numpy")
    bind, sin = core.bind, public.sin
    told = one.edit("return eval_rules[p](*xs)", "return 10 + eval_rules[p](*xs)")
    assert sin(0.0) == 10.0 and bind(core.sin_p, 0.0) == 10.0
    assert core.bind is bind and public.sin is core.sin is sin
    assert told.split("\n") == ["bind differs from the book (- book, + this cell):",
                                "-    return eval_rules[p](*xs)",
                                "+    return 10 + eval_rules[p](*xs)"]
    assert one.run(one.cell("def bind")) == ""
    assert sin(0.0) == 0.0


def test_what_called_the_edited_function_is_made_anew(one: Reader):
    core, public = one.module("toy.trace.core"), one.module("toy.numpy")
    sin = public.sin
    told = one.edit("        return bind(p, x)", "        return 5 + bind(p, x)")
    assert sin(0.0) == 5.0 and core.sin is sin and core.cos(0.0) == 6.0
    assert "Made anew with it: cos, sin." in told
    one.run(one.cell("def unary"))
    assert sin(0.0) == 0.0


def test_unchanged_statements_do_not_run_again(one: Reader):
    core = one.module("toy.trace.core")
    before = [core.sin_p, core.eval_rules, core.unary, core.Array, core.bind]
    rules = dict(core.eval_rules)
    for cell in one.cells:
        assert one.run(cell) == ""
    after = [core.sin_p, core.eval_rules, core.unary, core.Array, core.bind]
    assert all(a is b for a, b in zip(before, after, strict=True))
    assert core.eval_rules == rules


def test_a_cached_function_sees_edits_of_what_it_calls(one: Reader):
    core = one.module("toy.trace.core")
    size = core.table_size
    assert size(core.sin_p) == 3
    one.edit("def scale():\n    return 1", "def scale():\n    return 7")
    assert size(core.sin_p) == 21
    one.edit("return len(p.name)", "return 100 + len(p.name)")
    assert core.table_size is size and size(core.sin_p) == 103


def test_a_closure_that_captures_other_variables_is_named(one: Reader):
    told = one.edit(
        "def unary(p):\n    def op(x):\n        return bind(p, x)\n",
        "def unary(p):\n    q = p\n    def op(x):\n        return bind(q, x) + 1\n",
    )
    assert "Not changed in place: unary.<locals>.op" in told
    core, public = one.module("toy.trace.core"), one.module("toy.numpy")
    assert core.sin(0.0) == 1.0 and public.sin is core.sin


def test_a_constant_reaches_the_modules_and_the_notebook(two: Reader):
    more = two.module("toy.trace.more")
    two.names["LIMIT"] = two.module("toy.trace.core").LIMIT
    two.paste("toy/trace/core.py", "LIMIT = 50\n")
    assert more.LIMIT == 50 and more.twice(1.0) == 100.0 and two.names["LIMIT"] == 50
    two.paste("toy/trace/core.py", "LIMIT = 1\n")
    assert more.LIMIT == 1


def test_numba_functions_that_call_an_edited_one_are_made_anew(one: Reader):
    pytest.importorskip("numba")
    text = """import numba

@numba.njit
def term(x):
    return x + 1

@numba.njit
def total(x):
    return term(x) + term(x)
"""
    one.paste("toy/trace/core.py", text)
    core = one.module("toy.trace.core")
    one.names["total"] = core.total
    assert core.total(1) == 4
    one.paste("toy/trace/core.py", text.replace("x + 1", "x + 2"))
    assert core.total(1) == 6 and one.names["total"] is core.total


# -- tables and primitives


def test_a_removed_row_goes_and_a_restored_one_comes_back(one: Reader):
    core = one.module("toy.trace.core")
    table = core.eval_rules
    one.edit("math.sin,", "lambda x: 42.0,")
    assert core.sin(1.0) == 42.0
    one.edit("sin_p: math.sin, ", "")
    assert core.sin_p not in table and len(table) == 2
    with pytest.raises(KeyError):
        core.sin(1.0)
    one.run(one.cell("eval_rules |= {sin_p"))
    assert core.sin(0.0) == 0.0 and core.eval_rules is table and len(table) == 3


def test_a_table_made_anew_keeps_the_rows_of_others(one: Reader):
    core = one.module("toy.trace.core")
    table = core.eval_rules
    one.edit("eval_rules: dict = {}", "eval_rules: dict = {None: 1}")
    assert core.eval_rules is table and len(table) == 4 and table[None] == 1
    one.run(one.cell("eval_rules: dict"))
    assert None not in table and len(table) == 3


BOTH = "eval_rules |= {sin_p: math.sin, cos_p: math.cos}\n"


def test_rows_of_an_earlier_chapter_can_be_edited(three: Reader):
    core = three.module("toy.trace.core")
    three.paste("toy/trace/core.py", BOTH.replace("math.sin", "lambda x: 9.0"))
    assert core.sin(0.0) == 9.0 and core.cos(0.0) == 1.0 and core.mul(2, 3) == 6
    three.paste("toy/trace/core.py", BOTH)
    assert core.sin(0.0) == 0.0 and core.cos(0.0) == 1.0
    three.paste("toy/trace/core.py", "eval_rules |= {}\n")
    assert core.sin_p not in core.eval_rules and core.mul(2, 3) == 6


@pytest.mark.parametrize("chapter", ["1", "3"])
def test_a_row_pasted_alone_is_set_and_restored(book: Book, close: None, chapter: str):
    reader = Reader(book, chapter)
    core = reader.module("toy.trace.core")
    told = reader.paste("toy/trace/core.py", "eval_rules |= {sin_p: lambda x: 9.0}\n")
    assert told == "eval_rules is not in the book."
    assert core.sin(0.0) == 9.0 and core.cos(0.0) == 1.0 and core.mul(2, 3) == 6
    reader.shop.build_cell("toy/trace/core.py", BOTH, {}, "another")
    assert core.sin(0.0) == 0.0
    reader.paste("toy/trace/core.py", "eval_rules |= {sin_p: lambda x: 8.0}\n")
    assert core.sin(0.0) == 8.0
    reader.paste("toy/trace/core.py", "x = 1\n")
    assert core.sin(0.0) == 0.0, "the row is gone from the reader's cell"


def test_a_primitive_keeps_its_identity(one: Reader):
    core = one.module("toy.trace.core")
    sin_p = core.sin_p
    one.edit('Primitive("sin")', 'Primitive("SIN")')
    assert core.sin_p is sin_p and repr(sin_p) == "SIN" and core.sin(0.0) == 0.0
    one.run(one.cell("sin_p ="))
    assert repr(sin_p) == "sin"


def test_an_edited_constructor_makes_primitives_anew_in_place(two: Reader):
    core, more = two.module("toy.trace.core"), two.module("toy.trace.more")
    sin_p, neg_p = core.sin_p, more.neg_p
    text = '''class Primitive:
    """One operation."""

    def __init__(self, name):
        self.name = name
        self.table = {}
'''
    two.paste("toy/trace/core.py", text)
    assert core.sin_p is sin_p and sin_p.table == {} and neg_p.table == {}
    assert repr(sin_p) == "sin" and more.neg(1.0) == -1.0


def test_a_method_edit_does_not_make_instances_anew(one: Reader):
    core = one.module("toy.trace.core")
    core.sin_p.mark = 1
    one.edit("        return self.name", "        return self.name + '!'")
    assert repr(core.sin_p) == "sin!" and core.sin_p.mark == 1


# -- classes


def test_an_edited_class_reaches_old_instances(one: Reader):
    core = one.module("toy.trace.core")
    Array, old = core.Array, core.array(3.0)
    one.edit('"array over "', '"ARRAY over "')
    assert core.Array is Array and isinstance(old, core.Array)
    assert old.describe() == "ARRAY over base"
    assert (old * old).value == 9.0 and old.size == 1, "members of later cells stay"
    with pytest.raises(AttributeError):
        old.value = 4
    with pytest.raises(AttributeError):
        old.other = 4
    one.run(one.cell("class Array"))
    assert old.describe() == "array over base" and old == core.array(3.0)


def test_a_dataclass_gets_a_field_and_loses_it(one: Reader):
    core = one.module("toy.trace.core")
    one.edit("    value: float\n", "    value: float\n    unit: str = 'm'\n")
    assert repr(core.Array(1.0)) == "Array(value=1.0, unit='m')"
    one.run(one.cell("class Array"))
    assert repr(core.Array(1.0)) == "Array(value=1.0)"
    assert not hasattr(core.Array(1.0), "unit")


def test_a_member_in_a_later_cell(one: Reader):
    core = one.module("toy.trace.core")
    old = core.array(3.0)
    told = one.edit("Array(mul(self.value", "Array(-mul(self.value")
    assert (old * old).value == -9.0 and old.__rmul__(old).value == -9.0
    assert told.split("\n")[0] == (
        "Array.__mul__ differs from the book (- book, + this cell):"
    )
    assert core.Array.__mul__.__qualname__ == "Array.__mul__"
    one.run(one.cell("def __mul__"))
    assert (old * old).value == 9.0


def test_super_works_in_a_member_of_a_later_cell(one: Reader):
    text = "    def describe(self):\n        return '+' + super().describe()\n"
    one.paste("toy/trace/core.py", text, "Array")
    assert one.module("toy.trace.core").array(1.0).describe() == "+base"


def test_a_class_that_cannot_be_patched_is_named(two: Reader):
    tree = two.module("toy.trace.pytree")
    old = tree.Pair(1, 2)
    told = two.edit('("a", "b")', '("a", "b", "c")')
    assert "Not changed in place: Pair (its slots changed)" in told
    assert not isinstance(old, tree.Pair)
    assert tree.flatten(tree.Pair(1, 2)) == [1, 2]


def test_what_a_decorator_registers_is_the_class_that_stays(two: Reader):
    tree = two.module("toy.trace.pytree")
    Pair, old = tree.Pair, tree.Pair(1, 2)
    two.edit("return [self.a, self.b]", "return [self.b, self.a]")
    assert tree.flatten(old) == [2, 1] and tree.Pair is Pair
    assert [c.__name__ for c in tree.registry] == ["list", "Pair"]
    two.edit("registry[cls] = cls.parts", "registry[cls] = lambda x: [0]")
    assert tree.flatten(old) == [0] and len(tree.registry) == 2


KINDS = '''
import abc
import enum
import typing
from dataclasses import field


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int

    def twice(self):
        return 2 * self.x


class Color(enum.Enum):
    RED = 1


class Pair(typing.NamedTuple):
    a: int
    b: int

    def total(self):
        return self.a + self.b


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        """Area."""

    @staticmethod
    def unit():
        return 1

    @classmethod
    def make(cls):
        return cls()

    @functools.cached_property
    def cached(self):
        return 1

    @property
    def double(self):
        return 2 * self.area()


class Square(Shape):
    def area(self):
        return 4
'''


def test_kinds_of_classes(one: Reader):
    core = one.module("toy.trace.core")
    one.paste("toy/trace/core.py", KINDS)
    slotted, pair, square = core.Slotted(3), core.Pair(1, 2), core.Square()
    make, classes = square.make, (core.Slotted, core.Pair, core.Shape, core.Square)
    text = KINDS.replace("2 * self.x", "4 * self.x").replace(
        "self.a + ", "10 + self.a + "
    )
    text = text.replace("        return 1\n", "        return 7\n")
    text = text.replace("return 2 * self.area()", "return 6 * self.area()")
    told = one.paste("toy/trace/core.py", text)
    assert slotted.twice() == 12 and pair.total() == 13 and square.double == 24
    assert square.unit() == 7 and square.cached == 7 and type(make()) is core.Square
    assert (core.Slotted, core.Pair, core.Shape, core.Square) == classes
    assert slotted == core.Slotted(3) and "Not changed in place" not in told
    told = one.paste("toy/trace/core.py", text.replace("RED = 1", "RED = 2"))
    assert "Not changed in place: Color (it is an enum)" in told
    told = one.paste(
        "toy/trace/core.py", text.replace("b: int\n", "b: int\n    c: int\n")
    )
    assert "Not changed in place: Pair (its fields changed)" in told
    told = one.paste("toy/trace/core.py", text.replace("(Shape):", "(Base):"))
    assert "Not changed in place: Square (its bases changed)" in told


def test_another_import_does_not_change_what_was_imported(one: Reader):
    core = one.module("toy.trace.core")
    one.paste("toy/trace/core.py", "from math import sqrt as root\n")
    assert core.root(4.0) == 2.0
    one.paste("toy/trace/core.py", "from math import floor as root\n")
    import math

    assert core.root(4.5) == 4 and math.sqrt(4.0) == 2.0


def test_another_name_for_a_thing_is_not_that_thing(one: Reader):
    core = one.module("toy.trace.core")
    one.paste("toy/trace/core.py", "size = scale\n")
    one.paste("toy/trace/core.py", "size = array\n")
    assert core.scale() == 1 and core.size is core.array
    one.paste("toy/trace/core.py", "size = lambda: 5\n")
    assert core.array(1).value == 1.0 and core.size() == 5


def test_a_function_a_closure_holds_is_not_the_closure(one: Reader):
    core = one.module("toy.trace.core")
    text = """def wrap(f):
    def g():
        return f()
    return g

w = wrap(scale)
"""
    one.paste("toy/trace/core.py", text)
    w = core.w
    one.paste("toy/trace/core.py", text.replace("wrap(scale)", "wrap(lambda: 9)"))
    assert core.w is w and w() == 9 and core.scale() == 1


# -- caches


def test_what_was_compiled_before_the_edit_sees_it(three: Reader):
    lin, core = three.module("toy.transform.lin"), three.module("toy.trace.core")
    f = lin.remember(core.sin_p)
    assert f(0.0) == (0.0, 1.0) == f(0.0)
    three.edit("lambda t: t * c", "lambda t: 5 * t * c")
    assert f(0.0) == (0.0, 5.0)
    three.paste("toy/trace/core.py", BOTH.replace("math.sin", "math.cos"))
    assert f(0.0) == (1.0, 5.0)
    three.paste("toy/trace/core.py", BOTH)
    three.run(three.cell("def sin_lin"))
    assert f(0.0) == (0.0, 1.0)


# -- failures


def test_a_cell_that_fails_half_way_leaves_nothing_half_done(one: Reader):
    core = one.module("toy.trace.core")
    space, rules, sin = dict(vars(core)), dict(core.eval_rules), core.sin
    cell = one.cell("eval_rules |= {sin_p")
    with pytest.raises(NameError) as e:
        one.run(cell, "{mul_p: lambda", "{sin_p: None, nothing: lambda")
    assert "Nothing of this cell took effect." in e.value.__notes__
    assert core.eval_rules == rules and list(rules) == list(core.eval_rules)
    with pytest.raises(ZeroDivisionError):
        one.run(
            one.cell("def bind"),
            "def mul(x, y):",
            "Array = 3\nBase.describe = None\n\n\ndef mul(x, y=1 / 0):",
        )
    with pytest.raises(ZeroDivisionError):
        one.run(
            one.cell("class Array"),
            '"array over " + super().describe()',
            '"other"\n\n\n1 / 0\n',
        )
    assert vars(core) == space and core.sin is sin and sin(0.0) == 0.0
    assert core.array(1).describe() == "array over base"
    assert one.run(cell) == ""


def test_an_edit_that_others_cannot_follow_is_taken_back(two: Reader):
    core, more = two.module("toy.trace.core"), two.module("toy.trace.more")
    text = """class Primitive:
    def __init__(self, name):
        self.name, self.first = name + "!", name[3 - len(name)]
        assert name != "neg"
"""
    before = [vars(core).copy(), vars(more).copy(), vars(core.Primitive).copy()]
    with pytest.raises(AssertionError):
        two.paste("toy/trace/core.py", text)
    assert [vars(core), vars(more), vars(core.Primitive)] == before
    assert repr(core.sin_p) == "sin" and vars(core.sin_p) == {"name": "sin"}
    assert more.neg(1.0) == -1.0
    assert two.paste("toy/trace/core.py", text.replace('"neg"', '"x"')) != ""
    assert core.sin_p.name == "sin!" and more.neg_p.first == "n"


def test_a_failed_first_cell_leaves_no_module(book: Book, close: None):
    shop = Workshop(open_chapter(book, book.chapter("2")))
    with pytest.raises(ZeroDivisionError):
        shop.build_cell("toy/trace/pytree.py", "x = 1 / 0\n", {})
    with pytest.raises(StageError):
        importlib.import_module("toy.trace.pytree")
    assert "pytree" not in vars(importlib.import_module("toy.trace"))


def test_all_of_a_cell_is_read_before_any_runs(one: Reader):
    core = one.module("toy.trace.core")
    with pytest.raises(BookError) as e:
        one.run(one.cell("def bind"), "def mul(x, y):", "def mul(x, y:")
    assert e.value._render_traceback_() == [
        'File "toy/trace/core.py, as in this cell", line 16',
        "    def mul(x, y:",
        "           ^",
        "SyntaxError: '(' was never closed",
    ]
    assert core.mul(2, 3) == 6


def test_members_that_a_cell_leaves_out_are_named(one: Reader):
    """Also the last one of a cell that begins a class, which other cells go on with."""
    head = "    def describe(self):\n"
    describe = head + '        return "array over " + super().describe()'
    told = "Array.describe is left out; the book has it."
    assert one.edit(describe, "") == told and one.run(one.cell("class Array")) == ""
    init = "    def __init__(self, name):\n        self.name = name\n\n"
    with pytest.raises(TypeError) as e:
        one.edit(init, "", within="class Primitive")
    told = "Primitive.__init__ is left out; the book has it."
    assert told in e.value.__notes__


def test_a_build_cell_without_a_file(one: Reader):
    with pytest.raises(BookError, match="this chapter builds toy/trace/core.py, toy/n"):
        one.shop.build_cell("", "x = 1\n", {})


def test_a_name_that_a_cell_sets_which_did_not_run(book: Book, close: None):
    magics.workshop = Workshop(open_chapter(book, book.chapter("1")))
    told = "`mul` is set by a cell in 'Operations', which has not run."
    assert magics.advice(NameError("no", name="mul")) == told
    told = "`a` is set by a cell in 'Demo', which has not run."
    assert magics.advice(NameError("no", name="a")) == told
    assert magics.advice(NameError("no", name="nowhere")) == ""
    assert magics.advice(ValueError("no")) == ""
    assert 'sin("no")' in magics.failing_cells()


def test_statements_left_out_of_a_cell_go_and_come_back(one: Reader):
    core = one.module("toy.trace.core")
    scale = core.scale
    told = one.edit("def scale():\n    return 1\n", "")
    assert told == "scale is left out; the book has it." and "scale" not in vars(core)
    with pytest.raises(NameError):
        core.table_size(core.sin_p)
    assert one.run(one.cell("def scale")) == "" and core.table_size(core.sin_p) == 3
    assert core.scale is scale


def test_a_pasted_statement_leaves_the_rest_of_its_cell_alone(one: Reader):
    core = one.module("toy.trace.core")
    one.paste("toy/trace/core.py", "def scale():\n    return 3\n")
    assert core.scale() == 3 and core.array(1).value == 1.0
    told = one.paste("toy/trace/core.py", "def scale():\n    return 3\n\nextra = 4\n")
    assert "extra is not in the book." in told and core.extra == 4
    one.paste("toy/trace/core.py", "def scale():\n    return 1\n")
    assert not hasattr(core, "extra")


@pytest.mark.parametrize("chapter", ["1", "3"])
def test_what_a_scratch_cell_edited_comes_back_when_it_says_something_else(
    book: Book, close: None, chapter: str
):
    reader = Reader(book, chapter)
    core = reader.module("toy.trace.core")
    scale = core.scale
    reader.paste("toy/trace/core.py", "def scale():\n    return 3\n")
    reader.paste("toy/trace/core.py", "def scale():\n    return 4\n")
    reader.paste("toy/trace/core.py", BOTH.replace("math.sin", "math.cos"))
    assert core.scale is scale and scale() == 1 and core.sin(0.0) == 1.0
    told = reader.paste("toy/numpy.py", "x = 1\n")
    assert core.sin(0.0) == 0.0 and core.cos(0.0) == 1.0 and len(core.eval_rules) >= 3
    assert told == "x is not in the book.\neval_rules #2 is as it was before this cell."
    reader.paste("toy/trace/core.py", "def scale():\n    return 4\n")
    assert scale() == 4
    assert "x" not in vars(reader.module("toy.numpy"))


# -- stages, files, sources


def test_later_modules_and_names_raise_stage_errors(book: Book, close: None):
    open_chapter(book, book.chapter("1s"))
    with pytest.raises(
        StageError, match="lin is built in chapter 3; this is chapter 1s"
    ):
        importlib.import_module("toy.transform.lin")
    with pytest.raises(ImportError, match="toy.jvp is built in chapter 3"):
        from toy import jvp  # noqa: F401
    with pytest.raises(StageError, match="pytree is built in chapter 2"):
        from toy.trace import pytree  # noqa: F401
    toy = importlib.import_module("toy")
    with pytest.raises(StageError, match="toy.numpy.neg is built by a cell"):
        _ = (
            toy.numpy.neg
            if hasattr(toy, "numpy")
            else importlib.import_module("toy.numpy").neg
        )
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = toy.nonsense
    assert importlib.import_module("toy.transform").__file__.endswith("__init__.py")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("toy.nothing")


def test_a_module_s_own_getattr_and_later_names(tmp_path: Path, close: None):
    book = book_toy.make(tmp_path)
    own = (
        "array\n\n\ndef __getattr__(name):\n    if name == 'magic':\n        return 3\n"
    )
    own += "    raise AttributeError(name)\n"
    book_toy.edit(
        book, "toy/__init__.py", "import Array, array\n", f"import Array, {own}"
    )
    open_chapter(book, book.chapter("2"))
    toy = importlib.import_module("toy")
    assert toy.magic == 3 and not hasattr(toy, "nonsense")
    with pytest.raises(StageError, match="toy.jvp is built in chapter 3"):
        _ = toy.jvp


def test_cells_of_other_chapters(one: Reader):
    with pytest.raises(StageError, match="built in chapter 3; this is chapter 1"):
        one.paste("toy/transform/lin.py", "x = 1\n")
    for file in ("toy/nothing.py", "toy\\trace\\core.py", "toy/book/x.py"):
        refused(BookError, "no file of the library", one.paste, file, "x = 1\n")


def test_sources_and_lines(one: Reader):
    core = one.module("toy.trace.core")
    path = str(one.book.root / "toy/trace/core.py")
    lines = book_toy.CORE.split("\n")
    for function in (core.bind, core.Array.describe, core.Array.__mul__, core.scale):
        text, first = inspect.getsourcelines(function)
        assert function.__code__.co_filename == path
        assert lines[first - 1] == text[0].rstrip("\n")
    assert inspect.getsource(core.Array).startswith(
        "@dataclass(frozen=True)\nclass Array"
    )
    try:
        core.sin("no")
    except TypeError as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
    assert last.filename == path and lines[last.lineno - 1].strip() == last.line


def test_sources_of_edits(one: Reader):
    core = one.module("toy.trace.core")
    one.edit("def bind(p, *xs):", "def bind(p, *xs):\n    # two\n    # lines")
    assert inspect.getsource(core.bind).split("\n")[1:3] == ["    # two", "    # lines"]
    try:
        core.sin("no")
    except TypeError as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
    assert last.line == "return eval_rules[p](*xs)" and "(edited: bind" in last.filename
    one.edit(
        'def describe(self):\n        return "array',
        'def describe(self):  # !\n        return "array',
    )
    assert "# !" in inspect.getsource(core.Array.describe)


def test_stages_leave_no_pyc(book: Book, close: None):
    Reader(book, "3")
    found = [p for p in book.root.rglob("*.pyc") if "tests" not in p.parts]
    assert found == []


def test_staging_reads_no_notebook(tmp_path: Path, close: None):
    book = book_toy.make(tmp_path)
    for c in book.chapters:
        book.notebook(c).write_text("not a notebook", encoding="utf-8")
    open_chapter(book, book.chapter("3"))
    assert importlib.import_module("toy.numpy").negative(1.0) == -1.0


def test_opening_another_chapter_lists_stale_names(
    book: Book, close: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(book.root / "chapters")
    names: dict[str, object] = {"x": 1}
    assert magics.open_book("3", names) == (
        "Chapter 3: Linearize. toy is what the chapters before it built."
    )
    toy = importlib.import_module("toy")
    names |= {
        "toy": toy,
        "a": toy.array(1.0),
        "flatten": toy.flatten,
        "_": toy.array(2.0),
    }
    told = magics.open_book("2", names)
    assert told.endswith("From before this line, and out of date: a, flatten, toy.")
    with pytest.raises(StageError):
        _ = importlib.import_module("toy").flatten


def test_the_cell_is_known_by_the_id_the_front_end_sends():
    class Shell:
        parent: dict[str, object] = {"metadata": {"cellId": "abc"}}

        def get_parent(self) -> dict[str, object]:
            return self.parent

    assert magics.cell_id(Shell()) == "abc"
    Shell.parent = {"metadata": {}}
    assert magics.cell_id(Shell()) is None and magics.cell_id(object()) is None


def test_outside_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("minijit.book.project.__file__", str(tmp_path / "project.py"))
    refused(BookError, "clone", magics.open_book, "1", {})
    magics.workshop = None
    refused(BookError, "first cell", magics.opened)


def test_an_edited_cell_reaches_functions_that_explain_their_errors():
    def half(x, axis=None):
        return x / 2

    public = calls.explaining(half, "jnp.half")

    def edited(x, axis=None):
        return x // 0

    journal = Journal()
    assert Patcher(journal, lambda module: True).patch(public, edited) is public
    with pytest.raises(ZeroDivisionError):
        public(3)
    journal.undo()
    assert public(3) == 1.5
