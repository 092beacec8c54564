"""Why two steps of a program are two: the answers of `report.why_not_fused(a, b)`.

    print(report.why_not_fused("kernel_0", "kernel_2"))
    # kernel_0 and kernel_2: kernel_1 needs kernel_0, and kernel_2 needs it.

The rules are asked one after the other; the first one that says something is right.
"""

from collections import Counter
from dataclasses import dataclass

from ...trace.jaxprs.memory import memoised
from ..decisions import eqns_of
from ..fuse.fusion import Fusion
from ..loops.statements import Kernel
from .explain import report_forms


@dataclass(frozen=True, repr=False)
class Answer:
    """Why two steps are not one kernel.

    Attributes:
      rule: why, a name; reason: a sentence.
      nbytes: what one kernel would not have to move.
      setting: what would change it, or None; value: what it would have to be, if known.
      now: what the setting is.
    """

    a: str
    b: str
    rule: str
    reason: str
    nbytes: int = 0
    setting: str | None = None
    value: object = None
    now: object = None

    def __str__(self):
        parts = [f"{self.a} and {self.b}: {self.reason}."]
        if self.nbytes:
            parts.append(f"One kernel would move {self.nbytes:,} bytes less.")
        if self.setting and self.value is None:
            parts.append(f"The setting {self.setting} decides it: it is {self.now}.")
        elif self.setting:
            parts.append(f"To change it: minijit.fuse(f, {self.setting}={self.value}).")
        return " ".join(parts)

    __repr__ = __str__


def why_not_fused(report, a, b):
    """The `Answer` for two steps: the first rule that says something."""
    order = report.steps.index
    a, b = sorted((a, b), key=order)
    saved = 0 if a is b else shared_bytes(report, a, b)
    for rule in separations:
        found = rule(report, a, b)
        if found:
            advice = tried(report, a, *found[2:])
            return Answer(a.name, b.name, *found[:2], saved, *advice)
    raise AssertionError(f"no rule says anything of {a.name} and {b.name}")


def tried(report, step, setting=None, value=None):
    """The setting, its value and what it is; nothing if there are as many steps so."""
    if setting is None:
        return ()
    count = report.count_steps
    if value is not None and count and count({setting: value}) >= count({}):
        return ()
    return setting, value, getattr(step.program.settings, setting)


def shared_bytes(report, a, b):
    """What would not be moved if two steps were one kernel."""
    read, again = bytes_of(a.reads), bytes_of(b.reads)
    total = (read & again).total()
    kept = {u.buffer for s in report.steps if s not in (a, b) for u in s.reads}
    kept |= {array.buffer for array in report.arrays if array.role == "result"}
    for use in report.between(a, b):
        total += again[use.buffer] + (0 if use.buffer in kept else use.nbytes)
    return total


def bytes_of(uses):
    """{buffer: how many bytes of it are used}; a call may be given it twice."""
    total: Counter = Counter()
    for use in uses:
        total[use.buffer] += use.nbytes
    return total


def one_step(report, a, b):
    """One kernel: what was decided of its loops, and what would change that."""
    if a is not b:
        return None
    about = [d for d in report.decisions if not d.b and is_about(d, a)]
    about = [d for d in about if d.fused] or about
    reasons = dict.fromkeys(d.reason for d in about)
    settings = [d.setting for d in about if d.setting]
    return "same", "; ".join(["they are the same step", *reasons]), *settings[:1]


def is_about(decision, step):
    """Whether what a decision names is the step, or a part of what it computes."""
    eqns = {*eqns_of(decision.a)}
    return decision.a == (step.stmt,) or bool(eqns) and eqns <= {*step.eqns}


def is_a_call(report, a, b):
    """What is no loop nest of ours cannot be merged with one."""
    for step in (a, b):
        if step.route == "product":
            what = "a product of matrices: a call of a routine, no kernel"
            calls = (d for d in report.decisions if d.rule == "call" and d.setting)
            own = [(d.setting, *d.numbers.values()) for d in calls if is_about(d, step)]
            return "call", f"{step.name} is {what}", *max(own, default=())
        if not step.is_kernel:
            return "call", f"{step.name} runs outside of kernels: {step.reason}"


def is_a_loop(report, a, b):
    for step in (a, b):
        if step.is_loop:
            return "loop", f"{step.name} runs loops or branches, with kernels inside"


def in_a_call(report, a, b):
    """What a function does that is called stays within the call."""
    if a.run == b.run:
        return None
    called = max((step.name.rpartition("/")[0] for step in (a, b)), key=len)
    told = f"{called} is called as a function, with kernels of its own"
    sizes = [d.numbers["equations"] for d in report.decisions if d.rule == "called"]
    return "called", told, *(("small_function", max(sizes)) if sizes else ())


chosen_apart = {
    "schedule": "apart, its loops cost least",
    "tuned": "apart, its loops were fastest",
    "by hand": "a schedule of your own has them apart",
}


def by_price(report, a, b):
    """Loops that were one kernel, until the price of their ways to run was known."""
    if not a.eqns or a.eqns != b.eqns:
        return None
    for d in report.decisions:
        if d.rule in chosen_apart and {*eqns_of(d.a)} == {*a.eqns}:
            costs = ", ".join(f"{way} {cost:,}" for way, cost in d.numbers.items())
            return d.rule, f"{chosen_apart[d.rule]}, in nanoseconds ({costs})"


def through_others(report, a, b):
    """A third step that needs the first one, and that the second one needs."""
    first, last = map(report.steps.index, (a, b))
    waits = {a}
    for step in report.steps[first + 1 : last]:
        if any(report.between(earlier, step) for earlier in waits):
            waits.add(step)
    for step in waits - {a}:
        if report.between(step, b):
            return "path", f"{step.name} needs {a.name}, and {b.name} needs it"


def nothing_shared(report, a, b):
    if shared_bytes(report, a, b) == 0:
        return "nothing shared", "they share no array, so one kernel would save nothing"


def numbers_only(report, a, b):
    """Numbers without axes say nothing of loops: fusion does not go by them."""
    used = [{u.buffer for u in (*s.reads, *s.writes)} for s in (a, b)]
    if all(buffer.shape == () for buffer in used[0] & used[1]):
        return "numbers", "they share single numbers, and no array that both go through"


def inlining(report, a, b):
    """Whether a value of the first one would be a part of the second one otherwise.

    It is not said of two that fusion would merge with another setting: that is nearer.
    """
    found = None if numbers_only(report, a, b) else merging(a, b)[-1]
    if found is None or found.fused or not found.setting:
        return stored(report, a, b)


def stored(report, a, b):
    """Why a value that the second one takes from the first one is stored, or None."""
    made = {var for eqn in a.eqns for var in eqn.outvars}
    wanted = made.intersection(atom for eqn in b.eqns for atom in eqn.invars)
    for decision in (d for d in report.decisions if d.b and not d.fused and d.settings):
        eqn = decision.a[0]
        if hasattr(eqn, "outvars") and wanted.intersection(eqn.outvars):
            told = f"{eqn.primitive} is stored: {decision.reason}"
            value = value_for(decision, a.program.settings)
            return decision.rule, told, decision.setting, value


@memoised
def fusion_of(program):
    """Its `Fusion`, of one whose steps were asked about."""
    return Fusion(program, program.settings)


def merging(a, b):
    """Fusion, asked once more: -> (its state, the numbers of two kernels, `Decision`).

    It is None where both are parts of one kernel.
    """
    fusion = fusion_of(a.program)
    numbers = {known_by(part.step): n for n, part in fusion.parts.items()}
    pair = [numbers[known_by(step.stmt)] for step in (a, b)]
    same = pair[0] == pair[1]
    return fusion, pair, None if same else fusion.decide(*fusion.in_order(*pair))


def compared(report, a, b):
    """What fusion says of two kernels, and why there were two to begin with."""
    fusion, pair, found = merging(a, b)
    if not found:
        return "parts", "a GPU has several kernels for one: its blocks cannot wait"
    match found.rule:
        case "no nest":
            told = map(own_order, (fusion.parts[n] for n in pair), (a, b))
            return found.rule, next(filter(None, told))
        case "path":
            third = known_by(fusion.parts[fusion.path(*pair)].step)
            steps = (s for s in report.steps if s.run == a.run)
            name = next((s.name for s in steps if known_by(s.stmt) == third), "a call")
            return found.rule, f"{name} has to run between them"
    if found.fused:
        return not_asked(report, a, b)
    cause = stored(report, a, b)
    told = f"{found.reason}, and {cause[1]}" if cause else found.reason
    return found.rule, told, found.setting, value_for(found, a.program.settings)


def known_by(stmt):
    """What a step of a program keeps while others change it: its name, or itself."""
    return stmt.name if isinstance(stmt, Kernel) else stmt


def value_for(decision, settings):
    """What the setting of a decision would have to be, or None."""
    numbers = iter(decision.numbers.values())
    old = getattr(settings, decision.setting or "enabled")
    if decision.setting and isinstance(old, bool):
        return not old
    return 0.0 if decision.rule == "columns" else next(numbers, None)


def own_order(part, step):
    """Why a kernel has no loops that another one could share; None if it has."""
    if part.is_nest:
        return None
    if part.axes:
        return f"{step.name} has an order of its own, as running totals and updates"
    loops = sum(hasattr(s, "axis") for s in part.body)
    what = "is several loops, one after the other" if loops else "is a total, no more"
    return f"{step.name} {what}: no loop is around all of it"


def not_asked(report, a, b):
    """Why fusion has left two kernels apart that it would merge."""
    if not a.program.settings.enabled:
        return "off", "kernels are not merged at all", "enabled", True
    for d in report.decisions:
        if d.rule == "not compared" and {*eqns_of(d.a)} & {*a.eqns, *b.eqns}:
            return d.rule, d.reason, d.setting, *d.numbers.values()
    return "order", "other pairs were merged first, and these two were left"


# Functions of (report, a, b): (rule, reason), then the setting that would change it and
# the value that this would need, if they are known; or None.
separations = [
    one_step,
    by_price,
    through_others,
    nothing_shared,
    is_a_call,
    is_a_loop,
    in_a_call,
    inlining,
    numbers_only,
    compared,
]

report_forms |= {"why": why_not_fused}
