"""What was compiled: kernels and calls, what each reads and writes, and why.

    report = minijit.explain(f, x)        # made by `run/explaining.py`
    print(report)                         # all of it as text
    report.steps[0].reads                 # (Use(x: f32[4096,1024] ...),)
    report.traffic_bytes, report.ideal_bytes
    report.why_not_fused("kernel_0", "kernel_1")

A *step* is a kernel that is launched, or a call.  An *array* is what lies in memory
between steps.  All bytes that a program moves are read or written by one of its steps,
so the traffic of a program is the sum over its steps.
"""

import math
from dataclasses import dataclass, field

from .element_sets import count
from .loops import Kernel, Region
from .memory import Buffer


@dataclass(frozen=True, eq=False)
class Step:
    """One kernel, loop or call of a compiled program.

    Attributes:
      name: as in the generated source; those of inner programs as `f/kernel_0`.
      stmt: the `Kernel`, `Region` or `Call`; eqns: what it computes.
      reads, writes: a `Use` for each array.
      flops: how many operations on floating-point numbers, or None.
      route: what runs it: "llvm", "numba", "blas", "plain", "uncompiled".
      reason: why it is not compiled, or None.
      threads: how many may share it.
      source: function that gives its text.
    """

    name: str
    stmt: object
    eqns: tuple
    reads: tuple
    writes: tuple
    flops: int | None
    route: str
    reason: str | None = None
    threads: int = 1
    source: object = field(default=str, repr=False)

    @property
    def is_kernel(self):
        return isinstance(self.stmt, Kernel)

    @property
    def is_loop(self):
        return isinstance(self.stmt, Region)

    @property
    def nbytes(self):
        """Bytes read and bytes written."""
        return sum(use.nbytes for use in (*self.reads, *self.writes))

    @property
    def exact(self):
        """Whether these are known bytes, and no upper bound."""
        return all(use.exact for use in (*self.reads, *self.writes))

    @property
    def text(self):
        return self.source()

    @property
    def lines(self):
        """{line of the user's program: {what made its equations: their primitives}}."""
        found: dict = {}
        for eqn in self.eqns:
            made = found.setdefault(eqn.source, {}).setdefault(made_by(eqn), {})
            made[eqn.primitive.name] = made.get(eqn.primitive.name, 0) + 1
        return found


def made_by(eqn):
    """How an equation came to be: `primal`, or the transformations that made it."""
    made = eqn.source.made if eqn.source else ()
    if "transposed" in made:
        made = [how for how in made if how != "tangent"]
    return ", ".join(made) or "primal"


@dataclass(frozen=True, eq=False)
class Array:
    """Memory between the steps of a program.

    Attributes:
      buffer: its `Buffer`; role: `argument`, `constant`, `result` or `temporary`.
      first, last: the numbers of the first and the last step that use it, or None.
      offset: where in the program's arena it lies, if it lies there.
    """

    buffer: Buffer
    role: str
    first: int | None = None
    last: int | None = None
    offset: int | None = None

    @property
    def name(self):
        return self.buffer.name

    @property
    def nbytes(self):
        return self.buffer.nbytes

    def __str__(self):
        return str(self.buffer)


class Report:
    """All that is known of a compiled function.  Print it, or look at its parts.

    Attributes:
      name: the function's.
      steps: its kernels, loops and calls, in the order in which they run.
      arrays: the `Array`s between them.
      decisions: why steps are separate, what moves most bytes first.
      fallbacks: pairs (primitive, reason) of what runs uncompiled.
      peak: the most bytes that are in use at once, besides arguments and constants.
    """

    def __init__(self, name, steps, arrays, decisions=(), fallbacks=(), peak=None):
        self.name, self.steps, self.fallbacks = name, tuple(steps), tuple(fallbacks)
        self.arrays = tuple(arrays)
        self.decisions = sorted(decisions, key=lambda d: -d.nbytes)
        self.peak = most_alive(self.arrays) if peak is None else peak

    @property
    def kernels(self):
        """The steps that are kernels, or loops."""
        return [step for step in self.steps if step.is_kernel]

    @property
    def calls(self):
        """The other ones: products of matrices, and what runs uncompiled."""
        return [step for step in self.steps if not step.is_kernel]

    @property
    def buffers(self):
        """The arrays that the program makes."""
        return [a for a in self.arrays if a.role in ("temporary", "result")]

    @property
    def traffic_bytes(self):
        """The bytes that all steps read and write."""
        return sum(step.nbytes for step in self.steps)

    @property
    def ideal_bytes(self):
        """Arguments and constants read once, as far as needed; results written once."""
        total = 0
        for array in self.arrays:
            if array.role == "result":
                total += array.nbytes
            elif array.role != "temporary":
                uses = (use for step in self.steps for use in step.reads)
                sets = [s for u in uses if u.buffer is array.buffer for s in u.sets]
                number, _ = count(sets, array.buffer.shape)
                total += number * array.buffer.dtype.itemsize
        return total

    @property
    def unread(self):
        """The temporaries that are written, and that no step reads."""
        read = {use.buffer for step in self.steps for use in step.reads}
        made = (a for a in self.arrays if a.role == "temporary")
        return [a for a in made if a.buffer not in read and a.first is not None]

    @property
    def exact(self):
        """Whether `traffic_bytes` is known, and no upper bound."""
        return all(step.exact for step in self.steps)

    @property
    def flops(self):
        """Operations on floating-point numbers; None if a loop's steps are unknown."""
        known = [step.flops for step in self.steps]
        return None if None in known else sum(known)

    def step(self, which):
        """A step by its number, its name, or itself."""
        if isinstance(which, Step):
            return which
        if isinstance(which, int):
            return self.steps[which]
        found = [step for step in self.steps if step.name == which]
        if not found:
            names = ", ".join(dict.fromkeys(step.name for step in self.steps))
            raise ValueError(f"no step is called {which!r}; there are: {names}")
        return found[0]

    def between(self, a, b):
        """The arrays that one step writes and the other one reads."""
        a, b = self.step(a), self.step(b)
        read = {use.buffer for use in b.reads}
        return [use for use in a.writes if use.buffer in read]

    def why_not_fused(self, a, b):
        """Why two steps are not one kernel: an `Answer`."""
        return why_not_fused(self, self.step(a), self.step(b))

    def dot(self):
        """The graph of what is read and written, in Graphviz' language."""
        return report_forms["dot"](self)

    def plot(self, which=None):
        """The graph, the lives of the arrays, and a roofline: matplotlib figures."""
        return report_forms["plot"](self, which)

    def __str__(self):
        return report_forms["text"](self)

    __repr__ = __str__

    def _repr_html_(self):
        return report_forms["html"](self)


# name -> function of a report; later modules add the forms that it is shown in.
report_forms: dict = {"text": lambda report: f"report of {report.name}"}


def most_alive(arrays):
    """The most bytes that are in use at one step; results stay to the end."""
    made = [a for a in arrays if a.role in ("temporary", "result")]
    alive = [a for a in made if a.first is not None]
    ends = {a: math.inf if a.role == "result" else a.last for a in alive}
    return max(
        (
            sum(a.nbytes for a in alive if a.first <= n <= ends[a])
            for n in {a.first for a in alive}
        ),
        default=0,
    )


# ---- why two steps are two


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
            parts.append(f"To change it: {self.setting}.")
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
    return ("same", "they are the same kernel") if a is b else None


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
