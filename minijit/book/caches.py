"""Caches: after an edit, whatever was remembered from before it must go."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any


def clear_caches(modules: list[ModuleType]) -> None:
    """Clear every cache of the package.

    That is: `cache_clear` of whatever a module or a class holds, the members of a
    module's `caches`, and each module's `clear_caches()`.
    """
    hooks: dict[int, Callable[[], Any]] = {}
    for module in modules:
        for name, value in list(vars(module).items()):
            held = [value, *(vars(value).values() if isinstance(value, type) else ())]
            if name == "caches" and not isinstance(value, ModuleType):
                held += list(value.values() if isinstance(value, dict) else value)
            for thing in held:
                if (clear := static_method(thing, "cache_clear")) is not None:
                    hooks[id(thing)] = clear
            if name == "clear_caches" and callable(value):
                hooks[id(value)] = value
    for clear in hooks.values():
        clear()


def static_method(thing: Any, name: str) -> Callable[[], Any] | None:
    """A method, found without running anybody's `__getattr__`."""
    if isinstance(thing, type) or inspect.getattr_static(thing, name, None) is None:
        return None
    found = getattr(thing, name)
    return found if callable(found) else None
