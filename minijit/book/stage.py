"""Stages: the library as some chapter left it.

Stage k of a file is the prefix of it that chapters 1..k build.  In a notebook an import
hook serves those prefixes from the real files, under their real names and line numbers;
for the tests `write_stage` copies them into a folder.  Neither reads a notebook.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from .project import Book, BookError, Chapter
from .text import names


class StageError(ImportError):
    """A module or a name that a later chapter builds."""

    def _render_traceback_(self) -> list[str]:
        return [f"StageError: {self}"]


class Stage(importlib.abc.MetaPathFinder):
    """Serves the package as the chapters before `chapter` left it.

    The files that `chapter` itself builds are modules once a cell has built into them
    (`opened`).  Every later module is a StageError.
    """

    def __init__(self, book: Book, chapter: Chapter):
        self.book = book
        self.chapter = chapter
        self.opened: set[str] = set()

    def owns(self, module: str) -> bool:
        """Is this one of the package's modules, the book machinery apart?"""
        package = self.book.package
        machinery = f"{package}.book"
        inside = module == package or module.startswith(f"{package}.")
        return inside and not f"{module}.".startswith(f"{machinery}.")

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The prefix of a module's file; StageError for what is not built yet."""
        __tracebackhide__ = True
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
        first = parts[0].chapter
        if first.index > self.chapter.index:
            return self.later(first)
        if (
            first == self.chapter
            and file not in self.opened
            and "/__init__" not in file
        ):
            return self.later(first)
        return ""

    def later(self, chapter: Chapter) -> str:
        """The words for something that `chapter` builds."""
        if chapter == self.chapter:
            here = f"is built in this chapter, {chapter.id}"
            return f"{here}, by a cell that has not run yet"
        return f"is built in chapter {chapter.id}; this is chapter {self.chapter.id}"

    def later_names(self, file: str) -> dict[str, Chapter]:
        """Names that this and later chapters add to a module, submodules among them."""
        found: dict[str, Chapter] = {}
        later = [
            p for p in self.book.parts(file) if p.chapter.index >= self.chapter.index
        ]
        for s in self.book.statements(file) if later else ():
            for part in later:
                if part.first <= s.first <= part.last:
                    found |= {n: part.chapter for n in names(s.node) if n not in found}
        if file.endswith("/__init__.py"):
            folder = file.removesuffix("__init__.py")
            for other in self.book.library():
                stem = other.removeprefix(folder).removesuffix(".py")
                parts = self.book.parts(other) if other.startswith(folder) else []
                if not parts or parts[0].chapter.index < self.chapter.index:
                    continue
                if "/" not in stem:
                    found.setdefault(stem, parts[0].chapter)
        return found


class StageLoader(importlib.abc.InspectLoader):
    """Runs a prefix of a file; its source is the whole, for `inspect` and tracebacks.

    Nothing here reads or writes a `.pyc`: a cached prefix would poison the real
    library.
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
            def __getattr__(self, name: str) -> Any:
                __tracebackhide__ = True
                where = self.__name__
                if name in later:
                    raise StageError(f"{where}.{name} {stage.later(later[name])}")
                raise AttributeError(f"module {where!r} has no attribute {name!r}")

        return StagedModule(self.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run what the chapters before this one built."""
        __tracebackhide__ = True
        book = self.stage.book
        n = book.prefix(self.file, self.stage.chapter.index)
        text = "\n".join(book.lines(self.file)[:n])
        code = compile(text, self.get_filename(self.name), "exec", dont_inherit=True)
        exec(code, module.__dict__)


def open_chapter(book: Book, chapter: Chapter) -> Stage:
    """From now on the package is what the chapters before this one left."""
    machinery = f"{book.package}.book"
    for finder in list(sys.meta_path):
        if isinstance(finder, Stage):
            sys.meta_path.remove(finder)
    stage = Stage(book, chapter)
    for name in [m for m in sys.modules if stage.owns(m)]:
        del sys.modules[name]
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
    files = {f: book.prefix(f, chapter.index + 1) for f in book.library()}
    built = {f for f, n in files.items() if n}
    for file in sorted(files):
        room = file.removesuffix("__init__.py")
        if file.endswith("__init__.py") and any(f.startswith(room) for f in built):
            built.add(file)
    for file in sorted(built):
        path = out / file
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = book.lines(file)[: files[file]]
        path.write_text(
            "\n".join(lines).rstrip() + "\n" * bool(lines), encoding="utf-8"
        )
    return sorted(built)
