"""One buffer in the place of another, in all steps of a program.

    names = Names(program)
    names.join(t0, out0)                # t0 is out0 from now on
    names.program_with(program.body)
"""

from dataclasses import replace

from ..loops.expressions import Load
from ..loops.graphs import substitute
from ..loops.kernel_buffers import buffer_names
from ..loops.statements import Call
from ..schedule.shared_loops import without


class Names:
    """Which buffers are one: {buffer: the one in whose place it is}."""

    def __init__(self, program):
        self.program, self.found = program, {}

    def __getitem__(self, buffer):
        while buffer in self.found:
            buffer = self.found[buffer]
        return buffer

    def join(self, old, new):
        """Let two be one: an argument if one of them is, or else a result."""
        old, new = self[old], self[new]
        if new in self.program.outputs and old not in self.program.inputs:
            old, new = new, old
        self.found[new] = old

    def program_with(self, body, done=()):
        """A program with these steps, in which what is one has one name.

        Args:
          done: the stores that copy an array onto itself, and so go.
        """
        steps = []
        for step in body:
            if isinstance(step, Call):
                sides = (step.inputs, step.outputs)
                inputs, outputs = (tuple(map(self.view, side)) for side in sides)
                steps.append(replace(step, inputs=inputs, outputs=outputs))
            elif self.found.keys().isdisjoint(buffer_names(step.body)):
                steps.append(step)
            elif rest := without(step.body, done):
                rest = tuple(s.rewrite(self.exprs, self.__getitem__) for s in rest)
                steps.append(replace(step, body=rest))
        temps = tuple(b for b in self.program.temps if b not in self.found)
        outputs = tuple(map(self.__getitem__, self.program.outputs))
        left = tuple(map(self.copy, self.program.copies))
        new = dict(body=tuple(steps), temps=temps, outputs=outputs, copies=left)
        return replace(self.program, **new)

    def copy(self, copy):
        return replace(copy, source=self[copy.source], target=self[copy.target])

    def view(self, view):
        return replace(view, buffer=self[view.buffer])

    def exprs(self, exprs):
        return substitute(list(exprs), self.load)

    def load(self, expr):
        if type(expr) is Load and expr.buffer in self.found:
            return Load(self[expr.buffer], expr.index)
        return None

