"""What was compiled: kernels and calls, what each reads and writes, and why.

    report = minijit.explain(f, x)        # made by `run/report/explaining.py`
    print(report)                         # all of it as text
    report.steps[0].reads                 # (Use(x: f32[4096,1024] ...),)
    report.traffic_bytes, report.ideal_bytes
    report.why_not_fused("kernel_0", "kernel_1")

A *step* is a kernel that is launched, or a call.  An *array* is what lies in memory
between steps.  All bytes that a program moves are read or written by one of its steps,
so the traffic of a program is the sum over its steps.
"""

from dataclasses import dataclass, field

from ...trace.base.demand import add_rows
from ...trace.jaxprs.jaxpr import subjaxprs
from ..fuse.traffic import Traffic
from ..loops.buffers import Buffer
from ..loops.element_sets import count
from ..loops.statements import Kernel, Region


@dataclass(frozen=True, eq=False, kw_only=True)
class Step(Traffic):
    """One kernel, loop or call of a compiled program, and its traffic.

    Attributes:
      name: as in the generated source; those of inner programs as `f/kernel_0`.
      stmt: the `Kernel`, `Region` or `Call`; eqns: what it computes.
      program, run: the `Program` that it is a step of, and in which run of it.
      route: what runs it: "llvm", "numba", "product", "plain", "uncompiled".
      reason: why it is not compiled, or None.
      threads: how many may share it.
      source: function that gives its text.
    """

    name: str
    stmt: object
    program: object
    run: int
    eqns: tuple
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
    def is_driven(self):
        """Whether it is a loop that Python drives: what that moves is not known."""
        return self.route == "uncompiled" and any(map(subjaxprs, self.eqns))

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
      buffer: its `Buffer`; role: `argument`, `constant`, `result` or `temporary`, or
        `donated`: an argument that becomes a result.
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
      copies: arrays that are copied whole, each with its reason.
      count_steps: function of changes of settings, {name: value}: how many steps
        there are with them; or None.
    """

    count_steps = None

    def __init__(self, name, steps, arrays, decisions, fallbacks, peak, copies):
        self.name, self.steps, self.arrays = name, tuple(steps), tuple(arrays)
        self.decisions = sorted(decisions, key=lambda d: -d.nbytes)
        self.fallbacks, self.peak, self.copies = tuple(fallbacks), peak, copies

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
        """Arguments and constants read once, as far as needed; results written once.

        A result in the memory of an argument is written as far as it changes.
        """
        total = sum(a.nbytes for a in self.arrays if a.role == "result")
        sides = {"result": (), "temporary": (), "donated": ("reads", "writes")}
        for array in self.arrays:
            for side in sides.get(array.role, ("reads",)):
                uses = (use for step in self.steps for use in getattr(step, side))
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
        """Whether `traffic_bytes` is known, and not only a bound."""
        return all(step.exact and not step.is_driven for step in self.steps)

    @property
    def flops(self):
        """Operations on floating-point numbers; None if a loop's steps are unknown."""
        known = [step.flops for step in self.steps]
        return None if None in known else sum(known)

    def step(self, which):
        """A step by its number, its name, or itself; or by an array that it writes."""
        if isinstance(which, Step):
            return which
        if isinstance(which, int):
            if not -len(self.steps) <= which < len(self.steps):
                raise IndexError(f"step {which} of {len(self.steps)} steps")
            return self.steps[which]
        found = [s for s in self.steps if s.name == which]
        found += [s for s in self.steps if which in (u.buffer.name for u in s.writes)]
        if not found:
            names = ", ".join(dict.fromkeys(step.name for step in self.steps))
            raise ValueError(f"no step is called {which!r}; there are: {names}")
        return found[0]

    def between(self, a, b):
        """The arrays that one step writes and the other one reads."""
        a, b = self.step(a), self.step(b)
        read = {use.buffer for use in b.reads}
        return [use for use in a.writes if use.buffer in read]

    def form(self, name, *args):
        """What a row of `report_forms` makes of the report."""
        add_rows("compile.report.explain")
        return report_forms[name](self, *args)

    def why_not_fused(self, a, b):
        """Why two steps, given as to `step`, are not one kernel: an `Answer`."""
        return self.form("why", self.step(a), self.step(b))

    def dot(self):
        """The graph of what is read and written, in Graphviz' language."""
        return self.form("dot")

    def plot(self, which=None):
        """The graph, the lives of the arrays, and a roofline: matplotlib figures."""
        return self.form("plot", which)

    def __str__(self):
        return self.form("text")

    __repr__ = __str__

    def _repr_html_(self):
        return self.form("html")


# name -> function of a report; later modules add the forms that it is shown in.
report_forms: dict = {"text": lambda report: f"report of {report.name}"}
