"""Results in the memory of an operand that nobody needs any more.

    t0 = matmul(in0, in0)               out0 = matmul(in0, in0)
    for i in 64:                        for i in 64:
      out0[i] = tanh(t0[i])               out0[i] = tanh(out0[i])

A kernel that reads of an array only the element that it stores may store it there.  And
an update of some elements, which stores into a copy of its operand, needs no copy if
all others have read the operand by then: `overwriting` looks for an order of the steps
in which they have.

    with_reuse(program)                 # the program, with fewer buffers and copies
    with_reuse(program).copies          # which copies are left, and why
"""

from collections import defaultdict
from dataclasses import dataclass, replace

from .buffers import buffers_of, lifetimes, own_memory
from .expression_graphs import postorder, substitute
from .expressions import Axis, Const, Load, Reduce
from .loops import Call, For, Kernel, Store, after_pass, expressions
from .memory import Buffer, View
from .overwriting import (
    Overwriting,
    carries_of,
    copied_by,
    dependences,
    read_by,
    sorted_steps,
    written_by,
)

# Arrays of fewer bytes than that stay where they are: they fit into the cache twice,
# and a kernel that reads and writes two arrays is the same for more of them.
WORTH_REUSE = 1 << 14


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


# ---- one buffer in the place of another


class Names:
    """Which buffers are one: {buffer: the one in whose place it is}."""

    def __init__(self, program):
        self.program, self.found = program, {}

    def __getitem__(self, buffer):
        while buffer in self.found:
            buffer = self.found[buffer]
        return buffer

    def join(self, old, new):
        """Let two be one, a result if one of them is."""
        old, new = self[old], self[new]
        if new in self.program.outputs:
            old, new = new, old
        self.found[new] = old

    def program_with(self, body, done=()):
        """A program with these steps, in which what is one has one name.

        Args:
          done: the stores that copy an array onto itself, and so go.
        """
        steps = []
        for step in body:
            if self.found.keys().isdisjoint(buffers_of(step)):
                steps.append(step)
            elif isinstance(step, Call):
                sides = (step.inputs, step.outputs)
                inputs, outputs = (tuple(map(self.view, side)) for side in sides)
                steps.append(replace(step, inputs=inputs, outputs=outputs))
            elif rest := without(step.body, done):
                rest = tuple(s.rewrite(self.exprs, self.__getitem__) for s in rest)
                steps.append(replace(step, body=rest))
        temps = tuple(b for b in self.program.temps if b not in self.found)
        left = tuple(map(self.copy, self.program.copies))
        return replace(self.program, body=tuple(steps), temps=temps, copies=left)

    def copy(self, copy):
        return replace(copy, source=self[copy.source], target=self[copy.target])

    def view(self, view):
        return View(self[view.buffer], view.shape, view.strides, view.offset)

    def exprs(self, exprs):
        return substitute(list(exprs), self.load)

    def load(self, expr):
        if type(expr) is Load and expr.buffer in self.found:
            return Load(self[expr.buffer], expr.index)
        return None


def without(body, dropped):
    """Statements without some of them, and without loops that have nothing to do."""
    kept = []
    for stmt in body:
        if isinstance(stmt, For):
            inner = without(stmt.body, dropped)
            kept += [For(stmt.axis, inner)] if inner else []
        elif stmt not in dropped:
            kept.append(stmt)
    return tuple(kept)


# ---- kernels that write over what they read


def elementwise(kernel):
    """(axes, stores) of a kernel that is nothing but stores in one nest, or None."""
    axes, body = [], kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        axes.append(body[0].axis)
        body = body[0].body
    plain = all(type(s) is Store and s.combine is None for s in body)
    exprs = postorder(expressions(body)) if plain else ()
    fixed = all(type(axis.extent) is int for axis in axes)
    if not plain or not fixed or any(type(e) is Reduce for e in exprs):
        return None
    return axes, body


def covers(store, axes):
    """Whether a store in loops over some axes stores each element once."""
    pairs = zip(store.index, store.buffer.shape, strict=True)
    pairs = [(i, n) for i, n in pairs if type(i) is not Const or n > 1]
    moving = [i for i, _ in pairs]
    whole = all(type(i) is Axis and i.extent == n for i, n in pairs)
    return whole and len({*moving}) == len(moving) and {*moving} == {*axes}


def reusable(kernel, dying):
    """Which arrays a kernel may store in the place of others, and its stores' order.

    Args:
      dying: function of (read, stored): whether nobody else needs what is read.

    Returns:
      (pairs (read, stored), the kernel with its stores in an order for them).
    """
    found = elementwise(kernel)
    if found is None:
        return [], kernel
    axes, stores = found
    reads = {s: [e for e in postorder(s.uses()) if type(e) is Load] for s in stores}
    indices = defaultdict(set)
    for loads in reads.values():
        for load in loads:
            indices[load.buffer].add(load.index)
    pairs = {}
    for k, store in enumerate(stores):
        if not covers(store, axes):
            continue
        for old in indices:
            if old in (pair[0] for pair in pairs.values()):
                continue
            if indices[old] == {store.index} and dying(old, store.buffer):
                order = after_reads({**pairs, k: (old, store.buffer)}, stores, reads)
                if order is not None:
                    pairs[k] = old, store.buffer
                    break
    if not pairs:
        return [], kernel
    body = tuple(stores[k] for k in after_reads(pairs, stores, reads))
    for axis in reversed(axes):
        body = (For(axis, body),)
    return list(pairs.values()), replace(kernel, body=body)


def after_reads(pairs, stores, reads):
    """An order of stores in which an array is written when all others have read it."""
    before = [set() for _ in stores]
    for k, (old, _) in pairs.items():
        for j, store in enumerate(stores):
            if j != k and any(load.buffer is old for load in reads[store]):
                before[k].add(j)
    return sorted_steps(before)


def with_kernels_in_place(program):
    """A program whose elementwise kernels write over operands that end there."""
    lives, names, body = lifetimes(program), Names(program), list(program.body)
    temps = {*program.temps} - own_memory(program) - {*program.outputs}
    results = {*program.outputs} - own_memory(program) | temps
    for i, step in enumerate(body):
        if type(step) is not Kernel:
            continue

        def dying(old, new, i=i):
            ends = old in temps and lives[old][1] == i and lives[new][0] == i
            alike = (old.shape, old.dtype) == (new.shape, new.dtype)
            return ends and alike and new in results and old.nbytes >= WORTH_REUSE

        pairs, body[i] = reusable(step, dying)
        for old, new in pairs:
            names.join(old, new)
    return names.program_with(body) if names.found else program


# ---- updates without a copy


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


def with_updates_in_place(program):
    """A program in which updates of some elements are made in their operand's memory.

    Its `copies` are those that are left.
    """
    wanted = [(copied_by(store), store.buffer) for _, store in copies_of(program)]
    wanted = dict.fromkeys([*wanted, *inits_of(program)])
    if not wanted:
        return program
    plan, names = Overwriting(program, [], {}, alone=True), Names(program)
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


def obstacle(program, old, new, taken):
    """The rule that keeps a result out of its operand's memory, or None.

    Args:
      taken: the operands whose memory another result has.
    """
    if old in taken:
        return "taken"
    if old in program.inputs:
        return "argument"
    if old in dict(program.constants):
        return "constant"
    if old in program.outputs:
        return "result"
    if {old, new} & own_memory(program):
        return "python"
    return None


reasons = {
    "argument": "the caller may look at its argument again: donate it",
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


# ---- both


def with_reuse(program):
    """A program that needs less memory and copies less; its results are the same."""
    new = with_kernels_in_place(with_updates_in_place(program))
    if new is not program:
        for function in after_pass:
            function(new)
    return new
