"""What a function reads besides its arguments: captured variables and globals.

jit knows a function by its code and by these, not by its address, so that a lambda
made anew in a loop is one function, traced once.

    def scaled(k):
        return lambda x: k * x

    find_captures(scaled(2)).key == find_captures(scaled(2)).key        # True
    find_captures(scaled(2)).key == find_captures(scaled(3)).key        # False

Numbers, strings, tuples and functions count by what they are, everything else by
which object it is.  An object that can change while it stays the same object (a
list, an instance of a class) makes the function itself part of the key: traces of it
are then shared only where JAX would share them too.
"""

import dis
import enum
import functools
import sys
import sysconfig
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from .core import Array, Primitive, Tracer
from .errors import PACKAGE


class Identity:
    """A key for any object, equal only to a key of the very same object.

    It keeps the object alive, so that no other object can get its address.
    """

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self):
        return id(self.value)


class Missing:
    """What a cell or a global holds that has not been assigned yet."""


missing = Missing()


LIBRARIES = (
    PACKAGE,
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")},
    *{sysconfig.get_path(name) for name in ("purelib", "platlib")},
)


def is_library(file):
    """Whether a file is Python's, minijit's or an installed package's.

    What such a file reads is not looked at: it does not change while a program runs.
    """
    return file is None or file.startswith(LIBRARIES) or file.startswith("<frozen")


@dataclass(frozen=True, eq=False)
class Place:
    """Where a function finds a value that is no argument.

    Attributes:
      kind: "captured variable" or "global".
      name: what the code calls it.
      holder: the closure's cell, or the namespace it is looked up in.
      key: its name in that namespace.
    """

    kind: str
    name: str
    holder: Any
    key: str = ""

    def read(self):
        """The value there now, or `missing`."""
        if isinstance(self.holder, dict):
            return self.holder.get(self.key, missing)
        try:
            return self.holder.cell_contents
        except ValueError:
            return missing


@dataclass(frozen=True, eq=False)
class Captures:
    """What `find_captures` found.

    Attributes:
      key: hashable; equal keys mean the same function, as far as one can see.
      values: ((Place, value), ...).
      mutable: the name of a captured value that can change unseen, or None.
      tracers: whether a value of an enclosing trace is among the captured ones.
    """

    key: tuple
    values: tuple
    mutable: str | None
    tracers: bool

    def places(self, kind):
        """((Place, value), ...) of one kind."""
        return tuple(pair for pair in self.values if pair[0].kind == kind)

    def changed(self, kind=None):
        """[(place, value then, value now)] for the places that were assigned to."""
        now = [(place, value, place.read()) for place, value in self.values]
        return [
            (place, then, value)
            for place, then, value in now
            if value is not then and kind in (None, place.kind)
            if scalar_key(value) is None or scalar_key(value) != scalar_key(then)
        ]


def scalar_key(value):
    """A key for a number or a string, by value; None for anything else.

    By its text, because 0.0 == -0.0, nan != nan and 1 == 1.0 == True.
    """
    kind = type(value)
    if kind in (int, bool, str, bytes, type(None)):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    return None


@functools.lru_cache(maxsize=4096)
def global_reads(code):
    """The globals that a code object reads, those of functions within it included.

    Returns:
      Tuple of names, each a tuple: `g` is ("g",), `settings.g` is ("settings", "g").
    """
    reads, todo = {}, [code]
    for code in todo:
        name = ()
        for instruction in dis.get_instructions(code):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                name = (instruction.argval,)
            elif name and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                name = (*name, instruction.argval)
            else:
                name = ()
            if name:
                reads[name] = None
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return tuple(reads)


class CaptureWalk:
    """Collects the parts of a `Captures`, function by function."""

    def __init__(self):
        self.functions = []
        self.values = []
        self.mutable = None
        self.tracers = False

    def key_of(self, name, value):
        """A hashable key for the captured `value`; functions are queued."""
        key = scalar_key(value)
        if key is not None:
            return key
        rule = capture_rules.get(tuple if isinstance(value, tuple) else type(value))
        if rule is not None:
            return rule(self, name, value)
        self.tracers |= isinstance(value, Tracer)
        if not is_immutable(value):
            self.mutable = self.mutable or name
        return Identity(value)

    def at(self, place):
        """The key of the value at a place, which is remembered."""
        value = place.read()
        self.values.append((place, value))
        return self.key_of(place.name, value)

    def queue(self, name, function):
        """The key of a Python function: its number among those met."""
        if is_library(function.__code__.co_filename) and not function.__closure__:
            return Identity(function)
        if vars(function).keys() - {"__wrapped__", "minijit_traces"}:
            self.mutable = self.mutable or f"the attributes of {name}"
        if all(function is not f for f in self.functions):
            self.functions.append(function)
        return "function", [f is function for f in self.functions].index(True)

    def read_function(self, function):
        """The key of all that one Python function reads."""
        code, name = function.__code__, function.__name__
        defaults = {
            **{f"default {i}": v for i, v in enumerate(function.__defaults__ or ())},
            **(function.__kwdefaults__ or {}),
        }
        key = [Identity(code), Identity(function.__globals__)]
        key += [self.key_of(f"{k} of {name}", v) for k, v in defaults.items()]
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        key += [self.at(Place("captured variable", k, cell)) for k, cell in cells]
        if not is_library(code.co_filename):
            paths = global_reads(code)
            key += [self.read_global(function.__globals__, path) for path in paths]
        return tuple(key)

    def read_global(self, namespace, path):
        """The key of `a`, or of `a.b` where `a` is a user's module."""
        *modules, name = path
        for module in modules:
            module = namespace.get(module)
            if type(module) is not types.ModuleType:
                return None
            if is_library(getattr(module, "__file__", None)):
                return None
            namespace = vars(module)
        if name not in namespace:
            return None
        return self.at(Place("global", ".".join(path), namespace, name))


def find_captures(function):
    """Everything that a callable reads besides its arguments: -> `Captures`.

    Python functions are looked into, with the functions they capture and call by a
    global name; methods and partials too; other callables count as one object.
    """
    walk = CaptureWalk()
    if isinstance(function, types.MethodType):
        # As in JAX, a bound method is the same if its object is.
        key = [Identity(function.__self__), walk.key_of("function", function.__func__)]
    elif type(function) in capture_rules:
        key = [walk.key_of("function", function)]
    else:
        key = [Identity(function)]
    for function in walk.functions:
        key.append(walk.read_function(function))
    return Captures(tuple(key), tuple(walk.values), walk.mutable, walk.tracers)


# Captured values that never change; arrays are among them.
immutable_types = (
    Array,
    Primitive,
    np.dtype,
    np.ufunc,
    enum.Enum,
    Missing,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
)


def is_immutable(value):
    """Whether an object stays what it is.  Classes of a user have attributes to set."""
    if not isinstance(value, type):
        return isinstance(value, immutable_types)
    name = value.__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    return name != "__main__" and is_library(file)


def capture_partial(walk, name, value):
    """A partial: its function and its arguments."""
    keywords = [(k, walk.key_of(k, v)) for k, v in value.keywords.items()]
    args = [walk.key_of(f"{name}'s argument {i}", v) for i, v in enumerate(value.args)]
    return "partial", walk.key_of(name, value.func), (*args,), (*keywords,)


def capture_method(walk, name, value):
    """A bound method among the captured values: its function and its object."""
    return "method", walk.queue(name, value.__func__), walk.key_of(name, value.__self__)


# How captured values other than scalars are keyed, by type: (walk, name, value) -> key.
capture_rules = {
    types.FunctionType: CaptureWalk.queue,
    types.ModuleType: lambda walk, name, value: Identity(value),
    types.MethodType: capture_method,
    functools.partial: capture_partial,
    tuple: lambda walk, name, value: (
        type(value),
        *(walk.key_of(name, v) for v in value),
    ),
}


def show(value):
    """A captured or static value in a few words, without addresses."""
    if value is missing:
        return "nothing yet"
    if isinstance(value, (Array, np.ndarray)) and value.ndim > 0:
        return f"an array {value.dtype.name}{list(value.shape)}"
    if isinstance(value, (types.FunctionType, types.ModuleType, type)):
        return value.__name__
    if type(value).__repr__ is object.__repr__:
        return f"a {type(value).__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else text[:37] + "..."
