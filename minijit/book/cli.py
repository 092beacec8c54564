"""The book's commands: `python -m minijit.book COMMAND`, or by path."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from . import author, check, pages, run, stages, sync
from .project import Book, BookError, Chapter, find_book
from .stage import write_stage

Arguments = argparse.Namespace


def main(argv: list[str]) -> int:
    """Run one command; its exit code."""
    args = parser().parse_args(argv)
    try:
        book = find_book(args.root)
        return COMMANDS[args.command](book, args)
    except BookError as e:
        print(e, file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    top = argparse.ArgumentParser(prog="python -m minijit.book", description=__doc__)
    top.add_argument("--root", type=Path, help="a folder of the repository")
    sub = top.add_subparsers(dest="command", required=True)

    def command(name: str, help: str, *arguments: str) -> argparse.ArgumentParser:
        p = sub.add_parser(name, help=help, description=help)
        for a in arguments:
            p.add_argument(a.rstrip("?"), nargs="?" if a.endswith("?") else None)
        return p

    p = command("check", "prove that the book shows the library and ran", "chapter?")
    p.add_argument("--complete", action="store_true", help="nothing may be pending")
    command("sync", "library -> build cells, after an edit", "chapter?")
    command("run", "execute chapters and store their outputs", "chapter?")
    p = command("stage", "write the library as a chapter leaves it", "chapter")
    p.add_argument("--out", type=Path, required=True)
    p = command(
        "test", "run the tests of chapters up to this one on its stage", "chapter"
    )
    p.add_argument("--only", action="store_true", help="this chapter's own tests only")
    command("stages", "import and test every stage, as CI does", "chapter?")
    command(
        "diff",
        "what the chapters after the first, through the second, add",
        "one",
        "two",
    )
    command("exercise", "stubs not right, solutions right, hints there", "chapter?")
    p = command("new", "write a chapter's notebook from its source", "chapter")
    p.add_argument(
        "source", nargs="?", type=Path, help="Markdown; standard input if left out"
    )
    command("text", "a chapter's source, from its notebook", "chapter")
    command(
        "outline", "the statements of a chapter's files, with their lines", "chapter"
    )
    p = command("html", "static pages of the book, as its notebooks stand", "chapter?")
    p.add_argument("--out", type=Path, default=Path("html"), help="default: html")
    command("draft", "a first source, with every placeholder", "chapter")
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


def do_check(book: Book, args: Arguments) -> int:
    bad = check.check(book, chosen(book, args), args.complete)
    waiting, total = check.pending_lines(book)
    later = f"; {waiting} of {total} lines wait for their chapter" if waiting else ""
    return complain(bad, f"book and library agree{later}")


def do_sync(book: Book, args: Arguments) -> int:
    print("\n".join(sync.sync(book, chosen(book, args))) or "nothing to do")
    return 0


def do_run(book: Book, args: Arguments) -> int:
    for c in written(book, args):
        if bad := check.unlike_library(book, c):
            print("\n".join(bad))
            print(f"chapter {c.id} is not what the library is: sync {c.id}, then run")
            return 1
        if wrong := run.run(book, c):
            print(wrong)
            return 1
        print(f"chapter {c.id} ran")
    return 0


def do_stage(book: Book, args: Arguments) -> int:
    chapter = book.chapter(args.chapter)
    files = write_stage(book, chapter, args.out.resolve())
    print(f"stage {chapter.id}: {len(files)} files in {args.out}")
    return 0


def do_test(book: Book, args: Arguments) -> int:
    chapter = book.chapter(args.chapter)
    if not stages.staged_tests(book, chapter, args.only):
        print(f"no tests for stage {chapter.id}")
    with stages.stage_folder(book, chapter) as folder:
        return stages.run_tests(book, chapter, folder, args.only)


def do_stages(book: Book, args: Arguments) -> int:
    return complain(stages.all_stages(book, chosen(book, args)), "every stage stands")


def do_diff(book: Book, args: Arguments) -> int:
    print("\n".join(stages.diff(book, book.chapter(args.one), book.chapter(args.two))))
    return 0


def do_exercise(book: Book, args: Arguments) -> int:
    code = 0
    for c in written(book, args):
        with stages.stage_folder(book, c) as folder:
            code |= stages.judge_exercises(book, c, folder)
    print("exercises: " + ("not in order" if code else "in order"))
    return code


def do_new(book: Book, args: Arguments) -> int:
    chapter = book.chapter(args.chapter)
    text = args.source.read_text(encoding="utf-8") if args.source else sys.stdin.read()
    bad = author.new(book, chapter, text)
    where = book.notebook(chapter).relative_to(book.root)
    return complain(
        bad, f"wrote {where}; now: run {chapter.id}, then check {chapter.id}"
    )


def do_text(book: Book, args: Arguments) -> int:
    print(author.read_source(book, book.chapter(args.chapter)), end="")
    return 0


def do_outline(book: Book, args: Arguments) -> int:
    print("\n".join(author.outline(book, book.chapter(args.chapter))))
    return 0


def do_html(book: Book, args: Arguments) -> int:
    made = pages.write_pages(book, chosen(book, args), args.out)
    print(f"{len(made)} pages; open {made[0]}")
    return 0


def do_draft(book: Book, args: Arguments) -> int:
    print(author.draft(book, book.chapter(args.chapter)), end="")
    return 0


COMMANDS: dict[str, Callable[[Book, Arguments], int]] = {
    "check": do_check,
    "sync": do_sync,
    "run": do_run,
    "stage": do_stage,
    "test": do_test,
    "stages": do_stages,
    "diff": do_diff,
    "exercise": do_exercise,
    "new": do_new,
    "text": do_text,
    "outline": do_outline,
    "draft": do_draft,
    "html": do_html,
}
