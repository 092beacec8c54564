"""Stages: the library as some chapter left it.

Stage k of a file is the prefix of it that chapters 1..k build or bring.  In a notebook
an import hook serves those prefixes from the real files, under their real names and
line numbers; for the tests `write_stage` copies them into a folder.  Neither reads a
notebook.
"""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from .imports import imported
from .project import Book, BookError, Chapter, Moment, Part
from .text import names
from .units import future_flags


class StageError(ImportError):
    """A module or a name that a later chapter builds."""

    def _render_traceback_(self) -> list[str]:
        return [f"StageError: {self}"]


class Stage(importlib.abc.MetaPathFinder):
    """Serves the package as the chapters before `chapter` left it, and what it brings.

    The files that `chapter` itself builds are modules once a cell has built into them
    (`opened`); what it brings after its last build cell is there from `finish` on.
    Every later module is a StageError.
    """

    def __init__(self, book: Book, chapter: Chapter):
        self.book = book
        self.chapter = chapter
        self.opened: set[str] = set()
        self.finished = False
        self.files = book.library()

    @property
    def moment(self) -> Moment:
        """What is not built by cells has come this far."""
        return self.chapter.end if self.finished else self.chapter.begin

    def prefix(self, file: str) -> int:
        """How many lines of a file an import gives, apart from this chapter's cells."""
        return self.book.prefix(file, self.moment)

    def owns(self, module: str) -> bool:
        """Is this one of the package's modules, the book machinery apart?"""
        package = self.book.package
        machinery = f"{package}.book"
        inside = module == package or module.startswith(f"{package}.")
        return inside and not f"{module}.".startswith(f"{machinery}.")

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The prefix of a module's file; StageError for what is not there yet."""
        __tracebackhide__ = True
        if self.chapter.whole:
            return None
        file = self.book.file(name) if self.owns(name) else None
        if file is None:
            return None
        if (reason := self.missing(file)) and not self.book.is_empty(file):
            raise StageError(f"{name} {reason}", name=name)
        path = self.book.root / file
        folder = [str(path.parent)] if path.name == "__init__.py" else None
        loader = StageLoader(name, file, self)
        return importlib.util.spec_from_file_location(
            name, path, loader=loader, submodule_search_locations=folder
        )

    def missing(self, file: str) -> str:
        """Why a file is not there yet, or ""."""
        parts = self.book.parts(file)
        if not parts:
            return "is built in no chapter yet"
        first = parts[0]
        here = first.chapter == self.chapter
        if first.moment <= self.moment or here and file in self.opened:
            return ""
        if file.endswith("/__init__.py"):
            return "" if self.holds_something(file) else self.later(first)
        return "" if here and first.how == "wires" else self.later(first)

    def holds_something(self, file: str) -> bool:
        """Is a module of this package there, so that the package must be, too?"""
        folder = file.removesuffix("__init__.py")
        inside = [f for f in self.files if f.startswith(folder) and f != file]
        return folder == f"{self.book.package}/" or any(
            not self.missing(f) for f in inside if self.book.parts(f)
        )

    def later(self, part: Part) -> str:
        """The words for something that comes with `part`."""
        chapter, verb = part.chapter, "built" if part.built else "brought along"
        if chapter != self.chapter:
            here = f"this is chapter {self.chapter.id}"
            return f"is {verb} in chapter {chapter.id}; {here}"
        if part.built:
            return "is built by a cell that has not run yet"
        here = f"comes with this chapter, {chapter.id}"
        return f"{here}, once all its build cells have run"

    def later_names(self, file: str) -> dict[str, Part]:
        """Names that this and later chapters add to a module, submodules among them."""
        found: dict[str, Part] = {}
        later = [p for p in self.book.parts(file) if p.moment > self.moment]
        for s in self.book.statements(file) if later else ():
            for part in later:
                if part.first <= s.first <= part.last:
                    found |= {n: part for n in names(s.node) if n not in found}
        if file.endswith("/__init__.py"):
            folder = file.removesuffix("__init__.py")
            for other in self.files:
                stem = other.removeprefix(folder).removesuffix(".py")
                parts = self.book.parts(other) if other.startswith(folder) else []
                if "/" not in stem and parts and parts[0].moment > self.moment:
                    found.setdefault(stem, parts[0])
        return found

    # -- what comes without cells

    def modules(self) -> list[types.ModuleType]:
        """The package's modules that are loaded."""
        return [m for name, m in list(sys.modules.items()) if self.owns(name)]

    def loaded(self, file: str) -> types.ModuleType | None:
        """A file's module, if it is loaded."""
        return sys.modules.get(self.book.module(file))

    def finish(self) -> None:
        """All of the chapter is there from now on.

        A part of a module that is loaded runs in it, unless cells have built it; every
        other file is imported when it is first asked for.
        """
        files = self.book.files_in_order()
        parts = [p for file in files for p in self.book.parts(file)]
        mine = [p for p in parts if p.chapter == self.chapter and self.loaded(p.file)]
        whole = [p for p in mine if p.built and p.file not in self.opened]
        rest = [p for p in mine if p.how == "brings_after" or p in whole]
        self.finished = True
        for part in rest:
            module = self.loaded(part.file)
            assert module is not None
            self.run(part.file, part.first, part.last, module)
        self.wire()

    def run(self, file: str, first: int, last: int, module: types.ModuleType) -> None:
        """Run lines of a file in its module, under their real numbers."""
        __tracebackhide__ = True
        text = "\n" * (first - 1) + "\n".join(self.book.lines(file)[first - 1 : last])
        path = str(self.book.root / file)
        # What begins with the file's first line has its `from __future__` in it.
        flags = future_flags(self.book, file) if first > 1 else 0
        exec(compile(text, path, "exec", flags, dont_inherit=True), vars(module))

    def wire(self, *only: str) -> None:
        """Bind the names of the wiring files whose definitions are there by now.

        What is no import waits until all of the chapter is built.
        """
        for file in only or self.book.wires:
            for part in self.book.parts(file):
                module = self.loaded(file)
                if part.chapter == self.chapter and module is not None:
                    self.wire_part(part, module)

    def wire_part(self, part: Part, module: types.ModuleType) -> None:
        """`wire` for this chapter's part of one file."""
        where = str(self.book.root / part.file)
        for s in self.book.statements(part.file):
            if not part.first <= s.first <= part.last:
                continue
            if self.finished:
                self.run(part.file, s.first, s.last, module)
                continue
            if not isinstance(s.node, (ast.Import, ast.ImportFrom)):
                continue
            for alias in s.node.names:
                one = copy.copy(s.node)
                one.names = [alias]
                found = imported(self.book, part.file, one)
                if all(self.has(target, name) for _, target, name in found):
                    code = compile(ast.Module([one], []), where, "exec")
                    exec(code, vars(module))

    def has(self, file: str, name: str) -> bool:
        """Is a name of a file (or the file, for "") there by now?"""
        if self.missing(file):
            return False
        module = importlib.import_module(self.book.module(file))
        return not name or name in vars(module)


class Compiled(importlib.machinery.SourceFileLoader):
    """The code of a whole file, from the `.pyc` of the library where there is one."""

    def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
        """Write none."""


class StageLoader(importlib.abc.InspectLoader):
    """Runs a prefix of a file; its source is the whole, for `inspect` and tracebacks.

    Nothing here writes a `.pyc`: a cached prefix would poison the real library.
    """

    def __init__(self, name: str, file: str, stage: Stage):
        self.name = name
        self.file = file
        self.stage = stage

    def get_source(self, fullname: str) -> str:
        return self.stage.book.source(self.file)

    def get_filename(self, fullname: str) -> str:
        return str(self.stage.book.root / self.file)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A module in which a later name is a StageError.

        Not by a `__getattr__` among its names, for the library may build one there.
        """
        later, stage = self.stage.later_names(self.file), self.stage

        class StagedModule(types.ModuleType):
            # A module's own would ask its own `__getattr__` first.
            __getattribute__ = object.__getattribute__

            def __getattr__(self, name: str) -> Any:
                __tracebackhide__ = True
                where = self.__name__
                if name in later and later[name].moment > stage.moment:
                    raise StageError(f"{where}.{name} {stage.later(later[name])}")
                if own := vars(self).get("__getattr__"):
                    try:
                        return own(name)
                    except StageError as error:  # Of a module that nobody asked for.
                        _, why = str(error).split(" ", 1)
                        raise StageError(f"{where}.{name} {why}") from None
                raise AttributeError(f"module {where!r} has no attribute {name!r}")

        return StagedModule(self.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run what the chapters before this one built, and what this one brought."""
        __tracebackhide__ = True
        last = self.stage.prefix(self.file)
        if last == len(self.stage.book.lines(self.file)):
            whole = Compiled(self.name, self.get_filename(self.name))
            code = whole.get_code(self.name)
            assert code is not None
            exec(code, vars(module))
        else:
            self.stage.run(self.file, 1, last, module)
        if self.file in self.stage.book.wires and not self.stage.finished:
            self.stage.wire(self.file)


def open_chapter(book: Book, chapter: Chapter) -> Stage:
    """From now on the package is what the chapters before this one left.

    For a tour that is the finished library, imported as usual.
    """
    machinery = f"{book.package}.book"
    before = [finder for finder in sys.meta_path if isinstance(finder, Stage)]
    sys.meta_path[:] = [f for f in sys.meta_path if f not in before]
    stage = Stage(book, chapter)
    if before or not chapter.whole:
        for name in [m for m in sys.modules if stage.owns(m)]:
            del sys.modules[name]
    if chapter.whole and str(book.root) not in sys.path:
        sys.path.insert(0, str(book.root))
    sys.meta_path.insert(0, stage)
    package = importlib.import_module(book.package)
    if machinery in sys.modules:
        vars(package)["book"] = sys.modules[machinery]
    return stage


def stale_names(stage: Stage, namespace: dict[str, Any]) -> list[str]:
    """The reader's names that still mean things of a package opened before."""
    found = []
    for name, value in namespace.items():
        home = value.__name__ if isinstance(value, types.ModuleType) else None
        home = home or getattr(value, "__module__", None) or type(value).__module__
        if not name.startswith("_") and isinstance(home, str) and stage.owns(home):
            found.append(name)
    return sorted(found)


def write_stage(book: Book, chapter: Chapter, out: Path) -> list[str]:
    """Copy the library as it is after `chapter` into `out`; the files written."""
    if (out / book.package).exists():
        raise BookError(f"{out / book.package} is there already; name an empty folder")
    files = {f: book.prefix(f, chapter.end) for f in book.library()}
    built = {f for f, n in files.items() if n}
    for file in sorted(files):
        room = file.removesuffix("__init__.py")
        if file.endswith("__init__.py") and any(f.startswith(room) for f in built):
            built.add(file)
    for file in built:
        write_staged(book, chapter, file, out)
    return sorted(built)


def write_staged(book: Book, chapter: Chapter, file: str, out: Path) -> None:
    """Write one file of the library into `out` as it is after `chapter`."""
    path = out / file
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = book.lines(file)[: book.prefix(file, chapter.end)]
    path.write_text("\n".join(lines).rstrip() + "\n" * bool(lines), encoding="utf-8")
