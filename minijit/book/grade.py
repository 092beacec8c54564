"""Test what a reader wrote: `%check` of a build cell, `%chapter --mine`, `grade`.

The reader's text is put into the library's files, those are written as a stage into a
folder outside the checkout, and the tests that the tasks name run there, in a process
of its own: what loops for ever is stopped, and the notebook's kernel stays as it is.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import json
import os
import re
import secrets
import signal
import subprocess
import tempfile
import tomllib
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import confine, stages
from .cases import ADDRESS, labelled
from .course import HOLE, Task, emptied, holes, tasks
from .notebook import load, parse_build, source
from .project import Book, BookError, Chapter, read_book
from .reader import copy_folder, copy_of
from .splice import defined, overlaid
from .stage import write_stage, write_staged
from .units import Unit, read_cell

VERSIONS = "tests/wrong_versions.toml"
ENOUGH = 5  # wrong versions of a task, at least
BOOKS, EMPTY = "the book's text", "nothing is in it"  # versions that are not in there
ONLY_PASS = "only `pass` is in it"
SECONDS = 60  # of work, that the tests of a chapter's tasks may take in all
ONE = 6  # times as much as a single test may take
# Each result is printed as soon as it is known, in a line behind a word that only this
# process was told; and a test that fails for certain says whether failures are told.
TESTS = """
import json, os, pytest, signal, sys
def begin():
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, {seconds})
        signal.setitimer(signal.ITIMER_REAL, {seconds} * {patience})
class Told:
    def __init__(self):
        word, file = sys.stdin.readline().strip(), open(os.dup(1), "w", buffering=1)
        write, text, end = file.write, json.dumps, chr(10)
        self.tell = lambda test, told: write(end + word + text([test, told]) + end)
    def pytest_collection_modifyitems(self, items):
        marks = [item.get_closest_marker("chapter") for item in items]
        pairs = zip(marks, list(items), strict=True)
        items[:] = [i for m, i in pairs if not m or str(m.args[0]) in {chapters!r}]
    def pytest_runtest_logstart(self, nodeid, location):
        begin()
    def pytest_collectreport(self, report):
        if report.failed:
            lines = str(report.longrepr).strip().split("\\n")
            said = [line[1:].strip() for line in lines if line.startswith("E ")]
            name = report.nodeid.split("/")[-1]
            self.tell(name, ["raised", said[-3:] or lines[-3:]])
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        name = item.nodeid.split("/")[-1]
        if report.failed and call.excinfo is not None:
            self.tell(name, self.failed(item, call.excinfo))
        elif report.when == "call" and report.passed:
            self.tell(name, None)
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
begin()
pytest.main({args!r}, plugins=[Told()])
"""
# What ends a process whose test takes too long, by its work or by the clock.
TOO_LONG = {getattr(signal, name, None) for name in ("SIGPROF", "SIGALRM")}
LOOPS = "does a loop in it ever end?"
CANARY = "test_that_fails.py"

Failures = dict[str, list[str]]  # test -> lines about its failure, none if it passed
NONE_RAN = "no test ran"  # stands for the test where pytest did not get that far


class Limits(NamedTuple):
    """What tests may take: seconds in all and of one test, memory."""

    seconds: float = SECONDS
    megabytes: int = 0  # 0: not confined
    one: float = SECONDS / ONE


LIMITS = Limits()


@dataclass(frozen=True)
class Mark:
    """What came of a task.

    Its state: `right`, `wrong`, `not tested`, `not written`, `not run`, `no copy`.
    """

    task: Task
    state: str
    failures: Failures
    why: str = ""  # what is not written

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return sum(not told for told in self.failures.values())

    @property
    def first(self) -> list[str]:
        """The test that fails first, and what it says; or what is not written."""
        for test, told in self.failures.items():
            if told:
                return [test, *told]
        return [self.why] if self.why else []


def run_named(
    book: Book,
    chapter: Chapter,
    tests: Sequence[str],
    first: bool = False,
    limits: Limits = LIMITS,
) -> Failures:
    """Run tests by their names on the stage that a chapter leaves of a book's library.

    It is a later stage if a test's file needs that.  With `first`, the first failure
    ends it.
    """
    with tempfile.TemporaryDirectory(prefix="written_") as name:
        stage = stage_of(book, chapter, tests)
        bench = Bench(book, stage, tests, Path(name).resolve(), limits)
        return bench.run(tests, first)


def stage_of(book: Book, chapter: Chapter, tests: Sequence[str]) -> Chapter:
    """The first stage from a chapter on that can run some tests."""
    files = dict.fromkeys(book.base / "tests" / t.partition("::")[0] for t in tests)
    for file in files:
        if not file.exists():
            raise BookError(f"there is no tests/{file.name}, which a task names")
    needed = [stages.chapter_of_test(book, file) or chapter for file in files]
    return max([chapter, *needed], key=lambda c: c.index)


class Bench:
    """A stage in a folder, with tests beside it, that can run again and again."""

    def __init__(
        self,
        book: Book,
        stage: Chapter,
        tests: Sequence[str],
        folder: Path,
        limits: Limits = LIMITS,
    ):
        if importlib.util.find_spec("pytest") is None:
            raise BookError("tests need pytest: pip install pytest")
        self.book, self.stage, self.folder = book, stage, folder
        self.limits = limits
        write_stage(book, stage, folder)
        named = {book.base / "tests" / t.partition("::")[0] for t in tests}
        others = stages.staged_tests(book, stage)  # which they may import
        stages.copy_tests(book, [*named, *others], folder / "tests")
        stages.copy_settings(book, folder)

    def write(self, book: Book, file: str) -> None:
        """Put a file in as another text of the library has it."""
        write_staged(book, self.stage, file, self.folder)
        # Python knows bytecode by the second and size of its text: that may be alike.
        old = importlib.util.cache_from_source(str(self.folder / file))
        Path(old).unlink(missing_ok=True)

    def run(self, tests: Sequence[str], first: bool = False) -> Failures:
        """Run tests in a process of their own."""
        book, wanted = self.book, list(dict.fromkeys(tests))
        args = ["-q", "-p", "no:cacheprovider", "-x"][: 4 if first else 3]
        args += [str(self.folder / "tests" / t) for t in wanted]
        canary, word = self.folder / "tests" / CANARY, secrets.token_hex(16)
        canary.write_text("def test():\n    assert 1 == 2\n", encoding="utf-8")
        args.append(str(canary))
        known = [c.id for c in book.chapters if c.index <= self.stage.index]
        home = str(self.folder / book.package)
        status, (seconds, megabytes, one) = 0, self.limits
        code = TESTS.format(args=args, chapters=known, home=home, seconds=one,
                            patience=confine.PATIENCE)  # fmt: skip
        # A file without a name: what runs can put nothing else in its place.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            try:
                status = stages.python(self.folder, code, log, seconds, word, megabytes)
                ended = signal.strsignal(-status) if status < 0 else ""
                ended = ended and f"Python ended while the test ran: {ended}"
                if -status in TOO_LONG:
                    ended = f"stopped after {one:.0f} seconds; " + LOOPS
            except subprocess.TimeoutExpired:
                ended = f"all tests together were stopped after {seconds:.0f} seconds"
            log.seek(0)
            printed = log.read().split("\n")
        found = told_of(printed, word)
        told_failure = found.pop(f"{CANARY}::test", None)
        if found and not (ended or told_failure or any(found.values())):
            ended = "Python ended early, or what ran hides failures"
        if ended:  # then no test counts as passed
            found = {t: told for t, told in found.items() if told}
        if not found and not ended:
            errors = [line for line in printed if "Error" in line or "ERROR" in line]
            why = (errors or [line for line in printed if line.strip()])[-3:]
            return {NONE_RAN: labelled("because", why or ["Python ended early"])}
        every = {t: lines_of(book, t, told) for t, told in found.items()}
        rest = wanted if ended else []
        return every | {t: [f"  {ended}"] for t in rest if t not in every}


def told_of(lines: list[str], word: str) -> dict[str, list | None]:
    """What a run told of its tests, those lines apart that somebody else wrote."""
    return dict(json.loads(x.removeprefix(word)) for x in lines if x.startswith(word))


def lines_of(book: Book, test: str, told: list | None) -> list[str]:
    """What a test's process said of a failure, in lines."""
    if told is None:
        return []
    if told[0] == "raised":
        return labelled("raised", told[1])
    _, statement, said, where = told
    said = [ADDRESS.sub("", line) for line in said]
    lines = labelled("the test", statement) + labelled("failed", said)
    if where:
        file, line = f"{book.package}/{where[0]}", where[1].partition("\n")[0]
        lines += labelled("in", [f"{file}: {hidden_in(book, file, line) or line}"])
    return lines


def hidden_in(book: Book, file: str, line: str) -> str:
    """The function to be written that has a line of the book's, which is not told."""
    text, library = book.source(file), read_book(book.base)
    todo = [t for c in book.chapters if file in c.builds for t in tasks(book, c)]
    for task in [t for t in todo if t.file == file]:
        for name, body in task.bodies(library).items():
            if body in text and line in map(str.strip, body.split("\n")):
                return name
    return ""


def concerns(test: str, task: Task) -> bool:
    """Is a test, or a case of it, one that a task names?"""
    whole = test.partition("[")[0]
    return any(t in (test, whole) or whole == t.partition("::")[0] for t in task.tests)


# -- one task, in a kernel


def not_written(task: Task, units: Sequence[Unit]) -> Mark | None:
    """A task's mark if some units do not write all of it.

    The tests cannot say that: of what is not there, the library has the book's text.
    """
    lacks = lacking(task, filled(units))
    if not lacks:
        return None
    if any(HOLE in u.text for u in units):
        return Mark(task, "not written", {})
    names = " and no ".join(f"`{name}`" for name in lacks)
    return Mark(task, "not written", {}, f"this cell defines no {names}")


def filled(units: Sequence[Unit]) -> list[Unit]:
    """The units in which nothing is left to be written."""
    return [u for u in units if HOLE not in u.text]


def lacking(task: Task, units: Sequence[Unit]) -> list[str]:
    """Which functions of a task some units do not define."""
    there = defined(u for u in units if u.file == task.file)
    return [name for name in task.functions if name not in there]


def check_task(
    book: Book, task: Task, cells: Sequence[Sequence[Unit]], ran: bool = False
) -> Mark:
    """A task's mark on what the reader has built; `ran` says that its cell has run.

    All that was written is tested together; if that is wrong, the task is tested by
    itself among the book's statements, so that it is not blamed for another's mistake.
    """
    found = [u for units in cells for u in units]
    mine = [u for u in found if task.holds(u.file, u.key)]
    if not ran and lacking(task, found) == [*task.functions]:
        return Mark(task, "not run", {})
    if mark := not_written(task, mine):
        return mark
    every = [filled(units) for units in cells]
    alone = [[u for u in units if u in mine or u.book is None] for units in every]
    mark = Mark(task, "not tested", {})
    for some in [every, alone] if edits(every) > edits(alone) else [every]:
        with tempfile.TemporaryDirectory(prefix="mine_") as name:
            other = overlaid(book, some, Path(name).resolve())
            mark = marked(task, run_named(other, task.chapter, task.tests, first=True))
        if mark.state != "wrong":
            break
    return mark


def edits(cells: Sequence[Sequence[Unit]]) -> int:
    """How many units are not as the book has them."""
    return sum(not u.same for units in cells for u in units)


def words(mark: Mark) -> list[str]:
    """A verdict: `right`, `not yet`, or why there is none."""
    name = mark.task.name
    if mark.state == "right":
        several = f"{mark.passed} tests of it pass"
        return [f"right: {'its test passes' if mark.passed == 1 else several}"]
    if mark.state == "not run":
        return [f"not yet: run the build cell of {name} first"]
    if mark.why:
        return [f"{mark.state}: {mark.why}"]
    if mark.state == "not written":
        return [f"not yet: {name} is yours to write; it is empty so far"]
    if mark.state == "not tested":
        return [f"not tested: none of the tests of {name} ran", *mark.first[1:]]
    return [f"not yet: {mark.first[0]}", *mark.first[1:]]


def marked(task: Task, failures: Failures) -> Mark:
    """A task's mark from what some tests gave."""
    if NONE_RAN in failures:
        return Mark(task, "not tested", failures)
    own = {t: told for t, told in failures.items() if concerns(t, task)}
    if not own:
        return Mark(task, "not tested", {})
    return Mark(task, "wrong" if any(own.values()) else "right", own)


# -- all of a chapter, from the reader's copy


def marks(
    book: Book, chapter: Chapter, path: Path | None = None, limits: Limits = LIMITS
) -> list[Mark]:
    """What came of each task of a chapter, in the reader's copy of it or another one.

    All that was written is tested together; then each task that is not right by itself
    among the book's statements, so that a mistake in one is not blamed on another.  The
    seconds of the limits are for all of that.
    """
    begun = work()
    todo = tasks(book, chapter)
    path = path or copy_of(book, chapter)
    if not path.exists():
        return [Mark(t, "no copy", {}) for t in todo]
    texts = written(book, path)
    own = {t.cell: texts_of(t, texts) for t in todo}
    found: dict[str, Mark] = {}
    for task in todo:
        units = [u for text in own[task.cell] for u in text[0]]
        why = [told for _, text, told in own[task.cell] if told and HOLE not in text]
        if why:
            lines = [f"  {line}" for line in why[0].split("\n")]
            found[task.cell] = Mark(task, "wrong", {task.file: lines})
        elif mark := not_written(task, units):
            found[task.cell] = mark
    rest = [t for t in todo if t.cell not in found]
    if rest:
        good = [units for t in texts.values() if (units := filled(t[0]))]
        together = tested(book, chapter, good, rest, limits)
        found |= {task.cell: marked(task, together) for task in rest}
        for task in rest if len(good) > 1 else ():
            left = limits.seconds - (work() - begun)
            if found[task.cell].state == "right":
                continue
            if left > 1:
                cells = [filled(text[0]) for text in own[task.cell]]
                rest_of_it = limits._replace(seconds=left)
                alone = tested(book, chapter, cells, [task], rest_of_it)
            else:
                alone = {NONE_RAN: labelled("because", ["the time was over"])}
            found[task.cell] = marked(task, alone)
    return [found[t.cell] for t in todo]


def work() -> float:
    """Seconds that processes have worked which this one began, and which have ended."""
    times = os.times()
    return times.children_user + times.children_system


Text = tuple[list[Unit], str, str]  # a cell's units, its text, why it cannot be read


def written(book: Book, path: Path) -> dict[str, Text]:
    """By the ids of a copy's build cells: what stands in them."""
    found: dict[str, Text] = {}
    for cell in load(path)["cells"]:
        build = parse_build(cell)
        if build is None or build.file not in book.library():
            continue
        id, text = str(cell.get("id")), source(cell)
        try:
            units = read_cell(book, build.file, build.owner, build.body)
            found[id] = units, text, ""
        except (BookError, OSError) as e:
            found[id] = [], text, str(e).strip()
    return found


def texts_of(task: Task, texts: dict[str, Text]) -> list[Text]:
    """What a copy has of a task: its cell, and others that define some of it."""
    return [
        text for id, text in texts.items()
        if id == task.cell or lacking(task, text[0]) != [*task.functions]
    ]  # fmt: skip


def tested(
    book: Book,
    chapter: Chapter,
    cells: Sequence[Sequence[Unit]],
    todo: list[Task],
    limits: Limits,
) -> Failures:
    """What the tests of some tasks give on the library with these cells in it."""
    tests = [test for task in todo for test in task.tests]
    with tempfile.TemporaryDirectory(prefix="mine_") as name:
        other = overlaid(book, cells, Path(name).resolve())
        return run_named(other, chapter, tests, limits=limits)


# -- the table


def grade(
    book: Book, only: Sequence[Chapter], junit: Path | None
) -> tuple[list[str], bool]:
    """A table of the tasks and what came of them, and whether all are right.

    Args:
      junit: where to write the same as JUnit's XML.
    """
    chapters = [c for c in only or book.chapters if not c.pending]
    found = [m for c in chapters for m in marks(book, c)]
    if junit is not None:
        junit.write_bytes(xml.tostring(as_junit(found), encoding="utf-8"))
    if not found:
        names = ", ".join(c.called for c in chapters)
        why = "no cell of it is graded; `%check` in the notebook judges its exercises"
        return [f"{names}: {why}"], True
    rows = [f"{'chapter':<9}{'task':<34}{'state':<13}tests"]
    for m in found:
        ran = m.state in ("right", "wrong")
        tests = f"{m.passed} of {len(m.failures)}" if ran else ""
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
                told = ": ".join([m.state, *m.first[:1]])
                xml.SubElement(element, "skipped", {"message": told})
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
        found = marks(book, chapter)
        known[key] = [[m.task.cell, m.state, m.failures, m.why] for m in found]
        path.write_text(json.dumps(known), encoding="utf-8")
    return [Mark(todo[cell], *rest) for cell, *rest in known[key]]


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
    so must each wrong version of it in `tests/wrong_versions.toml`, five at least.
    A cell that lacks one of the task's functions must count as not written.
    """
    for trial in trials(book, chapter):
        task, state = trial.mark.task, trial.mark.state
        where = f"{chapter.called}, task {task.name}"
        if trial.why == BOOKS and state != "right":
            yield f"{where}: the book's text fails {trial.mark.first or task.tests}"
        elif trial.why == EMPTY and state == "right":
            yield f"{where}: its tests pass without it"
        elif trial.why not in (BOOKS, EMPTY) and state not in ("wrong", "not written"):
            yield f"{where}: {state}, though {trial.why}"
    yield from misfits(book, chapter)


def misfits(book: Book, chapter: Chapter) -> Iterator[str]:
    """Complaints about the wrong versions of a chapter's tasks, as they are written."""
    for task in tasks(book, chapter):
        where = f"{chapter.called}, task {task.name}"
        versions = wrong_versions(book, task)
        for old in [v["book"] for v in versions if task.body.count(v["book"]) != 1]:
            yield f"{where}: {old!r} does not stand in it once"
        if len(versions) < ENOUGH:
            many = f"{len(versions)} wrong versions of it"
            yield f"{where}: {many} in {VERSIONS}, and there should be {ENOUGH}"


@dataclass(frozen=True)
class Trial:
    """What came of a version of a task: the book's, the empty one, or a wrong one."""

    why: str  # BOOKS, EMPTY, or what is wrong with it
    mark: Mark


def trials(book: Book, chapter: Chapter) -> Iterator[Trial]:
    """Test all versions of a chapter's tasks, each among the book's statements."""
    todo = [(t, stage_of(book, chapter, t.tests)) for t in tasks(book, chapter)]
    for stage in dict.fromkeys(stage for _, stage in todo):
        own = [task for task, s in todo if s == stage]
        named = [test for task in own for test in task.tests]
        with tempfile.TemporaryDirectory(prefix="written_") as name:
            bench = Bench(book, stage, named, Path(name).resolve())
            for task in own:
                yield Trial(BOOKS, marked(task, bench.run(task.tests)))
                for why, text in versions_of(book, task):
                    units = read_cell(book, task.file, task.owner, text)
                    mark = None if why == EMPTY else not_written(task, units)
                    if mark is None:
                        with put_in(bench, units):
                            mark = marked(task, bench.run(task.tests, first=True))
                    yield Trial(why, mark)


def versions_of(book: Book, task: Task) -> Iterator[tuple[str, str]]:
    """(what is wrong with it, text) of the versions of a task that are not right."""
    yield EMPTY, emptied(task.build())[0]
    yield ONLY_PASS, "    pass" if task.owner else "pass"
    for name in task.functions:
        yield f"`{name}` has another name", renamed(task, name)
    for v in wrong_versions(book, task):
        if task.body.count(v["book"]) == 1:
            yield v["why"], task.body.replace(v["book"], v["wrong"])


def renamed(task: Task, name: str) -> str:
    """The book's text of a task with another name for one of its functions."""
    lines, found = holes(task.build())
    head = next(h.first for h in found if h.name == name)
    own = re.compile(rf"def {name.rpartition('.')[2]}\b")
    line = max(i for i in range(head) if own.search(lines[i]))
    lines[line] = own.sub(r"\g<0>_", lines[line])
    return "\n".join(lines[bool(task.owner) :])


@contextmanager
def put_in(bench: Bench, units: Sequence[Unit]) -> Iterator[None]:
    """Have the library hold some units of a cell, in the block."""
    file = units[0].file
    with tempfile.TemporaryDirectory(prefix="version_") as name:
        bench.write(overlaid(bench.book, [units], Path(name).resolve()), file)
    yield
    bench.write(bench.book, file)


def wrong_versions(book: Book, task: Task) -> list[dict[str, str]]:
    """Plausible mistakes in a task: the book's lines, wrong ones, and why."""
    path = book.base / VERSIONS
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return versions_in(text).get(task.name, [])


@functools.cache
def versions_in(text: str) -> dict[str, list[dict[str, str]]]:
    """The wrong versions of all tasks, by the tasks' names."""
    return tomllib.loads(text)


def solution_text(book: Book, chapter: Chapter, name: str) -> str:
    """The book's text of a task, or the solution of an exercise; it can be pasted."""
    if book.student:
        raise BookError(f"{name} is yours to write: this checkout has no solutions")
    for task in tasks(book, chapter):
        if task.is_called(name):
            head = f"%%build {task.file} {task.owner}".rstrip()
            return f"{head}\n{task.whole(book)}"
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
