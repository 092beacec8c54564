"""What a function reads besides its arguments: captured variables and globals.

jit knows a function by its code and by these, not by its address, so that a lambda
made anew in a loop is one function, traced once.

    def scaled(k):
        return lambda x: k * x

    find_captures(scaled(2)).key == find_captures(scaled(2)).key        # True
    find_captures(scaled(2)).key == find_captures(scaled(3)).key        # False

Numbers, strings, tuples and functions count by what they are, everything else by
which object it is.  Where a function reads something that can change while it stays
the same object (a list, an instance of a class, a module that is handed around),
nothing is shared by what it captured: only the very same function has its traces
again, as in JAX.

A key keeps nothing alive: what counts by identity is held weakly, and is among the
`owners` of what is remembered under the key, which goes when one of them does.
"""

import dis
import enum
import functools
import gc
import os
import sys
import types
import warnings
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import function_name
from ..base.config import config
from ..base.demand import importing
from ..base.errors import HERE, PACKAGE, text_of, user_level
from ..core import Array, Primitive, Tracer


class Identity:
    """A key for any object, equal only to a key of the very same object.

    It does not keep the object alive; once that is gone, it equals no other key.  The
    few kinds that have no weak references (dtypes, ufuncs) are kept.
    """

    __slots__ = ("address", "read")

    def __init__(self, value):
        self.address = id(value)
        self.read = weakref.ref(value) if can_be_owner(value) else lambda: value

    def __eq__(self, other):
        if not isinstance(other, Identity):
            return NotImplemented
        value = self.read()
        return self is other or value is not None and value is other.read()

    def __hash__(self):
        return self.address


def can_be_owner(value):
    """Whether there are weak references to an object."""
    return type(value).__weakrefoffset__ != 0


class Missing:
    """What a cell or a global holds that has not been assigned yet."""


missing = Missing()


FIXED = (PACKAGE, os.path.dirname(np.__file__), "<frozen")


@functools.cache
def folders(*names):
    """Folders of the installation, as `sysconfig` names them."""
    with importing():
        import sysconfig

        return tuple({sysconfig.get_path(name) for name in names})


def is_fixed(file):
    """Whether a file is Python's, NumPy's or minijit's.

    What such a file reads is not looked at: it does not change while a program runs.
    """
    if file.startswith(FIXED):
        return True
    standard = file.startswith(folders("stdlib", "platstdlib"))
    return standard and not is_installed(file)


def is_installed(file):
    """Whether a file is of a package that was installed, NumPy's among them."""
    installed = file.startswith(folders("purelib", "platlib"))
    return installed or f"{os.sep}site-packages{os.sep}" in file


def is_library(file):
    """Whether a file is no part of the user's program; None is Python's own."""
    return file is None or is_fixed(file) or is_installed(file)


def is_fixed_module(module):
    """Whether a module's attributes stay what they are while a program runs."""
    if not isinstance(module, types.ModuleType):
        return False
    file = getattr(module, "__file__", None)
    if file is not None:
        return is_fixed(file)
    spec = getattr(module, "__spec__", None)
    return getattr(spec, "origin", None) in ("built-in", "frozen")


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
      owners: the objects that the key knows by which they are.
    """

    key: tuple
    values: tuple
    mutable: str | None
    tracers: bool
    owners: tuple

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


# {code: what `global_reads` found}
found_reads: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def global_reads(code):
    """The globals that a code object reads, those of functions within it included.

    Returns:
      Tuple of names, each a tuple: `g` is ("g",), `settings.g` is ("settings", "g");
      a module that is imported there is ("import", name).
    """
    if code not in found_reads:
        inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
        reads = dict.fromkeys(own_reads(code))
        for part in inner:
            reads |= dict.fromkeys(global_reads(part))
        found_reads[code] = tuple(reads)
    return found_reads[code]


def own_reads(code):
    """What a code object itself reads: see `global_reads`."""
    reads: list = []
    name: tuple = ()
    for instruction in dis.get_instructions(code):
        operation, value = instruction.opname, instruction.argval
        if operation == "EXTENDED_ARG":
            continue
        if name and operation in ("LOAD_ATTR", "LOAD_METHOD"):
            name = (*name, value)
            continue
        reads += [name] * bool(name)
        name = (value,) if operation in GLOBAL_LOADS else ()
        reads += [("import", value)] * (operation == "IMPORT_NAME")
    return reads


# {code: what `assigned_cells` found}
found_cells: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def assigned_cells(code):
    """The captured variables that a code object, or one within it, assigns to."""
    if code not in found_cells:
        inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
        steps = [i for i in dis.get_instructions(code) if i.opname in CELL_STORES]
        names = {i.argval for i in steps}.union(*map(assigned_cells, inner))
        found_cells[code] = names & {*code.co_freevars}
    return found_cells[code]


CELL_STORES = ("STORE_DEREF", "DELETE_DEREF")
GLOBAL_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")

# Built-in functions by which a function reads what its code does not name.
READ_ANYTHING = {"eval", "exec", "globals", "vars", "__import__"}


class CaptureWalk:
    """Collects the parts of a `Captures`, function by function."""

    def __init__(self):
        self.functions = []
        self.values = []
        self.mutable = None
        self.tracers = False
        self.owners = []

    def key_of(self, name, value):
        """A hashable key for the captured `value`; functions are queued."""
        key = scalar_key(value)
        if key is not None:
            return key
        rule = capture_rules.get(type(value))
        if rule is not None:
            return rule(self, name, value)
        self.tracers |= isinstance(value, Tracer)
        return self.identify(name, value, is_immutable(value))

    def identify(self, name, value, immutable=True):
        """The key of a value that counts by which object it is."""
        if not immutable:
            self.mutable = self.mutable or name
        self.owners.append(value)
        return Identity(value)

    def at(self, place):
        """The key of the value at a place, which is remembered."""
        value = place.read()
        self.values.append((place, value))
        return self.key_of(place.name, value)

    def queue(self, name, function):
        """The key of a Python function: its number among those met."""
        file = function.__code__.co_filename
        if is_library(file) and not function.__closure__:
            return self.identify(name, function, is_fixed(file))
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
        file = code.co_filename
        # What an installed package other than NumPy reads is not looked for.
        key = [self.identify(name, code, is_fixed(file) or not is_library(file))]
        key += [self.key_of(f"{k} of {name}", v) for k, v in defaults.items()]
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        # What the function itself assigns, as a counter of its traces, is no reason to
        # trace it again; but another function, which has another counter, is.
        for k in sorted(assigned_cells(code)):
            self.mutable = self.mutable or k
            del cells[k]
        pairs = cells.items()
        key += [self.at(Place("captured variable", k, cell)) for k, cell in pairs]
        if not is_library(file):
            paths = global_reads(code)
            key += [self.read_global(function.__globals__, path) for path in paths]
        return tuple(key)

    def read_global(self, namespace, path):
        """The keys of `a`, and of `a.b` where `a` is a module of the user's."""
        if path[0] == "import":
            if not is_fixed_module(sys.modules.get(path[1])):
                self.mutable = self.mutable or f"the module {path[1]}"
            return None
        if path[0] not in namespace:
            if path[0] in READ_ANYTHING:
                self.mutable = self.mutable or f"what {path[0]} finds"
            return None
        key = []
        for i, name in enumerate(path):
            place = Place("global", ".".join(path[: i + 1]), namespace, name)
            value = place.read()
            if type(value) is not types.ModuleType or is_fixed_module(value):
                return *key, self.at(place)
            # A user's module: what counts is what is read from it.
            self.values.append((place, value))
            key.append(self.identify(place.name, value))
            namespace = vars(value)
        self.mutable = self.mutable or ".".join(path)
        return tuple(key)


def find_captures(function):
    """Everything that a callable reads besides its arguments: -> `Captures`.

    Python functions are looked into, with the functions they capture and call by a
    global name; methods and partials too; other callables count as one object.
    """
    walk = CaptureWalk()
    if type(function) in capture_rules:
        key = [walk.key_of("function", function)]
    else:
        key = [walk.identify("an object", function, can_be_owner(function))]
    for function in walk.functions:
        key.append(walk.read_function(function))
    found = tuple(walk.values), walk.mutable, walk.tracers, tuple(walk.owners)
    return Captures(tuple(key), *found)


# Captured values that never change; arrays are among them.
immutable_types = (
    Array,
    Primitive,
    np.dtype,
    np.ufunc,
    Missing,
    types.MethodDescriptorType,
)


def is_immutable(value):
    """Whether an object stays what it is.  Classes of a user have attributes to set."""
    if isinstance(value, enum.Enum):
        return is_plain_member(value)
    if not isinstance(value, type):
        return isinstance(value, immutable_types)
    return is_fixed_module(sys.modules.get(value.__module__))


def is_plain_member(member):
    """Whether a member of an enum is its name and a number or a string, no more."""
    kinds = [c for c in type(member).__mro__ if not is_immutable(c)]
    names = {n for kind in kinds for n in vars(kind) if not n.startswith("_")}
    names |= {n for n in vars(member) if not n.startswith("_")}
    return not names - set(type(member).__members__) and (
        scalar_key(member.value) is not None
    )


# What `reaches` need not look into, and what it finds in values of some types.
atoms = {int, bool, float, complex, str, bytes, type(None), types.ModuleType, Primitive}
parts: dict = {}


def reaches(roots, owners):
    """Whether objects hold one of `owners`, or a function or a class of the user's.

    If they do, remembering them would keep alive what its owner let go.
    """
    todo, seen, owners = list(roots), set(), set(map(id, owners))
    for value in todo:
        kind = type(value)
        if kind in atoms or id(value) in seen:
            continue
        seen.add(id(value))
        if kind in parts:
            todo += parts[kind](value)
        elif isinstance(value, types.FunctionType):
            if not is_fixed(value.__code__.co_filename):
                return True
            todo += [value.__closure__, value.__defaults__, value.__kwdefaults__]
        elif isinstance(value, type):
            if not is_immutable(value):
                return True
        elif id(value) in owners and not isinstance(value, (np.dtype, np.ufunc)):
            return True
        else:
            todo += gc.get_referents(value)
    return False


def capture_partial(walk, name, value):
    """A partial: its function and its arguments."""
    keywords = [(k, walk.key_of(k, v)) for k, v in value.keywords.items()]
    args = [walk.key_of(f"{name}'s argument {i}", v) for i, v in enumerate(value.args)]
    return "partial", walk.key_of(name, value.func), (*args,), (*keywords,)


def capture_method(walk, name, value):
    """A bound method: its function and its object."""
    function = walk.key_of(name, value.__func__)
    return "method", function, walk.key_of(name, value.__self__)


def capture_builtin(walk, name, value):
    """A built-in function, or a built-in method: its name and its object."""
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        return walk.identify(name, value)
    return "built-in", value.__name__, walk.key_of(name, owner)


# How captured values other than scalars are keyed, by type: (walk, name, value) -> key.
capture_rules = {
    types.FunctionType: CaptureWalk.queue,
    types.ModuleType: lambda walk, name, x: walk.identify(name, x, is_fixed_module(x)),
    types.MethodType: capture_method,
    types.BuiltinFunctionType: capture_builtin,
    functools.partial: capture_partial,
    tuple: lambda walk, name, value: (tuple, *(walk.key_of(name, v) for v in value)),
}


# An object of more parts than that is not printed: its text would be cut, and the
# records of traces show what is captured at each of them.
MOST_PARTS = 40


def is_large(value):
    """Whether an object has so many parts that to print it takes long."""
    todo = [value]
    for _ in range(MOST_PARTS):
        if not todo:
            return False
        x = todo.pop()
        if isinstance(x, dict):
            todo += x.values()
        elif isinstance(x, (list, tuple, set, frozenset)):
            todo.extend(x)
        elif not isinstance(x, (type, types.FunctionType, types.ModuleType)):
            todo += getattr(x, "__dict__", {}).values()
    return True


def show(value):
    """A captured or static value in a few words, without addresses."""
    if value is missing:
        return "nothing yet"
    if isinstance(value, (Array, np.ndarray)) and value.ndim > 0:
        return f"an array {value.dtype.name}{list(value.shape)}"
    if isinstance(value, (types.FunctionType, types.ModuleType, type)):
        return value.__name__
    if type(value).__repr__ is object.__repr__ or is_large(value):
        return f"a {type(value).__name__}"
    text = " ".join(text_of(value).split())
    return text if len(text) <= 40 else text[:37] + "..."


# ---- globals that were assigned after the trace


config.define(
    "captured_globals",
    "ignore",
    "what a jitted function does when a global that it read while it was traced has "
    "changed: ignore (as JAX does), warn, retrace or raise",
    changes_traces=True,
)


class StaleGlobalWarning(UserWarning):
    """A jitted function ran with the value that a global had when it was traced."""


def report_globals(function, changed, mode):
    """Warn of globals that changed since the trace, or raise RuntimeError."""
    name = function_name(function)
    told = "; ".join(
        f"the global {place.name} was {show(then)} when {name} was traced, and is "
        f"{show(now)} now"
        for place, then, now in changed
    )
    text = (
        f"{told}. The call uses the old value.\n  Instead: make it an argument of "
        f'{name}, or jit it with globals="retrace".'
    )
    if mode == "raise":
        raise RuntimeError(text + str(HERE))
    warnings.warn(text, StaleGlobalWarning, stacklevel=user_level())


def watches_globals(options):
    """Whether anything is done about a global that changes."""
    return (options.globals or config.captured_globals) != "ignore"


def globals_changed(function, options, captures):
    """Whether a global changed since the trace, so that a new trace is needed.

    Where the old value is to be used, this warns, or raises RuntimeError.
    """
    changed = captures.changed("global")
    if not changed:
        return False
    mode = options.globals or config.captured_globals
    return mode == "retrace" or report_globals(function, changed, mode)
