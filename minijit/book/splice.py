"""Put what a reader wrote in build cells into the text of the library's files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .project import CUT, Book
from .text import Statement, match, members, pieces
from .units import Unit


@dataclass(frozen=True)
class Change:
    """Lines first..last of a file, both included, become a text.

    With `last` before `first` the text is put in between.
    """

    first: int
    last: int
    text: str


def overlaid(book: Book, cells: Iterable[Sequence[Unit]], out: Path) -> Book:
    """Write the library into `out` with the cells' text in it; the book of that."""
    changes: dict[str, list[Change]] = {}
    for units in cells:
        if units:
            changes.setdefault(units[0].file, []).extend(changes_of(units))
    for file in book.library():
        path = out / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changed(book, file, changes.get(file, [])), encoding="utf-8")
    return replace(book, root=out, home=book.base)


def changed(book: Book, file: str, changes: list[Change]) -> str:
    """A file's text with some changes; of several to the same lines the last one."""
    lines = book.lines(file)
    last = {(c.first, c.last): c for c in changes if c.last >= c.first}
    changes = [c for c in changes if c is last.get((c.first, c.last), c)]
    # From the end on; of several at one place the last one first.
    for c in reversed(sorted(changes, key=lambda c: (c.first, c.last))):
        lines[c.first - 1 : max(c.last, c.first - 1)] = c.text.split("\n")
    return "\n".join(lines)


def changes_of(units: Sequence[Unit]) -> Iterator[Change]:
    """What a cell changes, statement by statement.

    A statement of the reader's own goes behind the one that stands above it in the
    cell, or before the one below it.
    """
    pairs: list[tuple[Statement, Statement | None]] = []
    for unit in units:
        pairs += matched(unit)
        if unit.book is not None and is_class(unit.mine) and is_class(unit.book):
            yield from left_out(unit.mine, unit.book)
    known = [theirs for _, theirs in pairs if theirs is not None]
    at = known[0].first if known else 10**6
    for mine, theirs in pairs:
        if theirs is None:
            yield Change(at, at - 1, f"\n\n{mine.text}\n\n")
            continue
        at = theirs.last + 1
        if mine.text != theirs.text:
            yield Change(theirs.first, theirs.last, with_cuts(mine.text, theirs.text))


def matched(unit: Unit) -> list[tuple[Statement, Statement | None]]:
    """The pieces of a unit, each with the book's that it stands for."""
    if unit.book is not None and is_class(unit.mine) and is_class(unit.book):
        return match_members(unit.mine, unit.book)
    return [(unit.mine, unit.book)]


def defined(units: Iterable[Unit]) -> set[str]:
    """What some units define in place of the book's: functions, `Class.method`."""
    pairs = [pair for unit in units for pair in matched(unit)]
    return {theirs.key for _, theirs in pairs if theirs is not None}


def is_class(s: Statement) -> bool:
    """Does a statement define a class?"""
    return isinstance(s.node, ast.ClassDef)


def match_members(
    mine: Statement, theirs: Statement
) -> list[tuple[Statement, Statement | None]]:
    """The pieces of a class, each with the book's: its head, then its members."""
    (my_head, *my_members), (head, *rest) = pieces(mine), pieces(theirs)
    return [(my_head, head), *match(my_members, rest)]


def left_out(mine: Statement, theirs: Statement) -> Iterator[Change]:
    """Members that the cell must have left out: the book has them between others."""
    pairs = match_members(mine, theirs)
    there = [b for _, b in pairs if b is not None]
    last = max(b.last for b in there)
    for member in members(theirs)[1:]:
        if member.last < last and member not in there:
            yield Change(member.first, member.last, "")


def with_cuts(mine: str, theirs: str) -> str:
    """A text with the lines `# chapter 7` that stand above the book's."""
    above = [line for line in theirs.split("\n") if CUT.match(line)]
    gone = [line for line in above if line not in mine.split("\n")]
    return "\n".join([*gone, mine])
