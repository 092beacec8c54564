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

from __future__ import annotations

from ..types import Args, JitOptions, Result, Traced
from collections.abc import Callable, Iterable
from typing import Any, overload, Unpack
import functools

from ..arguments import function_name, function_source
from ..array import is_array_like, shape_rules
from ..base.config import config
from ..base.demand import add_rows
from ..base.turns import Turn, lock, one_at_a_time, turns
from ..core import BottomTrace, Primitive, Tracer, current, eval_rules, set_trace
from ..jaxprs.jaxpr import ClosedJaxpr, eval_jaxpr, trace_to_jaxpr
from ..jaxprs.memory import forget_jaxprs, memoised
from ..primitives import as_array
from ..trees.paths import tree_flatten_with_path
from ..trees.pytree import keystr, tree_flatten, tree_unflatten
from .captures import capture_rules, find_captures
from .donation import donated_leaves, handing, renewed
from .jitted import Jitted, Upkeep
from .refs import Ref, RefsInside, returned_ref
from .retrace import Recording
from .signature import (
    aval_of_leaf, check_options, flatten_arguments, leaf_key, sort_arguments,
    static_key,
)
from .stores import generation, keep_entry, kept_entry, stores

jit_p = Primitive("jit", multiple_results=True)

# name -> compile(closed_jaxpr, name) -> callable(*leaves) -> list of arrays
executors = {}


class PlainTrace(BottomTrace):
    """Evaluates calls too equation by equation: nothing within is compiled."""

    prepared = ()  # No results of programs that were made before.

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


@memoised
@one_at_a_time
def compiled_call(closed, name, executor, pairs=()):
    """What the executor makes of a closed jaxpr, as long as that lives."""
    if executors.get(executor, compile_for_eval) is compile_for_eval:
        add_rows("trace.jit.jit")  # The compiler has another row.
    return handing(executors[executor], pairs)(closed, name)


def trace_function(function, call, avals, info) -> tuple[Any, Any, Any, Any]:
    """Record a call.

    Returns:
      (closed jaxpr, tracers of enclosing traces, structure of the result, refs).

    The tracers are those that the function uses without being given them; they become
    the first inputs of the jaxpr.
    """
    given, tree = tree_flatten((call.args, call.kwargs))
    refs, out_tree = RefsInside(given), None

    def flat(*leaves):
        nonlocal out_tree
        args, kwargs = call.full(*tree_unflatten(tree, refs.enter(leaves)))
        found, out_tree = tree_flatten_with_path(function(*args, **kwargs))
        check_results(function, found)
        return [leaf for path, leaf in found] + refs.results()

    jaxpr, consts = trace_to_jaxpr(flat, avals, info)
    trace_is_over(refs.trace)
    return *closed_over(jaxpr, consts), out_tree, refs.outside()


# ---- what a traced function may return


def check_results(function, leaves_with_path):
    """Raise an error for a result that is no array, naming where it is."""
    for path, leaf in leaves_with_path:
        if isinstance(leaf, Ref):
            raise returned_ref(leaf, keystr(path))
        if not is_array_like(leaf):
            place = f" at output component {keystr(path)}" if path else ""
            raise TypeError(
                f"function {function_name(function)} at {function_source(function)} "
                f"traced for jit returned a value of type {type(leaf)}{place}, which "
                "is not a valid JAX type\n  Instead: return arrays, numbers, and trees "
                "of them; compute the rest outside the jitted function."
            )


# Functions of a trace that is over; they may raise.
trace_checks: list = []


def trace_is_over(trace):
    """Have everything that looks at a trace when it is over look at this one."""
    for check in trace_checks:
        check(trace)


# chapter 6
def eval_call(*args, name, jaxpr, executor="default", **params):
    """A call where values are known: compile once, then run."""
    return compiled_call(jaxpr, name, executor)(*args)


def shape_of_call(*avals, jaxpr, **params):
    """The avals of a call's results are those of the jaxpr it calls."""
    return jaxpr.out_avals


eval_rules |= {jit_p: eval_call}
shape_rules |= {jit_p: shape_of_call}


def closed_over(jaxpr, consts):
    """Tracers among a jaxpr's constants become its first inputs.

    Returns:
      (closed jaxpr, those tracers).
    """
    pairs = list(zip(jaxpr.constvars, consts, strict=True))
    outer = [(v, x) for v, x in pairs if isinstance(x, Tracer)]
    own = [(v, x) for v, x in pairs if not isinstance(x, Tracer)]
    constvars, invars = tuple(v for v, _ in own), tuple(v for v, _ in outer)
    jaxpr = jaxpr.replace(constvars=constvars, invars=(*invars, *jaxpr.invars))
    # NumPy arrays are copied: the program may go on writing to them.
    closed = ClosedJaxpr(jaxpr, tuple(renewed(as_array(x)) for _, x in own))
    return closed, tuple(x for _, x in outer)


class Entry(Upkeep):
    """One trace of a function, and the two ways to use it.

    Attributes:
      name: the function's.
      closed: its jaxpr.
      tracers: values of enclosing traces that it uses; they lead `closed`'s inputs.
      out_tree: the structure of the result.
    """

    def __call__(self, leaves):
        """The function's result for the leaves of its arguments."""
        use = self.run if type(current.trace) is BottomTrace else self.bind
        return self.unflatten(self.with_refs(use, leaves))

    def compile(self):
        """What the executor makes of the jaxpr, once for all calls."""
        return self.executable or self.made_by(compiled_call)

    def run(self, leaves):
        """The results where values are known."""
        return self.guarded(self.compile(), jit_p, leaves)

    def bind(self, leaves):
        """The results inside another trace: one equation, or all of them inlined."""
        args = (*self.tracers, *leaves)
        if self.options.inline:
            return eval_jaxpr(self.closed.jaxpr, self.closed.consts, *args)
        return jit_p.bind(*args, name=self.name, jaxpr=self.closed, **self.params())


class JitFunction(Jitted[Args, Result]):
    """What `jit` returns; called, it uses the `Entry` that `look_up` gives."""

    def look_up(self, args, kwargs):
        """-> (leaves of the traced arguments, the entry for their signature)."""
        call = sort_arguments(self.options, args, kwargs)
        statics = static_key(self.function, call)
        leaves, tree = flatten_arguments(call.args, call.kwargs)
        try:
            key = tree, tuple(map(leaf_key, leaves)), statics, config.trace_key()
        except TypeError:
            self.check_leaves(call, leaves)
            raise
        entry = self.entries.get(key)
        if entry is None or self.is_stale(key):
            entry = self.find(key, call, leaves)
        return leaves, entry

    def make_entry(self, captures, era, call, leaves):
        """Trace the function for the signature of a call."""
        avals = [aval_of_leaf(x) for x in leaves]
        with Recording(self, captures, era, call, avals) as (record, info):
            traced = trace_function(self.function, call, avals, info)
        kept = record, self.traces, self.options, donated_leaves(self.options, call)
        return Entry(info.name, *traced, *kept)

    def find(self, key, call, leaves):
        """The entry for a signature that is not among this function's own."""
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


# chapter 6, brought along
from ..base.config import jit_is_disabled
from ..plans import plans
from ..remembered import remembered_avals

# The class of functions that place their results: (function, options, in, out).
jit_kinds: dict = {"placing": lambda fun, options, *where: JitFunction(fun, options)}

# What a jitted function captures is what the function within it does.
capture_rules |= {
    JitFunction: lambda walk, name, f: (f.options, walk.key_of(name, f.function))
}


@overload
def jit(
    fun: Callable[Args, Result], /, **options: Unpack[JitOptions]
) -> JitFunction[Args, Result]: ...
@overload
def jit(
    **options: Unpack[JitOptions],
) -> Callable[[Callable[Args, Result]], JitFunction[Args, Result]]: ...
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


def where_known(
    function: Callable[Args, Result], otherwise: Callable[..., Any],
    static_argnames: Iterable[str] = (),
) -> Traced[Args, Result]:
    """A function that is one compiled program where values are known.

    Args:
      function: what is jitted for that.
      otherwise: a function of the same arguments that runs in its place inside a trace,
        and where nothing is compiled.

    Returns:
      A function, with the `traces` of what was compiled.
    """
    jitted = jit(function, static_argnames=static_argnames)

    @functools.wraps(function)
    def call(*args, **kwargs):
        known = type(current.trace) is BottomTrace and not jit_is_disabled()
        return (jitted if known else otherwise)(*args, **kwargs)

    traced: Any = call
    traced.traces = jitted.traces
    return traced


# What else is forgotten: functions.  Later modules add those of their tables.
cache_clearers = [plans.clear, remembered_avals.cache_clear]


def clear_caches() -> None:
    """Forget every trace and every compiled program; the next calls make new ones."""
    with lock:
        generation[0] += 1
        for table in stores:
            table.clear()
        forget_jaxprs()
    # A clearer may wait for a thread that compiles, which may want the lock.
    for clear in cache_clearers:
        clear()
