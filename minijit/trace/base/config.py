"""Flags: what a user may switch, for the process, for a thread, or for a block.

    config.update("jax_enable_x64", True)   # for the process, from now on
    config.enable_x64                       # True; config.jax_enable_x64 as well
    with enable_x64(False):                 # for this thread, inside the block
        ...

The environment sets a flag before the program starts: MINIJIT_ENABLE_X64=1.
A later module adds flags of its own with `config.define`.  Some flags change what
a trace records; `config.trace_key()` is their values, and part of every cache key.
Others change what a call does besides: no call takes a short way while one is set.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .demand import add_rows
from .locks import Lock


class Overrides(threading.local):
    """The flags that `with` blocks have set: one dict for each Python thread."""

    def __init__(self):
        self.values = {}


def from_environment(name, default):
    """The value that MINIJIT_<NAME> gives a flag, or its default."""
    text = os.environ.get(f"MINIJIT_{name.upper()}")
    if text is None or default is None:
        return text or default
    if not isinstance(default, bool):
        return getattr(type(default), "from_text", type(default))(text)
    words = {"1": True, "true": True, "on": True, "yes": True}
    words |= {"0": False, "false": False, "off": False, "no": False, "": False}
    if text.lower() not in words:
        raise ValueError(f"MINIJIT_{name.upper()} must be 0 or 1, got {text!r}")
    return words[text.lower()]


class TraceKey:
    """The values of the flags on which a trace depends: one object for equal ones.

    So it is compared and hashed by which object it is.  Each operation outside a trace
    asks for a table's row by it, and the settings of fusion alone are eighty numbers.
    """

    __slots__ = ("values", "__weakref__")

    def __init__(self, values):
        self.values = values


class Config:
    """All flags by name; `config.enable_x64` reads one."""

    def __init__(self):
        self.values = {}
        self.docs = {}
        self.defaults = {}
        self.first = {}
        self.allowed = {}
        self.renamed = {}
        self.changes_traces = []
        self.changes_calls = []
        self.updates = 0
        self.listeners = []
        self.overrides = Overrides()
        self.keys = weakref.WeakValueDictionary()
        self.new_lock()
        self.process_key = self.plain_key = self.make_key({})
        if hasattr(os, "register_at_fork"):
            # Another thread may hold it while the process forks.
            os.register_at_fork(after_in_child=self.new_lock)

    def new_lock(self):
        self.making_keys = Lock(threading.RLock())

    def define(
        self, name, default, doc, changes_traces=False, changes_calls=False,
        allowed=None,
    ):  # fmt: skip
        """Add a flag.

        Args:
          allowed: the values it may have, or a type of them; any, if it is None.
          changes_traces: caches of traces tell its values apart.
          changes_calls: while it is set, a call does more than its trace says.
        """
        if name not in self.values:
            self.values[name] = self.first[name] = from_environment(name, default)
        self.defaults[name] = default
        self.docs[name] = doc
        self.allowed[name] = allowed
        if changes_traces and name not in self.changes_traces:
            self.changes_traces.append(name)
        if changes_calls and name not in self.changes_calls:
            self.changes_calls.append(name)
        self.make_process_keys()

    def check(self, name, value):
        """The flag's own name, without `jax_` in front, and its value, if it fits.

        A switch takes 0, 1 and None as well, as in JAX.
        """
        name = self.own_name(name)
        self.read(name)
        if isinstance(self.defaults[name], bool):
            if value not in (None, False, True):
                raise TypeError(f"config option {name} must be a bool, got {value!r}")
            value = bool(value)
        allowed = self.allowed[name]
        if isinstance(allowed, type):
            if value is not None and not isinstance(value, allowed):
                raise ValueError(
                    f"new {allowed.__name__} config value must be None or of type "
                    f"{allowed.__name__}, got {value!r} for {name}"
                )
        elif allowed is not None and value not in allowed:
            raise ValueError(
                f"config option {name} must be one of {allowed} here, got {value!r}"
            )
        return name, value

    def own_name(self, name):
        """What a flag of JAX's is called here."""
        name = name.removeprefix("jax_")
        if name not in self.values:
            add_rows("trace.base.config")
        return self.renamed.get(name, name)

    def read(self, name):
        """The value of a flag here: this thread's, else the process's."""
        name = self.own_name(name)
        for values in (self.overrides.values, self.values):
            if name in values:
                return values[name]
        import difflib

        near = difflib.get_close_matches(name, self.values, 3, 0.8)
        known = ", ".join(near or sorted(self.values))
        raise AttributeError(
            f"Unrecognized config option: {name}. Did you mean one of: {known}?"
        )

    def update(self, name: str, val: Any) -> None:
        """Set a flag for the whole process, as `jax.config.update` does."""
        name, val = self.check(name, val)
        try:
            self.values[name] = val
            self.make_process_keys()
            self.updates += 1
        finally:
            # What is ready for the old value goes, also where Ctrl-C comes in between.
            for told in self.listeners:
                told()

    @contextmanager
    def override(self, name, value=True):
        """Set a flag for this thread while a `with` block runs."""
        name, value = self.check(name, value)
        before = self.overrides.values
        self.overrides.values = {**before, name: value}
        try:
            yield
        finally:
            self.overrides.values = before

    def __getattr__(self, name):
        # Python asks here only for what is no ordinary attribute: a flag.
        for values in (self.overrides.values, self.values):
            if name in values:
                return values[name]
        if name.startswith("__"):
            raise AttributeError(name)
        self.own_name(name)  # What JAX's has besides flags comes with JAX's flags.
        return vars(self)[name] if name in vars(self) else self.read(name)

    def trace_key(self):
        """The `TraceKey` of the flags that are set here: a part of cache keys."""
        overridden = self.overrides.values
        if not overridden:
            return self.process_key
        return self.make_key({**self.values, **overridden})

    @property
    def is_plain(self):
        """Whether surely no flag changes here what calls do: a quick look."""
        return self.plain_key is not None and not self.overrides.values

    def calls_are_plain(self):
        """Whether no flag is set here that changes what calls do."""
        return not any(self.read(name) for name in self.changes_calls)

    def make_process_keys(self):
        """Of the flags of the process; `plain_key` is None if one changes calls."""
        self.process_key = self.make_key(self.values)
        plain = not any(self.values[name] for name in self.changes_calls)
        self.plain_key = self.process_key if plain else None

    def make_key(self, values):
        # Only what has changed, so that a flag that is defined later, be it set by the
        # environment, leaves the keys of earlier traces as they are.
        pairs = ((name, values[name]) for name in self.changes_traces)
        values = tuple(pair for pair in pairs if pair[1] != self.first[pair[0]])
        with self.making_keys:
            key = self.keys.get(values) or TraceKey(values)
            self.keys[values] = key
        return key


config = Config()
config.define(
    "enable_x64", False, "keep 64-bit types, and default to them", changes_traces=True
)
config.define(
    "disable_jit", False, "run jitted functions as plain Python", changes_calls=True
)
config.define(
    "numpy_dtype_promotion", "standard",
    "arrays of different dtypes: promote them, or raise (strict)", changes_traces=True,
    allowed=("standard", "strict"),
)
config.define(
    "numpy_rank_promotion", "allow",
    "arrays with different numbers of axes: broadcast them (allow), warn or raise",
    changes_traces=True, allowed=("allow", "warn", "raise"),
)
config.define("log_compiles", False, "print a line for each trace and each compile")
# A trace that is reused cannot be searched for leaks, so the flag makes new ones.
config.define(
    "check_tracer_leaks", False, "raise where a tracer outlives its trace",
    changes_traces=True,
)
config.define("debug_checks", False, "check every jaxpr and loop program made")
config.define(
    "traceback_filtering", "auto", '"off": errors show the frames of minijit as well',
    allowed=("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"),
)


def jit_is_disabled():
    """Whether `disable_jit` is in force in this thread; asked at each call."""
    overrides = config.overrides.values
    flag = config.values["disable_jit"]
    return overrides.get("disable_jit", flag) if overrides else flag


def enable_x64(new_val: bool = True) -> AbstractContextManager[Any]:
    """`with enable_x64(True):` keeps 64-bit types.  JAX: `jax.enable_x64`."""
    return config.override("enable_x64", new_val)


def disable_jit(disable: bool = True) -> AbstractContextManager[Any]:
    """`with disable_jit():` runs jitted functions as Python.  JAX: same name."""
    return config.override("disable_jit", disable)


def log_compiles(do_log: bool = True) -> AbstractContextManager[Any]:
    """`with log_compiles():` prints each trace and compile.  JAX: same name."""
    return config.override("log_compiles", do_log)


def checking_leaks() -> AbstractContextManager[Any]:
    """`with checking_leaks():` finds the line that keeps a tracer.  JAX: same name."""
    return config.override("check_tracer_leaks", True)
