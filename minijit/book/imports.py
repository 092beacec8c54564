"""The import law: imports go to earlier rooms and chapters, and from rooms never to the
package's public modules; inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .project import Book, Part
from .text import for_type_checkers


def check_imports(book: Book, part: Part) -> Iterator[str]:
    """Complaints about the imports of one part of a file."""
    room = room_of(book, part.file)
    for s in book.statements(part.file):
        if not part.first <= s.first <= part.last or "import" not in s.text:
            continue
        for node, target, name in imported(book, part.file, s.node):
            where = f"chapter {part.chapter.id}, {part.file}:{node.lineno}, {s.key}"
            if target.startswith(book.machinery):
                yield f"{where}: the library must not import the book machinery"
            elif room and not room_of(book, target):
                yield f"{where}: a room must not import the public module {target}"
            elif room and later_room(book, room, room_of(book, target)):
                yield f"{where} imports {target}: imports go {' <- '.join(book.rooms)}"
            elif later := comes_later(book, part, target, name):
                what, who = name or target, f"chapter {later.chapter.id}"
                if later.chapter == part.chapter:
                    who = "this chapter only later"
                verb = "builds" if later.built else "brings"
                yield f"{where} imports {what}, which {who} {verb}"


def room_of(book: Book, file: str) -> str:
    """The room a file is in; "" for the public modules, folders of them included."""
    folder = file.split("/")[1]
    return folder if folder in book.rooms else ""


def later_room(book: Book, room: str, other: str) -> bool:
    """Is `other` a room after `room`?"""
    return book.rooms.index(other) > book.rooms.index(room)


def imported(
    book: Book, file: str, tree: ast.AST
) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, str]]:
    """(node, library file, name in it or "") of each import of the package."""
    here = book.module(file).split(".")
    base = here if file.endswith("/__init__.py") else here[:-1]
    for node in executed(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if target := library_file(book, alias.name):
                    yield node, target, ""
        elif isinstance(node, ast.ImportFrom):
            start = base[: len(base) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                if target := library_file(book, f"{module}.{alias.name}"):
                    yield node, target, ""
                elif target := library_file(book, module):
                    yield node, target, alias.name


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree, but for those that are there for type checkers alone."""
    yield tree
    inner = tree.orelse if for_type_checkers(tree) else ast.iter_child_nodes(tree)
    for node in inner:
        yield from executed(node)


def library_file(book: Book, module: str) -> str | None:
    """The file of a module, if it is the package's."""
    inside = module == book.package or module.startswith(f"{book.package}.")
    return book.file(module) if inside else None


def comes_later(book: Book, part: Part, target: str, name: str) -> Part | None:
    """The part that has the imported thing, if it comes later."""
    owner = book.part_of(target, name)
    return owner if owner and owner.moment > part.moment else None
