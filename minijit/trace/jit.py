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
import logging
import os
import threading
import time
import traceback
import types
import warnings
import weakref
from dataclasses import dataclass

from .arguments import TraceInfo, function_name, function_source, leaf_avals
from .array import (
    ArrayImpl,
    ShapedArray,
    aval_of,
    is_array_like,
    shape_rules,
    to_numpy,
)
from .captures import (
    Identity,
    atoms,
    can_be_owner,
    capture_rules,
    find_captures,
    parts,
    reaches,
    show,
)
from .config import config
from .core import (
    Array,
    EvalTrace,
    Primitive,
    Tracer,
    current,
    eval_rules,
    result_checks,
    set_trace,
)
from .errors import at_line, user_level, user_source
from .jaxpr import (
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    eval_jaxpr,
    trace_to_jaxpr,
)
from .jaxpr_memory import Memory, forget_jaxprs, memoised
from .pytree import PyTreeDef, tree_flatten, tree_leaves, tree_unflatten
from .retrace import (
    TraceRecord,
    Traces,
    call_facts,
    context_facts,
    explain,
    static_facts,
)
from .signature import (
    Options,
    aval_of_leaf,
    leaf_key,
    resolve_arguments,
    sort_arguments,
    static_key,
)
from .tree_keys import keystr
from .tree_paths import tree_flatten_with_path, tree_leaves_with_path
from .turns import Turns

jit_p = Primitive("jit", multiple_results=True)

# name -> compile(closed_jaxpr, name) -> callable(*leaves) -> list of arrays
executors = {}


def shape_of_call(*avals, jaxpr, **params):
    """The avals of a call's results are those of the jaxpr it calls."""
    return jaxpr.out_avals


def eval_call(*args, name, jaxpr, **params):
    """A call where values are known: compile once, then run."""
    return compiled_call(jaxpr, name, "default")(*args)


shape_rules |= {jit_p: shape_of_call}
eval_rules |= {jit_p: eval_call}


# Compilers share tables of what they made, and run no code of the user's: one program
# is compiled at a time.
compiling = threading.RLock()


@memoised
def compiled_call(closed, name, executor):
    """What the executor makes of a closed jaxpr."""
    with compiling:
        return executors[executor](closed, name)


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
        arrays = map(concrete, leaves, avals)
        with set_trace(PlainTrace()):
            results = eval_jaxpr(closed.jaxpr, closed.consts, *arrays)
        return list(map(concrete, results))

    return run


executors |= {"eval": compile_for_eval, "default": compile_for_eval}


def concrete(x, aval=None):
    """A number or a NumPy array as an array of our own; values of ours as they are."""
    if isinstance(x, Array):
        return x
    aval = aval or aval_of(x)
    return ArrayImpl(to_numpy(x, aval), aval)


config.define(
    "captured_globals",
    "ignore",
    "what a jitted function does when a global that it read while it was traced has "
    "changed: ignore (as JAX does), warn, retrace or raise",
    changes_traces=True,
)


GLOBALS_MODES = ("ignore", "warn", "retrace", "raise")

# Of several threads that want the same trace, or the same compiled program, one makes
# it.  The lock is for the tables alone: tracing runs the user's code, which may wait
# for threads that want traces of their own.
turns = Turns()
lock = threading.RLock()
logger = logging.getLogger("minijit")


# Functions of a trace that is over; they may raise.
trace_checks = []


def trace_function(function, call, avals, info):
    """Record a call: -> (closed jaxpr, tracers of enclosing traces, result's tree).

    The tracers are those that the function uses without being given them; they become
    the first inputs of the jaxpr.
    """
    tree = tree_flatten((call.args, call.kwargs))[1]
    out_tree = trace = None

    def flat(*leaves):
        nonlocal out_tree, trace
        trace = current.trace
        args, kwargs = call.full(*tree_unflatten(tree, leaves))
        found, out_tree = tree_flatten_with_path(function(*args, **kwargs))
        check_results(function, found)
        return [leaf for path, leaf in found]

    jaxpr, consts = trace_to_jaxpr(flat, avals, info)
    for check in trace_checks:
        check(trace)
    pairs = list(zip(jaxpr.constvars, consts, strict=True))
    outer = [(v, x) for v, x in pairs if isinstance(x, Tracer)]
    own = [(v, x) for v, x in pairs if not isinstance(x, Tracer)]
    jaxpr = jaxpr.replace(
        constvars=tuple(v for v, x in own),
        invars=(*(v for v, x in outer), *jaxpr.invars),
    )
    # NumPy arrays are copied: the program may go on writing to them.  Arrays of ours
    # get objects of their own, so that those of the user may go.
    closed = ClosedJaxpr(jaxpr, tuple(renewed(concrete(x)) for v, x in own))
    return closed, tuple(x for v, x in outer), out_tree


def renewed(array):
    """The same array as an object of its own, which can be deleted on its own."""
    if not isinstance(array, ArrayImpl):
        # A tape or a union, which nobody deletes.
        return array
    return ArrayImpl(array.numpy(), array.aval)


def check_results(function, leaves_with_path):
    """Raise TypeError for a result that is no array, naming where it is."""
    for path, leaf in leaves_with_path:
        if not is_array_like(leaf):
            place = f" at output component {keystr(path)}" if path else ""
            raise TypeError(
                f"function {function_name(function)} at {function_source(function)} "
                f"traced for jit returned a value of type {type(leaf)}{place}, which "
                "is not a valid JAX type\n  Instead: return arrays, numbers, and trees "
                "of them; compute the rest outside the jitted function."
            )


def log_trace(name, record):
    """Under `log_compiles`: which trace it was, how long it took, and why."""
    if config.log_compiles:
        text = "Finished tracing %s%s for jit in %.6f sec: %s"
        logger.warning(text, name, record.call, record.trace_ms / 1e3, record.why)


def log_compile(name, record):
    """Under `log_compiles`: how long it took."""
    if config.log_compiles:
        seconds = record.compile_ms / 1e3
        logger.warning("Finished compiling jit(%s) in %.6f sec", name, seconds)


def donated_leaves(options, call):
    """One bool a leaf of the traced arguments: whether it is donated."""
    positions = [i for i in range(call.count) if i not in call.statics]
    nums = {i % call.count if call.count else i for i in options.donate_argnums}
    donated = []
    for i, x in zip(positions, call.args, strict=True):
        donated += [i in nums] * len(tree_leaves(x))
    for name in sorted(call.kwargs):
        is_donated = name in options.donate_argnames
        donated += [is_donated] * len(tree_leaves(call.kwargs[name]))
    return tuple(donated)


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
    """

    name: str
    closed: ClosedJaxpr
    tracers: tuple
    out_tree: PyTreeDef
    record: TraceRecord
    traces: Traces
    options: Options
    donated: tuple
    executable: object = None
    renewed: tuple = ()

    def __post_init__(self):
        self.is_single = self.out_tree.num_nodes == self.out_tree.num_leaves == 1

    def compile(self):
        """Hand the jaxpr to the executor, unless that was done before."""
        with turns.of(self):
            if self.executable is not None:
                return self.executable
            start = time.perf_counter()
            run = compiled_call(self.closed, self.name, self.options.executor)
            self.record.compile_ms = 1e3 * (time.perf_counter() - start)
            log_compile(self.name, self.record)
            self.renewed = passed_on(self.closed.jaxpr)
            self.executable = run
        return run

    def run(self, leaves):
        """The results for concrete leaves."""
        run = self.executable or self.compile()
        results = run(*leaves)
        for check in result_checks:
            check(jit_p, leaves, {"name": self.name, "jaxpr": self.closed}, results)
        for i in self.renewed:
            results[i] = renewed(results[i])
        if True in self.donated:
            for x, donated in zip(leaves, self.donated, strict=True):
                if donated and isinstance(x, ArrayImpl):
                    x.delete()
        return results

    def bind(self, leaves):
        """The results inside another trace: one equation, or all of them inlined."""
        jaxpr, consts = self.closed.jaxpr, self.closed.consts
        if self.options.inline:
            return eval_jaxpr(jaxpr, consts, *self.tracers, *leaves)
        params = {}
        if True in self.donated:
            params["donated_invars"] = (*[False] * len(self.tracers), *self.donated)
        if self.options.keep_unused:
            params["keep_unused"] = True
        args = (*self.tracers, *leaves)
        return jit_p.bind(*args, name=self.name, jaxpr=self.closed, **params)


def passed_on(jaxpr):
    """Which results are inputs, constants or other results: they need objects of
    their own, or donating or deleting the one would delete the other."""
    seen, passed = {*jaxpr.invars, *jaxpr.constvars}, []
    for i, var in enumerate(jaxpr.outvars):
        if var in seen:
            passed.append(i)
        seen.add(var)
    return tuple(passed)


class Recent(dict):
    """A dict that forgets the entries that were not used for longest.

    An entry also goes when one of its owners does.  That may happen at any time, so
    that nothing here relies on an entry still being there.
    """

    __hash__ = object.__hash__

    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        stores.add(self)

    def find(self, key):
        """The value of a key, or None."""
        with lock:
            found = self.pop(key, None)
            if found is None:
                return None
            # Under the key that the owners' callbacks know: once they are gone, it
            # is equal to no other one.
            self[found[0]] = found
            return found[1]

    def store(self, key, value, owners=()):
        """Add an entry; the oldest goes if there are too many."""

        def forget(owner):
            self.pop(key, None)

        with lock:
            owners = {id(x): x for x in owners if can_be_owner(x)}.values()
            self[key] = key, value, [weakref.ref(x, forget) for x in owners]
            if len(self) > self.limit:
                self.pop(list(self)[0], None)


# All tables of traces, all jitted functions, and all lists of traces by code.
stores: weakref.WeakSet = weakref.WeakSet()
jitted: weakref.WeakSet = weakref.WeakSet()
trace_lists: weakref.WeakValueDictionary = weakref.WeakValueDictionary()

# Traces by what the function is and by signature, for all wrappers there are.
shared = Recent(limit=256)

# Clearing the caches raises this number, which is a part of every key.
generation = [0]

# Of a jaxpr, only params and constants can hold something of the user's.
atoms |= {Memory, ShapedArray}
parts |= {
    ClosedJaxpr: lambda closed: (closed.jaxpr, *closed.consts),
    Jaxpr: lambda jaxpr: jaxpr.eqns,
    Eqn: lambda eqn: eqn.params.values(),
}


def store_of(function, captures, holds):
    """Where a trace of a function is kept: a `Recent`, or None.

    Args:
      holds: what the trace, and the key it is kept under, consists of.
    """
    if captures.tracers:
        # They are worth nothing after the trace that surrounds them.
        return vars(current.trace).setdefault("inner_traces", Recent(limit=10_000))
    if captures.mutable is None and not reaches(holds, captures.owners):
        return shared
    return own_store(function)


def own_store(function):
    """The traces that live as long as a Python function, and no longer, or None."""
    if isinstance(function, types.FunctionType):
        return vars(function).setdefault("minijit_traces", Recent(limit=256))
    return None


def kept_entry(function, captures, key):
    """The entry that one of the tables has for a key, or None."""
    inner = vars(current.trace).get("inner_traces") if captures.tracers else None
    tables = [inner] if captures.tracers else [shared, own_store(function)]
    found = (table.find(key) for table in tables if table is not None)
    return next(filter(None, found), None)


def find_code(function):
    """What identifies a function's text: its code, or else the callable itself."""
    function = inspect.unwrap(function)
    while isinstance(function, (functools.partial, types.MethodType)):
        partial = isinstance(function, functools.partial)
        function = inspect.unwrap(function.func if partial else function.__func__)
    return getattr(function, "__code__", function)


def trace_list(function, options):
    """The list of traces that wrappers of the same code and options share."""
    return trace_lists.setdefault((Identity(find_code(function)), options), Traces())


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
        raise RuntimeError(text + at_line(user_source()))
    warnings.warn(text, StaleGlobalWarning, stacklevel=user_level())


# What becomes of an entry outside a call: "lowered" is filled in by a later module.
stages: dict = {}


def note_nesting(error):
    """Add to a RecursionError how deep jitted functions call each other, if they do.

    It is the outermost one that says it: there Python has frames left.
    """
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    depth = frames.count(JitFunction.make_entry.__code__)
    if depth > 1 and type(current.trace) is EvalTrace:
        error.add_note(
            f"{depth} jitted functions were being traced, each called by the one "
            "before.\n  Instead: repeat a function with lax.fori_loop or lax.scan, "
            "leave out some of the jits, or allow more frames with "
            "sys.setrecursionlimit."
        )


class JitFunction:
    """What `jit` returns: call it as the function it wraps."""

    def __init__(self, function, options):
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.options = options
        self.traces = trace_list(function, options)
        self.entries = {}
        self.cells = ()
        self.watched = {}
        self.generation = None
        jitted.add(self)

    def __repr__(self):
        return f"<jitted function {function_name(self.function)}>"

    def __reduce__(self):
        # A copy, deep or not, is jitted anew.
        return JitFunction, (self.function, self.options)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args, **kwargs):
        if jit_is_disabled():
            return self.function(*args, **kwargs)
        leaves, entry = self.look_up(args, kwargs)
        if type(current.trace) is EvalTrace:
            results = entry.run(leaves)
        else:
            results = entry.bind(leaves)
        return results[0] if entry.is_single else entry.out_tree.unflatten(results)

    def look_up(self, args, kwargs):
        """-> (leaves of the traced arguments, the entry for their signature)."""
        options = self.options
        statics = ()
        if options.static_argnums or options.static_argnames:
            call = sort_arguments(options, args, kwargs)
            statics = static_key(self.function, call)
            args, kwargs = call.args, call.kwargs
        else:
            call = None
        if kwargs or not all(type(x) is ArrayImpl for x in args):
            leaves, tree = tree_flatten((args, kwargs))
        else:
            leaves, tree = args, flat_tree(len(args))
        try:
            key = tree, tuple(map(leaf_key, leaves)), statics, config.trace_key()
        except TypeError:
            call = call or sort_arguments(options, args, kwargs)
            leaf_avals(leaves, self.leaf_names(call), self.function)
            raise
        entry = self.entries.get(key)
        if entry is None or (self.cells or self.watched) and self.is_stale(key):
            call = call or sort_arguments(options, args, kwargs)
            entry = self.find(key, call, leaves)
        return leaves, entry

    def leaf_names(self, call):
        """The names of the traced leaves: `params['w']`."""
        names, statics = call.named(self.function)
        values = [*call.args, *(call.kwargs[k] for k in sorted(call.kwargs))]
        return [
            name + keystr(path)
            for name, value in zip(names, values, strict=True)
            for path, leaf in tree_leaves_with_path(value)
        ]

    def is_stale(self, key):
        """Whether what the function captured has changed since its trace."""
        if any(place.read() is not value for place, value in self.cells):
            return True
        captures = self.watched.get(key)
        changed = captures and captures.changed("global")
        if not changed:
            return False
        mode = self.options.globals or config.captured_globals
        return mode == "retrace" or report_globals(self.function, changed, mode)

    def find(self, key, call, leaves):
        """The entry for a signature that is not among this wrapper's own."""
        captures = find_captures(self.function)
        era = generation[0], self.generation
        full = *era, captures.key, self.options, key
        with turns.of(full):
            entry = kept_entry(self.function, captures, full)
            if entry is None:
                try:
                    entry = self.make_entry(captures, call, leaves)
                except RecursionError as error:
                    note_nesting(error)
                    raise
                # Another tracer may sit where a hidden one was found, unnoticed.
                entry.record.kept = captures.tracers or not entry.tracers
                holds = entry.closed, entry.out_tree, key, call.statics
                store = store_of(self.function, captures, holds)
                if entry.record.kept and store is not None:
                    owners = captures.owners if store is shared else ()
                    store.store(full, entry, owners)
        with lock:
            if any(place.read() is not value for place, value in self.cells):
                self.entries.clear()
                self.watched.clear()
            # An entry that holds tracers must not outlive the trace around it, and
            # one whose caches were cleared meanwhile serves this call only.
            cleared = era != (generation[0], self.generation)
            if not (captures.tracers or entry.tracers or cleared):
                self.cells = captures.places("captured variable")
                self.entries[key] = entry
                mode = self.options.globals or config.captured_globals
                if mode != "ignore":
                    self.watched[key] = captures
        return entry

    def make_entry(self, captures, call, leaves):
        """Trace the function for the signature of a call."""
        names, statics = call.named(self.function)
        avals = [aval_of_leaf(x) for x in leaves]
        values = [(x, "position") for x in call.args]
        values += [(call.kwargs[k], "keyword") for k in sorted(call.kwargs)]
        facts, leaf_names = call_facts(names, values, avals)
        facts |= static_facts(call, statics) | context_facts(captures)
        era = generation[0], self.generation
        why = explain(facts, self.traces, captures.mutable, era)
        record = TraceRecord(self.traces.count, facts, why, era)
        self.check_max_traces(record)
        name = function_name(self.function)
        source = function_source(self.function)
        info = TraceInfo(name, "jit", source, tuple(leaf_names))
        start = time.perf_counter()
        closed, tracers, out_tree = trace_function(self.function, call, avals, info)
        record.trace_ms = 1e3 * (time.perf_counter() - start)
        with lock:
            # Other threads may have traced meanwhile.
            self.check_max_traces(record)
            self.traces.add(record)
        log_trace(name, record)
        donated = donated_leaves(self.options, call)
        kept = record, self.traces, self.options, donated
        return Entry(name, closed, tracers, out_tree, *kept)

    def check_max_traces(self, record):
        """Raise if one more trace is more than `max_traces` allows."""
        most = self.options.max_traces
        if most is not None and self.traces.count >= most:
            raise RuntimeError(
                f"{function_name(self.function)} was to be traced at most {most} "
                f"times (max_traces={most}); the call with {record.call} needs "
                f"another trace:\n  {record.why}{at_line(user_source())}\n  Earlier "
                f"traces:\n{self.traces.table(times=False)}"
            )

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
        self.entries.clear()
        self.watched.clear()
        self.generation = object()

    def _cache_size(self):
        """How many signatures can be called without tracing."""
        return len(self.entries)


# What a jitted function captures is what the function within it does.
capture_rules |= {
    JitFunction: lambda walk, name, f: (f.options, walk.key_of(name, f.function))
}


@functools.lru_cache(maxsize=256)
def flat_tree(n):
    """The structure of (args, kwargs) for n arrays: most calls are of this kind."""
    return tree_flatten(((0,) * n, {}))[1]


def jit_is_disabled():
    """Whether `disable_jit` is in force in this thread."""
    overrides = config.overrides.values
    flag = config.values["disable_jit"]
    return overrides.get("disable_jit", flag) if overrides else flag


def jit(
    fun=None, /, *, static_argnums=None, static_argnames=None, donate_argnums=None,
    donate_argnames=None, inline=False, keep_unused=False, max_traces=None,
    globals=None, backend=None, device=None,
):  # fmt: skip
    """A function that traces `fun` once for each signature (JAX: `jax.jit`).

    Args:
      fun: a pure function of arrays, numbers and trees of them; without it, `jit`
        returns a decorator.
      static_argnums, static_argnames: positions and names of arguments that are not
        traced: any hashable value, and a trace for each.
      donate_argnums, donate_argnames: arguments that are deleted by the call.
      inline: inside another trace, leave no call, but the equations themselves.
      keep_unused: as in JAX, a mark on the call; nothing is dropped here.
      max_traces: more traces than this raise RuntimeError, with the explanation.
      globals: what to do if a global read by the function has changed since its
        trace: "ignore" (JAX's behaviour), "warn", "retrace" or "raise"; by default
        what `config.captured_globals` says.
      backend: a row of `executors`; by default, and for "cpu", the row "default".
      device: accepted for JAX's sake; there is one.

    Returns:
      A `JitFunction`, with `.traces`, `.lower`, `.eval_shape`, `.clear_cache`.
    """
    given = dict(locals())
    del given["fun"]
    if fun is None:
        return functools.partial(jit, **given)
    return JitFunction(fun, check_options(fun, **given))


def check_options(
    fun, static_argnums, static_argnames, donate_argnums, donate_argnames,
    globals, backend, device, **rest,
):  # fmt: skip
    """The arguments of `jit`, checked, as `Options`; raises TypeError or ValueError."""
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    if globals not in (None, *GLOBALS_MODES):
        raise ValueError(f"globals must be one of {GLOBALS_MODES}, got {globals!r}")
    static = resolve_arguments(fun, static_argnums, static_argnames, "static")
    donate = resolve_arguments(fun, donate_argnums, donate_argnames, "donate")
    both = {*static[0], *static[1]} & {*donate[0], *donate[1]}
    if both:
        raise ValueError(f"arguments cannot be both static and donated: {both}")
    executor = "default" if backend in (None, "cpu") else backend
    if executor not in executors:
        raise ValueError(f"unknown backend {backend!r}; there are {[*executors]}")
    rest |= {name: bool(rest[name]) for name in ("inline", "keep_unused")}
    return Options(*static, *donate, globals=globals, executor=executor, **rest)


# Functions that clear the caches of later modules.
cache_clearers = []


def clear_caches():
    """Forget every trace and every compiled program; the next calls make new ones."""
    with lock:
        generation[0] += 1
        for table in list(stores):
            table.clear()
        for function in list(jitted):
            function.entries.clear()
            function.watched.clear()
        forget_jaxprs()
    # A clearer may wait for a thread that compiles, which may want the lock.
    for clear in cache_clearers:
        clear()


# What is locked while a process forks: no other thread is then in the middle of
# compiling, or of changing a table, and the child does not wait for one for ever.
fork_locks = [compiling, lock]


def before_fork():
    """Wait for the other threads to leave what is locked."""
    for held in fork_locks:
        held.acquire()


def after_fork():
    """Unlock, in either process."""
    for held in reversed(fork_locks):
        held.release()


def after_fork_in_child():
    """Unlock; the threads whose turn it was are not in the child."""
    turns.forget_others()
    after_fork()


os.register_at_fork(
    before=before_fork,
    after_in_parent=after_fork,
    after_in_child=after_fork_in_child,
)
