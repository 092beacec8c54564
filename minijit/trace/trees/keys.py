"""Keys: what one step down a pytree is called, and how paths of them are written.

    keystr((DictKey("w"), SequenceKey(0)))                              # ['w'][0]
    keystr((DictKey("w"), SequenceKey(0)), simple=True, separator="/")  # w/0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SequenceKey:
    """The step to item `idx` of a list or a tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx}]"


@dataclass(frozen=True)
class DictKey:
    """The step to the value of a dict at `key`."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """The step to the attribute `name`."""

    name: str

    def __str__(self):
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """The step to child number `key` of a container whose type names no keys."""

    key: int

    def __str__(self):
        return f"[<flat index {self.key}>]"


def keystr(path: Any, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `['w'][0].x`; `simple` with a separator "/" gives `w/0/x`."""
    if not simple:
        return separator.join(map(str, path))
    return separator.join(map(simple_key, path))


def simple_key(key):
    """The bare name or number of a key."""
    for field in ("key", "idx", "name"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return str(key)
