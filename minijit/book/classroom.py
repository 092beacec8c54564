"""A class: what many students wrote, graded; and the checkout that they get.

    python -m minijit.book student course/            what a student gets
    python -m minijit.book grade work/* --csv points.csv

A submission is a folder with a student's notebooks.  Each is graded by processes of its
own: one reads the notebooks, and the tests run confined (see `confine`).  A file
`course.toml` in the checkout says what there is to do, and until when:

    [[assignment]]
    chapter = 7
    points = 2                                # of each task; default: 1
    due = 2026-10-12T18:00:00                 # by the times of the notebooks' files
    late = 0.5                                # its share if it is late; default: 0
    hidden = ["test_jvp.py::test_trees"]      # tests that students do not get
"""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from . import confine, grade
from .course import TAG, Task, emptied, tasks, written_in
from .judge import used_globals
from .notebook import Json, dump, load, parse_build, source, tags
from .project import Book, BookError, Chapter, sealed
from .reader import BEFORE, FOLDER
from .stages import copy_tests
from .text import names, statements

COURSE = "course.toml"
NO_WORK = {BEFORE, ".ipynb_checkpoints", "chapters"}  # folders in a submission
LARGEST = 20 << 20  # bytes of a notebook
NOT_GRADED = "missing", "unreadable", "not tested"  # states of tasks
# Of the checkout; with what stands in the lines that students do not get.
PLAIN = {
    ".gitignore": FOLDER,  # it is handed in
    "README.md": "TEACHING.md",  # which is not for them
    "CONTRIBUTING.md": None, "LICENSE": None, "pyproject.toml": None,
}  # fmt: skip
CI = """\
name: grade
on: [push]
jobs:
  grade:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.13"}
      - run: pip install -e ".[book]"
      - run: python -m minijit.book grade --junit report.xml
      - uses: actions/upload-artifact@v4
        if: always()
        with: {name: report, path: report.xml}
"""


@dataclass(frozen=True)
class Assignment:
    """What is to be done of a chapter."""

    chapter: Chapter
    points: float = 1
    due: datetime | None = None
    late: float = 0
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of a submission: for each task its state and what was said of it."""

    student: str
    tasks: dict[str, tuple[str, list[str]]]  # `7 vmap` -> (state, lines)
    late: frozenset[str] = frozenset()  # chapters
    trouble: str = ""  # why it could not be graded


def assignments(book: Book, only: Sequence[Chapter] = ()) -> list[Assignment]:
    """What `course.toml` asks for, or every task there is."""
    path = book.base / COURSE
    listed = [Assignment(c) for c in book.chapters if not c.pending and tasks(book, c)]
    if path.exists():
        told = tomllib.loads(path.read_text(encoding="utf-8"))["assignment"]
        listed = [assignment(book, dict(entry)) for entry in told]
    return [a for a in listed if not only or a.chapter in only]


def assignment(book: Book, entry: dict[str, Any]) -> Assignment:
    """One entry of `course.toml`."""
    chapter = book.chapter(entry.pop("chapter"))
    unknown = entry.keys() - {"points", "due", "late", "hidden"}
    if unknown or not tasks(book, chapter):
        told = f"{unknown.pop()!r} says nothing" if unknown else "it has no tasks"
        raise BookError(f"{COURSE}, {chapter.called}: {told}")
    hidden = tuple(entry.pop("hidden", ()))
    named = {t for task in tasks(book, chapter) for t in task.tests}
    if stray := set(hidden) - named:
        raise BookError(f"{COURSE}, {chapter.called}: no task names {stray.pop()}")
    return Assignment(chapter, hidden=hidden, **entry)


# -- grading


def grade_class(
    book: Book,
    students: dict[Path, str],
    only: Sequence[Chapter],
    limits: grade.Limits,
    jobs: int,
) -> Generator[Result, None, None]:
    """What came of each submission, as soon as it is known.

    If that is stopped, all that was begun ends with it.
    """
    if limits.megabytes and (why := confine.missing()):
        raise BookError(f"nobody's work can be confined here: {why}; on your own risk "
                        "`--unconfined` runs it with all that you may do")  # fmt: skip
    todo, running = assignments(book, only), set[subprocess.Popen]()
    with ThreadPoolExecutor(jobs) as pool:
        found = [
            pool.submit(one_result, book, todo, folder, name, limits, running)
            for folder, name in students.items()
        ]
        try:
            for one in as_completed(found):
                yield one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while wait(found, 0.1).not_done:
                for process in list(running):
                    process.terminate()
            raise


def named(folders: Sequence[Path]) -> dict[Path, str]:
    """What the student of each folder is called."""
    if strange := [f for f in folders if not f.is_dir()]:
        raise BookError(f"{strange[0]} is no folder")
    students = {f: f.name for f in folders}
    if len({*students.values()}) < len(students):
        students = {f: f.as_posix() for f in folders}
    return students


def one_result(
    book: Book,
    todo: list[Assignment],
    folder: Path,
    name: str,
    limits: grade.Limits,
    running: set[subprocess.Popen],
) -> Result:
    """What came of a submission, by a process of its own, which is in `running`."""
    with tempfile.TemporaryDirectory(prefix="grade_") as own:
        out = Path(own) / "marks.json"
        ids = [a.chapter.id for a in todo]
        line = [sys.executable, str(Path(__file__).parent), "--root", str(book.base),
                "grade", *ids, str(folder.resolve()), "--json", str(out),
                "--seconds", str(limits.seconds),
                "--megabytes", str(limits.megabytes)]  # fmt: skip
        env = {**os.environ, "TMPDIR": own}
        # In a session of its own: Ctrl-C is for the process that began it.
        with subprocess.Popen(
            line, env=env, text=True, stdin=subprocess.DEVNULL, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            running.add(process)
            errors = process.communicate()[1]
            running.discard(process)
        if not out.exists():
            said = errors.strip().split("\n")[-1] or f"status {process.returncode}"
            return Result(name, {}, trouble=said)
        told = json.loads(out.read_text(encoding="utf-8"))
    late = frozenset(
        a.chapter.id
        for a in todo
        if a.due and (at := told["times"].get(a.chapter.id))
        and datetime.fromtimestamp(at, a.due.tzinfo) > a.due
    )  # fmt: skip
    return Result(name, {k: tuple(v) for k, v in told["tasks"].items()}, late)


def grade_one(
    book: Book, folder: Path, only: Sequence[Chapter], limits: grade.Limits
) -> Json:
    """What came of one submission, for JSON."""
    confine.end_with_parent()
    if limits.megabytes:
        import resource

        hard = limits.megabytes << 20
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    found: dict[str, tuple[str, list[str]]] = {}
    times = {}
    for a in assignments(book, only):
        todo = tasks(book, a.chapter)
        try:
            path = notebook_of(folder, a.chapter)
            times[a.chapter.id] = path.stat().st_mtime
            marks = grade.marks(book, a.chapter, path, limits)
        except BookError as e:
            found |= {key(t): ("missing", [str(e)]) for t in todo}
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as e:
            told = f"the notebook cannot be read: {type(e).__name__}: {e}"
            found |= {key(t): ("unreadable", [told]) for t in todo}
        else:
            found |= {key(m.task): (m.state, m.first) for m in marks}
    return {"tasks": found, "times": times}


def key(task: Task) -> str:
    """What a column of the table is called."""
    return f"{task.chapter.id} {task.name}"


def notebook_of(folder: Path, chapter: Chapter) -> Path:
    """A student's notebook of a chapter, wherever it lies in the folder.

    A link is no notebook: it may lead to somebody else's.
    """
    name = Path(chapter.file).name
    found = [
        p for p in sorted(folder.rglob(name))
        if not NO_WORK & {*p.relative_to(folder).parts}
        and p.resolve() == folder.resolve() / p.relative_to(folder) and p.is_file()
    ]  # fmt: skip
    if len(found) > 1:
        raise BookError(f"more than one {name}")
    if not found:
        others = [p for p in sorted(folder.rglob("*.ipynb"))
                  if not NO_WORK & {*p.relative_to(folder).parts}]  # fmt: skip
        there = [p.name + " (a link)" * p.is_symlink() for p in others]
        more = f" and {len(there) - 5} more" if len(there) > 5 else ""
        told = f"there is {', '.join(there[:5])}{more}" if there else "nor any other"
        raise BookError(f"no {name}; {told}")
    if found[0].stat().st_size > LARGEST:
        raise BookError(f"{name} has more than {LARGEST >> 20} MB")
    return found[0]


def points(book: Book, todo: list[Assignment], result: Result) -> dict[str, float]:
    """By task, what a submission gets."""
    return {
        key(task): a.points * right * (a.late if a.chapter.id in result.late else 1)
        for a in todo
        for task in tasks(book, a.chapter)
        for right in [result.tasks.get(key(task), ("", []))[0] == "right"]
    }


def write_csv(
    book: Book, todo: list[Assignment], found: list[Result], out: Path
) -> None:
    """A row for each student: points of each task, their sum, what is late."""
    columns = [key(t) for a in todo for t in tasks(book, a.chapter)]
    most = sum(a.points * len(tasks(book, a.chapter)) for a in todo)
    with out.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["student", *columns, "points", "of", "late", "trouble"])
        for result in found:
            given = points(book, todo, result)
            row = [f"{given[c]:g}" for c in columns]
            late = " ".join(sorted(result.late))
            total = f"{sum(given.values()):g}"
            safe = re.sub(r"^[=+@-]", r"'\g<0>", result.student)  # no formula
            table.writerow([safe, *row, total, f"{most:g}", late, why_not(result)])


def why_not(result: Result) -> str:
    """Why a submission, or a task of it, could not be graded; each reason once."""
    said = [
        f"{state}: {' '.join(' '.join(told).split())}" if told else state
        for state, told in result.tasks.values() if state in NOT_GRADED
    ]  # fmt: skip
    return result.trouble or "; ".join(dict.fromkeys(said))


def report(result: Result) -> Iterator[str]:
    """What a student may be told: each task, and why it is not right."""
    before: list[str] = []
    for task, (state, told) in result.tasks.items():
        yield f"chapter {task:<34}{state}"
        if told != before:
            yield from (f"    {line}" for line in told)
        before = told if state in NOT_GRADED else []
    if result.trouble:
        yield f"it could not be graded: {result.trouble}"


def summary(book: Book, todo: list[Assignment], result: Result) -> str:
    """A line about a submission."""
    given = points(book, todo, result)
    states = [state for state, _ in result.tasks.values()]
    counts = ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
    late = f", late: {' '.join(sorted(result.late))}" if result.late else ""
    total = sum(given.values())
    return f"{result.student:<24}{total:>6g}  {result.trouble or counts}{late}"


# -- what a student gets


def export(book: Book, out: Path) -> Iterator[str]:
    """Write a checkout for students; what to tell.

    Its notebooks have empty cells, its tests are those of the tasks, but for hidden
    ones, and of the solutions there are the checks alone.  The library runs as it is,
    but the text of what is to be written stands in it in letters that nobody reads.
    """
    if out.exists() and any(out.iterdir()):
        raise BookError(f"{out} is not empty: name a new folder, or remove this one")
    out.mkdir(parents=True, exist_ok=True)
    for name, gone in PLAIN.items():
        if (book.root / name).exists():
            lines = (book.root / name).read_text(encoding="utf-8").split("\n")
            kept = [line for line in lines if gone is None or gone not in line]
            (out / name).write_text("\n".join(kept), encoding="utf-8")
    todo = assignments(book)
    hidden = {t for a in todo for t in a.hidden}
    settings = (book.root / "book.toml").read_text(encoding="utf-8")
    settings = settings.replace("[book]\n", "[book]\nstudent = true\n", 1)
    (out / "book.toml").write_text(settings, encoding="utf-8")
    copy_library(book, out)
    for chapter in book.written():
        notebook = load(book.notebook(chapter))
        empty_cells(notebook, hidden)
        for cell in notebook["cells"]:
            text = source(cell)
            if text.startswith("%show") and written_in(book, text):
                cell["outputs"] = []
        dump(notebook, out / book.folder / chapter.file)
        checks = out / book.folder / "checks" / f"{chapter.stem}.py"
        if (answers := book.solutions(chapter)).exists():
            checks.parent.mkdir(parents=True, exist_ok=True)
            text = checks_alone(answers.read_text(encoding="utf-8"))
            checks.write_text(text, encoding="utf-8")
    if (data := book.root / book.folder / "data").exists():
        shutil.copytree(data, out / book.folder / "data")
    copy_named_tests(book, hidden, out)
    workflow = out / ".github" / "workflows" / "grade.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(CI, encoding="utf-8")
    yield f"{out}: a checkout to be written; the library's text of that is sealed"
    yield f"hidden tests: {', '.join(sorted(hidden)) or f'none; {COURSE} names them'}"


def copy_library(book: Book, out: Path) -> None:
    """Copy the package, the text of each task in it sealed."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(book.root / book.package, out / book.package, ignore=skip)
    parts: dict[str, list[str]] = {}
    for chapter in book.chapters:
        for task in tasks(book, chapter):
            parts.setdefault(task.file, []).extend(task.bodies(book).values())
    for file, bodies in parts.items():
        text = book.source(file)
        in_order = sorted(bodies, key=text.index)
        (out / file).write_bytes(sealed(text, in_order))


def empty_cells(notebook: Json, hidden: Iterable[str]) -> None:
    """Empty a notebook's cells to write, without hidden tests among their tags."""
    for cell in notebook["cells"]:
        build = parse_build(cell) if TAG in tags(cell) else None
        if build is not None:
            build.write(emptied(build)[0], build.owner)
            kept = [t for t in tags(cell) if t not in hidden]
            cell["metadata"]["tags"] = kept


def checks_alone(text: str) -> str:
    """A file of solutions without the solutions: the checks, and what they use."""
    every = statements(text, strict=False)
    wanted = {n for s in every for n in names(s.node) if n.startswith("check_")}
    kept = [s for s in every if isinstance(s.node, (ast.Import, ast.ImportFrom))]
    while more := [s for s in every if s not in kept and names(s.node) & wanted]:
        kept += more
        wanted |= used_globals(ast.Module([s.node for s in more], []))
    return "\n\n\n".join(s.text for s in every if s in kept) + "\n"


def copy_named_tests(book: Book, hidden: Iterable[str], out: Path) -> None:
    """Copy the tests that tasks name, those that these import, and what is beside."""
    folder = book.base / "tests"
    todo = [t for c in book.chapters for task in tasks(book, c) for t in task.tests]
    wanted: set[str] = set()
    more = {t.partition("::")[0] for t in todo}
    while more:
        wanted |= more
        texts = [(folder / f).read_text(encoding="utf-8") for f in more]
        used = re.findall(r"^\s*(?:from|import) (test_\w+)", "\n".join(texts), re.M)
        more = {f"{m}.py" for m in used} - wanted
    copy_tests(book, [folder / f for f in wanted], out / "tests")
    (out / grade.VERSIONS).unlink(missing_ok=True)  # it quotes the book
    for test in hidden:
        file, _, name = test.partition("::")
        path = out / "tests" / file
        text = path.read_text(encoding="utf-8")
        for s in statements(text, strict=False):
            if names(s.node) == {name}:
                text = text.replace(s.text, "", 1)
        path.write_text(text, encoding="utf-8")
