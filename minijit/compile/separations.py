"""Why two steps of a program are two: the answers of `report.why_not_fused(a, b)`.

    print(report.why_not_fused("kernel_0", "kernel_2"))
    # kernel_0 and kernel_2: kernel_1 needs kernel_0, and kernel_2 needs it.

The rules are asked one after the other; the first one that says something is right.
"""

from dataclasses import dataclass

from .explain import report_forms


@dataclass(frozen=True)
class Answer:
    """Why two steps are not one kernel.

    Attributes:
      rule: why, a name; reason: a sentence.
      nbytes: what one kernel would not have to move.
      setting: what would change it, or None.
    """

    a: str
    b: str
    rule: str
    reason: str
    nbytes: int = 0
    setting: str | None = None

    def __str__(self):
        parts = [f"{self.a} and {self.b}: {self.reason}."]
        if self.nbytes:
            parts.append(f"One kernel would move {self.nbytes:,} bytes less.")
        if self.setting:
            parts.append(f"To change it: minijit.fuse(f, {self.setting}=...).")
        return " ".join(parts)


def why_not_fused(report, a, b):
    """The `Answer` for two steps: the first rule that says something."""
    order = report.steps.index
    a, b = sorted((a, b), key=order)
    saved = shared_bytes(report, a, b)
    for rule in separations:
        found = rule(report, a, b)
        if found:
            return Answer(a.name, b.name, *found[:2], saved, *found[2:])
    raise AssertionError(f"no rule says anything of {a.name} and {b.name}")


def shared_bytes(report, a, b):
    """What would not be moved if two steps were one kernel."""
    read = {use.buffer: use.nbytes for use in a.reads}
    total = sum(min(u.nbytes, read[u.buffer]) for u in b.reads if u.buffer in read)
    kept = {u.buffer for s in report.steps if s not in (a, b) for u in s.reads}
    kept |= {array.buffer for array in report.arrays if array.role == "result"}
    for use in report.between(a, b):
        asked, = (u for u in b.reads if u.buffer is use.buffer)
        total += asked.nbytes + (0 if use.buffer in kept else use.nbytes)
    return total


def one_step(report, a, b):
    """One kernel: what was decided of its loops, and what would change that."""
    if a is not b:
        return None
    about = [d for d in report.decisions if d.a == (a.stmt,) and not d.b]
    about = [d for d in about if d.fused] or about
    reasons = dict.fromkeys(d.reason for d in about)
    settings = [d.setting for d in about if d.setting]
    return "same", "; ".join(["they are the same kernel", *reasons]), *settings[:1]


def is_a_call(report, a, b):
    """What is no loop nest of ours cannot be merged with one."""
    for step in (a, b):
        if step.route == "blas":
            return "call", f"{step.name} is a call of the BLAS, which is no kernel"
        if not step.is_kernel:
            return "call", f"{step.name} runs outside of kernels: {step.reason}"


def is_a_loop(report, a, b):
    for step in (a, b):
        if step.is_loop:
            return "loop", f"{step.name} is a loop with kernels inside"


def decided(report, a, b):
    """The ledger: what the fusion has decided about their equations."""
    ours = [set(a.eqns), set(b.eqns)]
    for decision in report.decisions:
        sides = equations(decision.a, a, b), equations(decision.b, a, b)
        for first, second in (ours, ours[::-1]):
            if not decision.fused and sides[0] & first and sides[1] & second:
                return decision.rule, decision.reason, decision.setting


def equations(side, a, b):
    """The equations of one side of a decision: of equations, kernels and calls."""
    found: set = set()
    for x in side:
        found.update(x.eqns if hasattr(x, "eqns") else [x])
    return found


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


def other_loops(report, a, b):
    first, second = (shape_of_loops(step.stmt) for step in (a, b))
    if first != second:
        told = (" x ".join(map(str, each)) or "none" for each in (first, second))
        return "loops", f"their loops differ: {' and '.join(told)}"
    return "policy", "the policy puts them into kernels of their own"


def shape_of_loops(kernel):
    """The extents of the outer loops of a kernel."""
    body, extents = kernel.body, []
    while len(body) == 1 and hasattr(body[0], "axis"):
        extents.append(body[0].axis.extent)
        body = body[0].body
    return extents


# Functions of (report, a, b): (rule, reason) or (rule, reason, setting); or None.
separations = [
    one_step,
    is_a_call,
    is_a_loop,
    decided,
    through_others,
    nothing_shared,
    other_loops,
]

report_forms |= {"why": why_not_fused}
