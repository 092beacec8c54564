"""`%%build`: run a cell's statements in a module of the library; edits are live.

A statement whose text and inputs are unchanged is not run again.  An edited one runs,
and what it made takes the place of the old: functions and classes are changed in place,
tables lose the old rows and get the new ones, and statements elsewhere that called the
edited thing when they ran are run again.  Then every cache is cleared.  If anything
fails, all of it is taken back.
"""

from __future__ import annotations

import abc
import ast
import copy
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from . import tables
from .caches import clear_caches
from .course import HOLE, Task, tasks
from .follow import SIMPLE, follow, rebind
from .notebook import build_cells, load, quiet_statements
from .patch import MISSING, Journal, Patcher, redirect, unpatchable
from .project import Book, BookError, Part
from .reader import about, copy_of
from .records import Edit, Record
from .stage import Stage, StageError
from .text import makes, members, names, pieces
from .units import (
    CONSTRUCTORS, HOOK, LEFT_OUT, Unit, changes_calls, code_of, difference,
    future_flags, read_cell,
)

GENERATED = {  # what @dataclass puts into a class
    "__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__",
    "__ge__", "__setattr__", "__delattr__", "__match_args__", "__dataclass_fields__",
    "__dataclass_params__", "__replace__",
}  # fmt: skip
PLAIN = {  # what every class has
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__",
    "__annotations__", "__firstlineno__", "__static_attributes__",
    "__annotate_func__", "__annotations_cache__", "__classdictcell__",
}  # fmt: skip


class Workshop:
    """The modules of an open chapter, and what has been built in them."""

    def __init__(self, stage: Stage):
        self.stage = stage
        self.book = stage.book
        self.records: dict[tuple[str, str], Record] = {}
        # Of the texts of cells that are meant to fail, once somebody asks.
        self.failing: dict[str, list[bool]] | None = None
        self.heads: dict[str, str] | None = None  # of build cells, likewise
        self.tries: dict[str, int] = {}  # of `%check`, by exercise, since it was right
        self.skipped: set[str] = set()  # tasks that are the book's for now

    # -- a cell

    def build_cell(
        self,
        line: str,
        cell: str,
        namespace: dict[str, Any],
        cell_id: str | None = None,
    ) -> str:
        """Run a `%%build` cell; what to tell the reader."""
        __tracebackhide__ = True
        words = line.split()
        if not words:
            files = ", ".join(dict.fromkeys(self.stage.chapter.builds))
            raise BookError(
                f"write the file behind `%%build`: this chapter builds {files}"
            )
        if len(words) > 2 or ":" in line:
            raise BookError(
                "write `%%build FILE` or `%%build FILE CLASS`; sync fills in names"
            )
        file, owner = [*words, ""][:2]
        units = self.read(file, owner, cell, cell_id)
        codes = [code_of(self.book, u) for u in units]
        journal = Journal()
        edit = Edit(journal, Patcher(journal, self.stage.owns), cell_id)
        back = self.remember(file, journal)
        try:
            self.stage.opened.add(file)
            module = importlib.import_module(self.book.module(file))
            self.run_cell(module, units, codes, edit)
            self.bring_along(edit)
            rebind(edit, self.modules(), namespace)
        except BaseException as e:
            journal.undo()
            back()
            if isinstance(e, Exception) and not isinstance(e, (BookError, StageError)):
                for told in [t for t in edit.told if t.endswith(LEFT_OUT)]:
                    e.add_note(told)
                e.add_note("Nothing of this cell took effect.")
            raise e.with_traceback(shortened(e.__traceback__)) from e.__cause__
        if edit.clear:
            clear_caches(self.modules())
        return "\n".join(edit.told)

    def read(self, file: str, owner: str, cell: str, cell_id: str | None) -> list[Unit]:
        """The cell's units, if this chapter may build them."""
        parts = self.book.parts(file) if file in self.book.library() else []
        if not parts:
            raise BookError(f"{file} is no file of the library that a chapter has")
        here = parts[0].chapter == self.stage.chapter and parts[0].built
        if parts[0].moment > self.stage.moment and not here:
            raise StageError(f"{file} {self.stage.later(parts[0])}")
        keys = [
            key
            for (f, key), r in self.records.items()
            if f == file and (cell_id is None or r.cell == cell_id)
        ]
        units = read_cell(self.book, file, owner, cell, keys)
        for unit in units:
            if HOLE in unit.text:
                self.hide(t for t in self.tasks if t.holds(unit.file, unit.key))
        aside = any(f == file for f, _ in self.hidden)
        return [replace(unit, aside=aside) for unit in units]

    def run_cell(
        self, module: ModuleType, units: list[Unit], codes: list[CodeType], edit: Edit
    ) -> None:
        """Run what changed, then what depends on it."""
        for unit in units:
            hidden = [name for file, name in self.hidden if file == unit.file]
            told = self.left_out(unit) if unit.same else difference(unit, hidden)
            edit.told += told
        for unit, code in zip(units, codes, strict=True):
            if self.changed(unit):
                self.run(module, unit, code, edit)
        self.drop_left_out(units, edit)
        follow(self, edit)
        if edit.again:
            more = f" and {len(edit.again) - 8} more" if len(edit.again) > 8 else ""
            edit.told.append(f"Made anew with it: {', '.join(edit.again[:8])}{more}.")
        for what in dict.fromkeys(edit.patcher.failed):
            edit.told.append(
                f"Not changed in place: {what}. Old objects stay as they were."
            )

    # -- what is the reader's to write

    @cached_property
    def tasks(self) -> list[Task]:
        """The cells of this chapter that a reader may write."""
        return tasks(self.book, self.stage.chapter)

    @cached_property
    def hidden(self) -> set[tuple[str, str]]:
        """(file, function): to be written, and not right yet; how they differ from the
        book is not told.

        All of an emptied copy are, and those of any cell that was seen empty.
        """
        path = copy_of(self.book, self.stage.chapter)
        emptied = path.exists() and about(path).get("write")
        return {(t.file, f) for t in self.tasks if emptied for f in t.functions}

    def hide(self, found: Iterable[Task]) -> None:
        """Tell no more how some tasks differ from the book."""
        self.hidden.update((t.file, f) for t in found for f in t.functions)

    def reveal(self, task: Task) -> list[str]:
        """A task is right: how it differs from the book, if that was not told yet."""
        own = {(task.file, f) for f in task.functions}
        if not own & self.hidden:
            return []
        self.hidden -= own
        records = [r for (f, key), r in self.records.items() if task.holds(f, key)]
        live = [r.unit for r in records if not r.gone and not r.unit.same]
        return [line for unit in live for line in difference(unit)]

    def left_out(self, unit: Unit) -> list[str]:
        """Members that the book's cell gives a class at first, and this text does not.

        They stay in the class if it had them.
        """
        if not isinstance(unit.node, ast.ClassDef):
            return []
        mine = {m.key for m in members(unit.mine)}
        shown = self.first_members.get((unit.file, unit.key), [])
        return [f"{key} {LEFT_OUT}" for key in shown if key not in mine]

    @cached_property
    def first_members(self) -> dict[tuple[str, str], list[str]]:
        """(file, class) -> its members in the cell of the book that begins it."""
        found: dict[tuple[str, str], list[str]] = {}
        notebook = self.book.notebook(self.stage.chapter)
        for cell in build_cells(load(notebook)) if notebook.exists() else ():
            for s in quiet_statements(cell.body) if not cell.owner else ():
                if isinstance(s.node, ast.ClassDef):
                    found[cell.file, s.key] = [m.key for m in members(s)]
        return found

    def remember(self, file: str, journal: Journal) -> Callable[[], None]:
        """Remember modules, tables and records; a function that puts them back.

        Classes go into the journal: a statement may set an attribute of any of them.
        """
        known, finished = file in self.stage.opened, self.stage.finished
        spaces = [(m, dict(vars(m))) for m in self.modules()]
        for cls in {c for _, s in spaces for c in s.values() if isinstance(c, type)}:
            if self.stage.owns(cls.__module__):
                journal.everything(cls)
        kept = tables.snapshot(self.modules())
        records = {k: copy.copy(r) for k, r in self.records.items()}

        def back() -> None:
            for module, space in spaces:
                vars(module).clear()
                vars(module).update(space)
            tables.restore(kept)
            self.records = records
            self.stage.finished = finished
            for module in self.modules():
                if module not in [m for m, _ in spaces]:
                    forget(module)
            if not known:
                self.close(file)

        return back

    def close(self, file: str) -> None:
        """The first cell of a module failed: the module is not there yet."""
        self.stage.opened.discard(file)
        name = self.book.module(file)
        if self.stage.missing(file) and name in sys.modules:
            forget(sys.modules[name])

    def modules(self) -> list[ModuleType]:
        """The package's modules that are loaded."""
        return self.stage.modules()

    # -- what comes without cells

    def bring_along(self, edit: Edit) -> None:
        """Bind public names that are built by now; with the last one comes the rest."""
        if self.stage.finished:
            return
        self.stage.wire()
        if next(self.not_built(), None) is None:
            self.stage.finish()
            edit.clear = True

    def not_built(self) -> Iterator[str]:
        """What of this chapter's parts no cell has built yet."""
        chapter = self.stage.chapter
        for file in chapter.builds:
            for part in self.book.parts(file):
                if part.chapter == chapter and part.built:
                    yield from self.not_built_of(part)

    def not_built_of(self, part: Part) -> Iterator[str]:
        """The same for one part: statements, and members of classes in pieces."""
        for s in self.book.statements(part.file):
            if not part.first <= s.first <= part.last:
                continue
            record = self.records.get((part.file, s.key))
            if record is None:
                yield s.key
            elif isinstance(s.node, ast.ClassDef) and record.unit.text != s.text:
                mine = {m.key for m in pieces(record.unit.mine)}
                for m in members(s)[1:]:
                    if m.key not in mine and (part.file, m.key) not in self.records:
                        yield m.key

    # -- what was built before

    def record(self, unit: Unit) -> Record | None:
        """What an earlier run of this unit did, in a cell or in the stage."""
        if found := self.records.get((unit.file, unit.key)):
            return found
        staged = self.stage.prefix(unit.file)
        if unit.book is None or unit.book.last > staged:
            return None
        old = Unit(unit.file, unit.key, unit.book, unit.book, unit.owner)
        module = sys.modules[self.book.module(unit.file)]
        space = vars(vars(module)[unit.owner]) if unit.owner else vars(module)
        values = {n: space[n] for n in old.names if n in space}
        return Record(old, None, values, staged_rows(old, module), staged=True)

    def changed(self, unit: Unit) -> bool:
        """Does the unit have to run?"""
        record = self.record(unit)
        if record is None or record.gone or self.overridden(record):
            return True
        if record.staged:
            return not unit.same
        return record.unit.text != unit.text

    def overridden(self, record: Record) -> bool:
        """Has a statement of the reader's own, not the book's, set one of its rows?"""
        rows = {(id(r.table), id(r.key)) for r in record.rows}
        for other in self.records.values():
            if other.unit.book is None and other is not record:
                if any((id(r.table), id(r.key)) in rows for r in other.rows):
                    return True
        return False

    def drop_left_out(self, units: list[Unit], edit: Edit) -> None:
        """Take back statements that this cell had when it last ran, and has no more.

        What another cell, or the stage, had run before comes back.
        """
        here = {(u.file, u.key) for u in units}
        for place, record in list(self.records.items()):
            mine = edit.cell is not None and record.cell == edit.cell
            if not mine or record.gone or place in here:
                continue
            unit, before = record.unit, record.before
            module = sys.modules[self.book.module(unit.file)]
            edit.clear = True
            if before is not None and not before.gone:
                self.run(module, before.unit, code_of(self.book, before.unit), edit)
                now = self.records[place]
                now.cell, now.before = before.cell, before.before
                edit.told.append(f"{unit.key} is as it was before this cell.")
                continue
            self.take_out(module, record, edit)
            if unit.book is not None:
                edit.told.append(f"{unit.key} {LEFT_OUT}")

    def take_out(self, module: ModuleType, record: Record, edit: Edit) -> None:
        """Undo what a unit did: its rows and its names go."""
        unit = record.unit
        tables.take_back(record.rows, edit.journal)
        grows = isinstance(unit.node, ast.AugAssign)
        for name in () if grows else unit.names:
            if unit.owner:
                edit.journal.delete(vars(module)[unit.owner], name)
            else:
                vars(module).pop(name, None)
        record.rows, record.gone = [], True

    # -- running

    def run(self, module: ModuleType, unit: Unit, code: CodeType, edit: Edit) -> None:
        """Run one unit, and put what it made in the place of what it made before."""
        record = self.record(unit)
        if record:
            tables.take_back(record.rows, edit.journal)
            edit.clear = True
        before = tables.snapshot(self.modules())
        if unit.owner:
            values = self.run_member(module, unit, code, edit, record)
        elif record and is_class(unit, record):
            values = self.run_class(module, unit, code, edit, record)
        else:
            exec(code, vars(module))
            values = {n: vars(module)[n] for n in unit.names if n in vars(module)}
        if unit.key == "docstring" and not unit.owner:
            module.__doc__ = unit.node.value.value  # type: ignore[attr-defined]
        rows = tables.added(before)
        if unit.book is not None:
            self.disown(rows)
        if not unit.owner:
            for name, new in values.items():
                values[name] = self.settle(name, new, unit, record, edit, rows)
                vars(module)[name] = values[name]
        edit.clear |= bool(rows)
        edit.ran.add((unit.file, unit.key))
        now = Record(unit, edit.cell, values, rows, before=record)
        if record is not None and not record.staged and record.cell == edit.cell:
            now.before = record.before
        self.records[unit.file, unit.key] = now

    def disown(self, rows: list[tables.Row]) -> None:
        """Rows that the book has set again are no longer the reader's own."""
        now = {(id(r.table), id(r.key)) for r in rows}
        for other in self.records.values():
            if other.unit.book is None:
                other.rows = [
                    r for r in other.rows if (id(r.table), id(r.key)) not in now
                ]

    def settle(
        self,
        name: str,
        new: Any,
        unit: Unit,
        record: Record | None,
        edit: Edit,
        rows: list[tables.Row],
    ) -> Any:
        """What a name should mean after its statement ran: the old object, at best."""
        made = makes(unit.node)
        if record is None:
            if made and type(new) in (dict, list, set):
                rows += tables.contents_of(new)
            return new
        old = record.values.get(name, MISSING)
        if old is MISSING or old is new:
            return new
        if isinstance(old, SIMPLE) and type(old) is type(new) and old == new:
            return old
        made = made and makes(record.unit.node)
        if made and type(old) is type(new) and type(new) in (dict, list, set):
            rows += tables.move_in(old, new, edit.journal)
            return old
        kept = edit.patcher.patch(old, new) if made else new
        tables.rename(rows, new, kept)
        if kept is not old:
            edit.replaced[unit.file, name] = (old, kept)
        again = record.unit.text == unit.text
        if callable(kept) and (again or changes_calls(record.unit.node, unit.node)):
            edit.dirty[id(kept)] = kept
        return kept

    def run_class(
        self, module: ModuleType, unit: Unit, code: CodeType, edit: Edit, record: Record
    ) -> dict[str, Any]:
        """Run a class statement again: its members go into the old class.

        The decorators are applied to the old class: what they register is that one.
        """
        assert isinstance(unit.node, ast.ClassDef)
        name, space = unit.node.name, vars(module)
        old = record.values[name]
        decorators = [
            eval(expression(self.book, unit, d), space)
            for d in unit.node.decorator_list
        ]
        bare = copy.copy(unit.node)
        bare.decorator_list = []
        exec(code_of(self.book, unit, bare), space)
        keep, drop = self.members_of(unit, record)
        edit.journal.everything(old)
        if unpatchable(old, space[name]):
            if decorators:
                exec(code, space)
            kept = edit.patcher.cls(old, space[name], keep, drop)
        else:
            kept = edit.patcher.cls(old, space[name], keep, drop | GENERATED)
            later = {n: vars(old)[n] for n in keep if n in vars(old)}
            for n in later:
                delattr(old, n)
            for d in reversed(decorators):
                kept = d(kept)
            for n, value in later.items():
                setattr(old, n, value)
        space[name] = kept
        if kept is not old:
            edit.replaced[unit.file, name] = (old, kept)
        if record.unit.text == unit.text or changes_calls(record.unit.node, unit.node):
            edit.dirty[id(kept)] = kept
        record.values = {name: kept}
        return {name: kept}

    def members_of(
        self, unit: Unit, record: Record
    ) -> tuple[frozenset[str], frozenset[str]]:
        """(members that other cells built, members that only the old text had)."""
        assert isinstance(unit.node, ast.ClassDef)
        old, new = members(record.unit.mine)[1:], members(unit.mine)[1:]
        mine = {n for m in new for n in names(m.node)}
        elsewhere = {
            n
            for r in self.records.values()
            if r.unit.file == unit.file
            and r.unit.owner == unit.node.name
            and not r.gone
            for n in r.unit.names
        }
        if record.staged:  # the cell may show only the beginning of the class
            shown = [i for i, m in enumerate(old) if names(m.node) & mine]
            rest = old[max(shown, default=-1) + 1 :]
            elsewhere |= {n for m in rest for n in names(m.node)}
        gone = {n for m in old for n in names(m.node)} - mine - elsewhere
        return frozenset(elsewhere - mine), frozenset(gone)

    def run_member(
        self,
        module: ModuleType,
        unit: Unit,
        code: CodeType,
        edit: Edit,
        record: Record | None,
    ) -> dict[str, Any]:
        """Run a member of a class that an earlier cell began; give it to that class."""
        cls = vars(module).get(unit.owner)
        if not isinstance(cls, type):
            raise BookError(
                f"class {unit.owner} is begun by an earlier cell; run that first"
            )
        scope = {HOOK: continuing(cls)}
        exec(code, vars(module), scope)
        made: Any = scope[unit.owner]
        edit.journal.everything(cls)
        values = {}
        for name, value in list(vars(made).items()):
            if name in PLAIN:
                continue
            redirect(value, made, cls, edit.journal)
            if record:
                value = edit.patcher.member(vars(cls).get(name), value)
            setattr(cls, name, value)
            if hasattr(type(value), "__set_name__"):
                value.__set_name__(cls, name)
            values[name] = value
        abc.update_abstractmethods(cls)
        if record and values.keys() & CONSTRUCTORS:
            edit.dirty[id(cls)] = cls
        return values


# -- helpers


def forget(module: ModuleType) -> None:
    """Let a module be imported anew when it is next asked for."""
    parent, _, last = module.__name__.rpartition(".")
    sys.modules.pop(module.__name__, None)
    if parent in sys.modules and vars(sys.modules[parent]).get(last) is module:
        del vars(sys.modules[parent])[last]


def is_class(unit: Unit, record: Record) -> bool:
    """Is it a class statement that made a class before?"""
    node = unit.node
    return isinstance(node, ast.ClassDef) and isinstance(
        record.values.get(node.name), type
    )


def expression(book: Book, unit: Unit, node: ast.expr) -> CodeType:
    """The code of a decorator's expression."""
    flags = future_flags(book, unit.file)
    return compile(
        ast.Expression(node), str(book.root / unit.file), "eval", flags, True
    )


def staged_rows(unit: Unit, module: ModuleType) -> list[tables.Row]:
    """The rows of a table statement that the stage ran: those of its right side."""
    node = unit.node
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return []
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    table = vars(module).get(target.id) if isinstance(target, ast.Name) else None
    if type(table) is not dict or node.value is None:
        return []
    code = compile(ast.Expression(node.value), unit.file, "eval", dont_inherit=True)
    made = eval(code, vars(module))
    return [tables.Row(table, k, MISSING, table[k]) for k in made if k in table]


def continuing(cls: type) -> type:
    """A metaclass for `class Name(metaclass=...)` that goes on with `cls`.

    Names that the earlier members bound can be read.
    """

    class Scope(dict):
        def __missing__(self, key: str) -> Any:
            if key == "__annotations__":
                raise KeyError(key)
            return vars(cls)[key]

    class Continue(type):
        @classmethod
        def __prepare__(meta, name: str, bases: Any, /, **keywords: Any) -> Any:
            return Scope()

        def __new__(meta, name: str, bases: Any, scope: Any) -> Any:
            return super().__new__(meta, name, bases, dict(scope))

    return Continue


def shortened(frame: TracebackType | None) -> TracebackType | None:
    """A traceback from where the text of a cell begins; None if it never does."""
    here = str(Path(__file__).parent)
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(here):
        frame = frame.tb_next
    return frame
