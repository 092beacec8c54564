"""Why a call was traced: signatures that can be compared, and the table of traces.

    f.traces
    #  signature      trace ms  compile ms  why it was traced
    0  x: float32[3]  0.31      0.02        first call
    1  x: float32[4]  0.28      0.02        argument x: shape (3,) -> (4,)
                                              to do: pad to one shape, or split ...
                                              nearest: trace 0, (x: float32[3])

A signature says all that a trace depends on, one fact a key: `("shape", "x")` is
`(3,)`, `("static", "n")` is 2.  Two are compared fact by fact; the known signature
with the fewest differences is the nearest, and the differences are the explanation.
"""

import functools
import inspect
import math
import time
import types
import weakref
from dataclasses import dataclass, field

from ..arguments import TraceInfo, function_name, function_source
from ..base.config import config
from ..base.errors import HERE, PACKAGE, folded
from ..base.turns import lock
from ..core import BottomTrace, current
from ..trees.paths import tree_flatten_with_path
from ..trees.pytree import keystr
from .captures import Identity, can_be_owner, capture_rules, scalar_key, show


def call_facts(names, args, avals):
    """The facts of one call's traced arguments.

    Args:
      names: the parameter's name for each value in `args`.
      args: [(value, "position" or "keyword"), ...].
      avals: for each array leaf of all `args`, in order.

    Returns:
      (facts, the leaves' names such as `params['w']`).
    """
    facts, leaf_names = {}, []
    for name, (value, how) in zip(names, args, strict=True):
        found, tree = tree_flatten_with_path(value)
        facts["passed by", name] = how
        facts["structure", name] = str(tree)[len("PyTreeDef(") : -1]
        leaf_names += [name + keystr(path) for path, leaf in found]
    for name, aval in zip(leaf_names, avals, strict=True):
        facts["shape", name] = aval.shape
        facts["dtype", name] = aval.dtype.name
        facts["weak type", name] = weak_words[aval.weak_type]
    return facts, leaf_names


def static_facts(call, statics):
    """The facts of the static arguments, {name: value}."""
    facts = {("static", name): f"{value!r:.200}" for name, value in statics.items()}
    for name in statics:
        facts["passed by", name] = "keyword" if name in call.statics else "position"
    return facts


weak_words = {
    True: "a Python number (weakly typed)",
    False: "an array (strongly typed)",
}


def context_facts(captures):
    """The facts beside the arguments: captured values and flags."""
    facts = {}
    for place, value in captures.values:
        facts[place.kind, place.name] = seen(value)
    # A flag that is not there is as it was first: many come with the first compile.
    facts |= {("config", name): value for name, value in config.trace_key().values}
    return facts


def signature_text(facts):
    """The arguments in short: `x: ~float32[3], n=2`, with ~ for a weak type."""
    parts = []
    for kind, name in facts:
        if kind == "shape":
            shape = ",".join(map(str, facts[kind, name]))
            weak = "~" * (facts["weak type", name] == weak_words[True])
            parts.append(f"{name}: {weak}{facts['dtype', name]}[{shape}]")
        elif kind == "static":
            parts.append(f"{name}={facts[kind, name]:.20}")
    return ", ".join(parts)


@dataclass(frozen=True)
class Seen:
    """A captured value in words, which are compared, or else its address is."""

    text: str = field(compare=False)
    key: object

    def __str__(self):
        return self.text


def seen(value):
    """A captured value as a fact, without keeping it alive."""
    has_rule = type(value) in capture_rules
    by_value = scalar_key(value) is not None or has_rule
    # Other objects, a user's, may answer anything when they are asked for attributes.
    code = getattr(inspect.unwrap(value), "__code__", None) if has_rule else None
    text = show(value)
    if by_value:
        return Seen(text, (text, id(code)))
    # The address of what is gone may be another's.
    return Seen(text, Identity(value) if can_be_owner(value) else id(value))


# The fact by which traces of one list are told apart.
FUNCTION = "function", "name"
# What a captured jaxpr is called: one that differs is another program.
BODY = "its body"

# What each kind of fact is called in an explanation, and what to do about a change.
explanations = {
    "structure": (
        "argument {}: structure",
        "give it the same keys and lengths in each call",
    ),
    "shape": (
        "argument {}: shape",
        "pad to one shape, or split into parts of one shape",
    ),
    "dtype": ("argument {}: dtype", "convert it before the call, with astype"),
    "weak type": (
        "argument {}:",
        "pass the same in each call: an array made with a dtype, or a number",
    ),
    "passed by": ("argument {}: passed by", "pass it the same way in each call"),
    "static": (
        "static argument {}:",
        "each value is traced; make it static only if shapes or Python's `if` need it",
    ),
    "captured variable": (
        "captured variable {}:",
        "make it an argument of the function",
    ),
    "global": ("global {}:", "make it an argument of the function"),
    "config": ("config {}:", "set it once, before the first call"),
}


def differences(old, new):
    """[(kind, name, old value, new value)] of two signatures."""
    found, told = [], set()
    for fact in [*new, *(fact for fact in old if fact not in new)]:
        kind, name = fact
        absent = config.first[name] if kind == "config" else "not given"
        was, now = old.get(fact, absent), new.get(fact, absent)
        if was == now:
            continue
        # A new structure changes the leaves below it; that goes without saying.
        if any(name == t or name.startswith((f"{t}[", f"{t}.")) for t in told):
            continue
        if kind == "structure" or "not given" in (was, now):
            told.add(name)
        found.append((kind, name, was, now))
    return found


def distance(old, new):
    """How far two signatures are from each other."""
    return sum(10 if kind == "structure" else 1 for kind, *_ in differences(old, new))


def nearest_of(records, facts):
    """The one whose signature differs least, and the first of several."""
    found = next((r for r in records if r.facts == facts), None)
    least = math.inf if found is None else 0
    for record in records:
        # In a loop each trace differs in one fact from the one before.
        if least <= 1:
            break
        if (far := distance(record.facts, facts)) < least:
            found, least = record, far
    return found


def explain_change(kind, name, was, now):
    """What changed, and what to do: two lines."""
    what, advice = explanations[kind]
    if kind == "passed by" and "not given" in (was, now):
        what = "argument {}:"
    if str(was) == str(now):
        now = f"another, {now}"
    return [f"{what.format(name)} {was} -> {now}", f"  to do: {advice}"]


def explain(facts, records, mutable, era):
    """Why a call had to be traced: a few lines, each change with what to do about it.

    Args:
      facts: its signature.
      records: the earlier traces.
      mutable: the name of a captured value that can change, or None.
      era: what `TraceRecord.era` of this call will be.
    """
    # A list may be of several functions that the library made of the same code.
    records = [r for r in records if r.facts.get(FUNCTION) == facts.get(FUNCTION)]
    if not records:
        return "first call"
    # A long history need not be searched.
    nearest = nearest_of(records[:-100:-1], facts)
    found = differences(nearest.facts, facts)
    if not found and not nearest.kept:
        return (
            f"trace {nearest.index} used a traced value that it found through "
            f"{mutable or 'an object'}, and so was not kept\n"
            "  to do: make the value an argument of the function"
        )
    if not found and mutable == BODY and nearest.era == era:
        return (
            "its body says something else: it captures a number or an object that "
            "changed\n  to do: make that a part of the carry, or an array"
        )
    if not found and mutable and nearest.era == era:
        return (
            f"a new function, not shared, as it reads {mutable}, which can change\n"
            "  to do: make the jitted function once, outside of loops"
        )
    if not found:
        return f"the caches were cleared, or full, since trace {nearest.index}"
    lines = []
    for change in found:
        lines += explain_change(*change)
    return "\n".join([*lines, f"  nearest: trace {nearest.index}, {nearest.call}"])


@dataclass(eq=False)
class TraceRecord:
    """One row of `f.traces`.

    Attributes:
      index: its number, from 0.
      facts: what it depends on: see `call_facts`.
      why: what made it necessary.
      trace_ms, compile_ms: what it cost; None for what has not happened.
      era: changes when caches are cleared.
      kept: whether it is there for calls to come.
    """

    index: int
    facts: dict
    why: str
    era: object = None
    trace_ms: float | None = None
    compile_ms: float | None = None
    kept: bool = True

    @property
    def call(self):
        """The signature in parentheses: `(x: float32[3], n=2)`."""
        return f"({signature_text(self.facts)})"

    def __repr__(self):
        return f"trace {self.index} of {self.call}: {self.why}"


def number(ms):
    """Milliseconds for the table."""
    return "" if ms is None else f"{ms:.2f}"


# A loop that traces in each of its steps does not grow for ever.
LONGEST_HISTORY = 256


class Traces(list):
    """The traces of a function, oldest first; printing it shows a table.

    Wrappers of the same code share one such list, so that a factory of jitted
    functions can be seen to trace too often.
    """

    __slots__ = ("__weakref__", "count")

    def __init__(self):
        self.count = 0

    def add(self, record):
        """Add a trace, which is given its number; of very many, the oldest go."""
        record.index = self.count
        self.count += 1
        self.append(record)
        del self[:-LONGEST_HISTORY]

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other

    def table(self, times=True):
        """The table as text; without times it is the same in every run."""
        head = ["#", "signature", "trace ms", "compile ms", "why it was traced"]
        several = len({r.facts.get(FUNCTION) for r in self}) > 1
        named = lambda r: f"{r.facts[FUNCTION]}: {r.call}" if several else r.call[1:-1]
        rows = [
            [f"{r.index}", named(r), number(r.trace_ms), number(r.compile_ms)]
            for r in self
        ]
        keep = [0, 1, 2, 3, 4] if times else [0, 1, 4]
        rows = [[*row, r.why] for row, r in zip(rows, self, strict=True)]
        rows = [[row[i] for i in keep] for row in [head, *rows]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
        left = sum(w + 2 for w in widths)
        reasons = [why.split("\n") for *_, why in rows]
        # Where that would be too wide, a reason stands below its signature.
        below = left + max(len(line) for why in reasons for line in why) > 100
        lines = []
        for (*cells, _), why in zip(rows, reasons, strict=True):
            cells = [c.ljust(w) for c, w in zip(cells, widths, strict=True)]
            margin = " " * (widths[0] + 4 if below else left)
            first, *rest = [folded(margin + line) for line in why]
            row = "  ".join(cells)
            lines += [row.rstrip(), first] if below else [row + first[left - 2 :]]
            lines += rest
        return "\n".join(lines)

    __repr__ = __str__ = table


# All lists of traces, by code.
trace_lists: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


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


def new_record(jitted, captures, era, call, avals):
    """What will stand in the table for a trace: -> (record, names of the leaves).

    Raises RuntimeError if there are `max_traces` of them already.

    Args:
      jitted: the `JitFunction`.
      captures, era: what its function is now: see `TraceRecord.era`.
      call: its arguments, a `Call`; `avals`: of the traced leaves.
    """
    names, statics = call.named(jitted.function)
    values = [(x, "position") for x in call.args]
    values += [(call.kwargs[k], "keyword") for k in sorted(call.kwargs)]
    facts, leaf_names = call_facts(names, values, avals)
    facts |= static_facts(call, statics) | context_facts(captures)
    facts[FUNCTION] = getattr(jitted.function, "__qualname__", "")
    why = explain(facts, jitted.traces, captures.mutable, era)
    record = TraceRecord(jitted.traces.count, facts, why, era)
    most = jitted.options.max_traces
    check_max_traces(function_name(jitted.function), record, jitted.traces, most)
    return record, tuple(leaf_names)


class Recording:
    """The time in which a function is traced: `with` gives (record, `TraceInfo`).

    Raises RuntimeError, before or after, if there are `max_traces` already.
    """

    def __init__(self, jitted, captures, era, call, avals):
        function, self.jitted = jitted.function, jitted
        self.record, names = new_record(jitted, captures, era, call, avals)
        self.name, self.most = function_name(function), jitted.options.max_traces
        self.info = TraceInfo(self.name, "jit", function_source(function), names)

    def __enter__(self):
        self.start = time.perf_counter()
        return self.record, self.info

    def __exit__(self, kind, error, place):
        if isinstance(error, RecursionError):
            note_nesting(error)
        if error is None:
            traces = self.jitted.traces
            add_record(self.name, self.record, traces, self.most, self.start)


# Functions of "trace" or "compile", whose, and when it began: told at its end.
finished: list = []


def add_record(name, record, traces, most, start):
    """Add the record of a trace that began at `start`; RuntimeError if too many."""
    record.trace_ms = 1e3 * (time.perf_counter() - start)
    with lock:
        # Other threads may have traced meanwhile.
        check_max_traces(name, record, traces, most)
        traces.add(record)
    for told in finished:
        told("trace", name, start)
    log_trace(name, record)


def check_max_traces(name, record, traces, most):
    """Raise if one more trace is more than `max_traces` allows."""
    if most is not None and traces.count >= most:
        raise RuntimeError(
            f"{name} was to be traced at most {most} times (max_traces={most}); the "
            f"call with {record.call} needs another trace:\n  {record.why}"
            f"{HERE}\n  Earlier traces:\n{traces.table(times=False)}"
        )


def note_nesting(error):
    """Add to a RecursionError how deep jitted functions call each other, if they do.

    It is the outermost one that says it: there Python has frames left.
    """
    frames, place = [], error.__traceback__
    while place is not None:
        frames.append(place.tb_frame.f_code)
        place = place.tb_next
    depth = sum(
        code.co_qualname == "JitFunction.make_entry"
        and code.co_filename.startswith(PACKAGE)
        for code in frames
    )
    if depth > 1 and type(current.trace) is BottomTrace:
        error.add_note(
            f"{depth} jitted functions were being traced, each called by the one "
            "before.\n  Instead: repeat a function with lax.fori_loop or lax.scan, "
            "leave out some of the jits, or allow more frames with "
            "sys.setrecursionlimit."
        )


def log(*message):
    """A warning of the logger "minijit"."""
    import logging

    logging.getLogger("minijit").warning(*message)


def log_trace(name, record):
    """Under `log_compiles`: which trace it was, how long it took, and why."""
    if config.log_compiles:
        text = "Finished tracing %s%s for jit in %.6f sec: %s"
        log(text, name, record.call, record.trace_ms / 1e3, record.why)


def log_compile(name, record):
    """Under `log_compiles`: how long it took."""
    if config.log_compiles:
        seconds = record.compile_ms / 1e3
        log("Finished compiling jit(%s) in %.6f sec", name, seconds)
