"""What building has done: a record for each unit, and the edit that is under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .patch import Journal, Patcher
from .tables import Row
from .units import Unit


@dataclass
class Record:
    """What running a unit did: enough to know when to run it again, and to replace it.

    `cell` is the id of the notebook's cell, where the front end tells it; `before` is
    what another cell, or the stage, had made of the unit.  `gone` says that the reader
    took the statement out of its cell again.
    """

    unit: Unit
    cell: str | None
    values: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    staged: bool = False
    gone: bool = False
    before: Record | None = None


@dataclass
class Edit:
    """One run of a cell: what changed so far, and how to take it back."""

    journal: Journal
    patcher: Patcher
    cell: str | None = None
    told: list[str] = field(default_factory=list)
    dirty: dict[int, Any] = field(
        default_factory=dict
    )  # what acts otherwise now, by id
    replaced: dict[tuple[str, str], tuple[Any, Any]] = field(default_factory=dict)
    ran: set[tuple[str, str]] = field(default_factory=set)
    again: list[str] = field(default_factory=list)  # statements run again for that
    clear: bool = False
