"""Python source as the book sees it: statements, each with the comments above it.

A file is cut between top-level statements, and a class, where the book continues it
over several cells, between its members.  Everything else here is about telling what a
statement is called (`names`, `key`) and what it reads at the moment it runs (`loads`,
`calls`).
"""

from __future__ import annotations

import ast
import difflib
import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = (*Function, ast.ClassDef)
Scope = (
    *Function,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


class TextError(Exception):
    """Source that cannot be cut into cells; `line` is where."""

    def __init__(self, message: str, line: int):
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Statement:
    """One statement with the comments above it; lines count from 1, both included."""

    key: str  # what it defines; the second statement of a name is "rules #2"
    first: int
    last: int
    text: str
    node: ast.stmt

    @property
    def base(self) -> str:
        """The key without its number."""
        return self.key.partition(" #")[0]


def statements(text: str, strict: bool = True) -> tuple[Statement, ...]:
    """The top-level statements of `text`; nobody may change their trees.

    Raises SyntaxError as `ast.parse` does.  If `strict`, raises TextError for a comment
    with no statement below it, which no cell could show, and for two on one line.
    """
    found = parse(text)
    if strict:
        for one, two in itertools.pairwise(found):
            if two.first == one.last:
                raise TextError("two statements on one line", two.first)
        lines = text.split("\n")
        end = found[-1].last if found else 0
        for number, line in enumerate(lines[end:], end + 1):
            if line.strip():
                raise TextError("a comment with no statement below it", number)
    return found


# `check` comes back to each file of the library and to each cell.
@functools.lru_cache(maxsize=4096)
def parse(text: str) -> tuple[Statement, ...]:
    """A text's statements, parsed once."""
    return tuple(split(ast.parse(text).body, text.split("\n"), 1))


@functools.lru_cache(maxsize=4096)
def first_lines(text: str) -> Mapping[str, int]:
    """The line of the first statement that binds each name."""
    found: dict[str, int] = {}
    for s in parse(text):
        for name in names(s.node):
            found.setdefault(name, s.first)
    return found


@functools.lru_cache(maxsize=4096)
def members(cls: Statement) -> tuple[Statement, ...]:
    """A class as the pieces a cell may begin or end with: its head, then each member.

    The head, whose key is the class's own, holds decorators, the `class` line and the
    docstring.  Members have keys like `Array.__add__`.
    """
    assert isinstance(cls.node, ast.ClassDef)
    body = [n for n in cls.node.body if not is_docstring(n)]
    lines = cls.text.split("\n")
    shift = cls.first - 1  # lines of the node count from the top of the file
    if not body or body[0].lineno == cls.node.lineno:
        return (cls,)
    doc = cls.node.body[0] if body[0] is not cls.node.body[0] else None
    begin = ((doc.end_lineno or 0) if doc else head_end(cls.node)) - shift
    while lines[begin].lstrip().startswith(")"):  # a head set over several lines
        begin += 1
    parts = list(split(body, lines, begin + 1, shift))
    top = parts[0].first - 1 - shift
    while not lines[top - 1].strip():
        top -= 1
    head = Statement(cls.key, cls.first, top + shift, "\n".join(lines[:top]), cls.node)
    named = [
        Statement(f"{cls.base}.{m.key}", m.first, m.last, m.text, m.node) for m in parts
    ]
    return (head, *named)


def pieces(s: Statement) -> tuple[Statement, ...]:
    """A class as head and members, any other statement as itself."""
    return members(s) if isinstance(s.node, ast.ClassDef) else (s,)


def head_end(cls: ast.ClassDef) -> int:
    """Last line of `class Name(bases):`, as far as its nodes tell."""
    inside = [*cls.bases, *[k.value for k in cls.keywords]]
    return max([cls.lineno, *[n.end_lineno or 0 for n in inside]])


def split(
    body: Sequence[ast.stmt], lines: Sequence[str], start: int, shift: int = 0
) -> Iterator[Statement]:
    """Cut `lines[start-1:]` at the statements of `body`, numbered `shift` on."""
    seen: dict[str, int] = {}
    for node, below in itertools.zip_longest(body, body[1:]):
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *[d.lineno for d in decorators]]) - shift
        last = (node.end_lineno or node.lineno) - shift
        shared = first < start  # with the statement before it
        start = min(start, first)
        while start < first and not lines[start - 1].strip():
            start += 1
        base = key(node)
        seen[base] = seen.get(base, 0) + 1
        name = base if seen[base] == 1 else f"{base} #{seen[base]}"
        part = list(lines[start - 1 : last])  # columns count bytes
        if below is not None and below.lineno - shift == last:
            part[-1] = part[-1].encode()[: node.end_col_offset].decode()
        if shared:
            line = part[0].encode()
            indent = line[: len(line) - len(line.lstrip())]
            part[0] = (indent + line[node.col_offset :]).decode()
        yield Statement(name, start + shift, last + shift, "\n".join(part), node)
        start = last + 1


def is_docstring(node: ast.stmt) -> bool:
    """Is this statement a bare string?"""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


# -- what a statement is called, and what it reads


def for_type_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    """Is this a block that never runs?"""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def names(node: ast.stmt) -> frozenset[str]:
    """The names a statement binds in its module, when it runs."""
    found: set[str] = set()
    todo: list[ast.AST] = [node]
    while todo:
        n = todo.pop()
        if isinstance(n, Definition):
            found.add(n.name)
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).partition(".")[0] for a in n.names}
        elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            found.add(n.id)
        elif not isinstance(n, Scope):
            todo += n.orelse if for_type_checkers(n) else ast.iter_child_nodes(n)
    return frozenset(found)


def key(node: ast.stmt) -> str:
    """A short name for a statement, not yet unique."""
    if is_docstring(node):
        return "docstring"
    if isinstance(node, ast.ImportFrom):
        return f"from {'.' * node.level}{node.module or ''}"
    if isinstance(node, ast.Import):
        return "import " + ", ".join(a.name for a in node.names)
    if bound := names(node):
        return ", ".join(sorted(bound))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func)
    targets = getattr(node, "targets", [getattr(node, "target", node)])
    return ast.unparse(targets[0]).split("\n")[0][:60]


def eager(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes evaluated when the statement itself runs: no bodies of functions."""
    todo = [node]
    while todo:
        n = todo.pop()
        yield n
        if isinstance(n, Function):
            todo += [*n.decorator_list, *n.args.defaults]
            todo += [d for d in n.args.kw_defaults if d is not None]
        elif isinstance(n, ast.Lambda):
            todo += [
                *n.args.defaults,
                *[d for d in n.args.kw_defaults if d is not None],
            ]
        else:
            todo += ast.iter_child_nodes(n)


def loads(node: ast.AST) -> set[str]:
    """Names a statement reads when it runs; dotted ones in full, and their head."""
    found: set[str] = set()
    for n in eager(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            found.add(n.id)
        elif isinstance(n, ast.Attribute):
            found.add(ast.unparse(n))
    return found


def calls(node: ast.AST) -> set[str]:
    """Names a statement calls when it runs, hands to what it calls, or decorates with.

    Dotted names stand in full.
    """
    found: set[str] = set()
    for n in eager(node):
        if isinstance(n, ast.Call):
            found |= {ast.unparse(n.func), *(a.id for a in n.args if is_name(a))}
        for d in getattr(n, "decorator_list", []):
            found.add(ast.unparse(d.func if isinstance(d, ast.Call) else d))
    return found


def mentions(node: ast.AST) -> set[str]:
    """All names read in a statement, bodies of functions included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def is_name(node: ast.expr) -> TypeGuard[ast.Name]:
    """Is it a plain name?"""
    return isinstance(node, ast.Name)


def makes(node: ast.stmt) -> bool:
    """Does the statement make the objects it binds, not just name them anew?"""
    value = getattr(node, "value", None)
    if isinstance(node, Definition):
        return True
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and value is not None:
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
        return not any(isinstance(p, (ast.Name, ast.Attribute)) for p in parts)
    return False


# -- which statement of the library is meant


def likeness(a: str, b: str) -> float:
    """How alike two texts are, from 0 to 1."""
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def row_keys(node: ast.stmt) -> set[str]:
    """The keys of a table statement, `rules |= {...}`, as text; else none."""
    if not isinstance(node, ast.AugAssign):
        return set()
    for n in ast.walk(node.value):
        if isinstance(n, ast.Dict):
            return {ast.unparse(k) for k in n.keys if k is not None}
    return set()


def alike(mine: Statement, book: Statement, here: bool) -> float:
    """How likely one is an edit of the other; 0 if it is not.

    Rows count by their keys.  A statement in a cell of its own that has no more than
    half of the keys adds rows, it does not edit; `here` says that the cell built the
    book's one.
    """
    if isinstance(mine.node, ast.AugAssign) != isinstance(book.node, ast.AugAssign):
        return 0.0
    a, b = row_keys(mine.node), row_keys(book.node)
    if a or b:
        shared = len(a & b) / len(a | b)
        return shared + 0.01 if here else shared if shared > 0.5 else 0.0
    return likeness(mine.text, book.text) + 0.01


def match(
    mine: Sequence[Statement], book: Sequence[Statement], here: Collection[str] = ()
) -> list[tuple[Statement, Statement | None]]:
    """Pair each statement of a cell with the one of the book it stands for, or None.

    By text first, then the likest one of the same name: names alone repeat (a table
    grows by `rules |= ...`), and positions shift when a reader adds a statement.
    `here` has the keys of what the cell built before.  The first piece of a class that
    later cells go on with stands for the whole class.
    """
    free = list(book)
    got: dict[int, Statement] = {}
    for i, s in enumerate(mine):
        if found := next((b for b in free if b.text == s.text), None):
            got[i] = found
            free.remove(found)
    for i, s in enumerate(mine):
        scores = [(alike(s, b, b.key in here), b) for b in free if b.base == s.base]
        best = max(scores, key=lambda x: x[0], default=(0.0, s))
        if i not in got and best[0] > 0:
            got[i] = best[1]
            free.remove(best[1])
    return [(s, got.get(i)) for i, s in enumerate(mine)]
