"""Updates of some elements, without a copy of all the others.

    t0 = matmul(in0, in0)               out0 = matmul(in0, in0)
    for i in 64: t1[i] = t0[i]
    t1[3] = 1.0                         out0[3] = 1.0

An update stores into a copy of its operand, and a loop begins with a copy of what it is
given.  No copy is needed if all others have read the operand by then: `overwriting`
looks for an order of the steps in which they have.

    with_reuse(program)                 # the program, with fewer buffers and copies
    with_reuse(program).copies          # which copies are left, and why
"""

from dataclasses import dataclass, replace

from ...trace.jaxprs.memory import memoised
from ..loops.buffers import Buffer
from ..loops.contents import counted
from ..loops.statements import Kernel, Store, after_pass
from ..settings import config
from .arena import own_memory
from .in_place import (
    covers, elementwise, with_kernels_in_place, with_results_in_arguments,
)
from .overwriting import (
    Names, Overwriting, carries_of, copied_by, dependences, read_by, written_by,
)


@dataclass(frozen=True)
class Copy:
    """An array that is copied whole, because the one that it is copied from is kept.

    Attributes:
      source, target: the buffers.
      rule: why: `argument`, `constant`, `result`, `taken`, `python`, `read later` or
        `order`.
      reason: why, a sentence.
      eqns: the equations that the copy is made for; reader: the step that reads the
        source later, or None.
    """

    source: Buffer
    target: Buffer
    rule: str
    reason: str
    eqns: tuple = ()
    reader: object = None

    @property
    def nbytes(self):
        return self.target.nbytes

    @property
    def sources(self):
        """The lines of the user's program that ask for it."""
        return tuple(dict.fromkeys(e.source for e in self.eqns if e.source))

    def __str__(self):
        return f"{self.target} copies {self.source}, for {self.reason}"



def copies_of(program):
    """(kernel, store) for each store of a program that copies an array whole."""
    for step in program.body:
        if type(step) is not Kernel:
            continue
        found = elementwise(step)
        for store in found[1] if found else ():
            source = copied_by(store)
            same = source is not None and source.shape == store.buffer.shape
            if same and covers(store, found[0]):
                yield step, store


def inits_of(program):
    """(what a loop begins with, what it makes of it) for each carry of each loop."""
    for call in program.calls:
        for i, j in carries_of(call) if call.routine == "loop" else ():
            old, new = call.inputs[i], call.outputs[j]
            if old.whole and old.shape != () and old.buffer.dtype != object:
                yield old.buffer, new.buffer


def wanted_by(program):
    """Pairs (array, what is its copy to begin with) whose memory might be one."""
    copies = ((copied_by(store), store.buffer) for _, store in copies_of(program))
    return tuple(dict.fromkeys([*copies, *inits_of(program)]))


@memoised
def plan_within(program, *pairs):
    """The `plan` of a program within a loop: its own arrays are written over, too.

    What goes into a tape or a union is in its place there from the beginning.
    """
    found, own = Overwriting(program, pairs), {*program.temps} - {*program.outputs}
    own -= own_memory(program)
    for old, new in wanted_by(program):
        if {old, new} <= own and old not in found.over.values():
            found.allow([(old, new)])
    return found


def with_updates_in_place(program):
    """A program in which updates of some elements are made in their operand's memory.

    Its `copies` are those that are left.
    """
    wanted = wanted_by(program)
    if not wanted:
        return program
    plan, names = Overwriting(program, [], alone=True), Names(program)
    copies, taken = [], set()
    for old, new in wanted:
        rule = obstacle(program, old, new, taken)
        if rule is None and plan.allow([(old, new)]):
            names.join(old, new)
            taken.add(old)
        else:
            copies.append(explained(plan.program, old, new, rule))
    found = (store for _, store in copies_of(plan.program))
    done = {s for s in found if names[copied_by(s)] is names[s.buffer]}
    names.program = replace(plan.program, copies=tuple(copies))
    return names.program_with(plan.program.body, done)


def rejoined(program):
    """A program in which short kernels that were parted from one are one again.

    A few numbers are computed early by the kernel that needs them: it is one launch.
    """
    done = []
    for step in program.body:
        before = done[-1] if done else None
        parts = [s for s in (before, step) if type(s) is Kernel and is_short(s)]
        if len(parts) == 2 and before.name == step.name:
            step = replace(step, body=(*done.pop().body, *step.body))
        done.append(step)
    fewer = len(done) < len(program.body)
    return replace(program, body=tuple(done)) if fewer else program


def is_short(kernel):
    """Whether a kernel writes a few numbers, and reads nothing that it writes."""
    sizes = (times * stmt.buffer.dtype.itemsize for stmt, times in counted(kernel.body)
             if isinstance(stmt, Store))  # fmt: skip
    short = sum(sizes) < config.fusion.reuse_bytes
    return short and not written_by(kernel) & read_by(kernel)


def obstacle(program, old, new, taken):
    """The rule that keeps a result out of its operand's memory, or None.

    Args:
      taken: the operands whose memory another result has.
    """
    kept = {
        "taken": taken,
        "argument": {*program.inputs} - dict(program.donated).keys(),
        "constant": dict(program.constants),
        "result": program.outputs,
        "python": own_memory(program),
    }
    rules = (rule for rule, buffers in kept.items() if old in buffers)
    return next(rules, "python" if new in kept["python"] else None)


reasons = {
    "argument": "the caller may look at its argument again",
    "constant": "the next call needs the constant again",
    "result": "what is copied is itself a result",
    "taken": "another update has its memory",
    "python": "Python holds one of them",
}


def explained(program, old, new, rule):
    """The `Copy` of an array, and which reader of the old one comes too late."""
    makers = [s for s in program.body if new in written_by(s)]
    eqns = tuple(dict.fromkeys(e for step in makers for e in step.eqns))
    reader, reason = None, reasons.get(rule)
    if rule is None:
        reader = waiting_reader(program.body, old, new)
        name = getattr(reader, "name", getattr(reader, "routine", None))
        rule = "read later" if reader else "order"
        reason = f"{name} reads {old.name} later" if reader else "it is read meanwhile"
    return Copy(old, new, rule, reason, eqns, reader)


def waiting_reader(body, old, new):
    """The first step that reads `old` and needs what has become of `new`, or None."""
    changed = {i for i, step in enumerate(body) if new in written_by(step, old)}
    for j, before in enumerate(dependences(body)):
        if before & changed:
            if old in read_by(body[j]) and j not in changed:
                return body[j]
            changed.add(j)
    return None


def with_reuse(program):
    """A program that needs less memory and copies less; its results are the same."""
    new = with_kernels_in_place(with_updates_in_place(program))
    new = with_results_in_arguments(new)
    if new is program:
        return program
    for function in after_pass:
        function(new)
    return new
