"""The book's commands: `python -m minijit.book COMMAND`, or by path."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from . import (
    author, check, classroom, grade, measure, reader, renumber, run, stages, sync,
)
from .project import Book, BookError, Chapter, find_book
from .stage import write_stage

Arguments = argparse.Namespace
Command = Callable[[Book, Arguments], int]


def main(argv: list[str]) -> int:
    """Run one command; its exit code."""
    args = parser().parse_args(argv)
    try:
        book = find_book(args.root)
        code: int = args.do(book, args)
        return code
    except BookError as e:
        print(e, file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    top = argparse.ArgumentParser(prog="python -m minijit.book", description=__doc__)
    top.add_argument("--root", type=Path, help="a folder of the repository")
    sub = top.add_subparsers(dest="command", required=True)

    def command(do: Command, *arguments: str) -> argparse.ArgumentParser:
        name, help = do.__name__.removeprefix("do_"), (do.__doc__ or "").rstrip(".")
        p = sub.add_parser(name, help=help, description=help)
        p.set_defaults(do=do)
        for a in arguments:
            p.add_argument(a.rstrip("?"), nargs="?" if a.endswith("?") else None)
        return p

    write = "chosen build cells are empty, to be written by the reader"
    p = command(do_start)
    p.add_argument("--write", action="store_true", help=write)
    p = command(do_reset, "chapter")
    p.add_argument("--write", action="store_true", help=write)
    p = command(do_student)
    p.add_argument("out", type=Path, help="a new folder")
    p = command(do_grade)
    p.add_argument("what", nargs="*", help="chapters; folders of students' work")
    p.add_argument("--csv", type=Path, help="write a row of points for each folder")
    p.add_argument("--reports", type=Path, help="write a text for each folder into it")
    p.add_argument("--seconds", type=float, default=grade.SECONDS, help="for the tests")
    p.add_argument("--megabytes", type=int, default=4096, help="of memory")
    p.add_argument("--unconfined", action="store_true", help="folders may do all")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="folders at a time")
    p.add_argument("--json", type=Path, help="write what came of the one folder")
    p.add_argument("--junit", type=Path, help="write the table as JUnit's XML, too")
    p.add_argument("--prove", action="store_true", help="are the tasks in order?")
    p = command(do_check, "chapter?")
    p.add_argument("--complete", action="store_true", help="nothing may be pending")
    command(do_stats, "chapter?")
    command(do_sync, "chapter?")
    command(do_run, "chapter?")
    p = command(do_stage, "chapter")
    p.add_argument("--out", type=Path, required=True)
    p = command(do_test, "chapter")
    p.add_argument("--only", action="store_true", help="this chapter's own tests only")
    command(do_stages, "chapter?")
    command(do_diff, "one", "two")
    command(do_exercise, "chapter?")
    p = command(do_new, "chapter")
    p.add_argument("source", nargs="?", type=Path, help="Markdown; default: stdin")
    command(do_text, "chapter")
    command(do_outline, "chapter")
    p = command(do_html, "chapter?")
    p.add_argument("--out", type=Path, default=Path("html"), help="default: html")
    p = command(do_lite)
    p.add_argument("--out", type=Path, default=Path("html"), help="default: html")
    p.add_argument("--pyodide", type=Path, help="its distribution; default: its server")
    command(do_draft, "chapter")
    command(do_renumber)
    return top


def chosen(book: Book, args: Arguments) -> Chapter | None:
    """The chapter asked for, if one was."""
    return book.chapter(args.chapter) if args.chapter else None


def written(book: Book, args: Arguments) -> list[Chapter]:
    """The chapter asked for, or every one that has a notebook."""
    only = chosen(book, args)
    return [only] if only else list(book.written())


def complain(bad: list[str], good: str) -> int:
    """Print the complaints, or that all is well."""
    print("\n".join(bad) or good)
    return bool(bad)


def do_start(book: Book, args: Arguments) -> int:
    """Make the reader's own copy of the notebooks, my_chapters/."""
    print("\n".join(reader.start(book, args.write or book.student)))
    return 0


def do_reset(book: Book, args: Arguments) -> int:
    """Renew the reader's copy of one chapter, and keep what it was."""
    write = args.write or book.student
    print("\n".join(reader.reset(book, book.chapter(args.chapter), write)))
    return 0


def do_student(book: Book, args: Arguments) -> int:
    """Write a checkout for students: empty cells, no solutions, no hidden tests."""
    print("\n".join(classroom.export(book, args.out)))
    return 0


def do_grade(book: Book, args: Arguments) -> int:
    """Which build cells of the reader's copy, or of folders, pass their tests."""
    ids = {i for c in book.notebooks() for i in (c.id, c.stem)}
    only = [book.chapter(w) for w in args.what if w in ids]
    folders = [Path(w) for w in args.what if w not in ids]
    if args.prove:
        chapters = [c for c in only or book.written() if not c.whole]
        bad = [told for c in chapters for told in grade.prove(book, c)]
        return complain(bad, "tasks: in order")
    if folders:
        return do_grade_class(book, args, only, folders)
    rows, right = grade.grade(book, only, args.junit)
    print("\n".join(rows))
    return 0 if right else 1


def do_grade_class(
    book: Book, args: Arguments, only: list[Chapter], folders: list[Path]
) -> int:
    """Grade students' folders."""
    megabytes = 0 if args.unconfined else args.megabytes
    limits = grade.Limits(args.seconds, megabytes, args.seconds / grade.ONE)
    if args.json:
        told = classroom.grade_one(book, folders[0], only, limits)
        args.json.write_text(json.dumps(told), encoding="utf-8")
        return 0
    todo, names = classroom.assignments(book, only), classroom.named(folders)
    found: dict[str, classroom.Result] = {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = classroom.grade_class(book, names, only, limits, args.jobs)
    try:
        for result in results:
            print(classroom.summary(book, todo, result), flush=True)
            found[result.student] = result
            if args.reports:
                args.reports.mkdir(parents=True, exist_ok=True)
                path = args.reports / f"{result.student.replace('/', '_')}.txt"
                text = "\n".join(classroom.report(result)) + "\n"
                path.write_text(text, encoding="utf-8")
            if args.csv:
                known = [found[name] for name in names.values() if name in found]
                classroom.write_csv(book, todo, known, args.csv)
    except KeyboardInterrupt:
        print(f"stopped: {len(found)} of {len(names)} are graded", file=sys.stderr)
        return 130
    finally:
        results.close()
    return 0


def do_check(book: Book, args: Arguments) -> int:
    """Prove that the book shows the library, and ran."""
    bad = check.check(book, chosen(book, args), args.complete)
    waiting, total = check.pending_lines(book)
    good = "book and library agree"
    if waiting:
        good += f"; {waiting} of {total} lines wait for their chapter"
    if excused := [c for c in book.chapters if c.exceptions]:
        count = sum(len(c.exceptions) for c in excused)
        good += f"; {count} exceptions in {len(excused)} chapters"
        good += "".join(f"\n{told}" for told in measure.idle_exceptions(book))
    return complain(bad, good)


def do_stats(book: Book, args: Arguments) -> int:
    """Build lines, words, pictures of each chapter."""
    print("\n".join(measure.table(book, chosen(book, args))))
    return 0


def do_sync(book: Book, args: Arguments) -> int:
    """Library -> build cells, after an edit."""
    print("\n".join(sync.sync(book, chosen(book, args))) or "nothing to do")
    return 0


def do_run(book: Book, args: Arguments) -> int:
    """Execute chapters and store their outputs."""
    for c in written(book, args):
        if bad := check.unlike_library(book, c):
            print("\n".join(bad))
            print(f"{c.called} is not what the library is: sync {c.id}, then run")
            return 1
        if wrong := run.run(book, c):
            print(wrong)
            return 1
        print(f"{c.called} ran")
    return 0


def do_stage(book: Book, args: Arguments) -> int:
    """Write the library as a chapter leaves it."""
    chapter = book.chapter(args.chapter)
    files = write_stage(book, chapter, args.out.resolve())
    print(f"stage {chapter.id}: {len(files)} files in {args.out}")
    return 0


def do_test(book: Book, args: Arguments) -> int:
    """Run the tests of chapters up to this one on its stage."""
    chapter = book.chapter(args.chapter)
    if not stages.staged_tests(book, chapter, args.only):
        print(f"no tests for stage {chapter.id}")
    with stages.stage_folder(book, chapter) as folder:
        return stages.run_tests(book, chapter, folder, args.only)


def do_stages(book: Book, args: Arguments) -> int:
    """Import and test every stage, as CI does."""
    return complain(stages.all_stages(book, chosen(book, args)), "every stage stands")


def do_diff(book: Book, args: Arguments) -> int:
    """What the chapters after the first, through the second, add."""
    print("\n".join(stages.diff(book, book.chapter(args.one), book.chapter(args.two))))
    return 0


def do_exercise(book: Book, args: Arguments) -> int:
    """Stubs not right, solutions right, hints there."""
    code = 0
    for c in written(book, args):
        with stages.stage_folder(book, c) as folder:
            code |= stages.judge_exercises(book, c, folder)
    print("exercises: " + ("not in order" if code else "in order"))
    return code


def do_new(book: Book, args: Arguments) -> int:
    """Write a chapter's notebook from its source."""
    chapter = book.chapter(args.chapter)
    text = args.source.read_text(encoding="utf-8") if args.source else sys.stdin.read()
    bad = author.new(book, chapter, text)
    where = book.notebook(chapter).relative_to(book.root)
    return complain(
        bad, f"wrote {where}; now: run {chapter.id}, then check {chapter.id}"
    )


def do_text(book: Book, args: Arguments) -> int:
    """A chapter's source, from its notebook."""
    print(author.read_source(book, book.chapter(args.chapter)), end="")
    return 0


def do_outline(book: Book, args: Arguments) -> int:
    """The statements of a chapter's files, with their lines."""
    print("\n".join(author.outline(book, book.chapter(args.chapter))))
    return 0


def do_html(book: Book, args: Arguments) -> int:
    """Static pages of the book, as its notebooks stand."""
    # Here, for the other commands need nothing that is not in Python.
    from . import pages

    tell = pages.progress()
    made = pages.write_pages(book, chosen(book, args), args.out, tell)
    print(f"{len(made)} pages are new; open {made[0]}")
    return 0


def do_lite(book: Book, args: Arguments) -> int:
    """Chapters to be run in a browser, beside the static pages, which link to them."""
    from . import lite

    print("\n".join(lite.write_lite(book, args.out, args.pyodide)))
    args.chapter = None
    return do_html(book, args)


def do_draft(book: Book, args: Arguments) -> int:
    """A first source, with every placeholder."""
    print(author.draft(book, book.chapter(args.chapter)), end="")
    return 0


def do_renumber(book: Book, args: Arguments) -> int:
    """Number the chapters by their order in book.toml, wherever they are named."""
    print("\n".join(renumber.renumber(book)))
    return 0
