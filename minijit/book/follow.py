"""What depends on an edit: statements that ran with the old thing run again.

A statement depends on an edited function or class if it called it, handed it to
something it called, or was decorated with it.  It depends on an object that was
replaced, because it could not be changed in place, if it read that at all.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import tables
from .imports import imported
from .patch import MISSING
from .records import Edit
from .text import calls, loads, mentions
from .units import Unit, code_of

if TYPE_CHECKING:
    from .build import Workshop

SIMPLE = (int, float, complex, str, bytes, bool, type(None))


def follow(shop: Workshop, edit: Edit) -> None:
    """Run again what called an edited thing when it ran, or read a replaced one."""
    found = True
    while found and (edit.dirty or edit.replaced):
        import_anew(shop, edit)
        found = False
        for unit in list(live_units(shop)):
            if (unit.file, unit.key) not in edit.ran and depends(shop, unit, edit):
                run_anew(shop, unit, edit)
                found = True


def run_anew(shop: Workshop, unit: Unit, edit: Edit) -> None:
    """Run a unit again as it is; it stays its own cell's, or the stage's."""
    record = shop.record(unit)
    assert record is not None
    module = sys.modules[shop.book.module(unit.file)]
    shop.run(module, unit, code_of(shop.book, unit), edit)
    now = shop.records[unit.file, unit.key]
    now.cell, now.before, now.staged = record.cell, record.before, record.staged
    edit.again += unit.key.split(", ")


def live_units(shop: Workshop) -> Iterator[Unit]:
    """Every unit that has run, in the order of the book."""
    for file in shop.book.files_in_order():
        if shop.book.module(file) not in sys.modules:
            continue
        staged = shop.stage.prefix(file)
        for s in shop.book.statements(file):
            if s.last <= staged and (file, s.key) not in shop.records:
                yield Unit(file, s.key, s, s)
        for record in shop.records.values():
            if record.unit.file == file and not record.gone:
                yield record.unit


def depends(shop: Workshop, unit: Unit, edit: Edit) -> bool:
    """Did the unit call what acts otherwise now, or read what was replaced?"""
    if isinstance(unit.node, (ast.Import, ast.ImportFrom)):
        return False
    read = loads(unit.node)
    if getattr(unit.node, "decorator_list", []):
        read |= mentions(unit.node)  # numba bakes in what a body calls
    if any((unit.file, name) in edit.replaced for name in read):
        return True
    space = vars(sys.modules[shop.book.module(unit.file)])
    called = [resolve(space, name) for name in calls(unit.node)]
    return any(id(f) in edit.dirty and edit.dirty[id(f)] is f for f in called)


def resolve(space: dict[str, Any], dotted: str) -> Any:
    """The object a dotted name means in a module; MISSING if it means none."""
    head, *rest = dotted.split(".")
    found = space.get(head, MISSING)
    for name in rest:
        found = inspect.getattr_static(found, name, MISSING)
    return found


def import_anew(shop: Workshop, edit: Edit) -> None:
    """Names that other modules imported mean the new objects."""
    book = shop.book
    for module in shop.modules():
        file = book.file(module.__name__)
        for s in book.statements(file) if file and edit.replaced else ():
            for node, target, name in imported(book, file or "", s.node):
                if (target, name) not in edit.replaced:
                    continue
                alias = next(a.asname or a.name for a in node.names if a.name == name)
                old, new = edit.replaced[target, name]
                if vars(module).get(alias) is old:
                    vars(module)[alias] = new
                    edit.replaced[file or "", alias] = (old, new)


def rebind(edit: Edit, modules: list[ModuleType], namespace: dict[str, Any]) -> None:
    """What could not be changed in place is replaced in tables and in the notebook."""
    for (_, name), (old, new) in list(edit.replaced.items()):
        if namespace.get(name) is old:
            namespace[name] = new
        if isinstance(old, SIMPLE):
            continue
        for other in [n for n, v in namespace.items() if v is old]:
            namespace[other] = new
        for table, _ in tables.snapshot(modules).values():
            if type(table) is dict:
                for key in [k for k, v in table.items() if v is old]:
                    table[key] = new
