"""Test what a reader wrote: `%check` of a build cell, `%chapter --mine`, `grade`.

The reader's text is put into the library's files, those are written as a stage into a
folder outside the checkout, and the tests that the tasks name run there, in a process
of its own: what loops for ever is stopped, and the notebook's kernel stays as it is.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import subprocess
import tempfile
import tomllib
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import stages
from .cases import labelled
from .course import HOLE, Task, emptied, tasks
from .notebook import load, parse_build, source
from .project import Book, BookError, Chapter
from .reader import copy_folder, copy_of
from .splice import overlaid
from .stage import write_stage
from .units import Unit, read_cell

SECONDS = 120  # that the tests of some tasks may take
TESTS = """
import json, pytest
class Told:
    found = {{}}
    def pytest_collection_modifyitems(self, items):
        marks = [item.get_closest_marker("chapter") for item in items]
        pairs = zip(marks, list(items), strict=True)
        items[:] = [i for m, i in pairs if not m or str(m.args[0]) in {chapters!r}]
    def pytest_collectreport(self, report):
        if report.failed:
            lines = str(report.longrepr).strip().split("\\n")
            said = [line[1:].strip() for line in lines if line.startswith("E ")]
            name = report.nodeid.split("/")[-1]
            self.found[name] = ["raised", said[-3:] or lines[-3:]]
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        name = item.nodeid.split("/")[-1]
        if report.failed and call.excinfo is not None:
            self.found[name] = self.failed(item, call.excinfo)
        elif report.when == "call" and report.passed:
            self.found.setdefault(name, None)
    def failed(self, item, error):
        entries = list(error.traceback)
        own = [e for e in entries if str(e.path) == str(item.path)]
        lines = [str(own[-1].statement).strip()] if own else []
        kind = "" if error.errisinstance(AssertionError) else error.typename + ": "
        said = (kind + str(error.value)).split("\\n")[:8]
        inside = [e for e in entries if str(e.path).startswith({home!r})]
        where = []
        if inside:
            e = inside[-1]
            where = [str(e.path)[len({home!r}) + 1:], str(e.statement).strip()]
        return ["failed", lines, said, where]
told = Told()
pytest.main({args!r}, plugins=[told])
with open({out!r}, "w") as file:
    json.dump(told.found, file)
"""

Failures = dict[str, list[str]]  # test -> lines about its failure, none if it passed


@dataclass(frozen=True)
class Mark:
    """What came of a task: `right`, `wrong`, `not tested`, `not written`, `no copy`."""

    task: Task
    state: str
    failures: Failures

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return sum(not told for told in self.failures.values())

    @property
    def first(self) -> list[str]:
        """The test that fails first, and what it says."""
        for test, told in self.failures.items():
            if told:
                return [test, *told]
        return []


def run_named(
    book: Book, chapter: Chapter, tests: Sequence[str], first: bool = False
) -> Failures:
    """Run tests by their names on the stage that a chapter leaves of a book's library.

    It is a later stage if a test's file needs that.  With `first`, the first failure
    ends it.
    """
    if importlib.util.find_spec("pytest") is None:
        raise BookError("tests need pytest: pip install pytest")
    wanted = list(dict.fromkeys(tests))
    files = [book.base / "tests" / t.partition("::")[0] for t in wanted]
    for file in files:
        if not file.exists():
            raise BookError(f"there is no tests/{file.name}, which a task names")
    needed = [stages.chapter_of_test(book, file) or chapter for file in files]
    chapter = max([chapter, *needed], key=lambda c: c.index)
    with tempfile.TemporaryDirectory(prefix="written_") as name:
        folder = Path(name).resolve()
        write_stage(book, chapter, folder)
        others = stages.staged_tests(book, chapter)  # which they may import
        stages.copy_tests(book, [*files, *others], folder / "tests")
        stages.copy_settings(book, folder)
        args = ["-q", "-p", "no:cacheprovider", "-x"][: 4 if first else 3]
        args += [str(folder / "tests" / t) for t in wanted]
        out = folder / "told.json"
        known = [c.id for c in book.chapters if c.index <= chapter.index]
        home = str(folder / book.package)
        code = TESTS.format(args=args, chapters=known, out=str(out), home=home)
        try:
            stages.python(folder, code, quiet=True, seconds=SECONDS)
        except subprocess.TimeoutExpired:
            told = f"stopped after {SECONDS} seconds; does a loop in it ever end?"
            return {t: [f"  {told}"] for t in wanted}
        if not out.exists():
            return {t: ["  Python ended while the test ran"] for t in wanted}
        found = json.loads(out.read_text(encoding="utf-8"))
    return {test: lines_of(book, test, told) for test, told in found.items()}


def lines_of(book: Book, test: str, told: list | None) -> list[str]:
    """What a test's process said of a failure, in lines."""
    if told is None:
        return []
    if told[0] == "raised":
        return labelled("raised", told[1])
    _, statement, said, where = told
    lines = labelled("the test", statement) + labelled("failed", said)
    if where:
        lines += labelled("in", [f"{book.package}/{where[0]}: {where[1]}"])
    return lines


def concerns(test: str, task: Task) -> bool:
    """Is a test, or a case of it, one that a task names?"""
    whole = test.partition("[")[0]
    return any(t in (test, whole) or whole == t.partition("::")[0] for t in task.tests)


# -- one task, in a kernel


def check_task(book: Book, task: Task, cells: Sequence[Sequence[Unit]]) -> str:
    """`right`, or which test of a task fails first, on what the reader has built."""
    mine = [u for units in cells for u in units if u.key in task.keys]
    mine = [u for u in mine if u.file == task.file]
    if not mine:
        return f"not yet: run the build cell of {task.name} first"
    if any(HOLE in u.text for u in mine):
        return f"not yet: {task.name} is yours to write; it is empty so far"
    with tempfile.TemporaryDirectory(prefix="mine_") as name:
        other = overlaid(book, cells, Path(name).resolve())
        mark = marked(task, run_named(other, task.chapter, task.tests, first=True))
    if mark.state == "right":
        return f"right: {mark.passed} tests of it pass"
    if mark.state == "not tested":
        return f"not tested: none of the tests of {task.name} ran"
    return "\n".join([f"not yet: {mark.first[0]}", *mark.first[1:]])


def marked(task: Task, failures: Failures) -> Mark:
    """A task's mark from what some tests gave."""
    own = {t: told for t, told in failures.items() if concerns(t, task)}
    if not own:
        return Mark(task, "not tested", {})
    return Mark(task, "wrong" if any(own.values()) else "right", own)


# -- all of a chapter, from the reader's copy


def marks(book: Book, chapter: Chapter) -> list[Mark]:
    """What came of each task of a chapter, in the reader's copy of it.

    All that was written is tested together; then each wrong task by itself among the
    book's statements, so that a mistake in one is not blamed on another.
    """
    todo = tasks(book, chapter)
    path = copy_of(book, chapter)
    if not path.exists():
        return [Mark(t, "no copy", {}) for t in todo]
    texts = written(book, path)
    known = {t.cell: texts[t.cell] for t in todo if t.cell in texts}
    found: dict[str, Mark] = {}
    for task in todo:
        if task.cell not in known or HOLE in known[task.cell][1]:
            found[task.cell] = Mark(task, "not written", {})
    rest = [t for t in todo if t.cell not in found]
    for task in list(rest):
        if why := known[task.cell][2]:
            found[task.cell] = Mark(task, "wrong", {task.file: [f"  {why}"]})
            rest.remove(task)
    if rest:
        good = [t for t in texts.values() if t[0] and HOLE not in t[1]]
        together = tested(book, chapter, [t[0] for t in good], rest)
        found |= {task.cell: marked(task, together) for task in rest}
        wrong = [t for t in rest if found[t.cell].state == "wrong"]
        if wrong and len(good) > 1:
            alone = [
                marked(t, tested(book, chapter, [known[t.cell][0]], [t])) for t in wrong
            ]
            if any(m.state == "wrong" for m in alone):
                found |= {m.task.cell: m for m in alone}
    return [found[t.cell] for t in todo]


def written(book: Book, path: Path) -> dict[str, tuple[list[Unit], str, str]]:
    """By the ids of a copy's build cells: units, text, and what cannot be read."""
    found: dict[str, tuple[list[Unit], str, str]] = {}
    for cell in load(path)["cells"]:
        build = parse_build(cell)
        if build is None:
            continue
        id, text = str(cell.get("id")), source(cell)
        try:
            units = read_cell(book, build.file, build.owner, build.body)
            found[id] = units, text, ""
        except (BookError, OSError) as e:
            found[id] = [], text, str(e).strip().split("\n")[-1]
    return found


def tested(
    book: Book, chapter: Chapter, cells: Sequence[Sequence[Unit]], todo: list[Task]
) -> Failures:
    """What the tests of some tasks give on the library with these cells in it."""
    tests = [test for task in todo for test in task.tests]
    with tempfile.TemporaryDirectory(prefix="mine_") as name:
        other = overlaid(book, cells, Path(name).resolve())
        return run_named(other, chapter, tests)


# -- the table


def grade(
    book: Book, only: Chapter | None, junit: Path | None
) -> tuple[list[str], bool]:
    """A table of the tasks and what came of them, and whether all are right.

    Args:
      junit: where to write the same as JUnit's XML.
    """
    chapters = [c for c in book.chapters if only in (None, c) and not c.pending]
    found = [m for c in chapters for m in marks(book, c)]
    if junit is not None:
        junit.write_bytes(xml.tostring(as_junit(found), encoding="utf-8"))
    rows = [f"{'chapter':<9}{'task':<34}{'state':<13}tests"]
    for m in found:
        tests = f"{m.passed} of {len(m.failures)}" if m.failures else ""
        rows.append(f"{m.task.chapter.id:<9}{m.task.name:<34}{m.state:<13}{tests}")
        rows += [f"{'':<9}{line}" for line in m.first]
    right = sum(m.state == "right" for m in found)
    rows.append(f"{right} of {len(found)} tasks are right")
    return [row.rstrip() for row in rows], right == len(found)


def as_junit(found: list[Mark]) -> xml.Element:
    """Marks as a report that course software reads: a suite for each chapter."""
    root = xml.Element("testsuites")
    for chapter in dict.fromkeys(m.task.chapter for m in found):
        own = [m for m in found if m.task.chapter == chapter]
        wrong = sum(m.state == "wrong" for m in own)
        skipped = len(own) - wrong - sum(m.state == "right" for m in own)
        counts = {"tests": len(own), "failures": wrong, "skipped": skipped}
        about = {"name": f"chapter {chapter.id}: {chapter.title}"}
        about |= {k: str(n) for k, n in counts.items()}
        suite = xml.SubElement(root, "testsuite", about)
        for m in own:
            case = {"classname": f"chapter_{chapter.id}", "name": m.task.name}
            element = xml.SubElement(suite, "testcase", case)
            if m.state == "wrong":
                what = m.first[0]
                bad = xml.SubElement(element, "failure", {"message": what})
                bad.text = "\n".join(m.first)
            elif m.state != "right":
                xml.SubElement(element, "skipped", {"message": m.state})
    return root


# -- starting from the reader's own code


def own_code(book: Book, chapter: Chapter) -> tuple[Book, list[str]]:
    """The book with the reader's code of the chapters before one in it; what to say.

    What a cell leaves empty, or does not write in Python, is as the book has it.
    """
    cells: list[list[Unit]] = []
    told: list[str] = []
    edited: list[str] = []
    for c in book.chapters[: chapter.index]:
        path = copy_of(book, c)
        if c.pending or not path.exists():
            continue
        texts = written(book, path)
        good = [units for units, text, _ in texts.values() if HOLE not in text]
        cells += good
        edited += [u.key for units in good for u in units if not u.same]
        for m in remembered_marks(book, c):
            if m.state == "not written":
                told.append(f"chapter {c.id}: {m.task.name} is the book's, not yours")
            elif m.state == "wrong":
                told.append(f"chapter {c.id}: {m.task.name} fails {m.first[0]}")
            elif m.state == "not tested":
                told.append(f"chapter {c.id}: no test of {m.task.name} ran")
    folder = copy_folder(book) / ".mine" / chapter.id
    other = overlaid(book, cells, folder)
    some = ", ".join(edited[:8]) + (" and more" if len(edited) > 8 else "")
    told.insert(0, f"With your own text of: {some or 'nothing yet'}.")
    return other, told


def remembered_marks(book: Book, chapter: Chapter) -> list[Mark]:
    """`marks`, remembered for as long as the copy and the library stay as they are."""
    path = copy_folder(book) / ".marks.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    key = fingerprint(book, chapter)
    todo = {t.cell: t for t in tasks(book, chapter)}
    if key not in known:
        known[key] = [[m.task.cell, m.state, m.failures] for m in marks(book, chapter)]
        path.write_text(json.dumps(known), encoding="utf-8")
    return [Mark(todo[cell], state, told) for cell, state, told in known[key]]


def fingerprint(book: Book, chapter: Chapter) -> str:
    """A few letters for a chapter's copy, the library, and the tests of its tasks."""
    own = tasks(book, chapter)
    files = {book.base / "tests" / t.partition("::")[0] for k in own for t in k.tests}
    paths = [copy_of(book, chapter), *sorted(files)]
    texts = [p.read_text(encoding="utf-8") for p in paths if p.exists()]
    texts += [book.source(f) for f in book.library()]
    return hashlib.sha1("\0".join(texts).encode()).hexdigest()


# -- for authors


def prove(book: Book, chapter: Chapter) -> Iterator[str]:
    """Complaints about a chapter's tasks.

    The book's text must pass each task's tests; the emptied cell must fail them, and
    so must each wrong version of it in `tests/wrong_versions.toml`.
    """
    todo = tasks(book, chapter)
    if not todo:
        return
    given = tested(book, chapter, [], todo)
    for task in todo:
        where = f"{chapter.called}, task {task.name}"
        mark = marked(task, given)
        if mark.state != "right":
            yield f"{where}: the book's text fails {mark.first or task.tests}"
        text, _ = emptied(task.build())
        units = read_cell(book, task.file, task.owner, text)
        empty = tested(book, chapter, [units], [task])
        if marked(task, empty).state == "right":
            yield f"{where}: its tests pass without it"
        for wrong in wrong_versions(book, task):
            old, new = wrong["book"], wrong["wrong"]
            if task.body.count(old) != 1:
                yield f"{where}: {old!r} does not stand in it once"
                continue
            units = read_cell(book, task.file, task.owner, task.body.replace(old, new))
            mark = marked(task, tested(book, chapter, [units], [task]))
            if mark.state != "wrong":
                yield f"{where}: {mark.state}, though {wrong['why']}"


def wrong_versions(book: Book, task: Task) -> list[dict[str, str]]:
    """Plausible mistakes in a task: the book's lines, wrong ones, and why."""
    path = book.base / "tests" / "wrong_versions.toml"
    if not path.exists():
        return []
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return data.get(f"chapter_{task.chapter.id}", {}).get(task.name, [])


def solution_text(book: Book, chapter: Chapter, name: str) -> str:
    """The book's text of a task, or the solution of an exercise; it can be pasted."""
    for task in tasks(book, chapter):
        if task.is_called(name):
            return f"%%build {task.file} {task.owner}".rstrip() + f"\n{task.body}"
    from .judge import not_imported, solution  # it imports what checks exercises

    path = book.solutions(chapter)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    module = solution(text, name)
    if module is None:
        raise BookError(f"this notebook has neither a task nor an exercise {name}")
    lacks = not_imported({"cells": [code(f"%check {name}")]}, text).get(name, set())
    lines = text.split("\n")
    statements = []
    for s in module.body:
        first = min([s.lineno, *[d.lineno for d in getattr(s, "decorator_list", [])]])
        statements.append("\n".join(lines[first - 1 : s.end_lineno]))
    imports = "\n".join(imports_of(text, lacks))
    return "\n\n\n".join([imports, *statements] if imports else statements)


def code(text: str) -> dict:
    """A code cell."""
    return {"cell_type": "code", "source": text}


def imports_of(text: str, wanted: set[str]) -> Iterator[str]:
    """The import statements of a text, with only the names that are wanted."""
    for s in ast.parse(text).body:
        if isinstance(s, (ast.Import, ast.ImportFrom)):
            names = [a for a in s.names if (a.asname or a.name) in wanted]
            if names:
                s.names = names
                yield ast.unparse(s)
