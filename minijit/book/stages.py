"""Stages in folders outside the checkout: their imports, their tests, their exercises.

A stage's process gets `python -P`, a working directory outside the checkout, the stage
alone on the path, and proves that the package it imported is the stage's.
"""

from __future__ import annotations

import ast
import difflib
import fnmatch
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from . import confine
from .project import Book, BookError, Chapter
from .stage import write_stage

# Of the environment, for a confined process: it may hold secrets.
KEPT = ("PATH", "LANG", "PYTHONPATH", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
# An editable install has a finder that would supply what the stage has not built yet.
ALONE = """
import sys
hidden = [f for f in sys.meta_path if "Editable" in getattr(f, "__name__", "")]
sys.meta_path[:] = [f for f in sys.meta_path if f not in hidden]
"""
PROVE = """
import sys, {package}
home = {package}.__file__
assert home and home.startswith({folder!r}), f"not the stage: {{home}}"
"""
PYTEST = """
import pytest, zlib
class Sample:
    def pytest_collection_modifyitems(self, items):
        marks = [item.get_closest_marker("chapter") for item in items]
        pairs = zip(marks, list(items), strict=True)
        items[:] = [i for m, i in pairs if not m or str(m.args[0]) in {chapters!r}]
        if {every}:
            first = {{(i.path, i.cls, getattr(i, "originalname", i.name)): i
                      for i in reversed(items)}}
            # Tests that draw their cases compile many programs: not in a sample.
            rest = [i for i in reversed(first.values())
                    if {every} == 1 or not hasattr(i.obj, "hypothesis")]
            # By its name, so that a new test puts no other one into the sample.
            number = lambda i: zlib.crc32(getattr(i, "originalname", i.name).encode())
            items[:] = [i for i in rest if number(i) % {every} == 0]
sys.exit(pytest.main({args!r}, plugins=[Sample()]))
"""
IMPORT_EACH = """
import importlib, os, sys, traceback
for name in {others!r}:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
def imported(name):
    try:
        home = importlib.import_module(name).__file__
        assert home.startswith({folder!r}), f"not the stage: {{home}}"
        return True
    except BaseException as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        print(f"import {{name}}, first in its process:", file=sys.stderr)
        print(f"  {{last.filename}}:{{last.lineno}}: {{e!r}}", file=sys.stderr)
        sys.stderr.flush()
        return False
# Whichever module is imported first, the package comes before it: so it is imported
# once for all, and what it imports has been first in its process.
if not imported({package!r}):
    sys.exit(1)
bad = 0
for name in {modules!r}:
    if name in sys.modules:
        continue
    pid = os.fork()
    if pid == 0:
        os._exit(not imported(name))
    bad += os.waitpid(pid, 0)[1] != 0
sys.exit(bad != 0)
"""
IMPORT_ONE = """
import importlib
home = importlib.import_module({module!r}).__file__
assert home.startswith({folder!r}), f"not the stage: {{home}}"
"""
JUDGE = """
import importlib.util, pathlib, sys
home = {machinery!r}
spec = importlib.util.spec_from_file_location(
    "minijit_book", home + "/__init__.py", submodule_search_locations=[home]
)
sys.modules["minijit_book"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
# For solutions that import what their notebooks do: on a stage there is no book.
sys.modules["minijit.book"] = module
from minijit_book.judge import judge
from minijit_book.project import read_book
book = read_book(pathlib.Path({root!r}))
bad = judge(book, book.chapter({id!r}))
print(*bad, sep="\\n", end="\\n" * bool(bad))
sys.exit(bool(bad))
"""


@contextmanager
def stage_folder(book: Book, chapter: Chapter) -> Iterator[Path]:
    """A temporary folder with the library as it is after a chapter."""
    with tempfile.TemporaryDirectory(prefix=f"stage_{chapter.id}_") as name:
        folder = Path(name).resolve()
        write_stage(book, chapter, folder)
        yield folder


def python(
    folder: Path,
    code: str,
    log: IO[str] | None = None,
    seconds: float | None = None,
    said: str = "",
    megabytes: int = 0,
) -> int:
    """The exit code of a fresh process that runs code and sees only the stage.

    What it prints goes into the file `log`, if there is one; after some times `seconds`
    subprocess.TimeoutExpired is raised.  It can read `said`.  With `megabytes` it is
    confined to the folder and to so much memory (see `confine`).
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    # Bytecode goes into the stage's folder, for the next of the many processes there.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPATH"] = str(folder)
    # As in the tests of the whole: read when the library is imported, before conftest.
    env.setdefault("MINIJIT_TRACEBACK_FILTERING", "off")
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # nbval and its like are slow to load
    command = [sys.executable, "-P", "-c", ALONE + code]
    limit = seconds and seconds * confine.PATIENCE
    confined = bool(megabytes and seconds)
    if megabytes and seconds:
        command = confine.command(folder, seconds, megabytes, command)
        env = {k: v for k, v in env.items() if k in KEPT or k.startswith("MINIJIT_")}
        env |= {"HOME": str(folder), "TMPDIR": str(folder), "OPENBLAS_NUM_THREADS": "1"}
        limit = None  # it ends its command itself, and all that this has started
    begun = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=log, stderr=log,
        text=True,
    )  # fmt: skip
    with begun:
        try:
            begun.communicate(said, timeout=limit)
        except BaseException:
            # What confines a command first ends all that this has started.
            begun.terminate() if confined else begun.kill()
            raise
    if confined and begun.returncode == confine.LATE:
        raise subprocess.TimeoutExpired(command, seconds or 0)
    return begun.returncode


# -- tests


def chapter_of_test(book: Book, path: Path) -> Chapter | None:
    """The chapter a test file's `pytestmark` names.

    Read, not imported: the imports of a later chapter's tests would fail first.
    """
    id = marked(path.read_text(encoding="utf-8"))
    return None if id is None else book.chapter(id)


@functools.cache
def marked(text: str) -> str | None:
    """The chapter in a test file's `pytestmark`; each stage asks it of all of them."""
    if "pytestmark" not in text:
        return None
    for node in ast.parse(text).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if not any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in targets):
            continue
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            name = ast.unparse(call.func)
            if name.endswith("mark.chapter") and isinstance(call.args[0], ast.Constant):
                return str(call.args[0].value)
    return None


def staged_tests(book: Book, chapter: Chapter, only: bool = False) -> list[Path]:
    """The test files that stage `chapter` can run; those of that chapter, if `only`."""
    found = []
    for path in sorted((book.base / "tests").glob("test_*.py")):
        own = None if needs_all(book, path) else chapter_of_test(book, path)
        if own and (own == chapter if only else own.index <= chapter.index):
            found.append(path)
    return found


def needs_all(book: Book, path: Path) -> bool:
    """Does book.toml list the test file as one that needs the whole checkout?"""
    name = path.relative_to(book.base).as_posix()
    return any(fnmatch.fnmatch(name, pattern) for pattern in book.whole_tests)


def unmarked_tests(book: Book) -> list[str]:
    """Test files without a chapter, those apart that need the whole checkout."""
    return [
        p.relative_to(book.base).as_posix()
        for p in sorted((book.base / "tests").glob("test_*.py"))
        if not needs_all(book, p) and not chapter_of_test(book, p)
    ]


def run_tests(
    book: Book, chapter: Chapter, folder: Path, only: bool = False, every: int = 0
) -> int:
    """Run the tests of a stage that is in `folder`, on copies of the test files.

    A single test may name a later chapter than its file does; it runs from there on.

    Args:
      only: the chapter's own tests, without those of the chapters before.
      every: 1 runs one case of each test function; 5 does for every fifth function;
        0 runs all cases.
    """
    tests = staged_tests(book, chapter, only)
    if not tests:
        return 0
    there = folder / "tests"
    copy_tests(book, staged_tests(book, chapter), there)
    copy_settings(book, folder)
    args = ["-q", "-p", "no:cacheprovider", *[str(there / p.name) for p in tests]]
    if every:  # Which tests of a sample fail is enough, and rewriting takes its time.
        args.append("--assert=plain")
    if book.whole_marks:
        args += ["-m", f"not ({book.whole_marks})"]
    prove = PROVE.format(package=book.package, folder=str(folder))
    chapters = [c.id for c in book.chapters if c.index <= chapter.index]
    code = PYTEST.format(args=args, every=every, chapters=chapters)
    return python(folder, prove + code)


def copy_settings(book: Book, out: Path) -> None:
    """Copy pytest's settings."""
    if (book.base / "pyproject.toml").exists():
        shutil.copy(book.base / "pyproject.toml", out)
    else:
        (out / "pytest.ini").touch()  # or it would look for one in the folders above


def copy_tests(book: Book, tests: list[Path], out: Path) -> None:
    """Copy test files and all that stands beside them but other tests."""
    wanted = {p.name for p in tests}
    source = book.base / "tests"

    def skip(folder: str, names: list[str]) -> list[str]:
        top = Path(folder) == source
        return [
            n for n in names
            if n == "__pycache__" or top and n.startswith("test_") and n not in wanted
        ]  # fmt: skip

    shutil.copytree(source, out, ignore=skip, dirs_exist_ok=True)


# -- imports


def import_modules(book: Book, folder: Path, only: Chapter | None = None) -> int:
    """Import each module of the stage in `folder`, each the first of the package in its
    process; 0 if all went well.

    Processes are forked from one that has the third-party packages loaded already.

    Args:
      only: the chapter whose files are imported, and those that wire the others.
    """
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.py"))
    wanted = (
        {*only.builds, *only.brings, *only.brings_after, *book.wires} if only else files
    )
    modules = [
        book.module(f)
        for f in files
        if f in wanted and f.startswith(f"{book.package}/")
    ]
    if not hasattr(os, "fork"):
        one = [IMPORT_ONE.format(module=m, folder=str(folder)) for m in modules]
        return max(python(folder, code) for code in one)
    code = IMPORT_EACH.format(
        package=book.package, modules=modules, folder=str(folder),
        others=third_party(book, folder, files),
    )  # fmt: skip
    return python(folder, code)


def third_party(book: Book, folder: Path, files: list[str]) -> list[str]:
    """Top-level packages that the stage's modules import at their top level."""
    found: set[str] = set()
    for file in files:
        found |= imports_of((folder / file).read_text(encoding="utf-8"))
    return sorted(found - {book.package, "__future__"})


@functools.cache
def imports_of(text: str) -> frozenset[str]:
    """Packages that a text imports at its top level, those apart that it is in."""
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            found |= {a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


# -- exercises


def judge_exercises(book: Book, chapter: Chapter, folder: Path) -> int:
    """Judge a chapter's exercises on its stage in `folder`; 0 if all is well."""
    if "%check" not in book.notebook(chapter).read_text(encoding="utf-8"):
        return 0
    machinery = str(Path(__file__).resolve().parent)
    code = JUDGE.format(machinery=machinery, root=str(book.root), id=chapter.id)
    return python(folder, PROVE.format(package=book.package, folder=str(folder)) + code)


# -- all of it


def all_stages(book: Book, only: Chapter | None = None, every: int = 0) -> list[str]:
    """Complaints about the stages, each written into a folder outside the checkout.

    The chapter's modules, and on the last stage all, must import first in their
    process; the chapter's own tests, or those that `every` leaves, must pass; its
    exercises must be in order.  The exercises of tours and capstones are judged on
    the finished library.
    """
    bad = [f"{f} names no chapter in its pytestmark" for f in unmarked_tests(book)]
    for c in book.notebooks():
        if only not in (None, c):
            continue
        if c.whole:
            with stage_folder(book, c) as folder:
                if judge_exercises(book, c, folder):
                    bad.append(f"{c.called}: exercises failed")
            continue
        with stage_folder(book, c) as folder:
            if import_modules(book, folder, None if c == book.chapters[-1] else c):
                bad.append(f"stage {c.id}: a module does not import")
            if run_tests(book, c, folder, only=True, every=every):
                bad.append(f"stage {c.id}: tests failed")
            if not c.pending and judge_exercises(book, c, folder):
                bad.append(f"stage {c.id}: exercises failed")
        tests = len(staged_tests(book, c, only=True))
        print(f"stage {c.id}: imported, {tests} test files", flush=True)
    return bad


def diff(book: Book, one: Chapter, two: Chapter) -> Iterator[str]:
    """What the library has after chapter `two` and not after chapter `one`."""
    if one.index > two.index:
        raise BookError(f"chapter {one.id} comes after chapter {two.id}")
    for file in book.library():
        a, b = (book.prefix(file, c.end) for c in (one, two))
        lines = book.lines(file)
        if a != b:
            name = file if a else "/dev/null"
            yield from difflib.unified_diff(
                lines[:a], lines[:b], name, file, lineterm="", n=1
            )
