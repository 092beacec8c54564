"""jit: trace a function once for each signature, and run the jaxpr from then on.

    @jit
    def f(x):
        print("tracing")
        return 2 * x + 1

    f(3.0)            # prints "tracing"
    f(4.0)            # does not: the jaxpr of the signature f32[] is there already
    f.traces          # what was traced, what it cost, and why it was no hit

What runs a jaxpr is a row of the table `executors`.  This module has the plainest,
"eval", which binds one primitive after the other; later modules add compilers.
"""

import functools
import inspect
import sys
import time
import types
from dataclasses import dataclass

from .advice import leaked_tracer
from .arguments import TraceInfo, function_name, function_source, leaf_avals, whole_type
from .array import ArrayImpl, ShapedArray, shape_rules
from .captures import capture_rules, find_captures
from .config import config, jit_is_disabled
from .core import (
    EvalTrace,
    Primitive,
    Tracer,
    current,
    eval_rules,
    result_checks,
    set_trace,
)
from .donation import (
    delete_donated,
    donated_leaves,
    donations,
    passed_on,
    refuse_twice,
    renewed,
)
from .frames import leave_out_frames
from .jaxpr import ClosedJaxpr, encloses, eval_jaxpr, trace_to_jaxpr
from .jaxpr_memory import forget_jaxprs, memoised
from .primitives import as_array
from .pytree import PyTreeDef, tree_flatten, tree_unflatten
from .refs import Ref, RefsInside, RefsOutside
from .results import check_results
from .retrace import (
    TraceRecord,
    Traces,
    add_record,
    log_compile,
    new_record,
    note_nesting,
    trace_list,
)
from .signature import (
    Options,
    check_options,
    flatten_arguments,
    leaf_names,
    sort_arguments,
    static_key,
)
from .stale_globals import globals_changed, watches_globals
from .stores import Shortcuts, Table, generation, keep_entry, kept_entry, missed, stores
from .tree_paths import tree_flatten_with_path
from .turns import Turn, lock, one_at_a_time, turns

jit_p = Primitive("jit", multiple_results=True)

# name -> compile(closed_jaxpr, name) -> callable(*leaves) -> list of arrays
executors = {}
# compile -> compile(closed_jaxpr, name, pairs=) -> callable as above, whose results may
# have the memory of arguments: pairs of positions, (argument, result).
donors: dict = {}


@memoised
@one_at_a_time
def compiled_call(closed, name, executor, pairs=()):
    """What the executor makes of a closed jaxpr."""
    make = executors[executor]
    if pairs and make in donors:
        return donors[make](closed, name, pairs=pairs)
    return make(closed, name)


def eval_call(*args, name, jaxpr, **params):
    """A call where values are known: compile once, then run."""
    return compiled_call(jaxpr, name, "default")(*args)


def shape_of_call(*avals, jaxpr, **params):
    """The avals of a call's results are those of the jaxpr it calls."""
    return jaxpr.out_avals


eval_rules |= {jit_p: eval_call}
shape_rules |= {jit_p: shape_of_call}


class PlainTrace(EvalTrace):
    """Evaluates calls too equation by equation: nothing within is compiled."""

    def process(self, primitive, args, params):
        if primitive is not jit_p:
            return super().process(primitive, args, params)
        closed = params["jaxpr"]
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def compile_for_eval(closed, name):
    """The executor "eval": run the jaxpr by the primitives' eval rules."""
    avals = closed.in_avals

    def run(*leaves):
        arrays = map(as_array, leaves, avals)
        with set_trace(PlainTrace()):
            results = eval_jaxpr(closed.jaxpr, closed.consts, *arrays)
        return list(map(as_array, results))

    return run


executors |= {"eval": compile_for_eval, "default": compile_for_eval}


def leaf_key(x):
    """What a trace depends on of one leaf: its type, and whether it is a ref."""
    if isinstance(x, ArrayImpl):
        aval = x.aval
    elif isinstance(x, Tracer):
        if not encloses(current.trace, x.owner):
            raise leaked_tracer("a jitted function", x)
        aval = x.aval
    elif isinstance(x, Ref):
        return x.shape, x.dtype, x.weak_type, Ref
    else:
        aval, = leaf_avals([x], ["?"], leaf_key)
    key = aval.shape, aval.dtype, aval.weak_type
    # The dtypes of types without elements are equal.
    return (*key, aval) if aval.dtype == object else key


def aval_of_leaf(x):
    """The aval of a leaf that `leaf_key` has accepted."""
    return whole_type(ShapedArray(*leaf_key(x)[:3]))


# Functions of a trace that is over; they may raise.
trace_checks = []


def trace_function(function, call, avals, info):
    """Record a call.

    Returns:
      (closed jaxpr, tracers of enclosing traces, structure of the result, refs).

    The tracers are those that the function uses without being given them; they become
    the first inputs of the jaxpr.
    """
    given, tree = tree_flatten((call.args, call.kwargs))
    out_tree = trace = refs = None

    def flat(*leaves):
        nonlocal out_tree, trace, refs
        trace, refs = current.trace, RefsInside(current.trace)
        args, kwargs = call.full(*tree_unflatten(tree, refs.enter(given, leaves)))
        found, out_tree = tree_flatten_with_path(function(*args, **kwargs))
        check_results(function, found)
        return [leaf for path, leaf in found] + refs.results()

    jaxpr, consts = trace_to_jaxpr(flat, avals, info)
    for check in trace_checks:
        check(trace)
    pairs = list(zip(jaxpr.constvars, consts, strict=True))
    outer = [(v, x) for v, x in pairs if isinstance(x, Tracer)]
    own = [(v, x) for v, x in pairs if not isinstance(x, Tracer)]
    constvars, invars = tuple(v for v, _ in own), tuple(v for v, _ in outer)
    jaxpr = jaxpr.replace(constvars=constvars, invars=(*invars, *jaxpr.invars))
    # NumPy arrays are copied: the program may go on writing to them.  Arrays of ours
    # get objects of their own, so that those of the user may go.
    closed = ClosedJaxpr(jaxpr, tuple(renewed(as_array(x)) for _, x in own))
    return closed, tuple(x for _, x in outer), out_tree, refs.outside()


@dataclass(eq=False)
class Entry:
    """One trace of a function.

    Attributes:
      name: the function's.
      closed: its jaxpr.
      tracers: values of enclosing traces that it uses; they lead `closed`'s inputs.
      out_tree: the structure of the result.
      record: its row in `traces`, which is kept for the functions to come.
      options: the function's.
      donated: one bool a leaf.
      refs: the mutable arrays that it uses, or None.
      donations: what becomes of donated leaves.
    """

    name: str
    closed: ClosedJaxpr
    tracers: tuple
    out_tree: PyTreeDef
    record: TraceRecord
    traces: Traces
    options: Options
    donated: tuple
    refs: RefsOutside | None = None
    executable: object = None
    renewed: tuple = ()

    def __post_init__(self):
        if self.refs is not None:
            self.donated += (False,) * len(self.refs.captured)
        of_tracers = (False,) * len(self.tracers)
        self.donations = donations(
            self.closed.jaxpr, of_tracers + self.donated, self.options.keep_unused
        )
        self.is_single = self.out_tree.num_nodes == self.out_tree.num_leaves == 1

    def compile(self):
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
            log_compile(self.name, self.record)
            self.renewed = passed_on(self.closed.jaxpr)
            self.executable = run
        return run

    def apply(self, leaves):
        """The results for leaves, which may be refs."""
        apply = self.run if type(current.trace) is EvalTrace else self.bind
        return apply(leaves) if self.refs is None else self.refs.call(apply, leaves)

    def run(self, leaves):
        """The results for concrete leaves."""
        run = self.executable or self.compile()
        if True in self.donated:
            refuse_twice(leaves, self.donations)
        results = run(*leaves)
        for check in result_checks:
            check(jit_p, leaves, {"name": self.name, "jaxpr": self.closed}, results)
        for i in self.renewed:
            results[i] = renewed(results[i])
        if True in self.donated:
            delete_donated(leaves, self.donations.deleted)
        return results

    def bind(self, leaves):
        """The results inside another trace: one equation, or all of them inlined."""
        args = (*self.tracers, *leaves)
        if self.options.inline:
            return eval_jaxpr(self.closed.jaxpr, self.closed.consts, *args)
        params = {}
        if True in self.donated:
            params["donated_invars"] = (*[False] * len(self.tracers), *self.donated)
        if self.options.keep_unused:
            params["keep_unused"] = True
        return jit_p.bind(*args, name=self.name, jaxpr=self.closed, **params)


# type of an executable -> what may make a call ready for the next time: a function of
# (JitFunction, Entry, args, kwargs, leaves, `config.updates` before they were sorted).
shortcut_makers: dict = {}
overrides = config.overrides


class JitFunction:
    """What `jit` returns: call it as the function it wraps."""

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

    def __repr__(self):
        return f"<jitted function {function_name(self.function)}>"

    def __call__(self, *args, **kwargs):
        plain = type(current.trace) is EvalTrace and not overrides.values
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
            results = entry.apply(leaves)
            # A shortcut asks for no flags: none is made where one is set for now.
            if plain and entry.refs is None:
                if make := shortcut_makers.get(type(entry.executable)):
                    make(self, entry, args, kwargs, leaves, updates)
        except Exception as error:
            leave_out_frames(error, sys._getframe(1))
            raise
        return results[0] if entry.is_single else entry.out_tree.unflatten(results)

    def look_up(self, args, kwargs):
        """-> (leaves of the traced arguments, the entry for their signature)."""
        options, call, statics = self.options, None, ()
        if options.static_argnums or options.static_argnames:
            call = sort_arguments(options, args, kwargs)
            statics = static_key(self.function, call)
            args, kwargs = call.args, call.kwargs
        leaves, tree = flatten_arguments(args, kwargs)
        try:
            key = tree, tuple(map(leaf_key, leaves)), statics, config.trace_key()
        except TypeError:
            call = call or sort_arguments(options, args, kwargs)
            leaf_avals(leaves, leaf_names(self.function, call), self.function)
            raise
        entry = self.entries.get(key)
        if entry is None or (self.cells or self.watched) and self.is_stale(key):
            call = call or sort_arguments(options, args, kwargs)
            entry = self.find(key, call, leaves)
        return leaves, entry

    def make_entry(self, captures, era, call, leaves):
        """Trace the function for the signature of a call."""
        avals = [aval_of_leaf(x) for x in leaves]
        record, names = new_record(self, captures, era, call, avals)
        name, source = function_name(self.function), function_source(self.function)
        info = TraceInfo(name, "jit", source, names)
        start = time.perf_counter()
        try:
            traced = trace_function(self.function, call, avals, info)
        except RecursionError as error:
            note_nesting(error)
            raise
        add_record(name, record, self.traces, self.options.max_traces, start)
        closed, outer, tree, refs = traced
        kept = record, self.traces, self.options, donated_leaves(self.options, call)
        return Entry(name, closed, outer, tree, *kept, refs)

    def find(self, key, call, leaves):
        """The entry for a signature that is not among this wrapper's own."""
        captures = find_captures(self.function)
        era = generation[0], self.generation
        full = *era, captures.key, self.options, key
        turn = Turn(full)
        with turn.lock, turns.claim(turn):
            entry = kept_entry(self.function, captures, full)
            if entry is None:
                entry = self.make_entry(captures, era, call, leaves)
                keep_entry(self.function, captures, full, entry, (key, call.statics))
        self.remember(key, entry, captures, era)
        return entry

    def remember(self, key, entry, captures, era):
        """Put an entry into this wrapper's own table."""
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
        if self.has_new_cells():
            return True
        captures = self.watched.get(key)
        return captures and globals_changed(self.function, self.options, captures)

    def lower(self, *args, **kwargs):
        """The function traced for these arguments, or for their shapes: `Lowered`."""
        leaves, entry = self.look_up(args, kwargs)
        call = sort_arguments(self.options, args, kwargs)
        return stages["lowered"](entry, (call.args, call.kwargs))

    trace = lower

    def eval_shape(self, *args, **kwargs):
        """The result's shapes and dtypes: a tree of `ShapeDtypeStruct`."""
        return self.lower(*args, **kwargs).out_info

    def clear_cache(self):
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
        return JitFunction, (self.function, self.options)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)


# What becomes of an entry outside a call: "lowered" is filled in by a later module.
stages: dict = {}
# The class of functions that place their results: (function, options, in, out).
jit_kinds: dict = {"placing": lambda fun, options, *where: JitFunction(fun, options)}

# What a jitted function captures is what the function within it does.
capture_rules |= {
    JitFunction: lambda walk, name, f: (f.options, walk.key_of(name, f.function))
}


def jit(
    fun=None, /, *, static_argnums=None, static_argnames=None, donate_argnums=None,
    donate_argnames=None, inline=False, keep_unused=False, max_traces=None,
    globals=None, backend=None, device=None, in_shardings=None, out_shardings=None,
    compiler_options=None,
):  # fmt: skip
    """A function that traces `fun` once for each signature (JAX: `jax.jit`).

    Args:
      fun: a pure function of arrays, numbers and trees of them; without it, `jit`
        returns a decorator.
      static_argnums, static_argnames: positions and names of arguments that are not
        traced: any hashable value, and a trace for each.
      donate_argnums, donate_argnames: arguments whose memory results may have: the
        call deletes them.
      inline: inside another trace, leave no call, but the equations themselves.
      keep_unused: as in JAX, a mark on the call; nothing is dropped here.
      max_traces: more traces than this raise RuntimeError, with the explanation.
      globals: what to do if a global read by the function has changed since its
        trace: "ignore" (JAX's behaviour), "warn", "retrace" or "raise"; by default
        what `config.captured_globals` says.
      backend: a row of `executors`; by default, and for "cpu", the row "default".
      in_shardings, out_shardings: how arguments and results are placed; with one
        device that is what they answer, and no more.
      device, compiler_options: accepted for JAX's sake; there is one device.

    Returns:
      A `JitFunction`, with `.traces`, `.lower`, `.eval_shape`, `.clear_cache`.
    """
    given = dict(locals())
    del given["fun"]
    if fun is None:
        return functools.partial(jit, **given)
    options = check_options(fun, executors, **given)
    if in_shardings is not None or out_shardings is not None:
        return jit_kinds["placing"](fun, options, in_shardings, out_shardings)
    return JitFunction(fun, options)


# Functions that clear the caches of later modules.
cache_clearers = []


def clear_caches():
    """Forget every trace and every compiled program; the next calls make new ones."""
    with lock:
        generation[0] += 1
        for table in stores:
            table.clear()
        forget_jaxprs()
    # A clearer may wait for a thread that compiles, which may want the lock.
    for clear in cache_clearers:
        clear()
