"""Why a call was traced: signatures that can be compared, and the table of traces.

    f.traces
    #  signature           trace ms  compile ms  why it was traced
    0  x: f32[3]               0.31        0.02  first call
    1  x: f32[4]               0.28        0.02  argument x: shape (3,) -> (4,), ...

A signature says all that a trace depends on, one fact a key: `("shape", "x")` is
`(3,)`, `("static", "n")` is 2.  Two are compared fact by fact; the known signature
with the fewest differences is the nearest, and the differences are the explanation.
"""

from dataclasses import dataclass

from .captures import capture_rules, scalar_key, show
from .config import config
from .pytree import keystr, tree_flatten_with_path


def call_facts(names, args, statics, avals):
    """The facts of one call.

    Args:
      names: the parameter's name for each value in `args`.
      args: [(value, "position" or "keyword"), ...] of the arguments that are traced.
      statics: {name: value}.
      avals: for each array leaf of all `args`, in order.

    Returns:
      (facts, the leaves' names such as `params['w']`).
    """
    facts, leaf_names = {}, []
    for name, (value, how) in zip(names, args, strict=True):
        found, tree = tree_flatten_with_path(value)
        facts["passed by", name] = how
        facts["structure", name] = str(tree).removeprefix("PyTreeDef")
        leaf_names += [name + keystr(path) for path, leaf in found]
    for name, aval in zip(leaf_names, avals, strict=True):
        facts["shape", name] = aval.shape
        facts["dtype", name] = aval.dtype.name
        facts["weak type", name] = weak_words[aval.weak_type]
    facts |= {("static", k): f"{v!r:.200}" for k, v in statics.items()}
    return facts, leaf_names


weak_words = {
    True: "a Python number (weakly typed)",
    False: "an array (strongly typed)",
}


def context_facts(captures):
    """The facts beside the arguments: captured values and flags."""
    facts = {}
    for place, value in captures.values:
        facts[place.kind, place.name] = Seen(show(value), identity_matters(value))
    for name, value in zip(config.changes_traces, config.trace_key(), strict=True):
        facts["config", name] = value
    return facts


@dataclass(frozen=True)
class Seen:
    """A captured value in words, with the address that tells it from its like."""

    text: str
    address: int

    def __str__(self):
        return self.text


def identity_matters(value):
    """The address of a value that counts by identity, 0 for others."""
    by_value = scalar_key(value) is not None or type(value) in capture_rules
    return 0 if by_value else id(value)


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
    "passed by": (
        "argument {}: passed by",
        "pass it the same way in each call",
    ),
    "static": (
        "static argument {}:",
        "each value is traced; unless shapes or Python's `if` need it, do not make it "
        "static",
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
        was, now = old.get(fact, "not given"), new.get(fact, "not given")
        # A new structure changes the leaves below it; that goes without saying.
        below = any(name == t or name.startswith((f"{t}[", f"{t}.")) for t in told)
        if was == now or below:
            continue
        if kind == "structure" or "not given" in (was, now):
            told.add(name)
        found.append((kind, name, was, now))
    return found


def explain(facts, records, mutable):
    """Why a call had to be traced.

    Args:
      facts: its signature.
      records: the earlier traces.
      mutable: the name of a captured value that can change, or None.
    """
    if not records:
        return "first call"
    nearest = min(records, key=lambda r: (len(differences(r.facts, facts)), -r.index))
    found = differences(nearest.facts, facts)
    if not found and mutable:
        return (
            f"a new function, and not shared, because it reads {mutable}, which can "
            "change unseen (make the jitted function once, outside of loops)"
        )
    if not found:
        return f"the caches were cleared, or full, since trace {nearest.index}"
    changes = []
    for kind, name, was, now in found:
        what, advice = explanations[kind]
        now = f"another, {now}" if str(was) == str(now) else now
        changes.append(f"{what.format(name)} {was} -> {now} ({advice})")
    return "; ".join(changes) + f"; nearest: trace {nearest.index}"


@dataclass(eq=False)
class TraceRecord:
    """One row of `f.traces`.

    Attributes:
      index: its number, from 0.
      facts: what it depends on: see `call_facts`.
      why: what made it necessary.
      trace_ms, compile_ms: what it cost; None for what has not happened.
    """

    index: int
    facts: dict
    why: str
    trace_ms: float | None = None
    compile_ms: float | None = None

    @property
    def signature(self):
        """The arguments in short: `x: f32[3], n=2`."""
        parts = []
        for kind, name in self.facts:
            if kind == "shape":
                parts.append(f"{name}: {self.aval_text(name)}")
            elif kind == "static":
                parts.append(f"{name}={self.facts[kind, name]:.20}")
        return ", ".join(parts)

    def aval_text(self, name):
        """`float32[3]`, with `~` in front of a weak type."""
        weak = "~" * (self.facts["weak type", name] == weak_words[True])
        shape = ",".join(map(str, self.facts["shape", name]))
        return f"{weak}{self.facts['dtype', name]}[{shape}]"

    def __repr__(self):
        return f"trace {self.index} of ({self.signature}): {self.why}"


class Traces(list):
    """The traces of a function, oldest first; printing it shows a table.

    Wrappers of the same code share one such list, so that a factory of jitted
    functions can be seen to trace too often.
    """

    __slots__ = ("__weakref__", "owner")

    def __init__(self, owner):
        # The code object is kept alive, so that its id belongs to this list.
        self.owner = owner

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other

    def table(self, times=True):
        """The table as text; without times it is the same in every run."""
        head = ["#", "signature", "trace ms", "compile ms", "why it was traced"]
        rows = [
            [str(r.index), r.signature, number(r.trace_ms), number(r.compile_ms), r.why]
            for r in self
        ]
        keep = [0, 1, 2, 3, 4] if times else [0, 1, 4]
        rows = [[row[i] for i in keep] for row in [head, *rows]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        widths[-1] = 0
        return "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    __repr__ = __str__ = table


def number(ms):
    """Milliseconds for the table."""
    return "" if ms is None else f"{ms:.2f}"
