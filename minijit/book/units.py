"""A build cell as units: the statements it runs, each paired with the book's."""

from __future__ import annotations
import __future__ as future

import ast
import copy
import difflib
import linecache
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import CodeType

from .course import HOLE
from .project import Book, BookError
from .text import Statement, TextError, match, members, names, statements

CONSTRUCTORS = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__call__"}
LEFT_OUT = "is left out; the book has it."
HOOK = (
    "__continued_class__"  # the metaclass of a continued class, while its members run
)


@dataclass(frozen=True)
class Unit:
    """One statement to run in a module, or one member to add to the class `owner`.

    `book` is the library's statement that it stands for; `same` says that the text is
    the library's (a class that later cells go on with may be its beginning).  `aside`
    says that its code is not to lead to the library's file, where more is to be seen.
    """

    file: str
    key: str
    mine: Statement
    book: Statement | None
    owner: str = ""
    aside: bool = False

    @property
    def node(self) -> ast.stmt:
        return self.mine.node

    @property
    def text(self) -> str:
        return self.mine.text

    @property
    def names(self) -> frozenset[str]:
        """What it binds: in the module, or in its class."""
        return names(self.mine.node)

    @property
    def same(self) -> bool:
        if self.book is None:
            return False
        begins = isinstance(self.node, ast.ClassDef) and self.book.text.startswith(
            self.text + "\n"
        )
        return begins or self.book.text == self.text


class CellSyntaxError(BookError):
    """Text in a build cell that Python cannot read.

    Not a SyntaxError: IPython shows those with all of the machinery's frames.
    """

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


def read_cell(
    book: Book, file: str, owner: str, cell: str, here: Collection[str] = ()
) -> list[Unit]:
    """The units of a cell, or CellSyntaxError; nothing has run yet.

    `here` has the keys of what the cell built before.
    """
    text = f"class {owner}:\n{cell}" if owner else cell
    try:
        mine: Sequence[Statement] = statements(text.rstrip(), strict=False)
        if owner:
            mine = continued(mine, owner)
    except TextError as e:
        raise BookError(
            f"{file}, line {e.line + 1 - bool(owner)} of the cell: {e}"
        ) from None
    except SyntaxError as e:
        raise CellSyntaxError(describe(e, file, bool(owner))) from None
    theirs: Sequence[Statement] = book.statements(file)
    if owner:
        whole = [
            s for s in theirs if s.base == owner and isinstance(s.node, ast.ClassDef)
        ]
        theirs = members(whole[0])[1:] if whole else ()
    return [
        Unit(file, b.key if b else f"{s.key} (new)", s, b, owner)
        for s, b in match(mine, theirs, here)
    ]


def describe(e: SyntaxError, file: str, added: bool) -> str:
    """A syntax error as Python prints it; the `%%build` line is line 1."""
    line = (e.lineno or 1) + 1 - added
    end = e.end_lineno + 1 - added if e.end_lineno else None
    details = (f"{file}, as in this cell", line, e.offset, e.text, end, e.end_offset)
    shown = traceback.format_exception_only(SyntaxError, SyntaxError(e.msg, details))
    return "".join(shown).strip()


def continued(mine: Sequence[Statement], owner: str) -> Sequence[Statement]:
    """The members in a cell that goes on with a class."""
    if len(mine) != 1:
        raise BookError(
            f"a cell that goes on with class {owner} holds only its members"
        )
    whole, *found = members(mine[0])
    if not found:
        raise TextError(f"no member of class {owner}", 1)
    return found


# -- code


def code_of(book: Book, unit: Unit, node: ast.stmt | None = None) -> CodeType:
    """Compile a unit (or `node`, a part of it).

    The book's own text gets the real file and lines, edited text a `linecache` entry of
    its own, so that tracebacks and `inspect.getsource` are right for both.
    """
    path = str(book.root / unit.file)
    shift = 1 - unit.mine.first
    if not unit.same or unit.book is None:
        where = file_of_its_own(path, unit, "edited")
    elif unit.aside:
        where = file_of_its_own(path, unit, "as in the book")
    else:
        where, shift = path, unit.book.first - unit.mine.first
    tree = copy.deepcopy(node or unit.node)
    if unit.owner:
        tree = in_class(unit, tree)
    module = ast.Module([tree], [])
    ast.increment_lineno(module, shift)
    return compile(module, where, "exec", future_flags(book, unit.file), True)


def file_of_its_own(path: str, unit: Unit, word: str) -> str:
    """Register a unit's text with `linecache`; the file name it goes by."""
    key = unit.key.removesuffix(" (new)")
    name = f"{path} ({word}: {key})"
    n = 1
    lines = [line + "\n" for line in unit.text.split("\n")]
    while name in linecache.cache and linecache.cache[name][2] != lines:
        n += 1
        name = f"{path} ({word}: {key}, {n})"
    linecache.cache[name] = (len(unit.text), None, lines, name)
    return name


def in_class(unit: Unit, member: ast.stmt) -> ast.stmt:
    """`class Owner(metaclass=...): member`, so that `super()` and `__class__` work."""
    cls = ast.parse(f"class {unit.owner}(metaclass={HOOK}): pass").body[0]
    assert isinstance(cls, ast.ClassDef)
    cls.body = [member]
    return ast.copy_location(cls, member)


def future_flags(book: Book, file: str) -> int:
    """The flags of a file's `from __future__` imports: each unit compiles with them."""
    flags = 0
    if "__future__" not in book.source(file):  # Of most files, and parsing takes long.
        return flags
    for s in book.statements(file):
        if isinstance(s.node, ast.ImportFrom) and s.node.module == "__future__":
            for alias in s.node.names:
                flags |= getattr(future, alias.name).compiler_flag
    return flags


# -- what an edit means


def changes_calls(old: ast.stmt, new: ast.stmt) -> bool:
    """Can the edit change what calling the thing gives?

    For a class, only its construction counts: an edited method reaches every instance
    by itself.  Comments never count.
    """
    if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
        return construction(old) != construction(new)
    return ast.dump(old) != ast.dump(new)


def construction(cls: ast.ClassDef) -> list[str]:
    """The parts of a class that decide how instances are made."""
    parts = [ast.dump(n) for n in [*cls.decorator_list, *cls.bases]]
    for n in cls.body:
        method = isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
        if not method or getattr(n, "name", "") in CONSTRUCTORS:
            parts.append(ast.dump(n))
    return parts


def difference(unit: Unit, hidden: Collection[str] = ()) -> list[str]:
    """How an edited unit differs from the book: a line of words, then the lines.

    Of the functions `hidden`, which are the reader's to write, no lines are told.
    """
    if unit.book is None:
        return [f"{unit.key.removesuffix(' (new)')} is not in the book."]
    if isinstance(unit.node, ast.ClassDef):
        return class_difference(unit, hidden)
    return piece_difference(unit.key, unit.book.text, unit.text, hidden)


def class_difference(unit: Unit, hidden: Collection[str] = ()) -> list[str]:
    """The same for a class: the cell may hold only its beginning, so piece by piece."""
    assert unit.book is not None
    theirs = members(unit.book)
    mine = members(unit.mine)
    told: list[str] = []
    last = 0
    for s, b in match(mine, theirs):
        if b is None:
            told.append(f"{s.key} is not in the book.")
        else:
            last = max(last, theirs.index(b))
            told += piece_difference(s.key, b.text, s.text, hidden)
    had = {s.key for s in mine}
    gone = [b.key for b in theirs[:last] if b.key not in had]
    return told + [f"{key} {LEFT_OUT}" for key in gone]


def piece_difference(
    name: str, old: str, new: str, hidden: Collection[str]
) -> list[str]:
    """The same for one piece: a statement, or a member of a class."""
    if old == new:
        return []
    if HOLE in new:
        return [f"{name} is yours to write."]
    if name in hidden:
        short = name.rpartition(".")[2]
        return [f"{name} is yours; `%check {short}` says whether it is right."]
    return diff_lines(name, old, new)


def diff_lines(name: str, old: str, new: str, most: int = 20) -> list[str]:
    """The lines that differ, `-` the book's and `+` the cell's."""
    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), n=0, lineterm="")
    found = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    more = [f"... and {len(found) - most} more lines"] if len(found) > most else []
    return [
        f"{name} differs from the book (- book, + this cell):",
        *found[:most],
        *more,
    ]
