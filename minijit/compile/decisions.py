"""The ledger: what was fused with what, what was not, and what would change that.

    for decision in lower(closed).decisions:
        print(decision)          # reduce_max | sub, exp: separate (total), 256 bytes
        print(decision.reason)   # every element of it takes a loop
"""

from collections import defaultdict
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from ..trace.jaxprs.jaxpr import Eqn
from .loops.graphs import TooLong, allowed, postorder


@dataclass(frozen=True, eq=False)
class Decision:
    """Whether two parts of a program share a kernel, or one has loops of some form.

    Attributes:
      a, b: what was compared: tuples of equations, and of kernels and calls.  b reads
        what a computes, or both read the same.  If it is about the form of one kernel,
        or of some equations, b is empty.
      fused: whether they share a kernel, or a has that form.
      rule: why, a name; numbers: what the rule compared, {name: number}.
      reason: why, a sentence.
      nbytes: what goes through memory for it, or would.
      settings: the fields of `Settings` that would change it, the first one most.
    """

    a: tuple
    b: tuple
    fused: bool
    rule: str
    reason: str
    nbytes: int
    settings: tuple = ()
    numbers: dict = field(default_factory=dict)

    @property
    def setting(self):
        """The setting that would change it first, or None."""
        return next(iter(self.settings), None)

    def __str__(self):
        first, second = (", ".join(names_of(side)) for side in (self.a, self.b))
        if not self.b:
            return f"{first}: {self.reason} ({self.rule})"
        how = "fused" if self.fused else "separate"
        return f"{first} | {second}: {how} ({self.rule}), {self.nbytes} bytes"


def eqns_of(side):
    """The equations of one side of a decision, each once."""
    parts = ((x,) if isinstance(x, Eqn) else x.eqns for x in side)
    return tuple(dict.fromkeys(eqn for eqns in parts for eqn in eqns))


def names_of(side):
    """The primitives of one side of a decision, each once."""
    return dict.fromkeys(eqn.primitive.name for eqn in eqns_of(side))


# The settings that would let a value be inlined which a rule stores, or be stored.
settings_of_rules = {
    "inline": ("cheap", "cheap_in_all"),
    "large kernel": ("most_operations",),
    "many arrays": ("most_buffers",),
    "recompute": ("cheap", "cheap_in_all"),
}


def decisions_of(walk, steps):
    """What the walk of `lower` decided: a `Decision` for each variable that is read.

    Args:
      steps: {group: the kernel or call that it has become}.
    """
    found = []
    for var, eqn in walk.made_by.items():
        readers = tuple(steps[group] for group in walk.readers.get(var, ()))
        if not readers:
            continue
        if var not in walk.stored:
            why = "inline", "its element is computed where it is asked for"
        else:
            why = walk.stored[var] or ("result", "it is a result of the program")
        rule, reason, *numbers = why
        nbytes = getattr(var.aval, "nbytes", 0) * (1 + len(readers))
        settings = settings_of_rules.get(rule, ())
        fused = var not in walk.stored
        about = (eqn,), readers, fused, rule, reason, nbytes, settings
        found.append(Decision(*about, *numbers))
    return tuple(found)


def still_true(program, parts, now_in):
    """The decisions of a program's walk that hold when some kernels have been merged.

    One does not if each kernel that reads a value is now the kernel that makes it.
    Where fusion has said no as well, both stay: why there were two, and why there
    still are.

    Args:
      parts: {number: what is left}; now_in: function of a kernel or call of the
        program: the number of what it is in.
    """
    homes = defaultdict(set)
    for number, part in parts.items():
        for eqn in part.step.eqns:
            homes[eqn].add(number)
    return tuple(
        d for d in program.decisions
        if d.fused or not d.b or not homes[d.a[0]].issuperset(map(now_in, d.b))
    )


# ---- the form of one kernel, or of some equations

# rule: (whether they have that form, why, *the settings that change it).
loop_rules: dict = {}
# While somebody wants to know: the list of what was decided.
notes: ContextVar = ContextVar("notes", default=None)


def noted(rule, *about, **numbers):
    """What a rule says of the loops that are looked at, or of the equations `about`.

    Returns:
      Whether they have a form.
    """
    found = notes.get()
    if found is not None:
        found.append((rule, about, numbers))
    return loop_rules[rule][0]


@contextmanager
def noting():
    """A list, of what rules say meanwhile."""
    found: list = []
    token = notes.set(found)
    try:
        yield found
    finally:
        notes.reset(token)


# How many expressions a pass may look at for each one of what it is given, and how many
# in any case.  All passes together look at one some 20 times, and 50 times at most.
VISITS, FREE = 100, 300_000


def in_bounds(change, form, parts, *about):
    """What a pass makes of a form; the form itself, where that takes too long.

    Args:
      change: a function that leaves its argument as it is.
      parts: function of the form: its expressions.
      about: the equations, kernels or calls that the remark is about, as in `noted`.
    """
    found = notes.get()
    known = len(found or ())
    for count in (lambda: FREE, lambda: VISITS * len(postorder(parts(form)))):
        try:
            with allowed(most := count()):
                return change(form)
        except TooLong:
            # What was decided is not what is done.
            del (found or [])[known:]
    noted("too long", *about, **{change.__name__: most})
    return form


loop_rules |= {
    "too long": (False, "a pass would look at its expressions again and again")
}


def of_rule(rule, about, numbers):
    """The `Decision` that a rule makes about a kernel, or about equations."""
    fused, reason, *settings = loop_rules[rule]
    nbytes = numbers.get("bytes", 0)
    return Decision(about, (), fused, rule, reason, nbytes, tuple(settings), numbers)


def decided(found, *kernel):
    """A `Decision` for each different note: about a kernel, where they name nothing."""
    different = {(rule, about, *numbers.items()): (rule, about, numbers)
                 for rule, about, numbers in found if about or kernel}  # fmt: skip
    return tuple(
        of_rule(rule, about or kernel, numbers)
        for rule, about, numbers in different.values()
    )


def with_notes(program, notes):
    """A program whose ledger says what rules said while it was made."""
    if not (found := decided(notes)):
        return program
    return replace(program, decisions=(*program.decisions, *found))


def decisions_about(kernel, arrange):
    """A `Decision` for each rule that a function asks about a kernel's statements."""
    with noting() as found:
        arrange(kernel.body)
    return decided(found, kernel)
