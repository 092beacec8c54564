"""What the traces of `jit`, and jitted functions, need beside the idea.

An `Entry` of `jit.py` is compiled by one thread, deletes what was donated, and passes
on the values of refs (`Upkeep`).  A `JitFunction` takes the short way of a call if one
is ready, sees that what it captured has changed, and can be copied, bound as a method
and lowered (`Jitted`).
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic

from ..arguments import function_name, leaf_avals
from ..array import is_array_like
from ..base.config import config, jit_is_disabled
from ..base.frames import leave_out_frames
from ..base.turns import Turn, lock, turns
from ..core import BottomTrace, current, result_checks
from ..jaxprs.jaxpr import ClosedJaxpr
from ..primitives import full
from ..trees.pytree import PyTreeDef
from ..types import Args, Result
from .captures import globals_changed, watches_globals
from .donation import delete_donated, donations, passed_on, refuse_twice, renewed
from .refs import Ref, RefsOutside
from .retrace import TraceRecord, Traces, finished, log_compile, trace_list
from .signature import Options, leaf_names, sort_arguments
from .stores import Shortcuts, Table, generation, missed

if TYPE_CHECKING:
    from ..api.stages import Lowered


@dataclass(eq=False)
class Upkeep:
    """What an `Entry` keeps, and what it does for its arrays and for threads.

    Attributes:
      name, closed, tracers, out_tree: see `Entry`.
      refs: the mutable arrays that it uses, or None.
      record, traces: its row in `traces`, which is kept for the functions to come.
      options: the function's.
      donated: one bool a leaf.
      donations: what becomes of donated leaves.
      unflatten: from the list of results to what the function returns.
      executable: what the executor made of the jaxpr, once it was asked.
      renewed: positions of results that need objects of their own.
      unread: positions of leaves that the jaxpr does not use.
    """

    name: str
    closed: ClosedJaxpr
    tracers: tuple
    out_tree: PyTreeDef
    refs: RefsOutside | None
    record: TraceRecord
    traces: Traces
    options: Options
    donated: tuple
    executable: Any = field(default=None, init=False)
    renewed: tuple = field(default=(), init=False)

    def __post_init__(self):
        of_leaves = slice(len(self.tracers), len(self.tracers) + len(self.donated))
        self.unread = unread(self.closed.jaxpr, of_leaves)
        if self.refs is not None:
            self.donated += (False,) * len(self.refs.captured)
        of_tracers = (False,) * len(self.tracers)
        self.donations = donations(
            self.closed.jaxpr, of_tracers + self.donated, self.options.keep_unused
        )
        is_single = self.out_tree.num_nodes == self.out_tree.num_leaves == 1
        self.unflatten = itemgetter(0) if is_single else self.out_tree.unflatten

    def with_refs(self, use, leaves):
        """The results of `use`, which takes and gives the values of refs as well."""
        return use(leaves) if self.refs is None else self.refs.call(use, leaves)

    def with_values(self, leaves):
        """The leaves, with zeros in place of shapes with a dtype that nobody reads."""
        valued = lambda x: is_array_like(x) or isinstance(x, Ref)
        only_typed = [i for i in self.unread if not valued(leaves[i])]
        if not only_typed:
            return leaves
        leaves = list(leaves)
        for i in only_typed:
            leaves[i] = full(leaves[i].shape, 0, leaves[i].dtype)
        return leaves

    def made_by(self, compiled_call):
        """Hand the jaxpr to the executor, unless that was done before."""
        turn = Turn(self)
        with turn.lock, turns.claim(turn):
            if self.executable is not None:
                return self.executable
            self.donations.tell()
            start = time.perf_counter()
            given = self.name, self.options.executor, self.donations.pairs
            run = compiled_call(self.closed, *given)
            self.record.compile_ms = 1e3 * (time.perf_counter() - start)
            for told in finished:
                told("compile", self.name, start)
            for primitive, reason in getattr(run, "fallbacks", ()):
                self.record.why += f"\n  {primitive} is not compiled: {reason}"
            log_compile(self.name, self.record)
            self.renewed = passed_on(self.closed.jaxpr)
            self.executable = run
        return run

    def guarded(self, run, primitive, leaves):
        """The results of `run` for concrete leaves, of which some are given away."""
        if True in self.donated:
            refuse_twice(leaves, self.donations)
        results = run(*leaves)
        for check in result_checks:
            check(primitive, leaves, {"name": self.name, "jaxpr": self.closed}, results)
        for i in self.renewed:
            results[i] = renewed(results[i])
        if True in self.donated:
            delete_donated(leaves, self.donations.deleted)
        return results

    def params(self):
        """What a call's equation says of its arguments, if that is not the usual."""
        params = {}
        if True in self.donated:
            params["donated_invars"] = (*[False] * len(self.tracers), *self.donated)
        if self.options.keep_unused:
            params["keep_unused"] = True
        return params


def unread(jaxpr, of_leaves):
    """Positions among some of the inputs of those that are not used."""
    read = {v for eqn in jaxpr.eqns for v in eqn.invars} | {*jaxpr.outvars}
    return tuple(i for i, v in enumerate(jaxpr.invars[of_leaves]) if v not in read)


# type of an executable -> what may make a call ready for the next time: a function of
# (JitFunction, Entry, args, kwargs, leaves, `config.updates` before they were sorted).
shortcut_makers: dict = {}
overrides = config.overrides
# What becomes of an entry outside a call: "lowered" is filled in by a later module.
stages: dict = {}


class Jitted(Generic[Args, Result]):
    """What a jitted function is for Python, and how its traces stay true.

    Attributes:
      function, options: what it was made of.
      traces: a table for its user: what was traced, and why.
      entries: {signature: `Entry`}, where a call looks first.
      cells, watched: what it captured, to see whether that has changed.
      shortcuts: calls made ready, by a later module.
      generation: another object once its traces were cleared.
    """

    # (args, kwargs) -> (leaves, `Entry`)
    look_up: Callable
    traces: Any

    def __init__(self, function, options):
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self.traces = trace_list(function, options)
        self.entries = Table()
        self.cells = ()
        self.watched = Table()
        self.shortcuts = Shortcuts()
        self.generation = None

    @property
    def __signature__(self):
        return inspect.signature(self.function)

    def __dir__(self):
        """What users know of it, and what the function itself has."""
        known = {"clear_cache", "eval_shape", "lower", "trace", "traces"}
        special = {name for name in object.__dir__(self) if name.startswith("__")}
        return sorted(known | special)

    def __repr__(self):
        return f"<jitted function {function_name(self.function)}>"

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        plain = type(current.trace) is BottomTrace and not overrides.values
        if plain:
            for call in self.shortcuts.calls:
                result = call(args, kwargs)
                if result is not missed:
                    return result
        if jit_is_disabled():
            return self.function(*args, **kwargs)
        updates = config.updates
        try:
            leaves, entry = self.look_up(args, kwargs)
            result = entry(entry.with_values(leaves))
            # A shortcut asks for no flags: none is made where one is set for now.
            if plain and entry.refs is None:
                if make := shortcut_makers.get(type(entry.executable)):
                    make(self, entry, args, kwargs, leaves, updates)
        except Exception as error:
            leave_out_frames(error, sys._getframe(1))
            raise
        return result

    def check_leaves(self, call, leaves):
        """A TypeError that names the argument of a call that is no array, if one is."""
        leaf_avals(leaves, leaf_names(self.function, call), self.function)

    def remember(self, key, entry, captures, era):
        """Put an entry into this function's own table."""
        with lock:
            if self.has_new_cells():
                self.entries.clear()
                self.watched.clear()
                self.shortcuts.clear()
            # An entry that holds tracers must not outlive the trace around it, and
            # one whose caches were cleared meanwhile serves this call only.
            cleared = era != (generation[0], self.generation)
            if captures.tracers or entry.tracers or cleared:
                return
            self.cells = captures.places("captured variable")
            self.entries[key] = entry
            if watches_globals(self.options):
                self.watched[key] = captures

    def has_new_cells(self):
        """Whether a captured variable was assigned since the last trace."""
        return any(place.read() is not value for place, value in self.cells)

    def is_stale(self, key):
        """Whether what the function captured has changed since its trace."""
        if not (self.cells or self.watched):
            return False
        if self.has_new_cells():
            return True
        captures = self.watched.get(key)
        return captures and globals_changed(self.function, self.options, captures)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function traced for these arguments, or for their shapes: `Lowered`."""
        leaves, entry = self.look_up(args, kwargs)
        call = sort_arguments(self.options, args, kwargs)
        return stages["lowered"](entry, (call.args, call.kwargs))

    trace = lower

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The result's shapes and dtypes: a tree of `ShapeDtypeStruct`."""
        return self.lower(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget this function's traces; the next call makes new ones."""
        with lock:
            self.entries.clear()
            self.watched.clear()
            self.shortcuts.clear()
            self.generation = object()

    def _cache_size(self):
        """How many signatures can be called without tracing."""
        return len(self.entries)

    def __reduce__(self):
        # A copy, deep or not, is jitted anew.
        return type(self), (self.function, self.options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)
