"""Loop programs as text, to be read.

    print(lower(make_jaxpr(lambda x: x.sum(1))(x)))
    # program main(in0: f32[4,8]):
    #   output out0: f32[4]
    #   k0:
    #     for i0 in 4:
    #       out0[i0] = add(k0 in 8: in0[i0, k0])

Where the parts of an expression are computed is not said, until `place` says it.
"""

from collections import Counter

from ...trace.base.errors import folded
from . import statements as loops
from .expression_text import expr_text, infix, number_text
from .expressions import Axis, Op, as_index
from .graphs import postorder
from .reductions import start_values

# How much of an expression is text; `place` leaves none that is deeper.
DEEPEST = 12
# What becomes of a kernel's statements before they are text.  `place` changes it.
arranged = {"kernel": tuple}


class Writer:
    """Lines of text, indented, with a name for each expression that has one.

    Attributes:
      names: {expression: its name} of those that are bound; known: of all that were.
    """

    def __init__(self):
        self.lines, self.counts = [], Counter()
        self.names, self.known = {}, {}

    def name(self, expr, prefix):
        """A new name, such as `i2`."""
        self.names[expr] = self.known[expr] = f"{prefix}{self.counts[prefix]}"
        self.counts[prefix] += 1
        return self.names[expr]

    def text(self, expr):
        for inside in postorder([expr], self.names):
            if type(inside) is Axis and inside.kind == "reduce":
                self.name(inside, "k")
        text = expr_text(expr, self.names, DEEPEST)
        plain = isinstance(expr, Op) and expr.name in infix and expr not in self.names
        return text[1:-1] if plain else text

    def line(self, indent, text):
        self.lines += folded("  " * indent + text).split("\n")

    def block(self, body, indent):
        outside = dict(self.names)
        for stmt in body:
            self.line(indent, self.statement(stmt))
            if isinstance(stmt, loops.While):
                self.block(stmt.test, indent + 1)
                self.line(indent + 1, f"if not {self.text(stmt.cond)}: break")
            for inner in stmt.bodies()[isinstance(stmt, loops.While) :]:
                if inner and isinstance(stmt, loops.If) and inner is stmt.otherwise:
                    self.line(indent, "else:")
                self.block(inner, indent + 1)
        # What is named in a block means nothing after it.
        self.names = outside

    def loop(self, axis):
        """`for i0 in 8:`, with the kind of an axis that is no simple loop."""
        extent = axis.extent if isinstance(axis.extent, int) else self.text(axis.extent)
        kind = f"{axis.kind} " if axis.kind in ("scan", "serial", "vector") else ""
        name = self.name(axis, "k" if axis.kind == "reduce" else "i")
        return f"for {name} in {kind}{extent}:"

    def statement(self, stmt):
        """The first line of a statement."""
        match stmt:
            case loops.For():
                return self.loop(stmt.axis)
            case loops.Let():
                text = self.text(stmt.expr)
                return f"{self.name(stmt.expr, 'v')} = {text}"
            case loops.Start():
                values = ", ".join(map(number_text, start_values(stmt.reduce)))
                return f"{self.name(stmt.reduce, 'r')} = {values}"
            case loops.Step():
                name, op = self.names[stmt.reduce], stmt.reduce.op
                bodies = ", ".join(map(self.text, stmt.reduce.bodies))
                return f"{name} {infix.get(op, op)}= {bodies}"
            case loops.Store():
                index = ", ".join(map(self.text, stmt.index))
                how = infix.get(stmt.combine, stmt.combine or "")
                return f"{stmt.buffer.name}[{index}] {how}= {self.text(stmt.value)}"
            case loops.If():
                return f"if {self.text(stmt.pred)}:"
            case loops.While():
                return "while:"
            case loops.Swap():
                return f"swap {stmt.first.name}, {stmt.second.name}"
            case loops.Reserve():
                return f"reserve {stmt.table.name}, {self.text(stmt.rows)}"
            case loops.Look():
                return f"look {self.text(stmt.work)}"
            case loops.Fail():
                return f"fail if {self.text(stmt.pred)}"
            case loops.Call():
                return call_text(stmt, lambda x: self.text(as_index(x)))
        raise TypeError(f"not a statement: {stmt!r}")


def written(body, indent=0):
    """A `Writer` that has written some statements."""
    writer = Writer()
    writer.block(body, indent)
    return writer


def view_text(view, text):
    """`x`, or `x[shape=.. strides=.. offset=..]` where it is not all of the buffer."""
    if view.whole:
        return view.buffer.name
    details = f"shape={view.shape} strides={view.strides}"
    return f"{view.buffer.name}[{details} offset={text(view.offset)}]"


def call_text(call, text=str):
    """`t0 = matmul(x, w)`, and which primitive or program is called."""
    outputs = ", ".join(view_text(view, text) for view in call.outputs)
    inputs = ", ".join(view_text(view, text) for view in call.inputs)
    program = call.attrs.get("program") or call.attrs.get("function")
    own = call.attrs.get("primitive") or call.attrs.get("name", "")
    which = program.name if program else own
    routine = f"{call.routine}[{which}]" if which else call.routine
    return f"{outputs} = {routine}({inputs})"


def program_text(program, form=None):
    """The whole program: buffers, then kernels and calls in order.

    Args:
      form: function of a kernel's statements: those to print.  By default as they run.
    """
    form = form or arranged["kernel"]
    inputs = ", ".join(map(str, program.inputs))
    lines = [f"program {program.name}({inputs}):"]
    for kind, buffers in [
        ("constant", [buffer for buffer, value in program.constants]),
        ("temp", program.temps),
        ("output", dict.fromkeys(program.outputs)),
    ]:
        lines += [f"  {kind} {buffer}" for buffer in buffers]
    for stmt in program.body:
        if isinstance(stmt, loops.Call):
            lines.append(folded("  " + call_text(stmt)))
            continue
        for function in getattr(stmt, "functions", ()):
            params = ", ".join(map(str, function.params))
            lines.append(f"  function {function.name}({params}):")
            lines += written(function.body, 2).lines
        placed = isinstance(stmt, loops.Region)
        body = written(stmt.body if placed else form(stmt.body), 2)
        lines += [f"  {stmt.name}:", *body.lines]
    inner = {id(c.attrs["program"]): c.attrs["program"] for c in program.calls
             if c.routine == "program"}
    texts = (program_text(program, form) for program in inner.values())
    return "\n\n".join(["\n".join(lines), *texts])


loops.program_printers["text"] = program_text
