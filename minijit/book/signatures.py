"""What functions use of the library, with signatures: read off the files, not imported.

    used_by(book, "minijit/trace/core.py", ["EvalTrace.process"], cell)
    # ["eval_rules", "find_rule(table, primitive, kind)"]
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator

from .project import Book
from .text import Function, names, statements

HOPS = 4  # through so many files a name may have been imported


def used_by(book: Book, file: str, functions: Collection[str], cell: str) -> list[str]:
    """The names of the library in the book's text of functions, by the alphabet.

    Functions, classes and methods have their signatures, tables have none.  What the
    text `cell` defines is left out, and so is what comes from other packages.

    Args:
      file: where the functions are; a method is called `Class.method`.
    """
    found = set()
    for function in functions_of(book, file, functions):
        own = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
        used = [n for s in function.body for n in ast.walk(s)]
        own |= {n.id for n in used if isinstance(n, ast.Name) and stores(n)}
        named = [n for n in used if root(n) not in own - {"self"}]
        found |= {text for n in named for text in read(book, file, functions, n)}
    shown = seen_in(cell)
    return sorted(text for text in found if text.partition("(")[0] not in shown)


def seen_in(cell: str) -> set[str]:
    """What a text defines: names, and `self.name` of methods."""
    seen = set()
    for s in statements(cell, strict=False):
        members = s.node.body if isinstance(s.node, ast.ClassDef) else ()
        own = () if isinstance(s.node, ast.ImportFrom) else names(s.node)
        seen |= {*own, *(f"self.{n}" for m in members for n in names(m))}
    return seen


def functions_of(
    book: Book, file: str, functions: Collection[str]
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions of a file by their names."""
    for s in book.statements(file):
        owner = f"{s.node.name}." if isinstance(s.node, ast.ClassDef) else ""
        for node in s.node.body if isinstance(s.node, ast.ClassDef) else [s.node]:
            if isinstance(node, Function) and f"{owner}{node.name}" in functions:
                yield node


def read(
    book: Book, file: str, functions: Collection[str], node: ast.AST
) -> Iterator[str]:
    """What an expression names of the library, as it is called: a text, or none."""
    if isinstance(node, ast.Name) and not stores(node):
        if (found := definition(book, file, node.id)) is not None:
            yield written(node.id, found)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        name, home = f"{node.value.id}.{node.attr}", node.value.id
        if home == "self":
            owners = {f.partition(".")[0] for f in functions if "." in f}
            beside = {f"{owner}.{node.attr}" for owner in owners}
            for method in functions_of(book, file, beside):
                if not method.decorator_list:  # a property is no function
                    yield written(name, method, bound=True)
        elif (other := module(book, file, home)) is not None:
            if (found := definition(book, other, node.attr)) is not None:
                yield written(name, found)


def root(node: ast.AST) -> str | None:
    """The name that an expression begins with."""
    node = node.value if isinstance(node, ast.Attribute) else node
    return node.id if isinstance(node, ast.Name) else None


def stores(name: ast.Name) -> bool:
    """Whether a name is given a value here."""
    return not isinstance(name.ctx, ast.Load)


def definition(book: Book, file: str, name: str, hops: int = HOPS) -> ast.stmt | None:
    """The statement that defines a name of a file, in whichever file of the library."""
    for s in book.statements(file) if hops else ():
        if isinstance(s.node, ast.ImportFrom):
            for alias in s.node.names:
                if (alias.asname or alias.name) == name:
                    if (home := book.file(origin(file, s.node))) is None:
                        return None  # of another package
                    return definition(book, home, alias.name, hops - 1)
        elif name in names(s.node) and not isinstance(s.node, ast.Import):
            return s.node
    return None


def module(book: Book, file: str, name: str) -> str | None:
    """The file that a name of a file stands for, if it is a module of the library."""
    for s in book.statements(file):
        if isinstance(s.node, ast.ImportFrom):
            for alias in s.node.names:
                if (alias.asname or alias.name) == name:
                    return book.file(f"{origin(file, s.node)}.{alias.name}")
    return None


def origin(file: str, node: ast.ImportFrom) -> str:
    """The module that a statement imports from, in full."""
    if not node.level:
        return node.module or ""
    parts = file.removesuffix(".py").split("/")[: -node.level]
    return ".".join([*parts, *filter(None, [node.module])])


def written(name: str, node: ast.stmt, bound: bool = False) -> str:
    """A name as it is called: with its arguments, if it has any."""
    if isinstance(node, ast.ClassDef):
        for made in (n for n in node.body if isinstance(n, Function)):
            if made.name == "__init__":
                return written(name, made, bound=True)
        fields = ", ".join(map(field_text, fields_of(node)))
        return f"{name}({fields})" if fields else name
    if not isinstance(node, Function):
        return name
    arguments = copy.deepcopy(node.args)
    if bound:
        del arguments.args[0]
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return f"{name}({ast.unparse(arguments)})"


def fields_of(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """The fields of a dataclass or of a named tuple: what it is made of."""
    heads = " ".join(map(ast.unparse, (*node.decorator_list, *node.bases)))
    is_record = "dataclass" in heads or "NamedTuple" in heads
    return [n for n in node.body if is_record and isinstance(n, ast.AnnAssign)]


def field_text(field: ast.AnnAssign) -> str:
    """A field as an argument, with its default."""
    value = field.value
    if isinstance(value, ast.Call):  # dataclasses.field
        value = next((k.value for k in value.keywords if k.arg == "default"), None)
    return ast.unparse(field.target) + (f"={ast.unparse(value)}" if value else "")
