"""Make objects that are already in use behave as newly built ones.

A reader edits a function; names imported elsewhere, closures and old instances must see
the edit.  So the old object is changed in place (`Patcher.patch`), and every change
goes through a `Journal`, which can take all of them back if the rest of the cell fails.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

FUNCTION_PARTS = (
    "__code__", "__defaults__", "__kwdefaults__", "__doc__", "__annotations__",
    "__name__", "__qualname__", "__module__",
)  # fmt: skip
CLASS_OWN = ("__dict__", "__weakref__")  # what a class has by itself
Slot = types.MemberDescriptorType
MISSING: Any = object()


class Journal:
    """Changes to objects, each with the way back."""

    def __init__(self) -> None:
        self.back: list[Callable[[], Any]] = []

    def undo(self) -> None:
        """Take everything back, the last change first."""
        while self.back:
            self.back.pop()()

    def set(self, obj: Any, name: str, value: Any) -> None:
        """setattr; on a class, the entry of its own dictionary counts."""
        old = vars(obj).get(name, MISSING) if isinstance(obj, type) else MISSING
        if not isinstance(obj, type):
            old = getattr(obj, name, MISSING)
        setattr(obj, name, value)
        if old is MISSING:
            self.back.append(lambda: delattr(obj, name))
        else:
            self.back.append(lambda: setattr(obj, name, old))

    def delete(self, obj: Any, name: str) -> None:
        """delattr."""
        old = vars(obj)[name]
        delattr(obj, name)
        self.back.append(lambda: setattr(obj, name, old))

    def cell(self, cell: types.CellType, value: Any) -> None:
        """Set the contents of a closure's cell."""
        old = contents(cell)
        cell.cell_contents = value
        if old is not MISSING:
            self.back.append(lambda: setattr(cell, "cell_contents", old))

    def item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of a dictionary, or take it out if `value` is MISSING."""
        old = table.get(key, MISSING)
        put(table, key, value)
        self.back.append(lambda: put(table, key, old))

    def everything(self, cls: type) -> None:
        """Remember a class's whole dictionary."""
        old = dict(vars(cls))

        def restore() -> None:
            for name in [n for n in vars(cls) if n not in old]:
                delattr(cls, name)
            for name, value in old.items():
                if vars(cls).get(name, MISSING) is not value:
                    setattr(cls, name, value)

        self.back.append(restore)

    def contents(self, table: Any) -> None:
        """Remember all of a dict, list or set, to be put back as it was."""
        old = table.copy()

        def restore() -> None:
            table.clear()
            table.extend(old) if isinstance(table, list) else table.update(old)

        self.back.append(restore)


def put(table: dict[Any, Any], key: Any, value: Any) -> None:
    """`table[key] = value`; MISSING takes the entry out."""
    if value is MISSING:
        table.pop(key, None)
    else:
        table[key] = value


def contents(cell: types.CellType) -> Any:
    """What a closure's cell holds; MISSING if nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def is_plain(function: Any) -> bool:
    """Whether it is a function, and no other one in a wrapping."""
    plain = isinstance(function, types.FunctionType)
    return plain and not hasattr(function, "__wrapped__")


class Patcher:
    """Changes old objects into new ones; `failed` says what could not be, and why.

    `owns` tells the package's own modules by name: only instances of its classes are
    changed in place.
    """

    def __init__(self, journal: Journal, owns: Callable[[str], bool]):
        self.journal = journal
        self.owns = owns
        self.failed: list[str] = []

    def patch(self, old: Any, new: Any) -> Any:
        """Make `old` behave as `new`; return what its name is to mean, best `old`."""
        if old is new:
            return old
        inner = getattr(old, "__wrapped__", None)
        if isinstance(inner, types.FunctionType) and is_plain(new):
            # What trace/api/calls.py put around a public function stays around it.
            return old if self.function(inner, new) is inner else new
        if isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
            return self.function(old, new)
        if isinstance(old, type) and isinstance(new, type):
            return self.cls(old, new, frozenset(), frozenset())
        if type(old) is not type(new):
            return new
        if self.owns(type(old).__module__):
            return self.instance(old, new)
        if hasattr(old, "cache_parameters"):
            return self.cached(old, new)
        return new

    def function(self, old: types.FunctionType, new: types.FunctionType) -> Any:
        """A function: its code, defaults and closure."""
        if old.__code__.co_freevars != new.__code__.co_freevars:
            self.failed.append(f"{new.__qualname__} (it captures other variables now)")
            return new
        for a, b in zip(old.__closure__ or (), new.__closure__ or (), strict=True):
            was, now = contents(a), contents(b)
            if same_origin(was, now):
                now = self.function(was, now)
            if now is not MISSING:
                self.journal.cell(a, now)
        for part in FUNCTION_PARTS:
            self.journal.set(old, part, getattr(new, part))
        for name in set(vars(old)) | set(vars(new)):
            if name in vars(new):
                self.journal.set(old, name, vars(new)[name])
            else:
                self.journal.delete(old, name)
        return old

    def cached(self, old: Any, new: Any) -> Any:
        """An `lru_cache`: the function inside."""
        if old.cache_parameters() == new.cache_parameters():
            inner = self.function(old.__wrapped__, new.__wrapped__)
            if inner is old.__wrapped__:
                return old
        else:
            self.failed.append(f"{new.__qualname__} (its cache has other parameters)")
        return new

    def cls(
        self, old: type, new: type, keep: frozenset[str], drop: frozenset[str]
    ) -> Any:
        """A class: its members, so that old instances have the new behaviour.

        `keep` names members that other cells built, `drop` members that only the old
        text had.
        """
        if reason := unpatchable(old, new):
            self.failed.append(f"{new.__qualname__} ({reason})")
            return new
        for name, value in list(vars(new).items()):
            redirect(value, new, old, self.journal)
            if name in CLASS_OWN or name in keep or isinstance(value, Slot):
                continue
            self.journal.set(old, name, self.member(vars(old).get(name), value))
        for name in drop:
            if name in vars(old) and name not in vars(new) and name not in keep:
                self.journal.delete(old, name)
        return old

    def member(self, was: Any, now: Any) -> Any:
        """What a class should hold for a member: a function keeps its identity."""
        if same_origin(was, now):
            return self.function(was, now)
        if isinstance(now, (classmethod, staticmethod)) and type(was) is type(now):
            return type(now)(self.member(was.__func__, now.__func__))
        if isinstance(was, type) and isinstance(now, type):
            return self.cls(was, now, frozenset(), frozenset())
        return now

    def instance(self, old: Any, new: Any) -> Any:
        """An instance of one of the package's classes keeps its identity.

        Not one that is compared by value: it may be a key somewhere, and a changed key
        is lost.  An equal one is as good as the new one.
        """
        by_value: Any = type(old).__eq__
        if by_value is not object.__eq__:
            return old if old == new else new
        for name in attributes(old) | attributes(new):
            value = getattr(new, name, MISSING) if name in attributes(new) else MISSING
            was = getattr(old, name, MISSING)
            change_attribute(old, name, value)
            self.journal.back.append(partial(change_attribute, old, name, was))
        return old


def same_origin(was: Any, now: Any) -> bool:
    """Are these two versions of one function, and not two functions of the library?"""
    if not (
        isinstance(was, types.FunctionType) and isinstance(now, types.FunctionType)
    ):
        return False
    same = was.__qualname__ == now.__qualname__ and was.__module__ == now.__module__
    shared = was.__name__ == "<lambda>" and was in was.__globals__.values()
    return same and not shared


def attributes(obj: Any) -> set[str]:
    """The names an instance itself holds, in its dictionary or in slots."""
    found = set(getattr(obj, "__dict__", {}))
    for cls in type(obj).__mro__:
        slots = {n for n, v in vars(cls).items() if isinstance(v, Slot)}
        found |= {n for n in slots if hasattr(obj, n)}
    return found


def change_attribute(obj: Any, name: str, value: Any) -> None:
    """Set an attribute of a frozen instance too; MISSING takes it away."""
    if value is MISSING:
        if name in attributes(obj):
            object.__delattr__(obj, name)
    else:
        object.__setattr__(obj, name, value)


def unpatchable(old: type, new: type) -> str:
    """Why a class cannot take the place of another, or ""."""
    if old.__bases__ != new.__bases__:
        return "its bases changed"
    if slots(old) != slots(new):
        return "its slots changed"
    if type(old) is not type(new):
        return "its metaclass changed"
    if "_member_map_" in vars(old):
        return "it is an enum"
    if issubclass(old, tuple) and getattr(old, "_fields", ()) != getattr(
        new, "_fields", ()
    ):
        return "its fields changed"
    return ""


def slots(cls: type) -> set[str]:
    """The slots a class adds."""
    return {n for n, v in vars(cls).items() if isinstance(v, Slot)}


def functions_in(value: Any) -> Iterator[types.FunctionType]:
    """The functions a class member is made of."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, (classmethod, staticmethod)):
        yield from functions_in(value.__func__)
    elif isinstance(value, property):
        for f in (value.fget, value.fset, value.fdel):
            yield from functions_in(f)
    elif isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
        yield value.__wrapped__
    elif isinstance(getattr(value, "func", None), types.FunctionType):
        yield value.func  # functools.cached_property and partialmethod


def redirect(value: Any, new: type, old: type, journal: Journal) -> None:
    """In a member's closures, let `old` stand for `new`.

    That is `super()`, `__class__`, and what a frozen dataclass' methods compare with.
    """
    todo = list(functions_in(value))
    seen: set[int] = set()
    while todo:
        f = todo.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        for cell in f.__closure__ or ():
            held = contents(cell)
            if held is new:
                journal.cell(cell, old)
            elif isinstance(held, types.FunctionType):
                todo.append(held)
        if isinstance(getattr(f, "__wrapped__", None), types.FunctionType):
            todo.append(f.__wrapped__)  # type: ignore[attr-defined]
