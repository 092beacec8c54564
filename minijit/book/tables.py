"""Which entries a statement put into the module-level dicts, lists and sets.

Tables grow by `rules |= {...}`, one statement a family.  When a reader edits such a
statement, or takes a row out of it, the entries of the old text must go first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .patch import MISSING, Journal, put

Tables = dict[int, tuple[Any, Any]]  # id -> (table, a copy of it)


@dataclass
class Row:
    """One entry that a statement set: `before` is what was there, MISSING if nothing.

    In a list or set, `after` is the item itself.
    """

    table: Any
    key: Any
    before: Any
    after: Any


def snapshot(modules: Iterable[ModuleType]) -> Tables:
    """Every module-level dict, list and set, with a copy."""
    found: Tables = {}
    for module in modules:
        for name, value in list(vars(module).items()):
            if type(value) in (dict, list, set) and not name.startswith("__"):
                found[id(value)] = (value, value.copy())
    return found


def restore(tables: Tables) -> None:
    """Put every table back as it was."""
    for table, copy in tables.values():
        same = len(table) == len(copy)
        if type(table) is dict and not (
            same and all(table.get(k, MISSING) is v for k, v in copy.items())
        ):
            table.clear()
            table.update(copy)
        elif type(table) is list:
            table[:] = copy
        elif type(table) is set and not same:
            table.clear()
            table.update(copy)


def added(tables: Tables) -> list[Row]:
    """What has changed in the tables since they were taken."""
    rows: list[Row] = []
    for table, copy in tables.values():
        if type(table) is dict:
            for key in [*table, *[k for k in copy if k not in table]]:
                before, after = copy.get(key, MISSING), table.get(key, MISSING)
                if before is not after:
                    rows.append(Row(table, key, before, after))
        elif type(table) is list:
            rows += [Row(table, None, MISSING, x) for x in table[len(copy) :]]
        else:
            rows += [Row(table, None, MISSING, x) for x in table - copy]
    return rows


def contents_of(table: Any) -> list[Row]:
    """All entries of a table, as rows of the statement that made it."""
    if type(table) is dict:
        return [Row(table, k, MISSING, v) for k, v in table.items()]
    return [Row(table, None, MISSING, x) for x in table]


def take_back(rows: Iterable[Row], journal: Journal) -> None:
    """Undo the rows of a statement, but not what a later one has set anew."""
    for row in reversed(list(rows)):
        table = row.table
        if type(table) is dict:
            if table.get(row.key, MISSING) is row.after:
                journal.item(table, row.key, row.before)
        else:
            journal.contents(table)
            if type(table) is set:
                table.discard(row.after)
            elif index := [i for i, x in enumerate(table) if x is row.after]:
                del table[index[-1]]


def move_in(old: Any, new: Any, journal: Journal) -> list[Row]:
    """Put the entries of a newly made table into the old one, which keeps its identity.

    What other statements have put there stays.
    """
    journal.contents(old)
    if type(old) is dict:
        rows = [Row(old, k, MISSING, v) for k, v in new.items() if k not in old]
        for row in rows:
            put(old, row.key, row.after)
        return rows
    if type(old) is set:
        old |= new
    else:
        old[:0] = new
    return [Row(old, None, MISSING, x) for x in new]


def rename(rows: list[Row], new: Any, kept: Any) -> None:
    """Where a statement's rows hold the new object, let them hold the one it became."""
    for row in rows:
        if row.after is new:
            row.after = kept
            if type(row.table) is dict:
                row.table[row.key] = kept
            elif type(row.table) is list:
                row.table[:] = [kept if x is new else x for x in row.table]
        if row.key is new and type(row.table) is dict:
            row.table[kept] = row.table.pop(new, row.after)
            row.key = kept
